//! Positive numbers for the elimination of words: sums, products and quotients, never differences.

use crate::numeric::Real;

/// A number of a semifield.
pub trait Number: Copy + Send + Sync {
    /// Zero.
    const ZERO: Self;
    /// a + b.
    fn plus(self, other: Self) -> Self;
    /// a·b.
    fn times(self, other: Self) -> Self;
    /// a / b; b is not zero.
    fn over(self, other: Self) -> Self;
    /// True for zero.
    fn is_zero(self) -> bool;
    /// self + a·b, rounded once if `FMA` and possible.
    #[inline(always)]
    fn add_product<const FMA: bool>(self, a: Self, b: Self) -> Self {
        self.plus(a.times(b))
    }
}

/// Σ_k a_k·b_k, in eight sums that do not wait for each other.
#[inline(always)]
pub fn dot<N: Number>(a: &[N], b: &[N]) -> N {
    let mut sums = [N::ZERO; 8];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    for (a, b) in a.iter().zip(b) {
        for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
            *sum = sum.plus(a.times(*b));
        }
    }
    for ((sum, a), b) in sums.iter_mut().zip(a_rest).zip(b_rest) {
        *sum = sum.plus(a.times(*b));
    }
    let [a, b, c, d, e, f, g, h] = sums;
    a.plus(b).plus(c.plus(d)).plus(e.plus(f).plus(g.plus(h)))
}

/// Σ_k a_k, in the same way.
pub fn sum<N: Number>(a: &[N]) -> N {
    let mut sums = [N::ZERO; 8];
    let (chunks, rest) = a.as_chunks::<8>();
    for chunk in chunks {
        sums.iter_mut().zip(chunk).for_each(|(sum, a)| *sum = sum.plus(*a));
    }
    sums.iter_mut().zip(rest).for_each(|(sum, a)| *sum = sum.plus(*a));
    let [a, b, c, d, e, f, g, h] = sums;
    a.plus(b).plus(c.plus(d)).plus(e.plus(f).plus(g.plus(h)))
}

impl Number for f64 {
    const ZERO: f64 = 0.0;

    #[inline(always)]
    fn plus(self, other: f64) -> f64 {
        self + other
    }
    #[inline(always)]
    fn times(self, other: f64) -> f64 {
        self * other
    }
    #[inline(always)]
    fn over(self, other: f64) -> f64 {
        self / other
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self == 0.0
    }
    #[inline(always)]
    fn add_product<const FMA: bool>(self, a: f64, b: f64) -> f64 {
        f64::multiply_add::<FMA>(a, b, self)
    }
}

/// A number with its derivative in one direction.
#[derive(Clone, Copy, Debug)]
pub struct WithSlope {
    pub value: f64,
    pub slope: f64,
}

impl Number for WithSlope {
    const ZERO: WithSlope = WithSlope { value: 0.0, slope: 0.0 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        WithSlope { value: self.value + other.value, slope: self.slope + other.slope }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let slope = self.slope * other.value + self.value * other.slope;
        WithSlope { value: self.value * other.value, slope }
    }
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        let value = self.value / other.value;
        WithSlope { value, slope: (self.slope - value * other.slope) / other.value }
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.value == 0.0
    }
}

/// exp(log)·εᵒʳᵈᵉʳ for an infinitely small ε, with the derivative of its logarithm in one direction. A sum
/// keeps the lowest order, so it is the limit as ε → 0.
#[derive(Clone, Copy, Debug)]
pub struct Leading {
    pub order: i32,
    pub log: f64,
    pub slope: f64,
}

impl Number for Leading {
    const ZERO: Leading = Leading { order: i32::MAX, log: f64::NEG_INFINITY, slope: 0.0 };

    fn plus(self, other: Self) -> Self {
        let (large, small) =
            if (self.order, -self.log) <= (other.order, -other.log) { (self, other) } else { (other, self) };
        if small.is_zero() || small.order > large.order {
            return large;
        }
        let ratio = (small.log - large.log).exp();
        let share = ratio / (1.0 + ratio);
        let slope = large.slope + share * (small.slope - large.slope);
        Leading { order: large.order, log: large.log + ratio.ln_1p(), slope }
    }
    fn times(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return Leading::ZERO;
        }
        let (order, slope) = (self.order + other.order, self.slope + other.slope);
        Leading { order, log: self.log + other.log, slope }
    }
    fn over(self, other: Self) -> Self {
        if self.is_zero() {
            return Leading::ZERO;
        }
        let (order, slope) = (self.order - other.order, self.slope - other.slope);
        Leading { order, log: self.log - other.log, slope }
    }
    fn is_zero(self) -> bool {
        self.log == f64::NEG_INFINITY
    }
}

impl Leading {
    /// The limit of the number, which has an order of 0 or more.
    pub fn limit(self) -> f64 {
        if self.order == 0 { self.log.exp() } else { 0.0 }
    }
}

/// The number fraction · 2^(512 · exponent), which never underflows and needs no exponentials, unlike the log
/// domain. The fraction is zero or between 2⁻²⁵⁶ and 2²⁵⁶.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    fraction: f64,
    exponent: i32,
}

impl Wide {
    /// log₂ of the radix.
    const BITS: f64 = 512.0;
    const RADIX: f64 = 1.340_780_792_994_259_7e154;
    const ROOT: f64 = 1.157_920_892_373_162e77;

    /// A fraction between 2⁻⁵¹² and 2⁵¹³.
    #[inline(always)]
    fn normal(fraction: f64, exponent: i32) -> Self {
        if fraction >= Wide::ROOT {
            Wide { fraction: fraction / Wide::RADIX, exponent: exponent + 1 }
        } else if fraction >= 1.0 / Wide::ROOT {
            Wide { fraction, exponent }
        } else if fraction > 0.0 {
            Wide { fraction: fraction * Wide::RADIX, exponent: exponent - 1 }
        } else {
            Wide::ZERO
        }
    }

    /// One.
    pub const ONE: Wide = Wide { fraction: 1.0, exponent: 0 };

    /// The larger of two numbers.
    pub fn larger(self, other: Self) -> Self {
        if (self.exponent, self.fraction) >= (other.exponent, other.fraction) { self } else { other }
    }

    /// exp(log).
    pub fn exp(log: f64) -> Self {
        if log == f64::NEG_INFINITY {
            return Wide::ZERO;
        }
        let unit = Wide::BITS * std::f64::consts::LN_2;
        let exponent = (log / unit).round();
        Wide::normal((log - exponent * unit).exp(), exponent as i32)
    }

    /// The logarithm.
    pub fn ln(self) -> f64 {
        self.fraction.ln() + f64::from(self.exponent.max(-(1 << 24))) * Wide::BITS * std::f64::consts::LN_2
    }

    /// The ratio to another number that is not much smaller.
    pub fn ratio(self, other: Self) -> f64 {
        let (ratio, steps) = (self.fraction / other.fraction, (self.exponent - other.exponent).clamp(-3, 1));
        // One step after the other, because the square of the radix is infinite.
        if steps > 0 { ratio * Wide::RADIX } else { (steps..0).fold(ratio, |ratio, _| ratio / Wide::RADIX) }
    }
}

impl Number for Wide {
    const ZERO: Wide = Wide { fraction: 0.0, exponent: i32::MIN / 4 };

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        let (large, small) = if self.exponent >= other.exponent { (self, other) } else { (other, self) };
        match large.exponent - small.exponent {
            0 => Wide::normal(large.fraction + small.fraction, large.exponent),
            1 => Wide::normal(large.fraction + small.fraction / Wide::RADIX, large.exponent),
            _ => large,
        }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Wide::normal(self.fraction * other.fraction, self.exponent + other.exponent)
    }
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        Wide::normal(self.fraction / other.fraction, self.exponent - other.exponent)
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.fraction == 0.0
    }
}

/// A logarithm; the sum of two numbers is the larger one.
#[derive(Clone, Copy, Debug)]
pub struct Largest(pub f64);

impl Number for Largest {
    const ZERO: Largest = Largest(f64::NEG_INFINITY);

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }
    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Largest(self.0 + other.0)
    }
    #[inline(always)]
    fn over(self, other: Self) -> Self {
        Largest(self.0 - other.0)
    }
    #[inline(always)]
    fn is_zero(self) -> bool {
        self.0 == f64::NEG_INFINITY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_numbers_agree_with_logarithms() {
        let logs: Vec<f64> =
            [-1e5, -900.0, -355.0, -177.5, -1.0, 0.0, 3.0, 177.4, 354.9, 1e4, f64::NEG_INFINITY].to_vec();
        let close = |a: f64, b: f64| a == b || (a - b).abs() <= 1e-15 * (1.0 + a.abs().max(b.abs())) * 4.0;
        for &a in &logs {
            assert!(close(Wide::exp(a).ln(), a), "{a}");
            for &b in &logs {
                let (x, y) = (Wide::exp(a), Wide::exp(b));
                // The logarithms of the factors are rounded.
                let rounded = |x: f64, y: f64| x == y || (x - y).abs() <= 4e-15 * (1.0 + a.abs() + b.abs());
                assert!(rounded(x.times(y).ln(), a + b), "{a} {b}");
                let sum = number(a, 0).plus(number(b, 0)).log;
                assert!(close(x.plus(y).ln(), sum), "{a} {b}: {} {sum}", x.plus(y).ln());
                if b > f64::NEG_INFINITY {
                    assert!(rounded(x.over(y).ln(), a - b), "{a} {b}");
                    let ratio = if a - b < 300.0 { (a - b).exp() } else { continue };
                    assert!((x.ratio(y) - ratio).abs() <= 1e-10 * ratio + 1e-300, "{a} {b}");
                }
            }
        }
    }

    fn number(log: f64, order: i32) -> Leading {
        Leading { order, log, slope: 0.0 }
    }

    #[test]
    fn the_lowest_order_is_kept() {
        let sum = number(1.0, 1).plus(number(2.0, 0));
        assert_eq!((sum.order, sum.log), (0, 2.0));
        let sum = number(1.0, 1).plus(number(1.0, 1));
        assert!(sum.order == 1 && (sum.log - (1.0 + 2f64.ln())).abs() < 1e-15);
        let ratio = number(1.0, 1).over(number(3.0, 1));
        assert!((ratio.limit() - (-2f64).exp()).abs() < 1e-15);
        assert_eq!(number(1.0, 1).limit(), 0.0);
        assert!(Leading::ZERO.times(number(1.0, 0)).is_zero() && Leading::ZERO.plus(Leading::ZERO).is_zero());
    }

    #[test]
    fn slopes_agree_with_differences() {
        // f(t) = (a·b + c) / (a + c) with a = e^{t}, b = e^{2t}, c = e^{-t} at t = 0.3.
        let f = |t: f64| ((3.0 * t).exp() + (-t).exp()) / (t.exp() + (-t).exp());
        let difference = (f(0.3 + 1e-6) - f(0.3 - 1e-6)) / 2e-6;
        let exp = |k: f64| WithSlope { value: (k * 0.3).exp(), slope: k * (k * 0.3).exp() };
        let found = exp(1.0).times(exp(2.0)).plus(exp(-1.0)).over(exp(1.0).plus(exp(-1.0)));
        assert!((found.slope - difference).abs() < 1e-8);
        let log = |k: f64| Leading { order: 0, log: k * 0.3, slope: k };
        let found = log(1.0).times(log(2.0)).plus(log(-1.0)).over(log(1.0).plus(log(-1.0)));
        assert!((found.slope * found.log.exp() - difference).abs() < 1e-8);
    }
}
