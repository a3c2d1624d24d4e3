//! Samples of one model at one inverse temperature, for callers that draw many: exact if possible.
//!
//! The sampler is chosen before the first sample: the exact sums if they are cheap, coupling from the past if
//! its chains meet, sequential rejection or rejection if few attempts are needed, and at last the exact sums over
//! all sets of a small space. Whether chains meet is known for attractive and for weak pairs, and found by a trial
//! with its own random numbers for others. The choice does not depend on the samples, so they are exact.
//!
//! Where none of these is fast enough, a Markov chain of local moves gives approximate samples ([`samples`]). It is
//! moved from β = 0 to the inverse temperature, and then makes some moves between two samples. Nothing is known
//! about its distance from the model.

use std::cell::RefCell;

use super::Sampler;
use super::sequential::Sequential;
use super::source::{Source, TRIAL_ATTEMPTS};
use crate::error::{Error, Result};
use crate::method::space::Oracle;
use crate::method::space::coupling::Spins;
use crate::method::space::estimate::Particle;
use crate::method::space::oracle::Prepared;
use crate::model::space::{SpaceModel, Step, Structures};
use crate::query::{Forecasts, Query};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

/// Number of sweeps of the trial of coupling from the past.
const TRIAL_SWEEPS: u64 = 512;
/// Number of sweeps after which a sample fails, and with it all samples of its model.
const MOST_SWEEPS: u64 = 1 << 13;
/// Rejection is chosen only if its estimated number of tries is at most this, for one sample and for all.
const MOST_TRIES: f64 = 1e5;
const MOST_TRIES_OF_ALL: f64 = 1e6;
/// Uniform samples that estimate the number of tries of rejection.
const TRIAL_SAMPLES: usize = 1000;
/// Sums over all sets are chosen only if they need at most this many seconds and bytes.
const MOST_SECONDS: f64 = 0.5;
const MOST_BYTES: f64 = 6.4e7;
/// Moves of the Markov chain between two samples, as a multiple of the width.
const THINNING: u64 = 4;
/// Minimum and maximum of the number of temperatures of the chain.
const TEMPERATURES: (f64, f64) = (16.0, 512.0);

/// How samples were drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Draws {
    /// From the distribution of the model.
    Exact,
    /// By a Markov chain that has not been shown to mix.
    Approximate,
}

/// A function that draws one sample.
type Draw<'a> = dyn Fn(&mut Stream, &mut [u32]) -> Result<()> + 'a;

/// The sampler for `count` samples of a model at β.
///
/// # Errors
/// If no exact sampler is fast enough.
fn choose(model: &SpaceModel, beta: f64, count: usize, clock: &Clock<'_>) -> Result<Sampler> {
    if Prepared::is_cheap(model) {
        return Ok(Sampler::Oracle);
    }
    let streams = Streams::new(0, "trial of exact samples");
    if let Some(spins) = Spins::new(model)
        && (spins.is_weak(beta)
            || spins.is_attractive() && beta <= 1.0
            || spins.meet(beta, TRIAL_SWEEPS, &streams))
    {
        return Ok(Sampler::Coupling);
    }
    let few = |tries: f64| tries <= MOST_TRIES && tries * count as f64 <= MOST_TRIES_OF_ALL;
    let mut random = streams.block(0);
    if let Some(sequential) = Sequential::new(model, beta)
        && few(sequential.tries(TRIAL_ATTEMPTS, &mut random))
    {
        return Ok(Sampler::Sequential);
    }
    let (mut structure, top, mut accepted) = (vec![0; model.width()], model.range().1, 0.0);
    for _ in 0..TRIAL_SAMPLES {
        model.space().uniform(&mut random, &mut structure, clock)?;
        accepted += (beta * (model.score(&structure)? - top)).exp();
    }
    if few(TRIAL_SAMPLES as f64 / accepted) {
        return Ok(Sampler::Rejection);
    }
    if matches!(model.structures(), Structures::Permutations(_) | Structures::Partitions(_)) {
        let forecast = Oracle::default().forecast(model, Query::Sample(count), &Run::default());
        if forecast.seconds <= MOST_SECONDS && forecast.bytes <= MOST_BYTES {
            return Ok(Sampler::Oracle);
        }
    }
    Err(Error::NoAnswer(
        "no exact sampler suits this model: its scores are too strong for coupling from the past and for \
         rejection; fewer pairs or stronger regularisation would help"
            .into(),
    ))
}

/// Calls `work` with a function that draws `count` exact samples of the model with scores multiplied by β.
///
/// # Errors
/// If no exact sampler is fast enough, the time is over, or `work` fails.
pub(crate) fn exact_samples<T>(
    model: &SpaceModel,
    (beta, count): (f64, usize),
    clock: &Clock<'_>,
    work: impl FnOnce(&Draw<'_>) -> Result<T>,
) -> Result<T> {
    let mut source = Source::of(model, choose(model, beta, count, clock)?);
    source.most_sweeps = MOST_SWEEPS;
    let at = source.at(beta);
    at.with(clock, |draw| {
        work(&|random, structure| {
            clock.check()?;
            draw(random, structure).map(|_| ())
        })
    })
}

/// `count` samples of the model with scores multiplied by β: exact, or approximate if no exact sampler is fast
/// enough.
///
/// # Errors
/// If the time is over.
pub(crate) fn samples(
    model: &SpaceModel,
    (beta, count): (f64, usize),
    random: &mut Stream,
    clock: &Clock<'_>,
) -> Result<(Vec<Vec<u32>>, Draws)> {
    let mut structure = vec![0; model.width()];
    let mut list = |draw: &Draw<'_>| -> Result<Vec<Vec<u32>>> {
        let mut all = Vec::with_capacity(count);
        for _ in 0..count {
            draw(random, &mut structure)?;
            all.push(structure.clone());
        }
        Ok(all)
    };
    match exact_samples(model, (beta, count), clock, &mut list) {
        Ok(all) => Ok((all, Draws::Exact)),
        // The samples by a sampler that failed are discarded, so that exact ones are not chosen among all.
        Err(Error::NoAnswer(_)) => Ok((approximate(model, beta, clock, &mut list)?, Draws::Approximate)),
        Err(error) => Err(error),
    }
}

/// Calls `work` with a function that draws samples from a Markov chain.
fn approximate<T>(
    model: &SpaceModel,
    beta: f64,
    clock: &Clock<'_>,
    work: impl FnOnce(&Draw<'_>) -> Result<T>,
) -> Result<T> {
    let width = model.width() as u64;
    let steps = (beta * model.spread()).ceil().clamp(TEMPERATURES.0, TEMPERATURES.1) as u64;
    let chain: RefCell<Option<(Particle, Step)>> = RefCell::new(None);
    work(&|random, structure| {
        let mut chain = chain.borrow_mut();
        let (particle, step) = match &mut *chain {
            Some((particle, step)) => {
                particle.moves(model, beta, THINNING * width, random, step, clock)?;
                (particle, step)
            }
            None => {
                let (particle, step) =
                    chain.insert((Particle::start(model, random, clock)?, Step::default()));
                for time in 1..=steps {
                    let now = beta * time as f64 / steps as f64;
                    particle.moves(model, now, width, random, step, clock)?;
                }
                (particle, step)
            }
        };
        step.changes.clear();
        clock.check()?;
        structure.copy_from_slice(&particle.structure);
        model.space().canonical(structure);
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::space::{Hypercube, Scores};
    use crate::run::Run;

    fn complete(n: usize, weight: impl Fn(usize, usize) -> f64) -> SpaceModel {
        let mut pairs = Vec::new();
        for i in 0..n {
            pairs.extend((i + 1..n).map(|j| (i, j, weight(i, j))));
        }
        let single = (0..n).map(|i| -0.5 + 0.3 * i as f64).collect();
        SpaceModel::new(Hypercube::new(n).unwrap(), Scores::pairwise(single, &pairs).unwrap()).unwrap()
    }

    /// χ² with 31 degrees of freedom exceeds 93 with probability 5e-8.
    #[test]
    fn samples_have_the_probabilities_of_the_model_at_every_temperature() {
        let run = Run::default();
        let clock = run.start("test");
        // Attractive, weak, and pairs of both signs that are neither.
        let strengths: [fn(usize, usize) -> f64; 3] = [
            |_, _| 0.4,
            |i, j| 0.3 * ((i + 2 * j) as f64).sin(),
            |i, j| if (i + j) % 2 == 0 { 1.2 } else { -1.5 },
        ];
        for (number, weight) in strengths.into_iter().enumerate() {
            let model = complete(5, weight);
            for beta in [1.0, 1.7] {
                let states: Vec<Vec<u32>> =
                    (0..32).map(|code| (0..5).map(|i| code >> i & 1).collect()).collect();
                let weights: Vec<f64> =
                    states.iter().map(|state| (beta * model.score(state).unwrap()).exp()).collect();
                let total: f64 = weights.iter().sum();
                let mut counts = [0.0; 32];
                let mut random = Streams::new(number as u64, "tempered").block(beta.to_bits());
                let count = 5_000usize;
                exact_samples(&model, (beta, count), &clock, |draw| {
                    let mut state = vec![0; 5];
                    for _ in 0..count {
                        draw(&mut random, &mut state)?;
                        counts[state.iter().enumerate().map(|(i, y)| (*y as usize) << i).sum::<usize>()] +=
                            1.0;
                    }
                    Ok(())
                })
                .unwrap();
                let mut rest = (0.0, 0.0);
                let mut square = 0.0;
                for (weight, seen) in weights.iter().zip(counts) {
                    let expected = weight / total * count as f64;
                    if expected < 8.0 {
                        rest = (rest.0 + expected, rest.1 + seen);
                    } else {
                        square += (seen - expected).powi(2) / expected;
                    }
                }
                if rest.0 > 0.0 {
                    square += (rest.1 - rest.0).powi(2) / rest.0.max(1.0);
                }
                assert!(square < 93.0, "{number} {beta}: {square}");
            }
        }
    }

    #[test]
    fn models_without_a_fast_exact_sampler_are_refused() {
        let run = Run::default();
        let model = complete(60, |i, j| if (37 * i + 91 * j) % 17 < 8 { 4.0 } else { -4.0 });
        let error = exact_samples(&model, (1.0, 1), &run.start("test"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no exact sampler"), "{error}");
    }

    /// Where no exact sampler is fast enough, the samples are marked as approximate; they have the frequencies of a
    /// chain that mixes here.
    #[test]
    fn samples_are_approximate_only_where_they_must_be() {
        let run = Run::default();
        let clock = run.start("test");
        let mut random = Streams::new(4, "tempered").block(0);
        let weak = complete(5, |_, _| 0.4);
        let (all, draws) = samples(&weak, (1.0, 10), &mut random, &clock).unwrap();
        assert_eq!((all.len(), draws), (10, Draws::Exact));
        let strong = complete(60, |i, j| if (37 * i + 91 * j) % 17 < 8 { 4.0 } else { -4.0 });
        let (all, draws) = samples(&strong, (1.0, 3), &mut random, &clock).unwrap();
        assert_eq!((all.len(), draws), (3, Draws::Approximate));
        let mut sums = [0.0; 5];
        let count = 4000;
        approximate(&weak, 1.0, &clock, |draw| {
            let mut state = vec![0; 5];
            for _ in 0..count {
                draw(&mut random, &mut state)?;
                sums.iter_mut().zip(&state).for_each(|(sum, y)| *sum += f64::from(*y));
            }
            Ok(())
        })
        .unwrap();
        let states: Vec<Vec<u32>> = (0..32).map(|code| (0..5).map(|i| code >> i & 1).collect()).collect();
        let weights: Vec<f64> = states.iter().map(|state| weak.score(state).unwrap().exp()).collect();
        let total: f64 = weights.iter().sum();
        for (i, sum) in sums.iter().enumerate() {
            let p: f64 = states.iter().zip(&weights).map(|(y, w)| f64::from(y[i]) * w / total).sum();
            assert!((sum / f64::from(count) - p).abs() < 0.06, "{i}: {sum} {p}");
        }
    }
}
