//! Counts of a text over its open vocabulary: words, pairs of words, lengths of sentences.
//!
//! A sentence of M words has K separators on either side. The sentences, concatenated cyclically, have N = Σ
//! (Mᵢ + K) positions. No pair at a distance l ≤ K spans two sentences, so the counts of parts of a text add
//! up to those of the whole.

use std::collections::HashMap;

use super::{Moments, Sparse, Vocabulary};
use crate::error::{Error, Result};

const EMPTY: u64 = u64::MAX;

/// Counts of pairs of codes: a hash table, at most half full.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PairTable {
    slots: Vec<(u64, u64)>,
    pairs: usize,
}

impl PairTable {
    /// Adds to the count of a pair.
    #[inline]
    pub fn add(&mut self, x: u32, y: u32, count: u64) {
        if 2 * self.pairs >= self.slots.len() {
            self.grow();
        }
        let key = u64::from(x) << 32 | u64::from(y);
        let mask = self.slots.len() - 1;
        let mut at = (key.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize & mask;
        loop {
            let slot = &mut self.slots[at];
            if slot.0 == key {
                slot.1 += count;
                return;
            }
            if slot.0 == EMPTY {
                *slot = (key, count);
                self.pairs += 1;
                return;
            }
            at = (at + 1) & mask;
        }
    }

    fn grow(&mut self) {
        let old = std::mem::take(&mut self.slots);
        self.slots = vec![(EMPTY, 0); (4 * old.len()).max(1024)];
        self.pairs = 0;
        for (key, count) in old {
            if key != EMPTY {
                self.add((key >> 32) as u32, key as u32, count);
            }
        }
    }

    /// The pairs with their counts, in arbitrary order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u32, u64)> + '_ {
        let taken = self.slots.iter().filter(|slot| slot.0 != EMPTY);
        taken.map(|&(key, count)| ((key >> 32) as u32, key as u32, count))
    }

    /// The memory in bytes.
    pub fn bytes(&self) -> f64 {
        16.0 * self.slots.len() as f64
    }
}

/// Counts of a text. Code 0 is the separator; word i has code i + 1.
#[derive(Clone, Debug)]
pub struct Counts {
    words: Vec<String>,
    counts: Vec<u64>,
    pairs: Vec<PairTable>,
    /// The number of sentences of each length.
    lengths: Vec<u64>,
}

impl Counts {
    pub(crate) fn new(
        words: Vec<String>,
        counts: Vec<u64>,
        pairs: Vec<PairTable>,
        lengths: Vec<u64>,
    ) -> Self {
        Counts { words, counts, pairs, lengths }
    }

    /// The largest distance K of pairs.
    pub fn context(&self) -> usize {
        self.pairs.len()
    }

    /// The number of sentences.
    pub fn sentences(&self) -> u64 {
        self.lengths.iter().sum()
    }

    /// The number of words, counted with repetition.
    pub fn tokens(&self) -> u64 {
        self.lengths.iter().zip(0..).map(|(count, length)| count * length).sum()
    }

    /// The words and how often each occurs, in arbitrary order.
    pub fn words(&self) -> impl Iterator<Item = (&str, u64)> {
        self.words.iter().map(String::as_str).zip(self.counts[1..].iter().copied())
    }

    /// Adds the counts of another text.
    ///
    /// # Errors
    /// If the two counts have different contexts.
    pub fn merge(&mut self, other: Counts) -> Result<()> {
        if other.pairs.len() != self.pairs.len() {
            return Err(Error::argument(
                "context",
                format!(
                    "counts of pairs up to {} apart do not merge with up to {}",
                    other.pairs.len(),
                    self.pairs.len()
                ),
            ));
        }
        if self.words.is_empty() {
            *self = other;
            return Ok(());
        }
        let mut codes: HashMap<&str, u32> = self.words.iter().map(String::as_str).zip(1..).collect();
        let mut map = vec![0u32];
        let mut fresh = Vec::new();
        for word in &other.words {
            let next = (self.words.len() + fresh.len() + 1) as u32;
            map.push(*codes.entry(word).or_insert_with(|| {
                fresh.push(word.clone());
                next
            }));
        }
        drop(codes);
        self.words.extend(fresh);
        self.counts.resize(self.words.len() + 1, 0);
        for (&code, count) in map.iter().zip(&other.counts) {
            self.counts[code as usize] += count;
        }
        for (own, other) in self.pairs.iter_mut().zip(&other.pairs) {
            other.iter().for_each(|(x, y, count)| own.add(map[x as usize], map[y as usize], count));
        }
        self.lengths.resize(self.lengths.len().max(other.lengths.len()), 0);
        self.lengths.iter_mut().zip(&other.lengths).for_each(|(own, count)| *own += count);
        Ok(())
    }

    /// The moments over the states of a vocabulary; words outside the vocabulary become the unknown word.
    ///
    /// # Errors
    /// If a word is outside the vocabulary and the vocabulary has no unknown word.
    pub fn moments(&self, vocabulary: &Vocabulary) -> Result<Moments> {
        let mut map = vec![0u32];
        for word in &self.words {
            map.push(vocabulary.state_or_unknown(word)?);
        }
        let mut unary = vec![0u64; vocabulary.states()];
        for (&state, count) in map.iter().zip(&self.counts) {
            unary[state as usize] += count;
        }
        unary[0] = self.sentences() * self.pairs.len() as u64;
        let pairs = self.pairs.iter().map(|table| {
            let pairs = table.iter().map(|(x, y, count)| (map[x as usize], map[y as usize], count));
            Sparse::new(vocabulary.states(), pairs.collect())
        });
        Ok(Moments::new(unary, pairs.collect(), self.lengths.clone()))
    }
}
