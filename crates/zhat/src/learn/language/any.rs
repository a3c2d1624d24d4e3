//! A language model of either kind, chosen at run time.

use std::io::Write;

use super::{LanguageModel, LogBilinear, TextScore, Vocabulary};
use crate::error::{Error, Result};
use crate::run::Run;

/// A model trained by [`train`](super::train), [`train_pseudo`](super::train_pseudo) or
/// [`train_log_bilinear`](super::train_log_bilinear).
#[derive(Clone, Debug, PartialEq)]
pub enum AnyLanguageModel {
    /// A Markov random field with a bound on its log Z.
    Field(LanguageModel),
    /// A log-bilinear model.
    LogBilinear(LogBilinear),
}

impl AnyLanguageModel {
    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        match self {
            AnyLanguageModel::Field(model) => model.vocabulary(),
            AnyLanguageModel::LogBilinear(model) => model.vocabulary(),
        }
    }

    /// K.
    pub fn context(&self) -> usize {
        match self {
            AnyLanguageModel::Field(model) => model.mrf().context(),
            AnyLanguageModel::LogBilinear(model) => model.context(),
        }
    }

    /// U, C × D, and D: one row per state, that of the separator first.
    ///
    /// # Errors
    /// If the model has full matrices instead of embeddings.
    pub fn embeddings(&self) -> Result<(&[f32], usize)> {
        match self {
            AnyLanguageModel::Field(model) => model.embeddings(),
            AnyLanguageModel::LogBilinear(model) => Ok(model.embeddings()),
        }
    }

    /// The words whose embeddings have the largest cosine with that of a word, and the cosines.
    ///
    /// # Errors
    /// If the word is not in the vocabulary, or the model has no embeddings.
    pub fn neighbours(&self, word: &str, count: usize) -> Result<Vec<(String, f64)>> {
        match self {
            AnyLanguageModel::Field(model) => model.neighbours(word, count),
            AnyLanguageModel::LogBilinear(model) => model.neighbours(word, count),
        }
    }

    /// Samples sentences: by Gibbs sampling with this many sweeps, or word by word.
    ///
    /// # Errors
    /// If the run is cancelled or over its memory or time budget.
    pub fn sample(&self, count: usize, sweeps: usize, run: &Run) -> Result<Vec<String>> {
        let drawn = match self {
            AnyLanguageModel::Field(model) => model.sample(count, sweeps, run)?,
            AnyLanguageModel::LogBilinear(model) => model.sample(count, run)?,
        };
        Ok(drawn.iter().map(|sentence| self.vocabulary().sentence(sentence)).collect())
    }

    /// Whether statements about the likelihood of a text are certified.
    pub fn is_certified(&self) -> bool {
        !matches!(self, AnyLanguageModel::LogBilinear(model) if !model.cyclic())
    }

    /// Writes the embeddings in word2vec's text format, or as safetensors.
    ///
    /// # Errors
    /// Outer: the model has no embeddings. Inner: `out` fails.
    pub fn write_embeddings(&self, safetensors: bool, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        match (self, safetensors) {
            (AnyLanguageModel::Field(model), false) => model.write_word2vec(out),
            (AnyLanguageModel::Field(model), true) => model.write_safetensors(out),
            (AnyLanguageModel::LogBilinear(model), false) => Ok(model.write_word2vec(out)),
            (AnyLanguageModel::LogBilinear(model), true) => Ok(model.write_safetensors(out)),
        }
    }

    /// The Markov random field, if the model is one.
    ///
    /// # Errors
    /// If the model is log-bilinear.
    pub fn field(&self) -> Result<&LanguageModel> {
        match self {
            AnyLanguageModel::Field(model) => Ok(model),
            AnyLanguageModel::LogBilinear(_) => {
                let message = "a log-bilinear model has an exact likelihood; this is for Markov random fields with a bound";
                Err(Error::argument("model", message))
            }
        }
    }
}

impl TextScore {
    /// The guarantee for the log-likelihood, which is certified or in single precision.
    pub fn promise(&self, certified: bool) -> crate::answer::Guarantee {
        if certified {
            return self.guarantee();
        }
        crate::answer::Guarantee::Heuristic {
            reason: "normalised at every word, but added up in single precision".into(),
        }
    }
}
