//! Initial parameters and scaling. Every parameter is divided by STRETCH·(p̂(x)·C)^{−1/4} for its word x,
//! which speeds up rare words but keeps them stable. Only one factor per word is stored.

use crate::numeric::parallel::prelude::*;

use super::Moments;
use super::chains::{InteractionForm, Parameters, Shape};
use crate::random::Streams;

/// Standard deviation of the initial embeddings.
const SPREAD: f64 = 0.1;
/// Number of initial values drawn from each random stream.
const BLOCK: usize = 1024;
/// Overall scale, chosen such that the first step of L-BFGS has a useful length.
const STRETCH: f64 = 60.0;

/// The scales of all parameters.
pub(super) struct Scaling {
    shape: Shape,
    /// STRETCH·(p̂(x)·C)^{−1/4}.
    words: Vec<f64>,
}

impl Scaling {
    pub fn new(moments: &Moments, shape: Shape) -> Self {
        let n = moments.positions() as f64;
        let scale = |&count: &u64| STRETCH * (count.max(1) as f64 / n * shape.states as f64).powf(-0.25);
        Scaling { shape, words: moments.unary().iter().map(scale).collect() }
    }

    /// The scale of row `row` of the parameters, which are split into rows of equal length: b, then matrices,
    /// embeddings or rotations.
    fn row(&self, row: usize) -> f64 {
        self.words.get(row % self.shape.states).copied().unwrap_or(STRETCH)
    }

    /// Calls `work` with every row of the interactions, its scale, whether its columns are words too, and its
    /// start index.
    fn rows<T: Send>(&self, interactions: &mut [T], work: impl Fn(&mut [T], f64, bool, usize) + Sync) {
        let states = self.shape.states;
        match self.shape.form {
            InteractionForm::Full => {
                let rows = interactions.par_chunks_exact_mut(states).enumerate();
                rows.for_each(|(i, row)| work(row, self.row(i), true, i * states));
            }
            InteractionForm::Products(rank) | InteractionForm::Rotated(rank) => {
                let matrices = interactions.len() / (states * rank);
                let embeddings =
                    if matches!(self.shape.form, InteractionForm::Rotated(_)) { 2 } else { matrices }
                        * states
                        * rank;
                let (embeddings, rotations) = interactions.split_at_mut(embeddings);
                for (i, row) in embeddings.chunks_exact_mut(rank).enumerate() {
                    work(row, self.row(i), false, i * rank);
                }
                // A rotation is shared by all words.
                let first = embeddings.len();
                if !rotations.is_empty() {
                    work(rotations, STRETCH, false, first);
                }
            }
        }
    }

    /// The parameters at a point of the search.
    pub fn parameters(&self, z: &[f64]) -> Parameters {
        let (columns, interactions) = z.split_at(self.shape.columns());
        let columns = columns.iter().enumerate().map(|(i, z)| self.row(i) * z).collect();
        let mut single = vec![0.0f32; interactions.len()];
        self.rows(&mut single, |row, unit, words, first| {
            let from = &interactions[first..first + row.len()];
            if words {
                let each = row.iter_mut().zip(from).zip(&self.words);
                each.for_each(|((x, z), word)| *x = (unit * word / STRETCH * z) as f32);
            } else {
                row.iter_mut().zip(from).for_each(|(x, z)| *x = (unit * z) as f32);
            }
        });
        Parameters { columns, interactions: single }
    }

    /// Converts a gradient with respect to the parameters to one with respect to the point of the search.
    pub fn gradient(&self, gradient: &mut [f64]) {
        let (columns, interactions) = gradient.split_at_mut(self.shape.columns());
        columns.iter_mut().enumerate().for_each(|(i, g)| *g *= self.row(i));
        self.rows(interactions, |row, unit, words, _| {
            if words {
                row.iter_mut().zip(&self.words).for_each(|(g, word)| *g *= unit * word / STRETCH);
            } else {
                row.iter_mut().for_each(|g| *g *= unit);
            }
        });
    }

    /// The initial point: b is that of independent words, embeddings are small and random, rotations are the
    /// identity, full matrices are 0.
    pub fn begin(&self, moments: &Moments, seed: u64) -> Vec<f64> {
        let (shape, n) = (self.shape, moments.positions() as f64);
        let mut z = Vec::with_capacity(shape.parameters());
        for _ in 0..shape.context {
            let words = moments.unary().iter().zip(&self.words);
            z.extend(words.map(|(&count, unit)| (count.max(1) as f64 / n).ln() / unit));
        }
        let Some(rank) = shape.form.rank() else {
            z.resize(shape.parameters(), 0.0);
            return z;
        };
        let streams = Streams::new(seed, "first embeddings");
        let rotated = matches!(shape.form, InteractionForm::Rotated(_));
        let numbers = if rotated { 2 } else { 1 + shape.context } * shape.states * rank;
        for (block, first) in (0..numbers).step_by(BLOCK).enumerate() {
            let mut stream = streams.block(block as u64);
            for i in first..(first + BLOCK).min(numbers) {
                // Embeddings of frequent words start smaller, because their parameters move less.
                let unit = self.row(i / rank);
                z.push(SPREAD * (unit / STRETCH).min(1.0) * stream.normal() / unit);
            }
        }
        if rotated {
            for _ in 0..shape.context {
                let identity =
                    (0..rank * rank).map(|i| if i / rank == i % rank { 1.0 / STRETCH } else { 0.0 });
                z.extend(identity);
            }
        }
        z
    }
}
