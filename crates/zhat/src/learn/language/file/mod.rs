//! Language models of either kind in `.zhat` files.

mod embeddings;
mod field;
mod log_bilinear;

pub(crate) use embeddings::write_embeddings;
pub use field::{
    parse_language_model, read_checkpoint, read_language_model, write_checkpoint, write_language_model,
};
pub use log_bilinear::{parse_log_bilinear, write_log_bilinear};

use std::io::Write;
use std::path::Path;

use crate::error::{Error, Result};
use crate::learn::language::AnyLanguageModel;

/// Reads a language model of either kind; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of either kind, or its tensors do not form a model.
pub fn parse_any_language_model(bytes: &[u8], name: &str) -> Result<AnyLanguageModel> {
    if log_bilinear::is_one(bytes) {
        Ok(AnyLanguageModel::LogBilinear(parse_log_bilinear(bytes, name)?))
    } else {
        Ok(AnyLanguageModel::Field(parse_language_model(bytes, name)?))
    }
}

/// Reads a language model of either kind from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_any_language_model`].
pub fn read_any_language_model(path: &Path) -> Result<AnyLanguageModel> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_any_language_model(&bytes, &path.display().to_string())
}

/// Writes a language model of either kind; the same model gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_any_language_model(model: &AnyLanguageModel, out: &mut dyn Write) -> std::io::Result<()> {
    match model {
        AnyLanguageModel::Field(model) => write_language_model(model, out),
        AnyLanguageModel::LogBilinear(model) => write_log_bilinear(model, out),
    }
}
