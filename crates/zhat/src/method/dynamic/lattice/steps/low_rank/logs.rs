//! Sums in the log domain, through the intermediate states.

use super::Factors;
use super::product::Outward;
use super::side::{BLOCK, Side};
use crate::method::dynamic::lattice::messages::normalise;
use crate::method::dynamic::lattice::steps::sweep::map_all;
use crate::method::dynamic::lattice::steps::tiles::pieces;
use crate::numeric::{self, Aligned, Real};

/// Below this, a sum of `terms` products of numbers up to 1 may have lost more to underflow than to rounding.
fn threshold<F: Real>(terms: usize) -> F {
    F::from_f64(16.0 * terms as f64 * F::TINY.to_f64() / F::EPSILON.to_f64())
}

impl<F: Real> Factors<'_, F> {
    /// Recomputes the `entries` of `out`: the logarithms of the product of exp `logs` with M, or with Mᵀ if
    /// not `forward`.
    pub fn log_sums(&self, forward: bool, logs: &[F], entries: impl Iterator<Item = usize>, out: &mut [F]) {
        let (from, to) = if forward { (&self.left, &self.right) } else { (&self.right, &self.left) };
        let middle = from.log_middle(logs);
        let mut terms = vec![0.0; self.rank()];
        for j in entries {
            to.add_logs(j, &middle, &mut terms);
            out[j] = F::from_f64(numeric::log_sum_exp(&terms));
        }
    }

    /// Adds the gradient of one pair of messages, computed in the log domain: `factor` times
    /// P(i, r) = exp(left(i) + ln U(i, r) + Σⱼ … + shift), and the same for r and j.
    pub fn add_log_gradient(
        &self,
        (left, right): (&[F], &[F]),
        shift: f64,
        factor: f64,
        to_left: &mut [F],
        to_right: &mut [F],
    ) {
        let (before, after) = (self.left.log_middle(left), self.right.log_middle(right));
        self.left.add_log_products(left, &after, shift, factor, to_left);
        self.right.add_log_products(right, &before, shift, factor, to_right);
    }
}

impl<F: Real> Side<'_, F> {
    /// ln Σᵢ exp logs(i)·X(i, r) for each r.
    pub fn log_middle(&self, logs: &[F]) -> Vec<f64> {
        let mut scaled = logs.to_vec();
        let scale = normalise(&mut scaled);
        let mut weights = scaled.clone();
        F::exp_in_place(&mut weights);
        let sums = self.pass(Some((1, &weights)), None);
        let least = threshold::<F>(self.len());
        let doubtful: Vec<usize> = (0..self.rank()).filter(|&r| sums[r] < least).collect();
        let mut middle: Vec<f64> = sums[..self.rank()].iter().map(|x| x.to_f64().ln()).collect();
        for (&r, sum) in doubtful.iter().zip(self.exact_middle(&scaled, &doubtful)) {
            middle[r] = sum;
        }
        middle.iter_mut().for_each(|x| *x += scale);
        middle
    }

    /// The same for some r, from the logarithms.
    fn exact_middle(&self, logs: &[F], columns: &[usize]) -> Vec<f64> {
        let work = 32 * self.len() * columns.len();
        let parts = map_all(pieces(0..self.len(), BLOCK), work, |rows| {
            let rows: Vec<usize> = rows.filter(|&i| logs[i] > F::NEG_INFINITY).collect();
            let sum = |&r: &usize| {
                let terms: Vec<f64> = rows.iter().map(|&i| logs[i].to_f64() + self.log(i, r)).collect();
                numeric::log_sum_exp(&terms)
            };
            columns.iter().map(sum).collect::<Vec<f64>>()
        });
        let sum = |k: usize| numeric::log_sum_exp(&parts.iter().map(|part| part[k]).collect::<Vec<f64>>());
        (0..columns.len()).map(sum).collect()
    }

    /// terms(r) ← ln X(i, r) + add(r).
    pub fn add_logs(&self, i: usize, add: &[f64], terms: &mut [f64]) {
        for (r, (term, add)) in terms.iter_mut().zip(add).enumerate() {
            *term = self.log(i, r) + add;
        }
    }

    /// out(i) ← ln X(i, r).
    pub fn log_column(&self, r: usize, out: &mut [F]) {
        out.iter_mut().enumerate().for_each(|(i, x)| *x = F::from_f64(self.log(i, r)));
    }

    /// out(i) ← ln Σᵣ X(i, r)·Y(k, r) for row k of another side.
    pub(super) fn log_products(&self, other: &Side<'_, F>, k: usize, out: &mut [F]) {
        let mut middle = Aligned::zeros(self.stride());
        middle.copy_from_slice(other.row(k));
        self.pass(None, Some(Outward::new(1, middle, out)));
        let least = threshold::<F>(self.rank());
        let doubtful: Vec<usize> = (0..out.len()).filter(|&i| out[i] < least).collect();
        F::ln_in_place(out);
        let mut terms = vec![0.0; self.rank()];
        let row: Vec<f64> = (0..self.rank()).map(|r| other.log(k, r)).collect();
        for i in doubtful {
            self.add_logs(i, &row, &mut terms);
            out[i] = F::from_f64(numeric::log_sum_exp(&terms));
        }
    }

    /// out(i, r) += factor·exp(logs(i) + ln X(i, r) + middle(r) + shift).
    fn add_log_products(&self, logs: &[F], middle: &[f64], shift: f64, factor: f64, out: &mut [F]) {
        let mut terms = vec![0.0; self.rank()];
        for (i, log) in logs.iter().enumerate().filter(|(_, log)| **log > F::NEG_INFINITY) {
            self.add_logs(i, middle, &mut terms);
            terms.iter_mut().for_each(|x| *x += log.to_f64() + shift);
            numeric::exp_in_place(&mut terms);
            let out = &mut out[self.state(i) * self.rank()..][..self.rank()];
            out.iter_mut().zip(&terms).for_each(|(x, &p)| *x += F::from_f64(factor * p));
        }
    }
}
