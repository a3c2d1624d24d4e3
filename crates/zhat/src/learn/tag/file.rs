//! Taggers and training checkpoints in `.zhat` files.
//!
//! A tagger (kind `tagger`) has the tensors `parameters` (F64 \[n\]), `starts` (U64, the first parameter of every
//! attribute and the end), `state_tags`, `pairs` \[p, 2\], `triples` \[q, 3\], and the names of the attributes and
//! words: `attributes` and `words` are UTF-8 texts, eight bytes per U64, and `attribute_ends`, `word_ends` the ends
//! of their strings; hashed attributes have `slots`. Attributes whose parameters are all 0 are not written. Its
//! metadata `tags`, `options` and `training` are JSON; `training` has the options and the seed, except in older
//! files. A checkpoint (kind `tagger-checkpoint`) has the vectors of the optimiser as tensors and the rest as JSON.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::conditional::design::Design;
use super::conditional::{Best, Epochs, Learning, Search, TaggerCheckpoint, TaggerProgress, Training};
use super::examples::{Names, UNUSED};
use super::{Dictionary, TagSet, Tagger, Template};
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::write_atomically;
use crate::optimize::{Lbfgs, Memory, Owlqn};
use crate::tensor::{Tensor, TensorMap};

const KIND: &str = "tagger";
const CHECKPOINT: &str = "tagger-checkpoint";

/// The parts of a tagger that are not tensors.
#[derive(Serialize, Deserialize)]
struct Parts {
    order: usize,
    dense: usize,
    template: Option<String>,
    hashed: bool,
    with_words: bool,
}

fn text<T: DeserializeOwned>(tensors: &TensorMap, name: &str) -> Result<T> {
    let found = tensors.text(name).ok_or_else(|| tensors.error(format!("its metadata has no `{name}`")))?;
    serde_json::from_str(found).map_err(|error| tensors.error(format!("its metadata `{name}`: {error}")))
}

/// The bytes of all strings, eight per number, and their ends.
fn packed(strings: &Dictionary) -> (Vec<u64>, Vec<u64>) {
    let (mut bytes, mut ends) = (Vec::new(), Vec::with_capacity(strings.len()));
    for name in strings.names() {
        bytes.extend_from_slice(name.as_bytes());
        ends.push(bytes.len() as u64);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    (bytes.as_chunks().0.iter().map(|eight| u64::from_le_bytes(*eight)).collect(), ends)
}

fn unpacked(tensors: &TensorMap, texts: &str, ends: &str) -> Result<Dictionary> {
    let bytes: Vec<u8> =
        tensors.integers(texts)?.into_iter().flat_map(|eight| (eight as u64).to_le_bytes()).collect();
    let (mut found, mut start) = (Dictionary::default(), 0);
    for end in tensors.integers(ends)? {
        let string = bytes.get(start..end).and_then(|bytes| std::str::from_utf8(bytes).ok());
        let string = string.ok_or_else(|| tensors.error(format!("`{ends}` does not fit `{texts}`")))?;
        let number = found.len();
        if found.add(string) as usize != number {
            return Err(tensors.error(format!("`{texts}` has `{string}` twice")));
        }
        start = end;
    }
    Ok(found)
}

fn small<const K: usize>(tensors: &TensorMap, name: &str, tags: usize) -> Result<Vec<[u16; K]>> {
    let all = tensors.integers(name)?;
    let whole = all.len().is_multiple_of(K) && all.iter().all(|&tag| tag < tags);
    if !whole {
        return Err(tensors.error(format!("`{name}` has tags that the tagger does not have")));
    }
    Ok(all.as_chunks::<K>().0.iter().map(|chunk| chunk.map(|tag| tag as u16)).collect())
}

/// Reads a tagger; `name` is the file's name for messages.
///
/// # Errors
/// If the bytes are not a file of this kind, or its parts do not form a tagger.
pub fn parse_tagger(bytes: &[u8], name: &str) -> Result<Tagger> {
    let mut tensors = tensor_file::parse_kind(bytes, name, KIND)?;
    let names: Vec<String> = text(&tensors, "tags")?;
    let (parts, training): (Parts, Training) = (text(&tensors, "options")?, text(&tensors, "training")?);
    let tags = TagSet::new(names.clone()).map_err(|error| tensors.error(error.to_string()))?;
    if tags.names() != names {
        return Err(tensors.error("its tags are not in alphabetical order"));
    }
    let starts = tensors.integers("starts")?;
    let state_tags: Vec<u16> =
        small::<1>(&tensors, "state_tags", tags.len())?.into_iter().flatten().collect();
    let (pairs, triples) = (small(&tensors, "pairs", tags.len())?, small(&tensors, "triples", tags.len())?);
    let ordered = starts.first() == Some(&0)
        && starts.is_sorted()
        && starts.last() == Some(&state_tags.len())
        && parts.dense < starts.len()
        && (1..=2).contains(&parts.order);
    let rows = |attribute: usize| starts[attribute + 1] - starts[attribute] <= tags.len();
    if !ordered || !(0..starts.len() - 1).all(rows) {
        return Err(tensors.error("`starts` does not fit the other tensors"));
    }
    let attributes = starts.len() - 1;
    let names = if parts.hashed {
        let slots = tensors.integers("slots")?;
        let fits = |&slot: &usize| slot < attributes || slot == UNUSED as usize;
        if !slots.len().is_power_of_two() || !slots.iter().all(fits) {
            return Err(tensors.error("`slots` does not fit the other tensors"));
        }
        Names::Hashed { slots: slots.into_iter().map(|slot| slot as u32).collect() }
    } else {
        let names = unpacked(&tensors, "attributes", "attribute_ends")?;
        if names.len() != attributes {
            return Err(tensors.error("`starts` does not fit the names of the attributes"));
        }
        Names::Listed(names)
    };
    let words = match parts.with_words {
        true => Some(unpacked(&tensors, "words", "word_ends")?),
        false => None,
    };
    let template = parts.template.as_deref().map(Template::parse).transpose();
    let template = template.map_err(|error| tensors.error(error.to_string()))?;
    let (order, dense, count) = (parts.order, parts.dense, tags.len());
    let design = Design { tags: count, order, dense, starts, state_tags, pairs, triples };
    let parameters: Vec<f64> = tensors.take_shaped("parameters", &[design.size()], "[n]")?;
    if parameters.iter().any(|value| !value.is_finite()) {
        return Err(tensors.error("`parameters` has a number that is not finite"));
    }
    Ok(Tagger::from_parts(tags, names, design, template, parameters, training).with_words(words))
}

/// Reads a tagger from a file.
///
/// # Errors
/// If the file cannot be read; also as [`parse_tagger`].
pub fn read_tagger(path: &Path) -> Result<Tagger> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    parse_tagger(&bytes, &path.display().to_string())
}

fn integers(name: &'static str, shape: &[usize], numbers: impl Iterator<Item = usize>) -> Tensor<'static> {
    Tensor::integers(name, shape, numbers)
}

/// The attributes of a tagger that have a parameter other than 0.
struct Kept {
    dense: usize,
    starts: Vec<usize>,
    state_tags: Vec<u16>,
    parameters: Vec<f64>,
    names: Names,
}

impl Kept {
    fn of(tagger: &Tagger) -> Self {
        let (design, parameters) = (tagger.design(), tagger.parameters());
        let own = |attribute: usize| design.starts[attribute]..design.starts[attribute + 1];
        let used = |&attribute: &usize| parameters[own(attribute)].iter().any(|value| *value != 0.0);
        let attributes: Vec<usize> = (0..design.attributes()).filter(used).collect();
        let dense = attributes.partition_point(|&attribute| attribute < design.dense);
        let (mut starts, mut state_tags, mut values) = (vec![0], Vec::new(), Vec::new());
        let mut new = vec![UNUSED; design.attributes()];
        for (number, &attribute) in attributes.iter().enumerate() {
            state_tags.extend_from_slice(&design.state_tags[own(attribute)]);
            values.extend_from_slice(&parameters[own(attribute)]);
            starts.push(state_tags.len());
            new[attribute] = number as u32;
        }
        values.extend_from_slice(&parameters[design.state_tags.len()..]);
        let names = match tagger.attribute_names() {
            Names::Listed(names) => {
                Names::Listed(attributes.iter().map(|&attribute| names.name(attribute as u32)).collect())
            }
            Names::Hashed { slots } => {
                let number = |&slot: &u32| new.get(slot as usize).copied().unwrap_or(UNUSED);
                Names::Hashed { slots: slots.iter().map(number).collect() }
            }
        };
        Kept { dense, starts, state_tags, parameters: values, names }
    }
}

/// Writes a tagger without the attributes whose parameters are all 0, which change no answer. The same tagger gives
/// the same bytes.
///
/// # Errors
/// If `out` fails.
pub fn write_tagger(tagger: &Tagger, out: &mut dyn Write) -> std::io::Result<()> {
    let design = tagger.design();
    let kept = Kept::of(tagger);
    let hashed = matches!(kept.names, Names::Hashed { .. });
    let parts = Parts {
        order: design.order,
        dense: kept.dense,
        template: tagger.template().map(|template| template.text().to_owned()),
        hashed,
        with_words: tagger.words().is_some(),
    };
    let texts = [
        ("tags", serde_json::to_string(tagger.tags().names())?),
        ("options", serde_json::to_string(&parts)?),
        ("training", serde_json::to_string(tagger.training())?),
    ];
    let wide = |tags: &[u16]| tags.iter().map(|&tag| usize::from(tag)).collect::<Vec<_>>();
    let mut tensors = vec![
        Tensor::new("parameters", &[kept.parameters.len()], kept.parameters.as_slice()),
        integers("starts", &[kept.starts.len()], kept.starts.iter().copied()),
        integers("state_tags", &[kept.state_tags.len()], wide(&kept.state_tags).into_iter()),
        integers("pairs", &[design.pairs.len(), 2], wide(design.pairs.as_flattened()).into_iter()),
        integers("triples", &[design.triples.len(), 3], wide(design.triples.as_flattened()).into_iter()),
    ];
    let mut put = |strings: &Dictionary, name: &'static str, ends: &'static str| {
        let (packed, all) = packed(strings);
        tensors.push(Tensor::integers(name, &[packed.len()], packed.into_iter().map(|eight| eight as usize)));
        tensors.push(Tensor::integers(ends, &[all.len()], all.into_iter().map(|end| end as usize)));
    };
    if let Names::Listed(names) = &kept.names {
        put(names, "attributes", "attribute_ends");
    }
    if let Some(words) = tagger.words() {
        put(words, "words", "word_ends");
    }
    if let Names::Hashed { slots } = &kept.names {
        tensors.push(integers("slots", &[slots.len()], slots.iter().map(|&slot| slot as usize)));
    }
    TensorFile::new(KIND, texts, tensors).write(out)
}

/// The parts of a checkpoint that are not vectors.
#[derive(Serialize, Deserialize)]
struct Rest {
    how: Learning,
    data: u64,
    step: usize,
    objective: Option<f64>,
    stationarity: Option<f64>,
    valid: Option<f64>,
    recent: Vec<f64>,
    idle: usize,
    history: usize,
    value: Option<f64>,
    /// Stochastic gradients: the number of sentences and the first step size.
    #[serde(default)]
    epochs: Option<(u64, f64)>,
    best: Option<(usize, f64)>,
}

/// Writes a training checkpoint atomically.
///
/// # Errors
/// If the file cannot be written.
pub fn write_tagger_checkpoint(now: &TaggerCheckpoint, path: &Path) -> Result<()> {
    let finite = |number: f64| number.is_finite().then_some(number);
    let mut tensors = Vec::new();
    let (mut history, mut value, mut epochs) = (0, None, None);
    let size = now.search.point().len();
    tensors.push(Tensor::new("point", &[size], now.search.point()));
    if let Some(memory) = now.search.memory() {
        let (_, most, here, pairs) = memory.parts();
        let count = pairs.len();
        if let Some((_, gradient)) = here {
            tensors.push(Tensor::new("gradient", &[size], gradient));
        }
        let pieces = pairs.flat_map(|(s, y)| [s, y]).map(Cow::Borrowed).collect();
        tensors.push(Tensor::of_pieces::<f64>("pairs", &[count, 2, size], pieces));
        (history, value) = (most, here.map(|here| here.0));
    }
    if let Search::Sgd(own) = &now.search {
        epochs = Some((own.seen, own.rate));
    }
    if let Some(best) = &now.best {
        tensors.push(Tensor::new("best", &[best.parameters.len()], best.parameters.as_slice()));
    }
    let rest = Rest {
        how: now.how,
        data: now.data,
        step: now.progress.step,
        objective: finite(now.progress.objective),
        stationarity: finite(now.progress.stationarity),
        valid: now.progress.valid.and_then(finite),
        recent: now.recent.clone(),
        idle: now.idle,
        history,
        value,
        epochs,
        best: now.best.as_ref().map(|best| (best.step, best.loss)),
    };
    let text = serde_json::to_string(&rest).map_err(|error| Error::io(path, error.into()))?;
    let file = TensorFile::new(CHECKPOINT, [("state", text)], tensors);
    write_atomically(path, |out| file.write(out))
}

/// Reads a training checkpoint.
///
/// # Errors
/// If the file cannot be read or is not a checkpoint of a tagger.
pub fn read_tagger_checkpoint(path: &Path) -> Result<TaggerCheckpoint> {
    let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
    let mut tensors = tensor_file::parse_kind(&bytes, &path.display().to_string(), CHECKPOINT)?;
    let rest: Rest = text(&tensors, "state")?;
    let point: Vec<f64> = tensors.take("point")?;
    let size = point.len();
    let search = match rest.epochs {
        Some((seen, rate)) => Search::Sgd(Epochs { point, seen, rate }),
        None => quasi_newton(&mut tensors, &rest, point)?,
    };
    let best = match rest.best {
        Some((step, loss)) => {
            Some(Best { loss, step, parameters: tensors.take_shaped("best", &[size], "[n]")? })
        }
        None => None,
    };
    Ok(TaggerCheckpoint {
        how: rest.how,
        data: rest.data,
        progress: TaggerProgress {
            step: rest.step,
            objective: rest.objective.unwrap_or(f64::INFINITY),
            stationarity: rest.stationarity.unwrap_or(f64::INFINITY),
            valid: rest.valid,
        },
        recent: rest.recent,
        idle: rest.idle,
        search,
        best,
    })
}

fn quasi_newton(tensors: &mut TensorMap, rest: &Rest, point: Vec<f64>) -> Result<Search> {
    let size = point.len();
    let here = match rest.value {
        Some(value) => Some((value, tensors.take_shaped::<f64>("gradient", &[size], "[n]")?)),
        None => None,
    };
    let count = tensors.shape("pairs")?.first().copied().unwrap_or(0);
    let pairs: Vec<f64> = tensors.take_shaped("pairs", &[count, 2, size], "[m, 2, n]")?;
    let pair = |pair: &[f64]| {
        let (s, y) = pair.split_at(size);
        (s.to_vec(), y.to_vec())
    };
    let pairs: Vec<(Vec<f64>, Vec<f64>)> = pairs.chunks_exact((2 * size).max(1)).map(pair).collect();
    let memory = Memory::from_parts(point, rest.history, here, pairs);
    Ok(match rest.how.l1 > 0.0 {
        true => Search::Owlqn(Owlqn::from_memory(rest.how.l1, memory)),
        false => Search::Lbfgs(Lbfgs::from_memory(memory)),
    })
}
