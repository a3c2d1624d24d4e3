//! The words of a corpus and their features, for every offset from the tag.
//!
//! Word 0 is the [`BOUNDARY`](super::super::features::BOUNDARY) between sentences. A word that occurs fewer than
//! `min_count` times has no indicator of its own and keeps its other features. Words that are not in the lexicon have
//! the features that any word of the lexicon has.

use crate::numeric::parallel::prelude::*;

use super::super::features::{self, BOUNDARY};
use super::super::{Corpus, Dictionary};
use crate::error::{Error, Result};

/// A sparse matrix of zeros and ones, by rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Incidence {
    starts: Vec<usize>,
    columns: Vec<u32>,
}

impl Incidence {
    pub fn new(rows: impl Iterator<Item = Vec<u32>>) -> Self {
        let mut made = Incidence { starts: vec![0], columns: Vec::new() };
        for row in rows {
            made.columns.extend(row);
            made.starts.push(made.columns.len());
        }
        made
    }

    pub fn row(&self, row: usize) -> &[u32] {
        &self.columns[self.starts[row]..self.starts[row + 1]]
    }

    fn transposed(&self, columns: usize) -> Self {
        let mut starts = vec![0; columns + 1];
        self.columns.iter().for_each(|&c| starts[c as usize + 1] += 1);
        (0..columns).for_each(|c| starts[c + 1] += starts[c]);
        let (mut next, mut to) = (starts.clone(), vec![0; self.columns.len()]);
        for row in 0..self.starts.len() - 1 {
            for &c in self.row(row) {
                to[next[c as usize]] = row as u32;
                next[c as usize] += 1;
            }
        }
        Incidence { starts, columns: to }
    }

    /// The sums of rows of `table`, which has `width` columns, over the entries of each row of this matrix.
    pub fn sums(&self, table: &[f64], width: usize, to: &mut [f64]) {
        to.par_chunks_exact_mut(width).enumerate().for_each(|(row, to)| {
            to.fill(0.0);
            for &c in self.row(row) {
                let from = &table[c as usize * width..][..width];
                to.iter_mut().zip(from).for_each(|(t, x)| *t += x);
            }
        });
    }
}

/// The features at one offset.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Features {
    pub names: Dictionary,
    pub of_words: Incidence,
    pub words_of: Incidence,
}

/// Words and features.
#[derive(Clone, Debug, PartialEq)]
pub struct Lexicon {
    words: Dictionary,
    offsets: Vec<i32>,
    pub(super) features: Vec<Features>,
}

impl Lexicon {
    /// The words of a corpus with a window of L words.
    ///
    /// # Errors
    /// If a token of the corpus is the text of the boundary.
    pub fn of(corpus: &Corpus, window: usize, min_count: usize) -> Result<Self> {
        let mut words = Dictionary::default();
        words.add(BOUNDARY);
        for sentence in corpus.sentences() {
            for i in 0..sentence.len() {
                if sentence.word(i) == BOUNDARY {
                    let message = format!("`{BOUNDARY}` is the word between sentences and cannot be a token");
                    return Err(Error::Parse {
                        source_name: corpus.source_name().into(),
                        line: sentence.line(i),
                        message,
                    });
                }
                words.add(sentence.word(i));
            }
        }
        let frequent = |word: u32| word == 0 || words.count(word) as usize >= min_count;
        let offsets = super::offsets(window);
        let features = offsets.iter().map(|&offset| {
            let mut names = Dictionary::default();
            let mut scratch = String::new();
            let rows: Vec<Vec<u32>> = (0..words.len() as u32)
                .map(|word| {
                    let mut row = Vec::new();
                    features::each(words.name(word), offset, &mut scratch, &mut |feature| {
                        if frequent(word) || !features::is_word_indicator(feature) {
                            row.push(names.add(feature));
                        }
                    });
                    row
                })
                .collect();
            let of_words = Incidence::new(rows.into_iter());
            let words_of = of_words.transposed(names.len());
            Features { names, of_words, words_of }
        });
        let features = features.collect();
        Ok(Lexicon { words, offsets, features })
    }

    /// The number of words, with the boundary.
    #[allow(clippy::len_without_is_empty)] // the boundary is always there
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// L.
    pub fn window(&self) -> usize {
        self.offsets.len()
    }

    /// The number of a word, if it occurs in the training corpus.
    pub fn number(&self, word: &str) -> Option<u32> {
        self.words.find(word)
    }

    /// The number of features, at all offsets.
    pub fn features(&self) -> usize {
        self.features.iter().map(|features| features.names.len()).sum()
    }

    /// The features of any word at every offset; those that no word of the lexicon has are left out.
    pub(super) fn look_up(&self, word: &str, scratch: &mut String) -> Vec<Vec<u32>> {
        let each = self.offsets.iter().zip(&self.features).map(|(&offset, features)| {
            let mut found = Vec::new();
            features::each(word, offset, scratch, &mut |feature| found.extend(features.names.find(feature)));
            found
        });
        each.collect()
    }

    pub(super) fn words(&self) -> &Dictionary {
        &self.words
    }

    pub(super) fn offsets(&self) -> &[i32] {
        &self.offsets
    }

    /// A lexicon from its words and the names of its features; the features of words are computed again.
    pub(super) fn from_parts(words: Dictionary, names: Vec<Dictionary>) -> Result<Self> {
        if words.is_empty() || words.name(0) != BOUNDARY || names.is_empty() {
            return Err(Error::Model("a lexicon starts with the boundary and has features".into()));
        }
        let offsets = super::offsets(names.len());
        let mut scratch = String::new();
        let features = offsets.iter().zip(names).map(|(&offset, names)| {
            let rows = (0..words.len() as u32).map(|word| {
                let mut row = Vec::new();
                features::each(words.name(word), offset, &mut scratch, &mut |f| row.extend(names.find(f)));
                row
            });
            let of_words = Incidence::new(rows);
            let words_of = of_words.transposed(names.len());
            Features { names, of_words, words_of }
        });
        let features = features.collect();
        Ok(Lexicon { words, offsets, features })
    }
}
