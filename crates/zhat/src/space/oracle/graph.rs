//! Pairwise scores on the hypercube and on subtrees, and conditions on their labels and nodes, as a factor graph, which elimination answers for.
//!
//! A label or node is a variable of two states; a child that is chosen without its parent has weight 0, and so has what a condition excludes.

use super::NAME;
use super::prepared::{conditions, spread_over};
use crate::answer::{Answer, Estimate, Promise};
use crate::error::Result;
use crate::exact::Elimination;
use crate::forecast::{Forecast, Forecasts};
use crate::model::FactorGraph;
use crate::query::{
    BestState, Entropy, FactorMarginals, KBest, LogPartition, Map, Marginals, Query, Sample, Samples,
};
use crate::run::Run;
use crate::space::{
    Condition, Event, Expectations, Scores, SpaceMarginals, SpaceModel, Structures, marginals as table,
};

/// The same model as a factor graph: a factor a label or node, one a pair, then those of the tree.
pub(super) fn graph(model: &SpaceModel) -> Result<FactorGraph> {
    let mut graph = FactorGraph::new(vec![2; model.width()])?;
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
    Ok(graph)
}

/// What scores see of the two states.
fn values(model: &SpaceModel) -> (f64, f64) {
    match model.structures().base() {
        Structures::Hypercube(cube) => (cube.value(0), cube.value(1)),
        _ => (0.0, 1.0),
    }
}

/// The answer under the oracle's name.
fn named<T>(mut answer: Answer<T>) -> Answer<T> {
    answer.diagnostics.method = NAME;
    answer
}

pub(super) fn forecast(model: &SpaceModel, query: Query, run: &Run) -> Forecast {
    match graph(model) {
        Ok(graph) => Elimination::default().forecast(&graph, query, run),
        Err(_) => Forecast { bytes: f64::INFINITY, seconds: f64::INFINITY, promise: Promise::Exact },
    }
}

pub(super) fn log_partition(model: &SpaceModel, run: &Run) -> Result<Estimate> {
    Elimination::default().log_partition(&graph(model)?, run).map(named)
}

pub(super) fn entropy(model: &SpaceModel, run: &Run) -> Result<Estimate> {
    Elimination::default().entropy(&graph(model)?, run).map(named)
}

pub(super) fn best(model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
    Elimination::default().map(&graph(model)?, run).map(named)
}

pub(super) fn k_best(model: &SpaceModel, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
    Elimination::default().k_best(&graph(model)?, k, run).map(named)
}

pub(super) fn marginals(model: &SpaceModel, run: &Run) -> Result<Answer<SpaceMarginals>> {
    let empty = table::table(model, NAME, 1, run)?;
    let answer = Elimination::default().marginals(&graph(model)?, run)?;
    let radius = answer.diagnostics.rounding;
    Ok(named(answer.map(|beliefs| {
        let values = beliefs.iter().map(|table| table[1]).collect();
        SpaceMarginals { values, radius, ..empty }
    })))
}

pub(super) fn sample(model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
    Elimination::default().sample(&graph(model)?, count, run).map(named)
}

pub(super) fn expectations(model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
    let (low, high) = values(model);
    let answer = Elimination::default().factor_marginals(&graph(model)?, run)?;
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
