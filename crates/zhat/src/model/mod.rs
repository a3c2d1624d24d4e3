//! Models: potentials and structure, validated on construction.

pub(crate) mod any;
pub(crate) mod chain;
mod dependency;
mod evidence;
mod factor_graph;
pub mod generate;
mod grammar;
pub(crate) mod hypertree;
mod mixed;
mod pairwise;
mod semi_markov;
pub(crate) mod sequence_mrf;
pub(crate) mod space;
pub(crate) mod table;
mod tree;

pub use crate::values::Values;
pub use any::{AnyModel, Batch, Input, Kind, Model, Reader, StateForm, Summary, equal};
pub use chain::{Chain, Observed, Pattern, Transitions};
pub use dependency::{DependencyTree, TreeShape};
pub use evidence::{Evidence, Finding, Place};
pub use factor_graph::{Factor, FactorGraph, Names, NetworkType};
pub use grammar::Grammar;
pub use hypertree::{Closure, Hypertree, Rule, Rules, Spans, Symbols, TreeNames, UnaryRule, UnaryRules};
pub(crate) use mixed::Component;
pub use mixed::{Domain, Family, MixedModel, MixedSizes, Statistic, Term};
pub use pairwise::{PairwiseGradient, PairwiseGraph, VariableMarginals};
pub use semi_markov::{Segments, SemiMarkov};
pub use sequence_mrf::{Interactions, SequenceMrf};
pub use tree::{NamedTree, TreeEntry, TreeKind};

/// The readers of the library's kinds.
pub const READERS: [Reader; 10] = [
    Reader { kind: FactorGraph::KIND, read: factor_graph::any::read },
    Reader { kind: Chain::KIND, read: chain::any::read },
    Reader { kind: SemiMarkov::KIND, read: semi_markov::any::read },
    Reader { kind: PairwiseGraph::KIND, read: pairwise::any::read },
    Reader { kind: MixedModel::KIND, read: mixed::any::read },
    Reader { kind: space::SpaceModel::KIND, read: space::file::read },
    Reader { kind: DependencyTree::KIND, read: dependency::any::read },
    Reader { kind: Hypertree::KIND, read: hypertree::any::read },
    Reader { kind: Grammar::KIND, read: grammar::any::read },
    Reader { kind: SequenceMrf::KIND, read: sequence_mrf::any::read },
];
