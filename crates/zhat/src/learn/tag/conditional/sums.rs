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
    pub(super) forward: Vec<f64>,
    /// The same transposed.
    backward: Vec<f64>,
    /// exp(pair + triple − triple shift), tags² × width.
    pub(super) both: Vec<f64>,
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
    /// Scores of tags, length × width.
    pub scores: Vec<f64>,
    weights: Vec<f64>,
    pub alpha: Vec<f64>,
    beta: Vec<f64>,
    pub marginals: Vec<f64>,
    /// Σ of expected pairs without their weights: width × width.
    pub pair_sums: Vec<f64>,
    /// Expected pairs, from sentences outside the range of the fast sums: tags × width.
    pub exact_pairs: Vec<f64>,
    pub triple_sums: Vec<f64>,
    pub exact_triples: Vec<f64>,
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
