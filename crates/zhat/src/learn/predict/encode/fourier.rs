//! Random Fourier features.

use super::Fourier;
use crate::numeric::parallel::prelude::*;
use crate::numeric::{Matrix, multiply};
use crate::random::Streams;

/// Rows per block.
const BLOCK: usize = 1024;

/// √(2/m)·cos(Wx + b) for the rows x of a dense matrix.
pub(super) fn fourier_features(
    fourier: &Fourier,
    gamma: f64,
    width: usize,
    dense: &[f64],
    rows: usize,
) -> Vec<f64> {
    let m = fourier.features;
    let streams = Streams::new(fourier.seed, "fourier features");
    let deviation = (2.0 * gamma).sqrt();
    // One column of W and one entry of b per feature.
    let drawn: Vec<(Vec<f64>, f64)> = (0..m as u64)
        .into_par_iter()
        .map(|feature| {
            let mut random = streams.block(feature);
            let column = (0..width).map(|_| deviation * random.normal()).collect();
            (column, std::f64::consts::TAU * random.uniform())
        })
        .collect();
    let mut weights = vec![0.0; width * m];
    for (feature, (column, _)) in drawn.iter().enumerate() {
        column.iter().enumerate().for_each(|(i, w)| weights[i * m + feature] = *w);
    }
    let scale = (2.0 / m as f64).sqrt();
    let mut out = vec![0.0; rows * m];
    for (i, out) in out.chunks_mut(BLOCK * m).enumerate() {
        let own = out.len() / m;
        let x = Matrix::row_major(&dense[i * BLOCK * width..][..own * width], own, width);
        multiply(x, Matrix::row_major(&weights, width, m), out, false);
        out.par_chunks_mut(m).for_each(|row| {
            row.iter_mut().zip(&drawn).for_each(|(z, (_, b))| *z = scale * (*z + b).cos());
        });
    }
    out
}
