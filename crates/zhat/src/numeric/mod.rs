//! Numerical foundations: log-sum-exp, vectorised exp and ln, matrix products, rounding.
//!
//! All `unsafe` code of the library is in this module.

mod aligned;
mod buffer;
mod cholesky;
mod double;
mod elementary;
mod gather;
mod lanes;
mod logistic;
mod narrow;
pub(crate) mod parallel;
mod product;
mod real;
mod rounding;
pub(crate) mod semiring;
pub mod simd;
mod skinny;
mod small;
mod sparse;
mod strips;
mod table;
mod tile;
mod vector;

pub(crate) use aligned::{Aligned, POOL_BYTES};
pub use buffer::map_large_blocks;
pub(crate) use buffer::{Pool, filled};
pub(crate) use cholesky::Cholesky;
pub(crate) use double::Double;
/// ```
/// let mut x = [0.0, 1.0, f64::NEG_INFINITY];
/// zhat::internal::numeric::exp_in_place(&mut x);
/// assert_eq!(x[0], 1.0);
/// assert!((x[1] - std::f64::consts::E).abs() < 1e-15);
/// assert_eq!(x[2], 0.0);
/// ```
pub use elementary::double::exp_in_place;
pub use elementary::double::{ln_in_place, max};
pub(crate) use gather::{Offsets, add_assign, max_assign, multiply_assign};
pub(crate) use logistic::log_add;
pub(crate) use narrow::{
    Accuracy, Arrival, Departure, HEADROOM_BITS, MOST_STATES as NARROW_STATES, Weighing,
};
pub use product::{Matrix, multiply};
pub(crate) use product::{multiply_here, multiply_rows, packed_bytes};
pub use real::Real;
pub use rounding::{CompensatedSum, rounding_allowance};
pub(crate) use skinny::{Backward, Forward, block_of, padded, strip};
pub(crate) use small::{Small, SmallProduct, padded as padded_row};
pub(crate) use sparse::{Index, Indices, Tile};
pub(crate) use table::Table;
pub(crate) use tile::Elementwise;
pub use vector::log_sum_exp;
pub(crate) use vector::{
    EXP2_RANGE, SIDE_BY_SIDE, log_sum_exp_over_slabs, positive_range, power_sum_over_slabs, sum,
    sum_exp2_affine, sum_x_ln_x,
};
