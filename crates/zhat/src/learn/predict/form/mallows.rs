//! The model of Mallows around a predicted order: p(π | x) ∝ exp(−s·d(π, π₀(x))), where d is Kendall's distance,
//! π₀ sorts the items by their scores, which are linear in the inputs, and s ≥ 0 is a constant.
//!
//! Z = Π_{k=1}^{n} (1 − e^{−ks})/(1 − e^{−s}). For items at distance k in π₀, the first comes first with
//! probability h(k + 1) − h(k), h(k) = k/(1 − e^{−ks}). Samples insert the items one after the other. Time n² per
//! row; partial rankings by sums over sets, up to 16 items.
//!
//! Reference: C. L. Mallows, *Non-null ranking models*, Biometrika 44 (1957).

use std::ops::Range;

use super::ranking::pair;
use super::{Family, Mode, Ranking, RankingScores, Work};
use crate::learn::predict::Targets;
use crate::learn::predict::targets::Ranks;
use crate::model::space::log_factorial;
use crate::random::Stream;

/// Orders near an order.
#[derive(Clone, Debug)]
pub(crate) struct Mallows {
    pub items: usize,
}

/// The items by decreasing score.
pub(crate) fn sorted(scores: impl Iterator<Item = f64>) -> Vec<u32> {
    let scores: Vec<f64> = scores.collect();
    let mut items: Vec<u32> = (0..scores.len() as u32).collect();
    items.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]));
    items
}

/// ln Z and its derivative in s.
pub(crate) fn log_partition(items: usize, spread: f64) -> (f64, f64) {
    let (mut value, mut slope) = (0.0, 0.0);
    for k in 1..=items {
        // ln Σ_{j<k} e^{−js}, and minus the mean of j.
        let weights: Vec<f64> = (0..k).map(|j| (-(j as f64) * spread).exp()).collect();
        let total: f64 = weights.iter().sum();
        value += total.ln();
        slope -= weights.iter().enumerate().map(|(j, w)| j as f64 * w).sum::<f64>() / total;
    }
    (value, slope)
}

/// The number of pairs that two orders, given by the places of the items, put in different order.
pub(crate) fn kendall_distance(a: &[usize], b: &[usize]) -> f64 {
    let n = a.len();
    let pairs = (0..n).flat_map(|i| (i + 1..n).map(move |j| (i, j)));
    pairs.filter(|&(i, j)| (a[i] < a[j]) != (b[i] < b[j])).count() as f64
}

/// The place of every item of an order.
pub(crate) fn places(order: &[u32]) -> Vec<usize> {
    let mut places = vec![0; order.len()];
    order.iter().enumerate().for_each(|(place, &item)| places[item as usize] = place);
    places
}

impl Mallows {
    fn centre(&self, scores: &[f64], (lane, lanes): (usize, usize)) -> Vec<u32> {
        sorted((0..self.items).map(|item| scores[item * lanes + lane]))
    }

    /// ln p of a ranking; for a partial one, of all orders that extend it.
    fn log_probability(&self, centre: &[u32], spread: f64, ranks: &[u32], work: &mut Work) -> f64 {
        let (log_z, _) = log_partition(self.items, spread);
        let own = places(centre);
        if let Some(order) = Ranks::order(ranks) {
            return -spread * kendall_distance(&own, &places(&order)) - log_z;
        }
        let n = self.items;
        let Ok(ranking) = Ranking::new(n, RankingScores::Precedence) else { return f64::NAN };
        let mut scores = vec![0.0; ranking.channels()];
        let mut offset = 0.0;
        for i in 0..n {
            for j in i + 1..n {
                // The pair costs s if it is not in the order of the centre.
                if own[i] < own[j] {
                    scores[pair(i, j, n)] = spread;
                    offset -= spread;
                } else {
                    scores[pair(i, j, n)] = -spread;
                }
            }
        }
        ranking.restricted(&scores, ranks, work, None) + offset - log_z
    }

    /// P(i before j), n × n.
    pub fn precedences(&self, scores: &[f64], at: (usize, usize)) -> Vec<f64> {
        let n = self.items;
        let own = places(&self.centre(scores, at));
        let spread = scores[n * at.1 + at.0];
        let h = |k: f64| k / -(-k * spread).exp_m1();
        let mut table = vec![0.0; n * n];
        for i in 0..n {
            for j in (0..n).filter(|&j| own[i] < own[j]) {
                let k = (own[j] - own[i]) as f64;
                // h has a pole at s = 0, where both orders are equally likely.
                let p = if spread < 1e-9 { 0.5 } else { h(k + 1.0) - h(k) };
                (table[i * n + j], table[j * n + i]) = (p, 1.0 - p);
            }
        }
        table
    }
}

impl Family for Mallows {
    /// One score per item, and s.
    fn channels(&self) -> usize {
        self.items + 1
    }

    fn width(&self) -> usize {
        self.items
    }

    fn bytes(&self, lanes: usize) -> f64 {
        16.0 * (lanes * self.items) as f64
    }

    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, _: &mut Work, out: &mut [f64]) {
        for (lane, out) in out.iter_mut().enumerate() {
            let spread = scores[self.items * lanes + lane];
            *out = if mode == Mode::Sum { log_partition(self.items, spread).0 } else { 0.0 };
        }
    }

    fn means(&self, _: &[f64], _: usize, _: &mut Work, means: &mut [f64]) {
        means.fill(0.0);
    }

    fn decode(
        &self,
        scores: &[f64],
        at: (usize, usize),
        _: &mut Work,
        random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        let centre = self.centre(scores, at);
        let Some(random) = random else {
            structure.copy_from_slice(&centre);
            return;
        };
        let spread = scores[self.items * at.1 + at.0];
        // The k-th item of the centre is inserted so that j of the items before it come after it.
        let mut order: Vec<u32> = Vec::with_capacity(self.items);
        for (k, &item) in centre.iter().enumerate() {
            let weights: Vec<f64> = (0..=k).map(|j| (-(j as f64) * spread).exp()).collect();
            order.insert(k - random.categorical(&weights), item);
        }
        structure.copy_from_slice(&order);
    }

    fn features(&self, _: &[u32], _: &mut dyn FnMut(usize)) {}

    fn radius(&self) -> f64 {
        let n = self.items as f64;
        0.25 * n * (n - 1.0)
    }

    fn log_count(&self) -> f64 {
        log_factorial(self.items)
    }

    fn score(&self, scores: &[f64], at: (usize, usize), structure: &[u32]) -> f64 {
        let own = places(&self.centre(scores, at));
        -scores[self.items * at.1 + at.0] * kendall_distance(&own, &places(structure))
    }

    /// The losses; their gradients are not used.
    fn losses(
        &self,
        scores: &mut [f64],
        targets: &Targets,
        rows: Range<usize>,
        work: &mut Work,
        out: &mut [f64],
    ) {
        let Targets::Ranks(ranks) = targets else { return };
        let lanes = rows.len();
        for (lane, row) in rows.enumerate() {
            let centre = self.centre(scores, (lane, lanes));
            let spread = scores[self.items * lanes + lane];
            out[lane] = -self.log_probability(&centre, spread, ranks.row(row), work);
        }
        scores.fill(0.0);
    }
}

/// The s ≥ 0 that minimises s·(mean distance) + ln Z(s) + λs², a convex function, by bisection of its slope.
pub(crate) fn best_spread(items: usize, mean_distance: f64, lambda: f64) -> f64 {
    let slope = |spread: f64| mean_distance + log_partition(items, spread).1 + 2.0 * lambda * spread;
    if slope(0.0) >= 0.0 {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, 1.0);
    while slope(high) < 0.0 && high < 1e3 {
        (low, high) = (high, 2.0 * high);
    }
    for _ in 0..100 {
        let middle = 0.5 * (low + high);
        if slope(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}
