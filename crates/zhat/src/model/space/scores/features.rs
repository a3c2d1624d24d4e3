//! φ(y): the number of features, and weighted sums of features.

use super::Scores;
use super::value::value;
use crate::error::Result;
use crate::model::space::Structures;

impl Scores {
    /// The number of features.
    pub(crate) fn dimension(&self) -> usize {
        match self {
            Scores::Unary(numbers) | Scores::Position(numbers) | Scores::Precedence(numbers) => numbers.len(),
            Scores::Products { weights, .. } => weights.len(),
            Scores::Pairwise(pairs) => pairs.unary.len() + pairs.weights.len(),
            Scores::Distance { .. } => 1,
            Scores::Links(matrix) => {
                let n = matrix.len().isqrt();
                n * n.saturating_sub(1) / 2
            }
            Scores::Custom(features) => features.dimension(),
        }
    }

    /// Adds `weight`·φ(y) to `sums`.
    pub(crate) fn add(&self, space: &Structures, y: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        match self {
            Scores::Unary(_) => sums.iter_mut().zip(y).for_each(|(sum, bit)| *sum += weight * value(*bit)),
            Scores::Products { inputs, .. } => {
                for (row, &bit) in sums.chunks_mut(inputs.len()).zip(y) {
                    let scaled = weight * value(bit);
                    row.iter_mut().zip(inputs).for_each(|(sum, x)| *sum += scaled * x);
                }
            }
            Scores::Pairwise(pairs) => {
                let (single, double) = sums.split_at_mut(n);
                single.iter_mut().zip(y).for_each(|(sum, bit)| *sum += weight * value(*bit));
                for (sum, (i, j, _)) in double.iter_mut().zip(pairs.edges()) {
                    *sum += weight * value(y[i]) * value(y[j]);
                }
            }
            Scores::Position(_) => {
                y.iter().enumerate().for_each(|(p, item)| sums[*item as usize * n + p] += weight);
            }
            Scores::Precedence(_) => {
                for (p, &i) in y.iter().enumerate() {
                    y[p + 1..].iter().for_each(|j| sums[i as usize * n + *j as usize] += weight);
                }
            }
            Scores::Distance { distance, places, .. } => sums[0] -= weight * distance.to(y, places),
            Scores::Links(_) => match space {
                Structures::Cycles(_) => {
                    for (v, &next) in y.iter().enumerate().filter(|(v, next)| *v != **next as usize) {
                        sums[pair_index(n, v, next as usize)] += weight;
                    }
                }
                _ => {
                    for i in 0..n {
                        for j in (i + 1..n).filter(|j| y[*j] == y[i]) {
                            sums[pair_index(n, i, j)] += weight;
                        }
                    }
                }
            },
            Scores::Custom(features) => features.add(y, weight, sums)?,
        }
        Ok(())
    }
}

/// The index of the pair {i, j} of n elements in the order (0, 1), (0, 2), …, (1, 2), ….
pub(crate) fn pair_index(n: usize, i: usize, j: usize) -> usize {
    let (i, j) = (i.min(j), i.max(j));
    i * (2 * n - i - 1) / 2 + j - i - 1
}
