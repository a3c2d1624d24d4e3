//! A trained predictor: inputs of a file in, distributions over structures out.

mod row;

use std::ops::Range;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::data::{Examples, Known, Space};
use super::form::{
    Compiled, LANES, Mallows, Mode, Ranking, RankingScores, Work, best_spread, kendall_distance,
    log_partition, pair, places, sorted,
};
use super::objective::{dimension, turn};
use super::{Encoder, Form, Inputs, Ranks, Targets};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::model::space::{Distance, Hypercube, Partitions, Permutations, Scores, SpaceModel, Subtrees};
use crate::random::Streams;
use crate::run::{Clock, Run};

/// How the parameters were trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Training {
    /// λ.
    pub lambda: f64,
    /// The number of rows.
    pub rows: usize,
    /// The objective; NaN where log Z is out of reach.
    #[serde(deserialize_with = "super::file::known")]
    pub objective: f64,
    /// Certified upper bound on the distance of the objective from its minimum.
    pub gap: f64,
    /// The confidence of the gap.
    pub confidence: f64,
}

/// p(y | x) for the structures y of a space.
#[derive(Debug)]
pub struct Predictor {
    form: Form,
    names: Vec<String>,
    encoder: Encoder,
    parameters: Vec<f64>,
    training: Training,
    compiled: Compiled,
}

/// The loss for which a structure is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Decision {
    /// The most probable structure: the best for the accuracy of whole structures.
    #[default]
    MostProbable,
    /// Labels or nodes of probability above ½: the best for the Hamming loss.
    Hamming,
    /// The set of largest expected F1.
    F1,
    /// The order of largest expected Kendall τ.
    Kendall,
}

/// A predicted structure.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The structure, as in [`crate::space`].
    pub structure: Vec<u32>,
    /// ln p of the structure.
    pub log_probability: f64,
    /// The guarantee of ln p.
    pub guarantee: Guarantee,
    /// The guarantee of the choice: exact, or bounds on the distance from the best structure. The distance is
    /// in ln p for the most probable structures, otherwise in the expected loss: the share of wrong labels for
    /// Hamming, 1 − F1 for F1.
    pub choice: Guarantee,
}

/// The scores of some rows, channel by channel.
pub(crate) struct RowScores<'a> {
    pub rows: Range<usize>,
    pub scores: &'a [f64],
}

impl Predictor {
    /// A predictor from its parts.
    ///
    /// # Errors
    /// If the form is unusable, or the names or parameters do not fit it.
    pub fn new(
        form: Form,
        names: Vec<String>,
        encoder: Encoder,
        parameters: Vec<f64>,
        training: Training,
    ) -> Result<Self> {
        let compiled = form.compile_or_sample(&Run::default())?;
        let expected = dimension(&compiled, encoder.width() + 1);
        if names.len() != form.width() {
            let message = format!("there are {} names of {}", names.len(), form.width());
            return Err(Error::argument("names", message));
        }
        if parameters.len() != expected || parameters.iter().any(|x| !x.is_finite()) {
            let message = format!("expected {expected} finite numbers, found {}", parameters.len());
            return Err(Error::argument("parameters", message));
        }
        Ok(Predictor { form, names, encoder, parameters, training, compiled })
    }

    /// The features.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// The labels, nodes, items or elements.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The encoding of inputs.
    pub fn encoder(&self) -> &Encoder {
        &self.encoder
    }

    /// θ.
    pub fn parameters(&self) -> &[f64] {
        &self.parameters
    }

    /// How it was trained.
    pub fn training(&self) -> &Training {
        &self.training
    }

    /// The space of structures.
    pub fn space(&self) -> Space {
        match self.form {
            Form::Labels { .. } => Space::Labels,
            Form::Hierarchy { .. } => Space::Hierarchy,
            Form::Partition { .. } => Space::Partition,
            _ => Space::Ranking,
        }
    }

    /// The names to which a file must fit.
    pub fn known(&self) -> Known {
        let parents =
            if let Form::Hierarchy { parents, .. } = &self.form { parents.clone() } else { Vec::new() };
        Known { names: self.names.clone(), parents, columns: self.encoder.columns().len() }
    }

    /// The model of Mallows around the orders of a Plackett–Luce predictor; its spread minimises the objective
    /// with the same λ.
    pub(super) fn into_mallows(self, inputs: &Inputs, targets: &Targets, run: &Run) -> Result<Predictor> {
        let (Form::PlackettLuce { items }, Targets::Ranks(ranks)) = (&self.form, targets) else {
            return Err(Error::argument("ranking", "mallows is made from a plackett-luce predictor"));
        };
        let items = *items;
        let centres = self.predict(inputs, Decision::MostProbable, run)?;
        let (mut sum, mut count) = (0.0, 0.0);
        for (row, centre) in centres.iter().enumerate() {
            if let Some(order) = Ranks::order(ranks.row(row)) {
                let weight = inputs.weight(row);
                sum += weight * kendall_distance(&places(&centre.structure), &places(&order));
                count += weight;
            }
        }
        if count == 0.0 {
            return Err(Error::argument("ranking", "mallows needs rows with complete rankings"));
        }
        let lambda = self.training.lambda;
        let spread = best_spread(items, sum / count, lambda);
        let weights: f64 = self.parameters.iter().map(|x| x * x).sum();
        let objective =
            spread * sum / count + log_partition(items, spread).0 + lambda * (spread * spread + weights);
        let mut parameters = self.parameters;
        parameters.push(spread);
        // The certified gap is that of the Plackett–Luce objective.
        let training = Training { objective, ..self.training };
        Predictor::new(Form::Mallows { items }, self.names, self.encoder, parameters, training)
    }

    /// The encoded inputs of a data set.
    ///
    /// # Errors
    /// As [`Encoder::encode`].
    pub fn inputs(&self, examples: &Examples, run: &Run) -> Result<Inputs> {
        self.encoder.encode(examples, run)
    }

    /// Calls `work` for blocks of rows, in parallel, and returns the results in order.
    fn each_block<T: Send>(
        &self,
        inputs: &Inputs,
        run: &Run,
        clock: &Clock<'_>,
        work: impl Fn(RowScores<'_>, &mut Work) -> Result<Vec<T>> + Sync,
    ) -> Result<Vec<T>> {
        if inputs.columns() != self.encoder.width() + 1 {
            let (found, expected) = (inputs.columns() - 1, self.encoder.width());
            return Err(Error::argument("inputs", format!("have {found} columns, expected {expected}")));
        }
        let (width, channels) = (self.compiled.by_input, self.compiled.family.channels());
        let (weights, constants) = self.parameters.split_at(inputs.columns() * width);
        let threads = run.threads() as f64;
        run.require_memory(
            "prediction",
            threads * (self.compiled.family.bytes(LANES) + 24.0 * (channels * LANES) as f64),
        )?;
        let starts: Vec<usize> = (0..inputs.rows()).step_by(LANES).collect();
        let blocks: Vec<Result<Vec<T>>> = run.install(|| {
            starts
                .into_par_iter()
                .map_init(Work::default, |own, start| {
                    clock.check()?;
                    let rows = start..(start + LANES).min(inputs.rows());
                    let lanes = rows.len();
                    let mut scores = vec![0.0; lanes * width];
                    inputs.scores(rows.clone(), weights, width, &mut scores);
                    let mut turned = vec![0.0; lanes * channels];
                    turn(&scores, lanes, width, &mut turned[..width * lanes]);
                    for (k, &constant) in constants.iter().enumerate() {
                        turned[(width + k) * lanes..][..lanes].fill(constant);
                    }
                    work(RowScores { rows, scores: &turned }, own)
                })
                .collect()
        });
        let mut all = Vec::with_capacity(inputs.rows());
        for block in blocks {
            all.extend(block?);
        }
        Ok(all)
    }

    /// The structure that is best for a loss, for every row, with its probability. All results are exact.
    ///
    /// # Errors
    /// If the decision does not apply to the space, the inputs have another width, or the budget is exceeded.
    pub fn predict(&self, inputs: &Inputs, decision: Decision, run: &Run) -> Result<Vec<Prediction>> {
        let clock = run.start("prediction");
        let sets = matches!(self.space(), Space::Labels | Space::Hierarchy);
        let applies = match decision {
            Decision::MostProbable => true,
            Decision::Hamming | Decision::F1 => sets,
            Decision::Kendall => self.space() == Space::Ranking,
        };
        if !applies {
            let choices = match self.space() {
                Space::Labels | Space::Hierarchy => "most-probable, hamming or f1",
                Space::Ranking => "most-probable or kendall",
                Space::Partition => "most-probable",
            };
            let message = format!("does not apply to a {} predictor; expected {choices}", self.form.space());
            return Err(Error::argument("decision", message));
        }
        let family = &self.compiled.family;
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                row::predict(&self.row(row, model, run, &clock), decision)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            let mut log_z = vec![0.0; lanes];
            let mut structures = vec![vec![0; family.width()]; lanes];
            match decision {
                // The mode of these models has the largest expected τ: every pair is in its more probable order.
                Decision::Kendall
                    if matches!(self.form, Form::PlackettLuce { .. } | Form::Mallows { .. }) =>
                {
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        family.decode(block.scores, (lane, lanes), work, None, structure);
                    }
                }
                Decision::MostProbable => {
                    family.upward(block.scores, lanes, Mode::Max, work, &mut log_z);
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        family.decode(block.scores, (lane, lanes), work, None, structure);
                    }
                }
                Decision::Hamming => {
                    family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
                    let mut means = vec![0.0; block.scores.len()];
                    family.means(block.scores, lanes, work, &mut means);
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        for (i, y) in structure.iter_mut().enumerate() {
                            *y = u32::from(means[i * lanes + lane] > 0.5);
                        }
                    }
                }
                Decision::F1 => {
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        let model = self.space_model(&block, lane)?;
                        *structure = super::decide::largest_f1(&model, self.hidden_root(), run, &clock)?;
                    }
                }
                Decision::Kendall => {
                    let table = self.precedence_table(&block, work)?;
                    let n = family.width();
                    for (lane, structure) in structures.iter_mut().enumerate() {
                        let own: Vec<f64> = table.iter().skip(lane).step_by(lanes).copied().collect();
                        *structure = super::decide::best_order(&own, n)?;
                    }
                }
            }
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            let predict = |(lane, structure): (usize, Vec<u32>)| Prediction {
                log_probability: family.score(block.scores, (lane, lanes), &structure) - log_z[lane],
                structure,
                guarantee: Guarantee::Exact,
                choice: Guarantee::Exact,
            };
            Ok(structures.into_iter().enumerate().map(predict).collect())
        })
    }

    /// P(i before j) for the rows of a block: n × n tables, row by row innermost.
    fn precedence_table(&self, block: &RowScores<'_>, work: &mut Work) -> Result<Vec<f64>> {
        let (n, lanes) = (self.form.width(), block.rows.len());
        let scores = match self.form {
            Form::Positions { .. } => RankingScores::Positions,
            Form::Precedence { .. } => RankingScores::Precedence,
            Form::Mallows { items } => {
                let mallows = Mallows { items };
                let mut table = vec![0.0; n * n * lanes];
                for lane in 0..lanes {
                    let own = mallows.precedences(block.scores, (lane, lanes));
                    own.iter().enumerate().for_each(|(at, p)| table[at * lanes + lane] = *p);
                }
                return Ok(table);
            }
            _ => {
                let mut table = vec![0.0; n * n * lanes];
                for i in 0..n {
                    for j in (0..n).filter(|&j| j != i) {
                        for lane in 0..lanes {
                            let difference = block.scores[j * lanes + lane] - block.scores[i * lanes + lane];
                            table[(i * n + j) * lanes + lane] = 1.0 / (1.0 + difference.exp());
                        }
                    }
                }
                return Ok(table);
            }
        };
        let ranking = Ranking::new(n, scores)?;
        let mut log_z = vec![0.0; lanes];
        self.compiled.family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
        Ok(ranking.precedences(block.scores, lanes, work))
    }

    /// Probabilities of every row: of each label or node, of i before j as an n × n table, or of i and j in
    /// one block as an n × n table with ones on the diagonal.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    pub fn marginals(&self, inputs: &Inputs, run: &Run) -> Result<Vec<Vec<f64>>> {
        let clock = run.start("marginals");
        let (family, n) = (&self.compiled.family, self.form.width());
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                Ok(row::marginals(&self.row(row, model, run, &clock))?.0)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            if self.space() == Space::Ranking {
                let table = self.precedence_table(&block, work)?;
                let row = |lane: usize| table.iter().skip(lane).step_by(lanes).copied().collect();
                return Ok((0..lanes).map(row).collect());
            }
            let (mut log_z, mut means) = (vec![0.0; lanes], vec![0.0; block.scores.len()]);
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            family.means(block.scores, lanes, work, &mut means);
            let row = |lane: usize| match self.space() {
                Space::Partition => {
                    let mut table = vec![1.0; n * n];
                    for i in 0..n {
                        for j in i + 1..n {
                            let p = means[pair(i, j, n) * lanes + lane];
                            (table[i * n + j], table[j * n + i]) = (p, p);
                        }
                    }
                    table
                }
                _ => (0..n).map(|i| means[i * lanes + lane]).collect(),
            };
            Ok((0..lanes).map(row).collect())
        })
    }

    /// ln p of the observed structure of every row; for a partial ranking, of all orders that extend it.
    ///
    /// # Errors
    /// If the targets do not fit the predictor or the inputs, or the budget is exceeded.
    pub fn log_probabilities(&self, inputs: &Inputs, targets: &Targets, run: &Run) -> Result<Vec<f64>> {
        self.form.check(targets)?;
        if inputs.rows() != targets.rows() {
            let message =
                format!("there are {} rows of inputs and {} of targets", inputs.rows(), targets.rows());
            return Err(Error::argument("targets", message));
        }
        let clock = run.start("likelihood");
        if !self.compiled.family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                let structure = targets.structure(row).unwrap_or_default();
                Ok(row::log_probability(&self.row(row, model, run, &clock), &structure)?.0)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let (mut scores, mut losses) = (block.scores.to_vec(), vec![0.0; block.rows.len()]);
            self.compiled.family.losses(&mut scores, targets, block.rows, work, &mut losses);
            Ok(losses.into_iter().map(|loss| -loss).collect())
        })
    }

    /// Whether probabilities and predictions are exact. They are estimates if the label graph is too dense for
    /// exact sums.
    pub fn is_exact(&self) -> bool {
        self.compiled.family.has_sums()
    }

    /// Exact samples of every row.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    pub fn sample(&self, inputs: &Inputs, count: usize, run: &Run) -> Result<Vec<Vec<Vec<u32>>>> {
        let clock = run.start("sampling");
        let (family, streams) = (&self.compiled.family, Streams::new(run.seed(), "predictor samples"));
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            family.upward(block.scores, lanes, Mode::Sum, work, &mut vec![0.0; lanes]);
            let mut all = Vec::with_capacity(lanes);
            for (lane, row) in block.rows.clone().enumerate() {
                let mut random = streams.block(row as u64);
                let mut own = Vec::with_capacity(count);
                let at = (lane, lanes);
                family.draw(block.scores, at, work, (count, &mut random), &clock, &mut |structure| {
                    own.push(structure.to_vec());
                })?;
                all.push(own);
            }
            Ok(all)
        })
    }

    /// The k most probable structures of every row, best first; fewer if there are fewer.
    ///
    /// # Errors
    /// If the inputs have another width, or the budget is exceeded.
    #[allow(clippy::needless_range_loop)] // several arrays share the index
    pub fn best(&self, inputs: &Inputs, k: usize, run: &Run) -> Result<Vec<Vec<Prediction>>> {
        let clock = run.start("best structures");
        let family = &self.compiled.family;
        if !family.has_sums() {
            return self.each_row(inputs, run, &clock, |row, model| {
                row::best(&self.row(row, model, run, &clock), k)
            });
        }
        self.each_block(inputs, run, &clock, |block, work| {
            let lanes = block.rows.len();
            let mut log_z = vec![0.0; lanes];
            family.upward(block.scores, lanes, Mode::Sum, work, &mut log_z);
            let mut all = Vec::with_capacity(lanes);
            for lane in 0..lanes {
                clock.check()?;
                let structures = match self.form {
                    Form::PlackettLuce { .. } => {
                        let own: Vec<f64> = block.scores.iter().skip(lane).step_by(lanes).copied().collect();
                        super::decide::best_plackett_luce(&own, k)
                    }
                    _ => {
                        let model = self.space_model(&block, lane)?;
                        super::decide::best_structures(&model, k, self.hidden_root(), run)?
                    }
                };
                let predict = |structure: Vec<u32>| Prediction {
                    log_probability: family.score(block.scores, (lane, lanes), &structure) - log_z[lane],
                    structure,
                    guarantee: Guarantee::Exact,
                    choice: Guarantee::Exact,
                };
                all.push(structures.into_iter().map(predict).collect());
            }
            Ok(all)
        })
    }

    /// Calls `work` for every row and its space model, one after the other: each query of the model may itself
    /// use all threads.
    fn each_row<T: Send>(
        &self,
        inputs: &Inputs,
        run: &Run,
        clock: &Clock<'_>,
        work: impl Fn(usize, &SpaceModel) -> Result<T> + Sync,
    ) -> Result<Vec<T>> {
        let models = self.each_block(inputs, run, clock, |block, _| {
            (0..block.rows.len()).map(|lane| self.space_model(&block, lane)).collect()
        })?;
        let count = models.len();
        let mut all = Vec::with_capacity(count);
        for (row, model) in models.iter().enumerate() {
            clock.step("prediction", row, count)?;
            all.push(work(row, model)?);
        }
        Ok(all)
    }

    /// A row whose sums are out of reach.
    fn row<'a>(&self, row: usize, model: &'a SpaceModel, run: &'a Run, clock: &'a Clock<'a>) -> row::Row<'a> {
        row::Row { model, hidden: usize::from(self.hidden_root()), number: row as u64, run, clock }
    }

    /// Whether the space model of a row has an additional first node, the root of all trees.
    pub(super) fn hidden_root(&self) -> bool {
        self.space() == Space::Hierarchy
    }

    /// The model of one row. A forest has an additional root, which is always chosen.
    fn space_model(&self, block: &RowScores<'_>, lane: usize) -> Result<SpaceModel> {
        let lanes = block.rows.len();
        let own: Vec<f64> = block.scores.iter().skip(lane).step_by(lanes).copied().collect();
        let n = self.form.width();
        let with_pairs = |own: &[f64], pairs: &[(usize, usize)], shift: usize| {
            let single: Vec<f64> = std::iter::repeat_n(0.0, shift).chain(own[..n].iter().copied()).collect();
            if pairs.is_empty() {
                return Ok(Scores::Unary(single));
            }
            let pairs: Vec<(usize, usize, f64)> =
                pairs.iter().zip(&own[n..]).map(|(&(i, j), &w)| (i + shift, j + shift, w)).collect();
            Scores::pairwise(single, &pairs)
        };
        match &self.form {
            Form::Labels { pairs, .. } => SpaceModel::new(Hypercube::new(n)?, with_pairs(&own, pairs, 0)?),
            Form::Hierarchy { parents, pairs, .. } => {
                let above = |parent: &Option<usize>| Some(parent.map_or(0, |parent| parent + 1));
                let tree: Vec<Option<usize>> =
                    std::iter::once(None).chain(parents.iter().map(above)).collect();
                SpaceModel::new(Subtrees::new(&tree, false)?, with_pairs(&own, pairs, 1)?)
            }
            Form::Positions { .. } => SpaceModel::new(Permutations::new(n)?, Scores::Position(own)),
            Form::Precedence { .. } => {
                let mut table = vec![0.0; n * n];
                for i in 0..n {
                    (i + 1..n).for_each(|j| table[i * n + j] = own[pair(i, j, n)]);
                }
                SpaceModel::new(Permutations::new(n)?, Scores::Precedence(table))
            }
            Form::Mallows { .. } => {
                let centre: Vec<usize> =
                    sorted(own[..n].iter().copied()).iter().map(|&i| i as usize).collect();
                let scores = Scores::distance(Distance::Kendall, &centre, own[n])?;
                SpaceModel::new(Permutations::new(n)?, scores)
            }
            Form::PlackettLuce { .. } => {
                Err(Error::NoAnswer("plackett-luce is no model with scores of structures".into()))
            }
            Form::Partition { .. } => {
                let mut links = Vec::new();
                for i in 0..n {
                    links.extend((i + 1..n).map(|j| (i, j, own[pair(i, j, n)])));
                }
                SpaceModel::new(Partitions::new(n)?, Scores::links(n, &links)?)
            }
        }
    }

    /// The model of one row as a space model, for queries beyond those of this type.
    ///
    /// # Errors
    /// If there is no such row, the inputs have another width, or the form is Plackett–Luce.
    pub fn row_model(&self, inputs: &Inputs, row: usize, run: &Run) -> Result<SpaceModel> {
        if row >= inputs.rows() {
            return Err(Error::argument(
                "row",
                format!("{row} is out of range; there are {}", inputs.rows()),
            ));
        }
        let clock = run.start("row model");
        let some = inputs.select(&[row]);
        let models =
            self.each_block(&some, run, &clock, |block, _| Ok(vec![self.space_model(&block, 0)?]))?;
        models.into_iter().next().ok_or_else(|| Error::argument("row", "is missing"))
    }
}

#[cfg(test)]
mod tests;
