//! Relaxed segmentations from the chosen states, and their gradient.
//!
//! As on exact lattices, each segment takes its state and then its length backward by the Gumbel-max trick, from p̂ with its weights. Only
//! states that may be left at its end have a value, so samples are sparse. Sample s is drawn from replicate s mod R and stands for the model
//! with the weight Ẑ of that replicate.

use super::method::{Choice, NAME};
use super::relaxed::{RelaxedTarget, Turn};
use super::segment_restriction::Restriction;
use super::target::Target;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::ScoreGradient;
use crate::model::SemiMarkov;
use crate::numeric::Real;
use crate::query::sequence::SemiMarkovGradient;
use crate::random::Streams;
use crate::run::Run;

const PURPOSE: &str = "randomized relaxed segments";

/// A relaxed segmentation: for each segment some states, and the lengths, with values that sum to one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparseSegmentation<F> {
    /// The segmentation that it relaxes: (state, length) of each segment.
    pub hard: Vec<(usize, usize)>,
    /// Where the states of each segment begin; one number more than there are segments.
    pub offsets: Vec<usize>,
    /// The state of each entry.
    pub states: Vec<u32>,
    /// The value of each entry.
    pub values: Vec<F>,
    /// Where the lengths of each segment begin; one number more than there are segments.
    pub length_offsets: Vec<usize>,
    /// The values of lengths 1, 2, … of each segment.
    pub lengths: Vec<F>,
}

/// Relaxed segmentations of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseSegmentations<F> {
    /// For each sequence its samples; none where it has no weight.
    pub samples: Vec<Vec<SparseSegmentation<F>>>,
    /// For each sequence the log weight of each sample.
    pub log_weights: Vec<Vec<f64>>,
}

/// The cotangent of a sample: of its `values` and of its `lengths`.
pub type SegmentationCotangent<F> = (Vec<F>, Vec<F>);

/// Where the values of a sample stand.
struct Outline {
    /// The last position of each segment.
    ends: Vec<usize>,
    offsets: Vec<usize>,
    length_offsets: Vec<usize>,
}

impl Outline {
    fn of<F>(sample: &SparseSegmentation<F>) -> Self {
        let ends = sample.hard.iter().scan(0, |open, segment| {
            *open += segment.1;
            Some(*open - 1)
        });
        let (offsets, length_offsets) = (sample.offsets.clone(), sample.length_offsets.clone());
        Outline { ends: ends.collect(), offsets, length_offsets }
    }

    /// The number of values of states and of lengths.
    fn sizes(&self) -> [usize; 2] {
        [&self.offsets, &self.length_offsets].map(|offsets| offsets.last().copied().unwrap_or(0))
    }
}

/// What relaxed segmentations leave for their gradient: the states that were chosen; messages and noise are computed again.
pub struct SegmentRelaxedTape<F: Real> {
    model: SemiMarkov<F>,
    choice: Choice,
    outlines: Vec<Vec<Outline>>,
    count: usize,
    temperature: f64,
    run: Run,
}

impl<F: Real> RelaxedTarget for SemiMarkov<F> {
    type Relaxed = SparseSegmentations<F>;
    type Tape = SegmentRelaxedTape<F>;

    fn relaxed_on(
        &self,
        choice: Choice,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(SparseSegmentations<F>, SegmentRelaxedTape<F>)> {
        let clock = run.start(NAME);
        let streams = Streams::new(run.seed(), PURPOSE);
        let of_replicate = |b: usize, turns: &[Turn]| {
            let support = &choice.supports(b)[turns[0].replicate];
            let restriction = Restriction::new(self, b, support);
            restriction.with_lattice(|lattice| {
                let (ahead, _) = lattice.sweep_forward(&clock)?;
                let draw = |turn: &Turn| {
                    let random = &mut streams.block(turn.block);
                    let (mut sample, mut segments) =
                        (SparseSegmentation::default(), lattice.relax(&ahead, 0, temperature, random));
                    (sample.offsets, sample.length_offsets) = (vec![0], vec![0]);
                    segments.reverse();
                    for segment in &segments {
                        let left = &restriction.left[segment.end];
                        sample.hard.push((left[segment.state] as usize, segment.length));
                        sample.states.extend_from_slice(left);
                        sample.values.extend_from_slice(&segment.states);
                        sample.lengths.extend(segment.lengths.iter().map(|&x| F::from_f64(x)));
                        sample.offsets.push(sample.values.len());
                        sample.length_offsets.push(sample.lengths.len());
                    }
                    (turn.s, sample)
                };
                Ok(turns.iter().map(draw).collect())
            })
        };
        let batch = self.chain().batch();
        let samples: Vec<Vec<SparseSegmentation<F>>> = choice.draw_turns(batch, count, run, of_replicate)?;
        let log_weights =
            samples.iter().enumerate().map(|(b, samples)| choice.log_weights(b, samples.len())).collect();
        let outlines = samples.iter().map(|samples| samples.iter().map(Outline::of).collect()).collect();
        let (model, run) = (self.clone(), run.clone());
        let tape = SegmentRelaxedTape { model, choice, outlines, count, temperature, run };
        Ok((SparseSegmentations { samples, log_weights }, tape))
    }
}

impl<F: Real> SegmentRelaxedTape<F> {
    /// The states that were chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ cotangent·values, for a cotangent of the lengths of `values` and of `lengths` for each sequence and sample.
    pub fn vjp(&self, cotangent: &[Vec<SegmentationCotangent<F>>]) -> Result<SemiMarkovGradient<F>> {
        self.check(cotangent)?;
        let model = &self.model;
        let clock = self.run.start(NAME);
        let streams = Streams::new(self.run.seed(), PURPOSE);
        let mut gradient = model.zero_gradient();
        let (mut scores, transitions) = ScoreGradient::split(model, &mut gradient);
        self.run.install(|| {
            for (b, cotangent) in cotangent.iter().enumerate() {
                for turns in self.choice.turns(b, self.count) {
                    let support = &self.choice.supports(b)[turns[0].replicate];
                    let restriction = Restriction::new(model, b, support);
                    restriction.with_lattice(|lattice| -> Result<()> {
                        let state = |t: usize, k: usize| restriction.left[t][k] as usize;
                        let (ahead, _) = lattice.sweep_forward(&clock)?;
                        let mut to = lattice.message_cotangents();
                        for turn in &turns {
                            clock.check()?;
                            let (outline, own) = (&self.outlines[b][turn.s], &cotangent[turn.s]);
                            let of = |t: usize| {
                                let segment = outline.ends.partition_point(|&end| end < t);
                                let part = |offsets: &[usize]| offsets[segment]..offsets[segment + 1];
                                (&own.0[part(&outline.offsets)], &own.1[part(&outline.length_offsets)])
                            };
                            let random = &mut streams.block(turn.block);
                            let temperature = self.temperature;
                            lattice.relax_vjp(
                                &ahead,
                                0,
                                temperature,
                                random,
                                of,
                                &mut to,
                                transitions,
                                |(s, t, k), weight| scores.add(b, (s, t, state(t, k)), weight),
                            );
                        }
                        lattice.forward_vjp(&ahead, to, &clock, transitions, |_, t, weights| {
                            for (d, weights) in weights.iter().enumerate() {
                                for (k, &weight) in weights.iter().enumerate().filter(|(_, w)| **w != 0.0) {
                                    scores.add(b, (t - d, t, state(t, k)), weight);
                                }
                            }
                        })
                    })?;
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(gradient)
    }

    fn check(&self, cotangent: &[Vec<SegmentationCotangent<F>>]) -> Result<()> {
        let finite = |values: &[F]| values.iter().all(|x| x.to_f64().is_finite());
        let fits = |(outlines, own): (&Vec<Outline>, &Vec<SegmentationCotangent<F>>)| {
            let one = |(outline, (values, lengths)): (&Outline, &SegmentationCotangent<F>)| {
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
