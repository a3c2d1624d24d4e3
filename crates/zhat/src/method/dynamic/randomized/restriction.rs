//! A chain on the states that were chosen.
//!
//! With the chosen states and their weights held fixed the estimate is
//!
//!   Ẑ = Σ_{x, xₜ∈Ωₜ} exp score(x) · Πₜ wₜ(xₜ),
//!
//! the partition function of a lattice of K states a position whose node scores are emissions plus log weights. Everything known about
//! exact lattices holds for it: gradient, entropy, samples. Time O(T·K²) a sequence, memory O(T·K).

use super::proposal::{ChainProposals, Proposal, Support};
use super::target::{Proposals, Target};
use crate::error::Result;
use crate::method::dynamic::lattice::{
    BLOCK, Direction, Edges, Lattice, LayerNodes, Messages, restricted_steps_of, zero_gradient,
};
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::ChainGradient;
use crate::random::Stream;
use crate::run::Clock;

/// Sequence b of a chain on its chosen states. All but `log_partition` need some at every position.
pub(crate) struct Restriction<'a, F: Real> {
    pub chain: &'a Chain<F>,
    pub b: usize,
    pub support: &'a Support,
}

impl<F: Real> Restriction<'_, F> {
    /// Calls `work` with the lattice.
    pub fn with_lattice<R>(&self, work: impl FnOnce(&Lattice<'_, F>) -> R) -> R {
        let Restriction { chain, b, support } = *self;
        let scores: Vec<Vec<F>> = (0..support.len())
            .map(|t| {
                let (chosen, emission) = (support.at(t), chain.emission(b, t));
                let score = |(&i, &weight): (&u32, &f64)| {
                    let start = if t == 0 { chain.start()[i as usize].to_f64() } else { 0.0 };
                    F::from_f64(emission[i as usize].to_f64() + start + weight)
                };
                chosen.states.iter().zip(&chosen.log_weights).map(score).collect()
            })
            .collect();
        let pairs: Vec<(&[u32], &[u32])> = (1..support.len())
            .map(|t| (support.at(t - 1).states.as_slice(), support.at(t).states.as_slice()))
            .collect();
        let (transitions, states) = (chain.transitions(), chain.states());
        let steps = restricted_steps_of(transitions, states, pairs.clone());
        let nodes = LayerNodes(scores.iter().map(Vec::as_slice).collect());
        let edges = Edges { transitions, states, sets: Some(pairs) };
        work(&Lattice::new(&[support.len()], &nodes, &*steps, edges))
    }

    /// Calls `work` with the direction whose expectation is entropy: −log p̂(x) + Σₜ log wₜ(xₜ) = log Ẑ − score(x). The weights are in p̂,
    /// not in the score.
    fn with_direction<R>(&self, work: impl FnOnce(&Direction<'_, F>) -> R) -> R {
        let weights: Vec<Vec<F>> = (0..self.support.len())
            .map(|t| self.support.at(t).log_weights.iter().map(|&w| F::from_f64(w)).collect())
            .collect();
        let extra = LayerNodes(weights.iter().map(Vec::as_slice).collect());
        self.with_lattice(|p| work(&Direction { p, own: -1.0, other: None, extra: Some(&extra) }))
    }

    /// log Ẑ; −∞ if there are no states at some position.
    pub fn log_partition(&self, clock: &Clock<'_>) -> Result<f64> {
        if self.support.is_impossible() {
            return Ok(f64::NEG_INFINITY);
        }
        self.with_lattice(|lattice| Ok(lattice.log_partitions(clock)?[0]))
    }

    /// Ĥ = log Ẑ − Ê[score].
    pub fn entropy(&self, clock: &Clock<'_>) -> Result<f64> {
        self.with_direction(|direction| Ok(direction.expectation(clock)?.0[0]))
    }

    /// Adds `factor` times the marginals to B×T×N numbers.
    pub fn add_marginals(&self, factor: f64, clock: &Clock<'_>, marginals: &mut [F]) -> Result<()> {
        self.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            self.each_marginal(lattice, &messages, factor, |t, row| self.scatter(t, row, marginals));
            Ok(())
        })
    }

    /// Adds `factor` times the gradient of log Ẑ.
    pub fn add_gradient(
        &self,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        self.with_lattice(|lattice| {
            let messages = lattice.sweep(clock)?;
            self.each_marginal(lattice, &messages, factor, |t, row| self.add_nodes(t, row, gradient));
            lattice.add_edge_marginals(&messages, &[factor], clock, &mut gradient.transitions)
        })
    }

    /// Adds `factor` times the gradient of Ĥ and `also` times that of log Ẑ.
    pub fn add_entropy_gradient(
        &self,
        factor: f64,
        also: f64,
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        self.with_direction(|direction| {
            let lattice = direction.p;
            direction.sweep(false, clock, |values, directed| {
                let mut row = Vec::new();
                for t in 0..lattice.layout.steps() {
                    row.resize(lattice.layout.size(t), F::ZERO);
                    direction.node_covariance(&directed, values, 0, t, &mut row);
                    row.iter_mut().for_each(|x| *x *= F::from_f64(factor));
                    self.add_nodes(t, &row, gradient);
                }
                direction.add_edge_covariance(
                    &directed,
                    values,
                    &[factor],
                    clock,
                    &mut gradient.transitions,
                )?;
                self.each_marginal(lattice, &directed.p, also, |t, row| self.add_nodes(t, row, gradient));
                lattice.add_edge_marginals(&directed.p, &[also], clock, &mut gradient.transitions)
            })?;
            Ok(())
        })
    }

    /// The states of the model behind a path through the chosen ones.
    pub fn path(&self, path: &[usize]) -> Vec<usize> {
        path.iter().enumerate().map(|(t, &k)| self.support.at(t).states[k] as usize).collect()
    }

    /// Calls `add` with every position and `factor` times the marginals of its chosen states.
    fn each_marginal(
        &self,
        lattice: &Lattice<'_, F>,
        messages: &Messages<F>,
        factor: f64,
        mut add: impl FnMut(usize, &[F]),
    ) {
        let factor = F::from_f64(factor);
        let mut row = Vec::new();
        for t in 0..lattice.layout.steps() {
            row.resize(lattice.layout.size(t), F::ZERO);
            lattice.node_marginals(messages, 0, t, &mut row);
            row.iter_mut().for_each(|x| *x *= factor);
            add(t, &row);
        }
    }

    /// Adds a gradient with respect to the scores of the chosen states of a position.
    pub fn add_nodes(&self, t: usize, row: &[F], gradient: &mut ChainGradient<F>) {
        self.scatter(t, row, &mut gradient.emissions);
        if t == 0 {
            for (&i, &x) in self.support.at(0).states.iter().zip(row) {
                gradient.start[i as usize] += x;
            }
        }
    }

    /// Adds what the chosen states of a position have to B×T×N numbers.
    fn scatter(&self, t: usize, row: &[F], out: &mut [F]) {
        let from = (self.b * self.chain.steps() + t) * self.chain.states();
        for (&i, &x) in self.support.at(t).states.iter().zip(row) {
            out[from + i as usize] += x;
        }
    }
}

/// A gradient of zeros.
pub(crate) fn zeros<F: Real>(chain: &Chain<F>) -> ChainGradient<F> {
    ChainGradient {
        start: vec![F::ZERO; chain.states()],
        emissions: vec![F::ZERO; chain.emissions().len()],
        transitions: zero_gradient(chain.transitions()),
    }
}

impl<F: Real> Target for Chain<F> {
    type Real = F;
    type Gradient = ChainGradient<F>;
    type Drawn = Vec<usize>;

    fn chain(&self) -> &Chain<F> {
        self
    }

    fn longest(&self) -> usize {
        1
    }

    fn largest_score(&self) -> f64 {
        self.magnitude()
    }

    fn parameters(&self) -> usize {
        self.transitions().len()
    }

    fn zero_gradient(&self) -> ChainGradient<F> {
        zeros(self)
    }

    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<F> + 'a> {
        Box::new(ChainProposals::new(self, proposal, scores))
    }

    fn log_partition_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64> {
        Restriction { chain: self, b, support }.log_partition(clock)
    }

    fn entropy_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64> {
        Restriction { chain: self, b, support }.entropy(clock)
    }

    fn add_marginals_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        marginals: &mut [F],
    ) -> Result<()> {
        Restriction { chain: self, b, support }.add_marginals(factor, clock, marginals)
    }

    fn add_gradient_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        Restriction { chain: self, b, support }.add_gradient(factor, clock, gradient)
    }

    fn add_entropy_gradient_on(
        &self,
        b: usize,
        support: &Support,
        (factor, also): (f64, f64),
        clock: &Clock<'_>,
        gradient: &mut ChainGradient<F>,
    ) -> Result<()> {
        Restriction { chain: self, b, support }.add_entropy_gradient(factor, also, clock, gradient)
    }

    fn draw_on(
        &self,
        b: usize,
        support: &Support,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<Vec<usize>>> {
        let restriction = Restriction { chain: self, b, support };
        restriction.with_lattice(|lattice| {
            let backward = lattice.sweep_backward(clock)?;
            let mut drawn = Vec::with_capacity(count);
            // A block at a time, so that the clock is seen.
            for first in (0..count).step_by(BLOCK) {
                let paths = lattice.draw(&backward, 0, BLOCK.min(count - first), random, clock)?;
                drawn.extend(paths.iter().map(|path| restriction.path(path)));
            }
            Ok(drawn)
        })
    }
}
