//! Inner loops of the products with a few messages, written for a fixed number of registers.
//!
//! AVX-512 has 32 registers of a whole vector. Sixteen of them hold sums: eight messages by two columns, or
//! four rows by four messages. AVX2 has 16 registers of half a vector, and eight of them hold sums.

// The compiler unrolls counted loops over arrays of registers.
#![allow(clippy::needless_range_loop)]

use super::lanes::Lanes;
use super::skinny::{Backward, Forward, strip};

/// One strip of W vectors and R messages that start at `message` of the block.
///
/// # Safety
/// The task must have been checked; message + R ≤ block, column + W vectors ≤ columns; the instructions of V
/// must be available.
#[inline(always)]
unsafe fn forward_strip<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut Forward<'_, F>,
    zero: V,
    message: usize,
    column: usize,
) {
    // SAFETY: guaranteed by the caller; `check` ensures that every pointer is inside its slice.
    unsafe {
        let mut sums = [[zero; W]; R];
        let mut messages = task.messages.as_ptr().add(message);
        let mut matrix =
            task.matrix.as_ptr().add(task.strips * (column / strip::<F>()) + column % strip::<F>());
        let mut next = task.next.as_ptr().wrapping_add(column / 2 * task.rows);
        let ahead = !task.next.is_empty() && message == 0 && W > 1;
        if let Some((weights, stride)) = task.weights {
            // Weights and output are needed after the sums, and may not be in the cache.
            for r in 0..R {
                for w in 0..W {
                    let at = column + w * V::COUNT;
                    V::prefetch(weights.as_ptr().add((message + r) * stride + at));
                    V::prefetch(task.output.as_ptr().add((message + r) * task.output_stride + at));
                }
            }
        }
        for _ in 0..task.rows {
            if ahead {
                for w in 0..W / 2 {
                    V::prefetch(next.wrapping_add(w * V::COUNT));
                }
                next = next.wrapping_add(W / 2 * V::COUNT);
            }
            let mut row = [zero; W];
            for w in 0..W {
                let within = w / 2 * task.strips + w % 2 * V::COUNT;
                row[w] = V::load(matrix.add(within));
            }
            for r in 0..R {
                let x = V::splat(*messages.add(r));
                for w in 0..W {
                    sums[r][w] = x.multiply_add(row[w], sums[r][w]);
                }
            }
            // These pointers are not used after they have left their slices.
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

/// All strips of a tile, W vectors at a time and then four, two or one.
///
/// # Safety
/// The task must have been checked, R must divide its block, and the instructions of V must be available.
#[inline(always)]
unsafe fn forward_tile<F: Copy, V: Lanes<F>, const R: usize, const W: usize>(
    task: &mut Forward<'_, F>,
    zero: V,
) {
    let mut message = 0;
    while message < task.block {
        let mut column = 0;
        // SAFETY: guaranteed by the caller and by the loop conditions.
        unsafe {
            while column + W * V::COUNT <= task.columns {
                forward_strip::<F, V, R, W>(task, zero, message, column);
                column += W * V::COUNT;
            }
            while W > 4 && column + 4 * V::COUNT <= task.columns {
                forward_strip::<F, V, R, 4>(task, zero, message, column);
                column += 4 * V::COUNT;
            }
            while W > 2 && column + 2 * V::COUNT <= task.columns {
                forward_strip::<F, V, R, 2>(task, zero, message, column);
                column += 2 * V::COUNT;
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
/// The task must have been checked; row + I ≤ rows, message + R ≤ count; the instructions of V must be
/// available.
#[inline(always)]
unsafe fn backward_block<F: Copy + std::ops::AddAssign, V: Lanes<F>, const I: usize, const R: usize>(
    task: &mut Backward<'_, F>,
    zero: V,
    row: usize,
    message: usize,
) {
    // SAFETY: guaranteed by the caller; `check` ensures that every pointer is inside its slice.
    unsafe {
        let mut sums = [[zero; R]; I];
        let messages = task.messages.as_ptr().add(message * task.messages_stride);
        let mut matrix = task.matrix.as_ptr().add(row * task.stride);
        let mut next = task.next.as_ptr().wrapping_add(row / 2 * task.columns);
        let ahead = !task.next.is_empty() && message == 0 && I > 1;
        let mut column = 0;
        while column < task.columns {
            if ahead {
                for i in 0..I {
                    V::prefetch(next.wrapping_add(i * V::COUNT));
                }
                next = next.wrapping_add(I * V::COUNT);
            }
            // The two vectors of a strip.
            for within in [0, V::COUNT] {
                let mut x = [zero; R];
                for r in 0..R {
                    x[r] = V::load(messages.add(r * task.messages_stride + column + within));
                }
                for i in 0..I {
                    let y = V::load(matrix.add(i * task.stride + within));
                    for r in 0..R {
                        sums[i][r] = x[r].multiply_add(y, sums[i][r]);
                    }
                }
            }
            // This pointer is not used after it has left its slice.
            matrix = matrix.wrapping_add(task.strips);
            column += 2 * V::COUNT;
        }
        let output = task.output.as_mut_ptr().add(message * task.output_stride + row);
        V::add_sums(&sums, output, task.output_stride);
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
    // SAFETY: guaranteed by the caller and by the loop conditions.
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

/// The forward product of a tile. With `WIDE`, V is one of 32 registers, otherwise it takes two of 16.
///
/// # Safety
/// The task must have been checked, and the instructions of V must be available.
#[inline(always)]
pub(super) unsafe fn forward<F: Copy, V: Lanes<F>, const WIDE: bool>(mut task: Forward<'_, F>, zero: F) {
    // SAFETY: guaranteed by the caller; the block is a multiple of these numbers.
    unsafe {
        let zero = V::splat(zero);
        match (WIDE, task.block) {
            (true, 8) => forward_tile::<F, V, 8, 2>(&mut task, zero),
            (true, 4) => forward_tile::<F, V, 4, 4>(&mut task, zero),
            (true, 2) => forward_tile::<F, V, 2, 8>(&mut task, zero),
            (true, _) => forward_tile::<F, V, 1, 8>(&mut task, zero),
            (false, 8 | 4) => forward_tile::<F, V, 4, 1>(&mut task, zero),
            (false, 2) => forward_tile::<F, V, 2, 2>(&mut task, zero),
            (false, _) => forward_tile::<F, V, 1, 4>(&mut task, zero),
        }
    }
}

/// Number of rows of M that a backward product keeps in the first-level cache while all messages are
/// processed.
const CACHED_ROWS: usize = 8;

/// The backward product of a tile; `WIDE` as for [`forward`].
///
/// # Safety
/// As for [`forward`].
#[inline(always)]
pub(super) unsafe fn backward<F: Copy + std::ops::AddAssign, V: Lanes<F>, const WIDE: bool>(
    mut task: Backward<'_, F>,
    zero: F,
) {
    // SAFETY: guaranteed by the caller and by the conditions on the remaining messages.
    unsafe {
        let zero = V::splat(zero);
        let mut row = 0;
        while row < task.rows {
            let rows = row..task.rows.min(row + CACHED_ROWS);
            let mut message = 0;
            while message < task.count {
                let rows = rows.clone();
                message += match (WIDE, task.count - message) {
                    (true, 1) => {
                        backward_rows::<F, V, 8, 1>(&mut task, zero, rows, message);
                        1
                    }
                    (true, 2..=3) => {
                        backward_rows::<F, V, 4, 2>(&mut task, zero, rows, message);
                        2
                    }
                    (true, _) => {
                        backward_rows::<F, V, 4, 4>(&mut task, zero, rows, message);
                        4
                    }
                    (false, 1) => {
                        backward_rows::<F, V, 4, 1>(&mut task, zero, rows, message);
                        1
                    }
                    (false, _) => {
                        backward_rows::<F, V, 2, 2>(&mut task, zero, rows, message);
                        2
                    }
                };
            }
            row = rows.end;
        }
    }
}
