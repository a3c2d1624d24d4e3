//! Structured predictors: p(y | x) ∝ exp⟨θ, φ(x, y)⟩ over label sets, rankings, hierarchies and partitions.
//!
//! A predictor is a space model per row with shared parameters: the scores of a row are linear in its inputs.
//! Training ([`train()`]) minimises the regularised negative log-likelihood, Eq. 1 of the reference, exactly or
//! with sampled gradients, and reports a certified bound on the distance of the objective from its minimum.
//! [`read_examples`] reads data sets, a [`Recipe`] makes a [`Predictor`] from one, and [`evaluate`] measures
//! its predictions.
//!
//! ```
//! use zhat::Run;
//! use zhat::learn::predict::{Decision, Form, Inputs, Learning, Sets, Targets, train};
//!
//! // Two labels; the first follows the input, the second the first.
//! let inputs = Inputs::dense(1, &[-1.0, -0.5, 0.5, 1.0])?;
//! let mut sets = Sets { width: 2, ..Default::default() };
//! for members in [vec![], vec![], vec![0, 1], vec![0, 1]] {
//!     sets.push(members)?;
//! }
//! let form = Form::Labels { labels: 2, pairs: vec![(0, 1)], pairs_by_input: false };
//! let how = Learning::default().lambda(0.01);
//! let trained = train(&form, &inputs, &Targets::Sets(sets), &how, None, None, &Run::default(), &mut |_| Ok(true))?;
//! assert!(trained.converged && trained.progress.gap <= 1e-6);
//! # Ok::<(), zhat::Error>(())
//! ```
//!
//! Reference: S. Vembu, T. Gärtner, M. Boley, *Probabilistic structured predictors*, UAI 2009.

mod data;
mod decide;
mod encode;
pub mod file;
pub(crate) mod form;
mod inputs;
mod measures;
mod metric;
mod objective;
mod predictor;
mod recipe;
mod targets;
mod train;

pub use data::{Cells, Examples, InputColumn, Known, ReadOptions, Space, read_examples};
pub use encode::{Encoder, Encoding, Fourier, Scaling};
pub use form::Form;
pub use inputs::Inputs;
pub use measures::{Bin, Evaluation, area, evaluate, kendall, reliability, spearman};
pub use predictor::{Centres, Decision, Guaranteed, Prediction, Predictor, Training};
pub use recipe::{Candidate, RankingModel, Recipe, folds, others};
pub use targets::{Blocks, Ranks, Sets, Targets};
pub use train::{Learning, Method, PredictorCheckpoint, PredictorProgress, Regret, Trained, train};
