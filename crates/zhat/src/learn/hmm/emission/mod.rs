//! Emissions: the distribution of an observation given the state. One file per family.
//!
//! A family has parameters ([`Emission`]) and prepared densities ([`Density`]) that are made once per pass over
//! the data. Expected statistics are one vector of numbers per family, so that they can be added, averaged and
//! stored without knowledge of the family.

mod categorical;
mod gaussian;
mod mixture;
mod poisson;

pub use categorical::Categorical;
pub use gaussian::{Covariance, Gaussian};
pub use mixture::Mixture;
pub use poisson::Poisson;

use super::data::Sequences;
use crate::error::Result;
use crate::random::Stream;
use crate::tensor::Tensor;

/// The width of a padded row of states.
pub(super) fn padded(states: usize) -> usize {
    states.next_multiple_of(8)
}

/// What emissions need to know besides their parameters: the scale of the data and the priors.
#[derive(Clone, Debug, Default)]
pub(crate) struct Context {
    /// The mean of every column; sums of squares are taken around it. Empty for zeros.
    pub centre: Vec<f64>,
    /// The variance of every column.
    pub variances: Vec<f64>,
    /// Concentration of the Dirichlet prior of symbols and of the weights of a mixture, at least 1.
    pub concentration: f64,
    /// Number of pseudo-observations of the means.
    pub mean_weight: f64,
    /// Number of pseudo-observations of the covariances.
    pub covariance_weight: f64,
    /// Least variance, relative to that of the data.
    pub least: f64,
}

/// Densities of observations, prepared for many rows.
pub(crate) trait Density: Sync {
    /// ln p(row | state): rows × columns numbers to rows × `stride`; entries beyond the states may be overwritten.
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]);

    /// Adds the statistics of rows with weights (rows × `stride`, 0 beyond the states).
    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]);
}

/// The parameters of a family.
pub(crate) trait Emission {
    /// N.
    fn states(&self) -> usize;

    /// The number of numbers per observation.
    fn columns(&self) -> usize;

    /// Checks shapes and ranges.
    fn check(&self) -> Result<()>;

    /// Fails if a value is impossible for the family, and names its row and column.
    fn check_data(&self, data: &Sequences) -> Result<()>;

    /// The densities.
    fn density<'a>(&'a self, context: &'a Context) -> Box<dyn Density + 'a>;

    /// The length of the vector of statistics.
    fn statistics(&self) -> usize;

    /// Replaces the parameters by those that maximise the expected log-likelihood plus log prior. Parameters
    /// without data and prior remain.
    fn maximize(&mut self, statistics: &[f64], context: &Context);

    /// Appends the parameters as unconstrained numbers, for gradient methods.
    fn coordinates(&self, context: &Context, out: &mut Vec<f64>);

    /// Replaces the parameters by those of the coordinates at the front of `from`, which are removed.
    fn place(&mut self, from: &mut &[f64], context: &Context);

    /// Appends the derivatives of the expected log-likelihood plus log prior by the coordinates `at`, which are those of
    /// the parameters.
    fn gradient(&self, at: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>);

    /// The log density of the prior, without its constants.
    fn log_prior(&self, context: &Context) -> f64;

    /// The places of a state's statistics, in the same order for every state.
    fn places(&self, state: usize) -> Vec<usize>;

    /// Gives a state the parameters of another one.
    fn copy_state(&mut self, from: usize, to: usize);

    /// The number of free parameters of the states that are counted.
    fn parameters(&self, counted: &dyn Fn(usize) -> bool) -> usize;

    /// Draws an observation.
    fn draw(&self, state: usize, random: &mut Stream, out: &mut [f64]);

    /// The parameters by name.
    fn tensors(&self) -> Vec<Tensor<'_>>;
}

/// The emissions of a hidden Markov model.
#[derive(Clone, Debug, PartialEq)]
pub enum Emissions {
    /// A distribution over symbols per state.
    Categorical(Categorical),
    /// A normal distribution per state.
    Gaussian(Gaussian),
    /// Independent Poisson counts.
    Poisson(Poisson),
    /// A mixture of normal distributions per state.
    Mixture(Mixture),
}

impl Emissions {
    pub(crate) fn part(&self) -> &dyn Emission {
        match self {
            Emissions::Categorical(part) => part,
            Emissions::Gaussian(part) => part,
            Emissions::Poisson(part) => part,
            Emissions::Mixture(part) => part,
        }
    }

    pub(crate) fn part_mut(&mut self) -> &mut dyn Emission {
        match self {
            Emissions::Categorical(part) => part,
            Emissions::Gaussian(part) => part,
            Emissions::Poisson(part) => part,
            Emissions::Mixture(part) => part,
        }
    }

    /// `categorical`, `gaussian`, `poisson` or `mixture`.
    pub fn name(&self) -> &'static str {
        match self {
            Emissions::Categorical(_) => "categorical",
            Emissions::Gaussian(_) => "gaussian",
            Emissions::Poisson(_) => "poisson",
            Emissions::Mixture(_) => "mixture",
        }
    }
}
