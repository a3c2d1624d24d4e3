//! Dynamic programming on chains and semi-Markov chains: exact, and randomized.

pub mod forward_backward;
// A public trait, `SequenceModel`, has hidden methods that take lattices; only this crate can call them.
#[allow(private_interfaces)]
pub(crate) mod lattice;
pub mod randomized;
mod sequence;

pub use sequence::SequenceModel;
