//! A certified interval around log Z that tightens as long as there is time.
//!
//! Three methods run in turn, each starting from the result of the previous one: mean field raises the lower
//! end (linear cost), tree-reweighted message passing lowers the upper end (linear cost), and weighted
//! mini-buckets tighten both with tables of 4, 6, 8 … variables, as large as memory allows. If elimination is
//! feasible, or a search for models with zeros, the interval closes. Every end is certified at any time, so
//! the best value of each side is too.
//!
//! Guarantee: `Bounds` with confidence 1. If both ends are finite, the value is the middle of the interval,
//! and its error is at most half the width.

use std::ops::ControlFlow;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::bounds::mean_field::MeanField;
use crate::method::bounds::minibucket::WeightedMiniBuckets;
use crate::method::exact::{Elimination, Search};
use crate::method::messages::TreeReweighted;
use crate::model::FactorGraph;
use crate::options::{FROM_ZERO, Options, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::run::{Clock, Run};

const NAME: &str = "anytime-bounds";
/// Fractions of the time budget for mean field and for tree-reweighted message passing.
const FOR_LOWER: f64 = 0.15;
const FOR_UPPER: f64 = 0.25;
const FOR_SEARCH: f64 = 0.5;
/// Number of variables in the first mini-bucket tables, and its increment.
const FIRST_WIDTH: usize = 4;
const WIDER: usize = 2;
const WIDEST: usize = 40;
/// Time limit in seconds if there is no time budget.
const DEFAULT_SECONDS: f64 = 60.0;

/// Certified bounds on log Z from all methods that provide them, tightened in turn.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct CertifiedBounds {
    /// Stop once the interval is this narrow, in nats.
    pub gap: f64,
}

options!(CertifiedBounds {
    gap: f64 => FROM_ZERO
});

impl Default for CertifiedBounds {
    fn default() -> Self {
        CertifiedBounds { gap: 0.01 }
    }
}

/// The current interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// Lower bound on log Z.
    pub low: f64,
    /// Upper bound on log Z.
    pub high: f64,
    /// The method that improved an end last.
    pub by: &'static str,
    /// Seconds since the start.
    pub seconds: f64,
}

impl Interval {
    /// The width of the interval.
    pub fn gap(&self) -> f64 {
        self.high - self.low
    }
}

/// The state of a computation.
struct Tightening<'a, 'c> {
    now: Interval,
    gap: f64,
    /// Time limit in seconds.
    time: f64,
    clock: &'a Clock<'c>,
    report: &'a mut (dyn FnMut(Interval) -> bool + Send),
    /// True once `report` has returned false.
    ended: bool,
}

impl Tightening<'_, '_> {
    /// Adopts the ends that are better, reports them, and returns whether to continue.
    fn take(&mut self, low: f64, high: f64, by: &'static str) -> bool {
        let better = low > self.now.low || high < self.now.high;
        if better {
            self.now.low = self.now.low.max(low);
            self.now.high = self.now.high.min(high);
            self.now.by = by;
            self.now.seconds = self.clock.seconds();
            self.ended |= !(self.report)(self.now);
        }
        !self.finished()
    }

    fn finished(&self) -> bool {
        let late = self.clock.is_out_of_time() || self.clock.seconds() > self.time;
        self.ended || self.now.gap() <= self.gap || self.clock.is_cancelled() || late
    }

    /// Adopts the final result of a method. If the method failed, the interval stays as it is.
    fn absorb(&mut self, answer: Result<Estimate>, by: &'static str) -> Result<()> {
        match answer {
            Ok(answer) => {
                if let Some((low, high, _)) =
                    answer.guarantee.interval(answer.value, answer.diagnostics.rounding)
                {
                    self.take(low, high, by);
                }
                Ok(())
            }
            Err(
                error @ (Error::ZeroPartition | Error::ImpossibleEvidence { .. } | Error::Argument { .. }),
            ) => Err(error),
            Err(_) => Ok(()),
        }
    }
}

impl CertifiedBounds {
    /// Tightens the interval until it is narrow enough, time is up, or `report` returns false; `report` is
    /// called after every improvement.
    ///
    /// # Errors
    /// If an option is out of range, Z = 0 is detected (`Error::ZeroPartition`, with evidence
    /// `Error::ImpossibleEvidence`), or no bound is found before the run is cancelled or over its budget.
    ///
    /// ```
    /// use zhat::bounds::CertifiedBounds;
    /// use zhat::Run;
    /// use zhat::model::generate::{self, GraphShape};
    /// let model = generate::random(&GraphShape { variables: 30, factors: 60, ..Default::default() }, 1)?;
    /// let z = CertifiedBounds::default().tighten(&model, &Run::default(), &mut |interval| {
    ///     println!("{} ≤ log Z ≤ {} ({})", interval.low, interval.high, interval.by);
    ///     true
    /// })?;
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn tighten(
        &self,
        graph: &FactorGraph,
        run: &Run,
        report: &mut (dyn FnMut(Interval) -> bool + Send),
    ) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        let now = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY, by: "nothing", seconds: 0.0 };
        let time = run.time().map_or(DEFAULT_SECONDS, |time| time.as_secs_f64());
        let mut work = Tightening { now, gap: self.gap, time, clock: &clock, report, ended: false };
        // The rest of the budget, or a fraction of the budget if that is less.
        let left = |part: f64| {
            let rest = (part * time).min(time - clock.seconds()).max(0.0);
            run.clone().with_time(Duration::from_secs_f64(rest))
        };
        if !work.finished() {
            let mut each = |bound: crate::method::bounds::mean_field::LowerBound| {
                work.take(bound.low, f64::INFINITY, "mean-field")
            };
            let answer = MeanField::default().lower_bounds(graph, &left(FOR_LOWER), &mut each);
            work.absorb(answer, "mean-field")?;
        }
        if !work.finished() {
            let answer = TreeReweighted::default().improve(graph, &left(FOR_UPPER), |bound| {
                match work.take(f64::NEG_INFINITY, bound.high, "trw") {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            });
            work.absorb(answer, "trw")?;
        }
        // Finding an elimination order takes longer than the first bounds, so elimination comes after them.
        if !work.finished() && in_reach(&Elimination::default(), graph, &left(1.0)) {
            let answer = Elimination::default().log_partition(graph, &left(1.0));
            work.absorb(answer, "elimination")?;
        }
        // Search is better only for models dominated by zeros; a trial run decides.
        if !work.finished() && graph.has_zeros() && in_reach(&Search::default(), graph, &left(FOR_SEARCH)) {
            let answer = Search::default().log_partition(graph, &left(FOR_SEARCH));
            work.absorb(answer, "search")?;
        }
        let mut width = FIRST_WIDTH;
        while !work.finished() && width <= WIDEST {
            let method = WeightedMiniBuckets { i_bound: Some(width), ..Default::default() };
            let forecast = method.forecast(graph, Query::LogPartition, run);
            if forecast.bytes > run.memory() as f64 {
                break;
            }
            let mut each =
                |found: crate::method::bounds::minibucket::Sandwich| work.take(found.low, found.high, "wmb");
            let answer = method.tighten(graph, &left(1.0), &mut each);
            let whole = answer.as_ref().is_ok_and(|answer| is_whole(&answer.diagnostics));
            work.absorb(answer, "wmb")?;
            // No bucket was split, so larger tables cannot improve the bounds.
            if whole {
                break;
            }
            width += WIDER;
        }
        let Tightening { now, .. } = work;
        if !now.low.is_finite() && !now.high.is_finite() {
            clock.check()?;
            return Err(Error::NoAnswer("no method found a bound within the budget".into()));
        }
        let value = match (now.low.is_finite(), now.high.is_finite()) {
            (true, true) => 0.5 * (now.low + now.high),
            (true, false) => now.low,
            _ => now.high,
        };
        let mut diagnostics =
            Diagnostics::new(NAME).note("gap", now.gap()).note("by", now.by).note("width", width);
        diagnostics.seconds = clock.seconds();
        diagnostics.stopped_early = now.gap() > self.gap && clock.must_stop();
        let guarantee = Guarantee::Bounds { low: now.low, high: now.high, confidence: 1.0 };
        Ok(Answer { value, guarantee, diagnostics })
    }
}

fn in_reach(method: &impl Forecasts<FactorGraph>, graph: &FactorGraph, run: &Run) -> bool {
    let patience = run.time().map_or(DEFAULT_SECONDS, |time| time.as_secs_f64());
    method.forecast(graph, Query::LogPartition, run).fits(run, patience)
}

/// True if no bucket was split.
fn is_whole(diagnostics: &Diagnostics) -> bool {
    diagnostics.figures().any(|(name, value)| name == "split" && value.as_u64() == Some(0))
}

impl Forecasts<FactorGraph> for CertifiedBounds {
    /// The cost of mean field and tree-reweighted message passing. All further work stops at the budgets.
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let lower = MeanField::default().forecast(graph, query, run);
        let upper = TreeReweighted::default().forecast(graph, query, run);
        let seconds = lower.seconds + upper.seconds;
        Forecast { bytes: lower.bytes.max(upper.bytes), seconds, promise: Promise::Bounds }
    }
}

impl LogPartition<FactorGraph> for CertifiedBounds {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        let observer = run.clone();
        self.tighten(graph, run, &mut |interval| {
            observer.interval(interval.low, interval.high, interval.by);
            true
        })
    }
}
