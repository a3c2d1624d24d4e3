//! Relaxed segmentations (Gumbel-softmax), drawn backward, and their gradient.
//!
//! A segment that ends at t takes its state from p(j | what follows) ∝ outₜ(j) Mₜ(j, next), and its start from p(s | t, j) ∝
//! inₛ(j) exp score(s, t, j), each as the argmax of log p + Gumbel noise: together an exact draw. The relaxed ones are softmax((log p + g)/τ).
//! Cotangents go through both softmaxes to the messages, to the transitions into hard states and to the scores of segments, and on through
//! the forward recursion,
//!
//!   V_out,ₜ(j) += Σ_k P(j | k entered at t + 1) V_in,ₜ₊₁(k),   V_in,ₛ(j) += P(s | t, j) V_out,ₜ(j).
//!
//! The second product is also the gradient with respect to score(s, t, j). Hard states and lengths are constants. A chain is the case of
//! segments of one position.

use super::layout::Rows;
use super::messages::normalise;
use super::nodes::add;
use super::relaxed::choose;
use super::segment_windows::Ahead;
use super::segments::{SegmentLattice, origin};
use crate::error::Result;
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::random::Stream;
use crate::run::Clock;

/// A segment and the softmaxes that it was taken of.
pub(crate) struct RelaxedSegment<F> {
    /// Its last position.
    pub end: usize,
    /// Its state, as a number among those that may be left at its end.
    pub state: usize,
    /// How many positions it has.
    pub length: usize,
    /// A value for each state that may be left at its end.
    pub states: Vec<F>,
    /// A value for each length from 1 on.
    pub lengths: Vec<f64>,
}

/// What a cotangent has for the messages.
pub(crate) struct MessageCotangents<F> {
    left: Rows<F>,
    entered: Rows<F>,
}

impl<F: Real> SegmentLattice<'_, F> {
    /// One sample of sequence b, which must have a segmentation, the last segment first.
    pub fn relax(
        &self,
        ahead: &Ahead<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
    ) -> Vec<RelaxedSegment<F>> {
        let mut segments = Vec::new();
        self.walk(ahead, b, temperature, random, |segment, _| segments.push(segment));
        segments
    }

    /// Calls `visit` with every segment, the last first, and the number of the state entered behind it.
    fn walk(
        &self,
        ahead: &Ahead<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
        mut visit: impl FnMut(RelaxedSegment<F>, Option<usize>),
    ) {
        let place = self.base.layout.place(b);
        let (mut open, mut next) = (self.base.layout.length(place), None);
        let mut noise = Vec::new();
        while open > 0 {
            let t = open - 1;
            let mut states = vec![F::ZERO; self.base.layout.size(t)];
            if let Some(j) = next {
                self.base.steps.log_column(t, j, &mut states);
            }
            add(&mut states, ahead.forward.row(place, t));
            normalise(&mut states);
            let state = choose(&mut states, temperature, random, &mut noise);
            let mut lengths = Vec::new();
            let reference = ahead.entered.scale(place, t);
            self.each_ending(place, t, |s, scores| {
                let from = ahead.entered.row(place, s)[origin(self.segments.origins(s, t), state)];
                lengths.push(scores[state] + from.to_f64() + ahead.entered.scale(place, s) - reference);
            });
            normalise(&mut lengths);
            let length = 1 + choose(&mut lengths, temperature, random, &mut noise);
            let behind = next.replace(origin(self.segments.origins(open - length, t), state));
            visit(RelaxedSegment { end: t, state, length, states, lengths }, behind);
            open -= length;
        }
    }

    /// Cotangents of zero.
    pub fn message_cotangents(&self) -> MessageCotangents<F> {
        let steps = self.base.layout.steps();
        let left = Rows::new(&self.base.layout, 0..steps, F::ZERO);
        MessageCotangents { left, entered: Rows::new(&self.entered, 0..steps, F::ZERO) }
    }

    /// Takes the cotangent of one relaxed sample, drawn again from the same stream, through its softmaxes. `cotangent` gives that of the
    /// states and of the lengths of the segment that ends at t; `score` takes that with respect to score(s, t, k).
    #[allow(clippy::too_many_arguments)]
    pub fn relax_vjp<'c>(
        &self,
        ahead: &Ahead<F>,
        b: usize,
        temperature: f64,
        random: &mut Stream,
        cotangent: impl Fn(usize) -> (&'c [F], &'c [F]),
        to: &mut MessageCotangents<F>,
        gradient: &mut TransitionGradient<F>,
        mut score: impl FnMut((usize, usize, usize), f64),
    ) {
        let place = self.base.layout.place(b);
        self.walk(ahead, b, temperature, random, |segment, behind| {
            let RelaxedSegment { end, state, mut states, mut lengths, .. } = segment;
            let (of_states, of_lengths) = cotangent(end);
            through(&mut states, of_states, temperature);
            add(to.left.row_mut(place, end), &states);
            if let Some(j) = behind {
                self.base.edges.add_column(end, j, &states, gradient);
            }
            through(&mut lengths, of_lengths, temperature);
            for (d, &weight) in lengths.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                let s = end - d;
                let from = origin(self.segments.origins(s, end), state);
                to.entered.row_mut(place, s)[from] += F::from_f64(weight);
                score((s, end, state), weight);
            }
        });
    }

    /// Takes cotangents of the messages back through their recursion. `scores` takes, for sequence b and end t, the gradient with respect
    /// to score(s, t, ·) for s = t, t − 1, …
    pub fn forward_vjp(
        &self,
        ahead: &Ahead<F>,
        mut rows: MessageCotangents<F>,
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
        mut scores: impl FnMut(usize, usize, &[Vec<f64>]),
    ) -> Result<()> {
        let layout = &self.base.layout;
        for t in (0..layout.steps()).rev() {
            clock.check()?;
            if t + 1 < layout.steps() {
                let next = rows.entered.layer_mut(t + 1, layout.active(t + 1)).0.to_vec();
                self.base.step_vjp(t, &ahead.forward, &next, &mut rows.left, gradient);
            }
            for place in 0..layout.active(t) {
                let cotangent = rows.left.row(place, t);
                if cotangent.iter().all(|x| *x == F::ZERO) {
                    continue;
                }
                let weights = self.spread(ahead, place, t, cotangent);
                for (d, weights) in weights.iter().enumerate() {
                    let origins = self.segments.origins(t - d, t);
                    let row = rows.entered.row_mut(place, t - d);
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
    fn spread(&self, ahead: &Ahead<F>, place: usize, t: usize, cotangent: &[F]) -> Vec<Vec<f64>> {
        let (out, scale) = (ahead.forward.row(place, t), ahead.forward.scale(place, t));
        let mut weights = Vec::new();
        self.each_ending(place, t, |s, scores| {
            let (origins, from) = (self.segments.origins(s, t), ahead.entered.row(place, s));
            let shift = ahead.entered.scale(place, s) - scale;
            let mut logs = scores.to_vec();
            self.add_row_shift(place, t, &mut logs);
            for (k, x) in logs.iter_mut().enumerate() {
                let log = *x + from[origin(origins, k)].to_f64() + shift;
                // What has no weight has no gradient: there out is −∞ itself.
                let some = log > f64::NEG_INFINITY && cotangent[k] != F::ZERO;
                *x = if some { (log - out[k].to_f64()).exp() * cotangent[k].to_f64() } else { 0.0 };
            }
            weights.push(logs);
        });
        weights
    }
}

/// values, a softmax at this temperature, become the gradient with respect to its arguments.
fn through<G: Real, F: Real>(values: &mut [G], cotangent: &[F], temperature: f64) {
    let mean: f64 = values.iter().zip(cotangent).map(|(x, c)| x.to_f64() * c.to_f64()).sum();
    for (x, c) in values.iter_mut().zip(cotangent) {
        *x = G::from_f64(x.to_f64() * (c.to_f64() - mean) / temperature);
    }
}
