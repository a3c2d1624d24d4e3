//! The conditional distribution of a position given its neighbours: p(y | x₋ₗ, xₗ) ∝ exp(θ⁰(y) + Σ_l θˡ(x₋ₗ,
//! y) + θˡ(y, xₗ)).
//!
//! With embeddings the scores of all states are one matrix product: the score of y is (U(y), W¹(y), …, Wᴷ(y))
//! times (Σ_l Wˡ(xₗ), U(x₋₁), …, U(x₋ₖ)). This takes C·D·(K+1) operations per position.

use crate::model::{Interactions, SequenceMrf};
use crate::numeric::{Elementwise, Matrix, multiply_here};
use crate::run::Run;

/// Number of positions whose scores are computed at once.
pub(crate) const BATCH: usize = 32;

/// A model prepared for conditional distributions.
pub(crate) struct Conditional<'a> {
    model: &'a SequenceMrf,
    /// C × D·(K+1), or empty for full matrices.
    features: Vec<f64>,
    width: usize,
}

impl<'a> Conditional<'a> {
    pub fn new(model: &'a SequenceMrf) -> Self {
        let states = model.states();
        let (features, width) = match model.interactions() {
            Interactions::Full(_) => (Vec::new(), 0),
            Interactions::LowRank { rank, left, right } => {
                let mut features = Vec::with_capacity(states * rank * (1 + right.len()));
                for y in 0..states {
                    for matrix in [left].into_iter().chain(right) {
                        features.extend(matrix[y * rank..(y + 1) * rank].iter().map(|&x| f64::from(x)));
                    }
                }
                (features, rank * (1 + right.len()))
            }
        };
        Conditional { model, features, width }
    }

    pub fn bytes(model: &SequenceMrf, run: &Run) -> f64 {
        let states = model.states() as f64;
        let width = match model.interactions() {
            Interactions::Full(_) => 0,
            Interactions::LowRank { rank, .. } => rank * (1 + model.context()),
        };
        8.0 * states * (width as f64 + (BATCH * run.threads()) as f64)
    }

    /// The state at a position, 0 outside.
    fn at(sentence: &[u32], place: isize) -> usize {
        usize::try_from(place).ok().and_then(|place| sentence.get(place)).map_or(0, |&state| state as usize)
    }

    /// The scores of all states at some positions of sequences, row by row. If `ahead` is false, the
    /// positions to the right are ignored.
    pub fn scores(&self, places: &[(&[u32], usize)], ahead: bool, scores: &mut [f64]) {
        let mrf = self.model;
        let (states, context) = (mrf.states(), mrf.context());
        if self.width == 0 {
            for (&(sentence, place), row) in places.iter().zip(scores.chunks_exact_mut(states)) {
                row.copy_from_slice(mrf.unary());
                for l in 1..=context {
                    let before = Self::at(sentence, place as isize - l as isize);
                    let after = Self::at(sentence, (place + l) as isize);
                    for (y, score) in row.iter_mut().enumerate() {
                        *score += mrf.interaction(l, before, y);
                        *score += if ahead { mrf.interaction(l, y, after) } else { 0.0 };
                    }
                }
            }
            return;
        }
        let rank = self.width / (context + 1);
        let mut around = vec![0.0; places.len() * self.width];
        for (&(sentence, place), around) in places.iter().zip(around.chunks_exact_mut(self.width)) {
            for l in 1..=context {
                let before = Self::at(sentence, place as isize - l as isize);
                around[l * rank..(l + 1) * rank]
                    .copy_from_slice(&self.features[before * self.width..][..rank]);
                if ahead {
                    let after = Self::at(sentence, (place + l) as isize);
                    let right = &self.features[after * self.width + l * rank..][..rank];
                    around[..rank].iter_mut().zip(right).for_each(|(a, w)| *a += w);
                }
            }
        }
        let around = Matrix::row_major(&around, places.len(), self.width);
        let features = Matrix::row_major(&self.features, states, self.width);
        multiply_here(around, features.transposed(), scores, false);
        scores.chunks_exact_mut(states).for_each(|row| f64::add_to(row, mrf.unary()));
    }
}
