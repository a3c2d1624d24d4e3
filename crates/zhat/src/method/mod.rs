//! Inference methods, grouped by technique.

pub mod bounds;
pub(crate) mod cost;
pub mod cycle;
pub mod dynamic;
pub mod exact;
pub mod messages;
pub mod quadrature;
pub mod sampling;
pub mod space;
