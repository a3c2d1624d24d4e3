//! The scores of a group of sentences, as doubles, with their derivatives in one direction.

use crate::model::hypertree::rules_part as part;
use crate::model::{Hypertree, Rules, Spans, Symbols};
use crate::numeric::{Matrix, Real, multiply};

/// A direction in the space of scores: a sum of multiples of the scores of models. Scores of −∞ count as 0,
/// because they belong to trees of weight 0.
pub type Direction<'a, F> = [(f64, &'a Hypertree<F>)];

/// A model whose precision does not matter.
pub trait Scores: Sync {
    /// The numbers of symbols.
    fn symbols(&self) -> Symbols;
    /// The scores of the tags of a word.
    fn word(&self, b: usize, i: usize, out: &mut [f64]);
    /// The scores of the tags of a word at some places.
    fn chosen_of_word(&self, b: usize, i: usize, places: &[u32], out: &mut [f64]);
    /// The scores of a span with some heads.
    fn chosen_of_span(&self, span: (usize, usize, usize), heads: &[u32], out: &mut [f64]);
    /// The scores of roots.
    fn root(&self, b: usize, out: &mut [f64]);
    /// The scores of several spans: nothing, one number each, or a row for every span.
    fn spans(&self, list: &[(usize, usize, usize)]) -> SpanScores;
    /// The scores of unary rules.
    fn unary(&self) -> Vec<f64>;
    /// The scores of the listed rules.
    fn rules(&self, out: &mut [f64]);
    /// The scores of the dense rules of a head, S×S.
    fn rules_of(&self, b: usize, head: usize, out: &mut [f64]);
    /// The same as they are stored.
    fn plain_rules_of(&self, b: usize, head: usize) -> Plain<'_>;
    /// A row of factors of low-rank rules: of `which` (heads, left or right) symbol `k`.
    fn factor(&self, b: usize, which: usize, k: usize, out: &mut [f64]);
}

/// Scores in the precision of their model.
#[derive(Clone, Copy)]
pub enum Plain<'a> {
    None,
    Single(&'a [f32]),
    Double(&'a [f64]),
}

impl<'a> Plain<'a> {
    fn new<F: Real>(values: &'a [F]) -> Self {
        match (F::as_single(values), F::as_double(values)) {
            (Some(values), _) => Plain::Single(values),
            (_, Some(values)) => Plain::Double(values),
            _ => Plain::None,
        }
    }
}

/// The scores of several spans.
pub enum SpanScores {
    /// There are none.
    None,
    /// One per span.
    Each(Vec<f64>),
    /// One per span and symbol.
    Rows(Vec<f64>),
}

fn copy<F: Real>(from: &[F], out: &mut [f64]) {
    for (out, x) in out.iter_mut().zip(from) {
        *out = x.to_f64();
    }
}

impl<F: Real> Scores for Hypertree<F> {
    fn symbols(&self) -> Symbols {
        Hypertree::symbols(self)
    }

    fn word(&self, b: usize, i: usize, out: &mut [f64]) {
        copy(Hypertree::word(self, b, i), out);
    }

    fn chosen_of_word(&self, b: usize, i: usize, places: &[u32], out: &mut [f64]) {
        let own = Hypertree::word(self, b, i);
        out.iter_mut().zip(places).for_each(|(out, &place)| *out = own[place as usize].to_f64());
    }

    fn chosen_of_span(&self, (b, i, j): (usize, usize, usize), heads: &[u32], out: &mut [f64]) {
        out.iter_mut().zip(heads).for_each(|(out, &k)| *out = self.span(b, i, j, k as usize));
    }

    fn root(&self, b: usize, out: &mut [f64]) {
        copy(Hypertree::root(self, b), out);
    }

    fn spans(&self, list: &[(usize, usize, usize)]) -> SpanScores {
        let (positions, heads) = (self.positions(), Hypertree::symbols(self).heads);
        let at = |&(b, i, j): &(usize, usize, usize)| (b * positions + i) * positions + j;
        let rows = |values: &[F], size: usize| -> Vec<f64> {
            let mut rows = vec![0.0; list.len() * size];
            for (row, span) in rows.chunks_exact_mut(size).zip(list) {
                copy(&values[at(span) * size..], row);
            }
            rows
        };
        match Hypertree::spans(self) {
            Spans::None => SpanScores::None,
            Spans::PerSpan(values) => SpanScores::Each(rows(values, 1)),
            Spans::PerSymbol(values) => SpanScores::Rows(rows(values, heads)),
            Spans::Factored { spans, symbols } => {
                let size = symbols.len() / heads;
                let (spans, symbols) =
                    (rows(spans, size), symbols.iter().map(|x| x.to_f64()).collect::<Vec<_>>());
                let mut scores = vec![0.0; list.len() * heads];
                let left = Matrix::row_major(&spans, list.len(), size);
                multiply(left, Matrix::row_major(&symbols, heads, size).transposed(), &mut scores, false);
                SpanScores::Rows(scores)
            }
        }
    }

    fn unary(&self) -> Vec<f64> {
        Hypertree::unary(self).map_or(Vec::new(), |unary| unary.scores().iter().map(|x| x.to_f64()).collect())
    }

    fn rules(&self, out: &mut [f64]) {
        if let Rules::Sparse { scores, .. } = Hypertree::rules(self) {
            copy(scores, out);
        }
    }

    fn rules_of(&self, b: usize, head: usize, out: &mut [f64]) {
        let Symbols { all, heads, .. } = Hypertree::symbols(self);
        if let Rules::Dense(values) = Hypertree::rules(self) {
            copy(&part(values, heads * all * all, b)[head * all * all..], out);
        }
    }

    fn plain_rules_of(&self, b: usize, head: usize) -> Plain<'_> {
        let Symbols { all, heads, .. } = Hypertree::symbols(self);
        match Hypertree::rules(self) {
            Rules::Dense(values) => {
                Plain::new(&part(values, heads * all * all, b)[head * all * all..(head + 1) * all * all])
            }
            _ => Plain::None,
        }
    }

    fn factor(&self, b: usize, which: usize, k: usize, out: &mut [f64]) {
        let Symbols { all, heads: count, .. } = Hypertree::symbols(self);
        match Hypertree::rules(self) {
            Rules::LowRank { rank, heads, left, right } => {
                let (values, rows) = [(heads, count), (left, all), (right, all)][which];
                copy(&part(values, rows * rank, b)[k * rank..], out);
            }
            _ => out.fill(0.0),
        }
    }
}

/// The scores of a group of sentences and their derivatives.
pub struct Source<'a> {
    /// The model.
    pub scores: &'a dyn Scores,
    /// The models whose scores make up the direction.
    pub direction: Vec<(f64, &'a dyn Scores)>,
    /// The sentences of the group.
    pub sentences: &'a [usize],
}

impl Source<'_> {
    /// Scores and slopes; slopes are empty without a direction.
    pub fn with_slopes(&self, length: usize, read: impl Fn(&dyn Scores, &mut [f64])) -> (Vec<f64>, Vec<f64>) {
        let mut scores = vec![0.0; length];
        read(self.scores, &mut scores);
        let slopes = self.slopes(length, read);
        (scores, slopes)
    }

    /// The slopes alone; empty without a direction.
    pub fn slopes(&self, length: usize, read: impl Fn(&dyn Scores, &mut [f64])) -> Vec<f64> {
        if self.direction.is_empty() {
            return Vec::new();
        }
        let (mut slopes, mut own) = (vec![0.0; length], vec![0.0; length]);
        for (factor, other) in &self.direction {
            read(*other, &mut own);
            let finite = |x: f64| if x > f64::NEG_INFINITY { factor * x } else { 0.0 };
            slopes.iter_mut().zip(&own).for_each(|(slope, &x)| *slope += finite(x));
        }
        slopes
    }

    /// The scores of spans and their slopes, of the same form.
    pub fn spans(&self, list: &[(usize, usize, usize)]) -> (SpanScores, Vec<f64>) {
        let scores = self.scores.spans(list);
        let length = match &scores {
            SpanScores::None => 0,
            SpanScores::Each(own) | SpanScores::Rows(own) => own.len(),
        };
        let slopes = self.slopes(length, |source, out| match source.spans(list) {
            SpanScores::None => out.fill(0.0),
            SpanScores::Each(own) | SpanScores::Rows(own) => out.copy_from_slice(&own),
        });
        (scores, slopes)
    }
}
