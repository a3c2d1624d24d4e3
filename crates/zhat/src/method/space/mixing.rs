//! Mixing time of single-flip Metropolis on the hypercube, by canonical paths.
//!
//! The chain does nothing with probability ½. Otherwise it chooses one of the n labels and flips it with the
//! Metropolis probability min(1, π(z′)/π(z)). The canonical path from x to y flips the labels that differ,
//! from the first to the last. The congestion
//!
//!   ρ = max over edges e of (1/Q(e)) Σ_{paths x→y through e} π(x)π(y)·length,
//!   Q(z, z′) = min(π(z), π(z′))/2n,
//!
//! bounds the spectral gap from below by 1/ρ, and after τ(ε) ≤ ρ(ln 1/π(start) + ln 1/ε) steps the chain is
//! within ε of π in total variation (A. Sinclair, *Improved bounds for mixing rates of Markov chains and
//! multicommodity flow*, 1992; M. Jerrum and A. Sinclair 1996). For the uniform distribution this is D.
//! Randall's chain (2003), with ρ ≤ n². Vembu, Gärtner and Boley (2009, Section 3) mention the extension to
//! other distributions without details; the two bounds are below.
//!
//! If a path flips label i on e = (z, z′), then x agrees with z from i on and y agrees with z′ up to i, which
//! leaves 2^{i−1} times 2^{n−i} pairs.
//!
//! - Any scores with range Δ: π(x) ≤ e^Δ min(π(z), π(z′)), and all those y together have at most e^Δ 2^{−i}:
//!   ρ ≤ n² e^{2Δ}.
//! - Single scores: with η equal to x before i and to y from i on, π(x)π(y) = π(z)π(η). Over all η the sum is
//!   P(ηᵢ = z′ᵢ), and that times max(1, π(z)/π(z′)) is at most 1/(1 + e^{−|wᵢ|}), w the log odds: ρ ≤ 2n²
//!   maxᵢ 1/(1 + e^{−|wᵢ|}) ≤ 2n².

use super::sigmoid;

/// A bound on the congestion of the canonical paths of single flips: n² e^{2Δ} for n labels and scores with
/// range Δ.
///
/// ```
/// use zhat::internal::space::{flip_congestion, flip_steps, single_flip_congestion};
/// assert_eq!(flip_congestion(10, 0.0), 100.0);
/// // With single scores the range does not matter.
/// assert!(single_flip_congestion(&[5.0; 10]) < 200.0 && flip_congestion(10, 5.0) > 2e6);
/// assert!(flip_steps(100.0, 10, 0.0, 0.01) < 1200.0);
/// ```
pub fn flip_congestion(labels: usize, spread: f64) -> f64 {
    (labels as f64).powi(2) * (2.0 * spread).exp()
}

/// The bound for single scores: 2n² maxᵢ 1/(1 + e^{−|wᵢ|}), from the log odds of the labels.
pub fn single_flip_congestion(odds: &[f64]) -> f64 {
    let largest = odds.iter().fold(0.0f64, |most, w| most.max(w.abs()));
    2.0 * (odds.len() as f64).powi(2) * sigmoid(largest)
}

/// The number of single-flip steps after which the chain is within `distance` of the model in total
/// variation, from any start: ρ(n ln 2 + Δ + ln 1/ε).
pub fn flip_steps(congestion: f64, labels: usize, spread: f64, distance: f64) -> f64 {
    // No probability is below 2^{−n} e^{−Δ}.
    (congestion * (labels as f64 * std::f64::consts::LN_2 + spread - distance.ln())).ceil().max(0.0)
}
