//! Search for an elimination order.
//!
//! Eliminating v connects all its neighbours and needs a table with one entry per joint state of v and its
//! neighbours. Finding the best order is NP-hard. Greedy rules do well, but none is always best, so several
//! are compared: fewest new edges (**min-fill**), new edges weighted by their domains, and smallest table.
//! They are run first without randomness, then with noise in their costs; the noisy runs start from scratch
//! or from a point of the best order so far. The search ends when more of it would cost more than it can
//! save. The work is counted in steps, not seconds, so the result is reproducible.
//!
//! Variables whose neighbours are all connected to each other are eliminated first, once for all runs. Fill
//! counts are updated edge by edge, with one intersection of two neighbourhoods per new edge.
//!
//! Reference: K. Kask, A. Gelfand, L. Otten, R. Dechter, *Pushing the power of stochastic greedy ordering
//! schemes for inference in graphical models*, AAAI 2011.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::numeric::parallel::prelude::*;

use crate::model::FactorGraph;
use crate::random::{Stream, Streams};

/// An elimination order and its cost.
#[derive(Clone, Debug)]
pub struct Order {
    /// The variables in order of elimination.
    pub variables: Vec<usize>,
    /// For each variable, its neighbours at the time of its elimination, in order of their elimination.
    pub neighbours: Vec<Vec<usize>>,
    /// The largest number of neighbours of any variable when it is eliminated: the induced width.
    pub width: usize,
    /// log2 of the number of entries of the largest table.
    pub log2_table: f64,
    /// The total number of entries of all tables.
    pub entries: f64,
}

impl Order {
    /// The order of one min-fill run: fast, and often good.
    pub(crate) fn greedy(graph: &FactorGraph) -> Result<Order, f64> {
        Greedy::new(graph, Rule::Fill, &|| false)
            .finish(Rule::Fill, None, Limits::entries(f64::INFINITY), &|| false)
            .outcome
    }

    /// The min-fill order without a limit on table sizes, for analysing the structure of the graph; `None` if
    /// it takes too many steps.
    pub(crate) fn structure(graph: &FactorGraph, stop: Stop<'_>) -> Option<Order> {
        let limits = Limits { entries: f64::INFINITY, log2_table: f64::INFINITY, steps: HOPELESS_STEPS };
        Greedy::new(graph, Rule::Fill, stop).finish(Rule::Fill, None, limits, stop).outcome.ok()
    }

    /// Computes the cost of eliminating all variables in a given order.
    pub(crate) fn along(graph: &FactorGraph, variables: Vec<usize>) -> Order {
        let n = variables.len();
        let mut position = vec![0; n];
        variables.iter().enumerate().for_each(|(i, &v)| position[v] = i);
        // For each position, the positions of the variables of all tables in its bucket.
        let mut met: Vec<Vec<usize>> = vec![Vec::new(); n];
        for factor in graph.factors() {
            let scope: Vec<usize> = factor.scope.iter().map(|&v| position[v]).collect();
            if let Some(&first) = scope.iter().min() {
                met[first].extend(scope);
            }
        }
        let mut order = Order { variables, neighbours: vec![], width: 0, log2_table: 0.0, entries: 0.0 };
        let states = graph.cardinalities();
        for i in 0..n {
            let mut others = std::mem::take(&mut met[i]);
            others.sort_unstable();
            others.dedup();
            others.retain(|&j| j != i);
            if let Some(&next) = others.first() {
                met[next].extend_from_slice(&others);
            }
            let neighbours: Vec<usize> = others.iter().map(|&j| order.variables[j]).collect();
            let log2: f64 =
                neighbours.iter().chain([&order.variables[i]]).map(|&u| (states[u] as f64).log2()).sum();
            order.width = order.width.max(neighbours.len());
            order.log2_table = order.log2_table.max(log2);
            order.entries += log2.exp2();
            order.neighbours.push(neighbours);
        }
        order
    }
}

/// Tells whether the search for an order has to stop.
pub(crate) type Stop<'a> = &'a (dyn Fn() -> bool + Sync);

/// A greedy rule, which selects the next variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rule {
    /// Minimises the number of new edges.
    Fill,
    /// Minimises the number of new edges, each weighted by the product of the domain sizes at its ends.
    WeightedFill,
    /// Minimises the size of the table.
    Table,
}

/// Orders with a table of more than 2^60 entries are infeasible; a run ends when it reaches this limit.
pub(crate) const LOG2_LIMIT: f64 = 60.0;
/// Time of one step of the search (visiting one neighbour), relative to the time per table entry.
const STEPS_PER_ENTRY: f64 = 0.05;
/// Maximum number of steps: a few seconds.
const STEPS: f64 = 4e8;
/// Maximum number of steps if no order found so far has tables that would fit into memory: some tenths of a
/// second.
const HOPELESS_STEPS: f64 = 2e7;
const HOPELESS_LOG2: f64 = 44.0;
/// Work of one run per variable that is not counted as steps, in steps: copies of the neighbour lists and
/// entries of the heap. It is added only if every order so far is infeasible, so that a model which is out of
/// reach is refused quickly.
const STEPS_PER_VARIABLE: f64 = 100.0;
/// A tenth of the number of steps per second.
const STEPS_PER_SECOND: f64 = 1e7;
/// Number of runs per parallel batch. It is constant, so that the result does not depend on the number of
/// threads.
const BATCH: u64 = 8;
const BATCHES: u64 = 1000;

/// The best elimination order found by several greedy rules.
///
/// # Errors
/// If the best order found has a table of more than 2^60 entries; the error is log2 of the entries.
///
/// ```
/// use zhat::exact::elimination_order;
/// use zhat::model::generate;
/// let tree = generate::tree(50, 3, 1.0, 0)?;
/// assert_eq!(elimination_order(&tree).map(|order| order.width), Ok(1));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn elimination_order(graph: &FactorGraph) -> Result<Order, f64> {
    order_within(graph, None, &|| false)
}

/// Like [`elimination_order`], but limited to about a tenth of the given seconds, unless a single greedy run
/// takes longer. The limit is counted in steps, so that the result does not depend on the machine. If the
/// search has to stop, it returns the best order so far, or an infinite table if there is none.
pub(crate) fn order_within(graph: &FactorGraph, seconds: Option<f64>, stop: Stop<'_>) -> Result<Order, f64> {
    let most = seconds.map_or(STEPS, |seconds| STEPS.min(seconds * STEPS_PER_SECOND));
    let plain = Greedy::new(graph, Rule::Fill, stop);
    if plain.order.variables.len() == graph.variable_count() {
        return plain.finish(Rule::Fill, None, Limits::entries(f64::INFINITY), stop).outcome;
    }
    let mut best = plain.clone().finish(Rule::Fill, None, Limits::entries(f64::INFINITY), stop);
    let (mut steps, mut runs, each) = (best.steps, 1.0, best.steps.max(1.0));
    let variables = graph.variable_count();
    let affordable =
        |best: &Attempt, steps: f64, runs: f64| best.further_runs(variables, most, (steps, runs, each));
    if affordable(&best, steps, runs) < 1.0 {
        return best.outcome;
    }
    // If all domains have the same size, the weights have no effect.
    let alike = graph.cardinalities().windows(2).all(|pair| pair[0] == pair[1]);
    let weighted = (!alike).then(|| Greedy::new(graph, Rule::WeightedFill, stop));
    let streams = Streams::new(0, "elimination order");
    for batch in 0..BATCHES {
        let count = affordable(&best, steps, runs);
        if count < 1.0 || stop() {
            break;
        }
        let run = |i: u64| {
            let mut random = (batch > 0).then(|| streams.block(batch * BATCH + i));
            let (start, rule) = match (i, &weighted) {
                (0, _) => (&plain, Rule::Table),
                (1..=5, Some(weighted)) => (weighted, Rule::WeightedFill),
                _ => (&plain, Rule::Fill),
            };
            let mut greedy = start.clone();
            // Half of the runs start with a random prefix of the best order so far.
            if let (Some(random), Ok(best), true) = (&mut random, &best.outcome, i % 2 == 1) {
                greedy.follow(&best.variables[..random.below(best.variables.len())]);
            }
            greedy.finish(rule, random, Limits::entries(best.bound()), stop)
        };
        let count = count.min(BATCH as f64) as u64;
        for attempt in (0..count).into_par_iter().map(run).collect::<Vec<_>>() {
            runs += 1.0;
            steps += attempt.steps;
            if attempt.is_better_than(&best) {
                best = attempt;
            }
        }
    }
    best.outcome
}

/// The order found by one greedy run, and the number of steps.
struct Attempt {
    outcome: Result<Order, f64>,
    steps: f64,
}

impl Attempt {
    fn entries(&self) -> Option<f64> {
        self.outcome.as_ref().ok().map(|order| order.entries)
    }

    /// The number of further runs that are worth their cost, after `runs` of `steps` in total and if each
    /// takes `each` steps.
    fn further_runs(&self, variables: usize, most: f64, (steps, runs, each): (f64, f64, f64)) -> f64 {
        let copying = STEPS_PER_VARIABLE * variables as f64;
        match &self.outcome {
            Ok(order) if order.log2_table <= HOPELESS_LOG2 => {
                (most.min(order.entries * STEPS_PER_ENTRY) - steps) / each
            }
            Ok(_) => (HOPELESS_STEPS.min(most) - steps) / each,
            Err(_) => (HOPELESS_STEPS.min(most) - steps - runs * copying) / (each + copying),
        }
    }

    /// Runs that cost more than this are useless.
    fn bound(&self) -> f64 {
        self.entries().unwrap_or(f64::INFINITY)
    }

    fn is_better_than(&self, other: &Attempt) -> bool {
        match (&self.outcome, &other.outcome) {
            (Ok(new), Ok(old)) => new.entries < old.entries,
            (Ok(_), Err(_)) => true,
            (Err(new), Err(old)) => new < old && new.is_finite(),
            (Err(_), Ok(_)) => false,
        }
    }
}

/// Limits at which a greedy run gives up.
struct Limits {
    /// Total entries of all tables.
    entries: f64,
    log2_table: f64,
    steps: f64,
}

impl Limits {
    /// A limit on the total entries; no table may be infeasible.
    fn entries(entries: f64) -> Self {
        Limits { entries, log2_table: LOG2_LIMIT, steps: f64::INFINITY }
    }
}

/// The state of a greedy run.
#[derive(Clone)]
struct Greedy {
    fill: Fill,
    order: Order,
    /// The position of each variable in the order; `usize::MAX` for variables not eliminated yet.
    position: Vec<usize>,
}

impl Greedy {
    /// Repeatedly eliminates the variables whose neighbours are all connected to each other, which is optimal
    /// for them.
    fn new(graph: &FactorGraph, rule: Rule, stop: Stop<'_>) -> Self {
        let n = graph.variable_count();
        let order = Order {
            variables: Vec::with_capacity(n),
            neighbours: Vec::with_capacity(n),
            width: 0,
            log2_table: 0.0,
            entries: 0.0,
        };
        let mut greedy = Greedy { fill: Fill::new(graph, rule, stop), order, position: vec![usize::MAX; n] };
        let mut simplicial: BinaryHeap<Reverse<(usize, usize)>> = BinaryHeap::new();
        let found = |fill: &Fill, v: usize| (fill.fill[v] == 0).then_some(Reverse((fill.degree[v], v)));
        simplicial.extend((0..n).filter_map(|v| found(&greedy.fill, v)));
        while let Some(Reverse((_, v))) = simplicial.pop() {
            if stop() {
                break;
            }
            if greedy.position[v] == usize::MAX && greedy.log2_table(v) <= LOG2_LIMIT {
                let changed = greedy.eliminate(v);
                let next = changed.into_iter().filter(|&u| greedy.position[u] == usize::MAX);
                simplicial.extend(next.filter_map(|u| found(&greedy.fill, u)));
            }
        }
        greedy
    }

    /// log2 of the number of entries of the table for eliminating `v`.
    fn log2_table(&self, v: usize) -> f64 {
        let log2 = |u: usize| self.fill.log2_states[u];
        log2(v) + self.fill.neighbours(v).into_iter().map(log2).sum::<f64>()
    }

    /// Eliminates `v` and returns the variables whose cost may have changed.
    fn eliminate(&mut self, v: usize) -> Vec<usize> {
        let (log2_table, neighbours) = (self.log2_table(v), self.fill.neighbours(v));
        self.position[v] = self.order.variables.len();
        self.order.entries += log2_table.exp2();
        self.order.log2_table = self.order.log2_table.max(log2_table);
        self.order.width = self.order.width.max(neighbours.len());
        self.order.variables.push(v);
        self.order.neighbours.push(neighbours);
        self.fill.eliminate(v)
    }

    /// Eliminates these variables first.
    fn follow(&mut self, variables: &[usize]) {
        for &v in variables {
            if self.position[v] == usize::MAX {
                self.eliminate(v);
            }
        }
    }

    /// Eliminates the remaining variables within limits.
    fn finish(mut self, rule: Rule, mut random: Option<Stream>, limits: Limits, stop: Stop<'_>) -> Attempt {
        self.fill.rule = rule;
        let noise = random.as_mut().map_or(0.0, |random| random.uniform().powi(2));
        // Sort key of the heap: the noisy cost, then a random number.
        let mut rank = move |cost: u64| match &mut random {
            Some(random) => {
                ((cost as f64 * (1.0 + noise * random.uniform())) as u64, random.below(1 << 32) as u32)
            }
            None => (cost, 0),
        };
        let left = (0..self.position.len()).filter(|&v| self.position[v] == usize::MAX);
        let mut entry = |v: usize, cost: u64| Reverse((rank(cost), v, cost));
        let mut heap: BinaryHeap<_> = left.map(|v| entry(v, self.fill.cost(v))).collect();
        while let Some(Reverse((_, v, cost))) = heap.pop() {
            if self.position[v] != usize::MAX || cost != self.fill.cost(v) {
                continue;
            }
            let log2_table = self.log2_table(v);
            let (too_large, steps) = (log2_table > limits.log2_table, self.fill.steps as f64);
            let entries = self.order.entries + log2_table.exp2();
            if too_large || entries > limits.entries || steps > limits.steps || stop() {
                return Attempt { outcome: Err(if too_large { log2_table } else { f64::INFINITY }), steps };
            }
            let changed = self.eliminate(v);
            let changed = changed.into_iter().filter(|&u| self.position[u] == usize::MAX);
            heap.extend(changed.map(|u| entry(u, self.fill.cost(u))));
        }
        for neighbours in &mut self.order.neighbours {
            neighbours.sort_unstable_by_key(|&u| self.position[u]);
        }
        Attempt { outcome: Ok(self.order), steps: self.fill.steps as f64 }
    }
}

/// The graph of the variables not eliminated yet, with the weight of the edges that eliminating each would
/// add.
#[derive(Clone)]
struct Fill {
    rule: Rule,
    /// Sorted neighbour lists. Eliminated variables stay in a list until they are the larger part of it.
    adjacent: Vec<Vec<usize>>,
    eliminated: Vec<bool>,
    /// Number of neighbours that are not eliminated.
    degree: Vec<usize>,
    log2_states: Vec<f64>,
    /// Sum of the log2 numbers of states of the variable and its neighbours, in units of 2⁻²⁰ so that sums
    /// are exact.
    table: Vec<u64>,
    /// An edge a–b has weight weight(a)·weight(b).
    weight: Vec<u64>,
    /// The total weight of the neighbours of each variable.
    around: Vec<u64>,
    fill: Vec<u64>,
    /// Number of neighbours visited so far.
    steps: u64,
}

/// A variable is a hub for its neighbour if it has this many times as many neighbours.
const HUB: usize = 16;

fn units(log2: f64) -> u64 {
    (log2 * 1_048_576.0) as u64
}

impl Fill {
    fn new(graph: &FactorGraph, rule: Rule, stop: Stop<'_>) -> Self {
        let n = graph.variable_count();
        let mut adjacent: Vec<Vec<usize>> = vec![Vec::new(); n];
        for factor in graph.factors() {
            for &u in factor.scope {
                adjacent[u].extend(factor.scope.iter().copied().filter(|&v| v != u));
            }
        }
        for list in &mut adjacent {
            list.sort_unstable();
            list.dedup();
        }
        // Capped, so that sums of products cannot overflow.
        let heavy =
            |&states: &usize| if rule == Rule::WeightedFill { (states as u64).min(1 << 12) } else { 1 };
        let weight: Vec<u64> = graph.cardinalities().iter().map(heavy).collect();
        let around: Vec<u64> = adjacent.iter().map(|list| list.iter().map(|&u| weight[u]).sum()).collect();
        let log2_states: Vec<f64> =
            graph.cardinalities().iter().map(|&states| (states as f64).log2()).collect();
        let table = (0..n)
            .map(|v| units(log2_states[v]) + adjacent[v].iter().map(|&u| units(log2_states[u])).sum::<u64>())
            .collect();
        let mut marked = vec![false; n];
        let mut steps = 0;
        let fill = adjacent
            .iter()
            .map(|list| {
                // After a stop the fill counts are not used.
                if stop() {
                    return 0;
                }
                // Twice the weight of all pairs of neighbours, minus that of the connected pairs.
                list.iter().for_each(|&u| marked[u] = true);
                let (mut total, mut squares, mut joined) = (0, 0, 0);
                for &u in list {
                    total += weight[u];
                    squares += weight[u] * weight[u];
                    let own = &adjacent[u];
                    // For a hub, look up the few others in its list instead of scanning the whole list.
                    let hub = own.len() > HUB * list.len();
                    let common: u64 = if hub {
                        let joined = list.iter().filter(|&w| own.binary_search(w).is_ok());
                        joined.map(|&w| weight[w]).sum()
                    } else {
                        own.iter().filter(|&&w| marked[w]).map(|&w| weight[w]).sum()
                    };
                    joined += weight[u] * common;
                    steps += if hub { HUB * list.len() } else { own.len() } as u64;
                }
                list.iter().for_each(|&u| marked[u] = false);
                (total * total - squares - joined) / 2
            })
            .collect();
        let degree = adjacent.iter().map(Vec::len).collect();
        Fill {
            rule,
            adjacent,
            eliminated: vec![false; n],
            degree,
            log2_states,
            table,
            weight,
            around,
            fill,
            steps,
        }
    }

    /// The quantity that the rule minimises; ties are broken by degree.
    fn cost(&self, v: usize) -> u64 {
        match self.rule {
            Rule::Fill | Rule::WeightedFill => (self.fill[v] << 16) + (self.degree[v] as u64).min(0xffff),
            Rule::Table => self.table[v],
        }
    }

    /// The neighbours of `v` that are not eliminated.
    fn neighbours(&self, v: usize) -> Vec<usize> {
        self.adjacent[v].iter().copied().filter(|&u| !self.eliminated[u]).collect()
    }

    /// Connects the neighbours of `v`, removes `v`, and returns the variables whose cost changed.
    fn eliminate(&mut self, v: usize) -> Vec<usize> {
        let neighbours = self.neighbours(v);
        let mut changed = neighbours.clone();
        if self.fill[v] > 0 {
            for (i, &a) in neighbours.iter().enumerate() {
                for &b in &neighbours[i + 1..] {
                    if self.adjacent[a].binary_search(&b).is_err() {
                        self.join(a, b, &mut changed);
                    }
                }
            }
        }
        self.eliminated[v] = true;
        // The neighbours of v are now a clique. For a neighbour u, the missing edges at v were those to the
        // neighbours of u that are neither v nor neighbours of v.
        for &u in &neighbours {
            let beyond = self.around[u] + self.weight[u] - self.around[v] - self.weight[v];
            self.fill[u] -= self.weight[v] * beyond;
            self.around[u] -= self.weight[v];
            self.table[u] -= units(self.log2_states[v]);
            self.degree[u] -= 1;
            self.steps += 1;
            if self.adjacent[u].len() > 2 * self.degree[u] + 8 {
                self.steps += self.adjacent[u].len() as u64;
                let eliminated = &self.eliminated;
                self.adjacent[u].retain(|&w| !eliminated[w]);
            }
        }
        changed.sort_unstable();
        changed.dedup();
        changed
    }

    /// Adds the edge a–b. It is no longer missing for the common neighbours of a and b. Each end gets a new
    /// neighbour, which has no edge to those neighbours of that end that are not common.
    fn join(&mut self, a: usize, b: usize, changed: &mut Vec<usize>) {
        let (weight_a, weight_b) = (self.weight[a], self.weight[b]);
        let mut common = 0;
        let (mut i, mut j) = (0, 0);
        while i < self.adjacent[a].len() && j < self.adjacent[b].len() {
            let (x, y) = (self.adjacent[a][i], self.adjacent[b][j]);
            if x == y && !self.eliminated[x] {
                self.fill[x] -= weight_a * weight_b;
                changed.push(x);
                common += self.weight[x];
            }
            i += usize::from(x <= y);
            j += usize::from(y <= x);
        }
        self.steps += (i + j) as u64;
        self.fill[a] += weight_b * (self.around[a] - common);
        self.fill[b] += weight_a * (self.around[b] - common);
        for (u, w) in [(a, b), (b, a)] {
            self.around[u] += self.weight[w];
            self.table[u] += units(self.log2_states[w]);
            self.degree[u] += 1;
            if let Err(at) = self.adjacent[u].binary_search(&w) {
                self.adjacent[u].insert(at, w);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate::{self, GraphShape, Grid};

    /// Weighted fill, computed from the definition.
    fn plain_fill(fill: &Fill, v: usize) -> u64 {
        let list = fill.neighbours(v);
        let missing = |a: usize, b: usize| {
            if fill.adjacent[a].contains(&b) { 0 } else { fill.weight[a] * fill.weight[b] }
        };
        (0..list.len()).map(|i| list[i + 1..].iter().map(|&b| missing(list[i], b)).sum::<u64>()).sum()
    }

    #[test]
    fn an_infeasible_graph_of_many_variables_is_given_up_after_few_runs() {
        let infeasible = Attempt { outcome: Err(61.0), steps: 3e6 };
        let further = |variables| infeasible.further_runs(variables, STEPS, (3e6, 1.0, 3e6));
        assert!(further(90_000) < 1.0, "{}", further(90_000));
        assert!(further(400) > 5.0, "{}", further(400));
    }

    #[test]
    fn fill_stays_right_while_eliminating() {
        for seed in 0..20 {
            let mut graph = FactorGraph::new(vec![2, 3, 2, 5, 2, 2, 4, 3, 2, 2, 3, 2]).unwrap();
            let shape = generate::random(
                &GraphShape { variables: 12, factors: 14, arity: 3, ..Default::default() },
                seed,
            )
            .unwrap();
            for factor in shape.factors() {
                let size = graph.lengths(factor.scope).iter().product();
                graph.add_factor(factor.scope, &vec![0.0; size]).unwrap();
            }
            for rule in [Rule::Fill, Rule::WeightedFill] {
                let mut fill = Fill::new(&graph, rule, &|| false);
                for v in 0..12 {
                    for u in v..12 {
                        assert_eq!(fill.fill[u], plain_fill(&fill, u), "seed {seed}, {rule:?}, before {v}");
                    }
                    fill.eliminate(v);
                }
            }
        }
    }

    #[test]
    fn widths_of_known_graphs() {
        let grid = |rows, columns, torus| {
            let grid = generate::ising(Grid { rows, columns, torus }, 1.0, 1.0, false, 0).unwrap();
            elimination_order(&grid).map(|order| order.width)
        };
        assert_eq!(grid(1, 30, false), Ok(1));
        assert_eq!(grid(1, 30, true), Ok(2));
        assert_eq!(grid(5, 5, false), Ok(5));
        assert!(grid(90, 90, false).unwrap_err() > LOG2_LIMIT);
        assert_eq!(elimination_order(&FactorGraph::new(vec![]).unwrap()).unwrap().width, 0);
    }

    #[test]
    fn the_order_is_a_permutation_and_neighbours_come_later() {
        let order = elimination_order(
            &generate::random(
                &GraphShape { variables: 40, states: 3, factors: 50, arity: 3, ..Default::default() },
                1,
            )
            .unwrap(),
        )
        .unwrap();
        let mut sorted = order.variables.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..40).collect::<Vec<_>>());
        for (i, neighbours) in order.neighbours.iter().enumerate() {
            assert!(neighbours.iter().all(|u| order.variables[i + 1..].contains(u)));
        }
    }

    #[test]
    fn following_an_order_finds_the_same_neighbours() {
        for seed in 0..10 {
            let graph = generate::random(
                &GraphShape { variables: 20, factors: 25, arity: 3, ..Default::default() },
                seed,
            )
            .unwrap();
            let found = elimination_order(&graph).unwrap();
            let followed = Order::along(&graph, found.variables.clone());
            assert_eq!(followed.neighbours, found.neighbours);
            assert_eq!((followed.width, followed.log2_table), (found.width, found.log2_table));
        }
    }
}
