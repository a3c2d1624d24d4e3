//! The conditional tagger: a linear-chain conditional random field.
//!
//! p(y | x) ∝ exp(Σₜ Σ_a xₜ(a)·θ(a, yₜ) + Σₜ θ(yₜ₋₁, yₜ) + Σₜ θ(yₜ₋₂, yₜ₋₁, yₜ)), where xₜ(a) is the weight of the
//! attribute a of token t; the last sum is for the second order. Training minimises −Σ ln p + λ₂‖θ‖² + λ₁‖θ‖₁ over
//! the sentences with exact gradients: observed minus expected counts. Without l1 it uses L-BFGS, otherwise its
//! orthant-wise variant, in which parameters become exactly 0. [`descent`] minimises it by stochastic gradients, for
//! corpora larger than memory.
//!
//! Reference: J. Lafferty, A. McCallum, F. Pereira, *Conditional random fields*, ICML 2001.

mod descent;
pub(crate) mod design;
pub(crate) mod lattice;
pub(crate) mod objective;
pub(crate) mod query;
mod rows;
mod second_order;
mod stochastic;
pub(crate) mod sums;
mod survey;
mod sweep;
mod train;
mod viterbi;

#[cfg(test)]
mod tests;

pub use stochastic::train_file;
pub(crate) use train::{Best, Epochs, Search};
pub use train::{Learning, TagOptimizer, TaggerCheckpoint, TaggerProgress, Training, Valid, train};
