//! Tail bounds that hold for every sample size, so that a stated false-alarm rate is a fact and not an approximation.

/// The false-alarm rate of one comparison. No test makes more than a hundred, so each stays under 10⁻⁶.
pub const ALARM: f64 = 1e-8;

/// A bound on the p-value of the likelihood-ratio χ² test of counts against probabilities.
///
/// For m = cells − 1 and y = Σ c·ln(c / np), half the usual statistic: P(Y ≥ y) ≤ exp(−y)·(e·y/m)^m for y > m
/// (Agrawal 2020, *Finite-sample concentration of the multinomial in relative entropy*). No cell is too small for it.
/// 0 if something impossible was counted.
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

/// How far the mean of n independent terms may lie from its expectation, but for a probability of `alarm`, where each
/// term has this variance and lies within `range` of the expectation (Bernstein's inequality, both sides).
pub fn bernstein_radius(n: f64, variance: f64, range: f64, alarm: f64) -> f64 {
    let log = (2.0 / alarm).ln();
    let linear = range * log / (3.0 * n);
    linear + (linear * linear + 2.0 * variance * log / n).sqrt()
}
