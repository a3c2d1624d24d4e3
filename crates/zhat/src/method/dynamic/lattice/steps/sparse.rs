//! Sparse tables: products, logarithms and derivatives entry by entry.
//!
//! M has one number per entry of the pattern. A forward product sums over the sources of each column, a backward
//! product over the targets of each row, and a derivative visits the entries of each row, so every output is
//! computed by one task in a fixed order. M of a shared table is stored twice, by rows and by columns; M of a
//! table of one step is computed when it is used.
//!
//! Time O(E) per message and table, memory 2·E numbers and the shifts.

use std::borrow::Cow;
use std::ops::Range;

use super::shifts::Shifts;
use super::sweep::map_all;
use super::tiles::pieces;
use super::{Product, Steps};
use crate::error::Result;
use crate::method::dynamic::lattice::entries::{Entries, Index, Listed};
use crate::model::Pattern;
use crate::numeric::Real;
use crate::numeric::parallel::prelude::*;
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

/// Rows or columns per task.
const ROWS: usize = 2048;
/// What an entry costs, in multiplications of a dense table: its state is read from a list, and the number of that
/// state from memory.
const GATHER: usize = 8;

/// The matrices of sparse transitions.
pub(super) struct Sparse<'a, F: Real> {
    pattern: &'a Pattern,
    /// One value per entry, for each table.
    values: &'a [F],
    per_step: bool,
    shifts: Vec<Shifts<F>>,
    /// M of a shared table, by rows and by columns.
    stored: Option<(Vec<F>, Vec<F>)>,
}

impl<'a, F: Real> Sparse<'a, F> {
    pub fn new(
        pattern: &'a Pattern,
        values: &'a [F],
        per_step: bool,
        boundaries: usize,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let tables = if per_step { boundaries } else { boundaries.min(1) };
        let mut steps = Sparse { pattern, values, per_step, shifts: Vec::new(), stored: None };
        let stop = || clock.must_stop();
        steps.shifts = (0..tables)
            .into_par_iter()
            .map(|t| if stop() { Shifts::default() } else { steps.shifts_of(t) })
            .collect();
        clock.check()?;
        if !per_step && tables > 0 {
            let rows = steps.by_row(0).into_owned();
            let columns = steps.permuted(&rows);
            steps.stored = Some((rows, columns));
        }
        Ok(steps)
    }

    fn table(&self, t: usize) -> &'a [F] {
        let from = if self.per_step { t * self.pattern.len() } else { 0 };
        &self.values[from..from + self.pattern.len()]
    }

    fn shifts(&self, t: usize) -> &Shifts<F> {
        &self.shifts[if self.per_step { t } else { 0 }]
    }

    /// The maxima of the rows, then the maxima of the columns after subtracting them.
    fn shifts_of(&self, t: usize) -> Shifts<F> {
        let (values, starts) = (self.table(t), self.pattern.starts());
        let finite = |x: F| if x == F::NEG_INFINITY { F::ZERO } else { x };
        let mut columns = vec![F::NEG_INFINITY; self.pattern.states()];
        let rows = starts.windows(2).map(|pair| {
            let (row, targets) = (&values[pair[0]..pair[1]], &self.pattern.targets()[pair[0]..pair[1]]);
            let shift = finite(row.iter().copied().fold(F::NEG_INFINITY, |a, b| if b > a { b } else { a }));
            for (&x, &j) in row.iter().zip(targets) {
                let best = &mut columns[j as usize];
                *best = if x - shift > *best { x - shift } else { *best };
            }
            shift
        });
        let rows = rows.collect();
        columns.iter_mut().for_each(|x| *x = finite(*x));
        Shifts { rows, columns }
    }

    /// ln M of the entries of some rows.
    fn logs(&self, t: usize, rows: Range<usize>, out: &mut [F]) {
        let (values, shifts, starts) = (self.table(t), self.shifts(t), self.pattern.starts());
        let mut rest = out;
        for i in rows {
            let entries = starts[i]..starts[i + 1];
            let (out, behind) = rest.split_at_mut(entries.len());
            rest = behind;
            let pairs = values[entries.clone()].iter().zip(&self.pattern.targets()[entries]);
            for (x, (&value, &j)) in out.iter_mut().zip(pairs) {
                *x = (value - shifts.rows[i]) - shifts.columns[j as usize];
            }
        }
    }

    /// Writes one number per entry in parallel; `work` computes those of some rows.
    fn each_row_block(
        &self,
        cost: usize,
        out: &mut [F],
        work: impl Fn(Range<usize>, &mut [F]) + Sync + Send,
    ) {
        let starts = self.pattern.starts();
        let mut rest = out;
        let mut parts = Vec::new();
        for rows in pieces(0..self.pattern.states(), ROWS) {
            let (part, behind) = rest.split_at_mut(starts[rows.end] - starts[rows.start]);
            rest = behind;
            parts.push((rows, part));
        }
        map_all(parts.into_iter(), cost * self.pattern.len(), |(rows, part)| work(rows, part));
    }

    /// M by rows.
    fn by_row(&self, t: usize) -> Cow<'_, [F]> {
        if let Some((rows, _)) = &self.stored {
            return Cow::Borrowed(rows);
        }
        let mut weights = vec![F::ZERO; self.pattern.len()];
        self.each_row_block(4, &mut weights, |rows, part| {
            self.logs(t, rows, part);
            F::exp_in_place(part);
        });
        Cow::Owned(weights)
    }

    /// Numbers by rows, in the order of columns.
    fn permuted(&self, weights: &[F]) -> Vec<F> {
        let mut permuted = vec![F::ZERO; weights.len()];
        F::gather(&mut permuted, weights, self.pattern.by_column());
        permuted
    }

    /// M by columns.
    fn by_column(&self, t: usize) -> Cow<'_, [F]> {
        match &self.stored {
            Some((_, columns)) => Cow::Borrowed(columns),
            None => Cow::Owned(self.permuted(&self.by_row(t))),
        }
    }

    /// M ∘ D by rows. Entries with M = 0 are 0 for any D.
    fn directed(&self, t: usize, direction: &dyn Entries<F>) -> Vec<F> {
        let weights = self.by_row(t);
        let mut directed = vec![F::ZERO; weights.len()];
        let starts = self.pattern.starts();
        self.each_row_block(16, &mut directed, |rows, part| {
            let first = starts[rows.start];
            for i in rows {
                let entries = starts[i]..starts[i + 1];
                let out = &mut part[entries.start - first..entries.end - first];
                direction.fill(t, Index::Range(i..i + 1), Index::List(self.pattern.row(i)), out);
                for (x, &m) in out.iter_mut().zip(&weights[entries]) {
                    *x = if m == F::ZERO { F::ZERO } else { *x * m };
                }
            }
        });
        directed
    }

    fn forward(&self, weights: &[F], product: Product<'_, F>) {
        multiply(self.pattern.column_starts(), self.pattern.sources(), weights, product);
    }

    fn backward(&self, weights: &[F], product: Product<'_, F>) {
        multiply(self.pattern.starts(), self.pattern.targets(), weights, product);
    }
}

/// output_k(i) = Σ weights(e)·input_k(states(e)) over the entries e from starts(i) to starts(i + 1).
fn multiply<F: Real>(starts: &[usize], states: &[u32], weights: &[F], product: Product<'_, F>) {
    let Product { count, input, output, .. } = product;
    let size = starts.len() - 1;
    let mut parts = Vec::new();
    for (input, output) in input.chunks_exact(size).zip(output.chunks_exact_mut(size)).take(count) {
        let blocks = output.chunks_mut(ROWS).enumerate();
        parts.extend(blocks.map(|(block, part)| (block * ROWS, input, part)));
    }
    map_all(parts.into_iter(), GATHER * count * weights.len(), |(first, input, part)| {
        for (out, entries) in part.iter_mut().zip(starts[first..].windows(2)) {
            let entries = entries[0]..entries[1];
            let terms = weights[entries.clone()].iter().zip(&states[entries]);
            *out = terms.fold(F::ZERO, |sum, (&m, &k)| sum + m * input[k as usize]);
        }
    });
}

impl<F: Real> Steps<F> for Sparse<'_, F> {
    fn shape(&self, _: usize) -> (usize, usize) {
        (self.pattern.states(), self.pattern.states())
    }

    fn shared(&self) -> bool {
        !self.per_step
    }

    fn row_shifts(&self, t: usize) -> &[F] {
        &self.shifts(t).rows
    }

    fn column_shifts(&self, t: usize) -> &[F] {
        &self.shifts(t).columns
    }

    fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>) {
        if let Some(product) = forward.filter(|product| product.count > 0) {
            self.forward(&self.by_column(product.t), product);
        }
        if let Some(product) = backward.filter(|product| product.count > 0) {
            self.backward(&self.by_row(product.t), product);
        }
    }

    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        if let Some(product) = forward.filter(|product| product.count > 0) {
            self.forward(&self.permuted(&self.directed(product.t, direction)), product);
        }
        if let Some(product) = backward.filter(|product| product.count > 0) {
            self.backward(&self.directed(product.t, direction), product);
        }
    }

    fn log_row(&self, t: usize, i: usize, out: &mut Vec<F>) -> Listed<'_> {
        let targets = self.pattern.row(i);
        out.resize(targets.len(), F::ZERO);
        self.logs(t, i..i + 1, out);
        Listed(Some(targets))
    }

    fn log_column(&self, t: usize, j: usize, out: &mut Vec<F>) -> Listed<'_> {
        let (sources, entries) = self.pattern.column(j);
        let (values, shifts) = (self.table(t), self.shifts(t));
        out.clear();
        out.extend(
            sources
                .iter()
                .zip(entries)
                .map(|(&i, &e)| (values[e as usize] - shifts.rows[i as usize]) - shifts.columns[j]),
        );
        Listed(Some(sources))
    }

    fn add_gradient(
        &self,
        t: usize,
        count: usize,
        left: &[F],
        right: &[F],
        direction: Option<&dyn Entries<F>>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let TransitionGradient::Sparse { values, .. } = gradient else { return };
        let (size, entries, starts) = (self.pattern.states(), self.pattern.len(), self.pattern.starts());
        let weights = match direction {
            None => self.by_row(t),
            Some(direction) => Cow::Owned(self.directed(t, direction)),
        };
        let first = if self.per_step { t * entries } else { 0 };
        self.each_row_block(GATHER * count, &mut values[first..first + entries], |rows, part| {
            let mut sums = vec![F::ZERO; part.len()];
            for (left, right) in left.chunks_exact(size).zip(right.chunks_exact(size)).take(count) {
                let mut rest = &mut sums[..];
                for i in rows.clone() {
                    let targets = self.pattern.row(i);
                    let (sums, behind) = rest.split_at_mut(targets.len());
                    rest = behind;
                    for (sum, &j) in sums.iter_mut().zip(targets) {
                        *sum += left[i] * right[j as usize];
                    }
                }
            }
            for ((x, sum), &m) in part.iter_mut().zip(sums).zip(&weights[starts[rows.start]..]) {
                *x += if m == F::ZERO { F::ZERO } else { sum * m };
            }
        });
    }
}
