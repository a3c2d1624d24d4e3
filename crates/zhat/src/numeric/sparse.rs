//! Rows of a sparse matrix times a dense one.

use super::elementary::double::multiply_add;
use super::simd::dispatched;

/// The width for which sums stay in registers: half of those of AVX-512.
pub(crate) const TILE: usize = 64;

#[inline(always)]
fn add_rows_kernel<const FMA: bool>(
    indices: &[u32],
    values: &[f64],
    matrix: &[f64],
    stride: usize,
    first: usize,
    out: &mut [f64],
) {
    if let Ok(out) = <&mut [f64; TILE]>::try_from(&mut *out) {
        let mut sums = *out;
        for (&index, &value) in indices.iter().zip(values) {
            let row = &matrix[index as usize * stride + first..][..TILE];
            let Some(row) = row.first_chunk::<TILE>() else { continue };
            for (sum, &x) in sums.iter_mut().zip(row) {
                *sum = multiply_add::<FMA>(value, x, *sum);
            }
        }
        *out = sums;
        return;
    }
    let width = out.len();
    for (&index, &value) in indices.iter().zip(values) {
        let row = &matrix[index as usize * stride + first..][..width];
        for (sum, &x) in out.iter_mut().zip(row) {
            *sum = multiply_add::<FMA>(value, x, *sum);
        }
    }
}

#[inline(always)]
fn add_to_rows_kernel<const FMA: bool>(indices: &[u32], values: &[f64], row: &[f64], matrix: &mut [f64]) {
    if let Ok(row) = <&[f64; TILE]>::try_from(row) {
        let row = *row;
        for (&index, &value) in indices.iter().zip(values) {
            let sums = &mut matrix[index as usize * TILE..][..TILE];
            let Some(sums) = sums.first_chunk_mut::<TILE>() else { continue };
            for (sum, &x) in sums.iter_mut().zip(&row) {
                *sum = multiply_add::<FMA>(value, x, *sum);
            }
        }
        return;
    }
    let width = row.len();
    for (&index, &value) in indices.iter().zip(values) {
        let sums = &mut matrix[index as usize * width..][..width];
        for (sum, &x) in sums.iter_mut().zip(row) {
            *sum = multiply_add::<FMA>(value, x, *sum);
        }
    }
}

dispatched! {
    /// out ← out + Σ valueᵢ · (columns `first`, … of row indexᵢ of a matrix with rows of length `stride`).
    ///
    /// # Panics
    /// If an index or column is out of range.
    pub(crate) fn add_rows(
        indices: &[u32], values: &[f64], matrix: &[f64], stride: usize, first: usize, out: &mut [f64]
    ) => add_rows_kernel
}

dispatched! {
    /// Row indexᵢ of the matrix ← itself + valueᵢ · row, for every i; rows are as long as `row`.
    ///
    /// # Panics
    /// If an index is out of range.
    pub(crate) fn add_to_rows(indices: &[u32], values: &[f64], row: &[f64], matrix: &mut [f64])
        => add_to_rows_kernel
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_agree_with_the_definition() {
        // (width of the tile, length of the rows of the matrix, first column)
        for (width, stride, first) in [(3, 7, 2), (TILE, 70, 5), (TILE, TILE, 0), (1, 1, 0)] {
            let matrix: Vec<f64> = (0..5 * stride as u32).map(|i| f64::from(i).sin()).collect();
            let (indices, values) = ([4, 0, 4, 2], [0.5, -1.0, 2.0, 0.0]);
            let mut out = vec![1.0; width];
            add_rows(&indices, &values, &matrix, stride, first, &mut out);
            for (j, found) in out.iter().enumerate() {
                let entry = |i: u32| matrix[i as usize * stride + first + j];
                let want: f64 = indices.iter().zip(values).map(|(&i, v)| v * entry(i)).sum();
                assert!((found - 1.0 - want).abs() < 1e-14);
            }
            let row: Vec<f64> = (0..stride as u32).map(|i| f64::from(i).cos()).collect();
            let mut sums = matrix.clone();
            add_to_rows(&indices, &values, &row, &mut sums);
            for i in 0..5 {
                let own = indices.iter().zip(values).filter(|(k, _)| **k as usize == i);
                let weight: f64 = own.map(|(_, v)| v).sum();
                for (j, x) in row.iter().enumerate() {
                    assert!((sums[i * stride + j] - matrix[i * stride + j] - weight * x).abs() < 1e-14);
                }
            }
        }
    }
}
