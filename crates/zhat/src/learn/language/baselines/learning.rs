//! AdaGrad over mini-batches in random order.

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::parameters::{Parameters, Work};
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::learn::language::Vocabulary;
use crate::options::{ABOVE_ZERO, COUNT, ITERATIONS, Options, Range, options};
use crate::random::Streams;
use crate::run::Run;

/// The squares of gradients that a coordinate begins with, so that its first steps are not too long.
const START: f32 = 0.1;
/// Rows whose parameters move in one piece of work.
const ROWS: usize = 64;

/// How a model is learned by stochastic gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Stochastic {
    /// K.
    pub context: usize,
    /// D.
    pub rank: usize,
    /// Places of a mini-batch.
    pub batch: usize,
    /// The first rate.
    pub rate: f64,
    /// Passes over the text at most.
    pub epochs: usize,
    /// The text as a cycle with one separator between sentences instead of K: what is learned is then a
    /// Markov random field, see [`LogBilinear::field`](super::LogBilinear::field).
    pub cyclic: bool,
    /// Ends after so many epochs in a row in which the validation text has not become likelier.
    pub patience: usize,
}

options!(Stochastic {
    context: usize => Range::whole(1, 1000),
    rank: usize => Range::whole(1, 1_000_000),
    batch: usize => Range::whole(1, 1_000_000_000),
    rate: f64 => ABOVE_ZERO,
    epochs: usize => ITERATIONS,
    cyclic: bool,
    patience: usize => COUNT
});

impl Default for Stochastic {
    fn default() -> Self {
        Stochastic { context: 2, rank: 30, batch: 128, rate: 0.1, epochs: 20, cyclic: false, patience: 2 }
    }
}

/// Where learning stands after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Epochs done.
    pub epoch: usize,
    /// Nats a word of the text while it was passed over, the ends of sentences included.
    pub train: f64,
    /// Nats a word of the validation text.
    pub valid: Option<f64>,
    /// The best epoch.
    pub best: usize,
    /// The rate it had.
    pub rate: f64,
}

/// A text and how it is called in messages.
fn checked(sentences: &[Vec<u32>], states: usize, name: &str) -> Result<()> {
    if sentences.iter().all(Vec::is_empty) {
        return Err(Error::argument(name, "has no words"));
    }
    let places: usize = sentences.iter().map(|sentence| sentence.len() + 1).sum();
    if places > (u32::MAX / 8) as usize {
        return Err(Error::argument(name, format!("has {places} places, expected {} at most", u32::MAX / 8)));
    }
    if sentences.iter().flatten().any(|&state| state == 0 || state as usize >= states) {
        return Err(Error::argument(
            name,
            format!("has a state that is no word; expected 1 to {}", states - 1),
        ));
    }
    Ok(())
}

/// Learns; the best parameters that were found. `watch` is told of every epoch and ends the work by returning
/// false.
pub(super) fn learn(
    sentences: &[Vec<u32>],
    vocabulary: &Vocabulary,
    valid: Option<&[Vec<u32>]>,
    how: &Stochastic,
    ahead: bool,
    run: &Run,
    watch: &mut (dyn FnMut(&Epoch) -> Result<bool> + Send),
) -> Result<Parameters> {
    let method = if ahead { "pseudo-likelihood" } else { "log-bilinear" };
    let clock = run.start(method);
    let states = vocabulary.states();
    let Stochastic { context, rank, batch, .. } = *how;
    how.check()?;
    checked(sentences, states, "text")?;
    valid.map_or(Ok(()), |valid| checked(valid, states, "valid"))?;
    let words: usize = sentences.iter().chain(valid.into_iter().flatten()).map(Vec::len).sum();
    let numbers = states as f64 * ((context + 1) * rank + 1) as f64;
    let texts = Windows::bytes(words, sentences.len() + valid.map_or(0, <[_]>::len), context);
    run.require_memory(method, Parameters::bytes(states, context, rank, batch) + 12.0 * numbers + texts)?;
    let arranged = if how.cyclic { Windows::cycle } else { Windows::new };
    let windows = arranged(sentences, context);
    let other = valid.map(|valid| arranged(valid, context));
    let mut counts = vec![0u64; states];
    windows.places().iter().for_each(|&place| counts[windows.at(place)] += 1);
    let mut now = Parameters::first(&counts, context, rank, ahead, run.seed());
    let mut best = now.clone();
    let mut squares = vec![START; now.matrix.len()];
    let mut work = Work::new(&now, batch, true);
    let streams = Streams::new(run.seed(), "order of places");
    let mut order = windows.places().to_vec();
    let (mut rate, mut best_value, mut best_epoch) = (how.rate, f64::NEG_INFINITY, 0);
    let stop = || clock.must_stop();
    run.install(|| {
        for epoch in 1..=how.epochs {
            streams.block(epoch as u64).shuffle(&mut order);
            let (mut value, mut passed) = (0.0, 0);
            for places in order.chunks(batch) {
                if stop() {
                    break;
                }
                clock.progress(
                    method,
                    ((epoch - 1) * order.len() + passed) as u64,
                    (how.epochs * order.len()) as u64,
                );
                value += now.gradient(&windows, places, &mut work);
                step(&mut now, &mut squares, &work, rate as f32);
                passed += places.len();
            }
            if passed == 0 {
                break;
            }
            // Of the words that were met, their share.
            let met = windows.words() as f64 * passed as f64 / order.len() as f64;
            let train = value / met;
            let watched =
                other.as_ref().map(|other| now.log_likelihood(other, &mut work) / other.words() as f64);
            let reached = watched.unwrap_or(train);
            let told = rate;
            if reached > best_value || watched.is_none() {
                (best_value, best_epoch) = (reached, epoch);
                best.matrix.copy_from_slice(&now.matrix);
            } else {
                // Worse than before (or not a number): back, and more slowly.
                now.matrix.copy_from_slice(&best.matrix);
                rate *= 0.5;
            }
            let progress = Epoch { epoch, train, valid: watched, best: best_epoch, rate: told };
            if !watch(&progress)? || stop() || epoch >= best_epoch + how.patience {
                break;
            }
        }
        Ok(best)
    })
}

/// x ← x − rate·g/√(Σ g²), coordinate by coordinate.
fn step(now: &mut Parameters, squares: &mut [f32], work: &Work, rate: f32) {
    let (width, first, rank) = (now.width(), now.first_column(), now.rank);
    let moved = |x: &mut [f32], squares: &mut [f32], gradient: &[f32]| {
        for ((x, s), &g) in x.iter_mut().zip(squares).zip(gradient) {
            *s += g * g;
            *x -= rate * g / s.sqrt();
        }
    };
    for &state in &work.touched {
        let at = state * width;
        moved(
            &mut now.matrix[at..at + rank],
            &mut squares[at..at + rank],
            &work.left[state * rank..][..rank],
        );
    }
    let pieces = now.matrix.par_chunks_mut(ROWS * width).zip(squares.par_chunks_mut(ROWS * width));
    pieces.zip(work.dense.par_chunks(ROWS * (width - first))).for_each(|((x, s), g)| {
        let rows = x.chunks_exact_mut(width).zip(s.chunks_exact_mut(width));
        rows.zip(g.chunks_exact(width - first))
            .for_each(|((x, s), g)| moved(&mut x[first..], &mut s[first..], g));
    });
}
