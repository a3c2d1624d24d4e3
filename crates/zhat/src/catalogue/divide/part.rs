//! Results of some units of a task, their files, and their order.
//!
//! A part is a `.zhat` file of the kind `part`. Numbers are kept as 64-bit words, with every bit. A checksum
//! over the task, the range and the words detects damage.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::catalogue::Settings;
use crate::error::{Error, Result};
use crate::io::tensor_file::{self, TensorFile};
use crate::io::whole;
use crate::model::Model;
use crate::query::Query;
use crate::tensor::{Data, Tensor};

/// The kind of the files.
const KIND: &str = "part";
/// The version of the format.
const FORMAT: u32 = 1;

/// What is computed. Parts of equal tasks can be merged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The version of zhat.
    pub zhat: String,
    /// The kind of model.
    pub kind: String,
    /// The hash of the model ([`model_hash`]).
    pub model: String,
    /// The name of the query.
    pub query: String,
    /// The method.
    pub method: String,
    /// Its options.
    pub settings: Settings,
    /// The seed.
    pub seed: u64,
    /// The memory budget in bytes.
    pub memory: u64,
    /// The number of units.
    pub units: u64,
}

impl Task {
    /// The first difference from another task, for messages.
    pub(super) fn difference(&self, other: &Task) -> Option<String> {
        let values = |task: &Task| match serde_json::to_value(task) {
            Ok(serde_json::Value::Object(fields)) => fields,
            _ => serde_json::Map::new(),
        };
        let (own, others) = (values(self), values(other));
        let differs = own.iter().find(|(name, value)| others.get(*name) != Some(value))?;
        let found = others.get(differs.0).map_or_else(|| "none".into(), ToString::to_string);
        Some(format!("{}: {found}, expected {}", differs.0, differs.1))
    }
}

/// The results of a range of units of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    task: Task,
    /// The vector instructions it was computed with.
    level: String,
    range: Range<u64>,
    mark: Vec<u64>,
    words: Vec<u64>,
    /// Where the model comes from, in the words of the program that made the part; empty if unknown.
    source: String,
}

impl Part {
    pub(super) fn new(task: Task, level: &str, range: Range<u64>, mark: Vec<u64>, words: Vec<u64>) -> Self {
        Part { task, level: level.into(), range, mark, words, source: String::new() }
    }

    /// The task.
    pub fn task(&self) -> &Task {
        &self.task
    }

    /// Its units.
    pub fn range(&self) -> Range<u64> {
        self.range.clone()
    }

    /// The vector instructions it was computed with.
    pub fn level(&self) -> &str {
        &self.level
    }

    /// Where the model comes from, as given to [`Part::with_source`]; empty if unknown.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The part with a text that says where the model comes from. Parts with different texts can be merged.
    pub fn with_source(mut self, source: &str) -> Self {
        self.source = source.into();
        self
    }

    fn task_text(&self) -> String {
        serde_json::to_string(&self.task).unwrap_or_default()
    }

    fn checksum(&self) -> String {
        let mut hash = Hash::default();
        for text in [&self.task_text(), &self.level] {
            hash.bytes(text.as_bytes());
        }
        [self.range.start, self.range.end, self.mark.len() as u64].iter().for_each(|&word| hash.word(word));
        self.mark.iter().chain(&self.words).for_each(|&word| hash.word(word));
        hash.text()
    }

    fn file(&self) -> TensorFile<'_> {
        let texts = [
            ("format", FORMAT.to_string()),
            ("task", self.task_text()),
            ("level", self.level.clone()),
            ("source", self.source.clone()),
            ("checksum", self.checksum()),
        ];
        fn numbers<'a>(name: &'static str, words: impl Into<Cow<'a, [u64]>>) -> Tensor<'a> {
            let words = words.into();
            Tensor::from_parts(name, vec![words.len()], Data::U64(words))
        }
        let tensors = vec![
            numbers("range", vec![self.range.start, self.range.end]),
            numbers("mark", &self.mark),
            numbers("results", &self.words),
        ];
        TensorFile::new(KIND, texts, tensors)
    }

    /// The content of the part's file.
    ///
    /// # Errors
    /// If there is not enough memory for it.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file().write(&mut bytes).map_err(|error| Error::io(Path::new(KIND), error))?;
        Ok(bytes)
    }

    /// Writes the part's file. No reader sees a partial file.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let file = self.file();
        whole::write_atomically(path, |out| file.write(out))
    }

    /// Reads a part's file.
    ///
    /// # Errors
    /// If there is no such file, or as [`Part::from_bytes`].
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|source| Error::io(path, source))?;
        Self::from_bytes(&bytes, &path.to_string_lossy())
    }

    /// A part from the content of its file; `name` is the file name for messages.
    ///
    /// # Errors
    /// If it is no part, is damaged, or has a newer format.
    pub fn from_bytes(bytes: &[u8], name: &str) -> Result<Self> {
        let file = tensor_file::parse_kind(bytes, name, KIND)?;
        let text = |key: &str| {
            file.text(key)
                .map(str::to_owned)
                .ok_or_else(|| file.error(format!("the text `{key}` is missing")))
        };
        let format = text("format")?;
        if format != FORMAT.to_string() {
            return Err(file.error(format!("the part has format {format}, this program reads {FORMAT}")));
        }
        let task: Task = serde_json::from_str(&text("task")?)
            .map_err(|error| file.error(format!("the task of the part is damaged: {error}")))?;
        let words = |tensor: &str| -> Result<Vec<u64>> {
            Ok(file.integers(tensor)?.into_iter().map(|word| word as u64).collect())
        };
        let [start, end] = words("range")?[..] else {
            return Err(file.error("the range of the part is damaged"));
        };
        let part = Part {
            task,
            level: text("level")?,
            range: start..end,
            mark: words("mark")?,
            words: words("results")?,
            source: text("source")?,
        };
        if part.checksum() != text("checksum")? || start >= end || end > part.task.units {
            return Err(file.error("the part is damaged: its checksum does not fit; compute it again"));
        }
        Ok(part)
    }
}

/// The query of this name.
pub(super) fn query_named(name: &str) -> Result<Query> {
    let found = Query::ALL.into_iter().find(|query| query.name() == name);
    found.ok_or_else(|| Error::argument("query", format!("there is no query `{name}`")))
}

/// The vector instructions that parts were computed with, each once.
pub(super) fn levels(parts: &[Part]) -> Vec<&str> {
    let mut levels: Vec<&str> = parts.iter().map(|part| part.level.as_str()).collect();
    levels.sort_unstable();
    levels.dedup();
    levels
}

/// The number of units from the first one that parts of a task cover without a gap.
pub(super) fn prefix(parts: &[Part]) -> u64 {
    let mut ranges: Vec<(u64, u64)> = parts.iter().map(|part| (part.range.start, part.range.end)).collect();
    ranges.sort_unstable();
    ranges.iter().fold(0, |end, range| if range.0 <= end { end.max(range.1) } else { end })
}

/// The results of the first `units` units in order, and their mark.
pub(super) fn joined(task: &Task, parts: &[Part], units: u64) -> Result<(Vec<u64>, Vec<u64>)> {
    let fail = |message: String| Error::argument("parts", message);
    let mut ordered: BTreeMap<u64, &Part> = BTreeMap::new();
    for part in parts {
        if let Some(difference) = task.difference(&part.task) {
            return Err(fail(format!("they are of different tasks: {difference}")));
        }
        if part.range.start >= units {
            continue;
        }
        match ordered.insert(part.range.start, part) {
            // A task may have been done twice; the results are the same.
            Some(other)
                if other.range == part.range && (&other.words, &other.mark) == (&part.words, &part.mark) => {}
            Some(other) if other.range == part.range => {
                let Range { start, end } = part.range;
                return Err(fail(format!(
                    "there are two parts with units {start}..{end}, and their results differ; compute them again"
                )));
            }
            Some(other) => return Err(fail(overlap(other, part))),
            None => {}
        }
    }
    let Some(first) = ordered.values().next() else {
        return Err(fail(missing(task, 0..units)));
    };
    let (mut next, mut words, mark) = (0, Vec::new(), first.mark.clone());
    let mut last: Option<&Part> = None;
    for &part in ordered.values() {
        if let (Some(last), true) = (last, part.range.start < next) {
            return Err(fail(overlap(last, part)));
        }
        if part.range.start > next {
            return Err(fail(missing(task, next..part.range.start)));
        }
        if part.mark != mark && part.level == first.level {
            let message = "the preparation of the method came out differently for some of them; use machines with the same processor";
            return Err(fail(message.into()));
        }
        words.extend_from_slice(&part.words);
        (next, last) = (part.range.end, Some(part));
    }
    if next < units {
        return Err(fail(missing(task, next..units)));
    }
    Ok((words, mark))
}

fn overlap(one: &Part, other: &Part) -> String {
    format!(
        "units {}..{} and {}..{} overlap",
        one.range.start, one.range.end, other.range.start, other.range.end
    )
}

pub(super) fn missing(task: &Task, range: Range<u64>) -> String {
    let Range { start, end } = range;
    format!("units {start}..{end} of {} are missing; compute them with --range {start}..{end}", task.units)
}

/// A hash of 128 bits, against mistakes and damage rather than against an attacker.
struct Hash([u64; 2]);

impl Default for Hash {
    fn default() -> Self {
        Hash([0x9e37_79b9_7f4a_7c15, 0xc2b2_ae3d_27d4_eb4f])
    }
}

impl Hash {
    fn word(&mut self, word: u64) {
        // Two independent multiplicative hashes, each mixing all bits downwards.
        let mixed = [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53];
        for (state, factor) in self.0.iter_mut().zip(mixed) {
            let product = (*state ^ word).wrapping_mul(factor).rotate_left(29);
            *state = product ^ (product >> 32);
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.word(bytes.len() as u64);
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.word(u64::from_le_bytes(word));
        }
    }

    fn text(&self) -> String {
        format!("{:016x}{:016x}", self.0[0], self.0[1])
    }
}

/// A hash of a model: of its kind, its texts and every number.
pub fn model_hash(model: &Model) -> String {
    let mut hash = Hash::default();
    hash.bytes(model.kind().name().as_bytes());
    for (name, text) in model.texts() {
        hash.bytes(name.as_bytes());
        hash.bytes(text.as_bytes());
    }
    for tensor in model.tensors() {
        hash.bytes(tensor.name().as_bytes());
        hash.bytes(tensor.data().type_name().as_bytes());
        hash.word(tensor.shape().len() as u64);
        tensor.shape().iter().for_each(|&length| hash.word(length as u64));
        match tensor.data() {
            Data::F32(pieces) => {
                pieces.iter().flat_map(|piece| piece.iter()).for_each(|x| hash.word(u64::from(x.to_bits())));
            }
            Data::F64(pieces) => {
                pieces.iter().flat_map(|piece| piece.iter()).for_each(|x| hash.word(x.to_bits()));
            }
            Data::U64(numbers) => numbers.iter().for_each(|&number| hash.word(number)),
        }
    }
    hash.text()
}
