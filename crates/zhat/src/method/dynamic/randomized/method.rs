//! The randomized forward algorithm: options, choice of states and estimates.

use std::ops;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::proposal::{Rule, StateProposal, Support};
use super::proposals::Proposals;
use super::restriction::Restriction;
use super::select::Selection;
use super::states::States;
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::model::Values;
use crate::numeric;
use crate::options::{ABOVE_ZERO, COUNT, INSIDE_UNIT, Options, Range, options};
use crate::query::Forecasts;
use crate::query::Query;
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};

pub(crate) const NAME: &str = "randomized";

/// Pilot runs start with this number of states and double it.
const PILOT_STATES: usize = 32;
/// Replicates per pilot run.
const PILOT_REPLICATES: usize = 12;
/// Maximum number of sequences in a pilot run.
const PILOT_SEQUENCES: usize = 8;

/// Randomized dynamic programming on chains.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RandomizedForward {
    /// Number of states kept at each position: a count, or a fraction of all states (but at least 64).
    pub states: States,
    /// Target standard error of Ẑ relative to Z. If given, a pilot run determines the number of states.
    pub error: Option<f64>,
    /// Proposal distribution for the choice of states.
    pub proposal: StateProposal,
    /// Selection rule.
    pub selection: Selection,
    /// For `draws`: number of states kept with certainty; by default all but one.
    pub top: Option<usize>,
    /// Number of independent replicates. With a single replicate, the standard error is unknown.
    pub replicates: usize,
    /// Confidence of the lower bound, between 0 and 1.
    pub confidence: f64,
    /// B×T×N log scores for the proposal `given`.
    #[serde(skip)]
    pub scores: Option<Values<f64>>,
}

options!(RandomizedForward {
    states: States => Range::CountOrFraction,
    error: Option<f64> => ABOVE_ZERO,
    proposal: StateProposal,
    selection: Selection,
    top: Option<usize> => COUNT,
    replicates: usize => Range::whole(1, 1_000_000),
    confidence: f64 => INSIDE_UNIT,
    scores: Option<Values<f64>>
} arrays { scores });

impl Default for RandomizedForward {
    fn default() -> Self {
        RandomizedForward {
            states: States::Fraction(0.01),
            error: None,
            proposal: StateProposal::default(),
            selection: Selection::default(),
            top: None,
            replicates: 8,
            confidence: 0.95,
            scores: None,
        }
    }
}

/// The states chosen for the sequences of a batch by each replicate, and the resulting estimates.
///
/// Gradients treat them as constants: with fixed states, all estimates are functions of the model's scores.
#[derive(Clone, Debug)]
pub struct StateChoice {
    /// The target number of states.
    pub count: usize,
    /// For each sequence, one support per replicate.
    pub(super) supports: Vec<Vec<Support>>,
    /// log Ẑᵣ of each replicate of each sequence.
    pub(super) log_estimates: Vec<Vec<f64>>,
    /// The largest |log w|.
    pub(super) largest_log_weight: f64,
}

impl StateChoice {
    /// The states that each replicate chose for sequence b.
    pub fn supports(&self, b: usize) -> &[Support] {
        &self.supports[b]
    }

    /// log Ẑᵣ of each replicate for sequence b.
    pub fn log_estimates(&self, b: usize) -> &[f64] {
        &self.log_estimates[b]
    }

    /// log of the mean of the replicates' estimates, one per sequence.
    pub fn log_partition(&self) -> Vec<f64> {
        (0..self.log_estimates.len()).map(|b| self.log_partition_of(b)).collect()
    }

    pub(super) fn log_partition_of(&self, b: usize) -> f64 {
        let logs = &self.log_estimates[b];
        numeric::log_sum_exp(logs) - (logs.len() as f64).ln()
    }

    /// The number of sequences.
    pub fn batch(&self) -> usize {
        self.log_estimates.len()
    }

    /// The number of replicates.
    pub fn replicates(&self) -> usize {
        self.log_estimates.first().map_or(0, Vec::len)
    }

    /// Ẑᵣ/ΣẐ: the shares of the replicates of sequence b; zeros if all of them are 0.
    pub fn shares(&self, b: usize) -> Vec<f64> {
        let logs = &self.log_estimates[b];
        let total = numeric::log_sum_exp(logs);
        if total == f64::NEG_INFINITY {
            return vec![0.0; logs.len()];
        }
        logs.iter().map(|log| (log - total).exp()).collect()
    }
}

/// The support of one replicate for a sequence, its log Ẑ, and the largest |log w|.
type Estimated = (Support, f64, f64);

/// Purpose of a random stream. The two purposes use independent random numbers.
#[derive(Clone, Copy, PartialEq)]
enum Purpose {
    Answer,
    Pilot,
}

impl RandomizedForward {
    /// Whether E\[Ẑ\] = Z.
    pub fn is_unbiased(&self) -> bool {
        self.selection.is_unbiased()
    }

    pub(super) fn check_for<M: SequenceModel>(&self, model: &M) -> Result<()> {
        self.check()?;
        if model.chain().separate() {
            let message = "randomized does not apply to transitions per sequence; use forward-backward";
            return Err(Error::argument("transitions", message));
        }
        let message = match self {
            s if s.error.is_some() && !s.is_unbiased() => {
                "error cannot be kept by the selection `top`, which is biased; use `threshold`"
            }
            s if s.proposal == StateProposal::Given => match &s.scores {
                None => "the proposal `given` needs scores, B × T × N",
                Some(scores) if scores.len() != model.chain().emissions().len() => {
                    "the scores of the proposal must be B × T × N, as the emissions"
                }
                Some(scores) if scores.iter().any(|x| x.is_nan() || *x == f64::INFINITY) => {
                    "the scores of the proposal must be finite or -inf"
                }
                Some(_) => return Ok(()),
            },
            _ => return Ok(()),
        };
        Err(Error::argument(format!("options of {NAME}"), message))
    }

    /// The number of replicates to run. A deterministic selection needs only one.
    pub(super) fn replicates_for(&self) -> usize {
        if self.selection == Selection::Top { 1 } else { self.replicates }
    }

    fn rule(&self, count: usize) -> Rule {
        Rule { selection: self.selection, count, top: self.top.unwrap_or(count - 1) }
    }

    /// Chooses states and evaluates the estimates, `replicates` times independently.
    ///
    /// # Errors
    /// If an option is out of range or does not fit the model, or the run is cancelled or over its memory or
    /// time budget.
    pub fn choose<M: SequenceModel>(&self, model: &M, run: &Run) -> Result<StateChoice> {
        let clock = run.start(NAME);
        self.check_for(model)?;
        // Entropy stores the choices and nothing else that is large.
        run.require_memory(NAME, self.forecast(model, Query::Entropy, run).bytes)?;
        run.install(|| self.choices(model, true, run, &clock))
    }

    /// The same. The supports are not kept if only log Ẑ is needed.
    pub(super) fn choices<M: SequenceModel>(
        &self,
        model: &M,
        keep: bool,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<StateChoice> {
        let scores = self.scores.as_deref().unwrap_or_default();
        let proposals = Proposals::new(model, self.proposal, scores);
        let count = match self.error {
            Some(error) => self.pilot(model, &proposals, error, run, clock)?,
            None => self.states.of(model.chain().states()),
        };
        let sequences: Vec<usize> = (0..model.chain().batch()).collect();
        self.estimate(
            model,
            &proposals,
            &sequences,
            count,
            self.replicates_for(),
            Purpose::Answer,
            keep,
            run,
            clock,
        )
    }

    /// The number of states that reaches the target standard error, found by doubling.
    fn pilot<M: SequenceModel>(
        &self,
        model: &M,
        proposals: &Proposals<'_, M>,
        error: f64,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<usize> {
        let (all, batch) = (model.chain().states(), model.chain().batch());
        let looked_at = batch.min(PILOT_SEQUENCES);
        let sequences: Vec<usize> = (0..looked_at).map(|k| k * batch / looked_at).collect();
        let mut count = PILOT_STATES;
        while count < all {
            let (purpose, replicates) = (Purpose::Pilot, PILOT_REPLICATES);
            let choice =
                self.estimate(model, proposals, &sequences, count, replicates, purpose, false, run, clock)?;
            let worst = choice.log_estimates.iter().map(|logs| spread(logs)).fold(0.0, f64::max);
            // Safety factor, because the spread of a few estimates is itself uncertain.
            if 1.5 * worst <= error * (self.replicates as f64).sqrt() {
                break;
            }
            count *= 2;
        }
        Ok(count.min(all))
    }

    /// Chooses states as [`RandomizedForward::choose`] does, with the same random numbers, but evaluates no
    /// estimates: for each sequence, one support per replicate. The cost is that of the proposal, O(T·N) per
    /// sequence if it needs no messages.
    ///
    /// # Errors
    /// As [`RandomizedForward::choose`].
    pub fn select<M: SequenceModel>(&self, model: &M, run: &Run) -> Result<Vec<Vec<Support>>> {
        let clock = run.start(NAME);
        self.check_for(model)?;
        run.require_memory(NAME, self.forecast(model, Query::Entropy, run).bytes)?;
        run.install(|| {
            let scores = self.scores.as_deref().unwrap_or_default();
            let proposals = Proposals::new(model, self.proposal, scores);
            let count = match self.error {
                Some(error) => self.pilot(model, &proposals, error, run, &clock)?,
                None => self.states.of(model.chain().states()),
            };
            let sequences: Vec<usize> = (0..model.chain().batch()).collect();
            let draws = Draws {
                sequences: &sequences,
                count,
                replicates: 0..self.replicates_for(),
                purpose: Purpose::Answer,
            };
            self.each_support(&proposals, draws, run, &clock, |_, support| Ok(support))
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn estimate<M: SequenceModel>(
        &self,
        model: &M,
        proposals: &Proposals<'_, M>,
        sequences: &[usize],
        count: usize,
        replicates: usize,
        purpose: Purpose,
        keep: bool,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<StateChoice> {
        let quiet = clock.quiet();
        let estimated = |replicates: ops::Range<usize>| {
            let draws = Draws { sequences, count, replicates, purpose };
            self.each_support(proposals, draws, run, clock, |b, support| {
                let log = Restriction::new(model, b, &support).log_partition(&quiet)?;
                let largest = support.largest_log_weight();
                Ok((if keep { support } else { Support::default() }, log, largest))
            })
        };
        let results: Vec<Vec<Estimated>> = match purpose {
            Purpose::Answer if run.is_shared(NAME) => {
                // A unit is a replicate of all sequences.
                let units = Units::new(NAME, replicates as u64, &[count as u64, sequences.len() as u64]);
                let rows = run.ranged(&units, |range| {
                    let range = range.start as usize..range.end as usize;
                    let found: Vec<Vec<Estimated>> = estimated(range.clone())?;
                    let row = |r: usize| found.iter().map(|own| (own[r].1, own[r].2)).collect();
                    Ok((0..range.len()).map(row).collect::<Vec<Vec<(f64, f64)>>>())
                })?;
                let of = |b: usize| rows.iter().map(move |row| (Support::default(), row[b].0, row[b].1));
                (0..sequences.len()).map(|b| of(b).collect()).collect()
            }
            _ => estimated(0..replicates)?,
        };
        let log_estimates = results.iter().map(|row| row.iter().map(|pair| pair.1).collect()).collect();
        let largest_log_weight = results.iter().flatten().map(|one| one.2).fold(0.0, f64::max);
        let supports = results.into_iter().map(|row| row.into_iter().map(|pair| pair.0).collect()).collect();
        Ok(StateChoice { count, supports, log_estimates, largest_log_weight })
    }

    /// Draws the support of every sequence and replicate and passes it to `use_support`.
    fn each_support<M: SequenceModel, T: Send>(
        &self,
        proposals: &Proposals<'_, M>,
        draws: Draws<'_>,
        run: &Run,
        clock: &Clock<'_>,
        use_support: impl Fn(usize, Support) -> Result<T> + Sync,
    ) -> Result<Vec<Vec<T>>> {
        let Draws { sequences, count, replicates, purpose } = draws;
        let (ahead, back) = match purpose {
            Purpose::Answer => ("randomized forward", "randomized backward"),
            Purpose::Pilot => ("randomized pilot forward", "randomized pilot backward"),
        };
        let (ahead, back) = (Streams::new(run.seed(), ahead), Streams::new(run.seed(), back));
        let rule = self.rule(count);
        let (total, done) = (sequences.len().saturating_mul(replicates.len()), AtomicUsize::new(0));
        let phase = if purpose == Purpose::Pilot { "pilot replicates" } else { "replicates" };
        // No progress is reported within one replicate.
        let quiet = clock.quiet();
        let of_sequence = |&b: &usize| -> Result<Vec<T>> {
            let guide = match self.proposal {
                StateProposal::TwoPass => proposals.guide(b, rule, &back, &quiet)?,
                _ => Vec::new(),
            };
            let of_replicate = |replicate| {
                clock.step(phase, done.fetch_add(1, Ordering::Relaxed), total)?;
                use_support(b, proposals.support(b, replicate, &guide, rule, &ahead, &quiet)?)
            };
            replicates.clone().into_par_iter().map(of_replicate).collect()
        };
        let mut results = Vec::with_capacity(sequences.len());
        // In groups, so that at most one set of backward messages per thread is in memory.
        for group in sequences.chunks(run.threads()) {
            let of_group: Result<Vec<Vec<T>>> = group.par_iter().map(of_sequence).collect();
            results.extend(of_group?);
        }
        Ok(results)
    }
}

/// Which supports are drawn.
struct Draws<'a> {
    sequences: &'a [usize],
    count: usize,
    replicates: ops::Range<usize>,
    purpose: Purpose,
}

/// The standard deviation of the estimates relative to their mean; ∞ if all are 0.
fn spread(log_estimates: &[f64]) -> f64 {
    let count = log_estimates.len() as f64;
    let log_mean = numeric::log_sum_exp(log_estimates) - count.ln();
    if log_mean == f64::NEG_INFINITY {
        return f64::INFINITY;
    }
    let squares: f64 = log_estimates.iter().map(|log| ((log - log_mean).exp() - 1.0).powi(2)).sum();
    (squares / (count - 1.0)).sqrt()
}
