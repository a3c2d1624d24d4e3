//! Exact methods.

mod ancestral;
pub(crate) mod bucket;
mod conditioning;
mod cost;
mod elimination;
mod enumerate;
pub(crate) mod prepare;
mod projection;
pub(crate) mod scaled;
mod search;
mod tree;

pub(crate) use ancestral::Ancestral;
pub use conditioning::Conditioning;
pub use elimination::Elimination;
pub(crate) use elimination::{inference_along, log_partition_given, marginals_along, rounding};
pub use enumerate::Enumeration;
pub(crate) use enumerate::Ranked;
pub use prepare::{Contradiction, Difficulty, Order, elimination_order};
pub(crate) use projection::Projection;
pub use search::Search;
pub(crate) use search::{Witness, witness, witness_bytes};
