//! Dynamic programming on chains and semi-Markov chains: exact and randomized methods.

pub mod forward_backward;
// The public trait `SequenceModel` has hidden methods that take lattices. Only this crate can call them.
#[allow(private_interfaces)]
pub(crate) mod lattice;
pub mod randomized;
mod sequence;

pub use sequence::SequenceModel;
