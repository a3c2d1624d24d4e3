//! The generative model p(x, z) = Πₜ p(zₜ | z₍<ₜ₎, x₍<ₜ₎)·p(xₜ | z₍≤ₜ₎, x₍<ₜ₎): an LSTM with two heads.

use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, activation};

use crate::config::ModelConfig;
use crate::layers::{Lstm, LstmState, add_lstm, add_two_layers, embed, two_layers};
use crate::parameters::{Initial, Parameters};
use crate::text::END;

/// Adds the parameters.
pub fn add_parameters(initial: &mut Initial, config: &ModelConfig, words: usize) {
    let units = config.units;
    initial.add("decoder.words", &[words, units], 0.1);
    initial.add("decoder.states", &[config.states, units], 0.1);
    add_lstm(initial, "decoder.lstm", 2 * units, units);
    add_two_layers(initial, "decoder.to_states", [units, units, config.states]);
    add_two_layers(initial, "decoder.to_words", [2 * units, units, words]);
}

/// The latent states that the decoder is given.
pub enum States<B: Backend> {
    /// Weights of all states, (B, T, N).
    Soft(Tensor<B, 3>),
    /// One state per word, (B, T).
    Hard(Tensor<B, 2, Int>),
}

/// log p of states and of words given states, (B) each.
pub struct LogJoint<B: Backend> {
    /// Σₜ log p(zₜ | …).
    pub states: Tensor<B, 1>,
    /// Σₜ log p(xₜ | …).
    pub words: Tensor<B, 1>,
}

/// log p(x, z). `seen` has 0 where the decoder does not see the word before, (B, T); soft states count with their
/// weights.
pub fn log_joint<B: Backend>(
    parameters: &Parameters<B>,
    words: &Tensor<B, 2, Int>,
    states: &States<B>,
    seen: Option<Tensor<B, 2>>,
) -> LogJoint<B> {
    let [batch, steps] = words.dims();
    let table = parameters.get::<2>("decoder.states");
    let [count, units] = table.dims();
    let vectors = match states {
        States::Soft(weights) => {
            weights.clone().reshape([batch * steps, count]).matmul(table).reshape([batch, steps, units])
        }
        States::Hard(states) => embed(table, states.clone()),
    };
    let device = words.device();
    let first = Tensor::full([batch, 1], END, &device);
    let before = Tensor::cat(vec![first, words.clone().slice([0..batch, 0..steps - 1])], 1);
    let mut read = embed(parameters.get("decoder.words"), before);
    if let Some(seen) = seen {
        read = read * seen.unsqueeze_dim::<3>(2);
    }
    let none = Tensor::zeros([batch, 1, units], &device);
    let earlier = Tensor::cat(vec![none, vectors.clone().slice([0..batch, 0..steps - 1])], 1);
    let outputs = Lstm::new(parameters, "decoder.lstm").run(Tensor::cat(vec![read, earlier], 2), false);
    let rows = batch * steps;
    let outputs = outputs.reshape([rows, units]);
    let of_states = activation::log_softmax(two_layers(parameters, "decoder.to_states", outputs.clone()), 1);
    let of_states = match states {
        States::Soft(weights) => (of_states * weights.clone().reshape([rows, count])).sum_dim(1),
        States::Hard(states) => of_states.gather(1, states.clone().reshape([rows, 1])),
    };
    let both = Tensor::cat(vec![outputs, vectors.reshape([rows, units])], 1);
    let of_words = activation::log_softmax(two_layers(parameters, "decoder.to_words", both), 1);
    let of_words = of_words.gather(1, words.clone().reshape([rows, 1]));
    let sum = |x: Tensor<B, 2>| x.reshape([batch, steps]).sum_dim(1).reshape([batch]);
    LogJoint { states: sum(of_states), words: sum(of_words) }
}

/// The decoder in steps, for new sentences.
pub struct Generator<'a, B: Backend> {
    parameters: &'a Parameters<B>,
    lstm: Lstm<B>,
    state: LstmState<B>,
}

impl<'a, B: Backend> Generator<'a, B> {
    /// For `batch` sentences.
    pub fn new(parameters: &'a Parameters<B>, batch: usize) -> Self {
        let lstm = Lstm::new(parameters, "decoder.lstm");
        let state = lstm.start(batch);
        Generator { parameters, lstm, state }
    }

    /// Reads the words and states before, and returns log p(zₜ | …), (B, N).
    pub fn states(&mut self, words: &Tensor<B, 1, Int>, states: Option<&Tensor<B, 1, Int>>) -> Tensor<B, 2> {
        let read = self.parameters.get::<2>("decoder.words").select(0, words.clone());
        let earlier = match states {
            Some(states) => self.parameters.get::<2>("decoder.states").select(0, states.clone()),
            None => read.zeros_like(),
        };
        self.state = self.lstm.step(Tensor::cat(vec![read, earlier], 1), self.state.clone());
        activation::log_softmax(
            two_layers(self.parameters, "decoder.to_states", self.state.output.clone()),
            1,
        )
    }

    /// log p(xₜ | zₜ, …), (B, words).
    pub fn words(&self, states: &Tensor<B, 1, Int>) -> Tensor<B, 2> {
        let vectors = self.parameters.get::<2>("decoder.states").select(0, states.clone());
        let both = Tensor::cat(vec![self.state.output.clone(), vectors], 1);
        activation::log_softmax(two_layers(self.parameters, "decoder.to_words", both), 1)
    }
}
