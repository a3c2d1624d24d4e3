//! A factor graph without what is already decided.
//!
//! A state of a variable is dead if some factor gives it −∞ whatever its neighbours do. Dead states are removed until
//! nothing changes (generalised arc consistency); variables left with one state are substituted, and factors
//! left with no variable become a constant. Z is unchanged, and observed variables vanish.
//! Cost: the sum of the table sizes, times the few rounds it takes.

use crate::error::Result;
use crate::model::barren::Barren;
use crate::model::{FactorGraph, table};
use crate::numeric::CompensatedSum;
use crate::query::{Beliefs, FactorBeliefs, Samples};

/// The reduced graph and the way back.
#[derive(Debug)]
pub(crate) struct Reduced {
    /// The graph over the free variables, each with two states or more, all alive. Its factors are the original ones that
    /// have a free variable, in order, with their axes in order and without those of decided variables.
    pub graph: FactorGraph,
    /// What the decided part contributes to every log weight.
    pub constant: f64,
    /// How many free variables were left out because log Z can do without them. Then there is no way back.
    pub barren: usize,
    /// For each original variable its states that are alive.
    alive: Vec<Vec<usize>>,
    /// For each original variable its number in `graph`, if it is free.
    index: Vec<Option<usize>>,
}

impl Reduced {
    /// Reduces `graph`; an error if that already shows Z = 0.
    pub fn new(graph: &FactorGraph) -> Result<Self> {
        let Some(alive) = alive_states(graph) else {
            return Err(graph.zero_error());
        };
        let mut free = 0;
        let index: Vec<Option<usize>> = alive
            .iter()
            .map(|states| {
                (states.len() > 1).then(|| {
                    free += 1;
                    free - 1
                })
            })
            .collect();
        let cardinalities = alive.iter().map(Vec::len).filter(|&states| states > 1).collect();
        let mut reduced = FactorGraph::new(cardinalities)?;
        let mut constant = CompensatedSum::default();
        for factor in graph.factors() {
            let keep: Vec<&[usize]> = factor.scope.iter().map(|&v| alive[v].as_slice()).collect();
            let values = table::select(factor.log_values, &graph.lengths(factor.scope), &keep);
            let scope: Vec<usize> = factor.scope.iter().filter_map(|&v| index[v]).collect();
            if scope.is_empty() {
                constant.add(values[0]);
            } else {
                reduced.add_factor(&scope, &values)?;
            }
        }
        Ok(Reduced { graph: reduced, constant: constant.value(), barren: 0, alive, index })
    }

    /// Leaves out what [`Barren`] finds, log Z being the same; false if that is nothing.
    pub fn leave_out_barren(&mut self) -> bool {
        let barren = Barren::of(&self.graph);
        if !barren.factors.contains(&true) && !barren.variables.contains(&true) {
            return false;
        }
        self.barren = barren.variables.iter().filter(|barren| **barren).count();
        self.constant += barren.constant;
        let numbers = self.graph.leave_out(&barren.variables, &barren.factors);
        self.index.iter_mut().for_each(|index| *index = index.and_then(|v| numbers[v]));
        true
    }

    /// The number in the reduced graph of an original variable, if it is free.
    pub fn index(&self, v: usize) -> Option<usize> {
        self.index[v]
    }

    /// A state of the original variables from one of the free ones.
    pub fn expand_state(&self, state: &[usize]) -> Vec<usize> {
        self.alive
            .iter()
            .zip(&self.index)
            .map(|(alive, index)| alive[index.map_or(0, |k| state[k])])
            .collect()
    }

    /// Beliefs about the original variables from those about the free ones.
    pub fn expand_beliefs(&self, original: &FactorGraph, beliefs: &Beliefs) -> Beliefs {
        let mut expanded = Beliefs::zeros(original.cardinalities());
        for (v, (alive, index)) in self.alive.iter().zip(&self.index).enumerate() {
            let target = expanded.variable_mut(v);
            match index {
                Some(k) => {
                    alive.iter().zip(beliefs.variable(*k)).for_each(|(&state, &p)| target[state] = p);
                }
                None => target[alive[0]] = 1.0,
            }
        }
        expanded
    }

    /// Beliefs about the scopes of the factors of `original` from those about the factors of the reduced graph. `original`
    /// is what was reduced, or what became it by observing variables: then scopes are longer, the free part is the same.
    pub fn expand_factor_beliefs(&self, original: &FactorGraph, beliefs: &FactorBeliefs) -> FactorBeliefs {
        let mut expanded = FactorBeliefs::zeros(original);
        let mut tables = beliefs.iter();
        for (f, factor) in original.factors().enumerate() {
            let keep: Vec<&[usize]> = factor.scope.iter().map(|&v| self.alive[v].as_slice()).collect();
            let is_free = factor.scope.iter().any(|&v| self.index[v].is_some());
            let table = if is_free { tables.next().unwrap_or_default() } else { &[1.0] };
            let target = expanded.factor_mut(f);
            let places = table::places(&original.lengths(factor.scope), &keep);
            places.into_iter().zip(table).for_each(|(place, &p)| target[place] = p);
        }
        expanded
    }

    /// Samples of the original variables from samples of the free ones.
    pub fn expand_samples(&self, samples: Samples) -> Samples {
        let mut states = Vec::with_capacity(samples.len() * self.alive.len());
        for state in samples.iter().filter(|_| !self.alive.is_empty()) {
            let own = self.alive.iter().zip(&self.index);
            states.extend(own.map(|(alive, index)| alive[index.map_or(0, |k| state[k])]));
        }
        Samples::new(samples.len(), self.alive.len(), states, samples.law)
    }
}

/// For each variable its states that no factor rules out; `None` if a variable has none left.
fn alive_states(graph: &FactorGraph) -> Option<Vec<Vec<usize>>> {
    let mut alive: Vec<Vec<bool>> = graph.cardinalities().iter().map(|&states| vec![true; states]).collect();
    let mut touching: Vec<Vec<usize>> = vec![Vec::new(); graph.variable_count()];
    let mut queue: Vec<usize> = Vec::new();
    let mut queued = vec![false; graph.factor_count()];
    for (f, factor) in graph.factors().enumerate() {
        // A factor without zeros can never rule anything out.
        if factor.log_values.contains(&f64::NEG_INFINITY) {
            factor.scope.iter().for_each(|&v| touching[v].push(f));
            queue.push(f);
            queued[f] = true;
        }
    }
    while let Some(f) = queue.pop() {
        queued[f] = false;
        let factor = graph.factor(f);
        if factor.scope.is_empty() {
            return None;
        }
        let lengths = graph.lengths(factor.scope);
        let mut supported: Vec<Vec<bool>> = lengths.iter().map(|&states| vec![false; states]).collect();
        let mut digits = vec![0; lengths.len()];
        for &value in factor.log_values {
            if value > f64::NEG_INFINITY && digits.iter().zip(factor.scope).all(|(&s, &v)| alive[v][s]) {
                digits.iter().zip(&mut supported).for_each(|(&s, supported)| supported[s] = true);
            }
            table::advance(&mut digits, &lengths);
        }
        for (&v, supported) in factor.scope.iter().zip(&supported) {
            let mut changed = false;
            for (alive, &supported) in alive[v].iter_mut().zip(supported) {
                changed |= *alive && !supported;
                *alive &= supported;
            }
            if !alive[v].contains(&true) {
                return None;
            }
            if changed {
                for &g in &touching[v] {
                    if g != f && !queued[g] {
                        queued[g] = true;
                        queue.push(g);
                    }
                }
            }
        }
    }
    let listed = |states: Vec<bool>| (0..states.len()).filter(|&s| states[s]).collect();
    Some(alive.into_iter().map(listed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;

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
}
