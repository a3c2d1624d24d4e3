//! Relaxed samples from the chosen states, and their gradient.
//!
//! Backward sampling with Gumbel noise (Fu, Cunningham & Lapata 2022, Algorithm 4): x̂ₜ = argmaxᵢ(log p̂(i | x̂ₜ₊₁) + gᵢ) over i ∈ Ωₜ is a draw
//! from p̂, and x̃ₜ = softmax((log p̂ + g)/τ) its relaxation. The weights are in p̂ (the paper's Eq. 23 and 26 leave them out, but then
//! p̂ does not sum to one). Only chosen states have a value, so samples are sparse: memory O(T·K) each. Sample s is drawn from
//! replicate s mod R and stands for the model with the weight Ẑ of that replicate.

use rayon::prelude::*;

use super::method::{Choice, NAME, RandomizedForward};
use super::restriction::{Restriction, zeros};
use super::target::Target;
use crate::error::{Error, Result};
use crate::method::dynamic::lattice::Rows;
use crate::model::Chain;
use crate::numeric::Real;
use crate::query::sequence::ChainGradient;
use crate::random::Streams;
use crate::run::Run;

const PURPOSE: &str = "randomized relaxed";

/// A relaxed sample: at each position some states with values that sum to one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SparsePath<F> {
    /// The path that it relaxes.
    pub hard: Vec<usize>,
    /// Where the entries of each position begin; T + 1 numbers.
    pub offsets: Vec<usize>,
    /// The state of each entry.
    pub states: Vec<u32>,
    /// The value of each entry.
    pub values: Vec<F>,
}

/// Relaxed samples of a batch.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseSamples<F> {
    /// For each sequence its samples; none where it has no weight.
    pub samples: Vec<Vec<SparsePath<F>>>,
    /// For each sequence the log weight of each sample.
    pub log_weights: Vec<Vec<f64>>,
}

/// What relaxed samples leave for their gradient: the states that were chosen; messages and noise are computed again.
pub struct RelaxedTape<F: Real> {
    chain: Chain<F>,
    choice: Choice,
    count: usize,
    temperature: f64,
    run: Run,
}

/// A kind of model that relaxed samples are drawn of.
pub trait RelaxedTarget: Target {
    /// What is drawn.
    type Relaxed;
    /// What its gradient needs.
    type Tape;

    /// Draws from the states chosen.
    fn relaxed_on(
        &self,
        choice: Choice,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(Self::Relaxed, Self::Tape)>;
}

impl RandomizedForward {
    /// `count` samples of each sequence with their relaxation at a positive temperature τ, and what its gradient needs. The
    /// gradient takes the hard states of a path, and the lengths of its segments, as constants.
    pub fn relaxed_samples_with_tape<M: RelaxedTarget>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(M::Relaxed, M::Tape)> {
        self.choose(model, run)?.relaxed_samples_with_tape(model, count, temperature, run)
    }
}

/// The replicate that a sample is drawn from and the stream of its noise.
pub(super) struct Turn {
    pub s: usize,
    pub replicate: usize,
    pub block: u64,
}

impl Choice {
    /// Samples from these states, with what their gradient needs.
    pub fn relaxed_samples_with_tape<M: RelaxedTarget>(
        &self,
        model: &M,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(M::Relaxed, M::Tape)> {
        if !(temperature > 0.0 && temperature.is_finite()) {
            return Err(Error::argument("temperature", format!("{temperature} is not a positive number")));
        }
        // A state and its value, for every state that was chosen.
        let positions: f64 = model.chain().lengths().iter().map(|&length| length as f64).sum();
        let each = (4 + size_of::<M::Real>()) as f64 * self.count as f64 + 64.0;
        run.require_memory(NAME, count as f64 * positions * each)?;
        model.relaxed_on(self.on(model, run)?, count, temperature, run)
    }

    /// Draws the samples of all sequences: `draw` gives those of some turns of one replicate.
    pub(super) fn draw_turns<S: Send>(
        &self,
        batch: usize,
        count: usize,
        run: &Run,
        draw: impl Fn(usize, &[Turn]) -> Result<Vec<(usize, S)>> + Sync,
    ) -> Result<Vec<Vec<S>>> {
        let of_sequence = |b: usize| -> Result<Vec<S>> {
            let turns = self.turns(b, count);
            let drawn: Vec<Vec<(usize, S)>> =
                turns.par_iter().map(|turns| draw(b, turns)).collect::<Result<_>>()?;
            let mut drawn: Vec<_> = drawn.into_iter().flatten().collect();
            drawn.sort_by_key(|(s, _)| *s);
            Ok(drawn.into_iter().map(|(_, sample)| sample).collect())
        };
        run.install(|| (0..batch).into_par_iter().map(of_sequence).collect())
    }

    /// The log weight of each of so many samples of sequence b.
    pub(super) fn log_weights(&self, b: usize, count: usize) -> Vec<f64> {
        let logs = self.log_estimates(b);
        (0..count).map(|s| logs[s % logs.len()]).collect()
    }

    /// Which samples of sequence b each replicate has to draw; none if no replicate has a weight. Those of a replicate without a weight come
    /// from another one: their own weight is zero.
    pub(super) fn turns(&self, b: usize, count: usize) -> Vec<Vec<Turn>> {
        let logs = self.log_estimates(b);
        let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else {
            return Vec::new();
        };
        let mut turns: Vec<Vec<Turn>> = (0..logs.len().min(count)).map(|_| Vec::new()).collect();
        for s in 0..count {
            let own = s % logs.len();
            let replicate = if logs[own] > f64::NEG_INFINITY { own } else { possible };
            turns[own].push(Turn { s, replicate, block: ((b as u64) << 32) | s as u64 });
        }
        turns
    }
}

impl<F: Real> RelaxedTarget for Chain<F> {
    type Relaxed = SparseSamples<F>;
    type Tape = RelaxedTape<F>;

    fn relaxed_on(
        &self,
        choice: Choice,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(SparseSamples<F>, RelaxedTape<F>)> {
        let chain = self;
        let clock = run.start(NAME);
        let streams = Streams::new(run.seed(), PURPOSE);
        let of_replicate = |b: usize, turns: &[Turn]| -> Result<Vec<(usize, SparsePath<F>)>> {
            let support = &choice.supports(b)[turns[0].replicate];
            let restriction = Restriction { chain, b, support };
            restriction.with_lattice(|lattice| {
                let (forward, _) = lattice.sweep_forward(&clock)?;
                let draw = |turn: &Turn| {
                    let random = &mut streams.block(turn.block);
                    let relaxed = lattice.relax(&forward, 0, temperature, random);
                    let mut path = SparsePath { hard: restriction.path(&relaxed.hard), ..Default::default() };
                    path.offsets.push(0);
                    for t in 0..support.len() {
                        path.states.extend_from_slice(&support.at(t).states);
                        path.offsets.push(path.states.len());
                    }
                    path.values = relaxed.soft;
                    (turn.s, path)
                };
                Ok(turns.iter().map(draw).collect())
            })
        };
        let samples = choice.draw_turns(chain.batch(), count, run, of_replicate)?;
        let log_weights =
            samples.iter().enumerate().map(|(b, samples)| choice.log_weights(b, samples.len())).collect();
        let tape = RelaxedTape { chain: chain.clone(), choice, count, temperature, run: run.clone() };
        Ok((SparseSamples { samples, log_weights }, tape))
    }
}

impl<F: Real> RelaxedTape<F> {
    /// The states that were chosen.
    pub fn choice(&self) -> &Choice {
        &self.choice
    }

    /// The gradient of Σ cotangent·values, for a cotangent of the length of `values` for each sequence and sample.
    pub fn vjp(&self, cotangent: &[Vec<Vec<F>>]) -> Result<ChainGradient<F>> {
        self.check(cotangent)?;
        let chain = &self.chain;
        let clock = self.run.start(NAME);
        let streams = Streams::new(self.run.seed(), PURPOSE);
        let mut gradient = zeros(chain);
        self.run.install(|| {
            for (b, cotangent) in cotangent.iter().enumerate() {
                for turns in self.choice.turns(b, self.count) {
                    let support = &self.choice.supports(b)[turns[0].replicate];
                    let restriction = Restriction { chain, b, support };
                    restriction.with_lattice(|lattice| -> Result<()> {
                        let (forward, _) = lattice.sweep_forward(&clock)?;
                        let layers = 0..lattice.layout.steps();
                        let mut rows = Rows::new(&lattice.layout, layers.clone(), F::ZERO);
                        for turn in &turns {
                            clock.check()?;
                            let values = &cotangent[turn.s];
                            let of = |t: usize| {
                                let from: usize = (0..t).map(|t| lattice.layout.size(t)).sum();
                                values[from..from + lattice.layout.size(t)].to_vec()
                            };
                            let random = &mut streams.block(turn.block);
                            let transitions = &mut gradient.transitions;
                            let temperature = self.temperature;
                            lattice.relax_vjp(&forward, 0, temperature, random, of, &mut rows, transitions);
                        }
                        lattice.forward_vjp(&forward, &mut rows, &clock, &mut gradient.transitions)?;
                        for t in layers {
                            restriction.add_nodes(t, rows.row(0, t), &mut gradient);
                        }
                        Ok(())
                    })?;
                }
            }
            Ok(gradient)
        })
    }

    fn check(&self, cotangent: &[Vec<Vec<F>>]) -> Result<()> {
        let expected = |b: usize, s: usize| {
            let replicate = self.choice.turns(b, self.count).into_iter().flatten().find(|turn| turn.s == s);
            let support = replicate.map(|turn| &self.choice.supports(b)[turn.replicate]);
            support.map(|support| (0..support.len()).map(|t| support.at(t).states.len()).sum::<usize>())
        };
        let fits = |(b, samples): (usize, &Vec<Vec<F>>)| {
            samples.len() == self.choice.turns(b, self.count).iter().map(Vec::len).sum::<usize>()
                && samples.iter().enumerate().all(|(s, values)| {
                    Some(values.len()) == expected(b, s) && values.iter().all(|x| x.to_f64().is_finite())
                })
        };
        if cotangent.len() == self.chain.batch() && cotangent.iter().enumerate().all(fits) {
            return Ok(());
        }
        let message = "expected a finite number for every value of every sample of every sequence";
        Err(Error::argument("cotangent", message))
    }
}
