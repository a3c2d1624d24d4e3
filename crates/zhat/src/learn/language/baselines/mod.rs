//! What the lifted model is compared with: models learned by stochastic gradients, one pass over the text
//! after the other.
//!
//! Both have the parameters of a low-rank [`SequenceMrf`](crate::model::SequenceMrf), b, U and W¹, …, Wᴷ, and
//! score every word y at a place by what stands around it:
//!
//! - [`train_log_bilinear`]: b(y) + Σ_l U(x₋ₗ)·Wˡ(y), the words before only. Normalised at every place, so a
//!   text has an exact likelihood ([`LogBilinear`]).
//! - [`train_pseudo`]: the same and U(y)·Wˡ(xₗ) for the words behind: the pseudo-likelihood of the Markov
//!   random field, which comes out as an ordinary [`LanguageModel`](super::LanguageModel).
//!
//! With [`Stochastic::cyclic`] a log-bilinear model is itself a Markov random field, exactly normalised:
//! [`LogBilinear::field`].
//!
//! A place is every word and the separator that ends a sentence. Mini-batches in random order, AdaGrad, the
//! rate halved and the best parameters taken up again when a validation text does not become likelier. Cost:
//! 6·C·D·K operations and C exponentials for every word and epoch (K + 1 instead of K for the
//! pseudo-likelihood), in single precision; the bits do not depend on the threads.
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
