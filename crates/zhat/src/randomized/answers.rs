//! The queries about chains.

use rayon::prelude::*;

use super::method::{Choice, NAME, RandomizedForward};
use super::restriction::Restriction;
use super::tape::{each_share, entropies, gradient};
use crate::answer::{Answer, Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::forecast::Forecasts;
use crate::model::Chain;
use crate::montecarlo::unbiased;
use crate::numeric::{self, Real};
use crate::query::{Entropy, FactorMarginals, LogPartition, Marginals, Query, Sample};
use crate::random::Streams;
use crate::run::{Clock, Run};
use crate::sequence::{ChainGradient, NodeMarginals, PathSamples};

impl RandomizedForward {
    /// Chooses states and hands them to `finish` for a value and a guarantee.
    fn answer<F: Real, T: Send>(
        &self,
        chain: &Chain<F>,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Choice, f64, &Clock<'_>) -> Result<(T, Guarantee)> + Send,
    ) -> Result<Answer<T>> {
        let clock = run.start(NAME);
        self.check(chain)?;
        run.require_memory(NAME, self.forecast(chain, query, run).bytes)?;
        let keep = query != Query::LogPartition;
        let choice = run.install(|| self.choices(chain, keep, run, &clock))?;
        if (0..chain.batch()).all(|b| choice.log_partition_of(b) == f64::NEG_INFINITY) {
            return Err(if choice.count >= chain.states() { Error::ZeroPartition } else { missed() });
        }
        let rounding = rounding(chain, &choice);
        let (value, guarantee) = run.install(|| finish(&choice, rounding, &clock))?;
        let mut diagnostics = Diagnostics::new(NAME)
            .note("states", choice.count)
            .note("replicates", choice.replicates())
            .note("transitions", chain.transitions().form())
            .note("precision", F::NAME);
        diagnostics.rounding = rounding;
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }

    /// The promise about log Ẑ, for each sequence.
    fn promise(&self, choice: &Choice, batch: usize, rounding: f64) -> Guarantee {
        if !self.is_unbiased() {
            return biased();
        }
        let one = |b: usize| unbiased(choice.log_estimates(b), self.confidence, rounding).1;
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

/// The error where no replicate has a weight, so that nothing can be said.
fn missed() -> Error {
    Error::NoAnswer("every replicate missed all paths that have a weight; more states may do".into())
}

/// A bound on the error of log Ẑ: every position adds up K terms in the model's precision.
fn rounding<F: Real>(chain: &Chain<F>, choice: &Choice) -> f64 {
    let longest = chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64);
    let coarser = F::EPSILON.to_f64() / f64::EPSILON;
    let magnitude = chain.magnitude() + longest * choice.largest_log_weight;
    coarser * numeric::rounding_allowance(longest * (choice.count as f64 + 10.0), magnitude)
}

impl<F: Real> LogPartition<Chain<F>> for RandomizedForward {
    fn log_partition(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer(chain, Query::LogPartition, run, |choice, rounding, _| {
            Ok((choice.log_partition(), self.promise(choice, chain.batch(), rounding)))
        })
    }
}

impl<F: Real> Marginals<Chain<F>> for RandomizedForward {
    fn marginals(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<NodeMarginals<F>>> {
        self.answer(chain, Query::Marginals, run, |choice, _, clock| {
            let mut values = vec![F::ZERO; chain.emissions().len()];
            each_share(chain, choice, &vec![1.0; chain.batch()], |restriction, factor| {
                restriction.add_marginals(factor, clock, &mut values)
            })?;
            let shape = [chain.batch(), chain.steps(), chain.states()];
            Ok((NodeMarginals { shape, values }, self.ratio()))
        })
    }
}

impl<F: Real> FactorMarginals<Chain<F>> for RandomizedForward {
    fn factor_marginals(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<ChainGradient<F>>> {
        self.answer(chain, Query::FactorMarginals, run, |choice, _, clock| {
            Ok((gradient(chain, choice, &vec![1.0; chain.batch()], clock)?, self.ratio()))
        })
    }
}

impl<F: Real> Entropy<Chain<F>> for RandomizedForward {
    /// log Ẑ − Ê\[score\].
    fn entropy(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer(chain, Query::Entropy, run, |choice, _, clock| {
            let entropies = entropies(chain, choice, clock)?;
            let value = (0..chain.batch()).map(|b| choice.entropy(b, &entropies[b])).collect();
            Ok((value, self.ratio()))
        })
    }
}

impl<F: Real> Sample<Chain<F>> for RandomizedForward {
    /// Draws from the replicates in turn, with their weights: p(x)·Πₜ wₜ(xₜ)/p̂(x), which is Ẑ of the replicate whatever x is. A sequence
    /// without a weight has no samples.
    fn sample(&self, chain: &Chain<F>, count: usize, run: &Run) -> Result<Answer<PathSamples>> {
        self.answer(chain, Query::Sample(count), run, |choice, rounding, clock| {
            let (samples, log_weights) = draw(chain, choice, count, run, clock)?;
            let value = PathSamples { samples, log_weights: Some(log_weights) };
            Ok((value, self.promise(choice, chain.batch(), rounding)))
        })
    }
}

type Drawn = (Vec<Vec<Vec<usize>>>, Vec<Vec<f64>>);

/// `count` paths of each sequence that has a weight, and their log weights.
fn draw<F: Real>(
    chain: &Chain<F>,
    choice: &Choice,
    count: usize,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Drawn> {
    let streams = Streams::new(run.seed(), "randomized sample");
    let of_sequence = |b: usize| -> Result<(Vec<Vec<usize>>, Vec<f64>)> {
        let logs = choice.log_estimates(b);
        let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else {
            return Ok(Default::default());
        };
        let replicates = logs.len();
        let of_replicate = |r: usize| -> Result<Vec<Vec<usize>>> {
            let wanted = (count + replicates - 1 - r) / replicates;
            // A replicate without a weight has no paths; any will do with a weight of zero.
            let from = if logs[r] > f64::NEG_INFINITY { r } else { possible };
            let restriction = Restriction { chain, b, support: &choice.supports(b)[from] };
            restriction.with_lattice(|lattice| {
                let backward = lattice.sweep_backward(clock)?;
                let mut random = streams.block((r * chain.batch() + b) as u64);
                let paths = lattice.draw(&backward, 0, wanted, &mut random);
                Ok(paths.iter().map(|path| restriction.path(path)).collect())
            })
        };
        let drawn: Vec<Vec<Vec<usize>>> =
            (0..replicates.min(count)).into_par_iter().map(of_replicate).collect::<Result<_>>()?;
        let mut turns: Vec<_> = drawn.into_iter().map(Vec::into_iter).collect();
        let (mut paths, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
        for s in 0..count {
            paths.extend(turns[s % replicates].next());
            weights.push(logs[s % replicates]);
        }
        Ok((paths, weights))
    };
    let drawn: Vec<_> = (0..chain.batch()).into_par_iter().map(of_sequence).collect::<Result<_>>()?;
    Ok(drawn.into_iter().unzip())
}
