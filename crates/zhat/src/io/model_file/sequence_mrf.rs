//! Cyclic sequence models in `.zhat` files, those inside language models among them.

use super::tensors::{Tensors, Writer};
use crate::error::Result;
use crate::model::{Interactions, Kind, SequenceMrf};

/// A tensor cut along its first axis.
pub(super) fn rows<T: Clone>(values: &[T], rows: usize) -> Vec<Vec<T>> {
    let length = values.len().checked_div(rows).unwrap_or(0);
    (0..rows).map(|row| values[row * length..(row + 1) * length].to_vec()).collect()
}

pub(super) fn read(tensors: &Tensors<'_>) -> Result<SequenceMrf> {
    let &[states] = tensors.shape("unary")?.as_slice() else {
        return Err(tensors.fail("the tensor `unary` has another shape than [C]"));
    };
    let unary: Vec<f64> = tensors.shaped("unary", &[states], "[C]")?;
    let length = tensors.integers("length")?.first().copied().unwrap_or(0);
    let interactions = if tensors.has("left") {
        let (left, right) = (tensors.shape("left")?, tensors.shape("right")?);
        let (&[_, rank], &[context, ..]) = (left.as_slice(), right.as_slice()) else {
            return Err(tensors.fail("the embeddings have other shapes than [C, D] and [K, C, D]"));
        };
        let left = tensors.shaped("left", &[states, rank], "[C, D]")?;
        let right: Vec<f32> = tensors.shaped("right", &[context, states, rank], "[K, C, D]")?;
        Interactions::LowRank { rank, left, right: rows(&right, context) }
    } else {
        let context = tensors.shape("interactions")?.first().copied().unwrap_or(0);
        let matrices: Vec<f32> = tensors.shaped("interactions", &[context, states, states], "[K, C, C]")?;
        Interactions::Full(rows(&matrices, context))
    };
    SequenceMrf::new(length, unary, interactions).map_err(|error| tensors.fail(error.to_string()))
}

pub(super) fn write(model: &SequenceMrf) -> Writer<'_> {
    let mut writer = Writer::new(Kind::SequenceMrf.name());
    add(&mut writer, model);
    writer
}

/// The tensors of a model.
pub(super) fn add<'a>(writer: &mut Writer<'a>, model: &'a SequenceMrf) {
    let (states, context) = (model.states(), model.context());
    writer.integers("length", &[1], vec![model.length()]);
    writer.numbers("unary", &[states], vec![model.unary()]);
    let slices = |matrices: &'a [Vec<f32>]| matrices.iter().map(Vec::as_slice).collect::<Vec<&[f32]>>();
    match model.interactions() {
        Interactions::Full(matrices) => {
            writer.numbers("interactions", &[context, states, states], slices(matrices));
        }
        Interactions::LowRank { rank, left, right } => {
            writer.numbers("left", &[states, *rank], vec![left.as_slice()]);
            writer.numbers("right", &[context, states, *rank], slices(right));
        }
    }
}
