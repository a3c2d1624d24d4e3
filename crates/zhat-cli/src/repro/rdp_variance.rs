//! Exact variance of the paper's sampler, which keeps the K₁ states with the largest proposal probabilities
//! and makes K₂ independent draws from the others.
//!
//! State i of the tail has weight w(i) = nᵢ/(K₂ rᵢ), where r is the proposal renormalised over the tail and n
//! is multinomial. Hence E[w(i)w(j)] = 1 + D(i, j) with
//!
//!   D(i, j) = ([i = j]/rᵢ − 1)/K₂ for i and j in the tail, 0 otherwise.
//!
//! Let Gₜ(i, j) = E[α̂ₜ(i)α̂ₜ(j)] βₜ(i)βₜ(j)/Z², where β are the exact backward messages, and let P(j | i) be
//! the exact transition probability from i to j. Then
//!
//!   G₁ = γ₁γ₁ᵀ,   Gₜ₊₁ = Pᵀ(Gₜ ∘ (1 + Dₜ))P,   E[Ẑ²]/Z² = Σ (G_T ∘ (1 + D_T)),
//!
//! in O(T·N³). The choice at position t, given the messages up to t, contributes E[V(Ẑ | α̂ₜ)]/Z² = Σ Gₜ ∘
//! Dₜ.
//!
//! Corrections to Appendix B of the paper: Eq. 80 (used for Theorem B.3) subtracts (Σ √E[α̂²])² where the
//! variance needs Σᵢⱼ E[α̂(i)α̂(j)], so it is too small by the difference. Theorem B.4 multiplies variances,
//! so it is 0 if the first message is exact; in fact, the variance of a step adds to the variance propagated
//! from the earlier steps.

use zhat::dynamic::StateProposal;
use zhat::internal::numeric::{Matrix, log_sum_exp, multiply};
use zhat::model::Transitions;
use zhat::{Chain, Result};

/// Variances of Ẑ, all relative to Z².
#[derive(Debug)]
pub struct Predicted {
    /// Theorem B.1 at every position, assuming that the others are exact: Πₜ (1 + Vₜ) − 1.
    pub independent: f64,
    /// The contribution of the last position.
    pub last_step: f64,
    /// The same by Eq. 80 as printed.
    pub last_step_printed: f64,
    /// All positions by the recursion; exact.
    pub recursion: f64,
}

/// Predicts the variance on the first sequence of a chain, with states chosen from the proposal
/// `local-global`.
pub fn predict(chain: &Chain, top: usize, draws: usize) -> Result<Predicted> {
    let (n, length, draws) = (chain.states(), chain.lengths()[0], draws as f64);
    let backward = backward(chain);
    let first: Vec<f64> =
        (0..n).map(|i| chain.start()[i] + chain.emission(0, 0)[i] + backward[0][i]).collect();
    let log_z = log_sum_exp(&first);
    let mut marginal: Vec<f64> = first.iter().map(|x| (x - log_z).exp()).collect();
    let mut moments: Vec<f64> = marginal.iter().flat_map(|a| marginal.iter().map(move |b| a * b)).collect();
    let (mut second_moment, mut last_step, mut last_step_printed) = (1.0, 0.0, 0.0);
    for t in 0..length {
        let (tail, r) = tail(chain, t, top)?;
        let rows = tail.iter().zip(&r);
        let squares: f64 = rows.clone().map(|(&i, r)| moments[i * n + i] / r).sum();
        let products: f64 =
            tail.iter().flat_map(|&i| tail.iter().map(move |&j| i * n + j)).map(|at| moments[at]).sum();
        let roots: f64 = tail.iter().map(|&i| moments[i * n + i].sqrt()).sum();
        last_step = (squares - products) / draws;
        last_step_printed = (squares - roots * roots) / draws;
        let mass: f64 = tail.iter().map(|&i| marginal[i]).sum();
        let alone: f64 = rows.clone().map(|(&i, r)| marginal[i].powi(2) / r).sum();
        second_moment *= 1.0 + (alone - mass * mass) / draws;
        for (&i, r) in rows {
            let own = moments[i * n + i];
            tail.iter().for_each(|&j| moments[i * n + j] *= 1.0 - 1.0 / draws);
            moments[i * n + i] = own * (1.0 + (1.0 / r - 1.0) / draws);
        }
        if t + 1 < length {
            let steps = forward_probabilities(chain, t, &backward[t + 1], &backward[t]);
            let p = Matrix::row_major(&steps, n, n);
            let mut half = vec![0.0; n * n];
            multiply(Matrix::row_major(&moments, n, n), p, &mut half, false);
            multiply(p.transposed(), Matrix::row_major(&half, n, n), &mut moments, false);
            let mut next = vec![0.0; n];
            multiply(Matrix::row_major(&marginal, 1, n), p, &mut next, false);
            marginal = next;
        }
    }
    let recursion = moments.iter().sum::<f64>() - 1.0;
    Ok(Predicted { independent: second_moment - 1.0, last_step, last_step_printed, recursion })
}

/// The states in the tail at position t and their renormalised proposal.
fn tail(chain: &Chain, t: usize, top: usize) -> Result<(Vec<usize>, Vec<f64>)> {
    let q = StateProposal::LocalGlobal.probabilities(chain, 0, t)?;
    let mut order: Vec<usize> = (0..q.len()).collect();
    order.sort_by(|&a, &b| q[b].total_cmp(&q[a]));
    let tail = order.split_off(top);
    let total: f64 = tail.iter().map(|&i| q[i]).sum();
    let r = tail.iter().map(|&i| q[i] / total).collect();
    Ok((tail, r))
}

/// The log-transitions from position t to t + 1, in row-major order.
fn table(chain: &Chain, t: usize) -> Vec<f64> {
    let n = chain.states();
    match chain.transitions() {
        Transitions::Shared(values) => values.to_vec(),
        Transitions::PerStep(values) => values[t * n * n..(t + 1) * n * n].to_vec(),
        Transitions::Factored { left, right } => {
            let (right, rank) = (right.as_ref().unwrap_or(left), left.len() / n);
            let mut table = vec![0.0; n * n];
            let (left, right) = (Matrix::row_major(left, n, rank), Matrix::row_major(right, n, rank));
            multiply(left, right.transposed(), &mut table, false);
            table
        }
        _ => (0..n * n).map(|entry| chain.transitions().score(n, t, entry / n, entry % n)).collect(),
    }
}

/// log-transition(i, j) plus the emission and the backward message of j at t + 1.
fn onward(chain: &Chain, t: usize, after: &[f64]) -> Vec<f64> {
    let mut table = table(chain, t);
    for row in table.chunks_exact_mut(chain.states()) {
        row.iter_mut().zip(chain.emission(0, t + 1)).zip(after).for_each(|((x, e), b)| *x += e + b);
    }
    table
}

/// log βₜ for every position.
fn backward(chain: &Chain) -> Vec<Vec<f64>> {
    let (n, length) = (chain.states(), chain.lengths()[0]);
    let mut messages = vec![vec![0.0; n]; length];
    for t in (0..length - 1).rev() {
        messages[t] = onward(chain, t, &messages[t + 1]).chunks_exact(n).map(log_sum_exp).collect();
    }
    messages
}

/// P(xₜ₊₁ = j | xₜ = i).
fn forward_probabilities(chain: &Chain, t: usize, after: &[f64], here: &[f64]) -> Vec<f64> {
    let mut table = onward(chain, t, after);
    for (row, here) in table.chunks_exact_mut(chain.states()).zip(here) {
        row.iter_mut().for_each(|x| *x = if *x == f64::NEG_INFINITY { 0.0 } else { (*x - here).exp() });
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use zhat::Run;
    use zhat::dynamic::{RandomizedForward, Selection, States};
    use zhat::random::Streams;

    const STATES: usize = 4;
    const LENGTH: usize = 3;

    fn small(seed: u64) -> Chain {
        let mut random = Streams::new(seed, "variance tests").block(0);
        let mut numbers = |count: usize| -> Vec<f64> { (0..count).map(|_| random.normal()).collect() };
        let (start, emissions) = (numbers(STATES), numbers(LENGTH * STATES));
        let transitions = Transitions::Shared(numbers(STATES * STATES).into());
        Chain::new(start.into(), emissions.into(), vec![LENGTH], transitions).unwrap()
    }

    /// Every possible choice of the weights at a position, with its probability.
    fn choices(chain: &Chain, t: usize, top: usize, draws: usize) -> Vec<(f64, Vec<f64>)> {
        let (tail, r) = tail(chain, t, top).unwrap();
        let mut all = vec![(1.0, vec![0.0; STATES])];
        all[0].1.iter_mut().enumerate().filter(|(i, _)| !tail.contains(i)).for_each(|(_, w)| *w = 1.0);
        for _ in 0..draws {
            all = all
                .iter()
                .flat_map(|(p, weights)| {
                    tail.iter().zip(&r).map(move |(&i, r)| {
                        let mut weights = weights.clone();
                        weights[i] += 1.0 / (draws as f64 * r);
                        (p * r, weights)
                    })
                })
                .collect();
        }
        all
    }

    /// Σₓ exp score(x) Πₜ wₜ(xₜ).
    fn estimate(chain: &Chain, weights: &[&Vec<f64>]) -> f64 {
        let paths = (0..STATES.pow(LENGTH as u32))
            .map(|k| (0..LENGTH).map(|t| k / STATES.pow(t as u32) % STATES).collect::<Vec<usize>>());
        paths
            .map(|path| {
                let weight: f64 = path.iter().enumerate().map(|(t, &i)| weights[t][i]).product();
                weight * chain.score(0, &path).exp()
            })
            .sum()
    }

    /// V[Ẑ]/Z² and E[V(Ẑ | all positions but the last)]/Z² by enumeration of the sampler's distribution.
    fn enumerated(chain: &Chain, top: usize, draws: usize) -> (f64, f64) {
        let z = estimate(chain, &[&vec![1.0; STATES]; LENGTH]);
        let law: Vec<_> = (0..LENGTH).map(|t| choices(chain, t, top, draws)).collect();
        let (mut mean, mut square, mut within) = (0.0, 0.0, 0.0);
        for (p0, first) in &law[0] {
            for (p1, second) in &law[1] {
                let (mut own_mean, mut own_square) = (0.0, 0.0);
                for (p2, third) in &law[2] {
                    let value = estimate(chain, &[first, second, third]) / z;
                    own_mean += p2 * value;
                    own_square += p2 * value * value;
                }
                mean += p0 * p1 * own_mean;
                square += p0 * p1 * own_square;
                within += p0 * p1 * (own_square - own_mean * own_mean);
            }
        }
        assert!((mean - 1.0).abs() < 1e-12, "the sampler is unbiased: {mean}");
        (square - 1.0, within)
    }

    #[test]
    fn the_recursion_is_the_variance_of_the_sampler_and_the_printed_step_is_too_small() {
        for seed in 0..3 {
            let chain = small(seed);
            for (top, draws) in [(0, 1), (1, 1), (1, 2), (2, 1)] {
                let (total, last) = enumerated(&chain, top, draws);
                let predicted = predict(&chain, top, draws).unwrap();
                let what = format!(
                    "seed {seed}, K1 = {top}, K2 = {draws}: {predicted:?}, enumerated {total}, {last}"
                );
                assert!((predicted.recursion - total).abs() < 1e-10 * (1.0 + total), "{what}");
                assert!((predicted.last_step - last).abs() < 1e-10 * (1.0 + last), "{what}");
                assert!(predicted.last_step_printed < predicted.last_step, "{what}");
            }
        }
    }

    #[test]
    fn the_library_has_the_predicted_variance() {
        let chain = small(7);
        let method = RandomizedForward::default()
            .states(States::Count(3))
            .top(Some(1))
            .selection(Selection::Draws)
            .proposal(StateProposal::LocalGlobal)
            .replicates(40_000);
        let choice = method.choose(&chain, &Run::default()).unwrap();
        let z = estimate(&chain, &[&vec![1.0; STATES]; LENGTH]);
        let squares: Vec<f64> = choice.log_estimates(0).iter().map(|log| (log.exp() / z).powi(2)).collect();
        let count = squares.len() as f64;
        let mean = squares.iter().sum::<f64>() / count;
        let variance = squares.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
        let score = (mean - 1.0 - predict(&chain, 1, 2).unwrap().recursion) / (variance / count).sqrt();
        // The false-alarm rate is 1e-6.
        assert!(score.abs() < 4.9, "{score}");
    }
}
