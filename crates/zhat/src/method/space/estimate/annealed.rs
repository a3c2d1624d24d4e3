//! Annealed importance sampling and sequential Monte Carlo with local moves.
//!
//! Particles start as uniform samples and are moved from β = 0 to 1. At each step, the weight of a particle
//! is multiplied by exp((β' − β)s), and the particle then makes Metropolis moves at β' (flips, swaps, prune
//! and graft; see [`super::super::Space::propose`]). The mean of the weights is unbiased for Z/|Y| (R. M.
//! Neal, *Annealed importance sampling*, 2001). With `resample`, the particles are resampled in proportion to
//! their weights whenever the effective sample size is below half of them. Systematic resampling keeps the
//! estimate unbiased (P. Del Moral, A. Doucet, A. Jasra, *Sequential Monte Carlo samplers*, 2006).
//! Independent replicates give the spread and a lower bound that always holds ([`crate::Guarantee`]); there
//! is no upper bound.
//!
//! The best structure is found by the same method, continued to a β where E\[s\] ≥ s_max − ln|Y|/β is within
//! a hundredth of the range of s_max. The result is the best structure seen, with the certified interval [its
//! score, s_max]. The inequality holds for exact samples at β; the moves approximate them only if they mix.
//!
//! Time: replicates × particles × temperatures × sweeps × width moves. Memory: the particles. An early stop
//! uses the finished replicates.

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::sampling::unbiased;
use crate::method::space::pilot::{Pilot, is_own};
use crate::method::space::{ROUND, SpaceModel, Step, count, log_count_bound};
use crate::numeric;
use crate::options::{INSIDE_UNIT, Options, REPLICATES, Range, options};
use crate::query::{BestState, LogPartition, Map, Query};
use crate::query::{Forecast, Forecasts};
use crate::random::{Stream, Streams};
use crate::run::share::Units;
use crate::run::{Clock, Run};

const NAME: &str = "annealed";
/// Number of moves after which an incrementally updated score is recomputed, so that rounding does not
/// accumulate.
const REFRESH: u64 = 1 << 12;
/// Minimum and maximum of the default number of temperatures.
const TEMPERATURES: (f64, f64) = (16.0, 4096.0);
/// Replicates that are started together. The clock is checked between two such groups.
const GROUP: u64 = 256;
/// ln|Y|/β at the last temperature of a search for the best structure, as a fraction of the range.
const LEFT: f64 = 0.01;

/// Annealed importance sampling of particles from the uniform distribution to the model.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct AnnealedSampling {
    /// Number of particles per replicate.
    pub particles: usize,
    /// Number of independent replicates, at least two.
    pub replicates: usize,
    /// Number of steps of β; 0 to choose it from the range of the scores.
    pub temperatures: usize,
    /// Number of moves per step, as a multiple of the structure's width.
    pub sweeps: f64,
    /// Whether particles are resampled in proportion to their weights.
    pub resample: bool,
    /// Confidence of the lower bound.
    pub confidence: f64,
}

options!(AnnealedSampling {
    particles: usize => Range::whole(1, 1_000_000),
    replicates: usize => REPLICATES,
    temperatures: usize => Range::whole(0, 1_000_000_000),
    sweeps: f64 => Range::closed(0.0, 1e9),
    resample: bool,
    confidence: f64 => INSIDE_UNIT
});

impl Default for AnnealedSampling {
    fn default() -> Self {
        AnnealedSampling {
            particles: 32,
            replicates: 32,
            temperatures: 0,
            sweeps: 1.0,
            resample: true,
            confidence: 0.95,
        }
    }
}

/// A structure with its score and weight.
#[derive(Clone)]
pub(in crate::method::space) struct Particle {
    pub structure: Vec<u32>,
    score: f64,
    log_weight: f64,
}

impl Particle {
    /// A uniform sample.
    pub fn start(model: &SpaceModel, random: &mut Stream, clock: &Clock<'_>) -> Result<Self> {
        let mut structure = vec![0; model.width()];
        model.space().uniform(random, &mut structure, clock)?;
        let score = model.score(&structure)?;
        Ok(Particle { structure, score, log_weight: 0.0 })
    }

    /// Makes `count` Metropolis moves at β. Returns whether there was time for all of them.
    pub fn moves(
        &mut self,
        model: &SpaceModel,
        beta: f64,
        count: u64,
        random: &mut Stream,
        step: &mut Step,
        clock: &Clock<'_>,
    ) -> Result<bool> {
        for done in 0..count {
            if done % ROUND == ROUND - 1 && clock.must_stop() {
                return Ok(false);
            }
            step.changes.clear();
            let ratio = match model.space().propose(random, &mut self.structure, step, clock) {
                Err(_) if clock.must_stop() => {
                    step.undo(&mut self.structure);
                    return Ok(false);
                }
                other => other?,
            };
            if step.changes.is_empty() {
                continue;
            }
            let score = model.score_after(self.score, &self.structure, step)?;
            if random.uniform() < (beta * (score - self.score) + ratio).exp() {
                self.score = score;
            } else {
                step.undo(&mut self.structure);
            }
            if done % REFRESH == REFRESH - 1 {
                self.score = model.score(&self.structure)?;
            }
        }
        self.score = model.score(&self.structure)?;
        Ok(true)
    }
}

impl AnnealedSampling {
    fn steps(&self, model: &SpaceModel) -> usize {
        match self.temperatures {
            0 => (2.0 * model.spread()).ceil().clamp(TEMPERATURES.0, TEMPERATURES.1) as usize,
            given => given,
        }
    }

    fn moves(&self, model: &SpaceModel) -> u64 {
        (self.sweeps * model.width() as f64).ceil() as u64
    }

    fn start(&self, model: &SpaceModel, random: &mut Stream, clock: &Clock<'_>) -> Result<Vec<Particle>> {
        let mut particles = Vec::with_capacity(self.particles);
        for _ in 0..self.particles {
            clock.check()?;
            particles.push(Particle::start(model, random, clock)?);
        }
        Ok(particles)
    }

    /// ln of the estimate of one replicate: the number of structures times the mean weight.
    fn replicate(&self, model: &SpaceModel, random: &mut Stream, clock: &Clock<'_>) -> Result<f64> {
        let (steps, moves) = (self.steps(model), self.moves(model));
        let mut particles = self.start(model, random, clock)?;
        let mut step = Step::default();
        let mut total = count::unbiased(model.space(), random, clock)?;
        for time in 1..=steps {
            let (before, beta) = ((time - 1) as f64 / steps as f64, time as f64 / steps as f64);
            for particle in &mut particles {
                particle.log_weight += (beta - before) * particle.score;
            }
            if self.resample && time < steps {
                total += resample(&mut particles, random);
            }
            // The last weights are final, so further moves would change nothing.
            if time < steps {
                for particle in &mut particles {
                    clock.check()?;
                    if !particle.moves(model, beta, moves, random, &mut step, clock)? {
                        clock.check()?;
                    }
                }
            }
        }
        let logs: Vec<f64> = particles.iter().map(|particle| particle.log_weight).collect();
        Ok(total + numeric::log_sum_exp(&logs) - (logs.len() as f64).ln())
    }
}

/// The index ranges of replicates that are started together.
fn groups(replicates: usize) -> impl Iterator<Item = std::ops::Range<u64>> {
    let all = replicates as u64;
    (0..all.div_ceil(GROUP)).map(move |group| group * GROUP..((group + 1) * GROUP).min(all))
}

/// If the effective sample size is below half of the particles, resamples them and returns ln of their mean
/// weight.
fn resample(particles: &mut Vec<Particle>, random: &mut Stream) -> f64 {
    let count = particles.len() as f64;
    let logs: Vec<f64> = particles.iter().map(|particle| particle.log_weight).collect();
    let twice: Vec<f64> = logs.iter().map(|x| 2.0 * x).collect();
    let total = numeric::log_sum_exp(&logs);
    let effective = (2.0 * total - numeric::log_sum_exp(&twice)).exp();
    if effective >= 0.5 * count {
        return 0.0;
    }
    let mut chosen: Vec<Particle> = Vec::with_capacity(particles.len());
    let (mut point, mut reached) = (random.uniform(), 0.0);
    for (particle, log) in particles.iter().zip(&logs) {
        reached += count * (log - total).exp();
        while point < reached && chosen.len() < particles.len() {
            chosen.push(Particle { log_weight: 0.0, ..particle.clone() });
            point += 1.0;
        }
    }
    while let Some(last) = (chosen.len() < particles.len()).then(|| particles.last()).flatten() {
        // Rounding can leave points beyond the last weight.
        chosen.push(Particle { log_weight: 0.0, ..last.clone() });
    }
    *particles = chosen;
    total - count.ln()
}

impl Forecasts<SpaceModel> for AnnealedSampling {
    fn forecast(&self, model: &SpaceModel, query: Query, run: &Run) -> Forecast {
        // A search for the best structure has one particle per chain and keeps one of them all.
        let map = query == Query::Map;
        let each = if map { 1.0 } else { self.particles as f64 };
        let particles = each * self.replicates as f64;
        let moves = particles * self.steps(model) as f64 * self.moves(model) as f64;
        let width = model.width() as f64;
        // Each thread has its particles, and a copy of them during resampling.
        let held = run.threads() as f64 * 2.0 * each * (4.0 * width + 64.0);
        let kept = if map { GROUP as f64 * (4.0 * width + 64.0) } else { 8.0 * self.replicates as f64 };
        let each = match model.scores() {
            _ if is_own(model) => Pilot::new(model, run).map_or(2e-6, |pilot| pilot.seconds_a_try()),
            crate::method::space::Scores::Unary(_) | crate::method::space::Scores::Position(_) => 6e-8,
            _ => 1e-7 + 3e-9 * width,
        };
        let promise = if query == Query::Map { Promise::Bounds } else { Promise::Unbiased };
        Forecast { bytes: held + kept, seconds: moves * each, promise }
    }
}

impl LogPartition<SpaceModel> for AnnealedSampling {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let streams = Streams::new(run.seed(), NAME);
        let done = std::sync::atomic::AtomicU64::new(0);
        let replicate = |index: u64| {
            let found = self.replicate(model, &mut streams.block(index), &clock);
            let finished = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            clock.progress("replicates", finished, self.replicates as u64);
            found
        };
        let mut estimates = Vec::new();
        let mut stopped = false;
        let whole = match run.is_shared(NAME) {
            true => {
                let count = self.replicates as u64;
                let units = Units::new(NAME, count, &[self.steps(model) as u64, self.moves(model)]);
                stopped = run.first_units(&units, 0..count, replicate, |_, log| estimates.push(log))? < count;
                0
            }
            false => self.replicates,
        };
        for group in groups(whole) {
            let parts: Vec<Result<f64>> = run.install(|| group.into_par_iter().map(replicate).collect());
            for part in parts {
                match part {
                    Ok(log) => estimates.push(log),
                    Err(_) if clock.must_stop() => stopped = true,
                    Err(error) => return Err(error),
                }
            }
            if stopped {
                break;
            }
        }
        if estimates.is_empty() {
            clock.check()?;
        }
        let steps = self.steps(model);
        let mut diagnostics = Diagnostics::new(NAME)
            .note("replicates", estimates.len())
            .note("particles", self.particles)
            .note("temperatures", steps)
            .note("moves", self.moves(model));
        diagnostics.rounding = model.slack() * 2.0
            + numeric::rounding_allowance(steps as f64 + self.particles as f64, model.magnitude());
        diagnostics.stopped_early = stopped;
        diagnostics.seconds = clock.seconds();
        let confidence = run.confidence(NAME, self.confidence);
        let (value, guarantee) = unbiased(&estimates, confidence, diagnostics.rounding);
        Ok(Answer { value, guarantee, diagnostics })
    }
}

impl Map<SpaceModel> for AnnealedSampling {
    fn map(&self, model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
        let clock = run.start(NAME);
        self.check()?;
        run.require_memory(NAME, self.forecast(model, Query::Map, run).bytes)?;
        let (steps, moves) = (self.steps(model), self.moves(model));
        let count = log_count_bound(model.space()).unwrap_or(model.width() as f64);
        let last = (count / (LEFT * model.spread())).clamp(1.0, 1e300);
        let streams = Streams::new(run.seed(), "annealed best");
        let search = |index: u64| -> Result<(Particle, bool)> {
            let mut random = streams.block(index);
            let mut step = Step::default();
            let one = AnnealedSampling { particles: 1, ..*self };
            let mut particle = one.start(model, &mut random, &clock)?.swap_remove(0);
            let mut best = particle.clone();
            for time in 1..=steps {
                if clock.must_stop() {
                    return Ok((best, true));
                }
                // β increases geometrically from 0.1 divided by the range of the scores.
                let exponent = time as f64 / steps as f64;
                let first = (0.1 / model.spread().max(1e-300)).min(last);
                let beta = first * (last / first).powf(exponent);
                particle.moves(model, beta, moves.max(1), &mut random, &mut step, &clock)?;
                if particle.score > best.score {
                    best = particle.clone();
                }
            }
            Ok((best, false))
        };
        let (mut best, mut chains, mut stopped) = (None::<Particle>, 0u64, false);
        for group in groups(self.replicates) {
            let parts: Vec<Result<(Particle, bool)>> =
                run.install(|| group.into_par_iter().map(search).collect());
            for part in parts {
                match part {
                    Ok((particle, cut)) => {
                        chains += 1;
                        stopped |= cut;
                        // The first of equal ones, regardless of the number of threads.
                        if best.as_ref().is_none_or(|best| particle.score > best.score) {
                            best = Some(particle);
                        }
                    }
                    Err(_) if clock.must_stop() => stopped = true,
                    Err(error) => return Err(error),
                }
            }
            clock.progress("chains", chains, self.replicates as u64);
            if stopped {
                break;
            }
        }
        let Some(mut best) = best else {
            clock.check()?;
            return Err(Error::Interrupted);
        };
        let mut diagnostics = Diagnostics::new(NAME).note("chains", chains).note("beta", last);
        diagnostics.stopped_early = stopped;
        model.space().canonical(&mut best.structure);
        let score = model.score(&best.structure)?;
        diagnostics.rounding = 2.0 * model.slack();
        diagnostics.seconds = clock.seconds();
        let guarantee = Guarantee::bounds(score, model.range().1.max(score), 1.0, diagnostics.rounding);
        let value = BestState { state: SpaceModel::state(&best.structure), score };
        Ok(Answer { value, guarantee, diagnostics })
    }
}
