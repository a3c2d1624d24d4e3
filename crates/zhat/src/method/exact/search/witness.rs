//! Search for one state of positive weight: satisfies the constraints of a model, ignoring its weights.
//!
//! Variables are decided in a given order, each in its preferred state first, with propagation and learning
//! as in the counting search. After a number of conflicts the search restarts. It keeps the learned clauses
//! and decides the variables involved in conflicts first.
//!
//! Exponential in the worst case, so the number of steps is limited; within the limit the result is certain.

use super::constraints::{Constraints, Literal};
use super::propagate::{Propagator, Reason};
use crate::error::Result;
use crate::model::FactorGraph;
use crate::run::Clock;

/// Number of conflicts before the first restart; it grows by half each time.
const CONFLICTS: u64 = 100;
/// Number of decisions between checks of the clock.
const PAUSE: u32 = 256;

/// Maximum number of literals in learned clauses, per state of the model and in addition; and bytes per
/// literal.
const LEARNED: (usize, usize) = (64, 1 << 12);
const BYTES_PER_LITERAL: f64 = 16.0;

/// Maximum memory of the search in bytes.
pub(crate) fn witness_bytes(graph: &FactorGraph) -> f64 {
    super::initial_bytes(graph) + BYTES_PER_LITERAL * learned_limit(graph) as f64
}

fn learned_limit(graph: &FactorGraph) -> usize {
    LEARNED.0 * graph.cardinalities().iter().sum::<usize>() + LEARNED.1
}

/// The result of the search.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Witness {
    /// A state of positive weight.
    Found(Vec<usize>),
    /// There is none: Z = 0.
    Impossible,
    /// None was found within the limit.
    Unknown,
}

struct Level {
    variable: usize,
    /// The states still to be tried; the next one comes last.
    states: Vec<usize>,
    trail: usize,
    asserted: Vec<(Literal, Reason)>,
}

/// Searches for a state of a reduced graph within `steps` steps, preferring states of larger `preference` for
/// each variable.
pub(crate) fn witness(
    graph: &FactorGraph,
    preference: impl Fn(usize) -> Vec<f64>,
    steps: u64,
    clock: &Clock<'_>,
) -> Result<Witness> {
    let mut propagator = Propagator::new(Constraints::new(graph));
    if propagator.begin(&[], 0).is_err() {
        return Ok(Witness::Impossible);
    }
    let n = graph.variable_count();
    let mut order: Vec<(f64, usize)> =
        (0..n).map(|v| (preference(v).into_iter().fold(f64::NEG_INFINITY, f64::max), v)).collect();
    // The variable with the strongest preference first.
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let mut order: Vec<usize> = order.into_iter().map(|(_, v)| v).collect();
    let (mut patience, learned) = (CONFLICTS, learned_limit(graph));
    loop {
        match descend(&mut propagator, &order, &preference, patience, steps, clock)? {
            Descent::Found => break,
            Descent::Impossible => return Ok(Witness::Impossible),
            Descent::Tired if propagator.steps > steps || propagator.learned_literals > learned => {
                return Ok(Witness::Unknown);
            }
            Descent::Tired => {}
        }
        patience += patience / 2;
        propagator.undo(0);
        if propagator.begin(&[], 0).is_err() {
            return Ok(Witness::Impossible);
        }
        let activity = |v: &usize| -> f64 {
            let atoms = propagator.variables.atoms(*v);
            atoms.map(|atom| propagator.activity[2 * atom] + propagator.activity[2 * atom + 1]).sum()
        };
        order.sort_by(|a, b| activity(b).total_cmp(&activity(a)));
    }
    let state: Vec<usize> = (0..n).map(|v| propagator.state(v).unwrap_or(0)).collect();
    Ok(if graph.score(&state) > f64::NEG_INFINITY { Witness::Found(state) } else { Witness::Unknown })
}

enum Descent {
    Found,
    Impossible,
    Tired,
}

fn descend(
    propagator: &mut Propagator,
    order: &[usize],
    preference: impl Fn(usize) -> Vec<f64>,
    patience: u64,
    steps: u64,
    clock: &Clock<'_>,
) -> Result<Descent> {
    let last = propagator.conflicts + patience;
    let mut levels: Vec<Level> = Vec::new();
    // For each level, the position in the order at which the search for the next open variable starts.
    let mut places = vec![0];
    let mut turn = 0u32;
    loop {
        let place = places.last_mut().map_or(0, |place| {
            while order.get(*place).is_some_and(|&v| propagator.state(v).is_some()) {
                *place += 1;
            }
            *place
        });
        let Some(&variable) = order.get(place) else { return Ok(Descent::Found) };
        let likes = preference(variable);
        let mut states: Vec<usize> = propagator.live(variable).collect();
        states.sort_by(|&a, &b| likes[a].total_cmp(&likes[b]).then(b.cmp(&a)));
        levels.push(Level { variable, states, trail: propagator.trail.len(), asserted: Vec::new() });
        places.push(place);
        loop {
            turn = turn.wrapping_add(1);
            if turn.is_multiple_of(PAUSE) {
                clock.check()?;
            }
            if propagator.conflicts > last || propagator.steps > steps {
                return Ok(Descent::Tired);
            }
            let depth = levels.len() as u32 - 1;
            let (before, after) = (2 * depth + 1, 2 * depth + 2);
            let Some(level) = levels.last_mut() else { return Ok(Descent::Impossible) };
            propagator.undo(level.trail);
            let possible = propagator.begin(&level.asserted, before).is_ok();
            let Some(state) = level.states.pop().filter(|_| possible) else {
                levels.pop();
                places.pop();
                if levels.is_empty() {
                    return Ok(Descent::Impossible);
                }
                continue;
            };
            let literal = propagator.variables.is(level.variable, state);
            if propagator.is_false(literal) {
                continue;
            }
            let decided = propagator.assign(literal, Reason::Decision, after);
            let Err(conflict) = decided.and_then(|()| propagator.propagate(after)) else { break };
            let lesson = propagator.learn(conflict, after);
            level.asserted.extend(lesson.asserted);
            if lesson.is_final {
                level.states.clear();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;
    use crate::run::Run;
    use crate::{Error, LogPartition, exact::Enumeration};

    /// Six variables of three states, random pairs of which must differ.
    fn colouring(seed: u64) -> FactorGraph {
        let mut random = Streams::new(seed, "witness tests").block(0);
        let mut graph = FactorGraph::new(vec![3; 6]).unwrap();
        let different: Vec<f64> =
            (0..9).map(|i| if i / 3 == i % 3 { f64::NEG_INFINITY } else { 0.5 }).collect();
        for _ in 0..8 + random.below(20) {
            let u = random.below(6);
            let v = (u + 1 + random.below(5)) % 6;
            graph.add_factor(&[u, v], &different).unwrap();
        }
        graph
    }

    #[test]
    fn it_finds_a_state_if_and_only_if_there_is_one() {
        let run = Run::default().with_threads(1);
        let (mut found, mut impossible) = (0, 0);
        for seed in 0..300 {
            let graph = colouring(seed);
            let expected = Enumeration::default().log_partition(&graph, &run);
            let prefer = |_| vec![0.2, 0.3, 0.5];
            match witness(&graph, prefer, 1 << 24, &run.start("test")).unwrap() {
                Witness::Found(state) => {
                    assert!(graph.score(&state).is_finite() && expected.is_ok(), "seed {seed}");
                    found += 1;
                }
                Witness::Impossible => {
                    assert!(matches!(expected, Err(Error::ZeroPartition)), "seed {seed}");
                    impossible += 1;
                }
                Witness::Unknown => panic!("seed {seed}"),
            }
        }
        assert!(found > 20 && impossible > 20, "{found} {impossible}");
    }
}
