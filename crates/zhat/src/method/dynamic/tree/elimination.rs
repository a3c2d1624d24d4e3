//! Sums over all trees, projective or not, by elimination of words without subtraction.
//!
//! From word d, step to head h with probability p(d, h) ∝ w(h → d); the root is absorbing. Eliminating word v
//! from this walk gives p(d, h) += p(d, v)·p(v, h) / s_v with s_v = Σ_{h ≠ v} p(v, h), and Z is the product
//! of all s_v and of the normalisers of p: the matrix-tree theorem by the elimination of Grassmann, Taksar
//! and Heyman, which only adds and multiplies positive numbers. The head of word v is the step after the
//! walk's last visit to v, so
//!
//!   P(head of v = h) ∝ p(v, h)·P(the walk from h reaches the root before v),
//!
//! also without subtraction, so that small probabilities are as accurate as large ones. These probabilities
//! for one v come from the elimination of all other words, by back substitution. Eliminating one half of the
//! words, and then the other half, and so on recursively, gives all v in O(T³). All v of a half share the words
//! eliminated before, so back substitution works on rows of words v.
//!
//! With a single root, arcs from the root have weights of order ε → 0: of all trees, those with one root
//! remain.
//!
//! References: W. Grassmann, M. Taksar, D. Heyman, *Regenerative analysis and steady state distributions for
//! Markov chains*, Operations Research 33 (1985); D. Wilson, *Generating random spanning trees more quickly
//! than the cover time*, STOC 1996.

use std::ops::Range;

use super::number::{Number, sum};
use crate::error::Result;
use crate::numeric::simd::{self, Kernel};
use crate::run::Clock;

/// Rows are padded to multiples of this length, with zeros, and worked on in pieces of it.
const PIECE: usize = 8;

/// A walk on some of the words: p(d, h) for d and h in a range, padding, and the step to the root.
pub struct Walk<N> {
    words: Range<usize>,
    rows: Vec<N>,
}

/// An eliminated word.
struct Eliminated<N> {
    word: usize,
    /// The words that were left.
    others: Range<usize>,
    /// The place of the steps to them in [`Elimination::steps`].
    first: usize,
    /// The step to the root.
    root: N,
}

/// Eliminated words, with their steps given that they are left.
struct Elimination<N> {
    words: Vec<Eliminated<N>>,
    steps: Vec<N>,
    /// s of each word: the weight of leaving it.
    leaving: Vec<N>,
}

impl<N> Elimination<N> {
    /// Room for the elimination of some of the words of a walk.
    fn with_capacity(words: usize) -> Self {
        let steps = Vec::with_capacity(words * (words + 1).next_multiple_of(PIECE));
        Elimination { words: Vec::with_capacity(words), steps, leaving: Vec::with_capacity(words) }
    }

    fn clear(&mut self) {
        self.words.clear();
        self.steps.clear();
        self.leaving.clear();
    }
}

/// Buffers to be reused: a recursion over ever fewer words would allocate many.
struct Pool<N>(Vec<Vec<N>>);

impl<N: Number> Pool<N> {
    /// `len` zeros.
    fn zeros(&mut self, len: usize) -> Vec<N> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(len, N::ZERO);
        buffer
    }

    fn copy(&mut self, from: &[N]) -> Vec<N> {
        let mut buffer = self.0.pop().unwrap_or_default();
        buffer.clear();
        buffer.extend_from_slice(from);
        buffer
    }

    fn give(&mut self, buffer: Vec<N>) {
        self.0.push(buffer);
    }
}

/// Sums over all trees: for words h and v, the probability that the walk from h reaches the root before v, and
/// the weights of leaving each word, whose product is the sum.
pub struct Reach<N> {
    /// By h, then v; rows begin at multiples of `stride`.
    pub values: Vec<N>,
    pub stride: usize,
    pub leaving: Vec<N>,
}

impl<N: Number> Walk<N> {
    /// The walk on `words` words; `step(d, h)` is p(d, h), with h = `words` for the root.
    pub fn new(words: usize, step: impl Fn(usize, usize) -> N) -> Self {
        let mut walk = Walk { words: 0..words, rows: Vec::new() };
        let width = walk.width();
        walk.rows = vec![N::ZERO; words * width];
        for (d, row) in walk.rows.chunks_exact_mut(width).enumerate() {
            (0..words).filter(|&h| h != d).for_each(|h| row[h] = step(d, h));
            row[width - 1] = step(d, words);
        }
        walk
    }

    fn width(&self) -> usize {
        (self.words.len() + 1).next_multiple_of(PIECE)
    }

    fn row(&self, word: usize) -> &[N] {
        let at = (word - self.words.start) * self.width();
        &self.rows[at..at + self.width()]
    }

    /// p(d, h), with h = `None` for the root.
    pub fn step(&self, d: usize, h: Option<usize>) -> N {
        self.row(d)[h.map_or(self.width() - 1, |h| h - self.words.start)]
    }

    /// Eliminates a word at either end of the words that are left in `left`; false if it cannot be left, so
    /// that there is no tree.
    fn eliminate(&mut self, word: usize, left: &Range<usize>, found: &mut Elimination<N>) -> bool {
        let (start, width) = (self.words.start, self.width());
        let inside = left.start - start..left.end - start;
        let row = self.row(word);
        let leaving = sum(&row[inside.clone()]).plus(row[width - 1]);
        if leaving.is_zero() {
            return false;
        }
        let root = row[width - 1].over(leaving);
        // Whole pieces, with zeros before and after.
        let pieces = inside.start / PIECE * PIECE..inside.end.next_multiple_of(PIECE).min(width);
        let first = found.steps.len() + inside.start - pieces.start;
        found.steps.resize(found.steps.len() + pieces.len(), N::ZERO);
        for (to, step) in found.steps[first..].iter_mut().zip(&row[inside.clone()]) {
            *to = step.over(leaving);
        }
        let steps = &found.steps[found.steps.len() - pieces.len()..];
        let (rows, at) = (&mut self.rows, pieces.start);
        simd::run(Eliminate { rows, width, left: inside, word: word - start, steps, at, root });
        found.words.push(Eliminated { word, others: left.clone(), first, root });
        found.leaving.push(leaving);
        true
    }

    /// The walk on the words of a range, after all others were eliminated.
    fn restricted(&self, words: Range<usize>, pool: &mut Pool<N>) -> Walk<N> {
        let (from, to) = (words.start - self.words.start, words.end - self.words.start);
        let mut walk = Walk { words: words.clone(), rows: Vec::new() };
        let width = walk.width();
        walk.rows = pool.zeros(words.len() * width);
        for (row, d) in walk.rows.chunks_exact_mut(width).zip(words) {
            let own = self.row(d);
            row[..to - from].copy_from_slice(&own[from..to]);
            row[width - 1] = own[own.len() - 1];
        }
        walk
    }

    /// Eliminates all words except those of `kept`, a prefix or a suffix of the words; appends the eliminated
    /// words.
    fn keep(
        &self,
        kept: Range<usize>,
        found: &mut Elimination<N>,
        pool: &mut Pool<N>,
        clock: &Clock<'_>,
    ) -> Result<Option<Walk<N>>> {
        let mut walk = Walk { words: self.words.clone(), rows: pool.copy(&self.rows) };
        let after = (kept.end..self.words.end).rev().map(|word| (word, self.words.start..word));
        let before = (self.words.start..kept.start).map(|word| (word, word + 1..self.words.end));
        for (word, left) in after.chain(before) {
            clock.check()?;
            if !walk.eliminate(word, &left, found) {
                return Ok(None);
            }
        }
        let kept = walk.restricted(kept, pool);
        pool.give(walk.rows);
        Ok(Some(kept))
    }

    /// The weights of leaving each word, whose product is the sum over all trees; `None` if there is none.
    pub fn leaving(&self, clock: &Clock<'_>) -> Result<Option<Vec<N>>> {
        let (mut found, mut pool) = (Elimination::with_capacity(self.words.len()), Pool(Vec::new()));
        let walk = self.keep(self.words.start..self.words.start, &mut found, &mut pool, clock)?;
        Ok(walk.map(|_| found.leaving))
    }

    /// For all pairs of words h and v, the probability that the walk from h reaches the root before v (zero for
    /// v itself). `None` if there is no tree.
    pub fn reach(&self, clock: &Clock<'_>) -> Result<Option<Reach<N>>> {
        let (mut leaving, mut pool) = (Vec::with_capacity(self.words.len()), Pool(Vec::new()));
        let values = self.reach_in(Some(&mut leaving), &mut pool, clock)?;
        let stride = self.words.len().next_multiple_of(PIECE);
        Ok(values.map(|values| Reach { values, stride, leaving }))
    }

    /// The values of [`Reach`]. The weights of leaving the words, in one order of elimination, are appended to
    /// `leaving`.
    fn reach_in(
        &self,
        mut leaving: Option<&mut Vec<N>>,
        pool: &mut Pool<N>,
        clock: &Clock<'_>,
    ) -> Result<Option<Vec<N>>> {
        let Range { start, end } = self.words;
        let (count, stride) = (end - start, (end - start).next_multiple_of(PIECE));
        if count == 1 {
            let own = self.step(start, None);
            if let Some(leaving) = leaving {
                leaving.push(own);
            }
            return Ok((!own.is_zero()).then(|| pool.zeros(stride)));
        }
        let (mut all, middle) = (pool.zeros(count * stride), (start + end) / 2);
        let mut found = Elimination::with_capacity(count);
        for half in [start..middle, middle..end] {
            found.clear();
            let Some(walk) = self.keep(half.clone(), &mut found, pool, clock)? else { return Ok(None) };
            // Those of the first half: the words before, then the words of the half.
            let mut first = leaving.take();
            if let Some(leaving) = &mut first {
                leaving.extend_from_slice(&found.leaving);
            }
            let Some(part) = walk.reach_in(first, pool, clock)? else { return Ok(None) };
            clock.check()?;
            // The rows of all words, from those of the half.
            let part_stride = half.len().next_multiple_of(PIECE);
            let mut values = pool.zeros(count * part_stride);
            let own = (half.start - start) * part_stride;
            values[own..own + part.len()].copy_from_slice(&part);
            simd::run(Substitute { reach: &mut values, stride: part_stride, start, found: &found });
            for (to, from) in all.chunks_exact_mut(stride).zip(values.chunks_exact(part_stride)) {
                to[half.start - start..half.end - start].copy_from_slice(&from[..half.len()]);
            }
            [walk.rows, part, values].into_iter().for_each(|buffer| pool.give(buffer));
        }
        Ok(Some(all))
    }

    /// For one word v, as [`Walk::reach`].
    pub fn one_word(&self, word: usize, clock: &Clock<'_>) -> Result<Option<Vec<N>>> {
        let (mut found, mut pool) = (Elimination::with_capacity(self.words.len()), Pool(Vec::new()));
        let before = self.keep(word..self.words.end, &mut found, &mut pool, clock)?;
        let Some(walk) = before else { return Ok(None) };
        if walk.keep(word..word + 1, &mut found, &mut pool, clock)?.is_none() {
            return Ok(None);
        }
        let start = self.words.start;
        let mut values = vec![N::ZERO; self.words.len() * PIECE];
        simd::run(Substitute { reach: &mut values, stride: PIECE, start, found: &found });
        Ok(Some(values.into_iter().step_by(PIECE).collect()))
    }
}

/// Adds p(d, v)·p(v, h) / s_v to p(d, h) for all d that are left.
struct Eliminate<'a, N> {
    rows: &'a mut [N],
    width: usize,
    /// The rows that are left, and the column of v.
    left: Range<usize>,
    word: usize,
    /// p(v, h) / s_v for whole pieces of h from column `at`, and the step to the root.
    steps: &'a [N],
    at: usize,
    root: N,
}

impl<N: Number> Kernel for Eliminate<'_, N> {
    type Output = ();

    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Eliminate { rows, width, left, word, steps, at, root } = self;
        let (steps, _) = steps.as_chunks::<PIECE>();
        for d in left {
            let row = &mut rows[d * width..(d + 1) * width];
            let into = row[word];
            if into.is_zero() {
                continue;
            }
            let (pieces, _) = row[at..].as_chunks_mut::<PIECE>();
            for piece in 0..steps.len() {
                for i in 0..PIECE {
                    pieces[piece][i] = pieces[piece][i].add_product::<FMA>(into, steps[piece][i]);
                }
            }
            row[width - 1] = row[width - 1].add_product::<FMA>(into, root);
            // Steps from a word to itself are left out of the walk.
            row[d] = N::ZERO;
        }
    }
}

/// The probability that the walk reaches the root before each of several words, from every eliminated word.
struct Substitute<'a, N> {
    /// One row per word from `start` on; those of the words that are left are known.
    reach: &'a mut [N],
    stride: usize,
    start: usize,
    found: &'a Elimination<N>,
}

impl<N: Number> Kernel for Substitute<'_, N> {
    type Output = ();

    // Iterators are not inlined into functions with more instructions.
    #[allow(clippy::needless_range_loop)]
    #[inline(always)]
    fn run<const FMA: bool>(self) {
        let Substitute { reach, stride, start, found } = self;
        for at in (0..found.words.len()).rev() {
            let Eliminated { word, others, first, root } = &found.words[at];
            let steps = &found.steps[*first..first + others.len()];
            let mut column = 0;
            while column < stride {
                let mut sums = [*root; PIECE];
                for k in 0..steps.len() {
                    let from = (others.start - start + k) * stride + column;
                    let piece = &reach[from..from + PIECE];
                    for i in 0..PIECE {
                        sums[i] = sums[i].add_product::<FMA>(steps[k], piece[i]);
                    }
                }
                let to = (word - start) * stride + column;
                reach[to..to + PIECE].copy_from_slice(&sums);
                column += PIECE;
            }
        }
    }
}
