//! Random models.

use pyo3::prelude::*;
use zhat::model::generate::{self, ChainShape, Grid, TransitionForm};

use crate::error::{self, Failure};
use crate::model::Model;

fn build<M: Into<zhat::Model> + Send>(
    py: Python<'_>,
    make: impl FnOnce() -> zhat::Result<M> + Send,
) -> PyResult<Model> {
    Ok(Model::of(py.detach(make).map_err(Failure)?))
}

/// See `zhat.generate.ising`.
#[pyfunction]
pub fn ising(
    py: Python<'_>,
    grid: (usize, usize, bool),
    coupling: f64,
    field: f64,
    uniform: bool,
    seed: u64,
) -> PyResult<Model> {
    build(py, || generate::ising(shape(grid), coupling, field, uniform, seed))
}

/// See `zhat.generate.potts`.
#[pyfunction]
pub fn potts(
    py: Python<'_>,
    grid: (usize, usize, bool),
    states: usize,
    coupling: f64,
    field: f64,
    uniform: bool,
    seed: u64,
) -> PyResult<Model> {
    build(py, || generate::potts(shape(grid), states, coupling, field, uniform, seed))
}

/// See `zhat.generate.tree`.
#[pyfunction]
pub fn tree(py: Python<'_>, variables: usize, states: usize, strength: f64, seed: u64) -> PyResult<Model> {
    build(py, || generate::tree(variables, states, strength, seed))
}

/// See `zhat.generate.random`.
#[pyfunction]
pub fn random(
    py: Python<'_>,
    sizes: (usize, usize, usize, usize),
    strength: f64,
    zeros: f64,
    seed: u64,
) -> PyResult<Model> {
    let (variables, states, factors, arity) = sizes;
    build(py, || generate::random(variables, states, factors, arity, strength, zeros, seed))
}

/// See `zhat.generate.bayes`.
#[pyfunction]
pub fn bayes(
    py: Python<'_>,
    variables: usize,
    states: usize,
    parents: usize,
    deterministic: f64,
    seed: u64,
) -> PyResult<Model> {
    build(py, || generate::bayes(variables, states, parents, deterministic, seed))
}

/// See `zhat.generate.chain` and `zhat.generate.semi_markov`, the one with a longest segment.
#[pyfunction]
pub fn random_chain(
    py: Python<'_>,
    sizes: (usize, usize, usize, bool),
    transitions: (&str, usize, bool),
    scores: (f64, f64, bool),
    longest: Option<usize>,
    seed: u64,
) -> PyResult<Model> {
    let (strength, zeros, double) = scores;
    let (states, steps, batch, ragged) = sizes;
    let transitions = match transitions {
        ("shared", ..) => TransitionForm::Shared,
        ("per-step", ..) => TransitionForm::PerStep,
        ("factored", rank, tied) => TransitionForm::Factored { rank, tied },
        (other, ..) => {
            let message = format!("there is no form `{other}`; there are shared, per-step and factored");
            return Err(error::argument("transitions", message));
        }
    };
    let shape = ChainShape { states, steps, batch, ragged, transitions, strength, zeros };
    match (longest, double) {
        (None, false) => build(py, || generate::chain::<f32>(&shape, seed)),
        (None, true) => build(py, || generate::chain::<f64>(&shape, seed)),
        (Some(longest), false) => build(py, || generate::semi_markov::<f32>(&shape, longest, seed)),
        (Some(longest), true) => build(py, || generate::semi_markov::<f64>(&shape, longest, seed)),
    }
}

fn shape((rows, columns, torus): (usize, usize, bool)) -> Grid {
    Grid { rows, columns, torus }
}
