//! log Z of models with continuous variables, by quadrature of a polynomial approximation of exp.
//!
//! **Without sampling** (the default), the polynomial is integrated in closed form on cells that are split
//! until the interval is narrow enough (`cells`). The result is certified, and accurate to nine digits in one
//! dimension with a few dozen cells. The work grows with the number of cells, which is exponential in the
//! number of variables of a connected component.
//!
//! **With sampling** (`samples` above 0), the box is not split (`points`). The terms of low order are
//! computed in closed form, and the rest is evaluated at random points or, with `tuples`, by the corrected
//! Algorithm 1 of the paper. The interval follows from the known range of the samples. If the number of
//! samples is too small for a nontrivial interval, an error states the number needed. For large connected
//! components.
//!
//! Connected components (without common terms) are processed one by one. Piatkowski and Morik, UAI 2018,
//! Sections 2 and 3, Lemma 1.
//!
//! ```
//! use zhat::model::Family;
//! use zhat::{LogPartition, Run};
//! use zhat::quadrature::MixedQuadrature;
//!
//! let normal = Family::Gaussian { mean: 0.0, deviation: 1.0 }.on((-10.0, 10.0))?;
//! let z = MixedQuadrature::default().log_partition(&normal, &Run::default())?;
//! assert!((z.value - (2.0 * std::f64::consts::PI).sqrt().ln()).abs() < 1e-8);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::model::{Component, MixedModel};
use crate::options::{FROM_ZERO, INSIDE_UNIT, Options, Range, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::Run;

use super::cells::{self, Joint, Limits};
use super::points;

/// The name in the catalogue.
pub(super) const NAME: &str = "sccq";
pub(super) const NUMERICAL: &str = "ln(1 − x) has no closed form: χ by numerical quadrature";

/// Quadrature of a polynomial approximation of exp, for mixed models.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MixedQuadrature {
    /// Target width of the interval for log Z, in nats; without sampling.
    pub error: f64,
    /// Degree of the polynomial; lowered if a model has too many products.
    pub degree: usize,
    /// Maximum number of cells per component.
    pub cells: usize,
    /// Number of samples; 0 for none.
    pub samples: u64,
    /// Whether to sample tuples of terms, as in the paper, instead of evaluating the whole score.
    pub tuples: bool,
    /// Confidence of the interval, with sampling.
    pub confidence: f64,
}

options!(MixedQuadrature {
    error: f64 => FROM_ZERO,
    degree: usize => Range::whole(1, cells::MOST_DEGREE as u64),
    cells: usize => Range::whole(1, 1_000_000_000),
    samples: u64 => Range::whole(0, 1_000_000_000_000_000),
    tuples: bool,
    confidence: f64 => INSIDE_UNIT
});

impl Default for MixedQuadrature {
    fn default() -> Self {
        MixedQuadrature {
            error: 1e-9,
            degree: 8,
            cells: 200_000,
            samples: 0,
            tuples: false,
            confidence: 0.99,
        }
    }
}

impl Forecasts<MixedModel> for MixedQuadrature {
    fn forecast(&self, model: &MixedModel, _: Query, _: &Run) -> Forecast {
        let promise = if model.is_numerical() { Promise::Heuristic } else { Promise::Bounds };
        if self.samples > 0 {
            let bytes = points::BYTES;
            return Forecast { bytes, seconds: points::seconds(model, self.samples), promise };
        }
        let (mut bytes, mut seconds) = (0.0, 1e-3);
        for component in model.components() {
            let Some(joint) = Joint::new(model, &component) else {
                return Forecast { bytes: f64::INFINITY, seconds: f64::INFINITY, promise };
            };
            // About the number of cells per dimension that a normal density needs, up to the maximum allowed.
            let (states, dimensions) = (joint.count as f64, joint.boxes.len());
            let count = states * 50f64.powi(dimensions as i32).min(self.cells as f64);
            let products = cells::expansion(&joint.density(0, 0.0), self.degree).filter(|_| dimensions > 0);
            let operations = products.as_ref().map_or(100.0, |found| found.operations());
            let factors: usize = component.terms.iter().map(|&j| 1 + model.terms()[j].factors.len()).sum();
            seconds += count * (2e-6 + 2e-8 * operations) + states * 1e-7 * factors as f64;
            bytes += states * (300.0 + 40.0 * factors as f64)
                + (self.cells as f64 + states) * (80.0 + 16.0 * dimensions as f64)
                + products.map_or(0.0, |found| 200.0 * found.len() as f64);
        }
        Forecast { bytes, seconds, promise }
    }
}

impl LogPartition<MixedModel> for MixedQuadrature {
    fn log_partition(&self, model: &MixedModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes).map_err(|error| {
            // Too many states is a different problem from too little memory, and sampling solves it.
            let many = |component: &Component| Joint::new(model, component).is_none();
            if self.samples > 0 || !model.components().iter().any(many) {
                return error;
            }
            Error::NoAnswer(format!(
                "a component has more than {} joint states of discrete variables; set samples to use sampling instead",
                cells::MOST_STATES
            ))
        })?;
        if self.samples > 0 {
            return self.draw(model, run);
        }
        let components = model.components();
        let limits = Limits {
            error: self.error / components.len().max(1) as f64,
            degree: self.degree,
            cells: self.cells,
        };
        let mut constant = model.constant();
        let (mut low, mut high, mut size) = (0.0, 0.0, constant.abs());
        let (mut count, mut degree, mut stopped) = (0, 0, false);
        for component in &components {
            let Some(joint) = Joint::new(model, component) else { continue };
            let densities = joint.densities(constant, &clock)?;
            constant = 0.0;
            let outcome = run.install(|| cells::bracket(&densities, &joint.boxes, &limits, &clock))?;
            low += outcome.low;
            high += outcome.high;
            size = if count == 0 { 0.0 } else { size } + outcome.low.abs().max(outcome.high.abs());
            count += outcome.cells;
            degree = degree.max(outcome.degree);
            stopped |= outcome.stopped;
        }
        (low, high) = (low + constant, high + constant);
        let mut diagnostics = Diagnostics::new(NAME)
            .note("cells", count)
            .note("degree", degree)
            .note("components", components.len());
        diagnostics.rounding =
            crate::numeric::rounding_allowance((8 + components.len() + count) as f64, size);
        diagnostics.stopped_early = stopped && clock.is_out_of_time();
        diagnostics.seconds = clock.seconds();
        let value = 0.5 * (low + high);
        let guarantee = if model.is_numerical() {
            let reason = format!("{NUMERICAL}; it says {low:.9} to {high:.9}");
            Guarantee::Heuristic { reason }
        } else {
            Guarantee::bounds(low, high, 1.0, diagnostics.rounding)
        };
        Ok(Answer { value, guarantee, diagnostics })
    }
}

impl MixedQuadrature {
    fn draw(&self, model: &MixedModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        let components = model.components();
        let mut risk = (1.0 - self.confidence) / components.len().max(1) as f64;
        if components.is_empty() {
            risk = 1.0 - self.confidence;
        }
        let constant = model.constant();
        let (mut value, mut low, mut high) = (constant, constant, constant);
        let (mut drawn, mut degree, mut stopped) = (0, 0, false);
        for (i, component) in components.iter().enumerate() {
            let plan = points::Plan::new(model, component, self.tuples.then_some(self.degree), &clock)?;
            let outcome = run.install(|| plan.run(self.samples, risk, (run.seed(), i), &clock))?;
            value += outcome.value;
            low += outcome.low;
            high += outcome.high;
            drawn += outcome.drawn;
            degree = degree.max(plan.degree());
            stopped |= outcome.stopped;
        }
        let mut diagnostics = Diagnostics::new(NAME).note("samples", drawn).note("degree", degree);
        diagnostics.rounding = crate::numeric::rounding_allowance(
            64.0 + components.len() as f64,
            model.magnitude() + value.abs(),
        );
        diagnostics.stopped_early = stopped;
        diagnostics.seconds = clock.seconds();
        let guarantee = if model.is_numerical() {
            Guarantee::Heuristic { reason: NUMERICAL.into() }
        } else {
            Guarantee::bounds(low, high, self.confidence, diagnostics.rounding)
        };
        Ok(Answer { value, guarantee, diagnostics })
    }
}
