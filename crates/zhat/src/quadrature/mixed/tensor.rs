//! Numerical quadrature as a reference: Gauss–Legendre points in every continuous variable, every joint state of the discrete ones.
//!
//! Each box is cut into panels of 16 points, and the panels are halved until two answers in a row agree. What is told of
//! the error is the distance of the last two, which is an estimate and no bound: a peak between all points goes unseen. The
//! work is (16·panels)ⁿ for n continuous variables that hang together.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::model::MixedModel;
use crate::numeric;
use crate::options::{FROM_ZERO, Options, Range, options};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

use super::cells;
use super::density::{Cell, Density};
use super::gauss::gauss_legendre;

const NAME: &str = "gauss-legendre";
const POINTS: usize = 16;
/// Points of one piece of work.
const BLOCK: usize = 4096;

/// Gauss–Legendre quadrature on a grid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct GaussLegendre {
    /// Halves the panels until log Z moves by less than this, in nats.
    pub error: f64,
    /// The most points of a component.
    pub points: f64,
}

options!(GaussLegendre { error: FROM_ZERO, points: Range::closed(1.0, 1e15) });

impl Default for GaussLegendre {
    fn default() -> Self {
        GaussLegendre { error: 1e-12, points: 2e7 }
    }
}

impl Forecasts<MixedModel> for GaussLegendre {
    fn forecast(&self, model: &MixedModel, _: Query, _: &Run) -> Forecast {
        let (mut seconds, mut bytes) = (0.0, 1e5);
        for component in model.components() {
            let Some((densities, boxes)) = cells::densities(model, &component, 0.0) else {
                return Forecast {
                    bytes: f64::INFINITY,
                    seconds: f64::INFINITY,
                    promise: Promise::Heuristic,
                };
            };
            // Eight panels settle most densities.
            let points = (8.0 * POINTS as f64).powi(boxes.len() as i32) * densities.len() as f64;
            let factors =
                densities.first().map_or(0, |d| d.parts.iter().map(|p| 1 + p.factors.len()).sum::<usize>());
            seconds += points.min(self.points) * 1e-8 * (2 + factors) as f64;
            bytes += densities.len() as f64 * 300.0;
        }
        Forecast { bytes, seconds, promise: Promise::Heuristic }
    }
}

impl LogPartition<MixedModel> for GaussLegendre {
    fn log_partition(&self, model: &MixedModel, run: &Run) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let mut value = model.constant();
        let (mut error, mut points, mut stopped) = (0.0, 0.0, false);
        for component in model.components() {
            let Some((densities, boxes)) = cells::densities(model, &component, 0.0) else { continue };
            let found = run.install(|| self.component(&densities, &boxes, &clock))?;
            value += found.value;
            error += found.error;
            points += found.points;
            stopped |= found.stopped;
        }
        let mut diagnostics = Diagnostics::new(NAME).note("points", points).note("estimated_error", error);
        diagnostics.rounding = numeric::rounding_allowance(16.0, model.magnitude());
        diagnostics.stopped_early = stopped;
        diagnostics.seconds = clock.seconds();
        let reason =
            format!("numerical quadrature; the last halving of the panels moved log Z by {error:.1e}");
        Ok(Answer { value, guarantee: Guarantee::Heuristic { reason }, diagnostics })
    }
}

struct Found {
    value: f64,
    error: f64,
    points: f64,
    stopped: bool,
}

impl GaussLegendre {
    fn component(&self, densities: &[Density], boxes: &Cell, clock: &Clock<'_>) -> Result<Found> {
        let mut last: Option<f64> = None;
        let mut found = Found { value: 0.0, error: f64::INFINITY, points: 0.0, stopped: false };
        for halvings in 0.. {
            let panels = 1usize << halvings;
            let points = ((panels * POINTS) as f64).powi(boxes.len() as i32) * densities.len() as f64;
            if last.is_some() && (points > self.points || clock.is_out_of_time()) {
                found.stopped = clock.is_out_of_time();
                break;
            }
            if points > self.points {
                return Err(Error::NoAnswer(format!(
                    "{points:.1e} points at least are needed, more than the {:.1e} of the option points",
                    self.points
                )));
            }
            if clock.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let value = grid(densities, boxes, panels);
            found.points = points;
            found.error = last.map_or(f64::INFINITY, |last| (value - last).abs());
            found.value = value;
            if boxes.is_empty() {
                found.error = 0.0;
            }
            if found.error <= self.error {
                break;
            }
            last = Some(value);
        }
        Ok(found)
    }
}

/// log ∫ on a grid of so many panels a variable.
fn grid(densities: &[Density], boxes: &Cell, panels: usize) -> f64 {
    let rule = gauss_legendre(POINTS);
    let axes: Vec<Vec<(f64, f64)>> = boxes
        .iter()
        .map(|&(a, b)| {
            let half = 0.5 * (b - a) / panels as f64;
            let panel = |i: usize| {
                let middle = a + (2 * i + 1) as f64 * half;
                rule.iter().map(move |&(t, w)| (middle + half * t, (half * w).ln()))
            };
            (0..panels).flat_map(panel).collect()
        })
        .collect();
    let side = panels * POINTS;
    let total = side.pow(boxes.len() as u32);
    let blocks: Vec<(usize, usize)> = (0..densities.len())
        .flat_map(|density| (0..total).step_by(BLOCK).map(move |begin| (density, begin)))
        .collect();
    let sums: Vec<f64> = blocks
        .par_iter()
        .map(|&(density, begin)| {
            let mut x = vec![0.0; boxes.len()];
            let logs: Vec<f64> = (begin..(begin + BLOCK).min(total))
                .map(|point| {
                    let mut rest = point;
                    let mut log = 0.0;
                    for (x, axis) in x.iter_mut().zip(&axes) {
                        let (at, weight) = axis[rest % side];
                        rest /= side;
                        *x = at;
                        log += weight;
                    }
                    log + densities[density].score(&x)
                })
                .collect();
            numeric::log_sum_exp(&logs)
        })
        .collect();
    numeric::log_sum_exp(&sums)
}
