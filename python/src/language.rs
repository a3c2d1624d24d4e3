//! Language models: training, evaluation, sampling.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use numpy::PyArrayDyn;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use zhat::cycle::Annealed;
use zhat::internal::io::write_atomically;
use zhat::learn::language::file::{
    parse_any_language_model, read_any_language_model, read_checkpoint, write_any_language_model,
    write_checkpoint,
};
use zhat::learn::language::text;
use zhat::learn::language::{
    self, AnyLanguageModel, Counts, Fold, Stochastic, Training, Vocabulary, train_log_bilinear, train_pseudo,
};
use zhat::{Error, Result};

use crate::array;
use crate::error::{self, Failure};
use crate::run::Run;

/// A text: files, or one sentence per line.
#[derive(FromPyObject)]
pub enum Source {
    Files(Vec<PathBuf>),
    Lines(String),
}

impl Source {
    fn count(&self, context: usize, run: &zhat::Run) -> Result<Counts> {
        let paths = match self {
            Source::Lines(lines) => return text::count_text(lines, context, run),
            Source::Files(paths) => paths,
        };
        let mut counts = None::<Counts>;
        for path in paths {
            let more = text::count(path, context, run)?;
            match &mut counts {
                Some(counts) => counts.merge(more)?,
                None => counts = Some(more),
            }
        }
        counts.ok_or_else(|| Error::argument("texts", "there is none"))
    }

    fn sentences(&self, vocabulary: &Vocabulary) -> Result<Vec<Vec<u32>>> {
        match self {
            Source::Lines(lines) => text::sentences_of_text(lines, vocabulary),
            Source::Files(paths) => {
                let mut all = Vec::new();
                for path in paths {
                    all.extend(text::sentences(path, vocabulary)?);
                }
                Ok(all)
            }
        }
    }
}

/// A step: its number, and nats per word on the text and on the validation text.
type Step = (usize, f64, Option<f64>);
/// Words, sentences, log-likelihood, guarantee as JSON and in words, rounding, log τ, pseudo-likelihood,
/// annealed estimate as JSON.
type Score = (u64, u64, f64, String, String, f64, f64, Option<f64>, Option<String>);

/// An immutable language model.
#[pyclass(frozen, eq, module = "zhat._zhat")]
#[derive(PartialEq)]
pub struct LanguageModel {
    model: Arc<AnyLanguageModel>,
}

impl LanguageModel {
    fn of(model: AnyLanguageModel) -> Self {
        LanguageModel { model: Arc::new(model) }
    }
}

/// Trains a model; `how` is a JSON object, `checkpoint` a file and the seconds between writes. Returns the
/// model, its steps and the number of the best step.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_language_model(
    py: Python<'_>,
    texts: Source,
    valid: Option<Source>,
    context: usize,
    min_count: Option<u64>,
    vocabulary: Option<usize>,
    how: &str,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<(LanguageModel, Vec<Step>, usize)> {
    let how: Training =
        serde_json::from_str(how).map_err(|error| error::argument("train", error.to_string()))?;
    let (model, steps, best) = run.supervise(py, move |run| {
        let counts = texts.count(context, run)?;
        let vocabulary = Vocabulary::of(&counts, &Fold { min_count, size: vocabulary })?;
        let moments = counts.moments(&vocabulary)?;
        drop(counts);
        let valid = match &valid {
            Some(valid) => Some(valid.count(context, run)?.moments(&vocabulary)?),
            None => None,
        };
        let kept = checkpoint.as_ref().map(|(path, every)| (path.as_path(), *every));
        let from = kept.map(|kept| kept.0).filter(|path| path.exists()).map(read_checkpoint).transpose()?;
        let (mut steps, mut best, mut last) = (Vec::new(), 0, Instant::now());
        let mut watch = |now: &language::TrainingCheckpoint| {
            let progress = now.progress();
            steps.push((progress.iteration, progress.train, progress.valid));
            best = progress.best;
            if let Some((path, every)) = kept
                && last.elapsed().as_secs_f64() >= every
            {
                write_checkpoint(now, path)?;
                last = Instant::now();
            }
            Ok(true)
        };
        let model = language::train(&moments, &vocabulary, valid.as_ref(), &how, from, run, &mut watch)?;
        Ok((model, steps, best))
    })?;
    Ok((LanguageModel::of(AnyLanguageModel::Field(model)), steps, best))
}

/// Trains a model by stochastic gradients; `how` is a JSON object. Returns the model, its epochs and the
/// number of the best epoch.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_stochastic(
    py: Python<'_>,
    texts: Source,
    valid: Option<Source>,
    pseudo: bool,
    min_count: Option<u64>,
    vocabulary: Option<usize>,
    how: &str,
    run: &Run,
) -> PyResult<(LanguageModel, Vec<Step>, usize)> {
    let how: Stochastic =
        serde_json::from_str(how).map_err(|error| error::argument("train", error.to_string()))?;
    let (model, steps, best) = run.supervise(py, move |run| {
        let vocabulary = Vocabulary::of(&texts.count(1, run)?, &Fold { min_count, size: vocabulary })?;
        let sentences = texts.sentences(&vocabulary)?;
        let valid = valid.as_ref().map(|valid| valid.sentences(&vocabulary)).transpose()?;
        let (mut steps, mut best) = (Vec::new(), 0);
        let mut watch = |epoch: &language::Epoch| {
            steps.push((epoch.epoch, epoch.train, epoch.valid));
            best = epoch.best;
            Ok(true)
        };
        let valid = valid.as_deref();
        let model = if pseudo {
            let model = train_pseudo(&sentences, &vocabulary, valid, &how, run, &mut watch)?;
            AnyLanguageModel::Field(model)
        } else {
            let model = train_log_bilinear(&sentences, &vocabulary, valid, &how, run, &mut watch)?;
            AnyLanguageModel::LogBilinear(model)
        };
        Ok((model, steps, best))
    })?;
    Ok((LanguageModel::of(model), steps, best))
}

/// Evaluates a field on a text: the certified bound, the pseudo-likelihood and the annealed estimate as JSON.
/// With 0 levels, a pilot run chooses the number.
fn evaluated(
    model: &language::LanguageModel,
    source: &Source,
    pseudo: bool,
    annealed: Option<usize>,
    run: &zhat::Run,
) -> Result<(language::TextScore, Option<f64>, Option<String>)> {
    let moments = source.count(model.mrf().context(), run)?.moments(model.vocabulary())?;
    let score = model.evaluate(&moments, run)?;
    let pseudo = if pseudo {
        Some(model.pseudo_log_likelihood(&source.sentences(model.vocabulary())?, run)?)
    } else {
        None
    };
    let annealed = match annealed {
        Some(levels) => {
            let how = Annealed::default().levels(Some(levels).filter(|&levels| levels > 0));
            Some(model.annealed(&moments, &how, run)?.to_json().to_string())
        }
        None => None,
    };
    Ok((score, pseudo, annealed))
}

#[pymethods]
impl LanguageModel {
    /// Reads a model from a file.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(LanguageModel::of(py.detach(|| read_any_language_model(&path)).map_err(Failure)?))
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(LanguageModel::of(parse_any_language_model(data, "").map_err(Failure)?))
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        write_any_language_model(&self.model, &mut bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || write_atomically(&path, |out| write_any_language_model(&self.model, out));
        Ok(py.detach(write).map_err(Failure)?)
    }

    /// Exports the embeddings as word2vec text or safetensors.
    fn export(&self, py: Python<'_>, path: PathBuf, safetensors: bool) -> PyResult<()> {
        let write = || {
            let mut bytes = Vec::new();
            self.model
                .write_embeddings(safetensors, &mut bytes)?
                .map_err(|source| Error::io(&path, source))?;
            write_atomically(&path, |out| out.write_all(&bytes))
        };
        Ok(py.detach(write).map_err(Failure)?)
    }

    #[getter]
    fn words(&self) -> Vec<String> {
        self.model.vocabulary().words().to_vec()
    }

    #[getter]
    fn context(&self) -> usize {
        self.model.context()
    }

    /// D, if there are embeddings.
    #[getter]
    fn rank(&self) -> Option<usize> {
        self.model.embeddings().ok().map(|(_, rank)| rank)
    }

    /// The kind of model: "field", "exact" or "lbl".
    #[getter]
    fn kind(&self) -> &'static str {
        match &*self.model {
            AnyLanguageModel::Field(_) => "field",
            AnyLanguageModel::LogBilinear(model) if model.cyclic() => "exact",
            AnyLanguageModel::LogBilinear(_) => "lbl",
        }
    }

    /// The embeddings of the words, in place, without that of the separator.
    #[getter]
    fn embeddings<'py>(this: &Bound<'py, Self>) -> PyResult<Bound<'py, PyArrayDyn<f32>>> {
        let model = &this.get().model;
        let (left, rank) = model.embeddings().map_err(Failure)?;
        // SAFETY: the class is frozen, and its model is behind an `Arc` that is never written to.
        unsafe { array::view(&left[rank..], &[left.len() / rank - 1, rank], this.as_any()) }
    }

    fn neighbours(&self, word: &str, count: usize) -> PyResult<Vec<(String, f64)>> {
        Ok(self.model.neighbours(word, count).map_err(Failure)?)
    }

    fn sample(&self, py: Python<'_>, count: usize, sweeps: usize, run: &Run) -> PyResult<Vec<String>> {
        let model = self.model.clone();
        run.supervise(py, move |run| model.sample(count, sweeps, run))
    }

    fn evaluate(
        &self,
        py: Python<'_>,
        source: Source,
        pseudo: bool,
        annealed: Option<usize>,
        run: &Run,
    ) -> PyResult<Score> {
        let model = self.model.clone();
        run.supervise(py, move |run| {
            let (score, pseudo, annealed) = match &*model {
                AnyLanguageModel::LogBilinear(bilinear) => {
                    if pseudo || annealed.is_some() {
                        model.field()?;
                    }
                    (bilinear.evaluate(&source.sentences(bilinear.vocabulary())?, run)?, None, None)
                }
                AnyLanguageModel::Field(field) => evaluated(field, &source, pseudo, annealed, run)?,
            };
            let guarantee = score.promise(model.is_certified());
            Ok((
                score.tokens,
                score.sentences,
                score.log_likelihood,
                guarantee.to_json().to_string(),
                guarantee.to_string(),
                score.rounding,
                score.log_lengths,
                pseudo,
                annealed,
            ))
        })
    }
}
