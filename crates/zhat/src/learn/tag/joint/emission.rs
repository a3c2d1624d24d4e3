//! Sums over words: g(t) = log Σ_w exp(s·U(t, w) + e(w)) for all tags, and the distributions of words that belong to
//! them.
//!
//! Cost: W·T exponentials. Blocks of words are processed in parallel; their sums are added in the order of the
//! blocks.

use crate::numeric::parallel::prelude::*;

use super::field::{BLOCK, largest};
use crate::numeric::{exp_in_place, rounding_allowance};

/// The sums over words for one table.
pub(super) struct Emission {
    scale: f64,
    /// exp(s·U + e − top), W × T.
    weights: Vec<f64>,
    /// Σ_w of the weights.
    sums: Vec<f64>,
    /// g.
    pub up: Vec<f64>,
    /// A bound on the rounding error of g.
    pub rounding: f64,
}

/// Blocks of words with their scores s·U + e.
fn scored(table: &[f64], scale: f64, column: &[f64], tags: usize, block: usize, to: &mut Vec<f64>) {
    let words = column.len();
    let range = block * BLOCK..((block + 1) * BLOCK).min(words);
    to.clear();
    for (row, e) in table[range.start * tags..range.end * tags].chunks_exact(tags).zip(&column[range]) {
        to.extend(row.iter().map(|u| scale * u + e));
    }
}

impl Emission {
    /// Computes the sums; `column` is e.
    pub fn new(table: &[f64], scale: f64, column: &[f64], tags: usize) -> Self {
        let blocks = column.len().div_ceil(BLOCK);
        let tops: Vec<Vec<f64>> = (0..blocks)
            .into_par_iter()
            .map_init(Vec::new, |scores, block| {
                scored(table, scale, column, tags, block, scores);
                let mut top = vec![f64::NEG_INFINITY; tags];
                for row in scores.chunks_exact(tags) {
                    top.iter_mut().zip(row).for_each(|(m, x)| *m = m.max(*x));
                }
                top
            })
            .collect();
        let mut top = vec![f64::NEG_INFINITY; tags];
        for block in &tops {
            top.iter_mut().zip(block).for_each(|(m, x)| *m = m.max(*x));
        }
        let shift: Vec<f64> = top.iter().map(|m| if m.is_finite() { *m } else { 0.0 }).collect();
        let mut weights = vec![0.0; table.len()];
        let parts: Vec<Vec<f64>> = weights
            .par_chunks_mut(BLOCK * tags)
            .enumerate()
            .map_init(Vec::new, |scores, (block, to)| {
                scored(table, scale, column, tags, block, scores);
                for (to, row) in to.chunks_exact_mut(tags).zip(scores.chunks_exact(tags)) {
                    to.iter_mut().zip(row).zip(&shift).for_each(|((t, x), m)| *t = x - m);
                }
                exp_in_place(to);
                let mut sum = vec![0.0; tags];
                for row in to.chunks_exact(tags) {
                    sum.iter_mut().zip(row).for_each(|(s, x)| *s += x);
                }
                sum
            })
            .collect();
        let mut sums = vec![0.0; tags];
        for part in &parts {
            sums.iter_mut().zip(part).for_each(|(s, x)| *s += x);
        }
        let up = sums
            .iter()
            .zip(&shift)
            .map(|(s, m): (&f64, _)| if *s > 0.0 { s.ln() + m } else { *s + f64::NEG_INFINITY });
        let up: Vec<f64> = up.collect();
        let size = scale * largest(table) + largest(column);
        let rounding = rounding_allowance((BLOCK.min(column.len()) + blocks + 8) as f64, size);
        Emission { scale, weights, sums, up, rounding }
    }

    /// Adds p(t)·P(w | t)·`factor`·s to `slopes` and p(t)·P(w | t)·`factor` to `columns`. Returns the mean of s·U + e
    /// under p(t)·P(w | t).
    pub fn down(
        self,
        table: &[f64],
        column: &[f64],
        law: &[f64],
        factor: f64,
        slopes: &mut [f64],
        columns: &mut [f64],
    ) -> f64 {
        let tags = law.len();
        let Emission { scale, mut weights, sums, .. } = self;
        let share: Vec<f64> =
            law.iter().zip(&sums).map(|(p, s)| if *s > 0.0 { p / s } else { 0.0 }).collect();
        let both = factor * scale;
        let parts: Vec<f64> = weights
            .par_chunks_mut(BLOCK * tags)
            .zip(slopes.par_chunks_mut(BLOCK * tags))
            .zip(columns.par_chunks_mut(BLOCK))
            .enumerate()
            .map(|(block, ((weights, slopes), columns))| {
                let first = block * BLOCK;
                let mut energy = 0.0;
                let rows = weights.chunks_exact_mut(tags).zip(slopes.chunks_exact_mut(tags)).zip(columns);
                for (w, ((weights, slopes), column_slope)) in rows.enumerate() {
                    let e = column[first + w];
                    let row = &table[(first + w) * tags..][..tags];
                    let mut total = 0.0;
                    for (((p, slope), share), u) in weights.iter().zip(slopes).zip(&share).zip(row) {
                        let p = p * share;
                        if p > 0.0 {
                            *slope += both * p;
                            total += p;
                            energy += p * (scale * u + e);
                        }
                    }
                    *column_slope += factor * total;
                }
                energy
            })
            .collect();
        parts.iter().sum()
    }
}
