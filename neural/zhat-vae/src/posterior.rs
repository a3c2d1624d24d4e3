//! Entropy and samples of the inference network's chain.

use anyhow::Result;
use burn_autodiff::Autodiff;
use burn_tensor::backend::Backend;
use burn_tensor::{Distribution, Int, Tensor, TensorData};
use zhat::dynamic::States as Count;
use zhat::dynamic::{ForwardBackward, RandomizedForward, Selection, StateProposal};
use zhat::model::{Transitions, Values};
use zhat::{Chain, LogPartition, Run, Sample};
use zhat_burn::on_device::{DeviceChain, DeviceStates, Messages};
use zhat_burn::{ChainScores, Method, entropy, relaxed_sample};

use crate::config::{Inference, TrainConfig};

/// Most states for which a table of all pairs is made.
const TABLE: usize = 4096;

/// Where sums over paths are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// By zhat on the CPU.
    Library,
    /// By tensor operations where the tensors are.
    Device,
}

/// How states are chosen.
#[derive(Clone, Copy, Debug)]
pub struct Sums {
    /// The method.
    pub inference: Inference,
    /// States kept with certainty.
    pub top: usize,
    /// States drawn.
    pub sampled: usize,
}

impl From<&TrainConfig> for Sums {
    fn from(config: &TrainConfig) -> Self {
        Sums { inference: config.inference, top: config.top, sampled: config.sampled }
    }
}

impl Sums {
    /// All states.
    pub const FULL: Sums = Sums { inference: Inference::Full, top: 0, sampled: 0 };

    /// The library's method; `None` for all states.
    fn method(&self, replicates: usize) -> Option<RandomizedForward> {
        let (proposal, selection) = match self.inference {
            Inference::Full => return None,
            Inference::Top => (StateProposal::LocalGlobal, Selection::Top),
            Inference::Rdp => (StateProposal::LocalGlobal, Selection::Draws),
            Inference::TwoPass => (StateProposal::TwoPass, Selection::Threshold),
        };
        let method = RandomizedForward::default()
            .states(Count::Count(self.top + self.sampled))
            .proposal(proposal)
            .selection(selection)
            .replicates(replicates);
        Some(if self.inference == Inference::Rdp { method.top(Some(self.top)) } else { method })
    }

    /// The same for zhat-burn.
    fn operation(&self) -> Method {
        let Some(method) = self.method(1) else { return Method::exact() };
        let Ok(serde_json::Value::Object(options)) = serde_json::to_value(method) else {
            return Method::exact();
        };
        options.into_iter().fold(Method::randomized(), |method, (name, value)| method.with(&name, value))
    }
}

/// A relaxed sample and the entropy.
pub struct Relaxed<B: Backend> {
    /// H or Ĥ, (B).
    pub entropy: Tensor<B, 1>,
    /// Relaxed sample, (B, T, N).
    pub soft: Tensor<B, 3>,
    /// The sample itself, (B, T).
    pub hard: Tensor<B, 2, Int>,
    /// How many sums were set to [`FLOOR`](zhat_burn::on_device::FLOOR), (1); `None` where sums have no such limit.
    pub floored: Option<Tensor<B, 1, Int>>,
}

/// The numbers of a tensor; `iter` converts one at a time.
fn floats(data: TensorData) -> Vec<f32> {
    data.as_slice::<f32>().map_or_else(|_| data.iter::<f32>().collect(), <[f32]>::to_vec)
}

/// The chain of the library with these numbers.
///
/// # Errors
/// If a number is not finite.
pub fn library_chain<B: Backend>(emissions: &Tensor<B, 3>, states: &Tensor<B, 2>) -> Result<Chain<f32>> {
    let [batch, steps, count] = emissions.dims();
    let numbers = |data: TensorData| -> Values<f32> { floats(data).into() };
    let left = numbers(states.to_data());
    let transitions = Transitions::Factored { right: Some(left.clone()), left };
    let start = vec![0.0; count].into();
    Ok(Chain::new(start, numbers(emissions.to_data()), vec![steps; batch], transitions)?)
}

/// Gumbel noise of this shape.
fn gumbel<B: Backend, const D: usize>(shape: [usize; D], device: &B::Device) -> Tensor<B, D> {
    let uniform = Tensor::random(shape, Distribution::Uniform(1e-20, 1.0), device);
    let positive: Tensor<B, D> = -uniform.clamp(1e-20, 1.0 - 6e-8).log();
    -positive.log()
}

/// Chooses states for a chain on a device, several times: by the library from the proposals of the paper, or by a
/// threshold from exact messages, which cost as much as the sums over all states that they replace.
fn choose<B: Backend>(
    sums: &Sums,
    emissions: &Tensor<B, 3>,
    states: &Tensor<B, 2>,
    replicates: usize,
    run: &Run,
) -> Result<Vec<DeviceStates<B>>> {
    let Some(mut method) = sums.method(replicates) else { return Ok(Vec::new()) };
    let device = emissions.device();
    let (emissions, states) = (emissions.clone().detach(), states.clone().detach());
    if sums.inference == Inference::TwoPass {
        let marginals = log_marginals(&emissions, &states);
        let scores: Vec<f64> = floats(marginals.into_data()).into_iter().map(f64::from).collect();
        method = method.proposal(StateProposal::Given).scores(Some(scores.into()));
    }
    let chain = library_chain(&emissions, &states)?;
    let chosen = method.select(&chain, run)?;
    let of = |r: usize| chosen.iter().map(|supports| &supports[r]).collect::<Vec<_>>();
    Ok((0..replicates).map(|r| DeviceStates::new(&of(r), &device)).collect())
}

/// log of the marginals of all states, up to a constant per position; a twentieth of the mass comes from forward
/// messages alone.
fn log_marginals<B: Backend>(emissions: &Tensor<B, 3>, states: &Tensor<B, 2>) -> Tensor<B, 3> {
    let ahead = DeviceChain::new(emissions.clone(), states.clone()).messages(false).forward();
    // Transitions are symmetric, so backward messages are forward messages of the reversed chain.
    let back =
        DeviceChain::new(emissions.clone().flip([1]), states.clone()).messages(false).forward().flip([1]);
    let both = ahead.clone() + back - emissions.clone();
    let part = |x: Tensor<B, 3>, weight: f64| burn_tensor::activation::softmax(x, 2) * weight;
    (part(both, 0.95) + part(ahead, 0.05)).clamp_min(1e-37).log()
}

/// A relaxed sample and the entropy of every chain, with gradients.
///
/// # Errors
/// Those of the library: scores that are not finite, budgets.
pub fn relax<I: Backend>(
    engine: Engine,
    sums: &Sums,
    emissions: Tensor<Autodiff<I>, 3>,
    states: Tensor<Autodiff<I>, 2>,
    temperature: f64,
    run: &Run,
) -> Result<Relaxed<Autodiff<I>>> {
    let [batch, steps, count] = emissions.dims();
    let device = emissions.device();
    if engine == Engine::Library {
        // The proposal of the paper needs embeddings; the sums read a table of all pairs if it is not too large.
        let mut chain = ChainScores::factored(emissions.clone(), states.clone(), states.clone());
        let method = sums.operation().choose(&chain, run)?;
        if count <= TABLE {
            chain = ChainScores::new(emissions, states.clone().matmul(states.transpose()));
        }
        let entropy = entropy(&chain, &method, run)?;
        let drawn = relaxed_sample(&chain, &method, 1, temperature, run)?;
        let soft = drawn.soft.reshape([batch, steps, count]);
        let hard: Vec<i64> =
            drawn.hard.iter().flatten().flatten().map(|&state| i64::try_from(state).unwrap_or(0)).collect();
        let hard = Tensor::from_data(TensorData::new(hard, [batch, steps]), &device);
        return Ok(Relaxed { entropy, soft, hard, floored: None });
    }
    let mut chain = DeviceChain::new(emissions.clone(), states.clone());
    if let Some(chosen) = choose(sums, &emissions, &states, 1, run)?.pop() {
        chain = chain.with_states(chosen);
    }
    let messages = chain.messages(true);
    <Autodiff<I> as Backend>::seed(&device, run.seed());
    let drawn = messages.paths(gumbel([batch, 1, steps, messages.kept()], &device), temperature);
    let entropy = messages.entropy().unwrap_or_else(|| messages.log_partition());
    Ok(Relaxed {
        entropy,
        soft: drawn.soft.reshape([batch, steps, count]),
        hard: drawn.hard.reshape([batch, steps]),
        floored: Some(messages.floored()),
    })
}

/// Paths with the logarithms of their weights: an average of f(z)·weight estimates Σ_z f(z) without bias.
pub struct Weighted<B: Backend> {
    /// (B, samples, T).
    pub paths: Tensor<B, 3, Int>,
    /// log Z − score or log Ẑ − score, (B, samples).
    pub log_weights: Vec<Vec<f64>>,
    /// The choice of states of each sample. Samples of different choices are independent.
    pub choices: Vec<usize>,
}

/// Most choices of states for the samples of a sentence.
const CHOICES: usize = 8;

/// Samples of every chain with their weights.
///
/// # Errors
/// Those of the library.
pub fn sample<B: Backend>(
    engine: Engine,
    sums: &Sums,
    emissions: &Tensor<B, 3>,
    states: &Tensor<B, 2>,
    samples: usize,
    run: &Run,
) -> Result<Weighted<B>> {
    let [batch, steps, _] = emissions.dims();
    let device = emissions.device();
    if engine == Engine::Library {
        let chain = library_chain(emissions, states)?;
        let replicates = samples.min(CHOICES);
        let (paths, logs, choices) = match sums.method(replicates) {
            Some(method) => {
                let drawn = method.sample(&chain, samples, run)?.value;
                // The library's samples are from its replicates in turn.
                let choices = (0..samples).map(|s| s % replicates).collect();
                (drawn.samples, drawn.log_weights.unwrap_or_default(), choices)
            }
            None => {
                let exact = ForwardBackward::default();
                let log_z = exact.log_partition(&chain, run)?.value;
                let drawn = exact.sample(&chain, samples, run)?.value.samples;
                (drawn, log_z.iter().map(|&log| vec![log; samples]).collect(), (0..samples).collect())
            }
        };
        let mut numbers = Vec::with_capacity(batch * samples * steps);
        let mut log_weights = Vec::with_capacity(batch);
        for (b, (paths, logs)) in paths.iter().zip(&logs).enumerate() {
            anyhow::ensure!(paths.len() == samples, "no path of positive weight was chosen; use more states");
            log_weights.push(paths.iter().zip(logs).map(|(path, log)| log - chain.score(b, path)).collect());
            numbers.extend(paths.iter().flatten().map(|&state| i64::try_from(state).unwrap_or(0)));
        }
        let paths = Tensor::from_data(TensorData::new(numbers, [batch, samples, steps]), &device);
        return Ok(Weighted { paths, log_weights, choices });
    }
    let chain = DeviceChain::new(emissions.clone(), states.clone());
    let chosen = choose(sums, emissions, states, samples.min(CHOICES), run)?;
    B::seed(&device, run.seed());
    let draw = |messages: &Messages<B>, count: usize| {
        let drawn = messages.hard_paths(count, |shape| gumbel(shape, &device));
        (drawn.states, drawn.log_weights)
    };
    let (paths, weights, choices) = if chosen.is_empty() {
        let (paths, weights) = draw(&chain.messages(false), samples);
        (paths, weights, (0..samples).collect())
    } else {
        let all = chosen.len();
        let counts: Vec<usize> = (0..all).map(|r| (samples + all - 1 - r) / all).collect();
        let draws = chosen.into_iter().zip(&counts);
        let (paths, weights) = draws
            .map(|(chosen, &count)| draw(&chain.clone().with_states(chosen).messages(false), count))
            .unzip();
        let choices = counts.iter().enumerate().flat_map(|(r, &count)| std::iter::repeat_n(r, count));
        (Tensor::cat(paths, 1), Tensor::cat(weights, 1), choices.collect())
    };
    let flat: Vec<f64> = weights.into_data().iter::<f64>().collect();
    let log_weights = flat.chunks(samples).map(<[f64]>::to_vec).collect();
    Ok(Weighted { paths, log_weights, choices })
}
