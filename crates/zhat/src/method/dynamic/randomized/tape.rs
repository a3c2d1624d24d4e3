//! Estimates with their gradients. The chosen states and their weights are constants.
//!
//! From R replicates log Ẑ is the logarithm of their mean, so its gradient is the mean of theirs with shares
//! sᵣ = Ẑᵣ/ΣẐ. Entropy is Ĥ = log Ẑ − Σᵣ sᵣ Êᵣ[score] with the gradient Σᵣ sᵣ (∇Ĥᵣ − (Êᵣ − Ê)·∇log Ẑᵣ), Êᵣ =
//! log Ẑᵣ − Ĥᵣ.

use rayon::prelude::*;

use super::method::{Choice, NAME, RandomizedForward};
use super::proposal::Support;
use super::restriction::Restriction;
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::query::Forecasts;
use crate::query::{Differentiable, Operation, Tape, not_differentiable};
use crate::run::{Clock, Run};

/// What log Ẑ leaves for its gradient: the states that were chosen.
pub struct LogPartitionTape<M: SequenceModel> {
    model: M,
    choice: Choice,
    run: Run,
}

/// What Ĥ leaves for its gradient.
pub struct EntropyTape<M: SequenceModel> {
    model: M,
    choice: Choice,
    /// Ĥᵣ for each sequence, for each replicate.
    entropies: Vec<Vec<f64>>,
    run: Run,
}

impl RandomizedForward {
    /// log Ẑ of each sequence, and what its gradient needs.
    pub fn log_partition_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, LogPartitionTape<M>)> {
        let choice = self.choose(model, run)?;
        let value = choice.log_partition();
        Ok((value, LogPartitionTape { model: model.clone(), choice, run: run.clone() }))
    }

    /// Ĥ of each sequence, and what its gradient needs; −∞ for sequences without a weight, an error if none
    /// has any.
    pub fn entropy_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, EntropyTape<M>)> {
        let choice = self.choose(model, run)?;
        choice.require(model, false)?;
        choice.entropy_with_tape(model, run)
    }
}

impl Choice {
    /// The same states and weights with the scores of another chain of the same shape: estimates as functions
    /// of the scores.
    pub fn on<M: SequenceModel>(&self, model: &M, run: &Run) -> Result<Choice> {
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
            return Err(Error::model("the states were chosen for chains of another shape"));
        }
        let clock = run.start(NAME);
        let evaluate = |b: usize| {
            let supports = self.supports(b).par_iter();
            supports.map(|support| Restriction::new(model, b, support).log_partition(&clock)).collect()
        };
        let log_estimates: Result<Vec<Vec<f64>>> =
            run.install(|| (0..model.chain().batch()).into_par_iter().map(evaluate).collect());
        Ok(Choice { log_estimates: log_estimates?, ..self.clone() })
    }

    /// Ĥ of each sequence with these states, and what its gradient needs; −∞ for sequences without a weight.
    pub fn entropy_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, EntropyTape<M>)> {
        let choice = self.on(model, run)?;
        let clock = run.start(NAME);
        let entropies = run.install(|| entropies(model, &choice, &clock))?;
        let value = (0..model.chain().batch()).map(|b| choice.entropy(b, &entropies[b])).collect();
        Ok((value, EntropyTape { model: model.clone(), choice, entropies, run: run.clone() }))
    }
}

impl<M: SequenceModel> LogPartitionTape<M> {
    /// The states that were chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ_b cotangent_b · log Ẑ_b; sequences without a weight have none.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<M::FactorMarginals> {
        check_cotangent(cotangent, self.model.chain().batch())?;
        let clock = self.run.start(NAME);
        self.run.install(|| gradient(&self.model, &self.choice, cotangent, &clock))
    }
}

impl<M: SequenceModel> EntropyTape<M> {
    /// The states that were chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ_b cotangent_b · Ĥ_b; sequences without a weight have none.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<M::FactorMarginals> {
        check_cotangent(cotangent, self.model.chain().batch())?;
        let clock = self.run.start(NAME);
        self.run.install(|| {
            let mut gradient = self.model.zero_gradient();
            for (b, &factor) in cotangent.iter().enumerate() {
                let shares = self.choice.shares(b);
                let scores = mean_scores(&self.choice, b, &self.entropies[b]);
                let mean: f64 = shares.iter().zip(&scores).map(|(share, score)| share * score).sum();
                for (r, support) in self.choice.supports(b).iter().enumerate() {
                    if shares[r] > 0.0 && factor != 0.0 {
                        let (own, also) = (factor * shares[r], factor * shares[r] * (mean - scores[r]));
                        let restriction = Restriction::new(&self.model, b, support);
                        restriction.add_entropy_gradient(own, also, &clock, &mut gradient)?;
                    }
                }
            }
            Ok(gradient)
        })
    }
}

impl Choice {
    /// Ĥ of sequence b from those of its replicates; −∞ if it has no weight.
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

/// Êᵣ[score] of the replicates of sequence b; 0 where they have no weight.
fn mean_scores(choice: &Choice, b: usize, entropies: &[f64]) -> Vec<f64> {
    let pairs = choice.log_estimates(b).iter().zip(entropies);
    pairs.map(|(&log, entropy)| if log > f64::NEG_INFINITY { log - entropy } else { 0.0 }).collect()
}

/// Ĥᵣ for each sequence, for each replicate; 0 for those without a weight.
pub(super) fn entropies<M: SequenceModel>(
    model: &M,
    choice: &Choice,
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

/// The gradient of Σ_b cotangent_b · log Ẑ_b, replicate after replicate, so that its bits do not depend on
/// the threads.
pub(super) fn gradient<M: SequenceModel>(
    model: &M,
    choice: &Choice,
    cotangent: &[f64],
    clock: &Clock<'_>,
) -> Result<M::FactorMarginals> {
    let mut gradient = model.zero_gradient();
    each_share(choice, cotangent, |b, support, factor| {
        Restriction::new(model, b, support).add_gradient(factor, clock, &mut gradient)
    })?;
    Ok(gradient)
}

/// Calls `work` with every replicate that has a weight, and its share times the cotangent.
pub(super) fn each_share(
    choice: &Choice,
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

/// A cotangent is one finite number for each value.
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
            _ => Err(not_differentiable(NAME, operation, models.len())),
        }
    }
}
