//! Forecast of the time and memory of elimination.
//!
//! The sweeps are simulated with buffer sizes only, so the memory forecast is exact. The time is a sum of
//! measured costs.

use crate::answer::Promise;
use crate::model::FactorGraph;
use crate::numeric::Pool;
use crate::platform;
use crate::query::Forecast;
use crate::query::Query;

use super::tree::Plan;
pub(super) use crate::method::cost::elimination::PER_ENTRY;
use crate::method::cost::elimination::{
    AT_LEAST, OVERHEAD, PER_ENTRY_BOTH_WAYS, PER_FRESH, PER_READ, PER_SUM, PER_TABLE, PER_VARIABLE, THREADS,
};

/// More entries than fit into any memory; such plans are not simulated.
const OUT_OF_REACH: f64 = 1e16;
/// Tables with more entries than this do not fit into the cache.
const LARGE: usize = 1 << 15;

/// Forecast for a query on `graph`; `reduced_bytes` is the size of the reduced graph that the plan is for.
pub(super) fn forecast(
    plan: &Plan,
    query: Query,
    graph: &FactorGraph,
    reduced_bytes: usize,
    threads: usize,
) -> Forecast {
    let (n, query) = (plan.cardinalities.len(), query.at_most(graph.log_state_count()));
    if plan.order.entries > OUT_OF_REACH {
        let bytes = 8.0 * plan.order.log2_table.exp2();
        return Forecast { bytes, seconds: plan.order.entries * PER_ENTRY, promise: Promise::Exact };
    }
    let mut work = Work::default();
    let keep = query != Query::LogPartition;
    let backward = matches!(query, Query::Marginals | Query::FactorMarginals | Query::Entropy);
    let rooms = work.forward(plan, keep);
    if backward {
        work.backward(plan, rooms);
    }
    let per_entry = if backward { PER_ENTRY_BOTH_WAYS } else { PER_ENTRY };
    let threads = (threads as f64).min(platform::available_processors() as f64);
    let mut seconds = (work.entries * per_entry + work.sums * PER_SUM + work.reads * PER_READ)
        / threads.powf(THREADS)
        + work.fresh * PER_FRESH
        + work.tables * PER_TABLE
        + n as f64 * PER_VARIABLE
        + AT_LEAST;
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
    let variables = graph.variable_count() as f64;
    let extra_bytes = match query {
        Query::LogPartition => 0.0,
        Query::Marginals | Query::Entropy => 16.0 * states,
        // The tables of the reduced and of the original graph, and one permuted table with its index list.
        Query::FactorMarginals => 16.0 * states + 5.0 * graph.bytes() as f64 + 8.0 * work.largest as f64,
        Query::Map => 16.0 * variables,
        // Each state, and its deviations at every variable.
        Query::KBest(k) => k as f64 * (24.0 * variables + 64.0 * states),
        Query::Sample(count) => 16.0 * count as f64 * (variables + 1.0),
    };
    if let Query::Sample(count) = query {
        let reads = plan.factors.iter().map(Vec::len).sum::<usize>() as f64 + 2.0 * n as f64 + states;
        seconds += count as f64 * reads * 1e-8;
    }
    Forecast {
        bytes: 8.0 * work.peak as f64
            + 2.0 * reduced_bytes as f64
            + extra_bytes
            + OVERHEAD * n as f64
            + graph.preparation_bytes(),
        seconds,
        promise: Promise::Exact,
    }
}

/// Operation counts and buffer sizes of the sweeps through a plan.
#[derive(Default)]
struct Work {
    pool: Pool<usize>,
    /// Numbers allocated, currently and at the peak.
    alive: usize,
    peak: usize,
    /// Numbers whose memory is touched for the first time.
    fresh: f64,
    /// Entries of all cliques together, and of the largest clique.
    entries: f64,
    largest: usize,
    /// Entries read from tables that are too large for the cache.
    reads: f64,
    /// Entries summed to compute the marginals of the children.
    sums: f64,
    /// Number of tables in all cliques together.
    tables: f64,
}

impl Work {
    fn take(&mut self, len: usize) -> usize {
        let room = self.pool.find(len).unwrap_or_else(|| {
            self.fresh += len as f64;
            len
        });
        self.alive += room;
        self.peak = self.peak.max(self.alive + self.pool.room());
        room
    }

    fn give(&mut self, room: usize) {
        self.alive -= room;
        self.pool.give(room);
    }

    fn visit(&mut self, plan: &Plan, i: usize) {
        let clique = plan.message_len(i) as f64 * plan.cardinalities[plan.order.variables[i]] as f64;
        self.largest = self.largest.max(clique as usize);
        let large = plan.children[i].iter().filter(|&&child| plan.message_len(child) > LARGE).count();
        self.entries += clique;
        self.reads += clique * large as f64;
        self.tables += (plan.factors[i].len() + plan.children[i].len()) as f64;
    }

    /// Simulates the forward sweep. Returns the buffer sizes of the messages.
    fn forward(&mut self, plan: &Plan, keep: bool) -> Vec<usize> {
        let mut rooms = vec![0; plan.cardinalities.len()];
        for i in 0..rooms.len() {
            self.visit(plan, i);
            rooms[i] = self.take(plan.message_len(i));
            for &child in plan.children[i].iter().filter(|_| !keep) {
                self.give(rooms[child]);
            }
        }
        rooms
    }

    /// Simulates the backward sweep.
    fn backward(&mut self, plan: &Plan, messages: Vec<usize>) {
        // The backward sweep has its own pool.
        self.pool = Pool::default();
        let mut above = vec![0; messages.len()];
        for i in (0..messages.len()).rev() {
            self.visit(plan, i);
            let clique_len = plan.message_len(i) * plan.cardinalities[plan.order.variables[i]];
            let clique = self.take(clique_len);
            let logs = self.take(plan.message_len(i));
            self.give(logs);
            self.give(std::mem::take(&mut above[i]));
            self.give(messages[i]);
            let mut heir = false;
            for &child in &plan.children[i] {
                if !heir && plan.message_len(child) == clique_len {
                    (heir, above[child]) = (true, clique);
                } else {
                    above[child] = self.take(plan.message_len(child));
                    self.sums += clique_len as f64;
                }
            }
            if !heir {
                self.give(clique);
            }
        }
    }
}
