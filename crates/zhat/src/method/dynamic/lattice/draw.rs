//! Exact samples: messages backward once, then draws forward.
//!
//! x₀ ~ exp(F₀ + lb₀), xₜ₊₁ ~ Mₜ(xₜ, ·) exp(wₜ₊₁). Samples that stand in the same state share the law of their next one. Time O(N) for a
//! sample and position at most; the draws of a block come from its own stream.

use super::layout::Rows;
use super::messages::{Lattice, normalise};
use super::nodes::add;
use crate::error::Result;
use crate::numeric::Real;
use crate::random::Stream;
use crate::run::Clock;

/// Samples that share a stream.
pub(crate) const BLOCK: usize = 256;

/// The running sums of weights given by their logarithms.
pub(crate) struct Cumulative(Vec<f64>);

impl Cumulative {
    /// Sums exp of `logs`, which are normalised on the way.
    pub fn new<F: Real>(logs: &mut [F]) -> Self {
        normalise(logs);
        F::exp_in_place(logs);
        let mut total = 0.0;
        let sums = logs.iter().map(|x| {
            total += x.to_f64();
            total
        });
        Cumulative(sums.collect())
    }

    /// The index at u of [0, 1); one whose weight is not zero.
    pub fn at(&self, u: f64) -> usize {
        let total = self.0.last().copied().unwrap_or(0.0);
        let at = self.0.partition_point(|&sum| sum <= u * total);
        // Rounding can reach the total itself: then the last that has a weight.
        if at < self.0.len() { at } else { self.0.partition_point(|&sum| sum < total) }
    }
}

impl<F: Real> Lattice<'_, F> {
    /// The messages backward alone.
    pub fn sweep_backward(&self, clock: &Clock<'_>) -> Result<Rows<F>> {
        let steps = self.layout.steps();
        let mut backward = Rows::new(&self.layout, 0..steps, F::ZERO);
        self.backward(&mut backward, 0..steps, clock)?;
        Ok(backward)
    }

    /// F₀ + lb₀: the log weights of the first states of sequence b.
    pub fn first_weights(&self, backward: &Rows<F>, b: usize) -> Vec<F> {
        let place = self.layout.place(b);
        let mut row = backward.row(place, 0).to_vec();
        self.add_node(place, 0, &mut row);
        row
    }

    /// `count` paths of sequence b, which must have one.
    pub fn draw(
        &self,
        backward: &Rows<F>,
        b: usize,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let first = Cumulative::new(&mut self.first_weights(backward, b));
        let mut paths: Vec<Vec<usize>> = (0..count)
            .map(|_| {
                let mut path = Vec::with_capacity(length);
                path.push(first.at(random.uniform()));
                path
            })
            .collect();
        let mut order: Vec<usize> = (0..count).collect();
        let mut weights = Vec::new();
        let mut logs = Vec::new();
        for t in 0..length - 1 {
            clock.check()?;
            weights.clear();
            weights.extend_from_slice(backward.row(place, t + 1));
            self.add_node(place, t + 1, &mut weights);
            normalise(&mut weights);
            logs.resize(weights.len(), F::ZERO);
            let uniforms: Vec<f64> = (0..count).map(|_| random.uniform()).collect();
            let states: Vec<usize> = paths.iter().map(|path| path[t]).collect();
            order.sort_by_key(|&s| (states[s], s));
            for group in order.chunk_by(|&a, &b| states[a] == states[b]) {
                self.steps.log_row(t, states[group[0]], &mut logs);
                add(&mut logs, &weights);
                let law = Cumulative::new(&mut logs);
                group.iter().for_each(|&s| paths[s].push(law.at(uniforms[s])));
            }
        }
        Ok(paths)
    }
}
