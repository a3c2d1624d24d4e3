//! The sizes of a batch of sequences, for those who show them.

use super::{Chain, Model, PairwiseGraph, Segments, SemiMarkov, Transitions};
use crate::numeric::Real;

/// How large a batch of chains or semi-Markov chains is, and in which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceSizes {
    /// N.
    pub states: usize,
    /// T; of a pairwise graph the number of variables.
    pub steps: usize,
    /// B; of a pairwise graph 1.
    pub batch: usize,
    /// Of a pairwise graph the number of edges.
    pub edges: Option<usize>,
    /// The positions of all sequences together.
    pub positions: usize,
    /// The length of the shortest sequence.
    pub shortest: usize,
    /// The form of the transitions: `shared`, `per-step` or `factored`.
    pub form: &'static str,
    /// D, where the transitions are factored.
    pub rank: Option<usize>,
    /// L, of a semi-Markov chain.
    pub longest_segment: Option<usize>,
    /// `f32` or `f64`.
    pub precision: &'static str,
    /// How many numbers there are.
    pub values: usize,
    /// How many of them are −∞.
    pub zeros: usize,
    /// The memory that they take.
    pub bytes: usize,
}

impl Model {
    /// The sizes of a chain, semi-Markov chain or pairwise graph.
    pub fn sequence_sizes(&self) -> Option<SequenceSizes> {
        match self {
            Model::FactorGraph(_) | Model::MixedModel(_) | Model::Space(_) | Model::SequenceMrf(_) => None,
            Model::Chain32(chain) => Some(chain.sizes()),
            Model::Chain64(chain) => Some(chain.sizes()),
            Model::SemiMarkov32(model) => Some(model.sizes()),
            Model::SemiMarkov64(model) => Some(model.sizes()),
            Model::Pairwise32(graph) => Some(graph.sizes()),
            Model::Pairwise64(graph) => Some(graph.sizes()),
        }
    }

    /// L, of a semi-Markov chain.
    pub fn longest_segment(&self) -> Option<usize> {
        match self {
            Model::SemiMarkov32(model) => Some(model.longest()),
            Model::SemiMarkov64(model) => Some(model.longest()),
            _ => None,
        }
    }

    /// The length of each sequence of a chain or semi-Markov chain, of a pairwise graph the number of its variables; of a factor graph there is
    /// none.
    pub fn lengths(&self) -> &[usize] {
        match self {
            Model::FactorGraph(_) | Model::MixedModel(_) | Model::Space(_) | Model::SequenceMrf(_) => &[],
            Model::Chain32(chain) => chain.lengths(),
            Model::Chain64(chain) => chain.lengths(),
            Model::SemiMarkov32(model) => model.chain().lengths(),
            Model::SemiMarkov64(model) => model.chain().lengths(),
            Model::Pairwise32(graph) => graph.lengths(),
            Model::Pairwise64(graph) => graph.lengths(),
        }
    }
}

fn zeros<F: Real>(values: &[F]) -> usize {
    values.iter().filter(|x| **x == F::NEG_INFINITY).count()
}

impl<F: Real> Chain<F> {
    /// The sizes, and what there is of zeros.
    pub fn sizes(&self) -> SequenceSizes {
        let (states, steps) = (self.states(), self.steps());
        let mut zero_count = zeros(self.start()) + zeros(self.emissions());
        let mut rank = None;
        match self.transitions() {
            Transitions::Shared(values) | Transitions::PerStep(values) => zero_count += zeros(values),
            Transitions::Factored { left, .. } => rank = Some(left.len() / states),
        }
        SequenceSizes {
            states,
            steps,
            batch: self.batch(),
            edges: None,
            positions: self.lengths().iter().sum(),
            shortest: self.lengths().iter().copied().min().unwrap_or(0),
            form: self.transitions().form(),
            rank,
            longest_segment: None,
            precision: F::NAME,
            values: self.bytes() / size_of::<F>(),
            zeros: zero_count,
            bytes: self.bytes(),
        }
    }
}

impl<F: Real> PairwiseGraph<F> {
    /// The sizes, and what there is of zeros.
    pub fn sizes(&self) -> SequenceSizes {
        let mut zero_count = zeros(self.nodes());
        let mut rank = None;
        match self.interactions() {
            Transitions::Shared(values) | Transitions::PerStep(values) => zero_count += zeros(values),
            Transitions::Factored { left, .. } => rank = Some(left.len() / self.states()),
        }
        SequenceSizes {
            states: self.states(),
            steps: self.variables(),
            batch: 1,
            edges: Some(self.edges().len()),
            positions: self.variables(),
            shortest: self.variables(),
            form: if self.interactions().form() == "per-step" {
                "per-edge"
            } else {
                self.interactions().form()
            },
            rank,
            longest_segment: None,
            precision: F::NAME,
            values: self.nodes().len() + self.interactions().len(),
            zeros: zero_count,
            bytes: self.bytes(),
        }
    }
}

impl<F: Real> SemiMarkov<F> {
    /// The sizes, and what there is of zeros.
    pub fn sizes(&self) -> SequenceSizes {
        let chain = self.chain().sizes();
        let (Segments::Lengths(scores) | Segments::Places(scores)) = self.segments();
        SequenceSizes {
            longest_segment: Some(self.longest()),
            values: chain.values + scores.len(),
            zeros: chain.zeros + zeros(scores),
            bytes: chain.bytes + scores.len() * size_of::<F>(),
            ..chain
        }
    }
}
