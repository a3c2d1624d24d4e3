//! Messages on semi-Markov chains.
//!
//! A segment of state j from s to t has weight exp(score(s, t, j)), where the score is the sum of its
//! emissions and the segment score. With
//!
//!   inₛ(j), the total weight that enters a segment starting at s (in₀ = 1),
//!   outₜ(j) = Σₛ inₛ(j) exp score(s, t, j),   inₜ₊₁ = outₜ·Mₜ,
//!
//! and the same backward, each position has two messages per direction; the product with M is the same as for
//! a chain. Sums over segments are computed in the log domain in double precision. The row and column shifts
//! of the transitions are added to out and in. A chain is the special case of segments of one position.
//!
//! Time O(B·T·(N² + L·N)). Memory: four rows of N numbers per position, or for only √(T·L) positions with
//! checkpoints.

use super::layout::{Layout, PositionRows, Rows};
use super::messages::{Lattice, Messages, each_row};
use super::nodes::{Edges, Nodes};
use super::steps::Steps;
use crate::model::SemiMarkov;
use crate::numeric::{self, Real};

/// The scores of segments. The states in which a segment can end and start are counted separately: under a
/// selection of states, more states are possible at the end.
pub(crate) trait Segmented<F: Real>: Sync {
    /// The number of states in which a segment can end at t.
    fn states_left(&self, t: usize) -> usize;

    /// The number of states in which a segment can start at t.
    fn states_entered(&self, t: usize) -> usize {
        self.states_left(t)
    }

    /// L, the maximum length of a segment.
    fn longest(&self) -> usize;

    /// For each state left at t, its index among the states entered at s; `None` if they are the same.
    fn origins(&self, _s: usize, _t: usize) -> Option<&[u32]> {
        None
    }

    /// Calls `visit` with each start s ≤ t, nearest first, and with the scores of the segments s…t of
    /// sequence b for each state left at t; start scores are included if s = 0.
    fn ending(&self, b: usize, t: usize, visit: &mut dyn FnMut(usize, &[f64]));

    /// Calls `visit` with each end t ≥ s below `length`, nearest first, and with the same scores.
    fn starting(&self, b: usize, s: usize, length: usize, visit: &mut dyn FnMut(usize, &[f64]));
}

/// The segments of a semi-Markov chain.
pub(crate) struct SemiMarkovSegments<'a, F: Real>(pub &'a SemiMarkov<F>);

impl<F: Real> SemiMarkovSegments<'_, F> {
    fn visit(&self, b: usize, s: usize, t: usize, sums: &[f64], total: &mut Vec<f64>) {
        total.clear();
        let own = self.0.segment(b, s, t + 1 - s);
        total.extend(sums.iter().zip(own).map(|(x, y)| x + y.to_f64()));
        if s == 0 {
            total.iter_mut().zip(self.0.chain().start()).for_each(|(x, y)| *x += y.to_f64());
        }
    }
}

impl<F: Real> Segmented<F> for SemiMarkovSegments<'_, F> {
    fn longest(&self) -> usize {
        self.0.longest()
    }

    fn states_left(&self, _: usize) -> usize {
        self.0.chain().states()
    }

    fn ending(&self, b: usize, t: usize, visit: &mut dyn FnMut(usize, &[f64])) {
        let chain = self.0.chain();
        let (mut sums, mut total) = (vec![0.0; chain.states()], Vec::new());
        for s in ((t + 1).saturating_sub(self.0.longest())..=t).rev() {
            sums.iter_mut().zip(chain.node(b, s)).for_each(|(x, y)| *x += y.to_f64());
            self.visit(b, s, t, &sums, &mut total);
            visit(s, &total);
        }
    }

    fn starting(&self, b: usize, s: usize, length: usize, visit: &mut dyn FnMut(usize, &[f64])) {
        let chain = self.0.chain();
        let (mut sums, mut total) = (vec![0.0; chain.states()], Vec::new());
        for t in s..length.min(s + self.0.longest()) {
            sums.iter_mut().zip(chain.node(b, t)).for_each(|(x, y)| *x += y.to_f64());
            self.visit(b, s, t, &sums, &mut total);
            visit(t, &total);
        }
    }
}

/// The segments of a lattice.
pub(crate) struct SegmentLayers<'a, F: Real> {
    pub scores: &'a dyn Segmented<F>,
    /// Layout of the rows for entering.
    pub entered: Layout,
}

/// Positions without node scores, because the scores belong to segments.
struct NoNodes;

impl<F: Real> Nodes<F> for NoNodes {
    fn states(&self, _: usize) -> usize {
        0
    }

    fn scores(&self, _: usize, _: usize) -> &[F] {
        &[]
    }
}

impl<'a, F: Real> Lattice<'a, F> {
    /// The lattice of a semi-Markov chain. Transitions lead from states that are left to states that are
    /// entered.
    pub fn of_segments(
        lengths: &[usize],
        scores: &'a dyn Segmented<F>,
        steps: &'a dyn Steps<F>,
        edges: Edges<'a, F>,
    ) -> Self {
        let left = Layout::new(lengths, |t| scores.states_left(t));
        let entered = Layout::new(lengths, |t| scores.states_entered(t));
        Lattice::with_layout(left, &NoNodes, Some(SegmentLayers { scores, entered }), steps, edges)
    }

    /// L; 1 for a chain.
    pub fn longest(&self) -> usize {
        self.segments.as_ref().map_or(1, |segments| segments.scores.longest())
    }

    /// Layout of the rows for entering.
    pub fn entered(&self) -> &Layout {
        self.segments.as_ref().map_or(&self.layout, |segments| &segments.entered)
    }

    /// For state k among those left at t, its index among the states entered at s.
    pub fn origin(&self, s: usize, t: usize, k: usize) -> usize {
        origin(self.origins(s, t), k)
    }

    /// The same for all states; `None` if the states are the same.
    pub(super) fn origins(&self, s: usize, t: usize) -> Option<&[u32]> {
        self.segments.as_ref().and_then(|segments| segments.scores.origins(s, t))
    }

    /// Adds rowₜ if the sequence continues after t.
    pub(super) fn add_row_shift(&self, place: usize, t: usize, row: &mut [f64]) {
        if t + 1 < self.layout.length(place) {
            row.iter_mut().zip(self.steps.row_shifts(t)).for_each(|(x, y)| *x += y.to_f64());
        }
    }

    /// outₜ of all places from the states entered earlier. Does nothing for a chain.
    pub(super) fn leave_segments(&self, t: usize, forward: &mut PositionRows<F>) {
        let PositionRows { left, entered: Some(entered) } = forward else { return };
        let (rows, scales) = left.layer_mut(t, self.layout.active(t));
        each_row(rows, scales, self.layout.size(t), |place, row, scale| {
            let reference = entered.scale(place, t);
            let mut terms = Vec::new();
            self.each_ending(place, t, |s, scores| {
                let shift = entered.scale(place, s) - reference;
                let origins = self.origins(s, t);
                let from = entered.row(place, s);
                terms.extend(
                    scores.iter().enumerate().map(|(k, x)| x + from[origin(origins, k)].to_f64() + shift),
                );
            });
            let mut sums = vec![0.0; row.len()];
            numeric::log_sum_exp_over_slabs(&terms, &mut sums);
            self.add_row_shift(place, t, &mut sums);
            *scale = reference + rounded(&sums, row);
        });
    }

    /// Calls `visit` with each segment that ends at t.
    pub fn each_ending(&self, place: usize, t: usize, mut visit: impl FnMut(usize, &[f64])) {
        if let Some(segments) = &self.segments {
            segments.scores.ending(self.layout.sequence(place), t, &mut visit);
        }
    }

    /// Calls `visit` with each segment that starts at s.
    pub fn each_starting(&self, place: usize, s: usize, mut visit: impl FnMut(usize, &[f64])) {
        if let Some(segments) = &self.segments {
            let layout = &self.layout;
            segments.scores.starting(layout.sequence(place), s, layout.length(place), &mut visit);
        }
    }

    /// The log weight of all continuations from entering each state at s, including the shift of the
    /// transitions into s; relative to the returned scale.
    fn follow(&self, place: usize, s: usize, backward: &Rows<F>, row: &mut [F]) -> f64 {
        let reference = backward.scale(place, s);
        let size = row.len();
        let mut terms = Vec::new();
        self.each_starting(place, s, |t, scores| {
            let at = terms.len();
            let mut left = scores.to_vec();
            self.add_row_shift(place, t, &mut left);
            let shift = backward.scale(place, t) - reference;
            left.iter_mut().zip(backward.row(place, t)).for_each(|(x, y)| *x += y.to_f64() + shift);
            match self.origins(s, t) {
                None => terms.extend(left),
                Some(origins) => {
                    terms.resize(at + size, f64::NEG_INFINITY);
                    for (&o, x) in origins.iter().zip(left) {
                        let slot = &mut terms[at + o as usize];
                        *slot = numeric::log_sum_exp(&[*slot, x]);
                    }
                }
            }
        });
        let mut sums = vec![0.0; size];
        numeric::log_sum_exp_over_slabs(&terms, &mut sums);
        if s > 0 {
            sums.iter_mut().zip(self.steps.column_shifts(s - 1)).for_each(|(x, y)| *x += y.to_f64());
        }
        reference + rounded(&sums, row)
    }

    /// The weights of continuations from entering position t(place), for the first places. A chain adds its
    /// nodes elsewhere.
    pub(super) fn enter_backward(
        &self,
        t: impl Fn(usize) -> usize + Sync,
        count: usize,
        backward: &mut PositionRows<F>,
    ) {
        let PositionRows { left, entered: Some(entering) } = backward else { return };
        if count == 0 {
            return;
        }
        let size = self.entered().size(t(0));
        let (mut rows, mut scales) = (vec![F::ZERO; count * size], vec![0.0; count]);
        each_row(&mut rows, &mut scales, size, |place, row, scale| {
            *scale = self.follow(place, t(place), left, row);
        });
        for (place, row) in rows.chunks_exact(size).enumerate() {
            entering.row_mut(place, t(place)).copy_from_slice(row);
            entering.set_scale(place, t(place), scales[place]);
        }
    }

    /// Calls `visit` with each end t, with P(a segment of state k from s to t) and its logarithm, for
    /// sequence b, which must have Z > 0.
    pub fn segment_marginals(
        &self,
        messages: &Messages<F>,
        b: usize,
        s: usize,
        mut visit: impl FnMut(usize, &[f64], &[f64]),
    ) {
        let place = self.layout.place(b);
        let Some(entered) = &messages.forward.entered else { return };
        let (from, log_z) = (entered.row(place, s), messages.log_partition[b]);
        let (mut logs, mut marginals) = (Vec::new(), Vec::new());
        self.each_starting(place, s, |t, scores| {
            let origins = self.origins(s, t);
            let shift = entered.scale(place, s) + messages.backward.scale(place, t) - log_z;
            logs.clear();
            logs.extend_from_slice(scores);
            self.add_row_shift(place, t, &mut logs);
            for (k, (x, y)) in logs.iter_mut().zip(messages.backward.row(place, t)).enumerate() {
                *x += from[origin(origins, k)].to_f64() + y.to_f64() + shift;
            }
            marginals.clone_from(&logs);
            numeric::exp_in_place(&mut marginals);
            visit(t, &marginals, &logs);
        });
    }
}

/// The index among the states entered of state k among those left.
pub(super) fn origin(origins: Option<&[u32]>, k: usize) -> usize {
    origins.map_or(k, |origins| origins[k] as usize)
}

/// row ← logs − their maximum. Returns the maximum, or 0 if it is not finite.
pub(super) fn rounded<F: Real>(logs: &[f64], row: &mut [F]) -> f64 {
    let shift = numeric::max(logs);
    let shift = if shift == f64::NEG_INFINITY { 0.0 } else { shift };
    row.iter_mut().zip(logs).for_each(|(x, &log)| *x = F::from_f64(log - shift));
    shift
}
