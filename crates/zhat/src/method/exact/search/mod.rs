//! Exact search with clause learning and component caching, for models with many zeros.
//!
//! Z = Σ_s Z(x_v = s): a variable is set to one state after the other and the consequences are propagated.
//! The rest decomposes into parts that share no clause and no weight: Z(x_v = s) = c · Π Z(part). Parts
//! solved before are found in a cache. The zeros of the factors are clauses, propagated with watched
//! literals, and a new clause is learned from every conflict. The next variable to decide is one that occurs
//! often, was part of recent conflicts, and lies at the centre of a tree decomposition.
//!
//! Before the search, states that lead to a contradiction are removed. For log Z alone, all variables that
//! can be summed out at no cost are eliminated. For all other queries the search records its trace: a circuit
//! of sums and products that gives marginals, entropy, the best state and samples in one or two passes.
//!
//! Time: in the worst case exponential in the number of variables, in the best case a small power of it.
//! Without zeros it is similar to 2^width, and elimination is faster. Memory: the cache uses the rest of the
//! budget and evicts the least recently used entries; a circuit that does not fit is an error. Exact: values
//! found next to a part that turns out to be zero are removed from the cache, because learned clauses may
//! have made them too small.
//!
//! Reference: F. Bacchus, S. Dalmao, T. Pitassi, *Solving #SAT and Bayesian inference with backtracking
//! search*, JAIR 34 (2009); T. Sang et al., *Combining component caching and clause learning for effective
//! model counting*, SAT 2004; M. Thurley, *sharpSAT: counting models with advanced component caching and
//! implicit BCP*, SAT 2006.
//!
//! ```
//! use zhat::{FactorGraph, LogPartition, Run};
//! use zhat::exact::Search;
//! // In how many ways can a ring of 9 be coloured with 3 colours? 2⁹ − 2.
//! let mut ring = FactorGraph::new(vec![3; 9])?;
//! for v in 0..9 {
//!     let differ = |i| if i / 3 == i % 3 { f64::NEG_INFINITY } else { 0.0 };
//!     ring.add_factor(&[v, (v + 1) % 9], &(0..9).map(differ).collect::<Vec<_>>())?;
//! }
//! let count = Search::default().log_partition(&ring, &Run::default())?;
//! assert!((count.value - 510f64.ln()).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

mod cache;
mod circuit;
mod components;
mod constraints;
mod count;
mod guide;
mod propagate;
mod sum_out;
mod weights;
mod witness;

pub(crate) use self::witness::{Witness, witness, witness_bytes};

use std::borrow::Cow;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use self::circuit::Circuit;
use self::count::{Figures, Search as Counting};
use super::elimination;
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::cost::search::{AT_LEAST, SECONDS_PER_ENTRY, SECONDS_PER_STEP};
use crate::method::exact::prepare::{Order, Prepared, Reduced, Trial};
use crate::model::FactorGraph;
use crate::options::options;
use crate::query::{Beliefs, BestState, Entropy, Law, LogPartition, Map, Marginals, Query, Sample, Samples};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::{Clock, Run};

const NAME: &str = "search";
/// Number of samples that share one random stream.
const BLOCK: usize = 256;
/// Number of steps of a trial: about 0.15 s.
const TRIAL: u64 = 4_000_000;
/// Number of steps of a trial if elimination would take more than a minute: some seconds.
const LONG_TRIAL: u64 = 250_000_000;
/// Number of steps of a trial per second of the time budget: about a fifth of it.
const TRIAL_PER_SECOND: f64 = 5e6;
const MANY_ENTRIES: f64 = 2e10;
/// With fewer entries than this elimination is so fast that no trial is needed.
const FEW_ENTRIES: f64 = 1e6;

/// Exact inference by search, for models with many zeros.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Search {}

options!(Search {});

/// The problem to search.
struct Problem<'a> {
    graph: Cow<'a, FactorGraph>,
    /// Log of the weight that has been factored out.
    constant: f64,
    guide: Vec<f64>,
}

impl<'a> Problem<'a> {
    /// Returns an error if Z = 0.
    fn new(graph: &'a FactorGraph, traced: bool, clock: &Clock<'_>) -> Result<Self> {
        let (graph, constant) = if traced {
            (Cow::Borrowed(graph), 0.0)
        } else {
            let (smaller, constant) = sum_out::summed_out(graph)?;
            (Cow::Owned(smaller), constant)
        };
        let order = Order::structure(&graph, &|| clock.must_stop());
        let guide =
            order.map_or_else(|| vec![0.0; graph.variable_count()], |order| guide::priorities(&order));
        Ok(Problem { graph, constant, guide })
    }
}

/// The result of a search.
struct Found {
    log_value: f64,
    circuit: Circuit,
}

/// Bytes besides the search itself: preparation, copies of the graph, an order, and the result.
fn outside_bytes(graph: &FactorGraph, rest: &FactorGraph, query: Query) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
    let variables = graph.variable_count() as f64;
    let answer = match query {
        Query::LogPartition => 0.0,
        Query::Marginals | Query::FactorMarginals | Query::Entropy => 24.0 * states,
        Query::Map => 24.0 * variables,
        Query::KBest(count) | Query::Sample(count) => 16.0 * count as f64 * (variables + 1.0),
    };
    graph.preparation_bytes() + 2.0 * rest.preparation_bytes() + 4.0 * rest.bytes() as f64 + answer
}

/// Initial size in bytes of the lists of a search, if every zero were a separate clause.
fn initial_bytes(rest: &FactorGraph) -> f64 {
    let states: f64 = rest.cardinalities().iter().map(|&states| states as f64).sum();
    let clauses: f64 = rest
        .factors()
        .map(|factor| {
            let zeros = factor.log_values.iter().filter(|x| **x == f64::NEG_INFINITY).count() as f64;
            300.0 + zeros * (200.0 + 80.0 * factor.scope.len() as f64)
        })
        .sum();
    clauses + 600.0 * states + 4096.0
}

/// Runs a few steps and extrapolates the cost of the whole search.
///
/// Two extrapolations are compared: progress at the rate of the last three quarters of the trial, and
/// progress as a power of the number of steps, which holds if the cache is effective. The smaller one is
/// used, because a constant rate is always too pessimistic.
fn trial(rest: &FactorGraph, limit: u64, traced: bool, memory: usize, clock: &Clock<'_>) -> Trial {
    let setup = 1e-8 * rest.bytes() as f64;
    let Ok(problem) = Problem::new(rest, traced, clock) else {
        return Trial { seconds: setup, bytes: 0.0, answer: None };
    };
    let mut search = Counting::new(&problem.graph, problem.guide, traced, memory);
    let (mut begun, mut quarter) = (None, None);
    let outcome = search.run(|search| {
        let steps = search.steps() - *begun.get_or_insert(search.steps());
        if steps >= limit / 4 {
            quarter.get_or_insert((steps as f64, search.closed));
        }
        Ok(steps < limit && !clock.must_stop())
    });
    let steps = search.steps() as f64;
    let bytes = search.figures().bytes as f64;
    let spent = setup + steps * SECONDS_PER_STEP;
    if let Ok(Some(log_sum)) = outcome {
        let mut diagnostics = diagnostics(&search.figures());
        diagnostics.seconds = clock.seconds();
        let answer = Answer::exact(problem.constant + log_sum, diagnostics);
        return Trial { seconds: spent, bytes, answer: (log_sum > f64::NEG_INFINITY).then_some(answer) };
    }
    let done = search.closed.clamp(0.0, 1.0);
    let (early_steps, early_done) = quarter.unwrap_or((0.0, 0.0));
    let rate = (done - early_done).max(0.0) / (steps - early_steps).max(1.0);
    let power = (done / early_done).ln().max(0.0) / (steps / early_steps).ln();
    let at_rate = (1.0 - done) / rate;
    let by_power = if power > 0.0 { steps * (-done.ln() / power).exp() } else { f64::INFINITY };
    let more = if at_rate.is_nan() { f64::INFINITY } else { at_rate.min(by_power) };
    let (seconds, bytes) = (spent + more * SECONDS_PER_STEP, bytes * (1.0 + more / steps));
    Trial { seconds, bytes, answer: None }
}

/// Statistics of a search.
fn diagnostics(figures: &Figures) -> Diagnostics {
    Diagnostics::new(NAME)
        .note("decisions", figures.decisions)
        .note("conflicts", figures.conflicts)
        .note("components", figures.components)
        .note("cache_hits", figures.hits)
}

impl Search {
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(Found, &Reduced, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let prepared = graph.prepared_for(query, NAME, run)?;
        let reduced = &prepared.reduced;
        let outside = outside_bytes(graph, &reduced.graph, query);
        run.require_memory(NAME, outside + initial_bytes(&reduced.graph))?;
        let traced = query != Query::LogPartition;
        let zero = |error| if matches!(error, Error::ZeroPartition) { graph.zero_error() } else { error };
        let problem = Problem::new(&reduced.graph, traced, &clock).map_err(zero)?;
        let memory = run.memory().saturating_sub(outside as u64) as usize;
        let mut search = Counting::new(&problem.graph, problem.guide, traced, memory);
        let outcome = search.run(|search| {
            clock.check()?;
            clock.progress("searching", (search.closed.clamp(0.0, 1.0) * 1e6) as u64, 1_000_000);
            Ok(true)
        })?;
        let figures = search.figures();
        let Some(log_sum) = outcome else {
            return Err(run.over_memory(NAME, outside + 2.0 * figures.bytes as f64));
        };
        if log_sum == f64::NEG_INFINITY {
            return Err(graph.zero_error());
        }
        let circuit = search.circuit.take().unwrap_or_default();
        drop(search);
        let found = Found { log_value: reduced.constant + problem.constant + log_sum, circuit };
        let value = run.install(|| finish(found, reduced, &clock))?;
        let mut diagnostics = diagnostics(&figures);
        if traced {
            diagnostics = diagnostics.note("circuit_nodes", figures.nodes);
        }
        diagnostics.rounding = elimination::rounding(graph);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }

    /// Estimated cost of a search through a prepared graph, besides the fixed costs.
    fn expected(prepared: &Prepared, query: Query, memory: usize, run: &Run) -> Trial {
        let rest = &prepared.reduced.graph;
        let entries = prepared.order.as_ref().map_or_else(|log2| log2.exp2(), |order| order.entries);
        if !rest.has_zeros() || entries < FEW_ENTRIES {
            let (seconds, bytes) = (AT_LEAST + SECONDS_PER_ENTRY * entries, 192.0 * entries);
            return Trial { seconds, bytes, answer: None };
        }
        let traced = query != Query::LogPartition;
        let limit = if entries > MANY_ENTRIES { LONG_TRIAL } else { TRIAL };
        let limit = run
            .time()
            .map_or(limit, |time| limit.min((TRIAL_PER_SECOND * time.as_secs_f64()) as u64).max(TRIAL / 4));
        let known = &prepared.trials[usize::from(traced)];
        if let Some(trial) = known.get() {
            return trial.clone();
        }
        let clock = run.start(NAME);
        let trial = trial(rest, limit, traced, memory, &clock);
        // An interrupted trial is not stored, because a run with more time could do a longer one.
        if clock.must_stop() { trial } else { known.get_or_init(|| trial).clone() }
    }
}

impl Forecasts<FactorGraph> for Search {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let prepared = match graph.prepared_for(query, NAME, run) {
            Ok(prepared) => prepared,
            Err(error) => return elimination::unprepared(graph, &error),
        };
        let rest = &prepared.reduced.graph;
        let outside = outside_bytes(graph, rest, query);
        let needed = outside + initial_bytes(rest);
        let room = run.memory() as f64 - needed;
        if room < 0.0 {
            return Forecast { bytes: needed, seconds: f64::INFINITY, promise: Promise::Exact };
        }
        let memory = run.memory().saturating_sub(outside as u64) as usize;
        let Trial { mut seconds, bytes, .. } = Self::expected(&prepared, query, memory, run);
        if let Query::Sample(count) = query {
            seconds += 2e-8 * count as f64 * graph.variable_count() as f64;
        }
        // The cache does not exceed the available memory.
        Forecast { bytes: needed + bytes.min(room), seconds, promise: Promise::Exact }
    }
}

impl LogPartition<FactorGraph> for Search {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        let prepared = graph.prepared_for(Query::LogPartition, NAME, run)?;
        if let Some(found) = prepared.trials[0].get().and_then(|trial| trial.answer.clone()) {
            let mut answer = found.map(|log_sum| prepared.reduced.constant + log_sum);
            answer.diagnostics.rounding = elimination::rounding(graph);
            return Ok(answer);
        }
        Self::answer(graph, Query::LogPartition, run, |found, _, _| Ok(found.log_value))
    }
}

impl Marginals<FactorGraph> for Search {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        Self::answer(graph, Query::Marginals, run, |found, reduced, _| {
            let mut beliefs = Beliefs::zeros(reduced.graph.cardinalities());
            found.circuit.marginals(&mut beliefs);
            beliefs.normalise();
            Ok(reduced.expand_beliefs(graph, &beliefs))
        })
    }
}

impl Entropy<FactorGraph> for Search {
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::Entropy, run, |found, _, _| Ok(found.circuit.entropy()))
    }
}

impl Map<FactorGraph> for Search {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        Self::answer(graph, Query::Map, run, |found, reduced, _| {
            let mut state = vec![0; reduced.graph.variable_count()];
            found.circuit.best(&mut state);
            let state = reduced.expand_state(&state);
            Ok(BestState { score: graph.score(&state), state })
        })
    }
}

impl Sample<FactorGraph> for Search {
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        Self::answer(graph, Query::Sample(count), run, |found, reduced, clock| {
            let n = reduced.graph.variable_count();
            let mut states = vec![0; count * n];
            let streams = Streams::new(run.seed(), "search sample");
            if n > 0 {
                states.par_chunks_mut(BLOCK * n).enumerate().try_for_each(|(block, states)| {
                    clock.check()?;
                    let mut random = streams.block(block as u64);
                    states.chunks_exact_mut(n).for_each(|state| found.circuit.draw(&mut random, state));
                    Ok(())
                })?;
            }
            Ok(reduced.expand_samples(Samples::new(count, n, states, Law::Exact)))
        })
    }
}
