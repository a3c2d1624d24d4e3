//! Queries about single sentences of a tagger, and the log-loss of many.

use super::super::examples::Numbered;
use super::design::Design;
use super::lattice::Lattice;
use super::objective::divided;
use super::rows::scores;
use super::sums::{Transitions, Work};
use super::viterbi::viterbi;
use crate::error::{Error, Result};
use crate::numeric::parallel::prelude::*;
use crate::run::Clock;

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
            work.scores.resize(tokens.len() * width, 0.0);
            scores(design, data, tokens.clone(), &table, &mut work.scores);
            let log_z = work.sums(n, width, &transitions);
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
