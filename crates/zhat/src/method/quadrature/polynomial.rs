//! Polynomial approximation p(z) = Σᵢ ζᵢ zⁱ of exp on [l, u], with a certified error.
//!
//! There are two constructions. **Interpolation** at the k + 1 Chebyshev points of [l, u]: the Chebyshev
//! coefficients are a discrete cosine transform of exp at these points, and the error is within a factor 2 +
//! (2/π) ln(k + 1) of the optimum. The **minimax** polynomial has the smallest error of all polynomials of
//! degree k and is found by the exchange algorithm (`remez`).
//!
//! Conversion to monomials loses digits: for h = (u − l)/2, the Chebyshev polynomial Tₖ has coefficients of
//! size 2ᵏ that cancel. Both constructions therefore use double-double arithmetic and round to doubles once,
//! at the end. The certified error includes this rounding.
//!
//! **The error is a bound, not an estimate.** e = exp − p on [l, u] is, up to the tail of exp's Chebyshev
//! series (coefficients 2e^c I_m(h) ≤ (eᵘ + eˡ)(h/2)ᵐ/m!), a polynomial of some degree M. For such a
//! polynomial, the largest value at N Chebyshev points is at least cos(πM/2N) times the largest anywhere
//! (Ehlich and Zeller 1964). With N = 8(M + 1) the bound is at most 2 % too large. The evaluation at these
//! points also uses double-double arithmetic.
//!
//! Time O(k² + (k + h)k); memory O(k + h).
//!
//! Piatkowski and Morik, "Fast Stochastic Quadrature for Approximate Maximum-Likelihood Estimation", UAI
//! 2018, Section 2; Mason and Handscomb, *Chebyshev Polynomials*, 2002; Fraser 1965.
//!
//! ```
//! use zhat::internal::quadrature::Polynomial;
//!
//! let p = Polynomial::chebyshev(8, (-1.0, 1.0))?;
//! assert!(p.error() < 2e-8);
//! assert!((p.evaluate(0.3) - 0.3f64.exp()).abs() <= p.error());
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::Double;
use crate::{Error, Result};

use super::remez;

/// Beyond this, eᵘ overflows a double, and intervals this wide need degrees that doubles cannot represent.
const FARTHEST: f64 = 700.0;
/// A degree in the thousands takes seconds and has no use: monomials lose all digits long before.
const HIGHEST_DEGREE: usize = 1024;
/// The relative error of double-double arithmetic, 2⁻¹⁰⁴ per operation, after a few hundred operations.
const NOISE: f64 = 1.0 / (1u128 << 90) as f64;

/// p(z) = Σᵢ ζᵢ zⁱ ≈ exp z on [l, u].
#[derive(Clone, Debug)]
pub struct Polynomial {
    coefficients: Vec<f64>,
    interval: (f64, f64),
    error: f64,
}

impl Polynomial {
    /// The interpolation at the Chebyshev points of the interval, by a discrete cosine transform.
    ///
    /// # Errors
    /// If the interval is not within [−700, 700], the degree exceeds 1024, or a coefficient overflows.
    pub fn chebyshev(degree: usize, interval: (f64, f64)) -> Result<Self> {
        let scale = Scale::new(degree, interval)?;
        let series = if scale.is_taylor(degree) { None } else { Some(scale.interpolation(degree)) };
        scale.polynomial(degree, series.as_deref())
    }

    /// The polynomial of this degree with the smallest error, by the Remez exchange algorithm.
    ///
    /// If that error is below the precision of double-double arithmetic, this is the interpolation.
    ///
    /// # Errors
    /// As [`Polynomial::chebyshev`].
    pub fn minimax(degree: usize, interval: (f64, f64)) -> Result<Self> {
        let scale = Scale::new(degree, interval)?;
        let interpolation = Self::chebyshev(degree, interval)?;
        if scale.is_taylor(degree) {
            return Ok(interpolation);
        }
        let Some(series) = remez::exchange(&scale.interpolation(degree), |t| scale.exp(t)) else {
            return Ok(interpolation);
        };
        let minimax = scale.polynomial(degree, Some(&series))?;
        // If rounding to doubles dominates, either may be better.
        Ok(if minimax.error <= interpolation.error { minimax } else { interpolation })
    }

    /// ζ₀ … ζₖ.
    pub fn coefficients(&self) -> &[f64] {
        &self.coefficients
    }

    /// An upper bound on max |exp − p| over the interval, for the coefficients as stored; at most a few per
    /// cent too large.
    pub fn error(&self) -> f64 {
        self.error
    }

    /// [l, u].
    pub fn interval(&self) -> (f64, f64) {
        self.interval
    }

    /// k.
    pub fn degree(&self) -> usize {
        self.coefficients.len() - 1
    }

    /// p(z), by Horner's rule.
    pub fn evaluate(&self, z: f64) -> f64 {
        self.coefficients.iter().rev().fold(0.0, |sum, &c| sum * z + c)
    }

    /// A bound on the rounding error of `evaluate` for z in the interval: 2k u Σ |ζᵢ| max(|l|, |u|)ⁱ.
    pub fn rounding(&self) -> f64 {
        f64::EPSILON * (self.degree() as f64 + 1.0) * self.magnitude()
    }

    /// Σ |ζᵢ| max(|l|, |u|)ⁱ: the amount that cancels in the worst case.
    pub fn magnitude(&self) -> f64 {
        let r = self.interval.0.abs().max(self.interval.1.abs());
        self.coefficients.iter().rev().fold(0.0, |sum, c| sum * r + c.abs())
    }
}

/// The smallest degree whose interpolation on the interval has an error of at most `error`; `None` if doubles
/// cannot achieve it.
pub fn least_degree(interval: (f64, f64), error: f64) -> Option<usize> {
    let scale = Scale::new(0, interval).ok()?;
    if error.is_nan() || error <= 0.0 {
        return None;
    }
    // No polynomial of degree k has an error below √½ times the next Chebyshev coefficient, so the search
    // starts at the first degree that satisfies this bound.
    let highest = scale.series_degree(0).min(HIGHEST_DEGREE);
    let start = (0..highest).find(|&k| 0.99 * scale.coefficient(k + 1) / 2f64.sqrt() <= error)?;
    (start..=highest)
        .map_while(|k| Polynomial::chebyshev(k, interval).ok())
        .find(|p| p.error <= error)
        .map(|p| p.degree())
}

/// z = c + h t with t in [−1, 1].
struct Scale {
    interval: (f64, f64),
    centre: Double,
    half: Double,
}

impl Scale {
    fn new(degree: usize, interval: (f64, f64)) -> Result<Self> {
        let (low, high) = interval;
        if !(low <= high && low >= -FARTHEST && high <= FARTHEST) {
            let message = format!(
                "[{low}, {high}] is no interval within [−{FARTHEST}, {FARTHEST}]; take a constant out of the exponent first"
            );
            return Err(Error::argument("interval", message));
        }
        if degree > HIGHEST_DEGREE {
            let message = format!("{degree} is too high: at most {HIGHEST_DEGREE}");
            return Err(Error::argument("degree", message));
        }
        let (low, high) = (Double::from(low), Double::from(high));
        Ok(Scale { interval, centre: (low + high).scaled(0.5), half: (high - low).scaled(0.5) })
    }

    /// exp at t in [−1, 1].
    fn exp(&self, t: Double) -> Double {
        (self.centre + self.half * t).exp()
    }

    /// Whether the Taylor polynomial about the centre is exact to full precision. On intervals this short,
    /// Chebyshev coefficients consist of rounding error, and division by hᵏ would amplify it.
    fn is_taylor(&self, degree: usize) -> bool {
        let h = self.half.high;
        let mut term = 1.0;
        for i in 1..=degree + 1 {
            term *= h / i as f64;
        }
        h < 1.0 && term <= NOISE / 1024.0
    }

    /// Chebyshev coefficients a_m = (2/n) Σⱼ exp(tⱼ) cos(m(2j + 1)π/2n) of the interpolation at n = k + 1
    /// points.
    fn interpolation(&self, degree: usize) -> Vec<Double> {
        let n = degree + 1;
        let quarter: Vec<Double> = (0..=n).map(|i| Double::cos_of_right_angle(i, n)).collect();
        // cos(iπ/2n) for any i, by symmetry.
        let cosine = |i: usize| match i % (4 * n) {
            i if i <= n => quarter[i],
            i if i <= 2 * n => -quarter[2 * n - i],
            i if i <= 3 * n => -quarter[i - 2 * n],
            i => quarter[4 * n - i],
        };
        let values: Vec<Double> = (0..n).map(|j| self.exp(cosine(2 * j + 1))).collect();
        let transform = |m: usize| {
            let terms = values.iter().enumerate().map(|(j, &value)| value * cosine(m * (2 * j + 1)));
            terms.fold(Double::ZERO, |sum, x| sum + x).scaled(if m == 0 { 1.0 } else { 2.0 }).over(n as f64)
        };
        (0..n).map(transform).collect()
    }

    /// Monomials of Σ a_m T_m((z − c)/h), by Clenshaw's recursion on polynomials; without a series, of the
    /// Taylor polynomial.
    fn polynomial(&self, degree: usize, series: Option<&[Double]>) -> Result<Polynomial> {
        let monomials = match series {
            Some(series) => {
                let slope = Double::ONE.divided(self.half);
                let shift = -(self.centre * slope);
                let (mut last, mut before) = (Vec::new(), Vec::new());
                for &a in series[1..].iter().rev() {
                    let next = step(a, &last, slope.scaled(2.0), shift.scaled(2.0), &before);
                    before = std::mem::replace(&mut last, next);
                }
                step(series[0], &last, slope, shift, &before)
            }
            None => {
                let mut sum = vec![Double::ONE];
                for i in (1..=degree).rev() {
                    let inverse = Double::ONE.over(i as f64);
                    sum = step(Double::ONE, &sum, inverse, -(self.centre * inverse), &[]);
                }
                let scale = self.centre.exp();
                sum.iter().map(|&c| c * scale).collect()
            }
        };
        let coefficients: Vec<f64> = monomials.iter().map(|c| c.value()).collect();
        debug_assert_eq!(coefficients.len(), degree + 1);
        let mut polynomial = Polynomial { coefficients, interval: self.interval, error: f64::INFINITY };
        polynomial.error = self.certify(&polynomial);
        if !polynomial.error.is_finite() {
            let message = format!("a polynomial of degree {degree} has coefficients beyond doubles");
            return Err(Error::argument("degree", message));
        }
        Ok(polynomial)
    }

    /// The degree M beyond which the Chebyshev series of exp is below the noise.
    fn series_degree(&self, at_least: usize) -> usize {
        (at_least.max(4)..).find(|&m| self.tail(m) <= NOISE / 1024.0).unwrap_or(at_least)
    }

    /// A bound on Σ_{m>M} 2e^c I_m(h) relative to eᵘ.
    fn tail(&self, degree: usize) -> f64 {
        let half = self.half.high / 2.0;
        let next = degree as f64 + 1.0;
        if next <= 2.0 * half {
            return f64::INFINITY;
        }
        // ln m! ≥ m ln m − m.
        let log_term = if half > 0.0 { next * (half.ln() - next.ln() + 1.0) } else { f64::NEG_INFINITY };
        4.0 * log_term.exp()
    }

    /// The Chebyshev coefficient 2e^c I_m(h) of exp, from the series of the Bessel function; accurate to ten
    /// digits.
    fn coefficient(&self, m: usize) -> f64 {
        let half = self.half.high / 2.0;
        let mut term = 1.0;
        for i in 1..=m {
            term *= half / i as f64;
        }
        let mut sum = term;
        for i in 1.. {
            term *= half * half / (i as f64 * (m + i) as f64);
            sum += term;
            if term <= 1e-12 * sum {
                break;
            }
        }
        // In this order nothing overflows: e^c I_m(h) ≤ eᵘ.
        2.0 * sum * self.centre.high.exp()
    }

    /// An upper bound on max |exp − p| over the interval.
    fn certify(&self, polynomial: &Polynomial) -> f64 {
        let largest = self.interval.1.exp();
        let degree = self.series_degree(polynomial.degree());
        let points = 8 * (degree + 1);
        let mut worst = 0.0f64;
        for j in 0..points {
            let t = (std::f64::consts::PI * (j as f64 + 0.5) / points as f64).cos();
            let z = self.centre + self.half * t.into();
            let terms = polynomial.coefficients.iter().rev();
            let value = terms.fold(Double::ZERO, |sum, &c| sum * z + c.into());
            let error = (z.exp() - value).value().abs();
            // The comparison is written so that NaN propagates.
            worst = if error <= worst { worst } else { error };
        }
        let count = polynomial.degree() as f64 + 1.0;
        let noise = NOISE * (largest + count * polynomial.magnitude()) + 1e-290;
        // The points are rounded by far less than a thousandth of their distance.
        let lost = (1.001 * std::f64::consts::PI * degree as f64 / (2.0 * points as f64)).cos();
        ((worst + 2.0 * noise) / lost + 2.0 * noise) * (1.0 + 1e-12)
    }
}

/// a + (slope·z + shift)·p − q.
fn step(a: Double, p: &[Double], slope: Double, shift: Double, q: &[Double]) -> Vec<Double> {
    let mut out = vec![Double::ZERO; p.len() + 1];
    for (i, &c) in p.iter().enumerate() {
        out[i] = out[i] + shift * c;
        out[i + 1] = out[i + 1] + slope * c;
    }
    for (x, &c) in out.iter_mut().zip(q) {
        *x = *x - c;
    }
    out[0] = out[0] + a;
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// max |exp − p| on a fine grid, in double-double arithmetic.
    fn seen_error(p: &Polynomial) -> f64 {
        let (low, high) = p.interval();
        let errors = (0..=20_000).map(|i| {
            let z = Double::from(low) + Double::from(high - low) * (f64::from(i) / 20_000.0).into();
            let value = p.coefficients().iter().rev().fold(Double::ZERO, |sum, &c| sum * z + c.into());
            (z.exp() - value).value().abs()
        });
        errors.fold(0.0, f64::max)
    }

    const INTERVALS: [(f64, f64); 10] = [
        (-1.0, 1.0),
        (-3.0, 2.0),
        (0.0, 0.0),
        (-1e-7, 2e-7),
        (-20.0, 0.0),
        (9.0, 12.0),
        (-15.0, 15.0),
        (-60.0, 60.0),
        (100.0, 100.000_001),
        (-700.0, 700.0),
    ];

    #[test]
    fn the_error_is_a_bound_and_close() {
        for interval in INTERVALS {
            for degree in [0, 1, 2, 3, 5, 8, 13, 30, 70] {
                for p in [Polynomial::chebyshev(degree, interval), Polynomial::minimax(degree, interval)] {
                    let Ok(p) = p else { continue };
                    let seen = seen_error(&p);
                    assert!(seen <= p.error(), "{interval:?} {degree}: {seen} > {}", p.error());
                    let noise = 1e-23 * (interval.1.exp() + p.magnitude());
                    assert!(
                        p.error() <= 1.03 * seen + noise,
                        "{interval:?} {degree}: {} ≫ {seen}",
                        p.error()
                    );
                }
            }
        }
    }

    #[test]
    fn minimax_errors_are_least() {
        for interval in INTERVALS {
            for degree in [0, 1, 2, 3, 5, 8, 13, 20] {
                // e⁷⁰⁰ times a coefficient of T₁₃ overflows a double.
                let Ok(chebyshev) = Polynomial::chebyshev(degree, interval) else { continue };
                let Ok(minimax) = Polynomial::minimax(degree, interval) else { continue };
                assert!(minimax.error() <= chebyshev.error());
                // The Lebesgue constant of the Chebyshev points.
                let most = 2.0 + std::f64::consts::FRAC_2_PI * (degree as f64 + 1.0).ln();
                let noise = 1e-15 * (interval.1.exp() + chebyshev.magnitude());
                assert!(chebyshev.error() <= 1.03 * most * minimax.error() + noise, "{interval:?} {degree}");
            }
        }
    }

    /// The best linear approximation of exp on [−1, 1] has slope sinh 1; the best constant is cosh 1 with
    /// error sinh 1.
    #[test]
    fn minimax_of_low_degree_in_closed_form() {
        let line = Polynomial::minimax(1, (-1.0, 1.0)).unwrap();
        assert!((line.coefficients()[1] - 1f64.sinh()).abs() < 1e-6);
        let constant = Polynomial::minimax(0, (-1.0, 1.0)).unwrap();
        assert!((constant.coefficients()[0] - 1f64.cosh()).abs() < 1e-6);
        assert!((constant.error() / 1f64.sinh() - 1.0).abs() < 0.03);
    }

    #[test]
    fn a_point_has_the_value_there() {
        let p = Polynomial::chebyshev(3, (2.5, 2.5)).unwrap();
        assert!((p.evaluate(2.5) - 2.5f64.exp()).abs() <= 1e-13);
        assert!(p.error() < 1e-13);
    }

    #[test]
    fn the_least_degree_is_the_least() {
        for interval in INTERVALS {
            for error in [1.0, 1e-2, 1e-6] {
                let error = error * interval.1.exp();
                let Some(k) = least_degree(interval, error) else {
                    assert!(interval.1 - interval.0 > 40.0, "{interval:?} {error}");
                    continue;
                };
                assert!(Polynomial::chebyshev(k, interval).unwrap().error() <= error);
                if k > 0 {
                    assert!(Polynomial::chebyshev(k - 1, interval).unwrap().error() > error);
                }
            }
        }
        assert_eq!(least_degree((-1.0, 1.0), 0.0), None);
        assert_eq!(least_degree((-1.0, f64::NAN), 1.0), None);
        assert_eq!(least_degree((-1.0, 1.0), 1e-40), None);
    }

    #[test]
    fn bad_intervals_are_errors() {
        for interval in [(1.0, 0.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (0.0, 701.0), (-1e9, 0.0)] {
            assert!(Polynomial::chebyshev(3, interval).is_err());
            assert!(Polynomial::minimax(3, interval).is_err());
        }
        assert!(Polynomial::chebyshev(100_000, (0.0, 1.0)).is_err());
    }

    /// Compared with arithmetic of 120 digits. Far from 0, the monomials themselves are badly conditioned.
    #[test]
    fn coefficients_keep_their_digits() {
        type Case = (usize, (f64, f64), f64, &'static [(usize, f64)]);
        let cases: [Case; 5] = [
            (
                3,
                (-1.0, 1.0),
                3e-16,
                &[(0, 0.9946153168789936), (1, 0.9989332279763053), (3, 0.17517569404724084)],
            ),
            (
                12,
                (-3.0, 2.0),
                3e-16,
                &[
                    (0, 0.9999999979763685),
                    (1, 1.0000000184400382),
                    (6, 0.0013889734586790578),
                    (12, 1.4151663601058265e-9),
                ],
            ),
            (
                30,
                (-15.0, 15.0),
                3e-16,
                &[
                    (0, 1.0),
                    (1, 1.0000033906608874),
                    (15, 7.260208478219937e-13),
                    (30, 2.0926562384072217e-32),
                ],
            ),
            (
                24,
                (9.0, 12.0),
                1e-4,
                &[
                    (0, 50530.04524874878),
                    (1, -120148.09657171404),
                    (12, 0.12797443434907105),
                    (24, 5.981063639933286e-20),
                ],
            ),
            (
                60,
                (-40.0, 10.0),
                1e-8,
                &[(0, 1.0), (1, 1.0), (30, 3.7699876882286394e-33), (60, 4.3559307352833383e-88)],
            ),
        ];
        for (degree, interval, tolerance, expected) in cases {
            let p = Polynomial::chebyshev(degree, interval).unwrap();
            for &(i, c) in expected {
                let relative = (p.coefficients()[i] - c).abs() / c.abs();
                assert!(relative <= tolerance, "{degree} {interval:?} ζ_{i}: {relative:e}");
            }
        }
    }
}
