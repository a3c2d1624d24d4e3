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
//! words, and then the other half, and so on recursively, gives all v in O(T³).
//!
//! With a single root, arcs from the root have weights of order ε → 0: of all trees, those with one root
//! remain.
//!
//! References: W. Grassmann, M. Taksar, D. Heyman, *Regenerative analysis and steady state distributions for
//! Markov chains*, Operations Research 33 (1985); D. Wilson, *Generating random spanning trees more quickly
//! than the cover time*, STOC 1996.

use std::ops::Range;

use super::number::{Number, dot, sum};
use crate::error::Result;
use crate::run::Clock;

/// A walk on some of the words: p(d, h) for d and h in a range, then the step to the root.
#[derive(Clone)]
pub struct Walk<N> {
    words: Range<usize>,
    rows: Vec<N>,
}

/// An eliminated word: the steps to the words that were left, and to the root, given that it is left.
pub struct Eliminated<N> {
    word: usize,
    others: Range<usize>,
    steps: Vec<N>,
    root: N,
    /// s: the weight of leaving the word.
    pub leaving: N,
}

impl<N: Number> Walk<N> {
    /// The walk on `words` words; `step(d, h)` is p(d, h), with h = `words` for the root.
    pub fn new(words: usize, step: impl Fn(usize, usize) -> N) -> Self {
        let entry = |d: usize, h: usize| if d == h { N::ZERO } else { step(d, h) };
        let rows = (0..words).flat_map(|d| (0..=words).map(move |h| (d, h)));
        Walk { words: 0..words, rows: rows.map(|(d, h)| entry(d, h)).collect() }
    }

    fn width(&self) -> usize {
        self.words.len() + 1
    }

    fn row(&self, word: usize) -> &[N] {
        let at = (word - self.words.start) * self.width();
        &self.rows[at..at + self.width()]
    }

    /// p(d, h), with h = `None` for the root.
    pub fn step(&self, d: usize, h: Option<usize>) -> N {
        self.row(d)[h.map_or(self.words.len(), |h| h - self.words.start)]
    }

    /// Eliminates a word at either end of the words that are left in `left`; `None` if it cannot be left, so
    /// that there is no tree.
    fn eliminate(&mut self, word: usize, left: &Range<usize>) -> Option<Eliminated<N>> {
        let (start, width) = (self.words.start, self.width());
        let inside = left.start - start..left.end - start;
        let row = self.row(word);
        let steps = &row[inside.clone()];
        let leaving = sum(steps).plus(row[width - 1]);
        if leaving.is_zero() {
            return None;
        }
        let steps: Vec<N> = steps.iter().map(|step| step.over(leaving)).collect();
        let root = row[width - 1].over(leaving);
        for d in left.clone() {
            let at = (d - start) * width;
            let into = self.rows[at + word - start];
            if !into.is_zero() {
                for (to, &step) in self.rows[at + inside.start..at + inside.end].iter_mut().zip(&steps) {
                    *to = to.plus(into.times(step));
                }
                let to = &mut self.rows[at + width - 1];
                *to = to.plus(into.times(root));
                // Steps from a word to itself are left out of the walk.
                self.rows[at + d - start] = N::ZERO;
            }
        }
        Some(Eliminated { word, others: left.clone(), steps, root, leaving })
    }

    /// The walk on the words of a range, after all others were eliminated.
    fn restricted(&self, words: Range<usize>) -> Walk<N> {
        let (from, to) = (words.start - self.words.start, words.end - self.words.start);
        let rows = words.clone().flat_map(|d| {
            let row = self.row(d);
            row[from..to].iter().chain(&row[self.width() - 1..]).copied()
        });
        Walk { rows: rows.collect(), words }
    }

    /// Eliminates all words except those of `kept`, a prefix or a suffix of the words; appends the eliminated
    /// words.
    fn keep(
        &self,
        kept: Range<usize>,
        eliminated: &mut Vec<Eliminated<N>>,
        clock: &Clock<'_>,
    ) -> Result<Option<Walk<N>>> {
        let mut walk = self.clone();
        let after = (kept.end..self.words.end).rev().map(|word| (word, self.words.start..word));
        let before = (self.words.start..kept.start).map(|word| (word, word + 1..self.words.end));
        for (word, left) in after.chain(before) {
            clock.check()?;
            let Some(own) = walk.eliminate(word, &left) else { return Ok(None) };
            eliminated.push(own);
        }
        Ok(Some(walk.restricted(kept)))
    }

    /// The weights of leaving each word, whose product is the sum over all trees; `None` if there is none.
    pub fn leaving(&self, clock: &Clock<'_>) -> Result<Option<Vec<N>>> {
        let mut eliminated = Vec::with_capacity(self.words.len());
        let walk = self.keep(self.words.start..self.words.start, &mut eliminated, clock)?;
        Ok(walk.map(|_| eliminated.into_iter().map(|word| word.leaving).collect()))
    }

    /// Calls `visit` with every word v, and for all words h the probability that the walk from h reaches the
    /// root before v (zero for v itself). `None` if there is no tree.
    pub fn each_word(&self, clock: &Clock<'_>, visit: &mut impl FnMut(usize, &[N])) -> Result<Option<()>> {
        self.descend(&mut Vec::new(), &mut vec![N::ZERO; self.words.end], clock, visit)
    }

    fn descend(
        &self,
        eliminated: &mut Vec<Eliminated<N>>,
        reach: &mut Vec<N>,
        clock: &Clock<'_>,
        visit: &mut impl FnMut(usize, &[N]),
    ) -> Result<Option<()>> {
        let Range { start, end } = self.words;
        if end - start == 1 {
            back_substitute(start, eliminated, reach);
            visit(start, reach);
            return Ok(Some(()));
        }
        let (middle, before) = ((start + end) / 2, eliminated.len());
        for half in [start..middle, middle..end] {
            let Some(walk) = self.keep(half, eliminated, clock)? else { return Ok(None) };
            if walk.descend(eliminated, reach, clock, visit)?.is_none() {
                return Ok(None);
            }
            eliminated.truncate(before);
        }
        Ok(Some(()))
    }

    /// For one word v, as [`Walk::each_word`].
    pub fn one_word(&self, word: usize, clock: &Clock<'_>) -> Result<Option<Vec<N>>> {
        let mut eliminated = Vec::new();
        let Some(walk) = self.keep(word..self.words.end, &mut eliminated, clock)? else { return Ok(None) };
        if walk.keep(word..word + 1, &mut eliminated, clock)?.is_none() {
            return Ok(None);
        }
        let mut reach = vec![N::ZERO; self.words.end];
        back_substitute(word, &eliminated, &mut reach);
        Ok(Some(reach))
    }
}

/// The probability that the walk reaches the root before `word`, from every eliminated word.
fn back_substitute<N: Number>(word: usize, eliminated: &[Eliminated<N>], reach: &mut [N]) {
    reach[word] = N::ZERO;
    for own in eliminated.iter().rev() {
        reach[own.word] = dot(&own.steps, &reach[own.others.clone()]).plus(own.root);
    }
}
