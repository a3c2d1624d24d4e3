//! log tr Mᴺ of a matrix given by its logarithms, and the distribution of consecutive pairs.
//!
//! For every vector h and number λ, Q(x, y) = M(x, y)·exp(h(y) − h(x) − λ) has tr Mᴺ = exp(N·λ)·tr Qᴺ. With h from a few
//! power iterations in the log domain and λ the largest log (M eʰ)(x) − h(x), the rows of Q add up to at most 1 and
//! nothing overflows. Qᴺ⁻¹ is computed by repeated squaring, with its largest entry scaled to 1. If the result is too
//! small to be accurate (a periodic matrix, or scores that differ by hundreds of nats), the powers are computed in
//! the log domain instead.
//!
//! Cost: 2·T³·log₂ N operations. All entries are non-negative, so nothing cancels: the relative error of the trace is
//! at most about N·T·2⁻⁵³, which is returned.

use crate::numeric::{Matrix, log_sum_exp, multiply_here, rounding_allowance};

use super::field::largest;

const PASSES: usize = 200;
/// Below this relative size, a trace is recomputed in the log domain.
const ACCURATE: f64 = 1e-200;

/// The result.
pub(super) struct Trace {
    /// log tr Mᴺ; −∞ if it is 0.
    pub value: f64,
    pub rounding: f64,
    /// The distribution of the pair of states at positions i and i + 1.
    pub pairs: Vec<f64>,
}

/// M·eʰ in the log domain.
fn applied(matrix: &[f64], h: &[f64]) -> Vec<f64> {
    let mut row = vec![0.0; h.len()];
    let rows = matrix.chunks_exact(h.len()).map(|scores| {
        row.iter_mut().zip(scores.iter().zip(h)).for_each(|(r, (m, h))| *r = m + h);
        log_sum_exp(&row)
    });
    rows.collect()
}

/// log tr Mᴺ for N ≥ 1.
pub(super) fn trace(matrix: &[f64], states: usize, length: usize) -> Trace {
    let mut h = vec![0.0; states];
    let mut before = f64::INFINITY;
    for _ in 0..PASSES {
        let up = applied(matrix, &h);
        let ratios = up.iter().zip(&h).map(|(u, h)| u - h);
        let high = ratios.clone().fold(f64::NEG_INFINITY, f64::max);
        let low = ratios.filter(|r| r.is_finite()).fold(f64::INFINITY, f64::min);
        if high == f64::NEG_INFINITY {
            return Trace { value: high, rounding: 0.0, pairs: vec![0.0; matrix.len()] };
        }
        let span = high - low;
        if span <= 1e-13 * (1.0 + high.abs()) {
            break;
        }
        // A periodic matrix: the mean with the previous vector breaks the period.
        let half = span > 0.8 * before;
        before = span;
        for (h, up) in h.iter_mut().zip(up) {
            let next = if up.is_finite() { up - high } else { *h - 1.0 };
            *h = if half { log_sum_exp(&[next, *h]) - std::f64::consts::LN_2 } else { next };
        }
    }
    let lambda = applied(matrix, &h).iter().zip(&h).map(|(u, h)| u - h).fold(f64::NEG_INFINITY, f64::max);
    let similar = |x: usize, y: usize| matrix[x * states + y] + h[y] - h[x] - lambda;
    let scores: Vec<f64> = (0..matrix.len()).map(|i| similar(i / states, i % states)).collect();
    let size = largest(matrix) + 2.0 * largest(&h) + lambda.abs();
    let rounding = length as f64 * rounding_allowance((states + 12) as f64, size);
    let linear: Vec<f64> = scores.iter().map(|x| x.exp()).collect();
    let (power, scale) = power(&linear, states, length - 1);
    let closing = |x: usize, y: usize| linear[x * states + y] * power[y * states + x];
    let total: f64 = (0..matrix.len()).map(|i| closing(i / states, i % states)).sum();
    if total > ACCURATE {
        let pairs = (0..matrix.len()).map(|i| closing(i / states, i % states) / total).collect();
        return Trace { value: length as f64 * lambda + scale + total.ln(), rounding, pairs };
    }
    let power = log_power(&scores, states, length - 1);
    let closing: Vec<f64> =
        (0..matrix.len()).map(|i| scores[i] + power[(i % states) * states + i / states]).collect();
    let total = log_sum_exp(&closing);
    if total == f64::NEG_INFINITY {
        return Trace { value: total, rounding: 0.0, pairs: vec![0.0; matrix.len()] };
    }
    let pairs = closing.iter().map(|x| (x - total).exp()).collect();
    let rounding = rounding + length as f64 * rounding_allowance((states + 12) as f64, largest(&scores));
    Trace { value: length as f64 * lambda + total, rounding, pairs }
}

/// The power of a matrix divided by exp of the second result.
fn power(matrix: &[f64], states: usize, mut exponent: usize) -> (Vec<f64>, f64) {
    let mut result: Vec<f64> =
        (0..matrix.len()).map(|i| if i / states == i % states { 1.0 } else { 0.0 }).collect();
    let (mut square, mut scale, mut square_scale) = (matrix.to_vec(), 0.0, 0.0);
    let product = |a: &[f64], b: &[f64]| {
        let mut c = vec![0.0; a.len()];
        multiply_here(
            Matrix::row_major(a, states, states),
            Matrix::row_major(b, states, states),
            &mut c,
            false,
        );
        let top = c.iter().fold(0.0f64, |m, x| m.max(*x));
        let by = if top > 0.0 { top } else { 1.0 };
        c.iter_mut().for_each(|x| *x /= by);
        (c, by.ln())
    };
    while exponent > 0 {
        if exponent % 2 == 1 {
            let (next, more) = product(&result, &square);
            (result, scale) = (next, scale + square_scale + more);
        }
        exponent /= 2;
        if exponent > 0 {
            let (next, more) = product(&square, &square);
            (square, square_scale) = (next, 2.0 * square_scale + more);
        }
    }
    (result, scale)
}

/// The power of a matrix in the log domain.
fn log_power(matrix: &[f64], states: usize, mut exponent: usize) -> Vec<f64> {
    let mut result: Vec<f64> =
        (0..matrix.len()).map(|i| if i / states == i % states { 0.0 } else { f64::NEG_INFINITY }).collect();
    let mut square = matrix.to_vec();
    let product = |a: &[f64], b: &[f64]| -> Vec<f64> {
        let mut terms = vec![0.0; states];
        let each = (0..a.len()).map(|i| {
            let (x, y) = (i / states, i % states);
            terms.iter_mut().enumerate().for_each(|(z, t)| *t = a[x * states + z] + b[z * states + y]);
            log_sum_exp(&terms)
        });
        each.collect()
    };
    while exponent > 0 {
        if exponent % 2 == 1 {
            result = product(&result, &square);
        }
        exponent /= 2;
        if exponent > 0 {
            square = product(&square, &square);
        }
    }
    result
}
