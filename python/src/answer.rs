//! Answers as Python takes them apart.

use numpy::{PyArray1, PyArrayMethods};
use pyo3::prelude::*;
use zhat::catalogue::{AnyAnswer, Plan};
use zhat::{Error, Forecast, Guarantee, Law, Samples};

use crate::error::Failure;
use crate::sequence_answer;

/// What a query would take; a dict in Python.
#[derive(IntoPyObject)]
pub struct Cost {
    bytes: f64,
    seconds: f64,
    promise: &'static str,
}

impl From<Forecast> for Cost {
    fn from(forecast: Forecast) -> Self {
        Cost { bytes: forecast.bytes, seconds: forecast.seconds, promise: forecast.promise.name() }
    }
}

/// An answer; a dict in Python.
#[derive(IntoPyObject)]
pub struct Parts<'py> {
    /// A number, or arrays whose number and meaning depend on the query.
    value: Bound<'py, PyAny>,
    /// The guarantee as JSON, and in words.
    guarantee: String,
    words: String,
    /// The same for each sequence of a batch, where they differ.
    each: Vec<(String, String)>,
    method: &'static str,
    /// As JSON.
    diagnostics: String,
    forecast: Cost,
}

impl<'py> Parts<'py> {
    pub fn new(py: Python<'py>, model: &zhat::Model, plan: &Plan, answer: AnyAnswer) -> PyResult<Self> {
        let (guarantee, diagnostics) = (answer.guarantee(), answer.diagnostics());
        let pair = |promise: &Guarantee| (promise.to_json().to_string(), promise.to_string());
        Ok(Parts {
            guarantee: guarantee.to_json().to_string(),
            words: guarantee.to_string(),
            each: if let Guarantee::Each(each) = guarantee {
                each.iter().map(pair).collect()
            } else {
                vec![]
            },
            method: diagnostics.method,
            diagnostics: diagnostics.to_json().to_string(),
            forecast: plan.forecast.into(),
            value: value(py, model, answer)?,
        })
    }
}

fn value<'py>(py: Python<'py>, model: &zhat::Model, answer: AnyAnswer) -> PyResult<Bound<'py, PyAny>> {
    match answer {
        AnyAnswer::Estimate(answer) => Ok(answer.value.into_pyobject(py)?.into_any()),
        AnyAnswer::Beliefs(answer) => Ok(PyArray1::from_slice(py, answer.value.as_slice()).into_any()),
        AnyAnswer::FactorBeliefs(answer) => Ok(PyArray1::from_slice(py, answer.value.as_slice()).into_any()),
        AnyAnswer::Best(answer) => {
            Ok((states(py, &answer.value.state), answer.value.score).into_pyobject(py)?.into_any())
        }
        AnyAnswer::Ranked(answer) => {
            let pairs: Vec<_> =
                answer.value.iter().map(|best| (states(py, &best.state), best.score)).collect();
            Ok(pairs.into_pyobject(py)?.into_any())
        }
        AnyAnswer::Samples(answer) => samples(py, answer.value),
        AnyAnswer::Expectations(answer) => Ok(PyArray1::from_slice(py, &answer.value.values).into_any()),
        AnyAnswer::SpaceMarginals(answer) => {
            let values = PyArray1::from_slice(py, &answer.value.values);
            Ok(values.reshape(answer.value.shape)?.into_any())
        }
        AnyAnswer::Sequences(answer) => sequence_answer::value(py, model, answer.value),
        _ => Err(unknown()),
    }
}

/// (states, the name of their law, log weights if weighted, distance if approximate).
fn samples(py: Python<'_>, samples: Samples) -> PyResult<Bound<'_, PyAny>> {
    let table = states(py, samples.as_slice()).reshape([samples.len(), samples.variables()])?;
    let (law, log_weights, distance) = match samples.law {
        Law::Exact => ("exact", None, None),
        Law::Weighted { log_weights } => ("weighted", Some(PyArray1::from_vec(py, log_weights)), None),
        Law::Approximate { distance } => ("approximate", None, Some(distance)),
        _ => return Err(unknown()),
    };
    Ok((table, law, log_weights, distance).into_pyobject(py)?.into_any())
}

/// States as 64-bit integers, what NumPy counts with.
pub fn states<'py>(py: Python<'py>, states: &[usize]) -> Bound<'py, PyArray1<i64>> {
    PyArray1::from_iter(py, states.iter().map(|&state| state as i64))
}

pub fn unknown() -> PyErr {
    Failure(Error::argument("answer", "this kind of answer is not known to the Python package")).into()
}
