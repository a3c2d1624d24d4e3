//! The graph as exact methods take it: prepared once for a kind of query, then kept in the run's [`Cache`].
//!
//! 1. What zeros and evidence decide is taken out ([`Reduced`]). Trying out every state, which finds more, is
//!    for graphs that would take some time without it.
//! 2. For log Z, barren variables are left out ([`barren`]).
//! 3. Tables are cut into products of smaller ones ([`simplify`]), but not where their own marginals are
//!    asked for.
//! 4. An elimination order is looked for ([`elimination_order`]).

mod barren;
mod consistency;
mod contradiction;
mod order;
mod reduce;
mod simplify;

use std::sync::{Arc, OnceLock};

pub use contradiction::Contradiction;
pub use order::{Order, elimination_order};
pub(crate) use order::{Stop, order_within};
pub(crate) use reduce::Reduced;

use crate::answer::Estimate;
use crate::cache::Cache;
use crate::error::Result;
use crate::model::{Factor, FactorGraph};
use crate::query::Query;
use crate::run::{Clock, Run};

/// What lists of states take at the most while a query is answered.
const BYTES_PER_STATE: f64 = 32.0;
/// Graphs whose tables have fewer entries than this are done before trying out states could pay: some
/// milliseconds.
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

/// What work of unknown length would take, going by the first part of it.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub seconds: f64,
    pub bytes: f64,
    /// What it found, if it came to the end.
    pub answer: Option<Estimate>,
}

// What is cached for a graph. `None` stands for Z = 0.

/// The graph without what zeros and evidence decide.
struct Decided(Option<Arc<Reduced>>);

/// For queries about variables.
struct ForVariables(Option<Arc<Prepared>>);

/// For queries about the scopes of factors.
struct ForFactors(Option<Arc<Prepared>>);

/// For log Z.
struct ForLogPartition(Option<Arc<Prepared>>);

/// An elimination order of all variables, cached for graphs that differ in their tables only; `None` if all
/// orders are out of reach.
struct SharedOrder(Option<Vec<usize>>);

/// A graph that is being prepared.
struct Preparation<'a> {
    graph: &'a FactorGraph,
    cache: &'a Cache,
    clock: &'a Clock<'a>,
}

impl Preparation<'_> {
    fn cached<T: Send + Sync + 'static>(&self, compute: impl FnOnce() -> Result<T>) -> Result<Arc<T>> {
        self.cache.get_or_compute(self.graph.identity(), compute)
    }

    fn must_stop(&self) -> bool {
        self.clock.must_stop()
    }

    fn decided(&self) -> Result<Option<Arc<Reduced>>> {
        let find = || {
            let Some(reduced) = possible(Reduced::within(self.graph, self.clock))? else { return Ok(None) };
            let easy = || {
                let order = order_within(&reduced.graph, Some(0.0), &|| self.must_stop());
                order.is_ok_and(|order| order.entries < EASY)
            };
            if !reduced.graph.has_zeros() || easy() {
                return Ok(Some(Arc::new(reduced)));
            }
            Ok(possible(Reduced::probed(self.graph, self.clock))?.map(Arc::new))
        };
        self.cached(|| find().map(Decided)).map(|found| found.0.clone())
    }

    fn for_variables(&self) -> Result<Option<Arc<Prepared>>> {
        let find = || {
            let Some(decided) = self.decided()? else { return Ok(None) };
            self.ordered(decided.simplified(&|| self.must_stop())).map(Some)
        };
        self.cached(|| find().map(ForVariables)).map(|found| found.0.clone())
    }

    fn for_factors(&self) -> Result<Option<Arc<Prepared>>> {
        let find = || {
            let Some(reduced) = self.decided()? else { return Ok(None) };
            let Some(variables) = self.for_variables()? else { return Ok(None) };
            // Where nothing was cut, the factors are whole.
            let same = |(old, new): (Factor<'_>, Factor<'_>)| old.scope == new.scope;
            let (whole, cut) = (&reduced.graph, &variables.reduced.graph);
            if whole.factor_count() == cut.factor_count() && whole.factors().zip(cut.factors()).all(same) {
                return Ok(Some(variables));
            }
            self.ordered(Reduced::clone(&reduced)).map(Some)
        };
        self.cached(|| find().map(ForFactors)).map(|found| found.0.clone())
    }

    fn for_log_partition(&self) -> Result<Option<Arc<Prepared>>> {
        let find = || {
            let Some(decided) = self.decided()? else { return Ok(None) };
            let mut reduced = Reduced::clone(&decided);
            if !reduced.leave_out_barren(&|| self.must_stop()) {
                return self.for_variables();
            }
            self.ordered(reduced.simplified(&|| self.must_stop())).map(Some)
        };
        self.cached(|| find().map(ForLogPartition)).map(|found| found.0.clone())
    }

    /// With an elimination order; an error if there was no time to look for it to the end.
    fn ordered(&self, reduced: Reduced) -> Result<Arc<Prepared>> {
        let shared = self.shared_order()?;
        let order = match shared.as_ref().and_then(|shared| shared.0.as_ref()) {
            Some(variables) => {
                let free = variables.iter().filter_map(|&v| reduced.index(v)).collect();
                Ok(Order::along(&reduced.graph, free))
            }
            None => order_within(&reduced.graph, self.clock.budget(), &|| self.must_stop()),
        };
        self.clock.check()?;
        Ok(Arc::new(Prepared { reduced, order, trials: Default::default() }))
    }

    /// The order for all graphs with the same scopes, if the graph is one of several; whatever their tables.
    fn shared_order(&self) -> Result<Option<Arc<SharedOrder>>> {
        let Some(structure) = self.graph.shared_structure() else { return Ok(None) };
        let find = || {
            let order = order_within(self.graph, None, &|| self.must_stop());
            self.clock.check()?;
            Ok(SharedOrder(order.ok().map(|order| order.variables)))
        };
        self.cache.get_or_compute(structure, find).map(Some)
    }
}

/// `None` for a model without any state of positive weight; an error if the work was stopped before that was
/// clear.
fn possible(reduced: Result<Reduced>) -> Result<Option<Reduced>> {
    match reduced {
        Err(error) if error.is_stop() => Err(error),
        reduced => Ok(reduced.ok()),
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
    /// Bytes that preparing takes: lists of the states, reduced copies, the places of a factor's entries,
    /// neighbourhoods.
    pub(crate) fn preparation_bytes(&self) -> f64 {
        let states: f64 = self.cardinalities().iter().map(|&states| states as f64).sum();
        let neighbours = self.variable_count() as f64 * 500.0 + self.scope_entries() as f64 * 200.0;
        neighbours + BYTES_PER_STATE * states + 3.5 * self.bytes() as f64
    }

    /// The graph as exact methods take it for a query; an error if that is over the budget, or if it is
    /// already clear that Z = 0.
    pub(crate) fn prepared_for(
        &self,
        query: Query,
        method: &'static str,
        run: &Run,
    ) -> Result<Arc<Prepared>> {
        run.require_memory(method, self.preparation_bytes())?;
        let clock = run.start(method);
        clock.check()?;
        let preparation = Preparation { graph: self, cache: run.cache(), clock: &clock };
        let prepared = run.install(|| match query {
            Query::LogPartition => preparation.for_log_partition(),
            Query::FactorMarginals => preparation.for_factors(),
            _ => preparation.for_variables(),
        });
        prepared?.ok_or_else(|| self.zero_error())
    }

    /// How hard exact answers about all variables are; `None` if it would take too much memory to say, or if
    /// Z = 0.
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
