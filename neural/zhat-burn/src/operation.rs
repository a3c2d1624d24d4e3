//! Operations of the library as nodes of burn's graph.

use std::sync::Arc;

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::base::Checkpointer;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_autodiff::grads::Gradients;
use burn_autodiff::ops::{Backward, Ops, OpsKind};
use burn_tensor::backend::Backend;
use burn_tensor::{Device, Tensor, TensorData, TensorPrimitive};
use zhat::catalogue::{self, Settings};
use zhat::query::{Operation, Tensors};
use zhat::tensor::Data;
use zhat::{Result, Run};

use crate::ChainScores;
use crate::chain::Part;

/// How sums over all paths are computed.
#[derive(Clone, Debug, Default)]
pub struct Method {
    name: &'static str,
    settings: Settings,
}

impl Method {
    /// Exact sums.
    pub fn exact() -> Self {
        Method { name: "exact", settings: Settings::new() }
    }

    /// Unbiased estimates of Z by randomized dynamic programming (Fu, Cunningham and Lapata 2022).
    pub fn randomized() -> Self {
        Method { name: "randomized", settings: Settings::new() }
    }

    /// Sets an option of the method by its name in the catalogue.
    pub fn with(mut self, option: &str, value: impl Into<serde_json::Value>) -> Self {
        self.settings.insert(option.to_owned(), value.into());
        self
    }
}

/// log Z of each sequence.
///
/// # Errors
/// Those of the library: shapes, scores, options, budgets.
pub fn log_partition<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    method: &Method,
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    differentiate(Operation::LogPartition, &[chain], method, run)
}

/// The entropy of each sequence.
///
/// # Errors
/// As [`log_partition`].
pub fn entropy<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    method: &Method,
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    differentiate(Operation::Entropy, &[chain], method, run)
}

/// −Σ p log q of each sequence.
///
/// # Errors
/// As [`log_partition`].
pub fn cross_entropy<B: Backend, C: CheckpointStrategy>(
    p: &ChainScores<B, C>,
    q: &ChainScores<B, C>,
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    differentiate(Operation::CrossEntropy, &[p, q], &Method::exact(), run)
}

/// KL(p ‖ q) of each sequence.
///
/// # Errors
/// As [`log_partition`].
pub fn kl<B: Backend, C: CheckpointStrategy>(
    p: &ChainScores<B, C>,
    q: &ChainScores<B, C>,
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    differentiate(Operation::Kl, &[p, q], &Method::exact(), run)
}

fn differentiate<B: Backend, C: CheckpointStrategy>(
    operation: Operation,
    chains: &[&ChainScores<B, C>],
    method: &Method,
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    let models = chains.iter().map(|chain| chain.model()).collect::<Result<Vec<_>>>()?;
    let double = chains[0].is_double()?;
    let (values, tape) =
        catalogue::differentiate(operation, &models, method.name, &method.settings, &[], run)?;
    let shape = vec![values.len()];
    let value = if double {
        TensorData::new(values, shape)
    } else {
        TensorData::new(values.iter().map(|&x| x as f32).collect::<Vec<f32>>(), shape)
    };
    let reverse = move |cotangent: TensorData| tape.vjp(&cotangent.iter::<f64>().collect::<Vec<_>>());
    Ok(node(chains, value, Arc::new(reverse)))
}

/// From a cotangent to the gradients of each model.
pub(crate) type Reverse = Arc<dyn Fn(TensorData) -> Result<Vec<Tensors>> + Send + Sync>;

/// Most tensors of two models: each has at most emissions, start, end, two of transitions, and segments.
const PARENTS: usize = 12;

/// A new node of the graph with this value, whose parents are the scores of the models.
pub(crate) fn node<B: Backend, C: CheckpointStrategy, const D: usize>(
    chains: &[&ChainScores<B, C>],
    value: TensorData,
    reverse: Reverse,
) -> Tensor<Autodiff<B, C>, D> {
    let device = chains[0].device.clone();
    let parts: Vec<(usize, &Part<B, C>)> = chains
        .iter()
        .enumerate()
        .flat_map(|(i, chain)| chain.parts.iter().map(move |part| (i, part)))
        .collect();
    // Places without a tensor repeat the first one; they get no gradient.
    let nodes = std::array::from_fn(|i| parts.get(i).unwrap_or(&parts[0]).1.tracked.node.clone());
    let state = Recorded::<B> {
        reverse,
        places: parts.iter().map(|(model, part)| (*model, part.name)).collect(),
        device: device.clone(),
    };
    let output = B::float_from_data(value, &device);
    let made = match Step::<PARENTS>.prepare::<C>(nodes).compute_bound().stateful() {
        OpsKind::Tracked(step) => step.finish(state, output),
        OpsKind::UnTracked(step) => step.finish(output),
    };
    Tensor::from_primitive(TensorPrimitive::Float(made))
}

/// The state that the backward pass needs.
#[derive(Clone)]
struct Recorded<B: Backend> {
    reverse: Reverse,
    /// Model and name of the parameter of every parent.
    places: Vec<(usize, &'static str)>,
    device: Device<B>,
}

impl<B: Backend> std::fmt::Debug for Recorded<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recorded").field("places", &self.places).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Step<const N: usize>;

impl<B: Backend, const N: usize> Backward<B, N> for Step<N> {
    type State = Recorded<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let Recorded { reverse, places, device } = ops.state;
        let cotangent = grads.consume::<B>(&ops.node);
        let cotangent = Tensor::<B, 1>::from_primitive(TensorPrimitive::Float(cotangent)).into_data();
        let gradients = reverse(cotangent).unwrap_or_else(|error| panic!("zhat: {error}"));
        for (parent, (model, name)) in ops.parents.iter().zip(places) {
            let Some(parent) = parent else { continue };
            let own = gradients[model].list.iter().find(|tensor| tensor.name() == name);
            let Some(own) = own else { panic!("zhat: there is no gradient of `{name}`") };
            grads.register::<B>(parent.id, B::float_from_data(data(own), &device));
        }
    }
}

/// A tensor of the library as one of burn.
fn data(tensor: &zhat::tensor::Tensor<'_>) -> TensorData {
    let shape = tensor.shape().to_vec();
    match tensor.data() {
        Data::F32(pieces) => TensorData::new(pieces.concat(), shape),
        _ => TensorData::new(tensor.to_f64(), shape),
    }
}
