//! The inside and outside passes over the spans of a group of sentences, for any form of rules and any kind of
//! numbers.
//!
//! For a span (i, j) and a symbol k, inside(i, j, k) is the sum over trees of the words i … j whose root is k.
//! A row of inside values is stored divided by its largest, with the logarithm of that beside it. outside is
//! the derivative of log Z with respect to such a row; their product is the expected number of nodes.
//!
//! Two conditions show that nothing was lost by underflow. The first holds if, for every span, no product of
//! factors that are not 0 underflows, by their smallest values, or every sum is large enough. Then a zero is a
//! zero of the model. The second is that the sum of all derivatives times the largest possible loss ε is small.
//! Derivatives can underflow, too, and what they lose grows from a span to its parts: a second outside pass,
//! which adds ε at every number instead of starting at the root, bounds that loss. The derivatives say nothing
//! about spans all of whose values are 0, so the second condition is not for sentences that have any. Sentences
//! that meet neither condition are done again with [`Wide`](super::number::Wide) numbers.

use crate::numeric::parallel::prelude::*;

use super::cells::{Cells, Part, Span};
use super::choices::{GroupChoices, RowSymbols};
use super::counts::Nothing;
use super::multiplier::{Common, Multiplier, Multipliers, Normal, exp_shifted, normalise, spread};
use super::number::Number;
use super::source::Source;
use crate::error::Result;
use crate::model::Closure;
use crate::numeric::filled;
use crate::run::Clock;

/// A relative error of 2⁻³⁰ by underflow is none in single precision, and of 2⁻⁶⁰ none in double precision.
fn negligible<G: Number>() -> f64 {
    G::EPSILON * 2f64.powi(-8)
}

/// How a form of rules sums over the divisions of spans.
pub trait Core<G: Number>: Send + Sync + Sized {
    /// What the outside pass stores.
    type Back: Send;

    /// The length of the rows of spans.
    fn size(&self) -> usize;
    /// What is added to the score of each head; empty for nothing.
    fn shifts(&self) -> &[f64];
    /// An upper bound on the number of products in a sum, and on the factors by which they exceed 1.
    fn terms(&self) -> f64;

    /// ln of the smallest product of factors of rules that are not 0; −∞ if one of them underflowed.
    fn least(&self) -> f64;

    /// Called when the rows of words are known.
    fn words_known(&mut self, chart: &Chart<G>);
    /// The sums of spans of one width, and the logarithm of what they must be multiplied by.
    fn sums(&mut self, chart: &Chart<G>, list: &[Span], rows: &mut [G], bases: &mut [f64]);
    /// Called when the rows of spans of one width are known.
    fn spans_known(&mut self, chart: &Chart<G>, width: usize);
    /// The inside values of the heads of a span.
    fn heads(&self, row: &[G]) -> Vec<G>;

    /// Starts an outside pass.
    fn back(&self, chart: &Chart<G>) -> Self::Back;
    /// Adds the derivative with respect to the heads of a whole sentence.
    fn add_root(&self, back: &mut Self::Back, row: &[G], derivative: &[G], to: &mut [G]);
    /// The derivatives with respect to the rows of spans of one width, by all wider spans.
    fn gather(&self, back: &mut Self::Back, chart: &Chart<G>, list: &[Span], rows: &mut [G]);
    /// Takes the derivatives with respect to the sums of spans of one width.
    fn spread(&self, back: &mut Self::Back, chart: &Chart<G>, list: &[Span], sums: &[G]);
    /// The derivatives with respect to the rows of words.
    fn gather_words(&self, back: &mut Self::Back, chart: &Chart<G>, rows: &mut [G]);
    /// The sum of all other derivatives of a sentence, for the bound on what is lost.
    fn other_derivatives(&self, back: &Self::Back, chart: &Chart<G>, sentence: usize) -> f64;
}

/// The inside values of a group of sentences.
pub struct Chart<G> {
    pub cells: Cells,
    /// The number of symbols.
    pub symbols: usize,
    /// The length of the rows of spans.
    pub size: usize,
    /// The symbols of the rows of words: so many from the first.
    pub tags: usize,
    pub first_tag: usize,
    /// One row per word, after unary rules, and the logarithm of its scale.
    pub words: Vec<G>,
    pub word_scales: Vec<f64>,
    /// One row per span, after unary rules, and the logarithm of its scale.
    pub spans: Vec<G>,
    pub span_scales: Vec<f64>,
    /// ln of the factor between the sums of a span and its row.
    norms: Vec<f64>,
    /// The logarithm by which the sums of a span are relative to its divisions.
    bases: Vec<f64>,
    /// The same rows before unary rules; empty if there are none.
    bare_words: Vec<G>,
    bare_spans: Vec<G>,
    /// The weights of roots, one row per sentence, and the logarithm of their scale.
    roots: Vec<G>,
    root_scales: Vec<f64>,
    /// Z of each sentence, without its scale.
    totals: Vec<G>,
    /// log Z of each sentence.
    pub log_partition: Vec<f64>,
    /// Whether a sentence lost nothing by underflow, as far as the inside values show.
    pub large: Vec<bool>,
    /// Whether all values of some span of a sentence are 0 although its parts have others.
    vanished: Vec<bool>,
    /// ln of the smallest value of each word and span that is not 0.
    word_least: Vec<f64>,
    span_least: Vec<f64>,
    pub unary: Option<Unary<G>>,
    /// The symbols that were chosen at random.
    pub choices: Option<GroupChoices>,
    /// For rows of chosen symbols only, the places of words and spans among all cells.
    word_places: Vec<usize>,
    span_places: Vec<usize>,
    /// The rows before the weights of choices, if all symbols are needed.
    pub plain_words: Vec<G>,
    pub plain_spans: Vec<G>,
}

/// The sums over unary rules.
pub struct Unary<G> {
    /// k, a and the weight of all ways from k to a.
    entries: Vec<(usize, usize, G)>,
    /// The symbols that occur.
    involved: Vec<usize>,
    /// The smallest and the largest logarithm of a weight.
    range: (f64, f64),
}

impl<G: Number> Unary<G> {
    pub fn new(closure: &Closure, slopes: &[f64]) -> Self {
        let mut involved: Vec<usize> = closure.entries.iter().map(|entry| entry.0).collect();
        involved.dedup();
        let slope = |i: usize| slopes.get(i).copied().unwrap_or(0.0);
        let entry = |(i, &(k, a, log)): (usize, &(usize, usize, f64))| (k, a, G::exp(log, slope(i)));
        let logs = closure.entries.iter().map(|entry| entry.2);
        let range = logs.fold((0.0f64, 0.0f64), |(low, high), log| (low.min(log), high.max(log)));
        Unary { entries: closure.entries.iter().enumerate().map(entry).collect(), involved, range }
    }

    /// Whether no product with a row underflows or overflows, for rows whose smallest value has this logarithm.
    fn keeps(&self, least: f64) -> bool {
        self.range.0 + least >= G::LEAST && self.range.1 <= -0.5 * G::LEAST
    }

    /// The symbols that a symbol can become, and the weight of all ways to them.
    pub fn from(&self, symbol: usize) -> impl Iterator<Item = (usize, G)> + '_ {
        let first = self.entries.partition_point(|entry| entry.0 < symbol);
        let own = self.entries[first..].iter().take_while(move |entry| entry.0 == symbol);
        own.map(|&(_, a, weight)| (a, weight))
    }

    /// The weight of all ways from one symbol to another.
    pub fn weight(&self, symbol: usize, to: usize) -> Option<G> {
        self.from(symbol).find(|(a, _)| *a == to).map(|(_, weight)| weight)
    }

    /// Row k of the result is Σ_a C(k, a)·rowₐ, or its transpose, for symbols from `first`.
    fn apply(&self, row: &mut [G], first: usize, transposed: bool) {
        let place = |k: usize| (first..first + row.len()).contains(&k).then(|| k - first);
        let before: Vec<G> = row.to_vec();
        let known: Vec<usize> = self.involved.iter().filter_map(|&k| place(k)).collect();
        let size = (first, row.len());
        known.into_iter().for_each(|k| row[k] = G::ZERO);
        for &(k, a, weight) in &self.entries {
            let (to, from) = if transposed { (a, k) } else { (k, a) };
            let inside = |k: usize| (size.0..size.0 + size.1).contains(&k);
            if inside(to) && inside(from) {
                row[to - first] = row[to - first].plus(weight.times(before[from - first]));
            }
        }
    }
}

/// Rows that are worked on in parallel only if they are long.
pub fn for_rows<T: Send, U: Send>(
    rows: &mut [T],
    size: usize,
    others: &mut [U],
    work: impl Fn(usize, &mut [T], &mut U) + Sync,
) {
    if rows.len() < 1 << 13 || size == 0 {
        for (i, (row, other)) in rows.chunks_mut(size.max(1)).zip(others).enumerate() {
            work(i, row, other);
        }
        return;
    }
    for_rows_in_parallel(rows, size, others, &work);
}

/// The same in parallel. It is compiled once for each type of number, not once for each kind of work.
fn for_rows_in_parallel<T: Send, U: Send>(
    rows: &mut [T],
    size: usize,
    others: &mut [U],
    work: &(dyn Fn(usize, &mut [T], &mut U) + Sync),
) {
    let all = rows.par_chunks_mut(size).zip(others.par_iter_mut()).enumerate();
    all.for_each(|(i, (row, other))| work(i, row, other));
}

impl<G: Number> Chart<G> {
    /// The row of a part of a sentence, and the symbols of the row.
    pub fn row(&self, part: Part) -> (&[G], RowSymbols<'_>) {
        let (row, symbols) = match part {
            Part::Word(at) => (&self.words[at * self.tags..(at + 1) * self.tags], self.symbols_of(part)),
            Part::Span(at) => (self.span(at), self.symbols_of(part)),
        };
        match symbols {
            RowSymbols::From(_) => (row, symbols),
            RowSymbols::Chosen { places, .. } => (&row[..places.len()], symbols),
        }
    }

    /// The symbols of the row of a part.
    pub fn symbols_of(&self, part: Part) -> RowSymbols<'_> {
        let first = if matches!(part, Part::Word(_)) { self.first_tag } else { 0 };
        let Some(own) = self.compact() else { return RowSymbols::From(first) };
        let cell = match part {
            Part::Word(at) => self.word_places[at],
            Part::Span(at) => self.span_places[at],
        };
        RowSymbols::Chosen { first, places: &own.choices.chosen[cell].states }
    }

    /// The length of the row of a part.
    fn length(&self, part: Part) -> usize {
        match (self.symbols_of(part), part) {
            (RowSymbols::Chosen { places, .. }, _) => places.len(),
            (_, Part::Word(_)) => self.tags,
            (_, Part::Span(_)) => self.size,
        }
    }

    /// The row of a span, with the zeros behind the last chosen symbol.
    pub fn span(&self, at: usize) -> &[G] {
        &self.spans[at * self.size..(at + 1) * self.size]
    }

    /// The same before unary rules.
    pub fn bare_row(&self, part: Part) -> &[G] {
        let (rows, at, size) = match part {
            Part::Word(at) if !self.bare_words.is_empty() => (&self.bare_words, at, self.tags),
            Part::Span(at) if !self.bare_spans.is_empty() => (&self.bare_spans, at, self.size),
            _ => return self.row(part).0,
        };
        &rows[at * size..(at + 1) * size]
    }

    /// The choices, if rows have the chosen symbols only.
    pub fn compact(&self) -> Option<&GroupChoices> {
        self.choices.as_ref().filter(|choices| choices.compact)
    }

    /// The choices, if only the values of chosen symbols are needed.
    pub fn few(&self) -> Option<&GroupChoices> {
        self.choices.as_ref().filter(|choices| !choices.full)
    }

    /// The logarithm of the scale of a part.
    pub fn scale(&self, part: Part) -> f64 {
        match part {
            Part::Word(at) => self.word_scales[at],
            Part::Span(at) => self.span_scales[at],
        }
    }

    /// The logarithm by which the sums of a span are relative to its divisions.
    pub fn base(&self, at: usize) -> f64 {
        self.bases[at]
    }

    /// The divisions of a span that cut off its first or last word, each with its factor.
    pub fn edges(&self, span: Span) -> impl Iterator<Item = (Part, Part, G)> + '_ {
        let Span { sentence, first, last } = span;
        let base = match self.cells.part(sentence, first, last) {
            Part::Span(at) => self.bases[at],
            Part::Word(_) => f64::NEG_INFINITY,
        };
        let ends = [Some(first), (last > first + 1).then(|| last - 1)];
        ends.into_iter().flatten().filter_map(move |m| {
            let (left, right) = (self.cells.part(sentence, first, m), self.cells.part(sentence, m + 1, last));
            let log = self.scale(left) + self.scale(right);
            (log > f64::NEG_INFINITY).then(|| (left, right, G::exp(log - base, 0.0)))
        })
    }

    /// The divisions of a span, each with its factor, relative to the largest, whose logarithm is returned too.
    pub fn divisions(&self, span: Span) -> (Vec<(Part, Part, G)>, f64) {
        let Span { sentence, first, last } = span;
        let count = last - first;
        let (mut parts, mut logs) = (Vec::with_capacity(count), Vec::with_capacity(count));
        let mut top = f64::NEG_INFINITY;
        for m in first..last {
            let (left, right) = (self.cells.part(sentence, first, m), self.cells.part(sentence, m + 1, last));
            let log = self.scale(left) + self.scale(right);
            if log > f64::NEG_INFINITY {
                parts.push((left, right, G::ZERO));
                logs.push(log);
                top = top.max(log);
            }
        }
        logs.iter_mut().for_each(|log| *log -= top);
        for (part, factor) in parts.iter_mut().zip(G::exp_each(&mut logs)) {
            part.2 = factor;
        }
        (parts, top)
    }

    /// ln of the smallest product of values of the parts of a span that are not 0, relative to the largest
    /// scale `top` of a division; ∞ if there are none.
    fn least_product(&self, span: Span, top: f64) -> f64 {
        let Span { sentence, first, last } = span;
        let least = |part: Part| match part {
            Part::Word(at) => self.word_least[at],
            Part::Span(at) => self.span_least[at],
        };
        let of = |m: usize| {
            let (left, right) = (self.cells.part(sentence, first, m), self.cells.part(sentence, m + 1, last));
            let scale = self.scale(left) + self.scale(right);
            // Parts without values contribute nothing.
            if scale == f64::NEG_INFINITY { f64::INFINITY } else { scale - top + least(left) + least(right) }
        };
        if G::TINY == 0.0 { f64::INFINITY } else { (first..last).map(of).fold(f64::INFINITY, f64::min) }
    }

    /// The derivative of log Z of each sentence in the direction.
    pub fn means(&self) -> Vec<f64> {
        self.totals.iter().map(|total| total.log_slope()).collect()
    }

    /// The weights of roots of a sentence.
    pub fn root(&self, sentence: usize) -> &[G] {
        let size = self.roots.len() / self.cells.sentences();
        &self.roots[sentence * size..(sentence + 1) * size]
    }

    /// The inside values of the possible roots of a sentence, one per head.
    pub fn root_values<C: Core<G>>(&self, core: &C, sentence: usize) -> Vec<G> {
        let heads = self.roots.len() / self.cells.sentences();
        let part = self.cells.whole(sentence);
        let (row, symbols) = self.row(part);
        match (part, symbols) {
            (Part::Span(_), RowSymbols::From(_)) => core.heads(row),
            _ => {
                let mut values = vec![G::ZERO; heads];
                for (at, &x) in row.iter().enumerate() {
                    if let Some(to) = values.get_mut(symbols.symbol(at)) {
                        *to = x;
                    }
                }
                values
            }
        }
    }
}

/// The inside pass.
pub fn inside<G: Number, C: Core<G>>(
    source: &Source<'_>,
    core: &mut C,
    cells: Cells,
    unary: Option<Unary<G>>,
    choices: Option<GroupChoices>,
    clock: &Clock<'_>,
) -> Result<Chart<G>> {
    let symbols = source.scores.symbols();
    let (tags, first_tag) =
        if unary.is_some() { (symbols.all, 0) } else { (symbols.tags, symbols.first_tag()) };
    let compact = choices.as_ref().filter(|choices| choices.compact);
    // Rows of chosen symbols have room for the largest choice.
    let (size, tags) = match compact {
        None => (core.size(), tags),
        Some(choices) => {
            let most = |spans: &mut dyn Iterator<Item = Span>| {
                spans.map(|span| choices.of(span).states.len()).max().unwrap_or(0).max(1)
            };
            let words = cells.all_words().map(|(sentence, i)| Span { sentence, first: i, last: i });
            let mut words = words;
            let mut spans = (1..cells.longest()).flat_map(|width| cells.list(width));
            (most(&mut spans), most(&mut words))
        }
    };
    let places = |spans: Vec<Span>| -> Vec<usize> {
        compact.map_or(Vec::new(), |choices| spans.iter().map(|&span| choices.cell(span)).collect())
    };
    let word_places =
        places(cells.all_words().map(|(sentence, i)| Span { sentence, first: i, last: i }).collect());
    let span_places = places((1..cells.longest()).flat_map(|width| cells.list(width)).collect());
    let (heads, sentences) = (symbols.heads, cells.sentences());
    let smallest = G::TINY * core.terms() / negligible::<G>();
    let (words, spans) = (cells.word_count(), cells.span_count());
    let mut chart = Chart {
        symbols: symbols.all,
        size,
        tags,
        first_tag,
        words: filled(G::ZERO, words * tags),
        word_scales: vec![0.0; words],
        spans: Vec::with_capacity(spans * size),
        span_scales: Vec::with_capacity(spans),
        norms: Vec::with_capacity(spans),
        bases: Vec::with_capacity(spans),
        bare_words: Vec::new(),
        bare_spans: Vec::new(),
        roots: vec![G::ZERO; sentences * heads],
        root_scales: vec![0.0; sentences],
        totals: vec![G::ZERO; sentences],
        log_partition: vec![f64::NEG_INFINITY; sentences],
        large: vec![true; sentences],
        vanished: vec![false; sentences],
        word_least: vec![f64::INFINITY; words],
        span_least: Vec::with_capacity(spans),
        unary,
        choices,
        word_places,
        span_places,
        plain_words: Vec::new(),
        plain_spans: Vec::new(),
        cells,
    };
    // Words.
    let places: Vec<(usize, usize)> = chart.cells.all_words().collect();
    let offset = symbols.first_tag() - first_tag;
    let mut found = vec![Normal::default(); words];
    let mut rows = std::mem::take(&mut chart.words);
    let compact = chart.compact();
    for_rows(&mut rows, tags, &mut found, |at, row, found| {
        let (sentence, i) = places[at];
        let b = source.sentences[sentence];
        if let Some(choices) = compact {
            let places = &choices.of(Span { sentence, first: i, last: i }).states;
            let (mut logs, slopes) =
                source.with_slopes(places.len(), |scores, out| scores.chosen_of_word(b, i, places, out));
            let norm = exp_shifted(&mut logs, &slopes, &mut row[..places.len()]);
            let least = spread(&logs);
            *found = Normal { norm, large: least >= G::LEAST, least };
            return;
        }
        let (mut logs, slopes) = source.with_slopes(symbols.tags, |scores, out| scores.word(b, i, out));
        let own = &mut row[offset..offset + symbols.tags];
        let norm = exp_shifted(&mut logs, &slopes, own);
        let least = spread(&logs);
        *found = Normal { norm, large: least >= G::LEAST, least };
    });
    chart.words = rows;
    if let Some(choices) = &chart.choices {
        if choices.full {
            chart.plain_words = chart.words.clone();
        }
        for (&(sentence, i), row) in places.iter().zip(chart.words.chunks_exact_mut(tags.max(1))) {
            choices.weigh(Span { sentence, first: i, last: i }, offset, row);
        }
    }
    if let Some(unary) = &chart.unary {
        chart.bare_words = chart.words.clone();
        chart.words.chunks_exact_mut(tags.max(1)).for_each(|row| unary.apply(row, 0, false));
    }
    for (at, &(sentence, _)) in places.iter().enumerate() {
        chart.word_scales[at] = found[at].norm;
        let kept = chart.unary.as_ref().is_none_or(|unary| unary.keeps(found[at].least));
        chart.large[sentence] &= found[at].large && kept;
        chart.word_least[at] = G::least(&chart.words[at * tags..(at + 1) * tags]);
    }
    clock.check()?;
    core.words_known(&chart);
    // Spans, from the narrowest to the widest.
    for width in 1..chart.cells.longest() {
        clock.check()?;
        let list = chart.cells.list(width);
        let (mut rows, mut bases) = (vec![G::ZERO; list.len() * size], vec![f64::NEG_INFINITY; list.len()]);
        core.sums(&chart, &list, &mut rows, &mut bases);
        let mut found = vec![Normal::default(); list.len()];
        if let Some(choices) = chart.compact() {
            for_rows(&mut rows, size, &mut found, |at, row, found| {
                let own = choices.multiplier(source, list[at], core.shifts());
                *found = normalise(&mut row[..choices.of(list[at]).states.len()], &own, smallest);
            });
        } else {
            let common = Common::new(core.shifts());
            let multipliers = Multipliers::new(source, &list, &common, size);
            for_rows(&mut rows, size, &mut found, |at, row, found| {
                let own = match chart.few() {
                    None => multipliers.of(at),
                    Some(choices) => {
                        let (scores, slopes) = choices.only_chosen(list[at], Some(multipliers.row(at)), size);
                        Multiplier::Row { scores, slopes }
                    }
                };
                *found = normalise(row, &own, smallest);
            });
        }
        if let Some(choices) = &chart.choices {
            if choices.full {
                chart.plain_spans.extend_from_slice(&rows);
            }
            let weigh = |at: usize, row: &mut [G], _: &mut ()| choices.weigh(list[at], 0, row);
            for_rows(&mut rows, size, &mut vec![(); list.len()], weigh);
        }
        if let Some(unary) = &chart.unary {
            chart.bare_spans.extend_from_slice(&rows);
            for_rows(&mut rows, size, &mut vec![(); list.len()], |_, row, ()| unary.apply(row, 0, false));
        }
        let of_rules = core.least();
        for (at, ((span, base), found)) in list.iter().zip(bases).zip(found).enumerate() {
            let none = found.norm == f64::NEG_INFINITY;
            let scale = if none { f64::NEG_INFINITY } else { base + found.norm };
            let (row, kept) = (
                &rows[at * size..(at + 1) * size],
                match &chart.unary {
                    None => true,
                    Some(unary) => {
                        let bare = &chart.bare_spans[chart.spans.len() + at * size..][..size];
                        unary.keeps(G::least(bare))
                    }
                },
            );
            let products = chart.least_product(*span, base) + of_rules + found.least;
            chart.large[span.sentence] &= (found.large || products >= G::LEAST) && kept;
            chart.vanished[span.sentence] |= none && base > f64::NEG_INFINITY;
            chart.span_scales.push(scale);
            chart.norms.push(found.norm);
            chart.bases.push(base);
            chart.span_least.push(G::least(row));
        }
        chart.spans.extend(rows);
        core.spans_known(&chart, width);
    }
    for sentence in 0..sentences {
        let b = source.sentences[sentence];
        let (mut logs, slopes) = source.with_slopes(heads, |scores, out| scores.root(b, out));
        let least = spread(&logs);
        let own = &mut chart.roots[sentence * heads..(sentence + 1) * heads];
        chart.root_scales[sentence] = exp_shifted(&mut logs, &slopes, own);
        let values = chart.root_values(core, sentence);
        let total = G::dot(chart.root(sentence), &values);
        chart.totals[sentence] = total;
        let scale = chart.scale(chart.cells.whole(sentence)) + chart.root_scales[sentence];
        chart.log_partition[sentence] = if total.is_zero() || scale == f64::NEG_INFINITY {
            f64::NEG_INFINITY
        } else {
            total.ln() + scale
        };
        chart.large[sentence] &= total.to_f64() >= smallest || least + G::least(&values) >= G::LEAST;
        chart.large[sentence] |= G::TINY == 0.0;
    }
    Ok(chart)
}

/// What the outside pass reports.
pub trait Report<G> {
    /// Rows of spans of one width: the derivatives with respect to rows before unary rules, times the factors of the sentences.
    fn spans(&mut self, chart: &Chart<G>, list: &[Span], rows: &[G]);
    /// Rows of all words: the derivatives before unary rules.
    fn words(&mut self, chart: &Chart<G>, rows: &[G]);
    /// The expected number of times that a sentence has each root.
    fn roots(&mut self, sentence: usize, counts: &[G]);
    /// The derivatives with respect to rows after unary rules, for the expected numbers of unary rules.
    fn after_unary(&mut self, _: &Chart<G>, _: &[Part], _: &[G], _: &[G]) {}
}

/// The outside pass with a factor for each sentence; those of factor 0 are left out. Returns the pass of the
/// core and, for each sentence, a bound on the relative error of Z by underflow.
pub fn outside<G: Number, C: Core<G>>(
    source: &Source<'_>,
    core: &C,
    chart: &Chart<G>,
    factors: &[f64],
    report: &mut dyn Report<G>,
    clock: &Clock<'_>,
) -> Result<(C::Back, Vec<f64>)> {
    let (back, sums) = derivatives(source, core, chart, factors, Start::Roots, report, clock)?;
    Ok((back, sums.into_iter().map(|sum| G::TINY * core.terms() * sum).collect()))
}

/// Whether what was lost by underflow is negligible, for every sentence, given the bounds of [`outside`].
pub fn accurate<G: Number, C: Core<G>>(
    source: &Source<'_>,
    core: &C,
    chart: &Chart<G>,
    losses: &[f64],
    clock: &Clock<'_>,
) -> Result<Vec<bool>> {
    if G::TINY == 0.0 {
        return Ok(vec![true; losses.len()]);
    }
    // Sentences whose values are all large lost nothing.
    let doubtful = |sentence: usize| {
        !chart.large[sentence] && !chart.vanished[sentence] && losses[sentence] <= negligible::<G>()
    };
    let factors: Vec<f64> =
        (0..losses.len()).map(|sentence| f64::from(u8::from(doubtful(sentence)))).collect();
    let mut further = vec![0.0; losses.len()];
    if factors.contains(&1.0) {
        let (_, sums) = derivatives(source, core, chart, &factors, Start::Everywhere, &mut Nothing, clock)?;
        let loss = G::TINY * core.terms();
        further = sums.into_iter().map(|sum| loss * loss * sum).collect();
    }
    let fine = |sentence: usize| {
        let small = losses[sentence] + further[sentence] <= negligible::<G>();
        chart.large[sentence] || (small && !chart.vanished[sentence])
    };
    Ok((0..losses.len()).map(fine).collect())
}

/// Where the derivatives of an outside pass begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// At log Z.
    Roots,
    /// With 1 at every number of the chart.
    Everywhere,
}

/// An outside pass, and the sum of the absolute derivatives of each sentence.
fn derivatives<G: Number, C: Core<G>>(
    source: &Source<'_>,
    core: &C,
    chart: &Chart<G>,
    factors: &[f64],
    start: Start,
    report: &mut dyn Report<G>,
    clock: &Clock<'_>,
) -> Result<(C::Back, Vec<f64>)> {
    let own = |row: &mut [G]| {
        if start == Start::Everywhere {
            row.iter_mut().for_each(|x| *x = x.plus(G::ONE));
        }
    };
    let (size, cells) = (chart.size, &chart.cells);
    let (mut back, compact) = (core.back(chart), chart.compact());
    let common = Common::new(if compact.is_some() { &[] } else { core.shifts() });
    let mut sums = vec![0.0f64; cells.sentences()];
    let absolute = |row: &[G]| if G::TINY == 0.0 { 0.0 } else { G::absolute(row) };
    // The derivative of log Z with respect to the heads of the whole sentence, and the roots.
    let mut from_roots: Vec<Vec<G>> = Vec::with_capacity(cells.sentences());
    for (sentence, &factor) in factors.iter().enumerate() {
        if factor == 0.0 || chart.log_partition[sentence] == f64::NEG_INFINITY {
            from_roots.push(Vec::new());
            continue;
        }
        let total = chart.totals[sentence];
        let of = |&weight: &G| match start {
            Start::Roots => weight.over(total).times(G::from_f64(factor)),
            Start::Everywhere => G::ONE,
        };
        let derivative: Vec<G> = chart.root(sentence).iter().map(of).collect();
        let values = chart.root_values(core, sentence);
        let counts: Vec<G> = derivative.iter().zip(&values).map(|(&x, &y)| x.times(y)).collect();
        report.roots(sentence, &counts);
        from_roots.push(derivative);
    }
    for width in (1..cells.longest()).rev() {
        clock.check()?;
        let (list, first) = (cells.list(width), cells.of_width(width).start);
        let mut rows = vec![G::ZERO; list.len() * size];
        core.gather(&mut back, chart, &list, &mut rows);
        for (at, (span, row)) in list.iter().zip(rows.chunks_exact_mut(size)).enumerate() {
            let row = &mut row[..chart.length(Part::Span(first + at))];
            let whole = span.first == 0 && span.last + 1 == cells.length(span.sentence);
            let derivative = &from_roots[span.sentence];
            match chart.symbols_of(Part::Span(first + at)) {
                _ if !whole || derivative.is_empty() => {}
                RowSymbols::From(_) => {
                    core.add_root(&mut back, chart.span(first + at), derivative, row);
                }
                symbols => {
                    row.iter_mut().enumerate().for_each(|(k, x)| *x = x.plus(derivative[symbols.symbol(k)]));
                }
            }
            own(row);
            // Sentences that are left out must not be multiplied by infinite factors.
            if from_roots[span.sentence].is_empty() || chart.span_scales[first + at] == f64::NEG_INFINITY {
                row.fill(G::ZERO);
            }
            sums[span.sentence] += absolute(row);
        }
        if let Some(unary) = &chart.unary {
            let parts: Vec<Part> = (first..first + list.len()).map(Part::Span).collect();
            let after = rows.clone();
            for_rows(&mut rows, size, &mut vec![(); list.len()], |_, row, ()| unary.apply(row, 0, true));
            report.after_unary(chart, &parts, &after, &rows);
            for (span, row) in list.iter().zip(rows.chunks_exact_mut(size)) {
                own(row);
                sums[span.sentence] += absolute(row);
            }
        }
        report.spans(chart, &list, &rows);
        if let Some(choices) = &chart.choices {
            let weigh = |at: usize, row: &mut [G], _: &mut ()| choices.weigh(list[at], 0, row);
            for_rows(&mut rows, size, &mut vec![(); list.len()], weigh);
        }
        // From rows to sums: the multipliers, relative to the norm.
        let multipliers = match compact {
            None => Some(Multipliers::new(source, &list, &common, size)),
            Some(_) => None,
        };
        let mut of_row = vec![0.0f64; list.len()];
        for_rows(&mut rows, size, &mut of_row, |at, row, sum| {
            let norm = chart.norms[first + at];
            if from_roots[list[at].sentence].is_empty() || norm == f64::NEG_INFINITY {
                return row.fill(G::ZERO);
            }
            let row = &mut row[..chart.length(Part::Span(first + at))];
            match (compact, &multipliers) {
                (Some(choices), _) => choices.multiplier(source, list[at], core.shifts()).apply(row, norm),
                (None, Some(multipliers)) => multipliers.of(at).apply(row, norm),
                (None, None) => {}
            }
            own(row);
            *sum = absolute(row);
        });
        list.iter().zip(of_row).for_each(|(span, sum)| sums[span.sentence] += sum);
        core.spread(&mut back, chart, &list, &rows);
    }
    let mut rows = filled(G::ZERO, cells.word_count() * chart.tags);
    core.gather_words(&mut back, chart, &mut rows);
    for (sentence, derivative) in from_roots.iter().enumerate() {
        if let (Part::Word(at), false) = (cells.whole(sentence), derivative.is_empty()) {
            let row = &mut rows[at * chart.tags..][..chart.length(Part::Word(at))];
            let symbols = chart.symbols_of(Part::Word(at));
            for (place, to) in row.iter_mut().enumerate() {
                if let Some(&x) = derivative.get(symbols.symbol(place)) {
                    *to = to.plus(x);
                }
            }
        }
    }
    for (at, (sentence, _)) in cells.all_words().enumerate() {
        let row = &mut rows[at * chart.tags..][..chart.length(Part::Word(at))];
        own(row);
        if from_roots[sentence].is_empty() {
            row.fill(G::ZERO);
        }
        sums[sentence] += absolute(row);
    }
    if let Some(unary) = &chart.unary {
        let parts: Vec<Part> = (0..cells.word_count()).map(Part::Word).collect();
        let after = rows.clone();
        rows.chunks_exact_mut(chart.tags.max(1)).for_each(|row| unary.apply(row, 0, true));
        report.after_unary(chart, &parts, &after, &rows);
    }
    if chart.unary.is_some() {
        for ((sentence, _), row) in cells.all_words().zip(rows.chunks_exact(chart.tags.max(1))) {
            sums[sentence] += absolute(row);
        }
    }
    report.words(chart, &rows);
    if G::TINY > 0.0 {
        for (sentence, sum) in sums.iter_mut().enumerate() {
            *sum += core.other_derivatives(&back, chart, sentence);
        }
    }
    Ok((back, sums))
}
