//! Marginals of nodes and edges: the gradient of log Z.
//!
//! γₜ(i) = exp(laₜ(i) + lbₜ(i)) / norm and ξₜ(i, j) = aₜ(i) Mₜ(i, j) wₜ₊₁(j) / norm with the same norm, so
//! the rows of ξₜ sum to γₜ. Edge marginals are never computed one by one: their sum over positions and
//! sequences is M ∘ Σ aᵀw, one product. With a scaled to largest entry 1, it loses at most N·TINY·Σw. If w is
//! too large for that, the position is computed in the log domain, row by row.

use super::entries::Listed;
use super::messages::{Lattice, Messages, each_row};
use super::steps::scratch::SPARSE_GROUP;
use crate::error::Result;
use crate::numeric::{Aligned, Real};
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

/// Maximum count of numbers gathered for one product.
const GATHERED_NUMBERS: usize = 1 << 24;
/// A table of at most this many states stays in the cache. The gathered rows then should too, which also
/// avoids fresh memory.
const FEW_STATES: usize = 512;
const GATHERED_NUMBERS_FEW_STATES: usize = 1 << 15;
/// Minimum number of rows to gather.
const FEWEST_ROWS: usize = 128;

/// How many rows of `states` numbers to gather for a product.
pub(super) fn gathered(states: usize) -> usize {
    let numbers = if states <= FEW_STATES { GATHERED_NUMBERS_FEW_STATES } else { GATHERED_NUMBERS };
    (numbers / states.max(1)).max(FEWEST_ROWS)
}

/// The same for the gradient of the transitions. With factors of low rank, few rows suffice: each chunk reads
/// and writes N·R numbers. With sparse tables fewer suffice: each chunk reads and writes one number per entry.
pub(super) fn gathered_edges(states: usize, low_rank: bool, sparse: bool) -> usize {
    if sparse && states > FEW_STATES {
        return (GATHERED_NUMBERS / 8 / states).max(1).next_multiple_of(SPARSE_GROUP);
    }
    if low_rank && states > FEW_STATES {
        return (2 * GATHERED_NUMBERS / states).max(16);
    }
    gathered(states)
}

impl<F: Real> Lattice<'_, F> {
    /// P(xₜ = i) of sequence b; zeros if Z = 0.
    pub fn node_marginals(&self, messages: &Messages<F>, b: usize, t: usize, out: &mut [F]) {
        let place = self.layout.place(b);
        if messages.log_partition[b] == f64::NEG_INFINITY {
            return out.fill(F::ZERO);
        }
        let norm = F::from_f64(messages.norm(place, t));
        F::exp_sum(out, messages.forward.row(place, t), messages.backward.row(place, t), norm);
    }

    /// Adds Σ_b cotangent_b · Σₜ ξₜ to the gradient with respect to the transitions, for the boundaries of
    /// the window.
    pub fn add_edge_marginals(
        &self,
        messages: &Messages<F>,
        cotangent: &[f64],
        clock: &Clock<'_>,
        gradient: &mut TransitionGradient<F>,
    ) -> Result<()> {
        let pairs = self.pairs(messages, |b| cotangent[b] != 0.0);
        let low_rank = matches!(gradient, TransitionGradient::LowRank { .. });
        let sparse = matches!(gradient, TransitionGradient::Sparse { .. }) && self.edges.sets.is_none();
        let most = gathered_edges(self.layout.largest(), low_rank, sparse);
        let (mut left, mut right) = (Aligned::default(), Aligned::default());
        let mut scales = Vec::new();
        for chunk in pairs.chunk_by(|a, b| self.steps.shared() || a.0 == b.0) {
            for chunk in chunk.chunks(most) {
                clock.check()?;
                let t = chunk[0].0;
                let (before, after) = self.steps.shape(t);
                let left = left.room(chunk.len() * before);
                let right = right.room(chunk.len() * after);
                scales.resize(chunk.len(), 0.0);
                self.gather(messages, chunk, left, right, &mut scales);
                let mut extreme = Vec::new();
                for (k, &(t, place)) in chunk.iter().enumerate() {
                    let row = &mut right[k * after..(k + 1) * after];
                    if scales[k] > self.largest_log_weight(t, after) {
                        row.fill(F::ZERO);
                        extreme.push((t, place));
                    } else {
                        let factor = F::from_f64(cotangent[self.layout.sequence(place)]);
                        if factor != F::ONE {
                            row.iter_mut().for_each(|x| *x *= factor);
                        }
                    }
                }
                self.steps.add_gradient(t, chunk.len(), left, right, None, gradient);
                for (t, place) in extreme {
                    let factor = cotangent[self.layout.sequence(place)];
                    if self.add_extreme_low_rank(messages, (t, place), factor, gradient) {
                        continue;
                    }
                    let factor = F::from_f64(factor);
                    self.extreme_edges(messages, t, place, |i, listed, row| {
                        row.iter_mut().for_each(|x| *x *= factor);
                        self.edges.add_row(t, i, (listed, row), gradient);
                    });
                }
            }
        }
        Ok(())
    }

    /// Adds the gradient of one pair in the log domain, if the transitions have low rank.
    fn add_extreme_low_rank(
        &self,
        messages: &Messages<F>,
        (t, place): (usize, usize),
        factor: f64,
        gradient: &mut TransitionGradient<F>,
    ) -> bool {
        let Some(factors) = self.steps.low_rank(t) else { return false };
        let TransitionGradient::LowRank { left, right } = gradient else { return false };
        let mut weights = vec![F::ZERO; self.steps.shape(t).1];
        let shift = self.log_weights(messages, place, t, &mut weights);
        factors.add_log_gradient((messages.forward.row(place, t), &weights), shift, factor, left, right);
        true
    }

    /// The pairs (boundary of the window, place of a sequence that crosses it), for the wanted sequences with
    /// Z > 0.
    pub(super) fn pairs(
        &self,
        messages: &Messages<F>,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut pairs = Vec::new();
        for t in messages.window.clone() {
            for place in 0..self.layout.active(t + 1) {
                let b = self.layout.sequence(place);
                if messages.log_partition[b] > f64::NEG_INFINITY && wanted(b) {
                    pairs.push((t, place));
                }
            }
        }
        pairs
    }

    /// left ← aₜ, right ← wₜ₊₁ / norm for pairs of boundary and place. `scales` receives ln of the largest
    /// entry of w.
    pub(super) fn gather(
        &self,
        messages: &Messages<F>,
        pairs: &[(usize, usize)],
        left: &mut [F],
        right: &mut [F],
        scales: &mut [f64],
    ) {
        let (before, after) = (left.len() / pairs.len(), right.len() / pairs.len());
        each_row(left, scales, before, |k, row, _| {
            let (t, place) = pairs[k];
            row.copy_from_slice(messages.forward.row(place, t));
            F::exp_in_place(row);
        });
        each_row(right, scales, after, |k, row, scale| {
            let (t, place) = pairs[k];
            let shift = self.log_weights(messages, place, t, row);
            *scale = F::max(row).to_f64() + shift;
            F::lower(row, F::from_f64(-shift));
            F::exp_in_place(row);
        });
    }

    /// row ← ln wₜ₊₁. Returns the shift such that ξₜ(i, j) = exp(laₜ(i) + ln Mₜ(i, j) + row(j) + shift).
    pub(super) fn log_weights(&self, messages: &Messages<F>, place: usize, t: usize, row: &mut [F]) -> f64 {
        let scale = self.entering(messages, place, t + 1, row);
        scale - messages.backward.scale(place, t) - messages.norm(place, t)
    }

    /// Up to this value of the largest ln w, the loss N·Σw·TINY is below rounding.
    pub(super) fn largest_log_weight(&self, t: usize, size: usize) -> f64 {
        let room = F::EPSILON.to_f64().ln() - F::TINY.to_f64().ln();
        let products = self.steps.low_rank(t).map_or(1, |factors| 4 * factors.rank());
        room - 2.0 * (size as f64).ln() - (products as f64).ln() - 2.0
    }

    /// Calls `add` with i, the possible states after it and their ξₜ(i, ·) for each row of positive weight,
    /// computed in the log domain.
    pub(super) fn extreme_edges(
        &self,
        messages: &Messages<F>,
        t: usize,
        place: usize,
        mut add: impl FnMut(usize, Listed<'_>, &mut [F]),
    ) {
        let (before, after) = self.steps.shape(t);
        let (mut weights, mut row) = (vec![F::ZERO; after], Vec::new());
        let shift = self.log_weights(messages, place, t, &mut weights);
        let norm = messages.norm(place, t);
        for i in 0..before {
            let la = messages.forward.row(place, t)[i].to_f64();
            if la + messages.backward.row(place, t)[i].to_f64() - norm < F::TINY.to_f64().ln() {
                continue;
            }
            let listed = self.steps.log_row(t, i, &mut row);
            // In double precision: the terms may be far larger than their sum.
            for (k, x) in row.iter_mut().enumerate() {
                *x = F::from_f64(la + x.to_f64() + weights[listed.at(k)].to_f64() + shift);
            }
            F::exp_in_place(&mut row);
            add(i, listed, &mut row);
        }
    }
}
