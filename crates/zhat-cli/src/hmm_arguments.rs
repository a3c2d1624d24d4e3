//! Options of `zhat fit --kind hmm`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

const HEADING: &str = "Hidden Markov models (--kind hmm)";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KindArgument {
    /// A Markov random field of the columns of a table of categories
    Mrf,
    /// A hidden Markov model of sequences, one row per step
    Hmm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum EmissionsArgument {
    /// Symbols: one column of texts or numbers
    Categorical,
    /// A normal distribution per state
    Gaussian,
    /// Independent Poisson counts
    Poisson,
    /// A mixture of normal distributions per state
    Mixture,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CovarianceArgument {
    /// One variance per state
    Spherical,
    /// One variance per state and column
    Diagonal,
    /// One matrix per state
    Full,
    /// One matrix for all states
    Tied,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TopologyArgument {
    /// Every transition is possible
    Full,
    /// From every state to itself and the next one; sequences start in state 0
    LeftToRight,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FixedArgument {
    /// The start probabilities
    Start,
    /// The transitions
    Transitions,
    /// The emissions
    Emissions,
    /// The durations
    Durations,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DurationsArgument {
    /// Those of a Markov chain
    Geometric,
    /// A table of probabilities per state: a semi-Markov model
    Free,
    /// A negative binomial distribution per state: a semi-Markov model
    NegativeBinomial,
}

#[derive(Args, Debug)]
pub struct HmmArguments {
    /// Number of states. Several numbers, such as 1,2,3, are compared by AIC, BIC and cross-validation; the model
    /// with the smallest BIC is written
    #[arg(long, value_name = "N", value_delimiter = ',', help_heading = HEADING)]
    pub states: Vec<usize>,
    /// Distribution of an observation given the state
    #[arg(long, value_enum, default_value = "gaussian", help_heading = HEADING)]
    pub emissions: EmissionsArgument,
    /// Form of the covariances
    #[arg(long, value_enum, default_value = "diagonal", help_heading = HEADING)]
    pub covariance: CovarianceArgument,
    /// Number of normal distributions per state of a mixture
    #[arg(long, value_name = "K", default_value_t = 2, help_heading = HEADING)]
    pub components: usize,
    /// Column whose value changes from one sequence to the next [default: the column `sequence`, if there is one;
    /// otherwise all rows are one sequence]
    #[arg(long, value_name = "COLUMN", help_heading = HEADING)]
    pub sequence: Option<String>,
    /// Column with the states, if they are known: the model is counted, with EM only for components of mixtures and
    /// for missing values
    #[arg(long, value_name = "COLUMN", help_heading = HEADING)]
    pub labels: Option<String>,
    /// Transitions that are possible
    #[arg(long, value_enum, default_value = "full", help_heading = HEADING)]
    pub topology: TopologyArgument,
    /// Group of every state, such as 0,0,1: states of a group share their emissions
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', help_heading = HEADING)]
    pub ties: Vec<usize>,
    /// Form of the durations of states
    #[arg(long, value_enum, default_value = "geometric", help_heading = HEADING)]
    pub durations: DurationsArgument,
    /// Longest duration, for --durations free and negative-binomial
    #[arg(long, value_name = "STEPS", default_value_t = 100, help_heading = HEADING)]
    pub max_duration: usize,
    /// Parameters that training does not change
    #[arg(long, value_enum, value_delimiter = ',', help_heading = HEADING)]
    pub fixed: Vec<FixedArgument>,
    /// Number of random starts, of which the best is kept
    #[arg(long, value_name = "COUNT", default_value_t = 1, help_heading = HEADING)]
    pub starts: usize,
    /// Start from this model instead of random parameters
    #[arg(long, value_name = "MODEL", help_heading = HEADING)]
    pub from: Option<PathBuf>,
    /// Seconds between checkpoints
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, requires = "checkpoint", help_heading = HEADING)]
    pub keep_every: f64,
    /// Number of folds of the cross-validation over sequences, at least 2
    #[arg(long, value_name = "COUNT", default_value_t = 5, help_heading = HEADING)]
    pub folds: usize,
}
