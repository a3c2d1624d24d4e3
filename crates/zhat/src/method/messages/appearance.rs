//! A distribution over forests, and the appearance probability of each factor.
//!
//! The probabilities ρ_T are multiples of 2⁻³⁰, so that Σ_T ρ_T = 1 and ρ_f = Σ_{T∋f} ρ_T hold exactly. The
//! first forests cover all factors; each prefers the factors that were used least often before. Then a forest
//! can be added by scaling down the weights of the others (Frank–Wolfe). The derivative of the bound with
//! respect to ρ_f is −I_f, so the best forest to add is the one with the largest total multi-information
//! (Kruskal).
//!
//! Reference: M. J. Wainwright, T. S. Jaakkola, A. S. Willsky, *A new class of upper bounds on the log
//! partition function*, IEEE Transactions on Information Theory 51 (2005).

use super::forest::{Components, Forest};
use super::layout::Layout;
use crate::random::Streams;

/// The total weight of all forests.
const WHOLE: u32 = 1 << 30;

/// Number of factors that are shuffled as one block, so that neighbours stay together in the cache.
const BLOCK: u32 = 512;
/// The last bucket: factors whose weight is at least 2⁶⁴ times smaller than the largest.
const LIGHTEST: u64 = 512;

/// Sorts the factors by bucket; the sort is stable.
fn by_bucket(factors: impl Iterator<Item = u32> + Clone, bucket: impl Fn(u32) -> usize) -> Vec<u32> {
    let mut places: Vec<usize> = Vec::new();
    for f in factors.clone() {
        let b = bucket(f);
        if b + 1 >= places.len() {
            places.resize(b + 2, 0);
        }
        places[b + 1] += 1;
    }
    (1..places.len()).for_each(|b| places[b] += places[b - 1]);
    let mut order = vec![0; places.last().copied().unwrap_or_default()];
    for f in factors {
        let place = &mut places[bucket(f)];
        order[*place] = f;
        *place += 1;
    }
    order
}

/// Forests and their integer weights, in units of 1 / [`WHOLE`].
pub(crate) struct Appearance {
    pub forests: Vec<Forest>,
    parts: Vec<u32>,
}

impl Appearance {
    /// Creates at least `least` forests of equal probability that cover all factors. Once the forests have
    /// more than `room` steps in total, further forests contain only factors that are not covered yet.
    pub fn covering(layout: &Layout<'_>, least: usize, room: usize, seed: u64) -> Self {
        if let Some(whole) = Forest::whole(layout) {
            return Appearance { forests: vec![whole], parts: vec![WHOLE] };
        }
        let mut random = Streams::new(seed, "spanning forests").block(0);
        let mut components = Components::new(layout.variable_count());
        let count = layout.factor_count() as u32;
        let mut blocks: Vec<u32> = (0..count.div_ceil(BLOCK)).collect();
        let mut taken = vec![0u32; count as usize];
        let (mut forests, mut steps): (Vec<Forest>, usize) = (Vec::new(), 0);
        while forests.len() < least || taken.contains(&0) {
            random.shuffle(&mut blocks);
            let shuffled = blocks.iter().flat_map(|&b| b * BLOCK..count.min((b + 1) * BLOCK));
            let mut order = by_bucket(shuffled, |f| taken[f as usize] as usize);
            if steps > room {
                order.retain(|&f| taken[f as usize] == 0);
            }
            let forest = Forest::greedy(layout, order.into_iter(), &mut components);
            forest.steps.iter().for_each(|step| taken[step.factor as usize] += 1);
            steps += forest.steps.len();
            forests.push(forest);
        }
        let count = forests.len() as u32;
        let parts = (0..count).map(|t| WHOLE / count + u32::from(t < WHOLE % count)).collect();
        Appearance { forests, parts }
    }

    /// ρ_T.
    pub fn weight(&self, t: usize) -> f64 {
        f64::from(self.parts[t]) / f64::from(WHOLE)
    }

    /// ρ_f of all factors.
    pub fn of_factors(&self, layout: &Layout<'_>) -> Vec<f64> {
        let mut weights = vec![0.0; layout.factor_count()];
        for (t, forest) in self.forests.iter().enumerate() {
            let own = self.weight(t);
            forest.steps.iter().for_each(|step| weights[step.factor as usize] += own);
        }
        weights
    }

    /// The total number of steps of the forests divided by the number of factors: the approximate cost of
    /// evaluating all forests, in sweeps.
    pub fn cost(&self, layout: &Layout<'_>) -> usize {
        let steps: usize = self.forests.iter().map(|forest| forest.steps.len()).sum();
        steps.div_ceil(layout.factor_count().max(1))
    }

    /// Adds the forest with the largest total `information` with the fraction `share` of all weight. Returns
    /// the previous weights, for [`Appearance::take_back`].
    pub fn add_heaviest(&mut self, layout: &Layout<'_>, information: &[f64], share: f64) -> Vec<u32> {
        // Sort by decreasing weight, to an eighth of a binary digit. Non-negative numbers have the same order
        // as their bit patterns.
        let weight = |f: u32| information[f as usize].max(0.0).to_bits() >> (f64::MANTISSA_DIGITS - 4);
        let all = 0..information.len() as u32;
        let most = all.clone().map(weight).max().unwrap_or_default();
        let order = by_bucket(all, |f| (most - weight(f)).min(LIGHTEST) as usize);
        let mut components = Components::new(layout.variable_count());
        let forest = Forest::greedy(layout, order.into_iter(), &mut components);
        let before = self.parts.clone();
        // No weight may become zero, because a factor may be in one forest only.
        self.parts.iter_mut().for_each(|part| *part = ((f64::from(*part) * (1.0 - share)) as u32).max(1));
        let rest: u32 = self.parts.iter().sum();
        self.parts.push(WHOLE.saturating_sub(rest));
        self.forests.push(forest);
        before
    }

    /// Reverts the last addition.
    pub fn take_back(&mut self, before: Vec<u32>) {
        self.forests.pop();
        self.parts = before;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, GraphShape, Grid};

    #[test]
    fn every_factor_appears_and_weights_sum_to_one() {
        let grid = generate::ising(Grid { rows: 6, columns: 7, torus: true }, 1.0, 1.0, false, 0).unwrap();
        let dense =
            generate::random(&GraphShape { variables: 12, factors: 60, arity: 3, ..Default::default() }, 1)
                .unwrap();
        let tree = generate::tree(20, 3, 1.0, 1).unwrap();
        for graph in [grid, dense, tree] {
            let layout = Layout::new(&graph).unwrap();
            let mut appearance = Appearance::covering(&layout, 3, 1000, 0);
            for k in 0..5 {
                let sum: f64 = (0..appearance.forests.len()).map(|t| appearance.weight(t)).sum();
                assert_eq!(sum, 1.0);
                let weights = appearance.of_factors(&layout);
                assert!(weights.iter().all(|&weight| weight > 0.0 && weight <= 1.0));
                let information: Vec<f64> = (0..weights.len()).map(|f| ((f + k) as f64).sin()).collect();
                appearance.add_heaviest(&layout, &information, 0.3);
            }
        }
    }
}
