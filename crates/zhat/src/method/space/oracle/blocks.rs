//! Sums over all partitions of a set: with b(T) the score of T as one block,
//!
//!   P(∅) = 1,   P(S) = Σ_{T⊆S, min S∈T} exp b(T)·P(S∖T),   Z = P(all),
//!
//! computed in logarithms. Time O(3ⁿ), memory O(2ⁿ). T is a block with probability exp b(T)·P(all∖T)/Z, which
//! gives the expectations. Pairs that must or must not share a block exclude sets as blocks. With a condition
//! on the number of blocks, there is one P for each number up to the maximum, which multiplies time and
//! memory.

use super::conditions::Rules;
use super::layers::{Layers, elements};
use super::orders::{argmax, categorical, combine};
use super::ranked::search;
use crate::error::Result;
use crate::method::space::scores::pair_index;
use crate::random::Stream;
use crate::run::Clock;

/// Sets between two checks of the clock.
const ROUND: usize = 1 << 12;

/// The tables of b and P.
pub(super) struct Blocks {
    n: usize,
    scores: Vec<f64>,
    sums: Sums,
    /// The minimum and maximum number of blocks; both 0 if blocks are not counted.
    sizes: (usize, usize),
    total: f64,
}

/// P of each set and number of blocks; if blocks are not counted, P for any number is stored at 0.
struct Sums {
    values: Vec<f64>,
    levels: usize,
}

impl Sums {
    fn at(&self, set: usize, blocks: usize) -> f64 {
        self.values[set * self.levels + blocks]
    }

    /// The number of blocks that remain after one is removed.
    fn without_one(&self, blocks: usize) -> usize {
        if self.levels > 1 { blocks - 1 } else { 0 }
    }
}

/// The number of table entries per set.
pub(super) fn levels(rules: &Rules) -> usize {
    rules.sizes.map_or(1, |(_, most)| most + 1)
}

impl Blocks {
    /// Computes sums, or with `best` maxima. Without `all`, only the sets that are reached from the whole set
    /// are filled: those without element 0, and the whole set.
    pub fn new(
        links: &[f64],
        n: usize,
        rules: &Rules,
        best: bool,
        all: bool,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let mut scores = vec![0.0; 1 << n];
        for set in 1..1usize << n {
            if set.is_multiple_of(ROUND) {
                clock.check()?;
            }
            let low = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            scores[set] = scores[rest] + elements(rest as u64).map(|j| links[low * n + j]).sum::<f64>();
        }
        for (set, score) in scores.iter_mut().enumerate().filter(|(set, _)| !rules.allow(*set as u64)) {
            debug_assert!(set > 0);
            *score = f64::NEG_INFINITY;
        }
        let layers = Layers::new(n);
        let levels = levels(rules);
        let mut sums = Sums { values: vec![f64::NEG_INFINITY; levels << n], levels };
        sums.values[0] = 0.0;
        for k in 1..=n {
            let mut layer = vec![f64::NEG_INFINITY; layers.count(k) * levels];
            layers.fill(k, levels, &mut layer, clock, |set, slot, scratch| {
                if all || set & 1 == 0 || k == n {
                    // At least one block, and no more blocks than elements.
                    let fewest = usize::from(levels > 1);
                    for (blocks, sum) in slot.iter_mut().enumerate().take(k + 1).skip(fewest) {
                        terms(&scores, &sums, set as usize, blocks, &mut scratch.terms);
                        *sum = combine(&scratch.terms, best);
                    }
                }
            })?;
            for (set, row) in layers.sets(k).zip(layer.chunks(levels)) {
                sums.values[set as usize * levels..][..levels].copy_from_slice(row);
            }
            clock.progress("sets", k as u64, n as u64);
        }
        let sizes = rules.sizes.unwrap_or((0, 0));
        let ends: Vec<f64> = (sizes.0..=sizes.1).map(|blocks| sums.at((1 << n) - 1, blocks)).collect();
        let total = combine(&ends, best);
        Ok(Blocks { n, scores, sums, sizes, total })
    }

    /// log Z, or the largest score.
    pub fn total(&self) -> f64 {
        self.total
    }

    /// A random partition, or the best one.
    pub fn partition(&self, mut random: Option<&mut Stream>, structure: &mut [u32]) {
        let mut left = (1usize << self.n) - 1;
        let mut found: Vec<f64> =
            (self.sizes.0..=self.sizes.1).map(|blocks| self.sums.at(left, blocks)).collect();
        let mut pick = |found: &mut Vec<f64>| match &mut random {
            Some(random) => categorical(random, found),
            None => argmax(found),
        };
        let mut blocks = self.sizes.0;
        if found.len() > 1 {
            blocks += pick(&mut found);
        }
        let mut block = 0;
        while left != 0 {
            terms(&self.scores, &self.sums, left, blocks, &mut found);
            let own = block_at(left, pick(&mut found));
            elements(own as u64).for_each(|i| structure[i] = block);
            block += 1;
            left &= !own;
            blocks = self.sums.without_one(blocks);
        }
    }

    /// The k best partitions, from the tables of maxima.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
        let whole = (1usize << self.n) - 1;
        let mut found = Vec::new();
        // The remaining set and its number of blocks, the block that was removed, and the score of the blocks
        // so far.
        let root = |blocks: usize| (self.sums.at(whole, blocks), ((whole, blocks), 0, 0.0));
        let roots = (self.sizes.0..=self.sizes.1).map(root).collect();
        let paths = search(roots, k, clock, |&((left, blocks), _, so_far), children| {
            if left == 0 {
                return;
            }
            terms(&self.scores, &self.sums, left, blocks, &mut found);
            let rest = self.sums.without_one(blocks);
            for (at, term) in found.iter().enumerate() {
                let own = block_at(left, at);
                children.push((so_far + term, ((left & !own, rest), own, so_far + self.scores[own])));
            }
        })?;
        let partition = |path: Vec<((usize, usize), usize, f64)>| {
            let mut structure = vec![0; self.n];
            for (block, state) in path.iter().skip(1).enumerate() {
                elements(state.1 as u64).for_each(|i| structure[i] = block as u32);
            }
            structure
        };
        Ok(paths.into_iter().map(partition).collect())
    }

    /// The probability that i and j are in the same block, for each pair. The tables must contain all sets.
    pub fn pairs(&self, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let n = self.n;
        let mut marginals = vec![0.0; n * (n - 1) / 2];
        let whole = (1usize << n) - 1;
        let mut ends = Vec::new();
        for set in 1..=whole {
            if set.is_multiple_of(ROUND) {
                clock.check()?;
            }
            ends.clear();
            // At least the block itself.
            let counted = self.sums.levels > 1;
            let fewest = if counted { self.sizes.0.max(1) } else { 0 };
            ends.extend(
                (fewest..=self.sizes.1).map(|b| self.sums.at(whole & !set, self.sums.without_one(b))),
            );
            let rest = combine(&ends, false);
            let probability = (self.scores[set] + rest - self.total()).exp();
            if probability == 0.0 {
                continue;
            }
            for i in elements(set as u64) {
                for j in elements(set as u64 & !((2 << i) - 1)) {
                    marginals[pair_index(n, i, j)] += probability;
                }
            }
        }
        Ok(marginals)
    }
}

/// The terms of P(S), one for each subset of S without its smallest element, in descending order of the
/// subset.
fn terms(scores: &[f64], sums: &Sums, set: usize, blocks: usize, terms: &mut Vec<f64>) {
    terms.clear();
    let low = set & set.wrapping_neg();
    let rest = set & !low;
    let blocks = sums.without_one(blocks);
    let mut part = rest;
    loop {
        terms.push(scores[part | low] + sums.at(rest & !part, blocks));
        if part == 0 {
            break;
        }
        part = (part - 1) & rest;
    }
}

/// The block of a term.
fn block_at(set: usize, at: usize) -> usize {
    let low = set & set.wrapping_neg();
    let rest = set & !low;
    let count = 1usize << rest.count_ones();
    // Subsets in descending order correspond to numbers counting down. The bits of the number select the
    // elements.
    let number = count - 1 - at;
    let spread = elements(rest as u64).enumerate();
    spread.filter(|(bit, _)| number >> bit & 1 == 1).fold(low, |block, (_, element)| block | 1 << element)
}
