//! Cheap lower and upper bounds on the scores of a model.
//!
//! Exact for unary scores (hypercube: the sum of the larger value of each label; subtrees: one pass from the
//! leaves), for position scores (the best assignment) and for distances. Otherwise the sum of separate bounds
//! on the parts: for each pair, for each precedence, and for cycles half of the two largest links of every
//! vertex, because each edge has two ends.

use super::assignment::best_assignment;
use super::{Scores, Structures};

/// Maximum n for the best assignment, which takes O(n³); above it, rows and columns are bounded separately.
const LARGEST_ASSIGNMENT: usize = 600;

/// [s_min, s_max], without rounding.
pub(crate) fn range(space: &Structures, scores: &Scores) -> (f64, f64) {
    if let Scores::Custom(features) = scores {
        return features.range();
    }
    (-highest(space, scores, -1.0), highest(space, scores, 1.0))
}

/// An upper bound on `sign`·s(y) over all y.
fn highest(space: &Structures, scores: &Scores, sign: f64) -> f64 {
    let n = space.as_space().width();
    match (space, scores) {
        (Structures::Hypercube(cube), _) => {
            let low = cube.value(0);
            let single = |w: &f64| (sign * w).max(sign * w * low);
            // A product of two signs is −1 or 1, a product of zeros and ones is 0 or 1.
            let double = |w: &f64| (sign * w).max(sign * w * low.min(0.0));
            match scores {
                Scores::Pairwise(pairs) => {
                    pairs.unary.iter().map(single).sum::<f64>()
                        + pairs.weights.iter().map(double).sum::<f64>()
                }
                _ => scores.unary().unwrap_or(&[]).iter().map(single).sum(),
            }
        }
        (Structures::Subtrees(tree), _) => {
            let (unary, pairs) = match scores {
                Scores::Pairwise(pairs) => (&*pairs.unary, &*pairs.weights),
                _ => (scores.unary().unwrap_or(&[]), &[][..]),
            };
            let inner = tree.upward(|v, inner| (sign * unary[v] + inner).max(0.0));
            let whole = sign * unary[tree.root()] + inner[tree.root()];
            let best = if tree.has_empty() { whole.max(0.0) } else { whole };
            best + pairs.iter().map(|w| (sign * w).max(0.0)).sum::<f64>()
        }
        (_, Scores::Position(matrix)) => {
            let signed: Vec<f64> = matrix.iter().map(|x| sign * x).collect();
            if n <= LARGEST_ASSIGNMENT {
                let columns = best_assignment(&signed, n);
                // Sum the scores themselves, because the potentials have rounding errors.
                return columns.iter().enumerate().map(|(i, j)| signed[i * n + j]).sum();
            }
            let rows: f64 = signed.chunks(n).map(crate::numeric::max).sum();
            let column =
                |j: usize| signed.iter().skip(j).step_by(n).copied().fold(f64::NEG_INFINITY, f64::max);
            rows.min((0..n).map(column).sum())
        }
        (_, Scores::Precedence(matrix)) => {
            let pair = |i: usize, j: usize| (sign * matrix[i * n + j]).max(sign * matrix[j * n + i]);
            (0..n).map(|i| (0..i).map(|j| pair(i, j)).sum::<f64>()).sum()
        }
        (_, Scores::Distance { distance, spread, .. }) => (-sign * spread * distance.largest(n)).max(0.0),
        (Structures::Cycles(_), Scores::Links(matrix)) => {
            let two = |v: usize| {
                let (mut first, mut second) = (f64::NEG_INFINITY, f64::NEG_INFINITY);
                for u in (0..n).filter(|u| *u != v) {
                    let w = sign * matrix[v * n + u];
                    if w > first {
                        (first, second) = (w, first);
                    } else {
                        second = second.max(w);
                    }
                }
                first + second
            };
            let mut halves: Vec<f64> = (0..n).map(|v| 0.5 * two(v)).collect();
            // At least three vertices are on the cycle, even if their links are negative.
            halves.sort_unstable_by(|a, b| b.total_cmp(a));
            halves[..3].iter().sum::<f64>() + halves[3..].iter().map(|x| x.max(0.0)).sum::<f64>()
        }
        (_, Scores::Links(matrix)) => {
            (0..n).map(|i| (0..i).map(|j| (sign * matrix[i * n + j]).max(0.0)).sum::<f64>()).sum()
        }
        _ => f64::INFINITY,
    }
}
