//! Gaussian emissions: p(x | n) = N(x; μ_n, Σ_n) with spherical, diagonal, full or tied covariances.
//!
//! A value that is missing is integrated out: column by column for spherical and diagonal covariances, and by the
//! marginal and conditional distributions of a row for full and tied ones (`partial`). Statistics: weights, sums and
//! sums of products around the mean of the data, by matrix products of the weights with the powers of the
//! observations. M-step with κ pseudo-observations at the mean of the data and λ of its variances V (a
//! normal–inverse-Wishart prior with ν = λ − D − 1, Ψ = λV): μ = (Σγx + κm)/(Σγ + κ), Σ = (Σγ(x−μ)(x−μ)ᵀ +
//! κ(μ−m)(μ−m)ᵀ + λV)/(Σγ + λ + \[κ > 0\]). Variances below the least one are raised to it, in all directions: that
//! is the maximum under the constraint.

mod descent;
mod partial;
mod prepared;
mod update;

use serde::{Deserialize, Serialize};

use super::{Context, Density, Emission, padded};
use crate::error::{Error, Result};
use crate::learn::hmm::data::Sequences;
use crate::learn::hmm::linear;
use crate::random::Stream;
use crate::tensor::Tensor;

/// The form of the covariances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covariance {
    /// One variance per state.
    Spherical,
    /// One variance per state and column.
    #[default]
    Diagonal,
    /// One matrix per state.
    Full,
    /// One matrix for all states.
    Tied,
}

impl Covariance {
    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            Covariance::Spherical => "spherical",
            Covariance::Diagonal => "diagonal",
            Covariance::Full => "full",
            Covariance::Tied => "tied",
        }
    }

    /// The shape of the covariances.
    pub fn shape(self, states: usize, columns: usize) -> Vec<usize> {
        match self {
            Covariance::Spherical => vec![states],
            Covariance::Diagonal => vec![states, columns],
            Covariance::Full => vec![states, columns, columns],
            Covariance::Tied => vec![columns, columns],
        }
    }

    pub(in crate::learn::hmm) fn has_matrices(self) -> bool {
        matches!(self, Covariance::Full | Covariance::Tied)
    }
}

/// A normal distribution per state.
#[derive(Clone, Debug, PartialEq)]
pub struct Gaussian {
    pub(in crate::learn::hmm) states: usize,
    pub(in crate::learn::hmm) columns: usize,
    pub(in crate::learn::hmm) form: Covariance,
    /// N × D.
    pub(in crate::learn::hmm) means: Vec<f64>,
    /// As [`Covariance::shape`].
    pub(in crate::learn::hmm) covariances: Vec<f64>,
}

impl Gaussian {
    /// `means` has one row per state, and `covariances` the shape of its form.
    ///
    /// # Errors
    /// If an array has the wrong length, a number is not finite, or a covariance is not symmetric and positive
    /// definite.
    pub fn new(states: usize, form: Covariance, means: Vec<f64>, covariances: Vec<f64>) -> Result<Self> {
        let made = Gaussian { states, columns: means.len() / states.max(1), form, means, covariances };
        made.check()?;
        Ok(made)
    }

    /// The means, one row per state.
    pub fn means(&self) -> &[f64] {
        &self.means
    }

    /// The form of the covariances.
    pub fn form(&self) -> Covariance {
        self.form
    }

    /// The covariances, in the shape of their form.
    pub fn covariances(&self) -> &[f64] {
        &self.covariances
    }

    /// The variance of a column in a state, for spherical and diagonal covariances.
    fn variance(&self, state: usize, column: usize) -> f64 {
        match self.form {
            Covariance::Spherical => self.covariances[state],
            _ => self.covariances[state * self.columns + column],
        }
    }

    /// The covariance matrix of a state, for full and tied covariances.
    fn matrix(&self, state: usize) -> &[f64] {
        let size = self.columns * self.columns;
        match self.form {
            Covariance::Tied => &self.covariances,
            _ => &self.covariances[state * size..][..size],
        }
    }

    /// The number of matrices.
    fn matrices(&self) -> usize {
        if self.form == Covariance::Tied { 1 } else { self.states }
    }
}

impl Emission for Gaussian {
    fn states(&self) -> usize {
        self.states
    }

    fn columns(&self) -> usize {
        self.columns
    }

    fn check(&self) -> Result<()> {
        let (states, columns) = (self.states, self.columns);
        if columns == 0 || self.means.len() != states * columns {
            let message = format!("{} numbers are not N × D for {states} states", self.means.len());
            return Err(Error::argument("means", message));
        }
        if let Some(at) = self.means.iter().position(|mean| !mean.is_finite()) {
            let message =
                format!("state {} has the mean {}, expected a finite number", at / columns, self.means[at]);
            return Err(Error::argument("means", message));
        }
        let shape = self.form.shape(states, columns);
        if self.covariances.len() != shape.iter().product::<usize>() {
            let (found, form) = (self.covariances.len(), self.form.name());
            let message = format!("{found} numbers do not have the shape {shape:?} of {form} covariances");
            return Err(Error::argument("covariances", message));
        }
        if !self.form.has_matrices() {
            let per_state = self.covariances.len() / states.max(1);
            return match self.covariances.iter().position(|x| !(x.is_finite() && *x > 0.0)) {
                None => Ok(()),
                Some(at) => {
                    let (state, found) = (at / per_state, self.covariances[at]);
                    let message =
                        format!("state {state} has the variance {found}, expected a finite number above 0");
                    Err(Error::argument("covariances", message))
                }
            };
        }
        for n in 0..self.matrices() {
            let matrix = self.matrix(n);
            let whose = if self.form == Covariance::Tied {
                "the matrix".into()
            } else {
                format!("the matrix of state {n}")
            };
            let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (a.abs() + b.abs());
            let symmetric =
                (0..columns).all(|i| (0..i).all(|j| close(matrix[i * columns + j], matrix[j * columns + i])));
            if !symmetric {
                return Err(Error::argument("covariances", format!("{whose} is not symmetric")));
            }
            if linear::cholesky(matrix, columns).is_none() {
                return Err(Error::argument("covariances", format!("{whose} is not positive definite")));
            }
        }
        Ok(())
    }

    fn check_data(&self, _: &Sequences) -> Result<()> {
        Ok(())
    }

    fn density<'a>(&'a self, context: &'a Context) -> Box<dyn Density + 'a> {
        match self.form.has_matrices() {
            true => Box::new(prepared::Matrices::new(self, context)),
            false => Box::new(prepared::Columns::new(self, context)),
        }
    }

    fn statistics(&self) -> usize {
        padded(self.states) * prepared::features(self.form, self.columns)
    }

    fn maximize(&mut self, statistics: &[f64], context: &Context) {
        update::maximize(self, statistics, context);
    }

    fn coordinates(&self, context: &Context, out: &mut Vec<f64>) {
        descent::coordinates(self, context, out);
    }

    fn place(&mut self, from: &mut &[f64], context: &Context) {
        descent::place(self, from, context);
    }

    fn gradient(&self, at: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>) {
        descent::gradient(self, at, statistics, context, out);
    }

    fn log_prior(&self, context: &Context) -> f64 {
        update::log_prior(self, context)
    }

    fn places(&self, state: usize) -> Vec<usize> {
        let features = prepared::features(self.form, self.columns);
        (state * features..(state + 1) * features).collect()
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        let columns = self.columns;
        self.means.copy_within(from * columns..(from + 1) * columns, to * columns);
        if self.form != Covariance::Tied {
            let size = self.covariances.len() / self.states;
            self.covariances.copy_within(from * size..(from + 1) * size, to * size);
        }
    }

    fn parameters(&self, counted: &dyn Fn(usize) -> bool) -> usize {
        let matrix = self.columns * (self.columns + 1) / 2;
        let states = (0..self.states).filter(|&n| counted(n)).count();
        states * self.columns
            + match self.form {
                Covariance::Spherical => states,
                Covariance::Diagonal => states * self.columns,
                Covariance::Full => states * matrix,
                Covariance::Tied => matrix,
            }
    }

    fn draw(&self, state: usize, random: &mut Stream, out: &mut [f64]) {
        let mean = &self.means[state * self.columns..][..self.columns];
        let normal: Vec<f64> = (0..self.columns).map(|_| random.normal()).collect();
        if !self.form.has_matrices() {
            for d in 0..self.columns {
                out[d] = mean[d] + self.variance(state, d).sqrt() * normal[d];
            }
            return;
        }
        // Matrices are positive definite: checked when made, and kept so by the M-step.
        let factor = linear::cholesky(self.matrix(state), self.columns).unwrap_or_default();
        for (d, out) in out.iter_mut().enumerate() {
            let row = factor.get(d * self.columns..).unwrap_or_default();
            *out = mean[d] + row.iter().zip(&normal[..=d]).map(|(l, z)| l * z).sum::<f64>();
        }
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        vec![
            Tensor::new("means", &[self.states, self.columns], self.means.as_slice()),
            Tensor::new(
                "covariances",
                &self.form.shape(self.states, self.columns),
                self.covariances.as_slice(),
            ),
        ]
    }
}
