//! Training of the Markov random field by its pseudo-likelihood: Σ log p(xᵢ | the K words on either side),
//! over words and the ends of sentences.
//!
//! The result is an ordinary language model. Its certificate is the spectral bound with shares proportional
//! to the root mean square of the interactions at each distance, θ⁰ for every distance, and eigenvectors by
//! power iteration: the bound is valid, but training has not made it tight.

use super::learning::{Epoch, Stochastic, learn};
use crate::error::Result;
use crate::learn::language::{Certificate, LanguageModel, Lengths, Vocabulary};
use crate::method::cycle::{Passes, Point, Spectral, Vectors, checked_shares, evaluate};
use crate::model::{Interactions, SequenceMrf};
use crate::run::Run;

/// Maximum number of power iterations.
const PASSES: usize = 30;
/// Minimum share of a distance.
const LEAST: f64 = 0.02;

/// Trains by the pseudo-likelihood on sentences given as states of a vocabulary. `watch` is called after
/// every epoch and stops training by returning false.
///
/// # Errors
/// If an option is out of range, a text has no words or a state that is no word, the memory budget is too
/// small, training diverges, or `watch` fails.
pub fn train_pseudo(
    sentences: &[Vec<u32>],
    vocabulary: &Vocabulary,
    valid: Option<&[Vec<u32>]>,
    how: &Stochastic,
    run: &Run,
    watch: &mut (dyn FnMut(&Epoch) -> Result<bool> + Send),
) -> Result<LanguageModel> {
    let found = learn(sentences, vocabulary, valid, how, true, run, watch)?;
    let context = how.context;
    let unary: Vec<f64> = found.biases().collect();
    let interactions = Interactions::LowRank {
        rank: how.rank,
        left: found.embedding(0),
        right: (1..=context).map(|l| found.embedding(l)).collect(),
    };
    let mut counts = Vec::new();
    for sentence in sentences {
        counts.resize(counts.len().max(sentence.len() + 1), 0);
        counts[sentence.len()] += 1u64;
    }
    let length: usize = sentences.iter().map(|sentence| sentence.len() + context).sum();
    let mrf = SequenceMrf::new(length.max(context + 1), unary, interactions)?;
    let certificate = certified(&mrf, run)?;
    LanguageModel::new(vocabulary.clone(), Lengths::new(counts), mrf, certificate)
}

/// Computes the certificate.
fn certified(mrf: &SequenceMrf, run: &Run) -> Result<Certificate> {
    run.require_memory("certifying", Passes::bytes(mrf, run.threads()))?;
    let context = mrf.context();
    let spreads: Vec<f64> = match mrf.interactions() {
        Interactions::LowRank { right, .. } => right.iter().map(|right| spread(right)).collect(),
        Interactions::Full(matrices) => matrices.iter().map(|matrix| spread(matrix)).collect(),
    };
    let total: f64 = spreads.iter().sum();
    let room = 1.0 - LEAST * context as f64;
    let share = |spread: &f64| {
        if total > 0.0 && room > 0.0 { LEAST + room * spread / total } else { (context as f64).recip() }
    };
    let shares = checked_shares(&spreads.iter().map(share).collect::<Vec<_>>(), context)?;
    let mut vectors = Vectors::new(context, mrf.states());
    let duals = vec![0.0; (context - 1) * mrf.states()];
    let how = Spectral { passes: PASSES, tolerance: 1e-6, ..Spectral::default() };
    run.install(|| {
        let point = Point { shares: &shares, duals: &duals };
        evaluate(&Passes::new(mrf), mrf.length(), &point, &mut vectors, &how, &|| false);
    });
    let columns = vec![mrf.unary().to_vec(); context];
    Ok(Certificate::Spectral { shares, columns, right: vectors.right })
}

/// The root mean square.
fn spread(numbers: &[f32]) -> f64 {
    let squares: f64 = numbers.iter().map(|&x| f64::from(x) * f64::from(x)).sum();
    (squares / numbers.len().max(1) as f64).sqrt()
}
