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
use crate::run::{Clock, Run};

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
    fn new(reduced: Reduced, known: Option<&[usize]>, clock: &Clock<'_>) -> Result<Arc<Self>> {
        let order = match known {
            Some(known) => {
                let free = known.iter().filter_map(|&v| reduced.index(v)).collect();
                Ok(Order::along(&reduced.graph, free))
            }
            None => order_within(&reduced.graph, clock.budget(), &|| clock.must_stop()),
        };
        // An order that was not looked for to the end is nobody else's.
        clock.check()?;
        Ok(Arc::new(Prepared { reduced, order, trials: Default::default() }))
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

/// `None` for a model without any state of positive weight; an error if the work was stopped before that was clear.
fn possible(reduced: Result<Reduced>) -> Result<Option<Reduced>> {
    match reduced {
        Err(error) if error.is_stop() => Err(error),
        reduced => Ok(reduced.ok()),
    }
}

/// What is in the cell, or else what `find` finds; work that was stopped leaves nothing there.
fn found<T: Clone>(cell: &OnceLock<T>, find: impl FnOnce() -> Result<T>) -> Result<T> {
    match cell.get() {
        Some(found) => Ok(found.clone()),
        None => find().map(|value| cell.get_or_init(|| value).clone()),
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
    pub(crate) fn prepared_for(
        &self,
        query: Query,
        method: &'static str,
        run: &Run,
    ) -> Result<Arc<Prepared>> {
        run.require_memory(method, self.preparation_bytes())?;
        let clock = run.start(method);
        clock.check()?;
        let prepared = run.install(|| match query {
            Query::LogPartition => self.for_log_partition(&clock),
            Query::FactorMarginals => self.for_factors(&clock),
            _ => self.for_variables(&clock),
        });
        prepared?.ok_or_else(|| self.zero_error())
    }

    /// Without what is decided.
    fn decided(&self, clock: &Clock<'_>) -> Result<Option<Arc<Reduced>>> {
        found(&self.derived().decided, || {
            let Some(reduced) = possible(Reduced::within(self, clock))? else { return Ok(None) };
            let easy = || {
                let order = order_within(&reduced.graph, Some(0.0), &|| clock.must_stop());
                order.is_ok_and(|order| order.entries < EASY)
            };
            if !reduced.graph.has_zeros() || easy() {
                return Ok(Some(Arc::new(reduced)));
            }
            Ok(possible(Reduced::probed(self, clock))?.map(Arc::new))
        })
    }

    fn for_variables(&self, clock: &Clock<'_>) -> Result<Option<Arc<Prepared>>> {
        found(&self.derived().variables, || {
            let Some(decided) = self.decided(clock)? else { return Ok(None) };
            Prepared::new(decided.simplified(&|| clock.must_stop()), self.derived().known_order(), clock)
                .map(Some)
        })
    }

    fn for_factors(&self, clock: &Clock<'_>) -> Result<Option<Arc<Prepared>>> {
        found(&self.derived().factors, || {
            let Some(reduced) = self.decided(clock)? else { return Ok(None) };
            let Some(variables) = self.for_variables(clock)? else { return Ok(None) };
            // Where nothing was cut, the factors are whole.
            let same = |(old, new): (Factor<'_>, Factor<'_>)| old.scope == new.scope;
            let (whole, cut) = (&reduced.graph, &variables.reduced.graph);
            if whole.factor_count() == cut.factor_count() && whole.factors().zip(cut.factors()).all(same) {
                return Ok(Some(variables));
            }
            Prepared::new(Reduced::clone(&reduced), self.derived().known_order(), clock).map(Some)
        })
    }

    fn for_log_partition(&self, clock: &Clock<'_>) -> Result<Option<Arc<Prepared>>> {
        found(&self.derived().log_partition, || {
            let Some(decided) = self.decided(clock)? else { return Ok(None) };
            let mut reduced = Reduced::clone(&decided);
            if !reduced.leave_out_barren(&|| clock.must_stop()) {
                return self.for_variables(clock);
            }
            Prepared::new(reduced.simplified(&|| clock.must_stop()), self.derived().known_order(), clock)
                .map(Some)
        })
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
