//! Relaxed samples of paths.

use std::sync::Arc;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_tensor::backend::Backend;
use burn_tensor::{Element, Tensor, TensorData};
use zhat::dynamic::ForwardBackward;
use zhat::query::{AnyValue, IntoValue, RelaxedSamples, Tensors};
use zhat::tensor::Precision;
use zhat::{Chain, Error, Result, Run};

use crate::ChainScores;
use crate::operation::node;

/// Samples of paths.
pub struct RelaxedPaths<B: Backend, C: CheckpointStrategy> {
    /// (B, samples, T, N): probabilities of the states, which approach the hard path as the temperature falls.
    pub soft: Tensor<Autodiff<B, C>, 4>,
    /// The states of each sequence and sample, drawn from the chain exactly.
    pub hard: Vec<Vec<Vec<usize>>>,
}

/// Samples of paths by backward sampling with Gumbel noise: the hard paths follow the chain's distribution, and the
/// gradients of the relaxed ones go to all scores. The seed is that of the run.
///
/// # Errors
/// As [`crate::log_partition`]; also for chains with segments and for a temperature that is not positive.
pub fn relaxed_sample<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    samples: usize,
    temperature: f64,
    run: &Run,
) -> Result<RelaxedPaths<B, C>> {
    if chain.has_segments() {
        return Err(Error::argument("segments", "relaxed samples are of chains without segments"));
    }
    if chain.is_double()? {
        of::<f64, B, C>(chain, samples, temperature, run)
    } else {
        of::<f32, B, C>(chain, samples, temperature, run)
    }
}

fn of<F, B, C>(
    scores: &ChainScores<B, C>,
    samples: usize,
    temperature: f64,
    run: &Run,
) -> Result<RelaxedPaths<B, C>>
where
    F: Precision + Element,
    B: Backend,
    C: CheckpointStrategy,
    Chain<F>: zhat::dynamic::SequenceModel<Real = F, Drawn = Vec<usize>>,
    <Chain<F> as zhat::query::HasFactorMarginals>::FactorMarginals: IntoValue<Chain<F>>,
{
    let chain = scores.chain::<F>()?;
    let (drawn, tape) =
        ForwardBackward::default().relaxed_samples_with_tape(&chain, samples, temperature, run)?;
    let RelaxedSamples { shape, hard, states, .. } = drawn;
    let reverse = move |cotangent: TensorData| {
        let weights: Vec<F> = cotangent.iter::<F>().collect();
        match tape.vjp(&weights, &[])?.into_value(&chain) {
            AnyValue::Tensors(tensors) => Ok(vec![tensors]),
            _ => Ok(vec![Tensors { list: Vec::new(), radius: None }]),
        }
    };
    let soft = node(&[scores], TensorData::new(states, shape.to_vec()), Arc::new(reverse));
    Ok(RelaxedPaths { soft, hard })
}
