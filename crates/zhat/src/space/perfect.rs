//! Exact draws from a model on a space, by whatever suits it.
//!
//! - `oracle`: straight from the exact sums, where they are cheap.
//! - `coupling`: coupling from the past for pairwise models on the hypercube (`coupling`).
//! - `rejection`: uniform draws z, kept with probability exp(s(z) − s_max). It takes 1/c draws, c = Z/(|Y| exp s_max).
//! - `meta`: coupling from the past as published (Vembu, Gärtner and Boley 2009, Section 3): the chain META proposes uniform z and moves with
//!   probability min(1, exp(s(z) − s(y))). All chains meet where u ≤ exp(s_min − s_max); that state is uniform, so the run on to time 0 is part of
//!   it. It takes exp(s_max − s_min) draws: `rejection` is the same with the threshold that z itself allows.
//! - approximate: META for so many steps that the law is within `distance` of the model's in total variation, (1 − exp(−Δ))ᵗ ≤ distance (Theorem B.2).
//!
//! The gradient of log Z is E\[φ\]: the mean of S draws is within ε in Euclidean norm with probability 1 − δ if S ≥ R²(1 + √(2 ln 1/δ))²/ε² (Hoeffding's
//! inequality for vectors), R = max ‖φ − centre‖. For one direction z fixed beforehand 2R²‖z‖² ln(2/δ)/ε² are enough.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::coupling::Spins;
use super::draws;
use super::oracle::Prepared;
use super::pilot::{Pilot, seconds_a_draw};
use super::{Expectations, SpaceModel};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::query::{FactorMarginals, Law, Query, Sample, Samples};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

const NAME: &str = "perfect";
/// Draws that share a stream where only their mean is asked for.
const BLOCK: u64 = 256;
/// Tries between two looks at the clock.
const ROUND: u64 = 1 << 10;
/// Rejection is chosen by itself where it is guessed to take no more tries than this.
const MOST_TRIES: f64 = 1e7;

/// How exact draws are made.
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
    /// Uniform draws, some of which are kept.
    Rejection,
    /// Coupling from the past of META, as published.
    Meta,
}

/// A sampler that suits a model.
pub(super) struct Source<'a> {
    model: &'a SpaceModel,
    sampler: Sampler,
    spins: Option<Spins>,
}

/// A draw's score and what it took: uniform draws, or sweeps.
#[derive(Clone, Copy, Debug)]
pub(super) struct Drawn {
    pub score: f64,
    pub cost: u64,
}

impl<'a> Source<'a> {
    /// Checks that the model has such a sampler, at any inverse temperature.
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
            _ => Ok(Source { model, sampler, spins }),
        }
    }

    /// The sampler's name.
    pub fn name(&self) -> &'static str {
        match self.sampler {
            Sampler::Auto => "auto",
            Sampler::Oracle => "oracle",
            Sampler::Coupling => "coupling",
            Sampler::Rejection => "rejection",
            Sampler::Meta => "meta",
        }
    }

    /// Seconds of one draw, on average over β, or at the end; guessed.
    pub fn seconds(&self, pilot: &Pilot, whole: bool) -> f64 {
        let one = seconds_a_draw(self.model);
        match self.sampler {
            Sampler::Oracle => 6.0 * one,
            // Sweeps until the chains meet, which nobody knows beforehand.
            Sampler::Coupling => 60.0 * one,
            Sampler::Meta => 2.0 * one * self.model.spread().exp(),
            _ => one * if whole { pilot.tries(1.0) } else { pilot.mean_tries() },
        }
    }

    /// What is needed for draws at one inverse temperature.
    pub fn at(&self, beta: f64) -> At<'_> {
        let tempered = match self.sampler {
            Sampler::Oracle => Some(Box::new(self.model.tempered(beta))),
            _ => None,
        };
        At { source: self, beta, tempered }
    }
}

/// A sampler at one inverse temperature.
pub(super) struct At<'a> {
    source: &'a Source<'a>,
    beta: f64,
    tempered: Option<Box<SpaceModel>>,
}

impl At<'_> {
    /// Shows a function that makes draws.
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

    fn draw(&self, random: &mut Stream, structure: &mut [u32], clock: &Clock<'_>) -> Result<Drawn> {
        let (model, beta) = (self.source.model, self.beta);
        if let (Sampler::Coupling, Some(spins)) = (self.source.sampler, &self.source.spins) {
            let cost = spins.draw(beta, random, structure, clock)?;
            return Ok(Drawn { score: model.score(structure)?, cost });
        }
        if self.source.sampler == Sampler::Meta {
            return meta(model, beta, random, structure, clock);
        }
        // β may be a little above 1 in schedules as they were printed, and never below 0.
        let top = model.range().1;
        let mut cost = 0;
        loop {
            if cost % ROUND == ROUND - 1 {
                clock.check()?;
            }
            cost += 1;
            model.space().uniform(random, structure);
            let score = model.score(structure)?;
            if random.uniform() < (beta * (score - top)).exp() {
                return Ok(Drawn { score, cost });
            }
        }
    }
}

/// Coupling from the past of META. Going back from time 0 until all chains meet, then forward again with the same random numbers.
fn meta(
    model: &SpaceModel,
    beta: f64,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<Drawn> {
    let past = Streams::new(random.bits(), "meta");
    let threshold = (-beta * model.spread()).exp();
    let mut moves: Vec<(f64, f64)> = Vec::new();
    loop {
        if moves.len() as u64 % ROUND == ROUND - 1 {
            clock.check()?;
        }
        let mut stream = past.block(moves.len() as u64);
        model.space().uniform(&mut stream, structure);
        let point = stream.uniform();
        moves.push((model.score(structure)?, point));
        if point <= threshold {
            break;
        }
    }
    let last = moves.len() - 1;
    let mut at = last;
    for time in (0..last).rev() {
        if moves[time].1 <= (beta * (moves[time].0 - moves[at].0)).exp() {
            at = time;
        }
    }
    model.space().uniform(&mut past.block(at as u64), structure);
    Ok(Drawn { score: moves[at].0, cost: moves.len() as u64 })
}

/// Exact draws, and the gradient of log Z from them.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PerfectSampling {
    /// How draws are made.
    pub sampler: Sampler,
    /// 0 for exact draws; otherwise META runs until it is within this total-variation distance of the model.
    pub distance: f64,
    /// How far the gradient may be off, in Euclidean norm.
    pub error: f64,
    /// With which confidence.
    pub confidence: f64,
}

impl Default for PerfectSampling {
    fn default() -> Self {
        PerfectSampling { sampler: Sampler::Auto, distance: 0.0, error: 0.1, confidence: 0.99 }
    }
}

/// How many draws make a gradient good to `error` in Euclidean norm with this confidence, for features within `radius` of a point.
pub fn gradient_samples(radius: f64, error: f64, confidence: f64) -> f64 {
    let factor = 1.0 + (2.0 * -(1.0 - confidence).ln()).sqrt();
    (radius * factor / error).powi(2).ceil().max(1.0)
}

/// How many draws make its product with one fixed vector of length `length` good to `error`.
pub fn direction_samples(radius: f64, length: f64, error: f64, confidence: f64) -> f64 {
    (2.0 * (radius * length / error).powi(2) * (2.0 / (1.0 - confidence)).ln()).ceil().max(1.0)
}

/// How many steps of META from any start lead within `distance` of the model (Theorem B.2).
pub fn meta_steps(spread: f64, distance: f64) -> f64 {
    // ln(1 − e^{−Δ}) of a tiny e^{−Δ} is −e^{−Δ}.
    (distance.ln() / (-(-spread).exp()).ln_1p()).ceil().max(1.0)
}

impl PerfectSampling {
    fn check(&self) -> Result<()> {
        let fail = |name: &str, message: String| Err(Error::argument(name, message));
        if !(self.distance >= 0.0 && self.distance < 1.0) {
            return fail("distance", format!("{} is not at least 0 and below 1", self.distance));
        }
        if !(self.error > 0.0 && self.error.is_finite()) {
            return fail("error", format!("{} is not above 0", self.error));
        }
        if !(self.confidence > 0.0 && self.confidence < 1.0) {
            return fail("confidence", format!("{} is not between 0 and 1", self.confidence));
        }
        Ok(())
    }

    fn gradient_draws(&self, model: &SpaceModel) -> f64 {
        gradient_samples(model.radius(), self.error, self.confidence)
    }
}

impl Forecasts<SpaceModel> for PerfectSampling {
    fn forecast(&self, model: &SpaceModel, query: Query, _: &Run) -> Forecast {
        let promise = match query {
            Query::Sample(_) if self.distance == 0.0 => Promise::Exact,
            _ => Promise::Bounds,
        };
        let draws = if let Query::Sample(count) = query { count as f64 } else { self.gradient_draws(model) };
        let never = Forecast { bytes: 0.0, seconds: f64::INFINITY, promise };
        let (Ok(source), Some(pilot)) = (Source::new(model, self.sampler), Pilot::new(model)) else {
            return never;
        };
        let each = match self.distance > 0.0 {
            true => meta_steps(model.spread(), self.distance) * seconds_a_draw(model),
            false if source.sampler == Sampler::Rejection && pilot.tries(1.0) > MOST_TRIES => f64::INFINITY,
            false => source.seconds(&pilot, true),
        };
        let numbers = if let Query::Sample(_) = query {
            draws * model.width() as f64
        } else {
            4.0 * model.dimension() as f64
        };
        Forecast { bytes: 8.0 * numbers, seconds: draws * each, promise }
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
            diagnostics = diagnostics.note("steps", steps);
            let law = Law::Approximate { distance: self.distance };
            draws::samples(model, count, law, "perfect", run, &clock, |random, structure| {
                metropolis(model, steps as u64, random, structure, &clock)
            })?
        } else {
            diagnostics = diagnostics.note("sampler", source.name());
            let at = source.at(1.0);
            // The tables of an oracle are made once for all.
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
        let unit = if source.sampler == Sampler::Coupling { "sweeps" } else { "uniform_draws" };
        diagnostics = diagnostics.note(unit, costs.into_inner());
        diagnostics.seconds = clock.seconds();
        let guarantee = match self.distance > 0.0 {
            true => Guarantee::Bounds { low: 0.0, high: self.distance, confidence: 1.0 },
            false => Guarantee::Exact,
        };
        Ok(Answer { value: samples, guarantee, diagnostics })
    }
}

/// So many steps of META from a uniform start.
fn metropolis(
    model: &SpaceModel,
    steps: u64,
    random: &mut Stream,
    structure: &mut [u32],
    clock: &Clock<'_>,
) -> Result<()> {
    model.space().uniform(random, structure);
    let mut score = model.score(structure)?;
    let mut proposed = vec![0; structure.len()];
    for step in 0..steps {
        if step % ROUND == ROUND - 1 {
            clock.check()?;
        }
        model.space().uniform(random, &mut proposed);
        let new = model.score(&proposed)?;
        if random.uniform() < (new - score).exp() {
            structure.copy_from_slice(&proposed);
            score = new;
        }
    }
    Ok(())
}

impl FactorMarginals<SpaceModel> for PerfectSampling {
    /// The guarantee is about the distance from the true gradient.
    fn factor_marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
        let clock = run.start(NAME);
        self.check()?;
        let source = Source::new(model, self.sampler)?;
        let draws = self.gradient_draws(model);
        let unknown = matches!(model.scores(), super::Scores::Custom(_)) && model.dimension() == 0;
        if unknown || !draws.is_finite() {
            return Err(Error::NoAnswer(
                "these scores have no features of bounded norm, so no gradient".into(),
            ));
        }
        run.require_memory(NAME, 8.0 * (2 * run.threads()) as f64 * model.dimension() as f64)?;
        let count = draws as u64;
        let streams = Streams::new(run.seed(), "space gradient");
        let at = source.at(1.0);
        // Groups of blocks in order: the sum does not depend on the threads, and only a few vectors are held.
        let blocks = count.div_ceil(BLOCK);
        let mut sums = vec![0.0; model.dimension()];
        let mut next = 0;
        while next < blocks {
            let group: Vec<u64> = (next..(next + 8).min(blocks)).collect();
            next += group.len() as u64;
            let parts: Vec<Vec<f64>> = run.install(|| {
                group
                    .into_par_iter()
                    .map(|block| {
                        let mut part = vec![0.0; model.dimension()];
                        let mut random = streams.block(block);
                        let mut structure = vec![0; model.width()];
                        at.with(&clock, |draw| {
                            for _ in block * BLOCK..((block + 1) * BLOCK).min(count) {
                                draw(&mut random, &mut structure)?;
                                model.add_features(&structure, 1.0, &mut part)?;
                            }
                            Ok(part)
                        })
                    })
                    .collect::<Result<_>>()
            })?;
            parts.iter().for_each(|part| sums.iter_mut().zip(part).for_each(|(sum, x)| *sum += x));
            clock.check()?;
            clock.progress("draws", next.min(blocks) * BLOCK, count);
        }
        sums.iter_mut().for_each(|sum| *sum /= count as f64);
        let mut diagnostics = Diagnostics::new(NAME).note("sampler", source.name()).note("samples", count);
        // Sums of counts are exact up to 2⁵³; with inputs they round.
        diagnostics.rounding =
            f64::EPSILON * (count as f64).sqrt() * sums.iter().map(|x| x * x).sum::<f64>().sqrt();
        diagnostics.seconds = clock.seconds();
        let radius = self.error + diagnostics.rounding;
        let guarantee = Guarantee::Bounds { low: 0.0, high: radius, confidence: self.confidence };
        Ok(Answer { value: Expectations { values: sums, radius }, guarantee, diagnostics })
    }
}
