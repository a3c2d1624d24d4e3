//! zhat computes the partition function log Z = log Σₓ exp score(x) of structured probabilistic models and
//! the quantities derived from it: marginals, entropy, samples, the best states and gradients. It computes
//! them exactly where possible, and otherwise returns a result with a stated guarantee.
//!
//! The library has three main concepts:
//!
//! - A **model** ([`model`]) is plain data: a factor graph, a chain, a combinatorial space, ….
//! - A **query** ([`query`]) is a trait with one function: [`LogPartition`], [`Marginals`], [`Sample`], ….
//! - A **method** is a small configuration struct that implements the queries it can answer. Methods are
//!   grouped by family: [`exact`] (elimination and search), [`dynamic`] (dynamic programming on chains),
//!   [`messages`], [`bounds`], [`sampling`], [`quadrature`], [`cycle`] (cyclic sequence models) and [`space`]
//!   (combinatorial spaces).
//!
//! Every [`Answer`] carries a [`Guarantee`]. The [`catalogue`] lists all methods and chooses one at run time.
//!
//! ```
//! use zhat::exact::Elimination;
//! use zhat::model::generate;
//! use zhat::{LogPartition, Run};
//!
//! let grid = generate::Grid { rows: 10, columns: 10, torus: false };
//! let model = generate::ising(grid, 0.5, 0.1, false, 42)?;
//! let z = Elimination::default().log_partition(&model, &Run::default())?;
//! println!("log Z = {z}");
//! # Ok::<(), zhat::Error>(())
//! ```

// Without learning, helpers that only learning uses are idle.
#![cfg_attr(not(all(feature = "learn", feature = "language")), allow(dead_code, unused_imports))]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

// The Rust examples of the README and the docs are documentation tests.
#[cfg(doctest)]
mod pages {
    macro_rules! pages {
        ($($name:ident $file:literal;)*) => {$(
            #[doc = include_str!(concat!("../../../", $file))]
            struct $name;
        )*};
    }

    pages! {
        Readme "README.md";
        Bounds "docs/bounds.md";
        Chains "docs/chains.md";
        Clusters "docs/howto/clusters.md";
        FactorGraphs "docs/factor-graphs.md";
        DependencyTrees "docs/dependency-trees.md";
        Evidence "docs/howto/evidence.md";
        Grammars "docs/grammars.md";
        Guarantees "docs/guarantees.md";
        Index "docs/index.md";
        Learning "docs/learning.md";
        Methods "docs/methods.md";
        Pairwise "docs/pairwise.md";
        Predictors "docs/predictors.md";
        Quadrature "docs/quadrature.md";
        SequenceMrf "docs/sequence-mrf.md";
        Spaces "docs/spaces.md";
        TaggerJoint "docs/tagger-joint.md";
        TutorialRust "docs/tutorials/rust.md";
    }
}

mod answer;
mod cache;
pub mod catalogue;
mod decimal;
mod error;
#[doc(hidden)]
pub mod internal;
pub mod io;
#[cfg(any(feature = "learn", feature = "language"))]
pub mod learn;
mod method;
pub mod model;
mod numeric;
mod optimize;
pub mod options;
mod platform;
pub mod query;
pub mod random;
pub mod report;
mod run;
mod suggest;
pub mod tensor;
mod units;
mod values;

/// The readers of the kinds of model that are defined in layers above `io`.
pub(crate) const LATER_READERS: &[model::Reader] = &[
    #[cfg(feature = "learn")]
    learn::hmm::READER,
];

pub use method::{bounds, cycle, dynamic, exact, messages, quadrature, sampling};

pub use answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
pub use cache::Cache;
pub use error::{Error, Result};
pub use model::{Chain, FactorGraph, Model, PairwiseGraph, SemiMarkov, SequenceMrf};
pub use numeric::Real;
pub use query::{
    Answers, Beliefs, BestState, Divergence, Entropy, Expectation, FactorBeliefs, FactorMarginals, Forecast,
    Forecasts, KBest, Law, LogPartition, Map, Marginals, Query, Sample, Samples,
};
pub use run::{Clock, Observer, Run};
pub use space::SpaceModel;

pub mod space {
    //! Combinatorial spaces and the methods for models on them.
    pub use crate::method::space::*;
    pub use crate::model::space::*;
}
