//! Names of symbols and words.

use serde::{Deserialize, Serialize};

use super::{Symbols, fail};
use crate::error::Result;

/// The names of the symbols and of the words of every sentence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TreeNames {
    /// One name per symbol.
    pub symbols: Vec<String>,
    /// Symbols that are left out of printed trees, in ascending order: those that divide a longer right-hand
    /// side into pairs.
    #[serde(default)]
    pub hidden: Vec<usize>,
    /// The words of each sentence.
    pub words: Vec<Vec<String>>,
}

impl TreeNames {
    pub(super) fn check(&self, symbols: Symbols, lengths: &[usize]) -> Result<()> {
        if self.symbols.len() != symbols.all {
            return fail(format!("names: {} names for {} symbols", self.symbols.len(), symbols.all));
        }
        if self.words.len() != lengths.len() {
            return fail(format!("names: words of {} sentences for {}", self.words.len(), lengths.len()));
        }
        match self.words.iter().zip(lengths).position(|(words, &length)| words.len() != length) {
            Some(b) => {
                fail(format!("names: {} words for the {} of sentence {b}", self.words[b].len(), lengths[b]))
            }
            None => Ok(()),
        }
    }
}
