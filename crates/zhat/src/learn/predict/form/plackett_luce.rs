//! The model of Plackett and Luce: places are filled from the first on, each with one of the items left with
//! probability proportional to e^{s_i}.
//!
//! −log p of a ranking is Σ_k [ln Σ_{j ≥ k} e^{s_j} − s_k], a convex function of s, so that learning keeps its
//! certificate although p is no exponential family of orders. Items that were not ranked are left out, which
//! is exact for this model, and so is a last group of tied items. Any other group of g tied items is summed
//! over its orders in time 2^g·g. Complete rankings and top k take time n per row.
//!
//! References: R. L. Plackett, *The analysis of permutations*, Applied Statistics 24 (1975); R. D. Luce,
//! *Individual choice behavior* (1959).

use std::ops::Range;

use super::{Family, Mode, Work};
use crate::learn::predict::Targets;
use crate::model::space::log_factorial;
use crate::numeric::log_sum_exp;
use crate::random::Stream;

/// Orders of items by the model of Plackett and Luce.
#[derive(Clone, Debug)]
pub(crate) struct PlackettLuce {
    pub items: usize,
}

/// Maximum number of tied items that are not last.
pub(crate) const MOST_TIED: usize = 16;

/// Groups of items of equal rank, first to last, without the items that were not ranked.
pub(crate) fn groups(ranks: &[u32]) -> Vec<Vec<usize>> {
    let mut items: Vec<usize> = (0..ranks.len()).filter(|&item| ranks[item] > 0).collect();
    items.sort_by_key(|&item| ranks[item]);
    items.chunk_by(|&a, &b| ranks[a] == ranks[b]).map(<[usize]>::to_vec).collect()
}

impl PlackettLuce {
    /// −log p of a ranking with scores s, and its gradient if wanted.
    pub fn loss(&self, scores: &[f64], ranks: &[u32], mut gradient: Option<&mut [f64]>) -> f64 {
        if let Some(gradient) = &mut gradient {
            gradient.fill(0.0);
        }
        let groups = groups(ranks);
        // ln of the sum over all items of later groups.
        let mut later = f64::NEG_INFINITY;
        let mut after: Vec<usize> = Vec::new();
        let mut loss = 0.0;
        for (k, group) in groups.iter().enumerate().rev() {
            let own: Vec<f64> = group.iter().map(|&item| scores[item]).collect();
            if k + 1 < groups.len() {
                loss += match group.as_slice() {
                    &[item] => self.single(scores, item, (&after, later), gradient.as_deref_mut()),
                    _ => self.tied(scores, group, (&after, later), gradient.as_deref_mut()),
                };
            }
            later = log_sum_exp(&[log_sum_exp(&own), later]);
            after.extend(group);
        }
        loss
    }

    fn single(
        &self,
        scores: &[f64],
        item: usize,
        (after, later): (&[usize], f64),
        gradient: Option<&mut [f64]>,
    ) -> f64 {
        let all = log_sum_exp(&[scores[item], later]);
        if let Some(gradient) = gradient {
            gradient[item] -= 1.0;
            for &other in after.iter().chain([&item]) {
                gradient[other] += (scores[other] - all).exp();
            }
        }
        all - scores[item]
    }

    /// A group of tied items before others: the sum over its orders.
    fn tied(
        &self,
        scores: &[f64],
        group: &[usize],
        (after, later): (&[usize], f64),
        gradient: Option<&mut [f64]>,
    ) -> f64 {
        let g = group.len();
        let sets = 1usize << g;
        // ln of the weights of the items left when the items of a set are placed.
        let left: Vec<f64> = (0..sets)
            .map(|set| {
                let rest = (0..g).filter(|i| set >> i & 1 == 0).map(|i| scores[group[i]]);
                log_sum_exp(&rest.chain([later]).collect::<Vec<f64>>())
            })
            .collect();
        let mut sums = vec![f64::NEG_INFINITY; sets];
        sums[0] = 0.0;
        for set in 1..sets {
            let terms: Vec<f64> = (0..g)
                .filter(|i| set >> i & 1 == 1)
                .map(|i| {
                    let rest = set & !(1 << i);
                    sums[rest] + scores[group[i]] - left[rest]
                })
                .collect();
            sums[set] = log_sum_exp(&terms);
        }
        if let Some(gradient) = gradient {
            let mut reached = vec![0.0; sets];
            reached[sets - 1] = 1.0;
            for set in (1..sets).rev() {
                for i in (0..g).filter(|i| set >> i & 1 == 1) {
                    let rest = set & !(1 << i);
                    let step = reached[set] * (sums[rest] + scores[group[i]] - left[rest] - sums[set]).exp();
                    reached[rest] += step;
                    gradient[group[i]] -= step;
                }
            }
            for set in 0..sets - 1 {
                for &item in (0..g).filter(|i| set >> i & 1 == 0).map(|i| &group[i]).chain(after) {
                    gradient[item] += reached[set] * (scores[item] - left[set]).exp();
                }
            }
        }
        -sums[sets - 1]
    }
}

impl Family for PlackettLuce {
    fn channels(&self) -> usize {
        self.items
    }

    fn width(&self) -> usize {
        self.items
    }

    fn bytes(&self, lanes: usize) -> f64 {
        16.0 * (lanes * self.items) as f64
    }

    /// The model is normalised: log Z = 0.
    fn upward(&self, _: &[f64], _: usize, _: Mode, _: &mut Work, out: &mut [f64]) {
        out.fill(0.0);
    }

    /// The probability that an item is the first.
    fn means(&self, scores: &[f64], lanes: usize, _: &mut Work, means: &mut [f64]) {
        for lane in 0..lanes {
            let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
            let all = log_sum_exp(&own);
            own.iter().enumerate().for_each(|(item, s)| means[item * lanes + lane] = (s - all).exp());
        }
    }

    fn decode(
        &self,
        scores: &[f64],
        (lane, lanes): (usize, usize),
        _: &mut Work,
        mut random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        // Scores with Gumbel noise have the order of a sample.
        let noisy: Vec<f64> = (0..self.items)
            .map(|item| scores[item * lanes + lane] + random.as_mut().map_or(0.0, |random| random.gumbel()))
            .collect();
        let mut items: Vec<u32> = (0..self.items as u32).collect();
        items.sort_by(|&a, &b| noisy[b as usize].total_cmp(&noisy[a as usize]));
        structure.copy_from_slice(&items);
    }

    fn features(&self, _: &[u32], _: &mut dyn FnMut(usize)) {}

    fn radius(&self) -> f64 {
        // Every place contributes a gradient of norm √2 at most.
        std::f64::consts::SQRT_2 * (self.items as f64 - 1.0).max(0.0)
    }

    fn log_count(&self) -> f64 {
        log_factorial(self.items)
    }

    fn score(&self, scores: &[f64], (lane, lanes): (usize, usize), structure: &[u32]) -> f64 {
        let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
        let mut ranks = vec![0; self.items];
        structure.iter().enumerate().for_each(|(place, &item)| ranks[item as usize] = place as u32 + 1);
        -self.loss(&own, &ranks, None)
    }

    fn losses(
        &self,
        scores: &mut [f64],
        targets: &Targets,
        rows: Range<usize>,
        _: &mut Work,
        out: &mut [f64],
    ) {
        let Targets::Ranks(ranks) = targets else { return };
        let lanes = rows.len();
        let mut gradient = vec![0.0; self.items];
        for (lane, row) in rows.enumerate() {
            let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
            out[lane] = self.loss(&own, ranks.row(row), Some(&mut gradient));
            gradient.iter().enumerate().for_each(|(item, g)| scores[item * lanes + lane] = *g);
        }
    }
}

/// Whether a ranking can be evaluated.
pub(crate) fn fits(ranks: &[u32]) -> bool {
    let groups = groups(ranks);
    groups.iter().rev().skip(1).all(|group| group.len() <= MOST_TIED)
}
