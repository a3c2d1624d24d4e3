//! Limited-memory BFGS for smooth functions, with a line search for the strong Wolfe conditions.
//!
//! The direction is d = −H∇f, with H built from the last m pairs s = x⁺ − x, y = ∇f⁺ − ∇f by the two-loop
//! recursion. The step α satisfies f(x + αd) ≤ f(x) + c₁α⟨∇f, d⟩ and |⟨∇f(x + αd), d⟩| ≤ c₂|⟨∇f, d⟩|. Memory:
//! 2m + 5 vectors. Time: about one evaluation of f per step.
//!
//! Reference: J. Nocedal, S. J. Wright, *Numerical Optimization* (2006), Algorithms 7.4, 3.5 and 3.6.

use serde::{Deserialize, Serialize};

use super::memory::Memory;
use super::{InverseHessian, Smooth, Step, dot, largest};
use crate::error::Result;

const SUFFICIENT: f64 = 1e-4;
const CURVATURE: f64 = 0.9;
/// Maximum number of evaluations in one line search.
const TRIALS: usize = 30;

/// The state between two steps.
///
/// ```
/// use zhat::internal::optimize::Lbfgs;
/// let mut lbfgs = Lbfgs::new(vec![-1.2, 1.0], 8);
/// let mut rosenbrock = |x: &[f64], gradient: &mut [f64]| {
///     let (a, b) = (1.0 - x[0], x[1] - x[0] * x[0]);
///     (gradient[0], gradient[1]) = (-2.0 * a - 400.0 * x[0] * b, 200.0 * b);
///     Ok(a * a + 100.0 * b * b)
/// };
/// for _ in 0..60 {
///     lbfgs.step(&mut rosenbrock)?;
/// }
/// assert!(lbfgs.point().iter().all(|x| (x - 1.0).abs() < 1e-6));
/// # Ok::<(), zhat::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Lbfgs {
    memory: Memory,
}

/// A point on the search line: its step, value and slope.
#[derive(Clone, Copy)]
struct Mark {
    step: f64,
    value: f64,
    slope: f64,
}

/// A point on the search line with its coordinates and gradient.
struct Place {
    mark: Mark,
    point: Vec<f64>,
    gradient: Vec<f64>,
}

impl Lbfgs {
    /// Starts at a point, with a history of this many pairs.
    pub fn new(point: Vec<f64>, history: usize) -> Self {
        Lbfgs { memory: Memory::new(point, history) }
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
    pub(crate) fn from_memory(memory: Memory) -> Self {
        Lbfgs { memory }
    }

    /// The parts of the memory.
    #[allow(clippy::type_complexity)]
    pub(crate) fn parts(
        &self,
    ) -> (&[f64], usize, Option<(f64, &[f64])>, impl ExactSizeIterator<Item = (&[f64], &[f64])>) {
        self.memory.parts()
    }

    /// The inverse of `parts`; all vectors must have the length of the point.
    pub(crate) fn from_parts(
        point: Vec<f64>,
        history: usize,
        here: Option<(f64, Vec<f64>)>,
        pairs: Vec<(Vec<f64>, Vec<f64>)>,
    ) -> Self {
        Lbfgs { memory: Memory::from_parts(point, history, here, pairs) }
    }

    /// One step. At a minimum, up to rounding, the point does not move. If f fails, the state is unchanged.
    ///
    /// # Errors
    /// If f fails.
    pub fn step(&mut self, f: &mut Smooth<'_>) -> Result<Step> {
        self.step_in(f, None)
    }

    /// One step; `initial` applies an approximation of the inverse Hessian, with which H starts in place of a
    /// multiple of the identity.
    ///
    /// # Errors
    /// If f fails.
    pub fn step_in(&mut self, f: &mut Smooth<'_>, initial: Option<&InverseHessian<'_>>) -> Result<Step> {
        let memory = &mut self.memory;
        let (value, gradient) = memory.take(f)?;
        let stationarity = largest(&gradient);
        let mut direction = memory.direction(&gradient, initial);
        let mut slope = dot(&gradient, &direction);
        let spoilt = slope >= 0.0 || !slope.is_finite();
        if spoilt {
            // The direction is not a descent direction because of rounding: fall back to steepest descent.
            direction.iter_mut().zip(&gradient).for_each(|(d, g)| *d = -g);
            slope = -dot(&gradient, &gradient);
        }
        let stays = Step { objective: value, stationarity };
        if slope == 0.0 {
            memory.here = Some((value, gradient));
            return Ok(stays);
        }
        let scaled = initial.is_some() || !memory.pairs.is_empty();
        let first = if spoilt || !scaled { (1.0 / stationarity).min(1.0) } else { 1.0 };
        let found = search(f, &memory.point, Mark { step: 0.0, value, slope }, &direction, first);
        drop(direction);
        let found = match found {
            Ok(Some(found)) => found,
            Ok(None) => {
                memory.pairs.clear();
                memory.here = Some((value, gradient));
                return Ok(stays);
            }
            Err(error) => {
                memory.here = Some((value, gradient));
                return Err(error);
            }
        };
        if spoilt {
            memory.pairs.clear();
        }
        let step = Step { objective: found.mark.value, stationarity: largest(&found.gradient) };
        memory.advance(found.point, gradient, (found.mark.value, found.gradient));
        Ok(step)
    }
}

/// A point that satisfies the strong Wolfe conditions, or else the lowest point found; `None` if no point is
/// lower than the start.
fn search(
    f: &mut Smooth<'_>,
    from: &[f64],
    start: Mark,
    direction: &[f64],
    first: f64,
) -> Result<Option<Place>> {
    let high = |mark: Mark| {
        !mark.value.is_finite() || mark.value > start.value + SUFFICIENT * mark.step * start.slope
    };
    let flat = |mark: Mark| mark.slope.abs() <= CURVATURE * start.slope.abs();
    let mut trial = |step: f64| -> Result<Place> {
        let point: Vec<f64> = from.iter().zip(direction).map(|(x, d)| x + step * d).collect();
        let mut gradient = vec![0.0; point.len()];
        let value = f(&point, &mut gradient)?;
        let mark = Mark { step, value, slope: dot(&gradient, direction) };
        Ok(Place { mark, point, gradient })
    };
    // Without its point and gradient, which are computed again in the rare case that no trial satisfies the
    // conditions: the vectors may be large.
    let mut best: Option<Mark> = None;
    let (mut low, mut up) = (start, None::<Mark>);
    let mut step = first;
    for _ in 0..TRIALS {
        let place = trial(step)?;
        let mark = place.mark;
        let too_far = high(mark) || mark.value >= low.value && low.step > 0.0;
        if !too_far && flat(mark) {
            return Ok(Some(place));
        }
        drop(place);
        if mark.value < best.map_or(start.value, |best| best.value) {
            best = Some(mark);
        }
        if too_far {
            up = Some(mark);
        } else if mark.slope * (step - low.step) >= 0.0 {
            up = Some(std::mem::replace(&mut low, mark));
        } else {
            low = mark;
        }
        step = match up {
            None => 2.0 * step,
            Some(up) => between(low, up),
        };
        if up.is_some_and(|up| (up.step - low.step).abs() <= 1e-16 * step.abs()) {
            break;
        }
    }
    best.map(|mark| trial(mark.step)).transpose()
}

/// The minimum of the cubic interpolant of two points, or the midpoint if that is too close to one of them.
fn between(low: Mark, up: Mark) -> f64 {
    let (a, b) = (low.step, up.step);
    let d1 = low.slope + up.slope - 3.0 * (low.value - up.value) / (a - b);
    let inside = d1 * d1 - low.slope * up.slope;
    let width = b - a;
    let middle = a + 0.5 * width;
    if inside.is_nan() || inside < 0.0 {
        return middle;
    }
    let d2 = width.signum() * inside.sqrt();
    let cubic = b - width * (up.slope + d2 - d1) / (up.slope - low.slope + 2.0 * d2);
    let (least, most) = (a + 0.1 * width, b - 0.1 * width);
    if cubic.is_finite() && (cubic - least) * (cubic - most) <= 0.0 { cubic } else { middle }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_of_quartics_in_many_dimensions() {
        let n = 200;
        let mut calls = 0;
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            calls += 1;
            gradient.fill(0.0);
            let mut value = 0.0;
            for i in 0..n - 1 {
                let (a, b) = (1.0 - x[i], x[i + 1] - x[i] * x[i]);
                value += a * a + 100.0 * b * b;
                gradient[i] += -2.0 * a - 400.0 * x[i] * b;
                gradient[i + 1] += 200.0 * b;
            }
            Ok(value)
        };
        let mut lbfgs = Lbfgs::new(vec![0.0; n], 10);
        let mut last = f64::INFINITY;
        for _ in 0..2000 {
            let step = lbfgs.step(&mut f).unwrap();
            assert!(step.objective <= last, "{} after {last}", step.objective);
            last = step.objective;
            if step.stationarity < 1e-9 {
                break;
            }
        }
        assert!(lbfgs.point().iter().all(|x| (x - 1.0).abs() < 1e-8), "{last}");
        assert!(calls < 2000, "{calls}");
    }

    #[test]
    fn a_resumed_run_has_the_same_bits_and_a_minimum_is_left_alone() {
        let mut f = |x: &[f64], gradient: &mut [f64]| {
            gradient[0] = x[0].exp() - 2.0 + 0.1 * x[1];
            gradient[1] = 4.0 * x[1].powi(3) + 0.1 * x[0];
            Ok(x[0].exp() - 2.0 * x[0] + x[1].powi(4) + 0.1 * x[0] * x[1])
        };
        let mut whole = Lbfgs::new(vec![3.0, -2.0], 5);
        for _ in 0..4 {
            whole.step(&mut f).unwrap();
        }
        let mut resumed: Lbfgs = serde_json::from_str(&serde_json::to_string(&whole).unwrap()).unwrap();
        for _ in 0..60 {
            assert_eq!(whole.step(&mut f).unwrap(), resumed.step(&mut f).unwrap());
        }
        assert_eq!(whole, resumed);
        assert!(whole.step(&mut f).unwrap().stationarity < 1e-7);
    }
}
