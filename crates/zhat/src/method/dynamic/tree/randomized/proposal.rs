//! Proposals: which heads of a word matter.
//!
//! *Uniform*: all heads equally. *Local*: the scores of the arcs into the word. *Two-pass*: estimated
//! probabilities of arcs. A first pass with its own random numbers gives those of the arcs that it kept with
//! certainty. The others are local probabilities, corrected for length and direction: of all arcs in a class of
//! lengths, the correction is the ratio of their number in the trees of the first pass to their number in
//! independent choices of heads. Long arcs, which cross others, are rare in projective trees, so the first pass
//! begins with local probabilities divided by length; a second pass begins with the result of the first. 5% of
//! the local proposal keep every head possible.

use super::arcs::{HeadScores, KeptArcs};
use super::certain::Certain;
use super::pass::{Links, sums};
use crate::error::Result;
use crate::method::dynamic::grammar::randomized::GUIDED;
use crate::method::dynamic::randomized::{Selection, mixture};
use crate::method::dynamic::{RandomizedInside, SpanProposal};
use crate::numeric;
use crate::random::Streams;
use crate::run::Clock;

/// The number of first passes.
const PASSES: usize = 2;

/// Pseudo-count of a class of lengths, relative to independent choices.
const LEAST: f64 = 1e-3;

/// Chooses `count` heads for every word, beside those that are kept with certainty.
pub fn choose(
    method: &RandomizedInside,
    (certain, proposals): (&Certain, &HeadScores),
    count: usize,
    streams: &Streams,
    block: usize,
    clock: &Clock<'_>,
) -> Result<KeptArcs> {
    let top = method.top.unwrap_or(count - 1);
    let mut chosen = Vec::with_capacity(proposals.words);
    for d in 0..proposals.words {
        clock.check()?;
        let mut random = streams.block(((block as u64) << 32) | d as u64);
        let others = |row: &[f64]| method.selection.choose(row, count, top, &mut random);
        chosen.push(certain.complete(d, proposals.row(d), others));
    }
    Ok(KeptArcs::new(chosen))
}

/// The proposal of sentence b.
pub fn proposals<'a>(
    method: &RandomizedInside,
    (scores, certain): (&'a HeadScores, &Certain),
    (single_root, b): (bool, usize),
    count: usize,
    seed: u64,
    clock: &Clock<'_>,
) -> Result<std::borrow::Cow<'a, HeadScores>> {
    use std::borrow::Cow;
    match method.proposal {
        SpanProposal::Local => return Ok(Cow::Borrowed(scores)),
        SpanProposal::Uniform => {
            let flat = |&x: &f64| if x > f64::NEG_INFINITY { 0.0 } else { x };
            let rows = scores.rows.iter().map(flat).collect();
            return Ok(Cow::Owned(HeadScores { words: scores.words, rows }));
        }
        _ => {}
    }
    let streams = Streams::new(seed, "randomized inside heads first pass");
    let first = RandomizedInside { selection: Selection::Threshold, ..*method };
    let mut guided = Cow::Owned(shortened(scores));
    for pass in 0..PASSES {
        let kept = choose(&first, (certain, &guided), count, &streams, b * PASSES + pass, clock)?;
        let arcs = kept.normalised(|e, head, d| scores.row(d)[head] + kept.log_weights[e]);
        let found = sums(&Links::new(&kept, single_root), &arcs, None, true, clock)?;
        if found.log_partition == f64::NEG_INFINITY {
            break;
        }
        guided = Cow::Owned(corrected(scores, &kept, &found.arcs, clock)?);
    }
    Ok(guided)
}

/// Local proposals divided by the lengths of arcs.
fn shortened(scores: &HeadScores) -> HeadScores {
    let by_length = |d: usize| {
        let length =
            move |(head, log): (usize, &f64)| log - ((head.max(1) - 1).abs_diff(d).max(1) as f64).ln();
        let row = scores.row(d);
        mixture(row.iter().enumerate().map(length).collect(), row, GUIDED)
    };
    HeadScores { words: scores.words, rows: (0..scores.words).flat_map(by_length).collect() }
}

/// The classes of arcs: 0 for the root, otherwise by direction and length, with four classes per doubling of the
/// length from 8.
struct Classes {
    /// By length.
    of: Vec<usize>,
}

impl Classes {
    fn new(words: usize) -> Self {
        let class = |length: usize| match length {
            0..=8 => length,
            _ => 8 + (4.0 * (length as f64 / 8.0).log2()).ceil() as usize,
        };
        Classes { of: (0..=words).map(class).collect() }
    }

    fn count(&self) -> usize {
        2 * self.of.last().copied().unwrap_or(0) + 1
    }

    fn class(&self, head: usize, d: usize) -> usize {
        match head.checked_sub(1) {
            None => 0,
            Some(h) => (2 * self.of[h.abs_diff(d)]).saturating_sub(usize::from(h < d)),
        }
    }
}

/// The proposal that follows from the probabilities of the kept arcs.
fn corrected(
    scores: &HeadScores,
    kept: &KeptArcs,
    probabilities: &[f64],
    clock: &Clock<'_>,
) -> Result<HeadScores> {
    let n = scores.words;
    let classes = Classes::new(n);
    let (mut found, mut expected) = (vec![0.0; classes.count()], vec![0.0; classes.count()]);
    for (e, head, d) in kept.list() {
        found[classes.class(head, d)] += probabilities[e];
    }
    let mut local = scores.rows.clone();
    for d in 0..n {
        clock.check()?;
        let row = &mut local[d * (n + 1)..(d + 1) * (n + 1)];
        let total = numeric::log_sum_exp(row);
        if total == f64::NEG_INFINITY {
            continue;
        }
        row.iter_mut().for_each(|x| *x -= total);
        let mut own = row.to_vec();
        numeric::exp_in_place(&mut own);
        own.iter().enumerate().for_each(|(head, p)| expected[classes.class(head, d)] += p);
    }
    let correction: Vec<f64> =
        found.iter().zip(&expected).map(|(found, all)| (found / all.max(1e-300) + LEAST).ln()).collect();
    let mut rows = Vec::with_capacity(scores.rows.len());
    for d in 0..n {
        clock.check()?;
        let local = &local[d * (n + 1)..(d + 1) * (n + 1)];
        let mut guided: Vec<f64> =
            local.iter().enumerate().map(|(head, log)| log + correction[classes.class(head, d)]).collect();
        for e in kept.of_word(d).filter(|&e| kept.log_weights[e] == 0.0) {
            guided[kept.heads[e] as usize] = probabilities[e].ln();
        }
        rows.extend(mixture(guided, local, GUIDED));
    }
    Ok(HeadScores { words: n, rows })
}
