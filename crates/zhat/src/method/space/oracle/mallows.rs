//! Distance models exp(−θ d) around a reference order: closed forms for log Z, E\[d\] and sampling.
//!
//! - Kendall (Mallows): items are inserted in the order of the reference, and the i-th passes k ≤ i − 1
//!   others with probability ∝ e^{−θk}; Z = Π_i Σ_{k<i} e^{−θk}.
//! - Cayley: the i-th item stays or is swapped with one of the i − 1 earlier ones; Z = Π_i (1 + (i −
//!   1)e^{−θ}).
//! - Hamming: m of the n positions differ, in C(n, m)·D_m ways, where D_m is the number of derangements; Z =
//!   Σ_m C(n, m) D_m e^{−θm}.
//!
//! All sums have positive terms, for θ of either sign. Time O(n) for log Z and O(n) per sample; Kendall needs
//! O(n²) memory moves.

use crate::numeric::parallel::prelude::*;

use super::ranked;
use crate::error::Result;
use crate::method::space::{Distance, log_factorial};
use crate::numeric;
use crate::random::Stream;
use crate::run::Clock;

/// ln Σ_{k<i} e^{−θk}, and the mean of k under it.
fn geometric(i: usize, theta: f64) -> (f64, f64) {
    let n = i as f64;
    if theta < 0.0 {
        // By symmetry, counted from the other end.
        let (log, mean) = geometric(i, -theta);
        return (log - theta * (n - 1.0), n - 1.0 - mean);
    }
    if theta * n < 1e-4 {
        // The first terms of the series in θ: Σ e^{−θk} = i(1 − θ m₁ + θ²/2 m₂ …) with the moments of the
        // uniform distribution.
        let m1 = 0.5 * (n - 1.0);
        let m2 = (n - 1.0) * (2.0 * n - 1.0) / 6.0;
        let m3 = m1 * m1 * n;
        let sum = -theta * m1 + 0.5 * theta * theta * m2 - theta.powi(3) / 6.0 * m3;
        let mean = (m1 - theta * m2 + 0.5 * theta * theta * m3) / (1.0 + sum);
        return (n.ln() + sum.ln_1p(), mean);
    }
    let (whole, one) = (-(-theta * n).exp_m1(), -(-theta).exp_m1());
    let mean = (-theta).exp() / one - n * (-theta * n).exp() / whole;
    (whole.ln() - one.ln(), mean)
}

/// k < i with probability ∝ e^{−θk}.
fn truncated_geometric(random: &mut Stream, i: usize, theta: f64) -> usize {
    if theta < 0.0 {
        return i - 1 - truncated_geometric(random, i, -theta);
    }
    let whole = (-theta * i as f64).exp_m1();
    if theta == 0.0 || whole == 0.0 {
        return random.below(i);
    }
    let k = -(random.uniform() * whole).ln_1p() / theta;
    (k as usize).min(i - 1)
}

/// ln C(n, m)·D_m − θm for m = 0 … n.
fn hamming_terms(n: usize, theta: f64) -> Vec<f64> {
    let mut terms = Vec::with_capacity(n + 1);
    // ln D_m = ln (m − 1)(D_{m−1} + D_{m−2}).
    let (mut last, mut previous) = (0.0, f64::NEG_INFINITY);
    for m in 0..=n {
        let derangements = match m {
            0 => 0.0,
            1 => f64::NEG_INFINITY,
            _ => ((m - 1) as f64).ln() + numeric::log_sum_exp(&[last, previous]),
        };
        (previous, last) = (last, derangements);
        let choose = log_factorial(n) - log_factorial(m) - log_factorial(n - m);
        terms.push(choose + derangements - theta * m as f64);
    }
    terms
}

/// Whether there is a closed form.
pub(super) fn has_closed_form(distance: Distance) -> bool {
    matches!(distance, Distance::Kendall | Distance::Cayley | Distance::Hamming)
}

/// log Z and E\[d\].
pub(super) fn log_partition(distance: Distance, n: usize, theta: f64) -> (f64, f64) {
    match distance {
        Distance::Kendall => {
            let parts = (1..=n).map(|i| geometric(i, theta));
            parts.fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        }
        Distance::Cayley => {
            let part = |i: usize| {
                let odds = (i as f64).ln() - theta;
                (crate::method::space::softplus(odds), crate::method::space::sigmoid(odds))
            };
            (1..n).map(part).fold((0.0, 0.0), |sum, part| (sum.0 + part.0, sum.1 + part.1))
        }
        _ => {
            let terms = hamming_terms(n, theta);
            let total = numeric::log_sum_exp(&terms);
            let mean = terms.iter().enumerate().map(|(m, x)| m as f64 * (x - total).exp()).sum();
            (total, mean)
        }
    }
}

/// The magnitude of the numbers that add up to log Z. For Kendall and Cayley all logarithms are positive, so
/// no partial sum exceeds the last one; in addition there is ln(1 − e^{−θ}), if used, which is at most ln
/// 10⁴n.
pub(super) fn magnitude(distance: Distance, n: usize, theta: f64, log_partition: f64) -> f64 {
    match distance {
        Distance::Kendall | Distance::Cayley => log_partition.abs() + (1e4 * n.max(1) as f64).ln() + 4.0,
        _ => 2.0 * log_factorial(n) + theta.abs() * n as f64,
    }
}

/// The quantities needed for sampling.
pub(super) struct Draws {
    distance: Distance,
    theta: f64,
    /// The item at each position of the reference.
    reference: Vec<u32>,
    /// The distribution of the number of positions that differ.
    differing: Vec<f64>,
}

impl Draws {
    pub fn new(distance: Distance, places: &[u32], theta: f64) -> Self {
        let mut reference = vec![0; places.len()];
        places.iter().enumerate().for_each(|(item, place)| reference[*place as usize] = item as u32);
        let mut differing = Vec::new();
        if distance == Distance::Hamming {
            differing = hamming_terms(places.len(), theta);
            let largest = numeric::max(&differing);
            differing.iter_mut().for_each(|x| *x = (*x - largest).exp());
        }
        Draws { distance, theta, reference, differing }
    }

    pub fn draw(&self, random: &mut Stream, order: &mut [u32]) {
        let n = self.reference.len();
        match self.distance {
            Distance::Kendall => {
                for i in 0..n {
                    let passed = truncated_geometric(random, i + 1, self.theta);
                    order.copy_within(i - passed..i, i - passed + 1);
                    order[i - passed] = self.reference[i];
                }
            }
            Distance::Cayley => {
                order.copy_from_slice(&self.reference);
                for i in 1..n {
                    let odds = (i as f64).ln() - self.theta;
                    if random.uniform() < crate::method::space::sigmoid(odds) {
                        order.swap(i, random.below(i));
                    }
                }
            }
            _ => {
                order.copy_from_slice(&self.reference);
                let m = random.categorical(&self.differing);
                let mut places: Vec<usize> = (0..n).collect();
                for i in 0..m {
                    let j = i + random.below(n - i);
                    places.swap(i, j);
                }
                // About one in e shuffles has no fixed point.
                let mut moved = places[..m].to_vec();
                while moved.iter().zip(&places).any(|(a, b)| a == b) {
                    random.shuffle(&mut moved);
                }
                moved.iter().zip(&places).for_each(|(from, to)| order[*to] = self.reference[*from]);
            }
        }
    }

    /// P(item at position), one row per item. For Kendall, O(n³): after its insertion, the position of an
    /// item moves by one if a later item is inserted before it. For the other distances, the weights are
    /// invariant under renaming the items, so an item keeps its own position with one probability and takes
    /// each other position with another.
    pub fn positions(&self, values: &mut [f64], clock: &Clock<'_>) -> Result<()> {
        let n = self.reference.len();
        if n < 2 {
            values.fill(1.0);
            return Ok(());
        }
        if self.distance != Distance::Kendall {
            let own = match self.distance {
                // With weight e^θ per cycle (Ewens), an item is a fixed point with probability e^θ/(e^θ + n −
                // 1).
                Distance::Cayley => crate::method::space::sigmoid(self.theta - ((n - 1) as f64).ln()),
                distance => 1.0 - log_partition(distance, n, self.theta).1 / n as f64,
            };
            values.fill((1.0 - own).max(0.0) / (n - 1) as f64);
            for (place, &item) in self.reference.iter().enumerate() {
                values[item as usize * n + place] = own.max(0.0);
            }
            return Ok(());
        }
        // The cumulative distribution of the position at which the t-th item is inserted.
        let mut inserted = vec![0.0; n * n];
        for t in 0..n {
            let row = &mut inserted[t * n..(t + 1) * n];
            let weight = |q: usize| {
                let passed = (t - q) as f64;
                (-self.theta * if self.theta >= 0.0 { passed } else { passed - t as f64 }).exp()
            };
            row[..=t].iter_mut().enumerate().for_each(|(q, x)| *x = weight(q));
            let total: f64 = row[..=t].iter().sum();
            let mut sum = 0.0;
            for x in &mut row[..=t] {
                sum += *x;
                *x = (sum / total).min(1.0);
            }
        }
        let mut rows: Vec<(usize, &mut [f64])> = values.chunks_mut(n).enumerate().collect();
        let mut places = vec![0; n];
        self.reference.iter().enumerate().for_each(|(place, item)| places[*item as usize] = place);
        rows.par_iter_mut().try_for_each(|(item, row)| {
            clock.check()?;
            let first = places[*item];
            let own = &inserted[first * n..(first + 1) * n];
            row[0] = own[0];
            (1..=first).for_each(|q| row[q] = own[q] - own[q - 1]);
            for t in first + 1..n {
                let before = &inserted[t * n..(t + 1) * n];
                row[t] = row[t - 1] * before[t - 1];
                for q in (1..t).rev() {
                    row[q] = row[q] * (1.0 - before[q]) + row[q - 1] * before[q - 1];
                }
                row[0] *= 1.0 - before[0];
            }
            Ok(())
        })
    }

    /// The k best orders for Kendall and Cayley, whose distances are sums of independent choices.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<u32>>> {
        let n = self.reference.len();
        let kendall = self.distance == Distance::Kendall;
        let near = self.theta >= 0.0;
        // The j-th best choice of the i-th item: the number of items it passes, or the item with which it is
        // swapped (itself if none).
        let choice = |i: usize, j: usize| if kendall == near { j } else { i - j };
        let lists = (0..n).map(|i| {
            let score = |j: usize| match kendall {
                true => -self.theta * choice(i, j) as f64,
                false => -self.theta * f64::from(u8::from(choice(i, j) != i)),
            };
            (0..(i + 1).min(k)).map(score).collect::<Vec<f64>>()
        });
        let chosen = ranked::choices(lists, k, clock)?;
        let order = |choices: Vec<u32>| {
            let mut order = if kendall { vec![0; n] } else { self.reference.clone() };
            for (i, &j) in choices.iter().enumerate() {
                let j = choice(i, j as usize);
                if kendall {
                    order.copy_within(i - j..i, i - j + 1);
                    order[i - j] = self.reference[i];
                } else {
                    order.swap(i, j);
                }
            }
            order
        };
        Ok(chosen.into_iter().map(order).collect())
    }

    /// An order with the largest weight.
    pub fn best(&self) -> Vec<u32> {
        let mut best = self.reference.clone();
        if self.theta < 0.0 {
            // The most distant order: reversed, or shifted cyclically by one.
            if self.distance == Distance::Kendall {
                best.reverse()
            } else if !best.is_empty() {
                best.rotate_left(1)
            }
        }
        best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geometric_sums_are_right_for_any_spread() {
        for i in [1, 2, 5, 40] {
            for theta in [0.0, 1e-9, 1e-6, 2e-6, 1e-5, 1e-3, 0.5, 30.0, -1e-7, -0.3, -20.0] {
                let terms: Vec<f64> = (0..i).map(|k| -theta * f64::from(k)).collect();
                let total = numeric::log_sum_exp(&terms);
                let mean: f64 = terms.iter().enumerate().map(|(k, x)| k as f64 * (x - total).exp()).sum();
                let (log, found) = geometric(i as usize, theta);
                assert!((log - total).abs() <= 1e-13 * (1.0 + total.abs()), "{i} {theta}: {log} {total}");
                assert!((found - mean).abs() <= 1e-8 * (1.0 + mean), "{i} {theta}: {found} {mean}");
            }
        }
    }
}
