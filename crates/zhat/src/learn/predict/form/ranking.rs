//! Orders of n items with scores of items at positions or of pairs of items, summed exactly over sets.
//!
//! f(S) sums over the orders of the first |S| positions that use the items S: f(S) = Σ_{i ∈ S} f(S∖i)·e^{e(S∖i, i)},
//! where e(T, i) is the score of placing i after the items T: that of i at position |T|, or the sum of the
//! scores of its pairs with T. The probability of passing from T to T∪i follows backwards from the whole set.
//! A partial ranking (ties, top k, unranked items) allows i after T only if T contains every item ranked
//! before i; its probability is the sum over the orders that extend it, divided by Z. Time 2ⁿ·n² per row,
//! memory 2ⁿ.

use std::ops::Range;

use super::{Family, Mode, Work, filled};
use crate::error::{Error, Result};
use crate::learn::predict::Targets;
use crate::learn::predict::targets::Ranks;
use crate::model::space::log_factorial;
use crate::numeric::{Elementwise, exp_in_place, log_sum_exp_over_slabs};
use crate::random::Stream;

/// Maximum number of items for sums over all sets.
pub(crate) const MOST_ITEMS: usize = 16;

/// The scores of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RankingScores {
    /// One per item and position.
    Positions,
    /// One per pair i < j, for i before j.
    Precedence,
}

/// Orders of items.
#[derive(Clone, Debug)]
pub(crate) struct Ranking {
    items: usize,
    scores: RankingScores,
}

/// The index of the pair i < j of n elements.
pub(crate) fn pair(i: usize, j: usize, n: usize) -> usize {
    i * n - i * (i + 1) / 2 + j - i - 1
}

/// The items of a set.
fn items_of(set: usize) -> impl Iterator<Item = usize> {
    (0..usize::BITS as usize).take_while(move |&i| set >> i != 0).filter(move |&i| set >> i & 1 == 1)
}

impl Ranking {
    /// Orders of this many items.
    ///
    /// # Errors
    /// If there are too many items.
    pub fn new(items: usize, scores: RankingScores) -> Result<Self> {
        if items > MOST_ITEMS {
            return Err(Error::OverBudget {
                needs: format!("sums over all sets of {items} items"),
                budget: format!(
                    "{MOST_ITEMS} items; sampled gradients would work, and plackett-luce takes any number of items"
                ),
                fitting: Vec::new(),
            });
        }
        Ok(Ranking { items, scores })
    }

    /// Any number of items, without sums: only the features are known.
    pub fn shape(items: usize, scores: RankingScores) -> Self {
        Ranking { items, scores }
    }

    /// e(T, i).
    fn edge(&self, scores: &[f64], lanes: usize, set: usize, item: usize, out: &mut [f64]) {
        let n = self.items;
        match self.scores {
            RankingScores::Positions => {
                let position = set.count_ones() as usize;
                out.copy_from_slice(&scores[(item * n + position) * lanes..][..lanes]);
            }
            RankingScores::Precedence => {
                out.fill(0.0);
                for other in items_of(set).take_while(|&other| other < item) {
                    f64::add_to(out, &scores[pair(other, item, n) * lanes..][..lanes]);
                }
            }
        }
    }

    /// Calls `visit` with the channels of e(T, i).
    fn channels_of(&self, set: usize, item: usize, mut visit: impl FnMut(usize)) {
        let n = self.items;
        match self.scores {
            RankingScores::Positions => visit(item * n + set.count_ones() as usize),
            RankingScores::Precedence => {
                items_of(set).take_while(|&other| other < item).for_each(|other| visit(pair(other, item, n)));
            }
        }
    }

    /// f(S) for all S, in `work.messages`; `before` restricts the orders.
    fn sums(&self, scores: &[f64], lanes: usize, mode: Mode, before: Option<&[u32]>, work: &mut Work) {
        let n = self.items;
        let sums = filled(&mut work.messages, lanes << n, f64::NEG_INFINITY);
        sums[..lanes].fill(0.0);
        let slabs = filled(&mut work.table, n * lanes, 0.0);
        for set in 1..1usize << n {
            let mut count = 0;
            for item in items_of(set) {
                let rest = set & !(1 << item);
                if before.is_some_and(|before| before[item] as usize & !rest != 0) {
                    continue;
                }
                let slab = &mut slabs[count * lanes..][..lanes];
                self.edge(scores, lanes, rest, item, slab);
                f64::add_to(slab, &sums[rest * lanes..][..lanes]);
                count += 1;
            }
            if count == 0 {
                continue;
            }
            let own = &mut sums[set * lanes..][..lanes];
            match mode {
                Mode::Sum => log_sum_exp_over_slabs(&slabs[..count * lanes], own),
                Mode::Max => {
                    for slab in slabs[..count * lanes].chunks_exact(lanes) {
                        own.iter_mut().zip(slab).for_each(|(own, &x)| *own = own.max(x));
                    }
                }
            }
        }
    }

    /// Visits every step with its probability in each row: the set before it, the item, the probabilities.
    fn steps(
        &self,
        scores: &[f64],
        lanes: usize,
        before: Option<&[u32]>,
        work: &mut Work,
        mut visit: impl FnMut(usize, usize, &[f64]),
    ) {
        let n = self.items;
        let reached = filled(&mut work.beliefs, lanes << n, 0.0);
        let all = (1usize << n) - 1;
        reached[all * lanes..].fill(1.0);
        let share = filled(&mut work.row, lanes, 0.0);
        for set in (1..=all).rev() {
            for item in items_of(set) {
                let rest = set & !(1 << item);
                if before.is_some_and(|before| before[item] as usize & !rest != 0) {
                    continue;
                }
                self.edge(scores, lanes, rest, item, share);
                let (own, previous) =
                    (&work.messages[set * lanes..][..lanes], &work.messages[rest * lanes..][..lanes]);
                for lane in 0..lanes {
                    // Sets that no order reaches have no sum.
                    let impossible = own[lane] == f64::NEG_INFINITY || previous[lane] == f64::NEG_INFINITY;
                    share[lane] =
                        if impossible { f64::NEG_INFINITY } else { share[lane] + previous[lane] - own[lane] };
                }
                exp_in_place(share);
                let (earlier, later) = reached.split_at_mut(set * lanes);
                for lane in 0..lanes {
                    share[lane] *= later[lane];
                }
                f64::add_to(&mut earlier[rest * lanes..][..lanes], share);
                visit(rest, item, share);
            }
        }
    }

    fn add_means(
        &self,
        scores: &[f64],
        lanes: usize,
        before: Option<&[u32]>,
        work: &mut Work,
        means: &mut [f64],
    ) {
        self.steps(scores, lanes, before, work, |set, item, share| {
            self.channels_of(set, item, |channel| {
                f64::add_to(&mut means[channel * lanes..][..lanes], share);
            });
        });
    }

    /// P(i before j) for every row, as an n × n table, after an upward pass with sums.
    pub fn precedences(&self, scores: &[f64], lanes: usize, work: &mut Work) -> Vec<f64> {
        let n = self.items;
        let mut table = vec![0.0; n * n * lanes];
        self.steps(scores, lanes, None, work, |set, item, share| {
            for other in items_of(set) {
                f64::add_to(&mut table[(other * n + item) * lanes..][..lanes], share);
            }
        });
        table
    }

    /// ln of the sum over the orders that extend a partial ranking, and the means of the features given it
    /// if wanted, for one row.
    pub fn restricted(
        &self,
        scores: &[f64],
        ranks: &[u32],
        work: &mut Work,
        means: Option<&mut [f64]>,
    ) -> f64 {
        let before = Ranks::before(ranks);
        self.sums(scores, 1, Mode::Sum, Some(&before), work);
        let value = work.messages.last().copied().unwrap_or(0.0);
        if let Some(means) = means {
            means.fill(0.0);
            self.add_means(scores, 1, Some(&before), work, means);
        }
        value
    }
}

impl Family for Ranking {
    fn channels(&self) -> usize {
        match self.scores {
            RankingScores::Positions => self.items * self.items,
            RankingScores::Precedence => self.items * (self.items - 1) / 2,
        }
    }

    fn width(&self) -> usize {
        self.items
    }

    fn bytes(&self, lanes: usize) -> f64 {
        16.0 * lanes as f64 * (self.items as f64).exp2()
    }

    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, work: &mut Work, out: &mut [f64]) {
        self.sums(scores, lanes, mode, None, work);
        let last = work.messages.len() - lanes;
        out.copy_from_slice(&work.messages[last..]);
    }

    fn means(&self, scores: &[f64], lanes: usize, work: &mut Work, means: &mut [f64]) {
        means.fill(0.0);
        self.add_means(scores, lanes, None, work, means);
    }

    fn decode(
        &self,
        scores: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        mut random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        let n = self.items;
        let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
        let mut set = (1usize << n) - 1;
        let mut edge = [0.0];
        for place in (0..n).rev() {
            let items: Vec<usize> = items_of(set).collect();
            let mut weights: Vec<f64> = items
                .iter()
                .map(|&item| {
                    let rest = set & !(1 << item);
                    self.edge(&own, 1, rest, item, &mut edge);
                    edge[0] + work.messages[rest * lanes + lane]
                })
                .collect();
            let chosen = match &mut random {
                Some(random) => {
                    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    weights.iter_mut().for_each(|w| *w = (*w - most).exp());
                    random.categorical(&weights)
                }
                None => {
                    (0..items.len()).rev().max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0)
                }
            };
            structure[place] = items[chosen] as u32;
            set &= !(1 << items[chosen]);
        }
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        let n = self.items;
        for (place, &item) in structure.iter().enumerate() {
            match self.scores {
                RankingScores::Positions => add(item as usize * n + place),
                RankingScores::Precedence => {
                    let lower = structure[..place].iter().filter(|other| **other < item);
                    lower.for_each(|&other| add(pair(other as usize, item as usize, n)));
                }
            }
        }
    }

    fn radius(&self) -> f64 {
        let n = self.items as f64;
        match self.scores {
            // ‖φ‖² = n; the mean of all φ has norm 1 and inner product 1 with every φ.
            RankingScores::Positions => (n - 1.0).max(0.0).sqrt(),
            RankingScores::Precedence => 0.5 * (self.channels() as f64).sqrt(),
        }
    }

    fn log_count(&self) -> f64 {
        log_factorial(self.items)
    }

    fn losses(
        &self,
        scores: &mut [f64],
        targets: &Targets,
        rows: Range<usize>,
        work: &mut Work,
        out: &mut [f64],
    ) {
        let (lanes, channels) = (rows.len(), self.channels());
        self.upward(scores, lanes, Mode::Sum, work, out);
        let mut means = vec![0.0; channels * lanes];
        self.means(scores, lanes, work, &mut means);
        let Targets::Ranks(ranks) = targets else { return };
        let mut given = vec![0.0; channels];
        for (lane, row) in rows.enumerate() {
            match Ranks::order(ranks.row(row)) {
                Some(order) => self.features(&order, &mut |channel| {
                    out[lane] -= scores[channel * lanes + lane];
                    means[channel * lanes + lane] -= 1.0;
                }),
                None => {
                    let own: Vec<f64> = scores.iter().skip(lane).step_by(lanes).copied().collect();
                    out[lane] -= self.restricted(&own, ranks.row(row), work, Some(&mut given));
                    given
                        .iter()
                        .enumerate()
                        .for_each(|(channel, mean)| means[channel * lanes + lane] -= mean);
                }
            }
        }
        scores.copy_from_slice(&means);
    }
}
