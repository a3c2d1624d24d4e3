//! AdaGrad on mini-batches in random order.

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::parameters::{Parameters, Work};
use super::windows::Windows;
use crate::error::{Error, Result};
use crate::learn::language::Vocabulary;
use crate::options::{ABOVE_ZERO, COUNT, ITERATIONS, Options, Range, options};
use crate::random::Streams;
use crate::run::Run;

/// Initial sum of squared gradients of each coordinate; it limits the first steps.
const START: f32 = 0.1;
/// Rows updated per parallel task.
const ROWS: usize = 64;

/// Options of training by stochastic gradients.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Stochastic {
    /// K.
    pub context: usize,
    /// D.
    pub rank: usize,
    /// Positions per mini-batch.
    pub batch: usize,
    /// The initial learning rate.
    pub rate: f64,
    /// Maximum number of passes over the text.
    pub epochs: usize,
    /// Treats the text as a cycle with one separator between sentences instead of K. The model is then a
    /// Markov random field, see [`LogBilinear::field`](super::LogBilinear::field).
    pub cyclic: bool,
    /// Early stopping: stops after this many consecutive epochs without improvement on the validation text.
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

/// Progress after an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Epoch {
    /// Number of epochs done.
    pub epoch: usize,
    /// Log-likelihood per word of the training text during the epoch, in nats, including the ends of
    /// sentences.
    pub train: f64,
    /// Log-likelihood per word of the validation text, in nats.
    pub valid: Option<f64>,
    /// The best epoch.
    pub best: usize,
    /// The learning rate of this epoch.
    pub rate: f64,
}

/// Checks a text; `name` is used in messages.
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

/// Trains and returns the best parameters found. `watch` is called after every epoch and stops training by
/// returning false.
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
            // The number of words processed, in proportion to the positions.
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
                // Not better (or NaN): revert to the best parameters and halve the learning rate.
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

/// x ← x − rate·g/√(Σ g²), per coordinate.
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
