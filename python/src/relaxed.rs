//! Relaxed samples with gradients: dense from exact messages, sparse from randomized messages.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use numpy::{PyArray1, PyArrayDyn};
use pyo3::prelude::*;
use zhat::dynamic::{
    ChartPasses, ForwardBackward, InsideOutside, RandomizedForward, RandomizedInside, SequenceModel,
    SparseCotangent, SparsePath, SparseSamples,
};
use zhat::model::Hypertree;
use zhat::query::{AnyValue, IntoValue, ParseTree, RelaxedSamples, Tensors};
use zhat::{Chain, Error, SemiMarkov};

use crate::array::{Precision, handed_over};
use crate::either;
use crate::model::Model;
use crate::ops::{Backward, Cotangent, Tape, configured, randomized};
use crate::run::Run;

/// A floating-point type whose cotangents are arrays of the same type.
pub trait CotangentOf: Precision + ChartPasses {
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
    /// For each sequence and sample, one segment per row: (state, length); or one node of a tree per row: (first
    /// word, last word, symbol).
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
    /// (B, count, T, N), or (B, count, T, T, S) for trees.
    soft: Bound<'py, PyAny>,
    /// (B, count, T, L), only for segments.
    lengths: Option<Bound<'py, PyAny>>,
    tape: Tape,
}

/// Sparse relaxed samples and their tape; a dict in Python.
#[derive(IntoPyObject)]
pub struct Sparse<'py> {
    hard: Hard<'py>,
    /// (sequence, sample, position, state) of each entry, or (sentence, sample, first word, last word, symbol).
    index: Bound<'py, PyArrayDyn<i64>>,
    values: Bound<'py, PyAny>,
    /// (sequence, sample, position, length − 1) of each entry of `lengths`, only for segments.
    length_index: Option<Bound<'py, PyArrayDyn<i64>>>,
    lengths: Option<Bound<'py, PyAny>>,
    /// For each sequence, the log weights of its samples.
    log_weights: Vec<Bound<'py, PyArray1<f64>>>,
    tape: Tape,
}

/// Relaxed samples of a chain, a semi-Markov chain or trees over words from all their states.
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
            either!(model, Hypertree, trees => dense_trees(py, trees, count, temperature, run), {
                Err(no_relaxation())
            })
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
    let drawn = (count, temperature);
    if model.get::<Hypertree<f32>>().is_some() || model.get::<Hypertree<f64>>().is_some() {
        let method = configured("randomized-inside", settings)?;
        return either!(model, Hypertree, trees => sparse_trees(py, trees, method, drawn, run), {
            Err(no_relaxation())
        });
    }
    let method = randomized(settings, scores)?;
    either!(model, Chain, chain => sparse(py, chain, method, drawn, run), {
        either!(model, SemiMarkov, semi => sparse(py, semi, method, drawn, run), {
            Err(no_relaxation())
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

fn no_relaxation() -> PyErr {
    crate::error::argument("model", "relaxed samples are of sequences and of trees over words")
}

/// The nodes of trees as arrays, one per sentence and sample.
fn tree_arrays<'py>(py: Python<'py>, drawn: &[Vec<&ParseTree>]) -> PyResult<Hard<'py>> {
    let one = |tree: &&ParseTree| {
        let row = |node: &zhat::query::Constituent| [node.first, node.last, node.symbol].map(|x| x as i64);
        handed_over(py, tree.nodes.iter().flat_map(row).collect(), &[tree.nodes.len(), 3])
    };
    let each = |drawn: &Vec<&ParseTree>| drawn.iter().map(one).collect::<PyResult<_>>();
    Ok(Hard::Segments(drawn.iter().map(each).collect::<PyResult<_>>()?))
}

fn dense_trees<'py, F: CotangentOf>(
    py: Python<'py>,
    model: &Hypertree<F>,
    count: usize,
    temperature: f64,
    run: &Bound<'py, Run>,
) -> PyResult<Dense<'py>>
where
    zhat::query::HypertreeGradient<F>: IntoValue<Hypertree<F>>,
{
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (trees, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        InsideOutside::default().relaxed_samples_with_tape(&model, count, temperature, run)
    })?;
    let hard: Vec<Vec<&ParseTree>> = trees.hard.iter().map(|own| own.iter().collect()).collect();
    let hard = tree_arrays(py, &hard)?;
    let backward: Arc<Backward> =
        Arc::new(move |cotangent| Ok(vec![named(tape.vjp(F::weights(cotangent)?)?, &own)]));
    let soft = handed_over(py, trees.values, &trees.shape)?.into_any();
    Ok(Dense { hard, soft, lengths: None, tape: Tape::new(backward, run, cancel) })
}

fn sparse_trees<'py, F: CotangentOf>(
    py: Python<'py>,
    model: &Hypertree<F>,
    method: RandomizedInside,
    (count, temperature): (usize, f64),
    run: &Bound<'py, Run>,
) -> PyResult<Sparse<'py>>
where
    zhat::query::HypertreeGradient<F>: IntoValue<Hypertree<F>>,
{
    let (cancel, own, model) = (Arc::<AtomicBool>::default(), model.clone(), model.clone());
    let (drawn, tape) = run.get().supervise_with(py, cancel.clone(), move |run| {
        method.relaxed_samples_with_tape(&model, count, temperature, run)
    })?;
    let hard: Vec<Vec<&ParseTree>> =
        drawn.samples.iter().map(|own| own.iter().map(|tree| &tree.hard).collect()).collect();
    let hard = tree_arrays(py, &hard)?;
    let (mut index, mut values, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
    for (b, trees) in drawn.samples.iter().enumerate() {
        sizes.push(trees.iter().map(|tree| tree.values.len()).collect::<Vec<usize>>());
        for (s, tree) in trees.iter().enumerate() {
            for node in &tree.nodes {
                index.extend([b, s, node.first, node.last, node.symbol].map(|x| x as i64));
            }
            values.extend_from_slice(&tree.values);
        }
    }
    let entries = values.len();
    let backward: Arc<Backward> = Arc::new(move |cotangent| {
        let mut rest = F::weights(cotangent)?;
        let mut take = |&size: &usize| taken(&mut rest, size);
        let nested: Vec<Vec<Vec<F>>> =
            sizes.iter().map(|sizes| sizes.iter().map(&mut take).collect()).collect();
        Ok(vec![named(tape.vjp(&nested)?, &own)])
    });
    Ok(Sparse {
        hard,
        index: handed_over(py, index, &[entries, 5])?,
        values: PyArray1::from_vec(py, values).into_any(),
        length_index: None,
        lengths: None,
        log_weights: drawn.log_weights.into_iter().map(|logs| PyArray1::from_vec(py, logs)).collect(),
        tape: Tape::new(backward, run, cancel),
    })
}
