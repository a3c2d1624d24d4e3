//! Orthant-wise limited-memory BFGS for f(x) + λ·‖x‖₁ with f smooth.
//!
//! Within one orthant the l1 norm is linear. A step takes the pseudo-gradient, the subgradient of least norm, to
//! choose an orthant and a quasi-Newton direction in it; components of the direction against the pseudo-gradient
//! are dropped, and coordinates that would change their sign become 0. The step is halved until the objective
//! falls enough. Memory: 2m + 6 vectors. Time: about one evaluation of f per step.
//!
//! Reference: G. Andrew, J. Gao, *Scalable training of L1-regularized log-linear models*, ICML 2007.

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::{Smooth, Step, dot, largest};
use crate::error::Result;

const SUFFICIENT: f64 = 1e-4;
/// Maximum number of evaluations in one line search.
const TRIALS: usize = 40;

/// The state between two steps.
///
/// ```
/// use zhat::internal::optimize::Owlqn;
/// // (x − 3)²/2 + (y − ½)²/2 + |x| + |y| has its minimum at (2, 0).
/// let mut owlqn = Owlqn::new(vec![0.0, 0.0], 1.0, 6);
/// for _ in 0..20 {
///     owlqn.step(&mut |x, gradient| {
///         (gradient[0], gradient[1]) = (x[0] - 3.0, x[1] - 0.5);
///         Ok(0.5 * (gradient[0] * gradient[0] + gradient[1] * gradient[1]))
///     })?;
/// }
/// assert!((owlqn.point()[0] - 2.0).abs() < 1e-9 && owlqn.point()[1] == 0.0);
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Owlqn {
    l1: f64,
    memory: Memory,
}

impl Owlqn {
    /// Starts at a point, with weight λ of the l1 norm and a history of this many pairs.
    pub fn new(point: Vec<f64>, l1: f64, history: usize) -> Self {
        Owlqn { l1, memory: Memory::new(point, history) }
    }

    /// The current point.
    pub fn point(&self) -> &[f64] {
        &self.memory.point
    }

    /// The point with its history.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The inverse of `memory`.
    pub(crate) fn from_memory(l1: f64, memory: Memory) -> Self {
        Owlqn { l1, memory }
    }

    fn norm(&self, point: &[f64]) -> f64 {
        self.l1 * point.iter().map(|x| x.abs()).sum::<f64>()
    }

    /// The subgradient of least norm.
    fn pseudo_gradient(&self, gradient: &[f64]) -> Vec<f64> {
        let one = |(x, g): (&f64, &f64)| {
            if *x != 0.0 { g + self.l1 * x.signum() } else { (g.abs() - self.l1).max(0.0) * g.signum() }
        };
        self.memory.point.iter().zip(gradient).map(one).collect()
    }

    /// One step. At a minimum, up to rounding, the point does not move. If f fails, the state is unchanged.
    ///
    /// # Errors
    /// If f fails.
    pub fn step(&mut self, f: &mut Smooth<'_>) -> Result<Step> {
        let (value, gradient) = self.memory.take(f)?;
        let pseudo = self.pseudo_gradient(&gradient);
        let objective = value + self.norm(&self.memory.point);
        let stays = Step { objective, stationarity: largest(&pseudo) };
        let mut direction = self.memory.direction(&pseudo, None);
        for (d, p) in direction.iter_mut().zip(&pseudo) {
            if *d * p >= 0.0 {
                *d = 0.0;
            }
        }
        if dot(&direction, &pseudo) >= 0.0 {
            self.memory.pairs.clear();
            direction.iter_mut().zip(&pseudo).for_each(|(d, p)| *d = -p);
        }
        if stays.stationarity == 0.0 {
            self.memory.here = Some((value, gradient));
            return Ok(stays);
        }
        let mut step =
            if self.memory.pairs.is_empty() { (1.0 / dot(&pseudo, &pseudo).sqrt()).min(1.0) } else { 1.0 };
        for _ in 0..TRIALS {
            let next: Vec<f64> = self
                .memory
                .point
                .iter()
                .zip(direction.iter().zip(&pseudo))
                .map(|(&x, (d, p))| {
                    let (moved, orthant) = (x + step * d, if x != 0.0 { x } else { -p });
                    if moved * orthant > 0.0 { moved } else { 0.0 }
                })
                .collect();
            let mut there = vec![0.0; next.len()];
            let reached = match f(&next, &mut there) {
                Ok(reached) => reached,
                Err(error) => {
                    self.memory.here = Some((value, gradient));
                    return Err(error);
                }
            };
            let along: f64 =
                next.iter().zip(&self.memory.point).zip(&pseudo).map(|((new, old), p)| (new - old) * p).sum();
            let new_objective = reached + self.norm(&next);
            if new_objective <= objective + SUFFICIENT * along && along < 0.0 {
                self.memory.advance(next, gradient, (reached, there));
                let gradient = self.memory.here.as_ref().map_or(&[][..], |here| &here.1);
                let stationarity = largest(&self.pseudo_gradient(gradient));
                return Ok(Step { objective: new_objective, stationarity });
            }
            step *= 0.5;
        }
        self.memory.pairs.clear();
        self.memory.here = Some((value, gradient));
        Ok(stays)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn badly_scaled_quadratics_with_l1_have_exact_zeros() {
        let a: Vec<f64> = (0..13).map(|i| 10f64.powf(i as f64 / 3.0 - 2.0)).collect();
        let b: Vec<f64> = (0..13).map(|i| (i as f64 * 0.7).sin() * 3.0).collect();
        let l1 = 0.05;
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            let mut value = 0.0;
            for i in 0..x.len() {
                gradient[i] = a[i] * (x[i] - b[i]);
                value += 0.5 * gradient[i] * (x[i] - b[i]);
            }
            Ok(value)
        };
        let mut owlqn = Owlqn::new(vec![0.0; 13], l1, 6);
        let mut last = f64::INFINITY;
        for _ in 0..500 {
            let step = owlqn.step(&mut f).unwrap();
            assert!(step.objective <= last);
            last = step.objective;
        }
        let mut zeros = 0;
        for i in 0..13 {
            let shrunk = (b[i].abs() - l1 / a[i]).max(0.0) * b[i].signum();
            assert!((owlqn.point()[i] - shrunk).abs() < 1e-6, "{i}: {} {shrunk}", owlqn.point()[i]);
            zeros += usize::from(shrunk == 0.0 && owlqn.point()[i] == 0.0);
        }
        assert!(zeros > 0);
    }

    #[test]
    fn a_resumed_run_has_the_same_bits() {
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = x[0].exp() - 2.0;
            gradient[1] = 4.0 * (x[1] + 1.0).powi(3);
            Ok(x[0].exp() - 2.0 * x[0] + (x[1] + 1.0).powi(4))
        };
        let mut whole = Owlqn::new(vec![3.0, -2.0], 0.1, 4);
        for _ in 0..3 {
            whole.step(&mut f).unwrap();
        }
        let mut resumed: Owlqn = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        for _ in 0..30 {
            assert_eq!(whole.step(&mut f).unwrap(), resumed.step(&mut f).unwrap());
        }
        assert_eq!(whole, resumed);
    }
}
