//! A grammar as a dynamic model: summary, file, and the trees of sentences.

use super::Grammar;
use crate::error::{Error, Result};
use crate::model::any::{self, AnyModel, Input, Kind, Model, Summary};
use crate::model::hypertree::Rules;
use crate::tensor::{Tensor, TensorMap};

impl Grammar {
    /// The name of the kind.
    pub const KIND: Kind = Kind::new("grammar");
}

impl AnyModel for Grammar {
    fn kind(&self) -> Kind {
        Grammar::KIND
    }

    fn summary(&self) -> Summary {
        let (symbols, hidden, words) =
            (self.symbols().len(), self.rules.hidden.len(), self.vocabulary().len());
        let binary = if let Rules::Sparse { rules, .. } = &self.rules.rules { rules.len() } else { 0 };
        let lexical: usize = self.rules.lexicon.values().map(Vec::len).sum();
        let added = match hidden {
            0 => String::new(),
            _ => format!(", and {hidden} hidden ones for longer right-hand sides"),
        };
        Summary::default()
            .figure("start", self.start())
            .figure("symbols", symbols)
            .figure("hidden", hidden)
            .figure("words", words)
            .figure("productions", self.productions())
            .figure("binary", binary)
            .figure("unary", self.rules.unary.len())
            .figure("lexical", lexical)
            .line("kind", Grammar::KIND.name())
            .line("start", self.start())
            .line("symbols", format!("{symbols}{added}"))
            .line("words", words.to_string())
            .line("rules", self.productions().to_string())
            .line("input", "sentences, one per line: --input FILE")
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        Vec::new()
    }

    fn texts(&self) -> Vec<(&'static str, String)> {
        vec![("text", self.text().into())]
    }

    fn equals(&self, other: &dyn AnyModel) -> bool {
        any::equal(self, other)
    }

    fn needs_input(&self) -> Option<&'static str> {
        Some("sentences")
    }

    fn with_input(&self, input: &Input) -> Result<Model> {
        let sentences: Vec<Vec<String>> = input
            .text
            .trim_end()
            .lines()
            .map(|line| line.split_whitespace().map(str::to_owned).collect())
            .collect();
        let fail = |line: usize, message: String| Error::Parse {
            source_name: input.source_name.clone(),
            line,
            message,
        };
        if sentences.is_empty() {
            return Err(fail(0, "no sentences; expected one per line".into()));
        }
        Ok(self.trees(&sentences, &|b, message| fail(b + 1, message))?.into())
    }
}

/// Reads a grammar from the text of its file.
pub(in crate::model) fn read(tensors: &mut TensorMap) -> Result<Model> {
    let Some(text) = tensors.text("text") else {
        return Err(tensors.error("the text of the grammar is missing"));
    };
    Ok(Grammar::parse(text, "").map_err(|error| tensors.error(error.to_string()))?.into())
}
