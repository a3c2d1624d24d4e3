//! Weighted states: sums of their weights, and blocks of weighted samples.
//!
//! With states x drawn from q and weights w = exp score(x) / q(x), Σ w·\[x has a property\] / Σ w estimates
//! the probability of the property. The estimate is consistent, but biased for finitely many samples. Sums
//! are relative to the largest weight so far, so they cannot overflow.

use crate::numeric::parallel::prelude::*;

use super::unbiased;
use crate::answer::{Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::model::FactorGraph;
use crate::numeric::CompensatedSum;
use crate::query::{Beliefs, FactorBeliefs, Law, Query, Samples};
use crate::random::{Stream, Streams};
use crate::run::Clock;
use crate::run::share::{Reader, Words};

/// Number of weighted samples that share one random stream.
const BLOCK: usize = 256;

/// The running sums of one replicate.
pub(crate) struct Masses {
    query: Query,
    /// All sums are relative to exp of this.
    shift: f64,
    sum: CompensatedSum,
    squares: CompensatedSum,
    /// Sum of weight · score, for the entropy.
    scores: CompensatedSum,
    beliefs: Beliefs,
    factors: FactorBeliefs,
}

impl Masses {
    /// Sums over states of `graph`, for a query, relative to the largest weight.
    pub fn new(graph: &FactorGraph, query: Query) -> Self {
        let (beliefs, factors) = match query {
            Query::Marginals => (Beliefs::zeros(graph.cardinalities()), FactorBeliefs::default()),
            Query::FactorMarginals => (Beliefs::default(), FactorBeliefs::zeros(graph)),
            _ => Default::default(),
        };
        Masses {
            query,
            shift: f64::NEG_INFINITY,
            sum: CompensatedSum::default(),
            squares: CompensatedSum::default(),
            scores: CompensatedSum::default(),
            beliefs,
            factors,
        }
    }

    /// Makes the sums relative to a fixed scale, for weights that are known to be bounded
    /// ([`Masses::add_scaled`]).
    pub fn relative_to(mut self, shift: f64) -> Self {
        self.shift = shift;
        self
    }

    /// Adds a state with this log-weight.
    pub fn add(&mut self, log_weight: f64, graph: &FactorGraph, state: &[usize]) {
        if log_weight == f64::NEG_INFINITY {
            return;
        }
        if log_weight > self.shift {
            self.rescale(log_weight);
        }
        self.add_scaled((log_weight - self.shift).exp(), graph, state);
    }

    /// Adds a state with this weight, which is already relative to the scale.
    pub fn add_scaled(&mut self, weight: f64, graph: &FactorGraph, state: &[usize]) {
        self.sum.add(weight);
        self.squares.add(weight * weight);
        match self.query {
            Query::LogPartition | Query::Sample(_) | Query::Map | Query::KBest(_) => {}
            Query::Entropy => self.scores.add(weight * graph.score(state)),
            Query::Marginals => {
                for (v, &s) in state.iter().enumerate() {
                    self.beliefs.variable_mut(v)[s] += weight;
                }
            }
            Query::FactorMarginals => {
                for (f, factor) in graph.factors().enumerate() {
                    self.factors.factor_mut(f)[graph.entry(factor.scope, state)] += weight;
                }
            }
        }
    }

    /// Makes all sums relative to a new, larger scale.
    fn rescale(&mut self, shift: f64) {
        let factor = (self.shift - shift).exp();
        let scaled = |sum: &CompensatedSum, factor: f64| std::iter::once(sum.value() * factor).collect();
        self.sum = scaled(&self.sum, factor);
        self.squares = scaled(&self.squares, factor * factor);
        self.scores = scaled(&self.scores, factor);
        for masses in [self.beliefs.as_mut_slice(), self.factors.as_mut_slice()] {
            masses.iter_mut().for_each(|mass| *mass *= factor);
        }
        self.shift = shift;
    }

    /// Appends the sums as words.
    pub fn write(&self, words: &mut Vec<u64>) {
        (self.shift, (self.sum, (self.squares, self.scores))).write(words);
        for masses in [self.beliefs.as_slice(), self.factors.as_slice()] {
            masses.iter().for_each(|mass| mass.write(words));
        }
    }

    /// Replaces the sums by those written; `None` if there are too few words.
    pub fn read(&mut self, words: &mut Reader<'_>) -> Option<()> {
        (self.shift, (self.sum, (self.squares, self.scores))) = Words::read(words)?;
        for masses in [self.beliefs.as_mut_slice(), self.factors.as_mut_slice()] {
            masses.iter_mut().try_for_each(|mass| Words::read(words).map(|own| *mass = own))?;
        }
        Some(())
    }

    /// log Σ weights.
    pub fn log_sum(&self) -> f64 {
        let sum = self.sum.value();
        if sum > 0.0 { self.shift.max(f64::MIN) + sum.ln() } else { f64::NEG_INFINITY }
    }

    /// Σ weights and Σ weights², relative to exp `shift`.
    pub fn moments(&self, shift: f64) -> (f64, f64) {
        let factor = (self.shift - shift).exp();
        (self.sum.value() * factor, self.squares.value() * factor * factor)
    }
}

/// The sums of all replicates together, relative to the largest weight of all; an error if every sample has
/// weight zero.
pub(crate) fn together<'a>(
    parts: impl Iterator<Item = &'a Masses> + Clone,
    graph: &FactorGraph,
    query: Query,
) -> Result<Masses> {
    let seen = parts.filter(|part| part.sum.value() > 0.0);
    let shift = seen.clone().map(|part| part.shift).fold(f64::NEG_INFINITY, f64::max);
    if shift == f64::NEG_INFINITY {
        return Err(missed());
    }
    let mut all = Masses::new(graph, query).relative_to(shift);
    for part in seen {
        let factor = (part.shift - shift).exp();
        all.sum.add(factor * part.sum.value());
        all.scores.add(factor * part.scores.value());
        let own = [part.beliefs.as_slice(), part.factors.as_slice()];
        for (total, own) in [all.beliefs.as_mut_slice(), all.factors.as_mut_slice()].into_iter().zip(own) {
            total.iter_mut().zip(own).for_each(|(sum, mass)| *sum += factor * mass);
        }
    }
    Ok(all)
}

impl Masses {
    /// The estimated marginals of the variables.
    pub fn into_beliefs(mut self) -> Beliefs {
        self.beliefs.normalise();
        self.beliefs
    }

    /// The estimated marginals of the factors.
    pub fn into_factor_beliefs(mut self) -> FactorBeliefs {
        self.factors.normalise();
        self.factors
    }

    /// The mean score.
    pub fn mean_score(&self) -> f64 {
        self.scores.value() / self.sum.value()
    }
}

/// The error if no sample had a positive weight, so that there is no estimate.
pub(crate) fn missed() -> Error {
    Error::NoAnswer("every sample has weight 0; more samples or another method may help".into())
}

/// Adds a warning if none of the weighted samples has a positive weight.
pub(crate) fn warned(samples: &Samples, diagnostics: Diagnostics) -> Diagnostics {
    match &samples.law {
        Law::Weighted { log_weights }
            if !samples.is_empty() && log_weights.iter().all(|&log| log == f64::NEG_INFINITY) =>
        {
            diagnostics.note("warning", "every sample has weight 0; more samples or another method may find states of positive weight")
        }
        _ => diagnostics,
    }
}

/// The guarantee of estimates of the form Σ w·\[…\] / Σ w.
pub(crate) fn ratio() -> Guarantee {
    let reason = "a ratio of two estimates: right in the limit, biased for finitely many samples";
    Guarantee::Heuristic { reason: reason.into() }
}

/// Draws `count` states of `n` variables with their log-weights, and computes the guarantee for this
/// confidence and rounding. `drawer` is called once for each block of states that share a random stream; the
/// function it returns fills in one state after the other and returns its log-weight.
pub(crate) fn weighted_samples<D>(
    count: usize,
    n: usize,
    streams: &Streams,
    clock: &Clock<'_>,
    (confidence, rounding): (f64, f64),
    drawer: impl Fn() -> D + Sync,
) -> Result<(Samples, Guarantee)>
where
    D: FnMut(&mut Stream, &mut [usize]) -> f64,
{
    let (mut states, mut log_weights) = (vec![0; count * n], vec![0.0; count]);
    // If no variable is free, the blocks contain no states, but the weights still count the samples.
    let mut blocks: Vec<(&mut [usize], &mut [f64])> = Vec::new();
    let (mut rest, mut weights) = (states.as_mut_slice(), log_weights.as_mut_slice());
    while !weights.is_empty() {
        let len = BLOCK.min(weights.len());
        let (state_block, state_rest) = rest.split_at_mut(len * n);
        let (weight_block, weight_rest) = weights.split_at_mut(len);
        blocks.push((state_block, weight_block));
        (rest, weights) = (state_rest, weight_rest);
    }
    blocks.into_par_iter().enumerate().try_for_each(|(block, (states, weights))| -> Result<()> {
        clock.check()?;
        let (mut random, mut draw) = (streams.block(block as u64), drawer());
        for (i, weight) in weights.iter_mut().enumerate() {
            *weight = draw(&mut random, &mut states[i * n..(i + 1) * n]);
        }
        Ok(())
    })?;
    let (_, guarantee) = unbiased(&log_weights, confidence, rounding);
    Ok((Samples::new(count, n, states, Law::Weighted { log_weights }), guarantee))
}
