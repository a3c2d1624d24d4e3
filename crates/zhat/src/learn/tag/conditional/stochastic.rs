//! Training by stochastic gradients, from memory or from a file that is read in blocks.
//!
//! An epoch is one pass over the data: the sentences of every block are shuffled and divided into batches, and every
//! batch is a step of [`Descent`]. The objective of an epoch is Σ −ln p of every batch before its step, and the
//! penalty at the end; at the end of training one more pass computes the objective itself. The first step size is the
//! one with the smallest objective after one pass over up to 1,000 sentences.

use super::super::corpus::Stream;
use super::super::examples::{Examples, Numbered};
use super::super::{Tagger, Template};
use super::descent::Descent;
use super::survey::{Survey, survey};
use super::train::{Epochs, Learning, PHASE, Search, TagOptimizer, TaggerCheckpoint, Training, Valid};
use crate::error::{Error, Result};
use crate::optimize::Step;
use crate::options::Options;
use crate::random::Streams;
use crate::run::{Clock, Run};

/// The number of sentences for the choice of the first step size.
const TRIAL: usize = 1000;
/// The smallest first step size that is tried; the others are doubled.
const LEAST_RATE: f64 = 1.0 / 1024.0;
/// The number of first step sizes that are tried at most.
const RATES: usize = 16;

/// The training data.
pub(super) enum Source<'a> {
    /// All sentences.
    Memory(&'a Numbered),
    /// A file, read in blocks.
    File(&'a Stream),
}

impl Source<'_> {
    /// Calls `each` with every block and its number.
    fn each(&self, tagger: &Tagger, each: &mut dyn FnMut(u64, &Numbered) -> Result<()>) -> Result<()> {
        match self {
            Source::Memory(numbered) => each(0, numbered),
            Source::File(stream) => {
                let mut block = 0;
                stream.each(&mut |corpus| {
                    each(block, &tagger.inputs(corpus)?.numbered)?;
                    block += 1;
                    Ok(())
                })
            }
        }
    }

    fn bytes(&self, tokens: usize) -> f64 {
        match self {
            Source::Memory(numbered) => numbered.bytes() + 8.0 * tokens as f64,
            // The text of a block, its tokens and their attributes.
            Source::File(stream) => 8.0 * stream.block_bytes() as f64,
        }
    }
}

/// Trains a conditional tagger by stochastic gradients on a file that is read in blocks, once per epoch and twice
/// more. Memory: the parameters, the names of the attributes unless they are hashed, and one block. `watch` is
/// called after every epoch and stops training by returning false.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::tag::{Learning, ReadOptions, Stream, TagOptimizer, Template, train_file};
///
/// let path = std::env::temp_dir().join("zhat-train-file-example.txt");
/// std::fs::write(&path, "the_DT dog_NN barks_VB\na_DT cat_NN\n")?;
/// let stream = Stream::new(&path, ReadOptions::default(), 1 << 20)?;
/// let how = Learning::default().l2(0.1).optimizer(TagOptimizer::Sgd).iterations(20);
/// let template = Template::parse("appendix-b")?;
/// let tagger = train_file(&stream, &template, None, &how, None, None, &Run::default(), &mut |_| Ok(true))?;
/// assert_eq!(tagger.tags().names(), ["DT", "NN", "VB"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// If an option is out of range or the optimizer is not [`TagOptimizer::Sgd`], the file cannot be read or has a
/// token without a tag, the checkpoint is of other data or options, the memory budget is too small, or `watch`
/// fails.
#[expect(clippy::too_many_arguments, reason = "those of `train`, and how the file becomes attributes")]
pub fn train_file(
    stream: &Stream,
    template: &Template,
    hash_bits: Option<u32>,
    how: &Learning,
    valid: Option<&Valid<'_>>,
    from: Option<TaggerCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&TaggerCheckpoint) -> Result<bool>,
) -> Result<Tagger> {
    how.check()?;
    if how.optimizer != TagOptimizer::Sgd {
        return Err(Error::argument("optimizer", "a file that is read in blocks needs sgd"));
    }
    let clock = run.start(PHASE);
    let Survey { examples, tags, design, sentences, tokens, data } =
        survey(stream, template, hash_bits, how, &clock)?;
    let collisions = examples.collisions();
    let Examples { names, template, words, .. } = examples;
    let penalties = (how.l1, how.l2);
    let (learning, seed) = (Some(*how), Some(run.seed()));
    let training =
        Training { sentences, tokens, collisions, penalties, learning, seed, ..Training::default() };
    let mut tagger =
        Tagger::from_parts(tags, names, design, template, Vec::new(), training).with_words(words);
    let (now, objective) =
        descend(&tagger, &Source::File(stream), how, valid, (data, from), run, &clock, watch)?;
    now.finish(objective, &mut tagger);
    Ok(tagger)
}

/// Runs the epochs. The objective that is returned is that of the final parameters; those of the epochs are sums
/// of losses at the parameters before each step.
#[expect(clippy::too_many_arguments, reason = "the two ways to train share it")]
pub(super) fn descend(
    tagger: &Tagger,
    source: &Source<'_>,
    how: &Learning,
    valid: Option<&Valid<'_>>,
    (data, from): (u64, Option<TaggerCheckpoint>),
    run: &Run,
    clock: &Clock<'_>,
    watch: &mut dyn FnMut(&TaggerCheckpoint) -> Result<bool>,
) -> Result<(TaggerCheckpoint, f64)> {
    let (design, sentences) = (tagger.design(), tagger.training().sentences);
    let bytes = Descent::bytes(design, how) + source.bytes(tagger.training().tokens);
    run.require_memory(PHASE, bytes + 24.0 * design.size() as f64)?;
    let mut now = TaggerCheckpoint::begin(how, data, design.size(), from)?;
    let valid = valid.map(|make| make(tagger)).transpose()?;
    let streams = Streams::new(run.seed(), "epochs of a tagger");
    while !now.done() && now.progress.step < how.iterations && !clock.must_stop() {
        clock.progress(PHASE, now.progress.step as u64, how.iterations as u64);
        let Search::Sgd(epochs) = &mut now.search else {
            return Err(Error::argument("checkpoint", "belongs to another optimizer"));
        };
        let epoch = now.progress.step as u64;
        let result = run.install(|| -> Result<(f64, Epochs)> {
            let mut rate = epochs.rate;
            let mut descent = None;
            let mut loss = 0.0;
            source.each(tagger, &mut |block, data| {
                if rate == 0.0 {
                    rate = first_rate(tagger, how, data, clock)?;
                }
                let descent = descent.get_or_insert_with(|| {
                    Descent::new(design, how, sentences, &epochs.point, (epochs.seen, rate))
                });
                let mut order: Vec<usize> = (0..data.sentences.len()).collect();
                streams.block(epoch << 32 | block).shuffle(&mut order);
                for batch in order.chunks(how.batch) {
                    clock.check()?;
                    loss += descent.step(data, batch)?;
                }
                Ok(())
            })?;
            let mut descent = descent.ok_or_else(|| Error::argument("data", "there are no sentences"))?;
            let objective = loss + descent.penalty();
            Ok((objective, Epochs { point: descent.parameters(), seen: descent.seen, rate }))
        });
        let (objective, after) = match result {
            // The time ran out during the epoch, which is discarded.
            Err(Error::Interrupted | Error::OverBudget { .. }) if clock.must_stop() => break,
            result => result?,
        };
        let moved =
            after.point.iter().zip(&epochs.point).fold(0.0f64, |most, (a, b)| most.max((a - b).abs()));
        *epochs = after;
        now.record(Step { objective, stationarity: moved }, valid.as_ref(), design, run, clock)?;
        if !watch(&now)? {
            break;
        }
    }
    let mut objective = now.progress.objective;
    if now.progress.step > 0 && !clock.must_stop() {
        match run.install(|| exact(tagger, source, how, now.parameters(), clock)) {
            Err(Error::Interrupted | Error::OverBudget { .. }) if clock.must_stop() => {}
            result => objective = result?,
        }
    }
    Ok((now, objective))
}

/// The objective at parameters.
fn exact(
    tagger: &Tagger,
    source: &Source<'_>,
    how: &Learning,
    parameters: &[f64],
    clock: &Clock<'_>,
) -> Result<f64> {
    let mut descent = Descent::new(tagger.design(), how, tagger.training().sentences, parameters, (0, 0.0));
    let mut loss = 0.0;
    source.each(tagger, &mut |_, data| {
        let order: Vec<usize> = (0..data.sentences.len()).collect();
        for batch in order.chunks(how.batch) {
            clock.check()?;
            loss += descent.loss(data, batch)?;
        }
        Ok(())
    })?;
    Ok(loss + descent.penalty())
}

/// The first step size with the smallest objective after one pass over some sentences of the first block.
fn first_rate(tagger: &Tagger, how: &Learning, data: &Numbered, clock: &Clock<'_>) -> Result<f64> {
    let (design, all) = (tagger.design(), tagger.training().sentences);
    let order: Vec<usize> = (0..data.sentences.len().min(TRIAL)).collect();
    let zero = vec![0.0; design.size()];
    let share = order.len() as f64 / all.max(1) as f64;
    let (mut best, mut found, mut worse) = (f64::INFINITY, LEAST_RATE, 0);
    for k in 0..RATES {
        let rate = LEAST_RATE * (1u64 << k) as f64;
        let mut descent = Descent::new(design, how, all, &zero, (0, rate));
        let mut trial = || -> Result<f64> {
            for batch in order.chunks(how.batch) {
                clock.check()?;
                descent.step(data, batch)?;
            }
            let mut loss = 0.0;
            for batch in order.chunks(how.batch) {
                clock.check()?;
                loss += descent.loss(data, batch)?;
            }
            Ok(loss + share * descent.penalty())
        };
        let objective = match trial() {
            Err(Error::NoAnswer(_)) => f64::INFINITY,
            other => other?,
        };
        if objective < best {
            (best, found, worse) = (objective, rate, 0);
        } else {
            worse += 1;
            if worse == 2 {
                break;
            }
        }
    }
    Ok(found)
}
