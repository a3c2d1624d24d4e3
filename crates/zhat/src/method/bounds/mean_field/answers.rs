//! Queries answered by mean field, and their forecasts.

use super::conditioned::by_cases;
use super::partition::is_forest;
use super::{Each, LowerBound, MeanField, MeanFieldStructure, NAME, Outcome, evaluate};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::mean_field::{SECONDS_PER_ENTRY, SECONDS_TO_SET_UP};
use crate::method::exact::witness_bytes;
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::Options;
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, LogPartition, Map, Marginals, Query,
};
use crate::query::{Forecast, Forecasts};
use crate::run::{Clock, Run};

/// Typical number of sweeps of the best ascent, and of each other ascent.
const SWEEPS: usize = 50;
const HEAT: usize = 15;

const NO_STATE: &str =
    "no state of positive weight was found, and none was ruled out; more time or other seeds may find one";

/// Maximum memory in bytes: reduced copies, the layout, three copies of q, and the result.
pub(super) fn bytes(graph: &FactorGraph, query: Query) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
    let answer = match query {
        Query::FactorMarginals => 4.0 * graph.bytes() as f64,
        _ => 24.0 * states,
    };
    let model = graph.bytes() as f64;
    // Memory of the search for a state of positive weight.
    let search = if graph.has_zeros() { witness_bytes(graph) } else { 0.0 };
    let answer = answer + search;
    graph.preparation_bytes() + 6.0 * model + 40.0 * states + 160.0 * graph.variable_count() as f64 + answer
}

impl Forecasts<FactorGraph> for MeanField {
    fn forecast(&self, graph: &FactorGraph, query: Query, _: &Run) -> Forecast {
        let exact = self.structure == MeanFieldStructure::Forest && is_forest(graph);
        let promise = match query {
            Query::LogPartition | Query::Map if !exact || query == Query::Map => Promise::Bounds,
            _ if exact => Promise::Exact,
            _ => Promise::Heuristic,
        };
        let sweeps = if exact { 1 } else { self.ascents(graph) * HEAT + self.iterations.min(SWEEPS) };
        let entries = graph.bytes() as f64 / 8.0;
        let cases = if query == Query::LogPartition { (self.condition as f64).exp2() } else { 1.0 };
        let once = entries * (SECONDS_PER_ENTRY * sweeps as f64 + SECONDS_TO_SET_UP);
        Forecast { bytes: bytes(graph, query), seconds: cases * once, promise }
    }
}

impl Outcome<'_> {
    fn diagnostics(&self, clock: &Clock<'_>) -> Diagnostics {
        let layout = self.ascent.layout;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("clusters", layout.clusters.len())
            .note("crossing_factors", layout.crossing.len())
            .note("sweeps", self.sweeps)
            .note("converged", self.converged);
        if self.bound == f64::NEG_INFINITY {
            diagnostics = diagnostics.note("warning", NO_STATE);
        }
        diagnostics.rounding = self.rounding;
        diagnostics.seconds = clock.seconds();
        diagnostics.stopped_early = self.stopped_early;
        diagnostics
    }

    /// The guarantee for quantities computed from q.
    fn guarantee(&self, what: &str) -> Guarantee {
        if self.exact.is_some() {
            return Guarantee::Exact;
        }
        let reason = if self.bound == f64::NEG_INFINITY {
            NO_STATE.into()
        } else {
            format!("{what} of the distribution that gives the best lower bound, not of the model")
        };
        Guarantee::Heuristic { reason }
    }

    /// The most likely state of each cluster, computed from its root downward.
    fn likeliest(&self) -> Vec<usize> {
        let (layout, q) = (self.ascent.layout, &self.ascent.q);
        let best = |row: &[f64]| (1..row.len()).fold(0, |best, s| if row[s] > row[best] { s } else { best });
        let mut chosen = vec![0; layout.number.len()];
        for cluster in &layout.clusters {
            let root = cluster.variables.start;
            let start = layout.offsets[root];
            chosen[root] = best(&q[start..start + layout.states[root] as usize]);
            for edge in &layout.edges[cluster.edges.clone()] {
                let width = edge.len / layout.states[edge.parent as usize] as usize;
                let row = edge.offset + chosen[edge.parent as usize] * width;
                let mut place = best(&q[row..row + width]);
                for &child in layout.children_of(edge).iter().rev() {
                    let states = layout.states[child as usize] as usize;
                    chosen[child as usize] = place % states;
                    place /= states;
                }
            }
        }
        layout.number.iter().map(|&number| chosen[number as usize]).collect()
    }

    /// The marginals of q over the variables of the reduced graph.
    fn beliefs(&self) -> Beliefs {
        let layout = self.ascent.layout;
        let mut beliefs = Beliefs::zeros(layout.graph.cardinalities());
        for v in 0..layout.number.len() {
            beliefs.variable_mut(v).copy_from_slice(&self.ascent.q[layout.variable(v)]);
        }
        beliefs.normalise();
        beliefs
    }

    /// The marginals of q over the factors of the reduced graph.
    fn factor_beliefs(&self) -> FactorBeliefs {
        let (layout, q) = (self.ascent.layout, &self.ascent.q);
        let mut beliefs = FactorBeliefs::zeros(layout.graph);
        let mut terms: Vec<(usize, f64)> = Vec::new();
        for f in 0..layout.graph.factor_count() {
            terms.clear();
            terms.push((0, 1.0));
            for group in layout.groups(f) {
                let before = terms.len();
                for i in 0..before {
                    let (place, weight) = terms[i];
                    for j in 0..group.len as usize {
                        let p = weight * q[group.offset as usize + j];
                        if p > 0.0 {
                            terms.push((place + layout.place_of(group, j), p));
                        }
                    }
                }
                terms.drain(..before);
            }
            let target = beliefs.factor_mut(f);
            terms.iter().for_each(|&(place, p)| target[place] += p);
        }
        beliefs.normalise();
        beliefs
    }
}

impl MeanField {
    /// Computes increasing lower bounds on log Z. `each` is called after every sweep (after every case, if
    /// `condition` is set) and ends the work by returning false. Every bound is certified.
    ///
    /// # Errors
    /// If an option is out of range, `condition` makes too many cases, Z = 0 is detected, the memory budget
    /// is too small, or the run is cancelled or out of time before the first bound.
    ///
    /// ```
    /// use zhat::Run;
    /// use zhat::bounds::MeanField;
    /// use zhat::model::generate::{self, GraphShape};
    /// let model = generate::random(&GraphShape { variables: 12, factors: 20, ..Default::default() }, 1)?;
    /// let mut lows = Vec::new();
    /// MeanField::default().lower_bounds(&model, &Run::default(), &mut |bound| {
    ///     lows.push(bound.low);
    ///     lows.len() < 5
    /// })?;
    /// assert!(lows.is_sorted() && lows.len() <= 5);
    /// # Ok::<(), zhat::Error>(())
    /// ```
    pub fn lower_bounds(
        &self,
        graph: &FactorGraph,
        run: &Run,
        each: &mut (dyn FnMut(LowerBound) -> bool + Send),
    ) -> Result<Estimate> {
        let clock = run.start(NAME);
        if self.condition > 0 {
            return self.conditioned(graph, run, &clock, each);
        }
        self.solve(graph, Query::LogPartition, run, &clock, each, |outcome| {
            let diagnostics = outcome.diagnostics(&clock);
            Ok(match outcome.exact {
                Some(value) => Answer::exact(value, diagnostics),
                None => lower(outcome.bound, diagnostics),
            })
        })
    }

    fn conditioned(
        &self,
        graph: &FactorGraph,
        run: &Run,
        clock: &Clock<'_>,
        each: Each<'_>,
    ) -> Result<Estimate> {
        self.check()?;
        let found = by_cases(self, graph, run, clock, each)?;
        let mut diagnostics = Diagnostics::new(NAME).note("cases", found.cases);
        diagnostics.rounding = found.rounding;
        diagnostics.seconds = clock.seconds();
        diagnostics.stopped_early = found.stopped_early;
        Ok(if found.exact {
            Answer::exact(found.bound, diagnostics)
        } else {
            lower(found.bound, diagnostics)
        })
    }

    fn answer<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Outcome<'_>) -> Result<(T, Guarantee)> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        self.solve(graph, query, run, &clock, &mut |_| true, |outcome| {
            let (value, guarantee) = finish(outcome)?;
            Ok(Answer { value, guarantee, diagnostics: outcome.diagnostics(&clock) })
        })
    }
}

fn lower(bound: f64, diagnostics: Diagnostics) -> Estimate {
    let guarantee = Guarantee::bounds(bound, f64::INFINITY, 1.0, diagnostics.rounding);
    Answer { value: bound, guarantee, diagnostics }
}

impl LogPartition<FactorGraph> for MeanField {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.lower_bounds(graph, run, &mut |_| true)
    }
}

impl Marginals<FactorGraph> for MeanField {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.answer(graph, Query::Marginals, run, |outcome| {
            let beliefs = outcome.reduced.expand_beliefs(graph, &outcome.beliefs());
            Ok((beliefs, outcome.guarantee("these are the marginals")))
        })
    }
}

impl FactorMarginals<FactorGraph> for MeanField {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.answer(graph, Query::FactorMarginals, run, |outcome| {
            let beliefs = outcome.reduced.expand_factor_beliefs(graph, &outcome.factor_beliefs());
            Ok((beliefs, outcome.guarantee("these are the marginals")))
        })
    }
}

impl Entropy<FactorGraph> for MeanField {
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        self.answer(graph, Query::Entropy, run, |outcome| {
            Ok((evaluate::total_entropy(&outcome.ascent), outcome.guarantee("this is the entropy")))
        })
    }
}

impl Map<FactorGraph> for MeanField {
    /// A likely state of q with its score. The upper bound is the sum of the maxima of all factors. Returns
    /// an error if no state of positive weight was found.
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        self.answer(graph, Query::Map, run, |outcome| {
            let state = outcome.reduced.expand_state(&outcome.likeliest());
            let score = graph.score(&state);
            if score == f64::NEG_INFINITY {
                return Err(Error::NoAnswer(NO_STATE.into()));
            }
            let best = outcome.reduced.graph.factors().map(|factor| numeric::max(factor.log_values));
            let high = (outcome.reduced.constant + best.sum::<f64>()).max(score);
            let rounding = numeric::rounding_allowance(2.0 * graph.factor_count() as f64, graph.magnitude());
            let guarantee = Guarantee::bounds(score, high, 1.0, rounding.max(outcome.rounding));
            Ok((BestState { state, score }, guarantee))
        })
    }
}
