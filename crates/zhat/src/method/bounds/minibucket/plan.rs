//! Partition of every bucket of an elimination order into mini-buckets.
//!
//! The tables that contain the eliminated variable are sorted by size, largest first, with ties by spread,
//! widest first. Strong factors are thus combined with each other, and the remaining ones matter little. Each
//! table joins the mini-bucket that it enlarges least if that stays within the limit, otherwise it starts a
//! new one. A mini-bucket sends one message, to the bucket of the next eliminated of its other variables, so
//! the mini-buckets form a forest. The mini-buckets of one variable are connected by links, which form a tree
//! of the pairs with the largest common scopes. Weight is shifted along the links from one mini-bucket to
//! another.
//!
//! In this module variables are identified by their position in the order, so scopes are ascending lists.

use crate::model::FactorGraph;

/// A group of mini-buckets of one variable with more entries in total than this is large.
pub(crate) const LARGE: f64 = 65_536.0;

/// Size limit of a mini-bucket. A table that exceeds it alone gets its own mini-bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Limit {
    /// Number of variables, including the eliminated one.
    pub variables: usize,
    /// log2 of the number of entries of a table over the variables.
    pub log2_entries: f64,
}

impl Limit {
    fn allows(&self, scope: &[usize], log2_states: &[f64]) -> bool {
        scope.len() <= self.variables && log2_size(scope, log2_states) <= self.log2_entries + 1e-9
    }
}

fn log2_size(scope: &[usize], log2_states: &[f64]) -> f64 {
    scope.iter().map(|&u| log2_states[u]).sum()
}

/// A mini-bucket.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The eliminated variable.
    pub variable: usize,
    /// The other variables in ascending order: the scope of its message.
    pub others: Vec<usize>,
    /// The factors assigned to it.
    pub factors: Vec<usize>,
    /// The mini-buckets whose messages it receives.
    pub children: Vec<usize>,
    /// Its links, and whether their shift is added or subtracted.
    pub links: Vec<(usize, bool)>,
}

/// Two mini-buckets of one variable and their common variables, with that variable first.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub ends: [usize; 2],
    pub scope: Vec<usize>,
}

/// The mini-buckets of one variable: consecutive nodes and consecutive links.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub nodes: std::ops::Range<usize>,
    pub links: std::ops::Range<usize>,
}

/// The size of a plan, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Sizes {
    /// Total entries of the tables of all mini-buckets.
    pub entries: f64,
    /// Entries in buckets that are split.
    pub split_entries: f64,
    /// Total entries of all messages.
    pub messages: f64,
    /// Total entries of the shifts of all links.
    pub shifts: f64,
    /// The largest total number of entries of the mini-buckets of one variable, including operands and
    /// messages; and the same over the variables that are processed in parallel.
    pub largest: f64,
    pub largest_small: f64,
    /// The largest number of variables of a mini-bucket, minus one.
    pub width: usize,
}

/// The mini-buckets of a graph.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// The variable at each position of the order, and its number of states.
    pub variables: Vec<usize>,
    pub states: Vec<usize>,
    pub nodes: Vec<Node>,
    pub links: Vec<Link>,
    /// The groups, by position.
    pub groups: Vec<Group>,
    /// Sets of groups that exchange no messages with each other, in the order of processing.
    pub levels: Vec<Vec<usize>>,
    /// The scopes of the factors.
    pub scopes: Vec<Vec<usize>>,
    pub sizes: Sizes,
    /// Groups that are processed one after the other by all threads; small groups get one thread each.
    pub large: Vec<bool>,
}

/// A table to be added to the bucket of its first variable.
struct Table {
    scope: Vec<usize>,
    source: Source,
    /// The range of its values; unknown for messages.
    spread: f64,
}

#[derive(Clone, Copy)]
enum Source {
    Factor(usize),
    Message(usize),
}

impl Plan {
    /// Partitions the buckets of `graph`, with its variables eliminated in this order.
    pub fn new(graph: &FactorGraph, variables: Vec<usize>, limit: Limit) -> Self {
        Self::unless(graph, variables, limit, |_, _| false).0
    }

    /// The same, but gives up as soon as `too_large` of the number of entries so far, and of whether some
    /// bucket is split; then the plan has only a part of the buckets, and the second result is false.
    pub fn unless(
        graph: &FactorGraph,
        variables: Vec<usize>,
        limit: Limit,
        too_large: impl Fn(f64, bool) -> bool,
    ) -> (Self, bool) {
        let n = variables.len();
        let mut place = vec![0; n];
        variables.iter().enumerate().for_each(|(i, &v)| place[v] = i);
        let states: Vec<usize> = variables.iter().map(|&v| graph.cardinalities()[v]).collect();
        let log2_states: Vec<f64> = states.iter().map(|&states| (states as f64).log2()).collect();
        let mut waiting: Vec<Vec<Table>> = Vec::new();
        waiting.resize_with(n, Vec::new);
        let mut scopes = Vec::with_capacity(graph.factor_count());
        for (f, factor) in graph.factors().enumerate() {
            let mut scope: Vec<usize> = factor.scope.iter().map(|&v| place[v]).collect();
            scope.sort_unstable();
            if let Some(&first) = scope.first() {
                waiting[first].push(Table {
                    scope: scope.clone(),
                    source: Source::Factor(f),
                    spread: spread(factor.log_values),
                });
            }
            scopes.push(scope);
        }
        let mut plan = Plan {
            variables,
            states,
            nodes: Vec::with_capacity(n),
            links: Vec::new(),
            groups: Vec::with_capacity(n),
            levels: Vec::new(),
            scopes,
            sizes: Sizes::default(),
            large: Vec::new(),
        };
        let mut level_of: Vec<usize> = vec![0; n];
        let mut entries = 0.0;
        for i in 0..n {
            if too_large(entries, plan.is_split()) {
                return (plan, false);
            }
            let tables = std::mem::take(&mut waiting[i]);
            let parts = cut(i, tables, limit, &log2_states);
            let (first_node, first_link) = (plan.nodes.len(), plan.links.len());
            for part in parts {
                let r = plan.nodes.len();
                let mut node = Node {
                    variable: i,
                    others: part.scope[1..].to_vec(),
                    factors: Vec::new(),
                    children: Vec::new(),
                    links: Vec::new(),
                };
                for source in part.sources {
                    match source {
                        Source::Factor(f) => node.factors.push(f),
                        Source::Message(child) => node.children.push(child),
                    }
                }
                if let Some(&next) = node.others.first() {
                    waiting[next].push(Table {
                        scope: node.others.clone(),
                        source: Source::Message(r),
                        spread: f64::INFINITY,
                    });
                    level_of[next] = level_of[next].max(level_of[i] + 1);
                }
                entries += log2_size(&part.scope, &log2_states).exp2();
                plan.nodes.push(node);
            }
            plan.link(first_node, &log2_states);
            plan.groups
                .push(Group { nodes: first_node..plan.nodes.len(), links: first_link..plan.links.len() });
            if plan.levels.len() <= level_of[i] {
                plan.levels.resize_with(level_of[i] + 1, Vec::new);
            }
            plan.levels[level_of[i]].push(i);
        }
        plan.measure();
        (plan, true)
    }

    /// Links the nodes from `first` on by Prim's algorithm, with the size of common scopes as the weight.
    fn link(&mut self, first: usize, log2_states: &[f64]) {
        let count = self.nodes.len() - first;
        // For each node outside of the tree, the best node inside.
        let mut outside: Vec<(usize, usize, Vec<usize>)> = (1..count)
            .map(|k| (first + k, first, common(&self.nodes[first].others, &self.nodes[first + k].others)))
            .collect();
        while !outside.is_empty() {
            let size = |scope: &[usize]| log2_size(scope, log2_states);
            let best = (0..outside.len())
                .reduce(|a, b| if size(&outside[b].2) > size(&outside[a].2) { b } else { a })
                .unwrap_or(0);
            let (r, partner, shared) = outside.remove(best);
            let l = self.links.len();
            self.nodes[partner].links.push((l, true));
            self.nodes[r].links.push((l, false));
            let scope = std::iter::once(self.nodes[r].variable).chain(shared).collect();
            self.links.push(Link { ends: [partner, r], scope });
            for (other, partner, shared) in &mut outside {
                let nearer = common(&self.nodes[r].others, &self.nodes[*other].others);
                if size(&nearer) > size(shared) {
                    (*partner, *shared) = (r, nearer);
                }
            }
        }
    }

    fn measure(&mut self) {
        let size = |scope: &[usize]| scope.iter().map(|&u| self.states[u] as f64).product::<f64>();
        let mut sizes = Sizes::default();
        let mut large = Vec::with_capacity(self.groups.len());
        for group in &self.groups {
            let mut together = 0.0;
            for r in group.nodes.clone() {
                let node = &self.nodes[r];
                let message = size(&node.others);
                let entries = self.states[node.variable] as f64 * message;
                let operands: f64 = node.factors.iter().map(|&f| size(&self.scopes[f])).sum::<f64>()
                    + node.children.iter().map(|&child| size(&self.nodes[child].others)).sum::<f64>()
                    + node.links.iter().map(|&(l, _)| size(&self.links[l].scope)).sum::<f64>();
                sizes.entries += entries;
                sizes.messages += message;
                sizes.width = sizes.width.max(node.others.len());
                if group.nodes.len() > 1 {
                    sizes.split_entries += entries;
                }
                together += entries + 2.0 * message + operands;
            }
            sizes.largest = sizes.largest.max(together);
            large.push(together > LARGE);
            if together <= LARGE {
                sizes.largest_small = sizes.largest_small.max(together);
            }
        }
        sizes.shifts = self.links.iter().map(|link| size(&link.scope)).sum();
        self.sizes = sizes;
        self.large = large;
    }

    /// True if some bucket is split, so that the bound need not be exact.
    pub fn is_split(&self) -> bool {
        !self.links.is_empty()
    }

    /// The number of joint states of the others of node `r`.
    pub fn message_len(&self, r: usize) -> usize {
        self.nodes[r].others.iter().map(|&u| self.states[u]).product()
    }

    /// The lengths of a table over the variables of node `r`, with the eliminated one first.
    pub fn lengths(&self, r: usize) -> Vec<usize> {
        let node = &self.nodes[r];
        std::iter::once(node.variable).chain(node.others.iter().copied()).map(|u| self.states[u]).collect()
    }

    /// Memory of its lists in bytes.
    pub fn bytes(&self) -> f64 {
        let lists: usize =
            self.nodes.iter().map(|node| node.others.len() + node.children.len()).sum::<usize>()
                + self.links.iter().map(|link| link.scope.len()).sum::<usize>()
                + self.scopes.iter().map(Vec::len).sum::<usize>();
        40.0 * lists as f64
            + 420.0 * self.nodes.len() as f64
            + 160.0 * self.links.len() as f64
            + 80.0 * self.scopes.len() as f64
            + 200.0 * self.variables.len() as f64
            + 4096.0
    }
}

/// The axes of the variables of `scope` in a table over `others`; both are ascending.
pub(crate) fn axes(others: &[usize], scope: &[usize]) -> Vec<usize> {
    scope.iter().filter_map(|u| others.binary_search(u).ok()).collect()
}

struct Part {
    scope: Vec<usize>,
    sources: Vec<Source>,
}

/// Partitions the tables of variable `i` into mini-buckets.
fn cut(i: usize, mut tables: Vec<Table>, limit: Limit, log2_states: &[f64]) -> Vec<Part> {
    let size = |scope: &[usize]| log2_size(scope, log2_states);
    let larger = |a: &Table, b: &Table| size(&b.scope).total_cmp(&size(&a.scope));
    tables.sort_by(|a, b| larger(a, b).then(b.spread.total_cmp(&a.spread)));
    let mut parts: Vec<Part> = Vec::new();
    for table in tables {
        let mut best: Option<(f64, usize, Vec<usize>)> = None;
        for (p, part) in parts.iter().enumerate() {
            let joined = union(&part.scope, &table.scope);
            let growth = size(&joined) - size(&part.scope);
            let fits = joined.len() == part.scope.len() || limit.allows(&joined, log2_states);
            if fits && best.as_ref().is_none_or(|(least, ..)| growth < *least) {
                best = Some((growth, p, joined));
            }
        }
        match best {
            Some((_, p, joined)) => {
                parts[p].scope = joined;
                parts[p].sources.push(table.source);
            }
            None => parts.push(Part { scope: table.scope, sources: vec![table.source] }),
        }
    }
    if parts.is_empty() {
        parts.push(Part { scope: vec![i], sources: Vec::new() });
    }
    parts
}

/// The range of the positive weights of a table, in nats.
fn spread(values: &[f64]) -> f64 {
    let finite = values.iter().filter(|x| x.is_finite());
    let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), &x| (l.min(x), h.max(x)));
    (high - low).max(0.0)
}

/// The union of two ascending lists.
fn union(a: &[usize], b: &[usize]) -> Vec<usize> {
    let mut joined = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let next = match (a.get(i), b.get(j)) {
            (Some(&x), Some(&y)) => x.min(y),
            (Some(&x), None) | (None, Some(&x)) => x,
            (None, None) => break,
        };
        i += usize::from(a.get(i) == Some(&next));
        j += usize::from(b.get(j) == Some(&next));
        joined.push(next);
    }
    joined
}

/// The intersection of two ascending lists.
fn common(a: &[usize], b: &[usize]) -> Vec<usize> {
    a.iter().copied().filter(|x| b.binary_search(x).is_ok()).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::generate::{self, Grid};

    fn plan(limit: usize) -> Plan {
        let grid = generate::ising(Grid { rows: 6, columns: 6, torus: false }, 1.0, 1.0, false, 0).unwrap();
        Plan::new(&grid, (0..36).collect(), Limit { variables: limit, log2_entries: f64::INFINITY })
    }

    #[test]
    fn a_plan_that_is_too_large_is_given_up_before_its_end() {
        let grid = generate::ising(Grid { rows: 6, columns: 6, torus: false }, 1.0, 1.0, false, 0).unwrap();
        let limit = Limit { variables: 5, log2_entries: f64::INFINITY };
        let most = |entries: f64| Plan::unless(&grid, (0..36).collect(), limit, |so_far, _| so_far > entries);
        let (whole, complete) = most(1e9);
        assert!(complete);
        assert_eq!(whole.sizes, plan(5).sizes);
        let (part, complete) = most(0.5 * whole.sizes.entries);
        assert!(!complete && part.groups.len() < 36);
        assert!(most(whole.sizes.entries).1);
    }

    #[test]
    fn mini_buckets_keep_to_the_limit_and_every_table_has_one_place() {
        for limit in 2..9 {
            let plan = plan(limit);
            assert!(plan.nodes.iter().all(|node| node.others.len() < limit));
            let mut factors: Vec<usize> = plan.nodes.iter().flat_map(|node| node.factors.clone()).collect();
            factors.sort_unstable();
            assert_eq!(factors, (0..plan.scopes.len()).collect::<Vec<_>>());
            let mut children: Vec<usize> = plan.nodes.iter().flat_map(|node| node.children.clone()).collect();
            children.sort_unstable();
            let senders = (0..plan.nodes.len()).filter(|&r| !plan.nodes[r].others.is_empty());
            assert_eq!(children, senders.collect::<Vec<_>>());
            assert_eq!(plan.is_split(), limit < 7);
        }
    }

    #[test]
    fn the_mini_buckets_of_a_variable_are_linked_into_a_tree() {
        let plan = plan(3);
        for group in &plan.groups {
            assert_eq!(group.links.len(), group.nodes.len() - 1);
            for link in &plan.links[group.links.clone()] {
                for &r in &link.ends {
                    assert!(group.nodes.contains(&r));
                    let node = &plan.nodes[r];
                    assert_eq!(link.scope[0], node.variable);
                    assert!(link.scope[1..].iter().all(|u| node.others.contains(u)));
                }
            }
        }
    }

    #[test]
    fn levels_respect_messages() {
        let plan = plan(4);
        let mut level = vec![0; 36];
        plan.levels.iter().enumerate().for_each(|(k, groups)| groups.iter().for_each(|&i| level[i] = k));
        for node in &plan.nodes {
            assert!(node.children.iter().all(|&c| level[plan.nodes[c].variable] < level[node.variable]));
        }
    }
}
