//! Models: potentials and structure, checked when built.

mod chain;
mod convert;
mod count;
mod factor_graph;
mod family;
pub mod generate;
mod mixed;
mod names;
mod observe;
mod pairwise;
mod semi_markov;
mod sequence_mrf;
mod sizes;
pub(crate) mod space;
pub(crate) mod table;
mod values;

pub use chain::{Chain, Transitions};
pub use factor_graph::{Factor, FactorGraph, Form};
pub use family::Family;
pub(crate) use mixed::Component;
pub use mixed::{Domain, MixedModel, MixedSizes, Statistic, Term};
pub use names::Names;
pub use observe::Observed;
pub use pairwise::PairwiseGraph;
pub use semi_markov::{Segments, SemiMarkov};
pub use sequence_mrf::{Interactions, SequenceMrf};
pub use sizes::SequenceSizes;
pub use values::Values;

use space::SpaceModel;

/// The kinds of model that a file can hold and the catalogue has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`FactorGraph`].
    FactorGraph,
    /// [`Chain`], of either precision.
    Chain,
    /// [`SemiMarkov`], of either precision.
    SemiMarkov,
    /// [`PairwiseGraph`], of either precision.
    PairwiseGraph,
    /// [`MixedModel`].
    MixedModel,
    /// [`SpaceModel`].
    Space,
    /// [`SequenceMrf`].
    SequenceMrf,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 7] = [
        Kind::FactorGraph,
        Kind::Chain,
        Kind::SemiMarkov,
        Kind::PairwiseGraph,
        Kind::MixedModel,
        Kind::Space,
        Kind::SequenceMrf,
    ];

    /// The name in files, JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FactorGraph => "factor-graph",
            Kind::Chain => "chain",
            Kind::SemiMarkov => "semi-markov",
            Kind::PairwiseGraph => "pairwise-graph",
            Kind::MixedModel => "mixed-model",
            Kind::Space => "space",
            Kind::SequenceMrf => "sequence-mrf",
        }
    }
}

/// A model whose kind is known at run time only, as read from a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// A factor graph.
    FactorGraph(FactorGraph),
    /// A batch of chains in single precision.
    Chain32(Chain<f32>),
    /// A batch of chains in double precision.
    Chain64(Chain<f64>),
    /// A batch of semi-Markov chains in single precision.
    SemiMarkov32(SemiMarkov<f32>),
    /// A batch of semi-Markov chains in double precision.
    SemiMarkov64(SemiMarkov<f64>),
    /// A pairwise graph in single precision.
    Pairwise32(PairwiseGraph<f32>),
    /// A pairwise graph in double precision.
    Pairwise64(PairwiseGraph<f64>),
    /// A model of discrete and continuous variables.
    MixedModel(MixedModel),
    /// Structures of a combinatorial space.
    Space(SpaceModel),
    /// A cycle of positions with shared parameters.
    SequenceMrf(SequenceMrf),
}

impl Model {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            Model::FactorGraph(_) => Kind::FactorGraph,
            Model::Chain32(_) | Model::Chain64(_) => Kind::Chain,
            Model::SemiMarkov32(_) | Model::SemiMarkov64(_) => Kind::SemiMarkov,
            Model::Pairwise32(_) | Model::Pairwise64(_) => Kind::PairwiseGraph,
            Model::MixedModel(_) => Kind::MixedModel,
            Model::Space(_) => Kind::Space,
            Model::SequenceMrf(_) => Kind::SequenceMrf,
        }
    }
}

macro_rules! from_each {
    ($($variant:ident($kind:ty)),*) => {
        $(impl From<$kind> for Model {
            fn from(model: $kind) -> Self {
                Model::$variant(model)
            }
        })*
    };
}

from_each!(
    FactorGraph(FactorGraph),
    Chain32(Chain<f32>),
    Chain64(Chain<f64>),
    SemiMarkov32(SemiMarkov<f32>),
    SemiMarkov64(SemiMarkov<f64>),
    Pairwise32(PairwiseGraph<f32>),
    Pairwise64(PairwiseGraph<f64>),
    MixedModel(MixedModel),
    Space(SpaceModel),
    SequenceMrf(SequenceMrf)
);
