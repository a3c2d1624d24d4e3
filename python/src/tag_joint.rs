//! Training of joint taggers.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use zhat::Result;
use zhat::internal::training::{Kept, require_step};
use zhat::learn::tag::Corpus;
use zhat::learn::tag::joint::file::{read_checkpoint, write_checkpoint};
use zhat::learn::tag::joint::{Training, train};

use crate::error::{self, Failure};
use crate::run::Run;
use crate::tag::{Tagger, short};

type Words = Vec<Vec<PyBackedStr>>;

fn corpus(words: &Words, tags: &Words) -> PyResult<Corpus> {
    if words.len() != tags.len() {
        let message = format!("there are {} sentences of tags for {}", tags.len(), words.len());
        return Err(error::argument("y", message));
    }
    for (number, (words, tags)) in words.iter().zip(tags).enumerate() {
        if words.len() != tags.len() {
            let (number, own, count) = (number + 1, tags.len(), words.len());
            let message = short(number, own, count);
            return Err(error::argument("y", message));
        }
        if tags.iter().any(|tag| tag.is_empty()) {
            return Err(error::argument("y", format!("sentence {} has an empty tag", number + 1)));
        }
    }
    let sentence = |(words, tags)| {
        let pairs =
            Iterator::zip(<&Vec<PyBackedStr>>::into_iter(words), <&Vec<PyBackedStr>>::into_iter(tags));
        pairs.map(|(word, tag)| (&**word, Some(&**tag))).collect::<Vec<(&str, Option<&str>)>>()
    };
    Ok(Corpus::from_lists(words.iter().zip(tags).map(sentence)).map_err(Failure)?)
}

/// Trains a joint tagger on words and tags; `how` is a JSON object, `valid` are words and tags for early stopping, and
/// `checkpoint` is a file and the seconds between writes.
#[pyfunction]
pub fn train_joint_tagger(
    py: Python<'_>,
    words: Words,
    tags: Words,
    how: &str,
    valid: Option<(Words, Words)>,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<(Tagger, Vec<(usize, f64)>)> {
    let how: Training =
        serde_json::from_str(how).map_err(|wrong| error::argument("tagger", wrong.to_string()))?;
    let valid = valid.map(|(words, tags)| corpus(&words, &tags)).transpose()?;
    let corpus = corpus(&words, &tags)?;
    drop((words, tags));
    let (joint, inner, steps) = run.supervise(py, move |run| -> Result<_> {
        let (path, every) =
            checkpoint.as_ref().map_or((None, 0.0), |(path, every)| (Some(path.as_path()), *every));
        let mut kept = Kept::new(path, every, write_checkpoint);
        let from = kept.found(read_checkpoint)?;
        let mut steps = Vec::new();
        let joint = train(&corpus, valid.as_ref(), &how, from, run, &mut |now| {
            steps.push((now.progress().iteration, now.progress().objective));
            kept.step(now)?;
            Ok(true)
        })?;
        kept.finish()?;
        require_step(joint.trained().steps, how.iterations, run)?;
        let inner = joint.given_words()?;
        Ok((joint, inner, steps))
    })?;
    Ok((Tagger::joint(Arc::new(joint), inner), steps))
}
