//! Joint taggers and training checkpoints in `.zhat` files.
//!
//! A tagger (kind `joint-tagger`) has the metadata `tags`, `words` and `features` (JSON: a list of tags, a list of words
//! with the boundary first, and one list of features per offset), `bound`, `training`, and the tensors
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `context` | U64 \[1\] | K |
//! | `pairs` | F32 \[K, T + 1, T + 1\] | V, the separator last |
//! | `weights` | F32 \[F, T + 1\] | u, for the features of all offsets |
//! | `words` | F32 \[W\] or \[0\] | scores of words |
//! | `duals` | F64 \[n\] | dual variables of the bound |
//!
//! A checkpoint (kind `joint-tagger-checkpoint`) has the vectors of L-BFGS as tensors, and everything else as JSON in
//! its metadata.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::super::{Dictionary, TagSet};
use super::objective::Layout;
use super::training::{Training, TrainingCheckpoint, TrainingProgress};
use super::{Bound, JointTagger, Lexicon, Trained};
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::write_atomically;
use crate::optimize::Lbfgs;
use crate::tensor::{Tensor, TensorMap};

/// The kind in the metadata of a tagger.
pub const KIND: &str = "joint-tagger";
const CHECKPOINT: &str = "joint-tagger-checkpoint";

fn json<T: serde::de::DeserializeOwned>(tensors: &TensorMap, name: &str) -> Result<T> {
    let found = tensors.text(name).and_then(|text| serde_json::from_str(text).ok());
    found.ok_or_else(|| tensors.error(format!("its metadata has no `{name}`")))
}

/// A dictionary of different strings.
fn dictionary(tensors: &TensorMap, names: &[String]) -> Result<Dictionary> {
    let made: Dictionary = names.iter().map(String::as_str).collect();
    if made.len() != names.len() {
        return Err(tensors.error("a word or feature occurs twice"));
    }
    Ok(made)
}

/// Reads a joint tagger; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its tensors do not form a tagger.
pub fn parse_joint_tagger(bytes: &[u8], name: &str) -> Result<JointTagger> {
    let mut tensors = tensor_file::parse_kind(bytes, name, KIND)?;
    let tags: Vec<String> = json(&tensors, "tags")?;
    let words: Vec<String> = json(&tensors, "words")?;
    let features: Vec<Vec<String>> = json(&tensors, "features")?;
    let bound: Bound = json(&tensors, "bound")?;
    let context = tensors.integers("context")?.first().copied().unwrap_or(0);
    let count = tags.len();
    let set = TagSet::new(tags.clone()).map_err(|error| tensors.error(error.to_string()))?;
    if set.names() != tags {
        return Err(tensors.error("the tags are not different or not in alphabetical order"));
    }
    if !(1..=2).contains(&context) || features.len() > 9 || features.len().is_multiple_of(2) {
        return Err(tensors.error("the context or the number of words is out of range"));
    }
    let words = dictionary(&tensors, &words)?;
    let names: Result<Vec<Dictionary>> = features.iter().map(|names| dictionary(&tensors, names)).collect();
    let lexicon = Lexicon::from_parts(words, names?).map_err(|error| tensors.error(error.to_string()))?;
    let states = count + 1;
    let pairs: Vec<f32> = tensors.take_shaped("pairs", &[context, states, states], "[K, T + 1, T + 1]")?;
    let weights: Vec<f32> = tensors.take_shaped("weights", &[lexicon.features(), states], "[F, T + 1]")?;
    let own: Vec<f32> = tensors.take("words")?;
    if !own.is_empty() && own.len() != lexicon.len() {
        return Err(tensors.error("`words` does not have one number per word"));
    }
    let duals: Vec<f64> = tensors.take("duals")?;
    let trained: Trained = json(&tensors, "training")?;
    let layout = Layout::new(&lexicon, states, context, !own.is_empty());
    let point: Vec<f64> = pairs.iter().chain(&weights).chain(&own).map(|&x| f64::from(x)).collect();
    if point.iter().chain(&duals).any(|x| !x.is_finite()) {
        return Err(tensors.error("a parameter is not finite"));
    }
    let tagger = JointTagger { tags: set, lexicon, layout, point, bound, duals, trained };
    let empty = tagger.field().map_err(|error| tensors.error(error.to_string()))?;
    if bound.duals(&empty) != tagger.duals.len() {
        return Err(tensors.error("`duals` does not have the length that the bound needs"));
    }
    Ok(tagger)
}

/// Writes a joint tagger; the same tagger gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_joint_tagger(tagger: &JointTagger, out: &mut dyn Write) -> std::io::Result<()> {
    let layout = &tagger.layout;
    let single: Vec<f32> = tagger.point.iter().map(|&x| x as f32).collect();
    let (pairs, rest) = single.split_at(layout.features[0]);
    let (weights, words) = rest.split_at(layout.features[tagger.lexicon.window()] - layout.features[0]);
    let states = layout.tags;
    let list = |names: &Dictionary| {
        names.names().collect::<Vec<_>>().into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let features: Vec<Vec<String>> = tagger.lexicon.features.iter().map(|own| list(&own.names)).collect();
    let texts = [
        ("tags", serde_json::to_string(tagger.tags.names())?),
        ("words", serde_json::to_string(&list(tagger.lexicon.words()))?),
        ("features", serde_json::to_string(&features)?),
        ("bound", serde_json::to_string(&tagger.bound)?),
        ("training", serde_json::to_string(&tagger.trained)?),
    ];
    let tensors = vec![
        Tensor::integers("context", &[1], [layout.context]),
        Tensor::new("pairs", &[layout.context, states, states], pairs),
        Tensor::new("weights", &[weights.len() / states, states], weights),
        Tensor::new("words", &[words.len()], words),
        Tensor::new("duals", &[tagger.duals.len()], tagger.duals.as_slice()),
    ];
    TensorFile::new(KIND, texts, tensors).write(out)
}

/// Reads a joint tagger from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_joint_tagger`].
pub fn read_joint_tagger(path: &Path) -> Result<JointTagger> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_joint_tagger(&bytes, &path.display().to_string())
}

/// The parts of a checkpoint that are not vectors.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Training,
    data: Vec<u64>,
    iteration: usize,
    best_iteration: usize,
    valid: Option<f64>,
    idle: usize,
    recent: Vec<f64>,
    history: usize,
    has_value: bool,
    has_best: bool,
}

/// Writes a training checkpoint atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_checkpoint(now: &TrainingCheckpoint, path: &Path) -> Result<()> {
    let (point, history, here, pairs) = now.search.parts();
    let rest = Rest {
        how: now.how.clone(),
        data: now.data.clone(),
        iteration: now.progress.iteration,
        best_iteration: now.progress.best,
        valid: now.progress.valid,
        idle: now.idle,
        recent: now.recent.clone(),
        history,
        has_value: here.is_some(),
        has_best: now.best.is_some(),
    };
    let (size, count) = (point.len(), pairs.len());
    let numbers = vec![
        now.progress.objective,
        now.progress.stationarity,
        now.least,
        now.best_value,
        here.map_or(0.0, |here| here.0),
    ];
    let mut tensors = vec![Tensor::new("point", &[size], point), Tensor::new("numbers", &[5], numbers)];
    if let Some((_, gradient)) = here {
        tensors.push(Tensor::new("gradient", &[size], gradient));
    }
    if let Some(best) = &now.best {
        tensors.push(Tensor::new("best", &[size], best.as_slice()));
    }
    let pieces = pairs.flat_map(|(s, y)| [s, y]).map(Cow::Borrowed).collect();
    tensors.push(Tensor::of_pieces::<f64>("pairs", &[count, 2, size], pieces));
    let text = serde_json::to_string(&rest).map_err(|error| Error::io(path, error.into()))?;
    let file = TensorFile::new(CHECKPOINT, [("state", text)], tensors);
    write_atomically(path, |out| file.write(out))
}

/// Reads a training checkpoint.
///
/// # Errors
/// If the file cannot be read or is not a checkpoint of a joint tagger.
pub fn read_checkpoint(path: &Path) -> Result<TrainingCheckpoint> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let mut tensors = tensor_file::parse_kind(&bytes, &path.display().to_string(), CHECKPOINT)?;
    let rest: Rest = json(&tensors, "state")?;
    let point: Vec<f64> = tensors.take("point")?;
    let size = point.len();
    let numbers: Vec<f64> = tensors.take_shaped("numbers", &[5], "[5]")?;
    let [objective, stationarity, least, best_value, value] = numbers[..] else {
        return Err(tensors.error("`numbers` does not have five"));
    };
    let here = match rest.has_value {
        true => Some((value, tensors.take_shaped::<f64>("gradient", &[size], "[n]")?)),
        false => None,
    };
    let best = match rest.has_best {
        true => Some(tensors.take_shaped::<f64>("best", &[size], "[n]")?),
        false => None,
    };
    let count = tensors.shape("pairs")?.first().copied().unwrap_or(0);
    let pairs: Vec<f64> = tensors.take_shaped("pairs", &[count, 2, size], "[m, 2, n]")?;
    let pairs = pairs.chunks_exact((2 * size).max(1)).map(|pair| {
        let (s, y) = pair.split_at(size);
        (s.to_vec(), y.to_vec())
    });
    let search = Lbfgs::from_parts(point, rest.history, here, pairs.collect());
    let progress = TrainingProgress {
        iteration: rest.iteration,
        objective,
        valid: rest.valid,
        best: rest.best_iteration,
        stationarity,
    };
    Ok(TrainingCheckpoint {
        how: rest.how,
        data: rest.data,
        progress,
        search,
        least,
        best_value,
        best,
        idle: rest.idle,
        recent: rest.recent,
    })
}
