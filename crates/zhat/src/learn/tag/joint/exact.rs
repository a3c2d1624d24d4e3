//! log Z without a relaxation of the model, for K ≤ 2 and L ≤ 3.
//!
//! A word interacts with at most three consecutive tags a, b, c. Its sum
//!
//!   ψ(a, b, c) = Σ_w exp(U₁(a, w) + U₀(b, w) + U₋₁(c, w))
//!
//! is, for every b, a matrix product of T × W and W × T numbers: 2·W·T³ operations for all triples, and twice as many for
//! the derivative. What is left is a chain with L(a, b, c) = V₁(b, c) + V₂(a, c) + log ψ(a, b, c), whose partition function
//! is the trace of the N-th power of a matrix over pairs of tags. With K = 1 and L = 1 two tags interact, and the trace
//! is computed exactly. Otherwise it is bounded by N·log λ + 2·log T with a certified bound on the spectral radius λ
//! (module `second_order`). That is an upper bound on A; how far it is above A is not certified.
//!
//! For 50 tags and 20,000 words that is 15·10⁹ operations per evaluation with derivative, for any length of the corpus.
//!
//! Scores are exponentiated with the maximum over words subtracted for each tag. A sum that is so small that this loses
//! accuracy is computed again in the log domain.

use crate::numeric::parallel::prelude::*;

use super::field::{BLOCK, Field, Slopes, largest};
use super::second_order::growth;
use super::trace::trace;
use super::{Evaluation, Stop, cover};
use crate::error::Result;
use crate::numeric::{Matrix, exp_in_place, log_sum_exp, multiply_here, rounding_allowance};

/// Below this, a scaled sum is recomputed.
const ACCURATE: f64 = 1e-250;

/// Whether the method applies.
pub(super) fn applies(field: &Field) -> bool {
    field.context() <= 2 && field.window() <= 3
}

/// Bytes of memory for an evaluation, beside the tables.
pub(super) fn bytes(field: &Field) -> f64 {
    let (tags, words) = (field.tags() as f64, field.words() as f64);
    8.0 * (4.0 * tags.powi(3) + 3.0 * tags * words)
}

/// One side of ψ: exponentials of a table, W × n, and the logarithms that were subtracted.
struct Side {
    columns: usize,
    weights: Vec<f64>,
    shift: Vec<f64>,
}

impl Side {
    fn new(table: Option<&Vec<f64>>, tags: usize, words: usize) -> Self {
        let Some(table) = table else {
            return Side { columns: 1, weights: vec![1.0; words], shift: vec![0.0] };
        };
        let mut shift = vec![f64::NEG_INFINITY; tags];
        for row in table.chunks_exact(tags) {
            shift.iter_mut().zip(row).for_each(|(m, x)| *m = m.max(*x));
        }
        shift.iter_mut().filter(|m| !m.is_finite()).for_each(|m| *m = 0.0);
        let mut weights = table.clone();
        weights.par_chunks_mut(BLOCK * tags).for_each(|block| {
            for row in block.chunks_exact_mut(tags) {
                row.iter_mut().zip(&shift).for_each(|(x, m)| *x -= m);
            }
            exp_in_place(block);
        });
        Side { columns: tags, weights, shift }
    }

    fn rows(&self, words: std::ops::Range<usize>) -> &[f64] {
        &self.weights[words.start * self.columns..words.end * self.columns]
    }
}

/// ψ with the tables that it is made of: U₁, U₀ and U₋₁.
struct Words<'a> {
    tables: [Option<&'a Vec<f64>>; 3],
    left: Side,
    middle: Side,
    right: Side,
    /// ψ without the shifts, \[b\]\[a\]\[c\].
    sums: Vec<f64>,
    /// log ψ.
    logarithms: Vec<f64>,
}

impl<'a> Words<'a> {
    fn new(field: &'a Field, stop: Stop<'_>) -> Result<Self> {
        let (tags, words, centre) = (field.tags(), field.words(), field.centre());
        let at = |m: Option<usize>| m.and_then(|m| field.emissions.get(m));
        let tables = [at(Some(centre + 1)), at(Some(centre)), at(centre.checked_sub(1))];
        let [left, middle, right] = tables.map(|table| Side::new(table, tags, words));
        let (rows, columns) = (left.columns, right.columns);
        let mut sums = vec![0.0; tags * rows * columns];
        stop()?;
        let made: Result<Vec<()>> = sums
            .par_chunks_mut(rows * columns)
            .enumerate()
            .map_init(Vec::new, |scaled, (b, to)| {
                for first in (0..words).step_by(BLOCK) {
                    let range = first..(first + BLOCK).min(words);
                    stop()?;
                    scale_rows(&left, &middle, b, range.clone(), scaled);
                    let product = Matrix::row_major(scaled.as_slice(), range.len(), rows).transposed();
                    let other = Matrix::row_major(right.rows(range.clone()), range.len(), columns);
                    multiply_here(product, other, to, first > 0);
                }
                Ok(())
            })
            .collect();
        made?;
        let mut made = Words { tables, left, middle, right, sums, logarithms: Vec::new() };
        made.logarithms =
            (0..made.sums.len()).into_par_iter().map(|i| made.logarithm(i, tags, words)).collect();
        Ok(made)
    }

    fn logarithm(&self, i: usize, tags: usize, words: usize) -> f64 {
        let (rows, columns) = (self.left.columns, self.right.columns);
        let (b, a, c) = (i / (rows * columns), i / columns % rows, i % columns);
        if self.sums[i] > ACCURATE {
            return self.sums[i].ln() + self.left.shift[a] + self.middle.shift[b] + self.right.shift[c];
        }
        let terms: Vec<f64> = (0..words)
            .map(|w| {
                let score =
                    |table: Option<&Vec<f64>>, t: usize| table.map_or(0.0, |table| table[w * tags + t]);
                score(self.tables[0], a) + score(self.tables[1], b) + score(self.tables[2], c)
            })
            .collect();
        log_sum_exp(&terms)
    }

    /// The derivative with respect to the tables from that with respect to log ψ.
    fn down(
        &self,
        slopes: &mut Slopes,
        by_sum: &[f64],
        centre: usize,
        tags: usize,
        stop: Stop<'_>,
    ) -> Result<()> {
        let (rows, columns) = (self.left.columns, self.right.columns);
        let ratios: Vec<f64> =
            by_sum.iter().zip(&self.sums).map(|(p, s)| if *s > ACCURATE { p / s } else { 0.0 }).collect();
        let words = self.middle.weights.len() / tags;
        let blocks: Vec<usize> = (0..words).step_by(BLOCK).collect();
        let work = |first: usize| -> Result<[Vec<f64>; 3]> {
            let range = first..(first + BLOCK).min(words);
            let count = range.len();
            let (mut to_left, mut to_right) = (vec![0.0; count * rows], vec![0.0; count * columns]);
            let mut to_middle = vec![0.0; count * tags];
            let (mut scaled, mut ahead) = (Vec::new(), vec![0.0; count * rows]);
            let right = self.right.rows(range.clone());
            for b in 0..tags {
                stop()?;
                let ratio = Matrix::row_major(&ratios[b * rows * columns..][..rows * columns], rows, columns);
                scale_rows(&self.left, &self.middle, b, range.clone(), &mut scaled);
                multiply_here(
                    Matrix::row_major(right, count, columns),
                    ratio.transposed(),
                    &mut ahead,
                    false,
                );
                multiply_here(Matrix::row_major(&scaled, count, rows), ratio, &mut to_right, b > 0);
                let each = to_left
                    .chunks_exact_mut(rows)
                    .zip(scaled.chunks_exact(rows).zip(ahead.chunks_exact(rows)));
                for (w, (to, (own, ahead))) in each.enumerate() {
                    let mut total = 0.0;
                    for (to, (x, y)) in to.iter_mut().zip(own.iter().zip(ahead)) {
                        let p = x * y;
                        *to += p;
                        total += p;
                    }
                    to_middle[w * tags + b] = total;
                }
            }
            to_right.iter_mut().zip(right).for_each(|(t, x)| *t *= x);
            Ok([to_left, to_middle, to_right])
        };
        let parts: Result<Vec<[Vec<f64>; 3]>> = blocks.into_par_iter().map(work).collect();
        let mut first = 0;
        for [left, middle, right] in parts? {
            let range = first..first + middle.len();
            slopes.emissions[centre][range.clone()].copy_from_slice(&middle);
            if self.tables[0].is_some() {
                slopes.emissions[centre + 1][range.clone()].copy_from_slice(&left);
            }
            if self.tables[2].is_some() {
                slopes.emissions[centre - 1][range.clone()].copy_from_slice(&right);
            }
            first = range.end;
        }
        Ok(())
    }
}

/// Rows of the left side times the column b of the middle.
fn scale_rows(left: &Side, middle: &Side, b: usize, words: std::ops::Range<usize>, to: &mut Vec<f64>) {
    to.clear();
    let rows = left.rows(words.clone()).chunks_exact(left.columns);
    for (row, own) in rows.zip(middle.rows(words).chunks_exact(middle.columns)) {
        to.extend(row.iter().map(|x| x * own[b]));
    }
}

/// Evaluates log Z.
pub(super) fn evaluate(
    field: &Field,
    length: usize,
    slopes: Option<&mut Slopes>,
    stop: Stop<'_>,
) -> Result<Evaluation> {
    let (tags, words) = (field.tags(), field.words());
    let (context, window) = (field.context(), field.window());
    if context == 1 && window == 1 {
        return cover::evaluate(field, length, &[], slopes, stop);
    }
    let n = length as f64;
    let parts = Words::new(field, stop)?;
    let (rows, columns) = (parts.left.columns, parts.right.columns);
    let score = |a: usize, b: usize, c: usize| {
        let word = parts.logarithms[(b * rows + a.min(rows - 1)) * columns + c.min(columns - 1)];
        let second = field.pairs.get(1).map_or(0.0, |pairs| pairs[a * tags + c]);
        field.pairs[0][b * tags + c] + second + word
    };
    let operations = (words + 16) as f64;
    let size =
        field.emissions.iter().map(largest).sum::<f64>() + field.pairs.iter().map(largest).sum::<f64>();
    let own_rounding = n * rounding_allowance(operations, size);
    let mut by_sum = vec![0.0; parts.sums.len()];
    let (value, high, rounding);
    let mut by_pairs = vec![vec![0.0; tags * tags]; context];
    if context == 1 && rows == 1 {
        let scores: Vec<f64> = (0..tags * tags).map(|i| score(0, i / tags, i % tags)).collect();
        let found = trace(&scores, tags, length);
        if found.value == f64::NEG_INFINITY {
            return Ok(Evaluation::zero());
        }
        for (i, &p) in found.pairs.iter().enumerate() {
            by_sum[i / tags * columns + (i % tags).min(columns - 1)] += p;
        }
        value = found.value / n;
        rounding = own_rounding + found.rounding;
        high = found.value + rounding;
        by_pairs[0] = found.pairs;
    } else {
        let scores: Vec<f64> =
            (0..tags * tags * tags).map(|i| score(i / tags % tags, i / (tags * tags), i % tags)).collect();
        let Some(found) = growth(&scores, tags, slopes.is_some()) else { return Ok(Evaluation::zero()) };
        for (i, &p) in found.triples.iter().enumerate() {
            let (b, a, c) = (i / (tags * tags), i / tags % tags, i % tags);
            by_sum[(b * rows + a.min(rows - 1)) * columns + c.min(columns - 1)] += p;
            by_pairs[0][b * tags + c] += p;
            if context == 2 {
                by_pairs[1][a * tags + c] += p;
            }
        }
        value = found.high;
        rounding = own_rounding + n * found.rounding + rounding_allowance(8.0, n * found.high.abs());
        high = n * found.high + 2.0 * (tags as f64).ln() + rounding;
    }
    if let Some(slopes) = slopes {
        slopes.clear();
        slopes.pairs = by_pairs;
        parts.down(slopes, &by_sum, field.centre(), tags, stop)?;
    }
    Ok(Evaluation { value, high, rounding })
}
