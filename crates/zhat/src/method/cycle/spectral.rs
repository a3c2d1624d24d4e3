//! The spectral bound: A(θ) ≤ Σ_l ρ_l·(N·log λ_l + g_l·log C) for all shares ρ_l ≥ 0, Σ ρ_l = 1, and all u_l
//! with Σ_l ρ_l·u_l = θ⁰, where λ_l is the spectral radius of M_l(x, y) = exp(θˡ(x, y)/ρ_l + u_l(y)) and g_l
//! = gcd(N, l).
//!
//! Proof: log Z is convex, so A(θ) ≤ Σ ρ_l·A_l, where A_l has only the interactions at distance l, as θˡ/ρ_l.
//! These form g_l cycles of N/g_l positions, each with the partition function tr M_l^{N/g_l} ≤ C·λ_l^{N/g_l}.
//! For every positive vector r the radius is at most max_x (M r)(x)/r(x) (Collatz, Wielandt), so the bound is
//! certified at every stopping point. With one distance the bound is at most log C above A, for any length of
//! the cycle.
//!
//! Algorithm: r is computed by power iteration, with damping if the matrix is periodic. The same passes give
//! the stationary distribution π of P(x, y) = M(x, y)·r(y)/(M r)(x). Σ ρ_l·log λ_l is jointly convex in (ρ,
//! ρ·u); its gradient with respect to ρ_l·u_l is π_l, and L-BFGS minimises it. Cost: a pass of C²
//! exponentials per distance and iteration; memory: a few vectors.
//!
//! References: Y. Jernite, A. M. Rush, D. Sontag (ICML 2015) for the model; M. Wainwright, T. Jaakkola, A.
//! Willsky, *A new class of upper bounds on the log partition function*, IEEE Trans. Inf. Theory 51 (2005)
//! for the combination; R. Horn, C. Johnson, *Matrix Analysis*, Section 8.1.
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::cycle::Spectral;
//! use zhat::model::{Interactions, SequenceMrf};
//! let theta = Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0]]);
//! let model = SequenceMrf::new(10, vec![0.0, 0.1], theta)?;
//! println!("log Z = {}", Spectral::default().log_partition(&model, &Run::default())?);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::passes::{Pass, Passes};
use super::star::largest;
use super::{Bounded, upper};
use crate::answer::{Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::model::SequenceMrf;
use crate::numeric::rounding_allowance;
use crate::optimize::Lbfgs;
use crate::options::{FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::Run;

const NAME: &str = "spectral";
const HISTORY: usize = 10;
/// Minimum share, because scores are divided by it.
const LEAST_SHARE: f64 = 1e-6;

/// The spectral bound.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Spectral {
    /// ρ₁, …, ρ_K; optimised with the other parameters if empty.
    pub shares: Vec<f64>,
    /// Maximum number of steps of L-BFGS.
    pub iterations: usize,
    /// Maximum number of power iterations per step.
    pub passes: usize,
    /// Power iterations end once the certified bound is this close to its limit, in nats per position.
    pub tolerance: f64,
}

options!(Spectral {
    shares: Vec<f64> => Range::closed(0.0, 1.0),
    iterations: usize => ITERATIONS,
    passes: usize => Range::whole(1, 1_000_000_000),
    tolerance: f64 => FROM_ZERO
});

impl Default for Spectral {
    fn default() -> Self {
        Spectral { shares: Vec::new(), iterations: 100, passes: 200, tolerance: 1e-10 }
    }
}

/// For each distance, a vector for the certificate and the corresponding stationary distribution.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Vectors {
    /// log r_l.
    pub right: Vec<Vec<f64>>,
    /// π_l.
    pub law: Vec<Vec<f64>>,
}

impl Vectors {
    pub fn new(context: usize, states: usize) -> Self {
        let law = vec![1.0 / states as f64; states];
        Vectors { right: vec![vec![0.0; states]; context], law: vec![law; context] }
    }
}

/// The result for one distance.
struct Radius {
    /// A certified bound on log λ, without its rounding; −∞ if λ = 0.
    high: f64,
    rounding: f64,
    /// The current estimate of log λ.
    value: f64,
    /// The derivative of ρ·log λ with respect to ρ at fixed products: the entropy rate.
    entropy: f64,
}

/// Performs power iterations for one distance. The vectors keep the values of the last pass.
fn radius(
    passes: &Passes<'_>,
    apart: usize,
    scale: f64,
    unary: &[f64],
    vectors: (&mut Vec<f64>, &mut Vec<f64>),
    how: &Spectral,
    stop: &dyn Fn() -> bool,
) -> Radius {
    let (right, law) = vectors;
    let possible = |x: usize| unary[x] > f64::NEG_INFINITY;
    let mut found = Radius { high: f64::INFINITY, rounding: 0.0, value: 0.0, entropy: 0.0 };
    let mut last = f64::INFINITY;
    for i in 0..how.passes.max(1) {
        let columns: Vec<f64> = unary.iter().zip(right.iter()).map(|(u, h)| u + h).collect();
        let Ok(Pass { up, down, energy }) = passes.pass(apart, scale, &columns, Some(law), true) else {
            break;
        };
        let rounding = passes.rounding(scale, largest(&columns))
            + rounding_allowance(4.0, largest(&up) + largest(right) + largest(unary));
        let (mut high, mut low, mut mean) = (f64::NEG_INFINITY, f64::INFINITY, 0.0);
        for x in (0..up.len()).filter(|&x| possible(x)) {
            let ratio = up[x] - right[x];
            high = high.max(ratio);
            if law[x] > 0.0 && ratio > f64::NEG_INFINITY {
                low = low.min(ratio);
                mean += law[x] * ratio;
            }
        }
        if high + rounding < found.high + found.rounding {
            (found.high, found.rounding) = (high, rounding);
        }
        let total: f64 = down.iter().sum();
        if high == f64::NEG_INFINITY || total <= 0.0 {
            // No relevant state has a successor, or the distribution has vanished.
            found.value = found.high;
            break;
        }
        let moved: f64 = down.iter().zip(law.iter()).map(|(m, p)| (m - p).abs()).sum();
        // t = θ/ρ + u + log r: the entropy rate is the mean of a(x) − t.
        let ahead: f64 = law.iter().zip(&up).filter(|(p, _)| **p > 0.0).map(|(p, a)| p * a).sum();
        (found.value, found.entropy) = (mean, ahead - energy);
        let span = high - low;
        if span <= how.tolerance && moved <= how.tolerance || i + 1 == how.passes.max(1) || stop() {
            break;
        }
        // If the matrix is periodic, the span does not shrink; averaging with the previous vector breaks the
        // period.
        let half = span > 0.8 * last;
        last = span;
        let centre = 0.5 * (high + low.max(high - 1e3));
        for x in 0..right.len() {
            let next = if up[x] > f64::NEG_INFINITY { up[x] - centre } else { right[x] - 1.0 };
            right[x] = if half { log_mean(next, right[x]) } else { next };
            law[x] = if half { 0.5 * (law[x] + down[x] / total) } else { down[x] / total };
        }
    }
    found
}

fn log_mean(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    high + (0.5 + 0.5 * (low - high).exp()).ln()
}

fn greatest_common_divisor(a: usize, b: usize) -> usize {
    if b == 0 { a } else { greatest_common_divisor(b, a % b) }
}

/// A point of the optimisation: the shares, and e_l with u_l = θ⁰ + e_l/ρ_l for l < K. The last e_l is such
/// that they sum to 0.
pub(crate) struct Point<'a> {
    pub shares: &'a [f64],
    pub duals: &'a [f64],
}

/// The value of the bound at a point.
pub(crate) struct Evaluation {
    /// The certified bound on A, including rounding; −∞ if Z = 0.
    pub high: f64,
    pub rounding: f64,
    /// Σ ρ_l·log λ_l.
    value: f64,
    /// The derivative with respect to the share of each distance: the entropy rate and the mean of θ⁰.
    by_share: Vec<f64>,
}

/// Evaluates a point. The iteration starts from the given vectors and stores its last values there.
pub(crate) fn evaluate(
    passes: &Passes<'_>,
    length: usize,
    point: &Point<'_>,
    vectors: &mut Vectors,
    how: &Spectral,
    stop: &dyn Fn() -> bool,
) -> Evaluation {
    let unary = passes.unary();
    let states = unary.len();
    let context = point.shares.len();
    let mut last = vec![0.0; states];
    for dual in point.duals.chunks_exact(states) {
        last.iter_mut().zip(dual).for_each(|(last, e)| *last -= e);
    }
    let possible = unary.iter().filter(|u| **u > f64::NEG_INFINITY).count().max(1) as f64;
    let n = length as f64;
    let mut evaluation = Evaluation { high: 0.0, rounding: 0.0, value: 0.0, by_share: Vec::new() };
    for l in 0..context {
        let share = point.shares[l];
        let dual = point.duals.get(l * states..(l + 1) * states).unwrap_or(&last);
        let own: Vec<f64> = unary.iter().zip(dual).map(|(u, e)| u + e / share).collect();
        let (right, law) = (&mut vectors.right[l], &mut vectors.law[l]);
        let found = radius(passes, l + 1, share.recip(), &own, (right, law), how, stop);
        let ends = greatest_common_divisor(length, l + 1) as f64 * possible.ln();
        evaluation.high += share * (n * found.high + ends);
        let moved = rounding_allowance(4.0 * context as f64, largest(&own));
        evaluation.rounding += share * n * (found.rounding + moved);
        evaluation.rounding += rounding_allowance(8.0, n * largest(&[found.high]) + ends);
        evaluation.value += share * found.value;
        let law = law.iter().zip(unary).filter(|(p, _)| **p > 0.0);
        let mean: f64 = law.map(|(p, u)| if u.is_finite() { p * u } else { 0.0 }).sum();
        evaluation.by_share.push(found.entropy + mean);
    }
    evaluation.high += evaluation.rounding;
    evaluation
}

/// Shares from their logarithms up to a constant; the logarithm of the last share is 0.
fn shares_of(logarithms: &[f64]) -> Vec<f64> {
    let top = logarithms.iter().fold(0.0f64, |m, z| m.max(*z));
    let weights: Vec<f64> = logarithms.iter().chain([&0.0]).map(|z| (z - top).exp()).collect();
    let total: f64 = weights.iter().sum();
    let room = 1.0 - LEAST_SHARE * weights.len() as f64;
    weighted(weights.iter().map(|w| LEAST_SHARE + room * w / total).collect())
}

/// Sets the last share to 1 minus the others, so that they sum to 1 up to one rounding.
fn weighted(mut shares: Vec<f64>) -> Vec<f64> {
    let before: f64 = shares.iter().rev().skip(1).sum();
    if let Some(last) = shares.last_mut() {
        *last = 1.0 - before;
    }
    shares
}

/// Checks shares chosen by the user.
pub(crate) fn checked_shares(shares: &[f64], context: usize) -> Result<Vec<f64>> {
    let total: f64 = shares.iter().sum();
    let fine = shares.iter().all(|share| *share >= LEAST_SHARE);
    if shares.len() != context || !fine || (total - 1.0).abs() > 1e-6 {
        return Err(Error::argument(
            "shares",
            format!("expected {context} numbers from {LEAST_SHARE} on that add up to 1"),
        ));
    }
    Ok(weighted(shares.iter().map(|share| share / total).collect()))
}

impl Forecasts<SequenceMrf> for Spectral {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let history = 8.0 * states * context * (2 * HISTORY + 12) as f64;
        Forecast {
            bytes: Passes::bytes(model, run.threads()) + history,
            seconds: 8e-9
                * states
                * states
                * context
                * self.passes.clamp(1, 10) as f64
                * self.iterations.max(1) as f64,
            promise: Promise::Bounds,
        }
    }
}

impl LogPartition<SequenceMrf> for Spectral {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        let (states, context) = (model.states(), model.context());
        let fixed = match self.shares.as_slice() {
            [] => None,
            shares => Some(checked_shares(shares, context)?),
        };
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        run.install(|| {
            let passes = Passes::new(model).until(&clock);
            let stop = || clock.must_stop();
            let mut vectors = Vectors::new(context, states);
            let mut best = Bounded { high: f64::INFINITY, rounding: 0.0 };
            let mut best_shares = Vec::new();
            let free = if fixed.is_some() { 0 } else { context - 1 };
            let mut objective = |x: &[f64], gradient: &mut [f64]| {
                let shares = fixed.clone().unwrap_or_else(|| shares_of(&x[..free]));
                let point = Point { shares: &shares, duals: &x[free..] };
                let found = evaluate(&passes, model.length(), &point, &mut vectors, self, &stop);
                if found.high == f64::NEG_INFINITY {
                    return Err(Error::ZeroPartition);
                }
                if found.high < best.high {
                    best = Bounded { high: found.high, rounding: found.rounding };
                    best_shares = shares.clone();
                    clock.bounds(f64::NEG_INFINITY, best.high);
                }
                if stop() {
                    return Err(Error::Interrupted);
                }
                let mean: f64 = shares.iter().zip(&found.by_share).map(|(s, g)| s * g).sum();
                for l in 0..free {
                    let room = 1.0 - LEAST_SHARE * context as f64;
                    let weight = (shares[l] - LEAST_SHARE) / room;
                    gradient[l] = weight * (found.by_share[l] - mean);
                }
                let (last, others) = vectors.law.split_last().ok_or(Error::ZeroPartition)?;
                for (gradient, law) in gradient[free..].chunks_exact_mut(states).zip(others) {
                    for ((g, p), q) in gradient.iter_mut().zip(law).zip(last) {
                        *g = p - q;
                    }
                }
                Ok(found.value)
            };
            let mut lbfgs = Lbfgs::new(vec![0.0; free + (context - 1) * states], HISTORY);
            let mut stopped = false;
            let mut last = f64::INFINITY;
            for i in 0..self.iterations.max(1) {
                clock.progress(NAME, i as u64, self.iterations as u64);
                match lbfgs.step(&mut objective) {
                    Ok(step) if step.stationarity <= 1e-10 || step.objective >= last => break,
                    Ok(step) => last = step.objective,
                    Err(Error::Interrupted) => {
                        stopped = true;
                        break;
                    }
                    Err(other) => return Err(other),
                }
            }
            if best.high == f64::INFINITY {
                clock.check()?;
            }
            let mut diagnostics = Diagnostics::new(NAME).note("shares", best_shares);
            diagnostics.stopped_early = stopped;
            Ok(upper(best, diagnostics, &clock))
        })
    }
}
