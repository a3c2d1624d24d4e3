//! The graph on which messages are passed: the original graph without the parts determined by zeros, and the
//! mapping back.

use std::borrow::Cow;

use super::engine::Messages;
use super::kernel::Workspace;
use crate::error::Result;
use crate::method::exact::prepare::Reduced;
use crate::model::{FactorGraph, NetworkType};
use crate::query::{Beliefs, FactorBeliefs, Query};
use crate::run::Run;

/// A graph in which every state of every variable is supported by all its factors. Graphs for which this is
/// obvious are used unchanged.
pub(crate) struct Subject<'g> {
    original: &'g FactorGraph,
    reduced: Option<Reduced>,
}

/// Sizes used by forecasts.
pub(crate) struct Sizes {
    pub variables: usize,
    pub states: usize,
    /// Number of factors of two or more variables.
    pub factors: usize,
    all_factors: usize,
    pub slots: usize,
    /// Total entries of all messages and of all tables.
    pub messages: usize,
    pub entries: usize,
    /// The number of entries of the largest table, and the largest number of message entries of a factor.
    pub largest: (usize, usize),
    /// Whether the factors form no cycle.
    pub acyclic: bool,
    preparation: f64,
}

/// True if the graph may be reducible.
fn is_reducible(graph: &FactorGraph) -> bool {
    graph.network_type() == NetworkType::Bayes || graph.cardinalities().contains(&1) || graph.has_zeros()
}

impl<'g> Subject<'g> {
    /// Removes the parts determined by zeros, and for log Z also barren variables. Returns an error if this
    /// shows Z = 0.
    pub fn new(graph: &'g FactorGraph, query: Query, method: &'static str, run: &Run) -> Result<Self> {
        if !is_reducible(graph) {
            return Ok(Subject { original: graph, reduced: None });
        }
        run.require_memory(method, graph.preparation_bytes())?;
        let patient = run.with_grace();
        let clock = patient.start(method);
        let mut reduced = Reduced::within(graph, &clock)?;
        if query == Query::LogPartition {
            reduced.leave_out_barren(&|| clock.must_stop());
        }
        Ok(Subject { original: graph, reduced: Some(reduced) })
    }

    /// The graph to work on.
    pub fn graph(&self) -> &FactorGraph {
        self.reduced.as_ref().map_or(self.original, |reduced| &reduced.graph)
    }

    /// The constant removed from every score.
    pub fn constant(&self) -> f64 {
        self.reduced.as_ref().map_or(0.0, |reduced| reduced.constant)
    }

    /// The rounding error of the constant, in units of u.
    pub fn rounding(&self) -> f64 {
        let Some(reduced) = &self.reduced else { return 0.0 };
        let sums = if reduced.barren > 0 {
            let largest = self.original.factors().map(|factor| super::layout::largest(factor.log_values));
            let states: f64 = self.original.cardinalities().iter().map(|&states| states as f64 + 8.0).sum();
            states * (1.0 + largest.fold(0.0, f64::max))
        } else {
            0.0
        };
        8.0 * (1.0 + reduced.constant.abs()) + sums
    }

    /// b_i of the original variables.
    pub fn beliefs(&self, messages: &Messages<'_>) -> Beliefs {
        let own = messages.beliefs();
        match &self.reduced {
            Some(reduced) => reduced.expand_beliefs(self.original, &own),
            None => own,
        }
    }

    /// b_f of the original factors.
    pub fn factor_beliefs(&self, messages: &Messages<'_>) -> FactorBeliefs {
        let own = messages.factor_beliefs(self.graph());
        match &self.reduced {
            Some(reduced) => reduced.expand_factor_beliefs(self.original, &own),
            None => own,
        }
    }

    /// A state of the original variables.
    pub fn state<'s>(&self, state: &'s [usize]) -> Cow<'s, [usize]> {
        match &self.reduced {
            Some(reduced) => reduced.expand_state(state).into(),
            None => state.into(),
        }
    }
}

impl Sizes {
    /// Reads every scope once.
    pub fn of(graph: &FactorGraph) -> Self {
        let mut sizes = Sizes {
            variables: graph.variable_count(),
            states: graph.cardinalities().iter().sum(),
            factors: 0,
            all_factors: graph.factor_count(),
            slots: 0,
            messages: 0,
            entries: 0,
            largest: (0, 0),
            acyclic: true,
            preparation: if is_reducible(graph) { graph.preparation_bytes() } else { 0.0 },
        };
        let mut components = super::forest::Components::new(graph.variable_count());
        for factor in graph.factors().filter(|factor| factor.scope.len() > 1) {
            let sent: usize = factor.scope.iter().map(|&v| graph.cardinalities()[v]).sum();
            sizes.factors += 1;
            sizes.slots += factor.scope.len();
            sizes.messages += sent;
            sizes.entries += factor.log_values.len();
            sizes.largest = (sizes.largest.0.max(factor.log_values.len()), sizes.largest.1.max(sent));
            sizes.acyclic = sizes.acyclic && components.join(factor.scope.iter().map(|&v| v as u32));
        }
        sizes
    }

    /// Memory of the reduced graph, the layout, the messages and the scratch space of every thread, in bytes.
    pub fn bytes(&self, query: Query, run: &Run) -> f64 {
        let layout = 24.0 * self.variables as f64
            + 8.0 * self.states as f64
            + 40.0 * self.factors as f64
            + 8.0 * self.all_factors as f64
            + 8.0 * (self.slots + self.entries) as f64;
        let messages = Messages::bytes(self.messages, self.states, self.factors);
        let room = (1.0 + run.threads() as f64) * Workspace::bytes(self.largest.0, self.largest.1);
        let answer = match query {
            Query::LogPartition => 8.0 * self.variables as f64,
            Query::Marginals => 16.0 * (self.states + 2 * self.variables) as f64,
            Query::FactorMarginals => {
                16.0 * (self.entries + 2 * self.states + 2 * self.variables + 2 * self.all_factors) as f64
            }
            _ => 16.0 * (2 * self.variables + self.states + self.factors) as f64 + 8.0 * self.slots as f64,
        };
        self.preparation + 1.5 * (layout + messages + answer) + room + 8192.0
    }
}
