//! How a joint tagger was trained, and the certificates of its likelihood.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{Bound, JointTagger, Moments, Training};
use crate::error::{Error, Result};
use crate::run::Run;

/// How a joint tagger was trained.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Trained {
    /// The number of sentences.
    pub sentences: usize,
    /// The number of tokens.
    pub tokens: usize,
    /// The number of steps.
    pub steps: usize,
    /// The objective at the end, in nats per position; `None` before the first step.
    pub objective: Option<f64>,
    /// Whether training stopped by itself, not at a limit.
    pub converged: bool,
    /// The step with the best validation corpus, and its accuracy.
    pub valid: Option<(usize, f64)>,
    /// Certified lower bounds on the log-likelihood of the tags and words of the training corpus, in nats per token,
    /// by each bound on log Z that applies.
    pub log_likelihoods: Vec<(Bound, f64)>,
    /// The options; `None` for a file of an earlier version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub learning: Option<Training>,
    /// The seed of its random numbers, as above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed: Option<u64>,
}

impl Trained {
    /// The certified lower bound on the log-likelihood per token by one of the bounds.
    pub fn log_likelihood(&self, bound: Bound) -> Option<f64> {
        self.log_likelihoods.iter().find(|(own, _)| *own == bound).map(|(_, value)| *value)
    }
}

impl JointTagger {
    /// How it was trained.
    pub fn trained(&self) -> &Trained {
        &self.trained
    }

    /// The likelihood of the training corpus by every bound that applies. Dual variables are optimised while there
    /// is time; a bound is evaluated once even if there is none.
    pub(super) fn certificates(
        &self,
        moments: &Moments,
        steps: usize,
        run: &Run,
    ) -> Result<Vec<(Bound, f64)>> {
        let once = run.within(None).with_cancel(Arc::default());
        let mut all = Vec::new();
        for bound in Bound::ALL {
            for (steps, run) in [(steps, run), (0, &once)] {
                match self.likelihood(moments, bound, steps, run) {
                    Ok((value, _)) => {
                        all.push((bound, value));
                        break;
                    }
                    Err(Error::Interrupted | Error::OverBudget { .. }) => {}
                    // It does not apply, or the scores are too large for it.
                    Err(Error::Argument { .. } | Error::NoAnswer(_)) => break,
                    Err(other) => return Err(other),
                }
            }
        }
        Ok(all)
    }
}
