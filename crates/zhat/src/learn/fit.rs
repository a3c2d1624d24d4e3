//! Maximum likelihood with l1 and l2 penalties: minimise −ℓ(θ) + λ₁·‖θ‖₁ + λ₂/2·‖θ‖².
//!
//! The optimiser is L-BFGS if the objective is smooth and its values are deterministic, otherwise FISTA. If
//! gradients are estimates, each iteration uses its own random numbers, the same for all its evaluations, and
//! FISTA's L is bounded by the number of tables, which no eigenvalue of the Hessian of log Z exceeds.
//!
//! Without penalties, and if the pairs form no cycle, the solution is known in closed form
//! ([`Likelihood::closed_form`]).
//!
//! If rows are incomplete, ℓ is the log-likelihood of their observed cells, and the optimiser is EM: each
//! iteration computes the expected counts of all entries given the observed cells (E-step) and then takes a
//! few L-BFGS steps on the objective of complete rows with these counts (M-step; OWL-QN with l1; the closed form where
//! there is one). An M-step that lowers its own objective lowers that of the observed cells at least as
//! much, so the objective never rises. The same holds if log Z is replaced by a deterministic bound or
//! approximation. L-BFGS on ℓ itself finds the same stationary points and may need fewer iterations.
//!
//! Reference: A. P. Dempster, N. M. Laird, D. B. Rubin, *Maximum likelihood from incomplete data via the EM
//! algorithm*, J. Royal Statistical Society B 39 (1977).
//!
//! The whole state of a fit can be saved ([`FitCheckpoint`]): a resumed run gives the same bits as an
//! uninterrupted one.

use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::likelihood::{Likelihood, warned};
use super::start::Start;
use crate::answer::Estimate;
use crate::error::{Error, Result};
use crate::io;
use crate::model::FactorGraph;
use crate::optimize::{Fista, Lbfgs, Memory, Owlqn, Step, StepSize};
use crate::options::{FROM_ZERO, ITERATIONS, Options, options};
use crate::run::Run;

/// History of L-BFGS, in pairs.
const HISTORY: usize = 30;
/// The fit stops after this many consecutive steps without progress, which rounding errors would dominate.
const IDLE: usize = 10;
/// Steps of the optimiser in one M-step.
const INNER: usize = 5;
const PHASE: &str = "fitting";

/// The optimisation method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// L-BFGS if possible, otherwise FISTA; EM if rows are incomplete.
    #[default]
    Auto,
    /// Limited-memory BFGS; not with l1 and not with random gradients.
    Lbfgs,
    /// Accelerated proximal gradient with adaptive restart; only if all rows are complete.
    Fista,
    /// Expectation-maximisation; only if rows are incomplete.
    Em,
}

/// Training objective and stopping criteria.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Fit {
    /// λ₁, the weight of the l1 penalty.
    pub l1: f64,
    /// λ₂, the weight of the l2 penalty.
    pub l2: f64,
    /// The optimisation method.
    pub optimizer: Optimizer,
    /// The initial parameters.
    pub start: Start,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Stops once no component of the (proximal) gradient exceeds this.
    pub tolerance: f64,
}

options!(Fit {
    l1: f64 => FROM_ZERO,
    l2: f64 => FROM_ZERO,
    optimizer: Optimizer,
    start: Start,
    iterations: usize => ITERATIONS,
    tolerance: f64 => FROM_ZERO
});

impl Default for Fit {
    fn default() -> Self {
        Fit {
            l1: 0.0,
            l2: 0.0,
            optimizer: Optimizer::Auto,
            start: Start::Forest,
            iterations: 1000,
            tolerance: 1e-6,
        }
    }
}

/// Interval between saved checkpoints.
const CHECKPOINT_INTERVAL: Duration = Duration::from_secs(5);

/// Progress of a fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitProgress {
    /// Number of iterations done.
    pub iteration: usize,
    /// −ℓ(θ) + λ₁·‖θ‖₁ + λ₂/2·‖θ‖², as evaluated by the method.
    pub objective: f64,
    /// The largest component of the (proximal) gradient.
    pub stationarity: f64,
}

/// The whole state of a fit between two iterations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FitCheckpoint {
    fit: Fit,
    progress: FitProgress,
    best: f64,
    idle: usize,
    /// The stationarity of the first iteration, and the minimum so far.
    course: (f64, f64),
    state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum State {
    Lbfgs(Lbfgs),
    Fista(Fista),
    Em(Lbfgs),
    EmSparse(Owlqn),
}

impl FitCheckpoint {
    /// The progress.
    pub fn progress(&self) -> FitProgress {
        self.progress
    }

    /// The current parameters.
    pub fn parameters(&self) -> &[f64] {
        match &self.state {
            State::Lbfgs(lbfgs) | State::Em(lbfgs) => lbfgs.point(),
            State::Fista(fista) => fista.point(),
            State::EmSparse(owlqn) => owlqn.point(),
        }
    }

    /// Reads a file written by [`FitCheckpoint::write`].
    ///
    /// # Errors
    /// If the file cannot be read or is not a checkpoint.
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::io(path, source))?;
        serde_json::from_str(&text)
            .map_err(|error| Error::argument("checkpoint", format!("{} is none: {error}", path.display())))
    }

    /// Writes the file atomically.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text =
            serde_json::to_vec(self).map_err(|error| Error::argument("checkpoint", error.to_string()))?;
        io::write_atomically(path, |out| out.write_all(&text))
    }

    /// The expected total number of iterations, if the gradient continues to decrease at the same rate.
    fn expected(&self, how: &Fit) -> usize {
        let (first, least) = self.course;
        let share = (first / least).ln() / (first / how.tolerance).ln();
        let all = self.progress.iteration as f64 / share;
        let known = share > 0.0 && all.is_finite();
        if known {
            (all.ceil() as usize).clamp(self.progress.iteration, how.iterations)
        } else {
            how.iterations
        }
    }
}

/// A fitted model.
#[derive(Clone, Debug)]
pub struct Fitted {
    /// The model.
    pub graph: FactorGraph,
    /// The mean log-likelihood per row, by the method used for the fit.
    pub log_likelihood: Estimate,
    /// The progress at the end of the fit.
    pub progress: FitProgress,
    /// Whether the gradient fell below the tolerance.
    pub converged: bool,
    /// Whether values depend on the seed.
    pub random: bool,
}

/// Fits the parameters. `watch` is called after every iteration and stops the fit by returning false. The fit
/// continues from `from` if given.
///
/// # Errors
/// If an option is out of range, the optimiser does not fit the likelihood, the checkpoint is of another fit, `watch` fails, or the method cannot evaluate the likelihood within the budget.
pub fn fit(
    likelihood: &Likelihood,
    how: &Fit,
    from: Option<FitCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&FitCheckpoint) -> Result<bool>,
) -> Result<Fitted> {
    how.check()?;
    if how.l1 == 0.0
        && how.l2 == 0.0
        && let Some(parameters) = likelihood.closed_form()
    {
        let log_likelihood = warned(likelihood.value(&parameters, &run.within(None))?);
        let objective = -log_likelihood.value;
        return Ok(Fitted {
            graph: likelihood.model(&parameters)?,
            log_likelihood,
            progress: FitProgress { iteration: 0, objective, stationarity: 0.0 },
            converged: true,
            random: false,
        });
    }
    let clock = run.start(PHASE);
    let dimension = likelihood.dimension();
    let random = is_random(likelihood, run)?;
    let mut now = match from {
        Some(checkpoint) => resumed(checkpoint, how, dimension)?,
        None => begun(likelihood, how, random)?,
    };
    let done = |now: &FitCheckpoint| {
        now.progress.stationarity <= how.tolerance
            || now.idle >= IDLE
            || now.progress.iteration >= how.iterations
    };
    while !done(&now) && !clock.is_cancelled() && !clock.is_out_of_time() {
        clock.progress(PHASE, now.progress.iteration as u64, now.expected(how) as u64);
        if now.progress.iteration > 0 {
            clock.descent(now.progress.objective, now.progress.stationarity);
        }
        let seed = if random { mixed(run.seed(), now.progress.iteration as u64) } else { run.seed() };
        let left = run.time().map(|time| time.as_secs_f64() - clock.seconds());
        let own = run.within(left).with_seed(seed);
        let mut smooth = |parameters: &[f64], gradient: &mut [f64]| {
            penalised(likelihood, how.l2, parameters, gradient, &own)
        };
        let before = now.state.clone();
        let step = match &mut now.state {
            State::Lbfgs(lbfgs) => lbfgs.step(&mut smooth),
            State::Fista(fista) => fista.step(&mut smooth),
            state => maximised(state, likelihood, how, &own),
        };
        let Step { objective, stationarity } = match step {
            // The time ran out during the step: revert it.
            Err(Error::OverBudget { .. } | Error::Interrupted) if now.progress.iteration > 0 => {
                now.state = before;
                break;
            }
            step => step?,
        };
        if matches!(now.state, State::Em(_) | State::EmSparse(_)) && objective > now.best {
            // By more than rounding this is impossible; the point before is kept.
            now.state = before;
            now.idle = IDLE;
            break;
        }
        let gained = objective < now.best;
        now.idle = if gained || random { 0 } else { now.idle + 1 };
        now.best = now.best.min(objective);
        now.course = match now.course {
            (first, least) if now.progress.iteration > 0 => (first, least.min(stationarity)),
            _ => (stationarity, stationarity),
        };
        now.progress = FitProgress { iteration: now.progress.iteration + 1, objective, stationarity };
        if !watch(&now)? {
            break;
        }
    }
    let parameters = now.parameters();
    Ok(Fitted {
        graph: likelihood.model(parameters)?,
        log_likelihood: warned(likelihood.value(parameters, &run.within(None).with_seed(run.seed()))?),
        progress: now.progress,
        converged: now.progress.stationarity <= how.tolerance,
        random,
    })
}

/// −ℓ and the l2 penalty, with their gradient.
fn penalised(
    likelihood: &Likelihood,
    l2: f64,
    parameters: &[f64],
    gradient: &mut [f64],
    run: &Run,
) -> Result<f64> {
    let mut value = likelihood.negative(parameters, gradient, run)?;
    if l2 > 0.0 {
        gradient.iter_mut().zip(parameters).for_each(|(g, x)| *g += l2 * x);
        value += 0.5 * l2 * parameters.iter().map(|x| x * x).sum::<f64>();
    }
    Ok(value)
}

/// One iteration of EM: expected counts, then a few steps on the objective of complete rows. The curvature that
/// the optimiser has seen stays valid, because the Hessian does not depend on the counts.
fn maximised(state: &mut State, likelihood: &Likelihood, how: &Fit, run: &Run) -> Result<Step> {
    let restarted = |memory: &Memory| {
        let (point, history, _, pairs) = memory.parts();
        let pairs = pairs.map(|(s, y)| (s.to_vec(), y.to_vec())).collect();
        Memory::from_parts(point.to_vec(), history, None, pairs)
    };
    let surrogate = |point: &[f64]| likelihood.completed(point, run);
    match state {
        State::EmSparse(owlqn) => {
            let surrogate = surrogate(owlqn.point())?;
            let mut next = Owlqn::from_memory(how.l1, restarted(owlqn.memory()));
            for _ in 0..INNER {
                next.step(&mut |x, gradient| penalised(&surrogate, how.l2, x, gradient, run))?;
            }
            *owlqn = next;
        }
        State::Em(lbfgs) => {
            let surrogate = surrogate(lbfgs.point())?;
            let closed = if how.l2 == 0.0 { surrogate.closed_form() } else { None };
            if let Some(parameters) = closed {
                *lbfgs = Lbfgs::new(parameters, HISTORY);
            } else {
                let mut next = Lbfgs::from_memory(restarted(lbfgs.memory()));
                for _ in 0..INNER {
                    next.step(&mut |x, gradient| penalised(&surrogate, how.l2, x, gradient, run))?;
                }
                *lbfgs = next;
            }
        }
        State::Lbfgs(_) | State::Fista(_) => {}
    }
    let point = match state {
        State::Lbfgs(lbfgs) | State::Em(lbfgs) => lbfgs.point(),
        State::Fista(fista) => fista.point(),
        State::EmSparse(owlqn) => owlqn.point(),
    };
    let mut gradient = vec![0.0; point.len()];
    let smooth = penalised(likelihood, how.l2, point, &mut gradient, run)?;
    let proximal = |(x, g): (&f64, &f64)| match *x {
        0.0 => (g.abs() - how.l1).max(0.0),
        x => (g + how.l1 * x.signum()).abs(),
    };
    let norm = if how.l1 > 0.0 { how.l1 * point.iter().map(|x| x.abs()).sum::<f64>() } else { 0.0 };
    let stationarity = if how.l1 > 0.0 {
        point.iter().zip(&gradient).map(proximal).fold(0.0, f64::max)
    } else {
        gradient.iter().fold(0.0, |most: f64, g| most.max(g.abs()))
    };
    Ok(Step { objective: smooth + norm, stationarity })
}

/// Like [`fit`], but saves the state to a file every few seconds and at the end, and continues from the file
/// if it exists.
///
/// # Errors
/// As [`fit`]; also if the file cannot be read or written or is not a checkpoint.
pub fn fit_kept(
    likelihood: &Likelihood,
    how: &Fit,
    path: &Path,
    run: &Run,
    watch: &mut dyn FnMut(&FitCheckpoint) -> Result<bool>,
) -> Result<Fitted> {
    if likelihood.has_gaps() && how.l1 == 0.0 && how.l2 == 0.0 {
        let why = "without a penalty some parameters tend to -inf, which the file cannot hold; set l2";
        return Err(Error::argument("checkpoint", why));
    }
    let from = path.exists().then(|| FitCheckpoint::read(path)).transpose()?;
    let (mut last, mut kept) = (None, Instant::now());
    let fitted = fit(likelihood, how, from, run, &mut |now| {
        if kept.elapsed() >= CHECKPOINT_INTERVAL {
            now.write(path)?;
            kept = Instant::now();
        }
        last = Some(now.clone());
        watch(now)
    })?;
    last.map_or(Ok(()), |now| now.write(path))?;
    Ok(fitted)
}

/// Whether two seeds give different values, tested away from 0, where many quantities are exact.
fn is_random(likelihood: &Likelihood, run: &Run) -> Result<bool> {
    let point: Vec<f64> = (0..likelihood.dimension()).map(|i| 0.1 * (i as f64).sin()).collect();
    let quiet = run.within(run.time().map(|time| time.as_secs_f64()));
    let with = |seed: u64| Ok(likelihood.value(&point, &quiet.clone().with_seed(seed))?.value.to_bits());
    let (one, other): (Result<u64>, Result<u64>) = (with(run.seed()), with(run.seed() ^ 1));
    Ok(one? != other?)
}

fn mixed(seed: u64, iteration: u64) -> u64 {
    seed.wrapping_add(iteration.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn begun(likelihood: &Likelihood, how: &Fit, random: bool) -> Result<FitCheckpoint> {
    let start = likelihood.start(how.start);
    let smooth = how.l1 == 0.0 && !random;
    let gaps = likelihood.has_gaps();
    if gaps && random {
        let why =
            "the values of this method are random, and rows are incomplete; an exact method, trw or bp works";
        return Err(Error::argument("method", why));
    }
    let state = match how.optimizer {
        Optimizer::Fista if gaps => {
            return Err(Error::argument("optimizer", "fista needs complete rows; em and lbfgs do not"));
        }
        Optimizer::Em if !gaps => {
            return Err(Error::argument(
                "optimizer",
                "em is for incomplete rows; lbfgs and fista are for complete ones",
            ));
        }
        Optimizer::Auto | Optimizer::Em if gaps && how.l1 > 0.0 => {
            State::EmSparse(Owlqn::new(start, how.l1, HISTORY))
        }
        Optimizer::Auto | Optimizer::Em if gaps => State::Em(Lbfgs::new(start, HISTORY)),
        Optimizer::Auto | Optimizer::Lbfgs if smooth => State::Lbfgs(Lbfgs::new(start, HISTORY)),
        Optimizer::Lbfgs => {
            let why = if random { "the method's values are random" } else { "l1 is not smooth" };
            return Err(Error::argument("optimizer", format!("lbfgs cannot be used: {why}; fista can")));
        }
        _ => {
            let bound = likelihood.tables() as f64 + how.l2;
            let size = StepSize::Adaptive { now: 0.25 * bound, most: random.then_some(bound) };
            State::Fista(Fista::new(start, how.l1, size))
        }
    };
    let progress = FitProgress { iteration: 0, objective: f64::INFINITY, stationarity: f64::INFINITY };
    Ok(FitCheckpoint { fit: *how, progress, best: f64::INFINITY, idle: 0, course: (1.0, 1.0), state })
}

fn resumed(checkpoint: FitCheckpoint, how: &Fit, dimension: usize) -> Result<FitCheckpoint> {
    // The number of iterations and the tolerance may change; the objective may not.
    let same = Fit { iterations: how.iterations, tolerance: how.tolerance, ..checkpoint.fit };
    if same != *how || checkpoint.parameters().len() != dimension {
        return Err(Error::argument(
            "checkpoint",
            "belongs to another fit: the data, structure or penalties differ",
        ));
    }
    Ok(FitCheckpoint { fit: *how, ..checkpoint })
}
