//! −log p(x) by importance sampling.
//!
//! p(x) = Σ_z p(x, z) is estimated by the average of p(x, z)·w(z) over samples z of the inference network, with w = Z/exp
//! score(z), or Ẑ/exp score(z) if z was drawn from chosen states: their weights make it unbiased. −log of an unbiased
//! estimate is too large by about half its relative variance, which is reported.

use anyhow::Result;
use burn_tensor::Tensor;
use burn_tensor::backend::Backend;
use zhat::Run;
use zhat::random::Streams;

use crate::config::ModelConfig;
use crate::decoder::{States, log_joint};
use crate::encoder;
use crate::gpt2::Gpt2;
use crate::parameters::Parameters;
use crate::posterior::{Engine, Sums, sample};
use crate::text::Corpus;
use crate::train::{sentences, whole};

/// Most sentences times samples that the decoder reads at once.
const ROWS: usize = 2048;

/// A model that is ready to be used.
pub struct Model<B: Backend> {
    /// Its settings.
    pub config: ModelConfig,
    /// Its parameters.
    pub parameters: Parameters<B>,
    /// Its GPT-2.
    pub gpt2: Option<Gpt2<B>>,
    /// Where sums over paths are computed.
    pub engine: Engine,
    /// Where its tensors are.
    pub device: B::Device,
}

/// The negative log-likelihood of sentences.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Likelihood {
    /// −log p̂ per sentence, in nats.
    pub nll: f64,
    /// Standard error of `nll` from the samples; NaN with a single sample.
    pub sampling_error: f64,
    /// Standard error of `nll` from the choice of sentences.
    pub text_error: f64,
    /// About how much `nll` is too large: half the mean relative variance of p̂.
    pub bias: f64,
    /// exp of the mean of −log p̂ per word.
    pub perplexity: f64,
    /// Sentences.
    pub sentences: usize,
    /// Words, ends of sentences included.
    pub words: usize,
}

/// Logarithms of terms whose average is an estimate of p(x).
pub struct Terms {
    /// log p(x, z) + log w(z), for each sentence and sample.
    pub logs: Vec<Vec<f64>>,
    /// The choice of states of each sample.
    pub choices: Vec<usize>,
}

/// log of the average of exp(logs), and the relative variance of the average. Terms of the same choice of states depend
/// on each other, so the variance is that between the choices; with a single one it is unknown, NaN.
pub fn log_mean(logs: &[f64], choices: &[usize]) -> (f64, f64) {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY {
        return (most, 0.0);
    }
    let weights: Vec<f64> = logs.iter().map(|log| (log - most).exp()).collect();
    let count = logs.len() as f64;
    let mean = weights.iter().sum::<f64>() / count;
    // Of each choice the sum of its terms' differences from the average.
    let mut parts = vec![0.0; choices.iter().max().map_or(0, |last| last + 1)];
    choices.iter().zip(&weights).for_each(|(&choice, w)| parts[choice] += w - mean);
    let squares: f64 = parts.iter().map(|sum| sum * sum).sum();
    let all = parts.len() as f64;
    let variance =
        if parts.len() > 1 { squares * all / (all - 1.0) / (count * count * mean * mean) } else { f64::NAN };
    (most + mean.ln(), variance)
}

impl<B: Backend> Model<B> {
    /// log p(x, z) + log w(z) of `samples` samples of each sentence of a batch.
    ///
    /// # Errors
    /// Those of the library.
    pub fn log_terms(
        &self,
        corpus: &Corpus,
        batch: &[usize],
        sums: &Sums,
        samples: usize,
        run: &Run,
    ) -> Result<Terms> {
        let read = sentences::<B>(corpus, batch, &self.device);
        let (emissions, states) = encoder::chain(&self.parameters, &self.config, self.gpt2.as_ref(), &read);
        let drawn = sample(self.engine, sums, &emissions, &states, samples, run)?;
        let [count, _, steps] = drawn.paths.dims();
        let rows = count * samples;
        let words = read.words.unsqueeze_dim::<3>(1).expand([count, samples, steps]).reshape([rows, steps]);
        let joint =
            log_joint(&self.parameters, &words, &States::Hard(drawn.paths.reshape([rows, steps])), None);
        let logs: Tensor<B, 1> = joint.words + joint.states;
        let logs: Vec<f64> = logs.into_data().iter::<f64>().collect();
        let pairs = logs.chunks(samples).zip(&drawn.log_weights);
        let logs = pairs.map(|(logs, weights)| logs.iter().zip(weights).map(|(a, b)| a + b).collect());
        Ok(Terms { logs: logs.collect(), choices: drawn.choices })
    }

    /// The negative log-likelihood of sentences with `samples` samples each.
    ///
    /// # Errors
    /// Those of the library.
    pub fn likelihood(&self, corpus: &Corpus, sums: &Sums, samples: usize, run: &Run) -> Result<Likelihood> {
        let streams = Streams::new(run.seed(), "likelihood");
        let (mut found, mut variances) = (Vec::new(), Vec::new());
        let size = (ROWS / samples).max(1);
        for (i, batch) in corpus.batches(size).iter().enumerate() {
            let run = run.clone().with_seed(streams.block(i as u64).bits());
            let rows = whole(self.engine, batch, size);
            let all = self.log_terms(corpus, &rows, sums, samples, &run)?;
            for logs in all.logs.iter().take(batch.len()) {
                let (log, variance) = log_mean(logs, &all.choices);
                found.push(-log);
                variances.push(variance);
            }
        }
        let count = found.len() as f64;
        let total: f64 = found.iter().sum();
        let nll = total / count;
        let spread: f64 = found.iter().map(|x| (x - nll).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let words = corpus.tokens();
        let variance: f64 = variances.iter().sum();
        Ok(Likelihood {
            nll,
            sampling_error: variance.sqrt() / count,
            text_error: (spread / count).sqrt(),
            bias: variance / count / 2.0,
            perplexity: (total / words as f64).exp(),
            sentences: found.len(),
            words,
        })
    }
}
