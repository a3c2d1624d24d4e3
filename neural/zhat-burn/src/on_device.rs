//! Chains on any device, through burn's own tensor operations.
//!
//! For chains whose transitions are inner products of state embeddings, Φᵢⱼ = eᵢ·eⱼ. Messages are products of
//! matrices in the exponential domain, shifted by their maxima:
//!
//!   αₜ₊₁(j) = log Σᵢ exp(αₜ(i) − m)·exp(Φᵢⱼ − c) + m + c + emissionₜ₊₁(j).
//!
//! The mean score of the prefixes that end in a state follows the same recursion, so the entropy is log Z −
//! E\[score\]; for chosen states this is Algorithm 3 of Fu, Cunningham and Lapata (2022) with its weights in the right
//! place. Time O(B·T·N²) for all states and O(B·T·K²) for K chosen ones; burn records the products of every step, so
//! memory is O(B·T·N + N²), and O(B·T·K²) for chosen states. All sequences of a batch have the same length.
//!
//! Sums below [`FLOOR`] times the largest possible one are set to it, so a message never becomes −∞. The library's
//! own operations ([`crate::log_partition`] and others) have no such limit; they are the reference for these.

use burn_tensor::backend::Backend;
use burn_tensor::{Bool, Int, Tensor, TensorData, activation};
use zhat::dynamic::Support;

/// The smallest sum of products, relative to the largest possible one.
pub const FLOOR: f64 = 1e-30;

/// The log weight of places without a state.
const NOTHING: f64 = -1e30;

/// States chosen for each position, with their weights.
#[derive(Clone, Debug)]
pub struct DeviceStates<B: Backend> {
    /// (B, T, K).
    pub states: Tensor<B, 3, Int>,
    /// (B, T, K).
    pub log_weights: Tensor<B, 3>,
}

impl<B: Backend> DeviceStates<B> {
    /// From the library's choice of one replicate for each sequence, all of the same length.
    ///
    /// # Panics
    /// If the supports have different lengths.
    pub fn new(supports: &[&Support], device: &B::Device) -> Self {
        let (batch, steps) = (supports.len(), supports.first().map_or(0, |support| support.len()));
        assert!(supports.iter().all(|support| support.len() == steps), "sequences of different lengths");
        let each = || supports.iter().flat_map(|support| (0..steps).map(move |t| support.at(t)));
        let most = each().map(|chosen| chosen.states.len()).max().unwrap_or(0).max(1);
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

/// A batch of chains of equal length on one device.
#[derive(Clone, Debug)]
pub struct DeviceChain<B: Backend> {
    emissions: Tensor<B, 3>,
    embeddings: Tensor<B, 2>,
    chosen: Option<DeviceStates<B>>,
}

/// Messages of a batch of chains.
pub struct Messages<B: Backend> {
    chain: DeviceChain<B>,
    /// αₜ, (B, K) each.
    forward: Vec<Tensor<B, 2>>,
    /// Mean score of the prefixes that end in each state of the last position.
    scores: Option<Tensor<B, 2>>,
    /// Transition scores of all states.
    table: Option<Tensor<B, 2>>,
}

/// Samples of paths on a device.
pub struct DevicePaths<B: Backend> {
    /// (B, samples, T, N): probabilities of the states; 0 for states that were not chosen.
    pub soft: Tensor<B, 4>,
    /// (B, samples, T).
    pub hard: Tensor<B, 3, Int>,
}

impl<B: Backend> DeviceChain<B> {
    /// From emissions (B, T, N) and state embeddings (N, D).
    pub fn new(emissions: Tensor<B, 3>, embeddings: Tensor<B, 2>) -> Self {
        DeviceChain { emissions, embeddings, chosen: None }
    }

    /// The same with sums over chosen states only.
    pub fn with_states(mut self, chosen: DeviceStates<B>) -> Self {
        self.chosen = Some(chosen);
        self
    }

    /// Scores of the kept states of position t, without and with log weights.
    fn at(&self, t: usize) -> (Tensor<B, 2>, Tensor<B, 2>) {
        let [batch, _, states] = self.emissions.dims();
        let own = self.emissions.clone().slice([0..batch, t..t + 1]).reshape([batch, states]);
        let Some(chosen) = &self.chosen else { return (own.clone(), own) };
        let own = own.gather(1, chosen.at(t));
        let kept = chosen.log_weights.dims()[2];
        let weights = chosen.log_weights.clone().slice([0..batch, t..t + 1]).reshape([batch, kept]);
        (own.clone(), own + weights)
    }

    /// Embeddings of the chosen states of position t, (B, K, D).
    fn vectors(&self, chosen: &DeviceStates<B>, t: usize) -> Tensor<B, 3> {
        let index = chosen.at(t);
        let [batch, kept] = index.dims();
        let [_, size] = self.embeddings.dims();
        self.embeddings.clone().select(0, index.reshape([batch * kept])).reshape([batch, kept, size])
    }

    /// The forward messages; with `scores`, also what the entropy needs.
    pub fn messages(&self, scores: bool) -> Messages<B> {
        let [_, steps, _] = self.emissions.dims();
        let shared = self.chosen.is_none().then(|| Step::shared(&self.embeddings, scores));
        let (own, mut alpha) = self.at(0);
        let mut mean = scores.then_some(own);
        let mut forward = vec![alpha.clone()];
        for t in 1..steps {
            let shift = alpha.clone().detach().max_dim(1);
            let weights = (alpha - shift.clone()).exp();
            let fresh;
            let step = match (&shared, &self.chosen) {
                (Some(step), _) => step,
                (None, Some(chosen)) => {
                    let (from, to) = (self.vectors(chosen, t - 1), self.vectors(chosen, t));
                    fresh = Step::separate(from, to, scores);
                    &fresh
                }
                (None, None) => unreachable!("chains without chosen states share a table"),
            };
            let sums = step.times(weights.clone()).clamp_min(FLOOR);
            let (own, weighted) = self.at(t);
            mean = mean.map(|mean| {
                (step.times(weights.clone() * mean) + step.times_scores(weights)) / sums.clone() + own
            });
            alpha = sums.log() + shift + step.shift.clone() + weighted;
            forward.push(alpha.clone());
        }
        let table = shared.map(|step| step.scores_of_all());
        Messages { chain: self.clone(), forward, scores: mean, table }
    }

    /// The score of paths, (B, samples).
    pub fn score(&self, paths: &Tensor<B, 3, Int>) -> Tensor<B, 2> {
        let [batch, samples, steps] = paths.dims();
        let [_, size] = self.embeddings.dims();
        // (B, T, N) gathered at (B, T, samples).
        let own = self.emissions.clone().gather(2, paths.clone().swap_dims(1, 2)).sum_dim(1);
        let own = own.reshape([batch, samples]);
        if steps == 1 {
            return own;
        }
        let vectors = self.embeddings.clone().select(0, paths.clone().reshape([batch * samples * steps]));
        let vectors = vectors.reshape([batch * samples, steps, size]);
        let all = batch * samples;
        let (before, after) =
            (vectors.clone().slice([0..all, 0..steps - 1]), vectors.slice([0..all, 1..steps]));
        own + (before * after).sum_dim(2).sum_dim(1).reshape([batch, samples])
    }
}

impl<B: Backend> DeviceStates<B> {
    /// The states of position t, (B, K).
    fn at(&self, t: usize) -> Tensor<B, 2, Int> {
        let [batch, _, kept] = self.states.dims();
        self.states.clone().slice([0..batch, t..t + 1]).reshape([batch, kept])
    }
}

/// exp(Φ − c) from one position to the next.
struct Step<B: Backend> {
    /// (1 or B, K, K').
    table: Tensor<B, 3>,
    /// Φ∘exp(Φ − c).
    with_scores: Option<Tensor<B, 3>>,
    /// c, (1 or B, 1).
    shift: Tensor<B, 2>,
    /// Φ.
    scores: Tensor<B, 3>,
}

impl<B: Backend> Step<B> {
    fn shared(embeddings: &Tensor<B, 2>, scores: bool) -> Self {
        let vectors = embeddings.clone().unsqueeze_dim::<3>(0);
        Step::separate(vectors.clone(), vectors, scores)
    }

    fn separate(from: Tensor<B, 3>, to: Tensor<B, 3>, scores: bool) -> Self {
        let phi = from.matmul(to.swap_dims(1, 2));
        let shift = phi.clone().detach().max_dim(2).max_dim(1);
        let table = (phi.clone() - shift.clone()).exp();
        let with_scores = scores.then(|| table.clone() * phi.clone());
        let [of, _, _] = shift.dims();
        Step { table, with_scores, shift: shift.reshape([of, 1]), scores: phi }
    }

    /// Σᵢ rowᵢ·tableᵢⱼ.
    fn product(rows: Tensor<B, 2>, table: &Tensor<B, 3>) -> Tensor<B, 2> {
        let [batch, kept] = rows.dims();
        let [of, _, next] = table.dims();
        if of == 1 {
            return rows.matmul(table.clone().reshape([kept, next]));
        }
        rows.reshape([batch, 1, kept]).matmul(table.clone()).reshape([batch, next])
    }

    fn times(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        Self::product(rows, &self.table)
    }

    fn times_scores(&self, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        match &self.with_scores {
            Some(table) => Self::product(rows, table),
            None => rows.zeros_like(),
        }
    }

    fn scores_of_all(self) -> Tensor<B, 2> {
        let [_, from, to] = self.scores.dims();
        self.scores.reshape([from, to])
    }
}

impl<B: Backend> Messages<B> {
    /// The messages of all positions, (B, T, K).
    pub fn forward(&self) -> Tensor<B, 3> {
        Tensor::stack(self.forward.clone(), 1)
    }

    /// K, the number of states of each position.
    pub fn kept(&self) -> usize {
        self.forward[0].dims()[1]
    }

    fn last(&self) -> Tensor<B, 2> {
        self.forward[self.forward.len() - 1].clone()
    }

    /// log Z or log Ẑ of each sequence.
    pub fn log_partition(&self) -> Tensor<B, 1> {
        let last = self.last();
        let [batch, _] = last.dims();
        let shift = last.clone().detach().max_dim(1);
        ((last - shift.clone()).exp().sum_dim(1).log() + shift).reshape([batch])
    }

    /// The entropy of each sequence, if `messages` was asked for scores.
    pub fn entropy(&self) -> Option<Tensor<B, 1>> {
        let last = self.last();
        let [batch, _] = last.dims();
        let mean = (activation::softmax(last, 1) * self.scores.clone()?).sum_dim(1).reshape([batch]);
        Some(self.log_partition() - mean)
    }

    /// Backward sampling with Gumbel noise of shape (B, samples, T, K), K being the number of kept states.
    pub fn paths(&self, noise: Tensor<B, 4>, temperature: f64) -> DevicePaths<B> {
        let [batch, samples, steps, kept] = noise.dims();
        let [_, _, states] = self.chain.emissions.dims();
        let [_, size] = self.chain.embeddings.dims();
        let (mut soft, mut hard) = (Vec::with_capacity(steps), Vec::with_capacity(steps));
        let mut next: Option<Tensor<B, 1, Int>> = None;
        for t in (0..steps).rev() {
            let mut logits = self.forward[t].clone().unsqueeze_dim::<3>(1).expand([batch, samples, kept]);
            if let Some(next) = next {
                let to = match (&self.chain.chosen, &self.table) {
                    (Some(chosen), _) => {
                        let to = self.chain.embeddings.clone().select(0, next);
                        let from = self.chain.vectors(chosen, t);
                        to.reshape([batch, samples, size]).matmul(from.swap_dims(1, 2))
                    }
                    // Φ is symmetric.
                    (None, Some(table)) if samples * batch >= states => {
                        table.clone().select(0, next).reshape([batch, samples, kept])
                    }
                    _ => {
                        let to = self.chain.embeddings.clone().select(0, next);
                        to.matmul(self.chain.embeddings.clone().transpose()).reshape([batch, samples, kept])
                    }
                };
                logits = logits + to;
            }
            let own = noise.clone().slice([0..batch, 0..samples, t..t + 1]).reshape([batch, samples, kept]);
            let noisy = activation::log_softmax(logits, 2) + own;
            let place = noisy.clone().argmax(2);
            let state = match &self.chain.chosen {
                Some(chosen) => chosen.at(t).gather(1, place.reshape([batch, samples])),
                None => place.reshape([batch, samples]),
            };
            let values = activation::softmax(noisy / temperature, 2);
            soft.push(match &self.chain.chosen {
                Some(chosen) => {
                    let index = chosen.at(t).unsqueeze_dim::<3>(1).expand([batch, samples, kept]);
                    let none = Tensor::zeros([batch, samples, states], &values.device());
                    none.scatter(2, index, values, burn_tensor::IndexingUpdateOp::Add)
                }
                None => values,
            });
            hard.push(state.clone());
            next = Some(state.reshape([batch * samples]));
        }
        soft.reverse();
        hard.reverse();
        DevicePaths { soft: Tensor::stack(soft, 2), hard: Tensor::stack(hard, 2) }
    }

    /// How many sums fell below [`FLOOR`] in the messages of all positions but the first.
    pub fn floored(&self) -> Tensor<B, 1, Int> {
        let device = self.chain.emissions.device();
        let count = Tensor::zeros([1], &device);
        self.forward.iter().skip(1).enumerate().fold(count, |count, (t, alpha)| {
            let (_, weighted) = self.chain.at(t + 1);
            let sums = alpha.clone().detach() - weighted.detach();
            let bound = sums.clone().max_dim(1) + FLOOR.ln();
            let below: Tensor<B, 2, Bool> = sums.lower_equal(bound);
            count + below.int().sum()
        })
    }
}
