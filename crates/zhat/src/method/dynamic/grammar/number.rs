//! The numbers of a chart: one dynamic program, six kinds of numbers.
//!
//! With `f32` and `f64` it sums weights by matrix products. [`Wide`] does the same where weights exceed their
//! range, [`Dual`] adds the derivative in one direction, and [`Max`] finds the score of the best tree.

use super::kernels::{Absolute, AddDots, AddProducts, AddScaled, Dot, ScaleEach, SpreadDots, exp_scores};
use super::source::Plain;
use crate::numeric::simd;
use crate::numeric::{Matrix, Real, Small, SmallProduct, multiply, multiply_here, multiply_rows};

/// A number of a commutative semiring.
pub trait Number: Copy + Send + Sync + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
    /// The mass that a product or a sum may lose by underflow; 0 if none.
    const TINY: f64;
    /// Half of this is the relative error of an operation.
    const EPSILON: f64;
    /// ln of the smallest product that loses nothing by underflow.
    const LEAST: f64;

    /// a + b.
    fn plus(self, other: Self) -> Self;
    /// a·b.
    fn times(self, other: Self) -> Self;
    /// a / b; b is not zero.
    fn over(self, other: Self) -> Self;
    /// a / b for a constant b, whose derivative does not count.
    #[inline(always)]
    fn over_constant(self, other: Self) -> Self {
        self.over(other)
    }
    /// True if a > b, for numbers that are not negative.
    fn exceeds(self, other: Self) -> bool;
    /// exp(log) with this derivative of the logarithm, which numbers without derivatives ignore.
    fn exp(log: f64, slope: f64) -> Self;
    /// ln of a number that is not negative.
    fn ln(self) -> f64;
    /// The number as a double; it may underflow or overflow.
    fn to_f64(self) -> f64;
    /// A double, of any sign.
    fn from_f64(x: f64) -> Self;
    /// What is asked for, as a double: the derivative of a dual number, otherwise the number.
    #[inline(always)]
    fn result(self) -> f64 {
        self.to_f64()
    }
    /// The derivative of its logarithm; 0 for numbers without derivatives.
    fn log_slope(self) -> f64 {
        0.0
    }
    /// True for zero.
    fn is_zero(self) -> bool;

    /// C ← A·B, or C ← C + A·B, in all threads if `parallel`.
    fn multiply(a: Matrix<Self>, b: Matrix<Self>, c: &mut [Self], accumulate: bool, parallel: bool) {
        let _ = parallel;
        plain_product(a, b, c, accumulate);
    }

    /// The same into rows that begin at multiples of `stride`.
    fn multiply_rows(
        a: Matrix<Self>,
        b: Matrix<Self>,
        (c, stride): (&mut [Self], usize),
        accumulate: bool,
        parallel: bool,
    ) {
        let mut product = vec![Self::ZERO; a.rows() * b.columns_count()];
        Self::multiply(a, b, &mut product, false, parallel);
        for (row, own) in c.chunks_mut(stride).zip(product.chunks_exact(b.columns_count().max(1))) {
            for (to, &x) in row.iter_mut().zip(own) {
                *to = if accumulate { to.plus(x) } else { x };
            }
        }
    }

    /// outᵢ ← exp(scoresᵢ − top) for scores of the same precision, with the largest score and the smallest
    /// finite one, minus the largest; `None` for other numbers. If there are only zeros, both are 0.
    ///
    /// A difference of two scores is rounded once, as it would be if it were computed in double precision.
    fn exp_scores(scores: Plain<'_>, out: &mut [Self]) -> Option<(f64, f64)> {
        let _ = (scores, out);
        None
    }

    /// outᵢ ← exp(logsᵢ).
    fn exp_row(logs: &[f64], out: &mut [Self]) {
        for (out, &log) in out.iter_mut().zip(logs) {
            *out = Self::exp(log, 0.0);
        }
    }

    /// exp(logsᵢ), each rounded once.
    fn exp_each(logs: &mut [f64]) -> Vec<Self> {
        logs.iter().map(|&log| Self::exp(log, 0.0)).collect()
    }

    /// C ← A·B, or C ← C + A·B, for small matrices with padded rows.
    fn small_product(task: SmallProduct<'_, Self>) {
        for r in 0..task.rows {
            let c = &mut task.c[r * task.c_stride..r * task.c_stride + task.width];
            if !task.accumulate {
                c.fill(Self::ZERO);
            }
            for k in 0..task.inner {
                let b = &task.b[k * task.b_stride..k * task.b_stride + task.width];
                Self::add_scaled(c, task.a[r * task.row_stride + k * task.inner_stride], b);
            }
        }
    }

    /// ln of the smallest number that is not 0; ∞ if all are.
    fn least(row: &[Self]) -> f64 {
        let smaller = |least: f64, x: &Self| if x.is_zero() { least } else { least.min(x.ln()) };
        row.iter().fold(f64::INFINITY, smaller)
    }

    /// Σᵢ |xᵢ|, up to rounding.
    fn absolute(row: &[Self]) -> f64 {
        row.iter().map(|x| x.to_f64().abs()).sum()
    }

    /// outᵢ ← outᵢ + factor·aᵢ·bᵢ.
    fn add_products(out: &mut [Self], factor: Self, a: &[Self], b: &[Self]) {
        for ((out, &a), &b) in out.iter_mut().zip(a).zip(b) {
            *out = out.plus(factor.times(a).times(b));
        }
    }

    /// outᵢ ← outᵢ·aᵢ.
    fn scale_each(out: &mut [Self], a: &[Self]) {
        out.iter_mut().zip(a).for_each(|(out, &a)| *out = out.times(a));
    }

    /// outᵢ ← outᵢ + factor·aᵢ.
    fn add_scaled(out: &mut [Self], factor: Self, a: &[Self]) {
        for (out, &a) in out.iter_mut().zip(a) {
            *out = out.plus(factor.times(a));
        }
    }

    /// outₖ ← outₖ + factor·Σᵢ tableₖᵢ·xᵢ, for a table with one row per number of `out`, which begin at multiples
    /// of `stride`.
    fn add_dots(out: &mut [Self], factor: Self, (table, stride): (&[Self], usize), x: &[Self]) {
        for (out, row) in out.iter_mut().zip(table.chunks(stride)) {
            *out = out.plus(factor.times(Self::dot(&row[..x.len()], x)));
        }
    }

    /// The derivatives of [`Number::add_dots`]: toᵢ ← toᵢ + factor·Σₖ gₖ·tableₖᵢ, and derivativeₖᵢ ←
    /// derivativeₖᵢ + factor·gₖ·xᵢ.
    fn spread_dots(
        (to, derivative): (&mut [Self], &mut [Self]),
        factor: Self,
        g: &[Self],
        (table, stride): (&[Self], usize),
        x: &[Self],
    ) {
        for ((&g, row), derivative) in g.iter().zip(table.chunks(stride)).zip(derivative.chunks_mut(stride)) {
            let g = g.times(factor);
            Self::add_scaled(to, g, &row[..x.len()]);
            Self::add_scaled(&mut derivative[..x.len()], g, x);
        }
    }

    /// Σᵢ aᵢ·bᵢ.
    fn dot(a: &[Self], b: &[Self]) -> Self {
        a.iter().zip(b).fold(Self::ZERO, |sum, (&a, &b)| sum.plus(a.times(b)))
    }
}

/// The product by its definition, row by row of B.
fn plain_product<G: Number>(a: Matrix<G>, b: Matrix<G>, c: &mut [G], accumulate: bool) {
    let (rows, columns, inner) = (a.rows(), b.columns_count(), a.columns_count());
    if !accumulate {
        c.fill(G::ZERO);
    }
    for i in 0..rows {
        let row = &mut c[i * columns..(i + 1) * columns];
        for k in 0..inner {
            let factor = a.at(i, k);
            if factor.is_zero() {
                continue;
            }
            for (j, out) in row.iter_mut().enumerate() {
                *out = out.plus(factor.times(b.at(k, j)));
            }
        }
    }
}

macro_rules! float {
    ($float:ty, $plain:ident) => {
        impl Number for $float {
            const ZERO: Self = 0.0;
            const ONE: Self = 1.0;
            const TINY: f64 = <$float>::MIN_POSITIVE as f64;
            const EPSILON: f64 = <$float>::EPSILON as f64;
            const LEAST: f64 = (<$float>::MIN_EXP as f64 - 1.0) * std::f64::consts::LN_2;

            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self + other
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self * other
            }
            #[inline(always)]
            fn over(self, other: Self) -> Self {
                self / other
            }
            #[inline(always)]
            fn exceeds(self, other: Self) -> bool {
                self > other
            }
            #[inline(always)]
            fn exp(log: f64, _: f64) -> Self {
                log.exp() as $float
            }
            #[inline(always)]
            fn ln(self) -> f64 {
                f64::from(self).ln()
            }
            #[inline(always)]
            fn to_f64(self) -> f64 {
                self.into()
            }
            #[inline(always)]
            fn from_f64(x: f64) -> Self {
                x as $float
            }
            #[inline(always)]
            fn is_zero(self) -> bool {
                self == 0.0
            }
            fn multiply(a: Matrix<Self>, b: Matrix<Self>, c: &mut [Self], accumulate: bool, parallel: bool) {
                if parallel { multiply(a, b, c, accumulate) } else { multiply_here(a, b, c, accumulate) }
            }
            fn multiply_rows(
                a: Matrix<Self>,
                b: Matrix<Self>,
                c: (&mut [Self], usize),
                accumulate: bool,
                parallel: bool,
            ) {
                multiply_rows(a, b, c, accumulate, parallel);
            }
            fn exp_scores(scores: Plain<'_>, out: &mut [Self]) -> Option<(f64, f64)> {
                if let Plain::$plain(scores) = scores { Some(exp_scores(scores, out)) } else { None }
            }
            fn exp_row(logs: &[f64], out: &mut [Self]) {
                for (out, &log) in out.iter_mut().zip(logs) {
                    *out = log as $float;
                }
                <$float as Real>::exp_in_place(out);
            }
            fn exp_each(logs: &mut [f64]) -> Vec<Self> {
                <f64 as Real>::exp_in_place(logs);
                logs.iter().map(|&x| x as $float).collect()
            }
            fn small_product(task: SmallProduct<'_, Self>) {
                <$float as Small>::small_product(task);
            }
            fn least(row: &[Self]) -> f64 {
                let smaller = |least: Self, &x: &Self| if x != 0.0 && x < least { x } else { least };
                f64::from(row.iter().fold(Self::INFINITY, smaller)).ln()
            }
            fn absolute(row: &[Self]) -> f64 {
                simd::run(Absolute(row))
            }
            fn add_products(out: &mut [Self], factor: Self, a: &[Self], b: &[Self]) {
                simd::run(AddProducts(out, factor, a, b));
            }
            fn scale_each(out: &mut [Self], a: &[Self]) {
                simd::run(ScaleEach(out, a));
            }
            fn add_scaled(out: &mut [Self], factor: Self, a: &[Self]) {
                simd::run(AddScaled(out, factor, a));
            }
            fn add_dots(out: &mut [Self], factor: Self, (table, stride): (&[Self], usize), x: &[Self]) {
                simd::run(AddDots(out, factor, table, stride, x));
            }
            fn spread_dots(
                (to, derivative): (&mut [Self], &mut [Self]),
                factor: Self,
                g: &[Self],
                (table, stride): (&[Self], usize),
                x: &[Self],
            ) {
                simd::run(SpreadDots(to, derivative, factor, g, table, stride, x));
            }
            fn dot(a: &[Self], b: &[Self]) -> Self {
                simd::run(Dot(a, b))
            }
        }
    };
}

float!(f32, Single);
float!(f64, Double);

/// mantissa·2^(256·exponent): sums and products neither underflow nor overflow. Exponents saturate, at
/// logarithms of about ±10²¹.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    mantissa: f64,
    exponent: i64,
}

/// ln 2²⁵⁶.
const STEP: f64 = 256.0 * std::f64::consts::LN_2;
/// 2²⁵⁶ and 2¹²⁸, the distance and the middle of two exponents.
const UP: f64 = 1.157_920_892_373_162e77;
const MIDDLE: f64 = 3.402_823_669_209_385e38;

impl Wide {
    /// Keeps the mantissa within 2^±128.
    #[inline(always)]
    fn normal(mut mantissa: f64, mut exponent: i64) -> Self {
        if mantissa == 0.0 {
            return Wide::ZERO;
        }
        if mantissa.abs() >= MIDDLE {
            (mantissa, exponent) = (mantissa / UP, exponent.saturating_add(1));
        } else if mantissa.abs() < 1.0 / MIDDLE {
            (mantissa, exponent) = (mantissa * UP, exponent.saturating_sub(1));
        }
        Wide { mantissa, exponent }
    }
}

impl Number for Wide {
    const ZERO: Self = Wide { mantissa: 0.0, exponent: 0 };
    const ONE: Self = Wide { mantissa: 1.0, exponent: 0 };
    const TINY: f64 = 0.0;
    const EPSILON: f64 = f64::EPSILON;
    const LEAST: f64 = f64::NEG_INFINITY;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        if self.mantissa == 0.0 {
            return other;
        }
        if other.mantissa == 0.0 {
            return self;
        }
        // Numbers two steps apart differ by more than 2²⁵⁶.
        match self.exponent.saturating_sub(other.exponent) {
            0 => Wide::normal(self.mantissa + other.mantissa, self.exponent),
            1 => Wide::normal(self.mantissa + other.mantissa / UP, self.exponent),
            -1 => Wide::normal(self.mantissa / UP + other.mantissa, other.exponent),
            difference if difference > 0 => self,
            _ => other,
        }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Wide::normal(self.mantissa * other.mantissa, self.exponent.saturating_add(other.exponent))
    }

    fn over(self, other: Self) -> Self {
        Wide::normal(self.mantissa / other.mantissa, self.exponent.saturating_sub(other.exponent))
    }

    fn exceeds(self, other: Self) -> bool {
        match (self.is_zero(), other.is_zero(), self.exponent.saturating_sub(other.exponent)) {
            (true, _, _) => false,
            (_, true, _) | (_, _, 2..) => true,
            (_, _, difference @ -1..=1) => {
                self.mantissa * (256.0 * difference as f64).exp2() > other.mantissa
            }
            _ => false,
        }
    }

    fn exp(log: f64, _: f64) -> Self {
        if log == f64::NEG_INFINITY {
            return Wide::ZERO;
        }
        let steps = (log / STEP).round();
        // The remainder of a very large number is rounded by more than a step.
        Wide { mantissa: (log - steps * STEP).clamp(-STEP, STEP).exp(), exponent: steps as i64 }
    }

    fn ln(self) -> f64 {
        self.mantissa.ln() + self.exponent as f64 * STEP
    }

    fn to_f64(self) -> f64 {
        match self.exponent {
            0 => self.mantissa,
            // Powers beyond those of a double are infinite or zero.
            exponent => self.mantissa * (exponent as f64 * 256.0).exp2(),
        }
    }

    fn from_f64(x: f64) -> Self {
        Wide::normal(x, 0)
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.mantissa == 0.0
    }
}

/// A number with its derivative in one direction.
#[derive(Clone, Copy, Debug)]
pub struct Dual<G> {
    value: G,
    slope: G,
}

impl<G: Number> Number for Dual<G> {
    const ZERO: Self = Dual { value: G::ZERO, slope: G::ZERO };
    const ONE: Self = Dual { value: G::ONE, slope: G::ZERO };
    const TINY: f64 = G::TINY;
    const EPSILON: f64 = G::EPSILON;
    // A derivative of 2⁻¹⁰⁴ times the value may be lost.
    const LEAST: f64 = G::LEAST + 104.0 * std::f64::consts::LN_2;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        Dual { value: self.value.plus(other.value), slope: self.slope.plus(other.slope) }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        let slope = self.slope.times(other.value).plus(self.value.times(other.slope));
        Dual { value: self.value.times(other.value), slope }
    }

    fn over(self, other: Self) -> Self {
        let value = self.value.over(other.value);
        let minus = value.times(other.slope).times(G::from_f64(-1.0));
        Dual { value, slope: self.slope.plus(minus).over(other.value) }
    }

    fn over_constant(self, other: Self) -> Self {
        Dual { value: self.value.over(other.value), slope: self.slope.over(other.value) }
    }

    fn exceeds(self, other: Self) -> bool {
        self.value.exceeds(other.value)
    }

    fn exp(log: f64, slope: f64) -> Self {
        let value = G::exp(log, 0.0);
        // The direction is that of scores, which are 0 where weights are 0.
        let slope = if value.is_zero() { G::ZERO } else { value.times(G::from_f64(slope)) };
        Dual { value, slope }
    }

    fn ln(self) -> f64 {
        self.value.ln()
    }

    fn to_f64(self) -> f64 {
        self.value.to_f64()
    }

    fn from_f64(x: f64) -> Self {
        Dual { value: G::from_f64(x), slope: G::ZERO }
    }

    fn result(self) -> f64 {
        self.slope.to_f64()
    }

    fn log_slope(self) -> f64 {
        if self.value.is_zero() { 0.0 } else { self.slope.over(self.value).to_f64() }
    }

    #[inline(always)]
    fn is_zero(self) -> bool {
        self.value.is_zero() && self.slope.is_zero()
    }

    /// Three products of values and derivatives.
    fn multiply(a: Matrix<Self>, b: Matrix<Self>, c: &mut [Self], accumulate: bool, parallel: bool) {
        let (rows, inner, columns) = (a.rows(), a.columns_count(), b.columns_count());
        if rows * inner * columns < 4096 {
            return plain_product(a, b, c, accumulate);
        }
        let plane = |matrix: Matrix<Self>, part: fn(Self) -> G| -> Vec<G> {
            let places = (0..matrix.rows()).flat_map(|i| (0..matrix.columns_count()).map(move |j| (i, j)));
            places.map(|(i, j)| part(matrix.at(i, j))).collect()
        };
        let planes =
            [plane(a, |x| x.value), plane(a, |x| x.slope), plane(b, |x| x.value), plane(b, |x| x.slope)];
        let view = |i: usize| match i {
            0 | 1 => Matrix::row_major(&planes[i], rows, inner),
            _ => Matrix::row_major(&planes[i], inner, columns),
        };
        let (mut values, mut slopes) = (vec![G::ZERO; c.len()], vec![G::ZERO; c.len()]);
        G::multiply(view(0), view(2), &mut values, false, parallel);
        G::multiply(view(1), view(2), &mut slopes, false, parallel);
        G::multiply(view(0), view(3), &mut slopes, true, parallel);
        for ((c, value), slope) in c.iter_mut().zip(values).zip(slopes) {
            let own = Dual { value, slope };
            *c = if accumulate { c.plus(own) } else { own };
        }
    }
}

/// A score: the sum of two is the better one, and their product is the sum of the scores.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub struct Max(pub f64);

impl Number for Max {
    const ZERO: Self = Max(f64::NEG_INFINITY);
    const ONE: Self = Max(0.0);
    const TINY: f64 = 0.0;
    const EPSILON: f64 = f64::EPSILON;
    const LEAST: f64 = f64::NEG_INFINITY;

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        if other.0 > self.0 { other } else { self }
    }

    #[inline(always)]
    fn times(self, other: Self) -> Self {
        Max(self.0 + other.0)
    }

    fn over(self, other: Self) -> Self {
        Max(self.0 - other.0)
    }

    fn exceeds(self, other: Self) -> bool {
        self.0 > other.0
    }

    fn exp(log: f64, _: f64) -> Self {
        Max(log)
    }

    fn ln(self) -> f64 {
        self.0
    }

    fn to_f64(self) -> f64 {
        self.0.exp()
    }

    fn from_f64(x: f64) -> Self {
        Max(x.ln())
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
    fn wide_numbers_neither_underflow_nor_overflow() {
        let x = Wide::exp(-3e5, 0.0);
        let y = Wide::exp(2.5e5, 0.0);
        assert!((x.times(y).ln() + 5e4).abs() < 1e-9);
        assert!((x.plus(x).ln() - (-3e5 + 2f64.ln())).abs() < 1e-9);
        assert!((x.plus(y).ln() - 2.5e5).abs() < 1e-9);
        let mut product = Wide::ONE;
        for _ in 0..1000 {
            product = product.times(Wide::from_f64(1e-20));
        }
        assert!((product.ln() - 1000.0 * 1e-20f64.ln()).abs() < 1e-8);
        // Neighbouring exponents.
        for (a, b) in [(100.0f64, 80.0f64), (-88.0, -90.0), (88.0, 89.5), (0.0, -177.0)] {
            let sum = Wide::exp(a, 0.0).plus(Wide::exp(b, 0.0)).ln();
            assert!((sum - (a + (b - a).exp().ln_1p())).abs() < 1e-12, "{a} {b}");
        }
        let minus = Wide::from_f64(-2.5).times(Wide::from_f64(2.0)).plus(Wide::from_f64(1.0));
        assert_eq!(minus.to_f64(), -4.0);
        assert!(Wide::from_f64(1.0).plus(Wide::from_f64(-1.0)).is_zero());
        assert_eq!(Wide::exp(f64::NEG_INFINITY, 0.0).ln(), f64::NEG_INFINITY);
    }

    /// The smallest float, which callers use in place of −∞, stays smaller than other numbers.
    #[test]
    fn exponents_saturate() {
        for log in [f64::from(f32::MIN), f64::MIN, -1e300] {
            let (tiny, huge) = (Wide::exp(log, 0.0), Wide::exp(-log, 0.0));
            let other = Wide::exp(-1e9, 0.0);
            assert!(
                other.exceeds(tiny) && other.exceeds(tiny.times(tiny)) && huge.times(huge).exceeds(other)
            );
            assert_eq!(tiny.times(other).plus(other).ln(), other.ln());
            assert!(tiny.ln() < -1e20 && huge.ln() > 1e20 && tiny.to_f64() == 0.0);
        }
    }

    #[test]
    fn products_of_dual_numbers_follow_the_product_rule() {
        let numbers = |seed: usize, count: usize| -> Vec<Dual<f64>> {
            let x = |i: usize| ((seed + 7 * i) as f64).sin();
            (0..count).map(|i| Dual { value: x(i), slope: x(3 * i + 1) }).collect()
        };
        let (a, b) = (numbers(1, 20 * 15), numbers(2, 15 * 18));
        let (mut fast, mut slow) = (numbers(3, 20 * 18), numbers(3, 20 * 18));
        let (left, right) = (Matrix::row_major(&a, 20, 15), Matrix::row_major(&b, 15, 18));
        Dual::multiply(left, right, &mut fast, true, false);
        plain_product(left, right, &mut slow, true);
        for (x, y) in fast.iter().zip(&slow) {
            assert!((x.value - y.value).abs() < 1e-12 && (x.slope - y.slope).abs() < 1e-12);
        }
    }
}
