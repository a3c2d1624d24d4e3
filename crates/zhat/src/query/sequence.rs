//! What answers about sequences look like: one for each sequence of a batch, and gradients of the shared
//! parameters.

use crate::numeric::Real;

/// P(xₜ = i) for every sequence, position and state: B×T×N, zero behind a sequence's end.
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
/// these are expected counts: node marginals, and edge marginals summed over positions and sequences.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainGradient<F> {
    /// N.
    pub start: Vec<F>,
    /// B×T×N, zero behind a sequence's end.
    pub emissions: Vec<F>,
    /// In the form of the transitions.
    pub transitions: TransitionGradient<F>,
}

/// The gradient with respect to transitions, in their form.
#[derive(Clone, Debug, PartialEq)]
pub enum TransitionGradient<F> {
    /// N×N.
    Shared(Vec<F>),
    /// (T−1)×N×N.
    PerStep(Vec<F>),
    /// With respect to the embeddings, N×D each; `right` is `None` where the model has none of its own.
    Factored {
        /// With respect to the left embeddings, or both where they are the same.
        left: Vec<F>,
        /// With respect to the right embeddings.
        right: Option<Vec<F>>,
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
    /// For each sequence of the batch its samples.
    pub samples: Vec<Vec<S>>,
    /// For each sequence of the batch the log weight of each sample, where they are draws from something else
    /// than the model.
    pub log_weights: Option<Vec<Vec<f64>>>,
}

/// Relaxed samples: beside each path, drawn backward by the Gumbel-max trick, the softmaxes that its argmaxes were taken of. Of segments
/// their rows stand at the last position of each segment; the others are zero.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaxedSamples<F, P = Vec<usize>> {
    /// B, the number of samples S, T and N.
    pub shape: [usize; 4],
    /// L, 0 for chains.
    pub longest: usize,
    /// For each sequence of the batch its paths, or (state, length) of each segment; none where the sequence has none.
    pub hard: Vec<Vec<P>>,
    /// B×S×T×N: a probability vector for every position, or for the state of every segment; zero behind a sequence's end.
    pub states: Vec<F>,
    /// B×S×T×L: for every segment a probability vector of its length; length d is entry d − 1. Empty for chains.
    pub lengths: Vec<F>,
}
