//! Messages on chains and semi-Markov chains, shared by the exact and the randomized methods.
//!
//! A lattice has layers of states and a transition matrix between each pair of adjacent layers. `entries`
//! reads the log-transitions of the model tile by tile. `steps` turns them into matrices with entries in [0,
//! 1] for products with messages. `nodes` holds the scores of the layers. `messages` sweeps forward and
//! backward over a batch; `linear` does the same without logarithms if no accuracy can be lost, and `narrow` for
//! few states; `gradient` computes the marginals. In a semi-Markov chain, positions are entered and left by `segments`; in a chain,
//! each segment has one position.

mod best;
mod buffers;
mod cost;
mod direction;
mod draw;
mod entries;
mod gradient;
mod layout;
mod linear;
mod long;
mod messages;
mod narrow;
mod nodes;
mod ranked;
mod relaxed;
mod repair;
mod rounding;
mod segment_scores;
mod segments;
mod steps;
mod support;
#[cfg(test)]
mod tests;
mod windows;

pub use best::SegmentPath;
pub(crate) use cost::{
    BYTES_PER_CALL, BYTES_PER_ROW, Matrices, PER_CALL, PER_FRESH_BYTE, PER_PRODUCT, Scratch,
};
pub(crate) use direction::expectation_window;
pub use direction::{Directed, Direction};
pub(crate) use draw::BLOCK;
pub(crate) use entries::{ChainEntries, Entries, Index, Listed};
pub(crate) use layout::PositionRows;
pub use messages::{Lattice, Messages};
pub(crate) use narrow::{is_narrow, narrow_numbers};
pub(crate) use nodes::{ChainNodes, Edges, LayerNodes, zero_gradient};
pub(crate) use relaxed::RelaxedSegment;
pub(crate) use rounding::{Sizes, rounding};
pub use segment_scores::ScoreGradient;
pub(crate) use segments::{Segmented, SemiMarkovSegments};
pub(crate) use steps::{Product, Steps, restricted_steps_of, steps_of};
