//! Exact samples of one model at one inverse temperature, for callers that draw many.
//!
//! The sampler is chosen before the first sample: the exact sums if they are cheap, coupling from the past if
//! its chains meet, rejection otherwise. Whether they meet is known for attractive and for weak pairs, and found
//! by a trial with its own random numbers for others. The choice does not depend on the samples, so they are
//! exact.

use super::Sampler;
use super::source::Source;
use crate::error::{Error, Result};
use crate::method::space::coupling::Spins;
use crate::method::space::oracle::Prepared;
use crate::model::space::SpaceModel;
use crate::random::{Stream, Streams};
use crate::run::Clock;

/// Number of sweeps of the trial of coupling from the past.
const TRIAL_SWEEPS: u64 = 512;
/// Number of sweeps after which a sample fails, and with it all samples of its model.
const MOST_SWEEPS: u64 = 1 << 13;
/// Rejection is chosen only if its estimated number of tries is at most this.
const MOST_TRIES: f64 = 1e5;
/// Uniform samples that estimate the number of tries of rejection.
const TRIAL_SAMPLES: usize = 1000;

/// The sampler for a model at β.
///
/// # Errors
/// If no exact sampler is fast enough.
fn choose(model: &SpaceModel, beta: f64, clock: &Clock<'_>) -> Result<Sampler> {
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
    let mut random = streams.block(0);
    let (mut structure, top, mut accepted) = (vec![0; model.width()], model.range().1, 0.0);
    for _ in 0..TRIAL_SAMPLES {
        model.space().uniform(&mut random, &mut structure, clock)?;
        accepted += (beta * (model.score(&structure)? - top)).exp();
    }
    if accepted / TRIAL_SAMPLES as f64 * MOST_TRIES < 1.0 {
        return Err(Error::NoAnswer(
            "no exact sampler suits this model: its scores are too strong for coupling from the past and for \
             rejection; fewer pairs or stronger regularisation would help"
                .into(),
        ));
    }
    Ok(Sampler::Rejection)
}

/// Calls `work` with a function that draws exact samples of the model with scores multiplied by β.
///
/// # Errors
/// If no exact sampler is fast enough, the time is over, or `work` fails.
pub(crate) fn exact_samples<T>(
    model: &SpaceModel,
    beta: f64,
    clock: &Clock<'_>,
    work: impl FnOnce(&dyn Fn(&mut Stream, &mut [u32]) -> Result<()>) -> Result<T>,
) -> Result<T> {
    let mut source = Source::new(model, choose(model, beta, clock)?)?;
    source.most_sweeps = MOST_SWEEPS;
    let at = source.at(beta);
    at.with(clock, |draw| {
        work(&|random, structure| {
            clock.check()?;
            draw(random, structure).map(|_| ())
        })
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
                let count = 5_000;
                exact_samples(&model, beta, &clock, |draw| {
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
                    let expected = weight / total * f64::from(count);
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
        let error = exact_samples(&model, 1.0, &run.start("test"), |_| Ok(())).unwrap_err();
        assert!(error.to_string().contains("no exact sampler"), "{error}");
    }
}
