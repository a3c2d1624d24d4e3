//! Comparison of numbers of states.

use super::data::Sequences;
use super::initial::Family;
use super::learning::Learning;
use super::model::Hmm;
use super::train::train;
use crate::error::{Error, Result};
use crate::random::Streams;
use crate::run::Run;

/// A number of states and how well it fits.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Candidate {
    /// The number of states.
    pub states: usize,
    /// The model trained on all data.
    pub model: Hmm,
    /// Number of free parameters.
    pub parameters: usize,
    /// Log-likelihood of the data.
    pub log_likelihood: f64,
    /// Log-likelihood of the data plus log prior.
    pub objective: f64,
    /// Number of steps of the best start.
    pub steps: usize,
    /// Whether training on all data converged.
    pub converged: bool,
    /// Akaike's information criterion; smaller is better.
    pub aic: f64,
    /// The Bayesian information criterion; smaller is better.
    pub bic: f64,
    /// Log-likelihood per row of sequences that training did not see; `None` with fewer sequences than folds.
    pub cross_validated: Option<f64>,
}

/// Trains a model for every number of states and compares them by AIC, BIC and cross-validation over sequences.
///
/// # Errors
/// If `folds` is below 2, or as [`train`].
pub fn compare_states(
    data: &Sequences,
    states: &[usize],
    family: Family,
    how: &Learning,
    folds: usize,
    run: &Run,
    watch: &mut dyn FnMut(&Candidate) -> Result<bool>,
) -> Result<Vec<Candidate>> {
    if folds < 2 {
        return Err(Error::argument("folds", format!("{folds} is out of range; expected at least 2")));
    }
    let mut order: Vec<usize> = (0..data.count()).collect();
    Streams::new(run.seed(), "folds of sequences").block(0).shuffle(&mut order);
    let mut found = Vec::new();
    for &states in states {
        let trained = train(data, states, family, how, None, None, run, &mut |_| Ok(true))?;
        let mut cross_validated = None;
        if data.count() >= folds {
            let mut total = 0.0;
            for fold in 0..folds {
                let split = |inside: bool| -> Vec<usize> {
                    let chosen = order.iter().enumerate().filter(|(i, _)| (i % folds == fold) == inside);
                    chosen.map(|(_, &sequence)| sequence).collect()
                };
                let (rest, held) = (data.subset(&split(false))?, data.subset(&split(true))?);
                let own = train(&rest, states, family, how, None, None, run, &mut |_| Ok(true))?;
                total += own.model.log_likelihoods(&held, run)?.iter().sum::<f64>();
            }
            cross_validated = Some(total / data.rows() as f64);
        }
        let (parameters, likelihood) = (trained.model.parameters(), trained.log_likelihood);
        let candidate = Candidate {
            states,
            parameters,
            log_likelihood: likelihood,
            objective: trained.objective,
            steps: trained.steps,
            converged: trained.converged,
            aic: 2.0 * parameters as f64 - 2.0 * likelihood,
            bic: parameters as f64 * (data.rows() as f64).ln() - 2.0 * likelihood,
            cross_validated,
            model: trained.model,
        };
        let go_on = watch(&candidate)?;
        found.push(candidate);
        if !go_on {
            break;
        }
    }
    Ok(found)
}
