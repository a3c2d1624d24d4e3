//! Random selection of a few states such that weighted sums over them are unbiased.
//!
//! A proposal q ≥ 0 over N states estimates the importance of each state. A selection is a set Ω of about K
//! states with weights w such that E[Σ_{i∈Ω} wᵢ fᵢ] = Σᵢ fᵢ for every f that vanishes where q does.
//!
//! - *Threshold* (Fearnhead & Clifford 2003): let c satisfy Σᵢ min(1, qᵢ/c) = K. Each state with qᵢ ≥ c is
//!   kept with weight 1. Each other state i is chosen with probability qᵢ/c and gets weight c/qᵢ, by
//!   systematic sampling: steps of length 1 from a random start through the cumulative probabilities. No
//!   state is chosen twice. If q is proportional to f, the sum has zero variance; if f/q varies slowly in the
//!   order of the states, the variance is small.
//! - *Draws* (Fu, Cunningham & Lapata 2022): the K₁ states with the largest q get weight 1; K₂ = K − K₁
//!   independent draws from the others get weight S/(K₂ qᵢ) each, where S is the sum of q over the others.
//!   The paper omits S; without it the sum is biased.
//! - *Top*: the K states with the largest q and no others. Biased, because the remaining terms are always
//!   dropped.
//!
//! Proposals are given as logarithms, up to a constant; −∞ is never chosen. If at most K states are possible,
//! all of them are chosen with weight 1. Time O(N) expected (and O(K log K) for draws), memory O(N).

use serde::{Deserialize, Serialize};

use crate::numeric;
use crate::random::Stream;

/// How states are chosen from a proposal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// The likely states with certainty, the others by systematic sampling.
    #[default]
    Threshold,
    /// The most likely states with certainty, and independent draws from the others.
    Draws,
    /// Only the most likely states; biased.
    Top,
}

/// States chosen from a proposal, in ascending order without repetition, and the logarithms of their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chosen {
    /// The states.
    pub states: Vec<u32>,
    /// log wᵢ; 0 for states kept with certainty.
    pub log_weights: Vec<f64>,
}

impl Chosen {
    fn push(&mut self, state: usize, log_weight: f64) {
        self.states.push(state as u32);
        self.log_weights.push(log_weight);
    }

    /// Adds a state that was not chosen.
    pub(crate) fn insert(&mut self, state: u32, log_weight: f64) {
        let at = self.states.partition_point(|&chosen| chosen < state);
        self.states.insert(at, state);
        self.log_weights.insert(at, log_weight);
    }

    fn sort(&mut self) {
        let mut pairs: Vec<(u32, f64)> = self.states.drain(..).zip(self.log_weights.drain(..)).collect();
        pairs.sort_unstable_by_key(|pair| pair.0);
        (self.states, self.log_weights) = pairs.into_iter().unzip();
    }
}

/// The order in which systematic sampling traverses the states.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Order<'a> {
    /// By state number, if nothing is known about the states.
    Number,
    /// By their proposals.
    Proposal,
    /// In bands of similar features. Within each band by proposal, alternately ascending and descending.
    Bands(&'a [f64]),
}

impl Selection {
    /// Whether weighted sums over the chosen states are unbiased.
    pub fn is_unbiased(self) -> bool {
        self != Selection::Top
    }

    /// Chooses about `count` ≥ 1 states. `draws` keeps `top` < `count` of them with certainty.
    ///
    /// ```
    /// use zhat::random::Streams;
    /// use zhat::dynamic::Selection;
    /// let log_proposal = [0.0, -1.0, f64::NEG_INFINITY, -2.0];
    /// let mut random = Streams::new(1, "an example").block(0);
    /// let chosen = Selection::Threshold.choose(&log_proposal, 2, 0, &mut random);
    /// assert_eq!(chosen.states.len(), 2);
    /// assert!(!chosen.states.contains(&2));
    /// ```
    pub fn choose(self, log_proposal: &[f64], count: usize, top: usize, random: &mut Stream) -> Chosen {
        self.choose_in(Order::Number, log_proposal, count, top, random)
    }

    /// The same, with systematic sampling in the given order.
    pub(crate) fn choose_in(
        self,
        order: Order<'_>,
        log_proposal: &[f64],
        count: usize,
        top: usize,
        random: &mut Stream,
    ) -> Chosen {
        let possible = log_proposal.iter().filter(|&&q| q > f64::NEG_INFINITY).count();
        if possible <= count {
            let mut chosen = Chosen::default();
            let states = log_proposal.iter().enumerate().filter(|&(_, &q)| q > f64::NEG_INFINITY);
            states.for_each(|(i, _)| chosen.push(i, 0.0));
            return chosen;
        }
        match self {
            Selection::Threshold => threshold(log_proposal, count, order, random),
            Selection::Draws => draws(log_proposal, top.min(count - 1), count, random),
            Selection::Top => {
                let mut chosen = Chosen::default();
                let mut order = possible_states(log_proposal);
                largest_first(&mut order, log_proposal, count);
                order[..count].iter().for_each(|&i| chosen.push(i as usize, 0.0));
                chosen.sort();
                chosen
            }
        }
    }
}

fn possible_states(log_proposal: &[f64]) -> Vec<u32> {
    let states = 0..log_proposal.len() as u32;
    states.filter(|&i| log_proposal[i as usize] > f64::NEG_INFINITY).collect()
}

/// The `count` possible states with the largest proposals, or all if there are fewer; of equal ones the first.
pub(crate) fn largest(log_proposal: &[f64], count: usize) -> Vec<u32> {
    let mut order = possible_states(log_proposal);
    largest_first(&mut order, log_proposal, count);
    order.truncate(count);
    order
}

/// Moves the `count` states with the largest proposal to the front. Ties go to the lower state number.
fn largest_first(order: &mut [u32], log_proposal: &[f64], count: usize) {
    if count > 0 && count < order.len() {
        let key = |i: u32| log_proposal[i as usize];
        order.select_nth_unstable_by(count - 1, |&a, &b| key(b).total_cmp(&key(a)).then(a.cmp(&b)));
    }
}

/// Requires that more than `count` states are possible.
fn threshold(log_proposal: &[f64], mut count: usize, order: Order<'_>, random: &mut Stream) -> Chosen {
    let mut chosen = Chosen::default();
    let mut shift = numeric::max(log_proposal);
    let mut proposal: Vec<f64> = log_proposal.iter().map(|q| q - shift).collect();
    numeric::exp_in_place(&mut proposal);
    // If the scores are so far apart that all but a few proposals underflow relative to the largest, those
    // few are kept with certainty and the others are compared among themselves.
    loop {
        let positive = proposal.iter().filter(|&&q| q > 0.0).count();
        if positive > count {
            break;
        }
        let kept = proposal.iter().enumerate().filter(|&(_, &q)| q > 0.0);
        kept.for_each(|(i, _)| chosen.push(i, 0.0));
        count -= positive;
        if count == 0 {
            chosen.sort();
            return chosen;
        }
        let floor = shift;
        for (q, &log) in proposal.iter_mut().zip(log_proposal) {
            *q = if *q > 0.0 || log > floor { f64::NEG_INFINITY } else { log };
        }
        shift = numeric::max(&proposal);
        proposal.iter_mut().for_each(|q| *q -= shift);
        numeric::exp_in_place(&mut proposal);
    }
    let level = inclusion_level(&proposal, count);
    let log_level = level.ln() + shift;
    let mut tail = Vec::new();
    for (i, &q) in proposal.iter().enumerate() {
        if q >= level {
            chosen.push(i, 0.0);
        } else if q > 0.0 {
            tail.push(i as u32);
        }
    }
    arrange(&mut tail, order, log_proposal, |i| proposal[i as usize] / level);
    let mut next = random.uniform();
    let mut sum = 0.0;
    for i in tail {
        sum += proposal[i as usize] / level;
        if sum > next {
            chosen.push(i as usize, log_level - log_proposal[i as usize]);
            next += 1.0;
        }
    }
    chosen.sort();
    chosen
}

/// Sorts the states so that similar ones are adjacent.
fn arrange(states: &mut [u32], order: Order<'_>, log_proposal: &[f64], inclusion: impl Fn(u32) -> f64) {
    match order {
        Order::Number => {}
        Order::Proposal => sort_by(states, log_proposal),
        Order::Bands(features) => {
            sort_by(states, features);
            // The number of bands equals the expected number of chosen states per band.
            let total: f64 = states.iter().map(|&i| inclusion(i)).sum();
            let width = total / total.sqrt().ceil().max(1.0);
            let (mut sum, mut end, mut start, mut upward) = (0.0, width, 0, true);
            for at in 0..states.len() {
                sum += inclusion(states[at]);
                if sum >= end || at + 1 == states.len() {
                    sort_by(&mut states[start..=at], log_proposal);
                    if !upward {
                        states[start..=at].reverse();
                    }
                    (start, end, upward) = (at + 1, end + width, !upward);
                }
            }
        }
    }
}

/// Sorts by a key per state, in single precision: speed matters more here than an exact order.
fn sort_by(states: &mut [u32], keys: &[f64]) {
    let rank = |i: u32| {
        let bits = (keys[i as usize] as f32).to_bits();
        let ordered = if bits >> 31 == 0 { bits | 1 << 31 } else { !bits };
        u64::from(ordered) << 32 | u64::from(i)
    };
    let mut ranks: Vec<u64> = states.iter().map(|&i| rank(i)).collect();
    ranks.sort_unstable();
    states.iter_mut().zip(&ranks).for_each(|(state, &rank)| *state = rank as u32);
}

/// The c with Σᵢ min(1, qᵢ/c) = `count`. More than `count` of the qᵢ must be positive.
///
/// The left side decreases in c, so one evaluation tells on which side of c a pivot lies. If the pivot is
/// above c, all larger numbers are counted; if it is below c, all smaller ones are summed. The search
/// continues among the rest, as in quickselect.
fn inclusion_level(proposal: &[f64], count: usize) -> f64 {
    let mut rest: Vec<f64> = proposal.iter().copied().filter(|&q| q > 0.0).collect();
    let (mut above, mut below) = (0, 0.0);
    let mut place = 0x9e37_79b9_7f4a_7c15u64;
    while !rest.is_empty() {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let pivot = rest[((place >> 33) as usize) % rest.len()];
        let (mut larger, mut smaller, mut equal) = (0, 0.0, 0);
        for &q in &rest {
            larger += usize::from(q > pivot);
            equal += usize::from(q == pivot);
            smaller += if q < pivot { q } else { 0.0 };
        }
        let certain = above + larger + equal;
        if certain as f64 + (below + smaller) / pivot >= count as f64 {
            below += smaller + equal as f64 * pivot;
            rest.retain(|&q| q > pivot);
        } else {
            above = certain;
            rest.retain(|&q| q < pivot);
        }
    }
    below / (count - above) as f64
}

/// Requires that more than `count` > `top` states are possible.
fn draws(log_proposal: &[f64], top: usize, count: usize, random: &mut Stream) -> Chosen {
    let mut order = possible_states(log_proposal);
    largest_first(&mut order, log_proposal, top);
    let mut chosen = Chosen::default();
    order[..top].iter().for_each(|&i| chosen.push(i as usize, 0.0));
    let tail = &mut order[top..];
    tail.sort_unstable();
    let mut proposal: Vec<f64> = tail.iter().map(|&i| log_proposal[i as usize]).collect();
    let shift = numeric::max(&proposal);
    proposal.iter_mut().for_each(|q| *q -= shift);
    numeric::exp_in_place(&mut proposal);
    let total: f64 = proposal.iter().sum();
    let number = count - top;
    let mut points: Vec<f64> = (0..number).map(|_| random.uniform() * total).collect();
    points.sort_unstable_by(f64::total_cmp);
    let log_scale = (total / number as f64).ln() + shift;
    let (mut sum, mut taken, mut last) = (0.0, 0, None);
    for (&i, &q) in tail.iter().zip(&proposal) {
        sum += q;
        let times = points[taken..].iter().take_while(|&&point| point < sum).count();
        if times > 0 {
            chosen.push(i as usize, log_scale + (times as f64).ln() - log_proposal[i as usize]);
            taken += times;
        }
        last = if q > 0.0 { Some(i as usize) } else { last };
    }
    // Rounding can place a point beyond the last state.
    if let (Some(i), true) = (last, taken < number) {
        chosen.push(i, log_scale + ((number - taken) as f64).ln() - log_proposal[i]);
    }
    chosen.sort();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    /// Bound on P(K ≥ k) + P(K ≤ k): 2·exp(−n·KL(k/n, p)), from Chernoff's bound on both sides.
    fn binomial_bound(n: f64, k: f64, p: f64) -> f64 {
        let term = |a: f64, b: f64| if a > 0.0 { a * (a / b).ln() } else { 0.0 };
        2.0 * (-n * (term(k / n, p) + term(1.0 - k / n, 1.0 - p))).exp()
    }

    fn proposals() -> Vec<(&'static str, Vec<f64>)> {
        let mut random = Streams::new(3, "select tests").block(0);
        let none = f64::NEG_INFINITY;
        vec![
            ("normal", (0..40).map(|_| 1.5 * random.normal()).collect()),
            ("ties", (0..30).map(|i| f64::from(i / 10)).collect()),
            ("all equal", vec![-7.0; 25]),
            ("zeros", (0..40).map(|i| if i % 4 == 0 { random.normal() } else { none }).collect()),
            ("far apart", (0..30).map(|i| if i < 3 { 1e4 } else { -1e4 + 0.1 * f64::from(i) }).collect()),
            ("long tail", (0..50).map(|i| -2.0 * (f64::from(i) + 1.0).ln()).collect()),
        ]
    }

    /// A state that has weight wᵢ whenever it is chosen adds no bias if and only if it is chosen with
    /// probability 1/wᵢ.
    #[test]
    fn states_are_chosen_as_often_as_their_weights_say() {
        const RUNS: usize = 20_000;
        for (name, logs) in proposals() {
            for count in [1, 2, 3, 6, 7, 8] {
                let mut hits = vec![0.0; logs.len()];
                let mut weights = vec![f64::NAN; logs.len()];
                let streams = Streams::new(5, name);
                let features: Vec<f64> = (0..logs.len()).map(|i| (i as f64).sin()).collect();
                let order = [Order::Number, Order::Proposal, Order::Bands(&features)][count % 3];
                for run in 0..RUNS {
                    let mut random = streams.block(run as u64);
                    let chosen = Selection::Threshold.choose_in(order, &logs, count, 0, &mut random);
                    assert!(chosen.states.len().abs_diff(count) <= 1, "{name}");
                    assert!(chosen.states.is_sorted_by(|a, b| a < b), "{name}");
                    for (&i, &w) in chosen.states.iter().zip(&chosen.log_weights) {
                        hits[i as usize] += 1.0;
                        let before = std::mem::replace(&mut weights[i as usize], w);
                        assert!(before.is_nan() || before == w, "{name}");
                    }
                }
                let mut expected = 0.0;
                for (i, &log) in logs.iter().enumerate() {
                    if weights[i].is_nan() {
                        continue;
                    }
                    assert!(log > f64::NEG_INFINITY);
                    let p = (-weights[i]).exp();
                    expected += p;
                    if weights[i] == 0.0 {
                        assert_eq!(hits[i], RUNS as f64, "{name} {i}");
                    } else {
                        assert!(binomial_bound(RUNS as f64, hits[i], p) > 1e-9, "{name} {count} {i}");
                    }
                }
                // States that were never chosen have a small total probability; the others account for nearly
                // all of K.
                assert!(
                    expected <= count as f64 + 1e-9 && expected > count as f64 - 0.05,
                    "{name} {expected}"
                );
            }
        }
    }

    #[test]
    fn draws_are_multinomial_with_the_right_weights() {
        const RUNS: usize = 20_000;
        for (name, logs) in proposals() {
            for (top, count) in [(0, 1), (2, 3), (2, 6), (0, 8)] {
                let mut order = possible_states(&logs);
                order.sort_by(|&a, &b| logs[b as usize].total_cmp(&logs[a as usize]).then(a.cmp(&b)));
                let tail: Vec<f64> =
                    order[top.min(order.len())..].iter().map(|&i| logs[i as usize]).collect();
                let total = numeric::log_sum_exp(&tail);
                let streams = Streams::new(6, name);
                let mut hits = vec![0.0; logs.len()];
                for run in 0..RUNS {
                    let chosen = Selection::Draws.choose(&logs, count, top, &mut streams.block(run as u64));
                    let mut drawn = 0.0;
                    for (&i, &w) in chosen.states.iter().zip(&chosen.log_weights) {
                        let i = i as usize;
                        if order[..top].contains(&(i as u32)) {
                            assert_eq!(w, 0.0);
                            continue;
                        }
                        let times = (w + logs[i] - total).exp() * (count - top) as f64;
                        assert!(
                            (times - times.round()).abs() < 1e-9 && times.round() >= 1.0,
                            "{name} {times}"
                        );
                        hits[i] += times.round();
                        drawn += times.round();
                    }
                    assert_eq!(drawn, (count - top) as f64, "{name}");
                }
                for &i in &order[top..] {
                    let p = (logs[i as usize] - total).exp();
                    let n = (RUNS * (count - top)) as f64;
                    assert!(binomial_bound(n, hits[i as usize], p) > 1e-9, "{name} {i}");
                }
            }
        }
    }

    #[test]
    fn with_room_for_all_possible_states_all_are_taken() {
        for (name, logs) in proposals().into_iter().chain([("one", vec![-3.0])]) {
            let possible = possible_states(&logs);
            for selection in [Selection::Threshold, Selection::Draws, Selection::Top] {
                let mut random = Streams::new(1, name).block(0);
                for count in [possible.len(), logs.len() + 1] {
                    let chosen = selection.choose(&logs, count, 0, &mut random);
                    assert_eq!(chosen.states, possible, "{name}");
                    assert!(chosen.log_weights.iter().all(|&w| w == 0.0));
                }
            }
        }
        let none = [f64::NEG_INFINITY; 3];
        assert!(
            Selection::Threshold.choose(&none, 2, 0, &mut Streams::new(1, "none").block(0)).states.is_empty()
        );
    }

    #[test]
    fn top_takes_the_largest_and_of_equal_ones_the_first() {
        let logs = [1.0, 3.0, 2.0, 3.0, 2.0, 2.0];
        let chosen = Selection::Top.choose(&logs, 4, 0, &mut Streams::new(1, "top").block(0));
        assert_eq!(chosen.states, [1, 2, 3, 4]);
    }

    #[test]
    fn a_sum_of_the_proposal_itself_has_no_variance() {
        let mut random = Streams::new(9, "select tests").block(0);
        let logs: Vec<f64> = (0..1000).map(|_| 2.0 * random.normal()).collect();
        let want = numeric::log_sum_exp(&logs);
        for _ in 0..20 {
            let chosen = Selection::Threshold.choose(&logs, 50, 0, &mut random);
            let terms: Vec<f64> =
                chosen.states.iter().zip(&chosen.log_weights).map(|(&i, w)| logs[i as usize] + w).collect();
            assert!((numeric::log_sum_exp(&terms) - want).abs() < 1e-12);
        }
    }
}
