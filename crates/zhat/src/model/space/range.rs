//! Numbers below and above every score of a model, as tight as they come cheaply.
//!
//! Exact for single scores (hypercube: the sum of the larger ends; subtrees: one pass from the leaves), for
//! position scores (the best assignment) and for distances. Otherwise a sum of the parts' own ends: pairs on
//! their own, precedences pair by pair, and for cycles half the two largest links of every vertex, because
//! each edge has two ends.

use super::{Scores, Structures, best_assignment};

/// Above this the best assignment is not worth its n³; rows on their own will do.
const LARGEST_ASSIGNMENT: usize = 600;

/// [s_min, s_max], without rounding.
pub(crate) fn range(space: &Structures, scores: &Scores) -> (f64, f64) {
    if let Scores::Custom(features) = scores {
        return features.range();
    }
    (-highest(space, scores, -1.0), highest(space, scores, 1.0))
}

/// At least `sign`·s(y) for every y.
fn highest(space: &Structures, scores: &Scores, sign: f64) -> f64 {
    let n = space.as_space().width();
    match (space, scores) {
        (Structures::Hypercube(cube), _) => {
            let low = cube.value(0);
            let single = |w: &f64| (sign * w).max(sign * w * low);
            // Both products of equal signs are 1; with zeros the least is 0.
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
                // The digits of the scores themselves, not of the potentials.
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
            // At least three vertices are on the cycle, whatever their links.
            halves.sort_unstable_by(|a, b| b.total_cmp(a));
            halves[..3].iter().sum::<f64>() + halves[3..].iter().map(|x| x.max(0.0)).sum::<f64>()
        }
        (_, Scores::Links(matrix)) => {
            (0..n).map(|i| (0..i).map(|j| (sign * matrix[i * n + j]).max(0.0)).sum::<f64>()).sum()
        }
        _ => f64::INFINITY,
    }
}
