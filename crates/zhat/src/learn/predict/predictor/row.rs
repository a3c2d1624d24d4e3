//! Queries of single rows whose sums are out of reach.
//!
//! Exact methods come first, in case one of them is within the budget after all. Otherwise log Z is computed by
//! sequential rejection or annealing, and structures are chosen from samples, which are exact if an exact sampler is
//! fast enough:
//!
//! - most probable: the best structure of a search by annealing and of exact samples at inverse temperatures β ≥ 1.
//!   E_β\[s\] ≥ s_max − ln|Y|/β, so by Markov's inequality the best score of K independent samples at β is at least
//!   s_max − ln|Y|/(β·δ^{1/K}) with probability 1 − δ. An upper bound on all scores is certain.
//! - the k most probable: the best among S samples. A structure of probability p is missed with probability (1 −
//!   p)^S, and at most 1/p structures have this probability or more. With probability 1 − δ all structures of
//!   probability p* or more are found, where (1 − p*)^S/p* = δ.
//! - labels above ½: the frequencies of all labels are within ε of their probabilities (Hoeffding).
//! - largest expected F1: the best set for the samples. The mean F1 of all 2ⁿ sets are within ε of their
//!   expectations, so that the expected F1 is within 2ε of the largest.
//! - largest expected τ: the best order for the frequencies of all pairs. Those are within ε, so that the expected τ
//!   of any order is within 2ε, and that of the chosen order within 4ε of the largest.
//!
//! With approximate samples the choice is heuristic.

use std::collections::BTreeSet;

use super::{Decision, Form, Prediction};
use crate::answer::{Guarantee, Promise};
use crate::catalogue::{self, Choice};
use crate::error::{Error, Result};
use crate::learn::predict::decide::f1_of_joint;
use crate::learn::predict::form::pair;
use crate::method::space::perfect::{Draws, Sequential, exact_samples, samples};
use crate::method::space::{AnnealedSampling, Oracle};
use crate::model::Model;
use crate::model::space::{Permutations, Scores, SpaceModel, log_count_bound};
use crate::options::Settings;
use crate::query::{
    AnyAnswer, AnyValue, BestState, FactorMarginals, Forecasts, KBest, LogPartition, Map, Query,
};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// Number of samples per row, and of exact samples where more would take too long.
pub(super) const SAMPLES: usize = 4096;
const FEW_SAMPLES: usize = 256;
/// Number of attempts for log Z.
const ATTEMPTS: usize = 1 << 14;
/// Probability that a guarantee from samples fails.
pub(super) const FAILURE: f64 = 0.01;
/// Largest inverse temperature for the most probable structure.
const MOST_BETA: f64 = 256.0;
/// Sums over all sets of a row are computed if they need at most this many seconds.
const MOST_SECONDS: f64 = 0.5;

/// Both ends of an interval and its confidence.
type Interval = (f64, f64, f64);

/// One row.
pub(super) struct Row<'a> {
    pub form: &'a Form,
    pub model: &'a SpaceModel,
    /// The number of the row, which determines its random numbers.
    pub number: u64,
    /// Probability that a guarantee from samples fails.
    pub failure: f64,
    pub run: &'a Run,
    pub clock: &'a Clock<'a>,
}

/// A search by annealing, short enough for every row of a table.
fn annealing(failure: f64) -> AnnealedSampling {
    AnnealedSampling::default().particles(8).replicates(16).temperatures(256).confidence(1.0 - failure)
}

/// The guarantee of a choice from approximate samples.
pub(super) fn approximate() -> Guarantee {
    Guarantee::Heuristic { reason: "no exact sampler is fast enough, so samples are approximate".into() }
}

/// Bounds on the distance from the best, for exact samples.
fn within(high: f64, draws: Draws, failure: f64) -> Guarantee {
    match draws {
        Draws::Exact => Guarantee::Bounds { low: 0.0, high, confidence: 1.0 - failure },
        Draws::Approximate => approximate(),
    }
}

impl Row<'_> {
    /// Whether structures are sets, for which the catalogue has exact methods other than sums over all sets.
    fn is_set(&self) -> bool {
        matches!(self.form, Form::Labels { .. } | Form::Hierarchy { .. })
    }

    fn ask(&self, query: Query) -> Result<AnyAnswer> {
        let model: Model = self.model.clone().into();
        catalogue::answer(&model, query, &Choice::parse("auto"), &Settings::new(), &self.run.unobserved())
    }

    /// Whether exact sums over all sets are fast enough.
    fn is_quick(&self, model: &SpaceModel, query: Query) -> bool {
        let forecast = Oracle::default().forecast(model, query, self.run);
        !self.is_set() && forecast.seconds <= MOST_SECONDS && self.run.fits(forecast.bytes)
    }

    /// Random numbers for one purpose.
    fn random(&self, purpose: &str, key: u64) -> Stream {
        Streams::new(self.run.seed() ^ key, purpose).block(self.number)
    }

    /// Without the additional node.
    fn shown(&self, structure: &[u32]) -> Vec<u32> {
        structure[self.form.hidden()..].to_vec()
    }

    /// Exact samples at β.
    fn exact_samples(&self, beta: f64, count: usize) -> Result<Vec<Vec<u32>>> {
        // Temperatures have independent random numbers: whether samples at one fail does not bias another.
        let mut random = self.random("predictor row", beta.to_bits());
        let mut structure = vec![0; self.model.width()];
        exact_samples(self.model, (beta, count), self.clock, |draw| {
            let mut all = Vec::with_capacity(count);
            for _ in 0..count {
                draw(&mut random, &mut structure)?;
                all.push(self.shown(&structure));
            }
            Ok(all)
        })
    }

    /// Samples of the model: many exact ones, or few, or approximate ones.
    pub fn samples(&self) -> Result<(Vec<Vec<u32>>, Draws)> {
        for count in [SAMPLES, FEW_SAMPLES] {
            match self.exact_samples(1.0, count) {
                Ok(all) => return Ok((all, Draws::Exact)),
                Err(Error::NoAnswer(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut random = self.random("predictor row", 0);
        let (all, _) = samples(self.model, (1.0, SAMPLES), &mut random, self.clock)?;
        Ok((all.iter().map(|structure| self.shown(structure)).collect(), Draws::Approximate))
    }

    /// The score of a structure.
    fn score(&self, structure: &[u32]) -> Result<f64> {
        self.model.score(&self.whole(structure))
    }

    /// With the additional node.
    pub fn whole(&self, structure: &[u32]) -> Vec<u32> {
        std::iter::repeat_n(1, self.form.hidden()).chain(structure.iter().copied()).collect()
    }

    /// log Z if an exact method is fast enough.
    pub fn exact_log_partition(&self) -> Result<Option<f64>> {
        if self.is_set() {
            let answer = match self.ask(Query::LogPartition) {
                Err(Error::NoAnswer(_) | Error::OverBudget { .. }) => return Ok(None),
                answer => answer?.into_estimate()?,
            };
            return Ok((answer.guarantee == Guarantee::Exact).then_some(answer.value));
        }
        let quick = self.is_quick(self.model, Query::LogPartition);
        let exact = || Oracle::default().log_partition(self.model, &self.run.unobserved());
        if quick { exact().map(|found| Some(found.value)) } else { Ok(None) }
    }

    /// The number of labels, nodes, items or elements.
    fn width(&self) -> usize {
        self.form.width()
    }

    /// log Z with its interval; `None` if it is exact.
    fn log_partition(&self) -> Result<(f64, Option<Interval>)> {
        if self.is_set() {
            let answer = self.ask(Query::LogPartition)?.into_estimate()?;
            let interval = match answer.guarantee {
                Guarantee::Exact => None,
                Guarantee::Bounds { low, high, confidence } => Some((low, high, confidence)),
                Guarantee::Unbiased { low, confidence, .. } => Some((low, f64::INFINITY, confidence)),
                _ => Some((f64::NEG_INFINITY, f64::INFINITY, 1.0)),
            };
            return Ok((answer.value, interval));
        }
        let quiet = self.run.unobserved();
        if self.is_quick(self.model, Query::LogPartition) {
            return Ok((Oracle::default().log_partition(self.model, &quiet)?.value, None));
        }
        let sequential = Sequential::new(self.model, 1.0);
        let mut random = self.random("predictor log Z", 0);
        let slack = self.model.slack() * self.model.width() as f64;
        let found = match &sequential {
            Some(sequential) => sequential.interval(ATTEMPTS, self.failure, &mut random, self.clock)?,
            None => None,
        };
        match found {
            Some((value, low, high)) if low > f64::NEG_INFINITY => {
                Ok((value, Some((low - slack, high + slack, 1.0 - self.failure))))
            }
            _ => {
                let answer = annealing(self.failure).log_partition(self.model, &quiet)?;
                let low = match answer.guarantee {
                    Guarantee::Unbiased { low, .. } => low,
                    _ => f64::NEG_INFINITY,
                };
                let most = sequential.map_or(f64::INFINITY, |sequential| sequential.log_bound());
                Ok((answer.value, Some((low, most + slack, 1.0 - self.failure))))
            }
        }
    }
}

/// ln p of a structure, with its guarantee.
pub(super) fn log_probability(row: &Row<'_>, structure: &[u32]) -> Result<(f64, Guarantee)> {
    let score = row.score(structure)?;
    let (log_z, interval) = row.log_partition()?;
    let guarantee = match interval {
        None => Guarantee::Exact,
        Some((low, high, confidence)) => {
            Guarantee::Bounds { low: score - high, high: (score - low).min(0.0), confidence }
        }
    };
    Ok((score - log_z, guarantee))
}

/// The probabilities of the labels or nodes, of item i before item j, or of elements i and j in one block, and
/// bounds on their largest error.
pub(super) fn marginals(row: &Row<'_>) -> Result<(Vec<f64>, Guarantee)> {
    let n = row.width();
    match row.form {
        Form::Labels { .. } | Form::Hierarchy { .. } => {
            if let Ok(answer) = row.ask(Query::Marginals)
                && answer.guarantee.promise() == Promise::Exact
                && let AnyValue::Tensors(tensors) = &answer.value
                && let Some(values) = tensors.list.first().map(|tensor| tensor.to_f64())
            {
                return Ok((values[row.form.hidden()..].to_vec(), Guarantee::Exact));
            }
        }
        // The features of these forms are the pairs.
        Form::Precedence { .. } | Form::Partition { .. }
            if row.is_quick(row.model, Query::FactorMarginals) =>
        {
            let means = Oracle::default().factor_marginals(row.model, &row.run.unobserved())?.value.values;
            if let Form::Precedence { .. } = row.form {
                return Ok((means, Guarantee::Exact));
            }
            let mut table = vec![1.0; n * n];
            for i in 0..n {
                for j in i + 1..n {
                    let p = means[pair(i, j, n)];
                    (table[i * n + j], table[j * n + i]) = (p, p);
                }
            }
            return Ok((table, Guarantee::Exact));
        }
        _ => {}
    }
    sampled_marginals(row)
}

/// The frequencies of the same events in samples.
pub(super) fn sampled_marginals(row: &Row<'_>) -> Result<(Vec<f64>, Guarantee)> {
    let (samples, draws) = row.samples()?;
    let n = row.width();
    let (mut values, events) = match row.is_set() {
        true => (vec![0.0; n], n),
        false => (vec![0.0; n * n], n * n.saturating_sub(1) / 2),
    };
    for sample in &samples {
        match row.form {
            Form::Labels { .. } | Form::Hierarchy { .. } => {
                values.iter_mut().zip(sample).for_each(|(sum, &y)| *sum += f64::from(y));
            }
            Form::Partition { .. } => {
                for (at, sum) in values.iter_mut().enumerate() {
                    *sum += f64::from(sample[at / n] == sample[at % n]);
                }
            }
            _ => {
                for (place, &item) in sample.iter().enumerate() {
                    for &later in &sample[place + 1..] {
                        values[item as usize * n + later as usize] += 1.0;
                    }
                }
            }
        }
    }
    values.iter_mut().for_each(|sum| *sum /= samples.len() as f64);
    let radius = ((2.0 * events.max(1) as f64 / row.failure).ln() / (2.0 * samples.len() as f64)).sqrt();
    Ok((values, within(radius, draws, row.failure)))
}

/// The structure for a decision, with its probability.
pub(super) fn predict(row: &Row<'_>, decision: Decision) -> Result<Prediction> {
    let (structure, choice) = match decision {
        Decision::MostProbable => most_probable(row)?,
        Decision::Hamming => {
            let (values, guarantee) = marginals(row)?;
            above_half(&values, &guarantee)
        }
        Decision::F1 => largest_f1(row)?,
        Decision::Kendall => {
            let (table, guarantee) = marginals(row)?;
            largest_tau(row, &table, &guarantee)?
        }
    };
    let (log_probability, guarantee) = log_probability(row, &structure)?;
    Ok(Prediction { structure, log_probability, guarantee, choice })
}

fn most_probable(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    if row.is_set() {
        if let Ok(answer) = row.ask(Query::Map)
            && answer.guarantee.promise() == Promise::Exact
            && let AnyValue::States(states) = &answer.value
            && let Some(best) = states.first()
        {
            let structure = best.state.iter().skip(row.form.hidden()).map(|&y| y as u32).collect();
            return Ok((structure, Guarantee::Exact));
        }
    } else if row.is_quick(row.model, Query::Map) {
        let best = Oracle::default().map(row.model, &row.run.unobserved())?.value;
        return Ok((best.state.iter().map(|&y| y as u32).collect(), Guarantee::Exact));
    }
    annealed(row)
}

/// The best structure of a search by annealing, and of exact samples at the largest inverse temperature for which
/// there is an exact sampler.
pub(super) fn annealed(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    let found = annealing(row.failure).map(row.model, &row.run.unobserved())?.value;
    let mut best = (found.score, found.state.iter().skip(row.form.hidden()).map(|&y| y as u32).collect());
    let mut beta = MOST_BETA;
    let samples = loop {
        match row.exact_samples(beta, SAMPLES) {
            Err(Error::NoAnswer(_)) if beta > 1.0 => beta *= 0.5,
            Err(Error::NoAnswer(_)) => break Vec::new(),
            samples => break samples?,
        }
    };
    let exact = !samples.is_empty();
    for sample in samples {
        let score = row.score(&sample)?;
        if score > best.0 {
            best = (score, sample);
        }
    }
    let count = log_count_bound(row.model.space()).unwrap_or(f64::INFINITY);
    let drawn = if exact { count / (beta * row.failure.powf(1.0 / SAMPLES as f64)) } else { f64::INFINITY };
    // The upper end of the range of scores is certain.
    let known = (row.model.range().1 - best.0).max(0.0);
    let choice = if known <= drawn {
        Guarantee::Bounds { low: 0.0, high: known, confidence: 1.0 }
    } else {
        Guarantee::Bounds { low: 0.0, high: drawn, confidence: 1.0 - row.failure }
    };
    Ok((best.1, choice))
}

/// Labels of probability above ½, and bounds on the additional expected share of wrong labels. A label with the
/// frequency p̂ that is wrong has a probability within ε of p̂ on the other side of ½.
pub(super) fn above_half(values: &[f64], guarantee: &Guarantee) -> (Vec<u32>, Guarantee) {
    let structure = values.iter().map(|p| u32::from(*p > 0.5)).collect();
    let choice = match guarantee {
        Guarantee::Bounds { high, confidence, .. } => {
            let excess: f64 = values.iter().map(|p| 2.0 * (high - (p - 0.5).abs()).max(0.0)).sum();
            Guarantee::Bounds { low: 0.0, high: excess / values.len() as f64, confidence: *confidence }
        }
        other => other.clone(),
    };
    (structure, choice)
}

/// The set of largest mean F1 for samples.
pub(super) fn largest_f1(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    let n = row.width();
    let (samples, draws) = row.samples()?;
    let weight = 1.0 / samples.len() as f64;
    let (mut joint, mut empty) = (vec![0.0; n * (n + 1)], 0.0);
    for sample in &samples {
        let size = sample.iter().sum::<u32>() as usize;
        if size == 0 {
            empty += weight;
        }
        for (i, _) in sample.iter().enumerate().filter(|(_, y)| **y == 1) {
            joint[i * (n + 1) + size] += weight;
        }
    }
    let logs = n as f64 * std::f64::consts::LN_2 + (2.0 / row.failure).ln();
    let high = 2.0 * (logs / (2.0 * samples.len() as f64)).sqrt();
    Ok((f1_of_joint(&joint, empty, n), within(high, draws, row.failure)))
}

/// The order of largest expected τ for a table of P(i before j) with its guarantee.
pub(super) fn largest_tau(
    row: &Row<'_>,
    table: &[f64],
    guarantee: &Guarantee,
) -> Result<(Vec<u32>, Guarantee)> {
    let n = row.width();
    let advantage = |at: usize| table[at] - table[at % n * n + at / n];
    // Each pair has its score in one of the two orders.
    let scores = (0..n * n).map(|at| if at / n < at % n { advantage(at) } else { 0.0 }).collect();
    let model = SpaceModel::new(Permutations::new(n)?, Scores::Precedence(scores))?;
    let quiet = row.run.unobserved();
    let (best, left) = if row.is_quick(&model, Query::Map) {
        (Oracle::default().map(&model, &quiet)?.value, 0.0)
    } else {
        let best = annealing(row.failure).map(&model, &quiet)?.value;
        let left = (model.range().1 - best.score).max(0.0);
        (best, left)
    };
    // τ is twice the mean advantage of the pairs, up to a constant.
    let pairs = 0.5 * (n * n.saturating_sub(1)).max(1) as f64;
    let missed = 2.0 * left / pairs;
    let choice = match guarantee {
        Guarantee::Exact if left == 0.0 => Guarantee::Exact,
        Guarantee::Exact => Guarantee::Bounds { low: 0.0, high: missed, confidence: 1.0 },
        Guarantee::Bounds { high, confidence, .. } => {
            Guarantee::Bounds { low: 0.0, high: 4.0 * high + missed, confidence: *confidence }
        }
        other => other.clone(),
    };
    Ok((best.state.iter().map(|&item| item as u32).collect(), choice))
}

/// The smallest p for which all structures of probability p or more are among `count` samples, with probability
/// 1 − δ.
pub(super) fn found_probability(count: usize, failure: f64) -> f64 {
    let missed = |p: f64| count as f64 * (-p).ln_1p() - p.ln() - failure.ln();
    let (mut low, mut high) = (1e-300, 1.0 - 1e-12);
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if missed(middle) > 0.0 { low = middle } else { high = middle }
    }
    high
}

/// The k most probable structures: of all, or among samples.
pub(super) fn best(row: &Row<'_>, k: usize) -> Result<Vec<Prediction>> {
    if row.is_quick(row.model, Query::KBest(k)) {
        let found = Oracle::default().k_best(row.model, k, &row.run.unobserved())?.value;
        let (log_z, interval) = row.log_partition()?;
        let predict = |one: &BestState| {
            let guarantee = match interval {
                None => Guarantee::Exact,
                Some((low, high, confidence)) => {
                    Guarantee::Bounds { low: one.score - high, high: (one.score - low).min(0.0), confidence }
                }
            };
            let structure = one.state.iter().map(|&y| y as u32).collect();
            Prediction { structure, log_probability: one.score - log_z, guarantee, choice: Guarantee::Exact }
        };
        return Ok(found.iter().map(predict).collect());
    }
    best_of_samples(row, k)
}

/// The k most probable structures among samples.
pub(super) fn best_of_samples(row: &Row<'_>, k: usize) -> Result<Vec<Prediction>> {
    let (samples, draws) = row.samples()?;
    let least = found_probability(samples.len(), row.failure).ln();
    let distinct: BTreeSet<Vec<u32>> = samples.into_iter().collect();
    let mut scored: Vec<(f64, Vec<u32>)> = Vec::with_capacity(distinct.len());
    for structure in distinct {
        scored.push((row.score(&structure)?, structure));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
    scored.truncate(k);
    let Some((first, structure)) = scored.first() else { return Ok(Vec::new()) };
    // All log-probabilities differ from the first by differences of scores.
    let (log_first, guarantee) = log_probability(row, structure)?;
    let predict = |(score, structure): &(f64, Vec<u32>)| {
        let below = first - score;
        let guarantee = match &guarantee {
            Guarantee::Bounds { low, high, confidence } => {
                Guarantee::Bounds { low: low - below, high: high - below, confidence: *confidence }
            }
            other => other.clone(),
        };
        let log_probability = log_first - below;
        // A better structure that was missed has at most the probability p*.
        let lowest = match guarantee {
            Guarantee::Bounds { low, .. } => low,
            _ => log_probability,
        };
        // Both the samples and the bounds on ln p may fail.
        let other = if let Guarantee::Bounds { confidence, .. } = guarantee { 1.0 - confidence } else { 0.0 };
        let choice = within((least - lowest).max(0.0), draws, row.failure + other);
        Prediction { structure: structure.clone(), log_probability, guarantee, choice }
    };
    Ok(scored.iter().map(predict).collect())
}
