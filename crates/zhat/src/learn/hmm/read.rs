//! Observations from tables: one row per step, and optionally a column that tells sequences apart and one with the
//! states.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::data::Sequences;
use super::initial::Family;
use super::model::Layout;
use crate::error::{Error, Result};
use crate::io::read_input;
use crate::io::table::fields::{Sink, each_row};
use crate::io::table::{check_names, guess_delimiter};

/// How a table is read.
#[derive(Clone, Debug, Default)]
pub struct ReadOptions {
    /// The column whose value changes from one sequence to the next. Default: the column `sequence`, if there is
    /// one; otherwise all rows are one sequence.
    pub sequence: Option<String>,
    /// The column with the states, for training with known states.
    pub labels: Option<String>,
    /// Columns to ignore.
    pub ignore: Vec<String>,
    /// Whether values may be missing: empty, `?`, `NA`, `NaN` or `nan`.
    pub missing: bool,
    /// Whether the first row is data; columns are then named x0, x1, ….
    pub no_header: bool,
    /// The delimiter; detected from the first row if not given.
    pub delimiter: Option<u8>,
    /// The columns and symbols of a model, which replace the options above except `labels`.
    pub known: Option<Layout>,
}

/// A table of observations.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    /// The sequences.
    pub data: Sequences,
    /// The state of every row, if there is a column of states.
    pub labels: Option<Vec<usize>>,
    /// Names of columns, symbols and states.
    pub layout: Layout,
    /// The family, with the number of symbols found.
    pub family: Family,
}

/// Reads observations from a table, plain or compressed, or `-` for stdin. The number of symbols of a categorical
/// family is that of the table, or of the known layout.
///
/// # Errors
/// If the file cannot be read, a column is missing, rows have different lengths, a value is not a number or is
/// missing without `missing`, a symbol is not known, or the rows of a sequence are not together.
pub fn read_sequences(path: &Path, family: Family, options: &ReadOptions) -> Result<Observations> {
    let input = read_input(path)?;
    parse(&input.text, &input.source_name, family, options)
}

/// What a column is.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Value(usize),
    Sequence,
    Label,
    Ignored,
}

/// Texts in the order of their first occurrence.
#[derive(Default)]
struct Dictionary {
    codes: HashMap<String, usize>,
    names: Vec<String>,
}

impl Dictionary {
    fn code(&mut self, text: &str) -> usize {
        if let Some(&code) = self.codes.get(text) {
            return code;
        }
        let code = self.names.len();
        self.codes.insert(text.to_owned(), code);
        self.names.push(text.to_owned());
        code
    }

    /// Sorts the names, as numbers if all are; returns them and the new code of each old one.
    fn sorted(self) -> (Vec<String>, Vec<usize>) {
        let numbers: Option<Vec<f64>> = self.names.iter().map(|name| name.parse().ok()).collect();
        let mut order: Vec<usize> = (0..self.names.len()).collect();
        match numbers {
            Some(numbers) => order.sort_by(|&a, &b| numbers[a].total_cmp(&numbers[b])),
            None => order.sort_by(|&a, &b| self.names[a].cmp(&self.names[b])),
        }
        let mut codes = vec![0; order.len()];
        order.iter().enumerate().for_each(|(new, &old)| codes[old] = new);
        (order.iter().map(|&old| self.names[old].clone()).collect(), codes)
    }
}

fn is_missing(text: &str) -> bool {
    matches!(text, "" | "?" | "NA" | "NaN" | "nan")
}

struct Table<'a> {
    options: &'a ReadOptions,
    source: &'a str,
    categorical: bool,
    missing: bool,
    header: bool,
    first: Vec<String>,
    names: Vec<String>,
    roles: Vec<Role>,
    columns: Vec<String>,
    sequence_column: Option<String>,
    row: Vec<f64>,
    values: Vec<f64>,
    lines: Vec<usize>,
    ends: Vec<usize>,
    /// The sequence of the row at hand and of the last row.
    sequence: Option<String>,
    last: Option<String>,
    seen: HashSet<String>,
    symbols: Dictionary,
    states: Dictionary,
    labels: Vec<usize>,
}

impl Table<'_> {
    fn fail(&self, line: usize, message: impl Into<String>) -> Error {
        Error::Parse { source_name: self.source.to_owned(), line, message: message.into() }
    }

    /// Gives every column its role.
    fn begin(&mut self, line: usize) -> Result<()> {
        let first = std::mem::take(&mut self.first);
        self.names =
            if self.header { first.clone() } else { (0..first.len()).map(|i| format!("x{i}")).collect() };
        check_names(self.names.iter().map(String::as_str)).map_err(|error| match error {
            Error::Argument { message, .. } => self.fail(line, message),
            other => other,
        })?;
        let known = self.options.known.as_ref();
        let wanted = known.map_or(&self.options.sequence, |layout| &layout.sequence);
        let has = |name: &str| self.names.iter().any(|own| own == name);
        let missing = |name: &str| {
            self.fail(line, format!("there is no column `{name}`; there are {}", self.names.join(", ")))
        };
        let sequence = match (wanted, known) {
            (Some(name), _) if has(name) => Some(name.clone()),
            (Some(name), None) => return Err(missing(name)),
            // A table without the column of sequences is one sequence of a known model.
            (Some(_), Some(_)) => None,
            (None, _) => {
                let observed = known.is_some_and(|layout| layout.columns.iter().any(|own| own == "sequence"));
                (has("sequence") && !observed).then(|| "sequence".to_owned())
            }
        };
        if let Some(name) = self.options.labels.iter().chain(&self.options.ignore).find(|name| !has(name)) {
            return Err(missing(name));
        }
        if let Some(layout) = known
            && let Some(name) = layout.columns.iter().find(|name| !has(name))
        {
            return Err(missing(name));
        }
        let mut columns = Vec::new();
        for name in &self.names {
            let role = if sequence.as_ref() == Some(name) {
                Role::Sequence
            } else if self.options.labels.as_ref() == Some(name) {
                Role::Label
            } else if let Some(layout) = known {
                layout.columns.iter().position(|own| own == name).map_or(Role::Ignored, Role::Value)
            } else if self.options.ignore.contains(name) {
                Role::Ignored
            } else {
                columns.push(name.clone());
                Role::Value(columns.len() - 1)
            };
            self.roles.push(role);
        }
        self.columns = known.map_or(columns, |layout| layout.columns.clone());
        if self.columns.is_empty() {
            return Err(self.fail(line, "there is no column of observations"));
        }
        if self.categorical && self.columns.len() != 1 {
            let message = format!(
                "categorical emissions have one column, found {}: {}; the option ignore leaves columns out",
                self.columns.len(),
                self.columns.join(", ")
            );
            return Err(self.fail(line, message));
        }
        self.sequence_column = sequence;
        self.row = vec![0.0; self.columns.len()];
        if !self.header {
            for (i, text) in first.iter().enumerate() {
                self.cell(i, text, line)?;
            }
            self.finish(first.len(), line)?;
        }
        Ok(())
    }

    fn cell(&mut self, i: usize, text: &str, line: usize) -> Result<()> {
        let Some(&role) = self.roles.get(i) else { return Ok(()) };
        match role {
            Role::Ignored => {}
            Role::Sequence => self.sequence = Some(text.to_owned()),
            Role::Label => {
                if is_missing(text) {
                    return Err(self.fail(line, format!("column {}: the state is missing", self.names[i])));
                }
                let code = self.states.code(text);
                self.labels.push(code);
            }
            Role::Value(place) => self.row[place] = self.value(i, text, line)?,
        }
        Ok(())
    }

    fn value(&mut self, i: usize, text: &str, line: usize) -> Result<f64> {
        let name = &self.names[i];
        if is_missing(text) {
            if self.missing {
                return Ok(f64::NAN);
            }
            let message = format!(
                "column {name}: the value is missing; sums over missing values have to be asked for: --missing marginal, \
                 or missing=True in Python"
            );
            return Err(self.fail(line, message));
        }
        if self.categorical {
            let known = self.options.known.as_ref().map(|layout| &layout.symbols);
            return match known {
                Some(symbols) => match symbols.iter().position(|symbol| symbol == text) {
                    Some(code) => Ok(code as f64),
                    None => Err(self.fail(line, format!("column {name}: the model has no symbol `{text}`"))),
                },
                None => Ok(self.symbols.code(text) as f64),
            };
        }
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.fail(line, format!("column {name}: found `{text}`, expected a finite number"))),
        }
    }

    fn finish(&mut self, fields: usize, line: usize) -> Result<()> {
        if fields != self.names.len() {
            let message = format!("found {fields} values, expected {}", self.names.len());
            return Err(self.fail(line, message));
        }
        if self.sequence != self.last || self.lines.is_empty() {
            if !self.lines.is_empty() {
                self.ends.push(self.lines.len());
            }
            if let Some(sequence) = &self.sequence
                && !self.seen.insert(sequence.clone())
            {
                let message = format!("the rows of sequence `{sequence}` are not together; sort the table");
                return Err(self.fail(line, message));
            }
            self.last.clone_from(&self.sequence);
        }
        self.values.extend_from_slice(&self.row);
        self.lines.push(line);
        Ok(())
    }
}

impl Sink for Table<'_> {
    fn field(&mut self, i: usize, value: &[u8], _: bool, line: usize) -> Result<()> {
        // The input is UTF-8, and fields are divided at ASCII characters.
        let text = String::from_utf8_lossy(value);
        if self.roles.is_empty() {
            self.first.push(text.into_owned());
            return Ok(());
        }
        self.cell(i, &text, line)
    }

    fn end(&mut self, fields: usize, line: usize) -> Result<()> {
        if self.roles.is_empty() { self.begin(line) } else { self.finish(fields, line) }
    }
}

/// Reads observations from the text of a table; `source` is the file's name for messages.
pub(super) fn parse(text: &str, source: &str, family: Family, options: &ReadOptions) -> Result<Observations> {
    let known = options.known.as_ref();
    let mut table = Table {
        options,
        source,
        categorical: matches!(family, Family::Categorical { .. }),
        missing: known.map_or(options.missing, |layout| layout.missing),
        header: !known.map_or(options.no_header, |layout| layout.no_header),
        first: Vec::new(),
        names: Vec::new(),
        roles: Vec::new(),
        columns: Vec::new(),
        sequence_column: None,
        row: Vec::new(),
        values: Vec::new(),
        lines: Vec::new(),
        ends: Vec::new(),
        sequence: None,
        last: None,
        seen: HashSet::new(),
        symbols: Dictionary::default(),
        states: Dictionary::default(),
        labels: Vec::new(),
    };
    let first = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    let delimiter = options.delimiter.unwrap_or_else(|| guess_delimiter(first.as_bytes()));
    each_row(text.as_bytes(), 1, delimiter, &mut table)?;
    if table.lines.is_empty() {
        return Err(table.fail(1, "the table has no rows of observations"));
    }
    table.ends.push(table.lines.len());
    let mut layout = known.cloned().unwrap_or_else(|| Layout {
        columns: table.columns.clone(),
        sequence: table.sequence_column.clone(),
        missing: options.missing,
        no_header: options.no_header,
        ..Layout::default()
    });
    let mut family = family;
    if let (Family::Categorical { .. }, None) = (family, known) {
        let (symbols, codes) = table.symbols.sorted();
        for value in table.values.iter_mut().filter(|value| !value.is_nan()) {
            *value = codes[*value as usize] as f64;
        }
        family = Family::Categorical { symbols: symbols.len().max(1) };
        layout.symbols = symbols;
    }
    let mut labels = None;
    if options.labels.is_some() {
        let (names, codes) = table.states.sorted();
        if layout.states.is_empty() {
            layout.states.clone_from(&names);
        }
        let place = |(&label, &line): (&usize, &usize)| {
            let name = &names[codes[label]];
            layout.states.iter().position(|own| own == name).ok_or_else(|| Error::Parse {
                source_name: source.to_owned(),
                line,
                message: format!("the model has no state `{name}`"),
            })
        };
        labels = Some(table.labels.iter().zip(&table.lines).map(place).collect::<Result<Vec<_>>>()?);
    }
    let mut begin = 0;
    let lengths: Vec<usize> = table
        .ends
        .iter()
        .map(|&end| {
            let length = end - begin;
            begin = end;
            length
        })
        .collect();
    let data = Sequences::new(table.columns.len(), table.values, &lengths)?.with_origin(
        source,
        table.lines,
        table.columns,
    );
    let data = if labels.is_some() { data.with_states(layout.states.clone()) } else { data };
    Ok(Observations { data, labels, layout, family })
}
