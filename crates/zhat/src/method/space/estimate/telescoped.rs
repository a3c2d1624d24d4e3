//! The telescoped scheme: one exact sample per level.
//!
//!   Ẑ = |Y| Π_{i<l} exp(s(y_i)/l),   y_i drawn exactly at β_i = i/l,
//!
//! is unbiased for Z, and with l = ⌈Δ/ln(1 + ε²/4)⌉ levels its relative variance is at most ε²/4 (see
//! [`super::schedule::telescoped_levels`]). The median of k runs is within a factor 1 ± ε of Z with the
//! requested confidence. The first level is the plain uniform sampler.
//!
//! Time: k·l exact samples. Memory: one structure per thread. There are no intermediate results.

use serde::{Deserialize, Serialize};

use super::{answer, schedule};
use crate::answer::{Diagnostics, Estimate, Promise};
use crate::error::Result;
use crate::method::space::perfect::{Sampler, Source};
use crate::method::space::pilot::Pilot;
use crate::method::space::{SpaceModel, count};
use crate::numeric::CompensatedSum;
use crate::options::{INSIDE_UNIT, Options, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::random::Streams;
use crate::run::Run;
use crate::run::share::Units;

const NAME: &str = "telescoped";
/// Levels that share a stream.
const BLOCK: u64 = 64;

/// One exact sample per level, median of k runs.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Telescoped {
    /// ε: Ẑ is within a factor 1 ± ε of Z.
    pub error: f64,
    /// The probability of this.
    pub confidence: f64,
    /// Sampler of exact samples.
    pub sampler: Sampler,
}

options!(Telescoped {
    error: f64 => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT,
    sampler: Sampler
});

impl Default for Telescoped {
    fn default() -> Self {
        Telescoped { error: 0.1, confidence: 0.95, sampler: Sampler::Auto }
    }
}

impl Forecasts<SpaceModel> for Telescoped {
    fn forecast(&self, model: &SpaceModel, _: Query, run: &Run) -> Forecast {
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        let runs = schedule::median_runs(1.0 - confidence) as f64;
        let draws = runs * schedule::telescoped_levels(model.spread(), error);
        let seconds = match (Source::new(model, self.sampler), Pilot::new(model, run)) {
            (Ok(source), Some(pilot)) => {
                draws * source.seconds(&pilot, false) + pilot.count_seconds(error, confidence)
            }
            // The run itself reports the error.
            _ => 0.0,
        };
        Forecast { bytes: 1e6 + 16.0 * runs, seconds, promise: Promise::Bounds }
    }
}

impl LogPartition<SpaceModel> for Telescoped {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let source = Source::new(model, self.sampler)?;
        let count = count::estimate(model.space(), error, confidence, run, &clock)?;
        let levels = schedule::telescoped_levels(model.spread(), error) as u64;
        let runs = schedule::median_runs(1.0 - confidence) as u64;
        let streams = Streams::new(run.seed(), "telescoped");
        let blocks = levels.div_ceil(BLOCK);
        let done = std::sync::atomic::AtomicU64::new(0);
        let work = |index: u64| {
            let mut random = streams.block(index);
            let mut structure = vec![0; model.width()];
            let (mut sum, mut cost) = (CompensatedSum::default(), 0);
            let first = index % blocks * BLOCK;
            for level in first..first.saturating_add(BLOCK).min(levels) {
                clock.check()?;
                let drawn = source
                    .at(level as f64 / levels as f64)
                    .with(&clock, |draw| draw(&mut random, &mut structure))?;
                sum.add(drawn.score);
                cost += drawn.cost;
            }
            let finished = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            clock.progress("levels", finished * BLOCK, runs.saturating_mul(levels));
            Ok((sum.value(), cost))
        };
        let mut totals = vec![CompensatedSum::default(); runs as usize];
        let mut cost = 0u64;
        let units = Units::new(NAME, runs.saturating_mul(blocks), &[levels]);
        run.units(&units, work, |index, part: (f64, u64)| {
            totals[(index / blocks) as usize].add(part.0 / levels as f64);
            cost += part.1;
        })?;
        let mut estimates: Vec<f64> = totals.iter().map(CompensatedSum::value).collect();
        estimates.sort_unstable_by(f64::total_cmp);
        let median = estimates[estimates.len() / 2];
        let diagnostics = Diagnostics::new(NAME)
            .note("samples", runs.saturating_mul(levels))
            .note("levels", levels)
            .note("runs", runs)
            .note("sampler", source.name())
            .note("cost", cost);
        let interval = (median, median - error.ln_1p(), median - (-error).ln_1p());
        answer(model, &count, interval, self.confidence, 64.0, diagnostics, &clock)
    }
}
