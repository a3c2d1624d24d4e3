//! Relaxed samples with their gradients: dense from exact messages, sparse from randomized ones.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use zhat::exact::ForwardBackward;
use zhat::query::{AnyValue, IntoValue, Tensors};
use zhat::randomized::{RandomizedForward, SparsePath, SparseSamples};
use zhat::sequence::RelaxedSamples;
use zhat::{Chain, Error, SemiMarkov};

use crate::array::{Precision, handed_over};
use crate::either;
use crate::model::Model;
use crate::ops::{Backward, Cotangent, Tape, randomized};
use crate::run::Run;

/// A precision whose cotangents come as arrays of it.
trait CotangentOf: Precision {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[Self]>;
}

impl CotangentOf for f32 {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[f32]> {
        match cotangent {
            Cotangent::Single(numbers) => Ok(numbers),
            Cotangent::Double(_) => Err(Error::argument("cotangent", "expected an array of f32")),
        }
    }
}

impl CotangentOf for f64 {
    fn weights(cotangent: &Cotangent) -> zhat::Result<&[f64]> {
        cotangent.numbers()
    }
}

/// For each sequence an array with one path per row.
type Paths<'py> = Vec<Bound<'py, PyArrayDyn<i64>>>;

/// For each sequence its paths as the rows of an array.
fn paths<'py>(py: Python<'py>, lengths: &[usize], drawn: &[Vec<Vec<usize>>]) -> PyResult<Paths<'py>> {
    let each = |(drawn, &length): (&Vec<Vec<usize>>, &usize)| {
        let flat = drawn.iter().flatten().map(|&state| state as i64).collect();
        handed_over(py, flat, &[drawn.len(), length])
    };
    drawn.iter().zip(lengths).map(each).collect()
}

/// One row (state, length) per segment.
fn segments<'py>(py: Python<'py>, segments: &[(usize, usize)]) -> PyResult<Bound<'py, PyArrayDyn<i64>>> {
    let flat = segments.iter().flat_map(|&(state, length)| [state as i64, length as i64]).collect();
    handed_over(py, flat, &[segments.len(), 2])
}

/// A gradient as named tensors.
fn named<G: IntoValue<M>, M>(gradient: G, model: &M) -> Tensors {
    match gradient.into_value(model) {
        AnyValue::Tensors(tensors) => tensors,
        _ => Tensors { list: Vec::new(), radius: None },
    }
}

/// What is drawn.
#[derive(IntoPyObject)]
pub enum Hard<'py> {
    /// For each sequence a path a row.
    Paths(Paths<'py>),
    /// For each sequence and sample a segment a row.
    Segments(Vec<Paths<'py>>),
}

/// (state, length) of each segment of each sample of each sequence.
type Segmentations = Vec<Vec<Vec<(usize, usize)>>>;

impl<'py> Hard<'py> {
    fn segments(py: Python<'py>, drawn: &Segmentations) -> PyResult<Self> {
        let of_sequence =
            |drawn: &Vec<Vec<(usize, usize)>>| drawn.iter().map(|one| segments(py, one)).collect();
        Ok(Hard::Segments(drawn.iter().map(of_sequence).collect::<PyResult<_>>()?))
    }
}

/// Dense relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Dense<'py> {
    /// For each sequence its paths, or for each sample its segments.
    hard: Hard<'py>,
    /// (B, count, T, N).
    soft: Bound<'py, PyAny>,
    /// (B, count, T, L), of segments.
    lengths: Option<Bound<'py, PyAny>>,
    tape: Tape,
}

/// Sparse relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Sparse<'py> {
    hard: Hard<'py>,
    /// (sequence, sample, position, state) of each entry.
    index: Bound<'py, PyArrayDyn<i64>>,
    values: Bound<'py, PyAny>,
    /// (sequence, sample, position, length − 1) of each entry of lengths, of segments.
    length_index: Option<Bound<'py, PyArrayDyn<i64>>>,
    lengths: Option<Bound<'py, PyAny>>,
    /// For each sequence the log weights of its samples.
    log_weights: Vec<Bound<'py, PyArray1<f64>>>,
    tape: Tape,
}

/// Relaxed samples of a chain, or of a semi-Markov chain, from all its states.
#[pyfunction]
pub fn relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>> {
    either!(model, Chain, chain => dense(py, chain, count, temperature, run), {
        either!(model, SemiMarkov, semi => dense_segments(py, semi, count, temperature, run), {
            Err(not_a_sequence())
        })
    })
}

fn dense<'py, F: CotangentOf>(
    py: Python<'py>,
    chain: &Chain<F>,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>> {
    let (cancel, own, lengths) = (Arc::<AtomicBool>::default(), chain.clone(), chain.lengths().to_vec());
    let chain = chain.clone();
    let (samples, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        ForwardBackward::default().relaxed_samples_with_tape(&chain, count, temperature, run)
    })?;
    let backward: Arc<Backward> = Arc::new(move |c| Ok(vec![named(tape.vjp(F::weights(c)?, &[])?, &own)]));
    let RelaxedSamples { shape, hard, states, .. } = samples;
    Ok(Dense {
        hard: Hard::Paths(paths(py, &lengths, &hard)?),
        soft: handed_over(py, states, &shape)?.into_any(),
        lengths: None,
        tape: Tape::new(backward, run, cancel),
    })
}

fn dense_segments<'py, F: CotangentOf>(
    py: Python<'py>,
    semi: &SemiMarkov<F>,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>> {
    let (cancel, own) = (Arc::<AtomicBool>::default(), semi.clone());
    let semi = semi.clone();
    let (samples, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        ForwardBackward::default().relaxed_samples_with_tape(&semi, count, temperature, run)
    })?;
    let RelaxedSamples { shape, longest, hard, states, lengths } = samples;
    let at = states.len();
    // The cotangents of both stand one behind the other.
    let backward: Arc<Backward> = Arc::new(move |c| {
        let weights = F::weights(c)?;
        let (of_states, of_lengths) = weights.split_at(at.min(weights.len()));
        Ok(vec![named(tape.vjp(of_states, of_lengths)?, &own)])
    });
    let [batch, samples, steps, _] = shape;
    Ok(Dense {
        hard: Hard::segments(py, &hard)?,
        soft: handed_over(py, states, &shape)?.into_any(),
        lengths: Some(handed_over(py, lengths, &[batch, samples, steps, longest])?.into_any()),
        tape: Tape::new(backward, run, cancel),
    })
}

/// The same from states chosen at random; `settings` is a JSON object.
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
    let drawn = (count, temperature);
    either!(model, Chain, chain => sparse(py, chain, method, drawn, run), {
        either!(model, SemiMarkov, semi => sparse_segments(py, semi, method, drawn, run), {
            Err(not_a_sequence())
        })
    })
}

fn sparse<'py, F: CotangentOf>(
    py: Python<'py>,
    chain: &Chain<F>,
    method: RandomizedForward,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>> {
    let (cancel, own, lengths) = (Arc::<AtomicBool>::default(), chain.clone(), chain.lengths().to_vec());
    let chain = chain.clone();
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
        let mut take = |&size: &usize| (taken(&mut rest, size), Vec::new());
        let nested: Vec<Vec<(Vec<F>, Vec<F>)>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![named(tape.vjp(&nested)?, &own)])
    });
    let entries = values.len();
    Ok(Sparse {
        hard: Hard::Paths(paths(py, &lengths, &hard)?),
        index: handed_over(py, index, &[entries, 4])?,
        values: PyArray1::from_vec(py, values).into_any(),
        length_index: None,
        lengths: None,
        log_weights: log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(backward, run, cancel),
    })
}

fn sparse_segments<'py, F: CotangentOf>(
    py: Python<'py>,
    semi: &SemiMarkov<F>,
    method: RandomizedForward,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>> {
    let (cancel, own) = (Arc::<AtomicBool>::default(), semi.clone());
    let semi = semi.clone();
    let (drawn, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        method.relaxed_samples_with_tape(&semi, count, temperature, run)
    })?;
    let SparseSamples { samples, log_weights } = drawn;
    let (mut index, mut values, mut hard) = (Vec::new(), Vec::new(), Vec::new());
    let (mut length_index, mut lengths, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (b, samples) in samples.into_iter().enumerate() {
        let of = |sample: &SparsePath<F, Vec<(usize, usize)>>| (sample.values.len(), sample.lengths.len());
        sizes.push(samples.iter().map(of).collect::<Vec<(usize, usize)>>());
        for (s, sample) in samples.iter().enumerate() {
            let mut end = -1;
            for (m, segment) in sample.hard.iter().enumerate() {
                end += segment.1 as i64;
                for &state in &sample.states[sample.offsets[m]..sample.offsets[m + 1]] {
                    index.extend([b as i64, s as i64, end, i64::from(state)]);
                }
                for d in 0..sample.length_offsets[m + 1] - sample.length_offsets[m] {
                    length_index.extend([b as i64, s as i64, end, d as i64]);
                }
            }
            values.extend_from_slice(&sample.values);
            lengths.extend_from_slice(&sample.lengths);
        }
        hard.push(samples.into_iter().map(|sample| sample.hard).collect());
    }
    let (entries, length_entries) = (values.len(), lengths.len());
    // The cotangents of both stand one behind the other.
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let weights = F::weights(cotangent)?;
        let (mut of_values, mut of_lengths) = weights.split_at(entries.min(weights.len()));
        let mut take = |&(values, lengths): &(usize, usize)| {
            (taken(&mut of_values, values), taken(&mut of_lengths, lengths))
        };
        let nested: Vec<Vec<(Vec<F>, Vec<F>)>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![named(tape.vjp(&nested)?, &own)])
    });
    Ok(Sparse {
        hard: Hard::segments(py, &hard)?,
        index: handed_over(py, index, &[entries, 4])?,
        values: PyArray1::from_vec(py, values).into_any(),
        length_index: Some(handed_over(py, length_index, &[length_entries, 4])?),
        lengths: Some(PyArray1::from_vec(py, lengths).into_any()),
        log_weights: log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(backward, run, cancel),
    })
}

/// The first numbers of a list, which loses them; fewer where there are fewer.
fn taken<F: Copy>(rest: &mut &[F], size: usize) -> Vec<F> {
    let (own, after) = rest.split_at(size.min(rest.len()));
    *rest = after;
    own.to_vec()
}

fn not_a_sequence() -> PyErr {
    crate::error::argument("model", "relaxed samples are of sequences")
}
