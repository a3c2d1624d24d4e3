//! The baseline of Table 2: a first-order hidden Markov model with counted probabilities.
//!
//! P(t′ | t) = α·p̂(t′ | t) + (1 − α)·p̂(t′), with α from deleted interpolation (Brants 2000, restricted to pairs): every
//! pair is removed from the counts once and votes for the estimate that then gives it the higher probability.
//! P(w | t) = count(t, w)/count(t) for words of the training corpus. Unseen words have the distribution of tags of the
//! words that occur once. Decoding is by Viterbi.

use super::super::{Corpus, Dictionary, TagSet};
use super::TagScore;
use crate::error::{Error, Result};
use crate::method::dynamic::ForwardBackward;
use crate::model::{Chain, Transitions};
use crate::query::Map;
use crate::run::Run;

/// Sentences that are decoded together.
const BATCH: usize = 64;

/// A first-order hidden Markov model with simple smoothing for rare words.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::tag::{Corpus, ReadOptions};
/// use zhat::learn::tag::joint::MarkovTagger;
/// let text = "the_DT dog_NN barks_VBZ\nthe_DT cat_NN walks_VBZ\n";
/// let corpus = Corpus::parse(text.into(), "example", &ReadOptions::default())?;
/// let tagger = MarkovTagger::train(&corpus)?;
/// assert_eq!(tagger.evaluate(&corpus, &Run::default())?.accuracy(), 1.0);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MarkovTagger {
    tags: TagSet,
    words: Dictionary,
    /// log P(t′ | t), (T + 1) × (T + 1), the boundary last.
    transitions: Vec<f64>,
    /// log P(w | t), one row per word, and a last row for unseen words.
    emissions: Vec<f64>,
}

fn log_ratio(count: f64, total: f64) -> f64 {
    if count > 0.0 { (count / total).ln() } else { f64::NEG_INFINITY }
}

impl MarkovTagger {
    /// Counts a corpus.
    ///
    /// # Errors
    /// If a token has no tag.
    pub fn train(corpus: &Corpus) -> Result<Self> {
        let tags = TagSet::of(corpus)?;
        let (count, states) = (tags.len(), tags.len() + 1);
        let mut words = Dictionary::default();
        let mut pairs = vec![0u64; states * states];
        let mut single = vec![0u64; states];
        let mut of_words: Vec<u64> = Vec::new();
        for (sentence, numbers) in corpus.sentences().zip(tags.numbers(corpus)) {
            let mut before = count;
            single[count] += 1;
            for (i, tag) in numbers.into_iter().enumerate() {
                let Some(tag) = tag else {
                    let message = format!("`{}` has no tag", sentence.word(i));
                    let source_name = corpus.source_name().to_owned();
                    return Err(Error::Parse { source_name, line: sentence.line(i), message });
                };
                let (word, tag) = (words.add(sentence.word(i)) as usize, tag as usize);
                of_words.resize(of_words.len().max((word + 1) * count), 0);
                of_words[word * count + tag] += 1;
                pairs[before * states + tag] += 1;
                single[tag] += 1;
                before = tag;
            }
            pairs[before * states + count] += 1;
        }
        let total = single.iter().sum::<u64>() as f64;
        let (mut for_pairs, mut for_single) = (0u64, 0u64);
        for (i, &pair) in pairs.iter().enumerate().filter(|(_, pair)| **pair > 0) {
            let (x, y) = (i / states, i % states);
            let with = if single[x] > 1 { (pair - 1) as f64 / (single[x] - 1) as f64 } else { 0.0 };
            let without = (single[y] - 1) as f64 / (total - 1.0).max(1.0);
            *(if with >= without { &mut for_pairs } else { &mut for_single }) += pair;
        }
        let share = for_pairs as f64 / (for_pairs + for_single).max(1) as f64;
        let transitions = (0..states * states).map(|i| {
            let (x, y) = (i / states, i % states);
            let mixed =
                share * pairs[i] as f64 / single[x].max(1) as f64 + (1.0 - share) * single[y] as f64 / total;
            log_ratio(mixed, 1.0)
        });
        let transitions = transitions.collect();
        let mut rare = vec![0.0; count];
        for word in (0..words.len()).filter(|&word| words.count(word as u32) == 1) {
            let row = &of_words[word * count..][..count];
            rare.iter_mut().zip(row).for_each(|(r, &x)| *r += x as f64);
        }
        if rare.iter().sum::<f64>() == 0.0 {
            rare.iter_mut().zip(&single).for_each(|(r, &x)| *r = x as f64);
        }
        let rows = of_words.iter().map(|&x| x as f64).chain(rare).enumerate();
        let emissions = rows.map(|(i, x)| log_ratio(x, single[i % count] as f64)).collect();
        Ok(MarkovTagger { tags, words, transitions, emissions })
    }

    /// The best tags of every sentence of a corpus.
    ///
    /// # Errors
    /// If the memory or time budget is too small.
    pub fn tag(&self, corpus: &Corpus, run: &Run) -> Result<Vec<Vec<u32>>> {
        let (count, states) = (self.tags.len(), self.tags.len() + 1);
        let start: Vec<f64> = self.transitions[count * states..][..count].to_vec();
        let inside: Vec<f64> =
            self.transitions.chunks_exact(states).take(count).flat_map(|row| row[..count].to_vec()).collect();
        let mut all = Vec::with_capacity(corpus.len());
        for first in (0..corpus.len()).step_by(BATCH) {
            let range = first..(first + BATCH).min(corpus.len());
            let lengths: Vec<usize> = range.clone().map(|i| corpus.sentence(i).len()).collect();
            let longest = lengths.iter().copied().max().unwrap_or(0);
            let mut scores = vec![0.0; lengths.len() * longest * count];
            for (i, to) in range.zip(scores.chunks_exact_mut((longest * count).max(1))) {
                let sentence = corpus.sentence(i);
                for (t, to) in to.chunks_exact_mut(count).take(sentence.len()).enumerate() {
                    let word =
                        self.words.find(sentence.word(t)).map_or(self.words.len(), |word| word as usize);
                    to.copy_from_slice(&self.emissions[word * count..][..count]);
                    if t + 1 == sentence.len() {
                        let ends = self.transitions.chunks_exact(states).map(|row| row[count]);
                        to.iter_mut().zip(ends).for_each(|(t, end)| *t += end);
                    }
                }
            }
            let transitions = Transitions::Shared(inside.clone().into());
            let chain = Chain::new(start.clone().into(), scores.into(), lengths, transitions)?;
            let paths = ForwardBackward::default().map(&chain, run)?.value;
            all.extend(paths.into_iter().map(|path| path.states.into_iter().map(|t| t as u32).collect()));
        }
        Ok(all)
    }

    /// Tags a corpus and compares.
    ///
    /// # Errors
    /// As [`MarkovTagger::tag`].
    pub fn evaluate(&self, corpus: &Corpus, run: &Run) -> Result<TagScore> {
        let found = self.tag(corpus, run)?;
        Ok(TagScore::of(corpus, &self.tags, &found, &|word| self.words.find(word).is_some()))
    }
}
