//! An unbiased estimate of Z of a cycle by annealed importance sampling: what the bounds leave open.
//!
//! From independent positions with a law p₀ to the model by the scores (1 − β)·Σᵢ log p₀(xᵢ) + β·score(x), β = 0, 1/L, …, 1: a state is drawn at β = 0, and at each further β the weight takes the
//! factor exp(Δβ·(score − log p₀)) before a sweep of Gibbs sampling. The mean of the weights is Z, whatever L is; a larger L makes it less scattered. Positions K + 1 apart do not
//! interact, so their scores are found together. Cost: L·n·C·D·(K+1) operations for each of the replicates.
//!
//! log Z of a long cycle grows by the same amount with every position, up to something exponentially small; so a cycle of a few hundred positions tells what one of a million would.
//!
//! Reference: R. M. Neal, *Annealed importance sampling*, Statistics and Computing 11 (2001).

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::LanguageModel;
use super::conditional::{BATCH, Conditional};
use crate::answer::{Answer, Diagnostics, Estimate};
use crate::error::{Error, Result};
use crate::montecarlo::unbiased;
use crate::numeric::{self, rounding_allowance};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

const NAME: &str = "annealed";

/// How an estimate is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Annealed {
    /// Positions of the cycle, rounded up to a multiple of K + 1.
    pub positions: usize,
    /// L.
    pub levels: usize,
    /// Independent estimates.
    pub replicates: usize,
    /// Of the lower bound by Markov's inequality.
    pub confidence: f64,
}

impl Default for Annealed {
    fn default() -> Self {
        Annealed { positions: 120, levels: 100, replicates: 8, confidence: 0.95 }
    }
}

impl Annealed {
    /// The cycle's length for a context.
    pub fn length(&self, context: usize) -> usize {
        // A position must not meet itself or another of its class.
        self.positions.max(2 * (context + 1)).next_multiple_of(context + 1)
    }
}

/// A cycle with the last K positions before it and the first K behind it.
struct Cycle {
    padded: Vec<u32>,
    context: usize,
}

impl Cycle {
    fn len(&self) -> usize {
        self.padded.len() - 2 * self.context
    }

    fn states(&self) -> &[u32] {
        &self.padded[self.context..self.context + self.len()]
    }

    fn set(&mut self, place: usize, state: u32) {
        let (n, context) = (self.len(), self.context);
        self.padded[place + context] = state;
        if place < context {
            self.padded[place + context + n] = state;
        }
        if place >= n - context {
            self.padded[place + context - n] = state;
        }
    }
}

impl LanguageModel {
    /// Estimates log Z of a cycle of [`Annealed::length`] positions, beginning with independent states of these weights, one for each state and all positive.
    pub fn annealed(&self, weights: &[f64], how: &Annealed, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        let total: f64 = weights.iter().sum();
        let fine =
            weights.len() == self.mrf().states() && weights.iter().all(|w| *w > 0.0) && total.is_finite();
        if !fine || how.levels == 0 || how.replicates == 0 || !(how.confidence > 0.0 && how.confidence < 1.0)
        {
            return Err(Error::argument(
                NAME,
                "needs a positive weight for every state, a level, a replicate and a confidence between 0 and 1",
            ));
        }
        run.require_memory(NAME, Conditional::bytes(self, run))?;
        let first: Vec<f64> = weights.iter().map(|w| (w / total).ln()).collect();
        let streams = Streams::new(run.seed(), NAME);
        let conditional = Conditional::new(self);
        let mut logarithms = Vec::with_capacity(how.replicates);
        for r in 0..how.replicates {
            clock.progress(NAME, r as u64, how.replicates as u64);
            let mut random = streams.block(r as u64);
            logarithms.push(run.install(|| self.weight(&conditional, &first, how, &mut random, &clock))?);
        }
        let n = how.length(self.mrf().context()) as f64;
        let (unary, pairs) = self.mrf().magnitude();
        let size = unary
            + self.mrf().context() as f64 * pairs
            + numeric::max(&first.iter().map(|x| -x).collect::<Vec<_>>());
        let rounding = n * rounding_allowance(how.levels as f64 * 64.0, size);
        let (value, guarantee) = unbiased(&logarithms, how.confidence, rounding);
        if value == f64::NEG_INFINITY {
            return Err(Error::NoAnswer(
                "every replicate has met a state of weight 0; more levels would help".into(),
            ));
        }
        let mut diagnostics =
            Diagnostics::new(NAME).note("positions", n as u64).note("levels", how.levels as u64);
        (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
        Ok(Answer { value, guarantee, diagnostics })
    }

    /// The logarithm of one weight.
    fn weight(
        &self,
        conditional: &Conditional<'_>,
        first: &[f64],
        how: &Annealed,
        random: &mut Stream,
        clock: &Clock<'_>,
    ) -> Result<f64> {
        let mrf = self.mrf();
        let context = mrf.context();
        let n = how.length(context);
        let law: Vec<f64> = first.iter().map(|x| x.exp()).collect();
        let mut cycle = Cycle { padded: vec![0; n + 2 * context], context };
        (0..n).for_each(|place| cycle.set(place, random.categorical(&law) as u32));
        let mut weight = 0.0;
        for level in 1..=how.levels {
            clock.check()?;
            let states: Vec<usize> = cycle.states().iter().map(|&state| state as usize).collect();
            let difference = mrf.score(&states) - states.iter().map(|&state| first[state]).sum::<f64>();
            if difference == f64::NEG_INFINITY {
                return Ok(difference);
            }
            weight += difference / how.levels as f64;
            if level < how.levels {
                let share = level as f64 / how.levels as f64;
                for class in 0..=context {
                    self.sweep(conditional, first, share, class, &mut cycle, random);
                }
            }
        }
        Ok(weight)
    }

    /// Draws every (K + 1)-th position anew.
    fn sweep(
        &self,
        conditional: &Conditional<'_>,
        first: &[f64],
        share: f64,
        class: usize,
        cycle: &mut Cycle,
        random: &mut Stream,
    ) {
        let (states, context) = (first.len(), cycle.context);
        let places: Vec<usize> = (class..cycle.len()).step_by(context + 1).collect();
        let uniforms: Vec<f64> = places.iter().map(|_| random.uniform()).collect();
        let padded = &cycle.padded;
        let batches = places.par_chunks(BATCH).zip(uniforms.par_chunks(BATCH));
        let drawn: Vec<Vec<u32>> = batches
            .map(|(places, uniforms)| {
                let places: Vec<(&[u32], usize)> =
                    places.iter().map(|place| (padded.as_slice(), place + context)).collect();
                let mut scores = vec![0.0; places.len() * states];
                conditional.scores(&places, true, &mut scores);
                let rows = scores.chunks_exact_mut(states).zip(&places).zip(uniforms);
                rows.map(|((row, &(padded, place)), uniform)| {
                    row.iter_mut().zip(first).for_each(|(s, g)| *s = share * *s + (1.0 - share) * g);
                    let top = numeric::max(row);
                    if top == f64::NEG_INFINITY {
                        return padded[place];
                    }
                    row.iter_mut().for_each(|s| *s -= top);
                    numeric::exp_in_place(row);
                    let mut left = uniform * numeric::sum(row);
                    let found = row.iter().position(|weight| {
                        left -= weight;
                        left < 0.0 && *weight > 0.0
                    });
                    // Rounding can leave a crumb after the last weight.
                    found.or_else(|| row.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0) as u32
                })
                .collect()
            })
            .collect();
        for (&place, state) in places.iter().zip(drawn.into_iter().flatten()) {
            cycle.set(place, state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditional::tests::models;
    use super::*;
    use crate::lifted::TransferMatrix;
    use crate::query::LogPartition;

    #[test]
    fn weights_are_unbiased_for_z_of_the_cycle() {
        for model in models() {
            let how = Annealed { positions: 7, levels: 4, replicates: 3000, ..Annealed::default() };
            let n = how.length(2);
            assert_eq!(n, 9);
            let exact = TransferMatrix::default()
                .log_partition(&model.mrf().with_length(n).unwrap(), &Run::default())
                .unwrap()
                .value;
            let answer = model.annealed(&[1.0, 2.0, 0.5], &how, &Run::default().with_seed(2)).unwrap();
            let crate::Guarantee::Unbiased { relative_std_error, low, .. } = answer.guarantee else {
                panic!("{answer}")
            };
            // Five standard errors: a false alarm of 6·10⁻⁷.
            let apart = ((answer.value - exact).exp() - 1.0).abs();
            assert!(relative_std_error < 0.05 && apart < 5.0 * relative_std_error, "{answer} {exact}");
            assert!(low <= exact);
            let alone = Run::default().with_seed(2).with_threads(1);
            let how = Annealed { replicates: 20, ..how };
            let again = model.annealed(&[1.0, 2.0, 0.5], &how, &alone).unwrap().value;
            let more = model.annealed(&[1.0, 2.0, 0.5], &how, &alone.with_threads(3)).unwrap().value;
            assert_eq!(again.to_bits(), more.to_bits());
        }
        let model = &models()[0];
        for bad in [vec![1.0; 2], vec![1.0, 0.0, 1.0], vec![1.0, f64::NAN, 1.0]] {
            assert!(model.annealed(&bad, &Annealed::default(), &Run::default()).is_err());
        }
    }
}
