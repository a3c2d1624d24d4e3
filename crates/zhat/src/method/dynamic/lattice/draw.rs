//! Exact samples: one backward sweep, then sampling forward.
//!
//! x₀ ~ exp w₀, xₜ₊₁ ~ Mₜ(xₜ, ·) exp wₜ₊₁. A segment then draws its length from the weights of its possible
//! ends. Samples in the same state share the distribution of their next state. Time at most O(N) per sample
//! and position. If M has low rank, an intermediate state r ~ U(xₜ, ·) Σⱼ V(j, ·) exp wₜ₊₁(j) is drawn first, and
//! xₜ₊₁ ~ V(·, r) exp wₜ₊₁ then depends only on r. Each block of samples has its own random stream.

use super::best::SegmentPath;
use super::entries::Listed;
use super::layout::PositionRows;
use super::messages::{Lattice, normalise};
use super::nodes::add;
use super::steps::Factors;
use crate::error::Result;
use crate::numeric::Real;
use crate::random::Stream;
use crate::run::Clock;

/// Number of samples that share a stream.
pub(crate) const BLOCK: usize = 256;

/// Cumulative sums of weights that are given by their logarithms.
pub(crate) struct Cumulative(Vec<f64>);

impl Cumulative {
    /// Sums exp of `logs`, which are normalised in place.
    pub fn new<F: Real>(logs: &mut [F]) -> Self {
        normalise(logs);
        F::exp_in_place(logs);
        let mut total = 0.0;
        let sums = logs.iter().map(|x| {
            total += x.to_f64();
            total
        });
        Cumulative(sums.collect())
    }

    /// The index at quantile u in [0, 1). Its weight is not zero.
    pub fn at(&self, u: f64) -> usize {
        let total = self.0.last().copied().unwrap_or(0.0);
        let at = self.0.partition_point(|&sum| sum <= u * total);
        // Rounding can reach the total itself; then the last index with positive weight is used.
        if at < self.0.len() { at } else { self.0.partition_point(|&sum| sum < total) }
    }
}

impl<F: Real> Lattice<'_, F> {
    /// True if sequence b has a path; `backward` holds its messages.
    pub fn has_path(&self, backward: &PositionRows<F>, b: usize) -> bool {
        let mut row = vec![F::ZERO; self.entered().size(0)];
        self.enter(self.layout.place(b), 0, backward, &mut row);
        F::max(&row) > F::NEG_INFINITY
    }

    /// `count` paths of sequence b, which must have one: (state, length) of each segment. The state is an
    /// index into the states in which a segment may end there.
    pub fn draw(
        &self,
        backward: &PositionRows<F>,
        b: usize,
        count: usize,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<Vec<SegmentPath>> {
        let place = self.layout.place(b);
        let length = self.layout.length(place);
        let mut drawn: Vec<SegmentPath> = (0..count).map(|_| Vec::with_capacity(length)).collect();
        let mut open = vec![0; count];
        let (mut weights, mut logs) = (Vec::new(), Vec::new());
        for s in 0..length {
            clock.check()?;
            let here: Vec<usize> = (0..count).filter(|&k| open[k] == s).collect();
            if here.is_empty() {
                continue;
            }
            let (mut of_state, mut of_length) = (Vec::new(), Vec::new());
            for _ in &here {
                of_state.push(random.uniform());
                of_length.extend(self.segments.is_some().then(|| random.uniform()));
            }
            // Draw the state, given the previous one.
            weights.resize(self.entered().size(s), F::ZERO);
            self.enter(place, s, backward, &mut weights);
            let before: Vec<Option<usize>> =
                here.iter().map(|&k| drawn[k].last().map(|segment| segment.0)).collect();
            let mut states = vec![0; here.len()];
            logs.resize(weights.len(), F::ZERO);
            match s.checked_sub(1).and_then(|t| self.steps.low_rank(t)) {
                Some(factors) => {
                    let before: Vec<usize> = before.into_iter().flatten().collect();
                    let of_middle: Vec<f64> = here.iter().map(|_| random.uniform()).collect();
                    let middle = draw_middle(factors, &before, &weights, &of_middle);
                    each_group(&middle, |r, group| {
                        factors.right.log_column(r, &mut logs);
                        add(&mut logs, &weights);
                        let law = Cumulative::new(&mut logs);
                        group.iter().for_each(|&x| states[x] = law.at(of_state[x]));
                    });
                }
                None => each_group(&before, |before, group| {
                    let listed = match before {
                        None => {
                            logs.fill(F::ZERO);
                            Listed(None)
                        }
                        Some(i) => self.steps.log_row(s - 1, i, &mut logs),
                    };
                    listed.add(&mut logs, &weights);
                    let law = Cumulative::new(&mut logs);
                    group.iter().for_each(|&x| states[x] = listed.at(law.at(of_state[x])));
                }),
            }
            if self.segments.is_none() {
                for (&k, &state) in here.iter().zip(&states) {
                    drawn[k].push((state, 1));
                    open[k] = s + 1;
                }
                continue;
            }
            // Draw the length, given the state.
            let ends = self.end_weights(backward, place, s);
            each_group(&states, |state, group| {
                let ways: Vec<(usize, f64)> = ends.iter().map(|end| end.way(state)).collect();
                let law = Cumulative::new(&mut ways.iter().map(|way| way.1).collect::<Vec<f64>>());
                for &x in group {
                    let end = law.at(of_length[x]);
                    drawn[here[x]].push((ways[end].0, end + 1));
                    open[here[x]] = s + end + 1;
                }
            });
        }
        Ok(drawn)
    }

    /// For each end of a segment that starts at s: the log weight of the segment and all continuations, for
    /// each state in which it may end there.
    fn end_weights(&self, backward: &PositionRows<F>, place: usize, s: usize) -> Vec<End<'_>> {
        let mut ends = Vec::new();
        self.each_starting(place, s, |t, scores| {
            let mut logs = scores.to_vec();
            self.add_row_shift(place, t, &mut logs);
            let scale = backward.scale(place, t);
            logs.iter_mut().zip(backward.row(place, t)).for_each(|(x, y)| *x += y.to_f64() + scale);
            ends.push(End { origins: self.origins(s, t), logs });
        });
        ends
    }
}

/// An intermediate state for each sample, given its state before the boundary and the log weights after it.
fn draw_middle<F: Real>(
    factors: &Factors<'_, F>,
    before: &[usize],
    weights: &[F],
    quantiles: &[f64],
) -> Vec<usize> {
    let after = factors.right.log_middle(weights);
    let (mut middle, mut terms) = (vec![0; before.len()], vec![0.0; factors.rank()]);
    each_group(before, |i, group| {
        factors.left.add_logs(i, &after, &mut terms);
        let law = Cumulative::new(&mut terms);
        group.iter().for_each(|&x| middle[x] = law.at(quantiles[x]));
    });
    middle
}

/// The segments between two positions, by end state.
struct End<'a> {
    origins: Option<&'a [u32]>,
    logs: Vec<f64>,
}

impl End<'_> {
    /// For a state among those entered: its index among the states left, and the log weight; −∞ if a segment
    /// of this state cannot end here.
    fn way(&self, entered: usize) -> (usize, f64) {
        let Some(origins) = self.origins else { return (entered, self.logs[entered]) };
        let own = |&k: &usize| origins[k] as usize == entered && self.logs[k] > f64::NEG_INFINITY;
        (0..self.logs.len()).find(own).map_or((0, f64::NEG_INFINITY), |k| (k, self.logs[k]))
    }
}

/// Calls `work` with each distinct value, in ascending order, and with the indices where it occurs.
fn each_group<K: Copy + Ord>(values: &[K], mut work: impl FnMut(K, &[usize])) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by_key(|&x| (values[x], x));
    for group in order.chunk_by(|&x, &y| values[x] == values[y]) {
        work(values[group[0]], group);
    }
}
