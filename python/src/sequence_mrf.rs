//! Cyclic sequence models.

use numpy::{PyReadonlyArray1, PyReadonlyArray2, PyReadonlyArray3, PyUntypedArrayMethods};
use pyo3::prelude::*;
use zhat::model::generate::{self, SequenceMrfShape};
use zhat::model::{Interactions, SequenceMrf};

use crate::error::{self, Failure};
use crate::model::Model;

/// The slices of a tensor along its first axis.
fn matrices(array: &PyReadonlyArray3<'_, f32>) -> PyResult<Vec<Vec<f32>>> {
    let size = array.shape()[1] * array.shape()[2];
    let numbers = array.as_slice()?;
    Ok((0..array.shape()[0]).map(|l| numbers[l * size..(l + 1) * size].to_vec()).collect())
}

/// A model from scores (C,) and interactions (K, C, C), or embeddings (C, D) and (K, C, D).
#[pyfunction]
pub fn sequence_mrf(
    length: usize,
    unary: PyReadonlyArray1<'_, f64>,
    interactions: Option<PyReadonlyArray3<'_, f32>>,
    left: Option<PyReadonlyArray2<'_, f32>>,
    right: Option<PyReadonlyArray3<'_, f32>>,
) -> PyResult<Model> {
    let interactions = match (interactions, left, right) {
        (Some(interactions), None, None) => {
            if interactions.shape()[1] != interactions.shape()[2] {
                return Err(error::argument("interactions", "expected the shape (K, C, C)"));
            }
            Interactions::Full(matrices(&interactions)?)
        }
        (None, Some(left), Some(right)) => {
            let rank = left.shape()[1];
            if right.shape()[2] != rank {
                return Err(error::argument("right", "expected the shape (K, C, D), D that of `left`"));
            }
            Interactions::LowRank { rank, left: left.as_slice()?.to_vec(), right: matrices(&right)? }
        }
        _ => return Err(error::argument("interactions", "expected either these, or `left` and `right`")),
    };
    Ok(Model::of(SequenceMrf::new(length, unary.as_slice()?.to_vec(), interactions).map_err(Failure)?))
}

fn of(model: &Model) -> PyResult<&SequenceMrf> {
    model.get().ok_or_else(|| error::argument("model", "expected a cyclic sequence model"))
}

/// The score of a cycle of states.
#[pyfunction]
pub fn cycle_score(model: &Model, states: Vec<usize>) -> PyResult<f64> {
    let model = of(model)?;
    if states.len() != model.length() {
        let message = format!("expected {} states, found {}", model.length(), states.len());
        return Err(error::argument("states", message));
    }
    if let Some(state) = states.iter().find(|state| **state >= model.states()) {
        let message = format!("found {state}, expected 0 to {}", model.states() - 1);
        return Err(error::argument("states", message));
    }
    Ok(model.score(&states))
}

/// See `zhat.generate.sequence_mrf`.
#[pyfunction]
pub fn random_sequence_mrf(
    sizes: (usize, usize, usize, Option<usize>),
    strength: f64,
    coupling: f64,
    seed: u64,
) -> PyResult<Model> {
    let (length, states, context, rank) = sizes;
    let shape = SequenceMrfShape { length, states, context, rank, strength, coupling };
    Ok(Model::of(generate::sequence_mrf(&shape, seed).map_err(Failure)?))
}
