//! Random pairwise graphs.

use crate::error::{Error, Result};
use crate::model::chain::generate::{TransitionForm, normals};
use crate::model::generate::affordable;
use crate::model::{PairwiseGraph, Transitions, Values};
use crate::numeric::Real;
use crate::random::Streams;

/// Sizes and strengths of a random pairwise graph.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairwiseShape {
    /// Rows of the grid.
    pub rows: usize,
    /// Columns of the grid.
    pub columns: usize,
    /// Generates a random tree of rows × columns variables instead of a grid.
    pub tree: bool,
    /// N.
    pub states: usize,
    /// The form of the interactions; `PerStep` means one table per edge.
    pub interactions: TransitionForm,
    /// The standard deviation of the node scores.
    pub strength: f64,
    /// The standard deviation of the interactions.
    pub coupling: f64,
}

impl Default for PairwiseShape {
    fn default() -> Self {
        PairwiseShape {
            rows: 10,
            columns: 10,
            tree: false,
            states: 100,
            interactions: TransitionForm::Shared,
            strength: 1.0,
            coupling: 0.5,
        }
    }
}

/// A grid or a random tree with normal scores; factored interactions have normal embeddings whose products
/// have the variance `coupling`².
///
/// # Errors
/// If `rows`, `columns` or `states` is 0, `strength` or `coupling` is not finite, or the scores do not fit in
/// memory.
///
/// ```
/// use zhat::model::generate::{pairwise, PairwiseShape};
/// let graph = pairwise::<f32>(&PairwiseShape { rows: 3, columns: 4, states: 20, ..Default::default() }, 7)?;
/// assert_eq!((graph.variables(), graph.edges().len()), (12, 17));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn pairwise<F: Real>(shape: &PairwiseShape, seed: u64) -> Result<PairwiseGraph<F>> {
    let &PairwiseShape { rows, columns, tree, states, interactions, strength, coupling } = shape;
    for (name, count) in [("rows", rows), ("columns", columns), ("states", states)] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    let (v, n) = (rows as f64 * columns as f64, states as f64);
    let parameters = match interactions {
        TransitionForm::Shared => n * n,
        TransitionForm::PerStep => 2.0 * v * n * n,
        TransitionForm::Factored { rank, .. } => 2.0 * n * rank as f64,
        // Refused below.
        _ => 0.0,
    };
    affordable((v * n + parameters) * size_of::<F>() as f64 / 16.0)?;
    let mut random = Streams::new(seed, "generate pairwise").block(0);
    let mut edges = Vec::new();
    for at in 0..rows * columns {
        if tree {
            if at > 0 {
                edges.push((random.below(at), at));
            }
            continue;
        }
        if at % columns + 1 < columns {
            edges.push((at, at + 1));
        }
        if at / columns + 1 < rows {
            edges.push((at, at + columns));
        }
    }
    let nodes: Vec<F> = normals(&mut random, rows * columns * states, strength);
    let mut numbers = |count: usize, scale: f64| -> Values<F> { normals(&mut random, count, scale).into() };
    let interactions = match interactions {
        TransitionForm::Shared => Transitions::Shared(numbers(states * states, coupling)),
        TransitionForm::PerStep => Transitions::PerStep(numbers(edges.len() * states * states, coupling)),
        TransitionForm::Factored { rank, tied } => {
            let scale = (coupling.abs() / (rank as f64).sqrt().max(1.0)).sqrt();
            let left = numbers(states * rank, scale);
            let right = (!tied).then(|| numbers(states * rank, scale));
            Transitions::Factored { left, right }
        }
        _ => {
            let message = "this form is for chains; expected shared, per-step or factored";
            return Err(Error::argument("interactions", message));
        }
    };
    PairwiseGraph::new(states, nodes.into(), edges, interactions)
}
