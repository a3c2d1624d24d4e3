//! Proposals for the choice of symbols: a logarithm for every symbol of every word and span.

use super::source::{Scores, SpanScores};
use crate::method::dynamic::randomized::largest;
use crate::model::Hypertree;
use crate::numeric::{Real, log_sum_exp};

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

impl Local {
    pub fn new<F: Real>(model: &Hypertree<F>) -> Self {
        let (t, symbols) = (model.positions(), model.symbols());
        let mut logs = vec![Vec::new(); model.batch() * t * t];
        for (b, &length) in model.lengths().iter().enumerate() {
            for i in 0..length {
                let mut row = vec![0.0; symbols.tags];
                Scores::word(model, b, i, &mut row);
                logs[(b * t + i) * t + i] = row;
                let list: Vec<(usize, usize, usize)> = (i + 1..length).map(|j| (b, i, j)).collect();
                let scores = Scores::spans(model, &list);
                for (at, &(_, _, j)) in list.iter().enumerate() {
                    let mut row = match &scores {
                        SpanScores::None => vec![0.0; symbols.heads],
                        SpanScores::Each(each) => vec![each[at]; symbols.heads],
                        SpanScores::Rows(rows) => rows[at * symbols.heads..(at + 1) * symbols.heads].to_vec(),
                    };
                    if (i, j + 1) == (0, length) {
                        row.iter_mut().zip(roots(model, b)).for_each(|(x, root)| *x += root);
                    }
                    logs[(b * t + i) * t + j] = row;
                }
            }
        }
        Local { positions: t, logs }
    }

    /// The same with equal proposals for all symbols that are possible.
    pub fn uniform(mut self) -> Self {
        let flat = |x: &mut f64| *x = if *x > f64::NEG_INFINITY { 0.0 } else { *x };
        self.logs.iter_mut().flatten().for_each(flat);
        self
    }

    /// The same with the `top` largest scores of each word and span far above all others, which are equal.
    pub fn uniform_tail(mut self, top: usize) -> Self {
        let first: Vec<Vec<u32>> = self.logs.iter().map(|logs| largest(logs, top)).collect();
        self = self.uniform();
        for (logs, first) in self.logs.iter_mut().zip(first) {
            first.into_iter().for_each(|k| logs[k as usize] = ABOVE);
        }
        self
    }

    /// Whether a symbol is one of the `top` of [`Local::uniform_tail`].
    pub fn is_top(&self, cell: usize, symbol: u32) -> bool {
        self.logs[cell][symbol as usize] == ABOVE
    }
}
