//! One sweep over all pairs of a distance: log Z(x) = log Σ_y exp(φ(x, y) + b(y)), and the gradient of Σ_x
//! p̂(x)·log Z(x).
//!
//! Rows come in tiles. With embeddings a tile of scores is a product, and both products of the gradient are
//! made while its exponentials are in the cache; full matrices are read once and their gradient written once.
//! Tiles are in single precision, sums over rows in double precision. Work is cut into a constant number of
//! parts, so the bits do not depend on the threads.

use rayon::prelude::*;

use crate::numeric::{Elementwise, Matrix, multiply_here};

/// Rows of a tile.
pub(super) const ROWS: usize = 64;
/// Parts that rows are shared out in.
pub(super) const PARTS: usize = 16;

/// What a sweep has found.
#[derive(Default)]
pub(super) struct Swept {
    /// log Z.
    pub normalizers: Vec<f64>,
    /// The gradient in b.
    pub columns: Vec<f64>,
    /// In U, and in W; nothing for full matrices.
    pub left: Vec<f64>,
    pub right: Vec<f64>,
}

/// b in the forms that kernels need.
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

    /// Makes a row of scores exp(score + b − shift), and gives log Z and the sum.
    fn exponentiate(&self, row: &mut [f32]) -> (f64, f64) {
        let shift = f32::max_sum(row, &self.plain);
        f32::exp_shifted(row, shift, &self.negated);
        let sum = f32::dot(row, &self.ones);
        (f64::from(shift) + sum.ln(), sum)
    }
}

/// Rows of a part.
fn part_length(states: usize) -> usize {
    states.div_ceil(ROWS).div_ceil(PARTS).max(1) * ROWS
}

/// What a thread needs for embeddings, kept from part to part.
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
    // With a column for the marginal of y.
    let width = rank + 1;
    // Scores are found fastest with the words side by side, U's gradient with their numbers side by side.
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
            // The first writes: memory that is read before it is written is fetched twice.
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

/// A matrix φ; weight·∂/∂φ goes to `gradient`.
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
