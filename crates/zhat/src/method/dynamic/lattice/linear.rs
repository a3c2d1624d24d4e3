//! Messages in the linear domain, used if no significant accuracy is lost.
//!
//! With Eₜ = exp(Fₜ − max Fₜ) and scales stored beside the rows,
//!
//!   forward  aₜ₊₁ = (aₜ·Mₜ) ∘ Eₜ₊₁,   backward bₜ = Mₜ·wₜ₊₁,  wₜ₊₁ = Eₜ₊₁ ∘ bₜ₊₁
//!
//! where a and w are divided by their largest entry. This needs one exponential per entry and no logarithm,
//! and products are written directly to their destination. For a few hundred states, the log domain costs as
//! much as the products.
//!
//! An entry of a or w loses at most N·TINY·2^`HEADROOM_BITS` as long as the largest entry before the division
//! is at least 2^−`HEADROOM_BITS`. An entry of a product then has full precision if it is above
//! 4·N²·TINY·2^`HEADROOM_BITS`/EPSILON. If an entry is smaller (strong couplings, zeros, or Z = 0), the
//! computation starts over in the log domain (`messages`).

use crate::numeric::parallel::prelude::*;

use super::gradient::gathered;
use super::layout::Rows;
use super::messages::{Lattice, PARALLEL, each_row};
use super::steps::Product;
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::{Aligned, Real};
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

/// log₂ of how far below 1 the largest entry of a weighted row may be.
const HEADROOM_BITS: i32 = 30;

/// With more states, products dominate the time and the linear domain gains nothing.
const MOST_STATES: usize = 4096;

/// The messages of all layers, and log Z of each sequence in the order of the batch.
pub(crate) struct Linear<F> {
    /// ln of the divisor of E, for each sequence and position.
    shifts: Vec<f64>,
    /// a.
    forward: Rows<F>,
    /// b.
    backward: Rows<F>,
    /// Σᵢ aₜ(i)·bₜ(i) for each position and place.
    norms: Vec<Vec<f64>>,
    pub log_partition: Vec<f64>,
}

impl<F: Real> Lattice<'_, F> {
    /// True if the linear domain is likely to be faster.
    pub fn linear(&self) -> bool {
        let stored = self.edges.sets.is_none() && matches!(self.edges.transitions, Transitions::Shared(_));
        self.segments.is_none() && stored && self.layout.largest() <= MOST_STATES
    }

    /// log Z of each sequence, or `None` if too much accuracy might be lost.
    pub fn linear_log_partitions(&self, clock: &Clock<'_>) -> Result<Option<Vec<f64>>> {
        let (batch, size) = (self.layout.batch(), self.layout.largest());
        let mut log_partition = vec![f64::NEG_INFINITY; batch];
        let (mut rows, mut next) = (Aligned::zeros(batch * size), Aligned::zeros(batch * size));
        let (mut weights, mut shifts) = (Aligned::zeros(batch * size), vec![0.0; batch]);
        let mut scales = vec![0.0; batch];
        rows.fill(F::ONE);
        for t in 0..self.layout.steps() {
            clock.step("forward messages", t, self.layout.steps())?;
            let count = self.layout.active(t);
            if t > 0 {
                let input = &rows[..count * size];
                self.steps.multiply(Some(Product { t: t - 1, count, input, output: &mut next }), None);
                std::mem::swap(&mut rows, &mut next);
            }
            let (weights, shifts) = (&mut weights[..count * size], &mut shifts[..count]);
            each_row(weights, shifts, size, |place, row, shift| *shift = self.node_weights(place, t, row));
            let arrive = |place: usize, row: &mut [F], scale: &mut f64| {
                let weights = &weights[place * size..(place + 1) * size];
                *scale += shifts[place] + self.weigh(weights, row);
            };
            each_row(&mut rows[..count * size], &mut scales[..count], size, arrive);
            if scales[..count].iter().any(|scale| scale.is_nan()) {
                return Ok(None);
            }
            for place in self.layout.active(t + 1)..count {
                let row = &rows[place * size..(place + 1) * size];
                log_partition[self.layout.sequence(place)] = scales[place] + total(row);
            }
        }
        Ok(Some(log_partition))
    }

    /// All messages, or `None` if too much accuracy might be lost. Stores E in `weights`, a B×T×N array that
    /// may have more positions than the sequences.
    pub fn sweep_linear(&self, weights: &mut [F], clock: &Clock<'_>) -> Result<Option<Linear<F>>> {
        let (steps, size) = (self.layout.steps(), self.layout.largest());
        let mut forward = Rows::unset(&self.layout, 0..steps);
        let mut backward = Rows::unset(&self.layout, 0..steps);
        let mut shifts = vec![0.0; weights.len() / size];
        let room = shifts.len() / self.layout.batch();
        each_row(weights, &mut shifts, size, |at, row, shift| {
            let (place, t) = (self.layout.place(at / room), at % room);
            if t < self.layout.length(place) {
                *shift = self.node_weights(place, t, row);
            }
        });
        let node = |place: usize, t: usize| {
            let at = self.layout.sequence(place) * room + t;
            (&weights[at * size..(at + 1) * size], shifts[at])
        };
        let (rows, scales) = forward.layer_mut(0, self.layout.active(0));
        rows.fill(F::ONE);
        let arrive = |t: usize| {
            move |place: usize, row: &mut [F], scale: &mut f64| {
                let (weights, shift) = node(place, t);
                *scale += shift + self.weigh(weights, row);
            }
        };
        each_row(rows, scales, size, arrive(0));
        if scales.iter().any(|scale| scale.is_nan()) {
            return Ok(None);
        }
        for place in 0..self.layout.batch() {
            backward.row_mut(place, self.layout.length(place) - 1).fill(F::ONE);
        }
        let room = self.layout.active(1) * size;
        let (mut leaving, mut product) = (Aligned::zeros(room), Aligned::zeros(room));
        let mut scales = vec![0.0; self.layout.active(1)];
        // Step s of both directions. The backward step is counted from the end of each sequence.
        for s in 0..steps.saturating_sub(1) {
            clock.step("messages", s, steps)?;
            let count = self.layout.active(s + 1);
            let (leaving, product) = (&mut leaving[..count * size], &mut product[..count * size]);
            let scales = &mut scales[..count];
            let t = |place: usize| self.layout.length(place) - 2 - s;
            each_row(leaving, scales, size, |place, row, scale| {
                let t = t(place) + 1;
                let (weights, shift) = node(place, t);
                row.copy_from_slice(backward.row(place, t));
                *scale = backward.scale(place, t) + shift + self.weigh(weights, row);
            });
            let (before, after) = forward.layers_mut(s, count);
            let ahead = Product { t: s, count, input: before.0, output: &mut *after.0 };
            let back = Product { t: s, count, input: leaving, output: &mut *product };
            self.steps.multiply(Some(ahead), Some(back));
            after.1.copy_from_slice(before.1);
            each_row(after.0, after.1, size, arrive(s + 1));
            if after.1.iter().chain(&*scales).any(|scale| scale.is_nan()) {
                return Ok(None);
            }
            for (place, row) in product.chunks_exact(size).enumerate() {
                backward.row_mut(place, t(place)).copy_from_slice(row);
                backward.set_scale(place, t(place), scales[place]);
            }
        }
        // The other layers were checked before the next product.
        let floor = self.floor();
        if (0..self.layout.batch()).any(|place| F::least(backward.row(place, 0)) < floor) {
            return Ok(None);
        }
        let norm = |t: usize| {
            let of = |place: usize| F::dot(forward.row(place, t), backward.row(place, t));
            (0..self.layout.active(t)).map(of).collect::<Vec<f64>>()
        };
        let norms: Vec<Vec<f64>> = (0..steps).into_par_iter().with_min_len(8).map(norm).collect();
        let end = |b: usize| {
            let place = self.layout.place(b);
            let t = self.layout.length(place) - 1;
            forward.scale(place, t) + norms[t][place].ln()
        };
        let log_partition = (0..self.layout.batch()).map(end).collect();
        Ok(Some(Linear { shifts, forward, backward, norms, log_partition }))
    }

    /// Below this threshold, an entry of a product may have lost more than rounding.
    fn floor(&self) -> F {
        let states = self.layout.largest() as f64;
        let lost = states * states * F::TINY.to_f64() * f64::from(HEADROOM_BITS).exp2();
        F::from_f64(4.0 * lost / F::EPSILON.to_f64())
    }

    /// row ← Eₜ of the sequence at a place; returns max Fₜ, or NaN if it is −∞.
    fn node_weights(&self, place: usize, t: usize, row: &mut [F]) -> f64 {
        let (scores, shifts) = self.node(place, t);
        let shift = F::max_sum(scores, shifts);
        if shift == F::NEG_INFINITY {
            return f64::NAN;
        }
        F::exp_sum(row, scores, shifts, shift);
        shift.to_f64()
    }

    /// row ← row ∘ weights with largest entry 1. Returns the logarithm of the divisor, or NaN if too much
    /// accuracy might be lost.
    fn weigh(&self, weights: &[F], row: &mut [F]) -> f64 {
        let (least, largest) = F::weigh_by(row, weights);
        if least < self.floor() || largest.to_f64() < f64::from(-HEADROOM_BITS).exp2() {
            return f64::NAN;
        }
        F::multiply(row, F::ONE / largest);
        largest.to_f64().ln()
    }

    /// P(xₜ = i) of sequence b, times `factor`.
    pub fn linear_node_marginals(
        &self,
        messages: &Linear<F>,
        b: usize,
        t: usize,
        factor: f64,
        out: &mut [F],
    ) {
        let place = self.layout.place(b);
        let factor = F::from_f64(factor / messages.norms[t][place]);
        F::multiply_pairs(out, messages.forward.row(place, t), messages.backward.row(place, t), factor);
    }

    /// Adds Σ_b cotangent_b · Σₜ ξₜ to the gradient with respect to the transitions: aₜᵀwₜ₊₁ ∘ M, in one
    /// product.
    pub fn add_linear_edge_marginals(
        &self,
        messages: &Linear<F>,
        weights: &[F],
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let boundaries = 0..self.layout.steps().saturating_sub(1);
        let crossing = |t: usize| (0..self.layout.active(t + 1)).map(move |place| (t, place));
        let pairs: Vec<(usize, usize)> = boundaries.flat_map(crossing).collect();
        let size = self.layout.largest();
        let room = messages.shifts.len() / self.layout.batch();
        let (mut left, mut right) = (Aligned::default(), Aligned::default());
        for chunk in pairs.chunks(gathered(size)) {
            clock.check()?;
            let len = chunk.len() * size;
            let (left, right) = (left.room(len), right.room(len));
            let gather = |left: &mut [F], right: &mut [F], &(t, place): &(usize, usize)| {
                left.copy_from_slice(messages.forward.row(place, t));
                let b = self.layout.sequence(place);
                let at = (b * room + t + 1) * size;
                // w as in the sweep: E ∘ b with largest entry 1, times the normalisation of ξ.
                let shift = messages.backward.scale(place, t) - messages.backward.scale(place, t + 1);
                let factor =
                    (messages.shifts[at / size] - shift).exp() * cotangent[b] / messages.norms[t][place];
                let after = messages.backward.row(place, t + 1);
                F::multiply_pairs(right, after, &weights[at..at + size], F::from_f64(factor));
            };
            if len >= PARALLEL {
                let rows = left.par_chunks_exact_mut(size).zip(right.par_chunks_exact_mut(size));
                rows.zip(chunk).for_each(|((left, right), pair)| gather(left, right, pair));
            } else {
                let rows = left.chunks_exact_mut(size).zip(right.chunks_exact_mut(size));
                rows.zip(chunk).for_each(|((left, right), pair)| gather(left, right, pair));
            }
            self.steps.add_gradient(chunk[0].0, chunk.len(), left, right, None, gradient);
        }
        Ok(())
    }
}

/// ln Σᵢ xᵢ.
fn total<F: Real>(row: &[F]) -> f64 {
    row.iter().map(|x| x.to_f64()).sum::<f64>().ln()
}
