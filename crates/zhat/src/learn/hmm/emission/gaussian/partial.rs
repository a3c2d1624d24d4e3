//! Rows with some missing values, under full and tied covariances.
//!
//! Let o be the columns that are known and m the others. The density is that of the known part, N(x_o; μ_o, Σ_oo).
//! The expected statistics have E(x_m | x_o) = μ_m + Σ_mo Σ_oo⁻¹ (x_o − μ_o) and Cov(x_m | x_o) = Σ_mm − Σ_mo Σ_oo⁻¹
//! Σ_om, so the M-step is that of complete rows. Both matrices depend on the pattern of missing values only: rows
//! with the same pattern are grouped, which takes D³ operations per pattern and matrix, and D² per row and state.

use super::{Covariance, Gaussian};
use crate::learn::hmm::linear;

/// Whether a row has missing values, but not only those.
fn is_partial(row: &[f64]) -> bool {
    row.iter().any(|x| x.is_nan()) && row.iter().any(|x| !x.is_nan())
}

/// Calls `each` with the rows of every pattern of missing values, for rows that have some.
fn patterns(rows: &[f64], columns: usize, mut each: impl FnMut(&[usize])) {
    let row = |i: usize| &rows[i * columns..][..columns];
    let mut partial: Vec<usize> = (0..rows.len() / columns).filter(|&i| is_partial(row(i))).collect();
    let missing = |i: usize| row(i).iter().map(|x| x.is_nan());
    // Stable, so rows of a pattern stay in order.
    partial.sort_by(|&i, &j| missing(i).cmp(missing(j)));
    partial.chunk_by(|&i, &j| missing(i).eq(missing(j))).for_each(&mut each);
}

/// The normal distribution of the missing columns given the known ones.
struct Conditional {
    known: Vec<usize>,
    missing: Vec<usize>,
    /// L⁻¹ with L·Lᵀ = Σ_oo, transposed.
    inverse: Vec<f64>,
    /// −½ ln |2πΣ_oo|.
    constant: f64,
    /// L⁻¹·Σ_om, one row per known column.
    whitened: Vec<f64>,
}

impl Conditional {
    fn new(matrix: &[f64], columns: usize, row: &[f64]) -> Self {
        let (missing, known): (Vec<usize>, Vec<usize>) = (0..columns).partition(|&d| row[d].is_nan());
        let (size, rest) = (known.len(), missing.len());
        let block: Vec<f64> =
            known.iter().flat_map(|&i| known.iter().map(move |&j| matrix[i * columns + j])).collect();
        // A block of a positive definite matrix is positive definite.
        let factor = linear::cholesky(&block, size).unwrap_or_else(|| vec![f64::NAN; size * size]);
        let logs: f64 = (0..size).map(|d| factor[d * size + d].ln()).sum();
        let constant = -0.5 * size as f64 * std::f64::consts::TAU.ln() - logs;
        let inverse = linear::inverse_transposed(&factor, size);
        let mut whitened = vec![0.0; size * rest];
        for k in 0..size {
            for (m, &column) in missing.iter().enumerate() {
                whitened[k * rest + m] =
                    (0..=k).map(|i| inverse[i * size + k] * matrix[known[i] * columns + column]).sum();
            }
        }
        Conditional { known, missing, inverse, constant, whitened }
    }

    /// z = L⁻¹(x_o − μ_o).
    fn whiten(&self, row: &[f64], mean: &[f64], out: &mut [f64]) {
        let size = self.known.len();
        for (k, out) in out.iter_mut().enumerate() {
            let terms = self.known[..=k].iter().enumerate();
            *out = terms.map(|(i, &d)| self.inverse[i * size + k] * (row[d] - mean[d])).sum();
        }
    }

    /// Cov(x_m | x_o) at two places of the missing columns.
    fn covariance(&self, matrix: &[f64], columns: usize, a: usize, b: usize) -> f64 {
        let rest = self.missing.len();
        let explained: f64 =
            (0..self.known.len()).map(|k| self.whitened[k * rest + a] * self.whitened[k * rest + b]).sum();
        matrix[self.missing[a] * columns + self.missing[b]] - explained
    }
}

/// Calls `each` with every state and its conditional distribution for a pattern.
fn each_state(own: &Gaussian, row: &[f64], mut each: impl FnMut(usize, &Conditional)) {
    let columns = own.columns;
    if own.form == Covariance::Tied {
        let shared = Conditional::new(own.matrix(0), columns, row);
        return (0..own.states).for_each(|n| each(n, &shared));
    }
    (0..own.states).for_each(|n| each(n, &Conditional::new(own.matrix(n), columns, row)));
}

/// The log densities of rows with some missing values; other rows of `out` are left as they are.
pub(super) fn log_density(own: &Gaussian, rows: &[f64], stride: usize, out: &mut [f64]) {
    let columns = own.columns;
    let mut z = vec![0.0; columns];
    patterns(rows, columns, |members| {
        each_state(own, &rows[members[0] * columns..][..columns], |n, conditional| {
            let mean = &own.means[n * columns..][..columns];
            let z = &mut z[..conditional.known.len()];
            for &i in members {
                conditional.whiten(&rows[i * columns..][..columns], mean, z);
                let square: f64 = z.iter().map(|z| z * z).sum();
                out[i * stride + n] = conditional.constant - 0.5 * square;
            }
        });
    });
}

/// Adds the expected statistics of rows with some missing values: weights, sums and products around `centre`.
pub(super) fn accumulate(
    own: &Gaussian,
    centre: &[f64],
    rows: &[f64],
    stride: usize,
    weights: &[f64],
    statistics: &mut [f64],
) {
    let columns = own.columns;
    let features = 1 + columns + columns * columns;
    let (mut z, mut filled) = (vec![0.0; columns], vec![0.0; columns]);
    patterns(rows, columns, |members| {
        each_state(own, &rows[members[0] * columns..][..columns], |n, conditional| {
            let mean = &own.means[n * columns..][..columns];
            let out = &mut statistics[n * features..][..features];
            let (rest, mut total) = (conditional.missing.len(), 0.0);
            let z = &mut z[..conditional.known.len()];
            for &i in members {
                let (row, weight) = (&rows[i * columns..][..columns], weights[i * stride + n]);
                if weight == 0.0 {
                    continue;
                }
                conditional.whiten(row, mean, z);
                for &d in &conditional.known {
                    filled[d] = row[d] - centre[d];
                }
                for (m, &d) in conditional.missing.iter().enumerate() {
                    let shift: f64 =
                        z.iter().enumerate().map(|(k, z)| conditional.whitened[k * rest + m] * z).sum();
                    filled[d] = mean[d] + shift - centre[d];
                }
                total += weight;
                out[0] += weight;
                for a in 0..columns {
                    out[1 + a] += weight * filled[a];
                    for b in 0..columns {
                        out[1 + columns + a * columns + b] += weight * filled[a] * filled[b];
                    }
                }
            }
            for (a, &i) in conditional.missing.iter().enumerate() {
                for (b, &j) in conditional.missing.iter().enumerate() {
                    out[1 + columns + i * columns + j] +=
                        total * conditional.covariance(own.matrix(n), columns, a, b);
                }
            }
        });
    });
}
