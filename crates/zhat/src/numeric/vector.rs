//! Reductions for `f64`: sums, Σ exp over slabs, Σ 2^(a·x + b), Σ x ln x.
//!
//! A kernel gives the same bits for a slice, however it was cut out of a larger one.

use super::elementary::double::{
    LANES, ROUND, exp_one, fold_lanes, larger, ln_one, max, multiply_add, sum_exp,
};
use super::simd::dispatched;

/// 2ᶠ for |f| ≤ ½, from the highest power of f down: interpolation at Chebyshev nodes, with an error of
/// 3·10⁻¹⁶.
const EXP2_SERIES: [f64; 11] = [
    7.072_585_949_269_223e-9,
    1.020_869_029_995_830_6e-7,
    1.321_544_258_792_169e-6,
    1.525_265_726_020_083_7e-5,
    1.540_353_044_173_605e-4,
    1.333_355_823_016_497_4e-3,
    9.618_129_107_606_888e-3,
    5.550_410_866_444_772e-2,
    2.402_265_069_591_009_7e-1,
    6.931_471_805_599_5e-1,
    1.0,
];
/// The largest absolute exponent for which [`sum_exp2_affine`] is accurate; a sum of terms with exponent −∞
/// is less than 2^(−`EXP2_RANGE`).
pub(crate) const EXP2_RANGE: f64 = 900.0;
/// Replaces lower exponents.
const EXP2_LOW: f64 = -1000.0;
/// Number of rows summed together; memory is read faster at several places at once.
pub(crate) const SIDE_BY_SIDE: usize = 4;

#[inline(always)]
fn exp2_one<const FMA: bool>(t: f64) -> f64 {
    let t = larger(t, EXP2_LOW);
    let rounded = t + ROUND;
    let f = t - (rounded - ROUND);
    let mut p = EXP2_SERIES[0];
    for &c in &EXP2_SERIES[1..] {
        p = multiply_add::<FMA>(p, f, c);
    }
    f64::from_bits(p.to_bits().wrapping_add(rounded.to_bits() << 52))
}

#[inline(always)]
fn sum_exp2_affine_kernel<const FMA: bool>(
    a: f64,
    x: [&[f32]; SIDE_BY_SIDE],
    b: &[f64],
) -> [f64; SIDE_BY_SIDE] {
    const WIDTH: usize = 8;
    let mut sums = [[0.0; WIDTH]; SIDE_BY_SIDE];
    let term = |x: f32, b: f64| exp2_one::<FMA>(multiply_add::<FMA>(a, f64::from(x), b));
    let x = x.map(|x| x[..b.len()].as_chunks::<WIDTH>());
    let (b, b_rest) = b.as_chunks::<WIDTH>();
    // Indices instead of iterators, so that the compiler uses one vector per row.
    for (j, b) in b.iter().enumerate() {
        for i in 0..SIDE_BY_SIDE {
            for k in 0..WIDTH {
                sums[i][k] += term(x[i].0[j][k], b[k]);
            }
        }
    }
    for (sums, x) in sums.iter_mut().zip(x) {
        x.1.iter().zip(b_rest).zip(sums).for_each(|((&x, &b), sum)| *sum += term(x, b));
    }
    sums.map(|sums| sums.iter().sum())
}

#[inline(always)]
fn sum_x_ln_x_kernel<const FMA: bool>(values: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks.iter().map(|chunk| chunk.as_slice()).chain([rest]) {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            let safe = if x > 0.0 { x } else { 1.0 };
            *lane += safe * ln_one::<FMA>(safe);
        }
    }
    fold_lanes(lanes, |a, b| a + b)
}

#[inline(always)]
fn sum_kernel<const FMA: bool>(values: &[f64]) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks.iter().map(|chunk| chunk.as_slice()).chain([rest]) {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += x;
        }
    }
    fold_lanes(lanes, |a, b| a + b)
}

#[inline(always)]
fn positive_range_kernel<const FMA: bool>(values: &[f64]) -> (f64, f64) {
    let (mut low, mut high) = ([f64::INFINITY; LANES], [0.0; LANES]);
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks.iter().map(|chunk| chunk.as_slice()).chain([rest]) {
        for ((low, high), &x) in low.iter_mut().zip(&mut high).zip(chunk) {
            let positive = if x > 0.0 { x } else { f64::INFINITY };
            *low = if positive < *low { positive } else { *low };
            *high = larger(x, *high);
        }
    }
    (fold_lanes(low, |a, b| if a < b { a } else { b }), fold_lanes(high, larger))
}

#[inline(always)]
fn log_sum_exp_over_slabs_kernel<const FMA: bool>(slabs: &[f64], out: &mut [f64]) {
    const TILE: usize = 64;
    let len = out.len();
    let mut start = 0;
    while start < len {
        let width = TILE.min(len - start);
        let mut shift = [f64::NEG_INFINITY; TILE];
        let mut sum = [0.0; TILE];
        for slab in slabs.chunks_exact(len) {
            for (best, &x) in shift.iter_mut().zip(&slab[start..start + width]) {
                *best = larger(x, *best);
            }
        }
        // A shift of −∞ would give (−∞) − (−∞); with a shift of zero the sum is empty and its logarithm −∞.
        for m in &mut shift {
            *m = if *m == f64::NEG_INFINITY { 0.0 } else { *m };
        }
        for slab in slabs.chunks_exact(len) {
            for ((total, &m), &x) in sum.iter_mut().zip(&shift).zip(&slab[start..start + width]) {
                *total += exp_one::<FMA>(x - m);
            }
        }
        for ((y, &m), &total) in out[start..start + width].iter_mut().zip(&shift).zip(&sum) {
            *y = m + ln_one::<FMA>(total);
        }
        start += width;
    }
}

/// Represents 1/0 by a very large finite number.
const POLE: f64 = 1e307;

#[inline(always)]
fn power_sum_over_slabs_kernel<const FMA: bool>(slabs: &mut [f64], weight: f64, out: &mut [f64]) {
    let exponent = weight.recip();
    for x in slabs.iter_mut() {
        let power = *x * exponent;
        *x = if power > POLE { POLE } else { power };
    }
    log_sum_exp_over_slabs_kernel::<FMA>(slabs, out);
    for y in out {
        *y = if *y >= POLE { f64::NEG_INFINITY } else { *y * weight };
    }
}

dispatched! {
    /// Σᵢ 2^(a·xᵢ + bᵢ) for several rows x, each read once. All exponents other than −∞ must be within
    /// ±[`EXP2_RANGE`].
    pub(crate) fn sum_exp2_affine(a: f64, x: [&[f32]; SIDE_BY_SIDE], b: &[f64]) -> [f64; SIDE_BY_SIDE]
        => sum_exp2_affine_kernel
}
dispatched! {
    /// Σ xᵢ ln xᵢ over values ≥ 0, with 0 ln 0 = 0.
    pub(crate) fn sum_x_ln_x(values: &[f64]) -> f64 => sum_x_ln_x_kernel
}
dispatched! {
    /// Σ xᵢ.
    pub(crate) fn sum(values: &[f64]) -> f64 => sum_kernel
}
dispatched! {
    /// The smallest positive value and the largest value: (∞, 0) if none is positive.
    pub(crate) fn positive_range(values: &[f64]) -> (f64, f64) => positive_range_kernel
}
dispatched! {
    /// outᵢ = log Σⱼ exp slabs[j·n + i] for n = `out.len()`.
    pub(crate) fn log_sum_exp_over_slabs(slabs: &[f64], out: &mut [f64]) => log_sum_exp_over_slabs_kernel
}

dispatched! {
    /// outᵢ = w · log Σⱼ exp(slabs[j·n + i] / w) for n = `out.len()`; −∞ if w < 0 and one of the terms is −∞.
    /// The slabs are overwritten.
    pub(crate) fn power_sum_over_slabs(slabs: &mut [f64], weight: f64, out: &mut [f64])
        => power_sum_over_slabs_kernel
}

/// log Σᵢ exp xᵢ, shifted by the maximum if that is finite; −∞ if there are no terms.
///
/// ```
/// assert_eq!(zhat::internal::numeric::log_sum_exp(&[]), f64::NEG_INFINITY);
/// assert_eq!(zhat::internal::numeric::log_sum_exp(&[1e4, 1e4]), 1e4 + 2f64.ln());
/// ```
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let shift = max(values);
    if shift.is_infinite() { shift } else { shift + sum_exp(values, shift).ln() }
}

#[cfg(test)]
mod tests {
    use super::super::elementary::tests::ulps;
    use super::*;
    use crate::random::Streams;

    #[test]
    fn power_sums_agree_with_the_definition() {
        let slabs = [1.0, 2.0, f64::NEG_INFINITY, f64::NEG_INFINITY, 1.5, -1e4, 3.0, f64::NEG_INFINITY];
        for weight in [0.25f64, 0.5, 2.0, -0.5, -3.0] {
            let mut sums = [0.0; 4];
            power_sum_over_slabs(&mut slabs.clone(), weight, &mut sums);
            for i in 0..4 {
                let pair = [slabs[i], slabs[4 + i]];
                let zero = pair.contains(&f64::NEG_INFINITY) && weight < 0.0;
                let powers = pair.map(|x| x / weight);
                let want = if zero { f64::NEG_INFINITY } else { weight * log_sum_exp(&powers) };
                assert!(ulps(sums[i], want) <= 8.0, "{weight}: {pair:?}: {} {want}", sums[i]);
            }
        }
    }

    #[test]
    fn slabs_agree_with_plain_log_sum_exp() {
        let mut random = Streams::new(3, "vector tests").block(1);
        for (count, len) in [(1, 1), (2, 5), (3, 64), (5, 130), (4, 1)] {
            let slabs: Vec<f64> = (0..count * len)
                .map(|_| match random.below(4) {
                    0 => f64::NEG_INFINITY,
                    1 => 1e4 * random.uniform(),
                    _ => -5.0 + random.uniform(),
                })
                .collect();
            let mut sums = vec![0.0; len];
            log_sum_exp_over_slabs(&slabs, &mut sums);
            for i in 0..len {
                let column: Vec<f64> = (0..count).map(|j| slabs[j * len + i]).collect();
                assert!(ulps(sums[i], log_sum_exp(&column)) <= 4.0, "{column:?}: {}", sums[i]);
            }
        }
    }

    #[test]
    fn sums_of_powers_of_two_agree_with_the_standard_library() {
        let mut random = Streams::new(5, "vector tests").block(0);
        for (len, a) in [(0, 1.0), (1, 1.0), (2, 700.0), (7, 0.0), (8, 900.0), (9, 3.0), (1000, 50.0)] {
            let mut row = || (0..len).map(|_| (2.0 * random.uniform() - 1.0) as f32).collect::<Vec<f32>>();
            let x: [Vec<f32>; SIDE_BY_SIDE] = std::array::from_fn(|_| row());
            let b: Vec<f64> = (0..len).map(|i| -(i as f64) / 7.0).collect();
            let found = sum_exp2_affine(a, x.each_ref().map(Vec::as_slice), &b);
            for (x, found) in x.iter().zip(found) {
                let want: f64 = x.iter().zip(&b).map(|(&x, b)| (a * f64::from(x) + b).exp2()).sum();
                // The exponents themselves are rounded.
                assert!((found - want).abs() <= 1e-13 * want, "{len} {a}: {found} {want}");
            }
        }
        let zeros = [f32::NEG_INFINITY; 11];
        assert!(sum_exp2_affine(2.0, [&zeros; SIDE_BY_SIDE], &[1.0; 11])[0] < (-EXP2_RANGE).exp2());
        for i in -9_000..=9_000 {
            let t = f64::from(i) / 10.007;
            let found = sum_exp2_affine(1.0, [&[0.0]; SIDE_BY_SIDE], &[t])[0];
            assert!(ulps(found, t.exp2()) <= 4.0, "{t}: {found} {}", t.exp2());
        }
    }
}
