//! Expectations of log probabilities along a path, and their gradients: entropy, cross-entropy, KL.
//!
//! A direction is D(x) = own·log p(x) + other·log q(x) + Σₜ extraₜ(xₜ) for a lattice p and another, q, of the same shape. log p(x) falls
//! into conditionals, log p(xₜ | xₜ₊₁) = laₜ + ln M − ln s before a position and log p(xₜ₊₁ | xₜ) = ln M + wₜ₊₁ − lbₜ after it, so
//!
//!   uₜ₊₁(j) = E[D before t + 1 | xₜ₊₁ = j] = [(a∘g)M + a(M∘D)]ⱼ / sⱼ − …,   g = u + Σ c·la,   and vₜ likewise backward
//!
//! are conditional entropies (for own = −1): of the size of the answer, whatever the size of the scores. Then E[D] = E[u + ln γ] at
//! the end of a sequence, and the gradient of E_p[D] is a covariance,
//!
//!   Cov(D, 1[xₜ = i]) = γₜ(i)(uₜ(i) + ln γₜ(i) + vₜ(i) − E[D]),   Cov(D, edge) = ξₜ(i, j)(uₜ(i) + ln ξₜ(i, j) + vₜ₊₁(j) − E[D]).
//!
//! The edges go through three products with M: rows a∘g with w, a with w∘h, and a with w through M∘D.

mod covariance;
mod logs;
mod recursion;

use std::ops::Range;

use super::layout::{Layout, Rows};
use super::messages::{Lattice, Messages};
use super::nodes::Nodes;
use super::support::forbidden_paths;
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;
pub(in crate::method::dynamic::lattice) use logs::Logs;

/// Rows that make a product through ln M worth making it.
const WINDOW_ROWS: usize = 128;

/// The layers of a window for expectations alone: as few as can be while products through ln M have rows enough.
pub(crate) fn expectation_window(batch: usize, steps: usize) -> usize {
    let rows = WINDOW_ROWS.div_ceil(batch.max(1));
    rows.max((steps as f64).sqrt() as usize).min(steps).max(1)
}

/// What is expected under `p`.
pub(crate) struct Direction<'a, F: Real> {
    pub p: &'a Lattice<'a, F>,
    /// The factor of log p.
    pub own: f64,
    /// The factor of log q, and q.
    pub other: Option<(f64, &'a Lattice<'a, F>)>,
    /// Scores that are added at every position: importance weights.
    pub extra: Option<&'a dyn Nodes<F>>,
}

/// Messages of both lattices and the expectations before and after each position of a window: of segments before leaving a position and
/// after entering it.
pub(crate) struct Directed<F> {
    pub p: Messages<F>,
    pub q: Option<Messages<F>>,
    pub(in crate::method::dynamic::lattice) before: Rows<F>,
    pub(in crate::method::dynamic::lattice) after: Rows<F>,
}

/// A factor, its lattice and the messages forward.
type Part<'a, F> = (f64, &'a Lattice<'a, F>, View<'a, F>);

/// Messages forward: out of each position, and, of segments, into each position.
#[derive(Clone, Copy)]
pub(in crate::method::dynamic::lattice) struct View<'a, F> {
    pub forward: &'a Rows<F>,
    pub entered: Option<&'a Rows<F>>,
}

impl<'a, F: Real> View<'a, F> {
    pub fn chain(forward: &'a Rows<F>) -> Self {
        View { forward, entered: None }
    }

    pub fn of(messages: &'a Messages<F>) -> Self {
        View { forward: &messages.forward, entered: messages.entered.as_ref() }
    }
}

impl<'a, F: Real> Direction<'a, F> {
    pub(in crate::method::dynamic::lattice) fn logs(&self) -> Logs<'a, F> {
        let mut parts = Vec::new();
        if self.own != 0.0 || self.other.is_none() {
            parts.push((F::from_f64(self.own), &self.p.edges, self.p.steps));
        }
        if let Some((factor, q)) = self.other {
            parts.push((F::from_f64(factor), &q.edges, q.steps));
        }
        Logs { parts }
    }

    fn parts<'b>(&'b self, p: View<'b, F>, q: Option<View<'b, F>>) -> Vec<Part<'b, F>> {
        let mut parts = Vec::new();
        if self.own != 0.0 {
            parts.push((self.own, self.p, p));
        }
        if let (Some((factor, lattice)), Some(rows)) = (self.other, q) {
            parts.push((factor, lattice, rows));
        }
        parts
    }

    /// E[D] and log Z_p of each sequence; what it is for sequences without a weight has no meaning. +∞ or −∞ where p has paths that
    /// q does not have.
    pub fn expectation(&self, clock: &Clock<'_>) -> Result<(Vec<f64>, Vec<f64>)> {
        let layout = &self.p.layout;
        let (steps, logs) = (layout.steps(), self.logs());
        let length = expectation_window(layout.batch(), steps);
        let mut values = vec![0.0; layout.batch()];
        let mut log_partition = values.clone();
        let mut kept: Option<[Rows<F>; 3]> = None;
        for start in (0..steps).step_by(length) {
            let layers = start..(start + length + 1).min(steps);
            let rows = self.forward_window(kept.as_ref(), layers.clone(), &logs, clock)?;
            self.ends(start..(start + length).min(steps), &rows, &mut values, &mut log_partition);
            kept = (layers.len() > length).then(|| self.layer(&rows, start + length));
        }
        self.mark_forbidden(&mut values, clock)?;
        Ok((values, log_partition))
    }

    /// E[D] is infinite where p has a path that q forbids.
    fn mark_forbidden(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        if let Some((factor, q)) = self.other {
            mark(values, &forbidden_paths(self.p, q, clock)?, factor);
        }
        Ok(())
    }

    /// E[D] and log Z_p of the sequences that end in a window.
    fn ends(&self, window: Range<usize>, rows: &[Rows<F>; 3], values: &mut [f64], log_partition: &mut [f64]) {
        let [p, q, before] = rows;
        let (p, q) = (View::chain(p), self.other.map(|_| View::chain(q)));
        for t in window {
            for place in self.p.layout.active(t + 1)..self.p.layout.active(t) {
                let b = self.p.layout.sequence(place);
                (values[b], log_partition[b]) = self.at_end(place, t, p, q, before);
            }
        }
    }

    /// E[D] and log Z_p from the last position of a sequence.
    pub(in crate::method::dynamic::lattice) fn at_end(
        &self,
        place: usize,
        t: usize,
        p: View<'_, F>,
        q: Option<View<'_, F>>,
        before: &Rows<F>,
    ) -> (f64, f64) {
        let parts = self.parts(p, q);
        let norms: Vec<f64> = parts.iter().map(|part| F::log_sum_exp(part.2.forward.row(place, t))).collect();
        let (row, mut extra) = (p.forward.row(place, t), vec![F::ZERO; p.forward.row(place, t).len()]);
        self.add_extra(place, t, &mut extra);
        let norm = F::log_sum_exp(row);
        let mut value = 0.0;
        for (i, &la) in row.iter().enumerate().filter(|(_, la)| **la > F::NEG_INFINITY) {
            let mut d = before.row(place, t)[i].to_f64() + extra[i].to_f64();
            for ((factor, _, view), norm) in parts.iter().zip(&norms) {
                let log = view.forward.row(place, t)[i].to_f64();
                d += if log > f64::NEG_INFINITY { factor * (log - norm) } else { 0.0 };
            }
            value += (la.to_f64() - norm).exp() * d;
        }
        (value, p.forward.scale(place, t) + norm)
    }

    pub(in crate::method::dynamic::lattice) fn add_extra(&self, place: usize, t: usize, row: &mut [F]) {
        if let Some(extra) = self.extra {
            extra.add_scores(self.p.layout.sequence(place), t, row);
        }
    }

    /// u at layer t + 1 of a chain, from layer t.
    fn advance_chain(
        &self,
        t: usize,
        p: &Rows<F>,
        q: Option<&Rows<F>>,
        logs: &Logs<'_, F>,
        before: &mut Rows<F>,
    ) {
        let directed = before.layer_mut(t + 1, self.p.layout.active(t + 1)).0.to_vec();
        let rows = self.advance(t, View::chain(p), q.map(View::chain), logs, before, directed);
        before.set_layer(t + 1, &rows);
    }

    /// Calls `visit` with E[D], log Z_p, and one window after the other, the last first: all layers, or √T of them.
    pub fn sweep(
        &self,
        checkpoint: bool,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&[f64], Directed<F>) -> Result<()>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let layout = &self.p.layout;
        let (steps, logs) = (layout.steps(), self.logs());
        let length = if checkpoint { (steps as f64).sqrt().ceil().max(1.0) as usize } else { steps };
        let starts: Vec<usize> = (0..steps).step_by(length).collect();
        let reach = |start: usize| start..(start + length + 1).min(steps);
        let mut kept: Vec<[Rows<F>; 3]> = Vec::new();
        let mut values = vec![0.0; layout.batch()];
        let mut log_partition = values.clone();
        let mut last = None;
        for &start in &starts {
            let rows = self.forward_window(kept.last(), reach(start), &logs, clock)?;
            self.ends(start..(start + length).min(steps), &rows, &mut values, &mut log_partition);
            let next = if start == 0 { vec![0, start + length] } else { vec![start + length] };
            for t in next.into_iter().filter(|&t| t < steps && starts.len() > 1) {
                kept.push(self.layer(&rows, t));
            }
            last = Some(rows);
        }
        self.mark_forbidden(&mut values, clock)?;
        let mut following: Option<[Rows<F>; 3]> = None;
        for &start in starts.iter().rev() {
            let layers = reach(start);
            // The last window stands there already.
            let rows = match last.take() {
                Some(rows) => rows,
                None => self.forward_window(kept.last(), layers.clone(), &logs, clock)?,
            };
            kept.pop();
            let [p, q, before] = rows;
            let own = start..(start + length).min(steps);
            let carried = |k: usize| following.as_ref().map(|rows| &rows[k]);
            let p = self.backward_window(
                self.p,
                p,
                carried(0),
                own.clone(),
                layers.clone(),
                &log_partition,
                clock,
            )?;
            let q = match self.other {
                Some((_, lattice)) => {
                    let end = vec![0.0; layout.batch()];
                    Some(self.backward_window(
                        lattice,
                        q,
                        carried(1),
                        own.clone(),
                        layers.clone(),
                        &end,
                        clock,
                    )?)
                }
                None => None,
            };
            let mut after = Rows::new(layout, layers.clone(), F::ZERO);
            if let Some(rows) = carried(2) {
                after.copy_layer(rows, layers.end - 1, layout.active(layers.end - 1));
            }
            self.direct_backward(layers.start..layers.end - 1, &p, &logs, &mut after, clock)?;
            for t in (layers.start..layers.end - 1).rev() {
                clock.step("backward expectations", steps - 1 - t, steps)?;
                let directed = after.layer_mut(t, layout.active(t + 1)).0.to_vec();
                let rows = self.retreat(t, &p, q.as_ref(), &logs, &after, directed);
                after.set_layer(t, &rows);
            }
            let none = Rows::none();
            let backward = q.as_ref().map_or(&none, |q| &q.backward);
            following = Some([
                copied(layout, &p.backward, start),
                copied(layout, backward, start),
                copied(layout, &after, start),
            ]);
            visit(&values, Directed { p, q, before, after })?;
        }
        Ok((values, log_partition))
    }

    /// Messages forward of both lattices and u over a window.
    fn forward_window(
        &self,
        kept: Option<&[Rows<F>; 3]>,
        layers: Range<usize>,
        logs: &Logs<'_, F>,
        clock: &Clock<'_>,
    ) -> Result<[Rows<F>; 3]> {
        let from = |k: usize| kept.map(|rows| std::slice::from_ref(&rows[k])).unwrap_or_default();
        let p = self.p.forward_window(from(0), layers.clone(), clock)?;
        let q = match self.other {
            Some((_, q)) => q.forward_window(from(1), layers.clone(), clock)?,
            None => Rows::none(),
        };
        let mut before = Rows::new(&self.p.layout, layers.clone(), F::ZERO);
        if let Some(rows) = kept {
            before.copy_layer(&rows[2], layers.start, self.p.layout.active(layers.start));
        }
        self.direct_forward(layers.start..layers.end - 1, &p, logs, &mut before, clock)?;
        for t in layers.start..layers.end - 1 {
            clock.step("forward expectations", t, self.p.layout.steps())?;
            self.advance_chain(t, &p, self.other.map(|_| &q), logs, &mut before);
        }
        Ok([p, q, before])
    }

    #[allow(clippy::too_many_arguments)]
    fn backward_window(
        &self,
        lattice: &Lattice<'_, F>,
        forward: Rows<F>,
        after: Option<&Rows<F>>,
        own: Range<usize>,
        layers: Range<usize>,
        log_partition: &[f64],
        clock: &Clock<'_>,
    ) -> Result<Messages<F>> {
        let mut backward = Rows::new(&lattice.layout, layers.clone(), F::ZERO);
        if let Some(after) = after {
            backward.copy_layer(after, layers.end - 1, lattice.layout.active(layers.end - 1));
        }
        lattice.backward(&mut backward, layers, clock)?;
        Ok(lattice.finish(own, forward, backward, log_partition.to_vec()))
    }

    fn layer(&self, rows: &[Rows<F>; 3], t: usize) -> [Rows<F>; 3] {
        std::array::from_fn(|k| copied(&self.p.layout, &rows[k], t))
    }
}

/// factor·(−∞) where log q is −∞ with a positive probability.
pub(in crate::method::dynamic::lattice) fn mark(values: &mut [f64], forbidden: &[bool], factor: f64) {
    for (value, _) in values.iter_mut().zip(forbidden).filter(|(_, forbidden)| **forbidden) {
        *value = factor * f64::NEG_INFINITY;
    }
}

fn copied<F: Real>(layout: &Layout, rows: &Rows<F>, t: usize) -> Rows<F> {
    if rows.is_none() {
        return Rows::none();
    }
    let mut layer = Rows::new(layout, t..t + 1, F::ZERO);
    layer.copy_layer(rows, t, layout.active(t));
    layer
}
