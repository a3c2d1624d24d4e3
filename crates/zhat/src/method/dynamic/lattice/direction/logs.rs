//! Log-transitions as directions of products.

use crate::method::dynamic::lattice::entries::{Entries, Index};
use crate::method::dynamic::lattice::nodes::{Edges, add};
use crate::method::dynamic::lattice::steps::Steps;
use crate::numeric::Real;
use crate::run::Clock;

/// The sum of factor · ln M over the lattices; entries without a transition count as 0.
pub(super) struct Logs<'a, F: Real> {
    pub(super) parts: Vec<(F, &'a Edges<'a, F>, &'a dyn Steps<F>)>,
    pub(super) clock: &'a Clock<'a>,
}

impl<F: Real> Entries<F> for Logs<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.parts[0].2.shape(t)
    }

    fn shared(&self) -> bool {
        self.parts.iter().all(|part| part.2.shared())
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        // The row of a sparse table may have no entries.
        if out.is_empty() {
            return;
        }
        let mut buffer = Vec::new();
        for (k, (factor, edges, steps)) in self.parts.iter().enumerate() {
            let target = if k == 0 {
                &mut *out
            } else {
                buffer.resize(out.len(), F::ZERO);
                &mut buffer
            };
            edges.fill(t, rows.clone(), columns.clone(), target);
            let (row_shifts, column_shifts) = (steps.row_shifts(t), steps.column_shifts(t));
            let some: Vec<F>;
            let column_shifts = match &columns {
                Index::Range(range) => &column_shifts[range.clone()],
                Index::List(list) => {
                    some = list.iter().map(|&j| column_shifts[j as usize]).collect();
                    &some
                }
            };
            for (r, row) in target.chunks_exact_mut(columns.len()).enumerate() {
                let row_shift = row_shifts[rows.at(r)];
                for (x, &column_shift) in row.iter_mut().zip(column_shifts) {
                    let zero = *x == F::NEG_INFINITY;
                    *x = if zero { F::ZERO } else { *factor * (*x - row_shift - column_shift) };
                }
            }
            if k > 0 {
                add(out, &buffer);
            }
        }
    }

    fn must_stop(&self) -> bool {
        self.clock.must_stop()
    }
}

/// exp(ln M_p − ln M_q): turns products with M_q into products with M_p.
pub(super) struct Quotient<'a, F: Real>(pub Logs<'a, F>);

impl<F: Real> Entries<F> for Quotient<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.0.shape(t)
    }

    fn shared(&self) -> bool {
        self.0.shared()
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        self.0.fill(t, rows.clone(), columns.clone(), out);
        F::exp_in_place(out);
        // The logarithms count missing transitions of p as 0.
        let mut own = vec![F::ZERO; out.len()];
        self.0.parts[0].1.fill(t, rows, columns, &mut own);
        for (x, &log) in out.iter_mut().zip(&own) {
            *x = if log == F::NEG_INFINITY { F::ZERO } else { *x };
        }
    }

    fn must_stop(&self) -> bool {
        self.0.must_stop()
    }
}
