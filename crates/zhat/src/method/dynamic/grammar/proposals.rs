//! Proposals for the choice of symbols: a logarithm for every symbol of every word and span.
//!
//! They are computed for one word or span at a time, because all of them take as much memory as a chart of all
//! symbols.

use crate::error::Result;
use crate::method::dynamic::randomized::largest;
use crate::model::{Hypertree, Spans};
use crate::numeric::parallel::prelude::*;
use crate::numeric::{Real, log_sum_exp};
use crate::run::Clock;

/// The logarithm of proposals that all others are negligible to.
const ABOVE: f64 = 1e3;

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

/// The scores of the symbols of words i … j: their local proposals.
pub fn local<F: Real>(model: &Hypertree<F>, (b, i, j): (usize, usize, usize)) -> Vec<f64> {
    let (heads, t) = (model.symbols().heads, model.positions());
    if i == j {
        return model.word(b, i).iter().map(|x| x.to_f64()).collect();
    }
    let at = (b * t + i) * t + j;
    let mut row: Vec<f64> = match model.spans() {
        Spans::None => vec![0.0; heads],
        Spans::PerSpan(values) => vec![values[at].to_f64(); heads],
        Spans::PerSymbol(values) => values[at * heads..][..heads].iter().map(|x| x.to_f64()).collect(),
        Spans::Factored { .. } => (0..heads).map(|k| model.span(b, i, j, k)).collect(),
    };
    if (i, j + 1) == (0, model.lengths()[b]) {
        row.iter_mut().zip(roots(model, b)).for_each(|(x, root)| *x += root);
    }
    row
}

/// Makes the `top` largest scores equal and far above all others that are possible, which become equal, too.
pub fn uniform_tail(logs: &mut [f64], top: usize) {
    let first = largest(logs, top);
    logs.iter_mut().filter(|x| **x > f64::NEG_INFINITY).for_each(|x| *x = 0.0);
    first.into_iter().for_each(|k| logs[k as usize] = ABOVE);
}

/// Every sentence with its first and last words of parts.
pub fn parts<F: Real>(model: &Hypertree<F>) -> Vec<(usize, usize, usize)> {
    let of =
        |(b, &length): (usize, &usize)| (0..length).flat_map(move |i| (i..length).map(move |j| (b, i, j)));
    model.lengths().iter().enumerate().flat_map(of).collect()
}

/// The proposals of all words and spans of a batch.
pub struct Stored {
    /// T.
    positions: usize,
    /// By sentence, first and last word; empty where there is no span.
    pub logs: Vec<Vec<f64>>,
}

impl Stored {
    pub fn new<F: Real>(
        model: &Hypertree<F>,
        of: impl Fn((usize, usize, usize)) -> Vec<f64> + Sync,
        clock: &Clock<'_>,
    ) -> Result<Self> {
        let (positions, parts) = (model.positions(), parts(model));
        let one = |&part: &(usize, usize, usize)| {
            clock.check()?;
            Ok(of(part))
        };
        let rows: Vec<Vec<f64>> = parts.par_iter().map(one).collect::<Result<_>>()?;
        let mut found = Stored { positions, logs: vec![Vec::new(); model.batch() * positions * positions] };
        parts.into_iter().zip(rows).for_each(|(part, row)| *found.of_mut(part) = row);
        Ok(found)
    }

    fn cell(&self, (b, i, j): (usize, usize, usize)) -> usize {
        (b * self.positions + i) * self.positions + j
    }

    /// The proposals of words i … j.
    pub fn of(&self, part: (usize, usize, usize)) -> &[f64] {
        &self.logs[self.cell(part)]
    }

    /// The same, to be changed.
    pub fn of_mut(&mut self, part: (usize, usize, usize)) -> &mut Vec<f64> {
        let cell = self.cell(part);
        &mut self.logs[cell]
    }

    /// Whether a symbol is one of the `top` of [`uniform_tail`].
    pub fn is_top(&self, cell: usize, symbol: u32) -> bool {
        self.logs[cell][symbol as usize] == ABOVE
    }
}
