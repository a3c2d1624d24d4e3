//! A tree read from a chart, from the root to the words: every sum chooses one of its terms.

use super::cells::{Part, Span};
use super::chart::{Chart, Core};
use super::choices::RowSymbols;
use super::dense::Dense;
use super::kept::KeptDense;
use super::listed::Listed;
use super::number::Number;
use super::rank::Rank;
use crate::model::UnaryRules;
use crate::numeric::Real;
use crate::query::tree::Constituent;
use crate::random::Stream;

/// Chooses a term of a sum by the logarithms of the terms.
pub trait Pick {
    /// The place of a term; at least one is positive.
    fn pick(&mut self, logs: &[f64]) -> usize;
}

/// The first of the largest terms.
pub struct Largest;

impl Pick for Largest {
    fn pick(&mut self, logs: &[f64]) -> usize {
        let better = |best: usize, i: usize| if logs[i] > logs[best] { i } else { best };
        (0..logs.len()).fold(0, better)
    }
}

/// A term at random, in proportion to it.
pub struct AtRandom<'a>(pub &'a mut Stream);

impl Pick for AtRandom<'_> {
    fn pick(&mut self, logs: &[f64]) -> usize {
        let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let weights: Vec<f64> = logs.iter().map(|x| (x - top).exp()).collect();
        self.0.categorical(&weights)
    }
}

/// Chooses a term by the terms themselves.
fn pick_of<G: Number>(pick: &mut dyn Pick, terms: &[G]) -> usize {
    let logs: Vec<f64> = terms.iter().map(|x| x.ln()).collect();
    pick.pick(&logs)
}

/// Rules that can choose how a span is divided.
pub trait Divides<G: Number> {
    /// The division of a span with this head: its place, and the symbols of both parts.
    fn divide(&self, chart: &Chart<G>, span: Span, head: usize, pick: &mut dyn Pick) -> (Part, usize, usize);
}

/// The terms of Σ_b W(k, a, b)·right(b), given the weights of a head and symbol a by b.
fn terms<G: Number>(weights: &[G], (right, symbols): (&[G], RowSymbols<'_>)) -> Vec<G> {
    let term = |(at, &x): (usize, &G)| weights[symbols.symbol(at)].times(x);
    right.iter().enumerate().map(term).collect()
}

/// Chooses a division by dense rules, given the weights of a head, S×S.
fn divide_densely<G: Number>(
    weights: &[G],
    chart: &Chart<G>,
    span: Span,
    pick: &mut dyn Pick,
) -> (Part, usize, usize) {
    let (divisions, _) = chart.divisions(span);
    let all = weights.len().isqrt();
    // Σ_b W(k, a, b)·right(b) for every a of the left part.
    let by_left = |division: &(Part, Part, G)| -> Vec<G> {
        let ((left, symbols), right) = (chart.row(division.0), chart.row(division.1));
        let sum = |weights: &[G]| match right {
            (values, RowSymbols::From(first)) => G::dot(&weights[first..first + values.len()], values),
            _ => terms(weights, right).into_iter().fold(G::ZERO, G::plus),
        };
        let of = |(at, &x): (usize, &G)| {
            let a = symbols.symbol(at);
            x.times(sum(&weights[a * all..(a + 1) * all])).times(division.2)
        };
        left.iter().enumerate().map(of).collect()
    };
    let sums: Vec<G> =
        divisions.iter().map(|division| by_left(division).into_iter().fold(G::ZERO, G::plus)).collect();
    let division = divisions[pick_of(pick, &sums)];
    let (left, right) = (chart.row(division.0).1, chart.row(division.1));
    let a = left.symbol(pick_of(pick, &by_left(&division)));
    let b = pick_of(pick, &terms(&weights[a * all..(a + 1) * all], right));
    (division.0, a, right.1.symbol(b))
}

impl<G: Number> Divides<G> for Dense<G> {
    fn divide(&self, chart: &Chart<G>, span: Span, head: usize, pick: &mut dyn Pick) -> (Part, usize, usize) {
        divide_densely(self.weights(head), chart, span, pick)
    }
}

impl<G: Number> Divides<G> for KeptDense<G> {
    fn divide(&self, chart: &Chart<G>, span: Span, head: usize, pick: &mut dyn Pick) -> (Part, usize, usize) {
        divide_densely(self.weights(head), chart, span, pick)
    }
}

impl<G: Number> Divides<G> for Listed<G> {
    fn divide(&self, chart: &Chart<G>, span: Span, head: usize, pick: &mut dyn Pick) -> (Part, usize, usize) {
        let (divisions, _) = chart.divisions(span);
        let rules: Vec<_> = self.of_head(head).collect();
        let term = |division: &(Part, Part, G), i: usize| {
            let (rule, weight) = rules[i];
            let value = |part: Part, symbol: usize| {
                let (row, symbols) = chart.row(part);
                symbols.place(symbol).and_then(|at| row.get(at)).copied().unwrap_or(G::ZERO)
            };
            let left = value(division.0, rule.left);
            if left.is_zero() { left } else { left.times(value(division.1, rule.right)).times(weight) }
        };
        let terms = |division: &(Part, Part, G)| -> Vec<G> {
            (0..rules.len()).map(|i| term(division, i).times(division.2)).collect()
        };
        let sums: Vec<G> =
            divisions.iter().map(|division| terms(division).into_iter().fold(G::ZERO, G::plus)).collect();
        let division = divisions[pick_of(pick, &sums)];
        let (rule, _) = rules[pick_of(pick, &terms(&division))];
        (division.0, rule.left, rule.right)
    }
}

impl<G: Number> Divides<G> for Rank<G> {
    fn divide(&self, chart: &Chart<G>, span: Span, head: usize, pick: &mut dyn Pick) -> (Part, usize, usize) {
        let (divisions, _) = chart.divisions(span);
        let rank = self.rank();
        let own = &self.factors.heads[head * rank..(head + 1) * rank];
        let terms = |division: &(Part, Part, G)| -> Vec<G> {
            let (left, right) = (self.side(0, division.0), self.side(1, division.1));
            (0..rank).map(|r| own[r].times(left[r]).times(right[r]).times(division.2)).collect()
        };
        let sums: Vec<G> =
            divisions.iter().map(|division| terms(division).into_iter().fold(G::ZERO, G::plus)).collect();
        let division = divisions[pick_of(pick, &sums)];
        let r = pick_of(pick, &terms(&division));
        let mut symbol = |part: Part, factors: &[G]| {
            let (row, symbols) = chart.row(part);
            let term = |(a, &x): (usize, &G)| x.times(factors[symbols.symbol(a) * rank + r]);
            symbols.symbol(pick_of(pick, &row.iter().enumerate().map(term).collect::<Vec<G>>()))
        };
        let a = symbol(division.0, &self.factors.left);
        (division.0, a, symbol(division.1, &self.factors.right))
    }
}

/// A tree of a sentence, its nodes each before its parts.
pub fn derive<G: Number, C: Core<G> + Divides<G>, F: Real>(
    chart: &Chart<G>,
    core: &C,
    unary: Option<&UnaryRules<F>>,
    sentence: usize,
    pick: &mut dyn Pick,
) -> Vec<Constituent> {
    let values = chart.root_values(core, sentence);
    let terms: Vec<G> = values.iter().zip(chart.root(sentence)).map(|(&x, &y)| x.times(y)).collect();
    let last = chart.cells.length(sentence) - 1;
    let root = Constituent { first: 0, last, symbol: pick_of(pick, &terms) };
    let (mut nodes, mut open) = (Vec::new(), vec![root]);
    while let Some(Constituent { first, last, symbol }) = open.pop() {
        let part = chart.cells.part(sentence, first, last);
        let mut symbol = symbol;
        nodes.push(Constituent { first, last, symbol });
        if let (Some(unary), Some(closure)) = (unary, &chart.unary) {
            for next in unary_path(chart, part, symbol, closure, unary, pick) {
                symbol = next;
                nodes.push(Constituent { first, last, symbol });
            }
        }
        if first < last {
            let span = Span { sentence, first, last };
            let (left, a, b) = core.divide(chart, span, symbol, pick);
            let mut middle = first;
            while chart.cells.part(sentence, first, middle) != left {
                middle += 1;
            }
            open.push(Constituent { first: middle + 1, last, symbol: b });
            open.push(Constituent { first, last: middle, symbol: a });
        }
    }
    nodes
}

/// The symbols that unary rules make of a node.
fn unary_path<G: Number, F: Real>(
    chart: &Chart<G>,
    part: Part,
    symbol: usize,
    closure: &super::chart::Unary<G>,
    unary: &UnaryRules<F>,
    pick: &mut dyn Pick,
) -> Vec<usize> {
    let bare = chart.bare_row(part);
    let ends: Vec<(usize, G)> = closure.from(symbol).filter(|(a, _)| *a < bare.len()).collect();
    if ends.is_empty() {
        return Vec::new();
    }
    let terms: Vec<G> = ends.iter().map(|&(a, weight)| weight.times(bare[a])).collect();
    let end = ends[pick_of(pick, &terms)].0;
    // From here to the end: stop, or one more rule and then all ways from its child.
    let (mut at, mut path) = (symbol, Vec::new());
    loop {
        let steps: Vec<(usize, f64)> = unary
            .rules()
            .iter()
            .zip(unary.scores())
            .filter(|(rule, _)| rule.head == at)
            .filter_map(|(rule, score)| {
                Some((rule.child, score.to_f64() + closure.weight(rule.child, end)?.ln()))
            })
            .collect();
        let stop = (at == end).then_some(0.0);
        let logs: Vec<f64> = stop.into_iter().chain(steps.iter().map(|step| step.1)).collect();
        let chosen = pick.pick(&logs);
        match chosen.checked_sub(usize::from(stop.is_some())) {
            None => return path,
            Some(step) => at = steps[step].0,
        }
        path.push(at);
    }
}
