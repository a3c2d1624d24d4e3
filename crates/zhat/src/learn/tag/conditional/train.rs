//! Training of the conditional tagger.
//!
//! The state between two steps can be saved ([`TaggerCheckpoint`]): a resumed run gives the same bits as an
//! uninterrupted one. With validation data, training stops when their log-loss has not improved for some steps,
//! and the best parameters are kept.

use serde::{Deserialize, Serialize};

use super::super::examples::Examples;
use super::super::{Inputs, Tagger};
use super::design::{Design, Wanted};
use super::objective::Objective;
use super::query::log_loss;
use crate::error::{Error, Result};
use crate::optimize::{Lbfgs, Memory, Owlqn};
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::run::Run;

const PHASE: &str = "training";
/// History of L-BFGS, in pairs.
const HISTORY: usize = 6;
/// Training stops after this many steps without any progress.
const IDLE: usize = 3;

/// Training options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Learning {
    /// λ₁ in λ₁‖θ‖₁.
    pub l1: f64,
    /// λ₂ in λ₂‖θ‖².
    pub l2: f64,
    /// The order: 1 for pairs of tags, 2 for triples as well.
    pub context: usize,
    /// Attributes seen fewer times are dropped; with the features of Appendix B, only indicators of words.
    pub min_count: usize,
    /// Parameters for all attributes and tags and for all transitions, not only for those in the training data.
    pub all_possible: bool,
    /// Maximum number of steps.
    pub iterations: usize,
    /// Stops when the objective has fallen by less than this share over `period` steps.
    pub delta: f64,
    /// The number of steps for `delta`.
    pub period: usize,
    /// With validation data: stops after this many steps without improvement.
    pub patience: usize,
}

options!(Learning {
    l1: f64 => FROM_ZERO,
    l2: f64 => FROM_ZERO,
    context: usize => Range::whole(1, 2),
    min_count: usize => COUNT,
    all_possible: bool,
    iterations: usize => ITERATIONS,
    delta: f64 => FROM_ZERO,
    period: usize => Range::whole(1, 1_000_000),
    patience: usize => Range::whole(1, 1_000_000_000)
});

impl Default for Learning {
    fn default() -> Self {
        Learning {
            l1: 0.0,
            l2: 1.0,
            context: 1,
            min_count: 0,
            all_possible: false,
            iterations: 1000,
            delta: 1e-5,
            period: 10,
            patience: 10,
        }
    }
}

/// The state of training after a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaggerProgress {
    /// The number of steps.
    pub step: usize,
    /// The objective.
    pub objective: f64,
    /// The largest component of its gradient, or of the subgradient of least norm.
    pub stationarity: f64,
    /// The log-loss per token of the validation data, if there are any.
    pub valid: Option<f64>,
}

/// The optimiser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Search {
    Lbfgs(Lbfgs),
    Owlqn(Owlqn),
}

impl Search {
    /// The point with its history.
    pub fn memory(&self) -> &Memory {
        match self {
            Search::Lbfgs(lbfgs) => lbfgs.memory(),
            Search::Owlqn(owlqn) => owlqn.memory(),
        }
    }

    pub fn point(&self) -> &[f64] {
        self.memory().parts().0
    }
}

/// The best parameters on the validation data.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Best {
    pub loss: f64,
    pub step: usize,
    pub parameters: Vec<f64>,
}

/// The whole training state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TaggerCheckpoint {
    pub(crate) how: Learning,
    /// Identifies the training data.
    pub(crate) data: u64,
    pub(crate) progress: TaggerProgress,
    /// The objectives of the last steps, oldest first.
    pub(crate) recent: Vec<f64>,
    pub(crate) idle: usize,
    pub(crate) search: Search,
    pub(crate) best: Option<Best>,
}

impl TaggerCheckpoint {
    /// The progress.
    pub fn progress(&self) -> TaggerProgress {
        self.progress
    }

    /// The best parameters so far.
    pub fn parameters(&self) -> &[f64] {
        self.best.as_ref().map_or(self.search.point(), |best| &best.parameters)
    }
}

/// How a tagger was trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    /// The number of sentences.
    pub sentences: usize,
    /// The number of tokens.
    pub tokens: usize,
    /// The number of steps.
    pub steps: usize,
    /// The objective at the end.
    pub objective: f64,
    /// Whether training stopped by itself.
    pub converged: bool,
    /// The step with the best validation data, and their log-loss per token.
    pub valid: Option<(usize, f64)>,
    /// The number of attributes that share a bucket with an earlier one.
    pub collisions: usize,
    /// λ₁ and λ₂.
    pub penalties: (f64, f64),
}

/// Makes validation data for a tagger, which numbers their attributes.
pub type Valid<'a> = dyn Fn(&Tagger) -> Result<Inputs> + 'a;

fn fingerprint(examples: &Examples, design: &Design) -> u64 {
    let mix = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let data = &examples.numbered;
    let hash = data.items.iter().fold(design.size() as u64, |hash, item| mix(hash, u64::from(*item)));
    let hash = data.weights.iter().fold(hash, |hash, weight| mix(hash, weight.to_bits()));
    let hash = data.tags.iter().fold(hash, |hash, tag| mix(hash, u64::from(*tag)));
    data.sentences.iter().fold(hash, |hash, end| mix(hash, *end as u64))
}

/// Trains a conditional tagger. `watch` is called after every step and stops training by returning false.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::tag::{Corpus, Examples, Learning, ReadOptions, Template, train};
///
/// let text = "the_DT dog_NN barks_VB\na_DT cat_NN\n";
/// let corpus = Corpus::parse(text.into(), "example", &ReadOptions::default())?;
/// let examples = Examples::of(&corpus, &Template::parse("appendix-b")?, None)?;
/// let how = Learning::default().l2(0.1);
/// let tagger = train(examples, &how, None, None, &Run::default(), &mut |_| Ok(true))?;
/// let tags = tagger.predict(&tagger.inputs(&corpus)?, &Run::default())?;
/// assert_eq!(tagger.names(&tags[0]), ["DT", "NN", "VB"]);
/// # Ok::<(), zhat::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, there are no sentences, the checkpoint is of other data or options, the memory
/// budget is too small, or `watch` fails.
pub fn train(
    mut examples: Examples,
    how: &Learning,
    valid: Option<&Valid<'_>>,
    from: Option<TaggerCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&TaggerCheckpoint) -> Result<bool>,
) -> Result<Tagger> {
    how.check()?;
    if examples.is_empty() {
        return Err(Error::argument("data", "there are no sentences"));
    }
    let clock = run.start(PHASE);
    let tags = examples.sort_tags()?;
    let wanted = Wanted { order: how.context, min_count: how.min_count, all_possible: how.all_possible };
    let design = Design::new(&mut examples, tags.len(), wanted)?;
    let size = design.size();
    let bytes = Objective::bytes(&design, &examples.numbered) + 8.0 * (2 * HISTORY + 8) as f64 * size as f64;
    run.require_memory(PHASE, bytes)?;
    let data = fingerprint(&examples, &design);
    let mut now = match from {
        Some(checkpoint) => {
            let same = Learning { iterations: how.iterations, delta: how.delta, ..checkpoint.how };
            if same != *how || checkpoint.data != data || checkpoint.search.point().len() != size {
                return Err(Error::argument("checkpoint", "belongs to other data or other options"));
            }
            TaggerCheckpoint { how: *how, ..checkpoint }
        }
        None => {
            let zero = vec![0.0; size];
            let search = match how.l1 > 0.0 {
                true => Search::Owlqn(Owlqn::new(zero, how.l1, HISTORY)),
                false => Search::Lbfgs(Lbfgs::new(zero, HISTORY)),
            };
            let unknown = f64::INFINITY;
            let progress = TaggerProgress { step: 0, objective: unknown, stationarity: unknown, valid: None };
            TaggerCheckpoint { how: *how, data, progress, recent: Vec::new(), idle: 0, search, best: None }
        }
    };
    let collisions = examples.collisions();
    let Examples { numbered, names, template, words, .. } = examples;
    let training = Training {
        sentences: numbered.sentences.len(),
        tokens: numbered.tokens(),
        collisions,
        penalties: (how.l1, how.l2),
        ..Training::default()
    };
    let mut tagger =
        Tagger::from_parts(tags, names, design, template, Vec::new(), training).with_words(words);
    let valid = valid.map(|make| make(&tagger)).transpose()?;
    let design = tagger.design().clone();
    let mut objective = Objective::new(&design, &numbered, how.l2);
    let done = |now: &TaggerCheckpoint| {
        let progress = now.progress;
        let period = now.recent.len() > how.period;
        let flat = period && now.recent[0] - progress.objective < how.delta * progress.objective.abs();
        let late = now.best.as_ref().is_some_and(|best| progress.step >= best.step + how.patience);
        flat || late || now.idle >= IDLE || progress.stationarity == 0.0
    };
    while !done(&now) && now.progress.step < how.iterations && !clock.must_stop() {
        clock.progress(PHASE, now.progress.step as u64, how.iterations as u64);
        let step = run.install(|| {
            let mut f = |point: &[f64], gradient: &mut [f64]| objective.evaluate(point, gradient, &clock);
            match &mut now.search {
                Search::Lbfgs(lbfgs) => lbfgs.step(&mut f),
                Search::Owlqn(owlqn) => owlqn.step(&mut f),
            }
        });
        let step = match step {
            // The time ran out during the step, which is discarded.
            Err(Error::Interrupted | Error::OverBudget { .. }) if clock.must_stop() => break,
            step => step?,
        };
        now.idle = if step.objective < now.progress.objective { 0 } else { now.idle + 1 };
        now.progress.step += 1;
        (now.progress.objective, now.progress.stationarity) = (step.objective, step.stationarity);
        now.recent.push(step.objective);
        if now.recent.len() > how.period + 1 {
            now.recent.remove(0);
        }
        if let Some(valid) = &valid {
            let point = now.search.point();
            let (sum, count) = run.install(|| log_loss(&design, &valid.numbered, point, &clock))?;
            let loss = sum / count.max(1) as f64;
            now.progress.valid = Some(loss);
            if now.best.as_ref().is_none_or(|best| loss < best.loss) {
                now.best = Some(Best { loss, step: now.progress.step, parameters: point.to_vec() });
            }
        }
        clock.descent(step.objective, step.stationarity);
        if !watch(&now)? {
            break;
        }
    }
    drop(objective);
    let converged = done(&now);
    tagger.set_parameters(now.parameters().to_vec(), |training| {
        (training.steps, training.objective) = (now.progress.step, now.progress.objective);
        training.converged = converged;
        training.valid = now.best.as_ref().map(|best| (best.step, best.loss));
    });
    Ok(tagger)
}
