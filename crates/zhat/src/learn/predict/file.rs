//! Predictors and training checkpoints in `.zhat` files.
//!
//! A predictor (kind `predictor`) has the tensor `parameters` (F64 \[n\]): one row of weights per encoded input,
//! the bias last, then the constants. Its metadata `form`, `names`, `encoder` and `training` are JSON. A checkpoint (kind
//! `predictor-checkpoint`) has the vectors of the optimiser as tensors and the rest as JSON.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::predictor::Training;
use super::train::{PredictorCheckpoint, PredictorProgress, Search};
use super::{Encoder, Form, Learning, Predictor, Regret};
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::write_atomically;
use crate::optimize::Lbfgs;
use crate::tensor::{Tensor, TensorMap};

const KIND: &str = "predictor";
const CHECKPOINT: &str = "predictor-checkpoint";

/// Reads a number that is null in JSON if it is not known.
pub(super) fn known<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or(f64::NAN))
}

/// A JSON text of the metadata.
fn text<T: DeserializeOwned>(tensors: &TensorMap, name: &str) -> Result<T> {
    let found = tensors.text(name).ok_or_else(|| tensors.error(format!("its metadata has no `{name}`")))?;
    serde_json::from_str(found).map_err(|error| tensors.error(format!("its metadata `{name}`: {error}")))
}

/// Reads a predictor; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its parts do not form a predictor.
pub fn parse_predictor(bytes: &[u8], name: &str) -> Result<Predictor> {
    let mut tensors = tensor_file::parse_kind(bytes, name, KIND)?;
    let form: Form = text(&tensors, "form")?;
    let names: Vec<String> = text(&tensors, "names")?;
    let encoder: Encoder = text(&tensors, "encoder")?;
    let training: Training = text(&tensors, "training")?;
    let parameters: Vec<f64> = tensors.take("parameters")?;
    Predictor::new(form, names, encoder, parameters, training)
        .map_err(|error| tensors.error(error.to_string()))
}

/// Reads a predictor from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_predictor`].
pub fn read_predictor(path: &Path) -> Result<Predictor> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_predictor(&bytes, &path.display().to_string())
}

/// Writes a predictor; the same predictor gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_predictor(predictor: &Predictor, out: &mut dyn Write) -> std::io::Result<()> {
    let texts = [
        ("form", serde_json::to_string(predictor.form())?),
        ("names", serde_json::to_string(predictor.names())?),
        ("encoder", serde_json::to_string(predictor.encoder())?),
        ("training", serde_json::to_string(predictor.training())?),
    ];
    let parameters = predictor.parameters();
    let tensors = vec![Tensor::new("parameters", &[parameters.len()], parameters)];
    TensorFile::new(KIND, texts, tensors).write(out)
}

/// The parts of a checkpoint that are not vectors. Infinite numbers are absent in JSON.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Learning,
    data: u64,
    step: usize,
    objective: Option<f64>,
    gap: Option<f64>,
    certified: bool,
    first_gap: Option<f64>,
    least: Option<f64>,
    idle: usize,
    /// L-BFGS: the maximum number of pairs, and the value at the point.
    history: usize,
    value: Option<f64>,
    /// Sampled and online training: number of steps whose radius was too large.
    #[serde(default)]
    noisy: usize,
    /// Online training: the sums of its steps.
    sums: Option<Regret>,
}

fn finite(number: f64) -> Option<f64> {
    number.is_finite().then_some(number)
}

/// Writes a training checkpoint atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_predictor_checkpoint(now: &PredictorCheckpoint, path: &Path) -> Result<()> {
    let mut rest = Rest {
        how: now.how,
        data: now.data,
        step: now.progress.step,
        objective: finite(now.progress.objective),
        gap: finite(now.progress.gap),
        certified: now.progress.certified,
        first_gap: finite(now.first_gap),
        least: finite(now.least),
        idle: now.idle,
        history: 0,
        value: None,
        noisy: 0,
        sums: None,
    };
    let mut tensors = Vec::new();
    match &now.search {
        Search::Lbfgs(lbfgs) => {
            let (point, history, here, pairs) = lbfgs.parts();
            (rest.history, rest.value) = (history, here.map(|here| here.0));
            let (size, count) = (point.len(), pairs.len());
            tensors.push(Tensor::new("point", &[size], point));
            if let Some((_, gradient)) = here {
                tensors.push(Tensor::new("gradient", &[size], gradient));
            }
            let pieces = pairs.flat_map(|(s, y)| [s, y]).map(Cow::Borrowed).collect();
            tensors.push(Tensor::of_pieces::<f64>("pairs", &[count, 2, size], pieces));
        }
        Search::Sampled { point, ahead, best, noisy } => {
            rest.noisy = *noisy;
            for (name, vector) in [("point", point), ("ahead", ahead), ("best", best)] {
                tensors.push(Tensor::new(name, &[vector.len()], vector.as_slice()));
            }
        }
        Search::Online { point, average, noisy, sums } => {
            (rest.noisy, rest.sums) = (*noisy, Some(*sums));
            for (name, vector) in [("point", point), ("average", average)] {
                tensors.push(Tensor::new(name, &[vector.len()], vector.as_slice()));
            }
        }
    }
    let text = serde_json::to_string(&rest).map_err(|error| Error::io(path, error.into()))?;
    let file = TensorFile::new(CHECKPOINT, [("state", text)], tensors);
    write_atomically(path, |out| file.write(out))
}

/// Reads a training checkpoint.
///
/// # Errors
/// If the file cannot be read or is not a checkpoint of a predictor.
pub fn read_predictor_checkpoint(path: &Path) -> Result<PredictorCheckpoint> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let mut tensors = tensor_file::parse_kind(&bytes, &path.display().to_string(), CHECKPOINT)?;
    let rest: Rest = text(&tensors, "state")?;
    let point: Vec<f64> = tensors.take("point")?;
    let size = point.len();
    let search = if tensors.has("average") {
        let average = tensors.take_shaped("average", &[size], "[n]")?;
        let sums = rest.sums.unwrap_or_else(|| Regret::new(&rest.how, false));
        Search::Online { point, average, noisy: rest.noisy, sums }
    } else if tensors.has("ahead") {
        let ahead = tensors.take_shaped("ahead", &[size], "[n]")?;
        let best = tensors.take_shaped("best", &[size], "[n]")?;
        Search::Sampled { point, ahead, best, noisy: rest.noisy }
    } else {
        let here = match rest.value {
            Some(value) => Some((value, tensors.take_shaped::<f64>("gradient", &[size], "[n]")?)),
            None => None,
        };
        let count = tensors.shape("pairs")?.first().copied().unwrap_or(0);
        let pairs: Vec<f64> = tensors.take_shaped("pairs", &[count, 2, size], "[m, 2, n]")?;
        let pairs = pairs.chunks_exact((2 * size).max(1)).map(|pair| {
            let (s, y) = pair.split_at(size);
            (s.to_vec(), y.to_vec())
        });
        Search::Lbfgs(Lbfgs::from_parts(point, rest.history, here, pairs.collect()))
    };
    let or_infinite = |number: Option<f64>| number.unwrap_or(f64::INFINITY);
    Ok(PredictorCheckpoint {
        how: rest.how,
        data: rest.data,
        progress: PredictorProgress {
            step: rest.step,
            objective: rest.objective.unwrap_or(f64::NAN),
            gap: or_infinite(rest.gap),
            certified: rest.certified,
        },
        first_gap: or_infinite(rest.first_gap),
        least: or_infinite(rest.least),
        idle: rest.idle,
        search,
    })
}

#[cfg(test)]
mod tests;
