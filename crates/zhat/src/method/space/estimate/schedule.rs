//! Formulas for the number of levels, samples and runs of the schemes.

/// The number of levels of the telescoped scheme. With Δ the range of the scores and one exact sample per
/// level, ⌈Δ/ln(1 + ε²/4)⌉ equal steps of β make the relative variance of Ẑ at most ε²/4, so P(|Ẑ − Z| ≤ εZ)
/// ≥ 3/4 by Chebyshev's inequality.
///
/// The estimate is |Y| Π exp(s(y_i)/l) with y_i at β_i = i/l. Its relative second moment is Π Z(β_i +
/// 2/l)Z(β_i)/Z(β_i + 1/l)², which telescopes to Z(1 + 1/l)Z(0)/(Z(1)Z(1/l)) ≤ exp(Δ/l).
pub fn telescoped_levels(spread: f64, error: f64) -> f64 {
    (spread / (0.25 * error * error).ln_1p()).ceil().max(1.0)
}

/// The smallest odd number of runs whose median fails with probability at most δ if each run fails with
/// probability at most 1/4: P(Binomial(k, ¼) ≥ (k + 1)/2) ≤ δ.
pub fn median_runs(delta: f64) -> usize {
    let mut k = 1;
    // At 1001 the probability is far below any δ that can be represented as 1 minus a confidence.
    while upper_tail(k) > delta && k < 1001 {
        k += 2;
    }
    k
}

/// P(Binomial(k, ¼) ≥ (k + 1)/2).
fn upper_tail(k: usize) -> f64 {
    let half = k.div_ceil(2);
    let log_choose = |i: usize| {
        super::super::log_factorial(k) - super::super::log_factorial(i) - super::super::log_factorial(k - i)
    };
    let term = |i: usize| (log_choose(i) + (k - i) as f64 * 3f64.ln() - k as f64 * 4f64.ln()).exp();
    (half..=k).map(term).sum()
}

/// Levels and samples of the published scheme.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Number of steps of β.
    pub levels: f64,
    /// Samples per level.
    pub samples_each: f64,
}

impl Published {
    /// l = p⌈BR⌉ as printed; S = ⌈65 ε⁻² l exp(2/p)⌉.
    pub fn as_printed(norm: f64, error: f64, p: f64) -> Self {
        Self::of(p * norm.ceil(), error, p)
    }

    /// l = ⌈p·BR⌉ equal steps.
    pub fn corrected(norm: f64, error: f64, p: f64) -> Self {
        Self::of((p * norm).ceil(), error, p)
    }

    fn of(levels: f64, error: f64, p: f64) -> Self {
        let levels = levels.max(1.0);
        Published { levels, samples_each: (65.0 * levels * (2.0 / p).exp() / (error * error)).ceil() }
    }

    /// Total number of samples.
    pub fn total(&self) -> f64 {
        self.levels * self.samples_each
    }

    /// Required total-variation accuracy of an approximate sampler (Theorem A.1).
    pub fn tolerance(&self, error: f64, p: f64) -> f64 {
        error / (5.0 * self.levels * (2.0 / p).exp())
    }
}

/// The interval for the mean of a Poisson distribution from one count n. Each end fails with probability at
/// most δ/2 (Garwood 1936).
///
/// Beyond 2²⁶ the ends are those of [`chernoff_interval`], which is fast.
pub fn poisson_interval(count: u64, delta: f64) -> (f64, f64) {
    if count > 1 << 26 || delta.is_nan() || delta <= 0.0 {
        return chernoff_interval(count, delta);
    }
    let n = count as f64;
    // The tails are computed more accurately than this margin.
    let each = 0.5 * delta * (1.0 - 1e-6);
    let width = 4.0 * ((1.0 / each).ln() * (n + 1.0)).sqrt() + 4.0 * (1.0 / each).ln();
    let low = if count == 0 {
        0.0
    } else {
        let (mut a, mut b) = ((n - width).max(0.0), n);
        for _ in 0..100 {
            let middle = 0.5 * (a + b);
            if poisson_at_least(count, middle) <= each { a = middle } else { b = middle }
        }
        a
    };
    let (mut a, mut b) = (n, n + width + 1.0);
    while poisson_at_most(count, b) > each {
        b *= 2.0;
    }
    for _ in 0..100 {
        let middle = 0.5 * (a + b);
        if poisson_at_most(count, middle) <= each { b = middle } else { a = middle }
    }
    (low, b)
}

/// A wider interval from P(N ≥ n), P(N ≤ n) ≤ exp(n − μ)(μ/n)ⁿ (Chernoff).
pub fn chernoff_interval(count: u64, delta: f64) -> (f64, f64) {
    let n = count as f64;
    // A margin of 1e-3, more than the rounding error of the bound.
    let goal = (0.5 * delta).max(f64::MIN_POSITIVE).ln() - 1e-3;
    let log = |mean: f64| n - mean + if count == 0 { 0.0 } else { n * (mean / n).ln() };
    let within = |mut inside: f64, mut outside: f64| {
        for _ in 0..200 {
            let middle = 0.5 * (inside + outside);
            if log(middle) <= goal { outside = middle } else { inside = middle }
        }
        outside
    };
    let low = if count == 0 { 0.0 } else { within(n, 0.0) };
    (low, within(n, n + 4.0 * (-goal * (n + 1.0)).sqrt() - 4.0 * goal))
}

fn log_poisson(count: u64, mean: f64) -> f64 {
    count as f64 * mean.ln() - mean - super::super::log_factorial(count as usize)
}

/// P(N ≥ n) for a mean μ ≤ n; not too small by more than rounding.
fn poisson_at_least(count: u64, mean: f64) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut k) = (1.0, 1.0, count as f64);
    while term > 1e-17 * sum {
        k += 1.0;
        term *= mean / k;
        sum += term;
    }
    // The remaining terms decrease faster than this geometric series.
    let ratio = mean / (k + 1.0);
    (sum + term * ratio / (1.0 - ratio)) * log_poisson(count, mean).exp()
}

/// P(N ≤ n) for a mean μ ≥ n.
fn poisson_at_most(count: u64, mean: f64) -> f64 {
    let (mut term, mut sum, mut k) = (1.0, 1.0, count as f64);
    while k > 0.0 && term > 1e-17 * sum {
        term *= k / mean;
        k -= 1.0;
        sum += term;
    }
    (sum + k * term) * log_poisson(count, mean).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_for_a_median() {
        let runs = [0.25, 0.1, 0.05, 0.01, 1e-3, 1e-6].map(median_runs);
        assert_eq!(runs, [1, 7, 9, 19, 33, 79]);
    }

    #[test]
    fn the_counts_of_the_paper_and_ours() {
        for (norm, ours, paper) in [(5.0, 4e3, 2.9e6), (20.0, 1.6e4, 4.6e7), (100.0, 8e4, 1.1e9)] {
            let levels = telescoped_levels(2.0 * norm, 0.1);
            assert!((levels / ours - 1.0).abs() < 0.01, "{levels}");
            let published = Published::corrected(norm, 0.1, 3.0);
            assert!((published.total() / paper - 1.0).abs() < 0.05, "{}", published.total());
            assert!(published.total() > 100.0 * levels);
            assert_eq!(published, Published::as_printed(norm, 0.1, 3.0));
        }
        assert!(
            Published::as_printed(4.2, 0.1, 3.0).levels == 15.0
                && Published::corrected(4.2, 0.1, 3.0).levels == 13.0
        );
    }

    #[test]
    fn poisson_intervals_are_exact() {
        // For n = 0: [0, ln 2/δ]. For n = 10 at 95%: 4.795389 to 18.390356 (tables).
        let (low, high) = poisson_interval(0, 0.05);
        assert!(low == 0.0 && (high - 40f64.ln()).abs() < 1e-5);
        let (low, high) = poisson_interval(10, 0.05);
        assert!((low - 4.795389).abs() < 1e-4 && (high - 18.390356).abs() < 1e-4, "{low} {high}");
        // The coverage, summed over all counts, is never below the nominal confidence.
        for mean in [0.1f64, 1.0, 3.3, 17.0, 140.0] {
            let covered: f64 = (0..600u64)
                .filter(|n| {
                    let (low, high) = poisson_interval(*n, 0.1);
                    low <= mean && mean <= high
                })
                .map(|n| log_poisson(n, mean).exp())
                .sum();
            assert!(covered >= 0.9, "{mean} {covered}");
        }
    }
}
