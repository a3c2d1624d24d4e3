//! Importance sampling.
//!
//! Z = E_q[exp score(x) / q(x)]: states are drawn from a tractable proposal q, and their weights are
//! averaged. R independent replicates give the spread and a lower bound that always holds
//! ([`crate::Guarantee`]). The proposal is the uniform distribution over the states that are not ruled out
//! individually, or (better) the product of the factors on a spanning tree, which is sampled exactly.
//!
//! Time O(samples · factors), memory O(variables · replicates). log Z: unbiased for Z. The best state seen:
//! certified bounds on the best score. Marginals and entropy: ratios of two estimates, so consistent but
//! biased.
//!
//! Stops early with the result so far when cancelled or out of time.
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::model::generate;
//! use zhat::sampling::ImportanceSampling;
//! let grid = generate::Grid { rows: 8, columns: 8, torus: false };
//! let model = generate::ising(grid, 0.2, 0.5, false, 1)?;
//! let z = ImportanceSampling::default().log_partition(&model, &Run::default())?;
//! println!("{z}"); // 49.70… (unbiased, standard error 0.5%; at least 49.5… with 95% confidence)
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::proposal::{ImportanceProposal, Sampler};
use super::weighted::{Masses, missed, ratio, together, warned, weighted_samples};
use super::{Rounds, unbiased};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::Result;
use crate::method::cost::importance::{SECONDS_PER_FACTOR, SECONDS_PER_VARIABLE};
use crate::method::exact::prepare::Reduced;
use crate::method::sampling;
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{INSIDE_UNIT, Options, REPLICATES, SAMPLES, options};
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, LogPartition, Map, Marginals, Query, Sample,
    Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::{Stream, Streams};
use crate::run::share::{Reader, Units};
use crate::run::{Clock, Run};

const NAME: &str = "importance";
/// Work of a replicate between checks of the clock, in variables drawn and factors read.
const ROUND: usize = 1 << 16;

/// Importance sampling from a spanning tree or the uniform distribution.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ImportanceSampling {
    /// The distribution to sample from.
    pub proposal: ImportanceProposal,
    /// Total number of samples; rounded up to a multiple of the number of replicates.
    pub samples: u64,
    /// Number of independent replicates, at least two.
    pub replicates: usize,
    /// Confidence of the lower bound, between 0 and 1.
    pub confidence: f64,
}

options!(ImportanceSampling {
    proposal: ImportanceProposal,
    samples: u64 => SAMPLES,
    replicates: usize => REPLICATES,
    confidence: f64 => INSIDE_UNIT
});

impl Default for ImportanceSampling {
    fn default() -> Self {
        ImportanceSampling {
            proposal: ImportanceProposal::Tree,
            samples: 1 << 16,
            replicates: 32,
            confidence: 0.95,
        }
    }
}

/// One replicate: its sums, and the best state it has seen.
struct Replicate {
    random: Stream,
    state: Vec<usize>,
    masses: Masses,
    best: Option<BestState>,
}

impl Replicate {
    fn new(random: Stream, graph: &FactorGraph, query: Query) -> Self {
        let state = vec![0; graph.variable_count()];
        Replicate { random, state, masses: Masses::new(graph, query), best: None }
    }

    fn draw(&mut self, sampler: &Sampler<'_>, graph: &FactorGraph, query: Query) {
        let log_weight = sampler.draw(&mut self.random, &mut self.state);
        self.masses.add(log_weight, graph, &self.state);
        if matches!(query, Query::Map | Query::KBest(_)) && log_weight > f64::NEG_INFINITY {
            let score = graph.score(&self.state);
            if self.best.as_ref().is_none_or(|best| score > best.score) {
                self.best = Some(BestState { state: self.state.clone(), score });
            }
        }
    }
}

impl sampling::Replicate for Replicate {
    fn write(&self, words: &mut Vec<u64>) {
        self.masses.write(words);
    }

    fn read(&mut self, words: &mut Reader<'_>) -> Option<()> {
        self.masses.read(words)
    }
}

/// The finished replicates, the number of samples of each, and whether the run was stopped early.
struct Drawn {
    replicates: Vec<Replicate>,
    samples_each: u64,
    stopped_early: bool,
    reduced: Reduced,
    rounding: f64,
}

impl Drawn {
    fn masses(&self, query: Query) -> Result<Masses> {
        together(self.replicates.iter().map(|replicate| &replicate.masses), &self.reduced.graph, query)
    }
}

impl ImportanceSampling {
    fn bytes(&self, graph: &FactorGraph, query: Query) -> f64 {
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
        let n = graph.variable_count() as f64;
        let (each, extra) = match query {
            Query::Marginals => (8.0 * states, 0.0),
            // The total sums, and the expanded tables with an index list.
            Query::FactorMarginals => (graph.bytes() as f64, 4.0 * graph.bytes() as f64),
            _ => (0.0, 0.0),
        };
        let each = 512.0 + 16.0 * n + each;
        let samples = if let Query::Sample(count) = query { count as f64 * (16.0 * n + 16.0) } else { 0.0 };
        // The reduced model, the tree, the messages and the conditionals (at most twice) are no larger than
        // the model. Neither are the index list, twice, and the entries of a factor whose axes are permuted.
        graph.preparation_bytes()
            + 7.0 * graph.bytes() as f64
            + each * self.replicates as f64
            + extra
            + samples
    }

    fn draw(&self, graph: &FactorGraph, query: Query, run: &Run, clock: &Clock<'_>) -> Result<Drawn> {
        self.check()?;
        run.require_memory(NAME, self.bytes(graph, query))?;
        // The first samples must be completed, because there is no result before them.
        let patient = run.with_grace();
        let early = patient.start(NAME);
        let reduced = Reduced::within(graph, &early)?;
        let rounding = rounding(graph);
        let streams = Streams::new(run.seed(), "importance sampling");
        let target = self.samples.div_ceil(self.replicates as u64);
        run.install(|| {
            let free = &reduced.graph;
            let sampler = Sampler::new(self.proposal, free, &early)?;
            let longest = (ROUND / (free.variable_count() + free.factor_count() + 1)).clamp(1, 256) as u64;
            let (mut rounds, mut stopped_early) = (Rounds::new(self.replicates), false);
            let make = |r: usize| Replicate::new(streams.block(r as u64), free, query);
            let draw = |replicate: &mut Replicate| replicate.draw(&sampler, free, query);
            if run.is_shared(NAME) {
                let units = Units::new(NAME, self.replicates as u64, &[target]);
                rounds = Rounds::shared(&units, target, (run, &early), make, draw)?;
            }
            while rounds.samples_each < target && !stopped_early {
                // The first round is short, because there is no result before it.
                let round = if rounds.samples_each == 0 { 1 } else { longest };
                let round = round.min(target - rounds.samples_each);
                stopped_early = !rounds.advance(round, clock, make, draw);
                clock.progress("drawing samples", rounds.samples_each, target);
            }
            let Rounds { replicates, samples_each, .. } = rounds;
            Ok((replicates, samples_each, stopped_early))
        })
        .map(|(replicates, samples_each, stopped_early)| Drawn {
            replicates,
            samples_each,
            stopped_early,
            reduced,
            rounding,
        })
    }

    /// log Ẑ and its guarantee.
    fn estimate(&self, drawn: &Drawn, run: &Run) -> Estimate {
        let offset = drawn.reduced.constant - (drawn.samples_each as f64).ln();
        let replicates = &drawn.replicates;
        let logs: Vec<f64> = replicates.iter().map(|replicate| offset + replicate.masses.log_sum()).collect();
        let (value, guarantee) = unbiased(&logs, run.confidence(NAME, self.confidence), drawn.rounding);
        let mut diagnostics = Diagnostics::new(NAME)
            .note("samples", drawn.samples_each * logs.len() as u64)
            .note("replicates", logs.len());
        if value == f64::NEG_INFINITY {
            let note = "every sample had weight 0: that does not show that Z is 0, only that this proposal misses it";
            diagnostics = diagnostics.note("warning", note);
        }
        diagnostics.rounding = drawn.rounding;
        Answer { value, guarantee, diagnostics }
    }

    /// Draws all replicates and calls `finish` with them for the value and guarantee.
    fn answer<T>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Drawn, &Estimate) -> Result<(T, Guarantee)>,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let drawn = self.draw(graph, query, run, &clock)?;
        let estimate = self.estimate(&drawn, run);
        let (value, guarantee) = finish(&drawn, &estimate)?;
        let mut diagnostics = estimate.diagnostics;
        diagnostics.seconds = clock.seconds();
        diagnostics.stopped_early = drawn.stopped_early;
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// A bound on the rounding error of a log-weight and of a mean of weights.
fn rounding(graph: &FactorGraph) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 5.0).sum();
    numeric::rounding_allowance(2.0 * graph.factor_count() as f64 + states + 16.0, graph.magnitude())
}

impl Forecasts<FactorGraph> for ImportanceSampling {
    fn forecast(&self, graph: &FactorGraph, query: Query, _run: &Run) -> Forecast {
        let draws = if let Query::Sample(count) = query { count as f64 } else { self.samples as f64 };
        let scans =
            if matches!(query, Query::Map | Query::Entropy | Query::FactorMarginals) { 2.0 } else { 1.0 };
        let each = scans * graph.factor_count() as f64 * SECONDS_PER_FACTOR
            + graph.variable_count() as f64 * SECONDS_PER_VARIABLE;
        Forecast {
            bytes: self.bytes(graph, query),
            seconds: draws * each,
            promise: match query {
                Query::LogPartition | Query::Sample(_) => Promise::Unbiased,
                Query::Map | Query::KBest(_) => Promise::Bounds,
                Query::Marginals | Query::FactorMarginals | Query::Entropy => Promise::Heuristic,
            },
        }
    }
}

impl LogPartition<FactorGraph> for ImportanceSampling {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.answer(graph, Query::LogPartition, run, |_, estimate| {
            Ok((estimate.value, estimate.guarantee.clone()))
        })
    }
}

impl Marginals<FactorGraph> for ImportanceSampling {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.answer(graph, Query::Marginals, run, |drawn, _| {
            let beliefs = drawn.masses(Query::Marginals)?.into_beliefs();
            Ok((drawn.reduced.expand_beliefs(graph, &beliefs), ratio()))
        })
    }
}

impl FactorMarginals<FactorGraph> for ImportanceSampling {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.answer(graph, Query::FactorMarginals, run, |drawn, _| {
            let beliefs = drawn.masses(Query::FactorMarginals)?.into_factor_beliefs();
            Ok((drawn.reduced.expand_factor_beliefs(graph, &beliefs), ratio()))
        })
    }
}

impl Entropy<FactorGraph> for ImportanceSampling {
    /// log Ẑ − Ê\[score\].
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.answer(graph, Query::Entropy, run, |drawn, estimate| {
            let mean_score = drawn.masses(Query::Entropy)?.mean_score();
            Ok(((estimate.value - drawn.reduced.constant - mean_score).max(0.0), ratio()))
        })
    }
}

impl Map<FactorGraph> for ImportanceSampling {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        self.answer(graph, Query::Map, run, |drawn, _| {
            let bests = drawn.replicates.iter().filter_map(|replicate| replicate.best.as_ref());
            let best = bests.reduce(|a, b| if b.score > a.score { b } else { a }).ok_or_else(missed)?;
            let state = drawn.reduced.expand_state(&best.state);
            let score = graph.score(&state);
            // No state can exceed the sum of the maxima of all factors.
            let factors = drawn.reduced.graph.factors().map(|factor| numeric::max(factor.log_values));
            let high = drawn.reduced.constant + factors.sum::<f64>();
            Ok((BestState { state, score }, Guarantee::bounds(score, high.max(score), 1.0, drawn.rounding)))
        })
    }
}

impl Sample<FactorGraph> for ImportanceSampling {
    /// Samples from the proposal, with their weights.
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.bytes(graph, Query::Sample(count)))?;
        let reduced = Reduced::within(graph, &clock)?;
        let n = reduced.graph.variable_count();
        let streams = Streams::new(run.seed(), "importance weighted samples");
        let rounding = rounding(graph);
        let (samples, guarantee) = run.install(|| {
            let sampler = Sampler::new(self.proposal, &reduced.graph, &clock)?;
            let promise = (self.confidence, rounding);
            weighted_samples(count, n, &streams, &clock, promise, || {
                |random: &mut Stream, state: &mut [usize]| reduced.constant + sampler.draw(random, state)
            })
        })?;
        let mut diagnostics = warned(&samples, Diagnostics::new(NAME).note("samples", count));
        (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
        Ok(Answer { value: reduced.expand_samples(samples), guarantee, diagnostics })
    }
}
