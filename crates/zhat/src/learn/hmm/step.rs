//! The step of a forward or backward pass: a few rows of messages times the transition matrix.
//!
//! The matrix is stored in strips of sixteen columns, so that it is read in the order of memory. A strip of the result
//! for up to eight rows stays in registers ([`SmallProduct`]). 2·N² operations per row; the bits of a row do not depend
//! on the other rows.

use crate::numeric::{Small, SmallProduct};

/// Columns per strip: two vectors.
const STRIP: usize = 16;

/// A matrix in strips.
#[derive(Debug)]
pub(super) struct Strips {
    states: usize,
    numbers: Vec<f64>,
}

impl Strips {
    /// The strips of an N × N matrix, or of its transpose; columns are padded with zeros to whole strips.
    pub fn new(matrix: &[f64], states: usize, transposed: bool) -> Self {
        let mut numbers = vec![0.0; states * states.next_multiple_of(STRIP)];
        for i in 0..states {
            for j in 0..states {
                let value = if transposed { matrix[j * states + i] } else { matrix[i * states + j] };
                numbers[(j / STRIP) * states * STRIP + i * STRIP + j % STRIP] = value;
            }
        }
        Strips { states, numbers }
    }

    /// out ← messages·M, both with rows of `width` numbers, a multiple of eight.
    pub fn multiply(&self, messages: &[f64], out: &mut [f64], width: usize) {
        let rows = (messages.len() / width).min(out.len() / width);
        if rows == 0 {
            return;
        }
        for (strip, numbers) in self.numbers.chunks_exact(self.states * STRIP).enumerate() {
            let column = strip * STRIP;
            f64::small_product(SmallProduct {
                a: messages,
                row_stride: width,
                inner_stride: 1,
                b: numbers,
                b_stride: STRIP,
                c: &mut out[column..],
                c_stride: width,
                rows,
                inner: self.states,
                width: STRIP.min(width - column),
                accumulate: false,
            });
        }
    }
}
