//! Rules of rank R: exp(score(k → a b)) = Σ_r exp(headₖᵣ + leftₐᵣ + rightᵦᵣ).
//!
//! With Lᵣ(i, j) = Σ_a leftₐᵣ·inside(i, j, a) and Rᵣ in the same way, the sums of a span are
//!
//!   Yᵣ(i, j) = Σ_m Lᵣ(i, m)·Rᵣ(m + 1, j)     and     inside(i, j, k) = exp(spanᵢⱼₖ) Σ_r headₖᵣ·Yᵣ(i, j).
//!
//! T³·R + T²·N·R operations; the N×S×S table of rules is never formed. If scores of spans do not depend on the
//! symbol, the rows of spans are Y itself (*collapsed*): L = Y·(headᵀ·left), in which the symbols were summed
//! out once, by N·R² operations; then T³·R + T²·R² remain. Reference: S. Yang, Y. Zhao, K. Tu, *PCFGs can do
//! better: inducing probabilistic context-free grammars with many symbols*, NAACL 2021, and S. Yang, W. Liu, K.
//! Tu, *Dynamic programming in rank space*, NAACL 2022.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, for_rows};
use super::choices::GroupChoices;
use super::multiplier::exp_all;
use super::number::Number;
use super::source::Source;
use crate::model::Symbols;
use crate::numeric::{Matrix, filled};

/// The three factors, each divided by the largest number of its column; the columns' scales are in the heads.
pub struct Factors<G> {
    /// N×R, S×R and S×R.
    pub heads: Vec<G>,
    pub left: Vec<G>,
    pub right: Vec<G>,
    /// ln of the scale of the heads.
    shift: f64,
    /// ln of a lower bound on products of factors that are not 0.
    least: f64,
}

/// Rules of rank R and sums over the parts of a chart.
pub struct Rank<G> {
    rank: usize,
    symbols: Symbols,
    /// The first symbol of words, and their number.
    tags: (usize, usize),
    pub factors: Arc<Factors<G>>,
    /// R×R each, headᵀ·left and headᵀ·right, if collapsed.
    collapsed: Option<[Vec<G>; 2]>,
    /// ln of the scale of the heads, for each head or row number; empty if it is 0.
    shifts: Vec<f64>,
    /// L and R of every word and span, and Y of every span.
    word_sides: [Vec<G>; 2],
    span_sides: [Vec<G>; 2],
    sums: Vec<G>,
    parallel: bool,
    /// Whether there are no scores of rules.
    implicit: bool,
}

/// The derivatives of an outside pass.
pub struct Back<G> {
    /// With respect to the sides of words and spans, and to Y.
    word_sides: [Vec<G>; 2],
    span_sides: [Vec<G>; 2],
    sums: Vec<G>,
    /// With respect to the heads, N×R.
    heads: Vec<G>,
}

/// exp(scoreₖᵣ − largest of column r), the largest, and the logarithm of the smallest that is not 0.
fn factor<G: Number>(source: &Source<'_>, which: usize, rows: usize, rank: usize) -> (Vec<G>, Vec<f64>, f64) {
    let b = source.sentences[0];
    const BLOCK: usize = 256;
    let blocks: Vec<usize> = (0..rows).step_by(BLOCK).collect();
    let tops: Vec<Vec<f64>> = blocks
        .par_iter()
        .map(|&first| {
            let (mut row, mut top) = (vec![0.0; rank], vec![f64::NEG_INFINITY; rank]);
            for k in first..(first + BLOCK).min(rows) {
                source.scores.factor(b, which, k, &mut row);
                top.iter_mut().zip(&row).for_each(|(top, &x)| *top = top.max(x));
            }
            top
        })
        .collect();
    let mut top = vec![f64::NEG_INFINITY; rank];
    for own in &tops {
        top.iter_mut().zip(own).for_each(|(top, &x)| *top = top.max(x));
    }
    let mut values = filled(G::ZERO, rows * rank);
    let fill = |(block, out): (usize, &mut [G])| -> f64 {
        let (mut logs, mut least) = (vec![0.0; rank], 0.0f64);
        for (i, out) in out.chunks_exact_mut(rank).enumerate() {
            let k = block * BLOCK + i;
            source.scores.factor(b, which, k, &mut logs);
            let slopes = source.slopes(rank, |scores, out| scores.factor(b, which, k, out));
            for (x, &top) in logs.iter_mut().zip(&top) {
                *x -= if top > f64::NEG_INFINITY { top } else { 0.0 };
            }
            let smaller = |least: f64, &x: &f64| if x > f64::NEG_INFINITY && x < least { x } else { least };
            least = logs.iter().fold(least, smaller);
            exp_all(&logs, &slopes, out);
        }
        least
    };
    let least = values.par_chunks_mut(rank * BLOCK).enumerate().map(fill).reduce(|| 0.0, f64::min);
    (values, top, least)
}

impl<G: Number> Factors<G> {
    pub fn new(source: &Source<'_>, rank: usize) -> Self {
        let Symbols { all, heads: count, .. } = source.scores.symbols();
        let (mut heads, top_heads, least_head) = factor::<G>(source, 0, count, rank);
        let (left, top_left, least_left) = factor::<G>(source, 1, all, rank);
        let (right, top_right, least_right) = factor::<G>(source, 2, all, rank);
        let tops: Vec<f64> = (0..rank).map(|r| top_heads[r] + top_left[r] + top_right[r]).collect();
        let top = tops.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let shift = if top > f64::NEG_INFINITY { top } else { 0.0 };
        // Collapsed rows are multiplied by the heads of both parts.
        let least_scale =
            tops.iter().filter(|x| **x > f64::NEG_INFINITY).fold(0.0, |a: f64, x| a.min(x - shift));
        let least = 2.0 * (least_head + least_scale) + least_left + least_right;
        let scales: Vec<G> = tops.iter().map(|x| G::exp(x - shift, 0.0)).collect();
        for row in heads.chunks_exact_mut(rank) {
            row.iter_mut().zip(&scales).for_each(|(x, &scale)| *x = x.times(scale));
        }
        Factors { heads, left, right, shift, least }
    }
}

impl<G: Number> Rank<G> {
    /// The rules of a group of sentences. `collapse` if scores of spans do not depend on the symbol, there are
    /// no unary rules and the symbols of spans are not asked for; `implicit` if every rule has score 0.
    pub fn new(
        symbols: Symbols,
        (factors, rank): (Arc<Factors<G>>, usize),
        unary: bool,
        collapse: bool,
        implicit: bool,
        parallel: bool,
    ) -> Self {
        let Symbols { all, heads: count, tags } = symbols;
        let collapsed = collapse.then(|| {
            let side = |values: &[G]| {
                let mut product = vec![G::ZERO; rank * rank];
                let values = Matrix::row_major(&values[..count * rank], count, rank);
                let heads = Matrix::row_major(&factors.heads, count, rank).transposed();
                G::multiply(heads, values, &mut product, false, parallel);
                product
            };
            [side(&factors.left), side(&factors.right)]
        });
        let size = if collapse { rank } else { count };
        Rank {
            rank,
            symbols,
            tags: if unary { (0, all) } else { (all - tags, tags) },
            shifts: if factors.shift == 0.0 { Vec::new() } else { vec![factors.shift; size] },
            factors,
            collapsed,
            word_sides: [Vec::new(), Vec::new()],
            span_sides: [Vec::new(), Vec::new()],
            sums: Vec::new(),
            parallel,
            implicit,
        }
    }

    /// Whether there are no scores of rules.
    pub fn implicit(&self) -> bool {
        self.implicit
    }

    /// R.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Row `at` of a list of rows of length R.
    fn row<'a>(&self, rows: &'a [G], at: usize) -> &'a [G] {
        &rows[at * self.rank..(at + 1) * self.rank]
    }

    /// L or R of a part.
    pub fn side(&self, which: usize, part: Part) -> &[G] {
        match part {
            Part::Word(at) => self.row(&self.word_sides[which], at),
            Part::Span(at) => self.row(&self.span_sides[which], at),
        }
    }

    /// The matrix from rows of spans to L or R.
    fn of_spans(&self, which: usize) -> Matrix<'_, G> {
        match &self.collapsed {
            Some(sides) => Matrix::row_major(&sides[which], self.rank, self.rank),
            None => {
                let values = if which == 0 { &self.factors.left } else { &self.factors.right };
                Matrix::row_major(&values[..self.symbols.heads * self.rank], self.symbols.heads, self.rank)
            }
        }
    }

    /// The matrix from rows of words to L or R.
    fn of_words(&self, which: usize) -> Matrix<'_, G> {
        let values = if which == 0 { &self.factors.left } else { &self.factors.right };
        let (first, count) = self.tags;
        Matrix::row_major(&values[first * self.rank..(first + count) * self.rank], count, self.rank)
    }

    fn all_heads(&self) -> Matrix<'_, G> {
        Matrix::row_major(&self.factors.heads, self.symbols.heads, self.rank)
    }
}

impl<G: Number> Core<G> for Rank<G> {
    type Back = Back<G>;

    fn size(&self) -> usize {
        if self.collapsed.is_some() { self.rank } else { self.symbols.heads }
    }

    fn shifts(&self) -> &[f64] {
        &self.shifts
    }

    fn terms(&self) -> f64 {
        // Sums over symbols, divisions and r; a side is at most the number of symbols.
        let all = self.symbols.all as f64;
        8.0 * all * all * self.rank as f64
    }

    fn least(&self) -> f64 {
        self.factors.least
    }

    fn words_known(&mut self, chart: &Chart<G>) {
        if chart.few().is_some() {
            let places = word_spans(chart);
            for which in 0..2 {
                self.word_sides[which] = self.sides_of(chart, which, &places);
                self.span_sides[which] = Vec::with_capacity(chart.cells.span_count() * self.rank);
            }
            self.sums = Vec::with_capacity(chart.cells.span_count() * self.rank);
            return;
        }
        let (count, spans) = (chart.cells.word_count(), chart.cells.span_count());
        let words = Matrix::row_major(&chart.words, count, chart.tags);
        for which in 0..2 {
            let mut sides = vec![G::ZERO; count * self.rank];
            G::multiply(words, self.of_words(which), &mut sides, false, self.parallel);
            self.word_sides[which] = sides;
            self.span_sides[which] = Vec::with_capacity(spans * self.rank);
        }
        self.sums = Vec::with_capacity(spans * self.rank);
    }

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let mut sums = vec![G::ZERO; list.len() * self.rank];
        for_rows(&mut sums, self.rank, bases, |at, row, base| {
            let (divisions, top) = chart.divisions(list[at]);
            *base = top;
            for (left, right, weight) in divisions {
                G::add_products(row, weight, self.side(0, left), self.side(1, right));
            }
        });
        match (&self.collapsed, chart.few()) {
            (Some(_), _) => rows.copy_from_slice(&sums),
            (None, Some(choices)) => {
                for_rows(rows, chart.size, &mut vec![(); list.len()], |at, row, ()| {
                    for (place, &k) in choices.of(list[at]).states.iter().enumerate() {
                        let to = if choices.compact { place } else { k as usize };
                        row[to] = G::dot(self.row(&self.factors.heads, k as usize), self.row(&sums, at));
                    }
                });
            }
            (None, None) => {
                let own = Matrix::row_major(&sums, list.len(), self.rank);
                G::multiply(own, self.all_heads().transposed(), rows, false, self.parallel);
            }
        }
        self.sums.extend(sums);
    }

    fn spans_known(&mut self, chart: &Chart<G>, width: usize) {
        if chart.few().is_some() {
            for which in 0..2 {
                let sides = self.sides_of(chart, which, &chart.cells.list(width));
                self.span_sides[which].extend(sides);
            }
            return;
        }
        let range = chart.cells.of_width(width);
        let count = range.len();
        let rows = &chart.spans[range.start * chart.size..range.end * chart.size];
        for which in 0..2 {
            let mut sides = vec![G::ZERO; count * self.rank];
            let rows = Matrix::row_major(rows, count, chart.size);
            G::multiply(rows, self.of_spans(which), &mut sides, false, self.parallel);
            self.span_sides[which].extend(sides);
        }
    }

    fn heads(&self, row: &[G]) -> Vec<G> {
        if self.collapsed.is_none() {
            return row.to_vec();
        }
        (0..self.symbols.heads).map(|k| G::dot(self.row(&self.factors.heads, k), row)).collect()
    }

    fn back(&self, chart: &Chart<G>) -> Back<G> {
        let (words, spans) = (chart.cells.word_count() * self.rank, chart.cells.span_count() * self.rank);
        let zeros = |length: usize| filled(G::ZERO, length);
        Back {
            word_sides: [zeros(words), zeros(words)],
            span_sides: [zeros(spans), zeros(spans)],
            sums: zeros(spans),
            heads: zeros(self.factors.heads.len()),
        }
    }

    fn add_root(&self, back: &mut Back<G>, row: &[G], derivative: &[G], to: &mut [G]) {
        if self.collapsed.is_none() {
            to.iter_mut().zip(derivative).for_each(|(to, &x)| *to = to.plus(x));
            return;
        }
        for (k, &x) in derivative.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
            G::add_scaled(to, x, self.row(&self.factors.heads, k));
            G::add_scaled(&mut back.heads[k * self.rank..(k + 1) * self.rank], x, row);
        }
    }

    fn gather(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], rows: &mut [G]) {
        let Some(&Span { sentence, first, last }) = list.first() else { return };
        let Part::Span(start) = chart.cells.part(sentence, first, last) else { return };
        let length = list.len() * self.rank;
        for which in 0..2 {
            let mut sides = std::mem::take(&mut back.span_sides[which]);
            let own = &mut sides[start * self.rank..start * self.rank + length];
            for_rows(own, self.rank, &mut vec![(); list.len()], |at, out, ()| {
                self.side_derivative(back, chart, which, list[at], out);
            });
            let own = &sides[start * self.rank..start * self.rank + length];
            // Unary rules make chosen symbols of others, so all derivatives are needed.
            match chart.compact() {
                Some(choices) => self.to_chosen(choices, which, list, own, 0, rows),
                None => {
                    let own = Matrix::row_major(own, list.len(), self.rank);
                    G::multiply(own, self.of_spans(which).transposed(), rows, which == 1, self.parallel);
                }
            }
            back.span_sides[which] = sides;
        }
    }

    fn spread(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], sums: &[G]) {
        let Some(&Span { sentence, first, last }) = list.first() else { return };
        let Part::Span(start) = chart.cells.part(sentence, first, last) else { return };
        let range = start * self.rank..(start + list.len()) * self.rank;
        if self.collapsed.is_some() {
            back.sums[range].copy_from_slice(sums);
            return;
        }
        if let Some(choices) = chart.few() {
            for (at, &span) in list.iter().enumerate() {
                let to = (start + at) * self.rank..(start + at + 1) * self.rank;
                for (place, &k) in choices.of(span).states.iter().enumerate() {
                    let from = if choices.compact { place } else { k as usize };
                    let (k, x) = (k as usize, sums[at * chart.size + from]);
                    G::add_scaled(&mut back.sums[to.clone()], x, self.row(&self.factors.heads, k));
                    let own = &self.sums[to.clone()];
                    G::add_scaled(&mut back.heads[k * self.rank..(k + 1) * self.rank], x, own);
                }
            }
            return;
        }
        let derivatives = Matrix::row_major(sums, list.len(), self.symbols.heads);
        G::multiply(derivatives, self.all_heads(), &mut back.sums[range.clone()], false, self.parallel);
        let own = Matrix::row_major(&self.sums[range], list.len(), self.rank);
        G::multiply(derivatives.transposed(), own, &mut back.heads, true, self.parallel);
    }

    fn gather_words(&self, back: &mut Back<G>, chart: &Chart<G>, rows: &mut [G]) {
        let places: Vec<Span> =
            chart.cells.all_words().map(|(sentence, i)| Span { sentence, first: i, last: i }).collect();
        for which in 0..2 {
            let mut sides = std::mem::take(&mut back.word_sides[which]);
            for_rows(&mut sides, self.rank, &mut vec![(); places.len()], |at, out, ()| {
                self.side_derivative(back, chart, which, places[at], out);
            });
            match chart.compact() {
                Some(choices) => {
                    self.to_chosen(choices, which, &places, &sides, self.symbols.first_tag(), rows)
                }
                None => {
                    let own = Matrix::row_major(&sides, places.len(), self.rank);
                    G::multiply(own, self.of_words(which).transposed(), rows, which == 1, self.parallel);
                }
            }
            back.word_sides[which] = sides;
        }
    }

    fn other_derivatives(&self, back: &Back<G>, chart: &Chart<G>, sentence: usize) -> f64 {
        let mut total = 0.0;
        for i in 0..chart.cells.length(sentence) {
            for j in i..chart.cells.length(sentence) {
                total += match chart.cells.part(sentence, i, j) {
                    Part::Word(at) => {
                        (0..2).map(|which| G::absolute(self.row(&back.word_sides[which], at))).sum()
                    }
                    Part::Span(at) => {
                        let sides: f64 =
                            (0..2).map(|which| G::absolute(self.row(&back.span_sides[which], at))).sum();
                        sides + G::absolute(self.row(&back.sums, at))
                    }
                };
            }
        }
        total
    }
}

/// All words as parts of sentences.
fn word_spans<G>(chart: &Chart<G>) -> Vec<Span> {
    chart.cells.all_words().map(|(sentence, i)| Span { sentence, first: i, last: i }).collect()
}

/// Sums over chosen symbols.
impl<G: Number> Rank<G> {
    fn side_factors(&self, which: usize, k: usize) -> &[G] {
        self.row(if which == 0 { &self.factors.left } else { &self.factors.right }, k)
    }

    /// L or R of parts whose rows have few numbers that are not 0.
    fn sides_of(&self, chart: &Chart<G>, which: usize, list: &[Span]) -> Vec<G> {
        let mut sides = vec![G::ZERO; list.len() * self.rank];
        for_rows(&mut sides, self.rank, &mut vec![(); list.len()], |at, out, ()| {
            let Span { sentence, first, last } = list[at];
            let (row, symbols) = chart.row(chart.cells.part(sentence, first, last));
            for (k, &x) in row.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
                G::add_scaled(out, x, self.side_factors(which, symbols.symbol(k)));
            }
        });
        sides
    }

    /// Adds the derivatives with respect to rows of chosen symbols; the symbols of words begin at `first`.
    fn to_chosen(
        &self,
        choices: &GroupChoices,
        which: usize,
        list: &[Span],
        sides: &[G],
        first: usize,
        rows: &mut [G],
    ) {
        let size = rows.len() / list.len().max(1);
        for_rows(rows, size, &mut vec![(); list.len()], |at, row, ()| {
            for (to, &k) in row.iter_mut().zip(&choices.of(list[at]).states) {
                *to = to.plus(G::dot(self.side_factors(which, first + k as usize), self.row(sides, at)));
            }
        });
    }
}

impl<G: Number> Rank<G> {
    /// The derivative with respect to L (`which` = 0) or R of a part, by all spans that it is a side of.
    fn side_derivative(&self, back: &Back<G>, chart: &Chart<G>, which: usize, part: Span, out: &mut [G]) {
        let Span { sentence, first, last } = part;
        let (cells, own) = (&chart.cells, chart.scale(chart.cells.part(sentence, first, last)));
        if own == f64::NEG_INFINITY {
            return;
        }
        // The other side ends where the sentence ends, or begins where it begins.
        let others: Vec<(Part, Part)> = match which {
            0 => (last + 1..cells.length(sentence))
                .map(|end| (cells.part(sentence, last + 1, end), cells.part(sentence, first, end)))
                .collect(),
            _ => (0..first)
                .map(|start| (cells.part(sentence, start, first - 1), cells.part(sentence, start, last)))
                .collect(),
        };
        for (other, whole) in others {
            let (Part::Span(at), scale) = (whole, chart.scale(other)) else { continue };
            if scale == f64::NEG_INFINITY || chart.span_scales[at] == f64::NEG_INFINITY {
                continue;
            }
            let weight = G::exp(own + scale - chart.base(at), 0.0);
            G::add_products(out, weight, self.row(&back.sums, at), self.side(1 - which, other));
        }
    }

    /// The derivatives with respect to L or R by parts whose rows have few numbers that are not 0.
    fn add_few(&self, back: &Back<G>, chart: &Chart<G>, which: usize, out: &mut [G]) {
        let rank = self.rank;
        let words =
            (0..chart.cells.word_count()).map(|at| (Part::Word(at), self.row(&back.word_sides[which], at)));
        let spans =
            (0..chart.cells.span_count()).map(|at| (Part::Span(at), self.row(&back.span_sides[which], at)));
        for (part, derivative) in words.chain(spans) {
            let (row, symbols) = chart.row(part);
            for (k, &x) in row.iter().enumerate().filter(|(_, x)| !x.is_zero()) {
                let at = symbols.symbol(k);
                G::add_scaled(&mut out[at * rank..(at + 1) * rank], x, derivative);
            }
        }
    }

    /// The derivatives with respect to the scores of heads, left and right, N×R, S×R and S×R: for each the
    /// derivative with respect to the weight times the weight.
    pub fn gradient(&self, mut back: Back<G>, chart: &Chart<G>) -> [Vec<G>; 3] {
        let (count, rank) = (self.symbols.heads, self.rank);
        let (words, spans) = (chart.cells.word_count(), chart.cells.span_count());
        let mut sides = [filled(G::ZERO, self.factors.left.len()), filled(G::ZERO, self.factors.right.len())];
        let (first, tags) = self.tags;
        for (which, out) in sides.iter_mut().enumerate() {
            if chart.few().is_some() {
                self.add_few(&back, chart, which, out);
                continue;
            }
            let rows = Matrix::row_major(&chart.words, words, tags).transposed();
            let derivative = Matrix::row_major(&back.word_sides[which], words, rank);
            let part = &mut out[first * rank..(first + tags) * rank];
            G::multiply(rows, derivative, part, true, self.parallel);
            let derivative = Matrix::row_major(&back.span_sides[which], spans, rank);
            let rows = Matrix::row_major(&chart.spans, spans, chart.size).transposed();
            let part = &mut out[..count * rank];
            if self.collapsed.is_none() {
                G::multiply(rows, derivative, part, true, self.parallel);
                continue;
            }
            // Through headᵀ·left.
            let mut product = vec![G::ZERO; rank * rank];
            G::multiply(rows, derivative, &mut product, false, self.parallel);
            let product = Matrix::row_major(&product, rank, rank);
            G::multiply(self.all_heads(), product, part, true, self.parallel);
            let values = if which == 0 { &self.factors.left } else { &self.factors.right };
            let values = Matrix::row_major(&values[..count * rank], count, rank);
            G::multiply(values, product.transposed(), &mut back.heads, true, self.parallel);
        }
        let [mut left, mut right] = sides;
        let weigh = |out: &mut [G], weights: &[G]| {
            out.par_iter_mut().zip(weights).for_each(|(x, &weight)| *x = x.times(weight));
        };
        weigh(&mut back.heads, &self.factors.heads);
        weigh(&mut left, &self.factors.left);
        weigh(&mut right, &self.factors.right);
        [back.heads, left, right]
    }
}
