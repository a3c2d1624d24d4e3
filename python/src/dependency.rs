//! Dependency trees, built from arrays that are used in place.

use numpy::{PyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use zhat::model::{DependencyTree, TreeShape};

use crate::array::{self, Precision};
use crate::either;
use crate::error::{self, Failure};
use crate::model::Model;
use crate::sequence::{shape_error, typed};

/// Sentences from arrays of one precision that are used in place: `arcs` (B, T, T) and `roots` (B, T), or
/// with labels (B, T, T, L) and (B, T, L).
#[pyfunction]
pub fn dependency(
    py: Python<'_>,
    arcs: &Bound<'_, PyAny>,
    roots: &Bound<'_, PyAny>,
    lengths: Vec<usize>,
    labelled: bool,
    projective: bool,
    single_root: bool,
) -> PyResult<Model> {
    let shape = TreeShape { projective, single_root };
    if arcs.cast::<PyArrayDyn<f32>>().is_ok() {
        Ok(Model::of(build::<f32>(py, arcs, roots, lengths, labelled, shape)?))
    } else {
        Ok(Model::of(build::<f64>(py, arcs, roots, lengths, labelled, shape)?))
    }
}

fn build<F: Precision>(
    py: Python<'_>,
    arcs: &Bound<'_, PyAny>,
    roots: &Bound<'_, PyAny>,
    lengths: Vec<usize>,
    labelled: bool,
    shape: TreeShape,
) -> PyResult<DependencyTree<F>> {
    let (arcs, roots) = (typed::<F>("arcs", arcs)?, typed::<F>("roots", roots)?);
    let labels = match (arcs.shape(), labelled) {
        (&[_, heads, words], false) if heads == words => None,
        (&[_, heads, words, labels], true) if heads == words => Some(labels),
        (other, false) => return Err(shape_error("arcs", other, "(B, T, T)")),
        (other, true) => return Err(shape_error("arcs", other, "(B, T, T, L)")),
    };
    if lengths.len() != arcs.shape()[0] {
        let message = format!("found {} of them for {} sentences", lengths.len(), arcs.shape()[0]);
        return Err(error::argument("lengths", message));
    }
    let (arcs, roots) = (array::in_place("arcs", &arcs)?, array::in_place("roots", &roots)?);
    Ok(py.detach(|| DependencyTree::new(arcs, roots, lengths, labels, shape)).map_err(Failure)?)
}

/// The log weight of a tree of a sentence: the head of each word and, if arcs have labels, their labels.
#[pyfunction]
pub fn tree_score(model: &Model, sentence: usize, heads: Vec<usize>, labels: Vec<usize>) -> PyResult<f64> {
    either!(model, DependencyTree, trees => {
        let Some(&words) = trees.lengths().get(sentence) else {
            return Err(error::argument("sentence", format!("there are {} sentences", trees.batch())));
        };
        let own = |(d, &head): (usize, &usize)| head <= words && head != d + 1;
        if heads.len() != words || !heads.iter().enumerate().all(own) {
            let message = format!("expected {words} heads: 0 for the root, 1 to {words} for words, none its own");
            return Err(error::argument("heads", message));
        }
        let count = trees.labels().map_or(0, |_| words);
        if labels.len() != count || labels.iter().any(|&label| label >= trees.per_arc()) {
            let message = format!("expected {count} labels below {}", trees.per_arc());
            return Err(error::argument("labels", message));
        }
        Ok(trees.score(sentence, &heads, &labels))
    }, Err(error::argument("model", "expected dependency trees")))
}
