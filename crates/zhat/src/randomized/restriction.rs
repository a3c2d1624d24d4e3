//! A chain on the states that were chosen.
//!
//! With the chosen states and their weights held fixed the estimate is
//!
//!   Ẑ = Σ_{x, xₜ∈Ωₜ} exp score(x) · Πₜ wₜ(xₜ),
//!
//! the partition function of a lattice of K states a position whose node scores are emissions plus log weights. Everything known about
//! exact lattices holds for it: gradient, entropy, samples. Time O(T·K²) a sequence.

use super::proposal::Support;
use crate::error::Result;
use crate::lattice::{Edges, Lattice, LayerNodes, restricted_steps_of};
use crate::model::Chain;
use crate::numeric::Real;
use crate::run::Clock;
use crate::sequence::ChainGradient;

/// Calls `work` with the lattice of sequence b on its chosen states; there must be some at every position.
pub(crate) fn with_lattice<F: Real, R>(
    chain: &Chain<F>,
    b: usize,
    support: &Support,
    work: impl FnOnce(&Lattice<'_, F>) -> R,
) -> R {
    let scores: Vec<Vec<F>> = (0..support.len()).map(|t| node_scores(chain, b, t, support, true)).collect();
    let pairs: Vec<(&[u32], &[u32])> = (1..support.len())
        .map(|t| (support.at(t - 1).states.as_slice(), support.at(t).states.as_slice()))
        .collect();
    let (transitions, states) = (chain.transitions(), chain.states());
    let steps = restricted_steps_of(transitions, states, pairs.clone());
    let nodes = LayerNodes(scores.iter().map(Vec::as_slice).collect());
    let edges = Edges { transitions, states, sets: Some(pairs) };
    work(&Lattice::new(&[support.len()], &nodes, &*steps, edges))
}

/// The scores of the chosen states of position t, start included, with or without their log weights.
pub(crate) fn node_scores<F: Real>(
    chain: &Chain<F>,
    b: usize,
    t: usize,
    support: &Support,
    weighted: bool,
) -> Vec<F> {
    let (chosen, emission) = (support.at(t), chain.emission(b, t));
    let pairs = chosen.states.iter().zip(&chosen.log_weights);
    pairs
        .map(|(&i, &weight)| {
            let i = i as usize;
            let start = if t == 0 { chain.start()[i].to_f64() } else { 0.0 };
            F::from_f64(emission[i].to_f64() + start + if weighted { weight } else { 0.0 })
        })
        .collect()
}

/// log Ẑ of sequence b.
pub(crate) fn log_partition<F: Real>(
    chain: &Chain<F>,
    b: usize,
    support: &Support,
    clock: &Clock<'_>,
) -> Result<f64> {
    if support.is_impossible() {
        return Ok(f64::NEG_INFINITY);
    }
    with_lattice(chain, b, support, |lattice| Ok(lattice.log_partitions(clock)?[0]))
}

/// Adds `factor` times the marginals of sequence b on its chosen states to B×T×N numbers.
pub(crate) fn add_marginals<F: Real>(
    chain: &Chain<F>,
    b: usize,
    support: &Support,
    factor: f64,
    clock: &Clock<'_>,
    marginals: &mut [F],
) -> Result<()> {
    if support.is_impossible() || factor == 0.0 {
        return Ok(());
    }
    with_lattice(chain, b, support, |lattice| {
        let messages = lattice.sweep(clock)?;
        let add = |t: usize, row: &[F]| scatter(chain, b, t, support, row, marginals);
        weighted_marginals(lattice, &messages, factor, add);
        Ok(())
    })
}

/// Adds `factor` times the gradient of log Ẑ of sequence b to `gradient`.
pub(crate) fn add_gradient<F: Real>(
    chain: &Chain<F>,
    b: usize,
    support: &Support,
    factor: f64,
    clock: &Clock<'_>,
    gradient: &mut ChainGradient<F>,
) -> Result<()> {
    if support.is_impossible() || factor == 0.0 {
        return Ok(());
    }
    with_lattice(chain, b, support, |lattice| {
        let messages = lattice.sweep(clock)?;
        weighted_marginals(lattice, &messages, factor, |t, row| {
            add_node_gradient(chain, b, t, support, row, gradient);
        });
        lattice.add_edge_marginals(&messages, &[factor], clock, &mut gradient.transitions)
    })
}

/// Calls `add` with every position and `factor` times the marginals of its chosen states.
fn weighted_marginals<F: Real>(
    lattice: &Lattice<'_, F>,
    messages: &crate::lattice::Messages<F>,
    factor: f64,
    mut add: impl FnMut(usize, &[F]),
) {
    let factor = F::from_f64(factor);
    let mut row = Vec::new();
    for t in 0..lattice.layout.steps() {
        row.resize(lattice.layout.size(t), F::ZERO);
        lattice.node_marginals(messages, 0, t, &mut row);
        row.iter_mut().for_each(|x| *x *= factor);
        add(t, &row);
    }
}

/// Adds what the chosen states of a position have to B×T×N numbers.
fn scatter<F: Real>(chain: &Chain<F>, b: usize, t: usize, support: &Support, row: &[F], out: &mut [F]) {
    let from = (b * chain.steps() + t) * chain.states();
    for (&i, &x) in support.at(t).states.iter().zip(row) {
        out[from + i as usize] += x;
    }
}

/// Adds a gradient with respect to the scores of the chosen states of a position.
pub(crate) fn add_node_gradient<F: Real>(
    chain: &Chain<F>,
    b: usize,
    t: usize,
    support: &Support,
    row: &[F],
    gradient: &mut ChainGradient<F>,
) {
    scatter(chain, b, t, support, row, &mut gradient.emissions);
    if t == 0 {
        for (&i, &x) in support.at(0).states.iter().zip(row) {
            gradient.start[i as usize] += x;
        }
    }
}
