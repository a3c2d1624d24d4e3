//! A variational autoencoder for text whose inference network is a chain with up to thousands of states.
//!
//! Each word xₜ has a latent state zₜ ∈ {1, …, N}. The generative model is autoregressive,
//!
//!   p(x, z) = Πₜ p(zₜ | z₍<ₜ₎, x₍<ₜ₎)·p(xₜ | z₍≤ₜ₎, x₍<ₜ₎),
//!
//! the inference network is a chain q(z | x) ∝ exp(Σₜ rₜ·e(zₜ) + Σₜ e(zₜ)·e(zₜ₊₁)) with state embeddings e and an
//! encoder r of the whole sentence, and the objective is E_q\[log p(x, z)\] + β·H(q). Entropy and samples come from
//! zhat: exactly, or by randomized dynamic programming on a few states per word.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML 2022,
//! Sections 4 and 5.2.

pub mod attempt;
pub mod checkpoint;
pub mod config;
pub mod decoder;
pub mod encoder;
pub mod evaluate;
pub mod gpt2;
pub mod layers;
pub mod parameters;
pub mod posterior;
pub mod repro;
pub mod selftest;
pub mod text;
pub mod train;
pub mod uses;
