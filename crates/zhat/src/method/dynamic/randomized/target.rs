//! What estimates need of a model: proposals for its positions, and answers on the states that were chosen.

use super::proposal::{Proposal, Rule, Support};
use crate::error::Result;
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::{NodeMarginals, PathSamples};
use crate::query::{Answers, HasFactorMarginals, HasMarginals, HasStates};
use crate::random::{Stream, Streams};
use crate::run::Clock;

/// A batch of sequences that can be restricted to some states of each position.
pub trait Target:
    Clone
    + Sync
    + Answers<Number = Vec<f64>>
    + HasMarginals<Marginals = NodeMarginals<Self::Real>>
    + HasFactorMarginals<FactorMarginals = Self::Gradient>
    + HasStates<Samples = PathSamples<Self::Drawn>>
{
    /// Its precision.
    type Real: Real;
    /// Its gradient.
    type Gradient: Send;
    /// One sample.
    type Drawn: Send;

    /// Start, emissions and transitions.
    fn chain(&self) -> &Chain<Self::Real>;

    /// L, 1 for a chain.
    fn longest(&self) -> usize;

    /// A bound on |score|.
    fn largest_score(&self) -> f64;

    /// Numbers of the gradient with respect to transitions and segments.
    fn parameters(&self) -> usize;

    /// A gradient of zeros.
    fn zero_gradient(&self) -> Self::Gradient;

    /// What is likely to matter.
    fn proposals<'a>(&'a self, proposal: Proposal, scores: &'a [f64]) -> Box<dyn Proposals<Self::Real> + 'a>;

    /// log Ẑ of sequence b; −∞ if it has no weight on the chosen states.
    fn log_partition_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64>;

    /// Ĥ of sequence b, which must have a weight on the chosen states; so for all that follow.
    fn entropy_on(&self, b: usize, support: &Support, clock: &Clock<'_>) -> Result<f64>;

    /// Adds `factor` times the marginals to B×T×N numbers.
    fn add_marginals_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        marginals: &mut [Self::Real],
    ) -> Result<()>;

    /// Adds `factor` times the gradient of log Ẑ.
    fn add_gradient_on(
        &self,
        b: usize,
        support: &Support,
        factor: f64,
        clock: &Clock<'_>,
        gradient: &mut Self::Gradient,
    ) -> Result<()>;

    /// Adds `factor` times the gradient of Ĥ and `also` times that of log Ẑ.
    fn add_entropy_gradient_on(
        &self,
        b: usize,
        support: &Support,
        factors: (f64, f64),
        clock: &Clock<'_>,
        gradient: &mut Self::Gradient,
    ) -> Result<()>;

    /// Draws from p̂.
    fn draw_on(
        &self,
        b: usize,
        support: &Support,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<Self::Drawn>>;
}

/// The proposals for the positions of a batch.
pub trait Proposals<F: Real>: Sync {
    /// Backward messages of sequence b for every position and state, each position up to a constant.
    fn guide(&self, b: usize, rule: Rule, streams: &Streams, clock: &Clock<'_>) -> Result<Vec<F>>;

    /// Chooses the states of sequence b for one replicate.
    fn support(
        &self,
        b: usize,
        replicate: usize,
        guide: &[F],
        rule: Rule,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Support>;
}
