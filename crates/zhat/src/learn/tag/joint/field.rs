//! The joint model of tags and words on a cycle, as tables of scores.
//!
//! Position i of N has a tag tᵢ (T values) and a word wᵢ (W values). With V_k for pairs of tags at distance k and U_m
//! for a tag and the word at offset m from it,
//!
//!   score(t, w) = Σ_i [Σ_{k=1..K} V_k(tᵢ, tᵢ₊ₖ) + Σ_{m ∈ window} U_m(tᵢ, wᵢ₊ₘ)],
//!
//! and A = log Σ_{t, w} exp score(t, w). Scores of single tags are part of V₁, those of single words of U₀.

use crate::error::{Error, Result};

/// Number of words that are processed together. It is fixed, so that sums do not depend on the number of threads.
pub(super) const BLOCK: usize = 512;

/// The offsets of the L words nearest to a tag, in increasing order; of two equally near words, the previous one is
/// nearer.
///
/// ```
/// use zhat::learn::tag::joint::offsets;
/// assert_eq!(offsets(1), [0]);
/// assert_eq!(offsets(2), [-1, 0]);
/// assert_eq!(offsets(3), [-1, 0, 1]);
/// ```
pub fn offsets(words: usize) -> Vec<i32> {
    let first = -((words / 2) as i32);
    (0..words as i32).map(|i| first + i).collect()
}

/// Tables of scores of a joint model.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    tags: usize,
    words: usize,
    pub(super) pairs: Vec<Vec<f64>>,
    pub(super) emissions: Vec<Vec<f64>>,
}

impl Field {
    /// A model from V₁, …, V_K, each T × T by rows, and one table U_m per offset of [`offsets`], each W × T by rows:
    /// one row per word. −∞ is allowed.
    ///
    /// # Errors
    /// If there is no tag, no word, no table of either kind, a table has the wrong size, or a score is NaN or +∞.
    pub fn new(tags: usize, words: usize, pairs: Vec<Vec<f64>>, emissions: Vec<Vec<f64>>) -> Result<Self> {
        if tags == 0 || words == 0 || pairs.is_empty() || emissions.is_empty() {
            let message = "a joint model needs a tag, a word, a table of pairs and a table of words";
            return Err(Error::Model(message.into()));
        }
        let sizes = |tables: &[Vec<f64>], size: usize| tables.iter().all(|table| table.len() == size);
        if !sizes(&pairs, tags * tags) || !sizes(&emissions, words * tags) {
            let message = format!("the tables do not match {tags} tags and {words} words");
            return Err(Error::Model(message));
        }
        if pairs.iter().chain(&emissions).flatten().any(|x| x.is_nan() || *x == f64::INFINITY) {
            return Err(Error::Model("a score is not a number or is infinite".into()));
        }
        Ok(Field { tags, words, pairs, emissions })
    }

    /// T.
    pub fn tags(&self) -> usize {
        self.tags
    }

    /// W.
    pub fn words(&self) -> usize {
        self.words
    }

    /// K.
    pub fn context(&self) -> usize {
        self.pairs.len()
    }

    /// L.
    pub fn window(&self) -> usize {
        self.emissions.len()
    }

    /// V_k, T × T by rows, for k = 1, …, K.
    pub fn pairs(&self) -> &[Vec<f64>] {
        &self.pairs
    }

    /// U_m, W × T by rows, in the order of [`offsets`].
    pub fn emissions(&self) -> &[Vec<f64>] {
        &self.emissions
    }

    /// The index of offset 0.
    pub(super) fn centre(&self) -> usize {
        self.window() / 2
    }

    /// The minimum length of the cycle: no two neighbours of a tag coincide.
    pub(super) fn least_length(&self) -> usize {
        (self.context() + 1).max(self.window())
    }

    pub(super) fn check_length(&self, length: usize) -> Result<()> {
        let least = self.least_length();
        if length < least {
            return Err(Error::argument("length", format!("is {length}; expected {least} at least")));
        }
        Ok(())
    }
}

/// The derivative of a bound per position: one entry per score, and one per dual variable.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Slopes {
    pub pairs: Vec<Vec<f64>>,
    pub emissions: Vec<Vec<f64>>,
    pub duals: Vec<f64>,
}

impl Slopes {
    pub fn new(field: &Field, duals: usize) -> Self {
        Slopes {
            pairs: vec![vec![0.0; field.tags * field.tags]; field.context()],
            emissions: vec![vec![0.0; field.words * field.tags]; field.window()],
            duals: vec![0.0; duals],
        }
    }

    pub fn clear(&mut self) {
        self.pairs.iter_mut().chain(&mut self.emissions).for_each(|table| table.fill(0.0));
        self.duals.fill(0.0);
    }
}

/// The largest finite |x|.
pub(super) fn largest<'a>(values: impl IntoIterator<Item = &'a f64>) -> f64 {
    values.into_iter().filter(|x| x.is_finite()).fold(0.0, |m, x| m.max(x.abs()))
}
