//! Sufficient statistics of a text: counts of states, of pairs at each distance, and of sentence lengths.

use serde::{Deserialize, Serialize};

/// A sparse matrix of counts, by rows, with sorted columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sparse {
    starts: Vec<usize>,
    columns: Vec<u32>,
    counts: Vec<u64>,
}

impl Sparse {
    /// A matrix from entries in any order; entries at the same position are summed.
    pub(crate) fn new(rows: usize, mut entries: Vec<(u32, u32, u64)>) -> Self {
        entries.sort_unstable();
        let mut sparse =
            Sparse { starts: Vec::with_capacity(rows + 1), columns: Vec::new(), counts: Vec::new() };
        let mut entries = entries.into_iter().peekable();
        for row in 0..rows as u32 {
            sparse.starts.push(sparse.columns.len());
            let mut last = None;
            while let Some((_, column, count)) = entries.next_if(|entry| entry.0 == row) {
                if last == Some(column) {
                    if let Some(total) = sparse.counts.last_mut() {
                        *total += count;
                    }
                } else {
                    sparse.columns.push(column);
                    sparse.counts.push(count);
                    last = Some(column);
                }
            }
        }
        sparse.starts.push(sparse.columns.len());
        sparse
    }

    /// The columns of a row and their counts.
    pub fn row(&self, row: usize) -> impl Iterator<Item = (usize, u64)> + '_ {
        let range = self.starts[row]..self.starts[row + 1];
        self.columns[range.clone()].iter().map(|&y| y as usize).zip(self.counts[range].iter().copied())
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    /// The number of distinct pairs.
    pub fn pairs(&self) -> usize {
        self.columns.len()
    }

    /// The transposed matrix.
    pub fn transposed(&self) -> Self {
        let entries =
            (0..self.rows()).flat_map(|x| self.row(x).map(move |(y, count)| (y as u32, x as u32, count)));
        Sparse::new(self.rows(), entries.collect())
    }
}

/// The sufficient statistics of a text under an order-K model, with the separator as state 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    unary: Vec<u64>,
    pairs: Vec<Sparse>,
    lengths: Vec<u64>,
}

impl Moments {
    pub(crate) fn new(unary: Vec<u64>, pairs: Vec<Sparse>, lengths: Vec<u64>) -> Self {
        Moments { unary, pairs, lengths }
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.unary.len()
    }

    /// The largest distance K.
    pub fn context(&self) -> usize {
        self.pairs.len()
    }

    /// How often each state occurs.
    pub fn unary(&self) -> &[u64] {
        &self.unary
    }

    /// The pairs at distances 1, …, K.
    pub fn pairs(&self) -> &[Sparse] {
        &self.pairs
    }

    /// N, the number of positions, including separators.
    pub fn positions(&self) -> u64 {
        self.unary.iter().sum()
    }

    /// The number of words, without separators.
    pub fn tokens(&self) -> u64 {
        self.unary[1..].iter().sum()
    }

    /// The number of sentences.
    pub fn sentences(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// The distribution of sentence lengths.
    pub fn lengths(&self) -> Lengths {
        Lengths { counts: self.lengths.clone() }
    }
}

/// τ(M), the empirical distribution of sentence lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lengths {
    counts: Vec<u64>,
}

impl Lengths {
    /// A distribution from the number of sentences of each length.
    pub fn new(counts: Vec<u64>) -> Self {
        Lengths { counts }
    }

    /// The number of sentences of each length.
    pub fn counts(&self) -> &[u64] {
        &self.counts
    }

    /// log τ(M).
    pub fn log_probability(&self, length: usize) -> f64 {
        let total: u64 = self.counts.iter().sum();
        let count = self.counts.get(length).copied().unwrap_or(0);
        if count == 0 { f64::NEG_INFINITY } else { (count as f64 / total as f64).ln() }
    }

    /// The length at a quantile in [0, 1); a uniform number gives a sample.
    pub fn quantile(&self, uniform: f64) -> usize {
        let total: u64 = self.counts.iter().sum();
        let mut left = uniform * total as f64;
        for (length, &count) in self.counts.iter().enumerate() {
            left -= count as f64;
            if left < 0.0 {
                return length;
            }
        }
        self.counts.iter().rposition(|&count| count > 0).unwrap_or(0)
    }
}
