//! In which order to eliminate the variables.
//!
//! Eliminating v joins all its neighbours; the table that takes has Π of their domains times v's entries. **Min-fill**
//! eliminates the variable that adds the fewest new edges, then the one of smallest degree, then of smallest
//! number. Fill counts are kept up to date edge by edge: one intersection of two neighbourhoods a new edge.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::model::FactorGraph;

/// An elimination order and what it costs.
#[derive(Clone, Debug)]
pub struct Order {
    /// The variables, first eliminated first.
    pub variables: Vec<usize>,
    /// For each eliminated variable its neighbours at that moment, in order of their elimination.
    pub neighbours: Vec<Vec<usize>>,
    /// The most neighbours any variable had: the induced width.
    pub width: usize,
    /// log2 of the number of entries of the largest table.
    pub log2_table: f64,
}

/// Finds a min-fill order; `Err(log2 entries)` as soon as a table would have more than 2^`limit` entries.
///
/// ```
/// use zhat::{exact::min_fill, model::generate};
/// let chain = generate::tree(50, 3, 1.0, 0)?;
/// assert_eq!(min_fill(&chain, 64.0).map(|order| order.width), Ok(1));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn min_fill(graph: &FactorGraph, limit: f64) -> Result<Order, f64> {
    let n = graph.variable_count();
    let log2_states: Vec<f64> = graph.cardinalities().iter().map(|&states| (states as f64).log2()).collect();
    let mut fill = Fill::new(graph);
    let mut heap: BinaryHeap<Reverse<(usize, usize, usize)>> = (0..n).map(|v| Reverse(fill.key(v))).collect();
    let mut order = Order { variables: Vec::with_capacity(n), neighbours: vec![], width: 0, log2_table: 0.0 };
    let mut position = vec![usize::MAX; n];
    while let Some(Reverse(key)) = heap.pop() {
        let v = key.2;
        if position[v] != usize::MAX || key != fill.key(v) {
            continue;
        }
        let log2_table = log2_states[v] + fill.adjacent[v].iter().map(|&u| log2_states[u]).sum::<f64>();
        if log2_table > limit {
            return Err(log2_table);
        }
        position[v] = order.variables.len();
        order.log2_table = order.log2_table.max(log2_table);
        order.width = order.width.max(fill.adjacent[v].len());
        order.variables.push(v);
        let changed = fill.eliminate(v);
        order.neighbours.push(std::mem::take(&mut fill.adjacent[v]));
        heap.extend(changed.into_iter().filter(|&u| position[u] == usize::MAX).map(|u| Reverse(fill.key(u))));
    }
    for neighbours in &mut order.neighbours {
        neighbours.sort_unstable_by_key(|&u| position[u]);
    }
    Ok(order)
}

/// The graph of variables not yet eliminated, with the number of edges each would add.
struct Fill {
    /// Sorted neighbour lists.
    adjacent: Vec<Vec<usize>>,
    fill: Vec<usize>,
}

impl Fill {
    fn new(graph: &FactorGraph) -> Self {
        let mut adjacent: Vec<Vec<usize>> = vec![Vec::new(); graph.variable_count()];
        for factor in graph.factors() {
            for &u in factor.scope {
                adjacent[u].extend(factor.scope.iter().copied().filter(|&v| v != u));
            }
        }
        for list in &mut adjacent {
            list.sort_unstable();
            list.dedup();
        }
        let mut marked = vec![false; adjacent.len()];
        let fill = adjacent
            .iter()
            .map(|list| {
                list.iter().for_each(|&u| marked[u] = true);
                let joined: usize =
                    list.iter().map(|&u| adjacent[u].iter().filter(|&&w| marked[w]).count()).sum();
                list.iter().for_each(|&u| marked[u] = false);
                (list.len() * list.len().saturating_sub(1) - joined) / 2
            })
            .collect();
        Fill { adjacent, fill }
    }

    fn key(&self, v: usize) -> (usize, usize, usize) {
        (self.fill[v], self.adjacent[v].len(), v)
    }

    /// Joins the neighbours of `v`, takes `v` out, and returns the variables whose key changed.
    fn eliminate(&mut self, v: usize) -> Vec<usize> {
        let neighbours = self.adjacent[v].clone();
        let mut changed = neighbours.clone();
        if self.fill[v] > 0 {
            for (i, &a) in neighbours.iter().enumerate() {
                for &b in &neighbours[i + 1..] {
                    if self.adjacent[a].binary_search(&b).is_err() {
                        self.join(a, b, &mut changed);
                    }
                }
            }
        }
        // v's neighbours are now a clique, so u and v share all of them but u itself.
        for &u in &neighbours {
            self.fill[u] -= self.adjacent[u].len() - neighbours.len();
            if let Ok(at) = self.adjacent[u].binary_search(&v) {
                self.adjacent[u].remove(at);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Adds the edge a–b: it no longer is missing between their common neighbours' pairs, and each end gets a new
    /// neighbour that lacks an edge to all of its others that are not common.
    fn join(&mut self, a: usize, b: usize, changed: &mut Vec<usize>) {
        let mut common = 0;
        let (mut i, mut j) = (0, 0);
        while i < self.adjacent[a].len() && j < self.adjacent[b].len() {
            let (x, y) = (self.adjacent[a][i], self.adjacent[b][j]);
            if x == y {
                self.fill[x] -= 1;
                changed.push(x);
                common += 1;
            }
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        self.fill[a] += self.adjacent[a].len() - common;
        self.fill[b] += self.adjacent[b].len() - common;
        for (u, w) in [(a, b), (b, a)] {
            if let Err(at) = self.adjacent[u].binary_search(&w) {
                self.adjacent[u].insert(at, w);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, Grid};

    /// Fill counts from the definition.
    fn plain_fill(adjacent: &[Vec<usize>], v: usize) -> usize {
        let list = &adjacent[v];
        let missing = |a: usize, b: usize| usize::from(!adjacent[a].contains(&b));
        (0..list.len()).map(|i| list[i + 1..].iter().map(|&b| missing(list[i], b)).sum::<usize>()).sum()
    }

    #[test]
    fn fill_counts_stay_right_while_eliminating() {
        for seed in 0..20 {
            let graph = generate::random(12, 2, 14, 3, 1.0, 0.0, seed).unwrap();
            let mut fill = Fill::new(&graph);
            for v in 0..12 {
                for u in v..12 {
                    assert_eq!(fill.fill[u], plain_fill(&fill.adjacent, u), "seed {seed}, before {v}");
                }
                fill.eliminate(v);
                fill.adjacent[v].clear();
            }
        }
    }

    #[test]
    fn widths_of_known_graphs() {
        let grid = |rows, columns, torus| {
            generate::ising(Grid { rows, columns, torus }, 1.0, 1.0, false, 0).unwrap()
        };
        assert_eq!(min_fill(&grid(1, 30, false), 64.0).unwrap().width, 1);
        assert_eq!(min_fill(&grid(1, 30, true), 64.0).unwrap().width, 2);
        assert!(min_fill(&grid(5, 5, false), 64.0).unwrap().width <= 6);
        assert!(min_fill(&grid(30, 30, false), 20.0).is_err());
        assert_eq!(min_fill(&FactorGraph::new(vec![]).unwrap(), 64.0).unwrap().width, 0);
    }

    #[test]
    fn the_order_is_a_permutation_and_neighbours_come_later() {
        let order = min_fill(&generate::random(40, 3, 50, 3, 1.0, 0.0, 1).unwrap(), 200.0).unwrap();
        let mut sorted = order.variables.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..40).collect::<Vec<_>>());
        for (i, neighbours) in order.neighbours.iter().enumerate() {
            assert!(neighbours.iter().all(|u| order.variables[i + 1..].contains(u)));
        }
    }
}
