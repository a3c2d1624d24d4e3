//! Models: potentials and structure, checked when built.

mod barren;
mod consistency;
mod factor_graph;
pub mod generate;
mod names;
mod order;
mod prepare;
mod reduce;
mod simplify;
pub(crate) mod table;

pub use factor_graph::{Factor, FactorGraph, Form};
pub use names::Names;
pub use order::{Order, elimination_order};
pub use prepare::Difficulty;
pub(crate) use prepare::{Prepared, Trial};
pub(crate) use reduce::Reduced;

/// The kinds of model that a file can hold and the catalogue has rows for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`FactorGraph`].
    FactorGraph,
}

impl Kind {
    /// The name in files, JSON and messages.
    pub fn name(self) -> &'static str {
        match self {
            Kind::FactorGraph => "factor-graph",
        }
    }
}

/// A model whose kind is known at run time only, as read from a file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Model {
    /// A factor graph.
    FactorGraph(FactorGraph),
}

impl Model {
    /// The kind.
    pub fn kind(&self) -> Kind {
        match self {
            Model::FactorGraph(_) => Kind::FactorGraph,
        }
    }
}

impl From<FactorGraph> for Model {
    fn from(graph: FactorGraph) -> Self {
        Model::FactorGraph(graph)
    }
}
