//! One sweep over all pairs at a distance: log Z(x) = log Σ_y exp(φ(x, y) + b(y)), and the gradient of Σ_x
//! p̂(x)·log Z(x).
//!
//! Rows are processed in tiles. With embeddings, a tile of scores is a matrix product, and both products for
//! the gradient are computed while its exponentials are in the cache. Full matrices are read once and their
//! gradient is written once. Tiles are in single precision, sums over rows in double precision. The work is
//! split into a constant number of parts, so the bits do not depend on the number of threads.

use crate::numeric::parallel::prelude::*;

use crate::numeric::{Elementwise, Matrix, multiply_here};

/// Rows per tile.
pub(super) const ROWS: usize = 64;
/// Number of parts into which the rows are split.
pub(super) const PARTS: usize = 16;

/// The result of a sweep.
#[derive(Default)]
pub(super) struct Swept {
    /// log Z.
    pub normalizers: Vec<f64>,
    /// The gradient with respect to b.
    pub columns: Vec<f64>,
    /// The gradients with respect to U and W; empty for full matrices.
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

/// b in the forms required by the kernels.
struct Columns {
    plain: Vec<f32>,
    negated: Vec<f32>,
    ones: Vec<f32>,
}

impl Columns {
    fn new(columns: &[f64]) -> Self {
        let plain: Vec<f32> = columns.iter().map(|&b| b as f32).collect();
        let negated = plain.iter().map(|b| -b).collect();
        Columns { ones: vec![1.0; plain.len()], plain, negated }
    }

    /// Replaces a row of scores by exp(score + b − shift); returns log Z and the sum of the row.
    fn exponentiate(&self, row: &mut [f32]) -> (f64, f64) {
        let shift = f32::max_sum(row, &self.plain);
        f32::exp_shifted(row, shift, &self.negated);
        let sum = f32::dot(row, &self.ones);
        (f64::from(shift) + sum.ln(), sum)
    }
}

/// Rows per part.
fn part_length(states: usize) -> usize {
    states.div_ceil(ROWS).div_ceil(PARTS).max(1) * ROWS
}

/// Buffers of a thread for embeddings, reused between parts.
#[derive(Default)]
struct Room {
    tile: Vec<f32>,
    product: Vec<f32>,
    weighted: Vec<f32>,
}

/// φ = U·Wᵀ, both C × D.
pub(super) fn low_rank(left: &[f32], right: &[f32], rank: usize, columns: &[f64], law: &[f64]) -> Swept {
    let states = columns.len();
    let columns = Columns::new(columns);
    let length = part_length(states);
    // One extra column for the marginal of y.
    let width = rank + 1;
    // Scores are fastest with words contiguous, the gradient of U with the components of a word contiguous.
    let mut turned = vec![0.0f32; right.len()];
    for (y, row) in right.chunks_exact(rank).enumerate() {
        row.iter().enumerate().for_each(|(d, &w)| turned[d * states + y] = w);
    }
    let turned = Matrix::row_major(&turned, rank, states);
    let part = |room: &mut Room, first: usize| {
        let end = (first + length).min(states);
        let mut normalizers = Vec::with_capacity(end - first);
        let mut to_left = Vec::with_capacity((end - first) * rank);
        let mut to_right = vec![0.0f32; states * width];
        room.tile.resize(ROWS * states, 0.0);
        room.product.resize(ROWS * rank, 0.0);
        for row in (first..end).step_by(ROWS) {
            let rows = ROWS.min(end - row);
            let tile = &mut room.tile[..rows * states];
            let own = &left[row * rank..(row + rows) * rank];
            multiply_here(Matrix::row_major(own, rows, rank), turned, tile, false);
            room.weighted.clear();
            for ((values, own), law) in
                tile.chunks_exact_mut(states).zip(own.chunks_exact(rank)).zip(&law[row..])
            {
                let (normalizer, sum) = columns.exponentiate(values);
                normalizers.push(normalizer);
                let factor = (law / sum) as f32;
                room.weighted.extend(own.iter().map(|&u| factor * u));
                room.weighted.push(factor);
            }
            let matrix = Matrix::row_major(tile, rows, states);
            let product = &mut room.product[..rows * rank];
            multiply_here(matrix, Matrix::row_major(right, states, rank), product, false);
            for (product, weighted) in product.chunks_exact(rank).zip(room.weighted.chunks_exact(width)) {
                let factor = f64::from(weighted[rank]);
                to_left.extend(product.iter().map(|&x| factor * f64::from(x)));
            }
            let weighted = Matrix::row_major(&room.weighted, rows, width);
            // The first product overwrites: adding would read untouched memory first and fetch it twice.
            multiply_here(matrix.transposed(), weighted, &mut to_right, row > first);
        }
        (normalizers, to_left, to_right)
    };
    let firsts: Vec<usize> = (0..states).step_by(length).collect();
    let parts: Vec<_> = firsts.into_par_iter().map_init(Room::default, part).collect();
    let mut swept = Swept { columns: vec![0.0; states], right: vec![0.0; states * rank], ..Swept::default() };
    for (normalizers, left, _) in &parts {
        swept.normalizers.extend_from_slice(normalizers);
        swept.left.extend_from_slice(left);
    }
    let to = swept.right.par_chunks_exact_mut(rank).zip(&mut swept.columns).enumerate();
    to.for_each(|(y, (right, column))| {
        for (d, right) in right.iter_mut().enumerate() {
            *right = parts.iter().map(|(_, _, part)| f64::from(part[y * width + d])).sum();
        }
        *column = parts.iter().map(|(_, _, part)| f64::from(part[y * width + rank])).sum();
    });
    swept
}

/// The sweep for a full matrix φ; weight·∂/∂φ is written to `gradient`.
pub(super) fn full(matrix: &[f32], columns: &[f64], law: &[f64], weight: f64, gradient: &mut [f64]) -> Swept {
    let states = columns.len();
    let columns = Columns::new(columns);
    let length = part_length(states);
    let chunk = length * states;
    let parts: Vec<_> = gradient
        .par_chunks_mut(chunk)
        .zip(matrix.par_chunks(chunk))
        .zip(law.par_chunks(length))
        .map_init(
            || vec![0.0f32; states],
            |values, ((gradient, matrix), law)| {
                let mut normalizers = Vec::with_capacity(law.len());
                let mut to_columns = vec![0.0f64; states];
                let rows = gradient.chunks_exact_mut(states).zip(matrix.chunks_exact(states)).zip(law);
                for ((gradient, matrix), law) in rows {
                    values.copy_from_slice(matrix);
                    let (normalizer, sum) = columns.exponentiate(values);
                    normalizers.push(normalizer);
                    let factor = law / sum;
                    for ((g, t), &e) in gradient.iter_mut().zip(&mut to_columns).zip(values.iter()) {
                        let p = factor * f64::from(e);
                        *t += p;
                        *g = weight * p;
                    }
                }
                (normalizers, to_columns)
            },
        )
        .collect();
    let mut swept = Swept { columns: vec![0.0; states], ..Swept::default() };
    for (normalizers, columns) in parts {
        swept.normalizers.extend(normalizers);
        swept.columns.iter_mut().zip(&columns).for_each(|(t, x)| *t += x);
    }
    swept
}
