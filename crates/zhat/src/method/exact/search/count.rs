//! The weighted model counting search.
//!
//! The search is depth-first with a stack of levels. A level decides one variable of one component, one state
//! at a time. The consequences of the state are propagated, and the rest is split into components, each of
//! which is found in the cache or becomes a new level.
//!
//! A clause learned from a conflict follows from the whole problem, so it is valid only as long as the whole
//! problem has a solution. If a component turns out to have none, values computed for its sibling components
//! may be too small. Therefore all entries inserted into the cache since the start of the branch are removed.
//!
//! Reference: T. Sang, F. Bacchus, P. Beame, H. Kautz, T. Pitassi, *Combining component caching and clause
//! learning for effective model counting*, SAT 2004.

use super::cache::{Cache, Solved};
use super::circuit::{Circuit, Mark};
use super::components::{Component, Components};
use super::constraints::{Constraints, Literal};
use super::propagate::{Propagator, Reason};
use super::weights::Weights;
use crate::error::Result;
use crate::model::FactorGraph;

/// One open decision.
struct Level {
    component: Component,
    variable: usize,
    /// The states still to be tried; the next one comes last.
    states: Vec<u32>,
    /// The lengths of the trail and of the stack of components at the start of the level.
    trail: usize,
    base: usize,
    /// Log of the sum of the closed branches, log of the open branch, and log of the constant in it.
    total: f64,
    branch: f64,
    constant: f64,
    /// Literals learned from conflicts that hold in all branches of this level.
    asserted: Vec<(Literal, Reason)>,
    /// Position of the cache at the start of the branch, and whether the branch has several components to
    /// solve.
    cache_mark: u64,
    several: bool,
    circuit_mark: Mark,
    /// The fraction of the whole search space in a branch, and in one of its components.
    branch_share: f64,
    part_share: f64,
}

/// Statistics of a search.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Figures {
    pub decisions: u64,
    pub conflicts: u64,
    pub components: u64,
    pub hits: u64,
    pub nodes: u64,
    pub bytes: usize,
}

pub(super) struct Search<'a> {
    propagator: Propagator,
    weights: Weights<'a>,
    components: Components,
    cache: Cache,
    pub circuit: Option<Circuit>,
    levels: Vec<Level>,
    /// For each variable, the benefit of deciding it early.
    guide: Vec<f64>,
    constant: f64,
    key: Vec<u8>,
    score: Vec<f64>,
    /// The fraction of the search space that has been completed.
    pub closed: f64,
    decisions: u64,
    solved: u64,
    learned_limit: usize,
    /// Limits on the total memory and on the memory of the cache.
    memory: usize,
    cache_limit: usize,
}

/// Initial limit on the number of learned clauses; it grows over time.
const LEARNED: usize = 4000;
/// Number of steps between checks of the clock and of the number of learned clauses.
const PAUSE: u32 = if cfg!(test) { 4 } else { 256 };
/// Weight of conflict activity relative to the number of clauses.
const ACTIVITY: f64 = 10.0;

fn log_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == f64::NEG_INFINITY { high } else { high + (low - high).exp().ln_1p() }
}

impl<'a> Search<'a> {
    /// Prepares a search through `graph` within `memory` bytes; with `traced` it records a circuit.
    pub fn new(graph: &'a FactorGraph, guide: Vec<f64>, traced: bool, memory: usize) -> Self {
        let mut constraints = Constraints::new(graph);
        let pairs: Vec<[Literal; 2]> = constraints
            .clauses
            .iter()
            .filter_map(|clause| <[Literal; 2]>::try_from(clause.as_slice()).ok())
            .collect();
        let weights = Weights::new(graph, std::mem::take(&mut constraints.weighted));
        let constant = constraints.constant;
        let propagator = Propagator::new(constraints);
        let components = Components::new(&propagator, &pairs, weights.len());
        Search {
            score: vec![0.0; propagator.variables.len()],
            propagator,
            weights,
            components,
            cache: Cache::new(0),
            circuit: traced.then(Circuit::default),
            levels: Vec::new(),
            guide,
            constant,
            key: Vec::new(),
            closed: 0.0,
            decisions: 0,
            solved: 0,
            learned_limit: LEARNED,
            memory,
            cache_limit: usize::MAX,
        }
    }

    pub fn figures(&self) -> Figures {
        Figures {
            decisions: self.decisions,
            conflicts: self.propagator.conflicts,
            components: self.solved,
            hits: self.cache.hits,
            nodes: self.circuit.as_ref().map_or(0, |circuit| circuit.len() as u64),
            bytes: self.bytes() + self.cache.bytes(),
        }
    }

    /// Number of steps so far.
    pub fn steps(&self) -> u64 {
        self.propagator.steps + self.components.steps + self.weights.steps
    }

    /// Memory in bytes, without the cache.
    fn bytes(&self) -> usize {
        self.propagator.bytes()
            + self.weights.bytes()
            + self.components.bytes()
            + self.circuit.as_ref().map_or(0, Circuit::bytes)
            + 300 * self.levels.len()
            + 16 * self.guide.len()
    }

    /// Computes log Z. `pause` is called regularly and can end the search. Returns `None` if it did, or if
    /// memory ran out.
    pub fn run(&mut self, mut pause: impl FnMut(&Self) -> Result<bool>) -> Result<Option<f64>> {
        if !self.propagator.probe() {
            return Ok(Some(f64::NEG_INFINITY));
        }
        let (all, log) = self.components.push_all(&self.propagator, &mut self.weights);
        self.levels.push(self.level(all, 0, Vec::new(), 1.0));
        self.closed = 1.0;
        if !self.open_branch() {
            return Ok(Some(f64::NEG_INFINITY));
        }
        let mut turn = 0u32;
        loop {
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(PAUSE) {
                if !pause(self)? {
                    return Ok(None);
                }
                self.keep_house();
            }
            let Some(level) = self.levels.last().filter(|_| self.bytes() <= self.memory) else {
                return Ok(None);
            };
            if level.branch > f64::NEG_INFINITY && self.components.stack.len() > level.base {
                self.descend();
            } else {
                self.close_branch();
            }
            if self.next_branch() {
                continue;
            }
            if self.levels.len() > 1 {
                self.leave();
                continue;
            }
            let Level { total, circuit_mark, .. } = self.levels[0];
            if let Some(circuit) = &mut self.circuit {
                circuit.close_node(circuit_mark, total);
            }
            return Ok(Some(total + log + self.constant));
        }
    }

    fn level(&self, component: Component, variable: usize, states: Vec<u32>, branch_share: f64) -> Level {
        Level {
            component,
            variable,
            states,
            trail: self.propagator.trail.len(),
            base: self.components.stack.len(),
            total: f64::NEG_INFINITY,
            branch: f64::NEG_INFINITY,
            constant: 0.0,
            asserted: Vec::new(),
            cache_mark: 0,
            several: false,
            circuit_mark: self.circuit.as_ref().map_or(Mark::default(), Circuit::mark),
            branch_share,
            part_share: 0.0,
        }
    }

    /// Opens a level for the latest component.
    fn descend(&mut self) {
        let Some(&component) = self.components.stack.last() else { return };
        let share = self.levels.last().map_or(0.0, |level| level.part_share);
        let variable = self.choose(component);
        let mut states: Vec<u32> = self.propagator.live(variable).map(|s| s as u32).collect();
        let activity =
            |&s: &u32| self.propagator.activity(self.propagator.variables.is(variable, s as usize));
        states.sort_by(|a, b| activity(a).total_cmp(&activity(b)).then(b.cmp(a)));
        let branch_share = share / states.len() as f64;
        self.levels.push(self.level(component, variable, states, branch_share));
    }

    /// Chooses the variable to decide: one that is in many clauses and recent conflicts, and central in the
    /// tree decomposition.
    fn choose(&mut self, component: Component) -> usize {
        let Search { components, propagator, weights, score, guide, .. } = self;
        let variables = components.variables(component);
        for &v in variables {
            score[v as usize] = 0.0;
            for atom in propagator.variables.atoms(v as usize).filter(|&atom| propagator.is_open(atom)) {
                score[v as usize] += components.open_partners(propagator, atom).count() as f64;
            }
        }
        for &id in components.clauses(component) {
            for literal in propagator.clause(id as usize) {
                if propagator.is_open(literal.atom()) {
                    score[propagator.variables.owner(literal.atom())] += 1.0;
                }
            }
        }
        for pair in components.factors(component).chunks_exact(2) {
            weights.scope(pair[1]).iter().for_each(|&v| score[v as usize] += 1.0);
        }
        let mut best = (f64::NEG_INFINITY, 0);
        for &v in variables {
            let v = v as usize;
            let activity: f64 = propagator
                .variables
                .atoms(v)
                .map(|atom| {
                    propagator.activity(Literal::new(atom, true))
                        + propagator.activity(Literal::new(atom, false))
                })
                .sum();
            let total = score[v] + ACTIVITY * activity + guide[v];
            if total > best.0 {
                best = (total, v);
            }
        }
        best.1
    }

    /// Starts the next branch of the latest level whose weight is not zero; false if there is none.
    fn next_branch(&mut self) -> bool {
        let depth = self.levels.len() as u32 - 1;
        // Consequences that hold for all branches of a level, and consequences of its decision, have separate
        // levels.
        let (before, after) = (2 * depth, 2 * depth + 1);
        loop {
            let level = &mut self.levels[depth as usize];
            self.propagator.undo(level.trail);
            let Some(state) = level.states.pop() else { return false };
            self.closed += level.branch_share;
            if self.propagator.begin(&level.asserted, before).is_err() {
                self.closed += level.branch_share * level.states.len() as f64;
                level.states.clear();
                continue;
            }
            let literal = self.propagator.variables.is(level.variable, state as usize);
            if self.propagator.is_false(literal) {
                continue;
            }
            self.decisions += 1;
            let decided = self.propagator.assign(literal, Reason::Decision, after);
            if let Err(conflict) = decided.and_then(|()| self.propagator.propagate(after)) {
                let lesson = self.propagator.learn(conflict, after);
                let level = &mut self.levels[depth as usize];
                level.asserted.extend(lesson.asserted);
                if lesson.is_final {
                    self.closed += level.branch_share * level.states.len() as f64;
                    level.states.clear();
                }
                continue;
            }
            if self.open_branch() {
                return true;
            }
        }
    }

    /// Splits the rest of the problem after the latest decision into components and looks them up; false if
    /// the branch has weight zero.
    fn open_branch(&mut self) -> bool {
        let Some(level) = self.levels.last_mut() else { return false };
        level.cache_mark = self.cache.mark();
        let changed = &self.propagator.trail[level.trail..];
        level.constant = self.components.split(level.component, changed, &self.propagator, &mut self.weights);
        level.branch = level.constant;
        let mut kept = level.base;
        for at in level.base..self.components.stack.len() {
            let part = self.components.stack[at];
            if level.branch == f64::NEG_INFINITY {
                break;
            }
            let free = part.variables == 1 && part.clauses == 0;
            if free && self.circuit.is_none() {
                level.branch += free_sum(part, &self.components, &self.propagator, &self.weights);
                continue;
            }
            self.components.key(part, &self.propagator, &self.weights, &mut self.key);
            if let Some(known) = self.cache.get(&self.key) {
                level.branch += known.log;
                if let Some(circuit) = &mut self.circuit {
                    circuit.part(known.node);
                }
            } else if let (true, Some(circuit)) = (free, &mut self.circuit) {
                let (log, node) = free_node(part, &self.components, &self.propagator, &self.weights, circuit);
                self.cache.insert(&self.key, Solved { log, node });
                level.branch += log;
                circuit.part(node);
            } else {
                self.components.stack[kept] = part;
                kept += 1;
            }
        }
        if level.branch == f64::NEG_INFINITY {
            self.components.truncate(level.base, level.component);
            if let Some(circuit) = &mut self.circuit {
                circuit.drop_branch(level.circuit_mark);
            }
            return false;
        }
        self.components.stack.truncate(kept);
        level.several = kept > level.base + 1;
        level.part_share = level.branch_share / (kept - level.base).max(1) as f64;
        if kept > level.base {
            self.closed -= level.branch_share;
        }
        if let Some(circuit) = &mut self.circuit {
            for &v in self.components.variables(level.component) {
                if let Some(state) = self.propagator.state(v as usize) {
                    circuit.decide(v, state);
                }
            }
        }
        true
    }

    /// Adds the open branch to the sum of its level.
    fn close_branch(&mut self) {
        let Some(level) = self.levels.last_mut() else { return };
        self.closed += level.part_share * (self.components.stack.len() - level.base) as f64;
        self.components.truncate(level.base, level.component);
        if level.branch == f64::NEG_INFINITY {
            if level.several {
                self.cache.back_to(level.cache_mark);
            }
            if let Some(circuit) = &mut self.circuit {
                circuit.drop_branch(level.circuit_mark);
            }
            return;
        }
        level.total = log_add(level.total, level.branch);
        if let Some(circuit) = &mut self.circuit {
            circuit.close_branch(level.circuit_mark, level.constant, level.branch);
        }
    }

    /// Closes the latest level, whose component is now solved.
    fn leave(&mut self) {
        let Some(level) = self.levels.pop() else { return };
        self.solved += 1;
        let log = level.total;
        let node = self.circuit.as_mut().map_or(0, |circuit| circuit.close_node(level.circuit_mark, log));
        self.components.key(level.component, &self.propagator, &self.weights, &mut self.key);
        self.cache.limit = self.memory.saturating_sub(self.bytes()).min(self.cache_limit);
        self.cache.insert(&self.key, Solved { log, node });
        self.components.pop();
        if let Some(parent) = self.levels.last_mut() {
            parent.branch += log;
            if let Some(circuit) = &mut self.circuit {
                circuit.part(node);
            }
        }
    }

    /// Discards learned clauses if there are too many.
    fn keep_house(&mut self) {
        let room = self.memory.saturating_sub(self.bytes());
        let tight = 12 * self.propagator.learned_literals > room / 4;
        if self.propagator.learned() < self.learned_limit && !tight {
            return;
        }
        let mut pinned: Vec<(Literal, Reason)> =
            self.levels.iter().flat_map(|level| level.asserted.iter().copied()).collect();
        self.propagator.forget(&mut pinned);
        let mut pinned = pinned.into_iter();
        for level in &mut self.levels {
            for (asserted, pin) in level.asserted.iter_mut().zip(&mut pinned) {
                *asserted = pin;
            }
        }
        self.learned_limit = self.learned_limit.max(self.propagator.learned() + LEARNED / 2);
    }
}

/// The log-weights of the live states of an isolated variable.
fn free_weights<'a>(
    part: Component,
    components: &'a Components,
    propagator: &'a Propagator,
    weights: &'a Weights<'_>,
) -> impl Iterator<Item = (usize, f64)> + 'a {
    let v = components.variables(part)[0] as usize;
    let states = if part.factors == 0 { 0 } else { propagator.live(v).count() };
    propagator.live(v).enumerate().map(move |(i, state)| {
        let forms = components.factors(part).chunks_exact(2);
        (state, forms.map(|pair| weights.values(pair[1], states)[i]).sum())
    })
}

fn free_sum(part: Component, components: &Components, propagator: &Propagator, weights: &Weights<'_>) -> f64 {
    if part.factors == 0 {
        return (propagator.live(components.variables(part)[0] as usize).count() as f64).ln();
    }
    free_weights(part, components, propagator, weights)
        .fold(f64::NEG_INFINITY, |sum, (_, log)| log_add(sum, log))
}

/// The circuit node of an isolated variable.
fn free_node(
    part: Component,
    components: &Components,
    propagator: &Propagator,
    weights: &Weights<'_>,
    circuit: &mut Circuit,
) -> (f64, u32) {
    let mark = circuit.mark();
    let v = components.variables(part)[0];
    for (state, log) in free_weights(part, components, propagator, weights) {
        if log > f64::NEG_INFINITY {
            circuit.decide(v, state);
            circuit.close_branch(mark, log, log);
        }
    }
    let log = free_sum(part, components, propagator, weights);
    (log, circuit.close_node(mark, log))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    const ZERO: f64 = f64::NEG_INFINITY;

    /// Clauses of three literals over neighbouring variables along a chain, so that components form.
    fn chain(n: usize, clauses: usize, seed: u64) -> FactorGraph {
        let mut random = Streams::new(seed, "search chain").block(0);
        let mut graph = FactorGraph::new(vec![2; n]).unwrap();
        for _ in 0..clauses {
            let v = random.below(n - 3);
            let mut values = vec![0.0; 8];
            values[random.below(8)] = ZERO;
            graph.add_factor(&[v, v + 1 + random.below(2), v + 3], &values).unwrap();
        }
        graph
    }

    fn count(graph: &FactorGraph) -> f64 {
        let n = graph.variable_count();
        let state = |bits: usize| (0..n).map(|v| bits >> v & 1).collect::<Vec<_>>();
        ((0..1 << n).filter(|&bits| graph.score(&state(bits)) > ZERO).count() as f64).ln()
    }

    #[test]
    fn the_size_of_the_cache_changes_nothing() {
        let (mut hits, mut evicted, mut conflicts, mut zero) = (0, 0, 0, 0);
        for seed in 0..300 {
            let graph = chain(14, 30 + seed as usize % 30, seed);
            let want = count(&graph);
            zero += u32::from(want == ZERO);
            for traced in [false, true] {
                for room in [0, 2000, 1 << 30] {
                    let mut search = Search::new(&graph, vec![0.0; 14], traced, 1 << 30);
                    search.cache_limit = room;
                    let got = search.run(|_| Ok(true)).unwrap().unwrap();
                    assert!(got == want || (got - want).abs() < 1e-12, "seed {seed}: {got}, want {want}");
                    assert!((search.closed - 1.0).abs() < 1e-9 || got == ZERO, "{}", search.closed);
                    hits += search.cache.hits;
                    evicted += search.cache.evicted;
                    conflicts += search.propagator.conflicts;
                }
            }
        }
        assert!(
            hits > 1000 && evicted > 200 && conflicts > 1000 && zero > 10,
            "{hits} {evicted} {conflicts} {zero}"
        );
    }

    #[test]
    fn forgetting_what_was_learned_changes_nothing() {
        let mut forgotten = 0;
        for seed in 0..200 {
            let graph = chain(14, 40, seed);
            let mut search = Search::new(&graph, vec![0.0; 14], false, 1 << 30);
            search.learned_limit = 2;
            let got = search.run(|_| Ok(true)).unwrap().unwrap();
            forgotten += search.propagator.conflicts;
            let want = count(&graph);
            assert!(got == want || (got - want).abs() < 1e-12, "seed {seed}: {got}, want {want}");
        }
        assert!(forgotten > 100);
    }
}
