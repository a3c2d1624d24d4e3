//! Combination of R independent unbiased estimates Ẑ₁ … Ẑ_R of Z ≥ 0.

use crate::answer::Guarantee;
use crate::numeric;

/// Log of the mean of the estimates, with its guarantee.
///
/// The standard error is that of the sample; it can be far too small if a few rare terms dominate the sum.
/// The lower bound does not have this weakness. By Markov's inequality P(Ẑᵣ ≥ aZ) ≤ 1/a, so for k fixed
/// beforehand the k-th largest of R exceeds aZ with probability at most C(R, k)·a⁻ᵏ. For k = R, ⌈R/2⌉ and 1,
/// with a third of δ = 1 − confidence each, this gives log Z ≥ (k-th largest log Ẑᵣ) − ln(3·C(R, k)/δ)/k, and
/// the best of the three holds with probability 1 − δ. `rounding` bounds the error of each logarithm and
/// moves the bound outward.
pub(crate) fn unbiased(log_estimates: &[f64], confidence: f64, rounding: f64) -> (f64, Guarantee) {
    let count = log_estimates.len();
    if count == 0 {
        let none = Guarantee::Unbiased {
            relative_std_error: f64::INFINITY,
            replicates: 0,
            low: f64::NEG_INFINITY,
            confidence,
        };
        return (f64::NEG_INFINITY, none);
    }
    let log_mean = numeric::log_sum_exp(log_estimates) - (count as f64).ln();
    let deviations: f64 = log_estimates.iter().map(|x| ((x - log_mean).exp() - 1.0).powi(2)).sum();
    let variance = deviations / (count as f64 - 1.0) / count as f64;
    let relative_std_error = if log_mean.is_finite() && count > 1 { variance.sqrt() } else { f64::INFINITY };

    let mut descending = log_estimates.to_vec();
    descending.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut ranks = vec![count, count.div_ceil(2), 1];
    ranks.dedup();
    let delta = (1.0 - confidence) / ranks.len() as f64;
    let bound = |&k: &usize| descending[k - 1] - (log_binomial(count, k) - delta.ln()) / k as f64;
    let low = ranks.iter().map(bound).fold(f64::NEG_INFINITY, f64::max) - rounding;
    (log_mean, Guarantee::Unbiased { relative_std_error, replicates: count, low, confidence })
}

/// ln C(n, k), not below the true value except for rounding.
fn log_binomial(n: usize, k: usize) -> f64 {
    (0..k.min(n - k)).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_estimates_have_no_spread() {
        let (value, guarantee) = unbiased(&[2.0; 32], 0.95, 0.0);
        assert!((value - 2.0).abs() < 1e-15);
        let Guarantee::Unbiased { relative_std_error, low, .. } = guarantee else { panic!("{guarantee:?}") };
        assert!(relative_std_error < 1e-15);
        assert!((low - (2.0 - (3.0f64 / 0.05).ln() / 32.0)).abs() < 1e-12);
    }

    #[test]
    fn zero_estimates_promise_nothing_and_break_nothing() {
        let (value, guarantee) = unbiased(&[f64::NEG_INFINITY; 4], 0.95, 1e-9);
        assert_eq!(value, f64::NEG_INFINITY);
        let Guarantee::Unbiased { relative_std_error, low, .. } = guarantee else { panic!("{guarantee:?}") };
        assert_eq!((relative_std_error, low), (f64::INFINITY, f64::NEG_INFINITY));
    }

    #[test]
    fn some_zero_estimates_leave_a_bound() {
        let mut logs = vec![f64::NEG_INFINITY; 8];
        logs[0] = 10.0;
        let (_, guarantee) = unbiased(&logs, 0.95, 0.0);
        let Guarantee::Unbiased { low, .. } = guarantee else { panic!("{guarantee:?}") };
        assert!((low - (10.0 - (3.0f64 * 8.0 / 0.05).ln())).abs() < 1e-12);
    }

    #[test]
    fn binomials() {
        assert!((log_binomial(32, 16) - 601_080_390f64.ln()).abs() < 1e-12);
        assert_eq!(log_binomial(5, 5), 0.0);
    }
}
