//! User-defined scores.

use std::fmt::Debug;

use crate::error::Result;

/// User-defined scores.
pub trait Features: Send + Sync + Debug {
    /// s(y).
    ///
    /// # Errors
    /// If the score cannot be computed. Queries then return this error.
    fn score(&self, structure: &[u32]) -> Result<f64>;

    /// Lower and upper bounds on every score. A score outside is an error.
    fn range(&self) -> (f64, f64);

    /// The number of features; 0 if only scores are available.
    fn dimension(&self) -> usize {
        0
    }

    /// Adds `weight`·φ(y) to `sums`.
    ///
    /// # Errors
    /// If the features cannot be computed. Queries then return this error.
    fn add(&self, structure: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        let _ = (structure, weight, sums);
        Ok(())
    }

    /// An upper bound on ‖φ(y)‖.
    fn radius(&self) -> f64 {
        f64::INFINITY
    }
}

/// Scores given by a function, with its stated range.
pub struct Closure<F> {
    pub(crate) function: F,
    pub(crate) range: (f64, f64),
}

impl<F> Debug for Closure<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Closure({:?})", self.range)
    }
}

impl<F: Fn(&[u32]) -> Result<f64> + Send + Sync> Features for Closure<F> {
    fn score(&self, structure: &[u32]) -> Result<f64> {
        (self.function)(structure)
    }

    fn range(&self) -> (f64, f64) {
        self.range
    }
}
