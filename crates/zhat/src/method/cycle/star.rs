//! The star bound: A(θ) ≤ N/(K+1) · log Z⋆(δ) for every δ, where Z⋆ is the partition function of a star with
//! the root score θ⁰ − Σ_l δˡ, the leaf scores θ⁰ + δˡ and the edge scores (K+1)·θˡ (Algorithm 1).
//!
//! Proof: by Shearer's inequality the entropy of N positions is at most 1/(K+1) times the sum of the
//! entropies of the N windows of K+1 positions, and the entropy of a window is at most that of the star with
//! the same pairs. The only condition is N > K. The gradient with respect to δˡ is the marginal of the leaf
//! minus that of the root.
//!
//! Cost: one pass of C² exponentials per distance to evaluate the bound, two with the gradient; memory: a few
//! vectors. The bound is certified at every stopping point: every δ gives a bound, the smallest one is kept,
//! and it is increased by the rounding error of its evaluation, times N.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random
//! field language models*, ICML 2015.
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::cycle::Star;
//! use zhat::model::{Interactions, SequenceMrf};
//! let theta = Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0]]);
//! let model = SequenceMrf::new(10, vec![0.0, 0.1], theta)?;
//! println!("log Z = {}", Star::default().log_partition(&model, &Run::default())?);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::passes::Passes;
use super::{Bounded, upper};
use crate::answer::{Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::model::SequenceMrf;
use crate::numeric::{log_sum_exp, rounding_allowance};
use crate::optimize::Lbfgs;
use crate::options::{FROM_ZERO, ITERATIONS, Options, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

const NAME: &str = "star";
const HISTORY: usize = 10;

/// The method of optimising δ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Descent {
    /// L-BFGS.
    #[default]
    Lbfgs,
    /// Steps of size 10³/2ᵗ along the gradient, where t is the number of steps so far that did not improve
    /// the bound.
    Subgradient,
}

/// The star bound.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Star {
    /// Maximum number of steps.
    pub iterations: usize,
    /// The method of optimisation.
    pub descent: Descent,
    /// Stop once no marginal of a leaf differs from that of the root by more than this.
    pub tolerance: f64,
}

options!(Star {
    iterations: usize => ITERATIONS,
    descent: Descent,
    tolerance: f64 => FROM_ZERO
});

impl Default for Star {
    fn default() -> Self {
        Star { iterations: 200, descent: Descent::Lbfgs, tolerance: 1e-9 }
    }
}

/// log Z⋆(δ) with δ¹, …, δᴷ concatenated, its rounding, and its gradient if `gradient` is given. Returns an
/// error if the passes were interrupted.
pub(crate) fn star(passes: &Passes<'_>, delta: &[f64], gradient: Option<&mut [f64]>) -> Result<(f64, f64)> {
    let unary = passes.unary();
    let states = unary.len();
    let context = delta.len() / states;
    let scale = (context + 1) as f64;
    let mut root = unary.to_vec();
    let (mut rounding, mut size) = (0.0, 0.0);
    let mut leaves = Vec::with_capacity(context);
    for (l, delta) in delta.chunks_exact(states).enumerate() {
        let columns: Vec<f64> = unary.iter().zip(delta).map(|(u, d)| u + d).collect();
        let up = passes.pass(l + 1, scale, &columns, None, false)?.up;
        rounding += passes.rounding(scale, largest(&columns));
        size += largest(&up) + largest(delta);
        for ((root, delta), up) in root.iter_mut().zip(delta).zip(&up) {
            *root += up - delta;
        }
        leaves.push(columns);
    }
    let total = log_sum_exp(&root);
    rounding += rounding_allowance((states + 4 * context + 4) as f64, largest(unary) + size);
    if let Some(gradient) = gradient.filter(|_| total > f64::NEG_INFINITY) {
        root.iter_mut().for_each(|x| *x = (*x - total).exp());
        for (l, (gradient, columns)) in gradient.chunks_exact_mut(states).zip(&leaves).enumerate() {
            let down = passes.pass(l + 1, scale, columns, Some(&root), false)?.down;
            for ((g, m), p) in gradient.iter_mut().zip(&down).zip(&root) {
                *g = m - p;
            }
        }
    }
    Ok((total, rounding))
}

/// The largest finite |x|.
pub(crate) fn largest(values: &[f64]) -> f64 {
    values.iter().filter(|x| x.is_finite()).fold(0.0, |m, x| m.max(x.abs()))
}

/// The best bound so far.
struct Best<'a> {
    length: usize,
    context: usize,
    bounded: Bounded,
    clock: &'a Clock<'a>,
}

impl Best<'_> {
    fn note(&mut self, found: (f64, f64)) {
        let bounded = Bounded::star(found, self.length, self.context);
        if bounded.high < self.bounded.high {
            self.bounded = bounded;
            self.clock.bounds(f64::NEG_INFINITY, bounded.high);
        }
    }
}

impl Star {
    fn descend(
        &self,
        passes: &Passes<'_>,
        context: usize,
        best: &mut Best<'_>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let size = context * passes.unary().len();
        let mut evaluate = |delta: &[f64], gradient: &mut [f64]| {
            if clock.must_stop() {
                return Err(Error::Interrupted);
            }
            let found = star(passes, delta, Some(gradient))?;
            best.note(found);
            Ok(found.0)
        };
        match self.descent {
            Descent::Lbfgs => {
                let mut lbfgs = Lbfgs::new(vec![0.0; size], HISTORY);
                let mut last = f64::INFINITY;
                for i in 0..self.iterations {
                    clock.progress(NAME, i as u64, self.iterations as u64);
                    let step = lbfgs.step(&mut evaluate)?;
                    if step.stationarity <= self.tolerance || step.objective >= last {
                        break;
                    }
                    last = step.objective;
                }
            }
            Descent::Subgradient => {
                let (mut delta, mut gradient) = (vec![0.0; size], vec![0.0; size]);
                let (mut rate, mut last) = (1e3, f64::INFINITY);
                for i in 0..self.iterations {
                    clock.progress(NAME, i as u64, self.iterations as u64);
                    let value = evaluate(&delta, &mut gradient)?;
                    if largest(&gradient) <= self.tolerance {
                        break;
                    }
                    if value >= last {
                        rate *= 0.5;
                    }
                    last = value;
                    delta.iter_mut().zip(&gradient).for_each(|(d, g)| *d -= rate * g);
                }
            }
        }
        Ok(())
    }
}

impl Forecasts<SequenceMrf> for Star {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let history = 8.0 * states * context * (2 * HISTORY + 8) as f64;
        Forecast {
            bytes: Passes::bytes(model, run.threads()) + history,
            seconds: 8e-9 * states * states * context * 2.0 * self.iterations as f64,
            promise: Promise::Bounds,
        }
    }
}

impl LogPartition<SequenceMrf> for Star {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        run.install(|| {
            let passes = Passes::new(model).until(&clock);
            let (length, context) = (model.length(), model.context());
            let nothing = Bounded { high: f64::INFINITY, rounding: 0.0 };
            let mut best = Best { length, context, bounded: nothing, clock: &clock };
            let first = star(&passes, &vec![0.0; context * model.states()], None);
            let first = first.map_err(|error| clock.check().err().unwrap_or(error))?;
            if first.0 == f64::NEG_INFINITY {
                return Err(Error::ZeroPartition);
            }
            best.note(first);
            let stopped = match self.descend(&passes, context, &mut best, &clock) {
                Ok(()) => false,
                Err(Error::Interrupted) => true,
                Err(other) => return Err(other),
            };
            let mut diagnostics = Diagnostics::new(NAME);
            diagnostics.stopped_early = stopped;
            Ok(upper(best.bounded, diagnostics, &clock))
        })
    }
}
