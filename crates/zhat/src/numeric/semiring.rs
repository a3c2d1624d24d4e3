//! Semirings: one dynamic program answers a query for each of them.
//!
//! A sum over structures of products of weights becomes log Z, its derivative in a direction, or the score of
//! the best structure if the sum and the product are those of another semiring (J. Goodman, *Semiring
//! parsing*, Computational Linguistics 25, 1999). Values are vectors of [`LANES`] numbers, one for each of
//! several sentences, so that every operation is one instruction.

use super::elementary::double::{exp_one, larger, ln_one, multiply_add};

/// The number of sentences that are worked on together.
pub(crate) const LANES: usize = 8;

/// One number for each of [`LANES`] sentences.
pub(crate) type Lane = [f64; LANES];

/// A commutative semiring on vectors of numbers.
pub(crate) trait Semiring: Copy + Send + Sync {
    /// Its values.
    type Value: Copy + Send + Sync;
    /// The neutral element of the sum.
    const ZERO: Self::Value;
    /// The neutral element of the product.
    const ONE: Self::Value;

    /// a·b.
    fn times<const FMA: bool>(a: Self::Value, b: Self::Value) -> Self::Value;
    /// a + b.
    fn plus<const FMA: bool>(a: Self::Value, b: Self::Value) -> Self::Value;
    /// Σ_k a_k·b_k.
    fn dot<const FMA: bool>(a: &[Self::Value], b: &[Self::Value]) -> Self::Value;

    /// `to` with one lane taken from `from`.
    fn put(to: Self::Value, lane: usize, from: Self::Value) -> Self::Value;

    /// outₖ ← outₖ + g·bₖ.
    #[inline(always)]
    fn add_scaled<const FMA: bool>(g: Self::Value, b: &[Self::Value], out: &mut [Self::Value]) {
        for (out, &b) in out.iter_mut().zip(b) {
            *out = Self::plus::<FMA>(*out, Self::times::<FMA>(g, b));
        }
    }
}

/// A lane computed element by element.
#[inline(always)]
fn each(f: impl Fn(usize) -> f64) -> Lane {
    let mut lane = [0.0; LANES];
    for (i, x) in lane.iter_mut().enumerate() {
        *x = f(i);
    }
    lane
}

/// Sums of products of positive numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Linear;

impl Semiring for Linear {
    type Value = Lane;
    const ZERO: Lane = [0.0; LANES];
    const ONE: Lane = [1.0; LANES];

    #[inline(always)]
    fn put(mut to: Lane, lane: usize, from: Lane) -> Lane {
        to[lane] = from[lane];
        to
    }

    #[inline(always)]
    fn times<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| a[i] * b[i])
    }

    #[inline(always)]
    fn plus<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn dot<const FMA: bool>(a: &[Lane], b: &[Lane]) -> Lane {
        // Two sums, because a single one waits for the multiplication before.
        let mut sums = [Self::ZERO; 2];
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<2>(), b.as_chunks::<2>());
        for (a, b) in a.iter().zip(b) {
            for ((sum, a), b) in sums.iter_mut().zip(a).zip(b) {
                *sum = each(|i| multiply_add::<FMA>(a[i], b[i], sum[i]));
            }
        }
        for (a, b) in a_rest.iter().zip(b_rest) {
            sums[0] = each(|i| multiply_add::<FMA>(a[i], b[i], sums[0][i]));
        }
        Self::plus::<FMA>(sums[0], sums[1])
    }

    #[inline(always)]
    fn add_scaled<const FMA: bool>(g: Lane, b: &[Lane], out: &mut [Lane]) {
        for (out, b) in out.iter_mut().zip(b) {
            *out = each(|i| multiply_add::<FMA>(g[i], b[i], out[i]));
        }
    }
}

/// The same in the log domain: nothing underflows, at the cost of one exponential per term.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Log;

/// x if it is finite, otherwise 0: a shift that keeps −∞.
#[inline(always)]
fn shift(x: f64) -> f64 {
    if x > f64::NEG_INFINITY { x } else { 0.0 }
}

impl Semiring for Log {
    type Value = Lane;
    const ZERO: Lane = [f64::NEG_INFINITY; LANES];
    const ONE: Lane = [0.0; LANES];

    #[inline(always)]
    fn put(mut to: Lane, lane: usize, from: Lane) -> Lane {
        to[lane] = from[lane];
        to
    }

    #[inline(always)]
    fn times<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn plus<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| {
            let top = shift(larger(a[i], b[i]));
            top + ln_one::<FMA>(exp_one::<FMA>(a[i] - top) + exp_one::<FMA>(b[i] - top))
        })
    }

    #[inline(always)]
    fn dot<const FMA: bool>(a: &[Lane], b: &[Lane]) -> Lane {
        let mut top = Self::ZERO;
        for (a, b) in a.iter().zip(b) {
            top = each(|i| larger(a[i] + b[i], top[i]));
        }
        let top = each(|i| shift(top[i]));
        let mut sum = [0.0; LANES];
        for (a, b) in a.iter().zip(b) {
            sum = each(|i| sum[i] + exp_one::<FMA>(a[i] + b[i] - top[i]));
        }
        each(|i| top[i] + ln_one::<FMA>(sum[i]))
    }
}

/// The best score: the sum is the maximum and the product the sum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Best;

impl Semiring for Best {
    type Value = Lane;
    const ZERO: Lane = [f64::NEG_INFINITY; LANES];
    const ONE: Lane = [0.0; LANES];

    #[inline(always)]
    fn put(mut to: Lane, lane: usize, from: Lane) -> Lane {
        to[lane] = from[lane];
        to
    }

    #[inline(always)]
    fn times<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| a[i] + b[i])
    }

    #[inline(always)]
    fn plus<const FMA: bool>(a: Lane, b: Lane) -> Lane {
        each(|i| larger(a[i], b[i]))
    }

    #[inline(always)]
    fn dot<const FMA: bool>(a: &[Lane], b: &[Lane]) -> Lane {
        let mut top = Self::ZERO;
        for (a, b) in a.iter().zip(b) {
            top = each(|i| larger(a[i] + b[i], top[i]));
        }
        top
    }
}

/// The values of a semiring with their derivatives in one direction. The second lane is the derivative of the
/// value ([`Linear`]) or of its logarithm ([`Log`]).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dual<S>(S);

impl Semiring for Dual<Linear> {
    type Value = [Lane; 2];
    const ZERO: [Lane; 2] = [[0.0; LANES]; 2];
    const ONE: [Lane; 2] = [[1.0; LANES], [0.0; LANES]];

    #[inline(always)]
    fn put(to: [Lane; 2], lane: usize, from: [Lane; 2]) -> [Lane; 2] {
        [Linear::put(to[0], lane, from[0]), Linear::put(to[1], lane, from[1])]
    }

    #[inline(always)]
    fn times<const FMA: bool>(a: [Lane; 2], b: [Lane; 2]) -> [Lane; 2] {
        [each(|i| a[0][i] * b[0][i]), each(|i| multiply_add::<FMA>(a[0][i], b[1][i], a[1][i] * b[0][i]))]
    }

    #[inline(always)]
    fn plus<const FMA: bool>(a: [Lane; 2], b: [Lane; 2]) -> [Lane; 2] {
        [each(|i| a[0][i] + b[0][i]), each(|i| a[1][i] + b[1][i])]
    }

    #[inline(always)]
    fn dot<const FMA: bool>(a: &[[Lane; 2]], b: &[[Lane; 2]]) -> [Lane; 2] {
        let mut sum = Self::ZERO;
        for (&a, &b) in a.iter().zip(b) {
            sum = Self::plus::<FMA>(sum, Self::times::<FMA>(a, b));
        }
        sum
    }
}

impl Semiring for Dual<Log> {
    type Value = [Lane; 2];
    const ZERO: [Lane; 2] = [[f64::NEG_INFINITY; LANES], [0.0; LANES]];
    const ONE: [Lane; 2] = [[0.0; LANES]; 2];

    #[inline(always)]
    fn put(to: [Lane; 2], lane: usize, from: [Lane; 2]) -> [Lane; 2] {
        [Linear::put(to[0], lane, from[0]), Linear::put(to[1], lane, from[1])]
    }

    #[inline(always)]
    fn times<const FMA: bool>(a: [Lane; 2], b: [Lane; 2]) -> [Lane; 2] {
        [each(|i| a[0][i] + b[0][i]), each(|i| a[1][i] + b[1][i])]
    }

    #[inline(always)]
    fn plus<const FMA: bool>(a: [Lane; 2], b: [Lane; 2]) -> [Lane; 2] {
        Self::dot::<FMA>(&[a, b], &[Self::ONE; 2])
    }

    /// The derivative of the logarithm of a sum is the mean of the terms' derivatives, weighted by the terms.
    #[inline(always)]
    fn dot<const FMA: bool>(a: &[[Lane; 2]], b: &[[Lane; 2]]) -> [Lane; 2] {
        let mut top = Self::ZERO[0];
        for (a, b) in a.iter().zip(b) {
            top = each(|i| larger(a[0][i] + b[0][i], top[i]));
        }
        let top = each(|i| shift(top[i]));
        let (mut sum, mut mean) = ([0.0; LANES], [0.0; LANES]);
        for (a, b) in a.iter().zip(b) {
            let term = each(|i| exp_one::<FMA>(a[0][i] + b[0][i] - top[i]));
            sum = each(|i| sum[i] + term[i]);
            mean = each(|i| multiply_add::<FMA>(term[i], a[1][i] + b[1][i], mean[i]));
        }
        let value = each(|i| top[i] + ln_one::<FMA>(sum[i]));
        [value, each(|i| if sum[i] > 0.0 { mean[i] / sum[i] } else { 0.0 })]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    fn lanes(random: &mut crate::random::Stream, zeros: f64) -> Lane {
        std::array::from_fn(|_| if random.uniform() < zeros { 0.0 } else { random.uniform() + 0.1 })
    }

    #[test]
    fn logarithms_agree_with_numbers() {
        let mut random = Streams::new(1, "semiring tests").block(0);
        for count in 0..9 {
            let (a, b): (Vec<Lane>, Vec<Lane>) =
                (0..count).map(|_| (lanes(&mut random, 0.4), lanes(&mut random, 0.4))).unzip();
            let ln = |lane: &Lane| lane.map(f64::ln);
            let (la, lb): (Vec<Lane>, Vec<Lane>) = (a.iter().map(ln).collect(), b.iter().map(ln).collect());
            let (linear, log) = (Linear::dot::<false>(&a, &b), Log::dot::<false>(&la, &lb));
            let best = Best::dot::<false>(&la, &lb);
            for i in 0..LANES {
                let sum: f64 = a.iter().zip(&b).map(|(a, b)| a[i] * b[i]).sum();
                let top = a.iter().zip(&b).map(|(a, b)| (a[i] * b[i]).ln()).fold(f64::NEG_INFINITY, f64::max);
                assert!((linear[i] - sum).abs() < 1e-14 && (log[i].exp() - sum).abs() < 1e-13);
                assert!(best[i] == top || (best[i] - top).abs() < 1e-14);
            }
        }
    }

    #[test]
    fn derivatives_agree_with_differences() {
        let mut random = Streams::new(2, "semiring tests").block(0);
        let pairs = |random: &mut crate::random::Stream| -> Vec<[Lane; 2]> {
            (0..5).map(|_| [lanes(random, 0.3), std::array::from_fn(|_| random.normal())]).collect()
        };
        let (a, b) = (pairs(&mut random), pairs(&mut random));
        let moved = |x: &[[Lane; 2]], by: f64| -> Vec<Lane> {
            x.iter().map(|x| std::array::from_fn(|i| x[0][i] + by * x[1][i])).collect()
        };
        let dual = Dual::<Linear>::dot::<false>(&a, &b);
        let logs = |x: &[[Lane; 2]]| -> Vec<[Lane; 2]> {
            let ratio = |x: &[Lane; 2], i: usize| if x[0][i] > 0.0 { x[1][i] / x[0][i] } else { 0.0 };
            x.iter().map(|x| [x[0].map(f64::ln), std::array::from_fn(|i| ratio(x, i))]).collect()
        };
        let (la, lb) = (logs(&a), logs(&b));
        let log = Dual::<Log>::dot::<false>(&la, &lb);
        let h = 1e-6;
        let (up, down) = (
            Linear::dot::<false>(&moved(&a, h), &moved(&b, h)),
            Linear::dot::<false>(&moved(&a, -h), &moved(&b, -h)),
        );
        for i in 0..LANES {
            assert!(((up[i] - down[i]) / (2.0 * h) - dual[1][i]).abs() < 1e-8);
            // In the log domain a weight of zero stays zero, so its direction does not count.
            let positive = |k: usize| a[k][0][i] > 0.0 && b[k][0][i] > 0.0;
            let expected: f64 = (0..5)
                .filter(|&k| positive(k))
                .map(|k| a[k][0][i] * b[k][1][i] + a[k][1][i] * b[k][0][i])
                .sum();
            let found = log[1][i] * log[0][i].exp();
            assert!((found - expected).abs() < 1e-12);
        }
    }
}
