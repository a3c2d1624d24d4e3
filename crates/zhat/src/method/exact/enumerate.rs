//! Enumeration of every state: the reference for all tests.
//!
//! Z = Σₓ exp score(x), term by term. The states are the leaves of a tree that fixes one variable per level.
//! A factor is added to the score at the level of its last variable, so that a leaf costs a constant number
//! of factors. Branches of weight zero are pruned. A first walk finds the best score, and a second one sums
//! exp(score − best). A fixed set of subtrees is walked in parallel and combined in order, so the result is
//! bitwise the same for any number of threads.
//!
//! Time O(|X|), memory O(variables). Exact.
//!
//! ```
//! use zhat::{FactorGraph, LogPartition, Run};
//! use zhat::exact::Enumeration;
//! let graph = FactorGraph::new(vec![2; 10])?; // no factors: Z counts the states
//! let z = Enumeration::default().log_partition(&graph, &Run::default())?;
//! assert!((z.value - 1024f64.ln()).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::elimination;
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::Result;
use crate::method::cost::enumeration::{AT_LEAST, SECONDS_PER_STATE};
use crate::method::exact::prepare::Reduced;
use crate::model::FactorGraph;
use crate::numeric::{self, CompensatedSum};
use crate::options::options;
use crate::query::{
    Beliefs, BestState, Entropy, FactorBeliefs, FactorMarginals, KBest, Law, LogPartition, Map, Marginals,
    Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};

const NAME: &str = "enumeration";
/// The walk is split into at least this many subtrees if the model has that many.
const SUBTREES: usize = 256;
/// Variables with more states than this are not split into subtrees.
const LARGEST_SPLIT: usize = 64;
/// Number of steps of a walk between checks for cancellation.
const CHECK_EVERY: u64 = 1 << 16;

/// Exact inference by summing over every state.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Enumeration {}

options!(Enumeration {});

/// The tree of states.
struct States<'g> {
    graph: &'g FactorGraph,
    /// The factors whose last variable is at each level.
    factors: Vec<Vec<usize>>,
    /// The number of variables fixed by the choice of a subtree.
    prefix: usize,
    subtrees: usize,
}

/// Operations performed during a walk through a subtree.
trait Visitor {
    /// Called with every state and its score.
    fn leaf(&mut self, score: f64, state: &[usize]);
    /// Called after the branch that `state` fixes up to `level` has been walked.
    fn leave(&mut self, _level: usize, _state: &[usize]) {}
    /// Returns true to end the walk.
    fn is_done(&self) -> bool {
        false
    }
}

impl<'g> States<'g> {
    fn new(graph: &'g FactorGraph) -> Self {
        let n = graph.variable_count();
        let mut factors = vec![Vec::new(); n];
        for (f, factor) in graph.factors().enumerate() {
            if let Some(&last) = factor.scope.iter().max() {
                factors[last].push(f);
            }
        }
        let (mut prefix, mut subtrees) = (0, 1);
        while prefix < n && subtrees < SUBTREES && graph.cardinalities()[prefix] <= LARGEST_SPLIT {
            subtrees *= graph.cardinalities()[prefix];
            prefix += 1;
        }
        States { graph, factors, prefix, subtrees }
    }

    /// The sum of the factors whose last variable is at `level`.
    fn gain(&self, level: usize, state: &[usize]) -> f64 {
        let entry = |&f: &usize| {
            let factor = self.graph.factor(f);
            factor.log_values[self.graph.entry(factor.scope, state)]
        };
        self.factors[level].iter().map(entry).sum()
    }

    /// Walks through one subtree in lexicographic order.
    fn walk(&self, subtree: usize, clock: &Clock<'_>, visitor: &mut impl Visitor) -> Result<()> {
        clock.check()?;
        let cardinalities = self.graph.cardinalities();
        let n = cardinalities.len();
        let mut state = vec![0; n];
        let mut rest = subtree;
        for level in (0..self.prefix).rev() {
            state[level] = rest % cardinalities[level];
            rest /= cardinalities[level];
        }
        // scores[level] is the sum of all factors that end before `level`.
        let mut scores = vec![0.0; n + 1];
        for level in 0..self.prefix {
            scores[level + 1] = scores[level] + self.gain(level, &state);
        }
        let mut level = self.prefix;
        let mut steps = 0u64;
        let mut descending = scores[level] > f64::NEG_INFINITY;
        loop {
            steps += 1;
            if steps.is_multiple_of(CHECK_EVERY) {
                clock.check()?;
            }
            if descending {
                if level == n {
                    visitor.leaf(scores[n], &state);
                    if visitor.is_done() {
                        return Ok(());
                    }
                    descending = false;
                } else {
                    scores[level + 1] = scores[level] + self.gain(level, &state);
                    level += 1;
                    descending = scores[level] > f64::NEG_INFINITY;
                }
            } else {
                if level == self.prefix {
                    break;
                }
                level -= 1;
                visitor.leave(level, &state);
                state[level] += 1;
                if state[level] < cardinalities[level] {
                    descending = true;
                } else {
                    state[level] = 0;
                }
            }
        }
        for level in (0..self.prefix).rev() {
            visitor.leave(level, &state);
        }
        Ok(())
    }

    /// Walks through all subtrees with one visitor each. Returns the visitors in order.
    fn walk_all<V: Visitor + Send>(
        &self,
        phase: &'static str,
        clock: &Clock<'_>,
        visitor: impl Fn() -> V + Sync,
    ) -> Result<Vec<V>> {
        let done = std::sync::atomic::AtomicU64::new(0);
        (0..self.subtrees)
            .into_par_iter()
            .map(|subtree| {
                let mut visitor = visitor();
                self.walk(subtree, clock, &mut visitor)?;
                let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
                clock.progress(phase, done, self.subtrees as u64);
                Ok(visitor)
            })
            .collect()
    }
}

/// Finds the best score and the first state that attains it.
struct Best {
    score: f64,
    state: Vec<usize>,
}

impl Visitor for Best {
    fn leaf(&mut self, score: f64, state: &[usize]) {
        if score > self.score {
            self.score = score;
            self.state.clear();
            self.state.extend_from_slice(state);
        }
    }
}

/// Keeps the k best states; among ties, the first ones.
pub(crate) struct Ranked {
    k: usize,
    /// Best first.
    states: Vec<BestState>,
}

impl Ranked {
    pub(crate) fn new(k: usize) -> Self {
        Ranked { k, states: Vec::new() }
    }

    /// Whether a state with this score would be kept.
    pub(crate) fn takes(&self, score: f64) -> bool {
        self.states.len() < self.k || self.states.last().is_some_and(|worst| score > worst.score)
    }

    pub(crate) fn into_states(self) -> Vec<BestState> {
        self.states
    }

    pub(crate) fn insert(&mut self, score: f64, state: &[usize]) {
        let at = self.states.partition_point(|kept| kept.score >= score);
        if at < self.k {
            self.states.truncate(self.k - 1);
            self.states.insert(at, BestState { state: state.to_vec(), score });
        }
    }
}

impl Visitor for Ranked {
    fn leaf(&mut self, score: f64, state: &[usize]) {
        self.insert(score, state);
    }
}

/// Sums w = exp(score − best) and w·(score − best). With beliefs, it also sums w for each state of a variable
/// or factor.
struct Mass<'a> {
    states: &'a States<'a>,
    best: f64,
    /// The mass of the current branch at each level. A finished branch is added to its parent.
    mass: Vec<f64>,
    weighted: CompensatedSum,
    beliefs: Option<Beliefs>,
    factors: Option<FactorBeliefs>,
}

impl Visitor for Mass<'_> {
    fn leaf(&mut self, score: f64, state: &[usize]) {
        let gap = score - self.best;
        let weight = gap.exp();
        self.mass[state.len()] += weight;
        self.weighted.add(weight * gap);
    }

    fn leave(&mut self, level: usize, state: &[usize]) {
        let mass = std::mem::take(&mut self.mass[level + 1]);
        self.mass[level] += mass;
        if let Some(beliefs) = &mut self.beliefs {
            beliefs.variable_mut(level)[state[level]] += mass;
        }
        if let Some(beliefs) = &mut self.factors {
            for &f in &self.states.factors[level] {
                let entry = self.states.graph.entry(self.states.graph.factor(f).scope, state);
                beliefs.factor_mut(f)[entry] += mass;
            }
        }
    }
}

/// Records the states at which the cumulative sum of weights passes given points.
struct Pick<'a> {
    best: f64,
    mass: CompensatedSum,
    points: &'a [f64],
    states: Vec<usize>,
    last: Vec<usize>,
}

impl Visitor for Pick<'_> {
    fn leaf(&mut self, score: f64, state: &[usize]) {
        self.mass.add((score - self.best).exp());
        self.last.clear();
        self.last.extend_from_slice(state);
        while let Some((_, rest)) = self.points.split_first().filter(|(point, _)| **point < self.mass.value())
        {
            self.points = rest;
            self.states.extend_from_slice(state);
        }
    }

    fn is_done(&self) -> bool {
        self.points.is_empty()
    }
}

/// Sums over the whole model.
struct Total {
    best: BestState,
    /// Σ exp(score − best), for each subtree and in total.
    subtree_masses: Vec<f64>,
    mass: f64,
    weighted: f64,
    beliefs: Beliefs,
    factors: FactorBeliefs,
}

impl Enumeration {
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(Total, &States<'_>, &Reduced, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        run.require_memory(NAME, graph.preparation_bytes())?;
        let reduced = &Reduced::within(graph, &clock)?;
        run.require_memory(NAME, Self::bytes(graph, &reduced.graph, query))?;
        let value = run.install(|| {
            let states = States::new(&reduced.graph);
            let total = Self::total(&states, query, run, &clock)?.ok_or_else(|| graph.zero_error())?;
            finish(total, &states, reduced, &clock)
        })?;
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64 + 1.0).sum();
        let operations = graph.factor_count() as f64 + states + 8.0;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("log2_states", reduced.graph.log_state_count() / std::f64::consts::LN_2);
        diagnostics.rounding = numeric::rounding_allowance(operations, graph.magnitude());
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }

    /// Performs both walks. Returns `None` if every state has weight zero.
    fn total(states: &States<'_>, query: Query, run: &Run, clock: &Clock<'_>) -> Result<Option<Total>> {
        if query == Query::LogPartition {
            return Self::mass(states, run, clock);
        }
        let bests = states.walk_all("looking for the best state", clock, || Best {
            score: f64::NEG_INFINITY,
            state: Vec::new(),
        })?;
        let Some(best) = bests.into_iter().reduce(|a, b| if b.score > a.score { b } else { a }) else {
            return Ok(None);
        };
        if best.score == f64::NEG_INFINITY {
            return Ok(None);
        }
        let mut total = Total {
            best: BestState { state: best.state, score: best.score },
            subtree_masses: Vec::new(),
            mass: 0.0,
            weighted: 0.0,
            beliefs: Beliefs::default(),
            factors: FactorBeliefs::default(),
        };
        if matches!(query, Query::Map | Query::KBest(_)) {
            return Ok(Some(total));
        }
        let beliefs = || (query == Query::Marginals).then(|| Beliefs::zeros(states.graph.cardinalities()));
        let factors = || (query == Query::FactorMarginals).then(|| FactorBeliefs::zeros(states.graph));
        let parts = states.walk_all("adding up states", clock, || Mass {
            states,
            best: best.score,
            mass: vec![0.0; states.graph.variable_count() + 1],
            weighted: CompensatedSum::default(),
            beliefs: beliefs(),
            factors: factors(),
        })?;
        total.beliefs = beliefs().unwrap_or_default();
        total.factors = factors().unwrap_or_default();
        let add = |sums: &mut [f64], masses: &[f64]| {
            sums.iter_mut().zip(masses).for_each(|(sum, mass)| *sum += mass);
        };
        for part in &parts {
            part.beliefs.iter().for_each(|part| add(total.beliefs.as_mut_slice(), part.as_slice()));
            part.factors.iter().for_each(|part| add(total.factors.as_mut_slice(), part.as_slice()));
        }
        total.subtree_masses = parts.iter().map(|part| part.mass[0]).collect();
        total.mass = total.subtree_masses.iter().copied().collect::<CompensatedSum>().value();
        total.weighted = parts.iter().map(|part| part.weighted.value()).collect::<CompensatedSum>().value();
        Ok(Some(total))
    }

    /// The same for log Z only, where both walks through a subtree follow each other: a unit of divided work.
    fn mass(states: &States<'_>, run: &Run, clock: &Clock<'_>) -> Result<Option<Total>> {
        let done = std::sync::atomic::AtomicU64::new(0);
        let work = |subtree: u64| {
            let mut best = Best { score: f64::NEG_INFINITY, state: Vec::new() };
            states.walk(subtree as usize, clock, &mut best)?;
            let mut mass = Mass {
                states,
                best: best.score,
                mass: vec![0.0; states.graph.variable_count() + 1],
                weighted: CompensatedSum::default(),
                beliefs: None,
                factors: None,
            };
            if best.score > f64::NEG_INFINITY {
                states.walk(subtree as usize, clock, &mut mass)?;
            }
            let done = done.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            clock.progress("adding up states", done, states.subtrees as u64);
            Ok((best.score, mass.mass[0]))
        };
        let mut parts = Vec::new();
        let units = Units::new(NAME, states.subtrees as u64, &[states.prefix as u64]);
        run.units(&units, work, |_, part: (f64, f64)| parts.push(part))?;
        let score = parts.iter().map(|part| part.0).fold(f64::NEG_INFINITY, f64::max);
        if score == f64::NEG_INFINITY {
            return Ok(None);
        }
        let masses = parts.iter().map(|(best, mass)| (best - score).exp() * mass);
        Ok(Some(Total {
            best: BestState { state: Vec::new(), score },
            subtree_masses: Vec::new(),
            mass: masses.collect::<CompensatedSum>().value(),
            weighted: 0.0,
            beliefs: Beliefs::default(),
            factors: FactorBeliefs::default(),
        }))
    }

    fn bytes(graph: &FactorGraph, reduced: &FactorGraph, query: Query) -> f64 {
        let states: f64 = graph.cardinalities().iter().map(|&states| states as f64).sum();
        let (n, free) = (graph.variable_count() as f64, reduced.variable_count() as f64);
        let subtrees = States::new(reduced).subtrees as f64;
        let per_query = match query.at_most(graph.log_state_count()) {
            Query::LogPartition | Query::Entropy => 0.0,
            Query::Marginals => (subtrees + 2.0) * states * 8.0,
            // One set of sums per subtree and one in total; the expanded tables with an index list.
            Query::FactorMarginals => (subtrees + 4.0) * graph.bytes() as f64,
            Query::Map => 16.0 * n,
            Query::KBest(k) => (subtrees + 1.0) * k as f64 * (32.0 * n + 64.0),
            Query::Sample(count) => count as f64 * (n * 16.0 + 64.0),
        };
        graph.preparation_bytes() + subtrees * (256.0 + 32.0 * free) + 64.0 * n + per_query
    }

    /// Draws samples by inverting the cumulative sum of weights.
    fn draw(
        total: &Total,
        states: &States<'_>,
        count: usize,
        seed: u64,
        clock: &Clock<'_>,
    ) -> Result<Samples> {
        let n = states.graph.variable_count();
        let mut random = Streams::new(seed, "enumeration sample").block(0);
        let mut points: Vec<(f64, usize)> = (0..count).map(|s| (random.uniform() * total.mass, s)).collect();
        points.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        // Split the sorted points by subtree; each is relative to the start of its subtree.
        let mut work = Vec::new();
        let (mut start, mut taken) = (0.0, 0);
        let positive =
            states.subtrees - 1 - total.subtree_masses.iter().rev().take_while(|m| **m == 0.0).count();
        for (subtree, &mass) in total.subtree_masses.iter().enumerate().take(positive + 1) {
            let end =
                if subtree == positive { count } else { points.partition_point(|p| p.0 < start + mass) };
            if end > taken {
                work.push((subtree, points[taken..end].iter().map(|p| p.0 - start).collect::<Vec<f64>>()));
                taken = end;
            }
            start += mass;
        }
        let drawn: Vec<Vec<usize>> = work
            .par_iter()
            .map(|(subtree, points)| {
                let mut pick = Pick {
                    best: total.best.score,
                    mass: CompensatedSum::default(),
                    points,
                    states: Vec::with_capacity(points.len() * n),
                    last: Vec::new(),
                };
                states.walk(*subtree, clock, &mut pick)?;
                // Rounding can leave points slightly beyond the mass of the subtree; they belong to its last
                // state.
                for _ in 0..pick.points.len() {
                    pick.states.extend_from_slice(&pick.last);
                }
                Ok(pick.states)
            })
            .collect::<Result<_>>()?;
        let mut result = vec![0; count * n];
        for (state, (_, s)) in drawn.concat().chunks_exact(n.max(1)).zip(&points) {
            result[s * n..(s + 1) * n].copy_from_slice(state);
        }
        Ok(Samples::new(count, n, result, Law::Exact))
    }
}

impl Forecasts<FactorGraph> for Enumeration {
    fn forecast(&self, graph: &FactorGraph, query: Query, run: &Run) -> Forecast {
        let exact = |bytes, seconds| Forecast { bytes, seconds, promise: Promise::Exact };
        let prepared = run
            .require_memory(NAME, graph.preparation_bytes())
            .and_then(|()| Reduced::within(graph, &run.start(NAME)));
        let reduced = match &prepared {
            Ok(reduced) => &reduced.graph,
            Err(error) => return elimination::unprepared(graph, error),
        };
        let states = reduced.log_state_count().exp();
        // Each state evaluates the factors of the last level, and a share of those above.
        let last = States::new(reduced).factors.last().map_or(0, Vec::len) as f64;
        exact(Self::bytes(graph, reduced, query), AT_LEAST + states * SECONDS_PER_STATE * (1.0 + last))
    }
}

impl LogPartition<FactorGraph> for Enumeration {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::LogPartition, run, |total, _, reduced, _| {
            Ok(reduced.constant + total.best.score + total.mass.ln())
        })
    }
}

impl Marginals<FactorGraph> for Enumeration {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        Self::answer(graph, Query::Marginals, run, |mut total, _, reduced, _| {
            total.beliefs.normalise();
            Ok(reduced.expand_beliefs(graph, &total.beliefs))
        })
    }
}

impl FactorMarginals<FactorGraph> for Enumeration {
    fn factor_marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<FactorBeliefs>> {
        Self::answer(graph, Query::FactorMarginals, run, |mut total, _, reduced, _| {
            total.factors.normalise();
            Ok(reduced.expand_factor_beliefs(graph, &total.factors))
        })
    }
}

impl Entropy<FactorGraph> for Enumeration {
    /// H = ln Σw − Σ w·(score − best) / Σw. Both terms stay small for scores of any size.
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::Entropy, run, |total, _, _, _| {
            Ok((total.mass.ln() - total.weighted / total.mass).max(0.0))
        })
    }
}

impl Map<FactorGraph> for Enumeration {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        Self::answer(graph, Query::Map, run, |total, _, reduced, _| {
            let state = reduced.expand_state(&total.best.state);
            Ok(BestState { score: graph.score(&state), state })
        })
    }
}

impl KBest<FactorGraph> for Enumeration {
    fn k_best(&self, graph: &FactorGraph, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
        Self::answer(graph, Query::KBest(k), run, |_, states, reduced, clock| {
            let parts = states.walk_all("ranking states", clock, || Ranked::new(k))?;
            let mut ranked = Ranked::new(k);
            for best in parts.iter().flat_map(|part| &part.states) {
                ranked.insert(best.score, &best.state);
            }
            let expand = |best: BestState| {
                let state = reduced.expand_state(&best.state);
                BestState { score: graph.score(&state), state }
            };
            Ok(ranked.states.into_iter().map(expand).collect())
        })
    }
}

impl Sample<FactorGraph> for Enumeration {
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        Self::answer(graph, Query::Sample(count), run, |total, states, reduced, clock| {
            Ok(reduced.expand_samples(Self::draw(&total, states, count, run.seed(), clock)?))
        })
    }
}
