//! Randomized dynamic programming: the exact algorithm on a few states of each position, chosen at random and weighted so that
//! E[Ẑ] = Z.

#![allow(dead_code)]

mod method;
mod proposal;
mod restriction;
mod select;
mod spread;
mod states;

pub use method::{Choice, RandomizedForward};
pub use proposal::{Proposal, Support};
pub use select::{Chosen, Selection};
pub use states::States;
