//! Weighted mini-buckets.
//!
//! Variables are eliminated one by one. If the product of the tables that contain a variable v would take too
//! much memory, these tables are partitioned into mini-buckets r ([`super::plan`]). Each mini-bucket has a
//! weight w_r, Σ_r w_r = 1, and is summed separately. By Hölder's inequality
//!
//! Σ_x Π_r ψ_r(x) ≤ Π_r (Σ_x ψ_r(x)^{1/w_r})^{w_r} for w_r > 0,
//!
//! and ≥ if one weight is positive and the others are negative. The product of the resulting constants is
//! therefore an upper or a lower bound on Z, for all weights and for all reparametrisations that shift weight
//! between the mini-buckets of a variable. Both bounds are optimised sweep by sweep ([`super::pass`]); a
//! sweep that makes a bound worse is reverted and the step size is reduced. Every forward sweep certifies its
//! bound, and the best one is kept. Zeros under a negative weight give no lower bound. In that case, and
//! whenever it is better, the lower bound is the total weight of some likely cases, each solved exactly
//! ([`super::lower`]).
//!
//! Zeros and evidence are used first, as in exact methods. Mini-buckets have i + 1 variables for a given
//! i-bound, or tables as large as memory and time allow. If no bucket has to be split, both bounds equal log
//! Z. Time O(sweeps · Σ_r entries of r), memory O(Σ_r entries of messages) plus a few whole tables at a time.
//!
//! Guarantee: certified bounds at any time, moved outward by the rounding allowance. The value is the upper
//! bound.
//!
//! References: R. Dechter, I. Rish, *Mini-buckets: a general scheme for bounded inference*, Journal of the
//! ACM 50 (2003); Q. Liu, A. Ihler, *Bounding the partition function using Hölder's inequality*, ICML 2011.
//!
//! ```
//! use zhat::{Guarantee, LogPartition, Run};
//! use zhat::bounds::WeightedMiniBuckets;
//! use zhat::exact::Elimination;
//! use zhat::model::generate;
//! let grid = generate::Grid { rows: 8, columns: 8, torus: false };
//! let model = generate::ising(grid, 0.5, 0.5, false, 1)?;
//! let method = WeightedMiniBuckets::default().i_bound(Some(4));
//! let z = method.log_partition(&model, &Run::default())?;
//! let exact = Elimination::default().log_partition(&model, &Run::default())?.value;
//! let Guarantee::Bounds { low, high, .. } = z.guarantee else { unreachable!() };
//! assert!(low <= exact && exact <= high && high - low < 2.0);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::lower::Cutset;
use super::memory::{self, Layout};
use super::pass::{Messages, Parameters, Side, Step, Sweeper};
use super::plan::Plan;
use super::proposal::Proposal;
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::exact::Elimination;
use crate::method::exact::prepare::Prepared;
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, options};
use crate::query::DEFAULT_HORIZON;
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

const NAME: &str = "wmb";
/// The optimisation ends after this many consecutive sweeps that gain less than the tolerance.
const MOST_IDLE_SWEEPS: usize = 3;
/// The optimisation ends when the step size falls below this.
const SMALLEST_STEP: f64 = 0.01;
/// After `FIRST_LOOK` sweeps, `FIRST_CASES` cases are evaluated. At the end, as many cases are evaluated as
/// take the time of the sweeps, up to a maximum.
const FIRST_LOOK: usize = 5;
const FIRST_CASES: usize = 8;
const MOST_CASES: f64 = 512.0;
/// With more variables than this a few cases have too little weight to matter; they are used only if there is
/// no other lower bound.
const MANY_VARIABLES: usize = 500;
/// Factor by which the cases increase the time.
const WITH_CASES: f64 = 1.3;
/// The fraction of the time budget for sweeps; the rest is for cases.
const FOR_SWEEPS: f64 = 0.75;
/// Learning rate of the weights at the largest step.
const WEIGHT_RATE: f64 = 1.0;

/// Certified bounds on both sides of log Z by weighted mini-buckets.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WeightedMiniBuckets {
    /// Number of variables of a mini-bucket besides the eliminated one; none for tables as large as memory
    /// and time allow.
    pub i_bound: Option<usize>,
    /// Maximum number of sweeps to optimise each bound.
    pub iterations: usize,
    /// Stop after several sweeps that gain less than this, in nats.
    pub tolerance: f64,
    /// Whether to compute a lower bound too, which takes as long as the upper bound.
    pub lower: bool,
}

options!(WeightedMiniBuckets {
    i_bound: Option<usize> => COUNT,
    iterations: usize => ITERATIONS,
    tolerance: f64 => FROM_ZERO,
    lower: bool
});

impl Default for WeightedMiniBuckets {
    fn default() -> Self {
        WeightedMiniBuckets { i_bound: None, iterations: 50, tolerance: 1e-3, lower: true }
    }
}

/// The current bounds, both certified.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sandwich {
    /// Lower bound on log Z.
    pub low: f64,
    /// Upper bound on log Z.
    pub high: f64,
    /// Number of sweeps done.
    pub iteration: usize,
    /// Seconds since the start.
    pub seconds: f64,
}

/// The state of the optimisation of one bound.
struct Climb {
    now: Parameters,
    /// The best parameters and their value before rounding.
    best: Parameters,
    best_value: f64,
    step: f64,
    /// Number of sweeps since the last gain above the tolerance.
    idle: usize,
    done: bool,
}

impl Climb {
    fn new(plan: &Plan, side: Side) -> Self {
        let now = Parameters::new(plan, side);
        let best_value = if side == Side::Upper { f64::INFINITY } else { f64::NEG_INFINITY };
        Climb { best: now.clone(), now, best_value, step: 1.0, idle: 0, done: false }
    }

    /// Evaluates a bound: continues from the current parameters if it is better, otherwise reverts to the
    /// best ones. Returns whether it is better.
    fn judge(&mut self, value: f64, tolerance: f64) -> bool {
        let sign = if self.now.side == Side::Upper { 1.0 } else { -1.0 };
        let gain = sign * (self.best_value - value);
        if gain >= 0.0 {
            self.idle = if gain > tolerance { 0 } else { self.idle + 1 };
            self.best_value = value;
            self.best.clone_from(&self.now);
            self.step = (1.5 * self.step).min(1.0);
        } else {
            self.idle += 1;
            self.now.clone_from(&self.best);
            self.step *= 0.5;
        }
        let converged = self.idle >= MOST_IDLE_SWEEPS && self.step >= 1.0;
        self.done |= converged || self.step < SMALLEST_STEP || value == f64::NEG_INFINITY;
        gain >= 0.0
    }
}

/// The sweeps of a query and their results so far.
struct Work<'a> {
    graph: &'a FactorGraph,
    /// The graph without its determined part, and the contribution of that part.
    free: &'a FactorGraph,
    offset: f64,
    sweeper: Sweeper<'a>,
    clock: &'a Clock<'a>,
    tolerance: f64,
    low: f64,
    high: f64,
    rounding: f64,
}

impl Work<'_> {
    /// The bound for the parameters of `climb`.
    fn bound(&mut self, climb: &Climb, clock: &Clock<'_>) -> Result<Messages> {
        let forward = self.sweeper.forward(&climb.now, clock)?;
        let value = forward.log_value;
        let allowance = rounding(self.graph, self.sweeper.plan, &climb.now);
        self.rounding = self.rounding.max(allowance);
        match climb.now.side {
            Side::Upper if value == f64::NEG_INFINITY => return Err(self.graph.zero_error()),
            Side::Upper => self.high = self.high.min(self.offset + value + allowance),
            Side::Lower => self.low = self.low.max(self.offset + value - allowance),
        }
        Ok(forward)
    }

    /// Computes a bound, and takes a step unless this is the last sweep.
    fn sweep(&mut self, climb: &mut Climb, last: bool, clock: &Clock<'_>) -> Result<()> {
        if climb.done {
            return Ok(());
        }
        let forward = self.bound(climb, clock)?;
        let better = climb.judge(forward.log_value, self.tolerance);
        if last || climb.done {
            return Ok(());
        }
        // After a step has been reverted, the beliefs for the restored parameters are needed.
        let messages = if better { forward } else { self.sweeper.forward(&climb.now, self.clock)? };
        let step = Step { shift: climb.step, weight: climb.step * WEIGHT_RATE };
        self.sweeper.backward(&mut climb.now, messages.messages, step, self.clock)
    }

    /// The lower bound from cases that are likely under the beliefs of the upper bound.
    fn look_at_cases(&mut self, upper: &Parameters, cutset: &Cutset, count: usize) -> Result<()> {
        let forward = self.sweeper.forward(upper, self.clock)?;
        let plan = self.sweeper.plan;
        let sweeper = Sweeper { plan, factors: self.sweeper.factors.clone() };
        let proposal = Proposal::new(sweeper, self.free, upper.clone(), forward.messages);
        let found = self.offset + cutset.bound(plan, self.free, &proposal, count, self.clock);
        self.low = self.low.max(found - self.rounding);
        Ok(())
    }
}

/// The result of the sweeps.
pub(super) struct Tightened {
    pub plan: Plan,
    pub upper: Parameters,
    pub low: f64,
    pub high: f64,
    pub rounding: f64,
    pub iterations: usize,
    pub stopped_early: bool,
}

/// An upper bound on the rounding errors of a forward sweep.
fn rounding(graph: &FactorGraph, plan: &Plan, parameters: &Parameters) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 5.0).sum();
    let tables: usize =
        plan.nodes.iter().map(|node| node.factors.len() + node.children.len() + node.links.len()).sum();
    let sums: f64 = plan.nodes.iter().map(|node| plan.states[node.variable] as f64 + 8.0).sum();
    let largest = parameters.weights.iter().fold(1.0, |m: f64, w| m.max(w.abs()));
    let operations = graph.factor_count() as f64 + states + tables as f64 + sums * largest;
    numeric::rounding_allowance(operations, graph.magnitude() + 2.0 * parameters.magnitude())
}

impl WeightedMiniBuckets {
    /// The number of sweeps to plan time for.
    pub(super) fn sweeps(&self) -> f64 {
        (self.iterations as f64 + 1.0) * if self.lower { 2.0 } else { 1.0 }
    }

    /// Tightens the bounds on a prepared graph.
    pub(super) fn tighten_prepared(
        &self,
        graph: &FactorGraph,
        prepared: &Prepared,
        layout: Layout,
        run: &Run,
        clock: &Clock<'_>,
        report: &mut (dyn FnMut(Sandwich) -> bool + Send),
    ) -> Result<Tightened> {
        let Layout { plan, cutset, .. } = layout;
        // The first sweep must complete, because there is no result without it.
        let patient = run.with_grace();
        let (first_clock, deadline) =
            (patient.start(NAME), run.time().map(|time| time.as_secs_f64() * FOR_SWEEPS));
        let free = &prepared.reduced.graph;
        let mut work = Work {
            graph,
            free,
            offset: prepared.reduced.constant,
            sweeper: Sweeper::new(&plan, free),
            clock,
            tolerance: self.tolerance,
            low: f64::NEG_INFINITY,
            high: f64::INFINITY,
            rounding: 0.0,
        };
        let (mut upper, mut lower) = (Climb::new(&plan, Side::Upper), Climb::new(&plan, Side::Lower));
        lower.done = !self.lower || !plan.is_split();
        let (mut iteration, mut stopped_early) = (0, false);
        loop {
            clock.progress("tightening the bounds", iteration as u64, self.iterations as u64);
            let last = iteration >= self.iterations || !plan.is_split();
            let now = if iteration == 0 { &first_clock } else { clock };
            let mut sweeps =
                work.sweep(&mut upper, last, now).and_then(|()| work.sweep(&mut lower, last, clock));
            let late = deadline.is_some_and(|deadline| clock.seconds() > deadline);
            let ended = last || late || (upper.done && lower.done);
            stopped_early |= late && !last && !(upper.done && lower.done);
            if let (Ok(()), Some(cutset)) = (&sweeps, &cutset)
                && (ended || iteration == FIRST_LOOK)
                && (cutset.variables.len() <= MANY_VARIABLES || work.low == f64::NEG_INFINITY)
            {
                let count = if ended { self.cases(&plan, cutset) } else { FIRST_CASES };
                sweeps = work.look_at_cases(&upper.best, cutset, count);
            }
            match sweeps {
                Err(error) if error.is_stop() && work.high < f64::INFINITY => stopped_early = true,
                other => other?,
            }
            if !plan.is_split() && self.lower {
                work.low = work.high - 2.0 * work.rounding;
            }
            let (low, high) = (work.low, work.high);
            let more = report(Sandwich { low, high, iteration, seconds: clock.seconds() });
            if !more || ended || stopped_early {
                break;
            }
            iteration += 1;
        }
        let Work { low, high, rounding, .. } = work;
        let upper = upper.best;
        Ok(Tightened { plan, upper, low, high, rounding, iterations: iteration, stopped_early })
    }

    /// The number of cases that take about as long as the sweeps.
    fn cases(&self, plan: &Plan, cutset: &Cutset) -> usize {
        let affordable =
            self.sweeps() * plan.sizes.entries / (cutset.entries + 20.0 * plan.nodes.len() as f64);
        (3.0 * affordable).clamp(FIRST_CASES as f64, MOST_CASES) as usize
    }

    /// Tightens the bounds sweep by sweep. Calls `report` after each sweep and stops when it returns false.
    ///
    /// # Errors
    /// If an option is out of range, Z = 0 is detected, the memory budget is too small, or the run is
    /// cancelled or out of time before the first bound.
    ///
    /// ```
    /// use zhat::Run;
    /// use zhat::bounds::WeightedMiniBuckets;
    /// use zhat::model::generate::{self, GraphShape};
    /// let model = generate::random(&GraphShape { variables: 20, factors: 60, ..Default::default() }, 1)?;
    /// let method = WeightedMiniBuckets::default().i_bound(Some(3));
    /// let mut gap = f64::INFINITY;
    /// method.tighten(&model, &Run::default(), &mut |bounds| {
    ///     assert!(bounds.high - bounds.low <= gap);
    ///     gap = bounds.high - bounds.low;
    ///     gap > 1.0
    /// })?;
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn tighten(
        &self,
        graph: &FactorGraph,
        run: &Run,
        report: &mut (dyn FnMut(Sandwich) -> bool + Send),
    ) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        if self.is_exact_in_reach(graph, run) {
            match exactly(graph, run, &clock, report) {
                Err(Error::OverBudget { .. }) => {}
                answer => return answer,
            }
        }
        let prepared = graph.prepared_for(Query::LogPartition, NAME, &run.with_grace())?;
        let layout = Layout::new(&prepared, self.i_bound, self.sweeps(), self.lower, run);
        run.require_memory(NAME, graph.preparation_bytes() + layout.bytes)?;
        let found = run.install(|| self.tighten_prepared(graph, &prepared, layout, run, &clock, report))?;
        let sizes = &found.plan.sizes;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("i_bound", sizes.width)
            .count("entries", sizes.entries)
            .note("mini_buckets", found.plan.nodes.len())
            .note("split", found.plan.groups.iter().filter(|group| group.nodes.len() > 1).count())
            .note("iterations", found.iterations);
        diagnostics.rounding = found.rounding;
        diagnostics.stopped_early = found.stopped_early;
        diagnostics.seconds = clock.seconds();
        let guarantee = Guarantee::Bounds { low: found.low, high: found.high, confidence: 1.0 };
        Ok(Answer { value: found.high, guarantee, diagnostics })
    }

    /// Whether elimination is feasible. If no bucket has to be split, it gives the same result in less
    /// memory.
    fn is_exact_in_reach(&self, graph: &FactorGraph, run: &Run) -> bool {
        let horizon = run.time().map_or(DEFAULT_HORIZON, |time| 0.5 * time.as_secs_f64());
        // Forecast for one thread, because the result must not depend on the number of threads.
        let alone = run.clone().with_threads(1);
        self.i_bound.is_none()
            && Elimination::default().forecast(graph, Query::LogPartition, &alone).fits(run, horizon)
    }
}

fn exactly(
    graph: &FactorGraph,
    run: &Run,
    clock: &Clock<'_>,
    report: &mut (dyn FnMut(Sandwich) -> bool + Send),
) -> Result<Estimate> {
    let exact = Elimination::default().log_partition(graph, run)?;
    let rounding = exact.diagnostics.rounding;
    let (low, high) = (exact.value - rounding, exact.value + rounding);
    report(Sandwich { low, high, iteration: 0, seconds: clock.seconds() });
    let mut diagnostics = Diagnostics::new(NAME).note("split", 0).note("iterations", 0);
    (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
    Ok(Answer { value: high, guarantee: Guarantee::Bounds { low, high, confidence: 1.0 }, diagnostics })
}

impl Forecasts<FactorGraph> for WeightedMiniBuckets {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let prepared = match graph.prepared_for(query, NAME, run) {
            Ok(prepared) => prepared,
            Err(error) if error.is_stop() => {
                let (bytes, seconds) = (graph.preparation_bytes(), f64::INFINITY);
                return Forecast { bytes, seconds, promise: Promise::Bounds };
            }
            Err(_) => return Forecast { bytes: 0.0, seconds: 0.0, promise: Promise::Bounds },
        };
        if self.is_exact_in_reach(graph, run) {
            let exact = Elimination::default().forecast(graph, query, run);
            return Forecast { promise: Promise::Bounds, ..exact };
        }
        let layout = Layout::new(&prepared, self.i_bound, self.sweeps(), self.lower, run);
        let sweeps = if layout.plan.is_split() { self.sweeps() } else { 0.5 };
        Forecast {
            bytes: graph.preparation_bytes() + layout.bytes,
            seconds: memory::seconds(&layout.plan, sweeps)
                * if layout.cutset.is_some() { WITH_CASES } else { 1.0 },
            promise: Promise::Bounds,
        }
    }
}

impl LogPartition<FactorGraph> for WeightedMiniBuckets {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.tighten(graph, run, &mut |_| true)
    }
}
