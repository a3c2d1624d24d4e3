//! Learning a language model from counts: joint descent on the parameters and the dual variables of a
//! certified bound (Algorithm 2).
//!
//! The objective is that of the module `chains`; L-BFGS makes it less, in the units of the module `scaling`,
//! or FISTA where the memory is not enough for one pair of L-BFGS. After each step the objective of the
//! validation text is evaluated (a sum over its pairs), the best parameters are kept, and learning ends once
//! they have not become better for some steps. At the end the parameters are rounded to the model's precision
//! and the certificate is made for those in double precision.
//!
//! Cost: one sweep over all pairs of words for each evaluation, about one evaluation a step (two with FISTA);
//! memory is 2·m + 8 vectors of parameters for m remembered pairs, at most 10, or 7.5 with FISTA.
//!
//! What goes on from step to step is data ([`Checkpoint`]): a run that is resumed ends with the same bits as
//! one that never stopped.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random
//! field language models*, ICML 2015.

use serde::{Deserialize, Serialize};

use super::chains::{Chains, Form, Parameters, Shape};
use super::finish::finished;
use super::scaling::Scaling;
use super::{LanguageModel, Moments, Vocabulary};
use crate::error::{Error, Result};
use crate::method::cycle::checked_shares;
use crate::optimize::{Fista, Lbfgs, Smooth, Step, StepSize};
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, options};
use crate::run::Run;
use crate::units;

const PHASE: &str = "learning";
/// Pairs that L-BFGS remembers, if there is memory.
const HISTORY: usize = 10;
/// Vectors of L-BFGS without its pairs: point, gradient, direction, two places of the line search, the
/// parameters, the best ones.
const LBFGS_VECTORS: f64 = 8.0;
/// Those of FISTA: point, the one ahead, the next one, two gradients, the parameters, the best ones, and one
/// to spare.
const FISTA_VECTORS: f64 = 7.5;
/// Steps in a row without any gain end the work.
const IDLE: usize = 10;

/// The bound that is made less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The spectral bound with shares ρ; without any the first distance has 0.95 and the others the rest.
    Spectral(Vec<f64>),
    /// The star bound.
    Star,
}

/// How a model is learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Training {
    /// What the interactions are made of.
    pub form: Form,
    /// Which bound.
    pub objective: Objective,
    /// λ of λ/2·‖φ‖², in nats a position.
    pub l2: f64,
    /// Steps at most.
    pub iterations: usize,
    /// Ends after so many steps without a better validation text.
    pub patience: usize,
    /// Ends once the gradient has no component larger than this.
    pub tolerance: f64,
}

options!(Training {
    form: Form,
    objective: Objective,
    l2: f64 => FROM_ZERO,
    iterations: usize => ITERATIONS,
    patience: usize => COUNT,
    tolerance: f64 => FROM_ZERO
});

impl Default for Training {
    fn default() -> Self {
        Training {
            form: Form::Products(30),
            objective: Objective::Spectral(Vec::new()),
            l2: 4e-6,
            iterations: 1000,
            patience: 30,
            tolerance: 1e-9,
        }
    }
}

impl Training {
    /// w_l, and the weight of single words.
    fn weights(&self, context: usize) -> Result<(Vec<f64>, f64)> {
        match &self.objective {
            Objective::Star => {
                let weight = ((context + 1) as f64).recip();
                Ok((vec![weight; context], weight))
            }
            Objective::Spectral(shares) if shares.is_empty() => {
                let rest = if context > 1 { 0.05 / (context - 1) as f64 } else { 0.0 };
                let first = 1.0 - rest * (context - 1) as f64;
                let shares: Vec<f64> = (0..context).map(|l| if l == 0 { first } else { rest }).collect();
                Ok((checked_shares(&shares, context)?, 0.0))
            }
            Objective::Spectral(shares) => Ok((checked_shares(shares, context)?, 0.0)),
        }
    }
}

/// Where learning stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Steps done.
    pub iteration: usize,
    /// Nats a word of the text, as far as single precision knows.
    pub train: f64,
    /// Nats a word of the validation text.
    pub valid: Option<f64>,
    /// The step with the best validation text.
    pub best: usize,
    /// The largest component of the gradient.
    pub stationarity: f64,
}

/// Who looks for the minimum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Search {
    Lbfgs(Lbfgs),
    /// In less memory.
    Fista(Fista),
}

impl Search {
    fn point(&self) -> &[f64] {
        match self {
            Search::Lbfgs(lbfgs) => lbfgs.point(),
            Search::Fista(fista) => fista.point(),
        }
    }

    fn step(&mut self, f: &mut Smooth<'_>) -> Result<Step> {
        match self {
            Search::Lbfgs(lbfgs) => lbfgs.step(f),
            Search::Fista(fista) => fista.step(f),
        }
    }
}

/// Everything that goes on from one step to the next.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub(crate) how: Training,
    /// Of the counts: positions, states, context, pairs.
    pub(crate) data: Vec<u64>,
    pub(crate) progress: TrainingProgress,
    pub(crate) search: Search,
    /// The least objective so far.
    pub(crate) least: f64,
    /// The objective of the validation text, or of the text without one, and the parameters it was found at.
    pub(crate) best_value: f64,
    pub(crate) best: Option<Parameters>,
    pub(crate) idle: usize,
}

impl Checkpoint {
    /// Where it stands.
    pub fn progress(&self) -> TrainingProgress {
        self.progress
    }

    /// Whether it belongs to these counts and options; more steps and more patience are fine.
    fn fits(&self, how: &Training, moments: &Moments) -> bool {
        let same = Training {
            iterations: how.iterations,
            patience: how.patience,
            tolerance: how.tolerance,
            ..self.how.clone()
        };
        same == *how && self.data == fingerprint(moments)
    }
}

fn fingerprint(moments: &Moments) -> Vec<u64> {
    let pairs = moments.pairs().iter().map(|pairs| pairs.pairs() as u64);
    [moments.positions(), moments.states() as u64].into_iter().chain(pairs).collect()
}

/// A search from a point that fits into the memory budget.
fn affordable(
    point: impl FnOnce() -> Vec<f64>,
    moments: &Moments,
    how: &Training,
    shape: Shape,
    run: &Run,
) -> Result<Search> {
    let vector = 8.0 * shape.parameters() as f64;
    let fixed = Chains::bytes(moments, how.form, run.threads());
    let left = (run.memory() as f64 - fixed) / vector;
    let pairs = ((left - LBFGS_VECTORS) / 2.0).floor();
    if pairs >= 1.0 {
        return Ok(Search::Lbfgs(Lbfgs::new(point(), (pairs as usize).min(HISTORY))));
    }
    if left >= FISTA_VECTORS {
        return Ok(Search::Fista(Fista::new(point(), 0.0, StepSize::Adaptive { now: 1.0, most: None })));
    }
    Err(Error::OverBudget {
        needs: format!(
            "learning {} parameters needs {} of memory; a rank, or fewer words, needs less",
            shape.parameters(),
            units::bytes(fixed + FISTA_VECTORS * vector)
        ),
        budget: units::bytes(run.memory() as f64),
        fitting: Vec::new(),
    })
}

/// Learns a model. `watch` is told of every step and ends the work by returning false; with `from` it goes on
/// where that was left.
pub fn train(
    moments: &Moments,
    vocabulary: &Vocabulary,
    valid: Option<&Moments>,
    how: &Training,
    from: Option<Checkpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&Checkpoint) -> Result<bool>,
) -> Result<LanguageModel> {
    how.check()?;
    if how.form.rank() == Some(0) {
        return Err(Error::argument("rank", "must be 1 at least"));
    }
    let others =
        valid.iter().any(|valid| valid.states() != moments.states() || valid.context() != moments.context());
    if others || vocabulary.states() != moments.states() {
        return Err(Error::argument("valid", "was counted with another vocabulary or context"));
    }
    if moments.positions() <= moments.context() as u64 {
        return Err(Error::argument("context", "is as long as the whole text; expected less"));
    }
    let clock = run.start(PHASE);
    let (weights, alone) = how.weights(moments.context())?;
    let mut chains = Chains::new(moments, how.form, weights.clone(), how.l2);
    let shape = chains.shape;
    let scaling = Scaling::new(moments, shape);
    let mut now = match from {
        Some(checkpoint) if checkpoint.fits(how, moments) => Checkpoint { how: how.clone(), ..checkpoint },
        Some(_) => return Err(Error::argument("checkpoint", "is of another text or of other options")),
        None => Checkpoint {
            how: how.clone(),
            data: fingerprint(moments),
            progress: TrainingProgress {
                iteration: 0,
                train: f64::NEG_INFINITY,
                valid: None,
                best: 0,
                stationarity: f64::INFINITY,
            },
            search: affordable(|| scaling.begin(moments, run.seed()), moments, how, shape, run)?,
            least: f64::INFINITY,
            best_value: f64::INFINITY,
            best: None,
            idle: 0,
        },
    };
    let n = moments.positions() as f64;
    // The star bound has the entropy of single words besides.
    let single = |of: &Moments| {
        let terms = of.unary().iter().zip(moments.unary()).filter(|(count, _)| **count > 0);
        let sum: f64 = terms.map(|(&count, &own)| -(count as f64) * (own.max(1) as f64 / n).ln()).sum();
        if alone > 0.0 { alone * sum / of.positions() as f64 } else { 0.0 }
    };
    let per_word = |value: f64, of: &Moments| -value * of.positions() as f64 / of.tokens() as f64;
    let (single_train, single_valid) = (single(moments), valid.map(single));
    let done = |now: &Checkpoint| {
        let progress = now.progress;
        progress.iteration >= how.iterations
            || progress.stationarity <= how.tolerance
            || now.idle >= IDLE
            || valid.is_some() && progress.iteration >= progress.best + how.patience
    };
    while !done(&now) && !clock.is_cancelled() && !clock.is_out_of_time() {
        clock.progress(PHASE, now.progress.iteration as u64, how.iterations as u64);
        let mut last: Option<Parameters> = None;
        let mut objective = |z: &[f64], gradient: &mut [f64]| -> Result<f64> {
            if clock.must_stop() {
                return Err(Error::Interrupted);
            }
            drop(last.take());
            let point = scaling.parameters(z);
            let value = chains.evaluate(&point, gradient);
            scaling.gradient(gradient);
            last = Some(point);
            Ok(value)
        };
        let step = match run.install(|| now.search.step(&mut objective)) {
            // Time was up within a step, which is then not taken.
            Err(Error::Interrupted) => break,
            step => step?,
        };
        let point = scaling.parameters(now.search.point());
        if last.as_ref() != Some(&point) {
            // The line search has ended elsewhere than it looked last, or did not look at all.
            run.install(|| chains.evaluate(&point, &mut vec![0.0; shape.parameters()]));
        }
        drop(last);
        let iteration = now.progress.iteration + 1;
        let train = chains.cross_entropy(&point, moments) + single_train;
        let watched = match (valid, single_valid) {
            (Some(valid), Some(single)) => Some(chains.cross_entropy(&point, valid) + single),
            _ => None,
        };
        let gained = step.objective < now.least;
        now.least = now.least.min(step.objective);
        let value = watched.unwrap_or(step.objective);
        let mut best = now.progress.best;
        if value < now.best_value || now.best.is_none() {
            (now.best_value, now.best, best) = (value, Some(point), iteration);
        }
        now.idle = if gained { 0 } else { now.idle + 1 };
        now.progress = TrainingProgress {
            iteration,
            train: per_word(train, moments),
            valid: watched.zip(valid).map(|(value, valid)| per_word(value, valid)),
            best,
            stationarity: step.stationarity,
        };
        if !watch(&now)? {
            break;
        }
    }
    let best = now.best.take().unwrap_or_else(|| scaling.parameters(now.search.point()));
    run.install(|| finished(moments, vocabulary, how, shape, &weights, &best))
}
