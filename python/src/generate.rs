//! Random models.

use pyo3::prelude::*;
use zhat::FactorGraph;
use zhat::model::generate::{self, Grid};

use crate::error::Failure;
use crate::model::Model;

fn build(py: Python<'_>, make: impl FnOnce() -> zhat::Result<FactorGraph> + Send) -> PyResult<Model> {
    Ok(py.detach(make).map_err(Failure)?.into())
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

fn shape((rows, columns, torus): (usize, usize, bool)) -> Grid {
    Grid { rows, columns, torus }
}
