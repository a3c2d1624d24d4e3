//! Relaxed samples from the chosen states, and their gradient.
//!
//! Backward sampling with Gumbel noise (Fu, Cunningham & Lapata 2022, Algorithm 4): x̂ₜ = argmaxᵢ(log p̂(i |
//! x̂ₜ₊₁) + gᵢ) over i ∈ Ωₜ is a sample from p̂, and x̃ₜ = softmax((log p̂ + g)/τ) is its relaxation. p̂
//! includes the weights (Eq. 23 and 26 of the paper leave them out, but then p̂ does not sum to one). In a
//! semi-Markov chain, the state and then the length of each segment are drawn this way. Only states in which
//! a segment may end have a value, so samples are sparse: memory O(T·K) per sample. Sample s is drawn from
//! replicate s mod R, and its weight is Ẑ of that replicate.

use crate::numeric::parallel::prelude::*;

use super::method::{NAME, RandomizedForward, StateChoice};
use super::restriction::Restriction;
use crate::error::{Error, Result};
use crate::method::dynamic::SequenceModel;
use crate::method::dynamic::lattice::RelaxedSegment;
use crate::numeric::Real;
use crate::random::Streams;
use crate::run::Run;

/// A relaxed sample: for each position (or segment), values of some states that sum to one; for each segment,
/// also values of its lengths that sum to one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparsePath<F, P = Vec<usize>> {
    /// The path that is relaxed, or (state, length) of each segment.
    pub hard: P,
    /// Index of the first entry of each position or segment, followed by the total number of entries.
    pub offsets: Vec<usize>,
    /// The state of each entry.
    pub states: Vec<u32>,
    /// The value of each entry.
    pub values: Vec<F>,
    /// Index of the first length of each segment, followed by the total number of lengths.
    pub length_offsets: Vec<usize>,
    /// The values of lengths 1, 2, … of each segment; empty for a chain.
    pub lengths: Vec<F>,
}

/// Relaxed samples of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseSamples<F, P = Vec<usize>> {
    /// The samples of each sequence; none if its estimate is 0.
    pub samples: Vec<Vec<SparsePath<F, P>>>,
    /// The log weight of each sample of each sequence.
    pub log_weights: Vec<Vec<f64>>,
}

/// The cotangents of the `values` and of the `lengths` of a sample.
pub type SparseCotangent<F> = (Vec<F>, Vec<F>);

/// Positions of the values of a sample.
struct Outline {
    /// The last position of each segment.
    ends: Vec<usize>,
    offsets: Vec<usize>,
    length_offsets: Vec<usize>,
}

impl Outline {
    /// The numbers of state values and of length values.
    fn sizes(&self) -> [usize; 2] {
        [&self.offsets, &self.length_offsets].map(|offsets| offsets.last().copied().unwrap_or(0))
    }
}

/// Tape for the gradient of relaxed samples: the chosen states. Messages and noise are recomputed.
pub struct SparseTape<M: SequenceModel> {
    model: M,
    choice: StateChoice,
    outlines: Vec<Vec<Outline>>,
    count: usize,
    temperature: f64,
    run: Run,
}

/// Relaxed samples, and a tape for their gradient.
type Relaxed<M> = (SparseSamples<<M as SequenceModel>::Real, <M as SequenceModel>::Drawn>, SparseTape<M>);

impl RandomizedForward {
    /// `count` samples of each sequence with their relaxation at a positive temperature τ, and a tape for the
    /// gradient. The gradient treats the hard states of a path and the lengths of its segments as constants.
    ///
    /// # Errors
    /// As [`RandomizedForward::choose`] and [`StateChoice::relaxed_samples_with_tape`].
    pub fn relaxed_samples_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<Relaxed<M>> {
        self.choose(model, run)?.relaxed_samples_with_tape(model, count, temperature, run)
    }
}

/// A sample, the replicate from which it is drawn, and the random stream of its noise.
pub(super) struct SampleSource {
    pub s: usize,
    pub replicate: usize,
    pub block: u64,
}

impl StateChoice {
    /// Samples from these states, with a tape for their gradient.
    ///
    /// # Errors
    /// If the temperature is not positive and finite, the model has another shape than the one the states
    /// were chosen for, or the run is cancelled or over its memory or time budget.
    pub fn relaxed_samples_with_tape<M: SequenceModel>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<Relaxed<M>> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        // A state and its value for each chosen state.
        let positions: f64 = model.chain().lengths().iter().map(|&length| length as f64).sum();
        let each = (4 + size_of::<M::Real>()) as f64 * self.count as f64 + 64.0;
        run.require_memory(NAME, count as f64 * positions * each)?;
        let choice = self.on(model, run)?;
        let clock = run.start(NAME);
        let streams = streams::<M>(run);
        let drawn = choice.draw_samples(model.chain().batch(), count, run, |b, sources| {
            let restriction = Restriction::new(model, b, &choice.supports(b)[sources[0].replicate]);
            restriction.with_lattice(|lattice| {
                let (forward, _) = lattice.sweep_forward(&clock)?;
                let draw = |source: &SampleSource| {
                    let segments = lattice.relax(&forward, 0, temperature, &mut streams.block(source.block));
                    (source.s, sparse(&restriction, segments))
                };
                Ok(sources.iter().map(draw).collect())
            })
        })?;
        let (samples, outlines): (Vec<Vec<_>>, Vec<Vec<Outline>>) =
            drawn.into_iter().map(|drawn| drawn.into_iter().unzip()).unzip();
        let log_weights =
            samples.iter().enumerate().map(|(b, samples)| choice.log_weights(b, samples.len())).collect();
        let (model, run) = (model.clone(), run.clone());
        let tape = SparseTape { model, choice, outlines, count, temperature, run };
        Ok((SparseSamples { samples, log_weights }, tape))
    }

    /// Draws the samples of all sequences; `draw` returns the samples of one replicate.
    pub(super) fn draw_samples<S: Send>(
        &self,
        batch: usize,
        count: usize,
        run: &Run,
        draw: impl Fn(usize, &[SampleSource]) -> Result<Vec<(usize, S)>> + Sync,
    ) -> Result<Vec<Vec<S>>> {
        let of_sequence = |b: usize| -> Result<Vec<S>> {
            let sources = self.sources(b, count);
            let drawn: Vec<Vec<(usize, S)>> =
                sources.par_iter().map(|sources| draw(b, sources)).collect::<Result<_>>()?;
            let mut drawn: Vec<_> = drawn.into_iter().flatten().collect();
            drawn.sort_by_key(|(s, _)| *s);
            Ok(drawn.into_iter().map(|(_, sample)| sample).collect())
        };
        run.install(|| (0..batch).into_par_iter().map(of_sequence).collect())
    }

    /// The log weights of `count` samples of sequence b.
    pub(super) fn log_weights(&self, b: usize, count: usize) -> Vec<f64> {
        let logs = self.log_estimates(b);
        (0..count).map(|s| logs[s % logs.len()]).collect()
    }

    /// The samples of sequence b that each replicate draws; empty if all replicates are 0. If a replicate is
    /// 0, its samples are drawn from another one; their weight is zero.
    pub(super) fn sources(&self, b: usize, count: usize) -> Vec<Vec<SampleSource>> {
        let logs = self.log_estimates(b);
        let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else {
            return Vec::new();
        };
        let mut sources: Vec<Vec<SampleSource>> = (0..logs.len().min(count)).map(|_| Vec::new()).collect();
        for s in 0..count {
            let own = s % logs.len();
            let replicate = if logs[own] > f64::NEG_INFINITY { own } else { possible };
            sources[own].push(SampleSource { s, replicate, block: ((b as u64) << 32) | s as u64 });
        }
        sources
    }
}

/// A sample from its segments, which are listed last to first.
fn sparse<M: SequenceModel>(
    restriction: &Restriction<'_, M>,
    mut segments: Vec<RelaxedSegment<M::Real>>,
) -> (SparsePath<M::Real, M::Drawn>, Outline) {
    let (mut path, mut hard) = (SparsePath::default(), Vec::with_capacity(segments.len()));
    (path.offsets, path.length_offsets) = (vec![0], vec![0]);
    segments.reverse();
    for segment in &segments {
        hard.push((restriction.state(segment.end, segment.state), segment.length));
        path.states.extend_from_slice(restriction.left(segment.end));
        path.values.extend_from_slice(&segment.states);
        path.lengths.extend(segment.lengths.iter().map(|&x| M::Real::from_f64(x)));
        path.offsets.push(path.values.len());
        path.length_offsets.push(path.lengths.len());
    }
    path.hard = M::drawn(hard);
    let ends = segments.iter().map(|segment| segment.end).collect();
    let outline =
        Outline { ends, offsets: path.offsets.clone(), length_offsets: path.length_offsets.clone() };
    (path, outline)
}

fn streams<M: SequenceModel>(run: &Run) -> Streams {
    Streams::new(run.seed(), if M::SEGMENTS { "randomized relaxed segments" } else { "randomized relaxed" })
}

impl<M: SequenceModel> SparseTape<M> {
    /// The chosen states.
    pub fn choice(&self) -> &StateChoice {
        &self.choice
    }

    /// The gradient of Σ cotangent·values. The cotangents have the lengths of `values` and `lengths` for each
    /// sequence and sample.
    ///
    /// # Errors
    /// If a cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, cotangent: &[Vec<SparseCotangent<M::Real>>]) -> Result<M::FactorMarginals> {
        self.check(cotangent)?;
        let mut gradient = self.model.zero_gradient();
        self.run.install(|| {
            for (b, cotangent) in cotangent.iter().enumerate() {
                for sources in self.choice.sources(b, self.count) {
                    self.add_gradient(b, &sources, cotangent, &mut gradient)?;
                }
            }
            self.model.finish_end(&mut gradient);
            Ok(gradient)
        })
    }

    /// Adds the gradient of the samples that one replicate drew for sequence b.
    fn add_gradient(
        &self,
        b: usize,
        sources: &[SampleSource],
        cotangent: &[SparseCotangent<M::Real>],
        gradient: &mut M::FactorMarginals,
    ) -> Result<()> {
        let clock = self.run.start(NAME);
        let streams = streams::<M>(&self.run);
        let restriction = Restriction::new(&self.model, b, &self.choice.supports(b)[sources[0].replicate]);
        let (mut scores, transitions) = self.model.split(gradient);
        let mut add = |(s, t, k): (usize, usize, usize), weight: M::Real| {
            scores.add(b, (s, t, restriction.state(t, k)), weight);
        };
        restriction.with_lattice(|lattice| {
            let (forward, _) = lattice.sweep_forward(&clock)?;
            let mut to = lattice.message_cotangents();
            for source in sources {
                clock.check()?;
                let (outline, own) = (&self.outlines[b][source.s], &cotangent[source.s]);
                let of = |t: usize| {
                    let segment = outline.ends.partition_point(|&end| end < t);
                    let part = |offsets: &[usize]| offsets[segment]..offsets[segment + 1];
                    (&own.0[part(&outline.offsets)], &own.1[part(&outline.length_offsets)])
                };
                let random = &mut streams.block(source.block);
                let score = |segment, weight| add(segment, M::Real::from_f64(weight));
                lattice.relax_vjp(&forward, 0, self.temperature, random, of, &mut to, transitions, score);
            }
            lattice.forward_vjp(&forward, &mut to, &clock, transitions, |_, t, weights| {
                for (d, weights) in weights.iter().enumerate() {
                    for (k, &weight) in weights.iter().enumerate().filter(|(_, weight)| **weight != 0.0) {
                        add((t - d, t, k), M::Real::from_f64(weight));
                    }
                }
            })?;
            if !M::SEGMENTS {
                for t in 0..lattice.layout.steps() {
                    to.row(0, t).iter().enumerate().for_each(|(k, &weight)| add((t, t, k), weight));
                }
            }
            Ok(())
        })
    }

    fn check(&self, cotangent: &[Vec<SparseCotangent<M::Real>>]) -> Result<()> {
        let finite = |values: &[M::Real]| values.iter().all(|x| x.to_f64().is_finite());
        let fits = |(outlines, own): (&Vec<Outline>, &Vec<SparseCotangent<M::Real>>)| {
            let one = |(outline, (values, lengths)): (&Outline, &SparseCotangent<M::Real>)| {
                outline.sizes() == [values.len(), lengths.len()] && finite(values) && finite(lengths)
            };
            outlines.len() == own.len() && outlines.iter().zip(own).all(one)
        };
        if self.outlines.len() == cotangent.len() && self.outlines.iter().zip(cotangent).all(fits) {
            return Ok(());
        }
        let message = "expected a finite number for every value and length of every sample of every sequence";
        Err(Error::argument("cotangent", message))
    }
}
