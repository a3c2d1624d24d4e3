//! Dense rules: a weight W(k, a, b) for every head and pair.
//!
//! X(a, b) = Σ_m inside(i, m, a)·inside(m + 1, j, b) is a small matrix product for each span, and the sums of
//! all spans of one width are one product, X·Wᵀ. Divisions that cut off a single word are cheaper: with
//! Aᵢ(k, b) = Σ_t W(k, t, b)·word(i, t), computed once for each word, they are the product of a matrix and a
//! row. So T³·N² + T²·N³ operations remain for N heads, and T·N²·P for P tags.

use rayon::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, for_rows};
use super::multiplier::{exp_all, spread};
use super::number::Number;
use super::source::Source;
use crate::model::Symbols;
use crate::numeric::{self, Matrix, SmallProduct, Table, padded_row};

/// Numbers of X that are formed at once.
const BLOCK: usize = 1 << 22;

/// Dense rules, each head divided by its largest weight, and their sums over words.
pub struct Dense<G: Number> {
    symbols: Symbols,
    tags: (usize, usize),
    longest: usize,
    /// The weights, N×S×S.
    weights: Table<G>,
    shifts: Vec<f64>,
    /// ln of the smallest weight that is not 0.
    least: f64,
    /// W(k, a, b) for heads a and b, N×(N·width), with b padded to `width`, and its transpose.
    width: usize,
    heads: Table<G>,
    by_pair: Table<G>,
    /// For tags t and heads a: W(k, t, a), by t, k and a, and W(k, a, t), by k, a and t.
    tag_head: Table<G>,
    head_tag: Table<G>,
    /// W(k, t, u) for two tags, as Q×(N·Q) by t, k and u.
    tag_tag: Table<G>,
    /// The products of these with the words: words×(N·N) for words on the left and on the right, by k and a;
    /// the same by a and k, with k padded; and words×(N·Q).
    word_head: [Table<G>; 2],
    head_word: [Table<G>; 2],
    word_tag: Table<G>,
    /// X of a block of spans.
    pairs: Table<G>,
    parallel: bool,
}

/// The derivatives of an outside pass.
pub struct Back<G: Number> {
    spans: Table<G>,
    words: Table<G>,
    heads: Table<G>,
    word_head: [Table<G>; 2],
    word_tag: Table<G>,
    /// X of a block of spans, and the derivatives with respect to it.
    pairs: Table<G>,
    of_pairs: Table<G>,
}

/// The parts of the divisions of a span with their factors, and the derivatives with respect to their rows on
/// the left and on the right.
type Spread<G> = (Vec<(usize, usize, G)>, Vec<G>, Vec<G>);

/// The divisions of a span into two spans, with padded rows.
struct Inner<G> {
    /// Rows of left parts, times the factor of the division, and of right parts.
    left: Vec<G>,
    right: Vec<G>,
    /// The numbers of both parts, and the factor.
    parts: Vec<(usize, usize, G)>,
    /// The transpose of a square.
    square: Vec<G>,
}

impl<G: Number> Inner<G> {
    fn new() -> Self {
        Inner { left: Vec::new(), right: Vec::new(), parts: Vec::new(), square: Vec::new() }
    }

    /// Takes the divisions of a span.
    fn take(&mut self, chart: &Chart<G>, divisions: &[(Part, Part, G)], width: usize) {
        self.left.clear();
        self.right.clear();
        self.parts.clear();
        for &(a, b, weight) in divisions {
            if let (Part::Span(a), Part::Span(b)) = (a, b) {
                self.left.extend(chart.span(a).iter().map(|&x| x.times(weight)));
                self.right.extend_from_slice(chart.span(b));
                self.parts.push((a, b, weight));
                self.left.resize(self.parts.len() * width, G::ZERO);
                self.right.resize(self.parts.len() * width, G::ZERO);
            }
        }
    }

    /// X, the sum over divisions of left times right.
    fn pairs(&self, to: &mut [G], width: usize, n: usize) {
        let (a, b, inner) = (&self.left, &self.right, self.parts.len());
        G::small_product(SmallProduct {
            a,
            row_stride: 1,
            inner_stride: width,
            b,
            c: to,
            rows: n,
            inner,
            width,
        });
    }

    /// The product of rows, one per division, with a square.
    fn times(&self, a: &[G], b: &[G], width: usize, n: usize) -> Vec<G> {
        let (rows, mut product) = (self.parts.len(), vec![G::ZERO; a.len()]);
        let c = &mut product;
        G::small_product(SmallProduct { a, row_stride: width, inner_stride: 1, b, c, rows, inner: n, width });
        product
    }
}

impl<G: Number> Dense<G> {
    pub fn new(source: &Source<'_>, longest: usize, unary: bool, parallel: bool) -> Self {
        let symbols = source.scores.symbols();
        let Symbols { all, heads: n, tags } = symbols;
        let tags = if unary { (0, all) } else { (all - tags, tags) };
        let (square, b) = (all * all, source.sentences[0]);
        let (mut weights, mut found) = (Table::filled(G::ZERO, n * square), vec![(0.0, 0.0); n]);
        for_rows(&mut weights, square, &mut found, |k, row, (shift, least)| {
            let (mut logs, slopes) = source.with_slopes(square, |scores, out| scores.rules_of(b, k, out));
            let top = numeric::max(&logs);
            if top > f64::NEG_INFINITY {
                logs.iter_mut().for_each(|x| *x -= top);
                *shift = top;
                *least = spread(&logs);
            }
            exp_all(&logs, &slopes, row);
        });
        let shifts = found.iter().map(|own| own.0).collect();
        let least = found.iter().fold(0.0, |least: f64, own| least.min(own.1));
        let (first, q) = tags;
        let part =
            |k: usize, a: usize, from: usize, length: usize| &weights[(k * all + a) * all + from..][..length];
        // All tables are made of rows of the weights.
        let width = padded_row::<G>(n);
        let mut heads = Table::with_capacity(n * n * width);
        let mut head_tag = Table::with_capacity(n * n * q);
        for k in 0..n {
            for a in 0..n {
                heads.extend_from_slice(part(k, a, 0, n));
                heads.resize((k * n + a + 1) * width, G::ZERO);
                head_tag.extend_from_slice(part(k, a, first, q));
            }
        }
        let (mut tag_head, mut tag_tag) = (Table::with_capacity(q * n * n), Table::with_capacity(q * n * q));
        for t in first..first + q {
            for k in 0..n {
                tag_head.extend_from_slice(part(k, t, 0, n));
                tag_tag.extend_from_slice(part(k, t, first, q));
            }
        }
        let mut by_pair = Table::filled(G::ZERO, heads.len());
        transpose(&heads, n * width, &mut by_pair, n);
        Dense {
            symbols,
            tags,
            longest,
            shifts,
            least,
            width,
            heads,
            by_pair,
            tag_head,
            head_tag,
            tag_tag,
            weights,
            word_head: Default::default(),
            head_word: Default::default(),
            word_tag: Table::default(),
            pairs: Table::default(),
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

    /// The spans that are worked on at once.
    fn block(&self) -> usize {
        (BLOCK / (self.symbols.heads * self.width)).max(1)
    }
}

/// The transpose of a matrix with rows of `columns` numbers, in rows of `width`.
fn transpose<G: Number>(from: &[G], columns: usize, to: &mut [G], width: usize) {
    for (i, row) in from.chunks_exact(columns).enumerate() {
        for (j, &x) in row.iter().enumerate() {
            to[j * width + i] = x;
        }
    }
}

/// Makes a table hold `len` numbers of unspecified values.
fn room<G: Number>(table: &mut Table<G>, len: usize) {
    if table.capacity() < len {
        *table = Table::with_capacity(len);
    }
    table.resize(len, G::ZERO);
}

/// Work on every span of a list, each with its chunks of two buffers, with scratch memory.
fn for_spans<G: Number, U: Send>(
    parallel: bool,
    (rows, size): (&mut [G], usize),
    (others, other_size): (&mut [G], usize),
    more: &mut [U],
    work: impl Fn(&mut Inner<G>, usize, &mut [G], &mut [G], &mut U) + Sync,
) {
    if !parallel || more.len() * other_size < 1 << 13 {
        let mut inner = Inner::new();
        let each = rows.chunks_exact_mut(size).zip(others.chunks_exact_mut(other_size)).zip(more);
        for (at, ((row, other), more)) in each.enumerate() {
            work(&mut inner, at, row, other, more);
        }
        return;
    }
    for_spans_in_parallel((rows, size), (others, other_size), more, &work);
}

type SpanWork<'a, G, U> = dyn Fn(&mut Inner<G>, usize, &mut [G], &mut [G], &mut U) + Sync + 'a;

/// The same in parallel, compiled once for each type of number.
fn for_spans_in_parallel<G: Number, U: Send>(
    (rows, size): (&mut [G], usize),
    (others, other_size): (&mut [G], usize),
    more: &mut [U],
    work: &SpanWork<G, U>,
) {
    let each = rows.par_chunks_exact_mut(size).zip(others.par_chunks_exact_mut(other_size)).zip(more);
    each.enumerate().for_each_init(Inner::new, |inner, (at, ((row, other), more))| {
        work(inner, at, row, other, more);
    });
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

    fn least(&self) -> f64 {
        self.least
    }

    fn words_known(&mut self, chart: &Chart<G>) {
        let (count, (_, q), n) = (chart.cells.word_count(), self.tags, self.symbols.heads);
        let words = Matrix::row_major(&chart.words, count, q);
        for side in 0..2 {
            let mut product = Table::filled(G::ZERO, count * n * n);
            G::multiply(words, self.tag_table(side), &mut product, false, self.parallel);
            self.head_word[side] = Table::filled(G::ZERO, count * n * self.width);
            let each = self.head_word[side].chunks_exact_mut(n * self.width);
            for (to, own) in each.zip(product.chunks_exact(n * n)) {
                transpose(own, n, to, self.width);
            }
            self.word_head[side] = product;
        }
        let mut product = Table::filled(G::ZERO, count * n * q);
        G::multiply(words, Matrix::row_major(&self.tag_tag, q, n * q), &mut product, false, self.parallel);
        self.word_tag = product;
    }

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let (n, width, block) = (self.symbols.heads, self.width, self.block());
        let divided = list.first().is_some_and(|span| span.last - span.first >= 3);
        let mut pairs = std::mem::take(&mut self.pairs);
        let each = list.chunks(block).zip(rows.chunks_mut(block * n)).zip(bases.chunks_mut(block));
        for ((list, rows), bases) in each {
            room(&mut pairs, list.len() * n * width);
            let work = |inner: &mut Inner<G>, at: usize, row: &mut [G], pairs: &mut [G], base: &mut f64| {
                let (divisions, top) = chart.divisions(list[at]);
                *base = top;
                self.add_edges(chart, &divisions, &mut inner.square, row);
                if divided {
                    inner.take(chart, &divisions, width);
                    inner.pairs(pairs, width, n);
                }
            };
            for_spans(self.parallel, (&mut *rows, n), (&mut pairs, n * width), bases, work);
            if divided {
                let pairs = Matrix::row_major(&pairs, list.len(), n * width);
                G::multiply(pairs, Matrix::row_major(&self.by_pair, n * width, n), rows, true, self.parallel);
            }
        }
        self.pairs = pairs;
    }

    fn spans_known(&mut self, _: &Chart<G>, _: usize) {}

    fn heads(&self, row: &[G]) -> Vec<G> {
        row.to_vec()
    }

    fn back(&self, chart: &Chart<G>) -> Back<G> {
        let zeros = |length: usize| Table::filled(G::ZERO, length);
        Back {
            spans: zeros(chart.spans.len()),
            words: zeros(chart.words.len()),
            heads: zeros(self.heads.len()),
            word_head: [zeros(self.word_head[0].len()), zeros(self.word_head[1].len())],
            word_tag: zeros(self.word_tag.len()),
            pairs: Table::default(),
            of_pairs: Table::default(),
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
    /// Adds the sums of the divisions that cut off a single word.
    fn add_edges(
        &self,
        chart: &Chart<G>,
        divisions: &[(Part, Part, G)],
        product: &mut Vec<G>,
        row: &mut [G],
    ) {
        let (n, (_, q), width) = (self.symbols.heads, self.tags, self.width);
        product.resize(n * width, G::ZERO);
        for (word, other, side, weight) in edges(divisions) {
            let own = chart.row(other).0;
            match other {
                Part::Word(_) => {
                    G::add_dots(row, weight, &self.word_tag[word * n * q..(word + 1) * n * q], own);
                }
                Part::Span(_) => {
                    let table = &self.head_word[side][word * n * width..(word + 1) * n * width];
                    let (a, b, c) = (own, table, &mut product[..width]);
                    let (row_stride, inner_stride, rows, inner) = (0, 1, 1, n);
                    G::small_product(SmallProduct { a, row_stride, inner_stride, b, c, rows, inner, width });
                    G::add_scaled(row, weight, c);
                }
            }
        }
    }

    /// The divisions into two spans.
    fn spread_pairs(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], sums: &[G]) {
        let (n, width) = (self.symbols.heads, self.width);
        let derivatives = Matrix::row_major(sums, list.len(), n);
        let heads = Matrix::row_major(&self.heads, n, n * width);
        let (mut pairs, mut of_pairs) = (std::mem::take(&mut back.pairs), std::mem::take(&mut back.of_pairs));
        room(&mut pairs, list.len() * n * width);
        room(&mut of_pairs, list.len() * n * width);
        G::multiply(derivatives, heads, &mut of_pairs, false, self.parallel);
        // The derivatives with respect to the rows of parts, for each division.
        let mut found: Vec<Spread<G>> = Vec::new();
        found.resize_with(list.len(), Default::default);
        let work = |inner: &mut Inner<G>, at: usize, pairs: &mut [G], of_pairs: &mut [G], found: &mut _| {
            inner.take(chart, &chart.divisions(list[at]).0, width);
            inner.pairs(pairs, width, n);
            inner.square.resize(n * width, G::ZERO);
            for (i, row) in of_pairs.chunks_exact(width).enumerate() {
                row[..n].iter().enumerate().for_each(|(j, &x)| inner.square[j * width + i] = x);
            }
            let to_left = inner.times(&inner.right, &inner.square, width, n);
            let to_right = inner.times(&inner.left, of_pairs, width, n);
            *found = (std::mem::take(&mut inner.parts), to_left, to_right);
        };
        let size = n * width;
        for_spans(self.parallel, (&mut pairs, size), (&mut of_pairs, size), &mut found, work);
        let all = Matrix::row_major(&pairs, list.len(), size);
        G::multiply(derivatives.transposed(), all, &mut back.heads, true, self.parallel);
        for (parts, to_left, to_right) in found {
            let rows = to_left.chunks_exact(width).zip(to_right.chunks_exact(width));
            for ((a, b, weight), (to_left, to_right)) in parts.into_iter().zip(rows) {
                G::add_scaled(&mut back.spans[a * n..(a + 1) * n], weight, to_left);
                // The rows on the left were multiplied by the weight already.
                G::add_scaled(&mut back.spans[b * n..(b + 1) * n], G::ONE, to_right);
            }
        }
        (back.pairs, back.of_pairs) = (pairs, of_pairs);
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
            let mut product = Table::filled(G::ZERO, q * width);
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
                add(k, a, 0, &back.heads[at * self.width..at * self.width + n]);
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
