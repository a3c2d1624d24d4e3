//! The distinct rows of a table, some with missing cells.
//!
//! Identical rows are kept once, with their number, in lexicographic order. Time and memory of learning from
//! incomplete rows depend on the number of distinct rows, and results do not depend on the order of the rows
//! or the number of threads.

use std::collections::HashMap;

use super::statistics::{lacking, sorted_states};
use crate::error::{Error, Result};
use crate::io::table::dictionary::MISSING;
use crate::io::table::{Column, Missing, check_names};
use crate::run::Run;

/// Bytes of an entry of a hash table, without the cells of the row.
const ENTRY: f64 = 64.0;
/// Number of rows between checks of the clock and the memory.
const LOOK: usize = 1 << 12;

/// Rows with their numbers of occurrences. The cells are codes of states or [`MISSING`].
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    counts: HashMap<Box<[u32]>, u64>,
}

impl Groups {
    /// Adds a row.
    pub fn add(&mut self, row: &[u32], count: u64) {
        match self.counts.get_mut(row) {
            Some(known) => *known += count,
            None => {
                self.counts.insert(row.into(), count);
            }
        }
    }

    /// Adds rows that have other codes: `codes[i][a]` is the code here of state a of column i there.
    pub fn merge(&mut self, other: &Groups, codes: &[Vec<u32>]) {
        for (row, &count) in &other.counts {
            let own: Vec<u32> = row.iter().zip(codes).map(|(&cell, codes)| translated(cell, codes)).collect();
            self.add(&own, count);
        }
    }

    /// The memory of the rows of `columns` columns, in bytes.
    pub fn bytes(&self, columns: usize) -> f64 {
        self.counts.len() as f64 * (ENTRY + 4.0 * columns as f64)
    }
}

fn translated(cell: u32, codes: &[u32]) -> u32 {
    if cell == MISSING { MISSING } else { codes[cell as usize] }
}

/// The distinct rows of a table with their numbers of occurrences.
///
/// ```
/// use zhat::Run;
/// use zhat::io::table::Missing;
/// use zhat::learn::{Column, Table};
/// let column = |name: &str| Column { name: name.into(), states: vec!["no".into(), "yes".into()] };
/// let codes = [vec![Some(0), Some(0), None], vec![Some(1), Some(1), Some(0)]];
/// let table = Table::of_codes(vec![column("rain"), column("wet")], &codes, Missing::Marginal, &Run::default())?;
/// assert_eq!((table.rows(), table.distinct(), table.is_complete()), (3, 2, false));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    columns: Vec<Column>,
    /// The distinct rows, concatenated.
    cells: Vec<u32>,
    counts: Vec<u64>,
    dropped: u64,
    lacking: Vec<u64>,
}

impl Table {
    /// Counts columns of codes; `None` is a missing value. Rows without any value are left out, and with
    /// [`Missing::Drop`] all rows with a missing value. States that occur in no row are left out, and the
    /// others are sorted as in [`super::Statistics::new`].
    ///
    /// # Errors
    /// If no row is left, a column has no value, the columns have different numbers of rows, a code is out of
    /// range, a value is missing with [`Missing::Refuse`], or the rows exceed the memory budget.
    pub fn of_codes(
        columns: Vec<Column>,
        codes: &[Vec<Option<u32>>],
        missing: Missing,
        run: &Run,
    ) -> Result<Self> {
        let (groups, dropped, lacking) = grouped(&columns, codes, missing, run)?;
        Self::sorted(columns, &groups, dropped, lacking)
    }

    /// Like [`Table::of_codes`], but keeps all states of the columns in their order, whether they occur or
    /// not. A column may have no values.
    ///
    /// # Errors
    /// As [`Table::of_codes`].
    pub fn of_known_codes(
        columns: Vec<Column>,
        codes: &[Vec<Option<u32>>],
        missing: Missing,
        run: &Run,
    ) -> Result<Self> {
        let (groups, dropped, lacking) = grouped(&columns, codes, missing, run)?;
        Self::of_groups(columns, &groups, dropped, lacking)
    }

    /// The rows of a table whose states are in any order.
    pub(super) fn sorted(
        columns: Vec<Column>,
        groups: &Groups,
        dropped: u64,
        lacking: Vec<u64>,
    ) -> Result<Self> {
        if groups.counts.is_empty() {
            return Err(no_rows(&columns, dropped, &lacking));
        }
        let mut used: Vec<Vec<bool>> =
            columns.iter().map(|column| vec![false; column.states.len()]).collect();
        for row in groups.counts.keys() {
            for (&cell, used) in row.iter().zip(&mut used) {
                if cell != MISSING {
                    used[cell as usize] = true;
                }
            }
        }
        let (mut sorted, mut codes) = (Vec::with_capacity(columns.len()), Vec::with_capacity(columns.len()));
        for (column, used) in columns.into_iter().zip(&used) {
            if !used.contains(&true) {
                let message = format!(
                    "column {} has no values; leave it out, or give its states with a structure file",
                    column.name
                );
                return Err(Error::argument("data", message));
            }
            let (column, code) = sorted_states(column, |state| used[state]);
            sorted.push(column);
            codes.push(code);
        }
        let mut ordered = Groups::default();
        ordered.merge(groups, &codes);
        Self::of_groups(sorted, &ordered, dropped, lacking)
    }

    /// The rows of a table whose states are in their final order.
    pub(super) fn of_groups(
        columns: Vec<Column>,
        groups: &Groups,
        dropped: u64,
        lacking: Vec<u64>,
    ) -> Result<Self> {
        if groups.counts.is_empty() {
            return Err(no_rows(&columns, dropped, &lacking));
        }
        check_names(columns.iter().map(|column| column.name.as_str()))?;
        let mut rows: Vec<(&[u32], u64)> =
            groups.counts.iter().map(|(row, &count)| (&**row, count)).collect();
        rows.sort_unstable();
        let cells = rows.iter().flat_map(|(row, _)| row.iter().copied()).collect();
        let counts = rows.iter().map(|&(_, count)| count).collect();
        Ok(Table { columns, cells, counts, dropped, lacking })
    }

    /// The columns.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The number of rows.
    pub fn rows(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The number of different rows.
    pub fn distinct(&self) -> usize {
        self.counts.len()
    }

    /// The number of rows left out: those without any value, and with [`Missing::Drop`] all that have a
    /// missing value.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Columns with missing values and the number of affected rows, largest first.
    pub fn lacking(&self) -> Vec<(&str, u64)> {
        lacking(self.columns.iter().map(|column| column.name.as_str()), &self.lacking)
    }

    /// The number of rows without a value, for every column.
    pub(super) fn lacking_counts(&self) -> &[u64] {
        &self.lacking
    }

    /// The number of rows with a missing value.
    pub fn incomplete(&self) -> u64 {
        self.iter().filter(|(row, _)| row.contains(&MISSING)).map(|(_, count)| count).sum()
    }

    /// Whether no row has a missing value.
    pub fn is_complete(&self) -> bool {
        !self.cells.contains(&MISSING)
    }

    /// The distinct rows in lexicographic order, with their numbers. A missing cell is [`u32::MAX`].
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u32], u64)> {
        let width = self.columns.len();
        (0..self.distinct()).map(move |r| (&self.cells[r * width..(r + 1) * width], self.counts[r]))
    }
}

/// The rows of columns of codes, the number of rows left out, and the number of rows without a value by
/// column.
fn grouped(
    columns: &[Column],
    codes: &[Vec<Option<u32>>],
    missing: Missing,
    run: &Run,
) -> Result<(Groups, u64, Vec<u64>)> {
    let clock = run.start("counting");
    let rows = codes.first().map_or(0, Vec::len);
    if columns.len() != codes.len() || codes.iter().any(|own| own.len() != rows) {
        return Err(Error::argument("data", "the columns have different numbers of rows"));
    }
    let (mut groups, mut dropped, mut lacking) = (Groups::default(), 0, vec![0; columns.len()]);
    let mut row = vec![MISSING; columns.len()];
    for r in 0..rows {
        if r % LOOK == 0 {
            clock.check()?;
            run.require_memory("counting", groups.bytes(columns.len()))?;
        }
        for (i, (cell, own)) in row.iter_mut().zip(codes).enumerate() {
            *cell = own[r].unwrap_or(MISSING);
            let column = &columns[i];
            match own[r] {
                Some(code) if code as usize >= column.states.len() => {
                    let message = format!("row {r} has a state that column {} does not have", column.name);
                    return Err(Error::argument("data", message));
                }
                None if missing == Missing::Refuse => {
                    return Err(Error::argument(
                        "data",
                        format!("row {r}: column {} has no value", column.name),
                    ));
                }
                None => lacking[i] += 1,
                Some(_) => {}
            }
        }
        if is_kept(&row, missing) { groups.add(&row, 1) } else { dropped += 1 }
    }
    Ok((groups, dropped, lacking))
}

/// Whether a row takes part: rows without any value say nothing, and with [`Missing::Drop`] neither do
/// incomplete ones.
pub(super) fn is_kept(row: &[u32], missing: Missing) -> bool {
    match missing {
        Missing::Marginal => row.iter().any(|&cell| cell != MISSING),
        _ => !row.contains(&MISSING),
    }
}

/// The error for a table of which no row is left.
pub(super) fn no_rows(columns: &[Column], dropped: u64, lacking: &[u64]) -> Error {
    let why = if dropped > 0 {
        let names = columns.iter().map(|column| column.name.as_str());
        let worst = names.zip(lacking).max_by_key(|(_, count)| **count);
        let worst = worst.map_or_else(String::new, |(name, count)| {
            format!(" ({name} in {count}); sum over them with em, leave such columns out, or count a missing value as a state of its own")
        });
        format!("all {dropped} rows have missing values{worst}")
    } else {
        "there are no rows".into()
    };
    Error::argument("data", why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns(lengths: &[usize]) -> Vec<Column> {
        let column = |(i, &n): (usize, &usize)| Column {
            name: format!("c{i}"),
            states: (0..n).rev().map(|s| format!("s{s}")).collect(),
        };
        lengths.iter().enumerate().map(column).collect()
    }

    #[test]
    fn equal_rows_are_grouped_and_empty_ones_left_out() {
        let codes =
            [vec![Some(0), Some(0), None, None, Some(1)], vec![Some(2), Some(2), None, Some(0), None]];
        let run = Run::default();
        let table = Table::of_codes(columns(&[2, 3]), &codes, Missing::Marginal, &run).unwrap();
        // The states are sorted, and s1 of the second column does not occur.
        assert_eq!(table.columns()[1].states, ["s0", "s2"]);
        let rows: Vec<(&[u32], u64)> = table.iter().collect();
        assert_eq!(rows, [(&[0, MISSING][..], 1), (&[1, 0], 2), (&[MISSING, 1], 1)]);
        assert_eq!((table.rows(), table.dropped(), table.lacking()), (4, 1, vec![("c0", 2), ("c1", 2)]));
        let known = Table::of_known_codes(columns(&[2, 3]), &codes, Missing::Marginal, &run).unwrap();
        assert_eq!(known.columns()[1].states.len(), 3);
        let dropped = Table::of_codes(columns(&[2, 3]), &codes, Missing::Drop, &run).unwrap();
        assert_eq!((dropped.rows(), dropped.dropped(), dropped.is_complete()), (2, 3, true));
    }

    #[test]
    fn what_cannot_be_counted_is_refused() {
        let run = Run::default();
        let of = |codes: &[Vec<Option<u32>>], missing| {
            Table::of_codes(columns(&[2, 2]), codes, missing, &run).unwrap_err().to_string()
        };
        let empty = of(&[vec![None, None], vec![Some(0), Some(1)]], Missing::Marginal);
        assert!(empty.contains("column c0 has no values"), "{empty}");
        let gone = of(&[vec![None, None], vec![Some(0), Some(1)]], Missing::Drop);
        assert!(gone.contains("all 2 rows have missing values (c0 in 2)"), "{gone}");
        assert!(of(&[vec![None], vec![Some(0)]], Missing::Refuse).contains("row 0: column c0"));
        assert!(of(&[vec![Some(2)], vec![Some(0)]], Missing::Marginal).contains("row 0 has a state"));
        assert!(of(&[vec![], vec![]], Missing::Marginal).contains("no rows"));
        assert!(of(&[vec![None], vec![]], Missing::Marginal).contains("different numbers"));
    }
}
