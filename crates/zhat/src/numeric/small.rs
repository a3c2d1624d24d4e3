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

/// C ← A·B, or C ← C + A·B, with (A·B)(r, j) = Σₖ A(r, k)·B(k, j). The rows of B and C have `width`
/// numbers, whole vectors; A(r, k) is at r·`row_stride` + k·`inner_stride`.
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
    /// Distance between consecutive rows of B.
    pub b_stride: usize,
    /// The result, rows × width.
    pub c: &'a mut [F],
    /// Distance between consecutive rows of C.
    pub c_stride: usize,
    /// The number of rows of A and C.
    pub rows: usize,
    /// The number of columns of A and of rows of B.
    pub inner: usize,
    /// The number of columns of B and C.
    pub width: usize,
    /// Whether the product is added to C.
    pub accumulate: bool,
}

impl<'a, F> SmallProduct<'a, F> {
    /// C ← A·B for matrices of so many rows, inner and columns, whose rows lie side by side in B and in C. A has
    /// these distances between rows and between columns.
    pub fn new(
        (a, row_stride, inner_stride): (&'a [F], usize, usize),
        b: &'a [F],
        c: &'a mut [F],
        [rows, inner, width]: [usize; 3],
    ) -> Self {
        SmallProduct {
            a,
            row_stride,
            inner_stride,
            b,
            b_stride: width,
            c,
            c_stride: width,
            rows,
            inner,
            width,
            accumulate: false,
        }
    }

    fn check(&self) {
        let SmallProduct { rows, inner, width, .. } = *self;
        assert!(width.is_multiple_of(padded::<F>(1)), "whole vectors");
        if rows > 0 && inner > 0 {
            let last = (rows - 1) * self.row_stride + (inner - 1) * self.inner_stride;
            assert!(self.a.len() > last, "left factor");
        }
        let size = |rows: usize, stride: usize| if rows > 0 { (rows - 1) * stride + width } else { 0 };
        assert!(self.b.len() >= size(inner, self.b_stride), "right factor");
        assert!(self.c.len() >= size(rows, self.c_stride) && self.c_stride >= width, "result");
    }
}

mod sealed {
    /// The product for a number type.
    pub trait Small: Sized {
        /// C ← A·B, or C ← C + A·B.
        fn small_product(task: super::SmallProduct<'_, Self>);
    }
}
pub(crate) use sealed::Small;

/// R rows of the result from `first`, W vectors from `column`.
///
/// # Safety
/// The task has been checked, has these rows and columns, and the instructions of V are enabled.
#[inline(always)]
unsafe fn block<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut SmallProduct<'_, F>,
    (first, column): (usize, usize),
    zero: F,
) {
    // SAFETY: `check` bounds every index below.
    unsafe {
        let a = task.a.as_ptr().add(if task.inner > 0 { first * task.row_stride } else { 0 });
        let c = task.c.as_mut_ptr().add(first * task.c_stride + column);
        let mut sums = [[V::splat(zero); W]; R];
        for k in 0..task.inner {
            let mut b = [V::splat(zero); W];
            for w in 0..W {
                b[w] = V::load(task.b.as_ptr().add(k * task.b_stride + column + w * V::COUNT));
            }
            for r in 0..R {
                let x = V::splat(*a.add(r * task.row_stride + k * task.inner_stride));
                for w in 0..W {
                    sums[r][w] = b[w].multiply_add(x, sums[r][w]);
                }
            }
        }
        for r in 0..R {
            for w in 0..W {
                let to = c.add(r * task.c_stride + w * V::COUNT);
                let sum = if task.accumulate { sums[r][w].add(V::load(to)) } else { sums[r][w] };
                sum.store(to);
            }
        }
    }
}

/// All rows of W vectors from `column`, by blocks of R rows.
///
/// # Safety
/// As for [`block`].
#[inline(always)]
unsafe fn panel<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut SmallProduct<'_, F>,
    column: usize,
    zero: F,
) {
    let mut first = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while first + R <= task.rows {
            block::<F, V, R, W>(task, (first, column), zero);
            first += R;
        }
        while R > 8 && first + 8 <= task.rows {
            block::<F, V, 8, W>(task, (first, column), zero);
            first += 8;
        }
        while R > 4 && first + 4 <= task.rows {
            block::<F, V, 4, W>(task, (first, column), zero);
            first += 4;
        }
        while first + 2 <= task.rows {
            block::<F, V, 2, W>(task, (first, column), zero);
            first += 2;
        }
        if first < task.rows {
            block::<F, V, 1, W>(task, (first, column), zero);
        }
    }
}

/// All columns, W vectors at a time, so that what is read of B stays in the cache for all rows.
///
/// # Safety
/// As for [`block`].
#[inline(always)]
unsafe fn panels<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    mut task: SmallProduct<'_, F>,
    zero: F,
) {
    let mut column = 0;
    // SAFETY: guaranteed by the caller.
    unsafe {
        while column + W * V::COUNT <= task.width {
            panel::<F, V, R, W>(&mut task, column, zero);
            column += W * V::COUNT;
        }
        while column < task.width {
            panel::<F, V, R, 1>(&mut task, column, zero);
            column += V::COUNT;
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
                        unsafe { panels::<$float, Pair<$half>, 6, 1>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: SmallProduct<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { panels::<$float, $whole, 10, 2>(task, 0.0) }
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
                unsafe { panels::<$float, [$float; $count], 2, 1>(task, 0.0) }
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
            // C + Aᵀ·B, a sum over the rows of both.
            let mut c = vec![F::ONE; n * width];
            let task = SmallProduct::new((&a, 1, width), &b, &mut c, [n, count, width]);
            F::small_product(SmallProduct { accumulate: true, ..task });
            for i in 0..n {
                for j in 0..width {
                    let term = |m: usize| a[m * width + i].to_f64() * b[m * width + j].to_f64();
                    close(c[i * width + j], 1.0 + (0..count).map(term).sum::<f64>());
                }
            }
            // A·S for a square S, into rows that are further apart.
            let stride = width + 3;
            let mut c = vec![F::ONE; count * stride];
            let task = SmallProduct::new((&a, width, 1), &square, &mut c, [count, n, width]);
            F::small_product(SmallProduct { c_stride: stride, ..task });
            for m in 0..count {
                for j in 0..width {
                    let term = |i: usize| a[m * width + i].to_f64() * square[i * width + j].to_f64();
                    close(c[m * stride + j], (0..n).map(term).sum());
                }
                assert!(c[m * stride + width..(m + 1) * stride].iter().all(|x| *x == F::ONE));
            }
        }
    }

    #[test]
    fn small_products_agree_with_the_definition() {
        agrees_with_the_definition::<f32>();
        agrees_with_the_definition::<f64>();
    }
}
