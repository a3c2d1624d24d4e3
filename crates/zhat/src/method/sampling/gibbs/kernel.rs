//! One sweep of Gibbs sampling: every variable is drawn from its conditional distribution.
//!
//! For each factor the index of its current entry is kept, and updated when a variable changes. The weights
//! of the states of v are products of the entries at this index plus multiples of the stride of v, in tables
//! that are scaled to a maximum of 1. If a product underflows, the sum of logarithms is used.

use crate::model::{FactorGraph, table};
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// Products whose sum is smaller are computed by logarithms.
const TINY: f64 = 1e-280;
/// Work between checks of the clock, in entries read.
const PAUSE: usize = 1 << 18;

/// A factor of a variable: its number, and the stride of the variable in its table.
#[derive(Clone, Copy, Debug)]
struct Touch {
    factor: u32,
    stride: usize,
}

/// A graph prepared for sweeps.
pub(super) struct Kernel<'g> {
    graph: &'g FactorGraph,
    /// exp(θ − max θ) for each factor, concatenated.
    weights: Vec<f64>,
    /// θ, concatenated.
    logs: Vec<f64>,
    starts: Vec<usize>,
    touching: Vec<Touch>,
    ends: Vec<usize>,
}

/// The state of one chain.
#[derive(Clone, Debug)]
pub(super) struct Walker {
    pub random: Stream,
    pub state: Vec<usize>,
    /// The current entry of each factor, among the values of all factors.
    pub entries: Vec<usize>,
    scratch: Vec<f64>,
}

impl<'g> Kernel<'g> {
    pub fn new(graph: &'g FactorGraph) -> Self {
        let total = graph.factors().map(|factor| factor.log_values.len()).sum();
        let (mut weights, mut logs) = (Vec::with_capacity(total), Vec::with_capacity(total));
        let mut starts = Vec::with_capacity(graph.factor_count());
        let mut touches = vec![Vec::new(); graph.variable_count()];
        for (f, factor) in graph.factors().enumerate() {
            starts.push(logs.len());
            logs.extend_from_slice(factor.log_values);
            let most = numeric::max(factor.log_values);
            let shift = if most.is_finite() { most } else { 0.0 };
            weights.extend(factor.log_values.iter().map(|x| x - shift));
            for (&v, stride) in factor.scope.iter().zip(table::strides(&graph.lengths(factor.scope))) {
                touches[v].push(Touch { factor: f as u32, stride });
            }
        }
        numeric::exp_in_place(&mut weights);
        let ends = touches
            .iter()
            .scan(0, |end, own| {
                *end += own.len();
                Some(*end)
            })
            .collect();
        Kernel { graph, weights, logs, starts, touching: touches.concat(), ends }
    }

    /// The memory of the kernel, in bytes.
    pub fn bytes(graph: &FactorGraph) -> f64 {
        2.0 * graph.bytes() as f64 + 32.0 * (graph.scope_entries() + graph.variable_count()) as f64
    }

    pub fn walker(&self, random: Stream, state: Vec<usize>) -> Walker {
        let entry =
            |(f, start): (usize, &usize)| start + self.graph.entry(self.graph.factor(f).scope, &state);
        let entries = self.starts.iter().enumerate().map(entry).collect();
        Walker { random, state, entries, scratch: Vec::new() }
    }

    /// Σ_f θ_f at the current state.
    pub fn score(&self, walker: &Walker) -> f64 {
        walker.entries.iter().map(|&entry| self.logs[entry]).sum()
    }

    fn touching(&self, v: usize) -> &[Touch] {
        let start = if v == 0 { 0 } else { self.ends[v - 1] };
        &self.touching[start..self.ends[v]]
    }

    /// Draws every variable once, in order. Returns false if the work has to stop, in the middle of a sweep.
    pub fn sweep(&self, walker: &mut Walker, clock: &Clock<'_>) -> bool {
        let mut work = 0;
        for (v, &states) in self.graph.cardinalities().iter().enumerate() {
            let touching = self.touching(v);
            work += 4 + states * touching.len();
            if work > PAUSE {
                work = 0;
                if clock.must_stop() {
                    return false;
                }
            }
            let old = walker.state[v];
            let new = if states == 2 {
                self.draw_of_two(touching, old, walker)
            } else {
                self.draw(touching, old, states, walker)
            };
            if new != old {
                walker.state[v] = new;
                for &Touch { factor, stride } in touching {
                    let entry = &mut walker.entries[factor as usize];
                    *entry = *entry + new * stride - old * stride;
                }
            }
        }
        true
    }

    /// The state of a variable of two states.
    #[inline]
    fn draw_of_two(&self, touching: &[Touch], old: usize, walker: &mut Walker) -> usize {
        let (mut zero, mut one) = (1.0, 1.0);
        for &Touch { factor, stride } in touching {
            let base = walker.entries[factor as usize] - old * stride;
            zero *= self.weights[base];
            one *= self.weights[base + stride];
        }
        if zero + one < TINY {
            return self.draw_by_logs(touching, old, 2, walker);
        }
        usize::from(walker.random.uniform() * (zero + one) >= zero)
    }

    fn draw(&self, touching: &[Touch], old: usize, states: usize, walker: &mut Walker) -> usize {
        let Walker { random, entries, scratch, .. } = walker;
        scratch.clear();
        scratch.resize(states, 1.0);
        for &Touch { factor, stride } in touching {
            let own = self.weights[entries[factor as usize] - old * stride..].iter().step_by(stride);
            scratch.iter_mut().zip(own).for_each(|(weight, own)| *weight *= own);
        }
        if scratch.iter().sum::<f64>() < TINY {
            return self.draw_by_logs(touching, old, states, walker);
        }
        random.categorical(scratch)
    }

    #[cold]
    fn draw_by_logs(&self, touching: &[Touch], old: usize, states: usize, walker: &mut Walker) -> usize {
        let Walker { random, entries, scratch, .. } = walker;
        scratch.clear();
        scratch.resize(states, 0.0);
        for &Touch { factor, stride } in touching {
            let own = self.logs[entries[factor as usize] - old * stride..].iter().step_by(stride);
            scratch.iter_mut().zip(own).for_each(|(score, own)| *score += own);
        }
        let most = numeric::max(scratch);
        if most == f64::NEG_INFINITY {
            return old;
        }
        scratch.iter_mut().for_each(|score| *score -= most);
        numeric::exp_in_place(scratch);
        random.categorical(scratch)
    }
}
