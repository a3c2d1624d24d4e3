//! Listed rules: only some rules have positive weight.
//!
//! X(a, b) = Σ_m inside(i, m, a)·inside(m + 1, j, b) is formed for the pairs that occur on a right-hand side,
//! and every rule adds its weight times X of its pair. T³ times the number of pairs, and T² times that of the
//! rules; symbols that are not possible over a part are skipped. If only chosen symbols are needed, pairs are formed
//! for chosen left symbols, and rules of other heads are left out.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core};
use super::choices::RowSymbols;
use super::number::Number;
use super::source::Source;
use crate::model::{Rule, Symbols};

/// Spans whose derivatives are kept at once: fewer if there are many rules.
pub fn block(rules: usize) -> usize {
    ((1 << 18) / rules.max(1)).clamp(4, 16)
}

/// Listed rules, each head divided by its largest weight.
pub struct Listed<G> {
    symbols: Symbols,
    longest: usize,
    table: Arc<RuleTable<G>>,
}

/// The rules and their pairs, which all charts share.
pub struct RuleTable<G> {
    rules: Arc<[Rule]>,
    /// The weight of each rule, and the place of its pair.
    weights: Vec<G>,
    pair_of: Vec<usize>,
    /// The first rule of each head, and the number of rules.
    heads: Vec<usize>,
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

impl<G: Number> RuleTable<G> {
    pub fn new(source: &Source<'_>, rules: &Arc<[Rule]>) -> Self {
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
        let heads = (0..=symbols.heads).map(|k| rules.partition_point(|rule| rule.head < k)).collect();
        let right = pairs.iter().map(|pair| pair.1).collect();
        RuleTable { rules: rules.clone(), weights, pair_of, heads, right, starts, shifts, least }
    }
}

impl<G: Number> Listed<G> {
    pub fn new(symbols: Symbols, table: Arc<RuleTable<G>>, longest: usize) -> Self {
        Listed { symbols, longest, table }
    }

    /// The rules of a head and their weights.
    pub fn of_head(&self, head: usize) -> impl Iterator<Item = (&Rule, G)> {
        let own = self.table.heads[head]..self.table.heads[head + 1];
        self.table.rules[own.clone()].iter().zip(self.table.weights[own].iter().copied())
    }

    /// The numbers of the rules of a span, and the place of their heads in its row: those of the chosen heads,
    /// if only these are needed.
    fn of_span<'a>(
        &'a self,
        chart: &'a Chart<G>,
        span: Span,
    ) -> impl Iterator<Item = (usize, std::ops::Range<usize>)> + 'a {
        let (chosen, count) = match chart.few() {
            Some(choices) => (Some(&choices.of(span).states), choices.of(span).states.len()),
            None => (None, self.symbols.heads),
        };
        let compact = chart.compact().is_some();
        (0..count).map(move |at| {
            let head = chosen.map_or(at, |states| states[at] as usize);
            (if compact { at } else { head }, self.table.heads[head]..self.table.heads[head + 1])
        })
    }

    /// Writes a row into a list of numbers of all symbols, or the zeros that were there.
    fn full(&self, (row, symbols): (&[G], RowSymbols<'_>), out: &mut [G], clear: bool) {
        let value = |x: G| if clear { G::ZERO } else { x };
        row.iter().enumerate().for_each(|(at, &x)| out[symbols.symbol(at)] = value(x));
    }

    /// X of a span; `full` is zero.
    fn pairs(&self, chart: &Chart<G>, divisions: &[(Part, Part, G)], full: &mut [G]) -> Vec<G> {
        let RuleTable { right, starts, .. } = &*self.table;
        let mut pairs = vec![G::ZERO; right.len()];
        for &(first, second, weight) in divisions {
            let ((row, symbols), other) = (chart.row(first), chart.row(second));
            self.full(other, full, false);
            for (at, &x) in row.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
                let a = symbols.symbol(at);
                let (x, range) = (x.times(weight), starts[a]..starts[a + 1]);
                for (pair, &b) in pairs[range.clone()].iter_mut().zip(&right[range]) {
                    *pair = pair.plus(x.times(full[b]));
                }
            }
            self.full(other, full, true);
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
        &self.table.shifts
    }

    fn terms(&self) -> f64 {
        8.0 * (self.table.rules.len().max(1) * self.longest) as f64
    }

    fn least(&self) -> f64 {
        self.table.least
    }

    fn words_known(&mut self, _: &Chart<G>) {}

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let RuleTable { rules, weights, pair_of, .. } = &*self.table;
        let work = |full: &mut Vec<G>, at: usize, row: &mut [G], base: &mut f64| {
            full.resize(self.symbols.all, G::ZERO);
            let (divisions, top) = chart.divisions(list[at]);
            *base = top;
            let pairs = self.pairs(chart, &divisions, full);
            for (to, range) in self.of_span(chart, list[at]) {
                for (&weight, &pair) in weights[range.clone()].iter().zip(&pair_of[range]) {
                    row[to] = row[to].plus(weight.times(pairs[pair]));
                }
            }
        };
        let size = chart.size;
        if list.len() * rules.len() < 1 << 13 {
            let mut full = Vec::new();
            let each = rows.chunks_mut(size).zip(bases);
            each.enumerate().for_each(|(at, (row, base))| work(&mut full, at, row, base));
        } else {
            let all = rows.par_chunks_mut(size).zip(bases.par_iter_mut()).enumerate();
            all.for_each_init(Vec::new, |full, (at, (row, base))| work(full, at, row, base));
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
            rules: zeros(self.table.rules.len()),
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
        let size = chart.size;
        let RuleTable { weights, pair_of, right, starts, .. } = &*self.table;
        let work = |(&span, sums): (&Span, &[G])| {
            let (divisions, _) = chart.divisions(span);
            let mut full = [vec![G::ZERO; self.symbols.all], vec![G::ZERO; self.symbols.all]];
            let [right_values, to_right] = &mut full;
            let pairs = self.pairs(chart, &divisions, right_values);
            let mut of_pairs = vec![G::ZERO; pairs.len()];
            let mut of_rules = Vec::new();
            for (at, range) in self.of_span(chart, span) {
                for i in range {
                    let x = weights[i].times(sums[at]);
                    if !x.is_zero() {
                        let pair = pair_of[i];
                        of_pairs[pair] = of_pairs[pair].plus(x);
                        of_rules.push((i, x.times(pairs[pair])));
                    }
                }
            }
            let each = divisions.into_iter().map(|(first, second, weight)| {
                let ((row, symbols), other) = (chart.row(first), chart.row(second));
                self.full(other, right_values, false);
                let mut to_left = vec![G::ZERO; row.len()];
                for (at, &x) in row.iter().enumerate() {
                    let (mut sum, x) = (G::ZERO, x.times(weight));
                    let range = starts[symbols.symbol(at)]..starts[symbols.symbol(at) + 1];
                    for (&b, &own) in right[range.clone()].iter().zip(&of_pairs[range]) {
                        sum = sum.plus(own.times(right_values[b]));
                        to_right[b] = to_right[b].plus(own.times(x));
                    }
                    to_left[at] = sum.times(weight);
                }
                self.full(other, right_values, true);
                let symbols = other.1;
                let found = (0..other.0.len()).map(|at| to_right[symbols.symbol(at)]).collect::<Vec<G>>();
                to_right.fill(G::ZERO);
                (first, to_left, second, found)
            });
            (each.collect::<Vec<_>>(), of_rules)
        };
        let block = block(self.table.rules.len());
        for (list, sums) in list.chunks(block).zip(sums.chunks(block * size)) {
            let found: Vec<_> = list.par_iter().zip(sums.par_chunks(size)).map(work).collect();
            for (each, of_rules) in found {
                for (left, to_left, right, to_right) in each {
                    for (part, values) in [(left, to_left), (right, to_right)] {
                        let to = match part {
                            Part::Word(at) => &mut back.words[at * chart.tags..][..values.len()],
                            Part::Span(at) => &mut back.spans[at * size..][..values.len()],
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
