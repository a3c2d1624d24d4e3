//! Dynamic programming on chains and semi-Markov chains: exact, and randomized.

pub mod forward_backward;
pub(crate) mod lattice;
pub mod randomized;
