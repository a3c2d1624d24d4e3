//! The state that quasi-Newton methods with limited memory share: the point, f and its gradient there, and the
//! last pairs s = x⁺ − x, y = ∇f⁺ − ∇f, from which the two-loop recursion computes a direction.
//!
//! Reference: J. Nocedal, S. J. Wright, *Numerical Optimization* (2006), Algorithm 7.4.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::{InverseHessian, Smooth, add_multiple, dot, subtract_from};
use crate::error::Result;

/// A point with its history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Memory {
    pub(super) point: Vec<f64>,
    /// The maximum number of pairs.
    history: usize,
    /// f and its gradient at the point, if evaluated.
    pub(super) here: Option<(f64, Vec<f64>)>,
    /// Most recent last.
    pub(super) pairs: VecDeque<Pair>,
}

/// A pair (s, y).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(Vec<f64>, Vec<f64>)", into = "(Vec<f64>, Vec<f64>)")]
pub(super) struct Pair {
    s: Vec<f64>,
    y: Vec<f64>,
    /// ⟨s, y⟩.
    product: f64,
}

impl From<(Vec<f64>, Vec<f64>)> for Pair {
    fn from((s, y): (Vec<f64>, Vec<f64>)) -> Self {
        let product = dot(&s, &y);
        Pair { s, y, product }
    }
}

impl From<Pair> for (Vec<f64>, Vec<f64>) {
    fn from(pair: Pair) -> Self {
        (pair.s, pair.y)
    }
}

impl Memory {
    pub(super) fn new(point: Vec<f64>, history: usize) -> Self {
        Memory { point, history: history.max(1), here: None, pairs: VecDeque::new() }
    }

    /// The whole state: the point, the maximum number of pairs, f and its gradient at the point, and the pairs.
    #[allow(clippy::type_complexity)]
    pub(crate) fn parts(
        &self,
    ) -> (&[f64], usize, Option<(f64, &[f64])>, impl ExactSizeIterator<Item = (&[f64], &[f64])>) {
        let here = self.here.as_ref().map(|(value, gradient)| (*value, gradient.as_slice()));
        let pairs = self.pairs.iter().map(|pair| (pair.s.as_slice(), pair.y.as_slice()));
        (&self.point, self.history, here, pairs)
    }

    /// The inverse of `parts`; all vectors must have the length of the point.
    pub(crate) fn from_parts(
        point: Vec<f64>,
        history: usize,
        here: Option<(f64, Vec<f64>)>,
        pairs: Vec<(Vec<f64>, Vec<f64>)>,
    ) -> Self {
        let pairs = pairs.into_iter().map(Pair::from).collect();
        Memory { point, history: history.max(1), here, pairs }
    }

    /// f and its gradient at the point, which the caller gives back with the next step.
    pub(super) fn take(&mut self, f: &mut Smooth<'_>) -> Result<(f64, Vec<f64>)> {
        match self.here.take() {
            Some(here) => Ok(here),
            None => {
                let mut gradient = vec![0.0; self.point.len()];
                Ok((f(&self.point, &mut gradient)?, gradient))
            }
        }
    }

    /// Moves to a point where f and its gradient are known; `gradient` is that at the point before.
    pub(super) fn advance(&mut self, point: Vec<f64>, mut gradient: Vec<f64>, there: (f64, Vec<f64>)) {
        // In place: the old point and gradient become the differences s and y.
        subtract_from(&point, &mut self.point);
        subtract_from(&there.1, &mut gradient);
        let pair = Pair::from((std::mem::replace(&mut self.point, point), gradient));
        if pair.product > f64::EPSILON * dot(&pair.y, &pair.y).sqrt() * dot(&pair.s, &pair.s).sqrt() {
            if self.pairs.len() == self.history {
                self.pairs.pop_front();
            }
            self.pairs.push_back(pair);
        }
        self.here = Some(there);
    }

    /// −H·gradient. H starts with `initial` or, without it, with a multiple of the identity.
    pub(super) fn direction(&self, gradient: &[f64], initial: Option<&InverseHessian<'_>>) -> Vec<f64> {
        let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut factors = Vec::with_capacity(self.pairs.len());
        for Pair { s, y, product } in self.pairs.iter().rev() {
            let factor = dot(s, &q) / product;
            add_multiple(&mut q, -factor, y);
            factors.push(factor);
        }
        if let Some(initial) = initial {
            initial(&mut q);
        } else if let Some(Pair { y, product, .. }) = self.pairs.back() {
            let scale = product / dot(y, y);
            q.iter_mut().for_each(|q| *q *= scale);
        }
        for (Pair { s, y, product }, factor) in self.pairs.iter().zip(factors.into_iter().rev()) {
            let change = factor - dot(y, &q) / product;
            add_multiple(&mut q, change, s);
        }
        q
    }
}
