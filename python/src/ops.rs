//! Differentiable operations: a value, and a tape that gives gradients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::catalogue::Settings;
use zhat::exact::{ForwardBackward, Recorded};
use zhat::randomized::RandomizedForward;
use zhat::sequence::{ChainGradient, SemiMarkovGradient};
use zhat::{Error, Forecasts, Query};

use crate::array;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::run::Run;
use crate::sequence_answer::{chain_gradient, semi_markov_gradient};

/// A gradient with respect to a model's parameters, by its kind and precision.
pub enum Gradient {
    Chain32(ChainGradient<f32>),
    Chain64(ChainGradient<f64>),
    SemiMarkov32(SemiMarkovGradient<f32>),
    SemiMarkov64(SemiMarkovGradient<f64>),
}

macro_rules! gradients {
    ($($variant:ident: $gradient:ty),*) => {
        $(impl From<$gradient> for Gradient {
            fn from(gradient: $gradient) -> Self {
                Gradient::$variant(gradient)
            }
        })*
    };
}

gradients!(
    Chain32: ChainGradient<f32>,
    Chain64: ChainGradient<f64>,
    SemiMarkov32: SemiMarkovGradient<f32>,
    SemiMarkov64: SemiMarkovGradient<f64>
);

impl Gradient {
    fn dict<'py>(self, py: Python<'py>, model: &zhat::Model) -> PyResult<Bound<'py, PyDict>> {
        match self {
            Gradient::Chain32(gradient) => chain_gradient(py, model, gradient),
            Gradient::Chain64(gradient) => chain_gradient(py, model, gradient),
            Gradient::SemiMarkov32(gradient) => semi_markov_gradient(py, model, gradient),
            Gradient::SemiMarkov64(gradient) => semi_markov_gradient(py, model, gradient),
        }
    }
}

/// What weighs the values: a number for each sequence, or an array in the precision of the model.
pub enum Cotangent {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Cotangent {
    /// Numbers for sequences, which are always doubles.
    pub fn numbers(&self) -> zhat::Result<&[f64]> {
        match self {
            Cotangent::Double(numbers) => Ok(numbers),
            Cotangent::Single(_) => Err(Error::argument("cotangent", "expected an array of f64")),
        }
    }
}

/// From a cotangent to the gradient with respect to each model.
pub type Backward = dyn Fn(&Cotangent) -> zhat::Result<Vec<Gradient>> + Send + Sync;

/// What an operation leaves for its gradient.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Tape {
    models: Vec<Arc<zhat::Model>>,
    backward: Arc<Backward>,
    run: Py<Run>,
    /// Raised to stop: the tape works in the run that it was made in.
    cancel: Arc<AtomicBool>,
}

impl Tape {
    pub fn new(
        model: Arc<zhat::Model>,
        backward: Arc<Backward>,
        run: &Bound<'_, Run>,
        cancel: Arc<AtomicBool>,
    ) -> Self {
        Tape { models: vec![model], backward, run: run.clone().unbind(), cancel }
    }
}

#[pymethods]
impl Tape {
    /// The gradients of Σ cotangent · value: a dict of arrays for each model. The cotangent is a C-contiguous array.
    fn vjp<'py>(&self, py: Python<'py>, cotangent: &Bound<'py, PyAny>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let cotangent = match cotangent.cast::<PyArrayDyn<f32>>() {
            Ok(array) => Cotangent::Single(array.readonly().as_slice()?.to_vec()),
            Err(_) => Cotangent::Double(cotangent.cast::<PyArrayDyn<f64>>()?.readonly().as_slice()?.to_vec()),
        };
        let backward = self.backward.clone();
        self.cancel.store(false, Ordering::Relaxed);
        let gradients =
            self.run.get().supervise_with(py, self.cancel.clone(), move |_| backward(&cotangent))?;
        let dicts = gradients.into_iter().zip(&self.models);
        dicts.map(|(gradient, model)| gradient.dict(py, model)).collect()
    }
}

/// The methods whose operations can be differentiated.
enum Method {
    Exact(ForwardBackward),
    Randomized(RandomizedForward),
}

impl Method {
    /// By name and options, a JSON object; `scores` are those of the proposal `given`.
    fn new(name: &str, settings: &str, scores: Option<&Bound<'_, PyAny>>) -> PyResult<Self> {
        if scores.is_some() && name != "randomized" {
            return Err(error::argument("scores", "are for the method randomized"));
        }
        match name {
            "auto" | "exact" | "forward-backward" => {
                Ok(Method::Exact(configured("forward-backward", settings)?))
            }
            "randomized" => Ok(Method::Randomized(randomized(settings, scores)?)),
            _ => {
                let message = format!("`{name}` has no gradients; forward-backward and randomized have");
                Err(error::argument("method", message))
            }
        }
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

/// As `record`; a macro, for what the method needs of a model is its own affair and has no public name.
macro_rules! record_randomized {
    ($operation:expr, $model:expr, $method:expr, $run:expr) => {{
        let forecast = $method.forecast($model, Query::FactorMarginals, $run);
        $run.require_memory("randomized", forecast.bytes)?;
        match $operation {
            "log_partition" => {
                let (values, tape) = $method.log_partition_with_tape($model, $run)?;
                let backward = move |c: &Cotangent| Ok(vec![tape.vjp(c.numbers()?)?.into()]);
                Ok((values, Arc::new(backward) as Arc<Backward>))
            }
            "entropy" => {
                let (values, tape) = $method.entropy_with_tape($model, $run)?;
                let backward = move |c: &Cotangent| Ok(vec![tape.vjp(c.numbers()?)?.into()]);
                Ok((values, Arc::new(backward) as Arc<Backward>))
            }
            other => Err(Error::argument("operation", format!("there is no `{other}` of this model"))),
        }
    }};
}
/// An operation on one or two chains: its value for each sequence, and its tape. `settings` is a JSON object.
#[pyfunction]
pub fn forward<'py>(
    py: Python<'py>,
    operation: &str,
    models: Vec<Bound<'py, Model>>,
    method: (&str, &str),
    scores: Option<&Bound<'py, PyAny>>,
    run: &Bound<'py, Run>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Tape)> {
    let method = Method::new(method.0, method.1, scores)?;
    let models: Vec<Arc<zhat::Model>> = models.iter().map(|model| model.get().shared()).collect();
    let (cancel, operation, shared) = (Arc::<AtomicBool>::default(), operation.to_owned(), models.clone());
    let (values, backward) = run.get().supervise_with(py, cancel.clone(), move |run| {
        use zhat::Model::{Chain32, Chain64, SemiMarkov32, SemiMarkov64};
        let name = operation.as_str();
        match (&*shared[0], shared.get(1).map(|model| &**model), &method) {
            (Chain32(p), None, Method::Randomized(method)) => record_randomized!(name, p, method, run),
            (Chain64(p), None, Method::Randomized(method)) => record_randomized!(name, p, method, run),
            (SemiMarkov32(p), None, Method::Randomized(method)) => record_randomized!(name, p, method, run),
            (SemiMarkov64(p), None, Method::Randomized(method)) => record_randomized!(name, p, method, run),
            (_, _, Method::Randomized(_)) => {
                let message = format!("`randomized` has no gradient of {name} here; forward-backward has");
                Err(Error::argument("method", message))
            }
            (Chain32(p), None, Method::Exact(method)) => record(name, p, None, method, run),
            (Chain64(p), None, Method::Exact(method)) => record(name, p, None, method, run),
            (SemiMarkov32(p), None, Method::Exact(method)) => record(name, p, None, method, run),
            (SemiMarkov64(p), None, Method::Exact(method)) => record(name, p, None, method, run),
            (Chain32(p), Some(Chain32(q)), Method::Exact(method)) => record(name, p, Some(q), method, run),
            (Chain64(p), Some(Chain64(q)), Method::Exact(method)) => record(name, p, Some(q), method, run),
            (SemiMarkov32(p), Some(SemiMarkov32(q)), Method::Exact(method)) => {
                record(name, p, Some(q), method, run)
            }
            (SemiMarkov64(p), Some(SemiMarkov64(q)), Method::Exact(method)) => {
                record(name, p, Some(q), method, run)
            }
            (_, None, _) => Err(Error::argument("model", "differentiable operations are for sequences")),
            _ => Err(Error::argument("models", "expected two of the same kind and the same precision")),
        }
    })?;
    let tape = Tape { models, backward, run: run.clone().unbind(), cancel };
    Ok((PyArray1::from_vec(py, values), tape))
}

/// log Z of each sequence and the gradient of Σ_b cotangent_b · log Z_b, both from one pass.
#[pyfunction]
pub fn log_partition_and_gradient<'py>(
    py: Python<'py>,
    model: &Model,
    cotangent: Vec<f64>,
    settings: &str,
    run: &Run,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Bound<'py, PyDict>)> {
    let (method, shared) = (configured("forward-backward", settings)?, model.shared());
    let (values, gradient) = run.supervise(py, move |run| match &*shared {
        zhat::Model::Chain32(model) => both(model, &cotangent, method, run),
        zhat::Model::Chain64(model) => both(model, &cotangent, method, run),
        zhat::Model::SemiMarkov32(model) => both(model, &cotangent, method, run),
        zhat::Model::SemiMarkov64(model) => both(model, &cotangent, method, run),
        other => {
            let message = format!("expected a chain, found a {}", other.kind().name());
            Err(Error::argument("model", message))
        }
    })?;
    Ok((PyArray1::from_vec(py, values), gradient.dict(py, model.inner())?))
}

fn both<M: Recorded>(
    model: &M,
    cotangent: &[f64],
    method: ForwardBackward,
    run: &zhat::Run,
) -> zhat::Result<(Vec<f64>, Gradient)>
where
    ForwardBackward: Forecasts<M>,
    M::FactorMarginals: Into<Gradient> + Send,
{
    let forecast = method.forecast(model, Query::FactorMarginals, run);
    run.require_memory("forward-backward", forecast.bytes)?;
    let (values, gradient) = method.log_partition_and_gradient(model, cotangent, run)?;
    Ok((values, gradient.into()))
}

fn record<M: Recorded + 'static>(
    operation: &str,
    p: &M,
    q: Option<&M>,
    method: &ForwardBackward,
    run: &zhat::Run,
) -> zhat::Result<(Vec<f64>, Arc<Backward>)>
where
    ForwardBackward: Forecasts<M>,
    M::FactorMarginals: Into<Gradient> + Send,
{
    let forecast = method.forecast(p, Query::FactorMarginals, run);
    run.require_memory("forward-backward", forecast.bytes)?;
    match (operation, q) {
        ("log_partition", None) => {
            let (values, tape) = method.log_partition_with_tape(p, run)?;
            let backward = move |c: &Cotangent| Ok(vec![tape.vjp(c.numbers()?)?.into()]);
            Ok((values, Arc::new(backward)))
        }
        ("entropy", None) => {
            let (values, tape) = method.entropy_with_tape(p, run)?;
            let backward = move |c: &Cotangent| Ok(vec![tape.vjp(c.numbers()?)?.into()]);
            Ok((values, Arc::new(backward)))
        }
        ("cross_entropy" | "kl", Some(q)) => {
            let (values, tape) = match operation {
                "kl" => method.kl_with_tape(p, q, run)?,
                _ => method.cross_entropy_with_tape(p, q, run)?,
            };
            let backward = move |cotangent: &Cotangent| {
                let (p, q) = tape.vjp(cotangent.numbers()?)?;
                Ok(vec![p.into(), q.into()])
            };
            Ok((values, Arc::new(backward)))
        }
        _ => Err(Error::argument("operation", format!("there is no `{operation}` of these models"))),
    }
}

pub fn configured<T: zhat::options::Options>(method: &str, settings: &str) -> PyResult<T> {
    let settings: Settings =
        serde_json::from_str(settings).map_err(|error| error::argument("options", error.to_string()))?;
    Ok(zhat::options::read(method, &settings).map_err(Failure)?)
}
