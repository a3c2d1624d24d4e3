//! The star bound of the reference (Figure 7), with period S = max(K + 1, L).
//!
//! The star of position i has the root tᵢ and the leaves tᵢ₊₁, …, tᵢ₊ₖ and wᵢ₊ₘ for the L offsets m. The N windows of S
//! positions that start at i = 1, …, N cover every tag and every word S times: a tag once as the root, once as each of the
//! K leaves, and S − K − 1 times outside of the star, as an isolated node; a word once as each of the L leaves and S − L
//! times as an isolated node. By Shearer's inequality S·H(t, w) is at most the sum of the entropies of the windows, and
//! the entropy of a window is at most that of its star and its isolated nodes with the same marginals. This holds for
//! every N ≥ S, also if N is not a multiple of S. The dual statement: with scores
//!
//!   root r, leaves δ_l of tags, isolated tags z: r(t) + Σ_l δ_l(t) + (S − K − 1)·z(t) = 0,
//!   leaves ε_m of words, isolated words y: Σ_m ε_m(w) + (S − L)·y(w) = 0,
//!
//! A ≤ N/S·(log Z⋆ + (S − K − 1)·log Σ_t e^{z(t)} + (S − L)·log Σ_w e^{y(w)}), where
//!
//!   Z⋆ = Σ_t e^{r(t)}·Π_l Σ_{t′} exp(S·V_l(t, t′) + δ_l(t′))·Π_m Σ_w exp(S·U_m(t, w) + ε_m(w)).
//!
//! The bound is certified for all values of the dual variables, and jointly convex in them and the scores.
//!
//! Cost per evaluation: L·W·T + K·T² exponentials, independent of the length.
//!
//! Dual variables, in this order: δ₁, …, δ_K; z if S > K + 1; ε_m for m ≠ 0; y if S > L.

use super::emission::Emission;
use super::field::{Field, Slopes, largest};
use super::{Evaluation, Stop};
use crate::error::Result;
use crate::numeric::{log_sum_exp, rounding_allowance};

struct Layout {
    period: usize,
    lone_tags: usize,
    lone_words: usize,
    /// Where z, ε and y start, and the end.
    ends: [usize; 4],
}

impl Layout {
    fn of(field: &Field) -> Self {
        let (tags, words) = (field.tags(), field.words());
        let (context, window) = (field.context(), field.window());
        let period = (context + 1).max(window);
        let (lone_tags, lone_words) = (period - context - 1, period - window);
        let z = context * tags;
        let epsilon = z + lone_tags.min(1) * tags;
        let y = epsilon + (window - 1) * words;
        Layout { period, lone_tags, lone_words, ends: [z, epsilon, y, y + lone_words.min(1) * words] }
    }
}

/// The number of dual variables.
pub(super) fn duals(field: &Field) -> usize {
    Layout::of(field).ends[3]
}

/// Where the ε_m and y are.
pub(super) fn word_duals(field: &Field) -> std::ops::Range<usize> {
    let [_, epsilon, _, end] = Layout::of(field).ends;
    epsilon..end
}

/// Dual variables to start from: ε_m and y are log p for a distribution p of words; those of tags are 0.
pub(super) fn start(field: &Field, log_words: &[f64]) -> Vec<f64> {
    let layout = Layout::of(field);
    let mut duals = vec![0.0; layout.ends[3]];
    duals[layout.ends[1]..].chunks_exact_mut(field.words()).for_each(|to| to.copy_from_slice(log_words));
    duals
}

/// Evaluates the bound.
pub(super) fn evaluate(
    field: &Field,
    length: usize,
    duals: &[f64],
    slopes: Option<&mut Slopes>,
    stop: Stop<'_>,
) -> Result<Evaluation> {
    let (tags, words) = (field.tags(), field.words());
    let (context, window) = (field.context(), field.window());
    let layout = Layout::of(field);
    let [z, epsilon, y, end] = layout.ends;
    let scale = layout.period as f64;
    let centre = field.centre();
    let (lone_tags, lone_words) = (layout.lone_tags as f64, layout.lone_words as f64);
    let mut rounding = 0.0;
    let mut root = vec![0.0; tags];
    let mut up_tags = Vec::with_capacity(context);
    for (l, delta) in duals[..z].chunks_exact(tags).enumerate() {
        let mut row = vec![0.0; tags];
        let up = field.pairs[l].chunks_exact(tags).map(|scores| {
            row.iter_mut().zip(scores.iter().zip(delta)).for_each(|(r, (v, d))| *r = scale * v + d);
            log_sum_exp(&row)
        });
        let up: Vec<f64> = up.collect();
        let size = scale * largest(&field.pairs[l]) + 2.0 * largest(delta) + largest(&up);
        rounding += rounding_allowance((tags + 12) as f64, size);
        root.iter_mut().zip(up.iter().zip(delta)).for_each(|(r, (up, d))| *r += up - d);
        up_tags.push(up);
    }
    let lone_tag = &duals[z..epsilon];
    root.iter_mut().zip(lone_tag).for_each(|(r, x)| *r -= lone_tags * x);
    let lone_word = &duals[y..end];
    let mut rest = vec![0.0; words];
    rest.iter_mut().zip(lone_word).for_each(|(r, x)| *r -= lone_words * x);
    for column in duals[epsilon..y].chunks_exact(words) {
        rest.iter_mut().zip(column).for_each(|(r, x)| *r -= x);
    }
    let mut columns: Vec<&[f64]> = duals[epsilon..y].chunks_exact(words).collect();
    columns.insert(centre, &rest);
    let mut stars = Vec::with_capacity(window);
    for (table, column) in field.emissions.iter().zip(&columns) {
        stop()?;
        let star = Emission::new(table, scale, column, tags);
        let size = largest(&star.up) + scale * largest(table) + largest(*column);
        rounding += star.rounding + rounding_allowance((window + 8) as f64, size);
        root.iter_mut().zip(&star.up).for_each(|(r, up)| *r += up);
        stars.push(star);
    }
    let total = log_sum_exp(&root);
    if total == f64::NEG_INFINITY {
        return Ok(Evaluation::zero());
    }
    let alone = |scores: &[f64]| if scores.is_empty() { 0.0 } else { log_sum_exp(scores) };
    let (of_tags, of_words) = (alone(lone_tag), alone(lone_word));
    let value = (total + lone_tags * of_tags + lone_words * of_words) / scale;
    let size = largest(&root)
        + lone_tags * (largest(lone_tag) + of_tags.abs())
        + lone_words * (largest(lone_word) + of_words.abs());
    rounding += rounding_allowance((tags + words + 4 * (context + window)) as f64, size);
    let n = length as f64;
    let rounding = n * rounding / scale + rounding_allowance(8.0, n * value.abs());
    if let Some(slopes) = slopes {
        slopes.clear();
        root.iter_mut().for_each(|x| *x = (*x - total).exp());
        let (to_tags, to_words) = slopes.duals.split_at_mut(epsilon);
        for (l, (delta, to)) in duals[..z].chunks_exact(tags).zip(to_tags.chunks_exact_mut(tags)).enumerate()
        {
            to.iter_mut().zip(&root).for_each(|(t, p)| *t = -p / scale);
            for x in (0..tags).filter(|&x| root[x] > 0.0) {
                for y in 0..tags {
                    let score = scale * field.pairs[l][x * tags + y] + delta[y] - up_tags[l][x];
                    let p = root[x] * score.exp();
                    slopes.pairs[l][x * tags + y] = p;
                    to[y] += p / scale;
                }
            }
        }
        for ((to, x), p) in to_tags[z..].iter_mut().zip(lone_tag).zip(&root) {
            *to = lone_tags * ((x - of_tags).exp() - p) / scale;
        }
        let mut marginals = Vec::with_capacity(window);
        for (m, star) in stars.into_iter().enumerate() {
            stop()?;
            let mut marginal = vec![0.0; words];
            let to = &mut slopes.emissions[m];
            star.down(&field.emissions[m], columns[m], &root, scale.recip(), to, &mut marginal);
            marginals.push(marginal);
        }
        let rest = marginals.remove(centre);
        for (to, own) in to_words.chunks_exact_mut(words).zip(&marginals) {
            to.iter_mut().zip(own.iter().zip(&rest)).for_each(|(t, (p, q))| *t = p - q);
        }
        for ((to, x), q) in to_words[y - epsilon..].iter_mut().zip(lone_word).zip(&rest) {
            *to = lone_words * ((x - of_words).exp() / scale - q);
        }
    }
    Ok(Evaluation { value, high: n * value + rounding, rounding })
}
