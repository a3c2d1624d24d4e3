//! Export of embeddings in common formats.

use std::io::Write;

use super::{LanguageModel, LogBilinear, Vocabulary};
use crate::error::Result;
use crate::learn::language::file::write_embeddings;

impl LanguageModel {
    /// Writes the embeddings in word2vec's text format: a line with the number of words and D, then one line
    /// per word.
    ///
    /// # Errors
    /// Outer: the model has no embeddings. Inner: `out` fails.
    pub fn write_word2vec(&self, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        Ok(word2vec(self.vocabulary(), self.embeddings()?, out))
    }

    /// Writes the embeddings as a safetensors file: a tensor `embeddings` with one row per word, and the
    /// words as a JSON list in the metadata `words`.
    ///
    /// # Errors
    /// Outer: the model has no embeddings. Inner: `out` fails.
    pub fn write_safetensors(&self, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        Ok(write_embeddings(self.vocabulary(), self.embeddings()?, out))
    }
}

impl LogBilinear {
    /// As [`LanguageModel::write_word2vec`].
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write_word2vec(&self, out: &mut dyn Write) -> std::io::Result<()> {
        word2vec(self.vocabulary(), self.embeddings(), out)
    }

    /// As [`LanguageModel::write_safetensors`].
    ///
    /// # Errors
    /// If `out` fails.
    pub fn write_safetensors(&self, out: &mut dyn Write) -> std::io::Result<()> {
        write_embeddings(self.vocabulary(), self.embeddings(), out)
    }
}

fn word2vec(
    vocabulary: &Vocabulary,
    (left, rank): (&[f32], usize),
    out: &mut dyn Write,
) -> std::io::Result<()> {
    writeln!(out, "{} {rank}", vocabulary.words().len())?;
    // Row 0 belongs to the separator.
    for (word, row) in vocabulary.words().iter().zip(left.chunks_exact(rank).skip(1)) {
        write!(out, "{word}")?;
        row.iter().try_for_each(|x| write!(out, " {x}"))?;
        writeln!(out)?;
    }
    Ok(())
}
