//! Decoding: the best tags of a sentence. The words are given, so that Σ_m U_m(tᵢ, wᵢ₊ₘ) is a score of tag i, and the tags
//! are a chain of order K: Viterbi over tags (K = 1, a [`Chain`]) or over pairs of tags (K = 2).
//!
//! Cost: T² operations per token for K = 1, T³ for K = 2.

use crate::numeric::parallel::prelude::*;

use super::super::features::BOUNDARY;
use super::super::{Dictionary, Sentence};
use super::Lexicon;
use super::lexicon::Incidence;
use super::objective::Layout;
use crate::error::Result;
use crate::method::dynamic::ForwardBackward;
use crate::model::{Chain, Transitions};
use crate::query::Map;
use crate::run::Run;

/// Sentences that are decoded together.
const BATCH: usize = 64;

/// Sentences with the features of their words.
pub(super) struct Sentences {
    /// The features of each different word, for every offset.
    features: Vec<Incidence>,
    words: usize,
    boundary: usize,
    sentences: Vec<Vec<u32>>,
}

impl Sentences {
    pub fn new<'a>(sentences: impl Iterator<Item = Sentence<'a>>, lexicon: &Lexicon) -> Self {
        let of = |sentence: Sentence<'a>| (0..sentence.len()).map(|i| sentence.word(i)).collect::<Vec<_>>();
        Sentences::of_words(sentences.map(of), lexicon)
    }

    pub fn of_words<'a>(sentences: impl Iterator<Item = Vec<&'a str>>, lexicon: &Lexicon) -> Self {
        let mut words = Dictionary::default();
        let numbers = sentences.map(|sentence| sentence.iter().map(|word| words.add(word)).collect());
        let sentences = numbers.collect();
        let boundary = words.add(BOUNDARY) as usize;
        let mut scratch = String::new();
        let mut rows: Vec<Vec<Vec<u32>>> = vec![Vec::new(); lexicon.window()];
        for word in words.names() {
            for (to, found) in rows.iter_mut().zip(lexicon.look_up(word, &mut scratch)) {
                to.push(found);
            }
        }
        let features = rows.into_iter().map(|rows| Incidence::new(rows.into_iter())).collect();
        Sentences { features, words: words.len(), boundary, sentences }
    }

    pub fn len(&self) -> usize {
        self.sentences.len()
    }

    /// U_m for the words of these sentences.
    pub fn tables(&self, layout: &Layout, point: &[f64]) -> Vec<Vec<f64>> {
        let each = self.features.iter().enumerate().map(|(m, features)| {
            let mut table = vec![0.0; self.words * layout.tags];
            features.sums(&point[layout.features[m]..layout.features[m + 1]], layout.tags, &mut table);
            table
        });
        each.collect()
    }

    /// The scores of the tags of a sentence, without that of the separator, including those of pairs with
    /// separators before and after the sentence.
    pub fn scores(&self, sentence: usize, layout: &Layout, point: &[f64], tables: &[Vec<f64>]) -> Vec<f64> {
        let states = layout.tags;
        let (tags, separator) = (states - 1, states - 1);
        let words = &self.sentences[sentence];
        let offsets = super::offsets(tables.len());
        let mut scores = vec![0.0; words.len() * tags];
        for (i, to) in scores.chunks_exact_mut(tags).enumerate() {
            for (&m, table) in offsets.iter().zip(tables) {
                let at = (i as i64 + i64::from(m)).try_into().ok().and_then(|at: usize| words.get(at));
                let word = at.map_or(self.boundary, |&word| word as usize);
                to.iter_mut().zip(&table[word * states..]).for_each(|(t, u)| *t += u);
            }
            for k in 0..layout.context {
                let pairs = &point[k * states * states..(k + 1) * states * states];
                if i <= k {
                    to.iter_mut().zip(&pairs[separator * states..]).for_each(|(t, v)| *t += v);
                }
                if i + k + 1 >= words.len() {
                    to.iter_mut().enumerate().for_each(|(x, t)| *t += pairs[x * states + separator]);
                }
            }
        }
        scores
    }

    /// V_k without the separator.
    fn transitions(layout: &Layout, point: &[f64], k: usize) -> Vec<f64> {
        let (states, tags) = (layout.tags, layout.tags - 1);
        let pairs = &point[k * states * states..(k + 1) * states * states];
        pairs.chunks_exact(states).take(tags).flat_map(|row| row[..tags].iter().copied()).collect()
    }

    /// Chains of some sentences, for K = 1.
    pub fn chain(
        &self,
        range: std::ops::Range<usize>,
        layout: &Layout,
        point: &[f64],
        tables: &[Vec<f64>],
    ) -> Result<Chain> {
        let tags = layout.tags - 1;
        let lengths: Vec<usize> = range.clone().map(|i| self.sentences[i].len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let mut emissions = vec![0.0; lengths.len() * longest * tags];
        for (sentence, to) in range.zip(emissions.chunks_exact_mut((longest * tags).max(1))) {
            let scores = self.scores(sentence, layout, point, tables);
            to[..scores.len()].copy_from_slice(&scores);
        }
        let transitions = Transitions::Shared(Self::transitions(layout, point, 0).into());
        Chain::crf(tags, emissions.into(), lengths, transitions)
    }

    /// The best tags of all sentences.
    pub fn best(&self, layout: &Layout, point: &[f64], run: &Run) -> Result<Vec<Vec<u32>>> {
        let tables = self.tables(layout, point);
        let tags = layout.tags - 1;
        if layout.context == 1 {
            let mut all = Vec::with_capacity(self.len());
            for first in (0..self.len()).step_by(BATCH) {
                let chain = self.chain(first..(first + BATCH).min(self.len()), layout, point, &tables)?;
                let paths = ForwardBackward::default().map(&chain, run)?.value;
                all.extend(paths.into_iter().map(|path| path.states.into_iter().map(|t| t as u32).collect()));
            }
            return Ok(all);
        }
        let (near, far) = (Self::transitions(layout, point, 0), Self::transitions(layout, point, 1));
        let one = |i: usize| second_order(&self.scores(i, layout, point, &tables), &near, &far, tags);
        Ok((0..self.len()).into_par_iter().map(one).collect())
    }
}

/// The best path of a chain of order 2; ties go to the smaller tag.
fn second_order(scores: &[f64], near: &[f64], far: &[f64], tags: usize) -> Vec<u32> {
    let length = scores.len() / tags;
    if length == 0 {
        return Vec::new();
    }
    let best_of = |values: &mut dyn Iterator<Item = f64>| {
        values.enumerate().fold((0, f64::NEG_INFINITY), |best, (i, x)| if x > best.1 { (i, x) } else { best })
    };
    if length == 1 {
        return vec![best_of(&mut scores.iter().copied()).0 as u32];
    }
    // best[a·T + b]: the best score of a prefix that ends with a, b.
    let mut best: Vec<f64> =
        (0..tags * tags).map(|i| scores[i / tags] + near[i] + scores[tags + i % tags]).collect();
    let mut back = Vec::with_capacity(length - 2);
    for own in scores[2 * tags..].chunks_exact(tags) {
        let mut next = vec![f64::NEG_INFINITY; tags * tags];
        let mut from = vec![0u32; tags * tags];
        for a in 0..tags {
            for b in 0..tags {
                let before = best[a * tags + b];
                for c in 0..tags {
                    let score = before + far[a * tags + c];
                    if score > next[b * tags + c] {
                        (next[b * tags + c], from[b * tags + c]) = (score, a as u32);
                    }
                }
            }
        }
        next.iter_mut().enumerate().for_each(|(i, x)| *x += near[i] + own[i % tags]);
        best = next;
        back.push(from);
    }
    let mut at = best_of(&mut best.iter().copied()).0;
    let mut path = vec![(at % tags) as u32, (at / tags) as u32];
    for from in back.iter().rev() {
        let a = from[at] as usize;
        path.push(a as u32);
        at = a * tags + at / tags;
    }
    path.reverse();
    path
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn the_best_path_of_order_two_is_that_of_enumeration() {
        let mut random = Streams::new(3, "decode tests").block(0);
        for length in 1..6 {
            for tags in 1..4usize {
                let mut draw = |size: usize| (0..size).map(|_| random.normal()).collect::<Vec<f64>>();
                let (scores, near, far) = (draw(length * tags), draw(tags * tags), draw(tags * tags));
                let score = |path: &[u32]| {
                    let at = |i: usize| path[i] as usize;
                    let own: f64 = (0..length).map(|i| scores[i * tags + at(i)]).sum();
                    let first: f64 = (1..length).map(|i| near[at(i - 1) * tags + at(i)]).sum();
                    own + first + (2..length).map(|i| far[at(i - 2) * tags + at(i)]).sum::<f64>()
                };
                let found = second_order(&scores, &near, &far, tags);
                let all = (0..tags.pow(length as u32)).map(|code| {
                    let path: Vec<u32> =
                        (0..length).map(|i| (code / tags.pow(i as u32) % tags) as u32).collect();
                    score(&path)
                });
                let most = all.fold(f64::NEG_INFINITY, f64::max);
                assert!((score(&found) - most).abs() < 1e-12, "{length} {tags}");
            }
        }
        assert!(second_order(&[], &[0.0], &[0.0], 1).is_empty());
    }
}
