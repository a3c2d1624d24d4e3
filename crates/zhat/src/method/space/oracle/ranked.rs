//! The k best structures, exactly.
//!
//! - Labels: the best labelling, and then the cheapest changes of labels in order (`labels`). O(n log n + k
//!   log k).
//! - Nodes of a tree: each node keeps the k best sums below it, and the lists of its children are merged one
//!   at a time (`nodes`). O(nk log k).
//! - Kendall and Cayley distances: independent choices, merged the same way (`choices`).
//! - Positions: the best assignment, then the best ones without it, part by part (K. G. Murty, *An algorithm
//!   for ranking all the assignments in order of increasing cost*, 1968). O(kn⁴).
//! - Precedences, cycles, partitions: the tables of maxima give the best completion of each partial
//!   structure, so a best-first search expands no partial structure in vain (`search`).

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::orders::Orders;
use super::prepared::{
    Algorithm, algorithm, blocks, choices as counted, conditions, distances, odds_of_labels, steps, tours,
};
use super::{mallows, no_algorithm};
use crate::error::{Error, Result};
use crate::method::space::assignment::best_assignment_within;
use crate::method::space::{Distance, Scores, SpaceModel, Structures, Subtrees};
use crate::run::Clock;

/// A heap entry with a score: the largest first, and among equal scores the one inserted later.
struct Entry<T> {
    score: f64,
    number: usize,
    value: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then(self.number.cmp(&other.number))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

/// The k best structures, except for models that are factor graphs. Cycles may occur twice.
pub(super) fn k_best(model: &SpaceModel, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
    if k == 0 {
        return Ok(Vec::new());
    }
    let n = model.width();
    let free = conditions(model).is_empty();
    match (algorithm(model), model.structures().base(), model.scores()) {
        (Some(Algorithm::Single), Structures::Hypercube(cube), scores) => {
            labels(&odds_of_labels(cube, scores.unary().unwrap_or(&[])), k, clock)
        }
        (Some(Algorithm::Tree), Structures::Subtrees(tree), scores) => {
            nodes(tree, scores.unary().unwrap_or(&[]), k, clock)
        }
        (Some(Algorithm::Counted), ..) => {
            let choices = counted(model, true, clock)?;
            let roots = vec![(choices.total(), (0, 0, 0.0, false))];
            let paths = search(roots, k, clock, |state, children| choices.after(state, children))?;
            Ok(paths.iter().map(|path| choices.structure(path)).collect())
        }
        (
            Some(Algorithm::Mallows),
            _,
            Scores::Distance { distance: distance @ (Distance::Kendall | Distance::Cayley), places, spread },
        ) => mallows::Draws::new(*distance, places, *spread).k_best(k, clock),
        (Some(Algorithm::Orders), _, scores) if matches!(scores, Scores::Precedence(_)) || !free => {
            let orders = Orders::new(steps(model), n, true, true, clock)?;
            match orders.total() {
                f64::NEG_INFINITY => Err(Error::ZeroPartition),
                _ => orders.k_best(k, clock),
            }
        }
        (Some(Algorithm::Orders | Algorithm::Mallows), _, Scores::Position(matrix)) => {
            assignments(matrix, n, k, clock)
        }
        (Some(Algorithm::Orders | Algorithm::Mallows), _, scores) => {
            assignments(&distances(scores, n), n, k, clock)
        }
        (Some(Algorithm::Tours), _, Scores::Links(links)) => {
            let mut found = tours(model, links, true, clock)?.k_best(k, clock)?;
            // Both directions of a cycle count as one.
            let mut seen = std::collections::HashSet::new();
            found.retain_mut(|structure| {
                model.space().canonical(structure);
                seen.insert(structure.clone())
            });
            found.truncate(k);
            Ok(found)
        }
        (Some(Algorithm::Blocks), _, Scores::Links(links)) => {
            blocks(model, links, (true, false), clock)?.k_best(k, clock)
        }
        _ => Err(no_algorithm(model)),
    }
}

/// Best-first search along states whose best completion is known. `next` lists the successors of a state,
/// each with the score of its best completion; a state without successors is an end. Returns the k best
/// paths, best first, each from its root.
pub(super) fn search<S: Copy>(
    roots: Vec<(f64, S)>,
    k: usize,
    clock: &Clock<'_>,
    mut next: impl FnMut(&S, &mut Vec<(f64, S)>),
) -> Result<Vec<Vec<S>>> {
    const NONE: usize = usize::MAX;
    // All states reached, each with its predecessor.
    let mut states: Vec<(S, usize)> = Vec::new();
    let mut open = BinaryHeap::new();
    let mut children = roots;
    let mut found = Vec::new();
    let mut before = NONE;
    loop {
        // At most k successors can matter.
        if children.len() > k {
            children.select_nth_unstable_by(k - 1, |a, b| b.0.total_cmp(&a.0));
            children.truncate(k);
        }
        for (score, state) in children.drain(..).filter(|child| child.0 > f64::NEG_INFINITY) {
            open.push(Entry { score, number: states.len(), value: () });
            states.push((state, before));
        }
        if found.len() == k {
            return Ok(found);
        }
        let Some(best) = open.pop() else { return Ok(found) };
        clock.check()?;
        before = best.number;
        next(&states[before].0, &mut children);
        if children.is_empty() {
            let mut path = Vec::new();
            let mut at = before;
            while let Some(&(state, last)) = states.get(at) {
                path.push(state);
                at = last;
            }
            path.reverse();
            found.push(path);
        }
    }
}

/// The k best subsets by their log odds: changes of the best subset in order of increasing cost. A change is
/// a set of labels in ascending order of cost. Its successors are itself plus the next label, and itself with
/// the last label replaced by the next.
fn labels(odds: &[f64], k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
    let best: Vec<u32> = odds.iter().map(|x| u32::from(*x > 0.0)).collect();
    let mut order: Vec<usize> = (0..odds.len()).collect();
    order.sort_unstable_by(|a, b| odds[*a].abs().total_cmp(&odds[*b].abs()).then(a.cmp(b)));
    let cost = |at: usize| odds[order[at]].abs();
    let mut found = vec![best.clone()];
    // The index of the last label, the cost of those before it, and the change that contains them.
    let mut changes: Vec<(usize, Option<usize>)> = Vec::new();
    let mut open = BinaryHeap::new();
    if !order.is_empty() {
        open.push(Entry { score: -cost(0), number: 0, value: (0, 0.0, None) });
    }
    let mut number = 0;
    while found.len() < k {
        let Some(Entry { value: (last, before, rest), .. }) = open.pop() else { break };
        clock.check()?;
        let own = changes.len();
        changes.push((last, rest));
        let mut structure = best.clone();
        let mut at = Some(own);
        while let Some(change) = at {
            let label = order[changes[change].0];
            structure[label] = 1 - structure[label];
            at = changes[change].1;
        }
        found.push(structure);
        if last + 1 < order.len() {
            let with = before + cost(last);
            for value in [(last + 1, with, Some(own)), (last + 1, before, rest)] {
                number += 1;
                open.push(Entry { score: -(value.1 + cost(last + 1)), number, value });
            }
        }
    }
    Ok(found)
}

/// The k largest sums of one number from each of two descending lists, with their indices.
fn sums(left: &[f64], right: &[f64], k: usize, clock: &Clock<'_>) -> Result<Vec<(f64, u32, u32)>> {
    let mut found = Vec::with_capacity(k.min(left.len().saturating_mul(right.len())));
    let mut open = BinaryHeap::new();
    let mut number = usize::MAX;
    let mut push = |open: &mut BinaryHeap<Entry<(usize, usize)>>, i: usize, j: usize| {
        if let (Some(a), Some(b)) = (left.get(i), right.get(j)) {
            number -= 1;
            open.push(Entry { score: a + b, number, value: (i, j) });
        }
    };
    push(&mut open, 0, 0);
    while found.len() < k {
        let Some(Entry { score, value: (i, j), .. }) = open.pop() else { break };
        if found.len().is_multiple_of(1 << 12) {
            clock.check()?;
        }
        found.push((score, i as u32, j as u32));
        push(&mut open, i, j + 1);
        // Rows are started one at a time, because their first sums are descending.
        if j == 0 {
            push(&mut open, i + 1, 0);
        }
    }
    Ok(found)
}

/// The k best choices of one number from each of several descending lists, as indices.
pub(super) fn choices(
    lists: impl Iterator<Item = Vec<f64>>,
    k: usize,
    clock: &Clock<'_>,
) -> Result<Vec<Vec<u32>>> {
    let mut totals = vec![0.0];
    let mut steps: Vec<Vec<(u32, u32)>> = Vec::new();
    for list in lists {
        clock.check()?;
        let found = sums(&totals, &list, k, clock)?;
        totals = found.iter().map(|sum| sum.0).collect();
        steps.push(found.iter().map(|sum| (sum.1, sum.2)).collect());
    }
    let path = |mut at: u32| {
        let mut path = vec![0; steps.len()];
        for (i, step) in steps.iter().enumerate().rev() {
            let (before, own) = step[at as usize];
            path[i] = own;
            at = before;
        }
        path
    };
    Ok((0..totals.len() as u32).map(path).collect())
}

/// The k best subtrees.
fn nodes(tree: &Subtrees, unary: &[f64], k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
    let n = tree.nodes();
    // For each node, the best sums over its subtree if it is chosen, as far as its children are merged.
    let mut below: Vec<Vec<f64>> = vec![vec![0.0]; n];
    // For each sum of the parent after merging: the index of the parent's sum before, and the index in the
    // node's own list.
    let mut merged: Vec<Vec<(u32, u32)>> = vec![Vec::new(); n];
    // The index in a node's list at which the node is not chosen.
    let mut absent = vec![u32::MAX; n];
    for &v in tree.order().iter().rev() {
        let v = v as usize;
        let Some(parent) = tree.parent(v) else { continue };
        if v.is_multiple_of(1 << 10) {
            clock.check()?;
        }
        let list = listed(std::mem::take(&mut below[v]), unary[v], k, &mut absent[v]);
        let found = sums(&below[parent], &list, k, clock)?;
        merged[v] = found.iter().map(|sum| (sum.1, sum.2)).collect();
        below[parent] = found.iter().map(|sum| sum.0).collect();
    }
    let root = tree.root();
    let own = std::mem::take(&mut below[root]);
    let count = match tree.has_empty() {
        true => listed(own, unary[root], k, &mut absent[root]).len(),
        false => own.len(),
    };
    let mut found = Vec::with_capacity(count);
    for index in 0..count as u32 {
        clock.check()?;
        let mut structure = vec![0; n];
        let mut open = vec![(root, index)];
        while let Some((v, at)) = open.pop() {
            if at == absent[v] {
                continue;
            }
            structure[v] = 1;
            let mut at = at - u32::from(at > absent[v]);
            // Children are merged from last to first.
            for &child in tree.children(v) {
                let (before, own) = merged[child as usize][at as usize];
                open.push((child as usize, own));
                at = before;
            }
        }
        found.push(structure);
    }
    Ok(found)
}

/// The list of a node from the sums below it: chosen with any of these sums, or not chosen.
fn listed(mut below: Vec<f64>, score: f64, k: usize, absent: &mut u32) -> Vec<f64> {
    below.iter_mut().for_each(|sum| *sum += score);
    let at = below.partition_point(|sum| *sum >= 0.0);
    if at < k {
        below.insert(at, 0.0);
        *absent = at as u32;
    }
    below.truncate(k);
    below
}

/// A subset of all assignments: the rows before `row` are fixed as in `columns`, and that row must avoid the
/// columns in `forbidden`.
struct Part {
    columns: Vec<usize>,
    row: usize,
    forbidden: Vec<usize>,
}

/// The k best orders by scores of items at positions.
fn assignments(matrix: &[f64], n: usize, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
    let largest = matrix.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let score = |columns: &[usize]| columns.iter().enumerate().map(|(i, j)| matrix[i * n + j]).sum::<f64>();
    let mut open = BinaryHeap::new();
    let first = best_assignment_within(matrix, n, clock)?;
    open.push(Entry {
        score: score(&first),
        number: 0,
        value: Part { columns: first, row: 0, forbidden: Vec::new() },
    });
    let mut number = 0;
    let mut found = Vec::new();
    let mut small = Vec::new();
    while let Some(Entry { value: part, .. }) = open.pop() {
        let mut order = vec![0; n];
        part.columns.iter().enumerate().for_each(|(item, position)| order[*position] = item as u32);
        found.push(order);
        if found.len() == k {
            break;
        }
        for row in part.row..n {
            clock.check()?;
            let mut forbidden = if row == part.row { part.forbidden.clone() } else { Vec::new() };
            forbidden.push(part.columns[row]);
            // The remaining problem: these rows, and the columns not used by the rows before.
            let free: Vec<usize> = part.columns[row..].to_vec();
            if free.iter().all(|column| forbidden.contains(column)) {
                continue;
            }
            small.clear();
            for i in row..n {
                small.extend(free.iter().map(|j| matrix[i * n + j]));
            }
            // Worse than all other entries together.
            let penalty = -(4.0 * n as f64 * largest + 1.0);
            for (value, column) in small.iter_mut().zip(&free) {
                if forbidden.contains(column) {
                    *value = penalty;
                }
            }
            let mut columns = part.columns.clone();
            for (i, j) in best_assignment_within(&small, free.len(), clock)?.into_iter().enumerate() {
                columns[row + i] = free[j];
            }
            if forbidden.contains(&columns[row]) {
                continue;
            }
            number += 1;
            open.push(Entry { score: score(&columns), number, value: Part { columns, row, forbidden } });
        }
    }
    Ok(found)
}
