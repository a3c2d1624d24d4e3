//! The regret of online training with gradients from exact samples, and its bound.
//!
//! Step t has the loss f_t(θ) = λ‖θ‖² + the scaled losses of its rows, which is strongly convex with constant
//! 2λ, and the gradient ĝ_t = ∇f_t(θ_t) + e_t. The steps θ_{t+1} = Π(θ_t − ĝ_t/(2aλt)), with the projection Π to
//! the ball of radius B, have for every fixed u in the ball, such as the minimiser of the objective, the regret
//!
//! Σ f_t(θ_t) − f_t(u) ≤ Σ ‖ĝ_t‖²/(4aλt) − Σ ⟨e_t, θ_t − u⟩ − (1 − a)λ Σ ‖θ_t − u‖².
//!
//! | errors | the last two sums are at most |
//! |---|---|
//! | exact gradients | 0 |
//! | any, ‖e_t‖ ≤ r_t; a = 1 | Σ r_t(‖θ_t‖ + B), with confidence 1 − Σδ_t |
//! | any, ‖e_t‖ ≤ r_t; a < 1 | also Σ r_t²/(4(1 − a)λ) |
//! | exact samples; a = 1 | 2B√(2 ln(1/δ) Σ v_t²), with confidence 1 − δ |
//! | exact samples; a < 1 | also max v_t² ln(1/δ)/(2(1 − a)λ): independent of T |
//!
//! where v_t² = Σ R²‖xᵢ‖²·(scale)²/S is the sub-Gaussian variance of e_t in any direction. The proofs are in the
//! page on the regret of the documentation.
//!
//! The proofs need losses that are convex without their penalty. Those of partial rankings are not, except for
//! Plackett–Luce without ties before other items: then there is no bound.

use serde::{Deserialize, Serialize};

use super::Learning;
use super::step::radius;
use crate::learn::predict::file::known;
use crate::numeric::Elementwise;

/// Sums over the steps of an online run, from which its regret and the bounds on it are computed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regret {
    /// T, the number of steps.
    pub steps: u64,
    /// Σ f_t(θ_t); NaN where log Z is out of reach.
    #[serde(deserialize_with = "known")]
    pub losses: f64,
    lambda: f64,
    share: f64,
    failure: f64,
    /// Σ ‖ĝ_t‖²/t.
    gradients: f64,
    /// Σ r_t(‖θ_t‖ + B).
    drift: f64,
    /// Σ r_t².
    radii: f64,
    /// Σ v_t².
    variances: f64,
    /// max v_t².
    largest: f64,
    /// B.
    bound: f64,
    /// Whether all samples are exact.
    #[serde(default = "yes")]
    pub(super) exact: bool,
    /// Whether all losses are known to be convex.
    #[serde(default)]
    convex: bool,
}

fn yes() -> bool {
    true
}

impl Regret {
    pub(crate) fn new(how: &Learning, convex: bool) -> Self {
        Regret {
            steps: 0,
            losses: 0.0,
            lambda: how.lambda,
            share: how.share,
            failure: how.failure,
            gradients: 0.0,
            drift: 0.0,
            radii: 0.0,
            variances: 0.0,
            largest: 0.0,
            bound: 0.0,
            exact: true,
            convex,
        }
    }

    /// Adds a step: its loss and gradient at its point, the spread v_t, and B.
    pub(super) fn add(
        &mut self,
        how: &Learning,
        value: f64,
        point: &[f64],
        gradient: &[f64],
        spread: f64,
        bound: f64,
    ) {
        self.steps += 1;
        self.bound = bound;
        self.losses += value;
        self.gradients += f64::dot(gradient, gradient) / self.steps as f64;
        if spread > 0.0 {
            let radius = radius(spread, how, self.steps);
            self.drift += radius * (f64::dot(point, point).sqrt() + bound);
            self.radii += radius * radius;
            self.variances += spread * spread;
            self.largest = self.largest.max(spread * spread);
        }
    }

    /// The measured regret against a fixed point at which the objective has this value, after whole passes.
    pub fn measured(&self, minimum: f64) -> f64 {
        self.losses - self.steps as f64 * minimum
    }

    /// Whether all losses are known to be convex. Otherwise there is no bound.
    pub fn is_convex(&self) -> bool {
        self.convex
    }

    /// The part of both bounds that exact gradients have, too.
    pub fn exact_part(&self) -> f64 {
        self.gradients / (4.0 * self.share * self.lambda)
    }

    /// The bound for any errors of the gradients within their certified radii; infinite if the losses are not convex.
    pub fn radius_bound(&self) -> f64 {
        if !self.convex {
            return f64::INFINITY;
        }
        let left = 1.0 - self.share;
        let young = if left > 0.0 { self.radii / (4.0 * left * self.lambda) } else { f64::INFINITY };
        self.exact_part() + self.drift.min(young)
    }

    /// The bound for exact samples, whose errors have mean 0 given the past; infinite if the losses are not convex.
    pub fn sample_bound(&self) -> f64 {
        if !self.convex {
            return f64::INFINITY;
        }
        let log = (1.0 / self.failure).ln();
        let left = 1.0 - self.share;
        let constant =
            if left > 0.0 { self.largest * log / (2.0 * left * self.lambda) } else { f64::INFINITY };
        self.exact_part() + constant.min(2.0 * self.bound * (2.0 * log * self.variances).sqrt())
    }

    /// The confidence of each bound: 1 for exact gradients, 0 if some samples are approximate or the losses are
    /// not convex.
    pub fn confidence(&self) -> f64 {
        if !self.exact || !self.convex {
            0.0
        } else if self.variances > 0.0 {
            1.0 - self.failure
        } else {
            1.0
        }
    }
}
