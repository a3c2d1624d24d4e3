//! Training on known states: relative counts.

use super::data::Sequences;
use super::durations::Durations;
use super::emission::padded;
use super::group::Counts;
use super::initial::{Family, Topology, initial};
use super::learning::Learning;
use super::sweep::log_likelihoods;
use super::train::Trained;
use crate::error::{Error, Result};
use crate::run::Run;

/// EM steps for durations that the end of a sequence cuts off.
const COMPLETIONS: usize = 200;

/// Trains a model on rows whose states are given, one per row: relative counts, plus the priors.
///
/// # Errors
/// If a state is out of range, the data do not fit the family, or an option is out of range.
pub fn train_supervised(
    data: &Sequences,
    labels: &[usize],
    states: usize,
    family: Family,
    how: &Learning,
    run: &Run,
) -> Result<Trained> {
    how.check_all()?;
    if labels.len() != data.rows() {
        let message = format!("there are {} states for {} rows", labels.len(), data.rows());
        return Err(Error::argument("labels", message));
    }
    if let Some(row) = labels.iter().position(|&label| label >= states) {
        let message = format!("the state {} is out of range; expected 0 to {}", labels[row], states - 1);
        return Err(data.fail(row, 0, &message));
    }
    let free = Learning { topology: Topology::Full, ..how.clone() };
    let mut model = initial(data, states, family, &free, run.seed(), 0)?;
    let (width, context) = (padded(states), how.context(data));
    let mut counts = Counts::new(&model);
    let mut censored = vec![0.0; counts.durations.len()];
    {
        let density = model.emissions.part().density(&context);
        for sequence in 0..data.count() {
            let labels = &labels[data.range(sequence)];
            let mut weights = vec![0.0; labels.len() * width];
            for (t, &label) in labels.iter().enumerate() {
                weights[t * width + label] = 1.0;
                match t {
                    0 => counts.start[label] += 1.0,
                    // With durations, a state moves only at the end of a segment.
                    _ if model.durations.is_some() && labels[t - 1] == label => {}
                    _ => counts.transitions[labels[t - 1] * width + label] += 1.0,
                }
            }
            if let Some(durations) = &model.durations {
                segments(labels, durations, &mut counts.durations, &mut censored, data, sequence)?;
            }
            density.accumulate(data.sequence(sequence), width, &weights, &mut counts.emissions);
        }
    }
    if let Some(durations) = &model.durations {
        complete(&mut counts.durations, &censored, durations.longest());
    }
    how.maximize(&mut model, &counts, &context);
    let log_likelihood: f64 = log_likelihoods(&model, data, run)?.iter().sum();
    let objective = log_likelihood + how.log_prior(&model, &context);
    Ok(Trained { model, objective, log_likelihood, steps: 1, converged: true })
}

/// Counts the durations of the runs of equal labels; that of the last run is at least its length.
fn segments(
    labels: &[usize],
    durations: &Durations,
    counts: &mut [f64],
    censored: &mut [f64],
    data: &Sequences,
    sequence: usize,
) -> Result<()> {
    let longest = durations.longest();
    let mut begin = 0;
    for run in labels.chunk_by(|a, b| a == b) {
        let end = begin + run.len();
        if run.len() > longest {
            let row = data.range(sequence).start + begin;
            let message =
                format!("state {} lasts {} steps, more than max_duration={longest}", run[0], run.len());
            return Err(data.fail(row, 0, &message));
        }
        let into = if end == labels.len() { &mut *censored } else { &mut *counts };
        into[run[0] * longest + run.len() - 1] += 1.0;
        begin = end;
    }
    Ok(())
}

/// Divides runs of at least d steps among the durations: the maximum-likelihood estimate for censored data, by EM.
fn complete(counts: &mut [f64], censored: &[f64], longest: usize) {
    for (counts, censored) in counts.chunks_exact_mut(longest).zip(censored.chunks_exact(longest)) {
        let mut table = vec![1.0 / longest as f64; longest];
        let mut whole = counts.to_vec();
        for _ in 0..COMPLETIONS {
            whole.copy_from_slice(counts);
            for (d, &count) in censored.iter().enumerate().filter(|(_, count)| **count > 0.0) {
                let survival: f64 = table[d..].iter().sum();
                if survival > 0.0 {
                    (d..longest).for_each(|longer| whole[longer] += count * table[longer] / survival);
                }
            }
            let total: f64 = whole.iter().sum();
            if total > 0.0 {
                table.iter_mut().zip(&whole).for_each(|(p, count)| *p = count / total);
            }
        }
        counts.copy_from_slice(&whole);
    }
}
