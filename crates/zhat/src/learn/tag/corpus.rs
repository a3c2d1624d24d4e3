//! Tagged files: reading, and writing with other tags.
//!
//! | format | one token | sentences end with |
//! |---|---|---|
//! | `conllu` | a line of ten columns; ranges (`1-2`), empty nodes (`1.1`) and comments are kept, not tagged | an empty line |
//! | `columns` | a line of columns separated by spaces or tabs, as of CoNLL-2000 | an empty line |
//! | `words` | `word_TAG`, separated by spaces | the end of the line |
//! | `crfsuite` | a line `label⇥attribute⇥attribute:weight…` with `\:` and `\\` | an empty line |
//! | `csv` | a row; one column has the number or name of the sequence | another value in that column |
//!
//! A corpus keeps the text of its file, and a token is a few places in it, so that a file is written back
//! byte by byte except for its tags. Memory: the text and 36 bytes per token. Time: one pass.
//!
//! References: the [CoNLL-U format](https://universaldependencies.org/format.html) and the
//! [CRFsuite manual](https://www.chokkan.org/software/crfsuite/manual.html).

mod attributes;
mod columns;
mod csv;
mod lists;
mod stream;
mod words;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::io::Write;
use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::io::read_input;
use crate::units;

pub use stream::Stream;

/// A format of tagged files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Format {
    /// CoNLL-U: ten columns separated by tabs.
    Conllu,
    /// Columns separated by spaces or tabs; sentences are separated by empty lines.
    Columns,
    /// One sentence per line, of tokens `word_TAG`.
    Words,
    /// Attributes as for CRFsuite: the label and attributes, separated by tabs.
    Crfsuite,
    /// A table with a sequence column.
    Csv,
}

impl Format {
    /// The formats and their names.
    pub const ALL: [(&'static str, Format); 5] = [
        ("conllu", Format::Conllu),
        ("columns", Format::Columns),
        ("words", Format::Words),
        ("crfsuite", Format::Crfsuite),
        ("csv", Format::Csv),
    ];

    /// The format of this name.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        let found = Format::ALL.iter().find(|(known, _)| *known == name);
        found.map(|(_, format)| *format).ok_or_else(|| {
            let known = Format::ALL.map(|(name, _)| name).join(", ");
            Error::argument("format", format!("expected one of {known}, found `{name}`"))
        })
    }

    /// The name.
    pub fn name(self) -> &'static str {
        Format::ALL.iter().find(|(_, format)| *format == self).map_or("", |(name, _)| name)
    }

    /// The format of a text, from the name of its file and its first lines.
    fn of(text: &str, name: &str) -> Self {
        let stem = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst")).unwrap_or(name);
        if stem.ends_with(".conllu") {
            return Format::Conllu;
        }
        if stem.ends_with(".csv") {
            return Format::Csv;
        }
        let mut lines = text.lines().filter(|line| !line.trim().is_empty());
        let Some(line) = lines.find(|line| !line.starts_with("# ")) else { return Format::Columns };
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() == 10 && fields[0].starts_with(|c: char| c.is_ascii_digit()) {
            return Format::Conllu;
        }
        if fields.len() > 1 {
            let attribute = fields[1..].iter().any(|field| field.contains('='));
            return if attribute { Format::Crfsuite } else { Format::Columns };
        }
        let tagged = |token: &str| {
            let split = token.rfind('_').is_some_and(|at| at > 0 && at + 1 < token.len());
            split || (token.len() > 2 && token.ends_with("__"))
        };
        if line.split_whitespace().all(tagged) { Format::Words } else { Format::Columns }
    }
}

/// How to read a tagged file.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct ReadOptions {
    /// The format; `None` finds it from the name of the file and its first lines.
    pub format: Option<Format>,
    /// The column of the tags: its number from 1, its name in a table, or `upos` and `xpos` in CoNLL-U. `None` is
    /// `upos`, the last column, or the column of a table named `tag`.
    pub column: Option<String>,
    /// The column of the words, as above. `None` is the form, the first column, or the column of a table named
    /// `word`.
    pub word: Option<String>,
    /// The column of a table that tells sequences apart. `None` is the column named `sentence`, `sequence` or
    /// `id`.
    pub sequence: Option<String>,
    /// Whether the file has a column of tags. Without one, all columns are inputs.
    pub tagged: bool,
    /// The text in place of a tag that is not known.
    pub missing: String,
}

impl Default for ReadOptions {
    fn default() -> Self {
        let missing = "_".into();
        ReadOptions { format: None, column: None, word: None, sequence: None, tagged: true, missing }
    }
}

impl ReadOptions {
    /// Sets the format.
    pub fn format(mut self, format: Option<Format>) -> Self {
        self.format = format;
        self
    }

    /// Sets the column of the tags.
    pub fn column(mut self, column: Option<String>) -> Self {
        self.column = column;
        self
    }

    /// Sets the column of the words.
    pub fn word(mut self, word: Option<String>) -> Self {
        self.word = word;
        self
    }

    /// Sets the sequence column of a table.
    pub fn sequence(mut self, sequence: Option<String>) -> Self {
        self.sequence = sequence;
        self
    }

    /// Sets whether the file has a column of tags.
    pub fn tagged(mut self, tagged: bool) -> Self {
        self.tagged = tagged;
        self
    }
}

/// A range of bytes of the text.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bytes {
    start: u32,
    end: u32,
}

impl Bytes {
    fn new(range: Range<usize>) -> Self {
        Bytes { start: range.start as u32, end: range.end as u32 }
    }

    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// The places of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Place {
    /// The number of its line, from 1.
    line: u32,
    /// Its line, or its row of a table.
    row: Bytes,
    word: Bytes,
    /// The value of the tag; empty if there is none.
    tag: Bytes,
    /// The bytes that a tag replaces; empty if it is inserted.
    write: Bytes,
}

/// The sentences of a tagged file.
///
/// ```
/// use zhat::learn::tag::{Corpus, ReadOptions};
/// let text = "Confidence NN B-NP\nin IN B-PP\n\n";
/// let corpus = Corpus::parse(text.into(), "train.txt", &ReadOptions::default())?;
/// assert_eq!(corpus.sentence(0).field(1, 2).as_deref(), Some("IN"));
/// let mut out = Vec::new();
/// corpus.write(&[vec!["O", "O"]], &mut out)?;
/// assert_eq!(out, b"Confidence NN O\nin IN O\n\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Corpus {
    source_name: String,
    /// The text of the file, then values that are not a part of it, such as unescaped cells.
    text: String,
    /// The length of the text of the file.
    file: usize,
    format: Format,
    /// Written before a tag that is inserted.
    separator: char,
    /// Whether tags are inserted, not replaced.
    inserts: bool,
    places: Vec<Place>,
    /// The end of every sentence, in tokens.
    ends: Vec<usize>,
    /// Where the name of a new column is written.
    header: Option<usize>,
}

/// One sentence of a corpus.
#[derive(Clone, Copy, Debug)]
pub struct Sentence<'a> {
    corpus: &'a Corpus,
    number: usize,
    places: &'a [Place],
}

impl Corpus {
    /// Reads a file, plain or compressed (.gz, .zst); `-` is the standard input.
    ///
    /// # Errors
    /// If the file cannot be read or is not UTF-8; also as [`Corpus::parse`].
    pub fn read(path: &Path, options: &ReadOptions) -> Result<Self> {
        let input = read_input(path)?;
        Corpus::parse(input.text, &input.source_name, options)
    }

    /// Reads a text; `name` is used in messages.
    ///
    /// # Errors
    /// If the text has no token, does not follow its format, or a column is missing: with line and token.
    pub fn parse(text: String, name: &str, options: &ReadOptions) -> Result<Self> {
        let format = options.format.unwrap_or_else(|| Format::of(&text, name));
        let options = ReadOptions { format: Some(format), ..options.clone() };
        Corpus::parse_block(text, name, &options, 0)?.ok_or_else(|| {
            let message = format!("no token was found; read as {}", format.name());
            Error::Parse { source_name: name.into(), line: 0, message }
        })
    }

    /// Reads a part of a file after this many lines; `None` if it has no token.
    fn parse_block(text: String, name: &str, options: &ReadOptions, lines: usize) -> Result<Option<Self>> {
        let format = options.format.unwrap_or_else(|| Format::of(&text, name));
        let file = text.len();
        // Unescaped cells of a table follow the text.
        if file > (u32::MAX / 2) as usize {
            let message = "has more than 2 GiB; split it into several files";
            return Err(Error::argument(name, message));
        }
        let (source_name, places, ends) = (name.to_owned(), Vec::new(), Vec::new());
        let inserts = !options.tagged && matches!(format, Format::Columns | Format::Words | Format::Csv);
        let (separator, header) = (' ', None);
        let mut corpus = Corpus { source_name, text, file, format, separator, inserts, places, ends, header };
        let read = match format {
            Format::Conllu => columns::conllu(&mut corpus, options),
            Format::Columns => columns::plain(&mut corpus, options),
            Format::Words => words::read(&mut corpus, options),
            Format::Crfsuite => attributes::read(&mut corpus, options),
            Format::Csv => csv::read(&mut corpus, options),
        };
        read.map_err(|error| match error {
            Error::Parse { source_name, line, message } => {
                Error::Parse { source_name, line: if line > 0 { line + lines } else { 0 }, message }
            }
            other => other,
        })?;
        corpus.places.iter_mut().for_each(|place| place.line += lines as u32);
        corpus.end_sentence();
        Ok(Some(corpus).filter(|corpus| !corpus.ends.is_empty()))
    }

    fn error(&self, line: usize, message: String) -> Error {
        Error::Parse { source_name: self.source_name.clone(), line, message }
    }

    fn end_sentence(&mut self) {
        if self.places.len() > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(self.places.len());
        }
    }

    /// The name of the file, for messages.
    pub fn source_name(&self) -> &str {
        &self.source_name
    }

    /// The format.
    pub fn format(&self) -> Format {
        self.format
    }

    /// A hash of the text.
    pub(crate) fn fingerprint(&self) -> u64 {
        super::dictionary::hash(&self.text)
    }

    /// The number of sentences; at least 1.
    #[allow(clippy::len_without_is_empty)] // an empty file is an error
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// The number of tokens.
    pub fn tokens(&self) -> usize {
        self.places.len()
    }

    /// A sentence.
    ///
    /// # Panics
    /// If there is no such sentence.
    pub fn sentence(&self, number: usize) -> Sentence<'_> {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        Sentence { corpus: self, number, places: &self.places[start..self.ends[number]] }
    }

    /// All sentences.
    pub fn sentences(&self) -> impl ExactSizeIterator<Item = Sentence<'_>> {
        (0..self.len()).map(|number| self.sentence(number))
    }

    /// Writes the file with other tags: one list per sentence, one tag per token.
    ///
    /// # Errors
    /// If the numbers of tags are not those of the tokens, or `out` fails.
    pub fn write<S: AsRef<str>>(&self, tags: &[Vec<S>], out: &mut dyn Write) -> std::io::Result<()> {
        let fail = |message: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, message);
        if tags.len() != self.len() {
            let found = units::count(tags.len(), "sentence");
            return Err(fail(format!("there are tags of {found}, expected {}", self.len())));
        }
        let mut at = 0;
        if let Some(header) = self.header {
            write!(out, "{}{}tag", &self.text[..header], self.separator)?;
            at = header;
        }
        for (sentence, own) in self.sentences().zip(tags) {
            if own.len() != sentence.len() {
                let (number, expected) = (sentence.number + 1, sentence.len());
                return Err(fail(format!(
                    "sentence {number} has {} for {}",
                    units::count(own.len(), "tag"),
                    units::count(expected, "token")
                )));
            }
            for (place, tag) in sentence.places.iter().zip(own) {
                let range = place.write.range();
                out.write_all(&self.text.as_bytes()[at..range.start])?;
                if self.inserts {
                    write!(out, "{}", self.separator)?;
                }
                match self.format {
                    Format::Csv => out.write_all(crate::io::table::cell(tag.as_ref()).as_bytes())?,
                    _ => out.write_all(tag.as_ref().as_bytes())?,
                }
                at = range.end;
            }
        }
        out.write_all(&self.text.as_bytes()[at..self.file])
    }
}

impl<'a> Sentence<'a> {
    /// The number of tokens; at least 1.
    #[allow(clippy::len_without_is_empty)] // sentences without tokens are skipped
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The number of the sentence in the corpus.
    pub fn number(&self) -> usize {
        self.number
    }

    /// The word of a token; empty for files of attributes.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn word(&self, token: usize) -> &'a str {
        &self.corpus.text[self.places[token].word.range()]
    }

    /// The tag of a token, if it is known.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn tag(&self, token: usize) -> Option<&'a str> {
        let range = self.places[token].tag.range();
        (!range.is_empty()).then(|| &self.corpus.text[range])
    }

    /// The line of a token in its file, from 1.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn line(&self, token: usize) -> usize {
        self.places[token].line as usize
    }

    /// A column of a token, from 1; `None` if the line has no such column.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn field(&self, token: usize, column: usize) -> Option<Cow<'a, str>> {
        let row = &self.corpus.text[self.places[token].row.range()];
        let column = column.checked_sub(1)?;
        match self.corpus.format {
            Format::Csv => csv::cells(row).nth(column).map(|range| csv::value(&row[range])),
            Format::Words => None,
            _ => columns::fields(row).nth(column).map(|range| Cow::Borrowed(&row[range])),
        }
    }

    /// The attributes of a token and their weights, for files in CRFsuite's format.
    ///
    /// # Panics
    /// If there is no such token.
    pub fn attributes(&self, token: usize) -> impl Iterator<Item = (Cow<'a, str>, f64)> {
        let row = &self.corpus.text[self.places[token].row.range()];
        let own = self.corpus.format == Format::Crfsuite;
        row.split('\t').skip(1).filter(move |item| own && !item.is_empty()).map(attributes::attribute)
    }

    /// The error for a token.
    pub(crate) fn error(&self, token: usize, message: impl std::fmt::Display) -> Error {
        let word = self.word(token);
        let what = if word.is_empty() { String::new() } else { format!(" `{word}`") };
        self.corpus.error(self.line(token), format!("token {}{what}: {message}", token + 1))
    }
}
