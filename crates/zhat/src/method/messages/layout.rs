//! Flat memory layout of a factor graph for message passing, with factors sorted into classes without common
//! variables.
//!
//! Factors without variables are a constant, and factors over one variable are summed into θ_i. The remaining
//! factors are stored **class by class**; no two factors of a class share a variable. All factors of a class
//! can therefore be updated at once, in any order and by any number of threads, with bitwise identical
//! results. The classes are a greedy edge colouring: at most twice the largest degree, and four to seven
//! classes for a grid. Time and memory are linear in the lengths of the scopes.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::model::FactorGraph;
use crate::numeric::CompensatedSum;

/// Approximate number of table entries per task. It is constant, so that tasks do not depend on the number of
/// threads.
const PIECE: usize = 1 << 14;
/// Larger scores would make messages overflow.
const LARGEST: f64 = 1e290;

/// The factors of two or more variables, class by class, and the scores of the variables.
pub(crate) struct Layout<'g> {
    graph: &'g FactorGraph,
    /// The sum of the factors without variables.
    pub constant: f64,
    /// Start of the states of each variable, and the end.
    pub state_start: Vec<u32>,
    /// θ_i of all variables, concatenated.
    pub unary: Vec<f64>,
    /// Rounding error of the constant and of θ_i, in units of u.
    pub rounding: f64,
    /// Limit of how far a message may fall below its maximum: more than twice the largest possible sum of
    /// scores.
    pub limit: f64,
    /// The index of each factor in the graph.
    numbers: Vec<u32>,
    scope_start: Vec<u32>,
    scopes: Vec<u32>,
    message_start: Vec<u32>,
    /// The concatenated tables, in the order in which a sweep reads them.
    tables: Vec<f64>,
    table_start: Vec<usize>,
    class_ends: Vec<u32>,
    /// The number of factors of each variable.
    pub degrees: Vec<u32>,
    /// Number of factors per task.
    pub piece: usize,
    /// The number of entries of the largest table, and the largest number of message entries of a factor.
    pub largest: (usize, usize),
}

/// A view of a factor in the layout.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// θ_f.
    pub table: &'a [f64],
    /// Its variables.
    pub variables: &'a [u32],
}

impl<'g> Layout<'g> {
    /// Creates the layout of a graph; an error if its scores or its size exceed the limits of message
    /// passing.
    pub fn new(graph: &'g FactorGraph) -> Result<Self> {
        if graph.magnitude() > LARGEST {
            let message = "the log values add up to more than messages can hold; dividing them may help";
            return Err(Error::NoAnswer(message.into()));
        }
        let mut state_start = vec![0u32];
        let mut end = 0usize;
        for &states in graph.cardinalities() {
            end += states;
            state_start.push(index(end)?);
        }
        let mut layout = Layout {
            graph,
            constant: 0.0,
            state_start,
            unary: vec![0.0; end],
            rounding: 0.0,
            limit: 4.0 * graph.magnitude() + 100.0,
            numbers: Vec::new(),
            scope_start: vec![0],
            scopes: Vec::new(),
            message_start: vec![0],
            tables: Vec::new(),
            table_start: vec![0],
            class_ends: Vec::new(),
            degrees: vec![0; graph.variable_count()],
            piece: 1,
            largest: (0, 0),
        };
        layout.gather_scores();
        layout.place_factors()?;
        Ok(layout)
    }

    fn gather_scores(&mut self) {
        let mut constant = CompensatedSum::default();
        for factor in self.graph.factors() {
            match *factor.scope {
                [] => constant.add(factor.log_values[0]),
                [v] => {
                    let own = &mut self.unary[self.state_start[v] as usize..self.state_start[v + 1] as usize];
                    own.iter_mut().zip(factor.log_values).for_each(|(score, x)| *score += x);
                    self.rounding += 1.0 + largest(own);
                }
                _ => {}
            }
        }
        self.constant = constant.value();
        self.rounding += 4.0 * (1.0 + self.constant.abs());
    }

    fn place_factors(&mut self) -> Result<()> {
        let classes = self.classes()?;
        let count = classes.iter().flatten().max().map_or(0, |&largest| largest as usize + 1);
        let mut ends = vec![0u32; count];
        classes.iter().flatten().for_each(|&class| ends[class as usize] += 1);
        let mut next = 0;
        for end in &mut ends {
            let len = *end;
            *end = next;
            next += len;
        }
        self.numbers = vec![0; next as usize];
        for (f, class) in classes.iter().enumerate() {
            if let Some(class) = class {
                let place = &mut ends[*class as usize];
                self.numbers[*place as usize] = f as u32;
                *place += 1;
            }
        }
        self.class_ends = ends;
        drop(classes);
        let place = |number: &u32| self.graph.factor(*number as usize).log_values.len();
        let entries: usize = self.numbers.iter().map(place).sum();
        self.tables.reserve_exact(entries);
        let mut messages = 0usize;
        for &number in &self.numbers {
            let factor = self.graph.factor(number as usize);
            factor.scope.iter().for_each(|&v| self.degrees[v] += 1);
            let sent: usize = factor.scope.iter().map(|&v| self.graph.cardinalities()[v]).sum();
            self.scopes.extend(factor.scope.iter().map(|&v| v as u32));
            self.scope_start.push(index(self.scopes.len())?);
            messages += sent;
            self.tables.extend_from_slice(factor.log_values);
            self.table_start.push(self.tables.len());
            self.message_start.push(index(messages)?);
            self.largest = (self.largest.0.max(factor.log_values.len()), self.largest.1.max(sent));
        }
        self.piece = (PIECE * self.numbers.len() / entries.max(1)).max(1);
        Ok(())
    }

    /// The class of every factor of two or more variables: the first one in which none of its variables
    /// occurs yet.
    fn classes(&self) -> Result<Vec<Option<u32>>> {
        index(self.graph.factor_count())?;
        let n = self.graph.variable_count();
        // For each variable, the set of classes in use among the first 64; beyond these, the first class from
        // which all are unused.
        let (mut taken, mut free) = (vec![0u64; n], Vec::new());
        let class = |factor: crate::model::Factor<'_>| {
            if factor.scope.len() < 2 {
                return None;
            }
            let class = factor.scope.iter().fold(0, |all, &v| all | taken[v]).trailing_ones();
            if class < u64::BITS {
                factor.scope.iter().for_each(|&v| taken[v] |= 1 << class);
                return Some(class);
            }
            if free.is_empty() {
                free = vec![u64::BITS; n];
            }
            let class = factor.scope.iter().map(|&v| free[v]).max().unwrap_or_default();
            factor.scope.iter().for_each(|&v| free[v] = class + 1);
            Some(class)
        };
        Ok(self.graph.factors().map(class).collect())
    }

    /// The number of factors of two or more variables.
    pub fn factor_count(&self) -> usize {
        self.numbers.len()
    }

    /// The number of variables.
    pub fn variable_count(&self) -> usize {
        self.state_start.len() - 1
    }

    /// Total entries of all messages.
    pub fn message_count(&self) -> usize {
        self.message_start.last().map_or(0, |&end| end as usize)
    }

    /// The index of factor `f` in the graph.
    pub fn number(&self, f: usize) -> usize {
        self.numbers[f] as usize
    }

    /// Factor `f`.
    #[inline]
    pub fn factor(&self, f: usize) -> View<'_> {
        View {
            table: &self.tables[self.table_start[f]..self.table_start[f + 1]],
            variables: &self.scopes[self.scope_start[f] as usize..self.scope_start[f + 1] as usize],
        }
    }

    /// The range of the messages of the factors in `range`: one message to each variable of a factor, in the
    /// order of its scope.
    #[inline]
    pub fn messages(&self, range: Range<usize>) -> Range<usize> {
        self.message_start[range.start] as usize..self.message_start[range.end] as usize
    }

    /// The range of the states of variable `v`.
    #[inline]
    pub fn states(&self, v: usize) -> Range<usize> {
        self.state_start[v] as usize..self.state_start[v + 1] as usize
    }

    /// The number of states of variable `v`.
    #[inline]
    pub fn cardinality(&self, v: u32) -> usize {
        (self.state_start[v as usize + 1] - self.state_start[v as usize]) as usize
    }

    /// The number of classes.
    pub fn class_count(&self) -> usize {
        self.class_ends.len()
    }

    /// The factors of class `c`.
    pub fn class(&self, c: usize) -> Range<usize> {
        let start = if c == 0 { 0 } else { self.class_ends[c - 1] };
        start as usize..self.class_ends[c] as usize
    }

    /// The factors at each variable: the start of each variable's list, and the concatenated lists.
    pub fn incidence(&self) -> (Vec<u32>, Vec<u32>) {
        incidence(self, 0..self.factor_count() as u32)
    }
}

/// The listed factors at each variable: the start of each variable's list, and the concatenated lists.
pub(super) fn incidence(
    layout: &Layout<'_>,
    factors: impl Iterator<Item = u32> + Clone,
) -> (Vec<u32>, Vec<u32>) {
    let mut start = vec![0u32; layout.variable_count() + 2];
    for f in factors.clone() {
        layout.factor(f as usize).variables.iter().for_each(|&v| start[v as usize + 2] += 1);
    }
    (2..start.len()).for_each(|v| start[v] += start[v - 1]);
    let mut list = vec![0; start.last().map_or(0, |&end| end as usize)];
    for f in factors {
        for &v in layout.factor(f as usize).variables {
            let place = &mut start[v as usize + 1];
            list[*place as usize] = f;
            *place += 1;
        }
    }
    start.pop();
    (start, list)
}

fn index(count: usize) -> Result<u32> {
    u32::try_from(count).map_err(|_| {
        Error::NoAnswer(format!("{count} messages, states or factors are more than messages can number"))
    })
}

/// max |x| over the finite values.
#[inline]
pub(super) fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |m, x| if x.is_finite() { x.abs().max(m) } else { m })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, GraphShape, Grid};

    #[test]
    fn no_two_factors_of_a_class_meet() {
        let grid = generate::ising(Grid { rows: 9, columns: 11, torus: true }, 1.0, 1.0, false, 0).unwrap();
        let dense =
            generate::random(&GraphShape { variables: 20, factors: 900, arity: 3, ..Default::default() }, 1)
                .unwrap();
        for (graph, most) in [(grid, 7), (dense, 900)] {
            let layout = Layout::new(&graph).unwrap();
            assert!(layout.class_count() <= most);
            let mut seen = vec![false; graph.factor_count()];
            for c in 0..layout.class_count() {
                let mut met = vec![false; graph.variable_count()];
                for f in layout.class(c) {
                    assert!(!std::mem::replace(&mut seen[layout.number(f)], true));
                    for &v in layout.factor(f).variables {
                        assert!(!std::mem::replace(&mut met[v as usize], true));
                    }
                }
            }
            for (f, factor) in graph.factors().enumerate() {
                assert_eq!(seen[f], factor.scope.len() > 1);
            }
        }
    }
}
