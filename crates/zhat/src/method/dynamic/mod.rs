//! Dynamic programming on chains, semi-Markov chains and trees: exact and randomized methods.

pub(crate) mod forward_backward;
pub(crate) mod grammar;
// The public trait `SequenceModel` has hidden methods that take lattices. Only this crate can call them.
#[allow(private_interfaces)]
pub(crate) mod lattice;
pub(crate) mod randomized;
mod sequence;
pub(crate) mod tree;

pub use forward_backward::{ForwardBackward, RelaxedTape};
#[doc(hidden)]
pub use grammar::Passes as ChartPasses;
pub use grammar::{
    InsideOutside, PublishedInside, RandomizedInside, RelaxedParseTape, SpanProposal, SparseParse,
    SparseParseTape, SparseParses, TreeChoice,
};
pub use randomized::{
    Chosen, RandomizedForward, Selection, SparseCotangent, SparsePath, SparseSamples, SparseTape,
    StateChoice, StateProposal, States, Support,
};
pub use sequence::SequenceModel;
pub use tree::{RelaxedTreeTape, SpanningTrees, SparseTreeTape};
