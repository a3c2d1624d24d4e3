//! Cutset conditioning: exact inference that trades time for memory.
//!
//! Z = Σ_c Z(c), where c runs over the joint states of a few chosen variables, the cutset. For each c the
//! remaining model has smaller width and is solved by elimination. The cutset is chosen greedily: the
//! variable that leaves the least work is added until the tables fit into the memory budget. Cases of weight
//! zero are pruned.
//!
//! Time: Π_{v in cutset} |domain of v| times the time for the remaining model. Memory: within the budget.
//! Exact.
//!
//! Reference: J. Pearl, *Probabilistic Reasoning in Intelligent Systems* (1988), section 4.4.2; A. Becker, D.
//! Geiger, *A sufficiently fast algorithm for finding close to optimal clique trees*, Artificial Intelligence
//! 125 (2001).
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::exact::{Conditioning, Elimination};
//! use zhat::model::generate;
//! let grid = generate::Grid { rows: 12, columns: 12, torus: false };
//! let model = generate::ising(grid, 0.5, 0.1, false, 1)?;
//! let whole = Elimination::default().log_partition(&model, &Run::default())?;
//! let tight = Run::default().with_memory(500_000);
//! let parts = Conditioning::default().log_partition(&model, &tight)?;
//! assert!((whole.value - parts.value).abs() < 1e-10);
//! # Ok::<(), zhat::Error>(())
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::bucket::Reduce;
use super::tree::{Plan, Tree};
use super::{cost, elimination};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::exact::prepare::{Order, Prepared, Reduced};
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::options;
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, Law, LogPartition, Map, Marginals, Query,
    Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};
use crate::units;

const NAME: &str = "conditioning";
/// Maximum estimated seconds of a query without a time budget.
const HORIZON: f64 = 3600.0;
/// Maximum number of cases.
const CASES: f64 = 1e6;
/// Groups into which the cases are divided for log Z.
const GROUPS: u64 = 256;
/// Number of candidates compared for each variable added to the cutset.
const CANDIDATES: usize = 8;

/// Exact inference by elimination, for one joint state of a cutset at a time; the cutset is chosen so that
/// the tables fit into memory.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Conditioning {}

options!(Conditioning {});

/// A cutset, with the number of cases and the forecast that follow from it.
struct Cutset {
    variables: Vec<usize>,
    /// Elimination order of the remaining variables.
    order: Vec<usize>,
    cases: f64,
    forecast: Forecast,
}

impl Conditioning {
    /// Chooses the cutset for the reduced graph. Its forecast tells whether the query is feasible.
    fn cutset(graph: &FactorGraph, prepared: &Prepared, query: Query, run: &Run) -> Cutset {
        let rest = &prepared.reduced.graph;
        let mut cutset = Cutset {
            variables: Vec::new(),
            order: Vec::new(),
            cases: 1.0,
            forecast: Forecast { bytes: f64::INFINITY, seconds: f64::INFINITY, promise: Promise::Exact },
        };
        // Conditioning divides the size of a table by at most the number of cases.
        let log2_table = prepared.order.as_ref().map_or_else(|log2| *log2, |order| order.log2_table);
        if 8.0 * log2_table.exp2() / CASES > run.memory() as f64 {
            return cutset;
        }
        let mut observed = rest.clone();
        let mut order = prepared.order.clone();
        loop {
            let weights = match &order {
                Ok(order) => {
                    cutset.order.clone_from(&order.variables);
                    let plan = Plan::new(&observed, order.clone());
                    let each = cost::forecast(&plan, query, graph, rest.bytes(), run.threads());
                    cutset.forecast = Forecast { seconds: each.seconds * cutset.cases, ..each };
                    if each.bytes <= run.memory() as f64 {
                        return cutset;
                    }
                    table_weights(rest, order)
                }
                Err(_) => {
                    let mut degrees = vec![0.0; rest.variable_count()];
                    observed.factors().flat_map(|factor| factor.scope).for_each(|&v| degrees[v] += 1.0);
                    degrees
                }
            };
            if run.must_stop() {
                cutset.forecast.seconds = f64::INFINITY;
                return cutset;
            }
            // Add the candidate that leaves the fewest entries to process.
            let remains = |v: usize| Remains::after(&observed, order.as_ref().ok(), v);
            let best = heaviest(&weights, &cutset.variables).into_iter().filter_map(remains);
            let Some(next) = best.min_by(|a, b| a.entries().total_cmp(&b.entries())) else { return cutset };
            cutset.variables.push(next.v);
            cutset.cases *= rest.cardinalities()[next.v] as f64;
            if cutset.cases > CASES {
                cutset.forecast.seconds = f64::INFINITY;
                return cutset;
            }
            (observed, order) = (next.graph, next.order);
        }
    }

    fn plan(graph: &FactorGraph, query: Query, run: &Run) -> Result<(Arc<Prepared>, Cutset)> {
        let prepared = graph.prepared_for(query, NAME, run)?;
        let cutset = Self::cutset(graph, &prepared, query, run);
        Ok((prepared, cutset))
    }

    /// Calls `work` with the cases. If it returns `None`, every case has weight zero.
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        work: impl FnOnce(&Cases<'_>) -> Result<Option<T>> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let (prepared, cutset) = Self::plan(graph, query, run)?;
        run.require_memory(NAME, cutset.forecast.bytes)?;
        let horizon = run.horizon(NAME, HORIZON);
        if cutset.forecast.seconds > horizon {
            return Err(Error::OverBudget {
                needs: format!("{NAME} needs about {}", units::seconds(cutset.forecast.seconds)),
                budget: units::seconds(horizon),
                fitting: Vec::new(),
            });
        }
        let reduce = if query == Query::Map { Reduce::Max } else { Reduce::Sum };
        let keep = query != Query::LogPartition;
        let cases = Cases { outer: &prepared.reduced, cutset: &cutset, reduce, keep, clock: &clock };
        let value = run.install(|| work(&cases))?.ok_or_else(|| graph.zero_error())?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("cutset", cutset.variables.len())
            .count("cases", cutset.cases)
            .note("forecast_bytes", cutset.forecast.bytes);
        diagnostics.rounding = elimination::rounding(graph) + numeric::rounding_allowance(cutset.cases, 0.0);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

/// Groups of cases that agree on the first variables of the cutset.
struct Groups {
    /// The number of these variables.
    depth: usize,
    count: u64,
}

/// For each variable, the total number of entries of the tables that contain it.
fn table_weights(graph: &FactorGraph, order: &Order) -> Vec<f64> {
    let states = graph.cardinalities();
    let mut weights = vec![0.0; states.len()];
    for (&v, others) in order.variables.iter().zip(&order.neighbours) {
        let entries = others.iter().fold(states[v] as f64, |entries, &u| entries * states[u] as f64);
        others.iter().chain([&v]).for_each(|&u| weights[u] += entries);
    }
    weights
}

/// The variables of largest weight that are not in the cutset yet.
fn heaviest(weights: &[f64], taken: &[usize]) -> Vec<usize> {
    let mut free: Vec<usize> =
        (0..weights.len()).filter(|v| !taken.contains(v) && weights[*v] > 0.0).collect();
    free.sort_by(|&a, &b| weights[b].total_cmp(&weights[a]).then(a.cmp(&b)));
    free.truncate(CANDIDATES);
    free
}

/// The graph and elimination order after one more variable is observed.
struct Remains {
    v: usize,
    graph: FactorGraph,
    order: std::result::Result<Order, f64>,
}

impl Remains {
    /// Keeps the current order unless a new greedy order has fewer entries.
    fn after(graph: &FactorGraph, order: Option<&Order>, v: usize) -> Option<Remains> {
        let graph = graph.condition(&[(v, 0)]).ok()?;
        let greedy = Order::greedy(&graph);
        let kept = order.map(|order| Order::along(&graph, order.variables.clone()));
        let order = match (greedy, kept) {
            (Ok(greedy), Some(kept)) if greedy.entries < kept.entries => Ok(greedy),
            (_, Some(kept)) => Ok(kept),
            (greedy, None) => greedy,
        };
        Some(Remains { v, graph, order })
    }

    fn entries(&self) -> f64 {
        self.order.as_ref().map_or(f64::INFINITY, |order| order.entries)
    }
}

/// One case: the remaining model after the forward sweep.
struct Case {
    /// Index among all cases, including the pruned ones.
    index: usize,
    tree: Tree,
    /// Mapping from the remaining model to the conditioned graph.
    reduced: Reduced,
    /// Log-weight of the case, or its best score.
    log_value: f64,
}

/// All cases of a cutset.
struct Cases<'a> {
    /// Mapping from the graph to be conditioned to the original graph.
    outer: &'a Reduced,
    cutset: &'a Cutset,
    reduce: Reduce,
    keep: bool,
    clock: &'a Clock<'a>,
}

impl Cases<'_> {
    /// Solves every case that is not pruned, in order.
    fn for_each(&self, mut visit: impl FnMut(Case) -> Result<()>) -> Result<()> {
        self.descend(&self.outer.graph, 0, 0, &mut visit)
    }

    /// At least `GROUPS` groups, if there are that many cases.
    fn groups(&self) -> Groups {
        let mut groups = Groups { depth: 0, count: 1 };
        for &v in &self.cutset.variables {
            if groups.count >= GROUPS {
                break;
            }
            groups.count *= self.outer.graph.cardinalities()[v] as u64;
            groups.depth += 1;
        }
        groups
    }

    /// ln of the total weight of the cases of a group.
    fn log_sum(&self, groups: &Groups, group: u64) -> Result<f64> {
        let (mut rest, mut observed) = (group as usize, Vec::new());
        for &v in self.cutset.variables[..groups.depth].iter().rev() {
            let states = self.outer.graph.cardinalities()[v];
            observed.push((v, rest % states));
            rest /= states;
        }
        let graph = self.outer.graph.condition(&observed)?;
        let mut logs = Vec::new();
        self.descend(&graph, groups.depth, group as usize, &mut |case| {
            logs.push(case.log_value);
            Ok(())
        })?;
        Ok(numeric::log_sum_exp(&logs))
    }

    fn descend(
        &self,
        graph: &FactorGraph,
        depth: usize,
        index: usize,
        visit: &mut impl FnMut(Case) -> Result<()>,
    ) -> Result<()> {
        self.clock.check()?;
        let Ok(reduced) = Reduced::new(graph) else {
            return Ok(());
        };
        let Some(&v) = self.cutset.variables.get(depth) else {
            self.clock.progress("going through cases", index as u64, self.cutset.cases as u64);
            return visit(self.solve(index, reduced)?);
        };
        drop(reduced);
        let states = graph.cardinalities()[v];
        for s in 0..states {
            self.descend(&graph.condition(&[(v, s)])?, depth + 1, index * states + s, visit)?;
        }
        Ok(())
    }

    /// Adds `part` of each case to `total`, weighted by the weight of the case up to a common factor. Returns
    /// false if every case has weight zero.
    fn add_weighted<P: AsRef<[f64]>>(
        &self,
        total: &mut [f64],
        part: impl Fn(Case) -> Result<P>,
    ) -> Result<bool> {
        let mut shift = f64::NEG_INFINITY;
        self.for_each(|case| {
            if case.log_value == f64::NEG_INFINITY {
                return Ok(());
            }
            if case.log_value > shift {
                let factor = (shift - case.log_value).exp();
                total.iter_mut().for_each(|sum| *sum *= factor);
                shift = case.log_value;
            }
            let weight = (case.log_value - shift).exp();
            let part = part(case)?;
            total.iter_mut().zip(part.as_ref()).for_each(|(sum, p)| *sum += weight * p);
            Ok(())
        })?;
        Ok(shift > f64::NEG_INFINITY)
    }

    fn solve(&self, index: usize, reduced: Reduced) -> Result<Case> {
        let free: Vec<usize> = self.cutset.order.iter().filter_map(|&v| reduced.index(v)).collect();
        let plan = Plan::new(&reduced.graph, Order::along(&reduced.graph, free));
        let tree = Tree::sweep(&reduced.graph, plan, self.reduce, self.keep, self.clock)?;
        let log_value = reduced.constant + tree.log_value;
        Ok(Case { index, tree, reduced, log_value })
    }
}

impl Forecasts<FactorGraph> for Conditioning {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        match Self::plan(graph, query, run) {
            Ok((_, cutset)) => cutset.forecast,
            Err(error) => elimination::unprepared(graph, &error),
        }
    }
}

impl LogPartition<FactorGraph> for Conditioning {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::LogPartition, run, |cases| {
            let groups = cases.groups();
            // One group after the other; elimination itself uses all threads.
            let units = Units { held: 1, ..Units::new(NAME, groups.count, &[cases.cutset.cases as u64]) };
            let mut logs = Vec::new();
            run.units(&units, |group| cases.log_sum(&groups, group), |_, log| logs.push(log))?;
            let log_sum = numeric::log_sum_exp(&logs);
            Ok((log_sum > f64::NEG_INFINITY).then_some(cases.outer.constant + log_sum))
        })
    }
}

impl Marginals<FactorGraph> for Conditioning {
    /// The marginals of the cases, weighted by the weights of the cases.
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        Self::answer(graph, Query::Marginals, run, |cases| {
            let conditioned = &cases.outer.graph;
            let mut total = Beliefs::zeros(conditioned.cardinalities());
            let found = cases.add_weighted(total.as_mut_slice(), |case| {
                let backward = case.tree.backward(&case.reduced.graph, Query::Marginals, cases.clock)?;
                Ok(case.reduced.expand_beliefs(conditioned, &backward.beliefs))
            })?;
            total.normalise();
            Ok(found.then(|| cases.outer.expand_beliefs(graph, &total)))
        })
    }
}

impl FactorMarginals<FactorGraph> for Conditioning {
    /// Weighted like the marginals of the variables.
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        Self::answer(graph, Query::FactorMarginals, run, |cases| {
            let conditioned = &cases.outer.graph;
            let mut total = FactorBeliefs::zeros(conditioned);
            let found = cases.add_weighted(total.as_mut_slice(), |case| {
                let backward =
                    case.tree.backward(&case.reduced.graph, Query::FactorMarginals, cases.clock)?;
                Ok(case.reduced.expand_factor_beliefs(conditioned, &backward.factors))
            })?;
            total.normalise();
            Ok(found.then(|| cases.outer.expand_factor_beliefs(graph, &total)))
        })
    }
}

impl Entropy<FactorGraph> for Conditioning {
    /// H = Σ_c p(c)·(H(c) − ln p(c)).
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::Entropy, run, |cases| {
            let (mut logs, mut entropies) = (Vec::new(), Vec::new());
            cases.for_each(|case| {
                if case.log_value > f64::NEG_INFINITY {
                    logs.push(case.log_value);
                    let backward = case.tree.backward(&case.reduced.graph, Query::Entropy, cases.clock)?;
                    entropies.push(backward.entropy);
                }
                Ok(())
            })?;
            let log_sum = numeric::log_sum_exp(&logs);
            let term = |(log, entropy): (&f64, &f64)| (log - log_sum).exp() * (entropy - (log - log_sum));
            let total: f64 = logs.iter().zip(&entropies).map(term).sum();
            Ok((log_sum > f64::NEG_INFINITY).then_some(total.max(0.0)))
        })
    }
}

impl Map<FactorGraph> for Conditioning {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        Self::answer(graph, Query::Map, run, |cases| {
            let (mut score, mut state) = (f64::NEG_INFINITY, None);
            cases.for_each(|case| {
                if case.log_value > score {
                    score = case.log_value;
                    state = Some(case.reduced.expand_state(&case.tree.best()));
                }
                Ok(())
            })?;
            Ok(state.map(|state| {
                let state = cases.outer.expand_state(&state);
                BestState { score: graph.score(&state), state }
            }))
        })
    }
}

impl Sample<FactorGraph> for Conditioning {
    /// Draws the case of each sample first, then the samples within each case.
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        Self::answer(graph, Query::Sample(count), run, |cases| {
            let mut logs = Vec::new();
            cases.for_each(|case| {
                logs.push((case.index, case.log_value));
                Ok(())
            })?;
            let shift = logs.iter().map(|case| case.1).fold(f64::NEG_INFINITY, f64::max);
            if shift == f64::NEG_INFINITY {
                return Ok(None);
            }
            let weights: Vec<f64> = logs.iter().map(|case| (case.1 - shift).exp()).collect();
            let mut random = Streams::new(run.seed(), "conditioning cases").block(0);
            let mut drawn: Vec<(usize, usize)> =
                (0..count).map(|i| (logs[random.categorical(&weights)].0, i)).collect();
            drawn.sort_unstable();
            let n = cases.outer.graph.variable_count();
            let mut states = vec![0; count * n];
            let streams = Streams::new(run.seed(), "conditioning sample");
            cases.for_each(|case| {
                let start = drawn.partition_point(|sample| sample.0 < case.index);
                let end = drawn.partition_point(|sample| sample.0 <= case.index);
                let (mut random, mut scores) = (streams.block(case.index as u64), Vec::new());
                let mut free = vec![0; case.reduced.graph.variable_count()];
                for &(_, i) in &drawn[start..end] {
                    case.tree.draw(&mut random, &mut free, &mut scores);
                    states[i * n..(i + 1) * n].copy_from_slice(&case.reduced.expand_state(&free));
                }
                Ok(())
            })?;
            Ok(Some(cases.outer.expand_samples(Samples::new(count, n, states, Law::Exact))))
        })
    }
}
