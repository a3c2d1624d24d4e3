//! Chains on any device, through burn's own tensor operations.
//!
//! For chains whose transitions are inner products of state embeddings, Φᵢⱼ = eᵢ·eⱼ. Messages are products of
//! matrices in the exponential domain, shifted by their maxima:
//!
//!   αₜ₊₁(j) = log Σᵢ exp(αₜ(i) − m)·exp(Φᵢⱼ − cⱼ) + m + cⱼ + emissionₜ₊₁(j).
//!
//! The mean score of the prefixes that end in a state follows the same recursion, so the entropy is log Z −
//! E\[score\]; for chosen states this is Algorithm 3 of Fu, Cunningham and Lapata (2022) with its weights in the right
//! place. All sequences of a batch have the same length.
//!
//! Sums over K chosen states of N take one of two forms with the same values, whichever has the smaller tables:
//!
//! | tables | when | time | memory, with gradients |
//! |---|---|---|---|
//! | one for all states, and log weights that leave out those not chosen | B·K² ≥ N², and without chosen states | O(B·T·N²) | O(B·T·N + N²) |
//! | one of the chosen states for each sequence and step | B·K² < N² | O(B·T·K²) | O(B·T·K² + B·N·D) |
//!
//! Sums below [`FLOOR`] times the largest possible one are set to it, so a message never becomes −∞;
//! [`Messages::floored`] counts them. The library's own operations ([`crate::log_partition`] and others) have no such
//! limit; they are the reference for these.
//!
//! Precision is that of the back end's matrix products. burn's CUDA back end rounds the factors of large `f32` products
//! to 11 bits (TF32) and has no option against it, so values have relative errors of up to about 10⁻³ there; `f64` is
//! not rounded. [`Messages::hard_paths`] returns the probabilities with which paths were in fact drawn, so averages over
//! them remain unbiased.

mod paths;
mod states;

use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, activation};

pub use paths::{DevicePaths, HardPaths};
pub use states::DeviceStates;
use states::{Chosen, NOTHING};

/// The smallest sum of products, relative to the largest possible one.
pub const FLOOR: f64 = 1e-30;

/// A batch of chains of equal length on one device.
#[derive(Clone, Debug)]
pub struct DeviceChain<B: Backend> {
    emissions: Tensor<B, 3>,
    embeddings: Tensor<B, 2>,
    chosen: Chosen<B>,
}

/// Messages of a batch of chains.
pub struct Messages<B: Backend> {
    chain: DeviceChain<B>,
    /// αₜ, (B, K) each.
    forward: Vec<Tensor<B, 2>>,
    /// Logarithms of the sums of products of all positions but the first, (B, K) each.
    sums: Vec<Tensor<B, 2>>,
    /// Mean score of the prefixes that end in each state of the last position.
    scores: Option<Tensor<B, 2>>,
    /// Transition scores of all states.
    table: Option<Tensor<B, 2>>,
}

impl<B: Backend> DeviceChain<B> {
    /// From emissions (B, T, N) and state embeddings (N, D).
    pub fn new(emissions: Tensor<B, 3>, embeddings: Tensor<B, 2>) -> Self {
        DeviceChain { emissions, embeddings, chosen: Chosen::All }
    }

    /// The same with sums over chosen states only.
    pub fn with_states(mut self, states: DeviceStates<B>) -> Self {
        self.chosen = Chosen::new(states, &self.emissions, &self.embeddings);
        self
    }

    /// Scores of the kept states of position t, without and with log weights.
    fn at(&self, t: usize) -> (Tensor<B, 2>, Tensor<B, 2>) {
        let own = match &self.chosen {
            Chosen::Few { emissions, .. } => position(emissions, t),
            Chosen::All | Chosen::Most { .. } => position(&self.emissions, t),
        };
        match self.log_weights(t) {
            Some(weights) => (own.clone(), own + weights),
            None => (own.clone(), own),
        }
    }

    /// The log weights of the kept states of position t, if some were chosen.
    fn log_weights(&self, t: usize) -> Option<Tensor<B, 2>> {
        match &self.chosen {
            Chosen::All => None,
            Chosen::Most { log_weights } | Chosen::Few { log_weights, .. } => Some(position(log_weights, t)),
        }
    }

    /// The forward messages; with `scores`, also what the entropy needs.
    pub fn messages(&self, scores: bool) -> Messages<B> {
        let [_, steps, _] = self.emissions.dims();
        let shared = match &self.chosen {
            Chosen::Few { .. } => None,
            Chosen::All | Chosen::Most { .. } => Some(Step::shared(&self.embeddings, scores)),
        };
        let (own, mut alpha) = self.at(0);
        let mut mean = scores.then_some(own);
        let (mut forward, mut sums) = (vec![alpha.clone()], Vec::new());
        for t in 1..steps {
            let shift = alpha.clone().detach().max_dim(1);
            let weights = (alpha - shift.clone()).exp();
            let fresh;
            let step = match (&shared, &self.chosen) {
                (None, Chosen::Few { vectors, .. }) => {
                    fresh = Step::separate(vectors[t - 1].clone(), vectors[t].clone(), scores);
                    &fresh
                }
                (Some(step), _) => step,
                (None, _) => unreachable!("only few chosen states have tables of their own"),
            };
            let logs = step.times(weights.clone()).clamp_min(FLOOR).log();
            let (own, weighted) = self.at(t);
            mean = mean.map(|mean| {
                let all = step.times(weights.clone() * mean) + step.times_scores(weights);
                // A product with exp(−log s) instead of a quotient, whose gradient has s² in it.
                all * (-logs.clone()).exp() + own
            });
            alpha = logs.clone() + shift + step.shift.clone() + weighted;
            forward.push(alpha.clone());
            sums.push(logs);
        }
        let table = shared.map(|step| step.scores_of_all());
        Messages { chain: self.clone(), forward, sums, scores: mean, table }
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

/// Position t of (B, T, K).
fn position<B: Backend>(all: &Tensor<B, 3>, t: usize) -> Tensor<B, 2> {
    let [batch, _, kept] = all.dims();
    all.clone().slice([0..batch, t..t + 1]).reshape([batch, kept])
}

/// exp(Φ − c) from one position to the next.
struct Step<B: Backend> {
    /// (1 or B, K, K').
    table: Tensor<B, 3>,
    /// Φ∘exp(Φ − c).
    with_scores: Option<Tensor<B, 3>>,
    /// cⱼ = maxᵢ Φᵢⱼ, (1 or B, K').
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
        let shift = phi.clone().detach().max_dim(1);
        let table = (phi.clone() - shift.clone()).exp();
        let with_scores = scores.then(|| table.clone() * phi.clone());
        let [of, _, next] = shift.dims();
        Step { table, with_scores, shift: shift.reshape([of, next]), scores: phi }
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

    /// The number of states of each position in the tables: N, or K where each sequence has tables of its own.
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

    /// How many sums of kept states were set to [`FLOOR`].
    pub fn floored(&self) -> Tensor<B, 1, Int> {
        if self.sums.is_empty() {
            return Tensor::zeros([1], &self.chain.emissions.device());
        }
        let sums = Tensor::stack::<3>(self.sums.clone(), 1).detach();
        let below = sums.lower_equal_elem(FLOOR.ln() + 1e-3).int();
        match &self.chain.chosen {
            Chosen::All => below.sum(),
            Chosen::Most { log_weights } | Chosen::Few { log_weights, .. } => {
                let [_, steps, _] = log_weights.dims();
                let later = log_weights.clone().narrow(1, 1, steps - 1);
                (below * later.greater_elem(NOTHING / 2.0).int()).sum()
            }
        }
    }
}
