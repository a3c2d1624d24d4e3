//! Samples of paths on a device.

use burn_tensor::backend::Backend;
use burn_tensor::{IndexingUpdateOp, Int, Tensor, activation};

use super::Messages;
use super::states::Chosen;

/// Relaxed samples of paths.
pub struct DevicePaths<B: Backend> {
    /// (B, samples, T, N): probabilities of the states; 0 for states that were not chosen.
    pub soft: Tensor<B, 4>,
    /// (B, samples, T).
    pub hard: Tensor<B, 3, Int>,
}

/// Samples of paths.
pub struct HardPaths<B: Backend> {
    /// (B, samples, T).
    pub states: Tensor<B, 3, Int>,
    /// log of the weights of the chosen states over the probability with which they were drawn, (B, samples). An average
    /// of f(path)·exp(log weight) is an unbiased estimate of the sum of f over all paths.
    pub log_weights: Tensor<B, 2>,
}

/// One position of samples; K is the number of kept states.
struct Draw<B: Backend> {
    t: usize,
    /// log p of the states given the next one, (B, samples, K).
    logs: Tensor<B, 3>,
    /// The same with noise.
    noisy: Tensor<B, 3>,
    /// Which of the kept states was drawn, (B, samples, 1).
    place: Tensor<B, 3, Int>,
}

impl<B: Backend> Messages<B> {
    /// Backward sampling with Gumbel noise, (B, samples, K) for each position. Returns the states, (B, samples, T).
    fn backward(
        &self,
        samples: usize,
        mut noise: impl FnMut(usize) -> Tensor<B, 3>,
        mut each: impl FnMut(Draw<B>),
    ) -> Tensor<B, 3, Int> {
        let (steps, kept) = (self.forward.len(), self.kept());
        let [batch, _, states] = self.chain.emissions.dims();
        let [_, size] = self.chain.embeddings.dims();
        let embeddings = &self.chain.embeddings;
        let mut hard = Vec::with_capacity(steps);
        let mut next: Option<Tensor<B, 1, Int>> = None;
        for t in (0..steps).rev() {
            let mut logits = self.forward[t].clone().unsqueeze_dim::<3>(1).expand([batch, samples, kept]);
            if let Some(next) = next {
                let to = match (&self.chain.chosen, &self.table) {
                    (Chosen::Few { vectors, .. }, _) => {
                        let to = embeddings.clone().select(0, next).reshape([batch, samples, size]);
                        to.matmul(vectors[t].clone().swap_dims(1, 2))
                    }
                    // Φ is symmetric.
                    (_, Some(table)) if samples * batch >= states => {
                        table.clone().select(0, next).reshape([batch, samples, kept])
                    }
                    _ => {
                        let to = embeddings.clone().select(0, next);
                        to.matmul(embeddings.clone().transpose()).reshape([batch, samples, kept])
                    }
                };
                logits = logits + to;
            }
            let logs = activation::log_softmax(logits, 2);
            let noisy = logs.clone() + noise(t);
            let place = noisy.clone().argmax(2);
            let state = match &self.chain.chosen {
                Chosen::Few { states, .. } => {
                    let own = states.clone().slice([0..batch, t..t + 1]).reshape([batch, kept]);
                    own.gather(1, place.clone().reshape([batch, samples]))
                }
                _ => place.clone().reshape([batch, samples]),
            };
            each(Draw { t, logs, noisy, place });
            hard.push(state.clone());
            next = Some(state.reshape([batch * samples]));
        }
        hard.reverse();
        Tensor::stack(hard, 2)
    }

    /// Relaxed samples with Gumbel noise of shape (B, samples, T, K), K being [`Messages::kept`].
    pub fn paths(&self, noise: Tensor<B, 4>, temperature: f64) -> DevicePaths<B> {
        let [batch, samples, steps, kept] = noise.dims();
        let [_, _, count] = self.chain.emissions.dims();
        let at = |t: usize| {
            let own = noise.clone().slice([0..batch, 0..samples, t..t + 1]);
            own.reshape([batch, samples, kept])
        };
        let mut soft = Vec::with_capacity(steps);
        let hard = self.backward(samples, at, |Draw { t, noisy, .. }| {
            let values = activation::softmax(noisy / temperature, 2);
            soft.push(match &self.chain.chosen {
                Chosen::Few { states, .. } => {
                    let own = states.clone().slice([0..batch, t..t + 1]);
                    let index = own.expand([batch, samples, kept]);
                    let none = Tensor::zeros([batch, samples, count], &values.device());
                    none.scatter(2, index, values, IndexingUpdateOp::Add)
                }
                _ => values,
            });
        });
        soft.reverse();
        DevicePaths { soft: Tensor::stack(soft, 2), hard }
    }

    /// Samples with their weights. `noise` makes Gumbel noise of shape (B, samples, K) for one position after another.
    pub fn hard_paths(&self, samples: usize, noise: impl Fn([usize; 3]) -> Tensor<B, 3>) -> HardPaths<B> {
        let [batch, _, _] = self.chain.emissions.dims();
        let shape = [batch, samples, self.kept()];
        let mut total: Option<Tensor<B, 2>> = None;
        let each = |Draw { t, logs, place, .. }: Draw<B>| {
            let mut own = -logs.gather(2, place.clone()).reshape([batch, samples]);
            if let Some(weights) = self.chain.log_weights(t) {
                own = own + weights.gather(1, place.reshape([batch, samples]));
            }
            total = Some(match total.take() {
                Some(total) => total + own,
                None => own,
            });
        };
        let states = self.backward(samples, |_| noise(shape), each);
        let none = || Tensor::zeros([batch, samples], &self.chain.emissions.device());
        HardPaths { states, log_weights: total.unwrap_or_else(none) }
    }
}
