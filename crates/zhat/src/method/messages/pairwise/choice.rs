//! Proposals for the choice of states of each variable.
//!
//! - *uniform*, *local* (the node scores), *global* (the total strength of a state's interactions),
//!   *local-global* (half of each), as on chains;
//! - *guided*: analogous to the two passes on a chain. A pilot run with separate random numbers chooses
//!   states by *local-global* and passes messages between them until they converge. Then the variables choose
//!   their states one after the other, from the leaves of a spanning forest to its roots. Let α be the
//!   messages from the neighbours that have already chosen, from their states to all N states, and β the
//!   pilot's messages from the other neighbours. Then q ∝ 0.95·αβ/Σαβ + 0.05·α/Σα. The second term keeps q
//!   positive wherever this is necessary, so the estimate stays unbiased.

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::network::{End, Network};
use crate::error::Result;
use crate::method::dynamic::lattice::ChainEntries;
use crate::method::dynamic::randomized::{
    Chosen, Order, Selection, global_scores, mixture, spread, weighted,
};
use crate::model::PairwiseGraph;
use crate::numeric::Real;
use crate::random::Streams;
use crate::run::Clock;

/// Weight of the messages in the guided proposal.
const GUIDED: f64 = 0.95;
/// Number of sweeps of a pilot on a graph with cycles; it need not converge.
const PILOT_SWEEPS: usize = 12;
const PILOT_DAMPING: f64 = 0.3;

/// Proposals for the choice of states of the variables of a graph.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum GraphProposal {
    /// The uniform distribution.
    Uniform,
    /// The node scores.
    Local,
    /// The norms of the embeddings, or the row and column sums.
    Global,
    /// Half of each.
    LocalGlobal,
    /// The messages of a pilot run.
    #[default]
    Guided,
}

/// The number of states to choose, and the method of choosing them.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    pub selection: Selection,
    pub count: usize,
    pub top: usize,
}

/// Prepared proposals.
pub(super) struct Proposals<'a, F: Real> {
    graph: &'a PairwiseGraph<F>,
    /// log q of every variable, up to constants; for the guided proposal, that of its pilot.
    simple: Vec<Vec<f64>>,
    guide: Option<Guide<F>>,
}

/// The result of a pilot run.
struct Guide<F> {
    /// The variables in the order in which they choose their states.
    order: Vec<usize>,
    /// The position of each variable in the order.
    place: Vec<usize>,
    /// β of each variable.
    later: Vec<Vec<F>>,
}

impl<'a, F: Real> Proposals<'a, F> {
    pub fn new(
        graph: &'a PairwiseGraph<F>,
        proposal: GraphProposal,
        rule: Rule,
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let states = graph.states();
        let entries = ChainEntries { transitions: graph.interactions(), states };
        let global = match proposal {
            GraphProposal::Uniform | GraphProposal::Local => vec![0.0; states],
            _ => global_scores(&entries, graph.edges().len()),
        };
        let local = |v: usize| graph.node(v).iter().map(|x| x.to_f64()).collect::<Vec<f64>>();
        let one = |v: usize| match proposal {
            GraphProposal::Uniform => vec![0.0; states],
            GraphProposal::Local => local(v),
            GraphProposal::Global => global.clone(),
            GraphProposal::LocalGlobal | GraphProposal::Guided => {
                only_possible(mixture(local(v), &global, 0.5), graph.node(v))
            }
        };
        let simple: Vec<Vec<f64>> = (0..graph.variables()).into_par_iter().map(one).collect();
        let mut proposals = Proposals { graph, simple, guide: None };
        if proposal == GraphProposal::Guided && rule.count < states {
            proposals.guide = proposals.pilot(rule, streams, clock)?;
        }
        Ok(proposals)
    }

    /// Runs the pilot. Returns `None` if it finds no state for some variable.
    fn pilot(&self, rule: Rule, streams: &Streams, clock: &Clock<'_>) -> Result<Option<Guide<F>>> {
        let (graph, states) = (self.graph, self.graph.states());
        let entries = ChainEntries { transitions: graph.interactions(), states };
        let chosen = self.choose_alone(rule, streams, 0);
        if chosen.iter().any(|chosen| chosen.states.is_empty()) {
            return Ok(None);
        }
        let network = Network::restricted(graph, &chosen);
        let (messages, _) = network.settle(PILOT_DAMPING, 1e-3, PILOT_SWEEPS, clock)?;
        let order = network.leaves_first();
        let mut place = vec![0; order.len()];
        order.iter().enumerate().for_each(|(k, &v)| place[v] = k);
        let later = |v: usize| -> Result<Vec<F>> {
            let (mut sum, mut sent, mut received) =
                (vec![F::ZERO; states], Vec::new(), vec![F::ZERO; states]);
            for end in network.ends(v) {
                clock.check()?;
                let u = network.variable(end.other());
                if place[u] > place[v] {
                    network.belief(&messages, u, Some(end.edge), &mut sent);
                    send(&entries, *end, &chosen[u].states, &sent, &mut received);
                    F::add_to(&mut sum, &received);
                }
            }
            Ok(sum)
        };
        let later = (0..graph.variables()).into_par_iter().map(later).collect::<Result<_>>()?;
        Ok(Some(Guide { order, place, later }))
    }

    /// Chooses the states of every variable for one replicate.
    pub fn choose(
        &self,
        rule: Rule,
        streams: &Streams,
        replicate: usize,
        clock: &Clock<'_>,
    ) -> Result<Vec<Chosen>> {
        let Some(guide) = &self.guide else { return Ok(self.choose_alone(rule, streams, replicate)) };
        let (graph, states) = (self.graph, self.graph.states());
        let entries = ChainEntries { transitions: graph.interactions(), states };
        let ends = super::network::ends(graph);
        let mut chosen = vec![Chosen::default(); graph.variables()];
        // α of the chosen states, with their weights.
        let mut sent: Vec<Vec<F>> = vec![Vec::new(); graph.variables()];
        let mut received = vec![F::ZERO; states];
        for &v in &guide.order {
            clock.check()?;
            let mut running = graph.node(v).to_vec();
            for end in &ends[v] {
                let (i, j) = graph.edges()[end.edge];
                let u = if i == v { j } else { i };
                if guide.place[u] < guide.place[v] {
                    send(&entries, *end, &chosen[u].states, &sent[u], &mut received);
                    F::add_to(&mut running, &received);
                }
            }
            let alone: Vec<f64> = running.iter().map(|x| x.to_f64()).collect();
            let features: Vec<f64> = guide.later[v].iter().map(|x| x.to_f64()).collect();
            let both = alone.iter().zip(&features).map(|(a, b)| a + b).collect();
            let mut random = streams.block((replicate * graph.variables() + v) as u64);
            let q = mixture(both, &alone, GUIDED);
            chosen[v] =
                rule.selection.choose_in(Order::Bands(&features), &q, rule.count, rule.top, &mut random);
            sent[v] = weighted(&running, &chosen[v]);
        }
        Ok(chosen)
    }

    /// Chooses the states of every variable independently.
    fn choose_alone(&self, rule: Rule, streams: &Streams, replicate: usize) -> Vec<Chosen> {
        let variables = self.simple.len();
        let one = |(v, q): (usize, &Vec<f64>)| {
            let mut random = streams.block((replicate * variables + v) as u64);
            rule.selection.choose(q, rule.count, rule.top, &mut random)
        };
        self.simple.par_iter().enumerate().map(one).collect()
    }
}

/// The messages from given states at the other end of an edge, with their values, to all states at this end.
fn send<F: Real>(entries: &ChainEntries<'_, F>, to: End, states: &[u32], messages: &[F], out: &mut [F]) {
    if to.right {
        spread::forward(entries, to.edge, states, messages, out);
    } else {
        spread::backward(entries, to.edge, states, messages, out);
    }
}

/// Sets q to −∞ where the node has no weight; such states are never chosen.
fn only_possible<F: Real>(mut q: Vec<f64>, node: &[F]) -> Vec<f64> {
    let impossible = q.iter_mut().zip(node).filter(|(_, score)| **score == F::NEG_INFINITY);
    impossible.for_each(|(q, _)| *q = f64::NEG_INFINITY);
    q
}
