//! Exact log Z of a cyclic sequence model: log tr Tᴺ, where the transfer matrix T maps the last K states to
//! the next K.
//!
//! A step from (x₁, …, x_K) to (x₂, …, x_K, y) has the score θ⁰(y) + Σ_l θˡ(x_{K+1−l}, y). T has C^K rows
//! with C entries each, so multiplying a full matrix by T costs C^{2K+1} operations, and multiplying two full
//! matrices C^{3K}. Let m be a leading part of N in binary. Tᵐ is computed by single steps, the rest by
//! squarings and one step per binary digit 1; of the last squaring only the diagonal is computed. m is chosen
//! to minimise the cost: for short cycles it is N, which takes little memory; for long cycles it is small,
//! with log₂(N/m) squarings. The matrices are stored as logarithms and multiplied as scaled matrices
//! (`product`), which is accurate for all scores. Exact up to rounding: N times the rounding error of a step,
//! plus that of the final sum.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random
//! field language models*, ICML 2015, Section 4.2.
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::cycle::TransferMatrix;
//! use zhat::model::{Interactions, SequenceMrf};
//! let free = Interactions::Full(vec![vec![0.0; 4]]);
//! let model = SequenceMrf::new(1_000_000, vec![0.0, 0.0], free)?;
//! let z = TransferMatrix::default().log_partition(&model, &Run::default())?;
//! assert!((z.value - 1e6 * 2f64.ln()).abs() < 1e-6);
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::product::{Columns, Factor, ROWS, Scratch};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::cost::transfer_matrix::{ENTRY, LOGARITHMIC, OPERATION};
use crate::model::SequenceMrf;
use crate::numeric::{log_sum_exp, rounding_allowance};
use crate::options::options;
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

const NAME: &str = "transfer-matrix";
/// Scores that differ by more than this underflow in a scaled product.
const RANGE: f64 = 600.0;

/// Exact log Z as the trace of a power of the transfer matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TransferMatrix {}

options!(TransferMatrix {});

/// The plan for computing Tᴺ: T^(N >> squarings) by steps, and the rest by squarings.
#[derive(Clone, Copy, Debug)]
struct Plan {
    squarings: u32,
    seconds: f64,
    bytes: f64,
}

impl Plan {
    /// The fastest plan that fits into memory, or the one that needs the least memory.
    fn new(model: &SequenceMrf, run: &Run) -> Self {
        let n = model.length();
        let plans = (0..=n.ilog2()).map(|squarings| Plan::with(model, run, squarings));
        let better = |a: Plan, b: Plan| {
            let fits = |plan: &Plan| plan.bytes <= run.memory() as f64;
            let faster = if fits(&a) == fits(&b) { b.seconds < a.seconds } else { fits(&b) };
            if faster { b } else { a }
        };
        plans.reduce(better).unwrap_or(Plan { squarings: 0, seconds: 0.0, bytes: 0.0 })
    }

    fn with(model: &SequenceMrf, run: &Run, squarings: u32) -> Self {
        let (states, threads) = (model.states() as f64, run.threads() as f64);
        // C^K as a floating-point number, which cannot overflow.
        let windows = states.powi(model.context().try_into().unwrap_or(i32::MAX));
        let (unary, pairs) = model.magnitude();
        // If scaling does not help, every operation is done in the log domain.
        let strong = 2.0 * (unary + model.context() as f64 * pairs) > RANGE;
        let operation = if strong { OPERATION + LOGARITHMIC } else { OPERATION };
        let product = |inner: f64| windows * windows * (ENTRY + inner * operation);
        let (n, dense) = (model.length(), squarings.saturating_sub(1));
        let digits = (n & ((1usize << squarings) - 1)).count_ones();
        let steps = (n >> squarings) as f64 - 1.0 + f64::from(digits);
        let panels = (windows / ROWS as f64).ceil().min(threads);
        let seconds = steps * product(states) + f64::from(dense) * product(windows);
        let kept = if squarings == 0 { 0.0 } else { 3.0 * windows * windows };
        let panel = ROWS as f64 * windows * 4.0;
        let bytes = 8.0 * (4.0 * windows * states + panels * panel + kept);
        Plan { squarings, seconds: 1e-4 + seconds / panels, bytes }
    }
}

/// T, stored as the scores of single steps.
struct Steps<'a> {
    model: &'a SequenceMrf,
    windows: usize,
    clock: &'a Clock<'a>,
    /// A C × C matrix (oldest, y) for each combination of the K − 1 states that stay.
    scores: Vec<f64>,
}

impl<'a> Steps<'a> {
    fn new(model: &'a SequenceMrf, clock: &'a Clock<'a>) -> Result<Self> {
        let (states, context) = (model.states(), model.context());
        let windows = states.pow(context as u32);
        let middles = windows / states;
        let mut scores = vec![0.0; windows * states];
        let fill = |(middle, matrix): (usize, &mut [f64])| {
            for (oldest, row) in matrix.chunks_exact_mut(states).enumerate() {
                clock.check()?;
                for (y, entry) in row.iter_mut().enumerate() {
                    let mut rest = oldest * middles + middle;
                    *entry = model.unary()[y];
                    for l in 1..=context {
                        *entry += model.interaction(l, rest % states, y);
                        rest /= states;
                    }
                }
            }
            Ok(())
        };
        scores.par_chunks_exact_mut(states * states).enumerate().try_for_each(fill)?;
        Ok(Steps { model, windows, clock, scores })
    }

    fn factors(&self) -> Result<Vec<Factor<'_>>> {
        let states = self.model.states();
        let matrices = self.scores.par_chunks_exact(states * states);
        matrices.map(|scores| Factor::new(scores, states, self.clock)).collect()
    }

    /// Multiplies some rows of a matrix by T. Windows that differ only in their oldest state have the same
    /// successors.
    fn step(
        &self,
        factors: &[Factor<'_>],
        rows: &[f64],
        out: &mut [f64],
        scratch: &mut Scratch,
    ) -> Result<()> {
        let (states, stride) = (self.model.states(), factors.len());
        for (middle, factor) in factors.iter().enumerate() {
            let place = Columns { first: middle, stride };
            factor.multiply(rows, self.windows, place, (out, middle * states), scratch, self.clock)?;
        }
        Ok(())
    }

    /// The rows of Tᵐ from window `first` on.
    fn rows(
        &self,
        factors: &[Factor<'_>],
        first: usize,
        power: usize,
        scratch: &mut Scratch,
    ) -> Result<Vec<f64>> {
        let (windows, states) = (self.windows, self.model.states());
        let middles = windows / states;
        let count = ROWS.min(windows - first);
        let mut rows = vec![f64::NEG_INFINITY; count * windows];
        for (row, window) in rows.chunks_exact_mut(windows).zip(first..) {
            let (oldest, middle) = (window / middles, window % middles);
            let scores = &self.scores[(middle * states + oldest) * states..][..states];
            row[middle * states..][..states].copy_from_slice(scores);
        }
        let mut next = vec![0.0; rows.len()];
        for _ in 1..power {
            self.step(factors, &rows, &mut next, scratch)?;
            std::mem::swap(&mut rows, &mut next);
        }
        Ok(rows)
    }

    /// log Tᵐ(w, w) for each window w, computed for one panel of rows at a time.
    fn around(&self, power: usize) -> Result<Vec<f64>> {
        let factors = self.factors()?;
        let firsts: Vec<usize> = (0..self.windows).step_by(ROWS).collect();
        let diagonal = |scratch: &mut Scratch, &first: &usize| {
            let rows = self.rows(&factors, first, power, scratch)?;
            let rows = rows.chunks_exact(self.windows).zip(first..);
            Ok(rows.map(|(row, window)| row[window]).collect::<Vec<f64>>())
        };
        let parts: Vec<Vec<f64>> =
            firsts.par_iter().map_init(Scratch::default, diagonal).collect::<Result<_>>()?;
        Ok(parts.concat())
    }

    /// Multiplies a whole matrix by T.
    fn stepped(&self, factors: &[Factor<'_>], matrix: &[f64]) -> Result<Vec<f64>> {
        let panel = ROWS * self.windows;
        let mut out = vec![0.0; matrix.len()];
        let panels = out.par_chunks_mut(panel).zip(matrix.par_chunks(panel));
        panels.try_for_each_init(Scratch::default, |scratch, (out, rows)| {
            self.step(factors, rows, out, scratch)
        })?;
        Ok(out)
    }

    fn squared(&self, matrix: &[f64]) -> Result<Vec<f64>> {
        let panel = ROWS * self.windows;
        let factor = Factor::new(matrix, self.windows, self.clock)?;
        let mut out = vec![0.0; matrix.len()];
        let panels = out.par_chunks_mut(panel).zip(matrix.par_chunks(panel));
        let place = Columns { first: 0, stride: 1 };
        panels.try_for_each_init(Scratch::default, |scratch, (out, rows)| {
            factor.multiply(rows, self.windows, place, (out, 0), scratch, self.clock)
        })?;
        Ok(out)
    }

    /// The logarithms of non-negative numbers whose sum is tr Tᴺ.
    fn traces(&self, squarings: u32) -> Result<Vec<f64>> {
        let (n, windows) = (self.model.length(), self.windows);
        if squarings == 0 {
            return self.around(n);
        }
        let factors = self.factors()?;
        let mut matrix = vec![0.0; windows * windows];
        matrix.par_chunks_mut(ROWS * windows).enumerate().try_for_each_init(
            Scratch::default,
            |scratch, (panel, out)| {
                out.copy_from_slice(&self.rows(&factors, panel * ROWS, n >> squarings, scratch)?);
                Ok::<(), Error>(())
            },
        )?;
        for left in (1..squarings).rev() {
            self.clock.progress(NAME, u64::from(squarings - left - 1), u64::from(squarings));
            matrix = self.squared(&matrix)?;
            if n >> left & 1 == 1 {
                matrix = self.stepped(&factors, &matrix)?;
            }
        }
        let other = if n & 1 == 1 { Some(self.stepped(&factors, &matrix)?) } else { None };
        let other = other.as_deref().unwrap_or(&matrix);
        let row = |terms: &mut Vec<f64>, (i, row): (usize, &[f64])| {
            self.clock.check()?;
            terms.clear();
            terms.extend(row.iter().enumerate().map(|(j, x)| x + other[j * windows + i]));
            Ok(log_sum_exp(terms))
        };
        matrix.par_chunks_exact(windows).enumerate().map_init(Vec::new, row).collect()
    }
}

impl Forecasts<SequenceMrf> for TransferMatrix {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let Plan { seconds, bytes, .. } = Plan::new(model, run);
        Forecast { bytes, seconds, promise: Promise::Exact }
    }
}

impl LogPartition<SequenceMrf> for TransferMatrix {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        let plan = Plan::new(model, run);
        run.require_memory(NAME, plan.bytes)?;
        let sums = run.install(|| Steps::new(model, &clock)?.traces(plan.squarings))?;
        let value = log_sum_exp(&sums);
        if value == f64::NEG_INFINITY {
            return Err(Error::ZeroPartition);
        }
        let (unary, pairs) = model.magnitude();
        let (n, states, windows) = (model.length() as f64, model.states() as f64, sums.len() as f64);
        let step = unary + model.context() as f64 * pairs + states.ln();
        // A logarithm grows to n·step. It is rounded in every step towards T^m, and then in every product.
        let additions = (model.length() >> plan.squarings) as f64 + 8.0 * (f64::from(plan.squarings) + 1.0);
        let terms = if plan.squarings == 0 { states } else { windows };
        let mut diagnostics = Diagnostics::new(NAME).note("squarings", plan.squarings);
        diagnostics.rounding = n * rounding_allowance(terms + 40.0 * model.context() as f64 + 16.0, step)
            + rounding_allowance(additions + windows, n * step);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Interactions;
    use crate::random::Streams;

    #[test]
    fn every_number_of_squarings_agrees_with_the_definition() {
        let mut random = Streams::new(1, "transfer tests").block(0);
        for (states, context) in [(1usize, 1usize), (2, 1), (3, 2), (2, 3), (5, 1)] {
            for strength in [1.0, 1e4] {
                let mut matrix = || {
                    let entry = |_| {
                        let zero = random.uniform() < 0.1;
                        if zero { f32::NEG_INFINITY } else { (strength * random.normal()) as f32 }
                    };
                    (0..states * states).map(entry).collect::<Vec<f32>>()
                };
                let interactions = Interactions::Full((0..context).map(|_| matrix()).collect());
                let unary: Vec<f64> = (0..states).map(|x| x as f64).collect();
                for length in [context + 1, 7, 8] {
                    let model = SequenceMrf::new(length, unary.clone(), interactions.clone()).unwrap();
                    let scores: Vec<f64> = (0..states.pow(length as u32))
                        .map(|x| {
                            let digit = |i: usize| x / states.pow(i as u32) % states;
                            model.score(&(0..length).map(digit).collect::<Vec<usize>>())
                        })
                        .collect();
                    let exact = log_sum_exp(&scores);
                    let run = Run::default();
                    let clock = run.start(NAME);
                    let steps = Steps::new(&model, &clock).unwrap();
                    for squarings in 0..=length.ilog2() {
                        let found = log_sum_exp(&steps.traces(squarings).unwrap());
                        assert!(
                            found == exact || (found - exact).abs() < 1e-10 * strength,
                            "{states} {context} {length} {squarings}: {found} {exact}"
                        );
                    }
                }
            }
        }
    }
}
