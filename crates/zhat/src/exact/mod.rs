//! Exact methods.

mod ancestral;
mod bucket;
mod conditioning;
mod cost;
mod elimination;
mod enumerate;
mod forward_backward;
mod scaled;
mod search;
mod tree;

pub(crate) use ancestral::Ancestral;
pub use conditioning::Conditioning;
pub use elimination::Elimination;
pub use enumerate::Enumeration;
pub use forward_backward::{
    DivergenceTape, EntropyTape, ForwardBackward, LogPartitionTape, Recorded, Relaxed, RelaxedTape,
    SegmentRelaxedTape,
};
pub use search::Search;
pub(crate) use search::{Witness, witness, witness_bytes};
