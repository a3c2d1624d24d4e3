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

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use super::entries::{Entries, Index};
use super::layout::Rows;
use super::messages::{Lattice, Messages, each, normalise};
use super::nodes::{Edges, Nodes, add};
use super::steps::{Product, Steps};
use crate::error::Result;
use crate::numeric::Real;
use crate::run::Clock;
use crate::sequence::TransitionGradient;

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
    pub(super) before: Rows<F>,
    pub(super) after: Rows<F>,
}

/// ln M of the lattices, added up with their factors.
pub(super) struct Logs<'a, F: Real> {
    parts: Vec<(F, &'a Edges<'a, F>, &'a dyn Steps<F>)>,
    /// Set where a lattice has no transition; it counts as 0 then.
    pub missing: AtomicBool,
}

impl<F: Real> Entries<F> for Logs<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.parts[0].2.shape(t)
    }

    fn shared(&self) -> bool {
        self.parts.iter().all(|part| part.2.shared())
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        let mut missing = false;
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
            for (r, row) in target.chunks_exact_mut(columns.len()).enumerate() {
                let row_shift = row_shifts[rows.at(r)];
                for (c, x) in row.iter_mut().enumerate() {
                    missing |= *x == F::NEG_INFINITY;
                    let log = *x - row_shift - column_shifts[columns.at(c)];
                    *x = if *x == F::NEG_INFINITY { F::ZERO } else { *factor * log };
                }
            }
            if k > 0 {
                add(out, &buffer);
            }
        }
        if missing {
            self.missing.store(true, Ordering::Relaxed);
        }
    }
}

/// 1 where a lattice has no transition.
struct Missing<'a, F: Real>(&'a Edges<'a, F>);

impl<F: Real> Entries<F> for Missing<'_, F> {
    fn shape(&self, t: usize) -> (usize, usize) {
        self.0.shape(t)
    }

    fn shared(&self) -> bool {
        self.0.shared()
    }

    fn fill(&self, t: usize, rows: Index<'_>, columns: Index<'_>, out: &mut [F]) {
        self.0.fill(t, rows, columns, out);
        out.iter_mut().for_each(|x| *x = if *x == F::NEG_INFINITY { F::ONE } else { F::ZERO });
    }
}

/// exp(ln M_p − ln M_q): makes q's products p's.
struct Quotient<'a, F: Real>(Logs<'a, F>);

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
        // What p does not have counts as 0 in the logarithms.
        let mut own = vec![F::ZERO; out.len()];
        self.0.parts[0].1.fill(t, rows, columns, &mut own);
        for (x, &log) in out.iter_mut().zip(&own) {
            *x = if log == F::NEG_INFINITY { F::ZERO } else { *x };
        }
    }
}

/// A factor, its lattice and the messages forward.
type Part<'a, F> = (f64, &'a Lattice<'a, F>, View<'a, F>);

/// Messages forward: out of each position, and, of segments, into each position.
#[derive(Clone, Copy)]
pub(super) struct View<'a, F> {
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
    pub(super) fn logs(&self) -> Logs<'a, F> {
        let mut parts = Vec::new();
        if self.own != 0.0 || self.other.is_none() {
            parts.push((F::from_f64(self.own), &self.p.edges, self.p.steps));
        }
        if let Some((factor, q)) = self.other {
            parts.push((F::from_f64(factor), &q.edges, q.steps));
        }
        Logs { parts, missing: AtomicBool::new(false) }
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
        let steps = self.p.layout.steps();
        let logs = self.logs();
        let mut values = vec![0.0; self.p.layout.batch()];
        let mut log_partition = values.clone();
        let mut state: Option<(Rows<F>, Option<Rows<F>>, Rows<F>)> = None;
        for t in 0..steps {
            clock.check()?;
            let layers = t.saturating_sub(1)..t + 1;
            let carry = |kept: Option<&Rows<F>>, lattice: &Lattice<'_, F>| {
                lattice.forward_window(
                    kept.map(std::slice::from_ref).unwrap_or_default(),
                    layers.clone(),
                    clock,
                )
            };
            let p = carry(state.as_ref().map(|state| &state.0), self.p)?;
            let q = match self.other {
                Some((_, q)) => Some(carry(state.as_ref().and_then(|state| state.1.as_ref()), q)?),
                None => None,
            };
            let mut before = Rows::new(&self.p.layout, layers.clone(), F::ZERO);
            if let Some((_, _, old)) = &state {
                before.copy_layer(old, t - 1, self.p.layout.active(t - 1));
                self.advance_chain(t - 1, &p, q.as_ref(), &logs, &mut before);
            }
            for place in self.p.layout.active(t + 1)..self.p.layout.active(t) {
                let b = self.p.layout.sequence(place);
                (values[b], log_partition[b]) =
                    self.at_end(place, t, View::chain(&p), q.as_ref().map(View::chain), &before);
            }
            state = Some((p, q, before));
        }
        self.mark_missing(&logs, &mut values, clock)?;
        Ok((values, log_partition))
    }

    /// E[D] and log Z_p from the last position of a sequence.
    pub(super) fn at_end(
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

    pub(super) fn add_extra(&self, place: usize, t: usize, row: &mut [F]) {
        if let Some(extra) = self.extra {
            extra.add_scores(self.p.layout.sequence(place), t, row);
        }
    }

    /// E[D] is infinite where p has a path that q does not have.
    fn mark_missing(&self, logs: &Logs<'_, F>, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let Some((factor, q)) = self.other else { return Ok(()) };
        let edges = logs.missing.load(Ordering::Relaxed);
        if !edges && !self.has_missing_nodes(q) {
            return Ok(());
        }
        let messages = self.p.sweep(clock)?;
        let (mut node, mut other) = (Vec::new(), Vec::new());
        for t in 0..self.p.layout.steps() {
            for place in 0..self.p.layout.active(t) {
                other.clear();
                other.resize(self.p.layout.size(t), F::ZERO);
                q.add_node(place, t, &mut other);
                node.clear();
                node.extend_from_slice(messages.forward.row(place, t));
                add(&mut node, messages.backward.row(place, t));
                if node.iter().zip(&other).any(|(&p, &q)| p > F::NEG_INFINITY && q == F::NEG_INFINITY) {
                    values[self.p.layout.sequence(place)] = factor * f64::NEG_INFINITY;
                }
            }
        }
        if edges {
            self.mark_missing_edges(&messages, values);
        }
        Ok(())
    }

    /// The same for transitions alone.
    pub(super) fn mark_missing_edges(&self, messages: &Messages<F>, values: &mut [f64]) {
        let Some((factor, q)) = self.other else { return };
        let missing = Missing(&q.edges);
        for t in 0..self.p.layout.steps().saturating_sub(1) {
            let pairs: Vec<(usize, usize)> =
                (0..self.p.layout.active(t + 1)).map(|place| (t, place)).collect();
            let (before, after) = self.p.steps.shape(t);
            let mut left = vec![F::ZERO; pairs.len() * before];
            let mut right = vec![F::ZERO; pairs.len() * after];
            let (mut output, mut scales) = (right.clone(), vec![0.0; pairs.len()]);
            self.p.gather(messages, &pairs, &mut left, &mut right, &mut scales);
            let product = Product { t, count: pairs.len(), input: &left, output: &mut output };
            self.p.steps.multiply_directed(&missing, Some(product), None);
            let rows = output.chunks_exact(after).zip(right.chunks_exact(after));
            for (place, (lost, w)) in rows.enumerate() {
                if lost.iter().zip(w).any(|(&x, &w)| x > F::ZERO && w > F::ZERO) {
                    values[self.p.layout.sequence(place)] = factor * f64::NEG_INFINITY;
                }
            }
        }
    }

    fn has_missing_nodes(&self, q: &Lattice<'_, F>) -> bool {
        let layout = &self.p.layout;
        let mut row = vec![F::ZERO; layout.largest()];
        let mut missing = |place: usize, t: usize| {
            let row = &mut row[..layout.size(t)];
            row.fill(F::ZERO);
            q.add_node(place, t, row);
            row.contains(&F::NEG_INFINITY)
        };
        (0..layout.steps()).any(|t| (0..layout.active(t)).any(|place| missing(place, t)))
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
        let rows = self.advance(t, View::chain(p), q.map(View::chain), logs, before);
        before.set_layer(t + 1, &rows);
    }

    /// E[D before | entering layer t + 1] of every place and state, from that of leaving layer t.
    pub(super) fn advance(
        &self,
        t: usize,
        p: View<'_, F>,
        q: Option<View<'_, F>>,
        logs: &Logs<'_, F>,
        before: &Rows<F>,
    ) -> Vec<F> {
        let count = self.p.layout.active(t + 1);
        let (size, next) = self.p.steps.shape(t);
        let parts = self.parts(p, q);
        let p = p.forward;
        let mut input = vec![F::ZERO; 2 * count * size];
        let (plain, weighted) = input.split_at_mut(count * size);
        self.p.leave(t, p, plain);
        each(weighted, size, |place, row| {
            self.gain(place, t, &parts, before, row);
            row.iter_mut().zip(&plain[place * size..]).for_each(|(g, &a)| *g *= a);
        });
        let (mut output, mut directed) = (vec![F::ZERO; 2 * count * next], vec![F::ZERO; count * next]);
        self.p
            .steps
            .multiply(Some(Product { t, count: 2 * count, input: &input, output: &mut output }), None);
        let product = Product { t, count, input: &input[..count * size], output: &mut directed };
        self.p.steps.multiply_directed(logs, Some(product), None);
        let (sums, gains) = output.split_at(count * next);
        each(&mut directed, next, |place, row| {
            let (s, gain) = (&sums[place * next..][..next], &gains[place * next..][..next]);
            let mut logs_s = s.to_vec();
            F::ln_in_place(&mut logs_s);
            let own = F::from_f64(self.own);
            for (j, x) in row.iter_mut().enumerate() {
                // Without any weight it does not matter, but must be a number.
                *x = if s[j] > F::ZERO { (*x + gain[j]) / s[j] - own * logs_s[j] } else { F::ZERO };
            }
            let doubtful = self.p.doubtful(t, p.row(place, t), s);
            if !doubtful.is_empty() {
                let (mut g, mut terms) = (vec![F::ZERO; size], vec![F::ZERO; size]);
                let mut direction = vec![F::ZERO; size];
                self.gain(place, t, &parts, before, &mut g);
                for &j in &doubtful {
                    let j = j as usize;
                    self.p.steps.log_column(t, j, &mut terms);
                    add(&mut terms, p.row(place, t));
                    logs.fill(t, Index::Range(0..size), Index::Range(j..j + 1), &mut direction);
                    let (total, mean) = average(&terms, |i| g[i].to_f64() + direction[i].to_f64());
                    row[j] = F::from_f64(mean - self.own * total);
                }
            }
            if let (Some((factor, lattice)), Some(q)) = (self.other, q) {
                // ln s of q, from its message.
                let mut shift = vec![F::ZERO; next];
                let la = match q.entered {
                    Some(entered) => {
                        add(&mut shift, lattice.steps.column_shifts(t));
                        entered
                    }
                    None => {
                        lattice.add_node(place, t + 1, &mut shift);
                        q.forward
                    }
                };
                let scale = la.scale(place, t + 1) - q.forward.scale(place, t);
                for ((x, &shift), &la) in row.iter_mut().zip(&shift).zip(la.row(place, t + 1)) {
                    if la > F::NEG_INFINITY {
                        *x = F::from_f64(x.to_f64() - factor * (la.to_f64() + scale - shift.to_f64()));
                    }
                }
            }
        });
        directed
    }

    /// gₜ = u + extra + Σ c·la, 0 where p has no weight.
    fn gain(&self, place: usize, t: usize, parts: &[Part<'_, F>], before: &Rows<F>, row: &mut [F]) {
        row.copy_from_slice(before.row(place, t));
        self.add_extra(place, t, row);
        for (factor, _, view) in parts {
            let factor = F::from_f64(*factor);
            for (x, &la) in row.iter_mut().zip(view.forward.row(place, t)) {
                *x += if la > F::NEG_INFINITY { factor * la } else { F::ZERO };
            }
        }
    }

    /// E[D after | leaving layer t] of every place and state, from that of entering layer t + 1.
    pub(super) fn retreat(
        &self,
        t: usize,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        logs: &Logs<'_, F>,
        after: &Rows<F>,
    ) -> Vec<F> {
        let count = self.p.layout.active(t + 1);
        let (size, next) = self.p.steps.shape(t);
        let (mut plain, mut weighted) = (vec![F::ZERO; count * next], vec![F::ZERO; count * next]);
        each(&mut plain, next, |place, row| {
            self.p.entering(p, place, t + 1, row);
            normalise(row);
        });
        each(&mut weighted, next, |place, row| self.loss(place, t + 1, p, q, after, row));
        let (logs_w, mut input) = (plain.clone(), plain);
        each(&mut input, next, |_, row| F::exp_in_place(row));
        let losses = weighted.clone();
        weighted.iter_mut().zip(&input).for_each(|(h, &w)| *h *= w);
        let (mut output, mut directed) = (vec![F::ZERO; count * size], vec![F::ZERO; count * size]);
        self.p.steps.multiply(None, Some(Product { t, count, input: &weighted, output: &mut output }));
        let product = Product { t, count, input: &input, output: &mut directed };
        self.p.steps.multiply_directed(logs, None, Some(product));
        each(&mut directed, size, |place, row| {
            let lb = p.backward.row(place, t);
            let mut sums = lb.to_vec();
            F::exp_in_place(&mut sums);
            let own = F::from_f64(self.own);
            let loss = &output[place * size..][..size];
            for (i, x) in row.iter_mut().enumerate() {
                // Without any weight it does not matter, but must be a number.
                *x = if sums[i] > F::ZERO { (*x + loss[i]) / sums[i] - own * lb[i] } else { F::ZERO };
            }
            let w = &logs_w[place * next..][..next];
            let doubtful = self.p.doubtful(t, w, &sums);
            if !doubtful.is_empty() {
                let (mut terms, mut direction) = (vec![F::ZERO; next], vec![F::ZERO; next]);
                let h = &losses[place * next..][..next];
                for &i in &doubtful {
                    let i = i as usize;
                    self.p.steps.log_row(t, i, &mut terms);
                    add(&mut terms, w);
                    logs.fill(t, Index::Range(i..i + 1), Index::Range(0..next), &mut direction);
                    let (total, mean) = average(&terms, |j| h[j].to_f64() + direction[j].to_f64());
                    row[i] = F::from_f64(mean - self.own * total);
                }
            }
            if let (Some((factor, _)), Some(q)) = (self.other, q) {
                for (x, &lb) in row.iter_mut().zip(q.backward.row(place, t)) {
                    *x += if lb > F::NEG_INFINITY { F::from_f64(-factor) * lb } else { F::ZERO };
                }
            }
        });
        directed
    }

    /// hₜ = v + extra + Σ c·w with w's largest entry 1, 0 where there is no weight.
    fn loss(
        &self,
        place: usize,
        t: usize,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        after: &Rows<F>,
        row: &mut [F],
    ) {
        let mut w = vec![F::ZERO; row.len()];
        row.copy_from_slice(after.row(place, t));
        if p.entering.is_none() {
            self.add_extra(place, t, row);
        }
        let q = self.other.zip(q).map(|((factor, lattice), messages)| (factor, lattice, messages));
        for (factor, lattice, messages) in std::iter::once((self.own, self.p, p)).chain(q) {
            if factor != 0.0 {
                lattice.entering(messages, place, t, &mut w);
                normalise(&mut w);
                let factor = F::from_f64(factor);
                for (x, &w) in row.iter_mut().zip(&w) {
                    *x += if w > F::NEG_INFINITY { factor * w } else { F::ZERO };
                }
            }
        }
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
            let [p, q, before] = &rows;
            let q = self.other.map(|_| q);
            for t in start..(start + length).min(steps) {
                for place in layout.active(t + 1)..layout.active(t) {
                    let b = layout.sequence(place);
                    (values[b], log_partition[b]) =
                        self.at_end(place, t, View::chain(p), q.map(View::chain), before);
                }
            }
            let next = if start == 0 { vec![0, start + length] } else { vec![start + length] };
            for t in next.into_iter().filter(|&t| t < steps && starts.len() > 1) {
                kept.push(self.layer(&rows, t));
            }
            last = Some(rows);
        }
        self.mark_missing(&logs, &mut values, clock)?;
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
            for t in (layers.start..layers.end - 1).rev() {
                clock.check()?;
                let rows = self.retreat(t, &p, q.as_ref(), &logs, &after);
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
        for t in layers.start..layers.end - 1 {
            clock.check()?;
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

    /// Cov(D, 1[xₜ = i]) of sequence b; zeros where E[D] is not finite or there is no weight.
    pub fn node_covariance(&self, directed: &Directed<F>, values: &[f64], b: usize, t: usize, out: &mut [F]) {
        if directed.p.log_partition[b] == f64::NEG_INFINITY || !values[b].is_finite() {
            return out.fill(F::ZERO);
        }
        let place = self.p.layout.place(b);
        self.p.node_marginals(&directed.p, b, t, out);
        let mut extra = vec![F::ZERO; out.len()];
        self.add_extra(place, t, &mut extra);
        let (before, after) = (directed.before.row(place, t), directed.after.row(place, t));
        for (i, x) in out.iter_mut().enumerate() {
            let mut d = before[i].to_f64() + extra[i].to_f64() + after[i].to_f64() - values[b];
            for (factor, messages) in self.with_factors(directed) {
                let log =
                    messages.forward.row(place, t)[i].to_f64() + messages.backward.row(place, t)[i].to_f64();
                d += if log > f64::NEG_INFINITY { factor * (log - messages.norm(place, t)) } else { 0.0 };
            }
            *x *= F::from_f64(d);
        }
    }

    fn with_factors<'b>(&self, directed: &'b Directed<F>) -> impl Iterator<Item = (f64, &'b Messages<F>)> {
        let q = self.other.map(|other| other.0).zip(directed.q.as_ref());
        std::iter::once((self.own, &directed.p)).chain(q).filter(|(factor, _)| *factor != 0.0)
    }

    /// Adds Σ_b cotangent_b · Cov(D, edges) for the boundaries of the window.
    pub fn add_edge_covariance(
        &self,
        directed: &Directed<F>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let logs = self.logs();
        let lattice = self.p;
        let pairs = lattice.pairs(&directed.p, |b| cotangent[b] != 0.0 && values[b].is_finite());
        let most = (1usize << 23) / lattice.layout.largest().max(1);
        let (p, q) = (&directed.p, directed.q.as_ref());
        let parts = self.parts(View::of(p), q.map(View::of));
        for chunk in pairs.chunk_by(|a, b| (lattice.steps.shared() && logs.shared()) || a.0 == b.0) {
            for chunk in chunk.chunks(most.max(256)) {
                clock.check()?;
                let t = chunk[0].0;
                let (size, next) = lattice.steps.shape(t);
                let (mut left, mut right) =
                    (vec![F::ZERO; 2 * chunk.len() * size], vec![F::ZERO; 2 * chunk.len() * next]);
                let mut scales = vec![0.0; chunk.len()];
                let (plain, gains) = left.split_at_mut(chunk.len() * size);
                let (losses, weights) = right.split_at_mut(chunk.len() * next);
                lattice.gather(p, chunk, plain, weights, &mut scales);
                let mut extreme = Vec::new();
                for (k, &(t, place)) in chunk.iter().enumerate() {
                    let (g, h) = (&mut gains[k * size..][..size], &mut losses[k * next..][..next]);
                    let w = &mut weights[k * next..][..next];
                    let b = lattice.layout.sequence(place);
                    if scales[k] > lattice.largest_log_weight(next) {
                        w.fill(F::ZERO);
                        extreme.push((t, place));
                        continue;
                    }
                    self.gain(place, t, &parts, &directed.before, g);
                    g.iter_mut().zip(&plain[k * size..]).for_each(|(g, &a)| *g *= a);
                    self.tail(directed, values[b], place, t, h);
                    let factor = F::from_f64(cotangent[b]);
                    w.iter_mut().for_each(|w| *w *= factor);
                    h.iter_mut().zip(&*w).for_each(|(h, &w)| *h *= w);
                }
                // a·g with w, a with w·h: the stacked rows; then a with w through ln M.
                let (count, steps) = (chunk.len(), lattice.steps);
                steps.add_gradient(t, count, &left[..count * size], &right[..count * next], None, gradient);
                steps.add_gradient(t, count, &left[count * size..], &right[count * next..], None, gradient);
                let (plain, weights) = (&left[..count * size], &right[count * next..]);
                steps.add_gradient(t, count, plain, weights, Some(&logs), gradient);
                for (t, place) in extreme {
                    let b = lattice.layout.sequence(place);
                    let (mut g, mut h, mut d) =
                        (vec![F::ZERO; size], vec![F::ZERO; next], vec![F::ZERO; next]);
                    self.gain(place, t, &parts, &directed.before, &mut g);
                    self.tail(directed, values[b], place, t, &mut h);
                    lattice.extreme_edges(p, t, place, |i, row, _| {
                        logs.fill(t, Index::Range(i..i + 1), Index::Range(0..next), &mut d);
                        for ((x, &d), &h) in row.iter_mut().zip(&d).zip(&h) {
                            let total = g[i].to_f64() + d.to_f64() + h.to_f64();
                            *x = F::from_f64(if *x > F::ZERO {
                                cotangent[b] * total * x.to_f64()
                            } else {
                                0.0
                            });
                        }
                        lattice.edges.add_row(t, i, row, gradient);
                    });
                }
            }
        }
        Ok(())
    }

    /// vₜ₊₁ + extra + Σ c·(ln w with its norm) − E[D]: what an edge into t + 1 has to add.
    fn tail(&self, directed: &Directed<F>, value: f64, place: usize, t: usize, row: &mut [F]) {
        row.copy_from_slice(directed.after.row(place, t + 1));
        if directed.p.entering.is_none() {
            self.add_extra(place, t + 1, row);
        }
        let mut w = vec![F::ZERO; row.len()];
        let q = self.other.map(|other| (other.0, other.1)).zip(directed.q.as_ref());
        let q = q.map(|((factor, lattice), messages)| (factor, lattice, messages));
        let mut shift = -value;
        for (factor, lattice, messages) in std::iter::once((self.own, self.p, &directed.p)).chain(q) {
            if factor == 0.0 {
                continue;
            }
            shift += factor * lattice.log_weights(messages, place, t, &mut w);
            let factor = F::from_f64(factor);
            for (x, &w) in row.iter_mut().zip(&w) {
                *x += if w > F::NEG_INFINITY { factor * w } else { F::ZERO };
            }
        }
        let shift = F::from_f64(shift);
        row.iter_mut().for_each(|x| *x += shift);
    }

    /// Adds Σ_b cotangent_b · Σₜ ξₜ of p to a gradient in the form of q's transitions.
    pub fn add_edges_of_p_to_q(
        &self,
        directed: &Directed<F>,
        values: &[f64],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let Some((_, q)) = self.other else { return Ok(()) };
        let quotient = Logs {
            parts: vec![(F::ONE, &self.p.edges, self.p.steps), (-F::ONE, &q.edges, q.steps)],
            missing: AtomicBool::new(false),
        };
        let quotient = Quotient(quotient);
        let shared = self.p.steps.shared() && q.steps.shared();
        let pairs = self.p.pairs(&directed.p, |b| cotangent[b] != 0.0 && values[b].is_finite());
        let most = (1usize << 24) / self.p.layout.largest().max(1);
        for chunk in pairs.chunk_by(|a, b| shared || a.0 == b.0) {
            for chunk in chunk.chunks(most.max(256)) {
                clock.check()?;
                let t = chunk[0].0;
                let (size, next) = self.p.steps.shape(t);
                let (mut left, mut right) =
                    (vec![F::ZERO; chunk.len() * size], vec![F::ZERO; chunk.len() * next]);
                let mut scales = vec![0.0; chunk.len()];
                self.p.gather(&directed.p, chunk, &mut left, &mut right, &mut scales);
                // M_q must not vanish where M_p does not.
                let safe = q.least(t) > 0.5 * F::TINY.to_f64().ln();
                let mut extreme = Vec::new();
                for (k, &(t, place)) in chunk.iter().enumerate() {
                    let row = &mut right[k * next..][..next];
                    let factor = cotangent[self.p.layout.sequence(place)];
                    if !safe || scales[k] > self.p.largest_log_weight(next) {
                        row.fill(F::ZERO);
                        extreme.push((t, place, factor));
                    } else {
                        row.iter_mut().for_each(|x| *x *= F::from_f64(factor));
                    }
                }
                if extreme.len() < chunk.len() {
                    q.steps.add_gradient(t, chunk.len(), &left, &right, Some(&quotient), gradient);
                }
                for (t, place, factor) in extreme {
                    self.p.extreme_edges(&directed.p, t, place, |i, row, _| {
                        row.iter_mut().for_each(|x| *x *= F::from_f64(factor));
                        q.edges.add_row(t, i, row, gradient);
                    });
                }
            }
        }
        Ok(())
    }
}

/// log Σ exp and the mean of `value` under the weights, of terms that are logarithms.
fn average<F: Real>(terms: &[F], value: impl Fn(usize) -> f64) -> (f64, f64) {
    let total = F::log_sum_exp(terms);
    if total == f64::NEG_INFINITY {
        return (0.0, 0.0);
    }
    let weighted = terms.iter().enumerate().filter(|(_, x)| **x > F::NEG_INFINITY);
    (total, weighted.map(|(i, x)| (x.to_f64() - total).exp() * value(i)).sum())
}

fn copied<F: Real>(layout: &super::layout::Layout, rows: &Rows<F>, t: usize) -> Rows<F> {
    if rows.is_none() {
        return Rows::none();
    }
    let mut layer = Rows::new(layout, t..t + 1, F::ZERO);
    layer.copy_layer(rows, t, layout.active(t));
    layer
}
