//! Methods for models on combinatorial spaces: exact sums, perfect samples, and estimates of Z with an
//! interval.

mod count;
mod coupling;
mod draws;
mod enumeration;
pub(crate) mod estimate;
mod marginals;
pub(crate) mod mixing;
mod oracle;
pub(crate) mod perfect;
mod pilot;

pub use count::log_count;
pub use estimate::{AnnealedSampling, PublishedScheme, Telescoped, TootsiePop, UniformImportance};
pub use oracle::Oracle;
pub use perfect::{PerfectSampling, Sampler};

use crate::model::space::*;
