//! Exact log Z of a cyclic sequence model: A = log tr Tᴺ, where T leads from the last K states to the next K.
//!
//! A step takes (x₁, …, x_K) to (x₂, …, x_K, y) with the score θ⁰(y) + Σ_l θˡ(x_{K+1−l}, y). Short cycles are gone around once for each first window, which costs N·C^{2K+1} operations; for
//! long ones T is squared again and again, 2·log₂ N·C^{3K}. The cheaper of the two is taken. All sums are in logarithms, so nothing is lost whatever the scores are; exact up to rounding, which is N times that of a
//! step, and that of adding up.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random field language models*, ICML 2015, Section 4.2.
//!
//! ```
//! use zhat::{LogPartition, Run, lifted::TransferMatrix, model::{Interactions, SequenceMrf}};
//! let free = Interactions::Full(vec![vec![0.0; 4]]);
//! let model = SequenceMrf::new(1_000_000, vec![0.0, 0.0], free)?;
//! let z = TransferMatrix::default().log_partition(&model, &Run::default())?;
//! assert!((z.value - 1e6 * 2f64.ln()).abs() < 1e-6);
//! # Ok::<(), zhat::Error>(())
//! ```

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::model::SequenceMrf;
use crate::numeric::{log_sum_exp, log_sum_exp_over_slabs, rounding_allowance};
use crate::options::options;
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

const NAME: &str = "transfer-matrix";

/// The trace of a power of the transfer matrix.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferMatrix {}

options!(TransferMatrix {});

/// C^K as a number that cannot overflow.
fn windows(model: &SequenceMrf) -> f64 {
    (model.states() as f64).powi(model.context().try_into().unwrap_or(i32::MAX))
}

/// Operations of going around, and of squaring.
fn costs(model: &SequenceMrf) -> (f64, f64) {
    let (n, windows) = (model.length() as f64, windows(model));
    (n * windows * windows * model.states() as f64, 2.0 * n.log2().ceil() * windows.powi(3))
}

/// T with the scores of single steps.
struct Steps<'a> {
    model: &'a SequenceMrf,
    windows: usize,
    /// Entry (oldest, the K − 1 that stay, y).
    scores: Vec<f64>,
}

impl<'a> Steps<'a> {
    fn new(model: &'a SequenceMrf) -> Self {
        let (states, context) = (model.states(), model.context());
        let windows = states.pow(context as u32);
        let score = |i: usize| {
            let (mut rest, y) = (i / states, i % states);
            let mut score = model.unary()[y];
            for l in 1..=context {
                score += model.interaction(l, rest % states, y);
                rest /= states;
            }
            score
        };
        Steps { model, windows, scores: (0..windows * states).map(score).collect() }
    }

    /// log Tᴺ(w, w) for each window w, by going around.
    fn around(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let (windows, states) = (self.windows, self.model.states());
        let from = |first: usize| {
            let mut sums = vec![f64::NEG_INFINITY; windows];
            let mut products = vec![0.0; windows * states];
            sums[first] = 0.0;
            for _ in 0..self.model.length() {
                clock.check()?;
                for (i, product) in products.iter_mut().enumerate() {
                    *product = sums[i / states] + self.scores[i];
                }
                // Windows that differ in the oldest state alone lead to the same one.
                log_sum_exp_over_slabs(&products, &mut sums);
            }
            Ok(sums[first])
        };
        (0..windows).into_par_iter().map(from).collect()
    }

    /// The same by squaring.
    fn squared(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let (windows, states) = (self.windows, self.model.states());
        let mut power = vec![f64::NEG_INFINITY; windows * windows];
        for (i, &score) in self.scores.iter().enumerate() {
            let (window, y) = (i / states, i % states);
            power[window * windows + window * states % windows + y] = score;
        }
        let mut product: Option<Vec<f64>> = None;
        let mut rest = self.model.length();
        loop {
            if rest % 2 == 1 {
                product = Some(match product {
                    Some(product) => multiplied(&product, &power, windows, clock)?,
                    None => power.clone(),
                });
            }
            rest /= 2;
            if rest == 0 {
                let product = product.unwrap_or_default();
                return Ok((0..windows).map(|w| product[w * windows + w]).collect());
            }
            power = multiplied(&power, &power, windows, clock)?;
        }
    }
}

/// log(exp(A)·exp(B)).
fn multiplied(a: &[f64], b: &[f64], size: usize, clock: &Clock<'_>) -> Result<Vec<f64>> {
    let mut product = vec![0.0; size * size];
    product.par_chunks_exact_mut(size).zip(a.par_chunks_exact(size)).try_for_each_init(
        || vec![0.0; size * size],
        |terms, (product, row)| {
            clock.check()?;
            for ((terms, b), a) in terms.chunks_exact_mut(size).zip(b.chunks_exact(size)).zip(row) {
                terms.iter_mut().zip(b).for_each(|(t, b)| *t = a + b);
            }
            log_sum_exp_over_slabs(terms, product);
            Ok(())
        },
    )?;
    Ok(product)
}

impl Forecasts<SequenceMrf> for TransferMatrix {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let (windows, threads) = (windows(model), run.threads() as f64);
        let entries = windows * model.states() as f64;
        let (around, squared) = costs(model);
        let bytes = if around <= squared {
            entries + threads * (2.0 * windows + entries)
        } else {
            entries + (4.0 + threads) * windows * windows
        };
        Forecast {
            bytes: 8.0 * bytes,
            seconds: 4e-9 * around.min(squared) / threads,
            promise: Promise::Exact,
        }
    }
}

impl LogPartition<SequenceMrf> for TransferMatrix {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let (around, squared) = costs(model);
        let sums = run.install(|| {
            let steps = Steps::new(model);
            if around <= squared { steps.around(&clock) } else { steps.squared(&clock) }
        })?;
        let value = log_sum_exp(&sums);
        if value == f64::NEG_INFINITY {
            return Err(Error::ZeroPartition);
        }
        let (unary, pairs) = model.magnitude();
        let (n, states) = (model.length() as f64, model.states() as f64);
        let step = unary + model.context() as f64 * pairs + states.ln();
        // A sum of logarithms grows to n·step; it is rounded with every step, or with every product.
        let additions = if around <= squared { n } else { 4.0 * n.log2() + 8.0 };
        let terms = if around <= squared { states } else { windows(model) };
        let mut diagnostics = Diagnostics::new(NAME);
        diagnostics.rounding = n * rounding_allowance(terms + 40.0 * model.context() as f64 + 8.0, step)
            + rounding_allowance(additions + windows(model), n * step);
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
    fn both_ways_around_agree() {
        let mut random = Streams::new(1, "transfer tests").block(0);
        for (states, context) in [(1, 1), (2, 1), (3, 2), (2, 3), (5, 1)] {
            for strength in [1.0, 1e4] {
                let mut matrix = || {
                    let entry = |_| {
                        let zero = random.uniform() < 0.1;
                        if zero { f32::NEG_INFINITY } else { (strength * random.normal()) as f32 }
                    };
                    (0..states * states).map(entry).collect::<Vec<f32>>()
                };
                let interactions = Interactions::Full((0..context).map(|_| matrix()).collect());
                let unary = (0..states).map(|x| x as f64).collect();
                let model = SequenceMrf::new(11, unary, interactions).unwrap();
                let run = Run::default();
                let clock = run.start(NAME);
                let steps = Steps::new(&model);
                let (a, b) = (steps.around(&clock).unwrap(), steps.squared(&clock).unwrap());
                for (a, b) in a.iter().zip(&b) {
                    assert!(a == b || (a - b).abs() < 1e-10 * strength, "{a} {b}");
                }
            }
        }
    }
}
