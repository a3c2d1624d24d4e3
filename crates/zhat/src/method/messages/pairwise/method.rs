//! Belief propagation on pairwise graphs, with all states or with a random subset.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::choice::{GraphProposal, Proposals, Rule};
use super::network::{Messages, Network, Rest};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::pairwise::{PER_MADE, PER_NUMBER, PER_PRODUCT, PER_WEIGHED};
use crate::method::dynamic::lattice::{self, zero_gradient};
use crate::method::dynamic::randomized::{Chosen, Selection, States};
use crate::method::sampling::unbiased;
use crate::model::{PairwiseGradient, PairwiseGraph, Transitions, VariableMarginals};
use crate::numeric::{self, Real};
use crate::options::{COUNT, DAMPING, FROM_ZERO, INSIDE_UNIT, Options, Range, options};
use crate::query::{Entropy, FactorMarginals, LogPartition, Marginals, Query};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};

const ALL: &str = "bp";
pub(super) const FEW: &str = "randomized-bp";

const MISSED: &str = "every replicate missed all states of positive weight, so the estimate of Z is 0; more states may find some";

/// Belief propagation on a pairwise graph: exact on a forest.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PairwisePropagation {
    /// Weight of the old message in an update, on a graph with cycles; from 0 to 1.
    pub damping: f64,
    /// Messages have converged if they change by less than this, in nats.
    pub tolerance: f64,
    /// Maximum number of sweeps.
    pub iterations: usize,
}

options!(PairwisePropagation {
    damping: f64 => DAMPING,
    tolerance: f64 => FROM_ZERO,
    iterations: usize => Range::whole(1, 1_000_000_000)
});

impl Default for PairwisePropagation {
    fn default() -> Self {
        PairwisePropagation { damping: 0.3, tolerance: 1e-6, iterations: 200 }
    }
}

/// Belief propagation between randomly chosen states of each variable.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RandomizedMessages {
    /// The number of states kept per variable: a count, or a fraction of all (but at least 64).
    pub states: States,
    /// The proposal for the choice of states.
    pub proposal: GraphProposal,
    /// The method of choosing states.
    pub selection: Selection,
    /// For sampled selections, the number of states that are always taken; by default all but one.
    pub top: Option<usize>,
    /// Number of independent replicates; with one, the standard error is unknown.
    pub replicates: usize,
    /// Confidence of the lower bound, between 0 and 1.
    pub confidence: f64,
    /// Weight of the old message in an update, on a graph with cycles; from 0 to 1.
    pub damping: f64,
    /// Messages have converged if they change by less than this, in nats.
    pub tolerance: f64,
    /// Maximum number of sweeps.
    pub iterations: usize,
}

options!(RandomizedMessages {
    states: States => Range::CountOrFraction,
    proposal: GraphProposal,
    selection: Selection,
    top: Option<usize> => COUNT,
    replicates: usize => Range::whole(1, 1_000_000),
    confidence: f64 => INSIDE_UNIT,
    damping: f64 => DAMPING,
    tolerance: f64 => FROM_ZERO,
    iterations: usize => Range::whole(1, 1_000_000_000)
});

impl Default for RandomizedMessages {
    fn default() -> Self {
        let PairwisePropagation { damping, tolerance, iterations } = PairwisePropagation::default();
        RandomizedMessages {
            states: States::Fraction(0.01),
            proposal: GraphProposal::default(),
            selection: Selection::default(),
            top: None,
            replicates: 8,
            confidence: 0.95,
            damping,
            tolerance,
            iterations,
        }
    }
}

/// One choice of states and the results of message passing on it; without a choice, all states are used.
pub(super) struct Settled<F> {
    pub chosen: Option<Vec<Chosen>>,
    pub messages: Messages<F>,
    pub rest: Rest,
    pub log_partition: f64,
    /// The largest |log weight| of a chosen state.
    largest: f64,
}

impl<F: Real> Settled<F> {
    /// Only an estimate of log Z and its largest |log weight|: for a choice without states, or from the records
    /// of another process.
    fn without_states(graph: &PairwiseGraph<F>, rest: Rest, (log_partition, largest): (f64, f64)) -> Self {
        let chosen = vec![Chosen::default(); graph.variables()];
        let messages = Network::restricted(graph, &chosen).silence();
        Settled { chosen: Some(chosen), messages, rest, log_partition, largest }
    }

    pub fn network<'a>(&'a self, graph: &'a PairwiseGraph<F>, clock: &Clock<'_>) -> Result<Network<'a, F>> {
        match &self.chosen {
            None => Network::new(graph, clock),
            Some(chosen) => Ok(Network::restricted(graph, chosen)),
        }
    }

    /// Adds factor · marginals to an array of V×N numbers.
    fn add_marginals(
        &self,
        graph: &PairwiseGraph<F>,
        factor: f64,
        clock: &Clock<'_>,
        out: &mut [F],
    ) -> Result<()> {
        let network = self.network(graph, clock)?;
        network.add_marginals(&self.messages, self.chosen.as_deref(), graph.states(), factor, out);
        Ok(())
    }

    fn add_gradient(
        &self,
        graph: &PairwiseGraph<F>,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut PairwiseGradient<F>,
    ) -> Result<()> {
        self.add_marginals(graph, factor, clock, &mut gradient.nodes)?;
        self.network(graph, clock)?.add_edge_marginals(
            &self.messages,
            factor,
            clock,
            &mut gradient.interactions,
        )
    }

    fn expected_score(&self, graph: &PairwiseGraph<F>, clock: &Clock<'_>) -> Result<f64> {
        self.network(graph, clock)?.expected_score(&self.messages, graph, self.chosen.as_deref(), clock)
    }
}

/// A bound on the rounding error of log Z. A variable sums this many terms for every edge.
fn rounding<F: Real>(graph: &PairwiseGraph<F>, terms: usize, largest_log_weight: f64) -> f64 {
    let (states, variables) = (graph.states(), graph.variables() as f64);
    let steps = variables + 2.0 * graph.edges().len() as f64;
    let magnitude = graph.magnitude() + variables * largest_log_weight;
    let sizes = lattice::Sizes {
        states,
        steps,
        terms: 0.0,
        others: terms as f64 + 2.0,
        backward: true,
        // The magnitude of a graph is not a multiple of that of one edge, so the sharper bound of chains is
        // used for embeddings only.
        longest: if graph.interactions().form() == "factored" { 1.0 } else { steps },
        magnitude,
    };
    lattice::rounding(graph.interactions(), &sizes)
}

/// The reason why there is no guarantee on a graph with cycles.
fn loopy(rest: Rest, tolerance: f64) -> Guarantee {
    let state = if rest.change <= tolerance {
        format!("messages converged after {} sweeps", rest.sweeps)
    } else {
        format!("messages still change by {:.1e} nats after {} sweeps", rest.change, rest.sweeps)
    };
    Guarantee::Heuristic {
        reason: format!("the graph has cycles, so this is the Bethe approximation; {state}"),
    }
}

/// Adds the error caused by the choice of states, estimated from the spread of the replicates.
fn with_spread(guarantee: Guarantee, logs: &[f64]) -> Guarantee {
    match (guarantee, unbiased(logs, 0.95, 0.0).1) {
        (Guarantee::Heuristic { reason }, Guarantee::Unbiased { relative_std_error: error, .. })
            if error.is_finite() =>
        {
            Guarantee::Heuristic {
                reason: format!("{reason}; the choice of states moves log Z by about {error:.1e} nats"),
            }
        }
        (guarantee, _) => guarantee,
    }
}

/// The error if messages leave a variable without a state.
fn contradiction<F: Real>(graph: &PairwiseGraph<F>, settled: &Settled<F>, clock: &Clock<'_>) -> Error {
    if graph.is_forest() && settled.chosen.is_none() {
        return Error::ZeroPartition;
    }
    let totals = match settled.network(graph, clock) {
        Ok(network) => network.totals(&settled.messages),
        Err(error) => return error,
    };
    let v = totals.iter().position(|&total| total == f64::NEG_INFINITY).unwrap_or(0);
    let hint = if settled.chosen.is_some() { "; more states may do" } else { "" };
    Error::NoAnswer(format!(
        "the messages into variable {v} contradict each other: none of its states is left{hint}"
    ))
}

impl PairwisePropagation {
    fn settle<F: Real>(&self, graph: &PairwiseGraph<F>, clock: &Clock<'_>) -> Result<Settled<F>> {
        let network = Network::new(graph, clock)?;
        let (messages, rest) = network.settle(self.damping, self.tolerance, self.iterations, clock)?;
        let log_partition = network.log_partition(&messages);
        Ok(Settled { chosen: None, messages, rest, log_partition, largest: 0.0 })
    }

    fn answer<F: Real, T: Send>(
        &self,
        graph: &PairwiseGraph<F>,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&[Settled<F>], &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(ALL);
        self.check()?;
        run.require_memory(ALL, self.forecast(graph, query, run).bytes)?;
        let (value, rest) = run.install(|| {
            let settled = self.settle(graph, &clock)?;
            if settled.log_partition == f64::NEG_INFINITY {
                return Err(contradiction(graph, &settled, &clock));
            }
            Ok((finish(std::slice::from_ref(&settled), &clock)?, settled.rest))
        })?;
        let exact = graph.is_forest();
        let guarantee = if exact { Guarantee::Exact } else { loopy(rest, self.tolerance) };
        let mut diagnostics = Diagnostics::new(ALL)
            .note("iterations", rest.sweeps)
            .note("converged", rest.change <= self.tolerance)
            .note("interactions", graph.interactions().form())
            .note("precision", F::NAME);
        diagnostics.rounding = rounding(graph, graph.states(), 0.0);
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }
}

impl RandomizedMessages {
    /// The number of distinct replicates: those of a deterministic selection are all the same.
    fn distinct_replicates(&self) -> usize {
        if self.selection == Selection::Top { 1 } else { self.replicates }
    }

    /// Chooses states and passes messages between them, for each replicate.
    pub(super) fn settle<F: Real>(
        &self,
        graph: &PairwiseGraph<F>,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Vec<Settled<F>>> {
        self.check()?;
        let count = self.states.of(graph.states());
        let rule = Rule { selection: self.selection, count, top: self.top.unwrap_or(count - 1) };
        let pilot = Streams::new(run.seed(), "randomized messages pilot");
        let proposals = Proposals::new(graph, self.proposal, rule, &pilot, clock)?;
        let streams = Streams::new(run.seed(), "randomized messages");
        let (replicates, done) = (self.distinct_replicates(), AtomicUsize::new(0));
        // Progress of the messages within a replicate is not reported.
        let quiet = clock.quiet();
        let replicate = |r: usize| -> Result<Settled<F>> {
            clock.step("replicates", done.fetch_add(1, Ordering::Relaxed), replicates)?;
            let clock = &quiet;
            let chosen = proposals.choose(rule, &streams, r, clock)?;
            let impossible = chosen.iter().any(|chosen| chosen.states.is_empty());
            if impossible {
                let rest = Rest { sweeps: 0, change: 0.0 };
                return Ok(Settled::without_states(graph, rest, (f64::NEG_INFINITY, 0.0)));
            }
            let network = Network::restricted(graph, &chosen);
            let (messages, rest) = network.settle(self.damping, self.tolerance, self.iterations, clock)?;
            let log_partition = network.log_partition(&messages);
            drop(network);
            let weights = chosen.iter().flat_map(|chosen| &chosen.log_weights);
            let largest = weights.filter(|w| w.is_finite()).fold(0.0, |a, w| f64::max(a, w.abs()));
            Ok(Settled { chosen: Some(chosen), messages, rest, log_partition, largest })
        };
        if !run.is_shared(FEW) {
            return (0..replicates).into_par_iter().map(replicate).collect();
        }
        let (units, mut settled) = (Units::new(FEW, replicates as u64, &[count as u64]), Vec::new());
        let work = |r: u64| {
            let Settled { rest, log_partition, largest, .. } = replicate(r as usize)?;
            Ok(((rest.sweeps as u64, rest.change), (log_partition, largest)))
        };
        run.first_units(&units, 0..units.count, work, |_, ((sweeps, change), estimate)| {
            let rest = Rest { sweeps: sweeps as usize, change };
            settled.push(Settled::without_states(graph, rest, estimate));
        })?;
        Ok(settled)
    }

    fn answer<F: Real, T: Send>(
        &self,
        graph: &PairwiseGraph<F>,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&[Settled<F>], &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(FEW);
        run.require_memory(FEW, self.forecast(graph, query, run).bytes)?;
        let (value, logs, rest, largest) = run.install(|| {
            let settled = self.settle(graph, run, &clock)?;
            let missed = settled.iter().all(|one| one.log_partition == f64::NEG_INFINITY);
            // An estimate of 0 is a valid result for Z, unless all states were kept. A ratio of two such
            // estimates is undefined.
            let some = self.states.of(graph.states()) < graph.states();
            if missed && !some && graph.is_forest() {
                return Err(Error::ZeroPartition);
            }
            if missed && !(some && query == Query::LogPartition) {
                return Err(settled
                    .first()
                    .map_or(Error::ZeroPartition, |one| contradiction(graph, one, &clock)));
            }
            let logs: Vec<f64> = settled.iter().map(|one| one.log_partition).collect();
            let worst = settled.iter().map(|one| one.rest).max_by(|a, b| a.change.total_cmp(&b.change));
            let largest = settled.iter().map(|one| one.largest).fold(0.0, f64::max);
            Ok((finish(&settled, &clock)?, logs, worst.unwrap_or(Rest { sweeps: 0, change: 0.0 }), largest))
        })?;
        let count = self.states.of(graph.states());
        let rounding = rounding(graph, count, largest);
        let guarantee = if !self.selection.is_unbiased() {
            let reason = "all but the likeliest states are left out, so the partition function is too small";
            Guarantee::Heuristic { reason: reason.into() }
        } else if !graph.is_forest() {
            with_spread(loopy(rest, self.tolerance), &logs)
        } else if query == Query::LogPartition {
            unbiased(&logs, run.confidence(FEW, self.confidence), rounding).1
        } else {
            let reason = "a ratio of two estimates: right in the limit, biased for finitely many states";
            Guarantee::Heuristic { reason: reason.into() }
        };
        let mut diagnostics = Diagnostics::new(FEW)
            .note("states", count)
            .note("replicates", logs.len())
            .note("iterations", rest.sweeps)
            .note("interactions", graph.interactions().form())
            .note("precision", F::NAME);
        if logs.iter().all(|&log| log == f64::NEG_INFINITY) {
            diagnostics = diagnostics.note("warning", MISSED);
        }
        diagnostics.rounding = rounding;
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// Log of the mean of the replicates' estimates.
fn log_mean<F>(settled: &[Settled<F>]) -> f64 {
    let logs: Vec<f64> = settled.iter().map(|one| one.log_partition).collect();
    numeric::log_sum_exp(&logs) - (logs.len() as f64).ln()
}

/// The replicates with positive weight, and their relative weights.
fn shares<F>(settled: &[Settled<F>]) -> impl Iterator<Item = (&Settled<F>, f64)> {
    let total = log_mean(settled) + (settled.len() as f64).ln();
    let some = settled.iter().filter(|one| one.log_partition > f64::NEG_INFINITY);
    some.map(move |one| (one, (one.log_partition - total).exp()))
}

fn marginals<F: Real>(
    graph: &PairwiseGraph<F>,
    settled: &[Settled<F>],
    clock: &Clock<'_>,
) -> Result<VariableMarginals<F>> {
    let mut values = vec![F::ZERO; graph.nodes().len()];
    for (one, share) in shares(settled) {
        one.add_marginals(graph, share, clock, &mut values)?;
    }
    Ok(VariableMarginals { shape: [graph.variables(), graph.states()], values })
}

fn gradient<F: Real>(
    graph: &PairwiseGraph<F>,
    settled: &[Settled<F>],
    clock: &Clock<'_>,
) -> Result<PairwiseGradient<F>> {
    let nodes = vec![F::ZERO; graph.nodes().len()];
    let mut gradient = PairwiseGradient { nodes, interactions: zero_gradient(graph.interactions()) };
    for (one, share) in shares(settled) {
        one.add_gradient(graph, share, clock, &mut gradient)?;
    }
    Ok(gradient)
}

/// log Z − E\[score\].
fn entropy<F: Real>(graph: &PairwiseGraph<F>, settled: &[Settled<F>], clock: &Clock<'_>) -> Result<f64> {
    let mut score = 0.0;
    for (one, share) in shares(settled) {
        score += share * one.expected_score(graph, clock)?;
    }
    Ok(log_mean(settled) - score)
}

/// The same four queries for both methods, which differ only in the number of choices.
macro_rules! queries {
    ($method:ty) => {
        impl<F: Real> LogPartition<PairwiseGraph<F>> for $method {
            fn log_partition(&self, graph: &PairwiseGraph<F>, run: &Run) -> Result<Answer<f64>> {
                self.answer(graph, Query::LogPartition, run, |settled, _| Ok(log_mean(settled)))
            }
        }

        impl<F: Real> Marginals<PairwiseGraph<F>> for $method {
            fn marginals(&self, graph: &PairwiseGraph<F>, run: &Run) -> Result<Answer<VariableMarginals<F>>> {
                self.answer(graph, Query::Marginals, run, |settled, clock| marginals(graph, settled, clock))
            }
        }

        impl<F: Real> FactorMarginals<PairwiseGraph<F>> for $method {
            fn factor_marginals(
                &self,
                graph: &PairwiseGraph<F>,
                run: &Run,
            ) -> Result<Answer<PairwiseGradient<F>>> {
                self.answer(graph, Query::FactorMarginals, run, |settled, clock| {
                    gradient(graph, settled, clock)
                })
            }
        }

        impl<F: Real> Entropy<PairwiseGraph<F>> for $method {
            fn entropy(&self, graph: &PairwiseGraph<F>, run: &Run) -> Result<Answer<f64>> {
                self.answer(graph, Query::Entropy, run, |settled, clock| entropy(graph, settled, clock))
            }
        }
    };
}
queries!(PairwisePropagation);
queries!(RandomizedMessages);

/// Cost of the sweeps over all edges with K states: seconds and bytes.
fn sweeps_cost<F: Real>(
    graph: &PairwiseGraph<F>,
    states: f64,
    iterations: usize,
    made: bool,
    run: &Run,
) -> (f64, f64) {
    let (edges, size) = (graph.edges().len() as f64, size_of::<F>() as f64);
    let rank = match graph.interactions() {
        Transitions::Factored { left, .. } => left.len() as f64 / graph.states() as f64,
        _ => 0.0,
    };
    // A graph with cycles takes some tens of sweeps, a forest takes one.
    let sweeps = if graph.is_forest() { 1.0 } else { 30f64.min(iterations as f64) };
    let entry = if made || rank > 0.0 { PER_MADE + rank * PER_PRODUCT } else { PER_PRODUCT };
    let seconds = sweeps * 2.0 * edges * (states * states * entry + states * PER_NUMBER);
    let tables = if !made && rank == 0.0 { states * states } else { 0.0 };
    let rows = 2.0 * edges + 4.0 * 64f64.min(2.0 * edges) + 2.0 * graph.variables() as f64;
    let tiles = run.threads() as f64 * (1 << 20) as f64;
    (seconds * size / 4.0 / run.threads() as f64, size * (rows * states + tables) * 2.0 + tiles)
}

impl<F: Real> Forecasts<PairwiseGraph<F>> for PairwisePropagation {
    fn forecast(&self, graph: &PairwiseGraph<F>, query: Query, run: &Run) -> Forecast {
        let (seconds, bytes) = sweeps_cost(graph, graph.states() as f64, self.iterations, false, run);
        let promise = if graph.is_forest() { Promise::Exact } else { Promise::Heuristic };
        Forecast { seconds, bytes: bytes + outputs(graph, query), promise }
    }
}

impl<F: Real> Forecasts<PairwiseGraph<F>> for RandomizedMessages {
    fn forecast(&self, graph: &PairwiseGraph<F>, query: Query, run: &Run) -> Forecast {
        let (count, all) = (self.states.of(graph.states()) as f64, graph.states() as f64);
        let (seconds, bytes) = sweeps_cost(graph, count, self.iterations, true, run);
        let guide = if self.proposal == GraphProposal::Guided {
            2.0 * graph.edges().len() as f64 * count * all * PER_MADE * 2.0 / run.threads() as f64
        } else {
            0.0
        };
        let variables = graph.variables() as f64;
        let proposals = 16.0 * variables * all;
        // The weight of every state is computed, and the chosen states are kept with their weights.
        let chosen = variables * all * PER_WEIGHED / run.threads() as f64;
        let choices = variables * (24.0 * count + 64.0);
        let unbiased = graph.is_forest() && self.selection.is_unbiased() && query == Query::LogPartition;
        Forecast {
            seconds: (guide + seconds + chosen) * (self.distinct_replicates() as f64 + 1.0),
            bytes: (bytes + choices) * self.distinct_replicates() as f64 + proposals + outputs(graph, query),
            promise: if unbiased { Promise::Unbiased } else { Promise::Heuristic },
        }
    }
}

/// Memory of results that are as large as the model, in bytes.
fn outputs<F: Real>(graph: &PairwiseGraph<F>, query: Query) -> f64 {
    let numbers = match query {
        Query::Marginals => graph.nodes().len(),
        Query::FactorMarginals => graph.nodes().len() + graph.interactions().len(),
        _ => 0,
    };
    (numbers * size_of::<F>()) as f64
}
