//! Messages of chains with few states, in the linear domain.
//!
//! With Eₜ = exp(Fₜ − max Fₜ),
//!
//!   forward  aₜ₊₁ = (aₜ·Mₜ) ∘ Eₜ₊₁,   backward bₜ = Mₜ·wₜ₊₁,  wₜ = Eₜ ∘ bₜ,
//!
//! where a and w are scaled by powers of two. The marginals are aₜ ∘ bₜ / nₜ with nₜ = Σᵢ aₜ(i)·bₜ(i), and the
//! expected transitions are Mₜ ∘ aₜᵀ(wₜ₊₁/nₜ), summed over t if all steps have one table (`tables`). A product, and
//! each pass over the numbers of a layer, is one call for a block of up to `BLOCK` sequences of similar lengths.
//! Blocks depend only on the shape of the batch, and their sums are added in order, so results have the same bits for
//! any number of threads. A batch whose sequences have their own tables is computed one sequence at a time: nearly all
//! of its time goes into reading and exponentiating B·T·N² numbers.
//!
//! Time O(B·T·N²), memory for two padded rows per position of a block, and for both directions of every table. Zeros
//! of the model are exact. If the scores span so large a range that digits may be lost, or if Z = 0, the result is
//! `None`, and the caller computes in the log domain (`messages`).

mod tables;

use std::ops::Range;

use crate::numeric::parallel::prelude::*;

use super::messages::{Lattice, PARALLEL};
use crate::error::Result;
use crate::model::Transitions;
use crate::numeric::{
    Accuracy, Aligned, Arrival, Departure, NARROW_STATES, Real, SmallProduct, Weighing, padded_row,
};
use crate::query::sequence::TransitionGradient;
use crate::run::Clock;
use tables::Tables;

/// Most sequences that are processed together.
const BLOCK: usize = 32;
/// Rows that are summed in the precision of the model, before they are added in double precision.
const DEPTH: usize = 256;
/// Positions between checks of the clock.
const BETWEEN_CHECKS: usize = 16;

/// Whether a chain has so few states, and tables in memory, that these sweeps are used for it or for its sequences.
pub(crate) fn is_narrow<F: Real>(transitions: &Transitions<F>, states: usize) -> bool {
    let in_tables =
        matches!(transitions, Transitions::Shared(_) | Transitions::PerStep(_) | Transitions::PerSequence(_));
    states <= NARROW_STATES && in_tables
}

/// The numbers kept for the gradient of `batch` sequences of at most `steps` positions with `tables` tables in
/// `threads` threads.
pub(crate) fn narrow_numbers<F>(
    batch: usize,
    steps: usize,
    states: usize,
    tables: usize,
    threads: usize,
) -> f64 {
    let (blocks, block) = blocks_of(batch);
    let rows = block.min(batch) as f64 * (2.0 * steps as f64 + 3.0);
    let (width, together) = (padded_row::<F>(states) as f64, threads.min(blocks) as f64);
    let kept = if tables > 1 {
        // M, its transpose and one of sums per block, of every step, and the shifts of every position.
        tables as f64 * (2.0 + blocks as f64) * states as f64 * width + 2.0 * steps as f64 * width
    } else {
        // M, its transpose and one of sums per thread, in double precision also for each block.
        (2.0 + 3.0 * blocks as f64) * states as f64 * width
    };
    together * rows * width + kept
}

/// The number of blocks and the sequences of each.
fn blocks_of(batch: usize) -> (usize, usize) {
    let blocks = batch.div_ceil(BLOCK).max(1);
    (blocks, batch.div_ceil(blocks))
}

/// Results of the sequences of one block.
struct Swept<F> {
    log_partition: Vec<f64>,
    /// Σ aᵀ(w/n) over all steps, states × width.
    edges: Vec<f64>,
    /// Of every step, if each has its own table.
    edges_of_steps: Aligned<F>,
}

impl<F: Real> Lattice<'_, F> {
    /// True if the states are few enough for these sweeps.
    pub fn narrow(&self) -> bool {
        let whole = self.segments.is_none() && self.edges.sets.is_none();
        // Sequences with their own tables have lattices of their own.
        let together = !matches!(self.edges.transitions, Transitions::PerSequence(_));
        whole && together && is_narrow(self.edges.transitions, self.layout.largest())
    }

    /// log Z of each sequence, or `None` if too much accuracy might be lost.
    pub fn narrow_log_partitions(&self, clock: &Clock<'_>) -> Result<Option<Vec<f64>>> {
        let tables = Tables::new(self);
        let work = |places: Range<usize>| {
            let row = places.len() * tables.width;
            let (mut rows, mut weights) = (Aligned::unset(2 * row), Aligned::unset(row));
            self.narrow_forward(&tables, &places, [&mut rows, &mut weights], clock)
        };
        let swept = self.each_block(work, vec![(); self.layout.batch()], |work, places, _| work(places))?;
        Ok(swept.map(|blocks| self.in_order(blocks.into_iter().flatten())))
    }

    /// log Z of each sequence. Writes the marginals times the cotangent to the B×T×N array `emissions` and adds
    /// the expected transitions to `transitions`. `None` if too much accuracy might be lost; `emissions` are
    /// then unspecified.
    pub fn narrow_gradient(
        &self,
        cotangent: &[f64],
        emissions: &mut [F],
        transitions: Option<&mut TransitionGradient<F>>,
        clock: &Clock<'_>,
    ) -> Result<Option<Vec<f64>>> {
        let tables = Tables::new(self);
        let room = emissions.len() / self.layout.batch();
        let mut rows: Vec<Option<&mut [F]>> = emissions.chunks_exact_mut(room).map(Some).collect();
        let rows = (0..self.layout.batch()).filter_map(|place| rows[self.layout.sequence(place)].take());
        let edges = transitions.is_some();
        let swept = self.each_block((), rows.collect(), |(), places, rows| {
            self.narrow_block(&tables, &places, rows, cotangent, edges, clock)
        })?;
        let Some(blocks) = swept else { return Ok(None) };
        match transitions {
            Some(TransitionGradient::Shared(table)) => {
                let sum = |at: usize| -> f64 { blocks.iter().map(|block| block.edges[at]).sum() };
                tables.add_weighted(0, sum, table);
            }
            Some(TransitionGradient::PerStep(all)) => {
                let (size, own) = (tables.states * tables.width, tables.states * tables.states);
                // The model can have more steps than the longest sequence, and that one more than those of a block.
                let steps = self.layout.steps().saturating_sub(1);
                for (t, table) in all.chunks_exact_mut(own).enumerate().take(steps) {
                    let sum = |at: usize| -> f64 {
                        let found = blocks.iter().filter_map(|block| block.edges_of_steps.get(t * size + at));
                        found.map(|x| x.to_f64()).sum()
                    };
                    tables.add_weighted(t, sum, table);
                }
            }
            _ => {}
        }
        Ok(Some(self.in_order(blocks.into_iter().flat_map(|block| block.log_partition))))
    }

    /// Calls `work` with the places of each block and the items of its sequences, in the order of the places.
    fn each_block<C: Copy + Sync, I: Send, R: Send>(
        &self,
        context: C,
        items: Vec<I>,
        work: impl Fn(C, Range<usize>, Vec<I>) -> Result<Option<R>> + Sync,
    ) -> Result<Option<Vec<R>>> {
        let (batch, (blocks, size)) = (self.layout.batch(), blocks_of(self.layout.batch()));
        let mut items = items.into_iter();
        let tasks = (0..blocks).map(|block| {
            let places = (block * size).min(batch)..((block + 1) * size).min(batch);
            (places.clone(), items.by_ref().take(places.len()).collect::<Vec<I>>())
        });
        let tasks: Vec<(Range<usize>, Vec<I>)> = tasks.filter(|(places, _)| !places.is_empty()).collect();
        let numbers = batch * self.layout.steps() * self.layout.largest();
        let done = if numbers >= PARALLEL && tasks.len() > 1 {
            let tasks = tasks.into_par_iter();
            tasks.map(|(places, items)| work(context, places, items)).collect::<Result<Vec<Option<R>>>>()?
        } else {
            let tasks = tasks.into_iter();
            tasks.map(|(places, items)| work(context, places, items)).collect::<Result<Vec<Option<R>>>>()?
        };
        Ok(done.into_iter().collect())
    }

    /// Numbers in the order of places as numbers in the order of the batch.
    fn in_order(&self, numbers: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut sorted = vec![f64::NEG_INFINITY; self.layout.batch()];
        numbers.enumerate().for_each(|(place, number)| sorted[self.layout.sequence(place)] = number);
        sorted
    }

    /// How many sequences of the block have a position t.
    fn active_in(&self, places: &Range<usize>, t: usize) -> usize {
        self.layout.active(t).clamp(places.start, places.end) - places.start
    }

    /// Forward messages of a block, and log Z of each place. `forward` and `weights` hold the layers of the
    /// block; if they are too short for all of them, later layers overwrite earlier ones.
    fn narrow_forward(
        &self,
        tables: &Tables<F>,
        places: &Range<usize>,
        [forward, weights]: [&mut [F]; 2],
        clock: &Clock<'_>,
    ) -> Result<Option<Vec<f64>>> {
        let (width, layer) = (tables.width, places.len() * tables.width);
        let (kept, weighed) = (forward.len() / layer, weights.len() / layer);
        let steps = self.layout.length(places.start);
        let (mut totals, mut exponents) = (vec![0.0; places.len()], vec![0i64; places.len()]);
        let mut least = vec![F::ONE; places.len()];
        let mut log_partition = vec![0.0; places.len()];
        let (mut scores, mut shifts): (Vec<&[F]>, Vec<&[F]>) = (Vec::new(), Vec::new());
        for t in 0..steps {
            if t % BETWEEN_CHECKS == 0 {
                clock.step("forward messages", t, steps)?;
            }
            let (count, ending) = (self.active_in(places, t), self.active_in(places, t + 1));
            let numbers = count * width;
            let at = t % kept * layer;
            if t == 0 {
                forward[..numbers].fill(F::ONE);
            } else if at == 0 {
                let (rows, before) = forward.split_at_mut((kept - 1) * layer);
                tables.multiply(&before[..numbers], tables.matrix(t - 1), &mut rows[..numbers]);
            } else {
                let (before, rows) = forward.split_at_mut(at);
                tables.multiply(&before[at - layer..], tables.matrix(t - 1), &mut rows[..numbers]);
            }
            scores.clear();
            shifts.clear();
            for place in places.start..places.start + count {
                scores.push(self.nodes.scores_on(self.layout.sequence(place), t));
                shifts.push(tables.shifts(t, t + 1 == self.layout.length(place)));
            }
            let weights = &mut weights[t % weighed * layer..][..numbers];
            let states = tables.states;
            let totals = &mut totals[..count];
            if !F::narrow_weights(Weighing { states, scores: &scores, shifts: &shifts, weights, totals }) {
                return Ok(None);
            }
            let rows = &mut forward[at..at + numbers];
            let (least, exponents) = (&mut least[..count], &mut exponents[..count]);
            let accuracy = Accuracy { floor: tables.floor, entry: tables.entry(t.saturating_sub(1)), least };
            let task = Arrival { width, rows: &mut *rows, weights, accuracy, exponents: &mut *exponents };
            if !F::narrow_arrive(task) {
                return Ok(None);
            }
            for place in ending..count {
                let sum: f64 = rows[place * width..][..width].iter().map(|x| x.to_f64()).sum();
                log_partition[place] =
                    totals[place] + exponents[place] as f64 * std::f64::consts::LN_2 + sum.ln();
            }
        }
        Ok(Some(log_partition))
    }

    /// log Z, marginals and expected transitions of a block.
    fn narrow_block(
        &self,
        tables: &Tables<F>,
        places: &Range<usize>,
        mut marginals: Vec<&mut [F]>,
        cotangent: &[f64],
        edges: bool,
        clock: &Clock<'_>,
    ) -> Result<Option<Swept<F>>> {
        let (states, width, layer) = (tables.states, tables.width, places.len() * tables.width);
        let steps = self.layout.length(places.start);
        let ragged = self.layout.length(places.end - 1) < steps;
        // Rows after the end of a sequence contribute nothing to the expected transitions.
        let layers = || if ragged { Aligned::zeros(steps * layer) } else { Aligned::unset(steps * layer) };
        let (mut forward, mut weights) = (layers(), layers());
        let swept = self.narrow_forward(tables, places, [&mut forward, &mut weights], clock)?;
        let Some(log_partition) = swept else { return Ok(None) };
        let cotangent: Vec<f64> =
            places.clone().map(|place| cotangent[self.layout.sequence(place)]).collect();
        let (mut least, mut backward) = (vec![F::ONE; places.len()], Aligned::unset(layer));
        for t in (0..steps).rev() {
            if t % BETWEEN_CHECKS == 0 {
                clock.step("backward messages", steps - t, steps)?;
            }
            let (count, crossing) = (self.active_in(places, t), self.active_in(places, t + 1));
            let (weights, after) = weights[t * layer..].split_at_mut(layer);
            let after = &mut after[..crossing * width];
            let (products, ends) = backward[..count * width].split_at_mut(crossing * width);
            tables.multiply(after, tables.transposed(t), products);
            ends.fill(F::ONE);
            let least = &mut least[..count];
            let task = Departure {
                states,
                width,
                forward: &forward[t * layer..][..count * width],
                backward: &backward[..count * width],
                weights: &mut weights[..count * width],
                after,
                accuracy: Accuracy { floor: tables.floor, entry: tables.entry(t), least },
                cotangent: &cotangent[..count],
                marginals: &mut marginals[..count],
                at: t * states,
            };
            if !F::narrow_depart(task) {
                return Ok(None);
            }
        }
        if edges && !tables.shared {
            let mut edges_of_steps = Aligned::unset((steps - 1) * states * width);
            for (t, part) in edges_of_steps.chunks_exact_mut(states * width).enumerate() {
                let crossing = self.active_in(places, t + 1);
                let (a, b) = (&forward[t * layer..], &weights[(t + 1) * layer..]);
                F::small_product(SmallProduct::new((a, 1, width), b, part, [states, crossing, width]));
            }
            return Ok(Some(Swept { log_partition, edges: Vec::new(), edges_of_steps }));
        }
        let mut sums = vec![0.0; if edges { states * width } else { 0 }];
        let rows = if edges { (steps - 1) * places.len() } else { 0 };
        let mut part = Aligned::unset(sums.len());
        for first in (0..rows).step_by(DEPTH) {
            clock.check()?;
            let a = (&forward[first * width..], 1, width);
            let b = &weights[layer + first * width..];
            let size = [states, DEPTH.min(rows - first), width];
            F::small_product(SmallProduct::new(a, b, &mut part, size));
            sums.iter_mut().zip(&*part).for_each(|(sum, &x): (&mut f64, &F)| *sum += x.to_f64());
        }
        Ok(Some(Swept { log_partition, edges: sums, edges_of_steps: Aligned::default() }))
    }
}

#[cfg(test)]
mod tests;
