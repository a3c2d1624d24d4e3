//! Training of Eq. 1, with a certified gap.
//!
//! | method | gradient | step |
//! |---|---|---|
//! | batch | exact, all rows | L-BFGS, started with an approximate Hessian |
//! | sampled | samples of all rows, with a certified radius if they are exact | accelerated projected gradient, step 1/L |
//! | online | some rows, exact or from exact samples | step 1/(2λt), averaged with weights ∝ t |
//!
//! f(θ) − min f ≤ (‖g‖ + r)²/(4λ), where r is the error of the gradient g: for exact gradients an
//! allowance for rounding.
//! The mean of S samples of each of m rows, whose features lie in balls of radius Rᵢ, has the error r =
//! √(ΣRᵢ²/(m²S))·(1 + √(2 ln 1/δ)) with probability 1 − δ (bounded differences of a norm whose mean is at most
//! the root). The confidence of a whole run is shared out over its steps as δ_t = 6δ/(π²t²). S is
//! the requested number times (1 + k)² after k steps whose radius exceeded half the norm of their gradient; with a
//! constant S the radius would grow with t, and no later point could have a smaller certified gap than the first.
//! Where no exact sampler is fast enough, samples are approximate, and the gap is an estimate that is marked as
//! not certified. An online run evaluates the gradient of all rows at its average once per pass.
//!
//! The negative log-likelihood of a partial ranking is not convex, except that of Plackett–Luce without ties
//! before other items. Only f ≥ 0 is then known of the minimum, so the certified gap is f(θ) itself, and training
//! stops when ‖g‖²/(4λ) is at most the requested gap.
//!
//! The whole state can be saved ([`PredictorCheckpoint`]): a resumed run gives the same bits as an uninterrupted one.

mod regret;
mod step;

pub use regret::Regret;

use serde::{Deserialize, Serialize};

use super::metric::Metric;
use super::objective::Objective;
use super::{Form, Inputs, Targets};
use crate::error::{Error, Result};
use crate::optimize::Lbfgs;
use crate::options::{ABOVE_ZERO, COUNT, FROM_ZERO, INSIDE_UNIT, ITERATIONS, Options, Range, options};
use crate::run::Run;

const PHASE: &str = "training";
/// Minimum and maximum of the history of L-BFGS, in pairs.
const HISTORY: (usize, usize) = (2, 10);
/// Memory that the history may use in any case, in bytes: 10 pairs of 200,000 parameters, 2 of a million. Up to
/// 2,600 inputs, the approximate Hessian of [`super::metric`] matters more than the number of pairs.
const HISTORY_BYTES: usize = 1 << 25;
/// Range of the share of the curvature.
const SHARE: Range = Range::closed(0.01, 1.0);
/// L-BFGS stops after this many steps without progress, which rounding errors would dominate.
const IDLE: usize = 10;

/// The training method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Method {
    /// Exact gradients of all rows, L-BFGS.
    #[default]
    Batch,
    /// Gradients from samples of all rows.
    Sampled,
    /// Gradients of a few rows at a time.
    Online,
}

/// Training options.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Learning {
    /// λ in λ‖θ‖².
    pub lambda: f64,
    /// The method.
    pub method: Method,
    /// Stops once the objective is certified to be this close to its minimum.
    pub gap: f64,
    /// Maximum number of steps, or of passes over the rows for online training.
    pub iterations: usize,
    /// Samples per row and step: for sampled gradients at least 1, and the number at the first step; for online
    /// training, 0 for exact expectations.
    pub samples: usize,
    /// Rows per step of online training.
    pub batch: usize,
    /// The share a of the curvature that sets the step 1/(2aλt) of online training. Below 1, the regret of
    /// sampled gradients grows as ln T ([`Regret`]).
    pub share: f64,
    /// Probability δ that the certified gap of a run with sampled gradients fails.
    pub failure: f64,
}

options!(Learning {
    lambda: f64 => ABOVE_ZERO,
    method: Method,
    gap: f64 => FROM_ZERO,
    iterations: usize => ITERATIONS,
    samples: usize => COUNT,
    batch: usize => Range::whole(1, 1_000_000_000),
    share: f64 => SHARE,
    failure: f64 => INSIDE_UNIT
});

impl Default for Learning {
    fn default() -> Self {
        Learning {
            lambda: 1e-3,
            method: Method::Batch,
            gap: 1e-6,
            iterations: 1000,
            samples: 1,
            batch: 1,
            share: 1.0,
            failure: 0.05,
        }
    }
}

/// The state of training after a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PredictorProgress {
    /// Number of steps, or of passes for online training.
    pub step: usize,
    /// The objective at the best point so far, for online training at the average; NaN where log Z is out of reach.
    pub objective: f64,
    /// Upper bound on the distance of this objective from its minimum.
    pub gap: f64,
    /// Whether the gap is certified. It is an estimate if some of its samples are approximate.
    pub certified: bool,
}

/// The optimiser.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Search {
    Lbfgs(Lbfgs),
    Sampled {
        point: Vec<f64>,
        ahead: Vec<f64>,
        best: Vec<f64>,
        /// Number of steps whose radius was too large.
        noisy: usize,
    },
    Online {
        point: Vec<f64>,
        average: Vec<f64>,
        /// Number of passes whose radius was too large, where sums are out of reach.
        noisy: usize,
        sums: Regret,
    },
}

/// The whole training state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictorCheckpoint {
    pub(crate) how: Learning,
    /// Identifies form, inputs and targets, and the seed.
    pub(crate) data: u64,
    pub(crate) progress: PredictorProgress,
    pub(crate) first_gap: f64,
    pub(crate) least: f64,
    pub(crate) idle: usize,
    pub(crate) search: Search,
}

impl PredictorCheckpoint {
    /// The progress.
    pub fn progress(&self) -> PredictorProgress {
        self.progress
    }

    /// The current parameters.
    pub fn parameters(&self) -> &[f64] {
        match &self.search {
            Search::Lbfgs(lbfgs) => lbfgs.point(),
            Search::Sampled { best, .. } => best,
            Search::Online { average, .. } => average,
        }
    }

    /// The regret of an online run so far, and its bound.
    pub fn regret(&self) -> Option<Regret> {
        match &self.search {
            Search::Online { sums, .. } => Some(*sums),
            _ => None,
        }
    }

    /// The expected number of steps, if the gap continues to fall at the same rate.
    pub fn expected(&self) -> usize {
        let (first, now) = (self.first_gap, self.progress.gap);
        let share = (first / now).ln() / (first / self.how.gap).ln();
        let all = self.progress.step as f64 / share;
        let known = share > 0.0 && all.is_finite();
        if known {
            (all.ceil() as usize).clamp(self.progress.step, self.how.iterations.max(self.progress.step))
        } else {
            self.how.iterations
        }
    }
}

/// The result of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// θ.
    pub parameters: Vec<f64>,
    /// The state at the end.
    pub progress: PredictorProgress,
    /// Whether the gap is at most the requested one.
    pub converged: bool,
    /// The confidence of the gap: 1 for exact gradients, 0 if the gap is not certified.
    pub confidence: f64,
    /// The regret of an online run, and its bound.
    pub regret: Option<Regret>,
}

/// The history of L-BFGS in pairs: shorter if very many parameters would need more than a quarter of the memory of
/// the inputs.
fn history(dimension: usize, inputs: &Inputs) -> usize {
    (HISTORY_BYTES.max(inputs.bytes() / 4) / (16 * dimension).max(1)).clamp(HISTORY.0, HISTORY.1)
}

fn fingerprint(form: &Form, inputs: &Inputs, targets: &Targets, run: &Run) -> u64 {
    let mix = |hash: u64, bits: u64| (hash ^ bits).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    let text = format!("{form:?}{:?}", run.seed());
    let hash = text.bytes().fold(inputs.fingerprint(), |hash, byte| mix(hash, u64::from(byte)));
    match targets {
        Targets::Sets(sets) => {
            let hash = sets.ends.iter().fold(hash, |hash, end| mix(hash, *end as u64));
            sets.members.iter().fold(hash, |hash, member| mix(hash, u64::from(*member)))
        }
        Targets::Ranks(ranks) => ranks.ranks.iter().fold(hash, |hash, rank| mix(hash, u64::from(*rank))),
        Targets::Blocks(blocks) => {
            blocks.blocks.iter().fold(hash, |hash, block| mix(hash, u64::from(*block)))
        }
    }
}

/// Trains the parameters of a form. `watch` is called after every step and stops training by returning
/// false. Training starts at `start`, or at zero, or continues from a checkpoint.
///
/// # Errors
/// If an option is out of range, there are no rows, inputs and targets do not fit each other or the form, the
/// checkpoint is of other data or options, the memory budget is too small, or `watch` fails.
#[allow(clippy::too_many_arguments)]
pub fn train(
    form: &Form,
    inputs: &Inputs,
    targets: &Targets,
    how: &Learning,
    start: Option<&[f64]>,
    from: Option<PredictorCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&PredictorCheckpoint) -> Result<bool>,
) -> Result<Trained> {
    how.check()?;
    form.check(targets)?;
    if inputs.rows() == 0 {
        return Err(Error::argument("data", "has no rows"));
    }
    if inputs.rows() != targets.rows() {
        let message = format!("there are {} rows of inputs and {} of targets", inputs.rows(), targets.rows());
        return Err(Error::argument("data", message));
    }
    let clock = run.start(PHASE);
    check_method(form, targets, how)?;
    let samples = how.method != Method::Batch && how.samples > 0;
    let compiled = if samples { form.compile_or_sample(run)? } else { form.compile()? };
    let objective = Objective::new(&compiled, inputs, targets, how.lambda);
    let dimension = objective.dimension();
    let history = history(dimension, inputs);
    // Point, gradient and direction, and the point and gradient of a trial.
    let vectors = if how.method == Method::Batch { 2 * history + 5 } else { 8 };
    let metric = if how.method == Method::Batch { Metric::bytes(&objective) } else { 0.0 };
    let bytes = objective.bytes(run.threads()) + 8.0 * vectors as f64 * dimension as f64 + metric;
    run.require_memory(PHASE, bytes)?;
    let data = fingerprint(form, inputs, targets, run);
    let convex = form.is_convex(targets);
    let mut now = match from {
        Some(checkpoint) => {
            let same = Learning { gap: how.gap, iterations: how.iterations, ..checkpoint.how };
            if same != *how || checkpoint.data != data || checkpoint.parameters().len() != dimension {
                return Err(other_checkpoint());
            }
            PredictorCheckpoint { how: *how, ..checkpoint }
        }
        None => {
            let point = match start {
                Some(start) if start.len() == dimension => start.to_vec(),
                Some(start) => {
                    let message = format!("has {} numbers, expected {dimension}", start.len());
                    return Err(Error::argument("start", message));
                }
                None => vec![0.0; dimension],
            };
            let search = match how.method {
                Method::Batch => Search::Lbfgs(Lbfgs::new(point, history)),
                Method::Sampled => {
                    Search::Sampled { ahead: point.clone(), best: point.clone(), point, noisy: 0 }
                }
                // The bounds on the regret need a start within the bound on the norm.
                Method::Online => Search::Online {
                    average: step::projected(&point, objective.norm_bound()),
                    point: step::projected(&point, objective.norm_bound()),
                    noisy: 0,
                    sums: Regret::new(how, convex),
                },
            };
            let progress =
                PredictorProgress { step: 0, objective: f64::INFINITY, gap: f64::INFINITY, certified: true };
            let (first_gap, least) = (f64::INFINITY, f64::INFINITY);
            PredictorCheckpoint { how: *how, data, progress, first_gap, least, idle: 0, search }
        }
    };
    let setting = step::Setting {
        objective: &objective,
        curvature: match how.method {
            Method::Sampled => run.install(|| objective.curvature()),
            _ => f64::NAN,
        },
        metric: match how.method {
            Method::Batch => run.install(|| Metric::new(&objective)),
            _ => None,
        },
        bound: objective.norm_bound(),
        convex,
        run,
        clock: &clock,
    };
    let done = |now: &PredictorCheckpoint| {
        now.progress.gap <= how.gap || now.progress.step >= how.iterations || now.idle >= IDLE
    };
    while !done(&now) && !clock.must_stop() {
        clock.progress(PHASE, now.progress.step as u64, now.expected() as u64);
        // L-BFGS leaves its state unchanged if an evaluation fails, and its history is large.
        let before = (how.method != Method::Batch).then(|| now.clone());
        let step = run.install(|| match how.method {
            Method::Batch => setting.batch(&mut now),
            Method::Sampled => setting.sampled(&mut now),
            Method::Online => setting.online(&mut now),
        });
        match step {
            // The time ran out during the step, which is discarded.
            Err(Error::Interrupted | Error::OverBudget { .. }) if clock.must_stop() => {
                now = before.unwrap_or(now);
                break;
            }
            step => step?,
        }
        if now.progress.step == 1 {
            now.first_gap = now.progress.gap;
        }
        if !watch(&now)? {
            break;
        }
    }
    Ok(Trained {
        parameters: now.parameters().to_vec(),
        progress: now.progress,
        converged: now.progress.gap <= how.gap,
        confidence: if !now.progress.certified {
            0.0
        } else if how.method == Method::Sampled || !compiled.family.has_sums() {
            1.0 - how.failure
        } else {
            1.0
        },
        regret: now.regret(),
    })
}

/// The error for a checkpoint that another training wrote.
pub(super) fn other_checkpoint() -> Error {
    Error::argument("checkpoint", "belongs to other data, another form, another seed or other options")
}

fn check_method(form: &Form, targets: &Targets, how: &Learning) -> Result<()> {
    if matches!(form, Form::Mallows { .. }) {
        return Err(Error::argument(
            "form",
            "mallows is made from a plackett-luce predictor, not trained directly",
        ));
    }
    let samples = how.method != Method::Batch && how.samples > 0;
    if how.method == Method::Sampled && how.samples == 0 {
        return Err(Error::argument("samples", "0 is out of range; sampled gradients need at least 1"));
    }
    if samples && matches!(form, Form::PlackettLuce { .. }) {
        let message = "plackett-luce has exact gradients only; batch, or online with samples=0, would work";
        return Err(Error::argument("method", message));
    }
    if samples && (0..targets.rows()).any(|row| targets.structure(row).is_none()) {
        let message = "partial rankings need exact gradients; batch, or online with samples=0, would work";
        return Err(Error::argument("method", message));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
