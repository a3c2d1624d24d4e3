//! The conditional tagger: a linear-chain conditional random field.
//!
//! p(y | x) ∝ exp(Σₜ Σ_a xₜ(a)·θ(a, yₜ) + Σₜ θ(yₜ₋₁, yₜ) + Σₜ θ(yₜ₋₂, yₜ₋₁, yₜ)), where xₜ(a) is the weight of the
//! attribute a of token t; the last sum is for the second order. Training minimises −Σ ln p + λ₂‖θ‖² + λ₁‖θ‖₁ over
//! the sentences with exact gradients: observed minus expected counts. Without l1 it uses L-BFGS, otherwise its
//! orthant-wise variant, in which parameters become exactly 0.
//!
//! Reference: J. Lafferty, A. McCallum, F. Pereira, *Conditional random fields*, ICML 2001.

pub(crate) mod design;
pub(crate) mod lattice;
pub(crate) mod objective;
pub(crate) mod query;
mod rows;
mod second_order;
pub(crate) mod sums;
mod sweep;
mod train;
mod viterbi;

#[cfg(test)]
mod tests;

pub(crate) use train::{Best, Search};
pub use train::{Learning, TaggerCheckpoint, TaggerProgress, Training, Valid, train};
