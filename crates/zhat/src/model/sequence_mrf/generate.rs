//! Random cyclic sequence models.

use crate::error::{Error, Result};
use crate::model::chain::generate::normals;
use crate::model::generate::affordable;
use crate::model::{Interactions, SequenceMrf};
use crate::random::Streams;

/// Sizes and strengths of a random cyclic sequence model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SequenceMrfShape {
    /// N.
    pub length: usize,
    /// C.
    pub states: usize,
    /// K.
    pub context: usize,
    /// D; `None` for full matrices.
    pub rank: Option<usize>,
    /// The standard deviation of the unary scores.
    pub strength: f64,
    /// The standard deviation of the interactions.
    pub coupling: f64,
}

impl Default for SequenceMrfShape {
    fn default() -> Self {
        SequenceMrfShape { length: 1000, states: 10, context: 1, rank: None, strength: 1.0, coupling: 0.5 }
    }
}

/// A cycle with normal scores; the products of normal embeddings have the variance `coupling`².
///
/// # Errors
/// If `states`, `context` or `rank` is 0, `length` does not exceed `context`, `strength` or `coupling` is not
/// finite, or the parameters do not fit in memory.
///
/// ```
/// use zhat::model::generate::{sequence_mrf, SequenceMrfShape};
/// let model = sequence_mrf(&SequenceMrfShape { states: 5, context: 2, ..Default::default() }, 7)?;
/// assert_eq!((model.length(), model.states(), model.context()), (1000, 5, 2));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn sequence_mrf(shape: &SequenceMrfShape, seed: u64) -> Result<SequenceMrf> {
    let &SequenceMrfShape { length, states, context, rank, strength, coupling } = shape;
    for (name, count) in [("states", states), ("context", context), ("rank", rank.unwrap_or(1))] {
        if count == 0 {
            return Err(Error::argument(name, "must be at least 1"));
        }
    }
    let numbers = match rank {
        Some(rank) => (1 + context) as f64 * states as f64 * rank as f64,
        None => context as f64 * (states as f64).powi(2),
    };
    affordable((numbers + states as f64) / 4.0)?;
    let mut random = Streams::new(seed, "generate sequence model").block(0);
    let unary = normals(&mut random, states, strength);
    let interactions = match rank {
        Some(rank) => {
            let scale = (coupling.abs() / (rank as f64).sqrt()).sqrt();
            let left = normals(&mut random, states * rank, scale);
            let right = (0..context).map(|_| normals(&mut random, states * rank, scale)).collect();
            Interactions::LowRank { rank, left, right }
        }
        None => Interactions::Full(
            (0..context).map(|_| normals(&mut random, states * states, coupling)).collect(),
        ),
    };
    SequenceMrf::new(length, unary, interactions)
}
