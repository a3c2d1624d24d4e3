//! Answers about sequences as Python takes them apart: arrays that own what was computed, and lists of them.

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::catalogue::Sequences;
use zhat::model::Segments;
use zhat::sequence::{ChainGradient, NodeMarginals, PathSamples, SemiMarkovGradient, TransitionGradient};

use crate::answer::{states, unknown};
use crate::array::{Precision, handed_over};
use crate::pairwise;

/// A state and how many positions it lasts.
type Segment = (usize, usize);
/// For each sequence an array with a path a row.
pub type Paths<'py> = Vec<Bound<'py, PyArrayDyn<i64>>>;

/// The value of an answer about sequences: arrays and lists, one for each sequence.
pub fn value<'py>(py: Python<'py>, model: &zhat::Model, value: Sequences) -> PyResult<Bound<'py, PyAny>> {
    match value {
        Sequences::Numbers(values) => Ok(PyArray1::from_vec(py, values).into_any()),
        Sequences::Marginals32(marginals) => node_marginals(py, marginals),
        Sequences::Marginals64(marginals) => node_marginals(py, marginals),
        Sequences::Gradient32(gradient) => Ok(chain_gradient(py, model, gradient)?.into_any()),
        Sequences::Gradient64(gradient) => Ok(chain_gradient(py, model, gradient)?.into_any()),
        Sequences::SemiMarkovGradient32(gradient) => {
            Ok(semi_markov_gradient(py, model, gradient)?.into_any())
        }
        Sequences::SemiMarkovGradient64(gradient) => {
            Ok(semi_markov_gradient(py, model, gradient)?.into_any())
        }
        Sequences::PairwiseGradient32(gradient) => Ok(pairwise::gradient(py, model, gradient)?.into_any()),
        Sequences::PairwiseGradient64(gradient) => Ok(pairwise::gradient(py, model, gradient)?.into_any()),
        Sequences::Paths(paths) => list(py, paths.iter().map(|path| (states(py, &path.states), path.score))),
        Sequences::Segmentations(all) => {
            let each = all.iter().map(|one| Ok((segments(py, &one.segments)?, one.score)));
            list(py, each.collect::<PyResult<Vec<_>>>()?)
        }
        Sequences::RankedPaths(ranked) => {
            let pairs = |paths: &Vec<zhat::sequence::Path>| {
                paths.iter().map(|path| (states(py, &path.states), path.score)).collect::<Vec<_>>()
            };
            list(py, ranked.iter().map(pairs))
        }
        Sequences::RankedSegmentations(ranked) => {
            let pairs = |all: &Vec<zhat::sequence::Segmentation>| {
                let each = all.iter().map(|one| Ok((segments(py, &one.segments)?, one.score)));
                each.collect::<PyResult<Vec<_>>>()
            };
            list(py, ranked.iter().map(pairs).collect::<PyResult<Vec<_>>>()?)
        }
        Sequences::PathSamples(samples) => path_samples(py, model, samples),
        Sequences::SegmentationSamples(samples) => {
            let each = |all: &Vec<Vec<Segment>>| {
                all.iter().map(|one| segments(py, one)).collect::<PyResult<Vec<_>>>()
            };
            let drawn = samples.samples.iter().map(each).collect::<PyResult<Vec<_>>>()?;
            Ok((drawn, weights(py, samples.log_weights)).into_pyobject(py)?.into_any())
        }
        _ => Err(unknown()),
    }
}

fn list<'py, T: IntoPyObject<'py>>(
    py: Python<'py>,
    items: impl IntoIterator<Item = T>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(items.into_iter().collect::<Vec<T>>().into_pyobject(py)?.into_any())
}

fn node_marginals<F: Precision>(py: Python<'_>, marginals: NodeMarginals<F>) -> PyResult<Bound<'_, PyAny>> {
    Ok(handed_over(py, marginals.values, &marginals.shape)?.into_any())
}

/// A dict with an array for each parameter.
pub fn chain_gradient<'py, F: Precision>(
    py: Python<'py>,
    model: &zhat::Model,
    gradient: ChainGradient<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let (batch, n) = (model.lengths().len(), gradient.start.len());
    let steps = gradient.emissions.len() / (batch * n).max(1);
    let parts = PyDict::new(py);
    let add =
        |name: &str, numbers: Vec<F>, shape: &[usize]| parts.set_item(name, handed_over(py, numbers, shape)?);
    add("start", gradient.start, &[n])?;
    add("emissions", gradient.emissions, &[batch, steps, n])?;
    match gradient.transitions {
        TransitionGradient::Shared(values) => add("transitions", values, &[n, n])?,
        TransitionGradient::PerStep(values) => {
            add("transitions", values, &[steps.saturating_sub(1), n, n])?;
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

/// As of a chain, and the segment scores.
pub fn semi_markov_gradient<'py, F: Precision>(
    py: Python<'py>,
    model: &zhat::Model,
    gradient: SemiMarkovGradient<F>,
) -> PyResult<Bound<'py, PyDict>> {
    let (batch, n) = (model.lengths().len(), gradient.chain.start.len());
    let steps = gradient.chain.emissions.len() / (batch * n).max(1);
    let longest = model.longest_segment().unwrap_or(1);
    let of_lengths = match model {
        zhat::Model::SemiMarkov32(semi) => matches!(semi.segments(), Segments::Lengths(_)),
        zhat::Model::SemiMarkov64(semi) => matches!(semi.segments(), Segments::Lengths(_)),
        _ => true,
    };
    let shape = if of_lengths { vec![longest, n] } else { vec![batch, steps, longest, n] };
    let parts = chain_gradient(py, model, gradient.chain)?;
    parts.set_item("segments", handed_over(py, gradient.segments, &shape)?)?;
    Ok(parts)
}

/// For each sequence an array with a sample a row; and the log weights.
fn path_samples<'py>(
    py: Python<'py>,
    model: &zhat::Model,
    samples: PathSamples,
) -> PyResult<Bound<'py, PyAny>> {
    let drawn = paths(py, model, &samples.samples)?;
    Ok((drawn, weights(py, samples.log_weights)).into_pyobject(py)?.into_any())
}

/// For each sequence its paths as the rows of an array.
pub fn paths<'py>(py: Python<'py>, model: &zhat::Model, drawn: &[Vec<Vec<usize>>]) -> PyResult<Paths<'py>> {
    let each = |(drawn, &length): (&Vec<Vec<usize>>, &usize)| {
        let flat = drawn.iter().flatten().map(|&state| state as i64).collect();
        handed_over(py, flat, &[drawn.len(), length])
    };
    drawn.iter().zip(model.lengths()).map(each).collect()
}

fn weights<'py>(
    py: Python<'py>,
    log_weights: Option<Vec<Vec<f64>>>,
) -> Option<Vec<Bound<'py, PyArray1<f64>>>> {
    log_weights.map(|all| all.into_iter().map(|one| PyArray1::from_vec(py, one)).collect())
}

/// (state, length) a row.
pub fn segments<'py>(py: Python<'py>, segments: &[Segment]) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
    let flat = segments.iter().flat_map(|&(state, length)| [state as i64, length as i64]).collect();
    handed_over(py, flat, &[segments.len(), 2])
}
