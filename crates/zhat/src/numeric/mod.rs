//! Arithmetic that everything else stands on: log-sum-exp, vector exp and ln, matrix products, rounding.
//!
//! All `unsafe` of the library is in here.

mod aligned;
mod buffer;
mod double;
mod gather;
mod lanes;
mod product;
mod real;
mod rounding;
pub mod simd;
mod single;
mod skinny;
mod strips;
mod tile;
mod vector;

pub(crate) use aligned::{Aligned, KEPT};
pub(crate) use buffer::Pool;
pub use buffer::map_large_blocks;
pub(crate) use double::Double;
pub(crate) use gather::{Offsets, add_assign, max_assign, multiply_assign};
pub(crate) use product::multiply_here;
pub use product::{Matrix, multiply};
pub use real::Real;
pub use rounding::{CompensatedSum, rounding_allowance};
pub(crate) use skinny::{Backward, Forward, block_of, padded, strip};
pub(crate) use tile::Elementwise;
pub(crate) use vector::{
    EXP2_RANGE, SIDE_BY_SIDE, log_sum_exp_over_slabs, positive_range, power_sum_over_slabs, sum,
    sum_exp2_affine, sum_x_ln_x,
};
pub use vector::{exp_in_place, ln_in_place, log_sum_exp, max};
