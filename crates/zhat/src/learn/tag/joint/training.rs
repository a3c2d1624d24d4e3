//! Training of a joint tagger: L-BFGS on the objective of the module `objective`.
//!
//! The corpus is counted once; a step costs the same for a corpus of any length. With a validation corpus, its tags are
//! predicted every few steps, the parameters with the highest accuracy are kept, and training stops early once they
//! have not improved for some steps. The parameters are rounded to single precision at the end.
//!
//! Memory: 2·m + 8 vectors of parameters for a history of m ≤ 8 pairs, and the tables of scores. The whole state can be
//! saved ([`TrainingCheckpoint`]): a resumed run gives the same bits as an uninterrupted one.

use serde::{Deserialize, Serialize};

use super::super::{Corpus, TagSet};
use super::bound::Bound;
use super::decode::Sentences;
use super::objective::{Layout, Objective};
use super::tagger::TagScore;
use super::{JointTagger, Lexicon, Moments, Trained};
use crate::error::{Error, Result};
use crate::optimize::Lbfgs;
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::run::Run;
use crate::units;

#[cfg(test)]
mod tests;

const PHASE: &str = "training";
/// Maximum history of L-BFGS, in pairs, if memory permits.
const HISTORY: usize = 8;
/// Vectors of parameters beside the history.
const VECTORS: f64 = 9.0;
/// Training stops after this many consecutive steps without progress.
const IDLE: usize = 10;
/// The validation corpus is tagged every so many steps.
const EVERY: usize = 5;

/// Training options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Training {
    /// K: every tag interacts with the tags at distances 1, …, K.
    pub context: usize,
    /// L: every tag interacts with the L nearest words.
    pub window: usize,
    /// The bound to minimise; the tightest one that applies if not given.
    pub bound: Option<Bound>,
    /// Words that occur fewer times have no indicator of their own.
    pub min_count: usize,
    /// Whether every word has a score that does not depend on the tag.
    pub word_scores: bool,
    /// λ in λ‖u‖², added to the negative log-likelihood of the corpus.
    pub l2: f64,
    /// Maximum number of steps.
    pub iterations: usize,
    /// Early stopping: stops after this many steps without improvement on the validation corpus.
    pub patience: usize,
    /// Stops when the objective has fallen by less than this share over `period` steps.
    pub delta: f64,
    /// The number of steps for `delta`.
    pub period: usize,
    /// Steps of optimisation over the dual variables for the certificates of the likelihood at the end.
    pub certifying: usize,
}

options!(Training {
    context: usize => Range::whole(1, 2),
    window: usize => Range::whole(1, 9),
    bound: Option<Bound>,
    min_count: usize => COUNT,
    word_scores: bool,
    l2: f64 => FROM_ZERO,
    iterations: usize => ITERATIONS,
    patience: usize => COUNT,
    delta: f64 => FROM_ZERO,
    period: usize => Range::whole(1, 1_000_000),
    certifying: usize => ITERATIONS
});

impl Default for Training {
    fn default() -> Self {
        Training {
            context: 1,
            window: 1,
            bound: None,
            min_count: 2,
            word_scores: true,
            l2: 0.5,
            iterations: 300,
            patience: 50,
            delta: 1e-4,
            period: 10,
            certifying: 40,
        }
    }
}

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Number of steps done.
    pub iteration: usize,
    /// The objective, in nats per position.
    pub objective: f64,
    /// Accuracy on the validation corpus, when it was last tagged.
    pub valid: Option<f64>,
    /// The step with the best validation result.
    pub best: usize,
    /// The largest component of the scaled gradient.
    pub stationarity: f64,
}

/// The whole training state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingCheckpoint {
    pub(super) how: Training,
    /// Properties of the corpus: positions, tags, words, features, counts.
    pub(super) data: Vec<u64>,
    pub(super) progress: TrainingProgress,
    pub(super) search: Lbfgs,
    pub(super) least: f64,
    /// The highest accuracy on the validation corpus and its parameters.
    pub(super) best_value: f64,
    pub(super) best: Option<Vec<f64>>,
    pub(super) idle: usize,
    /// The objectives of the last steps, oldest first.
    pub(super) recent: Vec<f64>,
}

impl TrainingCheckpoint {
    /// The progress.
    pub fn progress(&self) -> TrainingProgress {
        self.progress
    }

    fn fits(&self, how: &Training, data: &[u64]) -> bool {
        let same = Training {
            iterations: how.iterations,
            patience: how.patience,
            delta: how.delta,
            certifying: how.certifying,
            ..self.how.clone()
        };
        same == *how && self.data == data
    }
}

fn fingerprint(moments: &Moments, lexicon: &Lexicon, valid: Option<&Corpus>) -> Vec<u64> {
    let counts = moments.emissions.iter().flatten().fold(0u64, |hash, &(word, tag, count)| {
        (hash ^ (u64::from(word) << 40 ^ u64::from(tag) << 20 ^ count)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    });
    let valid = valid.map_or(0, |valid| valid.tokens() as u64);
    vec![
        moments.length() as u64,
        moments.tags() as u64,
        lexicon.len() as u64,
        lexicon.features() as u64,
        counts,
        valid,
    ]
}

/// Trains a joint tagger. `watch` is called after every step and stops training by returning false. Training continues
/// from `from` if given.
///
/// # Errors
/// If an option is out of range, a token has no tag, the bound does not apply, the checkpoint is of another corpus or
/// other options, the memory budget is too small, or `watch` fails.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::tag::{Corpus, ReadOptions};
/// use zhat::learn::tag::joint::{Training, train};
/// let text = "the_DT dog_NN barks_VBZ\nthe_DT cats_NNS bark_VBP\nthe_DT cat_NN walks_VBZ\n";
/// let corpus = Corpus::parse(text.into(), "example", &ReadOptions::default())?;
/// let run = Run::default();
/// let how = Training::default().l2(1e-3).iterations(30);
/// let tagger = train(&corpus, None, &how, None, &run, &mut |_| Ok(true))?;
/// assert_eq!(tagger.tag_words(&["the", "frog", "talks"], &run)?, ["DT", "NN", "VBZ"]);
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn train(
    corpus: &Corpus,
    valid: Option<&Corpus>,
    how: &Training,
    from: Option<TrainingCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&TrainingCheckpoint) -> Result<bool>,
) -> Result<JointTagger> {
    how.check()?;
    if how.window.is_multiple_of(2) {
        return Err(Error::argument(
            "window",
            format!("expected an odd number of words from 1 to 9, found {}", how.window),
        ));
    }
    let run = &run.begun();
    let bound = how.bound.unwrap_or(Bound::tightest(how.context, how.window));
    if bound == Bound::Exact && how.window > 3 {
        let message = "`exact` needs at most 3 words; `cover` and `star` have no such limit";
        return Err(Error::argument("bound", message));
    }
    let clock = run.start(PHASE);
    let tags = TagSet::of(corpus)?;
    let lexicon = Lexicon::of(corpus, how.window, how.min_count)?;
    let moments = Moments::of(corpus, &tags, &lexicon, how.context)?;
    let data = fingerprint(&moments, &lexicon, valid);
    let watched = valid.map(|valid| (valid, Sentences::new(valid.sentences(), &lexicon)));
    let mut objective = Objective::new(&moments, &lexicon, bound, how)?;
    let layout = objective.layout.clone();
    let mut now = match from {
        Some(checkpoint) if checkpoint.fits(how, &data) => {
            TrainingCheckpoint { how: how.clone(), ..checkpoint }
        }
        Some(_) => return Err(Error::argument("checkpoint", "belongs to another corpus or other options")),
        None => {
            let start = objective.begin(&moments)?;
            TrainingCheckpoint {
                how: how.clone(),
                data,
                progress: TrainingProgress {
                    iteration: 0,
                    objective: f64::INFINITY,
                    valid: None,
                    best: 0,
                    stationarity: f64::INFINITY,
                },
                search: Lbfgs::new(start, affordable(&layout, &lexicon, bound, run)?),
                least: f64::INFINITY,
                best_value: f64::NEG_INFINITY,
                best: None,
                idle: 0,
                recent: Vec::new(),
            }
        }
    };
    let done = |now: &TrainingCheckpoint| {
        let progress = now.progress;
        let flat = now.recent.len() > how.period
            && now.recent[0] - progress.objective < how.delta * progress.objective.abs();
        progress.iteration >= how.iterations
            || flat
            || progress.stationarity == 0.0
            || now.idle >= IDLE
            || watched.is_some() && progress.iteration >= progress.best + how.patience.max(EVERY)
    };
    let stop = || if clock.must_stop() { Err(Error::Interrupted) } else { Ok(()) };
    while !done(&now) && !clock.is_cancelled() && !clock.is_out_of_time() {
        clock.progress(PHASE, now.progress.iteration as u64, how.iterations as u64);
        let mut value = |z: &[f64], gradient: &mut [f64]| objective.evaluate(z, gradient, &stop);
        let step = match run.install(|| now.search.step(&mut value)) {
            // The time ran out during the step, which is discarded.
            Err(Error::Interrupted) => break,
            step => step?,
        };
        let iteration = now.progress.iteration + 1;
        now.idle = if step.objective < now.least { 0 } else { now.idle + 1 };
        now.least = now.least.min(step.objective);
        now.recent.push(step.objective);
        if now.recent.len() > how.period + 1 {
            now.recent.remove(0);
        }
        let (mut best, mut accuracy) = (now.progress.best, now.progress.valid);
        if let Some((corpus, sentences)) = &watched
            && (iteration % EVERY == 0 || iteration == how.iterations)
        {
            let point = objective.parameters(now.search.point());
            let found = match run.install(|| sentences.best(&layout, &point, run)) {
                Err(_) if clock.must_stop() => break,
                found => found?,
            };
            let score = TagScore::of(corpus, &tags, &found, &|_| true).accuracy();
            accuracy = Some(score);
            if score > now.best_value {
                (now.best_value, now.best, best) = (score, Some(point), iteration);
            }
        }
        now.progress = TrainingProgress {
            iteration,
            objective: step.objective,
            valid: accuracy,
            best,
            stationarity: step.stationarity,
        };
        clock.descent(step.objective, step.stationarity);
        if !watch(&now)? {
            break;
        }
    }
    let trained = Trained {
        sentences: corpus.len(),
        tokens: corpus.tokens(),
        steps: now.progress.iteration,
        objective: Some(now.progress.objective).filter(|value| value.is_finite()),
        converged: now.progress.iteration < how.iterations && done(&now),
        valid: now.best.as_ref().map(|_| (now.progress.best, now.best_value)),
        log_likelihoods: Vec::new(),
        learning: Some(how.clone()),
        seed: Some(run.seed()),
    };
    let mut point = now.best.take().unwrap_or_else(|| objective.parameters(now.search.point()));
    let duals = point.split_off(layout.bias);
    point.iter_mut().for_each(|x| *x = f64::from(*x as f32));
    drop(objective);
    let mut tagger = JointTagger { tags, lexicon, layout, point, bound, duals, trained };
    tagger.trained.log_likelihoods = tagger.certificates(&moments, how.certifying, run)?;
    Ok(tagger)
}

/// The history of L-BFGS that fits the memory budget.
fn affordable(layout: &Layout, lexicon: &Lexicon, bound: Bound, run: &Run) -> Result<usize> {
    let vector = 8.0 * (layout.bias + lexicon.window() * lexicon.len()) as f64;
    let tables = 40.0 * (layout.words * layout.tags * lexicon.window()) as f64;
    let triples = if bound == Bound::Exact { 48.0 * (layout.tags as f64).powi(3) } else { 0.0 };
    let fixed = tables + triples + VECTORS * vector;
    let pairs = ((run.memory() as f64 - fixed) / (2.0 * vector)).floor();
    if pairs < 1.0 {
        return Err(Error::OverBudget {
            needs: format!(
                "training {} parameters needs {} of memory; a smaller window or a larger min_count needs less",
                layout.bias,
                units::bytes(fixed + 2.0 * vector)
            ),
            budget: units::bytes(run.memory() as f64),
            fitting: Vec::new(),
        });
    }
    Ok((pairs as usize).min(HISTORY))
}
