//! Normal distributions in unconstrained coordinates, for gradient methods.
//!
//! With the mean m and the standard deviations r of the data and the least relative variance ε: μ = m + r∘u,
//! σ² = εr² + eˢ for spherical and diagonal covariances, and Σ = R(εI + LLᵀ)R, R = diag r, for full and tied ones, with
//! a lower triangular L whose diagonal is stored as logarithms. All covariances with eigenvalues of R⁻¹ΣR⁻¹ above ε
//! have coordinates, so the constraint of the M-step holds. With weight w, sum x̄ and scatter S of a state, κ and λ as
//! in the M-step, c = w + λ + \[κ > 0\] and Ŝ = S + κ(μ − m)(μ − m)ᵀ + λV, the derivatives are
//! ∂/∂μ = Σ⁻¹(x̄ − (w + κ)(μ − m)) and ∂/∂Σ = −½(cΣ⁻¹ − Σ⁻¹ŜΣ⁻¹).

use super::update::extra;
use super::{Covariance, Gaussian};
use crate::learn::hmm::emission::Context;
use crate::learn::hmm::linear;

/// Least distance of an initial covariance from the constraint, relative to it.
const MARGIN: f64 = 1e-3;

/// The least variance of a column, or of all columns for spherical covariances.
fn floor(own: &Gaussian, column: usize, context: &Context) -> f64 {
    let variance = match own.form {
        Covariance::Spherical => context.variances.iter().copied().fold(f64::INFINITY, f64::min),
        _ => context.variances[column],
    };
    context.least * variance
}

pub(super) fn coordinates(own: &Gaussian, context: &Context, out: &mut Vec<f64>) {
    let columns = own.columns;
    let roots: Vec<f64> = context.variances.iter().map(|variance| variance.sqrt()).collect();
    let means = own.means.iter().enumerate();
    out.extend(means.map(|(at, mean)| (mean - context.centre[at % columns]) / roots[at % columns]));
    if !own.form.has_matrices() {
        let variances = own.covariances.iter().enumerate();
        out.extend(variances.map(|(at, variance)| {
            let floor = floor(own, at % columns, context);
            (variance - floor).max(MARGIN * floor).ln()
        }));
        return;
    }
    for matrix in own.covariances.chunks_exact(columns * columns) {
        let mut rest = matrix.to_vec();
        for (at, x) in rest.iter_mut().enumerate() {
            let (i, j) = (at / columns, at % columns);
            *x = *x / (roots[i] * roots[j]) - if i == j { context.least } else { 0.0 };
        }
        linear::raise(&mut rest, columns, MARGIN * context.least, &vec![1.0; columns]);
        // Raised above, so the factor exists.
        let factor = linear::cholesky(&rest, columns).unwrap_or_else(|| vec![f64::NAN; rest.len()]);
        for i in 0..columns {
            out.extend((0..i).map(|j| factor[i * columns + j]));
            out.push(factor[i * columns + i].ln());
        }
    }
}

pub(super) fn place(own: &mut Gaussian, from: &mut &[f64], context: &Context) {
    let columns = own.columns;
    let roots: Vec<f64> = context.variances.iter().map(|variance| variance.sqrt()).collect();
    let (means, rest) = from.split_at(own.means.len());
    for (at, (mean, u)) in own.means.iter_mut().zip(means).enumerate() {
        *mean = context.centre[at % columns] + roots[at % columns] * u;
    }
    *from = rest;
    if !own.form.has_matrices() {
        let (variances, rest) = from.split_at(own.covariances.len());
        let made: Vec<f64> =
            variances.iter().enumerate().map(|(at, s)| floor(own, at % columns, context) + s.exp()).collect();
        (own.covariances, *from) = (made, rest);
        return;
    }
    for matrix in own.covariances.chunks_exact_mut(columns * columns) {
        let (triangle, rest) = from.split_at(columns * (columns + 1) / 2);
        *from = rest;
        let factor = unpacked(triangle, columns);
        for i in 0..columns {
            for j in 0..=i {
                let product: f64 = (0..=j).map(|k| factor[i * columns + k] * factor[j * columns + k]).sum();
                let value = (product + if i == j { context.least } else { 0.0 }) * roots[i] * roots[j];
                (matrix[i * columns + j], matrix[j * columns + i]) = (value, value);
            }
        }
    }
}

/// L from its packed rows, with the logarithms of its diagonal.
fn unpacked(triangle: &[f64], columns: usize) -> Vec<f64> {
    let mut factor = vec![0.0; columns * columns];
    let mut at = 0;
    for i in 0..columns {
        for j in 0..=i {
            factor[i * columns + j] = if i == j { triangle[at].exp() } else { triangle[at] };
            at += 1;
        }
    }
    factor
}

pub(super) fn gradient(
    own: &Gaussian,
    at: &[f64],
    statistics: &[f64],
    context: &Context,
    out: &mut Vec<f64>,
) {
    let of_covariances = &at[own.means.len()..];
    match own.form.has_matrices() {
        true => of_matrices(own, of_covariances, statistics, context, out),
        false => of_columns(own, of_covariances, statistics, context, out),
    }
}

fn of_columns(own: &Gaussian, at: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>) {
    let (columns, kappa, lambda) = (own.columns, context.mean_weight, context.covariance_weight);
    let per_state = own.covariances.len() / own.states;
    let mut by_variance = vec![0.0; own.covariances.len()];
    for (n, of_state) in statistics.chunks_exact(3 * columns).take(own.states).enumerate() {
        for (d, found) in of_state.chunks_exact(3).enumerate() {
            let [weight, sum, squares] = [found[0], found[1], found[2]];
            let (variance, mean) = (own.variance(n, d), own.means[n * columns + d] - context.centre[d]);
            out.push((sum - (weight + kappa) * mean) / variance * context.variances[d].sqrt());
            let scatter =
                squares - 2.0 * mean * sum + (weight + kappa) * mean * mean + lambda * context.variances[d];
            let count = weight + lambda + extra(context);
            by_variance[n * per_state + d % per_state] -= 0.5 * (count - scatter / variance) / variance;
        }
    }
    out.extend(by_variance.iter().zip(at).map(|(derivative, s)| derivative * s.exp()));
}

fn of_matrices(own: &Gaussian, at: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>) {
    let (columns, kappa, lambda) = (own.columns, context.mean_weight, context.covariance_weight);
    let (size, matrices) = (columns * columns, own.matrices());
    let roots: Vec<f64> = context.variances.iter().map(|variance| variance.sqrt()).collect();
    let inverses: Vec<Vec<f64>> = (0..matrices).map(|n| inverse(own.matrix(n), columns)).collect();
    let mut scatters = vec![0.0; matrices * size];
    let mut counts = vec![lambda; matrices];
    for n in 0..own.states {
        let which = n.min(matrices - 1);
        let found = &statistics[n * (1 + columns + size)..][..1 + columns + size];
        let (weight, sums, products) = (found[0], &found[1..1 + columns], &found[1 + columns..]);
        let mean: Vec<f64> = (0..columns).map(|d| own.means[n * columns + d] - context.centre[d]).collect();
        for i in 0..columns {
            let solved: f64 = (0..columns)
                .map(|j| inverses[which][i * columns + j] * (sums[j] - (weight + kappa) * mean[j]))
                .sum();
            out.push(roots[i] * solved);
            for j in 0..columns {
                scatters[which * size + i * columns + j] +=
                    products[i * columns + j] - mean[i] * sums[j] - sums[i] * mean[j]
                        + (weight + kappa) * mean[i] * mean[j];
            }
        }
        counts[which] += weight + extra(context);
    }
    for (which, inverse) in inverses.iter().enumerate() {
        let scatter = &mut scatters[which * size..][..size];
        (0..columns).for_each(|d| scatter[d * columns + d] += lambda * context.variances[d]);
        // R·(cΣ⁻¹ − Σ⁻¹ŜΣ⁻¹)·R, so that the derivative by L is its negative times L.
        let inner = product(&product(inverse, scatter, columns), inverse, columns);
        let middle: Vec<f64> = (0..size)
            .map(|at| roots[at / columns] * roots[at % columns] * (counts[which] * inverse[at] - inner[at]))
            .collect();
        let triangle = columns * (columns + 1) / 2;
        let factor = unpacked(&at[which * triangle..][..triangle], columns);
        for i in 0..columns {
            for j in 0..=i {
                let sum: f64 = (j..columns).map(|k| middle[i * columns + k] * factor[k * columns + j]).sum();
                out.push(-sum * if i == j { factor[i * columns + i] } else { 1.0 });
            }
        }
    }
}

fn inverse(matrix: &[f64], columns: usize) -> Vec<f64> {
    // Positive definite: checked when made, and kept so by every step.
    let factor = linear::cholesky(matrix, columns).unwrap_or_else(|| vec![f64::NAN; matrix.len()]);
    let half = linear::inverse_transposed(&factor, columns);
    let mut made = vec![0.0; matrix.len()];
    for i in 0..columns {
        for j in 0..columns {
            made[i * columns + j] = (0..columns).map(|k| half[i * columns + k] * half[j * columns + k]).sum();
        }
    }
    made
}

fn product(a: &[f64], b: &[f64], columns: usize) -> Vec<f64> {
    let entry = |at: usize| {
        let (i, j) = (at / columns, at % columns);
        (0..columns).map(|k| a[i * columns + k] * b[k * columns + j]).sum()
    };
    (0..columns * columns).map(entry).collect()
}
