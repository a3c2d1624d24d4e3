//! Errors as data, and their messages.

use std::path::{Path, PathBuf};

/// The result of every fallible function of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or text does not follow its format.
    #[error("{}{message}", place(.source_name, *.line))]
    Parse {
        /// The file name; empty for text in memory.
        source_name: String,
        /// The line number, counted from 1; 0 for formats without lines.
        line: usize,
        /// The mistake and what was expected.
        message: String,
    },

    /// The given potentials or structure do not form a model.
    #[error("{0}")]
    Model(String),

    /// An option or argument has an unusable value.
    #[error("{name}: {message}")]
    Argument {
        /// Its name, as the user wrote or could have written it.
        name: String,
        /// The problem and which values would work.
        message: String,
    },

    /// The method has no option of this name.
    #[error("{name}: {message}")]
    UnknownOption {
        /// The name of the option.
        name: String,
        /// Which method has no such option, and the most similar option or all of them.
        message: String,
    },

    /// A user-defined function failed; its own error is the source.
    #[error("{name}: the function failed: {source}")]
    Function {
        /// The purpose of the function.
        name: &'static str,
        /// Its own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The error reported by the operating system.
        source: std::io::Error,
    },

    /// The method does not answer this query for this kind of model.
    #[error("method `{method}` does not answer {query} on a {kind}{}", list_methods(.available))]
    Unsupported {
        /// The requested method.
        method: String,
        /// The query's name.
        query: &'static str,
        /// The model's kind.
        kind: &'static str,
        /// Methods that do answer it.
        available: Vec<&'static str>,
    },

    /// Every state of the model has weight zero, so there is no distribution.
    #[error("zero partition: every state of the model has weight 0, so there is no distribution to query")]
    ZeroPartition,

    /// No sentence of a batch has a tree of positive weight, so there is no distribution.
    #[error("zero partition: {0}")]
    NoTree(
        /// Which sentences have none, and why.
        String,
    ),

    /// The evidence has probability zero under the model.
    #[error("impossible evidence: the given evidence has probability 0 under the model{}", explained(.conflict))]
    ImpossibleEvidence {
        /// The contradicting observations and factors, if known.
        conflict: Option<String>,
    },

    /// The method finished without a result.
    #[error("no answer: {0}")]
    NoAnswer(String),

    /// The forecast or the elapsed time exceeds the budget.
    #[error("over budget: {needs}; the budget is {budget}{}", list_fitting(.fitting))]
    OverBudget {
        /// The method, the resource and the required amount.
        needs: String,
        /// The available amount.
        budget: String,
        /// Methods whose forecast fits the budget.
        fitting: Vec<&'static str>,
    },

    /// The run was cancelled before there was an answer.
    #[error("interrupted before there was a result")]
    Interrupted,
}

impl Error {
    /// The error for a model that cannot be built.
    pub(crate) fn model(message: impl Into<String>) -> Self {
        Error::Model(message.into())
    }

    /// The error for an unusable argument.
    pub fn argument(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Argument { name: name.into(), message: message.into() }
    }

    /// The error for evidence that contradicts the model, without an explanation.
    pub(crate) fn impossible() -> Self {
        Error::ImpossibleEvidence { conflict: None }
    }

    /// The error for a failed read or write of `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_owned(), source }
    }

    /// A stable, short name of the variant: `kind` in the JSON output.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Parse { .. } => "parse",
            Error::Model(_) => "model",
            Error::Argument { .. } => "argument",
            Error::UnknownOption { .. } => "unknown-option",
            Error::Function { .. } => "function",
            Error::Io { .. } => "io",
            Error::Unsupported { .. } => "unsupported",
            Error::ZeroPartition | Error::NoTree(_) => "zero-partition",
            Error::ImpossibleEvidence { .. } => "impossible-evidence",
            Error::NoAnswer(_) => "no-answer",
            Error::OverBudget { .. } => "over-budget",
            Error::Interrupted => "interrupted",
        }
    }

    /// True if the work was stopped, by the budget or by cancellation, before it found anything about the
    /// model.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Error::OverBudget { .. } | Error::Interrupted)
    }

    /// True if the query was valid but has no answer, or none within the budget.
    pub fn is_unanswerable(&self) -> bool {
        matches!(
            self,
            Error::ZeroPartition
                | Error::NoTree(_)
                | Error::ImpossibleEvidence { .. }
                | Error::NoAnswer(_)
                | Error::OverBudget { .. }
        )
    }
}

fn explained(conflict: &Option<String>) -> String {
    conflict.as_ref().map_or_else(String::new, |conflict| format!(": {conflict}"))
}

fn place(source_name: &str, line: usize) -> String {
    match (source_name.is_empty(), line) {
        (true, 0) => String::new(),
        (true, line) => format!("line {line}: "),
        (false, 0) => format!("{source_name}: "),
        (false, line) => format!("{source_name}: line {line}: "),
    }
}

fn list_methods(available: &[&str]) -> String {
    if available.is_empty() {
        "; no method does".into()
    } else {
        format!("; these do: {}", available.join(", "))
    }
}

fn list_fitting(fitting: &[&str]) -> String {
    if fitting.is_empty() { String::new() } else { format!("; these fit: {}", fitting.join(", ")) }
}
