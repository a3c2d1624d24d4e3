//! Certified bounds on log Z.

mod certified;
pub mod mean_field;
pub mod minibucket;

pub use certified::CertifiedBounds;
