//! Queries on chains and semi-Markov chains.

use crate::numeric::parallel::prelude::*;

use super::estimates::missed_warning;
use super::method::{NAME, RandomizedForward, StateChoice};
use super::restriction::Restriction;
use super::tape::{each_share, entropies, gradient};
use crate::answer::{Answer, Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::method::dynamic::{SequenceModel, lattice};
use crate::method::sampling::unbiased;
use crate::numeric::Real;
use crate::query::Forecasts;
use crate::query::sequence::{NodeMarginals, PathSamples};
use crate::query::{Entropy, FactorMarginals, LogPartition, Marginals, Query, Sample};
use crate::random::Streams;
use crate::run::{Clock, Run};

impl RandomizedForward {
    /// Chooses states and passes them to `finish`, which returns a value and a guarantee.
    fn answer<M: SequenceModel, T: Send>(
        &self,
        model: &M,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&StateChoice, f64, &Clock<'_>) -> Result<(T, Guarantee)> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        self.check_for(model)?;
        run.require_memory(NAME, self.forecast(model, query, run).bytes)?;
        let keep = query != Query::LogPartition;
        let choice = run.install(|| self.choices(model, keep, run, &clock))?;
        let chain = model.chain();
        choice.require(model, matches!(query, Query::LogPartition | Query::Sample(_)))?;
        let rounding = rounding(model, &choice);
        let (value, guarantee) = run.install(|| finish(&choice, rounding, &clock))?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("states", choice.count)
            .note("replicates", choice.replicates())
            .note("transitions", chain.transitions().form())
            .note("precision", M::Real::NAME);
        if let Some(warning) = choice.warning(model) {
            diagnostics = diagnostics.note("warning", warning);
        }
        diagnostics.rounding = rounding;
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }

    /// The guarantee for log Ẑ, one per sequence.
    fn promise(&self, choice: &StateChoice, confidence: f64, rounding: f64) -> Guarantee {
        if !self.is_unbiased() {
            return biased();
        }
        let batch = choice.batch();
        let one = |b: usize| unbiased(choice.log_estimates(b), confidence, rounding).1;
        Guarantee::each((0..batch).map(one).collect())
    }

    fn ratio(&self) -> Guarantee {
        if !self.is_unbiased() {
            return biased();
        }
        let reason = "a ratio of two estimates: right in the limit, biased for finitely many states";
        Guarantee::Heuristic { reason: reason.into() }
    }
}

fn biased() -> Guarantee {
    let reason = "all but the likeliest states are left out, so the partition function is too small";
    Guarantee::Heuristic { reason: reason.into() }
}

impl StateChoice {
    /// The sequences whose estimate is 0: every replicate missed all paths of positive weight, or there are
    /// none.
    fn missed(&self) -> Vec<usize> {
        (0..self.batch()).filter(|&b| self.log_partition_of(b) == f64::NEG_INFINITY).collect()
    }

    /// Returns an error if all estimates are 0 and either Z = 0 is proved, because all states were kept, or
    /// the query has no value at 0.
    ///
    /// An estimate of 0 is a valid value: without it, the mean over seeds would be too large. A ratio of two
    /// such estimates has no value.
    pub(super) fn require<M: SequenceModel>(&self, model: &M, zero_is_a_value: bool) -> Result<()> {
        if self.missed().len() < self.batch() {
            return Ok(());
        }
        if self.count >= model.chain().states() {
            return Err(Error::ZeroPartition);
        }
        let message = "every replicate missed all paths of positive weight; more states may find some";
        if zero_is_a_value { Ok(()) } else { Err(Error::NoAnswer(message.into())) }
    }

    /// A warning that names the sequences whose estimate is 0 without a proof that Z = 0.
    pub(super) fn warning<M: SequenceModel>(&self, model: &M) -> Option<String> {
        let missed = self.missed();
        if self.count >= model.chain().states() {
            return None;
        }
        missed_warning(&missed, self.batch(), ("paths", "sequence", "states"))
    }
}

/// A bound on the rounding error of log Ẑ: each position sums K terms in the model's precision.
fn rounding<M: SequenceModel>(model: &M, choice: &StateChoice) -> f64 {
    let chain = model.chain();
    let steps = chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64);
    let longest = model.longest() as f64;
    let others = longest * (choice.count as f64 + 2.0);
    let magnitude = model.largest_score() + steps * choice.largest_log_weight;
    lattice::rounding(
        chain.transitions(),
        &lattice::Sizes {
            states: chain.states(),
            steps,
            terms: 0.0,
            others,
            backward: true,
            longest,
            magnitude,
        },
    )
}

impl<M: SequenceModel> LogPartition<M> for RandomizedForward {
    fn log_partition(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer(model, Query::LogPartition, run, |choice, rounding, _| {
            let confidence = run.confidence(NAME, self.confidence);
            Ok((choice.log_partition(), self.promise(choice, confidence, rounding)))
        })
    }
}

impl<M: SequenceModel> Marginals<M> for RandomizedForward {
    fn marginals(&self, model: &M, run: &Run) -> Result<Answer<NodeMarginals<M::Real>>> {
        self.answer(model, Query::Marginals, run, |choice, _, clock| {
            let mut values = vec![M::Real::default(); model.chain().emissions().len()];
            let chain = model.chain();
            each_share(choice, &vec![1.0; chain.batch()], |b, support, factor| {
                Restriction::new(model, b, support).add_marginals(factor, clock, &mut values)
            })?;
            let shape = [chain.batch(), chain.steps(), chain.states()];
            Ok((NodeMarginals { shape, values }, self.ratio()))
        })
    }
}

impl<M: SequenceModel> FactorMarginals<M> for RandomizedForward {
    fn factor_marginals(&self, model: &M, run: &Run) -> Result<Answer<M::FactorMarginals>> {
        self.answer(model, Query::FactorMarginals, run, |choice, _, clock| {
            Ok((gradient(model, choice, &vec![1.0; choice.batch()], clock)?, self.ratio()))
        })
    }
}

impl<M: SequenceModel> Entropy<M> for RandomizedForward {
    /// log Ẑ − Ê\[score\].
    fn entropy(&self, model: &M, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer(model, Query::Entropy, run, |choice, _, clock| {
            let entropies = entropies(model, choice, clock)?;
            let value = (0..choice.batch()).map(|b| choice.entropy(b, &entropies[b])).collect();
            Ok((value, self.ratio()))
        })
    }
}

impl<M: SequenceModel> Sample<M> for RandomizedForward {
    /// Samples from the replicates in turn. The weight p(x)·Πₜ wₜ(xₜ)/p̂(x) equals Ẑ of the replicate for
    /// every x. A sequence with Ẑ = 0 has no samples.
    fn sample(&self, model: &M, count: usize, run: &Run) -> Result<Answer<PathSamples<M::Drawn>>> {
        self.answer(model, Query::Sample(count), run, |choice, rounding, clock| {
            let (samples, log_weights) = draw(model, choice, count, run, clock)?;
            let value = PathSamples { samples, log_weights: Some(log_weights) };
            Ok((value, self.promise(choice, self.confidence, rounding)))
        })
    }
}

type Drawn<M> = (Vec<Vec<<M as SequenceModel>::Drawn>>, Vec<Vec<f64>>);

/// `count` paths of each sequence with Ẑ > 0, and their log weights.
fn draw<M: SequenceModel>(
    model: &M,
    choice: &StateChoice,
    count: usize,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Drawn<M>> {
    let streams = Streams::new(run.seed(), "randomized sample");
    let batch = choice.batch();
    let of_sequence = |b: usize| -> Result<(Vec<M::Drawn>, Vec<f64>)> {
        let logs = choice.log_estimates(b);
        let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else {
            return Ok((Vec::new(), Vec::new()));
        };
        let replicates = logs.len();
        let of_replicate = |r: usize| -> Result<Vec<M::Drawn>> {
            let wanted = (count + replicates - 1 - r) / replicates;
            // A replicate with Ẑᵣ = 0 has no paths. Its samples come from another one and get weight zero.
            let from = if logs[r] > f64::NEG_INFINITY { r } else { possible };
            let mut random = streams.block((r * batch + b) as u64);
            Restriction::new(model, b, &choice.supports(b)[from]).draw(wanted, &mut random, clock)
        };
        let drawn: Vec<Vec<M::Drawn>> =
            (0..replicates.min(count)).into_par_iter().map(of_replicate).collect::<Result<_>>()?;
        let mut turns: Vec<_> = drawn.into_iter().map(Vec::into_iter).collect();
        let (mut paths, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for s in 0..count {
            paths.extend(turns[s % replicates].next());
            weights.push(logs[s % replicates]);
        }
        Ok((paths, weights))
    };
    let drawn: Vec<_> = (0..batch).into_par_iter().map(of_sequence).collect::<Result<_>>()?;
    Ok(drawn.into_iter().unzip())
}
