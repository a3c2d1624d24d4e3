//! One step of variable elimination: combines the tables that contain a variable v, over the clique (v,
//! others).
//!
//! All tables have their axes in elimination order, with v first and slowest, so that for each state of v a
//! table is contiguous over the other variables. The table of the clique is never formed. For a tile of joint
//! states of the others, the product of all tables is computed in a buffer that stays in the cache, for one
//! state of v at a time, and accumulated immediately. Small tables are first multiplied into one pattern over
//! the tile's axes, so that a tile reads little more than the large tables.
//!
//! Products are computed in the linear domain if they cannot underflow, otherwise in the log domain.

use std::borrow::Cow;

use crate::numeric::parallel::prelude::*;

use crate::error::Result;
use crate::model::table;
use crate::numeric::{self, Offsets};
use crate::run::Clock;

/// Entries per tile. With one buffer per thread a tile stays in the first-level cache.
const TILE: usize = 1024;
/// Entries in all slabs of a tile (one slab per state of v), where all slabs are needed at once.
const SLABS: usize = 1 << 14;
/// Smaller problems are not worth a second thread.
const PARALLEL: usize = 1 << 14;
/// Maximum number of entries of a pattern, chosen to fit the second-level cache.
const PATTERN: usize = 1 << 15;

/// Representation of the weights in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Domain {
    /// Weights; tables are multiplied.
    Linear,
    /// Logarithms of weights; tables are added.
    Log,
}

/// How v is eliminated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reduce {
    /// Sums out v: Σ, or log Σ exp.
    Sum,
    /// Maximises over v; log domain only.
    Max,
}

/// The tables that contain one variable v.
pub(crate) struct Bucket<'a> {
    domain: Domain,
    states: usize,
    lengths: Vec<usize>,
    operands: Vec<Operand<'a>>,
    /// The trailing axes are processed `block` entries at a time, with precomputed offsets.
    block: usize,
    outer_axes: usize,
    /// Exponent w of the power sum (Σ x^(1/w))^w, in the log domain; 1 gives the plain sum.
    weight: f64,
}

struct Operand<'a> {
    values: Cow<'a, [f64]>,
    /// Distance between consecutive states of v.
    variable_stride: usize,
    /// Distance between consecutive states along each of the other axes; 0 if the table does not have that
    /// axis.
    strides: Vec<usize>,
    /// Positions of the entries of one block.
    inner: Inner,
}

enum Inner {
    Constant,
    Contiguous,
    Offsets(Offsets),
}

impl<'a> Bucket<'a> {
    /// An empty bucket for a variable with `states` states; `lengths` are the numbers of states of the
    /// others, in order.
    pub fn new(domain: Domain, states: usize, lengths: Vec<usize>) -> Self {
        let (mut block, mut outer_axes) = (1, lengths.len());
        while outer_axes > 0 && block < TILE {
            outer_axes -= 1;
            block *= lengths[outer_axes];
        }
        Bucket { domain, states, lengths, operands: Vec::new(), block, outer_axes, weight: 1.0 }
    }

    /// Replaces sums by power sums (Σ x^(1/w))^w; log domain only. With a negative power, a zero term makes
    /// the sum zero.
    pub fn with_weight(mut self, weight: f64) -> Self {
        self.weight = weight;
        self
    }

    /// Adds a table over (v, scope). `axes` gives the positions of its scope among the others, in ascending
    /// order.
    pub fn push(&mut self, values: Cow<'a, [f64]>, axes: &[usize]) {
        let lengths: Vec<usize> = axes.iter().map(|&axis| self.lengths[axis]).collect();
        let mut strides = vec![0; self.lengths.len()];
        for (&axis, stride) in axes.iter().zip(table::strides(&lengths)) {
            strides[axis] = stride;
        }
        let variable_stride = values.len() / self.states;
        self.push_strided(values, variable_stride, strides);
    }

    fn push_strided(&mut self, values: Cow<'a, [f64]>, variable_stride: usize, strides: Vec<usize>) {
        let (lengths, inner_strides) = (&self.lengths[self.outer_axes..], &strides[self.outer_axes..]);
        let inner = if inner_strides.iter().all(|&stride| stride == 0) {
            Inner::Constant
        } else if inner_strides == table::strides(lengths) {
            Inner::Contiguous
        } else {
            Inner::Offsets(Offsets::new(lengths, inner_strides))
        };
        self.operands.push(Operand { values, variable_stride, strides, inner });
    }

    /// The representation of the weights.
    pub fn domain(&self) -> Domain {
        self.domain
    }

    /// The number of joint states of the others.
    pub fn len(&self) -> usize {
        self.lengths.iter().product()
    }

    /// Multiplies small tables into patterns. This pays off if the whole bucket is processed.
    pub fn with_patterns(mut self) -> Self {
        let work = self.len().saturating_mul(self.states);
        if self.states * self.block > work / 8 {
            return self;
        }
        let outer: Vec<usize> = (0..self.outer_axes).collect();
        let (small, mut large): (Vec<_>, Vec<_>) = std::mem::take(&mut self.operands)
            .into_iter()
            .partition(|operand| operand.values.len() <= PATTERN);
        // The axes of a pattern: all inner axes, and the outer axes of its tables.
        let mut groups: Vec<(Vec<usize>, Vec<Operand<'a>>)> = Vec::new();
        let (lengths, slab) = (self.lengths.clone(), self.states * self.block);
        let size = |axes: &[usize]| axes.iter().fold(slab, |size, &axis| size.saturating_mul(lengths[axis]));
        let fits = |axes: &[usize]| size(axes) <= PATTERN && size(axes) <= work / 8;
        for operand in small {
            let own: Vec<usize> = outer.iter().copied().filter(|&axis| operand.strides[axis] > 0).collect();
            let joined = |axes: &Vec<usize>| -> Vec<usize> {
                outer.iter().copied().filter(|axis| axes.contains(axis) || own.contains(axis)).collect()
            };
            match groups.iter_mut().rev().take(8).find(|(axes, _)| fits(&joined(axes))) {
                Some((axes, operands)) => {
                    *axes = joined(axes);
                    operands.push(operand);
                }
                None => groups.push((own, vec![operand])),
            }
        }
        for (axes, operands) in groups {
            let gathered = operands.iter().any(|operand| matches!(operand.inner, Inner::Offsets(_)));
            if operands.len() > 1 || (gathered && fits(&axes)) {
                self.operands.append(&mut large);
                self.push_pattern(&axes, operands);
                large = std::mem::take(&mut self.operands);
            } else {
                large.extend(operands);
            }
        }
        self.operands = large;
        self
    }

    /// Adds the product of `operands` as one table over v, the outer `axes` and all inner axes.
    fn push_pattern(&mut self, axes: &[usize], operands: Vec<Operand<'a>>) {
        let kept: Vec<usize> = axes.iter().copied().chain(self.outer_axes..self.lengths.len()).collect();
        let mut own = Bucket {
            domain: self.domain,
            states: self.states,
            lengths: kept.iter().map(|&axis| self.lengths[axis]).collect(),
            operands: Vec::new(),
            block: self.block,
            outer_axes: axes.len(),
            weight: 1.0,
        };
        own.operands = operands;
        for operand in &mut own.operands {
            operand.strides = kept.iter().map(|&axis| operand.strides[axis]).collect();
        }
        let (len, block) = (own.len(), self.block);
        let mut pattern = vec![0.0; self.states * len];
        for (i, tile) in pattern.chunks_exact_mut(block).enumerate() {
            own.product(i / (len / block), i % (len / block), 0, tile);
        }
        let mut strides = vec![0; self.lengths.len()];
        for (&axis, stride) in kept.iter().zip(table::strides(&own.lengths)) {
            strides[axis] = stride;
        }
        self.push_strided(Cow::Owned(pattern), len, strides);
    }

    /// out(others) = Σ or max over v of the product of all tables, in the domain of the bucket.
    pub fn reduce(&self, reduce: Reduce, out: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let work = |block: usize, buffer: &mut Vec<f64>, out: &mut [f64]| -> Result<()> {
            clock.check()?;
            let tile = match (self.domain, reduce) {
                (Domain::Log, Reduce::Sum) => (SLABS / self.states).clamp(16, TILE),
                _ => TILE,
            };
            for (t, out) in out.chunks_mut(tile).enumerate() {
                self.reduce_tile(reduce, block, t * tile, buffer, out);
            }
            Ok(())
        };
        if out.len() * self.states < PARALLEL {
            let mut buffer = Vec::new();
            let mut blocks = out.chunks_mut(self.block).enumerate();
            return blocks.try_for_each(|(block, out)| work(block, &mut buffer, out));
        }
        out.par_chunks_mut(self.block)
            .enumerate()
            .try_for_each_init(Vec::new, |buffer, (block, out)| work(block, buffer, out))
    }

    fn reduce_tile(
        &self,
        reduce: Reduce,
        block: usize,
        start: usize,
        buffer: &mut Vec<f64>,
        out: &mut [f64],
    ) {
        let len = out.len();
        match (self.domain, reduce) {
            (Domain::Linear, _) | (Domain::Log, Reduce::Max) => {
                let join =
                    if self.domain == Domain::Linear { numeric::add_assign } else { numeric::max_assign };
                buffer.resize(len, 0.0);
                self.product(0, block, start, out);
                for state in 1..self.states {
                    self.product(state, block, start, &mut buffer[..len]);
                    join(out, &buffer[..len]);
                }
            }
            (Domain::Log, Reduce::Sum) => {
                buffer.resize(len * self.states, 0.0);
                for (state, slab) in buffer[..len * self.states].chunks_exact_mut(len).enumerate() {
                    self.product(state, block, start, slab);
                }
                let slabs = &mut buffer[..len * self.states];
                if self.weight == 1.0 {
                    numeric::log_sum_exp_over_slabs(slabs, out);
                } else {
                    numeric::power_sum_over_slabs(slabs, self.weight, out);
                }
            }
        }
    }

    /// Computes the table of the whole clique, as one slab over the others per state of v.
    /// `finish(start, tile)` is called once for every tile of the product; `start` is the index of its first
    /// joint state of the others.
    pub fn fill(
        &self,
        clique: &mut [f64],
        clock: &Clock<'_>,
        finish: impl Fn(usize, &mut [f64]) + Sync,
    ) -> Result<()> {
        let blocks = self.len() / self.block;
        let work = |i: usize, out: &mut [f64]| -> Result<()> {
            clock.check()?;
            let (state, block) = (i / blocks, i % blocks);
            for (t, out) in out.chunks_mut(TILE).enumerate() {
                self.product(state, block, t * TILE, out);
                finish(block * self.block + t * TILE, out);
            }
            Ok(())
        };
        if clique.len() < PARALLEL {
            clique.chunks_mut(self.block).enumerate().try_for_each(|(i, out)| work(i, out))
        } else {
            clique.par_chunks_mut(self.block).enumerate().try_for_each(|(i, out)| work(i, out))
        }
    }

    /// The product of all tables at one state of v, for the joint states of the others from
    /// `block·self.block + start` on.
    fn product(&self, state: usize, block: usize, start: usize, out: &mut [f64]) {
        let mut empty = true;
        for operand in &self.operands {
            let mut base = state * operand.variable_stride;
            let mut rest = block;
            for axis in (0..self.outer_axes).rev() {
                base += rest % self.lengths[axis] * operand.strides[axis];
                rest /= self.lengths[axis];
            }
            let values = &operand.values[base..];
            match (&operand.inner, self.domain, empty) {
                (Inner::Constant, _, true) => out.fill(values[0]),
                (Inner::Constant, Domain::Linear, _) => out.iter_mut().for_each(|x| *x *= values[0]),
                (Inner::Constant, Domain::Log, _) => out.iter_mut().for_each(|x| *x += values[0]),
                (Inner::Contiguous, _, true) => out.copy_from_slice(&values[start..start + out.len()]),
                (Inner::Contiguous, Domain::Linear, _) => numeric::multiply_assign(out, &values[start..]),
                (Inner::Contiguous, Domain::Log, _) => numeric::add_assign(out, &values[start..]),
                (Inner::Offsets(offsets), _, true) => offsets.copy(out, values, start),
                (Inner::Offsets(offsets), Domain::Linear, _) => offsets.multiply(out, values, start),
                (Inner::Offsets(offsets), Domain::Log, _) => offsets.add(out, values, start),
            }
            empty = false;
        }
        if empty {
            out.fill(if self.domain == Domain::Linear { 1.0 } else { 0.0 });
        }
    }
}
