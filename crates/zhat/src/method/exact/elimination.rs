//! Variable elimination.
//!
//! Z = Σ_{x_n} … Σ_{x_1} Π_f exp θ_f: the variables are summed out one by one. Eliminating v multiplies the
//! tables that contain v and sums over its states. The result is a message m_v over the other variables of
//! these tables; it goes to the bucket of the one that is eliminated next. If the messages are kept, a
//! backward sweep gives all other quantities. The conditional p(x_v | others) = exp(local_v − m_v) gives
//! samples, all marginals (clique marginal of the parent times the conditional; the scope of every factor
//! lies in a clique), and the entropy as Σ_v H(x_v | others), a sum of non-negative terms. The same forward
//! sweep with max instead of log-sum-exp finds the best state.
//!
//! Time O(Σ_v |clique_v| · tables_v); memory is that of the largest messages. Both are exponential in the
//! induced width. Exact; the rounding allowance is u·operations·magnitude as in
//! [`crate::numeric::rounding_allowance`].
//!
//! Reference: R. Dechter, *Bucket elimination: a unifying framework for reasoning*, Artificial Intelligence
//! 113 (1999).
//!
//! ```
//! use zhat::{Marginals, Run};
//! use zhat::exact::Elimination;
//! use zhat::model::generate;
//! let tree = generate::tree(100, 4, 1.0, 7)?;
//! let beliefs = Elimination::default().marginals(&tree, &Run::default())?.value;
//! assert!((beliefs.variable(0).iter().sum::<f64>() - 1.0).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::bucket::Reduce;
use super::cost;
use super::tree::{Plan, Tree};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::exact::prepare::{Order, Prepared, Reduced};
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::options;
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, KBest, Law, LogPartition, Map, Marginals,
    Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::{Clock, Run};

const NAME: &str = "elimination";
/// Number of samples that share one random stream.
const BLOCK: usize = 256;
/// Exact inference by variable elimination, in the best order found by greedy rules.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Elimination {}

options!(Elimination {});

impl Elimination {
    /// The plan for a prepared graph, or the bytes required if it is infeasible.
    fn plan(prepared: &Prepared) -> std::result::Result<Plan, f64> {
        let order = prepared.order.as_ref().map_err(|log2_entries| 8.0 * log2_entries.exp2())?;
        Ok(Plan::new(&prepared.reduced.graph, order.clone()))
    }

    /// Sweeps forward and passes the tree to `finish`, which computes the result.
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(Tree, &Reduced, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let prepared = graph.prepared_for(query, NAME, run)?;
        let reduced = &prepared.reduced;
        let plan = Self::plan(&prepared).map_err(|bytes| run.over_memory(NAME, bytes))?;
        let forecast = cost::forecast(&plan, query, graph, reduced.graph.bytes(), run.threads());
        run.require_memory(NAME, forecast.bytes)?;
        let reduce = if matches!(query, Query::Map | Query::KBest(_)) { Reduce::Max } else { Reduce::Sum };
        let (width, log2_table) = (plan.order.width, plan.order.log2_table);
        let value = run.install(|| {
            let tree = Tree::sweep(&reduced.graph, plan, reduce, query != Query::LogPartition, &clock)?;
            if tree.log_value == f64::NEG_INFINITY {
                return Err(graph.zero_error());
            }
            finish(tree, reduced, &clock)
        })?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("width", width)
            .note("log2_table", log2_table)
            .note("forecast_bytes", forecast.bytes);
        if reduced.barren > 0 {
            diagnostics = diagnostics.note("barren", reduced.barren);
        }
        diagnostics.rounding = rounding(graph);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

/// log Z of `graph` given the states of some variables, with the others eliminated in this order; −∞ if the
/// given states have weight zero.
pub(crate) fn log_partition_given(
    graph: &FactorGraph,
    evidence: &[(usize, usize)],
    order: &[usize],
    clock: &Clock<'_>,
) -> Result<f64> {
    let Ok(reduced) = Reduced::new(&graph.condition(evidence)?) else {
        return Ok(f64::NEG_INFINITY);
    };
    let free: Vec<usize> = order.iter().filter_map(|&v| reduced.index(v)).collect();
    let plan = Plan::new(&reduced.graph, Order::along(&reduced.graph, free));
    let tree = Tree::sweep(&reduced.graph, plan, Reduce::Sum, false, clock)?;
    Ok(reduced.constant + tree.log_value)
}

/// The marginals of the variables of a graph of small width, and on request of its factors.
pub(crate) fn marginals_along(
    graph: &FactorGraph,
    order: Order,
    query: Query,
    clock: &Clock<'_>,
) -> Result<(Beliefs, FactorBeliefs)> {
    let tree = Tree::sweep(graph, Plan::new(graph, order), Reduce::Sum, true, clock)?;
    let backward = tree.backward(graph, query, clock)?;
    Ok((backward.beliefs, backward.factors))
}

/// log Z of a graph of small width and the marginals of its factors; −∞ and zeros if every state has weight
/// zero.
pub(crate) fn inference_along(
    graph: &FactorGraph,
    order: Order,
    clock: &Clock<'_>,
) -> Result<(f64, FactorBeliefs)> {
    let tree = Tree::sweep(graph, Plan::new(graph, order), Reduce::Sum, true, clock)?;
    let log_z = tree.log_value;
    if log_z == f64::NEG_INFINITY {
        return Ok((log_z, FactorBeliefs::zeros(graph)));
    }
    Ok((log_z, tree.backward(graph, Query::FactorMarginals, clock)?.factors))
}

/// The rounding allowance: the sum of the possible errors of all factors, states and eliminations.
pub(crate) fn rounding(graph: &FactorGraph) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 5.0).sum();
    numeric::rounding_allowance(graph.factor_count() as f64 + states, graph.magnitude())
}

/// The forecast for a graph whose preparation failed: the graph is too large, the time is over, or its weight
/// is zero, in which case the query is fast.
pub(super) fn unprepared(graph: &FactorGraph, error: &Error) -> Forecast {
    let too_large = matches!(error, Error::OverBudget { .. });
    Forecast {
        bytes: if too_large { graph.preparation_bytes() } else { 0.0 },
        seconds: if error.is_stop() { f64::INFINITY } else { 0.0 },
        promise: Promise::Exact,
    }
}

impl Forecasts<FactorGraph> for Elimination {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let prepared = match graph.prepared_for(query, NAME, run) {
            Ok(prepared) => prepared,
            Err(error) => return unprepared(graph, &error),
        };
        match Self::plan(&prepared) {
            Ok(plan) => cost::forecast(&plan, query, graph, prepared.reduced.graph.bytes(), run.threads()),
            Err(bytes) => Forecast { bytes, seconds: bytes / 8.0 * cost::PER_ENTRY, promise: Promise::Exact },
        }
    }
}

impl LogPartition<FactorGraph> for Elimination {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(
            graph,
            Query::LogPartition,
            run,
            |tree, reduced, _| Ok(reduced.constant + tree.log_value),
        )
    }
}

impl Marginals<FactorGraph> for Elimination {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        Self::answer(graph, Query::Marginals, run, |tree, reduced, clock| {
            let backward = tree.backward(&reduced.graph, Query::Marginals, clock)?;
            Ok(reduced.expand_beliefs(graph, &backward.beliefs))
        })
    }
}

impl FactorMarginals<FactorGraph> for Elimination {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        Self::answer(graph, Query::FactorMarginals, run, |tree, reduced, clock| {
            let backward = tree.backward(&reduced.graph, Query::FactorMarginals, clock)?;
            Ok(reduced.expand_factor_beliefs(graph, &backward.factors))
        })
    }
}

impl Entropy<FactorGraph> for Elimination {
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::Entropy, run, |tree, reduced, clock| {
            Ok(tree.backward(&reduced.graph, Query::Entropy, clock)?.entropy)
        })
    }
}

impl Map<FactorGraph> for Elimination {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        Self::answer(graph, Query::Map, run, |tree, reduced, _| {
            let state = reduced.expand_state(&tree.best());
            Ok(BestState { score: graph.score(&state), state })
        })
    }
}

impl KBest<FactorGraph> for Elimination {
    fn k_best(&self, graph: &FactorGraph, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
        Self::answer(graph, Query::KBest(k), run, |tree, reduced, clock| {
            let states = tree.k_best(k, clock)?.into_iter().map(|state| reduced.expand_state(&state));
            let mut ranked: Vec<BestState> =
                states.map(|state| BestState { score: graph.score(&state), state }).collect();
            // Rounding can swap states of nearly equal score.
            ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
            Ok(ranked)
        })
    }
}

impl Sample<FactorGraph> for Elimination {
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        Self::answer(graph, Query::Sample(count), run, |tree, reduced, clock| {
            let n = reduced.graph.variable_count();
            let mut states = vec![0; count * n];
            let streams = Streams::new(run.seed(), "elimination sample");
            if n > 0 {
                states.par_chunks_mut(BLOCK * n).enumerate().try_for_each(|(block, states)| {
                    clock.check()?;
                    let (mut random, mut scores) = (streams.block(block as u64), Vec::new());
                    states.chunks_exact_mut(n).for_each(|state| tree.draw(&mut random, state, &mut scores));
                    Ok(())
                })?;
            }
            Ok(reduced.expand_samples(Samples::new(count, n, states, Law::Exact)))
        })
    }
}
