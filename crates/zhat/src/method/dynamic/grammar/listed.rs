//! Listed rules: only some rules have positive weight.
//!
//! X(a, b) = Σ_m inside(i, m, a)·inside(m + 1, j, b) is formed for the pairs that occur on a right-hand side,
//! and every rule adds its weight times X of its pair. T³ times the number of pairs, and T² times that of the
//! rules; symbols that are not possible over a part are skipped.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, for_rows};
use super::number::Number;
use super::source::Source;
use crate::model::{Rule, Symbols};

/// Spans whose derivatives are kept at once.
const BLOCK: usize = 16;

/// Listed rules, each head divided by its largest weight.
pub struct Listed<G> {
    symbols: Symbols,
    longest: usize,
    rules: Arc<[Rule]>,
    /// The weight of each rule, and the place of its pair.
    weights: Vec<G>,
    pair_of: Vec<usize>,
    /// Right symbols of the pairs of each left symbol: those of a are from `starts[a]` to `starts[a + 1]`.
    right: Vec<usize>,
    starts: Vec<usize>,
    shifts: Vec<f64>,
    /// ln of the smallest weight that is not 0.
    least: f64,
}

/// The derivatives of an outside pass.
pub struct Back<G> {
    spans: Vec<G>,
    words: Vec<G>,
    /// With respect to the scores of rules.
    rules: Vec<G>,
}

impl<G: Number> Listed<G> {
    pub fn new(source: &Source<'_>, rules: &Arc<[Rule]>, longest: usize) -> Self {
        let symbols = source.scores.symbols();
        let (logs, slopes) = source.with_slopes(rules.len(), |scores, out| scores.rules(out));
        let mut tops = vec![f64::NEG_INFINITY; symbols.heads];
        for (rule, &log) in rules.iter().zip(&logs) {
            tops[rule.head] = tops[rule.head].max(log);
        }
        let shifts: Vec<f64> =
            tops.iter().map(|&top| if top > f64::NEG_INFINITY { top } else { 0.0 }).collect();
        let weight = |(i, rule): (usize, &Rule)| {
            G::exp(logs[i] - shifts[rule.head], slopes.get(i).copied().unwrap_or(0.0))
        };
        let weights = rules.iter().enumerate().map(weight).collect();
        let relative = rules.iter().zip(&logs).map(|(rule, log)| log - shifts[rule.head]);
        let least = relative.filter(|log| *log > f64::NEG_INFINITY).fold(0.0, f64::min);
        let mut pairs: Vec<(usize, usize)> = rules.iter().map(|rule| (rule.left, rule.right)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let place = |rule: &Rule| pairs.binary_search(&(rule.left, rule.right)).unwrap_or(0);
        let pair_of = rules.iter().map(place).collect();
        let starts = (0..=symbols.all).map(|a| pairs.partition_point(|pair| pair.0 < a)).collect();
        let right = pairs.iter().map(|pair| pair.1).collect();
        Listed { symbols, longest, rules: rules.clone(), weights, pair_of, right, starts, shifts, least }
    }

    /// The rules of a head and their weights.
    pub fn of_head(&self, head: usize) -> impl Iterator<Item = (&Rule, G)> {
        let first = self.rules.partition_point(|rule| rule.head < head);
        let own = self.rules[first..].iter().take_while(move |rule| rule.head == head);
        own.zip(self.weights[first..].iter().copied())
    }

    /// A row as numbers for all symbols.
    fn full(&self, row: &[G], first: usize, out: &mut [G]) {
        out.fill(G::ZERO);
        out[first..first + row.len()].copy_from_slice(row);
    }

    /// X of a span.
    fn pairs(&self, chart: &Chart<G>, divisions: &[(Part, Part, G)]) -> Vec<G> {
        let mut pairs = vec![G::ZERO; self.right.len()];
        let mut full = vec![G::ZERO; self.symbols.all];
        for &(left, right, weight) in divisions {
            let ((row, first, _), (other, offset, _)) = (chart.row(left), chart.row(right));
            self.full(other, offset, &mut full);
            for (a, &x) in row.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
                let (x, range) = (x.times(weight), self.starts[first + a]..self.starts[first + a + 1]);
                for (pair, &b) in pairs[range.clone()].iter_mut().zip(&self.right[range]) {
                    *pair = pair.plus(x.times(full[b]));
                }
            }
        }
        pairs
    }
}

impl<G: Number> Core<G> for Listed<G> {
    type Back = Back<G>;

    fn size(&self) -> usize {
        self.symbols.heads
    }

    fn shifts(&self) -> &[f64] {
        &self.shifts
    }

    fn terms(&self) -> f64 {
        8.0 * (self.rules.len().max(1) * self.longest) as f64
    }

    fn least(&self) -> f64 {
        self.least
    }

    fn words_known(&mut self, _: &Chart<G>) {}

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let work = |at: usize, row: &mut [G], base: &mut f64| {
            let (divisions, top) = chart.divisions(list[at]);
            *base = top;
            let pairs = self.pairs(chart, &divisions);
            for ((rule, &weight), &pair) in self.rules.iter().zip(&self.weights).zip(&self.pair_of) {
                row[rule.head] = row[rule.head].plus(weight.times(pairs[pair]));
            }
        };
        let size = self.symbols.heads;
        if list.len() * self.rules.len() < 1 << 13 {
            for_rows(rows, size, bases, work);
        } else {
            let all = rows.par_chunks_mut(size).zip(bases.par_iter_mut()).enumerate();
            all.for_each(|(at, (row, base))| work(at, row, base));
        }
    }

    fn spans_known(&mut self, _: &Chart<G>, _: usize) {}

    fn heads(&self, row: &[G]) -> Vec<G> {
        row.to_vec()
    }

    fn back(&self, chart: &Chart<G>) -> Back<G> {
        let zeros = |length: usize| vec![G::ZERO; length];
        Back {
            spans: zeros(chart.spans.len()),
            words: zeros(chart.words.len()),
            rules: zeros(self.rules.len()),
        }
    }

    fn add_root(&self, _: &mut Back<G>, _: &[G], derivative: &[G], to: &mut [G]) {
        to.iter_mut().zip(derivative).for_each(|(to, &x)| *to = to.plus(x));
    }

    fn gather(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], rows: &mut [G]) {
        if let Some(&Span { sentence, first, last }) = list.first()
            && let Part::Span(start) = chart.cells.part(sentence, first, last)
        {
            rows.copy_from_slice(&back.spans[start * chart.size..][..rows.len()]);
        }
    }

    fn spread(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], sums: &[G]) {
        let size = self.symbols.heads;
        let work = |(&span, sums): (&Span, &[G])| {
            let (divisions, _) = chart.divisions(span);
            let pairs = self.pairs(chart, &divisions);
            let mut of_pairs = vec![G::ZERO; pairs.len()];
            let mut of_rules = Vec::new();
            for (i, (rule, &weight)) in self.rules.iter().zip(&self.weights).enumerate() {
                let x = weight.times(sums[rule.head]);
                if !x.is_zero() {
                    let pair = self.pair_of[i];
                    of_pairs[pair] = of_pairs[pair].plus(x);
                    of_rules.push((i, x.times(pairs[pair])));
                }
            }
            let mut full = [vec![G::ZERO; self.symbols.all], vec![G::ZERO; self.symbols.all]];
            let each = divisions.into_iter().map(|(left, right, weight)| {
                let ((row, first, _), (other, offset, _)) = (chart.row(left), chart.row(right));
                let [right_values, to_right] = &mut full;
                self.full(other, offset, right_values);
                to_right.fill(G::ZERO);
                let mut to_left = vec![G::ZERO; row.len()];
                for (a, &x) in row.iter().enumerate() {
                    let (mut sum, x) = (G::ZERO, x.times(weight));
                    let range = self.starts[first + a]..self.starts[first + a + 1];
                    for (&b, &own) in self.right[range.clone()].iter().zip(&of_pairs[range]) {
                        sum = sum.plus(own.times(right_values[b]));
                        to_right[b] = to_right[b].plus(own.times(x));
                    }
                    to_left[a] = sum.times(weight);
                }
                (left, to_left, right, to_right[offset..offset + other.len()].to_vec())
            });
            (each.collect::<Vec<_>>(), of_rules)
        };
        for (list, sums) in list.chunks(BLOCK).zip(sums.chunks(BLOCK * size)) {
            let found: Vec<_> = list.par_iter().zip(sums.par_chunks(size)).map(work).collect();
            for (each, of_rules) in found {
                for (left, to_left, right, to_right) in each {
                    for (part, values) in [(left, to_left), (right, to_right)] {
                        let to = match part {
                            Part::Word(at) => &mut back.words[at * chart.tags..(at + 1) * chart.tags],
                            Part::Span(at) => &mut back.spans[at * size..(at + 1) * size],
                        };
                        G::add_scaled(to, G::ONE, &values);
                    }
                }
                of_rules.into_iter().for_each(|(i, x)| back.rules[i] = back.rules[i].plus(x));
            }
        }
    }

    fn gather_words(&self, back: &mut Back<G>, _: &Chart<G>, rows: &mut [G]) {
        rows.copy_from_slice(&back.words);
    }

    fn other_derivatives(&self, _: &Back<G>, _: &Chart<G>, _: usize) -> f64 {
        0.0
    }
}

impl<G: Number> Back<G> {
    /// The derivatives with respect to the scores of rules.
    pub fn rules(&self) -> &[G] {
        &self.rules
    }
}
