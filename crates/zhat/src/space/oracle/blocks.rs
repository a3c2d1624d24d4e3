//! Sums over all partitions of a set: with b(T) the score of T as one block,
//!
//!   P(∅) = 1,   P(S) = Σ_{T⊆S, min S∈T} exp b(T)·P(S∖T),   Z = P(all),
//!
//! in logs. Time O(3ⁿ), memory O(2ⁿ). T is a block with probability exp b(T)·P(all∖T)/Z, from which the expectations follow.

use super::layers::{Layers, elements};
use super::orders::{argmax, categorical, combine};
use super::ranked::search;
use crate::error::Result;
use crate::random::Stream;
use crate::run::Clock;
use crate::space::scores::pair_index;

/// The tables of b and P.
pub(super) struct Blocks {
    n: usize,
    scores: Vec<f64>,
    sums: Vec<f64>,
}

impl Blocks {
    /// Sums, or with `best` takes the largest. Without `all` only the sets that are met on the way from the whole one are there: those
    /// without element 0, and the whole.
    pub fn new(links: &[f64], n: usize, best: bool, all: bool, clock: &Clock<'_>) -> Result<Self> {
        let mut scores = vec![0.0; 1 << n];
        for set in 1..1usize << n {
            let low = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            scores[set] = scores[rest] + elements(rest as u64).map(|j| links[low * n + j]).sum::<f64>();
        }
        let layers = Layers::new(n);
        let mut sums = vec![0.0; 1 << n];
        for k in 1..=n {
            let mut layer = vec![0.0; layers.count(k)];
            layers.fill(k, 1, &mut layer, clock, |set, slot, scratch| {
                if all || set & 1 == 0 || k == n {
                    terms(&scores, &sums, set as usize, &mut scratch.terms);
                    slot[0] = combine(&scratch.terms, best);
                }
            })?;
            layers.sets(k).zip(&layer).for_each(|(set, value)| sums[set as usize] = *value);
            clock.progress("sets", k as u64, n as u64);
        }
        Ok(Blocks { n, scores, sums })
    }

    /// log Z, or the largest score.
    pub fn total(&self) -> f64 {
        self.sums[(1 << self.n) - 1]
    }

    /// A partition drawn, or the best one.
    pub fn partition(&self, mut random: Option<&mut Stream>, structure: &mut [u32]) {
        let mut left = (1usize << self.n) - 1;
        let mut found = Vec::new();
        let mut block = 0;
        while left != 0 {
            terms(&self.scores, &self.sums, left, &mut found);
            let chosen = match &mut random {
                Some(random) => categorical(random, &mut found),
                None => argmax(&found),
            };
            let own = block_at(left, chosen);
            elements(own as u64).for_each(|i| structure[i] = block);
            block += 1;
            left &= !own;
        }
    }

    /// The k best partitions, from the tables of the best.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
        let whole = (1usize << self.n) - 1;
        let mut found = Vec::new();
        // What is left, the block that was taken, and the score of the blocks so far.
        let paths =
            search(vec![(self.total(), (whole, 0, 0.0))], k, clock, |&(left, _, so_far), children| {
                if left == 0 {
                    return;
                }
                terms(&self.scores, &self.sums, left, &mut found);
                for (at, term) in found.iter().enumerate() {
                    let own = block_at(left, at);
                    children.push((so_far + term, (left & !own, own, so_far + self.scores[own])));
                }
            })?;
        let partition = |path: Vec<(usize, usize, f64)>| {
            let mut structure = vec![0; self.n];
            for (block, state) in path.iter().skip(1).enumerate() {
                elements(state.1 as u64).for_each(|i| structure[i] = block as u32);
            }
            structure
        };
        Ok(paths.into_iter().map(partition).collect())
    }

    /// The probability that i and j are in one block, for every pair; the tables must be of all sets.
    pub fn pairs(&self) -> Vec<f64> {
        let n = self.n;
        let mut marginals = vec![0.0; n * (n - 1) / 2];
        let whole = (1usize << n) - 1;
        for set in 1..=whole {
            let probability = (self.scores[set] + self.sums[whole & !set] - self.total()).exp();
            for i in elements(set as u64) {
                for j in elements(set as u64 & !((2 << i) - 1)) {
                    marginals[pair_index(n, i, j)] += probability;
                }
            }
        }
        marginals
    }
}

/// The terms of P(S), one for each part of what is left besides the least element, in descending order of the part.
fn terms(scores: &[f64], sums: &[f64], set: usize, terms: &mut Vec<f64>) {
    terms.clear();
    let low = set & set.wrapping_neg();
    let rest = set & !low;
    let mut part = rest;
    loop {
        terms.push(scores[part | low] + sums[rest & !part]);
        if part == 0 {
            break;
        }
        part = (part - 1) & rest;
    }
}

/// The block that a term stands for.
fn block_at(set: usize, at: usize) -> usize {
    let low = set & set.wrapping_neg();
    let rest = set & !low;
    let count = 1usize << rest.count_ones();
    // The parts in descending order count down; the ones of that number are spread over the elements.
    let number = count - 1 - at;
    let spread = elements(rest as u64).enumerate();
    spread.filter(|(bit, _)| number >> bit & 1 == 1).fold(low, |block, (_, element)| block | 1 << element)
}
