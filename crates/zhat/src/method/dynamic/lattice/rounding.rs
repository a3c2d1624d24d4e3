//! How far rounding may move the log Z of a lattice.

use crate::model::Transitions;
use crate::numeric::Real;

/// What the bound depends on.
pub(crate) struct Sizes {
    /// N of the model.
    pub states: usize,
    /// Positions of the longest sequence.
    pub steps: f64,
    /// Terms of a sum.
    pub terms: f64,
    /// Positions that a state may last for.
    pub longest: f64,
    /// A bound on |score| of a whole sequence.
    pub magnitude: f64,
}

/// A bound in nats.
///
/// With u half of EPSILON, a position adds: u·terms for the sums, whose terms are positive; a few u for `exp`
/// and `ln`; u times the size of the messages that are kept, relative to the largest; and u times the scores
/// that are added, or D + 1 times where a transition is a product of D numbers. Scales are kept in double
/// precision.
///
/// Messages that count are at most as far below the largest as what comes after can make up for. That is the
/// range of one transition, and of the emissions of a segment, where every transition is possible, as it is
/// for embeddings; else the whole magnitude.
pub(crate) fn rounding<F: Real>(transitions: &Transitions<F>, sizes: &Sizes) -> f64 {
    let Sizes { states, steps, terms, longest, magnitude } = *sizes;
    let (positions, rank) = match transitions {
        Transitions::Factored { left, .. } => (longest.min(steps), left.len() as f64 / states as f64),
        _ => (steps, 0.0),
    };
    let range = 2.0 * magnitude * positions / steps.max(1.0);
    F::EPSILON.to_f64() * (steps * (terms + range + 32.0) + (rank + 8.0) * magnitude)
}
