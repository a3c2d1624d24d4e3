//! Subtrees that contain the root of a rooted tree: sets of nodes closed under parents.
//!
//! f(v) = 1 + Π_c f(c) over the children c is the number of subtrees below v, including the empty one; in
//! logs this is a softplus. A uniform sample goes from the root down: a child c of a chosen node is chosen
//! with probability (f(c) − 1)/f(c). Time O(n) for preparation and O(n) per sample, without recursion.

use std::sync::Arc;

use super::{Space, Step, check_size, check_width, refuse, sigmoid, softplus};
use crate::error::{Error, Result};
use crate::random::Stream;
use crate::run::Clock;

/// Marks the root, which has no parent.
const NONE: u32 = u32::MAX;

/// The subtrees that contain the root of a rooted tree, with or without the empty one.
///
/// Clones share the tree.
#[derive(Clone, Debug, PartialEq)]
pub struct Subtrees {
    empty: bool,
    tree: Arc<Tree>,
}

#[derive(Debug, PartialEq)]
struct Tree {
    /// The parent of each node, `NONE` for the root.
    parents: Vec<u32>,
    /// The nodes, parents before children.
    order: Vec<u32>,
    /// The children of v are children[starts[v]..starts[v + 1]].
    starts: Vec<u32>,
    children: Vec<u32>,
    /// ln Π f(c) over the children.
    inner: Vec<f64>,
}

impl Tree {
    fn upward(&self, value: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        let mut inner = vec![0.0; self.parents.len()];
        for &v in self.order.iter().rev() {
            let v = v as usize;
            if self.parents[v] != NONE {
                inner[self.parents[v] as usize] += value(v, inner[v]);
            }
        }
        inner
    }
}

impl Subtrees {
    /// A tree given by the parent of every node; exactly one node, the root, has none. `empty` tells whether
    /// the empty subtree is included.
    ///
    /// # Errors
    /// If there is not exactly one root, a parent does not exist, the parents form a cycle, or there are more
    /// than `u32::MAX` nodes.
    ///
    /// ```
    /// use zhat::space::{Space, Subtrees};
    /// // Node 0 is the root, 1 and 2 are its children, 3 is the child of 1.
    /// let space = Subtrees::new(&[None, Some(0), Some(0), Some(1)], true)?;
    /// assert!((space.log_count().unwrap() - 7f64.ln()).abs() < 1e-12);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn new(parents: &[Option<usize>], empty: bool) -> Result<Self> {
        let n = parents.len();
        check_size("nodes of a tree", n, 1)?;
        let mut roots = (0..n).filter(|v| parents[*v].is_none());
        let root = roots.next().ok_or_else(|| {
            Error::model("the tree has no root: every node has a parent, so there is a cycle")
        })?;
        if let Some(second) = roots.next() {
            return Err(Error::model(format!("the tree has two roots, {root} and {second}")));
        }
        let mut starts = vec![0u32; n + 2];
        for (v, parent) in parents.iter().enumerate() {
            match *parent {
                Some(p) if p >= n => {
                    return Err(Error::model(format!(
                        "node {v} has the parent {p}; there are only {n} nodes"
                    )));
                }
                Some(p) => starts[p + 2] += 1,
                None => {}
            }
        }
        for v in 1..starts.len() {
            starts[v] += starts[v - 1];
        }
        let mut children = vec![0u32; n - 1];
        for (v, parent) in parents.iter().enumerate() {
            if let Some(p) = *parent {
                children[starts[p + 1] as usize] = v as u32;
                starts[p + 1] += 1;
            }
        }
        starts.pop();
        let mut order = Vec::with_capacity(n);
        order.push(root as u32);
        let mut next = 0;
        while let Some(&v) = order.get(next) {
            order.extend_from_slice(&children[starts[v as usize] as usize..starts[v as usize + 1] as usize]);
            next += 1;
        }
        if order.len() < n {
            let mut reached = vec![false; n];
            order.iter().for_each(|v| reached[*v as usize] = true);
            let lost = reached.iter().position(|found| !found).unwrap_or(0);
            let message = format!(
                "node {lost} cannot be reached from the root {root}: its parents go round in a cycle"
            );
            return Err(Error::model(message));
        }
        let parents = parents.iter().map(|p| p.map_or(NONE, |p| p as u32)).collect();
        let mut tree = Tree { parents, order, starts, children, inner: Vec::new() };
        tree.inner = tree.upward(|_, inner| softplus(inner));
        Ok(Subtrees { empty, tree: Arc::new(tree) })
    }

    /// The number of nodes.
    pub fn nodes(&self) -> usize {
        self.tree.parents.len()
    }

    /// The root.
    pub fn root(&self) -> usize {
        self.tree.order[0] as usize
    }

    /// Whether the empty subtree is included.
    pub fn has_empty(&self) -> bool {
        self.empty
    }

    /// The parent of a node.
    pub fn parent(&self, v: usize) -> Option<usize> {
        (self.tree.parents[v] != NONE).then_some(self.tree.parents[v] as usize)
    }

    /// The children of a node.
    pub fn children(&self, v: usize) -> &[u32] {
        &self.tree.children[self.tree.starts[v] as usize..self.tree.starts[v + 1] as usize]
    }

    /// The nodes, parents before children.
    pub fn order(&self) -> &[u32] {
        &self.tree.order
    }

    /// For every node, the sum over its children c of `value`(c, the sum at c), in one pass from the leaves
    /// to the root.
    pub(crate) fn upward(&self, value: impl Fn(usize, f64) -> f64) -> Vec<f64> {
        self.tree.upward(value)
    }

    /// Chooses nodes from the root down: node v, if its parent is chosen, with log odds `odds`(v).
    pub(crate) fn downward(&self, random: &mut Stream, structure: &mut [u32], odds: impl Fn(usize) -> f64) {
        for &v in &self.tree.order {
            let v = v as usize;
            let open = match self.tree.parents[v] {
                NONE if !self.empty => {
                    structure[v] = 1;
                    continue;
                }
                NONE => true,
                parent => structure[parent as usize] == 1,
            };
            structure[v] = u32::from(open && random.uniform() < sigmoid(odds(v)));
        }
    }
}

impl Space for Subtrees {
    fn name(&self) -> &'static str {
        "subtrees"
    }

    fn width(&self) -> usize {
        self.nodes()
    }

    fn log_count(&self) -> Option<f64> {
        let inner = self.tree.inner[self.root()];
        Some(if self.empty { softplus(inner) } else { inner })
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        self.downward(random, structure, |v| self.tree.inner[v]);
        Ok(())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        check_width(self, structure)?;
        for (v, &bit) in structure.iter().enumerate() {
            let root = self.tree.parents[v] == NONE;
            match bit {
                0 if root && !self.empty => {
                    return Err(refuse("the root is missing; the empty subtree does not count"));
                }
                0 => {}
                1 if root || structure[self.tree.parents[v] as usize] == 1 => {}
                1 => {
                    return Err(refuse(format!(
                        "node {v} is chosen, its parent {} is not",
                        self.tree.parents[v]
                    )));
                }
                other => return Err(refuse(format!("node {v} is {other}, expected 0 or 1"))),
            }
        }
        Ok(())
    }

    /// Enumerates like a binary counter that skips sets that are not subtrees.
    fn enumerate(&self, _: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        let mut structure = vec![0u32; self.nodes()];
        if !self.empty {
            structure[self.root()] = 1;
        }
        loop {
            if !visit(&structure) {
                return Ok(false);
            }
            // Adds the last node in the order that can be added; the nodes after it are reset.
            let can_add = |v: &u32| {
                let (v, parent) = (*v as usize, self.tree.parents[*v as usize]);
                structure[v] == 0 && (parent == NONE || structure[parent as usize] == 1)
            };
            let Some(at) = self.tree.order.iter().rposition(can_add) else { return Ok(true) };
            structure[self.tree.order[at] as usize] = 1;
            self.tree.order[at + 1..].iter().for_each(|v| structure[*v as usize] = 0);
        }
    }

    /// Adds or removes a node if the result is a subtree, or removes everything below a node and draws a
    /// uniform subtree there.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        _: &Clock<'_>,
    ) -> Result<f64> {
        let v = random.below(self.nodes());
        let graft = random.bits() & 1 == 1;
        match self.tree.parents[v] {
            NONE if !self.empty && !graft => return Ok(0.0),
            NONE => {}
            parent if structure[parent as usize] == 0 => return Ok(0.0),
            _ => {}
        }
        if !graft {
            if structure[v] == 0 || self.children(v).iter().all(|c| structure[*c as usize] == 0) {
                step.set(structure, v, 1 - structure[v]);
            }
            return Ok(0.0);
        }
        // Removes the chosen nodes from v down, then draws new ones. Both loops extend the list of changes
        // while they read it.
        let first = step.changes.len();
        if structure[v] == 1 {
            step.set(structure, v, 0);
        }
        let mut at = first;
        while at < step.changes.len() {
            for &c in self.children(step.changes[at].index) {
                if structure[c as usize] == 1 {
                    step.set(structure, c as usize, 0);
                }
            }
            at += 1;
        }
        let certain = self.tree.parents[v] == NONE && !self.empty;
        let first = step.changes.len();
        if certain || random.uniform() < sigmoid(self.tree.inner[v]) {
            step.set(structure, v, 1);
        }
        let mut at = first;
        while at < step.changes.len() {
            for &c in self.children(step.changes[at].index) {
                if random.uniform() < sigmoid(self.tree.inner[c as usize]) {
                    step.set(structure, c as usize, 1);
                }
            }
            at += 1;
        }
        Ok(0.0)
    }
}
