//! Recursion for the expectations before and after each position.

use std::ops::Range;

use super::logs::Logs;
use super::{Direction, Part};
use crate::error::Result;
use crate::method::dynamic::lattice::entries::{Entries, Index};
use crate::method::dynamic::lattice::gradient::gathered;
use crate::method::dynamic::lattice::layout::{PositionRows, Rows};
use crate::method::dynamic::lattice::messages::{Messages, each, normalise};
use crate::method::dynamic::lattice::nodes::add;
use crate::method::dynamic::lattice::steps::Product;
use crate::numeric::Real;
use crate::run::Clock;

impl<F: Real> Direction<'_, F> {
    /// Expectations before the positions of a window, starting from those before entering its first.
    pub(super) fn go_forward(
        &self,
        window: Range<usize>,
        p: &PositionRows<F>,
        q: Option<&PositionRows<F>>,
        logs: &Logs<'_, F>,
        before: &mut PositionRows<F>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let layout = &self.p.layout;
        let boundaries = window.start..window.end.min(layout.steps().saturating_sub(1));
        // aₜ·(M∘D) is stored in the rows of layer t + 1 until these are computed.
        let send = |t: usize, place: usize, row: &mut [F]| row.copy_from_slice(p.row(place, t));
        self.through_logs(true, boundaries, logs, before.entered_mut(), send, clock)?;
        for t in window {
            clock.step("forward expectations", t, layout.steps())?;
            self.before_leaving(t, p, q, before);
            if t + 1 < layout.steps() {
                let directed = before.entered_mut().layer_mut(t + 1, layout.active(t + 1)).0.to_vec();
                let rows = self.advance(t, p, q, logs, &before.left, directed);
                before.entered_mut().set_layer(t + 1, &rows);
            }
        }
        Ok(())
    }

    /// Expectations after the positions of a window, starting from those of the positions behind it.
    pub(super) fn go_backward(
        &self,
        window: Range<usize>,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        logs: &Logs<'_, F>,
        after: &mut PositionRows<F>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let layout = &self.p.layout;
        let boundaries = window.start..window.end.min(layout.steps().saturating_sub(1));
        // (M∘D)·wₜ₊₁ is stored in the rows of layer t until these are computed.
        let send = |t: usize, place: usize, row: &mut [F]| {
            self.p.entering(p, place, t + 1, row);
            normalise(row);
        };
        self.through_logs(false, boundaries, logs, &mut after.left, send, clock)?;
        for t in window.rev() {
            clock.step("backward expectations", layout.steps() - 1 - t, layout.steps())?;
            if t + 1 < layout.steps() {
                let directed = after.left.layer_mut(t, layout.active(t + 1)).0.to_vec();
                let rows = self.retreat(t, p, q, logs, after.entered(), directed);
                after.left.set_layer(t, &rows);
            }
            self.after_entering(t, p, q, after);
        }
        Ok(())
    }

    /// Writes the products of exp `send(t)` with M∘D for each boundary t: forward into the rows of layer t +
    /// 1, backward into the rows of layer t. If the boundaries share their tables, all are computed at once.
    fn through_logs(
        &self,
        forward: bool,
        boundaries: Range<usize>,
        logs: &Logs<'_, F>,
        rows: &mut Rows<F>,
        send: impl Fn(usize, usize, &mut [F]) + Sync,
        clock: &Clock<'_>,
    ) -> Result<()> {
        self.for_each_chunk(boundaries, logs, clock, |t, chunk| {
            let (before, after) = self.p.steps.shape(t);
            let (from, to) = if forward { (before, after) } else { (after, before) };
            let (mut input, mut output) =
                (vec![F::ZERO; chunk.len() * from], vec![F::ZERO; chunk.len() * to]);
            each(&mut input, from, |k, row| {
                let (t, place) = chunk[k];
                send(t, place, row);
                F::exp_in_place(row);
            });
            let product = Some(Product { t, count: chunk.len(), input: &input, output: &mut output });
            let (ahead, back) = if forward { (product, None) } else { (None, product) };
            self.p.steps.multiply_directed(logs, ahead, back);
            for (&(t, place), row) in chunk.iter().zip(output.chunks_exact(to)) {
                rows.row_mut(place, if forward { t + 1 } else { t }).copy_from_slice(row);
            }
        })
    }

    /// Calls `work` with chunks of (boundary, place) pairs that may share a product.
    fn for_each_chunk(
        &self,
        boundaries: Range<usize>,
        logs: &Logs<'_, F>,
        clock: &Clock<'_>,
        mut work: impl FnMut(usize, &[(usize, usize)]),
    ) -> Result<()> {
        let layout = &self.p.layout;
        let pairs: Vec<(usize, usize)> =
            boundaries.flat_map(|t| (0..layout.active(t + 1)).map(move |place| (t, place))).collect();
        let shared = self.p.steps.shared() && logs.shared();
        for chunk in pairs.chunk_by(|a, b| shared || a.0 == b.0) {
            for chunk in chunk.chunks(gathered(layout.largest())) {
                clock.check()?;
                work(chunk[0].0, chunk);
                // Products end early if the run must stop.
                clock.check()?;
            }
        }
        Ok(())
    }

    /// E[D before | entering layer t + 1] for each place and state, from the values for leaving layer t.
    /// `directed` holds the products of aₜ with M∘D.
    fn advance(
        &self,
        t: usize,
        p: &PositionRows<F>,
        q: Option<&PositionRows<F>>,
        logs: &Logs<'_, F>,
        before: &Rows<F>,
        mut directed: Vec<F>,
    ) -> Vec<F> {
        let count = self.p.layout.active(t + 1);
        let (size, next) = self.p.steps.shape(t);
        let parts = self.parts(p, q);
        let mut input = vec![F::ZERO; 2 * count * size];
        let (plain, weighted) = input.split_at_mut(count * size);
        self.p.leave(t, &p.left, plain);
        each(weighted, size, |place, row| {
            self.gain(place, t, &parts, before, row);
            row.iter_mut().zip(&plain[place * size..]).for_each(|(g, &a)| *g *= a);
        });
        let mut output = vec![F::ZERO; 2 * count * next];
        let product = Product { t, count: 2 * count, input: &input, output: &mut output };
        self.p.steps.multiply(Some(product), None);
        let (sums, gains) = output.split_at(count * next);
        each(&mut directed, next, |place, row| {
            let (s, gain) = (&sums[place * next..][..next], &gains[place * next..][..next]);
            let mut logs_s = s.to_vec();
            F::ln_in_place(&mut logs_s);
            let own = F::from_f64(self.own);
            for (j, x) in row.iter_mut().enumerate() {
                // With weight zero the value does not matter, but it must not be NaN.
                *x = if s[j] > F::ZERO { (*x + gain[j]) / s[j] - own * logs_s[j] } else { F::ZERO };
            }
            let doubtful = self.p.doubtful(t, p.row(place, t), s);
            if !doubtful.is_empty() {
                let (mut g, mut terms, mut direction) = (vec![F::ZERO; size], Vec::new(), Vec::new());
                self.gain(place, t, &parts, before, &mut g);
                for &j in &doubtful {
                    let j = j as usize;
                    let listed = self.p.steps.log_column(t, j, &mut terms);
                    listed.add(&mut terms, p.row(place, t));
                    direction.resize(terms.len(), F::ZERO);
                    logs.fill(t, listed.index(size), Index::Range(j..j + 1), &mut direction);
                    let value = |k: usize| g[listed.at(k)].to_f64() + direction[k].to_f64();
                    let (total, mean) = average(&terms, value);
                    row[j] = F::from_f64(mean - self.own * total);
                }
            }
            if let (Some((factor, lattice)), Some(q)) = (self.other, q) {
                // ln s of q, from its message.
                let mut shift = vec![F::ZERO; next];
                match q.entered {
                    Some(_) => add(&mut shift, lattice.steps.column_shifts(t)),
                    None => lattice.add_node(place, t + 1, &mut shift),
                }
                let la = q.entered();
                let scale = la.scale(place, t + 1) - q.scale(place, t);
                for ((x, &shift), &la) in row.iter_mut().zip(&shift).zip(la.row(place, t + 1)) {
                    if la > F::NEG_INFINITY {
                        *x = F::from_f64(x.to_f64() - factor * (la.to_f64() + scale - shift.to_f64()));
                    }
                }
            }
        });
        directed
    }

    /// gₜ = u + extra + Σ c·la; 0 where p has weight zero.
    pub(super) fn gain(
        &self,
        place: usize,
        t: usize,
        parts: &[Part<'_, F>],
        before: &Rows<F>,
        row: &mut [F],
    ) {
        row.copy_from_slice(before.row(place, t));
        self.add_extra(place, t, row);
        for (factor, _, rows) in parts {
            let factor = F::from_f64(*factor);
            for (x, &la) in row.iter_mut().zip(rows.row(place, t)) {
                *x += if la > F::NEG_INFINITY { factor * la } else { F::ZERO };
            }
        }
    }

    /// E[D after | leaving layer t] for each place and state, from the values for entering layer t + 1.
    /// `directed` holds the products of wₜ₊₁ with M∘D.
    fn retreat(
        &self,
        t: usize,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        logs: &Logs<'_, F>,
        after: &Rows<F>,
        mut directed: Vec<F>,
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
        let mut output = vec![F::ZERO; count * size];
        self.p.steps.multiply(None, Some(Product { t, count, input: &weighted, output: &mut output }));
        each(&mut directed, size, |place, row| {
            let lb = p.backward.row(place, t);
            let mut sums = lb.to_vec();
            F::exp_in_place(&mut sums);
            let own = F::from_f64(self.own);
            let loss = &output[place * size..][..size];
            for (i, x) in row.iter_mut().enumerate() {
                // With weight zero the value does not matter, but it must not be NaN.
                *x = if sums[i] > F::ZERO { (*x + loss[i]) / sums[i] - own * lb[i] } else { F::ZERO };
            }
            let w = &logs_w[place * next..][..next];
            let doubtful = self.p.doubtful(t, w, &sums);
            if !doubtful.is_empty() {
                let (mut terms, mut direction) = (Vec::new(), Vec::new());
                let h = &losses[place * next..][..next];
                for &i in &doubtful {
                    let i = i as usize;
                    let listed = self.p.steps.log_row(t, i, &mut terms);
                    listed.add(&mut terms, w);
                    direction.resize(terms.len(), F::ZERO);
                    logs.fill(t, Index::Range(i..i + 1), listed.index(next), &mut direction);
                    let value = |k: usize| h[listed.at(k)].to_f64() + direction[k].to_f64();
                    let (total, mean) = average(&terms, value);
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

    /// hₜ = v + extra + Σ c·w, with w scaled to largest entry 1; 0 where the weight is zero.
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
        if self.p.segments.is_none() {
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
}

/// log Σ exp of `terms`, and the mean of `value` under the weights exp(terms).
fn average<F: Real>(terms: &[F], value: impl Fn(usize) -> f64) -> (f64, f64) {
    let total = F::log_sum_exp(terms);
    if total == f64::NEG_INFINITY {
        return (0.0, 0.0);
    }
    let weighted = terms.iter().enumerate().filter(|(_, x)| **x > F::NEG_INFINITY);
    (total, weighted.map(|(i, x)| (x.to_f64() - total).exp() * value(i)).sum())
}
