//! Best path, k best paths and samples.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;

use super::ForwardBackward;
use super::recorded::{Recorded, answer, each_part};
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::BLOCK;
use crate::query::sequence::PathSamples;
use crate::query::{KBest, Map, Query, Sample};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

impl<M: Recorded> Map<M> for ForwardBackward {
    /// Ties: among equal paths, the one with the smallest last state wins, then the smallest state before it;
    /// among segments, the shortest last one. A sequence without a path gets an empty one.
    fn map(&self, model: &M, run: &Run) -> Result<Answer<Vec<M::Scored>>> {
        answer(self, model, Query::Map, run, |clock| {
            let paths = best(model, clock)?;
            let none = paths.iter().all(|path| M::score_of(path) == f64::NEG_INFINITY);
            if none { Err(Error::ZeroPartition) } else { Ok(paths) }
        })
    }
}

impl<M: Recorded> KBest<M> for ForwardBackward {
    fn k_best(&self, model: &M, k: usize, run: &Run) -> Result<Answer<Vec<Vec<M::Scored>>>> {
        answer(self, model, Query::KBest(k), run, |clock| {
            let ranked = ranked(model, k, clock)?;
            let none = k > 0 && ranked.iter().all(Vec::is_empty);
            if none { Err(Error::ZeroPartition) } else { Ok(ranked) }
        })
    }
}

impl<M: Recorded> Sample<M> for ForwardBackward {
    /// A sequence without a path has no samples.
    fn sample(&self, model: &M, count: usize, run: &Run) -> Result<Answer<PathSamples<M::Drawn>>> {
        answer(self, model, Query::Sample(count), run, |clock| {
            let drawn = match each_part(model, |b, part| draw_from(part, b, count, run, clock))? {
                Some(parts) => parts.into_iter().flatten().collect(),
                None => draw_from(model, 0, count, run, clock)?,
            };
            if drawn.iter().all(Option::is_none) {
                return Err(Error::ZeroPartition);
            }
            let samples = drawn.into_iter().map(Option::unwrap_or_default).collect();
            Ok(PathSamples { samples, log_weights: None })
        })
    }
}

/// The best path of each sequence; empty if it has none.
fn best<M: Recorded>(model: &M, clock: &Clock<'_>) -> Result<Vec<M::Scored>> {
    if let Some(parts) = each_part(model, |_, part| best(part, clock))? {
        return Ok(parts.into_iter().flatten().collect());
    }
    model.with_lattice(clock, |lattice| {
        let best = lattice.sweep_max(clock)?;
        let of = |b: usize| Ok(model.scored(b, lattice.best_path(&best, b, clock)?));
        (0..model.chain().batch()).into_par_iter().map(of).collect()
    })
}

/// The k best paths of each sequence.
fn ranked<M: Recorded>(model: &M, k: usize, clock: &Clock<'_>) -> Result<Vec<Vec<M::Scored>>> {
    if let Some(parts) = each_part(model, |_, part| ranked(part, k, clock))? {
        return Ok(parts.into_iter().flatten().collect());
    }
    model.with_lattice(clock, |lattice| {
        let best = lattice.sweep_max(clock)?;
        let of = |b: usize| {
            let paths = lattice.best_paths(&best, b, k, clock)?.into_iter();
            let mut paths: Vec<M::Scored> = paths.map(|path| model.scored(b, path)).collect();
            // Rounding can swap near ties.
            paths.sort_by(|a, b| M::score_of(b).total_cmp(&M::score_of(a)));
            Ok(paths)
        };
        (0..model.chain().batch()).into_par_iter().map(of).collect()
    })
}

/// Samples of each sequence of a model whose first sequence is number `first` of the batch.
fn draw_from<M: Recorded>(
    model: &M,
    first: usize,
    count: usize,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Vec<Option<Vec<M::Drawn>>>> {
    model.with_lattice(clock, |lattice| {
        let backward = lattice.sweep_backward(clock)?;
        let possible = |b: usize| lattice.has_path(&backward, b);
        draw_all(first, model.chain().batch(), count, possible, run, clock, |b, count, random| {
            let drawn = lattice.draw(&backward, b, count, random, clock)?;
            Ok(drawn.into_iter().map(M::drawn).collect())
        })
    })
}

/// `count` samples of each sequence that has a path, drawn in blocks; `None` for the others. Each block has its
/// own random stream.
fn draw_all<S: Clone + Send>(
    first: usize,
    batch: usize,
    count: usize,
    possible: impl Fn(usize) -> bool,
    run: &Run,
    clock: &Clock<'_>,
    draw: impl Fn(usize, usize, &mut Stream) -> Result<Vec<S>> + Sync,
) -> Result<Vec<Option<Vec<S>>>> {
    let streams = Streams::new(run.seed(), "forward-backward sample");
    let possible: Vec<bool> = (0..batch).map(possible).collect();
    let blocks: Vec<(usize, usize)> = (0..batch)
        .filter(|&b| possible[b])
        .flat_map(|b| (0..count.div_ceil(BLOCK)).map(move |block| (b, block)))
        .collect();
    let done = AtomicUsize::new(0);
    let drawn = |&(b, block): &(usize, usize)| {
        clock.step("samples", BLOCK * done.fetch_add(1, Ordering::Relaxed), BLOCK * blocks.len())?;
        let mut random = streams.block((((first + b) as u64) << 32) | block as u64);
        draw(b, BLOCK.min(count - block * BLOCK), &mut random)
    };
    let drawn: Vec<Vec<S>> = blocks.par_iter().map(drawn).collect::<Result<_>>()?;
    let mut samples: Vec<Option<Vec<S>>> = possible.iter().map(|some| some.then(Vec::new)).collect();
    for ((b, _), some) in blocks.into_iter().zip(drawn) {
        samples[b].get_or_insert_default().extend(some);
    }
    Ok(samples)
}
