//! The approximation scheme of Vembu, Gärtner and Boley (2009, Section 2.2), as printed and corrected.
//!
//! 1/Z is written as a product over levels of E_{β_i}\[exp((β_{i−1} − β_i)s)\]/|Y|, where each expectation is
//! the mean of S exact samples at β_i. Theorem 2.5: S = ⌈65 ε⁻² l exp(2/p)⌉ gives a factor 1 ± ε with
//! probability 3/4. As printed, there are l = p⌈BR⌉ levels β_j = j/(p·BR), which overshoot 1 or end with a
//! different step than in the proof, and the factor |Y| is missing. Corrected: l = ⌈p·BR⌉ equal steps,
//! samples at β_{i−1} with exp((β_i − β_{i−1})s), which makes Ẑ unbiased and the first level the plain
//! uniform sampler, and the factor |Y|. The median of k runs increases the confidence.
//!
//! Samples may also be approximate: META from a uniform start, with enough steps that each distribution is
//! within ε/(5 l exp(2/p)) in total variation (Theorem B.2). This changes the mean of each level by a factor
//! of at most 1 ± ε/5l, and all of them together by 1 ± ε/4, which preserves the guarantee (Theorem A.1).
//!
//! BR is the largest |s|, as used in the proof. Time: k·l·S exact samples. For reference only;
//! [`super::Telescoped`] has the same guarantee with hundreds of times fewer samples.

use serde::{Deserialize, Serialize};

use super::{answer, schedule};
use crate::answer::{Diagnostics, Estimate, Guarantee, Promise};
use crate::error::Result;
use crate::method::space::perfect::{Sampler, Source, meta_steps, metropolis};
use crate::method::space::pilot::Pilot;
use crate::method::space::{ROUND, SpaceModel, count};
use crate::options::{INSIDE_UNIT, Options, Range, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::random::Streams;
use crate::run::Run;
use crate::run::share::Units;

const NAME: &str = "fpras-published";
/// Samples that share a stream.
const BLOCK: u64 = 256;

/// The published scheme.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PublishedScheme {
    /// ε.
    pub error: f64,
    /// Confidence; up to 3/4 a single run suffices.
    pub confidence: f64,
    /// p, an integer of at least 3.
    pub p: u32,
    /// Use the schedule as printed, which has no guarantee.
    pub as_printed: bool,
    /// Use samples within the tolerance of Theorem A.1 instead of exact ones.
    pub approximate: bool,
    /// Sampler of exact samples.
    pub sampler: Sampler,
}

options!(PublishedScheme {
    error: f64 => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT,
    p: u32 => Range::whole(3, 1000),
    as_printed: bool,
    approximate: bool,
    sampler: Sampler
});

impl Default for PublishedScheme {
    fn default() -> Self {
        PublishedScheme {
            error: 0.1,
            confidence: 0.75,
            p: 3,
            as_printed: false,
            approximate: false,
            sampler: Sampler::Auto,
        }
    }
}

impl PublishedScheme {
    fn norm(model: &SpaceModel) -> f64 {
        model.range().0.abs().max(model.range().1.abs())
    }

    fn schedule(&self, model: &SpaceModel, error: f64) -> schedule::Published {
        let (norm, p) = (Self::norm(model), f64::from(self.p));
        match self.as_printed {
            true => schedule::Published::as_printed(norm, error, p),
            false => schedule::Published::corrected(norm, error, p),
        }
    }
}

impl PublishedScheme {
    /// Required accuracy of approximate samples.
    fn tolerance(&self, model: &SpaceModel, error: f64) -> f64 {
        self.schedule(model, error).tolerance(error, f64::from(self.p))
    }
}

impl Forecasts<SpaceModel> for PublishedScheme {
    fn forecast(&self, model: &SpaceModel, _: Query, run: &Run) -> Forecast {
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        let draws = self.schedule(model, error).total() * schedule::median_runs(1.0 - confidence) as f64;
        let seconds = match (Source::new(model, self.sampler), Pilot::new(model, run)) {
            (Ok(source), Some(pilot)) => {
                let each = match self.approximate {
                    true => meta_steps(model.spread(), self.tolerance(model, error)) * pilot.seconds_a_draw(),
                    false => source.seconds(&pilot, false),
                };
                draws * each + pilot.count_seconds(error, confidence)
            }
            // The run itself reports the error.
            _ => 0.0,
        };
        let promise = if self.as_printed { Promise::Heuristic } else { Promise::Bounds };
        let levels = self.schedule(model, error).levels;
        let runs = schedule::median_runs(1.0 - confidence) as f64;
        Forecast { bytes: 1e6 + 8.0 * runs * levels, seconds, promise }
    }
}

impl LogPartition<SpaceModel> for PublishedScheme {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let source = Source::new(model, self.sampler)?;
        let count = count::estimate(model.space(), error, confidence, run, &clock)?;
        let schedule = self.schedule(model, error);
        let (levels, each) = (schedule.levels as u64, schedule.samples_each as u64);
        let step =
            if self.as_printed { 1.0 / (f64::from(self.p) * Self::norm(model)) } else { 1.0 / levels as f64 };
        let beta = |level: u64| match level {
            level if level == levels => 1.0,
            // As printed; 0 if all scores are 0.
            level if step.is_finite() => level as f64 * step,
            _ => 0.0,
        };
        let tolerance = self.tolerance(model, error);
        let runs = schedule::median_runs(1.0 - confidence) as u64;
        let streams = Streams::new(run.seed(), NAME);
        let blocks = each.div_ceil(BLOCK);
        let work = |index: u64| {
            clock.check()?;
            let level = 1 + index / blocks % levels;
            let change = beta(level) - beta(level - 1);
            // As printed: at the upper end, for the inverse.
            let (at, factor) = match self.as_printed {
                true => (beta(level), -change),
                false => (beta(level - 1), change),
            };
            let mut random = streams.block(index);
            let mut structure = vec![0; model.width()];
            let first = index % blocks * BLOCK;
            let draws = first..first.saturating_add(BLOCK).min(each);
            if self.approximate {
                let steps = meta_steps(at * model.spread(), tolerance) as u64;
                let (mut sum, mut cost) = (0.0, 0u64);
                for _ in draws {
                    let score = metropolis(model, (at, steps), &mut random, &mut structure, &clock)?;
                    sum += (factor * score).exp();
                    cost = cost.saturating_add(steps).saturating_add(1);
                }
                return Ok((sum, cost));
            }
            source.at(at).with(&clock, |draw| {
                let (mut sum, mut cost) = (0.0, 0);
                for number in draws {
                    if number % ROUND == ROUND - 1 {
                        clock.check()?;
                    }
                    let drawn = draw(&mut random, &mut structure)?;
                    sum += (factor * drawn.score).exp();
                    cost += drawn.cost;
                }
                Ok((sum, cost))
            })
        };
        let mut sums = vec![0.0; runs.saturating_mul(levels) as usize];
        let mut cost = 0u64;
        let all = runs.saturating_mul(levels).saturating_mul(blocks);
        let units = Units::new(NAME, all, &[levels, each]);
        run.units(&units, work, |index, part: (f64, u64)| {
            sums[(index / blocks) as usize] += part.0;
            cost = cost.saturating_add(part.1);
        })?;
        let sign = if self.as_printed { -1.0 } else { 1.0 };
        let mut estimates: Vec<f64> = sums
            .chunks(levels as usize)
            .map(|run| sign * run.iter().map(|sum| (sum / each as f64).ln()).sum::<f64>())
            .collect();
        estimates.sort_unstable_by(f64::total_cmp);
        let median = estimates[estimates.len() / 2];
        let diagnostics = Diagnostics::new(NAME)
            .note("samples", runs.saturating_mul(levels).saturating_mul(each))
            .note("levels", levels)
            .note("samples_each", each)
            .note("runs", runs)
            .note("sampler", if self.approximate { "metropolis" } else { source.name() })
            .note("cost", cost);
        let interval = (median, median - error.ln_1p(), median - (-error).ln_1p());
        let mut found = answer(
            model,
            &count,
            interval,
            self.confidence,
            64.0 + 8.0 * levels as f64,
            diagnostics,
            &clock,
        )?;
        if self.as_printed {
            let reason = "the schedule as printed does not keep to the steps that the proof needs".into();
            found.guarantee = Guarantee::Heuristic { reason };
        }
        Ok(found)
    }
}
