//! Pairwise graphs in `.zhat` files.

use safetensors::Dtype;

use super::sequences::{add_transitions, transitions};
use super::tensors::{Stored, Tensors, Writer};
use crate::error::Result;
use crate::model::{Kind, Model, PairwiseGraph};

/// Reads a graph in the precision of its nodes.
pub(super) fn read(tensors: &Tensors<'_>) -> Result<Model> {
    match tensors.dtype("nodes")? {
        Dtype::F32 => Ok(Model::Pairwise32(graph(tensors)?)),
        Dtype::F64 => Ok(Model::Pairwise64(graph(tensors)?)),
        other => Err(tensors.fail(format!("the tensor `nodes` has type {other:?}, expected F32 or F64"))),
    }
}

fn graph<F: Stored>(tensors: &Tensors<'_>) -> Result<PairwiseGraph<F>> {
    let found = tensors.shape("nodes")?;
    let &[variables, states] = found.as_slice() else {
        return Err(tensors.fail(format!("the tensor `nodes` has shape {found:?}, expected [V, N]")));
    };
    if variables == 0 || states == 0 {
        let message = format!("the tensor `nodes` has shape {found:?}; V and N are at least 1");
        return Err(tensors.fail(message));
    }
    let found = tensors.shape("edges")?;
    let &[count, 2] = found.as_slice() else {
        return Err(tensors.fail(format!("the tensor `edges` has shape {found:?}, expected [E, 2]")));
    };
    let ends = tensors.integers("edges")?;
    let edges = ends.as_chunks::<2>().0.iter().map(|&[i, j]| (i, j)).collect();
    let interactions = transitions(tensors, states, count + 1)?;
    let nodes: Vec<F> = tensors.numbers("nodes")?;
    PairwiseGraph::new(states, nodes.into(), edges, interactions)
        .map_err(|error| tensors.fail(error.to_string()))
}

pub(super) fn write<F: Stored>(graph: &PairwiseGraph<F>) -> Writer<'_> {
    let mut file = Writer::new(Kind::PairwiseGraph.name());
    // Eight bytes a number first, so that every tensor starts where its numbers may lie.
    let ends = graph.edges().iter().flat_map(|&(i, j)| [i, j]).collect();
    file.integers("edges", &[graph.edges().len(), 2], ends);
    file.numbers("nodes", &[graph.variables(), graph.states()], vec![graph.nodes()]);
    add_transitions(&mut file, graph.interactions(), graph.states());
    file
}
