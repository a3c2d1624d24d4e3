//! Relaxed samples of paths.

use std::sync::Arc;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_tensor::backend::Backend;
use burn_tensor::{Element, Tensor, TensorData};
use zhat::dynamic::{ForwardBackward, SequenceModel, StateChoice};
use zhat::query::{HasFactorMarginals, IntoValue, RelaxedSamples};
use zhat::tensor::Precision;
use zhat::{Chain, Result, Run};

use crate::operation::{Reverse, Sums, node, tensors};
use crate::{ChainScores, Method};

/// Samples of paths.
pub struct RelaxedPaths<B: Backend, C: CheckpointStrategy> {
    /// (B, samples, T, N): probabilities of the states, which approach the hard path as the temperature falls.
    pub soft: Tensor<Autodiff<B, C>, 4>,
    /// The states of each sequence and sample; none for a sequence whose estimate of Z is 0.
    pub hard: Vec<Vec<Vec<usize>>>,
    /// log Z or log Ẑ that belongs to each sample. With the score s(x) of a path x, an average of
    /// f(x)·exp(log_weight − s(x)) over samples is an unbiased estimate of Σₓ f(x).
    pub log_weights: Vec<Vec<f64>>,
}

/// Samples of paths by backward sampling with Gumbel noise (Fu, Cunningham and Lapata 2022, Algorithm 4). With exact
/// sums the hard paths follow the chain's distribution. The gradients of the relaxed ones go to all scores. The seed
/// is that of the run.
///
/// # Errors
/// As [`crate::log_partition`]; also for chains with segments and for a temperature that is not positive.
pub fn relaxed_sample<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    method: &Method,
    samples: usize,
    temperature: f64,
    run: &Run,
) -> Result<RelaxedPaths<B, C>> {
    chain.refuse_segments()?;
    let method = method.choose(chain, run)?;
    if chain.is_double()? {
        of::<f64, B, C>(chain, &method, samples, temperature, run)
    } else {
        of::<f32, B, C>(chain, &method, samples, temperature, run)
    }
}

/// Dense values of relaxed samples.
struct Drawn<F> {
    shape: [usize; 4],
    values: Vec<F>,
    hard: Vec<Vec<Vec<usize>>>,
    log_weights: Vec<Vec<f64>>,
    reverse: Reverse,
}

fn of<F, B, C>(
    scores: &ChainScores<B, C>,
    method: &Method,
    samples: usize,
    temperature: f64,
    run: &Run,
) -> Result<RelaxedPaths<B, C>>
where
    F: Precision + Element,
    B: Backend,
    C: CheckpointStrategy,
    Chain<F>: SequenceModel<Real = F, Drawn = Vec<usize>> + 'static,
    <Chain<F> as HasFactorMarginals>::FactorMarginals: IntoValue<Chain<F>>,
{
    let chain = scores.chain::<F>()?;
    let drawn = match &method.0 {
        Sums::Chosen(choice) => from_chosen(chain, choice, samples, temperature, run)?,
        _ => from_all(chain, samples, temperature, run)?,
    };
    let soft = node(&[scores], TensorData::new(drawn.values, drawn.shape.to_vec()), drawn.reverse);
    Ok(RelaxedPaths { soft, hard: drawn.hard, log_weights: drawn.log_weights })
}

/// Samples from all states.
fn from_all<F>(chain: Chain<F>, samples: usize, temperature: f64, run: &Run) -> Result<Drawn<F>>
where
    F: Precision + Element,
    Chain<F>: SequenceModel<Real = F, Drawn = Vec<usize>> + 'static,
    <Chain<F> as HasFactorMarginals>::FactorMarginals: IntoValue<Chain<F>>,
{
    let (drawn, tape) =
        ForwardBackward::default().relaxed_samples_with_tape(&chain, samples, temperature, run)?;
    let RelaxedSamples { shape, hard, states: values, .. } = drawn;
    let log_weights = tape.log_partition().iter().map(|&log| vec![log; samples]).collect();
    let reverse = move |cotangent: TensorData| {
        let weights: Vec<F> = cotangent.iter::<F>().collect();
        Ok(vec![tensors(tape.vjp(&weights, &[])?, &chain)])
    };
    Ok(Drawn { shape, values, hard, log_weights, reverse: Arc::new(reverse) })
}

/// Samples from chosen states; the values of all others are 0.
fn from_chosen<F>(
    chain: Chain<F>,
    choice: &StateChoice,
    samples: usize,
    temperature: f64,
    run: &Run,
) -> Result<Drawn<F>>
where
    F: Precision + Element,
    Chain<F>: SequenceModel<Real = F, Drawn = Vec<usize>> + 'static,
    <Chain<F> as HasFactorMarginals>::FactorMarginals: IntoValue<Chain<F>>,
{
    let (drawn, tape) = choice.relaxed_samples_with_tape(&chain, samples, temperature, run)?;
    let shape = [chain.batch(), samples, chain.steps(), chain.states()];
    let [_, _, steps, states] = shape;
    let mut values = vec![F::default(); shape.iter().product()];
    // The place of every value of every sample in the dense array.
    let mut places: Vec<Vec<Vec<usize>>> = Vec::with_capacity(drawn.samples.len());
    for (b, paths) in drawn.samples.iter().enumerate() {
        let of_path = |(s, path): (usize, &zhat::dynamic::SparsePath<F>)| {
            let mut places = Vec::with_capacity(path.values.len());
            for (t, range) in path.offsets.windows(2).enumerate() {
                let row = ((b * samples + s) * steps + t) * states;
                places.extend(path.states[range[0]..range[1]].iter().map(|&k| row + k as usize));
            }
            places.iter().zip(&path.values).for_each(|(&at, &value)| values[at] = value);
            places
        };
        places.push(paths.iter().enumerate().map(of_path).collect());
    }
    let reverse = move |cotangent: TensorData| {
        let dense: Vec<F> = cotangent.iter::<F>().collect();
        let of_path = |places: &Vec<usize>| (places.iter().map(|&at| dense[at]).collect(), Vec::new());
        let sparse: Vec<Vec<_>> = places.iter().map(|paths| paths.iter().map(of_path).collect()).collect();
        Ok(vec![tensors(tape.vjp(&sparse)?, &chain)])
    };
    let hard = drawn.samples.into_iter().map(|paths| paths.into_iter().map(|path| path.hard).collect());
    Ok(Drawn {
        shape,
        values,
        hard: hard.collect(),
        log_weights: drawn.log_weights,
        reverse: Arc::new(reverse),
    })
}
