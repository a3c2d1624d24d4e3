//! Decision priorities from a tree decomposition.
//!
//! Eliminating the variables of a graph in some order gives a tree of cliques. Deciding all variables of the
//! clique at its centroid leaves parts of at most half the size each. A variable should therefore be decided
//! earlier the nearer it is to the centroid; this counts more the narrower the tree is for its size.
//!
//! Reference: T. Korhonen, M. Järvisalo, *Integrating tree decompositions into decision heuristics of
//! propositional model counters*, CP 2021.

use crate::method::exact::prepare::Order;

/// The largest priority; it outweighs all other criteria.
const LARGEST: f64 = 1e7;

/// For each variable, the benefit of deciding it early.
pub(super) fn priorities(order: &Order) -> Vec<f64> {
    let n = order.variables.len();
    let mut position = vec![0; n];
    order.variables.iter().enumerate().for_each(|(i, &v)| position[v] = i);
    let parent: Vec<Option<usize>> =
        order.neighbours.iter().map(|others| others.iter().map(|&u| position[u]).min()).collect();
    let mut size = vec![1usize; n];
    let mut adjacent: Vec<Vec<usize>> = vec![Vec::new(); n];
    for i in 0..n {
        if let Some(p) = parent[i] {
            size[p] += size[i];
            adjacent[i].push(p);
            adjacent[p].push(i);
        }
    }
    // The distance between neighbouring cliques is zero if one contains the other.
    let step = |a: usize, b: usize| {
        let (low, high) = (a.min(b), a.max(b));
        usize::from(order.neighbours[low].len() != order.neighbours[high].len() + 1)
    };
    let mut distance = vec![usize::MAX; n];
    let mut nearest = vec![usize::MAX; n];
    for root in (0..n).filter(|&i| parent[i].is_none()) {
        let mut centre = root;
        let heavy = |at: usize| {
            adjacent[at].iter().copied().find(|&i| parent[i] == Some(at) && 2 * size[i] > size[root])
        };
        while let Some(child) = heavy(centre) {
            centre = child;
        }
        distance[centre] = 0;
        let mut left = vec![centre];
        while let Some(i) = left.pop() {
            for &j in &adjacent[i] {
                if distance[j] == usize::MAX {
                    distance[j] = distance[i] + step(i, j);
                    left.push(j);
                }
            }
        }
    }
    for ((others, v), &distance) in order.neighbours.iter().zip(&order.variables).zip(&distance) {
        others.iter().chain([v]).for_each(|&u| nearest[u] = nearest[u].min(distance));
    }
    let farthest = nearest.iter().copied().max().unwrap_or(0).max(1) as f64;
    let weight = (100.0 * (n as f64 / order.width.max(1) as f64).exp() / n as f64).min(LARGEST);
    nearest.iter().map(|&d| weight * (1.0 - d as f64 / farthest)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::exact::prepare::elimination_order;
    use crate::model::generate;

    #[test]
    fn the_middle_of_a_chain_comes_first() {
        let chain =
            generate::ising(generate::Grid { rows: 1, columns: 31, torus: false }, 1.0, 0.0, false, 0);
        let priorities = priorities(&elimination_order(&chain.unwrap()).unwrap());
        let best = (0..31).max_by(|&a, &b| priorities[a].total_cmp(&priorities[b])).unwrap();
        assert!((12..=18).contains(&best), "{best}");
        assert!(priorities[0] < priorities[7] && priorities[30] < priorities[23]);
    }
}
