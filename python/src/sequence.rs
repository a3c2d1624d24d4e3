//! Chains and semi-Markov chains, built from arrays that are used in place.

use numpy::{PyArrayDyn, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::prelude::*;
use zhat::model::{Pattern, Segments, Transitions, Values};
use zhat::{Chain, Error, SemiMarkov};

use crate::array::{self, Precision};
use crate::either;
use crate::error::{self, Failure};
use crate::model::Model;

/// A state and the number of its positions.
type Segment = (usize, usize);

/// A chain from arrays of one precision that are used in place: `start` (N), `emissions` (B, T, N), and
/// `transitions` (N, N) or (T − 1, N, N), or `embeddings`: left and optionally right (N, D), or `factors`: the
/// log factors of low-rank transitions, (N, R) each; optionally `end` (N). With `pattern`, `transitions` are the
/// scores of the entries of compressed sparse rows (first entries of the rows, target states): (E) or (T − 1, E).
#[pyfunction]
#[allow(clippy::too_many_arguments)]
pub fn chain(
    py: Python<'_>,
    start: &Bound<'_, PyAny>,
    emissions: &Bound<'_, PyAny>,
    lengths: Vec<usize>,
    transitions: Option<&Bound<'_, PyAny>>,
    embeddings: Option<Embeddings<'_>>,
    factors: Option<Pair<'_>>,
    end: Option<&Bound<'_, PyAny>>,
    pattern: Option<Lists<'_>>,
) -> PyResult<Model> {
    let (left, right) =
        embeddings.as_ref().map_or((None, None), |(left, right)| (Some(left), right.as_ref()));
    let given =
        Given { array: transitions, left, right, factors: factors.as_ref(), pattern: pattern.as_ref() };
    if emissions.cast::<PyArrayDyn<f32>>().is_ok() {
        Ok(Model::of(build::<f32>(py, [Some(start), end], emissions, lengths, &given)?))
    } else {
        Ok(Model::of(build::<f64>(py, [Some(start), end], emissions, lengths, &given)?))
    }
}

fn build<F: Precision>(
    py: Python<'_>,
    [start, end]: [Option<&Bound<'_, PyAny>>; 2],
    emissions: &Bound<'_, PyAny>,
    lengths: Vec<usize>,
    transitions: &Given<'_, '_>,
) -> PyResult<Chain<F>> {
    let emissions = typed::<F>("emissions", emissions)?;
    let &[batch, steps, n] = emissions.shape() else {
        return Err(shape_error("emissions", emissions.shape(), "(B, T, N)"));
    };
    if lengths.len() != batch {
        let message = format!("found {} of them for {batch} sequences", lengths.len());
        return Err(error::argument("lengths", message));
    }
    let of_states = |name: &str, array: Option<&Bound<'_, PyAny>>| {
        array.map(|array| given::<F>(name, array, &[n], "(N,)")).transpose()
    };
    let start = of_states("start", start)?.unwrap_or_else(|| vec![F::default(); n].into());
    let end = of_states("end", end)?;
    let tables = (steps.saturating_sub(1), "(T − 1, N, N)");
    let transitions = transitions_of("transitions", n, tables, transitions)?;
    let emissions = array::in_place("emissions", &emissions)?;
    let made = py.detach(|| {
        let chain = Chain::new(start, emissions, lengths, transitions)?;
        match end {
            None => Ok(chain),
            Some(end) => chain.with_end(end),
        }
    });
    Ok(made.map_err(Failure)?)
}

/// An array of this shape, used in place.
fn given<F: Precision>(
    name: &str,
    array: &Bound<'_, PyAny>,
    shape: &[usize],
    meaning: &str,
) -> PyResult<Values<F>> {
    let array = typed::<F>(name, array)?;
    if array.shape() != shape {
        return Err(shape_error(name, array.shape(), &format!("{meaning} = {}", tuple(shape))));
    }
    array::in_place(name, &array)
}

/// The left embeddings and possibly the right ones.
type Embeddings<'py> = (Bound<'py, PyAny>, Option<Bound<'py, PyAny>>);

/// Two arrays: the log factors of low-rank transitions.
type Pair<'py> = (Bound<'py, PyAny>, Bound<'py, PyAny>);

/// The first entries of the rows of a sparse table, and the target states of its entries.
type Lists<'py> = (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>);

/// The arrays of one form of transitions; the others are `None`.
pub struct Given<'a, 'py> {
    pub array: Option<&'a Bound<'py, PyAny>>,
    pub left: Option<&'a Bound<'py, PyAny>>,
    pub right: Option<&'a Bound<'py, PyAny>>,
    pub factors: Option<&'a Pair<'py>>,
    pub pattern: Option<&'a Lists<'py>>,
}

/// Transitions of a chain or interactions of a graph with n states: one table, as many tables as `tables`
/// says (with the name of that shape), embeddings, or log factors.
pub fn transitions_of<F: Precision>(
    name: &str,
    n: usize,
    (tables, meaning): (usize, &str),
    given_as: &Given<'_, '_>,
) -> PyResult<Transitions<F>> {
    // An N×R or N×D array, and its shape.
    let rows = |name: &str, array: &Bound<'_, PyAny>, letter: &str| {
        let array = typed::<F>(name, array)?;
        match array.shape() {
            &[rows, rank] if rows == n => Ok((array::in_place(name, &array)?, [n, rank])),
            other => Err(shape_error(name, other, &format!("(N, {letter}) with N = {n}"))),
        }
    };
    let &Given { array, left, right, factors, pattern } = given_as;
    if let (Some(array), Some((starts, targets))) = (array, pattern) {
        return sparse(name, n, tables, array, (starts, targets));
    }
    if let Some((left, right)) = factors {
        let (left, shape) = rows("log_left", left, "R")?;
        let right = given("log_right", right, &shape, "(N, R) as log_left")?;
        return Ok(Transitions::LowRank { left, right });
    }
    match (array, left) {
        (Some(array), None) if typed::<F>(name, array)?.ndim() == 3 => {
            Ok(Transitions::PerStep(given(name, array, &[tables, n, n], meaning)?))
        }
        (Some(array), None) if typed::<F>(name, array)?.ndim() == 4 => {
            let &[batch, ..] = typed::<F>(name, array)?.shape() else {
                return Err(error::argument(name, "expected four axes"));
            };
            let shape = [batch, tables, n, n];
            Ok(Transitions::PerSequence(given(name, array, &shape, "(B, T − 1, N, N)")?))
        }
        (Some(array), None) => Ok(Transitions::Shared(given(name, array, &[n, n], "(N, N)")?)),
        (None, Some(left)) => {
            let (left, shape) = rows("left", left, "D")?;
            let right = right.map(|right| given("right", right, &shape, "(N, D) as left")).transpose()?;
            Ok(Transitions::Factored { left, right })
        }
        _ => Err(error::argument(name, "either these or left is needed")),
    }
}

/// Sparse transitions: one score per entry, or one row of them per step.
fn sparse<F: Precision>(
    name: &str,
    n: usize,
    tables: usize,
    array: &Bound<'_, PyAny>,
    (starts, targets): (&PyReadonlyArray1<'_, i64>, &PyReadonlyArray1<'_, i64>),
) -> PyResult<Transitions<F>> {
    // A negative number becomes one that is out of range.
    let starts = starts.as_array().iter().map(|&x| usize::try_from(x).unwrap_or(usize::MAX)).collect();
    let targets = targets.as_array().iter().map(|&x| u32::try_from(x).unwrap_or(u32::MAX)).collect();
    let pattern = Pattern::new(n, starts, targets).map_err(Failure)?;
    let (entries, per_step) = (pattern.len(), typed::<F>(name, array)?.ndim() == 2);
    let values = match per_step {
        true => given(name, array, &[tables, entries], "(T − 1, E)")?,
        false => given(name, array, &[entries], "(E,)")?,
    };
    Ok(Transitions::Sparse { pattern, values, per_step })
}

/// A semi-Markov chain from a chain and segment scores (L, N) or (B, T, L, N), used in place.
#[pyfunction]
pub fn semi_markov(py: Python<'_>, chain: &Model, segments: &Bound<'_, PyAny>) -> PyResult<Model> {
    either!(chain, Chain, chain => Ok(Model::of(with_segments(py, chain, segments)?)), {
        Err(error::argument("chain", "a semi-Markov chain is made from a chain"))
    })
}

fn with_segments<F: Precision>(
    py: Python<'_>,
    chain: &Chain<F>,
    segments: &Bound<'_, PyAny>,
) -> PyResult<SemiMarkov<F>> {
    let array = typed::<F>("segments", segments)?;
    let (b, t, n) = (chain.batch(), chain.steps(), chain.states());
    let values = array::in_place("segments", &array)?;
    let (segments, longest) = match array.shape() {
        &[longest, states] if states == n => (Segments::Lengths(values), longest),
        &[batch, steps, longest, states] if [batch, steps, states] == [b, t, n] => {
            (Segments::Places(values), longest)
        }
        other => {
            let expected = format!("(L, N) = (L, {n}) or (B, T, L, N) = ({b}, {t}, L, {n})");
            return Err(shape_error("segments", other, &expected));
        }
    };
    let chain = chain.clone();
    Ok(py.detach(|| SemiMarkov::new(chain, segments, longest)).map_err(Failure)?)
}

/// A hidden Markov model from arrays of probabilities of one precision and lists of symbols.
#[pyfunction]
pub fn hmm(
    start: &Bound<'_, PyAny>,
    transitions: &Bound<'_, PyAny>,
    emissions: &Bound<'_, PyAny>,
    observations: Vec<Vec<usize>>,
) -> PyResult<Model> {
    if start.cast::<PyArrayDyn<f32>>().is_ok() {
        Ok(Model::of(hidden::<f32>(start, transitions, emissions, &observations)?))
    } else {
        Ok(Model::of(hidden::<f64>(start, transitions, emissions, &observations)?))
    }
}

fn hidden<F: Precision>(
    start: &Bound<'_, PyAny>,
    transitions: &Bound<'_, PyAny>,
    emissions: &Bound<'_, PyAny>,
    observations: &[Vec<usize>],
) -> PyResult<Chain<F>> {
    let values = |name: &str, array: &Bound<'_, PyAny>| array::in_place(name, &typed::<F>(name, array)?);
    let (start, transitions) = (values("start", start)?, values("transitions", transitions)?);
    let emissions = values("emissions", emissions)?;
    Ok(Chain::hmm(&start, &transitions, &emissions, observations).map_err(Failure)?)
}

/// The log weight of a path of a chain.
#[pyfunction]
pub fn path_score(model: &Model, sequence: usize, path: Vec<usize>) -> PyResult<f64> {
    let (length, states) = sequence_sizes(model, sequence)?;
    if path.len() != length {
        let message = format!("sequence {sequence} has {length} positions, found {}", path.len());
        return Err(error::argument("path", message));
    }
    if let Some(state) = path.iter().find(|&&state| state >= states) {
        return Err(error::argument("path", format!("there are {states} states, so there is no {state}")));
    }
    either!(model, Chain, chain => Ok(chain.score(sequence, &path)), {
        Err(error::argument("path", "of a semi-Markov chain segments have a score"))
    })
}

/// The log weight of a segmentation of a semi-Markov chain.
#[pyfunction]
pub fn segments_score(model: &Model, sequence: usize, segments: Vec<Segment>) -> PyResult<f64> {
    let (length, states) = sequence_sizes(model, sequence)?;
    let longest = either!(model, SemiMarkov, semi => semi.longest(), return Err(not_sequences()));
    let fits = |&(state, positions): &Segment| state < states && (1..=longest).contains(&positions);
    let covered = segments.iter().try_fold(0usize, |sum, segment| sum.checked_add(segment.1));
    if !segments.iter().all(fits) || covered != Some(length) {
        let message = format!(
            "expected pairs of a state below {states} and a length of 1 to {longest}, {length} positions in all"
        );
        return Err(error::argument("segments", message));
    }
    either!(model, SemiMarkov, semi => Ok(semi.score(sequence, &segments)), Err(not_sequences()))
}

/// The length of a sequence and the number of states.
fn sequence_sizes(model: &Model, sequence: usize) -> PyResult<(usize, usize)> {
    let batch = model.inner().batch().ok_or_else(not_sequences)?;
    let length = batch.lengths.get(sequence).ok_or_else(|| {
        error::argument("sequence", format!("there are {}, so there is no {sequence}", batch.lengths.len()))
    })?;
    let states = either!(model, Chain, chain => chain.states(), {
        either!(model, SemiMarkov, semi => semi.chain().states(), return Err(not_sequences()))
    });
    Ok((*length, states))
}

/// The array in the precision of the model.
pub fn typed<'py, F: Precision>(
    name: &str,
    array: &Bound<'py, PyAny>,
) -> PyResult<Bound<'py, PyArrayDyn<F>>> {
    let found = array.cast::<PyArrayDyn<F>>();
    found.cloned().map_err(|_| error::argument(name, format!("expected an array of {}", F::NAME)))
}

pub fn shape_error(name: &str, found: &[usize], expected: &str) -> PyErr {
    Failure(Error::Model(format!("{name}: found shape {}, expected {expected}", tuple(found)))).into()
}

/// A shape in Python syntax.
fn tuple(shape: &[usize]) -> String {
    let lengths: Vec<String> = shape.iter().map(ToString::to_string).collect();
    format!("({}{})", lengths.join(", "), if shape.len() == 1 { "," } else { "" })
}

fn not_sequences() -> PyErr {
    error::argument("model", "expected a chain or a semi-Markov chain")
}
