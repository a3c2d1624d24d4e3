//! Derivatives with respect to the log factors.
//!
//! ∂/∂left(i, r) = U(i, r)·Σₖ leftₖ(i)·dₖ(r) with dₖ(r) = Σⱼ V(j, r)·rightₖ(j), for all messages k at once; the
//! same for right with the sides exchanged. With a direction D, Σⱼ (Σₖ leftₖ(i)·rightₖ(j)·D(i, j))·V(j, r) takes
//! the place of the sum, tile by tile.

use super::Factors;
use super::side::{BLOCK, Side};
use crate::method::dynamic::lattice::entries::Entries;
use crate::method::dynamic::lattice::steps::gradient::{self, blocks};
use crate::method::dynamic::lattice::steps::sweep::map_all;
use crate::method::dynamic::lattice::steps::tiles::Unweighted;
use crate::numeric::{Aligned, Forward, Real, strip};

/// The messages on both sides of boundary t, and the direction.
pub(super) struct Edges<'a, F: Real> {
    pub t: usize,
    pub count: usize,
    pub left: &'a [F],
    pub right: &'a [F],
    pub direction: &'a dyn Entries<F>,
}

impl<F: Real> Factors<'_, F> {
    pub(super) fn add_gradient(
        &self,
        count: usize,
        left: &[F],
        right: &[F],
        to_left: &mut [F],
        to_right: &mut [F],
    ) {
        let before = self.left.pass(Some((count, left)), None);
        let after = self.right.pass(Some((count, right)), None);
        self.left.add_products(count, left, &after, to_left);
        self.right.add_products(count, right, &before, to_right);
    }

    pub(super) fn add_directed_gradient(&self, edges: &Edges<'_, F>, to_left: &mut [F], to_right: &mut [F]) {
        let &Edges { t, count, left, right, direction } = edges;
        let stride = self.left.stride();
        let mut of_left = vec![F::ZERO; self.left.len() * stride];
        let mut of_right = vec![F::ZERO; self.right.len() * stride];
        let edges = gradient::Edges {
            t,
            sets: None,
            states: 0,
            pattern: None,
            count,
            left,
            right,
            direction: Some(direction),
        };
        edges.add_to_embeddings(&Unweighted(self.tiles()), &mut of_left, Some(&mut of_right));
        self.left.add_weighted(&of_left, to_left);
        self.right.add_weighted(&of_right, to_right);
    }
}

impl<F: Real> Side<'_, F> {
    /// out(i, r) += X(i, r)·Σₖ message_k(i)·middle_k(r).
    fn add_products(&self, count: usize, messages: &[F], middle: &[F], out: &mut [F]) {
        let (states, stride, rank) = (self.len(), self.stride(), self.rank());
        let of_rows = |first: usize, height: usize, add: &mut dyn FnMut(usize, &[F])| {
            let (mut packed, mut products) = (Aligned::default(), Aligned::default());
            for (at, block) in blocks(height) {
                let from = first + at;
                let packed = packed.room(count * block);
                for (k, packed) in packed.chunks_exact_mut(block).enumerate() {
                    packed.copy_from_slice(&messages[k * states + from..][..block]);
                }
                let products = products.room(block * stride);
                F::forward(Forward {
                    rows: count,
                    columns: stride,
                    block,
                    messages: packed,
                    matrix: middle,
                    stride,
                    strips: strip::<F>(),
                    output: products,
                    output_stride: stride,
                    weights: Some((&self.factors()[from * stride..], stride)),
                    accumulate: false,
                    next: &[],
                });
                for (k, row) in products.chunks_exact(stride).enumerate() {
                    add(from + k, &row[..rank]);
                }
            }
        };
        if self.chosen() {
            // A set may contain a state twice, so one thread adds all rows.
            return of_rows(0, states, &mut |i, row| {
                F::add_to(&mut out[self.state(i) * rank..][..rank], row)
            });
        }
        map_all(out.chunks_mut(BLOCK * rank).enumerate(), states * stride * count, |(block, out)| {
            let first = block * BLOCK;
            of_rows(first, out.len() / rank, &mut |i, row| {
                F::add_to(&mut out[(i - first) * rank..][..rank], row);
            });
        });
    }

    /// out(i, r) += X(i, r)·sums(i, r); the rows of `sums` are padded.
    fn add_weighted(&self, sums: &[F], out: &mut [F]) {
        let (stride, rank) = (self.stride(), self.rank());
        for (i, sums) in sums.chunks_exact(stride).enumerate() {
            let out = &mut out[self.state(i) * rank..][..rank];
            for ((x, &factor), &sum) in out.iter_mut().zip(self.row(i)).zip(sums) {
                *x += factor * sum;
            }
        }
    }
}
