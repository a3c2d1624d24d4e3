//! Exact methods.

mod ancestral;
mod bucket;
mod conditioning;
mod cost;
mod elimination;
mod enumerate;
mod scaled;
mod search;
mod tree;

pub(crate) use ancestral::Ancestral;
pub use conditioning::Conditioning;
pub use elimination::Elimination;
pub use enumerate::Enumeration;
pub use search::Search;
