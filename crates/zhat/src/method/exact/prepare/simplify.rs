//! Splits tables into products of smaller ones.
//!
//! An axis along which a table is constant is removed. If x_a and x_b are independent given the rest of a
//! table, θ(x_a, x_b, r) = α(x_a, r) + β(x_b, r), the table is a product of two tables, neither of which
//! contains both, and the edge a–b disappears. A typical case is a switch: "y = x₀ if s = 0, else x₁" is (s ≠
//! 0 or y = x₀)·(s ≠ 1 or y = x₁), so genes that a selector chooses between need not share a table. This
//! leaves fewer edges and smaller cliques; the graph represents the same function.
//!
//! Cost: at most (number of axes)² passes over every table, and less if the first slice already shows that it
//! cannot be split. The two sides may differ by 4 units in the last place of each value, which the rounding
//! allowance of the methods covers.

use super::order::Stop;
use crate::error::Result;
use crate::model::{FactorGraph, table};

const ZERO: f64 = f64::NEG_INFINITY;

/// A table before it is added as a factor.
struct Table {
    scope: Vec<usize>,
    lengths: Vec<usize>,
    values: Vec<f64>,
}

/// The same function with its tables split as far as possible, and the constant term; none if it has to stop.
pub(super) fn simplified(graph: &FactorGraph, stop: Stop<'_>) -> Result<Option<(FactorGraph, f64)>> {
    let mut simple = FactorGraph::new(graph.cardinalities().to_vec())?;
    let mut constant = 0.0;
    let mut pieces = Vec::new();
    for factor in graph.factors() {
        if stop() {
            return Ok(None);
        }
        pieces.push(Table {
            scope: factor.scope.to_vec(),
            lengths: graph.lengths(factor.scope),
            values: factor.log_values.to_vec(),
        });
        while let Some(table) = pieces.pop() {
            let table = table.essential();
            if table.scope.is_empty() {
                constant += table.values[0];
            } else if let Some((left, right)) = table.cut() {
                pieces.extend([right, left]);
            } else {
                simple.add_factor(&table.scope, &table.values)?;
            }
        }
    }
    Ok(Some((simple, constant)))
}

impl Table {
    /// Removes the axes along which the table is constant.
    fn essential(mut self) -> Self {
        let mut axis = 0;
        while axis < self.scope.len() {
            let inner: usize = self.lengths[axis + 1..].iter().product();
            let block = inner * self.lengths[axis];
            let mut blocks = self.values.chunks_exact(block);
            if blocks.all(|block| block.chunks_exact(inner).all(|slab| *slab == block[..inner])) {
                let kept = self.values.chunks_exact(block).flat_map(|block| &block[..inner]);
                self.values = kept.copied().collect();
                self.scope.remove(axis);
                self.lengths.remove(axis);
            } else {
                axis += 1;
            }
        }
        self
    }

    /// Splits the table into two factors, each without a variable that the other has.
    fn cut(&self) -> Option<(Table, Table)> {
        let axes = self.scope.len();
        (0..axes).flat_map(|a| (a + 1..axes).map(move |b| (a, b))).find_map(|(a, b)| self.cut_between(a, b))
    }

    /// Splits the table into α without b and β without a, if x_a and x_b are independent given the rest.
    fn cut_between(&self, a: usize, b: usize) -> Option<(Table, Table)> {
        let strides = table::strides(&self.lengths);
        let (stride_a, stride_b) = (strides[a], strides[b]);
        let (states_a, states_b) = (self.lengths[a], self.lengths[b]);
        let digits = |place: usize| (place / stride_a % states_a, place / stride_b % states_b);
        // `rest` numbers the states of the remaining variables; `pivots` holds the index of a non-zero entry
        // for each of these states.
        let rest = |place: usize| {
            let (outer, middle) = (place / (stride_a * states_a), place % stride_a / (stride_b * states_b));
            (outer * (stride_a / (stride_b * states_b)) + middle) * stride_b + place % stride_b
        };
        let mut pivots: Vec<Option<usize>> = Vec::with_capacity(self.values.len() / (states_a * states_b));
        for start in (0..self.values.len()).filter(|&place| digits(place) == (0, 0)) {
            let places = (0..states_a).flat_map(|s| (0..states_b).map(move |t| (s, t)));
            let mut places = places.map(|(s, t)| start + s * stride_a + t * stride_b);
            let pivot = places.clone().find(|&place| self.values[place] > ZERO);
            pivots.push(pivot);
            if let Some(pivot) = pivot {
                let (s0, t0) = digits(pivot);
                let agrees = |place: usize| {
                    let (s, t) = digits(place);
                    let alpha = self.values[start + s * stride_a + t0 * stride_b];
                    let beta = self.values[start + s0 * stride_a + t * stride_b];
                    agree(self.values[place], alpha, beta, self.values[pivot])
                };
                if !places.all(agrees) {
                    return None;
                }
            }
        }
        let without = |axis: usize| {
            let mut table =
                Table { scope: self.scope.clone(), lengths: self.lengths.clone(), values: vec![] };
            table.scope.remove(axis);
            table.lengths.remove(axis);
            table
        };
        let (mut left, mut right) = (without(b), without(a));
        for place in 0..self.values.len() {
            let (s, t) = digits(place);
            let pivot = pivots[rest(place)];
            let at = |other: usize| self.values[other];
            if t == 0 {
                left.values.push(pivot.map_or(ZERO, |pivot| at(place + digits(pivot).1 * stride_b)));
            }
            if s == 0 {
                let beta = pivot.map_or(ZERO, |pivot| at(place + digits(pivot).0 * stride_a));
                right.values.push(if beta > ZERO { beta - pivot.map_or(0.0, at) } else { ZERO });
            }
        }
        Some((left, right))
    }
}

/// Whether `value` is `alpha` + `beta` − `pivot`, up to rounding.
fn agree(value: f64, alpha: f64, beta: f64, pivot: f64) -> bool {
    if alpha == ZERO || beta == ZERO || value == ZERO {
        return value == ZERO && (alpha == ZERO || beta == ZERO);
    }
    (alpha + (beta - pivot) - value).abs() <= 4.0 * f64::EPSILON * value.abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scopes(graph: &FactorGraph) -> Vec<Vec<usize>> {
        graph.factors().map(|factor| factor.scope.to_vec()).collect()
    }

    /// Asserts that both graphs have the same score for every state.
    fn assert_same(graph: &FactorGraph, simple: &FactorGraph, constant: f64) {
        let mut state = vec![0; graph.variable_count()];
        loop {
            let (before, after) = (graph.score(&state), simple.score(&state) + constant);
            assert!(before == after || (before - after).abs() < 1e-12, "{before} {after} at {state:?}");
            if !table::advance(&mut state, graph.cardinalities()) {
                break;
            }
        }
    }

    #[test]
    fn a_switch_is_a_product_of_two_tables() {
        // y = x₀ if s = 0, else x₁, over (s, x₀, x₁, y).
        let mut values = Vec::new();
        for place in 0..24 {
            let (s, x0, x1, y) = (place / 12, place / 6 % 2, place / 2 % 3, place % 2);
            values.push(if y == [x0, x1 % 2][s] { 0.0 } else { ZERO });
        }
        let mut graph = FactorGraph::new(vec![2, 2, 3, 2]).unwrap();
        graph.add_factor(&[0, 1, 2, 3], &values).unwrap();
        let (simple, constant) = simplified(&graph, &|| false).unwrap().unwrap();
        assert_eq!(scopes(&simple), [vec![0, 1, 3], vec![0, 2, 3]]);
        assert_same(&graph, &simple, constant);
    }

    #[test]
    fn independent_and_constant_axes_come_apart() {
        let values: Vec<f64> = (0..12).map(|i| [0.5, -0.25][i / 6] + [3.0, ZERO, 7.0][i % 3]).collect();
        let mut graph = FactorGraph::new(vec![2, 2, 3]).unwrap();
        graph.add_factor(&[0, 1, 2], &values).unwrap();
        graph.add_factor(&[1, 2], &[1.5; 6]).unwrap();
        let (simple, constant) = simplified(&graph, &|| false).unwrap().unwrap();
        assert_eq!(scopes(&simple), [vec![0], vec![2]]);
        assert_eq!(constant, 1.5);
        assert_same(&graph, &simple, constant);
    }

    #[test]
    fn what_is_not_a_product_stays_whole() {
        let mut graph = FactorGraph::new(vec![2, 2]).unwrap();
        graph.add_factor(&[0, 1], &[ZERO, 0.0, 0.0, 0.0]).unwrap();
        graph.add_factor(&[0, 1], &[0.0, 0.0, 0.0, ZERO]).unwrap();
        graph.add_factor(&[0, 1], &[0.0, 1.0, 2.0, 3.0 + 1e-13]).unwrap();
        graph.add_factor(&[0, 1], &[ZERO; 4]).unwrap();
        let (simple, constant) = simplified(&graph, &|| false).unwrap().unwrap();
        assert_eq!(scopes(&simple), [[0, 1], [0, 1], [0, 1]]);
        assert_eq!(constant, ZERO);
    }

    #[test]
    fn cut_tables_are_the_same_function() {
        use crate::random::Streams;
        let mut random = Streams::new(3, "simplify").block(0);
        for _ in 0..300 {
            let mut graph = FactorGraph::new(vec![2, 3, 2, 2]).unwrap();
            // A product of random tables with zeros, given as a single table.
            let parts: [&[usize]; 3] = [&[0, 1], &[1, 2, 3], &[0, 3]];
            let mut product = FactorGraph::new(vec![2, 3, 2, 2]).unwrap();
            for scope in parts {
                let len = graph.lengths(scope).iter().product();
                let draw = |_| if random.below(3) == 0 { ZERO } else { random.below(64) as f64 / 8.0 };
                product.add_factor(scope, &(0..len).map(draw).collect::<Vec<_>>()).unwrap();
            }
            let (mut state, mut values) = (vec![0; 4], Vec::new());
            loop {
                values.push(product.score(&state));
                if !table::advance(&mut state, &[2, 3, 2, 2]) {
                    break;
                }
            }
            graph.add_factor(&[0, 1, 2, 3], &values).unwrap();
            let (simple, constant) = simplified(&graph, &|| false).unwrap().unwrap();
            if constant > ZERO {
                assert_same(&graph, &simple, constant);
                assert!(simple.factors().all(|factor| factor.scope.len() < 4));
            }
        }
    }
}
