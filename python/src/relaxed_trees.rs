//! Relaxed dependency trees with gradients: over all arcs, or over a few arcs chosen at random.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use zhat::dynamic::{RandomizedInside, SpanningTrees};
use zhat::model::DependencyTree;
use zhat::query::{RelaxedTrees, SparseTrees, Tree};

use crate::array::handed_over;
use crate::either;
use crate::model::Model;
use crate::ops::{Backward, Tape, configured};
use crate::relaxed::{CotangentOf, named, taken};
use crate::run::Run;

/// For each sentence, an array with one tree per row: heads, or pairs of head and label.
type Trees<'py> = Vec<Bound<'py, PyArrayDyn<i64>>>;

/// Relaxed trees over all arcs and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct DenseTrees<'py> {
    hard: Trees<'py>,
    /// (B, count, T, T + 1) or (B, count, T, T + 1, L).
    soft: Bound<'py, PyAny>,
    tape: Tape,
}

/// Relaxed trees over a few arcs and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct FewArcs<'py> {
    hard: Trees<'py>,
    /// (sentence, sample, word, head) of each entry, and its label if arcs have labels.
    index: Bound<'py, PyArrayDyn<i64>>,
    values: Bound<'py, PyAny>,
    /// For each sentence, the log weights of its samples.
    log_weights: Vec<Bound<'py, PyArray1<f64>>>,
    tape: Tape,
}

fn hard_trees<'py>(py: Python<'py>, lengths: &[usize], drawn: &[Vec<Tree>]) -> PyResult<Trees<'py>> {
    let flat = |tree: &Tree| -> Vec<i64> {
        let label = |d: usize| tree.labels.get(d).map(|&label| label as i64);
        let heads = tree.heads.iter().enumerate();
        heads.flat_map(|(d, &head)| [Some(head as i64), label(d)].into_iter().flatten()).collect()
    };
    let each = |(drawn, &length): (&Vec<Tree>, &usize)| {
        let all: Vec<i64> = drawn.iter().flat_map(flat).collect();
        let columns = if drawn.is_empty() { length } else { all.len() / drawn.len() };
        handed_over(py, all, &[drawn.len(), columns])
    };
    drawn.iter().zip(lengths).map(each).collect()
}

fn no_trees() -> PyErr {
    crate::error::argument("model", "expected dependency trees")
}

/// Relaxed dependency trees over all arcs.
#[pyfunction]
pub fn relaxed_trees<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<DenseTrees<'py>> {
    either!(model, DependencyTree, trees => dense(py, trees, count, temperature, run), Err(no_trees()))
}

fn dense<'py, F: CotangentOf>(
    py: Python<'py>,
    model: &DependencyTree<F>,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<DenseTrees<'py>> {
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (samples, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        SpanningTrees::default().relaxed_samples_with_tape(&model, count, temperature, run)
    })?;
    let RelaxedTrees { shape, labels, hard, heads } = samples;
    let hard = hard_trees(py, own.lengths(), &hard)?;
    let shape: Vec<usize> = shape.into_iter().chain(labels).collect();
    let backward: Arc<Backward> =
        Arc::new(move |cotangent| Ok(vec![named(tape.vjp(F::weights(cotangent)?)?, &own)]));
    let soft = handed_over(py, heads, &shape)?.into_any();
    Ok(DenseTrees { hard, soft, tape: Tape::new(backward, run, cancel) })
}

/// Relaxed dependency trees over a few arcs chosen at random; `settings` is a JSON object.
#[pyfunction]
pub fn sparse_relaxed_trees<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    settings: &str,
    run: &Bound<'py, Run>,
) -> PyResult<FewArcs<'py>> {
    let method: RandomizedInside = configured("randomized-inside", settings)?;
    let drawn = (count, temperature);
    either!(model, DependencyTree, trees => sparse(py, trees, method, drawn, run), Err(no_trees()))
}

fn sparse<'py, F: CotangentOf>(
    py: Python<'py>,
    model: &DependencyTree<F>,
    method: RandomizedInside,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<FewArcs<'py>> {
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (drawn, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        method.relaxed_trees_with_tape(&model, count, temperature, run)
    })?;
    let SparseTrees { samples, log_weights } = drawn;
    let columns = if own.labels().is_some() { 3 } else { 2 };
    let (mut index, mut values, mut sizes, mut hard) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (b, samples) in samples.into_iter().enumerate() {
        sizes.push(samples.iter().map(|sample| sample.values.len()).collect::<Vec<usize>>());
        for (s, sample) in samples.iter().enumerate() {
            for entry in &sample.index {
                index.extend([b as i64, s as i64]);
                index.extend(entry[..columns].iter().map(|&x| i64::from(x)));
            }
            values.extend_from_slice(&sample.values);
        }
        hard.push(samples.into_iter().map(|sample| sample.hard).collect());
    }
    let (hard, entries) = (hard_trees(py, own.lengths(), &hard)?, values.len());
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let mut rest = F::weights(cotangent)?;
        let mut take = |&size: &usize| taken(&mut rest, size);
        let nested: Vec<Vec<Vec<F>>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![named(tape.vjp(&nested)?, &own)])
    });
    Ok(FewArcs {
        hard,
        index: handed_over(py, index, &[entries, 2 + columns])?,
        values: PyArray1::from_vec(py, values).into_any(),
        log_weights: log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(backward, run, cancel),
    })
}
