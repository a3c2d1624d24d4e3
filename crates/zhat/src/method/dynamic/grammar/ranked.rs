//! The k best trees, found lazily.
//!
//! The best trees of a span with a symbol are merged from the ways to divide it: each way offers its best trees
//! in order, and the next tree of a part is computed only when it is asked for. The next ways after a tree are
//! added when the tree after it is asked for, so the best tree of a part needs no other part. O(k·T·log k) steps
//! after the chart of best scores, and the ways to build O(k·T) parts, of which k each are kept. Reference: L. Huang, D. Chiang, *Better k-best parsing*, IWPT 2005, Algorithm 3.

use std::cmp::Ordering;
use std::collections::{BTreeSet, BinaryHeap, HashMap};

use super::pass::Pass;
use crate::error::Result;
use crate::model::{Hypertree, Rules, Symbols};
use crate::numeric::Real;
use crate::query::tree::Constituent;
use crate::run::Clock;

/// A span with a symbol, before or after unary rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Item {
    first: usize,
    last: usize,
    symbol: usize,
    bare: bool,
}

/// A way to build an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    /// A word.
    Word,
    /// The last word of the left part, and the symbols of both parts.
    Divided(usize, usize, usize),
    /// Unary rules: the place of the list of paths, whose end is this symbol.
    Unary(usize, usize),
}

/// A way with the ranks of its parts, and its score.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    score: f64,
    way: Way,
    ranks: (usize, usize),
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// Better candidates are greater; of equal ones the first in the order of ways and ranks.
    fn cmp(&self, other: &Self) -> Ordering {
        self.score.total_cmp(&other.score).then_with(|| (other.way, other.ranks).cmp(&(self.way, self.ranks)))
    }
}

/// The trees of an item found so far, and those that come next.
#[derive(Default)]
struct Found {
    best: Vec<Candidate>,
    next: BinaryHeap<Candidate>,
    /// Ways and ranks that were added after others.
    seen: BTreeSet<(Way, (usize, usize))>,
    /// How many of the best trees have been followed by the next ways.
    followed: usize,
}

/// Ways above k that are collected before the k best are chosen.
const SPARE: usize = 4096;

/// The k best candidates.
fn keep_best(ways: &mut Vec<Candidate>, k: usize) {
    if ways.len() > k {
        ways.select_nth_unstable_by(k - 1, |a, b| b.cmp(a));
        ways.truncate(k);
    }
}

/// A path of unary rules: the symbols after the first, and its score.
type Path = (Vec<usize>, f64);

struct Search<'a, F: Real> {
    model: &'a Hypertree<F>,
    b: usize,
    pass: &'a dyn Pass<F>,
    sentence: usize,
    k: usize,
    found: HashMap<Item, Found>,
    /// The best scores of every span, before and after unary rules.
    rows: HashMap<(usize, usize, bool), Vec<f64>>,
    /// The k best paths from a symbol to every symbol that it can become.
    paths: HashMap<usize, Vec<(usize, Vec<Path>)>>,
}

impl<F: Real> Search<'_, F> {
    fn row(&mut self, first: usize, last: usize, bare: bool) -> &[f64] {
        let (pass, sentence, own) = (self.pass, self.sentence, (self.model, self.b));
        self.rows.entry((first, last, bare)).or_insert_with(|| pass.scores(own, sentence, first, last, bare))
    }

    /// The ways to build an item with the best trees of its parts.
    fn ways(&mut self, item: Item) -> Vec<Candidate> {
        let Item { first, last, symbol, bare } = item;
        if !bare && self.model.unary().is_some() {
            let paths = self.paths_from(symbol);
            let row = self.row(first, last, true).to_vec();
            let way = |(i, (end, list)): (usize, &(usize, Vec<Path>))| {
                let score = list.first().map_or(f64::NEG_INFINITY, |path| path.1) + row[*end];
                Candidate { score, way: Way::Unary(i, *end), ranks: (0, 0) }
            };
            return self.paths[&paths].iter().enumerate().map(way).collect();
        }
        let Symbols { all, heads, .. } = self.model.symbols();
        if first == last {
            let score = self.row(first, last, true)[symbol];
            return vec![Candidate { score, way: Way::Word, ranks: (0, 0) }];
        }
        if symbol >= heads {
            return Vec::new();
        }
        let (model, b, k) = (self.model, self.b, self.k);
        let own = model.span(b, first, last, symbol);
        let mut ways = Vec::new();
        for middle in first..last {
            let left = self.row(first, middle, false).to_vec();
            let right = self.row(middle + 1, last, false);
            let mut add = |a: usize, c: usize, rule: f64| {
                let score = own + rule + left[a] + right[c];
                if score > f64::NEG_INFINITY {
                    ways.push(Candidate { score, way: Way::Divided(middle, a, c), ranks: (0, 0) });
                }
                if ways.len() >= k.saturating_add(SPARE) {
                    keep_best(&mut ways, k);
                }
            };
            match model.rules() {
                Rules::Sparse { rules, scores } => {
                    let start = rules.partition_point(|rule| rule.head < symbol);
                    let own = rules[start..].iter().zip(&scores[start..]);
                    for (rule, score) in own.take_while(|(rule, _)| rule.head == symbol) {
                        add(rule.left, rule.right, score.to_f64());
                    }
                }
                rules => {
                    for a in (0..all).filter(|&a| left[a] > f64::NEG_INFINITY) {
                        for c in (0..all).filter(|&c| right[c] > f64::NEG_INFINITY) {
                            add(a, c, rules.score(model.symbols(), b, symbol, a, c));
                        }
                    }
                }
            }
        }
        ways
    }

    /// The k best paths of unary rules from a symbol, by their ends; returns the symbol.
    fn paths_from(&mut self, symbol: usize) -> usize {
        let (model, k) = (self.model, self.k);
        self.paths.entry(symbol).or_insert_with(|| {
            let Some(unary) = model.unary() else { return Vec::new() };
            let best = &unary.best().entries;
            let weight = |from: usize, to: usize| {
                let at = best.binary_search_by(|entry| (entry.0, entry.1).cmp(&(from, to))).ok()?;
                Some(best[at].2)
            };
            let mut ends: Vec<usize> =
                best.iter().filter(|entry| entry.0 == symbol).map(|entry| entry.1).collect();
            if ends.is_empty() {
                ends.push(symbol);
            }
            let list = |end: usize| -> Vec<Path> {
                // Paths by their score and the best way to go on, so they come in order.
                let mut open = BinaryHeap::new();
                let bound =
                    |score: f64, at: usize| Some(score + if at == end { 0.0 } else { weight(at, end)? });
                open.extend(bound(0.0, symbol).map(|bound| Open {
                    bound,
                    score: 0.0,
                    path: vec![],
                    done: false,
                }));
                let mut found = Vec::new();
                while found.len() < k {
                    let Some(Open { score, path, done, .. }) = open.pop() else { break };
                    if done {
                        found.push((path, score));
                        continue;
                    }
                    let at = path.last().copied().unwrap_or(symbol);
                    if at == end {
                        open.push(Open { bound: score, score, path: path.clone(), done: true });
                    }
                    for (rule, own) in
                        unary.rules().iter().zip(unary.scores()).filter(|(rule, _)| rule.head == at)
                    {
                        let score = score + own.to_f64();
                        let path: Vec<usize> = path.iter().copied().chain([rule.child]).collect();
                        let next = bound(score, rule.child).filter(|bound| *bound > f64::NEG_INFINITY);
                        open.extend(next.map(|bound| Open { bound, score, path, done: false }));
                    }
                }
                found
            };
            ends.into_iter().map(|end| (end, list(end))).collect()
        });
        symbol
    }

    /// The tree of an item with a rank, if there are so many.
    fn get(&mut self, item: Item, rank: usize, clock: &Clock<'_>) -> Result<Option<Candidate>> {
        if !self.found.contains_key(&item) {
            clock.check()?;
            let mut ways = self.ways(item);
            ways.retain(|way| way.score > f64::NEG_INFINITY);
            // Only the k best ways can matter.
            keep_best(&mut ways, self.k);
            ways.shrink_to_fit();
            self.found.insert(item, Found { next: ways.into(), ..Found::default() });
        }
        loop {
            let Some(own) = self.found.get_mut(&item) else { return Ok(None) };
            if let Some(&known) = own.best.get(rank) {
                return Ok(Some(known));
            }
            if let Some(&last) = own.best.get(own.followed) {
                own.followed += 1;
                for next in self.successors(item, last, clock)? {
                    if let Some(own) = self.found.get_mut(&item)
                        && own.seen.insert((next.way, next.ranks))
                    {
                        own.next.push(next);
                    }
                }
                continue;
            }
            let Some(top) = own.next.pop() else { return Ok(None) };
            own.best.push(top);
        }
    }

    /// The same way with the next tree of one of its parts.
    fn successors(&mut self, item: Item, top: Candidate, clock: &Clock<'_>) -> Result<Vec<Candidate>> {
        let (i, j) = top.ranks;
        let mut found = Vec::new();
        for ranks in [(i + 1, j), (i, j + 1)] {
            let difference = match top.way {
                Way::Word => None,
                Way::Divided(middle, a, c) => {
                    let left = Item { last: middle, symbol: a, bare: false, ..item };
                    let right = Item { first: middle + 1, symbol: c, bare: false, ..item };
                    let (part, before, after) =
                        if ranks.0 > i { (left, i, i + 1) } else { (right, j, j + 1) };
                    self.step(part, before, after, clock)?
                }
                Way::Unary(list, end) if ranks.0 > i => {
                    let paths = self.paths.get(&item.symbol).map(|all| &all[list].1);
                    let own = paths.and_then(|paths| Some(paths.get(i + 1)?.1 - paths.get(i)?.1));
                    let _ = end;
                    own
                }
                Way::Unary(_, end) => self.step(Item { symbol: end, bare: true, ..item }, j, j + 1, clock)?,
            };
            found.extend(difference.map(|x| Candidate { score: top.score + x, way: top.way, ranks }));
        }
        Ok(found)
    }

    /// How much worse the tree with the next rank is.
    fn step(&mut self, item: Item, before: usize, after: usize, clock: &Clock<'_>) -> Result<Option<f64>> {
        let (Some(old), Some(new)) = (self.get(item, before, clock)?, self.get(item, after, clock)?) else {
            return Ok(None);
        };
        Ok(Some(new.score - old.score))
    }

    /// Adds the nodes of a tree.
    fn build(
        &mut self,
        item: Item,
        rank: usize,
        clock: &Clock<'_>,
        nodes: &mut Vec<Constituent>,
    ) -> Result<()> {
        let Some(Candidate { way, ranks, .. }) = self.get(item, rank, clock)? else { return Ok(()) };
        let Item { first, last, symbol, bare } = item;
        if !bare {
            nodes.push(Constituent { first, last, symbol });
        }
        match way {
            Way::Word => {}
            Way::Divided(middle, a, c) => {
                self.build(Item { first, last: middle, symbol: a, bare: false }, ranks.0, clock, nodes)?;
                let right = Item { first: middle + 1, last, symbol: c, bare: false };
                self.build(right, ranks.1, clock, nodes)?;
            }
            Way::Unary(list, end) => {
                let path =
                    self.paths.get(&symbol).map(|all| all[list].1[ranks.0].0.clone()).unwrap_or_default();
                nodes.extend(path.into_iter().map(|symbol| Constituent { first, last, symbol }));
                self.build(Item { first, last, symbol: end, bare: true }, ranks.1, clock, nodes)?;
            }
        }
        Ok(())
    }
}

/// A path of unary rules that may go on.
struct Open {
    bound: f64,
    score: f64,
    path: Vec<usize>,
    done: bool,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Open {}
impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Open {
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound
            .total_cmp(&other.bound)
            .then_with(|| (&other.path, other.done).cmp(&(&self.path, self.done)))
    }
}

/// The k best trees of sentence b, whose chart of best scores is known.
pub fn k_best<F: Real>(
    model: &Hypertree<F>,
    b: usize,
    pass: &dyn Pass<F>,
    sentence: usize,
    k: usize,
    clock: &Clock<'_>,
) -> Result<Vec<Vec<Constituent>>> {
    if k == 0 {
        return Ok(Vec::new());
    }
    let mut search = Search {
        model,
        b,
        pass,
        sentence,
        k,
        found: HashMap::new(),
        rows: HashMap::new(),
        paths: HashMap::new(),
    };
    let last = model.lengths()[b] - 1;
    let item = |symbol: usize| Item { first: 0, last, symbol, bare: false };
    // The next tree of each root.
    let mut next = BinaryHeap::new();
    let row = search.row(0, last, false).to_vec();
    for (symbol, (root, best)) in model.root(b).iter().zip(&row).enumerate() {
        let score = root.to_f64() + best;
        if score > f64::NEG_INFINITY {
            next.push(Candidate { score, way: Way::Unary(0, symbol), ranks: (0, 0) });
        }
    }
    let mut trees = Vec::new();
    while let (true, Some(Candidate { score, way: Way::Unary(_, symbol), ranks: (rank, _) })) =
        (trees.len() < k, next.pop())
    {
        clock.check()?;
        if search.get(item(symbol), rank, clock)?.is_none() {
            continue;
        }
        let mut nodes = Vec::new();
        search.build(item(symbol), rank, clock, &mut nodes)?;
        trees.push(nodes);
        if trees.len() < k
            && let Some(step) = search.step(item(symbol), rank, rank + 1, clock)?
        {
            next.push(Candidate { score: score + step, way: Way::Unary(0, symbol), ranks: (rank + 1, 0) });
        }
    }
    Ok(trees)
}
