//! Expectations of log-probabilities along a path, and their gradients: entropy, cross-entropy, KL divergence
//! and, with log Z of another model, expectations of its score.
//!
//! A direction is D(x) = own·log p(x) + other·log q(x) + Σₜ extraₜ(xₜ) for a lattice p and another lattice q
//! of the same shape. log p(x) is a sum of conditionals, log p(xₜ | xₜ₊₁) = laₜ + ln M − ln s before a
//! position and log p(xₜ₊₁ | xₜ) = ln M + wₜ₊₁ − lbₜ after it, so
//!
//!   uₜ₊₁(j) = E[D before t + 1 | xₜ₊₁ = j] = [(a∘g)M + a(M∘D)]ⱼ / sⱼ − …,
//!   g = u + Σ c·la,   and vₜ likewise backward
//!
//! are conditional entropies (for own = −1). Their magnitude is that of the result, regardless of the
//! magnitude of the scores. Then E[D] = E[u + ln γ] at the end of a sequence, and the gradient of E_p[D] is a
//! covariance,
//!
//!   Cov(D, 1[xₜ = i]) = γₜ(i)(uₜ(i) + ln γₜ(i) + vₜ(i) − E[D]),
//!   Cov(D, edge) = ξₜ(i, j)(uₜ(i) + ln ξₜ(i, j) + vₜ₊₁(j) − E[D]).
//!
//! The edges need three products with M: rows a∘g with w, a with w∘h, and a with w through M∘D. In
//! semi-Markov chains, u and v exist on both sides of a position, and segments lead from one side to the
//! other (`segments`).

mod covariance;
mod logs;
mod recursion;
mod segments;

use std::ops::Range;

use super::layout::{PositionRows, Rows};
use super::messages::{Lattice, Messages, total};
use super::nodes::Nodes;
use super::support::forbidden;
use super::windows::{pass_backward, pass_forward, windows};
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;
use logs::Logs;

/// Minimum number of rows for which computing ln M in a product pays off.
const WINDOW_ROWS: usize = 128;

/// The number of layers per window if only expectations are needed and segments have at most `longest`
/// positions: the smallest that gives products through ln M enough rows.
pub(crate) fn expectation_window(batch: usize, steps: usize, longest: usize) -> usize {
    let rows = WINDOW_ROWS.div_ceil(batch.max(1));
    let balanced = ((steps * longest.min(steps)) as f64).sqrt().ceil() as usize;
    rows.max(balanced).min(steps).max(1)
}

/// The quantity whose expectation under `p` is computed.
pub struct Direction<'a, F: Real> {
    pub p: &'a Lattice<'a, F>,
    /// The coefficient of log p.
    pub own: f64,
    /// The coefficient of log q, and q.
    pub other: Option<(f64, &'a Lattice<'a, F>)>,
    /// Scores added at each position of a chain: importance weights.
    pub extra: Option<&'a dyn Nodes<F>>,
}

/// Messages of both lattices, and the expectations before and after each position of a window.
pub struct Directed<F> {
    pub p: Messages<F>,
    pub q: Option<Messages<F>>,
    /// E[D before | leaving t], and the same for entering t.
    before: PositionRows<F>,
    /// E[D after | leaving t], and the same for entering t.
    after: PositionRows<F>,
}

/// A coefficient, its lattice and the forward messages.
type Part<'a, F> = (f64, &'a Lattice<'a, F>, &'a PositionRows<F>);

/// Forward messages of both lattices and u, over a window.
struct Expected<F> {
    p: PositionRows<F>,
    q: Option<PositionRows<F>>,
    before: PositionRows<F>,
}

/// The rows that a window needs from the windows before it: messages of both lattices, and u.
struct Checkpoint<F> {
    p: Rows<F>,
    q: Option<Rows<F>>,
    before: Rows<F>,
}

impl<'a, F: Real> Direction<'a, F> {
    fn logs<'b>(&'b self, clock: &'b Clock<'b>) -> Logs<'b, F> {
        let mut parts = Vec::new();
        if self.own != 0.0 || self.other.is_none() {
            parts.push((F::from_f64(self.own), &self.p.edges, self.p.steps));
        }
        if let Some((factor, q)) = self.other {
            parts.push((F::from_f64(factor), &q.edges, q.steps));
        }
        Logs { parts, clock }
    }

    fn parts<'b>(&'b self, p: &'b PositionRows<F>, q: Option<&'b PositionRows<F>>) -> Vec<Part<'b, F>> {
        let mut parts = Vec::new();
        if self.own != 0.0 {
            parts.push((self.own, self.p, p));
        }
        if let (Some((factor, lattice)), Some(rows)) = (self.other, q) {
            parts.push((factor, lattice, rows));
        }
        parts
    }

    /// E[D] of each sequence without its gradient; ±∞ if p has paths that q does not have. Invalid for
    /// sequences with Z = 0.
    pub fn expectation(&self, clock: &Clock<'_>) -> Result<Ends> {
        let layout = &self.p.layout;
        let logs = self.logs(clock);
        let length = expectation_window(layout.batch(), layout.steps(), self.p.longest());
        let mut ends = Ends::new(layout.batch());
        pass_forward(
            &windows(layout.steps(), length),
            false,
            |kept: Option<&Checkpoint<F>>, window| self.forward_window(kept, window, &logs, clock),
            |expected, start| self.checkpoint(expected, start),
            |window, expected| self.ends(window, expected, &mut ends),
        )?;
        self.mark_forbidden(&mut ends.values, clock)?;
        Ok(ends)
    }

    /// Sets E[D] to ±∞ if p has a path that q forbids.
    fn mark_forbidden(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        // Lattices of chosen states differ only by finite weights.
        let chosen = self.p.edges.sets.is_some();
        if let (Some((factor, q)), false) = (self.other, chosen) {
            let forbidden = forbidden(self.p, q, clock)?;
            for (value, _) in values.iter_mut().zip(&forbidden).filter(|(_, forbidden)| **forbidden) {
                *value = factor * f64::NEG_INFINITY;
            }
        }
        Ok(())
    }

    /// E[D], log Z_p and log Z_q of the sequences that end in a window.
    fn ends(&self, window: Range<usize>, expected: &Expected<F>, ends: &mut Ends) {
        for (t, place) in self.p.ends_in(window) {
            let b = self.p.layout.sequence(place);
            (ends.values[b], ends.log_partition[b]) = self.at_end(place, t, expected);
            if let Some(q) = &expected.q {
                ends.log_partition_q[b] = total(q.row(place, t), q.scale(place, t));
            }
        }
    }

    /// E[D] and log Z_p from the last position of a sequence.
    fn at_end(&self, place: usize, t: usize, expected: &Expected<F>) -> (f64, f64) {
        let Expected { p, q, before } = expected;
        let parts = self.parts(p, q.as_ref());
        let norms: Vec<f64> = parts.iter().map(|part| F::log_sum_exp(part.2.row(place, t))).collect();
        let (row, mut extra) = (p.row(place, t), vec![F::ZERO; p.row(place, t).len()]);
        self.add_extra(place, t, &mut extra);
        let norm = F::log_sum_exp(row);
        let mut value = 0.0;
        for (i, &la) in row.iter().enumerate().filter(|(_, la)| **la > F::NEG_INFINITY) {
            let mut d = before.row(place, t)[i].to_f64() + extra[i].to_f64();
            for ((factor, _, rows), norm) in parts.iter().zip(&norms) {
                let log = rows.row(place, t)[i].to_f64();
                d += if log > f64::NEG_INFINITY { factor * (log - norm) } else { 0.0 };
            }
            value += (la.to_f64() - norm).exp() * d;
        }
        (value, p.scale(place, t) + norm)
    }

    fn add_extra(&self, place: usize, t: usize, row: &mut [F]) {
        if let Some(extra) = self.extra {
            extra.add_scores(self.p.layout.sequence(place), t, row);
        }
    }

    /// Calls `visit` with E[D] and one window at a time, last first. There is one window for all layers, or
    /// with checkpoints windows of √(T·L) layers. Returns E[D] and log Z_p.
    pub fn sweep(
        &self,
        checkpoint: bool,
        clock: &Clock<'_>,
        mut visit: impl FnMut(&[f64], Directed<F>) -> Result<()>,
    ) -> Result<(Vec<f64>, Vec<f64>)> {
        let layout = &self.p.layout;
        let logs = self.logs(clock);
        let length = if checkpoint { self.p.window_length() } else { layout.steps() };
        let windows = windows(layout.steps(), length);
        let mut ends = Ends::new(layout.batch());
        let forward = |kept: Option<&Checkpoint<F>>, window| self.forward_window(kept, window, &logs, clock);
        let passed = pass_forward(
            &windows,
            true,
            forward,
            |expected, start| self.checkpoint(expected, start),
            |window, expected| self.ends(window, expected, &mut ends),
        )?;
        self.mark_forbidden(&mut ends.values, clock)?;
        let (mut of_p, mut of_q, mut expectations) = (None, None, None);
        pass_backward(&windows, passed, forward, |window, Expected { p, q, before }| {
            let start = window.start;
            let p = self.p.backward_window(window.clone(), p, of_p.as_ref(), &ends.log_partition, clock)?;
            let q = match (self.other, q) {
                (Some((_, lattice)), Some(q)) => {
                    let log_z = &ends.log_partition_q;
                    Some(lattice.backward_window(window.clone(), q, of_q.as_ref(), log_z, clock)?)
                }
                _ => None,
            };
            let mut after = self.p.backward_rows(expectations.as_ref(), &window);
            self.go_backward(window, &p, q.as_ref(), &logs, &mut after, clock)?;
            expectations = Some(self.p.carried(&after, start));
            of_p = Some(self.p.carried(&p.backward, start));
            of_q = self.other.zip(q.as_ref()).map(|((_, lattice), q)| lattice.carried(&q.backward, start));
            visit(&ends.values, Directed { p, q, before, after })
        })?;
        Ok((ends.values, ends.log_partition))
    }

    /// Forward messages of both lattices and u over a window.
    fn forward_window(
        &self,
        kept: Option<&Checkpoint<F>>,
        window: Range<usize>,
        logs: &Logs<'_, F>,
        clock: &Clock<'_>,
    ) -> Result<Expected<F>> {
        let p = self.p.forward_window(kept.map(|rows| &rows.p), window.clone(), clock)?;
        let from = kept.and_then(|rows| rows.q.as_ref());
        let other = self.other.map(|(_, q)| q.forward_window(from, window.clone(), clock));
        let q = other.transpose()?;
        let mut before = self.p.forward_rows(kept.map(|rows| &rows.before), &window);
        self.go_forward(window, &p, q.as_ref(), logs, &mut before, clock)?;
        Ok(Expected { p, q, before })
    }

    fn checkpoint(&self, expected: &Expected<F>, start: usize) -> Option<Checkpoint<F>> {
        let p = self.p.checkpoint(&expected.p, start)?;
        let before = self.p.checkpoint(&expected.before, start)?;
        let q = self.other.zip(expected.q.as_ref()).and_then(|((_, q), rows)| q.checkpoint(rows, start));
        Some(Checkpoint { p, q, before })
    }
}

/// Values at the end of each sequence: E[D], log Z_p and log Z_q.
pub struct Ends {
    pub values: Vec<f64>,
    pub log_partition: Vec<f64>,
    pub log_partition_q: Vec<f64>,
}

impl Ends {
    fn new(batch: usize) -> Self {
        Ends { values: vec![0.0; batch], log_partition: vec![0.0; batch], log_partition_q: vec![0.0; batch] }
    }
}
