//! Language models as Markov random fields over whole texts.
//!
//! A text is counted once ([`crate::learn::language::text::count`]). [`train`] needs only its [`Moments`], so
//! the cost of training does not depend on the length of the text. The resulting [`LanguageModel`] has a
//! certificate: [`LanguageModel::evaluate`] gives a certified lower bound on the likelihood of any text.
//!
//! ```no_run
//! use std::path::Path;
//! use zhat::learn::language::{Fold, train, Training, Vocabulary};
//! use zhat::Run;
//! use zhat::learn::language::text;
//!
//! let run = Run::default();
//! let counts = text::count(Path::new("train.txt"), 1, &run)?;
//! let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(2), size: Some(10_000) })?;
//! let moments = counts.moments(&vocabulary)?;
//! let model = train(&moments, &vocabulary, None, &Training::default(), None, &run, &mut |_| Ok(true))?;
//! println!("{} nats per word", model.evaluate(&moments, &run)?.per_word());
//! # Ok::<(), zhat::Error>(())
//! ```

mod any;
mod baselines;
mod chains;
mod conditional;
mod counts;
mod export;
pub mod file;
mod finish;
mod model;
mod moments;
mod neighbours;
mod scaling;
mod sweep;
pub mod text;
mod training;
mod vocabulary;

pub use any::AnyLanguageModel;
pub use baselines::{Epoch, LogBilinear, Stochastic, train_log_bilinear, train_pseudo};
pub use chains::InteractionForm;
pub(crate) use chains::Parameters;
pub use counts::Counts;
pub(crate) use counts::PairTable;
pub use model::{AnnealedScore, Certificate, LanguageModel, TextScore};
pub use moments::{Lengths, Moments, Sparse};
pub(crate) use training::Search;
pub use training::{Objective, Training, TrainingCheckpoint, TrainingProgress, train};
pub use vocabulary::{Fold, SEPARATOR, UNKNOWN, Vocabulary};
