//! Text encodings of tables.

use std::borrow::Cow;

use super::Layout;
use super::fields::{Sink, each_row};
use crate::error::Result;
use crate::io::blocks::Block;

/// The encoding of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encoding {
    /// UTF-8; invalid bytes are an error.
    #[default]
    Utf8,
    /// ISO 8859-1: one byte per character; every byte is valid.
    Latin1,
}

impl Encoding {
    /// The encoding with this name.
    ///
    /// ```
    /// use zhat::io::table::Encoding;
    /// assert_eq!(Encoding::named("latin-1"), Some(Encoding::Latin1));
    /// assert_eq!(Encoding::named("utf-16"), None);
    /// ```
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "utf-8" => Some(Encoding::Utf8),
            "latin-1" => Some(Encoding::Latin1),
            _ => None,
        }
    }

    /// Decodes the bytes, or returns the first invalid byte.
    pub(crate) fn text(self, bytes: &[u8]) -> Result<Cow<'_, str>, u8> {
        match self {
            Encoding::Utf8 => {
                std::str::from_utf8(bytes).map(Cow::from).map_err(|error| bytes[error.valid_up_to()])
            }
            Encoding::Latin1 => Ok(bytes.iter().map(|&byte| char::from(byte)).collect::<String>().into()),
        }
    }
}

/// The error message for an invalid byte.
pub(crate) fn explained(byte: u8, place: &str) -> String {
    format!(
        "{place}: the byte {byte:#04x} is not UTF-8; if the table is in Latin-1, read it with the encoding latin-1"
    )
}

/// The bytes of a block as UTF-8. An invalid byte is an error with its line and column.
pub(crate) fn decoded<'a>(block: &'a Block, layout: &Layout) -> Result<Cow<'a, [u8]>> {
    if block.bytes.is_ascii() {
        return Ok(Cow::Borrowed(&block.bytes));
    }
    match layout.encoding.text(&block.bytes) {
        Ok(Cow::Borrowed(_)) => Ok(Cow::Borrowed(&block.bytes)),
        Ok(Cow::Owned(text)) => Ok(Cow::Owned(text.into_bytes())),
        Err(byte) => {
            each_row(&block.bytes, block.line, layout.delimiter, &mut Finder(layout))?;
            // The byte is outside every field, so it has no column.
            Err(layout.fail(block.line, explained(byte, "between two fields")))
        }
    }
}

/// Fails at the first field that is not UTF-8.
struct Finder<'a>(&'a Layout);

impl Sink for Finder<'_> {
    fn field(&mut self, i: usize, value: &[u8], _: bool, line: usize) -> Result<()> {
        match self.0.encoding.text(value) {
            Ok(_) => Ok(()),
            Err(byte) => Err(self.0.fail(line, explained(byte, &self.0.column(i)))),
        }
    }

    fn end(&mut self, _: usize, _: usize) -> Result<()> {
        Ok(())
    }
}
