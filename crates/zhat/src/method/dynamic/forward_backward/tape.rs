//! Values with their gradients (tapes).

use super::recorded::{
    Factors, Recorded, check_numbers, check_shapes, direction_gradient, expectation, finite_models, gradient,
    gradient_bytes, some_weight, sweep, with_direction,
};
use super::{ForwardBackward, NAME};
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::{Directed, Messages};
use crate::query::Forecasts;
use crate::query::{Differentiable, Operation, Tape, not_differentiable};
use crate::run::Run;

/// Tape for the gradient of log Z.
pub struct LogPartitionTape<M: Recorded> {
    model: M,
    /// `None` with checkpoints: the messages are recomputed.
    kept: Option<Messages<M::Real>>,
    run: Run,
}

/// Tape for the gradient of the entropy.
pub struct EntropyTape<M: Recorded>(Expectation<M>);

/// Tape for the gradients of cross-entropy or KL divergence.
pub struct DivergenceTape<M: Recorded>(Expectation<M>);

/// An expectation under p.
struct Expectation<M: Recorded> {
    p: M,
    q: Option<M>,
    factors: Factors,
    values: Vec<f64>,
    /// `None` with checkpoints: the messages are recomputed.
    kept: Option<Directed<M::Real>>,
    run: Run,
}

impl ForwardBackward {
    /// log Z of each sequence, and a tape for its gradient.
    pub fn log_partition_with_tape<M: Recorded>(
        &self,
        model: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, LogPartitionTape<M>)> {
        run.require_memory(NAME, gradient_bytes(model, self.checkpoint, 2.0, 1.0, run))?;
        let clock = run.start(NAME);
        let (value, kept) = run.install(|| sweep(model, self.checkpoint, &clock))?;
        Ok((value, LogPartitionTape { model: model.clone(), kept, run: run.clone() }))
    }

    /// log Z of each sequence and the gradient of Σ_b cotangent_b · log Z_b, computed together.
    pub fn log_partition_and_gradient<M: Recorded>(
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

    /// The entropy of each sequence, and a tape for its gradient. An error if no sequence has a path;
    /// otherwise −∞ for sequences without one.
    pub fn entropy_with_tape<M: Recorded>(&self, model: &M, run: &Run) -> Result<(Vec<f64>, EntropyTape<M>)> {
        let (values, tape) = self.record(model, None, Factors { own: -1.0, other: 0.0 }, run)?;
        Ok((values, EntropyTape(tape)))
    }

    /// The cross-entropy −E_p[log q] of each sequence, and a tape for its gradients. An error if no sequence
    /// has a path under p; otherwise −∞ for sequences without one.
    pub fn cross_entropy_with_tape<M: Recorded>(
        &self,
        p: &M,
        q: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, DivergenceTape<M>)> {
        let (values, tape) = self.record(p, Some(q), Factors { own: 0.0, other: -1.0 }, run)?;
        Ok((values, DivergenceTape(tape)))
    }

    /// KL(p ‖ q) of each sequence, and a tape for its gradients. An error if no sequence has a path under p;
    /// otherwise −∞ for sequences without one.
    pub fn kl_with_tape<M: Recorded>(
        &self,
        p: &M,
        q: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, DivergenceTape<M>)> {
        let (values, tape) = self.record(p, Some(q), Factors { own: 1.0, other: -1.0 }, run)?;
        Ok((values, DivergenceTape(tape)))
    }

    fn record<M: Recorded>(
        &self,
        p: &M,
        q: Option<&M>,
        factors: Factors,
        run: &Run,
    ) -> Result<(Vec<f64>, Expectation<M>)> {
        if let Some(q) = q {
            check_shapes(p, q)?;
        }
        let (rows, models) = if q.is_some() { (6.0, 2.0) } else { (4.0, 1.0) };
        run.require_memory(NAME, gradient_bytes(p, self.checkpoint, rows, models, run))?;
        let clock = run.start(NAME);
        let (values, kept) = run.install(|| {
            if self.checkpoint {
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
        let (p, q, run) = (p.clone(), q.cloned(), run.clone());
        Ok((values.clone(), Expectation { p, q, factors, values, kept, run }))
    }
}

impl<M: Recorded> LogPartitionTape<M> {
    /// The gradient of Σ_b cotangent_b · log Z_b. Sequences with Z = 0 contribute nothing.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<M::FactorMarginals> {
        check_numbers(cotangent, self.model.chain().batch())?;
        let clock = self.run.start(NAME);
        Ok(self.run.install(|| gradient(&self.model, self.kept.as_ref(), cotangent, true, &clock))?.1)
    }
}

impl<M: Recorded> EntropyTape<M> {
    /// The gradient of Σ_b cotangent_b · H_b.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<M::FactorMarginals> {
        Ok(self.0.vjp(cotangent)?.0)
    }
}

impl<M: Recorded> DivergenceTape<M> {
    /// The gradients of Σ_b cotangent_b · value_b with respect to p and q. Sequences whose value is not
    /// finite contribute nothing.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<(M::FactorMarginals, M::FactorMarginals)> {
        let (p, q) = self.0.vjp(cotangent)?;
        let missing = || Error::NoAnswer("there is no second model".into());
        Ok((p, q.ok_or_else(missing)?))
    }
}

impl<M: Recorded> Expectation<M> {
    #[allow(clippy::type_complexity)]
    fn vjp(&self, cotangent: &[f64]) -> Result<(M::FactorMarginals, Option<M::FactorMarginals>)> {
        check_numbers(cotangent, self.p.chain().batch())?;
        // Sequences without a finite value contribute nothing.
        let finite = |(c, value): (&f64, &f64)| if value.is_finite() { *c } else { 0.0 };
        let cotangent: Vec<f64> = cotangent.iter().zip(&self.values).map(finite).collect();
        let clock = self.run.start(NAME);
        let kept = self.kept.as_ref().map(|kept| (self.values.as_slice(), kept));
        self.run
            .install(|| direction_gradient(&self.p, self.q.as_ref(), self.factors, kept, &cotangent, &clock))
    }
}

impl<M: Recorded + 'static> Differentiable<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
    M::FactorMarginals: Send,
{
    const OPERATIONS: &'static [Operation] = &Operation::ALL;

    fn differentiate(
        &self,
        operation: Operation,
        models: &[&M],
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<M::FactorMarginals>)> {
        match (operation, models) {
            (Operation::LogPartition, [model]) => {
                let (values, tape) = self.log_partition_with_tape(*model, run)?;
                Ok((values, Tape::new(move |cotangent| Ok(vec![tape.vjp(cotangent)?]))))
            }
            (Operation::Entropy, [model]) => {
                let (values, tape) = self.entropy_with_tape(*model, run)?;
                Ok((values, Tape::new(move |cotangent| Ok(vec![tape.vjp(cotangent)?]))))
            }
            (Operation::CrossEntropy | Operation::Kl, [p, q]) => {
                let (values, tape) = match operation {
                    Operation::Kl => self.kl_with_tape(*p, *q, run)?,
                    _ => self.cross_entropy_with_tape(*p, *q, run)?,
                };
                let vjp = move |cotangent: &[f64]| tape.vjp(cotangent).map(|(p, q)| vec![p, q]);
                Ok((values, Tape::new(vjp)))
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
