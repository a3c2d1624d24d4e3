//! The loops over rows of single- and double-precision numbers, compiled for each set of vector instructions.

use crate::numeric::Real;
use crate::numeric::simd::{self, Kernel};

/// outᵢ ← outᵢ + factor·aᵢ·bᵢ.
pub struct AddProducts<'a, F>(pub &'a mut [F], pub F, pub &'a [F], pub &'a [F]);

impl<F: Real> Kernel for AddProducts<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddProducts(out, factor, a, b) = self;
        let n = out.len().min(a.len()).min(b.len());
        let (out, a, b) = (&mut out[..n], &a[..n], &b[..n]);
        for i in 0..n {
            out[i] = F::multiply_add::<FMA>(factor * a[i], b[i], out[i]);
        }
    }
}

/// outᵢ ← outᵢ·aᵢ.
pub struct ScaleEach<'a, F>(pub &'a mut [F], pub &'a [F]);

impl<F: Real> Kernel for ScaleEach<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let ScaleEach(out, a) = self;
        let n = out.len().min(a.len());
        let (out, a) = (&mut out[..n], &a[..n]);
        for i in 0..n {
            out[i] *= a[i];
        }
    }
}

/// outᵢ ← outᵢ + factor·aᵢ.
pub struct AddScaled<'a, F>(pub &'a mut [F], pub F, pub &'a [F]);

impl<F: Real> Kernel for AddScaled<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddScaled(out, factor, a) = self;
        let n = out.len().min(a.len());
        let (out, a) = (&mut out[..n], &a[..n]);
        for i in 0..n {
            out[i] = F::multiply_add::<FMA>(factor, a[i], out[i]);
        }
    }
}

/// Σᵢ aᵢ·bᵢ.
pub struct Dot<'a, F>(pub &'a [F], pub &'a [F]);

impl<F: Real> Kernel for Dot<'_, F> {
    type Output = F;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> F {
        dot::<F, FMA>(self.0, self.1)
    }
}

#[inline(always)]
fn dot<F: Real, const FMA: bool>(a: &[F], b: &[F]) -> F {
    const SUMS: usize = 16;
    let mut sums = [F::ZERO; SUMS];
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<SUMS>(), b.as_chunks::<SUMS>());
    for at in 0..a.len().min(b.len()) {
        for i in 0..SUMS {
            sums[i] = F::multiply_add::<FMA>(a[at][i], b[at][i], sums[i]);
        }
    }
    let rest = a_rest.len().min(b_rest.len());
    for i in 0..rest {
        sums[i] = F::multiply_add::<FMA>(a_rest[i], b_rest[i], sums[i]);
    }
    let mut width = SUMS / 2;
    while width > 0 {
        for i in 0..width {
            let other = sums[i + width];
            sums[i] += other;
        }
        width /= 2;
    }
    sums[0]
}

/// The largest number, and the smallest one above −∞, or ∞.
pub struct Range<'a, F>(pub &'a [F]);

impl<F: Real> Kernel for Range<'_, F> {
    type Output = (F, F);

    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn run<const FMA: bool>(self) -> (F, F) {
        const LANES: usize = 32;
        let infinity = -F::NEG_INFINITY;
        let (mut high, mut low) = ([F::NEG_INFINITY; LANES], [infinity; LANES]);
        let finite = |x: F| if x > F::NEG_INFINITY { x } else { infinity };
        let (chunks, rest) = self.0.as_chunks::<LANES>();
        for at in 0..chunks.len() {
            for i in 0..LANES {
                let x = chunks[at][i];
                high[i] = if x > high[i] { x } else { high[i] };
                low[i] = if finite(x) < low[i] { finite(x) } else { low[i] };
            }
        }
        for i in 0..rest.len() {
            let x = rest[i];
            high[i] = if x > high[i] { x } else { high[i] };
            low[i] = if finite(x) < low[i] { finite(x) } else { low[i] };
        }
        for i in 1..LANES {
            high[0] = if high[i] > high[0] { high[i] } else { high[0] };
            low[0] = if low[i] < low[0] { low[i] } else { low[0] };
        }
        (high[0], low[0])
    }
}

/// outᵢ ← xᵢ − shift.
pub struct Shift<'a, F>(pub &'a [F], pub F, pub &'a mut [F]);

impl<F: Real> Kernel for Shift<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Shift(x, shift, out) = self;
        let n = out.len().min(x.len());
        let (x, out) = (&x[..n], &mut out[..n]);
        for i in 0..n {
            out[i] = x[i] - shift;
        }
    }
}

/// outᵢ ← exp(xᵢ − top), with the largest score and the smallest finite one, minus the largest.
pub fn exp_scores<F: Real>(scores: &[F], out: &mut [F]) -> (f64, f64) {
    let (top, least) = simd::run(Range(scores));
    if top == F::NEG_INFINITY {
        out.fill(F::ZERO);
        return (0.0, 0.0);
    }
    simd::run(Shift(scores, top, out));
    F::exp_in_place(out);
    (top.to_f64(), least.to_f64() - top.to_f64())
}

/// outₖ ← outₖ + factor·Σᵢ tableₖᵢ·xᵢ, for rows of a table that begin at multiples of a number.
pub struct AddDots<'a, F>(pub &'a mut [F], pub F, pub &'a [F], pub usize, pub &'a [F]);

impl<F: Real> Kernel for AddDots<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let AddDots(out, factor, table, stride, x) = self;
        for k in 0..out.len() {
            out[k] += factor * dot::<F, FMA>(&table[k * stride..k * stride + x.len()], x);
        }
    }
}

/// Σᵢ |xᵢ|.
pub struct Absolute<'a, F>(pub &'a [F]);

impl<F: Real> Kernel for Absolute<'_, F> {
    type Output = f64;

    // Iterators are not inlined into functions with more instructions.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn run<const FMA: bool>(self) -> f64 {
        const SUMS: usize = 32;
        let absolute = |x: F| if x < F::ZERO { -x } else { x };
        let mut total = 0.0;
        // Short blocks, so that the rounding of single precision stays small.
        let mut first = 0;
        while first < self.0.len() {
            let next = if self.0.len() - first < 64 * SUMS { self.0.len() } else { first + 64 * SUMS };
            let mut sums = [F::ZERO; SUMS];
            let (chunks, rest) = self.0[first..next].as_chunks::<SUMS>();
            first = next;
            for at in 0..chunks.len() {
                for i in 0..SUMS {
                    sums[i] += absolute(chunks[at][i]);
                }
            }
            for i in 0..rest.len() {
                sums[i] += absolute(rest[i]);
            }
            let mut sum = F::ZERO;
            for i in 0..SUMS {
                sum += sums[i];
            }
            total += sum.to_f64();
        }
        total
    }
}

/// The derivatives of [`AddDots`].
pub struct SpreadDots<'a, F>(
    pub &'a mut [F],
    pub &'a mut [F],
    pub F,
    pub &'a [F],
    pub &'a [F],
    pub usize,
    pub &'a [F],
);

impl<F: Real> Kernel for SpreadDots<'_, F> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let SpreadDots(to, derivative, factor, g, table, stride, x) = self;
        let size = x.len();
        let to = &mut to[..size];
        for (k, &g) in g.iter().enumerate() {
            let (g, row) = (g * factor, &table[k * stride..k * stride + size]);
            let derivative = &mut derivative[k * stride..k * stride + size];
            for i in 0..size {
                to[i] = F::multiply_add::<FMA>(g, row[i], to[i]);
                derivative[i] = F::multiply_add::<FMA>(g, x[i], derivative[i]);
            }
        }
    }
}
