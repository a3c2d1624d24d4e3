//! Hidden Markov models that can be trained.
//!
//! p(s, x) = π(s₁) Πₜ A(sₜ, sₜ₊₁) Πₜ p(xₜ | sₜ), where the states s are not observed and x are symbols, numbers or
//! counts. [`train()`] maximises the likelihood of [`Sequences`], plus priors, by expectation-maximisation or L-BFGS:
//! expected counts come from exact forward and backward passes in the scaled domain, as matrix products over several
//! sequences at once. States can share emissions ([`Hmm::with_ties`]) and have distributions of their durations
//! ([`Durations`]). An [`Hmm`] has the log-likelihood, posteriors, most probable states and samples of sequences,
//! and [`Hmm::chain`] is the chain of the states given the observations, for all other queries.
//!
//! | emissions | parameters |
//! |---|---|
//! | [`Categorical`] | a distribution over symbols per state |
//! | [`Gaussian`] | means; spherical, diagonal, full or tied covariances |
//! | [`Poisson`] | a rate per state and column |
//! | [`Mixture`] | weights and normal distributions |
//!
//! Cost of a training step: 6·N² operations per row. Memory: two rows of N numbers per row of a group of up to eight
//! sequences, for every thread; [`forecast_training`] has both before training starts. Guarantee: expected counts are
//! exact up to rounding; the objective never falls. The same seed gives the same bits for any number of threads.
//!
//! Reference: L. R. Rabiner, *A tutorial on hidden Markov models*, Proc. IEEE 77 (1989).

mod any;
mod data;
mod descent;
mod durations;
mod emission;
mod exact;
pub mod file;
mod forecast;
mod group;
mod initial;
mod learning;
mod linear;
mod model;
mod read;
mod segments;
mod select;
mod simplex;
mod step;
mod supervised;
mod sweep;
mod train;
mod viterbi;

pub use any::KIND;
pub(crate) use any::READER;
pub use data::Sequences;
pub use durations::{DurationForm, Durations};
pub use emission::{Categorical, Covariance, Emissions, Gaussian, Mixture, Poisson};
pub use forecast::{TrainingForecast, forecast_training};
pub use initial::{Family, Topology, initial};
pub use learning::{Learning, Optimizer};
pub use model::{Hmm, Layout};
pub use read::{Observations, ReadOptions, read_sequences};
pub use select::{Candidate, compare_states};
pub use supervised::train_supervised;
pub use train::{HmmCheckpoint, HmmProgress, Trained, train};

#[cfg(test)]
mod tests;
