//! Scores computed by a user's function.

use std::fmt::Debug;

use crate::error::Result;

/// User-defined scores.
pub trait Features: Send + Sync + Debug {
    /// s(y).
    fn score(&self, structure: &[u32]) -> Result<f64>;

    /// Numbers below and above every score. A score outside is an error.
    fn range(&self) -> (f64, f64);

    /// How many features there are; 0 where only scores are known.
    fn dimension(&self) -> usize {
        0
    }

    /// Adds `weight`·φ(y).
    fn add(&self, structure: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        let _ = (structure, weight, sums);
        Ok(())
    }

    /// A number that ‖φ(y)‖ does not exceed.
    fn radius(&self) -> f64 {
        f64::INFINITY
    }
}

/// A function as scores, with the range that it keeps to.
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
