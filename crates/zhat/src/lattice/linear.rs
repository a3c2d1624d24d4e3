//! Messages in the linear domain, where nothing of account is lost.
//!
//! With Eₜ = exp(Fₜ − max Fₜ) and scales kept beside the rows,
//!
//!   forward  aₜ₊₁ = (aₜ·Mₜ) ∘ Eₜ₊₁,   backward bₜ = Mₜ·wₜ₊₁,  wₜ₊₁ = Eₜ₊₁ ∘ bₜ₊₁
//!
//! with a and w divided by their largest entry. That takes one exponential for an entry and no logarithm, and products are written where they
//! stay: for a few hundred states the log domain costs as much as the products.
//!
//! An entry of a or w loses at most N·TINY·2^`ROOM` as long as the largest entry before the division is at least 2^−`ROOM`; an entry of a
//! product then has all its digits where it is above 4·N²·TINY·2^`ROOM`/EPSILON. Whoever finds less (strong couplings, zeros, no weight at
//! all) starts over in the log domain (`messages`).

use rayon::prelude::*;

use super::gradient::gathered;
use super::layout::Rows;
use super::messages::{Lattice, PARALLEL, each_row};
use super::steps::Product;
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::{Aligned, Real};
use crate::run::Clock;
use crate::sequence::TransitionGradient;

/// The logarithm to base 2 of how far below 1 the largest entry of a weighed row may be.
const ROOM: i32 = 30;

/// More states are not worth it: the products are all that counts.
const MOST_STATES: usize = 4096;

/// The messages of all layers, and log Z of each sequence in the order of the batch.
pub(crate) struct Linear<F> {
    /// a.
    forward: Rows<F>,
    /// b.
    backward: Rows<F>,
    /// Σᵢ aₜ(i)·bₜ(i) of each position and place.
    norms: Vec<Vec<f64>>,
    pub log_partition: Vec<f64>,
}

impl<F: Real> Lattice<'_, F> {
    /// True if it is worth a try.
    pub fn linear(&self) -> bool {
        let stored = self.edges.sets.is_none() && matches!(self.edges.transitions, Transitions::Shared(_));
        stored && self.layout.largest() <= MOST_STATES
    }

    /// log Z of each sequence, or nothing if too much might be lost.
    pub fn linear_log_partitions(&self, clock: &Clock<'_>) -> Result<Option<Vec<f64>>> {
        let (batch, size) = (self.layout.batch(), self.layout.largest());
        let mut log_partition = vec![f64::NEG_INFINITY; batch];
        let (mut rows, mut next) = (Aligned::zeros(batch * size), Aligned::zeros(batch * size));
        let mut scales = vec![0.0; batch];
        rows.fill(F::ONE);
        for t in 0..self.layout.steps() {
            clock.check()?;
            let count = self.layout.active(t);
            if t > 0 {
                let input = &rows[..count * size];
                self.steps.multiply(Some(Product { t: t - 1, count, input, output: &mut next }), None);
                std::mem::swap(&mut rows, &mut next);
            }
            if !self.arrive_linear(t, &mut rows[..count * size], &mut scales[..count]) {
                return Ok(None);
            }
            for place in self.layout.active(t + 1)..count {
                let row = &rows[place * size..(place + 1) * size];
                log_partition[self.layout.sequence(place)] = scales[place] + total(row);
            }
        }
        Ok(Some(log_partition))
    }

    /// All messages, or nothing if too much might be lost.
    pub fn sweep_linear(&self, clock: &Clock<'_>) -> Result<Option<Linear<F>>> {
        let (steps, size) = (self.layout.steps(), self.layout.largest());
        let mut forward = Rows::unset(&self.layout, 0..steps);
        let mut backward = Rows::unset(&self.layout, 0..steps);
        let (rows, scales) = forward.layer_mut(0, self.layout.active(0));
        rows.fill(F::ONE);
        if !self.arrive_linear(0, rows, scales) {
            return Ok(None);
        }
        for place in 0..self.layout.batch() {
            backward.row_mut(place, self.layout.length(place) - 1).fill(F::ONE);
        }
        let room = self.layout.active(1) * size;
        let (mut weights, mut product) = (Aligned::zeros(room), Aligned::zeros(room));
        let mut scales = vec![0.0; self.layout.active(1)];
        // Step s of both directions, the backward one counted from each sequence's end.
        for s in 0..steps.saturating_sub(1) {
            clock.check()?;
            let count = self.layout.active(s + 1);
            let (weights, product) = (&mut weights[..count * size], &mut product[..count * size]);
            let scales = &mut scales[..count];
            let t = |place: usize| self.layout.length(place) - 2 - s;
            each_row(weights, scales, size, |place, row, scale| {
                *scale = self.weights(&backward, place, t(place) + 1, row);
            });
            let (before, after) = forward.layers_mut(s, count);
            let ahead = Product { t: s, count, input: before.0, output: &mut *after.0 };
            let back = Product { t: s, count, input: weights, output: &mut *product };
            self.steps.multiply(Some(ahead), Some(back));
            after.1.copy_from_slice(before.1);
            let whole = self.arrive_linear(s + 1, after.0, after.1);
            if !whole || scales.iter().any(|scale| scale.is_nan()) {
                return Ok(None);
            }
            for (place, row) in product.chunks_exact(size).enumerate() {
                backward.row_mut(place, t(place)).copy_from_slice(row);
                backward.set_scale(place, t(place), scales[place]);
            }
            if F::least(product) < self.floor() {
                return Ok(None);
            }
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
        Ok(Some(Linear { forward, backward, norms, log_partition }))
    }

    /// Below this an entry of a product may have lost more than rounding.
    fn floor(&self) -> F {
        let states = self.layout.largest() as f64;
        let lost = states * states * F::TINY.to_f64() * f64::from(ROOM).exp2();
        F::from_f64(4.0 * lost / F::EPSILON.to_f64())
    }

    /// a of layer t from products; the scales go from those of the layer before to those of this one. False if too much might be lost.
    fn arrive_linear(&self, t: usize, rows: &mut [F], scales: &mut [f64]) -> bool {
        let (size, floor) = (self.layout.largest(), self.floor());
        each_row(rows, scales, size, |place, row, scale| {
            let (least, shift) = self.weigh(place, t, row);
            *scale += if least < floor { f64::NAN } else { shift };
        });
        !scales.iter().any(|scale| scale.is_nan())
    }

    /// row ← row ∘ Eₜ, largest entry 1; returns the least entry before and the logarithm of what the row was divided by, NaN if too
    /// much might be lost.
    fn weigh(&self, place: usize, t: usize, row: &mut [F]) -> (F, f64) {
        let (scores, shifts) = self.node(place, t);
        let shift = F::max_sum(scores, shifts);
        if shift == F::NEG_INFINITY {
            return (F::ZERO, f64::NAN);
        }
        let (least, largest) = F::weigh_exp(row, scores, shifts, shift);
        if largest.to_f64() < f64::from(-ROOM).exp2() {
            return (least, f64::NAN);
        }
        F::multiply(row, F::ONE / largest);
        (least, shift.to_f64() + largest.to_f64().ln())
    }

    /// row ← wₜ, and its scale.
    fn weights(&self, backward: &Rows<F>, place: usize, t: usize, row: &mut [F]) -> f64 {
        row.copy_from_slice(backward.row(place, t));
        backward.scale(place, t) + self.weigh(place, t, row).1
    }

    /// P(xₜ = i) of sequence b, times a factor.
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

    /// Adds Σ_b cotangent_b · Σₜ ξₜ to the gradient with respect to the transitions: aₜᵀwₜ₊₁ ∘ M, one product.
    pub fn add_linear_edge_marginals(
        &self,
        messages: &Linear<F>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let boundaries = 0..self.layout.steps().saturating_sub(1);
        let crossing = |t: usize| (0..self.layout.active(t + 1)).map(move |place| (t, place));
        let pairs: Vec<(usize, usize)> = boundaries.flat_map(crossing).collect();
        let size = self.layout.largest();
        let (mut left, mut right) = (Aligned::default(), Aligned::default());
        for chunk in pairs.chunks(gathered(size)) {
            clock.check()?;
            let len = chunk.len() * size;
            let (left, right) = (left.room(len), right.room(len));
            let gather = |((left, right), &(t, place)): ((&mut [F], &mut [F]), &(usize, usize))| {
                left.copy_from_slice(messages.forward.row(place, t));
                self.weights(&messages.backward, place, t + 1, right);
                let factor = cotangent[self.layout.sequence(place)] / messages.norms[t][place];
                F::multiply(right, F::from_f64(factor));
            };
            if len >= PARALLEL {
                let rows = left.par_chunks_exact_mut(size).zip(right.par_chunks_exact_mut(size));
                rows.zip(chunk).for_each(gather);
            } else {
                left.chunks_exact_mut(size).zip(right.chunks_exact_mut(size)).zip(chunk).for_each(gather);
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
