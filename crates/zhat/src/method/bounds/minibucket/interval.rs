//! Confidence intervals for the mean of weights in [0, B].
//!
//! Empirical Bernstein (A. Maurer, M. Pontil, *Empirical Bernstein bounds and sample variance penalization*,
//! COLT 2009): for n independent terms in [0, 1] with mean m and sample variance V, the expectation is at
//! most m + √(2V ln(2/δ)/n) + 7 ln(2/δ)/(3(n − 1)) with probability 1 − δ, and likewise for the lower end. It
//! is tight if the weights vary little.
//!
//! For weights that are rarely large, two other bounds are better: Markov's inequality for the lower end
//! ([`crate::method::sampling`]), and Chernoff's bound for the upper end: n·kl(m ‖ μ) ≤ ln(1/δ) for the mean
//! μ > m, where kl is the divergence of two Bernoulli distributions (W. Hoeffding, 1963).

/// Sample moments of n terms, each divided by B.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moments {
    pub count: f64,
    pub mean: f64,
    pub variance: f64,
}

impl Moments {
    fn radius(&self, delta: f64) -> f64 {
        if self.count < 2.0 {
            return f64::INFINITY;
        }
        let log = (2.0 / delta).ln();
        (2.0 * self.variance * log / self.count).sqrt() + 7.0 * log / (3.0 * (self.count - 1.0))
    }

    /// A lower confidence bound on the expectation, valid with probability 1 − δ; may be negative.
    pub fn low(&self, delta: f64) -> f64 {
        self.mean - self.radius(delta)
    }

    /// An upper confidence bound on the expectation, valid with probability 1 − δ; at most 1.
    pub fn high(&self, delta: f64) -> f64 {
        let bernstein = self.mean + self.radius(0.5 * delta);
        bernstein.min(self.chernoff(0.5 * delta)).min(1.0)
    }

    /// The largest μ with n·kl(m ‖ μ) ≤ ln(1/δ), approximated from above.
    fn chernoff(&self, delta: f64) -> f64 {
        let allowed = (1.0 / delta).ln() / self.count.max(1.0);
        let m = self.mean.clamp(0.0, 1.0);
        let divergence = |mu: f64| {
            let first = if m > 0.0 { m * (m / mu).ln() } else { 0.0 };
            let second = if m < 1.0 { (1.0 - m) * ((1.0 - m).ln() - (-mu).ln_1p()) } else { 0.0 };
            first + second
        };
        // Bisection on a logarithmic scale, which resolves small numbers: μ = m + (1 − m)·t.
        let (mut inside, mut outside) = (0.0f64, 1.0f64);
        for _ in 0..200 {
            let middle = if inside > 0.0 { (inside * outside).sqrt() } else { outside * 1e-2 };
            if middle < 1e-290 {
                break;
            }
            let mu = m + (1.0 - m) * middle;
            if mu < 1.0 && divergence(mu) <= allowed { inside = middle } else { outside = middle }
        }
        m + (1.0 - m) * outside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bounds_close_in_on_the_mean() {
        let at = |count: f64| Moments { count, mean: 0.25, variance: 0.01 };
        let width = |count: f64| at(count).high(0.05) - at(count).low(0.05);
        assert!(width(1e2) > width(1e4) && width(1e4) > width(1e6) && width(1e6) < 1e-3);
        assert!(at(1.0).low(0.05) == f64::NEG_INFINITY && at(1.0).high(0.05) <= 1.0);
    }

    #[test]
    fn no_weight_seen_is_what_chernoff_knows_best() {
        // (1 − μ)ⁿ = δ/2.
        let none = Moments { count: 1000.0, mean: 0.0, variance: 0.0 };
        let want = 1.0 - (0.025f64.ln() / 1000.0).exp();
        assert!((none.high(0.05) - want).abs() < 1e-9 && none.high(0.05) >= want - 1e-12);
    }

    #[test]
    fn chernoff_holds_for_coins() {
        // P(Binomial(20, 0.3) ≤ 2) = 0.0355: after a mean of 2/20, a bound at level 0.0354 must not exclude
        // 0.3.
        let seen = Moments { count: 20.0, mean: 0.1, variance: 0.09 };
        assert!(seen.chernoff(0.0354) > 0.3);
    }
}
