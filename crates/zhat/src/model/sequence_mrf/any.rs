//! A cyclic sequence model as a dynamic model: summary and tensors.

use std::borrow::Cow;

use super::{Interactions, SequenceMrf};
use crate::error::Result;
use crate::model::FactorGraph;
use crate::model::any::{self, AnyModel, Kind, Model, Summary};
use crate::model::factor_graph::check_moderate;
use crate::query::Answers;
use crate::tensor::{Tensor, TensorMap};
use crate::units;

impl SequenceMrf {
    /// The name of the kind.
    pub const KIND: Kind = Kind::new("sequence-mrf");
}

impl Answers for SequenceMrf {
    type Number = f64;
}

impl AnyModel for SequenceMrf {
    fn kind(&self) -> Kind {
        SequenceMrf::KIND
    }

    fn summary(&self) -> Summary {
        let (length, states, context) = (self.length(), self.states(), self.context());
        let (rank, form) = match self.interactions() {
            Interactions::Full(_) => (None, "full matrices".to_owned()),
            Interactions::LowRank { rank, .. } => (Some(*rank), format!("embeddings of length {rank}")),
        };
        Summary::default()
            .figure("length", length)
            .figure("states", states)
            .figure("context", context)
            .figure("rank", rank)
            .figure("bytes", self.bytes())
            .line("kind", SequenceMrf::KIND.name())
            .line("cycle", format!("{length} positions of {states} states"))
            .line("interactions", format!("up to {context} apart, {form}"))
            .line("numbers", units::bytes(self.bytes() as f64))
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        fn pieces(matrices: &[Vec<f32>]) -> Vec<Cow<'_, [f32]>> {
            matrices.iter().map(|matrix| Cow::Borrowed(matrix.as_slice())).collect()
        }
        let (states, context) = (self.states(), self.context());
        let mut tensors = vec![
            Tensor::integers("length", &[1], [self.length()]),
            Tensor::new("unary", &[states], self.unary()),
        ];
        match self.interactions() {
            Interactions::Full(matrices) => {
                tensors.push(Tensor::of_pieces("interactions", &[context, states, states], pieces(matrices)));
            }
            Interactions::LowRank { rank, left, right } => {
                tensors.push(Tensor::new("left", &[states, *rank], left.as_slice()));
                tensors.push(Tensor::of_pieces("right", &[context, states, *rank], pieces(right)));
            }
        }
        tensors
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn to_factor_graph(&self) -> Result<FactorGraph> {
        SequenceMrf::to_factor_graph(self)
    }
}

impl SequenceMrf {
    /// The factor graph of the cycle: one factor for each position, and one for each interacting pair.
    ///
    /// # Errors
    /// If the tables would have more than 10⁸ values.
    pub fn to_factor_graph(&self) -> Result<FactorGraph> {
        let (length, states) = (self.length(), self.states());
        check_moderate(length as f64 * self.context() as f64 * (states as f64).powi(2))?;
        let mut graph = FactorGraph::new(vec![states; length])?;
        for i in 0..length {
            graph.add_factor(&[i], self.unary())?;
        }
        for l in 1..=self.context() {
            let entries = (0..states * states).map(|e| self.interaction(l, e / states, e % states));
            let table: Vec<f64> = entries.collect();
            for i in 0..length {
                graph.add_factor(&[i, (i + l) % length], &table)?;
            }
        }
        Ok(graph)
    }
}

/// Reads a cyclic sequence model.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    Ok(sequence_mrf(tensors)?.into())
}

/// A tensor split along its first axis.
pub(crate) fn rows<T: Clone>(values: &[T], rows: usize) -> Vec<Vec<T>> {
    let length = values.len().checked_div(rows).unwrap_or(0);
    (0..rows).map(|row| values[row * length..(row + 1) * length].to_vec()).collect()
}

/// The model of a file.
pub(crate) fn sequence_mrf(tensors: &mut TensorMap) -> Result<SequenceMrf> {
    let &[states] = tensors.shape("unary")?.as_slice() else {
        return Err(tensors.error("the tensor `unary` has another shape than [C]"));
    };
    let unary: Vec<f64> = tensors.take_shaped("unary", &[states], "[C]")?;
    let length = tensors.integers("length")?.first().copied().unwrap_or(0);
    let interactions = if tensors.has("left") {
        let (left, right) = (tensors.shape("left")?, tensors.shape("right")?);
        let (&[_, rank], &[context, ..]) = (left.as_slice(), right.as_slice()) else {
            return Err(tensors.error("the embeddings have other shapes than [C, D] and [K, C, D]"));
        };
        let left = tensors.take_shaped("left", &[states, rank], "[C, D]")?;
        let right: Vec<f32> = tensors.take_shaped("right", &[context, states, rank], "[K, C, D]")?;
        Interactions::LowRank { rank, left, right: rows(&right, context) }
    } else {
        let context = tensors.shape("interactions")?.first().copied().unwrap_or(0);
        let matrices: Vec<f32> =
            tensors.take_shaped("interactions", &[context, states, states], "[K, C, C]")?;
        Interactions::Full(rows(&matrices, context))
    };
    SequenceMrf::new(length, unary, interactions).map_err(|error| tensors.error(error.to_string()))
}
