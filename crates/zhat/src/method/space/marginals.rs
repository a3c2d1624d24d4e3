//! Marginals of a model on a space: the probabilities of elementary events of its structures.
//!
//! | space | table | entry |
//! |---|---|---|
//! | hypercube | \[n\] | P(label i is chosen) |
//! | subtrees | \[n\] | P(node v is in the subtree) |
//! | permutations | \[n, n\] | P(item i is at position p) |
//! | cycles | \[n, n\] | P(u and v are neighbours on the cycle); on the diagonal P(v is on it) |
//! | partitions | \[n, n\] | P(i and j are in one block); ones on the diagonal |

use super::{SpaceMarginals, SpaceModel, Structures};
use crate::error::{Error, Result};
use crate::run::Run;

/// Whether the table has one row and one column per element.
fn is_square(model: &SpaceModel) -> bool {
    !matches!(model.structures().base(), Structures::Hypercube(_) | Structures::Subtrees(_))
}

/// The number of probabilities.
pub(super) fn entries(model: &SpaceModel) -> f64 {
    let n = model.width() as f64;
    if is_square(model) { n * n } else { n }
}

/// A table of zeros, if there is enough memory for `copies` of it.
pub(super) fn table(model: &SpaceModel, method: &str, copies: usize, run: &Run) -> Result<SpaceMarginals> {
    if let Structures::Custom(_) = model.structures().base() {
        return Err(Error::NoAnswer(
            "a user-defined space has no table of marginals; query the expectations of its features (factor_marginals) or samples instead".into(),
        ));
    }
    run.require_memory(method, 8.0 * copies as f64 * entries(model))?;
    let n = model.width();
    let shape = if is_square(model) { vec![n, n] } else { vec![n] };
    Ok(SpaceMarginals { values: vec![0.0; shape.iter().product()], shape, radius: 0.0 })
}

/// Adds `weight` to each event that holds for the structure.
pub(super) fn add(model: &SpaceModel, y: &[u32], weight: f64, sums: &mut [f64]) {
    let n = y.len();
    match model.structures().base() {
        Structures::Hypercube(_) | Structures::Subtrees(_) => {
            sums.iter_mut().zip(y).filter(|(_, bit)| **bit == 1).for_each(|(sum, _)| *sum += weight);
        }
        Structures::Permutations(_) => {
            y.iter().enumerate().for_each(|(p, item)| sums[*item as usize * n + p] += weight);
        }
        Structures::Cycles(_) => {
            for (v, &next) in y.iter().enumerate().filter(|(v, next)| *v != **next as usize) {
                let u = next as usize;
                sums[v * n + v] += weight;
                sums[v * n + u] += weight;
                sums[u * n + v] += weight;
            }
        }
        _ => {
            for (row, block) in sums.chunks_mut(n).zip(y) {
                row.iter_mut().zip(y).filter(|(_, b)| *b == block).for_each(|(sum, _)| *sum += weight);
            }
        }
    }
}

/// The table of cycles or partitions from the probabilities of pairs, in the order (0, 1), (0, 2), …, (1, 2),
/// ….
pub(super) fn of_pairs(model: &SpaceModel, pairs: &[f64], values: &mut [f64]) {
    let n = model.width();
    let cycles = matches!(model.structures().base(), Structures::Cycles(_));
    let mut next = pairs.iter();
    for i in 0..n {
        for j in i + 1..n {
            let p = next.next().copied().unwrap_or(0.0).min(1.0);
            values[i * n + j] = p;
            values[j * n + i] = p;
        }
    }
    for (v, row) in values.chunks_mut(n).enumerate() {
        // A vertex on the cycle has two neighbours there.
        row[v] = if cycles { (0.5 * row.iter().sum::<f64>()).min(1.0) } else { 1.0 };
    }
}
