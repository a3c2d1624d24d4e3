//! Randomly chosen symbols of words and spans, with weights.

use std::sync::Arc;

use super::cells::Span;
use super::multiplier::Multiplier;
use super::number::Number;
use super::source::Source;
use crate::method::dynamic::randomized::Chosen;

/// The chosen symbols of every word and span of a batch. For words they are places among the tags, for spans
/// heads.
#[derive(Clone, Debug)]
pub struct Choices {
    /// T.
    pub positions: usize,
    /// By sentence, first and last word; empty lists where there is no span. With several sets of choices, the
    /// sentences of the batch are repeated for each set.
    pub chosen: Vec<Chosen>,
}

impl Choices {
    /// Several sets of choices for the same sentences as one.
    pub fn joined(sets: &[Arc<Choices>]) -> Self {
        let positions = sets.first().map_or(0, |own| own.positions);
        let chosen = sets.iter().flat_map(|own| own.chosen.iter().cloned()).collect();
        Choices { positions, chosen }
    }

    /// The number of sentences, each counted once for every set of choices.
    pub fn sentences(&self) -> usize {
        self.chosen.len() / (self.positions * self.positions).max(1)
    }

    /// The largest number of chosen symbols of a word or span.
    pub fn most(&self) -> usize {
        self.chosen.iter().map(|own| own.states.len()).max().unwrap_or(0)
    }
}

/// The choices that a chart is made for.
#[derive(Clone, Copy)]
pub struct Kept<'a> {
    pub choices: &'a Arc<Choices>,
    /// Whether the values of all symbols are needed, and not only those of the chosen ones.
    pub full: bool,
}

/// The choices for a group of sentences.
#[derive(Clone, Debug)]
pub struct GroupChoices {
    pub choices: Arc<Choices>,
    /// The sentences of the group among those of the choices.
    pub sentences: Vec<usize>,
    /// Whether the values of all symbols are needed, and not only those of the chosen ones.
    pub full: bool,
    /// Whether rows have the chosen symbols only, in ascending order.
    pub compact: bool,
}

/// The symbols of a row of a chart.
#[derive(Clone, Copy)]
pub enum RowSymbols<'a> {
    /// All from this one.
    From(usize),
    /// Chosen ones, ascending, as places after the first possible symbol.
    Chosen { first: usize, places: &'a [u32] },
}

impl RowSymbols<'_> {
    /// The symbol at a place of the row.
    pub fn symbol(self, at: usize) -> usize {
        match self {
            RowSymbols::From(first) => first + at,
            RowSymbols::Chosen { first, places } => first + places[at] as usize,
        }
    }

    /// The place of a symbol in the row, which may end before it.
    pub fn place(self, symbol: usize) -> Option<usize> {
        match self {
            RowSymbols::From(first) => symbol.checked_sub(first),
            RowSymbols::Chosen { first, places } => {
                let place = symbol.checked_sub(first)?;
                places.binary_search_by(|&own| (own as usize).cmp(&place)).ok()
            }
        }
    }
}

impl GroupChoices {
    /// The place of words i … j among all cells.
    pub fn cell(&self, span: Span) -> usize {
        let Span { sentence, first, last } = span;
        let t = self.choices.positions;
        (self.sentences[sentence] * t + first) * t + last
    }

    /// The chosen symbols of words i … j.
    pub fn of(&self, span: Span) -> &Chosen {
        &self.choices.chosen[self.cell(span)]
    }

    /// Multiplies a row by the weights of its chosen symbols, and by 0 where none was chosen; the first tag is
    /// at `offset`.
    pub fn weigh<G: Number>(&self, span: Span, offset: usize, row: &mut [G]) {
        let chosen = self.of(span);
        if self.compact {
            for (x, &log) in row.iter_mut().zip(&chosen.log_weights) {
                *x = x.times(G::exp(log, 0.0));
            }
            return;
        }
        let weighted: Vec<(usize, G)> = chosen
            .states
            .iter()
            .zip(&chosen.log_weights)
            .map(|(&k, &log)| (offset + k as usize, G::exp(log, 0.0)))
            .map(|(k, weight)| (k, row[k].times(weight)))
            .collect();
        row.fill(G::ZERO);
        weighted.into_iter().for_each(|(k, x)| row[k] = x);
    }

    /// The multiplier of the chosen symbols of a span: their scores with the shifts of rules, which may be empty.
    pub fn multiplier<G>(&self, source: &Source<'_>, span: Span, shifts: &[f64]) -> Multiplier<'static, G> {
        let (places, b) = (&self.of(span).states, source.sentences[span.sentence]);
        let (mut scores, slopes) = source.with_slopes(places.len(), |scores, out| {
            scores.chosen_of_span((b, span.first, span.last), places, out);
        });
        if !shifts.is_empty() {
            scores.iter_mut().zip(places).for_each(|(score, &k)| *score += shifts[k as usize]);
        }
        Multiplier::Row { scores, slopes }
    }

    /// Scores and slopes of a span in which symbols that were not chosen have score −∞.
    pub fn only_chosen(
        &self,
        span: Span,
        scores: Option<(Vec<f64>, Vec<f64>)>,
        size: usize,
    ) -> (Vec<f64>, Vec<f64>) {
        let (all, slopes) = scores.unwrap_or_else(|| (vec![0.0; size], Vec::new()));
        let mut few = vec![f64::NEG_INFINITY; size];
        self.of(span).states.iter().for_each(|&k| few[k as usize] = all[k as usize]);
        (few, slopes)
    }
}
