//! Taggers: training on attributes, tags, probabilities and files.

use std::path::PathBuf;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::PyBytes;
use zhat::Result;
use zhat::internal::io::{compressed, write_atomically};
use zhat::internal::training::{Kept, require_step};
use zhat::internal::units;
use zhat::learn::tag::file::{read_tagger_checkpoint, write_tagger, write_tagger_checkpoint};
use zhat::learn::tag::joint::JointTagger;
use zhat::learn::tag::joint::file::write_joint_tagger;
use zhat::learn::tag::{self, AnyTagger, Examples, Inputs, Learning, ReadOptions, Template, features};

use crate::error::{self, Failure};
use crate::run::Run;

/// The attributes of a token with their weights, and its tag.
type OwnedToken = (Vec<(String, f64)>, String);

/// The tags of a sentence and their log probability.
type Ranked = (Vec<String>, f64);

/// The tags of sentences, `None` where they are not known.
type Tags = Vec<Vec<Option<String>>>;

/// The measures of an evaluation, and −ln p(tags | words) per token.
#[derive(serde::Serialize)]
struct Measures {
    log_loss: Option<f64>,
    found: tag::Evaluation,
}

/// Words and tags of the sentences of a file.
type Read = (Vec<Vec<String>>, Tags);

/// Calls `token` with the attributes of every token and `end` after every sentence.
fn each_token(
    sentences: &Bound<'_, PyAny>,
    token: &mut dyn FnMut(usize, usize, Vec<(PyBackedStr, f64)>) -> PyResult<()>,
    end: &mut dyn FnMut(usize, usize) -> PyResult<()>,
) -> PyResult<()> {
    for (number, sentence) in sentences.try_iter()?.enumerate() {
        let mut count = 0;
        for one in sentence?.try_iter()? {
            token(number, count, one?.extract()?)?;
            count += 1;
        }
        end(number, count)?;
    }
    Ok(())
}

fn borrowed(attributes: &[(PyBackedStr, f64)]) -> impl Iterator<Item = (&str, f64)> {
    attributes.iter().map(|(name, weight)| (&**name, *weight))
}

/// The message for a sentence with another number of tags than tokens.
pub(crate) fn short(number: usize, tags: usize, tokens: usize) -> String {
    format!("sentence {number} has {} for {}", units::count(tags, "tag"), units::count(tokens, "token"))
}

/// Words and tags of a tagged file.
#[pyfunction]
pub fn read_tagged(
    py: Python<'_>,
    path: PathBuf,
    format: Option<&str>,
    column: Option<String>,
    word: Option<String>,
    sequence: Option<String>,
) -> PyResult<Read> {
    let format = format.map(tag::Format::named).transpose().map_err(Failure)?;
    let options = ReadOptions::default().format(format).column(column).word(word).sequence(sequence);
    let corpus = py.detach(|| tag::Corpus::read(&path, &options)).map_err(Failure)?;
    let (mut words, mut tags) = (Vec::new(), Vec::new());
    for sentence in corpus.sentences() {
        words.push((0..sentence.len()).map(|i| sentence.word(i).to_owned()).collect());
        tags.push((0..sentence.len()).map(|i| sentence.tag(i).map(str::to_owned)).collect());
    }
    Ok((words, tags))
}

/// Writes a tagged file with other tags, `None` for those that are not known; everything else stays as it is.
#[pyfunction]
pub fn write_tagged(
    py: Python<'_>,
    path: PathBuf,
    source: PathBuf,
    tags: Tags,
    columns: Columns,
    tagged: bool,
) -> PyResult<()> {
    let (format, column, word, sequence) = columns;
    let format = format.as_deref().map(tag::Format::named).transpose().map_err(Failure)?;
    let options = ReadOptions::default().format(format).column(column).word(word).sequence(sequence);
    let options = options.tagged(tagged);
    let write = || -> Result<()> {
        let corpus = tag::Corpus::read(&source, &options)?;
        let named = |tag: &Option<String>| tag.clone().unwrap_or_else(|| options.missing.clone());
        let tags: Vec<Vec<String>> = tags.iter().map(|own| own.iter().map(named).collect()).collect();
        let mut bytes = Vec::new();
        corpus.write(&tags, &mut bytes).map_err(|error| zhat::Error::argument("tags", error.to_string()))?;
        let bytes = compressed(&path, bytes)?;
        write_atomically(&path, |out| out.write_all(&bytes))
    };
    Ok(py.detach(write).map_err(Failure)?)
}

/// The attributes of the words of a sentence: those of the `count` nearest words, and those of tags beyond the
/// sentence at distances up to `ends`.
#[pyfunction]
pub fn word_attributes(words: Vec<PyBackedStr>, count: i32, ends: i32) -> PyResult<Vec<Vec<(String, f64)>>> {
    if count < 1 || count % 2 == 0 || count > 99 {
        return Err(error::argument("words", format!("expected an odd number from 1 to 99, found {count}")));
    }
    let mut scratch = String::new();
    let mut all = Vec::with_capacity(words.len());
    for token in 0..words.len() as i64 {
        let mut own = Vec::new();
        for offset in -(count / 2)..=count / 2 {
            let place = usize::try_from(token + i64::from(offset)).ok();
            let word = place.and_then(|place| words.get(place)).map_or(features::BOUNDARY, |word| &**word);
            features::each(word, offset, &mut scratch, &mut |name| own.push((name.to_owned(), 1.0)));
        }
        for distance in (1..=ends).flat_map(|k| [-k, k]) {
            if !(0..words.len() as i64).contains(&(token + i64::from(distance))) {
                own.push((features::end(distance), 1.0));
            }
        }
        all.push(own);
    }
    Ok(all)
}

/// Precision, recall, F1 and number of observed spans: of all, and of every type.
#[pyfunction]
pub fn tag_spans(tags: Vec<PyBackedStr>) -> Vec<(usize, usize, String)> {
    let tags: Vec<&str> = tags.iter().map(|tag| &**tag).collect();
    tag::spans(&tags).into_iter().map(|(start, end, kind)| (start, end, kind.to_owned())).collect()
}

/// A trained tagger.
#[pyclass(frozen, module = "zhat._zhat")]
pub struct Tagger {
    inner: Arc<tag::Tagger>,
    /// The joint tagger whose distribution of tags given words `inner` is.
    joint: Option<Arc<JointTagger>>,
}

/// Trains a tagger; `how` is a JSON object. If the tokens are words, `words` is the number of nearest words whose
/// features were taken, and the vocabulary. `valid` are sentences and tags for early stopping, and `checkpoint` is a
/// file and the seconds between writes.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_tagger(
    py: Python<'_>,
    sentences: &Bound<'_, PyAny>,
    tags: Vec<Vec<PyBackedStr>>,
    words: Option<(usize, Vec<PyBackedStr>)>,
    hash_bits: Option<u32>,
    how: &str,
    valid: Option<(Bound<'_, PyAny>, Vec<Vec<PyBackedStr>>)>,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<(Tagger, Vec<(usize, f64)>)> {
    let how: Learning =
        serde_json::from_str(how).map_err(|wrong| error::argument("tagger", wrong.to_string()))?;
    let mut examples = Examples::new(hash_bits).map_err(Failure)?;
    if let Some((count, words)) = words {
        let template = Template::parse(&format!("appendix-b:{count}")).map_err(Failure)?;
        examples = examples.with_template(template).with_words(words.iter().map(|word| &**word));
    }
    let same = |number: usize, count: usize, tags: &[Vec<PyBackedStr>]| -> PyResult<()> {
        let own = tags.get(number).map_or(0, Vec::len);
        if own != count {
            let message = short(number + 1, own, count);
            return Err(error::argument("y", message));
        }
        Ok(())
    };
    let mut all = std::cell::RefCell::new(examples);
    let mut seen = 0;
    each_token(
        sentences,
        &mut |number, token, attributes| {
            let tag = tags.get(number).and_then(|own| own.get(token));
            let Some(tag) = tag else {
                let message = format!("sentence {} has fewer tags than tokens", number + 1);
                return Err(error::argument("y", message));
            };
            Ok(all.borrow_mut().token(borrowed(&attributes), tag).map_err(Failure)?)
        },
        &mut |number, count| {
            same(number, count, &tags)?;
            seen = number + 1;
            all.borrow_mut().end_sentence();
            Ok(())
        },
    )?;
    if seen != tags.len() {
        return Err(error::argument("y", format!("there are {} sentences of tags for {seen}", tags.len())));
    }
    let examples = std::mem::replace(all.get_mut(), Examples::new(None).map_err(Failure)?);
    // The validation data are numbered by the tagger, which training makes; their texts are copied first.
    let valid = match valid {
        None => None,
        Some((sentences, tags)) => {
            let mut kept: Vec<Vec<OwnedToken>> = Vec::new();
            let now = std::cell::RefCell::new(Vec::new());
            each_token(
                &sentences,
                &mut |number, token, attributes| {
                    let tag = tags.get(number).and_then(|own| own.get(token)).map(|tag| tag.to_string());
                    let owned = attributes.iter().map(|(name, weight)| (name.to_string(), *weight)).collect();
                    now.borrow_mut().push((owned, tag.unwrap_or_default()));
                    Ok(())
                },
                &mut |number, count| {
                    same(number, count, &tags)?;
                    kept.push(now.replace(Vec::new()));
                    Ok(())
                },
            )?;
            Some(kept)
        }
    };
    let (tagger, steps) = run.supervise(py, move |run| {
        let encode = |tagger: &tag::Tagger| -> Result<Inputs> {
            let mut inputs = Inputs::default();
            for sentence in valid.iter().flatten() {
                for (attributes, tag) in sentence {
                    let attributes = attributes.iter().map(|(name, weight)| (name.as_str(), *weight));
                    tagger.token(&mut inputs, attributes, Some(tag))?;
                }
                inputs.end_sentence();
            }
            Ok(tagger.sorted(inputs))
        };
        let given: Option<&tag::Valid<'_>> = if valid.is_some() { Some(&encode) } else { None };
        watched(&how, checkpoint.as_ref(), run, |from, watch| {
            tag::train(examples, &how, given, from, run, watch)
        })
    })?;
    Ok((Tagger { inner: Arc::new(tagger), joint: None }, steps))
}

/// Called after every step with the state of training.
type Watch<'a> = dyn FnMut(&tag::TaggerCheckpoint) -> Result<bool> + 'a;

/// Trains with `work`, which gets the checkpoint to resume from; writes checkpoints and records the objectives.
fn watched(
    how: &Learning,
    checkpoint: Option<&(PathBuf, f64)>,
    run: &zhat::Run,
    work: impl FnOnce(Option<tag::TaggerCheckpoint>, &mut Watch<'_>) -> Result<tag::Tagger>,
) -> Result<(tag::Tagger, Vec<(usize, f64)>)> {
    let (path, every) = checkpoint.map_or((None, 0.0), |(path, every)| (Some(path.as_path()), *every));
    let mut kept = Kept::new(path, every, write_tagger_checkpoint);
    let from = kept.found(read_tagger_checkpoint)?;
    let mut steps = Vec::new();
    let tagger = work(from, &mut |now| {
        steps.push((now.progress().step, now.progress().objective));
        kept.step(now)?;
        Ok(true)
    })?;
    kept.finish()?;
    require_step(tagger.training().steps, how.iterations, run)?;
    Ok((tagger, steps))
}

/// Format, column of tags, column of words, sequence column.
type Columns = (Option<String>, Option<String>, Option<String>, Option<String>);

/// Trains a tagger on a file in blocks of `block` bytes. `features` are those of a template; unless they were chosen
/// (the second member), a file in CRFsuite's format has its own attributes. `valid` is a file for early stopping.
#[pyfunction]
#[expect(clippy::too_many_arguments, reason = "the Python side gives them names")]
pub fn train_tagger_file(
    py: Python<'_>,
    path: PathBuf,
    columns: Columns,
    features: (String, bool),
    block: u64,
    hash_bits: Option<u32>,
    how: &str,
    valid: Option<PathBuf>,
    checkpoint: Option<(PathBuf, f64)>,
    run: &Run,
) -> PyResult<(Tagger, Vec<(usize, f64)>)> {
    let how: Learning =
        serde_json::from_str(how).map_err(|wrong| error::argument("tagger", wrong.to_string()))?;
    let (tagger, steps) = run.supervise(py, move |run| {
        let (format, column, word, sequence) = columns;
        let format = format.as_deref().map(tag::Format::named).transpose()?;
        let options = ReadOptions::default().format(format).column(column).word(word).sequence(sequence);
        let valid = valid.map(|path| tag::Corpus::read(&path, &options)).transpose()?;
        let encode = |tagger: &tag::Tagger| match &valid {
            Some(corpus) => tagger.inputs(corpus),
            None => Ok(Inputs::default()),
        };
        let given: Option<&tag::Valid<'_>> = if valid.is_some() { Some(&encode) } else { None };
        let stream = tag::Stream::new(&path, options, block as usize)?;
        let own = !features.1 && stream.format()? == tag::Format::Crfsuite;
        let template = Template::parse(if own { "attributes" } else { &features.0 })?;
        watched(&how, checkpoint.as_ref(), run, |from, watch| {
            tag::train_file(&stream, &template, hash_bits, &how, given, from, run, watch)
        })
    })?;
    Ok((Tagger { inner: Arc::new(tagger), joint: None }, steps))
}

impl Tagger {
    pub fn joint(joint: Arc<JointTagger>, inner: tag::Tagger) -> Self {
        Tagger { inner: Arc::new(inner), joint: Some(joint) }
    }

    fn of(any: AnyTagger) -> Result<Self> {
        Ok(match any {
            AnyTagger::Conditional(tagger) => Tagger { inner: Arc::new(tagger), joint: None },
            AnyTagger::Joint(joint) => {
                let inner = joint.given_words()?;
                Tagger::joint(Arc::new(joint), inner)
            }
        })
    }

    fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        match &self.joint {
            Some(joint) => write_joint_tagger(joint, out),
            None => write_tagger(&self.inner, out),
        }
    }

    /// The sentences with the numbers of the tagger's attributes.
    fn inputs(&self, sentences: &Bound<'_, PyAny>, tags: Option<&Tags>) -> PyResult<Inputs> {
        let inputs = std::cell::RefCell::new(Inputs::default());
        each_token(
            sentences,
            &mut |number, token, attributes| {
                let tag = tags.and_then(|tags| tags.get(number)?.get(token)?.as_deref());
                let mut inputs = inputs.borrow_mut();
                Ok(self.inner.token(&mut inputs, borrowed(&attributes), tag).map_err(Failure)?)
            },
            &mut |number, count| {
                let own = tags.map(|tags| tags.get(number).map_or(0, Vec::len));
                if let Some(own) = own.filter(|&own| own != count) {
                    let message = short(number + 1, own, count);
                    return Err(error::argument("y", message));
                }
                inputs.borrow_mut().end_sentence();
                Ok(())
            },
        )?;
        Ok(self.inner.sorted(inputs.into_inner()))
    }

    fn supervised<T: Send + 'static>(
        &self,
        py: Python<'_>,
        (sentences, tags): (&Bound<'_, PyAny>, Option<&Tags>),
        run: &Run,
        work: impl FnOnce(&tag::Tagger, &Inputs, &zhat::Run) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (inputs, tagger) = (self.inputs(sentences, tags)?, self.inner.clone());
        run.supervise(py, move |run| work(&tagger, &inputs, run))
    }

    fn named(&self, tags: &[u16]) -> Vec<String> {
        self.inner.names(tags).into_iter().map(str::to_owned).collect()
    }
}

#[pymethods]
impl Tagger {
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        Ok(py.detach(|| AnyTagger::read(&path).and_then(Tagger::of)).map_err(Failure)?)
    }

    #[staticmethod]
    fn from_bytes(data: &[u8]) -> PyResult<Self> {
        Ok(AnyTagger::parse(data, "").and_then(Tagger::of).map_err(Failure)?)
    }

    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        self.write(&mut bytes)?;
        Ok(PyBytes::new(py, &bytes))
    }

    fn save(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        let write = || write_atomically(&path, |out| self.write(out));
        Ok(py.detach(write).map_err(Failure)?)
    }

    /// The tags in alphabetical order.
    #[getter]
    fn tags(&self) -> Vec<String> {
        self.inner.tags().names().to_vec()
    }

    /// K and the number of nearest words of a joint tagger; `None` for a conditional one.
    #[getter]
    fn window(&self) -> Option<(usize, usize)> {
        self.joint.as_ref().map(|joint| (joint.context(), joint.lexicon().window()))
    }

    /// 1, or 2 if there are weights of three tags.
    #[getter]
    fn context(&self) -> usize {
        self.inner.context()
    }

    /// The number of bits of hashed attributes.
    #[getter]
    fn hash_bits(&self) -> Option<u32> {
        self.inner.hash_bits()
    }

    /// The template of the attributes, if they were not given.
    #[getter]
    fn template(&self) -> Option<String> {
        self.inner.template().map(|template| template.text().to_owned())
    }

    /// How it was trained, as JSON.
    #[getter]
    fn training(&self) -> PyResult<String> {
        let text = match &self.joint {
            Some(joint) => serde_json::to_string(joint.trained()),
            None => serde_json::to_string(self.inner.training()),
        };
        text.map_err(|wrong| error::argument("training", wrong.to_string()))
    }

    /// The numbers of attributes, of parameters, and of those that are not 0.
    #[getter]
    fn sizes(&self) -> (usize, usize, usize) {
        (self.inner.attributes(), self.inner.parameters().len(), self.inner.nonzero())
    }

    /// The same tagger with forbidden transitions.
    fn forbidding(&self, transitions: Vec<(String, String)>) -> PyResult<Self> {
        let mut inner = (*self.inner).clone();
        inner.forbid(&transitions).map_err(Failure)?;
        Ok(Tagger { inner: Arc::new(inner), joint: self.joint.clone() })
    }

    /// The largest weights: feature, tag, value, and whether it is a transition.
    fn top(&self, count: usize) -> Vec<(String, String, f64, bool)> {
        let each = |one: tag::Weight| (one.feature, one.tag, one.value, one.transition);
        self.inner.top(count).into_iter().map(each).collect()
    }

    /// The best tags, given those that are known.
    fn predict(
        &self,
        py: Python<'_>,
        sentences: &Bound<'_, PyAny>,
        known: Option<Tags>,
        run: &Run,
    ) -> PyResult<Vec<Vec<String>>> {
        let given = known.is_some();
        let found = self.supervised(py, (sentences, known.as_ref()), run, move |tagger, inputs, run| {
            if given { tagger.predict_known(inputs, run) } else { tagger.predict(inputs, run) }
        })?;
        Ok(found.iter().map(|tags| self.named(tags)).collect())
    }

    /// The probabilities of all tags of every sentence, tokens × tags.
    fn marginals<'py>(
        &self,
        py: Python<'py>,
        sentences: &Bound<'_, PyAny>,
        known: Option<Tags>,
        run: &Run,
    ) -> PyResult<Vec<Bound<'py, PyArray1<f64>>>> {
        let given = known.is_some();
        let found = self.supervised(py, (sentences, known.as_ref()), run, move |tagger, inputs, run| {
            tagger.marginals(inputs, given, run)
        })?;
        Ok(found.into_iter().map(|numbers| PyArray1::from_vec(py, numbers)).collect())
    }

    /// The k best sequences of every sentence with their log-probabilities.
    fn best(
        &self,
        py: Python<'_>,
        sentences: &Bound<'_, PyAny>,
        count: usize,
        known: Option<Tags>,
        run: &Run,
    ) -> PyResult<Vec<Vec<Ranked>>> {
        let given = known.is_some();
        let found = self.supervised(py, (sentences, known.as_ref()), run, move |tagger, inputs, run| {
            tagger.best(inputs, count, given, run)
        })?;
        let each = |one: &tag::Tagging| (self.named(&one.tags), one.log_probability);
        Ok(found.iter().map(|ranked| ranked.iter().map(each).collect()).collect())
    }

    /// Measures of the best tags against those observed, as JSON; tokens without an observed tag are skipped. `words`
    /// are the words of the sentences, if the tokens are words.
    fn evaluate(
        &self,
        py: Python<'_>,
        sentences: &Bound<'_, PyAny>,
        words: Option<Vec<Vec<PyBackedStr>>>,
        tags: Tags,
        run: &Run,
    ) -> PyResult<String> {
        let inputs = self.inputs(sentences, Some(&tags))?;
        if inputs.len() != tags.len() {
            let message = format!("there are {} sentences of tags for {}", tags.len(), inputs.len());
            return Err(error::argument("y", message));
        }
        let word = |sentence: usize, token: usize| -> &str {
            words.as_ref().and_then(|words| words.get(sentence)?.get(token)).map_or("", |word| &**word)
        };
        let observed = tags.iter().enumerate().map(|(number, own)| {
            let tokens = own.iter().enumerate();
            tokens.map(|(token, tag)| (word(number, token), tag.as_deref())).collect::<Vec<_>>()
        });
        let corpus = tag::Corpus::from_lists(observed).map_err(Failure)?;
        let (tagger, with_words) = (self.inner.clone(), words.is_some());
        let measures = run.supervise(py, move |run| -> Result<Measures> {
            let predicted = tagger.predict(&inputs, run)?;
            // A corpus has no empty sentences.
            let predicted = predicted.iter().filter(|tags| !tags.is_empty());
            let predicted: Vec<Vec<&str>> = predicted.map(|tags| tagger.names(tags)).collect();
            let seen = tagger.words().filter(|_| with_words);
            let known = |tag: &str| tagger.tags().number(tag).is_some();
            let found = tag::evaluate(&corpus, &predicted, seen, known)?;
            Ok(Measures { log_loss: tagger.log_loss(&inputs, run)?, found })
        })?;
        serde_json::to_string(&measures).map_err(|wrong| error::argument("y", wrong.to_string()))
    }

    /// ln p of the tags of every sentence; NaN if a tag is not one of the tagger's.
    fn log_probabilities<'py>(
        &self,
        py: Python<'py>,
        sentences: &Bound<'_, PyAny>,
        tags: Tags,
        run: &Run,
    ) -> PyResult<Bound<'py, PyArray1<f64>>> {
        let found = self.supervised(py, (sentences, Some(&tags)), run, |tagger, inputs, run| {
            tagger.log_probabilities(inputs, run)
        })?;
        Ok(PyArray1::from_vec(py, found))
    }
}
