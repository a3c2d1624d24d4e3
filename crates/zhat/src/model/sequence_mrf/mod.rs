//! Order-K Markov random fields on a cycle, with parameters shared by all positions.
//!
//! N positions with C states each: score(x) = Σᵢ θ⁰(xᵢ) + Σᵢ Σ_{l ≤ K} θˡ(xᵢ, xᵢ₊ₗ), with positions modulo N.
//! The interactions are full matrices or products of embeddings, θˡ = U·(Wˡ)ᵀ; θˡ = U·Rˡ·Wᵀ is a special case
//! ([`SequenceMrf::rotated`]).
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random
//! field language models*, ICML 2015.

pub(crate) mod any;
pub(in crate::model) mod generate;

use crate::error::{Error, Result};
use crate::numeric::{Elementwise, Matrix, multiply};

/// The interactions θ¹, …, θᴷ, row-major.
#[derive(Clone, Debug, PartialEq)]
pub enum Interactions {
    /// C × C each; −∞ is allowed.
    Full(Vec<Vec<f32>>),
    /// θˡ = U·(Wˡ)ᵀ.
    LowRank {
        /// D, the columns of U and of every Wˡ.
        rank: usize,
        /// U, C × D.
        left: Vec<f32>,
        /// W¹, …, Wᴷ, each C × D.
        right: Vec<Vec<f32>>,
    },
}

/// An order-K Markov random field on a cycle; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub struct SequenceMrf {
    length: usize,
    unary: Vec<f64>,
    interactions: Interactions,
    /// Upper bounds on |θ⁰| and |θˡ|.
    magnitude: (f64, f64),
}

impl SequenceMrf {
    /// A cycle of `length` positions, which must exceed K, so that no position interacts with itself.
    ///
    /// # Errors
    /// If there is no state or no interaction, `length` does not exceed K, an array has the wrong length, a
    /// score is NaN or +∞, or an embedding is not finite.
    ///
    /// ```
    /// use zhat::model::{Interactions, SequenceMrf};
    /// let theta = vec![0.5, -1.0, 0.0, 2.0];
    /// let model = SequenceMrf::new(10, vec![0.0, 0.1], Interactions::Full(vec![theta]))?;
    /// assert_eq!((model.states(), model.context()), (2, 1));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn new(length: usize, unary: Vec<f64>, interactions: Interactions) -> Result<Self> {
        let states = unary.len();
        if states == 0 {
            return Err(Error::model("a sequence model must have one state at least"));
        }
        if unary.iter().any(|x| x.is_nan() || *x == f64::INFINITY) {
            return Err(Error::model("the scores of states must be finite or −∞"));
        }
        let sized = |matrix: &[f32], columns: usize, name: &str, infinite: bool| {
            if Some(matrix.len()) != states.checked_mul(columns) {
                let found = matrix.len();
                return Err(Error::model(format!(
                    "{name} has {found} numbers, expected {states} × {columns}"
                )));
            }
            let fine = |x: &f32| x.is_finite() || infinite && *x == f32::NEG_INFINITY;
            let ends = if infinite { "finite or −∞" } else { "finite" };
            if matrix.iter().all(fine) {
                Ok(())
            } else {
                Err(Error::model(format!("the numbers of {name} must be {ends}")))
            }
        };
        let context = match &interactions {
            Interactions::Full(matrices) => {
                for (l, matrix) in matrices.iter().enumerate() {
                    sized(matrix, states, &format!("the interaction {} apart", l + 1), true)?;
                }
                matrices.len()
            }
            Interactions::LowRank { rank, left, right } => {
                sized(left, *rank, "the left embedding", false)?;
                for (l, matrix) in right.iter().enumerate() {
                    sized(matrix, *rank, &format!("the right embedding {} apart", l + 1), false)?;
                }
                right.len()
            }
        };
        if context == 0 {
            return Err(Error::model("a sequence model must have interactions at distance 1 at least"));
        }
        if length <= context {
            return Err(Error::model(format!(
                "a cycle of {length} positions is too short for a context of {context}; expected {} at least",
                context + 1
            )));
        }
        let magnitude = magnitude(&unary, &interactions);
        Ok(SequenceMrf { length, unary, interactions, magnitude })
    }

    /// θˡ = U·Rˡ·Wᵀ with one D × D matrix per distance; it is stored as U·(Wˡ)ᵀ with Wˡ = W·(Rˡ)ᵀ in single
    /// precision.
    ///
    /// # Errors
    /// If the shapes do not agree; also as [`SequenceMrf::new`].
    pub fn rotated(
        length: usize,
        unary: Vec<f64>,
        left: Vec<f32>,
        rotations: &[Vec<f32>],
        right: &[f32],
    ) -> Result<Self> {
        let states = unary.len().max(1);
        let rank = left.len() / states;
        if right.len() != left.len() || rotations.iter().any(|rotation| rotation.len() != rank * rank) {
            return Err(Error::model(format!(
                "embeddings of {} and {} numbers for {states} states do not fit their D × D matrices",
                left.len(),
                right.len()
            )));
        }
        let rotated = |rotation: &Vec<f32>| {
            let mut product = vec![0.0; right.len()];
            let rotation = Matrix::row_major(rotation, rank, rank).transposed();
            if rank > 0 {
                multiply(Matrix::row_major(right, states, rank), rotation, &mut product, false);
            }
            product
        };
        let right = rotations.iter().map(rotated).collect();
        SequenceMrf::new(length, unary, Interactions::LowRank { rank, left, right })
    }

    /// The same parameters on a cycle of another length.
    ///
    /// # Errors
    /// If `length` does not exceed K.
    pub fn with_length(&self, length: usize) -> Result<Self> {
        SequenceMrf::new(length, self.unary.clone(), self.interactions.clone())
    }

    /// The same interactions with other unary scores.
    pub(crate) fn with_unary(self, unary: Vec<f64>) -> Result<Self> {
        SequenceMrf::new(self.length, unary, self.interactions)
    }

    /// N.
    pub fn length(&self) -> usize {
        self.length
    }

    /// C.
    pub fn states(&self) -> usize {
        self.unary.len()
    }

    /// K.
    pub fn context(&self) -> usize {
        match &self.interactions {
            Interactions::Full(matrices) => matrices.len(),
            Interactions::LowRank { right, .. } => right.len(),
        }
    }

    /// The memory of the parameters, in bytes.
    pub fn bytes(&self) -> usize {
        let numbers = match &self.interactions {
            Interactions::Full(matrices) => matrices.iter().map(Vec::len).sum::<usize>(),
            Interactions::LowRank { left, right, .. } => {
                left.len() + right.iter().map(Vec::len).sum::<usize>()
            }
        };
        8 * self.unary.len() + 4 * numbers
    }

    /// θ⁰.
    pub fn unary(&self) -> &[f64] {
        &self.unary
    }

    /// θ¹, …, θᴷ.
    pub fn interactions(&self) -> &Interactions {
        &self.interactions
    }

    /// θˡ(x, y), summed in double precision.
    pub fn interaction(&self, apart: usize, x: usize, y: usize) -> f64 {
        match &self.interactions {
            Interactions::Full(matrices) => f64::from(matrices[apart - 1][x * self.states() + y]),
            Interactions::LowRank { rank, left, right } => {
                let (u, w) = (&left[x * rank..][..*rank], &right[apart - 1][y * rank..][..*rank]);
                u.iter().zip(w).map(|(&u, &w)| f64::from(u) * f64::from(w)).sum()
            }
        }
    }

    /// The score of a cycle of states.
    ///
    /// # Panics
    /// If a state is out of range.
    pub fn score(&self, states: &[usize]) -> f64 {
        let n = states.len();
        let at = |i: usize| {
            let pairs = (1..=self.context()).map(|l| self.interaction(l, states[i], states[(i + l) % n]));
            self.unary[states[i]] + pairs.sum::<f64>()
        };
        (0..n).map(at).sum()
    }

    /// Upper bounds on the finite |θ⁰| and |θˡ|.
    pub(crate) fn magnitude(&self) -> (f64, f64) {
        self.magnitude
    }
}

/// See [`SequenceMrf::magnitude`].
fn magnitude(unary: &[f64], interactions: &Interactions) -> (f64, f64) {
    let finite = unary.iter().filter(|x| x.is_finite());
    let unary = finite.fold(0.0f64, |m, x| m.max(x.abs()));
    let pairs = match interactions {
        Interactions::Full(matrices) => {
            matrices.iter().fold(0.0f64, |m, matrix| m.max(f32::extent(matrix).0.into()))
        }
        // By Cauchy–Schwarz; it also bounds the partial sums.
        Interactions::LowRank { rank, left, right } => {
            let longest = |matrix: &[f32]| {
                let rows = matrix.chunks_exact((*rank).max(1));
                rows.map(|row| f32::dot(row, row)).fold(0.0f64, f64::max).sqrt()
            };
            longest(left) * right.iter().map(|right| longest(right)).fold(0.0, f64::max) * (1.0 + 1e-6)
        }
    };
    (unary, pairs)
}
