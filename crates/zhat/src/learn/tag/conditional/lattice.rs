//! One sentence in the log domain: scores of tags and transitions of the first or second order, with tags that
//! are known and transitions that are forbidden.
//!
//! A node at position t ≥ 1 of the second order is a pair of tags (yₜ₋₁, yₜ); otherwise it is a tag. The sums run
//! over N nodes and N² edges per position, or N² and N³. It is exact for all finite scores and −∞, and slower than
//! [`super::sweep`], which it replaces where that is out of range.

use crate::error::{Error, Result};
use crate::numeric::log_sum_exp;

/// The scores of one sentence. Rows are `width` long.
pub(crate) struct Lattice<'a> {
    pub length: usize,
    pub tags: usize,
    pub width: usize,
    /// Scores of tags, length × width.
    pub scores: &'a [f64],
    /// Scores of pairs, tags × width.
    pub pairs: &'a [f64],
    /// Scores of triples, tags² × width; empty for the first order.
    pub triples: &'a [f64],
}

/// The sums of a sentence.
pub(crate) struct Sums {
    pub log_z: f64,
    /// p(yₜ), length × width.
    pub marginals: Vec<f64>,
    /// Σₜ p(yₜ₋₁, yₜ), tags × width.
    pub pairs: Vec<f64>,
    /// Σₜ p(yₜ₋₂, yₜ₋₁, yₜ), tags² × width; empty for the first order.
    pub triples: Vec<f64>,
}

impl Lattice<'_> {
    fn second(&self) -> bool {
        !self.triples.is_empty()
    }

    /// The number of nodes at a position.
    fn nodes(&self, t: usize) -> usize {
        if self.second() && t > 0 { self.tags * self.tags } else { self.tags }
    }

    fn tag(&self, node: usize) -> usize {
        node % self.tags
    }

    /// The nodes before a node at position t ≥ 1, and the scores of the edges to it.
    fn edges(&self, t: usize, node: usize) -> impl Iterator<Item = (usize, f64)> {
        let (n, width) = (self.tags, self.width);
        let tag = self.tag(node);
        let own = self.scores[t * width + tag];
        let second = self.second();
        // A node of a pair has the edges from all pairs that end with its first tag.
        let (count, middle) = if second && t > 1 {
            (n, node / n)
        } else if second {
            (1, node / n)
        } else {
            (n, 0)
        };
        (0..count).map(move |k| {
            let (before, last) = match (second, t > 1) {
                (true, true) => (k * n + middle, middle),
                (true, false) => (middle, middle),
                (false, _) => (k, k),
            };
            let mut score = own + self.pairs[last * width + tag];
            if second && t > 1 {
                score += self.triples[before * width + tag];
            }
            (before, score)
        })
    }

    /// The score of a sequence of tags.
    pub fn score(&self, tags: &[u16]) -> f64 {
        let (n, width) = (self.tags, self.width);
        let mut sum = 0.0;
        for (t, &tag) in tags.iter().enumerate() {
            let tag = usize::from(tag);
            sum += self.scores[t * width + tag];
            if t > 0 {
                sum += self.pairs[usize::from(tags[t - 1]) * width + tag];
            }
            if t > 1 && self.second() {
                let before = usize::from(tags[t - 2]) * n + usize::from(tags[t - 1]);
                sum += self.triples[before * width + tag];
            }
        }
        sum
    }

    fn forward(&self) -> Vec<Vec<f64>> {
        let mut all: Vec<Vec<f64>> = vec![self.scores[..self.tags].to_vec()];
        let mut terms = Vec::new();
        for t in 1..self.length {
            let before = &all[t - 1];
            let now = (0..self.nodes(t)).map(|node| {
                terms.clear();
                terms.extend(self.edges(t, node).map(|(from, score)| before[from] + score));
                log_sum_exp(&terms)
            });
            let now = now.collect();
            all.push(now);
        }
        all
    }

    /// log Z, marginals and expected transitions; `None` if every sequence is impossible.
    pub fn sums(&self) -> Option<Sums> {
        let (n, width) = (self.tags, self.width);
        let alpha = self.forward();
        let log_z = alpha.last().map_or(0.0, |last| log_sum_exp(last));
        if log_z == f64::NEG_INFINITY {
            return None;
        }
        let mut sums = Sums {
            log_z,
            marginals: vec![0.0; self.length * width],
            pairs: vec![0.0; n * width],
            triples: vec![0.0; self.triples.len()],
        };
        let mut beta = vec![0.0; self.nodes(self.length - 1)];
        for t in (0..self.length).rev() {
            for (node, (a, b)) in alpha[t].iter().zip(&beta).enumerate() {
                sums.marginals[t * width + self.tag(node)] += (a + b - log_z).exp();
            }
            if t == 0 {
                break;
            }
            let mut terms: Vec<Vec<f64>> = vec![Vec::new(); self.nodes(t - 1)];
            for (node, &after) in beta.iter().enumerate() {
                let tag = self.tag(node);
                for (from, score) in self.edges(t, node) {
                    terms[from].push(score + after);
                    let p = (alpha[t - 1][from] + score + after - log_z).exp();
                    sums.pairs[self.tag(from) * width + tag] += p;
                    if t > 1 && self.second() {
                        sums.triples[from * width + tag] += p;
                    }
                }
            }
            beta = terms.iter().map(|terms| log_sum_exp(terms)).collect();
        }
        Some(sums)
    }

    /// The k best sequences of finite score, best first; equal scores in the order of their tags from the end.
    ///
    /// # Errors
    /// If every sequence is impossible.
    pub fn best(&self, k: usize) -> Result<Vec<(f64, Vec<u16>)>> {
        // Of every node the best ways to it: score, node before, rank there.
        let start = self.scores[..self.tags].iter();
        let mut all: Vec<Vec<Vec<(f64, u32, u32)>>> = vec![
            start
                .map(|&score| if score > f64::NEG_INFINITY { vec![(score, 0, 0)] } else { Vec::new() })
                .collect(),
        ];
        for t in 1..self.length {
            let before = &all[t - 1];
            let ways = |node| {
                let mut found = Vec::new();
                for (from, score) in self.edges(t, node) {
                    for (rank, way) in before[from].iter().enumerate() {
                        if way.0 + score > f64::NEG_INFINITY {
                            found.push((way.0 + score, from as u32, rank as u32));
                        }
                    }
                }
                keep(&mut found, k);
                found
            };
            let now = (0..self.nodes(t)).map(ways).collect();
            all.push(now);
        }
        let mut ends = Vec::new();
        for (node, ways) in all.last().into_iter().flatten().enumerate() {
            ends.extend(ways.iter().enumerate().map(|(rank, way)| (way.0, node as u32, rank as u32)));
        }
        keep(&mut ends, k);
        if ends.is_empty() {
            return Err(Error::impossible());
        }
        let path = |&(score, node, rank): &(f64, u32, u32)| {
            let mut tags = vec![0; self.length];
            let (mut node, mut rank) = (node as usize, rank as usize);
            for t in (0..self.length).rev() {
                tags[t] = self.tag(node) as u16;
                let (_, before, above) = all[t][node][rank];
                (node, rank) = (before as usize, above as usize);
            }
            (score, tags)
        };
        Ok(ends.iter().map(path).collect())
    }
}

/// The k best ways, best first.
fn keep(ways: &mut Vec<(f64, u32, u32)>, k: usize) {
    let order = |a: &(f64, u32, u32), b: &(f64, u32, u32)| {
        b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2))
    };
    if ways.len() > k {
        ways.select_nth_unstable_by(k, order);
        ways.truncate(k);
    }
    ways.sort_by(order);
}
