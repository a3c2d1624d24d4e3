//! Scores of structures, s(y) = ⟨θ, φ(y)⟩, and how they change with a move.
//!
//! | scores | spaces | s(y) | φ, in the order of θ |
//! |---|---|---|---|
//! | `Unary` | hypercube, subtrees | Σ θᵢ yᵢ | y |
//! | `Products` | hypercube, subtrees | Σᵢⱼ Θᵢⱼ yᵢ xⱼ, x given | y xᵀ |
//! | `Pairwise` | hypercube, subtrees | Σ θᵢ yᵢ + Σ w_ij yᵢ yⱼ | y, then the products |
//! | `Position` | permutations | Σ A\[item, position\] | n × n zeros and ones |
//! | `Precedence` | permutations | Σ B\[i, j\] over i before j | n × n zeros and ones |
//! | `Distance` | permutations | −θ d(y, reference) | −d |
//! | `Links` | cycles | Σ W_uv over the cycle's edges | u < v, n(n − 1)/2 zeros and ones |
//! | `Links` | partitions | Σ W_ij over pairs in one block | the same |
//! | `Custom` | all | what a program says | the same |
//!
//! All numbers are finite. A change by one move costs what the move touches, not the whole structure.

use std::fmt::Debug;
use std::sync::Arc;

use super::{Distance, Step, Structures};
use crate::error::{Error, Result};

/// Scores of one's own.
pub trait Features: Send + Sync + Debug {
    /// s(y).
    fn score(&self, structure: &[u32]) -> Result<f64>;

    /// Numbers below and above every score. A score outside is an error.
    fn range(&self) -> (f64, f64);

    /// How many features there are; 0 where only scores are known.
    fn dimension(&self) -> usize {
        0
    }

    /// Adds `weight`·φ(y).
    fn add(&self, structure: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        let _ = (structure, weight, sums);
        Ok(())
    }

    /// A number that ‖φ(y)‖ does not exceed.
    fn radius(&self) -> f64 {
        f64::INFINITY
    }
}

/// A function as scores, with the range that it keeps to.
pub struct Closure<F> {
    function: F,
    range: (f64, f64),
}

impl<F> Debug for Closure<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Closure({:?})", self.range)
    }
}

impl<F: Fn(&[u32]) -> Result<f64> + Send + Sync> Features for Closure<F> {
    fn score(&self, structure: &[u32]) -> Result<f64> {
        (self.function)(structure)
    }

    fn range(&self) -> (f64, f64) {
        self.range
    }
}

/// Single and pairwise scores.
#[derive(Clone, Debug, PartialEq)]
pub struct Pairs {
    pub(crate) unary: Vec<f64>,
    pub(crate) edges: Vec<(u32, u32)>,
    pub(crate) weights: Vec<f64>,
    starts: Vec<usize>,
    neighbours: Vec<(u32, f64)>,
}

impl Pairs {
    /// The single scores.
    pub fn unary(&self) -> &[f64] {
        &self.unary
    }

    /// The pairs and their scores.
    pub fn edges(&self) -> impl ExactSizeIterator<Item = (usize, usize, f64)> {
        self.edges.iter().zip(&self.weights).map(|(e, w)| (e.0 as usize, e.1 as usize, *w))
    }

    /// The neighbours of i and the scores of the pairs.
    pub(crate) fn neighbours(&self, i: usize) -> &[(u32, f64)] {
        &self.neighbours[self.starts[i]..self.starts[i + 1]]
    }
}

/// θ and φ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Scores {
    /// One number a label or node.
    Unary(Vec<f64>),
    /// Labels × inputs.
    Products {
        /// Θ, row-major, a row a label.
        weights: Vec<f64>,
        /// x.
        inputs: Vec<f64>,
        /// Θx.
        unary: Vec<f64>,
    },
    /// Numbers for labels and for pairs of them.
    Pairwise(Pairs),
    /// A, a row an item.
    Position(Vec<f64>),
    /// B, a row the item before.
    Precedence(Vec<f64>),
    /// The distance to a reference.
    Distance {
        /// Which.
        distance: Distance,
        /// The place of each item in the reference.
        places: Vec<u32>,
        /// θ: above 0 near the reference is likely.
        spread: f64,
    },
    /// W, symmetric, zeros on the diagonal.
    Links(Vec<f64>),
    /// Scores of one's own.
    Custom(Arc<dyn Features>),
}

impl PartialEq for Scores {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Scores::Unary(a), Scores::Unary(b))
            | (Scores::Position(a), Scores::Position(b))
            | (Scores::Precedence(a), Scores::Precedence(b))
            | (Scores::Links(a), Scores::Links(b)) => a == b,
            (
                Scores::Products { weights, inputs, .. },
                Scores::Products { weights: other_weights, inputs: other_inputs, .. },
            ) => weights == other_weights && inputs == other_inputs,
            (Scores::Pairwise(a), Scores::Pairwise(b)) => a == b,
            (
                Scores::Distance { distance, places, spread },
                Scores::Distance { distance: other_distance, places: other_places, spread: other_spread },
            ) => distance == other_distance && places == other_places && spread == other_spread,
            (Scores::Custom(a), Scores::Custom(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }
}

/// The error for numbers that are not finite.
fn finite(what: &str, numbers: &[f64]) -> Result<()> {
    match numbers.iter().position(|x| !x.is_finite()) {
        Some(at) => Err(Error::model(format!("{what} {at} is {}, expected a finite score", numbers[at]))),
        None => Ok(()),
    }
}

impl Scores {
    /// Σᵢ (Θx)ᵢ yᵢ: the products of labels and inputs.
    pub fn products(weights: Vec<f64>, inputs: Vec<f64>) -> Result<Self> {
        finite("weight", &weights)?;
        finite("input", &inputs)?;
        if inputs.is_empty() || !weights.len().is_multiple_of(inputs.len()) {
            let (found, columns) = (weights.len(), inputs.len());
            return Err(Error::model(format!("{found} weights make no rows of {columns} inputs")));
        }
        let product = |row: &[f64]| row.iter().zip(&inputs).map(|(w, x)| w * x).sum();
        let unary: Vec<f64> = weights.chunks(inputs.len()).map(product).collect();
        finite("the score of label", &unary)?;
        Ok(Scores::Products { weights, inputs, unary })
    }

    /// Single scores and scores of pairs (i, j, w); every pair once.
    pub fn pairwise(unary: Vec<f64>, pairs: &[(usize, usize, f64)]) -> Result<Self> {
        let n = unary.len();
        let mut starts = vec![0; n + 2];
        let mut edges = Vec::with_capacity(pairs.len());
        for &(i, j, _) in pairs {
            if i >= n || j >= n || i == j {
                return Err(Error::model(format!("({i}, {j}) is no pair of two different ones of {n}")));
            }
            edges.push((i.min(j) as u32, i.max(j) as u32));
            starts[i + 2] += 1;
            starts[j + 2] += 1;
        }
        let mut sorted = edges.clone();
        sorted.sort_unstable();
        if let Some(twice) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(Error::model(format!("the pair {:?} has two scores", twice[0])));
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut neighbours = vec![(0, 0.0); 2 * pairs.len()];
        for &(i, j, w) in pairs {
            for (own, other) in [(i, j), (j, i)] {
                neighbours[starts[own + 1]] = (other as u32, w);
                starts[own + 1] += 1;
            }
        }
        starts.pop();
        let weights = pairs.iter().map(|pair| pair.2).collect();
        Ok(Scores::Pairwise(Pairs { unary, edges, weights, starts, neighbours }))
    }

    /// −spread · (distance to an order of the items).
    pub fn distance(distance: Distance, reference: &[usize], spread: f64) -> Result<Self> {
        let n = reference.len();
        let mut places = vec![u32::MAX; n];
        for (place, &item) in reference.iter().enumerate() {
            match places.get_mut(item) {
                Some(free) if *free == u32::MAX => *free = place as u32,
                _ => {
                    return Err(Error::model(format!(
                        "the reference is no order of {n} items: {item} at {place}"
                    )));
                }
            }
        }
        Ok(Scores::Distance { distance, places, spread })
    }

    /// Scores of pairs (i, j, w) of n vertices or elements; pairs that are not named have the score 0.
    pub fn links(n: usize, pairs: &[(usize, usize, f64)]) -> Result<Self> {
        let mut matrix = vec![0.0; n * n];
        for &(i, j, w) in pairs {
            if i >= n || j >= n || i == j {
                return Err(Error::model(format!("({i}, {j}) is no pair of two different ones of {n}")));
            }
            matrix[i * n + j] = w;
            matrix[j * n + i] = w;
        }
        Ok(Scores::Links(matrix))
    }

    /// A function that keeps to a range. What it says outside of that is an error.
    pub fn closure(
        function: impl Fn(&[u32]) -> Result<f64> + Send + Sync + 'static,
        low: f64,
        high: f64,
    ) -> Self {
        Scores::Custom(Arc::new(Closure { function, range: (low, high) }))
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Scores::Unary(_) => "unary",
            Scores::Products { .. } => "products",
            Scores::Pairwise(_) => "pairwise",
            Scores::Position(_) => "position",
            Scores::Precedence(_) => "precedence",
            Scores::Distance { .. } => "distance",
            Scores::Links(_) => "links",
            Scores::Custom(_) => "custom",
        }
    }

    /// The single scores, where there are no others.
    pub(crate) fn unary(&self) -> Option<&[f64]> {
        match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => Some(unary),
            _ => None,
        }
    }

    /// Whether these scores are of structures like that; every number finite.
    pub(super) fn check(&self, space: &Structures) -> Result<()> {
        let n = space.as_space().width();
        let expect = |found: usize, expected: usize, what: &str| match found == expected {
            true => Ok(()),
            false => Err(Error::model(format!("there are {found} {what}, expected {expected}"))),
        };
        match (space, self) {
            (_, Scores::Custom(features)) => {
                let (low, high) = features.range();
                match low.is_finite() && high.is_finite() && low <= high {
                    true => Ok(()),
                    false => Err(Error::model(format!(
                        "the range of the scores is [{low}, {high}], expected finite ends"
                    ))),
                }
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Unary(unary)) => {
                expect(unary.len(), n, "scores")?;
                finite("score", unary)
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Products { unary, .. }) => {
                expect(unary.len(), n, "rows of weights")
            }
            (Structures::Hypercube(_) | Structures::Subtrees(_), Scores::Pairwise(pairs)) => {
                expect(pairs.unary.len(), n, "single scores")?;
                finite("single score", &pairs.unary)?;
                finite("the score of pair", &pairs.weights)
            }
            (Structures::Permutations(_), Scores::Position(matrix) | Scores::Precedence(matrix)) => {
                expect(matrix.len(), n * n, "scores")?;
                finite("score", matrix)
            }
            (Structures::Permutations(_), Scores::Distance { places, spread, .. }) => {
                expect(places.len(), n, "items in the reference")?;
                finite("spread", &[*spread])
            }
            (Structures::Cycles(_) | Structures::Partitions(_), Scores::Links(matrix)) => {
                expect(matrix.len(), n * n, "scores of pairs")?;
                if let Some(v) = (0..n).find(|v| matrix[v * n + v] != 0.0) {
                    return Err(Error::model(format!(
                        "the pair ({v}, {v}) is of two equal ones, expected the score 0"
                    )));
                }
                let broken =
                    (0..n * n).find(|k| matrix[*k] != matrix[k % n * n + k / n] && !matrix[*k].is_nan());
                if let Some(k) = broken.filter(|k| matrix[*k].is_finite()) {
                    return Err(Error::model(format!(
                        "the scores of pairs ({}, {}) differ with the order",
                        k / n,
                        k % n
                    )));
                }
                finite("score", matrix)
            }
            _ => Err(Error::model(format!("{} have no {} scores", space.as_space().name(), self.name()))),
        }
    }

    /// s(y) of a structure that is one.
    pub(super) fn score(&self, space: &Structures, y: &[u32]) -> Result<f64> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        Ok(match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => {
                unary.iter().zip(y).map(|(w, bit)| w * value(*bit)).sum()
            }
            Scores::Pairwise(pairs) => {
                let single: f64 = pairs.unary.iter().zip(y).map(|(w, bit)| w * value(*bit)).sum();
                single + pairs.edges().map(|(i, j, w)| w * value(y[i]) * value(y[j])).sum::<f64>()
            }
            Scores::Position(matrix) => {
                y.iter().enumerate().map(|(p, item)| matrix[*item as usize * n + p]).sum()
            }
            Scores::Precedence(matrix) => {
                let after = |(p, i): (usize, &u32)| -> f64 {
                    let row = &matrix[*i as usize * n..(*i as usize + 1) * n];
                    y[p + 1..].iter().map(|j| row[*j as usize]).sum()
                };
                y.iter().enumerate().map(after).sum()
            }
            Scores::Distance { distance, places, spread } => -spread * distance.to(y, places),
            Scores::Links(matrix) => match space {
                Structures::Cycles(_) => {
                    y.iter().enumerate().map(|(v, next)| matrix[v * n + *next as usize]).sum()
                }
                _ => {
                    let own = |i: usize| -> f64 {
                        (0..i).filter(|j| y[*j] == y[i]).map(|j| matrix[i * n + j]).sum()
                    };
                    (0..n).map(own).sum()
                }
            },
            Scores::Custom(features) => {
                let score = features.score(y)?;
                let (low, high) = features.range();
                if !(low..=high).contains(&score) {
                    let shown = space.as_space().show(y);
                    return Err(Error::argument(
                        "scores",
                        format!(
                            "the score of {shown} is {score}, outside the range [{low}, {high}] that was given"
                        ),
                    ));
                }
                score
            }
        })
    }

    /// By how much the score has changed with a step, where that is cheaper than the whole; y is as it is after it.
    pub(super) fn change(&self, space: &Structures, y: &[u32], step: &Step) -> Option<f64> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        let changes = step.changes.iter();
        match self {
            Scores::Unary(unary) | Scores::Products { unary, .. } => {
                Some(changes.map(|c| unary[c.index] * (value(c.new) - value(c.old))).sum())
            }
            Scores::Pairwise(pairs) => match step.changes.as_slice() {
                [] => Some(0.0),
                [c] => {
                    let field: f64 =
                        pairs.neighbours(c.index).iter().map(|(j, w)| w * value(y[*j as usize])).sum();
                    Some((pairs.unary[c.index] + field) * (value(c.new) - value(c.old)))
                }
                _ => None,
            },
            Scores::Position(matrix) => {
                let at = |item: u32, position: usize| matrix[item as usize * n + position];
                Some(changes.map(|c| at(c.new, c.index) - at(c.old, c.index)).sum())
            }
            Scores::Precedence(matrix) => swapped(y, step, |i, j| matrix[i as usize * n + j as usize]),
            Scores::Distance { distance: Distance::Kendall, places, spread } => {
                swapped(y, step, |i, j| if places[i as usize] > places[j as usize] { -spread } else { 0.0 })
            }
            Scores::Distance { distance, places, spread } => {
                let mut sum = 0.0;
                for c in changes {
                    let term = |item: u32| distance.term(c.index, places[item as usize]);
                    sum += term(c.new)? - term(c.old)?;
                }
                Some(-spread * sum)
            }
            Scores::Links(matrix) => match (space, step.changes.as_slice()) {
                (_, []) => Some(0.0),
                (Structures::Cycles(_), _) => {
                    let at = |v: usize, next: u32| matrix[v * n + next as usize];
                    Some(changes.map(|c| at(c.index, c.new) - at(c.index, c.old)).sum())
                }
                (_, [c]) => {
                    let row = &matrix[c.index * n..(c.index + 1) * n];
                    let block = |b: u32| -> f64 {
                        let own = y.iter().zip(row).enumerate();
                        own.filter(|(j, (block, _))| *j != c.index && **block == b).map(|(_, (_, w))| w).sum()
                    };
                    Some(block(c.new) - block(c.old))
                }
                _ => None,
            },
            Scores::Custom(_) => None,
        }
    }

    /// β·θ; scores of one's own stay.
    pub(super) fn scale(&mut self, beta: f64) {
        let scale = |numbers: &mut [f64]| numbers.iter_mut().for_each(|x| *x *= beta);
        match self {
            Scores::Unary(numbers)
            | Scores::Position(numbers)
            | Scores::Precedence(numbers)
            | Scores::Links(numbers) => scale(numbers),
            Scores::Products { weights, unary, .. } => {
                scale(weights);
                scale(unary);
            }
            Scores::Pairwise(pairs) => {
                scale(&mut pairs.unary);
                scale(&mut pairs.weights);
                pairs.neighbours.iter_mut().for_each(|(_, w)| *w *= beta);
            }
            Scores::Distance { spread, .. } => *spread *= beta,
            Scores::Custom(_) => {}
        }
    }

    /// How many features there are.
    pub(super) fn dimension(&self) -> usize {
        match self {
            Scores::Unary(numbers) | Scores::Position(numbers) | Scores::Precedence(numbers) => numbers.len(),
            Scores::Products { weights, .. } => weights.len(),
            Scores::Pairwise(pairs) => pairs.unary.len() + pairs.weights.len(),
            Scores::Distance { .. } => 1,
            Scores::Links(matrix) => {
                let n = matrix.len().isqrt();
                n * n.saturating_sub(1) / 2
            }
            Scores::Custom(features) => features.dimension(),
        }
    }

    /// Adds `weight`·φ(y).
    pub(super) fn add(&self, space: &Structures, y: &[u32], weight: f64, sums: &mut [f64]) -> Result<()> {
        let n = y.len();
        let value = |bit: u32| value(space, bit);
        match self {
            Scores::Unary(_) => sums.iter_mut().zip(y).for_each(|(sum, bit)| *sum += weight * value(*bit)),
            Scores::Products { inputs, .. } => {
                for (row, &bit) in sums.chunks_mut(inputs.len()).zip(y) {
                    let scaled = weight * value(bit);
                    row.iter_mut().zip(inputs).for_each(|(sum, x)| *sum += scaled * x);
                }
            }
            Scores::Pairwise(pairs) => {
                let (single, double) = sums.split_at_mut(n);
                single.iter_mut().zip(y).for_each(|(sum, bit)| *sum += weight * value(*bit));
                for (sum, (i, j, _)) in double.iter_mut().zip(pairs.edges()) {
                    *sum += weight * value(y[i]) * value(y[j]);
                }
            }
            Scores::Position(_) => {
                y.iter().enumerate().for_each(|(p, item)| sums[*item as usize * n + p] += weight);
            }
            Scores::Precedence(_) => {
                for (p, &i) in y.iter().enumerate() {
                    y[p + 1..].iter().for_each(|j| sums[i as usize * n + *j as usize] += weight);
                }
            }
            Scores::Distance { distance, places, .. } => sums[0] -= weight * distance.to(y, places),
            Scores::Links(_) => match space {
                Structures::Cycles(_) => {
                    for (v, &next) in y.iter().enumerate().filter(|(v, next)| *v != **next as usize) {
                        sums[pair_index(n, v, next as usize)] += weight;
                    }
                }
                _ => {
                    for i in 0..n {
                        for j in (i + 1..n).filter(|j| y[*j] == y[i]) {
                            sums[pair_index(n, i, j)] += weight;
                        }
                    }
                }
            },
            Scores::Custom(features) => features.add(y, weight, sums)?,
        }
        Ok(())
    }
}

/// What scores see of a bit.
fn value(space: &Structures, bit: u32) -> f64 {
    match space {
        Structures::Hypercube(cube) => cube.value(bit),
        _ => f64::from(bit),
    }
}

/// Where the pair {i, j} of n stands in the order (0, 1), (0, 2), …, (1, 2), ….
pub(crate) fn pair_index(n: usize, i: usize, j: usize) -> usize {
    let (i, j) = (i.min(j), i.max(j));
    i * (2 * n - i - 1) / 2 + j - i - 1
}

/// The change of Σ B(i, j) over i before j with a swap of two items.
fn swapped(y: &[u32], step: &Step, b: impl Fn(u32, u32) -> f64) -> Option<f64> {
    let [first, second] = step.changes.as_slice() else {
        return step.changes.is_empty().then_some(0.0);
    };
    let (first, second) = if first.index < second.index { (first, second) } else { (second, first) };
    let (x, z) = (first.old, second.old);
    if first.new != z || second.new != x {
        return None;
    }
    let middle = &y[first.index + 1..second.index];
    let passed: f64 = middle.iter().map(|&m| (b(m, x) - b(x, m)) + (b(z, m) - b(m, z))).sum();
    Some(passed + b(z, x) - b(x, z))
}
