//! Values with their gradients.

use super::additive::with_partition;
use super::recorded::{
    Factors, Recorded, check_numbers, check_shapes, direction_gradient, expectation, finite_models, gradient,
    gradient_bytes, log_partitions, separate, some_weight, sweep, with_direction,
};
use super::{ForwardBackward, NAME};
use crate::error::{Error, Result};
use crate::query::{Differentiable, Forecasts, HasFactorMarginals, Operation, Tape, not_differentiable};
use crate::run::Run;

/// One value per sequence, and the tape of its gradient.
type Recording<M> = (Vec<f64>, Tape<<M as HasFactorMarginals>::FactorMarginals>);

impl ForwardBackward {
    /// log Z of each sequence. The tape keeps the messages, or recomputes them if there are checkpoints;
    /// sequences of weight zero have a gradient of zero.
    fn record_log_partition<M: Recorded + 'static>(&self, model: &M, run: &Run) -> Result<Recording<M>> {
        run.require_memory(NAME, gradient_bytes(model, self.checkpoint, 2.0, 1.0, run))?;
        let clock = run.start(NAME);
        // With few states, messages are recomputed: that is faster than messages in the log domain. They are
        // also recomputed if each sequence has its own tables.
        let separate = separate(model, None);
        let again = separate || model.narrow() && !self.checkpoint;
        let (values, kept) = run.install(|| match again {
            true => Ok((log_partitions(model, &clock)?, None)),
            false => sweep(model, self.checkpoint, &clock),
        })?;
        let (model, run) = (model.clone(), run.clone());
        let checkpoint = if separate { self.checkpoint } else { !again };
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.chain().batch())?;
            let clock = run.start(NAME);
            Ok(vec![run.install(|| gradient(&model, kept.as_ref(), cotangent, checkpoint, &clock))?.1])
        };
        Ok((values, Tape::new(vjp)))
    }

    /// log Z of each sequence and the gradient of Σ_b cotangent_b · log Z_b, both from one pass.
    fn log_partition_and_gradient<M: Recorded>(
        &self,
        model: &M,
        cotangent: &[f64],
        run: &Run,
    ) -> Result<(Vec<f64>, M::FactorMarginals)> {
        check_numbers(cotangent, model.chain().batch())?;
        run.require_memory(NAME, gradient_bytes(model, self.checkpoint, 2.0, 1.0, run))?;
        let clock = run.start(NAME);
        run.install(|| gradient(model, None, cotangent, self.checkpoint, &clock))
    }

    /// An expectation under p for each sequence: −∞ for sequences of weight zero, an error if all are. The
    /// gradient is with respect to p and, where there is one, q; sequences whose value is not finite have a
    /// gradient of zero.
    fn record_expectation<M: Recorded + 'static>(
        &self,
        p: &M,
        q: Option<&M>,
        factors: Factors,
        run: &Run,
    ) -> Result<Recording<M>> {
        if let Some(q) = q {
            check_shapes(p, q)?;
        }
        let (rows, models) = if q.is_some() { (6.0, 2.0) } else { (4.0, 1.0) };
        run.require_memory(NAME, gradient_bytes(p, self.checkpoint, rows, models, run))?;
        let clock = run.start(NAME);
        let (values, kept) = run.install(|| {
            if self.checkpoint || separate(p, q) {
                let (values, log_partition) = expectation(p, q, factors, &clock)?;
                some_weight(&log_partition)?;
                return Ok::<_, Error>((finite_models(values, &log_partition), None));
            }
            let mut kept = None;
            let (values, log_partition) = with_direction(p, q, factors, &clock, |direction| {
                direction.sweep(false, &clock, |_, directed| {
                    kept = Some(directed);
                    Ok(())
                })
            })?;
            some_weight(&log_partition)?;
            Ok((finite_models(values, &log_partition), kept))
        })?;
        let shown = match q {
            Some(q) if factors.score => run.install(|| with_partition(values.clone(), q, &clock))?,
            _ => values.clone(),
        };
        let (p, q, run, own) = (p.clone(), q.cloned(), run.clone(), values);
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, p.chain().batch())?;
            let finite = |(c, value): (&f64, &f64)| if value.is_finite() { *c } else { 0.0 };
            let cotangent: Vec<f64> = cotangent.iter().zip(&own).map(finite).collect();
            let (clock, kept) = (run.start(NAME), kept.as_ref().map(|kept| (own.as_slice(), kept)));
            let gradients =
                run.install(|| direction_gradient(&p, q.as_ref(), factors, kept, &cotangent, &clock))?;
            Ok([Some(gradients.0), gradients.1].into_iter().flatten().collect())
        };
        Ok((shown, Tape::new(vjp)))
    }
}

impl<M: Recorded + 'static> Differentiable<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
    M::FactorMarginals: Send,
{
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn differentiate(&self, operation: Operation, models: &[&M], run: &Run) -> Result<Recording<M>> {
        let factors = Factors::new;
        match (operation, models) {
            (Operation::LogPartition, [model]) => self.record_log_partition(*model, run),
            (Operation::Entropy, [p]) => self.record_expectation(*p, None, factors(-1.0, 0.0), run),
            (Operation::CrossEntropy, [p, q]) => {
                self.record_expectation(*p, Some(*q), factors(0.0, -1.0), run)
            }
            (Operation::Kl, [p, q]) => self.record_expectation(*p, Some(*q), factors(1.0, -1.0), run),
            (Operation::Expectation, [model, scores]) => {
                self.record_expectation(*model, Some(*scores), Factors::of_score(), run)
            }
            _ => Err(not_differentiable(NAME, operation, models.len())),
        }
    }

    fn value_and_gradients(
        &self,
        operation: Operation,
        models: &[&M],
        cotangent: &[f64],
        run: &Run,
    ) -> Result<(Vec<f64>, Vec<M::FactorMarginals>)> {
        if let (Operation::LogPartition, [model]) = (operation, models) {
            let (values, gradient) = self.log_partition_and_gradient(*model, cotangent, run)?;
            return Ok((values, vec![gradient]));
        }
        let (values, tape) = self.differentiate(operation, models, run)?;
        let gradients = tape.vjp(cotangent)?;
        Ok((values, gradients))
    }
}
