//! The M-step of normal distributions, and their prior.

use super::{Covariance, Gaussian};
use crate::learn::hmm::emission::Context;
use crate::learn::hmm::linear;

/// Whether the means have a prior, which counts as one more observation of the covariance.
pub(super) fn extra(context: &Context) -> f64 {
    if context.mean_weight > 0.0 { 1.0 } else { 0.0 }
}

pub(super) fn maximize(own: &mut Gaussian, statistics: &[f64], context: &Context) {
    match own.form {
        Covariance::Spherical | Covariance::Diagonal => columns(own, statistics, context),
        Covariance::Full | Covariance::Tied => matrices(own, statistics, context),
    }
}

fn columns(own: &mut Gaussian, statistics: &[f64], context: &Context) {
    let (columns, kappa, lambda) = (own.columns, context.mean_weight, context.covariance_weight);
    for (n, of_state) in statistics.chunks_exact(3 * columns).take(own.states).enumerate() {
        let (mut all, mut weights, mut least) = (0.0, 0.0, f64::INFINITY);
        for (d, found) in of_state.chunks_exact(3).enumerate() {
            let [weight, sum, squares] = [found[0], found[1], found[2]];
            let mean = if weight + kappa > 0.0 {
                sum / (weight + kappa)
            } else {
                own.means[n * columns + d] - context.centre[d]
            };
            own.means[n * columns + d] = context.centre[d] + mean;
            let scatter = (squares - 2.0 * mean * sum + weight * mean * mean).max(0.0);
            let total = scatter + kappa * mean * mean + lambda * context.variances[d];
            let count = weight + lambda + if weight > 0.0 { extra(context) } else { 0.0 };
            let floor = context.least * context.variances[d];
            if own.form == Covariance::Diagonal {
                if weight + lambda > 0.0 {
                    own.covariances[n * columns + d] = (total / count).max(floor);
                }
            } else {
                (all, weights, least) = (all + total, weights + count, least.min(floor));
            }
        }
        if own.form == Covariance::Spherical && weights > 0.0 {
            own.covariances[n] = (all / weights).max(least);
        }
    }
}

fn matrices(own: &mut Gaussian, statistics: &[f64], context: &Context) {
    let (columns, kappa, lambda) = (own.columns, context.mean_weight, context.covariance_weight);
    let size = columns * columns;
    let mut tied = (vec![0.0; size], 0.0);
    for n in 0..own.states {
        let found = &statistics[n * (1 + columns + size)..][..1 + columns + size];
        let (weight, sums, products) = (found[0], &found[1..1 + columns], &found[1 + columns..]);
        if weight + kappa > 0.0 {
            let means = own.means[n * columns..][..columns].iter_mut();
            for (mean, (centre, sum)) in means.zip(context.centre.iter().zip(sums)) {
                *mean = centre + sum / (weight + kappa);
            }
        }
        let mean: Vec<f64> = (0..columns).map(|d| own.means[n * columns + d] - context.centre[d]).collect();
        let mut scatter = vec![0.0; size];
        for i in 0..columns {
            for j in 0..columns {
                scatter[i * columns + j] = products[i * columns + j] - mean[i] * sums[j] - sums[i] * mean[j]
                    + (weight + kappa) * mean[i] * mean[j];
            }
        }
        let more = if weight > 0.0 { extra(context) } else { 0.0 };
        if own.form == Covariance::Tied {
            tied.0.iter_mut().zip(&scatter).for_each(|(sum, x)| *sum += x);
            tied.1 += weight + more;
        } else if weight + lambda > 0.0 {
            let made = finished(scatter, weight + more, columns, context);
            own.covariances[n * size..][..size].copy_from_slice(&made);
        }
    }
    if own.form == Covariance::Tied && tied.1 + lambda > 0.0 {
        own.covariances = finished(tied.0, tied.1, columns, context);
    }
}

/// (S + λV)/(count + λ), symmetric, with no variance below the least one.
fn finished(mut matrix: Vec<f64>, count: f64, columns: usize, context: &Context) -> Vec<f64> {
    let lambda = context.covariance_weight;
    for d in 0..columns {
        matrix[d * columns + d] += lambda * context.variances[d];
    }
    for i in 0..columns {
        for j in 0..=i {
            let mean = 0.5 * (matrix[i * columns + j] + matrix[j * columns + i]) / (count + lambda);
            (matrix[i * columns + j], matrix[j * columns + i]) = (mean, mean);
        }
    }
    linear::raise(&mut matrix, columns, context.least, &context.variances);
    matrix
}

pub(super) fn log_prior(own: &Gaussian, context: &Context) -> f64 {
    let (columns, kappa, lambda) = (own.columns, context.mean_weight, context.covariance_weight);
    if kappa == 0.0 && lambda == 0.0 {
        return 0.0;
    }
    let offset = |n: usize, d: usize| own.means[n * columns + d] - context.centre[d];
    if !own.form.has_matrices() {
        let one = |n: usize, d: usize| {
            let (variance, squares) =
                (own.variance(n, d), kappa * offset(n, d).powi(2) + lambda * context.variances[d]);
            -0.5 * ((lambda + extra(context)) * variance.ln() + squares / variance)
        };
        return (0..own.states).map(|n| (0..columns).map(|d| one(n, d)).sum::<f64>()).sum();
    }
    let mut total = 0.0;
    for n in 0..own.states {
        let Some(factor) = linear::cholesky(own.matrix(n), columns) else { return f64::NEG_INFINITY };
        let log_determinant: f64 = (0..columns).map(|d| 2.0 * factor[d * columns + d].ln()).sum();
        let inverse = linear::inverse_transposed(&factor, columns);
        // xᵀΣ⁻¹x = ‖L⁻¹x‖², and L⁻¹ is stored as its transpose.
        let length = |x: &[f64]| -> f64 {
            (0..columns)
                .map(|j| (0..columns).map(|i| x[i] * inverse[i * columns + j]).sum::<f64>().powi(2))
                .sum()
        };
        let shift: Vec<f64> = (0..columns).map(|d| offset(n, d)).collect();
        total -= 0.5 * (extra(context) * log_determinant + kappa * length(&shift));
        if n < own.matrices() {
            let trace: f64 = (0..columns)
                .map(|i| {
                    let squares: f64 = (0..columns).map(|j| inverse[i * columns + j].powi(2)).sum();
                    context.variances[i] * squares
                })
                .sum();
            total -= 0.5 * lambda * (log_determinant + trace);
        }
    }
    total
}
