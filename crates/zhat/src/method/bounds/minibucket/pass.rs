//! The two sweeps through the mini-buckets: the forward sweep computes messages, the backward sweep computes
//! beliefs and improves the parameters.
//!
//! **Forward.** λ_r(others) = (Σ_{x_v} ψ_r(x)^{1/w_r})^{w_r}, where ψ_r is the product of the tables in r.
//! The product of all constants is the bound.
//!
//! **Backward.** b_r(x) = b_parent(others) · (ψ_r(x) / λ_r(others))^{1/w_r}. The derivative of the log bound
//! with respect to log ψ_r(x) is b_r(x), and with respect to w_r it is the conditional entropy H_r(x_v |
//! others). At the optimum, linked mini-buckets therefore have equal marginals on their common variables, and
//! all mini-buckets of a variable have the same conditional entropy (or weight 0). The shift s ↦ δ(s) of a
//! link multiplies one end by exp δ and divides the other by it, which leaves the model unchanged. With all
//! other mini-buckets fixed, log δ = (w_a w_b / (w_a + w_b)) · ln(b_b(s) / b_a(s)) would make the two ends
//! agree immediately. The beliefs are corrected for the shift before they are passed to the children.

use crate::numeric::parallel::prelude::*;

use super::plan::{Plan, axes};
use crate::error::Result;
use crate::method::exact::Projection;
use crate::method::exact::bucket::{Bucket, Domain, Reduce};
use crate::method::exact::scaled::{PRODUCT_SPAN, Scaled};
use crate::model::{FactorGraph, table};
use crate::numeric::{self, CompensatedSum};
use crate::run::Clock;

/// Limit on the log-ratio of beliefs, and so on the shift in one sweep.
const LARGEST_RATIO: f64 = 30.0;
/// Beliefs below this are replaced by this value.
const FLOOR: f64 = 1e-40;
/// Minimum distance of the weights from zero.
const LEAST_WEIGHT: f64 = 1e-3;
/// Negative weights stay above the negative of this.
const MOST_NEGATIVE: f64 = 20.0;

/// The side of Z that is bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// All weights positive: Hölder's inequality.
    Upper,
    /// The first mini-bucket of a variable has a weight above 1, the others have negative weights: the
    /// inequality is reversed.
    Lower,
}

/// The parameters to optimise.
#[derive(Clone, Debug)]
pub(crate) struct Parameters {
    pub side: Side,
    /// One per node; the weights of a variable sum to one.
    pub weights: Vec<f64>,
    /// log δ, one table per link.
    pub shifts: Vec<Vec<f64>>,
}

impl Parameters {
    /// Equal weights (for lower bounds, small negative ones) and zero shifts.
    pub fn new(plan: &Plan, side: Side) -> Self {
        let mut weights = vec![1.0; plan.nodes.len()];
        for group in plan.groups.iter().filter(|group| group.nodes.len() > 1) {
            let count = group.nodes.len() as f64;
            for r in group.nodes.clone() {
                weights[r] = match side {
                    Side::Upper => 1.0 / count,
                    Side::Lower if r == group.nodes.start => 2.0,
                    Side::Lower => -1.0 / (count - 1.0),
                };
            }
        }
        let len = |scope: &[usize]| scope.iter().map(|&u| plan.states[u]).product();
        let shifts = plan.links.iter().map(|link| vec![0.0; len(&link.scope)]).collect();
        Parameters { side, weights, shifts }
    }

    /// Σ max |log δ|: the increase in magnitude caused by the shifts.
    pub fn magnitude(&self) -> f64 {
        self.shifts.iter().map(|shift| shift.iter().fold(0.0, |m: f64, x| m.max(x.abs()))).sum()
    }
}

/// Step sizes of a backward sweep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The fraction of each shift that is applied, at most 1.
    pub shift: f64,
    /// The rate at which weights change; 0 keeps them fixed.
    pub weight: f64,
}

/// The messages of a forward sweep.
pub(crate) struct Messages {
    pub messages: Vec<Scaled>,
    /// The log bound.
    pub log_value: f64,
}

/// The factors of a graph, with axes in the order of a plan.
pub(crate) struct Sweeper<'p> {
    pub plan: &'p Plan,
    pub factors: Vec<Scaled>,
}

/// Results of the backward sweep at the mini-buckets of a variable.
struct Found {
    /// The marginals of the scopes of the children's messages.
    above: Vec<(usize, Vec<f64>)>,
    shifts: Vec<Vec<f64>>,
    weights: Vec<f64>,
}

impl<'p> Sweeper<'p> {
    /// Prepares the factors of the plan's graph.
    pub fn new(plan: &'p Plan, graph: &FactorGraph) -> Self {
        let mut place = vec![0; plan.variables.len()];
        plan.variables.iter().enumerate().for_each(|(i, &v)| place[v] = i);
        let factors = graph.factors().map(|factor| {
            let mut order: Vec<usize> = (0..factor.scope.len()).collect();
            order.sort_unstable_by_key(|&axis| place[factor.scope[axis]]);
            Scaled::from_log(table::permute(factor.log_values, &graph.lengths(factor.scope), &order), true)
        });
        Sweeper { plan, factors: factors.collect() }
    }

    /// The tables in node `r`, each with its variables other than the eliminated one.
    pub fn tables<'s>(
        &'s self,
        r: usize,
        messages: &'s [Scaled],
    ) -> impl Iterator<Item = (&'s Scaled, &'s [usize])> {
        let node = &self.plan.nodes[r];
        let factors = node.factors.iter().map(|&f| (&self.factors[f], &self.plan.scopes[f][1..]));
        let children = node.children.iter().map(|&c| (&messages[c], &self.plan.nodes[c].others[1..]));
        factors.chain(children)
    }

    fn bucket<'s>(&'s self, r: usize, parameters: &'s Parameters, messages: &'s [Scaled]) -> Bucket<'s> {
        let node = &self.plan.nodes[r];
        let weight = parameters.weights[r];
        let linear = weight == 1.0
            && node.links.is_empty()
            && self.tables(r, messages).all(|(table, _)| table.domain == Domain::Linear)
            && self.tables(r, messages).map(|(table, _)| table.span).sum::<f64>() <= PRODUCT_SPAN;
        let domain = if linear { Domain::Linear } else { Domain::Log };
        let lengths = self.plan.lengths(r);
        let mut bucket = Bucket::new(domain, lengths[0], lengths[1..].to_vec()).with_weight(weight);
        for (table, scope) in self.tables(r, messages) {
            bucket.push(table.values_in(domain), &axes(&node.others, scope));
        }
        for &(l, added) in &node.links {
            let shift = &parameters.shifts[l];
            let values =
                if added { shift.into() } else { shift.iter().map(|x| -x).collect::<Vec<f64>>().into() };
            bucket.push(values, &axes(&node.others, &self.plan.links[l].scope[1..]));
        }
        bucket.with_patterns()
    }

    /// The results of `work` for every variable of a level, in order. Small variables are processed in
    /// parallel with one thread each; large ones are processed one after the other with all threads, so that
    /// memory hardly depends on the number of threads.
    fn on_level<T: Send>(
        &self,
        level: &[usize],
        work: impl Fn(usize) -> Result<T> + Sync,
    ) -> Result<Vec<(usize, T)>> {
        let (large, small): (Vec<usize>, Vec<usize>) = level.iter().partition(|&&i| self.plan.large[i]);
        let with = |i: usize| Ok((i, work(i)?));
        let mut found: Vec<(usize, T)> = small.into_par_iter().map(with).collect::<Result<_>>()?;
        for i in large {
            found.push(with(i)?);
        }
        Ok(found)
    }

    /// Performs the forward sweep.
    pub fn forward(&self, parameters: &Parameters, clock: &Clock<'_>) -> Result<Messages> {
        let mut messages = vec![Scaled::EMPTY; self.plan.nodes.len()];
        for level in &self.plan.levels {
            clock.check()?;
            let send = |r: usize| -> Result<Scaled> {
                let bucket = self.bucket(r, parameters, &messages);
                let mut values = vec![0.0; self.plan.message_len(r)];
                bucket.reduce(Reduce::Sum, &mut values, clock)?;
                Ok(match bucket.domain() {
                    Domain::Linear => Scaled::from_linear(values),
                    Domain::Log => Scaled::from_log(values, true),
                })
            };
            let send_all = |i: usize| self.plan.groups[i].nodes.clone().map(send).collect::<Result<Vec<_>>>();
            for (i, sent) in self.on_level(level, send_all)? {
                self.plan.groups[i].nodes.clone().zip(sent).for_each(|(r, message)| messages[r] = message);
            }
        }
        let shifts = self.factors.iter().chain(&messages).map(|table| table.shift);
        let total: CompensatedSum = shifts.collect();
        Ok(Messages { messages, log_value: total.value() })
    }

    /// Performs the backward sweep, which improves shifts and weights. The bound of the preceding forward
    /// sweep must not be zero.
    pub fn backward(
        &self,
        parameters: &mut Parameters,
        mut messages: Vec<Scaled>,
        step: Step,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let mut above: Vec<Vec<f64>> = vec![Vec::new(); messages.len()];
        for level in self.plan.levels.iter().rev() {
            clock.check()?;
            let find = |i: usize| self.descend(i, parameters, &messages, &above, step, clock);
            for (i, found) in self.on_level(level, find)? {
                let group = &self.plan.groups[i];
                for r in group.nodes.clone() {
                    (above[r], messages[r]) = (Vec::new(), Scaled::EMPTY);
                }
                found.above.into_iter().for_each(|(child, marginal)| above[child] = marginal);
                group.links.clone().zip(found.shifts).for_each(|(l, shift)| parameters.shifts[l] = shift);
                group.nodes.clone().zip(found.weights).for_each(|(r, weight)| parameters.weights[r] = weight);
            }
        }
        Ok(())
    }

    /// Computes the beliefs of the mini-buckets of a variable and the new parameters.
    fn descend(
        &self,
        i: usize,
        parameters: &Parameters,
        messages: &[Scaled],
        above: &[Vec<f64>],
        step: Step,
        clock: &Clock<'_>,
    ) -> Result<Found> {
        let group = &self.plan.groups[i];
        let mut beliefs = Vec::with_capacity(group.nodes.len());
        for r in group.nodes.clone() {
            let root = self.plan.nodes[r].others.is_empty();
            let others = if root { vec![1.0] } else { above[r].clone() };
            beliefs.push(self.belief(r, parameters, messages, others, clock)?);
        }
        let split = group.nodes.len() > 1;
        let weights = if split && step.weight > 0.0 {
            let entropies: Vec<f64> = group
                .nodes
                .clone()
                .zip(&beliefs)
                .map(|(r, belief)| {
                    let others = if above[r].is_empty() { 0.0 } else { numeric::sum_x_ln_x(&above[r]) };
                    (others - numeric::sum_x_ln_x(belief)).max(0.0)
                })
                .collect();
            reweighted(parameters.side, &parameters.weights[group.nodes.clone()], &entropies, step.weight)
        } else {
            parameters.weights[group.nodes.clone()].to_vec()
        };
        let mut shifts = Vec::with_capacity(group.links.len());
        for l in group.links.clone() {
            let link = &self.plan.links[l];
            let [a, b] = link.ends.map(|r| r - group.nodes.start);
            let (w_a, w_b) = (parameters.weights[link.ends[0]], parameters.weights[link.ends[1]]);
            let ways = link.ends.map(|r| {
                let axes = axes(&self.plan.nodes[r].others, &link.scope[1..]);
                Projection::new(&self.plan.lengths(r), &axes)
            });
            let len = parameters.shifts[l].len();
            let (mut first, mut second) = (vec![0.0; len], vec![0.0; len]);
            ways[0].sum(&beliefs[a], &mut first);
            ways[1].sum(&beliefs[b], &mut second);
            let mut shift = parameters.shifts[l].clone();
            let part = step.shift * w_a * w_b / (w_a + w_b);
            let (mut total_a, mut total_b) = (0.0, 0.0);
            for ((p, q), shift) in first.iter_mut().zip(&mut second).zip(&mut shift) {
                let ratio = (q.max(FLOOR) / p.max(FLOOR)).ln().clamp(-LARGEST_RATIO, LARGEST_RATIO);
                let change = part * ratio;
                *shift += change;
                let (to_a, to_b) = ((change / w_a).exp(), (-change / w_b).exp());
                total_a += *p * to_a;
                total_b += *q * to_b;
                (*p, *q) = (to_a, to_b);
            }
            for (k, way, factor, total) in
                [(a, &ways[0], &mut first, total_a), (b, &ways[1], &mut second, total_b)]
            {
                if total > 0.0 && total.is_finite() {
                    factor.iter_mut().for_each(|x| *x /= total);
                    way.multiply(&mut beliefs[k], factor);
                }
            }
            shifts.push(shift);
        }
        let mut found = Found { above: Vec::new(), shifts, weights };
        for (r, belief) in group.nodes.clone().zip(beliefs) {
            let (node, lengths) = (&self.plan.nodes[r], self.plan.lengths(r));
            for &child in &node.children {
                let mut marginal = vec![0.0; self.plan.message_len(child)];
                let axes = axes(&node.others, &self.plan.nodes[child].others[1..]);
                Projection::new(&lengths, &axes).sum(&belief, &mut marginal);
                found.above.push((child, marginal));
            }
        }
        Ok(found)
    }

    /// Computes b_r(x) from the belief about the others.
    fn belief(
        &self,
        r: usize,
        parameters: &Parameters,
        messages: &[Scaled],
        mut others: Vec<f64>,
        clock: &Clock<'_>,
    ) -> Result<Vec<f64>> {
        let bucket = self.bucket(r, parameters, messages);
        let message = &messages[r];
        let mut belief = vec![0.0; self.plan.states[self.plan.nodes[r].variable] * others.len()];
        match bucket.domain() {
            Domain::Linear => {
                let scale = message.shift.exp();
                for (p, &m) in others.iter_mut().zip(message.values_in(Domain::Linear).iter()) {
                    *p = if m > 0.0 { *p / (m * scale) } else { 0.0 };
                }
                bucket.fill(&mut belief, clock, |start, tile| {
                    numeric::multiply_assign(tile, &others[start..])
                })?;
            }
            Domain::Log => {
                let logs = message.values_in(Domain::Log);
                let (power, shift) = (parameters.weights[r].recip(), message.shift);
                bucket.fill(&mut belief, clock, |start, tile| {
                    for (x, &m) in tile.iter_mut().zip(&logs[start..]) {
                        // Where the message or the entry is zero, the belief is zero for every power.
                        let dead = m == f64::NEG_INFINITY || *x == f64::NEG_INFINITY;
                        *x = if dead { f64::NEG_INFINITY } else { (*x - shift - m) * power };
                    }
                    numeric::exp_in_place(tile);
                    numeric::multiply_assign(tile, &others[start..]);
                })?;
            }
        }
        Ok(belief)
    }
}

/// New weights of the mini-buckets of a variable: one step of exponentiated gradient.
fn reweighted(side: Side, weights: &[f64], entropies: &[f64], rate: f64) -> Vec<f64> {
    match side {
        Side::Upper => {
            let mean: f64 = weights.iter().zip(entropies).map(|(w, h)| w * h).sum();
            let changed = weights
                .iter()
                .zip(entropies)
                .map(|(w, h)| (w * (-rate * (h - mean)).exp()).max(LEAST_WEIGHT));
            let mut changed: Vec<f64> = changed.collect();
            let total: f64 = changed.iter().sum();
            changed.iter_mut().for_each(|w| *w /= total);
            changed
        }
        Side::Lower => {
            let negative = |(w, h): (&f64, &f64)| {
                (w * (rate * (entropies[0] - h)).exp())
                    .clamp(-MOST_NEGATIVE / weights.len() as f64, -LEAST_WEIGHT)
            };
            let mut changed: Vec<f64> = weights.iter().zip(entropies).map(negative).collect();
            changed[0] = 1.0 - changed[1..].iter().sum::<f64>();
            changed
        }
    }
}
