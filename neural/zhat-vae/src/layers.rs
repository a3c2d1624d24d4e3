//! Layers of networks as functions of named parameters.

use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, activation};

use crate::parameters::{Initial, Parameters};

/// x·W + b for rows x.
pub fn linear<B: Backend>(parameters: &Parameters<B>, name: &str, rows: Tensor<B, 2>) -> Tensor<B, 2> {
    let bias = parameters.get::<1>(&format!("{name}.bias"));
    rows.matmul(parameters.get::<2>(&format!("{name}.weight"))) + bias.unsqueeze::<2>()
}

/// Two linear layers with tanh between them.
pub fn two_layers<B: Backend>(parameters: &Parameters<B>, name: &str, rows: Tensor<B, 2>) -> Tensor<B, 2> {
    let hidden = linear(parameters, &format!("{name}.first"), rows).tanh();
    linear(parameters, &format!("{name}.second"), hidden)
}

/// Parameters of [`two_layers`].
pub fn add_two_layers(initial: &mut Initial, name: &str, sizes: [usize; 3]) {
    initial.linear(&format!("{name}.first"), sizes[0], sizes[1]);
    initial.linear(&format!("{name}.second"), sizes[1], sizes[2]);
}

/// Rows of a table, (B, T) → (B, T, size).
pub fn embed<B: Backend>(table: Tensor<B, 2>, numbers: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    let [batch, steps] = numbers.dims();
    let [_, size] = table.dims();
    table.select(0, numbers.reshape([batch * steps])).reshape([batch, steps, size])
}

/// Parameters of an LSTM; the bias of the forget gate is 1.
pub fn add_lstm(initial: &mut Initial, name: &str, inputs: usize, units: usize) {
    let scale = (1.0 / units as f64).sqrt();
    initial.add(&format!("{name}.inputs"), &[inputs, 4 * units], scale);
    initial.add(&format!("{name}.state"), &[units, 4 * units], scale);
    initial.constant(&format!("{name}.bias"), &[4 * units], 0.0);
    initial.constant(&format!("{name}.forget"), &[units], 1.0);
}

/// The state of an LSTM: (B, units) each.
#[derive(Clone, Debug)]
pub struct LstmState<B: Backend> {
    /// The output.
    pub output: Tensor<B, 2>,
    /// The memory.
    pub memory: Tensor<B, 2>,
}

/// One LSTM.
pub struct Lstm<B: Backend> {
    inputs: Tensor<B, 2>,
    state: Tensor<B, 2>,
    bias: Tensor<B, 2>,
    units: usize,
}

impl<B: Backend> Lstm<B> {
    /// The LSTM of this name. Gates are in the order input, forget, output, candidate.
    pub fn new(parameters: &Parameters<B>, name: &str) -> Self {
        let state = parameters.get::<2>(&format!("{name}.state"));
        let [units, _] = state.dims();
        let forget = parameters.get::<1>(&format!("{name}.forget"));
        let none = Tensor::zeros([units], &forget.device());
        let offset = Tensor::cat(vec![none.clone(), forget, none.clone(), none], 0);
        let bias = parameters.get::<1>(&format!("{name}.bias")) + offset;
        Lstm { inputs: parameters.get(&format!("{name}.inputs")), state, bias: bias.unsqueeze(), units }
    }

    /// The state before the first step.
    pub fn start(&self, batch: usize) -> LstmState<B> {
        let zeros = Tensor::zeros([batch, self.units], &self.state.device());
        LstmState { output: zeros.clone(), memory: zeros }
    }

    /// One step from gates without the part of the state.
    fn advance(&self, gates: Tensor<B, 2>, before: LstmState<B>) -> LstmState<B> {
        let [batch, _] = gates.dims();
        let n = self.units;
        let gates = gates + before.output.matmul(self.state.clone());
        let open = activation::sigmoid(gates.clone().slice([0..batch, 0..3 * n]));
        let candidate = gates.slice([0..batch, 3 * n..4 * n]).tanh();
        let gate = |k: usize| open.clone().slice([0..batch, k * n..(k + 1) * n]);
        let memory = gate(1) * before.memory + gate(0) * candidate;
        LstmState { output: gate(2) * memory.clone().tanh(), memory }
    }

    /// One step with inputs (B, inputs).
    pub fn step(&self, inputs: Tensor<B, 2>, before: LstmState<B>) -> LstmState<B> {
        self.advance(inputs.matmul(self.inputs.clone()) + self.bias.clone(), before)
    }

    /// The outputs of all steps, (B, T, inputs) → (B, T, units); with `backward`, from the last to the first.
    pub fn run(&self, inputs: Tensor<B, 3>, backward: bool) -> Tensor<B, 3> {
        let [batch, steps, size] = inputs.dims();
        let gates = inputs.reshape([batch * steps, size]).matmul(self.inputs.clone()) + self.bias.clone();
        let gates = gates.reshape([batch, steps, 4 * self.units]);
        let mut state = self.start(batch);
        let mut outputs = Vec::with_capacity(steps);
        for k in 0..steps {
            let t = if backward { steps - 1 - k } else { k };
            let own = gates.clone().slice([0..batch, t..t + 1]).reshape([batch, 4 * self.units]);
            state = self.advance(own, state);
            outputs.push(state.output.clone());
        }
        if backward {
            outputs.reverse();
        }
        Tensor::stack(outputs, 1)
    }
}

/// Layer normalisation of the last dimension.
pub fn normalise<B: Backend>(rows: Tensor<B, 2>, scale: Tensor<B, 1>, shift: Tensor<B, 1>) -> Tensor<B, 2> {
    let centred = rows.clone() - rows.mean_dim(1);
    let variance = centred.clone().powi_scalar(2).mean_dim(1);
    centred / (variance + 1e-5).sqrt() * scale.unsqueeze::<2>() + shift.unsqueeze::<2>()
}

/// Attention of (B, T, 3·size) queries, keys and values with several heads; with `causal`, to earlier places only.
pub fn attention<B: Backend>(all: Tensor<B, 3>, heads: usize, causal: bool) -> Tensor<B, 3> {
    let [batch, steps, three] = all.dims();
    let (size, each) = (three / 3, three / 3 / heads);
    let part = |k: usize| {
        let own = all.clone().slice([0..batch, 0..steps, k * size..(k + 1) * size]);
        own.reshape([batch, steps, heads, each]).swap_dims(1, 2)
    };
    let mut scores = part(0).matmul(part(1).swap_dims(2, 3)) / (each as f64).sqrt();
    if causal {
        let mask = Tensor::<B, 2>::ones([steps, steps], &scores.device()).triu(1) * -1e9;
        scores = scores + mask.unsqueeze::<4>();
    }
    activation::softmax(scores, 3).matmul(part(2)).swap_dims(1, 2).reshape([batch, steps, size])
}
