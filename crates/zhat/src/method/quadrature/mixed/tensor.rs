//! Numerical quadrature as a reference: Gauss–Legendre points in each continuous variable, and each joint
//! state of the discrete variables.
//!
//! Each box is split at the kinks of |x − m| and into panels of 16 points, and the panels are halved until
//! two successive results agree. The reported error is the difference between the last two results. It is an
//! estimate, not a bound: a peak between all points is missed. The work is (16·panels)ⁿ for n continuous
//! variables in a connected component.

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::model::MixedModel;
use crate::numeric;
use crate::options::{FROM_ZERO, Options, Range, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

use super::cells::Joint;
use super::density::{Cell, Density, kink};
use super::gauss::gauss_legendre;

const NAME: &str = "gauss-legendre";
const POINTS: usize = 16;
/// Points per task.
const BLOCK: usize = 1024;
/// Number of tasks whose sums are kept at a time.
const BLOCKS_PER_ROUND: usize = 1 << 16;
/// Maximum number of points; more would take years.
const MOST_POINTS: f64 = 1e15;

/// Gauss–Legendre quadrature on a grid.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GaussLegendre {
    /// The panels are halved until log Z changes by less than this, in nats.
    pub error: f64,
    /// Maximum number of points per component.
    pub points: f64,
}

options!(GaussLegendre {
    error: f64 => FROM_ZERO,
    points: f64 => Range::closed(1.0, 1e15)
});

impl Default for GaussLegendre {
    fn default() -> Self {
        GaussLegendre { error: 1e-12, points: 2e7 }
    }
}

impl Forecasts<MixedModel> for GaussLegendre {
    fn forecast(&self, model: &MixedModel, _: Query, _: &Run) -> Forecast {
        let (mut seconds, mut bytes) = (0.0, 1e5);
        for component in model.components() {
            let Some(joint) = Joint::new(model, &component) else {
                return Forecast {
                    bytes: f64::INFINITY,
                    seconds: f64::INFINITY,
                    promise: Promise::Heuristic,
                };
            };
            // Eight panels suffice for most densities.
            let states = joint.count as f64;
            let points = (8.0 * POINTS as f64).powi(joint.boxes.len() as i32) * states;
            let factors: usize = component.terms.iter().map(|&j| 1 + model.terms()[j].factors.len()).sum();
            seconds += points.min(self.points) * 1e-8 * (2 + factors) as f64;
            let sums = (8.0 / BLOCK as f64 + 16.0) * BLOCKS_PER_ROUND as f64;
            bytes += states * (300.0 + 40.0 * factors as f64) + sums;
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
            let Some(joint) = Joint::new(model, &component) else { continue };
            let densities = joint.densities(0.0, &clock)?;
            let found = run.install(|| self.component(&densities, &joint.boxes, &clock))?;
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
        let segments: Vec<Vec<f64>> = (0..boxes.len()).map(|v| segments(densities, v, boxes[v])).collect();
        for halvings in 0.. {
            let panels = 1usize << halvings;
            let side = |ends: &Vec<f64>| ((ends.len() - 1) * panels * POINTS) as f64;
            let points = segments.iter().map(side).product::<f64>() * densities.len() as f64;
            if last.is_some() && (points > self.points.min(MOST_POINTS) || clock.is_out_of_time()) {
                found.stopped = clock.is_out_of_time();
                break;
            }
            if points > self.points || points > MOST_POINTS {
                return Err(Error::NoAnswer(format!(
                    "{points:.1e} points at least are needed, more than the {:.1e} of the option points",
                    self.points
                )));
            }
            if clock.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let value = match grid(densities, &segments, panels, clock) {
                Ok(value) => value,
                // The result of the previous grid is used.
                Err(Error::OverBudget { .. }) if last.is_some() => {
                    found.stopped = true;
                    break;
                }
                Err(error) => return Err(error),
            };
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

/// The ends of a box and the kinks inside it, ascending.
fn segments(densities: &[Density], v: usize, (a, b): (f64, f64)) -> Vec<f64> {
    let factors = densities.iter().flat_map(|density| &density.parts).flat_map(|part| &part.factors);
    let kinks = factors.filter(|factor| factor.0 == v).filter_map(|&(_, f)| kink(f, (a, b)));
    let mut ends: Vec<f64> = kinks.chain([a, b]).collect();
    ends.sort_by(f64::total_cmp);
    ends.dedup();
    ends
}

/// log ∫ on a grid with `panels` panels per segment of a variable.
fn grid(densities: &[Density], segments: &[Vec<f64>], panels: usize, clock: &Clock<'_>) -> Result<f64> {
    // Half the width of a panel for each segment. Points are computed on demand.
    let rule: Vec<(f64, f64)> = gauss_legendre(POINTS).into_iter().map(|(t, w)| (t, w.ln())).collect();
    let axis = |ends: &Vec<f64>| {
        let half = |pair: &[f64]| 0.5 * (pair[1] - pair[0]) / panels as f64;
        ends.windows(2).map(|pair| (pair[0], half(pair), half(pair).ln())).collect()
    };
    let axes: Vec<Vec<(f64, f64, f64)>> = segments.iter().map(axis).collect();
    let side = |axis: &Vec<(f64, f64, f64)>| axis.len() * panels * POINTS;
    let total: usize = axes.iter().map(side).product();
    let blocks = total.div_ceil(BLOCK);
    let block = |index: usize| {
        clock.check_late()?;
        let (density, begin) = (&densities[index / blocks], index % blocks * BLOCK);
        let mut x = vec![0.0; axes.len()];
        let logs: Vec<f64> = (begin..(begin + BLOCK).min(total))
            .map(|point| {
                let mut rest = point;
                let mut log = 0.0;
                for (x, axis) in x.iter_mut().zip(&axes) {
                    let (own, (t, weight)) = (rest % side(axis), rule[rest % POINTS]);
                    rest /= side(axis);
                    let panel = own / POINTS;
                    let (first, half, log_half) = axis[panel / panels];
                    *x = first + half * ((2 * (panel % panels) + 1) as f64 + t);
                    log += weight + log_half;
                }
                log + density.score(&x)
            })
            .collect();
        Ok(numeric::log_sum_exp(&logs))
    };
    let count = blocks * densities.len();
    let mut sums = Vec::new();
    for first in (0..count).step_by(BLOCKS_PER_ROUND) {
        let some = (first..(first + BLOCKS_PER_ROUND).min(count)).into_par_iter().map(block);
        sums.push(numeric::log_sum_exp(&some.collect::<Result<Vec<f64>>>()?));
    }
    Ok(numeric::log_sum_exp(&sums))
}
