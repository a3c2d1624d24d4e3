//! Chains of [zhat](../zhat/index.html) as operations on [burn](https://burn.dev) tensors.
//!
//! | operation | value | method |
//! |---|---|---|
//! | [`log_partition`] | log Z of each sequence | exact or randomized |
//! | [`entropy`] | −Σ p log p of each sequence | exact or randomized |
//! | [`cross_entropy`], [`kl`] | of two chains | exact |
//! | [`score`], [`log_probability`] | of given states | exact |
//! | [`best`] | the states with the largest score, without gradients | exact |
//! | [`relaxed_sample`] | relaxed paths, with gradients, and the hard paths | exact or randomized |
//!
//! The models are chains and, for the first three rows, semi-Markov chains; zhat's trees are not operations of this
//! crate.
//!
//! The scores are tensors of any network. Gradients are those of the library, written by hand: no graph of T
//! steps is recorded, and beyond the inputs the memory is that of the method, O(B·T·N) for exact sums. Their work is
//! done by the CPU in the precision of the emissions, `f32` or `f64`; tensors on other devices are copied there
//! and back. [`on_device`] has log Z, entropy and samples by burn's own operations, for GPUs.
//!
//! ```
//! use burn_autodiff::Autodiff;
//! use burn_ndarray::NdArray;
//! use burn_tensor::{Distribution, Tensor};
//! use zhat_burn::{ChainScores, Method, log_partition};
//!
//! type B = Autodiff<NdArray>;
//! let device = Default::default();
//! // Two sequences of five positions with three states.
//! let emissions = Tensor::<B, 3>::random([2, 5, 3], Distribution::Default, &device).require_grad();
//! let transitions = Tensor::<B, 2>::zeros([3, 3], &device).require_grad();
//! let chain = ChainScores::new(emissions.clone(), transitions);
//! let log_z = log_partition(&chain, &Method::exact(), &zhat::Run::default())?;
//! let gradients = log_z.sum().backward();
//! // The gradient consists of the probabilities of the states: one state at each position.
//! let marginals = emissions.grad(&gradients).unwrap();
//! assert!((marginals.sum().into_scalar() - 10.0).abs() < 1e-4);
//! # Ok::<(), zhat::Error>(())
//! ```
//!
//! # Panics
//! burn's backward pass cannot return errors, so a gradient that cannot be computed is a panic with the library's
//! message. It happens only if the run is cancelled or out of time, or a cotangent is not finite.

mod chain;
pub mod on_device;
mod operation;
mod samples;
mod score;

pub use chain::ChainScores;
pub use operation::{Method, cross_entropy, entropy, kl, log_partition};
pub use samples::{RelaxedPaths, relaxed_sample};
pub use score::{best, log_probability, score};
