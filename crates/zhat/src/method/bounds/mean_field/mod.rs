//! Mean field: a lower bound on log Z by the best approximating distribution of simple structure.
//!
//! For every distribution q, log Z ≥ F(q) = E_q\[score\] + H(q), and the gap is KL(q ‖ p). Here q = Π_c q_c
//! over clusters of variables. With `structure = independent` a cluster is a single variable. With `forest`
//! it is a tree of variables, chosen so that the factors restricted to it form no cycle (`partition`). Given
//! the others, the optimal q_c is a tree distribution, computed by one sum-product sweep (`ascent`). Clusters
//! that share no factor are updated together. F never decreases.
//!
//! Time of a sweep: every factor once for each of its clusters, and one exponential for each table entry
//! inside a cluster. Memory is linear in the size of the model.
//!
//! **Guarantee.** log Z ≥ F(q), certified at every stopping point: F is evaluated for the current q and
//! lowered by the rounding allowance (`evaluate`). Without crossing factors, as on a tree, the results are
//! exact. With zeros in the model, q stays on states of positive weight, starting from one found by search
//! (`start`); if none is found the bound is −∞, and the result says so. Marginals and entropy are those of q,
//! without a guarantee. The best state is a state of q, returned with its score.
//!
//! `condition = k` conditions on the k most strongly coupled variables: log Z ≥ log Σ_s exp F_s over their
//! joint states s, with a separate q for each.
//!
//! Reference: L. Saul, M. Jordan, *Exploiting tractable substructures in intractable networks*, NIPS 1995; M.
//! Wainwright, M. Jordan, *Graphical models, exponential families, and variational inference*, 2008.
//!
//! ```
//! use zhat::{Guarantee, LogPartition, Run};
//! use zhat::bounds::MeanField;
//! use zhat::model::generate;
//! let grid = generate::Grid { rows: 30, columns: 30, torus: false };
//! let model = generate::ising(grid, 0.3, 0.5, false, 1)?;
//! let z = MeanField::default().log_partition(&model, &Run::default())?;
//! assert!(matches!(z.guarantee, Guarantee::Bounds { low, .. } if low > 700.0));
//! # Ok::<(), zhat::Error>(())
//! ```

mod answers;
mod ascent;
mod conditioned;
mod evaluate;
mod layout;
mod partition;
mod start;

use serde::{Deserialize, Serialize};

use self::ascent::{Ascent, Zeros};
use self::layout::Layout;
use self::partition::{Partition, Touching, is_forest};
use self::start::Start;
use crate::error::{Error, Result};
use crate::method::exact::prepare::Reduced;
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{COUNT, FROM_ZERO, ITERATIONS, Options, Range, options};
use crate::query::Query;
use crate::run::{Clock, Run};

const NAME: &str = "mean-field";
/// Number of sweeps of each ascent before only the best one continues.
const RACE: usize = 10;
/// Limit on the model size times the number of ascents if `restarts` is 0: some tenths of a second.
const ASCENT_WORDS: usize = 1 << 21;
/// Penalty for a zero if no state of positive weight was found.
const PENALTY: f64 = 30.0;

/// The clusters of q.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MeanFieldStructure {
    /// Trees of variables.
    #[default]
    Forest,
    /// Single variables.
    Independent,
}

/// Mean field approximation with independent variables or trees of variables.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct MeanField {
    /// The clusters of q.
    pub structure: MeanFieldStructure,
    /// Maximum number of sweeps of one ascent.
    pub iterations: usize,
    /// An ascent ends when a sweep gains less than this, in nats per variable.
    pub tolerance: f64,
    /// Number of ascents from different initial distributions; the best one continues after ten sweeps each.
    /// 0 chooses 4 to 32, depending on the size of the model.
    pub restarts: usize,
    /// For log Z: the number of variables to condition on.
    pub condition: usize,
}

options!(MeanField {
    structure: MeanFieldStructure,
    iterations: usize => ITERATIONS,
    tolerance: f64 => FROM_ZERO,
    restarts: usize => Range::whole(0, 1_000_000),
    condition: usize => COUNT
});

impl Default for MeanField {
    fn default() -> Self {
        MeanField {
            structure: MeanFieldStructure::Forest,
            iterations: 200,
            tolerance: 1e-6,
            restarts: 0,
            condition: 0,
        }
    }
}

/// A certified lower bound on log Z found during the optimisation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LowerBound {
    /// The lower bound on log Z.
    pub low: f64,
    /// Index of the ascent that found it.
    pub restart: usize,
    /// Number of sweeps of that ascent so far.
    pub iteration: usize,
    /// Seconds since the start.
    pub seconds: f64,
}

/// Called with each bound; returning false ends the work.
type Each<'a> = &'a mut (dyn FnMut(LowerBound) -> bool + Send);

/// The final state of the optimisation.
struct Outcome<'a> {
    reduced: &'a Reduced,
    ascent: Ascent<'a>,
    /// F(q) with the constant, as computed.
    bound: f64,
    /// log Z, if there are no crossing factors.
    exact: Option<f64>,
    rounding: f64,
    sweeps: usize,
    converged: bool,
    stopped_early: bool,
}

impl MeanField {
    /// The number of ascents.
    fn ascents(&self, graph: &FactorGraph) -> usize {
        let by_size = ASCENT_WORDS / (graph.bytes() / 8 + 1);
        if self.restarts > 0 { self.restarts } else { by_size.clamp(4, 32) }
    }

    /// The graph after reduction.
    fn reduced(graph: &FactorGraph, query: Query, clock: &Clock<'_>) -> Result<Reduced> {
        let stop = || clock.must_stop();
        let mut reduced = Reduced::within(graph, clock)?;
        // Probing may merge variables, which can turn a forest into a graph with cycles.
        if reduced.graph.has_zeros() && !is_forest(&reduced.graph) {
            reduced = Reduced::probed(graph, f64::INFINITY, clock)?;
        }
        if query == Query::LogPartition {
            reduced.leave_out_barren(&stop);
        }
        Ok(if query == Query::FactorMarginals { reduced } else { reduced.simplified(&stop) })
    }

    /// Optimises q and passes the best one to `finish`.
    fn solve<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
        each: Each<'_>,
        finish: impl FnOnce(&Outcome<'_>) -> Result<T> + Send,
    ) -> Result<T> {
        self.check()?;
        run.require_memory(NAME, answers::bytes(graph, query))?;
        run.install(|| {
            // The first sweep must complete, because there is no bound before it.
            let patient = run.with_grace();
            let reduced = Self::reduced(graph, query, &patient.start(NAME))?;
            let free = &reduced.graph;
            let touching = Touching::new(free);
            let partition = Partition::new(free, &touching, self.structure);
            let layout = Layout::new(free, &touching, &partition)
                .ok_or_else(|| run.over_memory(NAME, f64::from(u32::MAX) * 32.0))?;
            drop(partition);
            let magnitude = graph.magnitude() + free.magnitude();
            let outcome = if layout.crossing.is_empty() {
                self.exact(graph, &reduced, &layout, each, clock)?
            } else {
                let rounding = evaluate::allowance(&layout, magnitude);
                self.climb(graph, &reduced, &layout, &touching, rounding, run, each, clock)?
            };
            finish(&outcome)
        })
    }

    /// A single sweep, for clusters without crossing factors.
    fn exact<'a>(
        &self,
        graph: &FactorGraph,
        reduced: &'a Reduced,
        layout: &'a Layout<'a>,
        each: Each<'_>,
        clock: &Clock<'_>,
    ) -> Result<Outcome<'a>> {
        let mut ascent = Ascent::new(layout);
        let sums = (0..layout.colours.len()).map(|colour| ascent.update(colour, Zeros::Hard));
        let log_partition = reduced.constant + sums.sum::<f64>();
        if log_partition == f64::NEG_INFINITY {
            return Err(graph.zero_error());
        }
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 5.0).sum();
        let rounding = numeric::rounding_allowance(graph.factor_count() as f64 + states, graph.magnitude());
        let low = log_partition - rounding;
        each(LowerBound { low, restart: 0, iteration: 1, seconds: clock.seconds() });
        Ok(Outcome {
            reduced,
            ascent,
            bound: log_partition,
            exact: Some(log_partition),
            rounding,
            sweeps: 1,
            converged: true,
            stopped_early: false,
        })
    }

    /// Runs all ascents and keeps the best q.
    #[expect(clippy::too_many_arguments, reason = "what the work consists of")]
    fn climb<'a>(
        &self,
        graph: &FactorGraph,
        reduced: &'a Reduced,
        layout: &'a Layout<'a>,
        touching: &Touching,
        rounding: f64,
        run: &Run,
        each: Each<'_>,
        clock: &Clock<'_>,
    ) -> Result<Outcome<'a>> {
        let mut climb = Climb {
            method: self,
            outcome: Outcome {
                reduced,
                ascent: Ascent::new(layout),
                bound: f64::NEG_INFINITY,
                exact: None,
                rounding,
                sweeps: 0,
                converged: false,
                stopped_early: false,
            },
            go_on: true,
            total: (self.ascents(&reduced.graph) * RACE + self.iterations) as u64,
            clock,
            each,
        };
        let (heat, ascents) = (RACE.min(self.iterations), self.ascents(&reduced.graph));
        // The best ascent so far: its q, and the state needed to continue.
        let mut best: Option<(Vec<f64>, Leg)> = None;
        for restart in 0..ascents {
            let ascent = &mut climb.outcome.ascent;
            let start = match start::begin(ascent, &reduced.graph, touching, run.seed(), restart, clock) {
                Err(Error::OverBudget { .. } | Error::Interrupted) => Start::Unknown,
                other => other?,
            };
            // An ascent without a feasible start continues with penalties, for its marginals.
            let zeros = match start {
                Start::Feasible => Zeros::Hard,
                Start::Unknown => Zeros::Soft(PENALTY),
                Start::Impossible => return Err(graph.zero_error()),
            };
            let leg =
                climb.run(Leg { restart, iteration: 0, bound: f64::NEG_INFINITY, zeros, done: false }, heat);
            match &mut best {
                None => best = Some((climb.outcome.ascent.q.clone(), leg)),
                Some((q, known)) if leg.bound > known.bound => {
                    q.copy_from_slice(&climb.outcome.ascent.q);
                    *known = leg;
                }
                Some(_) => {}
            }
            if !climb.go_on {
                break;
            }
        }
        if let Some((q, leg)) = best {
            climb.outcome.ascent.q = q;
            let leg = if climb.go_on { climb.run(leg, self.iterations) } else { leg };
            climb.outcome.converged = leg.done;
        }
        Ok(climb.outcome)
    }
}

/// The state of an ascent.
#[derive(Clone, Copy)]
struct Leg {
    restart: usize,
    iteration: usize,
    /// F of its q, with the constant.
    bound: f64,
    zeros: Zeros,
    /// True if the last sweep gained less than the tolerance.
    done: bool,
}

/// The ascents in progress.
struct Climb<'a, 'c> {
    method: &'c MeanField,
    outcome: Outcome<'a>,
    go_on: bool,
    /// Maximum number of sweeps, approximately.
    total: u64,
    clock: &'c Clock<'c>,
    each: Each<'c>,
}

impl Climb<'_, '_> {
    /// Continues an ascent until sweep `end`, or until it converges.
    fn run(&mut self, mut leg: Leg, end: usize) -> Leg {
        let outcome = &mut self.outcome;
        let variables = outcome.ascent.layout.number.len() as f64;
        let mut begun = leg.iteration > 0;
        while !leg.done && (!begun || leg.iteration < end) {
            if begun {
                outcome.ascent.sweep(leg.zeros);
                outcome.sweeps += 1;
                leg.iteration += 1;
            }
            let bound = outcome.reduced.constant + evaluate::bound(&outcome.ascent);
            let gain = if bound == leg.bound { 0.0 } else { bound - leg.bound };
            leg.done = begun && gain <= self.method.tolerance * variables;
            (leg.bound, begun) = (bound, true);
            outcome.bound = outcome.bound.max(bound);
            let low = outcome.bound - outcome.rounding;
            self.clock.progress("raising the lower bound", outcome.sweeps as u64, self.total);
            self.clock.bounds(low, f64::INFINITY);
            let Leg { restart, iteration, .. } = leg;
            self.go_on = (self.each)(LowerBound { low, restart, iteration, seconds: self.clock.seconds() });
            outcome.stopped_early |= self.clock.must_stop();
            self.go_on &= !outcome.stopped_early;
            if !self.go_on {
                break;
            }
        }
        leg
    }
}
