//! Dense rules for a few chosen symbols of every word and span.
//!
//! With the chosen symbols C(i, j) and rows of their inside values only,
//!
//!   inside(i, j, k) = Σ_m Σ_{a ∈ C(i, m)} Σ_{b ∈ C(m + 1, j)} W(k, a, b)·inside(i, m, a)·inside(m + 1, j, b)
//!
//! for k in C(i, j): K³ operations for each division and T³·K³/6 in all, with one set of weights for all charts.
//! They read single weights, mostly from outside the cache, and so take about 60 times as long each as those of the
//! matrix products of [`Dense`](super::dense::Dense), which need T²·N³/2; [`pays`] compares the two. All spans of one
//! width with the same head are done together, because the weights of one head fit into the cache.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;

use super::cells::{Part, Span};
use super::chart::{Chart, Core, for_rows};
use super::choices::RowSymbols;
use super::dense::Weights;
use super::number::Number;
use crate::model::Symbols;

/// Spans whose derivatives are kept at once.
pub const BLOCK: usize = 16;

/// The time of a sum over single weights relative to that of a matrix product, per operation.
pub const PER_WEIGHT: f64 = 60.0;

/// Numbers of heads for which matrix products have no advantage.
const FEW: usize = 16;

/// Whether sums over K chosen symbols take less time than matrix products over all, for sentences of T words.
pub fn pays(words: usize, heads: usize, chosen: usize) -> bool {
    let (t, n, k) = (words as f64, heads as f64, chosen as f64);
    heads <= FEW || t * k.powi(3) / 6.0 * PER_WEIGHT <= n.powi(3) / 2.0
}

/// Dense rules and the chosen symbols of a chart.
pub struct KeptDense<G: Number> {
    symbols: Symbols,
    longest: usize,
    table: Arc<Weights<G>>,
}

/// The derivatives of an outside pass.
pub struct Back<G> {
    spans: Vec<G>,
    words: Vec<G>,
    /// With respect to the sums of spans.
    sums: Vec<G>,
}

/// The rows of both parts of a division, with its factor.
struct Division<'a, G> {
    parts: (Part, Part),
    left: (&'a [G], RowSymbols<'a>),
    /// The numbers on the right, the first possible symbol, and the places of the symbols after it.
    right: (&'a [G], usize, &'a [u32]),
    weight: G,
}

/// Σ_b weights_b·x_b over some places b, in four sums that do not wait for each other.
fn dot_at<G: Number>(weights: &[G], places: &[u32], x: &[G]) -> G {
    let mut sums = [G::ZERO; 4];
    let ((places, places_rest), (x, x_rest)) = (places.as_chunks::<4>(), x.as_chunks::<4>());
    for (places, x) in places.iter().zip(x) {
        for i in 0..4 {
            sums[i] = sums[i].plus(weights[places[i] as usize].times(x[i]));
        }
    }
    for (i, (&place, &x)) in places_rest.iter().zip(x_rest).enumerate() {
        sums[i] = sums[i].plus(weights[place as usize].times(x));
    }
    sums[0].plus(sums[1]).plus(sums[2].plus(sums[3]))
}

impl<G: Number> Division<'_, G> {
    /// Σ_ab W(k, a, b)·left(a)·right(b) times the factor, given the weights of a head, S×S.
    fn sum(&self, weights: &[G], all: usize) -> G {
        let ((values, symbols), (right, first, places)) = (self.left, self.right);
        let mut sum = G::ZERO;
        for (at, &x) in values.iter().enumerate() {
            let row = &weights[symbols.symbol(at) * all..][first..all];
            sum = sum.plus(x.times(dot_at(row, places, right)));
        }
        self.weight.times(sum)
    }
}

impl<G: Number> KeptDense<G> {
    pub fn new(symbols: Symbols, table: Arc<Weights<G>>, longest: usize) -> Self {
        KeptDense { symbols, longest, table }
    }

    /// The weights of the pairs of a head, S×S.
    pub fn weights(&self, head: usize) -> &[G] {
        let square = self.symbols.all * self.symbols.all;
        &self.table.weights[head * square..(head + 1) * square]
    }

    /// The divisions of a span, and the logarithm of the largest factor.
    fn divisions<'a>(&self, chart: &'a Chart<G>, span: Span) -> (Vec<Division<'a, G>>, f64) {
        let (divisions, top) = chart.divisions(span);
        let of = |(left, right, weight): (Part, Part, G)| {
            let (row, first, places) = match chart.row(right) {
                (row, RowSymbols::Chosen { first, places }) => (row, first, places),
                (_, RowSymbols::From(first)) => (&[][..], first, &[][..]),
            };
            Division { parts: (left, right), left: chart.row(left), right: (row, first, places), weight }
        };
        (divisions.into_iter().map(of).collect(), top)
    }

    /// The symbols of the row of a span.
    fn chosen<'a>(&self, chart: &'a Chart<G>, span: Span) -> &'a [u32] {
        chart.compact().map_or(&[], |choices| &choices.of(span).states)
    }

    /// The derivatives with respect to both rows of every division.
    fn to_parts(&self, chart: &Chart<G>, span: Span, sums: &[G]) -> Vec<(Part, Vec<G>)> {
        let (divisions, _) = self.divisions(chart, span);
        let all = self.symbols.all;
        let size = |own: &Division<'_, G>| own.left.0.len() * own.right.0.len();
        let mut pairs = vec![G::ZERO; divisions.iter().map(size).sum()];
        // The weights of one head after the other, because they fit into the cache.
        for (&k, &sum) in self.chosen(chart, span).iter().zip(sums).filter(|(_, sum)| !sum.is_zero()) {
            let (weights, mut rest) = (self.weights(k as usize), &mut pairs[..]);
            for own in &divisions {
                let (_, first, places) = own.right;
                let (here, after) = rest.split_at_mut(size(own));
                rest = after;
                for (at, to) in here.chunks_exact_mut(places.len().max(1)).enumerate() {
                    let row = &weights[own.left.1.symbol(at) * all..][first..all];
                    for (to, &b) in to.iter_mut().zip(places) {
                        *to = to.plus(sum.times(row[b as usize]));
                    }
                }
            }
        }
        let (mut found, mut rest) = (Vec::with_capacity(2 * divisions.len()), &pairs[..]);
        for own in &divisions {
            let ((left, _), (right, ..)) = (own.left, own.right);
            let (here, after) = rest.split_at(size(own));
            rest = after;
            let (mut to_left, mut to_right) = (vec![G::ZERO; left.len()], vec![G::ZERO; right.len()]);
            let each = here.chunks_exact(right.len().max(1)).zip(left).zip(&mut to_left);
            for ((pairs, &x), to) in each {
                *to = own.weight.times(G::dot(pairs, right));
                G::add_scaled(&mut to_right, own.weight.times(x), pairs);
            }
            found.extend([(own.parts.0, to_left), (own.parts.1, to_right)]);
        }
        found
    }

    /// The derivatives with respect to the scores of rules, N×S×S.
    pub fn gradient(&self, back: &Back<G>, chart: &Chart<G>) -> Vec<G> {
        let Symbols { all, heads, .. } = self.symbols;
        // The spans with each head: the number of the span and the place of the head in its row.
        let mut with: Vec<Vec<(usize, usize)>> = vec![Vec::new(); heads];
        let mut divided = Vec::new();
        for width in 1..chart.cells.longest() {
            for (span, at) in chart.cells.list(width).into_iter().zip(chart.cells.of_width(width)) {
                let places = self.chosen(chart, span).iter().enumerate();
                places.for_each(|(place, &k)| with[k as usize].push((at, place)));
                divided.push(span);
            }
        }
        let mut gradient = crate::numeric::filled(G::ZERO, heads * all * all);
        for_rows(&mut gradient, all * all, &mut with, |k, to, with| {
            for &(at, place) in with.iter() {
                let sum = back.sums[at * chart.size + place];
                if sum.is_zero() {
                    continue;
                }
                for own in self.divisions(chart, divided[at]).0 {
                    let (values, first, places) = own.right;
                    for (place, &x) in own.left.0.iter().enumerate() {
                        let x = x.times(own.weight).times(sum);
                        let row = &mut to[own.left.1.symbol(place) * all..][first..all];
                        for (&y, &b) in values.iter().zip(places) {
                            row[b as usize] = row[b as usize].plus(x.times(y));
                        }
                    }
                }
            }
            G::scale_each(to, self.weights(k));
        });
        gradient
    }
}

impl<G: Number> Core<G> for KeptDense<G> {
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

    fn words_known(&mut self, _: &Chart<G>) {}

    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]) {
        let (all, size) = (self.symbols.all, chart.size);
        let found: Vec<_> = list.par_iter().map(|&span| self.divisions(chart, span)).collect();
        // The spans with each head, and the place of the head in their rows.
        let mut with: Vec<Vec<(usize, usize)>> = vec![Vec::new(); self.symbols.heads];
        for (at, (&span, base)) in list.iter().zip(bases).enumerate() {
            *base = found[at].1;
            let places = self.chosen(chart, span).iter().enumerate();
            places.for_each(|(place, &k)| with[k as usize].push((at, place)));
        }
        let of_head = |(k, with): (usize, &Vec<(usize, usize)>)| -> Vec<G> {
            let weights = self.weights(k);
            let sum = |at: usize| found[at].0.iter().map(|own| own.sum(weights, all)).fold(G::ZERO, G::plus);
            with.iter().map(|&(at, _)| sum(at)).collect()
        };
        let sums: Vec<Vec<G>> = match list.len() * size.pow(3) < 1 << 13 {
            true => with.iter().enumerate().map(of_head).collect(),
            false => with.par_iter().enumerate().map(of_head).collect(),
        };
        for ((at, place), sum) in with.iter().flatten().zip(sums.into_iter().flatten()) {
            rows[at * size + place] = sum;
        }
    }

    fn spans_known(&mut self, _: &Chart<G>, _: usize) {}

    fn heads(&self, row: &[G]) -> Vec<G> {
        row.to_vec()
    }

    fn back(&self, chart: &Chart<G>) -> Back<G> {
        let zeros = |length: usize| vec![G::ZERO; length];
        let spans = chart.spans.len();
        Back { spans: zeros(spans), words: zeros(chart.words.len()), sums: zeros(spans) }
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
        if let Some(&Span { sentence, first, last }) = list.first()
            && let Part::Span(start) = chart.cells.part(sentence, first, last)
        {
            back.sums[start * size..][..sums.len()].copy_from_slice(sums);
        }
        for (list, sums) in list.chunks(BLOCK).zip(sums.chunks(BLOCK * size)) {
            let work = |(&span, sums): (&Span, &[G])| self.to_parts(chart, span, sums);
            let found: Vec<_> = list.par_iter().zip(sums.par_chunks_exact(size)).map(work).collect();
            for (part, values) in found.into_iter().flatten() {
                let to = match part {
                    Part::Word(at) => &mut back.words[at * chart.tags..][..values.len()],
                    Part::Span(at) => &mut back.spans[at * size..][..values.len()],
                };
                G::add_scaled(to, G::ONE, &values);
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
