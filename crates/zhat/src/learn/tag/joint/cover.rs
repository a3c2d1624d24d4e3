//! The cover by tag chains and word stars.
//!
//! **Words.** The word at position j interacts with the tags at j − m, one for each offset m. For all weights σ_m > 0 with
//! Σ_m σ_m = 1 and all e_m with Σ_m e_m(w) = 0, Hölder's inequality gives
//!
//!   Σ_w Π_m exp U_m(t_{j−m}, w) ≤ Π_m exp g_m(t_{j−m}),  g_m(t) = σ_m·log Σ_w exp((U_m(t, w) + e_m(w))/σ_m).
//!
//! **Tags.** What is left is a cycle of tags with the single scores G = Σ_m g_m. By convexity of log Z, for all weights
//! ρ_k > 0 with Σ_k ρ_k = 1 and all d_k with Σ_k d_k(t) = 0,
//!
//!   A ≤ Σ_k ρ_k·A_k,  A_k = n_k·log tr M_k^{N/n_k},  M_k(t, t′) = exp(V_k(t, t′)/ρ_k + G(t′) + d_k(t′)/ρ_k),
//!
//! where n_k = gcd(N, k) is the number of cycles that steps of length k make of N positions. The traces are computed
//! exactly, so with K = L = 1 the bound is A itself.
//!
//! In terms of entropies, the bound replaces H(w | all tags) by Σ_m σ_m·H(w_j | t_{j−m}) and the entropy of the tags by
//! Σ_k ρ_k·H(t_{i+k} | tᵢ). Its derivative with respect to σ_m is H(w_j | t_{j−m}), so the minimum over the weights puts
//! most weight on the offset that says most about the word; that with respect to e_m is the distribution of words of
//! the star m, so at the minimum all stars have the same. The bound is jointly convex in the scores, (σ, e) and
//! (ρ, d).
//!
//! Cost per evaluation: L·W·T exponentials and 2·K·T³·log₂ N operations; independent of the length otherwise.
//!
//! Dual variables, in this order: log σ_m up to a constant for m ≠ 0; log ρ_k up to a constant for k > 1; e_m for m ≠ 0;
//! d_k for k > 1.

use super::emission::Emission;
use super::field::{Field, Slopes, largest};
use super::trace::trace;
use super::{Evaluation, Stop};
use crate::error::Result;
use crate::numeric::rounding_allowance;

/// Minimum weight, because scores are divided by it.
const LEAST: f64 = 1e-3;

/// Sizes of the dual variables.
struct Layout {
    tags: usize,
    words: usize,
    context: usize,
    window: usize,
}

impl Layout {
    fn of(field: &Field) -> Self {
        Layout { tags: field.tags(), words: field.words(), context: field.context(), window: field.window() }
    }

    fn weights(&self) -> usize {
        self.window - 1 + self.context - 1
    }

    fn total(&self) -> usize {
        self.weights() + (self.window - 1) * self.words + (self.context - 1) * self.tags
    }
}

/// The number of dual variables.
pub(super) fn duals(field: &Field) -> usize {
    Layout::of(field).total()
}

/// Where the e_m are.
pub(super) fn word_duals(field: &Field) -> std::ops::Range<usize> {
    let layout = Layout::of(field);
    layout.weights()..layout.weights() + (layout.window - 1) * layout.words
}

/// Dual variables to start from: σ₀ and ρ₁ are 0.9, the other weights are equal, e_m = σ_m·log p for a distribution p of
/// words, and d = 0.
pub(super) fn start(field: &Field, log_words: &[f64]) -> Vec<f64> {
    let layout = Layout::of(field);
    let mut duals = vec![0.0; layout.total()];
    let logarithm = |others: usize| (0.1 / 0.9 / others as f64).ln();
    let (logarithms, free) = duals.split_at_mut(layout.weights());
    let (words, tags) = logarithms.split_at_mut(layout.window - 1);
    words.fill(logarithm(layout.window - 1));
    tags.fill(logarithm(layout.context - 1));
    let mut sigma = weights(words, field.centre());
    sigma.remove(field.centre());
    for (column, sigma) in free.chunks_exact_mut(layout.words).zip(sigma) {
        column.iter_mut().zip(log_words).for_each(|(e, p)| *e = sigma * p);
    }
    duals
}

/// Weights from their logarithms; the one at `fixed` has the logarithm 0.
fn weights(logarithms: &[f64], fixed: usize) -> Vec<f64> {
    let mut all = logarithms.to_vec();
    all.insert(fixed, 0.0);
    let top = all.iter().fold(0.0f64, |m, x| m.max(*x));
    all.iter_mut().for_each(|x| *x = (*x - top).exp());
    let total: f64 = all.iter().sum();
    let room = 1.0 - LEAST * all.len() as f64;
    all.iter_mut().for_each(|x| *x = LEAST + room * *x / total);
    // They add up to 1 up to one rounding.
    let others: f64 = all.iter().enumerate().filter(|(i, _)| *i != fixed).map(|(_, x)| x).sum();
    all[fixed] = 1.0 - others;
    all
}

/// The derivative with respect to the logarithms from that with respect to the weights.
fn weight_slopes(weights: &[f64], slopes: &[f64], fixed: usize, to: &mut [f64]) {
    let room = 1.0 - LEAST * weights.len() as f64;
    let share = |i: usize| (weights[i] - LEAST) / room;
    let mean: f64 = (0..weights.len()).map(|i| share(i) * slopes[i]).sum();
    let others = (0..weights.len()).filter(|i| *i != fixed);
    others.zip(to).for_each(|(i, to)| *to = room * share(i) * (slopes[i] - mean));
}

/// Free vectors and, inserted at `fixed`, minus their sum.
fn balanced(free: &[f64], size: usize, count: usize, fixed: usize) -> Vec<Vec<f64>> {
    let mut all: Vec<Vec<f64>> = free.chunks_exact(size).map(<[f64]>::to_vec).take(count - 1).collect();
    let mut rest = vec![0.0; size];
    for row in &all {
        rest.iter_mut().zip(row).for_each(|(r, x)| *r -= x);
    }
    all.insert(fixed, rest);
    all
}

/// Slopes of the free vectors.
fn balanced_slopes(slopes: &[Vec<f64>], fixed: usize, to: &mut [f64]) {
    let others = slopes.iter().enumerate().filter(|(i, _)| *i != fixed).map(|(_, s)| s);
    let Some(size) = slopes.first().map(Vec::len) else { return };
    for (to, own) in to.chunks_exact_mut(size).zip(others) {
        to.iter_mut().zip(own.iter().zip(&slopes[fixed])).for_each(|(t, (x, y))| *t = x - y);
    }
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// Evaluates the bound.
pub(super) fn evaluate(
    field: &Field,
    length: usize,
    duals: &[f64],
    slopes: Option<&mut Slopes>,
    stop: Stop<'_>,
) -> Result<Evaluation> {
    let layout = Layout::of(field);
    let Layout { tags, words, context, window } = layout;
    let centre = field.centre();
    let (logarithms, free) = duals.split_at(layout.weights());
    let sigma = weights(&logarithms[..window - 1], centre);
    let rho = weights(&logarithms[window - 1..], 0);
    let (free_words, free_tags) = free.split_at((window - 1) * words);
    let columns = balanced(free_words, words, window, centre);
    let shifts = balanced(free_tags, tags, context, 0);
    let n = length as f64;
    let mut single = vec![0.0; tags];
    let mut rounding = 0.0;
    let mut stars = Vec::with_capacity(window);
    for m in 0..window {
        stop()?;
        let scaled: Vec<f64> = columns[m].iter().map(|e| e / sigma[m]).collect();
        let star = Emission::new(&field.emissions[m], sigma[m].recip(), &scaled, tags);
        single.iter_mut().zip(&star.up).for_each(|(g, up)| *g += sigma[m] * up);
        let size = largest(&star.up) + (largest(&field.emissions[m]) + largest(&columns[m])) / sigma[m];
        rounding += n * (sigma[m] * star.rounding + rounding_allowance(8.0, size));
        stars.push((star, scaled));
    }
    let mut value = 0.0;
    let mut law = vec![0.0; tags];
    let (mut by_rho, mut by_shift, mut pairs) = (Vec::new(), Vec::new(), Vec::new());
    for k in 0..context {
        stop()?;
        let last: Vec<f64> = single.iter().zip(&shifts[k]).map(|(g, d)| g + d / rho[k]).collect();
        let scores = field.pairs[k]
            .chunks_exact(tags)
            .flat_map(|row| row.iter().zip(&last).map(|(v, u)| v / rho[k] + u));
        let scores: Vec<f64> = scores.collect();
        let cycles = greatest_common_divisor(length, k + 1);
        let found = trace(&scores, tags, length / cycles);
        if found.value == f64::NEG_INFINITY {
            return Ok(Evaluation::zero());
        }
        let whole = cycles as f64 * found.value;
        value += rho[k] * whole;
        rounding += rho[k] * cycles as f64 * found.rounding
            + rounding_allowance(16.0, n * largest(&scores) + whole.abs());
        let mut own = vec![0.0; tags];
        for row in found.pairs.chunks_exact(tags) {
            own.iter_mut().zip(row).for_each(|(p, x)| *p += x);
        }
        law.iter_mut().zip(&own).for_each(|(p, x)| *p += rho[k] * x);
        // d(ρ·A_k/N)/dρ at fixed V and d: log-partition minus the mean of (V + d)/ρ.
        let mut mean = 0.0;
        for (row, v) in found.pairs.chunks_exact(tags).zip(field.pairs[k].chunks_exact(tags)) {
            let terms = row.iter().zip(v.iter().zip(&shifts[k])).filter(|(p, _)| **p > 0.0);
            mean += terms.map(|(p, (v, d))| p * (v + d) / rho[k]).sum::<f64>();
        }
        by_rho.push(whole / n - mean);
        by_shift.push(own);
        pairs.push(found.pairs);
    }
    if let Some(slopes) = slopes {
        slopes.clear();
        slopes.pairs = pairs;
        let (mut by_sigma, mut by_column) = (Vec::new(), Vec::new());
        for (m, (star, scaled)) in stars.into_iter().enumerate() {
            stop()?;
            let ahead: f64 = law.iter().zip(&star.up).filter(|(p, _)| **p > 0.0).map(|(p, u)| p * u).sum();
            let mut column = vec![0.0; words];
            let energy = star.down(
                &field.emissions[m],
                &scaled,
                &law,
                sigma[m],
                &mut slopes.emissions[m],
                &mut column,
            );
            // The factor σ of the value cancels 1/σ in the exponent.
            column.iter_mut().for_each(|x| *x /= sigma[m]);
            by_sigma.push(ahead - energy);
            by_column.push(column);
        }
        let (to_weights, to_free) = slopes.duals.split_at_mut(layout.weights());
        weight_slopes(&sigma, &by_sigma, centre, &mut to_weights[..window - 1]);
        weight_slopes(&rho, &by_rho, 0, &mut to_weights[window - 1..]);
        let (to_words, to_tags) = to_free.split_at_mut((window - 1) * words);
        balanced_slopes(&by_column, centre, to_words);
        balanced_slopes(&by_shift, 0, to_tags);
    }
    Ok(Evaluation { value: value / n, high: value + rounding, rounding })
}
