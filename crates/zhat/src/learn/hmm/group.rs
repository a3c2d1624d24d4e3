//! Forward and backward passes over a group of sequences.
//!
//! The rows of the group are packed by step: first the first rows of all sequences, longest sequence first, then the
//! second rows, and so on. A step of all sequences is then one product of consecutive rows with the transition
//! matrix. Messages are probabilities: every row of densities is divided by its maximum and every row of forward
//! messages by its sum c. With v(t+1) = b(t+1)·β(t+1)/c(t+1), β(t) = A·v(t+1), the posterior is α(t)·β(t) and the
//! expected transitions are A ∘ Σₜ α(t)ᵀv(t+1), one matrix product per block of steps.
//!
//! What underflow loses at step t is at most 2⁻¹⁰²² per state, and counts β(t) times. A sequence with a scale below
//! [`LEAST`] or a backward message above [`MOST`] is therefore reported instead, and computed in the log domain
//! (`exact`).

use super::data::Sequences;
use super::emission::{Density, padded};
use super::model::Hmm;
use super::step::Strips;
use crate::error::Result;
use crate::numeric::simd::{self, Kernel};
use crate::numeric::{Matrix, exp_in_place, max, multiply_here};
use crate::run::Clock;

/// The least scale.
const LEAST: f64 = 1e-200;
/// The largest backward message.
const MOST: f64 = 1e200;
/// Multiplications between two checks of the clock, at least.
const CHECK: usize = 1 << 24;
/// Rows per product for the expected transitions.
const BLOCK: usize = 256;

/// The parameters, prepared for all groups.
pub(super) struct Prepared<'a> {
    pub states: usize,
    pub width: usize,
    pub start: Vec<f64>,
    pub forward: Strips,
    pub backward: Strips,
    pub density: &'a dyn Density,
}

impl<'a> Prepared<'a> {
    pub fn new(start: &[f64], transitions: &[f64], density: &'a dyn Density) -> Self {
        let (states, width) = (start.len(), padded(start.len()));
        let mut row = start.to_vec();
        row.resize(width, 0.0);
        Prepared {
            states,
            width,
            start: row,
            forward: Strips::new(transitions, states, false),
            backward: Strips::new(transitions, states, true),
            density,
        }
    }
}

/// Expected counts. Transitions of a group are without the factor A.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub start: Vec<f64>,
    pub transitions: Vec<f64>,
    pub emissions: Vec<f64>,
    /// N × M, or empty.
    pub durations: Vec<f64>,
}

impl Counts {
    /// Zeros in the shape of a model.
    pub fn new(hmm: &Hmm) -> Self {
        let width = padded(hmm.states());
        Counts {
            start: vec![0.0; width],
            transitions: vec![0.0; width * width],
            emissions: vec![0.0; hmm.emissions.part().statistics()],
            durations: vec![0.0; hmm.durations.as_ref().map_or(0, |own| own.probabilities().len())],
        }
    }

    pub fn parts(&self) -> [&[f64]; 4] {
        [&self.start, &self.transitions, &self.emissions, &self.durations]
    }

    pub fn parts_mut(&mut self) -> [&mut [f64]; 4] {
        [&mut self.start, &mut self.transitions, &mut self.emissions, &mut self.durations]
    }

    pub fn add(&mut self, other: &Counts) {
        for (own, other) in self.parts_mut().into_iter().zip(other.parts()) {
            own.iter_mut().zip(other).for_each(|(x, y)| *x += y);
        }
    }
}

/// The packed rows of some sequences and their messages.
pub(super) struct Group {
    /// The sequences, longest first.
    pub members: Vec<usize>,
    /// The number of sequences that have step t.
    active: Vec<usize>,
    /// The first row of step t.
    offsets: Vec<usize>,
    rows: Vec<f64>,
    /// Densities, then posteriors.
    likelihoods: Vec<f64>,
    /// The logarithm of the factor taken out of each row of densities.
    shifts: Vec<f64>,
    alphas: Vec<f64>,
    scales: Vec<f64>,
    /// Whether a sequence needs the log domain.
    pub failed: Vec<bool>,
    width: usize,
}

impl Group {
    /// Bytes of a group with this many rows.
    pub fn bytes(rows: usize, states: usize, columns: usize) -> f64 {
        8.0 * rows as f64 * (2 * padded(states) + columns + 2) as f64
    }

    /// Packs sequences, which must be sorted by length, longest first.
    pub fn new(data: &Sequences, members: &[usize], prepared: &Prepared<'_>) -> Self {
        let lengths: Vec<usize> = members.iter().map(|&member| data.length(member)).collect();
        let steps = lengths.first().copied().unwrap_or(0);
        let active: Vec<usize> =
            (0..steps).map(|t| lengths.iter().take_while(|&&length| length > t).count()).collect();
        let mut offsets = vec![0; steps + 1];
        for t in 0..steps {
            offsets[t + 1] = offsets[t] + active[t];
        }
        let (columns, width, count) = (data.columns(), prepared.width, offsets[steps]);
        let mut rows = Vec::with_capacity(count * columns);
        for (t, &active) in active.iter().enumerate() {
            for &member in &members[..active] {
                rows.extend_from_slice(&data.sequence(member)[t * columns..][..columns]);
            }
        }
        let mut likelihoods = vec![0.0; count * width];
        prepared.density.log_density(&rows, width, &mut likelihoods);
        let mut shifts = vec![0.0; count];
        for (row, shift) in likelihoods.chunks_exact_mut(width).zip(&mut shifts) {
            let (own, padding) = row.split_at_mut(prepared.states);
            padding.fill(f64::NEG_INFINITY);
            let largest = max(own);
            *shift = largest;
            // If no state is possible, all entries become zero.
            let taken = if largest.is_finite() { largest } else { 0.0 };
            own.iter_mut().for_each(|x| *x -= taken);
        }
        exp_in_place(&mut likelihoods);
        Group {
            members: members.to_vec(),
            active,
            offsets,
            rows,
            likelihoods,
            shifts,
            alphas: vec![0.0; count * width],
            scales: vec![1.0; count],
            failed: vec![false; members.len()],
            width,
        }
    }

    /// Runs the forward pass and returns the log-likelihood of every member that has not failed.
    ///
    /// # Errors
    /// If the run is over.
    pub fn forward(&mut self, prepared: &Prepared<'_>, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let steps = self.active.len();
        let per_step = self.members.len() * self.width * self.width;
        let stride = (CHECK / per_step.max(1)).max(1);
        for first in (0..steps).step_by(stride) {
            clock.check()?;
            simd::run(ForwardPass { group: self, prepared, range: first..(first + stride).min(steps) });
        }
        let mut logs = vec![0.0; self.members.len()];
        for t in 0..self.active.len() {
            for (r, log) in logs[..self.active[t]].iter_mut().enumerate() {
                let row = self.offsets[t] + r;
                *log += self.scales[row].ln() + self.shifts[row];
            }
        }
        Ok(logs)
    }

    /// Runs the backward pass after the forward pass, and adds the expected counts if no member has failed.
    /// Afterwards [`Group::posteriors`] are known.
    ///
    /// # Errors
    /// If the run is over.
    pub fn backward(
        &mut self,
        prepared: &Prepared<'_>,
        counts: Option<&mut Counts>,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let (width, steps) = (self.width, self.active.len());
        let transitions = counts.is_some().then(|| vec![0.0; width * width]);
        let mut pass = BackwardPass {
            betas: vec![0.0; self.members.len() * width],
            messages: Vec::new(),
            transitions,
            group: self,
            prepared,
        };
        // Blocks of steps, from the last to the first; the messages of a block are those that its steps receive.
        let mut end = steps;
        while end > 0 {
            let mut begin = end - 1;
            while begin > 0 && pass.group.offsets[end] - pass.group.offsets[begin - 1] <= BLOCK {
                begin -= 1;
            }
            clock.check()?;
            pass.block(begin..end);
            end = begin;
        }
        let transitions = pass.transitions.take();
        if let (Some(counts), Some(transitions)) = (counts, transitions)
            && !self.failed.iter().any(|failed| *failed)
        {
            counts.transitions.iter_mut().zip(&transitions).for_each(|(sum, x)| *sum += x);
            for row in self.likelihoods.chunks_exact(width).take(self.active.first().copied().unwrap_or(0)) {
                counts.start.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
            }
            prepared.density.accumulate(&self.rows, width, &self.likelihoods, &mut counts.emissions);
        }
        Ok(())
    }

    /// Calls `each` with every member, step and row of posteriors, after the backward pass.
    pub fn posteriors(&self, states: usize, each: &mut dyn FnMut(usize, usize, &[f64])) {
        for (t, &active) in self.active.iter().enumerate() {
            for (r, &member) in self.members[..active].iter().enumerate() {
                let row = &self.likelihoods[(self.offsets[t] + r) * self.width..][..states];
                each(member, t, row);
            }
        }
    }
}

struct ForwardPass<'a, 'b> {
    group: &'a mut Group,
    prepared: &'a Prepared<'b>,
    range: std::ops::Range<usize>,
}

impl Kernel for ForwardPass<'_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let group = self.group;
        let width = group.width;
        for t in self.range {
            let (first, active) = (group.offsets[t], group.active[t]);
            let (before, now) = group.alphas.split_at_mut(first * width);
            let now = &mut now[..active * width];
            if t == 0 {
                now.chunks_exact_mut(width).for_each(|row| row.copy_from_slice(&self.prepared.start));
            } else {
                let before = &before[group.offsets[t - 1] * width..][..active * width];
                self.prepared.forward.multiply(before, now, width);
            }
            let likelihoods = &group.likelihoods[first * width..][..active * width];
            for (r, (row, own)) in
                now.chunks_exact_mut(width).zip(likelihoods.chunks_exact(width)).enumerate()
            {
                let mut sums = [0.0f64; 8];
                for (row, own) in row.chunks_exact_mut(8).zip(own.chunks_exact(8)) {
                    for j in 0..8 {
                        row[j] *= own[j];
                        sums[j] += row[j];
                    }
                }
                let mut sum: f64 = sums.iter().sum();
                if sum.is_nan() || sum < LEAST {
                    group.failed[r] = true;
                    sum = 1.0;
                }
                group.scales[first + r] = sum;
                let inverse = 1.0 / sum;
                row.iter_mut().for_each(|x| *x *= inverse);
            }
        }
    }
}

struct BackwardPass<'a, 'b> {
    group: &'a mut Group,
    prepared: &'a Prepared<'b>,
    /// β of the step after the block, or of the step at hand.
    betas: Vec<f64>,
    /// v of the steps of a block.
    messages: Vec<f64>,
    transitions: Option<Vec<f64>>,
}

impl BackwardPass<'_, '_> {
    /// Steps `range`, from the last to the first.
    fn block(&mut self, range: std::ops::Range<usize>) {
        let (width, offsets) = (self.group.width, &self.group.offsets);
        let (first, rows) = (offsets[range.start], offsets[range.end] - offsets[range.start]);
        self.messages.clear();
        self.messages.resize(rows * width, 0.0);
        simd::run(BackwardBlock { pass: self, range });
        if let Some(transitions) = &mut self.transitions {
            let alphas = &self.group.alphas[first * width..][..rows * width];
            multiply_here(
                Matrix::row_major(alphas, rows, width).transposed(),
                Matrix::row_major(&self.messages, rows, width),
                transitions,
                true,
            );
        }
    }
}

struct BackwardBlock<'a, 'b, 'c> {
    pass: &'a mut BackwardPass<'b, 'c>,
    range: std::ops::Range<usize>,
}

impl Kernel for BackwardBlock<'_, '_, '_> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let BackwardPass { group, prepared, betas, messages, .. } = self.pass;
        let (width, states) = (group.width, prepared.states);
        let origin = group.offsets[self.range.start];
        for t in self.range.rev() {
            let (first, active) = (group.offsets[t], group.active[t]);
            let next = group.active.get(t + 1).copied().unwrap_or(0);
            if next > 0 {
                // v of step t + 1, from its densities, scales and β. The densities are replaced by the posteriors.
                let after = group.offsets[t + 1];
                let sent = &mut messages[(first - origin) * width..][..next * width];
                for r in 0..next {
                    let inverse = 1.0 / group.scales[after + r];
                    let own = &mut group.likelihoods[(after + r) * width..][..width];
                    let alpha = &group.alphas[(after + r) * width..][..width];
                    let beta = &betas[r * width..][..width];
                    let sent = &mut sent[r * width..][..width];
                    for j in 0..width {
                        sent[j] = own[j] * beta[j] * inverse;
                        own[j] = alpha[j] * beta[j];
                    }
                }
                prepared.backward.multiply(sent, &mut betas[..next * width], width);
                for r in 0..next {
                    let mut largest = 0.0f64;
                    let mut finite = true;
                    for &x in &betas[r * width..][..states] {
                        largest = if x > largest { x } else { largest };
                        finite &= x.is_finite();
                    }
                    if !(largest <= MOST && finite) {
                        group.failed[r] = true;
                        betas[r * width..][..states].fill(1.0);
                    }
                }
            }
            for beta in betas[next * width..active * width].chunks_exact_mut(width) {
                beta.fill(0.0);
                beta[..states].fill(1.0);
            }
            if t == 0 {
                for r in 0..active {
                    let own = &mut group.likelihoods[r * width..][..width];
                    let alpha = &group.alphas[r * width..][..width];
                    for j in 0..width {
                        own[j] = alpha[j] * betas[r * width + j];
                    }
                }
            }
        }
    }
}
