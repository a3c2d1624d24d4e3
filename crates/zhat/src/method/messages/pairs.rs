//! Vectorised updates of factors over two binary variables, the most common factors of large models. The
//! result is that of the general update, computed for a whole run of factors of a class at once.
//!
//! log(exp a + exp b) = max + ln(1 + exp(min − max)). The four such terms of each factor are stored
//! contiguously with those of its neighbours, so that `exp` and `ln` operate on long vectors.

use std::ops::Range;

use super::engine::{Messages, Renewal};
use super::kernel::{Algebra, Workspace, log_add};
use super::layout::Layout;
use crate::numeric;

/// Number of factors per batch, chosen so that their numbers stay in the fastest cache.
const BATCH: usize = 256;

/// The number of factors at the start of a range that are over two binary variables; 0 for max-product.
pub(super) fn run(layout: &Layout<'_>, factors: Range<usize>, algebra: Algebra) -> usize {
    if algebra == Algebra::Max {
        return 0;
    }
    factors.take(BATCH).take_while(|&f| pair(layout, f).is_some()).count()
}

/// The table of the factor, and the starts of the states of its two variables.
#[inline]
fn pair<'a>(layout: &'a Layout<'_>, f: usize) -> Option<(&'a [f64; 4], [usize; 2])> {
    let view = layout.factor(f);
    let table: &[f64; 4] = view.table.try_into().ok()?;
    let &[v, w] = view.variables else { return None };
    if layout.cardinality(v) != 2 || layout.cardinality(w) != 2 {
        return None;
    }
    Some((table, [layout.states(v as usize).start, layout.states(w as usize).start]))
}

impl Renewal<'_> {
    /// Updates the messages of a run of such factors. Returns the largest change, relative to its size.
    pub fn update_pairs(&self, factors: Range<usize>, shifts: &mut [f64], work: &mut Workspace) -> f64 {
        let (mut high, mut low) = (std::mem::take(&mut work.incoming), std::mem::take(&mut work.outgoing));
        high.clear();
        low.clear();
        for (f, shifts) in factors.clone().zip(shifts.chunks_exact(4)) {
            let Some((table, [v, w])) = pair(self.layout, f) else { continue };
            let inverse = 1.0 / self.weights[f];
            let a = |i: usize, start: usize| self.scores[start + i % 2].get() - shifts[i] * inverse;
            let [a0, a1, b0, b1] = [a(0, v), a(1, v), a(2, w), a(3, w)];
            let [t00, t01, t10, t11] = table.map(|x| x * inverse);
            // For each state of one variable, the terms from the two states of the other.
            for (x, y) in
                [(t00 + b0, t01 + b1), (t10 + b0, t11 + b1), (t00 + a0, t10 + a1), (t01 + a0, t11 + a1)]
            {
                high.push(x.max(y));
                low.push(x.min(y) - x.max(y));
            }
        }
        numeric::exp_in_place(&mut low);
        low.iter_mut().for_each(|x| *x += 1.0);
        numeric::ln_in_place(&mut low);
        let (limit, damping, mut change) = (-self.layout.limit, self.damping, 0.0f64);
        let sums = high.chunks_exact(4).zip(low.chunks_exact(4));
        for ((f, shifts), (high, low)) in factors.zip(shifts.chunks_exact_mut(4)).zip(sums) {
            let Some((_, starts)) = pair(self.layout, f) else { continue };
            let weight = self.weights[f];
            for (side, start) in starts.into_iter().enumerate() {
                let out = |s: usize| weight * (high[2 * side + s] + low[2 * side + s]);
                let (x, y) = (out(0), out(1));
                let maximum = x.max(y);
                for (s, out) in [(0, x), (1, y)] {
                    let fresh = out - maximum;
                    let fresh = if fresh > limit { fresh } else { limit };
                    let shift = &mut shifts[2 * side + s];
                    let fresh = fresh + damping * (*shift - fresh);
                    let step = fresh - *shift;
                    change = change.max(step.abs() / (1.0 + fresh.abs()));
                    let score = &self.scores[start + s];
                    score.set(score.get() + step);
                    *shift = fresh;
                }
            }
        }
        (work.incoming, work.outgoing) = (high, low);
        change
    }
}

/// Adds the log-sum over one variable of a pair to the scores of the other, scaled to a maximum of 0. Returns
/// that maximum and the rounding error, in units of u; `None` if `f` is not a factor over two binary
/// variables.
#[inline]
pub(super) fn hand_up(
    messages: &Messages<'_>,
    f: usize,
    parent: u32,
    scores: &mut [f64],
) -> Option<(f64, f64)> {
    let (table, starts) = pair(messages.layout, f)?;
    if messages.algebra == Algebra::Max {
        return None;
    }
    let inverse = 1.0 / messages.weights[f];
    let shifts = messages.shifts(f);
    let (up, down) = (parent as usize, 1 - parent as usize);
    let own = |s: usize| -shifts[2 * up + s] * inverse;
    let other = |s: usize| scores[starts[down] + s] - shifts[2 * down + s] * inverse;
    let (p, q) = (other(0), other(1));
    let entry = |s: usize, t: usize| table[if up == 0 { 2 * s + t } else { 2 * t + s }] * inverse;
    let sum = |s: usize| log_add(entry(s, 0) + p, entry(s, 1) + q) + own(s);
    let (x, y) = (sum(0), sum(1));
    let maximum = x.max(y);
    let target = starts[up];
    let finite = |x: f64| if x.is_finite() { x.abs() } else { 0.0 };
    let size = table.iter().map(|&x| finite(x)).fold(0.0, f64::max) * inverse
        + shifts[0].abs().max(shifts[1].abs()) * inverse
        + shifts[2].abs().max(shifts[3].abs()) * inverse
        + scores[starts[down]].abs().max(scores[starts[down] + 1].abs())
        + scores[target].abs().max(scores[target + 1].abs());
    scores[target] += x - maximum;
    scores[target + 1] += y - maximum;
    Some((maximum, 20.0 * (1.0 + size)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, Grid};
    use crate::run::Run;

    #[test]
    fn a_run_of_pairs_does_what_updates_one_by_one_do() {
        for scale in [0.5, 1e3] {
            let graph =
                generate::ising(Grid { rows: 9, columns: 8, torus: true }, scale, 0.5, false, 1).unwrap();
            let layout = Layout::new(&graph).unwrap();
            let weights: Vec<f64> = (0..layout.factor_count()).map(|f| 0.25 + 0.005 * f as f64).collect();
            let mut together = Messages::new(&layout, Algebra::Sum, weights.clone(), 0.1);
            let mut single = Messages::new(&layout, Algebra::Sum, weights, 0.1);
            let (mut work, run) = (Workspace::new(&layout), Run::default());
            for _ in 0..3 {
                together.sweep(false, &run.start("test"));
                (0..layout.factor_count()).for_each(|f| {
                    single.update(f, &mut work);
                });
            }
            for f in 0..layout.factor_count() {
                for (x, y) in together.shifts(f).iter().zip(single.shifts(f)) {
                    assert!((x - y).abs() <= 1e-12 * (1.0 + scale), "{x} {y}");
                }
            }
        }
    }
}
