//! A language model: vocabulary, distribution of sentence lengths, sequence model, and the certificate of its
//! bound.

use serde_json::{Value, json};

use super::{Lengths, Moments, Vocabulary};
use crate::answer::{Estimate, Guarantee};
use crate::decimal;
use crate::error::{Error, Result};
use crate::method::cycle::{
    Annealed, Bounded, Passes, Point, Spectral, Vectors, checked_shares, evaluate, star,
};
use crate::model::{Interactions, SequenceMrf};
use crate::numeric::{CompensatedSum, rounding_allowance};
use crate::run::Run;

/// Length of the cycle on which log Z is estimated.
const CYCLE: usize = 120;

/// The variables of a certified bound on log Z.
#[derive(Clone, Debug, PartialEq)]
pub enum Certificate {
    /// The spectral bound: ρ, u_l and log r_l for each distance.
    Spectral {
        /// ρ₁, …, ρ_K.
        shares: Vec<f64>,
        /// u₁, …, u_K with Σ ρ_l·u_l = θ⁰.
        columns: Vec<Vec<f64>>,
        /// The logarithms of positive vectors that approximate the eigenvectors.
        right: Vec<Vec<f64>>,
    },
    /// The star bound: δ¹, …, δᴷ.
    Star {
        /// δˡ.
        delta: Vec<Vec<f64>>,
    },
}

/// A globally normalised language model of order K.
///
/// The probability of a sentence of M words is τ(M)·exp(score)/Z_M with K fixed separators on either side;
/// see [`train`](super::train) for training and [`LanguageModel::evaluate`] for the certified bound.
#[derive(Clone, Debug, PartialEq)]
pub struct LanguageModel {
    vocabulary: Vocabulary,
    lengths: Lengths,
    mrf: SequenceMrf,
    certificate: Certificate,
}

/// The score of a text under a model.
#[derive(Clone, Debug, PartialEq)]
pub struct TextScore {
    /// Number of words, without separators.
    pub tokens: u64,
    /// Number of sentences.
    pub sentences: u64,
    /// A certified lower bound on the log-likelihood of the text, given the lengths of its sentences.
    pub log_likelihood: f64,
    /// The rounding allowance subtracted from it.
    pub rounding: f64,
    /// Σ log τ(M) over the sentences; −∞ if a length did not occur in training.
    pub log_lengths: f64,
}

impl TextScore {
    /// Nats per word, including the share of the separators.
    pub fn per_word(&self) -> f64 {
        self.log_likelihood / self.tokens as f64
    }

    /// The guarantee of the log-likelihood.
    pub fn guarantee(&self) -> Guarantee {
        Guarantee::bounds(self.log_likelihood, f64::INFINITY, 1.0, 0.0)
    }
}

/// An estimate of the log-likelihood of a text; see [`LanguageModel::annealed`].
#[derive(Clone, Debug, PartialEq)]
pub struct AnnealedScore {
    /// Number of words, without separators.
    pub tokens: u64,
    /// The certified lower bound on the log-likelihood.
    pub lower: f64,
    /// The score of the text, from which log Z is subtracted.
    score: f64,
    /// Positions of the text per position of the cycle.
    scale: f64,
    /// log Z of the cycle: unbiased, with a lower bound at a given confidence, diagnostics, and a warning if
    /// the weights vary too much.
    pub log_z: Estimate,
}

impl AnnealedScore {
    /// The estimated log-likelihood, in nats.
    pub fn value(&self) -> f64 {
        self.score - self.scale * self.log_z.value
    }

    /// The estimate in nats per word.
    pub fn per_word(&self) -> f64 {
        self.value() / self.tokens as f64
    }

    /// An upper bound on the log-likelihood in nats, at the confidence of the lower bound on log Z, as far as
    /// the cycle represents the text.
    pub fn upper(&self) -> f64 {
        match self.log_z.guarantee {
            Guarantee::Unbiased { low, .. } => self.score - self.scale * low,
            _ => f64::INFINITY,
        }
    }

    /// The warning that the weights vary too much for a reliable estimate.
    pub fn warning(&self) -> Option<&str> {
        self.log_z
            .diagnostics
            .figures()
            .find(|(name, _)| *name == "warning")
            .and_then(|(_, text)| text.as_str())
    }

    /// All values as a JSON object, per word.
    pub fn to_json(&self) -> Value {
        let mut object = self.log_z.diagnostics.to_json();
        object["per_word"] = json!(self.per_word());
        object["lower_per_word"] = json!(self.lower / self.tokens as f64);
        object["upper_per_word"] = json!(self.upper() / self.tokens as f64);
        object["guarantee"] = self.log_z.guarantee.to_json();
        object
    }
}

impl std::fmt::Display for AnnealedScore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words = self.tokens as f64;
        // An estimate below the certified bound is worse than the bound.
        write!(f, "about {:.4} nats per word", self.per_word().max(self.lower / words))?;
        if let Guarantee::Unbiased { relative_std_error, confidence, .. } = self.log_z.guarantee {
            let error = if relative_std_error.is_finite() {
                format!("{:.0}%", 100.0 * relative_std_error)
            } else {
                "unknown".into()
            };
            // The quotients are rounded, so the ends move outward by one unit in the last place.
            let low = decimal::below((self.lower / words).next_down(), 4);
            let high = decimal::above((self.upper() / words).next_up(), 4);
            write!(
                f,
                " (standard error of Ẑ {error}); between {low}, certified, and {high} with {}% confidence",
                100.0 * confidence
            )?;
        }
        Ok(())
    }
}

impl LanguageModel {
    /// A model from its parts, whose shapes must agree.
    ///
    /// # Errors
    /// If the shapes do not agree, the certificate has an invalid number or shares that do not sum to 1, or
    /// every sentence length is 0.
    pub fn new(
        vocabulary: Vocabulary,
        lengths: Lengths,
        mrf: SequenceMrf,
        certificate: Certificate,
    ) -> Result<Self> {
        let (states, context) = (mrf.states(), mrf.context());
        if vocabulary.states() != states {
            return Err(Error::model(format!(
                "the vocabulary has {} words and a separator, the sequence model {states} states",
                vocabulary.states() - 1
            )));
        }
        let fits = |vectors: &[Vec<f64>], zeros: bool| {
            let fine = |x: &f64| x.is_finite() || zeros && *x == f64::NEG_INFINITY;
            vectors.len() == context
                && vectors.iter().all(|vector| vector.len() == states && vector.iter().all(fine))
        };
        let certificate = match certificate {
            Certificate::Spectral { shares, columns, right }
                if fits(&columns, true) && fits(&right, false) =>
            {
                Certificate::Spectral { shares: checked_shares(&shares, context)?, columns, right }
            }
            Certificate::Star { delta } if fits(&delta, false) => Certificate::Star { delta },
            _ => {
                return Err(Error::model(format!(
                    "the certificate needs {context} vectors of {states} finite numbers each"
                )));
            }
        };
        if lengths.counts().iter().skip(1).all(|&count| count == 0) {
            return Err(Error::model("the length distribution has no sentence with a word"));
        }
        Ok(LanguageModel { vocabulary, lengths, mrf, certificate })
    }

    /// The words.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// τ.
    pub fn lengths(&self) -> &Lengths {
        &self.lengths
    }

    /// The sequence model; its length is that of the training text.
    pub fn mrf(&self) -> &SequenceMrf {
        &self.mrf
    }

    /// The certificate of its bound.
    pub fn certificate(&self) -> &Certificate {
        &self.certificate
    }

    /// U, C × D: one row per state, that of the separator first.
    ///
    /// # Errors
    /// If the model has full matrices instead of embeddings.
    pub fn embeddings(&self) -> Result<(&[f32], usize)> {
        match self.mrf.interactions() {
            Interactions::LowRank { rank, left, .. } => Ok((left, *rank)),
            Interactions::Full(_) => Err(Error::argument(
                "model",
                "a model with full matrices has no embeddings; one with a rank does",
            )),
        }
    }

    /// A certified upper bound on log Z of a cycle of `length` positions, including rounding, and the
    /// rounding allowance. One pass per distance, independent of the length.
    ///
    /// # Errors
    /// If the memory budget is too small.
    pub fn bound(&self, length: usize, run: &Run) -> Result<(f64, f64)> {
        run.require_memory("certifying", Passes::bytes(&self.mrf, run.threads()))?;
        let bounded = run.install(|| {
            let passes = Passes::new(&self.mrf);
            Ok::<_, Error>(match &self.certificate {
                Certificate::Star { delta } => {
                    Bounded::star(star(&passes, &delta.concat(), None)?, length, delta.len())
                }
                Certificate::Spectral { shares, columns, right } => {
                    let unary = self.mrf.unary();
                    let mut duals = Vec::new();
                    for (share, column) in shares.iter().zip(columns).take(shares.len() - 1) {
                        let dual = |(u, v): (&f64, &f64)| if u.is_finite() { share * (v - u) } else { 0.0 };
                        duals.extend(unary.iter().zip(column).map(dual));
                    }
                    let mut vectors = Vectors::new(shares.len(), unary.len());
                    vectors.right.clone_from(right);
                    let point = Point { shares, duals: &duals };
                    let once = Spectral { passes: 1, ..Spectral::default() };
                    let found = evaluate(&passes, length, &point, &mut vectors, &once, &|| true);
                    Bounded { high: found.high, rounding: found.rounding }
                }
            })
        })?;
        Ok((bounded.high, bounded.rounding))
    }

    /// ⟨counts, θ⟩, the score of a text, and its rounding allowance.
    ///
    /// # Errors
    /// If the text was counted with another vocabulary or context.
    pub fn score(&self, moments: &Moments) -> Result<(f64, f64)> {
        self.check(moments)?;
        let states = self.mrf.states();
        let mut sum = CompensatedSum::default();
        for (&count, u) in moments.unary().iter().zip(self.mrf.unary()) {
            if count > 0 {
                sum.add(count as f64 * u);
            }
        }
        for (l, pairs) in moments.pairs().iter().enumerate() {
            for x in 0..states {
                pairs.row(x).for_each(|(y, count)| sum.add(count as f64 * self.mrf.interaction(l + 1, x, y)));
            }
        }
        let (unary, pairs) = self.mrf.magnitude();
        let rank = self.embeddings().map_or(1, |(_, rank)| rank);
        let n = moments.positions() as f64;
        let one = rounding_allowance(rank as f64 + 4.0, unary + self.mrf.context() as f64 * pairs);
        Ok((sum.value(), n * one + rounding_allowance(4.0, sum.value().abs())))
    }

    /// A certified lower bound on the log-likelihood of a text: its score minus the bound on log Z of a cycle
    /// of the same length (Lemma 1 of the paper).
    ///
    /// # Errors
    /// If the text was counted with another vocabulary or context, or the memory budget is too small.
    pub fn evaluate(&self, moments: &Moments, run: &Run) -> Result<TextScore> {
        let (score, inexact) = self.score(moments)?;
        let (high, rounding) = self.bound(moments.positions() as usize, run)?;
        let lengths = moments.lengths();
        let log_lengths = lengths
            .counts()
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(length, &count)| count as f64 * self.lengths.log_probability(length));
        Ok(TextScore {
            tokens: moments.tokens(),
            sentences: moments.sentences(),
            log_likelihood: score - high - inexact,
            rounding: rounding + inexact,
            log_lengths: log_lengths.sum(),
        })
    }

    /// Estimates the log-likelihood of a text by annealed importance sampling; the certified bound is below
    /// it. log Z of a long cycle grows by a constant per position, up to exponentially small terms, so log Z
    /// of a cycle of about 120 positions is scaled to the length of the text. Ẑ is unbiased, so log Z is at
    /// least the `low` of [`Guarantee::Unbiased`] with its confidence, and the log-likelihood is at most
    /// [`AnnealedScore::upper`]. With too few levels, Ẑ is almost always too small and the estimated
    /// likelihood too large; the effective sample size is then small.
    ///
    /// # Errors
    /// As [`LanguageModel::evaluate`] and [`Annealed::estimate`].
    pub fn annealed(&self, moments: &Moments, how: &Annealed, run: &Run) -> Result<AnnealedScore> {
        let (score, _) = self.score(moments)?;
        let length = CYCLE.max(2 * (self.mrf.context() + 1)).next_multiple_of(self.mrf.context() + 1);
        // Any initial distribution is valid; that of the text is close.
        let weights: Vec<f64> = moments.unary().iter().map(|&count| count as f64 + 0.5).collect();
        let possible = weights.iter().zip(self.mrf.unary());
        let weights: Vec<f64> =
            possible.map(|(&w, &u)| if u > f64::NEG_INFINITY { w } else { 0.0 }).collect();
        let log_z = how.estimate(&self.mrf.with_length(length)?, &weights, run)?;
        let lower = self.evaluate(moments, run)?.log_likelihood;
        let scale = moments.positions() as f64 / length as f64;
        Ok(AnnealedScore { tokens: moments.tokens(), lower, score, scale, log_z })
    }

    fn check(&self, moments: &Moments) -> Result<()> {
        if moments.states() != self.mrf.states() || moments.context() != self.mrf.context() {
            return Err(Error::argument(
                "text",
                "was counted with another vocabulary or context than the model's",
            ));
        }
        Ok(())
    }
}
