//! Pairwise graphs: built from arrays that are used in place, and shown as views of them.

use numpy::{PyArray1, PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::model::{PairwiseGraph, Transitions};
use zhat::pairwise::{PairwiseGradient, RandomizedMessages};
use zhat::sequence::TransitionGradient;

use crate::array::{self, Precision, handed_over};
use crate::error::{self, Failure};
use crate::model::Model;
use crate::ops::configured;
use crate::run::Run;
use crate::sequence::{shape_error, transitions_of, typed};

/// A graph from arrays of one precision that are used in place: `nodes` (V, N), `edges`, and `interactions` (N, N) or (E, N, N), or
/// `left` and perhaps `right` (N, D).
#[pyfunction]
pub fn pairwise(
    py: Python<'_>,
    nodes: &Bound<'_, PyAny>,
    edges: Vec<(usize, usize)>,
    interactions: Option<&Bound<'_, PyAny>>,
    left: Option<&Bound<'_, PyAny>>,
    right: Option<&Bound<'_, PyAny>>,
) -> PyResult<Model> {
    if nodes.cast::<PyArrayDyn<f32>>().is_ok() {
        Ok(Model::of(build::<f32>(py, nodes, edges, interactions, left, right)?))
    } else {
        Ok(Model::of(build::<f64>(py, nodes, edges, interactions, left, right)?))
    }
}

fn build<F: Precision>(
    py: Python<'_>,
    nodes: &Bound<'_, PyAny>,
    edges: Vec<(usize, usize)>,
    interactions: Option<&Bound<'_, PyAny>>,
    left: Option<&Bound<'_, PyAny>>,
    right: Option<&Bound<'_, PyAny>>,
) -> PyResult<PairwiseGraph<F>> {
    let nodes = typed::<F>("nodes", nodes)?;
    let &[_, n] = nodes.shape() else {
        return Err(shape_error("nodes", nodes.shape(), "(V, N)"));
    };
    let tables = (edges.len(), "(E, N, N)");
    let interactions = transitions_of("interactions", n, tables, interactions, left, right)?;
    let nodes = array::in_place("nodes", &nodes)?;
    Ok(py.detach(|| PairwiseGraph::new(n, nodes, edges, interactions)).map_err(Failure)?)
}

/// The arrays of a graph by name: views of what the model holds, which cannot be written to; and its edges.
pub fn parameters<'py, F: Precision>(
    model: &Bound<'py, Model>,
    graph: &PairwiseGraph<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let (v, n) = (graph.variables(), graph.states());
    let parts = PyDict::new(model.py());
    let add = |name: &str, numbers: &[F], shape: &[usize]| {
        // SAFETY: a model never changes, and its numbers stay where they are as long as it lives.
        parts.set_item(name, unsafe { array::view(numbers, shape, model.as_any())? })
    };
    add("nodes", graph.nodes(), &[v, n])?;
    match graph.interactions() {
        Transitions::Shared(values) => add("interactions", values, &[n, n])?,
        Transitions::PerStep(values) => add("interactions", values, &[graph.edges().len(), n, n])?,
        Transitions::Factored { left, right } => {
            let shape = [n, left.len() / n];
            add("left", left, &shape)?;
            if let Some(right) = right {
                add("right", right, &shape)?;
            }
        }
    }
    let edges = graph.edges().iter().flat_map(|&(i, j)| [i as i64, j as i64]).collect();
    parts.set_item("edges", handed_over::<i64>(model.py(), edges, &[graph.edges().len(), 2])?)?;
    Ok(parts)
}

/// A dict with an array for each parameter.
pub fn gradient<'py, F: Precision>(
    py: Python<'py>,
    model: &zhat::Model,
    gradient: PairwiseGradient<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let variables = model.lengths().first().copied().unwrap_or(1);
    let n = gradient.nodes.len() / variables.max(1);
    let parts = PyDict::new(py);
    let add =
        |name: &str, numbers: Vec<F>, shape: &[usize]| parts.set_item(name, handed_over(py, numbers, shape)?);
    add("nodes", gradient.nodes, &[variables, n])?;
    match gradient.interactions {
        TransitionGradient::Shared(values) => add("interactions", values, &[n, n])?,
        TransitionGradient::PerStep(values) => {
            let edges = values.len() / (n * n).max(1);
            add("interactions", values, &[edges, n, n])?;
        }
        TransitionGradient::Factored { left, right } => {
            let shape = [n, left.len() / n.max(1)];
            add("left", left, &shape)?;
            if let Some(right) = right {
                add("right", right, &shape)?;
            }
        }
    }
    Ok(parts)
}

/// Which entries of relaxed samples have values, and the values.
type Relaxed<'py> = (Bound<'py, PyArrayDyn<i64>>, Bound<'py, PyAny>);

/// Relaxed samples between states chosen at random; `settings` is a JSON object. A row of the first array is (sample, variable, state).
#[pyfunction]
pub fn pairwise_relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    settings: &str,
    run: &Bound<'py, Run>,
) -> PyResult<Relaxed<'py>> {
    let method: RandomizedMessages = configured("randomized-bp", settings)?;
    match model.inner() {
        zhat::Model::Pairwise32(graph) => relaxed(py, graph.clone(), method, (count, temperature), run),
        zhat::Model::Pairwise64(graph) => relaxed(py, graph.clone(), method, (count, temperature), run),
        _ => Err(error::argument("model", "expected a pairwise graph")),
    }
}

fn relaxed<'py, F: Precision>(
    py: Python<'py>,
    graph: PairwiseGraph<F>,
    method: RandomizedMessages,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Relaxed<'py>> {
    let work = move |run: &zhat::Run| method.relaxed_samples(&graph, count, temperature, run);
    let samples = run.get().supervise(py, work)?;
    let (mut index, mut values) = (Vec::new(), Vec::new());
    for (s, sample) in samples.into_iter().enumerate() {
        for (v, (states, own)) in sample.states.iter().zip(sample.values).enumerate() {
            states.iter().for_each(|&state| index.extend([s as i64, v as i64, i64::from(state)]));
            values.extend(own);
        }
    }
    let entries = values.len();
    Ok((handed_over(py, index, &[entries, 3])?, PyArray1::from_vec(py, values).into_any()))
}

/// The log weight of a state of all variables.
#[pyfunction]
pub fn graph_score(model: &Model, state: Vec<usize>) -> PyResult<f64> {
    let score = |variables: usize, states: usize| {
        if state.len() != variables || state.iter().any(|&x| x >= states) {
            let message = format!("expected {variables} states below {states}");
            return Err(error::argument("state", message));
        }
        Ok(())
    };
    match model.inner() {
        zhat::Model::Pairwise32(graph) => {
            score(graph.variables(), graph.states()).map(|()| graph.score(&state))
        }
        zhat::Model::Pairwise64(graph) => {
            score(graph.variables(), graph.states()).map(|()| graph.score(&state))
        }
        _ => Err(error::argument("model", "expected a pairwise graph")),
    }
}
