//! Methods for models on combinatorial spaces: exact sums, perfect samples, and estimates of Z with an
//! interval.

mod count;
mod coupling;
mod draws;
mod enumeration;
pub mod estimate;
mod marginals;
mod mixing;
mod oracle;
mod perfect;
mod pilot;

pub use count::log_count;
pub use estimate::{AnnealedSampling, PublishedScheme, Telescoped, TootsiePop, UniformImportance};
pub use mixing::{flip_congestion, flip_steps, single_flip_congestion};
pub use oracle::Oracle;
pub use perfect::{
    PerfectSampling, Sampler, direction_samples, gradient_samples, marginal_samples, meta_steps,
};

use crate::model::space::*;
