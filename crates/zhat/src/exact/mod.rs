//! Exact methods.

mod bucket;
mod elimination;
mod enumerate;
mod order;

pub use elimination::Elimination;
pub(crate) use elimination::Tree;
pub use enumerate::Enumeration;
pub use order::{Order, min_fill};
