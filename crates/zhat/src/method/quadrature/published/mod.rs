//! Stochastic Clenshaw–Curtis quadrature as published (Algorithms 1 and 3).
//!
//! exp is replaced by a polynomial p of degree k on \[−‖θ‖₁, ‖θ‖₁\]. Then Σ_x p(score(x)) = Σᵢ ζᵢ Σ_j
//! χⁱ(j)·Π_r θ_{j_r} is a sum over index tuples ([`super::tuples`]), and if (j, i) is drawn with
//! probability |ζᵢ|·χⁱ(j)/τ, τ = Σᵢ |ζᵢ|·|X|·|C|ⁱ, then τ·sgn(ζᵢ)·Π_r θ_{j_r} is an unbiased estimate of it.
//! Marginals use the same samples: a tuple fixes the states of the variables that it touches, and all others
//! are uniform.
//!
//! Time O(k) per sample, independent of the size of the model; memory that of the model. The guarantee comes
//! from the corrected error bound ([`super::theorems`]), never from the spread of the samples: the empty
//! tuple may have probability 10⁻⁷ and carry almost all of Z, so the spread of samples that missed it is
//! meaningless. If the bound is vacuous, there is no guarantee, and the diagnostics state how many samples
//! would be needed. If Ẑ is negative, log Ẑ does not exist and an error is returned. Use
//! [`super::StochasticQuadrature`] instead.
//!
//! Reference: N. Piatkowski, K. Morik, *Fast stochastic quadrature for approximate maximum-likelihood
//! estimation*, UAI 2018.
//!
//! ```
//! use zhat::{FactorGraph, LogPartition, Run};
//! use zhat::quadrature::PublishedQuadrature;
//! let mut graph = FactorGraph::new(vec![2; 3])?;
//! graph.add_factor(&[0, 1], &[0.01, -0.01, -0.01, 0.01])?;
//! graph.add_factor(&[1, 2], &[0.01, -0.01, -0.01, 0.01])?;
//! let z = PublishedQuadrature::default().log_partition(&graph, &Run::default())?;
//! assert!((z.value - 8f64.ln()).abs() < 0.05);
//! # Ok::<(), zhat::Error>(())
//! ```

mod groups;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use self::groups::{Group, Near, Sums};
use super::polynomial::Polynomial;
use super::theorems::{self, Norms};
use super::tuples::{Cliques, TupleSampler, Tuples};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::published_quadrature::{PER_INDEX, PER_SAMPLE};
use crate::method::exact::prepare::Reduced;
use crate::model::FactorGraph;
use crate::numeric::{self, CompensatedSum};
use crate::options::{INSIDE_UNIT, Options, Range, SAMPLES, options};
use crate::query::DEFAULT_HORIZON;
use crate::query::{Beliefs, FactorBeliefs, FactorMarginals, LogPartition, Marginals, Query};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};
use crate::units;

const NAME: &str = "sccq-published";
/// The number of random streams; a constant, so that results do not depend on the number of threads.
const GROUPS: usize = 32;
/// Samples per group between two checks of the clock.
const ROUND: u64 = 4096;
/// The purpose of the random numbers.
const STREAMS: &str = "quadrature tuples";
/// Maximum norm for which the numbers of the theorems are reported. Beyond it, computing the polynomials
/// alone would take longer than sampling.
const REPORTED: f64 = 50.0;
/// The share of the error probability reserved for runs that stop early.
const EARLY: f64 = 0.2;

/// Polynomial approximation of exp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Approximation {
    /// Interpolation at Chebyshev points, by a discrete cosine transform.
    #[default]
    Chebyshev,
    /// Smallest maximum error, by the Remez exchange algorithm.
    Remez,
}

/// Stochastic Clenshaw–Curtis quadrature as published.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PublishedQuadrature {
    /// Degree of the polynomial; by default the degree that `epsilon` requires, or 3.
    pub degree: Option<usize>,
    /// Construction of the polynomial.
    pub approximation: Approximation,
    /// Sampler of index tuples.
    pub sampler: TupleSampler,
    /// Total number of samples if `epsilon` is not given.
    pub samples: u64,
    /// Target relative error. The corrected bound determines the number of samples; if it is too large, an
    /// error states it.
    pub epsilon: Option<f64>,
    /// Confidence of the bound, between 0 and 1.
    pub confidence: f64,
}

options!(PublishedQuadrature {
    degree: Option<usize> => Range::whole(0, 1000),
    approximation: Approximation,
    sampler: TupleSampler,
    samples: u64 => SAMPLES,
    epsilon: Option<f64> => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT
});

impl Default for PublishedQuadrature {
    fn default() -> Self {
        PublishedQuadrature {
            degree: None,
            approximation: Approximation::Chebyshev,
            sampler: TupleSampler::Direct,
            samples: 1 << 20,
            epsilon: None,
            confidence: 0.95,
        }
    }
}

/// The cliques of a model, the polynomial and the number of samples.
struct Subject {
    cliques: Cliques,
    norms: Norms,
    polynomial: Polynomial,
    /// P(I ≤ i) for each length i, and the signs.
    cumulative: Vec<f64>,
    signs: Vec<f64>,
    samples: u64,
}

struct Drawn<'c> {
    groups: Vec<Group<'c>>,
    samples: u64,
    stopped_early: bool,
    /// The mean of all samples in units of τ.
    mean: f64,
    /// The number and mean of the samples that the guarantee uses, and its error probability.
    checked: (f64, f64, f64),
}

impl PublishedQuadrature {
    fn delta(&self) -> f64 {
        1.0 - self.confidence
    }

    fn seconds(samples: f64, degree: usize, threads: usize) -> f64 {
        samples * (PER_SAMPLE + PER_INDEX * degree as f64) / threads.clamp(1, GROUPS) as f64
    }

    /// The polynomial and the number of samples, or an error with the reason.
    fn subject(&self, cliques: Cliques, run: &Run) -> Result<Subject> {
        let norms = Norms::of(&cliques);
        let beyond = |error: Error| {
            Error::NoAnswer(format!(
                "no polynomial of exp on ±‖θ‖₁ = ±{:.4e} can be had in double precision ({error}); sccq does without one",
                norms.one
            ))
        };
        let needed = match self.epsilon {
            Some(epsilon) => {
                let delta = (1.0 - EARLY) * self.delta();
                let needed =
                    theorems::corrected(&norms, norms.interval(), epsilon, delta).ok_or_else(|| {
                        beyond(Error::NoAnswer(format!("an error of {epsilon} is out of reach")))
                    })?;
                self.refuse(needed, epsilon, run)?;
                Some(needed)
            }
            None => None,
        };
        let degree = self.degree.or(needed.map(|needed| needed.degree)).unwrap_or(3);
        let polynomial = match self.approximation {
            Approximation::Chebyshev => Polynomial::chebyshev(degree, norms.interval()),
            Approximation::Remez => Polynomial::minimax(degree, norms.interval()),
        }
        .map_err(beyond)?;
        let samples = match (self.epsilon, needed) {
            (Some(epsilon), Some(mut needed)) => {
                let (delta, scale) = ((1.0 - EARLY) * self.delta(), norms.mean.exp());
                let left = epsilon - polynomial.error() / scale;
                if left.is_nan() || left <= 0.0 {
                    return Err(Error::NoAnswer(format!(
                        "a polynomial of degree {degree} is {:.2e} away from exp on ±{:.4e}, and epsilon = {epsilon} allows {:.2e}; \
                         degree {} would do",
                        polynomial.error(),
                        norms.one,
                        epsilon * scale,
                        needed.degree
                    )));
                }
                needed.degree = degree;
                needed.log_samples = theorems::log_samples(&norms, &polynomial, left, delta);
                self.refuse(needed, epsilon, run)?;
                needed.samples().ceil() as u64
            }
            _ => self.samples,
        };
        let terms: Vec<f64> = theorems::log_masses(&polynomial, cliques.len()).collect();
        let log_mass = numeric::log_sum_exp(&terms);
        if !(log_mass.is_finite() && norms.log_range(degree) < 600.0) {
            return Err(Error::NoAnswer(
                "the tuple mass is beyond the range of numbers; sccq does without it".into(),
            ));
        }
        let mut total = 0.0;
        let cumulative = terms.iter().map(|term| {
            total += (term - log_mass).exp();
            total
        });
        let cumulative = cumulative.collect();
        let signs = polynomial.coefficients().iter().map(|zeta| zeta.signum()).collect();
        Ok(Subject { cliques, norms, polynomial, cumulative, signs, samples })
    }

    /// Returns an error if this number of samples exceeds the time limit.
    fn refuse(&self, needed: theorems::Needed, epsilon: f64, run: &Run) -> Result<()> {
        let horizon = run.horizon(NAME, DEFAULT_HORIZON);
        let seconds = Self::seconds(needed.samples(), needed.degree, run.threads());
        if seconds <= horizon {
            return Ok(());
        }
        Err(Error::OverBudget {
            needs: format!(
                "{NAME} needs {} samples of degree {} for epsilon = {epsilon} with {}% confidence, about {}",
                power_of_ten(needed.log_samples),
                needed.degree,
                100.0 * self.confidence,
                units::seconds(seconds)
            ),
            budget: units::seconds(horizon),
            fitting: Vec::new(),
        })
    }

    fn bytes(graph: &FactorGraph, query: Query) -> f64 {
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
        let n = graph.variable_count() as f64;
        let (each, extra) = match query {
            Query::Marginals => (8.0 * states + 8.0 * n, 16.0 * states),
            Query::FactorMarginals => {
                (graph.bytes() as f64 + 16.0 * graph.factor_count() as f64, 4.0 * graph.bytes() as f64)
            }
            _ => (0.0, 0.0),
        };
        let own = graph.bytes() as f64;
        graph.preparation_bytes() + 5.0 * own + extra + GROUPS as f64 * (1024.0 + 16.0 * n + each)
    }

    fn draw<'c>(
        &self,
        subject: &'c Subject,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Drawn<'c>> {
        let degree = subject.signs.len() - 1;
        let streams = Streams::new(run.seed(), STREAMS);
        let near = Near::new(graph, query);
        let mut groups = Vec::with_capacity(GROUPS);
        for g in 0..GROUPS {
            let tuples = Tuples::new(&subject.cliques, self.sampler, degree)?;
            groups.push(Group::new(streams.block(g as u64), tuples, graph, query));
        }
        let target = subject.samples.div_ceil(GROUPS as u64);
        let (mut each, mut stopped_early, mut checkpoint) = (0u64, false, 0u32);
        let delta = self.delta();
        if run.is_shared(NAME) {
            self.draw_shared(subject, graph, query, &mut groups, run, clock)?;
            each = target;
        }
        let mean = |groups: &[Group<'_>], each: u64| {
            let total: CompensatedSum = groups.iter().map(Group::sum).collect();
            total.value() / (each as f64 * GROUPS as f64)
        };
        let mut checked = match each {
            0 => (0.0, 0.0, delta),
            _ => (each as f64 * GROUPS as f64, mean(&groups, each), (1.0 - EARLY) * delta),
        };
        while each < target {
            if each > 0 && clock.must_stop() {
                stopped_early = true;
                break;
            }
            let next = (1u64 << checkpoint.min(62)).min(target);
            let round = round_after(each, target);
            groups.par_iter_mut().for_each(|group| group.draw(round, subject, graph, &near));
            each += round;
            clock.progress("drawing tuples", each, target);
            let count = each as f64 * GROUPS as f64;
            if each == target {
                checked = (count, mean(&groups, each), (1.0 - EARLY) * delta);
            } else if each == next {
                let share = EARLY / f64::from((checkpoint + 1) * (checkpoint + 2));
                checked = (count, mean(&groups, each), share * delta);
                checkpoint += 1;
            }
        }
        let samples = each * GROUPS as u64;
        let mean = mean(&groups, each);
        Ok(Drawn { groups, samples, stopped_early, mean, checked })
    }

    /// Draws all tuples of the groups in a divided run, where a unit is a group.
    fn draw_shared<'c>(
        &self,
        subject: &'c Subject,
        graph: &FactorGraph,
        query: Query,
        groups: &mut [Group<'c>],
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<()> {
        let degree = subject.signs.len() - 1;
        let (streams, near) = (Streams::new(run.seed(), STREAMS), Near::new(graph, query));
        let target = subject.samples.div_ceil(GROUPS as u64);
        let work = |g: u64| {
            let tuples = Tuples::new(&subject.cliques, self.sampler, degree)?;
            let mut group = Group::new(streams.block(g), tuples, graph, query);
            let mut each = 0;
            while each < target {
                clock.check()?;
                let round = round_after(each, target);
                group.draw(round, subject, graph, &near);
                each += round;
            }
            Ok(group.total())
        };
        let units = Units::new(NAME, GROUPS as u64, &[target, degree as u64]);
        run.units(&units, work, |g, total| groups[g as usize].set_total(total))
    }

    fn diagnostics(&self, subject: &Subject, drawn: &Drawn<'_>, clock: &Clock<'_>) -> Diagnostics {
        let Subject { norms, polynomial, .. } = subject;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("samples", drawn.samples)
            .note("degree", polynomial.coefficients().len() - 1)
            .note("norm", norms.one)
            .note("polynomial_error", polynomial.error())
            .note("epsilon", theorems::error_of(norms, polynomial, drawn.checked.0, drawn.checked.2));
        let wanted = self.epsilon.unwrap_or(0.1);
        if let Some(needed) = self.needed(norms, wanted) {
            diagnostics = diagnostics
                .count(&format!("samples_for_epsilon_{wanted}"), needed.samples().ceil())
                .note(&format!("degree_for_epsilon_{wanted}"), needed.degree);
        }
        let printed =
            (norms.one <= REPORTED).then(|| theorems::samples_as_printed(norms, wanted, self.delta()));
        if let Some(needed) = printed.flatten() {
            let name = format!("printed_not_valid_for_epsilon_{wanted}");
            let text = format!("degree {}, {} samples", needed.degree, power_of_ten(needed.log_samples));
            diagnostics = diagnostics.note(&name, text);
        }
        diagnostics.stopped_early = drawn.stopped_early;
        diagnostics.seconds = clock.seconds();
        diagnostics
    }

    /// The samples needed for a relative error, if they are worth reporting.
    fn needed(&self, norms: &Norms, epsilon: f64) -> Option<theorems::Needed> {
        let known = (norms.one <= REPORTED)
            .then(|| theorems::corrected(norms, norms.interval(), epsilon, self.delta()));
        known.flatten()
    }

    /// The error for an estimate without a logarithm.
    fn negative(&self, subject: &Subject, drawn: &Drawn<'_>) -> Error {
        let norms = &subject.norms;
        let needed = theorems::corrected(norms, norms.interval(), 0.1, self.delta());
        let needed = needed
            .map_or("no number of samples that double precision can express".into(), |needed| {
                format!("{} samples of degree {}", power_of_ten(needed.log_samples), needed.degree)
            });
        Error::NoAnswer(format!(
            "log Ẑ does not exist: the estimate after {} samples of degree {} is {:.3e}·|X|, not a positive number; \
             a relative error of 0.1 takes {needed}",
            drawn.samples,
            subject.signs.len() - 1,
            drawn.mean * norms.log_mass(&subject.polynomial).exp(),
        ))
    }

    /// Draws the tuples and passes them to `finish`.
    fn answer<T>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Drawn<'_>, &Subject, &Reduced) -> Result<(T, Guarantee)> + Send,
    ) -> Result<Answer<T>>
    where
        T: Send,
    {
        let clock = run.start(NAME);
        self.check()?;
        run.require_memory(NAME, Self::bytes(graph, query))?;
        let reduced = Reduced::within(graph, &clock)?;
        let free = &reduced.graph;
        let subject = self.subject(Cliques::new(free)?, run)?;
        let (value, guarantee, mut diagnostics) = run.install(|| {
            let drawn = self.draw(&subject, free, query, run, &clock)?;
            if drawn.mean.is_nan() || drawn.mean <= 0.0 {
                return Err(self.negative(&subject, &drawn));
            }
            let (value, guarantee) = finish(&drawn, &subject, &reduced)?;
            Ok((value, guarantee, self.diagnostics(&subject, &drawn, &clock)))
        })?;
        diagnostics.rounding = rounding(graph);
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// The number of tuples that a group draws after its first `each` ones: up to the next power of two, at which the
/// error is evaluated.
fn round_after(each: u64, target: u64) -> u64 {
    let next = if each == 0 { 1 } else { (each + 1).checked_next_power_of_two().unwrap_or(target) };
    (next.min(target) - each).min(ROUND)
}

/// exp(log) as a power of ten.
fn power_of_ten(log: f64) -> String {
    if log < 30.0 { format!("{:.3e}", log.exp()) } else { format!("10^{:.1}", log / std::f64::consts::LN_10) }
}

/// Rounding of the logarithms of |X|, of the constant part and of means.
fn rounding(graph: &FactorGraph) -> f64 {
    let operations = graph.variable_count() as f64 + graph.factor_count() as f64 + 64.0;
    numeric::rounding_allowance(operations, graph.magnitude())
}

impl Forecasts<FactorGraph> for PublishedQuadrature {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let bytes = Self::bytes(graph, query);
        let hopeless = Forecast { bytes, seconds: f64::INFINITY, promise: Promise::Heuristic };
        if run.require_memory(NAME, bytes).is_err() || self.check().is_err() {
            return hopeless;
        }
        let subject = Reduced::within(graph, &run.start(NAME))
            .and_then(|reduced| Cliques::new(&reduced.graph))
            .and_then(|cliques| self.subject(cliques, run));
        let Ok(subject) = subject else { return hopeless };
        let degree = subject.signs.len() - 1;
        let samples = subject.samples as f64;
        let error =
            theorems::error_of(&subject.norms, &subject.polynomial, samples, (1.0 - EARLY) * self.delta());
        // The whole table of a touched factor is traversed.
        let extra = if query == Query::LogPartition { 1.0 } else { 4.0 };
        let promise =
            if query == Query::LogPartition && error < 1.0 { Promise::Bounds } else { Promise::Heuristic };
        // If the bound is vacuous, the time until it is not: before that, the result may not be a number.
        let until = error.max(1.0).powi(2);
        Forecast { bytes, seconds: until * extra * Self::seconds(samples, degree, 1), promise }
    }
}

impl LogPartition<FactorGraph> for PublishedQuadrature {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.answer(graph, Query::LogPartition, run, |drawn, subject, reduced| {
            let Subject { norms, polynomial, .. } = subject;
            let offset = reduced.constant + reduced.graph.log_state_count();
            let log_mass = norms.log_mass(polynomial);
            let value = offset + log_mass + drawn.mean.ln();
            let (samples, mean, delta) = drawn.checked;
            let epsilon = theorems::error_of(norms, polynomial, samples, delta);
            if epsilon.is_nan() || epsilon >= 1.0 {
                let reason = format!(
                    "by the corrected error bound {samples} samples of degree {} keep within a relative error of {epsilon:.1e} only; the spread of \
                     the samples says nothing, for it misses what is rare and large",
                    polynomial.coefficients().len() - 1
                );
                return Ok((value, Guarantee::Heuristic { reason }));
            }
            let radius = theorems::absolute(norms, polynomial, samples, delta);
            let center = mean * log_mass.exp();
            // Jensen's inequality from below, the largest score from above.
            let low = (center - radius).max(0.0).ln().max(norms.mean);
            let high = (center + radius).max(0.0).ln().min(norms.high).max(low);
            let (low, high) = (offset + low, offset + high);
            let bounds = Guarantee::bounds(low, high, self.confidence, rounding(graph));
            // An estimate outside what is certain is moved to its nearest end.
            Ok((value.clamp(low, high), bounds))
        })
    }
}

/// The reason why pseudo-marginals have no guarantee.
fn pseudo() -> Guarantee {
    let reason =
        "pseudo-marginals: ratios of two estimates of a polynomial's sum; negative ones are set to 0";
    Guarantee::Heuristic { reason: reason.into() }
}

/// Adds the uniform share of the total; the masses hold only the difference from uniform.
fn complete(masses: &mut [f64], total: f64) {
    let uniform = total / masses.len() as f64;
    masses.iter_mut().for_each(|mass| *mass = (*mass + uniform).max(0.0));
}

impl Marginals<FactorGraph> for PublishedQuadrature {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.answer(graph, Query::Marginals, run, |drawn, _, reduced| {
            let mut beliefs = Beliefs::zeros(reduced.graph.cardinalities());
            for group in &drawn.groups {
                if let Sums::Variables(own) = &group.sums {
                    let sums = beliefs.as_mut_slice().iter_mut().zip(own.as_slice());
                    sums.for_each(|(sum, mass)| *sum += mass);
                }
            }
            let total = drawn.mean * drawn.samples as f64;
            (0..beliefs.len()).for_each(|v| complete(beliefs.variable_mut(v), total));
            beliefs.normalise();
            Ok((reduced.expand_beliefs(graph, &beliefs), pseudo()))
        })
    }
}

impl FactorMarginals<FactorGraph> for PublishedQuadrature {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.answer(graph, Query::FactorMarginals, run, |drawn, _, reduced| {
            let mut beliefs = FactorBeliefs::zeros(&reduced.graph);
            for group in &drawn.groups {
                if let Sums::Factors { beliefs: own, .. } = &group.sums {
                    let sums = beliefs.as_mut_slice().iter_mut().zip(own.as_slice());
                    sums.for_each(|(sum, mass)| *sum += mass);
                }
            }
            let total = drawn.mean * drawn.samples as f64;
            (0..beliefs.len()).for_each(|f| complete(beliefs.factor_mut(f), total));
            beliefs.normalise();
            Ok((reduced.expand_factor_beliefs(graph, &beliefs), pseudo()))
        })
    }
}
