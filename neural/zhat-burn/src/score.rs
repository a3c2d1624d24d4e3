//! Scores and probabilities of given states, and the likeliest states.

use burn_autodiff::Autodiff;
use burn_autodiff::checkpoint::strategy::CheckpointStrategy;
use burn_tensor::backend::Backend;
use burn_tensor::{Bool, Int, Tensor, TensorData, TensorPrimitive};
use zhat::dynamic::ForwardBackward;
use zhat::{Error, Map, Result, Run};

use crate::{ChainScores, Method, log_partition};

/// Entries of a tensor for each sequence, as a list per sequence.
type Entries = Vec<Vec<usize>>;

impl<B: Backend, C: CheckpointStrategy> ChainScores<B, C> {
    fn shape(&self, name: &str) -> Option<&[usize]> {
        Some(&self.parts.iter().find(|part| part.name == name)?.shape)
    }

    /// The scores of this name in one row.
    fn row(&self, name: &str) -> Option<Tensor<Autodiff<B, C>, 1>> {
        let part = self.parts.iter().find(|part| part.name == name)?;
        let primitive = TensorPrimitive::Float(part.tracked.clone());
        let size = part.shape.iter().product::<usize>();
        Some(match part.shape.len() {
            1 => Tensor::from_primitive(primitive),
            2 => Tensor::<_, 2>::from_primitive(primitive).reshape([size]),
            3 => Tensor::<_, 3>::from_primitive(primitive).reshape([size]),
            _ => Tensor::<_, 4>::from_primitive(primitive).reshape([size]),
        })
    }

    fn require_states(&self, states: &[Vec<usize>]) -> Result<[usize; 3]> {
        self.refuse_segments()?;
        // Checks the shapes of all scores.
        self.model()?;
        let shape = self.shape("emissions").map(|shape| [shape[0], shape[1], shape[2]]);
        let [batch, steps, count] = shape.ok_or_else(|| Error::argument("emissions", "are missing"))?;
        if states.len() != batch {
            let message = format!("found {} sequences of them, expected {batch}", states.len());
            return Err(Error::argument("states", message));
        }
        for (b, own) in states.iter().enumerate() {
            let length = self.length(b, steps);
            if own.len() != length {
                let message = format!("sequence {b} has {} of them, expected {length}", own.len());
                return Err(Error::argument("states", message));
            }
            if let Some(state) = own.iter().find(|&&state| state >= count) {
                let message = format!("sequence {b} has state {state}, expected less than {count}");
                return Err(Error::argument("states", message));
            }
        }
        Ok([batch, steps, count])
    }
}

/// The score of given states of each sequence: start + Σ emissions + Σ transitions + end. `states` has a list for each
/// sequence, as long as the sequence. It is computed by burn's operations on the device of the scores.
///
/// # Errors
/// If the states do not fit the chains, and as [`log_partition`]; also for chains with segments.
pub fn score<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    states: &[Vec<usize>],
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    let [_, steps, count] = chain.require_states(states)?;
    let list = |of: &dyn Fn(usize, &[usize]) -> Vec<usize>| -> Entries {
        states.iter().enumerate().map(|(b, own)| of(b, own)).collect()
    };
    let entries = |name: &str, list: &Entries| {
        let row = chain.row(name)?;
        Some(sum(row.select(0, places(list, &chain.device)), list))
    };
    let emissions =
        list(&|b, own| own.iter().enumerate().map(|(t, &s)| (b * steps + t) * count + s).collect());
    let first = list(&|_, own| own.first().copied().into_iter().collect());
    let last = list(&|_, own| own.last().copied().into_iter().collect());
    let mut parts = vec![entries("emissions", &emissions), entries("start", &first), entries("end", &last)];
    // A chain of one position has no transitions.
    if states.iter().any(|own| own.len() > 1) {
        if let Some(shape) = chain.shape("transitions") {
            let table = |b: usize, t: usize| match shape.len() {
                2 => 0,
                3 => t,
                _ => b * (steps - 1) + t,
            };
            let pairs = list(&|b, own| {
                let pairs = own.windows(2).enumerate();
                pairs.map(|(t, pair)| (table(b, t) * count + pair[0]) * count + pair[1]).collect()
            });
            parts.push(entries("transitions", &pairs));
        }
        let before = list(&|_, own| own[..own.len() - 1].to_vec());
        let after = list(&|_, own| own[1..].to_vec());
        // Rows of two matrices with one row per state.
        let rows = |left: &str, right: &str| {
            let of = |name: &str, list: &Entries| {
                let (row, shape) = (chain.row(name)?, chain.shape(name)?);
                Some(row.reshape([count, shape[1]]).select(0, places(list, &chain.device)))
            };
            Some((of(left, &before)?, of(right, &after)?))
        };
        if let Some((left, right)) = rows("left", "right") {
            let values: Tensor<_, 1> = (left * right).sum_dim(1).squeeze_dim(1);
            parts.push(Some(sum(values, &before)));
        }
        if let Some((left, right)) = rows("log_left", "log_right") {
            let logs = left + right;
            let shift = logs.clone().detach().max_dim(1);
            let values: Tensor<_, 1> = ((logs - shift.clone()).exp().sum_dim(1).log() + shift).squeeze_dim(1);
            parts.push(Some(sum(values, &before)));
        }
    }
    let total = parts.into_iter().flatten().reduce(|a, b| a + b);
    total.ok_or_else(|| Error::argument("emissions", "are missing"))
}

/// log p of given states of each sequence, score − log Z, with exact sums: the objective of a tagger.
///
/// # Errors
/// As [`score`].
pub fn log_probability<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    states: &[Vec<usize>],
    run: &Run,
) -> Result<Tensor<Autodiff<B, C>, 1>> {
    Ok(score(chain, states)? - log_partition(chain, &Method::exact(), run)?)
}

/// The states with the largest score of each sequence.
///
/// # Errors
/// As [`log_partition`]; also for chains with segments.
pub fn best<B: Backend, C: CheckpointStrategy>(
    chain: &ChainScores<B, C>,
    run: &Run,
) -> Result<Vec<Vec<usize>>> {
    chain.refuse_segments()?;
    let exact = ForwardBackward::default();
    let paths = match chain.is_double()? {
        true => exact.map(&chain.chain::<f64>()?, run)?.value,
        false => exact.map(&chain.chain::<f32>()?, run)?.value,
    };
    Ok(paths.into_iter().map(|path| path.states).collect())
}

/// The entries of all sequences, as many for each as the longest has; those that are missing are the first one.
fn places<B: Backend>(list: &Entries, device: &B::Device) -> Tensor<B, 1, Int> {
    let longest = list.iter().map(Vec::len).max().unwrap_or(0);
    let padded = |own: &Vec<usize>| {
        let own = own.iter().map(|&place| i64::try_from(place).unwrap_or(i64::MAX));
        own.chain(std::iter::repeat(0)).take(longest).collect::<Vec<i64>>()
    };
    let places: Vec<i64> = list.iter().flat_map(padded).collect();
    let count = places.len();
    Tensor::from_data(TensorData::new(places, [count]), device)
}

/// The sums of the values of each sequence at [`places`], without those of missing entries.
fn sum<B: Backend>(values: Tensor<B, 1>, list: &Entries) -> Tensor<B, 1> {
    let longest = list.iter().map(Vec::len).max().unwrap_or(0);
    let device = values.device();
    let missing: Vec<bool> =
        list.iter().flat_map(|own| (0..longest).map(|i| i >= own.len()).collect::<Vec<_>>()).collect();
    let missing = Tensor::<B, 2, Bool>::from_data(TensorData::new(missing, [list.len(), longest]), &device);
    values.reshape([list.len(), longest]).mask_fill(missing, 0.0).sum_dim(1).squeeze_dim(1)
}
