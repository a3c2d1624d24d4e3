//! Proposals for the choice of symbols: a logarithm for every symbol of every word and span.

use super::source::{Scores, SpanScores};
use crate::error::Result;
use crate::method::dynamic::randomized::largest;
use crate::model::Hypertree;
use crate::numeric::parallel::prelude::*;
use crate::numeric::{Real, log_sum_exp};
use crate::run::Clock;

/// The logarithm of proposals that all others are negligible to.
const ABOVE: f64 = 1e3;

/// The local scores of every word and span of a batch, by sentence, first and last word.
pub struct Local {
    /// T.
    pub positions: usize,
    /// By sentence, first and last word; empty where there is no span.
    pub logs: Vec<Vec<f64>>,
}

/// The logarithms of the weights with which the whole sentence has each head below its unary rules.
fn roots<F: Real>(model: &Hypertree<F>, b: usize) -> Vec<f64> {
    let own: Vec<f64> = model.root(b).iter().map(|root| root.to_f64()).collect();
    let Some(unary) = model.unary() else { return own };
    // The closure has entries for every symbol that unary rules involve; the others stay as they are.
    let entries = &unary.sums().entries;
    let mut terms: Vec<Vec<f64>> = own.iter().map(|&root| vec![root]).collect();
    entries.iter().filter(|entry| entry.0 < own.len()).for_each(|entry| terms[entry.0].clear());
    for &(k, a, log) in entries.iter().filter(|entry| entry.0 < own.len() && entry.1 < own.len()) {
        terms[a].push(own[k] + log);
    }
    terms.iter().map(|terms| log_sum_exp(terms)).collect()
}

/// The scores of word i and of the spans that begin with it, by last word.
fn from<F: Real>(model: &Hypertree<F>, b: usize, i: usize, clock: &Clock<'_>) -> Result<Vec<Vec<f64>>> {
    let (symbols, length) = (model.symbols(), model.lengths()[b]);
    let mut word = vec![0.0; symbols.tags];
    Scores::word(model, b, i, &mut word);
    let list: Vec<(usize, usize, usize)> = (i + 1..length).map(|j| (b, i, j)).collect();
    let scores = Scores::spans(model, &list);
    let mut rows = vec![word];
    for (at, &(_, _, j)) in list.iter().enumerate() {
        clock.check()?;
        let mut row = match &scores {
            SpanScores::None => vec![0.0; symbols.heads],
            SpanScores::Each(each) => vec![each[at]; symbols.heads],
            SpanScores::Rows(rows) => rows[at * symbols.heads..(at + 1) * symbols.heads].to_vec(),
        };
        if (i, j + 1) == (0, length) {
            row.iter_mut().zip(roots(model, b)).for_each(|(x, root)| *x += root);
        }
        rows.push(row);
    }
    Ok(rows)
}

impl Local {
    pub fn new<F: Real>(model: &Hypertree<F>, clock: &Clock<'_>) -> Result<Self> {
        let t = model.positions();
        let starts: Vec<(usize, usize)> = model
            .lengths()
            .iter()
            .enumerate()
            .flat_map(|(b, &length)| (0..length).map(move |i| (b, i)))
            .collect();
        let rows: Vec<Vec<Vec<f64>>> =
            starts.par_iter().map(|&(b, i)| from(model, b, i, clock)).collect::<Result<_>>()?;
        let mut logs = vec![Vec::new(); model.batch() * t * t];
        for ((b, i), rows) in starts.into_iter().zip(rows) {
            rows.into_iter().enumerate().for_each(|(at, row)| logs[(b * t + i) * t + i + at] = row);
        }
        Ok(Local { positions: t, logs })
    }

    /// The same with equal proposals for all symbols that are possible.
    pub fn uniform(self, clock: &Clock<'_>) -> Result<Self> {
        self.uniform_tail(0, clock)
    }

    /// The same with the `top` largest scores of each word and span far above all others, which are equal.
    pub fn uniform_tail(mut self, top: usize, clock: &Clock<'_>) -> Result<Self> {
        let change = |logs: &mut Vec<f64>| {
            clock.check()?;
            let first = largest(logs, top);
            logs.iter_mut().filter(|x| **x > f64::NEG_INFINITY).for_each(|x| *x = 0.0);
            first.into_iter().for_each(|k| logs[k as usize] = ABOVE);
            Ok(())
        };
        self.logs.par_iter_mut().try_for_each(change)?;
        Ok(self)
    }

    /// Whether a symbol is one of the `top` of [`Local::uniform_tail`].
    pub fn is_top(&self, cell: usize, symbol: u32) -> bool {
        self.logs[cell][symbol as usize] == ABOVE
    }
}
