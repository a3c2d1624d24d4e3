//! Minimisation of smooth functions, with or without an l1 norm. The whole state of an optimiser can be
//! saved, and a resumed run gives the same bits.

mod fista;
mod lbfgs;
mod memory;
mod owlqn;

pub use fista::{Fista, StepSize};
pub use lbfgs::Lbfgs;
pub(crate) use memory::Memory;
pub use owlqn::Owlqn;

use crate::numeric::parallel::prelude::*;

use crate::error::Result;
use crate::numeric::Elementwise;

/// A function to minimise: returns its value at a point and writes its gradient into the second argument.
pub type Smooth<'a> = dyn FnMut(&[f64], &mut [f64]) -> Result<f64> + 'a;

/// Applies an approximation of the inverse Hessian to a vector, in place.
pub type InverseHessian<'a> = dyn Fn(&mut [f64]) + 'a;

/// The result of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The objective including the l1 norm, at the new point.
    pub objective: f64,
    /// The largest component of the gradient, or with an l1 norm of the proximal gradient; zero at a minimum.
    pub stationarity: f64,
}

/// Block length of parallel sums. It is fixed, so that results do not depend on the number of threads.
const BLOCK: usize = 1 << 16;

fn dot(a: &[f64], b: &[f64]) -> f64 {
    if a.len() <= BLOCK {
        return f64::dot(a, b);
    }
    let sums: Vec<f64> = a.par_chunks(BLOCK).zip(b.par_chunks(BLOCK)).map(|(a, b)| f64::dot(a, b)).collect();
    sums.iter().sum()
}

/// a ← a + f·b.
fn add_multiple(a: &mut [f64], factor: f64, b: &[f64]) {
    in_blocks(a, b, |a, b| a.iter_mut().zip(b).for_each(|(a, b)| *a += factor * b));
}

/// b ← a − b.
fn subtract_from(a: &[f64], b: &mut [f64]) {
    in_blocks(b, a, |b, a| b.iter_mut().zip(a).for_each(|(b, a)| *b = a - *b));
}

/// Applies `work` to blocks in parallel; short vectors are processed in the calling thread.
fn in_blocks(a: &mut [f64], b: &[f64], work: impl Fn(&mut [f64], &[f64]) + Sync) {
    if a.len() <= BLOCK {
        work(a, b);
    } else {
        a.par_chunks_mut(BLOCK).zip(b.par_chunks(BLOCK)).for_each(|(a, b)| work(a, b));
    }
}

fn largest(x: &[f64]) -> f64 {
    let largest = |x: &[f64]| x.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    if x.len() <= BLOCK {
        return largest(x);
    }
    let blocks: Vec<f64> = x.par_chunks(BLOCK).map(largest).collect();
    largest(&blocks)
}
