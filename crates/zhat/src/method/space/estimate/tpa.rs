//! The Tootsie Pop algorithm: the number of steps of a random walk in β is a Poisson number whose mean is the
//! logarithm to be estimated.
//!
//! Let H = s − s_min ≥ 0. From β = 1, draw y exactly at β and u uniform, move down to β + ln(u)/H(y), and
//! count the steps until β < 0. The sum of the counts of k walks is a Poisson number with mean k·ln(Z
//! exp(−s_min)/|Y|), so it gives an exact interval (Garwood) for any model. A pilot run with separate random
//! streams chooses k for an interval of about the requested width. The interval is valid regardless of the
//! result of the pilot run.
//!
//! Time: k(Λ + 1) exact samples, k ≈ z²Λ/ε², Λ = ln Z − ln|Y| − s_min. M. Huber and S. Schott, *Using TPA for
//! Bayesian inference*, 2010.

use serde::{Deserialize, Serialize};

use super::{answer, schedule};
use crate::answer::{Diagnostics, Estimate, Promise};
use crate::error::Result;
use crate::method::space::perfect::{Sampler, Source};
use crate::method::space::pilot::Pilot;
use crate::method::space::{SpaceModel, count};
use crate::options::{INSIDE_UNIT, Options, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::random::{Stream, Streams};
use crate::run::share::Units;
use crate::run::{Clock, Run};

const NAME: &str = "tpa";
/// Number of walks of the pilot run, and number of walks that share a stream.
const PILOT: u64 = 32;
const BLOCK: u64 = 4;

/// Tootsie Pop algorithm: Poisson counts of random walks in β.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TootsiePop {
    /// ε: the interval extends about ln(1 + ε) to both sides.
    pub error: f64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Sampler of exact samples.
    pub sampler: Sampler,
}

options!(TootsiePop {
    error: f64 => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT,
    sampler: Sampler
});

impl Default for TootsiePop {
    fn default() -> Self {
        TootsiePop { error: 0.1, confidence: 0.95, sampler: Sampler::Auto }
    }
}

impl TootsiePop {
    /// The number of walks for an interval of about the requested width if Λ is `rise`.
    fn walks(rise: f64, error: f64, confidence: f64) -> f64 {
        // P(|normal| > z) ≤ exp(−z²/2), slightly more than needed.
        let square = 2.0 * (1.0 / (1.0 - confidence)).ln();
        let half = error.ln_1p();
        (square * rise.max(0.1) / (half * half)).ceil().max(1.0)
    }
}

impl Forecasts<SpaceModel> for TootsiePop {
    fn forecast(&self, model: &SpaceModel, _: Query, run: &Run) -> Forecast {
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        let seconds = match (Source::new(model, self.sampler), Pilot::new(model, run)) {
            (Ok(source), Some(pilot)) => {
                let draws = Self::walks(pilot.rise(), error, confidence) * (pilot.rise() + 1.0);
                draws * source.seconds(&pilot, false) + pilot.count_seconds(error, confidence)
            }
            // The run itself reports the error.
            _ => 0.0,
        };
        Forecast { bytes: 1e6, seconds, promise: Promise::Bounds }
    }
}

/// The number of steps of one walk, and the cost of its samples.
fn walk(
    source: &Source<'_>,
    least: f64,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<(u64, u64)> {
    let (mut beta, mut steps, mut cost) = (1.0, 0, 0);
    loop {
        clock.check()?;
        let drawn = source.at(beta).with(clock, |draw| draw(random, structure))?;
        cost += drawn.cost;
        let height = drawn.score - least;
        // At height 0 (of either sign) the next step goes to β = −∞.
        if height <= 0.0 {
            return Ok((steps, cost));
        }
        beta += (1.0 - random.uniform()).ln() / height;
        if beta <= 0.0 {
            return Ok((steps, cost));
        }
        steps += 1;
    }
}

impl LogPartition<SpaceModel> for TootsiePop {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        let (error, confidence) = count::share(model.space(), self.error, self.confidence);
        let count = count::estimate(model.space(), error, confidence, run, &clock)?;
        let source = Source::new(model, self.sampler)?;
        let least = model.range().0;
        // The walks that were made, their steps and the cost of their samples; those of the pilot run are not divided.
        let walks = |number: u64, purpose: &str, divided: bool| -> Result<(u64, u64, u64)> {
            let streams = Streams::new(run.seed(), purpose);
            let done = std::sync::atomic::AtomicU64::new(0);
            let work = |block: u64| {
                let mut random = streams.block(block);
                let mut structure = vec![0; model.width()];
                let mut sum = (0, 0);
                for _ in block * BLOCK..((block + 1) * BLOCK).min(number) {
                    let (steps, cost) = walk(&source, least, &mut random, &mut structure, &clock)?;
                    sum = (sum.0 + steps, sum.1 + cost);
                }
                let finished = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                clock.progress("walks", (finished * BLOCK).min(number), number);
                Ok(sum)
            };
            let (mut sum, blocks) = ((0, 0), number.div_ceil(BLOCK));
            let add = |_: u64, part: (u64, u64)| sum = (sum.0 + part.0, sum.1 + part.1);
            let blocks = match divided {
                true => run.first_units(&Units::new(NAME, blocks, &[number]), 0..blocks, work, add)?,
                false => run.in_order(0..blocks, work, add).map(|()| blocks)?,
            };
            Ok(((blocks * BLOCK).min(number), sum.0, sum.1))
        };
        let (_, pilot_steps, pilot_cost) = walks(PILOT, "tpa pilot", false)?;
        let rise = (pilot_steps as f64 + (pilot_steps as f64).sqrt() + 1.0) / PILOT as f64;
        // More walks than are feasible; the limit keeps numbers within 64 bits.
        let number = Self::walks(rise, error, confidence).min(1e15) as u64;
        let (number, steps, cost) = walks(number, "tpa", true)?;
        let (low, high) = schedule::poisson_interval(steps, run.risk(NAME, 1.0 - confidence));
        let at = |mean: f64| least + mean / number as f64;
        let diagnostics = Diagnostics::new(NAME)
            .note("samples", steps + number + pilot_steps + PILOT)
            .note("walks", number)
            .note("sampler", source.name())
            .note("cost", cost + pilot_cost);
        let interval = (at(steps as f64), at(low), at(high));
        answer(model, &count, interval, self.confidence, 64.0, diagnostics, &clock)
    }
}
