//! Products of a few messages with a tile of a matrix, in both directions.
//!
//! Forward: output(r, j) += Σᵢ message(r, i)·M(i, j). A strip of columns of all messages of a block is kept in registers while the
//! rows of M pass by; one message's numbers of a row stand side by side. Backward: output(r, i) += Σⱼ message(r, j)·M(i, j), dot products
//! of a few rows with a few messages at a time. Both add up one tile in registers before they touch the output, so errors grow with
//! the tile's size plus the number of tiles, and the bits of one message do not depend on what others there are.
//!
//! Columns are a multiple of [`STRIP`]; what stands behind the end of a row must be zero in messages or matrix and finite in both.

// Counted loops over arrays of registers are what the compiler unrolls.
#![allow(clippy::needless_range_loop)]

use super::lanes::Lanes;
#[cfg(target_arch = "x86_64")]
use super::lanes::x86::Pair;
#[cfg(target_arch = "x86_64")]
use super::simd::{self, Level};

/// Columns come in multiples of this many bytes.
const STRIP_BYTES: usize = 128;

/// Columns come in multiples of this.
pub(crate) const fn strip<F>() -> usize {
    STRIP_BYTES / size_of::<F>()
}

/// `length` rounded up to whole strips.
pub(crate) fn padded<F>(length: usize) -> usize {
    length.next_multiple_of(strip::<F>())
}

/// The messages of a forward product that are multiplied together: 8, 4, 2 or 1, what is missing are zeros.
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
    /// The rows of the tile.
    pub rows: usize,
    /// The columns of the tile.
    pub columns: usize,
    /// 8, 4, 2 or 1 messages.
    pub block: usize,
    /// rows × block.
    pub messages: &'a [F],
    /// rows × columns.
    pub matrix: &'a [F],
    /// From one row of the matrix to the next.
    pub stride: usize,
    /// block × columns.
    pub output: &'a mut [F],
    /// From one row of the output to the next.
    pub output_stride: usize,
    /// Multiplies what is added, row r of it what is added to row r of the output.
    pub weights: Option<(&'a [F], usize)>,
    /// False if the output is overwritten.
    pub accumulate: bool,
    /// What will be read next: asked for on the way, as much of it as half of what this tile takes.
    pub next: &'a [F],
}

/// output ← output + messages·Mᵀ on one tile.
#[derive(Debug)]
pub struct Backward<'a, F> {
    /// The rows of the tile.
    pub rows: usize,
    /// The columns of the tile.
    pub columns: usize,
    /// The number of messages.
    pub count: usize,
    /// count × columns.
    pub messages: &'a [F],
    /// From one message to the next.
    pub messages_stride: usize,
    /// rows × columns.
    pub matrix: &'a [F],
    /// From one row of the matrix to the next.
    pub stride: usize,
    /// count × rows.
    pub output: &'a mut [F],
    /// From one row of the output to the next.
    pub output_stride: usize,
    /// What will be read next: asked for on the way, as much of it as half of what this tile takes.
    pub next: &'a [F],
}

/// The last index of a table of `rows` rows that is touched, and one more.
fn reach(rows: usize, stride: usize, columns: usize) -> usize {
    if rows == 0 { 0 } else { (rows - 1) * stride + columns }
}

impl<F> Forward<'_, F> {
    fn check(&self) {
        assert!(self.columns.is_multiple_of(strip::<F>()), "whole strips");
        assert!(matches!(self.block, 1 | 2 | 4 | 8), "a block of messages");
        assert!(self.messages.len() >= self.rows * self.block, "messages");
        assert!(self.matrix.len() >= reach(self.rows, self.stride, self.columns), "matrix");
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
        assert!(self.matrix.len() >= reach(self.rows, self.stride, self.columns), "matrix");
        assert!(self.output.len() >= reach(self.count, self.output_stride, self.rows), "output");
    }
}

/// One strip of W vectors and R messages that start at `message` of the block.
///
/// # Safety
/// The task is checked; message + R ≤ block, column + W vectors ≤ columns; V's instructions are there.
#[inline(always)]
unsafe fn forward_strip<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut Forward<'_, F>,
    zero: V,
    message: usize,
    column: usize,
) {
    // SAFETY: the caller's promise; every pointer is inside its slice by `check`.
    unsafe {
        let mut sums = [[zero; W]; R];
        let mut messages = task.messages.as_ptr().add(message);
        let mut matrix = task.matrix.as_ptr().add(column);
        let mut next = task.next.as_ptr().wrapping_add(column / 2 * task.rows);
        let ahead = !task.next.is_empty() && message == 0 && W > 1;
        for _ in 0..task.rows {
            if ahead {
                for w in 0..W / 2 {
                    V::prefetch(next.wrapping_add(w * V::COUNT));
                }
                next = next.wrapping_add(W / 2 * V::COUNT);
            }
            let mut row = [zero; W];
            for w in 0..W {
                row[w] = V::load(matrix.add(w * V::COUNT));
            }
            for r in 0..R {
                let x = V::splat(*messages.add(r));
                for w in 0..W {
                    sums[r][w] = x.multiply_add(row[w], sums[r][w]);
                }
            }
            // Not used once they have left their slices.
            messages = messages.wrapping_add(task.block);
            matrix = matrix.wrapping_add(task.stride);
        }
        for r in 0..R {
            for w in 0..W {
                let at = column + w * V::COUNT;
                let output = task.output.as_mut_ptr().add((message + r) * task.output_stride + at);
                let old = if task.accumulate { V::load(output) } else { zero };
                match task.weights {
                    None => sums[r][w].add(old).store(output),
                    Some((weights, stride)) => {
                        let weights = V::load(weights.as_ptr().add((message + r) * stride + at));
                        sums[r][w].multiply_add(weights, old).store(output);
                    }
                }
            }
        }
    }
}

/// All strips of a tile, W vectors at a time and then two or one.
///
/// # Safety
/// The task is checked, R divides its block, V's instructions are there.
#[inline(always)]
unsafe fn forward_tile<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut Forward<'_, F>,
    zero: V,
) {
    let mut message = 0;
    while message < task.block {
        let mut column = 0;
        // SAFETY: the caller's promise, and the loops' conditions.
        unsafe {
            while column + W * V::COUNT <= task.columns {
                forward_strip::<F, V, R, W>(task, zero, message, column);
                column += W * V::COUNT;
            }
            while column < task.columns {
                forward_strip::<F, V, R, 1>(task, zero, message, column);
                column += V::COUNT;
            }
        }
        message += R;
    }
}

/// Dot products of I rows with R messages.
///
/// # Safety
/// The task is checked; row + I ≤ rows, message + R ≤ count; V's instructions are there.
#[inline(always)]
unsafe fn backward_block<F: Copy + std::ops::AddAssign, V: Lanes<F>, const I: usize, const R: usize>(
    task: &mut Backward<'_, F>,
    zero: V,
    row: usize,
    message: usize,
) {
    // SAFETY: the caller's promise; every pointer is inside its slice by `check`.
    unsafe {
        let mut sums = [[zero; R]; I];
        let messages = task.messages.as_ptr().add(message * task.messages_stride);
        let matrix = task.matrix.as_ptr().add(row * task.stride);
        let mut next = task.next.as_ptr().wrapping_add(row / 2 * task.columns);
        let ahead = !task.next.is_empty() && message == 0 && I > 1;
        let mut column = 0;
        while column < task.columns {
            if ahead {
                for i in 0..I / 2 {
                    V::prefetch(next.wrapping_add(i * V::COUNT));
                }
                next = next.wrapping_add(I / 2 * V::COUNT);
            }
            let mut x = [zero; R];
            for r in 0..R {
                x[r] = V::load(messages.add(r * task.messages_stride + column));
            }
            for i in 0..I {
                let y = V::load(matrix.add(i * task.stride + column));
                for r in 0..R {
                    sums[i][r] = x[r].multiply_add(y, sums[i][r]);
                }
            }
            column += V::COUNT;
        }
        for r in 0..R {
            let output = task.output.as_mut_ptr().add((message + r) * task.output_stride + row);
            for i in 0..I {
                *output.add(i) += sums[i][r].sum();
            }
        }
    }
}

/// All rows of a tile for R messages from `message` on, I rows at a time and then one.
///
/// # Safety
/// As for [`backward_block`].
#[inline(always)]
unsafe fn backward_rows<F: Copy + std::ops::AddAssign, V: Lanes<F>, const I: usize, const R: usize>(
    task: &mut Backward<'_, F>,
    zero: V,
    rows: std::ops::Range<usize>,
    message: usize,
) {
    let mut row = rows.start;
    // SAFETY: the caller's promise, and the loops' conditions.
    unsafe {
        while row + I <= rows.end {
            backward_block::<F, V, I, R>(task, zero, row, message);
            row += I;
        }
        while row < rows.end {
            backward_block::<F, V, 1, R>(task, zero, row, message);
            row += 1;
        }
    }
}

/// # Safety
/// The task is checked; V has 32 registers of its own and their instructions are there.
#[inline(always)]
unsafe fn forward_wide<F: Copy, V: Lanes<F>>(mut task: Forward<'_, F>, zero: F) {
    // SAFETY: the caller's promise; the block is one of these.
    unsafe {
        let zero = V::splat(zero);
        match task.block {
            8 => forward_tile::<F, V, 8, 2>(&mut task, zero),
            4 => forward_tile::<F, V, 4, 4>(&mut task, zero),
            2 => forward_tile::<F, V, 2, 8>(&mut task, zero),
            _ => forward_tile::<F, V, 1, 8>(&mut task, zero),
        }
    }
}

/// # Safety
/// The task is checked; V's instructions are there. V takes two of 16 registers.
#[inline(always)]
unsafe fn forward_narrow<F: Copy, V: Lanes<F>>(mut task: Forward<'_, F>, zero: F) {
    // SAFETY: the caller's promise; the block is a multiple of these.
    unsafe {
        let zero = V::splat(zero);
        match task.block {
            8 | 4 => forward_tile::<F, V, 4, 1>(&mut task, zero),
            2 => forward_tile::<F, V, 2, 2>(&mut task, zero),
            _ => forward_tile::<F, V, 1, 4>(&mut task, zero),
        }
    }
}

/// The rows of M that a backward product keeps in the first cache while all messages pass.
const CACHED_ROWS: usize = 8;

/// # Safety
/// As for [`forward_wide`].
#[inline(always)]
unsafe fn backward_wide<F: Copy + std::ops::AddAssign, V: Lanes<F>>(mut task: Backward<'_, F>, zero: F) {
    // SAFETY: the caller's promise, and the conditions on the messages that are left.
    unsafe {
        let zero = V::splat(zero);
        let mut row = 0;
        while row < task.rows {
            let rows = row..task.rows.min(row + CACHED_ROWS);
            let mut message = 0;
            while message < task.count {
                let step = match task.count - message {
                    1 => {
                        backward_rows::<F, V, 8, 1>(&mut task, zero, rows.clone(), message);
                        1
                    }
                    2..=3 => {
                        backward_rows::<F, V, 4, 2>(&mut task, zero, rows.clone(), message);
                        2
                    }
                    _ => {
                        backward_rows::<F, V, 4, 4>(&mut task, zero, rows.clone(), message);
                        4
                    }
                };
                message += step;
            }
            row = rows.end;
        }
    }
}

/// # Safety
/// As for [`forward_narrow`].
#[inline(always)]
unsafe fn backward_narrow<F: Copy + std::ops::AddAssign, V: Lanes<F>>(mut task: Backward<'_, F>, zero: F) {
    // SAFETY: the caller's promise, and the conditions on the messages that are left.
    unsafe {
        let zero = V::splat(zero);
        let mut row = 0;
        while row < task.rows {
            let rows = row..task.rows.min(row + CACHED_ROWS);
            let mut message = 0;
            while message < task.count {
                if task.count - message == 1 {
                    backward_rows::<F, V, 4, 1>(&mut task, zero, rows.clone(), message);
                    message += 1;
                } else {
                    backward_rows::<F, V, 2, 2>(&mut task, zero, rows.clone(), message);
                    message += 2;
                }
            }
            row = rows.end;
        }
    }
}

mod sealed {
    use super::{Backward, Forward};

    /// The products of a type of number.
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
                        // SAFETY: the task is checked, the instructions are enabled.
                        unsafe { forward_narrow::<$float, Pair<$half>>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: Forward<'_, $float>) {
                        // SAFETY: the task is checked, the instructions are enabled.
                        unsafe { forward_wide::<$float, $whole>(task, 0.0) }
                    }
                    match simd::level() {
                        // SAFETY: `level` is never above what `Level::detected` found on this CPU.
                        Level::Avx512 => return unsafe { avx512(task) },
                        // SAFETY: as above.
                        Level::Avx2 => return unsafe { avx2(task) },
                        Level::Portable => {}
                    }
                }
                // SAFETY: the task is checked, arrays need no instructions.
                unsafe { forward_narrow::<$float, [$float; $count]>(task, 0.0) }
            }

            fn backward(task: Backward<'_, $float>) {
                task.check();
                #[cfg(target_arch = "x86_64")]
                {
                    use std::arch::x86_64::{$half, $whole};
                    #[target_feature(enable = "avx2,fma")]
                    unsafe fn avx2(task: Backward<'_, $float>) {
                        // SAFETY: the task is checked, the instructions are enabled.
                        unsafe { backward_narrow::<$float, Pair<$half>>(task, 0.0) }
                    }
                    #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw,avx2,fma")]
                    unsafe fn avx512(task: Backward<'_, $float>) {
                        // SAFETY: the task is checked, the instructions are enabled.
                        unsafe { backward_wide::<$float, $whole>(task, 0.0) }
                    }
                    match simd::level() {
                        // SAFETY: `level` is never above what `Level::detected` found on this CPU.
                        Level::Avx512 => return unsafe { avx512(task) },
                        // SAFETY: as above.
                        Level::Avx2 => return unsafe { avx2(task) },
                        Level::Portable => {}
                    }
                }
                // SAFETY: the task is checked, arrays need no instructions.
                unsafe { backward_narrow::<$float, [$float; $count]>(task, 0.0) }
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

    #[test]
    fn products_agree_with_the_definition() {
        agree_with_the_definition::<f32>();
        agree_with_the_definition::<f64>();
    }
}
