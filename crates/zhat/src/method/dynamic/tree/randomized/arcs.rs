//! The arcs that are kept: a few heads of every word.

use crate::method::dynamic::randomized::Chosen;
use crate::method::dynamic::tree::sentence::log_sum;
use crate::model::DependencyTree;
use crate::numeric::{self, Real};

/// The log scores of all heads of every word of a sentence, summed over labels.
#[derive(Clone, Debug)]
pub struct HeadScores {
    /// T.
    pub words: usize,
    /// T×(T + 1), by word and head: 0 for the root, i + 1 for word i; −∞ for the word itself.
    pub rows: Vec<f64>,
}

impl HeadScores {
    pub fn new<F: Real>(model: &DependencyTree<F>, b: usize) -> Self {
        let words = model.lengths()[b];
        let mut rows = vec![f64::NEG_INFINITY; words * (words + 1)];
        for head in 0..=words {
            for d in (0..words).filter(|&d| d + 1 != head) {
                let scores = model.arc_from(b, head, d);
                rows[d * (words + 1) + head] = match scores {
                    [single] => single.to_f64(),
                    _ => log_sum(scores.iter().map(|x| x.to_f64())),
                };
            }
        }
        HeadScores { words, rows }
    }

    /// The scores of the heads of a word.
    pub fn row(&self, d: usize) -> &[f64] {
        &self.rows[d * (self.words + 1)..(d + 1) * (self.words + 1)]
    }
}

/// A few arcs into every word of a sentence, with the logarithms of weights that make sums over them unbiased.
#[derive(Clone, Debug)]
pub struct KeptArcs {
    /// T.
    pub words: usize,
    /// The number of the first arc into each word, then the number of arcs.
    pub offsets: Vec<usize>,
    /// The head of each arc: 0 for the root, i + 1 for word i; ascending for each word.
    pub heads: Vec<u32>,
    /// The logarithm of the weight of each arc.
    pub log_weights: Vec<f64>,
}

impl KeptArcs {
    /// The chosen heads of every word.
    pub fn new(chosen: impl IntoIterator<Item = Chosen>) -> Self {
        let mut kept = KeptArcs { words: 0, offsets: vec![0], heads: Vec::new(), log_weights: Vec::new() };
        for own in chosen {
            kept.words += 1;
            kept.heads.extend(own.states);
            kept.log_weights.extend(own.log_weights);
            kept.offsets.push(kept.heads.len());
        }
        kept
    }

    /// The numbers of the arcs into a word.
    pub fn of_word(&self, d: usize) -> std::ops::Range<usize> {
        self.offsets[d]..self.offsets[d + 1]
    }

    /// Every arc: its number, head and dependent.
    pub fn list(&self) -> impl Iterator<Item = (usize, usize, usize)> + '_ {
        (0..self.words).flat_map(move |d| self.of_word(d).map(move |e| (e, self.heads[e] as usize, d)))
    }

    /// The largest logarithm of a weight.
    pub fn largest_log_weight(&self) -> f64 {
        self.log_weights.iter().copied().fold(0.0, f64::max)
    }

    /// The log weights of the arcs for the sums over trees. Those into a word sum to one, so every sum is a
    /// probability.
    pub fn normalised(&self, score: impl Fn(usize, usize, usize) -> f64) -> ArcLogs {
        let mut logs: Vec<f64> = self.list().map(|(e, head, d)| score(e, head, d)).collect();
        let mut offset = 0.0;
        for d in 0..self.words {
            let own = &mut logs[self.of_word(d)];
            let total = numeric::log_sum_exp(own);
            offset += total;
            if total > f64::NEG_INFINITY {
                own.iter_mut().for_each(|log| *log -= total);
            }
        }
        ArcLogs { logs, offset }
    }
}

/// The normalised log weights of arcs.
pub struct ArcLogs {
    pub logs: Vec<f64>,
    /// The sum of the normalisers; −∞ if a word has no head.
    pub offset: f64,
}
