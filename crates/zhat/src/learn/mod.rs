//! Learning: models from tables of data.
//!
//! A table of complete rows enters through its [`Statistics`], how often every state and every pair of states
//! of two columns occurs; nothing else of it is needed, so a table is read once and memory does not depend on
//! the number of rows. [`Structure`] chooses which pairs interact, and [`Likelihood`] is what [`fit()`]
//! maximises, its gradient from any method of the catalogue that gives marginals.

mod fit;
pub mod language;
mod likelihood;
mod read_statistics;
mod score;
mod start;
mod statistics;
mod structure;

pub use crate::io::table::Column;
pub use fit::{Checkpoint, Fit, FitProgress, Fitted, Optimizer, fit, fit_kept};
pub use likelihood::Likelihood;
pub use read_statistics::read_statistics;
pub use score::{Scores, columns_of, impute, impute_states, open_rows, score, score_states};
pub use start::Start;
pub use statistics::{Counter, Statistics};
pub use structure::{Structure, chow_liu};
