//! The stages of Algorithm 2 as counting problems: the b-th surjection, the a-th combination, and the
//! distribution of the number of distinct cliques.
//!
//! Stirling numbers of the second kind count partitions: S(i, l) = l·S(i−1, l) + S(i−1, l−1). A tuple of i
//! cliques with l distinct ones is an l-subset of all |C| cliques and a surjection of the i places onto it,
//! l!·S(i, l) of them; so P(l | i) = S(i, l)·C(|C|, l)·l! / |C|^i, and Σ_l S(i, l)·C(|C|, l)·l! = |C|^i
//! (Theorem 3). Counts are 128-bit integers. If they overflow, use the direct sampler.
//!
//! Reference: B. Buckles, M. Lybanon, *Algorithm 515: generation of a vector from the lexicographical index*,
//! ACM TOMS 3 (1977).

use crate::random::Stream;

/// Stirling numbers and factorials up to a given length that fit into 128 bits.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    stirling: Vec<Vec<u128>>,
    factorials: Vec<u128>,
}

impl Counts {
    /// For tuples of up to `length` cliques; `None` if a count does not fit into 128 bits.
    pub fn new(length: usize) -> Option<Self> {
        let mut stirling: Vec<Vec<u128>> = vec![vec![1]];
        let mut factorials = vec![1u128];
        for i in 1..=length {
            let before = &stirling[i - 1];
            let at = |l: usize| before.get(l).copied().unwrap_or(0);
            let mut row = vec![0u128];
            for l in 1..=i {
                row.push((l as u128).checked_mul(at(l))?.checked_add(at(l - 1))?);
            }
            stirling.push(row);
            factorials.push(factorials[i - 1].checked_mul(i as u128)?);
        }
        Some(Counts { stirling, factorials })
    }

    pub fn stirling(&self, i: usize, l: usize) -> u128 {
        self.stirling[i].get(l).copied().unwrap_or(0)
    }

    pub fn factorial(&self, l: usize) -> u128 {
        self.factorials[l]
    }

    /// The `rank`-th surjection of `places.len()` places onto `blocks` blocks: first a partition of the
    /// places, then a permutation of the blocks.
    pub fn surjection(&self, rank: u128, blocks: usize, places: &mut [usize], names: &mut Vec<usize>) {
        let permutations = self.factorial(blocks);
        self.partition(rank / permutations, blocks, places);
        permutation(rank % permutations, blocks, self, names);
        places.iter_mut().for_each(|block| *block = names[*block]);
    }

    /// The `rank`-th partition of the places into `blocks` blocks, by the recurrence: the last place joins a
    /// block of the others or forms its own.
    fn partition(&self, mut rank: u128, blocks: usize, places: &mut [usize]) {
        let mut l = blocks;
        for i in (1..=places.len()).rev() {
            let shared = if l < i { self.stirling(i - 1, l) } else { 0 };
            if rank < l as u128 * shared {
                places[i - 1] = (rank / shared) as usize;
                rank %= shared;
            } else {
                rank -= l as u128 * shared;
                l -= 1;
                places[i - 1] = l;
            }
        }
    }
}

/// The `rank`-th permutation of 0 … n−1 in lexicographical order.
fn permutation(mut rank: u128, n: usize, counts: &Counts, names: &mut Vec<usize>) {
    names.clear();
    names.extend(0..n);
    for i in 0..n {
        let each = counts.factorial(n - 1 - i);
        let chosen = i + (rank / each) as usize;
        rank %= each;
        names[i..=chosen].rotate_right(1);
    }
}

/// C(n, l); `None` if multiplying it by n could overflow 128 bits.
pub(super) fn binomial(n: usize, l: usize) -> Option<u128> {
    if l > n {
        return Some(0);
    }
    let mut product = 1u128;
    for i in 0..l.min(n - l) {
        product = product.checked_mul((n - i) as u128)? / (i as u128 + 1);
    }
    product.checked_mul(n as u128).map(|_| product)
}

/// The `rank`-th subset of `chosen.len()` numbers below n, in lexicographical order.
pub(super) fn combination(mut rank: u128, n: usize, chosen: &mut [usize]) {
    let Some(mut left) = chosen.len().checked_sub(1) else { return };
    // The number of subsets that begin with the current number: C(n − 1 − number, left).
    let mut others = n - 1;
    let mut begin = binomial(others, left).unwrap_or(0);
    let (mut number, mut place) = (0, 0);
    loop {
        if rank < begin {
            chosen[place] = number;
            place += 1;
            if left == 0 {
                return;
            }
            begin = begin * left as u128 / others as u128;
            left -= 1;
        } else {
            rank -= begin;
            begin = begin * (others - left) as u128 / others as u128;
        }
        number += 1;
        others -= 1;
    }
}

/// Uniform on {0, …, n−1}.
pub(super) fn below(n: u128, random: &mut Stream) -> u128 {
    if n <= u128::from(u64::MAX >> 1) {
        return random.below(n as usize) as u128;
    }
    let mask = u128::MAX >> (n - 1).leading_zeros();
    loop {
        let draw = (u128::from(random.bits()) << 64 | u128::from(random.bits())) & mask;
        if draw < n {
            return draw;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_combination_comes_once_and_in_order() {
        for n in 1..8 {
            for l in 0..=n {
                let count = binomial(n, l).unwrap();
                let mut before: Option<Vec<usize>> = None;
                for rank in 0..count {
                    let mut chosen = vec![0; l];
                    combination(rank, n, &mut chosen);
                    assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]) && chosen.iter().all(|&c| c < n));
                    assert!(before.is_none_or(|before| before < chosen));
                    before = Some(chosen);
                }
            }
        }
    }

    #[test]
    fn every_surjection_comes_once() {
        let counts = Counts::new(6).unwrap();
        for i in 1..=6 {
            for l in 1..=i {
                let count = counts.stirling(i, l) * counts.factorial(l);
                let (mut places, mut names) = (vec![0; i], Vec::new());
                let mut seen = BTreeSet::new();
                for rank in 0..count {
                    counts.surjection(rank, l, &mut places, &mut names);
                    assert_eq!(places.iter().collect::<BTreeSet<_>>().len(), l);
                    seen.insert(places.clone());
                }
                assert_eq!(seen.len() as u128, count);
            }
        }
    }

    #[test]
    fn counts_that_do_not_fit_are_noticed() {
        assert!(Counts::new(60).is_none());
        assert!(binomial(1_000_000, 12).is_none());
        assert_eq!(binomial(24, 3), Some(2024));
        assert!(below(u128::MAX, &mut crate::random::Streams::new(1, "below").block(0)) > 1 << 64);
    }
}
