//! Language models as Markov random fields over whole texts.

mod chains;
mod counts;
mod model;
mod moments;
mod training;
mod vocabulary;

pub use counts::Counts;
pub(crate) use counts::PairTable;
pub use model::{Certificate, LanguageModel, TextScore};
pub use moments::{Lengths, Moments, Sparse};
pub use training::{Checkpoint, Objective, Training, TrainingProgress, train};
pub use vocabulary::{Fold, SEPARATOR, UNKNOWN, Vocabulary};
