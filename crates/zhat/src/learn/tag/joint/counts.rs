//! Sufficient statistics of a tagged corpus under a joint model: counts of pairs of tags at every distance and of tags
//! with words at every offset.
//!
//! The corpus is one cycle. Before every sentence stand max(K, ⌊L/2⌋) separators, with a tag and a word of their own, so
//! that nothing in one sentence interacts with another. Time and memory: linear in the corpus, once.

use super::super::{Corpus, TagSet};
use super::Lexicon;
use crate::error::{Error, Result};

/// Counts of a tagged corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Tags, with that of the separator, which is the last.
    tags: usize,
    /// N.
    length: usize,
    tokens: usize,
    /// For each distance, T × T.
    pub(super) pairs: Vec<Vec<u64>>,
    /// For each offset, (word, tag, count) in increasing order.
    pub(super) emissions: Vec<Vec<(u32, u32, u64)>>,
    /// How often each word occurs.
    pub(super) words: Vec<u64>,
}

impl Moments {
    /// Counts a corpus, all of whose words are in the lexicon.
    ///
    /// # Errors
    /// If a token has no tag, or a tag or word that is not in the sets.
    pub fn of(corpus: &Corpus, tags: &TagSet, lexicon: &Lexicon, context: usize) -> Result<Self> {
        let separator = tags.len() as u32;
        let gap = context.max(lexicon.window() / 2);
        let (mut of_tags, mut of_words) = (Vec::new(), Vec::new());
        for sentence in corpus.sentences() {
            of_tags.extend(std::iter::repeat_n(separator, gap));
            of_words.extend(std::iter::repeat_n(0, gap));
            for i in 0..sentence.len() {
                let fail = |message: String| Error::Parse {
                    source_name: corpus.source_name().into(),
                    line: sentence.line(i),
                    message,
                };
                let word = sentence.word(i);
                let tag = sentence.tag(i).ok_or_else(|| fail(format!("`{word}` has no tag")))?;
                of_tags.push(
                    tags.number(tag).ok_or_else(|| fail(format!("the tag `{tag}` is not in the tag set")))?,
                );
                of_words.push(
                    lexicon.number(word).ok_or_else(|| fail(format!("`{word}` is not in the lexicon")))?,
                );
            }
        }
        Ok(Moments::of_cycle(&of_tags, &of_words, tags.len() + 1, lexicon, context, corpus.tokens()))
    }

    fn of_cycle(
        tags: &[u32],
        words: &[u32],
        states: usize,
        lexicon: &Lexicon,
        context: usize,
        tokens: usize,
    ) -> Self {
        let n = tags.len();
        let pairs = (1..=context).map(|k| {
            let mut table = vec![0; states * states];
            (0..n).for_each(|i| table[tags[i] as usize * states + tags[(i + k) % n] as usize] += 1);
            table
        });
        let emissions = lexicon.offsets().iter().map(|&m| {
            let at = |i: usize| (i as i64 + i64::from(m)).rem_euclid(n as i64) as usize;
            let mut all: Vec<(u32, u32)> = (0..n).map(|i| (words[at(i)], tags[i])).collect();
            all.sort_unstable();
            all.chunk_by(|a, b| a == b).map(|same| (same[0].0, same[0].1, same.len() as u64)).collect()
        });
        let mut counts = vec![0; lexicon.len()];
        words.iter().for_each(|&w| counts[w as usize] += 1);
        Moments {
            tags: states,
            length: n,
            tokens,
            pairs: pairs.collect(),
            emissions: emissions.collect(),
            words: counts,
        }
    }

    /// N, the number of positions with separators.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The number of words, without separators.
    pub fn tokens(&self) -> usize {
        self.tokens
    }

    /// The number of tags, with that of the separator.
    pub fn tags(&self) -> usize {
        self.tags
    }

    /// K.
    pub fn context(&self) -> usize {
        self.pairs.len()
    }

    /// The number of different counts, on which the cost of training depends.
    pub fn distinct(&self) -> usize {
        self.pairs.iter().map(Vec::len).sum::<usize>() + self.emissions.iter().map(Vec::len).sum::<usize>()
    }

    /// The relative frequency of pairs of tags.
    pub(super) fn pair_shares(&self, k: usize) -> Vec<f64> {
        self.pairs[k].iter().map(|&count| count as f64 / self.length as f64).collect()
    }

    /// log p̂(w).
    pub(super) fn log_words(&self) -> Vec<f64> {
        self.words.iter().map(|&count| (count.max(1) as f64 / self.length as f64).ln()).collect()
    }
}
