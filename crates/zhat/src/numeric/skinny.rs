//! Products of a few messages with a tile of a matrix, in both directions.
//!
//! Forward: output(r, j) += Σᵢ message(r, i)·M(i, j). A strip of columns for all messages of a block is kept
//! in registers while the rows of M are read; the numbers of all messages for one row are stored
//! contiguously. Backward: output(r, i) += Σⱼ message(r, j)·M(i, j), as dot products of a few rows with a few
//! messages at a time. Both accumulate one tile in registers before they access the output. Errors therefore
//! grow with the size of a tile plus the number of tiles, and the bits of one message do not depend on the
//! other messages.
//!
//! The number of columns is a multiple of [`strip`]. A matrix may be stored row by row or strip by strip. The
//! padding at the end of a row must be zero in the messages or the matrix, and finite in both.

#[cfg(target_arch = "x86_64")]
use super::lanes::x86::Pair;
#[cfg(target_arch = "x86_64")]
use super::simd::{self, Level};
use super::strips;

/// The size of a row in bytes is a multiple of this.
const STRIP_BYTES: usize = 128;

/// The number of columns is a multiple of this.
pub(crate) const fn strip<F>() -> usize {
    STRIP_BYTES / size_of::<F>()
}

/// `length` rounded up to whole strips.
pub(crate) fn padded<F>(length: usize) -> usize {
    length.next_multiple_of(strip::<F>())
}

/// The number of messages that a forward product processes together: 8, 4, 2 or 1; missing messages are
/// zeros.
pub(crate) fn block_of(messages: usize) -> usize {
    match messages {
        0..=2 => messages,
        3..=4 => 4,
        _ => 8,
    }
}

/// output ← output + messages·M on one tile.
#[derive(Debug)]
pub struct Forward<'a, F> {
    /// The number of rows of the tile.
    pub rows: usize,
    /// The number of columns of the tile.
    pub columns: usize,
    /// The number of messages: 8, 4, 2 or 1.
    pub block: usize,
    /// rows × block.
    pub messages: &'a [F],
    /// rows × columns.
    pub matrix: &'a [F],
    /// Distance between consecutive rows of the matrix.
    pub stride: usize,
    /// Distance between consecutive strips of the matrix.
    pub strips: usize,
    /// block × columns.
    pub output: &'a mut [F],
    /// Distance between consecutive rows of the output.
    pub output_stride: usize,
    /// Factors of the added values (row r applies to row r of the output), and the distance between their
    /// rows.
    pub weights: Option<(&'a [F], usize)>,
    /// If false, the output is overwritten.
    pub accumulate: bool,
    /// The data to be read next. It is prefetched on the way, up to half the size of this tile.
    pub next: &'a [F],
}

/// output ← output + messages·Mᵀ on one tile.
#[derive(Debug)]
pub struct Backward<'a, F> {
    /// The number of rows of the tile.
    pub rows: usize,
    /// The number of columns of the tile.
    pub columns: usize,
    /// The number of messages.
    pub count: usize,
    /// count × columns.
    pub messages: &'a [F],
    /// Distance between consecutive messages.
    pub messages_stride: usize,
    /// rows × columns.
    pub matrix: &'a [F],
    /// Distance between consecutive rows of the matrix.
    pub stride: usize,
    /// Distance between consecutive strips of the matrix.
    pub strips: usize,
    /// count × rows.
    pub output: &'a mut [F],
    /// Distance between consecutive rows of the output.
    pub output_stride: usize,
    /// The data to be read next. It is prefetched on the way, up to half the size of this tile.
    pub next: &'a [F],
}

/// The last index of a matrix that is accessed, plus one.
fn extent<F>(rows: usize, columns: usize, stride: usize, strips: usize) -> usize {
    let last = (columns / strip::<F>()).saturating_sub(1) * strips;
    if rows == 0 || columns == 0 { 0 } else { (rows - 1) * stride + last + strip::<F>() }
}

/// The last index of a table of `rows` rows that is accessed, plus one.
fn reach(rows: usize, stride: usize, columns: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

impl<F> Forward<'_, F> {
    fn check(&self) {
        assert!(self.columns.is_multiple_of(strip::<F>()), "whole strips");
        assert!(matches!(self.block, 1 | 2 | 4 | 8), "a block of messages");
        assert!(self.messages.len() >= self.rows * self.block, "messages");
        let extent = extent::<F>(self.rows, self.columns, self.stride, self.strips);
        assert!(self.matrix.len() >= extent, "matrix");
        assert!(self.output.len() >= reach(self.block, self.output_stride, self.columns), "output");
        if let Some((weights, stride)) = self.weights {
            assert!(weights.len() >= reach(self.block, stride, self.columns), "weights");
        }
    }
}

impl<F> Backward<'_, F> {
    fn check(&self) {
        assert!(self.columns.is_multiple_of(strip::<F>()), "whole strips");
        assert!(self.messages.len() >= reach(self.count, self.messages_stride, self.columns), "messages");
        let extent = extent::<F>(self.rows, self.columns, self.stride, self.strips);
        assert!(self.matrix.len() >= extent, "matrix");
        assert!(self.output.len() >= reach(self.count, self.output_stride, self.rows), "output");
    }
}

mod sealed {
    use super::{Backward, Forward};

    /// The products for a number type.
    pub trait Skinny: Sized {
        /// output ← output + messages·M.
        fn forward(task: Forward<'_, Self>);
        /// output ← output + messages·Mᵀ.
        fn backward(task: Backward<'_, Self>);
    }
}
pub(super) use sealed::Skinny;

macro_rules! skinny {
    ($float:ty, $count:literal, $half:ident, $whole:ident) => {
        impl Skinny for $float {
            fn forward(task: Forward<'_, $float>) {
                task.check();
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{$half, $whole};
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(task: Forward<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { strips::forward::<$float, Pair<$half>, false>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: Forward<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { strips::forward::<$float, $whole, true>(task, 0.0) }
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
                unsafe { strips::forward::<$float, [$float; $count], false>(task, 0.0) }
            }

            fn backward(task: Backward<'_, $float>) {
                task.check();
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{$half, $whole};
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(task: Backward<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { strips::backward::<$float, Pair<$half>, false>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: Backward<'_, $float>) {
                        // SAFETY: the task has been checked and the instructions are enabled.
                        unsafe { strips::backward::<$float, $whole, true>(task, 0.0) }
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
                unsafe { strips::backward::<$float, [$float; $count], false>(task, 0.0) }
            }
        }
    };
}
skinny!(f32, 16, __m256, __m512);
skinny!(f64, 8, __m256d, __m512d);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numeric::Real;
    use crate::random::{Stream, Streams};

    fn numbers<F: Real>(random: &mut Stream, len: usize) -> Vec<F> {
        (0..len).map(|_| F::from_f64(random.uniform())).collect()
    }

    fn close<F: Real>(got: F, want: f64, terms: usize) {
        let allowed = (terms + 2) as f64 * F::EPSILON.to_f64() * (want.abs() + 1.0);
        assert!((got.to_f64() - want).abs() <= allowed, "{got} for {want}");
    }

    fn agree_with_the_definition<F: Real>() {
        let mut random = Streams::new(5, "skinny tests").block(0);
        for rows in [0, 1, 3, 8, 21] {
            for strips in [1, 2, 5, 9] {
                let columns = strips * strip::<F>();
                let stride = columns + random.below(5);
                let matrix = numbers::<F>(&mut random, rows * stride + columns);
                for block in [1, 2, 4, 8] {
                    let messages = numbers::<F>(&mut random, rows * block);
                    let start = numbers::<F>(&mut random, block * stride);
                    let weights = numbers::<F>(&mut random, block * stride);
                    for (weighted, accumulate) in [(false, true), (true, true), (false, false), (true, false)]
                    {
                        let mut output = start.clone();
                        F::forward(Forward {
                            rows,
                            columns,
                            block,
                            messages: &messages,
                            matrix: &matrix,
                            stride,
                            strips: strip::<F>(),
                            output: &mut output,
                            output_stride: stride,
                            weights: weighted.then_some((&weights[..], stride)),
                            accumulate,
                            next: &matrix,
                        });
                        for r in 0..block {
                            for j in 0..stride {
                                let at = r * stride + j;
                                if j >= columns {
                                    assert_eq!(output[at], start[at]);
                                    continue;
                                }
                                let entry = |i: usize| {
                                    messages[i * block + r].to_f64() * matrix[i * stride + j].to_f64()
                                };
                                let sum: f64 = (0..rows).map(entry).sum();
                                let weight = if weighted { weights[at].to_f64() } else { 1.0 };
                                let old = if accumulate { start[at].to_f64() } else { 0.0 };
                                close(output[at], old + weight * sum, rows);
                            }
                        }
                    }
                }
                for count in [0, 1, 2, 3, 4, 5, 7, 8] {
                    let messages = numbers::<F>(&mut random, count * stride);
                    let start = numbers::<F>(&mut random, count * (rows + 1));
                    let mut output = start.clone();
                    F::backward(Backward {
                        rows,
                        columns,
                        count,
                        messages: &messages,
                        messages_stride: stride,
                        matrix: &matrix,
                        stride,
                        strips: strip::<F>(),
                        output: &mut output,
                        output_stride: rows + 1,
                        next: &matrix,
                    });
                    for r in 0..count {
                        for i in 0..rows {
                            let entry = |j: usize| {
                                messages[r * stride + j].to_f64() * matrix[i * stride + j].to_f64()
                            };
                            let sum: f64 = (0..columns).map(entry).sum();
                            close(
                                output[r * (rows + 1) + i],
                                start[r * (rows + 1) + i].to_f64() + sum,
                                columns,
                            );
                        }
                    }
                }
            }
        }
    }

    /// A matrix stored strip by strip gives the same bits as one stored row by row, also with fewer messages
    /// at a time.
    fn agree_in_both_layouts<F: Real>() {
        let mut random = Streams::new(6, "skinny tests").block(0);
        let strip = strip::<F>();
        for (rows, strips) in [(1, 1), (5, 4), (64, 3), (13, 9)] {
            let columns = strips * strip;
            let matrix = numbers::<F>(&mut random, rows * columns);
            let apart = rows * strip + 7;
            let mut stripped = vec![F::ZERO; strips * apart];
            for (at, &x) in matrix.iter().enumerate() {
                let (i, j) = (at / columns, at % columns);
                stripped[j / strip * apart + i * strip + j % strip] = x;
            }
            let messages = numbers::<F>(&mut random, 8 * columns.max(rows));
            let layouts = [(&matrix, columns, strip), (&stripped, strip, apart)];
            for block in [1, 2, 4, 8] {
                let outputs = layouts.map(|(matrix, stride, strips)| {
                    let mut output = vec![F::ZERO; block * columns];
                    F::forward(Forward {
                        rows,
                        columns,
                        block,
                        messages: &messages,
                        matrix,
                        stride,
                        strips,
                        output: &mut output,
                        output_stride: columns,
                        weights: None,
                        accumulate: false,
                        next: &[],
                    });
                    output
                });
                assert_eq!(outputs[0], outputs[1]);
            }
            let backward = |count: usize, (matrix, stride, strips): (&Vec<F>, usize, usize)| {
                let mut output = vec![F::ZERO; count * rows];
                F::backward(Backward {
                    rows,
                    columns,
                    count,
                    messages: &messages,
                    messages_stride: columns,
                    matrix,
                    stride,
                    strips,
                    output: &mut output,
                    output_stride: rows,
                    next: &[],
                });
                output
            };
            let want = backward(8, layouts[0]);
            for count in 1..=8 {
                for layout in layouts {
                    assert_eq!(backward(count, layout), want[..count * rows]);
                }
            }
        }
    }

    #[test]
    fn products_agree_in_both_layouts() {
        agree_in_both_layouts::<f32>();
        agree_in_both_layouts::<f64>();
    }

    #[test]
    fn products_agree_with_the_definition() {
        agree_with_the_definition::<f32>();
        agree_with_the_definition::<f64>();
    }
}
