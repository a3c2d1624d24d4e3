//! Graphs of variables with very many states: belief propagation with all states, or between a few randomly
//! chosen ones.
//!
//! For every variable, a set Ωᵥ of about K of the N states is chosen independently of the other variables,
//! with weights that make sums over it unbiased (`randomized::Selection`). Then
//!
//!   Ẑ = Σ_{x, xᵥ∈Ωᵥ} exp score(x) · Πᵥ wᵥ(xᵥ),   E\[Ẑ\] = Z,
//!
//! is the partition function of a graph with K states per variable. On a forest, message passing computes it
//! exactly, so Ẑ is unbiased for Z, with the standard error of its replicates and Markov's lower bound. On
//! other graphs, messages give its Bethe approximation: there is no guarantee beyond that of belief
//! propagation, and the error from the choice of states falls as 1/√K or faster.
//!
//! Time O(E·K²) per sweep, plus O(E·K·N) once for the proposal `guided`, which uses the messages of a pilot;
//! memory O(V·N + E·K).
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML
//! (2022), Eq. 3 and 8.

mod choice;
mod expectation;
mod method;
mod network;
mod relaxed;

pub use choice::GraphProposal;
pub use method::{PairwisePropagation, RandomizedMessages};
pub use relaxed::RelaxedStates;
