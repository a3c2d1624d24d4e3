//! Monte Carlo methods.

mod gibbs;
mod importance;
mod proposal;
mod replicates;
mod rounds;
mod weighted;

pub use gibbs::Gibbs;
pub use importance::ImportanceSampling;
pub use proposal::ImportanceProposal;
pub(crate) use proposal::acyclic;
pub(crate) use replicates::unbiased;
pub(crate) use rounds::{Replicate, Rounds};
pub(crate) use weighted::{Masses, ratio, together, warned, weighted_samples};
