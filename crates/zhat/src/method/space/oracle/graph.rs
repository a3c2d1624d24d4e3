//! Pairwise scores on the hypercube and on subtrees, with conditions on labels and nodes, as a factor graph
//! that is solved by elimination.
//!
//! A label or node is a variable with two states. A child that is chosen without its parent has weight 0, and
//! so has everything that a condition excludes. If the size is limited, additional variables count: the i-th
//! is the number of the first i labels or nodes that are chosen, or that are not chosen, whichever can be
//! smaller.

use super::NAME;
use super::prepared::{conditions, spread_over};
use crate::answer::{Answer, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::exact::Elimination;
use crate::method::space::choices::Plan;
use crate::method::space::{
    Condition, Event, Expectations, Scores, SpaceMarginals, SpaceModel, Structures, condition,
    marginals as table,
};
use crate::model::FactorGraph;
use crate::query::{
    BestState, Entropy, FactorMarginals, KBest, LogPartition, Map, Marginals, Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::run::Run;

/// A counter of labels or nodes.
struct Counter {
    /// The order of counting.
    order: Vec<u32>,
    /// The state that is counted.
    state: usize,
    /// The minimum and maximum count.
    sizes: (usize, usize),
}

impl Counter {
    /// `None` if the size is not limited.
    fn new(model: &SpaceModel) -> Option<Self> {
        let (base, conditions) = (model.structures().base(), conditions(model));
        if !condition::limits_size(base, conditions) {
            return None;
        }
        let n = model.width();
        let (least, most) = condition::sizes(base, conditions);
        let order = match base {
            // Neighbours in the tree are close to each other in this order.
            Structures::Subtrees(tree) => Plan::nodes(tree, &vec![(true, true); n], (least, most)).order,
            _ => (0..n as u32).collect(),
        };
        Some(match n - least < most {
            true => Counter { order, state: 0, sizes: (n - most.min(n), n - least.min(n)) },
            false => Counter { order, state: 1, sizes: (least, most) },
        })
    }

    /// The number of states of the i-th count.
    fn states(&self, i: usize) -> usize {
        self.sizes.1.min(i + 1) + 1
    }

    /// Bytes of its factors.
    fn bytes(&self) -> f64 {
        (0..self.order.len()).map(|i| 16.0 * (self.states(i) as f64).powi(2)).sum()
    }

    /// Adds the factors. The count variables follow the labels or nodes.
    fn count(&self, graph: &mut FactorGraph) -> Result<()> {
        let n = self.order.len();
        for (i, &v) in self.order.iter().enumerate() {
            let own = self.states(i);
            let counted = |state: usize| usize::from(state == self.state);
            let log = |is: bool| if is { 0.0 } else { f64::NEG_INFINITY };
            if i == 0 {
                let table: Vec<f64> =
                    (0..2).flat_map(|y| (0..own).map(move |c| log(c == counted(y)))).collect();
                graph.add_factor(&[v as usize, n], &table)?;
                continue;
            }
            let mut table = Vec::with_capacity(2 * own * own);
            for before in 0..self.states(i - 1) {
                for y in 0..2 {
                    table.extend((0..own).map(|c| log(c == before + counted(y))));
                }
            }
            graph.add_factor(&[n + i - 1, v as usize, n + i], &table)?;
        }
        let last: Vec<f64> = (0..self.states(n - 1))
            .map(|c| if c >= self.sizes.0 { 0.0 } else { f64::NEG_INFINITY })
            .collect();
        graph.add_factor(&[2 * n - 1], &last)?;
        Ok(())
    }
}

/// The model as a factor graph: one factor per label or node, one per pair, then those of the conditions and
/// of the tree.
pub(super) fn graph(model: &SpaceModel, run: &Run) -> Result<FactorGraph> {
    let (least, most) = condition::sizes(model.structures().base(), conditions(model));
    if least > most {
        return Err(Error::ZeroPartition);
    }
    let counter = Counter::new(model);
    let mut states = vec![2; model.width()];
    if let Some(counter) = &counter {
        run.require_memory(NAME, counter.bytes())?;
        states.extend((0..model.width()).map(|i| counter.states(i)));
    }
    let mut graph = FactorGraph::new(states)?;
    let (low, high) = values(model);
    let single = match model.scores() {
        Scores::Pairwise(pairs) => pairs.unary(),
        scores => scores.unary().unwrap_or(&[]),
    };
    for (v, theta) in single.iter().enumerate() {
        graph.add_factor(&[v], &[theta * low, theta * high])?;
    }
    if let Scores::Pairwise(pairs) = model.scores() {
        for (i, j, w) in pairs.edges() {
            graph.add_factor(&[i, j], &[w * low * low, w * low * high, w * high * low, w * high * high])?;
        }
    }
    for condition in conditions(model) {
        match *condition {
            Condition::Is(Event::Chosen(v)) => graph.add_factor(&[v], &[f64::NEG_INFINITY, 0.0])?,
            Condition::Not(Event::Chosen(v)) => graph.add_factor(&[v], &[0.0, f64::NEG_INFINITY])?,
            _ => &mut graph,
        };
    }
    if let Structures::Subtrees(tree) = model.structures().base() {
        for v in 0..tree.nodes() {
            match tree.parent(v) {
                Some(parent) => graph.add_factor(&[parent, v], &[0.0, f64::NEG_INFINITY, 0.0, 0.0])?,
                None if !tree.has_empty() => graph.add_factor(&[v], &[f64::NEG_INFINITY, 0.0])?,
                None => &mut graph,
            };
        }
    }
    if let Some(counter) = counter {
        counter.count(&mut graph)?;
    }
    Ok(graph)
}

/// The values of the two states in the scores.
fn values(model: &SpaceModel) -> (f64, f64) {
    match model.structures().base() {
        Structures::Hypercube(cube) => (cube.value(0), cube.value(1)),
        _ => (0.0, 1.0),
    }
}

/// Removes the count variables from a state.
fn without_counts(model: &SpaceModel, mut best: BestState) -> BestState {
    best.state.truncate(model.width());
    best
}

/// The result under the oracle's name.
fn named<T>(mut answer: Answer<T>) -> Answer<T> {
    answer.diagnostics.method = NAME;
    answer
}

pub(super) fn forecast(model: &SpaceModel, query: Query, run: &Run) -> Forecast {
    match graph(model, run) {
        Ok(graph) => Elimination::default().forecast(&graph, query, run),
        // The partition function is zero without any work.
        Err(Error::ZeroPartition) => Forecast { bytes: 0.0, seconds: 0.0, promise: Promise::Exact },
        Err(_) => Forecast {
            bytes: Counter::new(model).map_or(0.0, |counter| counter.bytes()),
            seconds: f64::INFINITY,
            promise: Promise::Exact,
        },
    }
}

pub(super) fn log_partition(model: &SpaceModel, run: &Run) -> Result<Estimate> {
    Elimination::default().log_partition(&graph(model, run)?, run).map(named)
}

pub(super) fn entropy(model: &SpaceModel, run: &Run) -> Result<Estimate> {
    Elimination::default().entropy(&graph(model, run)?, run).map(named)
}

pub(super) fn best(model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
    let answer = Elimination::default().map(&graph(model, run)?, run)?;
    Ok(named(answer.map(|best| without_counts(model, best))))
}

pub(super) fn k_best(model: &SpaceModel, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
    let answer = Elimination::default().k_best(&graph(model, run)?, k, run)?;
    let all = |ranked: Vec<BestState>| ranked.into_iter().map(|best| without_counts(model, best)).collect();
    Ok(named(answer.map(all)))
}

pub(super) fn marginals(model: &SpaceModel, run: &Run) -> Result<Answer<SpaceMarginals>> {
    let empty = table::table(model, NAME, 1, run)?;
    let answer = Elimination::default().marginals(&graph(model, run)?, run)?;
    let radius = answer.diagnostics.rounding;
    Ok(named(answer.map(|beliefs| {
        let values = beliefs.iter().take(model.width()).map(|table| table[1]).collect();
        SpaceMarginals { values, radius, ..empty }
    })))
}

pub(super) fn sample(model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
    let answer = Elimination::default().sample(&graph(model, run)?, count, run)?;
    let width = model.width();
    Ok(named(answer.map(|samples| match samples.variables() == width {
        true => samples,
        false => {
            let states = samples.iter().flat_map(|state| state[..width].to_vec()).collect();
            Samples::new(samples.len(), width, states, samples.law.clone())
        }
    })))
}

pub(super) fn expectations(model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
    let (low, high) = values(model);
    let answer = Elimination::default().factor_marginals(&graph(model, run)?, run)?;
    let radius = answer.diagnostics.rounding * (1.0 + (model.dimension() as f64).sqrt());
    Ok(named(answer.map(|beliefs| {
        let mean = |table: &[f64]| match *table {
            [p0, p1] => p0 * low + p1 * high,
            [p00, p01, p10, p11] => p00 * low * low + (p01 + p10) * low * high + p11 * high * high,
            _ => 0.0,
        };
        let mut values = vec![0.0; model.dimension()];
        if let Scores::Pairwise(_) = model.scores() {
            values.iter_mut().zip(beliefs.iter()).for_each(|(value, table)| *value = mean(table));
        } else {
            let means: Vec<f64> = beliefs.iter().take(model.width()).map(mean).collect();
            spread_over(model.scores(), &means, &mut values);
        }
        Expectations { values, radius }
    })))
}
