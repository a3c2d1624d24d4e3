//! A semi-Markov chain on the states that were chosen.
//!
//! Ωₛ are the states in which a segment may start at s, with weights wₛ; a segment that ends at t is left in one of the states of the last
//! L sets. Ẑ = Σ exp score·Π w over such segmentations, a weight for each segment. Time O(T·L·K²).
//!
//! Entropy log Ẑ − Ê[score] is taken as log Ẑ − log Z′ + E[−log q] with q the same lattice without weights and Z′ its partition
//! function; its gradient is the covariance of −log q under p̂.

use super::proposal::{Proposal, Support};
use super::segment_proposal::{SegmentProposals, segment_score};
use super::target::{Proposals, Target};
use crate::error::Result;
use crate::method::dynamic::lattice::{
    Cumulative, Edges, SegmentDirection, SegmentLattice, SegmentNodes, Segmented, restricted_steps_of,
};
use crate::model::{Chain, Segments, SemiMarkov};
use crate::numeric::Real;
use crate::query::sequence::SemiMarkovGradient;
use crate::random::Stream;
use crate::run::Clock;

/// Where a state that is left does not stand among those entered.
const ABSENT: u32 = u32::MAX;

/// Sequence b of a semi-Markov chain on its chosen states.
pub(super) struct Restriction<'a, F: Real> {
    model: &'a SemiMarkov<F>,
    b: usize,
    support: &'a Support,
    /// The states that may be left at each position.
    pub left: Vec<Vec<u32>>,
    /// For every end t, by t − s: for every state left at t its number in Ωₛ, 0 where it is not there.
    origins: Vec<Vec<Vec<u32>>>,
    /// The same with `ABSENT`.
    places: Vec<Vec<Vec<u32>>>,
    weighted: bool,
}

impl<'a, F: Real> Restriction<'a, F> {
    pub fn new(model: &'a SemiMarkov<F>, b: usize, support: &'a Support) -> Self {
        let mut restriction = Restriction {
            model,
            b,
            support,
            left: Vec::new(),
            origins: Vec::new(),
            places: Vec::new(),
            weighted: true,
        };
        for t in 0..support.len() {
            let starts = (t + 1).saturating_sub(model.longest())..=t;
            let mut left: Vec<u32> = starts.clone().flat_map(|s| &support.at(s).states).copied().collect();
            left.sort_unstable();
            left.dedup();
            let place = |s: usize| -> Vec<u32> {
                let entered = &support.at(s).states;
                let one = |state: &u32| entered.binary_search(state).map_or(ABSENT, |at| at as u32);
                left.iter().map(one).collect()
            };
            let places: Vec<Vec<u32>> = starts.rev().map(place).collect();
            let known = |&place: &u32| if place == ABSENT { 0 } else { place };
            restriction.origins.push(places.iter().map(|row| row.iter().map(known).collect()).collect());
            restriction.places.push(places);
            restriction.left.push(left);
        }
        restriction
    }

    fn without_weights(&self) -> Self {
        Restriction {
            left: self.left.clone(),
            origins: self.origins.clone(),
            places: self.places.clone(),
            weighted: false,
            ..*self
        }
    }

    /// The scores of the segments s…t for each state left at t; −∞ for those that cannot have started at s.
    fn scores(&self, s: usize, t: usize) -> Vec<f64> {
        let chosen = self.support.at(s);
        let score = |(&state, &place): (&u32, &u32)| {
            if place == ABSENT {
                return f64::NEG_INFINITY;
            }
            let start = if s == 0 { self.model.chain().start()[state as usize].to_f64() } else { 0.0 };
            let weight = chosen.log_weights[place as usize];
            let score = segment_score(self.model, self.b, s, t, state as usize) + start;
            // A state that stands for none has no weight either way.
            score + if self.weighted || weight == f64::NEG_INFINITY { weight } else { 0.0 }
        };
        self.left[t].iter().zip(&self.places[t][t - s]).map(score).collect()
    }

    pub fn with_lattice<R>(&self, work: impl FnOnce(&SegmentLattice<'_, F>) -> R) -> R {
        let pairs: Vec<(&[u32], &[u32])> = (1..self.support.len())
            .map(|t| (self.left[t - 1].as_slice(), self.support.at(t).states.as_slice()))
            .collect();
        let (transitions, states) = (self.model.transitions(), self.model.chain().states());
        let steps = restricted_steps_of(transitions, states, pairs.clone());
        let nodes = SegmentNodes(self);
        let edges = Edges { transitions, states, sets: Some(pairs) };
        work(&SegmentLattice::new(&[self.support.len()], self, &nodes, &*steps, edges))
    }

    /// Adds `factor` times what segments have, given by `weigh` for every start, to start, emissions and segment scores.
    fn add_segments(
        &self,
        factor: f64,
        gradient: &mut SemiMarkovGradient<F>,
        weigh: impl Fn(usize, &mut dyn FnMut(usize, &[f64])),
    ) {
        let chain = self.model.chain();
        let (n, longest) = (chain.states(), self.model.longest());
        for s in 0..self.support.len() {
            weigh(s, &mut |t, weights| {
                let row = match self.model.segments() {
                    Segments::Lengths(_) => t - s,
                    Segments::Places(_) => (self.b * chain.steps() + s) * longest + t - s,
                };
                for (&state, &weight) in self.left[t].iter().zip(weights).filter(|(_, w)| **w != 0.0) {
                    let (state, weight) = (state as usize, F::from_f64(factor * weight));
                    if s == 0 {
                        gradient.chain.start[state] += weight;
                    }
                    for u in s..=t {
                        gradient.chain.emissions[(self.b * chain.steps() + u) * n + state] += weight;
                    }
                    if !gradient.segments.is_empty() {
                        gradient.segments[row * n + state] += weight;
                    }
                }
            });
        }
    }

    /// Calls `work` with the direction −log q, q being the lattice without weights.
    fn with_direction<R>(&self, work: impl FnOnce(&SegmentDirection<'_, F>) -> R) -> R {
        let plain = self.without_weights();
        self.with_lattice(|p| plain.with_lattice(|q| work(&SegmentDirection::new(p, 0.0, Some((-1.0, q))))))
    }
}

impl<F: Real> Segmented<F> for Restriction<'_, F> {
    fn longest(&self) -> usize {
        self.model.longest()
    }

    fn states_left(&self, t: usize) -> usize {
        self.left[t].len()
    }

    fn states_entered(&self, t: usize) -> usize {
        self.support.at(t).states.len()
    }

    fn origins(&self, s: usize, t: usize) -> Option<&[u32]> {
        Some(&self.origins[t][t - s])
    }

    fn ending(&self, _: usize, t: usize, visit: &mut dyn FnMut(usize, &[f64])) {
        for s in ((t + 1).saturating_sub(self.model.longest())..=t).rev() {
            visit(s, &self.scores(s, t));
        }
    }

    fn starting(&self, _: usize, s: usize, length: usize, visit: &mut dyn FnMut(usize, &[f64])) {
        for t in s..length.min(s + self.model.longest()) {
            visit(t, &self.scores(s, t));
        }
    }
}

impl<F: Real> Target for SemiMarkov<F> {
    type Real = F;
    type Gradient = SemiMarkovGradient<F>;
    type Drawn = Vec<(usize, usize)>;

    fn chain(&self) -> &Chain<F> {
        SemiMarkov::chain(self)
    }

    fn longest(&self) -> usize {
        SemiMarkov::longest(self)
    }

    fn largest_score(&self) -> f64 {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        let largest = values.iter().map(|x| x.to_f64().abs()).filter(|x| x.is_finite()).fold(0.0, f64::max);
        let positions = self.chain().lengths().iter().max().map_or(0.0, |&longest| longest as f64);
        self.chain().magnitude() + positions * largest
    }

    fn parameters(&self) -> usize {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        self.transitions().len() + values.len()
    }

    fn zero_gradient(&self) -> SemiMarkovGradient<F> {
        let (Segments::Lengths(values) | Segments::Places(values)) = self.segments();
        SemiMarkovGradient { chain: self.chain().zero_gradient(), segments: vec![F::ZERO; values.len()] }
    }

    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<F> + 'a> {
        Box::new(SegmentProposals::new(self, proposal, scores))
    }

    fn log_partition_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64> {
        Restriction::new(self, b, support).with_lattice(|lattice| Ok(lattice.log_partitions(clock)?[0]))
    }

    fn entropy_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64> {
        Restriction::new(self, b, support).with_direction(|direction| {
            let (values, swept) = direction.sweep(clock)?;
            let log_z = |messages: &crate::method::dynamic::lattice::Messages<F>| messages.log_partition[0];
            let plain = swept.directed.q.as_ref().map_or(0.0, log_z);
            Ok(log_z(&swept.directed.p) - plain + values[0])
        })
    }

    fn add_marginals_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        marginals: &mut [F],
    ) -> Result<()> {
        let restriction = Restriction::new(self, b, support);
        restriction.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            let n = self.chain().states();
            for s in 0..support.len() {
                lattice.segment_marginals(&messages, 0, s, |t, weights, _| {
                    for (&state, &weight) in restriction.left[t].iter().zip(weights) {
                        for u in s..=t {
                            let at = (b * self.chain().steps() + u) * n + state as usize;
                            marginals[at] += F::from_f64(factor * weight);
                        }
                    }
                });
            }
            Ok(())
        })
    }

    fn add_gradient_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut SemiMarkovGradient<F>,
    ) -> Result<()> {
        let restriction = Restriction::new(self, b, support);
        restriction.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            restriction.add_segments(factor, gradient, |s, visit| {
                lattice.segment_marginals(&messages, 0, s, |t, weights, _| visit(t, weights));
            });
            let transitions = &mut gradient.chain.transitions;
            lattice.base.add_edge_marginals(&messages, &[factor], clock, transitions)
        })
    }

    fn add_entropy_gradient_on(
        &self,
        b: usize,
        support: &Support,
        (factor, also): (f64, f64),
        clock: &Clock<'_>,
        gradient: &mut SemiMarkovGradient<F>,
    ) -> Result<()> {
        let restriction = Restriction::new(self, b, support);
        restriction.with_direction(|direction| {
            let (values, swept) = direction.sweep(clock)?;
            restriction.add_segments(factor, gradient, |s, visit| {
                direction.segment_covariances(&swept, values[0], 0, s, visit);
            });
            let (directed, transitions) = (&swept.directed, &mut gradient.chain.transitions);
            direction.direction.add_edge_covariance(directed, &values, &[factor], clock, transitions)?;
            restriction.add_segments(also, gradient, |s, visit| {
                direction.p.segment_marginals(&directed.p, 0, s, |t, weights, _| visit(t, weights));
            });
            let transitions = &mut gradient.chain.transitions;
            direction.p.base.add_edge_marginals(&directed.p, &[also], clock, transitions)
        })
    }

    fn draw_on(
        &self,
        b: usize,
        support: &Support,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<Vec<(usize, usize)>>> {
        let restriction = Restriction::new(self, b, support);
        restriction.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            let draw = |_| {
                clock.check()?;
                Ok(restriction.draw(lattice, &messages, random))
            };
            (0..count).map(draw).collect()
        })
    }
}

impl<F: Real> Restriction<'_, F> {
    /// One segmentation from the start on: the state that a segment is entered in, then where it ends.
    fn draw(
        &self,
        lattice: &SegmentLattice<'_, F>,
        messages: &crate::method::dynamic::lattice::Messages<F>,
        random: &mut Stream,
    ) -> Vec<(usize, usize)> {
        let (mut segments, mut s, mut before) = (Vec::new(), 0, None);
        while s < self.support.len() {
            let Some(entering) = &messages.entering else { break };
            let mut logs: Vec<f64> = entering.row(0, s).iter().map(|x| x.to_f64()).collect();
            if let Some(k) = before {
                let mut row = vec![F::ZERO; logs.len()];
                lattice.base.steps.log_row(s - 1, k, &mut row);
                logs.iter_mut().zip(&row).for_each(|(x, y)| *x += y.to_f64());
            }
            let state = self.support.at(s).states[Cumulative::new(&mut logs).at(random.uniform())];
            let (mut ends, mut places) = (Vec::new(), Vec::new());
            for t in s..self.support.len().min(s + self.model.longest()) {
                let Ok(k) = self.left[t].binary_search(&state) else { continue };
                let mut left = self.scores(s, t);
                if t + 1 < self.support.len() {
                    left[k] += lattice.base.steps.row_shifts(t)[k].to_f64();
                }
                ends.push(left[k] + messages.backward.row(0, t)[k].to_f64() + messages.backward.scale(0, t));
                places.push((t, k));
            }
            let (t, k) = places[Cumulative::new(&mut ends).at(random.uniform())];
            segments.push((state as usize, t + 1 - s));
            (s, before) = (t + 1, Some(k));
        }
        segments
    }
}
