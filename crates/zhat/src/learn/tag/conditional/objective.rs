//! The training objective: −Σ ln p(tags | words) + λ₂‖θ‖², its gradient, and the sums of single sentences.
//!
//! The sentences are divided into a fixed number of blocks of about as many tokens. Every block adds up its own
//! value and gradient, and the blocks are added in their order: the bits do not depend on the number of threads.
//! Time: the number of attributes of all tokens times the tags seen with them, and the sums of
//! [`super::sweep`]. Memory: one table of parameters per block.

use std::ops::Range;

use super::super::examples::Numbered;
use super::design::Design;
use super::lattice::Lattice;
use super::rows::{scores, spread};
use super::second_order::{PairSweep, pair_sweep};
use super::sweep::{Sweep, sweep};
use super::viterbi::viterbi;
use crate::error::{Error, Result};
use crate::numeric::parallel::prelude::*;
use crate::numeric::{exp_in_place, max};
use crate::run::Clock;

/// The maximum number of blocks.
const BLOCKS: usize = 8;
/// Blocks have at least this many tokens.
const TOKENS: usize = 4096;
/// Length of the pieces of parallel sums.
const PIECE: usize = 1 << 14;

/// The scores of transitions and their exponentials.
pub(crate) struct Transitions {
    /// Scores of pairs, tags × width.
    pub pairs: Vec<f64>,
    /// Scores of triples, tags² × width; empty for the first order.
    pub triples: Vec<f64>,
    /// exp(pair − shift), tags × width, 0 beyond the tags.
    forward: Vec<f64>,
    /// The same transposed.
    backward: Vec<f64>,
    /// exp(pair + triple − triple shift), tags² × width.
    both: Vec<f64>,
    shift: f64,
    both_shift: f64,
}

/// The largest finite score, or 0.
fn finite_max(scores: &[f64]) -> f64 {
    Some(max(scores)).filter(|shift| shift.is_finite()).unwrap_or(0.0)
}

impl Transitions {
    /// From scores with zeros beyond the tags.
    pub fn new(tags: usize, width: usize, pairs: Vec<f64>, triples: Vec<f64>) -> Self {
        let exponentials = |scores: &[f64], shift: f64| {
            let mut all: Vec<f64> = scores.iter().map(|score| score - shift).collect();
            exp_in_place(&mut all);
            all.chunks_exact_mut(width).for_each(|row| row[tags..].fill(0.0));
            all
        };
        let shift = finite_max(&pairs);
        let forward = exponentials(&pairs, shift);
        let mut backward = vec![0.0; forward.len()];
        for a in 0..tags {
            (0..tags).for_each(|b| backward[b * width + a] = forward[a * width + b]);
        }
        let sums: Vec<f64> =
            triples.iter().enumerate().map(|(at, triple)| triple + pairs[at % pairs.len()]).collect();
        let both_shift = finite_max(&sums);
        let both = exponentials(&sums, both_shift);
        Transitions { pairs, triples, forward, backward, both, shift, both_shift }
    }
}

/// Memory for the sums of one sentence, used for one after the other.
#[derive(Default)]
pub(super) struct Work {
    scores: Vec<f64>,
    weights: Vec<f64>,
    alpha: Vec<f64>,
    beta: Vec<f64>,
    pub marginals: Vec<f64>,
    /// Σ of expected pairs without their weights: width × width.
    pair_sums: Vec<f64>,
    /// Expected pairs, from sentences outside the range of the fast sums: tags × width.
    exact_pairs: Vec<f64>,
    triple_sums: Vec<f64>,
    exact_triples: Vec<f64>,
}

impl Work {
    pub fn new(design: &Design) -> Self {
        let (n, width) = (design.tags, design.width());
        let triples = if design.order == 2 { n * n * width } else { 0 };
        Work {
            pair_sums: vec![0.0; width * width],
            exact_pairs: vec![0.0; n * width],
            triple_sums: vec![0.0; triples],
            exact_triples: vec![0.0; triples],
            ..Work::default()
        }
    }

    fn clear(&mut self) {
        for sums in
            [&mut self.pair_sums, &mut self.exact_pairs, &mut self.triple_sums, &mut self.exact_triples]
        {
            sums.fill(0.0);
        }
    }

    /// log Z of one sentence with these scores (length × width, in `self.scores`); the marginals, and the
    /// expected transitions are added. `None` if every sequence is impossible.
    fn sums(&mut self, tags: usize, width: usize, transitions: &Transitions) -> Option<f64> {
        let length = self.scores.len() / width;
        let (second, size) = (!transitions.triples.is_empty(), length * width);
        self.weights.clear();
        self.weights.extend_from_slice(&self.scores);
        let mut shifts = 0.0;
        for row in self.weights.chunks_exact_mut(width) {
            let shift = finite_max(&row[..tags]);
            shifts += shift;
            row[..tags].iter_mut().for_each(|x| *x -= shift);
            row[tags..].fill(f64::NEG_INFINITY);
        }
        exp_in_place(&mut self.weights);
        let edges = length.saturating_sub(1) as f64;
        self.marginals.resize(size, 0.0);
        let states = if second { size * tags } else { size };
        self.alpha.resize(states, 0.0);
        self.beta.resize(states, 0.0);
        let fast = if second {
            let found = pair_sweep(PairSweep {
                length,
                tags,
                width,
                pairs: &transitions.forward,
                triples: &transitions.both,
                weights: &self.weights,
                alpha: &mut self.alpha,
                beta: &mut self.beta,
                marginals: &mut self.marginals,
                pair_sums: &mut self.pair_sums,
                triple_sums: &mut self.triple_sums,
            });
            found.map(|sum| {
                sum + transitions.shift * edges.min(1.0) + transitions.both_shift * (edges - 1.0).max(0.0)
            })
        } else {
            let found = sweep(Sweep {
                length,
                tags,
                width,
                forward: &transitions.forward,
                backward: &transitions.backward,
                weights: &self.weights,
                alpha: &mut self.alpha,
                beta: &mut self.beta,
                marginals: &mut self.marginals,
                pairs: &mut self.pair_sums,
            });
            found.map(|sum| sum + transitions.shift * edges)
        };
        if let Some(sum) = fast {
            return Some(sum + shifts);
        }
        let lattice = Lattice {
            length,
            tags,
            width,
            scores: &self.scores,
            pairs: &transitions.pairs,
            triples: &transitions.triples,
        };
        let exact = lattice.sums()?;
        self.marginals.copy_from_slice(&exact.marginals);
        self.exact_pairs.iter_mut().zip(&exact.pairs).for_each(|(sum, p)| *sum += p);
        self.exact_triples.iter_mut().zip(&exact.triples).for_each(|(sum, p)| *sum += p);
        Some(exact.log_z)
    }
}

/// The scores and log Z of a sentence of a tagger: the scores are computed, then changed by `change`.
pub(super) fn sentence_sums(
    design: &Design,
    data: &Numbered,
    tokens: Range<usize>,
    table: &[f64],
    transitions: &Transitions,
    work: &mut Work,
    change: impl FnOnce(&mut [f64]),
) -> Option<f64> {
    let width = design.width();
    work.scores.resize(tokens.len() * width, 0.0);
    scores(design, data, tokens, table, &mut work.scores);
    change(&mut work.scores);
    work.sums(design.tags, width, transitions)
}

/// The queries about single sentences of a tagger, one after the other.
pub(crate) struct Query<'a> {
    design: &'a Design,
    data: &'a Numbered,
    table: &'a [f64],
    transitions: &'a Transitions,
    work: Work,
    number: usize,
}

impl<'a> Query<'a> {
    pub fn new(
        design: &'a Design,
        data: &'a Numbered,
        table: &'a [f64],
        transitions: &'a Transitions,
    ) -> Self {
        Query { design, data, table, transitions, work: Work::new(design), number: 0 }
    }

    /// Computes the scores of a sentence; with `known`, tags that contradict the known ones are impossible.
    pub fn load(&mut self, number: usize, known: bool) {
        let (n, width) = (self.design.tags, self.design.width());
        let tokens = self.data.sentence(number);
        self.number = number;
        self.work.scores.resize(tokens.len() * width, 0.0);
        scores(self.design, self.data, tokens.clone(), self.table, &mut self.work.scores);
        if known {
            for (row, &tag) in self.work.scores.chunks_exact_mut(width).zip(&self.data.tags[tokens]) {
                let tag = usize::from(tag);
                if tag < n {
                    row[..tag].fill(f64::NEG_INFINITY);
                    row[tag + 1..].fill(f64::NEG_INFINITY);
                }
            }
        }
    }

    /// The tags of the sentence.
    pub fn tags(&self) -> &'a [u16] {
        &self.data.tags[self.data.sentence(self.number)]
    }

    pub fn lattice(&self) -> Lattice<'_> {
        let (tags, width) = (self.design.tags, self.design.width());
        let (pairs, triples) = (&self.transitions.pairs, &self.transitions.triples);
        Lattice {
            length: self.work.scores.len() / width,
            tags,
            width,
            scores: &self.work.scores,
            pairs,
            triples,
        }
    }

    fn sums(&mut self) -> Result<f64> {
        let sums = self.work.sums(self.design.tags, self.design.width(), self.transitions);
        sums.ok_or_else(Error::impossible)
    }

    /// log Z of the sentence.
    pub fn log_partition(&mut self) -> Result<f64> {
        self.sums()
    }

    /// The probability of every tag, tokens × tags.
    pub fn marginals(&mut self) -> Result<Vec<f64>> {
        self.sums()?;
        let rows = self.work.marginals.chunks_exact(self.design.width());
        Ok(rows.flat_map(|row| row[..self.design.tags].iter().map(|p| p.clamp(0.0, 1.0))).collect())
    }

    /// The most probable tags.
    pub fn best(&mut self) -> Result<Vec<u16>> {
        let (tags, width) = (self.design.tags, self.design.width());
        if self.design.order == 1 {
            let Work { scores, alpha, .. } = &mut self.work;
            return viterbi(tags, width, scores, &self.transitions.pairs, alpha)
                .ok_or_else(Error::impossible);
        }
        let first = self.lattice().best(1)?.into_iter().next();
        first.map(|(_, tags)| tags).ok_or_else(Error::impossible)
    }
}

/// One block of sentences.
struct Block {
    sentences: Range<usize>,
    work: Work,
    gradient: Vec<f64>,
}

/// The objective on training data.
pub(crate) struct Objective<'a> {
    pub design: &'a Design,
    pub data: &'a Numbered,
    pub l2: f64,
    blocks: Vec<Block>,
    table: Vec<f64>,
    /// Observed counts of pairs and triples.
    observed: Vec<f64>,
}

impl<'a> Objective<'a> {
    pub fn new(design: &'a Design, data: &'a Numbered, l2: f64) -> Self {
        let table = vec![0.0; design.table()];
        let block =
            |sentences| Block { sentences, work: Work::new(design), gradient: vec![0.0; table.len()] };
        let blocks = divided(data).into_iter().map(block).collect();
        Objective { design, data, l2, blocks, observed: observed(design, data), table }
    }

    /// Bytes of the blocks and tables.
    pub fn bytes(design: &Design, data: &Numbered) -> f64 {
        let triples = if design.order == 2 { design.tags * design.tags } else { 0 };
        let work = (2 * triples + 2 * design.width()) * design.width();
        8.0 * ((divided(data).len() + 1) as f64 * design.table() as f64)
            + 8.0 * (divided(data).len() * work) as f64
            + data.bytes()
    }

    /// The value and the gradient at a point.
    pub fn evaluate(&mut self, point: &[f64], gradient: &mut [f64], clock: &Clock<'_>) -> Result<f64> {
        let (design, data) = (self.design, self.data);
        let (n, width) = (design.tags, design.width());
        design.expand(point, &mut self.table);
        let transitions = Transitions::new(n, width, design.pair_scores(point), design.triple_scores(point));
        let table = &self.table;
        let values = self.blocks.par_iter_mut().map(|block| -> Result<f64> {
            block.gradient.fill(0.0);
            block.work.clear();
            let mut value = 0.0;
            for number in block.sentences.clone() {
                if number % 64 == 0 {
                    clock.check()?;
                }
                value += sentence(design, data, number, table, &transitions, block)?;
            }
            Ok(value)
        });
        let values: Vec<Result<f64>> = values.collect();
        let mut value = 0.0;
        for block in values {
            value += block?;
        }
        // The gradient of the state parameters: the blocks in their order, into the table.
        let blocks = &self.blocks;
        self.table.par_chunks_mut(PIECE).enumerate().for_each(|(piece, sums)| {
            let from = piece * PIECE;
            sums.copy_from_slice(&blocks[0].gradient[from..from + sums.len()]);
            for block in &blocks[1..] {
                let own = &block.gradient[from..from + sums.len()];
                sums.iter_mut().zip(own).for_each(|(sum, x)| *sum += x);
            }
        });
        design.compress(&self.table, gradient);
        // Rows of unseen tags are 0 again for the next evaluation.
        self.table[..design.dense * width].fill(0.0);
        self.transition_gradient(&transitions, &mut gradient[design.state_tags.len()..]);
        let mut square = 0.0;
        for (g, x) in gradient.iter_mut().zip(point) {
            *g += 2.0 * self.l2 * x;
            square += x * x;
        }
        Ok(value + self.l2 * square)
    }

    /// Expected minus observed transitions.
    fn transition_gradient(&self, transitions: &Transitions, out: &mut [f64]) {
        let (n, width) = (self.design.tags, self.design.width());
        let sum = |of: fn(&Work) -> &[f64], at: usize| -> f64 {
            self.blocks.iter().map(|block| of(&block.work)[at]).sum()
        };
        let mut pairs = vec![0.0; n * width];
        let mut triples = vec![0.0; transitions.triples.len()];
        for (at, p) in pairs.iter_mut().enumerate() {
            *p =
                sum(|work| &work.pair_sums, at) * transitions.forward[at] + sum(|work| &work.exact_pairs, at);
        }
        for (at, p) in triples.iter_mut().enumerate() {
            let fast = sum(|work| &work.triple_sums, at) * transitions.both[at];
            *p = fast + sum(|work| &work.exact_triples, at);
            // The exact pairs contain those of the triples; the fast ones only the first pair of a sentence.
            pairs[at % (n * width)] += fast;
        }
        let place = |a: u16, b: u16| usize::from(a) * width + usize::from(b);
        let (of_pairs, of_triples) = out.split_at_mut(self.design.pairs.len());
        for (out, &[a, b]) in of_pairs.iter_mut().zip(&self.design.pairs) {
            *out = pairs[place(a, b)];
        }
        for (out, &[a, b, c]) in of_triples.iter_mut().zip(&self.design.triples) {
            *out = triples[(usize::from(a) * n + usize::from(b)) * width + usize::from(c)];
        }
        out.iter_mut().zip(&self.observed).for_each(|(out, seen)| *out -= seen);
    }
}

/// The value of one sentence; its gradient is added to that of the block.
fn sentence(
    design: &Design,
    data: &Numbered,
    number: usize,
    table: &[f64],
    transitions: &Transitions,
    block: &mut Block,
) -> Result<f64> {
    let (n, width) = (design.tags, design.width());
    let tokens = data.sentence(number);
    let tags = &data.tags[tokens.clone()];
    let work = &mut block.work;
    let log_z = sentence_sums(design, data, tokens.clone(), table, transitions, work, |_| {});
    let lattice = Lattice {
        length: tags.len(),
        tags: n,
        width,
        scores: &work.scores,
        pairs: &transitions.pairs,
        triples: &transitions.triples,
    };
    let score = lattice.score(tags);
    let value = log_z.map(|log_z| log_z - score).filter(|value| value.is_finite());
    let value = value.ok_or_else(|| {
        Error::NoAnswer(format!(
            "the parameters of sentence {} are too large; more l2 would help",
            number + 1
        ))
    })?;
    for (row, &tag) in work.marginals.chunks_exact_mut(width).zip(tags) {
        row[usize::from(tag)] -= 1.0;
    }
    spread(design, data, tokens, &work.marginals, &mut block.gradient);
    Ok(value)
}

/// −Σ ln p(tags | words) of sentences whose tags are all known; the others are skipped. Also the number of tokens.
pub(crate) fn log_loss(
    design: &Design,
    data: &Numbered,
    parameters: &[f64],
    clock: &Clock<'_>,
) -> Result<(f64, usize)> {
    let mut table = vec![0.0; design.table()];
    design.expand(parameters, &mut table);
    let (n, width) = (design.tags, design.width());
    let transitions =
        Transitions::new(n, width, design.pair_scores(parameters), design.triple_scores(parameters));
    let blocks = divided(data);
    let values = blocks.par_iter().map(|sentences| -> Result<(f64, usize)> {
        let mut work = Work::new(design);
        let (mut value, mut count) = (0.0, 0);
        for number in sentences.clone() {
            clock.check()?;
            let tokens = data.sentence(number);
            let tags = &data.tags[tokens.clone()];
            if tags.iter().any(|tag| usize::from(*tag) >= n) {
                continue;
            }
            let log_z = sentence_sums(design, data, tokens.clone(), &table, &transitions, &mut work, |_| {});
            let lattice = Lattice {
                length: tags.len(),
                tags: n,
                width,
                scores: &work.scores,
                pairs: &transitions.pairs,
                triples: &transitions.triples,
            };
            value += log_z.unwrap_or(f64::NAN) - lattice.score(tags);
            count += tags.len();
        }
        Ok((value, count))
    });
    let values: Vec<Result<(f64, usize)>> = values.collect();
    let mut sum = (0.0, 0);
    for block in values {
        let (value, count) = block?;
        sum = (sum.0 + value, sum.1 + count);
    }
    Ok(sum)
}

/// Fixed blocks of sentences with about as many tokens each.
fn divided(data: &Numbered) -> Vec<Range<usize>> {
    let count = (data.tokens() / TOKENS).clamp(1, BLOCKS);
    let mut blocks = Vec::with_capacity(count);
    let mut from = 0;
    for block in 0..count {
        let until = data.tokens() * (block + 1) / count;
        let to = data.sentences.partition_point(|&end| end <= until).max(from);
        let to = if block + 1 == count { data.sentences.len() } else { to };
        blocks.push(from..to);
        from = to;
    }
    blocks
}

/// Counts of pairs and triples in the data.
fn observed(design: &Design, data: &Numbered) -> Vec<f64> {
    let (n, width) = (design.tags, design.width());
    let at = |a: u16, b: u16| usize::from(a) * n + usize::from(b);
    let mut pairs = vec![0.0; n * n];
    let mut triples = vec![0.0; if design.order == 2 { n * n * width } else { 0 }];
    for number in 0..data.sentences.len() {
        let tags = &data.tags[data.sentence(number)];
        tags.windows(2).for_each(|w| pairs[at(w[0], w[1])] += 1.0);
        if design.order == 2 {
            tags.windows(3).for_each(|w| triples[at(w[0], w[1]) * width + usize::from(w[2])] += 1.0);
        }
    }
    let of_pairs = design.pairs.iter().map(|&[a, b]| pairs[at(a, b)]);
    let of_triples = design.triples.iter().map(|&[a, b, c]| triples[at(a, b) * width + usize::from(c)]);
    of_pairs.chain(of_triples).collect()
}
