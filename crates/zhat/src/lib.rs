//! zhat computes log Z = log Σₓ exp score(x) of structured probabilistic models, and what hangs on it:
//! marginals, entropy, samples, the best state. Exactly where that is possible, and otherwise with an answer
//! that says how far it may be trusted.
//!
//! Three words hold it together. A **model** ([`model`]) is data, a **query** ([`query`]) is a trait with one
//! method, a **method** ([`exact`], [`messages`], [`montecarlo`]) is a small configuration struct that
//! implements the queries it can answer. Every answer ([`Answer`]) carries a [`Guarantee`]. Where method and
//! query are chosen at run time there is the [`catalogue`].
//!
//! ```
//! use zhat::{LogPartition, Run, exact::Elimination, model::generate};
//!
//! let grid = generate::Grid { rows: 10, columns: 10, torus: false };
//! let model = generate::ising(grid, 0.5, 0.1, false, 42)?;
//! let z = Elimination::default().log_partition(&model, &Run::default())?;
//! println!("log Z = {z}");
//! # Ok::<(), zhat::Error>(())
//! ```

// Without learning, helpers that only learning uses are idle.
#![cfg_attr(not(all(feature = "learn", feature = "language")), allow(dead_code, unused_imports))]

mod answer;
mod cache;
pub mod catalogue;
pub mod decimal;
mod error;
pub mod io;
#[cfg(any(feature = "learn", feature = "language"))]
pub mod learn;
mod method;
pub mod model;
pub mod numeric;
pub mod optimize;
pub mod options;
pub mod platform;
pub mod query;
pub mod random;
pub mod report;
mod run;
pub mod tensor;
pub mod units;
mod values;

#[cfg(feature = "language")]
pub use learn::language;
pub use method::bounds::{mean_field, minibucket};
pub use method::dynamic::randomized;
pub use method::messages::pairwise;
pub use method::{bounds, cycle as lifted, exact, messages, quadrature, sampling as montecarlo};
pub use query::sequence;

pub use answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
pub use cache::Cache;
pub use error::{Error, Result};
pub use model::{Chain, FactorGraph, Model, PairwiseGraph, SemiMarkov, SequenceMrf};
pub use query::{
    Answers, Beliefs, BestState, Divergence, Entropy, FactorBeliefs, FactorMarginals, Forecast, Forecasts,
    KBest, Law, LogPartition, Map, Marginals, Query, Sample, Samples,
};
pub use run::{Clock, Observer, Run};
pub use space::SpaceModel;

pub mod space {
    //! Combinatorial spaces and the methods for models on them.
    pub use crate::method::space::*;
    pub use crate::model::space::*;
}
