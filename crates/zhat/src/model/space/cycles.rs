//! Undirected cycles through at least three of n vertices.
//!
//! A structure is the successor of each vertex; a vertex that is not on the cycle is its own successor. In
//! the canonical one of the two directions, the successor of the smallest vertex is the smaller of its two
//! neighbours. |Y| = Σ_{k≥3} C(n, k)(k − 1)!/2. A uniform sample draws the length k from this distribution,
//! then k of the vertices in random order.

use super::{Space, Step, check_size, check_width, log_factorial, refuse};
use crate::error::Result;
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// The undirected cycles through at least three of n vertices.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycles {
    vertices: usize,
    log_count: f64,
    /// The probability of each size, from 3 on.
    sizes: Vec<f64>,
}

impl Cycles {
    /// The cycles through some of this many vertices.
    ///
    /// # Errors
    /// If there are fewer than 3 vertices, or more than `u32::MAX`.
    pub fn new(vertices: usize) -> Result<Self> {
        check_size("vertices of cycles", vertices, 3)?;
        // ln C(n, k)(k − 1)!/2 = ln n! − ln (n − k)! − ln 2k.
        let log = |k: usize| log_factorial(vertices) - log_factorial(vertices - k) - (2.0 * k as f64).ln();
        let logs: Vec<f64> = (3..=vertices).map(log).collect();
        let log_count = numeric::log_sum_exp(&logs);
        Ok(Cycles { vertices, log_count, sizes: logs.iter().map(|x| (x - log_count).exp()).collect() })
    }

    /// The number of vertices.
    pub fn vertices(&self) -> usize {
        self.vertices
    }

    /// Writes the cycle with these vertices in order.
    pub(crate) fn write(order: &[u32], structure: &mut [u32]) {
        structure.iter_mut().enumerate().for_each(|(v, next)| *next = v as u32);
        for (i, &v) in order.iter().enumerate() {
            structure[v as usize] = order[(i + 1) % order.len()];
        }
    }

    /// Visits the cycles with a number of vertices in the given range until `visit` returns false; returns
    /// whether all were visited.
    pub(crate) fn enumerate_sized(
        &self,
        (least, most): (usize, usize),
        visit: &mut dyn FnMut(&[u32]) -> bool,
    ) -> bool {
        let n = self.vertices;
        let mut structure = vec![0; n];
        // Enumerates paths from their smallest vertex; each is visited in the direction in which its second
        // vertex is smaller than its last.
        for start in 0..(n + 1).saturating_sub(least.max(3)) as u32 {
            let mut path = vec![start];
            let mut used = vec![false; n];
            let mut candidate = start + 1;
            loop {
                while (candidate as usize) < n && used[candidate as usize] {
                    candidate += 1;
                }
                if (candidate as usize) < n && path.len() < most {
                    path.push(candidate);
                    used[candidate as usize] = true;
                    if path.len() >= least.max(3) && path[1] < candidate {
                        Self::write(&path, &mut structure);
                        if !visit(&structure) {
                            return false;
                        }
                    }
                    candidate = start + 1;
                } else {
                    let last = path.pop().unwrap_or(start);
                    if path.is_empty() {
                        break;
                    }
                    used[last as usize] = false;
                    candidate = last + 1;
                }
            }
        }
        true
    }

    /// The vertices of a cycle in order, starting with the smallest.
    pub fn order(structure: &[u32]) -> Vec<u32> {
        let on = |v: &usize| structure[*v] as usize != *v;
        let Some(start) = (0..structure.len()).find(on) else { return Vec::new() };
        let mut order = vec![start as u32];
        let mut at = structure[start];
        while at as usize != start && order.len() < structure.len() {
            order.push(at);
            at = structure[at as usize];
        }
        order
    }
}

impl Space for Cycles {
    fn name(&self) -> &'static str {
        "cycles"
    }

    fn width(&self) -> usize {
        self.vertices
    }

    fn log_count(&self) -> Option<f64> {
        Some(self.log_count)
    }

    fn uniform(&self, random: &mut Stream, structure: &mut [u32], _: &Clock<'_>) -> Result<()> {
        let size = 3 + random.categorical(&self.sizes);
        let mut order: Vec<u32> = (0..self.vertices as u32).collect();
        for i in 0..size {
            let j = i + random.below(self.vertices - i);
            order.swap(i, j);
        }
        Self::write(&order[..size], structure);
        self.canonical(structure);
        Ok(())
    }

    fn check(&self, structure: &[u32]) -> Result<()> {
        check_width(self, structure)?;
        let mut seen = vec![false; self.vertices];
        for (v, &next) in structure.iter().enumerate() {
            match seen.get_mut(next as usize) {
                None => return Err(refuse(format!("there is no vertex {next}, only {}", self.vertices))),
                Some(true) => return Err(refuse(format!("vertex {next} comes after {v} and another one"))),
                Some(seen) => *seen = true,
            }
        }
        let on = structure.iter().enumerate().filter(|(v, next)| *v != **next as usize).count();
        let order = Self::order(structure);
        if order.len() != on || on < 3 {
            return Err(refuse(format!("{on} vertices are no one cycle of at least three")));
        }
        if order[1] > order[on - 1] {
            return Err(refuse(format!(
                "the cycle leaves its least vertex {} for {}, expected the smaller neighbour {}",
                order[0],
                order[1],
                order[on - 1]
            )));
        }
        Ok(())
    }

    fn enumerate(&self, _: &Clock<'_>, visit: &mut dyn FnMut(&[u32]) -> bool) -> Result<bool> {
        Ok(self.enumerate_sized((3, self.vertices), visit))
    }

    /// Removes a vertex from the cycle, or inserts one between two neighbours.
    fn propose(
        &self,
        random: &mut Stream,
        structure: &mut [u32],
        step: &mut Step,
        _: &Clock<'_>,
    ) -> Result<f64> {
        let v = random.below(self.vertices);
        let size = structure.iter().enumerate().filter(|(v, next)| *v != **next as usize).count();
        if structure[v] as usize != v {
            if size > 3 {
                let before = structure.iter().position(|next| *next as usize == v).unwrap_or(v);
                step.set(structure, before, structure[v]);
                step.set(structure, v, v as u32);
                return Ok(-((size - 1) as f64).ln());
            }
            return Ok(0.0);
        }
        let mut before = random.below(self.vertices);
        while structure[before] as usize == before {
            before = random.below(self.vertices);
        }
        step.set(structure, v, structure[before]);
        step.set(structure, before, v as u32);
        Ok((size as f64).ln())
    }

    fn canonical(&self, structure: &mut [u32]) {
        let mut order = Self::order(structure);
        if order.len() > 2 && order[1] > order[order.len() - 1] {
            order[1..].reverse();
            Self::write(&order, structure);
        }
    }

    fn show(&self, structure: &[u32]) -> String {
        Self::order(structure).iter().map(u32::to_string).collect::<Vec<_>>().join("-")
    }
}
