//! The training objective: −Σ ln p(tags | words) + λ₂‖θ‖², and its gradient.
//!
//! The sentences are divided into a fixed number of blocks of about as many tokens. Every block adds up its own
//! value and gradient, and the blocks are added in their order: the bits do not depend on the number of threads.
//! Time: the number of attributes of all tokens times the tags seen with them, and the sums of
//! [`super::sweep`]. Memory: one table of parameters per block, and [`Singles`].

use std::ops::Range;

use super::super::examples::Numbered;
use super::design::Design;
use super::lattice::Lattice;
use super::rows::Singles;
use super::sums::{Transitions, Work};
use crate::error::{Error, Result};
use crate::numeric::parallel::prelude::*;
use crate::run::Clock;

/// The maximum number of blocks.
const BLOCKS: usize = 8;
/// Blocks have at least this many tokens.
const TOKENS: usize = 4096;
/// Length of the pieces of parallel sums.
const PIECE: usize = 1 << 14;

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
    singles: Singles,
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
        let singles = Singles::new(design, data);
        Objective { design, data, l2, singles, blocks, observed: observed(design, data), table }
    }

    /// Bytes of the blocks and tables.
    pub fn bytes(design: &Design, data: &Numbered) -> f64 {
        8.0 * ((divided(data).len() + 1) as f64 * design.table() as f64)
            + divided(data).len() as f64 * Work::bytes(design)
            + data.bytes()
            + Singles::bytes(design, data)
    }

    /// The value and the gradient at a point.
    pub fn evaluate(&mut self, point: &[f64], gradient: &mut [f64], clock: &Clock<'_>) -> Result<f64> {
        let (design, data) = (self.design, self.data);
        let (n, width) = (design.tags, design.width());
        design.expand(point, &mut self.table);
        let transitions = Transitions::new(n, width, design.pair_scores(point), design.triple_scores(point));
        let (table, singles) = (&self.table, &self.singles);
        let values = self.blocks.par_iter_mut().map(|block| -> Result<f64> {
            block.gradient.fill(0.0);
            block.work.clear();
            let mut value = 0.0;
            for number in block.sentences.clone() {
                if number % 64 == 0 {
                    clock.check()?;
                }
                value += sentence(design, data, singles, number, table, &transitions, block)?;
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
        let works: Vec<&Work> = self.blocks.iter().map(|block| &block.work).collect();
        let (pairs, triples) = transitions.expected(&works, n, width);
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
    singles: &Singles,
    number: usize,
    table: &[f64],
    transitions: &Transitions,
    block: &mut Block,
) -> Result<f64> {
    let (n, width) = (design.tags, design.width());
    let tokens = data.sentence(number);
    let tags = &data.tags[tokens.clone()];
    let work = &mut block.work;
    work.scores.resize(tags.len() * width, 0.0);
    singles.scores(design, data, tokens.clone(), table, &mut work.scores);
    let log_z = work.sums(n, width, transitions);
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
    singles.spread(design, data, tokens, &work.marginals, &mut block.gradient);
    Ok(value)
}

/// Fixed blocks of sentences with about as many tokens each.
pub(super) fn divided(data: &Numbered) -> Vec<Range<usize>> {
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
