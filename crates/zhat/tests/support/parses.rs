//! Trees over words by enumeration: every division, every symbol, every unary step, from the raw scores.

use std::collections::HashMap;

use zhat::Real;
use zhat::model::{Hypertree, Rules, Spans, Symbols};
use zhat::query::Constituent;

/// The trees of a sentence with their scores: those of positive weight.
pub struct Parses {
    pub trees: Vec<Vec<Constituent>>,
    pub scores: Vec<f64>,
}

/// The score of k → a c, from the arrays.
pub fn rule_score<F: Real>(model: &Hypertree<F>, b: usize, k: usize, a: usize, c: usize) -> f64 {
    let Symbols { all, heads: n, .. } = model.symbols();
    let set = |length: usize, one: usize| if length > one { b * one } else { 0 };
    match model.rules() {
        Rules::Any => 0.0,
        Rules::Dense(values) => values[set(values.len(), n * all * all) + k * all * all + a * all + c].into(),
        Rules::Sparse { rules, scores } => {
            let at = rules.iter().position(|rule| (rule.head, rule.left, rule.right) == (k, a, c));
            at.map_or(f64::NEG_INFINITY, |at| scores[at].into())
        }
        Rules::LowRank { rank, heads, left, right } => {
            let term = |r: usize| -> f64 {
                let u: f64 = heads[set(heads.len(), n * rank) + k * rank + r].into();
                let v: f64 = left[set(left.len(), all * rank) + a * rank + r].into();
                let w: f64 = right[set(right.len(), all * rank) + c * rank + r].into();
                u + v + w
            };
            let terms: Vec<f64> = (0..*rank).map(term).collect();
            zhat::internal::numeric::log_sum_exp(&terms)
        }
    }
}

fn span_score<F: Real>(model: &Hypertree<F>, b: usize, i: usize, j: usize, k: usize) -> f64 {
    let (t, n) = (model.positions(), model.symbols().heads);
    let at = b * t * t + i * t + j;
    match model.spans() {
        Spans::None => 0.0,
        Spans::PerSpan(values) => values[at].into(),
        Spans::PerSymbol(values) => values[at * n + k].into(),
        Spans::Factored { spans, symbols } => {
            let size = symbols.len() / n;
            let term = |d: usize| -> f64 {
                let (x, y): (f64, f64) = (spans[at * size + d].into(), symbols[k * size + d].into());
                x * y
            };
            (0..size).map(term).sum()
        }
    }
}

/// The length of the longest chain of unary rules; chains are short in tests.
const STEPS: usize = 4;

/// The trees of words i … j with a symbol at the top; `steps` is the number of unary rules that may follow.
fn subtrees<F: Real>(
    model: &Hypertree<F>,
    b: usize,
    (i, j): (usize, usize),
    k: usize,
    steps: usize,
) -> Vec<(Vec<Constituent>, f64)> {
    let Symbols { all, heads, tags } = model.symbols();
    let node = Constituent { first: i, last: j, symbol: k };
    let mut found: Vec<(Vec<Constituent>, f64)> = Vec::new();
    if i == j && k + tags >= all {
        let at = (b * model.positions() + i) * tags + k + tags - all;
        found.push((vec![node], model.words()[at].to_f64()));
    }
    if i < j && k < heads {
        let own = span_score(model, b, i, j, k);
        for middle in i..j {
            for a in 0..all {
                for (left, x) in subtrees(model, b, (i, middle), a, STEPS) {
                    for c in 0..all {
                        let rule = rule_score(model, b, k, a, c);
                        if rule + x + own == f64::NEG_INFINITY {
                            continue;
                        }
                        for (right, y) in subtrees(model, b, (middle + 1, j), c, STEPS) {
                            let nodes = [vec![node], left.clone(), right].concat();
                            found.push((nodes, own + rule + x + y));
                        }
                    }
                }
            }
        }
    }
    if let Some(unary) = model.unary().filter(|_| steps > 0) {
        for (rule, score) in unary.rules().iter().zip(unary.scores()).filter(|(rule, _)| rule.head == k) {
            let score: f64 = (*score).into();
            // The parts below a rule with two children may have chains of their own.
            for (below, x) in subtrees(model, b, (i, j), rule.child, steps - 1) {
                found.push(([vec![node], below].concat(), score + x));
            }
        }
    }
    found.retain(|tree: &(Vec<Constituent>, f64)| tree.1 > f64::NEG_INFINITY);
    found
}

impl Parses {
    /// All trees; unary rules must not have a cycle.
    pub fn new<F: Real>(model: &Hypertree<F>, b: usize) -> Self {
        let n = model.lengths()[b];
        let (mut trees, mut scores) = (Vec::new(), Vec::new());
        for k in 0..model.symbols().heads {
            let roots = model.roots();
            let at = if roots.len() > model.symbols().heads { b * model.symbols().heads + k } else { k };
            let root: f64 = roots[at].into();
            if root == f64::NEG_INFINITY {
                continue;
            }
            for (nodes, score) in subtrees(model, b, (0, n - 1), k, STEPS) {
                trees.push(nodes);
                scores.push(root + score);
            }
        }
        Parses { trees, scores }
    }

    pub fn log_partition(&self) -> f64 {
        zhat::internal::numeric::log_sum_exp(&self.scores)
    }

    pub fn probabilities(&self) -> Vec<f64> {
        let log_z = self.log_partition();
        self.scores.iter().map(|score| (score - log_z).exp()).collect()
    }

    /// The expected numbers of all nodes that some tree has.
    pub fn node_counts(&self) -> HashMap<Constituent, f64> {
        let mut counts = HashMap::new();
        for (tree, p) in self.trees.iter().zip(self.probabilities()) {
            tree.iter().for_each(|node| *counts.entry(*node).or_insert(0.0) += p);
        }
        counts
    }

    /// The expected number of nodes with a symbol over words i … j.
    pub fn nodes(&self, i: usize, j: usize, k: usize) -> f64 {
        let node = Constituent { first: i, last: j, symbol: k };
        let count = |tree: &Vec<Constituent>| tree.iter().filter(|own| **own == node).count() as f64;
        self.trees.iter().zip(self.probabilities()).map(|(tree, p)| p * count(tree)).sum()
    }
}
