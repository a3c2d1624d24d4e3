//! The distribution of a word given the words around it, with fixed separators. It gives the
//! pseudo-likelihood of a text, which is computed exactly but is not a likelihood, and Gibbs sampling, which
//! is exact only in the limit of many sweeps.

use crate::numeric::parallel::prelude::*;

use super::LanguageModel;
use crate::error::Result;
use crate::method::cycle::{BATCH, Conditional};
use crate::numeric::{Elementwise, log_sum_exp};
use crate::random::{Stream, Streams};
use crate::run::Run;

/// Draws the word at a position of the sentence.
fn draw(
    conditional: &Conditional<'_>,
    sentence: &mut [u32],
    place: usize,
    ahead: bool,
    scores: &mut [f64],
    random: &mut Stream,
) {
    conditional.scores(&[(sentence, place)], ahead, scores);
    let words = &mut scores[1..];
    let top = crate::numeric::max(words);
    if top > f64::NEG_INFINITY {
        f64::lower(words, top);
        crate::numeric::exp_in_place(words);
        sentence[place] = 1 + random.categorical(words) as u32;
    }
}
impl LanguageModel {
    /// Σ log p(word | the words around it) over all words of the sentences, by a sum over the vocabulary at
    /// each word. Cost: C·D·(K+1) operations per word.
    ///
    /// # Errors
    /// If the run is cancelled or over its memory or time budget.
    ///
    /// # Panics
    /// If a state is not in the vocabulary.
    pub fn pseudo_log_likelihood(&self, sentences: &[Vec<u32>], run: &Run) -> Result<f64> {
        let clock = run.start("pseudo-likelihood");
        run.require_memory("pseudo-likelihood", Conditional::bytes(self.mrf(), run))?;
        let states = self.mrf().states();
        let places: Vec<(&[u32], usize)> = sentences
            .iter()
            .flat_map(|sentence| (0..sentence.len()).map(move |place| (sentence.as_slice(), place)))
            .collect();
        let sums: Vec<f64> = run.install(|| {
            let conditional = Conditional::new(self.mrf());
            let batches = places.par_chunks(BATCH).map_init(
                || vec![0.0; BATCH * states],
                |scores, places| {
                    clock.check()?;
                    let scores = &mut scores[..places.len() * states];
                    conditional.scores(places, true, scores);
                    let rows = places.iter().zip(scores.chunks_exact(states));
                    Ok(rows
                        .map(|(&(sentence, place), row)| {
                            row[sentence[place] as usize] - log_sum_exp(&row[1..])
                        })
                        .sum())
                },
            );
            batches.collect::<Result<_>>()
        })?;
        Ok(sums.iter().sum())
    }

    /// Samples sentences: draws a length from τ, then runs this many left-to-right Gibbs sweeps with the
    /// separators fixed. The distribution is that of the model in the limit of many sweeps.
    ///
    /// # Errors
    /// If the run is cancelled or over its memory or time budget.
    pub fn sample(&self, count: usize, sweeps: usize, run: &Run) -> Result<Vec<Vec<u32>>> {
        let clock = run.start("sampling");
        run.require_memory("sampling", Conditional::bytes(self.mrf(), run))?;
        let streams = Streams::new(run.seed(), "sentences");
        run.install(|| {
            let conditional = Conditional::new(self.mrf());
            let sentence = |i: usize| {
                let mut random = streams.block(i as u64);
                let mut scores = vec![0.0; self.mrf().states()];
                let length = self.lengths().quantile(random.uniform());
                let mut sentence = vec![1; length];
                for sweep in 0..=sweeps {
                    clock.check()?;
                    // In the first sweep there are no words to the right yet.
                    for place in 0..length {
                        draw(&conditional, &mut sentence, place, sweep > 0, &mut scores, &mut random);
                    }
                }
                Ok(sentence)
            };
            (0..count).into_par_iter().map(sentence).collect()
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::learn::language::{Certificate, Lengths, Vocabulary};
    use crate::model::{Interactions, SequenceMrf};

    pub fn models() -> Vec<LanguageModel> {
        let vocabulary = Vocabulary::new(vec!["a".into(), "b".into()]).unwrap();
        let zeros = vec![vec![0.0; 3]; 2];
        let certificate = Certificate::Star { delta: zeros };
        let unary = vec![0.1, -0.4, 0.7];
        let left = vec![0.5, -0.2, 0.9, 0.3, -1.0, 0.8];
        let right = vec![vec![0.4, 1.0, -0.6, 0.2, 0.3, -0.9], vec![1.1, 0.1, -0.3, 0.7, 0.2, 0.5]];
        let low = Interactions::LowRank { rank: 2, left, right };
        let low = SequenceMrf::new(9, unary.clone(), low).unwrap();
        let matrices = (1..=2).map(|l| (0..9).map(|i| low.interaction(l, i / 3, i % 3) as f32).collect());
        let full = SequenceMrf::new(9, unary, Interactions::Full(matrices.collect())).unwrap();
        let lengths = Lengths::new(vec![0, 0, 0, 1]);
        [low, full]
            .map(|mrf| {
                LanguageModel::new(vocabulary.clone(), lengths.clone(), mrf, certificate.clone()).unwrap()
            })
            .into()
    }

    /// The distribution of sentences of three words, by enumeration.
    fn law(model: &LanguageModel) -> Vec<f64> {
        let mrf = model.mrf();
        let score = |code: usize| {
            let words = [1 + code % 2, 1 + code / 2 % 2, 1 + code / 4];
            let padded = [0, 0, words[0], words[1], words[2], 0, 0];
            let pairs = (0..5).flat_map(|i| (1..=2).map(move |l| (i, l)));
            let pairs: f64 = pairs.map(|(i, l)| mrf.interaction(l, padded[i], padded[i + l])).sum();
            words.iter().map(|&word| mrf.unary()[word]).sum::<f64>() + pairs
        };
        let scores: Vec<f64> = (0..8).map(score).collect();
        let total = log_sum_exp(&scores);
        scores.iter().map(|score| (score - total).exp()).collect()
    }

    #[test]
    fn the_pseudo_likelihood_is_that_of_the_law() {
        for model in models() {
            let law = law(&model);
            for code in 0..8usize {
                let words = vec![1 + code as u32 % 2, 1 + code as u32 / 2 % 2, 1 + code as u32 / 4];
                let want: f64 = (0..3).map(|i| (law[code] / (law[code] + law[code ^ 1 << i])).ln()).sum();
                let found = model.pseudo_log_likelihood(&[words], &Run::default()).unwrap();
                assert!((found - want).abs() < 1e-6, "{found} {want}");
            }
        }
    }

    #[test]
    fn samples_have_the_law_and_do_not_depend_on_threads() {
        for model in models() {
            let law = law(&model);
            let count = 4000;
            let draws = model.sample(count, 30, &Run::default().with_seed(4)).unwrap();
            assert_eq!(draws, model.sample(count, 30, &Run::default().with_seed(4).with_threads(1)).unwrap());
            let mut counts = [0.0; 8];
            draws.iter().for_each(|d| counts[(d[0] - 1 + 2 * (d[1] - 1) + 4 * (d[2] - 1)) as usize] += 1.0);
            let chi: f64 = counts
                .iter()
                .zip(&law)
                .map(|(c, p)| (c - count as f64 * p).powi(2) / (count as f64 * p))
                .sum();
            // The 10⁻⁶ point for 7 degrees of freedom is 40.5.
            assert!(chi < 40.5, "{chi}");
        }
    }
}
