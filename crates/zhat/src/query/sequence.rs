//! Values of answers about sequences: one per sequence of a batch, and gradients of the shared parameters.

use crate::numeric::Real;

/// P(xₜ = i) for every sequence, position and state: B×T×N, zero after the end of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeMarginals<F> {
    /// B, T and N.
    pub shape: [usize; 3],
    /// The probabilities.
    pub values: Vec<F>,
}

impl<F: Real> NodeMarginals<F> {
    /// The probabilities of the states of sequence b at position t.
    pub fn at(&self, b: usize, t: usize) -> &[F] {
        let [_, steps, states] = self.shape;
        &self.values[(b * steps + t) * states..][..states]
    }
}

/// The gradient of Σ_b c_b · value_b with respect to every parameter of a chain. For value = log Z and c = 1
/// it consists of expected counts: node marginals, and edge marginals summed over positions and sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainGradient<F> {
    /// With respect to the start scores: N.
    pub start: Vec<F>,
    /// With respect to the emissions: B×T×N, zero after the end of a sequence.
    pub emissions: Vec<F>,
    /// With respect to the transitions, in their form.
    pub transitions: TransitionGradient<F>,
    /// With respect to the end scores: N, if the model has them.
    pub end: Option<Vec<F>>,
}

/// The gradient with respect to transitions, in their form.
#[derive(Clone, Debug, PartialEq)]
pub enum TransitionGradient<F> {
    /// N×N.
    Shared(Vec<F>),
    /// (T−1)×N×N.
    PerStep(Vec<F>),
    /// B×(T−1)×N×N.
    PerSequence(Vec<F>),
    /// With respect to the embeddings, N×D each; `right` is `None` if the model has only left embeddings.
    Factored {
        /// With respect to the left embeddings, or to both if they are the same.
        left: Vec<F>,
        /// With respect to the right embeddings.
        right: Option<Vec<F>>,
    },
    /// With respect to the log factors of low-rank transitions, N×R each.
    LowRank {
        /// With respect to the log factors of source states.
        left: Vec<F>,
        /// With respect to the log factors of target states.
        right: Vec<F>,
    },
    /// With respect to the entries of sparse transitions.
    Sparse {
        /// The derivatives.
        values: Vec<F>,
        /// The number of entries E, or T−1 and E if each step has its own values.
        shape: Vec<usize>,
    },
}

/// The gradient with respect to every parameter of a semi-Markov chain.
#[derive(Clone, Debug, PartialEq)]
pub struct SemiMarkovGradient<F> {
    /// With respect to start, emissions and transitions.
    pub chain: ChainGradient<F>,
    /// With respect to the segment scores, in their form.
    pub segments: Vec<F>,
}

/// A sequence of states and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Path {
    /// The state at each position.
    pub states: Vec<usize>,
    /// Its log weight.
    pub score: f64,
}

/// A segmentation and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Segmentation {
    /// (state, length) of each segment.
    pub segments: Vec<(usize, usize)>,
    /// Its log weight.
    pub score: f64,
}

/// Sequences of states drawn from a batch of chains, the same number for each sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct PathSamples<S = Vec<usize>> {
    /// The samples of each sequence of the batch.
    pub samples: Vec<Vec<S>>,
    /// The log weights of the samples of each sequence, if they are drawn from a distribution other than the
    /// model.
    pub log_weights: Option<Vec<Vec<f64>>>,
}

/// Relaxed samples: each path, drawn backward by the Gumbel-max trick, together with the softmaxes that
/// correspond to its argmaxes. For segments, the rows of `states` and `lengths` are at the last position of
/// each segment; the other rows are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaxedSamples<F, P = Vec<usize>> {
    /// B, the number of samples S, T and N.
    pub shape: [usize; 4],
    /// The maximum segment length L; 0 for chains.
    pub longest: usize,
    /// The paths of each sequence of the batch, or (state, length) of each segment; none if the sequence has
    /// none.
    pub hard: Vec<Vec<P>>,
    /// B×S×T×N: a probability vector for every position, or for the state of every segment; zero after the
    /// end of a sequence.
    pub states: Vec<F>,
    /// B×S×T×L: a probability vector for the length of every segment, in which entry d − 1 is length d. Empty
    /// for chains.
    pub lengths: Vec<F>,
}
