//! Bounds on the rounding error of the log Z of a lattice.

use crate::model::Transitions;
use crate::numeric::Real;

/// The quantities that determine the bound.
pub(crate) struct Sizes {
    /// N of the model.
    pub states: usize,
    /// Length of the longest sequence.
    pub steps: f64,
    /// Terms per sum.
    pub terms: f64,
    /// Maximum number of positions of a segment.
    pub longest: f64,
    /// A bound on |score| of a whole sequence.
    pub magnitude: f64,
}

/// A bound in nats.
///
/// Let u be half of EPSILON. Each position adds: u·terms for the sums, whose terms are positive; a few u for
/// `exp` and `ln`; u times the magnitude of the stored messages relative to the largest; and u times the
/// scores that are added, or D + 1 times that if a transition is a product of D numbers. Scales are stored in
/// double precision.
///
/// A message that matters is below the largest by at most the amount that later scores can compensate. If
/// every transition is possible, as with embeddings, this is the range of one transition and of the emissions
/// of one segment. Otherwise it is the whole magnitude.
pub(crate) fn rounding<F: Real>(transitions: &Transitions<F>, sizes: &Sizes) -> f64 {
    let Sizes { states, steps, terms, longest, magnitude } = *sizes;
    let (positions, rank) = match transitions {
        Transitions::Factored { left, .. } => (longest.min(steps), left.len() as f64 / states as f64),
        _ => (steps, 0.0),
    };
    let range = 2.0 * magnitude * positions / steps.max(1.0);
    F::EPSILON.to_f64() * (steps * (terms + range + 32.0) + (rank + 8.0) * magnitude)
}
