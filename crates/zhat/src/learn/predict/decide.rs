//! Structures that are best for a loss.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::form::{Family, Mode, Ranking, RankingScores, Work, pair};
use crate::error::Result;
use crate::method::space::Oracle;
use crate::model::space::{Condition, SpaceModel};
use crate::numeric::log_sum_exp;
use crate::query::{KBest, LogPartition, Marginals};
use crate::run::{Clock, Run};

/// The order that maximises Σ P(i before j) over its pairs, by maxima over sets; for at most 16 items.
pub(crate) fn best_order(precedences: &[f64], n: usize) -> Result<Vec<u32>> {
    let ranking = Ranking::new(n, RankingScores::Precedence)?;
    let mut scores = vec![0.0; ranking.channels()];
    for i in 0..n {
        for j in i + 1..n {
            scores[pair(i, j, n)] = precedences[i * n + j] - precedences[j * n + i];
        }
    }
    let (mut work, mut order) = (Work::default(), vec![0; n]);
    ranking.upward(&scores, 1, Mode::Max, &mut work, &mut [0.0]);
    ranking.decode(&scores, (0, 1), &mut work, None, &mut order);
    Ok(order)
}

/// The set h of largest expected F1 = E\[2|y ∩ h|/(|y| + |h|)\], where F1 of two empty sets is 1.
///
/// With w(i, k) = Σ_s 2·P(yᵢ = 1, |y| = s)/(s + k), the best set of size k has the k labels of largest w, and
/// expects the sum of their w. The best size is found by trying all. In a hierarchy a parent has at least the
/// weight of its children, so that the set is closed under parents.
///
/// Reference: K. Dembczyński, W. Waegeman, W. Cheng, E. Hüllermeier, *An exact algorithm for F-measure
/// maximization*, NIPS 2011.
pub(crate) fn largest_f1(model: &SpaceModel, hidden: bool, run: &Run, clock: &Clock<'_>) -> Result<Vec<u32>> {
    let skip = usize::from(hidden);
    let n = model.width() - skip;
    let quiet = run.unobserved();
    let oracle = Oracle::default();
    let all = oracle.log_partition(model, &quiet)?.value;
    // P(yᵢ = 1, |y| = s), and P(y is empty).
    let mut joint = vec![0.0; n * (n + 1)];
    let mut left = 1.0;
    let mut empty = 0.0;
    for size in 0..=n {
        clock.check()?;
        // The other sizes have less probability together than rounding errors.
        if left < 1e-13 {
            break;
        }
        let some = model.restrict([Condition::Size { least: size + skip, most: size + skip }])?;
        let log = match oracle.log_partition(&some, &quiet) {
            Ok(estimate) => estimate.value,
            Err(error) if matches!(error.kind(), "zero-partition" | "impossible-evidence") => continue,
            Err(error) => return Err(error),
        };
        let share = (log - all).exp();
        left -= share;
        if size == 0 {
            empty = share;
        } else if share > 0.0 {
            let marginals = oracle.marginals(&some, &quiet)?.value;
            for i in 0..n {
                joint[i * (n + 1) + size] = share * marginals.values[i + skip];
            }
        }
    }
    Ok(f1_of_joint(&joint, empty, n))
}

/// The set of largest expected F1, from P(yᵢ = 1, |y| = s) at i·(n + 1) + s and P(y is empty).
pub(crate) fn f1_of_joint(joint: &[f64], empty: f64, n: usize) -> Vec<u32> {
    let mut best = (empty, vec![0; n]);
    for k in 1..=n {
        let weight = |i: usize| (1..=n).map(|s| 2.0 * joint[i * (n + 1) + s] / (s + k) as f64).sum::<f64>();
        let mut ranked: Vec<(f64, usize)> = (0..n).map(|i| (weight(i), i)).collect();
        // Of equal weights, the label that is more probable comes first, so that parents precede children.
        let total = |i: usize| joint[i * (n + 1)..(i + 1) * (n + 1)].iter().sum::<f64>();
        ranked
            .sort_by(|a, b| b.0.total_cmp(&a.0).then(total(b.1).total_cmp(&total(a.1))).then(a.1.cmp(&b.1)));
        let value: f64 = ranked[..k].iter().map(|(weight, _)| weight).sum();
        if value > best.0 {
            let mut set = vec![0; n];
            ranked[..k].iter().for_each(|&(_, i)| set[i] = 1);
            best = (value, set);
        }
    }
    best.1
}

/// The most probable structures of a space model, without its hidden root.
pub(crate) fn best_structures(
    model: &SpaceModel,
    k: usize,
    hidden: bool,
    run: &Run,
) -> Result<Vec<Vec<u32>>> {
    let found = Oracle::default().k_best(model, k, &run.unobserved())?.value;
    let structure = |state: &Vec<usize>| state.iter().skip(usize::from(hidden)).map(|&y| y as u32).collect();
    Ok(found.iter().map(|best| structure(&best.state)).collect())
}

/// A first part of an order.
struct Prefix {
    /// ln p of the best order that starts with it.
    value: f64,
    items: Vec<u32>,
}

impl PartialEq for Prefix {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Prefix {}

impl PartialOrd for Prefix {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Prefix {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.total_cmp(&other.value).then_with(|| other.items.cmp(&self.items))
    }
}

/// The most probable orders of the model of Plackett and Luce: best first, since the best completion of a
/// prefix has the items left in order of their scores.
pub(crate) fn best_plackett_luce(scores: &[f64], k: usize) -> Vec<Vec<u32>> {
    let n = scores.len();
    let mut sorted: Vec<u32> = (0..n as u32).collect();
    sorted.sort_by(|&a, &b| scores[b as usize].total_cmp(&scores[a as usize]).then(a.cmp(&b)));
    let value = |items: &[u32]| {
        let rest = sorted.iter().filter(|item| !items.contains(item));
        let order: Vec<f64> = items.iter().chain(rest).map(|&item| scores[item as usize]).collect();
        (0..n).map(|place| order[place] - log_sum_exp(&order[place..])).sum::<f64>()
    };
    let mut open = BinaryHeap::from([Prefix { value: value(&[]), items: Vec::new() }]);
    let mut found = Vec::new();
    while let Some(prefix) = open.pop().filter(|_| found.len() < k) {
        if prefix.items.len() == n {
            found.push(prefix.items);
            continue;
        }
        for item in (0..n as u32).filter(|item| !prefix.items.contains(item)) {
            let items: Vec<u32> = prefix.items.iter().copied().chain([item]).collect();
            open.push(Prefix { value: value(&items), items });
        }
    }
    found
}
