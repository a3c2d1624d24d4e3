//! Randomly chosen symbols of words and spans, with weights.

use std::sync::Arc;

use super::cells::Span;
use super::number::Number;
use crate::method::dynamic::randomized::Chosen;

/// The chosen symbols of every word and span of a batch. For words they are places among the tags, for spans
/// heads.
#[derive(Clone, Debug)]
pub struct Choices {
    /// T.
    pub positions: usize,
    /// By sentence, first and last word; empty lists where there is no span.
    pub chosen: Vec<Chosen>,
}

/// The choices for a group of sentences.
#[derive(Clone, Debug)]
pub struct GroupChoices {
    pub choices: Arc<Choices>,
    pub sentences: Vec<usize>,
    /// Whether the values of all symbols are needed, and not only those of the chosen ones.
    pub full: bool,
}

impl GroupChoices {
    /// The chosen symbols of words i … j.
    pub fn of(&self, span: Span) -> &Chosen {
        let Span { sentence, first, last } = span;
        let t = self.choices.positions;
        &self.choices.chosen[(self.sentences[sentence] * t + first) * t + last]
    }

    /// Multiplies a row by the weights of its chosen symbols, and by 0 where none was chosen; the first tag is
    /// at `offset`.
    pub fn weigh<G: Number>(&self, span: Span, offset: usize, row: &mut [G]) {
        let chosen = self.of(span);
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
