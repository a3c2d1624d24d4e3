//! Uniform importance sampling with an interval from the known range of the weights.
//!
//! Z = |Y| exp(s_max) E\[w\], w = exp(s(y) − s_max) in [0, 1], y uniform. Empirical Bernstein and Chernoff
//! bounds hold for E\[w\] for any tails ([`crate::method::bounds::minibucket`]). The bounds are evaluated
//! after 2¹⁰, 2¹¹, … samples, the j-th time with a risk of δ/(j(j + 1)), so sampling may stop at any of them:
//! when the interval is narrow enough, at the time limit, or after `samples` samples.
//!
//! If |Y| is not known but the size of the enclosing space is, y is drawn from that space and has weight 0 if
//! it is not in Y; Z then does not require |Y|. In all other cases |Y| is estimated first.
//!
//! Time: about 2 ln(1/δ)(V/(cε)² + 7/(6cε)) uniform samples, c = E\[w\]. Memory: one structure per thread.

use serde::{Deserialize, Serialize};

use super::answer;
use crate::answer::{Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::bounds::minibucket::Moments;
use crate::method::space::count::{self, Count};
use crate::method::space::pilot::{Pilot, is_own};
use crate::method::space::{MOST_TRIES, ROUND, Space, SpaceModel, too_rare};
use crate::options::{INSIDE_UNIT, Options, SAMPLES, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::random::Streams;
use crate::run::Run;
use crate::run::share::Units;

const NAME: &str = "importance";
/// Samples that share a stream. Fewer with user-defined functions, which may be slow, so that the first
/// evaluation comes soon.
const BLOCK: u64 = 256;
const OWN_BLOCK: u64 = 4;
/// The number of samples of divided work relative to the approximate number that is needed: the forecast of the
/// variance comes from few samples, and too few units cost another round of parts.
const MARGIN: f64 = 3.0;
const TOO_FEW: &str = "they have fewer samples than the first evaluation of the bounds needs";

/// Importance sampling with uniform samples.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct UniformImportance {
    /// ε: sampling continues until the interval is no wider than ln((1 + ε)/(1 − ε)).
    pub error: f64,
    /// Confidence of the interval.
    pub confidence: f64,
    /// Maximum number of samples.
    pub samples: u64,
}

options!(UniformImportance {
    error: f64 => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT,
    samples: u64 => SAMPLES
});

impl Default for UniformImportance {
    fn default() -> Self {
        UniformImportance { error: 0.1, confidence: 0.95, samples: 1 << 34 }
    }
}

impl UniformImportance {
    /// Blocks before the first evaluation of the bounds.
    pub(crate) const FIRST: u64 = 4;

    /// The approximate number of samples until the interval is narrow enough.
    fn draws(&self, pilot: &Pilot) -> f64 {
        let log = (16.0 / (1.0 - self.confidence)).ln();
        let inside = pilot.acceptance();
        let variance = pilot.second_moment() / inside - 1.0;
        2.0 * log * (variance / self.error + 1.2 * pilot.tries(1.0) / inside) / self.error
    }

    /// The number of blocks that will probably be needed: an evaluation of the bounds comes after them.
    fn expected_blocks(&self, model: &SpaceModel, most: u64, run: &Run) -> u64 {
        let draws = Pilot::new(model, run).map_or(0.0, |pilot| self.draws(&pilot));
        let blocks = (MARGIN * draws / block_of(model) as f64).clamp(Self::FIRST as f64, most as f64);
        (blocks as u64).checked_next_power_of_two().unwrap_or(most).min(most)
    }
}

impl Forecasts<SpaceModel> for UniformImportance {
    fn forecast(&self, model: &SpaceModel, _: Query, run: &Run) -> Forecast {
        let seconds = match Pilot::new(model, run) {
            Some(pilot) => {
                self.draws(&pilot).max((Self::FIRST * block_of(model)) as f64).min(self.samples as f64)
                    * pilot.seconds_a_try()
            }
            // The run itself reports the error.
            None => 0.0,
        };
        Forecast { bytes: 1e6, seconds, promise: Promise::Bounds }
    }
}

impl LogPartition<SpaceModel> for UniformImportance {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        let space = model.space();
        let around = around(space);
        let (error, confidence, mut count) = match around {
            Some((_, log)) => (self.error, self.confidence, Count::known(log)),
            None => {
                let (error, confidence) = count::share(space, self.error, self.confidence);
                (error, confidence, count::estimate(space, error, confidence, run, &clock)?)
            }
        };
        let (top, size) = (model.range().1, block_of(model));
        let streams = Streams::new(run.seed(), "uniform importance");
        let wanted = error.ln_1p() - (-error).ln_1p();
        let delta = 1.0 - confidence;
        let (mut done, mut sums) = (0u64, (0.0, 0.0));
        let mut found = (f64::NAN, f64::NEG_INFINITY, f64::INFINITY);
        let mut stopped = false;
        let blocks =
            self.samples.div_ceil(size).max(Self::FIRST).checked_next_power_of_two().unwrap_or(1 << 63);
        let expected = run.counts_units(NAME).then(|| self.expected_blocks(model, blocks, run));
        let units = Units { expected, ..Units::new(NAME, blocks, &[size]) };
        for look in 1u64.. {
            let goal = Self::FIRST << (look - 1).min(48);
            let work = |block: u64| {
                let mut random = streams.block(block);
                let mut structure = vec![0; model.width()];
                let mut part = (0.0, 0.0);
                for draw in 0..size {
                    if draw % ROUND == 0 {
                        clock.check()?;
                    }
                    let weight = match around {
                        Some((outer, _)) => {
                            outer.uniform(&mut random, &mut structure, &clock)?;
                            if space.contains(&structure)? { weight(model, &structure)? } else { 0.0 }
                        }
                        None => {
                            space.uniform(&mut random, &mut structure, &clock)?;
                            weight(model, &structure)?
                        }
                    };
                    part = (part.0 + weight, part.1 + weight * weight);
                }
                Ok(part)
            };
            let mut more = sums;
            let add = |_: u64, part: (f64, f64)| more = (more.0 + part.0, more.1 + part.1);
            match run.first_units(&units, done..goal, work, add) {
                // The result of the last evaluation is used.
                Err(_) if look > 1 && clock.must_stop() => {
                    stopped = true;
                    break;
                }
                // In a merge of parts there may be no more samples.
                Ok(end) if look > 1 && end < goal => {
                    stopped = true;
                    break;
                }
                Ok(end) if end < goal => return Err(Error::argument("parts", TOO_FEW)),
                other => other?,
            };
            sums = more;
            done = goal;
            if let (Some((outer, _)), 0.0) = (around, sums.0)
                && done * size >= MOST_TRIES
            {
                return Err(too_rare(space.name(), outer.name()));
            }
            let number = (done * size) as f64;
            let mean = sums.0 / number;
            let variance = ((sums.1 - number * mean * mean) / (number - 1.0)).max(0.0);
            let seen = Moments { count: number, mean, variance };
            // Half of the risk for each end.
            let risk = 0.5 * delta / (look * (look + 1)) as f64;
            let (low, high) = (seen.low(risk).max(0.0).ln(), seen.high(risk).ln());
            found = (if mean > 0.0 { mean.ln() } else { high }, low, high);
            clock.bounds(count.low + top + low, count.high + top + high);
            clock.progress("draws", done * size, self.samples);
            if high - low <= wanted || done * size >= self.samples {
                break;
            }
        }
        if let Some((_, log)) = around {
            // Once a structure was seen, there is at least one.
            count.part = if sums.0 > 0.0 { -log } else { f64::NEG_INFINITY };
        }
        let mut diagnostics = Diagnostics::new(NAME).note("samples", done * size);
        diagnostics.stopped_early = stopped;
        let (value, low, high) = found;
        // Sums of weights have a relative rounding error of at most their number.
        let operations = (64 + size + done) as f64;
        answer(
            model,
            &count,
            (top + value, top + low, top + high),
            self.confidence,
            operations,
            diagnostics,
            &clock,
        )
    }
}

fn block_of(model: &SpaceModel) -> u64 {
    if is_own(model) { OWN_BLOCK } else { BLOCK }
}

/// exp(s(y) − s_max).
fn weight(model: &SpaceModel, structure: &[u32]) -> Result<f64> {
    Ok((model.score(structure)? - model.range().1).exp().min(1.0))
}

/// The enclosing space of a space of unknown size, with ln of its size.
fn around(space: &dyn Space) -> Option<(&dyn Space, f64)> {
    if space.log_count().is_some() {
        return None;
    }
    let outer = space.enclosing()?;
    Some((outer, outer.log_count()?))
}
