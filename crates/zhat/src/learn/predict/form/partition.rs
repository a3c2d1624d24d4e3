//! Partitions of n elements with one score per pair in a common block, summed exactly over sets.
//!
//! f(S) = Σ e^{w(B)} f(S∖B) over the blocks B ⊆ S that contain the first element of S, where w(B) sums the
//! scores of the pairs in B. The probability that a partition of the elements left starts with B follows
//! backwards from the whole set. Time 3ⁿ and memory 2ⁿ per row.

use super::ranking::pair;
use super::{Family, Mode, Work, filled};
use crate::error::{Error, Result};
use crate::model::space::{Partitions, Space};
use crate::numeric::{Elementwise, exp_in_place};
use crate::random::Stream;

/// Maximum number of elements.
pub(crate) const MOST_ELEMENTS: usize = 13;

/// Partitions of elements.
#[derive(Clone, Debug)]
pub(crate) struct Partition {
    elements: usize,
    log_count: f64,
}

/// Blocks within a set that contain its first element, in increasing order.
fn blocks(set: usize) -> impl Iterator<Item = usize> {
    let first = set & set.wrapping_neg();
    let rest = set & !first;
    let mut part = Some(0usize);
    std::iter::from_fn(move || {
        let now = part?;
        part = (now != rest).then(|| now.wrapping_sub(rest) & rest);
        Some(first | now)
    })
}

impl Partition {
    /// Partitions of this many elements.
    ///
    /// # Errors
    /// If there are too many elements.
    pub fn new(elements: usize) -> Result<Self> {
        if elements > MOST_ELEMENTS {
            return Err(Error::OverBudget {
                needs: format!("sums over all blocks of {elements} elements"),
                budget: format!("{MOST_ELEMENTS} elements; sampled gradients would work"),
                fitting: Vec::new(),
            });
        }
        let mut made = Partition { elements, log_count: 0.0 };
        let mut count = [0.0];
        made.upward(&vec![0.0; made.channels()], 1, Mode::Sum, &mut Work::default(), &mut count);
        made.log_count = count[0];
        Ok(made)
    }

    /// Any number of elements, without sums: only the features are known.
    ///
    /// # Errors
    /// If there are more than `u32::MAX` elements.
    pub fn shape(elements: usize) -> Result<Self> {
        let log_count = Partitions::new(elements)?.log_count().unwrap_or(f64::INFINITY);
        Ok(Partition { elements, log_count })
    }

    /// w(B) for all B, in `work.shares`.
    fn block_scores(&self, scores: &[f64], lanes: usize, work: &mut Work) {
        let n = self.elements;
        let sums = filled(&mut work.shares, lanes << n, 0.0);
        for set in 1..1usize << n {
            let first = set.trailing_zeros() as usize;
            let rest = set & (set - 1);
            let (before, own) = sums.split_at_mut(set * lanes);
            let own = &mut own[..lanes];
            own.copy_from_slice(&before[rest * lanes..][..lanes]);
            for other in (first + 1..n).filter(|other| set >> other & 1 == 1) {
                f64::add_to(own, &scores[pair(first, other, n) * lanes..][..lanes]);
            }
        }
    }
}

impl Family for Partition {
    fn channels(&self) -> usize {
        self.elements * self.elements.saturating_sub(1) / 2
    }

    fn width(&self) -> usize {
        self.elements
    }

    fn bytes(&self, lanes: usize) -> f64 {
        32.0 * lanes as f64 * (self.elements as f64).exp2()
    }

    fn upward(&self, scores: &[f64], lanes: usize, mode: Mode, work: &mut Work, out: &mut [f64]) {
        self.block_scores(scores, lanes, work);
        let n = self.elements;
        let sums = filled(&mut work.messages, lanes << n, 0.0);
        let (best, total) = (&mut work.row, &mut work.table);
        for set in 1..1usize << n {
            filled(best, lanes, f64::NEG_INFINITY);
            let (before, own) = sums.split_at_mut(set * lanes);
            for block in blocks(set) {
                let (w, rest) =
                    (&work.shares[block * lanes..][..lanes], &before[(set & !block) * lanes..][..lanes]);
                best.iter_mut().zip(w).zip(rest).for_each(|((best, w), rest)| *best = best.max(w + rest));
            }
            let own = &mut own[..lanes];
            if mode == Mode::Max {
                own.copy_from_slice(best);
                continue;
            }
            own.fill(0.0);
            for block in blocks(set) {
                let (w, rest) =
                    (&work.shares[block * lanes..][..lanes], &before[(set & !block) * lanes..][..lanes]);
                let terms = filled(total, lanes, 0.0);
                for lane in 0..lanes {
                    terms[lane] = w[lane] + rest[lane] - best[lane];
                }
                exp_in_place(terms);
                f64::add_to(own, terms);
            }
            own.iter_mut().zip(best.iter()).for_each(|(own, best)| *own = own.ln() + best);
        }
        let last = sums.len() - lanes;
        out.copy_from_slice(&sums[last..]);
    }

    #[allow(clippy::needless_range_loop)] // several arrays share the index
    fn means(&self, _: &[f64], lanes: usize, work: &mut Work, means: &mut [f64]) {
        let n = self.elements;
        means.fill(0.0);
        // First the probability that a set is left, then, in `beliefs`, that a block is used.
        let all = (1usize << n) - 1;
        let left = filled(&mut work.table, lanes << n, 0.0);
        left[all * lanes..].fill(1.0);
        let used = filled(&mut work.beliefs, lanes << n, 0.0);
        let share = filled(&mut work.row, lanes, 0.0);
        for set in (1..=all).rev() {
            for block in blocks(set) {
                let rest = set & !block;
                for lane in 0..lanes {
                    share[lane] = work.shares[block * lanes + lane] + work.messages[rest * lanes + lane]
                        - work.messages[set * lanes + lane];
                }
                exp_in_place(share);
                for lane in 0..lanes {
                    share[lane] *= left[set * lanes + lane];
                }
                f64::add_to(&mut left[rest * lanes..][..lanes], share);
                f64::add_to(&mut used[block * lanes..][..lanes], share);
            }
        }
        for block in 1..=all {
            let members: Vec<usize> = (0..n).filter(|i| block >> i & 1 == 1).collect();
            for (a, &i) in members.iter().enumerate() {
                for &j in &members[a + 1..] {
                    f64::add_to(
                        &mut means[pair(i, j, n) * lanes..][..lanes],
                        &used[block * lanes..][..lanes],
                    );
                }
            }
        }
    }

    fn decode(
        &self,
        _: &[f64],
        (lane, lanes): (usize, usize),
        work: &mut Work,
        mut random: Option<&mut Stream>,
        structure: &mut [u32],
    ) {
        let mut set = (1usize << self.elements) - 1;
        let mut number = 0;
        while set != 0 {
            let choices: Vec<usize> = blocks(set).collect();
            let mut weights: Vec<f64> = choices
                .iter()
                .map(|&block| {
                    work.shares[block * lanes + lane] + work.messages[(set & !block) * lanes + lane]
                })
                .collect();
            let chosen = match &mut random {
                Some(random) => {
                    let most = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    weights.iter_mut().for_each(|w| *w = (*w - most).exp());
                    random.categorical(&weights)
                }
                None => {
                    (0..weights.len()).rev().max_by(|&a, &b| weights[a].total_cmp(&weights[b])).unwrap_or(0)
                }
            };
            let block = choices[chosen];
            structure
                .iter_mut()
                .enumerate()
                .filter(|(i, _)| block >> i & 1 == 1)
                .for_each(|(_, y)| *y = number);
            number += 1;
            set &= !block;
        }
    }

    fn features(&self, structure: &[u32], add: &mut dyn FnMut(usize)) {
        let n = self.elements;
        for i in 0..n {
            (i + 1..n).filter(|&j| structure[i] == structure[j]).for_each(|j| add(pair(i, j, n)));
        }
    }

    fn radius(&self) -> f64 {
        0.5 * (self.channels() as f64).sqrt()
    }

    fn log_count(&self) -> f64 {
        self.log_count
    }
}
