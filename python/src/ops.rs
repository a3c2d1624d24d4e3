//! Differentiable operations: a value, and a tape that gives gradients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use numpy::{PyArray1, PyArrayDyn, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::catalogue::Settings;
use zhat::exact::ForwardBackward;
use zhat::sequence::{ChainGradient, RelaxedSamples};
use zhat::{Chain, Error, Forecasts, Query};

use crate::array::{Precision, handed_over};
use crate::error;
use crate::model::Model;
use crate::run::Run;
use crate::sequence::{Paths, chain_gradient, paths};

/// A gradient with respect to a model's parameters, by its precision.
enum Gradient {
    Single(ChainGradient<f32>),
    Double(ChainGradient<f64>),
}

impl From<ChainGradient<f32>> for Gradient {
    fn from(gradient: ChainGradient<f32>) -> Self {
        Gradient::Single(gradient)
    }
}

impl From<ChainGradient<f64>> for Gradient {
    fn from(gradient: ChainGradient<f64>) -> Self {
        Gradient::Double(gradient)
    }
}

impl Gradient {
    fn dict<'py>(self, py: Python<'py>, model: &zhat::Model) -> PyResult<Bound<'py, PyDict>> {
        match self {
            Gradient::Single(gradient) => chain_gradient(py, model, gradient),
            Gradient::Double(gradient) => chain_gradient(py, model, gradient),
        }
    }
}

/// What weighs the values: a number for each sequence, or an array in the precision of the model.
enum Cotangent {
    Single(Vec<f32>),
    Double(Vec<f64>),
}

impl Cotangent {
    /// Numbers for sequences, which are always doubles.
    fn numbers(&self) -> zhat::Result<&[f64]> {
        match self {
            Cotangent::Double(numbers) => Ok(numbers),
            Cotangent::Single(_) => Err(Error::argument("cotangent", "expected an array of f64")),
        }
    }
}

/// From a cotangent to the gradient with respect to each model.
type Backward = dyn Fn(&Cotangent) -> zhat::Result<Vec<Gradient>> + Send + Sync;

/// What an operation leaves for its gradient.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Tape {
    models: Vec<Arc<zhat::Model>>,
    backward: Arc<Backward>,
    run: Py<Run>,
    /// Raised to stop: the tape works in the run that it was made in.
    cancel: Arc<AtomicBool>,
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

/// An operation on one or two chains: its value for each sequence, and its tape. `settings` is a JSON object.
#[pyfunction]
pub fn forward<'py>(
    py: Python<'py>,
    operation: &str,
    models: Vec<Bound<'py, Model>>,
    settings: &str,
    run: &Bound<'py, Run>,
) -> PyResult<(Bound<'py, PyArray1<f64>>, Tape)> {
    let method = configured(settings)?;
    let models: Vec<Arc<zhat::Model>> = models.iter().map(|model| model.get().shared()).collect();
    let (cancel, operation, shared) = (Arc::<AtomicBool>::default(), operation.to_owned(), models.clone());
    let (values, backward) = run.get().supervise_with(py, cancel.clone(), move |run| {
        match (&*shared[0], shared.get(1).map(|model| &**model)) {
            (zhat::Model::Chain32(p), None) => record(&operation, p, None, method, run),
            (zhat::Model::Chain64(p), None) => record(&operation, p, None, method, run),
            (zhat::Model::Chain32(p), Some(zhat::Model::Chain32(q))) => {
                record(&operation, p, Some(q), method, run)
            }
            (zhat::Model::Chain64(p), Some(zhat::Model::Chain64(q))) => {
                record(&operation, p, Some(q), method, run)
            }
            (_, None) => Err(Error::argument("model", "differentiable operations are for chains")),
            _ => Err(Error::argument("models", "expected two chains of the same precision")),
        }
    })?;
    let tape = Tape { models, backward, run: run.clone().unbind(), cancel };
    Ok((PyArray1::from_vec(py, values), tape))
}

/// Relaxed samples of a chain: the hard paths of each sequence, the soft ones (B, count, T, N), and the tape of the soft ones.
#[pyfunction]
pub fn relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<(Paths<'py>, Bound<'py, PyAny>, Tape)> {
    let (cancel, shared) = (Arc::<AtomicBool>::default(), model.shared());
    let (samples, backward) = run.get().supervise_with(py, cancel.clone(), {
        let shared = shared.clone();
        move |run| match &*shared {
            zhat::Model::Chain32(chain) => {
                let (samples, tape) =
                    ForwardBackward::default().relaxed_samples_with_tape(chain, count, temperature, run)?;
                let backward = move |cotangent: &Cotangent| match cotangent {
                    Cotangent::Single(numbers) => Ok(vec![tape.vjp(numbers)?.into()]),
                    Cotangent::Double(_) => Err(Error::argument("cotangent", "expected an array of f32")),
                };
                Ok((Relaxed::Single(samples), Arc::new(backward) as Arc<Backward>))
            }
            zhat::Model::Chain64(chain) => {
                let (samples, tape) =
                    ForwardBackward::default().relaxed_samples_with_tape(chain, count, temperature, run)?;
                let backward = move |c: &Cotangent| Ok(vec![tape.vjp(c.numbers()?)?.into()]);
                Ok((Relaxed::Double(samples), Arc::new(backward) as Arc<Backward>))
            }
            other => {
                let message = format!("expected a chain, found a {}", other.kind().name());
                Err(Error::argument("model", message))
            }
        }
    })?;
    let (hard, soft) = match samples {
        Relaxed::Single(RelaxedSamples { shape, hard, soft }) => {
            (hard, handed_over(py, soft, &shape)?.into_any())
        }
        Relaxed::Double(RelaxedSamples { shape, hard, soft }) => {
            (hard, handed_over(py, soft, &shape)?.into_any())
        }
    };
    let hard = paths(py, model.inner(), &hard)?;
    Ok((hard, soft, Tape { models: vec![shared], backward, run: run.clone().unbind(), cancel }))
}

/// Relaxed samples by their precision.
enum Relaxed {
    Single(RelaxedSamples<f32>),
    Double(RelaxedSamples<f64>),
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
    let (method, shared) = (configured(settings)?, model.shared());
    let (values, gradient) = run.supervise(py, move |run| match &*shared {
        zhat::Model::Chain32(chain) => both(chain, &cotangent, method, run),
        zhat::Model::Chain64(chain) => both(chain, &cotangent, method, run),
        other => {
            let message = format!("expected a chain, found a {}", other.kind().name());
            Err(Error::argument("model", message))
        }
    })?;
    Ok((PyArray1::from_vec(py, values), gradient.dict(py, model.inner())?))
}

fn both<F: Precision>(
    chain: &Chain<F>,
    cotangent: &[f64],
    method: ForwardBackward,
    run: &zhat::Run,
) -> zhat::Result<(Vec<f64>, Gradient)>
where
    Gradient: From<ChainGradient<F>>,
{
    let forecast = method.forecast(chain, Query::FactorMarginals, run);
    run.require_memory("forward-backward", forecast.bytes)?;
    let (values, gradient) = method.log_partition_and_gradient(chain, cotangent, run)?;
    Ok((values, gradient.into()))
}

fn record<F: Precision>(
    operation: &str,
    p: &Chain<F>,
    q: Option<&Chain<F>>,
    method: ForwardBackward,
    run: &zhat::Run,
) -> zhat::Result<(Vec<f64>, Arc<Backward>)>
where
    Gradient: From<ChainGradient<F>>,
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

fn configured(settings: &str) -> PyResult<ForwardBackward> {
    let read = || -> serde_json::Result<ForwardBackward> {
        serde_json::from_value(serde_json::Value::Object(serde_json::from_str::<Settings>(settings)?))
    };
    read().map_err(|error| error::argument("options", error.to_string()))
}
