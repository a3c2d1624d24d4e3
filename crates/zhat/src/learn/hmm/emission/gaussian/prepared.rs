//! Densities and statistics of normal distributions.

use super::{Covariance, Gaussian, partial};
use crate::learn::hmm::emission::{Context, Density, padded};
use crate::learn::hmm::linear;
use crate::numeric::simd::{self, Kernel};
use crate::numeric::{Matrix, multiply_here};

/// Rows that are processed together.
const BLOCK: usize = 256;

/// The number of statistics per state: weight, sum and sum of squares per column, or weight, sums and products.
pub(super) fn features(form: Covariance, columns: usize) -> usize {
    if form.has_matrices() { 1 + columns + columns * columns } else { 3 * columns }
}

/// The mean of the data.
fn centre(context: &Context, columns: usize) -> Vec<f64> {
    if context.centre.is_empty() { vec![0.0; columns] } else { context.centre.clone() }
}

/// Adds weightsᵀ·features(rows), block by block.
fn accumulate(
    rows: &[f64],
    columns: usize,
    features: usize,
    stride: usize,
    weights: &[f64],
    statistics: &mut [f64],
    fill: impl Fn(&[f64], &mut [f64]),
) {
    let mut made = vec![0.0; BLOCK * features];
    for (rows, weights) in rows.chunks(BLOCK * columns).zip(weights.chunks(BLOCK * stride)) {
        let count = rows.len() / columns;
        for (row, out) in rows.chunks_exact(columns).zip(made.chunks_exact_mut(features)) {
            fill(row, out);
        }
        multiply_here(
            Matrix::row_major(weights, count, stride).transposed(),
            Matrix::row_major(&made[..count * features], count, features),
            statistics,
            true,
        );
    }
}

/// Spherical and diagonal covariances, with tables D × padded(N).
pub(super) struct Columns<'a> {
    own: &'a Gaussian,
    centre: Vec<f64>,
    width: usize,
    means: Vec<f64>,
    /// 1/(2σ²).
    halves: Vec<f64>,
    /// −½ ln 2πσ².
    constants: Vec<f64>,
    /// Their sum over columns.
    constant: Vec<f64>,
}

impl<'a> Columns<'a> {
    pub fn new(own: &'a Gaussian, context: &Context) -> Self {
        let (width, columns) = (padded(own.states), own.columns);
        let zeros = vec![0.0; columns * width];
        let mut made = Columns {
            own,
            centre: centre(context, columns),
            width,
            means: zeros.clone(),
            halves: zeros.clone(),
            constants: zeros,
            constant: vec![0.0; width],
        };
        for n in 0..own.states {
            for d in 0..columns {
                let (at, variance) = (d * width + n, own.variance(n, d));
                made.means[at] = own.means[n * columns + d];
                made.halves[at] = 0.5 / variance;
                made.constants[at] = -0.5 * (std::f64::consts::TAU.ln() + variance.ln());
                made.constant[n] += made.constants[at];
            }
        }
        made
    }
}

/// ln densities of rows, for the vector instructions of this processor.
struct Rows<'a, 'b> {
    from: &'b Columns<'a>,
    rows: &'b [f64],
    stride: usize,
    out: &'b mut [f64],
}

impl Kernel for Rows<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Columns { own, width, means, halves, constants, constant, .. } = self.from;
        for (row, out) in self.rows.chunks_exact(own.columns).zip(self.out.chunks_exact_mut(self.stride)) {
            let out = &mut out[..*width];
            out.copy_from_slice(constant);
            let tables = means.chunks_exact(*width).zip(halves.chunks_exact(*width));
            for ((&x, (means, halves)), constants) in
                row.iter().zip(tables).zip(constants.chunks_exact(*width))
            {
                if x.is_nan() {
                    out.iter_mut().zip(constants).for_each(|(out, constant)| *out -= constant);
                    continue;
                }
                for ((out, mean), half) in out.iter_mut().zip(means).zip(halves) {
                    let distance = x - mean;
                    *out -= distance * distance * half;
                }
            }
        }
    }
}

impl Density for Columns<'_> {
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]) {
        simd::run(Rows { from: self, rows, stride, out });
    }

    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]) {
        let columns = self.own.columns;
        accumulate(rows, columns, 3 * columns, stride, weights, statistics, |row, out| {
            for ((&x, centre), out) in row.iter().zip(&self.centre).zip(out.chunks_exact_mut(3)) {
                let known = !x.is_nan();
                let y = if known { x - centre } else { 0.0 };
                out.copy_from_slice(&[f64::from(u8::from(known)), y, y * y]);
            }
        });
    }
}

/// Full and tied covariances.
pub(super) struct Matrices<'a> {
    own: &'a Gaussian,
    centre: Vec<f64>,
    /// The inverses of the Cholesky factors, transposed.
    inverses: Vec<Vec<f64>>,
    /// −½ ln |2πΣ|.
    constants: Vec<f64>,
}

impl<'a> Matrices<'a> {
    pub fn new(own: &'a Gaussian, context: &Context) -> Self {
        let columns = own.columns;
        let (mut inverses, mut constants) = (Vec::new(), Vec::new());
        for n in 0..own.matrices() {
            // Positive definite: checked when made, and kept so by the M-step.
            let factor =
                linear::cholesky(own.matrix(n), columns).unwrap_or_else(|| vec![f64::NAN; columns * columns]);
            let logs: f64 = (0..columns).map(|d| factor[d * columns + d].ln()).sum();
            constants.push(-0.5 * columns as f64 * std::f64::consts::TAU.ln() - logs);
            inverses.push(linear::inverse_transposed(&factor, columns));
        }
        Matrices { own, centre: centre(context, columns), inverses, constants }
    }
}

impl Density for Matrices<'_> {
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]) {
        let (columns, states) = (self.own.columns, self.own.states);
        let (mut distances, mut whitened) = (vec![0.0; BLOCK * columns], vec![0.0; BLOCK * columns]);
        for (rows, out) in rows.chunks(BLOCK * columns).zip(out.chunks_mut(BLOCK * stride)) {
            let count = rows.len() / columns;
            for n in 0..states {
                let mean = &self.own.means[n * columns..][..columns];
                for (row, distance) in rows.chunks_exact(columns).zip(distances.chunks_exact_mut(columns)) {
                    let missing = row.iter().any(|x| x.is_nan());
                    for ((x, mean), out) in row.iter().zip(mean).zip(distance) {
                        *out = if missing { 0.0 } else { x - mean };
                    }
                }
                let which = n.min(self.inverses.len() - 1);
                let whitened = &mut whitened[..count * columns];
                multiply_here(
                    Matrix::row_major(&distances[..count * columns], count, columns),
                    Matrix::row_major(&self.inverses[which], columns, columns),
                    whitened,
                    false,
                );
                let each = rows.chunks_exact(columns).zip(whitened.chunks_exact(columns));
                for ((row, whitened), out) in each.zip(out.chunks_exact_mut(stride)) {
                    let square: f64 = whitened.iter().map(|z| z * z).sum();
                    let missing = row.iter().any(|x| x.is_nan());
                    out[n] = if missing { 0.0 } else { self.constants[which] - 0.5 * square };
                }
            }
            partial::log_density(self.own, rows, stride, out);
        }
    }

    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]) {
        let columns = self.own.columns;
        let features = 1 + columns + columns * columns;
        accumulate(rows, columns, features, stride, weights, statistics, |row, out| {
            if row.iter().any(|x| x.is_nan()) {
                return out.fill(0.0);
            }
            out[0] = 1.0;
            for d in 0..columns {
                out[1 + d] = row[d] - self.centre[d];
            }
            for i in 0..columns {
                for j in 0..columns {
                    out[1 + columns + i * columns + j] = out[1 + i] * out[1 + j];
                }
            }
        });
        for (rows, weights) in rows.chunks(BLOCK * columns).zip(weights.chunks(BLOCK * stride)) {
            partial::accumulate(self.own, &self.centre, rows, stride, weights, statistics);
        }
    }
}
