//! Transitions as matrices for products with messages.
//!
//! Table t is written as log-transition(i, j) = rowₜ(i) + ln Mₜ(i, j) + columnₜ(j) with 0 ≤ M ≤ 1. A message
//! with largest entry 1 then loses at most N·TINY in a product. The caller checks this and repairs entries
//! from the logarithms.
//!
//! M of a shared table is stored in memory; it is the only N×N array besides the model's. Other matrices are
//! computed tile by tile on demand: per-step tables and chosen states by reading and exponentiating, factored
//! ones by a small product first (`tiles`). Matrices of low rank are never computed; messages are multiplied
//! by their factors (`low_rank`). Sparse matrices are stored as lists of entries (`sparse`). `shifts` computes rowₜ and columnₜ, `sweep` the products and
//! `gradient` the derivatives. Each splits its work into pieces that depend only on the shape and adds them
//! up in order, so results have the same bits for any number of threads.

mod gradient;
mod low_rank;
#[cfg(test)]
mod naive;
mod shifts;
mod sparse;
mod sweep;
#[cfg(test)]
mod tests;
mod tiles;

/// Sizes of scratch memory, for forecasts.
pub(super) mod scratch {
    pub(in crate::method::dynamic::lattice) use super::gradient::group_of;
    pub(in crate::method::dynamic::lattice) use super::low_rank::BLOCK;
    pub(in crate::method::dynamic::lattice) use super::sparse::{GROUP as SPARSE_GROUP, together};
    pub(in crate::method::dynamic::lattice) use super::sweep::wave_length;
    pub(in crate::method::dynamic::lattice) use super::tiles::{PANELS, ROWS, tile_columns};
}

use super::entries::{ChainEntries, Entries, Index, Listed};
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;
pub(crate) use low_rank::Factors;
use low_rank::LowRank;
use shifts::Shifts;
use sparse::Sparse;
use tiles::{Factored, Filled, Stored, Tiles};

/// `count` messages, the rows of `input`, multiplied by table t into the rows of `output`.
pub(crate) struct Product<'a, F> {
    pub t: usize,
    pub count: usize,
    pub input: &'a [F],
    pub output: &'a mut [F],
}

/// The scaled matrices of a lattice.
pub(crate) trait Steps<F: Real>: Sync {
    /// The number of states of the layers before and after boundary t.
    fn shape(&self, t: usize) -> (usize, usize);

    /// True if all boundaries have the same matrix, so products of different boundaries may share a call.
    fn shared(&self) -> bool;

    /// Table t as a product of factors, if it has low rank.
    fn low_rank(&self, _t: usize) -> Option<&Factors<'_, F>> {
        None
    }

    /// The part of log-transition(i, j) that depends only on i.
    fn row_shifts(&self, t: usize) -> &[F];

    /// The part of log-transition(i, j) that depends only on j.
    fn column_shifts(&self, t: usize) -> &[F];

    /// output = input·Mₜ for `forward` and output = input·Mₜᵀ for `backward`. If both use the same table,
    /// each tile is read once.
    fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>);

    /// The same with M ∘ D for a direction D, unscaled. Entries with M = 0 contribute 0 for any D.
    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    );

    /// ln Mₜ(i, ·) for the states of the returned list.
    fn log_row(&self, t: usize, i: usize, out: &mut Vec<F>) -> Listed<'_>;

    /// ln Mₜ(·, j) for the states of the returned list.
    fn log_column(&self, t: usize, j: usize, out: &mut Vec<F>) -> Listed<'_>;

    /// Adds Σₖ left_k(i)·Mₜ(i, j)·right_k(j), times D(i, j) if there is a direction, to the gradient with
    /// respect to log-transition(i, j). The gradient has the form of the model's transitions.
    fn add_gradient(
        &self,
        t: usize,
        count: usize,
        left: &[F],
        right: &[F],
        direction: Option<&dyn Entries<F>>,
        gradient: &mut TransitionGradient<F>,
    );
}

/// The matrices of a chain of `states` states.
pub(crate) fn steps_of<'a, F: Real>(
    transitions: &'a Transitions<F>,
    states: usize,
    boundaries: usize,
    clock: &Clock<'_>,
) -> Result<Box<dyn Steps<F> + 'a>> {
    if let Transitions::LowRank { left, right } = transitions {
        return Ok(Box::new(LowRank::shared((left, right), states, boundaries, clock)?));
    }
    if let Transitions::Sparse { pattern, values, per_step } = transitions {
        return Ok(Box::new(Sparse::new(pattern, values, *per_step, boundaries, clock)?));
    }
    let entries = ChainEntries { transitions, states };
    let tables = if entries.shared() { boundaries.min(1) } else { boundaries };
    let shifts = shifts::of_all(tables, &|| clock.must_stop(), |t| View { entries: &entries, t, sets: None });
    clock.check()?;
    let stored = match (transitions, shifts.first()) {
        (Transitions::Shared(table), Some(shifts)) => Some(Stored::new(table, states, shifts, clock)),
        _ => None,
    };
    clock.check()?;
    Ok(Box::new(Scaled { entries, sets: None, shifts, stored }))
}

/// The matrices between the states that `sets` keep before and after each boundary. A set may contain a state
/// more than once.
pub(crate) fn restricted_steps_of<'a, F: Real>(
    transitions: &'a Transitions<F>,
    states: usize,
    sets: Vec<(&'a [u32], &'a [u32])>,
) -> Box<dyn Steps<F> + 'a> {
    if let Transitions::LowRank { left, right } = transitions {
        return Box::new(LowRank::restricted((left, right), states, sets));
    }
    let entries = ChainEntries { transitions, states };
    let view = |t: usize| View { entries: &entries, t, sets: Some(sets[t]) };
    let shifts = shifts::of_all(sets.len(), &|| false, view);
    Box::new(Scaled { entries, sets: Some(sets), shifts, stored: None })
}

/// One table: the whole table, or the part between two sets of states.
#[derive(Clone, Copy)]
struct View<'a, F: Real> {
    entries: &'a ChainEntries<'a, F>,
    t: usize,
    sets: Option<(&'a [u32], &'a [u32])>,
}

impl<'a, F: Real> View<'a, F> {
    fn shape(&self) -> (usize, usize) {
        let all = self.entries.states;
        self.sets.map_or((all, all), |(before, after)| (before.len(), after.len()))
    }

    fn fill(&self, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, out: &mut [F]) {
        let (rows, columns) = match self.sets {
            None => (Index::Range(rows), Index::Range(columns)),
            Some((before, after)) => (Index::List(&before[rows]), Index::List(&after[columns])),
        };
        self.entries.fill(self.t, rows, columns, out);
    }

    /// The embeddings of a factored table.
    fn embeddings(&self) -> Option<(&'a [F], &'a [F])> {
        match self.entries.transitions {
            Transitions::Factored { left, right } => Some((left, right.as_ref().unwrap_or(left))),
            _ => None,
        }
    }
}

/// Scaled matrices.
struct Scaled<'a, F: Real> {
    entries: ChainEntries<'a, F>,
    sets: Option<Vec<(&'a [u32], &'a [u32])>>,
    shifts: Vec<Shifts<F>>,
    /// M of a shared table.
    stored: Option<Stored<F>>,
}

impl<F: Real> Scaled<'_, F> {
    fn view(&self, t: usize) -> View<'_, F> {
        View { entries: &self.entries, t, sets: self.sets.as_ref().map(|sets| sets[t]) }
    }

    fn shifts(&self, t: usize) -> &Shifts<F> {
        &self.shifts[if self.shared() { 0 } else { t }]
    }

    /// Calls `work` with the source of the tiles of M.
    fn with_tiles(&self, t: usize, work: impl FnOnce(&dyn Tiles<F>)) {
        let (view, shifts) = (self.view(t), self.shifts(t));
        if let Some(stored) = &self.stored {
            work(stored);
        } else if view.embeddings().is_some() {
            work(&Factored::new(view, Some(shifts)));
        } else {
            work(&Filled { view, shifts });
        }
    }

    /// Log-transitions minus shifts.
    fn scaled(&self, t: usize, rows: std::ops::Range<usize>, columns: std::ops::Range<usize>, out: &mut [F]) {
        let shifts = self.shifts(t);
        self.view(t).fill(rows.clone(), columns.clone(), out);
        for (row, &shift) in out.chunks_exact_mut(columns.len()).zip(&shifts.rows[rows]) {
            for (x, &column) in row.iter_mut().zip(&shifts.columns[columns.clone()]) {
                *x = (*x - shift) - column;
            }
        }
    }
}

impl<F: Real> Steps<F> for Scaled<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.view(t).shape()
    }

    fn shared(&self) -> bool {
        self.sets.is_none() && self.entries.shared()
    }

    fn row_shifts(&self, t: usize) -> &[F] {
        &self.shifts(t).rows
    }

    fn column_shifts(&self, t: usize) -> &[F] {
        &self.shifts(t).columns
    }

    fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>) {
        self.products(None, forward, backward);
    }

    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        self.products(Some(direction), forward, backward);
    }

    fn log_row(&self, t: usize, i: usize, out: &mut Vec<F>) -> Listed<'_> {
        out.resize(self.shape(t).1, F::ZERO);
        self.scaled(t, i..i + 1, 0..self.shape(t).1, out);
        Listed(None)
    }

    fn log_column(&self, t: usize, j: usize, out: &mut Vec<F>) -> Listed<'_> {
        out.resize(self.shape(t).0, F::ZERO);
        self.scaled(t, 0..self.shape(t).0, j..j + 1, out);
        Listed(None)
    }

    fn add_gradient(
        &self,
        t: usize,
        count: usize,
        left: &[F],
        right: &[F],
        direction: Option<&dyn Entries<F>>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let View { entries, sets, .. } = self.view(t);
        let pattern = match entries.transitions {
            Transitions::Sparse { pattern, per_step, .. } => Some((pattern, *per_step)),
            _ => None,
        };
        let states = entries.states;
        let edges = gradient::Edges { t, sets, states, pattern, count, left, right, direction };
        self.with_tiles(t, |tiles| edges.add(tiles, gradient));
    }
}

impl<F: Real> Scaled<'_, F> {
    fn products(
        &self,
        direction: Option<&dyn Entries<F>>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        match (forward.filter(|task| task.count > 0), backward.filter(|task| task.count > 0)) {
            (None, None) => {}
            // Different tables share no tiles.
            (Some(forward), Some(backward)) if !self.shared() && forward.t != backward.t => {
                self.products(direction, Some(forward), None);
                self.products(direction, None, Some(backward));
            }
            (forward, backward) => {
                let t = forward.as_ref().or(backward.as_ref()).map_or(0, |task| task.t);
                self.with_tiles(t, |tiles| sweep::multiply(tiles, t, direction, forward, backward));
            }
        }
    }
}
