//! Choice of the base by pilot runs, whose samples are discarded.
//!
//! The same factors are split with several beliefs, which determine the single-variable terms subtracted from
//! the rest. The split with the smallest variance of the weights is used. Further decisions: whether to
//! compute the first order exactly, whether to look for certificates of the tails, and with `epsilon` the
//! number of samples.

use crate::numeric::parallel::prelude::*;

use super::base::{self, Reach, Split};
use super::draws::Source;
use super::residual::{NAME, PER_TABLE, PER_VARIABLE, StochasticQuadrature, rounding};
use super::weights::{Draw, Plan};
use crate::error::{Error, Result};
use crate::method::bounds::minibucket::WeightedMiniBuckets;
use crate::method::messages::BeliefPropagation;
use crate::model::FactorGraph;
use crate::numeric;
use crate::query::DEFAULT_HORIZON;
use crate::query::{Beliefs, LogPartition, Marginals, Query};
use crate::random::Streams;
use crate::run::{Clock, Run};
use crate::units;

/// Pilot samples that share one random stream.
const BLOCK: usize = 256;
/// Work of all samples of a pilot run, in variables and tables, and the minimum and maximum number of
/// samples.
const PILOT: usize = 1 << 22;
pub(super) const PILOT_DRAWS: (usize, usize) = (256, 4096);
/// Maximum number of entries for the exact first order.
const FIRST_ORDER: f64 = 3e7;
/// The share of the time available for beliefs, and the same for certificates.
const SHARE: f64 = 0.1;

/// A base, a plan for summing the samples, and their number.
pub(super) struct Chosen {
    pub source: Source,
    pub plan: Plan,
    pub samples: u64,
}

impl StochasticQuadrature {
    /// The number of pilot samples, which are discarded.
    fn pilot_draws(free: &FactorGraph) -> usize {
        let (fewest, most) = PILOT_DRAWS;
        (PILOT / (free.variable_count() + free.factor_count() + 1)).clamp(fewest, most)
    }

    /// Calls `work` with each state of the pilot run of a base. The states are the same each time.
    fn pilot<T: Send>(
        source: &Source,
        number: u64,
        run: &Run,
        work: impl Fn(Draw, &[usize]) -> T + Sync,
    ) -> Vec<T> {
        let base = &source.split.base;
        let streams = Streams::new(run.seed(), "quadrature pilot");
        let blocks = Self::pilot_draws(base).div_ceil(BLOCK);
        let draw = |block: usize| {
            let mut random = streams.block(number * blocks as u64 + block as u64);
            let mut state = vec![0; base.variable_count()];
            let mut one = || {
                let draw = source.draw(&mut random, &mut state);
                work(draw, &state)
            };
            (0..BLOCK).map(|_| one()).collect::<Vec<T>>()
        };
        (0..blocks).into_par_iter().map(draw).collect::<Vec<_>>().into_iter().flatten().collect()
    }

    /// The base with the smallest variance of the weights among the candidate beliefs.
    fn source(
        &self,
        free: &FactorGraph,
        reach: Reach,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<(Source, u64)> {
        // The first elimination is required in any case.
        let patient = run.with_grace();
        let hurried = run.time().map(|time| run.unobserved().with_time(time.mul_f64(SHARE)));
        let hurried = hurried.unwrap_or_else(|| run.unobserved());
        let growing = hurried.start(NAME);
        let stop = || growing.must_stop();
        let split = |beliefs: &Beliefs| base::split(free, reach, beliefs, self.absorb, &stop);
        let first = Source::new(split(&base::uniform(free))?, &patient.start(NAME))?;
        let mut best = (first.ok_or_else(|| free.zero_error())?, 0);
        if !self.absorb || reach == Reach::Nothing || best.0.left() == 0 {
            return Ok(best);
        }
        let propagation = BeliefPropagation { iterations: 200, tolerance: 1e-4, ..Default::default() };
        let mut beliefs = propagation.marginals(free, &hurried).ok().map(|answer| answer.value);
        // First the beliefs of belief propagation, then those of the best base so far.
        for number in 1..4u64 {
            let Some(own) = beliefs.take().or_else(|| best.0.beliefs(clock).ok()) else { break };
            let Ok(Some(next)) = Source::new(split(&own)?, clock) else { break };
            if clock.must_stop() {
                break;
            }
            if Self::is_better((&next, number), (&best.0, best.1), free, run) {
                best = (next, number);
            } else if number > 1 {
                break;
            }
        }
        Ok(best)
    }

    /// Whether the weights of a base vary less than those of another. Either base may miss states that matter
    /// under the other, so both second moments are computed from the samples of both: E\[w²\] =
    /// E_mixture\[p²/(q·mixture)\].
    fn is_better(new: (&Source, u64), old: (&Source, u64), free: &FactorGraph, run: &Run) -> bool {
        let moments = |_: Draw, state: &[usize]| {
            let score = free.score(state);
            if score == f64::NEG_INFINITY {
                return [score; 2];
            }
            let (a, b) = (new.0.log_density(state), old.0.log_density(state));
            let top = a.max(b);
            let mixture = top + (0.5 * ((a - top).exp() + (b - top).exp())).ln();
            [2.0 * score - a - mixture, 2.0 * score - b - mixture]
        };
        let mut logs = Self::pilot(new.0, new.1, run, moments);
        logs.extend(Self::pilot(old.0, old.1, run, moments));
        let total = |i: usize| numeric::log_sum_exp(&logs.iter().map(|pair| pair[i]).collect::<Vec<f64>>());
        total(0) < total(1)
    }

    /// Makes all choices before the final samples.
    pub(super) fn choose(
        &self,
        free: &FactorGraph,
        reach: Reach,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Chosen> {
        let (mut source, number) = self.source(free, reach, run, clock)?;
        let pilot = Self::pilot(&source, number, run, |draw, _| draw);
        let delta = self.delta();
        let count = self.samples as f64;
        let mut plan = Plan::new(&pilot, &source.known, count, delta);
        if source.left() == 0 || query != Query::LogPartition {
            return Ok(Chosen { source, plan, samples: self.samples });
        }
        if self.first_order && reach != Reach::Nothing && plan.steady && plan.variance < 1.0 {
            source.known.mean = source.first_order(FIRST_ORDER, clock).ok().flatten();
        } else if self.first_order && reach == Reach::Nothing && plan.steady && !source.known.hard {
            // Under the uniform measure, E[h] is the sum of the means.
            let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
            source.known.mean = Some(free.factors().map(|factor| mean(factor.log_values)).sum());
        }
        if source.known.mean.is_some() {
            let corrected = Plan::new(&pilot, &source.known, count, delta);
            if corrected.variance < 0.5 * plan.variance {
                plan = corrected;
            } else {
                source.known.mean = None;
            }
        }
        // If known tails would improve the upper bound considerably, look for certificates.
        if plan.expected.1 - 1.0 > 1.5 * (plan.ideal - 1.0) && !clock.is_out_of_time() {
            source.known.moments = self.certificates(&source, run);
            if !source.known.moments.is_empty() {
                plan = Plan::new(&pilot, &source.known, count, delta);
            }
        }
        let Some(epsilon) = self.epsilon else {
            return Ok(Chosen { source, plan, samples: self.samples });
        };
        let (mut samples, mut within) = (1024f64, false);
        while !within && samples < 1e18 {
            samples *= 2.0;
            plan = Plan::new(&pilot, &source.known, samples, delta);
            within = plan.expected.1 - 1.0 <= epsilon && 1.0 - plan.expected.0 <= epsilon;
        }
        let each = free.variable_count() as f64 * PER_VARIABLE + source.left() as f64 * PER_TABLE;
        let seconds = samples * each / run.threads().min(self.replicates) as f64;
        let horizon = run.horizon(NAME, DEFAULT_HORIZON);
        if !within || seconds > horizon {
            let samples = if within { format!("{samples:.1e}") } else { "over 1e18".into() };
            return Err(Error::OverBudget {
                needs: format!(
                    "{NAME} needs {samples} samples for epsilon = {epsilon} with {}% confidence, about {}",
                    100.0 * self.confidence,
                    units::seconds(seconds)
                ),
                budget: units::seconds(horizon),
                fitting: Vec::new(),
            });
        }
        Ok(Chosen { source, plan, samples: samples as u64 })
    }

    /// Certified upper bounds on ln E\[exp pr\]: an upper bound on log Z of the model with r multiplied by p,
    /// minus ln of the partition function of the base.
    fn certificates(&self, source: &Source, run: &Run) -> Vec<(f64, f64)> {
        let Split { base, rest, .. } = &source.split;
        let bound = |p: f64| {
            let mut graph = base.clone();
            for factor in rest.factors() {
                let values: Vec<f64> = factor.log_values.iter().map(|x| p * x).collect();
                graph.add_factor(factor.scope, &values).ok()?;
            }
            let method = Self::bound(self.width);
            let mut run = run.unobserved().with_memory(run.memory() / 4);
            if let Some(time) = run.time() {
                run = run.with_time(time.mul_f64(SHARE));
            }
            let answer = method.log_partition(&graph, &run).ok()?;
            let (_, high, _) = answer.guarantee.interval(answer.value, answer.diagnostics.rounding)?;
            let moment = high - source.log_normaliser + rounding(base);
            moment.is_finite().then_some((p, moment))
        };
        [2.0, 4.0].into_iter().filter_map(bound).collect()
    }

    pub(super) fn bound(width: usize) -> WeightedMiniBuckets {
        WeightedMiniBuckets { i_bound: Some(width.max(2)), iterations: 20, tolerance: 1e-2, lower: false }
    }
}
