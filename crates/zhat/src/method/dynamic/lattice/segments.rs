//! Messages on semi-Markov chains.
//!
//! A segment of state j from s to t weighs exp(score(s, t, j)), its emissions and its own score. With
//!
//!   inₛ(j), what leads into a segment that starts at s (in₀ = 0),  outₜ(j) = Σₛ inₛ(j) exp score(s, t, j),  inₜ₊₁ = outₜ·Mₜ,
//!
//! and the same backward, a position has two messages in each direction; the product with M is that of a chain. Sums over segments are
//! taken in the log domain in double precision. Rows and columns of the transitions' shifts are folded into out and in. A chain is the
//! case of segments of one position.
//!
//! Time O(B·T·(N² + L·N)), memory four rows of N for every position, or of √(T·L) positions with checkpoints.

use std::ops::Range;

use super::layout::{Layout, Rows};
use super::messages::{Lattice, Messages, each, each_row, normalise};
use super::nodes::{Edges, Nodes, add};
use super::steps::{Product, Steps};
use crate::error::Result;
use crate::model::SemiMarkov;
use crate::numeric::{self, Real};
use crate::run::Clock;

/// The scores of segments. The states that a segment can be left in, and entered in, are counted separately: a selection of states
/// may keep more of the latter.
pub(crate) trait Segmented<F: Real>: Sync {
    /// The number of states that are left at t.
    fn states_left(&self, t: usize) -> usize;

    /// The number of states that are entered at t.
    fn states_entered(&self, t: usize) -> usize {
        self.states_left(t)
    }

    /// L: no segment is longer.
    fn longest(&self) -> usize;

    /// For every state left at t its number among the states entered at s; `None` if they are the same.
    fn origins(&self, _s: usize, _t: usize) -> Option<&[u32]> {
        None
    }

    /// Calls `visit` with every start s ≤ t, the nearest first, and the scores of the segments s…t of sequence b for each state left
    /// at t, with the start scores where s = 0.
    fn ending(&self, b: usize, t: usize, visit: &mut dyn FnMut(usize, &[f64]));

    /// Calls `visit` with every end t ≥ s below `length`, the nearest first, and the same scores.
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
            sums.iter_mut().zip(chain.emission(b, s)).for_each(|(x, y)| *x += y.to_f64());
            self.visit(b, s, t, &sums, &mut total);
            visit(s, &total);
        }
    }

    fn starting(&self, b: usize, s: usize, length: usize, visit: &mut dyn FnMut(usize, &[f64])) {
        let chain = self.0.chain();
        let (mut sums, mut total) = (vec![0.0; chain.states()], Vec::new());
        for t in s..length.min(s + self.0.longest()) {
            sums.iter_mut().zip(chain.emission(b, t)).for_each(|(x, y)| *x += y.to_f64());
            self.visit(b, s, t, &sums, &mut total);
            visit(t, &total);
        }
    }
}

/// Positions without scores: those of segments come in otherwise.
pub(crate) struct SegmentNodes<'a, F: Real>(pub &'a dyn Segmented<F>);

impl<F: Real> Nodes<F> for SegmentNodes<'_, F> {
    fn states(&self, t: usize) -> usize {
        self.0.states_left(t)
    }

    fn scores(&self, _: usize, _: usize) -> &[F] {
        &[]
    }
}

/// A lattice of segments: `base` has the transitions between what is left and what is entered.
pub(crate) struct SegmentLattice<'a, F: Real> {
    pub base: Lattice<'a, F>,
    pub segments: &'a dyn Segmented<F>,
    /// The rows of what is entered.
    pub entered: Layout,
}

impl<'a, F: Real> SegmentLattice<'a, F> {
    pub fn new(
        lengths: &[usize],
        segments: &'a dyn Segmented<F>,
        nodes: &'a SegmentNodes<'a, F>,
        steps: &'a dyn Steps<F>,
        edges: Edges<'a, F>,
    ) -> Self {
        let entered = Layout::new(lengths, |t| segments.states_entered(t));
        SegmentLattice { base: Lattice::new(lengths, nodes, steps, edges), segments, entered }
    }

    /// rowₜ where the sequence goes on after t.
    pub(super) fn add_row_shift(&self, place: usize, t: usize, row: &mut [f64]) {
        if t + 1 < self.base.layout.length(place) {
            row.iter_mut().zip(self.base.steps.row_shifts(t)).for_each(|(x, y)| *x += y.to_f64());
        }
    }

    /// All messages. Sequences without a weight have log Z = −∞ and messages without meaning.
    pub fn sweep(&self, clock: &Clock<'_>) -> Result<Messages<F>> {
        let layout = &self.base.layout;
        let steps = layout.steps();
        let mut forward = Rows::new(layout, 0..steps, F::ZERO);
        let mut backward = Rows::new(layout, 0..steps, F::ZERO);
        let mut entered = Rows::new(&self.entered, 0..steps, F::ZERO);
        let mut entering = Rows::new(&self.entered, 0..steps, F::ZERO);
        self.leave_forward(0, &mut forward, &entered);
        let shared = self.base.steps.shared();
        for s in 0..steps.saturating_sub(1) {
            clock.step("messages", s, steps)?;
            let t = if shared { s } else { steps - 2 - s };
            let count = layout.active(s + 1);
            let (size, next) = self.base.steps.shape(s);
            let mut input = vec![F::ZERO; count * size];
            let mut output = vec![F::ZERO; count * next];
            self.base.leave(s, &forward, &mut input);
            let ahead = Product { t: s, count, input: &input, output: &mut output };
            // Backward, step s is counted from each sequence's end where all steps are the same.
            let at = |place: usize| if shared { layout.length(place) - 2 - s } else { t };
            let back_count = if shared { count } else { layout.active(t + 1) };
            let (back_size, back_next) = self.base.steps.shape(t);
            let mut back_input = vec![F::ZERO; back_count * back_next];
            let mut back_output = vec![F::ZERO; back_count * back_size];
            self.enter_backward(&at, &backward, &mut entering, &mut back_input);
            let back = Product { t, count: back_count, input: &back_input, output: &mut back_output };
            if shared {
                self.base.steps.multiply(Some(ahead), Some(back));
            } else {
                self.base.steps.multiply(Some(ahead), None);
                self.base.steps.multiply(None, Some(back));
            }
            self.enter_forward(s, &forward, &mut entered, &mut output, clock);
            self.leave_forward(s + 1, &mut forward, &entered);
            self.leave_backward(&at, &mut backward, &entering, &mut back_output, clock);
        }
        if steps > 0 {
            self.follow_all(0, &backward, &mut entering);
        }
        clock.check()?;
        let log_partition: Vec<f64> = (0..layout.batch())
            .map(|b| {
                let place = layout.place(b);
                let t = layout.length(place) - 1;
                forward.scale(place, t) + F::log_sum_exp(forward.row(place, t))
            })
            .collect();
        Ok(self.finish(0..steps, [forward, backward, entered, entering], log_partition))
    }

    /// The messages of a window: out of its positions, what follows from there, into them, and what follows from that.
    pub(super) fn finish(
        &self,
        window: Range<usize>,
        [forward, backward, entered, entering]: [Rows<F>; 4],
        log_partition: Vec<f64>,
    ) -> Messages<F> {
        let layout = &self.base.layout;
        let norm = |place: usize, t: usize| {
            let log_z = log_partition[layout.sequence(place)];
            log_z - forward.scale(place, t) - backward.scale(place, t)
        };
        let of_layer = |t: usize| (0..layout.active(t)).map(|place| norm(place, t)).collect();
        let norms = window.clone().map(of_layer).collect();
        let (entered, entering) = (Some(entered), Some(entering));
        Messages { window, forward, backward, entered, entering, norms, log_partition }
    }

    /// outₜ of all places.
    pub(super) fn leave_forward(&self, t: usize, forward: &mut Rows<F>, entered: &Rows<F>) {
        let (rows, scales) = forward.layer_mut(t, self.base.layout.active(t));
        each_row(rows, scales, self.base.layout.size(t), |place, row, scale| {
            let reference = entered.scale(place, t);
            let mut terms = Vec::new();
            self.each_ending(place, t, |s, scores| {
                let shift = entered.scale(place, s) - reference;
                let origins = self.segments.origins(s, t);
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

    /// Calls `visit` with every segment that ends at t.
    pub fn each_ending(&self, place: usize, t: usize, mut visit: impl FnMut(usize, &[f64])) {
        self.segments.ending(self.base.layout.sequence(place), t, &mut visit);
    }

    /// Calls `visit` with every segment that starts at s.
    pub fn each_starting(&self, place: usize, s: usize, mut visit: impl FnMut(usize, &[f64])) {
        let layout = &self.base.layout;
        self.segments.starting(layout.sequence(place), s, layout.length(place), &mut visit);
    }

    /// inₜ₊₁ from the product.
    pub(super) fn enter_forward(
        &self,
        t: usize,
        forward: &Rows<F>,
        entered: &mut Rows<F>,
        output: &mut [F],
        clock: &Clock<'_>,
    ) {
        let size = self.base.steps.shape(t).1;
        let mut scales = vec![0.0; output.len() / size];
        each_row(output, &mut scales, size, |place, row, scale| {
            self.base.log_sums(t, place, forward.row(place, t), row, clock);
            add(row, self.base.steps.column_shifts(t));
            *scale = forward.scale(place, t) + normalise(row);
        });
        entered.set_layer(t + 1, output);
        scales.iter().enumerate().for_each(|(place, &scale)| entered.set_scale(place, t + 1, scale));
    }

    /// The log weight of what follows from entering each state at s, with the shift of the transitions into s; relative to the scale.
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
            match self.segments.origins(s, t) {
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
            sums.iter_mut().zip(self.base.steps.column_shifts(s - 1)).for_each(|(x, y)| *x += y.to_f64());
        }
        reference + rounded(&sums, row)
    }

    /// What follows from entering position s, for all places.
    pub(super) fn follow_all(&self, s: usize, backward: &Rows<F>, entering: &mut Rows<F>) {
        let (rows, scales) = entering.layer_mut(s, self.entered.active(s));
        each_row(rows, scales, self.entered.size(s), |place, row, scale| {
            *scale = self.follow(place, s, backward, row);
        });
    }

    /// What follows from entering position t + 1, with t the boundary of each place; kept, and exponentiated for the product.
    fn enter_backward(
        &self,
        t: &(impl Fn(usize) -> usize + Sync),
        backward: &Rows<F>,
        entering: &mut Rows<F>,
        input: &mut [F],
    ) {
        let count = if input.is_empty() { 0 } else { input.len() / self.base.steps.shape(t(0)).1 };
        let mut scales = vec![0.0; count];
        each_row(input, &mut scales, self.base.steps.shape(t(0)).1, |place, row, scale| {
            *scale = self.follow(place, t(place) + 1, backward, row);
        });
        let size = input.len() / count.max(1);
        for (place, &scale) in scales.iter().enumerate() {
            entering.row_mut(place, t(place) + 1).copy_from_slice(&input[place * size..][..size]);
            entering.set_scale(place, t(place) + 1, scale);
        }
        each(input, size, |_, row| F::exp_in_place(row));
    }

    /// What follows from leaving position t, from the product.
    pub(super) fn leave_backward(
        &self,
        t: &(impl Fn(usize) -> usize + Sync),
        backward: &mut Rows<F>,
        entering: &Rows<F>,
        output: &mut [F],
        clock: &Clock<'_>,
    ) {
        let size = self.base.steps.shape(t(0)).0;
        each(output, size, |place, row| {
            let t = t(place);
            self.base.log_sums_backward(t, place, row, clock, || entering.row(place, t + 1).to_vec());
        });
        for (place, row) in output.chunks_exact(size).enumerate() {
            backward.row_mut(place, t(place)).copy_from_slice(row);
            backward.set_scale(place, t(place), entering.scale(place, t(place) + 1));
        }
    }

    /// Calls `visit` with every end t, P(a segment of state k from s to t) and its logarithm, of sequence b, which must have a weight.
    pub fn segment_marginals(
        &self,
        messages: &Messages<F>,
        b: usize,
        s: usize,
        mut visit: impl FnMut(usize, &[f64], &[f64]),
    ) {
        let place = self.base.layout.place(b);
        let Some(entered) = &messages.entered else { return };
        let (from, log_z) = (entered.row(place, s), messages.log_partition[b]);
        let (mut logs, mut marginals) = (Vec::new(), Vec::new());
        self.each_starting(place, s, |t, scores| {
            let origins = self.segments.origins(s, t);
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

/// The number among those entered of state k among those left.
pub(super) fn origin(origins: Option<&[u32]>, k: usize) -> usize {
    origins.map_or(k, |origins| origins[k] as usize)
}

/// row ← logs − their maximum, which is returned: 0 where it is not finite.
fn rounded<F: Real>(logs: &[f64], row: &mut [F]) -> f64 {
    let shift = numeric::max(logs);
    let shift = if shift == f64::NEG_INFINITY { 0.0 } else { shift };
    row.iter_mut().zip(logs).for_each(|(x, &log)| *x = F::from_f64(log - shift));
    shift
}
