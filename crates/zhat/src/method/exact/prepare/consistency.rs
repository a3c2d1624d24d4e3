//! Domain reduction by arc consistency and probing.
//!
//! A state of a variable is dead if some factor is −∞ for it, whatever the states of the neighbours. Dead
//! states are removed until nothing changes (**generalised arc consistency**). Then every state is assigned
//! tentatively (**probing**, or singleton consistency). If this leads to a contradiction, the state is dead
//! too. If every state of v leaves another variable w exactly one state, and both have the same number of
//! states, then v and w are equivalent and can be merged.
//!
//! Cost: at most three times the size of the tables with zeros times the number of rounds, which is small;
//! usually a small part of that. Probing costs the same for every state and is cut short if it takes too long. States of positive weight are never removed.
//!
//! Reference: R. Debruyne, C. Bessière, *Some practicable filtering techniques for the constraint
//! satisfaction problem*, IJCAI 1997.

use std::ops::Range;

use super::order::Stop;
use crate::model::{Factor, FactorGraph, table};

/// Maximum number of entries visited by probing: a fraction of a second.
const PROBING: f64 = 5e7;
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

/// The entries of a factor whose states are all live.
struct LiveEntries<'a> {
    values: &'a [f64],
    /// The live states of all variables of the scope, one variable after the other.
    states: Vec<usize>,
    /// The contribution of each of these states to the index of an entry.
    places: Vec<usize>,
    /// The part of these lists that each variable goes through.
    parts: Vec<Range<usize>>,
    /// The places in the lists of the states of the current entry.
    current: Vec<usize>,
    /// Number of entries visited.
    visited: usize,
}

impl<'a> LiveEntries<'a> {
    fn new(factor: Factor<'a>, lengths: &[usize], alive: &[Vec<bool>]) -> Self {
        let most = lengths.iter().sum();
        let (mut states, mut places) = (Vec::with_capacity(most), Vec::with_capacity(most));
        let mut parts = Vec::with_capacity(lengths.len());
        for (&v, stride) in factor.scope.iter().zip(table::strides(lengths)) {
            let first = states.len();
            states.extend((0..alive[v].len()).filter(|&s| alive[v][s]));
            places.extend(states[first..].iter().map(|s| s * stride));
            parts.push(first..states.len());
        }
        LiveEntries { values: factor.log_values, states, places, parts, current: Vec::new(), visited: 0 }
    }

    /// For each state in the list, whether it occurs in an entry above −∞.
    ///
    /// For one state after the other, such an entry is looked for; it supports states of the other variables
    /// too. Most searches are short. If they are not, a pass over all entries takes over.
    fn supported(&mut self) -> Vec<bool> {
        let mut supported = vec![false; self.states.len()];
        let all: usize = self.parts.iter().map(Range::len).product();
        for axis in 0..self.parts.len() {
            let own = self.parts[axis].clone();
            for i in own.clone() {
                if supported[i] {
                    continue;
                }
                let search = self.visited <= all;
                if search {
                    self.parts[axis] = i..i + 1;
                }
                self.visit(|found| {
                    found.iter().for_each(|&i| supported[i] = true);
                    search
                });
                self.parts[axis] = own.clone();
                if !search {
                    return supported;
                }
            }
        }
        supported
    }

    /// Calls `found` with the places in the lists of the states of each entry above −∞, until it returns
    /// true.
    fn visit(&mut self, mut found: impl FnMut(&[usize]) -> bool) {
        let LiveEntries { values, places, parts, current, visited, .. } = self;
        current.clear();
        current.extend(parts.iter().map(|part| part.start));
        let last = parts.len() - 1;
        let mut base: usize = current[..last].iter().map(|&i| places[i]).sum();
        loop {
            *visited += parts[last].len();
            for i in parts[last].clone() {
                if values[base + places[i]] > f64::NEG_INFINITY {
                    current[last] = i;
                    if found(current) {
                        return;
                    }
                }
            }
            let mut axis = last;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                let (old, next) = (current[axis], current[axis] + 1);
                let is_over = next == parts[axis].end;
                current[axis] = if is_over { parts[axis].start } else { next };
                base = base + places[current[axis]] - places[old];
                if !is_over {
                    break;
                }
            }
        }
    }
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
        let mut entries = LiveEntries::new(factor, &self.graph.lengths(factor.scope), &self.alive);
        let supported = entries.supported();
        self.steps += entries.visited;
        for (axis, &v) in factor.scope.iter().enumerate() {
            for i in entries.parts[axis].clone() {
                if !supported[i] {
                    self.remove(v, entries.states[i]);
                }
            }
            if self.counts[v] == 0 {
                return false;
            }
        }
        true
    }

    /// Probes every state, unless the visits of `most` entries do not suffice for that. Returns `None` if a
    /// variable has no state left, otherwise the pairs found. States that were removed later may invalidate
    /// some of the pairs.
    pub fn probe(&mut self, most: f64) -> Option<Vec<Twin>> {
        let most = most.min(PROBING) as usize;
        let concerned: Vec<usize> =
            (0..self.counts.len()).filter(|&v| self.counts[v] > 1 && !self.touching[v].is_empty()).collect();
        loop {
            let removed = self.trail.len();
            let mut twins = Vec::new();
            for &v in &concerned {
                if self.steps > most || self.stopped {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    const ZERO: f64 = f64::NEG_INFINITY;

    #[test]
    fn a_state_is_supported_if_it_occurs_in_a_live_entry_of_positive_weight() {
        let mut random = Streams::new(2, "support").block(0);
        for round in 0..2000 {
            let lengths: Vec<usize> = (0..1 + random.below(4)).map(|_| 2 + random.below(4)).collect();
            let share = [0.05, 0.3, 0.7, 0.99][round % 4];
            let values: Vec<f64> = (0..lengths.iter().product())
                .map(|_| if random.uniform() < share { ZERO } else { random.uniform() })
                .collect();
            let mut alive: Vec<Vec<bool>> = Vec::new();
            for &states in &lengths {
                let kept = random.below(states);
                alive.push((0..states).map(|s| s == kept || random.below(3) > 0).collect());
            }
            let scope: Vec<usize> = (0..lengths.len()).collect();
            let mut expected: Vec<Vec<bool>> = lengths.iter().map(|&states| vec![false; states]).collect();
            let mut digits = vec![0; lengths.len()];
            for &value in &values {
                if value > ZERO && digits.iter().zip(&alive).all(|(&s, alive)| alive[s]) {
                    digits.iter().zip(&mut expected).for_each(|(&s, expected)| expected[s] = true);
                }
                table::advance(&mut digits, &lengths);
            }
            let factor = Factor { scope: &scope, log_values: &values };
            let mut entries = LiveEntries::new(factor, &lengths, &alive);
            let supported = entries.supported();
            assert!(entries.visited <= 3 * values.len(), "round {round}: {}", entries.visited);
            for (axis, part) in entries.parts.iter().enumerate() {
                let live: Vec<usize> = (0..lengths[axis]).filter(|&s| alive[axis][s]).collect();
                assert_eq!(entries.states[part.clone()], live, "round {round}");
                for i in part.clone() {
                    let s = entries.states[i];
                    assert_eq!(supported[i], expected[axis][s], "round {round}, axis {axis}, state {s}");
                }
            }
        }
    }
}
