//! Which exact method suits a model, and its tables, from which all queries are answered.

use super::conditions::Order;
use super::orders::{Orders, Steps};
use super::{blocks, layers, mallows, tours};
use crate::error::{Error, Result};
use crate::numeric::{self, CompensatedSum};
use crate::random::Stream;
use crate::run::Clock;
use crate::space::{
    Condition, Distance, Event, Hypercube, Scores, SpaceModel, Structures, Subtrees, marginals, sigmoid,
    softplus,
};

/// How a model is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Way {
    Single,
    Tree,
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

pub(super) fn way(model: &SpaceModel) -> Option<Way> {
    let conditions = conditions(model);
    let all = |allowed: fn(&Event) -> bool| {
        conditions.iter().all(|condition| match condition {
            Condition::Is(event) | Condition::Not(event) => allowed(event),
            _ => false,
        })
    };
    let free = conditions.is_empty();
    Some(match (model.structures().base(), model.scores()) {
        (_, Scores::Custom(_)) | (Structures::Custom(_) | Structures::Restricted(_), _) => return None,
        (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Pairwise(_)) if free => Way::Graph,
        (Structures::Hypercube(_), _) if free => Way::Single,
        (Structures::Subtrees(_), _) if free => Way::Tree,
        (Structures::Hypercube(_) | Structures::Subtrees(_), _) if all(|_| true) => Way::Graph,
        (_, Scores::Distance { distance, .. }) if free && mallows::has_closed_form(*distance) => Way::Mallows,
        (_, Scores::Distance { distance: Distance::Cayley, .. }) => return None,
        (Structures::Permutations(_), _) if all(|_| true) => Way::Orders,
        (Structures::Cycles(_), _) if free => Way::Tours,
        (Structures::Partitions(_), _) if free => Way::Blocks,
        _ => return None,
    })
}

/// What is found once, and answers from then on.
pub(super) enum Table {
    /// ln(P(1)/P(0)) of each label.
    Single(Vec<f64>),
    /// ln(P(v chosen)/P(not)) where the parent is chosen.
    Tree(Vec<f64>),
    Orders(Orders),
    Mallows(mallows::Draws),
    Tours(tours::Tours),
    Blocks(blocks::Blocks),
}

/// A model with its sums. Draws need `keep`.
pub(in crate::space) struct Prepared<'a> {
    model: &'a SpaceModel,
    table: Table,
    pub log_partition: f64,
    pub rounding: f64,
}

/// The steps of permutations.
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

impl<'a> Prepared<'a> {
    /// Whether it takes no more than a look at every number of the model.
    pub fn is_cheap(model: &SpaceModel) -> bool {
        matches!(way(model), Some(Way::Single | Way::Tree | Way::Mallows))
    }

    /// None where there is no such method. Factor graphs are elsewhere.
    pub fn new(model: &'a SpaceModel, keep: bool, all: bool, clock: &Clock<'_>) -> Result<Option<Self>> {
        let n = model.width();
        let mut operations = 8.0;
        let mut magnitude = model.partial_magnitude();
        let (table, log_partition) = match (way(model), model.structures().base(), model.scores()) {
            (Some(Way::Single), Structures::Hypercube(cube), scores) => {
                let unary = scores.unary().unwrap_or(&[]);
                let part = |theta: &f64| match cube.has_signs() {
                    true => theta.abs() + (-2.0 * theta.abs()).exp().ln_1p(),
                    false => softplus(*theta),
                };
                let sum: CompensatedSum = unary.iter().map(part).collect();
                magnitude = unary.iter().map(|theta| theta.abs() + 1.0).sum();
                (Table::Single(odds_of_labels(cube, unary)), sum.value())
            }
            (Some(Way::Tree), Structures::Subtrees(tree), scores) => {
                let odds = odds_of_nodes(tree, scores.unary().unwrap_or(&[]));
                let root = odds[tree.root()];
                magnitude = odds.iter().map(|x| x.abs() + 1.0).sum();
                (Table::Tree(odds), if tree.has_empty() { softplus(root) } else { root })
            }
            (Some(Way::Mallows), _, Scores::Distance { distance, places, spread }) => {
                operations = 8.0 * n as f64;
                let (log_partition, _) = mallows::log_partition(*distance, n, *spread);
                magnitude = mallows::magnitude(*distance, n, *spread, log_partition);
                (Table::Mallows(mallows::Draws::new(*distance, places, *spread)), log_partition)
            }
            (Some(Way::Orders), ..) => {
                operations = (n * (n + 16)) as f64;
                let orders = Orders::new(steps(model), n, false, keep, clock)?;
                let log_partition = orders.total();
                if log_partition == f64::NEG_INFINITY {
                    return Err(Error::ZeroPartition);
                }
                (Table::Orders(orders), log_partition)
            }
            (Some(Way::Tours), _, Scores::Links(links)) => {
                operations = (n * (n + 16)) as f64;
                let tours = tours::Tours::new(links, n, false, clock)?;
                let log_partition = tours.total() - std::f64::consts::LN_2;
                (Table::Tours(tours), log_partition)
            }
            (Some(Way::Blocks), _, Scores::Links(links)) => {
                operations = (n * (n + 16)) as f64 + (n as f64).exp2();
                let blocks = blocks::Blocks::new(links, n, false, all, clock)?;
                let log_partition = blocks.total();
                (Table::Blocks(blocks), log_partition)
            }
            _ => return Ok(None),
        };
        let rounding = numeric::rounding_allowance(operations, magnitude);
        Ok(Some(Prepared { model, table, log_partition, rounding }))
    }

    /// A structure with the model's law.
    pub fn draw(&self, random: &mut Stream, structure: &mut [u32]) {
        match (&self.table, self.model.structures().base()) {
            (Table::Tree(odds), Structures::Subtrees(tree)) => tree.downward(random, structure, |v| odds[v]),
            (Table::Single(odds) | Table::Tree(odds), _) => {
                for (bit, odds) in structure.iter_mut().zip(odds) {
                    *bit = u32::from(random.uniform() < sigmoid(*odds));
                }
            }
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
            (Table::Single(_), Structures::Hypercube(cube), scores) => {
                let (low, high) = (cube.value(0), cube.value(1));
                let mut means = self.chosen();
                means.iter_mut().for_each(|p| *p = low + (high - low) * *p);
                spread_over(scores, &means, &mut values);
            }
            (Table::Tree(_), _, scores) => spread_over(scores, &self.chosen(), &mut values),
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
            (Table::Blocks(blocks), ..) => values = blocks.pairs(),
            _ => {}
        }
        Ok(values)
    }

    /// The probabilities of labels or nodes.
    fn chosen(&self) -> Vec<f64> {
        match (&self.table, self.model.structures().base()) {
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
            _ => Vec::new(),
        }
    }

    /// The table of marginals ([`marginals`]).
    pub fn marginals(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let n = self.model.width();
        match &self.table {
            Table::Single(_) | Table::Tree(_) => values.copy_from_slice(&self.chosen()),
            Table::Orders(orders) => orders.steps(clock, |before, item, p| {
                values[item * n + before.count_ones() as usize] += p;
            })?,
            Table::Mallows(mallows) => mallows.positions(values, clock)?,
            Table::Tours(tours) => marginals::of_pairs(self.model, &tours.edges(clock)?, values),
            Table::Blocks(blocks) => marginals::of_pairs(self.model, &blocks.pairs(), values),
        }
        // Sums of probabilities round.
        values.iter_mut().for_each(|p| *p = p.min(1.0));
        Ok(())
    }
}

/// The expectations of single scores, and with inputs those of the products.
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
