//! Options of training, the priors and the M-step.

use serde::{Deserialize, Serialize};

use super::data::Sequences;
use super::durations::DurationForm;
use super::emission::{Context, padded};
use super::group::Counts;
use super::initial::Topology;
use super::model::Hmm;
use super::simplex::{log_dirichlet, maximize_row};
use crate::error::{Error, Result};
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, Range, options};

/// The algorithm that maximises the objective.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Optimizer {
    /// Expectation-maximisation.
    #[default]
    Em,
    /// L-BFGS on the exact gradient, which has the same expected counts.
    Lbfgs,
}

/// Training options.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Learning {
    /// The algorithm.
    pub optimizer: Optimizer,
    /// Maximum number of steps, or of passes over the data with `batch`.
    pub iterations: usize,
    /// Stops when a step improves the objective by less than this, in nats per row.
    pub tolerance: f64,
    /// Number of random starts, of which the best is kept.
    pub starts: usize,
    /// The transitions that are not zero at the start.
    pub topology: Topology,
    /// The group of every state; states of a group share their emissions. Empty if no states are tied.
    pub ties: Vec<usize>,
    /// The form of the durations of states.
    pub durations: DurationForm,
    /// The longest duration, for forms other than geometric.
    pub max_duration: usize,
    /// Concentration of the Dirichlet prior of the start probabilities; 1 is none.
    pub start_prior: f64,
    /// Concentration of the Dirichlet prior of every row of transitions; 1 is none.
    pub transition_prior: f64,
    /// Concentration of the Dirichlet prior of symbols, and of the weights of a mixture; 1 is none.
    pub emission_prior: f64,
    /// Concentration of the Dirichlet prior of every table of durations; 1 is none.
    pub duration_prior: f64,
    /// Pseudo-observations of the means, at the mean of the data.
    pub mean_weight: f64,
    /// Pseudo-observations of the covariances, with the variances of the data.
    pub covariance_weight: f64,
    /// Least variance, relative to that of the data.
    pub least_variance: f64,
    /// Keep the start probabilities.
    pub fixed_start: bool,
    /// Keep the transitions.
    pub fixed_transitions: bool,
    /// Keep the emissions.
    pub fixed_emissions: bool,
    /// Keep the durations.
    pub fixed_durations: bool,
    /// Sequences per step of stochastic EM; 0 for all sequences.
    pub batch: usize,
    /// Exponent of the step size of stochastic EM.
    pub forgetting: f64,
}

/// Range of concentrations; below 1 the maximum can be at the boundary.
const CONCENTRATION: Range = Range::Number { low: 1.0, high: f64::INFINITY, closed: (true, false) };
/// Range of the exponent for which stochastic EM converges.
const FORGETTING: Range = Range::Number { low: 0.5, high: 1.0, closed: (false, true) };

options!(Learning {
    optimizer: Optimizer,
    iterations: usize => ITERATIONS,
    tolerance: f64 => FROM_ZERO,
    starts: usize => Range::whole(1, 1_000_000),
    topology: Topology,
    ties: Vec<usize> => COUNT,
    durations: DurationForm,
    max_duration: usize => Range::whole(1, 1_000_000),
    start_prior: f64 => CONCENTRATION,
    transition_prior: f64 => CONCENTRATION,
    emission_prior: f64 => CONCENTRATION,
    duration_prior: f64 => CONCENTRATION,
    mean_weight: f64 => FROM_ZERO,
    covariance_weight: f64 => FROM_ZERO,
    least_variance: f64 => Range::closed(1e-12, 1.0),
    fixed_start: bool,
    fixed_transitions: bool,
    fixed_emissions: bool,
    fixed_durations: bool,
    batch: usize => COUNT,
    forgetting: f64 => FORGETTING
});

impl Default for Learning {
    fn default() -> Self {
        Learning {
            optimizer: Optimizer::Em,
            iterations: 100,
            tolerance: 1e-6,
            starts: 1,
            topology: Topology::Full,
            ties: Vec::new(),
            durations: DurationForm::Geometric,
            max_duration: 100,
            start_prior: 1.0,
            transition_prior: 1.0,
            emission_prior: 1.0,
            duration_prior: 1.0,
            mean_weight: 0.0,
            covariance_weight: 0.0,
            least_variance: 1e-6,
            fixed_start: false,
            fixed_transitions: false,
            fixed_emissions: false,
            fixed_durations: false,
            batch: 0,
            forgetting: 0.7,
        }
    }
}

impl Learning {
    /// Checks ranges and options that exclude each other.
    pub(super) fn check_all(&self) -> Result<()> {
        self.check()?;
        if self.optimizer == Optimizer::Lbfgs && self.batch > 0 {
            return Err(Error::argument(
                "batch",
                "is for optimizer=em; L-BFGS uses all sequences in every step",
            ));
        }
        Ok(())
    }

    /// Whether a step is one of EM with all sequences.
    pub(super) fn is_plain(&self) -> bool {
        self.batch == 0 && self.optimizer == Optimizer::Em
    }

    /// The scale of the data and the priors of the emissions.
    pub(super) fn context(&self, data: &Sequences) -> Context {
        let (centre, variances) = data.moments();
        Context {
            centre,
            variances,
            concentration: self.emission_prior,
            mean_weight: self.mean_weight,
            covariance_weight: self.covariance_weight,
            least: self.least_variance,
        }
    }

    /// The log density of the prior of the parameters that are trained, without its constants.
    pub(super) fn log_prior(&self, hmm: &Hmm, context: &Context) -> f64 {
        let of = |fixed: bool, value: f64| if fixed { 0.0 } else { value };
        of(self.fixed_start, log_dirichlet(&hmm.start, self.start_prior))
            + of(self.fixed_transitions, log_dirichlet(&hmm.transitions, self.transition_prior))
            + of(self.fixed_emissions, hmm.emissions.part().log_prior(context))
            + hmm
                .durations
                .as_ref()
                .map_or(0.0, |own| of(self.fixed_durations, own.log_prior(self.duration_prior)))
    }

    /// The M-step.
    pub(super) fn maximize(&self, hmm: &mut Hmm, counts: &Counts, context: &Context) {
        let (states, width) = (hmm.states(), padded(hmm.states()));
        if !self.fixed_start {
            maximize_row(&mut hmm.start, counts.start.iter().copied(), self.start_prior);
        }
        if !self.fixed_transitions {
            for (row, counts) in
                hmm.transitions.chunks_exact_mut(states).zip(counts.transitions.chunks_exact(width))
            {
                maximize_row(row, counts.iter().copied(), self.transition_prior);
            }
        }
        if !self.fixed_emissions {
            let statistics = hmm.tied(&counts.emissions);
            hmm.emissions.part_mut().maximize(&statistics, context);
        }
        if let Some(durations) = hmm.durations.as_mut().filter(|_| !self.fixed_durations) {
            durations.maximize(&counts.durations, self.duration_prior);
        }
    }
}
