//! Scores of structures, s(y) = ⟨θ, φ(y)⟩, and their changes under moves.
//!
//! | scores | spaces | s(y) | φ, in the order of θ |
//! |---|---|---|---|
//! | `Unary` | hypercube, subtrees | Σ θᵢ yᵢ | y |
//! | `Products` | hypercube, subtrees | Σᵢⱼ Θᵢⱼ yᵢ xⱼ, x given | y xᵀ |
//! | `Pairwise` | hypercube, subtrees | Σ θᵢ yᵢ + Σ w_ij yᵢ yⱼ | y, then the products |
//! | `Position` | permutations | Σ A\[item, position\] | n × n zeros and ones |
//! | `Precedence` | permutations | Σ B\[i, j\] over i before j | n × n zeros and ones |
//! | `Distance` | permutations | −θ d(y, reference) | −d |
//! | `Links` | cycles | Σ W_uv over the cycle's edges | u < v, n(n − 1)/2 zeros and ones |
//! | `Links` | partitions | Σ W_ij over pairs in one block | the same |
//! | `Custom` | all | user-defined | user-defined |
//!
//! All numbers are finite. The cost of a score change is proportional to the affected part, not to the whole
//! structure.

use std::fmt::Debug;

mod custom;
mod features;
mod pairs;
mod value;

use std::sync::Arc;

pub use custom::{Closure, Features};
pub(crate) use features::pair_index;
pub use pairs::Pairs;

use super::{Distance, Structures};
use crate::error::{Error, Result};

/// The scores: θ and the type of φ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Scores {
    /// One number per label or node.
    Unary(Vec<f64>),
    /// Labels × inputs.
    Products {
        /// Θ, row-major, one row per label.
        weights: Vec<f64>,
        /// x.
        inputs: Vec<f64>,
        /// Θx.
        unary: Vec<f64>,
    },
    /// Scores of labels and of pairs of labels.
    Pairwise(Pairs),
    /// A, with one row per item.
    Position(Vec<f64>),
    /// B, with one row per preceding item.
    Precedence(Vec<f64>),
    /// Minus θ times the distance to a reference.
    Distance {
        /// The distance.
        distance: Distance,
        /// The position of each item in the reference.
        places: Vec<u32>,
        /// θ; if positive, orders near the reference are more likely.
        spread: f64,
    },
    /// W, symmetric, with zeros on the diagonal.
    Links(Vec<f64>),
    /// User-defined scores.
    Custom(Arc<dyn Features>),
}

impl PartialEq for Scores {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Scores::Unary(a), Scores::Unary(b))
            | (Scores::Position(a), Scores::Position(b))
            | (Scores::Precedence(a), Scores::Precedence(b))
            | (Scores::Links(a), Scores::Links(b)) => a == b,
            (
                Scores::Products { weights, inputs, .. },
                Scores::Products { weights: other_weights, inputs: other_inputs, .. },
            ) => weights == other_weights && inputs == other_inputs,
            (Scores::Pairwise(a), Scores::Pairwise(b)) => a == b,
            (
                Scores::Distance { distance, places, spread },
                Scores::Distance { distance: other_distance, places: other_places, spread: other_spread },
            ) => distance == other_distance && places == other_places && spread == other_spread,
            (Scores::Custom(a), Scores::Custom(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// Checks that all numbers are finite.
fn finite(what: &str, numbers: &[f64]) -> Result<()> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Error::model(format!("{what} {at} is {}, expected a finite score", numbers[at]))),
        None => Ok(()),
    }
}

impl Scores {
    /// Σᵢ (Θx)ᵢ yᵢ: products of labels and inputs.
    ///
    /// # Errors
    /// If there are no inputs, the weights do not form rows of as many numbers, or a number is not finite.
    pub fn products(weights: Vec<f64>, inputs: Vec<f64>) -> Result<Self> {
        finite("weight", &weights)?;
        finite("input", &inputs)?;
        if inputs.is_empty() || !weights.len().is_multiple_of(inputs.len()) {
            let (found, columns) = (weights.len(), inputs.len());
            return Err(Error::model(format!("{found} weights make no rows of {columns} inputs")));
        }
        let product = |row: &[f64]| row.iter().zip(&inputs).map(|(w, x)| w * x).sum();
        let unary: Vec<f64> = weights.chunks(inputs.len()).map(product).collect();
        finite("the score of label", &unary)?;
        Ok(Scores::Products { weights, inputs, unary })
    }

    /// Unary scores and scores of pairs (i, j, w); each pair at most once.
    ///
    /// # Errors
    /// If a pair is out of range, has two equal elements or is listed twice.
    pub fn pairwise(unary: Vec<f64>, pairs: &[(usize, usize, f64)]) -> Result<Self> {
        Pairs::new(unary, pairs).map(Scores::Pairwise)
    }

    /// −spread · (distance to a reference order of the items).
    ///
    /// # Errors
    /// If `reference` is not a permutation of 0, …, n − 1.
    pub fn distance(distance: Distance, reference: &[usize], spread: f64) -> Result<Self> {
        let n = reference.len();
        let mut places = vec![u32::MAX; n];
        for (place, &item) in reference.iter().enumerate() {
            match places.get_mut(item) {
                Some(free) if *free == u32::MAX => *free = place as u32,
                _ => {
                    return Err(Error::model(format!(
                        "the reference is no order of {n} items: {item} at {place}"
                    )));
                }
            }
        }
        Ok(Scores::Distance { distance, places, spread })
    }

    /// Scores of pairs (i, j, w) of n vertices or elements; other pairs have score 0.
    ///
    /// # Errors
    /// If a pair is out of range or has two equal elements.
    pub fn links(n: usize, pairs: &[(usize, usize, f64)]) -> Result<Self> {
        let mut matrix = vec![0.0; n * n];
        for &(i, j, w) in pairs {
            if i >= n || j >= n || i == j {
                return Err(Error::model(format!("({i}, {j}) is no pair of two different ones of {n}")));
            }
            matrix[i * n + j] = w;
            matrix[j * n + i] = w;
        }
        Ok(Scores::Links(matrix))
    }

    /// Scores given by a function with a stated range. A score outside the range is an error.
    pub fn closure(
        function: impl Fn(&[u32]) -> Result<f64> + Send + Sync + 'static,
        low: f64,
        high: f64,
    ) -> Self {
        Scores::Custom(Arc::new(Closure { function, range: (low, high) }))
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Scores::Unary(_) => "unary",
            Scores::Products { .. } => "products",
            Scores::Pairwise(_) => "pairwise",
            Scores::Position(_) => "position",
            Scores::Precedence(_) => "precedence",
            Scores::Distance { .. } => "distance",
            Scores::Links(_) => "links",
            Scores::Custom(_) => "custom",
        }
    }

    /// The unary scores, if there are no others.
    pub(crate) fn unary(&self) -> Option<&[f64]> {
        match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => Some(unary),
            _ => None,
        }
    }

    /// Checks that the scores are defined for this space and that every number is finite.
    pub(crate) fn check(&self, space: &Structures) -> Result<()> {
        let n = space.as_space().width();
        let expect = |found: usize, expected: usize, what: &str| match found == expected {
            true => Ok(()),
            false => Err(Error::model(format!("there are {found} {what}, expected {expected}"))),
        };
        match (space, self) {
            (_, Scores::Custom(features)) => {
                let (low, high) = features.range();
                match low.is_finite() && high.is_finite() && low <= high {
                    true => Ok(()),
                    false => Err(Error::model(format!(
                        "the range of the scores is [{low}, {high}], expected finite ends"
                    ))),
                }
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Unary(unary)) => {
                expect(unary.len(), n, "scores")?;
                finite("score", unary)
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Products { unary, .. }) => {
                expect(unary.len(), n, "rows of weights")
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Pairwise(pairs)) => {
                expect(pairs.unary.len(), n, "single scores")?;
                finite("single score", &pairs.unary)?;
                finite("the score of pair", &pairs.weights)
            }
            (Structures::Permutations(_), Scores::Position(matrix) | Scores::Precedence(matrix)) => {
                expect(matrix.len(), n * n, "scores")?;
                finite("score", matrix)
            }
            (Structures::Permutations(_), Scores::Distance { places, spread, .. }) => {
                expect(places.len(), n, "items in the reference")?;
                finite("spread", &[*spread])
            }
            (Structures::Cycles(_) | Structures::Partitions(_), Scores::Links(matrix)) => {
                expect(matrix.len(), n * n, "scores of pairs")?;
                if let Some(v) = (0..n).find(|v| matrix[v * n + v] != 0.0) {
                    return Err(Error::model(format!(
                        "the pair ({v}, {v}) is of two equal ones, expected the score 0"
                    )));
                }
                let broken =
                    (0..n * n).find(|k| matrix[*k] != matrix[k % n * n + k / n] && !matrix[*k].is_nan());
                if let Some(k) = broken.filter(|k| matrix[*k].is_finite()) {
                    return Err(Error::model(format!(
                        "the scores of pairs ({}, {}) differ with the order",
                        k / n,
                        k % n
                    )));
                }
                finite("score", matrix)
            }
            _ => Err(Error::model(format!("{} have no {} scores", space.as_space().name(), self.name()))),
        }
    }
}
