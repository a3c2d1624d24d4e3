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
use super::stochastic::{Source, descend};
use crate::error::{Error, Result};
use crate::optimize::{Lbfgs, Memory, Owlqn, Step};
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::run::{Clock, Run};

pub(super) const PHASE: &str = "training";
/// History of L-BFGS, in pairs.
const HISTORY: usize = 6;
/// Training stops after this many steps without any progress.
const IDLE: usize = 3;

/// The optimisation method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TagOptimizer {
    /// Limited-memory BFGS, with l1 its orthant-wise variant: one step per pass over the data.
    #[default]
    Lbfgs,
    /// Stochastic gradients: one step per batch of sentences, one epoch per pass.
    Sgd,
}

impl TagOptimizer {
    /// The method of this name: `lbfgs` or `sgd`.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self> {
        match name {
            "lbfgs" => Ok(TagOptimizer::Lbfgs),
            "sgd" => Ok(TagOptimizer::Sgd),
            _ => Err(Error::argument("optimizer", format!("expected lbfgs or sgd, found `{name}`"))),
        }
    }
}

/// Training options. A step is one of L-BFGS, or an epoch of stochastic gradients.
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
    /// The optimisation method.
    pub optimizer: TagOptimizer,
    /// Stochastic gradients: the number of sentences per batch.
    pub batch: usize,
    /// Stochastic gradients: the first step size; 0 chooses it by trials on some sentences.
    pub rate: f64,
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
    patience: usize => Range::whole(1, 1_000_000_000),
    optimizer: TagOptimizer,
    batch: usize => Range::whole(1, 4096),
    rate: f64 => FROM_ZERO
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
            optimizer: TagOptimizer::Lbfgs,
            batch: 8,
            rate: 0.0,
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
    Sgd(Epochs),
}

/// The state of stochastic gradients between two epochs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Epochs {
    pub point: Vec<f64>,
    /// The number of sentences so far.
    pub seen: u64,
    /// The first step size.
    pub rate: f64,
}

impl Search {
    /// The point with its history, for quasi-Newton methods.
    pub fn memory(&self) -> Option<&Memory> {
        match self {
            Search::Lbfgs(lbfgs) => Some(lbfgs.memory()),
            Search::Owlqn(owlqn) => Some(owlqn.memory()),
            Search::Sgd(_) => None,
        }
    }

    pub fn point(&self) -> &[f64] {
        match self {
            Search::Lbfgs(lbfgs) => lbfgs.point(),
            Search::Owlqn(owlqn) => owlqn.point(),
            Search::Sgd(epochs) => &epochs.point,
        }
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

    /// The start, or the checkpoint to resume from if it belongs to these data and options.
    pub(super) fn begin(how: &Learning, data: u64, size: usize, from: Option<Self>) -> Result<Self> {
        if let Some(checkpoint) = from {
            let same = Learning { iterations: how.iterations, delta: how.delta, ..checkpoint.how };
            if same != *how || checkpoint.data != data || checkpoint.search.point().len() != size {
                return Err(Error::argument("checkpoint", "belongs to other data or other options"));
            }
            return Ok(TaggerCheckpoint { how: *how, ..checkpoint });
        }
        let zero = vec![0.0; size];
        let search = match how.optimizer {
            TagOptimizer::Sgd => Search::Sgd(Epochs { point: zero, seen: 0, rate: how.rate }),
            TagOptimizer::Lbfgs if how.l1 > 0.0 => Search::Owlqn(Owlqn::new(zero, how.l1, HISTORY)),
            TagOptimizer::Lbfgs => Search::Lbfgs(Lbfgs::new(zero, HISTORY)),
        };
        let unknown = f64::INFINITY;
        let progress = TaggerProgress { step: 0, objective: unknown, stationarity: unknown, valid: None };
        Ok(TaggerCheckpoint { how: *how, data, progress, recent: Vec::new(), idle: 0, search, best: None })
    }

    /// Whether training stops by itself.
    pub(super) fn done(&self) -> bool {
        let (how, progress) = (&self.how, self.progress);
        let period = self.recent.len() > how.period;
        let flat = period && self.recent[0] - progress.objective < how.delta * progress.objective.abs();
        let late = self.best.as_ref().is_some_and(|best| progress.step >= best.step + how.patience);
        // Stochastic objectives go up and down.
        let idle = self.idle >= IDLE && how.optimizer == TagOptimizer::Lbfgs;
        flat || late || idle || progress.stationarity == 0.0
    }

    /// Records a step and, with validation data, their log-loss at the point.
    pub(super) fn record(
        &mut self,
        step: Step,
        valid: Option<&Inputs>,
        design: &Design,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<()> {
        self.idle = if step.objective < self.progress.objective { 0 } else { self.idle + 1 };
        self.progress.step += 1;
        (self.progress.objective, self.progress.stationarity) = (step.objective, step.stationarity);
        self.recent.push(step.objective);
        if self.recent.len() > self.how.period + 1 {
            self.recent.remove(0);
        }
        if let Some(valid) = valid {
            let point = self.search.point();
            let (sum, count) = run.install(|| log_loss(design, &valid.numbered, point, clock))?;
            let loss = sum / count.max(1) as f64;
            self.progress.valid = Some(loss);
            if self.best.as_ref().is_none_or(|best| loss < best.loss) {
                self.best = Some(Best { loss, step: self.progress.step, parameters: point.to_vec() });
            }
        }
        clock.descent(step.objective, step.stationarity);
        Ok(())
    }

    /// Gives the parameters, with the objective there, to the tagger.
    pub(super) fn finish(&self, objective: f64, tagger: &mut Tagger) {
        tagger.set_parameters(self.parameters().to_vec(), |training| {
            (training.steps, training.objective) = (self.progress.step, objective);
            training.converged = self.done();
            training.valid = self.best.as_ref().map(|best| (best.step, best.loss));
        });
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
    /// The options; `None` for a file of an earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Learning>,
    /// The seed of its random numbers, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
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
    let data = fingerprint(&examples, &design);
    let collisions = examples.collisions();
    let Examples { numbered, names, template, words, .. } = examples;
    let training = Training {
        sentences: numbered.sentences.len(),
        tokens: numbered.tokens(),
        collisions,
        penalties: (how.l1, how.l2),
        learning: Some(*how),
        seed: Some(run.seed()),
        ..Training::default()
    };
    let mut tagger =
        Tagger::from_parts(tags, names, design, template, Vec::new(), training).with_words(words);
    if how.optimizer == TagOptimizer::Sgd {
        let (now, objective) =
            descend(&tagger, &Source::Memory(&numbered), how, valid, (data, from), run, &clock, watch)?;
        now.finish(objective, &mut tagger);
        return Ok(tagger);
    }
    let design = tagger.design().clone();
    let size = design.size();
    let bytes = Objective::bytes(&design, &numbered) + 8.0 * (2 * HISTORY + 8) as f64 * size as f64;
    run.require_memory(PHASE, bytes)?;
    let mut now = TaggerCheckpoint::begin(how, data, size, from)?;
    let valid = valid.map(|make| make(&tagger)).transpose()?;
    let mut objective = Objective::new(&design, &numbered, how.l2);
    while !now.done() && now.progress.step < how.iterations && !clock.must_stop() {
        clock.progress(PHASE, now.progress.step as u64, how.iterations as u64);
        let step = run.install(|| {
            let mut f = |point: &[f64], gradient: &mut [f64]| objective.evaluate(point, gradient, &clock);
            match &mut now.search {
                Search::Lbfgs(lbfgs) => lbfgs.step(&mut f),
                Search::Owlqn(owlqn) => owlqn.step(&mut f),
                Search::Sgd(_) => Err(Error::argument("checkpoint", "belongs to another optimizer")),
            }
        });
        let step = match step {
            // The time ran out during the step, which is discarded.
            Err(Error::Interrupted | Error::OverBudget { .. }) if clock.must_stop() => break,
            step => step?,
        };
        now.record(step, valid.as_ref(), &design, run, &clock)?;
        if !watch(&now)? {
            break;
        }
    }
    drop(objective);
    now.finish(now.progress.objective, &mut tagger);
    Ok(tagger)
}
