//! The inference network: emissions rₜ·eᵢ of a chain from words (Fu et al. 2022, Eq. 30 and 31).

use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, activation};

use crate::config::{EncoderKind, ModelConfig};
use crate::gpt2::Gpt2;
use crate::layers::{Lstm, add_lstm, attention, embed, linear, normalise};
use crate::parameters::{Initial, Parameters};

/// Heads of the Transformer.
const HEADS: usize = 4;
/// Layers of the Transformer.
const LAYERS: usize = 2;
/// Longest sentence of the Transformer.
const POSITIONS: usize = 512;

/// Adds the parameters; `features` is the size of GPT-2's outputs.
pub fn add_parameters(initial: &mut Initial, config: &ModelConfig, words: usize, features: usize) {
    let (units, size) = (config.units, config.state_size);
    // Scores between −1 and 1 at the beginning.
    initial.add("encoder.states", &[config.states, size], (3.0 / size as f64).sqrt());
    let outputs = match config.encoder {
        EncoderKind::Lstm => {
            initial.add("encoder.words", &[words, units], 0.1);
            add_lstm(initial, "encoder.forward", units, units);
            add_lstm(initial, "encoder.backward", units, units);
            2 * units
        }
        EncoderKind::Transformer => {
            initial.add("encoder.words", &[words, units], 0.1);
            initial.add("encoder.positions", &[POSITIONS, units], 0.1);
            for layer in 0..LAYERS {
                let name = |part: &str| format!("encoder.layer{layer}.{part}");
                for part in ["before", "between"] {
                    initial.constant(&name(&format!("{part}.scale")), &[units], 1.0);
                    initial.constant(&name(&format!("{part}.shift")), &[units], 0.0);
                }
                initial.linear(&name("attention"), units, 3 * units);
                initial.linear(&name("joined"), units, units);
                initial.linear(&name("wide"), units, 4 * units);
                initial.linear(&name("narrow"), 4 * units, units);
            }
            initial.constant("encoder.last.scale", &[units], 1.0);
            initial.constant("encoder.last.shift", &[units], 0.0);
            units
        }
        EncoderKind::Gpt2 => features,
    };
    initial.linear("encoder.to_states", outputs, size);
}

/// What the encoder reads.
pub struct Sentences<B: Backend> {
    /// Numbers of words, (B, T).
    pub words: Tensor<B, 2, Int>,
    /// GPT-2's numbers of pieces, (B, T).
    pub pieces: Option<Vec<Vec<u32>>>,
}

/// Emissions (B, T, N) and state embeddings (N, D).
pub fn chain<B: Backend>(
    parameters: &Parameters<B>,
    config: &ModelConfig,
    gpt2: Option<&Gpt2<B>>,
    sentences: &Sentences<B>,
) -> (Tensor<B, 3>, Tensor<B, 2>) {
    let words = sentences.words.clone();
    let [batch, steps] = words.dims();
    let outputs = match (config.encoder, gpt2, &sentences.pieces) {
        (EncoderKind::Gpt2, Some(gpt2), Some(pieces)) => gpt2.features(pieces),
        (EncoderKind::Transformer, _, _) => transformer(parameters, words),
        _ => {
            let vectors = embed(parameters.get("encoder.words"), words);
            let ahead = Lstm::new(parameters, "encoder.forward").run(vectors.clone(), false);
            let back = Lstm::new(parameters, "encoder.backward").run(vectors, true);
            Tensor::cat(vec![ahead, back], 2)
        }
    };
    let [_, _, size] = outputs.dims();
    let reading = linear(parameters, "encoder.to_states", outputs.reshape([batch * steps, size]));
    let states = parameters.get::<2>("encoder.states");
    let emissions = reading.matmul(states.clone().transpose()).reshape([batch, steps, config.states]);
    (emissions, states)
}

fn transformer<B: Backend>(parameters: &Parameters<B>, words: Tensor<B, 2, Int>) -> Tensor<B, 3> {
    let [batch, steps] = words.dims();
    let places = parameters.get::<2>("encoder.positions");
    let [_, units] = places.dims();
    let places = places.narrow(0, 0, steps).unsqueeze::<3>();
    let mut rows = (embed(parameters.get("encoder.words"), words) + places).reshape([batch * steps, units]);
    for layer in 0..LAYERS {
        let name = |part: &str| format!("encoder.layer{layer}.{part}");
        let norm = |rows: Tensor<B, 2>, part: &str| {
            let of = |what: &str| parameters.get::<1>(&name(&format!("{part}.{what}")));
            normalise(rows, of("scale"), of("shift"))
        };
        let all = linear(parameters, &name("attention"), norm(rows.clone(), "before"));
        let joined = attention(all.reshape([batch, steps, 3 * units]), HEADS, false);
        rows = rows + linear(parameters, &name("joined"), joined.reshape([batch * steps, units]));
        let wide = activation::gelu(linear(parameters, &name("wide"), norm(rows.clone(), "between")));
        rows = rows + linear(parameters, &name("narrow"), wide);
    }
    let (scale, shift) = (parameters.get("encoder.last.scale"), parameters.get("encoder.last.shift"));
    normalise(rows, scale, shift).reshape([batch, steps, units])
}

/// The longest sentence that an encoder can read, its end included.
pub fn longest(kind: EncoderKind) -> usize {
    if kind == EncoderKind::Transformer { POSITIONS } else { usize::MAX }
}
