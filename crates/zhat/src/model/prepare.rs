//! What exact methods work on, found once for a graph and a kind of query.
//!
//! 1. What zeros and evidence decide is taken out ([`Reduced`]). Trying out every state, which finds more, is for graphs
//!    that would take some time without it.
//! 2. For log Z, barren variables are left out ([`super::barren`]).
//! 3. Tables are cut into products of smaller ones ([`super::simplify`]), but not where their own marginals are asked for.
//! 4. An elimination order is looked for ([`elimination_order`]).

use std::sync::{Arc, OnceLock};

use crate::answer::Estimate;
use crate::error::Result;
use crate::model::order::order_within;
use crate::model::{Factor, FactorGraph, Order, Reduced, elimination_order};
use crate::query::Query;
use crate::run::Run;

/// What lists of states take at the most while a query is answered.
pub(crate) const BYTES_PER_STATE: f64 = 32.0;
/// Graphs whose tables have fewer entries than this are done before trying out states could pay: some milliseconds.
const EASY: f64 = 3e6;

/// The graph without what is decided, and an elimination order of it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub reduced: Reduced,
    /// The order, or log2 of the entries of the table that put it out of reach.
    pub order: std::result::Result<Order, f64>,
    /// What trials have shown that a search would take, without its trace and with it.
    pub trials: [OnceLock<Trial>; 2],
}

impl Prepared {
    /// With an order of all variables of the graph before it was reduced, if one is known, and the seconds that there are for the whole query.
    fn new(reduced: Reduced, known: Option<&[usize]>, time: Option<f64>) -> Arc<Self> {
        let order = match known {
            Some(known) => {
                let free = known.iter().filter_map(|&v| reduced.index(v)).collect();
                Ok(Order::along(&reduced.graph, free))
            }
            None => order_within(&reduced.graph, time),
        };
        Arc::new(Prepared { reduced, order, trials: Default::default() })
    }
}

/// What work of unknown length would take, going by the first part of it.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub seconds: f64,
    pub bytes: f64,
    /// What it found, if it came to the end.
    pub answer: Option<Estimate>,
}

/// What has been derived from a graph; clones share it, and it does not make graphs differ. `None` is for Z = 0.
#[derive(Clone, Debug, Default)]
pub(super) struct Derived {
    decided: OnceLock<Option<Arc<Reduced>>>,
    variables: OnceLock<Option<Arc<Prepared>>>,
    factors: OnceLock<Option<Arc<Prepared>>>,
    log_partition: OnceLock<Option<Arc<Prepared>>>,
    /// An order of all variables, where one was found before: see [`Derived::of_structure`].
    order: OnceLock<Option<Arc<[usize]>>>,
}

impl Derived {
    /// What holds for a graph with the same scopes and other tables.
    pub(super) fn of_structure(&self, graph: &FactorGraph) -> Derived {
        let found = || elimination_order(graph).ok().map(|order| order.variables.into());
        Derived { order: self.order.get_or_init(found).clone().into(), ..Derived::default() }
    }

    fn known_order(&self) -> Option<&[usize]> {
        self.order.get().and_then(|order| order.as_deref())
    }
}

impl PartialEq for Derived {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// How hard a graph is for exact methods, after evidence and zeros.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difficulty {
    /// Variables that are left.
    pub free: usize,
    /// Variables that log Z can do without, such as those of a Bayesian network without observed descendants.
    pub barren: usize,
    /// The width of the best order found; `None` if all are out of reach.
    pub width: Option<usize>,
    /// log2 of the entries of the largest table.
    pub log2_table: f64,
}

impl FactorGraph {
    /// Bytes that preparing takes: lists of the states, reduced copies, the places of a factor's entries, neighbourhoods.
    pub(crate) fn preparation_bytes(&self) -> f64 {
        let states: f64 = self.cardinalities().iter().map(|&states| states as f64).sum();
        let neighbours = self.variable_count() as f64 * 500.0 + self.scope_entries() as f64 * 200.0;
        neighbours + BYTES_PER_STATE * states + 3.5 * self.bytes() as f64
    }

    /// The graph as exact methods take it for a query; an error if that is over the budget, or if it is already clear that
    /// Z = 0.
    pub(crate) fn prepared_for(&self, query: Query, method: &str, run: &Run) -> Result<Arc<Prepared>> {
        run.require_memory(method, self.preparation_bytes())?;
        let time = run.time().map(|time| time.as_secs_f64());
        let prepared = run.install(|| match query {
            Query::LogPartition => self.for_log_partition(time),
            Query::FactorMarginals => self.for_factors(time),
            _ => self.for_variables(time),
        });
        prepared.ok_or_else(|| self.zero_error())
    }

    /// Without what is decided.
    fn decided(&self) -> Option<Arc<Reduced>> {
        let decide = || {
            let reduced = Reduced::new(self).ok()?;
            let easy = || Order::greedy(&reduced.graph).is_ok_and(|order| order.entries < EASY);
            let reduced =
                if reduced.graph.has_zeros() && !easy() { Reduced::probed(self).ok()? } else { reduced };
            Some(Arc::new(reduced))
        };
        self.derived().decided.get_or_init(decide).clone()
    }

    fn for_variables(&self, time: Option<f64>) -> Option<Arc<Prepared>> {
        let known = self.derived().known_order();
        let prepare = || Some(Prepared::new(self.decided()?.simplified(), known, time));
        self.derived().variables.get_or_init(prepare).clone()
    }

    fn for_factors(&self, time: Option<f64>) -> Option<Arc<Prepared>> {
        let prepare = || {
            let reduced = self.decided()?;
            let variables = self.for_variables(time)?;
            // Where nothing was cut, the factors are whole.
            let same = |(old, new): (Factor<'_>, Factor<'_>)| old.scope == new.scope;
            let (whole, cut) = (&reduced.graph, &variables.reduced.graph);
            if whole.factor_count() == cut.factor_count() && whole.factors().zip(cut.factors()).all(same) {
                return Some(variables);
            }
            Some(Prepared::new(Reduced::clone(&reduced), self.derived().known_order(), time))
        };
        self.derived().factors.get_or_init(prepare).clone()
    }

    fn for_log_partition(&self, time: Option<f64>) -> Option<Arc<Prepared>> {
        let prepare = || {
            let mut reduced = Reduced::clone(&*self.decided()?);
            if !reduced.leave_out_barren() {
                return self.for_variables(time);
            }
            Some(Prepared::new(reduced.simplified(), self.derived().known_order(), time))
        };
        self.derived().log_partition.get_or_init(prepare).clone()
    }

    /// How hard exact answers about all variables are; `None` if it would take too much memory to say, or if Z = 0.
    ///
    /// ```
    /// # use zhat::{Run, model::generate};
    /// let network = generate::bayes(20, 2, 3, 0.0, 1)?;
    /// assert_eq!(network.difficulty(&Run::default()).map(|found| found.barren), Some(20));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn difficulty(&self, run: &Run) -> Option<Difficulty> {
        let all = self.prepared_for(Query::Marginals, "preparation", run).ok()?;
        let log_partition = self.prepared_for(Query::LogPartition, "preparation", run).ok()?;
        let order = all.order.as_ref();
        Some(Difficulty {
            free: all.reduced.graph.variable_count(),
            barren: log_partition.reduced.barren,
            width: order.ok().map(|order| order.width),
            log2_table: order.map_or_else(|log2| *log2, |order| order.log2_table),
        })
    }
}
