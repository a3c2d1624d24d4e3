//! Whitespace-separated tokens with line numbers.

use crate::error::{Error, Result};

pub(crate) struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The line of the last token returned.
    line: usize,
    /// The line of position `at`.
    line_at: usize,
    name: &'a str,
}

impl<'a> Tokens<'a> {
    pub fn new(bytes: &'a [u8], name: &'a str) -> Self {
        Tokens { bytes, at: 0, line: 1, line_at: 1, name }
    }

    /// The next token, if there is one.
    pub fn next(&mut self) -> Option<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let start = rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len());
        self.line_at += rest[..start].iter().filter(|&&b| b == b'\n').count();
        self.at += start;
        self.line = self.line_at;
        let rest = &self.bytes[self.at..];
        let length = rest.iter().position(u8::is_ascii_whitespace).unwrap_or(rest.len());
        self.at += length;
        (length > 0).then_some(&rest[..length])
    }

    /// The line of the last token.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Upper bound on the number of remaining tokens: each takes a byte and a separator.
    pub fn at_most(&self) -> usize {
        (self.bytes.len() - self.at).div_ceil(2)
    }

    /// An error at the last token.
    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.name.into(), line: self.line, message: message.into() }
    }

    /// The next token, or an error that names the expected one.
    pub fn expect(&mut self, what: impl Fn() -> String) -> Result<&'a [u8]> {
        match self.next() {
            Some(token) => Ok(token),
            None => Err(self.error(format!("the file ends where {} was expected", what()))),
        }
    }

    /// The next token as a whole number.
    pub fn integer(&mut self, what: impl Fn() -> String) -> Result<usize> {
        let token = self.expect(&what)?;
        let number = std::str::from_utf8(token).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| {
            self.error(format!("expected {}, a whole number, found `{}`", what(), shown(token)))
        })
    }

    /// The number of items that follow, each at least one token; an error if the file is too short for them.
    pub fn count(&mut self, what: impl Fn() -> String) -> Result<usize> {
        let count = self.integer(&what)?;
        if count > self.at_most() {
            return Err(self.error(format!("{} is {count}, more than the rest of the file can hold", what())));
        }
        Ok(count)
    }
}

/// A token shortened and made printable, for messages.
pub(crate) fn shown(token: &[u8]) -> String {
    let text: String = String::from_utf8_lossy(&token[..token.len().min(40)])
        .chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if token.len() > 40 { text + "…" } else { text }
}
