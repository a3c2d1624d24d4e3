//! The matrices of chains with few states: M in both directions, with rows padded to whole vectors, one for all steps
//! or one per step, and the shifts of positions.

use super::super::messages::Lattice;
use crate::model::Transitions;
use crate::numeric::{Aligned, HEADROOM_BITS, Real, SmallProduct, padded_row};

/// M in both directions, and the shifts of positions, as padded rows.
pub(super) struct Tables<F> {
    pub states: usize,
    pub width: usize,
    /// Whether all steps have the same table.
    pub shared: bool,
    /// All tables, states × width each.
    matrices: Aligned<F>,
    transposed: Aligned<F>,
    /// The smallest positive entry of every table; 0 if one has underflowed.
    entries: Vec<F>,
    pub floor: F,
    /// The shifts of every position, for sequences that continue and for those that end there; of the first and of a
    /// later one if all steps have the same table.
    shifts: Aligned<F>,
}

impl<F: Real> Tables<F> {
    pub fn new(lattice: &Lattice<'_, F>) -> Self {
        let (states, steps) = (lattice.layout.largest(), lattice.layout.steps());
        let (width, shared) = (padded_row::<F>(states), lattice.steps.shared());
        let positions = if shared { 2 } else { steps };
        let mut shifts = Aligned::zeros(2 * positions * width);
        for (at, row) in shifts.chunks_exact_mut(width).enumerate() {
            let (t, last) = (at / 2, at % 2 == 1);
            row[states..].fill(F::NEG_INFINITY);
            // Sequences may be too short for some kinds of positions.
            if t < steps && (last || t + 1 < steps) {
                let shifts = lattice.shifts(t, last);
                row[..shifts.len()].copy_from_slice(shifts);
            }
        }
        let count = if shared { 1 } else { steps.saturating_sub(1).max(1) };
        let size = states * width;
        let lost = (states * states) as f64 * F::TINY.to_f64() * f64::from(HEADROOM_BITS).exp2();
        let mut tables = Tables {
            states,
            width,
            shared,
            matrices: Aligned::zeros(count * size),
            transposed: Aligned::zeros(count * size),
            entries: vec![F::ONE; count],
            floor: F::from_f64(4.0 * lost / F::EPSILON.to_f64()),
            shifts,
        };
        for t in 0..if steps > 1 { count } else { 0 } {
            tables.fill(lattice, t);
        }
        tables
    }

    /// Computes table t.
    fn fill(&mut self, lattice: &Lattice<'_, F>, t: usize) {
        let (states, width, size) = (self.states, self.width, self.states * self.width);
        let matrix = &mut self.matrices[t * size..][..size];
        let transposed = &mut self.transposed[t * size..][..size];
        let (Transitions::Shared(values) | Transitions::PerStep(values)) = lattice.edges.transitions else {
            return;
        };
        let values = values[t * states * states..].chunks_exact(states);
        let (rows, columns) = (lattice.steps.row_shifts(t), lattice.steps.column_shifts(t));
        let mut least = F::ZERO;
        for ((row, values), &shift) in matrix.chunks_exact_mut(width).zip(values).zip(rows) {
            let row = &mut row[..states];
            for ((x, &value), &column) in row.iter_mut().zip(values).zip(columns) {
                *x = (value - shift) - column;
                least = if *x < least && *x > F::NEG_INFINITY { *x } else { least };
            }
            F::exp_in_place(row);
        }
        let mut least = [least];
        F::exp_in_place(&mut least);
        self.entries[t] = least[0];
        for (i, row) in matrix.chunks_exact(width).enumerate() {
            for (j, &x) in row[..states].iter().enumerate() {
                transposed[j * width + i] = x;
            }
        }
    }

    /// The place of table t.
    fn place(&self, t: usize) -> usize {
        if self.shared { 0 } else { t.min(self.entries.len() - 1) }
    }

    /// M of step t.
    pub fn matrix(&self, t: usize) -> &[F] {
        let size = self.states * self.width;
        &self.matrices[self.place(t) * size..][..size]
    }

    /// Its transpose.
    pub fn transposed(&self, t: usize) -> &[F] {
        let size = self.states * self.width;
        &self.transposed[self.place(t) * size..][..size]
    }

    /// The smallest positive entry of M of step t.
    pub fn entry(&self, t: usize) -> F {
        self.entries[self.place(t)]
    }

    /// The shifts of position t, for sequences that end there (`last`) or continue.
    pub fn shifts(&self, t: usize, last: bool) -> &[F] {
        let t = if self.shared { t.min(1) } else { t };
        &self.shifts[(2 * t + usize::from(last)) * self.width..][..self.width]
    }

    /// output ← rows·matrix.
    pub fn multiply(&self, rows: &[F], matrix: &[F], output: &mut [F]) {
        let (width, inner) = (self.width, self.states);
        let rows_count = output.len() / width;
        F::small_product(SmallProduct::new((rows, width, 1), matrix, output, [rows_count, inner, width]));
    }

    /// Adds M of step t times some numbers, which are padded like M, to an N × N table.
    pub fn add_weighted(&self, t: usize, number: impl Fn(usize) -> f64, table: &mut [F]) {
        let matrix = self.matrix(t);
        for (i, row) in table.chunks_exact_mut(self.states).enumerate() {
            for (j, out) in row.iter_mut().enumerate() {
                let at = i * self.width + j;
                *out += F::from_f64(number(at) * matrix[at].to_f64());
            }
        }
    }
}
