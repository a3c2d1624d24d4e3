//! Atoms, literals, and clauses for the zeros of the factors.
//!
//! A variable with two states is one Boolean atom. A variable with c > 2 states has c atoms, exactly one of
//! which is true. The zero entries of a factor are covered by maximal boxes x_1 ∈ S_1, …, x_k ∈ S_k. Each box
//! becomes the clause x_1 ∉ S_1 ∨ … ∨ x_k ∉ S_k, which forbids its states. A factor with a single zero
//! becomes one clause.

use std::collections::HashSet;
use std::ops::{Not, Range};

use crate::model::{FactorGraph, table};

/// An atom or its negation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Literal(u32);

impl Literal {
    pub fn new(atom: usize, positive: bool) -> Self {
        Literal((atom as u32) << 1 | u32::from(!positive))
    }

    pub fn atom(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// An index below twice the number of atoms.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    pub fn is_positive(self) -> bool {
        self.0 & 1 == 0
    }
}

impl Not for Literal {
    type Output = Literal;

    fn not(self) -> Literal {
        Literal(self.0 ^ 1)
    }
}

/// Mapping between variables and atoms.
#[derive(Debug)]
pub(super) struct Variables {
    /// The first atom of each variable, followed by the number of atoms.
    first: Vec<u32>,
    states: Vec<u32>,
    /// The variable of each atom.
    owner: Vec<u32>,
}

impl Variables {
    pub fn new(cardinalities: &[usize]) -> Self {
        let (mut first, mut owner) = (vec![0], Vec::new());
        for (v, &states) in cardinalities.iter().enumerate() {
            let atoms = if states == 2 { 1 } else { states };
            owner.extend(std::iter::repeat_n(v as u32, atoms));
            first.push(owner.len() as u32);
        }
        Variables { first, states: cardinalities.iter().map(|&states| states as u32).collect(), owner }
    }

    pub fn len(&self) -> usize {
        self.states.len()
    }

    pub fn atom_count(&self) -> usize {
        self.owner.len()
    }

    pub fn states(&self, v: usize) -> usize {
        self.states[v] as usize
    }

    pub fn atoms(&self, v: usize) -> Range<usize> {
        self.first[v] as usize..self.first[v + 1] as usize
    }

    pub fn owner(&self, atom: usize) -> usize {
        self.owner[atom] as usize
    }

    /// The literal "v is in state s".
    pub fn is(&self, v: usize, s: usize) -> Literal {
        let first = self.first[v] as usize;
        if self.states[v] == 2 { Literal::new(first, s == 1) } else { Literal::new(first + s, true) }
    }
}

/// The constraints imposed by the zeros of a graph.
pub(super) struct Constraints {
    pub variables: Variables,
    /// Clauses that together forbid exactly the zeros.
    pub clauses: Vec<Vec<Literal>>,
    /// Redundant clauses that help propagation.
    pub implied: Vec<Vec<Literal>>,
    /// The factors whose non-zero entries are not all equal.
    pub weighted: Vec<usize>,
    /// The sum of the log-values of the other factors.
    pub constant: f64,
}

impl Constraints {
    pub fn new(graph: &FactorGraph) -> Self {
        let mut constraints = Constraints {
            variables: Variables::new(graph.cardinalities()),
            clauses: Vec::new(),
            implied: Vec::new(),
            weighted: Vec::new(),
            constant: 0.0,
        };
        let mut known = HashSet::new();
        let mut constant = crate::numeric::CompensatedSum::default();
        for (f, factor) in graph.factors().enumerate() {
            let mut finite = factor.log_values.iter().filter(|x| **x > f64::NEG_INFINITY);
            match finite.next() {
                Some(first) if finite.all(|x| x == first) => constant.add(*first),
                _ => constraints.weighted.push(f),
            }
            let lengths = graph.lengths(factor.scope);
            let zero: Vec<bool> = factor.log_values.iter().map(|&x| x == f64::NEG_INFINITY).collect();
            for (cube, needed) in cover(&zero, &lengths) {
                let clause = constraints.clause(factor.scope, &cube);
                if known.insert(clause.clone()) {
                    if needed { &mut constraints.clauses } else { &mut constraints.implied }.push(clause);
                }
            }
        }
        constraints.constant = constant.value();
        constraints
    }

    /// The clause that forbids a box, sorted.
    fn clause(&self, scope: &[usize], cube: &[Vec<bool>]) -> Vec<Literal> {
        let mut clause = Vec::new();
        for (&v, inside) in scope.iter().zip(cube) {
            let count = inside.iter().filter(|&&is_in| is_in).count();
            let states = (0..inside.len()).filter(|&s| inside[s] == (count == 1));
            match count {
                _ if count == inside.len() => {}
                1 => clause.extend(states.map(|s| !self.variables.is(v, s))),
                _ => clause.extend(states.map(|s| self.variables.is(v, s))),
            }
        }
        clause.sort_unstable();
        clause
    }
}

/// Maximal boxes that together cover all zeros. Each box is given by its states along each axis, with a flag
/// that tells whether it is needed for the cover.
fn cover(zero: &[bool], lengths: &[usize]) -> Vec<(Vec<Vec<bool>>, bool)> {
    if !zero.contains(&true) {
        return Vec::new();
    }
    let strides = table::strides(lengths);
    let mut times = vec![0u32; zero.len()];
    let mut boxes: Vec<(Vec<Vec<bool>>, bool)> = Vec::new();
    for entry in (0..zero.len()).filter(|&entry| zero[entry]) {
        if times[entry] > 0 {
            continue;
        }
        let mut inside: Vec<Vec<usize>> =
            lengths.iter().zip(&strides).map(|(&length, &stride)| vec![entry / stride % length]).collect();
        for axis in (0..lengths.len()).rev() {
            let own = inside[axis][0];
            for s in (0..lengths[axis]).filter(|&s| s != own) {
                let kept = std::mem::replace(&mut inside[axis], vec![s]);
                let fits = all(&inside, &strides, |i| zero[i]);
                inside[axis] = kept;
                if fits {
                    inside[axis].push(s);
                }
            }
        }
        all(&inside, &strides, |i| {
            times[i] += 1;
            true
        });
        let member =
            |(states, &length): (&Vec<usize>, &usize)| (0..length).map(|s| states.contains(&s)).collect();
        boxes.push((inside.iter().zip(lengths).map(member).collect(), true));
    }
    for (cube, needed) in &mut boxes {
        let inside: Vec<Vec<usize>> =
            cube.iter().map(|states| (0..states.len()).filter(|&s| states[s]).collect()).collect();
        *needed = !all(&inside, &strides, |i| times[i] > 1);
        if !*needed {
            all(&inside, &strides, |i| {
                times[i] -= 1;
                true
            });
        }
    }
    boxes
}

/// Whether `test` holds for every entry of a box; stops at the first entry that fails.
fn all(inside: &[Vec<usize>], strides: &[usize], mut test: impl FnMut(usize) -> bool) -> bool {
    let lengths: Vec<usize> = inside.iter().map(Vec::len).collect();
    let mut digits = vec![0; lengths.len()];
    loop {
        let entry =
            digits.iter().zip(inside).zip(strides).map(|((&d, states), stride)| states[d] * stride).sum();
        if !test(entry) {
            return false;
        }
        if !table::advance(&mut digits, &lengths) {
            return true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    const ZERO: f64 = f64::NEG_INFINITY;

    #[test]
    fn a_clause_stays_one_clause_and_a_function_one_a_case() {
        let mut graph = FactorGraph::new(vec![2, 2, 2, 3]).unwrap();
        graph.add_factor(&[0, 1, 2], &[0.0, 0.0, 0.0, 0.0, 0.0, ZERO, 0.0, 0.0]).unwrap();
        graph.add_factor(&[0, 3], &[1.0, ZERO, ZERO, ZERO, ZERO, 1.0]).unwrap();
        let constraints = Constraints::new(&graph);
        let is = |v, s| constraints.variables.is(v, s);
        assert_eq!(constraints.clauses[0], [!is(0, 1), is(1, 1), !is(2, 1)]);
        assert!(constraints.weighted.is_empty() && constraints.constant == 1.0);
        assert_eq!(constraints.clauses.len(), 3);
    }

    #[test]
    fn the_cover_is_just_the_zeros() {
        let mut random = Streams::new(1, "cover").block(0);
        for round in 0..500 {
            let lengths: Vec<usize> = (0..1 + random.below(4)).map(|_| 2 + random.below(3)).collect();
            let share = [0.1, 0.5, 0.9][round % 3];
            let zero: Vec<bool> = (0..lengths.iter().product()).map(|_| random.uniform() < share).collect();
            let mut covered = vec![false; zero.len()];
            for (cube, needed) in cover(&zero, &lengths) {
                let inside: Vec<Vec<usize>> =
                    cube.iter().map(|states| (0..states.len()).filter(|&s| states[s]).collect()).collect();
                assert!(all(&inside, &table::strides(&lengths), |i| {
                    covered[i] |= needed;
                    zero[i]
                }));
            }
            assert_eq!(covered, zero);
        }
    }
}
