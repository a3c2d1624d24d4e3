//! Estimates with their gradients. The chosen states and their weights are constants.
//!
//! log Ẑ is the logarithm of the mean of R replicates, so its gradient is the mean of their gradients with
//! shares sᵣ = Ẑᵣ/ΣẐ. The entropy is Ĥ = log Ẑ − Σᵣ sᵣ Êᵣ[score]. Its gradient is Σᵣ sᵣ (∇Ĥᵣ − (Êᵣ − Ê)·∇log
//! Ẑᵣ) with Êᵣ = log Ẑᵣ − Ĥᵣ.

use crate::numeric::parallel::prelude::*;

use super::method::{NAME, RandomizedForward, StateChoice};
use super::proposal::Support;
use super::restriction::Restriction;
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::query::{Differentiable, Forecasts, HasFactorMarginals, Operation, Tape, not_differentiable};
use crate::run::{Clock, Run};

/// One value per sequence, and the tape of its gradient.
type Recording<M> = (Vec<f64>, Tape<<M as HasFactorMarginals>::FactorMarginals>);

impl StateChoice {
    /// The same states and weights with the scores of another chain of the same shape. This makes estimates
    /// functions of the scores.
    ///
    /// # Errors
    /// If the model has another shape than the one the states were chosen for, or the run is cancelled or out
    /// of time.
    pub fn on<M: SequenceModel>(&self, model: &M, run: &Run) -> Result<StateChoice> {
        let chain = model.chain();
        let fits = self.batch() == chain.batch()
            && (0..chain.batch()).all(|b| {
                let in_range = |i: &u32| (*i as usize) < chain.states();
                self.supports(b).iter().all(|support| {
                    support.len() == chain.lengths()[b]
                        && (0..support.len()).all(|t| support.at(t).states.iter().all(in_range))
                })
            });
        if !fits {
            return Err(Error::model("the states were chosen for a model of another shape"));
        }
        let clock = run.start(NAME);
        let evaluate = |b: usize| {
            let supports = self.supports(b).par_iter();
            supports.map(|support| Restriction::new(model, b, support).log_partition(&clock)).collect()
        };
        let log_estimates: Result<Vec<Vec<f64>>> =
            run.install(|| (0..model.chain().batch()).into_par_iter().map(evaluate).collect());
        Ok(StateChoice { log_estimates: log_estimates?, ..self.clone() })
    }

    /// log Ẑ or Ĥ of each sequence with these states, and the tape of its gradient. Ĥ is −∞ for sequences
    /// with Ẑ = 0; they contribute nothing to a gradient.
    ///
    /// # Errors
    /// If the model does not have the shape for which the states were chosen, for an operation on two models,
    /// and if the run is stopped.
    pub fn differentiate<M: SequenceModel + 'static>(
        &self,
        operation: Operation,
        model: &M,
        run: &Run,
    ) -> Result<Recording<M>> {
        self.on(model, run)?.record(operation, model, run)
    }

    fn record<M: SequenceModel + 'static>(
        self,
        operation: Operation,
        model: &M,
        run: &Run,
    ) -> Result<Recording<M>> {
        let (model, run) = (model.clone(), run.clone());
        let batch = model.chain().batch();
        let clock = run.start(NAME);
        match operation {
            Operation::LogPartition => {
                let values = self.log_partition();
                let vjp = move |cotangent: &[f64]| {
                    check_cotangent(cotangent, batch)?;
                    let clock = run.start(NAME);
                    Ok(vec![run.install(|| gradient(&model, &self, cotangent, &clock))?])
                };
                Ok((values, Tape::new(vjp)))
            }
            Operation::Entropy => {
                let entropies = run.install(|| entropies(&model, &self, &clock))?;
                let values = (0..batch).map(|b| self.entropy(b, &entropies[b])).collect();
                let vjp = move |cotangent: &[f64]| {
                    check_cotangent(cotangent, batch)?;
                    let clock = run.start(NAME);
                    Ok(vec![run.install(|| entropy_gradient(&model, &self, &entropies, cotangent, &clock))?])
                };
                Ok((values, Tape::new(vjp)))
            }
            _ => Err(not_differentiable(NAME, operation, operation.models())),
        }
    }
}

impl StateChoice {
    /// Ĥ of sequence b from the entropies of its replicates; −∞ if Ẑ = 0.
    pub(super) fn entropy(&self, b: usize, entropies: &[f64]) -> f64 {
        let shares = self.shares(b);
        let log_partition = self.log_partition_of(b);
        if log_partition == f64::NEG_INFINITY {
            return log_partition;
        }
        let scores = mean_scores(self, b, entropies);
        log_partition - shares.iter().zip(&scores).map(|(share, score)| share * score).sum::<f64>()
    }
}

/// Êᵣ[score] of the replicates of sequence b; 0 for replicates with Ẑᵣ = 0.
fn mean_scores(choice: &StateChoice, b: usize, entropies: &[f64]) -> Vec<f64> {
    let pairs = choice.log_estimates(b).iter().zip(entropies);
    pairs.map(|(&log, entropy)| if log > f64::NEG_INFINITY { log - entropy } else { 0.0 }).collect()
}

/// Ĥᵣ of each replicate of each sequence; 0 for replicates with Ẑᵣ = 0.
pub(super) fn entropies<M: SequenceModel>(
    model: &M,
    choice: &StateChoice,
    clock: &Clock<'_>,
) -> Result<Vec<Vec<f64>>> {
    let of_sequence = |b: usize| {
        let of_replicate = |(support, &log): (&_, &f64)| {
            if log == f64::NEG_INFINITY {
                return Ok(0.0);
            }
            Restriction::new(model, b, support).entropy(clock)
        };
        choice.supports(b).par_iter().zip(choice.log_estimates(b)).map(of_replicate).collect()
    };
    (0..model.chain().batch()).into_par_iter().map(of_sequence).collect()
}

/// The gradient of Σ_b cotangent_b · log Ẑ_b. Replicates are added in order, so the bits do not depend on the
/// number of threads.
pub(super) fn gradient<M: SequenceModel>(
    model: &M,
    choice: &StateChoice,
    cotangent: &[f64],
    clock: &Clock<'_>,
) -> Result<M::FactorMarginals> {
    let mut gradient = model.zero_gradient();
    each_share(choice, cotangent, |b, support, factor| {
        Restriction::new(model, b, support).add_gradient(factor, clock, &mut gradient)
    })?;
    model.finish_end(&mut gradient);
    Ok(gradient)
}

/// The gradient of Σ_b cotangent_b · Ĥ_b; `entropies` holds Ĥᵣ of the replicates.
fn entropy_gradient<M: SequenceModel>(
    model: &M,
    choice: &StateChoice,
    entropies: &[Vec<f64>],
    cotangent: &[f64],
    clock: &Clock<'_>,
) -> Result<M::FactorMarginals> {
    let mut gradient = model.zero_gradient();
    for (b, &factor) in cotangent.iter().enumerate() {
        let shares = choice.shares(b);
        let scores = mean_scores(choice, b, &entropies[b]);
        let mean: f64 = shares.iter().zip(&scores).map(|(share, score)| share * score).sum();
        for (r, support) in choice.supports(b).iter().enumerate() {
            if shares[r] > 0.0 && factor != 0.0 {
                let (own, also) = (factor * shares[r], factor * shares[r] * (mean - scores[r]));
                let restriction = Restriction::new(model, b, support);
                restriction.add_entropy_gradient(own, also, clock, &mut gradient)?;
            }
        }
    }
    model.finish_end(&mut gradient);
    Ok(gradient)
}

/// Calls `work` with each replicate that has Ẑᵣ > 0, and with its share times the cotangent.
pub(super) fn each_share(
    choice: &StateChoice,
    cotangent: &[f64],
    mut work: impl FnMut(usize, &Support, f64) -> Result<()>,
) -> Result<()> {
    for (b, &factor) in cotangent.iter().enumerate() {
        for (share, support) in choice.shares(b).into_iter().zip(choice.supports(b)) {
            if share * factor != 0.0 {
                work(b, support, share * factor)?;
            }
        }
    }
    Ok(())
}

/// Checks that a cotangent has one finite number per value.
fn check_cotangent(cotangent: &[f64], expected: usize) -> Result<()> {
    if cotangent.len() != expected || cotangent.iter().any(|x| !x.is_finite()) {
        let message = format!("found {} numbers, expected {expected} finite ones", cotangent.len());
        return Err(Error::argument("cotangent", message));
    }
    Ok(())
}

impl<M: SequenceModel + 'static> Differentiable<M> for RandomizedForward
where
    RandomizedForward: Forecasts<M>,
{
    const OPERATIONS: &'static [Operation] = &[Operation::LogPartition, Operation::Entropy];

    fn differentiate(&self, operation: Operation, models: &[&M], run: &Run) -> Result<Recording<M>> {
        let (&[model], Operation::LogPartition | Operation::Entropy) = (models, operation) else {
            return Err(not_differentiable(NAME, operation, models.len()));
        };
        let choice = self.choose(model, run)?;
        if operation == Operation::Entropy {
            choice.require(model, false)?;
        }
        choice.record(operation, model, run)
    }
}
