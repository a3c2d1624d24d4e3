//! Logarithms of products without loss: an entry that may have lost too much to underflow is recomputed in
//! the log domain.

use super::long;
use super::messages::Lattice;
use super::steps::Factors;
use crate::numeric::Real;
use crate::run::Clock;

/// If a product has more doubtful entries than this, it is checked whether anything can have been lost at
/// all.
const MANY_DOUBTFUL: usize = 4;

impl<F: Real> Lattice<'_, F> {
    /// The logarithms of the forward product of exp `before`, without loss.
    pub(super) fn log_sums(&self, t: usize, place: usize, before: &[F], row: &mut [F], clock: &Clock<'_>) {
        let doubtful = self.doubtful(t, before, row);
        long::ln_in_place(row);
        if let Some(factors) = self.steps.low_rank(t) {
            return self.repair_low_rank(factors, true, (place, t + 1), before, &doubtful, row);
        }
        self.repair(place, t + 1, &doubtful, row, clock, |j, logs| {
            self.steps.log_column(t, j, logs).add(logs, before);
        });
    }

    /// The logarithms of the backward product of exp `after()`, without loss.
    pub(super) fn log_sums_backward(
        &self,
        t: usize,
        place: usize,
        row: &mut [F],
        clock: &Clock<'_>,
        after: impl FnOnce() -> Vec<F>,
    ) {
        if long::least(row) >= self.threshold(t, self.steps.shape(t).1) {
            return long::ln_in_place(row);
        }
        let after = after();
        let doubtful = self.doubtful(t, &after, row);
        long::ln_in_place(row);
        if let Some(factors) = self.steps.low_rank(t) {
            return self.repair_low_rank(factors, false, (place, t), &after, &doubtful, row);
        }
        self.repair(place, t, &doubtful, row, clock, |i, logs| {
            self.steps.log_row(t, i, logs).add(logs, &after);
        });
    }

    /// Below this threshold, a product of `states` numbers with table t may have lost more to underflow than
    /// to rounding.
    fn threshold(&self, t: usize, states: usize) -> F {
        // Through factors, each term is a product of three numbers and summed R times.
        let products = self.steps.low_rank(t).map_or(1, |factors| 4 * factors.rank());
        F::from_f64(4.0 * (products * states) as f64 * F::TINY.to_f64() / F::EPSILON.to_f64())
    }

    /// The entries of a product with table t that may have lost too much. `input` holds the logarithms of the
    /// factors.
    pub(super) fn doubtful(&self, t: usize, input: &[F], output: &[F]) -> Vec<u32> {
        let threshold = self.threshold(t, input.len());
        let mut doubtful = Vec::new();
        if long::least(output) < threshold {
            let entries = output.iter().enumerate().filter(|(_, x)| **x < threshold);
            doubtful.extend(entries.map(|(j, _)| j as u32));
            // Zeros of the model are not a loss. They can be kept if no product of nonzero numbers
            // underflows.
            if doubtful.len() > MANY_DOUBTFUL {
                let least = input.iter().copied().filter(|&x| x > F::NEG_INFINITY);
                let least = least.fold(F::ZERO, |a, b| if b < a { b } else { a }).to_f64();
                if least + self.least(t) > F::TINY.to_f64().ln() + 2.0 {
                    doubtful.clear();
                }
            }
        }
        doubtful
    }

    /// Recomputes the doubtful entries of a row from the logarithms that `logs` writes for an entry. If the
    /// clock signals a stop, the result is invalid.
    fn repair(
        &self,
        place: usize,
        layer: usize,
        doubtful: &[u32],
        row: &mut [F],
        clock: &Clock<'_>,
        logs: impl Fn(usize, &mut Vec<F>),
    ) {
        if doubtful.is_empty() {
            return;
        }
        let mut terms = Vec::new();
        let (scores, shifts) = self.node(place, layer);
        let impossible = |row: &[F], j: usize| row.get(j).is_some_and(|&x| x == F::NEG_INFINITY);
        for &j in doubtful {
            let j = j as usize;
            if impossible(scores, j) || impossible(shifts, j) {
                continue;
            }
            if clock.must_stop() {
                return;
            }
            logs(j, &mut terms);
            row[j] = F::from_f64(F::log_sum_exp(&terms));
        }
    }

    /// The same through factors, all entries at once.
    fn repair_low_rank(
        &self,
        factors: &Factors<'_, F>,
        forward: bool,
        (place, layer): (usize, usize),
        logs: &[F],
        doubtful: &[u32],
        row: &mut [F],
    ) {
        if doubtful.is_empty() {
            return;
        }
        let mut node = vec![F::ZERO; row.len()];
        self.add_node(place, layer, &mut node);
        let entries = doubtful.iter().map(|&j| j as usize).filter(|&j| node[j] > F::NEG_INFINITY);
        factors.log_sums(forward, logs, entries, row);
    }

    /// The smallest finite ln Mₜ(i, j), or a lower bound on it.
    pub(super) fn least(&self, t: usize) -> f64 {
        if let Some(factors) = self.steps.low_rank(t) {
            return factors.least;
        }
        *self.least[if self.steps.shared() { 0 } else { t }].get_or_init(|| {
            let mut row = Vec::new();
            let mut least = F::ZERO;
            for i in 0..self.steps.shape(t).0 {
                self.steps.log_row(t, i, &mut row);
                least = row.iter().fold(least, |a, &x| if x < a && x > F::NEG_INFINITY { x } else { a });
            }
            least.to_f64()
        })
    }
}
