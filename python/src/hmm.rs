//! Hidden Markov models: training on arrays, likelihoods, posteriors, best states, samples and files.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use numpy::{PyArray1, PyArrayDyn, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zhat::internal::io::write_atomically;
use zhat::learn::hmm::file::{parse_hmm, read_hmm, read_hmm_checkpoint, write_hmm, write_hmm_checkpoint};
use zhat::learn::hmm::{
    self, Categorical, Covariance, Emissions, Family, Gaussian, Layout, Learning, Mixture, Poisson, Sequences,
};
use zhat::model::AnyModel;

use crate::array;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::run::Run;

/// Two arrays.
type Pair<'py, A, B> = (Bound<'py, A>, Bound<'py, B>);

/// Name, shape and numbers.
type Named<'py> = (String, Bound<'py, PyArrayDyn<f64>>);
/// The model, its steps (start, step, objective), the objective, the log-likelihood, the number of steps, and whether
/// it converged.
type Trained = (Hmm, Vec<(usize, usize, f64)>, f64, f64, usize, bool);

fn from_json<T: serde::de::DeserializeOwned>(name: &str, text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| error::argument(name, error.to_string()))
}

fn sequences(values: &PyReadonlyArray2<'_, f64>, lengths: &[usize]) -> PyResult<Sequences> {
    let columns = values.as_array().dim().1;
    Ok(Sequences::new(columns, values.as_slice()?.to_vec(), lengths).map_err(Failure)?)
}

/// A hidden Markov model.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Hmm {
    inner: Arc<hmm::Hmm>,
}

impl Hmm {
    fn of(inner: hmm::Hmm) -> Self {
        Hmm { inner: Arc::new(inner) }
    }
}

/// Trains a model; `family` and `how` are JSON, `labels` are known states, `layout` the names of columns, and
/// `checkpoint` is a file and the seconds between writes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_hmm(
    py: Python<'_>,
    values: PyReadonlyArray2<'_, f64>,
    lengths: Vec<usize>,
    states: usize,
    family: &str,
    how: &str,
    layout: &str,
    given: Option<&Hmm>,
    labels: Option<Vec<usize>>,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<Trained> {
    let data = sequences(&values, &lengths)?;
    let family: Family = from_json("emissions", family)?;
    let how: Learning = from_json("hmm", how)?;
    let layout: Layout = from_json("layout", layout)?;
    let given = given.map(|given| given.inner.clone());
    run.supervise(py, move |run| {
        let mut steps = Vec::new();
        let trained = if let Some(labels) = labels {
            hmm::train_supervised(&data, &labels, states, family, &how, given.as_deref(), run)?
        } else {
            let kept = checkpoint.as_ref().map(|(path, every)| (path.as_path(), *every));
            let from =
                kept.map(|kept| kept.0).filter(|path| path.exists()).map(read_hmm_checkpoint).transpose()?;
            let (mut last, mut newest) = (Instant::now(), None);
            let trained = hmm::train(&data, states, family, &how, given.as_deref(), from, run, &mut |now| {
                let progress = now.progress();
                steps.push((progress.start, progress.step, progress.objective));
                if let Some((path, every)) = kept {
                    if last.elapsed().as_secs_f64() >= every {
                        write_hmm_checkpoint(now, path)?;
                        last = Instant::now();
                    }
                    newest = Some(now.clone());
                }
                Ok(true)
            })?;
            if let (Some((path, _)), Some(now)) = (kept, &newest) {
                write_hmm_checkpoint(now, path)?;
            }
            trained
        };
        let model = trained.model.with_layout(layout)?;
        Ok((
            Hmm::of(model),
            steps,
            trained.objective,
            trained.log_likelihood,
            trained.steps,
            trained.converged,
        ))
    })
}

/// The memory of training in bytes, and seconds per step.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn forecast_hmm(
    py: Python<'_>,
    values: PyReadonlyArray2<'_, f64>,
    lengths: Vec<usize>,
    states: usize,
    family: &str,
    how: &str,
    given: Option<&Hmm>,
    run: &Run,
) -> PyResult<(f64, f64)> {
    let data = sequences(&values, &lengths)?;
    let family: Family = from_json("emissions", family)?;
    let how: Learning = from_json("hmm", how)?;
    let given = given.map(|given| given.inner.clone());
    run.supervise(py, move |run| {
        let found = hmm::forecast_training(&data, states, family, &how, given.as_deref(), run)?;
        Ok((found.bytes, found.step_seconds))
    })
}

/// Compares numbers of states: states, parameters, log-likelihood, AIC, BIC and cross-validated log-likelihood per
/// row.
#[pyfunction]
#[expect(clippy::type_complexity, reason = "a table")]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn compare_hmm_states(
    py: Python<'_>,
    values: PyReadonlyArray2<'_, f64>,
    lengths: Vec<usize>,
    states: Vec<usize>,
    family: &str,
    how: &str,
    folds: usize,
    run: &Run,
) -> PyResult<Vec<(usize, usize, f64, f64, f64, Option<f64>)>> {
    let data = sequences(&values, &lengths)?;
    let family: Family = from_json("emissions", family)?;
    let how: Learning = from_json("hmm", how)?;
    run.supervise(py, move |run| {
        let table = hmm::compare_states(&data, &states, family, &how, folds, run, &mut |_| Ok(true))?;
        let row = |one: &hmm::Candidate| {
            (one.states, one.parameters, one.log_likelihood, one.aic, one.bic, one.cross_validated)
        };
        Ok(table.iter().map(row).collect())
    })
}

/// A model from its parameters; unused ones are empty.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn hmm_of(
    start: PyReadonlyArray1<'_, f64>,
    transitions: PyReadonlyArray1<'_, f64>,
    emissions: &str,
    covariance: &str,
    probabilities: PyReadonlyArray1<'_, f64>,
    means: PyReadonlyArray1<'_, f64>,
    covariances: PyReadonlyArray1<'_, f64>,
    weights: PyReadonlyArray1<'_, f64>,
    durations: PyReadonlyArray1<'_, f64>,
    ties: Vec<usize>,
) -> PyResult<Hmm> {
    let start = start.as_slice()?.to_vec();
    let states = start.len();
    let vector = |array: &PyReadonlyArray1<'_, f64>| -> PyResult<Vec<f64>> { Ok(array.as_slice()?.to_vec()) };
    let form: Covariance = serde_json::from_value(covariance.into())
        .map_err(|_| error::argument("covariance", format!("unknown form `{covariance}`")))?;
    let normals = |count: usize| -> PyResult<Gaussian> {
        Ok(Gaussian::new(count, form, vector(&means)?, vector(&covariances)?).map_err(Failure)?)
    };
    let emissions = match emissions {
        "categorical" => {
            Emissions::Categorical(Categorical::new(states, vector(&probabilities)?).map_err(Failure)?)
        }
        "poisson" => Emissions::Poisson(Poisson::new(states, vector(&means)?).map_err(Failure)?),
        "mixture" => {
            let weights = vector(&weights)?;
            let count = weights.len();
            Emissions::Mixture(Mixture::new(states, weights, normals(count)?).map_err(Failure)?)
        }
        _ => Emissions::Gaussian(normals(states)?),
    };
    let mut made = hmm::Hmm::new(start, vector(&transitions)?, emissions).map_err(Failure)?;
    made = made.with_ties(&ties).map_err(Failure)?;
    let durations = vector(&durations)?;
    if !durations.is_empty() {
        let durations = hmm::Durations::free(states, durations).map_err(Failure)?;
        made = made.with_durations(durations).map_err(Failure)?;
    }
    Ok(Hmm::of(made))
}

#[pymethods]
impl Hmm {
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(Hmm::of(py.detach(|| read_hmm(&path)).map_err(Failure)?))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(Hmm::of(parse_hmm(data, "").map_err(Failure)?))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        write_hmm(&self.inner, &mut bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || write_atomically(&path, |out| write_hmm(&self.inner, out));
        Ok(py.detach(write).map_err(Failure)?)
    }

    #[getter]
    fn states(&self) -> usize {
        self.inner.states()
    }

    #[getter]
    fn columns(&self) -> usize {
        self.inner.columns()
    }

    /// The family of emissions as JSON.
    #[getter]
    fn family(&self) -> PyResult<String> {
        serde_json::to_string(&self.inner.family())
            .map_err(|error| error::argument("emissions", error.to_string()))
    }

    /// The names of columns, symbols and states as JSON.
    #[getter]
    fn layout(&self) -> PyResult<String> {
        serde_json::to_string(self.inner.layout())
            .map_err(|error| error::argument("layout", error.to_string()))
    }

    /// The number of free parameters.
    #[getter]
    fn parameter_count(&self) -> usize {
        self.inner.parameters()
    }

    /// The parameters by name, as copies.
    fn parameters<'py>(&self, py: Python<'py>) -> PyResult<Vec<Named<'py>>> {
        let mut found = Vec::new();
        for tensor in self.inner.tensors() {
            let array = array::handed_over(py, tensor.to_f64(), tensor.shape())?;
            found.push((tensor.name().to_owned(), array));
        }
        Ok(found)
    }

    /// The groups of states that share their emissions; empty if none do.
    #[getter]
    fn ties(&self) -> Vec<usize> {
        self.inner.ties().to_vec()
    }

    /// The form of the durations and the longest one; `None` for those of a Markov chain.
    #[getter]
    fn durations(&self) -> Option<(&'static str, usize)> {
        self.inner.durations().map(|own| (own.form().name(), own.longest()))
    }

    /// The states that no sequence can reach.
    fn unreachable(&self) -> Vec<usize> {
        self.inner.unreachable()
    }

    fn log_likelihoods<'py>(
        &self,
        py: Python<'py>,
        values: PyReadonlyArray2<'py, f64>,
        lengths: Vec<usize>,
        run: &Run,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let (data, model) = (sequences(&values, &lengths)?, self.inner.clone());
        let logs = run.supervise(py, move |run| model.log_likelihoods(&data, run))?;
        Ok(PyArray1::from_vec(py, logs))
    }

    fn posteriors<'py>(
        &self,
        py: Python<'py>,
        values: PyReadonlyArray2<'py, f64>,
        lengths: Vec<usize>,
        run: &Run,
    ) -> PyResult<Pair<'py, PyArrayDyn<f64>, PyArray1<f64>>> {
        let (data, model) = (sequences(&values, &lengths)?, self.inner.clone());
        let rows = data.rows();
        let (found, logs) = run.supervise(py, move |run| model.posteriors(&data, run))?;
        Ok((array::handed_over(py, found, &[rows, self.inner.states()])?, PyArray1::from_vec(py, logs)))
    }

    fn decode<'py>(
        &self,
        py: Python<'py>,
        values: PyReadonlyArray2<'py, f64>,
        lengths: Vec<usize>,
        run: &Run,
    ) -> PyResult<Pair<'py, PyArray1<i64>, PyArray1<f64>>> {
        let (data, model) = (sequences(&values, &lengths)?, self.inner.clone());
        let (states, scores) = run.supervise(py, move |run| model.decode(&data, run))?;
        let states = states.into_iter().map(|state| state as i64).collect();
        Ok((PyArray1::from_vec(py, states), PyArray1::from_vec(py, scores)))
    }

    fn sample<'py>(
        &self,
        py: Python<'py>,
        lengths: Vec<usize>,
        run: &Run,
    ) -> PyResult<Pair<'py, PyArrayDyn<f64>, PyArray1<i64>>> {
        let (model, columns) = (self.inner.clone(), self.inner.columns());
        let (data, states) = run.supervise(py, move |run| model.sample(&lengths, run))?;
        let states = states.into_iter().map(|state| state as i64).collect();
        let values = array::handed_over(py, data.values().to_vec(), &[data.rows(), columns])?;
        Ok((values, PyArray1::from_vec(py, states)))
    }

    /// The chain of the states given observations, or the semi-Markov chain of a model with durations.
    fn chain(
        &self,
        py: Python<'_>,
        values: PyReadonlyArray2<'_, f64>,
        lengths: Vec<usize>,
        run: &Run,
    ) -> PyResult<Model> {
        let (data, model) = (sequences(&values, &lengths)?, self.inner.clone());
        let made = run.supervise(py, move |run| {
            Ok(match model.durations() {
                Some(_) => zhat::Model::from(model.segments(&data, run)?),
                None => model.chain(&data, run)?.into(),
            })
        })?;
        Ok(Model::of(made))
    }
}
