//! Statistics and distinct rows of a table, counted in one pass.

use std::path::Path;

use super::statistics::too_many_states;
use super::table::{Groups, Table, is_kept};
use super::{Counter, Statistics};
use crate::error::{Error, Result};
use crate::io::blocks::{Block, share_out};
use crate::io::table::dictionary::{Dictionary, MISSING};
use crate::io::table::encoding::decoded;
use crate::io::table::fields::{Sink, each_row};
use crate::io::table::{Column, Layout, MISSING_STATE, Missing, Rows, TableOptions, begin};
use crate::run::Run;

/// What is kept of the rows.
trait Tally: Default + Send {
    /// Whether rows with missing values can be kept.
    const INCOMPLETE: bool;

    /// Adds rows, column by column; the columns have these numbers of states.
    fn add(&mut self, codes: &[Vec<u32>], lengths: &[usize]);

    /// An upper bound on the memory after rows of these columns are added, in bytes.
    fn bytes(&self, lengths: &[usize]) -> f64;

    /// Adds the rows of another tally; `codes[i][a]` is the code here of state a of column i there.
    fn merge(&mut self, other: &Self, codes: &[Vec<u32>], lengths: &[usize]);
}

impl Tally for Counter {
    const INCOMPLETE: bool = false;

    fn add(&mut self, codes: &[Vec<u32>], lengths: &[usize]) {
        self.grow(lengths);
        Counter::add(self, codes);
    }

    fn bytes(&self, lengths: &[usize]) -> f64 {
        Counter::bytes(lengths)
    }

    fn merge(&mut self, other: &Self, codes: &[Vec<u32>], lengths: &[usize]) {
        self.grow(lengths);
        Counter::merge(self, other, codes);
    }
}

impl Tally for Groups {
    const INCOMPLETE: bool = true;

    fn add(&mut self, codes: &[Vec<u32>], _: &[usize]) {
        let mut row = Vec::with_capacity(codes.len());
        for r in 0..codes.first().map_or(0, Vec::len) {
            row.clear();
            row.extend(codes.iter().map(|column| column[r]));
            Groups::add(self, &row, 1);
        }
    }

    fn bytes(&self, lengths: &[usize]) -> f64 {
        Groups::bytes(self, lengths.len())
    }

    fn merge(&mut self, other: &Self, codes: &[Vec<u32>], _: &[usize]) {
        Groups::merge(self, other, codes);
    }
}

/// The counts of one thread.
struct Worker<'a, T> {
    layout: &'a Layout,
    options: &'a TableOptions,
    dictionaries: Vec<Dictionary>,
    tally: T,
    /// The rows of the current block, column by column.
    codes: Vec<Vec<u32>>,
    /// The columns with a missing value in the current row.
    missing: Vec<usize>,
    dropped: u64,
    /// The number of rows with a missing value, by column.
    lacking: Vec<u64>,
}

impl<'a, T: Tally> Worker<'a, T> {
    fn new(layout: &'a Layout, options: &'a TableOptions) -> Self {
        let columns = layout.names.len();
        Worker {
            layout,
            options,
            dictionaries: vec![Dictionary::new(&options.markers); columns],
            tally: T::default(),
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
        let bytes = self.tally.bytes(&lengths) * (run.threads() + 2) as f64;
        if bytes > run.memory() as f64 {
            if T::INCOMPLETE {
                return Err(run.over_memory("the distinct rows of the table", bytes));
            }
            return Err(too_many_states(&self.columns(), run));
        }
        self.tally.add(&self.codes, &lengths);
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

impl<T: Tally> Sink for Worker<'_, T> {
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
            if T::INCOMPLETE {
                let row: Vec<u32> = self.codes.iter().filter_map(|column| column.last().copied()).collect();
                if is_kept(&row, self.options.missing) {
                    return Ok(());
                }
            }
            self.dropped += 1;
            self.codes.iter_mut().for_each(|column| {
                column.pop();
            });
        }
        Ok(())
    }
}

/// Counts a table in one pass, on all threads. Every thread has its own counts. Rows with missing values are
/// left out; [`read_table`] keeps them.
///
/// # Errors
/// If the file cannot be read or is not a valid table, a column has more than `most_states` states, a value
/// is missing with `Missing::Refuse`, no row is complete, or the run is cancelled or over its memory or time
/// budget.
pub fn read_statistics(path: &Path, options: &TableOptions, run: &Run) -> Result<Statistics> {
    let (layout, blocks) = begin(path, options)?;
    let workers =
        share_out(blocks, run, || Worker::new(&layout, options), |worker, block| worker.take(block, run))?;
    let all: Worker<'_, Counter> = merged(&layout, options, workers)?;
    let columns = all.columns();
    let lengths: Vec<usize> = columns.iter().map(|column| column.states.len()).collect();
    if 2.0 * Counter::bytes(&lengths) > run.memory() as f64 {
        return Err(too_many_states(&columns, run));
    }
    located(&layout, Statistics::new(columns, all.tally, all.dropped, all.lacking))
}

/// Reads the distinct rows of a table in one pass, on all threads, for learning from incomplete rows. Rows
/// without any value are left out.
///
/// # Errors
/// As [`read_statistics`]; also if a column has no value, or the distinct rows exceed the memory budget.
pub fn read_table(path: &Path, options: &TableOptions, run: &Run) -> Result<Table> {
    let (layout, blocks) = begin(path, options)?;
    let workers =
        share_out(blocks, run, || Worker::new(&layout, options), |worker, block| worker.take(block, run))?;
    let all: Worker<'_, Groups> = merged(&layout, options, workers)?;
    located(&layout, Table::sorted(all.columns(), &all.tally, all.dropped, all.lacking))
}

/// Like [`read_table`], for columns whose states are known: a column that the table does not have is missing in
/// every row, and columns of the table that are not among `columns` are ignored.
///
/// # Errors
/// As [`read_table`]; also if the table has none of the columns, or a value that its column does not have.
pub fn read_table_for(columns: &[Column], path: &Path, options: &TableOptions, run: &Run) -> Result<Table> {
    let clock = run.start("reading");
    let mut rows = Rows::open(path, options, columns)?;
    let (mut groups, mut dropped, mut lacking) = (Groups::default(), 0, vec![0; columns.len()]);
    while let Some(some) = rows.next_rows()? {
        clock.check()?;
        run.require_memory("reading", groups.bytes(columns.len()))?;
        for row in some {
            let cells: Vec<u32> =
                row.states.iter().map(|state| state.map_or(MISSING, |state| state as u32)).collect();
            for (lacking, _) in lacking.iter_mut().zip(&cells).filter(|(_, cell)| **cell == MISSING) {
                *lacking += 1;
            }
            if options.missing == Missing::Refuse
                && let Some(column) = cells.iter().position(|&cell| cell == MISSING)
            {
                return Err(rows.fail(row.line, format!("column {} has no value", columns[column].name)));
            }
            if is_kept(&cells, options.missing) { groups.add(&cells, 1) } else { dropped += 1 }
        }
    }
    let table = Table::of_groups(columns.to_vec(), &groups, dropped, lacking);
    table.map_err(|error| match error {
        Error::Argument { message, .. } => rows.fail(0, message),
        other => other,
    })
}

/// An error about the data with the name of the file.
fn located<T>(layout: &Layout, outcome: Result<T>) -> Result<T> {
    outcome.map_err(|error| match error {
        Error::Argument { message, .. } => layout.fail(0, message),
        other => other,
    })
}

/// The counts of all threads, matched by the names of the states.
fn merged<'a, T: Tally>(
    layout: &'a Layout,
    options: &'a TableOptions,
    workers: Vec<Worker<'_, T>>,
) -> Result<Worker<'a, T>> {
    let mut all: Worker<'_, T> = Worker::new(layout, options);
    for worker in &workers {
        let own = worker.dictionaries.iter().zip(&mut all.dictionaries);
        let codes: Vec<Vec<u32>> = own
            .map(|(own, all)| own.states().iter().map(|state| all.text_code(state.as_bytes())).collect())
            .collect();
        let lengths: Vec<usize> = all.dictionaries.iter().map(Dictionary::len).collect();
        all.tally.merge(&worker.tally, &codes, &lengths);
        all.dropped += worker.dropped;
        all.lacking.iter_mut().zip(&worker.lacking).for_each(|(all, own)| *all += own);
    }
    let columns = all.columns();
    if let Some(column) = columns.iter().find(|column| column.states.len() > options.most_states) {
        let message = format!("column {} has {} different values", column.name, column.states.len());
        return Err(layout.fail(0, message));
    }
    Ok(all)
}
