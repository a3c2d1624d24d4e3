//! Single sequences of a batch, as chains of their own.
//!
//! If each sequence has its own transition tables, the sequences share only start and end scores, and every query
//! is answered sequence by sequence. The parts use the memory of the whole.

use super::{Chain, End, Transitions, check_scores};
use crate::error::Result;
use crate::numeric::Real;

impl<F: Real> Chain<F> {
    /// True if each sequence has its own tables.
    pub(crate) fn separate(&self) -> bool {
        matches!(self.transitions, Transitions::PerSequence(_))
    }

    /// Sequence b alone. Tables of its own become one table for each of its steps.
    pub(crate) fn part(&self, b: usize) -> Self {
        let (states, length) = (self.states(), self.lengths[b]);
        let nodes = self.steps * states;
        let transitions = match &self.transitions {
            Transitions::PerSequence(tables) => {
                let (first, table) = (b * (tables.len() / self.batch()), states * states);
                Transitions::PerStep(tables.part(first..first + (length - 1) * table))
            }
            shared => shared.clone(),
        };
        Chain {
            start: self.start.clone(),
            emissions: self.emissions.part(b * nodes..(b + 1) * nodes),
            lengths: vec![length],
            steps: self.steps,
            transitions,
            end: self.end.as_ref().map(|end| end.part(b, states)),
            magnitude: self.magnitude,
            local: self.local,
        }
    }
}

impl<F: Real> End<F> {
    /// The end scores of sequence b alone.
    fn part(&self, b: usize, states: usize) -> Self {
        End { scores: self.scores.clone(), sums: self.sums.part(b * states..(b + 1) * states) }
    }
}

/// Validates the tables between positions of their sequence, of `table` numbers each, and returns the largest
/// finite |value|.
pub(super) fn check<F: Real>(values: &[F], table: usize, lengths: &[usize]) -> Result<f64> {
    let size = values.len() / lengths.len().max(1);
    lengths.iter().enumerate().try_fold(0.0, |largest, (b, &length)| {
        let found = check_scores("transitions", values, b * size..b * size + (length - 1) * table)?;
        Ok(f64::max(largest, found))
    })
}
