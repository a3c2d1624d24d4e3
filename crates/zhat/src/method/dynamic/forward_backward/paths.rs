//! The best path, the k best and samples of chains.

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::ForwardBackward;
use super::chain::with_lattice;
use super::recorded::answer;
use crate::answer::Answer;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::BLOCK;
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::{Path, PathSamples};
use crate::query::{KBest, Map, Query, Sample};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

impl<F: Real> Map<Chain<F>> for ForwardBackward {
    /// Of equal paths the one whose last state is the smallest, then the one before it. A sequence without a path has an empty one.
    fn map(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<Vec<Path>>> {
        answer(self, chain, Query::Map, run, |clock| {
            with_lattice(chain, clock, |lattice| {
                let rows = lattice.sweep_max(clock)?;
                let paths: Vec<Path> = (0..chain.batch())
                    .into_par_iter()
                    .map(|b| Ok(scored(chain, b, lattice.best_path(&rows, b, clock)?)))
                    .collect::<Result<_>>()?;
                if paths.iter().all(|path| path.states.is_empty()) {
                    Err(Error::ZeroPartition)
                } else {
                    Ok(paths)
                }
            })
        })
    }
}

fn scored<F: Real>(chain: &Chain<F>, b: usize, states: Vec<usize>) -> Path {
    let score = if states.is_empty() { f64::NEG_INFINITY } else { chain.score(b, &states) };
    Path { states, score }
}

impl<F: Real> KBest<Chain<F>> for ForwardBackward {
    fn k_best(&self, chain: &Chain<F>, k: usize, run: &Run) -> Result<Answer<Vec<Vec<Path>>>> {
        answer(self, chain, Query::KBest(k), run, |clock| {
            with_lattice(chain, clock, |lattice| {
                let rows = lattice.sweep_max(clock)?;
                let ranked = |b: usize| {
                    let paths = lattice.best_paths(&rows, b, k, clock)?.into_iter();
                    let mut paths: Vec<Path> = paths.map(|states| scored(chain, b, states)).collect();
                    // Near ties can change places by rounding.
                    paths.sort_by(|a, b| b.score.total_cmp(&a.score));
                    Ok(paths)
                };
                let ranked: Vec<Vec<Path>> =
                    (0..chain.batch()).into_par_iter().map(ranked).collect::<Result<_>>()?;
                let none = k > 0 && ranked.iter().all(Vec::is_empty);
                if none { Err(Error::ZeroPartition) } else { Ok(ranked) }
            })
        })
    }
}

impl<F: Real> Sample<Chain<F>> for ForwardBackward {
    /// A sequence without a path has no samples.
    fn sample(&self, chain: &Chain<F>, count: usize, run: &Run) -> Result<Answer<PathSamples>> {
        answer(self, chain, Query::Sample(count), run, |clock| {
            with_lattice(chain, clock, |lattice| {
                let backward = lattice.sweep_backward(clock)?;
                let possible = |b: usize| F::max(&lattice.first_weights(&backward, b)) > F::NEG_INFINITY;
                draw_all(chain.batch(), count, possible, run, clock, |b, count, random| {
                    lattice.draw(&backward, b, count, random, clock)
                })
            })
        })
    }
}

/// `count` draws for each sequence that has any, block by block; blocks have their own streams.
pub(super) fn draw_all<S: Send>(
    batch: usize,
    count: usize,
    possible: impl Fn(usize) -> bool,
    run: &Run,
    clock: &Clock<'_>,
    draw: impl Fn(usize, usize, &mut Stream) -> Result<Vec<S>> + Sync,
) -> Result<PathSamples<S>> {
    let streams = Streams::new(run.seed(), "forward-backward sample");
    let possible: Vec<bool> = (0..batch).map(possible).collect();
    if !possible.contains(&true) {
        return Err(Error::ZeroPartition);
    }
    let blocks: Vec<(usize, usize)> = (0..batch)
        .filter(|&b| possible[b])
        .flat_map(|b| (0..count.div_ceil(BLOCK)).map(move |block| (b, block)))
        .collect();
    let done = AtomicUsize::new(0);
    let drawn = |&(b, block): &(usize, usize)| {
        clock.step("samples", BLOCK * done.fetch_add(1, Ordering::Relaxed), BLOCK * blocks.len())?;
        let mut random = streams.block(((b as u64) << 32) | block as u64);
        draw(b, BLOCK.min(count - block * BLOCK), &mut random)
    };
    let drawn: Vec<Vec<S>> = blocks.par_iter().map(drawn).collect::<Result<_>>()?;
    let mut samples: Vec<Vec<S>> = (0..batch).map(|_| Vec::new()).collect();
    for ((b, _), some) in blocks.into_iter().zip(drawn) {
        samples[b].extend(some);
    }
    Ok(PathSamples { samples, log_weights: None })
}
