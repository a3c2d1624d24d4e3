//! The parameters as one matrix, and the likelihood at given positions with its gradient.
//!
//! Row y of the matrix is (U(y), W¹(y), …, Wᴷ(y), b(y)). The scores of all states at a position are its
//! product with the context vector (Σ_l Wˡ(xₗ), U(x₋₁), …, U(x₋ₖ), 1); models that do not look ahead omit the
//! first D columns. A batch is therefore three matrix products: the scores, the gradient with respect to the
//! context vectors, and the gradient with respect to the rows of all states.

use crate::numeric::parallel::prelude::*;

use super::windows::Windows;
use crate::numeric::{Elementwise, Matrix, multiply, multiply_here};
use crate::random::Streams;

/// Standard deviation of the initial U.
const SPREAD: f64 = 0.1;
/// Positions of a batch per parallel task.
const PART: usize = 64;
/// Number of rows initialised from each random stream.
const BLOCK: usize = 1024;

/// The parameters; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Parameters {
    pub context: usize,
    pub rank: usize,
    /// Whether following words are used too.
    pub ahead: bool,
    pub matrix: Vec<f32>,
}

/// Buffers of a batch, and its gradient.
pub(super) struct Work {
    around: Vec<f32>,
    to_around: Vec<f32>,
    scores: Vec<f32>,
    zeros: Vec<f32>,
    ones: Vec<f32>,
    /// The gradient with respect to the multiplied columns, row-major.
    pub dense: Vec<f32>,
    /// The gradient with respect to U if it is not among those columns, and the indices of its non-zero rows.
    pub left: Vec<f32>,
    pub touched: Vec<usize>,
}

impl Parameters {
    /// Initial parameters: b of independent words, U small and random, Wˡ zero.
    pub fn first(counts: &[u64], context: usize, rank: usize, ahead: bool, seed: u64) -> Self {
        let (states, width) = (counts.len(), (context + 1) * rank + 1);
        let total: u64 = counts.iter().sum();
        let mut matrix = vec![0.0; states * width];
        let streams = Streams::new(seed, "first embeddings");
        for (block, rows) in matrix.chunks_mut(BLOCK * width).enumerate() {
            let mut random = streams.block(block as u64);
            for row in rows.chunks_exact_mut(width) {
                row[..rank].iter_mut().for_each(|u| *u = (SPREAD * random.normal()) as f32);
            }
        }
        for (row, &count) in matrix.chunks_exact_mut(width).zip(counts) {
            row[width - 1] = (count.max(1) as f64 / total.max(1) as f64).ln() as f32;
        }
        Parameters { context, rank, ahead, matrix }
    }

    pub fn width(&self) -> usize {
        (self.context + 1) * self.rank + 1
    }

    pub fn states(&self) -> usize {
        self.matrix.len() / self.width()
    }

    /// The first multiplied column.
    pub fn first_column(&self) -> usize {
        if self.ahead { 0 } else { self.rank }
    }

    /// The memory of a batch, in bytes.
    pub fn bytes(states: usize, context: usize, rank: usize, batch: usize) -> f64 {
        4.0 * states as f64 * (batch as f64 + (context + 2) as f64 * rank as f64)
    }

    /// One block of columns: U for l = 0, Wˡ for l ≥ 1.
    pub fn embedding(&self, l: usize) -> Vec<f32> {
        let rows = self.matrix.chunks_exact(self.width());
        rows.flat_map(|row| &row[l * self.rank..(l + 1) * self.rank]).copied().collect()
    }

    /// b.
    pub fn biases(&self) -> impl Iterator<Item = f64> + '_ {
        self.matrix.chunks_exact(self.width()).map(|row| f64::from(row[row.len() - 1]))
    }

    pub fn row(&self, state: usize, l: usize) -> &[f32] {
        &self.matrix[state * self.width() + l * self.rank..][..self.rank]
    }

    pub fn columns(&self) -> Matrix<'_, f32> {
        let width = self.width();
        Matrix::row_major(&self.matrix, self.states(), width).columns(self.first_column()..width)
    }

    /// Computes the context vector of a position; the scores are linear in it.
    fn look_around(&self, windows: &Windows, place: u32, around: &mut [f32]) {
        let (rank, first) = (self.rank, self.first_column());
        around.fill(0.0);
        if let Some(one) = around.last_mut() {
            *one = 1.0;
        }
        for l in 1..=self.context {
            let from = l * rank - first;
            around[from..from + rank].copy_from_slice(self.row(windows.before(place, l), 0));
            if self.ahead {
                let behind = self.row(windows.behind(place, l), l);
                around[..rank].iter_mut().zip(behind).for_each(|(a, w)| *a += w);
            }
        }
    }

    /// Σ log p of the states at the given positions; replaces the scores by p, minus 1 at the true state.
    /// With `back`, also computes the gradient with respect to the context vectors.
    fn forward(&self, windows: &Windows, places: &[u32], work: &mut Work, back: bool) -> f64 {
        let (states, width) = (self.states(), self.width() - self.first_column());
        let Work { around, to_around, scores, zeros, ones, .. } = work;
        let row = |row: &mut [f32], state: usize| {
            let shift = f32::max_sum(row, zeros);
            let own = f64::from(row[state] - shift);
            f32::exp_shifted(row, shift, zeros);
            let sum = f32::dot(row, ones);
            f32::multiply(row, sum.recip() as f32);
            row[state] -= 1.0;
            own - sum.ln()
        };
        let inputs = around.par_chunks_mut(PART * width).zip(to_around.par_chunks_mut(PART * width));
        let parts = places.par_chunks(PART).zip(inputs).zip(scores.par_chunks_mut(PART * states));
        let values = parts.map(|((places, (around, to_around)), scores)| {
            let (inputs, scores) = (places.len() * width, &mut scores[..places.len() * states]);
            let (around, to_around) = (&mut around[..inputs], &mut to_around[..inputs]);
            let each = places.iter().zip(around.chunks_exact_mut(width));
            each.for_each(|(&place, around)| self.look_around(windows, place, around));
            let around = Matrix::row_major(around, places.len(), width);
            multiply_here(around, self.columns().transposed(), scores, false);
            let each = places.iter().zip(scores.chunks_exact_mut(states));
            let value: f64 = each.map(|(&place, scores)| row(scores, windows.at(place))).sum();
            if back {
                let errors = Matrix::row_major(scores, places.len(), states);
                multiply_here(errors, self.columns(), to_around, false);
            }
            value
        });
        values.collect::<Vec<f64>>().iter().sum()
    }

    /// Σ log p over the given positions; `work` receives the gradient of −Σ log p.
    pub fn gradient(&self, windows: &Windows, places: &[u32], work: &mut Work) -> f64 {
        let value = self.forward(windows, places, work, true);
        let (states, rank, first) = (self.states(), self.rank, self.first_column());
        let width = self.width() - first;
        let errors = Matrix::row_major(&work.scores[..places.len() * states], places.len(), states);
        let around = Matrix::row_major(&work.around[..places.len() * width], places.len(), width);
        multiply(errors.transposed(), around, &mut work.dense, false);
        for &state in &work.touched {
            work.left[state * rank..(state + 1) * rank].fill(0.0);
        }
        work.touched.clear();
        for (&place, gradient) in places.iter().zip(work.to_around.chunks_exact(width)) {
            for l in 1..=self.context {
                let before = windows.before(place, l);
                let to = if self.ahead {
                    &mut work.dense[before * width..][..rank]
                } else {
                    work.touched.push(before);
                    &mut work.left[before * rank..][..rank]
                };
                to.iter_mut().zip(&gradient[l * rank - first..]).for_each(|(t, g)| *t += g);
                if self.ahead {
                    let to = &mut work.dense[windows.behind(place, l) * width + l * rank..][..rank];
                    to.iter_mut().zip(gradient).for_each(|(t, g)| *t += g);
                }
            }
        }
        work.touched.sort_unstable();
        work.touched.dedup();
        value
    }

    /// Σ log p over all positions of a text.
    pub fn log_likelihood(&self, windows: &Windows, work: &mut Work) -> f64 {
        let batch = work.around.len() / (self.width() - self.first_column());
        windows.places().chunks(batch.max(1)).map(|places| self.forward(windows, places, work, false)).sum()
    }
}

impl Work {
    pub fn new(of: &Parameters, batch: usize, gradient: bool) -> Self {
        let (states, width) = (of.states(), of.width() - of.first_column());
        let sized = |wanted: bool, length: usize| vec![0.0; if wanted { length } else { 0 }];
        Work {
            around: vec![0.0; batch * width],
            to_around: vec![0.0; batch * width],
            scores: vec![0.0; batch * states],
            zeros: vec![0.0; states],
            ones: vec![1.0; states],
            dense: sized(gradient, states * width),
            left: sized(gradient && !of.ahead, states * of.rank),
            touched: Vec::new(),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let mut random = Streams::new(3, "baseline tests").block(0);
        let sentences: Vec<Vec<u32>> =
            (0..6).map(|i| (0..=i).map(|_| 1 + random.below(5) as u32).collect()).collect();
        for (ahead, context) in [(false, 2), (true, 2), (false, 1), (true, 3)] {
            let windows = Windows::new(&sentences, context);
            let mut parameters = Parameters::first(&[3, 9, 1, 4, 2, 2], context, 3, ahead, 1);
            parameters.matrix.iter_mut().for_each(|x| *x += 0.5 * random.normal() as f32);
            let places = windows.places();
            let mut work = Work::new(&parameters, places.len(), true);
            // Twice: results of an earlier batch must not remain in the buffers.
            parameters.gradient(&windows, &places[..5], &mut work);
            let value = parameters.gradient(&windows, places, &mut work);
            let mut small = Work::new(&parameters, 4, false);
            assert!((parameters.log_likelihood(&windows, &mut small) - value).abs() < 1e-4);
            let (width, first) = (parameters.width(), parameters.first_column());
            for at in 0..parameters.matrix.len() {
                let (state, column) = (at / width, at % width);
                let found = match column.checked_sub(first) {
                    Some(column) => work.dense[state * (width - first) + column],
                    None => work.left[state * 3 + column],
                };
                let mut moved = |step: f32| {
                    let mut other = parameters.clone();
                    other.matrix[at] += step;
                    other.log_likelihood(&windows, &mut small)
                };
                let want = -(moved(0.01) - moved(-0.01)) / 0.02;
                assert!((f64::from(found) - want).abs() < 5e-3 * (1.0 + want.abs()), "{found} {want}");
            }
        }
    }

    #[test]
    fn probabilities_add_up_and_are_those_of_the_formula() {
        let mut random = Streams::new(4, "baseline tests").block(0);
        for ahead in [false, true] {
            let mut parameters = Parameters::first(&[3, 9, 1], 2, 2, ahead, 1);
            parameters.matrix.iter_mut().for_each(|x| *x += random.normal() as f32);
            let row = |y: usize, l: usize| parameters.row(y, l).to_vec();
            let dot = |a: Vec<f32>, b: Vec<f32>| a.iter().zip(&b).map(|(a, b)| f64::from(a * b)).sum::<f64>();
            let biases: Vec<f64> = parameters.biases().collect();
            let padded = [0usize, 0, 2, 1, 0, 0, 0];
            let score = |place: usize, y: usize| {
                let each = (1..=2).map(|l| {
                    let behind = if ahead { dot(row(y, 0), row(padded[place + l], l)) } else { 0.0 };
                    dot(row(padded[place - l], 0), row(y, l)) + behind
                });
                biases[y] + each.sum::<f64>()
            };
            let want: f64 = (2..5)
                .map(|place| {
                    let scores: Vec<f64> = (0..3).map(|y| score(place, y)).collect();
                    scores[padded[place]] - crate::numeric::log_sum_exp(&scores)
                })
                .sum();
            let windows = Windows::new(&[vec![2, 1]], 2);
            assert_eq!((windows.words(), windows.places().len()), (2, 3));
            let mut work = Work::new(&parameters, 2, false);
            assert!((parameters.log_likelihood(&windows, &mut work) - want).abs() < 1e-5);
        }
    }
}
