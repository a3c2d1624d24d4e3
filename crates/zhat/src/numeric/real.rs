//! The two precisions that models of sequences come in.

use super::elementary::{double, single};
use super::{product::Scalar, skinny::Skinny, tile::Elementwise};

/// `f32` or `f64`: a model's own precision. Scales and sums over long sequences are kept in `f64` either way.
pub trait Real:
    Scalar
    + Skinny
    + Elementwise
    + PartialOrd
    + Default
    + std::fmt::Debug
    + std::fmt::Display
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::MulAssign
    + std::iter::Sum
    + Into<f64>
{
    /// −∞, the logarithm of zero.
    const NEG_INFINITY: Self;
    /// The largest finite number.
    const MAX: Self;
    /// The least positive normal number: what a product of scaled numbers may lose.
    const TINY: Self;
    /// The gap between 1 and the next number.
    const EPSILON: Self;
    /// The name of the type: `f32` or `f64`.
    const NAME: &'static str;

    /// The nearest number of this precision.
    fn from_f64(x: f64) -> Self;
    /// As a double.
    fn to_f64(self) -> f64 {
        self.into()
    }
    /// True for NaN.
    fn is_nan(self) -> bool;
    /// xᵢ ← exp xᵢ; results next to the subnormal numbers become 0.
    fn exp_in_place(values: &mut [Self]);
    /// xᵢ ← ln xᵢ with ln 0 = −∞.
    fn ln_in_place(values: &mut [Self]);
    /// The largest value, −∞ for none.
    fn max(values: &[Self]) -> Self;
    /// Σᵢ exp(xᵢ − shift) for a finite shift.
    fn sum_exp(values: &[Self], shift: Self) -> f64;
    /// log Σᵢ exp xᵢ, shifted by the maximum where that is finite.
    fn log_sum_exp(values: &[Self]) -> f64 {
        let shift = Self::max(values);
        if shift == Self::NEG_INFINITY {
            f64::NEG_INFINITY
        } else {
            shift.to_f64() + Self::sum_exp(values, shift).ln()
        }
    }
}

impl Real for f64 {
    const NEG_INFINITY: f64 = f64::NEG_INFINITY;
    const MAX: f64 = f64::MAX;
    const TINY: f64 = f64::MIN_POSITIVE;
    const EPSILON: f64 = f64::EPSILON;
    const NAME: &'static str = "f64";

    fn from_f64(x: f64) -> f64 {
        x
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    fn exp_in_place(values: &mut [f64]) {
        double::exp_in_place(values);
    }
    fn ln_in_place(values: &mut [f64]) {
        double::ln_in_place(values);
    }
    fn max(values: &[f64]) -> f64 {
        double::max(values)
    }
    fn sum_exp(values: &[f64], shift: f64) -> f64 {
        double::sum_exp(values, shift)
    }
}

impl Real for f32 {
    const NEG_INFINITY: f32 = f32::NEG_INFINITY;
    const MAX: f32 = f32::MAX;
    const TINY: f32 = f32::MIN_POSITIVE;
    const EPSILON: f32 = f32::EPSILON;
    const NAME: &'static str = "f32";

    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
    fn exp_in_place(values: &mut [f32]) {
        single::exp_in_place(values);
    }
    fn ln_in_place(values: &mut [f32]) {
        single::ln_in_place(values);
    }
    fn max(values: &[f32]) -> f32 {
        single::max(values)
    }
    fn sum_exp(values: &[f32], shift: f32) -> f64 {
        single::sum_exp(values, shift)
    }
}
