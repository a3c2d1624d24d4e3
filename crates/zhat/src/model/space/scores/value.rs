//! s(y), and its change under a move.

use super::Scores;
use crate::error::{Error, Result};
use crate::model::space::{Distance, Step, Structures};

impl Scores {
    /// s(y) of a valid structure.
    pub(crate) fn score(&self, space: &Structures, y: &[u32]) -> Result<f64> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        Ok(match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => {
                unary.iter().zip(y).map(|(w, bit)| w * value(*bit)).sum()
            }
            Scores::Pairwise(pairs) => {
                let single: f64 = pairs.unary.iter().zip(y).map(|(w, bit)| w * value(*bit)).sum();
                single + pairs.edges().map(|(i, j, w)| w * value(y[i]) * value(y[j])).sum::<f64>()
            }
            Scores::Position(matrix) => {
                y.iter().enumerate().map(|(p, item)| matrix[*item as usize * n + p]).sum()
            }
            Scores::Precedence(matrix) => {
                let after = |(p, i): (usize, &u32)| -> f64 {
                    let row = &matrix[*i as usize * n..(*i as usize + 1) * n];
                    y[p + 1..].iter().map(|j| row[*j as usize]).sum()
                };
                y.iter().enumerate().map(after).sum()
            }
            Scores::Distance { distance, places, spread } => -spread * distance.to(y, places),
            Scores::Links(matrix) => match space {
                Structures::Cycles(_) => {
                    y.iter().enumerate().map(|(v, next)| matrix[v * n + *next as usize]).sum()
                }
                _ => {
                    let own = |i: usize| -> f64 {
                        (0..i).filter(|j| y[*j] == y[i]).map(|j| matrix[i * n + j]).sum()
                    };
                    (0..n).map(own).sum()
                }
            },
            Scores::Custom(features) => {
                let score = features.score(y)?;
                let (low, high) = features.range();
                if !(low..=high).contains(&score) {
                    let shown = space.as_space().show(y);
                    return Err(Error::argument(
                        "scores",
                        format!(
                            "the score of {shown} is {score}, outside the range [{low}, {high}] that was given"
                        ),
                    ));
                }
                score
            }
        })
    }

    /// The change of the score by a step, if that is cheaper than the whole score; y is the structure after
    /// the step.
    pub(crate) fn change(&self, space: &Structures, y: &[u32], step: &Step) -> Option<f64> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        let changes = step.changes.iter();
        match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => {
                Some(changes.map(|c| unary[c.index] * (value(c.new) - value(c.old))).sum())
            }
            Scores::Pairwise(pairs) => match step.changes.as_slice() {
                [] => Some(0.0),
                [c] => {
                    let field: f64 =
                        pairs.neighbours(c.index).iter().map(|(j, w)| w * value(y[*j as usize])).sum();
                    Some((pairs.unary[c.index] + field) * (value(c.new) - value(c.old)))
                }
                _ => None,
            },
            Scores::Position(matrix) => {
                let at = |item: u32, position: usize| matrix[item as usize * n + position];
                Some(changes.map(|c| at(c.new, c.index) - at(c.old, c.index)).sum())
            }
            Scores::Precedence(matrix) => swapped(y, step, |i, j| matrix[i as usize * n + j as usize]),
            Scores::Distance { distance: Distance::Kendall, places, spread } => {
                swapped(y, step, |i, j| if places[i as usize] > places[j as usize] { -spread } else { 0.0 })
            }
            Scores::Distance { distance, places, spread } => {
                let mut sum = 0.0;
                for c in changes {
                    let term = |item: u32| distance.term(c.index, places[item as usize]);
                    sum += term(c.new)? - term(c.old)?;
                }
                Some(-spread * sum)
            }
            Scores::Links(matrix) => match (space, step.changes.as_slice()) {
                (_, []) => Some(0.0),
                (Structures::Cycles(_), _) => {
                    let at = |v: usize, next: u32| matrix[v * n + next as usize];
                    Some(changes.map(|c| at(c.index, c.new) - at(c.index, c.old)).sum())
                }
                (_, [c]) => {
                    let row = &matrix[c.index * n..(c.index + 1) * n];
                    let block = |b: u32| -> f64 {
                        let own = y.iter().zip(row).enumerate();
                        own.filter(|(j, (block, _))| *j != c.index && **block == b).map(|(_, (_, w))| w).sum()
                    };
                    Some(block(c.new) - block(c.old))
                }
                _ => None,
            },
            Scores::Custom(_) => None,
        }
    }

    /// Multiplies θ by β; user-defined scores are unchanged.
    pub(crate) fn scale(&mut self, beta: f64) {
        let scale = |numbers: &mut [f64]| numbers.iter_mut().for_each(|x| *x *= beta);
        match self {
            Scores::Unary(numbers)
            | Scores::Position(numbers)
            | Scores::Precedence(numbers)
            | Scores::Links(numbers) => scale(numbers),
            Scores::Products { weights, unary, .. } => {
                scale(weights);
                scale(unary);
            }
            Scores::Pairwise(pairs) => pairs.scale(beta),
            Scores::Distance { spread, .. } => *spread *= beta,
            Scores::Custom(_) => {}
        }
    }
}

/// The value used in scores for a bit.
pub(crate) fn value(space: &Structures, bit: u32) -> f64 {
    match space {
        Structures::Hypercube(cube) => cube.value(bit),
        _ => f64::from(bit),
    }
}

/// The change of Σ B(i, j) over i before j by a swap of two items.
fn swapped(y: &[u32], step: &Step, b: impl Fn(u32, u32) -> f64) -> Option<f64> {
    let [first, second] = step.changes.as_slice() else {
        return step.changes.is_empty().then_some(0.0);
    };
    let (first, second) = if first.index < second.index { (first, second) } else { (second, first) };
    let (x, z) = (first.old, second.old);
    if first.new != z || second.new != x {
        return None;
    }
    let middle = &y[first.index + 1..second.index];
    let passed: f64 = middle.iter().map(|&m| (b(m, x) - b(x, m)) + (b(z, m) - b(m, z))).sum();
    Some(passed + b(z, x) - b(x, z))
}
