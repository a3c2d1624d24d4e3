//! Mini-buckets: variable elimination within bounded memory, the sums bounded where they are too large to be
//! done.
//!
//! [`WeightedMiniBuckets`] gives a certified interval around log Z; [`WeightedMiniBucketSampling`] draws from
//! what the upper bound believes and gets an unbiased estimate with weights that cannot exceed that bound.

mod bound;
mod interval;
mod lower;
mod memory;
mod pass;
mod plan;
mod proposal;
mod sampling;

pub(crate) use interval::Moments;

pub use bound::{Sandwich, WeightedMiniBuckets};
pub use sampling::WeightedMiniBucketSampling;
