//! The trace of a search as an arithmetic circuit, and the queries it answers.
//!
//! A node is a component: a sum over the branches of one decision. A branch is a product of a constant, the
//! states decided in it, and the remaining components. The branches of a node exclude each other (the sum is
//! deterministic), and the parts of a branch share no variable (the product is decomposable). Sums, maxima,
//! marginals and samples are therefore exact after one upward and one downward pass. Nodes come after the
//! nodes they consist of; nodes found in the cache are shared.
//!
//! Reference: A. Darwiche, *A differential approach to inference in Bayesian networks*, Journal of the ACM 50
//! (2003).

use std::ops::Range;

use crate::query::Beliefs;
use crate::random::Stream;

/// A range of indices into a list.
#[derive(Clone, Copy, Debug)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Branch {
    /// Log of the constant, and log of the whole branch.
    constant: f64,
    log: f64,
    decided: Span,
    parts: Span,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    log: f64,
    branches: Span,
}

/// The finished nodes, and lists of the open branches; the innermost level comes last in these lists.
#[derive(Debug, Default)]
pub(super) struct Circuit {
    nodes: Vec<Node>,
    branches: Vec<Branch>,
    /// (variable, state) pairs.
    decided: Vec<(u32, u32)>,
    parts: Vec<u32>,
    open_branches: Vec<Branch>,
    open_decided: Vec<(u32, u32)>,
    open_parts: Vec<u32>,
}

/// The lengths of the lists of open branches.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    branches: usize,
    decided: usize,
    parts: usize,
}

fn push_all<T: Copy>(list: &mut Vec<T>, items: &[T]) -> Span {
    let start = list.len() as u32;
    list.extend_from_slice(items);
    Span { start, end: list.len() as u32 }
}

impl Circuit {
    /// Memory in bytes, including the room that lists reserve for growth and the memory of queries.
    pub fn bytes(&self) -> usize {
        let branches = self.branches.len() + self.open_branches.len();
        let decided = self.decided.len() + self.open_decided.len();
        let parts = self.parts.len() + self.open_parts.len();
        // Indices have 32 bits; a larger circuit counts as not fitting into memory.
        if branches.max(decided).max(parts) > u32::MAX as usize / 2 {
            return usize::MAX / 4;
        }
        3 * (branches * size_of::<Branch>() + 8 * decided + 4 * parts) + 80 * self.nodes.len()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn mark(&self) -> Mark {
        Mark {
            branches: self.open_branches.len(),
            decided: self.open_decided.len(),
            parts: self.open_parts.len(),
        }
    }

    /// Records that the open branch decides variable `v`.
    pub fn decide(&mut self, v: u32, state: usize) {
        self.open_decided.push((v, state as u32));
    }

    /// Records that `node` is a part of the open branch.
    pub fn part(&mut self, node: u32) {
        self.open_parts.push(node);
    }

    /// Discards the branch opened at `mark`.
    pub fn drop_branch(&mut self, mark: Mark) {
        self.open_decided.truncate(mark.decided);
        self.open_parts.truncate(mark.parts);
    }

    /// Closes the branch opened at `mark`.
    pub fn close_branch(&mut self, mark: Mark, constant: f64, log: f64) {
        let decided = push_all(&mut self.decided, &self.open_decided[mark.decided..]);
        let parts = push_all(&mut self.parts, &self.open_parts[mark.parts..]);
        self.drop_branch(mark);
        self.open_branches.push(Branch { constant, log, decided, parts });
    }

    /// Creates a node from the branches closed since `mark`.
    pub fn close_node(&mut self, mark: Mark, log: f64) -> u32 {
        let branches = push_all(&mut self.branches, &self.open_branches[mark.branches..]);
        self.open_branches.truncate(mark.branches);
        self.nodes.push(Node { log, branches });
        self.nodes.len() as u32 - 1
    }

    /// The probability of each branch of a node, given that the node is reached.
    fn choices(&self, node: Node) -> impl Iterator<Item = (&Branch, f64)> {
        self.branches[node.branches.range()].iter().map(move |branch| (branch, (branch.log - node.log).exp()))
    }

    /// Adds the probability of each state to `beliefs`; the last node is the root.
    pub fn marginals(&self, beliefs: &mut Beliefs) {
        let mut reached = vec![0.0; self.nodes.len()];
        if let Some(whole) = reached.last_mut() {
            *whole = 1.0;
        }
        for (i, &node) in self.nodes.iter().enumerate().rev().filter(|(_, node)| node.log > f64::NEG_INFINITY)
        {
            if reached[i] == 0.0 {
                continue;
            }
            for (branch, choice) in self.choices(node) {
                let mass = reached[i] * choice;
                self.parts[branch.parts.range()].iter().for_each(|&part| reached[part as usize] += mass);
                for &(v, state) in &self.decided[branch.decided.range()] {
                    beliefs.variable_mut(v as usize)[state as usize] += mass;
                }
            }
        }
    }

    /// H(node) = Σ_b q_b (Σ_parts H(part) − ln q_b).
    pub fn entropy(&self) -> f64 {
        let mut entropies: Vec<f64> = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let term = |(branch, choice): (&Branch, f64)| {
                let parts: f64 =
                    self.parts[branch.parts.range()].iter().map(|&part| entropies[part as usize]).sum();
                if choice > 0.0 { choice * (parts - (branch.log - node.log)) } else { 0.0 }
            };
            let entropy = if node.log > f64::NEG_INFINITY { self.choices(node).map(term).sum() } else { 0.0 };
            entropies.push(entropy);
        }
        entropies.last().map_or(0.0, |entropy| entropy.max(0.0))
    }

    /// Writes the best state.
    pub fn best(&self, state: &mut [usize]) {
        let mut best: Vec<(f64, u32)> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let mut own = (f64::NEG_INFINITY, node.branches.start);
            for b in node.branches.range() {
                let branch = self.branches[b];
                let parts: f64 =
                    self.parts[branch.parts.range()].iter().map(|&part| best[part as usize].0).sum();
                if branch.constant + parts > own.0 {
                    own = (branch.constant + parts, b as u32);
                }
            }
            best.push(own);
        }
        self.descend(state, |node| best[node].1 as usize);
    }

    /// Draws a state.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize]) {
        let mut choices = Vec::new();
        self.descend(state, |node| {
            choices.clear();
            choices.extend(self.choices(self.nodes[node]).map(|(_, choice)| choice));
            self.nodes[node].branches.start as usize + random.categorical(&choices)
        });
    }

    /// Follows one branch of every node reached, starting at the root.
    fn descend(&self, state: &mut [usize], mut choose: impl FnMut(usize) -> usize) {
        let mut left: Vec<usize> = self.nodes.len().checked_sub(1).into_iter().collect();
        while let Some(node) = left.pop() {
            let branch = self.branches[choose(node)];
            left.extend(self.parts[branch.parts.range()].iter().map(|&part| part as usize));
            for &(v, s) in &self.decided[branch.decided.range()] {
                state[v as usize] = s as usize;
            }
        }
    }
}
