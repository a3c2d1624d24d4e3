//! Exact answers for the spaces and scores that have them.
//!
//! | space, scores | how | time | memory |
//! |---|---|---|---|
//! | hypercube, single | log Z = Σ ln(1 + e^θ), with signs Σ ln 2cosh θ | n | n |
//! | subtrees, single | F(v) = 1 + e^{s_v} Π F(c) from the leaves up | n | n |
//! | hypercube and subtrees, pairs | a factor graph, and elimination | as that | as that |
//! | permutations, positions or precedences | sums over sets (`orders`) | 2ⁿ n | C(n, n/2), or 2ⁿ |
//! | permutations, Kendall, Cayley, Hamming | closed forms (`mallows`) | n | n |
//! | permutations, footrule, Spearman | as positions | 2ⁿ n | 2ⁿ |
//! | cycles, links | Held–Karp (`tours`) | 2ⁿ n² | 2ⁿ n |
//! | partitions, links | sums over sets (`blocks`) | 3ⁿ | 2ⁿ |
//!
//! Each answers for log Z, the gradient, entropy, the best structure and draws, all from the same sums. Exact up to rounding, all terms positive.
//!
//! ```
//! use zhat::space::{Distance, Oracle, Permutations, Scores, SpaceModel};
//! use zhat::{LogPartition, Run};
//! let reference: Vec<usize> = (0..10).collect();
//! let mallows = SpaceModel::new(Permutations::new(10)?, Scores::distance(Distance::Kendall, &reference, 0.5)?)?;
//! let z = Oracle::default().log_partition(&mallows, &Run::default())?;
//! assert!((z.value - 7.334398364439).abs() < 1e-9);
//! # Ok::<(), zhat::Error>(())
//! ```

mod blocks;
mod graph;
mod layers;
mod mallows;
mod orders;
mod tours;

use serde::{Deserialize, Serialize};

use super::draws;
use super::{
    Expectations, Hypercube, Scores, SpaceModel, Structures, Subtrees, best_assignment, sigmoid, softplus,
};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::numeric::{self, CompensatedSum};
use crate::query::{BestState, Entropy, FactorMarginals, Law, LogPartition, Map, Query, Sample, Samples};
use crate::random::Stream;
use crate::run::{Clock, Run};
use orders::{Orders, Steps};

pub(crate) const NAME: &str = "oracle";
/// Measured: one term of a log-sum-exp, and one node or label of the closed forms.
const SECONDS_PER_TERM: f64 = 6e-9;
const SECONDS_PER_ELEMENT: f64 = 3e-8;

/// The exact method that suits the space and its scores.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oracle {}

/// How a model is answered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Single,
    Tree,
    Graph,
    Orders,
    Mallows,
    Tours,
    Blocks,
}

fn way(model: &SpaceModel) -> Option<Way> {
    Some(match (model.structures(), model.scores()) {
        (_, Scores::Custom(_)) | (Structures::Custom(_), _) => return None,
        (_, Scores::Pairwise(_)) => Way::Graph,
        (Structures::Hypercube(_), _) => Way::Single,
        (Structures::Subtrees(_), _) => Way::Tree,
        (_, Scores::Distance { distance, .. }) if mallows::has_closed_form(*distance) => Way::Mallows,
        (Structures::Permutations(_), _) => Way::Orders,
        (Structures::Cycles(_), _) => Way::Tours,
        (Structures::Partitions(_), _) => Way::Blocks,
    })
}

/// What is found once, and answers from then on.
enum Table {
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
pub(crate) struct Prepared<'a> {
    model: &'a SpaceModel,
    table: Table,
    pub log_partition: f64,
    pub rounding: f64,
}

/// The steps of permutations.
fn steps(model: &SpaceModel) -> Steps {
    let n = model.width();
    match model.scores() {
        Scores::Precedence(matrix) => Steps::precedence(matrix, n),
        Scores::Position(matrix) => Steps::position(matrix.clone(), n),
        scores => Steps::position(distances(scores, n), n),
    }
}

/// A distance that is a sum over positions, as position scores.
fn distances(scores: &Scores, n: usize) -> Vec<f64> {
    let Scores::Distance { distance, places, spread } = scores else { return vec![0.0; n * n] };
    let score = |k: usize| -spread * distance.term(k % n, places[k / n]).unwrap_or(0.0);
    (0..n * n).map(score).collect()
}

fn odds_of_labels(cube: &Hypercube, unary: &[f64]) -> Vec<f64> {
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
        let (table, log_partition) = match (way(model), model.structures(), model.scores()) {
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
        match (&self.table, self.model.structures()) {
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
    fn expectations(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let model = self.model;
        let n = model.width();
        let mut values = vec![0.0; model.dimension()];
        match (&self.table, model.structures(), model.scores()) {
            (Table::Single(odds), Structures::Hypercube(cube), scores) => {
                let (low, high) = (cube.value(0), cube.value(1));
                let means: Vec<f64> = odds.iter().map(|x| low + (high - low) * sigmoid(*x)).collect();
                spread_over(scores, &means, &mut values);
            }
            (Table::Tree(odds), Structures::Subtrees(tree), scores) => {
                let mut means = vec![0.0; n];
                for &v in tree.order() {
                    let v = v as usize;
                    means[v] = match tree.parent(v) {
                        None if !tree.has_empty() => 1.0,
                        None => sigmoid(odds[v]),
                        Some(parent) => means[parent] * sigmoid(odds[v]),
                    };
                }
                spread_over(scores, &means, &mut values);
            }
            (Table::Orders(orders), _, Scores::Precedence(_)) => orders.steps(clock, |before, item, p| {
                layers::elements(before).for_each(|j| values[j * n + item] += p);
            })?,
            (Table::Orders(orders), _, Scores::Position(_)) => orders.steps(clock, |before, item, p| {
                values[item * n + before.count_ones() as usize] += p;
            })?,
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
}

/// The expectations of single scores, and with inputs those of the products.
fn spread_over(scores: &Scores, means: &[f64], values: &mut [f64]) {
    match scores {
        Scores::Products { inputs, .. } => {
            for (row, mean) in values.chunks_mut(inputs.len()).zip(means) {
                row.iter_mut().zip(inputs).for_each(|(value, x)| *value = mean * x);
            }
        }
        _ => values.copy_from_slice(means),
    }
}

fn none(model: &SpaceModel) -> Error {
    Error::NoAnswer(format!(
        "{} with {} scores have no exact method but enumeration; sampling methods do not need one",
        model.space().name(),
        model.scores().name()
    ))
}

/// The best structure, without those of factor graphs.
fn best(model: &SpaceModel, clock: &Clock<'_>) -> Result<Vec<u32>> {
    let n = model.width();
    let mut structure = vec![0; n];
    match (way(model), model.structures(), model.scores()) {
        (Some(Way::Single), Structures::Hypercube(cube), scores) => {
            let odds = odds_of_labels(cube, scores.unary().unwrap_or(&[]));
            structure.iter_mut().zip(odds).for_each(|(bit, odds)| *bit = u32::from(odds > 0.0));
        }
        (Some(Way::Tree), Structures::Subtrees(tree), scores) => {
            let unary = scores.unary().unwrap_or(&[]);
            let inner = tree.upward(|v, inner| (unary[v] + inner).max(0.0));
            for &v in tree.order() {
                let v = v as usize;
                let open = tree.parent(v).is_none_or(|parent| structure[parent] == 1);
                let forced = tree.parent(v).is_none() && !tree.has_empty();
                structure[v] = u32::from(forced || open && unary[v] + inner[v] > 0.0);
            }
        }
        (Some(Way::Mallows), _, Scores::Distance { distance, places, spread }) => {
            structure = mallows::Draws::new(*distance, places, *spread).best();
        }
        (Some(Way::Orders), _, Scores::Precedence(_)) => {
            Orders::new(steps(model), n, true, true, clock)?.order(None, &mut structure);
        }
        (Some(Way::Orders), _, scores) => {
            let matrix =
                if let Scores::Position(matrix) = scores { matrix.clone() } else { distances(scores, n) };
            for (item, position) in best_assignment(&matrix, n).into_iter().enumerate() {
                structure[position] = item as u32;
            }
        }
        (Some(Way::Tours), _, Scores::Links(links)) => {
            tours::Tours::new(links, n, true, clock)?.cycle(None, &mut structure);
            model.space().canonical(&mut structure);
        }
        (Some(Way::Blocks), _, Scores::Links(links)) => {
            blocks::Blocks::new(links, n, true, false, clock)?.partition(None, &mut structure);
        }
        _ => return Err(none(model)),
    }
    Ok(structure)
}

impl Oracle {
    /// What is needed before work begins.
    fn require(&self, model: &SpaceModel, query: Query, run: &Run) -> Result<()> {
        let forecast = self.forecast(model, query, run);
        match way(model) {
            None => Err(none(model)),
            Some(_) if forecast.bytes.is_infinite() => Err(Error::NoAnswer(format!(
                "{} of {} elements are too many for sums over all sets; at most {} are possible",
                model.space().name(),
                model.width(),
                layers::MOST
            ))),
            Some(_) => run.require_memory(NAME, forecast.bytes),
        }
    }

    fn prepared<'a>(
        &self,
        model: &'a SpaceModel,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Prepared<'a>> {
        self.require(model, query, run)?;
        let gradient = matches!(query, Query::FactorMarginals | Query::Entropy);
        let keep = gradient || matches!(query, Query::Sample(_));
        run.install(|| Prepared::new(model, keep, gradient, clock))?.ok_or_else(|| none(model))
    }
}

fn diagnostics(rounding: f64, clock: &Clock<'_>) -> Diagnostics {
    let mut diagnostics = Diagnostics::new(NAME);
    diagnostics.rounding = rounding;
    diagnostics.seconds = clock.seconds();
    diagnostics
}

impl Forecasts<SpaceModel> for Oracle {
    fn forecast(&self, model: &SpaceModel, query: Query, run: &Run) -> Forecast {
        let n = model.width() as f64;
        let never = Forecast { bytes: f64::INFINITY, seconds: f64::INFINITY, promise: Promise::Exact };
        let draws = if let Query::Sample(count) = query { count as f64 } else { 0.0 };
        let kept = !matches!(query, Query::LogPartition);
        let sets = n.exp2();
        let (bytes, seconds) = match way(model) {
            None => return never,
            Some(Way::Graph) => return graph::forecast(model, query, run),
            Some(Way::Single | Way::Tree | Way::Mallows) => {
                let each =
                    if matches!(model.scores(), Scores::Distance { .. }) { n * n * 1e-10 } else { 0.0 };
                (24.0 * n, SECONDS_PER_ELEMENT * n * (draws + 1.0) + draws * each)
            }
            // The best assignment takes no sums.
            Some(Way::Orders) if query == Query::Map && !matches!(model.scores(), Scores::Precedence(_)) => {
                (8.0 * n * n, 2e-9 * n.powi(3))
            }
            Some(Way::Orders | Way::Tours | Way::Blocks) if model.width() > layers::MOST => return never,
            Some(Way::Orders) => {
                let widest = sets / (0.5 * std::f64::consts::PI * n.max(1.0)).sqrt();
                let more = if matches!(query, Query::FactorMarginals | Query::Entropy) { n } else { 1.0 };
                let bytes = if kept { 8.0 * (sets + 2.0 * widest) } else { 16.0 * widest };
                (bytes, SECONDS_PER_TERM * 0.5 * n * sets * more + draws * 1e-7 * n * n)
            }
            Some(Way::Tours) => (
                tours::bytes(model.width()) * if kept { 2.0 } else { 1.0 },
                SECONDS_PER_TERM * 0.25 * n * n * sets,
            ),
            Some(Way::Blocks) => (24.0 * sets, SECONDS_PER_TERM * 0.5 * 3f64.powf(n) + draws * 5e-9 * sets),
        };
        Forecast { bytes: bytes + 8.0 * draws * n, seconds, promise: Promise::Exact }
    }
}

impl LogPartition<SpaceModel> for Oracle {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        if way(model) == Some(Way::Graph) {
            return graph::log_partition(model, run);
        }
        let prepared = self.prepared(model, Query::LogPartition, run, &clock)?;
        Ok(Answer::exact(prepared.log_partition, diagnostics(prepared.rounding, &clock)))
    }
}

impl FactorMarginals<SpaceModel> for Oracle {
    fn factor_marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
        let clock = run.start(NAME);
        if way(model) == Some(Way::Graph) {
            return graph::expectations(model, run);
        }
        let prepared = self.prepared(model, Query::FactorMarginals, run, &clock)?;
        let values = run.install(|| prepared.expectations(&clock))?;
        // A probability is off by the relative error of two sums, and there are at most so many.
        let size = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let radius = 4.0 * prepared.rounding * (1.0 + size);
        Ok(Answer::exact(Expectations { values, radius }, diagnostics(radius, &clock)))
    }
}

impl Entropy<SpaceModel> for Oracle {
    /// H = log Z − ⟨θ, E\[φ\]⟩.
    fn entropy(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        if way(model) == Some(Way::Graph) {
            return graph::entropy(model, run);
        }
        let prepared = self.prepared(model, Query::Entropy, run, &clock)?;
        let values = run.install(|| prepared.expectations(&clock))?;
        let parameters = model.parameters();
        let parts = parameters.iter().zip(&values).map(|(theta, mean)| theta * mean);
        let (sum, size) = (parts.clone().collect::<CompensatedSum>(), parts.map(f64::abs).sum::<f64>());
        let rounding = prepared.rounding * (1.0 + 4.0 * size);
        let value = (prepared.log_partition - sum.value()).max(0.0);
        Ok(Answer::exact(value, diagnostics(rounding, &clock)))
    }
}

impl Map<SpaceModel> for Oracle {
    fn map(&self, model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
        let clock = run.start(NAME);
        if way(model) == Some(Way::Graph) {
            return graph::best(model, run);
        }
        self.require(model, Query::Map, run)?;
        let structure = run.install(|| best(model, &clock))?;
        let score = model.score(&structure)?;
        let best = BestState { state: SpaceModel::state(&structure), score };
        Ok(Answer::exact(best, diagnostics(2.0 * model.slack(), &clock)))
    }
}

impl Sample<SpaceModel> for Oracle {
    fn sample(&self, model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        if way(model) == Some(Way::Graph) {
            return graph::sample(model, count, run);
        }
        let prepared = self.prepared(model, Query::Sample(count), run, &clock)?;
        let draw = |random: &mut Stream, structure: &mut [u32]| {
            prepared.draw(random, structure);
            Ok(())
        };
        let samples = draws::samples(model, count, Law::Exact, "space oracle", run, &clock, draw)?;
        Ok(Answer::exact(samples, diagnostics(prepared.rounding, &clock)))
    }
}
