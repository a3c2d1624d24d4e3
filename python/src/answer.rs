//! Converts answers of all shapes to Python objects.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::query::{AnyAnswer, AnyValue, Draws, Law, Tensors};
use zhat::tensor::{Data, Tensor};
use zhat::{BestState, Error, Forecast, Guarantee};

use crate::array::handed_over;
use crate::error::Failure;
use crate::run::Step;

/// The forecast of a query; a dict in Python.
#[derive(IntoPyObject)]
pub struct Cost {
    bytes: f64,
    seconds: f64,
    guarantee: &'static str,
}

impl From<Forecast> for Cost {
    fn from(forecast: Forecast) -> Self {
        Cost { bytes: forecast.bytes, seconds: forecast.seconds, guarantee: forecast.promise.name() }
    }
}

/// An answer; a dict in Python.
#[derive(IntoPyObject)]
pub struct Parts<'py> {
    /// Depending on its shape, a number, an array of numbers, a dict of arrays, lists of states or lists of
    /// samples.
    value: Bound<'py, PyAny>,
    /// The guarantee as JSON, and in words.
    guarantee: String,
    words: String,
    /// The same for each item of a batch, if they differ.
    each: Vec<(String, String)>,
    method: &'static str,
    /// The diagnostics as JSON.
    diagnostics: String,
    forecast: Cost,
    /// The bounds on log Z as they improved.
    trace: Vec<Step>,
}

impl<'py> Parts<'py> {
    pub fn new(
        py: Python<'py>,
        model: &zhat::Model,
        forecast: Forecast,
        answer: AnyAnswer,
        trace: Vec<Step>,
    ) -> PyResult<Self> {
        let AnyAnswer { value, guarantee, diagnostics } = answer;
        let pair = |own: &Guarantee| (own.to_json().to_string(), own.to_string());
        let each = if let Guarantee::Each(each) = &guarantee { each.as_slice() } else { &[] };
        Ok(Parts {
            guarantee: guarantee.to_json().to_string(),
            words: guarantee.to_string(),
            each: each.iter().map(pair).collect(),
            method: diagnostics.method,
            diagnostics: diagnostics.to_json().to_string(),
            forecast: forecast.into(),
            value: converted(py, model, value)?,
            trace,
        })
    }
}

fn converted<'py>(py: Python<'py>, model: &zhat::Model, value: AnyValue) -> PyResult<Bound<'py, PyAny>> {
    let columns = model.state_form().columns.len();
    let scored = |best: BestState| Ok((state(py, &best.state, columns)?, best.score));
    match value {
        AnyValue::Number(value) => Ok(value.into_pyobject(py)?.into_any()),
        AnyValue::Numbers(values) => Ok(PyArray1::from_vec(py, values).into_any()),
        AnyValue::Tensors(tensors) => Ok(arrays(py, tensors)?.into_any()),
        AnyValue::States(found) => {
            let states = found.into_iter().map(scored).collect::<PyResult<Vec<_>>>()?;
            Ok(states.into_pyobject(py)?.into_any())
        }
        AnyValue::Ranked(found) => {
            let list = |list: Vec<BestState>| list.into_iter().map(scored).collect::<PyResult<Vec<_>>>();
            Ok(found.into_iter().map(list).collect::<PyResult<Vec<_>>>()?.into_pyobject(py)?.into_any())
        }
        AnyValue::Samples(items) => {
            let length = |b: usize| model.batch().map_or(model.state_size(), |batch| batch.lengths[b]);
            let each = items.iter().enumerate();
            let items = each
                .map(|(b, draws)| samples(py, draws, columns, length(b)))
                .collect::<PyResult<Vec<_>>>()?;
            Ok(items.into_pyobject(py)?.into_any())
        }
        _ => Err(unknown()),
    }
}

/// A dict of arrays by name; the rows of a ragged tensor are concatenated to one flat array.
pub fn arrays(py: Python<'_>, tensors: Tensors) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for tensor in tensors.list {
        let name = tensor.name().to_owned();
        dict.set_item(name, array(py, tensor)?)?;
    }
    Ok(dict)
}

fn array<'py>(py: Python<'py>, tensor: Tensor<'static>) -> PyResult<Bound<'py, PyAny>> {
    let shape = match tensor.ends() {
        Some(_) => vec![tensor.data().len()],
        None => tensor.shape().to_vec(),
    };
    fn joined<T: Clone>(pieces: Vec<std::borrow::Cow<'static, [T]>>) -> Vec<T> {
        let mut pieces = pieces.into_iter();
        let mut all = pieces.next().map(std::borrow::Cow::into_owned).unwrap_or_default();
        pieces.for_each(|piece| all.extend_from_slice(&piece));
        all
    }
    Ok(match tensor.into_data() {
        Data::F32(pieces) => handed_over(py, joined(pieces), &shape)?.into_any(),
        Data::F64(pieces) => handed_over(py, joined(pieces), &shape)?.into_any(),
        Data::U64(numbers) => {
            handed_over(py, numbers.iter().map(|x| *x as i64).collect(), &shape)?.into_any()
        }
        _ => return Err(unknown()),
    })
}

/// A state as an array of 64-bit integers, NumPy's default: one number per variable, or rows of several
/// columns.
pub fn state<'py>(py: Python<'py>, state: &[usize], columns: usize) -> PyResult<Bound<'py, PyAny>> {
    let flat: Vec<i64> = state.iter().map(|&x| x as i64).collect();
    let shape = if columns > 1 { vec![flat.len() / columns, columns] } else { vec![flat.len()] };
    Ok(handed_over(py, flat, &shape)?.into_any())
}

/// Samples of one item: their states (an array with one sample per row, or a list if lengths differ), the
/// name of their distribution, log weights if they are weighted, the distance if they are approximate.
type Samples<'py> = (Bound<'py, PyAny>, &'static str, Option<Bound<'py, PyArray1<f64>>>, Option<f64>);

fn samples<'py>(py: Python<'py>, draws: &Draws, columns: usize, length: usize) -> PyResult<Samples<'py>> {
    let count = draws.states.len();
    let states = if columns > 1 {
        let each = draws.states.iter().map(|one| state(py, one, columns)).collect::<PyResult<Vec<_>>>()?;
        each.into_pyobject(py)?.into_any()
    } else {
        let flat: Vec<i64> = draws.states.as_slice().iter().map(|&x| x as i64).collect();
        PyArray1::from_vec(py, flat).reshape([count, length])?.into_any()
    };
    Ok(match &draws.law {
        Law::Exact => (states, "exact", None, None),
        Law::Weighted { log_weights } => {
            (states, "weighted", Some(PyArray1::from_slice(py, log_weights)), None)
        }
        Law::Chains => (states, "chains", None, None),
        Law::Approximate { distance } => (states, "approximate", None, Some(*distance)),
        _ => return Err(unknown()),
    })
}

fn unknown() -> PyErr {
    Failure(Error::argument("answer", "this shape of answer is not known to the Python package")).into()
}
