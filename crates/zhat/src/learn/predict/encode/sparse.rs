//! Encoded rows of a sparse matrix.

use super::{Cells, Encoder, Examples};
use crate::error::Result;
use crate::learn::predict::Inputs;
use crate::run::Run;

impl Encoder {
    /// The same bits as [`Encoder::encode`], for training examples whose cells are no longer needed. Sparse cells
    /// are encoded in place if each of them is encoded as one number, so that there is only one copy.
    pub(crate) fn encode_owned(&self, mut examples: Examples, run: &Run) -> Result<Inputs> {
        let plain = |at: usize| {
            let code = &self.codes[at];
            code.column == examples.columns[at] && code.column.levels.is_none() && !code.indicator
        };
        let one_each = self.codes.len() == examples.columns.len() && (0..self.codes.len()).all(plain);
        if !(self.sparse && one_each && matches!(examples.cells, Cells::Sparse { .. })) {
            return self.encode(&examples, run);
        }
        let cells = std::mem::replace(&mut examples.cells, Cells::Dense(Vec::new()));
        let Cells::Sparse { mut ends, mut indices, mut values } = cells else {
            return self.encode(&examples, run);
        };
        let (mut kept, mut start) = (0, 0);
        let mut entries: Vec<(u32, f64)> = Vec::new();
        for end in &mut ends {
            entries.extend((start..*end).map(|at| {
                let (code, value) = (&self.codes[indices[at] as usize], values[at]);
                let number = if value.is_nan() { code.missing } else { (value - code.shift) * code.scale };
                (code.first as u32, number)
            }));
            // There is never more to write than was read.
            finish_row(&mut entries, self.unit, |column, value| {
                (indices[kept], values[kept]) = (column, value);
                kept += 1;
            });
            start = *end;
            *end = kept;
        }
        drop(entries);
        add_bias(self.width as u32, kept, &mut ends, (&mut indices, &mut values));
        let inputs = Inputs::with_bias(self.width, ends, indices, values)?;
        match examples.weights {
            Some(weights) => inputs.with_weights(weights),
            None => Ok(inputs),
        }
    }
}

/// Sorts the numbers of a row, divides them by their norm if wanted, and visits those that are not 0.
fn finish_row(entries: &mut Vec<(u32, f64)>, unit: bool, mut visit: impl FnMut(u32, f64)) {
    entries.sort_by_key(|&(column, _)| column);
    let square: f64 = entries.iter().map(|(_, value)| value * value).sum();
    let norm = if unit && square > 0.0 { square.sqrt() } else { 1.0 };
    for (column, value) in entries.drain(..).filter(|(_, value)| *value != 0.0) {
        visit(column, value / norm);
    }
}

/// Adds a last entry of 1 to every row of the first `kept` numbers, in place: from the last row to the first, each
/// row moves by as many places as there are rows before it.
fn add_bias(column: u32, kept: usize, ends: &mut [usize], (indices, values): (&mut Vec<u32>, &mut Vec<f64>)) {
    let rows = ends.len();
    indices.truncate(kept);
    values.truncate(kept);
    indices.reserve_exact(rows);
    values.reserve_exact(rows);
    indices.resize(kept + rows, column);
    values.resize(kept + rows, 1.0);
    for row in (0..rows).rev() {
        let start = if row == 0 { 0 } else { ends[row - 1] };
        let end = ends[row];
        indices.copy_within(start..end, start + row);
        values.copy_within(start..end, start + row);
        (indices[end + row], values[end + row]) = (column, 1.0);
        ends[row] = end + row + 1;
    }
}

/// Rows of a sparse matrix while they are encoded one after the other. Only one copy of the numbers is made.
pub(super) struct SparseRows {
    width: usize,
    unit: bool,
    /// First column and end of each categorical column, whose first category is that of cells that are not given.
    categories: Vec<(u32, u32)>,
    /// The current row.
    entries: Vec<(u32, f64)>,
    ends: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl SparseRows {
    pub fn new(width: usize, unit: bool, categories: Vec<(u32, u32)>) -> Self {
        let (ends, indices, values) = (Vec::new(), Vec::new(), Vec::new());
        SparseRows { width, unit, categories, entries: Vec::new(), ends, indices, values }
    }

    /// The number of categorical columns.
    pub fn category_count(&self) -> usize {
        self.categories.len()
    }

    /// Takes memory for this many rows and numbers, with the bias.
    pub fn reserve(&mut self, rows: usize, numbers: usize) {
        self.ends.reserve_exact(rows);
        self.indices.reserve_exact(numbers);
        self.values.reserve_exact(numbers);
    }

    /// Adds a number to a row; rows come in ascending order.
    pub fn push(&mut self, row: usize, column: usize, value: f64) {
        self.finish(row);
        self.entries.push((column as u32, value));
    }

    /// Ends all rows before this one.
    fn finish(&mut self, row: usize) {
        while self.ends.len() < row {
            for &(first, end) in &self.categories {
                if !self.entries.iter().any(|(column, _)| (first..end).contains(column)) {
                    self.entries.push((first, 1.0));
                }
            }
            let (indices, values) = (&mut self.indices, &mut self.values);
            finish_row(&mut self.entries, self.unit, |column, value| {
                indices.push(column);
                values.push(value);
            });
            self.indices.push(self.width as u32);
            self.values.push(1.0);
            self.ends.push(self.values.len());
        }
    }

    /// The matrix of this many rows.
    pub fn inputs(mut self, rows: usize) -> Result<Inputs> {
        self.finish(rows);
        Inputs::with_bias(self.width, self.ends, self.indices, self.values)
    }
}
