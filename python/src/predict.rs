//! Structured predictors: training on arrays, predictions, probabilities and files.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde::Deserialize;
use zhat::internal::io::write_atomically;
use zhat::internal::units;
use zhat::learn::Structure;
use zhat::learn::predict::file::{
    parse_predictor, read_predictor, read_predictor_checkpoint, write_predictor, write_predictor_checkpoint,
};
use zhat::learn::predict::{
    self, Blocks, Cells, Decision, Encoding, Form, InputColumn, Learning, Prediction, RankingModel, Ranks,
    ReadOptions, Recipe, Regret, Sets, Space, Targets,
};
use zhat::{Error, Guarantee, Result};

use crate::array;
use crate::error::{self, Failure};
use crate::run::Run;

/// Input columns: names, and the categories of categorical ones.
type Columns = Vec<(String, Option<Vec<String>>)>;
/// Observed structures: kind, width, ends of rows (for sets), and members, ranks or blocks.
type Observed<'py> = (String, usize, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, u32>);
/// A guarantee as JSON and in words.
type Words = (String, String);
/// Probabilities of all rows and the guarantee of each row, unless all are exact.
type Probabilities<'py, A> = (Bound<'py, A>, Vec<Words>);
/// Structures of all rows, their log-probabilities, and the guarantees of each log-probability and of each
/// choice, unless all are exact.
type Predicted<'py> = (Bound<'py, PyArrayDyn<u32>>, Bound<'py, PyArray1<f64>>, Vec<(Words, Words)>);
/// Of a fit of Mallows: objective, certified gap and confidence of its centres.
type Centres = (f64, f64, f64);
/// The regret of online training: steps, measured, bounds for samples and for radii, confidence.
type Regrets = (u64, f64, f64, f64, f64);
/// The predictor, its steps with objective, gap and whether the gap is certified, the log-losses of the candidates for λ, and the
/// regret of online training.
type Trained = (Predictor, Vec<(usize, f64, f64, bool)>, Vec<(f64, f64)>, Option<Regrets>);

/// The inputs of some rows.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Inputs {
    rows: usize,
    /// None after training, which takes the inputs without a copy.
    inner: Mutex<Option<Arc<predict::Examples>>>,
}

impl Inputs {
    /// The inputs; with `take` they are given away.
    fn get(&self, take: bool) -> PyResult<Arc<predict::Examples>> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let found = if take { inner.take() } else { inner.clone() };
        found.ok_or_else(|| error::argument("inputs", "were used for training"))
    }
}

fn examples(columns: Columns, rows: usize, cells: Cells) -> Inputs {
    let column = |(name, levels)| InputColumn { name, levels };
    let inner = predict::Examples {
        source: String::new(),
        lines: (1..=rows).collect(),
        columns: columns.into_iter().map(column).collect(),
        cells,
        names: Vec::new(),
        parents: Vec::new(),
        targets: None,
        weights: None,
    };
    Inputs { rows, inner: Mutex::new(Some(Arc::new(inner))) }
}

/// Whole numbers as another type.
fn converted<T: TryFrom<i64>>(name: &str, numbers: &[i64]) -> PyResult<Vec<T>> {
    let convert = |&number: &i64| {
        T::try_from(number).map_err(|_| error::argument(name, format!("{number} is out of range")))
    };
    numbers.iter().map(convert).collect()
}

#[pymethods]
impl Inputs {
    /// From a matrix; missing cells are NaN, and cells of categorical columns are numbers of categories.
    #[staticmethod]
    fn dense(columns: Columns, cells: PyReadonlyArray2<'_, f64>) -> PyResult<Self> {
        let shape = cells.as_array().dim();
        if shape.1 != columns.len() {
            return Err(error::argument("X", "expected one name per column"));
        }
        Ok(examples(columns, shape.0, Cells::Dense(cells.as_slice()?.to_vec())))
    }

    /// From a sparse matrix in CSR format; cells that are not given are 0.
    #[staticmethod]
    fn sparse(
        columns: Columns,
        ends: PyReadonlyArray1<'_, i64>,
        indices: PyReadonlyArray1<'_, i64>,
        values: PyReadonlyArray1<'_, f64>,
    ) -> PyResult<Self> {
        let ends: Vec<usize> = converted("X", ends.as_slice()?)?;
        let indices: Vec<u32> = converted("X", indices.as_slice()?)?;
        let values = values.as_slice()?.to_vec();
        let fits = ends.windows(2).all(|pair| pair[0] <= pair[1])
            && ends.last().copied().unwrap_or(0) == values.len()
            && indices.len() == values.len()
            && indices.iter().all(|index| (*index as usize) < columns.len());
        if !fits {
            return Err(error::argument("X", "the parts of the sparse matrix do not fit each other"));
        }
        Ok(examples(columns, ends.len(), Cells::Sparse { ends, indices, values }))
    }

    #[getter]
    fn rows(&self) -> usize {
        self.rows
    }
}

/// Columns, cells, names, parents and targets of a file. Dense cells have no indices.
type Read<'py> = (
    Columns,
    (Vec<usize>, Vec<u32>, Bound<'py, PyArray1<f64>>),
    Vec<String>,
    Vec<Option<usize>>,
    Option<(Vec<usize>, Bound<'py, PyArray1<u32>>)>,
    usize,
);

/// Reads a data set from a file; `space` is that of its targets.
#[pyfunction]
pub fn read_examples<'py>(
    py: Python<'py>,
    path: PathBuf,
    space: &str,
    labels: Vec<String>,
    xml: Option<PathBuf>,
    partial: bool,
) -> PyResult<Read<'py>> {
    let space: Space = serde_json::from_value(space.into()).map_err(|_| {
        let known = "labels, ranking, hierarchy or partition";
        error::argument("space", format!("expected {known}, found `{space}`"))
    })?;
    let options = ReadOptions { space, labels, xml, partial, ..Default::default() };
    let read = py.detach(|| predict::read_examples(&path, &options)).map_err(Failure)?;
    let rows = read.rows();
    let columns = read.columns.into_iter().map(|column| (column.name, column.levels)).collect();
    let cells = match read.cells {
        Cells::Dense(values) => (Vec::new(), Vec::new(), PyArray1::from_vec(py, values)),
        Cells::Sparse { ends, indices, values } => (ends, indices, PyArray1::from_vec(py, values)),
    };
    let targets = read.targets.map(|targets| match targets {
        Targets::Sets(sets) => (sets.ends, PyArray1::from_vec(py, sets.members)),
        Targets::Ranks(ranks) => (Vec::new(), PyArray1::from_vec(py, ranks.ranks)),
        Targets::Blocks(blocks) => (Vec::new(), PyArray1::from_vec(py, blocks.blocks)),
    });
    Ok((columns, cells, read.names, read.parents, targets, rows))
}

fn targets_of((kind, width, ends, values): &Observed<'_>) -> PyResult<Targets> {
    let (width, values) = (*width, values.as_slice()?);
    let rectangular = width > 0 && values.len() % width == 0;
    match kind.as_str() {
        "sets" => {
            let ends: Vec<usize> = converted("y", ends.as_slice()?)?;
            let fits = ends.windows(2).all(|pair| pair[0] <= pair[1])
                && ends.last().copied().unwrap_or(0) == values.len();
            if !fits {
                return Err(error::argument("y", "the parts of the sets do not fit each other"));
            }
            let mut sets = Sets { width, ..Default::default() };
            let mut start = 0;
            for end in ends {
                sets.push(values[start..end].iter().copied()).map_err(Failure)?;
                start = end;
            }
            Ok(Targets::Sets(sets))
        }
        "ranks" if rectangular => Ok(Targets::Ranks(Ranks { items: width, ranks: values.to_vec() })),
        "blocks" if rectangular => {
            let mut blocks = values.to_vec();
            blocks.chunks_exact_mut(width).for_each(Blocks::canonical);
            Ok(Targets::Blocks(Blocks { elements: width, blocks }))
        }
        _ => Err(error::argument("y", format!("{} values make no {kind} of {width}", values.len()))),
    }
}

/// Pairs of labels or siblings.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Pairs {
    None,
    All,
    ChowLiu(usize),
    Given(Vec<(usize, usize)>),
}

/// A recipe as JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct How {
    space: Space,
    pairs: Pairs,
    pairs_by_input: bool,
    ranking: RankingModel,
    encoding: Encoding,
    learning: Learning,
    lambdas: Vec<f64>,
    folds: usize,
}

impl How {
    fn recipe(self) -> Recipe {
        Recipe {
            space: self.space,
            pairs: match self.pairs {
                Pairs::None => Structure::Independent,
                Pairs::All => Structure::Complete,
                Pairs::ChowLiu(more) => Structure::ChowLiu { more },
                Pairs::Given(pairs) => Structure::Edges(pairs),
            },
            pairs_by_input: self.pairs_by_input,
            ranking: self.ranking,
            encoding: self.encoding,
            learning: self.learning,
            lambdas: self.lambdas,
            folds: self.folds,
        }
    }
}

fn from_json<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| error::argument(name, error.to_string()))
}

/// Trains a predictor and uses up the inputs; `how` is a JSON object, `names` are those of the labels, nodes, items or elements,
/// `weights` those of the rows, and `checkpoint` is a file and the seconds between writes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_predictor(
    py: Python<'_>,
    inputs: &Inputs,
    observed: Observed<'_>,
    weights: Option<Vec<f64>>,
    names: Vec<String>,
    parents: Vec<Option<usize>>,
    how: &str,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<Trained> {
    let recipe = from_json::<How>("predictor", how)?.recipe();
    let targets = targets_of(&observed)?;
    let inner = inputs.get(true)?;
    let (predictor, steps, candidates, regret) = run.supervise(py, move |run| {
        let inner = Arc::try_unwrap(inner).unwrap_or_else(|shared| (*shared).clone());
        let examples = predict::Examples { names, parents, targets: Some(targets), weights, ..inner };
        let kept = checkpoint.as_ref().map(|(path, every)| (path.as_path(), *every));
        let from = kept
            .map(|kept| kept.0)
            .filter(|path| path.exists())
            .map(read_predictor_checkpoint)
            .transpose()?;
        let (mut steps, mut last, mut newest) = (Vec::new(), Instant::now(), None);
        let mut regret = None;
        let (predictor, candidates) = recipe.fit_owned(examples, from, run, &mut |now| {
            let progress = now.progress();
            regret = now.regret();
            steps.push((progress.step, progress.objective, progress.gap, progress.certified));
            if let Some((path, every)) = kept {
                if last.elapsed().as_secs_f64() >= every {
                    write_predictor_checkpoint(now, path)?;
                    last = Instant::now();
                }
                newest = Some(now.clone());
            }
            Ok(true)
        })?;
        if let (Some((path, _)), Some(now)) = (kept, &newest) {
            write_predictor_checkpoint(now, path)?;
        }
        if predictor.training().gap == f64::INFINITY {
            return Err(Error::OverBudget {
                needs: "training did not finish its first step in time".into(),
                budget: units::precise_seconds(run.time().unwrap_or_default().as_secs_f64()),
                fitting: Vec::new(),
            });
        }
        let training = *predictor.training();
        let told = |regret: Regret| {
            let measured = regret.measured(training.objective - training.gap);
            (regret.steps, measured, regret.sample_bound(), regret.radius_bound(), regret.confidence())
        };
        Ok((predictor, steps, candidates, regret.map(told)))
    })?;
    let candidates = candidates.iter().map(|one| (one.lambda, one.log_loss)).collect();
    Ok((Predictor::of(predictor), steps, candidates, regret))
}

/// A trained predictor.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Predictor {
    inner: Arc<predict::Predictor>,
}

/// A guarantee as JSON and in words.
fn words(own: &Guarantee) -> Words {
    (own.to_json().to_string(), own.to_string())
}

impl Predictor {
    fn of(predictor: predict::Predictor) -> Self {
        Predictor { inner: Arc::new(predictor) }
    }

    /// Runs `work` with the predictor and the encoded inputs.
    fn with_inputs<T: Send + 'static>(
        &self,
        py: Python<'_>,
        inputs: &Inputs,
        run: &Run,
        work: impl FnOnce(&predict::Predictor, &predict::Inputs, &zhat::Run) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (predictor, examples) = (self.inner.clone(), inputs.get(false)?);
        run.supervise(py, move |run| {
            let encoded = predictor.inputs(&examples, run)?;
            drop(examples);
            work(&predictor, &encoded, run)
        })
    }

    /// The guarantees of rows, unless all are exact.
    fn promises<'a>(&self, each: impl Iterator<Item = &'a Guarantee>) -> Vec<Words> {
        if self.inner.is_exact() { Vec::new() } else { each.map(words).collect() }
    }

    /// Predictions as arrays.
    fn told<'py>(
        &self,
        py: Python<'py>,
        found: Vec<Prediction>,
        shape: &[usize],
    ) -> PyResult<Predicted<'py>> {
        let guarantees = if self.inner.is_exact() {
            Vec::new()
        } else {
            found.iter().map(|one| (words(&one.guarantee), words(&one.choice))).collect()
        };
        let logs: Vec<f64> = found.iter().map(|one| one.log_probability).collect();
        let structures = found.into_iter().flat_map(|one| one.structure).collect();
        Ok((array::handed_over(py, structures, shape)?, PyArray1::from_vec(py, logs), guarantees))
    }
}

#[pymethods]
impl Predictor {
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Predictor::of(py.detach(|| read_predictor(&path)).map_err(Failure)?))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Predictor::of(parse_predictor(data, "").map_err(Failure)?))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        write_predictor(&self.inner, &mut bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || write_atomically(&path, |out| write_predictor(&self.inner, out));
        Ok(py.detach(write).map_err(Failure)?)
    }

    /// `labels`, `ranking`, `hierarchy` or `partition`.
    #[getter]
    fn space(&self) -> &'static str {
        self.inner.space().name()
    }

    /// The labels, nodes, items or elements.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.inner.names().to_vec()
    }

    /// The parents of the nodes of a hierarchy.
    #[getter]
    fn parents(&self) -> Vec<Option<usize>> {
        self.inner.known().parents
    }

    /// The pairs of labels or nodes with a score.
    #[getter]
    fn pairs(&self) -> Vec<(usize, usize)> {
        match self.inner.form() {
            Form::Labels { pairs, .. } | Form::Hierarchy { pairs, .. } => pairs.clone(),
            _ => Vec::new(),
        }
    }

    /// The features as JSON.
    #[getter]
    fn form(&self) -> PyResult<String> {
        serde_json::to_string(self.inner.form()).map_err(|error| error::argument("form", error.to_string()))
    }

    /// The input columns.
    #[getter]
    fn columns(&self) -> Columns {
        self.inner.encoder().columns().map(|column| (column.name.clone(), column.levels.clone())).collect()
    }

    /// The number of encoded inputs, without the bias.
    #[getter]
    fn width(&self) -> usize {
        self.inner.encoder().width()
    }

    /// θ, in place.
    #[getter]
    fn parameters<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArrayDyn<f64>>> {
        let parameters = this.get().inner.parameters();
        // SAFETY: the class is frozen, and its predictor is behind an `Arc` that is never written to.
        unsafe { array::view(parameters, &[parameters.len()], this.as_any()) }
    }

    /// λ, rows, objective, certified gap and its confidence.
    #[getter]
    fn training(&self) -> (f64, usize, f64, f64, f64) {
        let training = self.inner.training();
        (training.lambda, training.rows, training.objective, training.gap, training.confidence)
    }

    /// Whether probabilities and predictions are exact.
    #[getter]
    fn exact(&self) -> bool {
        self.inner.is_exact()
    }

    /// The structure of every row for a decision.
    fn predict<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        decision: &str,
        run: &Run,
    ) -> PyResult<Predicted<'py>> {
        let decision: Decision = decision_of(decision)?;
        let found = self.with_inputs(py, inputs, run, move |predictor, inputs, run| {
            predictor.predict(inputs, decision, run)
        })?;
        self.told(py, found, &[inputs.rows, self.inner.names().len()])
    }

    /// The number of structures found for every row, and the structures of all rows with their
    /// log-probabilities, best first.
    fn best<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        count: usize,
        run: &Run,
    ) -> PyResult<(Vec<usize>, Predicted<'py>)> {
        let found = self
            .with_inputs(py, inputs, run, move |predictor, inputs, run| predictor.best(inputs, count, run))?;
        let counts: Vec<usize> = found.iter().map(Vec::len).collect();
        let all: Vec<Prediction> = found.into_iter().flatten().collect();
        let shape = [all.len(), self.inner.names().len()];
        Ok((counts, self.told(py, all, &shape)?))
    }

    /// For Mallows: objective, certified gap and confidence of the Plackett–Luce fit of the centres.
    #[getter]
    fn centres(&self) -> Option<Centres> {
        let centres = self.inner.training().centres?;
        Some((centres.objective, centres.gap, centres.confidence))
    }

    /// For Mallows: the number of rows with partial rankings, which the fit of the spread leaves out.
    #[getter]
    fn left_out(&self) -> usize {
        self.inner.training().left_out
    }

    /// Probabilities of every row: n of labels or nodes, n × n of pairs of items or elements; and the guarantee of each
    /// row.
    fn marginals<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        run: &Run,
    ) -> PyResult<Probabilities<'py, PyArrayDyn<f64>>> {
        let found =
            self.with_inputs(py, inputs, run, |predictor, inputs, run| predictor.marginals(inputs, run))?;
        let (rows, n) = (inputs.rows, self.inner.names().len());
        let sets = matches!(self.inner.space(), Space::Labels | Space::Hierarchy);
        let shape = if sets { vec![rows, n] } else { vec![rows, n, n] };
        let guarantees = self.promises(found.iter().map(|row| &row.guarantee));
        let values = found.into_iter().flat_map(|row| row.value).collect();
        Ok((array::handed_over(py, values, &shape)?, guarantees))
    }

    /// ln p of the observed structure of every row, and the guarantee of each.
    fn log_probabilities<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        observed: Observed<'py>,
        run: &Run,
    ) -> PyResult<Probabilities<'py, PyArray1<f64>>> {
        let targets = targets_of(&observed)?;
        let found = self.with_inputs(py, inputs, run, move |predictor, inputs, run| {
            predictor.log_probabilities(inputs, &targets, run)
        })?;
        let guarantees = self.promises(found.iter().map(|row| &row.guarantee));
        Ok((PyArray1::from_vec(py, found.into_iter().map(|row| row.value).collect()), guarantees))
    }

    /// ln P of an event for every row, and the guarantee of each.
    fn event_log_probabilities<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        event: &str,
        run: &Run,
    ) -> PyResult<Probabilities<'py, PyArray1<f64>>> {
        let conditions = self.inner.event(event).map_err(Failure)?;
        let found = self.with_inputs(py, inputs, run, move |predictor, inputs, run| {
            predictor.event_log_probabilities(inputs, &conditions, run)
        })?;
        let guarantees = self.promises(found.iter().map(|row| &row.guarantee));
        Ok((PyArray1::from_vec(py, found.into_iter().map(|row| row.value).collect()), guarantees))
    }

    /// Exact samples: rows × count × n.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        inputs: &Inputs,
        count: usize,
        run: &Run,
    ) -> PyResult<Bound<'py, PyArrayDyn<u32>>> {
        let found = self.with_inputs(py, inputs, run, move |predictor, inputs, run| {
            predictor.sample(inputs, count, run)
        })?;
        let shape = [inputs.rows, count, self.inner.names().len()];
        array::handed_over(py, found.into_iter().flatten().flatten().collect(), &shape)
    }

    /// Measures and reliability as JSON, and the guarantees of the log-loss and of the marginals.
    fn evaluate(
        &self,
        py: Python<'_>,
        inputs: &Inputs,
        observed: Observed<'_>,
        decision: Option<&str>,
        run: &Run,
    ) -> PyResult<(String, Words, Words)> {
        let targets = targets_of(&observed)?;
        let decision = decision.map(decision_of).transpose()?;
        let found = self.with_inputs(py, inputs, run, move |predictor, inputs, run| {
            predict::evaluate(predictor, inputs, &targets, decision, run)
        })?;
        let text = serde_json::to_string(&found).map_err(|error| error::argument("y", error.to_string()))?;
        Ok((text, words(&found.log_loss), words(&found.marginals)))
    }
}

fn decision_of(name: &str) -> PyResult<Decision> {
    let known = "most-probable, hamming, f1 or kendall";
    serde_json::from_value(name.into())
        .map_err(|_| error::argument("decision", format!("expected {known}, found `{name}`")))
}
