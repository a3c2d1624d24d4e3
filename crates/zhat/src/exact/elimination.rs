//! Variable elimination with a min-fill order.
//!
//! Z = Σ_{x_n} … Σ_{x_1} Π_f exp θ_f: the variables are summed out one by one. Eliminating v multiplies the tables that
//! mention v and sums over its states; the result, a message m_v over the others that met there, goes to the
//! bucket of whichever of them is eliminated next. The sums kept, everything else follows backwards: the
//! conditional p(x_v | others) = exp(local_v − m_v) gives samples, all marginals (parent's clique marginal times
//! conditional), and the entropy as Σ_v H(x_v | others), a sum of non-negative terms. The same sweep with max for
//! log-sum-exp finds the best state.
//!
//! Time O(Σ_v |clique_v| · tables_v), memory the largest messages: exponential in the induced width.
//! Exact; the rounding allowance is u·operations·magnitude as in [`crate::numeric::rounding_allowance`].
//!
//! Reference: R. Dechter, *Bucket elimination: a unifying framework for reasoning*, Artificial Intelligence 113 (1999).
//!
//! ```
//! use zhat::{Marginals, Run, exact::Elimination, model::generate};
//! let tree = generate::tree(100, 4, 1.0, 7)?;
//! let beliefs = Elimination::default().marginals(&tree, &Run::default())?.value;
//! assert!((beliefs.variable(0).iter().sum::<f64>() - 1.0).abs() < 1e-12);
//! # Ok::<(), zhat::Error>(())
//! ```

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::bucket::{Bucket, Reduce, offsets};
use super::order::{Order, min_fill};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::Result;
use crate::forecast::{Forecast, Forecasts};
use crate::model::{FactorGraph, Reduced, table};
use crate::numeric::{self, CompensatedSum};
use crate::query::{Beliefs, BestState, Entropy, Law, LogPartition, Map, Marginals, Query, Sample, Samples};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

const NAME: &str = "elimination";
/// Tables over this many entries are out of reach anyway, so the search for an order ends there.
const LOG2_LIMIT: f64 = 60.0;
/// Samples that share one random stream.
const BLOCK: usize = 256;
/// Measured cost of one clique entry (exp, ln, reduction), and of adding one table to it.
const SECONDS_PER_ENTRY: f64 = 4e-9;
const SECONDS_PER_ADDITION: f64 = 0.6e-9;
/// Measured cost of setting up one variable, and of drawing one variable's state.
const SECONDS_PER_VARIABLE: f64 = 2e-6;

/// Exact inference by variable elimination with a min-fill order.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Elimination {}

/// A factor graph with an elimination order and its tables permuted to it.
struct Plan {
    order: Order,
    /// Where each variable stands in the order.
    position: Vec<usize>,
    /// Factor tables with axes in elimination order.
    tables: Vec<Vec<f64>>,
    /// For each position the factors whose first variable it is, with their scopes in elimination order.
    factors: Vec<Vec<(usize, Vec<usize>)>>,
    /// For each position the positions whose message it takes.
    children: Vec<Vec<usize>>,
    cardinalities: Vec<usize>,
}

impl Plan {
    fn new(graph: &FactorGraph, order: Order) -> Self {
        let n = graph.variable_count();
        let mut position = vec![0; n];
        order.variables.iter().enumerate().for_each(|(i, &v)| position[v] = i);
        let mut factors = vec![Vec::new(); n];
        let mut tables = Vec::with_capacity(graph.factor_count());
        for (f, factor) in graph.factors().enumerate() {
            let mut axes: Vec<usize> = (0..factor.scope.len()).collect();
            axes.sort_unstable_by_key(|&axis| position[factor.scope[axis]]);
            tables.push(table::permute(factor.log_values, &graph.lengths(factor.scope), &axes));
            let scope: Vec<usize> = axes.iter().map(|&axis| factor.scope[axis]).collect();
            factors[position[scope[0]]].push((f, scope));
        }
        let mut children = vec![Vec::new(); n];
        for (i, neighbours) in order.neighbours.iter().enumerate() {
            if let Some(&parent) = neighbours.first() {
                children[position[parent]].push(i);
            }
        }
        Plan { order, position, tables, factors, children, cardinalities: graph.cardinalities().to_vec() }
    }

    /// The number of states of the others at position `i`.
    fn message_len(&self, i: usize) -> usize {
        self.order.neighbours[i].iter().map(|&u| self.cardinalities[u]).product()
    }

    /// Which axes of the others at position `i` the variables of `scope` are; both are in elimination order.
    fn axes(&self, i: usize, scope: &[usize]) -> Vec<usize> {
        let others = &self.order.neighbours[i];
        scope
            .iter()
            .filter_map(|&u| others.binary_search_by_key(&self.position[u], |&w| self.position[w]).ok())
            .collect()
    }

    /// The tables that meet at position `i`: its factors and its children's messages.
    fn bucket<'a>(&'a self, i: usize, messages: &'a [Message]) -> Bucket<'a> {
        let lengths = self.order.neighbours[i].iter().map(|&u| self.cardinalities[u]).collect();
        let mut bucket = Bucket::new(self.cardinalities[self.order.variables[i]], lengths);
        for (f, scope) in &self.factors[i] {
            bucket.push(&self.tables[*f], &self.axes(i, &scope[1..]));
        }
        for &child in &self.children[i] {
            bucket.push(&messages[child].values, &self.axes(i, &self.order.neighbours[child][1..]));
        }
        bucket
    }
}

/// m_v(others) = shift + values, the largest of `values` being zero.
#[derive(Clone, Debug, Default)]
struct Message {
    values: Vec<f64>,
    shift: f64,
}

/// A factor graph after the forward sweep, ready for everything that runs backwards.
pub(crate) struct Tree {
    plan: Plan,
    messages: Vec<Message>,
    /// log Z, or the best score if the sweep maximised.
    pub log_value: f64,
}

impl Tree {
    /// Sweeps forward through a graph whose factors all have a scope. Without `keep` messages are freed as soon as
    /// they have been used and only `log_value` can be asked for.
    fn sweep(plan: Plan, reduce: Reduce, keep: bool, clock: &Clock<'_>) -> Result<Self> {
        let n = plan.cardinalities.len();
        let mut messages = vec![Message::default(); n];
        let mut total = CompensatedSum::default();
        for i in 0..n {
            clock.progress("eliminating variables", i as u64, n as u64);
            let mut values = vec![0.0; plan.message_len(i)];
            plan.bucket(i, &messages).reduce(reduce, &mut values, clock)?;
            let shift = numeric::max(&values);
            if shift.is_finite() {
                values.iter_mut().for_each(|x| *x -= shift);
            }
            total.add(shift);
            messages[i] = Message { values, shift };
            if !keep {
                plan.children[i].iter().for_each(|&child| messages[child] = Message::default());
            }
        }
        Ok(Tree { plan, messages, log_value: total.value() })
    }

    /// The forward sweep of a graph of small width that is to be sampled from.
    pub fn new(graph: &FactorGraph, order: Order, clock: &Clock<'_>) -> Result<Self> {
        Self::sweep(Plan::new(graph, order), Reduce::LogSumExp, true, clock)
    }

    /// scores[x_v] = sum of the tables at position `i`, the others being in their states.
    fn local_scores(&self, i: usize, state: &[usize], scores: &mut Vec<f64>) {
        let plan = &self.plan;
        let entry = |scope: &[usize]| scope.iter().fold(0, |at, &u| at * plan.cardinalities[u] + state[u]);
        scores.clear();
        scores.resize(plan.cardinalities[plan.order.variables[i]], 0.0);
        let mut add = |values: &[f64], scope: &[usize]| {
            let (at, stride) = (entry(&scope[1..]), values.len() / scores.len());
            scores.iter_mut().enumerate().for_each(|(s, score)| *score += values[at + s * stride]);
        };
        plan.factors[i].iter().for_each(|(f, scope)| add(&plan.tables[*f], scope));
        plan.children[i].iter().for_each(|&c| add(&self.messages[c].values, &plan.order.neighbours[c]));
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.plan.cardinalities.len()
    }

    /// The variable eliminated at position `i` and its number of states.
    pub fn variable(&self, i: usize) -> (usize, usize) {
        let v = self.plan.order.variables[i];
        (v, self.plan.cardinalities[v])
    }

    /// The others at position `i` with their numbers of states, in the order of their axes.
    pub fn others(&self, i: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.plan.order.neighbours[i].iter().map(|&u| (u, self.plan.cardinalities[u]))
    }

    /// Goes through p(x_v | others) at position `i` in tiles: `visit(start, slabs)`, one slab a state of v, for the
    /// others' states from `start` on. Zero where the others' state is impossible.
    pub fn conditional(
        &self,
        i: usize,
        clock: &Clock<'_>,
        mut visit: impl FnMut(usize, &[f64]),
    ) -> Result<()> {
        self.log_conditional(i, clock, |start, slabs| {
            numeric::exp_in_place(slabs);
            visit(start, slabs);
        })
    }

    /// The same in logarithms.
    fn log_conditional(
        &self,
        i: usize,
        clock: &Clock<'_>,
        mut visit: impl FnMut(usize, &mut [f64]),
    ) -> Result<()> {
        let Message { values, shift } = &self.messages[i];
        let (_, states) = self.variable(i);
        self.plan.bucket(i, &self.messages).visit(clock, |start, slabs| {
            let width = slabs.len() / states;
            for slab in slabs.chunks_exact_mut(width) {
                for (x, &m) in slab.iter_mut().zip(&values[start..start + width]) {
                    // Where the message is −∞ so is every entry; the conditional is of no account there.
                    *x = if m == f64::NEG_INFINITY { m } else { *x - (m + shift) };
                }
            }
            visit(start, slabs);
        })
    }

    /// Draws a state from the model.
    fn draw(&self, random: &mut Stream, state: &mut [usize], scores: &mut Vec<f64>) {
        for i in (0..state.len()).rev() {
            self.local_scores(i, state, scores);
            let shift = numeric::max(scores);
            scores.iter_mut().for_each(|x| *x -= shift);
            numeric::exp_in_place(scores);
            state[self.plan.order.variables[i]] = random.categorical(scores);
        }
    }

    /// The best state, of ties the lowest, after a maximising sweep.
    fn best(&self) -> Vec<usize> {
        let mut state = vec![0; self.plan.cardinalities.len()];
        let mut scores = Vec::new();
        for i in (0..state.len()).rev() {
            self.local_scores(i, &state, &mut scores);
            let best = numeric::max(&scores);
            state[self.plan.order.variables[i]] = scores.iter().position(|&x| x == best).unwrap_or(0);
        }
        state
    }

    /// All single-variable marginals, and the entropy.
    fn marginals(&self, clock: &Clock<'_>) -> Result<(Beliefs, f64)> {
        let plan = &self.plan;
        let n = plan.cardinalities.len();
        let mut beliefs = Beliefs::zeros(&plan.cardinalities);
        let mut entropy = CompensatedSum::default();
        // The marginal of the others at each position, put there by the parent.
        let mut above: Vec<Vec<f64>> = vec![Vec::new(); n];
        for i in (0..n).rev() {
            clock.progress("computing marginals", (n - 1 - i) as u64, n as u64);
            let v = plan.order.variables[i];
            let others = std::mem::take(&mut above[i]);
            let others = if plan.order.neighbours[i].is_empty() { vec![1.0] } else { others };
            let (states, len) = (plan.cardinalities[v], others.len());
            let mut clique = vec![0.0; states * len];
            self.log_conditional(i, clock, |start, slabs| {
                let width = slabs.len() / states;
                for (s, slab) in slabs.chunks_exact(width).enumerate() {
                    let target = &mut clique[s * len + start..][..width];
                    target.copy_from_slice(slab);
                    numeric::exp_in_place(target);
                    let mut surprise = 0.0;
                    for ((p, &log_conditional), &above) in
                        target.iter_mut().zip(slab).zip(&others[start..start + width])
                    {
                        *p *= above;
                        surprise += if *p > 0.0 { *p * log_conditional } else { 0.0 };
                    }
                    entropy.add(-surprise);
                }
            })?;
            for (p, slab) in beliefs.variable_mut(v).iter_mut().zip(clique.chunks_exact(len)) {
                *p = slab.iter().sum();
            }
            for &child in &plan.children[i] {
                above[child] = self.clique_marginal(i, &clique, child);
            }
        }
        beliefs.normalise();
        Ok((beliefs, entropy.value().max(0.0)))
    }

    /// Sums the clique marginal at position `i` down to the others of `child`, which are v and some of v's others.
    fn clique_marginal(&self, i: usize, clique: &[f64], child: usize) -> Vec<f64> {
        let plan = &self.plan;
        let v = plan.order.variables[i];
        let lengths: Vec<usize> = std::iter::once(v)
            .chain(plan.order.neighbours[i].iter().copied())
            .map(|u| plan.cardinalities[u])
            .collect();
        let target = &plan.order.neighbours[child];
        let target_strides =
            table::strides(&target.iter().map(|&u| plan.cardinalities[u]).collect::<Vec<_>>());
        let mut strides = vec![0; lengths.len()];
        strides[0] = target_strides[0];
        for (axis, &stride) in plan.axes(i, &target[1..]).into_iter().zip(&target_strides[1..]) {
            strides[axis + 1] = stride;
        }
        // The trailing axes share one list of offsets; the leading ones are walked through.
        let (mut block, mut outer) = (1, lengths.len());
        while outer > 0 && block < 256 {
            outer -= 1;
            block *= lengths[outer];
        }
        let inner = offsets(&lengths[outer..], &strides[outer..]);
        let mut marginal = vec![0.0; plan.message_len(child)];
        let mut digits = vec![0; outer];
        for chunk in clique.chunks_exact(block) {
            let base: usize = digits.iter().zip(&strides).map(|(&digit, &stride)| digit * stride).sum();
            let marginal = &mut marginal[base..];
            chunk.iter().zip(&inner).for_each(|(p, &offset)| marginal[offset as usize] += p);
            table::advance(&mut digits, &lengths[..outer]);
        }
        marginal
    }
}

/// What both the forecast and the run need to know: the reduced graph and its plan.
struct Prepared {
    reduced: Reduced,
    plan: Plan,
    forecast: Forecast,
    rounding: f64,
}

impl Elimination {
    fn prepare(graph: &FactorGraph, query: Query, run: &Run) -> Result<Prepared> {
        let reduced = Reduced::new(graph)?;
        let order = min_fill(&reduced.graph, LOG2_LIMIT)
            .map_err(|log2_entries| run.over_memory(NAME, 8.0 * log2_entries.exp2()))?;
        let plan = Plan::new(&reduced.graph, order);
        let forecast = plan.forecast(query, reduced.graph.bytes());
        run.require_memory(NAME, forecast.bytes)?;
        let operations = graph.factor_count() as f64
            + plan.cardinalities.iter().map(|&states| states as f64 + 5.0).sum::<f64>();
        let rounding = numeric::rounding_allowance(operations, graph.magnitude());
        Ok(Prepared { reduced, plan, forecast, rounding })
    }

    /// Sweeps forward and hands the tree to `finish`, which makes the value.
    fn answer<T: Send>(
        graph: &FactorGraph,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Tree, &Reduced, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        let Prepared { reduced, plan, forecast, rounding } = Self::prepare(graph, query, run)?;
        let reduce = if query == Query::Map { Reduce::Max } else { Reduce::LogSumExp };
        let (width, log2_table) = (plan.order.width, plan.order.log2_table);
        let value = run.install(|| {
            let tree = Tree::sweep(plan, reduce, query != Query::LogPartition, &clock)?;
            if tree.log_value == f64::NEG_INFINITY {
                return Err(graph.zero_error());
            }
            finish(&tree, &reduced, &clock)
        })?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("width", width)
            .note("log2_table", log2_table)
            .note("forecast_bytes", forecast.bytes);
        diagnostics.rounding = rounding;
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(value, diagnostics))
    }
}

impl Plan {
    fn forecast(&self, query: Query, model_bytes: usize) -> Forecast {
        let n = self.cardinalities.len();
        let (mut alive, mut peak, mut all, mut largest_clique, mut seconds) = (0.0, 0.0f64, 0.0, 0.0f64, 0.0);
        for i in 0..n {
            let message = self.message_len(i) as f64;
            let clique = message * self.cardinalities[self.order.variables[i]] as f64;
            alive += message;
            peak = peak.max(alive);
            all += message;
            largest_clique = largest_clique.max(clique);
            alive -= self.children[i].iter().map(|&child| self.message_len(child) as f64).sum::<f64>();
            let tables = (self.factors[i].len() + self.children[i].len()) as f64;
            seconds += clique * (SECONDS_PER_ENTRY + tables * SECONDS_PER_ADDITION) + SECONDS_PER_VARIABLE;
        }
        let entries = match query {
            Query::LogPartition => peak,
            Query::Marginals | Query::Entropy => 2.0 * all + largest_clique,
            Query::Map | Query::Sample(_) => all,
        };
        let states: f64 = self.cardinalities.iter().map(|&states| states as f64).sum();
        let (extra_bytes, factor) = match query {
            Query::LogPartition => (0.0, 1.0),
            Query::Marginals | Query::Entropy => (8.0 * states, 3.0),
            Query::Map => (8.0 * n as f64, 1.0),
            Query::Sample(count) => (16.0 * count as f64 * n as f64, 1.0),
        };
        if let Query::Sample(count) = query {
            let reads = self.tables.len() as f64 + 2.0 * n as f64 + states;
            seconds += count as f64 * reads * 1e-8;
        }
        Forecast {
            bytes: 8.0 * entries + model_bytes as f64 + extra_bytes,
            seconds: seconds * factor,
            promise: Promise::Exact,
        }
    }
}

impl Forecasts<FactorGraph> for Elimination {
    fn forecast(&self, graph: &FactorGraph, query: Query, _run: &Run) -> Forecast {
        let exact = |bytes, seconds| Forecast { bytes, seconds, promise: Promise::Exact };
        let Ok(reduced) = Reduced::new(graph) else {
            return exact(0.0, 0.0);
        };
        match min_fill(&reduced.graph, LOG2_LIMIT) {
            Ok(order) => Plan::new(&reduced.graph, order).forecast(query, reduced.graph.bytes()),
            Err(log2_entries) => exact(8.0 * log2_entries.exp2(), log2_entries.exp2() * SECONDS_PER_ENTRY),
        }
    }
}

impl LogPartition<FactorGraph> for Elimination {
    fn log_partition(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(
            graph,
            Query::LogPartition,
            run,
            |tree, reduced, _| Ok(reduced.constant + tree.log_value),
        )
    }
}

impl Marginals<FactorGraph> for Elimination {
    fn marginals(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<Beliefs>> {
        Self::answer(graph, Query::Marginals, run, |tree, reduced, clock| {
            Ok(reduced.expand_beliefs(graph, &tree.marginals(clock)?.0))
        })
    }
}

impl Entropy<FactorGraph> for Elimination {
    fn entropy(&self, graph: &FactorGraph, run: &Run) -> Result<Estimate> {
        Self::answer(graph, Query::Entropy, run, |tree, _, clock| Ok(tree.marginals(clock)?.1))
    }
}

impl Map<FactorGraph> for Elimination {
    fn map(&self, graph: &FactorGraph, run: &Run) -> Result<Answer<BestState>> {
        Self::answer(graph, Query::Map, run, |tree, reduced, _| {
            let state = reduced.expand_state(&tree.best());
            Ok(BestState { score: graph.score(&state), state })
        })
    }
}

impl Sample<FactorGraph> for Elimination {
    fn sample(&self, graph: &FactorGraph, count: usize, run: &Run) -> Result<Answer<Samples>> {
        Self::answer(graph, Query::Sample(count), run, |tree, reduced, clock| {
            let n = reduced.graph.variable_count();
            let mut states = vec![0; count * n];
            let streams = Streams::new(run.seed(), "elimination sample");
            if n > 0 {
                states.par_chunks_mut(BLOCK * n).enumerate().try_for_each(|(block, states)| {
                    clock.check()?;
                    let (mut random, mut scores) = (streams.block(block as u64), Vec::new());
                    states.chunks_exact_mut(n).for_each(|state| tree.draw(&mut random, state, &mut scores));
                    Ok(())
                })?;
            }
            Ok(reduced.expand_samples(Samples::new(count, n, states, Law::Exact)))
        })
    }
}
