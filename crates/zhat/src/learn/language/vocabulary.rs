//! Vocabulary: words and their states.

use std::collections::HashMap;

use super::Counts;
use crate::error::{Error, Result};

/// The word that represents all words outside the vocabulary.
pub const UNKNOWN: &str = "<unk>";
/// The printed name of the separator.
pub const SEPARATOR: &str = "<s>";

/// Selection of the words of a text that become states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fold {
    /// Words that occur less often become the unknown word. By default, words that occur once do, unless the
    /// text contains the unknown word itself. By default the vocabulary always contains the unknown word, so
    /// that any text can be scored.
    pub min_count: Option<u64>,
    /// Maximum number of words, including the unknown word; among equally frequent words, the first in byte
    /// order are kept.
    pub size: Option<usize>,
}

/// The words of a model: state 0 is the separator, the others are sorted by decreasing frequency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vocabulary {
    words: Vec<String>,
    states: HashMap<String, u32>,
}

impl Vocabulary {
    /// A vocabulary from the words of states 1, 2, ….
    ///
    /// # Errors
    /// If a word occurs twice.
    pub fn new(words: Vec<String>) -> Result<Self> {
        let states: HashMap<String, u32> = words.iter().cloned().zip(1..).collect();
        if states.len() < words.len() || words.len() >= u32::MAX as usize {
            return Err(Error::model("a word occurs twice in the vocabulary"));
        }
        Ok(Vocabulary { words, states })
    }

    /// The sufficiently frequent words of a text; the other words, if any, become the unknown word.
    ///
    /// # Errors
    /// If `fold.size` is 0.
    pub fn of(counts: &Counts, fold: &Fold) -> Result<Self> {
        if fold.size == Some(0) {
            return Err(Error::argument("size", "leaves no word; the vocabulary needs at least one"));
        }
        let mut words: Vec<(&str, u64)> = counts.words().collect();
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let all = words.len();
        let has_unknown = words.iter().any(|word| word.0 == UNKNOWN);
        let mut min_count = fold.min_count.unwrap_or(if has_unknown { 1 } else { 2 });
        if fold.min_count.is_none() && words.first().is_none_or(|word| word.1 < min_count) {
            // In a text in which no word occurs twice, no word would remain.
            min_count = 1;
        }
        let frequent = words.partition_point(|word| word.1 >= min_count);
        let mut keep = frequent;
        if let Some(size) = fold.size {
            // The unknown word needs its own entry unless it is among the kept words.
            keep = keep.min(size);
            let folded = keep < all;
            let inside = words[..keep].iter().any(|word| word.0 == UNKNOWN);
            if folded && !inside && keep + 1 > size {
                keep = size.saturating_sub(1);
            }
        }
        let reserved = fold.min_count.is_none() && !has_unknown;
        if reserved && fold.size.is_some_and(|size| keep + 1 > size) {
            keep = keep.saturating_sub(1);
        }
        let mut kept: Vec<String> = words[..keep].iter().map(|word| word.0.to_owned()).collect();
        if (keep < all || reserved) && !kept.iter().any(|word| word == UNKNOWN) {
            // Insert it by its count.
            let count: u64 = words[keep..].iter().map(|word| word.1).sum();
            let at =
                words[..keep].partition_point(|word| word.1 > count || word.1 == count && word.0 < UNKNOWN);
            kept.insert(at, UNKNOWN.to_owned());
        }
        Vocabulary::new(kept)
    }

    /// The number of states: the words and the separator.
    pub fn states(&self) -> usize {
        self.words.len() + 1
    }

    /// The words; that of state i + 1 is at index i.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// The words of a list of states, as text.
    pub fn sentence(&self, states: &[u32]) -> String {
        states.iter().map(|&state| self.word(state as usize)).collect::<Vec<&str>>().join(" ")
    }

    /// The word of a state.
    pub fn word(&self, state: usize) -> &str {
        if state == 0 { SEPARATOR } else { self.words.get(state - 1).map_or(UNKNOWN, String::as_str) }
    }

    /// The state of a word.
    pub fn state(&self, word: &str) -> Option<u32> {
        self.states.get(word).copied()
    }

    /// The state of a word, or of the unknown word if the vocabulary has it.
    ///
    /// # Errors
    /// If neither the word nor the unknown word is in the vocabulary.
    pub fn state_or_unknown(&self, word: &str) -> Result<u32> {
        self.state(word).or_else(|| self.state(UNKNOWN)).ok_or_else(|| {
            Error::argument(
                "word",
                format!(
                    "`{word}` is not in the vocabulary, which has no {UNKNOWN}; leave out the minimum count, or set it to 2 or more, for a vocabulary that has it"
                ),
            )
        })
    }
}
