//! The questions one can ask of a model: one small trait each. A method implements those it can answer.

pub mod sequence;

use crate::answer::Answer;
use crate::error::Result;
use crate::model::{Chain, FactorGraph, MixedModel, SemiMarkov, SequenceMrf};
use crate::numeric::Real;
use crate::query::sequence::{
    ChainGradient, NodeMarginals, Path, PathSamples, Segmentation, SemiMarkovGradient,
};
use crate::run::Run;

/// The forms that answers about a model take: of a batch there is one for each item.
pub trait Answers {
    /// Of log Z and entropy.
    type Number;
    /// Of marginals.
    type Marginals;
    /// Of factor marginals.
    type FactorMarginals;
    /// Of the best state.
    type Best;
    /// Of the k best states.
    type Ranked;
    /// Of samples.
    type Samples;
}

impl Answers for FactorGraph {
    type Number = f64;
    type Marginals = Beliefs;
    type FactorMarginals = FactorBeliefs;
    type Best = BestState;
    type Ranked = Vec<BestState>;
    type Samples = Samples;
}

/// There is log Z so far.
impl Answers for MixedModel {
    type Number = f64;
    type Marginals = Beliefs;
    type FactorMarginals = Vec<f64>;
    type Best = Vec<f64>;
    type Ranked = Vec<Vec<f64>>;
    type Samples = Vec<Vec<f64>>;
}

/// There is log Z so far; marginals are the same at every position.
impl Answers for SequenceMrf {
    type Number = f64;
    type Marginals = Vec<f64>;
    type FactorMarginals = Vec<Vec<f64>>;
    type Best = Vec<usize>;
    type Ranked = Vec<Vec<usize>>;
    type Samples = Vec<Vec<usize>>;
}

/// One for each sequence; the factor marginals are the gradient of Σ_b log Z_b.
impl<F: Real> Answers for Chain<F> {
    type Number = Vec<f64>;
    type Marginals = NodeMarginals<F>;
    type FactorMarginals = ChainGradient<F>;
    type Best = Vec<Path>;
    type Ranked = Vec<Vec<Path>>;
    type Samples = PathSamples;
}

/// As for [`Chain`].
impl<F: Real> Answers for SemiMarkov<F> {
    type Number = Vec<f64>;
    type Marginals = NodeMarginals<F>;
    type FactorMarginals = SemiMarkovGradient<F>;
    type Best = Vec<Segmentation>;
    type Ranked = Vec<Vec<Segmentation>>;
    type Samples = PathSamples<Vec<(usize, usize)>>;
}

/// log Z = log Σₓ exp score(x), in nats.
pub trait LogPartition<M: Answers + ?Sized> {
    /// Answers the query.
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<M::Number>>;
}

/// P(xᵢ = s) for every variable and state.
pub trait Marginals<M: Answers + ?Sized> {
    /// Answers the query.
    fn marginals(&self, model: &M, run: &Run) -> Result<Answer<M::Marginals>>;
}

/// P(x_f) for every factor f: the joint probability of the states of its scope.
pub trait FactorMarginals<M: Answers + ?Sized> {
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
pub trait Map<M: Answers + ?Sized> {
    /// Answers the query.
    fn map(&self, model: &M, run: &Run) -> Result<Answer<M::Best>>;
}

/// The k states of largest weight, best first; fewer if fewer have a weight. The guarantee is about their scores.
pub trait KBest<M: Answers + ?Sized> {
    /// Finds `k` states.
    fn k_best(&self, model: &M, k: usize, run: &Run) -> Result<Answer<M::Ranked>>;
}

/// States drawn from the model.
pub trait Sample<M: Answers + ?Sized> {
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

    /// The same query for at most as many states as a model has: exp `log_count`, or some more. `k_best` finds no more than that.
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

/// One probability vector a variable.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct Beliefs {
    offsets: Vec<usize>,
    probabilities: Vec<f64>,
}

impl Beliefs {
    /// All-zero vectors of the given lengths.
    pub fn zeros(cardinalities: &[usize]) -> Self {
        let mut offsets = Vec::with_capacity(cardinalities.len() + 1);
        offsets.push(0);
        let mut end = 0;
        for &states in cardinalities {
            end += states;
            offsets.push(end);
        }
        Beliefs { offsets, probabilities: vec![0.0; end] }
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// True if there are no variables.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The probabilities of variable `v`'s states.
    pub fn variable(&self, v: usize) -> &[f64] {
        &self.probabilities[self.offsets[v]..self.offsets[v + 1]]
    }

    /// The same, to be written.
    pub fn variable_mut(&mut self, v: usize) -> &mut [f64] {
        &mut self.probabilities[self.offsets[v]..self.offsets[v + 1]]
    }

    /// The vectors in variable order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        (0..self.len()).map(|v| self.variable(v))
    }

    /// All probabilities, one variable after the other.
    pub fn as_slice(&self) -> &[f64] {
        &self.probabilities
    }

    /// All probabilities, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        &mut self.probabilities
    }

    /// Scales every vector to sum to one; an all-zero vector is left alone.
    pub(crate) fn normalise(&mut self) {
        for v in 0..self.len() {
            let vector = self.variable_mut(v);
            let total: f64 = vector.iter().sum();
            if total > 0.0 {
                vector.iter_mut().for_each(|p| *p /= total);
            }
        }
    }
}

impl AsRef<[f64]> for Beliefs {
    fn as_ref(&self) -> &[f64] {
        self.as_slice()
    }
}

/// One probability table a factor: the axes are the factor's scope in its own order, row-major, the last fastest. A factor
/// over no variable has the one entry 1.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct FactorBeliefs(Beliefs);

impl FactorBeliefs {
    /// All-zero tables, one for every factor of `graph`.
    pub fn zeros(graph: &FactorGraph) -> Self {
        let sizes: Vec<usize> = graph.factors().map(|factor| factor.log_values.len()).collect();
        FactorBeliefs(Beliefs::zeros(&sizes))
    }

    /// The number of factors.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True if there are no factors.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The table of factor `f`.
    pub fn factor(&self, f: usize) -> &[f64] {
        self.0.variable(f)
    }

    /// The same, to be written.
    pub fn factor_mut(&mut self, f: usize) -> &mut [f64] {
        self.0.variable_mut(f)
    }

    /// The tables in the order of the factors.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f64]> {
        self.0.iter()
    }

    /// All probabilities, one factor after the other.
    pub fn as_slice(&self) -> &[f64] {
        self.0.as_slice()
    }

    /// All probabilities, to be written.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [f64] {
        self.0.as_mut_slice()
    }

    /// Scales every table to sum to one; an all-zero table is left alone.
    pub(crate) fn normalise(&mut self) {
        self.0.normalise();
    }
}

impl AsRef<[f64]> for FactorBeliefs {
    fn as_ref(&self) -> &[f64] {
        self.as_slice()
    }
}

/// A state and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct BestState {
    /// The state of each variable.
    pub state: Vec<usize>,
    /// Its log weight.
    pub score: f64,
}

/// States drawn from a model, and the law they follow.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples {
    count: usize,
    variables: usize,
    states: Vec<usize>,
    /// What they may be used for.
    pub law: Law,
}

/// The law that samples follow.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Law {
    /// Independent draws from the model.
    Exact,
    /// Independent draws from a proposal; sample s stands for the model with weight exp(log_weights\[s\]).
    Weighted {
        /// log of (model weight / proposal probability), one a sample.
        log_weights: Vec<f64>,
    },
    /// Draws whose law is within this total-variation distance of the model.
    Approximate {
        /// The distance.
        distance: f64,
    },
}

impl Samples {
    /// Wraps `count` states stored sample after sample.
    pub(crate) fn new(count: usize, variables: usize, states: Vec<usize>, law: Law) -> Self {
        debug_assert_eq!(states.len(), count * variables);
        Samples { count, variables, states, law }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The number of variables.
    pub fn variables(&self) -> usize {
        self.variables
    }

    /// The samples, each a state of every variable.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[usize]> {
        (0..self.count).map(|s| &self.states[s * self.variables..(s + 1) * self.variables])
    }

    /// All states, sample after sample.
    pub fn as_slice(&self) -> &[usize] {
        &self.states
    }
}
