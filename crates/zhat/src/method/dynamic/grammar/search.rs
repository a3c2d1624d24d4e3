//! The best tree with low-rank rules, by best-first search.
//!
//! A rule has the weight Σ_r exp(headₖᵣ + leftₐᵣ + rightᵦᵣ), and the sum stands inside the maximum over trees,
//! so rank space has no best tree. It has upper bounds, because a sum of maxima is at least the maximum of the
//! sums: with Lᵣ(i, j) = max_a leftₐᵣ + bound(i, j, a) and Rᵣ in the same way,
//!
//!   bound(i, j, k) = spanᵢⱼₖ + log Σ_r exp(headₖᵣ + max_m [Lᵣ(i, m) + Rᵣ(m + 1, j)])
//!
//! is at least the score of the best tree of words i … j with symbol k. The search refines it: first the
//! division is chosen, then the left symbol, then the right one, always the choice with the largest bound, and
//! the best trees of the parts are searched in the same way. It ends when no bound exceeds the best tree found.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use super::source::Scores;
use crate::model::{Hypertree, Symbols};
use crate::numeric::{Matrix, Real, log_sum_exp, multiply};
use crate::query::tree::Constituent;
use crate::run::Clock;

/// The result of a search.
pub struct Found {
    /// The best tree, if the search ended.
    pub best: Option<Vec<Constituent>>,
    /// An upper bound on the score of every tree.
    pub bound: f64,
    /// Whether the search was given up because the run has to stop.
    pub stopped: bool,
}

/// A set of ways to divide a span, by what is chosen already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Choice {
    /// The last word of the left part.
    Division(usize),
    /// The symbol of the left part, too.
    Left(usize, usize),
    /// Both symbols.
    Both(usize, usize, usize),
    /// Both symbols, and the best tree of the left part is known.
    Half(usize, usize, usize),
}

struct Candidate {
    bound: f64,
    choice: Choice,
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
    /// Larger bounds first; of equal ones the first choice.
    fn cmp(&self, other: &Self) -> Ordering {
        self.bound.total_cmp(&other.bound).then_with(|| other.choice.cmp(&self.choice))
    }
}

/// The best tree of a span with a symbol: its score and division.
type Best = (f64, Option<(usize, usize, usize)>);

struct Search<'a, F: Real> {
    model: &'a Hypertree<F>,
    b: usize,
    symbols: Symbols,
    rank: usize,
    /// The log factors, N×R, S×R and S×R.
    heads: Vec<f64>,
    left: Vec<f64>,
    right: Vec<f64>,
    /// The bounds of all symbols of a span, and the largest of each column of sides.
    bounds: HashMap<(usize, usize), Vec<f64>>,
    sides: HashMap<(usize, usize), [Vec<f64>; 2]>,
    best: HashMap<(usize, usize, usize), Best>,
    steps: usize,
    most: usize,
    /// Candidates in the queues of all spans that are being searched.
    pending: usize,
    /// Whether the search was given up because the run has to stop.
    stopped: bool,
}

/// The largest number of candidates; a search with more is given up, as one with too many steps.
pub const PENDING: usize = 1 << 19;

/// Bounds must not be too low by rounding.
const MARGIN: f64 = 1e-12;

impl<F: Real> Search<'_, F> {
    fn row<'a>(&self, values: &'a [f64], k: usize) -> &'a [f64] {
        &values[k * self.rank..(k + 1) * self.rank]
    }

    /// max over symbols of factor + bound, for each r.
    fn side(&self, factors: &[f64], bounds: &[f64]) -> Vec<f64> {
        let mut side = vec![f64::NEG_INFINITY; self.rank];
        for (a, &bound) in bounds.iter().enumerate().filter(|(_, bound)| **bound > f64::NEG_INFINITY) {
            for (top, &x) in side.iter_mut().zip(self.row(factors, a)) {
                *top = top.max(x + bound);
            }
        }
        side
    }

    /// The bounds of all spans; incomplete if the run has to stop.
    fn bound_all(&mut self, clock: &Clock<'_>) {
        let Symbols { all, heads, .. } = self.symbols;
        let n = self.model.lengths()[self.b];
        let (tops, weights) = columns(&self.heads, self.rank);
        for width in 0..n {
            for first in 0..n - width {
                if clock.must_stop() {
                    self.stopped = true;
                    return;
                }
                let last = first + width;
                let mut bounds = vec![f64::NEG_INFINITY; all];
                if width == 0 {
                    let from = self.symbols.first_tag();
                    Scores::word(self.model, self.b, first, &mut bounds[from..]);
                } else {
                    let mut sums = vec![f64::NEG_INFINITY; self.rank];
                    for middle in first..last {
                        let (l, r) = (&self.sides[&(first, middle)][0], &self.sides[&(middle + 1, last)][1]);
                        for (sum, (l, r)) in sums.iter_mut().zip(l.iter().zip(r)) {
                            *sum = sum.max(l + r);
                        }
                    }
                    // log Σ_r exp(head + sum) as a product, plus what may be lost by underflow.
                    let shifted: Vec<f64> = sums.iter().zip(&tops).map(|(x, top)| x + top).collect();
                    let top = shifted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                    if top > f64::NEG_INFINITY {
                        let factors: Vec<f64> = shifted.iter().map(|x| (x - top).exp()).collect();
                        let mut values = vec![0.0; heads];
                        let matrix = Matrix::row_major(&weights, heads, self.rank);
                        multiply(matrix, Matrix::row_major(&factors, self.rank, 1), &mut values, false);
                        let lost = 4.0 * self.rank as f64 * f64::MIN_POSITIVE;
                        for (k, value) in values.into_iter().enumerate() {
                            let own = self.model.span(self.b, first, last, k);
                            bounds[k] = own + (value * (1.0 + MARGIN) + lost).ln() + top;
                        }
                    }
                }
                let sides = [self.side(&self.left, &bounds), self.side(&self.right, &bounds)];
                self.sides.insert((first, last), sides);
                self.bounds.insert((first, last), bounds);
            }
        }
    }

    /// log Σ_r exp(a + b + c), and a little more.
    fn sum(&self, a: &[f64], b: &[f64], c: &[f64]) -> f64 {
        let terms: Vec<f64> = (0..self.rank).map(|r| a[r] + b[r] + c[r]).collect();
        log_sum_exp(&terms)
    }

    /// The best tree of words first … last with a symbol; `None` if the search was given up.
    fn best_of(&mut self, first: usize, last: usize, symbol: usize, clock: &Clock<'_>) -> Option<f64> {
        if first == last {
            return Some(self.bounds[&(first, last)][symbol]);
        }
        if let Some(&(score, _)) = self.best.get(&(first, last, symbol)) {
            return Some(score);
        }
        let own = self.model.span(self.b, first, last, symbol);
        let head = self.row(&self.heads, symbol).to_vec();
        let mut open = BinaryHeap::new();
        for middle in first..last {
            let (l, r) = (&self.sides[&(first, middle)][0], &self.sides[&(middle + 1, last)][1]);
            let bound = own + self.sum(&head, l, r);
            open.push(Candidate { bound, choice: Choice::Division(middle) });
        }
        let mut best: Best = (f64::NEG_INFINITY, None);
        let limit = |score: f64| score + MARGIN * (1.0 + score.abs());
        let mut counted = 0;
        loop {
            // The queue has changed since it was counted.
            self.pending = self.pending + open.len() - counted;
            counted = open.len();
            if self.pending > PENDING {
                return None;
            }
            let Some(Candidate { bound, choice }) = open.pop() else { break };
            if bound == f64::NEG_INFINITY || bound <= limit(best.0) && best.1.is_some() {
                break;
            }
            self.steps += 1;
            if self.steps > self.most {
                return None;
            }
            if clock.must_stop() {
                self.stopped = true;
                return None;
            }
            match choice {
                Choice::Division(middle) => {
                    let right = &self.sides[&(middle + 1, last)][1];
                    for (a, &x) in self.bounds[&(first, middle)].iter().enumerate() {
                        if x > f64::NEG_INFINITY {
                            let bound = own + x + self.sum(&head, self.row(&self.left, a), right);
                            open.push(Candidate { bound, choice: Choice::Left(middle, a) });
                        }
                    }
                }
                Choice::Left(middle, a) => {
                    let known = own + self.bounds[&(first, middle)][a];
                    let left = self.row(&self.left, a);
                    for (c, &x) in self.bounds[&(middle + 1, last)].iter().enumerate() {
                        if x > f64::NEG_INFINITY {
                            let bound = known + x + self.sum(&head, left, self.row(&self.right, c));
                            if bound > best.0 {
                                open.push(Candidate { bound, choice: Choice::Both(middle, a, c) });
                            }
                        }
                    }
                }
                Choice::Both(middle, a, c) => {
                    let before = self.bounds[&(first, middle)][a];
                    let score = self.best_of(first, middle, a, clock)?;
                    let bound = if score > f64::NEG_INFINITY { bound - before + score } else { score };
                    open.push(Candidate { bound, choice: Choice::Half(middle, a, c) });
                }
                Choice::Half(middle, a, c) => {
                    let before = self.bounds[&(middle + 1, last)][c];
                    let score = self.best_of(middle + 1, last, c, clock)?;
                    let score = if score > f64::NEG_INFINITY { bound - before + score } else { score };
                    if score > best.0 {
                        best = (score, Some((middle, a, c)));
                    }
                }
            }
        }
        self.pending -= counted;
        self.best.insert((first, last, symbol), best);
        Some(best.0)
    }

    /// The nodes of the best tree, which is known.
    fn nodes(&self, symbol: usize) -> Vec<Constituent> {
        let last = self.model.lengths()[self.b] - 1;
        let (mut nodes, mut open) = (Vec::new(), vec![Constituent { first: 0, last, symbol }]);
        while let Some(node) = open.pop() {
            nodes.push(node);
            let known = self.best.get(&(node.first, node.last, node.symbol));
            if let Some(&(_, Some((middle, a, c)))) = known {
                open.push(Constituent { first: middle + 1, last: node.last, symbol: c });
                open.push(Constituent { first: node.first, last: middle, symbol: a });
            }
        }
        nodes
    }
}

/// The largest number of each column, and exp(x − largest).
fn columns(values: &[f64], rank: usize) -> (Vec<f64>, Vec<f64>) {
    let mut tops = vec![f64::NEG_INFINITY; rank];
    for row in values.chunks_exact(rank) {
        tops.iter_mut().zip(row).for_each(|(top, &x)| *top = top.max(x));
    }
    let weight = |(i, &x): (usize, &f64)| {
        let top = tops[i % rank];
        if top > f64::NEG_INFINITY { (x - top).exp() } else { 0.0 }
    };
    let weights = values.iter().enumerate().map(weight).collect();
    (tops, weights)
}

/// The best tree of sentence b, by at most `most` steps and until the run has to stop; the model has low-rank rules and
/// no unary rules.
pub fn search<F: Real>(model: &Hypertree<F>, b: usize, most: usize, clock: &Clock<'_>) -> Found {
    let symbols = model.symbols();
    let rank = model.rules().rank().unwrap_or(1);
    let factor = |which: usize, rows: usize| {
        let mut values = vec![0.0; rows * rank];
        for (k, row) in values.chunks_exact_mut(rank).enumerate() {
            Scores::factor(model, b, which, k, row);
        }
        values
    };
    let mut search = Search {
        model,
        b,
        symbols,
        rank,
        heads: factor(0, symbols.heads),
        left: factor(1, symbols.all),
        right: factor(2, symbols.all),
        bounds: HashMap::new(),
        sides: HashMap::new(),
        best: HashMap::new(),
        steps: 0,
        most,
        pending: 0,
        stopped: false,
    };
    search.bound_all(clock);
    if search.stopped {
        return Found { best: None, bound: f64::INFINITY, stopped: true };
    }
    let last = model.lengths()[b] - 1;
    let bounds = search.bounds[&(0, last)].clone();
    let roots = model.root(b).iter().zip(&bounds).map(|(root, bound)| root.to_f64() + bound);
    let mut order: Vec<(usize, f64)> = roots.enumerate().collect();
    order.sort_by(|x, y| y.1.total_cmp(&x.1));
    let bound = order.first().map_or(f64::NEG_INFINITY, |root| root.1);
    let mut best: Option<(usize, f64)> = None;
    for (symbol, bound) in order {
        if bound == f64::NEG_INFINITY
            || best.is_some_and(|(_, score)| bound <= score + MARGIN * (1.0 + score.abs()))
        {
            break;
        }
        let Some(score) = search.best_of(0, last, symbol, clock) else {
            return Found { best: None, bound, stopped: search.stopped };
        };
        let score = score + model.root(b)[symbol].to_f64();
        if score > best.map_or(f64::NEG_INFINITY, |best| best.1) {
            best = Some((symbol, score));
        }
    }
    let (tree, score) = match best {
        Some((symbol, score)) => (search.nodes(symbol), score),
        None => (Vec::new(), f64::NEG_INFINITY),
    };
    Found { best: Some(tree), bound: bound.min(score), stopped: false }
}
