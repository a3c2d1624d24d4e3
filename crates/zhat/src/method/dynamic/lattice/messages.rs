//! Forward and backward messages of a batch.
//!
//! With the shifts of the transitions added to the nodes, Fₜ(j) = scores + columnₜ₋₁(j) + rowₜ(j), layer t
//! has
//!
//!   forward  la₀ = F₀,       laₜ₊₁(j) = ln Σᵢ exp(laₜ(i)) Mₜ(i, j) + Fₜ₊₁(j)
//!   backward lb_{T−1} = 0,   lbₜ(i) = ln Σⱼ Mₜ(i, j) exp(Fₜ₊₁(j) + lbₜ₊₁(j)).
//!
//! Messages are stored as logarithms relative to a scale in double precision. They are exponentiated, with
//! largest entry 1, only for products with M. An entry of a product may have lost up to N·TINY to underflow;
//! if that is not negligible, it is recomputed from the logarithms. If all boundaries share one matrix, step
//! s of the forward sweep and step s of the backward sweep, counted from the end of each sequence, are
//! computed in a single pass over the matrix. Semi-Markov chains use the same steps; they differ in how a
//! position is left and entered (`segments`).
//!
//! Time O(B·T·N²). Memory: two rows of N numbers per position, or for only √T positions with checkpoints
//! (`windows`).

use std::ops::Range;
use std::sync::OnceLock;

use crate::numeric::parallel::prelude::*;

use super::buffers::Buffers;
use super::layout::{Layout, PositionRows, Rows};
use super::long;
use super::nodes::{Edges, Nodes, add};
use super::segments::SegmentLayers;
use super::steps::{Product, Steps};
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

/// Arrays with fewer numbers than this are processed by one thread.
pub(super) const PARALLEL: usize = 1 << 15;

/// Layers of states with their scores, and the transitions between them: a chain, or with `segments` a
/// semi-Markov chain.
pub struct Lattice<'a, F: Real> {
    /// Layout of the states in which a segment may end at each position.
    pub layout: Layout,
    pub nodes: &'a dyn Nodes<F>,
    pub steps: &'a dyn Steps<F>,
    pub edges: Edges<'a, F>,
    /// The segments of a semi-Markov chain. In a chain, each segment has one position and its scores are
    /// `nodes`.
    pub segments: Option<SegmentLayers<'a, F>>,
    /// rowₜ + columnₜ₋₁ for positions inside a sequence: one row for each t ≥ 1, or one row for all.
    inner_shifts: Vec<Vec<F>>,
    /// start + row₀ for the first position of sequences longer than one.
    first_shifts: Vec<F>,
    /// The smallest finite ln Mₜ(i, j), computed on first use.
    pub(super) least: Vec<OnceLock<f64>>,
}

/// The messages of a window of layers.
pub struct Messages<F> {
    /// The layers whose nodes, and whose boundaries to the next layer, belong to this window. The rows
    /// include one more layer if it exists.
    pub window: Range<usize>,
    /// la. For segments: the log weights of all prefixes that end at t (`left`) and of all that enter a
    /// segment starting at t (`entered`).
    pub forward: PositionRows<F>,
    /// lb. For segments: the log weights of all continuations after leaving t (`left`) and from the start of
    /// a segment at t (`entered`).
    pub backward: PositionRows<F>,
    /// log Σᵢ exp(laₜ(i) + lbₜ(i)) for each position and place; for segments log Z, relative to both scales.
    pub(super) norms: Vec<Vec<f64>>,
    /// log Z of each sequence, in the order of the batch.
    pub log_partition: Vec<f64>,
}

impl<'a, F: Real> Lattice<'a, F> {
    pub fn new(
        lengths: &[usize],
        nodes: &'a dyn Nodes<F>,
        steps: &'a dyn Steps<F>,
        edges: Edges<'a, F>,
    ) -> Self {
        Lattice::with_layout(Layout::new(lengths, |t| nodes.states(t)), nodes, None, steps, edges)
    }

    pub(super) fn with_layout(
        layout: Layout,
        nodes: &'a dyn Nodes<F>,
        segments: Option<SegmentLayers<'a, F>>,
        steps: &'a dyn Steps<F>,
        edges: Edges<'a, F>,
    ) -> Self {
        let boundaries = layout.steps().saturating_sub(1);
        let inner = match (boundaries, steps.shared()) {
            (0 | 1, _) => 0,
            (_, true) => 1,
            (_, false) => boundaries - 1,
        };
        let inner_shifts = (0..inner)
            .map(|t| {
                let sum = steps.column_shifts(t).iter().zip(steps.row_shifts(t + 1));
                sum.map(|(&column, &row)| column + row).collect()
            })
            .collect();
        let mut first_shifts = nodes.start().to_vec();
        if boundaries > 0 {
            first_shifts.resize(steps.row_shifts(0).len(), F::ZERO);
            add(&mut first_shifts, steps.row_shifts(0));
        }
        let tables = if steps.shared() { boundaries.min(1) } else { boundaries };
        let least = (0..tables).map(|_| OnceLock::new()).collect();
        Lattice { layout, nodes, steps, edges, segments, inner_shifts, first_shifts, least }
    }

    /// Adds Fₜ of the sequence at a place.
    pub fn add_node(&self, place: usize, t: usize, row: &mut [F]) {
        let (scores, shifts) = self.node(place, t);
        add(row, scores);
        add(row, shifts);
    }

    /// Adds Fₜ to some numbers of a row, of which the first is that of state `at`.
    fn add_node_at(&self, place: usize, t: usize, at: usize, piece: &mut [F]) {
        let (scores, shifts) = self.node(place, t);
        let len = piece.len();
        add(piece, long::beside(scores, at, len));
        add(piece, long::beside(shifts, at, len));
    }

    /// Adds Fₜ and subtracts the maximum if it is finite, which is returned (otherwise 0).
    fn add_node_normalised(&self, place: usize, t: usize, row: &mut [F]) -> f64 {
        let largest = long::largest_of_pieces(row, |at, piece| {
            self.add_node_at(place, t, at, piece);
            F::max(piece)
        });
        long::lower_by(row, largest)
    }

    /// Fₜ of the sequence at a place as the sum of two rows: the scores, and the shifts of the position.
    /// Either may be empty.
    pub(super) fn node(&self, place: usize, t: usize) -> (&[F], &[F]) {
        let shifts = self.shifts(t, t + 1 == self.layout.length(place));
        (self.nodes.scores(self.layout.sequence(place), t), shifts)
    }

    /// The shifts of position t, for sequences that end there (`last`) or continue.
    pub(super) fn shifts(&self, t: usize, last: bool) -> &[F] {
        match (t, last) {
            (0, true) => self.nodes.start(),
            (0, false) => &self.first_shifts,
            (_, true) => self.steps.column_shifts(t - 1),
            (_, false) => &self.inner_shifts[if self.steps.shared() { 0 } else { t - 1 }],
        }
    }

    /// Writes wₜ = Fₜ + lbₜ, the log weight of entering each state at t, relative to the returned scale.
    pub fn entering(&self, messages: &Messages<F>, place: usize, t: usize, row: &mut [F]) -> f64 {
        if let Some(entering) = &messages.backward.entered {
            row.copy_from_slice(entering.row(place, t));
            return entering.scale(place, t);
        }
        row.copy_from_slice(messages.backward.row(place, t));
        self.add_node(place, t, row);
        messages.backward.scale(place, t)
    }

    /// All messages. Sequences with Z = 0 have log Z = −∞, and their messages are invalid.
    pub fn sweep(&self, clock: &Clock<'_>) -> Result<Messages<F>> {
        let steps = self.layout.steps();
        let mut forward = self.forward_rows(None, &(0..steps));
        let mut backward = self.backward_rows(None, &(0..steps));
        self.start(&mut forward);
        if self.steps.shared() {
            let mut buffers = Buffers::new(&self.layout);
            self.enter_backward(|place| self.layout.length(place) - 1, self.layout.batch(), &mut backward);
            for s in 0..steps.saturating_sub(1) {
                clock.step("messages", s, steps)?;
                self.step_both(s, &mut forward, &mut backward, &mut buffers, clock);
            }
        } else {
            self.forward(&mut forward, 0..steps, clock)?;
            self.backward(&mut backward, 0..steps, clock)?;
        }
        clock.check()?;
        let log_partition = self.log_partition(&forward.left);
        Ok(self.finish(0..steps, forward, backward, log_partition))
    }

    /// The forward messages and log Z.
    pub fn sweep_forward(&self, clock: &Clock<'_>) -> Result<(PositionRows<F>, Vec<f64>)> {
        let forward = self.forward_window(None, 0..self.layout.steps(), clock)?;
        let log_partition = self.log_partition(&forward.left);
        Ok((forward, log_partition))
    }

    /// The backward messages.
    pub fn sweep_backward(&self, clock: &Clock<'_>) -> Result<PositionRows<F>> {
        let steps = self.layout.steps();
        let mut backward = self.backward_rows(None, &(0..steps));
        self.backward(&mut backward, 0..steps, clock)?;
        Ok(backward)
    }

    pub(super) fn finish(
        &self,
        window: Range<usize>,
        forward: PositionRows<F>,
        backward: PositionRows<F>,
        log_partition: Vec<f64>,
    ) -> Messages<F> {
        let norms = |t: usize| -> Vec<f64> {
            let active = self.layout.active(t);
            if self.segments.is_some() {
                let relative = |place: usize| {
                    let log_z = log_partition[self.layout.sequence(place)];
                    log_z - forward.scale(place, t) - backward.scale(place, t)
                };
                return (0..active).map(relative).collect();
            }
            let norm = |place: usize, scratch: &mut Vec<F>| {
                scratch.clear();
                scratch.extend_from_slice(forward.row(place, t));
                add(scratch, backward.row(place, t));
                F::log_sum_exp(scratch)
            };
            if active > 1 && active * self.layout.size(t) >= PARALLEL {
                let places = (0..active).into_par_iter();
                places.map_init(Vec::new, |scratch, place| norm(place, scratch)).collect()
            } else {
                let mut scratch = Vec::new();
                (0..active).map(|place| norm(place, &mut scratch)).collect()
            }
        };
        let norms = match window.len() * self.layout.largest() >= PARALLEL && self.layout.batch() == 1 {
            true => window.clone().into_par_iter().map(norms).collect(),
            false => window.clone().map(norms).collect(),
        };
        Messages { window, forward, backward, norms, log_partition }
    }

    /// log Z of each sequence, from the messages at its end.
    fn log_partition(&self, forward: &Rows<F>) -> Vec<f64> {
        let end = |b: usize| {
            let place = self.layout.place(b);
            let t = self.layout.length(place) - 1;
            total(forward.row(place, t), forward.scale(place, t))
        };
        (0..self.layout.batch()).map(end).collect()
    }

    /// la₀.
    pub(super) fn start(&self, forward: &mut PositionRows<F>) {
        if self.segments.is_some() {
            return self.leave_segments(0, forward);
        }
        let (rows, scales) = forward.left.layer_mut(0, self.layout.active(0));
        each_row(rows, scales, self.layout.size(0), |place, row, scale| {
            row.fill(F::ZERO);
            *scale = self.add_node_normalised(place, 0, row);
        });
    }

    /// Forward messages over a window, aligned at the start of the sequences. The first layer is given. Also
    /// fills the row for entering the position after the window, for sequences that continue.
    pub(super) fn forward(
        &self,
        forward: &mut PositionRows<F>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let mut buffers = Buffers::new(&self.layout);
        for t in window.start..window.end.min(self.layout.steps().saturating_sub(1)) {
            clock.step("forward messages", t, self.layout.steps())?;
            let count = self.layout.active(t + 1);
            let (before, after) = self.steps.shape(t);
            let (input, output, scales) = buffers.one(count * before, count * after, count);
            self.leave(t, &forward.left, input);
            self.steps.multiply(Some(Product { t, count, input, output }), None);
            self.arrive(t, forward, output, scales, clock);
            if t + 1 < window.end {
                self.leave_segments(t + 1, forward);
            }
        }
        clock.check()
    }

    /// Backward messages over a window, aligned at the start of the sequences. The rows after the window are
    /// given.
    pub(super) fn backward(
        &self,
        backward: &mut PositionRows<F>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let mut buffers = Buffers::new(&self.layout);
        for t in window.rev() {
            let count = self.layout.active(t + 1);
            if count > 0 {
                clock.step("backward messages", self.layout.steps() - 1 - t, self.layout.steps())?;
                let (before, after) = self.steps.shape(t);
                let (input, output, scales) = buffers.one(count * after, count * before, count);
                self.leave_backward(|_| t, backward, input, scales);
                self.steps.multiply(None, Some(Product { t, count, input, output }));
                self.arrive_backward(|_| t, backward, output, scales, clock);
            }
            self.enter_backward(|_| t, self.layout.active(t), backward);
        }
        clock.check()
    }

    /// Step s of both directions. The backward step is counted from the end of each sequence.
    fn step_both(
        &self,
        s: usize,
        forward: &mut PositionRows<F>,
        backward: &mut PositionRows<F>,
        buffers: &mut Buffers<F>,
        clock: &Clock<'_>,
    ) {
        let (count, size) = (self.layout.active(s + 1), self.layout.size(s));
        let t_backward = |place: usize| self.layout.length(place) - 2 - s;
        let buffers = buffers.both(count * size, count);
        self.leave(s, &forward.left, buffers.forward_input);
        self.leave_backward(t_backward, backward, buffers.backward_input, buffers.backward_scales);
        let ahead =
            Product { t: s, count, input: buffers.forward_input, output: &mut *buffers.forward_output };
        let back =
            Product { t: s, count, input: buffers.backward_input, output: &mut *buffers.backward_output };
        self.steps.multiply(Some(ahead), Some(back));
        self.arrive(s, forward, buffers.forward_output, buffers.forward_scales, clock);
        self.leave_segments(s + 1, forward);
        self.arrive_backward(t_backward, backward, buffers.backward_output, buffers.backward_scales, clock);
        self.enter_backward(t_backward, count, backward);
    }

    /// input ← exp laₜ of the sequences that continue.
    pub(super) fn leave(&self, t: usize, forward: &Rows<F>, input: &mut [F]) {
        each(input, self.layout.size(t), |place, row| {
            let from = forward.row(place, t);
            long::each_piece(row, |at, piece| {
                piece.copy_from_slice(&from[at..at + piece.len()]);
                F::exp_in_place(piece);
            });
        });
    }

    /// laₜ₊₁ from the product; for segments, the row for entering position t + 1.
    fn arrive(
        &self,
        t: usize,
        forward: &mut PositionRows<F>,
        output: &mut [F],
        scales: &mut [f64],
        clock: &Clock<'_>,
    ) {
        let size = self.steps.shape(t).1;
        let left = &forward.left;
        each_row(output, scales, size, |place, row, scale| {
            self.log_sums(t, place, left.row(place, t), row, clock);
            let shift = match self.segments {
                None => self.add_node_normalised(place, t + 1, row),
                Some(_) => {
                    add(row, self.steps.column_shifts(t));
                    normalise(row)
                }
            };
            *scale = left.scale(place, t) + shift;
        });
        let entered = forward.entered_mut();
        for (place, row) in output.chunks_exact(size).enumerate() {
            long::copy(entered.row_mut(place, t + 1), row);
            entered.set_scale(place, t + 1, scales[place]);
        }
    }

    /// input ← exp wₜ₊₁ with largest entry 1, where t is the boundary of each place. `scales` receives the
    /// scales of w.
    fn leave_backward(
        &self,
        t: impl Fn(usize) -> usize + Sync,
        backward: &PositionRows<F>,
        input: &mut [F],
        scales: &mut [f64],
    ) {
        let size = input.len() / scales.len().max(1);
        each_row(input, scales, size, |place, row, scale| {
            let after = t(place) + 1;
            *scale = self.enter(place, after, backward, row);
            long::exp_in_place(row);
        });
    }

    /// row ← wₜ with largest entry 0; returns its scale. For segments, the row is already stored.
    pub(super) fn enter(&self, place: usize, t: usize, backward: &PositionRows<F>, row: &mut [F]) -> f64 {
        let rows = backward.entered();
        long::copy(row, rows.row(place, t));
        if self.segments.is_some() {
            return rows.scale(place, t);
        }
        rows.scale(place, t) + self.add_node_normalised(place, t, row)
    }

    /// lbₜ from the product.
    fn arrive_backward(
        &self,
        t: impl Fn(usize) -> usize + Sync,
        backward: &mut PositionRows<F>,
        output: &mut [F],
        scales: &[f64],
        clock: &Clock<'_>,
    ) {
        let size = output.len() / scales.len().max(1);
        each(output, size, |place, row| {
            let t = t(place);
            self.log_sums_backward(t, place, row, clock, || {
                let mut after = vec![F::ZERO; self.steps.shape(t).1];
                self.enter(place, t + 1, backward, &mut after);
                after
            });
        });
        for (place, row) in output.chunks_exact(size).enumerate() {
            long::copy(backward.left.row_mut(place, t(place)), row);
            backward.left.set_scale(place, t(place), scales[place]);
        }
    }
}

impl<F: Real> Messages<F> {
    /// log Σᵢ exp(laₜ(i) + lbₜ(i)).
    pub fn norm(&self, place: usize, t: usize) -> f64 {
        self.norms[t - self.window.start][place]
    }
}

/// Subtracts the maximum if it is finite, and returns it (otherwise 0).
pub(crate) fn normalise<F: Real>(row: &mut [F]) -> f64 {
    let shift = F::max(row);
    if shift == F::NEG_INFINITY {
        return 0.0;
    }
    F::lower(row, shift);
    shift.to_f64()
}

/// log Σ exp of a row with its scale.
pub(super) fn total<F: Real>(row: &[F], scale: f64) -> f64 {
    scale + F::log_sum_exp(row)
}

/// Calls `work` on each row of `size` numbers, in parallel if there are enough rows.
pub(crate) fn each<F: Real>(rows: &mut [F], size: usize, work: impl Fn(usize, &mut [F]) + Sync) {
    if rows.len() >= PARALLEL && rows.len() > size {
        rows.par_chunks_exact_mut(size).enumerate().for_each(|(place, row)| work(place, row));
    } else {
        rows.chunks_exact_mut(size).enumerate().for_each(|(place, row)| work(place, row));
    }
}

/// The same, with one scale per row.
pub(crate) fn each_row<F: Real>(
    rows: &mut [F],
    scales: &mut [f64],
    size: usize,
    work: impl Fn(usize, &mut [F], &mut f64) + Sync,
) {
    if rows.len() >= PARALLEL && rows.len() > size {
        let rows = rows.par_chunks_exact_mut(size).zip(scales.par_iter_mut()).enumerate();
        rows.for_each(|(place, (row, scale))| work(place, row, scale));
    } else {
        let rows = rows.chunks_exact_mut(size).zip(scales).enumerate();
        rows.for_each(|(place, (row, scale))| work(place, row, scale));
    }
}
