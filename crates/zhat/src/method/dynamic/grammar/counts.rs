//! The expected numbers of times that scores are used, of a group of sentences: the gradient of log Z.

use crate::numeric::parallel::prelude::*;

use super::cells::{Cells, Part, Span};
use super::chart::{Chart, Report, for_rows};
use super::choices::RowSymbols;
use super::number::Number;
use crate::model::{Hypertree, Rules, Spans, Symbols, UnaryRule};
use crate::numeric::{Matrix, Real, Table, filled, multiply};
use crate::query::tree::{HypertreeGradient, RuleGradient, SpanGradient};

/// The expected numbers of a group of sentences.
pub struct Counts<F> {
    /// Per word and tag.
    pub words: Vec<F>,
    /// Per sentence and head.
    pub roots: Vec<F>,
    /// Per span, or per span and symbol; empty if there are no scores.
    pub spans: Vec<F>,
    /// Of rules, in the form of one set.
    pub rules: RuleGradient<F>,
    /// Per unary rule.
    pub unary: Vec<f64>,
}

/// Collects the expected numbers during an outside pass.
pub struct Collector<'a, F: Real> {
    pub counts: Counts<F>,
    symbols: Symbols,
    by_symbol: bool,
    wanted: bool,
    unary: Option<(&'a [UnaryRule], Vec<f64>, Vec<f64>)>,
}

fn result<F: Real, G: Number>(x: G) -> F {
    F::from_f64(x.result())
}

/// Numbers of the symbols of a row as numbers of all symbols.
fn put<F: Real, G: Number>(to: &mut [F], symbols: RowSymbols<'_>, each: impl Iterator<Item = G>) {
    match symbols {
        RowSymbols::From(first) => {
            to[first..].iter_mut().zip(each).for_each(|(to, x)| *to = result(x));
        }
        _ => each.enumerate().for_each(|(at, x)| to[symbols.symbol(at)] = result(x)),
    }
}

impl<'a, F: Real> Collector<'a, F> {
    /// `slopes` are the derivatives of the scores of unary rules in the direction.
    pub fn new<G: Number>(model: &'a Hypertree<F>, chart: &Chart<G>, slopes: Vec<f64>) -> Self {
        let symbols = model.symbols();
        let (spans, by_symbol) = match model.spans() {
            Spans::None => (0, false),
            Spans::PerSpan(_) => (chart.cells.span_count(), false),
            _ => (chart.cells.span_count() * symbols.heads, true),
        };
        let unary = model.unary().map(|unary| {
            (unary.rules(), unary.scores().iter().map(|x| x.to_f64()).collect::<Vec<f64>>(), slopes)
        });
        Collector {
            counts: Counts {
                words: filled(F::ZERO, chart.cells.word_count() * symbols.tags),
                roots: vec![F::ZERO; chart.cells.sentences() * symbols.heads],
                spans: vec![F::ZERO; spans],
                rules: RuleGradient::None,
                unary: vec![0.0; unary.as_ref().map_or(0, |unary| unary.0.len())],
            },
            symbols,
            by_symbol,
            wanted: spans > 0,
            unary,
        }
    }
}

impl<F: Real, G: Number> Report<G> for Collector<'_, F> {
    fn spans(&mut self, chart: &Chart<G>, list: &[Span], rows: &[G]) {
        if !self.wanted {
            return;
        }
        for (span, row) in list.iter().zip(rows.chunks_exact(chart.size)) {
            let part = chart.cells.part(span.sentence, span.first, span.last);
            let (Part::Span(at), bare) = (part, chart.bare_row(part)) else { continue };
            let each = row.iter().zip(bare).map(|(&x, &y)| x.times(y));
            if self.by_symbol {
                let heads = self.symbols.heads;
                put(&mut self.counts.spans[at * heads..(at + 1) * heads], chart.symbols_of(part), each);
            } else {
                self.counts.spans[at] = result(each.fold(G::ZERO, G::plus));
            }
        }
    }

    fn words(&mut self, chart: &Chart<G>, rows: &[G]) {
        let (tags, offset) = (self.symbols.tags, self.symbols.first_tag() - chart.first_tag);
        let count = chart.cells.word_count();
        for_rows(&mut self.counts.words, tags, &mut vec![(); count], |at, to, ()| {
            if let (bare, RowSymbols::Chosen { places, .. }) = chart.row(Part::Word(at)) {
                let each = rows[at * chart.tags..].iter().zip(bare).map(|(&x, &y)| x.times(y));
                return put(to, RowSymbols::Chosen { first: 0, places }, each);
            }
            let row = &rows[at * chart.tags + offset..(at + 1) * chart.tags];
            let bare = &chart.bare_row(Part::Word(at))[offset..];
            for ((to, &x), &y) in to.iter_mut().zip(row).zip(bare) {
                *to = result(x.times(y));
            }
        });
    }

    fn roots(&mut self, sentence: usize, counts: &[G]) {
        let heads = self.symbols.heads;
        let to = &mut self.counts.roots[sentence * heads..(sentence + 1) * heads];
        to.iter_mut().zip(counts).for_each(|(to, &x)| *to = result(x));
    }

    fn after_unary(&mut self, chart: &Chart<G>, parts: &[Part], _: &[G], rows: &[G]) {
        let Some((rules, scores, slopes)) = &self.unary else { return };
        let size = rows.len() / parts.len().max(1);
        let weights: Vec<G> = scores
            .iter()
            .enumerate()
            .map(|(i, &score)| G::exp(score, slopes.get(i).copied().unwrap_or(0.0)))
            .collect();
        for (&part, row) in parts.iter().zip(rows.chunks_exact(size.max(1))) {
            let values = chart.row(part).0;
            for ((rule, &weight), to) in rules.iter().zip(&weights).zip(&mut self.counts.unary) {
                if let (Some(&x), Some(&y)) = (row.get(rule.head), values.get(rule.child)) {
                    *to += x.times(weight).times(y).result();
                }
            }
        }
    }
}

/// An outside pass whose derivatives are not collected.
pub struct Nothing;

impl<G> Report<G> for Nothing {
    fn spans(&mut self, _: &Chart<G>, _: &[Span], _: &[G]) {}
    fn words(&mut self, _: &Chart<G>, _: &[G]) {}
    fn roots(&mut self, _: usize, _: &[G]) {}
}

/// Inside times outside of all symbols.
pub struct Importance<'a> {
    pub found: &'a mut dyn FnMut(usize, usize, usize, Vec<f64>),
    /// The first tag in the rows of words, and the number of tags.
    pub offset: usize,
    pub tags: usize,
}

fn log_products<G: Number>(rows: &[G], values: &[G]) -> Vec<f64> {
    rows.iter().zip(values).map(|(&x, &y)| x.times(y).ln()).collect()
}

impl<G: Number> Report<G> for Importance<'_> {
    fn roots(&mut self, _: usize, _: &[G]) {}

    fn spans(&mut self, chart: &Chart<G>, list: &[Span], rows: &[G]) {
        for (span, row) in list.iter().zip(rows.chunks_exact(chart.size)) {
            if let Part::Span(at) = chart.cells.part(span.sentence, span.first, span.last) {
                let plain = &chart.plain_spans[at * chart.size..(at + 1) * chart.size];
                (self.found)(span.sentence, span.first, span.last, log_products(row, plain));
            }
        }
    }

    fn words(&mut self, chart: &Chart<G>, rows: &[G]) {
        for (at, (sentence, i)) in chart.cells.all_words().enumerate() {
            let own = at * chart.tags + self.offset..at * chart.tags + self.offset + self.tags;
            let logs = log_products(&rows[own.clone()], &chart.plain_words[own]);
            (self.found)(sentence, i, i, logs);
        }
    }
}

/// The expected numbers of nodes: B×T×T×S.
pub struct Nodes<'a, F> {
    pub values: &'a mut [F],
    pub sentences: &'a [usize],
    pub positions: usize,
    pub symbols: Symbols,
}

impl<F: Real> Nodes<'_, F> {
    fn add<G: Number>(&mut self, place: (usize, usize, usize), own: (&[G], RowSymbols<'_>), row: &[G]) {
        let (sentence, i, j) = place;
        let at = (self.sentences[sentence] * self.positions + i) * self.positions + j;
        let (to, (values, symbols)) = (&mut self.values[at * self.symbols.all..], own);
        for (k, (&x, &y)) in row.iter().zip(values).enumerate() {
            to[symbols.symbol(k)] += result(x.times(y));
        }
    }
}

impl<F: Real, G: Number> Report<G> for Nodes<'_, F> {
    fn spans(&mut self, chart: &Chart<G>, list: &[Span], rows: &[G]) {
        for (span, row) in list.iter().zip(rows.chunks_exact(chart.size)) {
            let own = chart.row(chart.cells.part(span.sentence, span.first, span.last));
            self.add((span.sentence, span.first, span.last), own, row);
        }
    }

    fn words(&mut self, chart: &Chart<G>, rows: &[G]) {
        for (at, (sentence, i)) in chart.cells.all_words().enumerate() {
            let own = chart.row(Part::Word(at));
            self.add((sentence, i, i), own, &rows[at * chart.tags..(at + 1) * chart.tags]);
        }
    }

    fn roots(&mut self, _: usize, _: &[G]) {}
}

/// A gradient of zeros in the forms of a model.
pub fn zero_gradient<F: Real>(model: &Hypertree<F>) -> HypertreeGradient<F> {
    let zeros = |length: usize| vec![F::ZERO; length];
    HypertreeGradient {
        // Filled by `add`, so that the words of a single group need not be copied.
        words: Vec::new(),
        roots: zeros(model.roots().len()),
        spans: match model.spans() {
            Spans::None => SpanGradient::None,
            Spans::PerSpan(values) | Spans::PerSymbol(values) => SpanGradient::Scores(zeros(values.len())),
            Spans::Factored { spans, symbols } => {
                SpanGradient::Factored { spans: zeros(spans.len()), symbols: zeros(symbols.len()) }
            }
        },
        rules: match model.rules() {
            Rules::Any => RuleGradient::None,
            Rules::Dense(values) | Rules::Sparse { scores: values, .. } => {
                RuleGradient::Scores(filled(F::ZERO, values.len()))
            }
            // Filled by `add`, so that a single group need not be copied.
            Rules::LowRank { .. } => {
                RuleGradient::LowRank { heads: Vec::new(), left: Vec::new(), right: Vec::new() }
            }
        },
        unary: zeros(model.unary().map_or(0, |unary| unary.rules().len())),
    }
}

/// a + factor·b for gradients of the same form.
pub fn add_scaled<F: Real>(a: &mut HypertreeGradient<F>, factor: f64, b: &HypertreeGradient<F>) {
    let factor = F::from_f64(factor);
    let each = |to: &mut [F], from: &[F]| to.iter_mut().zip(from).for_each(|(to, &x)| *to += factor * x);
    each(&mut a.words, &b.words);
    each(&mut a.roots, &b.roots);
    each(&mut a.unary, &b.unary);
    match (&mut a.spans, &b.spans) {
        (SpanGradient::Scores(to), SpanGradient::Scores(from)) => each(to, from),
        (SpanGradient::Factored { spans, symbols }, SpanGradient::Factored { spans: s, symbols: k }) => {
            each(spans, s);
            each(symbols, k);
        }
        _ => {}
    }
    match (&mut a.rules, &b.rules) {
        (RuleGradient::Scores(to), RuleGradient::Scores(from)) => each(to, from),
        (
            RuleGradient::LowRank { heads, left, right },
            RuleGradient::LowRank { heads: u, left: v, right: w },
        ) => {
            each(heads, u);
            each(left, v);
            each(right, w);
        }
        _ => {}
    }
}

/// Adds the expected numbers of groups of sentences to a gradient.
pub fn add_all<'a, F: Real>(
    model: &Hypertree<F>,
    groups: impl Iterator<Item = (&'a [usize], &'a Cells, Counts<F>)>,
    gradient: &mut HypertreeGradient<F>,
) {
    let alone = model.rules().per_sentence(model.symbols());
    let mut rules: Vec<(usize, Vec<F>)> = Vec::new();
    for (sentences, cells, mut counts) in groups {
        if let (true, [b], RuleGradient::Scores(own)) = (alone, sentences, &mut counts.rules) {
            rules.push((*b, std::mem::take(own)));
            counts.rules = RuleGradient::None;
        }
        add(model, sentences, cells, counts, gradient);
    }
    // Sets of rules of different sentences, in parallel: they may be most of the memory.
    if let (RuleGradient::Scores(to), Some((_, first))) = (&mut gradient.rules, rules.first()) {
        to.par_chunks_mut(first.len().max(1)).enumerate().for_each(|(b, to)| {
            for (_, from) in rules.iter().filter(|(own, _)| *own == b) {
                to.iter_mut().zip(from).for_each(|(to, &x)| *to += x);
            }
        });
    }
    rules.into_iter().for_each(|(_, own)| Table::recycle(own));
}

/// Adds the expected numbers of a group of sentences to a gradient.
fn add<F: Real>(
    model: &Hypertree<F>,
    sentences: &[usize],
    cells: &Cells,
    counts: Counts<F>,
    gradient: &mut HypertreeGradient<F>,
) {
    let (positions, Symbols { all, heads, tags }) = (model.positions(), model.symbols());
    let sum = |to: &mut [F], from: &[F]| to.iter_mut().zip(from).for_each(|(to, &x)| *to += x);
    let in_order = sentences.iter().enumerate().all(|(at, &b)| at == b && cells.length(at) == positions);
    if gradient.words.is_empty() && in_order && sentences.len() == model.batch() {
        gradient.words = counts.words;
    } else {
        gradient.words.resize(model.words().len(), F::ZERO);
        for (at, (sentence, i)) in cells.all_words().enumerate() {
            let to = (sentences[sentence] * positions + i) * tags;
            sum(&mut gradient.words[to..to + tags], &counts.words[at * tags..(at + 1) * tags]);
        }
    }
    for (sentence, &b) in sentences.iter().enumerate() {
        let to = if gradient.roots.len() > heads { b * heads } else { 0 };
        sum(&mut gradient.roots[to..to + heads], &counts.roots[sentence * heads..(sentence + 1) * heads]);
    }
    let places: Vec<(usize, Span)> =
        (1..cells.longest()).flat_map(|width| cells.of_width(width).zip(cells.list(width))).collect();
    let place = |span: &Span| (sentences[span.sentence] * positions + span.first) * positions + span.last;
    match &mut gradient.spans {
        SpanGradient::None => {}
        SpanGradient::Scores(to) => {
            let size = counts.spans.len() / cells.span_count().max(1);
            for (at, span) in &places {
                let first = place(span) * size;
                sum(&mut to[first..first + size], &counts.spans[at * size..(at + 1) * size]);
            }
        }
        SpanGradient::Factored { spans: to_spans, symbols: to_symbols } => {
            let Spans::Factored { spans, symbols } = model.spans() else { return };
            let (count, size) = (cells.span_count(), symbols.len() / heads);
            let own = Matrix::row_major(&counts.spans, count, heads);
            let mut product = vec![F::ZERO; count * size];
            multiply(own, Matrix::row_major(symbols, heads, size), &mut product, false);
            let mut rows = vec![F::ZERO; count * size];
            for (at, span) in &places {
                let first = place(span) * size;
                sum(&mut to_spans[first..first + size], &product[at * size..(at + 1) * size]);
                rows[at * size..(at + 1) * size].copy_from_slice(&spans[first..first + size]);
            }
            multiply(own.transposed(), Matrix::row_major(&rows, count, size), to_symbols, true);
        }
    }
    let b = sentences.first().copied().unwrap_or(0);
    let into = |to: &mut Vec<F>, total: usize, one: usize, from: Vec<F>| {
        if to.is_empty() && from.len() == total {
            *to = from;
            return;
        }
        to.resize(total, F::ZERO);
        let first = if total > one { b * one } else { 0 };
        sum(&mut to[first..first + one], &from);
    };
    match (&mut gradient.rules, counts.rules, model.rules()) {
        (RuleGradient::Scores(to), RuleGradient::Scores(from), _) => {
            let total = to.len();
            into(to, total, from.len(), from);
        }
        (
            RuleGradient::LowRank { heads: to_heads, left: to_left, right: to_right },
            RuleGradient::LowRank { heads: of_heads, left: of_left, right: of_right },
            Rules::LowRank { rank, heads: u, left, right },
        ) => {
            into(to_heads, u.len(), heads * rank, of_heads);
            into(to_left, left.len(), all * rank, of_left);
            into(to_right, right.len(), all * rank, of_right);
        }
        _ => {}
    }
    gradient.unary.iter_mut().zip(counts.unary).for_each(|(to, x)| *to += F::from_f64(x));
}
