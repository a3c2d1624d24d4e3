//! Forward and backward sums of one sentence with tags in vector registers.
//!
//! With weights eₜ(j) of tags and T(i, j) of pairs, α₀ = e₀/c₀, αₜ = eₜ∘(Tᵀαₜ₋₁)/cₜ, where cₜ makes Σαₜ = 1, and
//! βₜ₋₁ = T·bₜ with bₜ = eₜ∘βₜ/cₜ. Then log Z = Σ ln cₜ, p(yₜ) = αₜ∘βₜ, and Σₜ p(yₜ₋₁ = i, yₜ = j) = T(i, j)·Σₜ
//! αₜ₋₁(i)·bₜ(j): a sum of products of vectors, which stays in registers while t runs. 3·L·N² multiplications
//! and additions. If numbers become too small or too large, there is no result, and [`super::lattice`] is used.

// The compiler unrolls counted loops over arrays of registers.
#![allow(clippy::needless_range_loop)]

use super::design::LANES;
use crate::numeric::simd::{self, Kernel};

pub(super) type Lane = [f64; LANES];

/// Scales below this are treated as underflow.
const SMALL: f64 = 1e-200;
/// Messages above this are treated as overflow.
const LARGE: f64 = 1e200;

/// The arrays of a sentence; `width` is a multiple of the lanes.
pub(super) struct Sweep<'a> {
    pub length: usize,
    pub tags: usize,
    pub width: usize,
    /// T, tags × width; columns beyond the tags are 0.
    pub forward: &'a [f64],
    /// T transposed, tags × width.
    pub backward: &'a [f64],
    /// e, length × width; 0 beyond the tags.
    pub weights: &'a [f64],
    /// α, length × width.
    pub alpha: &'a mut [f64],
    /// b, length × width.
    pub beta: &'a mut [f64],
    /// p(yₜ), length × width.
    pub marginals: &'a mut [f64],
    /// Σₜ αₜ₋₁(i)·bₜ(j) is added, width × width.
    pub pairs: &'a mut [f64],
}

/// The sweep for rows of V vectors; V = 0 is any number.
struct Sized<'a, const V: usize>(Sweep<'a>);

/// Σ ln cₜ, or `None` if the sums are out of range.
pub(super) fn sweep(task: Sweep<'_>) -> Option<f64> {
    debug_assert!(task.width.is_multiple_of(LANES) && task.weights.len() == task.length * task.width);
    match task.width / LANES {
        1 => simd::run(Sized::<1>(task)),
        2 => simd::run(Sized::<2>(task)),
        3 => simd::run(Sized::<3>(task)),
        4 => simd::run(Sized::<4>(task)),
        5 => simd::run(Sized::<5>(task)),
        6 => simd::run(Sized::<6>(task)),
        7 => simd::run(Sized::<7>(task)),
        _ => simd::run(Sized::<0>(task)),
    }
}

#[inline(always)]
pub(super) fn multiply_add<const FMA: bool>(a: f64, b: f64, c: f64) -> f64 {
    if FMA { a.mul_add(b, c) } else { a * b + c }
}

/// sum + x·row, by value, so that the compiler keeps the vectors in registers.
#[inline(always)]
pub(super) fn add_scaled<const FMA: bool, const V: usize>(
    mut sum: [Lane; V],
    x: f64,
    row: &[Lane; V],
) -> [Lane; V] {
    for v in 0..V {
        for l in 0..LANES {
            sum[v][l] = multiply_add::<FMA>(x, row[v][l], sum[v][l]);
        }
    }
    sum
}

/// x·M for rows of V vectors, in two independent sums.
#[inline(always)]
fn product<const FMA: bool, const V: usize>(x: &[f64], rows: &[Lane]) -> [Lane; V] {
    let rows = rows.as_chunks::<V>().0;
    let (mut even, mut odd) = ([[0.0; LANES]; V], [[0.0; LANES]; V]);
    let (two, last) = x.as_chunks::<2>();
    for (x, row) in two.iter().zip(rows.as_chunks::<2>().0) {
        even = add_scaled::<FMA, V>(even, x[0], &row[0]);
        odd = add_scaled::<FMA, V>(odd, x[1], &row[1]);
    }
    if let [x] = last {
        even = add_scaled::<FMA, V>(even, *x, &rows[2 * two.len()]);
    }
    for v in 0..V {
        for l in 0..LANES {
            even[v][l] += odd[v][l];
        }
    }
    even
}

/// The same for any number of vectors, into `out`.
#[inline(always)]
fn product_into<const FMA: bool, const V: usize>(x: &[f64], rows: &[Lane], out: &mut [Lane]) {
    if V > 0 {
        out.copy_from_slice(&product::<FMA, V>(x, rows));
        return;
    }
    let vectors = out.len();
    out.fill([0.0; LANES]);
    for (&x, row) in x.iter().zip(rows.chunks_exact(vectors)) {
        for (sum, row) in out.iter_mut().zip(row) {
            for l in 0..LANES {
                sum[l] = multiply_add::<FMA>(x, row[l], sum[l]);
            }
        }
    }
}

/// The sum of all numbers, in a fixed order.
#[inline(always)]
fn total(row: &[Lane]) -> f64 {
    let mut sum = [0.0; LANES];
    for lane in row {
        for l in 0..LANES {
            sum[l] += lane[l];
        }
    }
    ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))
}

#[inline(always)]
fn largest(row: &[Lane]) -> f64 {
    let mut most = [0.0; LANES];
    for lane in row {
        for l in 0..LANES {
            // A NaN is kept: every comparison with it is false.
            most[l] = if lane[l] <= most[l] { most[l] } else { lane[l] };
        }
    }
    most.iter().fold(0.0, |a: f64, &b| if b <= a { a } else { b })
}

impl<const V: usize> Kernel for Sized<'_, V> {
    type Output = Option<f64>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Option<f64> {
        let Sweep { length, tags, width, .. } = self.0;
        let vectors = if V == 0 { width / LANES } else { V };
        let forward = self.0.forward.as_chunks::<LANES>().0;
        let backward = self.0.backward.as_chunks::<LANES>().0;
        let weights = self.0.weights.as_chunks::<LANES>().0;
        let alpha = self.0.alpha.as_chunks_mut::<LANES>().0;
        let beta = self.0.beta.as_chunks_mut::<LANES>().0;
        let marginals = self.0.marginals.as_chunks_mut::<LANES>().0;
        let pairs = self.0.pairs.as_chunks_mut::<LANES>().0;
        let mut log_sum = 0.0;
        for t in 0..length {
            let (before, now) = alpha.split_at_mut(t * vectors);
            let now = &mut now[..vectors];
            let own = &weights[t * vectors..][..vectors];
            if t == 0 {
                now.copy_from_slice(own);
            } else {
                let x = &before[(t - 1) * vectors..].as_flattened()[..tags];
                product_into::<FMA, V>(x, forward, now);
                for v in 0..vectors {
                    for l in 0..LANES {
                        now[v][l] *= own[v][l];
                    }
                }
            }
            let scale = total(now);
            if !(SMALL..=LARGE).contains(&scale) {
                return None;
            }
            log_sum += scale.ln();
            let factor = 1.0 / scale;
            for v in 0..vectors {
                for l in 0..LANES {
                    now[v][l] *= factor;
                }
            }
            // The backward pass divides by the same scale; the first lane of b keeps it until then.
            beta[t * vectors][0] = factor;
        }
        for t in (0..length).rev() {
            let (now, after) = beta.split_at_mut((t + 1) * vectors);
            let now = &mut now[t * vectors..];
            let factor = now[0][0];
            if t + 1 == length {
                now.fill([1.0; LANES]);
            } else {
                product_into::<FMA, V>(&after[..vectors].as_flattened()[..tags], backward, now);
            }
            let most = largest(now);
            if most.is_nan() || most > LARGE {
                return None;
            }
            let own = &weights[t * vectors..][..vectors];
            let (a, p) = (&alpha[t * vectors..][..vectors], &mut marginals[t * vectors..][..vectors]);
            for v in 0..vectors {
                for l in 0..LANES {
                    p[v][l] = a[v][l] * now[v][l];
                    now[v][l] *= own[v][l] * factor;
                }
            }
        }
        outer::<FMA, V>(length, vectors, tags, alpha, beta, pairs);
        Some(log_sum)
    }
}

/// Adds Σₜ αₜ₋₁(i)·bₜ(j).
#[inline(always)]
fn outer<const FMA: bool, const V: usize>(
    length: usize,
    vectors: usize,
    tags: usize,
    alpha: &[Lane],
    beta: &[Lane],
    pairs: &mut [Lane],
) {
    if V == 0 {
        for t in 1..length {
            let x = &alpha[(t - 1) * vectors..].as_flattened()[..tags];
            let row = &beta[t * vectors..][..vectors];
            for (&x, sums) in x.iter().zip(pairs.chunks_exact_mut(vectors)) {
                for (sum, b) in sums.iter_mut().zip(row) {
                    for l in 0..LANES {
                        sum[l] = multiply_add::<FMA>(x, b[l], sum[l]);
                    }
                }
            }
        }
        return;
    }
    for first in (0..tags).step_by(2) {
        let (mut one, mut two) = ([[0.0; LANES]; V], [[0.0; LANES]; V]);
        let rows = alpha.as_chunks::<V>().0.iter().zip(beta.as_chunks::<V>().0.iter().skip(1));
        for (a, b) in rows.take(length - 1) {
            // The padded width is even.
            let x = &a.as_flattened()[first..][..2];
            one = add_scaled::<FMA, V>(one, x[0], b);
            two = add_scaled::<FMA, V>(two, x[1], b);
        }
        let out = &mut pairs[first * V..][..2 * V];
        for (out, sum) in out.iter_mut().zip(one.iter().chain(&two)) {
            for l in 0..LANES {
                out[l] += sum[l];
            }
        }
    }
}
