//! Double-double arithmetic: a number is the unevaluated sum of two doubles, with a relative error of about
//! 2⁻¹⁰⁰ (Dekker 1971). Precise enough to measure every rounding error of a result in doubles.

use std::ops::{Add, Mul, Neg, Sub};

use zhat::FactorGraph;

use super::oracle::states;

/// high + low, where |low| is at most half a unit in the last place of high.
#[derive(Clone, Copy, Debug)]
pub struct Double {
    pub high: f64,
    pub low: f64,
}

const LN_2: Double = Double { high: std::f64::consts::LN_2, low: 2.319_046_813_846_299_6e-17 };

/// a + b and its rounding error.
fn two_sum(a: f64, b: f64) -> Double {
    let high = a + b;
    let b_seen = high - a;
    Double { high, low: (a - (high - b_seen)) + (b - b_seen) }
}

impl From<f64> for Double {
    fn from(x: f64) -> Self {
        Double { high: x, low: 0.0 }
    }
}

impl Add for Double {
    type Output = Double;
    fn add(self, other: Double) -> Double {
        let (high, low) = (two_sum(self.high, other.high), two_sum(self.low, other.low));
        let sum = two_sum(high.high, high.low + low.high);
        two_sum(sum.high, sum.low + low.low)
    }
}

impl Neg for Double {
    type Output = Double;
    fn neg(self) -> Double {
        Double { high: -self.high, low: -self.low }
    }
}

impl Sub for Double {
    type Output = Double;
    fn sub(self, other: Double) -> Double {
        self + -other
    }
}

impl Mul for Double {
    type Output = Double;
    fn mul(self, other: Double) -> Double {
        let high = self.high * other.high;
        let error = self.high.mul_add(other.high, -high);
        two_sum(high, error + (self.high * other.low + self.low * other.high))
    }
}

impl Double {
    pub const ZERO: Double = Double { high: 0.0, low: 0.0 };

    /// Divides by a double.
    pub fn over(self, divisor: f64) -> Double {
        let quotient = self.high / divisor;
        let rest = self - Double::from(quotient) * divisor.into();
        two_sum(quotient, rest.high / divisor)
    }

    /// Multiplies by a power of two, exactly.
    fn scaled(self, factor: f64) -> Double {
        Double { high: self.high * factor, low: self.low * factor }
    }

    /// Writes x = k·ln 2 + 1024·r, sums the series in r and squares ten times. For |x| ≤ 700; returns 0
    /// below.
    pub fn exp(self) -> Double {
        if self.high < -700.0 {
            return Double::ZERO;
        }
        let k = (self.high / LN_2.high).round();
        let r = (self - LN_2 * k.into()).scaled(1.0 / 1024.0);
        let one = Double::from(1.0);
        let series = (1..=10).rev().fold(one, |sum, i| one + (r * sum).over(f64::from(i)));
        (0..10).fold(series, |power, _| power * power).scaled(k.exp2())
    }

    /// One Newton step for exp y = x doubles the number of correct digits of the standard library's result.
    pub fn ln(self) -> Double {
        let y = Double::from(self.high.ln());
        y + self * (-y).exp() - 1.0.into()
    }

    /// One Newton step for y² = x.
    pub fn sqrt(self) -> Double {
        let y = self.high.sqrt();
        Double::from(y) + (self - Double::from(y) * y.into()).over(2.0 * y)
    }

    /// The distance between this number and a double.
    pub fn distance(self, x: f64) -> f64 {
        (self - x.into()).high.abs()
    }
}

/// log Σ exp.
pub fn log_sum_exp(terms: &[Double]) -> Double {
    let best = terms.iter().fold(f64::NEG_INFINITY, |best, x| best.max(x.high));
    let sum = terms.iter().filter(|x| x.high > f64::NEG_INFINITY);
    let sum = sum.fold(Double::ZERO, |sum, &x| sum + (x - best.into()).exp());
    Double::from(best) + sum.ln()
}

/// Every query result for a model with Z > 0, by enumeration.
pub struct Truth {
    pub log_partition: Double,
    pub entropy: Double,
    pub best: Double,
    /// One list per variable.
    pub marginals: Vec<Vec<Double>>,
    /// One list per factor.
    pub factor_marginals: Vec<Vec<Double>>,
}

impl Truth {
    pub fn new(graph: &FactorGraph) -> Truth {
        let states = states(graph);
        let scores: Vec<Double> = states.iter().map(|state| score(graph, state)).collect();
        let log_partition = log_sum_exp(&scores);
        let mut best = Double::from(f64::NEG_INFINITY);
        let mut entropy = Double::ZERO;
        let mut marginals: Vec<Vec<Double>> =
            graph.cardinalities().iter().map(|&states| vec![Double::ZERO; states]).collect();
        let mut factor_marginals: Vec<Vec<Double>> =
            graph.factors().map(|factor| vec![Double::ZERO; factor.log_values.len()]).collect();
        for (state, &score) in states.iter().zip(&scores).filter(|(_, score)| score.high > f64::NEG_INFINITY)
        {
            if (score.high, score.low) > (best.high, best.low) {
                best = score;
            }
            let p = (score - log_partition).exp();
            entropy = entropy + p * (log_partition - score);
            for (marginal, &s) in marginals.iter_mut().zip(state) {
                marginal[s] = marginal[s] + p;
            }
            for (table, factor) in factor_marginals.iter_mut().zip(graph.factors()) {
                let at = entry(graph, factor.scope, state);
                table[at] = table[at] + p;
            }
        }
        Truth { log_partition, entropy, best, marginals, factor_marginals }
    }
}

/// The index of the entry for `state` in a table over `scope`.
fn entry(graph: &FactorGraph, scope: &[usize], state: &[usize]) -> usize {
    scope.iter().fold(0, |at, &v| at * graph.cardinalities()[v] + state[v])
}

/// Σ_f θ_f(x_f).
pub fn score(graph: &FactorGraph, state: &[usize]) -> Double {
    let mut sum = Double::ZERO;
    for factor in graph.factors() {
        let value = factor.log_values[entry(graph, factor.scope, state)];
        if value == f64::NEG_INFINITY {
            return value.into();
        }
        sum = sum + value.into();
    }
    sum
}
