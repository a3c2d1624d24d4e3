//! Counter-based random streams (ChaCha8), identified by a seed, a purpose and a block index.
//!
//! A method splits its work into blocks whose length is a constant of the method and does not depend on the
//! number of threads. It draws block b from `streams.block(b)`. The same seed therefore gives the same bits
//! for any number of threads and any split of the work. Streams with different purposes are independent.
//!
//! ```
//! use zhat::random::Streams;
//! let streams = Streams::new(42, "an example");
//! assert_eq!(streams.block(3).uniform(), Streams::new(42, "an example").block(3).uniform());
//! assert_ne!(streams.block(3).uniform(), streams.block(4).uniform());
//! ```

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// The streams of one seed and purpose.
#[derive(Clone, Debug)]
pub struct Streams {
    key: [u8; 32],
}

impl Streams {
    /// The streams of `seed` for `purpose`, a short text that names their use.
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut key = [0; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        // 64-bit FNV-1a: it only has to separate purposes, so it need not be cryptographic.
        let hash = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3));
        key[8..16].copy_from_slice(&hash.to_le_bytes());
        Streams { key }
    }

    /// The stream of one block.
    pub fn block(&self, index: u64) -> Stream {
        let mut generator = ChaCha8Rng::from_seed(self.key);
        generator.set_stream(index);
        Stream { generator }
    }
}

/// One stream of random numbers.
#[derive(Clone, Debug)]
pub struct Stream {
    generator: ChaCha8Rng,
}

impl Stream {
    /// Uniform on [0, 1), a multiple of 2⁻⁵³.
    pub fn uniform(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform on {0, …, n−1}, without bias (Lemire 2019). 0 for n ≤ 1.
    pub fn below(&mut self, n: usize) -> usize {
        let n = n.max(1) as u64;
        loop {
            let product = u128::from(self.generator.next_u64()) * u128::from(n);
            // Rejects the low halves in the 2^64 mod n values that would favour some outcomes. They are fewer
            // than n, so the division is rarely needed.
            let low = product as u64;
            if low >= n || low >= n.wrapping_neg() % n {
                return (product >> 64) as usize;
            }
        }
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// Standard normal (Box–Muller, the cosine half).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Standard Gumbel: −ln(−ln u). argmaxᵢ(log wᵢ + gᵢ) equals i with probability wᵢ / Σw.
    pub fn gumbel(&mut self) -> f64 {
        -(-(1.0 - self.uniform()).ln()).max(f64::MIN_POSITIVE).ln()
    }

    /// An index drawn with probability wᵢ / Σw, for weights ≥ 0 of which at least one is positive.
    pub fn categorical(&mut self, weights: &[f64]) -> usize {
        let total: f64 = weights.iter().sum();
        let mut left = self.uniform() * total;
        let mut last = 0;
        for (i, &w) in weights.iter().enumerate() {
            if w > 0.0 {
                last = i;
                if left < w {
                    return i;
                }
                left -= w;
            }
        }
        // Rounding can leave a small remainder after the last weight.
        last
    }

    /// Shuffles a slice uniformly at random (Fisher–Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// χ² of `counts` against expectations proportional to `weights`; the 10⁻⁷ point for 9 degrees of freedom
    /// is 49.6.
    fn chi_squared(counts: &[f64], weights: &[f64]) -> f64 {
        let (n, total) = (counts.iter().sum::<f64>(), weights.iter().sum::<f64>());
        counts.iter().zip(weights).map(|(c, w)| (c - n * w / total).powi(2) / (n * w / total)).sum()
    }

    #[test]
    fn integers_and_categories_have_the_right_law() {
        let mut random = Streams::new(5, "random tests").block(0);
        let weights: Vec<f64> = (1..=10).map(f64::from).collect();
        let (mut flat, mut skewed) = ([0.0; 10], [0.0; 10]);
        for _ in 0..100_000 {
            flat[random.below(10)] += 1.0;
            skewed[random.categorical(&weights)] += 1.0;
        }
        assert!(chi_squared(&flat, &[1.0; 10]) < 49.6);
        assert!(chi_squared(&skewed, &weights) < 49.6);
    }

    #[test]
    fn a_zero_weight_is_never_drawn() {
        let mut random = Streams::new(5, "random tests").block(1);
        assert!((0..1000).all(|_| random.categorical(&[0.0, 1e-300, 0.0]) == 1));
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut random = Streams::new(5, "random tests").block(2);
        let n = 200_000;
        let x: Vec<f64> = (0..n).map(|_| random.normal()).collect();
        let mean = x.iter().sum::<f64>() / n as f64;
        let variance = x.iter().map(|x| x * x).sum::<f64>() / n as f64;
        // Five standard errors: 1/√n for the mean and √(2/n) for the variance.
        assert!(mean.abs() < 5.0 / (n as f64).sqrt());
        assert!((variance - 1.0).abs() < 5.0 * (2.0 / n as f64).sqrt());
    }

    #[test]
    fn streams_differ_by_seed_purpose_and_block() {
        let first = |seed, purpose, block| Streams::new(seed, purpose).block(block).uniform();
        let values = [first(1, "a", 0), first(2, "a", 0), first(1, "b", 0), first(1, "a", 1)];
        for i in 0..4 {
            for j in 0..i {
                assert_ne!(values[i], values[j]);
            }
        }
    }
}
