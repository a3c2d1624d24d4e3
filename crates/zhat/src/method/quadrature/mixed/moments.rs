//! χ: integrals of products of statistics over an interval, in closed form.
//!
//!   ∫ₐᵇ xᵖ (ln x)^q dx = ∫ e^{st} t^q dt from ln a to ln b, s = p + 1.
//!
//! Integration by parts gives J_q = [e^{st} t^q]/s − (q/s) J_{q−1}, which loses a factor q!/(sT)^q of
//! accuracy, where T is the larger of |ln a| and |ln b|. It is used only for |s|T > 30. Otherwise the series
//! Σₙ sⁿ/n! [t^{n+q+1}]/(n + q + 1) is used, whose terms cancel by at most e^{2|s|T}. Both use double-double
//! arithmetic and bound their own rounding error.
//!
//! **Shifted statistics.** With the logarithm centred at σ the integral is e^{sσ} times that over a short
//! interval about 0. For powers, ∫ Π (xᶜ − σ)ⁿ … follows by applying the binomial theorem to one statistic at
//! a time; the cancellation is bounded as well. If a variable has only integer powers, everything is a
//! polynomial in t = (x − m)/h, and ∫ tⁿ = 2h/(n + 1) or 0: nothing cancels.
//!
//! Piatkowski and Morik 2018, Lemma 1. As printed, the lemma integrates from 0, where 1/x diverges, and uses
//! logarithms and odd powers, which may be negative, as a probability mass. Boxes with a > 0 and signs
//! correct this.

use std::collections::HashMap;

use crate::model::Statistic;
use crate::numeric::Double;

use super::gauss::gauss_legendre;

/// A relative error of 2⁻¹⁰² per step, for hundreds of steps.
pub(super) const NOISE: f64 = 1.0 / (1u128 << 92) as f64;
/// For |s|T above this value, integration by parts is stable; below it, the series is.
const BY_PARTS: f64 = 30.0;

/// A number and a bound on its error.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounded {
    pub value: Double,
    pub error: f64,
}

/// ∫ e^{st} t^q dt from `low` to `high`.
fn exponential(s: Double, q: usize, low: Double, high: Double) -> Bounded {
    let farthest = low.high.abs().max(high.high.abs());
    if s.high.abs() * farthest <= BY_PARTS { series(s, q, low, high) } else { by_parts(s, q, low, high) }
}

fn series(s: Double, q: usize, low: Double, high: Double) -> Bounded {
    let power = |t: Double, n: usize| (0..n).fold(Double::ONE, |product, _| product * t);
    let (mut at_low, mut at_high) = (power(low, q + 1), power(high, q + 1));
    let (mut sum, mut size) = (Double::ZERO, 0.0);
    let mut n = 0;
    loop {
        let count = (n + q + 1) as f64;
        sum = sum + (at_high - at_low).over(count);
        let term = (at_high.high.abs() + at_low.high.abs()) / count;
        size += term;
        n += 1;
        let step = s.over(n as f64);
        (at_low, at_high) = (at_low * low * step, at_high * high * step);
        // Beyond n = 2|s|T each term is at most half of the previous one.
        let ratio = s.high.abs() * low.high.abs().max(high.high.abs()) / n as f64;
        if ratio < 0.5 && term <= 1e-32 * size {
            break;
        }
    }
    Bounded { value: sum, error: (NOISE + 1e-31) * size }
}

fn by_parts(s: Double, q: usize, low: Double, high: Double) -> Bounded {
    let (e_low, e_high) = ((s * low).exp(), (s * high).exp());
    let inverse = Double::ONE.divided(s);
    let (mut p_low, mut p_high) = (e_low, e_high);
    let mut answer = Bounded { value: Double::ZERO, error: 0.0 };
    for i in 0..=q {
        let size = (p_low.high.abs() + p_high.high.abs()) * inverse.high.abs();
        let step = inverse * (i as f64).into();
        answer.value = (p_high - p_low) * inverse - step * answer.value;
        answer.error = NOISE * size + step.high.abs() * answer.error;
        (p_low, p_high) = (p_low * low, p_high * high);
    }
    answer
}

/// ∫ₐᵇ xᵖ (ln x − σ)^q dx, 0 < a. With σ near the middle of the logarithms, the series has little
/// cancellation.
fn centred(p: Double, q: usize, (a, b): (Double, Double), sigma: f64) -> Bounded {
    let s = p + Double::ONE;
    let inner = exponential(s, q, a.ln() - sigma.into(), b.ln() - sigma.into());
    let scale = (s * sigma.into()).exp();
    let value = inner.value * scale;
    Bounded { value, error: inner.error * scale.high + NOISE * value.high.abs() }
}

/// ∫ₐᵇ xᵖ (ln x)^q dx, 0 < a, from the centred integrals by the binomial theorem.
fn power_log(p: Double, q: usize, a: Double, b: Double) -> Bounded {
    let sigma = 0.5 * (a.high.ln() + b.high.ln());
    let mut sum = Bounded { value: Double::ZERO, error: 0.0 };
    let mut factor = Double::ONE;
    for j in (0..=q).rev() {
        let part = centred(p, j, (a, b), sigma);
        sum.value = sum.value + factor * part.value;
        sum.error += factor.high.abs() * (part.error + NOISE * part.value.high.abs());
        factor = (factor * sigma.into() * (j as f64).into()).over((q - j + 1) as f64);
    }
    sum
}

/// ∫₀ᵇ xᵖ dx for p > −1.
fn from_zero(p: Double, b: Double) -> Bounded {
    let s = p + Double::ONE;
    let value = (s * b.ln()).exp().divided(s);
    Bounded { value, error: NOISE * value.high.abs() }
}

/// The mean of xᵖ (ln x)^q over [a, b]. For a < 0, p must be an integer ≥ 0 and q = 0; for a = 0, any p ≥ 0
/// with q = 0.
pub(super) fn mean(p: Double, q: usize, a: Double, b: Double) -> Bounded {
    let width = b - a;
    let raw = if a.high > 0.0 {
        power_log(p, q, a, b)
    } else if a.high == 0.0 {
        from_zero(p, b)
    } else {
        let power = |x: Double| (0..=p.high as usize).fold(Double::ONE, |product, _| product * x);
        let (low, high) = (power(a), power(b));
        let size = low.high.abs() + high.high.abs();
        Bounded { value: (high - low).over(p.high + 1.0), error: NOISE * size }
    };
    Bounded { value: raw.value.divided(width), error: raw.error / width.high }
}

/// The coefficients of the product of two polynomials.
fn multiplied(a: &[Double], b: &[Double]) -> Vec<Double> {
    let mut product = vec![Double::ZERO; a.len() + b.len() - 1];
    for (i, &x) in a.iter().enumerate() {
        for (j, &y) in b.iter().enumerate() {
            product[i + j] = product[i + j] + x * y;
        }
    }
    product
}

/// The mean of a product of statistics of one variable over [a, b]; `None` if there is no closed form. For an
/// integer c, |x − m|ᶜ is a polynomial on either side of m. For other c, everything else must be a polynomial
/// in |x − m|.
pub(super) fn product_mean(factors: &[Statistic], a: f64, b: f64) -> Option<Bounded> {
    let mut centres: Vec<f64> = factors
        .iter()
        .filter_map(|f| if let Statistic::Distance { centre, .. } = f { Some(*centre) } else { None })
        .filter(|centre| a < *centre && *centre < b)
        .collect();
    centres.sort_by(f64::total_cmp);
    centres.dedup();
    let ends: Vec<f64> = [a].into_iter().chain(centres).chain([b]).collect();
    let whole = Double::from(b) - a.into();
    let mut sum = Bounded { value: Double::ZERO, error: 0.0 };
    for pair in ends.windows(2) {
        let part = side_mean(factors, pair[0], pair[1])?;
        let share = (Double::from(pair[1]) - pair[0].into()).divided(whole);
        sum.value = sum.value + part.value * share;
        sum.error += part.error * share.high + NOISE * part.value.high.abs();
    }
    Some(sum)
}

/// The same without a centre between the ends.
fn side_mean(factors: &[Statistic], a: f64, b: f64) -> Option<Bounded> {
    let real = factors.iter().find_map(|f| match *f {
        Statistic::Distance { centre, .. } if !f.is_polynomial() => Some(centre),
        _ => None,
    });
    // x = origin + sign·w for w in [low, high]: w is x itself, or the distance from a centre.
    let (origin, sign, low, high) = match real {
        None => (Double::ZERO, 1.0, Double::from(a), Double::from(b)),
        Some(m) if m <= a => (m.into(), 1.0, Double::from(a) - m.into(), Double::from(b) - m.into()),
        Some(m) => (m.into(), -1.0, Double::from(m) - b.into(), Double::from(m) - a.into()),
    };
    let (mut p, mut q) = (Double::ZERO, 0);
    let mut polynomial = vec![Double::ONE];
    for f in factors {
        match *f {
            Statistic::Distance { centre, power } if f.is_polynomial() => {
                let side = if centre <= a { 1.0 } else { -1.0 };
                let line = [(origin - centre.into()).scaled(side), Double::from(sign * side)];
                (0..power as usize).for_each(|_| polynomial = multiplied(&polynomial, &line));
            }
            Statistic::Distance { centre, power } if Some(centre) == real => p = p + power.into(),
            Statistic::Power(c) if real.is_none() => p = p + c.into(),
            Statistic::Power(c) if f.is_polynomial() => {
                let line = [origin, Double::from(sign)];
                (0..c as usize).for_each(|_| polynomial = multiplied(&polynomial, &line));
            }
            Statistic::Log(c) if real.is_none() => q += c as usize,
            _ => return None,
        }
    }
    let mut sum = Bounded { value: Double::ZERO, error: 0.0 };
    for (i, &coefficient) in polynomial.iter().enumerate() {
        let part = mean(p + (i as f64).into(), q, low, high);
        sum.value = sum.value + coefficient * part.value;
        sum.error += coefficient.high.abs() * (part.error + NOISE * part.value.high.abs());
    }
    Some(sum)
}

/// ∫ₐᵇ xᵖ (ln x)^q dx in closed form, 0 < a < b; any a < b if p ≥ 0 is an integer and q = 0.
///
/// ```
/// let e = std::f64::consts::E;
/// let log = zhat::internal::quadrature::integral(0.0, 1, 1.0, e);
/// assert!((log - 1.0).abs() < 1e-15); // ∫ ln x from 1 to e
/// assert_eq!(zhat::internal::quadrature::integral(2.0, 0, -1.0, 1.0), 2.0 / 3.0);
/// ```
pub fn integral(p: f64, q: usize, a: f64, b: f64) -> f64 {
    if a <= 0.0 {
        if q > 0 || p < 0.0 || p.fract() != 0.0 {
            return f64::NAN;
        }
        let power = |x: f64| (0..=p as usize).fold(Double::ONE, |product, _| product * x.into());
        return (power(b) - power(a)).over(p + 1.0).value();
    }
    power_log(p.into(), q, a.into(), b.into()).value.value()
}

/// The ends of a cell of one variable.
pub(super) type Ends = (Double, Double);

/// The statistics of one continuous variable, if they are not all integer powers, and the integrals of their
/// products over a cell. If |x − m| occurs with a non-integer power, the variable is |x − m|.
#[derive(Clone, Debug)]
pub(super) struct Shifted {
    /// Distinct statistics: the logarithm, if any power of it occurs, and powers. Powers of the logarithm are
    /// polynomials in the centred logarithm.
    pub statistics: Vec<Statistic>,
    /// The largest sum of exponents.
    degree: usize,
    /// All exponents with at most that sum, in the order of the table of moments.
    exponents: Vec<Vec<u8>>,
    /// For each statistic and table index, the index at which its exponent is one less; the same index if it
    /// is 0.
    below: Vec<Vec<u32>>,
}

impl Shifted {
    pub fn new(statistics: Vec<Statistic>, degree: usize) -> Self {
        let mut exponents = vec![vec![]];
        for _ in &statistics {
            let longer = |e: Vec<u8>| {
                let used: usize = e.iter().map(|&n| usize::from(n)).sum();
                (0..=degree - used).map(move |n| {
                    let mut e = e.clone();
                    e.push(n as u8);
                    e
                })
            };
            exponents = exponents.into_iter().flat_map(longer).collect();
        }
        let mut shifted = Shifted { statistics, degree, exponents, below: vec![] };
        let places: HashMap<&[u8], u32> =
            shifted.exponents.iter().enumerate().map(|(at, e)| (e.as_slice(), at as u32)).collect();
        let below = |i: usize| {
            let less = |(at, e): (usize, &Vec<u8>)| {
                let mut e = e.clone();
                e[i] = e[i].saturating_sub(1);
                places.get(e.as_slice()).copied().unwrap_or(at as u32)
            };
            shifted.exponents.iter().enumerate().map(less).collect()
        };
        let below = (0..shifted.statistics.len()).map(below).collect();
        shifted.below = below;
        shifted
    }

    /// The number of moments.
    pub fn len(&self) -> usize {
        self.exponents.len()
    }

    /// The table index of these exponents.
    pub fn position(&self, exponents: &[u8]) -> Option<usize> {
        self.exponents.iter().position(|e| e == exponents)
    }

    /// σᵢ: the values of the statistics in the middle of a cell.
    pub fn shifts(&self, (a, b): Ends) -> Vec<f64> {
        let middle = 0.5 * (a + b).value();
        self.statistics.iter().map(|f| f.value(middle)).collect()
    }

    /// (1/(b − a)) ∫ Π (fᵢ − σᵢ)^{nᵢ} for all exponents.
    pub fn moments(&self, (a, b): Ends, shifts: &[f64]) -> Vec<Bounded> {
        if self.statistics.contains(&Statistic::LogComplement) {
            return self.numerical((a.value(), b.value()), shifts);
        }
        let log = self.statistics.iter().position(|f| *f == Statistic::Log(1));
        let sigma = log.map_or_else(|| (0.5 * (a + b).value()).ln(), |i| shifts[i]);
        let width = b - a;
        let mut known: Vec<((Double, usize), Bounded)> = Vec::new();
        let mut table: Vec<Bounded> = Vec::with_capacity(self.exponents.len());
        for exponents in &self.exponents {
            let (mut p, mut q) = (Double::ZERO, 0);
            for (&f, &n) in self.statistics.iter().zip(exponents) {
                match f {
                    Statistic::Power(c) => p = p + Double::from(c) * f64::from(n).into(),
                    Statistic::Log(_) => q += usize::from(n),
                    _ => {}
                }
            }
            let raw = match known.iter().find(|entry| entry.0 == (p, q)) {
                Some(&(_, raw)) => raw,
                None => {
                    let raw = if a.high == 0.0 { from_zero(p, b) } else { centred(p, q, (a, b), sigma) };
                    known.push(((p, q), raw));
                    raw
                }
            };
            table.push(Bounded { value: raw.value.divided(width), error: raw.error / width.high });
        }
        // The logarithm is already shifted.
        for (i, &shift) in shifts.iter().enumerate().filter(|(i, _)| Some(*i) != log) {
            table = self.shift(i, shift, &table);
        }
        table
    }

    /// The same without a closed form, by Gauss–Legendre quadrature with 20 points. The error is an estimate.
    fn numerical(&self, (a, b): (f64, f64), shifts: &[f64]) -> Vec<Bounded> {
        let (middle, half) = (0.5 * (a + b), 0.5 * (b - a));
        let mut sums = vec![0.0; self.exponents.len()];
        for (t, weight) in gauss_legendre(20) {
            let x = middle + half * t;
            let values: Vec<f64> =
                self.statistics.iter().zip(shifts).map(|(f, shift)| f.value(x) - shift).collect();
            for (sum, exponents) in sums.iter_mut().zip(&self.exponents) {
                let powers = values.iter().zip(exponents).map(|(value, &n)| value.powi(n.into()));
                *sum += 0.5 * weight * powers.product::<f64>();
            }
        }
        sums.into_iter().map(|sum| Bounded { value: sum.into(), error: 1e-14 * sum.abs() }).collect()
    }

    /// Shifts statistic i by the binomial theorem.
    fn shift(&self, i: usize, shift: f64, table: &[Bounded]) -> Vec<Bounded> {
        let mut powers = vec![Double::ONE];
        for n in 0..self.degree {
            powers.push(powers[n] * (-shift).into());
        }
        let sum = |(at, exponents): (usize, &Vec<u8>)| {
            let n = usize::from(exponents[i]);
            let mut binomial = Double::ONE;
            let (mut value, mut error, mut size) = (Double::ZERO, 0.0, 0.0);
            let mut entry = at;
            for j in (0..=n).rev() {
                let factor = binomial * powers[n - j];
                value = value + factor * table[entry].value;
                size += (factor.high * table[entry].value.high).abs();
                error += factor.high.abs() * table[entry].error;
                binomial = (binomial * (j as f64).into()).over((n - j + 1) as f64);
                entry = self.below[i][entry] as usize;
            }
            Bounded { value, error: error + NOISE * size }
        };
        self.exponents.iter().enumerate().map(sum).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Composite Gauss–Legendre quadrature with 5 points on each of 2,000 panels.
    fn numerically(f: impl Fn(f64) -> f64, a: f64, b: f64) -> f64 {
        let nodes = [
            (0.0, 0.568_888_888_888_888_9),
            (0.538_469_310_105_683_1, 0.478_628_670_499_366_47),
            (0.906_179_845_938_664, 0.236_926_885_056_189_08),
        ];
        let h = (b - a) / 2000.0;
        let panel = |i: i32| {
            let m = a + (f64::from(i) + 0.5) * h;
            let pair = |&(t, w): &(f64, f64)| {
                let both = f(m + 0.5 * h * t) + if t > 0.0 { f(m - 0.5 * h * t) } else { 0.0 };
                0.5 * h * w * both
            };
            nodes.iter().map(pair).sum::<f64>()
        };
        (0..2000).map(panel).sum()
    }

    #[test]
    fn closed_forms_agree_with_numerical_quadrature() {
        for (a, b) in [(0.01, 1.0), (0.5, 3.0), (1.0, 1.001), (2.0, 40.0), (0.3, 0.31)] {
            for p in [-9.0, -2.5, -1.0, -0.999_999, 0.0, 0.37, 1.0, 4.0, 12.0] {
                for q in [0usize, 1, 2, 3, 7, 12] {
                    let f = |x: f64| x.powf(p) * x.ln().powi(q as i32);
                    let (ours, theirs) = (integral(p, q, a, b), numerically(f, a, b));
                    let size = numerically(|x| f(x).abs(), a, b);
                    assert!((ours - theirs).abs() <= 1e-9 * size, "{p} {q} [{a}, {b}]: {ours} {theirs}");
                }
            }
        }
        assert_eq!(integral(3.0, 0, -1.0, 2.0), 3.75);
        assert!(integral(-1.0, 0, -1.0, 2.0).is_nan());
    }

    #[test]
    fn means_with_distances_agree_with_numerical_quadrature() {
        let distance = |centre: f64, power: f64| Statistic::Distance { centre, power };
        let sets: [Vec<Statistic>; 6] = [
            vec![distance(1.0, 1.0)],
            vec![distance(1.0, 2.5), Statistic::Power(3.0)],
            vec![distance(1.0, 1.0), distance(1.5, 3.0), Statistic::Power(1.0)],
            vec![distance(0.7, 1.0), Statistic::Log(2), Statistic::Power(0.5)],
            vec![distance(1.0, 1.5), distance(1.0, 0.25), distance(2.0, 1.0)],
            vec![distance(9.0, 1.5), distance(-3.0, 2.0)],
        ];
        for factors in sets {
            for (a, b) in [(0.5, 1.0), (0.25, 3.0), (1.0, 1.75), (2.0, 2.5)] {
                let f = |x: f64| factors.iter().map(|f| f.value(x)).product::<f64>();
                // Each kink is at the end of a panel.
                let ends = [a, 0.7, 1.0, 1.5, 2.0, b].map(|x: f64| x.clamp(a, b));
                let mut sorted = ends;
                sorted.sort_by(f64::total_cmp);
                let sum: f64 = sorted
                    .windows(2)
                    .map(|pair| if pair[0] < pair[1] { numerically(f, pair[0], pair[1]) } else { 0.0 })
                    .sum();
                let (ours, theirs) = (product_mean(&factors, a, b).unwrap(), sum / (b - a));
                assert!(ours.error <= 1e-20 * ours.value.high.abs().max(1e-4));
                assert!(
                    (ours.value.value() - theirs).abs() <= 1e-7 * theirs.abs().max(1e-3),
                    "{factors:?} [{a}, {b}]"
                );
            }
        }
        assert!(product_mean(&[distance(1.0, 0.5), Statistic::Log(1)], 0.5, 2.0).is_none());
    }

    #[test]
    fn shifted_moments_agree_with_numerical_quadrature_within_their_own_bound() {
        let sets: [Vec<Statistic>; 4] = [
            vec![Statistic::Log(1), Statistic::Power(1.0)],
            vec![Statistic::Log(1), Statistic::Power(1.7)],
            vec![Statistic::Power(-1.0)],
            vec![Statistic::Log(1), Statistic::Power(2.0), Statistic::Power(-0.5)],
        ];
        for statistics in sets {
            let shifted = Shifted::new(statistics.clone(), 4);
            for cell in [(0.5, 0.6), (0.2, 2.0), (30.0, 31.0), (1e-3, 1.1e-3)] {
                let ends = (cell.0.into(), cell.1.into());
                let shifts = shifted.shifts(ends);
                let moments = shifted.moments(ends, &shifts);
                for (at, exponents) in shifted.exponents.iter().enumerate() {
                    let f = |x: f64| {
                        let factors = statistics.iter().zip(&shifts).zip(exponents);
                        factors.map(|((f, shift), &n)| (f.value(x) - shift).powi(n.into())).product::<f64>()
                    };
                    let width = cell.1 - cell.0;
                    let theirs = numerically(f, cell.0, cell.1) / width;
                    let size = numerically(|x| f(x).abs(), cell.0, cell.1) / width;
                    let ours = moments[at];
                    let distance = (ours.value.value() - theirs).abs();
                    assert!(distance <= ours.error + 1e-9 * size, "{statistics:?} {cell:?} {exponents:?}");
                    assert!(
                        ours.error <= 1e-9 * size.max(1e-12),
                        "{statistics:?} {cell:?} {exponents:?} {}",
                        ours.error
                    );
                }
            }
        }
    }
}
