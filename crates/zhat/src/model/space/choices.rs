//! Dynamic programming over subsets of labels, or of the nodes of a tree, by their size: sums and maxima
//! under a condition on the number of chosen elements.
//!
//! Nodes are in preorder: a chosen node is followed by the next node, a node that is not chosen by the first
//! node after its subtree (labels are nodes without children). With k nodes chosen before position i,
//!
//!   H(i, k) = H(after i's subtree, k) + e^{w_i} H(i + 1, k + 1),   H(end, k) = 1 if least ≤ k ≤ most,
//!
//! computed in logs. All terms are positive. Time and memory O(n·most).

use super::{Subtrees, sigmoid};
use crate::error::Result;
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// Number of table entries between two checks of the clock.
const ROUND: usize = 1 << 12;

/// The elements that may be chosen, in preorder.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The label or node at each position.
    pub order: Vec<u32>,
    /// The position after its subtree.
    next: Vec<u32>,
    /// Whether it may be left out, and whether it may be chosen.
    may: Vec<(bool, bool)>,
    /// The minimum and maximum number of chosen elements.
    pub sizes: (usize, usize),
}

impl Plan {
    /// The plan for labels; `may` gives for each label whether it may be left out and whether it may be
    /// chosen.
    pub fn labels(may: Vec<(bool, bool)>, sizes: (usize, usize)) -> Self {
        let n = may.len() as u32;
        Plan { order: (0..n).collect(), next: (1..=n).collect(), may, sizes }
    }

    /// The plan for the nodes of a tree.
    pub fn nodes(tree: &Subtrees, may: &[(bool, bool)], sizes: (usize, usize)) -> Self {
        let n = tree.nodes();
        let mut order = Vec::with_capacity(n);
        let mut open = vec![tree.root() as u32];
        while let Some(v) = open.pop() {
            order.push(v);
            open.extend(tree.children(v as usize).iter().rev());
        }
        let mut count = vec![1u32; n];
        for &v in order.iter().rev() {
            if let Some(parent) = tree.parent(v as usize) {
                count[parent] += count[v as usize];
            }
        }
        let next = order.iter().enumerate().map(|(i, v)| i as u32 + count[*v as usize]).collect();
        // The parent of a node that must be chosen must be chosen too.
        let mut own = may.to_vec();
        for &v in order.iter().rev() {
            if let Some(parent) = tree.parent(v as usize) {
                own[parent].0 &= own[v as usize].0;
            }
        }
        let mut may: Vec<(bool, bool)> = order.iter().map(|v| own[*v as usize]).collect();
        may[0].0 &= tree.has_empty();
        Plan { order, next, may, sizes }
    }

    /// The number of table entries.
    pub fn entries(n: usize, most: usize) -> f64 {
        (n as f64 + 1.0) * (most.min(n) as f64 + 1.0)
    }

    fn columns(&self) -> usize {
        self.sizes.1.min(self.order.len()) + 1
    }

    /// Visits every choice until `visit` returns false; `feasible` tells whether a partial choice can be
    /// completed.
    pub fn enumerate(
        &self,
        feasible: impl Fn(usize, usize) -> bool,
        visit: &mut dyn FnMut(&[u32]) -> bool,
    ) -> bool {
        let n = self.order.len();
        let mut structure = vec![0; n];
        if !feasible(0, 0) {
            return true;
        }
        // Position, number chosen before it, and the number of options tried there: none, leaving it out,
        // choosing it.
        let mut path = vec![(0, 0, 0u8)];
        while let Some(&mut (i, k, ref mut tried)) = path.last_mut() {
            if i == n {
                if !visit(&structure) {
                    return false;
                }
                path.pop();
                continue;
            }
            let own = self.order[i] as usize;
            *tried += 1;
            let after = match *tried {
                1 if self.may[i].0 => (self.next[i] as usize, k),
                2 if self.may[i].1 => {
                    structure[own] = 1;
                    (i + 1, k + 1)
                }
                1 | 2 => continue,
                _ => {
                    structure[own] = 0;
                    path.pop();
                    continue;
                }
            };
            if feasible(after.0, after.1) {
                path.push((after.0, after.1, 0));
            }
        }
        true
    }
}

/// The table of H: sums, or maxima.
#[derive(Clone, Debug)]
pub(crate) struct Choices {
    pub plan: Plan,
    /// The log weight of choosing the element at each position.
    weights: Vec<f64>,
    ahead: Vec<f64>,
    best: bool,
}

impl Choices {
    /// Computes the table: sums, or maxima with `best`. `weights` are indexed by label or node.
    pub fn new(plan: Plan, weights: &[f64], best: bool, clock: Option<&Clock<'_>>) -> Result<Self> {
        let (n, columns) = (plan.order.len(), plan.columns());
        let weights: Vec<f64> = plan.order.iter().map(|v| weights[*v as usize]).collect();
        let mut choices = Choices { plan, weights, ahead: vec![f64::NEG_INFINITY; (n + 1) * columns], best };
        let (least, most) = choices.plan.sizes;
        (least..=most.min(columns - 1)).for_each(|k| choices.ahead[n * columns + k] = 0.0);
        for i in (0..n).rev() {
            for k in 0..columns.min(i + 1) {
                if (i * columns + k).is_multiple_of(ROUND)
                    && let Some(clock) = clock
                {
                    clock.check()?;
                }
                let (out, chosen) = choices.ways(i, k);
                choices.ahead[i * columns + k] = match best {
                    true => out.max(chosen),
                    false => numeric::log_sum_exp(&[out, chosen]),
                };
            }
        }
        Ok(choices)
    }

    fn at(&self, i: usize, k: usize) -> f64 {
        let columns = self.plan.columns();
        if k < columns { self.ahead[i * columns + k] } else { f64::NEG_INFINITY }
    }

    /// Whether a partial choice can be completed.
    pub fn is_possible(&self, i: usize, k: usize) -> bool {
        self.at(i, k) > f64::NEG_INFINITY
    }

    /// The two terms of H(i, k): element i left out, and chosen.
    fn ways(&self, i: usize, k: usize) -> (f64, f64) {
        let (may_not, may) = self.plan.may[i];
        let out = if may_not { self.at(self.plan.next[i] as usize, k) } else { f64::NEG_INFINITY };
        let chosen = if may { self.weights[i] + self.at(i + 1, k + 1) } else { f64::NEG_INFINITY };
        (out, chosen)
    }

    /// The log of the sum over all choices, or the maximum.
    pub fn total(&self) -> f64 {
        self.at(0, 0)
    }

    /// Draws a structure, or finds the best one without `random`.
    pub fn choose(&self, mut random: Option<&mut Stream>, structure: &mut [u32]) {
        structure.fill(0);
        let (mut i, mut k) = (0, 0);
        while i < self.plan.order.len() {
            let (out, chosen) = self.ways(i, k);
            let take = match &mut random {
                // If one of the two is impossible, their difference is infinite.
                Some(random) => random.uniform() < sigmoid(chosen - out),
                None => chosen > out,
            };
            if take {
                structure[self.plan.order[i] as usize] = 1;
                (i, k) = (i + 1, k + 1);
            } else {
                i = self.plan.next[i] as usize;
            }
        }
    }

    /// The probability of each label or node to be chosen.
    pub fn chosen(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        debug_assert!(!self.best);
        let (n, columns) = (self.plan.order.len(), self.plan.columns());
        let total = self.total();
        let mut behind = vec![f64::NEG_INFINITY; (n + 1) * columns];
        behind[0] = 0.0;
        let mut means = vec![0.0; n];
        for i in 0..n {
            let mut mean = 0.0;
            for k in 0..columns.min(i + 1) {
                if (i * columns + k).is_multiple_of(ROUND) {
                    clock.check()?;
                }
                let here = behind[i * columns + k];
                if here == f64::NEG_INFINITY {
                    continue;
                }
                let (out, chosen) = self.ways(i, k);
                if out > f64::NEG_INFINITY {
                    let to = self.plan.next[i] as usize * columns + k;
                    behind[to] = numeric::log_sum_exp(&[behind[to], here]);
                }
                if chosen > f64::NEG_INFINITY {
                    let to = (i + 1) * columns + k + 1;
                    behind[to] = numeric::log_sum_exp(&[behind[to], here + self.weights[i]]);
                    mean += (here + chosen - total).exp();
                }
            }
            means[self.plan.order[i] as usize] = mean.min(1.0);
        }
        Ok(means)
    }

    /// Pushes the successors of a search state to `children`, each with the score of its best completion.
    pub fn after(&self, &(i, k, so_far, _): &State, children: &mut Vec<(f64, State)>) {
        if i == self.plan.order.len() {
            return;
        }
        let (out, chosen) = self.ways(i, k);
        children.push((so_far + out, (self.plan.next[i] as usize, k, so_far, false)));
        children.push((so_far + chosen, (i + 1, k + 1, so_far + self.weights[i], true)));
    }

    /// The structure given by a path of states.
    pub fn structure(&self, path: &[State]) -> Vec<u32> {
        let mut structure = vec![0; self.plan.order.len()];
        for pair in path.windows(2).filter(|pair| pair[1].3) {
            structure[self.plan.order[pair[0].0] as usize] = 1;
        }
        structure
    }
}

/// A search state: position, number chosen before it, sum of their weights, and whether the last one was
/// chosen.
pub(crate) type State = (usize, usize, f64, bool);
