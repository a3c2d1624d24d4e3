//! Relaxed samples (Gumbel-softmax), drawn backward, and their gradient.
//!
//! A segment that ends at t draws its state from p(j | later segments) ∝ outₜ(j) Mₜ(j, next) and its start
//! from p(s | t, j) ∝ inₛ(j) exp score(s, t, j), each as the argmax of log p + Gumbel noise. Together they
//! form an exact sample. The relaxed values are softmax((log p + g)/τ). In a chain, each segment has one
//! position: out is la, and no length is drawn.
//!
//! Cotangents are propagated through both softmaxes to the messages, to the transitions into hard states and
//! to the scores of segments, and then through the forward recursion,
//!
//!   V_out,ₜ(i) += aₜ(i) Σⱼ Mₜ(i, j) V_in,ₜ₊₁(j)/sⱼ with s = aₜM,   V_in,ₛ(j) += P(s | t, j) V_out,ₜ(j):
//!
//! aₜ(i) M(i, j) V_in,ₜ₊₁(j)/sⱼ is the gradient with respect to the transitions, and P(s | t, j) V_out,ₜ(j)
//! the gradient with respect to score(s, t, j). On a chain, V = V_in = V_out is the gradient with respect to
//! the node scores. The recursion is linear, so one sweep serves all samples of a sequence. Hard states and
//! lengths are constants.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML
//! (2022), Algorithm 4.

use super::entries::Listed;
use super::layout::{PositionRows, Rows};
use super::messages::{Lattice, each, normalise};
use super::nodes::add;
use super::segments::origin;
use super::steps::Product;
use crate::error::Result;
use crate::numeric::{self, Real};
use crate::query::sequence::TransitionGradient;
use crate::random::Stream;
use crate::run::Clock;

/// A segment and the softmaxes from which it was drawn.
pub(crate) struct RelaxedSegment<F> {
    /// Its last position.
    pub end: usize,
    /// Its state, as an index into the states in which a segment may end here.
    pub state: usize,
    /// Its number of positions.
    pub length: usize,
    /// One value per state in which a segment may end here.
    pub states: Vec<F>,
    /// One value per length, from 1 on; empty for a chain.
    pub lengths: Vec<f64>,
}

impl<F: Real> Lattice<'_, F> {
    /// One sample of sequence b, last segment first. The sequence must have a path; `forward` holds its
    /// messages.
    pub fn relax(
        &self,
        forward: &PositionRows<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
    ) -> Vec<RelaxedSegment<F>> {
        let mut segments = Vec::new();
        self.walk(forward, b, temperature, random, |segment, _| segments.push(segment));
        segments
    }

    /// Calls `visit` with each segment, last first, and with the index of the state entered after it.
    fn walk(
        &self,
        forward: &PositionRows<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
        mut visit: impl FnMut(RelaxedSegment<F>, Option<usize>),
    ) {
        let place = self.layout.place(b);
        let (mut open, mut next) = (self.layout.length(place), None);
        let mut noise = Vec::new();
        while open > 0 {
            let t = open - 1;
            let mut states = vec![F::ZERO; self.layout.size(t)];
            if let Some(j) = next {
                let listed = self.steps.log_column(t, j, &mut states);
                listed.spread(&mut states, self.layout.size(t));
            }
            add(&mut states, forward.row(place, t));
            normalise(&mut states);
            let state = choose(&mut states, temperature, random, &mut noise);
            let (mut lengths, mut length) = (Vec::new(), 1);
            if let Some(entered) = &forward.entered {
                let reference = entered.scale(place, t);
                self.each_ending(place, t, |s, scores| {
                    let from = entered.row(place, s)[self.origin(s, t, state)];
                    lengths.push(scores[state] + from.to_f64() + entered.scale(place, s) - reference);
                });
                normalise(&mut lengths);
                length = 1 + choose(&mut lengths, temperature, random, &mut noise);
            }
            let behind = next.replace(self.origin(open - length, t, state));
            visit(RelaxedSegment { end: t, state, length, states, lengths }, behind);
            open -= length;
        }
    }

    /// Zero cotangents for the messages.
    pub fn message_cotangents(&self) -> PositionRows<F> {
        self.forward_rows(None, &(0..self.layout.steps()))
    }

    /// Propagates the cotangent of one relaxed sample through its softmaxes. The sample is drawn again from
    /// the same stream. `cotangent` returns the cotangents of the states and lengths of the segment that ends
    /// at t; `score` receives the cotangent of score(s, t, k).
    #[allow(clippy::too_many_arguments)]
    pub fn relax_vjp<'c>(
        &self,
        forward: &PositionRows<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
        cotangent: impl Fn(usize) -> (&'c [F], &'c [F]),
        to: &mut PositionRows<F>,
        gradient: &mut TransitionGradient<F>,
        mut score: impl FnMut((usize, usize, usize), f64),
    ) {
        let place = self.layout.place(b);
        self.walk(forward, b, temperature, random, |segment, behind| {
            let RelaxedSegment { end, state, mut states, mut lengths, .. } = segment;
            let (of_states, of_lengths) = cotangent(end);
            through(&mut states, of_states, temperature);
            add(to.left.row_mut(place, end), &states);
            if let Some(j) = behind {
                self.edges.add_column(end, j, (Listed(None), &states), gradient);
            }
            through(&mut lengths, of_lengths, temperature);
            for (d, &weight) in lengths.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let s = end - d;
                to.entered_mut().row_mut(place, s)[self.origin(s, end, state)] += F::from_f64(weight);
                score((s, end, state), weight);
            }
        });
    }

    /// Propagates cotangents of the messages (before the shifts of the transitions) back through their
    /// recursion. For a chain, `rows` become the gradient with respect to the node scores. For segments,
    /// `scores` receives for sequence b and end t the gradient with respect to score(s, t, ·) for s = t, t −
    /// 1, …
    pub fn forward_vjp(
        &self,
        forward: &PositionRows<F>,
        rows: &mut PositionRows<F>,
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
        mut scores: impl FnMut(usize, usize, &[Vec<f64>]),
    ) -> Result<()> {
        let layout = &self.layout;
        for t in (0..layout.steps()).rev() {
            clock.check()?;
            if t + 1 < layout.steps() {
                let next = rows.entered_mut().layer_mut(t + 1, layout.active(t + 1)).0.to_vec();
                self.step_vjp(t, &forward.left, &next, &mut rows.left, gradient);
            }
            let PositionRows { left, entered: Some(entered) } = &mut *rows else { continue };
            for place in 0..layout.active(t) {
                let cotangent = left.row(place, t);
                if cotangent.iter().all(|x| *x == F::ZERO) {
                    continue;
                }
                let weights = self.spread(forward, place, t, cotangent);
                for (d, weights) in weights.iter().enumerate() {
                    let origins = self.origins(t - d, t);
                    let row = entered.row_mut(place, t - d);
                    for (k, &weight) in weights.iter().enumerate() {
                        row[origin(origins, k)] += F::from_f64(weight);
                    }
                }
                scores(layout.sequence(place), t, &weights);
            }
        }
        Ok(())
    }

    /// P(s | t, k) times the cotangent of outₜ(k), for s = t, t − 1, …
    fn spread(&self, forward: &PositionRows<F>, place: usize, t: usize, cotangent: &[F]) -> Vec<Vec<f64>> {
        let (out, scale) = (forward.row(place, t), forward.scale(place, t));
        let mut weights = Vec::new();
        self.each_ending(place, t, |s, scores| {
            let (origins, from) = (self.origins(s, t), forward.entered().row(place, s));
            let shift = forward.entered().scale(place, s) - scale;
            let mut logs = scores.to_vec();
            self.add_row_shift(place, t, &mut logs);
            for (k, x) in logs.iter_mut().enumerate() {
                let log = *x + from[origin(origins, k)].to_f64() + shift;
                // Terms of weight zero have no gradient, and there out is −∞ itself.
                let some = log > f64::NEG_INFINITY && cotangent[k] != F::ZERO;
                *x = if some { (log - out[k].to_f64()).exp() * cotangent[k].to_f64() } else { 0.0 };
            }
            weights.push(logs);
        });
        weights
    }

    /// Propagates the cotangent `after` of the messages that arrive across boundary t (one row per place) to
    /// the messages that leave it, in `rows`, and to the transitions.
    fn step_vjp(
        &self,
        t: usize,
        forward: &Rows<F>,
        after: &[F],
        rows: &mut Rows<F>,
        gradient: &mut TransitionGradient<F>,
    ) {
        let (count, (size, next)) = (self.layout.active(t + 1), self.steps.shape(t));
        let mut left = vec![F::ZERO; count * size];
        each(&mut left, size, |place, row| {
            row.copy_from_slice(forward.row(place, t));
            F::exp_in_place(row);
        });
        let mut right = vec![F::ZERO; count * next];
        self.steps.multiply(Some(Product { t, count, input: &left, output: &mut right }), None);
        let mut doubtful = Vec::new();
        for place in 0..count {
            let sums = &mut right[place * next..(place + 1) * next];
            for j in self.doubtful(t, forward.row(place, t), sums) {
                let j = j as usize;
                sums[j] = F::ZERO;
                doubtful.push((place, j));
            }
            for (s, &v) in sums.iter_mut().zip(&after[place * next..]) {
                *s = if *s > F::ZERO { v / *s } else { F::ZERO };
            }
        }
        self.steps.add_gradient(t, count, &left, &right, None, gradient);
        let mut output = vec![F::ZERO; count * size];
        self.steps.multiply(None, Some(Product { t, count, input: &right, output: &mut output }));
        for place in 0..count {
            let row = rows.row_mut(place, t).iter_mut().zip(&left[place * size..]);
            row.zip(&output[place * size..]).for_each(|((x, &a), &y)| *x += a * y);
        }
        // The terms of sums that underflow are weighed in the log domain.
        let mut weights = Vec::new();
        for (place, j) in doubtful {
            let v = after[place * next + j];
            let listed = self.steps.log_column(t, j, &mut weights);
            listed.add(&mut weights, forward.row(place, t));
            let total = F::log_sum_exp(&weights);
            if v == F::ZERO || total == f64::NEG_INFINITY {
                continue;
            }
            for x in &mut weights {
                *x = F::from_f64((x.to_f64() - total).exp() * v.to_f64());
            }
            let row = rows.row_mut(place, t);
            weights.iter().enumerate().for_each(|(k, &x)| row[listed.at(k)] += x);
            self.edges.add_column(t, j, (listed, &weights), gradient);
        }
    }
}

/// Replaces `values`, a softmax at this temperature, by the gradient with respect to its arguments.
fn through<G: Real, F: Real>(values: &mut [G], cotangent: &[F], temperature: f64) {
    let mean: f64 = values.iter().zip(cotangent).map(|(x, c)| x.to_f64() * c.to_f64()).sum();
    for (x, c) in values.iter_mut().zip(cotangent) {
        *x = G::from_f64(x.to_f64() * (c.to_f64() - mean) / temperature);
    }
}

/// Replaces log-probabilities by the softmax of their sum with Gumbel noise. Returns the index of the
/// maximum.
fn choose<F: Real>(row: &mut [F], temperature: f64, random: &mut Stream, noise: &mut Vec<f64>) -> usize {
    gumbel(random, row.len(), noise);
    // In double precision: noise and logits are added before they are rounded.
    let (mut best, mut at) = (f64::NEG_INFINITY, 0);
    for (i, (x, g)) in row.iter().zip(&mut *noise).enumerate() {
        *g += x.to_f64();
        if *g > best {
            (best, at) = (*g, i);
        }
    }
    for (x, g) in row.iter_mut().zip(&*noise) {
        *x = F::from_f64((g - best) / temperature);
    }
    F::exp_in_place(row);
    let total: f64 = row.iter().map(|x| x.to_f64()).sum();
    let factor = F::from_f64(1.0 / total);
    row.iter_mut().for_each(|x| *x *= factor);
    at
}

/// noise ← −ln(−ln u).
fn gumbel(random: &mut Stream, count: usize, noise: &mut Vec<f64>) {
    noise.clear();
    // Inside (0, 1), so that both logarithms are finite.
    noise.extend((0..count).map(|_| random.uniform() + 0.5 * f64::EPSILON / 2.0));
    numeric::ln_in_place(noise);
    noise.iter_mut().for_each(|x| *x = -*x);
    numeric::ln_in_place(noise);
    noise.iter_mut().for_each(|x| *x = -*x);
}
