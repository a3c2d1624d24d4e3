//! Language models and training checkpoints in `.zhat` files.
//!
//! A language model (kind `language-model`) has the tensors of its sequence model with C states, the
//! separator first, and metadata `words` (JSON, the words of states 1, 2, …) and `bound` (`spectral` or
//! `star`):
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `lengths` | U64 \[m\] | the number of sentences with 0, 1, … words |
//! | `shares`, `columns`, `vectors` | F64 \[K\], \[K, C\], \[K, C\] | spectral bound: ρ, u_l and log r_l |
//! | `delta` | F64 \[K, C\] | star bound: δˡ |
//!
//! A checkpoint (kind `language-model-checkpoint`) has the vectors of L-BFGS or FISTA as tensors, and
//! everything else as JSON in its metadata.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::write_atomically;
use crate::learn::language::{
    Certificate, LanguageModel, Lengths, Parameters, Search, Training, TrainingCheckpoint, TrainingProgress,
    Vocabulary,
};
use crate::model::AnyModel;
use crate::model::sequence_mrf::any::{rows, sequence_mrf};
use crate::optimize::{Fista, Lbfgs, StepSize};
use crate::tensor::{Tensor, TensorMap};

const KIND: &str = "language-model";
const CHECKPOINT: &str = "language-model-checkpoint";

/// The words of a file's metadata.
pub(super) fn words(tensors: &TensorMap) -> Result<Vec<String>> {
    let words = tensors.text("words").and_then(|words| serde_json::from_str::<Vec<String>>(words).ok());
    words.ok_or_else(|| tensors.error("its metadata has no list of `words`"))
}

/// Reads a language model; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its tensors do not form a model.
pub fn parse_language_model(bytes: &[u8], name: &str) -> Result<LanguageModel> {
    let mut tensors = tensor_file::parse_kind(bytes, name, KIND)?;
    let words = words(&tensors)?;
    let states = words.len() + 1;
    let counts = tensors.integers("lengths")?.into_iter().map(|count| count as u64).collect();
    let mrf = sequence_mrf(&mut tensors)?;
    let context = mrf.context();
    let vectors = |tensors: &mut TensorMap, tensor: &str| -> Result<Vec<Vec<f64>>> {
        Ok(rows(&tensors.take_shaped::<f64>(tensor, &[context, states], "[K, C]")?, context))
    };
    let certificate = if tensors.text("bound") == Some("star") {
        Certificate::Star { delta: vectors(&mut tensors, "delta")? }
    } else {
        Certificate::Spectral {
            shares: tensors.take_shaped("shares", &[context], "[K]")?,
            columns: vectors(&mut tensors, "columns")?,
            right: vectors(&mut tensors, "vectors")?,
        }
    };
    LanguageModel::new(Vocabulary::new(words)?, Lengths::new(counts), mrf, certificate)
        .map_err(|error| tensors.error(error.to_string()))
}

/// Writes a language model; the same model gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_language_model(model: &LanguageModel, out: &mut dyn Write) -> std::io::Result<()> {
    let (states, context) = (model.mrf().states(), model.mrf().context());
    let shape = [context, states];
    let words = serde_json::to_string(model.vocabulary().words())?;
    let counts = model.lengths().counts();
    let counts = Tensor::integers("lengths", &[counts.len()], counts.iter().map(|&count| count as usize));
    let mut tensors = vec![counts];
    let bound = match model.certificate() {
        Certificate::Star { delta } => {
            tensors.push(Tensor::new("delta", &shape, delta.concat()));
            "star"
        }
        Certificate::Spectral { shares, columns, right } => {
            tensors.push(Tensor::new("shares", &[context], shares.as_slice()));
            tensors.push(Tensor::new("columns", &shape, columns.concat()));
            tensors.push(Tensor::new("vectors", &shape, right.concat()));
            "spectral"
        }
    };
    tensors.extend(model.mrf().tensors());
    TensorFile::new(KIND, [("words", words), ("bound", bound.to_owned())], tensors).write(out)
}

/// Reads a language model from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_language_model`].
pub fn read_language_model(path: &Path) -> Result<LanguageModel> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_language_model(&bytes, &path.display().to_string())
}

/// The parts of a checkpoint that are not vectors.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Training,
    data: Vec<u64>,
    progress: TrainingProgress,
    least: f64,
    best_value: f64,
    idle: usize,
    /// L-BFGS: the maximum number of pairs, and the value at the point.
    history: usize,
    value: Option<f64>,
    /// FISTA: t and L.
    momentum: Option<(f64, StepSize)>,
}

/// Writes a training checkpoint atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_checkpoint(now: &TrainingCheckpoint, path: &Path) -> Result<()> {
    let mut rest = Rest {
        how: now.how.clone(),
        data: now.data.clone(),
        progress: now.progress,
        least: now.least,
        best_value: now.best_value,
        idle: now.idle,
        history: 0,
        value: None,
        momentum: None,
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
        Search::Fista(fista) => {
            let (point, ahead, momentum, size) = fista.parts();
            rest.momentum = Some((momentum, size));
            tensors.push(Tensor::new("point", &[point.len()], point));
            tensors.push(Tensor::new("ahead", &[ahead.len()], ahead));
        }
    }
    if let Some(best) = &now.best {
        tensors.push(Tensor::new("best_columns", &[best.columns.len()], best.columns.as_slice()));
        tensors.push(Tensor::new("best", &[best.interactions.len()], best.interactions.as_slice()));
    }
    let text = serde_json::to_string(&rest).map_err(|error| Error::io(path, error.into()))?;
    let file = TensorFile::new(CHECKPOINT, [("state", text)], tensors);
    write_atomically(path, |out| file.write(out))
}

/// Reads a training checkpoint.
///
/// # Errors
/// If the file cannot be read or is not a training checkpoint.
pub fn read_checkpoint(path: &Path) -> Result<TrainingCheckpoint> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let name = path.display().to_string();
    let mut tensors = tensor_file::parse_kind(&bytes, &name, CHECKPOINT)?;
    let rest = tensors.text("state").and_then(|state| serde_json::from_str::<Rest>(state).ok());
    let rest = rest.ok_or_else(|| tensors.error("its metadata has no `state`"))?;
    let point: Vec<f64> = tensors.take("point")?;
    let size = point.len();
    let best = if tensors.has("best") {
        let best = Parameters { columns: tensors.take("best_columns")?, interactions: tensors.take("best")? };
        if best.columns.len() + best.interactions.len() != size {
            return Err(tensors.error("the tensors of the best parameters are not as long as `point`"));
        }
        Some(best)
    } else {
        None
    };
    let search = match rest.momentum {
        Some((momentum, step)) => {
            let ahead = tensors.take_shaped("ahead", &[size], "[n]")?;
            Search::Fista(Fista::from_parts(point, ahead, momentum, step))
        }
        None => {
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
        }
    };
    Ok(TrainingCheckpoint {
        how: rest.how,
        data: rest.data,
        progress: rest.progress,
        search,
        least: rest.least,
        best_value: rest.best_value,
        best,
        idle: rest.idle,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Interactions, SequenceMrf};

    fn models() -> Vec<LanguageModel> {
        let vocabulary = Vocabulary::new(vec!["a".into(), "\"é\"".into()]).unwrap();
        let lengths = Lengths::new(vec![0, 3, 1]);
        let low = Interactions::LowRank { rank: 1, left: vec![1.0, 2.0, 3.0], right: vec![vec![0.5; 3]; 2] };
        let full = Interactions::Full(vec![vec![-0.5; 9]; 2]);
        let vectors = vec![vec![0.25, -1.0, 2.0]; 2];
        let star = Certificate::Star { delta: vectors.clone() };
        let spectral =
            Certificate::Spectral { shares: vec![0.75, 0.25], columns: vectors.clone(), right: vectors };
        [(low, star), (full, spectral)]
            .map(|(interactions, certificate)| {
                let mrf = SequenceMrf::new(9, vec![0.0, -1.0, 1e300], interactions).unwrap();
                LanguageModel::new(vocabulary.clone(), lengths.clone(), mrf, certificate).unwrap()
            })
            .into()
    }

    #[test]
    fn models_are_read_back_and_broken_files_are_refused_but_never_panic() {
        for model in models() {
            let mut bytes = Vec::new();
            write_language_model(&model, &mut bytes).unwrap();
            assert_eq!(parse_language_model(&bytes, "").unwrap(), model);
            for length in 0..bytes.len() {
                assert!(parse_language_model(&bytes[..length], "").is_err());
            }
            for at in 0..bytes.len() {
                for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                    let mut altered = bytes.clone();
                    altered[at] = value;
                    let _ = parse_language_model(&altered, "");
                }
            }
            let inside = crate::io::model_file::parse(&bytes, "m.zhat").unwrap();
            assert_eq!(inside, model.mrf().clone().into());
        }
        let chain = crate::model::generate::chain::<f32>(&Default::default(), 1).unwrap();
        let bytes = crate::io::model_file::to_bytes(&chain.into());
        let message = parse_language_model(&bytes, "m.zhat").unwrap_err().to_string();
        assert!(message.contains("kind `chain`, expected `language-model`"), "{message}");
    }
}
