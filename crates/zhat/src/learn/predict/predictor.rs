//! A trained predictor: inputs of a file in, distributions over structures out.

mod event;
mod queries;
mod row;

use std::ops::Range;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::data::{Examples, Known, Space};
use super::form::{Compiled, LANES, Work, best_spread, kendall_distance, log_partition, places};
use super::objective::{dimension, turn};
use super::{Encoder, Form, Inputs, Ranks, Targets};
use crate::answer::Guarantee;
use crate::error::{Error, Result};
use crate::model::space::SpaceModel;
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
    /// Upper bound on the distance of the objective from its minimum.
    pub gap: f64,
    /// The confidence of the gap: 1 if it is certain, 0 if it is an estimate that is not certified.
    pub confidence: f64,
    /// For Mallows: the fit of the Plackett–Luce model whose orders are the centres.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centres: Option<Centres>,
    /// For Mallows: the number of rows with partial rankings, and a weight above 0. The fit of the spread leaves them
    /// out, and they are not in the objective.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: usize,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde expects
fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// The first stage of a fit of the model of Mallows: that of its centres by the objective of Plackett and Luce.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Centres {
    /// The objective of Plackett and Luce.
    pub objective: f64,
    /// Upper bound on the distance of this objective from its minimum.
    pub gap: f64,
    /// The confidence of this gap.
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
    /// Hamming, 1 − F1 for F1, 1 − τ for Kendall.
    pub choice: Guarantee,
}

/// A value with its guarantee.
#[derive(Clone, Debug, PartialEq)]
pub struct Guaranteed<T> {
    /// The value.
    pub value: T,
    /// Its guarantee: exact, or bounds on the value. For the probabilities of a row, bounds on the largest error.
    pub guarantee: Guarantee,
}

/// The error for a fit of Mallows without complete rankings.
pub(super) fn no_complete_ranking() -> Error {
    let message = "mallows needs at least one row with a complete ranking and a weight above 0; plackett-luce is also trained with partial rankings alone";
    Error::argument("ranking", message)
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
    /// with the same λ, given the centres.
    ///
    /// The centres minimise another objective, that of Plackett and Luce, and the objective of Mallows is not convex in
    /// them. Of its minimum only f ≥ 0 is known, so that the certified gap is f itself. The objective is the mean over
    /// the rows with complete rankings; the training report has the number of others.
    pub(super) fn into_mallows(self, inputs: &Inputs, targets: &Targets, run: &Run) -> Result<Predictor> {
        let (Form::PlackettLuce { items }, Targets::Ranks(ranks)) = (&self.form, targets) else {
            return Err(Error::argument("ranking", "mallows is made from a plackett-luce predictor"));
        };
        let items = *items;
        let centres = self.predict(inputs, Decision::MostProbable, run)?;
        let (mut sum, mut count, mut left_out) = (0.0, 0.0, 0);
        for (row, centre) in centres.iter().enumerate().filter(|(row, _)| inputs.weight(*row) > 0.0) {
            if let Some(order) = Ranks::order(ranks.row(row)) {
                let weight = inputs.weight(row);
                sum += weight * kendall_distance(&places(&centre.structure), &places(&order));
                count += weight;
            } else {
                left_out += 1;
            }
        }
        if count == 0.0 {
            return Err(no_complete_ranking());
        }
        let lambda = self.training.lambda;
        let spread = best_spread(items, sum / count, lambda);
        let weights: f64 = self.parameters.iter().map(|x| x * x).sum();
        let objective =
            spread * sum / count + log_partition(items, spread).0 + lambda * (spread * spread + weights);
        let mut parameters = self.parameters;
        parameters.push(spread);
        let Training { objective: first, gap, confidence, .. } = self.training;
        let centres = Centres { objective: first, gap, confidence };
        // Without a first step there are no centres, and the gap stays infinite.
        let gap = if gap == f64::INFINITY { gap } else { objective };
        let training =
            Training { objective, gap, confidence: 1.0, centres: Some(centres), left_out, ..self.training };
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
            threads * (self.compiled.family.bytes(LANES) + 24.0 * (channels * LANES) as f64)
                + inputs.product_bytes(width) as f64,
        )?;
        let weights = inputs.weights_of(weights, width);
        let starts: Vec<usize> = (0..inputs.rows()).step_by(LANES).collect();
        let blocks: Vec<Result<Vec<T>>> = run.install(|| {
            starts
                .into_par_iter()
                .map_init(Work::default, |own, start| {
                    clock.check()?;
                    let rows = start..(start + LANES).min(inputs.rows());
                    let lanes = rows.len();
                    let mut scores = vec![0.0; lanes * width];
                    inputs.scores(rows.clone(), &weights, &mut scores);
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
    fn row<'a>(
        &'a self,
        row: usize,
        model: &'a SpaceModel,
        run: &'a Run,
        clock: &'a Clock<'a>,
    ) -> row::Row<'a> {
        row::Row { form: &self.form, model, number: row as u64, failure: row::FAILURE, run, clock }
    }

    /// The model of one row. A forest has an additional root, which is always chosen.
    fn space_model(&self, block: &RowScores<'_>, lane: usize) -> Result<SpaceModel> {
        self.form.space_model(block.scores, (lane, block.rows.len()))
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
