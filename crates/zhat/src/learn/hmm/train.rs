//! Training by expectation-maximisation or L-BFGS.
//!
//! | method | expected counts | step |
//! |---|---|---|
//! | EM | all sequences, exact | the maximum of the expected log-likelihood plus log prior; the objective never falls |
//! | stochastic EM (`batch`) | all sequences once, then a few at a time, averaged with weight (t + 1)^(−`forgetting`) at step t | the same |
//! | L-BFGS (`optimizer`) | all sequences, exact | a line search on the exact gradient (see `descent`); the objective never falls |
//! | counts | states that are given | the maximum: once, or EM over what is still hidden (see `supervised`) |
//!
//! The whole state can be saved ([`HmmCheckpoint`]): a resumed run gives the same bits as an uninterrupted one.
//!
//! References: L. E. Baum et al., *A maximization technique occurring in the statistical analysis of probabilistic
//! functions of Markov chains*, Ann. Math. Statist. 1970; O. Cappé, E. Moulines, *On-line expectation–maximization
//! algorithm for latent data models*, J. R. Statist. Soc. B 2009.

use serde::{Deserialize, Serialize};

use super::data::Sequences;
use super::emission::Context;
use super::forecast::forecast_training;
use super::group::Counts;
use super::initial::{Family, initial};
use super::learning::{Learning, Optimizer};
use super::model::Hmm;
use super::sweep::{Plan, expect, log_likelihoods};
use crate::error::{Error, Result};
use crate::optimize::Lbfgs;
use crate::random::Streams;
use crate::run::{Clock, Run};

pub(super) const PHASE: &str = "training";

/// The state of training after a step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HmmProgress {
    /// The number of the start.
    pub start: usize,
    /// Number of steps from this start, or of passes with `batch`.
    pub step: usize,
    /// Log-likelihood plus log prior at the beginning of the step; with `batch`, at its end.
    pub objective: f64,
}

/// The best start so far.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Best {
    pub model: Hmm,
    pub start: usize,
    pub objective: f64,
    pub steps: usize,
    pub converged: bool,
}

/// The whole training state between two steps.
#[derive(Clone, Debug, PartialEq)]
pub struct HmmCheckpoint {
    pub(super) how: Learning,
    /// Identifies the data, the family, the given model and the seed.
    pub(super) data: u64,
    pub(super) progress: HmmProgress,
    pub(super) model: Hmm,
    pub(super) best: Option<Best>,
    /// The average statistics of stochastic EM: start, transitions, emissions; and the number of its steps.
    pub(super) average: Vec<f64>,
    pub(super) updates: u64,
    /// The state of L-BFGS.
    pub(super) search: Option<Lbfgs>,
    /// Whether the start has ended, and has converged.
    pub(super) finished: Option<bool>,
    /// The objective before the last step.
    pub(super) before: f64,
}

impl HmmCheckpoint {
    /// The progress.
    pub fn progress(&self) -> HmmProgress {
        self.progress
    }

    /// The current model.
    pub fn model(&self) -> &Hmm {
        &self.model
    }
}

/// The result of training.
#[derive(Clone, Debug, PartialEq)]
pub struct Trained {
    /// The model.
    pub model: Hmm,
    /// Log-likelihood of the data plus log prior.
    pub objective: f64,
    /// Log-likelihood of the data.
    pub log_likelihood: f64,
    /// Number of steps of the best start.
    pub steps: usize,
    /// Whether the last step improved the objective by less than the tolerance.
    pub converged: bool,
}

fn fingerprint(data: &Sequences, states: usize, family: Family, given: Option<&Hmm>, run: &Run) -> u64 {
    let text = format!("{states} {family:?} {given:?} {}", run.seed());
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
    text.bytes().fold(data.fingerprint(), mix)
}

/// Trains a model. Training starts at `given`, if there is one, or at random parameters, or continues from a
/// checkpoint. `watch` is called after every step and stops training by returning false.
///
/// ```
/// use zhat::Run;
/// use zhat::learn::hmm::{Covariance, Family, Learning, Sequences, train};
///
/// let values = (0..200).map(|t| if t / 20 % 2 == 0 { 1.0 } else { 5.0 } + 0.1 * f64::from(t % 7)).collect();
/// let data = Sequences::new(1, values, &[200])?;
/// let family = Family::Gaussian { covariance: Covariance::Diagonal };
/// let trained = train(&data, 2, family, &Learning::default(), None, None, &Run::default(), &mut |_| Ok(true))?;
/// assert!(trained.converged && trained.model.transitions()[0] > 0.9);
/// # Ok::<(), zhat::Error>(())
/// ```
///
/// # Errors
/// If an option is out of range, the data do not fit the family or the given model, a sequence is impossible under
/// the model, the checkpoint is of other data or options, the memory budget is too small, no step finishes in time,
/// or `watch` fails.
#[allow(clippy::too_many_arguments)]
pub fn train(
    data: &Sequences,
    states: usize,
    family: Family,
    how: &Learning,
    given: Option<&Hmm>,
    from: Option<HmmCheckpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&HmmCheckpoint) -> Result<bool>,
) -> Result<Trained> {
    how.check_all()?;
    if given.is_some() && how.starts > 1 {
        return Err(Error::argument("starts", "a given model is one start; expected starts=1"));
    }
    let clock = run.start(PHASE);
    run.require_memory(PHASE, forecast_training(data, states, family, how, given, run)?.bytes)?;
    let begin = |start: usize| -> Result<Hmm> {
        match given {
            Some(model) => {
                model.check_data(data)?;
                model.clone().with_ties(if how.ties.is_empty() { &model.ties } else { &how.ties })
            }
            None => initial(data, states, family, how, run.seed(), start),
        }
    };
    let identity = fingerprint(data, states, family, given, run);
    let mut now = match from {
        Some(checkpoint) => {
            let limits =
                checkpoint.how.iterations == how.iterations && checkpoint.how.tolerance == how.tolerance;
            let same =
                Learning { iterations: how.iterations, tolerance: how.tolerance, ..checkpoint.how.clone() };
            if same != *how || checkpoint.data != identity {
                let message = "belongs to other data, another model, another seed or other options";
                return Err(Error::argument("checkpoint", message));
            }
            let mut resumed = HmmCheckpoint { how: how.clone(), ..checkpoint };
            if !limits && resumed.finished.take().is_some() && how.is_plain() {
                // With other limits the last step, which did not change the model, is done again.
                resumed.progress.objective = resumed.before;
            }
            resumed
        }
        None => HmmCheckpoint {
            how: how.clone(),
            data: identity,
            progress: HmmProgress { start: 0, step: 0, objective: f64::NEG_INFINITY },
            model: begin(0)?,
            best: None,
            average: Vec::new(),
            updates: 0,
            search: None,
            finished: None,
            before: f64::NEG_INFINITY,
        },
    };
    let work = Work { data, how, context: how.context(data), clock: &clock, run };
    let result = loop {
        let (total, done) = (how.starts * how.iterations.max(1), now.progress);
        clock.progress(PHASE, (done.start * how.iterations.max(1) + done.step) as u64, total as u64);
        // A resumed run can begin with a start that has ended.
        if now.finished.is_none() {
            match work.step(&mut now) {
                // The time ran out during the step, which is discarded.
                Err(error) if error.is_stop() && clock.must_stop() => break Err(error),
                Err(error) => return Err(error),
                Ok(finished) => now.finished = finished,
            }
        }
        let go_on = watch(&now)?;
        if let Some(converged) = now.finished {
            work.keep(&mut now, converged);
            if now.progress.start + 1 >= how.starts {
                break Ok(());
            }
            let start = now.progress.start + 1;
            now.model = begin(start)?;
            now.progress = HmmProgress { start, step: 0, objective: f64::NEG_INFINITY };
            (now.average, now.updates, now.search, now.finished) = (Vec::new(), 0, None, None);
            now.before = f64::NEG_INFINITY;
        }
        if !go_on {
            break Ok(());
        }
    };
    let Some(best) = now.best else {
        return Err(result.err().unwrap_or(Error::Interrupted));
    };
    let log_likelihood = best.objective - how.log_prior(&best.model, &work.context);
    Ok(Trained {
        log_likelihood,
        objective: best.objective,
        steps: best.steps,
        converged: best.converged,
        model: best.model,
    })
}

/// What the steps share.
pub(super) struct Work<'a> {
    pub data: &'a Sequences,
    pub how: &'a Learning,
    pub context: Context,
    pub clock: &'a Clock<'a>,
    pub run: &'a Run,
}

impl Work<'_> {
    pub fn all(&self) -> Vec<usize> {
        (0..self.data.count()).collect()
    }

    pub fn tolerated(&self) -> f64 {
        self.how.tolerance * self.data.rows() as f64
    }

    /// Keeps the current model if it is the best one. Its objective is known.
    pub fn keep(&self, now: &mut HmmCheckpoint, converged: bool) {
        let (start, objective) = (now.progress.start, now.progress.objective);
        // The last step of a start that has converged can be worse by rounding.
        let better = now.best.as_ref().is_none_or(|best| {
            let last = converged && best.start == start;
            objective > best.objective || (last && (self.how.is_plain() || objective == best.objective))
        });
        if better && objective > f64::NEG_INFINITY {
            now.best = Some(Best {
                model: now.model.clone(),
                start,
                objective: now.progress.objective,
                steps: now.progress.step,
                converged,
            });
        }
    }

    /// One step; `Some` with whether it converged if the start is finished. Nothing changes if it fails.
    fn step(&self, now: &mut HmmCheckpoint) -> Result<Option<bool>> {
        if self.how.batch > 0 && self.how.batch < self.data.count() {
            return self.pass(now);
        }
        if self.how.optimizer == Optimizer::Lbfgs {
            return self.descend(now);
        }
        now.before = now.progress.objective;
        let density = now.model.emissions.part().density(&self.context);
        let plan = Plan::new(self.data, &self.all());
        if now.progress.step >= self.how.iterations {
            let likelihood: f64 = log_likelihoods(&now.model, self.data, self.run)?.iter().sum();
            drop(density);
            now.progress.objective = likelihood + self.how.log_prior(&now.model, &self.context);
            return Ok(Some(false));
        }
        let (counts, likelihood) = expect(&now.model, self.data, &plan, &*density, self.clock, self.run)?;
        drop(density);
        let objective = likelihood + self.how.log_prior(&now.model, &self.context);
        let gain = objective - now.progress.objective;
        now.progress.objective = objective;
        self.clock.descent(-objective / self.data.rows() as f64, gain);
        if now.progress.step > 0 && gain < self.tolerated() {
            return Ok(Some(true));
        }
        // The model before this step, whose objective is known, is kept in case the next step does not finish.
        self.keep(now, false);
        self.how.maximize(&mut now.model, &counts, &self.context);
        now.progress.step += 1;
        Ok(None)
    }

    /// One pass of stochastic EM.
    fn pass(&self, now: &mut HmmCheckpoint) -> Result<Option<bool>> {
        if now.progress.step >= self.how.iterations {
            if now.progress.objective == f64::NEG_INFINITY {
                let likelihood: f64 = log_likelihoods(&now.model, self.data, self.run)?.iter().sum();
                now.progress.objective = likelihood + self.how.log_prior(&now.model, &self.context);
            }
            return Ok(Some(false));
        }
        let mut order = self.all();
        let passes = (now.progress.start * self.how.iterations + now.progress.step) as u64;
        Streams::new(self.run.seed(), "order of sequences").block(passes).shuffle(&mut order);
        let (mut model, mut average, mut updates) = (now.model.clone(), now.average.clone(), now.updates);
        // The first step has all sequences: a symbol that a few sequences do not have would get probability zero.
        let all = self.all();
        let first = average.is_empty().then_some(all.as_slice());
        for members in first.into_iter().chain(order.chunks(self.how.batch)) {
            let plan = Plan::new(self.data, members);
            let density = model.emissions.part().density(&self.context);
            let (mut counts, _) = expect(&model, self.data, &plan, &*density, self.clock, self.run)?;
            drop(density);
            let rows: usize = members.iter().map(|&member| self.data.length(member)).sum();
            let scale = self.data.rows() as f64 / rows as f64;
            let weight = (updates as f64 + 1.0).powf(-self.how.forgetting);
            let new = counts.parts().into_iter().flatten();
            if average.is_empty() {
                average = new.copied().collect();
            } else {
                average.iter_mut().zip(new).for_each(|(old, x)| *old += weight * (scale * x - *old));
            }
            let mut rest = average.as_slice();
            counts = Counts::new(&model);
            for part in counts.parts_mut() {
                let (own, others) = rest.split_at(part.len());
                part.copy_from_slice(own);
                rest = others;
            }
            self.how.maximize(&mut model, &counts, &self.context);
            updates += 1;
        }
        let likelihood: f64 = log_likelihoods(&model, self.data, self.run)?.iter().sum();
        let objective = likelihood + self.how.log_prior(&model, &self.context);
        let gain = objective - now.progress.objective;
        (now.model, now.average, now.updates) = (model, average, updates);
        now.progress.objective = objective;
        now.progress.step += 1;
        self.keep(now, false);
        self.clock.descent(-objective / self.data.rows() as f64, gain);
        Ok((now.progress.step > 1 && gain.abs() < self.tolerated()).then_some(true))
    }
}
