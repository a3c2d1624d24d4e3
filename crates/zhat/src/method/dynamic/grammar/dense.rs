//! Dense rules: a weight W(k, a, b) for every head and pair.
//!
//! X(a, b) = Σ_m inside(i, m, a)·inside(m + 1, j, b) is a small matrix product for each span, and the sums of
//! all spans of one width are one product, X·Wᵀ. Divisions that cut off a single word are cheaper: with
//! Aᵢ(k, b) = Σ_t W(k, t, b)·word(i, t), computed once for each word, they are the product of a matrix and a
//! row. So T³·N² + T²·N³ operations remain for N heads, and T·N²·P for P tags.

use rayon::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, exp_all, for_rows};
use super::number::Number;
use super::source::Source;
use crate::model::Symbols;
use crate::numeric::Matrix;

/// Numbers of X that are formed at once.
const BLOCK: usize = 1 << 22;

/// Dense rules, each head divided by its largest weight, and their sums over words.
pub struct Dense<G> {
    symbols: Symbols,
    tags: (usize, usize),
    longest: usize,
    /// The weights, N×S×S.
    weights: Vec<G>,
    shifts: Vec<f64>,
    /// W(k, a, b) for heads a and b, N×N², and its transpose.
    heads: Vec<G>,
    by_pair: Vec<G>,
    /// For tags t and heads a: W(k, t, a), by t, k and a, and W(k, a, t), by k, a and t.
    tag_head: Vec<G>,
    head_tag: Vec<G>,
    /// W(k, t, u) for two tags, as Q×(N·Q) by t, k and u.
    tag_tag: Vec<G>,
    /// The products of these with the words: words×(N·N) for words on the left and on the right, and
    /// words×(N·Q).
    word_head: [Vec<G>; 2],
    word_tag: Vec<G>,
    parallel: bool,
}

/// The derivatives of an outside pass.
pub struct Back<G> {
    spans: Vec<G>,
    words: Vec<G>,
    heads: Vec<G>,
    word_head: [Vec<G>; 2],
    word_tag: Vec<G>,
}

/// Rows of left parts, rows of right parts, and the numbers of both with the factor of the division.
type Inner<G> = (Vec<G>, Vec<G>, Vec<(usize, usize, G)>);

impl<G: Number> Dense<G> {
    pub fn new(source: &Source<'_>, longest: usize, unary: bool, parallel: bool) -> Self {
        let symbols = source.scores.symbols();
        let Symbols { all, heads: n, tags } = symbols;
        let tags = if unary { (0, all) } else { (all - tags, tags) };
        let (square, b) = (all * all, source.sentences[0]);
        let (mut weights, mut shifts) = (vec![G::ZERO; n * square], vec![0.0; n]);
        for_rows(&mut weights, square, &mut shifts, |k, row, shift| {
            let (mut logs, slopes) = source.with_slopes(square, |scores, out| scores.rules_of(b, k, out));
            let top = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            if top > f64::NEG_INFINITY {
                logs.iter_mut().for_each(|x| *x -= top);
                *shift = top;
            }
            exp_all(&logs, &slopes, row);
        });
        let (first, q) = tags;
        let part =
            |k: usize, a: usize, from: usize, length: usize| &weights[(k * all + a) * all + from..][..length];
        // All tables are made of rows of the weights.
        let mut heads = Vec::with_capacity(n * n * n);
        let mut head_tag = Vec::with_capacity(n * n * q);
        for k in 0..n {
            for a in 0..n {
                heads.extend_from_slice(part(k, a, 0, n));
                head_tag.extend_from_slice(part(k, a, first, q));
            }
        }
        let (mut tag_head, mut tag_tag) = (Vec::with_capacity(q * n * n), Vec::with_capacity(q * n * q));
        for t in first..first + q {
            for k in 0..n {
                tag_head.extend_from_slice(part(k, t, 0, n));
                tag_tag.extend_from_slice(part(k, t, first, q));
            }
        }
        let square = n * n;
        let by_pair = (0..square * n).map(|at| heads[at % n * square + at / n]).collect();
        Dense {
            symbols,
            tags,
            longest,
            shifts,
            heads,
            by_pair,
            tag_head,
            head_tag,
            tag_tag,
            weights,
            word_head: [Vec::new(), Vec::new()],
            word_tag: Vec::new(),
            parallel,
        }
    }

    /// The table of tags on the left (0) or right (1) with heads on the other side, as Q×(N·N).
    fn tag_table(&self, side: usize) -> Matrix<'_, G> {
        let (n, (_, q)) = (self.symbols.heads, self.tags);
        match side {
            0 => Matrix::row_major(&self.tag_head, q, n * n),
            _ => Matrix::row_major(&self.head_tag, n * n, q).transposed(),
        }
    }

    /// The weights of the pairs of a head, S×S.
    pub fn weights(&self, head: usize) -> &[G] {
        let square = self.symbols.all * self.symbols.all;
        &self.weights[head * square..(head + 1) * square]
    }

    /// The divisions of a span into two spans: their rows, the left ones times the factor of the division, and
    /// the parts.
    fn inner(&self, chart: &Chart<G>, span: Span) -> Inner<G> {
        let (mut left, mut right, mut parts) = (Vec::new(), Vec::new(), Vec::new());
        for (a, b, weight) in chart.divisions(span).0 {
            if let (Part::Span(a), Part::Span(b)) = (a, b) {
                left.extend(chart.span(a).iter().map(|&x| x.times(weight)));
                right.extend_from_slice(chart.span(b));
                parts.push((a, b, weight));
            }
        }
        (left, right, parts)
    }

    /// X of several spans.
    fn pairs(&self, chart: &Chart<G>, list: &[Span]) -> Vec<G> {
        let n = self.symbols.heads;
        let mut pairs = vec![G::ZERO; list.len() * n * n];
        for_rows(&mut pairs, n * n, &mut vec![(); list.len()], |at, out, ()| {
            let (left, right, parts) = self.inner(chart, list[at]);
            let left = Matrix::row_major(&left, parts.len(), n).transposed();
            G::multiply(left, Matrix::row_major(&right, parts.len(), n), out, false, false);
        });
        pairs
    }

    /// The spans that are worked on at once.
    fn block(&self) -> usize {
        (BLOCK / (self.symbols.heads * self.symbols.heads)).max(1)
    }
}

/// What a division with a single word on a side contributes: the word, the other part, and the side.
fn edges<G: Number>(divisions: &[(Part, Part, G)]) -> impl Iterator<Item = (usize, Part, usize, G)> + '_ {
    divisions.iter().filter_map(|&(left, right, weight)| match (left, right) {
        (Part::Word(word), other) => Some((word, other, 0, weight)),
        (other, Part::Word(word)) => Some((word, other, 1, weight)),
        _ => None,
    })
}

impl<G: Number> Core<G> for Dense<G> {
    type Back = Back<G>;

    fn size(&self) -> usize {
        self.symbols.heads
    }

    fn shifts(&self) -> &[f64] {
        &self.shifts
    }

    fn terms(&self) -> f64 {
        8.0 * (self.symbols.all * self.symbols.all * self.longest) as f64
    }

    fn words_known(&mut self, chart: &Chart<G>) {
        let (count, (_, q), n) = (chart.cells.word_count(), self.tags, self.symbols.heads);
        let words = Matrix::row_major(&chart.words, count, q);
        for side in 0..2 {
            let mut product = vec![G::ZERO; count * n * n];
            G::multiply(words, self.tag_table(side), &mut product, false, self.parallel);
            self.word_head[side] = product;
        }
        let mut product = vec![G::ZERO; count * n * q];
        G::multiply(words, Matrix::row_major(&self.tag_tag, q, n * q), &mut product, false, self.parallel);
        self.word_tag = product;
    }

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let (n, (_, q)) = (self.symbols.heads, self.tags);
        for_rows(rows, n, bases, |at, row, base| {
            let (divisions, top) = chart.divisions(list[at]);
            *base = top;
            for (word, other, side, weight) in edges(&divisions) {
                let (own, width) = (chart.row(other).0, if matches!(other, Part::Word(_)) { q } else { n });
                let table = match other {
                    Part::Word(_) => &self.word_tag,
                    Part::Span(_) => &self.word_head[side],
                };
                G::add_dots(row, weight, &table[word * n * width..(word + 1) * n * width], own);
            }
        });
        let divided = list.first().is_some_and(|span| span.last - span.first >= 3);
        for (list, rows) in
            list.chunks(self.block()).zip(rows.chunks_mut(self.block() * n)).filter(|_| divided)
        {
            let pairs = self.pairs(chart, list);
            let pairs = Matrix::row_major(&pairs, list.len(), n * n);
            G::multiply(pairs, Matrix::row_major(&self.by_pair, n * n, n), rows, true, self.parallel);
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
            heads: zeros(self.heads.len()),
            word_head: [zeros(self.word_head[0].len()), zeros(self.word_head[1].len())],
            word_tag: zeros(self.word_tag.len()),
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
        let (n, (_, q)) = (self.symbols.heads, self.tags);
        for (&span, sums) in list.iter().zip(sums.chunks_exact(n)) {
            let (divisions, _) = chart.divisions(span);
            for (word, other, side, weight) in edges(&divisions) {
                let own = chart.row(other).0;
                let (table, derivative, to, width) = match other {
                    Part::Word(at) => {
                        (&self.word_tag, &mut back.word_tag, &mut back.words[at * q..(at + 1) * q], q)
                    }
                    Part::Span(at) => {
                        let to = &mut back.spans[at * n..(at + 1) * n];
                        (&self.word_head[side], &mut back.word_head[side], to, n)
                    }
                };
                let range = word * n * width..(word + 1) * n * width;
                let (table, derivative) = (&table[range.clone()], &mut derivative[range]);
                G::spread_dots((to, derivative), weight, sums, table, own);
            }
        }
        let divided = list.first().is_some_and(|span| span.last - span.first >= 3);
        for (list, sums) in list.chunks(self.block()).zip(sums.chunks(self.block() * n)).filter(|_| divided) {
            self.spread_pairs(back, chart, list, sums);
        }
    }

    fn gather_words(&self, back: &mut Back<G>, chart: &Chart<G>, rows: &mut [G]) {
        let (count, (_, q), n) = (chart.cells.word_count(), self.tags, self.symbols.heads);
        rows.copy_from_slice(&back.words);
        for side in 0..2 {
            let derivative = Matrix::row_major(&back.word_head[side], count, n * n);
            G::multiply(derivative, self.tag_table(side).transposed(), rows, true, self.parallel);
        }
        let table = Matrix::row_major(&self.tag_tag, q, n * q).transposed();
        G::multiply(Matrix::row_major(&back.word_tag, count, n * q), table, rows, true, self.parallel);
    }

    /// Those with respect to X and to sums over words are at most those with respect to the sums, because
    /// weights are at most 1.
    fn other_derivatives(&self, _: &Back<G>, _: &Chart<G>, _: usize) -> f64 {
        0.0
    }
}

impl<G: Number> Dense<G> {
    /// The divisions into two spans.
    fn spread_pairs(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], sums: &[G]) {
        let n = self.symbols.heads;
        let pairs = self.pairs(chart, list);
        let derivatives = Matrix::row_major(sums, list.len(), n);
        let heads = Matrix::row_major(&self.heads, n, n * n);
        let pairs = Matrix::row_major(&pairs, list.len(), n * n);
        G::multiply(derivatives.transposed(), pairs, &mut back.heads, true, self.parallel);
        let mut of_pairs = vec![G::ZERO; list.len() * n * n];
        G::multiply(derivatives, heads, &mut of_pairs, false, self.parallel);
        let work = |(at, &span): (usize, &Span)| {
            let (left, right, parts) = self.inner(chart, span);
            let of_pairs = Matrix::row_major(&of_pairs[at * n * n..(at + 1) * n * n], n, n);
            let (mut to_left, mut to_right) = (vec![G::ZERO; left.len()], vec![G::ZERO; right.len()]);
            let right = Matrix::row_major(&right, parts.len(), n);
            G::multiply(right, of_pairs.transposed(), &mut to_left, false, false);
            G::multiply(Matrix::row_major(&left, parts.len(), n), of_pairs, &mut to_right, false, false);
            (parts, to_left, to_right)
        };
        let found: Vec<_> = match list.len() * n * n < 1 << 13 {
            true => list.iter().enumerate().map(work).collect(),
            false => list.par_iter().enumerate().map(work).collect(),
        };
        for (parts, to_left, to_right) in found {
            let rows = to_left.chunks_exact(n).zip(to_right.chunks_exact(n));
            for ((a, b, weight), (to_left, to_right)) in parts.into_iter().zip(rows) {
                G::add_scaled(&mut back.spans[a * n..(a + 1) * n], weight, to_left);
                // The rows on the left were multiplied by the weight already.
                G::add_scaled(&mut back.spans[b * n..(b + 1) * n], G::ONE, to_right);
            }
        }
    }

    /// The derivatives with respect to the scores of rules, N×S×S.
    pub fn gradient(&self, back: &Back<G>, chart: &Chart<G>) -> Vec<G> {
        let Symbols { all, heads: n, .. } = self.symbols;
        let (count, (first, q)) = (chart.cells.word_count(), self.tags);
        let mut gradient = vec![G::ZERO; self.weights.len()];
        let mut add = |k: usize, a: usize, from: usize, row: &[G]| {
            let at = (k * all + a) * all + from;
            let (to, weights) = (&mut gradient[at..at + row.len()], &self.weights[at..at + row.len()]);
            G::add_products(to, G::ONE, row, weights);
        };
        let words = Matrix::row_major(&chart.words, count, q).transposed();
        let product = |derivative: &[G], width: usize, transposed: bool| {
            let mut product = vec![G::ZERO; q * width];
            let derivative = Matrix::row_major(derivative, count, width);
            let (left, right) =
                if transposed { (derivative.transposed(), words.transposed()) } else { (words, derivative) };
            G::multiply(left, right, &mut product, false, self.parallel);
            product
        };
        let tag_head = product(&back.word_head[0], n * n, false);
        let head_tag = product(&back.word_head[1], n * n, true);
        let tag_tag = product(&back.word_tag, n * q, false);
        for k in 0..n {
            for a in 0..n {
                let at = k * n + a;
                add(k, a, 0, &back.heads[at * n..(at + 1) * n]);
                add(k, a, first, &head_tag[at * q..(at + 1) * q]);
            }
            for t in 0..q {
                let at = t * n + k;
                add(k, first + t, 0, &tag_head[at * n..(at + 1) * n]);
                add(k, first + t, first, &tag_tag[at * q..(at + 1) * q]);
            }
        }
        gradient
    }
}
