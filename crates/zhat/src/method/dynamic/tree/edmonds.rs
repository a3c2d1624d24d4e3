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
    roots: i32,
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
    head: u32,
    dependent: u32,
}

/// The heads of the best tree: 0 for the root, i + 1 for word i; `None` if there is no tree.
pub fn best_tree(sentence: &Sentence, single_root: bool) -> Option<Vec<usize>> {
    let n = sentence.words;
    // Node 0 is the root; heads × dependents.
    let mut arcs = vec![None; (n + 1) * (n + 1)];
    for d in 0..n {
        for (head, row) in arcs.chunks_exact_mut(n + 1).enumerate() {
            let score = match head {
                0 => sentence.roots[d],
                head => sentence.arcs[(head - 1) * n + d],
            };
            if score > f64::NEG_INFINITY {
                let value = Value { roots: i32::from(single_root && head == 0), score };
                row[d + 1] = Some(Arc { value, head: head as u32, dependent: d as u32 });
            }
        }
    }
    let heads: Vec<usize> = branching(arcs, n + 1)?
        .into_iter()
        .skip(1)
        .map(|arc| arc.map(|arc| arc.head as usize))
        .collect::<Option<_>>()?;
    let roots = heads.iter().filter(|&&head| head == 0).count();
    (!single_root || roots == 1).then_some(heads)
}

/// A node of the contracted graph: a node of the sentence, or a contracted cycle.
#[derive(Clone, Copy)]
struct Node {
    /// Number: nodes of the sentence first, then cycles in the order of contraction.
    number: usize,
    /// Row and column of its arcs.
    place: usize,
}

/// The arc into every node of the best tree of a graph with `count` nodes, of which node 0 is the root. Cycles are
/// contracted in place, so memory is that of one table of arcs.
fn branching(mut arcs: Vec<Option<Arc>>, count: usize) -> Option<Vec<Option<Arc>>> {
    let mut nodes: Vec<Node> = (0..count).map(|k| Node { number: k, place: k }).collect();
    // The cycle that contains a node, and the nodes of each cycle with their arcs.
    let mut parents = vec![usize::MAX; count];
    let mut cycles: Vec<Vec<(usize, Arc)>> = Vec::new();
    let into = loop {
        let into = best_into(&arcs, count, &nodes)?;
        let head_of = |k: usize| into[k].map_or(0, |(head, _)| head);
        let Some(cycle) = find_cycle(nodes.len(), head_of) else { break into };
        let own: Vec<(Node, Arc)> =
            cycle.iter().filter_map(|&k| into[k].map(|(_, arc)| (nodes[k], arc))).collect();
        let contracted = Node { number: parents.len(), place: nodes[cycle[0]].place };
        own.iter().for_each(|(node, _)| parents[node.number] = contracted.number);
        parents.push(usize::MAX);
        let mut in_cycle = vec![false; nodes.len()];
        cycle.iter().for_each(|&k| in_cycle[k] = true);
        // The nodes outside the cycle keep their order, and the cycle is the last one.
        let mut position = 0..nodes.len();
        nodes.retain(|_| position.next().is_some_and(|k| !in_cycle[k]));
        for node in &nodes {
            let (mut entering, mut leaving): (Option<Arc>, Option<Arc>) = (None, None);
            for (member, best) in &own {
                if let Some(arc) = arcs[node.place * count + member.place] {
                    let arc = Arc { value: arc.value.minus(best.value), ..arc };
                    entering = better(entering, arc);
                }
                if let Some(arc) = arcs[member.place * count + node.place] {
                    leaving = better(leaving, arc);
                }
            }
            arcs[node.place * count + contracted.place] = entering;
            arcs[contracted.place * count + node.place] = leaving;
        }
        nodes.push(contracted);
        cycles.push(own.into_iter().map(|(node, arc)| (node.number, arc)).collect());
    };
    let mut chosen: Vec<Option<Arc>> = vec![None; parents.len()];
    for (node, into) in nodes.iter().zip(into) {
        chosen[node.number] = into.map(|(_, arc)| arc);
    }
    // The arc that enters a cycle replaces the arc of the cycle into the same node.
    for (k, own) in cycles.into_iter().enumerate().rev() {
        let entry = chosen[count + k]?;
        let mut entered = entry.dependent as usize + 1;
        while parents[entered] != count + k {
            entered = parents[entered];
        }
        for (node, arc) in own {
            chosen[node] = Some(if node == entered { entry } else { arc });
        }
    }
    chosen.truncate(count);
    Some(chosen)
}

/// The better one; of equal arcs the first.
fn better(best: Option<Arc>, arc: Arc) -> Option<Arc> {
    if best.is_none_or(|best| arc.value.is_better(best.value)) { Some(arc) } else { best }
}

/// The best arc into every node but the first, with the position of its head; `None` if a node has no arc.
#[allow(clippy::type_complexity)]
fn best_into(arcs: &[Option<Arc>], count: usize, nodes: &[Node]) -> Option<Vec<Option<(usize, Arc)>>> {
    let mut into: Vec<Option<(usize, Arc)>> = vec![None; nodes.len()];
    // By rows of heads, as the arcs are stored.
    for (k, head) in nodes.iter().enumerate() {
        let row = &arcs[head.place * count..][..count];
        for (j, node) in nodes.iter().enumerate().skip(1).filter(|(j, _)| *j != k) {
            if let Some(arc) = row[node.place]
                && into[j].is_none_or(|(_, best)| arc.value.is_better(best.value))
            {
                into[j] = Some((k, arc));
            }
        }
    }
    into.iter().skip(1).all(Option::is_some).then_some(into)
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
