//! Tokens of a `.bif` or `.net` file (words, quoted names and punctuation), with line numbers.

use super::tokens::shown;
use crate::error::{Error, Result};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word<'a> {
    /// One of the style's [`Style::marks`].
    Mark(u8),
    /// A word up to the next whitespace, punctuation mark or comment.
    Plain(&'a [u8]),
    /// The text between two quotation marks.
    Quoted(&'a [u8]),
}

impl<'a> Word<'a> {
    pub fn is(self, keyword: &str) -> bool {
        self == Word::Plain(keyword.as_bytes())
    }

    /// The token as a name, unless it is punctuation.
    pub fn name(self) -> Option<&'a [u8]> {
        match self {
            Word::Mark(_) => None,
            Word::Plain(text) | Word::Quoted(text) => Some(text),
        }
    }

    pub fn shown(self) -> String {
        match self {
            Word::Mark(mark) => char::from(mark).to_string(),
            Word::Plain(text) | Word::Quoted(text) => shown(text),
        }
    }
}

/// The punctuation and the comments of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Style {
    /// Characters that are tokens on their own.
    pub marks: &'static [u8],
    /// Beginnings of comments, each with their end.
    pub comments: &'static [(&'static str, &'static str)],
    /// Whether a backslash keeps a quotation mark from ending a quoted name.
    pub escapes: bool,
}

impl Style {
    fn is_mark(&self, byte: u8) -> bool {
        self.marks.contains(&byte)
    }

    /// The comment that starts here.
    fn comment(&self, text: &[u8]) -> Option<(&'static str, &'static str)> {
        self.comments.iter().copied().find(|(start, _)| text.starts_with(start.as_bytes()))
    }

    /// True if a word ends before this text.
    fn ends_word(&self, text: &[u8]) -> bool {
        let byte = text[0];
        byte.is_ascii_whitespace() || self.is_mark(byte) || byte == b'"' || self.comment(text).is_some()
    }

    /// True if a name must be quoted to be read as one token.
    pub fn needs_quotes(&self, name: &str) -> bool {
        let name = name.as_bytes();
        name.is_empty() || (0..name.len()).any(|i| self.ends_word(&name[i..]))
    }

    /// The length of the text of a quoted name; `text` starts after its first quotation mark.
    fn quoted_length(&self, text: &[u8]) -> Option<usize> {
        let closes = |&i: &usize| text[i] == b'"' && !(self.escapes && i > 0 && text[i - 1] == b'\\');
        (0..text.len()).find(closes)
    }
}

pub(super) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The line of the last token returned.
    line: usize,
    /// The line of position `at`.
    line_at: usize,
    name: &'a str,
    style: Style,
}

impl<'a> Words<'a> {
    pub fn new(bytes: &'a [u8], name: &'a str, style: Style) -> Self {
        Words { bytes, at: 0, line: 1, line_at: 1, name, style }
    }

    /// The line of the last token.
    pub fn line(&self) -> usize {
        self.line
    }

    /// An error at the line of the last token.
    pub fn error(&self, message: impl Into<String>) -> Error {
        self.error_at(self.line, message)
    }

    pub fn error_at(&self, line: usize, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.name.into(), line, message: message.into() }
    }

    /// The error for an unexpected token.
    pub fn unexpected(&self, word: Word<'_>, expected: &str) -> Error {
        self.error(format!("expected {expected}, found `{}`", word.shown()))
    }

    fn rest(&self) -> &'a [u8] {
        &self.bytes[self.at..]
    }

    /// Advances by `length` bytes and returns them.
    fn take(&mut self, length: usize) -> &'a [u8] {
        let taken = &self.rest()[..length];
        self.line_at += taken.iter().filter(|&&b| b == b'\n').count();
        self.at += length;
        taken
    }

    /// Skips whitespace and comments.
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            let rest = self.rest();
            let blanks = rest.iter().position(|b| !b.is_ascii_whitespace()).unwrap_or(rest.len());
            self.take(blanks);
            let rest = self.rest();
            if let Some((start, end)) = self.style.comment(rest) {
                let text = &rest[start.len()..];
                let found = text.windows(end.len()).position(|window| window == end.as_bytes());
                match found {
                    Some(at) => self.take(start.len() + at + end.len()),
                    None if end == "\n" => self.take(rest.len()),
                    None => {
                        let message = format!("the comment `{start}` is never closed by `{end}`");
                        return Err(self.error_at(self.line_at, message));
                    }
                };
            } else {
                return Ok(());
            }
        }
    }

    /// The next token, if there is one.
    pub fn next(&mut self) -> Result<Option<Word<'a>>> {
        self.skip_blanks()?;
        self.line = self.line_at;
        let rest = self.rest();
        Ok(match rest.first() {
            None => None,
            Some(&mark) if self.style.is_mark(mark) => {
                self.take(1);
                Some(Word::Mark(mark))
            }
            Some(b'"') => {
                let Some(end) = self.style.quoted_length(&rest[1..]) else {
                    return Err(self.error(format!("the quote of `{}` is never closed", shown(rest))));
                };
                let quoted = self.take(end + 2);
                Some(Word::Quoted(&quoted[1..=end]))
            }
            Some(_) => {
                let length =
                    (0..rest.len()).find(|&i| self.style.ends_word(&rest[i..])).unwrap_or(rest.len());
                Some(Word::Plain(self.take(length)))
            }
        })
    }

    /// The next token, or an error that names the expected one.
    pub fn expect(&mut self, expected: &str) -> Result<Word<'a>> {
        match self.next()? {
            Some(word) => Ok(word),
            None => Err(self.error(format!("the file ends where {expected} was expected"))),
        }
    }

    /// Consumes a punctuation mark.
    pub fn mark(&mut self, mark: u8) -> Result<()> {
        let expected = format!("`{}`", char::from(mark));
        match self.expect(&expected)? {
            word if word == Word::Mark(mark) => Ok(()),
            word => Err(self.unexpected(word, &expected)),
        }
    }

    /// The next token as a name.
    pub fn name(&mut self, expected: &str) -> Result<&'a [u8]> {
        let word = self.expect(expected)?;
        word.name().ok_or_else(|| self.unexpected(word, expected))
    }
}
