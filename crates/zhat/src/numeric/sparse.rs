//! Rows of a sparse matrix times a dense one.

use super::elementary::double::multiply_add;
use super::simd::dispatched;

#[inline(always)]
fn add_rows_kernel<const FMA: bool>(
    indices: &[u32],
    values: &[f64],
    matrix: &[f64],
    stride: usize,
    first: usize,
    out: &mut [f64],
) {
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
        let matrix: Vec<f64> = (0..35).map(|i| f64::from(i).sin()).collect();
        let (indices, values) = ([4, 0, 4, 2], [0.5, -1.0, 2.0, 0.0]);
        let mut out = [1.0; 3];
        add_rows(&indices, &values, &matrix, 7, 2, &mut out);
        for (j, found) in out.iter().enumerate() {
            let want: f64 =
                indices.iter().zip(values).map(|(&i, v)| v * matrix[i as usize * 7 + 2 + j]).sum();
            assert!((found - 1.0 - want).abs() < 1e-15);
        }
        let mut sums = matrix.clone();
        add_to_rows(&indices, &values, &[1.0, -2.0, 0.0, 3.0, 4.0, 5.0, 6.0], &mut sums);
        for i in 0..5 {
            let weight: f64 =
                indices.iter().zip(values).filter(|(k, _)| **k == i as u32).map(|(_, v)| v).sum();
            for (j, x) in [1.0, -2.0, 0.0, 3.0, 4.0, 5.0, 6.0].iter().enumerate() {
                assert!((sums[i * 7 + j] - matrix[i * 7 + j] - weight * x).abs() < 1e-14);
            }
        }
    }
}
