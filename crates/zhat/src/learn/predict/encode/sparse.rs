//! Encoded rows of a sparse matrix.

use crate::error::Result;
use crate::learn::predict::Inputs;

/// Rows of a sparse matrix while they are encoded one after the other. Only one copy of the numbers is made.
pub(super) struct SparseRows {
    width: usize,
    unit: bool,
    /// The current row.
    entries: Vec<(u32, f64)>,
    ends: Vec<usize>,
    indices: Vec<u32>,
    values: Vec<f64>,
}

impl SparseRows {
    pub fn new(width: usize, unit: bool) -> Self {
        let (ends, indices, values) = (Vec::new(), Vec::new(), Vec::new());
        SparseRows { width, unit, entries: Vec::new(), ends, indices, values }
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
            self.entries.sort_by_key(|&(column, _)| column);
            let square: f64 = self.entries.iter().map(|(_, value)| value * value).sum();
            let norm = if self.unit && square > 0.0 { square.sqrt() } else { 1.0 };
            for (column, value) in self.entries.drain(..).filter(|(_, value)| *value != 0.0) {
                self.indices.push(column);
                self.values.push(value / norm);
            }
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
