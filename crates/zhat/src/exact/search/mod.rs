//! Search with constraint propagation, clause learning, components and caching.

mod cache;
mod circuit;
mod components;
mod constraints;
mod count;
mod guide;
mod propagate;
mod simplify;
mod weights;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use self::circuit::Circuit;
use self::count::Search as Counting;
use super::elimination;
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::model::{FactorGraph, Order, Reduced};
use crate::query::{Beliefs, BestState, Entropy, Law, LogPartition, Map, Marginals, Query, Sample, Samples};
use crate::random::Streams;
use crate::run::{Clock, Run};

const NAME: &str = "search";
/// Samples that share one random stream.
const BLOCK: usize = 256;

/// Exact inference by search through the states, for models with many zeros.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Search {}

/// What a search has found.
struct Found {
    log_value: f64,
    circuit: Circuit,
}

impl Search {
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(Found, &Reduced, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let prepared = graph.prepared(NAME, run)?;
        let reduced = &prepared.reduced;
        let traced = query != Query::LogPartition;
        let simplified = if traced {
            None
        } else {
            Some(simplify::simplified(&reduced.graph).map_err(|error| {
                if matches!(error, Error::ZeroPartition) { graph.zero_error() } else { error }
            })?)
        };
        let (rest, constant) =
            simplified.as_ref().map_or((&reduced.graph, 0.0), |(rest, constant)| (rest, *constant));
        let n = rest.variable_count();
        let order = Order::structure(rest);
        if std::env::var("DEBUG").is_ok() {
            eprintln!(
                "n {} of {} factors {} width {:?} t {}",
                n,
                reduced.graph.variable_count(),
                rest.factor_count(),
                order.as_ref().map(|o| o.width),
                clock.seconds()
            );
        }
        let guide = order.map_or_else(|| vec![0.0; n], |order| guide::priorities(&order));
        let mut search = Counting::new(rest, guide, traced, run.memory() as usize);
        let outcome = search.run(|search| {
            clock.check()?;
            if std::env::var("DEBUG").is_ok() && search.figures().decisions % (1 << 16) < 300 {
                eprintln!(
                    "{:.2}s closed {:.3e} {:?} levels {} steps {}",
                    clock.seconds(),
                    search.closed,
                    search.figures(),
                    search.depth(),
                    search.steps()
                );
            }
            clock.progress("searching", (search.closed * 1e6) as u64, 1_000_000);
            Ok(true)
        })?;
        let log_value = constant + outcome.unwrap_or(f64::NEG_INFINITY);
        if log_value == f64::NEG_INFINITY {
            return Err(graph.zero_error());
        }
        let figures = search.figures();
        let circuit = search.circuit.take().unwrap_or_default();
        drop(search);
        let found = Found { log_value, circuit };
        let value = run.install(|| finish(found, reduced, &clock))?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("decisions", figures.decisions)
            .note("conflicts", figures.conflicts)
            .note("components", figures.components)
            .note("cache_hits", figures.hits)
            .note("circuit_nodes", figures.nodes);
        diagnostics.rounding = elimination::rounding(graph);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

impl Forecasts<FactorGraph> for Search {
    fn forecast(&self, graph: &FactorGraph, _query: Query, run: &Run) -> Forecast {
        if let Err(error) = graph.prepared(NAME, run) {
            return elimination::unprepared(graph, &error);
        }
        Forecast { bytes: graph.preparation_bytes(), seconds: 1e3, promise: Promise::Exact }
    }
}

impl LogPartition<FactorGraph> for Search {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::LogPartition, run, |found, reduced, _| {
            Ok(reduced.constant + found.log_value)
        })
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
