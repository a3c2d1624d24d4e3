//! Baselines for comparison with the lifted model: models trained by stochastic gradients, in several passes
//! over the text.
//!
//! Both have the parameters of a low-rank [`SequenceMrf`](crate::model::SequenceMrf), b, U and W¹, …, Wᴷ, and
//! score every word y at a position by the surrounding words:
//!
//! - [`train_log_bilinear`]: b(y) + Σ_l U(x₋ₗ)·Wˡ(y), from the preceding words only. It is normalised at
//!   every position, so a text has an exact likelihood ([`LogBilinear`]).
//! - [`train_pseudo`]: the same plus U(y)·Wˡ(xₗ) for the following words: the pseudo-likelihood of the Markov
//!   random field. The result is an ordinary [`LanguageModel`](super::LanguageModel).
//!
//! With [`Stochastic::cyclic`] a log-bilinear model is itself a Markov random field, exactly normalised:
//! [`LogBilinear::field`].
//!
//! A position is a word or the separator that ends a sentence. Training uses AdaGrad on mini-batches in
//! random order; if the validation likelihood does not improve, the best parameters are restored and the
//! learning rate is halved. Cost: 6·C·D·K operations and C exponentials per word and epoch (K + 1 instead of
//! K for the pseudo-likelihood), in single precision. The bits do not depend on the number of threads.
//!
//! References: A. Mnih, G. Hinton, *Three new graphical models for statistical language modelling*, ICML
//! 2007; J. Besag, *Statistical analysis of non-lattice data*, The Statistician 24 (1975); J. Duchi, E.
//! Hazan, Y. Singer, *Adaptive subgradient methods*, JMLR 12 (2011).

mod field;
mod learning;
mod log_bilinear;
mod parameters;
mod pseudo;
mod sampling;
mod windows;

pub use learning::{Epoch, Stochastic};
pub use log_bilinear::{LogBilinear, train_log_bilinear};
pub use pseudo::train_pseudo;
