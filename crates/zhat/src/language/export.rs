//! Embeddings in the formats of others.

use std::io::Write;

use super::LanguageModel;
use crate::error::Result;

impl LanguageModel {
    /// Writes the embeddings as word2vec's text format does: a line with the number of words and D, then a line a word.
    pub fn write_word2vec(&self, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        let (left, rank) = self.embeddings()?;
        let write = |out: &mut dyn Write| {
            writeln!(out, "{} {rank}", self.vocabulary().words().len())?;
            // Row 0 is the separator's.
            for (word, row) in self.vocabulary().words().iter().zip(left.chunks_exact(rank).skip(1)) {
                write!(out, "{word}")?;
                row.iter().try_for_each(|x| write!(out, " {x}"))?;
                writeln!(out)?;
            }
            Ok(())
        };
        Ok(write(out))
    }
}
