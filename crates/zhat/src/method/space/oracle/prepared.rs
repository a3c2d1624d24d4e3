//! Choice of the exact method for a model, and its tables, which answer all queries.

use super::conditions::{Order, Ring, Rules};
use super::orders::{Orders, Steps};
use super::{blocks, layers, mallows, tours};
use crate::error::{Error, Result};
use crate::method::space::choices::{Choices, Plan};
use crate::method::space::{
    Condition, Distance, Hypercube, Scores, SpaceModel, Structures, Subtrees, condition, counted, marginals,
    sigmoid, softplus,
};
use crate::numeric::{self, CompensatedSum};
use crate::random::Stream;
use crate::run::Clock;

/// The exact algorithm for a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Algorithm {
    Single,
    Tree,
    /// Single scores with a count of labels or nodes.
    Counted,
    Graph,
    Orders,
    Mallows,
    Tours,
    Blocks,
}

/// The conditions on a model's structures.
pub(super) fn conditions(model: &SpaceModel) -> &[Condition] {
    match model.structures() {
        Structures::Restricted(space) => space.conditions(),
        _ => &[],
    }
}

pub(super) fn algorithm(model: &SpaceModel) -> Option<Algorithm> {
    let conditions = conditions(model);
    if conditions.iter().any(|condition| matches!(condition, Condition::Function(_))) {
        return None;
    }
    // A size condition that excludes nothing is ignored.
    let sized = condition::limits_size(model.structures().base(), conditions);
    let free = !sized && conditions.iter().all(|condition| matches!(condition, Condition::Size { .. }));
    Some(match (model.structures().base(), model.scores()) {
        (_, Scores::Custom(_)) | (Structures::Custom(_) | Structures::Restricted(_), _) => return None,
        (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Pairwise(_)) if free => Algorithm::Graph,
        (Structures::Hypercube(_), _) if free => Algorithm::Single,
        (Structures::Subtrees(_), _) if free => Algorithm::Tree,
        (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Unary(_) | Scores::Products { .. })
            if sized =>
        {
            Algorithm::Counted
        }
        (Structures::Hypercube(_) | Structures::Subtrees(_), _) => Algorithm::Graph,
        (_, Scores::Distance { distance, .. }) if free && mallows::has_closed_form(*distance) => {
            Algorithm::Mallows
        }
        (_, Scores::Distance { distance: Distance::Cayley, .. }) => return None,
        (Structures::Permutations(_), _) => Algorithm::Orders,
        (Structures::Cycles(_), _) => Algorithm::Tours,
        (Structures::Partitions(_), _) => Algorithm::Blocks,
    })
}

/// Tables that are computed once and used by all queries.
pub(super) enum Table {
    /// ln(P(1)/P(0)) of each label.
    Single(Vec<f64>),
    /// ln(P(v chosen)/P(not chosen)) given that the parent is chosen.
    Tree(Vec<f64>),
    Counted(Choices),
    Orders(Orders),
    Mallows(mallows::Draws),
    Tours(tours::Tours),
    Blocks(blocks::Blocks),
}

/// A model with its sums. Sampling needs `keep`.
pub(in crate::method::space) struct Prepared<'a> {
    model: &'a SpaceModel,
    table: Table,
    pub log_partition: f64,
    pub rounding: f64,
}

/// The step weights of permutations.
pub(super) fn steps(model: &SpaceModel) -> Steps {
    let n = model.width();
    let order = Order::new(conditions(model), n);
    match model.scores() {
        Scores::Precedence(matrix) => Steps::precedence(matrix, n, order),
        Scores::Position(matrix) => Steps::position(matrix.clone(), n, order),
        Scores::Distance { distance: Distance::Kendall, places, spread } => {
            let score = |k: usize| if places[k / n] > places[k % n] { -spread } else { 0.0 };
            Steps::precedence(&(0..n * n).map(score).collect::<Vec<_>>(), n, order)
        }
        scores => Steps::position(distances(scores, n), n, order),
    }
}

/// A distance that is a sum over positions, as position scores.
pub(super) fn distances(scores: &Scores, n: usize) -> Vec<f64> {
    let Scores::Distance { distance, places, spread } = scores else { return vec![0.0; n * n] };
    let score = |k: usize| -spread * distance.term(k % n, places[k / n]).unwrap_or(0.0);
    (0..n * n).map(score).collect()
}

pub(super) fn odds_of_labels(cube: &Hypercube, unary: &[f64]) -> Vec<f64> {
    let step = cube.value(1) - cube.value(0);
    unary.iter().map(|theta| step * theta).collect()
}

fn odds_of_nodes(tree: &Subtrees, unary: &[f64]) -> Vec<f64> {
    let inner = tree.upward(|v, inner| softplus(unary[v] + inner));
    inner.iter().zip(unary).map(|(inner, score)| inner + score).collect()
}

/// Choices with a count, as sums or maxima.
pub(super) fn choices(model: &SpaceModel, best: bool, clock: &Clock<'_>) -> Result<Choices> {
    let (base, conditions) = (model.structures().base(), conditions(model));
    let sizes = condition::sizes(base, conditions);
    let may = counted::may(model.width(), conditions);
    let unary = model.scores().unary().unwrap_or(&[]);
    let choices = match base {
        Structures::Subtrees(tree) => Choices::new(Plan::nodes(tree, &may, sizes), unary, best, Some(clock)),
        Structures::Hypercube(cube) => {
            Choices::new(Plan::labels(may, sizes), &odds_of_labels(cube, unary), best, Some(clock))
        }
        _ => return Err(super::no_algorithm(model)),
    }?;
    if choices.total() == f64::NEG_INFINITY { Err(Error::ZeroPartition) } else { Ok(choices) }
}

/// Cycles, as sums or maxima.
pub(super) fn tours(
    model: &SpaceModel,
    links: &[f64],
    best: bool,
    clock: &Clock<'_>,
) -> Result<tours::Tours> {
    let ring = Ring::new(model.structures().base(), conditions(model));
    let tours = tours::Tours::new(links, model.width(), ring, best, clock)?;
    if tours.total() == f64::NEG_INFINITY { Err(Error::ZeroPartition) } else { Ok(tours) }
}

/// The rules that the conditions impose on blocks.
pub(super) fn rules(model: &SpaceModel) -> Rules {
    Rules::new(model.structures().base(), conditions(model))
}

/// Partitions, as sums or maxima.
pub(super) fn blocks(
    model: &SpaceModel,
    links: &[f64],
    (best, all): (bool, bool),
    clock: &Clock<'_>,
) -> Result<blocks::Blocks> {
    let rules = rules(model);
    if rules.sizes.is_some_and(|(least, most)| least > most) {
        return Err(Error::ZeroPartition);
    }
    let blocks = blocks::Blocks::new(links, model.width(), &rules, best, all, clock)?;
    if blocks.total() == f64::NEG_INFINITY { Err(Error::ZeroPartition) } else { Ok(blocks) }
}

impl<'a> Prepared<'a> {
    /// Whether the cost is at most one pass over the parameters of the model.
    pub fn is_cheap(model: &SpaceModel) -> bool {
        matches!(algorithm(model), Some(Algorithm::Single | Algorithm::Tree | Algorithm::Mallows))
    }

    /// `None` if there is no such method. Factor graphs are handled in `graph`.
    pub fn new(model: &'a SpaceModel, keep: bool, all: bool, clock: &Clock<'_>) -> Result<Option<Self>> {
        let n = model.width();
        let mut operations = 8.0;
        let mut magnitude = model.partial_magnitude();
        let (table, log_partition) = match (algorithm(model), model.structures().base(), model.scores()) {
            (Some(Algorithm::Single), Structures::Hypercube(cube), scores) => {
                let unary = scores.unary().unwrap_or(&[]);
                let part = |theta: &f64| match cube.has_signs() {
                    true => theta.abs() + (-2.0 * theta.abs()).exp().ln_1p(),
                    false => softplus(*theta),
                };
                let sum: CompensatedSum = unary.iter().map(part).collect();
                magnitude = unary.iter().map(|theta| theta.abs() + 1.0).sum();
                (Table::Single(odds_of_labels(cube, unary)), sum.value())
            }
            (Some(Algorithm::Tree), Structures::Subtrees(tree), scores) => {
                let odds = odds_of_nodes(tree, scores.unary().unwrap_or(&[]));
                let root = odds[tree.root()];
                magnitude = odds.iter().map(|x| x.abs() + 1.0).sum();
                (Table::Tree(odds), if tree.has_empty() { softplus(root) } else { root })
            }
            (Some(Algorithm::Counted), base, scores) => {
                operations = 8.0 * n as f64;
                let choices = choices(model, false, clock)?;
                let left_out: f64 = match base {
                    Structures::Hypercube(cube) => {
                        scores.unary().unwrap_or(&[]).iter().map(|theta| cube.value(0) * theta).sum()
                    }
                    _ => 0.0,
                };
                let log_partition = left_out + choices.total();
                (Table::Counted(choices), log_partition)
            }
            (Some(Algorithm::Mallows), _, Scores::Distance { distance, places, spread }) => {
                operations = 8.0 * n as f64;
                let (log_partition, _) = mallows::log_partition(*distance, n, *spread);
                magnitude = mallows::magnitude(*distance, n, *spread, log_partition);
                (Table::Mallows(mallows::Draws::new(*distance, places, *spread)), log_partition)
            }
            (Some(Algorithm::Orders), ..) => {
                operations = (n * (n + 16)) as f64;
                let orders = Orders::new(steps(model), n, false, keep, clock)?;
                let log_partition = orders.total();
                if log_partition == f64::NEG_INFINITY {
                    return Err(Error::ZeroPartition);
                }
                (Table::Orders(orders), log_partition)
            }
            (Some(Algorithm::Tours), _, Scores::Links(links)) => {
                operations = (n * (n + 16)) as f64;
                let tours = tours(model, links, false, clock)?;
                let log_partition = tours.total() - std::f64::consts::LN_2;
                (Table::Tours(tours), log_partition)
            }
            (Some(Algorithm::Blocks), _, Scores::Links(links)) => {
                operations = (n * (n + 16)) as f64 + (n as f64).exp2();
                let blocks = blocks(model, links, (false, all), clock)?;
                let log_partition = blocks.total();
                (Table::Blocks(blocks), log_partition)
            }
            _ => return Ok(None),
        };
        let rounding = numeric::rounding_allowance(operations, magnitude);
        Ok(Some(Prepared { model, table, log_partition, rounding }))
    }

    /// A sample from the model.
    pub fn draw(&self, random: &mut Stream, structure: &mut [u32]) {
        match (&self.table, self.model.structures().base()) {
            (Table::Tree(odds), Structures::Subtrees(tree)) => tree.downward(random, structure, |v| odds[v]),
            (Table::Single(odds) | Table::Tree(odds), _) => {
                for (bit, odds) in structure.iter_mut().zip(odds) {
                    *bit = u32::from(random.uniform() < sigmoid(*odds));
                }
            }
            (Table::Counted(choices), _) => choices.choose(Some(random), structure),
            (Table::Orders(orders), _) => orders.order(Some(random), structure),
            (Table::Mallows(mallows), _) => mallows.draw(random, structure),
            (Table::Tours(tours), _) => {
                tours.cycle(Some(random), structure);
                self.model.space().canonical(structure);
            }
            (Table::Blocks(blocks), _) => blocks.partition(Some(random), structure),
        }
    }

    /// E\[φ\].
    pub(super) fn expectations(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let model = self.model;
        let n = model.width();
        let mut values = vec![0.0; model.dimension()];
        match (&self.table, model.structures().base(), model.scores()) {
            (Table::Single(_) | Table::Counted(_), Structures::Hypercube(cube), scores) => {
                let (low, high) = (cube.value(0), cube.value(1));
                let mut means = self.chosen(clock)?;
                means.iter_mut().for_each(|p| *p = low + (high - low) * *p);
                spread_over(scores, &means, &mut values);
            }
            (Table::Tree(_) | Table::Counted(_), _, scores) => {
                spread_over(scores, &self.chosen(clock)?, &mut values);
            }
            (Table::Orders(orders), _, Scores::Precedence(_)) => orders.steps(clock, |before, item, p| {
                layers::elements(before).for_each(|j| values[j * n + item] += p);
            })?,
            (Table::Orders(orders), _, Scores::Position(_)) => orders.steps(clock, |before, item, p| {
                values[item * n + before.count_ones() as usize] += p;
            })?,
            (Table::Orders(orders), _, Scores::Distance { distance: Distance::Kendall, places, .. }) => {
                orders.steps(clock, |before, item, p| {
                    let behind = layers::elements(before).filter(|j| places[*j] > places[item]).count();
                    values[0] -= p * behind as f64;
                })?;
            }
            (Table::Orders(orders), _, Scores::Distance { distance, places, .. }) => {
                orders.steps(clock, |before, item, p| {
                    let position = before.count_ones() as usize;
                    values[0] -= p * distance.term(position, places[item]).unwrap_or(0.0);
                })?;
            }
            (Table::Mallows(_), _, Scores::Distance { distance, spread, .. }) => {
                values[0] = -mallows::log_partition(*distance, n, *spread).1;
            }
            (Table::Tours(tours), ..) => values = tours.edges(clock)?,
            (Table::Blocks(blocks), ..) => values = blocks.pairs(clock)?,
            _ => {}
        }
        Ok(values)
    }

    /// The probabilities of labels or nodes.
    fn chosen(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        Ok(match (&self.table, self.model.structures().base()) {
            (Table::Tree(odds), Structures::Subtrees(tree)) => {
                let mut means = vec![0.0; odds.len()];
                for &v in tree.order() {
                    let v = v as usize;
                    means[v] = match tree.parent(v) {
                        None if !tree.has_empty() => 1.0,
                        None => sigmoid(odds[v]),
                        Some(parent) => means[parent] * sigmoid(odds[v]),
                    };
                }
                means
            }
            (Table::Single(odds) | Table::Tree(odds), _) => odds.iter().map(|x| sigmoid(*x)).collect(),
            (Table::Counted(choices), _) => choices.chosen(clock)?,
            _ => Vec::new(),
        })
    }

    /// The table of marginals ([`marginals`]).
    pub fn marginals(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let n = self.model.width();
        match &self.table {
            Table::Single(_) | Table::Tree(_) | Table::Counted(_) => {
                values.copy_from_slice(&self.chosen(clock)?);
            }
            Table::Orders(orders) => orders.steps(clock, |before, item, p| {
                values[item * n + before.count_ones() as usize] += p;
            })?,
            Table::Mallows(mallows) => mallows.positions(values, clock)?,
            Table::Tours(tours) => marginals::of_pairs(self.model, &tours.edges(clock)?, values),
            Table::Blocks(blocks) => marginals::of_pairs(self.model, &blocks.pairs(clock)?, values),
        }
        // Rounding can push sums of probabilities above 1.
        values.iter_mut().for_each(|p| *p = p.min(1.0));
        Ok(())
    }
}

/// The expectations of single scores and, with inputs, those of the products.
pub(super) fn spread_over(scores: &Scores, means: &[f64], values: &mut [f64]) {
    match scores {
        Scores::Products { inputs, .. } => {
            for (row, mean) in values.chunks_mut(inputs.len()).zip(means) {
                row.iter_mut().zip(inputs).for_each(|(value, x)| *value = mean * x);
            }
        }
        _ => values.copy_from_slice(means),
    }
}
