//! Models: potentials and structure, checked when built.

pub mod any;
pub(crate) mod chain;
mod factor_graph;
pub mod generate;
mod mixed;
mod pairwise;
mod semi_markov;
pub(crate) mod sequence_mrf;
pub(crate) mod space;
pub(crate) mod table;

pub use crate::values::Values;
pub use any::{AnyModel, Batch, Evidence, Kind, Model, Reader, StateForm, Summary};
pub use chain::{Chain, Observed, Transitions};
pub use factor_graph::{Factor, FactorGraph, Form, Names};
pub(crate) use mixed::Component;
pub use mixed::{Domain, Family, MixedModel, MixedSizes, Statistic, Term};
pub use pairwise::{PairwiseGradient, PairwiseGraph, VariableMarginals};
pub use semi_markov::{Segments, SemiMarkov};
pub use sequence_mrf::{Interactions, SequenceMrf};

/// How the kinds of the library are read from files.
pub const READERS: [Reader; 7] = [
    Reader { kind: FactorGraph::KIND, read: factor_graph::any::read },
    Reader { kind: Chain::KIND, read: chain::any::read },
    Reader { kind: SemiMarkov::KIND, read: semi_markov::any::read },
    Reader { kind: PairwiseGraph::KIND, read: pairwise::any::read },
    Reader { kind: MixedModel::KIND, read: mixed::any::read },
    Reader { kind: space::SpaceModel::KIND, read: space::file::read },
    Reader { kind: SequenceMrf::KIND, read: sequence_mrf::any::read },
];
