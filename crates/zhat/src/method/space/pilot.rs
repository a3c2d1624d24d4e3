//! A few uniform samples that forecasts use to estimate the cost of sampling. No guarantee depends on them.

use super::{Condition, Distance, Scores, SpaceModel, Structures, count};
use crate::random::Streams;
use crate::run::Run;

/// Number of samples, the total count of numbers in them, and the maximum number of tries.
const DRAWS: usize = 64;
const NUMBERS: usize = 1 << 20;
const TRIES: usize = 1 << 12;
/// The share of the time limit that a pilot may use, and its maximum in seconds.
const SHARE: f64 = 0.02;
const SECONDS: f64 = 0.1;

/// Approximate mean and variance of the score under the uniform distribution.
pub(super) struct Pilot {
    mean: f64,
    variance: f64,
    range: (f64, f64),
    /// Seconds per sample from the enclosing space, including its score.
    seconds: f64,
    /// The fraction of those that are inside, if it must be estimated.
    inside: Option<f64>,
}

impl Pilot {
    /// The estimates found within a small share of the run's time. `None` if sampling or scoring fails.
    pub fn new(model: &SpaceModel, run: &Run) -> Option<Self> {
        let share = run.time().map_or(SECONDS, |time| (SHARE * time.as_secs_f64()).min(SECONDS));
        let run = run.within(Some(share));
        let clock = run.start("pilot");
        let stopped = || clock.must_stop();
        let mut random = Streams::new(0, "space pilot").block(0);
        let most = NUMBERS / model.width().max(1);
        let count = most.clamp(4, DRAWS);
        let mut structure = vec![0; model.width()];
        let mut scores = Vec::with_capacity(count);
        let (space, range) = (model.space(), model.range());
        let outer = if space.log_count().is_some() { None } else { space.enclosing() };
        let mut tries = 0;
        while scores.len() < count && tries < most.clamp(count, TRIES) && !(tries > 0 && stopped()) {
            tries += 1;
            let inside = match outer {
                Some(outer) => match outer.uniform(&mut random, &mut structure, &clock) {
                    Ok(()) => space.contains(&structure).ok()?,
                    Err(_) if stopped() => break,
                    Err(_) => return None,
                },
                None => match space.uniform(&mut random, &mut structure, &clock) {
                    Ok(()) => true,
                    Err(_) if stopped() => break,
                    Err(_) => return None,
                },
            };
            if inside {
                scores.push(model.score(&structure).ok()?);
            }
        }
        let (mean, variance) = match scores.len() {
            // So few samples that nothing is known about the scores.
            0 | 1 => (0.5 * (range.0 + range.1), 0.0),
            n => {
                let mean = scores.iter().sum::<f64>() / n as f64;
                (mean, scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / (n - 1) as f64)
            }
        };
        let inside = outer.map(|_| (scores.len().max(1) as f64) / tries as f64);
        let mut seconds = seconds_a_draw(model);
        if is_own(model) {
            // The time of user-defined functions is unknown, so it is measured. Rounded to powers of 4, so
            // that noise does not decide between methods.
            let measured = clock.seconds() / tries as f64;
            seconds = seconds.max(4f64.powf(measured.log(4.0).round()));
        }
        Some(Pilot { mean, variance, range, seconds, inside })
    }

    /// The fraction of uniform samples that are in the space.
    pub fn acceptance(&self) -> f64 {
        self.inside.unwrap_or(1.0)
    }

    /// Seconds per sample from the enclosing space, including its score.
    pub fn seconds_a_try(&self) -> f64 {
        self.seconds
    }

    /// Seconds per uniform sample, including its score.
    pub fn seconds_a_draw(&self) -> f64 {
        self.seconds / self.acceptance()
    }

    /// Seconds for counting the structures.
    pub fn count_seconds(&self, error: f64, confidence: f64) -> f64 {
        match self.inside {
            Some(inside) => {
                // Approximately both tails of a normal distribution at δ/2 each.
                let square = 2.0 * (2.0 / (1.0 - confidence)).ln();
                (square / (error * error)).max(count::BLOCK as f64) * self.seconds / inside
            }
            None => 0.0,
        }
    }

    /// ln E\[exp βs\] under the uniform distribution, as if scores were normal. Limited to half the distance
    /// to the largest score, beyond which they are not normal.
    fn log_mean(&self, beta: f64) -> f64 {
        let most = 0.5 * beta * (self.mean + self.range.1);
        (beta * self.mean + 0.5 * beta * beta * self.variance)
            .clamp(beta * self.range.0, most.max(beta * self.range.0))
    }

    /// The number of uniform samples per sample at β by rejection.
    pub fn tries(&self, beta: f64) -> f64 {
        (beta * self.range.1 - self.log_mean(beta)).exp()
    }

    /// The relative second moment of exp s under the uniform distribution.
    pub fn second_moment(&self) -> f64 {
        (self.log_mean(2.0) - 2.0 * self.log_mean(1.0)).max(0.0).exp().min(self.tries(1.0))
    }

    /// ln Z − ln|Y| − s_min.
    pub fn rise(&self) -> f64 {
        self.log_mean(1.0) - self.range.0
    }

    /// The mean over β from 0 to 1 of the number of tries per sample by rejection.
    pub fn mean_tries(&self) -> f64 {
        (0..16).map(|i| self.tries((f64::from(i) + 0.5) / 16.0)).sum::<f64>() / 16.0
    }
}

/// Whether a sample or its score calls user-defined functions.
pub(super) fn is_own(model: &SpaceModel) -> bool {
    let conditions = match model.structures() {
        Structures::Restricted(space) => space.conditions(),
        _ => &[],
    };
    matches!(model.scores(), Scores::Custom(_))
        || matches!(model.structures().base(), Structures::Custom(_))
        || conditions.iter().any(|condition| matches!(condition, Condition::Function(_)))
}

/// Seconds per uniform sample, including its score; measured.
fn seconds_a_draw(model: &SpaceModel) -> f64 {
    let width = model.width() as f64;
    let draw = match model.structures().base() {
        Structures::Hypercube(_) => 1e-9,
        Structures::Permutations(_) => 7e-9,
        Structures::Partitions(_) => 9e-9,
        Structures::Subtrees(_) => 1.6e-8,
        _ => 2.2e-8,
    };
    let score = match (model.scores(), model.structures().base()) {
        (Scores::Precedence(_), _) | (Scores::Links(_), Structures::Partitions(_)) => 5e-10 * width * width,
        (Scores::Pairwise(pairs), _) => 1.5e-9 * (width + 2.0 * pairs.edges().len() as f64),
        (Scores::Distance { distance: Distance::Kendall, .. }, _) => 1.6e-8 * width,
        (Scores::Distance { .. }, _) => 4e-9 * width,
        (Scores::Custom(_), _) => 2e-7 + 2e-9 * width,
        _ => 1.5e-9 * width,
    };
    6e-8 + draw * width + score
}
