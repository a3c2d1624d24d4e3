//! The best tree, projective or not, by contraction of cycles.
//!
//! Every word takes its best head. While the heads form a cycle, the cycle is contracted to one node, whose
//! arcs from outside cost the difference to the arc that they replace. Time O(T³) in the worst case, O(T²)
//! per contraction. With a single root, trees with fewer roots are better than any others: arcs are compared
//! by the number of roots first.
//!
//! References: Y. Chu, T. Liu, *On the shortest arborescence of a directed graph*, Scientia Sinica 14 (1965);
//! J. Edmonds, *Optimum branchings*, J. Research of the NBS 71B (1967).

use super::sentence::Sentence;

/// The value of an arc: fewer roots first, then the score.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Value {
    roots: i64,
    score: f64,
}

impl Value {
    fn is_better(self, other: Value) -> bool {
        self.roots < other.roots || (self.roots == other.roots && self.score > other.score)
    }

    fn minus(self, other: Value) -> Value {
        Value { roots: self.roots - other.roots, score: self.score - other.score }
    }
}

/// An arc of the contracted graph: its value, and the arc of the sentence that it stands for.
#[derive(Clone, Copy)]
struct Arc {
    value: Value,
    head: usize,
    dependent: usize,
}

/// The heads of the best tree: 0 for the root, i + 1 for word i; `None` if there is no tree.
pub fn best_tree(sentence: &Sentence, single_root: bool) -> Option<Vec<usize>> {
    let n = sentence.words;
    // Node 0 is the root; arcs[h][d].
    let mut arcs = vec![vec![None; n + 1]; n + 1];
    for d in 0..n {
        for (head, row) in arcs.iter_mut().enumerate() {
            let score = match head {
                0 => sentence.roots[d],
                head => sentence.arcs[(head - 1) * n + d],
            };
            if score > f64::NEG_INFINITY {
                let value = Value { roots: i64::from(single_root && head == 0), score };
                row[d + 1] = Some(Arc { value, head, dependent: d });
            }
        }
    }
    let mut heads = vec![usize::MAX; n];
    for arc in branching(&arcs)? {
        heads[arc.dependent] = arc.head;
    }
    let roots = heads.iter().filter(|&&head| head == 0).count();
    (!single_root || roots == 1).then_some(heads)
}

/// The arcs of the best tree of a graph whose node 0 is the root, one into every other node of the original
/// graph.
fn branching(arcs: &[Vec<Option<Arc>>]) -> Option<Vec<Arc>> {
    let count = arcs.len();
    let mut into: Vec<Option<(usize, Arc)>> = vec![None; count];
    for node in 1..count {
        for (head, row) in arcs.iter().enumerate().filter(|(head, _)| *head != node) {
            if let Some(arc) = row[node] {
                let better = into[node].is_none_or(|(_, best): (usize, Arc)| arc.value.is_better(best.value));
                if better {
                    into[node] = Some((head, arc));
                }
            }
        }
        into[node]?;
    }
    let head_of = |node: usize| into[node].map_or(0, |(head, _)| head);
    let Some(cycle) = find_cycle(count, head_of) else {
        return Some(into.into_iter().flatten().map(|(_, arc)| arc).collect());
    };
    let in_cycle: Vec<bool> = (0..count).map(|node| cycle.contains(&node)).collect();
    // The nodes outside the cycle keep their order, and the cycle is the last one.
    let kept: Vec<usize> = (0..count).filter(|&node| !in_cycle[node]).collect();
    let last = kept.len();
    let mut smaller = vec![vec![None; last + 1]; last + 1];
    let mut entered = vec![0; last];
    for (i, &from) in kept.iter().enumerate() {
        for (j, &to) in kept.iter().enumerate() {
            smaller[i][j] = arcs[from][to];
        }
        for &node in &cycle {
            if let (Some(arc), Some((_, own))) = (arcs[from][node], into[node]) {
                let arc = Arc { value: arc.value.minus(own.value), ..arc };
                if smaller[i][last].is_none_or(|best: Arc| arc.value.is_better(best.value)) {
                    smaller[i][last] = Some(arc);
                    entered[i] = node;
                }
            }
            if let Some(arc) = arcs[node][from]
                && smaller[last][i].is_none_or(|best: Arc| arc.value.is_better(best.value))
            {
                smaller[last][i] = Some(arc);
            }
        }
    }
    let mut found = branching(&smaller)?;
    // The arc that enters the cycle replaces the arc of the cycle into the same node.
    let enters = |arc: &Arc| {
        (0..last).any(|i| {
            smaller[i][last].is_some_and(|own: Arc| own.head == arc.head && own.dependent == arc.dependent)
        })
    };
    let entry = found.iter().find(|arc| enters(arc)).copied()?;
    let from = (0..last).find(|&i| {
        smaller[i][last].is_some_and(|own: Arc| own.head == entry.head && own.dependent == entry.dependent)
    })?;
    let replaced = entered[from];
    found.extend(
        cycle.iter().filter(|&&node| node != replaced).filter_map(|&node| into[node].map(|(_, arc)| arc)),
    );
    Some(found)
}

/// A cycle among the heads of nodes 1 … count − 1.
fn find_cycle(count: usize, head_of: impl Fn(usize) -> usize) -> Option<Vec<usize>> {
    let mut seen = vec![0; count];
    for start in 1..count {
        let mut node = start;
        while node != 0 && seen[node] == 0 {
            seen[node] = start;
            node = head_of(node);
        }
        if node != 0 && seen[node] == start {
            let (mut cycle, first) = (vec![node], node);
            node = head_of(node);
            while node != first {
                cycle.push(node);
                node = head_of(node);
            }
            return Some(cycle);
        }
    }
    None
}
