//! Differentiable operations: a value and a tape for its gradient.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::catalogue::{self, Settings};
use zhat::dynamic::RandomizedForward;
use zhat::query::{Operation, Tensors};
use zhat::{Chain, Error};

use crate::answer::arrays;
use crate::array;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::run::Run;

/// The weights of the values: one number per sequence, or an array in the precision of the model.
pub enum Cotangent {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Cotangent {
    /// One number per sequence, always a double.
    pub fn numbers(&self) -> zhat::Result<&[f64]> {
        match self {
            Cotangent::Double(numbers) => Ok(numbers),
            Cotangent::Single(_) => Err(Error::argument("cotangent", "expected an array of f64")),
        }
    }
}

/// Maps a cotangent to the gradient with respect to each model.
pub type Backward = dyn Fn(&Cotangent) -> zhat::Result<Vec<Tensors>> + Send + Sync;

/// Data recorded by an operation for its gradient.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Tape {
    backward: Arc<Backward>,
    run: Py<Run>,
    /// Cancels the work when set; the tape shares the run of the forward pass.
    cancel: Arc<AtomicBool>,
    /// Whether the gradient takes so little time that it runs in the calling thread.
    brief: bool,
}

impl Tape {
    pub fn new(backward: Arc<Backward>, run: &Bound<'_, Run>, cancel: Arc<AtomicBool>) -> Self {
        Tape { backward, run: run.clone().unbind(), cancel, brief: false }
    }
}

#[pymethods]
impl Tape {
    /// The gradients of Σ cotangent · value, one dict of arrays per model. The cotangent is a C-contiguous
    /// array.
    fn vjp<'py>(&self, py: Python<'py>, cotangent: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let cotangent = match cotangent.cast::<PyArrayDyn<f32>>() {
            Ok(array) => Cotangent::Single(array.readonly().as_slice()?.to_vec()),
            Err(_) => Cotangent::Double(cotangent.cast::<PyArrayDyn<f64>>()?.readonly().as_slice()?.to_vec()),
        };
        let backward = self.backward.clone();
        self.cancel.store(false, Ordering::Relaxed);
        let gradients = self
            .run
            .get()
            .supervise_brief(py, self.brief, self.cancel.clone(), move |_| backward(&cotangent))?;
        gradients.into_iter().map(|gradient| arrays(py, gradient)).collect()
    }
}

/// The randomized method with these options, a JSON object, and the scores of the proposal `given`.
pub fn randomized(settings: &str, scores: Option<&Bound<'_, PyAny>>) -> PyResult<RandomizedForward> {
    let mut method: RandomizedForward = configured("randomized", settings)?;
    if let Some(scores) = scores {
        let array = scores.cast::<PyArrayDyn<f64>>()?;
        method.scores = Some(array::in_place("scores", array)?);
    }
    Ok(method)
}

/// An operation on one or two models: its value for each item and its tape. `settings` is a JSON object,
/// `scores` are those of the proposal `given`.
#[pyfunction]
pub fn forward<'py>(
    py: Python<'py>,
    operation: &str,
    models: Vec<Bound<'py, Model>>,
    method: (&str, &str),
    scores: Option<&Bound<'py, PyAny>>,
    run: &Bound<'py, Run>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Tape)> {
    let (operation, settings) = (operation_of(operation)?, settings_of(method.1)?);
    let mut given = Vec::new();
    if let Some(scores) = scores {
        given.push(("scores".to_owned(), array::in_place("scores", scores.cast::<PyArrayDyn<f64>>()?)?));
    }
    let models: Vec<zhat::Model> = models.iter().map(|model| model.get().inner().clone()).collect();
    let (cancel, method) = (Arc::<AtomicBool>::default(), method.0.to_owned());
    let brief = method == "exact" && is_brief(&models);
    let (values, tape) = run.get().supervise_brief(py, brief, cancel.clone(), move |run| {
        catalogue::differentiate(operation, &models, &method, &settings, &given, run)
    })?;
    let backward: Arc<Backward> = Arc::new(move |cotangent| tape.vjp(cotangent.numbers()?));
    Ok((PyArray1::from_vec(py, values), Tape { brief, ..Tape::new(backward, run, cancel) }))
}

/// log Z of each item and the gradient of Σ_b cotangent_b · log Z_b, both from one pass.
#[pyfunction]
pub fn log_partition_and_gradient<'py>(
    py: Python<'py>,
    model: &Model,
    cotangent: Vec<f64>,
    settings: &str,
    run: &Run,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyDict>)> {
    let (models, settings) = ([model.inner().clone()], settings_of(settings)?);
    let (values, gradients) = run.supervise_brief(py, is_brief(&models), Arc::default(), move |run| {
        let how = ("exact", &settings);
        catalogue::value_and_gradients(Operation::LogPartition, &models, &cotangent, how, run)
    })?;
    let gradient = gradients.into_iter().next().ok_or_else(|| error::argument("model", "has no gradient"))?;
    Ok((PyArray1::from_vec(py, values), arrays(py, gradient)?))
}

/// Additions and multiplications of one pass that take about a millisecond.
const BRIEF: usize = 1 << 22;

/// Whether exact passes over these models take so little time that they run in the calling thread.
fn is_brief(models: &[zhat::Model]) -> bool {
    fn products<F: zhat::Real>(chain: &Chain<F>) -> usize {
        let positions: usize = chain.lengths().iter().sum();
        positions.saturating_mul(chain.states()).saturating_mul(chain.states())
    }
    let of = |model: &zhat::Model| {
        let single = model.get::<Chain<f32>>().map(products);
        single.or_else(|| model.get::<Chain<f64>>().map(products))
    };
    models
        .iter()
        .map(of)
        .try_fold(0usize, |sum, own| Some(sum.saturating_add(own?)))
        .is_some_and(|sum| sum <= BRIEF)
}

fn operation_of(name: &str) -> PyResult<Operation> {
    let known = Operation::ALL.into_iter().find(|operation| operation.name() == name);
    known.ok_or_else(|| error::argument("operation", format!("there is no operation `{name}`")))
}

fn settings_of(settings: &str) -> PyResult<Settings> {
    serde_json::from_str(settings).map_err(|error| error::argument("options", error.to_string()))
}

pub fn configured<T: zhat::options::Options>(method: &str, settings: &str) -> PyResult<T> {
    Ok(zhat::options::read(method, &settings_of(settings)?).map_err(Failure)?)
}
