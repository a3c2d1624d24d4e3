//! Samples sentences of a log-bilinear model word by word: exact samples, up to single precision.

use crate::numeric::parallel::prelude::*;

use super::LogBilinear;
use crate::error::Result;
use crate::numeric::{Matrix, multiply_here};
use crate::random::{Stream, Streams};
use crate::run::Run;

/// Maximum length of a sentence; a longer one is truncated.
const LONGEST: usize = 1000;

impl LogBilinear {
    /// Draws sentences, one state per word. In a cyclic text a sentence depends on the end of the previous
    /// one, so one sentence is drawn first and discarded.
    ///
    /// # Errors
    /// If the run is cancelled or out of time.
    pub fn sample(&self, count: usize, run: &Run) -> Result<Vec<Vec<u32>>> {
        let clock = run.start("sampling");
        let streams = Streams::new(run.seed(), "sentences");
        run.install(|| {
            let sentence = |i: usize| {
                clock.check()?;
                let mut random = streams.block(i as u64);
                let mut text = vec![0; self.context()];
                if self.cyclic() {
                    self.draw_sentence(&mut text, &mut random);
                }
                let first = text.len();
                self.draw_sentence(&mut text, &mut random);
                Ok(text[first..text.len() - 1].to_vec())
            };
            (0..count).into_par_iter().map(sentence).collect()
        })
    }

    /// Appends a sentence and its separator.
    fn draw_sentence(&self, text: &mut Vec<u32>, random: &mut Stream) {
        let parameters = &self.parameters;
        let (rank, states) = (parameters.rank, self.vocabulary().states());
        let mut scores = vec![0.0f32; states];
        for length in 0.. {
            let mut around = Vec::with_capacity(parameters.context * rank + 1);
            for l in 1..=parameters.context {
                around.extend_from_slice(parameters.row(text[text.len() - l] as usize, 0));
            }
            around.push(1.0);
            let around = Matrix::row_major(&around, 1, around.len());
            multiply_here(around, parameters.columns().transposed(), &mut scores, false);
            let top = scores.iter().fold(f32::NEG_INFINITY, |top, score| top.max(*score));
            let weights: Vec<f64> = scores.iter().map(|score| f64::from(score - top).exp()).collect();
            let state = if length < LONGEST { random.categorical(&weights) as u32 } else { 0 };
            text.push(state);
            if state == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::language::Vocabulary;

    #[test]
    fn sentences_have_the_law_of_the_model_for_any_number_of_threads() {
        let mut random = Streams::new(5, "sampling tests").block(0);
        let vocabulary = Vocabulary::new(vec!["a".into(), "b".into()]).unwrap();
        let matrix: Vec<f32> = (0..3 * 7).map(|_| 0.7 * random.normal() as f32).collect();
        let model = LogBilinear::new(vocabulary, 2, 2, matrix, false).unwrap();
        let count = 20_000;
        let drawn = model.sample(count, &Run::default().with_seed(1).with_threads(3)).unwrap();
        assert_eq!(drawn, model.sample(count, &Run::default().with_seed(1).with_threads(1)).unwrap());
        // All sentences of up to two words, and the rest.
        let cases: Vec<Vec<u32>> = [vec![], vec![1], vec![2]]
            .into_iter()
            .chain((0..4).map(|i| vec![1 + i % 2, 1 + i / 2]))
            .collect();
        let run = Run::default();
        let law: Vec<f64> = cases
            .iter()
            .map(|case| model.log_likelihood(std::slice::from_ref(case), &run).unwrap().exp())
            .collect();
        let rest = 1.0 - law.iter().sum::<f64>();
        let seen = |case: &Vec<u32>| drawn.iter().filter(|sentence| *sentence == case).count() as f64;
        let counts: Vec<f64> = cases.iter().map(seen).collect();
        let others = count as f64 - counts.iter().sum::<f64>();
        let pairs = counts.iter().copied().chain([others]).zip(law.into_iter().chain([rest]));
        let chi: f64 = pairs.map(|(c, p)| (c - count as f64 * p).powi(2) / (count as f64 * p)).sum();
        // The 10⁻⁶ point for 7 degrees of freedom is 40.5.
        assert!(chi < 40.5, "{chi}");
    }
}
