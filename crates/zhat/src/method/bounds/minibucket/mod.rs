//! Mini-buckets: variable elimination in bounded memory. Sums that would need too much memory are bounded
//! instead of computed.
//!
//! [`WeightedMiniBuckets`] gives a certified interval around log Z. [`WeightedMiniBucketSampling`] draws
//! samples from the beliefs of the upper bound. It gives an unbiased estimate whose weights cannot exceed
//! that bound.

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
