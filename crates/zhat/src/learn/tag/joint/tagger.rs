//! A trained joint tagger.

use super::super::{Corpus, TagSet};
use super::bound::{Bound, Certified, certify_from};
use super::decode::Sentences;
use super::objective::{Layout, field};
use super::{Field, Lexicon, Moments, Trained};
use crate::error::{Error, Result};
use crate::model::Chain;
use crate::numeric::{CompensatedSum, rounding_allowance};
use crate::run::Run;

/// A tagger that models tags and words jointly.
#[derive(Clone, Debug, PartialEq)]
pub struct JointTagger {
    pub(super) tags: TagSet,
    pub(super) lexicon: Lexicon,
    pub(super) layout: Layout,
    /// The parameters in single precision, as numbers of double precision, without dual variables.
    pub(super) point: Vec<f64>,
    /// The bound of training and its dual variables.
    pub(super) bound: Bound,
    pub(super) duals: Vec<f64>,
    pub(super) trained: Trained,
}

/// Numbers of tokens and of correct tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagScore {
    /// Tokens with a tag.
    pub tokens: usize,
    /// Tokens with the correct tag.
    pub correct: usize,
    /// Tokens whose word does not occur in the training corpus.
    pub unseen: usize,
    /// Those of them with the correct tag.
    pub unseen_correct: usize,
}

impl TagScore {
    /// The share of correct tags.
    pub fn accuracy(&self) -> f64 {
        self.correct as f64 / self.tokens.max(1) as f64
    }

    /// The share of correct tags among words that do not occur in the training corpus.
    pub fn unseen_accuracy(&self) -> f64 {
        self.unseen_correct as f64 / self.unseen.max(1) as f64
    }

    /// Counts a corpus with these tags; `known` tells whether a word occurs in the training corpus.
    pub fn of(corpus: &Corpus, tags: &TagSet, found: &[Vec<u32>], known: &dyn Fn(&str) -> bool) -> Self {
        let mut score = TagScore::default();
        for (sentence, found) in corpus.sentences().zip(found) {
            for (i, &tag) in found.iter().enumerate() {
                let Some(gold) = sentence.tag(i) else { continue };
                let (right, unseen) = (gold == tags.name(tag), !known(sentence.word(i)));
                score.tokens += 1;
                score.correct += usize::from(right);
                score.unseen += usize::from(unseen);
                score.unseen_correct += usize::from(unseen && right);
            }
        }
        score
    }
}

impl JointTagger {
    /// The tags.
    pub fn tags(&self) -> &TagSet {
        &self.tags
    }

    /// The words and features.
    pub fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    /// K.
    pub fn context(&self) -> usize {
        self.layout.context
    }

    /// The bound that was minimised in training.
    pub fn bound(&self) -> Bound {
        self.bound
    }

    /// The number of parameters.
    pub fn parameters(&self) -> usize {
        self.point.len()
    }

    /// The tables of scores of the training vocabulary.
    ///
    /// # Errors
    /// If a score is not a number.
    pub fn field(&self) -> Result<Field> {
        field(&self.layout, &self.lexicon, &self.point)
    }

    /// The best tags of every sentence of a corpus.
    ///
    /// # Errors
    /// If the memory or time budget is too small.
    pub fn tag(&self, corpus: &Corpus, run: &Run) -> Result<Vec<Vec<u32>>> {
        Sentences::new(corpus.sentences(), &self.lexicon).best(&self.layout, &self.point, run)
    }

    /// The best tags of a sentence.
    ///
    /// # Errors
    /// As [`JointTagger::tag`].
    pub fn tag_words(&self, words: &[&str], run: &Run) -> Result<Vec<&str>> {
        if words.is_empty() {
            return Ok(Vec::new());
        }
        let sentences = Sentences::of_words(std::iter::once(words.to_vec()), &self.lexicon);
        let best = sentences.best(&self.layout, &self.point, run)?;
        Ok(best.into_iter().flatten().map(|tag| self.tags.name(tag)).collect())
    }

    /// A sentence as a chain over the tags, for marginals, k best paths and samples; only for K = 1.
    ///
    /// # Errors
    /// If K is not 1 or there is no word.
    pub fn chain(&self, words: &[&str]) -> Result<Chain> {
        if self.layout.context != 1 {
            return Err(Error::argument(
                "context",
                "is 2; only a tagger with context 1 is a chain over tags",
            ));
        }
        let sentences = Sentences::of_words(std::iter::once(words.to_vec()), &self.lexicon);
        let tables = sentences.tables(&self.layout, &self.point);
        sentences.chain(0..1, &self.layout, &self.point, &tables)
    }

    /// Tags a corpus and compares.
    ///
    /// # Errors
    /// As [`JointTagger::tag`].
    pub fn evaluate(&self, corpus: &Corpus, run: &Run) -> Result<TagScore> {
        let found = self.tag(corpus, run)?;
        Ok(TagScore::of(corpus, &self.tags, &found, &|word| self.lexicon.number(word).is_some()))
    }

    /// A certified lower bound on the log-likelihood of tags and words of the training corpus, per token, by a bound
    /// whose dual variables are optimised for at most `iterations` steps.
    ///
    /// # Errors
    /// As [`super::certify`].
    pub fn likelihood(
        &self,
        moments: &Moments,
        bound: Bound,
        iterations: usize,
        run: &Run,
    ) -> Result<(f64, Certified)> {
        let field = self.field()?;
        let start =
            if bound == self.bound { self.duals.clone() } else { bound.start(&field, &moments.log_words()) };
        let certified = certify_from(&field, moments.length(), bound, start, iterations, run)?;
        let states = self.layout.tags;
        let pairs = moments.pairs.iter().zip(field.pairs());
        let pairs = pairs.flat_map(|(counts, scores)| counts.iter().copied().zip(scores.iter().copied()));
        let emissions = moments.emissions.iter().zip(field.emissions()).flat_map(|(counts, scores)| {
            let score = move |word: u32, tag: u32| scores[word as usize * states + tag as usize];
            counts.iter().map(move |&(word, tag, count)| (count, score(word, tag)))
        });
        Ok((below(pairs.chain(emissions), certified.high, moments.tokens()), certified))
    }
}

/// A lower bound on (Σ count·score − `high`) / `tokens` in exact arithmetic.
///
/// A product is wrong by at most the unit roundoff times its size, and a compensated sum by twice that of the sum and
/// a second-order term per product. The quotient is rounded down to the next number.
fn below(terms: impl Iterator<Item = (u64, f64)>, high: f64, tokens: usize) -> f64 {
    let (mut sum, mut size) = (CompensatedSum::default(), 0.0);
    for (count, score) in terms.filter(|(count, _)| *count > 0) {
        let term = count as f64 * score;
        sum.add(term);
        size += term.abs();
    }
    let low = sum.value() - high - rounding_allowance(4.0, size + high.abs());
    (low / tokens as f64).next_down()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// The bits of scores after the binary point.
    const BITS: i32 = 50;
    /// Those of the results.
    const FINE: i32 = 70;

    /// A number times a power of two, which is a whole number.
    fn scaled(x: f64, bits: i32) -> i128 {
        let scaled = x * 2f64.powi(bits);
        assert!(scaled.fract() == 0.0 && scaled.abs() < 1e37, "{x}");
        scaled as i128
    }

    #[test]
    fn the_likelihood_is_rounded_downward() {
        let mut random = Streams::new(1, "likelihood").block(0);
        let mut above = 0;
        for _ in 0..2000 {
            let unit = 2f64.powi(-BITS);
            let mut number = |size: usize| (random.below(size) as f64 - 0.5 * size as f64) * unit;
            let scores: Vec<f64> = (0..40).map(|_| number(1 << 53)).collect();
            let high = number(1 << 53) * 4096.0;
            let counts: Vec<u64> = scores.iter().map(|_| random.below(1 << 20) as u64).collect();
            let tokens = 1 + random.below(1000);
            let terms = || counts.iter().copied().zip(scores.iter().copied());
            let exact: i128 =
                terms().map(|(count, score)| i128::from(count) * scaled(score, BITS)).sum::<i128>()
                    - scaled(high, BITS);
            let exact = exact << (FINE - BITS);
            let is_above = |value: f64| scaled(value, FINE) * tokens as i128 > exact;
            let found = below(terms(), high, tokens);
            assert!(!is_above(found), "{found}");
            let plain = terms().map(|(count, score)| count as f64 * score).collect::<CompensatedSum>();
            let plain = (plain.value() - high) / tokens as f64;
            above += usize::from(is_above(plain));
            let size: f64 = terms().map(|(count, score)| count as f64 * score.abs()).sum();
            assert!(plain - found < 1e-14 * (size + high.abs() + 1.0), "{plain} {found}");
        }
        // Without the allowance, many values are too high.
        assert!(above > 200, "{above}");
        assert_eq!(below([(1, f64::NEG_INFINITY)].into_iter(), 1.0, 1), f64::NEG_INFINITY);
    }
}
