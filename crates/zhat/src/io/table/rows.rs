//! Rows of a table, with values coded as states of a model.

use std::path::Path;

use super::super::blocks::Blocks;
use super::dictionary::{Dictionary, MISSING};
use super::encoding::decoded;
use super::fields::{Sink, each_row};
use super::{Column, Layout, MISSING_STATE, Missing, TableOptions, begin};
use crate::error::{Error, Result};

/// One row: the state of each column of the model, `None` if missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// The line number in the text.
    pub line: usize,
    /// The states, by column of the model.
    pub states: Vec<Option<usize>>,
}

/// The rows of a table whose columns and values are those of a model.
pub struct Rows {
    layout: Layout,
    blocks: Blocks,
    columns: Vec<Column>,
    dictionaries: Vec<Dictionary>,
    /// For each used column of the table, its index in the model.
    targets: Vec<usize>,
    /// Whether a missing value is a state.
    missing_is_state: bool,
}

struct Collector<'a> {
    rows: &'a Rows,
    states: Vec<Option<usize>>,
    found: Vec<TableRow>,
}

impl Rows {
    /// Opens a table for a model with these columns. Columns that are not in the model are ignored; columns
    /// of the model that are not in the table are missing in every row.
    ///
    /// # Errors
    /// If the file cannot be read, its header is invalid, an ignored column does not exist, or the table has
    /// no column of the model.
    pub fn open(path: &Path, options: &TableOptions, columns: &[Column]) -> Result<Self> {
        let (mut layout, blocks) = begin(path, options)?;
        let mut targets = Vec::new();
        let mut places = vec![None; layout.places.len()];
        for (i, place) in layout.places.iter().enumerate() {
            let name = place.map(|place| &layout.names[place]);
            if let Some(target) = columns.iter().position(|column| Some(&column.name) == name) {
                places[i] = Some(targets.len());
                targets.push(target);
            }
        }
        layout.places = places;
        if targets.is_empty() {
            let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            return Err(
                layout.fail(1, format!("none of the model's columns is in the table: {}", names.join(", ")))
            );
        }
        let dictionary = |&target: &usize| {
            let mut dictionary = Dictionary::new(&options.markers);
            columns[target].states.iter().for_each(|state| {
                dictionary.text_code(state.as_bytes());
            });
            dictionary
        };
        let dictionaries = targets.iter().map(dictionary).collect();
        let missing_is_state = options.missing == Missing::State;
        Ok(Rows { layout, blocks, columns: columns.to_vec(), dictionaries, targets, missing_is_state })
    }

    /// The next rows, in order; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, a row is not valid text or has the wrong number of fields, or a value is
    /// not a state of the model.
    pub fn next_rows(&mut self) -> Result<Option<Vec<TableRow>>> {
        let Some(block) = self.blocks.next()? else { return Ok(None) };
        let mut collector =
            Collector { states: vec![None; self.columns.len()], found: Vec::new(), rows: self };
        each_row(&decoded(&block, &self.layout)?, block.line, self.layout.delimiter, &mut collector)?;
        Ok(Some(collector.found))
    }

    /// An error at a line of the table.
    pub fn fail(&self, line: usize, message: impl Into<String>) -> Error {
        self.layout.fail(line, message)
    }
}

impl Sink for Collector<'_> {
    fn field(&mut self, i: usize, value: &[u8], quoted: bool, line: usize) -> Result<()> {
        let rows = self.rows;
        let Some(&Some(place)) = rows.layout.places.get(i) else { return Ok(()) };
        let target = rows.targets[place];
        let dictionary = &rows.dictionaries[place];
        let mut found = if quoted { dictionary.find_text(value) } else { dictionary.find(value) };
        if found == Some(MISSING) && rows.missing_is_state {
            found = dictionary.find_text(MISSING_STATE.as_bytes());
            if found.is_none() {
                let name = &rows.columns[target].name;
                let message =
                    format!("column {name} has no value, and the model has no state {MISSING_STATE} for it");
                return Err(rows.layout.fail(line, message));
            }
        }
        self.states[target] = match found {
            Some(MISSING) => None,
            Some(code) => Some(code as usize),
            None => {
                let column = &rows.columns[target];
                let value = String::from_utf8_lossy(value);
                let known: Vec<&str> = column.states.iter().take(20).map(String::as_str).collect();
                let more = if column.states.len() > 20 { ", …" } else { "" };
                let message = format!(
                    "the model does not know the value `{value}` of column {}; it knows {}{more}",
                    column.name,
                    known.join(", ")
                );
                return Err(rows.layout.fail(line, message));
            }
        };
        Ok(())
    }

    fn end(&mut self, fields: usize, line: usize) -> Result<()> {
        let expected = self.rows.layout.places.len();
        if fields != expected {
            return Err(self.rows.layout.fail(line, format!("found {fields} values, expected {expected}")));
        }
        let states = std::mem::replace(&mut self.states, vec![None; self.rows.columns.len()]);
        self.found.push(TableRow { line, states });
        Ok(())
    }
}
