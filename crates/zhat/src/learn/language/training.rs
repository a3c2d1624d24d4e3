//! Training of a language model from counts: joint minimisation over the parameters and the dual variables of
//! a certified bound (Algorithm 2).
//!
//! L-BFGS minimises the objective of the module `chains`, in the scaling of the module `scaling`; FISTA
//! replaces it if the memory does not suffice for one pair of L-BFGS. After each step the objective of the
//! validation text is evaluated (a sum over its pairs) and the best parameters are kept; training stops early
//! once they have not improved for some steps. At the end the parameters are rounded to the precision of the
//! model, and the certificate of the rounded parameters is computed in double precision.
//!
//! Cost: one sweep over all pairs of words per evaluation, with about one evaluation per step (two with
//! FISTA). Memory: 2·m + 8 vectors of parameters for a history of m ≤ 10 pairs, or 7.5 vectors with FISTA.
//!
//! The whole training state can be saved ([`TrainingCheckpoint`]): a resumed run gives the same bits as an
//! uninterrupted one.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random
//! field language models*, ICML 2015.

use serde::{Deserialize, Serialize};

use super::chains::{Chains, InteractionForm, Parameters, Shape};
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
/// Maximum history of L-BFGS, in pairs, if memory permits.
const HISTORY: usize = 10;
/// Vectors of L-BFGS without its history: point, gradient, direction, two points of the line search, the
/// parameters, the best parameters.
const LBFGS_VECTORS: f64 = 8.0;
/// Vectors of FISTA: point, extrapolated point, next point, two gradients, the parameters, the best
/// parameters, and a reserve.
const FISTA_VECTORS: f64 = 7.5;
/// Training stops after this many consecutive steps without progress.
const IDLE: usize = 10;

/// The bound to minimise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The spectral bound with shares ρ; if empty, the first distance has 0.95 and the others share the rest.
    Spectral(Vec<f64>),
    /// The star bound.
    Star,
}

/// Training options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Training {
    /// The form of the interactions.
    pub form: InteractionForm,
    /// The bound to minimise.
    pub objective: Objective,
    /// λ in λ/2·‖φ‖², in nats per position.
    pub l2: f64,
    /// Maximum number of steps.
    pub iterations: usize,
    /// Early stopping: stops after this many steps without improvement on the validation text.
    pub patience: usize,
    /// Stops once no component of the gradient exceeds this.
    pub tolerance: f64,
}

options!(Training {
    form: InteractionForm,
    objective: Objective,
    l2: f64 => FROM_ZERO,
    iterations: usize => ITERATIONS,
    patience: usize => COUNT,
    tolerance: f64 => FROM_ZERO
});

impl Default for Training {
    fn default() -> Self {
        Training {
            form: InteractionForm::Products(30),
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

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Number of steps done.
    pub iteration: usize,
    /// The bound on the log-likelihood of the training text in nats per word, in single precision.
    pub train: f64,
    /// The same for the validation text.
    pub valid: Option<f64>,
    /// The step with the best validation result.
    pub best: usize,
    /// The largest component of the gradient.
    pub stationarity: f64,
}

/// The optimiser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Search {
    Lbfgs(Lbfgs),
    /// Needs less memory.
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

/// The whole training state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainingCheckpoint {
    pub(crate) how: Training,
    /// Properties of the counts: positions, states, context, pairs.
    pub(crate) data: Vec<u64>,
    pub(crate) progress: TrainingProgress,
    pub(crate) search: Search,
    /// The minimum objective so far.
    pub(crate) least: f64,
    /// The best objective on the validation text, or on the training text without one, and its parameters.
    pub(crate) best_value: f64,
    pub(crate) best: Option<Parameters>,
    pub(crate) idle: usize,
}

impl TrainingCheckpoint {
    /// The progress.
    pub fn progress(&self) -> TrainingProgress {
        self.progress
    }

    /// Whether it belongs to these counts and options; the number of steps and the patience may change.
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

/// An optimiser at an initial point that fits the memory budget.
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
            "training {} parameters needs {} of memory; a smaller rank or vocabulary needs less",
            shape.parameters(),
            units::bytes(fixed + FISTA_VECTORS * vector)
        ),
        budget: units::bytes(run.memory() as f64),
        fitting: Vec::new(),
    })
}

/// Trains a model. `watch` is called after every step and stops training by returning false. Training
/// continues from `from` if given.
///
/// # Errors
/// If an option is out of range, `vocabulary` or `valid` does not match `moments`, the text is not longer
/// than the context, the checkpoint is of another text or other options, the memory budget is too small,
/// training diverges, or `watch` fails.
pub fn train(
    moments: &Moments,
    vocabulary: &Vocabulary,
    valid: Option<&Moments>,
    how: &Training,
    from: Option<TrainingCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&TrainingCheckpoint) -> Result<bool>,
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
        Some(checkpoint) if checkpoint.fits(how, moments) => {
            TrainingCheckpoint { how: how.clone(), ..checkpoint }
        }
        Some(_) => return Err(Error::argument("checkpoint", "belongs to another text or other options")),
        None => TrainingCheckpoint {
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
    // The star bound also contains the entropy of single words.
    let single = |of: &Moments| {
        let terms = of.unary().iter().zip(moments.unary()).filter(|(count, _)| **count > 0);
        let sum: f64 = terms.map(|(&count, &own)| -(count as f64) * (own.max(1) as f64 / n).ln()).sum();
        if alone > 0.0 { alone * sum / of.positions() as f64 } else { 0.0 }
    };
    let per_word = |value: f64, of: &Moments| -value * of.positions() as f64 / of.tokens() as f64;
    let (single_train, single_valid) = (single(moments), valid.map(single));
    let done = |now: &TrainingCheckpoint| {
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
            // The time ran out during the step, which is discarded.
            Err(Error::Interrupted) => break,
            step => step?,
        };
        let point = scaling.parameters(now.search.point());
        if last.as_ref() != Some(&point) {
            // The last evaluation of the line search was at another point, or there was none.
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
