//! Stochastic gradient descent with l1 and l2 penalties, one batch of sentences at a time.
//!
//! With N sentences, a batch of b and the step size η, let ∇ be the sum of the gradients of −ln p over the batch.
//! Without l1, θ ← (θ − η·∇) / (1 + 2·η·b·λ₂/N). Only parameters of the batch have a gradient; the others are scaled
//! when they are needed: θ = P·v with P = Π 1/(1 + 2ηbλ₂/N).
//!
//! With l1, the penalty is cumulative over an epoch. A parameter is θ = P·sgn(y)·(|y| − C)₊, where y is its value at the
//! start of the epoch minus the sum of η·∇/P, and C = Σ ηbλ₁/(N·P). A penalty that finds nothing to take is kept for
//! later steps, so the noise of single gradients does not move a parameter away from 0. An epoch has every sentence
//! once. Once θ hardly changes within an epoch, y moves by a multiple of the gradient of the whole data, and
//! a parameter that is 0 at the optimum is exactly 0 after every epoch. An epoch starts with C = 0: what was
//! kept ends with the epoch, and the deviation from the gradient is at most the penalty of one epoch, which tends to 0 with η.
//!
//! Time per batch: the sums of its sentences and their attributes times tags. Memory: one number per parameter, two
//! with l1.
//!
//! η = η₀/(1 + η₀·κ·t) after t sentences, with κ = 2λ₂/N, the curvature of the penalty, or 1/N without l2. Then θ
//! converges to the minimum. The sentences of a batch are computed in parallel and applied in their order, so the
//! bits do not depend on the number of threads.
//!
//! References: L. Bottou, *Large-scale machine learning with stochastic gradient descent*, COMPSTAT 2010. Y. Tsuruoka,
//! J. Tsujii, S. Ananiadou, *Stochastic gradient descent training for L1-regularized log-linear models with cumulative
//! penalty*, ACL 2009; its clipping of signed penalties gives the same θ.

use super::super::examples::Numbered;
use super::design::Design;
use super::lattice::Lattice;
use super::rows::scores;
use super::sums::{Transitions, Work};
use super::train::Learning;
use crate::error::{Error, Result};
use crate::numeric::parallel::prelude::*;

/// P below this is multiplied into the parameters.
const SMALL: f64 = 1e-100;

/// The state during an epoch.
pub(super) struct Descent<'a> {
    design: &'a Design,
    l1: f64,
    l2: f64,
    /// N.
    sentences: f64,
    /// v = θ/P, as a table; with l1, up to date for the parameters of the batch.
    table: Vec<f64>,
    /// y, as a table; empty without l1.
    sums: Vec<f64>,
    /// θ of pairs and triples.
    transitions: Vec<f64>,
    /// P·y of pairs and triples; empty without l1.
    transition_sums: Vec<f64>,
    /// P.
    scale: f64,
    /// C.
    shift: f64,
    rate: f64,
    /// t.
    pub seen: u64,
    works: Vec<Work>,
}

fn shrunk(x: f64, by: f64) -> f64 {
    let size = x.abs() - by;
    if size > 0.0 { size.copysign(x) } else { 0.0 }
}

impl<'a> Descent<'a> {
    /// Starts at parameters after `seen` sentences, with η₀ = `rate`.
    pub fn new(
        design: &'a Design,
        how: &Learning,
        sentences: usize,
        parameters: &[f64],
        (seen, rate): (u64, f64),
    ) -> Self {
        let mut table = vec![0.0; design.table()];
        design.expand(parameters, &mut table);
        let transitions = parameters[design.state_tags.len()..].to_vec();
        let (sums, transition_sums) = match how.l1 > 0.0 {
            true => (table.clone(), transitions.clone()),
            false => (Vec::new(), Vec::new()),
        };
        let works = (0..how.batch).map(|_| Work::new(design)).collect();
        Descent {
            design,
            l1: how.l1,
            l2: how.l2,
            sentences: sentences as f64,
            table,
            sums,
            transitions,
            transition_sums,
            scale: 1.0,
            shift: 0.0,
            rate,
            seen,
            works,
        }
    }

    /// Bytes of memory.
    pub fn bytes(design: &Design, how: &Learning) -> f64 {
        let tables = if how.l1 > 0.0 { 2 } else { 1 } * design.table();
        8.0 * tables as f64 + how.batch as f64 * Work::bytes(design)
    }

    /// Multiplies P into the table and the sums.
    fn rescale(&mut self) {
        let scale = self.scale;
        self.table.iter_mut().chain(&mut self.sums).for_each(|x| *x *= scale);
        self.shift *= scale;
        self.scale = 1.0;
    }

    /// Applies all penalties to the table.
    fn settle(&mut self) {
        self.rescale();
        for (v, y) in self.table.iter_mut().zip(&self.sums) {
            *v = shrunk(*y, self.shift);
        }
    }

    /// The parameters.
    pub fn parameters(&mut self) -> Vec<f64> {
        self.settle();
        let mut all = vec![0.0; self.design.size()];
        self.design.compress(&self.table, &mut all);
        all[self.design.state_tags.len()..].copy_from_slice(&self.transitions);
        all
    }

    /// λ₁‖θ‖₁ + λ₂‖θ‖².
    pub fn penalty(&mut self) -> f64 {
        self.settle();
        let all = || self.table.iter().chain(&self.transitions);
        self.l1 * all().map(|x| x.abs()).sum::<f64>() + self.l2 * all().map(|x| x * x).sum::<f64>()
    }

    /// Calls `each` with the place in the table, the tag and the weight of every parameter of a token.
    fn parameters_of(&self, data: &Numbered, token: usize, mut each: impl FnMut(usize, usize, f64)) {
        for at in data.start(token)..data.ends[token] {
            let (item, weight) = (data.items[at] as usize, data.weight(at));
            for k in self.design.starts[item]..self.design.starts[item + 1] {
                each(self.design.place(item, k), usize::from(self.design.state_tags[k]), weight);
            }
        }
    }

    /// Σ −ln p of a batch; the residuals and expected transitions are left in the works.
    fn sums(&mut self, data: &Numbered, batch: &[usize]) -> Result<(f64, Transitions)> {
        let (design, scale) = (self.design, self.scale);
        let (n, width) = (design.tags, design.width());
        if !self.sums.is_empty() {
            // The penalties of the parameters of the batch.
            let mut table = std::mem::take(&mut self.table);
            for token in batch.iter().flat_map(|&number| data.sentence(number)) {
                self.parameters_of(data, token, |place, _, _| {
                    table[place] = shrunk(self.sums[place], self.shift);
                });
            }
            self.table = table;
        }
        let (pairs, triples) = self.transitions.split_at(design.pairs.len());
        let transitions = Transitions::new(n, width, design.pair_table(pairs), design.triple_table(triples));
        let table = &self.table;
        let values = self.works[..batch.len()].par_iter_mut().zip(batch).map(|(work, &number)| {
            let tokens = data.sentence(number);
            let tags = &data.tags[tokens.clone()];
            work.clear();
            work.scores.resize(tags.len() * width, 0.0);
            scores(design, data, tokens, table, &mut work.scores);
            work.scores.iter_mut().for_each(|score| *score *= scale);
            let log_z = work.sums(n, width, &transitions);
            let lattice = Lattice {
                length: tags.len(),
                tags: n,
                width,
                scores: &work.scores,
                pairs: &transitions.pairs,
                triples: &transitions.triples,
            };
            let value = log_z.unwrap_or(f64::NAN) - lattice.score(tags);
            for (row, &tag) in work.marginals.chunks_exact_mut(width).zip(tags) {
                row[usize::from(tag)] -= 1.0;
            }
            value
        });
        let values: Vec<f64> = values.collect();
        let value: f64 = values.iter().sum();
        if !value.is_finite() {
            return Err(Error::NoAnswer("the parameters are too large; a smaller rate would help".into()));
        }
        Ok((value, transitions))
    }

    /// Σ −ln p of a batch.
    pub fn loss(&mut self, data: &Numbered, batch: &[usize]) -> Result<f64> {
        Ok(self.sums(data, batch)?.0)
    }

    /// One step; returns Σ −ln p of the batch before it.
    pub fn step(&mut self, data: &Numbered, batch: &[usize]) -> Result<f64> {
        let design = self.design;
        let (n, width) = (design.tags, design.width());
        let (value, transitions) = self.sums(data, batch)?;
        let curvature = if self.l2 > 0.0 { 2.0 * self.l2 } else { 1.0 } / self.sentences;
        let step = self.rate / (1.0 + self.rate * curvature * self.seen as f64);
        let penalised = self.l1 > 0.0;
        let moved = if penalised { &mut self.sums } else { &mut self.table };
        let (mut moved, factor) = (std::mem::take(moved), step / self.scale);
        for (work, &number) in self.works.iter().zip(batch) {
            for (token, residual) in data.sentence(number).zip(work.marginals.chunks_exact(width)) {
                self.parameters_of(data, token, |place, tag, weight| {
                    moved[place] -= factor * weight * residual[tag];
                });
            }
        }
        *(if penalised { &mut self.sums } else { &mut self.table }) = moved;
        let works: Vec<&Work> = self.works[..batch.len()].iter().collect();
        let (mut pairs, mut triples) = transitions.expected(&works, n, width);
        for &number in batch {
            let tags = &data.tags[data.sentence(number)];
            tags.windows(2).for_each(|w| pairs[usize::from(w[0]) * width + usize::from(w[1])] -= 1.0);
            if design.order == 2 {
                tags.windows(3).for_each(|w| {
                    triples[(usize::from(w[0]) * n + usize::from(w[1])) * width + usize::from(w[2])] -= 1.0;
                });
            }
        }
        let share = step * batch.len() as f64 / self.sentences;
        let (less, shrink) = (share * self.l1, 1.0 / (1.0 + 2.0 * share * self.l2));
        let of_pairs = design.pairs.iter().map(|&[a, b]| pairs[usize::from(a) * width + usize::from(b)]);
        let of_triples = design
            .triples
            .iter()
            .map(|&[a, b, c]| triples[(usize::from(a) * n + usize::from(b)) * width + usize::from(c)]);
        let moved = if penalised { &mut self.transition_sums } else { &mut self.transitions };
        for (x, slope) in moved.iter_mut().zip(of_pairs.chain(of_triples)) {
            *x = shrink * (*x - step * slope);
        }
        self.shift += less / self.scale;
        self.scale *= shrink;
        let shift = self.scale * self.shift;
        for (x, y) in self.transitions.iter_mut().zip(&self.transition_sums) {
            *x = shrunk(*y, shift);
        }
        if self.scale < SMALL {
            self.rescale();
        }
        self.seen += batch.len() as u64;
        Ok(value)
    }
}
