//! Which variables stand together: clusters in which the factors leave a tree.
//!
//! A cluster c sees of a factor f the variables f ∩ c. Of these sets only the largest count, the
//! **hyperedges** of c, and they must form a tree: no two share more than one variable, and there is one way
//! only from one variable to another. So a factor is inside a cluster, or crosses it with one variable, or
//! with several that are neighbours in the tree anyway.
//!
//! Greedy: the variables are visited breadth first. Each joins the cluster of the neighbour visited last that
//! has room for it, which it has if all its neighbours there are the part of one hyperedge, or of one that it
//! begins; or else it begins a new cluster. On a grid this gives combs and rows: nearly all variables have an
//! edge to their cluster. A tree is one cluster.
//!
//! Time O(Σ_f |f|² log), memory O(Σ_f |f|).

use super::Structure;
use crate::model::FactorGraph;

/// Clusters of graphs with cycles have at most so many variables, or a fixed share of all: there is work for
/// every thread, and no path is so long that rounding adds up along it.
const LARGEST: usize = 1024;
const SHARE: usize = 256;

/// For each variable the factors that have it.
pub(super) struct Touching {
    ends: Vec<u32>,
    factors: Vec<u32>,
}

impl Touching {
    pub fn new(graph: &FactorGraph) -> Self {
        let mut ends = vec![0u32; graph.variable_count() + 1];
        for factor in graph.factors() {
            factor.scope.iter().for_each(|&v| ends[v + 1] += 1);
        }
        for v in 1..ends.len() {
            ends[v] += ends[v - 1];
        }
        let mut factors = vec![0; ends.last().map_or(0, |&end| end as usize)];
        let mut next = ends.clone();
        for (f, factor) in graph.factors().enumerate() {
            for &v in factor.scope {
                factors[next[v] as usize] = f as u32;
                next[v] += 1;
            }
        }
        Touching { ends, factors }
    }

    pub fn of(&self, v: usize) -> &[u32] {
        &self.factors[self.ends[v] as usize..self.ends[v + 1] as usize]
    }
}

/// The cluster of each variable.
pub(super) struct Partition {
    pub cluster: Vec<u32>,
    pub count: usize,
}

const NONE: u32 = u32::MAX;

impl Partition {
    pub fn new(graph: &FactorGraph, touching: &Touching, structure: Structure) -> Self {
        let n = graph.variable_count();
        match structure {
            Structure::Independent => Partition { cluster: (0..n as u32).collect(), count: n },
            Structure::Forest => {
                let largest = if is_forest(graph) { n } else { LARGEST.max(n / SHARE) };
                Growing {
                    graph,
                    touching,
                    largest,
                    rank: vec![NONE; n],
                    cluster: vec![NONE; n],
                    sizes: Vec::new(),
                }
                .grow()
            }
        }
    }
}

impl Partition {
    /// The parts of a scope by cluster; `members` is scratch.
    pub fn parts<'m>(
        &self,
        scope: &[usize],
        members: &'m mut Vec<u32>,
    ) -> impl Iterator<Item = &'m [u32]> + use<'m, '_> {
        members.clear();
        members.extend(scope.iter().map(|&v| v as u32));
        members.sort_unstable_by_key(|&v| (self.cluster[v as usize], v));
        members.chunk_by(|a, b| self.cluster[*a as usize] == self.cluster[*b as usize])
    }
}

/// True if the factors and variables form no cycle.
pub(super) fn is_forest(graph: &FactorGraph) -> bool {
    let mut component: Vec<u32> = (0..graph.variable_count() as u32).collect();
    let find = |component: &mut Vec<u32>, v: usize| {
        let mut v = v as u32;
        while component[v as usize] != v {
            component[v as usize] = component[component[v as usize] as usize];
            v = component[v as usize];
        }
        v
    };
    for factor in graph.factors() {
        let Some((&first, others)) = factor.scope.split_first() else { continue };
        for &v in others {
            let (a, b) = (find(&mut component, first), find(&mut component, v));
            if a == b {
                return false;
            }
            component[a.max(b) as usize] = a.min(b);
        }
    }
    true
}

/// A variable that has joined, seen from the one that is to join.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Neighbour {
    cluster: u32,
    factor: u32,
    variable: u32,
}

struct Growing<'a> {
    graph: &'a FactorGraph,
    touching: &'a Touching,
    largest: usize,
    /// When each variable was visited.
    rank: Vec<u32>,
    cluster: Vec<u32>,
    sizes: Vec<usize>,
}

impl Growing<'_> {
    fn grow(mut self) -> Partition {
        let n = self.graph.variable_count();
        let mut queue: Vec<u32> = Vec::with_capacity(n);
        let mut queued = vec![false; n];
        let mut entered = vec![false; self.graph.factor_count()];
        let (mut neighbours, mut distinct) = (Vec::new(), Vec::new());
        for first in 0..n {
            if queued[first] {
                continue;
            }
            queued[first] = true;
            let mut head = queue.len();
            queue.push(first as u32);
            while let Some(&v) = queue.get(head) {
                let v = v as usize;
                self.rank[v] = head as u32;
                head += 1;
                self.cluster[v] = self.choose(v, &mut neighbours, &mut distinct);
                self.sizes[self.cluster[v] as usize] += 1;
                for &f in self.touching.of(v) {
                    if !std::mem::replace(&mut entered[f as usize], true) {
                        for &u in self.graph.factor(f as usize).scope {
                            if !std::mem::replace(&mut queued[u], true) {
                                queue.push(u as u32);
                            }
                        }
                    }
                }
            }
        }
        Partition { cluster: self.cluster, count: self.sizes.len() }
    }

    /// The cluster that `v` joins: of the latest neighbour that it can join, or a new one.
    fn choose(&mut self, v: usize, neighbours: &mut Vec<Neighbour>, distinct: &mut Vec<u32>) -> u32 {
        neighbours.clear();
        for &f in self.touching.of(v) {
            let joined = self.graph.factor(f as usize).scope.iter().filter(|&&u| self.cluster[u] != NONE);
            neighbours.extend(joined.map(|&u| Neighbour {
                cluster: self.cluster[u],
                factor: f,
                variable: u as u32,
            }));
        }
        neighbours.sort_unstable();
        let mut best: Option<(u32, u32)> = None;
        for own in neighbours.chunk_by(|a, b| a.cluster == b.cluster) {
            let cluster = own[0].cluster;
            let latest = own.iter().map(|u| self.rank[u.variable as usize]).max().unwrap_or(0);
            let better = best.is_none_or(|(rank, _)| latest > rank);
            if better && self.sizes[cluster as usize] < self.largest && self.has_room(own, distinct) {
                best = Some((latest, cluster));
            }
        }
        best.map_or_else(
            || {
                self.sizes.push(0);
                self.sizes.len() as u32 - 1
            },
            |(_, cluster)| cluster,
        )
    }

    /// Whether a variable with these neighbours in one cluster can join it.
    fn has_room(&self, own: &[Neighbour], distinct: &mut Vec<u32>) -> bool {
        distinct.clear();
        distinct.extend(own.iter().map(|u| u.variable));
        distinct.sort_unstable();
        distinct.dedup();
        let whole = |part: &[Neighbour]| part.len() == distinct.len();
        if !own.chunk_by(|a, b| a.factor == b.factor).any(whole) {
            return false;
        }
        // The part of a hyperedge would not do: two hyperedges would share it.
        let cluster = own[0].cluster;
        let within = |&&u: &&usize| self.cluster[u] == cluster;
        let Some(&rarest) = distinct.iter().min_by_key(|&&u| self.touching.of(u as usize).len()) else {
            return true;
        };
        distinct.len() == 1
            || self.touching.of(rarest as usize).iter().all(|&f| {
                let scope = self.graph.factor(f as usize).scope;
                let common = scope.iter().filter(|&&u| distinct.contains(&(u as u32))).count();
                common < distinct.len() || scope.iter().filter(within).count() == common
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, Grid};

    fn clusters(graph: &FactorGraph) -> usize {
        Partition::new(graph, &Touching::new(graph), Structure::Forest).count
    }

    #[test]
    fn a_tree_is_one_cluster() {
        assert_eq!(clusters(&generate::tree(3000, 2, 1.0, 1).unwrap()), 1);
    }

    #[test]
    fn a_grid_falls_into_long_paths_and_combs() {
        let grid = |rows, columns| {
            generate::ising(Grid { rows, columns, torus: false }, 1.0, 1.0, false, 0).unwrap()
        };
        assert!(clusters(&grid(20, 20)) <= 20, "{}", clusters(&grid(20, 20)));
        assert!(clusters(&grid(100, 100)) <= 150, "{}", clusters(&grid(100, 100)));
    }
}
