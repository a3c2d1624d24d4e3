//! The growth rate of a chain in which three consecutive tags interact: the spectral radius λ of the matrix from
//! pairs of tags (a, b) to (b, c) with entries exp L(a, b, c).
//!
//! For every vector h, log λ ≤ max_{a, b} [log Σ_c exp(L(a, b, c) + h(b, c)) − h(a, b)] (Collatz, Wielandt), so the bound
//! is certified after any number of power iterations. With D = diag(eʰ) the rows of D⁻¹MD add up to at most e^{bound}:
//! the trace of its N-th power, which is that of Mᴺ, is at most T²·e^{N·bound}. Hence log tr Mᴺ ≤ N·bound + 2·log T.
//!
//! The excess over log tr Mᴺ is not bounded here: the trace can be less than λᴺ, and the iteration stops after a limited
//! number of passes. If all scores are finite, M² has only positive entries and tr Mᴺ / λᴺ tends to 1 as N grows.
//!
//! Cost: T³ multiplications per pass. The tensor is scaled by the maximum of every row; what the scaling loses by
//! underflow is at most the smallest normal number per entry, which is added.

use super::field::largest;
use crate::numeric::rounding_allowance;

const PASSES: usize = 1000;
const TOLERANCE: f64 = 1e-13;

/// The growth rate and the stationary distribution.
pub(super) struct Growth {
    /// The certified bound on log λ, without its rounding.
    pub high: f64,
    pub rounding: f64,
    /// The distribution of three consecutive tags, in the layout of the scores; empty if it was not requested.
    pub triples: Vec<f64>,
}

/// Power iteration. The scores are in the order \[b\]\[a\]\[c\]. Returns `None` if λ = 0.
pub(super) fn growth(scores: &[f64], tags: usize, marginals: bool) -> Option<Growth> {
    let square = tags * tags;
    let mut linear = scores.to_vec();
    let mut top = vec![0.0; square];
    for (row, top) in linear.chunks_exact_mut(tags).zip(&mut top) {
        *top = row.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
        let shift = if top.is_finite() { *top } else { 0.0 };
        row.iter_mut().for_each(|x| *x = (*x - shift).exp());
    }
    let floor = tags as f64 * f64::MIN_POSITIVE;
    let mut h = vec![0.0; square];
    let mut column = vec![0.0; tags];
    let mut up = vec![0.0; square];
    let mut before = f64::INFINITY;
    let mut high = f64::INFINITY;
    let size = largest(scores);
    for pass in 0..PASSES {
        for b in 0..tags {
            let shift = (0..tags).fold(f64::NEG_INFINITY, |m, c| m.max(h[c * tags + b]));
            column.iter_mut().enumerate().for_each(|(c, x)| *x = (h[c * tags + b] - shift).exp());
            for a in 0..tags {
                let i = b * tags + a;
                let sum: f64 = linear[i * tags..][..tags].iter().zip(&column).map(|(e, x)| e * x).sum();
                // A row of zeros stays one: adding the floor to its maximum of −∞ has no effect.
                up[i] = top[i] + shift + (sum + floor).ln();
            }
        }
        let ratios = up.iter().zip(&h).map(|(u, h)| u - h);
        let most = ratios.clone().fold(f64::NEG_INFINITY, f64::max);
        if most == f64::NEG_INFINITY {
            return None;
        }
        let least = ratios.filter(|r| r.is_finite()).fold(f64::INFINITY, f64::min);
        high = most;
        let span = most - least;
        if span <= TOLERANCE * (1.0 + most.abs()) || pass + 1 == PASSES {
            break;
        }
        let half = span > 0.8 * before;
        before = span;
        for (h, up) in h.iter_mut().zip(&up) {
            let next = if up.is_finite() { up - most } else { *h - 1.0 };
            *h = if half { log_mean(next, *h) } else { next };
        }
    }
    let rounding = rounding_allowance((tags + 12) as f64, size + 3.0 * largest(&h) + high.abs());
    let mut triples = Vec::new();
    if marginals {
        // P(c | a, b).
        for b in 0..tags {
            for a in 0..tags {
                let i = b * tags + a;
                for c in 0..tags {
                    let log = scores[i * tags + c] + h[c * tags + b] - up[i];
                    linear[i * tags + c] = if up[i].is_finite() { log.exp() } else { 0.0 };
                }
            }
        }
        let law = stationary(&linear, tags);
        triples = linear;
        for (row, p) in triples.chunks_exact_mut(tags).zip(&law) {
            row.iter_mut().for_each(|x| *x *= p);
        }
    }
    Some(Growth { high, rounding, triples })
}

/// The stationary distribution of pairs.
fn stationary(conditional: &[f64], tags: usize) -> Vec<f64> {
    let square = tags * tags;
    let mut law = vec![1.0 / square as f64; square];
    let mut before = f64::INFINITY;
    for _ in 0..PASSES {
        let mut next = vec![0.0; square];
        for b in 0..tags {
            for a in 0..tags {
                let i = b * tags + a;
                if law[i] > 0.0 {
                    for (c, p) in conditional[i * tags..][..tags].iter().enumerate() {
                        next[c * tags + b] += law[i] * p;
                    }
                }
            }
        }
        let total: f64 = next.iter().sum();
        if total <= 0.0 {
            break;
        }
        next.iter_mut().for_each(|p| *p /= total);
        let moved: f64 = next.iter().zip(&law).map(|(a, b)| (a - b).abs()).sum();
        let half = moved > 0.8 * before;
        before = moved;
        if half {
            law.iter_mut().zip(&next).for_each(|(p, q)| *p = 0.5 * (*p + q));
        } else {
            law = next;
        }
        if moved <= TOLERANCE {
            break;
        }
    }
    law
}

fn log_mean(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (0.5 + 0.5 * (low - high).exp()).ln()
}
