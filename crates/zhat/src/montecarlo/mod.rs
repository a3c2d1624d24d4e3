//! Monte Carlo methods.

mod importance;
mod proposal;
mod replicates;

pub use importance::{ImportanceSampling, Partial};
pub use proposal::Proposal;
pub(crate) use proposal::acyclic;
pub(crate) use replicates::unbiased;
