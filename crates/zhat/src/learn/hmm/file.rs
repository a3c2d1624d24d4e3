//! Hidden Markov models and training checkpoints in `.zhat` files.
//!
//! A model (kind `hmm`) has the metadata `family` and `layout`, both JSON, and tensors of N states, D columns, V
//! symbols and K components, all F64:
//!
//! | tensor | content |
//! |---|---|
//! | `start` \[N\] | start probabilities |
//! | `transitions` \[N, N\] | transition probabilities, row i from state i |
//! | `probabilities` \[N, V\] | categorical: probabilities of the symbols |
//! | `rates` \[N, D\] | poisson |
//! | `means` \[N, D\] | gaussian; \[N·K, D\] for mixtures |
//! | `covariances` | \[N\], \[N, D\], \[N, D, D\] or \[D, D\] for spherical, diagonal, full and tied ones |
//! | `weights` \[N, K\] | mixture |
//! | `durations` \[N, M\] | optional: probabilities of the durations 1 … M |
//! | `duration_shapes` \[N, 2\] | optional: r and q of negative binomial durations |
//!
//! The optional metadata `ties` is a JSON list with the group of every state.
//!
//! A checkpoint (kind `hmm-checkpoint`) has the current and the best model, with the prefixes `model.` and `best.`,
//! the tensor `average` of stochastic EM, the tensors `point`, `gradient` and `pairs` of L-BFGS, and the rest as JSON.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::any::KIND;
use super::durations::Durations;
use super::emission::{Categorical, Emissions, Gaussian, Mixture, Poisson};
use super::forecast::Sizes;
use super::initial::Family;
use super::learning::Learning;
use super::model::Hmm;
use super::train::{Best, HmmCheckpoint, HmmProgress};
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::write_atomically;
use crate::optimize::Lbfgs;
use crate::tensor::{Tensor, TensorMap};

const CHECKPOINT: &str = "hmm-checkpoint";

fn json<T: Serialize>(value: &T) -> String {
    // These types have no maps and no values that JSON cannot hold.
    serde_json::to_string(value).unwrap_or_default()
}

fn text<T: DeserializeOwned>(tensors: &TensorMap, name: &str) -> Result<T> {
    let found = tensors.text(name).ok_or_else(|| tensors.error(format!("its metadata has no `{name}`")))?;
    serde_json::from_str(found).map_err(|error| tensors.error(format!("its metadata `{name}`: {error}")))
}

pub(super) fn texts(hmm: &Hmm) -> Vec<(&'static str, String)> {
    let mut texts = vec![("family", json(&hmm.family())), ("layout", json(&hmm.layout))];
    if !hmm.ties.is_empty() {
        texts.push(("ties", json(&hmm.ties)));
    }
    texts
}

/// The tensors of a model, with a prefix.
pub(super) fn tensors<'a>(hmm: &'a Hmm, prefix: &str) -> Vec<Tensor<'a>> {
    let states = hmm.states();
    let mut all = vec![
        Tensor::new("start", &[states], hmm.start.as_slice()),
        Tensor::new("transitions", &[states, states], hmm.transitions.as_slice()),
    ];
    all.extend(hmm.emissions.part().tensors());
    if let Some(durations) = &hmm.durations {
        all.push(Tensor::new("durations", &[states, durations.longest()], durations.probabilities()));
        if !durations.shapes().is_empty() {
            all.push(Tensor::new("duration_shapes", &[states, 2], durations.shapes()));
        }
    }
    if prefix.is_empty() {
        return all;
    }
    let renamed = |tensor: Tensor<'a>| {
        let (name, shape) = (format!("{prefix}{}", tensor.name()), tensor.shape().to_vec());
        Tensor::from_parts(name, shape, tensor.into_data())
    };
    all.into_iter().map(renamed).collect()
}

/// Takes a model out of tensors with a prefix.
pub(super) fn model_of(tensors: &mut TensorMap, prefix: &str) -> Result<Hmm> {
    let family: Family = text(tensors, "family")?;
    let layout = text(tensors, "layout")?;
    let name = |own: &str| format!("{prefix}{own}");
    let start: Vec<f64> = tensors.take(&name("start"))?;
    let states = start.len();
    let transitions = tensors.take_shaped(&name("transitions"), &[states, states], "[N, N]")?;
    let columns_of = |tensors: &TensorMap, own: &str| -> Result<usize> {
        let shape = tensors.shape(&name(own))?;
        match shape[..] {
            [_, columns] => Ok(columns),
            _ => Err(tensors.error(format!("the tensor `{own}` has shape {shape:?}, expected two axes"))),
        }
    };
    let normals = |tensors: &mut TensorMap, states: usize, form: super::Covariance| -> Result<Gaussian> {
        let columns = columns_of(tensors, "means")?;
        let means = tensors.take_shaped(&name("means"), &[states, columns], "[N, D]")?;
        let shape = form.shape(states, columns);
        let covariances = tensors.take_shaped(&name("covariances"), &shape, "the shape of its form")?;
        Ok(Gaussian { states, columns, form, means, covariances })
    };
    let emissions = match family {
        Family::Categorical { symbols } => {
            let probabilities = tensors.take_shaped(&name("probabilities"), &[states, symbols], "[N, V]")?;
            Emissions::Categorical(Categorical { states, symbols, probabilities })
        }
        Family::Gaussian { covariance } => Emissions::Gaussian(normals(tensors, states, covariance)?),
        Family::Poisson => {
            let columns = columns_of(tensors, "rates")?;
            let rates = tensors.take_shaped(&name("rates"), &[states, columns], "[N, D]")?;
            Emissions::Poisson(Poisson { states, columns, rates })
        }
        Family::Mixture { components, covariance } => {
            let weights = tensors.take_shaped(&name("weights"), &[states, components], "[N, K]")?;
            let all = states.saturating_mul(components);
            let normals = normals(tensors, all, covariance)?;
            Emissions::Mixture(Mixture { states, components, weights, normals })
        }
    };
    let durations = if tensors.has(&name("durations")) {
        let longest = columns_of(tensors, "durations")?;
        let probabilities = tensors.take_shaped(&name("durations"), &[states, longest], "[N, M]")?;
        let shapes = match tensors.has(&name("duration_shapes")) {
            true => tensors.take_shaped(&name("duration_shapes"), &[states, 2], "[N, 2]")?,
            false => Vec::new(),
        };
        let made = Durations::stored(states, longest, probabilities, shapes);
        Some(made.map_err(|error| tensors.error(error.to_string()))?)
    } else {
        None
    };
    let ties = if tensors.text("ties").is_some() { text(tensors, "ties")? } else { Vec::new() };
    let made = Hmm { start, transitions, emissions, ties, durations, layout };
    made.checked().map_err(|error| tensors.error(error.to_string()))
}

/// Reads a model; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its parts do not form a model.
pub fn parse_hmm(bytes: &[u8], name: &str) -> Result<Hmm> {
    model_of(&mut tensor_file::parse_kind(bytes, name, KIND.name())?, "")
}

/// Reads a model from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_hmm`].
pub fn read_hmm(path: &Path) -> Result<Hmm> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_hmm(&bytes, &path.display().to_string())
}

/// Writes a model; the same model gives the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_hmm(hmm: &Hmm, out: &mut dyn Write) -> std::io::Result<()> {
    TensorFile::new(KIND.name(), texts(hmm), tensors(hmm, "")).write(out)
}

/// The parts of a checkpoint that are not tensors. The objective is absent before the first step.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Learning,
    data: u64,
    start: usize,
    step: usize,
    objective: Option<u64>,
    before: Option<u64>,
    best: Option<(usize, u64, usize, bool)>,
    updates: u64,
    finished: Option<bool>,
    /// The number of pairs that L-BFGS keeps, and the bits of the value at its point.
    search: Option<(usize, Option<u64>)>,
}

/// Writes a training checkpoint atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_hmm_checkpoint(now: &HmmCheckpoint, path: &Path) -> Result<()> {
    let HmmProgress { start, step, objective } = now.progress;
    // Bits, because decimal numbers would have to be read back exactly.
    let best =
        now.best.as_ref().map(|best| (best.start, best.objective.to_bits(), best.steps, best.converged));
    let rest = Rest {
        how: now.how.clone(),
        data: now.data,
        start,
        step,
        objective: objective.is_finite().then_some(objective.to_bits()),
        before: now.before.is_finite().then_some(now.before.to_bits()),
        best,
        updates: now.updates,
        finished: now.finished,
        search: now.search.as_ref().map(|search| {
            let (_, history, here, _) = search.parts();
            (history, here.map(|(value, _)| value.to_bits()))
        }),
    };
    let mut texts = texts(&now.model);
    texts.push(("state", json(&rest)));
    let mut all = tensors(&now.model, "model.");
    if let Some(best) = &now.best {
        all.extend(tensors(&best.model, "best."));
    }
    all.push(Tensor::new("average", &[now.average.len()], now.average.as_slice()));
    if let Some(search) = &now.search {
        let (point, _, here, pairs) = search.parts();
        let (size, count) = (point.len(), pairs.len());
        all.push(Tensor::new("point", &[size], point));
        if let Some((_, gradient)) = here {
            all.push(Tensor::new("gradient", &[size], gradient));
        }
        let pieces = pairs.flat_map(|(s, y)| [s, y]).map(Cow::Borrowed).collect();
        all.push(Tensor::of_pieces::<f64>("pairs", &[count, 2, size], pieces));
    }
    let file = TensorFile::new(CHECKPOINT, texts, all);
    write_atomically(path, |out| file.write(out))
}

/// Reads a training checkpoint.
///
/// # Errors
/// If the file cannot be read or is not a checkpoint of a hidden Markov model.
pub fn read_hmm_checkpoint(path: &Path) -> Result<HmmCheckpoint> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let mut tensors = tensor_file::parse_kind(&bytes, &path.display().to_string(), CHECKPOINT)?;
    let rest: Rest = text(&tensors, "state")?;
    let model = model_of(&mut tensors, "model.")?;
    let best = match rest.best {
        Some((start, bits, steps, converged)) => Some(Best {
            model: model_of(&mut tensors, "best.")?,
            start,
            objective: f64::from_bits(bits),
            steps,
            converged,
        }),
        None => None,
    };
    let average: Vec<f64> = tensors.take("average")?;
    let expected = Sizes::of(&model).counts();
    if !average.is_empty() && average.len() != expected {
        return Err(tensors.error(format!("`average` has {} numbers, expected {expected}", average.len())));
    }
    let search = match rest.search {
        None => None,
        Some((history, value)) => Some(search_of(&mut tensors, history, value.map(f64::from_bits))?),
    };
    let objective = rest.objective.map_or(f64::NEG_INFINITY, f64::from_bits);
    Ok(HmmCheckpoint {
        how: rest.how,
        data: rest.data,
        progress: HmmProgress { start: rest.start, step: rest.step, objective },
        model,
        best,
        average,
        updates: rest.updates,
        search,
        finished: rest.finished,
        before: rest.before.map_or(f64::NEG_INFINITY, f64::from_bits),
    })
}

/// The state of L-BFGS.
fn search_of(tensors: &mut TensorMap, history: usize, value: Option<f64>) -> Result<Lbfgs> {
    let point: Vec<f64> = tensors.take("point")?;
    let size = point.len();
    let here = match value {
        Some(value) => Some((value, tensors.take_shaped::<f64>("gradient", &[size], "[n]")?)),
        None => None,
    };
    let count = tensors.shape("pairs")?.first().copied().unwrap_or(0);
    let pairs: Vec<f64> = tensors.take_shaped("pairs", &[count, 2, size], "[m, 2, n]")?;
    let pairs = pairs.chunks_exact((2 * size).max(1)).map(|pair| {
        let (s, y) = pair.split_at(size);
        (s.to_vec(), y.to_vec())
    });
    Ok(Lbfgs::from_parts(point, history, here, pairs.collect()))
}
