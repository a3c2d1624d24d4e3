//! Reduction of a factor graph by evidence and zeros.
//!
//! States ruled out by zeros are removed ([`Domains`]). Variables with a single remaining state are
//! substituted, two variables that determine each other are merged into one, and factors without remaining
//! variables become a constant. Z is unchanged, and observed variables disappear. Cost: the sum of the table
//! sizes, plus the cost of finding the states.

use super::barren::Barren;
use super::consistency::{Domains, Twin};
use super::order::Stop;
use super::simplify;
use crate::error::Result;
use crate::model::{FactorGraph, table};
use crate::numeric::CompensatedSum;
use crate::query::{Beliefs, FactorBeliefs, Samples};
use crate::run::Clock;

/// The reduced graph and the mapping back to the original variables.
#[derive(Clone, Debug)]
pub(crate) struct Reduced {
    /// The graph over the free variables, each with at least two states, all of them live. Unless it is
    /// simplified, its factors are the original ones that contain a free variable, in the original order;
    /// their axes are the free variables in order, each once.
    pub graph: FactorGraph,
    /// Contribution of the determined part to every log-weight.
    pub constant: f64,
    /// Number of free variables removed as barren. If it is positive, there is no mapping back.
    pub barren: usize,
    /// For each original variable, its state for each state of the free variable that represents it.
    states: Vec<Vec<usize>>,
    /// For each original variable, the index in `graph` of the variable that represents it, if it is free.
    index: Vec<Option<usize>>,
}

/// Number of factors between checks of the clock.
const LOOK: usize = 1 << 10;

impl Reduced {
    /// Reduces `graph` by arc consistency alone; returns an error if that already shows Z = 0.
    pub fn new(graph: &FactorGraph) -> Result<Self> {
        let domains = Domains::new(graph, &|| false).ok_or_else(|| graph.zero_error())?;
        Self::from_domains(graph, &domains, Vec::new(), &|| Ok(()))
    }

    /// Like [`new`](Self::new); also returns an error if the work has to stop.
    pub fn within(graph: &FactorGraph, clock: &Clock<'_>) -> Result<Self> {
        let stop = || clock.must_stop();
        let domains = Domains::new(graph, &stop).ok_or_else(|| graph.zero_error())?;
        Self::from_domains(graph, &domains, Vec::new(), &|| clock.check())
    }

    /// Also probes every state, which finds more at a higher cost: the visits of `most` entries, or fewer.
    pub fn probed(graph: &FactorGraph, most: f64, clock: &Clock<'_>) -> Result<Self> {
        let stop = || clock.must_stop();
        let mut domains = Domains::new(graph, &stop).ok_or_else(|| graph.zero_error())?;
        let twins = domains.probe(most).ok_or_else(|| graph.zero_error())?;
        Self::from_domains(graph, &domains, twins, &|| clock.check())
    }

    fn from_domains(
        graph: &FactorGraph,
        domains: &Domains<'_>,
        twins: Vec<Twin>,
        check: &dyn Fn() -> Result<()>,
    ) -> Result<Self> {
        check()?;
        let n = graph.variable_count();
        let mut states: Vec<Vec<usize>> = (0..n).map(|v| domains.states(v)).collect();
        // The representative of each variable; a representative always represents itself.
        let mut same: Vec<usize> = (0..n).collect();
        let mut is_followed = vec![false; n];
        for Twin { v, w, states: own } in twins {
            let mut sorted = own.clone();
            sorted.sort_unstable();
            let still = own.len() == states[v].len() && sorted == states[w];
            if still && same[v] == v && same[w] == w && !is_followed[w] {
                (same[w], is_followed[v], states[w]) = (v, true, own);
            }
        }
        let mut left = 0..;
        let mut index: Vec<Option<usize>> = Vec::with_capacity(n);
        for v in 0..n {
            index.push(if states[v].len() > 1 && same[v] == v { left.next() } else { None });
        }
        let cardinalities = (0..n).filter(|&v| index[v].is_some()).map(|v| states[v].len()).collect();
        for v in 0..n {
            index[v] = index[same[v]];
        }
        let mut reduced =
            Reduced { graph: FactorGraph::new(cardinalities)?, constant: 0.0, barren: 0, states, index };
        let mut constant = CompensatedSum::default();
        for (f, factor) in graph.factors().enumerate() {
            if f % LOOK == LOOK - 1 {
                check()?;
            }
            let (scope, places) = reduced.places(graph, factor.scope);
            if scope.is_empty() {
                constant.add(factor.log_values[places[0]]);
            } else {
                let values: Vec<f64> = places.into_iter().map(|place| factor.log_values[place]).collect();
                reduced.graph.add_factor(&scope, &values)?;
            }
        }
        reduced.constant = constant.value();
        Ok(reduced)
    }

    /// The free variables in a scope of `original`, each once, and the index in a table over the scope for
    /// each of their joint states.
    fn places(&self, original: &FactorGraph, scope: &[usize]) -> (Vec<usize>, Vec<usize>) {
        let (mut free, mut steps): (Vec<usize>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (&v, stride) in scope.iter().zip(table::strides(&original.lengths(scope))) {
            let own = self.states[v].iter().map(|s| s * stride);
            match self.index[v] {
                None => start += self.states[v][0] * stride,
                Some(k) => match free.iter().position(|&known| known == k) {
                    Some(axis) => steps[axis].iter_mut().zip(own).for_each(|(step, more)| *step += more),
                    None => {
                        free.push(k);
                        steps.push(own.collect());
                    }
                },
            }
        }
        (free, table::sums(start, steps))
    }

    /// A copy whose tables are split into products of smaller ones; they are no longer the original factors.
    /// Returned unchanged if the work has to stop.
    pub fn simplified(&self, stop: Stop<'_>) -> Self {
        let mut simple = self.clone();
        // Splitting fails only for scores near the end of the number range.
        if let Ok(Some((graph, constant))) = simplify::simplified(&self.graph, stop) {
            simple.graph = graph;
            simple.constant += constant;
        }
        simple
    }

    /// Removes the variables and factors found by [`Barren`], which leaves log Z unchanged. Returns false if
    /// there are none.
    pub fn leave_out_barren(&mut self, stop: Stop<'_>) -> bool {
        let barren = Barren::of(&self.graph, stop);
        if !barren.factors.contains(&true) && !barren.variables.contains(&true) {
            return false;
        }
        self.barren = barren.variables.iter().filter(|barren| **barren).count();
        self.constant += barren.constant;
        let numbers = self.graph.leave_out(&barren.variables, &barren.factors);
        self.index.iter_mut().for_each(|index| *index = index.and_then(|v| numbers[v]));
        true
    }

    /// The index of an original variable in the reduced graph, if it is free.
    pub fn index(&self, v: usize) -> Option<usize> {
        self.index[v]
    }

    /// Converts a state of the free variables to a state of the original variables.
    pub fn expand_state(&self, state: &[usize]) -> Vec<usize> {
        let own = self.states.iter().zip(&self.index);
        own.map(|(states, index)| states[index.map_or(0, |k| state[k])]).collect()
    }

    /// Converts beliefs about the free variables to beliefs about the original variables.
    pub fn expand_beliefs(&self, original: &FactorGraph, beliefs: &Beliefs) -> Beliefs {
        let mut expanded = Beliefs::zeros(original.cardinalities());
        for (v, (states, index)) in self.states.iter().zip(&self.index).enumerate() {
            let target = expanded.variable_mut(v);
            match index {
                Some(k) => states.iter().zip(beliefs.variable(*k)).for_each(|(&s, &p)| target[s] = p),
                None => target[states[0]] = 1.0,
            }
        }
        expanded
    }

    /// Converts beliefs about the factors of the reduced graph to beliefs about the factors of `original`.
    /// `original` is the graph that was reduced, or the graph from which that one was obtained by observing
    /// variables; in the latter case scopes are longer, with the same free variables.
    pub fn expand_factor_beliefs(&self, original: &FactorGraph, beliefs: &FactorBeliefs) -> FactorBeliefs {
        let mut expanded = FactorBeliefs::zeros(original);
        let mut tables = beliefs.iter();
        for (f, factor) in original.factors().enumerate() {
            let (scope, places) = self.places(original, factor.scope);
            let table = if scope.is_empty() { &[1.0] } else { tables.next().unwrap_or_default() };
            let target = expanded.factor_mut(f);
            places.into_iter().zip(table).for_each(|(place, &p)| target[place] = p);
        }
        expanded
    }

    /// Converts samples of the free variables to samples of the original variables.
    pub fn expand_samples(&self, samples: Samples) -> Samples {
        let mut expanded = Vec::with_capacity(samples.len() * self.states.len());
        for state in samples.iter().filter(|_| !self.states.is_empty()) {
            let own = self.states.iter().zip(&self.index);
            expanded.extend(own.map(|(states, index)| states[index.map_or(0, |k| state[k])]));
        }
        Samples::new(samples.len(), self.states.len(), expanded, samples.law)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::random::Streams;
    use crate::run::Run;

    const ZERO: f64 = f64::NEG_INFINITY;

    #[test]
    fn observed_and_implied_variables_vanish() {
        // x0 is observed to be 1, x1 must equal x0, x2 is free.
        let mut graph = FactorGraph::new(vec![2, 2, 2]).unwrap();
        graph.add_factor(&[0, 1], &[0.5, ZERO, ZERO, 0.25]).unwrap();
        graph.add_factor(&[1, 2], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        let given = graph.condition(&[(0, 1)]).unwrap();
        let reduced = Reduced::new(&given).unwrap();
        assert_eq!(reduced.graph.cardinalities(), [2]);
        assert_eq!(reduced.graph.factor(0).log_values, [3.0, 4.0]);
        assert_eq!(reduced.constant, 0.25);
        assert_eq!(reduced.expand_state(&[0]), [1, 1, 0]);
    }

    #[test]
    fn contradictions_are_found() {
        let mut graph = FactorGraph::new(vec![2, 2]).unwrap();
        graph.add_factor(&[0, 1], &[0.0, ZERO, ZERO, 0.0]).unwrap();
        graph.add_factor(&[0], &[0.0, ZERO]).unwrap();
        graph.add_factor(&[1], &[ZERO, 0.0]).unwrap();
        assert!(matches!(Reduced::new(&graph), Err(Error::ZeroPartition)));
        let mut constant = FactorGraph::new(vec![]).unwrap();
        constant.add_factor(&[], &[ZERO]).unwrap();
        assert!(matches!(Reduced::new(&constant), Err(Error::ZeroPartition)));
    }

    /// All states of positive weight, with their scores.
    fn support(graph: &FactorGraph) -> Vec<(Vec<usize>, f64)> {
        let (mut state, mut found) = (vec![0; graph.variable_count()], Vec::new());
        loop {
            let score = graph.score(&state);
            if score > ZERO {
                found.push((state.clone(), score));
            }
            if !table::advance(&mut state, graph.cardinalities()) {
                return found;
            }
        }
    }

    /// A random model with many zeros, in which some pairs of variables determine each other, directly or
    /// through other variables.
    fn hard_model(seed: u64) -> FactorGraph {
        let mut random = Streams::new(seed, "hard models").block(0);
        let mut graph = FactorGraph::new(vec![2, 3, 2, 3, 2, 2, 3]).unwrap();
        for _ in 0..6 {
            let mut scope: Vec<usize> = (0..7).collect();
            random.shuffle(&mut scope);
            scope.truncate(2 + random.below(2));
            let len = graph.lengths(&scope).iter().product();
            let draw = |_| if random.below(5) < 2 { ZERO } else { random.below(8) as f64 / 4.0 };
            graph.add_factor(&scope, &(0..len).map(draw).collect::<Vec<_>>()).unwrap();
        }
        for (v, w) in [(0, 4), (1, 3), (4, 2)] {
            if random.below(2) == 0 {
                let states = graph.cardinalities()[v];
                let shift = random.below(states);
                let twin = |i: usize| if i / states == (i % states + shift) % states { 0.5 } else { ZERO };
                graph.add_factor(&[v, w], &(0..states * states).map(twin).collect::<Vec<_>>()).unwrap();
            }
        }
        graph
    }

    #[test]
    fn reduced_models_are_the_same_function() {
        let (mut merged, mut impossible) = (0, 0);
        for seed in 0..2000 {
            let graph = hard_model(seed);
            let expected = support(&graph);
            for probing in [false, true] {
                let reduced = if probing {
                    Reduced::probed(&graph, f64::INFINITY, &Run::default().start("test"))
                } else {
                    Reduced::new(&graph)
                };
                let Ok(reduced) = reduced else {
                    assert!(expected.is_empty(), "seed {seed}");
                    impossible += 1;
                    continue;
                };
                for reduced in [reduced.simplified(&|| false), reduced] {
                    let mut found: Vec<(Vec<usize>, f64)> = support(&reduced.graph)
                        .into_iter()
                        .map(|(state, score)| (reduced.expand_state(&state), reduced.constant + score))
                        .collect();
                    found.sort_by(|a, b| a.0.cmp(&b.0));
                    assert_eq!(found.len(), expected.len(), "seed {seed}, probing {probing}");
                    for (found, expected) in found.iter().zip(&expected) {
                        assert_eq!(found.0, expected.0, "seed {seed}");
                        assert!((found.1 - expected.1).abs() < 1e-12, "seed {seed}");
                    }
                    let free = reduced.index.iter().flatten().count();
                    merged += free - reduced.graph.variable_count();
                }
            }
        }
        assert!(merged > 1000 && impossible > 100, "{merged} merged, {impossible} impossible");
    }

    #[test]
    fn beliefs_find_their_way_back() {
        for seed in 0..500 {
            let graph = hard_model(seed);
            let Ok(reduced) = Reduced::probed(&graph, f64::INFINITY, &Run::default().start("test")) else {
                continue;
            };
            let states = support(&reduced.graph);
            let mut own = Beliefs::zeros(reduced.graph.cardinalities());
            let mut factors = FactorBeliefs::zeros(&reduced.graph);
            for (state, score) in &states {
                for (v, &s) in state.iter().enumerate() {
                    own.variable_mut(v)[s] += score.exp();
                }
                for f in 0..reduced.graph.factor_count() {
                    let place = reduced.graph.entry(reduced.graph.factor(f).scope, state);
                    factors.factor_mut(f)[place] += score.exp();
                }
            }
            let shift = reduced.constant.exp();
            let (all, tables) =
                (reduced.expand_beliefs(&graph, &own), reduced.expand_factor_beliefs(&graph, &factors));
            let mut expected = Beliefs::zeros(graph.cardinalities());
            let mut expected_tables = FactorBeliefs::zeros(&graph);
            let mut total = 0.0;
            for (state, score) in support(&graph) {
                total += score.exp();
                state.iter().enumerate().for_each(|(v, &s)| expected.variable_mut(v)[s] += score.exp());
                for f in 0..graph.factor_count() {
                    let place = graph.entry(graph.factor(f).scope, &state);
                    expected_tables.factor_mut(f)[place] += score.exp();
                }
            }
            for (v, index) in reduced.index.iter().enumerate() {
                for (&p, &q) in all.variable(v).iter().zip(expected.variable(v)) {
                    let p = if index.is_some() { p * shift } else { p * total };
                    assert!((p - q).abs() <= 1e-12 * total, "seed {seed}, variable {v}: {p} {q}");
                }
            }
            for (f, factor) in graph.factors().enumerate() {
                let free = factor.scope.iter().any(|&v| reduced.index[v].is_some());
                for (&p, &q) in tables.factor(f).iter().zip(expected_tables.factor(f)) {
                    let p = if free { p * shift } else { p * total };
                    assert!((p - q).abs() <= 1e-12 * total, "seed {seed}, factor {f}: {p} {q}");
                }
            }
        }
    }
}
