//! Importance sampling from the mini-bucket bound.
//!
//! States are drawn from the mixture q of the beliefs of the upper bound Z⁺ ([`super::proposal`], with the
//! proof that no weight exp score(x) / q(x) exceeds Z⁺). The mean Ẑ of n weights is unbiased. Because the
//! range of the weights is known, there is an interval that holds with the stated confidence for any n:
//! empirical Bernstein and Chernoff bounds ([`super::interval`]), Markov's inequality for the lower end, and
//! Z⁺ itself for the upper end. The interval is never used to decide when to stop: it is computed for the
//! requested n. A run that runs out of time uses the interval of the last power of two that it passed; these
//! intervals have separate shares of the error probability.
//!
//! Time: that of the sweeps plus O(samples · Σ_r tables of r · states); memory: that of all tables. log Z: an
//! interval. Marginals: self-normalised, so consistent but biased. Samples are returned with their weights.
//!
//! Reference: Q. Liu, J. Fisher, A. Ihler, *Probabilistic variational bounds for graphical models*, NIPS
//! 2015.
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::bounds::WeightedMiniBucketSampling;
//! use zhat::model::generate;
//! let grid = generate::Grid { rows: 8, columns: 8, torus: false };
//! let model = generate::ising(grid, 0.5, 0.5, false, 1)?;
//! let method = WeightedMiniBucketSampling::default().i_bound(Some(4)).samples(4096);
//! println!("{}", method.log_partition(&model, &Run::default())?); // 55.2… (between 55.1… and 55.3… with 95% confidence)
//! # Ok::<(), zhat::Error>(())
//! ```

use serde::{Deserialize, Serialize};

use super::bound::{Tightened, WeightedMiniBuckets};
use super::interval::Moments;
use super::memory::{self, Layout};
use super::pass::Sweeper;
use super::proposal::{Proposal, Scratch};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee, Promise};
use crate::error::Result;
use crate::method::cost::mini_bucket_sampling::{PER_NODE, PER_TABLE};
use crate::method::exact::prepare::Prepared;
use crate::method::sampling::{self, Masses, Rounds, ratio, together, unbiased, warned, weighted_samples};
use crate::model::FactorGraph;
use crate::numeric;
use crate::options::{COUNT, INSIDE_UNIT, ITERATIONS, Options, REPLICATES, SAMPLES, options};
use crate::query::{
    Beliefs, FactorBeliefs, FactorMarginals, LogPartition, Marginals, Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::{Stream, Streams};
use crate::run::share::{Reader, Units};
use crate::run::{Clock, Run};

const NAME: &str = "wmb-is";
/// Number of tables that a replicate reads between checks of the clock.
const ROUND: usize = 1 << 16;
/// The fraction of the error probability that is reserved for runs that end early.
const EARLY: f64 = 0.2;
/// The fraction of the time budget for the bound.
const SHARE: f64 = 0.5;

/// Unbiased estimates of Z with an interval, by importance sampling from the mini-bucket bound.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WeightedMiniBucketSampling {
    /// Number of variables of a mini-bucket besides the eliminated one; none for tables as large as memory
    /// and time allow.
    pub i_bound: Option<usize>,
    /// Maximum number of sweeps to optimise the bound.
    pub iterations: usize,
    /// Total number of samples; rounded up to a multiple of the number of replicates.
    pub samples: u64,
    /// Number of independent replicates, at least two.
    pub replicates: usize,
    /// Confidence of the interval, between 0 and 1.
    pub confidence: f64,
}

options!(WeightedMiniBucketSampling {
    i_bound: Option<usize> => COUNT,
    iterations: usize => ITERATIONS,
    samples: u64 => SAMPLES,
    replicates: usize => REPLICATES,
    confidence: f64 => INSIDE_UNIT
});

impl Default for WeightedMiniBucketSampling {
    fn default() -> Self {
        WeightedMiniBucketSampling {
            i_bound: None,
            iterations: 20,
            samples: 1 << 16,
            replicates: 32,
            confidence: 0.95,
        }
    }
}

/// One replicate.
struct Replicate {
    random: Stream,
    state: Vec<usize>,
    scratch: Scratch,
    masses: Masses,
}

impl Replicate {
    fn new(random: Stream, free: &FactorGraph, query: Query) -> Self {
        let state = vec![0; free.variable_count()];
        Replicate { random, state, scratch: Scratch::default(), masses: Masses::new(free, query) }
    }

    fn draw(&mut self, proposal: &Proposal<'_>, free: &FactorGraph) {
        let log_weight = proposal.draw(&mut self.random, &mut self.state, &mut self.scratch);
        self.masses.add(log_weight, free, &self.state);
    }
}

impl sampling::Replicate for Replicate {
    fn write(&self, words: &mut Vec<u64>) {
        self.masses.write(words);
    }

    fn read(&mut self, words: &mut Reader<'_>) -> Option<()> {
        self.masses.read(words)
    }
}

/// An interval for log Z of the model without its determined part.
#[derive(Clone, Copy)]
struct Interval {
    low: f64,
    high: f64,
}

/// The finished replicates.
struct Drawn {
    replicates: Vec<Replicate>,
    samples: u64,
    stopped_early: bool,
    value: f64,
    interval: Interval,
}

impl WeightedMiniBucketSampling {
    fn bound(&self) -> WeightedMiniBuckets {
        WeightedMiniBuckets {
            i_bound: self.i_bound,
            iterations: self.iterations,
            lower: false,
            ..Default::default()
        }
    }

    fn bytes(&self, prepared: &Prepared, layout: &Layout, query: Query) -> f64 {
        let plan = &layout.plan;
        let free = &prepared.reduced.graph;
        let states: f64 = free.cardinalities().iter().map(|&states| states as f64).sum();
        let n = free.variable_count() as f64;
        let masses = match query {
            Query::Marginals => 8.0 * states,
            Query::FactorMarginals => free.bytes() as f64,
            _ => 0.0,
        };
        // Two vectors with the states of one variable per draw, which may have been allocated with twice the
        // size.
        let largest = free.cardinalities().iter().fold(0, |most, &states| states.max(most)) as f64;
        let each = 512.0 + 16.0 * n + 32.0 * largest + masses;
        let samples = if let Query::Sample(count) = query { count as f64 * (16.0 * n + 16.0) } else { 0.0 };
        let operands: usize =
            plan.nodes.iter().map(|node| node.factors.len() + node.children.len() + node.links.len()).sum();
        let arity: usize = plan.nodes.iter().map(|node| 2 * node.others.len()).sum::<usize>()
            + plan.scopes.iter().map(Vec::len).sum::<usize>();
        layout.bytes + each * self.replicates as f64 + samples + 100.0 * operands as f64 + 32.0 * arity as f64
    }

    /// Tightens the bound and passes the proposal on.
    fn propose<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        work: impl FnOnce(&Proposal<'_>, &Prepared, &Tightened) -> Result<T> + Send,
    ) -> Result<T> {
        self.check()?;
        let prepared = graph.prepared_for(query, NAME, &run.with_grace())?;
        let hurried = run.time().map(|time| run.clone().with_time(time.mul_f64(SHARE)));
        let hurried = hurried.as_ref().unwrap_or(run);
        let layout = Layout::new(&prepared, self.i_bound, self.bound().sweeps(), false, hurried);
        let bytes = self.bytes(&prepared, &layout, query) + query_bytes(graph, query);
        run.require_memory(NAME, graph.preparation_bytes() + bytes)?;
        run.install(|| {
            let bound_clock = hurried.start(NAME);
            let tightened = self.bound().tighten_prepared(
                graph,
                &prepared,
                layout,
                hurried,
                &bound_clock,
                &mut |_| true,
            )?;
            let free = &prepared.reduced.graph;
            let sweeper = Sweeper::new(&tightened.plan, free);
            // This sweep must complete, even if time is up.
            let patient = run.with_grace();
            let forward = sweeper.forward(&tightened.upper, &patient.start(NAME))?;
            let proposal = Proposal::new(sweeper, free, tightened.upper.clone(), forward.messages);
            work(&proposal, &prepared, &tightened)
        })
    }

    fn draw(
        &self,
        proposal: &Proposal<'_>,
        free: &FactorGraph,
        query: Query,
        log_range: f64,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Drawn> {
        let streams = Streams::new(run.seed(), "mini-bucket sampling");
        let target = self.samples.div_ceil(self.replicates as u64);
        let make = |r: usize| Replicate::new(streams.block(r as u64), free, query);
        let longest = (ROUND / (proposal.tables() + 1)).clamp(1, 64) as u64;
        let delta = 1.0 - self.confidence;
        let (mut rounds, mut stopped_early) = (Rounds::new(self.replicates), false);
        let mut interval = Interval { low: f64::NEG_INFINITY, high: log_range };
        let mut checkpoint = 0u32;
        let draw = |replicate: &mut Replicate| replicate.draw(proposal, free);
        if run.is_shared(NAME) {
            let units = Units::new(NAME, self.replicates as u64, &[target, log_range.to_bits()]);
            rounds = Rounds::shared(&units, target, (run, clock), make, draw)?;
            stopped_early = rounds.replicates.len() < self.replicates;
            let risk = run.risk(NAME, (1.0 - EARLY) * delta);
            interval = self.interval(&rounds.replicates, target, log_range, risk);
        }
        while rounds.samples_each < target {
            let next = (1u64 << checkpoint.min(62)).min(target);
            let round = (next - rounds.samples_each).min(longest);
            if !rounds.advance(round, clock, make, draw) {
                stopped_early = true;
                break;
            }
            let (replicates, samples_each) = (&rounds.replicates, rounds.samples_each);
            clock.progress("drawing samples", samples_each, target);
            if samples_each == target {
                interval = self.interval(replicates, samples_each, log_range, (1.0 - EARLY) * delta);
            } else if samples_each == next {
                let share = EARLY / f64::from((checkpoint + 1) * (checkpoint + 2));
                interval = self.interval(replicates, samples_each, log_range, share * delta);
                checkpoint += 1;
            }
        }
        let samples = rounds.samples();
        let Rounds { replicates, samples_each, .. } = rounds;
        let logs = log_means(&replicates, samples_each);
        let value = numeric::log_sum_exp(&logs) - (logs.len() as f64).ln();
        Ok(Drawn { replicates, samples, stopped_early, value, interval })
    }

    /// The interval from the samples so far, with error probability δ.
    fn interval(&self, replicates: &[Replicate], samples_each: u64, log_range: f64, delta: f64) -> Interval {
        let count = samples_each as f64 * replicates.len() as f64;
        let (mut sum, mut squares) = (0.0, 0.0);
        for replicate in replicates {
            let (own, own_squares) = replicate.masses.moments(log_range);
            sum += own;
            squares += own_squares;
        }
        let mean = sum / count;
        // The difference may lose digits, but never a relevant fraction of the squares.
        let variance = (squares - sum * mean + 1e-14 * squares).max(0.0) / (count - 1.0).max(1.0);
        let moments = Moments { count, mean, variance };
        let third = delta / 3.0;
        let logs = log_means(replicates, samples_each);
        let (_, markov) = unbiased(&logs, 1.0 - third, 0.0);
        let markov = if let Guarantee::Unbiased { low, .. } = markov { low } else { f64::NEG_INFINITY };
        let bernstein = moments.low(third);
        let bernstein = if bernstein > 0.0 { log_range + bernstein.ln() } else { f64::NEG_INFINITY };
        Interval { low: markov.max(bernstein), high: log_range + moments.high(third).ln().min(0.0) }
    }

    fn diagnostics(&self, tightened: &Tightened, samples: u64, clock: &Clock<'_>) -> Diagnostics {
        let mut diagnostics = Diagnostics::new(NAME)
            .note("samples", samples)
            .note("replicates", self.replicates)
            .note("certified_high", tightened.high)
            .note("i_bound", tightened.plan.sizes.width)
            .note("iterations", tightened.iterations);
        diagnostics.rounding = tightened.rounding;
        diagnostics.seconds = clock.seconds();
        diagnostics
    }
}

/// Log of the mean weight of each replicate.
fn log_means(replicates: &[Replicate], samples_each: u64) -> Vec<f64> {
    let log_count = (samples_each as f64).ln();
    replicates.iter().map(|replicate| replicate.masses.log_sum() - log_count).collect()
}

/// Memory of the result for the whole graph, in bytes.
fn query_bytes(graph: &FactorGraph, query: Query) -> f64 {
    let n = graph.variable_count() as f64;
    match query {
        Query::Marginals => {
            graph.cardinalities().iter().map(|&states| 8.0 * states as f64).sum::<f64>() + 16.0 * n
        }
        // The total sums, and the expanded tables with an index list.
        Query::FactorMarginals => 4.0 * graph.bytes() as f64,
        Query::Sample(count) => count as f64 * (16.0 * n + 16.0),
        _ => 0.0,
    }
}

impl Forecasts<FactorGraph> for WeightedMiniBucketSampling {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let promise = match query {
            Query::Marginals | Query::FactorMarginals => Promise::Heuristic,
            Query::Sample(_) => Promise::Unbiased,
            _ => Promise::Bounds,
        };
        let prepared = match graph.prepared_for(query, NAME, run) {
            Ok(prepared) => prepared,
            Err(error) if error.is_stop() => {
                return Forecast { bytes: graph.preparation_bytes(), seconds: f64::INFINITY, promise };
            }
            Err(_) => return Forecast { bytes: 0.0, seconds: 0.0, promise },
        };
        let layout = Layout::new(&prepared, self.i_bound, self.bound().sweeps(), false, run);
        let bytes = self.bytes(&prepared, &layout, query) + query_bytes(graph, query);
        let plan = &layout.plan;
        let tables: usize = plan
            .nodes
            .iter()
            .map(|node| {
                plan.states[node.variable] * (node.factors.len() + node.children.len() + node.links.len())
            })
            .sum();
        let draws = if let Query::Sample(count) = query { count as f64 } else { self.samples as f64 };
        let each = tables as f64 * PER_TABLE + plan.nodes.len() as f64 * PER_NODE;
        let sweeps = if plan.is_split() { self.bound().sweeps() } else { 1.0 };
        Forecast {
            bytes: graph.preparation_bytes() + bytes,
            seconds: memory::seconds(plan, sweeps) + draws * each,
            promise,
        }
    }
}

impl LogPartition<FactorGraph> for WeightedMiniBucketSampling {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.propose(graph, Query::LogPartition, run, |proposal, prepared, tightened| {
                let (free, offset) = (&prepared.reduced.graph, prepared.reduced.constant);
                let rounding = tightened.rounding;
                if !tightened.plan.is_split() {
                    let diagnostics = self.diagnostics(tightened, 0, &clock);
                    let (low, high) = (tightened.high - 2.0 * rounding, tightened.high);
                    let guarantee = Guarantee::Bounds { low, high, confidence: 1.0 };
                    return Ok(Answer { value: high - rounding, guarantee, diagnostics });
                }
                let range = tightened.high + rounding - offset;
                let drawn = self.draw(proposal, free, Query::LogPartition, range, run, &clock)?;
                let samples = drawn.samples;
                let mut diagnostics = self.diagnostics(tightened, samples, &clock);
                diagnostics.stopped_early = drawn.stopped_early;
                if drawn.value == f64::NEG_INFINITY {
                    let note = "every sample had weight 0: that does not show that Z is 0, only that it is small beside the bound";
                    diagnostics = diagnostics.note("warning", note);
                }
                let Interval { low, high } = drawn.interval;
                let high = (offset + high + rounding).min(tightened.high);
                let low = (offset + low - rounding).min(high);
                let guarantee = Guarantee::Bounds { low, high, confidence: self.confidence };
                Ok(Answer { value: offset + drawn.value, guarantee, diagnostics })
            })
    }
}

impl WeightedMiniBucketSampling {
    /// Σ w·\[x has a property\] / Σ w; `finish` converts it to the result for the whole graph.
    fn ratios<T: Send>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(Masses, &Prepared) -> T + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        self.propose(graph, query, run, |proposal, prepared, tightened| {
            let (free, offset) = (&prepared.reduced.graph, prepared.reduced.constant);
            let range = tightened.high + tightened.rounding - offset;
            let drawn = self.draw(proposal, free, query, range, run, &clock)?;
            let masses = together(drawn.replicates.iter().map(|replicate| &replicate.masses), free, query)?;
            let samples = drawn.samples;
            let mut diagnostics = self.diagnostics(tightened, samples, &clock);
            diagnostics.stopped_early = drawn.stopped_early;
            Ok(Answer { value: finish(masses, prepared), guarantee: ratio(), diagnostics })
        })
    }
}

impl Marginals<FactorGraph> for WeightedMiniBucketSampling {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.ratios(graph, Query::Marginals, run, |masses, prepared| {
            prepared.reduced.expand_beliefs(graph, &masses.into_beliefs())
        })
    }
}

impl FactorMarginals<FactorGraph> for WeightedMiniBucketSampling {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.ratios(graph, Query::FactorMarginals, run, |masses, prepared| {
            prepared.reduced.expand_factor_beliefs(graph, &masses.into_factor_beliefs())
        })
    }
}

impl Sample<FactorGraph> for WeightedMiniBucketSampling {
    /// Samples from the proposal, with their weights.
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        self.propose(graph, Query::Sample(count), run, |proposal, prepared, tightened| {
            let (n, offset) = (prepared.reduced.graph.variable_count(), prepared.reduced.constant);
            let streams = Streams::new(run.seed(), "mini-bucket weighted samples");
            let promise = (self.confidence, tightened.rounding);
            let (samples, guarantee) = weighted_samples(count, n, &streams, &clock, promise, || {
                let mut scratch = Scratch::default();
                move |random: &mut Stream, state: &mut [usize]| {
                    offset + proposal.draw(random, state, &mut scratch)
                }
            })?;
            let diagnostics = warned(&samples, self.diagnostics(tightened, count as u64, &clock));
            Ok(Answer { value: prepared.reduced.expand_samples(samples), guarantee, diagnostics })
        })
    }
}
