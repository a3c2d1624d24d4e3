//! Relaxed samples with their gradients: dense from exact messages, sparse from randomized ones.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use zhat::exact::ForwardBackward;
use zhat::randomized::{RandomizedForward, SparseSamples};
use zhat::sequence::{ChainGradient, RelaxedSamples};
use zhat::{Chain, Error};

use crate::array::{Precision, handed_over};
use crate::model::Model;
use crate::ops::{Backward, Cotangent, Gradient, Tape, randomized};
use crate::run::Run;
use crate::sequence_answer::{Paths, paths};

/// A precision whose cotangents come as arrays of it.
trait Weighed: Precision {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[Self]>;
}

impl Weighed for f32 {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[f32]> {
        match cotangent {
            Cotangent::Single(numbers) => Ok(numbers),
            Cotangent::Double(_) => Err(Error::argument("cotangent", "expected an array of f32")),
        }
    }
}

impl Weighed for f64 {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[f64]> {
        cotangent.numbers()
    }
}

/// Dense relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Dense<'py> {
    /// For each sequence its paths.
    hard: Paths<'py>,
    /// (B, count, T, N).
    soft: Bound<'py, PyAny>,
    tape: Tape,
}

/// Sparse relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Sparse<'py> {
    hard: Paths<'py>,
    /// (sequence, sample, position, state) of each entry.
    index: Bound<'py, PyArrayDyn<i64>>,
    values: Bound<'py, PyAny>,
    /// For each sequence the log weights of its samples.
    log_weights: Vec<Bound<'py, PyArray1<f64>>>,
    tape: Tape,
}

/// Relaxed samples of a chain from all its states.
#[pyfunction]
pub fn relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>> {
    match model.inner() {
        zhat::Model::Chain32(chain) => dense(py, model, chain, count, temperature, run),
        zhat::Model::Chain64(chain) => dense(py, model, chain, count, temperature, run),
        _ => Err(not_a_chain()),
    }
}

fn dense<'py, F: Weighed>(
    py: Python<'py>,
    model: &Model,
    chain: &Chain<F>,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>>
where
    Gradient: From<ChainGradient<F>>,
{
    let (cancel, chain) = (Arc::<AtomicBool>::default(), chain.clone());
    let (samples, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        ForwardBackward::default().relaxed_samples_with_tape(&chain, count, temperature, run)
    })?;
    let backward: Arc<Backward> = Arc::new(move |c| Ok(vec![tape.vjp(F::weights(c)?)?.into()]));
    let RelaxedSamples { shape, hard, soft } = samples;
    Ok(Dense {
        hard: paths(py, model.inner(), &hard)?,
        soft: handed_over(py, soft, &shape)?.into_any(),
        tape: Tape::new(model.shared(), backward, run, cancel),
    })
}

/// Relaxed samples of a chain from states chosen at random; `settings` is a JSON object.
#[pyfunction]
pub fn sparse_relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    settings: &str,
    scores: Option<&Bound<'py, PyAny>>,
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>> {
    let method = randomized(settings, scores)?;
    match model.inner() {
        zhat::Model::Chain32(chain) => sparse(py, model, chain, method, (count, temperature), run),
        zhat::Model::Chain64(chain) => sparse(py, model, chain, method, (count, temperature), run),
        _ => Err(not_a_chain()),
    }
}

fn sparse<'py, F: Weighed>(
    py: Python<'py>,
    model: &Model,
    chain: &Chain<F>,
    method: RandomizedForward,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>>
where
    Gradient: From<ChainGradient<F>>,
{
    let (cancel, chain) = (Arc::<AtomicBool>::default(), chain.clone());
    let (drawn, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        method.relaxed_samples_with_tape(&chain, count, temperature, run)
    })?;
    let SparseSamples { samples, log_weights } = drawn;
    let (mut index, mut values, mut hard, mut sizes) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (b, samples) in samples.into_iter().enumerate() {
        sizes.push(samples.iter().map(|sample| sample.values.len()).collect::<Vec<usize>>());
        for (s, sample) in samples.iter().enumerate() {
            for (t, ends) in sample.offsets.windows(2).enumerate() {
                for &state in &sample.states[ends[0]..ends[1]] {
                    index.extend([b as i64, s as i64, t as i64, i64::from(state)]);
                }
            }
            values.extend_from_slice(&sample.values);
        }
        hard.push(samples.into_iter().map(|sample| sample.hard).collect());
    }
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let mut rest = F::weights(cotangent)?;
        let mut take = |&size: &usize| {
            let (own, after) = rest.split_at(size.min(rest.len()));
            rest = after;
            own.to_vec()
        };
        let nested: Vec<Vec<Vec<F>>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![tape.vjp(&nested)?.into()])
    });
    let entries = values.len();
    Ok(Sparse {
        hard: paths(py, model.inner(), &hard)?,
        index: handed_over(py, index, &[entries, 4])?,
        values: PyArray1::from_vec(py, values).into_any(),
        log_weights: log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(model.shared(), backward, run, cancel),
    })
}

fn not_a_chain() -> PyErr {
    crate::error::argument("model", "relaxed samples are of chains")
}
