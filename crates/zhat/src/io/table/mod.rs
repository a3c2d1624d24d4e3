//! Tables as text: one row per line, values separated by commas (or semicolons, tabs, bars) and quoted if
//! necessary; plain, `.gz` or `.zst`.
//!
//! One thread reads a table in blocks of whole rows while the others parse the blocks.
//! [`crate::learn::read_statistics`] counts the rows, so its memory does not depend on their number; [`Rows`]
//! returns them one by one.

pub(crate) mod dictionary;
pub(crate) mod encoding;
pub(crate) mod fields;
mod rows;

pub use super::cell::cell;
pub use encoding::Encoding;
pub use rows::{Rows, TableRow};

use std::path::Path;

use super::blocks::Blocks;

use crate::error::{Error, Result};

/// A column: its name and the names of its states.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// The names of its states, in the order of their codes.
    pub states: Vec<String>,
}

/// Treatment of rows with missing values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Missing {
    /// The rows are left out and counted.
    #[default]
    Drop,
    /// A missing value is an error.
    Refuse,
    /// A missing value is a state of its column, named [`MISSING_STATE`].
    State,
    /// The rows are kept, and sums run over all states of the missing values.
    Marginal,
}

/// The name of the missing state with [`Missing::State`].
pub const MISSING_STATE: &str = "(missing)";

/// Options for reading a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// Whether the first row has the column names; otherwise columns are named x0, x1, ….
    pub header: bool,
    /// The delimiter; detected from the first row if not given.
    pub delimiter: Option<u8>,
    /// The text encoding.
    pub encoding: Encoding,
    /// Treatment of rows with missing values.
    pub missing: Missing,
    /// Markers of missing values.
    pub markers: Vec<String>,
    /// Names of columns to ignore.
    pub ignore: Vec<String>,
    /// Maximum number of states of a column; a column with more is refused as an identifier or a measurement.
    pub most_states: usize,
}

impl Default for TableOptions {
    fn default() -> Self {
        TableOptions {
            header: true,
            delimiter: None,
            encoding: Encoding::Utf8,
            missing: Missing::Drop,
            markers: ["", "?", "NA", "NaN", "nan", "null"].map(String::from).to_vec(),
            ignore: Vec::new(),
            most_states: 1000,
        }
    }
}

/// The columns of a table, determined from its first rows.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub name: String,
    /// All columns of the text.
    pub columns: Vec<String>,
    /// The columns that are used, in the order of the table.
    pub names: Vec<String>,
    /// For each column of the text, its index among the used columns, if it is used.
    pub places: Vec<Option<usize>>,
    pub delimiter: u8,
    pub encoding: Encoding,
}

impl Layout {
    /// The name or number of column `i` of the text, for messages.
    pub fn column(&self, i: usize) -> String {
        match self.columns.get(i) {
            Some(name) => format!("column {name}"),
            None => format!("column {}", i + 1),
        }
    }

    /// An error at a line.
    pub fn fail(&self, line: usize, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.name.clone(), line, message: message.into() }
    }
}

/// Opens a table and reads its header; returns the layout and the remaining rows.
pub(crate) fn begin(path: &Path, options: &TableOptions) -> Result<(Layout, Blocks)> {
    let name = if path == Path::new("-") { "standard input".to_owned() } else { path.display().to_string() };
    let fail = |line: usize, message: &str| Error::Parse {
        source_name: name.clone(),
        line,
        message: message.into(),
    };
    let given = options.delimiter.map(|delimiter| [delimiter]);
    let mut blocks = Blocks::rows(path, given.as_ref().map_or(USUAL, |one| one))?;
    let first = blocks.first_row()?.ok_or_else(|| fail(1, "the table is empty"))?;
    let delimiter = options.delimiter.unwrap_or_else(|| guess_delimiter(&first));
    blocks.set_delimiter(delimiter);
    let encoding = options.encoding;
    let line = blocks.line_of_first();
    let mut fields = Vec::new();
    for field in fields::split(&first, delimiter)? {
        let text = encoding.text(&field).map_err(|byte| {
            fail(line, &encoding::explained(byte, &format!("column {} of the first row", fields.len() + 1)))
        })?;
        fields.push(text.into_owned());
    }
    let all = if options.header { fields } else { (0..fields.len()).map(|i| format!("x{i}")).collect() };
    check_names(all.iter().map(String::as_str)).map_err(|error| match error {
        Error::Argument { message, .. } => fail(line, &message),
        other => other,
    })?;
    if let Some(odd) = options.ignore.iter().find(|&name| !all.contains(name)) {
        return Err(Error::argument(
            "ignore",
            format!("there is no column `{odd}`; there are {}", all.join(", ")),
        ));
    }
    let mut places = Vec::with_capacity(all.len());
    let mut names = Vec::new();
    let columns = all.clone();
    for column in all {
        let used = !options.ignore.contains(&column);
        places.push(used.then_some(names.len()));
        if used {
            names.push(column);
        }
    }
    if !options.header {
        blocks.put_back();
    }
    Ok((Layout { name, columns, names, places, delimiter, encoding }, blocks))
}

/// The common delimiters, most likely first.
const USUAL: &[u8] = b",;\t|";

/// The common delimiter that occurs most often in the row, outside quoted text.
pub(crate) fn guess_delimiter(row: &[u8]) -> u8 {
    let mut quoted = false;
    let mut counts = [0usize; USUAL.len()];
    for &byte in row {
        if byte == b'"' {
            quoted = !quoted;
        }
        if let Some(i) = USUAL.iter().position(|&c| c == byte && !quoted) {
            counts[i] += 1;
        }
    }
    let best = (0..USUAL.len()).rev().max_by_key(|&i| counts[i]).unwrap_or(0);
    USUAL[best]
}

/// Fails if a name is empty or occurs twice.
pub(crate) fn check_names<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    let mut seen = std::collections::HashSet::new();
    for (i, name) in names.enumerate() {
        if name.is_empty() {
            return Err(Error::argument("columns", format!("column {} has no name", i + 1)));
        }
        if !seen.insert(name) {
            return Err(Error::argument("columns", format!("two columns have the name `{name}`")));
        }
    }
    Ok(())
}
