//! Passes over the factors: sums over states for each intermediate state, and the other way round.
//!
//! The rows are divided into blocks of fixed size. A block adds up its tiles, and the sums of the blocks are
//! added in order, so the bits do not depend on the number of threads.

use std::ops::Range;

use super::side::{BLOCK, Side};
use super::{Factors, Product};
use crate::method::dynamic::lattice::steps::sweep::map_all;
use crate::method::dynamic::lattice::steps::tiles::pieces;
use crate::numeric::{Aligned, Backward, Forward, Real, block_of, strip};

/// Rows per tile.
pub(super) const ROWS: usize = 64;

impl<F: Real> Factors<'_, F> {
    /// output = input·M for `forward` and output = input·Mᵀ for `backward`.
    pub(super) fn multiply(&self, forward: Option<Product<'_, F>>, backward: Option<Product<'_, F>>) {
        let ahead = forward.map(|task| {
            let middle = self.left.pass(Some((task.count, task.input)), None);
            (middle, task)
        });
        let inward = backward.as_ref().map(|task| (task.count, task.input));
        let outward = ahead.map(|(middle, task)| Outward::new(task.count, middle, task.output));
        let middle = self.right.pass(inward, outward);
        if let Some(task) = backward {
            self.left.pass(None, Some(Outward::new(task.count, middle, task.output)));
        }
    }
}

/// output_k(i) = Σᵣ middle_k(r)·X(i, r) for `count` messages.
pub(super) struct Outward<'a, F> {
    count: usize,
    middle: Aligned<F>,
    output: &'a mut [F],
}

impl<'a, F> Outward<'a, F> {
    pub fn new(count: usize, middle: Aligned<F>, output: &'a mut [F]) -> Self {
        Outward { count, middle, output }
    }
}

impl<F: Real> Side<'_, F> {
    /// One pass over X for two products: returns Σᵢ input_k(i)·X(i, r) for the messages of `inward`, each
    /// padded to whole strips, and computes the products of `outward`.
    pub(super) fn pass(&self, inward: Option<(usize, &[F])>, outward: Option<Outward<'_, F>>) -> Aligned<F> {
        let (states, stride) = (self.len(), self.stride());
        let (count, input) = inward.unwrap_or_default();
        let (out_count, middle, output) = match outward {
            Some(Outward { count, middle, output }) => (count, middle, output),
            None => (0, Aligned::default(), &mut [][..]),
        };
        // The part of each output that belongs to each block.
        let mut parts: Vec<(Range<usize>, Vec<&mut [F]>)> =
            pieces(0..states, BLOCK).map(|rows| (rows, Vec::with_capacity(out_count))).collect();
        for row in output.chunks_mut(states.max(1)).take(out_count) {
            for (part, (_, slices)) in row.chunks_mut(BLOCK).zip(&mut parts) {
                slices.push(part);
            }
        }
        let work = states * stride * (count + out_count);
        let sums = map_all(parts.into_iter(), work, |(rows, mut outputs)| {
            let mut sums = Aligned::zeros(padded_count(count) * stride);
            let mut messages = Aligned::default();
            let mut products = Aligned::default();
            for tile in pieces(rows.clone(), ROWS) {
                let matrix = &self.factors()[tile.start * stride..];
                if out_count > 0 {
                    let products = products.room(out_count * tile.len());
                    products.fill(F::ZERO);
                    F::backward(Backward {
                        rows: tile.len(),
                        columns: stride,
                        count: out_count,
                        messages: &middle,
                        messages_stride: stride,
                        matrix,
                        stride,
                        strips: strip::<F>(),
                        output: products,
                        output_stride: tile.len(),
                        next: &[],
                    });
                    for (out, products) in outputs.iter_mut().zip(products.chunks_exact(tile.len())) {
                        out[tile.start - rows.start..][..tile.len()].copy_from_slice(products);
                    }
                }
                let mut first = 0;
                while first < count {
                    let block = block_of(count - first);
                    let messages = messages.room(tile.len() * block);
                    interleave(messages, block, |k| {
                        let k = first + k;
                        (k < count).then(|| &input[k * states..][tile.clone()])
                    });
                    F::forward(Forward {
                        rows: tile.len(),
                        columns: stride,
                        block,
                        messages,
                        matrix,
                        stride,
                        strips: strip::<F>(),
                        output: &mut sums[first * stride..],
                        output_stride: stride,
                        weights: None,
                        accumulate: true,
                        next: &[],
                    });
                    first += block;
                }
            }
            sums
        });
        let mut total = Aligned::zeros(padded_count(count) * stride);
        sums.iter().for_each(|sums| F::add_to(&mut total, sums));
        total
    }
}

/// The number of messages, including those that fill up the last block.
fn padded_count(count: usize) -> usize {
    let whole = count / 8 * 8;
    whole + block_of(count - whole)
}

/// Stores `block` messages with their numbers for one row side by side. Missing messages are zeros.
fn interleave<'a, F: Real>(out: &mut [F], block: usize, message: impl Fn(usize) -> Option<&'a [F]>) {
    if let (1, Some(message)) = (block, message(0)) {
        return out.copy_from_slice(message);
    }
    for k in 0..block {
        let column = out.iter_mut().skip(k).step_by(block);
        match message(k) {
            Some(message) => column.zip(message).for_each(|(x, &y)| *x = y),
            None => column.for_each(|x| *x = F::ZERO),
        }
    }
}
