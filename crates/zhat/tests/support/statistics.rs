//! Tail bounds that hold for every sample size, so that the stated false-alarm rates hold exactly and not
//! only asymptotically.

/// The false-alarm rate of one comparison. No test makes more than a hundred, so each stays under 10⁻⁶.
pub const ALARM: f64 = 1e-8;

/// A bound on the p-value of the likelihood-ratio χ² test of counts against probabilities.
///
/// With m = cells − 1 and y = Σ c·ln(c / np), which is half the usual statistic, P(Y ≥ y) ≤ exp(−y)·(e·y/m)^m
/// for y > m (Agrawal 2020, *Finite-sample concentration of the multinomial in relative entropy*). The bound
/// holds for cells of any size. It is 0 if an event of probability zero was counted.
pub fn multinomial_tail(counts: &[u64], probabilities: &[f64]) -> f64 {
    let n: u64 = counts.iter().sum();
    let (mut y, mut cells) = (0.0, 0.0);
    for (&count, &p) in counts.iter().zip(probabilities) {
        if p > 0.0 {
            cells += 1.0;
            let count = count as f64;
            y += if count > 0.0 { count * (count / (n as f64 * p)).ln() } else { 0.0 };
        } else if count > 0 {
            return 0.0;
        }
    }
    let m = cells - 1.0;
    if y <= m || m < 1.0 { 1.0 } else { (m - y + m * (y / m).ln()).exp() }
}

/// P(K ≥ k) for K ~ Binomial(n, p), exactly.
pub fn binomial_tail(n: u64, k: u64, p: f64) -> f64 {
    let mut log_choose = 0.0;
    let mut tail = 0.0;
    for i in 0..=n {
        if i >= k {
            tail += (log_choose + i as f64 * p.ln() + (n - i) as f64 * (1.0 - p).ln()).exp();
        }
        log_choose += ((n - i) as f64 / (i + 1) as f64).ln();
    }
    tail
}

/// A radius within which the mean of n independent terms lies around its expectation, with probability at
/// least 1 − `alarm`. Each term has this variance and lies within `range` of the expectation (Bernstein's
/// inequality, two-sided).
pub fn bernstein_radius(n: f64, variance: f64, range: f64, alarm: f64) -> f64 {
    let log = (2.0 / alarm).ln();
    let linear = range * log / (3.0 * n);
    linear + (linear * linear + 2.0 * variance * log / n).sqrt()
}

/// The Chernoff bound on P(X ≥ x) for X ~ χ² with m degrees of freedom.
pub fn chi_square_tail(x: f64, m: f64) -> f64 {
    if x <= m { 1.0 } else { (0.5 * (m - x + m * (x / m).ln())).exp() }
}

/// Draws with weights known relative to Z, used to bound the error of means and ratios of weights.
pub struct WeightedDraws {
    /// w/Z for each draw; the expectation is 1.
    pub ratios: Vec<f64>,
    /// A bound on the distance between w/Z and its expectation.
    pub range: f64,
}

impl WeightedDraws {
    /// A radius within which the mean of w/Z over n other draws lies around 1, with probability at least 1 −
    /// `alarm`.
    ///
    /// Bernstein's inequality with twice the empirical variance of these draws; the factor two allows for
    /// rare large weights that these draws miss.
    pub fn mean_radius(&self, n: f64, alarm: f64) -> f64 {
        let second =
            self.ratios.iter().map(|r| (r - 1.0) * (r - 1.0)).sum::<f64>() / self.ratios.len() as f64;
        bernstein_radius(n, 2.0 * second, self.range, alarm)
    }

    /// A radius within which Σ w·1_A / Σ w over n other draws lies around p = P(A), with probability at least
    /// 1 − 2·`alarm`: w·(1_A − p) has expectation 0, and the mean of w is near Z. `holds` says which of these
    /// draws are in A. Infinite if there are too few draws for a bound.
    pub fn share_radius(&self, n: f64, p: f64, holds: impl Fn(usize) -> bool, alarm: f64) -> f64 {
        let term = |(i, r): (usize, &f64)| (r * (f64::from(u8::from(holds(i))) - p)).powi(2);
        let second = self.ratios.iter().enumerate().map(term).sum::<f64>() / self.ratios.len() as f64;
        let least = 1.0 - self.mean_radius(n, alarm);
        if least <= 0.0 {
            return f64::INFINITY;
        }
        bernstein_radius(n, 2.0 * second, self.range, alarm) / least
    }
}
