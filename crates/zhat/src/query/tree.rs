//! The values of answers about batches of trees.

/// The probability of each head of each word.
#[derive(Clone, Debug, PartialEq)]
pub struct HeadMarginals<F> {
    /// B, T, and T + 1 heads: the root, then the words.
    pub shape: [usize; 3],
    /// P(the head of word d is h), by sentence, word and head; zero beyond the end of a sentence.
    pub values: Vec<F>,
}

/// The gradient with respect to the scores of a batch of dependency trees; for log Z the probabilities of all
/// arcs.
#[derive(Clone, Debug, PartialEq)]
pub struct DependencyGradient<F> {
    /// With respect to the arcs, in their shape.
    pub arcs: Vec<F>,
    /// With respect to the arcs from the root.
    pub roots: Vec<F>,
}

/// A dependency tree and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The head of each word: 0 for the root, i + 1 for word i.
    pub heads: Vec<usize>,
    /// The label of the arc into each word; empty if arcs have no labels.
    pub labels: Vec<usize>,
    /// Its log weight.
    pub score: f64,
}
