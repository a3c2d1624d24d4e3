//! Statistics of a table, counted in one pass.

use std::path::Path;

use super::statistics::too_many_states;
use super::{Counter, Statistics};
use crate::error::{Error, Result};
use crate::io::blocks::{Block, share_out};
use crate::io::table::dictionary::{Dictionary, MISSING};
use crate::io::table::encoding::decoded;
use crate::io::table::fields::{Sink, each_row};
use crate::io::table::{Column, Layout, MISSING_STATE, Missing, TableOptions, begin};
use crate::run::Run;

/// The counts of one thread.
struct Worker<'a> {
    layout: &'a Layout,
    options: &'a TableOptions,
    dictionaries: Vec<Dictionary>,
    counter: Counter,
    /// The rows of the current block, column by column.
    codes: Vec<Vec<u32>>,
    /// The columns with a missing value in the current row.
    missing: Vec<usize>,
    dropped: u64,
    /// The number of rows with a missing value, by column.
    lacking: Vec<u64>,
}

impl<'a> Worker<'a> {
    fn new(layout: &'a Layout, options: &'a TableOptions) -> Self {
        let columns = layout.names.len();
        Worker {
            layout,
            options,
            dictionaries: vec![Dictionary::new(&options.markers); columns],
            counter: Counter::new(vec![0; columns]),
            codes: vec![Vec::new(); columns],
            missing: Vec::new(),
            dropped: 0,
            lacking: vec![0; columns],
        }
    }

    fn take(&mut self, block: &Block, run: &Run) -> Result<()> {
        self.codes.iter_mut().for_each(Vec::clear);
        each_row(&decoded(block, self.layout)?, block.line, self.layout.delimiter, self)?;
        let lengths: Vec<usize> = self.dictionaries.iter().map(Dictionary::len).collect();
        if Counter::bytes(&lengths) * (run.threads() + 2) as f64 > run.memory() as f64 {
            return Err(too_many_states(&self.columns(), run));
        }
        self.counter.grow(&lengths);
        self.counter.add(&self.codes);
        Ok(())
    }

    fn columns(&self) -> Vec<Column> {
        let column = |(name, dictionary): (&String, &Dictionary)| Column {
            name: name.clone(),
            states: dictionary.states(),
        };
        self.layout.names.iter().zip(&self.dictionaries).map(column).collect()
    }
}

impl Sink for Worker<'_> {
    #[inline]
    fn field(&mut self, i: usize, value: &[u8], quoted: bool, line: usize) -> Result<()> {
        let Some(&Some(place)) = self.layout.places.get(i) else { return Ok(()) };
        let dictionary = &mut self.dictionaries[place];
        let mut code = if quoted { dictionary.text_code(value) } else { dictionary.code(value) };
        if code == MISSING {
            self.lacking[place] += 1;
            if self.options.missing == Missing::State {
                code = dictionary.text_code(MISSING_STATE.as_bytes());
            }
        }
        self.codes[place].push(code);
        if code == MISSING {
            self.missing.push(place);
        } else if code as usize >= self.options.most_states {
            return Err(self.layout.fail(
                line,
                format!(
                    "column {} has more than {} different values; if it is no category leave it out, else allow more",
                    self.layout.names[place], self.options.most_states
                ),
            ));
        }
        Ok(())
    }

    #[inline]
    fn end(&mut self, fields: usize, line: usize) -> Result<()> {
        let expected = self.layout.places.len();
        if fields != expected {
            return Err(self.layout.fail(line, format!("found {fields} values, expected {expected}")));
        }
        if let Some(&place) = self.missing.first() {
            self.missing.clear();
            if self.options.missing == Missing::Refuse {
                let name = &self.layout.names[place];
                return Err(self.layout.fail(line, format!("column {name} has no value")));
            }
            self.dropped += 1;
            self.codes.iter_mut().for_each(|column| {
                column.pop();
            });
        }
        Ok(())
    }
}

/// Counts a table in one pass, on all threads. Every thread has its own counts.
///
/// # Errors
/// If the file cannot be read or is not a valid table, a column has more than `most_states` states, a value
/// is missing with `Missing::Refuse`, no row is complete, or the run is cancelled or over its memory or time
/// budget.
pub fn read_statistics(path: &Path, options: &TableOptions, run: &Run) -> Result<Statistics> {
    let (layout, blocks) = begin(path, options)?;
    let workers =
        share_out(blocks, run, || Worker::new(&layout, options), |worker, block| worker.take(block, run))?;
    merged(&layout, options, workers, run)
}

/// The counts of all threads, matched by the names of the states.
fn merged(
    layout: &Layout,
    options: &TableOptions,
    workers: Vec<Worker<'_>>,
    run: &Run,
) -> Result<Statistics> {
    let mut all = Worker::new(layout, options);
    let dropped = workers.iter().map(|worker| worker.dropped).sum();
    let code = |worker: &Worker<'_>, all: &mut Worker<'_>| -> Vec<Vec<u32>> {
        let own = worker.dictionaries.iter().zip(&mut all.dictionaries);
        own.map(|(own, all)| own.states().iter().map(|state| all.text_code(state.as_bytes())).collect())
            .collect()
    };
    for worker in &workers {
        let codes = code(worker, &mut all);
        let lengths: Vec<usize> = all.dictionaries.iter().map(Dictionary::len).collect();
        all.counter.grow(&lengths);
        all.counter.merge(&worker.counter, &codes);
    }
    let columns = all.columns();
    if let Some(column) = columns.iter().find(|column| column.states.len() > options.most_states) {
        let message = format!("column {} has {} different values", column.name, column.states.len());
        return Err(layout.fail(0, message));
    }
    let lengths: Vec<usize> = columns.iter().map(|column| column.states.len()).collect();
    if 2.0 * Counter::bytes(&lengths) > run.memory() as f64 {
        return Err(too_many_states(&columns, run));
    }
    let mut lacking = vec![0; layout.names.len()];
    for worker in &workers {
        lacking.iter_mut().zip(&worker.lacking).for_each(|(all, own)| *all += own);
    }
    Statistics::new(columns, all.counter, dropped, lacking).map_err(|error| match error {
        Error::Argument { message, .. } => layout.fail(0, message),
        other => other,
    })
}
