//! Stochastic quadrature of the residual of a tractable base.
//!
//! Z = Z_base·E_base\[exp r(x)\], where the base contains the strongest factors ([`super::base`]) and r is
//! the residual. The published method draws cliques and states uniformly, and its error depends on the norm
//! of the whole model. Here the sum over cliques is computed exactly, so no polynomial is needed (exp itself
//! is used, and Ẑ is unbiased for Z), and states are drawn exactly from the base. A pilot run, whose samples
//! are discarded, chooses which single-variable beliefs to subtract from r: uniform ones, those of belief
//! propagation, or those of the base. If it reduces the variance enough, E_base\[r\] is computed exactly, so
//! that the first order of exp r needs no sampling.
//!
//! Time: one elimination of the base, then O(variables + factors in the residual) per sample. Memory: the
//! tables of the base. log Z comes with an interval that holds with the stated confidence for any weights
//! ([`super::weights`]); it is exact if the residual is empty. With `epsilon`, the pilot run predicts the
//! number of samples; if the time limit does not allow it, an error states that number. Marginals are ratios
//! of two estimates, so they are consistent but biased.
//!
//! `form` selects simpler variants: `tree`, `variables` and `uniform` have smaller bases; `tuples` samples
//! tuples as published, but with centred tables, exact terms of order 0, 1 and 2, strata by length and
//! cliques weighted by their size ([`super::stratified`]).
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::model::generate;
//! use zhat::quadrature::StochasticQuadrature;
//! let grid = generate::Grid { rows: 12, columns: 12, torus: false };
//! let model = generate::ising(grid, 0.3, 0.3, false, 1)?;
//! let method = StochasticQuadrature::default().width(4).samples(4096);
//! println!("{}", method.log_partition(&model, &Run::default())?);
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::base::Reach;
use super::choice::{Chosen, PILOT_DRAWS};
use super::draws::Source;
use super::stratified;
use super::weights::{Plan, Sums};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::quadrature::{BYTES_PER_ENTRY, PER_ENTRY};
pub(super) use crate::method::cost::quadrature::{PER_TABLE, PER_VARIABLE};
use crate::method::exact::marginals_along;
use crate::method::exact::prepare::Prepared;
use crate::method::messages::BeliefPropagation;
use crate::method::sampling::{self, Masses, Rounds, ratio, together, unbiased, warned, weighted_samples};
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{COUNT, INSIDE_UNIT, Options, REPLICATES, Range, SAMPLES, options};
use crate::query::{
    Beliefs, FactorBeliefs, FactorMarginals, LogPartition, Marginals, Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::{Stream, Streams};
use crate::run::share::{Reader, Units, Words};
use crate::run::{Clock, Run};

pub(super) const NAME: &str = "sccq";
/// Work of a replicate, in variables and tables, between two checks of the clock.
const ROUND: usize = 1 << 16;
/// Maximum number of entries in the tables of the base.
const ENTRIES: f64 = (1 << 20) as f64;
/// The share of the error probability reserved for runs that stop early.
pub(super) const EARLY: f64 = 0.2;
/// What is sampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuadratureForm {
    /// States from a base of bounded width.
    #[default]
    Width,
    /// States from a spanning forest.
    Tree,
    /// States of independent variables.
    Variables,
    /// Uniform states.
    Uniform,
    /// Index tuples, stratified by length.
    Tuples,
}

/// Quadrature of the residual of a tractable base.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StochasticQuadrature {
    /// What is sampled.
    pub form: QuadratureForm,
    /// Maximum number of neighbours of a variable of the base when it is eliminated.
    pub width: usize,
    /// Whether single-variable terms are subtracted from the residual.
    pub absorb: bool,
    /// Whether the first order may be computed exactly.
    pub first_order: bool,
    /// Degree of the polynomial if tuples are sampled; by default chosen for sufficient accuracy.
    pub degree: Option<usize>,
    /// Total number of samples if `epsilon` is not given; rounded up to a multiple of the replicates.
    pub samples: u64,
    /// Number of independent replicates, at least two.
    pub replicates: usize,
    /// Target relative error of Ẑ. A pilot run determines the number of samples; if it is too large, an error
    /// states it.
    pub epsilon: Option<f64>,
    /// Confidence of the interval, between 0 and 1.
    pub confidence: f64,
}

options!(StochasticQuadrature {
    form: QuadratureForm,
    width: usize => COUNT,
    absorb: bool,
    first_order: bool,
    degree: Option<usize> => Range::whole(0, 1000),
    samples: u64 => SAMPLES,
    replicates: usize => REPLICATES,
    epsilon: Option<f64> => INSIDE_UNIT,
    confidence: f64 => INSIDE_UNIT
});

impl Default for StochasticQuadrature {
    fn default() -> Self {
        StochasticQuadrature {
            form: QuadratureForm::Width,
            width: 8,
            absorb: true,
            first_order: true,
            degree: None,
            samples: 1 << 17,
            replicates: 32,
            epsilon: None,
            confidence: 0.95,
        }
    }
}

/// One replicate.
struct Replicate {
    random: Stream,
    state: Vec<usize>,
    sums: Sums,
    masses: Masses,
}

impl Replicate {
    fn new(random: Stream, free: &FactorGraph, query: Query, plan: &Plan) -> Self {
        let masses = Masses::new(free, query);
        let masses = if plan.steady { masses.relative_to(plan.shift) } else { masses };
        Replicate { random, state: vec![0; free.variable_count()], sums: Sums::default(), masses }
    }

    fn draw(&mut self, source: &Source, plan: &Plan, free: &FactorGraph) {
        let draw = source.draw(&mut self.random, &mut self.state);
        let weight = plan.weight(draw.r);
        plan.add(draw, weight, &mut self.sums);
        if !plan.steady {
            self.masses.add(draw.r, free, &self.state);
        } else if draw.r > f64::NEG_INFINITY {
            self.masses.add_scaled(weight, free, &self.state);
        }
    }

    fn log_mean(&self, samples: u64) -> f64 {
        self.masses.log_sum() - (samples as f64).ln()
    }
}

impl sampling::Replicate for Replicate {
    fn write(&self, words: &mut Vec<u64>) {
        self.sums.write(words);
        self.masses.write(words);
    }

    fn read(&mut self, words: &mut Reader<'_>) -> Option<()> {
        self.sums = Words::read(words)?;
        self.masses.read(words)
    }
}

/// Finished replicates.
struct Drawn {
    replicates: Vec<Replicate>,
    samples: u64,
    stopped_early: bool,
    /// ln of the mean of exp r.
    value: f64,
    relative_std_error: f64,
    interval: (f64, f64),
}

impl StochasticQuadrature {
    pub(super) fn delta(&self) -> f64 {
        (1.0 - EARLY) * (1.0 - self.confidence)
    }

    /// The number of entries that the base may have beyond a forest.
    fn entries(graph: &FactorGraph, run: &Run) -> f64 {
        let room = 0.25 * (run.memory() as f64 - graph.preparation_bytes()).max(0.0) / BYTES_PER_ENTRY;
        room.min(ENTRIES)
    }

    /// The maximum number of entries of tables of this width.
    fn most(&self, graph: &FactorGraph) -> f64 {
        let largest = graph.cardinalities().iter().fold(1, |most, &states| states.max(most)) as f64;
        let table = ((self.width as f64 + 1.0) * largest.ln()).min(graph.log_state_count()).exp();
        graph.variable_count() as f64 * table
    }

    fn reach(&self, graph: &FactorGraph, run: &Run) -> Reach {
        match self.form {
            QuadratureForm::Width => Reach::Width { width: self.width, entries: Self::entries(graph, run) },
            QuadratureForm::Tree => Reach::Forest,
            QuadratureForm::Variables => Reach::Variables,
            QuadratureForm::Uniform | QuadratureForm::Tuples => Reach::Nothing,
        }
    }

    fn draw(
        &self,
        chosen: &Chosen,
        free: &FactorGraph,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Drawn> {
        let Chosen { source, plan, samples } = chosen;
        let streams = Streams::new(run.seed(), "quadrature");
        let target = samples.div_ceil(self.replicates as u64);
        let make = |r: usize| Replicate::new(streams.block(r as u64), free, query, plan);
        let work = free.variable_count() + source.left() + 1;
        let longest = (ROUND / work).clamp(1, 1024) as u64;
        let (mut rounds, mut stopped_early, mut checkpoint) = (Rounds::new(self.replicates), false, 0u32);
        let mut interval = (f64::NEG_INFINITY, source.known.high);
        let delta = 1.0 - self.confidence;
        let totals = |replicates: &[Replicate]| {
            let mut sums = Sums::default();
            replicates.iter().for_each(|replicate| sums += replicate.sums);
            sums
        };
        let at = |replicates: &[Replicate], each: u64, delta: f64| {
            let logs: Vec<f64> = replicates.iter().map(|replicate| replicate.log_mean(each)).collect();
            let count = each as f64 * replicates.len() as f64;
            plan.interval(&totals(replicates), count, &logs, &source.known, delta)
        };
        let draw = |replicate: &mut Replicate| replicate.draw(source, plan, free);
        if run.is_shared(NAME) {
            let mark = [vec![target, source.log_normaliser.to_bits()], plan.mark()].concat();
            let units = Units::new(NAME, self.replicates as u64, &mark);
            rounds = Rounds::shared(&units, target, (run, clock), make, draw)?;
            stopped_early = rounds.replicates.len() < self.replicates;
            interval = at(&rounds.replicates, target, run.risk(NAME, (1.0 - EARLY) * delta));
        }
        while rounds.samples_each < target {
            let next = (1u64 << checkpoint.min(62)).min(target);
            let round = (next - rounds.samples_each).min(longest);
            if !rounds.advance(round, clock, make, draw) {
                stopped_early = true;
                break;
            }
            let (replicates, each) = (rounds.replicates.as_slice(), rounds.samples_each);
            clock.progress("drawing samples", each, target);
            if each == target {
                interval = at(replicates, each, (1.0 - EARLY) * delta);
            } else if each == next {
                let share = EARLY / f64::from((checkpoint + 1) * (checkpoint + 2));
                interval = at(replicates, each, share * delta);
                checkpoint += 1;
            }
        }
        let samples = rounds.samples();
        let Rounds { replicates, samples_each: each, .. } = rounds;
        let logs: Vec<f64> = replicates.iter().map(|replicate| replicate.log_mean(each)).collect();
        let (plain, guarantee) = unbiased(&logs, self.confidence, 0.0);
        let spread = if let Guarantee::Unbiased { relative_std_error, .. } = guarantee {
            relative_std_error
        } else {
            f64::INFINITY
        };
        let (value, relative_std_error) =
            plan.value(&totals(&replicates), samples as f64).unwrap_or((plain, spread));
        Ok(Drawn { replicates, samples, stopped_early, value, relative_std_error, interval })
    }

    fn bytes(&self, graph: &FactorGraph, query: Query, run: &Run) -> f64 {
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
        let n = graph.variable_count() as f64;
        let own = graph.bytes() as f64;
        let (each, extra) = match query {
            Query::Marginals => (8.0 * states + 8.0 * n, 16.0 * states),
            Query::FactorMarginals => (own, 4.0 * own),
            Query::Sample(count) => (0.0, count as f64 * (32.0 * n + 32.0)),
            _ => (0.0, 0.0),
        };
        let base = match self.form {
            QuadratureForm::Width => BYTES_PER_ENTRY * Self::entries(graph, run).min(self.most(graph)),
            _ => 0.0,
        };
        let pilots = 3.0 * (32 * PILOT_DRAWS.1) as f64;
        let wide = 600.0 * n + 300.0 * graph.factor_count() as f64;
        graph.preparation_bytes()
            + 24.0 * own
            + wide
            + base
            + pilots
            + extra
            + self.replicates as f64 * (1024.0 + 8.0 * n + each)
    }

    fn diagnostics(&self, chosen: &Chosen, drawn: Option<&Drawn>, clock: &Clock<'_>) -> Diagnostics {
        let Chosen { source, plan, .. } = chosen;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("samples", drawn.map_or(0, |drawn| drawn.samples))
            .note("base_log_partition", source.log_normaliser)
            .note("base_width", source.split.order.width)
            .note("factors_left", source.left());
        if let Some(drawn) = drawn {
            diagnostics = diagnostics
                .note("replicates", drawn.replicates.len())
                .note("relative_std_error", drawn.relative_std_error)
                .note("first_order", plan.corrects())
                .note("certified_moments", source.known.moments.len());
            if drawn.value == f64::NEG_INFINITY {
                let note = "every sample had weight 0: that does not show that Z is 0, only that this base misses it";
                diagnostics = diagnostics.note("warning", note);
            }
            diagnostics.stopped_early = drawn.stopped_early;
        }
        diagnostics.seconds = clock.seconds();
        diagnostics
    }

    /// Prepares the model and the base and passes them to `work`.
    fn with_base<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
        work: impl FnOnce(&Chosen, &Prepared) -> Result<T> + Send,
    ) -> Result<T> {
        self.check()?;
        run.require_memory(NAME, self.bytes(graph, query, run))?;
        let prepared = graph.prepared_for(query, NAME, &run.with_grace())?;
        let reach = self.reach(graph, run);
        run.install(|| {
            let chosen =
                self.choose(&prepared.reduced.graph, reach, query, run, clock).map_err(
                    |error| match error {
                        Error::ZeroPartition => graph.zero_error(),
                        other => other,
                    },
                )?;
            work(&chosen, &prepared)
        })
    }

    /// The combined masses of all replicates; an error if all samples have weight zero.
    fn masses(drawn: &Drawn, free: &FactorGraph, query: Query) -> Result<Masses> {
        together(drawn.replicates.iter().map(|replicate| &replicate.masses), free, query)
    }

    fn states_only(&self) -> Result<()> {
        if self.form == QuadratureForm::Tuples {
            return Err(Error::argument(
                "form",
                "tuples answers log_partition only; the other forms answer all",
            ));
        }
        Ok(())
    }
}

/// Rounding from moving terms between tables and from the elimination of the base.
pub(super) fn rounding(graph: &FactorGraph) -> f64 {
    let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 5.0).sum();
    let moves = 64.0 * graph.factor_count() as f64;
    numeric::rounding_allowance(states + moves + 64.0, graph.magnitude())
}

impl Forecasts<FactorGraph> for StochasticQuadrature {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let promise = match query {
            Query::Marginals | Query::FactorMarginals => Promise::Heuristic,
            Query::Sample(_) => Promise::Unbiased,
            _ => Promise::Bounds,
        };
        let n = graph.variable_count() as f64;
        let m = graph.factor_count() as f64;
        let samples = if let Query::Sample(count) = query { count as f64 } else { self.samples as f64 };
        let extra = if query == Query::FactorMarginals { 3.0 * PER_TABLE * m } else { 0.0 };
        let mut bytes = self.bytes(graph, query, run);
        let mut setup = 1e-7 * graph.bytes() as f64 + 8192.0 * n * PER_VARIABLE;
        if self.absorb {
            let messages = BeliefPropagation { iterations: 200, ..Default::default() };
            let forecast = messages.forecast(graph, Query::Marginals, run);
            bytes += forecast.bytes;
            setup += forecast.seconds;
        }
        if self.form == QuadratureForm::Width {
            setup += PER_ENTRY * Self::entries(graph, run).min(self.most(graph));
        }
        if query == Query::LogPartition {
            let forecast = Self::bound(self.width).forecast(graph, query, run);
            bytes += forecast.bytes.min(run.memory() as f64 / 4.0);
            setup += forecast.seconds;
        }
        Forecast { bytes, seconds: setup + samples * (n * PER_VARIABLE + m * PER_TABLE + extra), promise }
    }
}

impl LogPartition<FactorGraph> for StochasticQuadrature {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        if self.form == QuadratureForm::Tuples {
            self.check()?;
            return stratified::log_partition(self, graph, run, &clock);
        }
        self.with_base(graph, Query::LogPartition, run, &clock, |chosen, prepared| {
            let (free, source) = (&prepared.reduced.graph, &chosen.source);
            let offset = prepared.reduced.constant + source.log_normaliser;
            let rounding = rounding(graph);
            if source.left() == 0 {
                let mut diagnostics = self.diagnostics(chosen, None, &clock);
                diagnostics.rounding = rounding;
                let guarantee = Guarantee::bounds(offset, offset, 1.0, rounding);
                return Ok(Answer { value: offset, guarantee, diagnostics });
            }
            let drawn = self.draw(chosen, free, Query::LogPartition, run, &clock)?;
            let mut diagnostics = self.diagnostics(chosen, Some(&drawn), &clock);
            diagnostics.rounding = rounding;
            let (low, high) = drawn.interval;
            let guarantee = Guarantee::bounds(offset + low, offset + high, self.confidence, rounding);
            Ok(Answer { value: offset + drawn.value, guarantee, diagnostics })
        })
    }
}

impl Marginals<FactorGraph> for StochasticQuadrature {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        let clock = run.start(NAME);
        self.states_only()?;
        self.with_base(graph, Query::Marginals, run, &clock, |chosen, prepared| {
            let (free, reduced) = (&prepared.reduced.graph, &prepared.reduced);
            if chosen.source.left() == 0 {
                let beliefs = chosen.source.beliefs(&clock)?;
                let mut diagnostics = self.diagnostics(chosen, None, &clock);
                diagnostics.rounding = rounding(graph);
                return Ok(Answer::exact(reduced.expand_beliefs(graph, &beliefs), diagnostics));
            }
            let drawn = self.draw(chosen, free, Query::Marginals, run, &clock)?;
            let beliefs = Self::masses(&drawn, free, Query::Marginals)?.into_beliefs();
            let diagnostics = self.diagnostics(chosen, Some(&drawn), &clock);
            Ok(Answer { value: reduced.expand_beliefs(graph, &beliefs), guarantee: ratio(), diagnostics })
        })
    }
}

impl FactorMarginals<FactorGraph> for StochasticQuadrature {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        let clock = run.start(NAME);
        self.states_only()?;
        self.with_base(graph, Query::FactorMarginals, run, &clock, |chosen, prepared| {
            let (free, reduced) = (&prepared.reduced.graph, &prepared.reduced);
            if chosen.source.left() == 0 {
                // All factors are in the base, so its order is also an order of the model.
                let order = chosen.source.split.order.clone();
                let (_, beliefs) = marginals_along(free, order, Query::FactorMarginals, &clock)?;
                let mut diagnostics = self.diagnostics(chosen, None, &clock);
                diagnostics.rounding = rounding(graph);
                return Ok(Answer::exact(reduced.expand_factor_beliefs(graph, &beliefs), diagnostics));
            }
            let drawn = self.draw(chosen, free, Query::FactorMarginals, run, &clock)?;
            let beliefs = Self::masses(&drawn, free, Query::FactorMarginals)?.into_factor_beliefs();
            let diagnostics = self.diagnostics(chosen, Some(&drawn), &clock);
            Ok(Answer {
                value: reduced.expand_factor_beliefs(graph, &beliefs),
                guarantee: ratio(),
                diagnostics,
            })
        })
    }
}

impl Sample<FactorGraph> for StochasticQuadrature {
    /// Samples from the base, with weights.
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        self.states_only()?;
        self.with_base(graph, Query::Sample(count), run, &clock, |chosen, prepared| {
            let n = prepared.reduced.graph.variable_count();
            let offset = prepared.reduced.constant + chosen.source.log_normaliser;
            let streams = Streams::new(run.seed(), "quadrature weighted samples");
            let rounding = rounding(graph);
            let promise = (self.confidence, rounding);
            let (samples, guarantee) = weighted_samples(count, n, &streams, &clock, promise, || {
                |random: &mut Stream, state: &mut [usize]| offset + chosen.source.draw(random, state).r
            })?;
            let mut diagnostics =
                warned(&samples, self.diagnostics(chosen, None, &clock).note("samples", count));
            diagnostics.rounding = rounding;
            Ok(Answer { value: prepared.reduced.expand_samples(samples), guarantee, diagnostics })
        })
    }
}
