//! Queries: one small trait each. A method implements the traits of the queries that it answers.
//!
//! The type of an answer is a property of the model: [`Answers`] defines it for log Z and entropy,
//! [`HasMarginals`], [`HasFactorMarginals`] and [`HasStates`] for the other queries. A model with only log Z
//! implements only the first. If model, query and method are chosen at run time, an answer is an
//! [`AnyAnswer`].
//!
//! # Errors
//!
//! Every query may return:
//!
//! - [`Error::Argument`](crate::Error::Argument) if an option of the method is out of range;
//! - [`Error::OverBudget`](crate::Error::OverBudget) if the method needs more memory than the budget, or the
//!   time is up before there is an answer;
//! - [`Error::Interrupted`](crate::Error::Interrupted) if the run is cancelled before there is an answer;
//! - [`Error::ZeroPartition`](crate::Error::ZeroPartition) if no state has positive weight, or
//!   [`Error::ImpossibleEvidence`](crate::Error::ImpossibleEvidence) if that is due to evidence; in a batch, if
//!   this holds for every item;
//! - [`Error::NoAnswer`](crate::Error::NoAnswer) if the method cannot answer for this model, or ends without a
//!   result;
//! - the error of a user-defined function.

mod any;
mod differentiable;
mod forecast;
pub(crate) mod sequence;
pub(crate) mod tree;
mod values;

pub use any::{AnyAnswer, AnyValue, Draws, IntoValue, StateList, Tensors};
pub(crate) use differentiable::not_differentiable;
pub use differentiable::{Differentiable, Operation, Tape};
pub use forecast::{DEFAULT_HORIZON, Forecast, Forecasts};
pub use sequence::{
    ChainGradient, NodeMarginals, Path, PathSamples, RelaxedSamples, Segmentation, SemiMarkovGradient,
    TransitionGradient,
};
pub use tree::{
    Constituent, DependencyGradient, HeadMarginals, HypertreeGradient, ParseTree, RelaxedParses,
    RelaxedTrees, RuleGradient, SpanGradient, SpanMarginals, SparseTree, SparseTrees, Tree,
};
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

/// The type of a model's factor marginals, which is also the type of the gradient of log Z with respect to
/// its parameters.
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
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// P(xᵢ = s) for every variable and state.
pub trait Marginals<M: HasMarginals + ?Sized> {
    /// Answers the query.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn marginals(&self, model: &M, run: &Run) -> Result<Answer<M::Marginals>>;
}

/// P(x_f) for every factor f: the joint probability of the states of its scope.
pub trait FactorMarginals<M: HasFactorMarginals + ?Sized> {
    /// Answers the query.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn factor_marginals(&self, model: &M, run: &Run) -> Result<Answer<M::FactorMarginals>>;
}

/// H = −Σₓ p(x) log p(x), in nats.
pub trait Entropy<M: Answers + ?Sized> {
    /// Answers the query.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn entropy(&self, model: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// Divergences between two models of the same shape, in nats.
pub trait Divergence<M: Answers + ?Sized> {
    /// −Σₓ p(x) log q(x); +∞ if some state has p(x) > 0 and q(x) = 0.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors); also if the models have different shapes.
    fn cross_entropy(&self, p: &M, q: &M, run: &Run) -> Result<Answer<M::Number>>;

    /// KL(p ‖ q) = Σₓ p(x) log (p(x) / q(x)); +∞ if some state has p(x) > 0 and q(x) = 0.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors); also if the models have different shapes.
    fn kl(&self, p: &M, q: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// The expectation of an additive score, such as the expected number of errors of a parse.
///
/// The score f(x) is a sum over the parts of x: states and transitions of a path, rules and words of a tree. Such a
/// function is given as a model with these scores, of the kind and shape of the model whose expectation it is. `E[f]` is
/// the inner product of the factor marginals and the scores. With scores of 0 and 1 it is an expected count, and with
/// the gradient of another function as scores a derivative.
///
/// ```
/// use zhat::dynamic::ForwardBackward;
/// use zhat::model::{Chain, Transitions};
/// use zhat::{Expectation, Run};
/// let chain = Chain::crf(2, vec![0.0; 6].into(), vec![3], Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into()))?;
/// // The number of transitions to another state.
/// let changes = Chain::crf(2, vec![0.0; 6].into(), vec![3], Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into()))?;
/// let mean = ForwardBackward::default().expectation(&chain, &changes, &Run::default())?;
/// let change = 1f64.exp() / (1.0 + 1f64.exp());
/// assert!((mean.value[0] - 2.0 * change).abs() < 1e-12);
/// # Ok::<(), zhat::Error>(())
/// ```
pub trait Expectation<M: Answers + ?Sized> {
    /// Σₓ p(x) f(x), where p is the distribution of `model` and f(x) the score of x in `scores`. Scores of −∞ of parts
    /// that have probability zero count as 0; −∞ if another part has such a score.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors); also if the models have different shapes.
    fn expectation(&self, model: &M, scores: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// The state of largest weight. The guarantee applies to its score.
pub trait Map<M: HasStates + ?Sized> {
    /// Answers the query.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn map(&self, model: &M, run: &Run) -> Result<Answer<M::Best>>;
}

/// The k states of largest weight, best first; fewer if fewer have positive weight. The guarantee applies to
/// their scores.
pub trait KBest<M: HasStates + ?Sized> {
    /// Finds `k` states.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn k_best(&self, model: &M, k: usize, run: &Run) -> Result<Answer<M::Ranked>>;
}

/// States drawn from the model.
pub trait Sample<M: HasStates + ?Sized> {
    /// Draws `count` states.
    ///
    /// # Errors
    /// Those of [every query](crate::query#errors).
    fn sample(&self, model: &M, count: usize, run: &Run) -> Result<Answer<M::Samples>>;
}

/// A query that is chosen at run time.
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
    /// One query of each kind.
    pub const ALL: [Query; 7] = [
        Query::LogPartition,
        Query::Marginals,
        Query::FactorMarginals,
        Query::Entropy,
        Query::Map,
        Query::KBest(1),
        Query::Sample(1),
    ];

    /// The same query for another number of states; queries without a number of states are unchanged.
    pub fn with_count(self, count: usize) -> Query {
        match self {
            Query::KBest(_) => Query::KBest(count),
            Query::Sample(_) => Query::Sample(count),
            other => other,
        }
    }

    /// The requested number of states; 0 for queries without one.
    pub fn count(self) -> usize {
        match self {
            Query::KBest(count) | Query::Sample(count) => count,
            _ => 0,
        }
    }

    /// Limits `k_best` to the number of states of a model, exp `log_count`, or slightly more.
    pub(crate) fn at_most(self, log_count: f64) -> Query {
        // The logarithm is rounded, so the limit is slightly larger.
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
