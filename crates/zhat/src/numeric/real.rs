//! The two precisions of sequence models.

use super::elementary::{double, single};
use super::{narrow::Narrow, product::Scalar, skinny::Skinny, small::Small, tile::Elementwise};

/// `f32` or `f64`: the precision of a model. Scales and sums over long sequences are kept in `f64` in both
/// cases.
pub trait Real:
    Scalar
    + Skinny
    + Small
    + Narrow
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
    /// The smallest positive normal number: the possible loss in a product of scaled numbers.
    const TINY: Self;
    /// The difference between 1 and the next number.
    const EPSILON: Self;
    /// The name of the type: `f32` or `f64`.
    const NAME: &'static str;

    /// The nearest number of this precision.
    fn from_f64(x: f64) -> Self;
    /// Converts to a double.
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self.into()
    }
    /// a·b + c, rounded once if `FMA`.
    fn multiply_add<const FMA: bool>(a: Self, b: Self, c: Self) -> Self;
    /// True for NaN.
    fn is_nan(self) -> bool;
    /// The same numbers, if they have single precision.
    fn as_single(_: &[Self]) -> Option<&[f32]> {
        None
    }
    /// The same numbers, if they have double precision.
    fn as_double(_: &[Self]) -> Option<&[f64]> {
        None
    }
    /// xᵢ ← exp xᵢ; results near the subnormal numbers become 0.
    fn exp_in_place(values: &mut [Self]);
    /// xᵢ ← ln xᵢ with ln 0 = −∞.
    fn ln_in_place(values: &mut [Self]);
    /// The largest value; −∞ if there are none.
    fn max(values: &[Self]) -> Self;
    /// Σᵢ exp(xᵢ − shift) for a finite shift.
    fn sum_exp(values: &[Self], shift: Self) -> f64;
    /// log Σᵢ exp xᵢ, shifted by the maximum if that is finite.
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

    #[inline(always)]
    fn from_f64(x: f64) -> f64 {
        x
    }
    #[inline(always)]
    fn multiply_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
        double::multiply_add::<FMA>(a, b, c)
    }
    fn is_nan(self) -> bool {
        f64::is_nan(self)
    }
    fn as_double(values: &[f64]) -> Option<&[f64]> {
        Some(values)
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

    #[inline(always)]
    fn from_f64(x: f64) -> f32 {
        x as f32
    }
    #[inline(always)]
    fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
        single::multiply_add::<FMA>(a, b, c)
    }
    fn is_nan(self) -> bool {
        f32::is_nan(self)
    }
    fn as_single(values: &[f32]) -> Option<&[f32]> {
        Some(values)
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
