//! Products of non-negative matrices stored as logarithms, computed by dense matrix products.
//!
//! C(i, j) = log Σ_k exp(A(i, k) + B(k, j)). Choose βₖ, γⱼ and αᵢ such that the largest entries of exp(B(k,
//! j) − βₖ − γⱼ) in each column and of exp(A(i, k) + βₖ − αᵢ) in each row are 1. Then the sum is exp(αᵢ + γⱼ)
//! times an entry of an ordinary product. Terms that underflow there are less than 10⁻³⁰⁷ for each k, so an
//! entry above 10⁻²⁹⁰ for each k has full accuracy. The other entries are recomputed in the log domain. The
//! result is accurate for all scores.
//!
//! Cost: rows·inner·columns operations of a matrix product, one exponential per entry of A and one logarithm
//! per entry of C. In the worst case, where scores differ by hundreds and scaling does not help, one
//! exponential per operation.

use std::sync::OnceLock;

use crate::error::Result;
use crate::numeric::{self, Matrix, multiply_here};
use crate::run::Clock;

/// Number of rows processed together.
pub(super) const ROWS: usize = 64;
/// Number of operations between checks of the clock: some hundredths of a second.
const PIECE: usize = 1 << 27;
/// Entries below this, per term, may have lost digits to underflow.
const LEAST: f64 = 1e-290;

/// The right-hand matrix B, scaled once for all rows of A.
pub(super) struct Factor<'a> {
    logarithms: &'a [f64],
    inner: usize,
    columns: usize,
    /// exp(B(k, j) − βₖ − γⱼ).
    scaled: Vec<f64>,
    /// βₖ; −∞ for a row of zeros.
    by_row: Vec<f64>,
    /// γⱼ; −∞ for a column of zeros.
    by_column: Vec<f64>,
    /// For each column j, one bit per k that tells whether B(k, j) is not zero; computed when first needed.
    support: OnceLock<Vec<u64>>,
}

/// The columns of A that a factor is multiplied with: `first`, `first + stride`, …
#[derive(Clone, Copy)]
pub(super) struct Columns {
    pub first: usize,
    pub stride: usize,
}

/// Scratch buffers of one thread.
#[derive(Default)]
pub(super) struct Scratch {
    left: Vec<f64>,
    product: Vec<f64>,
    by_row: Vec<f64>,
    lost: Vec<usize>,
    sums: Vec<f64>,
    tops: Vec<f64>,
    terms: Vec<f64>,
    support: Vec<u64>,
}

/// x − y; −∞ if y is −∞, in which case x is −∞ too.
fn less(x: f64, y: f64) -> f64 {
    if y == f64::NEG_INFINITY { y } else { x - y }
}

impl<'a> Factor<'a> {
    pub fn new(logarithms: &'a [f64], inner: usize, clock: &Clock<'_>) -> Result<Self> {
        let columns = logarithms.len() / inner.max(1);
        let rows = || logarithms.chunks_exact(columns.max(1));
        let column_tops = |by_row: Option<&[f64]>| {
            let mut tops = vec![f64::NEG_INFINITY; columns];
            for (k, row) in rows().enumerate() {
                clock.check()?;
                let shift = by_row.map_or(0.0, |by_row| by_row[k]);
                tops.iter_mut().zip(row).for_each(|(top, x)| *top = top.max(less(*x, shift)));
            }
            Ok(tops)
        };
        let first = column_tops(None)?;
        let top = |row: &[f64]| {
            clock.check()?;
            Ok(row.iter().zip(&first).fold(f64::NEG_INFINITY, |m, (x, g)| m.max(less(*x, *g))))
        };
        let by_row = rows().map(top).collect::<Result<Vec<f64>>>()?;
        let by_column = column_tops(Some(&by_row))?;
        let mut scaled = vec![0.0; logarithms.len()];
        for ((scaled, row), shift) in scaled.chunks_exact_mut(columns.max(1)).zip(rows()).zip(&by_row) {
            clock.check()?;
            let entries = scaled.iter_mut().zip(row).zip(&by_column);
            entries.for_each(|((s, x), g)| *s = less(less(*x, *shift), *g));
            numeric::exp_in_place(scaled);
        }
        Ok(Factor { logarithms, inner, columns, scaled, by_row, by_column, support: OnceLock::new() })
    }

    /// Multiplies some rows of A, each of length `width`, and writes the result to the columns from `at` on
    /// of rows of the same length.
    pub fn multiply(
        &self,
        a: &[f64],
        width: usize,
        place: Columns,
        (out, at): (&mut [f64], usize),
        scratch: &mut Scratch,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let (inner, rows) = (self.inner, a.len() / width);
        scratch.left.resize(rows * inner, 0.0);
        scratch.by_row.clear();
        for (row, left) in a.chunks_exact(width).zip(scratch.left.chunks_exact_mut(inner)) {
            let entries = row[place.first..].iter().step_by(place.stride);
            left.iter_mut().zip(entries).zip(&self.by_row).for_each(|((l, x), b)| *l = x + b);
            let top = numeric::max(left);
            scratch.by_row.push(top);
            left.iter_mut().for_each(|l| *l = less(*l, top));
            numeric::exp_in_place(left);
        }
        let left = std::mem::take(&mut scratch.left);
        let most = (PIECE / (rows * inner).max(1)).clamp(1, self.columns.max(1));
        for first in (0..self.columns).step_by(most) {
            clock.check()?;
            let some = most.min(self.columns - first);
            scratch.product.resize(rows * some, 0.0);
            let mut product = std::mem::take(&mut scratch.product);
            multiply_here(
                Matrix::row_major(&left, rows, inner),
                Matrix::row_major(&self.scaled, inner, self.columns).columns(first..first + some),
                &mut product,
                false,
            );
            for (i, product) in product.chunks_exact_mut(some).enumerate() {
                let by_row = scratch.by_row[i];
                let out = &mut out[i * width + at + first..][..some];
                if by_row == f64::NEG_INFINITY {
                    out.fill(by_row);
                    continue;
                }
                let by_column = &self.by_column[first..first + some];
                let least = LEAST * inner as f64;
                let columns = product.iter().zip(by_column).enumerate();
                scratch.lost.clear();
                let lost = columns.filter(|(_, (p, g))| **p < least && **g > f64::NEG_INFINITY);
                scratch.lost.extend(lost.map(|(j, _)| j));
                numeric::ln_in_place(product);
                for ((out, p), g) in out.iter_mut().zip(product.iter()).zip(by_column) {
                    *out = p + (by_row + g);
                }
                if !scratch.lost.is_empty() {
                    self.again(&a[i * width..(i + 1) * width], place, first, out, scratch, clock)?;
                }
            }
            scratch.product = product;
        }
        scratch.left = left;
        Ok(())
    }

    fn support(&self) -> &[u64] {
        self.support.get_or_init(|| {
            let words = self.inner.div_ceil(64);
            let mut support = vec![0u64; words * self.columns];
            for (k, row) in self.logarithms.chunks_exact(self.columns).enumerate() {
                for (j, _) in row.iter().enumerate().filter(|(_, x)| **x > f64::NEG_INFINITY) {
                    support[j * words + k / 64] |= 1 << (k % 64);
                }
            }
            support
        })
    }

    /// Recomputes the entries of a row that lost digits, in the log domain.
    fn again(
        &self,
        row: &[f64],
        place: Columns,
        first: usize,
        out: &mut [f64],
        scratch: &mut Scratch,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let Scratch { lost, sums, tops, terms, support, .. } = scratch;
        let entries = || {
            let row = row[place.first..].iter().step_by(place.stride);
            let pairs = row.zip(self.logarithms.chunks_exact(self.columns)).enumerate();
            pairs.filter(|(_, (x, _))| **x > f64::NEG_INFINITY)
        };
        // In many models most of these entries are zero, because no k connects i to j.
        support.clear();
        support.resize(self.inner.div_ceil(64), 0);
        entries().for_each(|(k, _)| support[k / 64] |= 1 << (k % 64));
        let columns = self.support();
        lost.retain(|&j| {
            let column = columns[(first + j) * support.len()..].iter();
            let possible = support.iter().zip(column).any(|(a, b)| a & b != 0);
            if !possible {
                out[j] = f64::NEG_INFINITY;
            }
            possible
        });
        if lost.is_empty() {
            return Ok(());
        }
        tops.clear();
        tops.resize(lost.len(), f64::NEG_INFINITY);
        for (k, (x, b)) in entries() {
            if k % ROWS == 0 {
                clock.check()?;
            }
            tops.iter_mut().zip(lost.iter()).for_each(|(top, &j)| *top = top.max(x + b[first + j]));
        }
        sums.clear();
        sums.resize(lost.len(), 0.0);
        terms.resize(lost.len(), 0.0);
        for (k, (x, b)) in entries() {
            if k % ROWS == 0 {
                clock.check()?;
            }
            let columns = terms.iter_mut().zip(lost.iter()).zip(tops.iter());
            columns.for_each(|((term, &j), top)| *term = x + b[first + j] - top);
            numeric::exp_in_place(terms);
            sums.iter_mut().zip(terms.iter()).for_each(|(sum, term)| *sum += term);
        }
        for ((&j, top), sum) in lost.iter().zip(tops.iter()).zip(sums.iter()) {
            out[j] = top + sum.ln();
        }
        Ok(())
    }
}
