//! Dense rules: a weight W(k, a, b) for every head and pair.
//!
//! X(a, b) = Σ_m inside(i, m, a)·inside(m + 1, j, b) is a small matrix product for each span, and the sums of
//! all spans of one width are one product, X·Wᵀ. Divisions that cut off a single word are cheaper: with
//! Aᵢ(k, b) = Σ_t W(k, t, b)·word(i, t), computed once for each word, they are the product of a matrix and a
//! row. So T³·N² + T²·N³ operations remain for N heads, and T·N²·P for P tags.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, for_rows};
use super::multiplier::{exp_all, spread};
use super::number::Number;
use super::source::Source;
use crate::model::Symbols;
use crate::numeric::{self, Matrix, SmallProduct, Table, padded_row};

/// Numbers of X that are formed at once.
pub const BLOCK: usize = 1 << 22;

/// The largest number of weights of heads for which products are formed without packing.
const SMALL: usize = 1 << 17;

/// Dense rules, each head divided by its largest weight, and their sums over words.
pub struct Dense<G: Number> {
    symbols: Symbols,
    tags: (usize, usize),
    longest: usize,
    table: Arc<Weights<G>>,
    /// The length of padded rows of heads.
    width: usize,
    squares: Arc<Squares<G>>,
    /// Sums over the tags of a word on the left, Σ_t W(k, t, b)·word(t), words×N×S, with S padded to `stride`, and
    /// of a word on the right, Σ_t W(k, a, t)·word(t), words×N×N, with the last N padded to `width`. The padding
    /// has unspecified values.
    stride: usize,
    left: Table<G>,
    right: Table<G>,
    /// Both for heads, by a and k, with k padded.
    head_word: [Table<G>; 2],
    /// X of a block of spans.
    pairs: Table<G>,
    parallel: bool,
}

/// The weights of all rules, each head divided by its largest.
pub struct Weights<G: Number> {
    /// N×S×S.
    pub weights: Table<G>,
    /// ln of the largest weight of each head.
    pub shifts: Vec<f64>,
    /// ln of the smallest weight that is not 0.
    pub least: f64,
}

impl<G: Number> Weights<G> {
    pub fn new(source: &Source<'_>) -> Self {
        let Symbols { all, heads: n, .. } = source.scores.symbols();
        let (square, b) = (all * all, source.sentences[0]);
        let (mut weights, mut found) = (Table::unspecified(G::ZERO, n * square), vec![(0.0, 0.0); n]);
        let plain = source.direction.is_empty();
        for_rows(&mut weights, square, &mut found, |k, row, (shift, least)| {
            if plain && let Some(own) = G::exp_scores(source.scores.plain_rules_of(b, k), row) {
                (*shift, *least) = own;
                return;
            }
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
        Weights { weights, shifts, least }
    }
}

/// The weights of pairs of heads, for matrix products.
pub struct Squares<G: Number> {
    /// W(k, a, b) for heads a and b, N×(N·width), with b padded to `width`, and its transpose, with k padded.
    heads: Table<G>,
    by_pair: Table<G>,
}

impl<G: Number> Squares<G> {
    pub fn new(Symbols { all, heads: n, .. }: Symbols, weights: &[G]) -> Self {
        let part = |k: usize, a: usize| &weights[(k * all + a) * all..][..n];
        let width = padded_row::<G>(n);
        let mut heads = Table::with_capacity(n * n * width);
        for k in 0..n {
            for a in 0..n {
                heads.extend_from_slice(part(k, a));
                heads.resize((k * n + a + 1) * width, G::ZERO);
            }
        }
        let mut by_pair = Table::filled(G::ZERO, n * width * width);
        transpose(&heads, n * width, &mut by_pair, width);
        Squares { heads, by_pair }
    }
}

/// The derivatives of an outside pass.
pub struct Back<G: Number> {
    spans: Table<G>,
    words: Table<G>,
    heads: Table<G>,
    /// As in [`Dense`].
    left: Table<G>,
    right: Table<G>,
    /// X of a block of spans, and the derivatives with respect to it.
    pairs: Table<G>,
    of_pairs: Table<G>,
    /// The derivatives with respect to the rows of the parts of spans.
    parts: Table<G>,
}

/// The parts of the divisions of a span with their factors, and the derivatives with respect to their rows on
/// the left and on the right.
type Spread<'a, G> = (Vec<(usize, usize, G)>, &'a mut [G]);

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
        self.parts.clear();
        self.parts.extend(divisions.iter().filter_map(|&(a, b, weight)| match (a, b) {
            (Part::Span(a), Part::Span(b)) => Some((a, b, weight)),
            _ => None,
        }));
        // The padding stays zero.
        for rows in [&mut self.left, &mut self.right] {
            rows.resize(self.parts.len() * width, G::ZERO);
        }
        let rows = self.left.chunks_exact_mut(width).zip(self.right.chunks_exact_mut(width));
        for (&(a, b, weight), (left, right)) in self.parts.iter().zip(rows) {
            let (a, b) = (chart.span(a), chart.span(b));
            left[..a.len()].iter_mut().zip(a).for_each(|(to, x)| *to = x.times(weight));
            right[..b.len()].copy_from_slice(b);
        }
    }

    /// X, the sum over divisions of left times right.
    fn pairs(&self, to: &mut [G], width: usize, n: usize) {
        let size = [n, self.parts.len(), width];
        G::small_product(SmallProduct::new((&self.left, 1, width), &self.right, to, size));
    }

    /// The product of rows, one per division, with a square.
    fn times(&self, a: &[G], b: &[G], c: &mut [G], width: usize, n: usize) {
        G::small_product(SmallProduct::new((a, width, 1), b, c, [self.parts.len(), n, width]));
    }

    /// Makes `square` the transpose of a square with padded rows, four rows at a time.
    fn transpose(&mut self, from: &[G], width: usize, n: usize) {
        self.square.resize(n * width, G::ZERO);
        for (i, rows) in from[..n * width].chunks(4 * width).enumerate() {
            let count = rows.len() / width;
            for (j, to) in self.square.chunks_exact_mut(width).enumerate() {
                if count == 4 {
                    let four = [rows[j], rows[width + j], rows[2 * width + j], rows[3 * width + j]];
                    to.as_chunks_mut::<4>().0[i] = four;
                } else {
                    (0..count).for_each(|r| to[4 * i + r] = rows[r * width + j]);
                }
            }
        }
    }
}

impl<G: Number> Dense<G> {
    pub fn new(
        symbols: Symbols,
        (table, squares): (Arc<Weights<G>>, Arc<Squares<G>>),
        longest: usize,
        unary: bool,
        parallel: bool,
    ) -> Self {
        let Symbols { all, heads: n, tags } = symbols;
        Dense {
            symbols,
            tags: if unary { (0, all) } else { (all - tags, tags) },
            longest,
            width: padded_row::<G>(n),
            squares,
            stride: padded_row::<G>(all),
            table,
            left: Table::default(),
            right: Table::default(),
            head_word: Default::default(),
            pairs: Table::default(),
            parallel,
        }
    }

    /// The rules of a head with a tag on the left, Q×S.
    fn tags_left(&self, k: usize) -> Matrix<'_, G> {
        let (all, (first, q)) = (self.symbols.all, self.tags);
        Matrix::row_major(&self.table.weights[(k * all + first) * all..][..q * all], q, all)
    }

    /// The rules of a head with a head on the left and a tag on the right, N×Q.
    fn tags_right(&self, k: usize) -> Matrix<'_, G> {
        let (Symbols { all, heads: n, .. }, (first, q)) = (self.symbols, self.tags);
        Matrix::row_major(&self.weights(k)[..n * all], n, all).columns(first..first + q)
    }

    /// The numbers of head k in `left` and in `right`, or in their derivatives, one row per word.
    fn of_head<'a>(&self, k: usize, left: &'a [G], right: &'a [G]) -> [Matrix<'a, G>; 2] {
        let Symbols { all, heads: n, .. } = self.symbols;
        [(left, all, self.stride), (right, n, self.width)].map(|(table, size, stride)| {
            let rows = Matrix::row_major(table, table.len() / (n * stride), n * stride);
            rows.columns(k * stride..k * stride + size)
        })
    }

    /// The weights of the pairs of a head, S×S.
    pub fn weights(&self, head: usize) -> &[G] {
        let square = self.symbols.all * self.symbols.all;
        &self.table.weights[head * square..(head + 1) * square]
    }

    /// Whether products with the weights of heads need no packing: they fit into the second-level cache, and
    /// there is one thread.
    fn small(&self) -> bool {
        !self.parallel && self.squares.heads.len() <= SMALL
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
        *table = Table::unspecified(G::ZERO, len);
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
fn edges<G: Number>(
    divisions: impl Iterator<Item = (Part, Part, G)>,
) -> impl Iterator<Item = (usize, Part, usize, G)> {
    divisions.filter_map(|(left, right, weight)| match (left, right) {
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
        &self.table.shifts
    }

    fn terms(&self) -> f64 {
        8.0 * (self.symbols.all * self.symbols.all * self.longest) as f64
    }

    fn least(&self) -> f64 {
        self.table.least
    }

    fn words_known(&mut self, chart: &Chart<G>) {
        let (count, (_, q), n) = (chart.cells.word_count(), self.tags, self.symbols.heads);
        let (width, stride) = (self.width, self.stride);
        let words = Matrix::row_major(&chart.words, count, q);
        let mut left = Table::unspecified(G::ZERO, count * n * stride);
        let mut right = Table::unspecified(G::ZERO, count * n * width);
        for k in 0..n {
            let to = (&mut left[k * stride..], n * stride);
            G::multiply_rows(words, self.tags_left(k), to, false, self.parallel);
            let to = (&mut right[k * width..], n * width);
            G::multiply_rows(words, self.tags_right(k).transposed(), to, false, self.parallel);
        }
        for (side, (table, size)) in [(&left, stride), (&right, width)].into_iter().enumerate() {
            self.head_word[side] = Table::filled(G::ZERO, count * n * self.width);
            let each = self.head_word[side].chunks_exact_mut(n * self.width);
            for (to, own) in each.zip(table.chunks_exact(n * size)) {
                for (k, row) in own.chunks_exact(size).enumerate() {
                    row[..n].iter().enumerate().for_each(|(a, &x)| to[a * self.width + k] = x);
                }
            }
        }
        (self.left, self.right) = (left, right);
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
                self.add_sums(&pairs, rows);
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
            heads: zeros(self.squares.heads.len()),
            left: zeros(self.left.len()),
            right: zeros(self.right.len()),
            pairs: Table::default(),
            of_pairs: Table::default(),
            parts: Table::default(),
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
        let (n, (first, q), width) = (self.symbols.heads, self.tags, self.width);
        let (mut weighted, mut row, mut product) =
            (vec![G::ZERO; n], vec![G::ZERO; width], vec![G::ZERO; width]);
        for (&span, sums) in list.iter().zip(sums.chunks_exact(n)) {
            for (word, other, side, weight) in edges(chart.edges(span)) {
                let own = chart.row(other).0;
                let (table, derivative, stride) = match side {
                    0 => (&self.left, &mut back.left, self.stride),
                    _ => (&self.right, &mut back.right, width),
                };
                let range = word * n * stride..(word + 1) * n * stride;
                let (table, derivative) = (&table[range.clone()], &mut derivative[range]);
                match other {
                    Part::Word(at) => {
                        let to = &mut back.words[at * q..(at + 1) * q];
                        let (table, derivative) = (&table[first..], &mut derivative[first..]);
                        G::spread_dots((to, derivative), weight, sums, (table, stride), own);
                    }
                    Part::Span(at) => {
                        weighted.iter_mut().zip(sums).for_each(|(to, x)| *to = x.times(weight));
                        row[..n].copy_from_slice(own);
                        let task = SmallProduct::new((&weighted, 0, 1), table, &mut product, [1, n, width]);
                        G::small_product(SmallProduct { b_stride: stride, ..task });
                        G::add_scaled(&mut back.spans[at * n..(at + 1) * n], G::ONE, &product);
                        let task = SmallProduct::new((&weighted, 1, 0), &row, derivative, [n, 1, width]);
                        G::small_product(SmallProduct { c_stride: stride, accumulate: true, ..task });
                    }
                }
            }
        }
        let divided = list.first().is_some_and(|span| span.last - span.first >= 3);
        for (list, sums) in list.chunks(self.block()).zip(sums.chunks(self.block() * n)).filter(|_| divided) {
            self.spread_pairs(back, chart, list, sums);
        }
    }

    fn gather_words(&self, back: &mut Back<G>, _: &Chart<G>, rows: &mut [G]) {
        rows.copy_from_slice(&back.words);
        for k in 0..self.symbols.heads {
            let [left, right] = self.of_head(k, &back.left, &back.right);
            G::multiply(left, self.tags_left(k).transposed(), rows, true, self.parallel);
            G::multiply(right, self.tags_right(k), rows, true, self.parallel);
        }
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
        let (n, (first, _), width, stride) = (self.symbols.heads, self.tags, self.width, self.stride);
        product.resize(width, G::ZERO);
        for (word, other, side, weight) in edges(divisions.iter().copied()) {
            let own = chart.row(other).0;
            match other {
                Part::Word(_) => {
                    let table = &self.left[word * n * stride + first..(word + 1) * n * stride];
                    G::add_dots(row, weight, (table, stride), own);
                }
                Part::Span(_) => {
                    let table = &self.head_word[side][word * n * width..(word + 1) * n * width];
                    G::small_product(SmallProduct::new((own, 0, 1), table, product, [1, n, width]));
                    G::add_scaled(row, weight, product);
                }
            }
        }
    }

    /// Adds X·Wᵀ to the sums of spans, for the rows of X in `pairs`.
    fn add_sums(&self, pairs: &[G], sums: &mut [G]) {
        let (n, width) = (self.symbols.heads, self.width);
        let (rows, inner) = (sums.len() / n, n * width);
        if !self.small() {
            let weights = Matrix::row_major(&self.squares.by_pair, inner, width).columns(0..n);
            return G::multiply(Matrix::row_major(pairs, rows, inner), weights, sums, true, self.parallel);
        }
        let mut product = vec![G::ZERO; rows * width];
        let task =
            SmallProduct::new((pairs, inner, 1), &self.squares.by_pair, &mut product, [rows, inner, width]);
        G::small_product(task);
        for (sums, own) in sums.chunks_exact_mut(n).zip(product.chunks_exact(width)) {
            G::add_scaled(sums, G::ONE, &own[..n]);
        }
    }

    /// The derivatives with respect to X, from those with respect to sums.
    fn of_pairs(&self, sums: &[G], to: &mut [G]) {
        let (n, width) = (self.symbols.heads, self.width);
        let rows = sums.len() / n;
        if !self.small() {
            let derivatives = Matrix::row_major(sums, rows, n);
            let heads = Matrix::row_major(&self.squares.heads, n, n * width);
            return G::multiply(derivatives, heads, to, false, self.parallel);
        }
        G::small_product(SmallProduct::new((sums, n, 1), &self.squares.heads, to, [rows, n, n * width]));
    }

    /// Adds the derivatives with respect to the weights of heads.
    fn add_heads(&self, sums: &[G], pairs: &[G], to: &mut [G]) {
        let (n, width) = (self.symbols.heads, self.width);
        let inner = sums.len() / n;
        if !self.small() {
            let derivatives = Matrix::row_major(sums, inner, n).transposed();
            let pairs = Matrix::row_major(pairs, inner, n * width);
            return G::multiply(derivatives, pairs, to, true, self.parallel);
        }
        let task = SmallProduct::new((sums, 1, n), pairs, to, [n, inner, n * width]);
        G::small_product(SmallProduct { accumulate: true, ..task });
    }

    /// The divisions into two spans.
    fn spread_pairs(&self, back: &mut Back<G>, chart: &Chart<G>, list: &[Span], sums: &[G]) {
        let (n, width) = (self.symbols.heads, self.width);
        let (mut pairs, mut of_pairs) = (std::mem::take(&mut back.pairs), std::mem::take(&mut back.of_pairs));
        let (size, spans) = (n * width, |width: usize| chart.cells.of_width(width).len().min(self.block()));
        room(&mut pairs, spans(3) * size);
        room(&mut of_pairs, spans(3) * size);
        let (own_pairs, of_own) = (&mut pairs[..list.len() * size], &mut of_pairs[..list.len() * size]);
        self.of_pairs(sums, of_own);
        // The derivatives with respect to the rows of parts, for each division.
        let most = list.first().map_or(0, |span| span.last - span.first - 2) * width;
        let mut of_parts = std::mem::take(&mut back.parts);
        let widest = (3..chart.cells.longest()).map(|width| spans(width) * (width - 2)).max();
        room(&mut of_parts, 2 * width * widest.unwrap_or(0));
        let each = of_parts.chunks_exact_mut(2 * most).take(list.len());
        let mut found: Vec<Spread<'_, G>> = each.map(|own| (Vec::new(), own)).collect();
        let work = |inner: &mut Inner<G>,
                    at: usize,
                    pairs: &mut [G],
                    of_pairs: &mut [G],
                    found: &mut Spread<'_, G>| {
            inner.take(chart, &chart.divisions(list[at]).0, width);
            inner.pairs(pairs, width, n);
            inner.transpose(of_pairs, width, n);
            let (to_left, to_right) = found.1.split_at_mut(most);
            inner.times(&inner.right, &inner.square, to_left, width, n);
            inner.times(&inner.left, of_pairs, to_right, width, n);
            found.0 = std::mem::take(&mut inner.parts);
        };
        for_spans(self.parallel, (&mut *own_pairs, size), (of_own, size), &mut found, work);
        self.add_heads(sums, own_pairs, &mut back.heads);
        for (parts, derivatives) in found {
            let (to_left, to_right) = derivatives.split_at(most);
            let rows = to_left.chunks_exact(width).zip(to_right.chunks_exact(width));
            for ((a, b, weight), (to_left, to_right)) in parts.into_iter().zip(rows) {
                G::add_scaled(&mut back.spans[a * n..(a + 1) * n], weight, to_left);
                // The rows on the left were multiplied by the weight already.
                G::add_scaled(&mut back.spans[b * n..(b + 1) * n], G::ONE, to_right);
            }
        }
        back.parts = of_parts;
        (back.pairs, back.of_pairs) = (pairs, of_pairs);
    }

    /// The derivatives with respect to the scores of rules, N×S×S.
    pub fn gradient(&self, back: &Back<G>, chart: &Chart<G>) -> Vec<G> {
        let Symbols { all, heads: n, .. } = self.symbols;
        let (count, (first, q)) = (chart.cells.word_count(), self.tags);
        let mut gradient = Table::unspecified(G::ZERO, self.table.weights.len());
        let words = Matrix::row_major(&chart.words, count, q);
        let mut product = vec![G::ZERO; n * q];
        for (k, own) in gradient.chunks_exact_mut(all * all).enumerate() {
            let weights = self.weights(k);
            let [left, right] = self.of_head(k, &back.left, &back.right);
            // Rows of tags on the left, then, added, those of heads.
            own[..first * all].fill(G::ZERO);
            G::multiply(words.transposed(), left, &mut own[first * all..], false, self.parallel);
            G::scale_each(&mut own[first * all..], &weights[first * all..]);
            G::multiply(right.transposed(), words, &mut product, false, self.parallel);
            for a in 0..n {
                let (own, weights) = (&mut own[a * all..(a + 1) * all], &weights[a * all..(a + 1) * all]);
                let at = (k * n + a) * self.width;
                G::add_products(&mut own[..n], G::ONE, &back.heads[at..at + n], &weights[..n]);
                let row = &product[a * q..(a + 1) * q];
                G::add_products(&mut own[first..], G::ONE, row, &weights[first..]);
            }
        }
        gradient.into_vec()
    }
}
