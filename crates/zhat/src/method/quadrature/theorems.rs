//! Error bounds: the degree and number of samples required for a given error, and the error for a given
//! number of samples.
//!
//! **Theorem 2 as printed** requires (k − 1)·k! ≥ 8·exp(2‖θ‖₁)/(πϵ) and N =
//! 2·ln(2/δ)·(τ/|X|)²·‖θ‖_∞^{2k'}/ε², k' = 1 if ‖θ‖_∞ < 1 else k, where ε is the error of the polynomial.
//! This is *not valid*: the condition on k lacks a factor ‖θ‖₁ᵏ (for ϵ = 0.1 and ‖θ‖₁ = 10 it gives 13; 23
//! are needed if Z may be as small as |X|·exp(−‖θ‖₁), and 16 with Jensen's inequality below), and the range
//! ignores that the sample of the empty tuple has size τ. [`samples_as_printed`] is provided for comparison.
//!
//! **Corrected.** One sample is ±τ·Π θ, at most τ·R with R = max(1, ‖θ‖_∞ᵏ), so by Hoeffding's inequality the
//! mean of N is within t = τR·√(2·ln(2/δ)/N) of Σ_x p(score(x)) with probability 1 − δ, and that is
//! within |X|·max_{\[l,u\]} |exp − p| of Z. By Jensen's inequality Z ≥ |X|·exp m with m the mean score over
//! all states, which is the sum of the tables' means. So |Ẑ − Z| ≤ ϵZ for ϵ = (t/|X| + max |exp −
//! p|)·exp(−m). [`corrected`] assigns half of ϵ to each term; [`error_of`] computes ϵ for a given N.
//!
//! **Theorem 6** is about logarithms: |ln Ẑ − ln Z| ≤ |Ẑ − Z|/min(Ẑ, Z), so the error is at most ϵ/(1 − ϵ)
//! for ϵ < 1 ([`log_error`]).
//!
//! N is astronomical for ordinary models. It is therefore computed first, and an error that refuses to run
//! states it.

use super::polynomial::{Polynomial, least_degree};
use super::tuples::Cliques;

/// The quantities of a model that the theorems use.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Norms {
    /// |C|.
    pub cliques: usize,
    /// ‖θ‖₁.
    pub one: f64,
    /// ‖θ‖_∞.
    pub largest: f64,
    /// The mean score over all states: the sum of the tables' means.
    pub mean: f64,
    /// A lower bound on all scores: the sum of the minima of the tables.
    pub low: f64,
    /// An upper bound on all scores.
    pub high: f64,
}

impl Norms {
    /// Computed from the cliques of a model.
    pub fn of(cliques: &Cliques) -> Self {
        let theta = cliques.theta();
        let mut norms = Norms {
            cliques: cliques.len(),
            one: theta.iter().map(|t| t.abs()).sum(),
            largest: theta.iter().fold(0.0, |m, t| t.abs().max(m)),
            mean: 0.0,
            low: 0.0,
            high: 0.0,
        };
        for c in 0..cliques.len() {
            let own = cliques.theta_of(c);
            norms.mean += own.iter().sum::<f64>() / own.len() as f64;
            norms.low += own.iter().fold(f64::INFINITY, |m, &t| m.min(t));
            norms.high += own.iter().fold(f64::NEG_INFINITY, |m, &t| m.max(t));
        }
        norms
    }

    /// ±‖θ‖₁, the interval of the paper, with positive length.
    pub fn interval(&self) -> (f64, f64) {
        let one = self.one.max(1e-9);
        (-one, one)
    }

    /// ln(τ/|X|) = ln Σᵢ |ζᵢ|·|C|ⁱ.
    pub fn log_mass(&self, polynomial: &Polynomial) -> f64 {
        let terms: Vec<f64> = log_masses(polynomial, self.cliques).collect();
        crate::numeric::log_sum_exp(&terms)
    }

    /// ln R = ln max(1, ‖θ‖_∞ᵏ).
    pub fn log_range(&self, degree: usize) -> f64 {
        (degree as f64 * self.largest.ln()).max(0.0)
    }
}

/// ln(|ζᵢ|·|C|ⁱ) for each length i.
pub(super) fn log_masses(polynomial: &Polynomial, cliques: usize) -> impl Iterator<Item = f64> {
    let log_cliques = (cliques as f64).ln();
    let term =
        move |(i, zeta): (usize, &f64)| zeta.abs().ln() + if i > 0 { i as f64 * log_cliques } else { 0.0 };
    polynomial.coefficients().iter().enumerate().map(term)
}

/// A degree and the natural logarithm of a number of samples.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Needed {
    /// k.
    pub degree: usize,
    /// ln N.
    pub log_samples: f64,
}

impl Needed {
    /// N; may be infinite.
    pub fn samples(&self) -> f64 {
        self.log_samples.exp()
    }
}

/// Theorem 2 as printed, **not valid**. `None` if no polynomial of the required degree exists.
pub fn samples_as_printed(norms: &Norms, epsilon: f64, delta: f64) -> Option<Needed> {
    let wanted = (8.0 / (std::f64::consts::PI * epsilon)).ln() + 2.0 * norms.one;
    let (mut degree, mut log_factorial) = (1usize, 0.0);
    while degree < 2 || ((degree - 1) as f64).ln() + log_factorial < wanted {
        degree += 1;
        log_factorial += (degree as f64).ln();
        if degree > 1 << 20 {
            return None;
        }
    }
    let polynomial = Polynomial::chebyshev(degree, norms.interval()).ok()?;
    let power = if norms.largest < 1.0 { 1 } else { degree };
    let log_samples = (2.0 * (2.0 / delta).ln()).ln()
        + 2.0 * norms.log_mass(&polynomial)
        + 2.0 * power as f64 * norms.largest.ln()
        - 2.0 * polynomial.error().ln();
    Some(Needed { degree, log_samples })
}

/// The corrected theorem for polynomials on `interval`: the smallest degree whose error is at most half of ϵ,
/// and N for the other half. `None` if no polynomial in double precision is accurate enough.
pub fn corrected(norms: &Norms, interval: (f64, f64), epsilon: f64, delta: f64) -> Option<Needed> {
    let half = 0.5 * epsilon * norms.mean.exp();
    if !(half > 0.0 && half.is_finite()) {
        return None;
    }
    let degree = least_degree(interval, half)?;
    let polynomial = Polynomial::chebyshev(degree, interval).ok()?;
    Some(Needed { degree, log_samples: log_samples(norms, &polynomial, 0.5 * epsilon, delta) })
}

/// ln N for a sampling error of at most ϵZ.
pub(super) fn log_samples(norms: &Norms, polynomial: &Polynomial, epsilon: f64, delta: f64) -> f64 {
    let degree = polynomial.coefficients().len() - 1;
    (2.0 * (2.0 / delta).ln()).ln()
        + 2.0 * (norms.log_mass(polynomial) + norms.log_range(degree) - norms.mean - epsilon.ln())
}

/// The error ϵ of N samples: |Ẑ − Z| ≤ ϵZ with probability 1 − δ.
pub fn error_of(norms: &Norms, polynomial: &Polynomial, samples: f64, delta: f64) -> f64 {
    (absolute(norms, polynomial, samples, delta).ln() - norms.mean).exp()
}

/// An upper bound on |Ẑ − Z|/|X| that holds with probability 1 − δ.
pub(super) fn absolute(norms: &Norms, polynomial: &Polynomial, samples: f64, delta: f64) -> f64 {
    let degree = polynomial.coefficients().len() - 1;
    let log_range = norms.log_mass(polynomial) + norms.log_range(degree);
    let sampling = (log_range + 0.5 * (2.0 * (2.0 / delta).ln() / samples).ln()).exp();
    // The last term covers rounding in sums of thousands of terms.
    sampling + polynomial.error() + 1e-12 * log_range.exp()
}

/// Theorem 6: a bound on |ln Ẑ − ln Z| if |Ẑ − Z| ≤ ϵZ; infinite for ϵ ≥ 1.
pub fn log_error(epsilon: f64) -> f64 {
    if epsilon < 1.0 { -(-epsilon).ln_1p() } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FactorGraph;

    /// A chain of 25 binary variables with 24 couplings and ‖θ‖₁ = `one`.
    fn norms(one: f64) -> Norms {
        let mut graph = FactorGraph::new(vec![2; 25]).unwrap();
        let j = one / 96.0;
        (0..24).for_each(|v| assert!(graph.add_factor(&[v, v + 1], &[j, -j, -j, j]).is_ok()));
        Norms::of(&Cliques::new(&graph).unwrap())
    }

    #[test]
    fn the_printed_degree_is_too_small_and_the_corrected_one_is_not() {
        let norms = norms(10.0);
        let printed = samples_as_printed(&norms, 0.1, 0.05).unwrap();
        let corrected = corrected(&norms, norms.interval(), 0.1, 0.05).unwrap();
        assert_eq!((printed.degree, corrected.degree), (13, 16));
        assert_eq!(least_degree(norms.interval(), 0.05 * (-10f64).exp()), Some(23));
        assert!(Polynomial::chebyshev(13, norms.interval()).unwrap().error() > 1.0);
        // An infeasible number of samples.
        assert!(corrected.samples() > 1e18, "{corrected:?}");
        let polynomial = Polynomial::chebyshev(16, norms.interval()).unwrap();
        let bought = error_of(&norms, &polynomial, corrected.samples(), 0.05);
        assert!(bought <= 0.11 && bought > 0.05, "{bought}");
    }

    #[test]
    fn errors_of_logarithms() {
        assert!((log_error(0.1) - 0.105_360_515).abs() < 1e-8);
        assert_eq!(log_error(1.0), f64::INFINITY);
        assert!(log_error(0.3) <= 0.3 / 0.7);
    }
}
