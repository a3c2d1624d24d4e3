//! Arithmetic that everything else stands on: log-sum-exp, vector exp and ln, matrix products, rounding.
//!
//! All `unsafe` of the library is in here.

mod product;
mod rounding;
pub mod simd;
mod vector;

pub use product::{Matrix, multiply};
pub use rounding::{CompensatedSum, rounding_allowance};
pub use vector::{exp_in_place, ln_in_place, log_sum_exp, max};
pub(crate) use vector::{log_sum_exp_over_slabs, max_over_slabs};
