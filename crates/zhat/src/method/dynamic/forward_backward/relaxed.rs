//! Relaxed samples, and those of chains with their gradient.

use rayon::prelude::*;

use super::chain::{add_start, with_lattice, zeros};
use super::recorded::some_weight;
use super::{ForwardBackward, NAME};
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::Rows;
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::{ChainGradient, RelaxedSamples};
use crate::random::Streams;
use crate::run::Run;

const PURPOSE: &str = "forward-backward relaxed";

/// What relaxed samples leave for their gradient: the messages; the noise is drawn again.
pub struct RelaxedTape<F: Real> {
    chain: Chain<F>,
    forward: Rows<F>,
    log_partition: Vec<f64>,
    count: usize,
    temperature: f64,
    run: Run,
}

/// A kind of model that forward–backward draws relaxed samples of: [`Chain`] or [`crate::SemiMarkov`].
pub trait Relaxed: Sized {
    /// What is drawn.
    type Samples;
    /// What its gradient needs.
    type Tape;

    #[doc(hidden)]
    fn relaxed(&self, count: usize, temperature: f64, run: &Run) -> Result<(Self::Samples, Self::Tape)>;
}

impl ForwardBackward {
    /// `count` exact samples of each sequence together with their relaxation at a positive temperature τ, softmax((log p̂ + noise)/τ), and
    /// what its gradient needs. The gradient takes the hard states of a path, and the lengths of its segments, as constants.
    pub fn relaxed_samples_with_tape<M: Relaxed>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(M::Samples, M::Tape)> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        model.relaxed(count, temperature, run)
    }
}

impl<F: Real> Relaxed for Chain<F> {
    type Samples = RelaxedSamples<F>;
    type Tape = RelaxedTape<F>;

    fn relaxed(
        &self,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedSamples<F>, RelaxedTape<F>)> {
        let chain = self;
        let clock = run.start(NAME);
        let shape = [chain.batch(), count, chain.steps(), chain.states()];
        let numbers = shape.iter().map(|&x| x as f64).product::<f64>();
        run.require_memory(NAME, numbers * size_of::<F>() as f64)?;
        let streams = Streams::new(run.seed(), PURPOSE);
        let (samples, forward, log_partition) = run.install(|| {
            with_lattice(chain, &clock, |lattice| {
                let (forward, log_partition) = lattice.sweep_forward(&clock)?;
                some_weight(&log_partition)?;
                let sample = |&(b, s): &(usize, usize)| {
                    clock.check()?;
                    Ok(lattice.relax(&forward, b, temperature, &mut streams.block(block(b, s))))
                };
                let wanted = wanted(&log_partition, count);
                let drawn: Vec<_> = wanted.par_iter().map(sample).collect::<Result<_>>()?;
                let mut soft = vec![F::ZERO; shape.iter().product()];
                let mut hard = vec![Vec::new(); chain.batch()];
                for ((b, s), relaxed) in wanted.into_iter().zip(drawn) {
                    let at = (b * count + s) * chain.steps() * chain.states();
                    soft[at..at + relaxed.soft.len()].copy_from_slice(&relaxed.soft);
                    hard[b].push(relaxed.hard);
                }
                Ok::<_, Error>((RelaxedSamples { shape, hard, soft }, forward, log_partition))
            })
        })?;
        let (chain, run) = (chain.clone(), run.clone());
        Ok((samples, RelaxedTape { chain, forward, log_partition, count, temperature, run }))
    }
}

impl<F: Real> RelaxedTape<F> {
    /// The gradient of Σ cotangent·soft for a cotangent of the shape of `soft`, B×S×T×N.
    pub fn vjp(&self, cotangent: &[F]) -> Result<ChainGradient<F>> {
        let (chain, count) = (&self.chain, self.count);
        let expected = chain.emissions().len() * count;
        if cotangent.len() != expected || cotangent.iter().any(|x| !x.to_f64().is_finite()) {
            let message = format!("found {} numbers, expected {expected} finite ones", cotangent.len());
            return Err(Error::argument("cotangent", message));
        }
        let clock = self.run.start(NAME);
        let streams = Streams::new(self.run.seed(), PURPOSE);
        self.run.install(|| {
            with_lattice(chain, &clock, |lattice| {
                let mut gradient = zeros(chain);
                let mut rows = Rows::new(&lattice.layout, 0..lattice.layout.steps(), F::ZERO);
                for (b, s) in wanted(&self.log_partition, count) {
                    clock.check()?;
                    let of = |t: usize| {
                        let at = ((b * count + s) * chain.steps() + t) * chain.states();
                        cotangent[at..at + chain.states()].to_vec()
                    };
                    let random = &mut streams.block(block(b, s));
                    let transitions = &mut gradient.transitions;
                    lattice.relax_vjp(&self.forward, b, self.temperature, random, of, &mut rows, transitions);
                }
                lattice.forward_vjp(&self.forward, &mut rows, &clock, &mut gradient.transitions)?;
                for b in 0..chain.batch() {
                    for t in 0..chain.lengths()[b] {
                        let at = (b * chain.steps() + t) * chain.states();
                        let row = rows.row(lattice.layout.place(b), t);
                        gradient.emissions[at..at + chain.states()].copy_from_slice(row);
                    }
                }
                add_start(chain, &mut gradient);
                Ok(gradient)
            })
        })
    }
}

/// The stream of a sample.
pub(super) fn block(b: usize, s: usize) -> u64 {
    ((b as u64) << 32) | s as u64
}

/// The samples of the sequences that have a path.
pub(super) fn wanted(log_partition: &[f64], count: usize) -> Vec<(usize, usize)> {
    let some = (0..log_partition.len()).filter(|&b| log_partition[b] > f64::NEG_INFINITY);
    some.flat_map(|b| (0..count).map(move |s| (b, s))).collect()
}
