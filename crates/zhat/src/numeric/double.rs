//! Double-double arithmetic: a number is the unevaluated sum of two doubles, with a relative error of about
//! 2⁻¹⁰⁰ (Dekker 1971). It is used for the few quantities that would lose more than half of their digits in
//! double precision.

use std::ops::{Add, Mul, Neg, Sub};

/// high + low, |low| at most half a unit in the last place of high.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Double {
    pub high: f64,
    pub low: f64,
}

const LN_2: Double = Double { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };
const HALF_PI: Double = Double { high: std::f64::consts::FRAC_PI_2, low: 6.123_233_995_736_766e-17 };

/// a + b and its rounding error.
fn two_sum(a: f64, b: f64) -> Double {
    let high = a + b;
    let b_seen = high - a;
    Double { high, low: (a - (high - b_seen)) + (b - b_seen) }
}

impl From<f64> for Double {
    fn from(x: f64) -> Self {
        Double { high: x, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Double;
    fn add(self, other: Double) -> Double {
        let (high, low) = (two_sum(self.high, other.high), two_sum(self.low, other.low));
        let sum = two_sum(high.high, high.low + low.high);
        two_sum(sum.high, sum.low + low.low)
    }
}

impl Neg for Double {
    type Output = Double;
    fn neg(self) -> Double {
        Double { high: -self.high, low: -self.low }
    }
}

impl Sub for Double {
    type Output = Double;
    fn sub(self, other: Double) -> Double {
        self + -other
    }
}

impl Mul for Double {
    type Output = Double;
    fn mul(self, other: Double) -> Double {
        let high = self.high * other.high;
        let error = self.high.mul_add(other.high, -high);
        two_sum(high, error + (self.high * other.low + self.low * other.high))
    }
}

impl Double {
    pub const ZERO: Double = Double { high: 0.0, low: 0.0 };
    pub const ONE: Double = Double { high: 1.0, low: 0.0 };

    /// The nearest double.
    pub fn value(self) -> f64 {
        self.high + self.low
    }

    /// Divides by a double.
    pub fn over(self, divisor: f64) -> Double {
        self.divided(divisor.into())
    }

    /// Long division with three digits of base 2⁵³.
    pub fn divided(self, divisor: Double) -> Double {
        let first = self.high / divisor.high;
        let rest = self - divisor * first.into();
        let second = rest.high / divisor.high;
        let rest = rest - divisor * second.into();
        two_sum(first, second) + (rest.high / divisor.high).into()
    }

    /// Multiplies by a power of two, exactly.
    pub fn scaled(self, factor: f64) -> Double {
        Double { high: self.high * factor, low: self.low * factor }
    }

    /// x = k·ln 2 + 1024·r; the series in r, followed by ten squarings in terms of eˣ − 1, which avoids
    /// cancellation. For |x| ≤ 700; 0 below −700.
    pub fn exp(self) -> Double {
        if self.high < -700.0 {
            return Double::ZERO;
        }
        let k = (self.high / LN_2.high).round();
        let r = (self - LN_2 * k.into()).scaled(1.0 / 1024.0);
        let series = (2..=11).rev().fold(Double::ONE, |sum, i| Double::ONE + (r * sum).over(f64::from(i)));
        let less_one = (0..10).fold(r * series, |y, _| y.scaled(2.0) + y * y);
        (less_one + Double::ONE).scaled(k.exp2())
    }

    /// One Newton step for exp y = x, which doubles the number of correct digits of the standard library's
    /// result.
    pub fn ln(self) -> Double {
        let y = Double::from(self.high.ln());
        y + self * (-y).exp() - 1.0.into()
    }

    /// cos(π·numerator / (2·denominator)) for numerator ≤ denominator, computed by its series.
    pub fn cos_of_right_angle(numerator: usize, denominator: usize) -> Double {
        debug_assert!(numerator <= denominator);
        if numerator == denominator {
            return Double::ZERO;
        }
        let angle = (HALF_PI * (numerator as f64).into()).over(denominator as f64);
        let square = -(angle * angle);
        // Terms up to x^34/34! < 2⁻¹⁰⁴ for x ≤ π/2.
        (1..=17).rev().fold(Double::ONE, |sum, i| {
            let i = f64::from(2 * i);
            Double::ONE + (square * sum).over(i * (i - 1.0))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e_to_thirty_digits() {
        // e = 2.71828182845904523536028747135266…; the second part is e − double(e).
        let e = Double::ONE.exp();
        assert_eq!(e.high, std::f64::consts::E);
        assert!((e.low - 1.445_646_891_729_250_2e-16).abs() < 1e-31);
    }

    #[test]
    fn exp_and_ln_undo_each_other() {
        for x in [-600.0, -30.5, -1e-9, 0.0, 0.3, 12.25, 650.0] {
            let back = Double::from(x).exp().ln();
            assert!((back - x.into()).value().abs() <= 1e-29 * (1.0 + f64::abs(x)), "{x}");
        }
    }

    #[test]
    fn a_third_is_a_third() {
        let third = Double::ONE.divided(3.0.into());
        assert!((third + third + third - Double::ONE).value().abs() < 1e-31);
    }

    #[test]
    fn cosines_add_up() {
        // cos(π/3) = 1/2; cos² + sin² = 1.
        assert!((Double::cos_of_right_angle(2, 3) - 0.5.into()).value().abs() < 1e-31);
        for i in 0..=17 {
            let (c, s) = (Double::cos_of_right_angle(i, 17), Double::cos_of_right_angle(17 - i, 17));
            assert!((c * c + s * s - Double::ONE).value().abs() < 1e-30, "{i}");
        }
    }
}
