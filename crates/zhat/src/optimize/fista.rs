//! Accelerated proximal gradient (FISTA) for f(x) + λ·‖x‖₁ with f smooth and convex.
//!
//! x⁺ = prox(y − ∇f(y)/L), y⁺ = x⁺ + ((t − 1)/t⁺)·(x⁺ − x), t⁺ = (1 + √(1 + 4t²))/2, with prox(z)ᵢ =
//! sign(zᵢ)·max(|zᵢ| − λ/L, 0). The objective converges at rate O(L/k²). Momentum that points uphill, ⟨y −
//! x⁺, x⁺ − x⟩ > 0, is reset (adaptive restart); this gives linear convergence for strongly convex f without
//! knowledge of the strong convexity constant.
//!
//! L is given or adapted. The adaptive L is reduced slightly at every step and then doubled until f(x⁺) ≤
//! f(y) + ⟨∇f(y), x⁺ − y⟩ + L/2·‖x⁺ − y‖² (or, if these differences are below rounding, until ⟨∇f(x⁺) −
//! ∇f(y), x⁺ − y⟩ ≤ L·‖x⁺ − y‖²). If values and gradients are estimates, the test may fail for every L, so a
//! maximum must be given.
//!
//! References: A. Beck, M. Teboulle, SIAM J. Imaging Sciences 2 (2009); B. O'Donoghue, E. Candès, Found.
//! Comput. Math. 15 (2015).

use serde::{Deserialize, Serialize};

use super::{Smooth, Step};
use crate::error::Result;

/// Factor by which an adaptive L is reduced at every step.
const SHRINK: f64 = 0.9;
/// Differences of f below this, relative to its size, are treated as rounding.
const ROUNDING: f64 = 1e-9;

/// Choice of L.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum StepSize {
    /// This L at every step.
    Fixed(f64),
    /// Adapted by backtracking.
    Adaptive {
        /// The current L.
        now: f64,
        /// An upper bound on the L that is needed, if known.
        most: Option<f64>,
    },
}

/// The state between two steps.
///
/// ```
/// use zhat::internal::optimize::{Fista, StepSize};
/// // (x − 3)²/2 + |x| has its minimum at 2.
/// let mut fista = Fista::new(vec![0.0], 1.0, StepSize::Adaptive { now: 0.1, most: None });
/// for _ in 0..100 {
///     fista.step(&mut |x, gradient| { gradient[0] = x[0] - 3.0; Ok(0.5 * gradient[0] * gradient[0]) })?;
/// }
/// assert!((fista.point()[0] - 2.0).abs() < 1e-9);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fista {
    point: Vec<f64>,
    ahead: Vec<f64>,
    momentum: f64,
    l1: f64,
    size: StepSize,
}

impl Fista {
    /// Starts at a point, with weight λ of the l1 norm.
    pub fn new(point: Vec<f64>, l1: f64, size: StepSize) -> Self {
        Fista { ahead: point.clone(), point, momentum: 1.0, l1, size }
    }

    /// The current point.
    pub fn point(&self) -> &[f64] {
        &self.point
    }

    /// The state without λ: the point, the extrapolated point, t and L.
    pub(crate) fn parts(&self) -> (&[f64], &[f64], f64, StepSize) {
        (&self.point, &self.ahead, self.momentum, self.size)
    }

    /// The inverse of `parts`, with λ = 0; both vectors must have the same length.
    pub(crate) fn from_parts(point: Vec<f64>, ahead: Vec<f64>, momentum: f64, size: StepSize) -> Self {
        Fista { point, ahead, momentum, l1: 0.0, size }
    }

    /// One step. It evaluates f once, at the extrapolated point; with an adaptive L, at least twice.
    ///
    /// # Errors
    /// If f fails.
    pub fn step(&mut self, f: &mut Smooth<'_>) -> Result<Step> {
        let n = self.point.len();
        let mut gradient = vec![0.0; n];
        let value = f(&self.ahead, &mut gradient)?;
        let (mut next, mut there) = (vec![0.0; n], vec![0.0; n]);
        let mut lipschitz = match self.size {
            StepSize::Fixed(lipschitz) => lipschitz,
            StepSize::Adaptive { now, .. } => SHRINK * now,
        };
        let reached = loop {
            self.proximal(&gradient, lipschitz, &mut next);
            let StepSize::Adaptive { most, .. } = self.size else { break value };
            let reached = f(&next, &mut there)?;
            let mut sums = [0.0; 3];
            for ((x, y), (g, h)) in next.iter().zip(&self.ahead).zip(gradient.iter().zip(&there)) {
                let moved = x - y;
                sums[0] += moved * moved;
                sums[1] += g * moved;
                sums[2] += (h - g) * moved;
            }
            let [square, along, curved] = sums;
            let below = if lipschitz * square > ROUNDING * (1.0 + value.abs()) {
                reached <= value + along + 0.5 * lipschitz * square
            } else {
                // At this distance differences of values are all rounding; differences of gradients are not.
                curved <= lipschitz * square
            };
            let most_of_all = most.unwrap_or(1e300);
            if below || lipschitz >= most_of_all {
                self.size = StepSize::Adaptive { now: lipschitz, most };
                break reached;
            }
            lipschitz = (2.0 * lipschitz).min(most_of_all);
        };
        let moved = next.iter().zip(&self.ahead).map(|(x, y)| lipschitz * (x - y));
        let stationarity = moved.fold(0.0f64, |m, x| m.max(x.abs()));
        let uphill: f64 =
            next.iter().zip(&self.ahead).zip(&self.point).map(|((x, y), old)| (y - x) * (x - old)).sum();
        if uphill > 0.0 {
            self.momentum = 1.0;
        }
        let momentum = 0.5 * (1.0 + (1.0 + 4.0 * self.momentum * self.momentum).sqrt());
        let ratio = if uphill > 0.0 { 0.0 } else { (self.momentum - 1.0) / momentum };
        for ((ahead, x), old) in self.ahead.iter_mut().zip(&next).zip(&self.point) {
            *ahead = x + ratio * (x - old);
        }
        self.momentum = momentum;
        self.point = next;
        let norm: f64 = self.point.iter().map(|x| x.abs()).sum();
        Ok(Step { objective: reached + self.l1 * norm, stationarity })
    }

    fn proximal(&self, gradient: &[f64], lipschitz: f64, out: &mut [f64]) {
        let threshold = self.l1 / lipschitz;
        for ((out, y), g) in out.iter_mut().zip(&self.ahead).zip(gradient) {
            let z = y - g / lipschitz;
            *out = z.signum() * (z.abs() - threshold).max(0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Σ aᵢ(xᵢ − bᵢ)²/2 + λ|xᵢ|, with a known minimum and curvatures from 1e-3 to 1e3.
    #[test]
    fn badly_scaled_quadratics_with_l1() {
        let a: Vec<f64> = (0..13).map(|i| 10f64.powf(i as f64 / 2.0 - 3.0)).collect();
        let b: Vec<f64> = (0..13).map(|i| (i as f64 * 0.7).sin() * 3.0).collect();
        let l1 = 0.02;
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            let mut value = 0.0;
            for i in 0..x.len() {
                gradient[i] = a[i] * (x[i] - b[i]);
                value += 0.5 * gradient[i] * (x[i] - b[i]);
            }
            Ok(value)
        };
        let mut fista = Fista::new(vec![0.0; 13], l1, StepSize::Adaptive { now: 1.0, most: None });
        let mut last = Step { objective: f64::INFINITY, stationarity: f64::INFINITY };
        for _ in 0..20_000 {
            last = fista.step(&mut f).unwrap();
        }
        assert!(last.stationarity < 1e-8, "{last:?}");
        for i in 0..13 {
            let shrunk = (b[i].abs() - l1 / a[i]).max(0.0) * b[i].signum();
            assert!((fista.point()[i] - shrunk).abs() < 1e-4, "{i}: {} {shrunk}", fista.point()[i]);
        }
    }

    #[test]
    fn a_resumed_run_has_the_same_bits() {
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = x[0].exp() - 2.0;
            gradient[1] = 4.0 * x[1].powi(3);
            Ok(x[0].exp() - 2.0 * x[0] + x[1].powi(4))
        };
        let mut whole = Fista::new(vec![3.0, -2.0], 0.1, StepSize::Adaptive { now: 1.0, most: None });
        for _ in 0..7 {
            whole.step(&mut f).unwrap();
        }
        let text = serde_json::to_string(&whole).unwrap();
        let mut resumed: Fista = serde_json::from_str(&text).unwrap();
        for _ in 0..20 {
            assert_eq!(whole.step(&mut f).unwrap(), resumed.step(&mut f).unwrap());
        }
        assert_eq!(whole, resumed);
    }
}
