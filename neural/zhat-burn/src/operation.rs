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
use zhat::dynamic::{RandomizedForward, SequenceModel, StateChoice};
use zhat::query::{AnyValue, HasFactorMarginals, IntoValue, Operation, Tensors};
use zhat::tensor::{Data, Precision};
use zhat::{Chain, Error, Result, Run};

use crate::ChainScores;
use crate::chain::Part;

/// How sums over all paths are computed.
#[derive(Clone, Debug)]
pub struct Method(pub(crate) Sums);

#[derive(Clone, Debug)]
pub(crate) enum Sums {
    Exact,
    /// States are chosen anew by every operation.
    Randomized(Settings),
    /// States were chosen before.
    Chosen(Arc<StateChoice>),
}

impl Method {
    /// Exact sums.
    pub fn exact() -> Self {
        Method(Sums::Exact)
    }

    /// Unbiased estimates of Z by randomized dynamic programming (Fu, Cunningham and Lapata 2022).
    pub fn randomized() -> Self {
        Method(Sums::Randomized(Settings::new()))
    }

    /// Sets an option of the randomized method by its name in the catalogue.
    pub fn with(mut self, option: &str, value: impl Into<serde_json::Value>) -> Self {
        let mut settings = match self.0 {
            Sums::Randomized(settings) => settings,
            _ => Settings::new(),
        };
        settings.insert(option.to_owned(), value.into());
        self.0 = Sums::Randomized(settings);
        self
    }

    /// Chooses the states once, so that several operations use the same ones: the entropy and the samples of a
    /// chain, for example. The exact method is returned as it is.
    ///
    /// # Errors
    /// As [`log_partition`]; also for chains with segments.
    pub fn choose<B: Backend, C: CheckpointStrategy>(
        &self,
        chain: &ChainScores<B, C>,
        run: &Run,
    ) -> Result<Method> {
        let Sums::Randomized(settings) = &self.0 else { return Ok(self.clone()) };
        chain.refuse_segments()?;
        let settings = serde_json::Value::Object(settings.clone());
        let method: RandomizedForward = serde_json::from_value(settings)
            .map_err(|error| Error::argument("options of randomized", error.to_string()))?;
        let choice = match chain.is_double()? {
            true => method.choose(&chain.chain::<f64>()?, run)?,
            false => method.choose(&chain.chain::<f32>()?, run)?,
        };
        Ok(Method(Sums::Chosen(Arc::new(choice))))
    }

    /// The states that [`Method::choose`] chose.
    pub fn choice(&self) -> Option<&StateChoice> {
        match &self.0 {
            Sums::Chosen(choice) => Some(choice),
            _ => None,
        }
    }
}

impl Default for Method {
    fn default() -> Self {
        Method::exact()
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
    let double = chains[0].is_double()?;
    let (values, tape) = match &method.0 {
        Sums::Exact => through_catalogue(operation, chains, "exact", &Settings::new(), run)?,
        Sums::Randomized(settings) => through_catalogue(operation, chains, "randomized", settings, run)?,
        Sums::Chosen(choice) => {
            chains[0].refuse_segments()?;
            match double {
                true => on_chosen(operation, chains[0].chain::<f64>()?, choice, run)?,
                false => on_chosen(operation, chains[0].chain::<f32>()?, choice, run)?,
            }
        }
    };
    let shape = vec![values.len()];
    let value = if double {
        TensorData::new(values, shape)
    } else {
        TensorData::new(values.iter().map(|&x| x as f32).collect::<Vec<f32>>(), shape)
    };
    Ok(node(chains, value, tape))
}

type Recorded = (Vec<f64>, Reverse);

fn through_catalogue<B: Backend, C: CheckpointStrategy>(
    operation: Operation,
    chains: &[&ChainScores<B, C>],
    name: &str,
    settings: &Settings,
    run: &Run,
) -> Result<Recorded> {
    let models = chains.iter().map(|chain| chain.model()).collect::<Result<Vec<_>>>()?;
    let (values, tape) = catalogue::differentiate(operation, &models, name, settings, &[], run)?;
    let reverse = move |cotangent: TensorData| tape.vjp(&cotangent.iter::<f64>().collect::<Vec<_>>());
    Ok((values, Arc::new(reverse)))
}

fn on_chosen<F: Precision>(
    operation: Operation,
    chain: Chain<F>,
    choice: &StateChoice,
    run: &Run,
) -> Result<Recorded>
where
    Chain<F>: SequenceModel + 'static,
    <Chain<F> as HasFactorMarginals>::FactorMarginals: IntoValue<Chain<F>>,
{
    let (values, tape) = choice.differentiate(operation, &chain, run)?;
    let reverse = move |cotangent: TensorData| {
        let cotangent: Vec<f64> = cotangent.iter::<f64>().collect();
        Ok(tape.vjp(&cotangent)?.into_iter().map(|gradient| tensors(gradient, &chain)).collect())
    };
    Ok((values, Arc::new(reverse)))
}

/// The gradient of a chain as named tensors.
pub(crate) fn tensors<M: HasFactorMarginals>(gradient: M::FactorMarginals, model: &M) -> Tensors
where
    M::FactorMarginals: IntoValue<M>,
{
    match gradient.into_value(model) {
        AnyValue::Tensors(tensors) => tensors,
        _ => Tensors { list: Vec::new(), radius: None },
    }
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
    let state = State::<B> {
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
struct State<B: Backend> {
    reverse: Reverse,
    /// Model and name of the parameter of every parent.
    places: Vec<(usize, &'static str)>,
    device: Device<B>,
}

impl<B: Backend> std::fmt::Debug for State<B> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("places", &self.places).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Step<const N: usize>;

impl<B: Backend, const N: usize> Backward<B, N> for Step<N> {
    type State = State<B>;

    fn backward(self, ops: Ops<Self::State, N>, grads: &mut Gradients, _: &mut Checkpointer) {
        let State { reverse, places, device } = ops.state;
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
