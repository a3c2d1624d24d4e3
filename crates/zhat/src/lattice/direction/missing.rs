//! Where p has paths that q does not have: E_p[log q] is infinite there.

use std::sync::atomic::Ordering;

use super::Direction;
use super::logs::{Logs, Missing};
use crate::error::Result;
use crate::lattice::messages::{Lattice, Messages};
use crate::lattice::nodes::add;
use crate::lattice::steps::Product;
use crate::numeric::Real;
use crate::run::Clock;

impl<F: Real> Direction<'_, F> {
    /// E[D] is infinite where p has a path that q does not have.
    pub(super) fn mark_missing(
        &self,
        logs: &Logs<'_, F>,
        values: &mut [f64],
        clock: &Clock<'_>,
    ) -> Result<()> {
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
    pub(in crate::lattice) fn mark_missing_edges(&self, messages: &Messages<F>, values: &mut [f64]) {
        let Some((factor, q)) = self.other else { return };
        let missing = Missing(&q.edges);
        for t in messages.window.start..messages.window.end.min(self.p.layout.steps().saturating_sub(1)) {
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
}
