//! Messages on chains and semi-Markov chains: what exact and randomized methods share.
//!
//! A lattice has layers of states and, between neighbouring layers, a matrix of transitions. `entries` are the log-transitions
//! as they stand in the model, tile by tile; `steps` turns them into matrices of numbers in [0, 1] that messages are multiplied with.
//! `nodes` are the scores of the layers; `messages` sweeps forward and backward over a batch, `linear` the same without logarithms
//! where nothing can be lost; `gradient` has the marginals.

mod best;
mod buffers;
mod cost;
mod direction;
mod draw;
mod entries;
mod gradient;
mod layout;
mod linear;
mod messages;
mod nodes;
mod ranked;
mod relaxed;
mod repair;
mod rounding;
mod segment_direction;
mod segment_paths;
mod segment_relaxed;
mod segment_scores;
mod segment_windows;
mod segments;
mod steps;
mod support;
#[cfg(test)]
mod tests;
mod windows;

pub(crate) use cost::{
    BYTES_PER_CALL, BYTES_PER_ROW, Matrices, PER_CALL, PER_FRESH_BYTE, PER_PRODUCT, Scratch,
};
pub(crate) use direction::{Directed, Direction, expectation_window};
pub(crate) use draw::{BLOCK, Cumulative};
pub(crate) use entries::{ChainEntries, Entries, Index};
pub(crate) use layout::Rows;
pub(crate) use linear::Linear;
pub(crate) use messages::{Lattice, Messages};
pub(crate) use nodes::{ChainNodes, Edges, LayerNodes, zero_gradient};
pub(crate) use rounding::{Sizes, rounding};
pub(crate) use segment_direction::{SegmentDirected, SegmentDirection};
pub(crate) use segment_scores::ScoreGradient;
pub(crate) use segment_windows::Ahead;
pub(crate) use segments::{SegmentLattice, SegmentNodes, Segmented, SemiMarkovSegments};
pub(crate) use steps::{Product, Steps, restricted_steps_of, steps_of};
