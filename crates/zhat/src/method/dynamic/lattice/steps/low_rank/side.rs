//! The factors of the states on one side of a boundary.

use crate::numeric::parallel::prelude::*;

use crate::numeric::{Aligned, Real, padded};

/// Rows per task. The split depends only on the number of rows.
pub(in crate::method::dynamic::lattice) const BLOCK: usize = 4096;

/// Minimum count of numbers for parallel execution.
const LARGE: usize = 1 << 18;

/// X(i, r) = exp(log(i, r) − shift(i) − column(r)) for the states of one side, row by row.
pub(crate) struct Side<'a, F: Real> {
    /// The log factors of the model, N×R.
    logs: &'a [F],
    /// The states of this side; all if `None`.
    set: Option<&'a [u32]>,
    rank: usize,
    shifts: Vec<F>,
    columns: Vec<F>,
    /// The rows of X, padded with zeros to whole strips.
    factors: Aligned<F>,
}

impl<'a, F: Real> Side<'a, F> {
    /// The logarithms without shifts.
    pub(super) fn new(logs: &'a [F], rank: usize, set: Option<&'a [u32]>) -> Self {
        let states = set.map_or(logs.len() / rank, <[u32]>::len);
        let (shifts, columns) = (vec![F::ZERO; states], vec![F::ZERO; rank]);
        Side { logs, set, rank, shifts, columns, factors: Aligned::default() }
    }

    /// R.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The number of states.
    pub fn len(&self) -> usize {
        self.shifts.len()
    }

    /// The distance between two rows of X: R, rounded up to whole strips.
    pub(super) fn stride(&self) -> usize {
        padded::<F>(self.rank)
    }

    /// X.
    pub(super) fn factors(&self) -> &[F] {
        &self.factors
    }

    /// The row of X of state i, with its padding.
    pub(super) fn row(&self, i: usize) -> &[F] {
        &self.factors[i * self.stride()..][..self.stride()]
    }

    pub fn shifts(&self) -> &[F] {
        &self.shifts
    }

    /// True if this side has only chosen states.
    pub(super) fn chosen(&self) -> bool {
        self.set.is_some()
    }

    /// The model's state for index i.
    pub(super) fn state(&self, i: usize) -> usize {
        self.set.map_or(i, |set| set[i] as usize)
    }

    fn scores(&self, i: usize) -> &'a [F] {
        &self.logs[self.state(i) * self.rank..][..self.rank]
    }

    /// ln X(i, r) in double precision.
    pub fn log(&self, i: usize, r: usize) -> f64 {
        (self.scores(i)[r].to_f64() - self.shifts[i].to_f64()) - self.columns[r].to_f64()
    }

    /// The largest log(i, r) − shift(i) of each column.
    pub(super) fn largest_by_column(&self) -> Vec<F> {
        let of_rows = |first: usize| {
            let mut best = vec![F::NEG_INFINITY; self.rank];
            for i in first..(first + BLOCK).min(self.len()) {
                F::raise_to(&mut best, self.scores(i), self.shifts[i]);
            }
            best
        };
        let merge = |mut best: Vec<F>, other: Vec<F>| {
            F::raise_to(&mut best, &other, F::ZERO);
            best
        };
        let none = || vec![F::NEG_INFINITY; self.rank];
        let blocks = 0..self.len().div_ceil(BLOCK);
        if self.len() * self.rank >= LARGE {
            blocks.into_par_iter().map(|block| of_rows(block * BLOCK)).reduce(none, merge)
        } else {
            blocks.map(|block| of_rows(block * BLOCK)).fold(none(), merge)
        }
    }

    /// shift(i) ← `more` + maxᵣ (log(i, r) + add(r)); 0 for a row without finite entries.
    pub(super) fn shift_rows(&mut self, add: &[F], more: f64) {
        let mut shifts = std::mem::take(&mut self.shifts);
        let more = F::from_f64(more);
        let shift = |i: usize, shift: &mut F| {
            let best = F::max_sum(self.scores(i), add);
            *shift = if best == F::NEG_INFINITY { F::ZERO } else { best + more };
        };
        if shifts.len() * self.rank >= LARGE {
            shifts.par_iter_mut().with_min_len(BLOCK).enumerate().for_each(|(i, x)| shift(i, x));
        } else {
            shifts.iter_mut().enumerate().for_each(|(i, x)| shift(i, x));
        }
        self.shifts = shifts;
    }

    /// Sets column(r).
    pub(super) fn subtract(&mut self, columns: Vec<F>) {
        self.columns = columns;
    }

    /// Computes X. Returns the smallest finite ln X. If `stop` returns true, the result is invalid.
    pub(super) fn exponentiate(&mut self, stop: &(dyn Fn() -> bool + Sync)) -> f64 {
        let (stride, rank) = (self.stride(), self.rank);
        let mut factors = Aligned::unset(self.len() * stride);
        let of_block = |(block, rows): (usize, &mut [F])| {
            let mut least = F::ZERO;
            if stop() {
                return least;
            }
            for (i, row) in (block * BLOCK..).zip(rows.chunks_exact_mut(stride)) {
                let (row, padding) = row.split_at_mut(rank);
                for ((x, &log), &column) in row.iter_mut().zip(self.scores(i)).zip(&self.columns) {
                    *x = (log - self.shifts[i]) - column;
                    least = if *x < least && *x > F::NEG_INFINITY { *x } else { least };
                }
                F::exp_in_place(row);
                padding.fill(F::ZERO);
            }
            least
        };
        let blocks: Vec<F> = if self.len() * rank >= LARGE {
            factors.par_chunks_mut(BLOCK * stride).enumerate().map(of_block).collect()
        } else {
            factors.chunks_mut(BLOCK * stride).enumerate().map(of_block).collect()
        };
        self.factors = factors;
        blocks.into_iter().fold(F::ZERO, |a, b| if b < a { b } else { a }).to_f64()
    }
}
