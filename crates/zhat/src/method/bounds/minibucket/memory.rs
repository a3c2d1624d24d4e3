//! Memory of mini-buckets, and the choice of their size.

use super::lower::Cutset;
use super::plan::{Limit, Plan};
use crate::method::cost::mini_buckets::{PER_ENTRY, PER_NODE, PER_SPLIT_ENTRY};
use crate::method::exact::prepare::Prepared;
use crate::model::FactorGraph;
use crate::platform;
use crate::run::Run;

/// Planned time in single-threaded seconds if there is no time budget.
const WITHOUT_BUDGET: f64 = 30.0;
/// The fraction of the time budget used for choosing the size.
const SHARE: f64 = 0.7;
/// Tables never exceed 2^34 numbers, however large the memory.
const LARGEST_LOG2: usize = 34;

/// The mini-buckets of a query and their cost.
pub(super) struct Layout {
    pub plan: Plan,
    /// For the lower bound from cases, if there is memory for it.
    pub cutset: Option<Cutset>,
    pub bytes: f64,
}

impl Layout {
    /// Plans for an i-bound, or for the largest tables that memory and time allow.
    pub fn new(prepared: &Prepared, i_bound: Option<usize>, sweeps: f64, lower: bool, run: &Run) -> Self {
        let graph = &prepared.reduced.graph;
        let plan = plan(prepared, i_bound, sweeps, run);
        let bytes = bytes(&plan, graph, run.threads());
        let cutset = (lower && plan.is_split()).then(|| Cutset::new(&plan, graph));
        let with_cases = |cutset: &Cutset| {
            bytes
                + run.threads().max(platform::available_processors()) as f64 * cutset.case_bytes(graph)
                + 1e5
        };
        let free = run.memory() as f64 - graph.preparation_bytes();
        match cutset.map(|cutset| (with_cases(&cutset), cutset)) {
            Some((bytes, cutset)) if bytes <= free => Layout { plan, cutset: Some(cutset), bytes },
            _ => Layout { plan, cutset: None, bytes },
        }
    }
}

/// Memory of the sweeps through a plan in bytes, including the current and the best parameters of both
/// bounds.
fn bytes(plan: &Plan, graph: &FactorGraph, threads: usize) -> f64 {
    let sizes = &plan.sizes;
    let workers = threads.min(plan.groups.len()) as f64;
    let at_a_time = sizes.largest + workers * sizes.largest_small;
    let numbers = 2.2 * sizes.messages + 6.0 * sizes.shifts + 2.5 * at_a_time;
    // A permuted table needs an index list, twice, and a copy.
    plan.bytes() + 3.5 * graph.bytes() as f64 + 8.0 * numbers + 3e5 * workers.min(1.0)
}

/// Seconds for `sweeps` forward and backward sweeps on one thread.
pub(super) fn seconds(plan: &Plan, sweeps: f64) -> f64 {
    let sizes = &plan.sizes;
    let whole = sizes.entries - sizes.split_entries;
    sweeps * (whole * PER_ENTRY + sizes.split_entries * PER_SPLIT_ENTRY + plan.nodes.len() as f64 * PER_NODE)
}

/// The plan for an i-bound, or the one with the largest tables that memory and time allow.
fn plan(prepared: &Prepared, i_bound: Option<usize>, sweeps: f64, run: &Run) -> Plan {
    let (graph, order) = (&prepared.reduced.graph, prepared.any_order(run));
    if let Some(i) = i_bound {
        let limit = Limit { variables: i.saturating_add(1), log2_entries: f64::INFINITY };
        return Plan::new(graph, order, limit);
    }
    let horizon = run.time().map_or(WITHOUT_BUDGET, |time| time.as_secs_f64()) * SHARE;
    // The number of threads of the run is not used: the plan, and so every bit of the result, must not depend
    // on it.
    let processors = platform::available_processors();
    let budget = run.memory() as f64 - graph.preparation_bytes();
    let limit = |log2: usize| Limit { variables: usize::MAX, log2_entries: log2 as f64 };
    let sweeps = |is_split: bool| if is_split { sweeps } else { 0.5 };
    // A plan is given up when its first buckets alone take too long: large graphs are planned in a fraction
    // of a second.
    let too_large = |entries: f64, is_split: bool| sweeps(is_split) * entries * PER_ENTRY > horizon;
    let fits = |plan: &Plan| {
        bytes(plan, graph, processors) <= budget && seconds(plan, sweeps(plan.is_split())) <= horizon
    };
    // The cost increases with the size of the tables, except for the last step to the exact plan.
    let (mut low, mut high, mut best) = (0, LARGEST_LOG2, None);
    while low < high {
        let middle = (low + high).div_ceil(2);
        let (plan, complete) = Plan::unless(graph, order.clone(), limit(middle), too_large);
        if complete && fits(&plan) {
            let whole = !plan.is_split();
            (low, best) = (middle, Some(plan));
            if whole {
                break;
            }
        } else {
            high = middle - 1;
        }
    }
    best.unwrap_or_else(|| Plan::new(graph, order, limit(0)))
}
