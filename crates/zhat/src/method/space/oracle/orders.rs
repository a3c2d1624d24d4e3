//! Sums over all orders of n items whose weight is a product of steps, where each step depends on the set of
//! preceding items.
//!
//!   F(∅) = 1,   F(S) = Σ_{i∈S} F(S∖i)·exp w(S∖i, i),   Z = F(all),
//!
//! computed in logarithms. All terms are positive, so nothing cancels, unlike in Ryser's formula for the
//! permanent. With w = A\[i, |S∖i|\] this is the permanent of exp A (position scores); with w = Σ_{j∈S∖i}
//! B\[j, i\] it is the sum over precedences. Time O(2ⁿ n). Memory: two layers of C(n, n/2) sets for log Z,
//! all 2ⁿ sets for samples, the best order and expectations.

use super::conditions::Order;
use super::layers::{Layers, Scratch, elements};
use super::ranked::search;
use crate::error::Result;
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// log weights of the steps.
pub(super) struct Steps {
    weights: Weights,
    /// The steps that are allowed.
    order: Option<Order>,
}

enum Weights {
    /// A\[item, position\].
    Position { matrix: Vec<f64>, n: usize },
    /// Sums of B\[·, item\] over the bits of each byte of the set.
    Precedence { sums: Vec<f64>, bytes: usize },
}

impl Steps {
    pub fn position(matrix: Vec<f64>, n: usize, order: Option<Order>) -> Self {
        Steps { weights: Weights::Position { matrix, n }, order }
    }

    pub fn precedence(matrix: &[f64], n: usize, order: Option<Order>) -> Self {
        let bytes = n.div_ceil(8);
        let mut sums = vec![0.0; n * bytes * 256];
        for (row, table) in sums.chunks_mut(256).enumerate() {
            let (item, byte) = (row / bytes, row % bytes);
            for set in 1..256usize {
                let low = set.trailing_zeros() as usize;
                let before = 8 * byte + low;
                let own = if before < n { matrix[before * n + item] } else { 0.0 };
                table[set] = table[set & (set - 1)] + own;
            }
        }
        Steps { weights: Weights::Precedence { sums, bytes }, order }
    }

    /// w(before, item); −∞ if the step is not allowed.
    fn weight(&self, before: u64, item: usize) -> f64 {
        if self.order.as_ref().is_some_and(|order| !order.allows(before, item)) {
            return f64::NEG_INFINITY;
        }
        match &self.weights {
            Weights::Position { matrix, n } => matrix[item * n + before.count_ones() as usize],
            Weights::Precedence { sums, bytes } => {
                let own = &sums[item * bytes * 256..(item + 1) * bytes * 256];
                own.chunks(256).enumerate().map(|(b, table)| table[(before >> (8 * b) & 255) as usize]).sum()
            }
        }
    }
}

/// The layers of F: all, or the last two.
pub(super) struct Orders {
    steps: Steps,
    layers: Layers,
    n: usize,
    /// Layer k; empty if it was not kept.
    forward: Vec<Vec<f64>>,
    best: bool,
}

impl Orders {
    /// Computes sums, or with `best` maxima. With `keep`, all layers are kept.
    pub fn new(steps: Steps, n: usize, best: bool, keep: bool, clock: &Clock<'_>) -> Result<Self> {
        let layers = Layers::new(n);
        let mut forward: Vec<Vec<f64>> = vec![vec![0.0]];
        for k in 1..=n {
            let mut layer = vec![0.0; layers.count(k)];
            let before = &forward[k - 1];
            layers.fill(k, 1, &mut layer, clock, |set, slot, scratch| {
                terms(&steps, &layers, before, set, scratch);
                slot[0] = combine(&scratch.terms, best);
            })?;
            forward.push(layer);
            if !keep {
                forward[k - 1] = Vec::new();
            }
            clock.progress("sets", k as u64, n as u64);
        }
        Ok(Orders { steps, layers, n, forward, best })
    }

    /// log Z, or the largest score.
    pub fn total(&self) -> f64 {
        self.forward[self.n][0]
    }

    /// Traces back from the whole set: a random order, or the best one.
    pub fn order(&self, mut random: Option<&mut Stream>, order: &mut [u32]) {
        let mut scratch = Scratch { terms: Vec::new(), places: [0; super::layers::MOST] };
        let mut set = if self.n == 0 { 0 } else { u64::MAX >> (64 - self.n) };
        for k in (1..=self.n).rev() {
            terms(&self.steps, &self.layers, &self.forward[k - 1], set, &mut scratch);
            let chosen = match &mut random {
                Some(random) => categorical(random, &mut scratch.terms),
                None => argmax(&scratch.terms),
            };
            let item = elements(set).nth(chosen).unwrap_or(0);
            order[k - 1] = item as u32;
            set &= !(1 << item);
        }
    }

    /// The k best orders, from the tables of maxima.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
        debug_assert!(self.best);
        let all = if self.n == 0 { 0 } else { u64::MAX >> (64 - self.n) };
        let mut scratch = Scratch { terms: Vec::new(), places: [0; super::layers::MOST] };
        // The remaining set, the item that was removed, and the score of the items after it.
        let found = search(vec![(self.total(), (all, 0, 0.0))], k, clock, |&(set, _, behind), children| {
            let size = set.count_ones() as usize;
            if size == 0 {
                return;
            }
            terms(&self.steps, &self.layers, &self.forward[size - 1], set, &mut scratch);
            for (term, item) in scratch.terms.iter().zip(elements(set)) {
                let rest = set & !(1 << item);
                children.push((behind + term, (rest, item, behind + self.steps.weight(rest, item))));
            }
        })?;
        let order = |path: Vec<(u64, usize, f64)>| -> Vec<u32> {
            path.iter().skip(1).rev().map(|state| state.1 as u32).collect()
        };
        Ok(found.into_iter().map(order).collect())
    }

    /// Calls `show` with the probability of each step: P(the items of `before` come first, then this one).
    pub fn steps(&self, clock: &Clock<'_>, mut show: impl FnMut(u64, usize, f64)) -> Result<()> {
        debug_assert!(!self.best);
        let total = self.total();
        let mut after = vec![0.0];
        let mut scratch = Scratch { terms: Vec::new(), places: [0; super::layers::MOST] };
        for k in (1..=self.n).rev() {
            clock.check()?;
            let before = &self.forward[k - 1];
            for (place, set) in self.layers.sets(k).enumerate() {
                if place % 1024 == 1023 {
                    clock.check()?;
                }
                terms(&self.steps, &self.layers, before, set, &mut scratch);
                for (t, item) in elements(set).enumerate() {
                    let probability = (scratch.terms[t] + after[place] - total).exp();
                    show(set & !(1 << item), item, probability.min(1.0));
                }
            }
            let mut outside = vec![0.0; before.len()];
            let all = if self.n == 0 { 0 } else { u64::MAX >> (64 - self.n) };
            self.layers.fill(k - 1, 1, &mut outside, clock, |set, slot, scratch| {
                scratch.terms.clear();
                for item in elements(all & !set) {
                    let place = self.layers.place(set | 1 << item);
                    scratch.terms.push(self.steps.weight(set, item) + after[place]);
                }
                slot[0] = numeric::log_sum_exp(&scratch.terms);
            })?;
            after = outside;
        }
        Ok(())
    }
}

/// The terms of F(S), in ascending order of the last item.
fn terms(steps: &Steps, layers: &Layers, before: &[f64], set: u64, scratch: &mut Scratch) {
    layers.places_without(set, &mut scratch.places);
    scratch.terms.clear();
    for (t, item) in elements(set).enumerate() {
        scratch.terms.push(before[scratch.places[t]] + steps.weight(set & !(1 << item), item));
    }
}

/// ln Σ exp, or the maximum.
pub(super) fn combine(terms: &[f64], best: bool) -> f64 {
    if best { numeric::max(terms) } else { numeric::log_sum_exp(terms) }
}

/// The index of the maximum.
pub(super) fn argmax(terms: &[f64]) -> usize {
    let mut best = 0;
    for (i, x) in terms.iter().enumerate() {
        if *x > terms[best] {
            best = i;
        }
    }
    best
}

/// A random index with probability ∝ exp(term). The terms are replaced by weights.
pub(super) fn categorical(random: &mut Stream, terms: &mut [f64]) -> usize {
    let largest = numeric::max(terms);
    terms.iter_mut().for_each(|x| *x = (*x - largest).exp());
    random.categorical(terms)
}
