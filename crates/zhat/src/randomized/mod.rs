//! Randomized dynamic programming: the exact algorithm on a few states of each position, chosen at random and weighted so that
//! E[Ẑ] = Z.

#![allow(dead_code)]

mod proposal;
mod select;
mod spread;

pub use proposal::{Proposal, Support};
pub use select::{Chosen, Selection};
