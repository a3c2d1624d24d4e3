//! Random chains with many states.
//!
//! The chains of Fu, Cunningham & Lapata (2022), Table 2. State embeddings S (N×D) and word embeddings W
//! (T×D) are uniform on [0, 1). Then 10, 30 or 50 steps of gradient descent (Adam, step 10⁻⁴) on S and W
//! reduce the mean entropy of softmax(W·Sᵀ), for *dense*, *intermediate* and *long-tailed* chains.
//! Log-transitions are S·Sᵀ, centred by their mean, divided by their range, times 10; log-emissions are W·Sᵀ,
//! centred and divided by their range at each position, times 10.
//!
//! So few steps have little effect: for N = 2000, T = 11, D = 50 the entropy of the chain is 34.1, 34.5 and
//! 34.9 nats, and a sum over only the most likely 10% of the states at each position misses 0.90, 0.84 and
//! 0.77 nats of log Z. The paper's own intermediate and long-tailed chains of that size had entropies of 18
//! and 6.5 nats, which take about 650 and 860 steps; [`Sharpness::Steps`] accepts any number.
//!
//! The transitions are stored as factors: embeddings times √(10/range), and the constant −10·mean/range added
//! to the emissions after the first position. The range is computed in one pass over all N² products, tile by
//! tile; the products are not stored.

use crate::numeric::parallel::prelude::*;

use crate::error::{Error, Result};
use crate::model::{Chain, Transitions, Values};
use crate::numeric::{Matrix, Real, multiply};
use crate::random::Streams;

/// The range of scores.
const RANGE: f64 = 10.0;
/// Tile size for the rows and columns of S·Sᵀ.
const TILE: usize = 256;
/// Number of values drawn from each random stream.
const BLOCK: usize = 4096;
/// Adam's step size, and its decay rates of the first and second moments.
const STEP: f64 = 1e-4;
const DECAY: (f64, f64) = (0.9, 0.999);

/// How peaked the emissions of a chain are: a sharper chain has a longer tail of unlikely states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharpness {
    /// 10 steps.
    Dense,
    /// 30 steps.
    Intermediate,
    /// 50 steps.
    LongTailed,
    /// This many steps of gradient descent.
    Steps(usize),
}

impl Sharpness {
    fn steps(self) -> usize {
        match self {
            Sharpness::Dense => 10,
            Sharpness::Intermediate => 30,
            Sharpness::LongTailed => 50,
            Sharpness::Steps(steps) => steps,
        }
    }
}

/// One chain of `steps` positions and `states` states with embeddings of dimension `rank`.
///
/// # Errors
/// If `states`, `steps` or `rank` is 0, or the scores do not fit in memory.
///
/// ```
/// use zhat::Chain;
/// use zhat::model::generate::{rdp_chain, Sharpness};
/// let chain: Chain = rdp_chain(100, 10, 50, Sharpness::Dense, 1)?;
/// assert_eq!((chain.batch(), chain.steps(), chain.states()), (1, 10, 100));
/// # Ok::<(), zhat::Error>(())
/// ```
pub fn rdp_chain<F: Real>(
    states: usize,
    steps: usize,
    rank: usize,
    sharpness: Sharpness,
    seed: u64,
) -> Result<Chain<F>> {
    for (name, size) in [("states", states), ("steps", steps), ("rank", rank)] {
        if size == 0 {
            return Err(Error::argument(name, "there must be at least one"));
        }
    }
    let numbers = 4.0 * (states + steps) as f64 * rank as f64 + 3.0 * states as f64 * steps as f64;
    crate::model::generate::affordable(numbers)?;
    let mut embeddings = Embeddings {
        states: uniforms(states * rank, seed, "generate rdp states"),
        words: uniforms(steps * rank, seed, "generate rdp words"),
        rank,
    };
    embeddings.sharpen(sharpness.steps());
    let mut emissions = embeddings.products();
    for row in emissions.chunks_exact_mut(states) {
        let mean = row.iter().sum::<f64>() / states as f64;
        let (low, high) = extremes(row);
        let factor = factor(low, high);
        row.iter_mut().for_each(|x| *x = factor * (*x - mean));
    }
    let (mean, factor) = embeddings.transition_scale();
    emissions[states..].iter_mut().for_each(|x| *x -= factor * mean);
    let root = factor.sqrt();
    let left: Vec<F> = embeddings.states.iter().map(|x| F::from_f64(root * x)).collect();
    let emissions: Vec<F> = emissions.iter().map(|&x| F::from_f64(x)).collect();
    Chain::crf(
        states,
        Values::from(emissions),
        vec![steps],
        Transitions::Factored { left: left.into(), right: None },
    )
}

/// The factor that scales numbers between `low` and `high` to a range of 10.
fn factor(low: f64, high: f64) -> f64 {
    if high > low { RANGE / (high - low) } else { 1.0 }
}

fn extremes(values: &[f64]) -> (f64, f64) {
    values.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), &x| (low.min(x), high.max(x)))
}

fn uniforms(count: usize, seed: u64, purpose: &str) -> Vec<f64> {
    let streams = Streams::new(seed, purpose);
    let mut values = vec![0.0; count];
    for (block, values) in values.chunks_mut(BLOCK).enumerate() {
        let mut random = streams.block(block as u64);
        values.iter_mut().for_each(|x| *x = random.uniform());
    }
    values
}

struct Embeddings {
    states: Vec<f64>,
    words: Vec<f64>,
    rank: usize,
}

impl Embeddings {
    fn matrix<'a>(&self, values: &'a [f64]) -> Matrix<'a, f64> {
        Matrix::row_major(values, values.len() / self.rank, self.rank)
    }

    /// W·Sᵀ, T×N.
    fn products(&self) -> Vec<f64> {
        let (states, steps) = (self.states.len() / self.rank, self.words.len() / self.rank);
        let mut products = vec![0.0; steps * states];
        multiply(self.matrix(&self.words), self.matrix(&self.states).transposed(), &mut products, false);
        products
    }

    /// Minimises the mean entropy of softmax(W·Sᵀ) with this many steps of Adam.
    fn sharpen(&mut self, steps: usize) {
        let (states, words) = (self.states.len() / self.rank, self.words.len() / self.rank);
        let mut of_states = Adam::new(self.states.len());
        let mut of_words = Adam::new(self.words.len());
        let (mut to_states, mut to_words) = (vec![0.0; self.states.len()], vec![0.0; self.words.len()]);
        for _ in 0..steps {
            // ∂H/∂eᵢ = −pᵢ (ln pᵢ + H).
            let mut gradient = self.products();
            gradient.par_chunks_exact_mut(states).for_each(|row| {
                let log_sum = crate::numeric::log_sum_exp(row);
                let mut p: Vec<f64> = row.iter().map(|x| x - log_sum).collect();
                row.copy_from_slice(&p);
                crate::numeric::exp_in_place(&mut p);
                let entropy: f64 = -p.iter().zip(row.iter()).map(|(p, log)| p * log).sum::<f64>();
                for (log, p) in row.iter_mut().zip(&p) {
                    *log = -p * (*log + entropy) / words as f64;
                }
            });
            let gradient = Matrix::row_major(&gradient, words, states);
            multiply(gradient, self.matrix(&self.states), &mut to_words, false);
            multiply(gradient.transposed(), self.matrix(&self.words), &mut to_states, false);
            of_states.step(&mut self.states, &to_states);
            of_words.step(&mut self.words, &to_words);
        }
    }

    /// The mean of S·Sᵀ and the factor that scales it to a range of 10.
    fn transition_scale(&self) -> (f64, f64) {
        let count = self.states.len() / self.rank;
        let mut sum = vec![0.0; self.rank];
        for row in self.states.chunks_exact(self.rank) {
            sum.iter_mut().zip(row).for_each(|(sum, x)| *sum += x);
        }
        let mean = sum.iter().map(|x| x * x).sum::<f64>() / (count as f64).powi(2);
        // By Cauchy–Schwarz the largest product of two rows is the square of one row.
        let squares = self.states.chunks_exact(self.rank).map(|row| row.iter().map(|x| x * x).sum::<f64>());
        let high = squares.fold(f64::NEG_INFINITY, f64::max);
        (mean, factor(self.least_product(), high))
    }

    /// The minimum of all products of two rows of S, in single precision, which suffices for a scale.
    fn least_product(&self) -> f64 {
        let values: Vec<f32> = self.states.iter().map(|&x| x as f32).collect();
        let tiles: Vec<&[f32]> = values.chunks(TILE * self.rank).collect();
        let least = (0..tiles.len()).into_par_iter().map_init(
            || vec![0.0f32; TILE * TILE],
            |products, i| {
                let mut least = f32::INFINITY;
                for other in &tiles[i..] {
                    let (rows, columns) = (tiles[i].len() / self.rank, other.len() / self.rank);
                    let products = &mut products[..rows * columns];
                    let a = Matrix::row_major(tiles[i], rows, self.rank);
                    let b = Matrix::row_major(other, columns, self.rank);
                    multiply(a, b.transposed(), products, false);
                    least = products.iter().fold(least, |a, &b| if b < a { b } else { a });
                }
                least
            },
        );
        f64::from(least.reduce(|| f32::INFINITY, f32::min))
    }
}

/// The running moments of Adam (Kingma & Ba 2015).
struct Adam {
    first: Vec<f64>,
    second: Vec<f64>,
    time: i32,
}

impl Adam {
    fn new(count: usize) -> Self {
        Adam { first: vec![0.0; count], second: vec![0.0; count], time: 0 }
    }

    fn step(&mut self, values: &mut [f64], gradient: &[f64]) {
        self.time += 1;
        let corrections = (1.0 - DECAY.0.powi(self.time), 1.0 - DECAY.1.powi(self.time));
        let moments = self.first.iter_mut().zip(&mut self.second);
        for ((x, &g), (first, second)) in values.iter_mut().zip(gradient).zip(moments) {
            *first = DECAY.0 * *first + (1.0 - DECAY.0) * g;
            *second = DECAY.1 * *second + (1.0 - DECAY.1) * g * g;
            *x -= STEP * (*first / corrections.0) / ((*second / corrections.1).sqrt() + 1e-8);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_entropy(embeddings: &Embeddings) -> f64 {
        let states = embeddings.states.len() / embeddings.rank;
        let products = embeddings.products();
        let entropies = products.chunks_exact(states).map(|row| {
            let log_sum = crate::numeric::log_sum_exp(row);
            row.iter().map(|x| -(x - log_sum).exp() * (x - log_sum)).sum::<f64>()
        });
        entropies.sum::<f64>() / (products.len() / states) as f64
    }

    #[test]
    fn every_step_sharpens() {
        let mut embeddings =
            Embeddings { states: uniforms(500 * 10, 1, "a"), words: uniforms(50, 1, "b"), rank: 10 };
        let mut before = mean_entropy(&embeddings);
        for _ in 0..4 {
            embeddings.sharpen(10);
            let after = mean_entropy(&embeddings);
            assert!(after < before);
            before = after;
        }
    }

    #[test]
    fn scores_have_the_range_and_mean_that_they_should() {
        let (n, steps) = (300, 4);
        let chain: Chain<f64> = rdp_chain(n, steps, 7, Sharpness::LongTailed, 3).unwrap();
        let score = |i, j| chain.transitions().score(n, 0, i, j);
        let all: Vec<f64> = (0..n * n).map(|k| score(k / n, k % n)).collect();
        let (low, high) = extremes(&all);
        assert!((high - low - RANGE).abs() < 1e-4);
        let mean = all.iter().sum::<f64>() / all.len() as f64;
        for t in 0..steps {
            let row = chain.emission(0, t);
            let (low, high) = extremes(row);
            assert!((high - low - RANGE).abs() < 1e-9);
            // Transitions plus emissions have mean zero.
            let both = row.iter().sum::<f64>() / n as f64 + if t > 0 { mean } else { 0.0 };
            assert!(both.abs() < 1e-9);
        }
        assert_eq!(chain, rdp_chain(n, steps, 7, Sharpness::Steps(50), 3).unwrap());
        assert_ne!(chain, rdp_chain(n, steps, 7, Sharpness::LongTailed, 4).unwrap());
        assert!(rdp_chain::<f64>(0, 1, 1, Sharpness::Dense, 0).is_err());
        assert!(rdp_chain::<f32>(1, 1, 1, Sharpness::Dense, 0).is_ok());
    }
}
