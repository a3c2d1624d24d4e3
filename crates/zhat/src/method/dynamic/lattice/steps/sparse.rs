//! Sparse tables: products, logarithms and derivatives entry by entry.
//!
//! M has one number per entry of the pattern. A forward product sums over the sources of each column, a backward
//! product over the targets of each row, and a derivative visits the entries of each row, so every output is
//! computed by one task in a fixed order. M of a shared table is stored twice, by rows and by columns; M of a
//! table of one step is computed when it is used.
//!
//! A product reads 4 bytes of index and one number of M per entry in order, and one number of the message at random.
//! The derivative of a shared table takes the messages of many steps at once: [`GROUP`] of them side by side, so that
//! an entry reads a line or two of the cache at random and multiplies whole vectors, and M and the derivative are
//! read once per group.
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
use crate::numeric::simd::{self, Kernel};
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

/// Rows or columns per task.
const ROWS: usize = 2048;
/// What an entry costs, in multiplications of a dense table: its state is read from a list, and the number of that
/// state from memory.
const GATHER: usize = 8;
/// Pairs of messages whose derivatives are computed together.
pub(in crate::method::dynamic::lattice) const GROUP: usize = 16;
/// Fewer pairs are computed one after the other: half-empty groups would cost more.
const FEW: usize = 6;

/// Whether so many pairs of messages are computed in groups.
pub(in crate::method::dynamic::lattice) fn together(count: usize) -> bool {
    count >= FEW
}

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
        let (values, starts, states) = (self.table(t), self.pattern.starts(), self.pattern.states());
        let work = 4 * self.pattern.len();
        let finite = |x: F| if x == F::NEG_INFINITY { F::ZERO } else { x };
        let of_rows = |some: Range<usize>| -> Vec<F> {
            some.map(|i| finite(F::max(&values[starts[i]..starts[i + 1]]))).collect()
        };
        let rows = map_all(pieces(0..states, ROWS), work, of_rows).concat();
        let of_columns = |some: Range<usize>| -> Vec<F> {
            let largest = |j: usize| {
                let (sources, entries) = self.pattern.column(j);
                let terms = sources.iter().zip(entries).map(|(&i, &e)| values[e as usize] - rows[i as usize]);
                finite(terms.fold(F::NEG_INFINITY, |a, b| if b > a { b } else { a }))
            };
            some.map(largest).collect()
        };
        let columns = map_all(pieces(0..states, ROWS), 2 * work, of_columns).concat();
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

    /// Both products with matrices by columns and by rows.
    fn products(&self, forward: Option<(&[F], Product<'_, F>)>, backward: Option<(&[F], Product<'_, F>)>) {
        let forward = forward.map(|(weights, product)| {
            (self.pattern.column_starts(), self.pattern.sources(), weights, product)
        });
        let backward = backward
            .map(|(weights, product)| (self.pattern.starts(), self.pattern.targets(), weights, product));
        let mut work = 0;
        let mut parts = Vec::new();
        for (starts, states, weights, product) in forward.into_iter().chain(backward) {
            let Product { count, input, output, .. } = product;
            let size = starts.len() - 1;
            work += GATHER * count * weights.len();
            for (input, output) in input.chunks_exact(size).zip(output.chunks_exact_mut(size)).take(count) {
                for (block, output) in output.chunks_mut(ROWS).enumerate() {
                    parts.push(Sums { starts, states, weights, first: block * ROWS, input, output });
                }
            }
        }
        map_all(parts.into_iter(), work, Sums::run);
    }

    /// The derivative from few pairs of messages, one after the other.
    fn add_pairs(&self, weights: &[F], (left, right): (&[F], &[F]), out: &mut [F]) {
        let size = self.pattern.states();
        let starts = self.pattern.starts();
        self.each_row_block(GATHER * (left.len() / size), out, |rows, part| {
            let mut sums = vec![F::ZERO; part.len()];
            for (left, right) in left.chunks_exact(size).zip(right.chunks_exact(size)) {
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

    /// The derivative from at most [`GROUP`] pairs of messages, those after the boundary side by side.
    fn add_group(
        &self,
        weights: &[F],
        (left, right): (&[F], &[F]),
        beside: &mut [[F; GROUP]],
        out: &mut [F],
    ) {
        let size = self.pattern.states();
        let blocks = beside.chunks_mut(ROWS).enumerate();
        map_all(blocks, 4 * right.len(), |(block, part)| {
            part.fill([F::ZERO; GROUP]);
            for (k, row) in right.chunks_exact(size).enumerate() {
                for (own, &x) in part.iter_mut().zip(&row[block * ROWS..]) {
                    own[k] = x;
                }
            }
        });
        let right: &[[F; GROUP]] = beside;
        let left: Vec<&[F]> = left.chunks_exact(size).collect();
        self.each_row_block(2 * GROUP, out, |rows, out| {
            simd::run(Outer { pattern: self.pattern, rows, left: &left, right, weights, out });
        });
    }
}

/// output(i) = Σ weights(e)·input(states(e)) over the entries e from starts(i) to starts(i + 1), for some i.
struct Sums<'a, F> {
    starts: &'a [usize],
    states: &'a [u32],
    weights: &'a [F],
    first: usize,
    input: &'a [F],
    output: &'a mut [F],
}

impl<F: Real> Sums<'_, F> {
    fn run(self) {
        let Sums { starts, states, weights, first, input, output } = self;
        for (out, entries) in output.iter_mut().zip(starts[first..].windows(2)) {
            let entries = entries[0]..entries[1];
            let terms = weights[entries.clone()].iter().zip(&states[entries]);
            *out = terms.fold(F::ZERO, |sum, (&m, &k)| sum + m * input[k as usize]);
        }
    }
}

/// out(i, j) ← out(i, j) + M(i, j)·Σₖ leftₖ(i)·rightₖ(j) for the entries of some rows.
struct Outer<'a, F: Real> {
    pattern: &'a Pattern,
    rows: Range<usize>,
    /// At most [`GROUP`] rows.
    left: &'a [&'a [F]],
    right: &'a [[F; GROUP]],
    /// M by rows, all of it.
    weights: &'a [F],
    out: &'a mut [F],
}

impl<F: Real> Kernel for Outer<'_, F> {
    type Output = ();

    // The compiler vectorises counted loops over arrays of lanes.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        /// Sums that are accumulated side by side.
        const LANES: usize = 8;
        let starts = self.pattern.starts();
        let mut rest = self.out;
        for i in self.rows {
            let mut own = [F::ZERO; GROUP];
            own.iter_mut().zip(self.left).for_each(|(x, row)| *x = row[i]);
            let targets = &self.pattern.targets()[starts[i]..starts[i + 1]];
            let (out, behind) = rest.split_at_mut(targets.len());
            rest = behind;
            for ((x, &j), &m) in out.iter_mut().zip(targets).zip(&self.weights[starts[i]..]) {
                let other = &self.right[j as usize];
                let mut sums = [F::ZERO; LANES];
                for first in (0..GROUP).step_by(LANES) {
                    for k in 0..LANES {
                        sums[k] = F::multiply_add::<FMA>(own[first + k], other[first + k], sums[k]);
                    }
                }
                let sum =
                    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]));
                *x += if m == F::ZERO { F::ZERO } else { sum * m };
            }
        }
    }
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
        let (forward, backward) = (forward.filter(|one| one.count > 0), backward.filter(|one| one.count > 0));
        let by_column = forward.as_ref().map(|product| self.by_column(product.t));
        let by_row = backward.as_ref().map(|product| self.by_row(product.t));
        self.products(by_column.as_deref().zip(forward), by_row.as_deref().zip(backward));
    }

    fn multiply_directed(
        &self,
        direction: &dyn Entries<F>,
        forward: Option<Product<'_, F>>,
        backward: Option<Product<'_, F>>,
    ) {
        if let Some(product) = forward.filter(|product| product.count > 0) {
            self.products(Some((&self.permuted(&self.directed(product.t, direction)), product)), None);
        }
        if let Some(product) = backward.filter(|product| product.count > 0) {
            self.products(None, Some((&self.directed(product.t, direction), product)));
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
        let (size, entries) = (self.pattern.states(), self.pattern.len());
        let weights = match direction {
            None => self.by_row(t),
            Some(direction) => Cow::Owned(self.directed(t, direction)),
        };
        let first = if self.per_step { t * entries } else { 0 };
        let out = &mut values[first..first + entries];
        if !together(count) {
            return self.add_pairs(&weights, (&left[..count * size], &right[..count * size]), out);
        }
        let mut beside = vec![[F::ZERO; GROUP]; size];
        let chunk = GROUP * size;
        let pairs = left[..count * size].chunks(chunk).zip(right[..count * size].chunks(chunk));
        pairs.for_each(|pair| self.add_group(&weights, pair, &mut beside, out));
    }
}
