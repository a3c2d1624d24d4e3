//! One pass through the scores of a distance, in double precision and in the log domain, for certifying
//! bounds.
//!
//! For t(x, y) = s·θˡ(x, y) + v(y), a pass computes a(x) = log Σ_y exp t(x, y), shifted by the maximum of
//! each row if it could overflow otherwise, and m(y) = Σ_x π(x)·P(x, y) with the stochastic matrix P(x, y) =
//! exp(t(x, y) − a(x)). Nothing can overflow, and terms that underflow are less than 10⁻³⁰⁰ of their row. A
//! pass costs C²·D operations and C² exponentials; memory is one tile per thread. Results do not depend on
//! the number of threads.

use std::f64::consts::{LN_2, LOG2_E};

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Interactions, SequenceMrf};
use crate::numeric::{
    self, EXP2_RANGE, Elementwise, Matrix, SIDE_BY_SIDE, multiply_here, rounding_allowance, sum_exp2_affine,
};
use crate::run::Clock;

/// Number of rows per tile.
const ROWS: usize = 16;
/// Number of parts into which the rows are divided.
const PARTS: usize = 16;

/// A model prepared for passes.
pub(crate) struct Passes<'a> {
    model: &'a SequenceMrf,
    clock: Option<&'a Clock<'a>>,
    left: Vec<f64>,
    right: Vec<Vec<f64>>,
    rank: usize,
}

/// The result of a pass.
pub(crate) struct Pass {
    /// a(x).
    pub up: Vec<f64>,
    /// m(y), if a distribution π was given.
    pub down: Vec<f64>,
    /// Σ_x π(x) Σ_y P(x, y)·t(x, y), if requested.
    pub energy: f64,
}

impl<'a> Passes<'a> {
    pub fn new(model: &'a SequenceMrf) -> Self {
        let wide = |matrix: &[f32]| matrix.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let (left, right, rank) = match model.interactions() {
            Interactions::Full(_) => (Vec::new(), Vec::new(), 0),
            Interactions::LowRank { rank, left, right } => {
                (wide(left), right.iter().map(|matrix| wide(matrix)).collect(), *rank)
            }
        };
        Passes { model, clock: None, left, right, rank }
    }

    /// The same, but a pass ends with [`Error::Interrupted`] once the run is cancelled, or half a second
    /// after its time is up.
    pub fn until(self, clock: &'a Clock<'a>) -> Self {
        Passes { clock: Some(clock), ..self }
    }

    fn check(&self) -> Result<()> {
        let over = |clock: &Clock<'_>| clock.is_cancelled() || clock.is_overdue();
        if self.clock.is_some_and(over) { Err(Error::Interrupted) } else { Ok(()) }
    }

    /// Memory in bytes, without the model.
    pub fn bytes(model: &SequenceMrf, threads: usize) -> f64 {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let embeddings = match model.interactions() {
            Interactions::Full(_) => 0.0,
            Interactions::LowRank { rank, .. } => 8.0 * states * *rank as f64 * (1.0 + context),
        };
        embeddings + 8.0 * states * ((2 * ROWS * threads + PARTS) as f64 + 8.0 * context)
    }

    /// Rounding error of a(x) for this scale and column magnitude.
    pub fn rounding(&self, scale: f64, columns: f64) -> f64 {
        let operations = self.rank + self.model.states() + 8;
        rounding_allowance(operations as f64, scale * self.model.magnitude().1 + columns)
    }

    /// θ⁰.
    pub fn unary(&self) -> &[f64] {
        self.model.unary()
    }

    fn rows(&self, apart: usize, scale: f64, first: usize, tile: &mut [f64]) {
        let states = self.model.states();
        let rows = tile.len() / states;
        match self.model.interactions() {
            Interactions::Full(matrices) => {
                let from = &matrices[apart - 1][first * states..][..tile.len()];
                tile.iter_mut().zip(from).for_each(|(t, &theta)| *t = scale * f64::from(theta));
            }
            Interactions::LowRank { .. } => {
                let left = &self.left[first * self.rank..(first + rows) * self.rank];
                let right = Matrix::row_major(&self.right[apart - 1], states, self.rank).transposed();
                multiply_here(Matrix::row_major(left, rows, self.rank), right, tile, false);
                f64::multiply(tile, scale);
            }
        }
    }

    /// a(x) for a matrix, computed as log₂ Σ 2^(t/ln 2); the matrix is read once and nothing is written. No
    /// row needs its own maximum if all scores are within the range of exponents.
    fn sums(&self, matrix: &[f32], scale: f64, columns: &[f64]) -> Option<Result<Vec<f64>>> {
        let largest = columns.iter().fold(0.0f64, |m, v| m.max(v.abs()));
        let within = scale * self.model.magnitude().1 + largest <= LN_2 * EXP2_RANGE;
        let (scale, states) = (scale * LOG2_E, columns.len());
        let columns: Vec<f64> = columns.iter().map(|v| v * LOG2_E).collect();
        let some = |rows: &[f32]| {
            self.check()?;
            // The last group may have fewer rows; then the first row is repeated.
            let row = |i: usize| rows.chunks_exact(states).nth(i).unwrap_or(&rows[..states]);
            let sums = sum_exp2_affine(scale, std::array::from_fn(row), &columns).into_iter();
            let sums = sums.take(rows.len() / states);
            Ok(sums
                .map(|sum| if sum < (-EXP2_RANGE).exp2() { f64::NEG_INFINITY } else { LN_2 * sum.log2() })
                .collect::<Vec<f64>>())
        };
        within.then(|| {
            let parts = matrix.par_chunks(SIDE_BY_SIDE * states).with_min_len(ROWS / SIDE_BY_SIDE);
            Ok(parts.map(some).collect::<Result<Vec<_>>>()?.concat())
        })
    }

    /// Performs a pass at a distance. A row of zeros has a(x) = −∞ and contributes nothing.
    pub fn pass(
        &self,
        apart: usize,
        scale: f64,
        columns: &[f64],
        law: Option<&[f64]>,
        energy: bool,
    ) -> Result<Pass> {
        let states = self.model.states();
        if let (Interactions::Full(matrices), None) = (self.model.interactions(), law)
            && let Some(up) = self.sums(&matrices[apart - 1], scale, columns)
        {
            return Ok(Pass { up: up?, down: Vec::new(), energy: 0.0 });
        }
        let negated: Vec<f64> = columns.iter().map(|v| -v).collect();
        let length = states.div_ceil(ROWS).div_ceil(PARTS).max(1) * ROWS;
        let part = |first: usize| {
            let end = (first + length).min(states);
            let mut up = Vec::with_capacity(end - first);
            let mut down = if law.is_some() { vec![0.0; states] } else { Vec::new() };
            let mut total = 0.0;
            let mut tile = vec![0.0; ROWS * states];
            let mut scores = Vec::new();
            let mut row = first;
            while row < end {
                self.check()?;
                let rows = ROWS.min(end - row);
                let tile = &mut tile[..rows * states];
                self.rows(apart, scale, row, tile);
                for (i, values) in tile.chunks_exact_mut(states).enumerate() {
                    let shift = f64::max_sum(values, columns);
                    if shift == f64::NEG_INFINITY {
                        up.push(shift);
                        continue;
                    }
                    if energy {
                        scores.clear();
                        scores.extend(values.iter().zip(columns).map(|(t, v)| t + v - shift));
                    }
                    f64::exp_shifted(values, shift, &negated);
                    let sum = numeric::sum(values);
                    up.push(shift + sum.ln());
                    let Some(law) = law.map(|law| law[row + i]).filter(|law| *law > 0.0) else { continue };
                    let factor = law / sum;
                    down.iter_mut().zip(values.iter()).for_each(|(m, e)| *m += factor * e);
                    if energy {
                        let terms = values.iter().zip(&scores).filter(|(e, _)| **e > 0.0);
                        total += law * shift + factor * terms.map(|(e, t)| e * t).sum::<f64>();
                    }
                }
                row += rows;
            }
            Ok((up, down, total))
        };
        let firsts: Vec<usize> = (0..states).step_by(length).collect();
        let parts: Vec<_> = firsts.into_par_iter().map(part).collect::<Result<_>>()?;
        let mut pass = Pass { up: Vec::with_capacity(states), down: Vec::new(), energy: 0.0 };
        if law.is_some() {
            pass.down.resize(states, 0.0);
        }
        for (up, down, energy) in parts {
            pass.up.extend(up);
            pass.down.iter_mut().zip(&down).for_each(|(m, x)| *m += x);
            pass.energy += energy;
        }
        Ok(pass)
    }
}
