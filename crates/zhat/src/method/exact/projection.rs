//! Marginalisation of a clique table to some of its variables, and multiplication by a table over them.

use crate::numeric::parallel::prelude::*;

use crate::model::table;
use crate::numeric::Offsets;

/// Number of entries that share one list of offsets.
const BLOCK: usize = 512;
/// Smaller problems are not worth a second thread.
const PARALLEL: usize = 1 << 14;

/// Index mapping from a table over (v, others) to a table over (v, some of the others).
pub(crate) struct Projection {
    states: usize,
    /// Lengths of the leading axes of the others, which are iterated over. The trailing axes share a list of
    /// offsets.
    outer: Vec<usize>,
    strides: Vec<usize>,
    inner: Offsets,
    block: usize,
    /// Distance between consecutive states of v in the smaller table.
    own: usize,
}

impl Projection {
    /// `lengths` are the numbers of states of v and the others; `axes` are the positions of the others that
    /// are kept, in ascending order.
    pub fn new(lengths: &[usize], axes: &[usize]) -> Self {
        let (states, others) = (lengths[0], &lengths[1..]);
        let kept: Vec<usize> = axes.iter().map(|&axis| others[axis]).collect();
        let mut strides = vec![0; others.len()];
        for (&axis, stride) in axes.iter().zip(table::strides(&kept)) {
            strides[axis] = stride;
        }
        let (mut block, mut outer) = (1, others.len());
        while outer > 0 && block < BLOCK {
            outer -= 1;
            block *= others[outer];
        }
        let inner = Offsets::new(&others[outer..], &strides[outer..]);
        strides.truncate(outer);
        let own = kept.iter().product();
        Projection { states, outer: others[..outer].to_vec(), strides, inner, block, own }
    }

    /// Start of each block of a slab in the smaller table.
    fn bases(&self) -> impl Iterator<Item = usize> {
        let mut digits = vec![0; self.outer.len()];
        std::iter::from_fn(move || {
            let base = digits.iter().zip(&self.strides).map(|(&digit, &stride)| digit * stride).sum();
            table::advance(&mut digits, &self.outer);
            Some(base)
        })
    }

    /// Sums the clique over the variables that are not kept and adds the result to `marginal`.
    pub fn sum(&self, clique: &[f64], marginal: &mut [f64]) {
        let work = |(slab, marginal): (&[f64], &mut [f64])| {
            for (base, chunk) in self.bases().zip(slab.chunks_exact(self.block)) {
                self.inner.scatter_add(&mut marginal[base..], chunk);
            }
        };
        let slab = clique.len() / self.states;
        if clique.len() < PARALLEL {
            clique.chunks_exact(slab).zip(marginal.chunks_exact_mut(self.own)).for_each(work);
        } else {
            clique.par_chunks_exact(slab).zip(marginal.par_chunks_exact_mut(self.own)).for_each(work);
        }
    }

    /// Multiplies the clique by a table over the variables that are kept.
    pub fn multiply(&self, clique: &mut [f64], factor: &[f64]) {
        let work = |(slab, factor): (&mut [f64], &[f64])| {
            for (base, chunk) in self.bases().zip(slab.chunks_exact_mut(self.block)) {
                self.inner.multiply(chunk, &factor[base..], 0);
            }
        };
        let slab = clique.len() / self.states;
        if clique.len() < PARALLEL {
            clique.chunks_exact_mut(slab).zip(factor.chunks_exact(self.own)).for_each(work);
        } else {
            clique.par_chunks_exact_mut(slab).zip(factor.par_chunks_exact(self.own)).for_each(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_products_agree_with_the_definition() {
        let lengths = [2, 3, 2, 20, 30];
        let len: usize = lengths.iter().product();
        let clique: Vec<f64> = (0..len).map(|i| ((i * 37) % 101) as f64).collect();
        let axes: [&[usize]; 5] = [&[], &[0], &[1, 3], &[0, 1, 2, 3], &[2]];
        for axes in axes {
            let projection = Projection::new(&lengths, axes);
            let size: usize = 2 * axes.iter().map(|&axis| lengths[axis + 1]).product::<usize>();
            let place = |i: usize| {
                let (mut rest, mut digits) = (i, [0; 5]);
                for axis in (0..5).rev() {
                    digits[axis] = rest % lengths[axis];
                    rest /= lengths[axis];
                }
                axes.iter().fold(digits[0], |at, &axis| at * lengths[axis + 1] + digits[axis + 1])
            };
            let (mut sums, mut want) = (vec![0.0; size], vec![0.0; size]);
            projection.sum(&clique, &mut sums);
            clique.iter().enumerate().for_each(|(i, x)| want[place(i)] += x);
            assert_eq!(sums, want, "{axes:?}");
            let factor: Vec<f64> = (0..size).map(|i| 1.0 + i as f64).collect();
            let mut product = clique.clone();
            projection.multiply(&mut product, &factor);
            assert!((0..len).all(|i| product[i] == clique[i] * factor[place(i)]), "{axes:?}");
        }
    }
}
