//! The k best paths, computed lazily (recursive enumeration).
//!
//! The r-th best path into a node extends the r′-th best path into one of its predecessors. Each node stores
//! the paths found so far and the candidates for the next one, one per predecessor. Extending a node by one
//! path extends only the predecessor through which its last path came. Memory O(k) per visited node, at most
//! k·T nodes.
//!
//! Reference: V. Jiménez, A. Marzal, *Computing the K shortest paths: a new algorithm and an experimental
//! comparison*, WAE (1999).

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// A graph of nodes in layers, with access to the predecessors of a node.
pub(crate) trait Backward {
    /// The predecessors of `node`, each with the score of the best path through it into `node`; empty for a
    /// first node.
    fn before(&self, node: Node) -> Vec<(Node, f64)>;
    /// The score of the step from `from` to `node`.
    fn step(&self, from: Node, node: Node) -> f64;
    /// The score of the best path into `node`.
    fn best(&self, node: Node) -> f64;
}

/// A layer and a state in it.
pub(crate) type Node = (usize, usize);

/// A path into a node: the `rank`-th best path into its predecessor, extended by one step.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    score: f64,
    from: Option<Node>,
    rank: usize,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// Ordered by score; among equal scores the smaller state is larger, then the smaller rank.
    fn cmp(&self, other: &Self) -> Ordering {
        let scores = self.score.total_cmp(&other.score);
        scores.then(other.from.cmp(&self.from)).then(other.rank.cmp(&self.rank))
    }
}

/// The best paths found into a node, and the candidates for the next one.
struct NodePaths {
    found: Vec<Candidate>,
    candidates: BinaryHeap<Candidate>,
}

/// The paths found so far.
pub(crate) struct Ranked<'a, G: Backward> {
    graph: &'a G,
    k: usize,
    nodes: HashMap<Node, NodePaths>,
}

impl<'a, G: Backward> Ranked<'a, G> {
    /// For at most k paths.
    pub fn new(graph: &'a G, k: usize) -> Self {
        Ranked { graph, k, nodes: HashMap::new() }
    }

    /// The nodes of the `rank`-th best path into `node`, first to last; `None` if there are fewer paths.
    /// Ranks must be requested in order.
    pub fn path(&mut self, node: Node, rank: usize) -> Option<Vec<Node>> {
        if !self.extend(node, rank) {
            return None;
        }
        let (mut path, mut at, mut rank) = (vec![node], node, rank);
        while let Some(way) = self.nodes.get(&at).and_then(|paths| paths.found.get(rank)) {
            let Some(from) = way.from else { break };
            path.push(from);
            (at, rank) = (from, way.rank);
            // The best path into an unvisited node is not stored yet.
            self.open(at);
        }
        path.reverse();
        Some(path)
    }

    /// Finds the `rank`-th best path into `node`. The better ones must be known.
    fn extend(&mut self, node: Node, rank: usize) -> bool {
        // Descends to a node whose next path is already determined, then ascends again.
        let wanted = rank;
        let mut waiting = vec![(node, rank)];
        let (mut at, mut rank) = (node, rank);
        loop {
            self.open(at);
            let found = self.nodes.get(&at).map_or(&[][..], |paths| &paths.found);
            let last = if found.len() == rank { found.last() } else { None };
            let Some(Candidate { from: Some(from), rank: used, .. }) = last else {
                waiting.pop();
                break;
            };
            (at, rank) = (*from, used + 1);
            waiting.push((at, rank));
        }
        while let Some((node, rank)) = waiting.pop() {
            let last = self.nodes.get(&node).and_then(|paths| paths.found.get(rank - 1)).copied();
            if let Some(Candidate { from: Some(from), rank: used, .. }) = last {
                let more = self.nodes.get(&from).and_then(|paths| paths.found.get(used + 1));
                let next = more.map(|way| Candidate {
                    score: way.score + self.graph.step(from, node),
                    from: Some(from),
                    rank: used + 1,
                });
                if let (Some(next), Some(paths)) = (next, self.nodes.get_mut(&node)) {
                    paths.candidates.push(next);
                }
            }
            if let Some(paths) = self.nodes.get_mut(&node) {
                let best = paths.candidates.pop();
                paths.found.extend(best);
            }
        }
        self.nodes.get(&node).is_some_and(|paths| paths.found.len() > wanted)
    }

    /// Stores the best path into a node, and the best path through each other predecessor as a candidate.
    fn open(&mut self, node: Node) {
        if self.nodes.contains_key(&node) {
            return;
        }
        let before = self.graph.before(node);
        let mut candidates: Vec<Candidate> = before
            .into_iter()
            .filter(|(_, score)| *score > f64::NEG_INFINITY)
            .map(|(from, score)| Candidate { score, from: Some(from), rank: 0 })
            .collect();
        candidates.sort_by(|a, b| b.cmp(a));
        // At most k of them can be among the k best.
        candidates.truncate(self.k);
        candidates.shrink_to_fit();
        let best = self.graph.best(node);
        let paths = if candidates.is_empty() {
            let alone = Candidate { score: best, from: None, rank: 0 };
            let found = if best > f64::NEG_INFINITY { vec![alone] } else { Vec::new() };
            NodePaths { found, candidates: BinaryHeap::new() }
        } else {
            let found = vec![candidates.remove(0)];
            NodePaths { found, candidates: candidates.into() }
        };
        self.nodes.insert(node, paths);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Layers of two states with tied scores, and an end node.
    struct Binary(usize);

    impl Backward for Binary {
        fn before(&self, (t, j): Node) -> Vec<(Node, f64)> {
            match t {
                0 => Vec::new(),
                _ => (0..2)
                    .map(|i| ((t - 1, i), self.best((t - 1, i)) + self.step((t - 1, i), (t, j))))
                    .collect(),
            }
        }
        fn step(&self, _: Node, (t, j): Node) -> f64 {
            if t == self.0 { 0.0 } else { j as f64 }
        }
        fn best(&self, (t, j): Node) -> f64 {
            if t == self.0 { t as f64 } else { t as f64 + j as f64 }
        }
    }

    #[test]
    fn every_path_is_found_once_and_in_order() {
        let graph = Binary(6);
        let mut ranked = Ranked::new(&graph, 100);
        let mut paths = Vec::new();
        while let Some(path) = ranked.path((6, 0), paths.len()) {
            paths.push(path);
        }
        assert_eq!(paths.len(), 64);
        let ones = |path: &[Node]| path[..6].iter().map(|node| node.1).sum::<usize>();
        assert!(paths.windows(2).all(|pair| ones(&pair[0]) >= ones(&pair[1])));
        paths.sort();
        paths.dedup();
        assert_eq!(paths.len(), 64);
    }
}
