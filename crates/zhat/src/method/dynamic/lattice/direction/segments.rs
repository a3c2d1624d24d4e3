//! Directions on semi-Markov chains: from one side of a position to the other, through segments.
//!
//! The same as on chains, with one more conditional per segment: log p(s | t, j) = inₛ + score − outₜ for the
//! start of a segment that ends at t, and log p(t | s, j) for the end of a segment that starts at s. The
//! covariance of a segment is μ(s, t, j)(u_in,ₛ(j) + ln μ(s, t, j) + v_out,ₜ(j) − E[D]).

use super::{Directed, Direction};
use crate::method::dynamic::lattice::layout::PositionRows;
use crate::method::dynamic::lattice::messages::{Lattice, Messages};
use crate::method::dynamic::lattice::segments::origin;
use crate::numeric::Real;

impl<'a, F: Real> Direction<'a, F> {
    /// Both lattices, p first, with their coefficients and messages.
    fn both<T>(&self, p: T, q: Option<T>) -> Vec<(f64, &'a Lattice<'a, F>, T)> {
        let q = self.other.zip(q).map(|((factor, lattice), messages)| (factor, lattice, messages));
        std::iter::once((self.own, self.p, p)).chain(q).collect()
    }

    /// E[D before | leaving t] from the values for entering the segments that end at t. In a chain they are
    /// the same.
    pub(super) fn before_leaving(
        &self,
        t: usize,
        p: &PositionRows<F>,
        q: Option<&PositionRows<F>>,
        before: &mut PositionRows<F>,
    ) {
        let PositionRows { left: leaving, entered: Some(entering) } = before else { return };
        let size = self.p.layout.size(t);
        for place in 0..self.p.layout.active(t) {
            let mut means = vec![0.0; size];
            let mut weights: Vec<Vec<f64>> = Vec::new();
            let mut values: Vec<Vec<f64>> = Vec::new();
            for (k, (factor, lattice, messages)) in self.both(p, q).into_iter().enumerate() {
                let entered = messages.entered();
                let (row, mut segment) = (messages.row(place, t), 0);
                lattice.each_ending(place, t, |s, scores| {
                    let mut logs = scores.to_vec();
                    lattice.add_row_shift(place, t, &mut logs);
                    let shift = entered.scale(place, s) - messages.scale(place, t);
                    let (origins, from) = (lattice.origins(s, t), entered.row(place, s));
                    for (i, (x, out)) in logs.iter_mut().zip(row).enumerate() {
                        let total = *x + from[origin(origins, i)].to_f64() + shift;
                        *x = if total > f64::NEG_INFINITY { total - out.to_f64() } else { total };
                    }
                    if k == 0 {
                        weights.push(logs.iter().map(|x| x.exp()).collect());
                        let u = entering.row(place, s);
                        values.push((0..size).map(|i| u[origin(origins, i)].to_f64()).collect());
                    }
                    add_finite(&mut values[segment], factor, &logs);
                    segment += 1;
                });
            }
            average(&weights, &values, &mut means);
            leaving.row_mut(place, t).iter_mut().zip(&means).for_each(|(x, &y)| *x = F::from_f64(y));
        }
    }

    /// E[D after | entering s] from the values for leaving the segments that start at s. In a chain they are
    /// the same.
    pub(super) fn after_entering(
        &self,
        s: usize,
        p: &Messages<F>,
        q: Option<&Messages<F>>,
        after: &mut PositionRows<F>,
    ) {
        let PositionRows { left: leaving, entered: Some(entering) } = after else { return };
        let size = self.p.entered().size(s);
        for place in 0..self.p.layout.active(s) {
            // One entry per end: (state entered, weight, value) for each state left.
            let mut ends: Vec<(Vec<usize>, Vec<f64>, Vec<f64>)> = Vec::new();
            for (k, (factor, lattice, messages)) in self.both(p, q).into_iter().enumerate() {
                let follow = messages.backward.entered();
                let mut segment = 0;
                lattice.each_starting(place, s, |t, scores| {
                    let mut logs = scores.to_vec();
                    lattice.add_row_shift(place, t, &mut logs);
                    let shift = messages.backward.scale(place, t) - follow.scale(place, s);
                    let origins = lattice.origins(s, t);
                    for (i, (x, lb)) in logs.iter_mut().zip(messages.backward.row(place, t)).enumerate() {
                        let j = origin(origins, i);
                        let column = if s > 0 { lattice.steps.column_shifts(s - 1)[j].to_f64() } else { 0.0 };
                        let total = *x + lb.to_f64() + shift + column;
                        let out = follow.row(place, s)[j].to_f64();
                        *x = if total > f64::NEG_INFINITY { total - out } else { total };
                    }
                    if k == 0 {
                        let values = leaving.row(place, t);
                        let states = (0..logs.len()).map(|i| origin(origins, i)).collect();
                        let weights = logs.iter().map(|x| x.exp()).collect();
                        ends.push((states, weights, values.iter().map(|x| x.to_f64()).collect()));
                    }
                    add_finite(&mut ends[segment].2, factor, &logs);
                    segment += 1;
                });
            }
            let mut means = vec![0.0; size];
            for (states, weights, values) in &ends {
                for ((&j, &w), &value) in states.iter().zip(weights).zip(values) {
                    means[j] += if w > 0.0 { w * value } else { 0.0 };
                }
            }
            entering.row_mut(place, s).iter_mut().zip(&means).for_each(|(x, &y)| *x = F::from_f64(y));
        }
    }

    /// Calls `visit` with each end t and with Cov(D, a segment of state k from s to t) for sequence b, whose
    /// E[D] must be finite.
    pub fn segment_covariances(
        &self,
        directed: &Directed<F>,
        value: f64,
        b: usize,
        s: usize,
        mut visit: impl FnMut(usize, &[f64]),
    ) {
        let place = self.p.layout.place(b);
        let mut others: Vec<Vec<f64>> = Vec::new();
        if let (Some((factor, q)), Some(messages)) = (self.other, &directed.q) {
            q.segment_marginals(messages, b, s, |_, _, logs| {
                let mut scaled = vec![0.0; logs.len()];
                add_finite(&mut scaled, factor, logs);
                others.push(scaled);
            });
        }
        self.p.segment_marginals(&directed.p, b, s, |t, marginals, logs| {
            let origins = self.p.origins(s, t);
            let (before, after) = (directed.before.entered().row(place, s), directed.after.row(place, t));
            let covariance: Vec<f64> = (0..logs.len())
                .map(|k| {
                    if marginals[k] == 0.0 {
                        return 0.0;
                    }
                    let other = others.get(t - s).map_or(0.0, |row| row[k]);
                    let around = before[origin(origins, k)].to_f64() + after[k].to_f64();
                    marginals[k] * (around + self.own * logs[k] + other - value)
                })
                .collect();
            visit(t, &covariance);
        });
    }
}

/// values ← values + factor·logs, for finite logs.
fn add_finite(values: &mut [f64], factor: f64, logs: &[f64]) {
    if factor != 0.0 {
        for (x, &log) in values.iter_mut().zip(logs) {
            *x += if log > f64::NEG_INFINITY { factor * log } else { 0.0 };
        }
    }
}

fn average(weights: &[Vec<f64>], values: &[Vec<f64>], means: &mut [f64]) {
    for (weights, values) in weights.iter().zip(values) {
        for ((mean, &w), &value) in means.iter_mut().zip(weights).zip(values) {
            *mean += if w > 0.0 { w * value } else { 0.0 };
        }
    }
}
