//! Differentiable operations: a value, and a tape that gives its gradient.
//!
//! An operation f on the parameters θ of a model gives one number per item. Its tape turns a cotangent c,
//! also one number per item, into the gradient of Σ_b c_b·f_b(θ), which has the shape of the model's factor
//! marginals ([`HasFactorMarginals`]): for f = log Z these are the expected counts. Neural code needs nothing
//! else: the backward pass of a layer is the tape's `vjp`. Where types are known at run time only there is
//! [`crate::catalogue::differentiate`], whose gradients are named tensors.

use super::HasFactorMarginals;
#[cfg(doc)]
use super::{Divergence, Entropy, LogPartition};
use crate::error::{Error, Result};
use crate::query::Forecasts;
use crate::run::Run;

/// The operations that can have gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Operation {
    /// [`LogPartition`].
    LogPartition,
    /// [`Entropy`].
    Entropy,
    /// [`Divergence::cross_entropy`], of two models.
    CrossEntropy,
    /// [`Divergence::kl`], of two models.
    Kl,
}

impl Operation {
    /// All of them.
    pub const ALL: [Operation; 4] =
        [Operation::LogPartition, Operation::Entropy, Operation::CrossEntropy, Operation::Kl];

    /// The name in messages and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Operation::LogPartition => "log_partition",
            Operation::Entropy => "entropy",
            Operation::CrossEntropy => "cross_entropy",
            Operation::Kl => "kl",
        }
    }

    /// How many models it is about.
    pub fn models(self) -> usize {
        match self {
            Operation::LogPartition | Operation::Entropy => 1,
            Operation::CrossEntropy | Operation::Kl => 2,
        }
    }
}

/// A method that differentiates operations on models of type `M`.
///
/// Cost and guarantee of a value are those of the method's own query. A gradient takes about as much time
/// again; what the tape keeps for it is part of the method's forecast for factor marginals.
///
/// ```
/// use zhat::model::generate::{self, ChainShape};
/// use zhat::query::{Differentiable, Operation};
/// use zhat::{Run, exact::ForwardBackward};
/// let chain = generate::chain::<f64>(&ChainShape { states: 3, steps: 5, ..Default::default() }, 1)?;
/// let method = ForwardBackward::default();
/// let (log_z, tape) = method.differentiate(Operation::LogPartition, &[&chain], &Run::default())?;
/// let gradient = tape.vjp(&vec![1.0; log_z.len()])?.remove(0);
/// // One state is taken at each position.
/// assert!((gradient.emissions.iter().sum::<f64>() - 5.0).abs() < 1e-9);
/// # Ok::<(), zhat::Error>(())
/// ```
pub trait Differentiable<M: HasFactorMarginals>: Forecasts<M> {
    /// The operations that it differentiates.
    const OPERATIONS: &'static [Operation];

    /// The value of an operation on one or two models, one number per item, and its tape.
    ///
    /// # Errors
    /// Those of the query, and for an operation or a number of models that it does not take.
    fn differentiate(
        &self,
        operation: Operation,
        models: &[&M],
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<M::FactorMarginals>)>;

    /// The value of an operation and the gradients for a cotangent that is known beforehand, which may be
    /// cheaper.
    ///
    /// # Errors
    /// As [`Differentiable::differentiate`] and [`Tape::vjp`].
    #[allow(clippy::type_complexity)]
    fn value_and_gradients(
        &self,
        operation: Operation,
        models: &[&M],
        cotangent: &[f64],
        run: &Run,
    ) -> Result<(Vec<f64>, Vec<M::FactorMarginals>)> {
        let (values, tape) = self.differentiate(operation, models, run)?;
        let gradients = tape.vjp(cotangent)?;
        Ok((values, gradients))
    }
}

/// From a cotangent to one gradient per model.
type Vjp<G> = dyn Fn(&[f64]) -> Result<Vec<G>> + Send + Sync;

/// What an operation leaves for its gradient, of type `G`.
pub struct Tape<G>(Box<Vjp<G>>);

impl<G> Tape<G> {
    /// A tape with this vector–Jacobian product.
    pub fn new(vjp: impl Fn(&[f64]) -> Result<Vec<G>> + Send + Sync + 'static) -> Self {
        Tape(Box::new(vjp))
    }

    /// The gradient of Σ_b cotangent_b · value_b, for each model of the operation.
    ///
    /// # Errors
    /// For a cotangent of another length or with numbers that are not finite, and where the work is stopped.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<Vec<G>> {
        (self.0)(cotangent)
    }

    /// The same with its gradients changed.
    pub fn map<H: 'static>(self, change: impl Fn(usize, G) -> H + Send + Sync + 'static) -> Tape<H>
    where
        G: 'static,
    {
        Tape::new(move |cotangent| {
            let gradients = self.vjp(cotangent)?;
            Ok(gradients.into_iter().enumerate().map(|(i, gradient)| change(i, gradient)).collect())
        })
    }
}

/// The error for an operation that a method does not differentiate.
pub(crate) fn not_differentiable(method: &str, operation: Operation, models: usize) -> Error {
    let message = match operation.models() == models {
        true => format!("`{method}` has no gradient of {}", operation.name()),
        false => format!("{} is about {} models, found {models}", operation.name(), operation.models()),
    };
    Error::argument("operation", message)
}
