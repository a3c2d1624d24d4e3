//! Pairwise graphs, built from arrays that are used in place.

use numpy::{PyArray1, PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use zhat::messages::RandomizedMessages;
use zhat::model::PairwiseGraph;

use crate::array::{self, Precision, handed_over};
use crate::either;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::ops::configured;
use crate::run::Run;
use crate::sequence::{Given, shape_error, transitions_of, typed};

/// A graph from arrays of one precision that are used in place: `nodes` (V, N), `edges`, and `interactions`
/// (N, N) or (E, N, N), or `left` and optionally `right` (N, D).
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
    let given = Given { array: interactions, left, right, factors: None, pattern: None };
    let interactions = transitions_of("interactions", n, tables, &given)?;
    let nodes = array::in_place("nodes", &nodes)?;
    Ok(py.detach(|| PairwiseGraph::new(n, nodes, edges, interactions)).map_err(Failure)?)
}

/// Indices and values of the nonzero entries of relaxed samples.
type Relaxed<'py> = (Bound<'py, PyArrayDyn<i64>>, Bound<'py, PyAny>);

/// Relaxed samples over randomly chosen states; `settings` is a JSON object. A row of the first array is
/// (sample, variable, state).
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
    either!(model, PairwiseGraph, graph => relaxed(py, graph.clone(), method, (count, temperature), run), {
        Err(not_a_graph())
    })
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
    either!(model, PairwiseGraph, graph => {
        let (variables, states) = (graph.variables(), graph.states());
        if state.len() != variables || state.iter().any(|&x| x >= states) {
            let message = format!("expected {variables} states below {states}");
            return Err(error::argument("state", message));
        }
        Ok(graph.score(&state))
    }, Err(not_a_graph()))
}

fn not_a_graph() -> PyErr {
    error::argument("model", "expected a pairwise graph")
}
