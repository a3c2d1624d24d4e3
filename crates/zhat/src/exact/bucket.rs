//! One step of variable elimination: the tables that meet at a variable v, over a clique (v, others).
//!
//! All tables have their axes in elimination order, v first and slowest, so that for each state of v a table is
//! contiguous over the others. The clique's own table is never formed: for a tile of the others' states the sum of
//! all tables is built in a small buffer, one slab a state of v, and reduced over v right away.

use rayon::prelude::*;

use crate::error::Result;
use crate::model::table;
use crate::numeric;
use crate::run::Clock;

/// Entries of the slab buffer: small enough to stay in the second-level cache.
const BUFFER: usize = 1 << 14;
/// Fewer entries than this are not worth a second thread.
const PARALLEL: usize = 1 << 14;

/// How v is eliminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    /// log Σ exp: sums out v.
    LogSumExp,
    /// max: for the best state.
    Max,
}

/// The tables of one variable.
pub(crate) struct Bucket<'a> {
    states: usize,
    lengths: Vec<usize>,
    operands: Vec<Operand<'a>>,
    /// Trailing axes are handled `block` entries at a time, with precomputed offsets.
    block: usize,
    outer_axes: usize,
    tile: usize,
}

struct Operand<'a> {
    values: &'a [f64],
    /// How far a step of v moves.
    variable_stride: usize,
    /// How far a step on each of the others' axes moves; 0 where the table does not have the axis.
    strides: Vec<usize>,
    /// Where the entries of one block are.
    inner: Inner,
}

enum Inner {
    Constant,
    Contiguous,
    Offsets(Vec<u32>),
}

impl<'a> Bucket<'a> {
    /// A bucket of a variable with `states` states over `others`, whose lengths are given in the same order.
    pub fn new(states: usize, lengths: Vec<usize>) -> Self {
        let tile = (BUFFER / states).clamp(16, 1024);
        let (mut block, mut outer_axes) = (1, lengths.len());
        while outer_axes > 0 && block < tile {
            outer_axes -= 1;
            block *= lengths[outer_axes];
        }
        Bucket { states, lengths, operands: Vec::new(), block, outer_axes, tile: tile.min(block) }
    }

    /// Adds a table over (v, scope) where `axes` says which of the others its further axes are, ascending.
    pub fn push(&mut self, values: &'a [f64], axes: &[usize]) {
        let lengths: Vec<usize> = axes.iter().map(|&axis| self.lengths[axis]).collect();
        let mut strides = vec![0; self.lengths.len()];
        for (&axis, stride) in axes.iter().zip(table::strides(&lengths)) {
            strides[axis] = stride;
        }
        let inner = block_offsets(&self.lengths[self.outer_axes..], &strides[self.outer_axes..]);
        self.operands.push(Operand { values, variable_stride: values.len() / self.states, strides, inner });
    }

    /// The number of states of the others.
    pub fn len(&self) -> usize {
        self.lengths.iter().product()
    }

    /// out(others) = reduce over v of the sum of all tables.
    pub fn reduce(&self, reduce: Reduce, out: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let work = |block: usize, slabs: &mut Vec<f64>, out: &mut [f64]| -> Result<()> {
            clock.check()?;
            for (t, out) in out.chunks_mut(self.tile).enumerate() {
                self.fill_slabs(block, t * self.tile, out.len(), slabs);
                match reduce {
                    Reduce::LogSumExp => numeric::log_sum_exp_over_slabs(slabs, out),
                    Reduce::Max => numeric::max_over_slabs(slabs, out),
                }
            }
            Ok(())
        };
        if out.len() * self.states < PARALLEL {
            let mut slabs = Vec::new();
            let mut blocks = out.chunks_mut(self.block).enumerate();
            return blocks.try_for_each(|(block, out)| work(block, &mut slabs, out));
        }
        out.par_chunks_mut(self.block)
            .enumerate()
            .try_for_each_init(Vec::new, |slabs, (block, out)| work(block, slabs, out))
    }

    /// Goes through all tiles in order: `visit(start, slabs)`, where `slabs` holds one slab a state of v with the sums
    /// for the others' states from `start` on.
    pub fn visit(&self, clock: &Clock<'_>, mut visit: impl FnMut(usize, &mut [f64])) -> Result<()> {
        let mut slabs = Vec::new();
        for block in 0..self.len() / self.block {
            clock.check()?;
            for start in (0..self.block).step_by(self.tile) {
                self.fill_slabs(block, start, self.tile.min(self.block - start), &mut slabs);
                visit(block * self.block + start, &mut slabs);
            }
        }
        Ok(())
    }

    /// slabs[x_v·len + i] = Σ tables at x_v and the others' state `block·self.block + start + i`.
    fn fill_slabs(&self, block: usize, start: usize, len: usize, slabs: &mut Vec<f64>) {
        slabs.clear();
        slabs.resize(self.states * len, 0.0);
        for operand in &self.operands {
            let mut base = 0;
            let mut rest = block;
            for axis in (0..self.outer_axes).rev() {
                base += rest % self.lengths[axis] * operand.strides[axis];
                rest /= self.lengths[axis];
            }
            for (state, slab) in slabs.chunks_exact_mut(len).enumerate() {
                operand.add_to(slab, base + state * operand.variable_stride, start);
            }
        }
    }
}

impl Operand<'_> {
    #[inline]
    fn add_to(&self, slab: &mut [f64], base: usize, start: usize) {
        match &self.inner {
            Inner::Constant => {
                let value = self.values[base];
                slab.iter_mut().for_each(|x| *x += value);
            }
            Inner::Contiguous => {
                let values = &self.values[base + start..][..slab.len()];
                slab.iter_mut().zip(values).for_each(|(x, value)| *x += value);
            }
            Inner::Offsets(offsets) => {
                let values = &self.values[base..];
                let offsets = &offsets[start..][..slab.len()];
                slab.iter_mut().zip(offsets).for_each(|(x, &offset)| *x += values[offset as usize]);
            }
        }
    }
}

/// The offsets of a block's entries under these strides, in the cheapest form.
fn block_offsets(lengths: &[usize], strides: &[usize]) -> Inner {
    if strides.iter().all(|&stride| stride == 0) {
        return Inner::Constant;
    }
    if strides == table::strides(lengths) {
        return Inner::Contiguous;
    }
    Inner::Offsets(offsets(lengths, strides))
}

/// Σ digits · strides for every state of the axes, row-major.
pub(crate) fn offsets(lengths: &[usize], strides: &[usize]) -> Vec<u32> {
    let mut offsets = vec![0u32];
    for (&length, &stride) in lengths.iter().zip(strides) {
        let step = |offset: u32| (0..length).map(move |s| offset + (s * stride) as u32);
        offsets = offsets.into_iter().flat_map(step).collect();
    }
    offsets
}
