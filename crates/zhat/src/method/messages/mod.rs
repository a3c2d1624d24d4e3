//! Message passing on any factor graph: belief propagation and the tree-reweighted bound.
//!
//! Both use the same engine. Factor f has a weight 0 < ρ_f ≤ 1 and sends to each of its variables
//!
//!   m_{f→i}(x_i) = log Σ_{x_f∖x_i} exp( θ_f(x_f)/ρ_f +
//!     Σ_{j∈f∖i} \[θ_j + Σ_{g∋j} ρ_g m_{g→j} − m_{f→j}\](x_j) ),
//!
//! with max instead of log Σ exp to find the best state. ρ = 1 is belief propagation ([`BeliefPropagation`]),
//! which is exact on trees. ρ_f = P(f ∈ T) for a random forest T gives the tree-reweighted method
//! ([`TreeReweighted`]), a certified upper bound on log Z for any messages.

mod appearance;
mod belief_propagation;
mod decode;
mod engine;
mod forest;
mod kernel;
mod layout;
mod pairs;
pub(crate) mod pairwise;
mod residual;
mod subject;
mod tree_reweighted;

pub use belief_propagation::{BeliefPropagation, Schedule};
pub use pairwise::{GraphProposal, PairwisePropagation, RandomizedMessages, RelaxedStates};
pub use tree_reweighted::{Bound, TreeReweighted};
