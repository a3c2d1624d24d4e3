//! Eisner's algorithm on several sentences at once: sums over projective trees, in any semiring.
//!
//! For words i < j, let S(i, j) = Σ_k right(i, k)·left(k + 1, j). Then
//!
//!   arc(i → j) = S(i, j)·w(i → j),                 arc(j → i) = S(i, j)·w(j → i),
//!   right(i, j) = Σ_k arc(i → k)·right(k, j),      left(i, j) = Σ_k left(i, k)·arc(j → k),
//!
//! where right(i, j) is the sum over trees of the words i … j with root i, and left(i, j) those with root j.
//! Every sum runs along rows: a square array holds an item (i, j) at row i and again, for sums over its first
//! word, at row j. The outside pass gives the derivative of Z with respect to every item.
//!
//! Time O(T³) and memory O(T²) per group of sentences. Reference: J. Eisner, *Three new probabilistic models
//! for dependency parsing*, COLING 1996.

use crate::error::Result;
use crate::numeric::semiring::{LANES, Semiring};
use crate::numeric::simd::{self, Kernel};
use crate::run::Clock;

/// The weights of arcs of several sentences.
#[derive(Clone, Debug)]
pub struct Weights<S: Semiring> {
    /// T, the number of words of the longest sentence.
    pub words: usize,
    /// The number of words of each sentence; 0 for lanes that are not used.
    pub lengths: [usize; LANES],
    /// T×T, by head and dependent; zero for words beyond the end of a sentence.
    pub arcs: Vec<S::Value>,
    /// The weights of arcs from the root, T.
    pub roots: Vec<S::Value>,
    /// Whether exactly one word has the root as its head.
    pub single_root: bool,
}

/// The items of a group of sentences, or the derivatives of Z with respect to them.
#[derive(Clone, Debug)]
pub struct Chart<S: Semiring> {
    /// right(i, j) at (i, j) and (j, i).
    pub right: Vec<S::Value>,
    /// left(i, j) at (i, j) and (j, i).
    pub left: Vec<S::Value>,
    /// arc(h → d) at (h, d).
    pub arcs: Vec<S::Value>,
    /// The sum over trees of the words up to j whose last root is j, without dependents of j to its right.
    /// For a single root: w(root → j)·left(0, j).
    pub root_arcs: Vec<S::Value>,
    /// The sum over trees of the first j words, any number of roots; T + 1 entries.
    pub prefixes: Vec<S::Value>,
}

impl<S: Semiring> Chart<S> {
    fn new(words: usize) -> Self {
        let square = || vec![S::ZERO; words * words];
        Chart {
            right: square(),
            left: square(),
            arcs: square(),
            root_arcs: vec![S::ZERO; words],
            prefixes: vec![S::ZERO; words + 1],
        }
    }

    /// The bytes of a chart.
    pub fn bytes(words: usize) -> usize {
        (3 * words * words + 2 * words + 1) * size_of::<S::Value>()
    }
}

/// The items of every span, and Z of each sentence.
pub fn inside<S: Semiring>(weights: &Weights<S>, clock: &Clock<'_>) -> Result<(Chart<S>, S::Value)> {
    simd::run(Inside(weights, clock))
}

/// The derivatives of Z with respect to every item of the chart.
pub fn outside<S: Semiring>(weights: &Weights<S>, chart: &Chart<S>, clock: &Clock<'_>) -> Result<Chart<S>> {
    simd::run(Outside(weights, chart, clock))
}

struct Inside<'a, S: Semiring>(&'a Weights<S>, &'a Clock<'a>);

impl<S: Semiring> Kernel for Inside<'_, S> {
    type Output = Result<(Chart<S>, S::Value)>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Self::Output {
        let weights = self.0;
        let n = weights.words;
        let mut chart = Chart::<S>::new(n);
        for i in 0..n {
            chart.right[i * n + i] = S::ONE;
            chart.left[i * n + i] = S::ONE;
        }
        for width in 1..n {
            self.1.check()?;
            for i in 0..n - width {
                let j = i + width;
                let (row_i, row_j) = (i * n, j * n);
                let split = S::dot::<FMA>(
                    &chart.right[row_i + i..row_i + j],
                    &chart.left[row_j + i + 1..row_j + j + 1],
                );
                chart.arcs[row_i + j] = S::times::<FMA>(split, weights.arcs[row_i + j]);
                chart.arcs[row_j + i] = S::times::<FMA>(split, weights.arcs[row_j + i]);
                let right = S::dot::<FMA>(
                    &chart.arcs[row_i + i + 1..row_i + j + 1],
                    &chart.right[row_j + i + 1..row_j + j + 1],
                );
                let left =
                    S::dot::<FMA>(&chart.left[row_i + i..row_i + j], &chart.arcs[row_j + i..row_j + j]);
                for at in [row_i + j, row_j + i] {
                    chart.right[at] = right;
                    chart.left[at] = left;
                }
            }
        }
        let mut total = S::ZERO;
        if weights.single_root {
            for j in 0..n {
                chart.root_arcs[j] = S::times::<FMA>(weights.roots[j], chart.left[j * n]);
            }
            for (lane, &length) in weights.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
                let last = (length - 1) * n;
                let own = S::dot::<FMA>(&chart.root_arcs[..length], &chart.right[last..last + length]);
                total = S::put(total, lane, own);
            }
        } else {
            chart.prefixes[0] = S::ONE;
            for j in 0..n {
                let before = S::dot::<FMA>(&chart.prefixes[..j + 1], &chart.left[j * n..j * n + j + 1]);
                chart.root_arcs[j] = S::times::<FMA>(before, weights.roots[j]);
                chart.prefixes[j + 1] =
                    S::dot::<FMA>(&chart.root_arcs[..j + 1], &chart.right[j * n..j * n + j + 1]);
            }
            for (lane, &length) in weights.lengths.iter().enumerate().filter(|(_, length)| **length > 0) {
                total = S::put(total, lane, chart.prefixes[length]);
            }
        }
        Ok((chart, total))
    }
}

struct Outside<'a, S: Semiring>(&'a Weights<S>, &'a Chart<S>, &'a Clock<'a>);

impl<S: Semiring> Kernel for Outside<'_, S> {
    type Output = Result<Chart<S>>;

    #[inline(always)]
    fn run<const FMA: bool>(self) -> Result<Chart<S>> {
        let (weights, chart) = (self.0, self.1);
        let n = weights.words;
        let mut out = Chart::<S>::new(n);
        let used = weights.lengths.iter().enumerate().filter(|(_, length)| **length > 0);
        if weights.single_root {
            for (lane, &length) in used {
                let last = (length - 1) * n;
                let seed = S::put(S::ZERO, lane, S::ONE);
                S::add_scaled::<FMA>(seed, &chart.right[last..last + length], &mut out.root_arcs[..length]);
                S::add_scaled::<FMA>(seed, &chart.root_arcs[..length], &mut out.right[last..last + length]);
            }
            for j in 0..n {
                let own = S::times::<FMA>(out.root_arcs[j], weights.roots[j]);
                out.left[j * n] = S::plus::<FMA>(out.left[j * n], own);
            }
        } else {
            for (lane, &length) in used {
                out.prefixes[length] = S::put(out.prefixes[length], lane, S::ONE);
            }
            for j in (0..n).rev() {
                let row = j * n..j * n + j + 1;
                let own = out.prefixes[j + 1];
                S::add_scaled::<FMA>(own, &chart.right[row.clone()], &mut out.root_arcs[..j + 1]);
                S::add_scaled::<FMA>(own, &chart.root_arcs[..j + 1], &mut out.right[row.clone()]);
                let before = S::times::<FMA>(out.root_arcs[j], weights.roots[j]);
                S::add_scaled::<FMA>(before, &chart.left[row.clone()], &mut out.prefixes[..j + 1]);
                S::add_scaled::<FMA>(before, &chart.prefixes[..j + 1], &mut out.left[row]);
            }
        }
        for width in (1..n).rev() {
            self.2.check()?;
            for i in 0..n - width {
                let j = i + width;
                let (row_i, row_j) = (i * n, j * n);
                let right = S::plus::<FMA>(out.right[row_i + j], out.right[row_j + i]);
                let (from_i, to_j) = (row_i + i + 1..row_i + j + 1, row_j + i + 1..row_j + j + 1);
                S::add_scaled::<FMA>(right, &chart.right[to_j.clone()], &mut out.arcs[from_i.clone()]);
                S::add_scaled::<FMA>(right, &chart.arcs[from_i], &mut out.right[to_j.clone()]);
                let left = S::plus::<FMA>(out.left[row_i + j], out.left[row_j + i]);
                let (in_i, in_j) = (row_i + i..row_i + j, row_j + i..row_j + j);
                S::add_scaled::<FMA>(left, &chart.arcs[in_j.clone()], &mut out.left[in_i.clone()]);
                S::add_scaled::<FMA>(left, &chart.left[in_i.clone()], &mut out.arcs[in_j]);
                let split = S::plus::<FMA>(
                    S::times::<FMA>(out.arcs[row_i + j], weights.arcs[row_i + j]),
                    S::times::<FMA>(out.arcs[row_j + i], weights.arcs[row_j + i]),
                );
                S::add_scaled::<FMA>(split, &chart.left[to_j.clone()], &mut out.right[in_i.clone()]);
                S::add_scaled::<FMA>(split, &chart.right[in_i], &mut out.left[to_j]);
            }
        }
        Ok(out)
    }
}
