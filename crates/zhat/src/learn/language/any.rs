//! A language model of either kind, where that is known at run time only.

use std::io::Write;

use super::{LanguageModel, LogBilinear, TextScore, Vocabulary};
use crate::error::{Error, Result};
use crate::run::Run;

/// A model that [`train`](super::train), [`train_pseudo`](super::train_pseudo) or
/// [`train_log_bilinear`](super::train_log_bilinear) gave.
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

    /// U, C × D, and D; a row for each state, that of the separator first.
    pub fn embeddings(&self) -> Result<(&[f32], usize)> {
        match self {
            AnyLanguageModel::Field(model) => model.embeddings(),
            AnyLanguageModel::LogBilinear(model) => Ok(model.embeddings()),
        }
    }

    /// The words whose embeddings make the smallest angles with that of a word, and the cosines.
    pub fn neighbours(&self, word: &str, count: usize) -> Result<Vec<(String, f64)>> {
        match self {
            AnyLanguageModel::Field(model) => model.neighbours(word, count),
            AnyLanguageModel::LogBilinear(model) => model.neighbours(word, count),
        }
    }

    /// Sentences: by Gibbs sampling with so many sweeps, or word by word.
    pub fn sample(&self, count: usize, sweeps: usize, run: &Run) -> Result<Vec<String>> {
        let drawn = match self {
            AnyLanguageModel::Field(model) => model.sample(count, sweeps, run)?,
            AnyLanguageModel::LogBilinear(model) => model.sample(count, run)?,
        };
        Ok(drawn.iter().map(|sentence| self.vocabulary().sentence(sentence)).collect())
    }

    /// Whether what is said about the likelihood of a text is certified.
    pub fn is_certified(&self) -> bool {
        !matches!(self, AnyLanguageModel::LogBilinear(model) if !model.cyclic())
    }

    /// Writes the embeddings in word2vec's text format, or as safetensors.
    pub fn write_embeddings(&self, safetensors: bool, out: &mut dyn Write) -> Result<std::io::Result<()>> {
        match (self, safetensors) {
            (AnyLanguageModel::Field(model), false) => model.write_word2vec(out),
            (AnyLanguageModel::Field(model), true) => model.write_safetensors(out),
            (AnyLanguageModel::LogBilinear(model), false) => Ok(model.write_word2vec(out)),
            (AnyLanguageModel::LogBilinear(model), true) => Ok(model.write_safetensors(out)),
        }
    }

    /// The field.
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
    /// What is promised about the log-likelihood, which is certified or in single precision.
    pub fn promise(&self, certified: bool) -> crate::answer::Guarantee {
        if certified {
            return self.guarantee();
        }
        crate::answer::Guarantee::Heuristic {
            reason: "normalised at every word, but added up in single precision".into(),
        }
    }
}
