//! Sampling for a component of a mixed model that would need too many cells.
//!
//! Let s = c + Σⱼ θⱼ (φⱼ − mⱼ) with each statistic φⱼ centred on its range, so that z = s − c lies in [−r,
//! r], r = Σⱼ |θⱼ|·half the range of φⱼ. Under the uniform distribution on the box, E z and E z² are sums of
//! χ in closed form.
//!
//! **Points.** q is the best polynomial of degree 2, and E e^z = E q(z) + E[e^z − q(z)]. The first term is
//! computed exactly, the second from samples of x, each within ±ε, where ε is the certified error of q. This
//! is the paper's estimator with exact low-order terms and an exact sum over tuples, because exp itself costs
//! no more than its polynomial.
//!
//! **Tuples.** Algorithm 1, corrected: the terms of order 0 to 2 of p of degree k are exact. For the rest,
//! draw a length i ∝ |ζᵢ| rⁱ, then i terms ∝ |θⱼ|·half range, and take the product of their centred
//! statistics at a random point, which is signed and at most 1 in absolute value. Its range is ±Σ_{i≥3} |ζᵢ|
//! rⁱ; the error of the polynomial is added.
//!
//! Both intervals use a **known range**: Hoeffding's inequality, or Bernstein's with the empirical variance
//! (Maurer and Pontil 2009), whichever is narrower, at half the risk each. They never rely on the variance
//! alone.

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Component, Domain, MixedModel, Statistic, Term};
use crate::numeric::Double;
use crate::random::{Stream, Streams};
use crate::run::Clock;

use super::moments;
use super::range::{self, Range};
use crate::method::quadrature::polynomial::Polynomial;

/// Samples per stream.
const BLOCK: u64 = 4096;
/// Streams between two checks of the clock.
const BATCH: u64 = 64;
/// Samples between two checks of the clock within a block.
const LOOK: u64 = 64;
/// Bytes for partial sums and a few tables.
pub(super) const BYTES: f64 = 1e6;
/// Above this half-width, no degree of the tuples gives a useful result.
const WIDEST: f64 = 300.0;

/// Above this value, a score with its centre subtracted has an error of more than 1e−12.
const MOST_CANCELLED: f64 = 1e4;

/// Estimated time of `samples` samples.
pub(super) fn seconds(model: &MixedModel, samples: u64) -> f64 {
    let factors: usize = model.terms().iter().map(|term| 1 + term.factors.len()).sum();
    let pairs = (model.terms().len() as f64).powi(2);
    samples as f64 * (2e-8 + 1.5e-8 * factors as f64) + 2e-6 * pairs
}

/// The sampling plan, and the quantities known without sampling.
pub(super) struct Plan {
    domains: Vec<Domain>,
    terms: Vec<Centred>,
    log_volume: f64,
    centre: f64,
    half: f64,
    /// E z and E z².
    first: f64,
    second: f64,
    polynomial: Polynomial,
    tuples: Option<Tuples>,
}

struct Centred {
    weight: f64,
    middle: f64,
    half: f64,
    factors: Vec<(usize, Statistic)>,
}

/// The cumulative distributions of a tuple's length and of its terms.
struct Tuples {
    lengths: Vec<f64>,
    terms: Vec<f64>,
    /// Σ_{i≥3} |ζᵢ| rⁱ.
    total: f64,
}

/// Result of the samples.
pub(super) struct Outcome {
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub drawn: u64,
    pub stopped: bool,
}

/// The mean of a product of statistics of one variable under the uniform distribution.
fn mean(domain: Domain, factors: &[Statistic]) -> Option<Double> {
    match domain {
        Domain::States(n) => {
            let mut states =
                factors.iter().map(|f| if let Statistic::State(s) = f { *s } else { usize::MAX });
            let first = states.next()?;
            let same = states.all(|s| s == first);
            Some(if same { Double::ONE.over(n as f64) } else { Double::ZERO })
        }
        Domain::Counts(a, b) => {
            let b = b.filter(|b| ((b - a) as f64) < super::cells::MOST_STATES)?;
            let product = |x: u64| factors.iter().map(|f| f.value(x as f64)).product::<f64>();
            let sum = (a..=b).fold(Double::ZERO, |sum, x| sum + product(x).into());
            Some(sum.over((b - a + 1) as f64))
        }
        Domain::Interval(a, b) => {
            if factors.contains(&Statistic::LogComplement) {
                let f = |x: f64| factors.iter().map(|f| f.value(x)).product::<f64>();
                let rule = super::gauss::gauss_legendre(64);
                let at = |t: f64| 0.5 * (a + b) + 0.5 * (b - a) * t;
                return Some(rule.iter().map(|&(t, w)| 0.5 * w * f(at(t))).sum::<f64>().into());
            }
            let found = moments::product_mean(factors, a, b)?;
            (found.value.high.is_finite() && found.error <= 1e-20 * found.value.high.abs().max(1e-4))
                .then_some(found.value)
        }
    }
}

/// The expectation of the product of the statistics of two terms, or of one term.
fn product_mean(
    domains: &[Domain],
    one: &[(usize, Statistic)],
    other: &[(usize, Statistic)],
) -> Option<Double> {
    let mut all: Vec<(usize, Statistic)> = one.iter().chain(other).copied().collect();
    all.sort_by_key(|f| f.0);
    let mut product = Double::ONE;
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let own: Vec<Statistic> = group.iter().map(|f| f.1).collect();
        product = product * mean(domains[group[0].0], &own)?;
    }
    Some(product)
}

impl Plan {
    /// A plan to sample points, or tuples with a polynomial of this degree.
    pub fn new(
        model: &MixedModel,
        component: &Component,
        tuples: Option<usize>,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let mut local = vec![usize::MAX; model.domains().len()];
        component.variables.iter().enumerate().for_each(|(i, &v)| local[v] = i);
        let domains: Vec<Domain> = component.variables.iter().map(|&v| model.domains()[v]).collect();
        if domains.iter().any(|domain| matches!(domain, Domain::Counts(_, None))) {
            let message =
                "a count without a largest value cannot be drawn uniformly; set one, or use samples=0";
            return Err(Error::NoAnswer(message.into()));
        }
        let measure = |domain: &Domain| match *domain {
            Domain::States(n) => (n as f64).ln(),
            Domain::Counts(a, b) => ((b.unwrap_or(a) - a + 1) as f64).ln(),
            Domain::Interval(a, b) => (b - a).ln(),
        };
        let log_volume = domains.iter().map(measure).sum();
        let centred = |term: &Term| {
            let factors: Vec<_> = term.factors.iter().map(|&(v, f)| (local[v], f)).collect();
            let ranges = factors.iter().map(|&(v, f)| match domains[v] {
                Domain::Interval(a, b) => range::range(f, Range { low: a, high: b }),
                Domain::Counts(a, b) => range::range(f, Range { low: a as f64, high: b.unwrap_or(a) as f64 }),
                Domain::States(1) => Range::point(1.0),
                Domain::States(_) => Range { low: 0.0, high: 1.0 },
            });
            let range = ranges.fold(Range::point(1.0), Range::times);
            let middle = 0.5 * (range.low + range.high);
            let half = (range.high - middle).max(middle - range.low).next_up();
            Centred { weight: term.weight, middle, half, factors }
        };
        let terms: Vec<Centred> = component.terms.iter().map(|&j| centred(&model.terms()[j])).collect();
        let centre = terms.iter().map(|term| term.weight * term.middle).sum();
        let half = terms.iter().map(|term| term.weight.abs() * term.half).sum::<f64>() * (1.0 + 1e-12);
        if half > WIDEST {
            return Err(hopeless(half, f64::INFINITY));
        }
        let size: f64 = terms.iter().map(|term| term.weight.abs() * (term.middle.abs() + term.half)).sum();
        let digits = || {
            let message = "the terms are so large on this box that their differences lose digits for draws; with samples=0 they do not";
            Error::NoAnswer(message.into())
        };
        if size > MOST_CANCELLED {
            return Err(digits());
        }
        let means: Option<Vec<Double>> =
            terms.iter().map(|term| product_mean(&domains, &term.factors, &[])).collect();
        let means = means.ok_or_else(digits)?;
        let (mut first, mut second) = (Double::ZERO, Double::ZERO);
        for (j, one) in terms.iter().enumerate() {
            clock.check()?;
            let theta = Double::from(one.weight);
            first = first + theta * (means[j] - one.middle.into());
            for (k, other) in terms.iter().enumerate().skip(j) {
                let raw = product_mean(&domains, &one.factors, &other.factors).ok_or_else(digits)?;
                let (a, b) = (Double::from(one.middle), Double::from(other.middle));
                let covariance = raw - a * means[k] - b * means[j] + a * b;
                let twice = if j == k { 1.0 } else { 2.0 };
                second = second + (theta * other.weight.into() * covariance).scaled(twice);
            }
        }
        let degree = tuples.map_or(2, |degree| degree.max(3));
        let polynomial = Polynomial::minimax(degree, (-half, half))?;
        let tuples = tuples.map(|_| {
            let sums = |masses: &mut dyn Iterator<Item = f64>| -> Vec<f64> {
                masses
                    .scan(0.0, |sum, mass| {
                        Some({
                            *sum += mass;
                            *sum
                        })
                    })
                    .collect()
            };
            let mass = |(i, c): (usize, &f64)| c.abs() * half.powi(i as i32);
            let lengths = sums(&mut polynomial.coefficients().iter().enumerate().skip(3).map(mass));
            let total = lengths.last().copied().unwrap_or(0.0);
            Tuples { lengths, terms: sums(&mut terms.iter().map(|t| t.weight.abs() * t.half)), total }
        });
        let (first, second) = (first.value(), second.value());
        Ok(Plan { domains, terms, log_volume, centre, half, first, second, polynomial, tuples })
    }

    pub fn degree(&self) -> usize {
        self.polynomial.degree()
    }

    /// The half-width of the range of a sample.
    fn reach(&self) -> f64 {
        self.tuples.as_ref().map_or(self.polynomial.error(), |tuples| tuples.total)
    }

    /// Hoeffding bound: the mean of `count` samples differs from the expectation by more than this with
    /// probability at most `risk`.
    fn hoeffding(&self, count: f64, risk: f64) -> f64 {
        self.reach() * (2.0 * (2.0 / risk).ln() / count).sqrt()
    }

    pub fn run(&self, samples: u64, risk: f64, stream: (u64, usize), clock: &Clock<'_>) -> Result<Outcome> {
        let zeta = self.polynomial.coefficients();
        let known = zeta[0] + zeta[1] * self.first + zeta[2] * self.second;
        // E e^z ≥ exp E z, so the error must be below this value.
        let least = self.first.exp();
        if self.hoeffding(samples as f64, risk) > least {
            let needed = 2.0 * (2.0 / risk).ln() * (self.reach() / (0.1 * least)).powi(2);
            return Err(hopeless(self.half, needed));
        }
        let streams = Streams::new(stream.0, "mixed-draws");
        let blocks = samples.div_ceil(BLOCK);
        let (mut drawn, mut sum, mut squares) = (0u64, 0.0, 0.0);
        let mut at = 0;
        while at < blocks {
            if at > 0 && (clock.is_out_of_time() || clock.is_cancelled()) {
                break;
            }
            let end = (at + BATCH).min(blocks);
            let parts: Result<Vec<(f64, f64)>> = (at..end)
                .into_par_iter()
                .map(|block| {
                    let mut random = streams.block(((stream.1 as u64) << 40) | block);
                    self.block(BLOCK.min(samples - block * BLOCK), &mut random, clock)
                })
                .collect();
            // The whole batch in progress when the run had to stop is left out, so the decision does not
            // depend on its values.
            let parts = match parts {
                Err(_) if at > 0 => break,
                parts => parts?,
            };
            parts.iter().for_each(|part| (sum, squares) = (sum + part.0, squares + part.1));
            drawn += (at..end).map(|block| BLOCK.min(samples - block * BLOCK)).sum::<u64>();
            clock.progress("draws", drawn, samples);
            at = end;
        }
        let count = drawn as f64;
        let residual = sum / count;
        let variance = (squares / count - residual * residual).max(0.0) * count / (count - 1.0).max(1.0);
        // Half of the risk for each inequality, both two-sided.
        let reach = 2.0 * self.reach();
        let log = (8.0 / risk).ln();
        let bernstein =
            (2.0 * variance * log / count).sqrt() + 7.0 * reach * log / (3.0 * (count - 1.0).max(1.0));
        let half = self.hoeffding(count, 0.5 * risk).min(bernstein);
        let bias = if self.tuples.is_some() { self.polynomial.error() } else { 0.0 };
        // The closed forms are accurate to 1e−12 of their summands.
        let rounding =
            1e-11 * (zeta[0].abs() + zeta[1].abs() * self.half + zeta[2].abs() * self.half.powi(2));
        let slack = half + bias + rounding;
        let mean = known + residual;
        if mean <= 0.0 {
            return Err(Error::NoAnswer(format!(
                "the estimate of Z is not positive, so it has no logarithm; more than {drawn} samples may help"
            )));
        }
        let base = self.centre + self.log_volume;
        let low = (mean - slack).max((-self.half).exp()).ln();
        let high = (mean + slack).min(self.half.exp()).ln();
        let stopped = drawn < samples;
        Ok(Outcome {
            value: base + mean.ln().clamp(low, high),
            low: base + low,
            high: base + high,
            drawn,
            stopped,
        })
    }

    /// The sum of `count` samples, and of their squares.
    fn block(&self, count: u64, random: &mut Stream, clock: &Clock<'_>) -> Result<(f64, f64)> {
        let mut x = vec![0.0; self.domains.len()];
        let (mut sum, mut squares) = (0.0, 0.0);
        for i in 0..count {
            if i % LOOK == 0 {
                clock.check_late()?;
            }
            for (x, domain) in x.iter_mut().zip(&self.domains) {
                let u = random.uniform();
                *x = match *domain {
                    Domain::States(n) => (u * n as f64).floor().min(n as f64 - 1.0),
                    Domain::Interval(a, b) => (a + (b - a) * u).clamp(a, b),
                    Domain::Counts(a, b) => {
                        let count = (b.unwrap_or(a) - a + 1) as f64;
                        a as f64 + (u * count).floor().min(count - 1.0)
                    }
                };
            }
            let centred = |term: &Centred| {
                term.factors.iter().fold(1.0, |product, &(v, f)| product * f.value(x[v])) - term.middle
            };
            let value = match &self.tuples {
                None => {
                    let z: f64 = self.terms.iter().map(|term| term.weight * centred(term)).sum();
                    z.exp() - self.polynomial.evaluate(z)
                }
                Some(tuples) => {
                    let choose = |sums: &[f64], u: f64| {
                        let total = sums.last().copied().unwrap_or(0.0);
                        sums.partition_point(|&sum| sum <= u * total).min(sums.len().saturating_sub(1))
                    };
                    let length = 3 + choose(&tuples.lengths, random.uniform());
                    let mut value = tuples.total * self.polynomial.coefficients()[length].signum();
                    for _ in 0..length {
                        let Some(term) = self.terms.get(choose(&tuples.terms, random.uniform())) else {
                            break;
                        };
                        value *= (centred(term) / term.half).clamp(-1.0, 1.0) * term.weight.signum();
                    }
                    if tuples.total > 0.0 { value } else { 0.0 }
                }
            };
            sum += value;
            squares += value * value;
        }
        Ok((sum, squares))
    }
}

fn hopeless(half: f64, needed: f64) -> Error {
    let many =
        if needed.is_finite() { format!("about {needed:.1e} draws") } else { "no number of draws".into() };
    Error::NoAnswer(format!(
        "the score ranges over ±{half:.1}: {many} would give log Z to a tenth; with samples=0 the box is divided into cells instead"
    ))
}
