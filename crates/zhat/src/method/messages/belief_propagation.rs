//! Belief propagation (sum-product and max-product).
//!
//! Messages m_{f→i} with ρ = 1 are passed until they no longer change. Then b_i ∝ exp(θ_i + Σ_f m_{f→i})
//! approximates the marginals, and log Z is the Bethe approximation Σ_f E\[θ_f\] + Σ_i E\[θ_i\] + Σ_f H(b_f)
//! − Σ_i (d_i − 1) H(b_i), where d_i is the number of factors at i.
//!
//! Without cycles, two passes, from the leaves to the roots and back, give all results exactly, including the
//! best state. With cycles there is no guarantee: there may be no fixed point, or several.
//! `schedule=residual` always updates the factor whose incoming messages changed most, on one thread;
//! `schedule=parallel` updates all factors, one class at a time. If the messages do not converge, the step
//! size is halved up to three times. Everything determined by zeros is removed first, so messages never
//! vanish and no result is NaN.
//!
//! Time O(iterations · Σ_f arity · table), memory O(messages).
//!
//! Reference: J. S. Yedidia, W. T. Freeman, Y. Weiss, *Constructing free-energy approximations and
//! generalized belief propagation algorithms*, IEEE Transactions on Information Theory 51 (2005).
//!
//! ```
//! use zhat::{Guarantee, LogPartition, Run};
//! use zhat::messages::BeliefPropagation;
//! use zhat::model::generate;
//! let tree = generate::tree(1000, 3, 1.0, 1)?;
//! let z = BeliefPropagation::default().log_partition(&tree, &Run::default())?;
//! assert_eq!(z.guarantee, Guarantee::Exact);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::decode::decode;
use super::engine::Messages;
use super::forest::Forest;
use super::kernel::{Algebra, Workspace};
use super::layout::Layout;
use super::residual::{self, Outcome};
use super::subject::{Sizes, Subject};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::belief_propagation::{SECONDS_PER_ENTRY, SECONDS_PER_FACTOR};
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{DAMPING, FROM_ZERO, ITERATIONS, Options, options};
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, LogPartition, Map, Marginals, Query,
};
use crate::query::{Forecast, Forecasts};
use crate::run::{Clock, Run};

const NAME: &str = "bp";
/// Number of stages; each has half the step size of the one before.
const STAGES: u64 = 4;

/// The order in which messages are updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// All factors, one class at a time, on all threads.
    Parallel,
    /// The factor whose incoming messages changed most.
    #[default]
    Residual,
}

/// Belief propagation.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct BeliefPropagation {
    /// The order in which messages are updated, for graphs with cycles.
    pub schedule: Schedule,
    /// Weight of the old message in an update, at least 0 and below 1; increased if messages do not converge.
    pub damping: f64,
    /// Messages have converged if they change by less than this, relative to their size.
    pub tolerance: f64,
    /// Maximum number of updates of every message.
    pub iterations: u64,
}

options!(BeliefPropagation {
    schedule: Schedule,
    damping: f64 => DAMPING,
    tolerance: f64 => FROM_ZERO,
    iterations: u64 => ITERATIONS
});

impl Default for BeliefPropagation {
    fn default() -> Self {
        BeliefPropagation { schedule: Schedule::default(), damping: 0.1, tolerance: 1e-6, iterations: 1000 }
    }
}

/// The final messages.
struct Passed<'a> {
    subject: &'a Subject<'a>,
    messages: &'a Messages<'a>,
    /// All factors, if the graph has no cycle.
    forest: Option<&'a Forest>,
    /// Rounding error of a log-weight.
    rounding: f64,
}

impl BeliefPropagation {
    fn bytes(&self, sizes: &Sizes, query: Query, run: &Run) -> f64 {
        // The queue and the incidence lists; the forest while it is being ordered.
        let schedule = 24.0 * sizes.factors as f64 + 8.0 * sizes.slots as f64 + 2.0 * sizes.states as f64;
        let forest = 24.0 * sizes.factors as f64 + 24.0 * sizes.variables as f64 + 4.0 * sizes.slots as f64;
        sizes.bytes(query, run) + 2.0 * (schedule + forest)
    }

    /// Passes messages in several stages. After a stage that does not converge, the step size is halved.
    fn cycles(&self, messages: &mut Messages<'_>, clock: &Clock<'_>) -> Outcome {
        let mut outcome =
            Outcome { iterations: 0.0, residual: f64::INFINITY, converged: false, stopped_early: false };
        for stage in 1..=STAGES {
            let until = self.iterations.saturating_mul(stage) / STAGES;
            let allowed = until.saturating_sub(outcome.iterations as u64);
            if allowed == 0 {
                continue;
            }
            let next = match self.schedule {
                Schedule::Residual => residual::converge(messages, allowed, self.tolerance, clock),
                Schedule::Parallel => self.sweeps(messages, allowed, clock),
            };
            outcome = Outcome { iterations: outcome.iterations + next.iterations, ..next };
            messages.refresh();
            if outcome.converged || outcome.stopped_early {
                break;
            }
            messages.damping = 0.5 + 0.5 * messages.damping;
        }
        outcome
    }

    fn sweeps(&self, messages: &mut Messages<'_>, allowed: u64, clock: &Clock<'_>) -> Outcome {
        let (mut residual, mut sweeps, mut stopped_early) = (f64::INFINITY, 0, false);
        while sweeps < allowed && residual > self.tolerance {
            residual = messages.sweep(sweeps % 2 == 1, clock);
            stopped_early = residual == f64::INFINITY;
            if stopped_early {
                break;
            }
            sweeps += 1;
            clock.progress("passing messages", sweeps, allowed);
        }
        let converged = residual <= self.tolerance;
        Outcome { iterations: sweeps as f64, residual, converged, stopped_early }
    }

    /// Passes messages and calls `finish` with them for the value and its rounding error.
    fn answer<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Passed<'_>) -> Result<(T, f64)> + Send,
    ) -> Result<Answer<T>> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.bytes(&Sizes::of(graph), query, run))?;
        let algebra = if query == Query::Map { Algebra::Max } else { Algebra::Sum };
        run.install(|| {
            let subject = Subject::new(graph, query, NAME, run)?;
            let layout = Layout::new(subject.graph())?;
            let forest = Forest::whole(&layout);
            let weights = vec![1.0; layout.factor_count()];
            let damping = if forest.is_some() { 0.0 } else { self.damping };
            let mut messages = Messages::new(&layout, algebra, weights, damping);
            let mut diagnostics = Diagnostics::new(NAME);
            let guarantee = match &forest {
                Some(forest) => {
                    two_passes(&mut messages, forest, query, &clock)?;
                    diagnostics = diagnostics.note("schedule", "two passes");
                    Guarantee::Exact
                }
                None => {
                    let outcome = self.cycles(&mut messages, &clock);
                    diagnostics = diagnostics
                        .note(
                            "schedule",
                            if self.schedule == Schedule::Residual { "residual" } else { "parallel" },
                        )
                        .count("iterations", outcome.iterations)
                        .note("converged", outcome.converged)
                        .note("residual", outcome.residual);
                    diagnostics.stopped_early = outcome.stopped_early;
                    Guarantee::Heuristic { reason: reason(&outcome) }
                }
            };
            let units = forest.as_ref().map_or(0.0, |forest| forest.log_partition(&messages).rounding);
            let units = units + messages.score_rounding() + subject.rounding();
            let rounding = numeric::rounding_allowance(0.0, 2.0 * units);
            let passed = Passed { subject: &subject, messages: &messages, forest: forest.as_ref(), rounding };
            let (value, rounding) = finish(&passed)?;
            (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
            Ok(Answer { value, guarantee, diagnostics })
        })
    }
}

/// Passes messages from the leaves to the roots and back. For log Z neither is needed.
fn two_passes(messages: &mut Messages<'_>, forest: &Forest, query: Query, clock: &Clock<'_>) -> Result<()> {
    if query == Query::LogPartition {
        return Ok(());
    }
    let mut work = Workspace::new(messages.layout);
    let back = forest.steps.iter().rev();
    for (i, step) in forest.steps.iter().chain(back).enumerate() {
        if i % 1024 == 0 {
            clock.check()?;
            clock.progress("passing messages", i as u64, 2 * forest.steps.len() as u64);
        }
        messages.update(step.factor as usize, &mut work);
    }
    messages.refresh();
    Ok(())
}

fn reason(outcome: &Outcome) -> String {
    let Outcome { iterations, residual, .. } = outcome;
    match outcome {
        outcome if outcome.converged => {
            format!("the graph has cycles; messages converged in {iterations:.0} iterations")
        }
        _ if residual.is_finite() => format!(
            "the graph has cycles, and messages did not converge in {iterations:.0} iterations: they still change by {residual:.1e}"
        ),
        _ => format!("the graph has cycles, and {iterations:.0} iterations are too few to say more"),
    }
}

impl Forecasts<FactorGraph> for BeliefPropagation {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let sizes = Sizes::of(graph);
        let arity = sizes.slots as f64 / sizes.factors.max(1) as f64;
        let sweep = SECONDS_PER_ENTRY * sizes.entries as f64 * (1.0 + arity)
            + SECONDS_PER_FACTOR * (sizes.factors + sizes.variables) as f64;
        let sweeps = if sizes.acyclic { 4.0 } else { self.iterations.min(100) as f64 };
        Forecast {
            bytes: self.bytes(&sizes, query, run),
            seconds: sweeps * sweep,
            promise: if sizes.acyclic { Promise::Exact } else { Promise::Heuristic },
        }
    }
}

impl LogPartition<FactorGraph> for BeliefPropagation {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        let mut answer = self.answer(graph, Query::LogPartition, run, |passed| {
            let value = match passed.forest {
                Some(forest) => forest.log_partition(passed.messages).value + passed.messages.layout.constant,
                None => passed.messages.free_energy(),
            };
            Ok((value + passed.subject.constant(), passed.rounding))
        })?;
        if let Guarantee::Heuristic { reason } = &mut answer.guarantee {
            let (low, high) = possible(graph);
            let bethe = answer.value;
            answer.value = bethe.clamp(low, high);
            if bethe != answer.value {
                *reason +=
                    &format!("; Bethe's value {bethe:.3} is impossible, this is the nearest that is not");
            }
        }
        Ok(answer)
    }
}

/// Lower and upper limits of log Z, if any state has positive weight: Σ min θ_f without zeros, and
/// Σ max θ_f + ln |X|.
fn possible(graph: &FactorGraph) -> (f64, f64) {
    let states: f64 = graph.cardinalities().iter().map(|&states| (states as f64).ln()).sum();
    let ends = |values: &[f64]| {
        let finite = values.iter().copied().filter(|x| x.is_finite());
        finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)))
    };
    let add = |(low, high): (f64, f64), (least, most): (f64, f64)| (low + least, high + most);
    let (low, high) = graph.factors().map(|factor| ends(factor.log_values)).fold((0.0, states), add);
    let slack = 1e-9 * (1.0 + graph.magnitude());
    (low.min(high) - slack, high.max(low) + slack)
}

impl Marginals<FactorGraph> for BeliefPropagation {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.answer(graph, Query::Marginals, run, |passed| {
            Ok((passed.subject.beliefs(passed.messages), 2.0 * passed.rounding))
        })
    }
}

impl FactorMarginals<FactorGraph> for BeliefPropagation {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.answer(graph, Query::FactorMarginals, run, |passed| {
            Ok((passed.subject.factor_beliefs(passed.messages), 2.0 * passed.rounding))
        })
    }
}

impl Entropy<FactorGraph> for BeliefPropagation {
    /// The Bethe entropy.
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.answer(graph, Query::Entropy, run, |passed| {
            let (entropy, terms) = passed.messages.bethe_entropy();
            // The rounding error of a probability is twice that of a log-weight, and its logarithm adds the
            // same once more.
            let rounding = (1.0 + 2.0 * terms) * passed.rounding * 2.0;
            Ok((if passed.forest.is_some() { entropy.max(0.0) } else { entropy }, rounding))
        })
    }
}

impl Map<FactorGraph> for BeliefPropagation {
    /// The state decoded from max-product messages, with its score.
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        self.answer(graph, Query::Map, run, |passed| {
            let own = decode(passed.messages, passed.subject.graph(), passed.forest);
            let state = passed.subject.state(&own).into_owned();
            let score = graph.score(&state);
            if score == f64::NEG_INFINITY {
                let number = graph.factors().position(|factor| {
                    factor.log_values[graph.entry(factor.scope, &state)] == f64::NEG_INFINITY
                });
                let scope = number.map_or(&[][..], |f| graph.factor(f).scope);
                let names: Vec<String> = scope.iter().map(|&v| graph.variable_name(v)).collect();
                return Err(Error::NoAnswer(format!(
                    "messages point at a state that the factor over {} forbids; `search` may find one",
                    names.join(", ")
                )));
            }
            Ok((BestState { state, score }, passed.rounding))
        })
    }
}
