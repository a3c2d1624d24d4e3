//! Initial distributions of the ascents.
//!
//! Coordinate ascent finds a local maximum, so the initial q matters. The first is concentrated on a state
//! found by a greedy walk through the factors. The second is nearly uniform, with a little noise, because
//! without noise a symmetric model would never leave its saddle point. The third is nearly uniform as well,
//! but is annealed from a high temperature in a few sweeps. The others are random, and every other one is
//! annealed.
//!
//! **Zeros.** F(q) is −∞ as soon as q gives probability to a state of weight zero, and updates alone never
//! change that. Therefore the ascent first treats zeros as increasing penalties, until states that conflict
//! with others have probability zero. If this leaves q without zeros, every second ascent continues from
//! there. The other ascents search for a state of positive weight that agrees with the q found, by decisions,
//! propagation and clause learning ([`witness`]), and start with q concentrated on that state. From there on
//! every update stays on states of positive weight, and adds those that are compatible with the other
//! clusters.

use super::ascent::{Ascent, Zeros};
use super::evaluate;
use super::partition::Touching;
use crate::error::Result;
use crate::method::exact::{Witness, witness};
use crate::model::FactorGraph;
use crate::random::Streams;
use crate::run::Clock;

/// Number of sweeps with penalties for zeros, the first penalty, and its growth factor: up to some ten
/// thousand nats.
const SOFT_SWEEPS: usize = 24;
const PENALTY: f64 = 1.0;
const GROWTH: f64 = 1.6;
/// Number of annealing sweeps, and the initial inverse temperatures.
const COOLING: usize = 10;
const HOTTEST: [f64; 4] = [0.3, 0.1, 0.2, 0.5];
/// Maximum number of steps in the search for a state of positive weight: some seconds.
const STEPS: u64 = 100_000_000;
/// Probability of the greedy state in the first initial distribution.
const LEANING: f64 = 0.9;

/// The result of an initialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// F(q) is finite.
    Feasible,
    /// No state of positive weight was found; q is the result of the ascent with penalties.
    Unknown,
    /// Z = 0.
    Impossible,
}

/// Sets q to the initial distribution of ascent `restart`.
pub(super) fn begin(
    ascent: &mut Ascent<'_>,
    graph: &FactorGraph,
    touching: &Touching,
    seed: u64,
    restart: usize,
    clock: &Clock<'_>,
) -> Result<Start> {
    let mut random = Streams::new(seed, "mean field start").block(restart as u64);
    if restart == 0 {
        let state = greedy(graph, touching);
        ascent.set_product(|v, q| {
            let others = (1.0 - LEANING) / q.len() as f64;
            q.iter_mut().enumerate().for_each(|(s, p)| {
                *p = others * (1.0 + 0.1 * random.uniform()) + if s == state[v] { LEANING } else { 0.0 };
            });
        });
    } else {
        let noise = if restart < 3 { 0.05 } else { 2.0 };
        ascent.set_product(|_, q| q.iter_mut().for_each(|p| *p = (noise * random.normal()).exp()));
    }
    let must_stop = || clock.must_stop();
    if !graph.has_zeros() {
        if restart > 0 && restart.is_multiple_of(2) {
            let hottest = HOTTEST[restart / 2 % HOTTEST.len()];
            for step in 0..COOLING {
                ascent.inverse_temperature = hottest.powf(1.0 - step as f64 / COOLING as f64);
                ascent.sweep(Zeros::Hard);
                if must_stop() {
                    break;
                }
            }
            ascent.inverse_temperature = 1.0;
        }
        return Ok(Start::Feasible);
    }
    let mut penalty = PENALTY;
    // If a search for a state follows, half as many sweeps leave it more choice.
    let soft_sweeps = if restart.is_multiple_of(2) { SOFT_SWEEPS } else { SOFT_SWEEPS / 2 };
    for _ in 0..soft_sweeps {
        ascent.sweep(Zeros::Soft(penalty));
        penalty *= GROWTH;
        if must_stop() {
            break;
        }
    }
    let clean = evaluate::bound(ascent) > f64::NEG_INFINITY;
    if clean && (restart.is_multiple_of(2) || must_stop()) {
        return Ok(Start::Feasible);
    }
    let (q, layout) = (&ascent.q, ascent.layout);
    match witness(graph, |v| q[layout.variable(v)].to_vec(), STEPS, clock)? {
        Witness::Found(state) => {
            ascent.set_state(&state);
            Ok(Start::Feasible)
        }
        Witness::Unknown if clean => Ok(Start::Feasible),
        Witness::Unknown => Ok(Start::Unknown),
        Witness::Impossible => Ok(Start::Impossible),
    }
}

/// A state found by a greedy walk through the graph: each variable takes the state with the largest sum of
/// factors, averaged over the neighbours that are still undecided.
fn greedy(graph: &FactorGraph, touching: &Touching) -> Vec<usize> {
    const OPEN: usize = usize::MAX;
    let n = graph.variable_count();
    let mut state = vec![OPEN; n];
    let mut queued = vec![false; n];
    let (mut queue, mut likes) = (Vec::with_capacity(n), Vec::new());
    for first in 0..n {
        if !std::mem::replace(&mut queued[first], true) {
            queue.push(first);
        }
        let mut head = queue.len().saturating_sub(1);
        while let Some(&v) = queue.get(head) {
            head += 1;
            if state[v] != OPEN {
                continue;
            }
            likes.clear();
            likes.resize(graph.cardinalities()[v], 0.0);
            for &f in touching.of(v) {
                let factor = graph.factor(f as usize);
                add_means(graph, factor.scope, factor.log_values, v, &state, &mut likes);
                for &u in factor.scope {
                    if !std::mem::replace(&mut queued[u], true) {
                        queue.push(u);
                    }
                }
            }
            let better = |best: usize, s: usize| if likes[s] > likes[best] { s } else { best };
            state[v] = (1..likes.len()).fold(0, better);
        }
    }
    state
}

/// Adds to each state of `v` the mean of a factor over the entries that agree with the decided states; zeros
/// count as a penalty.
fn add_means(
    graph: &FactorGraph,
    scope: &[usize],
    values: &[f64],
    v: usize,
    state: &[usize],
    likes: &mut [f64],
) {
    let mut count = 0.0;
    let mut sums = vec![0.0; likes.len()];
    for (place, &value) in values.iter().enumerate() {
        let (mut rest, mut own, mut agrees) = (place, 0, true);
        for &u in scope.iter().rev() {
            let states = graph.cardinalities()[u];
            let s = rest % states;
            rest /= states;
            if u == v {
                own = s;
            } else {
                agrees &= state[u] >= states || state[u] == s;
            }
        }
        if agrees {
            sums[own] += if value == f64::NEG_INFINITY { -10.0 } else { value };
            count += 1.0;
        }
    }
    let mean = likes.len() as f64 / count;
    likes.iter_mut().zip(sums).for_each(|(like, sum)| *like += sum * mean);
}
