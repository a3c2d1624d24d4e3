//! Minimising smooth functions, and smooth ones plus an l1 norm: methods whose whole state is data, so that work can be stopped and resumed
//! with the same bits.

mod fista;
mod lbfgs;

pub use fista::{Fista, StepSize};
pub use lbfgs::Lbfgs;

use crate::error::Result;

/// A function to minimise: its value at a point, and its gradient into the second argument.
pub type Smooth<'a> = dyn FnMut(&[f64], &mut [f64]) -> Result<f64> + 'a;

/// What a step has led to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The whole objective at the new point.
    pub objective: f64,
    /// The largest component of what must vanish at a minimum: the gradient, or with an l1 norm the proximal gradient.
    pub stationarity: f64,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn largest(x: impl Iterator<Item = f64>) -> f64 {
    x.fold(0.0, |m: f64, x| m.max(x.abs()))
}
