//! From trained parameters to a model with its certificate: both in closed form, see the module `chains`.

use super::chains::{InteractionForm, Parameters, Shape};
use super::{Certificate, LanguageModel, Moments, Objective, Training, Vocabulary};
use crate::error::Result;
use crate::method::cycle::Passes;
use crate::model::{Interactions, SequenceMrf};

/// The model at a point, in its own precision, and its certificate.
pub(super) fn finished(
    moments: &Moments,
    vocabulary: &Vocabulary,
    how: &Training,
    shape: Shape,
    weights: &[f64],
    point: &Parameters,
) -> Result<LanguageModel> {
    let Shape { states, context, form } = shape;
    let columns: Vec<Vec<f64>> = point.columns.chunks_exact(states).map(<[f64]>::to_vec).collect();
    let products = point.products(shape);
    // θˡ = w_l·φˡ; with embeddings, the right ones are scaled.
    let weighted = |values: &[f32], weight: f64| {
        values.iter().map(|&x| (weight * f64::from(x)) as f32).collect::<Vec<f32>>()
    };
    let interactions = match form {
        InteractionForm::Full => {
            let matrices = products.chunks_exact(states * states).zip(weights);
            Interactions::Full(matrices.map(|(matrix, &weight)| weighted(matrix, weight)).collect())
        }
        InteractionForm::Products(rank) | InteractionForm::Rotated(rank) => {
            let (left, right) = products.split_at(states * rank);
            let right = right.chunks_exact(states * rank).zip(weights);
            Interactions::LowRank {
                rank,
                left: left.to_vec(),
                right: right.map(|(matrix, &weight)| weighted(matrix, weight)).collect(),
            }
        }
    };
    let length = moments.positions() as usize;
    let bare = SequenceMrf::new(length, vec![0.0; states], interactions)?;
    let passes = Passes::new(&bare);
    let normalizer = |l: usize| Ok(passes.pass(l + 1, weights[l].recip(), &columns[l], None, false)?.up);
    let normalizers: Vec<Vec<f64>> = (0..context).map(normalizer).collect::<Result<_>>()?;
    drop(passes);
    let n = moments.positions() as f64;
    let (unary, certificate) = match how.objective {
        Objective::Spectral(_) => {
            // u_l = b_l − log Z_l, for which Z_l is an eigenvector.
            let own: Vec<Vec<f64>> =
                columns.iter().zip(&normalizers).map(|(b, z)| difference(b, z)).collect();
            let mut unary = vec![0.0; states];
            for (own, weight) in own.iter().zip(weights) {
                unary.iter_mut().zip(own).for_each(|(t, u)| *t += weight * u);
            }
            (unary, Certificate::Spectral { shares: weights.to_vec(), columns: own, right: normalizers })
        }
        Objective::Star => {
            // The root has the optimal score log p̂ − Σ log Z_l, a leaf has b_l; θ⁰ is their mean.
            let mut unary: Vec<f64> =
                moments.unary().iter().map(|&count| (count.max(1) as f64 / n).ln()).collect();
            for (b, z) in columns.iter().zip(&normalizers) {
                unary.iter_mut().zip(difference(b, z)).for_each(|(t, d)| *t += d);
            }
            unary.iter_mut().for_each(|t| *t /= (context + 1) as f64);
            let delta = columns.iter().map(|b| difference(b, &unary)).collect();
            (unary, Certificate::Star { delta })
        }
    };
    let mrf = bare.with_unary(unary)?;
    LanguageModel::new(vocabulary.clone(), moments.lengths(), mrf, certificate)
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}
