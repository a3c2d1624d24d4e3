//! Semi-Markov chains: a state lasts for a segment of 1 to L positions.
//!
//! A sequence of T positions is divided into segments of lengths d₁ + … + d_m = T, 1 ≤ d ≤ L, with states j₁
//! … j_m, and
//!
//!   score = start(j₁) + Σ_segments [ Σ_{t in segment} emission(t, j) + segment(j, d) ] + Σ transition(jₖ, jₖ₊₁)
//!           + end(j_m).
//!
//! `segment` is a score for each length and state, or for each start, length and state. With L = 1 and zero
//! segment scores the model is a [`Chain`]. Transitions are between segments; per-step table t applies to a
//! segment that starts at t + 1.

pub(in crate::model) mod any;

use super::{Chain, Transitions, Values};
use crate::error::{Error, Result};
use crate::numeric::Real;

/// A batch of semi-Markov chains with shared parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct SemiMarkov<F: Real = f64> {
    chain: Chain<F>,
    segments: Segments<F>,
    longest: usize,
}

/// The scores of segments, in addition to their emissions.
#[derive(Clone, Debug, PartialEq)]
pub enum Segments<F: Real = f64> {
    /// L×N: for length d (row d − 1) and each state.
    Lengths(Values<F>),
    /// B×T×L×N: for the segment of sequence b that starts at t and has length d, in each state. Scores of
    /// segments that would extend past the end of the sequence are ignored.
    Places(Values<F>),
}

impl<F: Real> SemiMarkov<F> {
    /// Sequence b alone, as [`Chain::part`].
    pub(crate) fn part(&self, b: usize) -> Self {
        let segments = match &self.segments {
            Segments::Lengths(values) => Segments::Lengths(values.clone()),
            Segments::Places(values) => {
                let size = values.len() / self.chain.batch();
                Segments::Places(values.part(b * size..(b + 1) * size))
            }
        };
        SemiMarkov { chain: self.chain.part(b), segments, longest: self.longest }
    }

    /// A batch of semi-Markov chains; `chain` has the start, emission and transition scores, and `longest` is
    /// L.
    ///
    /// # Errors
    /// If `longest` is 0, the number of segment scores is wrong, or one of them is NaN or +∞.
    pub fn new(chain: Chain<F>, segments: Segments<F>, longest: usize) -> Result<Self> {
        let (name, values, expected) = match &segments {
            Segments::Lengths(values) => ("L × N", values, longest * chain.states()),
            Segments::Places(values) => ("B × T × L × N", values, chain.emissions().len() * longest),
        };
        if longest == 0 {
            return Err(Error::Model("segments: a segment needs at least one position".into()));
        }
        if values.len() != expected {
            let message = format!("segments: found {} numbers, expected {name} = {expected}", values.len());
            return Err(Error::Model(message));
        }
        let model = SemiMarkov { chain, segments, longest };
        for b in 0..model.chain.batch() {
            for t in 0..model.chain.lengths()[b] {
                for d in 1..=longest.min(model.chain.lengths()[b] - t) {
                    if let Some(x) = model.segment(b, t, d).iter().find(|x| x.is_nan() || **x > F::MAX) {
                        let message = format!(
                            "segments: a score of sequence {b}, start {t}, length {d} is {x}; a score is finite or -inf"
                        );
                        return Err(Error::Model(message));
                    }
                }
            }
        }
        Ok(model)
    }

    /// The start, emission and transition scores.
    pub fn chain(&self) -> &Chain<F> {
        &self.chain
    }

    /// L, the length of the longest segment.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The segment scores.
    pub fn segments(&self) -> &Segments<F> {
        &self.segments
    }

    /// The segment scores of sequence b, start t and length d, one for each state.
    pub fn segment(&self, b: usize, t: usize, d: usize) -> &[F] {
        let states = self.chain.states();
        let (values, row) = match &self.segments {
            Segments::Lengths(values) => (values, d - 1),
            Segments::Places(values) => (values, (b * self.chain.steps() + t) * self.longest + d - 1),
        };
        &values[row * states..(row + 1) * states]
    }

    /// The score of a segmentation, given as (state, length) of each segment in order.
    pub fn score(&self, b: usize, segments: &[(usize, usize)]) -> f64 {
        let states = self.chain.states();
        let (mut t, mut total, mut before) = (0, 0.0, None);
        for &(state, length) in segments {
            total += match before {
                None => self.chain.start()[state].to_f64(),
                Some(from) => self.chain.transitions().score(states, t - 1, from, state),
            };
            total += self.segment(b, t, length)[state].to_f64();
            total += (t..t + length).map(|t| self.chain.emission(b, t)[state].to_f64()).sum::<f64>();
            (t, before) = (t + length, Some(state));
        }
        total += before.zip(self.chain.end()).map_or(0.0, |(state, end)| end[state].to_f64());
        total
    }

    /// The transition scores.
    pub fn transitions(&self) -> &Transitions<F> {
        self.chain.transitions()
    }
}
