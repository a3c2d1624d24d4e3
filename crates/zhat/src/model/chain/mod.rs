//! Chains of hidden states: hidden Markov models and linear-chain conditional random fields.
//!
//! A batch of B sequences shares its parameters. Sequence b has T_b positions, each in one of N states, and
//!
//!   score_b(x) = start(x₀) + Σₜ emission_b(t, xₜ) + Σₜ transition(xₜ, xₜ₊₁) + end(x_{T_b−1}),
//!
//! where all terms are log scores and −∞ is allowed; `end` is optional. Every query has one answer per sequence; gradients with
//! respect to the shared parameters are summed over the batch.

pub(in crate::model) mod any;
mod convert;
mod end;
pub(in crate::model) mod generate;
mod observe;
pub(in crate::model) mod reference;
mod sequence;
mod sparse;

use end::End;
pub use observe::Observed;
pub use sparse::Pattern;

use std::ops::Range;

use super::Values;
use crate::error::{Error, Result};
use crate::numeric::{Real, log_sum_exp};

/// Maximum sum of scores; it ensures that no sum overflows a double.
pub(super) const LARGEST_TOTAL: f64 = 1e305;

/// A batch of chains with shared parameters.
///
/// ```
/// use zhat::model::{Chain, Transitions};
/// // Two sequences of 3 and 1 positions, 2 states.
/// let emissions = vec![0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.0, 0.0, 0.0, 0.0];
/// let transitions = Transitions::Shared(vec![0.0, 1.0, 1.0, 0.0].into());
/// let chain = Chain::new(vec![0.0, 0.0].into(), emissions.into(), vec![3, 1], transitions)?;
/// assert_eq!((chain.batch(), chain.steps(), chain.states()), (2, 3, 2));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Chain<F: Real = f64> {
    start: Values<F>,
    emissions: Values<F>,
    lengths: Vec<usize>,
    steps: usize,
    transitions: Transitions<F>,
    end: Option<End<F>>,
    magnitude: f64,
    /// A bound on the sum of the scores at one position.
    local: f64,
}

/// log-transition(i, j): from state i to state j.
#[derive(Clone, Debug, PartialEq)]
pub enum Transitions<F: Real = f64> {
    /// N×N, row i from state i; the same at every step.
    Shared(Values<F>),
    /// (T−1)×N×N: table t is for the step from position t to position t + 1.
    PerStep(Values<F>),
    /// B×(T−1)×N×N: table (b, t) is for the step of sequence b from position t to position t + 1.
    PerSequence(Values<F>),
    /// leftᵢ · rightⱼ: the N×N table is never formed. Both are N×D; without `right`, it equals `left`.
    Factored {
        /// The embeddings of source states, N×D.
        left: Values<F>,
        /// The embeddings of target states, N×D.
        right: Option<Values<F>>,
    },
    /// ln Σᵣ exp(left_ir + right_jr): the exponentials form a matrix of rank at most R. The N×N table is never
    /// formed, and sums over paths take N·R operations per step.
    LowRank {
        /// The log factors of source states, N×R; −∞ is allowed.
        left: Values<F>,
        /// The log factors of target states, N×R; −∞ is allowed.
        right: Values<F>,
    },
    /// Only the entries of the pattern; every other transition is log-zero. Sums over paths take one operation per
    /// entry and step.
    Sparse {
        /// Which transitions are possible.
        pattern: Pattern,
        /// One value per entry; with `per_step`, one row of them per step, T−1 in all.
        values: Values<F>,
        /// Whether each step has its own values.
        per_step: bool,
    },
}

impl<F: Real> Transitions<F> {
    /// The right embeddings of factored transitions.
    pub fn right(&self) -> Option<&[F]> {
        match self {
            Transitions::Factored { left, right } => Some(right.as_ref().unwrap_or(left)),
            _ => None,
        }
    }

    /// The name of the form, for tables and messages.
    pub fn form(&self) -> &'static str {
        match self {
            Transitions::Shared(_) => "shared",
            Transitions::PerStep(_) => "per-step",
            Transitions::PerSequence(_) => "per-sequence",
            Transitions::Factored { .. } => "factored",
            Transitions::LowRank { .. } => "low-rank",
            Transitions::Sparse { per_step: false, .. } => "sparse",
            Transitions::Sparse { .. } => "sparse-per-step",
        }
    }

    /// The number of stored values.
    pub fn len(&self) -> usize {
        match self {
            Transitions::Shared(values)
            | Transitions::PerStep(values)
            | Transitions::PerSequence(values)
            | Transitions::Sparse { values, .. } => values.len(),
            Transitions::Factored { left, right } => {
                left.len() + right.as_ref().map_or(0, |right| right.len())
            }
            Transitions::LowRank { left, right } => left.len() + right.len(),
        }
    }

    /// True if there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if every step of every sequence has the same table.
    pub fn shared(&self) -> bool {
        !matches!(
            self,
            Transitions::PerStep(_)
                | Transitions::PerSequence(_)
                | Transitions::Sparse { per_step: true, .. }
        )
    }

    /// The log-transition from state i to state j, of `states` states, from position `t` to `t + 1`. With one table
    /// per sequence and step, `t` counts the tables of all sequences, T−1 each.
    pub fn score(&self, states: usize, t: usize, i: usize, j: usize) -> f64 {
        match self {
            Transitions::Shared(table) => table[i * states + j].to_f64(),
            Transitions::PerStep(tables) | Transitions::PerSequence(tables) => {
                tables[(t * states + i) * states + j].to_f64()
            }
            Transitions::Sparse { pattern, values, per_step } => {
                let first = if *per_step { t * pattern.len() } else { 0 };
                pattern.entry(i, j).map_or(f64::NEG_INFINITY, |e| values[first + e].to_f64())
            }
            Transitions::Factored { left, .. } => {
                let rank = left.len() / states;
                let right = self.right().unwrap_or(left);
                let (l, r) = (&left[i * rank..(i + 1) * rank], &right[j * rank..(j + 1) * rank]);
                l.iter().zip(r).map(|(&l, &r)| l.to_f64() * r.to_f64()).sum()
            }
            Transitions::LowRank { left, right } => {
                let rank = left.len() / states;
                let (l, r) = (&left[i * rank..(i + 1) * rank], &right[j * rank..(j + 1) * rank]);
                let terms = l.iter().zip(r).map(|(&l, &r)| l.to_f64() + r.to_f64());
                log_sum_exp(&terms.collect::<Vec<f64>>())
            }
        }
    }

    /// Validates the values and returns an upper bound on the finite |log-transition|.
    pub(super) fn check(&self, states: usize, steps: usize, lengths: &[usize]) -> Result<f64> {
        let table = states.saturating_mul(states);
        match self {
            Transitions::Shared(values) => {
                expect_len("transitions", values.len(), table, "N × N")?;
                check_scores("transitions", values, 0..values.len())
            }
            Transitions::PerStep(values) => {
                let expected = (steps - 1).saturating_mul(table);
                expect_len("transitions", values.len(), expected, "(T − 1) × N × N")?;
                check_scores("transitions", values, 0..values.len())
            }
            Transitions::PerSequence(values) => {
                let expected = lengths.len().saturating_mul((steps - 1).saturating_mul(table));
                expect_len("transitions", values.len(), expected, "B × (T − 1) × N × N")?;
                sequence::check(values, table, lengths)
            }
            Transitions::Sparse { pattern, values, per_step } => {
                sparse::check(pattern, values, *per_step, [states, steps])
            }
            Transitions::Factored { left, right } => {
                if !left.len().is_multiple_of(states) {
                    let message =
                        format!("left embeddings: {} numbers are not N × D for {states} states", left.len());
                    return Err(Error::Model(message));
                }
                if let Some(right) = right {
                    expect_len("right embeddings", right.len(), left.len(), "N × D as the left ones")?;
                }
                for (name, values) in [("left embeddings", Some(left)), ("right embeddings", right.as_ref())]
                {
                    let bad = values.and_then(|values| values.iter().position(|x| !x.to_f64().is_finite()));
                    if let Some(at) = bad {
                        return Err(Error::Model(format!("{name}: number {at} is not finite")));
                    }
                }
                let norm = |values: &[F]| {
                    let rows = values.chunks_exact((left.len() / states).max(1));
                    let squares = rows.map(|row| row.iter().map(|x| x.to_f64().powi(2)).sum::<f64>());
                    squares.fold(0.0, f64::max).sqrt()
                };
                Ok(norm(left) * norm(right.as_ref().unwrap_or(left)))
            }
            Transitions::LowRank { left, right } => {
                if left.is_empty() || !left.len().is_multiple_of(states) {
                    let message = format!(
                        "log_left: {} numbers are not N × R for {states} states and a rank R of at least 1",
                        left.len()
                    );
                    return Err(Error::Model(message));
                }
                expect_len("log_right", right.len(), left.len(), "N × R as log_left")?;
                let (of_left, of_right) = (
                    check_scores("log_left", left, 0..left.len())?,
                    check_scores("log_right", right, 0..right.len())?,
                );
                Ok(of_left + of_right + ((left.len() / states) as f64).ln())
            }
        }
    }
}

impl<F: Real> Chain<F> {
    /// A batch of chains.
    ///
    /// `emissions` are B×T×N with B = `lengths.len()` and the same T ≥ 1 for all sequences. Only the first
    /// `lengths[b]` positions of sequence b are used. Nothing is copied.
    ///
    /// # Errors
    /// If there is no state or no sequence, an array has the wrong length, a sequence has length 0 or more
    /// than T, a score is NaN or +∞, an embedding is not finite, or a sum of scores could overflow.
    pub fn new(
        start: Values<F>,
        emissions: Values<F>,
        lengths: Vec<usize>,
        transitions: Transitions<F>,
    ) -> Result<Self> {
        let states = start.len();
        if states == 0 {
            return Err(Error::Model("start: a chain has at least one state".into()));
        }
        if lengths.is_empty() {
            return Err(Error::Model("lengths: a batch has at least one sequence".into()));
        }
        let row = states.saturating_mul(lengths.len());
        if emissions.is_empty() || !emissions.len().is_multiple_of(row) {
            let message = format!(
                "emissions: {} numbers are not B × T × N for {} sequences and {states} states",
                emissions.len(),
                lengths.len()
            );
            return Err(Error::Model(message));
        }
        let steps = emissions.len() / row;
        if let Some(b) = lengths.iter().position(|&length| length == 0 || length > steps) {
            let message = format!("lengths: sequence {b} has length {}, expected 1 to {steps}", lengths[b]);
            return Err(Error::Model(message));
        }
        let mut emission = 0.0f64;
        for (b, &length) in lengths.iter().enumerate() {
            let from = b * steps * states;
            emission = emission.max(check_scores("emissions", &emissions, from..from + length * states)?);
        }
        let longest = lengths.iter().copied().max().unwrap_or(0) as f64;
        let (first, transition) =
            (check_scores("start", &start, 0..states)?, transitions.check(states, steps, &lengths)?);
        let magnitude = first + longest * (emission + transition);
        let local = first + emission + transition;
        check_total::<F>(magnitude, local)?;
        Ok(Chain { start, emissions, lengths, steps, transitions, end: None, magnitude, local })
    }

    /// A linear-chain conditional random field, without start scores.
    ///
    /// # Errors
    /// As [`Chain::new`].
    pub fn crf(
        states: usize,
        emissions: Values<F>,
        lengths: Vec<usize>,
        transitions: Transitions<F>,
    ) -> Result<Self> {
        Chain::new(vec![F::ZERO; states].into(), emissions, lengths, transitions)
    }

    /// A hidden Markov model with discrete observations.
    ///
    /// `start` (N), `transitions` (N×N, row i from state i) and `emissions` (N×V, row i the distribution of
    /// the symbols emitted by state i) are probabilities: `start` and every row must sum to 1 within 1e-4.
    /// `observations` are symbols 0 … V−1, one list per sequence. log Z is the log-likelihood.
    ///
    /// # Errors
    /// If an array has the wrong length, a row is not a distribution, a symbol is not below V, or there is no
    /// sequence or an empty one.
    pub fn hmm(start: &[F], transitions: &[F], emissions: &[F], observations: &[Vec<usize>]) -> Result<Self> {
        let states = start.len();
        let (longest, rows) = (observations.iter().map(Vec::len).max().unwrap_or(0), states.max(1));
        let symbols = emissions.len() / rows;
        if !emissions.len().is_multiple_of(rows) {
            return Err(Error::Model(format!(
                "emissions: {} numbers are not N × V for {states} states",
                emissions.len()
            )));
        }
        let log_table = log_probabilities("emissions", emissions, symbols)?;
        let mut scores = vec![F::ZERO; observations.len() * longest * states];
        for (b, symbols_seen) in observations.iter().enumerate() {
            for (t, &symbol) in symbols_seen.iter().enumerate() {
                if symbol >= symbols {
                    let message = format!(
                        "observations: symbol {symbol} of sequence {b}, position {t}, is not below {symbols}"
                    );
                    return Err(Error::Model(message));
                }
                let at = (b * longest + t) * states;
                for (i, score) in scores[at..at + states].iter_mut().enumerate() {
                    *score = log_table[i * symbols + symbol];
                }
            }
        }
        let lengths = observations.iter().map(Vec::len).collect();
        let transitions = Transitions::Shared(log_probabilities("transitions", transitions, states)?.into());
        Chain::new(log_probabilities("start", start, states)?.into(), scores.into(), lengths, transitions)
    }

    /// N, the number of states.
    pub fn states(&self) -> usize {
        self.start.len()
    }

    /// T, the number of positions in the emissions.
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// B, the number of sequences.
    pub fn batch(&self) -> usize {
        self.lengths.len()
    }

    /// The number of positions of each sequence.
    pub fn lengths(&self) -> &[usize] {
        &self.lengths
    }

    /// The start scores, N.
    pub fn start(&self) -> &[F] {
        &self.start
    }

    /// The emission scores, B×T×N.
    pub fn emissions(&self) -> &[F] {
        &self.emissions
    }

    /// The emission scores of sequence b at position t.
    pub fn emission(&self, b: usize, t: usize) -> &[F] {
        let at = (b * self.steps + t) * self.states();
        &self.emissions[at..at + self.states()]
    }

    /// The transition scores.
    pub fn transitions(&self) -> &Transitions<F> {
        &self.transitions
    }

    /// The log-transition of sequence b from state i at position t to state j at position t + 1.
    pub(super) fn transition(&self, b: usize, t: usize, i: usize, j: usize) -> f64 {
        let first = match self.transitions {
            Transitions::PerSequence(_) => b * (self.steps - 1),
            _ => 0,
        };
        self.transitions.score(self.states(), first + t, i, j)
    }

    /// The score of a path of states.
    pub fn score(&self, b: usize, path: &[usize]) -> f64 {
        let emissions: f64 = path.iter().enumerate().map(|(t, &i)| self.emission(b, t)[i].to_f64()).sum();
        let pairs = path.windows(2).enumerate();
        let transitions: f64 = pairs.map(|(t, p)| self.transition(b, t, p[0], p[1])).sum();
        let first = path.first().map_or(0.0, |&i| self.start[i].to_f64());
        let last = path.last().zip(self.end()).map_or(0.0, |(&i, end)| end[i].to_f64());
        first + emissions + transitions + last
    }

    /// The memory of the scores, in bytes.
    pub fn bytes(&self) -> usize {
        let end = self.end.as_ref().map_or(0, End::len);
        let numbers = self.start.len() + self.emissions.len() + self.transitions.len() + end;
        let pattern = match &self.transitions {
            Transitions::Sparse { pattern, .. } => pattern.bytes(),
            _ => 0,
        };
        numbers * size_of::<F>() + pattern
    }

    /// An upper bound on |score| of any possible path.
    pub fn magnitude(&self) -> f64 {
        self.magnitude
    }
}

/// Returns an error if a sum of scores could overflow.
fn check_total<F: Real>(magnitude: f64, local: f64) -> Result<()> {
    // The scores at one position must fit the precision F, with room for a few such terms.
    if magnitude > LARGEST_TOTAL || local > F::MAX.to_f64() / 64.0 {
        return Err(Error::Model(
            "the scores are too large: their sum would overflow; use -inf for what is impossible".into(),
        ));
    }
    Ok(())
}

/// Checks that every score is finite or −∞; returns the largest finite |score|.
pub(super) fn check_scores<F: Real>(name: &str, values: &[F], range: Range<usize>) -> Result<f64> {
    let (largest, bad) = F::extent(&values[range.clone()]);
    let of_no_use = |at: &usize| values[*at].is_nan() || values[*at] > F::MAX;
    match range.into_iter().find(|at| bad && of_no_use(at)) {
        None => Ok(largest.to_f64()),
        Some(at) => {
            Err(Error::Model(format!("{name}: number {at} is {}; a score is finite or -inf", values[at])))
        }
    }
}

fn expect_len(name: &str, found: usize, expected: usize, shape: &str) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::Model(format!("{name}: found {found} numbers, expected {shape} = {expected}")))
}

/// Tolerance for the sum of a probability distribution; it admits numbers with few digits and normalisation
/// in single precision.
const SUM_TOLERANCE: f64 = 1e-4;

/// The logarithms of rows of `width` probabilities; each row must sum to 1.
fn log_probabilities<F: Real>(name: &str, values: &[F], width: usize) -> Result<Vec<F>> {
    if let Some(at) = values.iter().position(|x| x.is_nan() || *x < F::ZERO || *x > F::MAX) {
        return Err(Error::Model(format!("{name}: number {at} is {}; expected a probability", values[at])));
    }
    for (row, values) in values.chunks_exact(width.max(1)).enumerate() {
        let sum: f64 = values.iter().map(|x| x.to_f64()).sum();
        if (sum - 1.0).abs() > SUM_TOLERANCE {
            let place = if name == "start" { "the probabilities".into() } else { format!("row {row}") };
            let verb = if name == "start" { "sum" } else { "sums" };
            let message = format!("{name}: {place} {verb} to {sum}, expected 1 within {SUM_TOLERANCE}");
            return Err(Error::Model(message));
        }
    }
    let mut logs = values.to_vec();
    F::ln_in_place(&mut logs);
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_score_that_is_none_is_named() {
        let chain = |emissions: Vec<f32>, lengths: Vec<usize>, transitions: Vec<f32>| {
            Chain::crf(2, emissions.into(), lengths, Transitions::Shared(transitions.into()))
        };
        let zeros = vec![0.0; 4];
        let mut emissions = vec![1.0; 16];
        emissions[3] = f32::NEG_INFINITY;
        emissions[12] = f32::NAN;
        // Values after the end of the second sequence are not checked.
        let good = chain(emissions.clone(), vec![4, 2], vec![0.0, -3.0, f32::NEG_INFINITY, 2.0]).unwrap();
        assert_eq!(good.magnitude(), 4.0 * (1.0 + 3.0));
        let error = chain(emissions, vec![4, 3], zeros).unwrap_err().to_string();
        assert!(error.contains("emissions: number 12 is NaN"), "{error}");
        let error = chain(vec![0.0; 8], vec![4], vec![0.0, 0.0, f32::INFINITY, 0.0]).unwrap_err().to_string();
        assert!(error.contains("transitions: number 2 is inf"), "{error}");
    }

    #[test]
    fn scores_that_would_overflow_are_refused() {
        let transitions = Transitions::Shared(vec![1e305].into());
        assert!(Chain::crf(1, vec![0.0; 3].into(), vec![3], transitions).is_err());
        let embeddings = Transitions::Factored { left: vec![1e200].into(), right: None };
        assert!(Chain::crf(1, vec![0.0; 3].into(), vec![3], embeddings).is_err());
        let embeddings = Transitions::Factored { left: vec![1e20f32].into(), right: None };
        assert!(Chain::crf(1, vec![0.0; 3].into(), vec![3], embeddings).is_err());
    }
}
