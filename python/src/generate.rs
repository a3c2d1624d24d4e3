//! Random models.

use pyo3::prelude::*;
use zhat::model::generate::{
    self, ChainShape, GraphShape, Grid, HypertreeShape, PairwiseShape, RuleForm, SentenceShape, Sharpness,
    SpanForm, TransitionForm,
};
use zhat::model::{Symbols, TreeShape};

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
    build(py, || generate::random(&GraphShape { variables, states, factors, arity, strength, zeros }, seed))
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

/// See `zhat.generate.chain` and, with a longest segment, `zhat.generate.semi_markov`.
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
    let transitions = form("transitions", transitions)?;
    let shape = ChainShape { states, steps, batch, ragged, transitions, strength, zeros };
    match (longest, double) {
        (None, false) => build(py, || generate::chain::<f32>(&shape, seed)),
        (None, true) => build(py, || generate::chain::<f64>(&shape, seed)),
        (Some(longest), false) => build(py, || generate::semi_markov::<f32>(&shape, longest, seed)),
        (Some(longest), true) => build(py, || generate::semi_markov::<f64>(&shape, longest, seed)),
    }
}

fn form(argument: &str, given: (&str, usize, bool)) -> PyResult<TransitionForm> {
    match given {
        ("shared", ..) => Ok(TransitionForm::Shared),
        ("per-step", ..) => Ok(TransitionForm::PerStep),
        ("factored", rank, tied) => Ok(TransitionForm::Factored { rank, tied }),
        ("low-rank", rank, _) => Ok(TransitionForm::LowRank { rank }),
        ("per-sequence", ..) => Ok(TransitionForm::PerSequence),
        ("sparse", entries, _) => Ok(TransitionForm::Sparse { entries, per_step: false }),
        ("sparse-per-step", entries, _) => Ok(TransitionForm::Sparse { entries, per_step: true }),
        ("banded", width, _) => Ok(TransitionForm::Banded { lower: width, upper: width }),
        (other, ..) => {
            let known =
                "shared, per-step, per-sequence, factored, low-rank, sparse, sparse-per-step and banded";
            let message = format!("there is no form `{other}`; there are {known}");
            Err(error::argument(argument, message))
        }
    }
}

/// See `zhat.generate.dependency`.
#[pyfunction]
pub fn random_dependency(
    py: Python<'_>,
    sizes: (usize, usize, bool, Option<usize>),
    trees: (bool, bool),
    scores: (f64, f64, bool),
    seed: u64,
) -> PyResult<Model> {
    let (words, batch, ragged, labels) = sizes;
    let (strength, zeros, double) = scores;
    let trees = TreeShape { projective: trees.0, single_root: trees.1 };
    let shape = SentenceShape { words, batch, ragged, labels, trees, strength, zeros };
    if double {
        build(py, || generate::dependency::<f64>(&shape, seed))
    } else {
        build(py, || generate::dependency::<f32>(&shape, seed))
    }
}

/// See `zhat.generate.hypertree`. `symbols` are the numbers of all symbols, of heads and of tags.
#[pyfunction]
pub fn random_hypertree(
    py: Python<'_>,
    sizes: (usize, usize, bool),
    symbols: (usize, usize, usize),
    rules: (&str, usize, bool),
    spans: (&str, usize),
    scores: (f64, f64, bool),
    seed: u64,
) -> PyResult<Model> {
    let (words, batch, ragged) = sizes;
    let (strength, zeros, double) = scores;
    let symbols = Symbols { all: symbols.0, heads: symbols.1, tags: symbols.2 };
    let (form, count, per_sentence) = rules;
    let rules = match form {
        "any" => RuleForm::Any,
        "dense" => RuleForm::Dense,
        "sparse" => RuleForm::Sparse(count),
        "low-rank" => RuleForm::LowRank(count),
        other => {
            let message = format!("there is no form `{other}`; there are any, dense, sparse and low-rank");
            return Err(error::argument("rules", message));
        }
    };
    let spans = match spans {
        ("none", _) => SpanForm::None,
        ("per-span", _) => SpanForm::PerSpan,
        ("per-symbol", _) => SpanForm::PerSymbol,
        ("factored", size) => SpanForm::Factored(size),
        (other, _) => {
            let message =
                format!("there is no form `{other}`; there are none, per-span, per-symbol and factored");
            return Err(error::argument("spans", message));
        }
    };
    let shape = HypertreeShape { words, batch, ragged, symbols, rules, per_sentence, spans, strength, zeros };
    if double {
        build(py, || generate::hypertree::<f64>(&shape, seed))
    } else {
        build(py, || generate::hypertree::<f32>(&shape, seed))
    }
}

/// See `zhat.generate.pairwise`.
#[pyfunction]
pub fn random_pairwise(
    py: Python<'_>,
    sizes: (usize, usize, bool, usize),
    interactions: (&str, usize, bool),
    scores: (f64, f64, bool),
    seed: u64,
) -> PyResult<Model> {
    let (rows, columns, tree, states) = sizes;
    let (strength, coupling, double) = scores;
    let interactions = form("interactions", interactions)?;
    let shape = PairwiseShape { rows, columns, tree, states, interactions, strength, coupling };
    if double {
        build(py, || generate::pairwise::<f64>(&shape, seed))
    } else {
        build(py, || generate::pairwise::<f32>(&shape, seed))
    }
}

/// A number of steps, or a name for it.
#[derive(FromPyObject)]
pub enum Sharpening {
    Steps(usize),
    Word(String),
}

/// See `zhat.generate.rdp_chain`.
#[pyfunction]
pub fn rdp_chain(
    py: Python<'_>,
    sizes: (usize, usize, usize),
    sharpness: Sharpening,
    double: bool,
    seed: u64,
) -> PyResult<Model> {
    let (states, steps, rank) = sizes;
    let sharpness = match sharpness {
        Sharpening::Steps(steps) => Sharpness::Steps(steps),
        Sharpening::Word(word) => match word.as_str() {
            "dense" => Sharpness::Dense,
            "intermediate" => Sharpness::Intermediate,
            "long-tailed" => Sharpness::LongTailed,
            _ => {
                let message =
                    format!("there is no `{word}`; there are dense, intermediate, long-tailed and numbers");
                return Err(error::argument("sharpness", message));
            }
        },
    };
    if double {
        build(py, || generate::rdp_chain::<f64>(states, steps, rank, sharpness, seed))
    } else {
        build(py, || generate::rdp_chain::<f32>(states, steps, rank, sharpness, seed))
    }
}

fn shape((rows, columns, torus): (usize, usize, bool)) -> Grid {
    Grid { rows, columns, torus }
}
