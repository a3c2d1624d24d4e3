//! Decodes a state from max-product messages.
//!
//! The decoding follows a spanning forest of the factors, the one with the largest total multi-information,
//! from the roots to the leaves. A root takes its best state; a factor takes the best states of its other
//! variables given the variable nearest the root. If the forest contains all factors, the messages are exact
//! and so is the state, even with ties. Otherwise variables are then changed one at a time as long as this
//! improves the state: forbidden entries count first, the score second.

use super::engine::Messages;
use super::forest::{Components, Forest, Step};
use super::kernel::Workspace;
use crate::model::FactorGraph;

/// Maximum number of rounds of single-variable changes.
const ROUNDS: usize = 50;

/// Decodes a state from the messages.
pub(crate) fn decode(messages: &Messages<'_>, graph: &FactorGraph, forest: Option<&Forest>) -> Vec<usize> {
    if let Some(whole) = forest {
        return along(messages, whole);
    }
    let layout = messages.layout;
    let information = messages.information();
    let mut order: Vec<u32> = (0..layout.factor_count() as u32).collect();
    order.sort_by(|&f, &g| information[g as usize].total_cmp(&information[f as usize]));
    let mut components = Components::new(layout.variable_count());
    let mut state = along(messages, &Forest::greedy(layout, order.into_iter(), &mut components));
    improve(messages, graph, &mut state);
    state
}

fn along(messages: &Messages<'_>, forest: &Forest) -> Vec<usize> {
    let layout = messages.layout;
    let mut state = vec![0; layout.variable_count()];
    let (mut work, mut scores) = (Workspace::new(layout), Vec::new());
    for root in forest.roots(layout) {
        messages.score(root, &mut scores);
        state[root] = best(scores.iter().copied().enumerate());
    }
    for &Step { factor, parent } in forest.steps.iter().rev() {
        let variables = layout.factor(factor as usize).variables;
        messages.join(factor as usize, &mut work);
        let stride: usize = variables[parent as usize + 1..].iter().map(|&v| layout.cardinality(v)).product();
        let given = variables[parent as usize];
        let states = layout.cardinality(given);
        let agree = |(i, _): &(usize, f64)| i / stride % states == state[given as usize];
        let mut place = best(work.joint().iter().copied().enumerate().filter(agree));
        for &v in variables.iter().rev() {
            state[v as usize] = place % layout.cardinality(v);
            place /= layout.cardinality(v);
        }
    }
    state
}

/// The index of the first maximum.
fn best(values: impl Iterator<Item = (usize, f64)>) -> usize {
    values.fold((0, f64::NEG_INFINITY), |best, new| if new.1 > best.1 { new } else { best }).0
}

/// The number of forbidden entries, and the score of the others.
type Worth = (usize, f64);

fn improve(messages: &Messages<'_>, graph: &FactorGraph, state: &mut [usize]) {
    let layout = messages.layout;
    let (start, list) = layout.incidence();
    for _ in 0..ROUNDS {
        let mut changed = false;
        for v in 0..state.len() {
            let worth = |state: &[usize]| -> Worth {
                let own = layout.unary[layout.states(v)][state[v]];
                list[start[v] as usize..start[v + 1] as usize].iter().fold((0, own), |(zeros, sum), &f| {
                    let factor = graph.factor(layout.number(f as usize));
                    let value = factor.log_values[graph.entry(factor.scope, state)];
                    if value == f64::NEG_INFINITY { (zeros + 1, sum) } else { (zeros, sum + value) }
                })
            };
            let before = state[v];
            let (mut kept, mut now) = (before, worth(state));
            for s in (0..layout.cardinality(v as u32)).filter(|&s| s != before) {
                state[v] = s;
                let new = worth(state);
                if new.0 < now.0 || (new.0 == now.0 && new.1 > now.1) {
                    (kept, now) = (s, new);
                }
            }
            state[v] = kept;
            changed |= kept != before;
        }
        if !changed {
            return;
        }
    }
}
