//! Queries of single rows whose sums are out of reach.
//!
//! The methods of the catalogue come first, in case one of them is exact within the budget. Otherwise structures
//! are chosen from exact samples:
//!
//! - most probable: samples at inverse temperatures β ≥ 1. E_β\[s\] ≥ s_max − ln|Y|/β, so by Markov's inequality
//!   the best score of K independent samples at β is at least s_max − ln|Y|/(β·δ^{1/K}) with probability 1 − δ.
//! - the k most probable: the best among S samples. A structure of probability p is missed with probability (1 −
//!   p)^S, and at most 1/p structures have this probability or more. With probability 1 − δ all structures of
//!   probability p* or more are found, where (1 − p*)^S/p* = δ.
//! - labels above ½: the frequencies of all labels are within ε of their probabilities (Hoeffding).
//! - largest expected F1: the best set for the samples. The mean F1 of all 2ⁿ sets are within ε of their
//!   expectations, so that the expected F1 is within 2ε of the largest.

use std::collections::BTreeSet;

use super::{Decision, Prediction};
use crate::answer::{Guarantee, Promise};
use crate::catalogue::{self, Choice};
use crate::error::{Error, Result};
use crate::learn::predict::decide::f1_of_joint;
use crate::method::space::perfect::exact_samples;
use crate::model::Model;
use crate::model::space::SpaceModel;
use crate::options::Settings;
use crate::query::{AnyAnswer, AnyValue, Query};
use crate::random::Streams;
use crate::run::{Clock, Run};

/// Number of exact samples per row.
pub(super) const SAMPLES: usize = 4096;
/// Probability that a guarantee from samples fails.
pub(super) const FAILURE: f64 = 0.01;
/// Largest inverse temperature for the most probable structure.
const MOST_BETA: f64 = 256.0;

/// One row.
pub(super) struct Row<'a> {
    pub model: &'a SpaceModel,
    /// 1 if the model has an additional first node.
    pub hidden: usize,
    /// The number of the row, which determines its random numbers.
    pub number: u64,
    pub run: &'a Run,
    pub clock: &'a Clock<'a>,
}

impl Row<'_> {
    fn ask(&self, query: Query) -> Result<AnyAnswer> {
        let model: Model = self.model.clone().into();
        catalogue::answer(&model, query, &Choice::parse("auto"), &Settings::new(), &self.run.unobserved())
    }

    /// Exact samples at β, without the additional node.
    fn samples(&self, beta: f64, count: usize) -> Result<Vec<Vec<u32>>> {
        // Temperatures have independent random numbers: whether samples at one fail does not bias another.
        let seed = self.run.seed() ^ beta.to_bits();
        let mut random = Streams::new(seed, "predictor row").block(self.number);
        let mut structure = vec![0; self.model.width()];
        exact_samples(self.model, beta, self.clock, |draw| {
            let mut all = Vec::with_capacity(count);
            for _ in 0..count {
                draw(&mut random, &mut structure)?;
                all.push(structure[self.hidden..].to_vec());
            }
            Ok(all)
        })
    }

    /// The score of a structure.
    fn score(&self, structure: &[u32]) -> Result<f64> {
        let whole: Vec<u32> = std::iter::repeat_n(1, self.hidden).chain(structure.iter().copied()).collect();
        self.model.score(&whole)
    }

    /// The number of labels or nodes.
    fn width(&self) -> usize {
        self.model.width() - self.hidden
    }
}

/// ln p of a structure, with its guarantee.
pub(super) fn log_probability(row: &Row<'_>, structure: &[u32]) -> Result<(f64, Guarantee)> {
    let score = row.score(structure)?;
    let log_z = row.ask(Query::LogPartition)?.into_estimate()?;
    let guarantee = match log_z.guarantee {
        Guarantee::Exact => Guarantee::Exact,
        Guarantee::Bounds { low, high, confidence } => {
            Guarantee::Bounds { low: score - high, high: (score - low).min(0.0), confidence }
        }
        Guarantee::Unbiased { low, confidence, .. } => {
            Guarantee::Bounds { low: f64::NEG_INFINITY, high: (score - low).min(0.0), confidence }
        }
        other => other,
    };
    Ok((score - log_z.value, guarantee))
}

/// The probabilities of the labels or nodes, and bounds on their largest error.
pub(super) fn marginals(row: &Row<'_>) -> Result<(Vec<f64>, Guarantee)> {
    if let Ok(answer) = row.ask(Query::Marginals)
        && answer.guarantee.promise() == Promise::Exact
        && let AnyValue::Tensors(tensors) = &answer.value
        && let Some(values) = tensors.list.first().map(|tensor| tensor.to_f64())
    {
        return Ok((values[row.hidden..].to_vec(), Guarantee::Exact));
    }
    sampled_marginals(row)
}

/// The frequencies of the labels or nodes.
pub(super) fn sampled_marginals(row: &Row<'_>) -> Result<(Vec<f64>, Guarantee)> {
    let samples = row.samples(1.0, SAMPLES)?;
    let n = row.width();
    let mut values = vec![0.0; n];
    for sample in &samples {
        values.iter_mut().zip(sample).for_each(|(sum, &y)| *sum += f64::from(y));
    }
    values.iter_mut().for_each(|sum| *sum /= samples.len() as f64);
    let radius = ((2.0 * n as f64 / FAILURE).ln() / (2.0 * samples.len() as f64)).sqrt();
    Ok((values, Guarantee::Bounds { low: 0.0, high: radius, confidence: 1.0 - FAILURE }))
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
        Decision::Kendall => return Err(Error::argument("decision", "kendall is for rankings")),
    };
    let (log_probability, guarantee) = log_probability(row, &structure)?;
    Ok(Prediction { structure, log_probability, guarantee, choice })
}

fn most_probable(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    if let Ok(answer) = row.ask(Query::Map)
        && answer.guarantee.promise() == Promise::Exact
        && let AnyValue::States(states) = &answer.value
        && let Some(best) = states.first()
    {
        let structure = best.state.iter().skip(row.hidden).map(|&y| y as u32).collect();
        return Ok((structure, Guarantee::Exact));
    }
    annealed(row)
}

/// The best of exact samples at the largest inverse temperature for which there is an exact sampler.
pub(super) fn annealed(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    let mut beta = MOST_BETA;
    let samples = loop {
        match row.samples(beta, SAMPLES) {
            Err(Error::NoAnswer(_)) if beta > 1.0 => beta *= 0.5,
            samples => break samples?,
        }
    };
    let mut best: Option<(f64, Vec<u32>)> = None;
    for sample in samples {
        let score = row.score(&sample)?;
        if best.as_ref().is_none_or(|(most, _)| score > *most) {
            best = Some((score, sample));
        }
    }
    let Some((score, structure)) = best else { return Err(Error::NoAnswer("there is no sample".into())) };
    let count = row.width() as f64 * std::f64::consts::LN_2;
    let drawn = count / (beta * FAILURE.powf(1.0 / SAMPLES as f64));
    // The upper end of the range of scores is certain.
    let known = (row.model.range().1 - score).max(0.0);
    let choice = if known <= drawn {
        Guarantee::Bounds { low: 0.0, high: known, confidence: 1.0 }
    } else {
        Guarantee::Bounds { low: 0.0, high: drawn, confidence: 1.0 - FAILURE }
    };
    Ok((structure, choice))
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

/// The set of largest mean F1 for exact samples.
pub(super) fn largest_f1(row: &Row<'_>) -> Result<(Vec<u32>, Guarantee)> {
    let n = row.width();
    let samples = row.samples(1.0, SAMPLES)?;
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
    let logs = n as f64 * std::f64::consts::LN_2 + (2.0 / FAILURE).ln();
    let high = 2.0 * (logs / (2.0 * samples.len() as f64)).sqrt();
    Ok((f1_of_joint(&joint, empty, n), Guarantee::Bounds { low: 0.0, high, confidence: 1.0 - FAILURE }))
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

/// The k most probable structures among exact samples.
pub(super) fn best(row: &Row<'_>, k: usize) -> Result<Vec<Prediction>> {
    let distinct: BTreeSet<Vec<u32>> = row.samples(1.0, SAMPLES)?.into_iter().collect();
    let mut scored: Vec<(f64, Vec<u32>)> = Vec::with_capacity(distinct.len());
    for structure in distinct {
        scored.push((row.score(&structure)?, structure));
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| b.1.cmp(&a.1)));
    scored.truncate(k);
    let Some((first, structure)) = scored.first() else { return Ok(Vec::new()) };
    // All log-probabilities differ from the first by differences of scores.
    let (log_first, guarantee) = log_probability(row, structure)?;
    let least = found_probability(SAMPLES, FAILURE).ln();
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
        let choice =
            Guarantee::Bounds { low: 0.0, high: (least - lowest).max(0.0), confidence: 1.0 - FAILURE };
        Prediction { structure: structure.clone(), log_probability, guarantee, choice }
    };
    Ok(scored.iter().map(predict).collect())
}
