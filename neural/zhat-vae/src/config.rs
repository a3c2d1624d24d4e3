//! Settings of a model and of its training.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// How the sums of the inference network are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Inference {
    /// All states.
    Full,
    /// The likeliest states of each word only; biased.
    Top,
    /// The published sampler: the likeliest states, and draws from the others.
    Rdp,
    /// States chosen by a threshold on forward times backward messages.
    TwoPass,
}

/// The encoder of sentences.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EncoderKind {
    /// A bidirectional LSTM.
    Lstm,
    /// A Transformer with two layers.
    Transformer,
    /// A pretrained GPT-2, whose weights stay as they are.
    Gpt2,
}

/// The model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelConfig {
    /// N.
    pub states: usize,
    /// Units of the LSTMs, and sizes of word and state embeddings of the decoder.
    pub units: usize,
    /// Size of the state embeddings of the inference network.
    pub state_size: usize,
    /// The encoder.
    pub encoder: EncoderKind,
    /// The folder of GPT-2's files, an absolute path in models that the program wrote.
    pub gpt2: Option<std::path::PathBuf>,
}

/// Training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainConfig {
    /// How sums are computed.
    pub inference: Inference,
    /// K₁: states kept with certainty.
    pub top: usize,
    /// K₂: states drawn from the others.
    pub sampled: usize,
    /// Sentences per step.
    pub batch: usize,
    /// Learning rate of Adam.
    pub rate: f64,
    /// Largest norm of a gradient.
    pub clip: f64,
    /// Probability that the decoder does not see the word before.
    pub word_dropout: f64,
    /// Entropy weight at the first step and after the warm-up.
    pub entropy_weight: (f64, f64),
    /// Temperature of relaxed samples at the first step and after the warm-up.
    pub temperature: (f64, f64),
    /// Steps of the warm-up.
    pub warm_up: usize,
    /// The decoder sees the sampled states themselves; gradients pass through their relaxation.
    pub straight_through: bool,
    /// Seed of all random numbers.
    pub seed: u64,
}

impl Default for ModelConfig {
    fn default() -> Self {
        ModelConfig { states: 100, units: 256, state_size: 64, encoder: EncoderKind::Lstm, gpt2: None }
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        TrainConfig {
            inference: Inference::Full,
            top: 10,
            sampled: 10,
            batch: 64,
            rate: 1e-3,
            clip: 5.0,
            word_dropout: 0.3,
            entropy_weight: (1.0, 1.0),
            temperature: (1.0, 0.5),
            warm_up: 1000,
            straight_through: false,
            seed: 0,
        }
    }
}

impl TrainConfig {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first setting that is out of its range.
    pub fn check(&self, model: &ModelConfig) -> Result<()> {
        let states = model.states;
        if states < 2 {
            bail!("--states {states}: expected at least 2; with one state there is nothing to infer");
        }
        if model.units == 0 || model.state_size == 0 {
            bail!("--units and --state-size must be at least 1");
        }
        if model.encoder == EncoderKind::Gpt2 && model.gpt2.is_none() {
            bail!(
                "--encoder gpt2 needs --gpt2 FOLDER with model.safetensors, config.json, vocab.json and merges.txt"
            );
        }
        if model.encoder != EncoderKind::Gpt2 && model.gpt2.is_some() {
            bail!("--gpt2 FOLDER is read with --encoder gpt2 only");
        }
        if self.inference != Inference::Full {
            if self.top.saturating_add(self.sampled) > states {
                bail!(
                    "--top {} and --sampled {} add up to more than the {states} states; use --method full",
                    self.top,
                    self.sampled
                );
            }
            if self.top + self.sampled == 0 || (self.inference == Inference::Rdp && self.sampled == 0) {
                bail!("--sampled 0: expected at least one drawn state; --method top draws none");
            }
        }
        let positive = [
            ("--rate", self.rate),
            ("--clip", self.clip),
            ("--temperature", self.temperature.0),
            ("--temperature", self.temperature.1),
        ];
        if let Some((name, value)) = positive.iter().find(|(_, x)| !(*x > 0.0 && x.is_finite())) {
            bail!("{name} {value}: expected a positive number");
        }
        if !(0.0..1.0).contains(&self.word_dropout) {
            bail!("--word-dropout {}: expected a number from 0 up to but not including 1", self.word_dropout);
        }
        let (first, last) = self.entropy_weight;
        if !(first >= 0.0 && last >= 0.0 && first.is_finite() && last.is_finite()) {
            bail!("--entropy-weight {first},{last}: expected numbers that are not negative");
        }
        if self.batch == 0 {
            bail!("--batch 0: expected at least 1");
        }
        Ok(())
    }

    /// Entropy weight (linear) and temperature (geometric) at a step.
    pub fn schedule(&self, step: usize) -> (f64, f64) {
        self.schedule_at(if self.warm_up == 0 { 1.0 } else { step as f64 / self.warm_up as f64 })
    }

    /// The same when this share of the warm-up is over.
    pub fn schedule_at(&self, part: f64) -> (f64, f64) {
        let part = part.min(1.0);
        let (first, last) = self.entropy_weight;
        let weight = first + part * (last - first);
        let (hot, cold) = self.temperature;
        (weight, hot * (cold / hot).powf(part))
    }
}
