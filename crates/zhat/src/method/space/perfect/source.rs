//! One exact sample at any inverse temperature, by the sampler that suits the model.

use serde::{Deserialize, Serialize};

use super::sequential::Sequential;
use crate::error::{Error, Result};
use crate::method::space::coupling::{MOST_SWEEPS, Spins};
use crate::method::space::oracle::Prepared;
use crate::method::space::pilot::Pilot;
use crate::method::space::{ROUND, SpaceModel};
use crate::random::{Stream, Streams};
use crate::run::Clock;

/// Sampler of exact samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sampler {
    /// The first of oracle, coupling and rejection that suits the model.
    #[default]
    Auto,
    /// From the exact sums.
    Oracle,
    /// Coupling from the past, one label at a time.
    Coupling,
    /// Uniform samples, some of which are accepted.
    Rejection,
    /// Coupling from the past of META, as published.
    Meta,
    /// Built part by part, some of which are rejected.
    Sequential,
}

/// A sampler for a model.
pub(in crate::method::space) struct Source<'a> {
    model: &'a SpaceModel,
    pub(super) sampler: Sampler,
    spins: Option<Spins>,
    /// Number of sweeps after which a sample by coupling fails.
    pub(super) most_sweeps: u64,
}

/// Maximum number of META moves that are stored. Earlier ones are recomputed.
const MOST_KEPT_STEPS: u64 = 1 << 20;
/// Attempts that estimate the cost of a sequential sample.
pub(super) const TRIAL_ATTEMPTS: usize = 256;

/// The score of a sample and its cost in uniform samples or sweeps.
#[derive(Clone, Copy, Debug)]
pub(in crate::method::space) struct Drawn {
    pub score: f64,
    pub cost: u64,
}

impl<'a> Source<'a> {
    /// Checks that the sampler supports the model at any inverse temperature.
    pub fn new(model: &'a SpaceModel, sampler: Sampler) -> Result<Self> {
        let spins = Spins::new(model);
        let cheap = Prepared::is_cheap(model);
        let fitting = spins.as_ref().is_some_and(|spins| spins.is_attractive() || spins.is_weak(1.0));
        let sampler = match sampler {
            Sampler::Auto if cheap => Sampler::Oracle,
            Sampler::Auto if fitting => Sampler::Coupling,
            Sampler::Auto => Sampler::Rejection,
            other => other,
        };
        let fail = |message: &str| Err(Error::argument("sampler", message));
        match sampler {
            Sampler::Oracle if !cheap => {
                fail("this model has no cheap oracle; auto, rejection and meta are possible")
            }
            Sampler::Coupling if spins.is_none() => fail(
                "coupling is for the hypercube with single and pairwise scores; auto, rejection and meta are possible",
            ),
            Sampler::Sequential if Sequential::new(model, 1.0).is_none() => fail(
                "sequential is for permutations with position or precedence scores, partitions and the hypercube of 0 and 1 with pairs, without conditions; auto, rejection and meta are possible",
            ),
            _ => Ok(Source { model, sampler, spins, most_sweeps: MOST_SWEEPS }),
        }
    }

    /// Any sampler that supports the model, also exact sums that are not cheap.
    pub(super) fn of(model: &'a SpaceModel, sampler: Sampler) -> Self {
        Source { model, sampler, spins: Spins::new(model), most_sweeps: MOST_SWEEPS }
    }

    /// The sampler's name.
    pub fn name(&self) -> &'static str {
        match self.sampler {
            Sampler::Auto => "auto",
            Sampler::Oracle => "oracle",
            Sampler::Coupling => "coupling",
            Sampler::Rejection => "rejection",
            Sampler::Meta => "meta",
            Sampler::Sequential => "sequential",
        }
    }

    /// Estimated seconds per sample: at β = 1 if `whole` is set, otherwise the average over β.
    pub fn seconds(&self, pilot: &Pilot, whole: bool) -> f64 {
        let one = pilot.seconds_a_draw();
        match self.sampler {
            Sampler::Oracle => 6.0 * one,
            // The number of sweeps until the chains meet is not known in advance.
            Sampler::Coupling => 60.0 * one,
            Sampler::Meta => 2.0 * one * self.model.spread().exp(),
            Sampler::Sequential => {
                let mut random = Streams::new(0, "sequential forecast").block(0);
                let mut tries = |beta: f64| {
                    Sequential::new(self.model, beta)
                        .map_or(1.0, |own| own.tries(TRIAL_ATTEMPTS, &mut random))
                };
                3.0 * one * tries(if whole { 1.0 } else { 0.5 })
            }
            _ => one * if whole { pilot.tries(1.0) } else { pilot.mean_tries() },
        }
    }

    /// The sampler at one inverse temperature.
    pub fn at(&self, beta: f64) -> AtTemperature<'_> {
        let sequential = match self.sampler {
            Sampler::Sequential => Sequential::new(self.model, beta),
            _ => None,
        };
        let tempered = match self.sampler {
            Sampler::Oracle => Some(Box::new(self.model.tempered(beta))),
            _ => None,
        };
        AtTemperature { source: self, beta, tempered, sequential }
    }
}

/// A sampler at one inverse temperature.
pub(in crate::method::space) struct AtTemperature<'a> {
    source: &'a Source<'a>,
    beta: f64,
    tempered: Option<Box<SpaceModel>>,
    sequential: Option<Sequential>,
}

impl AtTemperature<'_> {
    /// Calls `work` with a function that draws samples.
    pub fn with<T>(
        &self,
        clock: &Clock<'_>,
        work: impl FnOnce(&dyn Fn(&mut Stream, &mut [u32]) -> Result<Drawn>) -> Result<T>,
    ) -> Result<T> {
        let model = self.source.model;
        match &self.tempered {
            Some(tempered) => {
                let Some(prepared) = Prepared::new(tempered, true, false, clock)? else {
                    return Err(Error::argument("sampler", "this model has no oracle"));
                };
                work(&|random, structure| {
                    prepared.draw(random, structure);
                    Ok(Drawn { score: model.score(structure)?, cost: 1 })
                })
            }
            None => work(&|random, structure| self.draw(random, structure, clock)),
        }
    }

    /// One sample. Not for an oracle, which must compute its tables first.
    pub(super) fn draw(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        clock: &Clock<'_>,
    ) -> Result<Drawn> {
        let (model, beta) = (self.source.model, self.beta);
        if let (Sampler::Coupling, Some(spins)) = (self.source.sampler, &self.source.spins) {
            let cost = spins.draw((beta, self.source.most_sweeps), random, structure, clock)?;
            return Ok(Drawn { score: model.score(structure)?, cost });
        }
        if self.source.sampler == Sampler::Meta {
            return meta(model, beta, random, structure, clock);
        }
        if let Some(sequential) = &self.sequential {
            let mut cost = 1;
            while sequential.attempt(true, random, structure).is_none() {
                if cost % ROUND == ROUND - 1 {
                    clock.check()?;
                }
                cost += 1;
            }
            model.space().canonical(structure);
            return Ok(Drawn { score: model.score(structure)?, cost });
        }
        // β may slightly exceed 1 in schedules as printed, and is never below 0.
        let top = model.range().1;
        let mut cost = 0;
        loop {
            if cost % ROUND == ROUND - 1 {
                clock.check()?;
            }
            cost += 1;
            model.space().uniform(random, structure, clock)?;
            let score = model.score(structure)?;
            if random.uniform() < (beta * (score - top)).exp() {
                return Ok(Drawn { score, cost });
            }
        }
    }
}

/// Coupling from the past of META: goes back from time 0 until all chains meet, then forward again with the
/// same random numbers.
fn meta(
    model: &SpaceModel,
    beta: f64,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<Drawn> {
    let past = Streams::new(random.bits(), "meta");
    let threshold = (-beta * model.spread()).exp();
    // The score and the uniform number of a move. The result for a given time is always the same.
    let made = |time: u64, structure: &mut [u32]| -> Result<(f64, f64)> {
        if time % ROUND == ROUND - 1 {
            clock.check()?;
        }
        let mut stream = past.block(time);
        model.space().uniform(&mut stream, structure, clock)?;
        let point = stream.uniform();
        Ok((model.score(structure)?, point))
    };
    let mut kept: Vec<(f64, f64)> = Vec::new();
    let mut last = 0;
    let first = loop {
        let (score, point) = made(last, structure)?;
        if last < MOST_KEPT_STEPS {
            kept.push((score, point));
        }
        if point <= threshold {
            break score;
        }
        last += 1;
    };
    let (mut at, mut score) = (last, first);
    for time in (0..last).rev() {
        let (new, point) = match kept.get(time as usize) {
            Some(moved) => *moved,
            None => made(time, structure)?,
        };
        if point <= (beta * (new - score)).exp() {
            (at, score) = (time, new);
        }
    }
    model.space().uniform(&mut past.block(at), structure, clock)?;
    Ok(Drawn { score, cost: last + 1 })
}
