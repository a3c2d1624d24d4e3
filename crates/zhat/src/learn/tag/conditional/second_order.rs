//! Forward and backward sums of one sentence over pairs of tags.
//!
//! With M(a, b, c) = exp of the scores of the pair (b, c) and the triple (a, b, c): α₀ = e₀, α₁(b, c) =
//! α₀(b)·T(b, c)·e₁(c), αₜ(b, c) = eₜ(c)·Σₐ αₜ₋₁(a, b)·M(a, b, c), each divided by its sum, and the mirror image
//! for β. 3·L·N³ multiplications and additions; L·N² numbers of memory.

use super::design::LANES;
use super::sweep::multiply_add;
use crate::numeric::simd::{self, Kernel};

/// Scales below this are treated as underflow, messages above its inverse as overflow.
const SMALL: f64 = 1e-200;

/// The arrays of a sentence.
pub(super) struct PairSweep<'a> {
    pub length: usize,
    pub tags: usize,
    pub width: usize,
    /// T(b, c), tags × width.
    pub pairs: &'a [f64],
    /// M(a, b, c), tags² × width.
    pub triples: &'a [f64],
    /// eₜ(c), length × width; 0 beyond the tags.
    pub weights: &'a [f64],
    /// αₜ(b, c), length × tags × width; α₀ is in the first row.
    pub alpha: &'a mut [f64],
    /// bₜ(b, c), length × tags × width.
    pub beta: &'a mut [f64],
    /// p(yₜ), length × width.
    pub marginals: &'a mut [f64],
    /// α₀(b)·b₁(c), without the weight of the pair, is added: tags × width.
    pub pair_sums: &'a mut [f64],
    /// Σₜ αₜ₋₁(a, b)·bₜ(b, c), without the weights, is added: tags² × width.
    pub triple_sums: &'a mut [f64],
}

/// Σ ln cₜ, or `None` if the sums are out of range.
pub(super) fn pair_sweep(task: PairSweep<'_>) -> Option<f64> {
    simd::run(task)
}

#[inline(always)]
fn add_row<const FMA: bool>(x: f64, row: &[f64], sum: &mut [f64]) {
    for (s, r) in sum.as_chunks_mut::<LANES>().0.iter_mut().zip(row.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            s[l] = multiply_add::<FMA>(x, r[l], s[l]);
        }
    }
}

#[inline(always)]
fn dot<const FMA: bool>(a: &[f64], b: &[f64]) -> f64 {
    let mut sum = [0.0; LANES];
    for (a, b) in a.as_chunks::<LANES>().0.iter().zip(b.as_chunks::<LANES>().0) {
        for l in 0..LANES {
            sum[l] = multiply_add::<FMA>(a[l], b[l], sum[l]);
        }
    }
    ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]))
}

impl Kernel for PairSweep<'_> {
    type Output = Option<f64>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Option<f64> {
        let PairSweep { length, tags, width, pairs, triples, weights, alpha, .. } = self;
        let block = tags * width;
        let mut scales = Vec::with_capacity(length);
        for t in 0..length {
            let (before, now) = alpha.split_at_mut(t * block);
            let now = &mut now[..block];
            let own = &weights[t * width..][..width];
            now.fill(0.0);
            match t {
                0 => now[..width].copy_from_slice(own),
                1 => {
                    for b in 0..tags {
                        add_row::<FMA>(
                            before[b],
                            &pairs[b * width..][..width],
                            &mut now[b * width..][..width],
                        );
                    }
                }
                _ => {
                    let before = &before[(t - 1) * block..];
                    for a in 0..tags {
                        for b in 0..tags {
                            let row = &triples[(a * tags + b) * width..][..width];
                            add_row::<FMA>(before[a * width + b], row, &mut now[b * width..][..width]);
                        }
                    }
                }
            }
            if t > 0 {
                for row in now.chunks_exact_mut(width) {
                    row.iter_mut().zip(own).for_each(|(x, e)| *x *= e);
                }
            }
            let scale: f64 = now.chunks_exact(width).map(|row| row.iter().sum::<f64>()).sum();
            if !(SMALL..=1.0 / SMALL).contains(&scale) {
                return None;
            }
            now.iter_mut().for_each(|x| *x /= scale);
            scales.push(scale);
        }
        let after = self.beta;
        after[(length - 1) * block..].fill(1.0);
        for t in (0..length).rev() {
            let rows = if t == 0 { 1 } else { tags };
            let own = &weights[t * width..][..width];
            let now = &alpha[t * block..][..rows * width];
            let (below, beta) = after.split_at_mut(t * block);
            let beta = &mut beta[..rows * width];
            if beta.iter().any(|x| x.is_nan() || *x > 1.0 / SMALL) {
                return None;
            }
            let p = &mut self.marginals[t * width..][..width];
            p.fill(0.0);
            for (a, b) in now.chunks_exact(width).zip(beta.chunks_exact_mut(width)) {
                for c in 0..width {
                    p[c] = multiply_add::<FMA>(a[c], b[c], p[c]);
                    b[c] *= own[c] / scales[t];
                }
            }
            if t == 0 {
                break;
            }
            let next = &mut below[(t - 1) * block..];
            next.fill(0.0);
            for a in 0..if t == 1 { 1 } else { tags } {
                for b in 0..tags {
                    let row = match t {
                        1 => &pairs[b * width..][..width],
                        _ => &triples[(a * tags + b) * width..][..width],
                    };
                    next[a * width + b] = dot::<FMA>(row, &beta[b * width..][..width]);
                }
            }
        }
        for t in 1..length {
            let (before, beta) = (&alpha[(t - 1) * block..], &after[t * block..]);
            for b in 0..tags {
                let row = &beta[b * width..][..width];
                if t == 1 {
                    add_row::<FMA>(before[b], row, &mut self.pair_sums[b * width..][..width]);
                    continue;
                }
                for a in 0..tags {
                    let sums = &mut self.triple_sums[(a * tags + b) * width..][..width];
                    add_row::<FMA>(before[a * width + b], row, sums);
                }
            }
        }
        Some(scales.iter().map(|scale| scale.ln()).sum())
    }
}
