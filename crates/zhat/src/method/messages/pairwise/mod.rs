//! Graphs of variables with very many states: belief propagation with all of them, or between a few that are
//! chosen at random.
//!
//! For every variable a set Ωᵥ of about K of the N states is chosen, independently of the others', with
//! weights such that sums over it are unbiased (`randomized::Selection`). Then
//!
//!   Ẑ = Σ_{x, xᵥ∈Ωᵥ} exp score(x) · Πᵥ wᵥ(xᵥ),   E\[Ẑ\] = Z,
//!
//! is the partition function of a graph of K states a variable. On a forest messages compute it exactly, so
//! log Ẑ is unbiased for Z, with the standard error of its replicates and Markov's lower bound. On other
//! graphs messages give Bethe's approximation of it: nothing is promised beyond what belief propagation has,
//! and the error that the choice adds falls as 1/√K or faster.
//!
//! Time O(E·K²) a sweep, and once O(E·K·N) for the proposal `guided`, which looks at messages of a pilot;
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
