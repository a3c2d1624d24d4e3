//! Exact methods.

mod ancestral;
mod bucket;
mod elimination;
mod enumerate;
mod order;

pub(crate) use ancestral::Ancestral;
pub use elimination::Elimination;
pub(crate) use elimination::Tree;
pub use enumerate::Enumeration;
pub use order::{Order, min_fill};
