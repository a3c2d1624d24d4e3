//! Shared code of the language model experiments: the Penn Treebank and training with a validation text.

use std::path::PathBuf;
use std::time::Instant;

use zhat::cycle::Annealed;
use zhat::learn::language::text;
use zhat::learn::language::{
    self, Certificate, Counts, Epoch, Fold, InteractionForm, LanguageModel, Moments, Objective, Stochastic,
    Training, Vocabulary, train_pseudo,
};
use zhat::model::Interactions;
use zhat::{Error, Result};

use super::{Setting, short};
use crate::output;

/// The dimension of the embeddings, as in the paper.
pub const RANK: usize = 30;
/// Levels of the annealed estimate.
const LEVELS: usize = 100;

/// The texts of the Penn Treebank and the vocabulary of the training text.
pub struct Treebank {
    pub train: PathBuf,
    pub valid: PathBuf,
    pub vocabulary: Vocabulary,
}

impl Treebank {
    pub fn open(setting: &Setting<'_>) -> Result<Self> {
        let folder = std::env::var_os("ZHAT_DATA").map(PathBuf::from).ok_or_else(|| {
            let message = "is not set: it must name a folder with data/ptb/ptb.train.txt and ptb.valid.txt, one sentence per line";
            Error::argument("ZHAT_DATA", message)
        })?;
        let folder = folder.join("data/ptb");
        let (train, valid) = (folder.join("ptb.train.txt"), folder.join("ptb.valid.txt"));
        let counts = text::count(&train, 1, &setting.run)?;
        let size = setting.quick.then_some(1000);
        let vocabulary = Vocabulary::of(&counts, &Fold { min_count: Some(1), size })?;
        output::print(&format!(
            "Penn Treebank: {} words in {} sentences, {} states with the separator, embeddings of dimension {RANK}.\n",
            counts.tokens(),
            counts.sentences(),
            vocabulary.states()
        ))?;
        Ok(Treebank { train, valid, vocabulary })
    }

    pub fn moments(&self, context: usize, setting: &Setting<'_>) -> Result<(Moments, Moments)> {
        let of = |path| {
            text::count(path, context, &setting.run)
                .and_then(|counts: Counts| counts.moments(&self.vocabulary))
        };
        Ok((of(&self.train)?, of(&self.valid)?))
    }

    pub fn sentences(&self) -> Result<[Vec<Vec<u32>>; 2]> {
        Ok([text::sentences(&self.train, &self.vocabulary)?, text::sentences(&self.valid, &self.vocabulary)?])
    }
}

/// A trained model and its learning curve: seconds and nats per word on the validation text.
pub struct Learned {
    pub model: LanguageModel,
    pub course: Vec<(f64, f64)>,
    pub valid: Moments,
    pub seconds: f64,
}

impl Learned {
    /// The certified log-likelihood of the validation text, in nats per word.
    pub fn certified(&self, setting: &Setting<'_>) -> Result<f64> {
        Ok(self.model.evaluate(&self.valid, &setting.run)?.per_word())
    }

    /// An annealed estimate of the log-likelihood of the validation text, in nats per word.
    pub fn annealed(&self, setting: &Setting<'_>) -> Result<f64> {
        let levels = if setting.quick { LEVELS / 5 } else { LEVELS };
        let how = Annealed::default().levels(Some(levels));
        Ok(self.model.annealed(&self.valid, &how, &setting.run)?.per_word())
    }

    /// ρ, or the equivalent weights of the star bound.
    pub fn shares(&self) -> String {
        match self.model.certificate() {
            Certificate::Star { delta } => format!("1/{} each", delta.len() + 1),
            Certificate::Spectral { shares, .. } => {
                shares.iter().map(|share| short(*share)).collect::<Vec<_>>().join(", ")
            }
        }
    }

    /// The Frobenius norm ‖θ²‖ of the interactions at distance 2.
    pub fn second_norm(&self) -> Option<f64> {
        let Interactions::LowRank { rank, left, right } = self.model.mrf().interactions() else {
            return None;
        };
        let right = right.get(1)?;
        // ‖U·Wᵀ‖² = Σ (UᵀU) ⊙ (WᵀW).
        let gram = |matrix: &[f32]| {
            let mut gram = vec![0.0; rank * rank];
            for row in matrix.chunks_exact(*rank) {
                for (i, &x) in row.iter().enumerate() {
                    let to = &mut gram[i * rank..(i + 1) * rank];
                    to.iter_mut().zip(row).for_each(|(g, &y)| *g += f64::from(x) * f64::from(y));
                }
            }
            gram
        };
        Some(gram(left).iter().zip(gram(right)).map(|(a, b)| a * b).sum::<f64>().max(0.0).sqrt())
    }
}

/// Trains embeddings with a bound.
pub fn learned(
    treebank: &Treebank,
    context: usize,
    objective: Objective,
    setting: &Setting<'_>,
) -> Result<Learned> {
    learned_as(treebank, context, InteractionForm::Products(RANK), objective, setting)
}

/// Trains a model of a given form with a bound.
pub fn learned_as(
    treebank: &Treebank,
    context: usize,
    form: InteractionForm,
    objective: Objective,
    setting: &Setting<'_>,
) -> Result<Learned> {
    let (moments, valid) = treebank.moments(context, setting)?;
    let how = Training::default().form(form).objective(objective).iterations(if setting.quick {
        40
    } else {
        Training::default().iterations
    });
    let started = Instant::now();
    let mut course = Vec::new();
    let model = language::train(
        &moments,
        &treebank.vocabulary,
        Some(&valid),
        &how,
        None,
        &setting.run,
        &mut |now| {
            course.extend(now.progress().valid.map(|valid| (started.elapsed().as_secs_f64(), valid)));
            Ok(true)
        },
    )?;
    Ok(Learned { model, course, valid, seconds: started.elapsed().as_secs_f64() })
}

/// The same model with K = 2, trained by its pseudo-likelihood. It has no learning curve, because its
/// objective is not the likelihood.
pub fn by_pseudo_likelihood(
    treebank: &Treebank,
    [text, valid]: &[Vec<Vec<u32>>; 2],
    setting: &Setting<'_>,
) -> Result<Learned> {
    let started = Instant::now();
    let how = stochastic(2, setting);
    let model = train_pseudo(text, &treebank.vocabulary, Some(valid), &how, &setting.run, &mut |epoch| {
        told("pseudo-likelihood", epoch);
        Ok(true)
    })?;
    let seconds = started.elapsed().as_secs_f64();
    let (_, valid) = treebank.moments(2, setting)?;
    Ok(Learned { model, course: Vec::new(), valid, seconds })
}

/// Options of stochastic gradient descent.
pub fn stochastic(context: usize, setting: &Setting<'_>) -> Stochastic {
    Stochastic::default().context(context).rank(RANK).epochs(if setting.quick { 1 } else { 6 })
}

/// Prints the progress of training.
pub fn told(name: &str, epoch: &Epoch) {
    eprintln!(
        "{name}, epoch {}: validation {:.4} nats per word",
        epoch.epoch,
        epoch.valid.unwrap_or(f64::NAN)
    );
}
