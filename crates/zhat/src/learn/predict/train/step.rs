//! One step of every training method.

use super::{IDLE, Learning, PredictorCheckpoint, PredictorProgress, Search};
use crate::error::Result;
use crate::learn::predict::metric::Metric;
use crate::learn::predict::objective::Objective;
use crate::method::space::perfect::Draws;
use crate::numeric::Elementwise;
use crate::optimize::InverseHessian;
use crate::random::Streams;
use crate::run::{Clock, Run};

/// Odd multiplier that makes the seeds of steps differ.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What does not change during training.
pub(super) struct Setting<'a> {
    pub objective: &'a Objective<'a>,
    /// Upper bound on the eigenvalues of the Hessian, for sampled gradients.
    pub curvature: f64,
    /// The approximate Hessian of batch training.
    pub metric: Option<Metric>,
    /// Upper bound on the norm of the minimiser.
    pub bound: f64,
    /// Whether the objective is known to be strongly convex.
    pub convex: bool,
    pub run: &'a Run,
    pub clock: &'a Clock<'a>,
}

/// Scales a point to a maximum norm.
fn project(point: &mut [f64], bound: f64) {
    let norm = f64::dot(point, point).sqrt();
    if norm > bound {
        f64::multiply(point, bound / norm);
    }
}

/// The point, scaled to a maximum norm.
pub(super) fn projected(point: &[f64], bound: f64) -> Vec<f64> {
    let mut point = point.to_vec();
    project(&mut point, bound);
    point
}

/// The radius of a gradient from samples whose standard deviation is at most `spread`, at step t and its share
/// of the confidence.
pub(super) fn radius(spread: f64, how: &Learning, step: u64) -> f64 {
    let failure = 6.0 * how.failure / (std::f64::consts::PI * step as f64).powi(2);
    spread * (1.0 + (2.0 * (1.0 / failure).ln()).sqrt())
}

impl Setting<'_> {
    pub fn batch(&self, now: &mut PredictorCheckpoint) -> Result<()> {
        let Search::Lbfgs(lbfgs) = &mut now.search else { return Ok(()) };
        let objective = self.objective;
        let apply = self.metric.as_ref().map(|metric| |vector: &mut [f64]| metric.apply(vector));
        let step = lbfgs.step_in(
            &mut |point, gradient| objective.evaluate(point, gradient, self.clock),
            apply.as_ref().map(|apply| apply as &InverseHessian<'_>),
        )?;
        let (point, _, here, _) = lbfgs.parts();
        let gap = here.map_or(f64::INFINITY, |(_, gradient)| objective.gap(gradient, point, 0.0));
        now.idle = if step.objective < now.least { 0 } else { now.idle + 1 };
        if !self.convex && gap <= now.how.gap {
            now.idle = IDLE;
        }
        now.least = now.least.min(step.objective);
        let gap = if self.convex { gap } else { step.objective };
        now.progress = PredictorProgress {
            step: now.progress.step + 1,
            objective: step.objective,
            gap,
            certified: true,
        };
        Ok(())
    }

    /// The gradient of all rows from samples at a point: value, gap, and whether all samples are exact, so that the
    /// gap is certified. Counts the steps whose radius is too large.
    fn sampled_gradient(
        &self,
        point: &[f64],
        gradient: &mut [f64],
        (noisy, streams): (&mut usize, &Streams),
        (how, step): (&Learning, u64),
    ) -> Result<(f64, f64, bool)> {
        let growth = 1 + *noisy;
        let samples = how.samples.saturating_mul(growth.saturating_mul(growth));
        let (value, draws) = self.objective.sampled(point, gradient, samples, streams, self.clock)?;
        let radius = radius(self.objective.spread() / (samples as f64).sqrt(), how, step);
        let norm = f64::dot(gradient, gradient).sqrt();
        *noisy += usize::from(radius > 0.5 * norm);
        Ok((value, self.objective.gap(gradient, point, radius), draws == Draws::Exact))
    }

    pub fn sampled(&self, now: &mut PredictorCheckpoint) -> Result<()> {
        let Search::Sampled { point, ahead, best, noisy } = &mut now.search else { return Ok(()) };
        let (how, step) = (now.how, now.progress.step + 1);
        let seed = self.run.seed().wrapping_add((step as u64).wrapping_mul(SEED_STEP));
        let streams = Streams::new(seed, "predict sampled");
        let mut gradient = vec![0.0; point.len()];
        let (value, gap, exact) =
            self.sampled_gradient(ahead, &mut gradient, (noisy, &streams), (&how, step as u64))?;
        let better = gap < now.progress.gap;
        if better {
            best.copy_from_slice(ahead);
        }
        let root = (self.curvature / (2.0 * how.lambda)).sqrt();
        let momentum = (root - 1.0) / (root + 1.0);
        let mut next: Vec<f64> = ahead.iter().zip(&gradient).map(|(y, g)| y - g / self.curvature).collect();
        project(&mut next, self.bound);
        for ((ahead, next), old) in ahead.iter_mut().zip(&next).zip(point.iter()) {
            *ahead = next + momentum * (next - old);
        }
        *point = next;
        // Objective and gap are those of the same point.
        let best = PredictorProgress { step, objective: value, gap, certified: exact };
        now.progress = if better { best } else { PredictorProgress { step, ..now.progress } };
        Ok(())
    }

    /// One pass over all rows in random order, then the gradient of all rows at the average.
    pub fn online(&self, now: &mut PredictorCheckpoint) -> Result<()> {
        let Search::Online { point, average, noisy, sums } = &mut now.search else { return Ok(()) };
        let (how, pass, objective) = (now.how, now.progress.step as u64 + 1, self.objective);
        let count = objective.inputs.rows();
        let mut rows: Vec<usize> = (0..count).collect();
        Streams::new(self.run.seed(), "predict order").block(pass).shuffle(&mut rows);
        let mut gradient = vec![0.0; point.len()];
        // The losses of the steps of a pass have the mean f, also if the last step has fewer rows.
        let scale = count.div_ceil(how.batch) as f64 / objective.inputs.total();
        for some in rows.chunks(how.batch) {
            self.clock.check()?;
            let (inputs, targets) = (objective.inputs.select(some), objective.targets.select(some));
            let part = Objective::new(objective.compiled, &inputs, &targets, how.lambda).scaled(scale);
            let step = sums.steps + 1;
            let (value, spread) = if how.samples == 0 {
                (part.evaluate(point, &mut gradient, self.clock)?, 0.0)
            } else {
                let seed = self.run.seed().wrapping_add(step.wrapping_mul(SEED_STEP));
                let streams = Streams::new(seed, "predict online");
                let (value, draws) = part.sampled(point, &mut gradient, how.samples, &streams, self.clock)?;
                sums.exact &= draws == Draws::Exact;
                (value, part.spread() / (how.samples as f64).sqrt())
            };
            sums.add(&how, value, point, &gradient, spread, self.bound);
            let t = step as f64;
            // Weights ∝ t give an error of 1/t; a plain average would give ln t / t.
            let weight = 2.0 / (t + 1.0);
            average.iter_mut().zip(point.iter()).for_each(|(a, x)| *a += weight * (x - *a));
            let rate = 1.0 / (2.0 * how.share * how.lambda * t);
            point.iter_mut().zip(&gradient).for_each(|(x, g)| *x -= rate * g);
            project(point, self.bound);
        }
        let (value, gap, certified) = if objective.compiled.family.has_sums() {
            let value = objective.evaluate(average, &mut gradient, self.clock)?;
            (value, if self.convex { objective.gap(&gradient, average, 0.0) } else { value }, true)
        } else {
            let streams = Streams::new(self.run.seed().wrapping_add(pass), "predict online gap");
            self.sampled_gradient(average, &mut gradient, (noisy, &streams), (&how, pass))?
        };
        now.progress = PredictorProgress { step: pass as usize, objective: value, gap, certified };
        Ok(())
    }
}
