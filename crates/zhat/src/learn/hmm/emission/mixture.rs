//! Mixtures of normal distributions: p(x | n) = Σ_k w_nk N(x; μ_nk, Σ_nk).
//!
//! The N·K components are one family of normal distributions. The weight of a row in a state is divided among its
//! components in proportion to their densities. M-step: the expected counts of the components plus α − 1,
//! normalised, and that of the normal distributions.

use super::{Context, Density, Emission, Gaussian, padded};
use crate::error::{Error, Result};
use crate::learn::hmm::data::Sequences;
use crate::learn::hmm::simplex;
use crate::numeric::log_sum_exp;
use crate::random::Stream;
use crate::tensor::Tensor;

/// A mixture of normal distributions per state.
#[derive(Clone, Debug, PartialEq)]
pub struct Mixture {
    pub(in crate::learn::hmm) states: usize,
    pub(in crate::learn::hmm) components: usize,
    /// N × K.
    pub(in crate::learn::hmm) weights: Vec<f64>,
    /// Component k of state n is its state n·K + k.
    pub(in crate::learn::hmm) normals: Gaussian,
}

impl Mixture {
    /// `weights` has one row per state; component k of state n is state n·K + k of `normals`.
    ///
    /// # Errors
    /// If a row of weights is not a distribution, or the shapes do not fit each other.
    pub fn new(states: usize, weights: Vec<f64>, normals: Gaussian) -> Result<Self> {
        let components = weights.len() / states.max(1);
        let mut made = Mixture { states, components, weights, normals };
        made.check()?;
        simplex::normalize_rows(&mut made.weights, components);
        Ok(made)
    }

    /// The number of components per state.
    pub fn components(&self) -> usize {
        self.components
    }

    /// The weights, one row per state.
    pub fn weights(&self) -> &[f64] {
        &self.weights
    }

    /// The components.
    pub fn normals(&self) -> &Gaussian {
        &self.normals
    }
}

/// Rows that are processed together.
const BLOCK: usize = 256;

struct Prepared<'a> {
    own: &'a Mixture,
    normals: Box<dyn Density + 'a>,
    logs: Vec<f64>,
}

impl Prepared<'_> {
    /// Calls `each` with the densities of the components of every row and state, times their weights.
    fn each_row(&self, rows: &[f64], mut each: impl FnMut(usize, &mut [f64])) {
        let (columns, width) = (self.own.normals.columns, padded(self.own.normals.states));
        let mut scores = vec![0.0; BLOCK * width];
        for (block, rows) in rows.chunks(BLOCK * columns).enumerate() {
            let count = rows.len() / columns;
            self.normals.log_density(rows, width, &mut scores[..count * width]);
            for (i, scores) in scores.chunks_exact_mut(width).take(count).enumerate() {
                scores.iter_mut().zip(&self.logs).for_each(|(score, log)| *score += log);
                each(block * BLOCK + i, scores);
            }
        }
    }
}

impl Density for Prepared<'_> {
    fn log_density(&self, rows: &[f64], stride: usize, out: &mut [f64]) {
        let Mixture { states, components, .. } = *self.own;
        self.each_row(rows, |row, scores| {
            let out = &mut out[row * stride..][..states];
            for (out, scores) in out.iter_mut().zip(scores.chunks_exact(components)) {
                *out = log_sum_exp(scores);
            }
        });
    }

    fn accumulate(&self, rows: &[f64], stride: usize, weights: &[f64], statistics: &mut [f64]) {
        let Mixture { states, components, .. } = *self.own;
        let (columns, width) = (self.own.normals.columns, padded(states * components));
        let (counts, rest) = statistics.split_at_mut(width);
        // Block by block, so that memory does not depend on the number of rows.
        let mut shares = vec![0.0; rows.len().div_ceil(columns).min(BLOCK) * width];
        for (rows, weights) in rows.chunks(BLOCK * columns).zip(weights.chunks(BLOCK * stride)) {
            let shares = &mut shares[..rows.len() / columns * width];
            shares.fill(0.0);
            self.each_row(rows, |row, scores| {
                let out = &mut shares[row * width..][..width];
                for n in 0..states {
                    let own = &scores[n * components..][..components];
                    let (weight, total) = (weights[row * stride + n], log_sum_exp(own));
                    if weight > 0.0 && total > f64::NEG_INFINITY {
                        for (k, score) in own.iter().enumerate() {
                            out[n * components + k] = weight * (score - total).exp();
                        }
                    }
                }
                counts.iter_mut().zip(&*out).for_each(|(count, share)| *count += share);
            });
            self.normals.accumulate(rows, width, shares, rest);
        }
    }
}

impl Emission for Mixture {
    fn states(&self) -> usize {
        self.states
    }

    fn columns(&self) -> usize {
        self.normals.columns
    }

    fn check(&self) -> Result<()> {
        let components = self.states * self.components;
        if components == 0 || self.weights.len() != components || self.normals.states != components {
            let message = format!(
                "{} weights and {} components do not fit {} states",
                self.weights.len(),
                self.normals.states,
                self.states
            );
            return Err(Error::argument("weights", message));
        }
        simplex::check_rows("weights", &self.weights, self.components)?;
        self.normals.check()
    }

    fn check_data(&self, data: &Sequences) -> Result<()> {
        self.normals.check_data(data)
    }

    fn density<'a>(&'a self, context: &'a Context) -> Box<dyn Density + 'a> {
        let logs = self.weights.iter().map(|weight| weight.ln()).collect();
        Box::new(Prepared { own: self, normals: self.normals.density(context), logs })
    }

    fn statistics(&self) -> usize {
        padded(self.states * self.components) + self.normals.statistics()
    }

    fn maximize(&mut self, statistics: &[f64], context: &Context) {
        let (counts, rest) = statistics.split_at(padded(self.states * self.components));
        for (row, counts) in
            self.weights.chunks_exact_mut(self.components).zip(counts.chunks_exact(self.components))
        {
            simplex::maximize_row(row, counts.iter().copied(), context.concentration);
        }
        self.normals.maximize(rest, context);
    }

    fn coordinates(&self, context: &Context, out: &mut Vec<f64>) {
        simplex::logits(&self.weights, out);
        self.normals.coordinates(context, out);
    }

    fn place(&mut self, from: &mut &[f64], context: &Context) {
        simplex::place_rows(&mut self.weights, self.components, from);
        self.normals.place(from, context);
    }

    fn gradient(&self, at: &[f64], statistics: &[f64], context: &Context, out: &mut Vec<f64>) {
        let (counts, rest) = statistics.split_at(padded(self.states * self.components));
        for (row, counts) in
            self.weights.chunks_exact(self.components).zip(counts.chunks_exact(self.components))
        {
            simplex::row_gradient(row, counts.iter().copied(), context.concentration, out);
        }
        let weights = self.weights.iter().filter(|weight| **weight > 0.0).count();
        self.normals.gradient(&at[weights..], rest, context, out);
    }

    fn log_prior(&self, context: &Context) -> f64 {
        simplex::log_dirichlet(&self.weights, context.concentration) + self.normals.log_prior(context)
    }

    fn places(&self, state: usize) -> Vec<usize> {
        let own = state * self.components..(state + 1) * self.components;
        let first = padded(self.states * self.components);
        let of_normals = own.clone().flat_map(|k| self.normals.places(k)).map(|at| first + at);
        own.clone().chain(of_normals).collect()
    }

    fn copy_state(&mut self, from: usize, to: usize) {
        for k in 0..self.components {
            let (from, to) = (from * self.components + k, to * self.components + k);
            self.weights[to] = self.weights[from];
            self.normals.copy_state(from, to);
        }
    }

    fn parameters(&self, counted: &dyn Fn(usize) -> bool) -> usize {
        let rows = self.weights.chunks_exact(self.components).enumerate();
        let weights: usize =
            rows.filter(|(n, _)| counted(*n)).map(|(_, row)| simplex::free(row, self.components)).sum();
        weights + self.normals.parameters(&|k| counted(k / self.components))
    }

    fn draw(&self, state: usize, random: &mut Stream, out: &mut [f64]) {
        let component = random.categorical(&self.weights[state * self.components..][..self.components]);
        self.normals.draw(state * self.components + component, random, out);
    }

    fn tensors(&self) -> Vec<Tensor<'_>> {
        let mut tensors =
            vec![Tensor::new("weights", &[self.states, self.components], self.weights.as_slice())];
        tensors.extend(self.normals.tensors());
        tensors
    }
}
