//! Matrices of low rank: exp log-transition(i, j) = Σᵣ exp(left_ir + right_jr).
//!
//! A step through R intermediate states r. With shifts row(i), middle(r) and column(j),
//!
//!   M(i, j) = Σᵣ U(i, r)·V(j, r),   U = exp(left − row − middle) ≤ 1,   V = exp(right + middle − column) ≤ 1/R,
//!
//! where row(i) and column(j) are the largest terms of the row and column, and each column of U has largest
//! entry 1. U and V are stored; M is not. A product is two passes, c = a·U and then c·Vᵀ (`product`), so a step
//! costs 2·N·R operations per message. A forward and a backward step together read U twice and V once.
//!
//! The gradient with respect to left is U ∘ Σₖ aₖᵀdₖ with dₖ = wₖ·V: one product for all positions and
//! sequences (`gradient`). A product with M ∘ D, which entropies and divergences need, has no such form: tiles
//! of M are computed as products of U and V, N²·R operations.
//!
//! If a sum may have lost too much to underflow, `logs` recomputes it from the logarithms, also through the
//! intermediate states: N·R operations for all entries.
//!
//! Reference: J. T. Chiu, Y. Deng, A. M. Rush, *Low-rank constraints for fast inference in structured models*,
//! NeurIPS (2021).

mod gradient;
mod logs;
mod product;
mod side;

use super::super::entries::{Entries, Listed};
use super::sweep;
use super::tiles::Factored;
use super::{Product, Steps};
use crate::error::Result;
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;
pub(in crate::method::dynamic::lattice) use side::BLOCK;
pub(crate) use side::Side;

/// One matrix: U and V with their shifts.
pub(crate) struct Factors<'a, F: Real> {
    /// U, one row per state before the boundary.
    pub left: Side<'a, F>,
    /// V, one row per state after the boundary.
    pub right: Side<'a, F>,
    /// A lower bound on every finite sum ln U(i, r) + ln V(j, r).
    pub least: f64,
}

impl<'a, F: Real> Factors<'a, F> {
    /// The matrix between two sets of states, or between all states. If `stop` returns true, the result is
    /// invalid.
    fn new(
        (left, right): (&'a [F], &'a [F]),
        rank: usize,
        sets: Option<(&'a [u32], &'a [u32])>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Self {
        let (before, after) = sets.unzip();
        let (mut left, mut right) = (Side::new(left, rank, before), Side::new(right, rank, after));
        let best = right.largest_by_column();
        left.shift_rows(&best, 0.0);
        let middle = left.largest_by_column();
        right.shift_rows(&middle, (rank as f64).ln());
        // No state leads to r if middle(r) is −∞. Subtracting ∞ then sets V(j, r) to 0.
        right.subtract(middle.iter().map(|&x| -x).collect());
        left.subtract(middle.iter().map(|&x| if x == F::NEG_INFINITY { F::ZERO } else { x }).collect());
        let least = left.exponentiate(stop) + right.exponentiate(stop);
        Factors { left, right, least }
    }

    /// R.
    pub fn rank(&self) -> usize {
        self.left.rank()
    }

    fn tiles(&self) -> Factored<'_, F> {
        Factored::of_factors(self.left.factors(), self.right.factors(), self.left.stride())
    }
}

/// The matrices of a lattice with low-rank transitions.
pub(super) struct LowRank<'a, F: Real> {
    sets: Option<Vec<(&'a [u32], &'a [u32])>>,
    states: usize,
    /// One matrix for all boundaries, or one per boundary if there are sets.
    tables: Vec<Factors<'a, F>>,
}

impl<'a, F: Real> LowRank<'a, F> {
    /// The matrix of all states.
    pub fn shared(
        factors: (&'a [F], &'a [F]),
        states: usize,
        boundaries: usize,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let rank = factors.0.len() / states;
        let table = || Factors::new(factors, rank, None, &|| clock.must_stop());
        let tables = (0..boundaries.min(1)).map(|_| table()).collect();
        clock.check()?;
        Ok(LowRank { sets: None, states, tables })
    }

    /// The matrices between chosen states.
    pub fn restricted(factors: (&'a [F], &'a [F]), states: usize, sets: Vec<(&'a [u32], &'a [u32])>) -> Self {
        let rank = factors.0.len() / states;
        let tables = sets.iter().map(|&sets| Factors::new(factors, rank, Some(sets), &|| false)).collect();
        LowRank { sets: Some(sets), states, tables }
    }

    fn table(&self, t: usize) -> &Factors<'a, F> {
        &self.tables[if self.sets.is_none() { 0 } else { t }]
    }

    fn products(
        &self,
        direction: Option<&dyn Entries<F>>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        match (forward.filter(|task| task.count > 0), backward.filter(|task| task.count > 0)) {
            (None, None) => {}
            (Some(forward), Some(backward)) if self.sets.is_some() && forward.t != backward.t => {
                self.products(direction, Some(forward), None);
                self.products(direction, None, Some(backward));
            }
            (forward, backward) => {
                let t = forward.as_ref().or(backward.as_ref()).map_or(0, |task| task.t);
                let table = self.table(t);
                match direction {
                    None => table.multiply(forward, backward),
                    Some(_) => sweep::multiply(&table.tiles(), t, direction, forward, backward),
                }
            }
        }
    }
}

impl<F: Real> Steps<F> for LowRank<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        match &self.sets {
            None => (self.states, self.states),
            Some(sets) => (sets[t].0.len(), sets[t].1.len()),
        }
    }

    fn shared(&self) -> bool {
        self.sets.is_none()
    }

    fn low_rank(&self, t: usize) -> Option<&Factors<'_, F>> {
        Some(self.table(t))
    }

    fn row_shifts(&self, t: usize) -> &[F] {
        self.table(t).left.shifts()
    }

    fn column_shifts(&self, t: usize) -> &[F] {
        self.table(t).right.shifts()
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
        let table = self.table(t);
        out.resize(table.right.len(), F::ZERO);
        table.right.log_products(&table.left, i, out);
        Listed(None)
    }

    fn log_column(&self, t: usize, j: usize, out: &mut Vec<F>) -> Listed<'_> {
        let table = self.table(t);
        out.resize(table.left.len(), F::ZERO);
        table.left.log_products(&table.right, j, out);
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
        let TransitionGradient::LowRank { left: to_left, right: to_right } = gradient else { return };
        match direction {
            None => self.table(t).add_gradient(count, left, right, to_left, to_right),
            Some(direction) => {
                let edges = gradient::Edges { t, count, left, right, direction };
                self.table(t).add_directed_gradient(&edges, to_left, to_right);
            }
        }
    }
}
