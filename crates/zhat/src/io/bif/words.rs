//! Tokens of a `.bif` file (words, quoted names and punctuation), with line numbers.

use super::super::tokens::shown;
use crate::error::{Error, Result};

/// A token.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Word<'a> {
    /// A character for which [`is_mark`] is true.
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

/// True for characters that are tokens on their own.
fn is_mark(byte: u8) -> bool {
    matches!(byte, b'{' | b'}' | b'(' | b')' | b'[' | b']' | b',' | b';' | b'|')
}

fn starts_comment(text: &[u8]) -> bool {
    text.starts_with(b"//") || text.starts_with(b"/*")
}

/// True if a name must be quoted to be read as one token.
pub(super) fn needs_quotes(name: &str) -> bool {
    let ends_word = |byte: u8| byte.is_ascii_whitespace() || is_mark(byte) || byte == b'"';
    name.is_empty() || name.bytes().any(ends_word) || name.contains("//") || name.contains("/*")
}

pub(super) struct Words<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The line of the last token returned.
    line: usize,
    /// The line of position `at`.
    line_at: usize,
    name: &'a str,
}

impl<'a> Words<'a> {
    pub fn new(bytes: &'a [u8], name: &'a str) -> Self {
        Words { bytes, at: 0, line: 1, line_at: 1, name }
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
            if rest.starts_with(b"//") {
                self.take(rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()));
            } else if rest.starts_with(b"/*") {
                let Some(end) = rest[2..].windows(2).position(|pair| pair == b"*/") else {
                    return Err(self.error_at(self.line_at, "the comment `/*` is never closed by `*/`"));
                };
                self.take(end + 4);
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
            Some(&mark) if is_mark(mark) => {
                self.take(1);
                Some(Word::Mark(mark))
            }
            Some(b'"') => {
                let Some(end) = rest[1..].iter().position(|&b| b == b'"') else {
                    return Err(self.error(format!("the quote of `{}` is never closed", shown(rest))));
                };
                let quoted = self.take(end + 2);
                Some(Word::Quoted(&quoted[1..=end]))
            }
            Some(_) => {
                let ends = |i: &usize| {
                    let b = rest[*i];
                    b.is_ascii_whitespace() || is_mark(b) || b == b'"' || starts_comment(&rest[*i..])
                };
                let length = (0..rest.len()).find(ends).unwrap_or(rest.len());
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

    /// Skips a property after its keyword: everything up to a `;`.
    pub fn skip_property(&mut self) -> Result<()> {
        while self.expect("`;` after a property")? != Word::Mark(b';') {}
        Ok(())
    }

    /// Skips a block after its keyword: everything up to the closing `}`.
    pub fn skip_block(&mut self) -> Result<()> {
        const STATEMENTS: [&str; 4] = ["property", "type", "table", "default"];
        let (mut depth, mut statement_starts) = (0usize, false);
        loop {
            let word = self.expect("`}`")?;
            if depth == 1 && statement_starts {
                if word.is("property") {
                    self.skip_property()?;
                    continue;
                }
                let known = STATEMENTS.iter().any(|keyword| word.is(keyword));
                // Without this check an unclosed block would be reported only at the end of the file.
                if !known && !matches!(word, Word::Mark(_)) {
                    return Err(self.unexpected(word, "a row, a property or `}`"));
                }
            }
            match word {
                Word::Mark(b'{') => depth += 1,
                Word::Mark(b'}') if depth <= 1 => return Ok(()),
                Word::Mark(b'}') => depth -= 1,
                _ => {}
            }
            statement_starts = matches!(word, Word::Mark(b'{' | b';'));
        }
    }
}
