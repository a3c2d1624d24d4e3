//! The messages of a graph and their updates.
//!
//! The stored quantities are λ_{f→i} = ρ_f·m_{f→i}, the score that factor f contributes to variable i, and
//! θ̃_i = θ_i + Σ_f λ_{f→i}. Then b_i ∝ exp θ̃_i and b_f ∝ exp((θ_f − Σ_i λ_{f→i})/ρ_f + Σ_i θ̃_i). For any
//! λ, Σ_i θ̃_i + Σ_f (θ_f − Σ_i λ_{f→i}) is the score of the model, so this identity holds for all weights
//! and at every stopping point. Factor f updates all its messages at once,
//!
//!   λ_{f→i} ← ρ_f·( log Σ_{x_f∖x_i} exp(θ_f/ρ_f + Σ_j a_j) − a_i ),  a_j = θ̃_j − λ_{f→j}/ρ_f,
//!
//! scaled so that the largest entry is 0, and adds the change to θ̃. A sweep updates all factors, one class
//! at a time.
//!
//! **Messages are finite.** After the zeros have been propagated, every state of a variable is supported in
//! each of its factors by live states, so no message vanishes. No message falls further below its maximum
//! than [`Layout::limit`], which messages on a tree never reach.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::numeric::parallel::prelude::*;

use super::kernel::{Algebra, Workspace, sums_along};
use super::layout::{Layout, View, largest};
use super::pairs;
use crate::numeric::CompensatedSum;
use crate::query::{Beliefs, FactorBeliefs};
use crate::run::Clock;

/// A number that several threads can access; at most one of them writes it at a time.
#[derive(Default)]
pub(crate) struct Shared(AtomicU64);

impl Shared {
    fn new(x: f64) -> Self {
        Shared(AtomicU64::new(x.to_bits()))
    }

    #[inline(always)]
    pub fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Relaxed))
    }

    #[inline(always)]
    pub fn set(&self, x: f64) {
        self.0.store(x.to_bits(), Relaxed);
    }
}

/// λ of all factors, θ̃ of all variables, and the weights ρ.
pub(crate) struct Messages<'l> {
    pub layout: &'l Layout<'l>,
    pub algebra: Algebra,
    /// ρ_f.
    pub weights: Vec<f64>,
    /// Weight of the old message in an update, in [0, 1).
    pub damping: f64,
    shifts: Vec<f64>,
    scores: Vec<Shared>,
}

/// The inputs of an update, and θ̃, which an update may change at the variables of its factor.
#[derive(Clone, Copy)]
pub(crate) struct Renewal<'a> {
    pub(super) layout: &'a Layout<'a>,
    pub(super) algebra: Algebra,
    pub(super) weights: &'a [f64],
    pub(super) damping: f64,
    pub(super) scores: &'a [Shared],
}

impl Renewal<'_> {
    /// a_j of all variables of factor `f`.
    fn gather(&self, view: View<'_>, inverse: f64, shifts: &[f64], incoming: &mut Vec<f64>) {
        incoming.clear();
        let mut shifts = shifts.iter();
        for &v in view.variables {
            let scores = &self.scores[self.layout.states(v as usize)];
            incoming
                .extend(scores.iter().zip(&mut shifts).map(|(score, shift)| score.get() - shift * inverse));
        }
    }

    /// Updates the messages of factor `f` and returns the largest change, relative to its size. `moved` is
    /// called with the change of the message to each variable.
    #[inline]
    pub fn update(
        &self,
        f: usize,
        shifts: &mut [f64],
        work: &mut Workspace,
        mut moved: impl FnMut(u32, f64),
    ) -> f64 {
        let view = self.layout.factor(f);
        let weight = self.weights[f];
        let inverse = 1.0 / weight;
        self.gather(view, inverse, shifts, &mut work.incoming);
        work.join(self.layout, view, inverse, self.algebra);
        let mut outgoing = std::mem::take(&mut work.outgoing);
        let (mut stride, mut place, mut change) = (view.table.len(), 0, 0.0f64);
        for &v in view.variables {
            let states = self.layout.states(v as usize);
            let own = place..place + states.len();
            stride /= states.len();
            outgoing.resize(states.len(), 0.0);
            work.along(stride, self.algebra, &mut outgoing);
            let step = self.replace(
                &mut outgoing,
                &work.incoming[own.clone()],
                weight,
                &mut shifts[own.clone()],
                &self.scores[states],
            );
            moved(v, step);
            change = change.max(step);
            place = own.end;
        }
        work.outgoing = outgoing;
        change
    }

    /// Sets λ to ρ·(outgoing − a), scaled and damped, and adds the change to θ̃.
    #[inline]
    fn replace(
        &self,
        outgoing: &mut [f64],
        incoming: &[f64],
        weight: f64,
        shifts: &mut [f64],
        scores: &[Shared],
    ) -> f64 {
        let mut maximum = f64::NEG_INFINITY;
        for (out, a) in outgoing.iter_mut().zip(incoming) {
            *out = weight * (*out - a);
            maximum = maximum.max(*out);
        }
        let (limit, mut change) = (-self.layout.limit, 0.0f64);
        for ((out, shift), score) in outgoing.iter().zip(shifts).zip(scores) {
            let fresh = out - maximum;
            // Written this way round so that NaN is replaced by the limit too.
            let fresh = if fresh > limit { fresh } else { limit };
            let fresh = fresh + self.damping * (*shift - fresh);
            let step = fresh - *shift;
            change = change.max(step.abs() / (1.0 + fresh.abs()));
            score.set(score.get() + step);
            *shift = fresh;
        }
        change
    }
}

impl<'l> Messages<'l> {
    /// Creates zero messages.
    pub fn new(layout: &'l Layout<'l>, algebra: Algebra, weights: Vec<f64>, damping: f64) -> Self {
        let shifts = vec![0.0; layout.message_count()];
        let scores = layout.unary.iter().map(|&x| Shared::new(x)).collect();
        Messages { layout, algebra, weights, damping, shifts, scores }
    }

    /// Memory of the messages in bytes, from the numbers of message entries, states and factors.
    pub fn bytes(entries: usize, states: usize, factors: usize) -> f64 {
        8.0 * (entries + states + factors) as f64
    }

    /// The inputs of an update, and λ.
    pub fn parts(&mut self) -> (Renewal<'_>, &mut [f64]) {
        let Messages { layout, algebra, weights, damping, shifts, scores } = self;
        (Renewal { layout, algebra: *algebra, weights, damping: *damping, scores }, shifts)
    }

    fn renewal(&self) -> Renewal<'_> {
        Renewal {
            layout: self.layout,
            algebra: self.algebra,
            weights: &self.weights,
            damping: self.damping,
            scores: &self.scores,
        }
    }

    /// λ of factor `f`.
    #[inline]
    pub fn shifts(&self, f: usize) -> &[f64] {
        &self.shifts[self.layout.messages(f..f + 1)]
    }

    /// θ̃ of all variables.
    pub fn scores(&self) -> impl Iterator<Item = f64> {
        self.scores.iter().map(Shared::get)
    }

    /// θ̃ of variable `v`, written to `out`.
    pub fn score(&self, v: usize, out: &mut Vec<f64>) {
        out.clear();
        out.extend(self.scores[self.layout.states(v)].iter().map(Shared::get));
    }

    /// Updates the messages of one factor.
    pub fn update(&mut self, f: usize, work: &mut Workspace) -> f64 {
        let own = self.layout.messages(f..f + 1);
        let (renewal, shifts) = self.parts();
        renewal.update(f, &mut shifts[own], work, |_, _| ())
    }

    /// Updates all messages, one class at a time, in forward or backward order. Returns the largest change.
    /// Stops if the clock says so.
    pub fn sweep(&mut self, backward: bool, clock: &Clock<'_>) -> f64 {
        let layout = self.layout;
        let count = layout.class_count();
        let (renewal, shifts) = self.parts();
        let mut work = Workspace::new(layout);
        let mut change = 0.0f64;
        for c in 0..count {
            if clock.must_stop() {
                return f64::INFINITY;
            }
            let class = layout.class(if backward { count - 1 - c } else { c });
            let own = &mut shifts[layout.messages(class.clone())];
            let renew = |work: &mut Workspace, (factors, mut shifts): (Range<usize>, &mut [f64])| {
                let (mut change, mut f) = (0.0f64, factors.start);
                while f < factors.end {
                    // Factors of a class share no variables, so a run of the smallest ones can be processed
                    // together.
                    let run = pairs::run(layout, f..factors.end, renewal.algebra);
                    let (own, rest) = shifts.split_at_mut(layout.messages(f..f + run.max(1)).len());
                    change = change.max(match run {
                        0 => renewal.update(f, own, work, |_, _| ()),
                        _ => renewal.update_pairs(f..f + run, own, work),
                    });
                    shifts = rest;
                    f += run.max(1);
                }
                change
            };
            let moved = if class.len() <= layout.piece {
                renew(&mut work, (class, own))
            } else {
                let mut pieces = Vec::with_capacity(class.len() / layout.piece + 1);
                let mut rest = own;
                for start in class.clone().step_by(layout.piece) {
                    let factors = start..(start + layout.piece).min(class.end);
                    let (own, others) = rest.split_at_mut(layout.messages(factors.clone()).len());
                    pieces.push((factors, own));
                    rest = others;
                }
                let changes = pieces.into_par_iter().map_init(|| Workspace::new(layout), renew);
                changes.reduce(|| 0.0, f64::max)
            };
            change = change.max(moved);
        }
        change
    }

    /// Recomputes θ̃ from λ, which removes accumulated rounding errors.
    pub fn refresh(&mut self) {
        let layout = self.layout;
        self.scores.par_iter().zip(&layout.unary).for_each(|(score, &x)| score.set(x));
        for c in 0..layout.class_count() {
            let add = |f: usize| {
                let mut shifts = self.shifts(f).iter();
                for &v in layout.factor(f).variables {
                    let scores = &self.scores[layout.states(v as usize)];
                    scores.iter().zip(&mut shifts).for_each(|(score, shift)| score.set(score.get() + shift));
                }
            };
            let class = layout.class(c);
            if class.len() <= layout.piece {
                class.for_each(add);
            } else {
                class.into_par_iter().with_min_len(layout.piece).for_each(add);
            }
        }
    }

    /// Rounding error of θ̃, in units of u. λ is never positive, so no partial sum is larger than the bound
    /// used here.
    pub fn score_rounding(&self) -> f64 {
        let mut own = Vec::new();
        let mut sum = self.layout.rounding;
        for (v, &degree) in self.layout.degrees.iter().enumerate() {
            self.score(v, &mut own);
            let size = largest(&own) + 2.0 * largest(&self.layout.unary[self.layout.states(v)]);
            sum += (1.0 + f64::from(degree)) * (1.0 + size);
        }
        sum
    }

    /// Sets the joint table of factor `f`: log b_f up to a constant.
    pub fn join(&self, f: usize, work: &mut Workspace) {
        let view = self.layout.factor(f);
        let inverse = 1.0 / self.weights[f];
        self.renewal().gather(view, inverse, self.shifts(f), &mut work.incoming);
        work.join(self.layout, view, inverse, Algebra::Max);
    }

    /// The sum over all factors of `each`, in a fixed order of summation.
    fn sum_over_factors(&self, each: impl Fn(&mut Workspace, usize) -> f64 + Sync) -> CompensatedSum {
        let count = self.layout.factor_count();
        let starts: Vec<usize> = (0..count).step_by(self.layout.piece).collect();
        let piece = |work: &mut Workspace, start: usize| {
            let end = (start + self.layout.piece).min(count);
            (start..end).map(|f| each(work, f)).collect::<CompensatedSum>().value()
        };
        let sums: Vec<f64> = starts.into_par_iter().map_init(|| Workspace::new(self.layout), piece).collect();
        sums.into_iter().collect()
    }

    /// A_i = log Σ exp θ̃_i for all variables.
    fn log_normalisers(&self) -> Vec<f64> {
        let each = |scores: &mut Vec<f64>, v: usize| {
            self.score(v, scores);
            Algebra::Sum.total(scores)
        };
        (0..self.layout.variable_count())
            .into_par_iter()
            .with_min_len(4096)
            .map_init(Vec::new, each)
            .collect()
    }

    /// Σ_i A_i + Σ_f ρ_f·(A_f − Σ_{i∈f} A_i), where A are the log-normalisers of the beliefs. If factors and
    /// variables agree, it is the Bethe approximation of log Z (ρ = 1) or the tree-reweighted bound. It is
    /// stationary there, so it is accurate near that point too.
    pub fn free_energy(&self) -> f64 {
        let normalisers = self.log_normalisers();
        let mut sum = self.sum_over_factors(|work, f| {
            self.join(f, work);
            let own = Algebra::Sum.total(work.joint());
            let parts: f64 = self.layout.factor(f).variables.iter().map(|&v| normalisers[v as usize]).sum();
            self.weights[f] * (own - parts)
        });
        normalisers.into_iter().for_each(|normaliser| sum.add(normaliser));
        sum.value() + self.layout.constant
    }

    /// Σ_f H(b_f) − Σ_i (d_i − 1)·H(b_i), and the same sum with all terms positive, which measures
    /// cancellation.
    pub fn bethe_entropy(&self) -> (f64, f64) {
        let beliefs = self.beliefs();
        let entropies: Vec<f64> = beliefs.iter().map(entropy).collect();
        let part = |sign: f64| {
            let mut sum = self.sum_over_factors(|work, f| {
                self.join(f, work);
                let own = entropy(work.normalised().0);
                let variables = self.layout.factor(f).variables;
                own + sign * variables.iter().map(|&v| entropies[v as usize]).sum::<f64>()
            });
            entropies.iter().for_each(|&h| sum.add(h));
            sum.value()
        };
        (part(-1.0), part(1.0))
    }

    /// The multi-information Σ_{i∈f} H(b_f(x_i)) − H(b_f) of every factor, which measures how strongly it
    /// couples its variables.
    pub fn information(&self) -> Vec<f64> {
        let each = |work: &mut Workspace, f: usize| {
            self.join(f, work);
            let mut sums = std::mem::take(&mut work.outgoing);
            let joint = work.normalised().0;
            let (mut stride, mut information) = (joint.len(), -entropy(joint));
            for &v in self.layout.factor(f).variables {
                let len = self.layout.cardinality(v);
                stride /= len;
                sums.clear();
                sums.resize(len, 0.0);
                sums_along(joint, len, stride, &mut sums);
                information += entropy(&sums);
            }
            work.outgoing = sums;
            information.max(0.0)
        };
        (0..self.layout.factor_count())
            .into_par_iter()
            .with_min_len(self.layout.piece)
            .map_init(|| Workspace::new(self.layout), each)
            .collect()
    }

    /// b_i.
    pub fn beliefs(&self) -> Beliefs {
        let lengths: Vec<usize> =
            (0..self.layout.variable_count()).map(|v| self.layout.states(v).len()).collect();
        let mut beliefs = Beliefs::zeros(&lengths);
        for v in 0..lengths.len() {
            let own = beliefs.variable_mut(v);
            own.iter_mut().zip(&self.scores[self.layout.states(v)]).for_each(|(p, score)| *p = score.get());
            let maximum = own.iter().fold(f64::NEG_INFINITY, |m, x| m.max(*x));
            own.iter_mut().for_each(|p| *p = (*p - maximum).exp());
        }
        beliefs.normalise();
        beliefs
    }

    /// b_f of all factors of the graph.
    pub fn factor_beliefs(&self, graph: &crate::FactorGraph) -> FactorBeliefs {
        let mut tables = FactorBeliefs::zeros(graph);
        let beliefs = self.beliefs();
        for (f, factor) in graph.factors().enumerate() {
            match *factor.scope {
                [] => tables.factor_mut(f)[0] = 1.0,
                [v] => tables.factor_mut(f).copy_from_slice(beliefs.variable(v)),
                _ => {}
            }
        }
        let mut work = Workspace::new(self.layout);
        for f in 0..self.layout.factor_count() {
            self.join(f, &mut work);
            tables.factor_mut(self.layout.number(f)).copy_from_slice(work.normalised().0);
        }
        tables.normalise();
        tables
    }
}

/// −Σ p·ln p.
fn entropy(probabilities: &[f64]) -> f64 {
    -probabilities.iter().map(|&p| if p > 0.0 { p * p.ln() } else { 0.0 }).sum::<f64>()
}
