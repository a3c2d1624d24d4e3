//! Proposals: which states are likely to matter at each position of a sequence.
//!
//! The best proposal is the true marginal γₜ(i) = αₜ(i)·βₜ(i)/Z. The proposals, in increasing order of cost
//! and quality:
//!
//! - *uniform*;
//! - *local*: the emissions (and at the first position the start scores);
//! - *global*: the total strength of a state's transitions: ‖eᵢ‖₁ for embeddings, the sum of its row and
//!   column for tables;
//! - *local-global*: half of each, both normalised (Fu, Cunningham & Lapata 2022, Eq. 34);
//! - *given*: scores supplied by the caller;
//! - *forward*: the running message α̂ₜ, computed for all N states at O(K·N) per step;
//! - *two-pass*: first a backward pass of the same kind with independent random numbers, then q ∝
//!   0.95·α̂β̂/Σ + 0.05·α̂/Σ. The second term keeps q positive wherever α̂ is positive. Without it, β̂ could
//!   be 0 for a state whose successors were all left out, and sums would be biased.
//!
//! The estimate is unbiased for any proposal if q is positive wherever it must be, and if the samples at a
//! position depend on the samples used for its proposal only through the proposal. Replicates may therefore
//! share one backward pass.

use serde::{Deserialize, Serialize};

use super::proposals::Proposals;
use super::select::{Chosen, Order, Selection};
use super::spread;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::{ChainEntries, Entries};
use crate::model::{Chain, Transitions};
use crate::numeric::{self, Real};
use crate::random::Streams;

/// Weight of α̂β̂ in the two-pass proposal; the rest is α̂ alone.
pub(super) const GUIDED: f64 = 0.95;
/// Weight of the uniform proposal in *global*. Without it, a state without transitions would never be chosen.
const FLOOR: f64 = 1e-3;

/// The proposal distribution over states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateProposal {
    /// All states with equal probability.
    Uniform,
    /// The emissions.
    Local,
    /// The norms of the embeddings, or the sums of rows and columns of the table.
    Global,
    /// Half local, half global.
    LocalGlobal,
    /// Scores supplied by the caller.
    Given,
    /// The running forward message.
    Forward,
    /// The product of the running forward message and a backward message.
    #[default]
    TwoPass,
}

impl StateProposal {
    /// True if messages are computed for all states, at O(K·N) per step.
    pub fn needs_messages(self) -> bool {
        matches!(self, StateProposal::Forward | StateProposal::TwoPass)
    }

    /// q at position t of sequence b, normalised. Only for proposals that depend on the model alone.
    ///
    /// # Errors
    /// For the proposals `Given`, `Forward` and `TwoPass`, which depend on more than the model.
    ///
    /// # Panics
    /// If b or t is out of range.
    pub fn probabilities<F: Real>(self, chain: &Chain<F>, b: usize, t: usize) -> Result<Vec<f64>> {
        if self.needs_messages() || self == StateProposal::Given {
            return Err(Error::argument("proposal", "depends on more than the model"));
        }
        let mut q = Proposals::new(chain, self, &[]).at(b, t, &[], &[]);
        let total = numeric::log_sum_exp(&q);
        q.iter_mut().for_each(|x| *x -= if total.is_finite() { total } else { 0.0 });
        numeric::exp_in_place(&mut q);
        Ok(q)
    }
}

/// How many states are chosen, and by which rule.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// The selection rule.
    pub selection: Selection,
    /// The number of states.
    pub count: usize,
    /// The number of states kept with certainty by `draws`.
    pub top: usize,
}

impl Rule {
    pub(super) fn choose(
        &self,
        order: Order<'_>,
        log_proposal: &[f64],
        streams: &Streams,
        block: usize,
    ) -> Chosen {
        let mut random = streams.block(block as u64);
        self.selection.choose_in(order, log_proposal, self.count, self.top, &mut random)
    }
}

/// The states chosen at each position of a sequence, with their weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Support {
    positions: Vec<Chosen>,
}

impl Support {
    /// From the states chosen at each position of a sequence.
    pub fn new(positions: Vec<Chosen>) -> Self {
        Support { positions }
    }

    /// The number of positions.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// True if there are no positions.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// The choice at position t.
    pub fn at(&self, t: usize) -> &Chosen {
        &self.positions[t]
    }

    /// The largest |log w|.
    pub(super) fn largest_log_weight(&self) -> f64 {
        let weights = self.positions.iter().flat_map(|chosen| &chosen.log_weights);
        weights.filter(|w| w.is_finite()).fold(0.0, |largest, weight| f64::max(largest, weight.abs()))
    }

    /// True if no state was possible at some position, so the estimate is 0.
    pub fn is_impossible(&self) -> bool {
        self.positions.iter().any(|chosen| chosen.states.is_empty())
    }
}

/// The log messages of the chosen states plus their log weights, shifted so that the largest is 0.
pub(crate) fn weighted<F: Real>(message: &[F], chosen: &Chosen) -> Vec<F> {
    let pairs = chosen.states.iter().zip(&chosen.log_weights);
    let logs: Vec<f64> = pairs.map(|(&i, w)| message[i as usize].to_f64() + w).collect();
    let shift = numeric::max(&logs);
    let shift = if shift.is_finite() { shift } else { 0.0 };
    logs.iter().map(|x| F::from_f64(x - shift)).collect()
}

/// log(part·p/Σp + (1 − part)·q/Σq), given log p and log q. Computed entry by entry in the log domain,
/// because either term may vanish relative to the other. If p or q is zero everywhere, it is left out.
pub(crate) fn mixture(mut p: Vec<f64>, q: &[f64], part: f64) -> Vec<f64> {
    let (log_p, log_q) = (numeric::log_sum_exp(&p), numeric::log_sum_exp(q));
    if log_p == f64::NEG_INFINITY {
        return q.to_vec();
    }
    if log_q == f64::NEG_INFINITY {
        return p;
    }
    let (move_p, move_q) = (part.ln() - log_p, (1.0 - part).ln() - log_q);
    let mut gaps = vec![0.0; p.len()];
    for ((x, &y), gap) in p.iter_mut().zip(q).zip(&mut gaps) {
        let (a, b) = (*x + move_p, y + move_q);
        *x = if a > b { a } else { b };
        *gap = if *x > f64::NEG_INFINITY { (if a > b { b } else { a }) - *x } else { 0.0 };
    }
    numeric::exp_in_place(&mut gaps);
    gaps.iter_mut().for_each(|gap| *gap += 1.0);
    numeric::ln_in_place(&mut gaps);
    p.iter_mut().zip(&gaps).for_each(|(x, gap)| *x += gap);
    p
}

/// log of the global proposal, normalised.
pub(super) fn global<F: Real>(chain: &Chain<F>, entries: &ChainEntries<'_, F>) -> Vec<f64> {
    global_scores(entries, chain.steps() - 1)
}

/// The same for the first `tables` tables.
pub(crate) fn global_scores<F: Real>(entries: &ChainEntries<'_, F>, tables: usize) -> Vec<f64> {
    let states = entries.states;
    let mut logs = match entries.transitions {
        Transitions::Factored { left, right } => {
            let rank = left.len() / states;
            let norm = |values: &[F], i: usize| -> f64 {
                values[i * rank..(i + 1) * rank].iter().map(|x| x.to_f64().abs()).sum()
            };
            let of = |i| norm(left, i) + right.as_ref().map_or(0.0, |right| norm(right, i));
            (0..states).map(|i| of(i).ln()).collect()
        }
        Transitions::LowRank { left, right } => {
            // Sums of rows and columns, through the intermediate states.
            let rank = left.len() / states;
            let sums = |values: &[F]| -> Vec<f64> {
                let column = |r| values.iter().skip(r).step_by(rank).map(|x| x.to_f64()).collect::<Vec<_>>();
                (0..rank).map(|r| numeric::log_sum_exp(&column(r))).collect()
            };
            let (of_left, of_right) = (sums(left), sums(right));
            let terms = |i: usize, values: &[F], others: &[f64]| {
                let row = values[i * rank..].iter().zip(others);
                row.map(|(x, other)| x.to_f64() + other).collect::<Vec<f64>>()
            };
            let of = |i| [terms(i, left, &of_right), terms(i, right, &of_left)].concat();
            (0..states).map(|i| numeric::log_sum_exp(&of(i))).collect()
        }
        Transitions::Sparse { pattern, values, .. } => {
            // Sums of the weights of the entries of each row and column.
            let mut terms = vec![Vec::new(); states];
            for table in values.chunks_exact(pattern.len().max(1)) {
                for i in 0..states {
                    let from = pattern.starts()[i];
                    for (&j, x) in pattern.row(i).iter().zip(&table[from..]) {
                        terms[i].push(x.to_f64());
                        terms[j as usize].push(x.to_f64());
                    }
                }
            }
            terms.iter().map(|terms| numeric::log_sum_exp(terms)).collect()
        }
        Transitions::Shared(_) | Transitions::PerStep(_) | Transitions::PerSequence(_) => {
            let all: Vec<u32> = (0..states as u32).collect();
            let (zeros, mut sums) = (vec![F::ZERO; states], vec![F::ZERO; states]);
            let mut total = vec![f64::NEG_INFINITY; states];
            let boundaries = if entries.shared() { tables.min(1) } else { tables };
            for t in 0..boundaries {
                for send in [spread::forward::<F>, spread::backward::<F>] {
                    send(entries, t, &all, &zeros, &mut sums);
                    for (total, sum) in total.iter_mut().zip(&sums) {
                        *total = numeric::log_sum_exp(&[*total, sum.to_f64()]);
                    }
                }
            }
            total
        }
    };
    if logs.contains(&f64::NEG_INFINITY) {
        logs = mixture(logs, &vec![0.0; states], 1.0 - FLOOR);
    }
    let total = numeric::log_sum_exp(&logs);
    logs.iter_mut().for_each(|log| *log -= total);
    logs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mixtures_are_mixtures_and_keep_what_is_far_below() {
        let none = f64::NEG_INFINITY;
        let p = vec![0.0, -3.0, none, -1e4, 2e4 - 2e4];
        let q = [1.0, none, none, 3.0, -2.0];
        let got = mixture(p.clone(), &q, 0.7);
        let (sum_p, sum_q) = (numeric::log_sum_exp(&p), numeric::log_sum_exp(&q));
        for i in 0..5 {
            let want = 0.7 * (p[i] - sum_p).exp() + 0.3 * (q[i] - sum_q).exp();
            assert!((got[i].exp() - want).abs() < 1e-14, "{i}");
        }
        let far = mixture(vec![0.0, -1e4], &[0.0, -2e4], 0.5);
        assert!((far[1] - (0.5f64.ln() - 1e4)).abs() < 1e-9);
        assert_eq!(mixture(vec![none; 2], &[0.0, 1.0], 0.5), [0.0, 1.0]);
        assert_eq!(mixture(vec![2.0, 1.0], &[none; 2], 0.5), [2.0, 1.0]);
    }
}
