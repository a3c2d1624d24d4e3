//! Estimates with their gradients. The chosen states and their weights are constants.
//!
//! log Ẑ is the logarithm of the mean of R replicates, so its gradient is the mean of their gradients with
//! shares sᵣ = Ẑᵣ/ΣẐ. The entropy is Ĥ = log Ẑ − Σᵣ sᵣ Êᵣ[score]. Its gradient is Σᵣ sᵣ (∇Ĥᵣ − (Êᵣ − Ê)·∇log
//! Ẑᵣ) with Êᵣ = log Ẑᵣ − Ĥᵣ.

use rayon::prelude::*;

use super::method::{Choice, NAME, RandomizedForward};
use super::proposal::Support;
use super::restriction::Restriction;
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::query::Forecasts;
use crate::query::{Differentiable, Operation, Tape, not_differentiable};
use crate::run::{Clock, Run};

/// Tape for the gradient of log Ẑ: the chosen states.
pub struct LogPartitionTape<M: SequenceModel> {
    model: M,
    choice: Choice,
    run: Run,
}

/// Tape for the gradient of Ĥ.
pub struct EntropyTape<M: SequenceModel> {
    model: M,
    choice: Choice,
    /// Ĥᵣ of each replicate of each sequence.
    entropies: Vec<Vec<f64>>,
    run: Run,
}

impl RandomizedForward {
    /// log Ẑ of each sequence, and a tape for its gradient.
    pub fn log_partition_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        run: &Run,
    ) -> Result<(Vec<f64>, LogPartitionTape<M>)> {
        let choice = self.choose(model, run)?;
        let value = choice.log_partition();
        Ok((value, LogPartitionTape { model: model.clone(), choice, run: run.clone() }))
    }

    /// Ĥ of each sequence, and a tape for its gradient; −∞ for sequences with Ẑ = 0, and an error if all
    /// sequences have Ẑ = 0.
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
    /// The same states and weights with the scores of another chain of the same shape. This makes estimates
    /// functions of the scores.
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

    /// Ĥ of each sequence with these states, and a tape for its gradient; −∞ for sequences with Ẑ = 0.
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
    /// The chosen states.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ_b cotangent_b · log Ẑ_b. Sequences with Ẑ = 0 contribute nothing.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<M::FactorMarginals> {
        check_cotangent(cotangent, self.model.chain().batch())?;
        let clock = self.run.start(NAME);
        self.run.install(|| gradient(&self.model, &self.choice, cotangent, &clock))
    }
}

impl<M: SequenceModel> EntropyTape<M> {
    /// The chosen states.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ_b cotangent_b · Ĥ_b. Sequences with Ẑ = 0 contribute nothing.
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
fn mean_scores(choice: &Choice, b: usize, entropies: &[f64]) -> Vec<f64> {
    let pairs = choice.log_estimates(b).iter().zip(entropies);
    pairs.map(|(&log, entropy)| if log > f64::NEG_INFINITY { log - entropy } else { 0.0 }).collect()
}

/// Ĥᵣ of each replicate of each sequence; 0 for replicates with Ẑᵣ = 0.
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

/// The gradient of Σ_b cotangent_b · log Ẑ_b. Replicates are added in order, so the bits do not depend on the
/// number of threads.
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

/// Calls `work` with each replicate that has Ẑᵣ > 0, and with its share times the cotangent.
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
