//! Gibbs sampling.
//!
//! A Markov chain on the states of positive weight: one variable after the other is drawn from its conditional
//! distribution given the others, p(x_v | rest) ∝ Π_{f ∋ v} exp θ_f. Several independent chains discard their
//! first sweeps (`burn_in`) and then keep every `thin`-th state. Marginals are the frequencies of the kept
//! states.
//!
//! Chains start at random states; if the model has zeros, at states of positive weight that a search with
//! clause learning finds, each with random preferences. Evidence, and variables that zeros determine, are
//! removed first.
//!
//! Time O(sweeps · Σ_v states_v · factors_v), memory O(model + chains · states). Heuristic: nobody knows when
//! a chain has converged, and if zeros separate the states, a chain never leaves its part. The reason of the
//! guarantee states the largest split-R̂ and the smallest effective sample size of the marginal probabilities
//! and the score; a warning appears if R̂ > 1.01 or the effective sample size is below 100 per chain. Small
//! values of R̂ do not prove convergence. For [`Map`], the best state seen has certified bounds on the
//! best score.
//!
//! Stops early with the result so far when cancelled or out of time; at most half of a time budget is spent on
//! the sweeps that are discarded.
//!
//! References: S. Geman, D. Geman, *Stochastic relaxation, Gibbs distributions, and the Bayesian restoration of
//! images*, IEEE Trans. Pattern Analysis and Machine Intelligence 6 (1984); for R̂, A. Vehtari et al.,
//! *Rank-normalization, folding, and localization*, Bayesian Analysis 16 (2021).
//!
//! ```
//! use zhat::{Marginals, Run};
//! use zhat::model::generate;
//! use zhat::sampling::Gibbs;
//! let grid = generate::Grid { rows: 8, columns: 8, torus: false };
//! let model = generate::ising(grid, 0.2, 0.5, false, 1)?;
//! let answer = Gibbs::default().marginals(&model, &Run::default())?;
//! println!("{}", answer.guarantee); // heuristic: averages over 4 Markov chains: largest R-hat 1.004 (x13), …
//! # Ok::<(), zhat::Error>(())
//! ```

mod convergence;
mod kernel;

use serde::{Deserialize, Serialize};

use self::kernel::{Kernel, Walker};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::cost::gibbs::{SECONDS_PER_ENTRY, SECONDS_PER_VARIABLE};
use crate::method::exact::prepare::Reduced;
use crate::method::exact::{Witness, rounding, witness, witness_bytes};
use crate::model::FactorGraph;
use crate::numeric;
use crate::numeric::parallel::prelude::*;
use crate::options::{ITERATIONS, Options, Range, SAMPLES, options};
use crate::query::{
    Beliefs, BestState, FactorBeliefs, FactorMarginals, Forecast, Forecasts, Law, Map, Marginals, Query,
    Sample, Samples,
};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

const NAME: &str = "gibbs";
/// Parts of a chain for which states are counted separately; an even number.
const SEGMENTS: usize = 16;
/// Maximum number of scores kept per chain.
const SCORES: u64 = 4096;
/// Work between checks of the clock, in entries read.
const ROUND: f64 = 4e6;
/// Maximum number of steps of the search for an initial state.
const STEPS: u64 = 1 << 24;
/// The largest R̂ and the smallest effective sample size per chain without a warning (Vehtari et al. 2021).
const CONVERGED: (f64, f64) = (1.01, 100.0);

/// Gibbs sampling with several chains.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Gibbs {
    /// Number of independent chains.
    pub chains: usize,
    /// Number of sweeps that each chain discards first.
    pub burn_in: u64,
    /// Total number of states kept for marginals and the best state, rounded up to a multiple of the number
    /// of chains.
    pub samples: u64,
    /// Number of sweeps from one kept state to the next.
    pub thin: u64,
}

options!(Gibbs {
    chains: usize => Range::whole(2, 1024),
    burn_in: u64 => ITERATIONS,
    samples: u64 => SAMPLES,
    thin: u64 => Range::whole(1, 1_000_000_000)
});

impl Default for Gibbs {
    fn default() -> Self {
        Gibbs { chains: 4, burn_in: 1000, samples: 4000, thin: 1 }
    }
}

/// What the chains have in common.
struct Work<'g> {
    kernel: Kernel<'g>,
    graph: &'g FactorGraph,
    query: Query,
    /// Start of each variable's states among all states.
    offsets: Vec<usize>,
    states: usize,
    /// Number of states to keep per chain.
    kept: u64,
    thin: u64,
}

/// One chain and what it has seen.
struct Chain {
    walker: Walker,
    /// Number of sweeps after the discarded ones.
    sweeps: u64,
    kept: u64,
    /// How often each state was kept, segment by segment, and the number of states kept in each segment.
    counts: Vec<u32>,
    lengths: [u64; SEGMENTS],
    /// How often each entry of a factor was kept, if the query asks for it.
    entries: Vec<u32>,
    /// Scores of some kept states.
    scores: Vec<f64>,
    best: Option<BestState>,
    /// The kept states, if they are the answer.
    states: Vec<usize>,
}

impl Work<'_> {
    fn chain(&self, random: Stream, state: Vec<usize>) -> Chain {
        let with_entries = self.query == Query::FactorMarginals;
        let entries = if with_entries { self.graph.factors().map(|f| f.log_values.len()).sum() } else { 0 };
        Chain {
            walker: self.kernel.walker(random, state),
            sweeps: 0,
            kept: 0,
            counts: vec![0; SEGMENTS * self.states],
            lengths: [0; SEGMENTS],
            entries: vec![0; entries],
            scores: Vec::new(),
            best: None,
            states: Vec::new(),
        }
    }

    /// Sweeps this many times; the states are kept unless they are discarded. Returns false if the work has to stop.
    fn advance(&self, chain: &mut Chain, sweeps: u64, discard: bool, clock: &Clock<'_>) -> bool {
        for _ in 0..sweeps {
            if !self.kernel.sweep(&mut chain.walker, clock) {
                return false;
            }
            if self.query == Query::Map {
                self.compare(chain);
            }
            if discard {
                continue;
            }
            chain.sweeps += 1;
            if chain.sweeps.is_multiple_of(self.thin) && chain.kept < self.kept {
                self.keep(chain);
            }
        }
        true
    }

    fn compare(&self, chain: &mut Chain) {
        let score = self.kernel.score(&chain.walker);
        if chain.best.as_ref().is_none_or(|best| score > best.score) {
            chain.best = Some(BestState { state: chain.walker.state.clone(), score });
        }
    }

    fn keep(&self, chain: &mut Chain) {
        let part = chain.kept as u128 * SEGMENTS as u128 / u128::from(self.kept.max(1));
        let segment = (part as usize).min(SEGMENTS - 1);
        let counts = &mut chain.counts[segment * self.states..(segment + 1) * self.states];
        for (&offset, &state) in self.offsets.iter().zip(&chain.walker.state) {
            counts[offset + state] += 1;
        }
        chain.lengths[segment] += 1;
        if !chain.entries.is_empty() {
            chain.walker.entries.iter().for_each(|&entry| chain.entries[entry] += 1);
        }
        if chain.kept.is_multiple_of(self.kept.div_ceil(SCORES)) {
            chain.scores.push(self.kernel.score(&chain.walker));
        }
        if let Query::Sample(_) = self.query {
            chain.states.extend_from_slice(&chain.walker.state);
        }
        chain.kept += 1;
    }
}

/// The finished chains.
struct Drawn {
    chains: Vec<Chain>,
    reduced: Reduced,
    offsets: Vec<usize>,
    states: usize,
    burn_in: u64,
    stopped_early: bool,
}

/// Some segments of a chain, and the number of states kept in them.
struct Group {
    chain: usize,
    segments: Vec<usize>,
    draws: f64,
}

/// The least favourable figures of all quantities, with their names.
struct Convergence {
    r_hat: (f64, String),
    size: (f64, String),
}

impl Gibbs {
    fn kept(&self, query: Query) -> u64 {
        let total = if let Query::Sample(count) = query { count as u64 } else { self.samples };
        total.div_ceil(self.chains as u64)
    }

    fn bytes(&self, graph: &FactorGraph, query: Query) -> f64 {
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
        let n = graph.variable_count() as f64;
        let entries = if query == Query::FactorMarginals { graph.bytes() as f64 } else { 0.0 };
        let each = 4.0 * SEGMENTS as f64 * states + 8.0 * n + 8.0 * graph.factor_count() as f64 + entries;
        let scores = 8.0 * self.kept(query).min(SCORES) as f64;
        // The states of the chains, their interleaved copy and the expanded ones.
        let samples = if let Query::Sample(count) = query { 24.0 * n * (count as f64 + 1.0) } else { 0.0 };
        let start = if graph.has_zeros() { self.chains as f64 * witness_bytes(graph) } else { 0.0 };
        // The reduced graph, the kernel, and the expanded answer with its index lists.
        graph.preparation_bytes()
            + 4.0 * graph.bytes() as f64
            + Kernel::bytes(graph)
            + self.chains as f64 * (each + 6.0 * scores + 1024.0)
            + 4.0 * entries
            + samples
            + start
    }

    /// Entries read in one sweep, and variables drawn.
    fn work(graph: &FactorGraph) -> (f64, f64) {
        let entries: f64 = graph.factors().map(|f| graph.lengths(f.scope).iter().sum::<usize>() as f64).sum();
        (entries, graph.variable_count() as f64)
    }

    fn draw(&self, graph: &FactorGraph, query: Query, run: &Run, clock: &Clock<'_>) -> Result<Drawn> {
        self.check()?;
        run.require_memory(NAME, self.bytes(graph, query))?;
        let reduced = Reduced::within(graph, clock)?;
        let free = &reduced.graph;
        let mut states = 0;
        let mut offsets = Vec::with_capacity(free.variable_count());
        for &own in free.cardinalities() {
            offsets.push(states);
            states += own;
        }
        let work = Work {
            kernel: Kernel::new(free),
            graph: free,
            query,
            offsets,
            states,
            kept: self.kept(query),
            thin: self.thin,
        };
        let (chains, burn_in, stopped_early) = run.install(|| self.walk(&work, graph, run.seed(), clock))?;
        if query != Query::Map && chains.iter().any(|chain| chain.kept < work.kept.min(1)) {
            clock.check()?;
        }
        let Work { offsets, .. } = work;
        Ok(Drawn { chains, offsets, states, burn_in, stopped_early, reduced })
    }

    /// Runs all chains. Also returns the number of sweeps discarded and whether the work was stopped early.
    fn walk(
        &self,
        work: &Work<'_>,
        graph: &FactorGraph,
        seed: u64,
        clock: &Clock<'_>,
    ) -> Result<(Vec<Chain>, u64, bool)> {
        let streams = Streams::new(seed, "gibbs sampling");
        let starts: Vec<Result<Chain>> = (0..self.chains)
            .into_par_iter()
            .map(|chain| {
                let mut random = streams.block(chain as u64);
                let state = initial(work.graph, graph, &mut random, clock)?;
                Ok(work.chain(random, state))
            })
            .collect();
        let mut chains = starts.into_iter().collect::<Result<Vec<Chain>>>()?;
        let (entries, variables) = Self::work(work.graph);
        let round = (ROUND / (entries + 4.0 * variables + 1.0)).clamp(1.0, 256.0) as u64;
        let after = work.kept.saturating_mul(self.thin);
        let (mut burn_in, mut done, mut stopped_early) = (self.burn_in, 0, false);
        while done < burn_in.saturating_add(after) {
            if clock.must_stop() {
                stopped_early = true;
                break;
            }
            if done < burn_in && clock.budget().is_some_and(|budget| clock.seconds() > 0.5 * budget) {
                (burn_in, stopped_early) = (done, true);
            }
            let discard = done < burn_in;
            let left = if discard { burn_in - done } else { burn_in.saturating_add(after) - done };
            let sweeps = round.min(left);
            let advance = |chain: &mut Chain| work.advance(chain, sweeps, discard, clock);
            let finished: Vec<bool> = chains.par_iter_mut().map(advance).collect();
            if finished.contains(&false) {
                stopped_early = true;
                break;
            }
            done += sweeps;
            clock.progress("sampling", done, burn_in.saturating_add(after));
        }
        Ok((chains, burn_in, stopped_early))
    }

    /// Draws all chains and calls `finish` with them for the value; its guarantee, if it is not heuristic.
    fn answer<T>(
        &self,
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Drawn) -> Result<(T, Option<Guarantee>)>,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let drawn = self.draw(graph, query, run, &clock)?;
        let (value, guarantee) = finish(&drawn)?;
        let kept: u64 = drawn.chains.iter().map(|chain| chain.kept).sum();
        let mut diagnostics = Diagnostics::new(NAME)
            .note("chains", self.chains)
            .note("burn_in", drawn.burn_in)
            .note("samples", kept)
            .note("thin", self.thin);
        let guarantee = match guarantee {
            Some(guarantee) => guarantee,
            None => {
                let found = drawn.convergence(graph);
                diagnostics =
                    diagnostics.note("r_hat", found.r_hat.0).note("effective_sample_size", found.size.0);
                let text = found.text();
                if found.r_hat.0 > CONVERGED.0 || found.size.0 < CONVERGED.1 * self.chains as f64 {
                    let warning = format!(
                        "the chains have not converged or are too short: {text}; more samples or another method may help"
                    );
                    diagnostics = diagnostics.note("warning", warning);
                }
                Guarantee::Heuristic {
                    reason: format!("averages over {} Markov chains: {text}", self.chains),
                }
            }
        };
        diagnostics.rounding = rounding(graph);
        diagnostics.seconds = clock.seconds();
        diagnostics.stopped_early = drawn.stopped_early;
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// A random state of positive weight.
fn initial(
    free: &FactorGraph,
    graph: &FactorGraph,
    random: &mut Stream,
    clock: &Clock<'_>,
) -> Result<Vec<usize>> {
    if !free.has_zeros() {
        return Ok(free.cardinalities().iter().map(|&states| random.below(states)).collect());
    }
    let mut preferences = Beliefs::zeros(free.cardinalities());
    preferences.as_mut_slice().iter_mut().for_each(|p| *p = random.uniform());
    match witness(free, |v| preferences.variable(v).to_vec(), STEPS, clock)? {
        Witness::Found(state) => Ok(state),
        Witness::Impossible => Err(graph.zero_error()),
        Witness::Unknown => Err(Error::NoAnswer(
            "gibbs found no state of positive weight to start from; search or elimination may answer".into(),
        )),
    }
}

impl Drawn {
    /// Groups of consecutive segments that have draws: the halves of each chain, and all segments.
    fn groups(&self) -> [Vec<Group>; 2] {
        let (mut halves, mut batches) = (Vec::new(), Vec::new());
        for (number, chain) in self.chains.iter().enumerate() {
            let filled: Vec<usize> = (0..SEGMENTS).filter(|&segment| chain.lengths[segment] > 0).collect();
            let (first, second) = filled.split_at(filled.len() / 2);
            let group = |segments: &[usize]| {
                let draws = segments.iter().map(|&segment| chain.lengths[segment]).sum::<u64>() as f64;
                Group { chain: number, segments: segments.to_vec(), draws }
            };
            halves.extend([first, second].into_iter().filter(|half| !half.is_empty()).map(group));
            batches.extend(filled.chunks(1).map(group));
        }
        [halves, batches]
    }

    /// The number of occurrences of a state and the number of draws, for each group.
    fn occurrences(&self, state: usize, groups: &[Group], out: &mut Vec<(f64, f64)>) {
        out.clear();
        out.extend(groups.iter().map(|Group { chain, segments, draws }| {
            let counts = &self.chains[*chain].counts;
            let count = |&segment: &usize| f64::from(counts[segment * self.states + state]);
            (segments.iter().map(count).sum(), *draws)
        }));
    }

    fn convergence(&self, graph: &FactorGraph) -> Convergence {
        let shortest = self.chains.iter().map(|chain| chain.scores.len()).min().unwrap_or(0);
        let scores: Vec<Vec<f64>> =
            self.chains.iter().map(|chain| chain.scores[..shortest].to_vec()).collect();
        let (r_hat, size) = convergence::of_numbers(&scores);
        let score = || "the score".to_owned();
        // Scores are kept for at most a few thousand draws of a chain, which limits their size from above.
        let (mut worst, mut least) = ((r_hat, None), (size, None));
        let ([halves, batches], mut counts) = (self.groups(), Vec::new());
        let lengths = self.reduced.graph.cardinalities();
        for (v, (&offset, &states)) in self.offsets.iter().zip(lengths).enumerate() {
            // The second of two states has the same figures as the first.
            for state in offset..offset + if states == 2 { 1 } else { states } {
                self.occurrences(state, &halves, &mut counts);
                let r_hat = convergence::indicator_r_hat(&counts);
                if r_hat > worst.0 {
                    worst = (r_hat, Some(v));
                }
                self.occurrences(state, &batches, &mut counts);
                let size = convergence::indicator_size(&counts);
                if size < least.0 {
                    least = (size, Some(v));
                }
            }
        }
        let name = |found: Option<usize>| match found {
            None => score(),
            Some(own) => {
                let original = (0..graph.variable_count()).find(|&v| self.reduced.index(v) == Some(own));
                graph.variable_name(original.unwrap_or(0))
            }
        };
        Convergence { r_hat: (worst.0, name(worst.1)), size: (least.0, name(least.1)) }
    }
}

impl Convergence {
    fn text(&self) -> String {
        let (r_hat, size) = (self.r_hat.0, self.size.0);
        let r_hat = if r_hat < 1000.0 { format!("{r_hat:.3}") } else { "over 1000".into() };
        format!(
            "largest R-hat {r_hat} ({}), smallest effective sample size {} ({})",
            self.r_hat.1,
            size.round(),
            self.size.1
        )
    }
}

impl Forecasts<FactorGraph> for Gibbs {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let (entries, variables) = Self::work(graph);
        let sweeps = self.burn_in as f64 + self.kept(query) as f64 * self.thin as f64;
        let rounds = self.chains.div_ceil(run.threads()) as f64;
        Forecast {
            bytes: self.bytes(graph, query),
            seconds: rounds * sweeps * (entries * SECONDS_PER_ENTRY + variables * SECONDS_PER_VARIABLE),
            promise: if matches!(query, Query::Map) { Promise::Bounds } else { Promise::Heuristic },
        }
    }
}

impl Marginals<FactorGraph> for Gibbs {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        self.answer(graph, Query::Marginals, run, |drawn| {
            let mut beliefs = Beliefs::zeros(drawn.reduced.graph.cardinalities());
            for chain in &drawn.chains {
                for counts in chain.counts.chunks(drawn.states.max(1)) {
                    let sums = beliefs.as_mut_slice().iter_mut().zip(counts);
                    sums.for_each(|(sum, &count)| *sum += f64::from(count));
                }
            }
            beliefs.normalise();
            Ok((drawn.reduced.expand_beliefs(graph, &beliefs), None))
        })
    }
}

impl FactorMarginals<FactorGraph> for Gibbs {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        self.answer(graph, Query::FactorMarginals, run, |drawn| {
            let mut beliefs = FactorBeliefs::zeros(&drawn.reduced.graph);
            for chain in &drawn.chains {
                let sums = beliefs.as_mut_slice().iter_mut().zip(&chain.entries);
                sums.for_each(|(sum, &count)| *sum += f64::from(count));
            }
            beliefs.normalise();
            Ok((drawn.reduced.expand_factor_beliefs(graph, &beliefs), None))
        })
    }
}

impl Map<FactorGraph> for Gibbs {
    /// The best state of all sweeps, the discarded ones included.
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        self.answer(graph, Query::Map, run, |drawn| {
            let bests = drawn.chains.iter().filter_map(|chain| chain.best.as_ref());
            let best = bests.reduce(|a, b| if b.score > a.score { b } else { a });
            let best = best.ok_or_else(|| Error::NoAnswer("no sweep was finished".into()))?;
            let state = drawn.reduced.expand_state(&best.state);
            let score = graph.score(&state);
            // No state can exceed the sum of the maxima of all factors.
            let factors = drawn.reduced.graph.factors().map(|factor| numeric::max(factor.log_values));
            let high = (drawn.reduced.constant + factors.sum::<f64>()).max(score);
            Ok((BestState { state, score }, Some(Guarantee::bounds(score, high, 1.0, rounding(graph)))))
        })
    }
}

impl Sample<FactorGraph> for Gibbs {
    /// States of all chains in turn.
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        self.answer(graph, Query::Sample(count), run, |drawn| {
            let n = drawn.reduced.graph.variable_count();
            if drawn.chains.iter().any(|chain| chain.kept < self.kept(Query::Sample(count))) {
                clock.check()?;
                return Err(Error::NoAnswer("gibbs was stopped before all samples were drawn".into()));
            }
            let mut states = Vec::with_capacity(count * n);
            for sample in 0..count {
                let (chain, place) = (&drawn.chains[sample % self.chains], sample / self.chains);
                states.extend_from_slice(&chain.states[place * n..(place + 1) * n]);
            }
            Ok((drawn.reduced.expand_samples(Samples::new(count, n, states, Law::Chains)), None))
        })
    }
}
