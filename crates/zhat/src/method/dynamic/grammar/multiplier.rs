//! From the sums over the divisions of a span to its row: the scores of the span and of its rules, and the
//! division by the largest number.

use super::cells::Span;
use super::number::Number;
use super::source::{Source, SpanScores};
use crate::numeric;

/// exp(logs − shift) with slopes, and the shift: the largest logarithm, or 0 if all are −∞.
pub fn exp_shifted<G: Number>(logs: &mut [f64], slopes: &[f64], out: &mut [G]) -> f64 {
    let top = numeric::max(logs);
    if top == f64::NEG_INFINITY {
        out.fill(G::ZERO);
        return top;
    }
    logs.iter_mut().for_each(|x| *x -= top);
    exp_all(logs, slopes, out);
    top
}

/// exp(logs) with slopes, which may be empty.
pub fn exp_all<G: Number>(logs: &[f64], slopes: &[f64], out: &mut [G]) {
    if slopes.is_empty() {
        return G::exp_row(logs, out);
    }
    for ((out, &log), &slope) in out.iter_mut().zip(logs).zip(slopes) {
        *out = G::exp(log, slope);
    }
}

/// What is known about a row after it is divided by its largest number.
#[derive(Clone, Copy, Default)]
pub struct Normal {
    /// ln of what its numbers were multiplied by, with the opposite sign.
    pub norm: f64,
    /// Whether all its numbers were large enough.
    pub large: bool,
    /// ln of the smallest multiplier that is not 0, relative to the largest.
    pub least: f64,
}

/// The smallest finite logarithm minus the largest; 0 if there are none.
pub fn spread(logs: &[f64]) -> f64 {
    let top = numeric::max(logs);
    let finite = logs.iter().filter(|log| **log > f64::NEG_INFINITY);
    finite.fold(0.0, |least: f64, log| least.min(log - top))
}

/// Multiplies a row of sums by its multiplier and divides it by its largest number.
pub fn normalise<G: Number>(row: &mut [G], own: &Multiplier<'_, G>, smallest: f64) -> Normal {
    // Entries of weight 0 need not be large.
    let small = |x: &G| x.to_f64() < smallest;
    let lost = |row: &[G], logs: &[f64]| {
        G::TINY > 0.0 && row.iter().zip(logs).any(|(x, log)| *log > f64::NEG_INFINITY && small(x))
    };
    let weigh = |row: &mut [G], weights: &[G]| {
        row.iter_mut().zip(weights).for_each(|(x, &weight)| *x = x.times(weight));
    };
    let (mut large, mut norm) = match own {
        Multiplier::One(score) => (G::TINY == 0.0 || !row.iter().any(small), *score),
        Multiplier::Common { common, score } => {
            let large = !lost(row, common.shifts);
            weigh(row, &common.weights);
            (large, common.top + score)
        }
        Multiplier::Row { scores, slopes } => {
            let large = !lost(row, scores);
            let mut weights = vec![G::ZERO; row.len()];
            let top = exp_shifted(&mut scores.clone(), slopes, &mut weights);
            weigh(row, &weights);
            (large, top)
        }
    };
    let least = match own {
        Multiplier::One(_) => 0.0,
        Multiplier::Common { common, .. } => common.least,
        Multiplier::Row { scores, .. } => spread(scores),
    };
    let largest = row.iter().fold(G::ZERO, |top, &x| if x.exceeds(top) { x } else { top });
    if largest.is_zero() || norm == f64::NEG_INFINITY {
        row.fill(G::ZERO);
        return Normal { norm: f64::NEG_INFINITY, large: false, least };
    }
    norm += largest.ln();
    row.iter_mut().for_each(|x| *x = x.over_constant(largest));
    match own {
        Multiplier::One(_) => {}
        Multiplier::Common { common, .. } => large &= !lost(row, common.shifts),
        Multiplier::Row { scores, .. } => large &= !lost(row, scores),
    }
    Normal { norm, large, least }
}

/// The shifts of rules, which all spans share.
pub struct Common<'a, G> {
    shifts: &'a [f64],
    /// exp(shift − top), and the largest shift.
    weights: Vec<G>,
    top: f64,
    least: f64,
}

impl<'a, G: Number> Common<'a, G> {
    pub fn new(shifts: &'a [f64]) -> Self {
        let mut weights = vec![G::ZERO; shifts.len()];
        let top = exp_shifted(&mut shifts.to_vec(), &[], &mut weights);
        Common { shifts, weights, top, least: spread(shifts) }
    }
}

/// What the sums of a span are multiplied by.
pub enum Multiplier<'a, G> {
    /// exp(score), for every head.
    One(f64),
    /// exp(score) times the weights that all spans share.
    Common { common: &'a Common<'a, G>, score: f64 },
    /// exp of one score per head, and its derivatives.
    Row { scores: Vec<f64>, slopes: Vec<f64> },
}

impl<G: Number> Multiplier<'_, G> {
    /// Multiplies a row by it and divides it by exp(norm).
    pub fn apply(self, row: &mut [G], norm: f64) {
        match self {
            Multiplier::One(score) => {
                let weight = G::exp(score - norm, 0.0);
                row.iter_mut().for_each(|x| *x = x.times(weight));
            }
            Multiplier::Common { common, score } => {
                let weight = G::exp(common.top + score - norm, 0.0);
                let each = row.iter_mut().zip(&common.weights);
                each.for_each(|(x, &own)| *x = x.times(own.times(weight)));
            }
            Multiplier::Row { mut scores, slopes } => {
                scores.iter_mut().for_each(|score| *score -= norm);
                let mut weights = vec![G::ZERO; row.len()];
                exp_all(&scores, &slopes, &mut weights);
                row.iter_mut().zip(weights).for_each(|(x, weight)| *x = x.times(weight));
            }
        }
    }
}

/// The multipliers of the spans of one width: their scores and the shifts of rules, by span.
pub struct Multipliers<'a, G> {
    scores: SpanScores,
    slopes: Vec<f64>,
    common: &'a Common<'a, G>,
    size: usize,
}

impl<'a, G: Number> Multipliers<'a, G> {
    pub fn new(source: &Source<'_>, list: &[Span], common: &'a Common<'a, G>, size: usize) -> Self {
        let places: Vec<(usize, usize, usize)> =
            list.iter().map(|span| (source.sentences[span.sentence], span.first, span.last)).collect();
        let (scores, slopes) = source.spans(&places);
        Multipliers { scores, slopes, common, size }
    }

    /// The multiplier of span `at`.
    pub fn of(&self, at: usize) -> Multiplier<'a, G> {
        let same = |score: f64| match self.common.shifts.is_empty() {
            true => Multiplier::One(score),
            false => Multiplier::Common { common: self.common, score },
        };
        match &self.scores {
            SpanScores::None => same(0.0),
            SpanScores::Each(scores) if self.slopes.is_empty() => same(scores[at]),
            _ => {
                let (scores, slopes) = self.row(at);
                Multiplier::Row { scores, slopes }
            }
        }
    }

    /// The scores of span `at` with the shifts, one per head, and their slopes.
    pub fn row(&self, at: usize) -> (Vec<f64>, Vec<f64>) {
        let (own, size) = (at * self.size, self.size);
        let (mut scores, slopes) = match &self.scores {
            SpanScores::None => (vec![0.0; size], Vec::new()),
            SpanScores::Each(scores) => {
                (vec![scores[at]; size], self.slopes.get(at).map_or(Vec::new(), |&slope| vec![slope; size]))
            }
            SpanScores::Rows(scores) => {
                let slopes = self.slopes.get(own..own + size).unwrap_or(&[]);
                (scores[own..own + size].to_vec(), slopes.to_vec())
            }
        };
        scores.iter_mut().zip(self.common.shifts).for_each(|(score, shift)| *score += shift);
        (scores, slopes)
    }
}
