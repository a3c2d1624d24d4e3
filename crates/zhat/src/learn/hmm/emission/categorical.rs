//! Categorical emissions: p(symbol v | state n) = B(n, v).
//!
//! Statistics: the expected count of every symbol in every state, V × N. M-step: counts plus α − 1 for every
//! entry that is not zero, normalised. A zero stays zero.

use super::{Context, Density, Emission, padded};
use crate::error::{Error, Result};
use crate::learn::hmm::data::Sequences;
use crate::learn::hmm::simplex;
use crate::random::Stream;
use crate::tensor::Tensor;

/// A distribution over symbols per state.
#[derive(Clone, Debug, PartialEq)]
pub struct Categorical {
    pub(in crate::learn::hmm) states: usize,
    pub(in crate::learn::hmm) symbols: usize,
    /// N × V.
    pub(in crate::learn::hmm) probabilities: Vec<f64>,
}

impl Categorical {
    /// `probabilities` has one row per state.
    ///
    /// # Errors
    /// If a row is not a distribution.
    pub fn new(states: usize, probabilities: Vec<f64>) -> Result<Self> {
        let symbols = probabilities.len() / states.max(1);
        let mut made = Categorical { states, symbols, probabilities };
        made.check()?;
        simplex::normalize_rows(&mut made.probabilities, symbols);
        Ok(made)
    }

    /// The number of symbols.
    pub fn symbols(&self) -> usize {
        self.symbols
    }

    /// The probabilities, one row per state.
    pub fn probabilities(&self) -> &[f64] {
        &self.probabilities
    }
}

struct Prepared<'a> {
    own: &'a Categorical,
    /// V × N.
    logs: Vec<f64>,
}

impl Density for Prepared<'_> {
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]) {
        let states = self.own.states;
        for (&symbol, out) in rows.iter().zip(out.chunks_exact_mut(stride)) {
            match symbol.is_nan() {
                true => out[..states].fill(0.0),
                false => out[..states].copy_from_slice(&self.logs[symbol as usize * states..][..states]),
            }
        }
    }

    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]) {
        let width = padded(self.own.states);
        for (&symbol, weights) in rows.iter().zip(weights.chunks_exact(stride)) {
            if !symbol.is_nan() {
                let counts = &mut statistics[symbol as usize * width..][..width];
                counts.iter_mut().zip(weights).for_each(|(count, weight)| *count += weight);
            }
        }
    }
}

impl Emission for Categorical {
    fn states(&self) -> usize {
        self.states
    }

    fn columns(&self) -> usize {
        1
    }

    fn check(&self) -> Result<()> {
        if self.symbols == 0 || self.probabilities.len() != self.states * self.symbols {
            let message =
                format!("{} numbers are not N × V for {} states", self.probabilities.len(), self.states);
            return Err(Error::argument("probabilities", message));
        }
        simplex::check_rows("probabilities", &self.probabilities, self.symbols)
    }

    fn check_data(&self, data: &Sequences) -> Result<()> {
        let known = |x: f64| x.is_nan() || (x >= 0.0 && x < self.symbols as f64 && x.fract() == 0.0);
        match data.values().iter().position(|&x| !known(x)) {
            None => Ok(()),
            Some(row) => {
                let (found, most) = (data.values()[row], self.symbols - 1);
                Err(data.fail(row, 0, &format!("found {found}, expected a symbol from 0 to {most}")))
            }
        }
    }

    fn density<'a>(&'a self, _: &'a Context) -> Box<dyn Density + 'a> {
        let mut logs = vec![0.0; self.probabilities.len()];
        for (n, row) in self.probabilities.chunks_exact(self.symbols).enumerate() {
            row.iter().enumerate().for_each(|(v, p)| logs[v * self.states + n] = p.ln());
        }
        Box::new(Prepared { own: self, logs })
    }

    fn statistics(&self) -> usize {
        self.symbols * padded(self.states)
    }

    fn maximize(&mut self, statistics: &[f64], context: &Context) {
        let width = padded(self.states);
        for (n, row) in self.probabilities.chunks_exact_mut(self.symbols).enumerate() {
            let counts = (0..self.symbols).map(|v| statistics[v * width + n]);
            simplex::maximize_row(row, counts, context.concentration);
        }
    }

    fn coordinates(&self, _: &Context, out: &mut Vec<f64>) {
        simplex::logits(&self.probabilities, out);
    }

    fn place(&mut self, from: &mut &[f64], _: &Context) {
        simplex::place_rows(&mut self.probabilities, self.symbols, from);
    }

    fn gradient(&self, _: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>) {
        let width = padded(self.states);
        for (n, row) in self.probabilities.chunks_exact(self.symbols).enumerate() {
            let counts = (0..self.symbols).map(|v| statistics[v * width + n]);
            simplex::row_gradient(row, counts, context.concentration, out);
        }
    }

    fn log_prior(&self, context: &Context) -> f64 {
        simplex::log_dirichlet(&self.probabilities, context.concentration)
    }

    fn places(&self, state: usize) -> Vec<usize> {
        (0..self.symbols).map(|v| v * padded(self.states) + state).collect()
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        let symbols = self.symbols;
        self.probabilities.copy_within(from * symbols..(from + 1) * symbols, to * symbols);
    }

    fn parameters(&self, counted: &dyn Fn(usize) -> bool) -> usize {
        let rows = self.probabilities.chunks_exact(self.symbols).enumerate();
        rows.filter(|(n, _)| counted(*n)).map(|(_, row)| simplex::free(row, self.symbols)).sum()
    }

    fn draw(&self, state: usize, random: &mut Stream, out: &mut [f64]) {
        let row = &self.probabilities[state * self.symbols..][..self.symbols];
        out[0] = random.categorical(row) as f64;
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        vec![Tensor::new("probabilities", &[self.states, self.symbols], self.probabilities.as_slice())]
    }
}
