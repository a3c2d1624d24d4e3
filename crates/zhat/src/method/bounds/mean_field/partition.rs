//! Partition of the variables into clusters on which the factors form a tree.
//!
//! The restriction of a factor f to a cluster c is the set of variables f ∩ c. The maximal sets among these
//! are the **hyperedges** of c. They must form a tree: no two share more than one variable, and there is only
//! one path between two variables. A factor is therefore inside a cluster, or crosses it with one variable,
//! or crosses it with several variables that are neighbours in the tree.
//!
//! The algorithm is greedy: the variables are visited breadth-first. Each joins the cluster of its most
//! recently visited neighbour that can accept it, or starts a new cluster. A cluster can accept a variable if
//! all its neighbours there belong to a single hyperedge, either a whole existing one or a new one. On a grid
//! this gives combs and rows, in which nearly every variable has an edge within its cluster. A tree is a
//! single cluster.
//!
//! Time O(Σ_f |f|² log), memory O(Σ_f |f|).

use super::MeanFieldStructure;
use crate::model::FactorGraph;

/// In graphs with cycles, clusters have at most `LARGEST` variables or a fixed fraction of all. This leaves
/// work for every thread and limits the accumulation of rounding errors along paths.
const LARGEST: usize = 1024;
const SHARE: usize = 256;

/// For each variable, the factors that contain it.
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
    pub fn new(graph: &FactorGraph, touching: &Touching, structure: MeanFieldStructure) -> Self {
        let n = graph.variable_count();
        match structure {
            MeanFieldStructure::Independent => Partition { cluster: (0..n as u32).collect(), count: n },
            MeanFieldStructure::Forest => {
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
    /// Groups a scope by cluster; `members` is scratch.
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

/// True if the factor graph has no cycle.
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

/// A neighbour, already in a cluster, of the variable that is to join one.
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
    /// The order in which the variables were visited.
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

    /// The cluster that `v` joins: that of the most recent neighbour that can accept it, or a new one.
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
        // The neighbours must not be a proper part of a hyperedge, because two hyperedges would share them.
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
        Partition::new(graph, &Touching::new(graph), MeanFieldStructure::Forest).count
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
