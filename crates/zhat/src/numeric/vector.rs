//! Vector `exp`, `ln` and the reductions built from them, for `f64`.
//!
//! `exp`: x = n·ln 2 + r with |r| ≤ ½ ln 2, a degree-13 Taylor polynomial in r, then the exponent bits.
//! `ln`: x = 2ᵏ·z with z in [√½, √2), s = (z−1)/(z+1), ln z = 2·artanh s by its series.
//! Both err by less than 2 units in the last place. A kernel gives an element the same bits wherever it
//! stands in the slice, so results do not depend on how work is cut.

use super::simd::{self, Level};

/// Below this `exp` returns 0: the result would be under 4.5·10⁻³⁰⁸, next to the subnormal numbers.
const EXP_LOW: f64 = -707.7;
const EXP_HIGH: f64 = 709.782_712_893_384;
/// Adding this to a small number rounds it to an integer that then stands in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 · 2^52
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1; // ln 2 with the low 33 bits zero
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// 1/k! for k = 13 down to 2.
const EXP_SERIES: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// 2/(2k+1) for k = 11 down to 1.
const LN_SERIES: [f64; 11] = [
    2.0 / 23.0,
    2.0 / 21.0,
    2.0 / 19.0,
    2.0 / 17.0,
    2.0 / 15.0,
    2.0 / 13.0,
    2.0 / 11.0,
    2.0 / 9.0,
    2.0 / 7.0,
    2.0 / 5.0,
    2.0 / 3.0,
];

/// a·b + c, fused where the hardware does it (in software a fused one costs a hundred times more).
#[inline(always)]
fn multiply_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

#[inline(always)]
pub(super) fn exp_one<const FMA: bool>(x: f64) -> f64 {
    let shifted = multiply_add::<FMA>(x, std::f64::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = multiply_add::<FMA>(n, -LN2_LOW, multiply_add::<FMA>(n, -LN2_HIGH, x));
    let mut p = EXP_SERIES[0];
    for &c in &EXP_SERIES[1..] {
        p = multiply_add::<FMA>(p, r, c);
    }
    p = multiply_add::<FMA>(p, r * r, r) + 1.0;
    // 2^(n−1), then once more times 2, so that n = 1024 does not overflow before it must.
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(1022) << 52;
    let value = p * f64::from_bits(exponent) * 2.0;
    let value = if x < EXP_LOW { 0.0 } else { value };
    if x > EXP_HIGH { f64::INFINITY } else { value }
}

#[inline(always)]
fn ln_one<const FMA: bool>(x: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    let subnormal = x < f64::MIN_POSITIVE;
    let normal = if subnormal { x * 18_014_398_509_481_984.0 } else { x }; // 2^54
    let bits = normal.to_bits();
    let above = bits.wrapping_sub(SQRT_HALF_BITS);
    // The exponent relative to [√½, √2), as an arithmetic shift.
    let exponent = (above as i64) >> 52;
    let z = f64::from_bits(bits.wrapping_sub(above & (0xfff << 52)));
    let k = f64::from_bits((exponent as u64).wrapping_add(ROUND.to_bits())) - ROUND;
    let k = if subnormal { k - 54.0 } else { k };
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
    let value = if x < f64::INFINITY { value } else { x };
    let value = if x == 0.0 { f64::NEG_INFINITY } else { value };
    if x < 0.0 { f64::NAN } else { value }
}

/// Compiles a kernel `fn name<const FMA: bool>(args) -> R` for every level and calls the one in use.
macro_rules! dispatched {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),*) $(-> $ret:ty)? => $kernel:ident) => {
        $(#[$doc])*
        $vis fn $name($($arg: $ty),*) $(-> $ret)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $ty),*) $(-> $ret)? { $kernel::<true>($($arg),*) }
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                fn avx512($($arg: $ty),*) $(-> $ret)? { $kernel::<true>($($arg),*) }
                match simd::level() {
                    // SAFETY: `level` is never above what `Level::detected` found on this CPU.
                    Level::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    Level::Avx2 => return unsafe { avx2($($arg),*) },
                    Level::Portable => {}
                }
            }
            $kernel::<false>($($arg),*)
        }
    };
}

pub(crate) use dispatched;

#[inline(always)]
fn exp_kernel<const FMA: bool>(values: &mut [f64]) {
    for x in values {
        *x = exp_one::<FMA>(*x);
    }
}

#[inline(always)]
fn ln_kernel<const FMA: bool>(values: &mut [f64]) {
    for x in values {
        *x = ln_one::<FMA>(*x);
    }
}

/// Independent partial sums: enough for two AVX-512 registers, and the same at every level.
const LANES: usize = 16;

#[inline(always)]
fn fold_lanes(mut lanes: [f64; LANES], combine: impl Fn(f64, f64) -> f64) -> f64 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for i in 0..width {
            lanes[i] = combine(lanes[i], lanes[i + width]);
        }
    }
    lanes[0]
}

#[inline(always)]
fn larger(a: f64, b: f64) -> f64 {
    if a > b { a } else { b }
}

#[inline(always)]
fn max_kernel<const FMA: bool>(values: &[f64]) -> f64 {
    let mut lanes = [f64::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane = larger(x, *lane);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane = larger(x, *lane);
    }
    fold_lanes(lanes, larger)
}

#[inline(always)]
fn sum_exp_kernel<const FMA: bool>(values: &[f64], shift: f64) -> f64 {
    let mut lanes = [0.0; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for (lane, &x) in lanes.iter_mut().zip(chunk) {
            *lane += exp_one::<FMA>(x - shift);
        }
    }
    for (lane, &x) in lanes.iter_mut().zip(rest) {
        *lane += exp_one::<FMA>(x - shift);
    }
    fold_lanes(lanes, |a, b| a + b)
}

/// 2ᶠ for |f| ≤ ½ from the highest power of f down: it interpolates at Chebyshev's nodes and errs by 3·10⁻¹⁶.
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
/// The largest exponent, up or down, that [`sum_exp2_affine`] is right for; a sum of exponents of −∞ is less than 2 to its negative.
pub(crate) const EXP2_RANGE: f64 = 900.0;
/// What stands for lower exponents.
const EXP2_LOW: f64 = -1000.0;
/// Rows that are added up side by side: memory is read faster in several places at once.
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
    // Indices, not iterators: of these the compiler makes one vector for each row.
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
        // A shift of −∞ would make (−∞) − (−∞); zero leaves the sum empty and its logarithm −∞.
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

/// The largest finite numbers stand for 1/0.
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
    /// xᵢ ← exp xᵢ. Results under 4.5·10⁻³⁰⁸ become 0.
    ///
    /// ```
    /// let mut x = [0.0, 1.0, f64::NEG_INFINITY];
    /// zhat::numeric::exp_in_place(&mut x);
    /// assert_eq!(x[0], 1.0);
    /// assert!((x[1] - std::f64::consts::E).abs() < 1e-15);
    /// assert_eq!(x[2], 0.0);
    /// ```
    pub fn exp_in_place(values: &mut [f64]) => exp_kernel
}
dispatched! {
    /// xᵢ ← ln xᵢ, with ln 0 = −∞ and NaN for negative numbers.
    pub fn ln_in_place(values: &mut [f64]) => ln_kernel
}
dispatched! {
    /// The largest value, −∞ for none.
    pub fn max(values: &[f64]) -> f64 => max_kernel
}
dispatched! {
    /// Σᵢ exp(xᵢ − shift).
    pub(crate) fn sum_exp(values: &[f64], shift: f64) -> f64 => sum_exp_kernel
}
dispatched! {
    /// Σᵢ 2^(a·xᵢ + bᵢ) for some rows x, which are read once, if no exponent but −∞ is beyond ±[`EXP2_RANGE`].
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
    /// The least positive value and the largest one: (∞, 0) if none is positive.
    pub(crate) fn positive_range(values: &[f64]) -> (f64, f64) => positive_range_kernel
}
dispatched! {
    /// outᵢ = log Σⱼ exp slabs[j·n + i] for n = `out.len()`.
    pub(crate) fn log_sum_exp_over_slabs(slabs: &[f64], out: &mut [f64]) => log_sum_exp_over_slabs_kernel
}

dispatched! {
    /// outᵢ = w · log Σⱼ exp(slabs[j·n + i] / w) for n = `out.len()`; −∞ if w < 0 and one of the terms is −∞. The slabs are
    /// written over.
    pub(crate) fn power_sum_over_slabs(slabs: &mut [f64], weight: f64, out: &mut [f64])
        => power_sum_over_slabs_kernel
}

/// log Σᵢ exp xᵢ, shifted by the maximum where that is finite; −∞ for no terms.
///
/// ```
/// assert_eq!(zhat::numeric::log_sum_exp(&[]), f64::NEG_INFINITY);
/// assert_eq!(zhat::numeric::log_sum_exp(&[1e4, 1e4]), 1e4 + 2f64.ln());
/// ```
pub fn log_sum_exp(values: &[f64]) -> f64 {
    let shift = max(values);
    if shift.is_infinite() { shift } else { shift + sum_exp(values, shift).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// Distance in units of the last place of the reference.
    fn ulps(got: f64, want: f64) -> f64 {
        if got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()) {
            return 0.0;
        }
        (got - want).abs() / (want.abs().max(f64::MIN_POSITIVE) * f64::EPSILON)
    }

    fn grid() -> Vec<f64> {
        let mut random = Streams::new(7, "vector tests").block(0);
        let mut x: Vec<f64> = (0..20_003).map(|_| -707.0 + 1416.0 * random.uniform()).collect();
        x.extend((0..2_000).map(|_| 2.0 * random.uniform() - 1.0));
        x.extend([0.0, -0.0, 1e-300, -1e-17, 709.7, 709.78, -707.6]);
        x
    }

    #[test]
    fn exp_agrees_with_the_standard_library() {
        let x = grid();
        let mut y = x.clone();
        exp_in_place(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert!(ulps(y, x.exp()) <= 2.0, "exp({x}) = {y}, want {}", x.exp());
        }
    }

    #[test]
    fn exp_at_the_ends() {
        let mut y = [f64::NEG_INFINITY, f64::INFINITY, f64::NAN, 710.0, -708.0, -1e308, 1e308];
        exp_in_place(&mut y);
        assert_eq!(y[0], 0.0);
        assert_eq!(y[1], f64::INFINITY);
        assert!(y[2].is_nan());
        assert_eq!(y[3..], [f64::INFINITY, 0.0, 0.0, f64::INFINITY]);
    }

    #[test]
    fn ln_agrees_with_the_standard_library() {
        let mut x: Vec<f64> = grid().into_iter().map(f64::exp).collect();
        x.extend([f64::MIN_POSITIVE, 5e-324, 1e-310, f64::MAX, 1.0, 0.999_999_999, 1.000_000_001]);
        let mut y = x.clone();
        ln_in_place(&mut y);
        for (&x, &y) in x.iter().zip(&y) {
            assert!(ulps(y, x.ln()) <= 2.0, "ln({x}) = {y}, want {}", x.ln());
        }
    }

    #[test]
    fn ln_at_the_ends() {
        let mut y = [0.0, -0.0, f64::INFINITY, f64::NAN, -1.0];
        ln_in_place(&mut y);
        assert_eq!(y[..3], [f64::NEG_INFINITY, f64::NEG_INFINITY, f64::INFINITY]);
        assert!(y[3].is_nan() && y[4].is_nan());
    }

    #[test]
    fn an_element_has_the_same_bits_wherever_it_stands() {
        let x = grid();
        let mut whole = x.clone();
        exp_in_place(&mut whole);
        for width in [1, 3, 7] {
            let mut parts = x.clone();
            parts.chunks_mut(width).for_each(exp_in_place);
            assert_eq!(parts, whole);
        }
    }

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
