//! log Z, marginals and expected transitions of one sentence, from the scores of its tags: the fast sums of
//! [`super::sweep`] and [`super::second_order`], and those of [`super::lattice`] where they are out of range.

use super::design::Design;
use super::lattice::Lattice;
use super::second_order::{PairSweep, pair_sweep};
use super::sweep::{Sweep, sweep};
use crate::numeric::{exp_in_place, max};

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

    /// The expected numbers of pairs and triples, from the sums of some sentences.
    pub(super) fn expected(&self, works: &[&Work], tags: usize, width: usize) -> (Vec<f64>, Vec<f64>) {
        let sum = |of: fn(&Work) -> &[f64], at: usize| -> f64 { works.iter().map(|work| of(work)[at]).sum() };
        let mut pairs = vec![0.0; tags * width];
        let mut triples = vec![0.0; self.triples.len()];
        for (at, p) in pairs.iter_mut().enumerate() {
            *p = sum(|work| &work.pair_sums, at) * self.forward[at] + sum(|work| &work.exact_pairs, at);
        }
        for (at, p) in triples.iter_mut().enumerate() {
            let fast = sum(|work| &work.triple_sums, at) * self.both[at];
            *p = fast + sum(|work| &work.exact_triples, at);
            // The exact pairs contain those of the triples; the fast ones only the first pair of a sentence.
            pairs[at % (tags * width)] += fast;
        }
        (pairs, triples)
    }
}

/// Memory for the sums of one sentence, used for one after the other.
#[derive(Default)]
pub(super) struct Work {
    /// Scores of tags, length × width.
    pub scores: Vec<f64>,
    weights: Vec<f64>,
    pub alpha: Vec<f64>,
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

    /// Bytes of memory, without those that grow with the sentence.
    pub fn bytes(design: &Design) -> f64 {
        let triples = if design.order == 2 { design.tags * design.tags } else { 0 };
        8.0 * ((2 * triples + 2 * design.width()) * design.width()) as f64
    }

    pub fn clear(&mut self) {
        for sums in
            [&mut self.pair_sums, &mut self.exact_pairs, &mut self.triple_sums, &mut self.exact_triples]
        {
            sums.fill(0.0);
        }
    }

    /// log Z of one sentence with these scores (length × width, in `self.scores`); the marginals, and the
    /// expected transitions are added. `None` if every sequence is impossible.
    pub fn sums(&mut self, tags: usize, width: usize, transitions: &Transitions) -> Option<f64> {
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
