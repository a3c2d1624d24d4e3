//! Trees without rules: every pair of symbols is allowed, with score 0.
//!
//! The symbols of a tree are then independent, given its spans. With the sums over symbols s(i, j) =
//! log Σ_k exp(spanᵢⱼₖ), and s(i, i) in the same way for words,
//!
//!   divided(i, j) = log Σ_m exp(inside(i, m) + inside(m + 1, j)),     inside(i, j) = s(i, j) + divided(i, j):
//!
//! one number per span. The probability of a span is divided among its divisions in proportion to the terms of
//! this sum, from the whole sentence to the words. Among the symbols it is divided by their scores.
//!
//! Logarithms are doubles, so nothing underflows. Probabilities are sums of products of positive numbers, so small
//! ones are as accurate as large ones. Numbers of spans of one width lie side by side, for vector instructions.
//! T³ + T²·N operations, memory T².

use crate::numeric::parallel::prelude::*;

use super::cells::{Cells, Part, Span};
use super::chart::for_rows;
use super::counts::Counts;
use super::derive::Pick;
use super::pass::{Pass, Purpose, Task};
use super::source::{Scores, SpanScores};
use crate::error::Result;
use crate::model::{Hypertree, Rules, Spans};
use crate::numeric::{self, Real, filled, log_sum_exp_over_slabs};
use crate::query::tree::{Constituent, RuleGradient};
use crate::run::Clock;

/// Takes a sentence, the first and the last word of a part, and the expected numbers of its symbols.
type Visit<'a, F> = dyn FnMut(usize, usize, usize, &[F]) + 'a;

/// Whether a model has no rules, and a query asks for sums.
pub fn applies<F: Real>(model: &Hypertree<F>, purpose: Purpose) -> bool {
    matches!(model.rules(), Rules::Any) && model.unary().is_none() && purpose != Purpose::Best
}

/// The bytes of a chart of T words and of the work on it.
pub fn bytes(words: f64) -> f64 {
    // Two numbers per span, the probabilities, the terms of the sums of one width, and the list of spans.
    8.0 * (4.0 * words * words + 4.0 * words)
}

/// Numbers of the words and spans of a sentence, by width, then by first word.
#[derive(Clone, Copy)]
struct Triangle {
    words: usize,
}

impl Triangle {
    fn len(self) -> usize {
        self.words * (self.words + 1) / 2
    }

    /// The place of the first span of a width; words have width 0.
    fn start(self, width: usize) -> usize {
        width * (2 * self.words + 1 - width) / 2
    }

    fn at(self, first: usize, last: usize) -> usize {
        self.start(last - first) + first
    }

    /// For spans of a width, the places of their parts if the first has `size` words.
    fn parts(self, width: usize, size: usize) -> (usize, usize) {
        (self.start(size - 1), self.start(width - size) + size)
    }
}

/// The chart of a sentence.
struct Chart {
    triangle: Triangle,
    /// Logarithms of sums over trees, and the same without the scores of the spans themselves.
    inside: Vec<f64>,
    divided: Vec<f64>,
    log_partition: f64,
}

/// The charts of a group of sentences.
pub struct Free {
    cells: Cells,
    charts: Vec<Chart>,
    log_partition: Vec<f64>,
    exact: Vec<bool>,
}

/// The scores of the spans that begin with a word.
enum Beginning<'a, F> {
    None,
    /// By last word.
    Each(&'a [F]),
    /// By last word and symbol.
    Rows(&'a [F]),
    /// The same for last words after the first.
    Products(Vec<f64>),
}

impl<'a, F: Real> Beginning<'a, F> {
    fn new(model: &'a Hypertree<F>, b: usize, i: usize) -> Self {
        let (positions, heads) = (model.positions(), model.symbols().heads);
        let first = (b * positions + i) * positions;
        match model.spans() {
            Spans::None => Beginning::None,
            Spans::PerSpan(values) => Beginning::Each(&values[first..first + positions]),
            Spans::PerSymbol(values) => Beginning::Rows(&values[first * heads..(first + positions) * heads]),
            Spans::Factored { .. } => {
                let list: Vec<_> = (i + 1..model.lengths()[b]).map(|j| (b, i, j)).collect();
                match Scores::spans(model, &list) {
                    SpanScores::Rows(rows) => Beginning::Products(rows),
                    _ => Beginning::None,
                }
            }
        }
    }

    /// log Σ_k exp(score) of the span from i to j.
    fn total(&self, i: usize, j: usize, heads: usize) -> f64 {
        match self {
            Beginning::None => (heads as f64).ln(),
            Beginning::Each(values) => values[j].to_f64() + (heads as f64).ln(),
            Beginning::Rows(values) => F::log_sum_exp(&values[j * heads..(j + 1) * heads]),
            Beginning::Products(values) => {
                numeric::log_sum_exp(&values[(j - i - 1) * heads..(j - i) * heads])
            }
        }
    }

    /// The probability of a span, divided among its symbols.
    fn shares(&self, i: usize, j: usize, probability: f64, out: &mut [F]) {
        let heads = out.len();
        match self {
            Beginning::None | Beginning::Each(_) => out.fill(F::from_f64(probability / heads as f64)),
            Beginning::Rows(values) => shares(&values[j * heads..(j + 1) * heads], probability, out),
            Beginning::Products(values) => {
                let mut own = vec![0.0; heads];
                shares(&values[(j - i - 1) * heads..(j - i) * heads], probability, &mut own);
                out.iter_mut().zip(own).for_each(|(out, x)| *out = F::from_f64(x));
            }
        }
    }
}

/// A probability divided in proportion to exp(scores).
fn shares<F: Real>(scores: &[F], probability: f64, out: &mut [F]) {
    let top = F::max(scores);
    if top == F::NEG_INFINITY || probability == 0.0 {
        return out.fill(F::ZERO);
    }
    out.iter_mut().zip(scores).for_each(|(out, &x)| *out = x - top);
    F::exp_in_place(out);
    let total: f64 = out.iter().map(|x| x.to_f64()).sum();
    let scale = F::from_f64(probability / total);
    out.iter_mut().for_each(|x| *x *= scale);
}

/// The scores of possible roots with the symbols of the whole sentence, one per head.
fn root_scores<F: Real>(model: &Hypertree<F>, b: usize) -> Vec<f64> {
    let (n, first_tag) = (model.lengths()[b], model.symbols().first_tag());
    let own = |k: usize| match n {
        1 => k.checked_sub(first_tag).map_or(f64::NEG_INFINITY, |tag| model.word(b, 0)[tag].to_f64()),
        _ => model.span(b, 0, n - 1, k),
    };
    model.root(b).iter().enumerate().map(|(k, root)| root.to_f64() + own(k)).collect()
}

/// The probabilities of the roots of a sentence.
fn root_shares<F: Real>(model: &Hypertree<F>, b: usize) -> Vec<f64> {
    let scores = root_scores(model, b);
    let mut found = vec![0.0; scores.len()];
    shares(&scores, 1.0, &mut found);
    found
}

impl Chart {
    fn new<F: Real>(model: &Hypertree<F>, b: usize, clock: &Clock<'_>) -> Result<Self> {
        let (words, heads) = (model.lengths()[b], model.symbols().heads);
        let triangle = Triangle { words };
        let (mut inside, mut divided) = (vec![0.0; triangle.len()], vec![0.0; triangle.len()]);
        for i in 0..words {
            clock.check()?;
            inside[i] = F::log_sum_exp(model.word(b, i));
            let scores = Beginning::new(model, b, i);
            for j in i + 1..words {
                inside[triangle.at(i, j)] = scores.total(i, j, heads);
            }
        }
        let mut terms = Vec::new();
        for width in 1..words {
            clock.check()?;
            let count = words - width;
            terms.resize(width * count, 0.0);
            for (at, terms) in terms.chunks_exact_mut(count).enumerate() {
                let (left, right) = triangle.parts(width, at + 1);
                let parts = inside[left..left + count].iter().zip(&inside[right..right + count]);
                terms.iter_mut().zip(parts).for_each(|(term, (left, right))| *term = left + right);
            }
            let own = triangle.start(width)..triangle.start(width) + count;
            log_sum_exp_over_slabs(&terms, &mut divided[own.clone()]);
            inside[own.clone()].iter_mut().zip(&divided[own]).for_each(|(inside, x)| *inside += x);
        }
        let whole = if words > 1 { divided[triangle.at(0, words - 1)] } else { 0.0 };
        let log_partition = whole + numeric::log_sum_exp(&root_scores(model, b));
        Ok(Chart { triangle, inside, divided, log_partition })
    }

    /// The probability of every word and span, times a factor; 0 if there is no tree.
    fn probabilities(&self, factor: f64, clock: &Clock<'_>) -> Result<Vec<f64>> {
        let (triangle, words) = (self.triangle, self.triangle.words);
        let mut found = vec![0.0; triangle.len()];
        if self.log_partition == f64::NEG_INFINITY || factor == 0.0 {
            return Ok(found);
        }
        found[triangle.at(0, words - 1)] = factor;
        let mut terms = Vec::new();
        for width in (1..words).rev() {
            clock.check()?;
            let (count, own) = (words - width, triangle.start(width));
            terms.resize(width * count, 0.0);
            for (at, terms) in terms.chunks_exact_mut(count).enumerate() {
                let (left, right) = triangle.parts(width, at + 1);
                let parts = self.inside[left..left + count].iter().zip(&self.inside[right..right + count]);
                for ((term, (left, right)), &sum) in
                    terms.iter_mut().zip(parts).zip(&self.divided[own..own + count])
                {
                    // Spans without a division have terms of −∞.
                    *term = left + right - if sum > f64::NEG_INFINITY { sum } else { 0.0 };
                }
            }
            numeric::exp_in_place(&mut terms);
            // Parts are narrower, so they lie before.
            let (before, wholes) = found.split_at_mut(own);
            for (at, terms) in terms.chunks_exact_mut(count).enumerate() {
                let (left, right) = triangle.parts(width, at + 1);
                terms.iter_mut().zip(wholes.iter()).for_each(|(term, whole)| *term *= whole);
                before[left..left + count].iter_mut().zip(terms.iter()).for_each(|(to, x)| *to += x);
                before[right..right + count].iter_mut().zip(terms.iter()).for_each(|(to, x)| *to += x);
            }
        }
        Ok(found)
    }
}

impl Free {
    pub fn new<F: Real>(task: &Task<'_, F>, clock: &Clock<'_>) -> Result<Self> {
        let model = task.model;
        let cells = Cells::new(task.sentences.iter().map(|&b| model.lengths()[b]).collect());
        let charts: Vec<Chart> =
            task.sentences.par_iter().map(|&b| Chart::new(model, b, clock)).collect::<Result<_>>()?;
        let log_partition: Vec<f64> = charts.iter().map(|chart| chart.log_partition).collect();
        let exact = vec![true; charts.len()];
        Ok(Free { cells, charts, log_partition, exact })
    }

    fn probabilities(&self, factors: &[f64], clock: &Clock<'_>) -> Result<Vec<Vec<f64>>> {
        let one = |(chart, &factor): (&Chart, &f64)| chart.probabilities(factor, clock);
        self.charts.par_iter().zip(factors).map(one).collect()
    }

    /// The expected numbers of the symbols of words i … j, given the probability of the span: heads, or tags of a
    /// word.
    fn symbols<F: Real>(
        model: &Hypertree<F>,
        (b, i, j): (usize, usize, usize),
        probability: f64,
        scores: &Beginning<'_, F>,
        out: &mut [F],
    ) {
        let (n, first_tag) = (model.lengths()[b], model.symbols().first_tag());
        if j + 1 - i < n {
            return match i == j {
                true => shares(model.word(b, i), probability, out),
                false => scores.shares(i, j, probability, out),
            };
        }
        // The symbol of the whole sentence is the root.
        let offset = if n == 1 { first_tag } else { 0 };
        out.fill(F::ZERO);
        let roots = root_shares(model, b);
        let own = out.iter_mut().zip(roots.iter().skip(offset));
        own.for_each(|(out, x)| *out = F::from_f64(x * probability));
    }

    /// Every word and span with its expected numbers of symbols.
    fn each<F: Real>(
        &self,
        task: &Task<'_, F>,
        factors: &[f64],
        clock: &Clock<'_>,
        found: &mut Visit<'_, F>,
    ) -> Result<()> {
        let (model, all) = (task.model, self.probabilities(factors, clock)?);
        let symbols = model.symbols();
        let (mut tags, mut heads) = (vec![F::ZERO; symbols.tags], vec![F::ZERO; symbols.heads]);
        for (sentence, (&b, probabilities)) in task.sentences.iter().zip(&all).enumerate() {
            let n = model.lengths()[b];
            for i in 0..n {
                clock.check()?;
                let scores = Beginning::new(model, b, i);
                for j in i..n {
                    let row = if i == j { &mut tags } else { &mut heads };
                    let probability = probabilities[self.charts[sentence].triangle.at(i, j)];
                    Free::symbols(model, (b, i, j), probability, &scores, row);
                    found(sentence, i, j, row);
                }
            }
        }
        Ok(())
    }

    /// The scores of the symbols of words i … j, and the first of these symbols.
    fn scores_of<F: Real>(model: &Hypertree<F>, b: usize, i: usize, j: usize) -> (usize, Vec<f64>) {
        match i == j {
            true => (model.symbols().first_tag(), model.word(b, i).iter().map(|x| x.to_f64()).collect()),
            false => (0, (0..model.symbols().heads).map(|k| model.span(b, i, j, k)).collect()),
        }
    }
}

impl<F: Real> Pass<F> for Free {
    fn cells(&self) -> &Cells {
        &self.cells
    }

    fn log_partition(&self) -> &[f64] {
        &self.log_partition
    }

    fn large(&self) -> &[bool] {
        &self.exact
    }

    fn certify(&self, _: &Task<'_, F>, _: &Clock<'_>) -> Result<Vec<bool>> {
        Ok(self.exact.clone())
    }

    fn counts(
        &self,
        task: &Task<'_, F>,
        factors: &[f64],
        clock: &Clock<'_>,
    ) -> Result<(Counts<F>, Vec<f64>)> {
        let (model, all) = (task.model, self.probabilities(factors, clock)?);
        let (heads, tags) = (model.symbols().heads, model.symbols().tags);
        let probability =
            |sentence: usize, i: usize, j: usize| all[sentence][self.charts[sentence].triangle.at(i, j)];
        let mut counts = Counts {
            words: filled(F::ZERO, self.cells.word_count() * tags),
            roots: vec![F::ZERO; self.charts.len() * heads],
            spans: Vec::new(),
            rules: RuleGradient::None,
            unary: Vec::new(),
        };
        let mut places: Vec<(usize, usize)> = self.cells.all_words().collect();
        for_rows(&mut counts.words, tags, &mut places, |_, row, &mut (sentence, i)| {
            let place = (task.sentences[sentence], i, i);
            Free::symbols(model, place, probability(sentence, i, i), &Beginning::None, row);
        });
        for (sentence, row) in counts.roots.chunks_exact_mut(heads).enumerate() {
            let last = self.cells.length(sentence) - 1;
            let whole = probability(sentence, 0, last);
            let own = row.iter_mut().zip(root_shares(model, task.sentences[sentence]));
            own.for_each(|(to, x)| *to = F::from_f64(if whole == 0.0 { 0.0 } else { x * whole }));
        }
        let mut spans: Vec<Span> =
            (1..self.cells.longest()).flat_map(|width| self.cells.list(width)).collect();
        clock.check()?;
        match model.spans() {
            Spans::None => {}
            Spans::PerSpan(_) => {
                let own = |span: &Span| F::from_f64(probability(span.sentence, span.first, span.last));
                counts.spans = spans.iter().map(own).collect();
            }
            Spans::PerSymbol(_) => {
                counts.spans = filled(F::ZERO, spans.len() * heads);
                for_rows(
                    &mut counts.spans,
                    heads,
                    &mut spans,
                    |_, row, &mut Span { sentence, first, last }| {
                        let b = task.sentences[sentence];
                        let (scores, own) =
                            (Beginning::new(model, b, first), probability(sentence, first, last));
                        Free::symbols(model, (b, first, last), own, &scores, row);
                    },
                );
            }
            Spans::Factored { .. } => {
                // Scores are products, which are computed for all spans that begin with a word.
                counts.spans = filled(F::ZERO, spans.len() * heads);
                let to = &mut counts.spans;
                self.each(task, factors, clock, &mut |sentence, i, j, row| {
                    if let Part::Span(at) = self.cells.part(sentence, i, j) {
                        to[at * heads..(at + 1) * heads].copy_from_slice(row);
                    }
                })?;
            }
        }
        Ok((counts, vec![0.0; self.charts.len()]))
    }

    fn accurate(&self, _: &Task<'_, F>, _: &[f64], _: &Clock<'_>) -> Result<Vec<bool>> {
        Ok(self.exact.clone())
    }

    fn nodes(&self, task: &Task<'_, F>, factors: &[f64], values: &mut [F], clock: &Clock<'_>) -> Result<()> {
        let (positions, symbols) = (task.model.positions(), task.model.symbols());
        self.each(task, factors, clock, &mut |sentence, i, j, row| {
            let at = ((task.sentences[sentence] * positions + i) * positions + j) * symbols.all;
            let first = if i == j { symbols.first_tag() } else { 0 };
            values[at + first..].iter_mut().zip(row).for_each(|(to, &x)| *to += x);
        })
    }

    fn importance(
        &self,
        task: &Task<'_, F>,
        found: &mut dyn FnMut(usize, usize, usize, Vec<f64>),
        clock: &Clock<'_>,
    ) -> Result<()> {
        let ones = vec![1.0; self.charts.len()];
        self.each(task, &ones, clock, &mut |sentence, i, j, row| {
            found(sentence, i, j, row.iter().map(|x| x.to_f64().ln()).collect());
        })
    }

    fn means(&self) -> Vec<f64> {
        vec![0.0; self.charts.len()]
    }

    fn scores(
        &self,
        (model, b): (&Hypertree<F>, usize),
        sentence: usize,
        i: usize,
        j: usize,
        _: bool,
    ) -> Vec<f64> {
        let chart = &self.charts[sentence];
        let (offset, own) = Free::scores_of(model, b, i, j);
        let divided = chart.divided[chart.triangle.at(i, j)];
        let mut scores = vec![f64::NEG_INFINITY; model.symbols().all];
        scores[offset..].iter_mut().zip(own).for_each(|(to, x)| *to = x + divided);
        scores
    }

    fn tree(&self, task: &Task<'_, F>, sentence: usize, pick: &mut dyn Pick) -> Option<Vec<Constituent>> {
        let (model, b, chart) = (task.model, task.sentences[sentence], &self.charts[sentence]);
        if chart.log_partition == f64::NEG_INFINITY {
            return None;
        }
        let last = model.lengths()[b] - 1;
        let root = Constituent { first: 0, last, symbol: pick.pick(&root_scores(model, b)) };
        let (mut nodes, mut open) = (Vec::new(), vec![root]);
        while let Some(node) = open.pop() {
            nodes.push(node);
            let Constituent { first, last, .. } = node;
            if first == last {
                continue;
            }
            let inside = |i: usize, j: usize| chart.inside[chart.triangle.at(i, j)];
            let logs: Vec<f64> = (first..last).map(|m| inside(first, m) + inside(m + 1, last)).collect();
            let middle = first + pick.pick(&logs);
            let mut part = |first: usize, last: usize| {
                let (offset, scores) = Free::scores_of(model, b, first, last);
                Constituent { first, last, symbol: offset + pick.pick(&scores) }
            };
            let left = part(first, middle);
            open.extend([part(middle + 1, last), left]);
        }
        Some(nodes)
    }
}
