//! A sequence restricted to the chosen states.
//!
//! For fixed states and weights, the estimate is
//!
//!   Ẑ = Σ_{x, xₜ∈Ωₜ} exp score(x) · Πₜ wₜ(xₜ),
//!
//! the partition function of a lattice with K states per position whose node scores are emissions plus log
//! weights. The exact algorithms give its gradient, entropy and samples. Time O(T·K²) per sequence, memory
//! O(T·K).
//!
//! In a semi-Markov chain, Ωₛ is the set of states in which a segment may start at s, with one weight per
//! segment. A segment that ends at t has a state from one of the last L sets. Time O(T·L·K²).
//!
//! The entropy is log Ẑ − Ê[score]. On a chain this is the expectation of −log p̂(x) + Σₜ log wₜ(xₜ). With
//! segments it is computed as log Ẑ − log Z′ + E[−log q], where q is the same lattice without weights and Z′
//! is its partition function.

use super::proposal::Support;
use super::proposals::segment_score;
use crate::error::Result;
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::{
    BLOCK, Directed, Direction, Edges, Lattice, LayerNodes, Messages, Segmented, restricted_steps_of,
};
use crate::numeric::Real;
use crate::random::Stream;
use crate::run::Clock;

/// Marks a state that is not in the set of start states.
const ABSENT: u32 = u32::MAX;

/// Sequence b of a model, restricted to its chosen states. All methods except `log_partition` need at least
/// one state at each position.
pub(super) struct Restriction<'a, M: SequenceModel> {
    model: &'a M,
    b: usize,
    support: &'a Support,
    /// For segments: the states in which a segment may end, and their indices in the sets of start states.
    ends: Vec<SegmentEnd>,
    weighted: bool,
}

/// The segments that end at a position.
#[derive(Clone)]
struct SegmentEnd {
    /// The states in which a segment may end here.
    left: Vec<u32>,
    /// By t − s: for each state in `left`, its index in Ωₛ, or 0 if it is not there.
    origins: Vec<Vec<u32>>,
    /// The same, with `ABSENT` instead of 0.
    places: Vec<Vec<u32>>,
}

/// The quantity summed over a lattice: marginals, or covariances with a direction.
#[derive(Clone, Copy)]
enum Weights<'a, F: Real> {
    Marginals(&'a Lattice<'a, F>, &'a Messages<F>),
    Covariances(&'a Direction<'a, F>, &'a Directed<F>, &'a [f64]),
}

impl<'a, M: SequenceModel> Restriction<'a, M> {
    pub fn new(model: &'a M, b: usize, support: &'a Support) -> Self {
        let end = |t: usize| {
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
            let origins = places.iter().map(|row| row.iter().map(known).collect()).collect();
            SegmentEnd { left, origins, places }
        };
        let ends = if M::SEGMENTS { (0..support.len()).map(end).collect() } else { Vec::new() };
        Restriction { model, b, support, ends, weighted: true }
    }

    fn without_weights(&self) -> Self {
        Restriction { ends: self.ends.clone(), weighted: false, ..*self }
    }

    /// The states in which a segment may end at t.
    pub fn left(&self, t: usize) -> &[u32] {
        if M::SEGMENTS { &self.ends[t].left } else { &self.support.at(t).states }
    }

    /// The model's state for index k of `left(t)`.
    pub fn state(&self, t: usize, k: usize) -> usize {
        self.left(t)[k] as usize
    }

    /// Calls `work` with the lattice.
    pub fn with_lattice<R>(&self, work: impl FnOnce(&Lattice<'_, M::Real>) -> R) -> R {
        let (chain, support) = (self.model.chain(), self.support);
        let pairs: Vec<(&[u32], &[u32])> =
            (1..support.len()).map(|t| (self.left(t - 1), support.at(t).states.as_slice())).collect();
        let (transitions, states) = (chain.transitions(), chain.states());
        let steps = restricted_steps_of(transitions, states, pairs.clone());
        let edges = Edges { transitions, states, sets: Some(pairs) };
        if M::SEGMENTS {
            return work(&Lattice::of_segments(&[support.len()], self, &*steps, edges));
        }
        let scores: Vec<Vec<M::Real>> = (0..support.len())
            .map(|t| {
                let (chosen, emission) = (support.at(t), chain.node(self.b, t));
                let score = |(&i, &weight): (&u32, &f64)| {
                    let start = if t == 0 { chain.start()[i as usize].to_f64() } else { 0.0 };
                    M::Real::from_f64(emission[i as usize].to_f64() + start + weight)
                };
                chosen.states.iter().zip(&chosen.log_weights).map(score).collect()
            })
            .collect();
        let nodes = LayerNodes(scores.iter().map(Vec::as_slice).collect());
        work(&Lattice::new(&[support.len()], &nodes, &*steps, edges))
    }

    /// Calls `work` with the direction of the entropy (see the module documentation). The weights belong to
    /// p̂, not to the score.
    fn with_direction<R>(&self, work: impl FnOnce(&Direction<'_, M::Real>) -> R) -> R {
        if M::SEGMENTS {
            let plain = self.without_weights();
            return self.with_lattice(|p| {
                plain.with_lattice(|q| work(&Direction { p, own: 0.0, other: Some((-1.0, q)), extra: None }))
            });
        }
        let weights: Vec<Vec<M::Real>> = (0..self.support.len())
            .map(|t| self.support.at(t).log_weights.iter().map(|&w| M::Real::from_f64(w)).collect())
            .collect();
        let extra = LayerNodes(weights.iter().map(Vec::as_slice).collect());
        self.with_lattice(|p| work(&Direction { p, own: -1.0, other: None, extra: Some(&extra) }))
    }

    /// log Ẑ; −∞ if some position has no states, or if no path has positive weight.
    pub fn log_partition(&self, clock: &Clock<'_>) -> Result<f64> {
        if self.support.is_impossible() {
            return Ok(f64::NEG_INFINITY);
        }
        self.with_lattice(|lattice| Ok(lattice.log_partitions(clock)?[0]))
    }

    /// Ĥ = log Ẑ − Ê[score].
    pub fn entropy(&self, clock: &Clock<'_>) -> Result<f64> {
        self.with_direction(|direction| {
            let ends = direction.expectation(clock)?;
            let without = if M::SEGMENTS { ends.log_partition[0] - ends.log_partition_q[0] } else { 0.0 };
            Ok(without + ends.values[0])
        })
    }

    /// Adds `factor` times the marginals to the B×T×N array `marginals`.
    pub fn add_marginals(&self, factor: f64, clock: &Clock<'_>, marginals: &mut [M::Real]) -> Result<()> {
        let (steps, states) = (self.model.chain().steps(), self.model.chain().states());
        self.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            self.each_segment(Weights::Marginals(lattice, &messages), factor, |(s, t, state), weight| {
                (s..=t).for_each(|u| marginals[(self.b * steps + u) * states + state] += weight);
            });
            Ok(())
        })
    }

    /// Adds `factor` times the gradient of log Ẑ.
    pub fn add_gradient(
        &self,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut M::FactorMarginals,
    ) -> Result<()> {
        let (mut scores, transitions) = self.model.split(gradient);
        self.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            self.each_segment(Weights::Marginals(lattice, &messages), factor, |segment, weight| {
                scores.add(self.b, segment, weight);
            });
            lattice.add_edge_marginals(&messages, &[factor], clock, transitions)
        })
    }

    /// Adds `factor` times the gradient of Ĥ and `also` times the gradient of log Ẑ.
    pub fn add_entropy_gradient(
        &self,
        factor: f64,
        also: f64,
        clock: &Clock<'_>,
        gradient: &mut M::FactorMarginals,
    ) -> Result<()> {
        let (mut scores, transitions) = self.model.split(gradient);
        self.with_direction(|direction| {
            let lattice = direction.p;
            direction.sweep(false, clock, |values, directed| {
                let mut add = |segment, weight| scores.add(self.b, segment, weight);
                self.each_segment(Weights::Covariances(direction, &directed, values), factor, &mut add);
                direction.add_edge_covariance(&directed, values, &[factor], clock, transitions)?;
                self.each_segment(Weights::Marginals(lattice, &directed.p), also, &mut add);
                lattice.add_edge_marginals(&directed.p, &[also], clock, transitions)
            })?;
            Ok(())
        })
    }

    /// Calls `add` with each segment (first and last position, state) and `factor` times its weight.
    fn each_segment(
        &self,
        weights: Weights<'_, M::Real>,
        factor: f64,
        mut add: impl FnMut((usize, usize, usize), M::Real),
    ) {
        let mut row = Vec::new();
        for s in 0..self.support.len() {
            if !M::SEGMENTS {
                row.resize(self.left(s).len(), M::Real::default());
                match weights {
                    Weights::Marginals(lattice, messages) => lattice.node_marginals(messages, 0, s, &mut row),
                    Weights::Covariances(direction, directed, values) => {
                        direction.node_covariance(directed, values, 0, s, &mut row);
                    }
                }
                let factor = M::Real::from_f64(factor);
                row.iter().enumerate().for_each(|(k, &x)| add((s, s, self.state(s, k)), x * factor));
                continue;
            }
            let visit = |t: usize, weights: &[f64]| {
                for (k, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                    add((s, t, self.state(t, k)), M::Real::from_f64(factor * weight));
                }
            };
            match weights {
                Weights::Marginals(lattice, messages) => {
                    let mut visit = visit;
                    lattice.segment_marginals(messages, 0, s, |t, weights, _| visit(t, weights));
                }
                Weights::Covariances(direction, directed, values) => {
                    direction.segment_covariances(directed, values[0], 0, s, visit);
                }
            }
        }
    }

    /// Samples from p̂.
    pub fn draw(&self, count: usize, random: &mut Stream, clock: &Clock<'_>) -> Result<Vec<M::Drawn>> {
        self.with_lattice(|lattice| {
            let backward = lattice.sweep_backward(clock)?;
            let mut drawn = Vec::with_capacity(count);
            // One block at a time, so that the time limit is checked.
            for first in (0..count).step_by(BLOCK) {
                for mut path in lattice.draw(&backward, 0, BLOCK.min(count - first), random, clock)? {
                    let mut open = 0;
                    for (state, length) in &mut path {
                        open += *length;
                        *state = self.state(open - 1, *state);
                    }
                    drawn.push(M::drawn(path));
                }
            }
            Ok(drawn)
        })
    }

    /// The scores of the segments s…t for each state in `left`; −∞ for states in which no segment can start
    /// at s.
    fn scores(&self, s: usize, t: usize) -> Vec<f64> {
        let (chosen, end) = (self.support.at(s), &self.ends[t]);
        let score = |(&state, &place): (&u32, &u32)| {
            if place == ABSENT {
                return f64::NEG_INFINITY;
            }
            let start = if s == 0 { self.model.chain().start()[state as usize].to_f64() } else { 0.0 };
            let weight = chosen.log_weights[place as usize];
            let score = segment_score(self.model, self.b, s, t, state as usize) + start;
            // The placeholder state (weight zero) keeps its weight even without weights.
            score + if self.weighted || weight == f64::NEG_INFINITY { weight } else { 0.0 }
        };
        end.left.iter().zip(&end.places[t - s]).map(score).collect()
    }
}

impl<M: SequenceModel> Segmented<M::Real> for Restriction<'_, M> {
    fn longest(&self) -> usize {
        self.model.longest()
    }

    fn states_left(&self, t: usize) -> usize {
        self.left(t).len()
    }

    fn states_entered(&self, t: usize) -> usize {
        self.support.at(t).states.len()
    }

    fn origins(&self, s: usize, t: usize) -> Option<&[u32]> {
        Some(&self.ends[t].origins[t - s])
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
