//! Relaxed samples with gradients: dense from exact messages, sparse from randomized messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use zhat::dynamic::{
    ForwardBackward, RandomizedForward, SequenceModel, SparseCotangent, SparsePath, SparseSamples,
};
use zhat::query::{AnyValue, IntoValue, RelaxedSamples, Tensors};
use zhat::{Chain, Error, SemiMarkov};

use crate::array::{Precision, handed_over};
use crate::either;
use crate::model::Model;
use crate::ops::{Backward, Cotangent, Tape, randomized};
use crate::run::Run;

/// A floating-point type whose cotangents are arrays of the same type.
pub trait CotangentOf: Precision {
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

/// For each sequence, an array with one path per row.
type Paths<'py> = Vec<Bound<'py, PyArrayDyn<i64>>>;

/// The sampled paths as arrays.
#[derive(IntoPyObject)]
pub enum Hard<'py> {
    /// For each sequence, one path per row.
    Paths(Paths<'py>),
    /// For each sequence and sample, one segment per row: (state, length).
    Segments(Vec<Paths<'py>>),
}

/// A sampled path of one kind of sequence model.
trait HardPath: Sized {
    /// The samples of each sequence as arrays; `lengths` are those of the sequences.
    fn arrays<'py>(py: Python<'py>, lengths: &[usize], drawn: &[Vec<Self>]) -> PyResult<Hard<'py>>;
    /// The last position of each segment; a chain has segments of one position.
    fn ends(&self) -> Vec<i64>;
}

impl HardPath for Vec<usize> {
    fn arrays<'py>(py: Python<'py>, lengths: &[usize], drawn: &[Vec<Self>]) -> PyResult<Hard<'py>> {
        let each = |(drawn, &length): (&Vec<Self>, &usize)| {
            let flat = drawn.iter().flatten().map(|&state| state as i64).collect();
            handed_over(py, flat, &[drawn.len(), length])
        };
        Ok(Hard::Paths(drawn.iter().zip(lengths).map(each).collect::<PyResult<_>>()?))
    }

    fn ends(&self) -> Vec<i64> {
        (0..self.len() as i64).collect()
    }
}

impl HardPath for Vec<(usize, usize)> {
    fn arrays<'py>(py: Python<'py>, _: &[usize], drawn: &[Vec<Self>]) -> PyResult<Hard<'py>> {
        let one = |segments: &Self| {
            let flat = segments.iter().flat_map(|&(state, length)| [state as i64, length as i64]).collect();
            handed_over(py, flat, &[segments.len(), 2])
        };
        let each = |drawn: &Vec<Self>| drawn.iter().map(one).collect::<PyResult<_>>();
        Ok(Hard::Segments(drawn.iter().map(each).collect::<PyResult<_>>()?))
    }

    fn ends(&self) -> Vec<i64> {
        let mut end = -1;
        let last = |segment: &(usize, usize)| {
            end += segment.1 as i64;
            end
        };
        self.iter().map(last).collect()
    }
}

/// A gradient as named tensors.
pub fn named<G: IntoValue<M>, M>(gradient: G, model: &M) -> Tensors {
    match gradient.into_value(model) {
        AnyValue::Tensors(tensors) => tensors,
        _ => Tensors { list: Vec::new(), radius: None },
    }
}

/// Dense relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Dense<'py> {
    hard: Hard<'py>,
    /// (B, count, T, N).
    soft: Bound<'py, PyAny>,
    /// (B, count, T, L), only for segments.
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
    /// (sequence, sample, position, length − 1) of each entry of `lengths`, only for segments.
    length_index: Option<Bound<'py, PyArrayDyn<i64>>>,
    lengths: Option<Bound<'py, PyAny>>,
    /// For each sequence, the log weights of its samples.
    log_weights: Vec<Bound<'py, PyArray1<f64>>>,
    tape: Tape,
}

/// Relaxed samples of a chain or a semi-Markov chain from all its states.
#[pyfunction]
pub fn relaxed_sample<'py>(
    py: Python<'py>,
    model: &Model,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>> {
    either!(model, Chain, chain => dense(py, chain, count, temperature, run), {
        either!(model, SemiMarkov, semi => dense(py, semi, count, temperature, run), {
            Err(not_a_sequence())
        })
    })
}

fn dense<'py, M>(
    py: Python<'py>,
    model: &M,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>>
where
    M: SequenceModel<Real: CotangentOf, Drawn: HardPath, FactorMarginals: IntoValue<M>> + 'static,
{
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (samples, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        ForwardBackward::default().relaxed_samples_with_tape(&model, count, temperature, run)
    })?;
    let RelaxedSamples { shape, longest, hard, states, lengths } = samples;
    let (hard, split) = (M::Drawn::arrays(py, own.chain().lengths(), &hard)?, states.len());
    // The cotangents of states and lengths are concatenated.
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let weights = M::Real::weights(cotangent)?;
        let (of_states, of_lengths) = weights.split_at(split.min(weights.len()));
        Ok(vec![named(tape.vjp(of_states, of_lengths)?, &own)])
    });
    let [batch, samples, steps, _] = shape;
    let lengths = M::SEGMENTS.then(|| handed_over(py, lengths, &[batch, samples, steps, longest]));
    Ok(Dense {
        hard,
        soft: handed_over(py, states, &shape)?.into_any(),
        lengths: lengths.transpose()?.map(Bound::into_any),
        tape: Tape::new(backward, run, cancel),
    })
}

/// Relaxed samples from states chosen at random; `settings` is a JSON object.
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
        either!(model, SemiMarkov, semi => sparse(py, semi, method, drawn, run), {
            Err(not_a_sequence())
        })
    })
}

fn sparse<'py, M>(
    py: Python<'py>,
    model: &M,
    method: RandomizedForward,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>>
where
    M: SequenceModel<Real: CotangentOf, Drawn: HardPath, FactorMarginals: IntoValue<M>> + 'static,
{
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (drawn, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        method.relaxed_samples_with_tape(&model, count, temperature, run)
    })?;
    let SparseSamples { samples, log_weights } = drawn;
    let (mut index, mut values, mut hard) = (Vec::new(), Vec::new(), Vec::new());
    let (mut length_index, mut lengths, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (b, samples) in samples.into_iter().enumerate() {
        let size = |sample: &SparsePath<_, _>| (sample.values.len(), sample.lengths.len());
        sizes.push(samples.iter().map(size).collect::<Vec<(usize, usize)>>());
        for (s, sample) in samples.iter().enumerate() {
            for (m, end) in sample.hard.ends().into_iter().enumerate() {
                for &state in &sample.states[sample.offsets[m]..sample.offsets[m + 1]] {
                    index.extend([b as i64, s as i64, end, i64::from(state)]);
                }
                if M::SEGMENTS {
                    for d in 0..sample.length_offsets[m + 1] - sample.length_offsets[m] {
                        length_index.extend([b as i64, s as i64, end, d as i64]);
                    }
                }
            }
            values.extend_from_slice(&sample.values);
            lengths.extend_from_slice(&sample.lengths);
        }
        hard.push(samples.into_iter().map(|sample| sample.hard).collect());
    }
    let (entries, length_entries) = (values.len(), lengths.len());
    let hard = M::Drawn::arrays(py, own.chain().lengths(), &hard)?;
    // The cotangents of values and lengths are concatenated.
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let weights = M::Real::weights(cotangent)?;
        let (mut of_values, mut of_lengths) = weights.split_at(entries.min(weights.len()));
        let mut take = |&(values, lengths): &(usize, usize)| {
            (taken(&mut of_values, values), taken(&mut of_lengths, lengths))
        };
        let nested: Vec<Vec<SparseCotangent<M::Real>>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![named(tape.vjp(&nested)?, &own)])
    });
    let length_index = M::SEGMENTS.then(|| handed_over(py, length_index, &[length_entries, 4]));
    Ok(Sparse {
        hard,
        index: handed_over(py, index, &[entries, 4])?,
        values: PyArray1::from_vec(py, values).into_any(),
        length_index: length_index.transpose()?,
        lengths: M::SEGMENTS.then(|| PyArray1::from_vec(py, lengths).into_any()),
        log_weights: log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(backward, run, cancel),
    })
}

/// Removes and returns the first numbers of a list, or all if there are fewer.
pub fn taken<F: Copy>(rest: &mut &[F], size: usize) -> Vec<F> {
    let (own, after) = rest.split_at(size.min(rest.len()));
    *rest = after;
    own.to_vec()
}

fn not_a_sequence() -> PyErr {
    crate::error::argument("model", "relaxed samples are of sequences")
}
