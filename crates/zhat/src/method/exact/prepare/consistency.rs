//! Domain reduction by arc consistency and probing.
//!
//! A state of a variable is dead if some factor is −∞ for it, whatever the states of the neighbours. Dead
//! states are removed until nothing changes (**generalised arc consistency**). Then every state is assigned
//! tentatively (**probing**, or singleton consistency). If this leads to a contradiction, the state is dead
//! too. If every state of v leaves another variable w exactly one state, and both have the same number of
//! states, then v and w are equivalent and can be merged.
//!
//! Cost: the size of the tables with zeros times the number of rounds, which is small. Probing costs the same
//! for every state and is cut short if it takes too long. States of positive weight are never removed.
//!
//! Reference: R. Debruyne, C. Bessière, *Some practicable filtering techniques for the constraint
//! satisfaction problem*, IJCAI 1997.

use super::order::Stop;
use crate::model::{FactorGraph, table};

/// Maximum number of entries visited by probing: a fraction of a second.
const PROBING: usize = 50_000_000;
/// Overhead of visiting a factor, in entries.
const REVISION: usize = 8;

/// Two variables that determine each other.
#[derive(Debug, PartialEq)]
pub(super) struct Twin {
    pub v: usize,
    pub w: usize,
    /// The state of w for each live state of v.
    pub states: Vec<usize>,
}

/// The states that may have positive weight; removals can be undone.
pub(super) struct Domains<'a> {
    graph: &'a FactorGraph,
    alive: Vec<Vec<bool>>,
    counts: Vec<usize>,
    /// For each variable, the factors with zeros that contain it.
    touching: Vec<Vec<usize>>,
    /// The number of zeros of each factor.
    zeros: Vec<usize>,
    queue: Vec<usize>,
    queued: Vec<bool>,
    /// The removed states, in order of removal.
    trail: Vec<(usize, usize)>,
    /// Number of entries visited.
    steps: usize,
    stop: Stop<'a>,
    /// True if the work was interrupted; then none of the results are valid.
    pub stopped: bool,
}

impl<'a> Domains<'a> {
    /// The domains after arc consistency; `None` if a variable has no state left.
    pub fn new(graph: &'a FactorGraph, stop: Stop<'a>) -> Option<Self> {
        let alive = graph.cardinalities().iter().map(|&states| vec![true; states]).collect();
        let mut domains = Domains {
            graph,
            alive,
            counts: graph.cardinalities().to_vec(),
            touching: vec![Vec::new(); graph.variable_count()],
            zeros: vec![0; graph.factor_count()],
            queue: Vec::new(),
            queued: vec![false; graph.factor_count()],
            trail: Vec::new(),
            steps: 0,
            stop,
            stopped: false,
        };
        for (f, factor) in graph.factors().enumerate() {
            // A factor without zeros never rules out a state.
            domains.zeros[f] = factor.log_values.iter().filter(|&&value| value == f64::NEG_INFINITY).count();
            if domains.zeros[f] > 0 {
                if factor.scope.is_empty() {
                    return None;
                }
                factor.scope.iter().for_each(|&v| domains.touching[v].push(f));
                domains.enqueue(f);
            }
        }
        domains.propagate().then_some(domains)
    }

    /// The live states of a variable.
    pub fn states(&self, v: usize) -> Vec<usize> {
        (0..self.alive[v].len()).filter(|&s| self.alive[v][s]).collect()
    }

    fn enqueue(&mut self, f: usize) {
        if !self.queued[f] {
            self.queued[f] = true;
            self.queue.push(f);
        }
    }

    fn remove(&mut self, v: usize, s: usize) {
        self.alive[v][s] = false;
        self.counts[v] -= 1;
        self.trail.push((v, s));
        for i in 0..self.touching[v].len() {
            self.enqueue(self.touching[v][i]);
        }
    }

    /// Restores the states removed since the trail had this length.
    fn undo(&mut self, length: usize) {
        for (v, s) in self.trail.drain(length..) {
            self.alive[v][s] = true;
            self.counts[v] += 1;
        }
    }

    /// Removes states without support until nothing changes; false if a variable has no state left.
    fn propagate(&mut self) -> bool {
        let mut consistent = true;
        while let Some(f) = self.queue.pop() {
            self.queued[f] = false;
            self.stopped = self.stopped || (self.stop)();
            consistent = consistent && (self.stopped || self.revise(f));
        }
        consistent
    }

    /// Removes the states that a factor does not support.
    fn revise(&mut self, f: usize) -> bool {
        let factor = self.graph.factor(f);
        // A state of the variable with the largest domain occurs in the fewest combinations of the others.
        // With fewer zeros than that, the factor supports every state.
        let product: usize = factor.scope.iter().map(|&v| self.counts[v]).product();
        let most = factor.scope.iter().map(|&v| self.counts[v]).max().unwrap_or(1);
        self.steps += REVISION + factor.scope.len();
        if self.zeros[f] < product / most.max(1) {
            return true;
        }
        let lengths = self.graph.lengths(factor.scope);
        let mut supported: Vec<Vec<bool>> = lengths.iter().map(|&states| vec![false; states]).collect();
        let mut digits = vec![0; lengths.len()];
        self.steps += factor.log_values.len();
        for &value in factor.log_values {
            if value > f64::NEG_INFINITY && digits.iter().zip(factor.scope).all(|(&s, &v)| self.alive[v][s]) {
                digits.iter().zip(&mut supported).for_each(|(&s, supported)| supported[s] = true);
            }
            table::advance(&mut digits, &lengths);
        }
        for (&v, supported) in factor.scope.iter().zip(&supported) {
            for (s, &supported) in supported.iter().enumerate() {
                if self.alive[v][s] && !supported {
                    self.remove(v, s);
                }
            }
            if self.counts[v] == 0 {
                return false;
            }
        }
        true
    }

    /// Probes every state. Returns `None` if a variable has no state left, otherwise the pairs found. States
    /// that were removed later may invalidate some of the pairs.
    pub fn probe(&mut self) -> Option<Vec<Twin>> {
        let concerned: Vec<usize> =
            (0..self.counts.len()).filter(|&v| self.counts[v] > 1 && !self.touching[v].is_empty()).collect();
        loop {
            let removed = self.trail.len();
            let mut twins = Vec::new();
            for &v in &concerned {
                if self.steps > PROBING || self.stopped {
                    return Some(twins);
                }
                self.probe_variable(v, &mut twins)?;
            }
            if self.trail.len() == removed {
                return Some(twins);
            }
        }
    }

    fn probe_variable(&mut self, v: usize, twins: &mut Vec<Twin>) -> Option<()> {
        // The variables for which every state probed so far leaves exactly one state, with these states.
        let mut fixed: Option<Vec<(usize, Vec<usize>)>> = None;
        for s in self.states(v) {
            // Probing an earlier state may have removed this one.
            if !self.alive[v][s] {
                continue;
            }
            let length = self.trail.len();
            for other in self.states(v) {
                if other != s {
                    self.remove(v, other);
                }
            }
            if self.propagate() {
                let mut now: Vec<(usize, usize)> = Vec::new();
                for i in length..self.trail.len() {
                    let w = self.trail[i].0;
                    if w != v && self.counts[w] == 1 && !now.iter().any(|known| known.0 == w) {
                        now.push((w, self.alive[w].iter().position(|&alive| alive)?));
                    }
                }
                now.sort_unstable();
                self.undo(length);
                fixed = Some(match fixed {
                    None => now.into_iter().map(|(w, state)| (w, vec![state])).collect(),
                    Some(mut fixed) => {
                        fixed.retain_mut(|(w, states)| {
                            let found = now.binary_search_by_key(w, |known| known.0);
                            found.map(|i| states.push(now[i].1)).is_ok()
                        });
                        fixed
                    }
                });
            } else {
                self.undo(length);
                self.remove(v, s);
                if !self.propagate() {
                    return None;
                }
            }
        }
        let states = self.counts[v];
        for (w, map) in fixed.into_iter().flatten() {
            if states > 1 && self.counts[w] == states && map.len() == states {
                twins.push(Twin { v, w, states: map });
            }
        }
        Some(())
    }
}
