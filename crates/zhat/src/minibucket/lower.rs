//! Z ≥ Σ of the weights of any states, as long as they differ: a lower bound that zeros cannot spoil.

use std::collections::HashSet;

use super::proposal::{Proposal, Scratch};
use crate::numeric;
use crate::random::Streams;
use crate::run::Clock;

/// Numbers that the states looked at may take together, and their count at the most.
const NUMBERS: usize = 1 << 16;
const DRAWS: usize = 1024;

/// log of the weight of some likely states together; −∞ if none was found. `variables` is their number in the graph.
pub(super) fn by_states(proposal: &Proposal<'_>, variables: usize, clock: &Clock<'_>) -> f64 {
    let draws = (NUMBERS / (variables + 1)).clamp(4, DRAWS);
    let mut random = Streams::new(0, "mini-bucket lower bound").block(0);
    let (mut state, mut scratch) = (vec![0; variables], Scratch::default());
    let mut seen: HashSet<Vec<usize>> = HashSet::new();
    let mut scores = Vec::with_capacity(draws);
    for _ in 0..draws {
        if clock.is_cancelled() || clock.is_out_of_time() {
            break;
        }
        if proposal.draw(&mut random, &mut state, &mut scratch) > f64::NEG_INFINITY && !seen.contains(&state) {
            scores.push(proposal.score(&state));
            seen.insert(state.clone());
        }
    }
    numeric::log_sum_exp(&scores)
}
