//! Nearest neighbours of words by cosine similarity.

use super::{LanguageModel, Vocabulary};
use crate::error::{Error, Result};
use crate::numeric::Elementwise;

impl LanguageModel {
    /// The words whose embeddings have the largest cosine with that of a word, and the cosines.
    ///
    /// # Errors
    /// If the word is not in the vocabulary, or the model has no embeddings.
    pub fn neighbours(&self, word: &str, count: usize) -> Result<Vec<(String, f64)>> {
        nearest(self.vocabulary(), self.embeddings()?, word, count)
    }
}

/// The words nearest to a word by the rows of a matrix with one row per state.
pub(super) fn nearest(
    vocabulary: &Vocabulary,
    (left, rank): (&[f32], usize),
    word: &str,
    count: usize,
) -> Result<Vec<(String, f64)>> {
    let state = vocabulary.state(word).ok_or_else(|| {
        Error::argument("word", format!("`{word}` is not among the {} words", vocabulary.words().len()))
    })? as usize;
    let row = |state: usize| &left[state * rank..(state + 1) * rank];
    let norm = |state: usize| f32::dot(row(state), row(state)).sqrt();
    let own = norm(state);
    let cosine = |other: usize| {
        let product = own * norm(other);
        if product > 0.0 { f32::dot(row(state), row(other)) / product } else { 0.0 }
    };
    let others = (1..vocabulary.states()).filter(|&other| other != state);
    let mut ranked: Vec<(usize, f64)> = others.map(|other| (other, cosine(other))).collect();
    ranked.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
    ranked.truncate(count);
    Ok(ranked.into_iter().map(|(other, cosine)| (vocabulary.word(other).to_owned(), cosine)).collect())
}
