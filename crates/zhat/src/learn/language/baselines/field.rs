//! A log-bilinear model of a cyclic text as a Markov random field with known log Z.
//!
//! p(y | x₋₁, …, x₋ₖ) = exp(b(y) + Σ_l φˡ(x₋ₗ, y) − log Z(x₋₁, …, x₋ₖ)) with φˡ = U·(Wˡ)ᵀ. The product over
//! all positions of a cycle is the weight of a field of order K with θ⁰ = b, θˡ = φˡ and the additional score
//! −log Z(x₁, …, x_K) of K neighbours. **For K ≤ 2 this is a score of single states or of adjacent pairs**,
//! so the field is pairwise: for K = 2
//!
//! ```text
//! θ⁰ = b,   θ¹(x, y) = φ¹(x, y) − log Z(y, x),   θ² = φ²,
//! ```
//!
//! where Z(y, x) is the normaliser at a position preceded by y, with x before y. The transfer matrix is
//! stochastic, so its eigenvalues are at most 1 in absolute value and log Z = log tr Tᴺ ≤ K·log C for any
//! length of the cycle: the certified log-likelihood of a text is Σ log p − K·log C. Conversely, every
//! pairwise field of order 2 has this form: with the right eigenvector r of its transfer matrix, p(y | x₁,
//! x₂) ∝ exp(θ⁰(y) + θ¹(x₁, y) + θ²(x₂, y))·r(x₁, y), so φ² = θ² and φ¹ = θ¹ + log r. Normalisation therefore
//! loses no generality, but θ¹ is no longer a product of embeddings.
//!
//! A context of two words is useful here: the bounds of `chains` are averages over distances of predictions
//! from one word, while this likelihood uses both words jointly.

use crate::numeric::parallel::prelude::*;

use super::LogBilinear;
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::learn::language::TextScore;
use crate::model::{Interactions, SequenceMrf};
use crate::numeric::{CompensatedSum, Elementwise, Matrix, log_sum_exp, multiply_here, rounding_allowance};
use crate::run::Run;

/// Number of positions scored at once.
const BATCH: usize = 32;
/// Maximum number of states for a field with full matrices.
const MOST_STATES: usize = 1000;

impl LogBilinear {
    /// The pairwise field of order K ≤ 2 on a cycle of `length` positions, with full matrices. Cost:
    /// C^{K+1}·D operations, for at most 1,000 states.
    ///
    /// The matrices are rounded to single precision, so log Z is 0 only up to about 10⁻⁷ per position.
    ///
    /// # Errors
    /// If the context exceeds 2, there are more than 1,000 states, or `length` does not exceed the context.
    pub fn field(&self, length: usize, run: &Run) -> Result<SequenceMrf> {
        let states = self.vocabulary().states();
        let context = self.context();
        if context > 2 || states > MOST_STATES {
            return Err(Error::argument(
                "model",
                format!(
                    "a field of full matrices needs a context of 1 or 2 and at most {MOST_STATES} states"
                ),
            ));
        }
        let (unary, features) = self.wide();
        let score = |l: usize, x: usize, y: usize| -> f64 {
            let (u, w) = (&features[x].0, &features[y].1[l - 1]);
            u.iter().zip(w).map(|(u, w)| u * w).sum()
        };
        let table = |l: usize| {
            let pairs = (0..states * states).into_par_iter();
            pairs.map(|i| score(l, i / states, i % states)).collect::<Vec<f64>>()
        };
        let tables: Vec<Vec<f64>> = run.install(|| (1..=context).map(table).collect());
        // log Z(x₁, x₂), or log Z(x₁) for a context of one word.
        let normalizer = |i: usize| {
            let (first, second) = (i / states, i % states);
            let scores: Vec<f64> = (0..states)
                .map(|y| {
                    let other = tables.get(1).map_or(0.0, |table| table[second * states + y]);
                    unary[y] + tables[0][first * states + y] + other
                })
                .collect();
            log_sum_exp(&scores)
        };
        let mut matrices: Vec<Vec<f32>> =
            tables.iter().map(|table| table.iter().map(|&x| x as f32).collect()).collect();
        run.install(|| {
            matrices[0].par_iter_mut().enumerate().for_each(|(i, entry)| {
                let (x, y) = (i / states, i % states);
                // For context 2, the normaliser at the position after y, with x before y; for context 1, at
                // the position after x.
                let z = if context == 2 { normalizer(y * states + x) } else { normalizer(x * states) };
                *entry = (tables[0][i] - z) as f32;
            });
        });
        SequenceMrf::new(length, unary, Interactions::Full(matrices))
    }

    /// b, and for each state U and W¹, …, Wᴷ, in double precision.
    #[allow(clippy::type_complexity)]
    fn wide(&self) -> (Vec<f64>, Vec<(Vec<f64>, Vec<Vec<f64>>)>) {
        let wide = |row: &[f32]| row.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let features = (0..self.vocabulary().states()).map(|state| {
            let right = (1..=self.context()).map(|l| wide(self.parameters.row(state, l))).collect();
            (wide(self.parameters.row(state, 0)), right)
        });
        (self.parameters.biases().collect(), features.collect())
    }

    /// A certified lower bound on the log-likelihood of a cyclic text under the field: Σ log p − K·log C, in
    /// double precision, including its rounding.
    pub(super) fn certified(&self, sentences: &[Vec<u32>], run: &Run) -> Result<TextScore> {
        const NAME: &str = "certifying";
        let clock = run.start(NAME);
        let (states, context) = (self.vocabulary().states(), self.context());
        let rank = self.embeddings().1;
        let width = context * rank + 1;
        let bytes = 8.0 * states as f64 * (2 * width + BATCH * run.threads()) as f64;
        run.require_memory(NAME, bytes)?;
        let windows = Windows::cycle(sentences, context);
        // One row per state: W¹, …, Wᴷ, b; and U.
        let (biases, features) = self.wide();
        let mut rows = Vec::with_capacity(states * width);
        for ((_, right), bias) in features.iter().zip(&biases) {
            right.iter().for_each(|w| rows.extend_from_slice(w));
            rows.push(*bias);
        }
        let norm = |values: &[f64]| f64::dot(values, values).sqrt();
        let longest = rows.chunks_exact(width).map(norm).fold(0.0, f64::max);
        let left = features.iter().map(|(u, _)| norm(u)).fold(0.0, f64::max);
        // By Cauchy–Schwarz, an upper bound on every score and on its terms.
        let size = longest * (context as f64 * left * left + 1.0).sqrt() * (1.0 + 1e-9);
        let matrix = Matrix::row_major(&rows, states, width).transposed();
        let batch = |scores: &mut Vec<f64>, places: &[u32]| {
            clock.check()?;
            let mut around = vec![0.0; places.len() * width];
            for (around, &place) in around.chunks_exact_mut(width).zip(places) {
                for l in 1..=context {
                    let before = &features[windows.before(place, l)].0;
                    around[(l - 1) * rank..l * rank].copy_from_slice(before);
                }
                around[width - 1] = 1.0;
            }
            scores.resize(places.len() * states, 0.0);
            multiply_here(Matrix::row_major(&around, places.len(), width), matrix, scores, false);
            let rows = scores.chunks_exact(states).zip(places);
            let each: Vec<f64> =
                rows.map(|(row, &place)| row[windows.at(place)] - log_sum_exp(row)).collect();
            Ok(each)
        };
        let parts: Vec<Vec<f64>> = run.install(|| {
            let batches = windows.places().par_chunks(BATCH);
            batches.map_init(Vec::new, batch).collect::<Result<_>>()
        })?;
        let mut sum = CompensatedSum::default();
        parts.iter().flatten().for_each(|log_p| sum.add(*log_p));
        let n = windows.places().len() as f64;
        let ends = context as f64 * (states as f64).ln();
        let rounding = n * rounding_allowance((2 * width + states + 16) as f64, size + (states as f64).ln())
            + rounding_allowance(8.0, sum.value().abs() + ends);
        Ok(TextScore {
            tokens: windows.words() as u64,
            sentences: sentences.len() as u64,
            log_likelihood: sum.value() - ends - rounding,
            rounding,
            log_lengths: 0.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::LogPartition;
    use crate::learn::language::Vocabulary;
    use crate::method::cycle::TransferMatrix;
    use crate::random::Streams;

    #[test]
    fn the_field_is_normalised_and_gives_the_likelihood_that_is_certified() {
        let mut random = Streams::new(9, "field tests").block(0);
        let run = Run::default();
        for context in [1, 2] {
            for strength in [0.3, 3.0] {
                let words: Vec<String> = (1..5).map(|i| format!("w{i}")).collect();
                let vocabulary = Vocabulary::new(words).unwrap();
                let (states, rank) = (5, 2);
                let size = states * ((context + 1) * rank + 1);
                let matrix = (0..size).map(|_| (strength * random.normal()) as f32).collect();
                let model = LogBilinear::new(vocabulary, context, rank, matrix, true).unwrap();
                let sentences: Vec<Vec<u32>> =
                    (0..6).map(|i| (0..=i % 4).map(|_| 1 + random.below(4) as u32).collect()).collect();
                let cycle: Vec<usize> = sentences
                    .iter()
                    .flat_map(|sentence| sentence.iter().map(|&x| x as usize).chain([0]))
                    .collect();
                let field = model.field(cycle.len(), &run).unwrap();
                let log_z = TransferMatrix::default().log_partition(&field, &run).unwrap().value;
                // Single precision changes it by 10⁻⁶ per position.
                assert!(log_z.abs() <= context as f64 * 5f64.ln() + 1e-4, "{log_z}");
                let exact = field.score(&cycle) - log_z;
                let score = model.evaluate(&sentences, &run).unwrap();
                let ends = context as f64 * 5f64.ln();
                assert!(score.log_likelihood <= exact + 1e-4, "{} {exact}", score.log_likelihood);
                assert!((score.log_likelihood + ends - field.score(&cycle)).abs() < 1e-4);
                assert!(score.rounding < 1e-9);
                let plain = model.log_likelihood(&sentences, &run).unwrap();
                assert!((plain - field.score(&cycle)).abs() < 1e-3, "{plain}");
                // log Z of a long cycle is 0 up to that rounding, because the matrix is stochastic.
                let long = field.with_length(10_000).unwrap();
                let log_z = TransferMatrix::default().log_partition(&long, &run).unwrap().value;
                assert!(log_z.abs() < 0.1, "{log_z}");
            }
        }
    }

    #[test]
    fn cycles_shorter_than_the_context_go_around() {
        let windows = Windows::cycle(&[vec![3]], 5);
        assert_eq!((windows.places().len(), windows.words()), (2, 1));
        let first = windows.places()[0];
        assert_eq!((1..=5).map(|l| windows.before(first, l)).collect::<Vec<_>>(), [0, 3, 0, 3, 0]);
        assert_eq!((1..=5).map(|l| windows.behind(first, l)).collect::<Vec<_>>(), [0, 3, 0, 3, 0]);
        assert!(Windows::cycle(&[], 3).places().is_empty());
    }
}
