//! The inputs of all rows as a matrix, dense or sparse, with a last column of ones for the bias.
//!
//! Products run over fixed blocks of rows and columns, so that their bits do not depend on the number of
//! threads.

use std::ops::Range;

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::numeric::{Elementwise, Index, Indices, Matrix, Tile, multiply};

/// Number of rows per piece of sparse products. A tile of the parameters, which fits into the cache for some
/// thousand inputs, is used for all rows of a piece.
const PIECE: usize = 128;
/// Minimum number of independent parts of a gradient.
const PARTS: usize = 8;

/// A matrix of inputs, one row per example; the last column is 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    rows: usize,
    columns: usize,
    values: Numbers,
    /// The weights of the rows in the training objective; none if all are 1.
    weights: Option<Vec<f64>>,
}

#[derive(Clone, Debug, PartialEq)]
enum Numbers {
    Dense(Vec<f64>),
    Sparse { ends: Vec<usize>, columns: Columns, values: Vec<f64> },
}

/// The columns of all entries: in 2 bytes each where they fit, which saves a sixth of the memory of the inputs.
#[derive(Clone, Debug, PartialEq)]
enum Columns {
    Short(Vec<u16>),
    Long(Vec<u32>),
}

impl Columns {
    /// The columns of entries, of which `last` is the largest.
    fn new(indices: Vec<u32>, last: usize) -> Self {
        match last <= usize::from(u16::MAX) {
            true => Columns::Short(indices.iter().map(|&index| index as u16).collect()),
            false => Columns::Long(indices),
        }
    }

    fn of(&self, range: Range<usize>) -> Indices<'_> {
        match self {
            Columns::Short(columns) => Indices::Short(&columns[range]),
            Columns::Long(columns) => Indices::Long(&columns[range]),
        }
    }

    fn bytes(&self) -> usize {
        match self {
            Columns::Short(columns) => 2 * columns.len(),
            Columns::Long(columns) => 4 * columns.len(),
        }
    }

    /// The columns of these ranges of entries.
    fn select(&self, ranges: impl Iterator<Item = Range<usize>>) -> Columns {
        fn all<I: Index>(columns: &[I], ranges: impl Iterator<Item = Range<usize>>) -> Vec<I> {
            ranges.flat_map(|range| columns[range].iter().copied()).collect()
        }
        match self {
            Columns::Short(columns) => Columns::Short(all(columns, ranges)),
            Columns::Long(columns) => Columns::Long(all(columns, ranges)),
        }
    }
}

impl Inputs {
    /// Dense inputs, row by row; a column of ones is added.
    ///
    /// # Errors
    /// If the numbers do not form rows of this length, or one is not finite.
    pub fn dense(columns: usize, numbers: &[f64]) -> Result<Self> {
        let rows = numbers.len().checked_div(columns).unwrap_or(0);
        if rows * columns != numbers.len() {
            let message = format!("{} numbers make no rows of {columns}", numbers.len());
            return Err(Error::argument("inputs", message));
        }
        let mut values = Vec::with_capacity(rows * (columns + 1));
        for row in numbers.chunks_exact(columns.max(1)) {
            values.extend_from_slice(row);
            values.push(1.0);
        }
        Inputs::dense_with_bias(columns, values)
    }

    /// Dense inputs, in which every row already ends with a 1.
    pub(crate) fn dense_with_bias(columns: usize, values: Vec<f64>) -> Result<Self> {
        let width = columns + 1;
        finite(&values, |at| (at / width, at % width))?;
        let rows = values.len() / width;
        Ok(Inputs { rows, columns: width, values: Numbers::Dense(values), weights: None })
    }

    /// Only a bias, for data without inputs.
    pub fn bias(rows: usize) -> Self {
        Inputs { rows, columns: 1, values: Numbers::Dense(vec![1.0; rows]), weights: None }
    }

    /// Sparse inputs: row r has the values up to `ends[r]`, in the columns `indices`; a column of ones is
    /// added.
    ///
    /// # Errors
    /// If the ends decrease or do not fit the values, an index is out of range, or a number is not finite.
    pub fn sparse(columns: usize, ends: &[usize], indices: &[u32], numbers: &[f64]) -> Result<Self> {
        let fail = |message: String| Err(Error::argument("inputs", message));
        if ends.windows(2).any(|pair| pair[0] > pair[1])
            || ends.last().copied().unwrap_or(0) != numbers.len()
            || indices.len() != numbers.len()
        {
            return fail("the row ends do not fit the values".into());
        }
        if columns >= u32::MAX as usize {
            return fail(format!("{columns} columns are too many"));
        }
        if let Some(index) = indices.iter().find(|index| **index as usize >= columns) {
            return fail(format!("column {index} is out of range; there are {columns}"));
        }
        let rows = ends.len();
        let mut all = (
            Vec::with_capacity(rows),
            Vec::with_capacity(numbers.len() + rows),
            Vec::with_capacity(numbers.len() + rows),
        );
        let mut start = 0;
        for &end in ends {
            all.1.extend_from_slice(&indices[start..end]);
            all.2.extend_from_slice(&numbers[start..end]);
            all.1.push(columns as u32);
            all.2.push(1.0);
            all.0.push(all.1.len());
            start = end;
        }
        Inputs::with_bias(columns, all.0, all.1, all.2)
    }

    /// Sparse inputs as in [`Inputs::sparse`], in which every row already ends with a 1 in column `columns`.
    pub(crate) fn with_bias(
        columns: usize,
        ends: Vec<usize>,
        indices: Vec<u32>,
        values: Vec<f64>,
    ) -> Result<Self> {
        finite(&values, |at| (ends.partition_point(|&end| end <= at), indices[at] as usize))?;
        let rows = ends.len();
        let values = Numbers::Sparse { ends, columns: Columns::new(indices, columns), values };
        Ok(Inputs { rows, columns: columns + 1, values, weights: None })
    }

    /// The same rows with weights in the training objective, which becomes Σ wᵢ·lossᵢ / Σ wᵢ. A row of weight 2
    /// counts as two rows, a row of weight 0 not at all.
    ///
    /// # Errors
    /// If there is not one weight per row, one is negative or not finite, or all are 0.
    pub fn with_weights(self, weights: Vec<f64>) -> Result<Self> {
        let fail = |message: String| Err(Error::argument("weights", message));
        if weights.len() != self.rows {
            return fail(format!("there are {} weights of {} rows", weights.len(), self.rows));
        }
        if let Some(row) = weights.iter().position(|weight| !(weight.is_finite() && *weight >= 0.0)) {
            return fail(format!("row {row} has weight {}, expected a number from 0", weights[row]));
        }
        let total: f64 = weights.iter().sum();
        if self.rows > 0 && !(total > 0.0 && total.is_finite()) {
            return fail(format!("their sum is {total}, expected a finite number above 0"));
        }
        Ok(Inputs { weights: Some(weights), ..self })
    }

    /// The weights of the rows; none if all are 1.
    pub fn weights(&self) -> Option<&[f64]> {
        self.weights.as_deref()
    }

    /// The weight of a row.
    pub(crate) fn weight(&self, row: usize) -> f64 {
        self.weights.as_ref().map_or(1.0, |weights| weights[row])
    }

    /// The sum of the weights: the number of rows if all are 1.
    pub(crate) fn total(&self) -> f64 {
        self.weights.as_ref().map_or(self.rows as f64, |weights| weights.iter().sum())
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns, including the bias.
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// Whether the matrix is sparse.
    pub fn is_sparse(&self) -> bool {
        matches!(self.values, Numbers::Sparse { .. })
    }

    /// Memory in bytes.
    pub fn bytes(&self) -> usize {
        match &self.values {
            Numbers::Dense(numbers) => 8 * numbers.len(),
            Numbers::Sparse { ends, columns, values } => 8 * ends.len() + columns.bytes() + 8 * values.len(),
        }
    }

    /// Some of the rows, in this order.
    pub fn select(&self, rows: &[usize]) -> Inputs {
        let values = match &self.values {
            Numbers::Dense(numbers) => {
                let row = |&row: &usize| numbers[row * self.columns..][..self.columns].iter().copied();
                Numbers::Dense(rows.iter().flat_map(row).collect())
            }
            Numbers::Sparse { ends: all, columns, values: numbers } => {
                let range = |&row: &usize| if row == 0 { 0 } else { all[row - 1] }..all[row];
                let (mut ends, mut values) = (Vec::with_capacity(rows.len()), Vec::new());
                for row in rows {
                    values.extend_from_slice(&numbers[range(row)]);
                    ends.push(values.len());
                }
                Numbers::Sparse { ends, columns: columns.select(rows.iter().map(range)), values }
            }
        };
        let weights = self.weights.as_ref().map(|weights| rows.iter().map(|&row| weights[row]).collect());
        Inputs { rows: rows.len(), columns: self.columns, values, weights }
    }

    fn sparse_row(&self, row: usize) -> (Indices<'_>, &[f64]) {
        match &self.values {
            Numbers::Sparse { ends, columns, values } => {
                let range = if row == 0 { 0 } else { ends[row - 1] }..ends[row];
                (columns.of(range.clone()), &values[range])
            }
            Numbers::Dense(_) => (Indices::Long(&[]), &[]),
        }
    }

    /// ‖x‖² of every row.
    pub fn squares(&self) -> Vec<f64> {
        match &self.values {
            Numbers::Dense(numbers) => {
                numbers.chunks_exact(self.columns).map(|row| f64::dot(row, row)).collect()
            }
            Numbers::Sparse { .. } => (0..self.rows)
                .map(|row| {
                    let (_, values) = self.sparse_row(row);
                    f64::dot(values, values)
                })
                .collect(),
        }
    }

    /// Xᵀ·W·X, row-major, where W has the weights on its diagonal.
    pub(crate) fn gram(&self) -> Vec<f64> {
        let n = self.columns;
        let mut gram = vec![0.0; n * n];
        match &self.values {
            Numbers::Dense(numbers) => {
                let x = Matrix::row_major(numbers, self.rows, n);
                match &self.weights {
                    None => multiply(x.transposed(), x, &mut gram, false),
                    Some(weights) => {
                        let mut weighted = numbers.clone();
                        for (row, &weight) in weighted.chunks_exact_mut(n).zip(weights) {
                            f64::multiply(row, weight);
                        }
                        let weighted = Matrix::row_major(&weighted, self.rows, n);
                        multiply(weighted.transposed(), x, &mut gram, false);
                    }
                }
            }
            Numbers::Sparse { .. } => {
                for row in 0..self.rows {
                    let (indices, values) = self.sparse_row(row);
                    let places = indices.places();
                    for (&i, x) in places.iter().zip(values) {
                        let x = self.weight(row) * x;
                        for (&j, y) in places.iter().zip(values) {
                            gram[i * n + j] += x * y;
                        }
                    }
                }
            }
        }
        gram
    }

    /// A sum over all numbers that identifies the data in checkpoints.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mix = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(17);
        let start = mix(mix(0xcbf2_9ce4_8422_2325, self.rows as u64), self.columns as u64);
        let start = self.weights.iter().flatten().fold(start, |hash, weight| mix(hash, weight.to_bits()));
        match &self.values {
            Numbers::Dense(numbers) => numbers.iter().fold(start, |hash, x| mix(hash, x.to_bits())),
            Numbers::Sparse { ends, columns, values } => {
                let hash = ends.iter().fold(start, |hash, end| mix(hash, *end as u64));
                let hash = match columns {
                    Columns::Short(columns) => columns.iter().fold(hash, |hash, &j| mix(hash, u64::from(j))),
                    Columns::Long(columns) => columns.iter().fold(hash, |hash, &j| mix(hash, u64::from(j))),
                };
                values.iter().fold(hash, |hash, x| mix(hash, x.to_bits()))
            }
        }
    }

    /// A matrix W with one row of `width` numbers per column, prepared for [`Inputs::scores`].
    pub(crate) fn weights_of<'a>(&self, numbers: &'a [f64], width: usize) -> Weights<'a> {
        let tiles = if self.is_sparse() { Tile::of(numbers, width) } else { Vec::new() };
        Weights { width, numbers, tiles }
    }

    /// out ← X·W for a range of rows.
    pub(crate) fn scores(&self, rows: Range<usize>, weights: &Weights<'_>, out: &mut [f64]) {
        let width = weights.width;
        if width == 0 {
            return;
        }
        match &self.values {
            Numbers::Dense(numbers) => {
                let own = &numbers[rows.start * self.columns..rows.end * self.columns];
                let x = Matrix::row_major(own, rows.len(), self.columns);
                multiply(x, Matrix::row_major(weights.numbers, self.columns, width), out, false);
            }
            Numbers::Sparse { .. } => {
                out.par_chunks_mut(PIECE * width).enumerate().for_each(|(piece, out)| {
                    // One tile of the weights after the other stays in the cache for all rows of the piece.
                    for tile in &weights.tiles {
                        for (i, row) in out.chunks_exact_mut(width).enumerate() {
                            let (indices, values) = self.sparse_row(rows.start + piece * PIECE + i);
                            tile.sum_rows(indices, values, &mut row[tile.columns.clone()]);
                        }
                    }
                });
            }
        }
    }

    /// A sum of products Xᵀ·G that starts at zero.
    pub(crate) fn gradient(&self, width: usize) -> GradientSum {
        match self.values {
            Numbers::Dense(_) => GradientSum::Dense(vec![0.0; self.columns * width]),
            Numbers::Sparse { .. } => {
                let count = Tile::zeros(0, width).len();
                let parts = PARTS.div_ceil(count.max(1));
                let tiles =
                    |part: usize| Tile::zeros(self.columns, width).into_iter().map(move |tile| (part, tile));
                GradientSum::Sparse { parts, tiles: (0..parts).flat_map(tiles).collect() }
            }
        }
    }

    /// Bytes of the weights and of a gradient for this many scores per row.
    pub(crate) fn product_bytes(&self, width: usize) -> usize {
        match self.values {
            Numbers::Dense(_) => 8 * self.columns * width,
            Numbers::Sparse { .. } => {
                let parts = PARTS.div_ceil(Tile::zeros(0, width).len().max(1));
                (1 + parts) * Tile::bytes(self.columns, width)
            }
        }
    }

    /// sum ← sum + Xᵀ·G for a range of rows.
    pub(crate) fn add_gradient(
        &self,
        rows: Range<usize>,
        errors: &[f64],
        width: usize,
        sum: &mut GradientSum,
    ) {
        if width == 0 {
            return;
        }
        match (&self.values, sum) {
            (Numbers::Dense(numbers), GradientSum::Dense(sum)) => {
                let own = &numbers[rows.start * self.columns..rows.end * self.columns];
                let x = Matrix::row_major(own, rows.len(), self.columns);
                multiply(x.transposed(), Matrix::row_major(errors, rows.len(), width), sum, true);
            }
            (Numbers::Sparse { .. }, GradientSum::Sparse { parts, tiles }) => {
                let each = rows.len().div_ceil(*parts);
                tiles.par_iter_mut().for_each(|(part, tile)| {
                    let own = (*part * each).min(rows.len())..((*part + 1) * each).min(rows.len());
                    let columns = tile.columns.clone();
                    for i in own {
                        let (indices, values) = self.sparse_row(rows.start + i);
                        tile.add_to_rows(indices, values, &errors[i * width..][columns.clone()]);
                    }
                });
            }
            _ => {}
        }
    }
}

/// Parameters of scores, in the form that the products need.
pub(crate) struct Weights<'a> {
    width: usize,
    numbers: &'a [f64],
    /// The same numbers for products with sparse inputs.
    tiles: Vec<Tile>,
}

/// A matrix Xᵀ·G while it is summed.
pub(crate) enum GradientSum {
    Dense(Vec<f64>),
    /// Part of the rows and sums of every tile.
    Sparse {
        parts: usize,
        tiles: Vec<(usize, Tile)>,
    },
}

impl GradientSum {
    /// Writes the sum, row by row.
    pub fn write(&self, width: usize, out: &mut [f64]) {
        match self {
            GradientSum::Dense(sum) => out.copy_from_slice(sum),
            GradientSum::Sparse { tiles, .. } => {
                out.fill(0.0);
                for (_, tile) in tiles {
                    for (out, sum) in out.chunks_exact_mut(width).zip(tile.rows()) {
                        f64::add_to(&mut out[tile.columns.clone()], sum);
                    }
                }
            }
        }
    }
}

/// Checks that all numbers are finite.
fn finite(numbers: &[f64], place: impl Fn(usize) -> (usize, usize)) -> Result<()> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => {
            let (row, column) = place(at);
            let message = format!("row {row}, column {column} is {}, expected a finite number", numbers[at]);
            Err(Error::argument("inputs", message))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// The same numbers dense and sparse, with empty rows and columns.
    fn both(rows: usize, columns: usize) -> (Vec<f64>, Inputs, Inputs) {
        let mut random = Streams::new(4, "inputs").block((rows * 100 + columns) as u64);
        let numbers: Vec<f64> = (0..rows * columns)
            .map(|i| if i % 7 == 0 || random.below(4) > 0 { 0.0 } else { random.normal() })
            .collect();
        let (mut ends, mut indices, mut values) = (vec![], vec![], vec![]);
        for row in numbers.chunks_exact(columns) {
            for (j, &x) in row.iter().enumerate().filter(|(_, x)| **x != 0.0) {
                indices.push(j as u32);
                values.push(x);
            }
            ends.push(values.len());
        }
        let dense = Inputs::dense(columns, &numbers).unwrap();
        (numbers, dense, Inputs::sparse(columns, &ends, &indices, &values).unwrap())
    }

    #[test]
    fn products_of_dense_and_sparse_inputs_agree_with_the_definition() {
        for (rows, columns, width) in [(1, 1, 1), (70, 5, 3), (100, 9, 130), (33, 20, 64)] {
            let (numbers, dense, sparse) = both(rows, columns);
            let x = |i: usize, j: usize| if j == columns { 1.0 } else { numbers[i * columns + j] };
            let weights: Vec<f64> = (0..(columns + 1) * width).map(|i| (i as f64).sin()).collect();
            let errors: Vec<f64> = (0..rows * width).map(|i| (i as f64 * 0.3).cos()).collect();
            for inputs in [&dense, &sparse] {
                let own = 1.min(rows - 1)..rows;
                let mut scores = vec![0.0; own.len() * width];
                inputs.scores(own.clone(), &inputs.weights_of(&weights, width), &mut scores);
                let mut sum = inputs.gradient(width);
                inputs.add_gradient(own.clone(), &errors[..own.len() * width], width, &mut sum);
                let mut gradient = vec![0.0; weights.len()];
                sum.write(width, &mut gradient);
                for (place, i) in own.clone().enumerate() {
                    for k in 0..width {
                        let want: f64 = (0..=columns).map(|j| x(i, j) * weights[j * width + k]).sum();
                        assert!((scores[place * width + k] - want).abs() < 1e-12);
                    }
                }
                for j in 0..=columns {
                    for k in 0..width {
                        let want: f64 = own
                            .clone()
                            .enumerate()
                            .map(|(place, i)| x(i, j) * errors[place * width + k])
                            .sum();
                        assert!((gradient[j * width + k] - want).abs() < 1e-12);
                    }
                }
            }
            // Weights of 2 and 1 count as repeated rows.
            let weights: Vec<f64> = (0..rows).map(|row| f64::from(row == 0) + 1.0).collect();
            let repeated: Vec<usize> = (0..rows).chain([0]).collect();
            for inputs in [&dense, &sparse] {
                let want = inputs.select(&repeated).gram();
                let found = inputs.clone().with_weights(weights.clone()).unwrap();
                assert_eq!(found.total(), (rows + 1) as f64);
                found.gram().iter().zip(&want).for_each(|(a, b)| assert!((a - b).abs() < 1e-12));
                assert_eq!(found.select(&[0, rows - 1]).weights(), Some(&[2.0, weights[rows - 1]][..]));
            }
            let some = [rows - 1, 0, 0];
            assert!((dense.select(&some).squares()[1] - sparse.select(&some).squares()[2]).abs() < 1e-12);
        }
    }

    #[test]
    fn unusable_inputs_are_refused() {
        let message = |result: Result<Inputs>| result.unwrap_err().to_string();
        assert!(message(Inputs::dense(2, &[0.0, 1.0, f64::NAN, 2.0])).contains("row 1, column 0 is NaN"));
        assert!(message(Inputs::dense(2, &[0.0])).contains("no rows of 2"));
        assert!(message(Inputs::sparse(2, &[1], &[2], &[1.0])).contains("column 2"));
        assert!(message(Inputs::sparse(2, &[2, 1], &[0], &[1.0])).contains("row ends"));
        let weighted = |weights: &[f64]| message(Inputs::bias(2).with_weights(weights.to_vec()));
        assert!(weighted(&[1.0]).contains("1 weights of 2 rows"));
        assert!(weighted(&[1.0, -0.5]).contains("row 1 has weight -0.5"));
        assert!(weighted(&[f64::NAN, 1.0]).contains("row 0 has weight NaN"));
        assert!(weighted(&[0.0, 0.0]).contains("sum is 0"));
        assert!(weighted(&[1e308, 1e308]).contains("sum is inf"));
        let error = message(Inputs::sparse(3, &[0, 1], &[2], &[f64::INFINITY]));
        assert!(error.contains("row 1, column 2 is inf"), "{error}");
    }
}
