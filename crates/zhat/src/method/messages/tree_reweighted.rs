//! The tree-reweighted upper bound on log Z.
//!
//! Let T be a random forest of factors with distribution ρ_T, and ρ_f = P(f ∈ T). For **any** numbers
//! λ_{f→i}(x_i), give the forest T the scores θ_i + Σ_f λ_{f→i} of all variables and (θ_f − Σ_i λ_{f→i})/ρ_f
//! of its factors. The average over T is the model itself, and log Z is convex, so
//!
//!   log Z ≤ Σ_T ρ_T log Z(T),
//!
//! and every log Z(T) is computed exactly by messages from the leaves to the roots. The bound is therefore
//! valid at any time, converged or not. λ is improved by message passing, whose fixed points are the minima
//! over λ. ρ is improved by adding forests (Frank–Wolfe), each with the largest total mutual information,
//! which are kept if the bound improves. Without cycles the bound equals log Z.
//!
//! Time O(iterations · Σ_f arity · table), and as much per forest for each evaluation of the bound; memory
//! O(messages + forests · factors). The bound is certified: it includes an allowance for rounding, with each
//! error relative to the current magnitudes. The marginals are those of the relaxed problem, without a
//! guarantee.
//!
//! Reference: M. J. Wainwright, T. S. Jaakkola, A. S. Willsky, *A new class of upper bounds on the log
//! partition function*, IEEE Transactions on Information Theory 51 (2005).
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::exact::Elimination;
//! use zhat::messages::TreeReweighted;
//! use zhat::model::generate;
//! let grid = generate::Grid { rows: 6, columns: 6, torus: false };
//! let model = generate::ising(grid, 1.0, 0.5, false, 1)?;
//! let bound = TreeReweighted::default().log_partition(&model, &Run::default())?;
//! assert!(bound.value >= Elimination::default().log_partition(&model, &Run::default())?.value);
//! # Ok::<(), zhat::Error>(())
//! ```

use std::ops::ControlFlow;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::appearance::Appearance;
use super::engine::Messages;
use super::forest::{Forest, Sum};
use super::kernel::Algebra;
use super::layout::Layout;
use super::subject::{Sizes, Subject};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::tree_reweighted::{SECONDS_PER_ENTRY, SECONDS_PER_FACTOR};
use crate::model::FactorGraph;
use crate::numeric::{self, CompensatedSum};
use crate::options::{DAMPING, FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::query::{Beliefs, FactorBeliefs, FactorMarginals, LogPartition, Marginals, Query};
use crate::query::{Forecast, Forecasts};
use crate::run::{Clock, Run};

const NAME: &str = "trw";
/// Initial number of forests, or more if the graph is not covered by fewer.
const FIRST: usize = 4;
/// Number of sweeps between evaluations of the bound, after the first rounds.
const BURST: u64 = 8;
/// A forest is added once messages change by less than this.
const SETTLED: f64 = 0.05;
/// No more forests are tried after this many consecutive ones that did not help.
const MOST_FAILED_FORESTS: u32 = 3;
/// Messages of a graph without cycles have converged if they change by less than this, in nats.
const CONVERGED: f64 = 1e-12;
/// Maximum damping.
const CAUTION: f64 = 0.9;
/// Maximum total number of steps of all forests beyond those that cover the graph: 128 MiB.
const STEPS: usize = 1 << 24;

/// Tree-reweighted belief propagation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct TreeReweighted {
    /// Maximum number of updates of every message.
    pub iterations: u64,
    /// Stop when a round of updates lowers the bound by less than this fraction of it.
    pub tolerance: f64,
    /// Maximum number of forests; more if fewer do not cover the graph.
    pub forests: usize,
    /// Weight of the old message in an update, at least 0 and below 1; increased if the bound does not
    /// decrease.
    pub damping: f64,
}

options!(TreeReweighted {
    iterations: u64 => ITERATIONS,
    tolerance: f64 => FROM_ZERO,
    forests: usize => Range::whole(1, 1_000_000),
    damping: f64 => DAMPING
});

impl Default for TreeReweighted {
    fn default() -> Self {
        TreeReweighted { iterations: 400, tolerance: 1e-6, forests: 50, damping: 0.1 }
    }
}

/// The current bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bound {
    /// Upper bound on log Z, including the rounding allowance.
    pub high: f64,
    /// Number of updates of every message so far.
    pub iterations: u64,
    /// Number of forests.
    pub forests: usize,
}

/// The result of the optimisation.
struct Improved {
    /// The best bound without the rounding allowance, and the allowance in nats.
    value: f64,
    rounding: f64,
    iterations: u64,
    /// The largest change of a message in the last sweep.
    residual: f64,
    forests: usize,
    stopped_early: bool,
    exact: bool,
}

/// The optimisation of the bound.
struct Search<'a> {
    method: &'a TreeReweighted,
    messages: Messages<'a>,
    appearance: Appearance,
    clock: &'a Clock<'a>,
    /// The constant removed from the graph, and its rounding error.
    constant: f64,
    rounding: f64,
    best: Improved,
}

impl Search<'_> {
    /// Evaluates the bound for the current messages. Returns +∞ if the run must stop and there is already a
    /// bound.
    fn certify(&mut self) -> f64 {
        self.messages.refresh();
        let (messages, clock, first) = (&self.messages, self.clock, self.best.value == f64::INFINITY);
        let solve = |forest: &Forest| {
            let goes_on = first || !clock.must_stop();
            goes_on.then(|| forest.log_partition(messages))
        };
        let sums: Option<Vec<Sum>> = self.appearance.forests.par_iter().map(solve).collect();
        let Some(sums) = sums else {
            self.best.stopped_early = true;
            return f64::INFINITY;
        };
        let mut value = CompensatedSum::default();
        let mut units = self.rounding + self.messages.score_rounding();
        for (t, sum) in sums.iter().enumerate() {
            let weight = self.appearance.weight(t);
            value.add(weight * sum.value);
            units += weight * (sum.rounding + 2.0 * sum.value.abs());
        }
        value.add(self.messages.layout.constant);
        value.add(self.constant);
        let (value, rounding) = (value.value(), numeric::rounding_allowance(0.0, units));
        if value + rounding < self.best.value + self.best.rounding {
            (self.best.value, self.best.rounding) = (value, rounding);
        }
        value
    }

    /// Updates all messages up to `count` times; returns false if the run must end.
    fn pass(&mut self, count: u64) -> bool {
        for _ in 0..count {
            if self.best.iterations >= self.method.iterations {
                return false;
            }
            let residual = self.messages.sweep(self.best.iterations % 2 == 1, self.clock);
            if residual == f64::INFINITY {
                self.best.stopped_early = true;
                return false;
            }
            self.best.iterations += 1;
            self.best.residual = residual;
            self.clock.progress("lowering the bound", self.best.iterations, self.method.iterations);
        }
        true
    }

    fn tell(&self, each: &mut dyn FnMut(&Bound) -> ControlFlow<()>) -> bool {
        let bound = Bound {
            high: self.best.value + self.best.rounding,
            iterations: self.best.iterations,
            forests: self.appearance.forests.len(),
        };
        self.clock.bounds(f64::NEG_INFINITY, bound.high);
        each(&bound).is_continue()
    }

    fn run(&mut self, each: &mut dyn FnMut(&Bound) -> ControlFlow<()>) {
        let mut last = self.certify();
        if !self.tell(each) || self.best.exact {
            return;
        }
        let layout = self.messages.layout;
        let (mut burst, mut failures, mut share) = (1, 0, 1.0);
        // The weights and the bound before the last forest was added.
        let mut trial: Option<(Vec<u32>, f64)> = None;
        loop {
            let going = self.pass(burst);
            let now = self.certify();
            if !self.tell(each) || !going || now == f64::INFINITY {
                return;
            }
            let settled = self.best.residual < SETTLED || burst >= BURST;
            burst = (2 * burst).min(BURST.max(self.appearance.cost(layout) as u64));
            let gain = last - now;
            last = now;
            if gain < 0.0 && self.best.residual > SETTLED {
                self.messages.damping = (0.5 + 0.5 * self.messages.damping).min(CAUTION);
            }
            let enough = self.method.tolerance * (1.0 + now.abs());
            if let Some((before, bound)) = trial.take() {
                if now < bound - enough {
                    failures = 0;
                } else {
                    self.appearance.take_back(before);
                    self.messages.weights = self.appearance.of_factors(layout);
                    (failures, share) = (failures + 1, 0.5 * share);
                    last = bound;
                }
            }
            let count = self.appearance.forests.len();
            if settled && failures < MOST_FAILED_FORESTS && count < self.method.most(layout.variable_count())
            {
                let information = self.messages.information();
                let part = share * 2.0 / (count as f64 + 2.0);
                let before = self.appearance.add_heaviest(layout, &information, part);
                self.messages.weights = self.appearance.of_factors(layout);
                trial = Some((before, last));
            } else if gain.abs() <= enough && settled {
                return;
            }
            self.best.forests = self.appearance.forests.len();
        }
    }
}

impl Search<'_> {
    /// Without cycles the bound equals log Z before any message is sent, but marginals need converged
    /// messages.
    fn settle(&mut self) {
        self.messages.damping = 0.0;
        while self.best.residual > CONVERGED && self.pass(1) {}
        self.messages.refresh();
    }
}

impl TreeReweighted {
    /// Maximum number of forests for this many variables.
    fn most(&self, variables: usize) -> usize {
        self.forests.min((STEPS / variables.max(1)).max(FIRST))
    }

    fn bytes(&self, sizes: &Sizes, query: Query, run: &Run) -> f64 {
        // No forest has more steps than this. If the forests do not cover the graph, the remaining factors
        // are added once.
        let tree = sizes.variables.min(sizes.factors) as f64;
        let steps = tree * (self.most(sizes.variables) + 1) as f64 + sizes.factors as f64;
        let forests = 8.0 * steps + 48.0 * sizes.factors as f64;
        let ordering = 32.0 * sizes.factors as f64 + 24.0 * sizes.variables as f64 + 8.0 * sizes.slots as f64;
        let scores = 8.0 * sizes.states as f64 * (1.0 + run.threads() as f64);
        sizes.bytes(query, run) + forests + 1.5 * ordering + scores
    }

    /// Improves the bound and calls `each` with every new one, until it breaks off, the run must stop, or the
    /// bound no longer improves. The result contains the best bound.
    ///
    /// # Errors
    /// If an option is out of range, Z = 0 is detected, the log-values are too large for messages, the memory
    /// budget is too small, or the run is cancelled or out of time before the first bound.
    ///
    /// ```
    /// use std::ops::ControlFlow;
    /// use zhat::Run;
    /// use zhat::messages::TreeReweighted;
    /// use zhat::model::generate::{self, GraphShape};
    /// let model = generate::random(&GraphShape { variables: 30, factors: 60, ..Default::default() }, 1)?;
    /// let mut bounds = Vec::new();
    /// TreeReweighted::default().improve(&model, &Run::default(), |bound| {
    ///     bounds.push(bound.high);
    ///     if bounds.len() < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    /// })?;
    /// assert!(bounds.is_sorted_by(|a, b| a >= b));
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn improve(
        &self,
        graph: &FactorGraph,
        run: &Run,
        each: impl FnMut(&Bound) -> ControlFlow<()> + Send,
    ) -> Result<Estimate> {
        self.answer(graph, Query::LogPartition, run, each, |_, _, best| {
            let low = if best.exact { best.value } else { f64::NEG_INFINITY };
            (best.value, Guarantee::bounds(low, best.value, 1.0, best.rounding))
        })
    }

    fn answer<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        mut each: impl FnMut(&Bound) -> ControlFlow<()> + Send,
        finish: impl FnOnce(&Subject<'_>, &Messages<'_>, &Improved) -> (T, Guarantee) + Send,
    ) -> Result<Answer<T>> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.bytes(&Sizes::of(graph), query, run))?;
        run.install(|| {
            let subject = Subject::new(graph, query, NAME, run)?;
            let layout = Layout::new(subject.graph())?;
            let n = layout.variable_count();
            let room = n.min(layout.factor_count()) * self.most(n);
            let appearance = Appearance::covering(&layout, FIRST.min(self.forests), room, run.seed());
            let weights = appearance.of_factors(&layout);
            let exact = weights.iter().all(|&weight| weight == 1.0);
            let best = Improved {
                value: f64::INFINITY,
                rounding: 0.0,
                iterations: 0,
                residual: f64::INFINITY,
                forests: appearance.forests.len(),
                stopped_early: false,
                exact,
            };
            let mut search = Search {
                method: self,
                messages: Messages::new(&layout, Algebra::Sum, weights, self.damping),
                appearance,
                clock: &clock,
                constant: subject.constant(),
                rounding: subject.rounding(),
                best,
            };
            search.run(&mut each);
            if exact && query != Query::LogPartition {
                search.settle();
            }
            if clock.is_cancelled() && query != Query::LogPartition {
                return Err(Error::Interrupted);
            }
            let Search { messages, best, .. } = search;
            let (value, guarantee) = finish(&subject, &messages, &best);
            let mut diagnostics = Diagnostics::new(NAME)
                .note("iterations", best.iterations)
                .note("forests", best.forests)
                .note("bound", best.value + best.rounding);
            if best.residual.is_finite() {
                diagnostics = diagnostics.note("residual", best.residual);
            }
            diagnostics.rounding = best.rounding;
            diagnostics.stopped_early = best.stopped_early;
            diagnostics.seconds = clock.seconds();
            Ok(Answer { value, guarantee, diagnostics })
        })
    }
}

fn relaxed() -> Guarantee {
    Guarantee::Heuristic {
        reason: "the marginals of a relaxed problem, which bounds log Z from above".into(),
    }
}

impl Forecasts<FactorGraph> for TreeReweighted {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let sizes = Sizes::of(graph);
        let arity = sizes.slots as f64 / sizes.factors.max(1) as f64;
        let sweep = SECONDS_PER_ENTRY * sizes.entries as f64 * (1.0 + arity)
            + SECONDS_PER_FACTOR * (sizes.factors + sizes.variables) as f64;
        let bound = sizes.acyclic && query == Query::LogPartition;
        let sweeps = if bound { 4.0 } else { 2.0 * self.iterations as f64 };
        Forecast {
            bytes: self.bytes(&sizes, query, run),
            seconds: sweeps * sweep,
            promise: if query == Query::LogPartition { Promise::Bounds } else { Promise::Heuristic },
        }
    }
}

impl LogPartition<FactorGraph> for TreeReweighted {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.improve(graph, run, |_| ControlFlow::Continue(()))
    }
}

impl Marginals<FactorGraph> for TreeReweighted {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        let each = |_: &Bound| ControlFlow::Continue(());
        self.answer(graph, Query::Marginals, run, each, |subject, messages, _| {
            (subject.beliefs(messages), relaxed())
        })
    }
}

impl FactorMarginals<FactorGraph> for TreeReweighted {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        let each = |_: &Bound| ControlFlow::Continue(());
        self.answer(graph, Query::FactorMarginals, run, each, |subject, messages, _| {
            (subject.factor_beliefs(messages), relaxed())
        })
    }
}
