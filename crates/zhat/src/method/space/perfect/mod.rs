//! Exact samples from a model on a space, by one of several samplers.
//!
//! - `oracle`: directly from the exact sums, if they are cheap.
//! - `coupling`: coupling from the past for pairwise models on the hypercube (`coupling`).
//! - `rejection`: uniform samples z, accepted with probability exp(s(z) − s_max). Needs 1/c samples, c =
//!   Z/(|Y| exp s_max).
//! - `meta`: coupling from the past as published (Vembu, Gärtner and Boley 2009, Section 3). The chain META
//!   proposes a uniform z and moves with probability min(1, exp(s(z) − s(y))). All chains meet when u ≤
//!   exp(s_min − s_max). That state is uniform, so the run must continue to time 0. Needs exp(s_max − s_min)
//!   samples; `rejection` is the same with the threshold that z itself allows.
//! - `sequential`: built part by part, with rejection of parts (`sequential`).
//! - approximate: META with enough steps to be within `distance` of the model in total variation, (1 −
//!   exp(−Δ))ᵗ ≤ distance (Theorem B.2).
//!
//! A marginal is the fraction of samples for which an event holds. All m marginals are within ε with
//! probability 1 − δ if S ≥ ln(2m/δ)/2ε². The gradient of log Z is E\[φ\]: the mean of S samples is within ε
//! in Euclidean norm with probability 1 − δ if S ≥ R²(1 + √(2 ln 1/δ))²/ε² (Hoeffding's inequality for
//! vectors), R = max ‖φ − centre‖. For one fixed direction z, 2R²‖z‖² ln(2/δ)/ε² samples suffice.

mod entropy;
mod means;
mod sequential;
mod source;
mod tempered;

use serde::{Deserialize, Serialize};

pub(crate) use sequential::Sequential;
pub use source::Sampler;
pub(super) use source::Source;
pub(crate) use tempered::{Draws, exact_samples, samples};

use super::oracle::Prepared;
use super::pilot::Pilot;
use super::{ROUND, SpaceModel, draws, marginals};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::Result;
use crate::options::{ABOVE_ZERO, DAMPING, INSIDE_UNIT, Options, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{Law, Query, Sample, Samples};
use crate::random::Stream;
use crate::run::{Clock, Run};

const NAME: &str = "perfect";
/// `auto` chooses rejection only if its estimated number of tries is at most this.
const MOST_TRIES: f64 = 1e7;

/// Exact samples, and the gradient of log Z from them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PerfectSampling {
    /// Sampler of exact samples.
    pub sampler: Sampler,
    /// 0 for exact samples. Otherwise META runs until it is within this total-variation distance of the
    /// model.
    pub distance: f64,
    /// Target error of the gradient in Euclidean norm, of each marginal, or of the entropy.
    pub error: f64,
    /// Confidence of the error bound.
    pub confidence: f64,
}

options!(PerfectSampling {
    sampler: Sampler,
    distance: f64 => DAMPING,
    error: f64 => ABOVE_ZERO,
    confidence: f64 => INSIDE_UNIT
});

impl Default for PerfectSampling {
    fn default() -> Self {
        PerfectSampling { sampler: Sampler::Auto, distance: 0.0, error: 0.1, confidence: 0.99 }
    }
}

/// The number of samples for which the gradient is within `error` in Euclidean norm with this confidence, for
/// features within `radius` of a point.
pub fn gradient_samples(radius: f64, error: f64, confidence: f64) -> f64 {
    let factor = 1.0 + (2.0 * -(1.0 - confidence).ln()).sqrt();
    (radius * factor / error).powi(2).ceil().max(1.0)
}

/// The number of samples for which the product of the gradient with one fixed vector of length `length` is
/// within `error`.
pub fn direction_samples(radius: f64, length: f64, error: f64, confidence: f64) -> f64 {
    (2.0 * (radius * length / error).powi(2) * (2.0 / (1.0 - confidence)).ln()).ceil().max(1.0)
}

/// The number of samples for which the frequencies of `events` events are all within `error` with this
/// confidence (Hoeffding's inequality, with δ divided among them).
pub fn marginal_samples(events: f64, error: f64, confidence: f64) -> f64 {
    (0.5 * (2.0 * events.max(1.0) / (1.0 - confidence)).ln() / (error * error)).ceil().max(1.0)
}

/// The number of steps after which META, from any start, is within `distance` of the model (Theorem B.2).
///
/// If all scores are equal, the first step is already exact.
pub fn meta_steps(spread: f64, distance: f64) -> f64 {
    // For a tiny e^{−Δ}, ln(1 − e^{−Δ}) is −e^{−Δ}.
    (distance.ln() / (-(-spread).exp()).ln_1p()).ceil().max(1.0)
}

impl PerfectSampling {
    fn gradient_draws(&self, model: &SpaceModel) -> f64 {
        gradient_samples(model.radius(), self.error, self.confidence)
    }

    fn marginal_draws(&self, model: &SpaceModel) -> f64 {
        marginal_samples(marginals::entries(model), self.error, self.confidence)
    }
}

impl Forecasts<SpaceModel> for PerfectSampling {
    fn forecast(&self, model: &SpaceModel, query: Query, run: &Run) -> Forecast {
        let promise = match query {
            Query::Sample(_) if self.distance == 0.0 => Promise::Exact,
            _ => Promise::Bounds,
        };
        let draws = match query {
            Query::Sample(count) => count as f64,
            Query::Marginals => self.marginal_draws(model),
            Query::Entropy => self.score_draws(model),
            _ => self.gradient_draws(model),
        };
        let (Ok(source), Some(pilot)) = (Source::new(model, self.sampler), Pilot::new(model, run)) else {
            // The run itself reports the error.
            return Forecast { bytes: 0.0, seconds: 0.0, promise };
        };
        let each = match self.distance > 0.0 {
            true => meta_steps(model.spread(), self.distance) * pilot.seconds_a_draw(),
            false if source.sampler == Sampler::Rejection && pilot.tries(1.0) > MOST_TRIES => f64::INFINITY,
            false => source.seconds(&pilot, true),
        };
        let numbers = match query {
            Query::Sample(_) => draws * model.width() as f64,
            Query::Marginals => means::COPIES as f64 * marginals::entries(model),
            Query::Entropy => 1e5,
            _ => means::COPIES as f64 * model.dimension() as f64,
        };
        let before = if query == Query::Entropy { self.partition_seconds(model, run).0 } else { 0.0 };
        Forecast { bytes: 8.0 * numbers, seconds: before + draws * each, promise }
    }
}

impl Sample<SpaceModel> for PerfectSampling {
    fn sample(&self, model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        self.check()?;
        let source = Source::new(model, self.sampler)?;
        let costs = std::sync::atomic::AtomicU64::new(0);
        let mut diagnostics = Diagnostics::new(NAME);
        let samples = if self.distance > 0.0 {
            let steps = meta_steps(model.spread(), self.distance);
            diagnostics = diagnostics.count("steps", steps);
            let law = Law::Approximate { distance: self.distance };
            draws::samples(model, count, law, "perfect", run, &clock, |random, structure| {
                metropolis(model, (1.0, steps as u64), random, structure, &clock).map(|_| ())
            })?
        } else {
            diagnostics = diagnostics.note("sampler", source.name());
            let at = source.at(1.0);
            // The tables of an oracle are computed once for all samples.
            let prepared = match source.sampler {
                Sampler::Oracle => Prepared::new(model, true, false, &clock)?,
                _ => None,
            };
            draws::samples(model, count, Law::Exact, "perfect", run, &clock, |random, structure| {
                let cost = match &prepared {
                    Some(prepared) => {
                        prepared.draw(random, structure);
                        1
                    }
                    None => at.draw(random, structure, &clock)?.cost,
                };
                costs.fetch_add(cost, std::sync::atomic::Ordering::Relaxed);
                Ok(())
            })?
        };
        let unit = match source.sampler {
            Sampler::Coupling => "sweeps",
            Sampler::Sequential => "attempts",
            _ => "uniform_draws",
        };
        diagnostics = diagnostics.note(unit, costs.into_inner());
        diagnostics.seconds = clock.seconds();
        let guarantee = match self.distance > 0.0 {
            true => Guarantee::Bounds { low: 0.0, high: self.distance, confidence: 1.0 },
            false => Guarantee::Exact,
        };
        Ok(Answer { value: samples, guarantee, diagnostics })
    }
}

/// Runs `steps` steps of META at β from a uniform start. Returns the score of the final state.
pub(super) fn metropolis(
    model: &SpaceModel,
    (beta, steps): (f64, u64),
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<f64> {
    model.space().uniform(random, structure, clock)?;
    let mut score = model.score(structure)?;
    let mut proposed = vec![0; structure.len()];
    for step in 0..steps {
        if step % ROUND == ROUND - 1 {
            clock.check()?;
        }
        model.space().uniform(random, &mut proposed, clock)?;
        let new = model.score(&proposed)?;
        if random.uniform() < (beta * (new - score)).exp() {
            structure.copy_from_slice(&proposed);
            score = new;
        }
    }
    Ok(score)
}
