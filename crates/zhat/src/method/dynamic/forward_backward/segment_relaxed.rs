//! Relaxed samples of semi-Markov chains, and their gradient.

use rayon::prelude::*;

use super::NAME;
use super::recorded::some_weight;
use super::relaxed::{Relaxed, block, wanted};
use super::semi_markov::{with_lattice, zero_gradient};
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::{Ahead, ScoreGradient};
use crate::model::SemiMarkov;
use crate::numeric::Real;
use crate::query::sequence::{RelaxedSegmentations, SemiMarkovGradient};
use crate::random::Streams;
use crate::run::Run;

const PURPOSE: &str = "forward-backward relaxed segments";

/// What relaxed segmentations leave for their gradient: the messages; the noise is drawn again.
pub struct SegmentRelaxedTape<F: Real> {
    model: SemiMarkov<F>,
    ahead: Ahead<F>,
    log_partition: Vec<f64>,
    count: usize,
    temperature: f64,
    run: Run,
}

impl<F: Real> Relaxed for SemiMarkov<F> {
    type Samples = RelaxedSegmentations<F>;
    type Tape = SegmentRelaxedTape<F>;

    fn relaxed(
        &self,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedSegmentations<F>, SegmentRelaxedTape<F>)> {
        let clock = run.start(NAME);
        let (chain, longest) = (self.chain(), self.longest());
        let shape = [chain.batch(), count, chain.steps(), chain.states(), longest];
        let rows = shape[..3].iter().map(|&x| x as f64).product::<f64>();
        let messages = 2.0 * chain.emissions().len() as f64;
        let numbers = rows * (chain.states() + longest) as f64 + messages;
        run.require_memory(NAME, numbers * size_of::<F>() as f64)?;
        let streams = Streams::new(run.seed(), PURPOSE);
        let (samples, ahead, log_partition) = run.install(|| {
            with_lattice(self, &clock, |lattice| {
                let (ahead, log_partition) = lattice.sweep_forward(&clock)?;
                some_weight(&log_partition)?;
                let sample = |&(b, s): &(usize, usize)| {
                    clock.check()?;
                    Ok(lattice.relax(&ahead, b, temperature, &mut streams.block(block(b, s))))
                };
                let wanted = wanted(&log_partition, count);
                let drawn: Vec<_> = wanted.par_iter().map(sample).collect::<Result<_>>()?;
                let rows = chain.batch() * count * chain.steps();
                let mut states = vec![F::ZERO; rows * chain.states()];
                let mut lengths = vec![F::ZERO; rows * longest];
                let mut hard = vec![Vec::new(); chain.batch()];
                for ((b, s), segments) in wanted.into_iter().zip(drawn) {
                    for segment in &segments {
                        let row = (b * count + s) * chain.steps() + segment.end;
                        states[row * chain.states()..][..chain.states()].copy_from_slice(&segment.states);
                        let to = &mut lengths[row * longest..(row + 1) * longest];
                        to.iter_mut().zip(&segment.lengths).for_each(|(x, &y)| *x = F::from_f64(y));
                    }
                    hard[b].push(segments.iter().rev().map(|one| (one.state, one.length)).collect());
                }
                let samples = RelaxedSegmentations { shape, hard, states, lengths };
                Ok::<_, Error>((samples, ahead, log_partition))
            })
        })?;
        let (model, run) = (self.clone(), run.clone());
        Ok((samples, SegmentRelaxedTape { model, ahead, log_partition, count, temperature, run }))
    }
}

impl<F: Real> SegmentRelaxedTape<F> {
    /// The gradient of Σ of_states·states + Σ of_lengths·lengths for cotangents of their shapes, B×S×T×N and B×S×T×L; what stands where no
    /// segment ends has no effect.
    pub fn vjp(&self, of_states: &[F], of_lengths: &[F]) -> Result<SemiMarkovGradient<F>> {
        let (model, chain, count) = (&self.model, self.model.chain(), self.count);
        let (steps, states, longest) = (chain.steps(), chain.states(), model.longest());
        let rows = chain.batch() * count * steps;
        for (cotangent, size) in [(of_states, states), (of_lengths, longest)] {
            if cotangent.len() != rows * size || cotangent.iter().any(|x| !x.to_f64().is_finite()) {
                let (found, expected) = (cotangent.len(), rows * size);
                let message = format!("found {found} numbers, expected {expected} finite ones");
                return Err(Error::argument("cotangent", message));
            }
        }
        let clock = self.run.start(NAME);
        let streams = Streams::new(self.run.seed(), PURPOSE);
        self.run.install(|| {
            with_lattice(model, &clock, |lattice| {
                let mut gradient = zero_gradient(model);
                let mut to = lattice.message_cotangents();
                let (mut scores, transitions) = ScoreGradient::split(model, &mut gradient);
                for (b, s) in wanted(&self.log_partition, count) {
                    clock.check()?;
                    let of = |t: usize| {
                        let row = (b * count + s) * steps + t;
                        (
                            &of_states[row * states..(row + 1) * states],
                            &of_lengths[row * longest..(row + 1) * longest],
                        )
                    };
                    lattice.relax_vjp(
                        &self.ahead,
                        b,
                        self.temperature,
                        &mut streams.block(block(b, s)),
                        of,
                        &mut to,
                        transitions,
                        |segment, weight| scores.add(b, segment, weight),
                    );
                }
                lattice.forward_vjp(&self.ahead, to, &clock, transitions, |b, t, weights| {
                    scores.add_ends(b, t, weights);
                })?;
                Ok(gradient)
            })
        })
    }
}
