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

/// Relaxed samples of dependency trees: the best trees under Gumbel noise, and the probabilities of arcs in the
/// model with the same noise at a temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaxedTrees<F> {
    /// B, the number of samples S, T, and T + 1 heads: the root, then the words.
    pub shape: [usize; 4],
    /// L, if arcs have labels.
    pub labels: Option<usize>,
    /// The best trees of each sentence; none if it has none.
    pub hard: Vec<Vec<Tree>>,
    /// B×S×T×(T + 1), or B×S×T×(T + 1)×L: a probability vector for every word; zero beyond the end of a sentence.
    pub heads: Vec<F>,
}

/// A relaxed dependency tree with values for a few arcs.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseTree<F> {
    /// The best tree under noise.
    pub hard: Tree,
    /// The dependent, the head (0 for the root, i + 1 for word i) and the label of each value.
    pub index: Vec<[u32; 3]>,
    /// The values; those of a dependent sum to one.
    pub values: Vec<F>,
}

/// Relaxed dependency trees of a batch with values for a few arcs.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseTrees<F> {
    /// The samples of each sentence; none if its estimate of Z is 0.
    pub samples: Vec<Vec<SparseTree<F>>>,
    /// log Ẑ of the replicate of each sample: means over samples of several replicates are weighted by Ẑ.
    pub log_weights: Vec<Vec<f64>>,
}

/// A node of a binary tree over words. A tree is the list of its nodes, each followed by its left and then by
/// its right part; a node that is followed by one with the same words is rewritten by a unary rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Constituent {
    /// Its first word.
    pub first: usize,
    /// Its last word.
    pub last: usize,
    /// Its symbol.
    pub symbol: usize,
}

/// A tree over the words of a sentence and its score.
#[derive(Clone, Debug, PartialEq)]
pub struct ParseTree {
    /// Its nodes, each before its parts, the left part before the right one.
    pub nodes: Vec<Constituent>,
    /// Its log weight.
    pub score: f64,
}

/// The expected number of nodes with each symbol over each span.
#[derive(Clone, Debug, PartialEq)]
pub struct SpanMarginals<F> {
    /// B, T, T and S.
    pub shape: [usize; 4],
    /// By sentence, first word, last word and symbol; zero where there is no span. Without unary rules these
    /// are probabilities.
    pub values: Vec<F>,
}

/// Relaxed samples of trees over words: the expected numbers of nodes under scores with Gumbel noise, divided by
/// a temperature.
#[derive(Clone, Debug, PartialEq)]
pub struct RelaxedParses<F> {
    /// B, the number of samples, T, T and S.
    pub shape: [usize; 5],
    /// The best trees of the scores with noise, for each sentence and sample; none if a sentence has no tree.
    /// Their scores are those without noise.
    pub hard: Vec<Vec<ParseTree>>,
    /// By sentence, sample, first word, last word and symbol; zero where there is no span. A node that unary
    /// rules rewrite counts once, with the symbol that is divided or covers a word.
    pub values: Vec<F>,
}

/// The gradient with respect to the scores of a [`Hypertree`](crate::model::Hypertree); for log Z the expected
/// number of times that each is used.
#[derive(Clone, Debug, PartialEq)]
pub struct HypertreeGradient<F> {
    /// With respect to the words, B×T×P.
    pub words: Vec<F>,
    /// With respect to the roots, in their shape.
    pub roots: Vec<F>,
    /// With respect to the spans, in their form.
    pub spans: SpanGradient<F>,
    /// With respect to the rules, in their form.
    pub rules: RuleGradient<F>,
    /// With respect to the unary rules, one number each.
    pub unary: Vec<F>,
}

/// The gradient with respect to scores of spans.
#[derive(Clone, Debug, PartialEq)]
pub enum SpanGradient<F> {
    /// There are no such scores.
    None,
    /// In the shape of the scores.
    Scores(Vec<F>),
    /// With respect to embeddings.
    Factored {
        /// Of spans, B×T×T×D.
        spans: Vec<F>,
        /// Of symbols, N×D.
        symbols: Vec<F>,
    },
}

/// The gradient with respect to scores of rules.
#[derive(Clone, Debug, PartialEq)]
pub enum RuleGradient<F> {
    /// There are no such scores.
    None,
    /// In the shape of dense scores, or one number per listed rule.
    Scores(Vec<F>),
    /// With respect to the three factors.
    LowRank {
        /// In the shape of the factors of heads.
        heads: Vec<F>,
        /// In the shape of the factors of left parts.
        left: Vec<F>,
        /// In the shape of the factors of right parts.
        right: Vec<F>,
    },
}
