//! Independent implementation of combinatorial spaces: structures, conditions, parameters and features by
//! plain loops. It reads the numbers of a model and shares no enumeration, score, distance or sum with the
//! library.

use std::collections::HashMap;

use super::oracle::log_sum_exp;
use zhat::space::{Condition, Distance, Event, Scores, SpaceModel, Structures};

/// All structures of a space, in any order.
pub fn structures(space: &Structures) -> Vec<Vec<u32>> {
    let n = space.as_space().width();
    match space {
        Structures::Hypercube(_) => subsets(n),
        Structures::Subtrees(tree) => {
            let closed = |y: &Vec<u32>| {
                (0..n).all(|v| y[v] == 0 || tree.parent(v).is_none_or(|p| y[p] == 1))
                    && (tree.has_empty() || y.contains(&1))
            };
            subsets(n).into_iter().filter(closed).collect()
        }
        Structures::Permutations(_) => permutations(&(0..n as u32).collect::<Vec<u32>>()),
        Structures::Cycles(_) => cycles(n),
        Structures::Partitions(_) => partitions(n),
        Structures::Restricted(restricted) => {
            let base = restricted.base();
            let allowed = |y: &Vec<u32>| restricted.conditions().iter().all(|c| meets(base, c, y));
            structures(base).into_iter().filter(allowed).collect()
        }
        other => panic!("no list of {}", other.as_space().name()),
    }
}

/// All vectors of n zeros and ones.
fn subsets(n: usize) -> Vec<Vec<u32>> {
    (0..1u32 << n).map(|set| (0..n).map(|i| set >> i & 1).collect()).collect()
}

/// Every order of the items; each item in turn comes first.
pub fn permutations(items: &[u32]) -> Vec<Vec<u32>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let starting = |k: usize| {
        let rest = [&items[..k], &items[k + 1..]].concat();
        permutations(&rest).into_iter().map(move |tail| [&[items[k]], tail.as_slice()].concat())
    };
    (0..items.len()).flat_map(starting).collect()
}

/// Undirected cycles of at least three of n vertices as successors: the smallest vertex of the cycle maps to
/// the smaller of its two neighbours, and vertices not on the cycle map to themselves.
fn cycles(n: usize) -> Vec<Vec<u32>> {
    let mut all = Vec::new();
    for set in subsets(n) {
        let members: Vec<u32> = (0..n as u32).filter(|v| set[*v as usize] == 1).collect();
        if members.len() < 3 {
            continue;
        }
        for rest in permutations(&members[1..]) {
            if rest[0] < rest[rest.len() - 1] {
                let mut next: Vec<u32> = (0..n as u32).collect();
                let mut at = members[0];
                for v in rest.iter().chain([&members[0]]) {
                    next[at as usize] = *v;
                    at = *v;
                }
                all.push(next);
            }
        }
    }
    all
}

/// Set partitions as restricted growth strings: each new block gets the next number.
fn partitions(n: usize) -> Vec<Vec<u32>> {
    let mut all: Vec<Vec<u32>> = vec![Vec::new()];
    for _ in 0..n {
        let grow = |y: &Vec<u32>| {
            let blocks = y.iter().max().map_or(0, |last| last + 1);
            (0..=blocks).map(|b| y.iter().copied().chain([b]).collect()).collect::<Vec<Vec<u32>>>()
        };
        all = all.iter().flat_map(grow).collect();
    }
    all
}

/// Whether a structure meets a condition. A condition given as a function was defined by the test itself.
fn meets(base: &Structures, condition: &Condition, y: &[u32]) -> bool {
    match condition {
        Condition::Is(event) => shows(base, *event, y),
        Condition::Not(event) => !shows(base, *event, y),
        Condition::Size { least, most } => {
            let size = match base {
                Structures::Cycles(_) => (0..y.len()).filter(|v| y[*v] as usize != *v).count(),
                Structures::Partitions(_) => (0..y.len() as u32).filter(|block| y.contains(block)).count(),
                _ => y.iter().map(|bit| *bit as usize).sum(),
            };
            *least <= size && size <= *most
        }
        Condition::Function(allowed) => allowed(y).unwrap(),
        other => panic!("no rule for {other:?}"),
    }
}

/// Whether an event occurs in a structure.
pub fn shows(base: &Structures, event: Event, y: &[u32]) -> bool {
    let cycles = matches!(base, Structures::Cycles(_));
    let place = |item: usize| y.iter().position(|own| *own as usize == item);
    match event {
        Event::Chosen(v) if cycles => y[v] as usize != v,
        Event::Chosen(v) => y[v] == 1,
        Event::At { item, position } => place(item) == Some(position),
        Event::Before(i, j) => place(i) < place(j),
        Event::Linked(u, v) if cycles => u != v && (y[u] as usize == v || y[v] as usize == u),
        Event::Linked(i, j) => y[i] == y[j],
        other => panic!("no rule for {other:?}"),
    }
}

/// The events of the table of marginals, row by row.
pub fn events(base: &Structures) -> Vec<Event> {
    let n = base.as_space().width();
    let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    match base {
        Structures::Permutations(_) => pairs().map(|(item, position)| Event::At { item, position }).collect(),
        Structures::Cycles(_) => {
            pairs().map(|(u, v)| if u == v { Event::Chosen(u) } else { Event::Linked(u, v) }).collect()
        }
        Structures::Partitions(_) => pairs().map(|(i, j)| Event::Linked(i, j)).collect(),
        _ => (0..n).map(Event::Chosen).collect(),
    }
}

/// The distance, by definition, between an order and the order in which item i has position `places[i]`.
pub fn distance(distance: Distance, order: &[u32], places: &[u32]) -> f64 {
    let n = order.len();
    let wanted: Vec<usize> = order.iter().map(|item| places[*item as usize] as usize).collect();
    let apart = |p: usize| (p as f64 - wanted[p] as f64).abs();
    match distance {
        Distance::Kendall => {
            let inverted = |p: usize| (p + 1..n).filter(|q| wanted[p] > wanted[*q]).count();
            (0..n).map(inverted).sum::<usize>() as f64
        }
        // Each swap brings one item to its position, which gives the minimum number of swaps.
        Distance::Cayley => {
            let (mut wanted, mut swaps) = (wanted, 0);
            for p in 0..n {
                let from = wanted.iter().position(|place| *place == p).unwrap();
                swaps += usize::from(from != p);
                wanted.swap(from, p);
            }
            swaps as f64
        }
        Distance::Hamming => (0..n).filter(|p| wanted[*p] != *p).count() as f64,
        Distance::Footrule => (0..n).map(apart).sum(),
        Distance::Spearman => (0..n).map(|p| apart(p) * apart(p)).sum(),
    }
}

/// φ(y), in the order of θ.
pub fn features(model: &SpaceModel, y: &[u32]) -> Vec<f64> {
    let (base, n) = (model.structures().base(), y.len());
    let signs = matches!(base, Structures::Hypercube(cube) if cube.has_signs());
    let value = |i: usize| if y[i] == 1 { 1.0 } else { f64::from(-i8::from(signs)) };
    let one = |holds: bool| f64::from(u8::from(holds));
    let pairs = || (0..n).flat_map(|i| (0..n).map(move |j| (i, j)));
    match model.scores() {
        Scores::Unary(_) => (0..n).map(value).collect(),
        Scores::Products { inputs, .. } => {
            (0..n).flat_map(|i| inputs.iter().map(move |x| value(i) * x)).collect()
        }
        Scores::Pairwise(own) => {
            (0..n).map(value).chain(own.edges().map(|(i, j, _)| value(i) * value(j))).collect()
        }
        Scores::Position(_) => pairs().map(|(item, p)| one(y[p] as usize == item)).collect(),
        Scores::Precedence(_) => {
            pairs().map(|(i, j)| one(i != j && shows(base, Event::Before(i, j), y))).collect()
        }
        Scores::Distance { distance: kind, places, .. } => vec![-distance(*kind, y, places)],
        Scores::Links(_) => {
            pairs().filter(|(i, j)| i < j).map(|(i, j)| one(shows(base, Event::Linked(i, j), y))).collect()
        }
        // One feature with parameter 1: the value of the test's own function.
        Scores::Custom(own) => vec![own.score(y).unwrap()],
        other => panic!("no features of {}", other.name()),
    }
}

/// θ, in the order of φ.
pub fn parameters(model: &SpaceModel) -> Vec<f64> {
    let n = model.width();
    match model.scores() {
        Scores::Unary(theta) | Scores::Position(theta) | Scores::Precedence(theta) => theta.clone(),
        Scores::Products { weights, .. } => weights.clone(),
        Scores::Pairwise(own) => own.unary().iter().copied().chain(own.edges().map(|edge| edge.2)).collect(),
        Scores::Distance { spread, .. } => vec![*spread],
        Scores::Links(matrix) => (0..n).flat_map(|i| matrix[i * n + i + 1..(i + 1) * n].to_vec()).collect(),
        Scores::Custom(_) => vec![1.0],
        other => panic!("no parameters of {}", other.name()),
    }
}

/// All structures of a model with their scores.
pub struct Listed {
    pub structures: Vec<Vec<u32>>,
    pub scores: Vec<f64>,
    /// A bound on the rounding error of log Z and of every score computed here.
    pub allowance: f64,
    features: Vec<Vec<f64>>,
    base: Structures,
}

impl Listed {
    pub fn new(model: &SpaceModel) -> Self {
        Self::of(model, structures(model.structures()))
    }

    /// The same for a list of structures given by the test.
    pub fn of(model: &SpaceModel, structures: Vec<Vec<u32>>) -> Self {
        let theta = parameters(model);
        let features: Vec<Vec<f64>> = structures.iter().map(|y| features(model, y)).collect();
        let sum = |part: fn(f64) -> f64, phi: &Vec<f64>| -> f64 {
            theta.iter().zip(phi).map(|(t, x)| part(t * x)).sum()
        };
        let scores: Vec<f64> = features.iter().map(|phi| sum(|x| x, phi)).collect();
        let count = structures.len().max(1) as f64;
        let largest = features.iter().map(|phi| sum(f64::abs, phi)).fold(0.0, f64::max) + count.ln();
        let terms = theta.len() as f64 + count.log2() + 8.0;
        let allowance = f64::EPSILON * terms * (1.0 + largest);
        Listed { structures, scores, allowance, features, base: model.structures().base().clone() }
    }

    pub fn log_partition(&self) -> f64 {
        log_sum_exp(&self.scores)
    }

    /// p(y) for every structure.
    pub fn law(&self) -> Vec<f64> {
        let log_partition = self.log_partition();
        self.scores.iter().map(|score| (score - log_partition).exp()).collect()
    }

    /// The index of each structure in the list.
    pub fn places(&self) -> HashMap<Vec<u32>, usize> {
        self.structures.iter().cloned().zip(0..).collect()
    }

    pub fn entropy(&self) -> f64 {
        let log_partition = self.log_partition();
        let term = |(p, score): (&f64, &f64)| if *p > 0.0 { p * (log_partition - score) } else { 0.0 };
        self.law().iter().zip(&self.scores).map(term).sum()
    }

    /// The scores, largest first.
    pub fn ranked(&self) -> Vec<f64> {
        let mut ranked = self.scores.clone();
        ranked.sort_unstable_by(|a, b| b.total_cmp(a));
        ranked
    }

    pub fn best(&self) -> f64 {
        self.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)
    }

    /// The table of marginals, row by row.
    pub fn marginals(&self) -> Vec<f64> {
        let law = self.law();
        let probability = |event: Event| {
            let own = self.structures.iter().zip(&law);
            own.filter(|(y, _)| shows(&self.base, event, y)).map(|(_, p)| p).sum()
        };
        events(&self.base).into_iter().map(probability).collect()
    }

    /// E[φ], the gradient of log Z.
    pub fn gradient(&self) -> Vec<f64> {
        let law = self.law();
        let dimension = self.features.first().map_or(0, Vec::len);
        (0..dimension).map(|k| self.features.iter().zip(&law).map(|(phi, p)| p * phi[k]).sum()).collect()
    }
}
