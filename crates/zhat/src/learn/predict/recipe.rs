//! From a data set to a predictor: choice of pairs, encoding, training, λ by cross-validation.

use serde::{Deserialize, Serialize};

use super::data::{Cells, Examples, Space};
use super::measures::{Evaluation, evaluate};
use super::predictor::{Training, no_complete_ranking};
use super::train::{other_checkpoint, train};
use super::{
    Decision, Encoder, Encoding, Form, Inputs, Learning, Predictor, PredictorCheckpoint, Sets, Targets,
};
use crate::error::{Error, Result};
use crate::learn::{Column, Statistics, Structure};
use crate::random::Streams;
use crate::run::Run;

/// The model of rankings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankingModel {
    /// Plackett–Luce: item × input.
    #[default]
    PlackettLuce,
    /// Pairs of items × input.
    Precedence,
    /// Item × position × input.
    Positions,
    /// Mallows around the order of a Plackett–Luce predictor.
    Mallows,
}

/// How to make a predictor from a data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// The space.
    pub space: Space,
    /// Which pairs of labels have a score. For a hierarchy: which pairs of siblings, chosen separately for
    /// the children of each node from the rows that contain it.
    pub pairs: Structure,
    /// Whether the scores of pairs depend on the inputs.
    pub pairs_by_input: bool,
    /// The model of rankings.
    pub ranking: RankingModel,
    /// The encoding of inputs.
    pub encoding: Encoding,
    /// Training; its λ is used if `lambdas` is empty.
    pub learning: Learning,
    /// Candidates for λ, of which cross-validation of the log-loss chooses one.
    pub lambdas: Vec<f64>,
    /// The number of folds for the choice of λ.
    pub folds: usize,
}

impl Default for Recipe {
    fn default() -> Self {
        Recipe {
            space: Space::Labels,
            pairs: Structure::Independent,
            pairs_by_input: false,
            ranking: RankingModel::default(),
            encoding: Encoding::default(),
            learning: Learning::default(),
            lambdas: Vec::new(),
            folds: 5,
        }
    }
}

/// The mean log-loss of a candidate for λ on rows that were not used for training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    /// λ.
    pub lambda: f64,
    /// Mean −ln p per row.
    pub log_loss: f64,
}

impl Examples {
    /// Some of the rows, in this order.
    pub fn select(&self, rows: &[usize]) -> Examples {
        let cells = match &self.cells {
            Cells::Dense(values) => {
                let width = self.columns.len();
                Cells::Dense(
                    rows.iter().flat_map(|&row| values[row * width..][..width].iter().copied()).collect(),
                )
            }
            Cells::Sparse { ends, indices, values } => {
                let (mut own, mut places, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
                for &row in rows {
                    let range = if row == 0 { 0 } else { ends[row - 1] }..ends[row];
                    places.extend_from_slice(&indices[range.clone()]);
                    numbers.extend_from_slice(&values[range]);
                    own.push(numbers.len());
                }
                Cells::Sparse { ends: own, indices: places, values: numbers }
            }
        };
        Examples {
            source: self.source.clone(),
            lines: rows.iter().map(|&row| self.lines[row]).collect(),
            columns: self.columns.clone(),
            cells,
            names: self.names.clone(),
            parents: self.parents.clone(),
            targets: self.targets.as_ref().map(|targets| targets.select(rows)),
            weights: self.weights.as_ref().map(|weights| rows.iter().map(|&row| weights[row]).collect()),
        }
    }
}

/// Distributes rows over folds at random; every fold is in ascending order.
///
/// # Errors
/// If there are fewer than 2 folds or fewer rows than folds.
pub fn folds(rows: usize, count: usize, seed: u64) -> Result<Vec<Vec<usize>>> {
    if count < 2 || rows < count {
        let message = format!("{count} folds of {rows} rows; expected from 2 folds to one per row");
        return Err(Error::argument("folds", message));
    }
    let mut all: Vec<usize> = (0..rows).collect();
    Streams::new(seed, "folds").block(0).shuffle(&mut all);
    let mut folds = vec![Vec::new(); count];
    all.into_iter().enumerate().for_each(|(i, row)| folds[i % count].push(row));
    folds.iter_mut().for_each(|fold| fold.sort_unstable());
    Ok(folds)
}

/// The rows that are not in a fold, ascending.
pub fn others(rows: usize, fold: &[usize]) -> Vec<usize> {
    (0..rows).filter(|row| fold.binary_search(row).is_err()).collect()
}

/// The rows of a data set with their weights, for the counts of pairs of labels.
struct Observed<'a> {
    names: &'a [String],
    sets: Option<&'a Sets>,
    weights: Option<&'a [f64]>,
    run: &'a Run,
}

impl Observed<'_> {
    /// The pairs of some labels, as numbers of labels, from the rows that contain a node; of none if there is no such
    /// row.
    fn pairs(&self, of: &Structure, labels: &[usize], inside: Option<usize>) -> Result<Vec<(usize, usize)>> {
        let column =
            |&label: &usize| Column { name: self.names[label].clone(), states: vec!["0".into(), "1".into()] };
        let columns = labels.iter().map(column).collect();
        let empty = || std::iter::once((Vec::new(), None));
        let Structure::ChowLiu { .. } = of else {
            // The counts are not used.
            return self.numbered(of, labels, Statistics::of_sets(columns, empty(), self.run)?);
        };
        let own = |row: &usize| {
            let contains = |sets: &Sets, node: usize| sets.row(*row).binary_search(&(node as u32)).is_ok();
            self.weights.is_none_or(|weights| weights[*row] != 0.0)
                && inside.is_none_or(|node| self.sets.is_some_and(|sets| contains(sets, node)))
        };
        let set = |row: usize| {
            let members = self.sets.map_or(&[][..], |sets| sets.row(row));
            let places = members.iter().filter_map(|&v| labels.binary_search(&(v as usize)).ok()).collect();
            (places, self.weights.map(|weights| weights[row]))
        };
        let rows = 0..self.sets.map_or(0, |sets| sets.ends.len());
        if !rows.clone().any(|row| own(&row)) {
            return Ok(Vec::new());
        }
        let counts = Statistics::of_sets(columns, rows.filter(own).map(set), self.run)?;
        self.numbered(of, labels, counts)
    }

    fn numbered(&self, of: &Structure, labels: &[usize], counts: Statistics) -> Result<Vec<(usize, usize)>> {
        Ok(of.edges(&counts)?.into_iter().map(|(i, j)| (labels[i], labels[j])).collect())
    }
}

impl Recipe {
    /// The features for these targets.
    ///
    /// # Errors
    /// If the pairs do not fit the labels, or there is no structure to predict.
    pub fn form(&self, examples: &Examples, run: &Run) -> Result<Form> {
        let targets = examples.observed()?;
        let n = targets.width();
        match self.space {
            Space::Ranking if n < 2 => {
                Err(Error::argument("targets", format!("{n} items have no order; expected 2 or more")))
            }
            Space::Ranking => Ok(match self.ranking {
                RankingModel::PlackettLuce | RankingModel::Mallows => Form::PlackettLuce { items: n },
                RankingModel::Precedence => Form::Precedence { items: n },
                RankingModel::Positions => Form::Positions { items: n },
            }),
            Space::Partition => Ok(Form::Partition { elements: n }),
            Space::Labels | Space::Hierarchy => {
                let observed = Observed {
                    names: &examples.names,
                    sets: if let Targets::Sets(sets) = targets { Some(sets) } else { None },
                    weights: examples.weights.as_deref(),
                    run,
                };
                let pairs_by_input = self.pairs_by_input;
                if self.space == Space::Labels {
                    let all: Vec<usize> = (0..n).collect();
                    let pairs = if n == 1 { Vec::new() } else { observed.pairs(&self.pairs, &all, None)? };
                    return Ok(Form::Labels { labels: n, pairs, pairs_by_input });
                }
                let parents = examples.parents.clone();
                let pairs = self.siblings(&parents, &observed)?;
                Ok(Form::Hierarchy { parents, pairs, pairs_by_input })
            }
        }
    }

    fn siblings(&self, parents: &[Option<usize>], observed: &Observed<'_>) -> Result<Vec<(usize, usize)>> {
        let mut pairs = match &self.pairs {
            Structure::Independent => return Ok(Vec::new()),
            Structure::Edges(edges) => edges.clone(),
            _ => {
                let mut pairs = Vec::new();
                let families = std::iter::once(None).chain((0..parents.len()).map(Some));
                for parent in families {
                    let children: Vec<usize> = (0..parents.len()).filter(|&v| parents[v] == parent).collect();
                    if children.len() > 1 {
                        pairs.extend(observed.pairs(&self.pairs, &children, parent)?);
                    }
                }
                pairs
            }
        };
        pairs.iter_mut().for_each(|pair| *pair = (pair.0.min(pair.1), pair.0.max(pair.1)));
        pairs.sort_unstable();
        pairs.dedup();
        Ok(pairs)
    }

    /// Trains a predictor. `watch` sees every step of the last training, which continues from a checkpoint if
    /// one is given. Returns the predictor and the log-losses of the candidates for λ.
    ///
    /// # Errors
    /// As [`train`]; also if the examples have no targets or do not fit the recipe.
    pub fn fit(
        &self,
        examples: &Examples,
        from: Option<PredictorCheckpoint>,
        run: &Run,
        watch: &mut dyn FnMut(&PredictorCheckpoint) -> Result<bool>,
    ) -> Result<(Predictor, Vec<Candidate>)> {
        // The choice of λ and the training share one time budget.
        let run = &run.begun();
        let form = self.form(examples, run)?;
        let encoder = Encoder::fit(examples, &self.encoding)?;
        let inputs = encoder.encode(examples, run)?;
        let names = examples.names.clone();
        self.fit_inputs((form, names, encoder), &inputs, examples.observed()?, from, run, watch)
    }

    /// The same as [`Recipe::fit`], for examples whose cells are no longer needed: sparse cells are encoded in place
    /// where possible, others are freed before training, which needs only the encoded inputs.
    ///
    /// # Errors
    /// As [`Recipe::fit`].
    pub fn fit_owned(
        &self,
        examples: Examples,
        from: Option<PredictorCheckpoint>,
        run: &Run,
        watch: &mut dyn FnMut(&PredictorCheckpoint) -> Result<bool>,
    ) -> Result<(Predictor, Vec<Candidate>)> {
        let run = &run.begun();
        let mut examples = examples;
        let form = self.form(&examples, run)?;
        let encoder = Encoder::fit(&examples, &self.encoding)?;
        examples.observed()?;
        let Some(targets) = examples.targets.take() else {
            return Err(Error::argument("targets", "there are none"));
        };
        let names = std::mem::take(&mut examples.names);
        let inputs = encoder.encode_owned(examples, run)?;
        self.fit_inputs((form, names, encoder), &inputs, &targets, from, run, watch)
    }

    fn fit_inputs(
        &self,
        (form, names, encoder): (Form, Vec<String>, Encoder),
        inputs: &Inputs,
        targets: &Targets,
        from: Option<PredictorCheckpoint>,
        run: &Run,
        watch: &mut dyn FnMut(&PredictorCheckpoint) -> Result<bool>,
    ) -> Result<(Predictor, Vec<Candidate>)> {
        let mallows = self.space == Space::Ranking && self.ranking == RankingModel::Mallows;
        let complete = |row: usize| inputs.weight(row) > 0.0 && targets.structure(row).is_some();
        if mallows && inputs.rows() == targets.rows() && !(0..targets.rows()).any(complete) {
            return Err(no_complete_ranking());
        }
        let (lambda, candidates) = match (self.lambdas.as_slice(), &from) {
            ([], _) => (self.learning.lambda, Vec::new()),
            ([only], _) => (*only, Vec::new()),
            // A checkpoint knows which of them was chosen.
            (several, Some(checkpoint)) if several.contains(&checkpoint.how.lambda) => {
                (checkpoint.how.lambda, Vec::new())
            }
            (_, Some(_)) => return Err(other_checkpoint()),
            (several, None) => choose(&form, inputs, targets, &self.learning, several, self.folds, run)?,
        };
        let how = self.learning.lambda(lambda);
        let trained = train(&form, inputs, targets, &how, None, from, run, watch)?;
        let training = Training {
            lambda,
            rows: inputs.rows(),
            objective: trained.progress.objective,
            gap: trained.progress.gap,
            confidence: trained.confidence,
            centres: None,
            left_out: 0,
        };
        let predictor = Predictor::new(form, names, encoder, trained.parameters, training)?;
        let predictor = if mallows { predictor.into_mallows(inputs, targets, run)? } else { predictor };
        Ok((predictor, candidates))
    }

    /// Cross-validation: for every fold, a predictor is made from the other rows and evaluated on the fold.
    ///
    /// # Errors
    /// As [`Recipe::fit`] and [`evaluate`].
    pub fn cross_validate(
        &self,
        examples: &Examples,
        folds: &[Vec<usize>],
        decision: Option<Decision>,
        run: &Run,
    ) -> Result<Vec<(Evaluation, Training)>> {
        let clock = run.start("cross-validation");
        let mut results = Vec::with_capacity(folds.len());
        for (i, fold) in folds.iter().enumerate() {
            clock.step("cross-validation", i, folds.len())?;
            let (own, rest) = (examples.select(fold), examples.select(&others(examples.rows(), fold)));
            let (predictor, _) = self.fit(&rest, None, &run.unobserved(), &mut |_| Ok(true))?;
            let inputs = predictor.inputs(&own, run)?;
            let evaluation = evaluate(&predictor, &inputs, own.observed()?, decision, run)?;
            results.push((evaluation, *predictor.training()));
        }
        Ok(results)
    }
}

/// Chooses λ by cross-validation of the log-loss; every fold goes from the largest λ to the smallest, each
/// training starting at the previous solution.
fn choose(
    form: &Form,
    inputs: &Inputs,
    targets: &Targets,
    how: &Learning,
    lambdas: &[f64],
    count: usize,
    run: &Run,
) -> Result<(f64, Vec<Candidate>)> {
    let mut lambdas = lambdas.to_vec();
    lambdas.sort_by(|a, b| b.total_cmp(a));
    let rows = inputs.rows();
    let parts = folds(rows, count.min(rows), run.seed())?;
    let compiled = form.compile_or_sample(run)?;
    if !compiled.family.has_sums() {
        let message = "several values are compared by exact log-losses, which are out of reach here; one value would work";
        return Err(Error::argument("lambda", message));
    }
    let mut losses = vec![0.0; lambdas.len()];
    let quiet = run.unobserved();
    let clock = run.start("choosing λ");
    for (i, fold) in parts.iter().enumerate() {
        let rest = others(rows, fold);
        let (own, own_targets) = (inputs.select(fold), targets.select(fold));
        let (some, some_targets) = (inputs.select(&rest), targets.select(&rest));
        let mut start: Option<Vec<f64>> = None;
        for (j, &lambda) in lambdas.iter().enumerate() {
            clock.step("choosing λ", i * lambdas.len() + j, parts.len() * lambdas.len())?;
            // The choice needs no more digits than the differences of losses have.
            let how = how.lambda(lambda).gap(how.gap.max(1e-5));
            let trained =
                train(form, &some, &some_targets, &how, start.as_deref(), None, &quiet, &mut |_| Ok(true))?;
            let held = super::objective::Objective::new(&compiled, &own, &own_targets, 0.0);
            let mut gradient = vec![0.0; trained.parameters.len()];
            let loss = run.install(|| held.evaluate(&trained.parameters, &mut gradient, &clock))?;
            losses[j] += loss * own.total();
            start = Some(trained.parameters);
        }
    }
    let candidates: Vec<Candidate> = lambdas
        .iter()
        .zip(&losses)
        .map(|(&lambda, loss)| Candidate { lambda, log_loss: loss / inputs.total() })
        .collect();
    let best = candidates.iter().min_by(|a, b| a.log_loss.total_cmp(&b.log_loss));
    Ok((best.map_or(how.lambda, |best| best.lambda), candidates))
}
