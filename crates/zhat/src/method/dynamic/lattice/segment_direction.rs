//! Directions on semi-Markov chains: entropy, cross-entropy and KL with their gradients.
//!
//! As on chains (`direction`), with one more conditional at every segment: log p(s | t, j) = inₛ + score − outₜ for where a segment that ends
//! at t began, and log p(t | s, j) for where one that starts at s ends. A segment's covariance is
//! μ(s, t, j)(u_in,ₛ(j) + ln μ(s, t, j) + v_out,ₜ(j) − E[D]).

use std::ops::Range;

use super::direction::{Directed, Direction, Logs, View, mark};
use super::layout::Rows;
use super::messages::Messages;
use super::segments::{SegmentLattice, origin};
use super::support::forbidden_segmentations;
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;

/// What is expected under `p`: own·log p + other·log q.
pub(crate) struct SegmentDirection<'a, F: Real> {
    pub direction: Direction<'a, F>,
    pub p: &'a SegmentLattice<'a, F>,
    pub q: Option<&'a SegmentLattice<'a, F>>,
}

/// Messages and expectations: `directed` has those before leaving and after entering a position.
pub(crate) struct SegmentDirected<F> {
    pub directed: Directed<F>,
    /// E[D before | entering s].
    before_entering: Rows<F>,
    /// E[D after | leaving t].
    after_leaving: Rows<F>,
}

impl<F: Real> SegmentDirected<F> {
    pub(super) fn new(
        p: Messages<F>,
        q: Option<Messages<F>>,
        [before_entering, before, after_leaving, after]: [Rows<F>; 4],
    ) -> Self {
        SegmentDirected { directed: Directed { p, q, before, after }, before_entering, after_leaving }
    }
}

impl<'a, F: Real> SegmentDirection<'a, F> {
    pub fn new(
        p: &'a SegmentLattice<'a, F>,
        own: f64,
        other: Option<(f64, &'a SegmentLattice<'a, F>)>,
    ) -> Self {
        let base = other.map(|(factor, q)| (factor, &q.base));
        let direction = Direction { p: &p.base, own, other: base, extra: None };
        SegmentDirection { direction, p, q: other.map(|other| other.1) }
    }

    /// The lattices, their factors and messages.
    fn parts<T>(&self, p: T, q: Option<T>) -> Vec<(f64, &SegmentLattice<'a, F>, T)> {
        let mut parts = vec![(self.direction.own, self.p, p)];
        if let (Some((factor, _)), Some(lattice), Some(messages)) = (self.direction.other, self.q, q) {
            parts.push((factor, lattice, messages));
        }
        parts
    }

    /// E[D] and log Z_p of each sequence, and all that the gradient needs.
    pub fn sweep(&self, clock: &Clock<'_>) -> Result<(Vec<f64>, SegmentDirected<F>)> {
        let layout = &self.p.base.layout;
        let (steps, logs) = (layout.steps(), self.direction.logs());
        let p = self.p.sweep(clock)?;
        let q = self.q.map(|q| q.sweep(clock)).transpose()?;
        let mut before_entering = Rows::new(&self.p.entered, 0..steps, F::ZERO);
        let mut before = Rows::new(layout, 0..steps, F::ZERO);
        let views = (View::of(&p), q.as_ref().map(View::of));
        self.go_forward(0..steps, views.0, views.1, &logs, &mut before_entering, &mut before, clock)?;
        let mut values = vec![0.0; layout.batch()];
        for (b, value) in values.iter_mut().enumerate() {
            let place = layout.place(b);
            let t = layout.length(place) - 1;
            *value = self.direction.at_end(place, t, views.0, views.1, &before).0;
        }
        let mut after_leaving = Rows::new(layout, 0..steps, F::ZERO);
        let mut after = Rows::new(&self.p.entered, 0..steps, F::ZERO);
        self.go_backward(0..steps, &p, q.as_ref(), &logs, &mut after_leaving, &mut after, clock)?;
        self.mark_forbidden(&mut values, clock)?;
        Ok((values, SegmentDirected::new(p, q, [before_entering, before, after_leaving, after])))
    }

    /// Expectations before entering and leaving the positions of a window; those before entering its first are given.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn go_forward(
        &self,
        window: Range<usize>,
        p: View<'_, F>,
        q: Option<View<'_, F>>,
        logs: &Logs<'_, F>,
        before_entering: &mut Rows<F>,
        before: &mut Rows<F>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let layout = &self.p.base.layout;
        let boundaries = window.start..window.end.min(layout.steps().saturating_sub(1));
        self.direction.direct_forward(boundaries, p.forward, logs, before_entering, clock)?;
        for t in window {
            clock.step("forward expectations", t, layout.steps())?;
            self.before_leaving(t, p, q, before_entering, before);
            if t + 1 < layout.steps() {
                let directed = before_entering.layer_mut(t + 1, layout.active(t + 1)).0.to_vec();
                let rows = self.direction.advance(t, p, q, logs, before, directed);
                before_entering.set_layer(t + 1, &rows);
            }
        }
        Ok(())
    }

    /// Expectations after leaving and entering the positions of a window; those of the positions behind it are given.
    #[allow(clippy::too_many_arguments)]
    pub(super) fn go_backward(
        &self,
        window: Range<usize>,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        logs: &Logs<'_, F>,
        after_leaving: &mut Rows<F>,
        after: &mut Rows<F>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let layout = &self.p.base.layout;
        let boundaries = window.start..window.end.min(layout.steps().saturating_sub(1));
        self.direction.direct_backward(boundaries, p, logs, after_leaving, clock)?;
        for t in window.rev() {
            clock.step("backward expectations", layout.steps() - 1 - t, layout.steps())?;
            if t + 1 < layout.steps() {
                let directed = after_leaving.layer_mut(t, layout.active(t + 1)).0.to_vec();
                let rows = self.direction.retreat(t, p, q, logs, after, directed);
                after_leaving.set_layer(t, &rows);
            }
            self.after_entering(t, p, q, after_leaving, after);
        }
        Ok(())
    }

    /// E[D before | leaving t] from that of entering the segments that end there.
    fn before_leaving(
        &self,
        t: usize,
        p: View<'_, F>,
        q: Option<View<'_, F>>,
        entering: &Rows<F>,
        leaving: &mut Rows<F>,
    ) {
        let size = self.p.base.layout.size(t);
        for place in 0..self.p.base.layout.active(t) {
            let mut means = vec![0.0; size];
            let mut weights: Vec<Vec<f64>> = Vec::new();
            let mut values: Vec<Vec<f64>> = Vec::new();
            for (k, (factor, lattice, messages)) in self.parts(p, q).into_iter().enumerate() {
                let Some(entered) = messages.entered else { continue };
                let (row, mut segment) = (messages.forward.row(place, t), 0);
                lattice.each_ending(place, t, |s, scores| {
                    let mut logs = scores.to_vec();
                    lattice.add_row_shift(place, t, &mut logs);
                    let shift = entered.scale(place, s) - messages.forward.scale(place, t);
                    let (origins, from) = (lattice.segments.origins(s, t), entered.row(place, s));
                    for (i, (x, out)) in logs.iter_mut().zip(row).enumerate() {
                        let total = *x + from[origin(origins, i)].to_f64() + shift;
                        *x = if total > f64::NEG_INFINITY { total - out.to_f64() } else { total };
                    }
                    if k == 0 {
                        weights.push(logs.iter().map(|x| x.exp()).collect());
                        let u = entering.row(place, s);
                        values.push((0..size).map(|i| u[origin(origins, i)].to_f64()).collect());
                    }
                    add_finite(&mut values[segment], factor, &logs);
                    segment += 1;
                });
            }
            average(&weights, &values, &mut means);
            leaving.row_mut(place, t).iter_mut().zip(&means).for_each(|(x, &y)| *x = F::from_f64(y));
        }
    }

    /// E[D after | entering s] from that of leaving the segments that start there.
    fn after_entering(
        &self,
        s: usize,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        leaving: &Rows<F>,
        entering: &mut Rows<F>,
    ) {
        let size = self.p.entered.size(s);
        for place in 0..self.p.base.layout.active(s) {
            // One list for every end: (state entered, weight, value) for every state left.
            let mut ends: Vec<(Vec<usize>, Vec<f64>, Vec<f64>)> = Vec::new();
            for (k, (factor, lattice, messages)) in self.parts(p, q).into_iter().enumerate() {
                let Some(follow) = &messages.entering else { continue };
                let mut segment = 0;
                lattice.each_starting(place, s, |t, scores| {
                    let mut logs = scores.to_vec();
                    lattice.add_row_shift(place, t, &mut logs);
                    let shift = messages.backward.scale(place, t) - follow.scale(place, s);
                    let origins = lattice.segments.origins(s, t);
                    for (i, (x, lb)) in logs.iter_mut().zip(messages.backward.row(place, t)).enumerate() {
                        let j = origin(origins, i);
                        let column =
                            if s > 0 { lattice.base.steps.column_shifts(s - 1)[j].to_f64() } else { 0.0 };
                        let total = *x + lb.to_f64() + shift + column;
                        let out = follow.row(place, s)[j].to_f64();
                        *x = if total > f64::NEG_INFINITY { total - out } else { total };
                    }
                    if k == 0 {
                        let mut values: Vec<F> = leaving.row(place, t).to_vec();
                        self.direction.add_extra(place, t, &mut values);
                        let states = (0..logs.len()).map(|i| origin(origins, i)).collect();
                        let weights = logs.iter().map(|x| x.exp()).collect();
                        ends.push((states, weights, values.iter().map(|x| x.to_f64()).collect()));
                    }
                    add_finite(&mut ends[segment].2, factor, &logs);
                    segment += 1;
                });
            }
            let mut means = vec![0.0; size];
            for (states, weights, values) in &ends {
                for ((&j, &w), &value) in states.iter().zip(weights).zip(values) {
                    means[j] += if w > 0.0 { w * value } else { 0.0 };
                }
            }
            entering.row_mut(place, s).iter_mut().zip(&means).for_each(|(x, &y)| *x = F::from_f64(y));
        }
    }

    /// E[D] is infinite where p has a segmentation that q forbids.
    pub(super) fn mark_forbidden(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        // Lattices of chosen states differ by finite weights alone.
        let chosen = self.p.base.edges.sets.is_some();
        if let (Some(q), Some((factor, _)), false) = (self.q, self.direction.other, chosen) {
            mark(values, &forbidden_segmentations(self.p, q, clock)?, factor);
        }
        Ok(())
    }

    /// Calls `visit` with every end t and Cov(D, a segment of state k from s to t) of sequence b, whose E[D] must be finite.
    pub fn segment_covariances(
        &self,
        swept: &SegmentDirected<F>,
        value: f64,
        b: usize,
        s: usize,
        mut visit: impl FnMut(usize, &[f64]),
    ) {
        let place = self.p.base.layout.place(b);
        let directed = &swept.directed;
        let mut others: Vec<Vec<f64>> = Vec::new();
        if let (Some(q), Some(messages), Some((factor, _))) = (self.q, &directed.q, self.direction.other) {
            q.segment_marginals(messages, b, s, |_, _, logs| {
                let mut scaled = vec![0.0; logs.len()];
                add_finite(&mut scaled, factor, logs);
                others.push(scaled);
            });
        }
        self.p.segment_marginals(&directed.p, b, s, |t, marginals, logs| {
            let origins = self.p.segments.origins(s, t);
            let mut extra = vec![F::ZERO; logs.len()];
            self.direction.add_extra(place, t, &mut extra);
            let (before, after) = (swept.before_entering.row(place, s), swept.after_leaving.row(place, t));
            let covariance: Vec<f64> = (0..logs.len())
                .map(|k| {
                    if marginals[k] == 0.0 {
                        return 0.0;
                    }
                    let other = others.get(t - s).map_or(0.0, |row| row[k]);
                    let around = before[origin(origins, k)].to_f64() + after[k].to_f64() + extra[k].to_f64();
                    marginals[k] * (around + self.direction.own * logs[k] + other - value)
                })
                .collect();
            visit(t, &covariance);
        });
    }
}

/// values ← values + factor·logs where they are finite.
fn add_finite(values: &mut [f64], factor: f64, logs: &[f64]) {
    if factor != 0.0 {
        for (x, &log) in values.iter_mut().zip(logs) {
            *x += if log > f64::NEG_INFINITY { factor * log } else { 0.0 };
        }
    }
}

fn average(weights: &[Vec<f64>], values: &[Vec<f64>], means: &mut [f64]) {
    for (weights, values) in weights.iter().zip(values) {
        for ((mean, &w), &value) in means.iter_mut().zip(weights).zip(values) {
            *mean += if w > 0.0 { w * value } else { 0.0 };
        }
    }
}
