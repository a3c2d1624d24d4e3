//! The bucket tree of a factor graph under an elimination order: a forward sweep computes log Z, a backward
//! sweep everything else.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::numeric::parallel::prelude::*;

use super::bucket::{Bucket, Domain, Reduce};
use super::projection::Projection;
use super::scaled::{PRODUCT_SPAN, Scaled};
use crate::error::Result;
use crate::method::exact::prepare::Order;
use crate::model::{FactorGraph, table};
use crate::numeric::{self, CompensatedSum, Pool};
use crate::query::{Beliefs, FactorBeliefs, Query};
use crate::random::Stream;
use crate::run::Clock;

/// Entries summed per task. It is constant, so that sums do not depend on the number of threads.
const CHUNK: usize = 1 << 14;

/// A factor graph with an elimination order.
pub(crate) struct Plan {
    pub order: Order,
    /// The position of each variable in the order.
    position: Vec<usize>,
    /// For each position, the factors whose first variable is there, with their scopes in elimination order.
    pub factors: Vec<Vec<(usize, Vec<usize>)>>,
    /// For each position, the positions that send their message to it.
    pub children: Vec<Vec<usize>>,
    pub cardinalities: Vec<usize>,
}

impl Plan {
    /// `order` must contain all variables of the graph.
    pub fn new(graph: &FactorGraph, order: Order) -> Self {
        let n = graph.variable_count();
        let mut position = vec![0; n];
        order.variables.iter().enumerate().for_each(|(i, &v)| position[v] = i);
        let mut factors = vec![Vec::new(); n];
        for (f, factor) in graph.factors().enumerate() {
            let mut scope = factor.scope.to_vec();
            scope.sort_unstable_by_key(|&v| position[v]);
            if let Some(&first) = scope.first() {
                factors[position[first]].push((f, scope));
            }
        }
        let mut children = vec![Vec::new(); n];
        for (i, neighbours) in order.neighbours.iter().enumerate() {
            if let Some(&parent) = neighbours.first() {
                children[position[parent]].push(i);
            }
        }
        Plan { order, position, factors, children, cardinalities: graph.cardinalities().to_vec() }
    }

    /// The number of joint states of the others at position `i`.
    pub fn message_len(&self, i: usize) -> usize {
        self.order.neighbours[i].iter().map(|&u| self.cardinalities[u]).product()
    }

    /// The variable eliminated at position `i` and its number of states.
    fn variable(&self, i: usize) -> (usize, usize) {
        let v = self.order.variables[i];
        (v, self.cardinalities[v])
    }

    /// The axes of the variables of `scope` in a table over `others`; both are in elimination order.
    fn axes(&self, others: &[usize], scope: &[usize]) -> Vec<usize> {
        let axis = |&u: &usize| others.binary_search_by_key(&self.position[u], |&w| self.position[w]).ok();
        scope.iter().filter_map(axis).collect()
    }

    /// The variables of the clique at position `i` in elimination order, starting with the eliminated
    /// variable.
    fn clique(&self, i: usize) -> Vec<usize> {
        [&self.order.variables[i..=i], &self.order.neighbours[i]].concat()
    }

    /// A factor's table with its axes in elimination order.
    fn permuted(&self, graph: &FactorGraph, f: usize) -> Vec<f64> {
        let factor = graph.factor(f);
        let mut axes: Vec<usize> = (0..factor.scope.len()).collect();
        axes.sort_unstable_by_key(|&axis| self.position[factor.scope[axis]]);
        table::permute(factor.log_values, &graph.lengths(factor.scope), &axes)
    }
}

/// A factor graph after the forward sweep.
pub(crate) struct Tree {
    plan: Plan,
    reduce: Reduce,
    factors: Vec<Scaled>,
    messages: Vec<Scaled>,
    /// log Z, or the best score if the sweep maximised; −∞ if every state has weight zero.
    pub log_value: f64,
}

/// Results of the backward sweep.
#[derive(Default)]
pub(crate) struct Backward {
    /// P(x_v) for every variable.
    pub beliefs: Beliefs,
    /// P(x_f) for every factor, if requested.
    pub factors: FactorBeliefs,
    /// The entropy, if requested.
    pub entropy: f64,
}

impl Tree {
    /// Performs the forward sweep. Without `keep`, messages are freed as soon as they have been used, and
    /// only `log_value` is available afterwards.
    pub fn sweep(
        graph: &FactorGraph,
        plan: Plan,
        reduce: Reduce,
        keep: bool,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let n = plan.cardinalities.len();
        let linear = reduce == Reduce::Sum;
        let factors: Vec<Scaled> =
            (0..graph.factor_count()).map(|f| Scaled::from_log(plan.permuted(graph, f), linear)).collect();
        let mut total: CompensatedSum = factors.iter().map(|factor| factor.shift).collect();
        let mut tree = Tree { plan, reduce, factors, messages: vec![Scaled::EMPTY; n], log_value: 0.0 };
        let mut pool = Pool::default();
        for i in 0..n {
            clock.progress("eliminating variables", i as u64, n as u64);
            if !keep && tree.domain(i) == Domain::Log {
                // In place, because these messages are not used again.
                for &child in &tree.plan.children[i] {
                    tree.messages[child].make_log();
                }
            }
            let mut values = pool.take(tree.plan.message_len(i));
            let bucket = tree.bucket(i).with_patterns();
            bucket.reduce(reduce, &mut values, clock)?;
            let message = match bucket.domain() {
                Domain::Linear => Scaled::from_linear(values),
                Domain::Log => Scaled::from_log(values, linear),
            };
            drop(bucket);
            total.add(message.shift);
            tree.messages[i] = message;
            if !keep {
                for child in tree.plan.children[i].clone() {
                    pool.give(std::mem::replace(&mut tree.messages[child], Scaled::EMPTY).values);
                }
            }
        }
        tree.log_value = total.value();
        Ok(tree)
    }

    /// The tables at position `i` (its factors and the messages of its children), each with its variables
    /// other than v.
    fn tables(&self, i: usize) -> impl Iterator<Item = (&Scaled, &[usize])> {
        let factors = self.plan.factors[i].iter().map(|(f, scope)| (&self.factors[*f], &scope[1..]));
        let neighbours = &self.plan.order.neighbours;
        factors.chain(self.plan.children[i].iter().map(|&c| (&self.messages[c], &neighbours[c][1..])))
    }

    /// Linear if no product of the tables at position `i` can underflow.
    fn domain(&self, i: usize) -> Domain {
        let linear =
            self.reduce == Reduce::Sum && self.tables(i).all(|(table, _)| table.domain == Domain::Linear);
        let span: f64 = self.tables(i).map(|(table, _)| table.span).sum();
        if linear && span <= PRODUCT_SPAN { Domain::Linear } else { Domain::Log }
    }

    fn bucket(&self, i: usize) -> Bucket<'_> {
        let lengths = self.plan.order.neighbours[i].iter().map(|&u| self.plan.cardinalities[u]).collect();
        let domain = self.domain(i);
        let mut bucket = Bucket::new(domain, self.plan.variable(i).1, lengths);
        for (table, scope) in self.tables(i) {
            bucket.push(table.values_in(domain), &self.plan.axes(&self.plan.order.neighbours[i], scope));
        }
        bucket
    }

    /// The number of variables.
    pub fn len(&self) -> usize {
        self.plan.cardinalities.len()
    }

    /// The variable eliminated at position `i` and its number of states.
    pub fn variable(&self, i: usize) -> (usize, usize) {
        self.plan.variable(i)
    }

    /// The others at position `i` with their numbers of states, in the order of the axes.
    pub fn others(&self, i: usize) -> impl DoubleEndedIterator<Item = (usize, usize)> {
        self.plan.order.neighbours[i].iter().map(|&u| (u, self.plan.cardinalities[u]))
    }

    /// Computes P(x_v, others) at position `i` from P(others), as one slab per state of v.
    pub fn clique(
        &self,
        i: usize,
        mut others: Vec<f64>,
        pool: &mut Pool,
        clock: &Clock<'_>,
    ) -> Result<Vec<f64>> {
        let bucket = self.bucket(i).with_patterns();
        let message = &self.messages[i];
        let mut clique = pool.take(self.plan.variable(i).1 * others.len());
        match bucket.domain() {
            Domain::Linear => {
                // The product divided by the message is the conditional. Where the message is 0, so is the
                // product.
                let scale = message.shift.exp();
                for (p, &m) in others.iter_mut().zip(&message.values) {
                    *p = if m > 0.0 { *p / (m * scale) } else { 0.0 };
                }
                bucket.fill(&mut clique, clock, |start, tile| {
                    numeric::multiply_assign(tile, &others[start..])
                })?;
            }
            Domain::Log => {
                // The message is recomputed without scaling: next to very large scores, subtracting its shift
                // would lose the last bits.
                let mut logs = pool.take(others.len());
                bucket.reduce(Reduce::Sum, &mut logs, clock)?;
                bucket.fill(&mut clique, clock, |start, tile| {
                    let tile_logs = &logs[start..start + tile.len()];
                    for (x, &m) in tile.iter_mut().zip(tile_logs) {
                        *x = if m == f64::NEG_INFINITY { m } else { *x - m };
                    }
                    numeric::exp_in_place(tile);
                    numeric::multiply_assign(tile, &others[start..]);
                })?;
            }
        }
        pool.give(others);
        Ok(clique)
    }

    /// Sweeps backward through all cliques. Computes the marginals of the variables and the quantities
    /// requested by `query`; `graph` is the graph of the forward sweep.
    pub fn backward(mut self, graph: &FactorGraph, query: Query, clock: &Clock<'_>) -> Result<Backward> {
        let n = self.len();
        let (entropy, factors) = (query == Query::Entropy, query == Query::FactorMarginals);
        let mut result = Backward { beliefs: Beliefs::zeros(&self.plan.cardinalities), ..Default::default() };
        if factors {
            result.factors = FactorBeliefs::zeros(graph);
        }
        let mut total = CompensatedSum::default();
        let mut pool = Pool::default();
        // The marginal of the others at each position, computed at the parent.
        let mut above: Vec<Vec<f64>> = vec![Vec::new(); n];
        for i in (0..n).rev() {
            clock.progress("computing marginals", (n - 1 - i) as u64, n as u64);
            let others = std::mem::take(&mut above[i]);
            let others = if self.plan.order.neighbours[i].is_empty() { vec![1.0] } else { others };
            let len = others.len();
            if entropy {
                total.add(chunked(&others, numeric::sum_x_ln_x));
            }
            let clique = self.clique(i, others, &mut pool, clock)?;
            pool.give(std::mem::replace(&mut self.messages[i], Scaled::EMPTY).values);
            if entropy {
                total.add(-chunked(&clique, numeric::sum_x_ln_x));
            }
            let belief = result.beliefs.variable_mut(self.plan.variable(i).0);
            belief
                .iter_mut()
                .zip(clique.chunks_exact(len))
                .for_each(|(p, slab)| *p = chunked(slab, numeric::sum));
            if factors {
                self.factor_marginals(graph, i, &clique, &mut pool, &mut result.factors);
            }
            // One child whose scope is the whole clique takes over the buffer; the other children get
            // marginals.
            let mut heir = None;
            for &child in &self.plan.children[i] {
                if heir.is_none() && self.plan.message_len(child) == clique.len() {
                    heir = Some(child);
                } else {
                    let len = self.plan.message_len(child);
                    above[child] = pool.take_zeros(len);
                    let scope = &self.plan.order.neighbours[child];
                    self.marginal(&self.plan.clique(i), &clique, scope, &mut above[child]);
                }
            }
            match heir {
                Some(child) => above[child] = clique,
                None => pool.give(clique),
            }
        }
        result.beliefs.normalise();
        result.factors.normalise();
        result.entropy = total.value().max(0.0);
        Ok(result)
    }

    /// P(x_f) for the factors at position `i`. The clique is first marginalised to the union of their scopes.
    fn factor_marginals(
        &self,
        graph: &FactorGraph,
        i: usize,
        clique: &[f64],
        pool: &mut Pool,
        beliefs: &mut FactorBeliefs,
    ) {
        let factors = &self.plan.factors[i];
        let mut joint: Vec<usize> = factors.iter().flat_map(|(_, scope)| scope).copied().collect();
        joint.sort_unstable_by_key(|&v| self.plan.position[v]);
        joint.dedup();
        if joint.is_empty() {
            return;
        }
        let mut sums = pool.take_zeros(joint.iter().map(|&v| self.plan.cardinalities[v]).product());
        self.marginal(&self.plan.clique(i), clique, &joint, &mut sums);
        for (f, scope) in factors {
            let target = beliefs.factor_mut(*f);
            self.marginal(&joint, &sums, scope, target);
            let own = graph.factor(*f).scope;
            if own != scope {
                let axes: Vec<usize> = own.iter().filter_map(|v| scope.iter().position(|u| u == v)).collect();
                target.copy_from_slice(&table::permute(target, &graph.lengths(scope), &axes));
            }
        }
        pool.give(sums);
    }

    /// Marginalises a table over the variables `from` to `scope` and adds the result to `marginal`. `scope`
    /// consists of the first variable of `from` and some others; both are in elimination order.
    fn marginal(&self, from: &[usize], clique: &[f64], scope: &[usize], marginal: &mut [f64]) {
        let lengths: Vec<usize> = from.iter().map(|&u| self.plan.cardinalities[u]).collect();
        Projection::new(&lengths, &self.plan.axes(&from[1..], &scope[1..])).sum(clique, marginal);
    }

    /// weights\[x_v\] ∝ the product of the tables at position `i`, given the states of the others; logarithms
    /// if the sweep maximised.
    fn local(&self, i: usize, state: &[usize], weights: &mut Vec<f64>) {
        let (_, states) = self.plan.variable(i);
        let domain = self.domain(i);
        weights.clear();
        weights.resize(states, if domain == Domain::Linear { 1.0 } else { 0.0 });
        for (table, scope) in self.tables(i) {
            let at = scope.iter().fold(0, |at, &u| at * self.plan.cardinalities[u] + state[u]);
            let stride = table.values.len() / states;
            for (s, weight) in weights.iter_mut().enumerate() {
                let value = table.values[at + s * stride];
                match (domain, table.domain) {
                    (Domain::Linear, _) => *weight *= value,
                    (Domain::Log, Domain::Log) => *weight += value,
                    (Domain::Log, Domain::Linear) => *weight += value.ln(),
                }
            }
        }
        if domain == Domain::Log && self.reduce == Reduce::Sum {
            let shift = numeric::max(weights);
            weights.iter_mut().for_each(|x| *x -= shift);
            numeric::exp_in_place(weights);
        }
    }

    /// Draws a state from the model.
    pub fn draw(&self, random: &mut Stream, state: &mut [usize], weights: &mut Vec<f64>) {
        for i in (0..state.len()).rev() {
            self.local(i, state, weights);
            state[self.plan.order.variables[i]] = random.categorical(weights);
        }
    }

    /// The best state after a maximising sweep; among ties, the lowest.
    pub fn best(&self) -> Vec<usize> {
        let mut state = vec![0; self.len()];
        self.complete(&mut state, self.len(), |_, _, _| ());
        state
    }

    /// Sets the variables at the positions below `from` to their best states given the others. For every
    /// other state of each of them it calls `deviate(position, state, loss)`, where `loss` is the decrease of
    /// the best score.
    fn complete(&self, state: &mut [usize], from: usize, mut deviate: impl FnMut(usize, usize, f64)) {
        let mut scores = Vec::new();
        for i in (0..from).rev() {
            self.local(i, state, &mut scores);
            let best = numeric::max(&scores);
            let choice = scores.iter().position(|&x| x == best).unwrap_or(0);
            for (s, &score) in scores.iter().enumerate() {
                if s != choice && score > f64::NEG_INFINITY {
                    deviate(i, s, best - score);
                }
            }
            state[self.plan.order.variables[i]] = choice;
        }
    }

    /// The k best states after a maximising sweep, best first (Lawler 1972).
    ///
    /// The messages give the exact best score of every partial state. Each state found is completed greedily.
    /// Every deviation from it starts a set of states whose best score is known; the best of these sets is
    /// processed next.
    pub fn k_best(&self, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<usize>>> {
        let mut heap = BinaryHeap::from([Deviation { loss: 0.0, from: 0, position: self.len(), state: 0 }]);
        let mut found: Vec<Vec<usize>> = Vec::new();
        while found.len() < k {
            let Some(Deviation { loss, from, position, state }) = heap.pop() else { break };
            clock.check()?;
            let mut next = found.get(from).cloned().unwrap_or_else(|| vec![0; self.len()]);
            if let Some(&v) = self.plan.order.variables.get(position) {
                next[v] = state;
            }
            let from = found.len();
            self.complete(&mut next, position, |position, state, more| {
                heap.push(Deviation { loss: loss + more, from, position, state });
            });
            found.push(next);
        }
        Ok(found)
    }
}

/// The set of states that agree with a previously found state at the positions above `position` and have
/// `state` there.
#[derive(PartialEq)]
struct Deviation {
    /// Difference between the best score of the set and the best score overall.
    loss: f64,
    /// Index of the previously found state.
    from: usize,
    position: usize,
    state: usize,
}

impl Eq for Deviation {}

impl Ord for Deviation {
    /// Deviations with a smaller loss compare as greater; ties are in order of discovery.
    fn cmp(&self, other: &Self) -> Ordering {
        let order = other.loss.total_cmp(&self.loss).then(other.from.cmp(&self.from));
        order.then(self.position.cmp(&other.position)).then(other.state.cmp(&self.state))
    }
}

impl PartialOrd for Deviation {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A sum over fixed chunks, computed in parallel, independent of the number of threads.
fn chunked(values: &[f64], sum: fn(&[f64]) -> f64) -> f64 {
    if values.len() <= CHUNK {
        return sum(values);
    }
    values.par_chunks(CHUNK).map(sum).collect::<Vec<f64>>().into_iter().sum()
}
