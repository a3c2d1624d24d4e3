//! What learning makes less: Σ_l w_l·CE_l + λ/2·‖φ‖², in nats a position, where CE_l is the cross-entropy of the text under the chain of its l-step pairs,
//! P_l(y | x) = exp(φˡ(x, y) + b_l(y)) / Z_l(x).
//!
//! Why this is the whole problem. For θˡ = ρ_l·φˡ and θ⁰ = Σ_l ρ_l·(b_l − log Z_l) the matrix M_l of the spectral bound has the eigenvector Z_l and the radius 1, so the bound on A/N is 0
//! (but for the ends), and −⟨μ̂, θ⟩ is Σ_l ρ_l·CE_l. Every (θ, u) has this form, so the least value of the bound's objective is found without a single power
//! iteration. The star bound has the same form: with w_l = 1/(K+1), θˡ = w_l·φˡ and the best root score log p̂ − Σ_l log Z_l its objective is Σ_l w_l·CE_l plus H(p̂)/(K+1), where H is the entropy of single
//! words. So both bounds are averages over distances of what chains that see one word each can do (the star's with one that sees none).
//!
//! The value is convex in (φ, b). An evaluation is one pass over tiles of rows: scores from the embeddings, exponentials, sums, and both products of the gradient while a tile is in the cache; no
//! C × C matrix is ever in memory. 6·K·C²·D operations and K·C² exponentials, however long the text. Tiles are in single precision, sums over rows and everything else in double precision; work is
//! cut into a constant number of parts, so the bits do not depend on the threads.

use rayon::prelude::*;

use super::{Moments, Sparse};
use crate::numeric::{Elementwise, Matrix, multiply_here};

/// Rows of a tile.
const ROWS: usize = 32;
/// Parts that rows are shared out in.
const PARTS: usize = 16;

/// The shape of the parameters: b₁, …, b_K, then U and W¹, …, Wᴷ, or φ¹, …, φᴷ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub states: usize,
    pub context: usize,
    /// D, or none for full matrices.
    pub rank: Option<usize>,
}

impl Shape {
    /// The numbers of φ.
    pub fn interactions(&self) -> usize {
        match self.rank {
            Some(rank) => (1 + self.context) * self.states * rank,
            None => self.context * self.states * self.states,
        }
    }

    /// The numbers of b.
    pub fn columns(&self) -> usize {
        self.context * self.states
    }

    /// All parameters.
    pub fn parameters(&self) -> usize {
        self.columns() + self.interactions()
    }
}

/// The objective.
pub(crate) struct Chains<'a> {
    moments: &'a Moments,
    transposed: Vec<Sparse>,
    pub shape: Shape,
    /// w_l.
    weights: Vec<f64>,
    l2: f64,
    /// log Z_l of the last evaluation.
    pub normalizers: Vec<Vec<f64>>,
}

/// φ of one distance.
#[derive(Clone, Copy)]
enum Scores<'a> {
    Full(&'a [f32]),
    LowRank(&'a [f32], &'a [f32], usize),
}

/// What a pass has found: log Z, and the gradient of Σ_x p̂(x)·log Z(x).
struct Gradient {
    normalizers: Vec<f64>,
    columns: Vec<f64>,
    /// In U, or in φ.
    left: Vec<f64>,
    /// In W, or nothing.
    right: Vec<f64>,
}

impl<'a> Chains<'a> {
    pub fn new(moments: &'a Moments, rank: Option<usize>, weights: Vec<f64>, l2: f64) -> Self {
        let shape = Shape { states: moments.states(), context: moments.context(), rank };
        let transposed = match rank {
            Some(_) => moments.pairs().iter().map(Sparse::transposed).collect(),
            None => Vec::new(),
        };
        let normalizers = vec![vec![0.0; shape.states]; shape.context];
        Chains { moments, transposed, shape, weights, l2, normalizers }
    }

    /// Bytes beside the parameters.
    pub fn bytes(moments: &Moments, rank: Option<usize>, threads: usize) -> f64 {
        let states = moments.states() as f64;
        let rest = match rank {
            Some(rank) => {
                let pairs: usize = moments.pairs().iter().map(Sparse::pairs).sum();
                states * rank as f64 * (4.0 * PARTS as f64 + 40.0) + 16.0 * pairs as f64
            }
            None => 12.0 * states * states,
        };
        rest + states * (4.0 * (ROWS * threads) as f64 + 12.0 * PARTS as f64)
    }

    /// The value at a point, and its gradient.
    pub fn evaluate(&mut self, point: &[f64], gradient: &mut [f64]) -> f64 {
        let Shape { states, context, rank } = self.shape;
        let (columns, interactions) = point.split_at(self.shape.columns());
        let single: Vec<f32> = interactions.iter().map(|&x| x as f32).collect();
        gradient.fill(0.0);
        let (to_columns, to) = gradient.split_at_mut(self.shape.columns());
        let n = self.moments.positions() as f64;
        let law: Vec<f64> = self.moments.unary().iter().map(|&count| count as f64 / n).collect();
        let mut value = 0.0;
        for l in 0..context {
            let weight = self.weights[l];
            let columns = &columns[l * states..(l + 1) * states];
            let to_columns = &mut to_columns[l * states..(l + 1) * states];
            let found = pass(scores(&single, self.shape, l), columns, &law);
            for (((g, m), p), (b, z)) in to_columns
                .iter_mut()
                .zip(&found.columns)
                .zip(&law)
                .zip(columns.iter().zip(&found.normalizers))
            {
                *g = weight * (m - p);
                if *p > 0.0 {
                    value += weight * p * (z - b);
                }
            }
            match rank {
                None => {
                    let to = &mut to[l * states * states..][..states * states];
                    to.par_iter_mut().zip(&found.left).for_each(|(g, x)| *g = weight * x);
                    for x in 0..states {
                        let row = (l * states + x) * states;
                        for (y, count) in self.moments.pairs()[l].row(x) {
                            to[x * states + y] -= weight * count as f64 / n;
                            value -= weight * count as f64 / n * f64::from(single[row + y]);
                        }
                    }
                }
                Some(rank) => {
                    let size = states * rank;
                    let (left, right) = (&single[..size], &single[(1 + l) * size..][..size]);
                    let (to_left, to_right) = to.split_at_mut(size);
                    let to_right = &mut to_right[l * size..][..size];
                    let data = products(&self.moments.pairs()[l], right, rank, n);
                    value -= weight * data.iter().zip(left).map(|(v, &u)| v * f64::from(u)).sum::<f64>();
                    add_difference(to_left, &found.left, &data, weight);
                    let data = products(&self.transposed[l], left, rank, n);
                    add_difference(to_right, &found.right, &data, weight);
                }
            }
            self.normalizers[l] = found.normalizers;
        }
        if self.l2 > 0.0 {
            for (g, x) in to.iter_mut().zip(interactions) {
                value += 0.5 * self.l2 * x * x;
                *g += self.l2 * x;
            }
        }
        if value.is_finite() { value } else { f64::INFINITY }
    }

    /// Σ_l w_l·CE_l of another text under the chains of the last evaluation, for the same vocabulary.
    pub fn cross_entropy(&self, point: &[f64], moments: &Moments) -> f64 {
        let Shape { states, context, .. } = self.shape;
        let (columns, interactions) = point.split_at(self.shape.columns());
        let n = moments.positions() as f64;
        let each = (0..context).map(|l| {
            let columns = &columns[l * states..(l + 1) * states];
            let normalizers = &self.normalizers[l];
            let rows = (0..states).into_par_iter().map(|x| {
                let pairs = moments.pairs()[l].row(x);
                pairs
                    .map(|(y, count)| {
                        count as f64 * (normalizers[x] - columns[y] - self.score(interactions, l, x, y))
                    })
                    .sum::<f64>()
            });
            self.weights[l] * rows.collect::<Vec<f64>>().iter().sum::<f64>() / n
        });
        each.sum()
    }

    fn score(&self, interactions: &[f64], l: usize, x: usize, y: usize) -> f64 {
        let states = self.shape.states;
        match self.shape.rank {
            None => interactions[(l * states + x) * states + y],
            Some(rank) => {
                let (left, right) =
                    (&interactions[x * rank..], &interactions[((1 + l) * states + y) * rank..]);
                left[..rank].iter().zip(&right[..rank]).map(|(u, w)| u * w).sum()
            }
        }
    }
}

/// φ of a distance among the interactions.
fn scores(single: &[f32], shape: Shape, l: usize) -> Scores<'_> {
    let states = shape.states;
    match shape.rank {
        None => Scores::Full(&single[l * states * states..][..states * states]),
        Some(rank) => {
            let size = states * rank;
            Scores::LowRank(&single[..size], &single[(1 + l) * size..][..size], rank)
        }
    }
}

/// The pass over all tiles.
fn pass(scores: Scores<'_>, columns: &[f64], law: &[f64]) -> Gradient {
    let states = columns.len();
    let single: Vec<f32> = columns.iter().map(|&b| b as f32).collect();
    let ones = vec![1.0f32; states];
    let negated: Vec<f32> = single.iter().map(|b| -b).collect();
    let length = states.div_ceil(ROWS).div_ceil(PARTS).max(1) * ROWS;
    let part = |first: usize| {
        let end = (first + length).min(states);
        let mut normalizers = Vec::with_capacity(end - first);
        let mut factors = Vec::with_capacity(ROWS);
        let mut tile = vec![0.0f32; ROWS * states];
        let mut left = Vec::new();
        // With a column for the marginal of y.
        let width = if let Scores::LowRank(_, _, rank) = scores { rank + 1 } else { 1 };
        let mut right = vec![0.0f32; states * width];
        let mut weighted = Vec::with_capacity(ROWS * width);
        let mut row = first;
        while row < end {
            let rows = ROWS.min(end - row);
            let tile = &mut tile[..rows * states];
            match scores {
                Scores::Full(matrix) => tile.copy_from_slice(&matrix[row * states..(row + rows) * states]),
                Scores::LowRank(left, right, rank) => {
                    let left = Matrix::row_major(&left[row * rank..(row + rows) * rank], rows, rank);
                    let right = Matrix::row_major(right, states, rank);
                    multiply_here(left, right.transposed(), tile, false);
                }
            }
            factors.clear();
            for (i, values) in tile.chunks_exact_mut(states).enumerate() {
                let shift = f32::max_sum(values, &single);
                f32::exp_shifted(values, shift, &negated);
                let sum = f32::dot(values, &ones);
                normalizers.push(f64::from(shift) + sum.ln());
                factors.push((law[row + i] / sum) as f32);
            }
            weighted.clear();
            let matrix = Matrix::row_major(tile, rows, states);
            match scores {
                Scores::Full(_) => {
                    weighted.extend_from_slice(&factors);
                    for (values, &factor) in tile.chunks_exact(states).zip(&factors) {
                        left.extend(values.iter().map(|&e| f64::from(factor) * f64::from(e)));
                    }
                }
                Scores::LowRank(own, other, rank) => {
                    let mut product = vec![0.0f32; rows * rank];
                    multiply_here(matrix, Matrix::row_major(other, states, rank), &mut product, false);
                    for (i, &factor) in factors.iter().enumerate() {
                        left.extend(
                            product[i * rank..(i + 1) * rank]
                                .iter()
                                .map(|&x| f64::from(factor) * f64::from(x)),
                        );
                        weighted.extend(own[(row + i) * rank..][..rank].iter().map(|&u| factor * u));
                        weighted.push(factor);
                    }
                }
            }
            multiply_here(matrix.transposed(), Matrix::row_major(&weighted, rows, width), &mut right, true);
            row += rows;
        }
        (normalizers, left, right, width)
    };
    let firsts: Vec<usize> = (0..states).step_by(length).collect();
    let parts: Vec<_> = firsts.into_par_iter().map(part).collect();
    let width = parts.first().map_or(1, |part| part.3);
    let mut found = Gradient {
        normalizers: Vec::with_capacity(states),
        columns: vec![0.0; states],
        left: Vec::new(),
        right: vec![0.0; states * (width - 1)],
    };
    for (normalizers, left, right, _) in parts {
        found.normalizers.extend(normalizers);
        found.left.extend(left);
        for (y, row) in right.chunks_exact(width).enumerate() {
            found.columns[y] += f64::from(row[width - 1]);
            let target = &mut found.right[y * (width - 1)..(y + 1) * (width - 1)];
            target.iter_mut().zip(row).for_each(|(t, &x)| *t += f64::from(x));
        }
    }
    found
}

/// counts/n times an embedding.
fn products(pairs: &Sparse, embedding: &[f32], rank: usize, n: f64) -> Vec<f64> {
    let mut products = vec![0.0; pairs.rows() * rank];
    products.par_chunks_exact_mut(rank).enumerate().for_each(|(x, product)| {
        for (y, count) in pairs.row(x) {
            let factor = count as f64 / n;
            let other = &embedding[y * rank..][..rank];
            product.iter_mut().zip(other).for_each(|(t, &w)| *t += factor * f64::from(w));
        }
    });
    products
}

fn add_difference(to: &mut [f64], a: &[f64], b: &[f64], weight: f64) {
    to.iter_mut().zip(a.iter().zip(b)).for_each(|(t, (a, b))| *t += weight * (a - b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let mut random = Streams::new(1, "chains tests").block(0);
        let states = 7;
        // The moments of a cycle of states, so that rows and columns of the pairs have the same sums.
        let cycle: Vec<u32> = (0..200).map(|_| random.below(states) as u32).collect();
        let mut unary = vec![0; states];
        cycle.iter().for_each(|&x| unary[x as usize] += 1);
        let pairs = (1..=2).map(|l| {
            let pairs = (0..200).map(|i| (cycle[i], cycle[(i + l) % 200], 1));
            Sparse::new(states, pairs.collect())
        });
        let moments = Moments::new(unary, pairs.collect(), vec![0, 1]);
        for rank in [Some(3), None] {
            let mut chains = Chains::new(&moments, rank, vec![0.7, 0.3], 0.01);
            let size = chains.shape.parameters();
            let point: Vec<f64> = (0..size).map(|_| 0.5 * random.normal()).collect();
            let mut gradient = vec![0.0; size];
            let value = chains.evaluate(&point, &mut gradient);
            let penalty: f64 = point[chains.shape.columns()..].iter().map(|x| 0.005 * x * x).sum();
            assert!((chains.cross_entropy(&point, &moments) + penalty - value).abs() < 1e-5);
            let mut ignored = vec![0.0; size];
            for i in 0..size {
                let mut at = |step: f64| {
                    let mut moved = point.clone();
                    moved[i] += step;
                    chains.evaluate(&moved, &mut ignored)
                };
                // Single precision: differences of 10⁻² have errors of 10⁻⁵.
                let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
                assert!((slope - gradient[i]).abs() < 1e-4, "{i}: {slope} {}", gradient[i]);
            }
        }
    }
}
