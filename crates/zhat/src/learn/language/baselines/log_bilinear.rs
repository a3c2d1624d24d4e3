//! The left-context log-bilinear model: p(y | x₋₁, …, x₋ₖ) ∝ exp(b(y) + Σ_l U(x₋ₗ)·Wˡ(y)) over all words and
//! the end of the sentence.

use super::learning::{Epoch, Stochastic, learn};
use super::parameters::{Parameters, Work};
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::learn::language::neighbours::nearest;
use crate::learn::language::{TextScore, Vocabulary};
use crate::run::Run;

/// Number of positions evaluated at once.
const BATCH: usize = 128;

/// A model that predicts a word from the K words before it; the likelihood of a text is exact.
#[derive(Clone, Debug, PartialEq)]
pub struct LogBilinear {
    vocabulary: Vocabulary,
    pub(super) parameters: Parameters,
    cyclic: bool,
    left: Vec<f32>,
}

impl LogBilinear {
    /// A model from the vocabulary, K, D and the matrix with the rows (U(y), W¹(y), …, Wᴷ(y), b(y)); `cyclic`
    /// as in [`Stochastic`].
    ///
    /// # Errors
    /// If K or D is 0, the matrix has the wrong size, or a number is not finite.
    pub fn new(
        vocabulary: Vocabulary,
        context: usize,
        rank: usize,
        matrix: Vec<f32>,
        cyclic: bool,
    ) -> Result<Self> {
        let width = context
            .checked_add(1)
            .and_then(|blocks| blocks.checked_mul(rank))
            .and_then(|width| width.checked_add(1));
        if context == 0
            || rank == 0
            || width.and_then(|width| width.checked_mul(vocabulary.states())) != Some(matrix.len())
        {
            return Err(Error::model(format!(
                "{} numbers for {} states, context {context} and rank {rank}; expected (K + 1)·D + 1 a state",
                matrix.len(),
                vocabulary.states()
            )));
        }
        if matrix.iter().any(|x| !x.is_finite()) {
            return Err(Error::model("the numbers of a log-bilinear model must be finite"));
        }
        let parameters = Parameters { context, rank, ahead: false, matrix };
        let left = parameters.embedding(0);
        Ok(LogBilinear { vocabulary, parameters, cyclic, left })
    }

    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// K.
    pub fn context(&self) -> usize {
        self.parameters.context
    }

    /// Whether texts are cycles with one separator between sentences.
    pub fn cyclic(&self) -> bool {
        self.cyclic
    }

    /// The matrix with the rows (U(y), W¹(y), …, Wᴷ(y), b(y)).
    pub fn matrix(&self) -> &[f32] {
        &self.parameters.matrix
    }

    /// U, C × D, and D.
    pub fn embeddings(&self) -> (&[f32], usize) {
        (&self.left, self.parameters.rank)
    }

    /// Σ log p over all words of the sentences and over the ends of sentences; in single precision except for
    /// the sums.
    ///
    /// # Errors
    /// If the run is cancelled or over its memory or time budget.
    ///
    /// # Panics
    /// If a state is not in the vocabulary.
    pub fn log_likelihood(&self, sentences: &[Vec<u32>], run: &Run) -> Result<f64> {
        let clock = run.start("log-bilinear");
        let Parameters { context, rank, .. } = self.parameters;
        run.require_memory(
            "log-bilinear",
            Parameters::bytes(self.vocabulary.states(), context, rank, BATCH),
        )?;
        run.install(|| {
            let mut work = Work::new(&self.parameters, BATCH, false);
            let mut total = 0.0;
            if self.cyclic {
                return Ok(self.parameters.log_likelihood(&Windows::cycle(sentences, context), &mut work));
            }
            for part in sentences.chunks(BATCH) {
                clock.check()?;
                total += self.parameters.log_likelihood(&Windows::new(part, context), &mut work);
            }
            Ok(total)
        })
    }

    /// The likelihood with the numbers of words and sentences; certified if texts are cyclic. Sentence
    /// lengths are part of the model, so they contribute no separate term.
    ///
    /// # Errors
    /// If the run is cancelled or over its memory or time budget.
    ///
    /// # Panics
    /// If a state is not in the vocabulary.
    pub fn evaluate(&self, sentences: &[Vec<u32>], run: &Run) -> Result<TextScore> {
        if self.cyclic {
            return self.certified(sentences, run);
        }
        Ok(TextScore {
            tokens: sentences.iter().map(|sentence| sentence.len() as u64).sum(),
            sentences: sentences.len() as u64,
            log_likelihood: self.log_likelihood(sentences, run)?,
            rounding: 0.0,
            log_lengths: 0.0,
        })
    }

    /// The words whose embeddings have the largest cosine with that of a word, and the cosines.
    ///
    /// # Errors
    /// If the word is not in the vocabulary.
    pub fn neighbours(&self, word: &str, count: usize) -> Result<Vec<(String, f64)>> {
        nearest(&self.vocabulary, self.embeddings(), word, count)
    }
}

/// Trains a log-bilinear model on sentences given as states of a vocabulary. `watch` is called after every
/// epoch and stops training by returning false.
///
/// # Errors
/// If an option is out of range, a text has no words or a state that is no word, the memory budget is too
/// small, training diverges, or `watch` fails.
pub fn train_log_bilinear(
    sentences: &[Vec<u32>],
    vocabulary: &Vocabulary,
    valid: Option<&[Vec<u32>]>,
    how: &Stochastic,
    run: &Run,
    watch: &mut (dyn FnMut(&Epoch) -> Result<bool> + Send),
) -> Result<LogBilinear> {
    let found = learn(sentences, vocabulary, valid, how, false, run, watch)?;
    LogBilinear::new(vocabulary.clone(), how.context, how.rank, found.matrix, how.cyclic)
}
