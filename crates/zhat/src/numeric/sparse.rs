//! Rows of a sparse matrix times a dense one, which is stored in tiles of columns.

use std::ops::Range;

use super::Aligned;
use super::elementary::double::multiply_add;
use super::simd::dispatched;

/// The width for which sums stay in registers: half of those of AVX-512.
const TILE: usize = 64;

/// A column of a sparse matrix: half as many bytes for the usual numbers of columns.
pub(crate) trait Index: Copy + Send + Sync {
    /// The column.
    fn place(self) -> usize;
}

impl Index for u16 {
    fn place(self) -> usize {
        usize::from(self)
    }
}

impl Index for u32 {
    fn place(self) -> usize {
        self as usize
    }
}

/// The columns of some entries of a sparse matrix.
#[derive(Clone, Copy)]
pub(crate) enum Indices<'a> {
    Short(&'a [u16]),
    Long(&'a [u32]),
}

impl Indices<'_> {
    /// The columns as numbers.
    pub fn places(self) -> Vec<usize> {
        match self {
            Indices::Short(indices) => indices.iter().map(|index| index.place()).collect(),
            Indices::Long(indices) => indices.iter().map(|index| index.place()).collect(),
        }
    }
}

/// Some columns of a dense matrix. Every row of a tile fills whole lines of the cache: a vector that crosses two
/// lines takes twice as long to load, and rows far apart need many entries of the page table.
pub(crate) struct Tile {
    /// The columns of the matrix.
    pub columns: Range<usize>,
    /// Length of a row with the zeros that fill it up: 8, 16, 32 or 64.
    stride: usize,
    numbers: Aligned<f64>,
}

impl Tile {
    /// The tiles of a matrix of zeros.
    pub fn zeros(rows: usize, width: usize) -> Vec<Tile> {
        let tile = |first: usize| {
            let columns = first..(first + TILE).min(width);
            let stride = columns.len().next_power_of_two().max(8);
            Tile { columns, stride, numbers: Aligned::zeros(rows * stride) }
        };
        (0..width).step_by(TILE).map(tile).collect()
    }

    /// The tiles of a row-major matrix.
    pub fn of(matrix: &[f64], width: usize) -> Vec<Tile> {
        let mut tiles = Tile::zeros(matrix.len() / width.max(1), width);
        for tile in &mut tiles {
            let rows = matrix.chunks_exact(width).zip(tile.numbers.chunks_exact_mut(tile.stride));
            rows.for_each(|(row, own)| {
                own[..tile.columns.len()].copy_from_slice(&row[tile.columns.clone()]);
            });
        }
        tiles
    }

    /// Bytes of the tiles of a matrix, at most.
    pub fn bytes(rows: usize, width: usize) -> usize {
        8 * rows * (width + TILE - 1)
    }

    /// The rows of the tile.
    pub fn rows(&self) -> impl Iterator<Item = &[f64]> {
        self.numbers.chunks_exact(self.stride).map(|row| &row[..self.columns.len()])
    }

    /// out ← Σ valueᵢ · row indexᵢ.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn sum_rows(&self, indices: Indices<'_>, values: &[f64], out: &mut [f64]) {
        match indices {
            Indices::Short(indices) => sum_rows_short(indices, values, &self.numbers, self.stride, out),
            Indices::Long(indices) => sum_rows(indices, values, &self.numbers, self.stride, out),
        }
    }

    /// Row indexᵢ ← itself + valueᵢ · row, for every i.
    ///
    /// # Panics
    /// If an index is out of range.
    pub fn add_to_rows(&mut self, indices: Indices<'_>, values: &[f64], row: &[f64]) {
        let (numbers, stride) = (&mut self.numbers, self.stride);
        match indices {
            Indices::Short(indices) => add_to_rows_short(indices, values, row, numbers, stride),
            Indices::Long(indices) => add_to_rows(indices, values, row, numbers, stride),
        }
    }
}

#[inline(always)]
fn sum_rows_kernel<const FMA: bool, I: Index>(
    indices: &[I],
    values: &[f64],
    tile: &[f64],
    stride: usize,
    out: &mut [f64],
) {
    match stride {
        8 => sum_rows_of::<FMA, 8, I>(indices, values, tile, out),
        16 => sum_rows_of::<FMA, 16, I>(indices, values, tile, out),
        32 => sum_rows_of::<FMA, 32, I>(indices, values, tile, out),
        _ => sum_rows_of::<FMA, TILE, I>(indices, values, tile, out),
    }
}

#[inline(always)]
fn sum_rows_of<const FMA: bool, const W: usize, I: Index>(
    indices: &[I],
    values: &[f64],
    tile: &[f64],
    out: &mut [f64],
) {
    let (rows, _) = tile.as_chunks::<W>();
    let mut sums = [0.0; W];
    for (&index, &value) in indices.iter().zip(values) {
        for (sum, &x) in sums.iter_mut().zip(&rows[index.place()]) {
            *sum = multiply_add::<FMA>(value, x, *sum);
        }
    }
    out.copy_from_slice(&sums[..out.len()]);
}

#[inline(always)]
fn add_to_rows_kernel<const FMA: bool, I: Index>(
    indices: &[I],
    values: &[f64],
    row: &[f64],
    tile: &mut [f64],
    stride: usize,
) {
    match stride {
        8 => add_to_rows_of::<FMA, 8, I>(indices, values, row, tile),
        16 => add_to_rows_of::<FMA, 16, I>(indices, values, row, tile),
        32 => add_to_rows_of::<FMA, 32, I>(indices, values, row, tile),
        _ => add_to_rows_of::<FMA, TILE, I>(indices, values, row, tile),
    }
}

#[inline(always)]
fn add_to_rows_of<const FMA: bool, const W: usize, I: Index>(
    indices: &[I],
    values: &[f64],
    row: &[f64],
    tile: &mut [f64],
) {
    let (rows, _) = tile.as_chunks_mut::<W>();
    let mut full = [0.0; W];
    full[..row.len()].copy_from_slice(row);
    for (&index, &value) in indices.iter().zip(values) {
        for (sum, &x) in rows[index.place()].iter_mut().zip(&full) {
            *sum = multiply_add::<FMA>(value, x, *sum);
        }
    }
}

#[inline(always)]
fn sum_long_kernel<const FMA: bool>(i: &[u32], values: &[f64], tile: &[f64], stride: usize, out: &mut [f64]) {
    sum_rows_kernel::<FMA, u32>(i, values, tile, stride, out);
}

#[inline(always)]
fn sum_short_kernel<const FMA: bool>(
    i: &[u16],
    values: &[f64],
    tile: &[f64],
    stride: usize,
    out: &mut [f64],
) {
    sum_rows_kernel::<FMA, u16>(i, values, tile, stride, out);
}

#[inline(always)]
fn add_long_kernel<const FMA: bool>(i: &[u32], values: &[f64], row: &[f64], tile: &mut [f64], stride: usize) {
    add_to_rows_kernel::<FMA, u32>(i, values, row, tile, stride);
}

#[inline(always)]
fn add_short_kernel<const FMA: bool>(
    i: &[u16],
    values: &[f64],
    row: &[f64],
    tile: &mut [f64],
    stride: usize,
) {
    add_to_rows_kernel::<FMA, u16>(i, values, row, tile, stride);
}

dispatched! {
    /// out ← Σ valueᵢ · row indexᵢ of a tile.
    fn sum_rows(indices: &[u32], values: &[f64], tile: &[f64], stride: usize, out: &mut [f64]) => sum_long_kernel
}

dispatched! {
    /// The same for short indices.
    fn sum_rows_short(indices: &[u16], values: &[f64], tile: &[f64], stride: usize, out: &mut [f64])
        => sum_short_kernel
}

dispatched! {
    /// Row indexᵢ of the tile ← itself + valueᵢ · row, for every i.
    fn add_to_rows(indices: &[u32], values: &[f64], row: &[f64], tile: &mut [f64], stride: usize)
        => add_long_kernel
}

dispatched! {
    /// The same for short indices.
    fn add_to_rows_short(indices: &[u16], values: &[f64], row: &[f64], tile: &mut [f64], stride: usize)
        => add_short_kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition() {
        for width in [1, 3, 8, 9, 30, 33, 64, 65, 150] {
            let matrix: Vec<f64> = (0..5 * width as u32).map(|i| f64::from(i).sin()).collect();
            let (indices, values) = ([4u32, 0, 4, 2], [0.5, -1.0, 2.0, 0.0]);
            let short = indices.map(|i| i as u16);
            let row: Vec<f64> = (0..width as u32).map(|i| f64::from(i).cos()).collect();
            let mut next = 0;
            for mut tile in Tile::of(&matrix, width) {
                let columns = tile.columns.clone();
                assert_eq!(columns.start, next);
                next = columns.end;
                let entry = |i: usize, j: usize| matrix[i * width + j];
                let mut out = vec![1.0; columns.len()];
                tile.sum_rows(Indices::Long(&indices), &values, &mut out);
                let mut same = vec![1.0; columns.len()];
                tile.sum_rows(Indices::Short(&short), &values, &mut same);
                assert_eq!(out, same);
                for (j, found) in columns.clone().zip(&out) {
                    let want: f64 = indices.iter().zip(values).map(|(&i, v)| v * entry(i as usize, j)).sum();
                    assert!((found - want).abs() < 1e-14);
                }
                let all = match width % 2 {
                    0 => Indices::Short(&short),
                    _ => Indices::Long(&indices),
                };
                tile.add_to_rows(all, &values, &row[columns.clone()]);
                for (i, found) in tile.rows().enumerate() {
                    let own = indices.iter().zip(values).filter(|(k, _)| **k as usize == i);
                    let weight: f64 = own.map(|(_, v)| v).sum();
                    for (j, x) in columns.clone().zip(found) {
                        assert!((x - entry(i, j) - weight * row[j]).abs() < 1e-14);
                    }
                }
            }
            assert_eq!(next, width);
            let bytes: usize = Tile::zeros(5, width).iter().map(|tile| 8 * tile.numbers.len()).sum();
            assert!(bytes <= Tile::bytes(5, width));
        }
        assert!(Tile::zeros(3, 0).is_empty() && Tile::of(&[], 0).is_empty());
    }
}
