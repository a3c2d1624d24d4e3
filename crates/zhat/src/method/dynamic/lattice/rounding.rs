//! Bounds on the rounding error of the log Z of a lattice.

use super::steps::scratch::{BLOCK, PANELS, ROWS, tile_columns};
use crate::model::Transitions;
use crate::numeric::Real;

/// The quantities that determine the bound.
pub(crate) struct Sizes {
    /// N of the model.
    pub states: usize,
    /// Length of the longest sequence.
    pub steps: f64,
    /// Terms of the products with a matrix.
    pub terms: f64,
    /// Terms of further sums at each position.
    pub others: f64,
    /// Whether products with the transposed matrix contribute, as they do to all results but log Z.
    pub backward: bool,
    /// Maximum number of positions of a segment.
    pub longest: f64,
    /// A bound on |score| of a whole sequence.
    pub magnitude: f64,
}

/// The number of roundings that one entry of a product of `terms` positive terms goes through.
///
/// A product adds up one tile in registers, and then the tiles. Every term goes through at most one rounding
/// per number in a tile and one per tile: [`ROWS`] and N / `ROWS` forward, and the columns of a tile and the
/// number of tiles and panels backward. The relative error of a sum of positive terms is at most u times
/// this number to first order, and it is never more than the number of terms.
fn roundings<F>(terms: f64, backward: bool) -> f64 {
    let down = ROWS as f64 + (terms / ROWS as f64).ceil();
    let columns = tile_columns::<F>() as f64;
    let across = columns + (terms / columns).ceil() + PANELS as f64;
    terms.min(if backward { down.max(across) } else { down })
}

/// The same for a product through factors of rank R: a tile, the tiles of a block and the blocks, and then R
/// terms.
fn roundings_through_factors(terms: f64, rank: f64) -> f64 {
    let sums = ROWS as f64 + (BLOCK as f64 / ROWS as f64).ceil() + (terms / BLOCK as f64).ceil();
    terms.min(sums) + rank + 8.0
}

/// True if every transition has positive weight.
fn all_possible<F: Real>(transitions: &Transitions<F>) -> bool {
    match transitions {
        Transitions::Factored { .. } => true,
        Transitions::Shared(values) | Transitions::PerStep(values) | Transitions::PerSequence(values) => {
            F::least(values) > F::NEG_INFINITY
        }
        Transitions::Sparse { .. } => false,
        Transitions::LowRank { left, right } => {
            F::least(left) > F::NEG_INFINITY && F::least(right) > F::NEG_INFINITY
        }
    }
}

/// A bound in nats.
///
/// Let u be half of EPSILON. Each position adds: u per rounding of a sum, whose terms are positive; a few u
/// for `exp` and `ln`; u times the magnitude of the stored messages relative to the largest; and u times the
/// scores that are added, or D + 1 times that if a transition is a product of D numbers. Scales and sums of
/// whole rows are computed in double precision.
///
/// An entry of a message that is d below the largest has the error u·d, and state i contributes it in
/// proportion to its posterior probability p(i). If every transition is possible, the backward messages of
/// two states differ by at most r = 2·max |transition|, so p(i) ≤ exp(r − d(i)), and Σ p(i)·d(i) ≤ r + Σ p(i)
/// ln 1/p(i) ≤ r + ln N. For segments, r includes the emissions of one segment. If some transitions are
/// impossible, later scores may compensate for any difference up to the whole magnitude.
pub(crate) fn rounding<F: Real>(transitions: &Transitions<F>, sizes: &Sizes) -> f64 {
    let Sizes { states, steps, terms, others, backward, longest, magnitude } = *sizes;
    let positions = if all_possible(transitions) { longest.min(steps) } else { steps };
    let (rank, mirrored) = match transitions {
        // Tied embeddings use a tile for its mirror image too, which sums over columns.
        Transitions::Factored { left, .. } => (left.len() as f64 / states as f64, true),
        // Shifts of both factors, each as large as the scores.
        Transitions::LowRank { .. } => (8.0, false),
        _ => (0.0, false),
    };
    let range = 2.0 * magnitude * positions / steps.max(1.0) + (states as f64).ln();
    let sums = match transitions {
        Transitions::LowRank { left, .. } => {
            roundings_through_factors(terms, left.len() as f64 / states as f64)
        }
        // Entries of a row or column are added one after the other.
        Transitions::Sparse { pattern, .. } => terms.min(pattern.largest() as f64),
        _ => roundings::<F>(terms, backward || mirrored),
    };
    let sums = sums + others;
    F::EPSILON.to_f64() * (steps * (sums + range + 32.0) + (rank + 8.0) * magnitude)
}

#[cfg(test)]
mod tests {
    use crate::model::generate::{self, ChainShape, TransitionForm};
    use crate::model::{Chain, Transitions};
    use crate::query::LogPartition;
    use crate::run::Run;
    use crate::values::Values;

    fn widened(chain: &Chain<f32>) -> Chain<f64> {
        let wide = |values: &[f32]| -> Values<f64> {
            values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>().into()
        };
        let transitions = match chain.transitions() {
            Transitions::Shared(values) => Transitions::Shared(wide(values)),
            Transitions::PerStep(values) => Transitions::PerStep(wide(values)),
            Transitions::PerSequence(values) => Transitions::PerSequence(wide(values)),
            Transitions::Sparse { pattern, values, per_step } => {
                Transitions::Sparse { pattern: pattern.clone(), values: wide(values), per_step: *per_step }
            }
            Transitions::Factored { left, right } => {
                Transitions::Factored { left: wide(left), right: right.as_ref().map(|right| wide(right)) }
            }
            Transitions::LowRank { left, right } => {
                Transitions::LowRank { left: wide(left), right: wide(right) }
            }
        };
        Chain::new(wide(chain.start()), wide(chain.emissions()), chain.lengths().to_vec(), transitions)
            .unwrap()
    }

    /// log Z in single precision, its bound, and its distance from log Z in double precision.
    fn compared(shape: &ChainShape, seed: u64) -> Option<(f64, f64)> {
        let run = Run::default();
        let method = crate::dynamic::ForwardBackward::default();
        let single = generate::chain::<f32>(shape, seed).unwrap();
        let Ok(narrow) = method.log_partition(&single, &run) else { return None };
        let wide = method.log_partition(&widened(&single), &run).unwrap();
        let distances = narrow.value.iter().zip(&wide.value).filter(|(_, wide)| wide.is_finite());
        let distance = distances.map(|(narrow, wide)| (narrow - wide).abs()).fold(0.0, f64::max);
        Some((distance, narrow.diagnostics.rounding + wide.diagnostics.rounding))
    }

    #[test]
    fn single_precision_stays_within_its_bound() {
        let forms = [
            TransitionForm::Shared,
            TransitionForm::PerStep,
            TransitionForm::Factored { rank: 5, tied: false },
            TransitionForm::Factored { rank: 5, tied: true },
            TransitionForm::LowRank { rank: 5 },
            TransitionForm::Sparse { entries: 4, per_step: false },
            TransitionForm::Sparse { entries: 9, per_step: true },
            TransitionForm::PerSequence,
        ];
        let mut seed = 0;
        for transitions in forms {
            for states in [1, 2, 17, 100, 700] {
                for (steps, strength, zeros) in
                    [(1, 1.0, 0.0), (30, 0.1, 0.0), (7, 30.0, 0.0), (20, 2.0, 0.3)]
                {
                    seed += 1;
                    let factored = matches!(transitions, TransitionForm::Factored { .. });
                    let zeros = if factored { 0.0 } else { zeros };
                    let shape =
                        ChainShape { states, steps, batch: 3, ragged: true, transitions, strength, zeros };
                    let Some((distance, bound)) = compared(&shape, seed) else { continue };
                    assert!(distance <= bound, "{shape:?}: {distance} > {bound}");
                }
            }
        }
    }

    #[test]
    fn the_bound_of_a_thousand_states_has_three_decimals() {
        let shape = ChainShape {
            states: 1000,
            steps: 50,
            batch: 1,
            ragged: false,
            transitions: TransitionForm::Shared,
            strength: 1.0,
            zeros: 0.0,
        };
        let (distance, bound) = compared(&shape, 0).unwrap();
        assert!(distance <= bound && bound < 2e-3, "{distance}, {bound}");
    }
}
