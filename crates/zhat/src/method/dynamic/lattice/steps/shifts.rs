//! The shifts rowₜ(i) and columnₜ(j) that are subtracted from a table so that 0 ≤ M ≤ 1.
//!
//! A table in memory is shifted by the maxima of its rows and then of its columns, so each row and column
//! that is not all −∞ has an entry near 1. A factored table has |log-transition| ≤ b = max‖left‖·max‖right‖.
//! If b is small, one number for all rows suffices; otherwise one pass computes the maxima of rows and
//! columns, and half of each is used.

use std::sync::{Mutex, PoisonError};

use crate::numeric::parallel::prelude::*;

use super::View;
use super::tiles::{Factored, ROWS, Scratch, Tiles, panels, pieces, tile_columns};
use crate::numeric::Real;

/// The shifts of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct Shifts<F> {
    pub rows: Vec<F>,
    pub columns: Vec<F>,
}

/// Minimum number of entries for parallel execution.
const LARGE: usize = 1 << 18;
/// Tables with fewer entries are not divided.
const SMALL: usize = 1 << 14;

/// The shifts of all tables. If `stop` returns true, the result is invalid.
pub(super) fn of_all<'a, F: Real>(
    tables: usize,
    stop: &(dyn Fn() -> bool + Sync),
    view: impl Fn(usize) -> View<'a, F> + Sync,
) -> Vec<Shifts<F>> {
    let entries: usize = (0..tables).map(|t| view(t).shape()).map(|(rows, columns)| rows * columns).sum();
    // Many tables of moderate size are processed in parallel, one task per table.
    if entries >= LARGE && entries / tables < 16 * LARGE && tables > 1 {
        return (0..tables).into_par_iter().map(|t| of(view(t), stop)).collect();
    }
    (0..tables).map(|t| of(view(t), stop)).collect()
}

fn of<F: Real>(view: View<'_, F>, stop: &(dyn Fn() -> bool + Sync)) -> Shifts<F> {
    let Some((left, right)) = view.embeddings() else { return of_table(view, stop) };
    let rank = left.len() / view.entries.states;
    let (before, after) = view.sets.unzip();
    let norms = largest_norm(left, before, rank) * largest_norm(right, after, rank);
    // Slightly more than the bound, to allow for rounding of the products.
    let bound = norms * (1.0 + (rank + 4) as f64 * F::EPSILON.to_f64());
    let (rows, columns) = view.shape();
    // exp(−2b) is still far above the smallest number, even times the loss of N of them.
    if bound <= -F::TINY.to_f64().ln() / 3.0 {
        return Shifts { rows: vec![F::from_f64(bound); rows], columns: vec![F::ZERO; columns] };
    }
    of_products(&Factored::new(view, None), stop)
}

/// The largest norm of the embeddings, or of those in `set`.
fn largest_norm<F: Real>(embeddings: &[F], set: Option<&[u32]>, rank: usize) -> f64 {
    let square = |row: &[F]| row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>();
    let squares = match set {
        None => embeddings.chunks_exact(rank.max(1)).map(square).fold(0.0, f64::max),
        Some(set) => {
            let rows = set.iter().map(|&k| &embeddings[k as usize * rank..(k as usize + 1) * rank]);
            rows.map(square).fold(0.0, f64::max)
        }
    };
    squares.sqrt()
}

fn finite<F: Real>(x: F) -> F {
    if x == F::NEG_INFINITY { F::ZERO } else { x }
}

/// The maxima of the rows, then the maxima of the columns after subtracting them, in one pass.
fn of_table<F: Real>(view: View<'_, F>, stop: &(dyn Fn() -> bool + Sync)) -> Shifts<F> {
    /// Number of shares of the rows.
    const SHARES: usize = 16;
    let (before, after) = view.shape();
    // Maxima are the same for any shares; a small table is one of them.
    let share = if before * after < SMALL { before } else { before.div_ceil(SHARES) }.max(1);
    let of_share = |rows: std::ops::Range<usize>| {
        let (mut shifts, mut columns) = (Vec::with_capacity(rows.len()), vec![F::NEG_INFINITY; after]);
        let height = ((1 << 16) / after.max(1)).clamp(1, ROWS);
        let mut buffer = Vec::new();
        for some in pieces(rows, height) {
            if stop() {
                break;
            }
            let values = match (view.sets, view.entries.table(view.t)) {
                (None, Some(table)) => &table[some.start * after..some.end * after],
                _ => {
                    buffer.resize(some.len() * after, F::ZERO);
                    view.fill(some, 0..after, &mut buffer);
                    &buffer[..]
                }
            };
            for row in values.chunks_exact(after.max(1)) {
                let shift = finite(F::max(row));
                F::raise_to(&mut columns, row, shift);
                shifts.push(shift);
            }
        }
        (shifts, columns)
    };
    let shares: Vec<_> = pieces(0..before, share).collect();
    let parts: Vec<(Vec<F>, Vec<F>)> = if before * after >= LARGE {
        shares.into_par_iter().map(of_share).collect()
    } else {
        shares.into_iter().map(of_share).collect()
    };
    let (mut rows, mut columns) = (Vec::with_capacity(before), vec![F::NEG_INFINITY; after]);
    for (some, best) in parts {
        rows.extend(some);
        F::raise_to(&mut columns, &best, F::ZERO);
    }
    rows.resize(before, F::ZERO);
    columns.iter_mut().for_each(|x| *x = finite(*x));
    Shifts { rows, columns }
}

/// Half of the maxima of rows and columns. `scores` must have no shifts.
fn of_products<F: Real>(scores: &Factored<'_, F>, stop: &(dyn Fn() -> bool + Sync)) -> Shifts<F> {
    let (before, after) = scores.shape();
    let symmetric = scores.symmetric();
    // Maxima may be merged in any order.
    let row_maxima = Mutex::new(vec![F::NEG_INFINITY; before]);
    let of_panel = |panel: std::ops::Range<usize>| {
        let mut scratch = Scratch::default();
        let (mut rows, mut columns) = (vec![F::NEG_INFINITY; before], vec![F::NEG_INFINITY; panel.len()]);
        for some in pieces(panel.clone(), tile_columns::<F>()) {
            scores.enter(some.clone(), &mut scratch);
            // For a symmetric matrix, the part on and above the diagonal suffices.
            let last = if symmetric { some.end } else { before };
            for block in pieces(0..last, ROWS) {
                if stop() {
                    break;
                }
                let tile = scores.tile(block.clone(), some.clone(), &mut scratch);
                for (row, best) in tile.data.chunks(tile.stride).zip(&mut rows[block]) {
                    let row = &row[..some.len()];
                    let largest = F::max(row);
                    *best = if largest > *best { largest } else { *best };
                    F::raise_to(&mut columns[some.start - panel.start..][..some.len()], row, F::ZERO);
                }
            }
        }
        let mut all = row_maxima.lock().unwrap_or_else(PoisonError::into_inner);
        F::raise_to(&mut all, &rows, F::ZERO);
        columns
    };
    let all: Vec<_> = panels::<F>(after).collect();
    let columns: Vec<Vec<F>> = all.into_par_iter().map(of_panel).collect();
    let mut rows = row_maxima.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut columns = columns.concat();
    if symmetric {
        F::raise_to(&mut columns, &rows, F::ZERO);
        rows.copy_from_slice(&columns);
    }
    let half = F::from_f64(0.5);
    rows.iter_mut().chain(&mut columns).for_each(|x| *x = finite(*x) * half);
    Shifts { rows, columns }
}
