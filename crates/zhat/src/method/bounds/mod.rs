//! Certified bounds on log Z.

mod certified;
pub(crate) mod mean_field;
pub(crate) mod minibucket;

pub use certified::CertifiedBounds;
pub use mean_field::{LowerBound, MeanField, MeanFieldStructure};
pub use minibucket::{Sandwich, WeightedMiniBucketSampling, WeightedMiniBuckets};
