//! Training objective: Σ_l w_l·CE_l + λ/2·‖φ‖², in nats per position, where CE_l is the cross-entropy of the
//! text under the chain of its l-step pairs, P_l(y | x) = exp(φˡ(x, y) + b_l(y)) / Z_l(x).
//!
//! Why this is the whole problem: for θˡ = ρ_l·φˡ and θ⁰ = Σ_l ρ_l·(b_l − log Z_l) the matrix M_l of the
//! spectral bound has the eigenvector Z_l and spectral radius 1, so the bound on A/N is 0 (except for
//! boundary terms), and −⟨μ̂, θ⟩ is Σ_l ρ_l·CE_l. Every (θ, u) has this form, so the minimum of the bound's
//! objective is found without any power iteration. The star bound has the same form: with w_l = 1/(K+1), θˡ =
//! w_l·φˡ and the optimal root score log p̂ − Σ_l log Z_l, its objective is Σ_l w_l·CE_l plus H(p̂)/(K+1),
//! where H is the entropy of single words. Both bounds are therefore averages over distances of
//! cross-entropies of chains that condition on one word each (for the star bound, with one term that
//! conditions on none).
//!
//! The objective is convex in (φ, b). An evaluation is one sweep over all pairs for each distance (module
//! `sweep`): with embeddings no C × C matrix is ever in memory. Cost: 6·K·C²·D operations and K·C²
//! exponentials, independent of the length of the text.
//!
//! φ has three forms: matrices; φˡ = U·(Wˡ)ᵀ (Eq. 5 of the paper); φˡ = U·Rˡ·Wᵀ (Eq. 4), which is evaluated
//! as the second with Wˡ = W·(Rˡ)ᵀ, and its gradient is obtained by the chain rule.

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::sweep::{self, PARTS, ROWS};
use super::{Moments, Sparse};
use crate::numeric::{Matrix, multiply_here};

/// The form of φ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InteractionForm {
    /// One matrix per distance.
    Full,
    /// φˡ = U·(Wˡ)ᵀ, with embeddings of dimension D.
    Products(usize),
    /// φˡ = U·Rˡ·Wᵀ, with embeddings of dimension D and one D × D matrix per distance.
    Rotated(usize),
}

impl InteractionForm {
    /// The dimension D of the embeddings.
    pub fn rank(self) -> Option<usize> {
        match self {
            InteractionForm::Full => None,
            InteractionForm::Products(rank) | InteractionForm::Rotated(rank) => Some(rank),
        }
    }
}

/// The shape of the parameters: b₁, …, b_K, then φ¹, …, φᴷ, or U and W¹, …, Wᴷ, or U, W and R¹, …, Rᴷ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub states: usize,
    pub context: usize,
    pub form: InteractionForm,
}

impl Shape {
    /// The number of parameters of φ.
    pub fn interactions(&self) -> usize {
        match self.form {
            InteractionForm::Full => self.context * self.states * self.states,
            InteractionForm::Products(rank) => (1 + self.context) * self.states * rank,
            InteractionForm::Rotated(rank) => 2 * self.states * rank + self.context * rank * rank,
        }
    }

    /// The number of parameters of b.
    pub fn columns(&self) -> usize {
        self.context * self.states
    }

    /// The number of all parameters.
    pub fn parameters(&self) -> usize {
        self.columns() + self.interactions()
    }
}

/// Parameters in the precision in which they are used.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Parameters {
    /// b.
    pub columns: Vec<f64>,
    /// φ.
    pub interactions: Vec<f32>,
}

impl Parameters {
    /// Rotated embeddings expanded to products; other forms are unchanged.
    pub fn products(&self, shape: Shape) -> std::borrow::Cow<'_, [f32]> {
        let InteractionForm::Rotated(rank) = shape.form else { return (&self.interactions).into() };
        let size = shape.states * rank;
        let (left, rest) = self.interactions.split_at(size);
        let (right, rotations) = rest.split_at(size);
        let mut products = left.to_vec();
        products.resize((1 + shape.context) * size, 0.0);
        for (product, rotation) in
            products[size..].chunks_exact_mut(size).zip(rotations.chunks_exact(rank * rank))
        {
            let rotation = Matrix::row_major(rotation, rank, rank).transposed();
            multiply_here(Matrix::row_major(right, shape.states, rank), rotation, product, false);
        }
        products.into()
    }
}

/// The training objective.
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

impl<'a> Chains<'a> {
    pub fn new(moments: &'a Moments, form: InteractionForm, weights: Vec<f64>, l2: f64) -> Self {
        let shape = Shape { states: moments.states(), context: moments.context(), form };
        let transposed = match form {
            InteractionForm::Full => Vec::new(),
            _ => moments.pairs().iter().map(Sparse::transposed).collect(),
        };
        let normalizers = vec![vec![0.0; shape.states]; shape.context];
        Chains { moments, transposed, shape, weights, l2, normalizers }
    }

    /// The memory in bytes, without the parameters.
    pub fn bytes(moments: &Moments, form: InteractionForm, threads: usize) -> f64 {
        let (states, context) = (moments.states() as f64, moments.context() as f64);
        let rest = match form.rank() {
            Some(rank) => {
                let pairs: usize = moments.pairs().iter().map(Sparse::pairs).sum();
                let copies =
                    if matches!(form, InteractionForm::Rotated(_)) { 12.0 * (1.0 + context) } else { 0.0 };
                states * rank as f64 * (4.0 * PARTS as f64 + 40.0 + copies) + 16.0 * pairs as f64
            }
            None => 0.0,
        };
        rest + states * (4.0 * (ROWS * threads) as f64 + 12.0 * PARTS as f64)
    }

    /// The value at a point; its gradient is written to `gradient`.
    pub fn evaluate(&mut self, point: &Parameters, gradient: &mut [f64]) -> f64 {
        let shape = self.shape;
        let (to_columns, to) = gradient.split_at_mut(shape.columns());
        let mut value = match shape.form {
            InteractionForm::Full => self.evaluate_full(point, to_columns, to),
            InteractionForm::Products(rank) => {
                self.evaluate_products(&point.columns, &point.interactions, rank, to_columns, to)
            }
            InteractionForm::Rotated(rank) => {
                let products = point.products(shape);
                let mut expanded = vec![0.0; products.len()];
                let value =
                    self.evaluate_products(&point.columns, &products, rank, to_columns, &mut expanded);
                self.bring_back(&point.interactions, &expanded, rank, to);
                value
            }
        };
        if self.l2 > 0.0 {
            for (g, &x) in to.iter_mut().zip(&point.interactions) {
                let x = f64::from(x);
                value += 0.5 * self.l2 * x * x;
                *g += self.l2 * x;
            }
        }
        if value.is_finite() { value } else { f64::INFINITY }
    }

    /// p̂, the empirical distribution of single states.
    fn law(&self) -> Vec<f64> {
        let n = self.moments.positions() as f64;
        self.moments.unary().iter().map(|&count| count as f64 / n).collect()
    }

    /// Stores the normalisers of a sweep; returns the terms of the value in b and log Z, and writes the
    /// gradient with respect to b.
    fn note(&mut self, l: usize, swept: sweep::Swept, columns: &[f64], law: &[f64], to: &mut [f64]) -> f64 {
        let weight = self.weights[l];
        let mut value = 0.0;
        let each = swept.columns.iter().zip(law).zip(columns.iter().zip(&swept.normalizers));
        for (g, ((m, p), (b, z))) in to.iter_mut().zip(each) {
            *g = weight * (m - p);
            if *p > 0.0 {
                value += weight * p * (z - b);
            }
        }
        self.normalizers[l] = swept.normalizers;
        value
    }

    fn evaluate_full(&mut self, point: &Parameters, to_columns: &mut [f64], to: &mut [f64]) -> f64 {
        let states = self.shape.states;
        let (n, law) = (self.moments.positions() as f64, self.law());
        let mut value = 0.0;
        for l in 0..self.shape.context {
            let columns = &point.columns[l * states..(l + 1) * states];
            let range = l * states * states..(l + 1) * states * states;
            let (matrix, to) = (&point.interactions[range.clone()], &mut to[range]);
            let weight = self.weights[l];
            let swept = sweep::full(matrix, columns, &law, weight, to);
            value += self.note(l, swept, columns, &law, &mut to_columns[l * states..(l + 1) * states]);
            for x in 0..states {
                for (y, count) in self.moments.pairs()[l].row(x) {
                    let share = weight * count as f64 / n;
                    to[x * states + y] -= share;
                    value -= share * f64::from(matrix[x * states + y]);
                }
            }
        }
        value
    }

    fn evaluate_products(
        &mut self,
        columns: &[f64],
        products: &[f32],
        rank: usize,
        to_columns: &mut [f64],
        to: &mut [f64],
    ) -> f64 {
        let states = self.shape.states;
        let (n, law) = (self.moments.positions() as f64, self.law());
        let size = states * rank;
        let (left, right) = products.split_at(size);
        let (to_left, to_right) = to.split_at_mut(size);
        to_left.fill(0.0);
        let mut value = 0.0;
        for l in 0..self.shape.context {
            let weight = self.weights[l];
            let columns = &columns[l * states..(l + 1) * states];
            let (right, to_right) =
                (&right[l * size..(l + 1) * size], &mut to_right[l * size..(l + 1) * size]);
            let swept = sweep::low_rank(left, right, rank, columns, &law);
            let data = counted(&self.moments.pairs()[l], right, rank, n);
            value -= weight * data.iter().zip(left).map(|(v, &u)| v * f64::from(u)).sum::<f64>();
            for (t, (a, b)) in to_left.iter_mut().zip(swept.left.iter().zip(&data)) {
                *t += weight * (a - b);
            }
            let data = counted(&self.transposed[l], left, rank, n);
            for (t, (a, b)) in to_right.iter_mut().zip(swept.right.iter().zip(&data)) {
                *t = weight * (a - b);
            }
            value += self.note(l, swept, columns, &law, &mut to_columns[l * states..(l + 1) * states]);
        }
        value
    }

    /// The gradient with respect to U, W and Rˡ from that with respect to U and Wˡ = W·(Rˡ)ᵀ.
    fn bring_back(&self, interactions: &[f32], expanded: &[f64], rank: usize, to: &mut [f64]) {
        let states = self.shape.states;
        let size = states * rank;
        let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
        let (right, rotations) = interactions[size..].split_at(size);
        let (right, rotations) = (wide(right), wide(rotations));
        to[..size].copy_from_slice(&expanded[..size]);
        let (to_right, to_rotations) = to[size..].split_at_mut(size);
        to_right.fill(0.0);
        for (l, from) in expanded[size..].chunks_exact(size).enumerate() {
            let square = l * rank * rank..(l + 1) * rank * rank;
            let rotation = Matrix::row_major(&rotations[square.clone()], rank, rank);
            let from = Matrix::row_major(from, states, rank);
            multiply_here(from, rotation, to_right, true);
            multiply_here(
                from.transposed(),
                Matrix::row_major(&right, states, rank),
                &mut to_rotations[square],
                false,
            );
        }
    }

    /// Σ_l w_l·CE_l of another text with the same vocabulary, under the chains of the last evaluation, which
    /// must have been at this point.
    pub fn cross_entropy(&self, point: &Parameters, moments: &Moments) -> f64 {
        let Shape { states, context, form } = self.shape;
        let products = point.products(self.shape);
        let n = moments.positions() as f64;
        let score = |l: usize, x: usize, y: usize| match form.rank() {
            None => f64::from(products[(l * states + x) * states + y]),
            Some(rank) => {
                let (left, right) = (&products[x * rank..], &products[((1 + l) * states + y) * rank..]);
                let pairs = left[..rank].iter().zip(&right[..rank]);
                pairs.map(|(&u, &w)| f64::from(u) * f64::from(w)).sum()
            }
        };
        let each = (0..context).map(|l| {
            let columns = &point.columns[l * states..(l + 1) * states];
            let normalizers = &self.normalizers[l];
            let rows = (0..states).into_par_iter().map(|x| {
                let pairs = moments.pairs()[l].row(x);
                pairs
                    .map(|(y, count)| count as f64 * (normalizers[x] - columns[y] - score(l, x, y)))
                    .sum::<f64>()
            });
            self.weights[l] * rows.collect::<Vec<f64>>().iter().sum::<f64>() / n
        });
        each.sum()
    }
}

/// The matrix of counts/n times an embedding.
fn counted(pairs: &Sparse, embedding: &[f32], rank: usize, n: f64) -> Vec<f64> {
    let mut products = vec![0.0; pairs.rows() * rank];
    products.par_chunks_exact_mut(rank).enumerate().for_each(|(x, product)| {
        // Written before it is read: reading a fresh page of zeros first would map it twice.
        product.fill(0.0);
        for (y, count) in pairs.row(x) {
            let factor = count as f64 / n;
            let other = &embedding[y * rank..][..rank];
            product.iter_mut().zip(other).for_each(|(t, &w)| *t += factor * f64::from(w));
        }
    });
    products
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Streams;

    #[test]
    fn the_gradient_is_that_of_the_value() {
        let mut random = Streams::new(1, "chains tests").block(0);
        let states = 7;
        // Moments of a cycle of states, so that rows and columns of the pairs have the same sums.
        let cycle: Vec<u32> = (0..200).map(|_| random.below(states) as u32).collect();
        let mut unary = vec![0; states];
        cycle.iter().for_each(|&x| unary[x as usize] += 1);
        let pairs = (1..=2).map(|l| {
            let pairs = (0..200).map(|i| (cycle[i], cycle[(i + l) % 200], 1));
            Sparse::new(states, pairs.collect())
        });
        let moments = Moments::new(unary, pairs.collect(), vec![0, 1]);
        for form in [InteractionForm::Products(3), InteractionForm::Rotated(3), InteractionForm::Full] {
            let mut chains = Chains::new(&moments, form, vec![0.7, 0.3], 0.01);
            let size = chains.shape.parameters();
            let columns = (0..chains.shape.columns()).map(|_| 0.5 * random.normal()).collect();
            let interactions =
                (0..chains.shape.interactions()).map(|_| 0.5 * random.normal() as f32).collect();
            let point = Parameters { columns, interactions };
            let mut gradient = vec![0.0; size];
            let value = chains.evaluate(&point, &mut gradient);
            let penalty: f64 = point.interactions.iter().map(|x| 0.005 * f64::from(x * x)).sum();
            assert!((chains.cross_entropy(&point, &moments) + penalty - value).abs() < 1e-5);
            let mut ignored = vec![0.0; size];
            for (i, &found) in gradient.iter().enumerate() {
                let mut at = |step: f64| {
                    let mut moved = point.clone();
                    match i.checked_sub(moved.columns.len()) {
                        None => moved.columns[i] += step,
                        Some(i) => moved.interactions[i] += step as f32,
                    }
                    chains.evaluate(&moved, &mut ignored)
                };
                // In single precision, differences with step 10⁻² have errors of 10⁻⁵.
                let slope = (at(1e-2) - at(-1e-2)) / 2e-2;
                assert!((slope - found).abs() < 1e-4, "{form:?} {i}: {slope} {found}");
            }
        }
    }
}
