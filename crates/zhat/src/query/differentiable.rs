//! Differentiable operations: a value, and a tape that gives its gradient.
//!
//! An operation f on the parameters θ of a model gives one number per item. Its tape turns a cotangent c,
//! also one number per item, into the gradient of Σ_b c_b·f_b(θ). The gradient has the shape of the model's
//! factor marginals ([`HasFactorMarginals`]); for f = log Z and c = 1 it consists of the expected counts. The
//! backward pass of a neural layer is the tape's `vjp`. If types are known only at run time, use
//! [`crate::catalogue::differentiate`], whose gradients are named tensors.

use super::HasFactorMarginals;
#[cfg(doc)]
use super::{Divergence, Entropy, Expectation, LogPartition};
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
    /// [`Expectation`], of a model and of another one whose scores are averaged.
    Expectation,
}

impl Operation {
    /// All operations.
    pub const ALL: [Operation; 5] = [
        Operation::LogPartition,
        Operation::Entropy,
        Operation::CrossEntropy,
        Operation::Kl,
        Operation::Expectation,
    ];

    /// The name in messages and in Python.
    pub fn name(self) -> &'static str {
        match self {
            Operation::LogPartition => "log_partition",
            Operation::Entropy => "entropy",
            Operation::CrossEntropy => "cross_entropy",
            Operation::Kl => "kl",
            Operation::Expectation => "expectation",
        }
    }

    /// Number of models that the operation takes.
    pub fn models(self) -> usize {
        match self {
            Operation::LogPartition | Operation::Entropy => 1,
            Operation::CrossEntropy | Operation::Kl | Operation::Expectation => 2,
        }
    }
}

/// A method that differentiates operations on models of type `M`.
///
/// Cost and guarantee of a value are those of the method's own query. A gradient takes about as much time
/// again. The memory of a value and its gradient is requested before it is allocated; for log Z it is the
/// method's forecast for factor marginals.
///
/// ```
/// use zhat::model::generate::{self, ChainShape};
/// use zhat::query::{Differentiable, Operation};
/// use zhat::Run;
/// use zhat::dynamic::ForwardBackward;
/// let chain = generate::chain::<f64>(&ChainShape { states: 3, steps: 5, ..Default::default() }, 1)?;
/// let method = ForwardBackward::default();
/// let (log_z, tape) = method.differentiate(Operation::LogPartition, &[&chain], &Run::default())?;
/// let gradient = tape.gradient(&vec![1.0; log_z.len()])?;
/// // One state is taken at each position.
/// assert!((gradient.emissions.iter().sum::<f64>() - 5.0).abs() < 1e-9);
/// # Ok::<(), zhat::Error>(())
/// ```
pub trait Differentiable<M: HasFactorMarginals>: Forecasts<M> {
    /// The operations that the method differentiates.
    const OPERATIONS: &'static [Operation];

    /// The value of an operation on one or two models, one number per item, and its tape.
    ///
    /// # Errors
    /// Those of the query; also for an operation or a number of models that the method does not support.
    fn differentiate(
        &self,
        operation: Operation,
        models: &[&M],
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<M::FactorMarginals>)>;

    /// The value of an operation and its gradients for a cotangent that is known beforehand; this may be
    /// cheaper than a tape.
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

/// Maps a cotangent to one gradient per model.
type Vjp<G> = dyn Fn(&[f64]) -> Result<Vec<G>> + Send + Sync;

/// The state that an operation keeps to compute its gradient, of type `G`.
pub struct Tape<G>(Box<Vjp<G>>);

impl<G> Tape<G> {
    /// A tape with this vector–Jacobian product.
    pub fn new(vjp: impl Fn(&[f64]) -> Result<Vec<G>> + Send + Sync + 'static) -> Self {
        Tape(Box::new(vjp))
    }

    /// The gradient of Σ_b cotangent_b · value_b with respect to each model of the operation.
    ///
    /// # Errors
    /// If the cotangent has the wrong length or a number that is not finite, or the work is stopped.
    pub fn vjp(&self, cotangent: &[f64]) -> Result<Vec<G>> {
        (self.0)(cotangent)
    }

    /// The gradient with respect to the first model: the only one of log Z and of entropy.
    ///
    /// # Errors
    /// As [`Tape::vjp`].
    pub fn gradient(&self, cotangent: &[f64]) -> Result<G> {
        let first = self.vjp(cotangent)?.into_iter().next();
        first.ok_or_else(|| Error::NoAnswer("the operation has no model to differentiate by".into()))
    }

    /// Applies a function to each gradient; its first argument is the index of the model.
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
        false => format!("{} takes {} models, found {models}", operation.name(), operation.models()),
    };
    Error::argument("operation", message)
}
