//! What can go wrong, as data; and the words for it.

use std::path::{Path, PathBuf};

/// The result of everything here that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file or text does not follow its format.
    #[error("{}{message}", place(.source_name, *.line))]
    Parse {
        /// The file's name, empty for a text in memory.
        source_name: String,
        /// The line, counted from 1; 0 where lines mean nothing.
        line: usize,
        /// What is wrong and what was expected.
        message: String,
    },

    /// The potentials or structure handed over do not make a model.
    #[error("{0}")]
    Model(String),

    /// An option or argument has a value that cannot be used.
    #[error("{name}: {message}")]
    Argument {
        /// Its name, as the user wrote or could have written it.
        name: String,
        /// What is wrong and what would work.
        message: String,
    },

    /// A user-defined function failed; what it failed with is the source.
    #[error("{name}: the function failed: {source}")]
    Function {
        /// What the function is for.
        name: &'static str,
        /// Its own error.
        source: Box<dyn std::error::Error + Send + Sync>,
    },

    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },

    /// The method does not answer this query for this kind of model.
    #[error("method `{method}` does not answer {query} on a {kind}{}", list_methods(.available))]
    Unsupported {
        /// The method asked for.
        method: String,
        /// The query's name.
        query: &'static str,
        /// The model's kind.
        kind: &'static str,
        /// Methods that do answer it.
        available: Vec<&'static str>,
    },

    /// Every state of the model has weight zero, so there is no distribution.
    #[error(
        "zero partition: every state of the model has weight 0, so there is no distribution to ask about"
    )]
    ZeroPartition,

    /// The evidence has probability zero under the model.
    #[error("impossible evidence: the given evidence has probability 0 under the model{}", explained(.conflict))]
    ImpossibleEvidence {
        /// What contradicts what, where that is known.
        conflict: Option<String>,
    },

    /// The method came to its end without anything to answer from.
    #[error("no answer: {0}")]
    NoAnswer(String),

    /// The forecast, or the clock, is over the budget.
    #[error("over budget: {needs}; the budget is {budget}{}", list_fitting(.fitting))]
    OverBudget {
        /// Which method needs how much of what.
        needs: String,
        /// What there is of it.
        budget: String,
        /// Methods whose forecast fits.
        fitting: Vec<&'static str>,
    },

    /// The run was cancelled before there was an answer.
    #[error("interrupted before there was an answer")]
    Interrupted,
}

impl Error {
    /// A model that cannot be built.
    pub(crate) fn model(message: impl Into<String>) -> Self {
        Error::Model(message.into())
    }

    /// An argument that cannot be used.
    pub fn argument(name: impl Into<String>, message: impl Into<String>) -> Self {
        Error::Argument { name: name.into(), message: message.into() }
    }

    /// Evidence that contradicts the model, nobody knows yet why.
    pub(crate) fn impossible() -> Self {
        Error::ImpossibleEvidence { conflict: None }
    }

    /// A failed read or write of `path`.
    pub fn io(path: &Path, source: std::io::Error) -> Self {
        Error::Io { path: path.to_owned(), source }
    }

    /// A stable, short name of the variant: the `kind` in the program's JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Parse { .. } => "parse",
            Error::Model(_) => "model",
            Error::Argument { .. } => "argument",
            Error::Function { .. } => "function",
            Error::Io { .. } => "io",
            Error::Unsupported { .. } => "unsupported",
            Error::ZeroPartition => "zero-partition",
            Error::ImpossibleEvidence { .. } => "impossible-evidence",
            Error::NoAnswer(_) => "no-answer",
            Error::OverBudget { .. } => "over-budget",
            Error::Interrupted => "interrupted",
        }
    }

    /// True where the work was stopped, by the budget or from outside, before it could say anything about the
    /// model.
    pub(crate) fn is_stop(&self) -> bool {
        matches!(self, Error::OverBudget { .. } | Error::Interrupted)
    }

    /// True where the question was put well but has no answer, or none within the budget.
    pub fn is_unanswerable(&self) -> bool {
        matches!(
            self,
            Error::ZeroPartition
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
