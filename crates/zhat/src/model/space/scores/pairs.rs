//! Unary and pairwise scores, with an adjacency list.

use crate::error::{Error, Result};

/// Unary and pairwise scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    pub(crate) unary: Vec<f64>,
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) weights: Vec<f64>,
    starts: Vec<usize>,
    neighbours: Vec<(u32, f64)>,
}

impl Pairs {
    /// Scores from pairs (i, j, w); each pair at most once.
    pub(crate) fn new(unary: Vec<f64>, pairs: &[(usize, usize, f64)]) -> Result<Self> {
        let n = unary.len();
        let mut starts = vec![0; n + 2];
        let mut edges = Vec::with_capacity(pairs.len());
        for &(i, j, _) in pairs {
            if i >= n || j >= n || i == j {
                return Err(Error::model(format!("({i}, {j}) is no pair of two different ones of {n}")));
            }
            edges.push((i.min(j) as u32, i.max(j) as u32));
            starts[i + 2] += 1;
            starts[j + 2] += 1;
        }
        let mut sorted = edges.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::model(format!("the pair {:?} has two scores", twice[0])));
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut neighbours = vec![(0, 0.0); 2 * pairs.len()];
        for &(i, j, w) in pairs {
            for (own, other) in [(i, j), (j, i)] {
                neighbours[starts[own + 1]] = (other as u32, w);
                starts[own + 1] += 1;
            }
        }
        starts.pop();
        let weights = pairs.iter().map(|pair| pair.2).collect();
        Ok(Pairs { unary, edges, weights, starts, neighbours })
    }

    /// The unary scores.
    pub fn unary(&self) -> &[f64] {
        &self.unary
    }

    /// The pairs and their scores.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = (usize, usize, f64)> {
        self.edges.iter().zip(&self.weights).map(|(e, w)| (e.0 as usize, e.1 as usize, *w))
    }

    /// Multiplies θ by β.
    pub(crate) fn scale(&mut self, beta: f64) {
        let neighbours = self.neighbours.iter_mut().map(|neighbour| &mut neighbour.1);
        self.unary.iter_mut().chain(&mut self.weights).chain(neighbours).for_each(|x| *x *= beta);
    }

    /// The neighbours of i and the scores of the pairs.
    pub(crate) fn neighbours(&self, i: usize) -> &[(u32, f64)] {
        &self.neighbours[self.starts[i]..self.starts[i + 1]]
    }
}
