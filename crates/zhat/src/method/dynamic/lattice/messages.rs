//! Forward and backward messages of a batch.
//!
//! With the shifts of the transitions folded into the nodes, Fₜ(j) = scores + columnₜ₋₁(j) + rowₜ(j), layer t has
//!
//!   forward  la₀ = F₀,       laₜ₊₁(j) = ln Σᵢ exp(laₜ(i)) Mₜ(i, j) + Fₜ₊₁(j)
//!   backward lb_{T−1} = 0,   lbₜ(i) = ln Σⱼ Mₜ(i, j) exp(Fₜ₊₁(j) + lbₜ₊₁(j)).
//!
//! Messages are kept as logarithms relative to a scale in double precision and are exponentiated, largest entry 1, only to be multiplied
//! with M. An entry of a product may have lost up to N·TINY to underflow: where that is not far below it, it is summed again
//! from the logarithms. Where all boundaries share one matrix, step s forward and step s backward, counted from each sequence's own end,
//! read it once together.
//!
//! Time O(B·T·N²), memory two rows of N for every position, or of √T positions with checkpoints.

use std::ops::Range;
use std::sync::OnceLock;

use rayon::prelude::*;

use super::buffers::Buffers;
use super::layout::{Layout, Rows};
use super::nodes::{Edges, Nodes, add};
use super::steps::{Product, Steps};
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

/// Rows of fewer numbers in all are not worth sharing out.
pub(super) const PARALLEL: usize = 1 << 15;

/// Layers of states, what stands on them and what leads from one to the next.
pub(crate) struct Lattice<'a, F: Real> {
    pub layout: Layout,
    pub nodes: &'a dyn Nodes<F>,
    pub steps: &'a dyn Steps<F>,
    pub edges: Edges<'a, F>,
    /// rowₜ + columnₜ₋₁ for positions inside a sequence: one for each t ≥ 1, or one for all.
    inner_shifts: Vec<Vec<F>>,
    /// start + row₀ for the first position of a sequence that goes on.
    first_shifts: Vec<F>,
    /// The least finite ln Mₜ(i, j), found when first asked for.
    pub(super) least: Vec<OnceLock<f64>>,
}

/// The messages of a window of layers.
pub(crate) struct Messages<F> {
    /// The layers whose nodes, and whose boundaries to the next layer, are this window's. The rows reach one layer further
    /// where there is one.
    pub window: Range<usize>,
    /// la.
    pub forward: Rows<F>,
    /// lb.
    pub backward: Rows<F>,
    /// Of segments: the log weight of what leads into a segment that starts at t.
    pub entered: Option<Rows<F>>,
    /// Of segments: the log weight of what follows from the start of a segment at t.
    pub entering: Option<Rows<F>>,
    /// log Σᵢ exp(laₜ(i) + lbₜ(i)) of each position and place; of segments log Z, relative to both scales.
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
        let layout = Layout::new(lengths, |t| nodes.states(t));
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
        Lattice { layout, nodes, steps, edges, inner_shifts, first_shifts, least }
    }

    /// Adds Fₜ of the sequence at a place.
    pub fn add_node(&self, place: usize, t: usize, row: &mut [F]) {
        let (scores, shifts) = self.node(place, t);
        add(row, scores);
        add(row, shifts);
    }

    /// Fₜ of the sequence at a place as a sum of two rows: the scores, and what goes with the position. Either may be empty.
    pub(super) fn node(&self, place: usize, t: usize) -> (&[F], &[F]) {
        let shifts = match (t, t + 1 == self.layout.length(place)) {
            (0, true) => self.nodes.start(),
            (0, false) => &self.first_shifts,
            (_, true) => self.steps.column_shifts(t - 1),
            (_, false) => &self.inner_shifts[if self.steps.shared() { 0 } else { t - 1 }],
        };
        (self.nodes.scores(self.layout.sequence(place), t), shifts)
    }

    /// Writes wₜ = Fₜ + lbₜ, the log weight of entering each state at t; it is relative to the scale returned.
    pub fn entering(&self, messages: &Messages<F>, place: usize, t: usize, row: &mut [F]) -> f64 {
        if let Some(entering) = &messages.entering {
            row.copy_from_slice(entering.row(place, t));
            return entering.scale(place, t);
        }
        row.copy_from_slice(messages.backward.row(place, t));
        self.add_node(place, t, row);
        messages.backward.scale(place, t)
    }

    /// All messages. Sequences without a weight have log Z = −∞ and messages without meaning.
    pub fn sweep(&self, clock: &Clock<'_>) -> Result<Messages<F>> {
        let steps = self.layout.steps();
        let mut forward = Rows::new(&self.layout, 0..steps, F::ZERO);
        let mut backward = Rows::new(&self.layout, 0..steps, F::ZERO);
        self.start(&mut forward);
        if self.steps.shared() {
            let mut buffers = Buffers::new(&self.layout);
            for s in 0..steps.saturating_sub(1) {
                clock.step("messages", s, steps)?;
                self.step_both(s, &mut forward, &mut backward, &mut buffers, clock);
            }
        } else {
            self.forward(&mut forward, 0..steps, clock)?;
            self.backward(&mut backward, 0..steps, clock)?;
        }
        clock.check()?;
        let log_partition = self.log_partition(&forward);
        Ok(self.finish(0..steps, forward, backward, log_partition))
    }

    /// The messages forward alone, as rows, and log Z.
    pub fn sweep_forward(&self, clock: &Clock<'_>) -> Result<(Rows<F>, Vec<f64>)> {
        let steps = self.layout.steps();
        let mut forward = Rows::new(&self.layout, 0..steps, F::ZERO);
        self.start(&mut forward);
        self.forward(&mut forward, 0..steps, clock)?;
        let log_partition = self.log_partition(&forward);
        Ok((forward, log_partition))
    }

    pub(super) fn finish(
        &self,
        window: Range<usize>,
        forward: Rows<F>,
        backward: Rows<F>,
        log_partition: Vec<f64>,
    ) -> Messages<F> {
        let norms = window
            .clone()
            .map(|t| {
                let norm = |place: usize, scratch: &mut Vec<F>| {
                    scratch.clear();
                    scratch.extend_from_slice(forward.row(place, t));
                    add(scratch, backward.row(place, t));
                    F::log_sum_exp(scratch)
                };
                let active = self.layout.active(t);
                if active * self.layout.size(t) >= PARALLEL {
                    (0..active)
                        .into_par_iter()
                        .map_init(Vec::new, |scratch, place| norm(place, scratch))
                        .collect()
                } else {
                    let mut scratch = Vec::new();
                    (0..active).map(|place| norm(place, &mut scratch)).collect()
                }
            })
            .collect();
        Messages { window, forward, backward, entered: None, entering: None, norms, log_partition }
    }

    /// log Z of each sequence from the messages at its end.
    fn log_partition(&self, forward: &Rows<F>) -> Vec<f64> {
        let end = |b: usize| {
            let place = self.layout.place(b);
            let t = self.layout.length(place) - 1;
            total(forward.row(place, t), forward.scale(place, t))
        };
        (0..self.layout.batch()).map(end).collect()
    }

    /// la₀.
    pub(super) fn start(&self, forward: &mut Rows<F>) {
        let (rows, scales) = forward.layer_mut(0, self.layout.active(0));
        each_row(rows, scales, self.layout.size(0), |place, row, scale| {
            row.fill(F::ZERO);
            self.add_node(place, 0, row);
            *scale = normalise(row);
        });
    }

    /// Fills the layers of a window behind its first, aligned at the start.
    pub(super) fn forward(
        &self,
        forward: &mut Rows<F>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let mut buffers = Buffers::new(&self.layout);
        for t in window.start..window.end.saturating_sub(1) {
            clock.step("forward messages", t, self.layout.steps())?;
            let count = self.layout.active(t + 1);
            let (before, after) = (self.layout.size(t), self.layout.size(t + 1));
            let (input, output, scales) = buffers.forward(count * before, count * after, count);
            self.leave(t, forward, input);
            self.steps.multiply(Some(Product { t, count, input, output }), None);
            self.arrive(t, forward, output, scales, clock);
        }
        clock.check()
    }

    /// Fills the layers of a window before its last, aligned at the start. The last one is given where it is not the end.
    pub(super) fn backward(
        &self,
        backward: &mut Rows<F>,
        window: Range<usize>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let mut buffers = Buffers::new(&self.layout);
        for t in (window.start..window.end.saturating_sub(1)).rev() {
            clock.step("backward messages", self.layout.steps() - 1 - t, self.layout.steps())?;
            let count = self.layout.active(t + 1);
            let (before, after) = (self.layout.size(t), self.layout.size(t + 1));
            let (input, output, scales) = buffers.backward(count * after, count * before, count);
            self.leave_backward(|_| t, backward, input, scales);
            self.steps.multiply(None, Some(Product { t, count, input, output }));
            self.arrive_backward(|_| t, backward, output, scales, clock);
        }
        clock.check()
    }

    /// Step s of both directions, the backward one counted from each sequence's end.
    fn step_both(
        &self,
        s: usize,
        forward: &mut Rows<F>,
        backward: &mut Rows<F>,
        buffers: &mut Buffers<F>,
        clock: &Clock<'_>,
    ) {
        let (count, size) = (self.layout.active(s + 1), self.layout.size(s));
        let t_backward = |place: usize| self.layout.length(place) - 2 - s;
        let buffers = buffers.both(count * size, count);
        self.leave(s, forward, buffers.forward_input);
        self.leave_backward(t_backward, backward, buffers.backward_input, buffers.backward_scales);
        let ahead =
            Product { t: s, count, input: buffers.forward_input, output: &mut *buffers.forward_output };
        let back =
            Product { t: s, count, input: buffers.backward_input, output: &mut *buffers.backward_output };
        self.steps.multiply(Some(ahead), Some(back));
        self.arrive(s, forward, buffers.forward_output, buffers.forward_scales, clock);
        self.arrive_backward(t_backward, backward, buffers.backward_output, buffers.backward_scales, clock);
    }

    /// input ← exp laₜ of the sequences that go on.
    pub(super) fn leave(&self, t: usize, forward: &Rows<F>, input: &mut [F]) {
        each(input, self.layout.size(t), |place, row| {
            row.copy_from_slice(forward.row(place, t));
            F::exp_in_place(row);
        });
    }

    /// laₜ₊₁ from the product.
    fn arrive(
        &self,
        t: usize,
        forward: &mut Rows<F>,
        output: &mut [F],
        scales: &mut [f64],
        clock: &Clock<'_>,
    ) {
        let size = self.layout.size(t + 1);
        each_row(output, scales, size, |place, row, scale| {
            self.log_sums(t, place, forward.row(place, t), row, clock);
            self.add_node(place, t + 1, row);
            *scale = forward.scale(place, t) + normalise(row);
        });
        for (place, row) in output.chunks_exact(size).enumerate() {
            forward.row_mut(place, t + 1).copy_from_slice(row);
            forward.set_scale(place, t + 1, scales[place]);
        }
    }

    /// input ← exp wₜ₊₁, largest entry 1, with t the boundary of each place; the scales are w's.
    fn leave_backward(
        &self,
        t: impl Fn(usize) -> usize + Sync,
        backward: &Rows<F>,
        input: &mut [F],
        scales: &mut [f64],
    ) {
        let size = input.len() / scales.len().max(1);
        each_row(input, scales, size, |place, row, scale| {
            let after = t(place) + 1;
            row.copy_from_slice(backward.row(place, after));
            self.add_node(place, after, row);
            *scale = backward.scale(place, after) + normalise(row);
            F::exp_in_place(row);
        });
    }

    /// lbₜ from the product.
    fn arrive_backward(
        &self,
        t: impl Fn(usize) -> usize + Sync,
        backward: &mut Rows<F>,
        output: &mut [F],
        scales: &[f64],
        clock: &Clock<'_>,
    ) {
        let size = output.len() / scales.len().max(1);
        each(output, size, |place, row| {
            let t = t(place);
            self.log_sums_backward(t, place, row, clock, || {
                let mut after = backward.row(place, t + 1).to_vec();
                self.add_node(place, t + 1, &mut after);
                normalise(&mut after);
                after
            });
        });
        for (place, row) in output.chunks_exact(size).enumerate() {
            backward.row_mut(place, t(place)).copy_from_slice(row);
            backward.set_scale(place, t(place), scales[place]);
        }
    }
}

impl<F: Real> Messages<F> {
    /// log Σᵢ exp(laₜ(i) + lbₜ(i)).
    pub fn norm(&self, place: usize, t: usize) -> f64 {
        self.norms[t - self.window.start][place]
    }
}

/// Subtracts the maximum where it is finite, and returns it.
pub(crate) fn normalise<F: Real>(row: &mut [F]) -> f64 {
    let shift = F::max(row);
    if shift == F::NEG_INFINITY {
        return 0.0;
    }
    F::lower(row, shift);
    shift.to_f64()
}

/// log Σ exp of a row.
pub(super) fn total<F: Real>(row: &[F], scale: f64) -> f64 {
    scale + F::log_sum_exp(row)
}

/// Works on every row of `size` numbers, in parallel where it pays.
pub(crate) fn each<F: Real>(rows: &mut [F], size: usize, work: impl Fn(usize, &mut [F]) + Sync) {
    if rows.len() >= PARALLEL && rows.len() > size {
        rows.par_chunks_exact_mut(size).enumerate().for_each(|(place, row)| work(place, row));
    } else {
        rows.chunks_exact_mut(size).enumerate().for_each(|(place, row)| work(place, row));
    }
}

/// The same with a number beside each row.
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
