//! Structured predictors: p(y | x) ∝ exp⟨θ, φ(x, y)⟩ over label sets, rankings, hierarchies and partitions.
//!
//! A predictor is a space model per row with shared parameters: the scores of a row are linear in its inputs.
//! Training minimises the regularised negative log-likelihood, Eq. 1 of the reference, exactly or with sampled
//! gradients, and reports a certified bound on the distance of the objective from its minimum.
//!
//! Reference: S. Vembu, T. Gärtner, M. Boley, *Probabilistic structured predictors*, UAI 2009.

pub(crate) mod form;
mod inputs;
mod objective;
mod targets;
mod train;

pub use form::Form;

pub use inputs::Inputs;
pub use targets::{Blocks, Ranks, Sets, Targets};
pub use train::{Learning, Method, PredictorCheckpoint, PredictorProgress, Trained, train};
