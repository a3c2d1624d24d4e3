//! A frozen GPT-2 as encoder: weights from safetensors, byte-level BPE from its vocabulary and merges.
//!
//! The folder has the files of the published models: `model.safetensors`, `config.json`, `vocab.json` and
//! `merges.txt`. A word sees only the words before it, as GPT-2 was trained.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use burn_tensor::backend::Backend;
use burn_tensor::{Int, Tensor, TensorData};
use safetensors::SafeTensors;
use tokenizers::Decoder;
use tokenizers::models::bpe::BPE;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;

use crate::checkpoint::floats;
use crate::layers::{attention, normalise};
use crate::parameters::{Numbers, Parameters};

/// The mark between texts.
const MARK: &str = "<|endoftext|>";

/// GPT-2's byte-level BPE.
pub struct Tokenizer {
    inner: tokenizers::Tokenizer,
    end: u32,
    size: usize,
}

impl Tokenizer {
    /// From `vocab.json` and `merges.txt` of a folder.
    ///
    /// # Errors
    /// If a file is missing or not of this form, or the vocabulary lacks the mark between texts.
    pub fn read(folder: &Path) -> Result<Self> {
        let file = |name: &str| folder.join(name).display().to_string();
        for name in ["vocab.json", "merges.txt"] {
            std::fs::metadata(folder.join(name)).with_context(|| format!("cannot read {}", file(name)))?;
        }
        let bpe = BPE::from_file(&file("vocab.json"), &file("merges.txt"))
            .build()
            .map_err(|error| anyhow!("{}: not the files of a BPE tokenizer: {error}", folder.display()))?;
        let mut inner = tokenizers::Tokenizer::new(bpe);
        inner.with_pre_tokenizer(Some(ByteLevel::new(false, true, true)));
        let Some(end) = inner.token_to_id(MARK) else {
            bail!("{}: the vocabulary has no {MARK}", file("vocab.json"));
        };
        let size = inner.get_vocab_size(true);
        Ok(Tokenizer { inner, end, size })
    }

    /// Pieces of a line and their numbers.
    ///
    /// # Errors
    /// If the tokenizer cannot read it.
    pub fn split(&self, line: &str) -> Result<(Vec<String>, Vec<u32>)> {
        let found =
            self.inner.encode(line, false).map_err(|error| anyhow!("cannot split a line: {error}"))?;
        Ok((found.get_tokens().to_vec(), found.get_ids().to_vec()))
    }

    /// The text of pieces.
    ///
    /// # Errors
    /// If the tokenizer cannot join them.
    pub fn join(&self, pieces: Vec<String>) -> Result<String> {
        // A decoder of bytes: a space is part of the piece that follows it.
        let text =
            ByteLevel::default().decode(pieces).map_err(|error| anyhow!("cannot join pieces: {error}"))?;
        Ok(text.trim().to_owned())
    }

    /// The number of the mark between texts.
    pub fn end(&self) -> u32 {
        self.end
    }
}

/// The weights of a GPT-2.
#[derive(Clone, Debug)]
pub struct Weights {
    numbers: Numbers,
    heads: usize,
    layers: usize,
    size: usize,
    positions: usize,
    fingerprint: u64,
}

impl Weights {
    /// From `model.safetensors` and `config.json` of a folder; they must fit its tokenizer.
    ///
    /// # Errors
    /// If a file is missing, damaged or of another model, or the vocabulary has another size than the weights.
    pub fn read(folder: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        let path = folder.join("config.json");
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let config: serde_json::Value =
            serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
        let heads = config.get("n_head").and_then(serde_json::Value::as_u64).unwrap_or(0) as usize;
        let path = folder.join("model.safetensors");
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let file = SafeTensors::deserialize(&bytes)
            .map_err(|error| anyhow!("{} is damaged or no safetensors file: {error}", path.display()))?;
        let mut numbers = Numbers::new();
        for (name, view) in file.tensors() {
            let name = name.strip_prefix("transformer.").unwrap_or(&name).to_owned();
            // Masks of attention are stored by some programs, and made here.
            if name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") || name == "lm_head.weight"
            {
                continue;
            }
            let values = floats(&view).with_context(|| format!("{}: tensor `{name}`", path.display()))?;
            numbers.insert(name, (view.shape().to_vec(), values));
        }
        let mut found = Weights::check(numbers, heads).with_context(|| format!("{}", path.display()))?;
        let words = found.numbers["wte.weight"].0[0];
        if words != tokenizer.size {
            bail!(
                "{}: the weights have {words} pieces, the tokenizer {}; the files are of different models",
                folder.display(),
                tokenizer.size
            );
        }
        found.fingerprint = found.hash(tokenizer);
        Ok(found)
    }

    /// FNV-1a of names, shapes and numbers of all tensors, the heads and the vocabulary.
    fn hash(&self, tokenizer: &Tokenizer) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |x: u64| hash = (hash ^ x).wrapping_mul(0x0100_0000_01b3);
        add(self.heads as u64);
        for (name, (shape, values)) in &self.numbers {
            name.bytes().for_each(|byte| add(u64::from(byte)));
            shape.iter().for_each(|&size| add(size as u64));
            values.iter().for_each(|x| add(u64::from(x.to_bits())));
        }
        let mut words: Vec<(u32, String)> =
            tokenizer.inner.get_vocab(true).into_iter().map(|(word, number)| (number, word)).collect();
        words.sort_unstable();
        for (number, word) in words {
            add(u64::from(number));
            word.bytes().for_each(|byte| add(u64::from(byte)));
        }
        hash
    }

    /// A fingerprint of the weights and the vocabulary: the same for the same numbers, whatever their type in the file.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    fn check(numbers: Numbers, heads: usize) -> Result<Self> {
        let shape = |name: &str| -> Result<&Vec<usize>> {
            Ok(&numbers.get(name).ok_or_else(|| anyhow!("there is no tensor `{name}`; expected a GPT-2"))?.0)
        };
        let [_, size] = shape("wte.weight")?[..] else { bail!("`wte.weight` has another rank than 2") };
        let [positions, _] = shape("wpe.weight")?[..] else { bail!("`wpe.weight` has another rank than 2") };
        let layers =
            (0..).take_while(|layer| numbers.contains_key(&format!("h.{layer}.ln_1.weight"))).count();
        if layers == 0 || heads == 0 || size % heads != 0 {
            bail!("{layers} layers, {heads} heads and vectors of {size} numbers do not make a GPT-2");
        }
        for layer in 0..layers {
            let wanted = [
                ("ln_1.weight", vec![size]),
                ("ln_1.bias", vec![size]),
                ("attn.c_attn.weight", vec![size, 3 * size]),
                ("attn.c_attn.bias", vec![3 * size]),
                ("attn.c_proj.weight", vec![size, size]),
                ("attn.c_proj.bias", vec![size]),
                ("ln_2.weight", vec![size]),
                ("ln_2.bias", vec![size]),
                ("mlp.c_fc.weight", vec![size, 4 * size]),
                ("mlp.c_fc.bias", vec![4 * size]),
                ("mlp.c_proj.weight", vec![4 * size, size]),
                ("mlp.c_proj.bias", vec![size]),
            ];
            for (name, wanted) in wanted {
                let name = format!("h.{layer}.{name}");
                let found = shape(&name)?;
                if *found != wanted {
                    bail!("tensor `{name}` has shape {found:?}, expected {wanted:?}");
                }
            }
        }
        for name in ["ln_f.weight", "ln_f.bias"] {
            shape(name)?;
        }
        Ok(Weights { numbers, heads, layers, size, positions, fingerprint: 0 })
    }

    /// The size of the outputs.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The longest text.
    pub fn positions(&self) -> usize {
        self.positions
    }
}

/// A GPT-2 on a device.
pub struct Gpt2<B: Backend> {
    parameters: Parameters<B>,
    heads: usize,
    layers: usize,
    size: usize,
    device: B::Device,
}

impl<B: Backend> Gpt2<B> {
    /// Copies the weights to a device.
    pub fn new(weights: &Weights, device: &B::Device) -> Self {
        let Weights { numbers, heads, layers, size, .. } = weights;
        let parameters = Parameters::from_numbers(numbers, device);
        Gpt2 { parameters, heads: *heads, layers: *layers, size: *size, device: device.clone() }
    }

    fn linear(&self, name: &str, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        let bias = self.parameters.get::<1>(&format!("{name}.bias"));
        rows.matmul(self.parameters.get::<2>(&format!("{name}.weight"))) + bias.unsqueeze::<2>()
    }

    fn norm(&self, name: &str, rows: Tensor<B, 2>) -> Tensor<B, 2> {
        let of = |part: &str| self.parameters.get::<1>(&format!("{name}.{part}"));
        normalise(rows, of("weight"), of("bias"))
    }

    /// The outputs of the last layer for sentences of equal length, (B, T, size).
    pub fn features(&self, pieces: &[Vec<u32>]) -> Tensor<B, 3> {
        let (batch, steps) = (pieces.len(), pieces.first().map_or(0, Vec::len));
        let rows = batch * steps;
        let numbers: Vec<i64> = pieces.iter().flatten().map(|&piece| i64::from(piece)).collect();
        let numbers = Tensor::<B, 1, Int>::from_data(TensorData::new(numbers, [rows]), &self.device);
        let places = self.parameters.get::<2>("wpe.weight").narrow(0, 0, steps).unsqueeze::<3>();
        let vectors = self.parameters.get::<2>("wte.weight").select(0, numbers);
        let mut x = (vectors.reshape([batch, steps, self.size]) + places).reshape([rows, self.size]);
        for layer in 0..self.layers {
            let name = |part: &str| format!("h.{layer}.{part}");
            let all = self.linear(&name("attn.c_attn"), self.norm(&name("ln_1"), x.clone()));
            let joined = attention(all.reshape([batch, steps, 3 * self.size]), self.heads, true);
            x = x + self.linear(&name("attn.c_proj"), joined.reshape([rows, self.size]));
            let wide = gelu(self.linear(&name("mlp.c_fc"), self.norm(&name("ln_2"), x.clone())));
            x = x + self.linear(&name("mlp.c_proj"), wide);
        }
        self.norm("ln_f", x).reshape([batch, steps, self.size])
    }
}

/// GPT-2's form of GELU, with tanh.
fn gelu<B: Backend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    let inside = (x.clone() + x.clone().powi_scalar(3) * 0.044_715) * (2.0 / std::f64::consts::PI).sqrt();
    x * (inside.tanh() + 1.0) * 0.5
}
