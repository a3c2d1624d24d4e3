//! The queries: one small trait each. A method implements those that it can answer.
//!
//! What an answer looks like is a property of the model: [`Answers`] says it for log Z and entropy,
//! [`HasMarginals`], [`HasFactorMarginals`] and [`HasStates`] for the other queries. A model that has log Z
//! only implements the first. Where model, query and method are chosen at run time, an answer is an
//! [`AnyAnswer`].

mod any;
mod differentiable;
mod forecast;
pub mod sequence;
mod values;

pub use any::{AnyAnswer, AnyValue, Draws, IntoValue, StateList, Tensors};
pub(crate) use differentiable::not_differentiable;
pub use differentiable::{Differentiable, Operation, Tape};
pub use forecast::{DEFAULT_HORIZON, Forecast, Forecasts};
pub use values::{Beliefs, BestState, FactorBeliefs, Law, Samples};

use crate::answer::Answer;
use crate::error::Result;
use crate::run::Run;

/// The type of log Z and entropy: a number, or for a batch one number per item.
pub trait Answers {
    /// `f64`, or `Vec<f64>` for a batch.
    type Number;
}

/// The type of a model's marginals.
pub trait HasMarginals: Answers {
    /// P(xᵢ = s) for every variable and state.
    type Marginals;
}

/// The type of a model's factor marginals, which is also that of the gradient of log Z by its parameters.
pub trait HasFactorMarginals: Answers {
    /// One number for every parameter.
    type FactorMarginals;
}

/// The types of a model's states: the best, the k best, samples.
pub trait HasStates: Answers {
    /// The best state with its score.
    type Best;
    /// The k best states with their scores.
    type Ranked;
    /// Samples.
    type Samples;
}

/// log Z = log Σₓ exp score(x), in nats.
pub trait LogPartition<M: Answers + ?Sized> {
    /// Answers the query.
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// P(xᵢ = s) for every variable and state.
pub trait Marginals<M: HasMarginals + ?Sized> {
    /// Answers the query.
    fn marginals(&self, model: &M, run: &Run) -> Result<Answer<M::Marginals>>;
}

/// P(x_f) for every factor f: the joint probability of the states of its scope.
pub trait FactorMarginals<M: HasFactorMarginals + ?Sized> {
    /// Answers the query.
    fn factor_marginals(&self, model: &M, run: &Run) -> Result<Answer<M::FactorMarginals>>;
}

/// H = −Σₓ p(x) log p(x), in nats.
pub trait Entropy<M: Answers + ?Sized> {
    /// Answers the query.
    fn entropy(&self, model: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// How far one model is from another of the same shape, in nats.
pub trait Divergence<M: Answers + ?Sized> {
    /// −Σₓ p(x) log q(x); +∞ where p has states that q does not have.
    fn cross_entropy(&self, p: &M, q: &M, run: &Run) -> Result<Answer<M::Number>>;

    /// KL(p ‖ q) = Σₓ p(x) log (p(x) / q(x)); +∞ where p has states that q does not have.
    fn kl(&self, p: &M, q: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// The state of largest weight. The guarantee is about its score.
pub trait Map<M: HasStates + ?Sized> {
    /// Answers the query.
    fn map(&self, model: &M, run: &Run) -> Result<Answer<M::Best>>;
}

/// The k states of largest weight, best first; fewer if fewer have a weight. The guarantee is about their
/// scores.
pub trait KBest<M: HasStates + ?Sized> {
    /// Finds `k` states.
    fn k_best(&self, model: &M, k: usize, run: &Run) -> Result<Answer<M::Ranked>>;
}

/// States drawn from the model.
pub trait Sample<M: HasStates + ?Sized> {
    /// Draws `count` states.
    fn sample(&self, model: &M, count: usize, run: &Run) -> Result<Answer<M::Samples>>;
}

/// The name of a query, where it is chosen at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Query {
    /// [`LogPartition`].
    LogPartition,
    /// [`Marginals`].
    Marginals,
    /// [`FactorMarginals`].
    FactorMarginals,
    /// [`Entropy`].
    Entropy,
    /// [`Map`].
    Map,
    /// [`KBest`] of this many states.
    KBest(usize),
    /// [`Sample`] of this many states.
    Sample(usize),
}

impl Query {
    /// One of each, to go through them all.
    pub const ALL: [Query; 7] = [
        Query::LogPartition,
        Query::Marginals,
        Query::FactorMarginals,
        Query::Entropy,
        Query::Map,
        Query::KBest(1),
        Query::Sample(1),
    ];

    /// The same query for another number of states, where that means anything.
    pub fn with_count(self, count: usize) -> Query {
        match self {
            Query::KBest(_) => Query::KBest(count),
            Query::Sample(_) => Query::Sample(count),
            other => other,
        }
    }

    /// The number of states that are asked for; 0 where that means nothing.
    pub fn count(self) -> usize {
        match self {
            Query::KBest(count) | Query::Sample(count) => count,
            _ => 0,
        }
    }

    /// The same query for at most as many states as a model has: exp `log_count`, or some more. `k_best`
    /// finds no more than that.
    pub(crate) fn at_most(self, log_count: f64) -> Query {
        // The logarithm is rounded, so a little more is allowed.
        let most = (log_count.exp() * (1.0 + 1e-9)).ceil();
        match self {
            Query::KBest(k) if (k as f64) > most => Query::KBest(most as usize),
            other => other,
        }
    }

    /// The name in JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Query::LogPartition => "log_partition",
            Query::Marginals => "marginals",
            Query::FactorMarginals => "factor_marginals",
            Query::Entropy => "entropy",
            Query::Map => "map",
            Query::KBest(_) => "k_best",
            Query::Sample(_) => "sample",
        }
    }
}
