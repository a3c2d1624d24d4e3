//! Rows of probabilities: checks, the M-step with a Dirichlet prior, and their logits.
//!
//! The logits z of the entries that are not zero are the coordinates of gradient methods: p = softmax(z), and for
//! expected counts c with the prior Π p^(α − 1) the derivative by z is c + α − 1 − p·Σ(c + α − 1). Zeros have no
//! coordinate and stay zero.

use crate::error::{Error, Result};

/// Least probability of an entry that is not zero, so that no step of a gradient method makes it one.
const LEAST: f64 = 1e-290;

/// How far the sum of a distribution may be from 1.
const SUM: f64 = 1e-4;

/// Checks that every row of `width` numbers is a distribution.
pub(super) fn check_rows(name: &str, values: &[f64], width: usize) -> Result<()> {
    for (i, row) in values.chunks_exact(width.max(1)).enumerate() {
        if let Some(at) = row.iter().position(|p| !(p.is_finite() && *p >= 0.0)) {
            let message = format!("row {i}, entry {at} is {}, expected a probability", row[at]);
            return Err(Error::argument(name, message));
        }
        let sum: f64 = row.iter().sum();
        if sum == 0.0 {
            let message = format!("row {i} sums to 0, expected 1: every row needs a positive entry");
            return Err(Error::argument(name, message));
        }
        if (sum - 1.0).abs() > SUM {
            return Err(Error::argument(name, format!("row {i} sums to {sum}, expected 1")));
        }
    }
    Ok(())
}

/// Divides every row by its sum.
pub(super) fn normalize_rows(values: &mut [f64], width: usize) {
    for row in values.chunks_exact_mut(width.max(1)) {
        let sum: f64 = row.iter().sum();
        if sum > 0.0 {
            row.iter_mut().for_each(|p| *p /= sum);
        }
    }
}

/// The distribution proportional to counts + α − 1 where the row is not zero; the row itself if there is nothing
/// to normalise.
pub(super) fn maximize_row(row: &mut [f64], counts: impl Iterator<Item = f64>, concentration: f64) {
    let more = concentration - 1.0;
    let new: Vec<f64> =
        row.iter().zip(counts).map(|(&p, count)| if p > 0.0 { count + more } else { 0.0 }).collect();
    let total: f64 = new.iter().sum();
    if total > 0.0 && total.is_finite() {
        row.iter_mut().zip(new).for_each(|(p, new)| *p = new / total);
    }
}

/// (α − 1) Σ ln p over the entries that are not zero.
pub(super) fn log_dirichlet(values: &[f64], concentration: f64) -> f64 {
    if concentration == 1.0 {
        return 0.0;
    }
    (concentration - 1.0) * values.iter().filter(|p| **p > 0.0).map(|p| p.ln()).sum::<f64>()
}

/// The number of free parameters of rows of probabilities: the entries that are not zero, less one per row.
pub(super) fn free(values: &[f64], width: usize) -> usize {
    values
        .chunks_exact(width.max(1))
        .map(|row| row.iter().filter(|p| **p > 0.0).count().saturating_sub(1))
        .sum()
}

/// Appends the logits of rows.
pub(super) fn logits(values: &[f64], out: &mut Vec<f64>) {
    out.extend(values.iter().filter(|p| **p > 0.0).map(|p| p.ln()));
}

/// Replaces the rows by those of the logits at the front of `from`, which are removed.
pub(super) fn place_rows(values: &mut [f64], width: usize, from: &mut &[f64]) {
    for row in values.chunks_exact_mut(width.max(1)) {
        let count = row.iter().filter(|p| **p > 0.0).count();
        let (own, rest) = from.split_at(count);
        *from = rest;
        let most = own.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        for (p, z) in row.iter_mut().filter(|p| **p > 0.0).zip(own) {
            *p = (z - most).exp().max(LEAST);
        }
        normalize_rows(row, width);
    }
}

/// Appends the derivatives by the logits of a row.
pub(super) fn row_gradient(
    row: &[f64],
    counts: impl Iterator<Item = f64>,
    concentration: f64,
    out: &mut Vec<f64>,
) {
    let first = out.len();
    let known = row.iter().zip(counts).filter(|(p, _)| **p > 0.0);
    out.extend(known.map(|(_, count)| count + concentration - 1.0));
    let total: f64 = out[first..].iter().sum();
    for (derivative, p) in out[first..].iter_mut().zip(row.iter().filter(|p| **p > 0.0)) {
        *derivative -= p * total;
    }
}
