//! Chosen states on a device.

use burn_tensor::backend::Backend;
use burn_tensor::{IndexingUpdateOp, Int, Tensor, TensorData};
use zhat::dynamic::Support;

/// The log weight of places without a state.
pub(super) const NOTHING: f64 = -1e30;

/// States chosen for each position, with their weights.
#[derive(Clone, Debug)]
pub struct DeviceStates<B: Backend> {
    /// (B, T, K); each state at most once at a position.
    pub states: Tensor<B, 3, Int>,
    /// (B, T, K); places without a state have −10³⁰.
    pub log_weights: Tensor<B, 3>,
}

impl<B: Backend> DeviceStates<B> {
    /// From the library's choice of one replicate for each sequence, all of the same length. K is the largest number of
    /// states of a position, rounded up by less than a quarter, so that batches share few shapes.
    ///
    /// # Panics
    /// If the supports have different lengths.
    pub fn new(supports: &[&Support], device: &B::Device) -> Self {
        let (batch, steps) = (supports.len(), supports.first().map_or(0, |support| support.len()));
        assert!(supports.iter().all(|support| support.len() == steps), "sequences of different lengths");
        let each = || supports.iter().flat_map(|support| (0..steps).map(move |t| support.at(t)));
        let most = rounded(each().map(|chosen| chosen.states.len()).max().unwrap_or(0));
        let mut states = vec![0_i32; batch * steps * most];
        let mut weights = vec![NOTHING; batch * steps * most];
        for (row, chosen) in each().enumerate() {
            for (k, (&state, &log)) in chosen.states.iter().zip(&chosen.log_weights).enumerate() {
                states[row * most + k] = state as i32;
                weights[row * most + k] = log;
            }
        }
        DeviceStates {
            states: Tensor::from_data(TensorData::new(states, [batch, steps, most]), device),
            log_weights: Tensor::from_data(TensorData::new(weights, [batch, steps, most]), device),
        }
    }
}

/// The next multiple of an eighth of the next power of two.
fn rounded(count: usize) -> usize {
    let unit = (count.next_power_of_two() / 8).max(1);
    count.max(1).next_multiple_of(unit)
}

/// How a chain keeps its chosen states.
#[derive(Clone, Debug)]
pub(super) enum Chosen<B: Backend> {
    /// No states were chosen; all are kept.
    All,
    /// Log weights of all states, −10³⁰ for those that were not chosen, (B, T, N).
    Most { log_weights: Tensor<B, 3> },
    /// Lists of states.
    Few {
        /// (B, T, K).
        states: Tensor<B, 3, Int>,
        /// (B, T, K).
        log_weights: Tensor<B, 3>,
        /// Emissions of the chosen states, (B, T, K).
        emissions: Tensor<B, 3>,
        /// Embeddings of the chosen states of each position, (B, K, D).
        vectors: Vec<Tensor<B, 3>>,
    },
}

impl<B: Backend> Chosen<B> {
    pub(super) fn new(
        chosen: DeviceStates<B>,
        emissions: &Tensor<B, 3>,
        embeddings: &Tensor<B, 2>,
    ) -> Chosen<B> {
        let [batch, steps, count] = emissions.dims();
        let [_, size] = embeddings.dims();
        let DeviceStates { states, log_weights } = chosen;
        let [_, _, kept] = states.dims();
        if batch * kept * kept >= count * count {
            let none = Tensor::zeros([batch, steps, count], &emissions.device());
            let real = log_weights.clone().greater_elem(NOTHING / 2.0).float();
            let spread = |values| none.clone().scatter(2, states.clone(), values, IndexingUpdateOp::Add);
            let all = spread(log_weights * real.clone());
            return Chosen::Most { log_weights: all + (spread(real) - 1.0) * -NOTHING };
        }
        // `gather` instead of `select`: on a GPU the backward pass of `select` is one loop over all places.
        let every = embeddings.clone().unsqueeze_dim::<3>(0).expand([batch, count, size]);
        let vectors = (0..steps).map(|t| {
            let own = states.clone().slice([0..batch, t..t + 1]).reshape([batch, kept]);
            every.clone().gather(1, own.unsqueeze_dim::<3>(2).expand([batch, kept, size]))
        });
        let vectors = vectors.collect();
        let emissions = emissions.clone().gather(2, states.clone());
        Chosen::Few { states, log_weights, emissions, vectors }
    }
}

#[cfg(test)]
mod tests {
    use super::rounded;

    #[test]
    fn numbers_of_states_are_rounded_up_by_less_than_a_quarter() {
        assert_eq!([0, 1, 5, 8, 17, 20, 395, 400].map(rounded), [1, 1, 5, 8, 20, 20, 448, 448]);
        for count in 1..5000 {
            assert!(rounded(count) >= count && 4 * rounded(count) < 5 * count, "{count}");
        }
    }
}
