//! Covariances of a direction with nodes and edges, and the gradient with respect to q.

use super::logs::{Logs, Quotient};
use super::{Directed, Direction};
use crate::error::Result;
use crate::method::dynamic::lattice::entries::{Entries, Index};
use crate::method::dynamic::lattice::gradient::gathered;
use crate::method::dynamic::lattice::messages::Messages;
use crate::numeric::Real;
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;

impl<F: Real> Direction<'_, F> {
    /// Cov(D, 1[xₜ = i]) of sequence b; zeros if E[D] is not finite or Z = 0.
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
        let logs = self.logs(clock);
        let lattice = self.p;
        let pairs = lattice.pairs(&directed.p, |b| cotangent[b] != 0.0 && values[b].is_finite());
        let most = gathered(lattice.layout.largest());
        let (p, q) = (&directed.p, directed.q.as_ref());
        let parts = self.parts(&p.forward, q.map(|q| &q.forward));
        for chunk in pairs.chunk_by(|a, b| (lattice.steps.shared() && logs.shared()) || a.0 == b.0) {
            for chunk in chunk.chunks(most) {
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
                    if scales[k] > lattice.largest_log_weight(t, next) {
                        w.fill(F::ZERO);
                        extreme.push((t, place));
                        continue;
                    }
                    self.gain(place, t, &parts, &directed.before.left, g);
                    g.iter_mut().zip(&plain[k * size..]).for_each(|(g, &a)| *g *= a);
                    self.tail(directed, values[b], place, t, h);
                    let factor = F::from_f64(cotangent[b]);
                    w.iter_mut().for_each(|w| *w *= factor);
                    h.iter_mut().zip(&*w).for_each(|(h, &w)| *h *= w);
                }
                // The stacked rows are a·g with w and a with w·h; then follows a with w through ln M.
                let (count, steps) = (chunk.len(), lattice.steps);
                steps.add_gradient(t, count, &left[..count * size], &right[..count * next], None, gradient);
                steps.add_gradient(t, count, &left[count * size..], &right[count * next..], None, gradient);
                let (plain, weights) = (&left[..count * size], &right[count * next..]);
                steps.add_gradient(t, count, plain, weights, Some(&logs), gradient);
                for (t, place) in extreme {
                    let b = lattice.layout.sequence(place);
                    let (mut g, mut h, mut d) = (vec![F::ZERO; size], vec![F::ZERO; next], Vec::new());
                    self.gain(place, t, &parts, &directed.before.left, &mut g);
                    self.tail(directed, values[b], place, t, &mut h);
                    lattice.extreme_edges(p, t, place, |i, listed, row| {
                        d.resize(row.len(), F::ZERO);
                        logs.fill(t, Index::Range(i..i + 1), listed.index(next), &mut d);
                        for (k, (x, &d)) in row.iter_mut().zip(&d).enumerate() {
                            let total = g[i].to_f64() + d.to_f64() + h[listed.at(k)].to_f64();
                            *x = F::from_f64(if *x > F::ZERO {
                                cotangent[b] * total * x.to_f64()
                            } else {
                                0.0
                            });
                        }
                        lattice.edges.add_row(t, i, (listed, row), gradient);
                    });
                }
            }
        }
        clock.check()
    }

    /// vₜ₊₁ + extra + Σ c·(ln w with its norm) − E[D]: the contribution of the part after an edge into t + 1.
    fn tail(&self, directed: &Directed<F>, value: f64, place: usize, t: usize, row: &mut [F]) {
        row.copy_from_slice(directed.after.entered().row(place, t + 1));
        if self.p.segments.is_none() {
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
        let quotient =
            Logs { parts: vec![(F::ONE, &self.p.edges, self.p.steps), (-F::ONE, &q.edges, q.steps)], clock };
        let quotient = Quotient(quotient);
        let shared = self.p.steps.shared() && q.steps.shared();
        let pairs = self.p.pairs(&directed.p, |b| cotangent[b] != 0.0 && values[b].is_finite());
        let most = gathered(self.p.layout.largest());
        for chunk in pairs.chunk_by(|a, b| shared || a.0 == b.0) {
            for chunk in chunk.chunks(most) {
                clock.check()?;
                let t = chunk[0].0;
                let (size, next) = self.p.steps.shape(t);
                let (mut left, mut right) =
                    (vec![F::ZERO; chunk.len() * size], vec![F::ZERO; chunk.len() * next]);
                let mut scales = vec![0.0; chunk.len()];
                self.p.gather(&directed.p, chunk, &mut left, &mut right, &mut scales);
                // M_q must not underflow where M_p does not.
                let safe = q.least(t) > 0.5 * F::TINY.to_f64().ln();
                let mut extreme = Vec::new();
                for (k, &(t, place)) in chunk.iter().enumerate() {
                    let row = &mut right[k * next..][..next];
                    let factor = cotangent[self.p.layout.sequence(place)];
                    if !safe || scales[k] > self.p.largest_log_weight(t, next) {
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
                    self.p.extreme_edges(&directed.p, t, place, |i, listed, row| {
                        row.iter_mut().for_each(|x| *x *= F::from_f64(factor));
                        q.edges.add_row(t, i, (listed, row), gradient);
                    });
                }
            }
        }
        clock.check()
    }
}
