//! Preparation of a graph for exact methods, done once per kind of query and stored in the run's [`Cache`].
//!
//! 1. Everything determined by zeros and evidence is removed ([`Reduced`]). Probing every state finds more,
//!    but is used only for graphs that would take some time without it.
//! 2. For log Z, barren variables are removed ([`barren`]).
//! 3. Tables are split into products of smaller ones ([`simplify`]), unless the marginals of the factors are
//!    requested.
//! 4. A search finds an elimination order ([`elimination_order`]).

mod barren;
mod consistency;
mod contradiction;
mod order;
mod reduce;
mod simplify;

pub use contradiction::Contradiction;
use std::sync::{Arc, OnceLock};

pub use order::{Order, elimination_order};
pub(crate) use order::{Stop, order_within};
pub(crate) use reduce::Reduced;

use crate::answer::Estimate;
use crate::cache::Cache;
use crate::error::Result;
use crate::model::{Factor, FactorGraph};
use crate::query::Query;
use crate::run::{Clock, Run};

/// Maximum bytes per state for lists of states during a query.
const BYTES_PER_STATE: f64 = 32.0;
/// Graphs whose tables have fewer entries than this are solved in milliseconds, so probing does not pay off.
const EASY: f64 = 3e6;
/// Entries visited by probing, at most, for each entry of the tables that elimination would need without it.
const PROBED: f64 = 0.25;

/// The reduced graph and an elimination order for it.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub reduced: Reduced,
    /// The order, or log2 of the number of entries of the table that makes elimination infeasible.
    pub order: std::result::Result<Order, f64>,
    /// Estimated cost of a search from trial runs, without its trace and with it.
    pub trials: [OnceLock<Trial>; 2],
    structure: OnceLock<Vec<usize>>,
}

impl Prepared {
    fn new(reduced: Reduced, order: std::result::Result<Order, f64>) -> Self {
        Prepared { reduced, order, trials: Default::default(), structure: OnceLock::new() }
    }

    /// An elimination order for methods that split large tables: the one of the exact methods if they found
    /// one, otherwise one that is found quickly, however large its tables.
    pub fn any_order(&self, run: &Run) -> Vec<usize> {
        match &self.order {
            Ok(order) => order.variables.clone(),
            Err(_) => self.structure.get().cloned().unwrap_or_else(|| {
                let graph = &self.reduced.graph;
                let found = Order::structure(graph, &|| run.must_stop());
                let variables =
                    found.map_or_else(|| (0..graph.variable_count()).collect(), |order| order.variables);
                if run.must_stop() { variables } else { self.structure.get_or_init(|| variables).clone() }
            }),
        }
    }
}

/// Estimated cost of work of unknown length, extrapolated from its first part.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    pub seconds: f64,
    pub bytes: f64,
    /// The result, if the trial ran to completion.
    pub answer: Option<Estimate>,
}

// Values cached per graph. `None` stands for Z = 0.

/// The graph without the parts determined by zeros and evidence.
struct Decided(Option<Arc<Reduced>>);

/// For queries about variables.
struct ForVariables(Option<Arc<Prepared>>);

/// For queries about the scopes of factors.
struct ForFactors(Option<Arc<Prepared>>);

/// For log Z.
struct ForLogPartition(Option<Arc<Prepared>>);

/// An elimination order of all variables, cached for graphs that differ in their tables only; `None` if all
/// orders are infeasible.
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
            if !reduced.graph.has_zeros() {
                return Ok(Some(Arc::new(reduced)));
            }
            let order = order_within(&reduced.graph, Some(0.0), &|| self.must_stop());
            let entries = order.map_or(f64::INFINITY, |order| order.entries);
            if entries < EASY {
                return Ok(Some(Arc::new(reduced)));
            }
            let most = PROBED * entries;
            Ok(possible(Reduced::probed(self.graph, most, self.clock))?.map(Arc::new))
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
            // If no factor was split, the tables are still those of the original factors.
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

    /// Adds an elimination order. Returns an error if there was no time to complete the search for it.
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
        Ok(Arc::new(Prepared::new(reduced, order)))
    }

    /// The order shared by all graphs with the same scopes, whatever their tables, if the graph is one of
    /// several.
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
/// known.
fn possible(reduced: Result<Reduced>) -> Result<Option<Reduced>> {
    match reduced {
        Err(error) if error.is_stop() => Err(error),
        reduced => Ok(reduced.ok()),
    }
}

/// Difficulty of a graph for exact methods, after evidence and zeros have been taken into account.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Difficulty {
    /// Number of remaining variables.
    pub free: usize,
    /// Number of variables that can be removed without changing log Z, such as those without observed
    /// descendants in a Bayesian network.
    pub barren: usize,
    /// The width of the best order found; `None` if all orders are infeasible.
    pub width: Option<usize>,
    /// log2 of the number of entries of the largest table.
    pub log2_table: f64,
}

impl FactorGraph {
    /// Memory of the preparation in bytes: lists of states, reduced copies, entry indices of a factor,
    /// neighbourhoods.
    pub(crate) fn preparation_bytes(&self) -> f64 {
        let states: f64 = self.cardinalities().iter().map(|&states| states as f64).sum();
        let neighbours = self.variable_count() as f64 * 500.0 + self.scope_entries() as f64 * 200.0;
        neighbours + BYTES_PER_STATE * states + 3.5 * self.bytes() as f64
    }

    /// The graph prepared for a query. Returns an error if this is over the budget, or if it is already clear
    /// that Z = 0.
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

    /// Difficulty of exact queries about all variables; `None` if determining it would take too much memory,
    /// or if Z = 0.
    ///
    /// ```
    /// # use zhat::Run;
    /// # use zhat::model::generate;
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
