//! Subtrees of a forest: sets of nodes closed under parents, with one score per node.
//!
//! F(v) = 1 + e^{s_v} Π F(c) over the children c sums over the subtrees below v, including the empty one. Given
//! its parent, v is chosen with probability q(v) = 1 − 1/F(v); the probability of v is the product of q along
//! the path from its root. log Z = Σ ln F(r) over the roots r. Time and memory: O(nodes) per row.

use super::{Family, Mode, Work, filled};
use crate::model::space::softplus;
use crate::numeric::{Elementwise, log_add};
use crate::random::Stream;

/// A forest whose nodes have scores.
#[derive(Clone, Debug)]
pub(crate) struct Hierarchy {
    parents: Vec<Option<u32>>,
    /// The nodes, parents before children.
    order: Vec<u32>,
}

impl Hierarchy {
    /// A forest given by the parent of every node; `None` if the parents contain a cycle.
    pub fn new(parents: &[Option<usize>]) -> Option<Self> {
        let order = topological(parents)?;
        let parents = parents.iter().map(|parent| parent.map(|parent| parent as u32)).collect();
        Some(Hierarchy { parents, order })
    }
}

/// The nodes of a forest, parents before children; `None` if there is a cycle or a parent does not exist.
pub(crate) fn topological(parents: &[Option<usize>]) -> Option<Vec<u32>> {
    let n = parents.len();
    let mut children = vec![Vec::new(); n];
    let mut order = Vec::with_capacity(n);
    for (v, parent) in parents.iter().enumerate() {
        match *parent {
            Some(parent) => children.get_mut(parent)?.push(v as u32),
            None => order.push(v as u32),
        }
    }
    let mut next = 0;
    while let Some(&v) = order.get(next) {
        order.append(&mut children[v as usize]);
        next += 1;
    }
    (order.len() == n).then_some(order)
}

impl Family for Hierarchy {
    fn channels(&self) -> usize {
        self.parents.len()
    }

    fn width(&self) -> usize {
        self.parents.len()
    }

    fn bytes(&self, lanes: usize) -> f64 {
        24.0 * (lanes * self.parents.len()) as f64
    }

    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, work: &mut Work, out: &mut [f64]) {
        let n = self.parents.len();
        out.fill(0.0);
        // Σ ln F(c) over the children, to which the node's own score is added.
        let inner = filled(&mut work.messages, n * lanes, 0.0);
        let shares = filled(&mut work.shares, n * lanes, 0.0);
        let zeros = vec![0.0; lanes];
        let mut sum = vec![0.0; lanes];
        for &v in self.order.iter().rev() {
            let at = v as usize * lanes..(v as usize + 1) * lanes;
            f64::add_to(&mut inner[at.clone()], &scores[at.clone()]);
            match mode {
                Mode::Sum => log_add(&zeros, &inner[at.clone()], &mut sum, &mut shares[at]),
                Mode::Max => {
                    let both = inner[at.clone()].iter().zip(&mut shares[at]).zip(&mut sum);
                    both.for_each(|((&x, share), sum)| {
                        (*share, *sum) = if x > 0.0 { (1.0, x) } else { (0.0, 0.0) };
                    });
                }
            }
            match self.parents[v as usize] {
                Some(parent) => {
                    let place = parent as usize * lanes;
                    f64::add_to(&mut inner[place..place + lanes], &sum);
                }
                None => f64::add_to(out, &sum),
            }
        }
    }

    fn means(&self, _: &[f64], lanes: usize, work: &mut Work, means: &mut [f64]) {
        means.copy_from_slice(&work.shares);
        for &v in &self.order {
            let Some(parent) = self.parents[v as usize] else { continue };
            let (parent, v) = (parent as usize * lanes, v as usize * lanes);
            for lane in 0..lanes {
                means[v + lane] *= means[parent + lane];
            }
        }
    }

    fn decode(
        &self,
        _: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        mut random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        for &v in &self.order {
            let open = self.parents[v as usize].is_none_or(|parent| structure[parent as usize] == 1);
            let share = work.shares[v as usize * lanes + lane];
            let threshold = if open { random.as_mut().map_or(0.5, |random| random.uniform()) } else { 1.0 };
            structure[v as usize] = u32::from(open && threshold < share);
        }
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        structure.iter().enumerate().filter(|(_, y)| **y == 1).for_each(|(v, _)| add(v));
    }

    fn set_features(&self, members: &[u32], add: &mut dyn FnMut(usize)) {
        members.iter().for_each(|&v| add(v as usize));
    }

    fn radius(&self) -> f64 {
        0.5 * (self.parents.len() as f64).sqrt()
    }

    fn log_count(&self) -> f64 {
        let mut inner = vec![0.0; self.parents.len()];
        let mut count = 0.0;
        for &v in self.order.iter().rev() {
            let own = softplus(inner[v as usize]);
            match self.parents[v as usize] {
                Some(parent) => inner[parent as usize] += own,
                None => count += own,
            }
        }
        count
    }
}
