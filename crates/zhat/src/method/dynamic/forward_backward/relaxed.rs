//! Relaxed samples and their gradient.

use crate::numeric::parallel::prelude::*;

use super::recorded::{check_numbers, some_weight};
use super::{ForwardBackward, NAME};
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::PositionRows;
use crate::numeric::Real;
use crate::query::sequence::RelaxedSamples;
use crate::random::Streams;
use crate::run::Run;

/// Stored messages for the gradient of relaxed samples. The noise is regenerated.
pub struct RelaxedTape<M: SequenceModel> {
    whole: M,
    /// The whole batch, or its sequences if they have their own tables.
    parts: Vec<Part<M>>,
}

/// The messages of a model whose first sequence is number `first` of the batch.
struct Part<M: SequenceModel> {
    first: usize,
    model: M,
    forward: PositionRows<M::Real>,
    log_partition: Vec<f64>,
    count: usize,
    temperature: f64,
    run: Run,
}

impl ForwardBackward {
    /// `count` exact samples of each sequence together with their relaxation at a positive temperature τ,
    /// softmax((log p̂ + noise)/τ), and a tape for its gradient. The gradient treats the hard states of a
    /// path and the lengths of its segments as constants.
    ///
    /// # Errors
    /// If the temperature is not positive and finite, or the run is cancelled or over its memory or time
    /// budget; `Error::ZeroPartition` if no sequence has a path of positive weight.
    #[allow(clippy::type_complexity)]
    pub fn relaxed_samples_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedSamples<M::Real, M::Drawn>, RelaxedTape<M>)> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        let chain = model.chain();
        let separate = chain.separate();
        let parts = match separate {
            true => (0..chain.batch()).map(|b| (b, model.part(b))).collect(),
            false => vec![(0, model.clone())],
        };
        let shape = [chain.batch(), count, chain.steps(), chain.states()];
        let longest = lengths_of(model);
        let mut all = RelaxedSamples { shape, longest, hard: vec![], states: vec![], lengths: vec![] };
        let mut tape = RelaxedTape { whole: model.clone(), parts: Vec::new() };
        for (first, part) in parts {
            let (samples, part) = Part::sample(part, first, count, temperature, run)?;
            all.hard.extend(samples.hard);
            all.states.extend(samples.states);
            all.lengths.extend(samples.lengths);
            tape.parts.push(part);
        }
        some_weight(&tape.parts.iter().flat_map(|part| part.log_partition.clone()).collect::<Vec<f64>>())?;
        Ok((all, tape))
    }
}

impl<M: SequenceModel> Part<M> {
    #[allow(clippy::type_complexity)]
    fn sample(
        model: M,
        first: usize,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedSamples<M::Real, M::Drawn>, Self)> {
        let model = &model;
        let clock = run.start(NAME);
        let (chain, longest) = (model.chain(), lengths_of(model));
        let shape = [chain.batch(), count, chain.steps(), chain.states()];
        let rows = shape[..3].iter().map(|&x| x as f64).product::<f64>();
        let messages = if M::SEGMENTS { 2.0 * chain.emissions().len() as f64 } else { 0.0 };
        let numbers = rows * (chain.states() + longest) as f64 + messages;
        run.require_memory(NAME, numbers * size_of::<M::Real>() as f64)?;
        let streams = streams::<M>(run);
        let (samples, forward, log_partition) = run.install(|| {
            model.with_lattice(&clock, |lattice| {
                let (forward, log_partition) = lattice.sweep_forward(&clock)?;
                let sample = |&(b, s): &(usize, usize)| {
                    clock.check()?;
                    Ok(lattice.relax(&forward, b, temperature, &mut streams.block(block(first + b, s))))
                };
                let wanted = wanted(&log_partition, count);
                let drawn: Vec<_> = wanted.par_iter().map(sample).collect::<Result<_>>()?;
                let rows = chain.batch() * count * chain.steps();
                let mut states = vec![M::Real::default(); rows * chain.states()];
                let mut lengths = vec![M::Real::default(); rows * longest];
                let mut hard = vec![Vec::new(); chain.batch()];
                for ((b, s), segments) in wanted.into_iter().zip(drawn) {
                    for segment in &segments {
                        let row = (b * count + s) * chain.steps() + segment.end;
                        states[row * chain.states()..][..chain.states()].copy_from_slice(&segment.states);
                        let to = &mut lengths[row * longest..(row + 1) * longest];
                        to.iter_mut().zip(&segment.lengths).for_each(|(x, &y)| *x = M::Real::from_f64(y));
                    }
                    hard[b]
                        .push(M::drawn(segments.iter().rev().map(|one| (one.state, one.length)).collect()));
                }
                let samples = RelaxedSamples { shape, longest, hard, states, lengths };
                Ok::<_, Error>((samples, forward, log_partition))
            })
        })?;
        let (model, run) = (model.clone(), run.clone());
        Ok((samples, Part { first, model, forward, log_partition, count, temperature, run }))
    }
}

impl<M: SequenceModel> RelaxedTape<M> {
    /// log Z of each sequence.
    pub fn log_partition(&self) -> Vec<f64> {
        self.parts.iter().flat_map(|part| part.log_partition.iter().copied()).collect()
    }

    /// The gradient of Σ of_states·states + Σ of_lengths·lengths for cotangents with the shapes B×S×T×N and
    /// B×S×T×L (empty for a chain). Cotangents at positions where no segment ends have no effect.
    ///
    /// # Errors
    /// If a cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, of_states: &[M::Real], of_lengths: &[M::Real]) -> Result<M::FactorMarginals> {
        match &self.parts[..] {
            [part] if !self.whole.chain().separate() => part.vjp(of_states, of_lengths),
            _ => self.vjp_of_parts(of_states, of_lengths),
        }
    }

    fn vjp_of_parts(&self, of_states: &[M::Real], of_lengths: &[M::Real]) -> Result<M::FactorMarginals> {
        let batch = self.whole.chain().batch();
        let (states, lengths) = (of_states.len() / batch, of_lengths.len() / batch);
        check_numbers(of_states, batch * states)?;
        check_numbers(of_lengths, batch * lengths)?;
        let mut gradient = self.whole.zero_gradient();
        for (b, part) in self.parts.iter().enumerate() {
            let of_states = &of_states[b * states..(b + 1) * states];
            let own = part.vjp(of_states, &of_lengths[b * lengths..(b + 1) * lengths])?;
            self.whole.add_part(b, own, &mut gradient);
        }
        Ok(gradient)
    }
}

impl<M: SequenceModel> Part<M> {
    fn vjp(&self, of_states: &[M::Real], of_lengths: &[M::Real]) -> Result<M::FactorMarginals> {
        let (model, chain, count) = (&self.model, self.model.chain(), self.count);
        let (steps, states, longest) = (chain.steps(), chain.states(), lengths_of(model));
        let rows = chain.batch() * count * steps;
        check_numbers(of_states, rows * states)?;
        check_numbers(of_lengths, rows * longest)?;
        let clock = self.run.start(NAME);
        let streams = streams::<M>(&self.run);
        self.run.install(|| {
            model.with_lattice(&clock, |lattice| {
                let mut gradient = model.zero_gradient();
                let mut to = lattice.message_cotangents();
                let (mut scores, transitions) = model.split(&mut gradient);
                for (b, s) in wanted(&self.log_partition, count) {
                    clock.check()?;
                    let of = |t: usize| {
                        let row = (b * count + s) * steps + t;
                        (
                            &of_states[row * states..(row + 1) * states],
                            &of_lengths[row * longest..(row + 1) * longest],
                        )
                    };
                    let random = &mut streams.block(block(self.first + b, s));
                    lattice.relax_vjp(
                        &self.forward,
                        b,
                        self.temperature,
                        random,
                        of,
                        &mut to,
                        transitions,
                        |segment, weight| scores.add(b, segment, M::Real::from_f64(weight)),
                    );
                }
                lattice.forward_vjp(&self.forward, &mut to, &clock, transitions, |b, t, weights| {
                    scores.add_ends(b, t, weights);
                })?;
                if !M::SEGMENTS {
                    for (b, &length) in chain.lengths().iter().enumerate() {
                        let place = lattice.layout.place(b);
                        (0..length).for_each(|t| scores.add_nodes(b, t, to.row(place, t)));
                    }
                }
                model.finish_end(&mut gradient);
                Ok(gradient)
            })
        })
    }
}

/// L, or 0 if lengths are not drawn.
fn lengths_of<M: SequenceModel>(model: &M) -> usize {
    if M::SEGMENTS { model.longest() } else { 0 }
}

fn streams<M: SequenceModel>(run: &Run) -> Streams {
    let purpose = if M::SEGMENTS { "forward-backward relaxed segments" } else { "forward-backward relaxed" };
    Streams::new(run.seed(), purpose)
}

/// The random stream of a sample.
fn block(b: usize, s: usize) -> u64 {
    ((b as u64) << 32) | s as u64
}

/// The pairs (sequence, sample) of all sequences that have a path.
fn wanted(log_partition: &[f64], count: usize) -> Vec<(usize, usize)> {
    let some = (0..log_partition.len()).filter(|&b| log_partition[b] > f64::NEG_INFINITY);
    some.flat_map(|b| (0..count).map(move |s| (b, s))).collect()
}
