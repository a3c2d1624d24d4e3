//! Models and the state of their training in one safetensors file.

use std::collections::HashMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, TensorView, serialize};
use serde::{Deserialize, Serialize};

use crate::config::{ModelConfig, TrainConfig};
use crate::gpt2::Weights;
use crate::parameters::Numbers;

const FORMAT: &str = "zhat-vae";
const VERSION: u32 = 1;

/// All of a model except its numbers, and how far its training is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// The version of the format.
    pub version: u32,
    /// The model.
    pub model: ModelConfig,
    /// The training.
    pub train: TrainConfig,
    /// All words.
    pub words: Vec<String>,
    /// Longest sentence.
    pub limit: usize,
    /// Steps taken.
    pub step: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// The best objective per validation sentence, and its step.
    pub best: Option<(f64, usize)>,
    /// A fingerprint of the training sentences.
    pub text: u64,
    /// A fingerprint of GPT-2's weights and vocabulary, if the encoder is GPT-2; files of earlier programs have none.
    #[serde(default)]
    pub gpt2: Option<u64>,
}

impl Progress {
    /// Checks that these are the weights with which the model was trained.
    ///
    /// # Errors
    /// If they are others.
    pub fn require_gpt2(&self, weights: Option<&Weights>) -> Result<()> {
        match (self.gpt2, weights.map(Weights::fingerprint)) {
            (Some(own), Some(found)) if own != found => bail!(
                "the model was trained on another GPT-2: its weights have fingerprint {own:016x}, these have {found:016x}; \
                 name the folder of the right one with --gpt2 FOLDER"
            ),
            _ => Ok(()),
        }
    }
}

/// A file's contents.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    /// Everything but numbers.
    pub progress: Progress,
    /// The parameters.
    pub parameters: Numbers,
    /// Adam's moments; none in a model that is not to be trained further.
    pub moments: Option<[Numbers; 2]>,
}

impl Progress {
    /// The current version.
    pub const VERSION: u32 = VERSION;
}

const PARTS: [&str; 3] = ["parameter/", "mean/", "square/"];

impl Checkpoint {
    /// Writes to a temporary file that replaces the old one when it is complete.
    ///
    /// # Errors
    /// If the file cannot be written; the old one stays.
    pub fn write(&self, path: &Path) -> Result<()> {
        let mut all: Vec<(String, Vec<usize>, Vec<u8>)> = Vec::new();
        let moments = self.moments.as_ref();
        let parts = [Some(&self.parameters), moments.map(|m| &m[0]), moments.map(|m| &m[1])];
        for (prefix, numbers) in PARTS.iter().zip(parts) {
            for (name, (shape, values)) in numbers.into_iter().flatten() {
                let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
                all.push((format!("{prefix}{name}"), shape.clone(), bytes));
            }
        }
        let views = all
            .iter()
            .map(|(name, shape, bytes)| {
                Ok((name.clone(), TensorView::new(Dtype::F32, shape.clone(), bytes)?))
            })
            .collect::<Result<Vec<_>>>()?;
        let header = HashMap::from([(FORMAT.to_owned(), serde_json::to_string(&self.progress)?)]);
        let bytes = serialize(views, Some(header))?;
        zhat::internal::io::write_atomically(path, |out| out.write_all(&bytes))?;
        Ok(())
    }

    /// Reads a file.
    ///
    /// # Errors
    /// If it is missing, truncated, of another program or of a newer version.
    pub fn read(path: &Path) -> Result<Checkpoint> {
        let name = path.display();
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {name}"))?;
        let broken =
            |error: &dyn std::fmt::Display| anyhow!("{name} is damaged or not a model of zhat-vae: {error}");
        let (_, header) = SafeTensors::read_metadata(&bytes).map_err(|error| broken(&error))?;
        let own = header.metadata().as_ref().and_then(|list| list.get(FORMAT));
        let Some(own) = own else {
            bail!("{name} is a safetensors file, but not a model of zhat-vae");
        };
        let version = serde_json::from_str::<serde_json::Value>(own).map_err(|error| broken(&error))?;
        match version.get("version").and_then(serde_json::Value::as_u64) {
            Some(found) if found == u64::from(VERSION) => {}
            Some(found) => bail!("{name} has version {found}; this program reads version {VERSION}"),
            None => bail!(broken(&"it has no version")),
        }
        let progress: Progress = serde_json::from_str(own).map_err(|error| broken(&error))?;
        let file = SafeTensors::deserialize(&bytes).map_err(|error| broken(&error))?;
        let mut parts: [Numbers; 3] = Default::default();
        for (full, view) in file.tensors() {
            let Some(part) = PARTS.iter().position(|prefix| full.starts_with(prefix)) else {
                bail!(broken(&format!("unknown tensor `{full}`")));
            };
            let values = floats(&view).map_err(|error| broken(&error))?;
            parts[part].insert(full[PARTS[part].len()..].to_owned(), (view.shape().to_vec(), values));
        }
        let [parameters, mean, square] = parts;
        let moments = (!mean.is_empty() || !square.is_empty()).then_some([mean, square]);
        Ok(Checkpoint { progress, parameters, moments })
    }
}

/// The numbers of a tensor as `f32`.
///
/// # Errors
/// If it has another type than F32, F16 or BF16.
pub fn floats(view: &TensorView<'_>) -> Result<Vec<f32>> {
    let data = view.data();
    Ok(match view.dtype() {
        Dtype::F32 => {
            let four = data.chunks_exact(4);
            four.map(|x| f32::from_le_bytes([x[0], x[1], x[2], x[3]])).collect()
        }
        Dtype::BF16 => {
            let two = data.chunks_exact(2);
            two.map(|x| f32::from_bits(u32::from(u16::from_le_bytes([x[0], x[1]])) << 16)).collect()
        }
        Dtype::F16 => {
            let two = data.chunks_exact(2);
            two.map(|x| half(u16::from_le_bytes([x[0], x[1]]))).collect()
        }
        other => bail!("its numbers are {other:?}, expected F32, F16 or BF16"),
    })
}

/// A number of 16 bits: a sign, 5 bits of exponent and 10 of fraction.
fn half(bits: u16) -> f32 {
    let (exponent, fraction) = (u32::from(bits >> 10 & 31), u32::from(bits & 1023));
    let size = match exponent {
        0 => fraction as f32 / 16_777_216.0,
        31 => f32::from_bits(0x7f80_0000 | fraction << 13),
        _ => f32::from_bits((exponent + 112) << 23 | fraction << 13),
    };
    if bits >> 15 == 1 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::half;

    #[test]
    fn numbers_of_16_bits_are_read() {
        let wanted = [
            (0x0000, 0.0),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x3c00, 1.0),
            (0xc000, -2.0),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
        ];
        for (bits, number) in wanted {
            assert_eq!(half(bits), number, "{bits:x}");
        }
        assert!(half(0x7e00).is_nan());
    }
}
