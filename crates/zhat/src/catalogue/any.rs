//! Answers whose type is known at run time only.

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::method::messages::pairwise::PairwiseGradient;
use crate::model::space::{Expectations, SpaceMarginals};
#[cfg(doc)]
use crate::query::Query;
use crate::query::sequence::{
    ChainGradient, NodeMarginals, Path, PathSamples, Segmentation, SemiMarkovGradient,
};
use crate::query::{Beliefs, BestState, FactorBeliefs, Samples};

/// An answer to a query that is chosen at run time.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum AnyAnswer {
    /// To [`Query::LogPartition`] and [`Query::Entropy`].
    Estimate(Estimate),
    /// To [`Query::Marginals`].
    Beliefs(Answer<Beliefs>),
    /// To [`Query::FactorMarginals`].
    FactorBeliefs(Answer<FactorBeliefs>),
    /// To [`Query::Map`].
    Best(Answer<BestState>),
    /// To [`Query::KBest`].
    Ranked(Answer<Vec<BestState>>),
    /// To [`Query::Sample`].
    Samples(Answer<Samples>),
    /// To [`Query::FactorMarginals`] of a model on a space.
    Expectations(Answer<Expectations>),
    /// To [`Query::Marginals`] of a model on a space.
    SpaceMarginals(Answer<SpaceMarginals>),
    /// To any query about a batch of sequences.
    Sequences(Answer<Sequences>),
}

/// The value of an answer about a batch of sequences, by query, kind of model and precision.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Sequences {
    /// log Z or entropy of each.
    Numbers(Vec<f64>),
    /// Node marginals.
    Marginals32(NodeMarginals<f32>),
    /// Node marginals.
    Marginals64(NodeMarginals<f64>),
    /// Factor marginals of a chain.
    Gradient32(ChainGradient<f32>),
    /// Factor marginals of a chain.
    Gradient64(ChainGradient<f64>),
    /// Factor marginals of a semi-Markov chain.
    SemiMarkovGradient32(SemiMarkovGradient<f32>),
    /// Factor marginals of a semi-Markov chain.
    SemiMarkovGradient64(SemiMarkovGradient<f64>),
    /// Factor marginals of a pairwise graph.
    PairwiseGradient32(PairwiseGradient<f32>),
    /// Factor marginals of a pairwise graph.
    PairwiseGradient64(PairwiseGradient<f64>),
    /// The best path of each.
    Paths(Vec<Path>),
    /// The best segmentation of each.
    Segmentations(Vec<Segmentation>),
    /// The k best paths of each.
    RankedPaths(Vec<Vec<Path>>),
    /// The k best segmentations of each.
    RankedSegmentations(Vec<Vec<Segmentation>>),
    /// Paths drawn.
    PathSamples(PathSamples),
    /// Segmentations drawn.
    SegmentationSamples(PathSamples<Vec<(usize, usize)>>),
}

macro_rules! sequences {
    ($($variant:ident: $value:ty),* $(,)?) => {
        $(impl From<$value> for Sequences {
            fn from(value: $value) -> Self {
                Sequences::$variant(value)
            }
        }

        impl From<Answer<$value>> for AnyAnswer {
            fn from(answer: Answer<$value>) -> Self {
                AnyAnswer::Sequences(answer.map(Sequences::$variant))
            }
        })*
    };
}

sequences!(
    Numbers: Vec<f64>,
    Marginals32: NodeMarginals<f32>,
    Marginals64: NodeMarginals<f64>,
    Gradient32: ChainGradient<f32>,
    Gradient64: ChainGradient<f64>,
    SemiMarkovGradient32: SemiMarkovGradient<f32>,
    SemiMarkovGradient64: SemiMarkovGradient<f64>,
    PairwiseGradient32: PairwiseGradient<f32>,
    PairwiseGradient64: PairwiseGradient<f64>,
    Paths: Vec<Path>,
    Segmentations: Vec<Segmentation>,
    RankedPaths: Vec<Vec<Path>>,
    RankedSegmentations: Vec<Vec<Segmentation>>,
    PathSamples: PathSamples,
    SegmentationSamples: PathSamples<Vec<(usize, usize)>>,
);

macro_rules! graph_answers {
    ($($variant:ident: $value:ty),* $(,)?) => {
        $(impl From<Answer<$value>> for AnyAnswer {
            fn from(answer: Answer<$value>) -> Self {
                AnyAnswer::$variant(answer)
            }
        })*
    };
}

graph_answers!(
    Estimate: f64,
    Beliefs: Beliefs,
    FactorBeliefs: FactorBeliefs,
    Best: BestState,
    Ranked: Vec<BestState>,
    Samples: Samples,
    Expectations: Expectations,
    SpaceMarginals: SpaceMarginals,
);

impl AnyAnswer {
    /// What is promised.
    pub fn guarantee(&self) -> &Guarantee {
        self.about().0
    }

    /// How it came about.
    pub fn diagnostics(&self) -> &Diagnostics {
        self.about().1
    }

    /// All but the value.
    fn about(&self) -> (&Guarantee, &Diagnostics) {
        fn of<T>(answer: &Answer<T>) -> (&Guarantee, &Diagnostics) {
            (&answer.guarantee, &answer.diagnostics)
        }
        match self {
            AnyAnswer::Estimate(answer) => of(answer),
            AnyAnswer::Beliefs(answer) => of(answer),
            AnyAnswer::FactorBeliefs(answer) => of(answer),
            AnyAnswer::Best(answer) => of(answer),
            AnyAnswer::Ranked(answer) => of(answer),
            AnyAnswer::Samples(answer) => of(answer),
            AnyAnswer::Expectations(answer) => of(answer),
            AnyAnswer::SpaceMarginals(answer) => of(answer),
            AnyAnswer::Sequences(answer) => of(answer),
        }
    }
}
