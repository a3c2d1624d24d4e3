//! Products of small matrices, whose rows are padded to whole vectors: what a general product spends on packing
//! and on choosing its blocks is more than such a product costs.
//!
//! A block of the result stays in registers while the inner index runs, so there is one read per factor and one
//! write per number. 2·m·n·k operations; the bits do not depend on the number of threads.

// The compiler unrolls counted loops over arrays of registers.
#![allow(clippy::needless_range_loop)]

use super::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use super::lanes::x86::Pair;
#[cfg(target_arch = "x86_64")]
use super::simd::{self, Level};

/// The length of a row of `length` numbers, padded to whole vectors.
pub(crate) fn padded<F>(length: usize) -> usize {
    length.next_multiple_of((64 / size_of::<F>()).max(1))
}

/// C ← A·B with C(r, j) = Σₖ A(r, k)·B(k, j). The rows of B and C have `width` numbers, whole vectors; A(r, k)
/// is at r·`row_stride` + k·`inner_stride`.
#[derive(Debug)]
pub struct SmallProduct<'a, F> {
    /// The left factor.
    pub a: &'a [F],
    /// Distance between consecutive rows of A.
    pub row_stride: usize,
    /// Distance between consecutive columns of A.
    pub inner_stride: usize,
    /// The right factor, inner × width.
    pub b: &'a [F],
    /// The result, rows × width.
    pub c: &'a mut [F],
    /// The number of rows of A and C.
    pub rows: usize,
    /// The number of columns of A and of rows of B.
    pub inner: usize,
    /// The number of columns of B and C.
    pub width: usize,
}

impl<F> SmallProduct<'_, F> {
    fn check(&self) {
        let SmallProduct { rows, inner, width, .. } = *self;
        assert!(width.is_multiple_of(padded::<F>(1)), "whole vectors");
        if rows > 0 && inner > 0 {
            let last = (rows - 1) * self.row_stride + (inner - 1) * self.inner_stride;
            assert!(self.a.len() > last, "left factor");
        }
        assert!(self.b.len() >= inner * width, "right factor");
        assert!(self.c.len() >= rows * width, "result");
    }
}

mod sealed {
    /// The product for a number type.
    pub trait Small: Sized {
        /// C ← A·B.
        fn small_product(task: super::SmallProduct<'_, Self>);
    }
}
pub(crate) use sealed::Small;

/// Rows `first` to `first` + R of the result.
///
/// # Safety
/// The task has been checked, has these rows, and the instructions of V are enabled.
#[inline(always)]
unsafe fn rows<F: Copy, V: Lanes<F>, const R: usize>(task: &mut SmallProduct<'_, F>, first: usize, zero: F) {
    // SAFETY: `check` bounds every index below.
    unsafe {
        let a = task.a.as_ptr().add(if task.inner > 0 { first * task.row_stride } else { 0 });
        let c = task.c.as_mut_ptr().add(first * task.width);
        let mut column = 0;
        while column < task.width {
            let mut sums = [V::splat(zero); R];
            for k in 0..task.inner {
                let b = V::load(task.b.as_ptr().add(k * task.width + column));
                for r in 0..R {
                    let x = V::splat(*a.add(r * task.row_stride + k * task.inner_stride));
                    sums[r] = b.multiply_add(x, sums[r]);
                }
            }
            for r in 0..R {
                sums[r].store(c.add(r * task.width + column));
            }
            column += V::COUNT;
        }
    }
}

/// All rows, by blocks of R.
///
/// # Safety
/// As for [`rows`].
#[inline(always)]
unsafe fn blocks<F: Copy, V: Lanes<F>, const R: usize>(mut task: SmallProduct<'_, F>, zero: F) {
    let mut first = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while first + R <= task.rows {
            rows::<F, V, R>(&mut task, first, zero);
            first += R;
        }
        while first + 2 <= task.rows {
            rows::<F, V, 2>(&mut task, first, zero);
            first += 2;
        }
        if first < task.rows {
            rows::<F, V, 1>(&mut task, first, zero);
        }
    }
}

macro_rules! small {
    ($float:ty, $count:literal, $half:ident, $whole:ident) => {
        impl Small for $float {
            fn small_product(task: SmallProduct<'_, $float>) {
                task.check();
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{$half, $whole};
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(task: SmallProduct<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { blocks::<$float, Pair<$half>, 6>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: SmallProduct<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { blocks::<$float, $whole, 10>(task, 0.0) }
                    }
                    match simd::level() {
                        // SAFETY: `level` is never above what `Level::detected` found on this CPU.
                        Level::Avx512 => return unsafe { avx512(task) },
                        // SAFETY: as above.
                        Level::Avx2 => return unsafe { avx2(task) },
                        Level::Portable => {}
                    }
                }
                // SAFETY: the task has been checked, and arrays need no special instructions.
                unsafe { blocks::<$float, [$float; $count], 2>(task, 0.0) }
            }
        }
    };
}
small!(f32, 16, __m256, __m512);
small!(f64, 8, __m256d, __m512d);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Real;

    fn agrees_with_the_definition<F: Real>() {
        let number = |seed: usize, i: usize| F::from_f64(((seed * 31 + i * 7) as f64).sin());
        for (n, count) in [(1, 1), (3, 5), (8, 8), (30, 17), (33, 9), (7, 0), (2, 13)] {
            let width = padded::<F>(n);
            let rows = |seed: usize, count: usize| -> Vec<F> {
                (0..count * width).map(|at| if at % width < n { number(seed, at) } else { F::ZERO }).collect()
            };
            let (a, b, square) = (rows(1, count), rows(2, count), rows(3, n));
            let close = |got: F, want: f64| {
                assert!((got.to_f64() - want).abs() <= 40.0 * F::EPSILON.to_f64(), "{got} for {want}");
            };
            // Aᵀ·B, a sum over the rows of both.
            let mut c = vec![F::ONE; n * width];
            let (row_stride, inner_stride) = (1, width);
            let c_rows = SmallProduct {
                a: &a,
                row_stride,
                inner_stride,
                b: &b,
                c: &mut c,
                rows: n,
                inner: count,
                width,
            };
            F::small_product(c_rows);
            for i in 0..n {
                for j in 0..width {
                    let term = |m: usize| a[m * width + i].to_f64() * b[m * width + j].to_f64();
                    close(c[i * width + j], (0..count).map(term).sum());
                }
            }
            // A·S for a square S.
            let mut c = vec![F::ONE; count * width];
            let (row_stride, inner_stride) = (width, 1);
            let c_rows = SmallProduct {
                a: &a,
                row_stride,
                inner_stride,
                b: &square,
                c: &mut c,
                rows: count,
                inner: n,
                width,
            };
            F::small_product(c_rows);
            for m in 0..count {
                for j in 0..width {
                    let term = |i: usize| a[m * width + i].to_f64() * square[i * width + j].to_f64();
                    close(c[m * width + j], (0..n).map(term).sum());
                }
            }
        }
    }

    #[test]
    fn small_products_agree_with_the_definition() {
        agrees_with_the_definition::<f32>();
        agrees_with_the_definition::<f64>();
    }
}
