//! Vector `exp`, `ln` and the reductions built from them, for `f32`.
//!
//! `exp`: x = n·ln 2 + r with |r| ≤ ½ ln 2, 1 + r + r²·p(r) with a polynomial p of degree 4 that interpolates at Chebyshev's
//! nodes, then n is added to the exponent bits. `ln`: as for `f64`, with fewer terms. Both err by less than 2 units in the last
//! place, and a kernel gives an element the same bits wherever it stands in the slice. Sums are kept in `f64`.

use super::simd::{self, Level};
use super::vector::dispatched;

/// Below this `exp` returns 0: the result would be under 1.2·10⁻³⁸, next to the subnormal numbers.
const EXP_LOW: f32 = -87.33;
const EXP_HIGH: f32 = 88.722_83;
/// Adding this to a small number rounds it to an integer that then stands in the low bits.
const ROUND: f32 = 12_582_912.0; // 1.5 · 2^23
const LN2_HIGH: f32 = 355.0 / 512.0; // nine bits: its products with an exponent are exact
const LN2_LOW: f32 = -2.121_944_4e-4;

/// (exp r − 1 − r)/r² from the highest power of r down.
const EXP_SERIES: [f32; 5] = [1.392_625e-3, 8.363_233e-3, 4.166_655_2e-2, 1.666_657_6e-1, 0.5];

/// 2/(2k+1) for k = 4 down to 1.
const LN_SERIES: [f32; 4] = [2.0 / 9.0, 2.0 / 7.0, 2.0 / 5.0, 2.0 / 3.0];

/// a·b + c, fused where the hardware does it.
#[inline(always)]
fn multiply_add<const FMA: bool>(a: f32, b: f32, c: f32) -> f32 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
pub(super) fn exp_one<const FMA: bool>(x: f32) -> f32 {
    let shifted = multiply_add::<FMA>(x, std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FMA>(n, -LN2_LOW, multiply_add::<FMA>(n, -LN2_HIGH, x));
    let mut p = EXP_SERIES[0];
    for &c in &EXP_SERIES[1..] {
        p = multiply_add::<FMA>(p, r, c);
    }
    p = multiply_add::<FMA>(p, r * r, r) + 1.0;
    // At n = 128 r is negative and p below 1, so that the exponent has room; what is left of ROUND's bits is shifted out.
    let value = f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23));
    let value = if x < EXP_LOW { 0.0 } else { value };
    if x > EXP_HIGH { f32::INFINITY } else { value }
}

#[inline(always)]
fn ln_one<const FMA: bool>(x: f32) -> f32 {
    const SQRT_HALF_BITS: u32 = 0x3f35_04f3;
    let subnormal = x < f32::MIN_POSITIVE;
    let normal = if subnormal { x * 33_554_432.0 } else { x }; // 2^25
    let bits = normal.to_bits();
    let above = bits.wrapping_sub(SQRT_HALF_BITS);
    // The exponent relative to [√½, √2), as an arithmetic shift.
    let exponent = (above as i32) >> 23;
    let z = f32::from_bits(bits.wrapping_sub(above & (0x1ff << 23)));
    let k = exponent as f32;
    let k = if subnormal { k - 25.0 } else { k };
    let f = z - 1.0;
    let s = f / (2.0 + f);
    let s2 = s * s;
    let mut p = LN_SERIES[0];
    for &c in &LN_SERIES[1..] {
        p = multiply_add::<FMA>(p, s2, c);
    }
    // ln z = f − s·(f − s²·p): the large part f is exact, the correction small.
    let correction = s * (f - s2 * p);
    let value = multiply_add::<FMA>(k, LN2_HIGH, f - (correction - k * LN2_LOW));
    let value = if x < f32::INFINITY { value } else { x };
    let value = if x == 0.0 { f32::NEG_INFINITY } else { value };
    if x < 0.0 { f32::NAN } else { value }
}

#[inline(always)]
fn exp_kernel<const FMA: bool>(values: &mut [f32]) {
    for x in values {
        *x = exp_one::<FMA>(*x);
    }
}

#[inline(always)]
fn ln_kernel<const FMA: bool>(values: &mut [f32]) {
    for x in values {
        *x = ln_one::<FMA>(*x);
    }
}

/// Independent partial results: two AVX-512 registers of `f32`, and the same at every level.
const LANES: usize = 32;

#[inline(always)]
fn larger(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

#[inline(always)]
fn max_kernel<const FMA: bool>(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(x, *lane);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(x, *lane);
    }
    lanes.into_iter().fold(f32::NEG_INFINITY, larger)
}

#[inline(always)]
fn sum_exp_kernel<const FMA: bool>(values: &[f32], shift: f32) -> f64 {
    let mut lanes = [0.0f64; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(exp_one::<FMA>(x - shift));
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(exp_one::<FMA>(x - shift));
    }
    lanes.into_iter().sum()
}

dispatched! {
    /// xᵢ ← exp xᵢ. Results under 1.2·10⁻³⁸ become 0.
    pub(crate) fn exp_in_place(values: &mut [f32]) => exp_kernel
}
dispatched! {
    /// xᵢ ← ln xᵢ, with ln 0 = −∞ and NaN for negative numbers.
    pub(crate) fn ln_in_place(values: &mut [f32]) => ln_kernel
}
dispatched! {
    /// The largest value, −∞ for none.
    pub(crate) fn max(values: &[f32]) -> f32 => max_kernel
}
dispatched! {
    /// Σᵢ exp(xᵢ − shift), added up in `f64`.
    pub(crate) fn sum_exp(values: &[f32], shift: f32) -> f64 => sum_exp_kernel
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// Distance from the exact value in units of the last place of single precision.
    fn ulps(got: f32, want: f64) -> f64 {
        if f64::from(got) == want || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        (f64::from(got) - want).abs()
            / (want.abs().max(f64::from(f32::MIN_POSITIVE)) * f64::from(f32::EPSILON))
    }

    fn grid() -> Vec<f32> {
        let mut random = Streams::new(7, "single tests").block(0);
        let mut x: Vec<f32> = (0..40_003).map(|_| (-87.3 + 176.0 * random.uniform()) as f32).collect();
        x.extend((0..4_000).map(|_| (2.0 * random.uniform() - 1.0) as f32));
        x.extend([0.0, -0.0, 1e-30, -1e-9, 88.7, 88.722_8, -87.329]);
        x
    }

    #[test]
    fn exp_agrees_with_double_precision() {
        let x = grid();
        let mut y = x.clone();
        exp_in_place(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            let want = f64::from(x).exp();
            assert!(ulps(y, want) <= 2.0, "exp({x}) = {y}, want {want}");
        }
    }

    #[test]
    fn exp_at_the_ends() {
        let mut y = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN, 88.8, -87.4, -1e38, 1e38, f32::MIN];
        exp_in_place(&mut y);
        assert_eq!(y[0], 0.0);
        assert_eq!(y[1], f32::INFINITY);
        assert!(y[2].is_nan());
        assert_eq!(y[3..], [f32::INFINITY, 0.0, 0.0, f32::INFINITY, 0.0]);
    }

    #[test]
    fn ln_agrees_with_double_precision() {
        let mut x: Vec<f32> = grid().into_iter().map(f32::exp).collect();
        x.extend([f32::MIN_POSITIVE, 1e-45, 1e-40, f32::MAX, 1.0, 0.999_999, 1.000_001]);
        let mut y = x.clone();
        ln_in_place(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            let want = f64::from(x).ln();
            assert!(ulps(y, want) <= 2.0, "ln({x}) = {y}, want {want}");
        }
    }

    #[test]
    fn ln_at_the_ends() {
        let mut y = [0.0, -0.0, f32::INFINITY, f32::NAN, -1.0];
        ln_in_place(&mut y);
        assert_eq!(y[..3], [f32::NEG_INFINITY, f32::NEG_INFINITY, f32::INFINITY]);
        assert!(y[3].is_nan() && y[4].is_nan());
    }

    #[test]
    fn an_element_has_the_same_bits_wherever_it_stands() {
        let x = grid();
        for kernel in [exp_in_place, |x: &mut [f32]| {
            x.iter_mut().for_each(|x| *x = x.abs());
            ln_in_place(x);
        }] {
            let mut whole = x.clone();
            kernel(&mut whole);
            for width in [1, 3, 7, 33] {
                let mut parts = x.clone();
                parts.chunks_mut(width).for_each(kernel);
                assert_eq!(parts, whole);
            }
        }
    }

    #[test]
    fn reductions_agree_with_double_precision() {
        let mut random = Streams::new(3, "single tests").block(1);
        for len in [0, 1, 5, 32, 33, 100, 100_000] {
            let x: Vec<f32> = (0..len).map(|_| (10.0 * random.uniform()) as f32).collect();
            let largest = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
            assert_eq!(max(&x), largest);
            let want: f64 = x.iter().map(|&x| (f64::from(x) - 10.0).exp()).sum();
            // Each term errs by 2 units in the last place and the rounding of x − 10.
            let allowed = 16.0 * f64::from(f32::EPSILON) * want;
            assert!((sum_exp(&x, 10.0) - want).abs() <= allowed, "{len}");
        }
        assert_eq!(sum_exp(&[f32::NEG_INFINITY, 0.0], 0.0), 1.0);
    }
}
