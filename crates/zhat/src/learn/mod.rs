//! Learning: models from tables of data.
//!
//! A table of complete rows enters through its [`Statistics`], how often every state and every pair of states
//! of two columns occurs; nothing else of it is needed, so a table is read once and memory does not depend on
//! the number of rows. [`Structure`] chooses which pairs interact, and [`Likelihood`] is what [`fit()`]
//! maximises, its gradient from any method of the catalogue that gives marginals.

#[cfg(feature = "learn")]
mod fit;
#[cfg(feature = "language")]
pub mod language;
#[cfg(feature = "learn")]
mod likelihood;
#[cfg(feature = "learn")]
mod read_statistics;
#[cfg(feature = "learn")]
mod score;
#[cfg(feature = "learn")]
mod start;
#[cfg(feature = "learn")]
mod statistics;
#[cfg(feature = "learn")]
mod structure;

#[cfg(feature = "learn")]
pub use crate::io::table::Column;
#[cfg(feature = "learn")]
pub use fit::{Checkpoint, Fit, FitProgress, Fitted, Optimizer, fit, fit_kept};
#[cfg(feature = "learn")]
pub use likelihood::Likelihood;
#[cfg(feature = "learn")]
pub use read_statistics::read_statistics;
#[cfg(feature = "learn")]
pub use score::{Scores, columns_of, impute, impute_states, open_rows, score, score_states};
#[cfg(feature = "learn")]
pub use start::Start;
#[cfg(feature = "learn")]
pub use statistics::{Counter, Statistics};
#[cfg(feature = "learn")]
pub use structure::{Structure, chow_liu};
