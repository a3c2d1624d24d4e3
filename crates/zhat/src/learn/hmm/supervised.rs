//! Training on known states.
//!
//! Start probabilities and transitions are relative counts plus the priors; zeros of the topology or of a given model
//! stay zero, and a known path through one is an error. Emissions are the maximum given the states: one step, or EM
//! over the rows of each state where something is still hidden (components of a mixture, and missing values under
//! full or tied covariances). The last duration of a sequence is known from below only, which EM over the durations
//! takes into account. EM of the emissions starts from the clusters of the rows of each state.

use super::data::Sequences;
use super::durations::Durations;
use super::emission::{Context, Covariance, Emissions, Gaussian, padded};
use super::group::Counts;
use super::initial::{Family, gaussian, initial, sorted};
use super::learning::Learning;
use super::model::Hmm;
use super::sweep::log_likelihoods;
use super::train::{PHASE, Trained};
use crate::error::{Error, Result};
use crate::random::Streams;
use crate::run::{Clock, Run};

/// EM steps for durations that the end of a sequence cuts off.
const COMPLETIONS: usize = 1000;
/// They stop when no probability changes by more.
const STILL: f64 = 1e-10;
/// They have converged if the last step changed no probability by more.
const SETTLED: f64 = 1e-6;
/// Rows that are processed together.
const BLOCK: usize = 256;

/// Trains a model on rows whose states are given, one per row. Training starts at `given`, if there is one: parameters
/// that are fixed are its own, and so are those of states without rows.
///
/// # Errors
/// If a state is out of range, a path has a start, transition or duration of probability zero, a state is impossible
/// for its observation, the data do not fit the family or the given model, or an option is out of range.
pub fn train_supervised(
    data: &Sequences,
    labels: &[usize],
    states: usize,
    family: Family,
    how: &Learning,
    given: Option<&Hmm>,
    run: &Run,
) -> Result<Trained> {
    how.check_all()?;
    if given.is_some() && how.starts > 1 {
        return Err(Error::argument("starts", "a given model is one start; expected starts=1"));
    }
    if states == 0 {
        return Err(Error::argument("states", "0 is out of range; expected at least 1"));
    }
    if let Some(model) = given.filter(|model| model.states() != states) {
        let message = format!("the given model has {} states, expected {states}", model.states());
        return Err(Error::argument("states", message));
    }
    if labels.len() != data.rows() {
        let message = format!("there are {} states for {} rows", labels.len(), data.rows());
        return Err(Error::argument("labels", message));
    }
    if let Some(row) = labels.iter().position(|&label| label >= states) {
        let message = format!("the state {} is out of range; expected 0 to {}", labels[row], states - 1);
        return Err(data.fail_state(row, message));
    }
    let clock = run.start(PHASE);
    let work = Known { data, labels, how, context: how.context(data), clock: &clock };
    // Only mixtures have several optima.
    let several = given.is_none() && matches!(family, Family::Mixture { .. });
    let mut best: Option<Fitted> = None;
    for start in 0..if several { how.starts } else { 1 } {
        let model = match given {
            Some(model) => {
                model.check_data(data)?;
                model.clone().with_ties(if how.ties.is_empty() { model.ties() } else { &how.ties })?
            }
            None => work.own_clusters(initial(data, states, family, how, run.seed(), start)?, run, start)?,
        };
        let found = work.fit(model)?;
        if best.as_ref().is_none_or(|best| found.objective > best.objective) {
            best = Some(found);
        }
    }
    let Some(Fitted { model, steps, converged, .. }) = best else { return Err(Error::Interrupted) };
    let log_likelihood: f64 = log_likelihoods(&model, data, run)?.iter().sum();
    let objective = log_likelihood + how.log_prior(&model, &work.context);
    Ok(Trained { model, objective, log_likelihood, steps, converged })
}

/// A trained model.
struct Fitted {
    model: Hmm,
    /// ln p(x | s) plus the log prior of the emissions.
    objective: f64,
    steps: usize,
    converged: bool,
}

/// What the steps share.
struct Known<'a> {
    data: &'a Sequences,
    labels: &'a [usize],
    how: &'a Learning,
    context: Context,
    clock: &'a Clock<'a>,
}

impl Known<'_> {
    /// Replaces normal distributions by those of the clusters of the rows of each state, or group of tied states.
    fn own_clusters(&self, mut model: Hmm, run: &Run, start: usize) -> Result<Hmm> {
        let states = model.states();
        let groups: Vec<usize> = match model.ties() {
            [] => (0..states).collect(),
            ties => ties.to_vec(),
        };
        let (normals, components): (&mut Gaussian, usize) = match &mut model.emissions {
            Emissions::Gaussian(own) => (own, 1),
            Emissions::Mixture(own) => (&mut own.normals, own.components),
            Emissions::Categorical(_) | Emissions::Poisson(_) => return Ok(model),
        };
        let (columns, form) = (normals.columns, normals.form);
        let mut random = Streams::new(run.seed(), "clusters of known states").block(start as u64);
        let size = if form == Covariance::Tied { 0 } else { normals.covariances.len() / normals.states };
        let mut tied = vec![0.0; columns * columns];
        for first in (0..states).filter(|&n| groups[..n].iter().all(|group| *group != groups[n])) {
            let rows = self.data.values().chunks_exact(columns).zip(self.labels);
            let own: Vec<f64> = rows
                .filter(|(_, n)| groups[**n] == groups[first])
                .flat_map(|(row, _)| row)
                .copied()
                .collect();
            if own.is_empty() {
                continue;
            }
            let count = own.len() / columns;
            let own = Sequences::new(columns, own, &[count])?;
            let found = sorted(gaussian(&own, components, form, &mut random)?);
            if form == Covariance::Tied {
                let share = count as f64 / self.data.rows() as f64;
                tied.iter_mut().zip(&found.covariances).for_each(|(sum, x)| *sum += share * x);
            }
            for n in (first..states).filter(|&n| groups[n] == groups[first]) {
                let means = components * columns;
                normals.means[n * means..(n + 1) * means].copy_from_slice(&found.means);
                let all = components * size;
                normals.covariances[n * all..(n + 1) * all].copy_from_slice(&found.covariances[..all]);
            }
        }
        if form == Covariance::Tied {
            normals.covariances = tied;
        }
        Ok(model)
    }

    fn fit(&self, mut model: Hmm) -> Result<Fitted> {
        let mut counts = Counts::new(&model);
        let mut censored = vec![0.0; counts.durations.len()];
        self.count(&model, &mut counts, &mut censored)?;
        let moves = Learning { fixed_emissions: true, fixed_durations: true, ..self.how.clone() };
        moves.maximize(&mut model, &counts, &self.context);
        let mut settled = true;
        if let Some(durations) = model.durations.as_mut().filter(|_| !self.how.fixed_durations) {
            settled = complete(durations, &counts.durations, &censored, self.how.duration_prior, self.clock)?;
        }
        let mut found = self.emissions(model)?;
        found.converged &= settled;
        Ok(found)
    }

    /// Counts starts, transitions and durations; the last duration of a sequence goes to `censored`.
    fn count(&self, model: &Hmm, counts: &mut Counts, censored: &mut [f64]) -> Result<()> {
        let (states, width) = (model.states(), padded(model.states()));
        let name = |state: usize| self.data.state(state);
        for sequence in 0..self.data.count() {
            let rows = self.data.range(sequence);
            let labels = &self.labels[rows.clone()];
            if model.start[labels[0]] == 0.0 {
                let message =
                    format!("the sequence starts in state {}, whose start probability is 0", name(labels[0]));
                return Err(self.data.fail_state(rows.start, message));
            }
            counts.start[labels[0]] += 1.0;
            for (t, pair) in labels.windows(2).enumerate() {
                let [before, after] = [pair[0], pair[1]];
                // With durations, a state moves only at the end of a segment.
                if model.durations.is_some() && before == after {
                    continue;
                }
                if model.transitions[before * states + after] == 0.0 {
                    let message = format!(
                        "state {} follows state {}, but the probability of this transition is 0",
                        name(after),
                        name(before)
                    );
                    return Err(self.data.fail_state(rows.start + t + 1, message));
                }
                counts.transitions[before * width + after] += 1.0;
            }
            if let Some(durations) = &model.durations {
                self.segments(rows.start, labels, durations, &mut counts.durations, censored)?;
            }
        }
        Ok(())
    }

    /// Counts the durations of the runs of equal labels; that of the last run is at least its length.
    fn segments(
        &self,
        first: usize,
        labels: &[usize],
        durations: &Durations,
        counts: &mut [f64],
        censored: &mut [f64],
    ) -> Result<()> {
        let longest = durations.longest();
        let survivals = durations.survivals();
        let mut begin = 0;
        for run in labels.chunk_by(|a, b| a == b) {
            let end = begin + run.len();
            let (row, state) = (first + begin, self.data.state(run[0]));
            if run.len() > longest {
                let message =
                    format!("state {state} lasts {} steps, more than max_duration={longest}", run.len());
                return Err(self.data.fail_state(row, message));
            }
            let last = end == labels.len();
            let at = run[0] * longest + run.len() - 1;
            let probability = if last { survivals[at] } else { durations.probabilities()[at] };
            if probability == 0.0 {
                let message = format!("state {state} lasts {} steps, which has the probability 0", run.len());
                return Err(self.data.fail_state(row, message));
            }
            let into = if last { &mut *censored } else { &mut *counts };
            into[at] += 1.0;
            begin = end;
        }
        Ok(())
    }

    /// The emissions that maximise ln p(x | s) plus their log prior.
    fn emissions(&self, mut model: Hmm) -> Result<Fitted> {
        let own = Learning {
            fixed_start: true,
            fixed_transitions: true,
            fixed_durations: true,
            ..self.how.clone()
        };
        let (fixed, once) = (own.fixed_emissions, !self.has_hidden(&model));
        let tolerated = own.tolerance * self.data.rows() as f64;
        let (mut before, mut steps) = (f64::NEG_INFINITY, 0);
        loop {
            let (statistics, log, impossible) = self.expect(&model)?;
            let objective = log + own.log_prior(&model, &self.context);
            if let Some(row) = impossible.filter(|_| fixed || steps > 0) {
                let state = self.data.state(self.labels[row]);
                let message = format!("state {state} has the probability 0 for this observation");
                return Err(self.data.fail_state(row, message));
            }
            // The first step can lower the objective, where variances were below the least one.
            let converged = fixed || steps > 0 && once || steps > 1 && objective - before < tolerated;
            if converged || steps >= own.iterations.max(1) {
                return Ok(Fitted { model, objective, steps: steps.max(1), converged });
            }
            let mut counts = Counts::new(&model);
            counts.emissions = statistics;
            own.maximize(&mut model, &counts, &self.context);
            (before, steps) = (objective, steps + 1);
            self.clock.progress(PHASE, steps as u64, own.iterations.max(1) as u64);
        }
    }

    /// Whether something besides the states is hidden.
    fn has_hidden(&self, model: &Hmm) -> bool {
        let normals = match &model.emissions {
            Emissions::Gaussian(own) => own,
            Emissions::Mixture(own) if own.components == 1 => &own.normals,
            Emissions::Mixture(_) => return true,
            Emissions::Categorical(_) | Emissions::Poisson(_) => return false,
        };
        let partial = |row: &[f64]| row.iter().any(|x| x.is_nan()) && row.iter().any(|x| !x.is_nan());
        normals.form.has_matrices() && self.data.values().chunks_exact(normals.columns).any(partial)
    }

    /// The statistics of the emissions, ln p(x | s), and the first row that its state cannot emit.
    fn expect(&self, model: &Hmm) -> Result<(Vec<f64>, f64, Option<usize>)> {
        let (columns, width) = (self.data.columns(), padded(model.states()));
        let part = model.emissions.part();
        let density = part.density(&self.context);
        let (mut statistics, mut total, mut impossible) = (vec![0.0; part.statistics()], 0.0, None);
        let (mut logs, mut weights) = (vec![0.0; BLOCK * width], vec![0.0; BLOCK * width]);
        let blocks = self.data.values().chunks(BLOCK * columns).zip(self.labels.chunks(BLOCK));
        for (block, (rows, labels)) in blocks.enumerate() {
            self.clock.check()?;
            let (logs, weights) = (&mut logs[..labels.len() * width], &mut weights[..labels.len() * width]);
            density.log_density(rows, width, logs);
            weights.fill(0.0);
            for (i, label) in labels.iter().enumerate() {
                weights[i * width + label] = 1.0;
                let log = logs[i * width + label];
                total += log;
                if log == f64::NEG_INFINITY && impossible.is_none() {
                    impossible = Some(block * BLOCK + i);
                }
            }
            density.accumulate(rows, width, weights, &mut statistics);
        }
        Ok((statistics, total, impossible))
    }
}

/// The durations that maximise the likelihood plus log prior: EM over those that are known from below only. Returns
/// whether it converged.
fn complete(
    durations: &mut Durations,
    counts: &[f64],
    censored: &[f64],
    prior: f64,
    clock: &Clock<'_>,
) -> Result<bool> {
    let longest = durations.longest();
    let mut change = f64::INFINITY;
    for _ in 0..COMPLETIONS {
        if change <= STILL {
            break;
        }
        clock.check()?;
        let (before, survivals) = (durations.probabilities().to_vec(), durations.survivals());
        let mut whole = counts.to_vec();
        for (n, whole) in whole.chunks_exact_mut(longest).enumerate() {
            // A run of at least d steps lasts d′ ≥ d steps with probability D(d′)/S(d).
            let mut share = 0.0;
            for (d, count) in whole.iter_mut().enumerate() {
                let at = n * longest + d;
                if censored[at] > 0.0 && survivals[at] > 0.0 {
                    share += censored[at] / survivals[at];
                }
                *count += share * before[at];
            }
        }
        durations.maximize(&whole, prior);
        let changes = durations.probabilities().iter().zip(&before).map(|(new, old)| (new - old).abs());
        change = changes.fold(0.0, f64::max);
    }
    Ok(change <= SETTLED)
}
