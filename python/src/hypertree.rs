//! Trees over words, built from arrays that are used in place.

use numpy::{PyArrayDyn, PyArrayMethods, PyUntypedArrayMethods};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use zhat::model::{Hypertree, Rule, Rules, Spans, Symbols, TreeNames, UnaryRule, Values};
use zhat::query::Constituent;

use crate::array::{self, Precision};
use crate::either;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::sequence::typed;

/// The names of the symbols, and the words of each sentence.
type Names = (Vec<String>, Vec<Vec<String>>);
/// The same, with the symbols that are left out of printed trees.
type AllNames = (Vec<String>, Vec<usize>, Vec<Vec<String>>);

/// Sentences from arrays by name, of one precision and used in place. Their shapes are those of
/// `zhat.Hypertree` for a batch; lists of symbols are 64-bit integers in ascending order. `symbols` are the
/// numbers of all symbols, of heads and of tags.
#[pyfunction]
pub fn hypertree(
    py: Python<'_>,
    arrays: &Bound<'_, PyDict>,
    lengths: Vec<usize>,
    symbols: (usize, usize, usize),
    names: Option<Names>,
) -> PyResult<Model> {
    let symbols = Symbols { all: symbols.0, heads: symbols.1, tags: symbols.2 };
    let words = arrays.get_item("words")?.ok_or_else(|| error::argument("words", "is missing"))?;
    if words.cast::<PyArrayDyn<f32>>().is_ok() {
        Ok(Model::of(build::<f32>(py, arrays, lengths, symbols, names)?))
    } else {
        Ok(Model::of(build::<f64>(py, arrays, lengths, symbols, names)?))
    }
}

fn build<F: Precision>(
    py: Python<'_>,
    arrays: &Bound<'_, PyDict>,
    lengths: Vec<usize>,
    symbols: Symbols,
    names: Option<Names>,
) -> PyResult<Hypertree<F>> {
    // The values of an array and the number of its axes.
    let given = |name: &str| -> PyResult<Option<(Values<F>, Vec<usize>)>> {
        let Some(array) = arrays.get_item(name)? else { return Ok(None) };
        let array = typed::<F>(name, &array)?;
        Ok(Some((array::in_place(name, &array)?, array.shape().to_vec())))
    };
    let values = |name: &str| -> PyResult<Values<F>> {
        let found = given(name)?.ok_or_else(|| error::argument(name, "is missing"))?;
        Ok(found.0)
    };
    let rules = if let Some(list) = numbers::<3>(arrays, "rule_symbols")? {
        let rule = |[head, left, right]: [usize; 3]| Rule { head, left, right };
        Rules::Sparse { rules: list.into_iter().map(rule).collect(), scores: values("rules")? }
    } else if let Some((heads, shape)) = given("rule_heads")? {
        let rank = shape.last().copied().unwrap_or(0);
        Rules::LowRank { rank, heads, left: values("rule_left")?, right: values("rule_right")? }
    } else if let Some((scores, _)) = given("rules")? {
        Rules::Dense(scores)
    } else {
        Rules::Any
    };
    let spans = if let Some((spans, _)) = given("span_embeddings")? {
        Spans::Factored { spans, symbols: values("symbol_embeddings")? }
    } else {
        match given("spans")? {
            None => Spans::None,
            Some((values, shape)) if shape.len() == 4 => Spans::PerSymbol(values),
            Some((values, _)) => Spans::PerSpan(values),
        }
    };
    let unary = match numbers::<2>(arrays, "unary_symbols")? {
        None => None,
        Some(list) => {
            let rule = |[head, child]: [usize; 2]| UnaryRule { head, child };
            Some((list.into_iter().map(rule).collect::<Vec<_>>(), values("unary")?))
        }
    };
    let (words, roots) = (values("words")?, given("roots")?);
    let make = move || -> zhat::Result<Hypertree<F>> {
        let mut model = Hypertree::new(symbols, words, lengths, rules)?;
        // Names first: errors of unary rules use them.
        if let Some((symbols, words)) = names {
            model = model.with_names(TreeNames { symbols, hidden: Vec::new(), words })?;
        }
        if let Some((roots, _)) = roots {
            model = model.with_roots(roots)?;
        }
        model = model.with_spans(spans)?;
        match unary {
            Some((rules, scores)) => model.with_unary(rules, scores),
            None => Ok(model),
        }
    };
    Ok(py.detach(make).map_err(Failure)?)
}

/// The rows of an array of integers, if there is one.
fn numbers<const N: usize>(arrays: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<Vec<[usize; N]>>> {
    let Some(array) = arrays.get_item(name)? else { return Ok(None) };
    let array =
        array.cast::<PyArrayDyn<i64>>().map_err(|_| error::argument(name, "expected an array of i64"))?;
    let array = array.readonly();
    let of = |row: &[i64]| -> PyResult<[usize; N]> {
        let mut numbers = [0; N];
        for (number, &x) in numbers.iter_mut().zip(row) {
            *number = usize::try_from(x).map_err(|_| error::argument(name, "expected symbols from 0"))?;
        }
        Ok(numbers)
    };
    Ok(Some(array.as_slice()?.chunks_exact(N).map(of).collect::<PyResult<_>>()?))
}

/// The names of the symbols, the symbols that are left out of printed trees, and the words of each sentence.
#[pyfunction]
pub fn hypertree_names(model: &Model) -> PyResult<Option<AllNames>> {
    let parts = |names: &TreeNames| (names.symbols.clone(), names.hidden.clone(), names.words.clone());
    either!(model, Hypertree, trees => Ok(trees.names().map(parts)), Err(not_trees()))
}

/// The log weight of a tree over a sentence: the first word, last word and symbol of each node; −∞ if they are
/// no tree of the model.
#[pyfunction]
pub fn parse_score(model: &Model, sentence: usize, nodes: Vec<(usize, usize, usize)>) -> PyResult<f64> {
    either!(model, Hypertree, trees => {
        let Some(&words) = trees.lengths().get(sentence) else {
            return Err(error::argument("sentence", format!("there are {} sentences", trees.batch())));
        };
        let symbols = trees.symbols().all;
        let good = |&(first, last, symbol): &(usize, usize, usize)| {
            first <= last && last < words && symbol < symbols
        };
        if !nodes.iter().all(good) {
            let message = format!(
                "expected rows of a first word, a last word below {words} and a symbol below {symbols}"
            );
            return Err(error::argument("nodes", message));
        }
        let node = |(first, last, symbol)| Constituent { first, last, symbol };
        Ok(trees.score(sentence, &nodes.into_iter().map(node).collect::<Vec<_>>()))
    }, Err(not_trees()))
}

fn not_trees() -> PyErr {
    error::argument("model", "expected trees over words")
}
