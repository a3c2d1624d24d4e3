//! What the two kinds of sequence model have in common: values with gradients, and the queries that are these values.

use super::{ForwardBackward, NAME};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::numeric::Real;
use crate::query::Forecasts;
use crate::query::{Divergence, Entropy, FactorMarginals, HasFactorMarginals, LogPartition, Query};
use crate::run::{Clock, Run};

/// log of each model's probability, with a factor: what is expected under p.
#[derive(Clone, Copy)]
pub struct Factors {
    /// Of log p.
    pub own: f64,
    /// Of log q.
    pub other: f64,
}

/// A kind of model that forward–backward differentiates: [`crate::Chain`] or [`crate::SemiMarkov`]. The gradient has the form of
/// its factor marginals.
pub trait Recorded: HasFactorMarginals<Number = Vec<f64>> + Clone + Send + Sync {
    #[doc(hidden)]
    type Real: Real;
    #[doc(hidden)]
    type Swept: Send + Sync;
    #[doc(hidden)]
    type Directed: Send + Sync;

    #[doc(hidden)]
    fn sequences(&self) -> usize;
    /// How far rounding may move log Z.
    #[doc(hidden)]
    fn rounding(&self) -> f64;
    /// A bound on |score|.
    #[doc(hidden)]
    fn largest_score(&self) -> f64;
    /// A bound on the entropy.
    #[doc(hidden)]
    fn largest_entropy(&self) -> f64;
    #[doc(hidden)]
    fn form(&self) -> &'static str;
    #[doc(hidden)]
    fn same_shape(&self, other: &Self) -> bool;

    /// The memory of a value with its gradient: `rows` kept for each position and state, for so many models.
    #[doc(hidden)]
    fn gradient_bytes(&self, checkpoint: bool, rows: f64, models: f64, threads: usize) -> f64;

    /// log Z alone.
    #[doc(hidden)]
    fn log_partitions(&self, clock: &Clock<'_>) -> Result<Vec<f64>>;
    /// log Z and, without checkpoints, what its gradient needs.
    #[doc(hidden)]
    fn sweep(&self, checkpoint: bool, clock: &Clock<'_>) -> Result<(Vec<f64>, Option<Self::Swept>)>;
    /// log Z and the gradient of Σ cotangent·log Z, from what was kept or from the start.
    #[doc(hidden)]
    fn gradient(
        &self,
        kept: Option<&Self::Swept>,
        cotangent: &[f64],
        checkpoint: bool,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, Self::FactorMarginals)>;
    /// E_p[own·log p + other·log q] alone, and log Z_p.
    #[doc(hidden)]
    fn expectation(
        &self,
        q: Option<&Self>,
        factors: Factors,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>)>;
    /// The same with what its gradient needs.
    #[doc(hidden)]
    #[allow(clippy::type_complexity)]
    fn direct(
        &self,
        q: Option<&Self>,
        factors: Factors,
        clock: &Clock<'_>,
    ) -> Result<(Vec<f64>, Vec<f64>, Self::Directed)>;
    /// The gradients of Σ cotangent·expectation with respect to p and q; without what was kept, with checkpoints.
    #[doc(hidden)]
    #[allow(clippy::type_complexity)]
    fn direction_gradient(
        &self,
        q: Option<&Self>,
        factors: Factors,
        kept: Option<(&[f64], &Self::Directed)>,
        cotangent: &[f64],
        clock: &Clock<'_>,
    ) -> Result<(Self::FactorMarginals, Option<Self::FactorMarginals>)>;
}

/// Asks for memory, does the work in the run's threads, and wraps what it finds.
pub(super) fn answer<M: Recorded, T: Send>(
    method: &ForwardBackward,
    model: &M,
    query: Query,
    run: &Run,
    work: impl FnOnce(&Clock<'_>) -> Result<T> + Send,
) -> Result<Answer<T>>
where
    ForwardBackward: Forecasts<M>,
{
    let clock = run.start(NAME);
    let forecast = method.forecast(model, query, run);
    run.require_memory(NAME, forecast.bytes)?;
    let value = run.install(|| work(&clock))?;
    let mut diagnostics = Diagnostics::new(NAME)
        .note("transitions", model.form())
        .note("precision", M::Real::NAME)
        .note("forecast_bytes", forecast.bytes);
    diagnostics.rounding = model.rounding();
    diagnostics.seconds = clock.seconds();
    Ok(Answer::exact(value, diagnostics))
}

/// An error where no sequence has a weight.
pub(super) fn some_weight(log_partition: &[f64]) -> Result<()> {
    let none = log_partition.iter().all(|&log_z| log_z == f64::NEG_INFINITY);
    if none { Err(Error::ZeroPartition) } else { Ok(()) }
}

/// A cotangent is one finite number for each value.
pub(super) fn check_cotangent(cotangent: &[f64], expected: usize) -> Result<()> {
    if cotangent.len() != expected || cotangent.iter().any(|x| !x.is_finite()) {
        let message = format!("found {} numbers, expected {expected} finite ones", cotangent.len());
        return Err(Error::argument("cotangent", message));
    }
    Ok(())
}

/// −∞ for sequences that p has no path for.
pub(super) fn finite_models(mut values: Vec<f64>, log_partition: &[f64]) -> Vec<f64> {
    for (value, &log_z) in values.iter_mut().zip(log_partition) {
        if log_z == f64::NEG_INFINITY {
            *value = f64::NEG_INFINITY;
        }
    }
    values
}

/// An error where p and q cannot be compared.
pub(super) fn check_shapes<M: Recorded>(p: &M, q: &M) -> Result<()> {
    if p.same_shape(q) {
        return Ok(());
    }
    let message =
        "the models differ in lengths, number of states or longest segment; a divergence needs them the same";
    Err(Error::model(message))
}

impl<M: Recorded> LogPartition<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
{
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        answer(self, model, Query::LogPartition, run, |clock| {
            let log_partition = model.log_partitions(clock)?;
            some_weight(&log_partition)?;
            Ok(log_partition)
        })
    }
}

impl<M: Recorded> FactorMarginals<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
    M::FactorMarginals: Send,
{
    fn factor_marginals(&self, model: &M, run: &Run) -> Result<Answer<M::FactorMarginals>> {
        answer(self, model, Query::FactorMarginals, run, |clock| {
            let ones = vec![1.0; model.sequences()];
            let (log_partition, gradient) = model.gradient(None, &ones, self.checkpoint, clock)?;
            some_weight(&log_partition)?;
            Ok(gradient)
        })
    }
}

impl<M: Recorded> Entropy<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
{
    fn entropy(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        let mut entropy = answer(self, model, Query::Entropy, run, |clock| {
            let (values, log_partition) =
                model.expectation(None, Factors { own: -1.0, other: 0.0 }, clock)?;
            some_weight(&log_partition)?;
            Ok(finite_models(values, &log_partition))
        })?;
        // A score that moves by ε moves the entropy by ε·x·exp(−x) at most, for every state that there is.
        entropy.diagnostics.rounding *= 2.0 * (1.0 + model.largest_entropy());
        Ok(entropy)
    }
}

impl<M: Recorded> Divergence<M> for ForwardBackward
where
    ForwardBackward: Forecasts<M>,
{
    fn cross_entropy(&self, p: &M, q: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, 0.0, run)
    }

    fn kl(&self, p: &M, q: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, 1.0, run)
    }
}

fn divergence<M: Recorded>(
    method: &ForwardBackward,
    p: &M,
    q: &M,
    own: f64,
    run: &Run,
) -> Result<Answer<Vec<f64>>>
where
    ForwardBackward: Forecasts<M>,
{
    check_shapes(p, q)?;
    let mut value = answer(method, p, Query::Entropy, run, |clock| {
        let (values, log_partition) = p.expectation(Some(q), Factors { own, other: -1.0 }, clock)?;
        some_weight(&log_partition)?;
        Ok(finite_models(values, &log_partition))
    })?;
    // A change of p moves E_p[log q] by at most the range of log q.
    let (of_p, of_q) = (p.rounding(), q.rounding());
    value.diagnostics.rounding =
        2.0 * (1.0 + own) * of_p * (1.0 + 2.0 * q.largest_score()) + 2.0 * of_q * (1.0 + q.largest_entropy());
    Ok(value)
}
