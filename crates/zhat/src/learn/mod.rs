//! Learning: models from tables of data.
//!
//! A table of complete rows is represented by its [`Statistics`]: the counts of every state and of every pair
//! of states of two columns. Nothing else is needed, so a table is read once and memory does not depend on
//! the number of rows. [`Structure`] chooses which pairs interact. [`fit()`] maximises [`Likelihood`], with
//! gradients from any method of the catalogue that computes marginals.
//!
//! A table with missing values is represented by its distinct rows ([`Table`]), and learnt from by
//! expectation-maximisation with exact expected counts. [`fit_network`] estimates the tables of a Bayesian
//! network of known structure.

#[cfg(feature = "learn")]
mod fit;
#[cfg(feature = "learn")]
mod gaps;
#[cfg(feature = "learn")]
pub mod hmm;
#[cfg(feature = "learn")]
pub(crate) mod kept;
#[cfg(feature = "language")]
pub mod language;
#[cfg(feature = "learn")]
mod likelihood;
#[cfg(feature = "learn")]
mod network;
#[cfg(feature = "learn")]
mod parents;
#[cfg(feature = "learn")]
pub mod predict;
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
mod table;
#[cfg(feature = "learn")]
pub mod tag;

#[cfg(feature = "learn")]
pub use crate::io::table::Column;
#[cfg(feature = "learn")]
pub use fit::{Fit, FitCheckpoint, FitProgress, Fitted, Optimizer, fit, fit_kept};
#[cfg(feature = "learn")]
pub use likelihood::Likelihood;
#[cfg(feature = "learn")]
pub use network::{NetworkFit, NetworkFitted, NetworkProgress, fit_network};
#[cfg(feature = "learn")]
pub use parents::Parents;
#[cfg(feature = "learn")]
pub use read_statistics::{read_statistics, read_table, read_table_for};
#[cfg(feature = "learn")]
pub use score::{Imputed, RowScores, columns_of, impute, impute_states, open_rows, score, score_states};
#[cfg(feature = "learn")]
pub use start::Start;
#[cfg(feature = "learn")]
pub use statistics::{Counter, Statistics};
#[cfg(feature = "learn")]
pub use structure::{Structure, chow_liu};
#[cfg(feature = "learn")]
pub use table::Table;
