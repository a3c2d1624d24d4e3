//! The queries about chains.

use super::tape::{each_node, with_lattice};
use super::{ForwardBackward, NAME};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::forecast::Forecasts;
use crate::lattice::Lattice;
use crate::model::Chain;
use crate::numeric::{self, Real};
use crate::query::{FactorMarginals, LogPartition, Marginals, Query};
use crate::run::{Clock, Run};
use crate::sequence::{ChainGradient, NodeMarginals};

/// How far rounding may have moved an answer: every position adds up N terms in the model's precision.
pub(super) fn rounding<F: Real>(chain: &Chain<F>) -> f64 {
    let longest = chain.lengths().iter().max().map_or(0.0, |&longest| longest as f64);
    let coarser = F::EPSILON.to_f64() / f64::EPSILON;
    coarser * numeric::rounding_allowance(longest * (chain.states() as f64 + 10.0), chain.magnitude())
}

/// Asks for memory, makes the lattice, and wraps what `work` finds.
pub(super) fn answer<F: Real, T: Send>(
    method: &ForwardBackward,
    chain: &Chain<F>,
    query: Query,
    run: &Run,
    work: impl FnOnce(&Lattice<'_, F>, &Clock<'_>) -> Result<T> + Send,
) -> Result<Answer<T>> {
    let clock = run.start(NAME);
    let forecast = method.forecast(chain, query, run);
    run.require_memory(NAME, forecast.bytes)?;
    let value = run.install(|| with_lattice(chain, |lattice| work(lattice, &clock)))?;
    let mut diagnostics = Diagnostics::new(NAME)
        .note("transitions", chain.transitions().form())
        .note("precision", F::NAME)
        .note("forecast_bytes", forecast.bytes);
    diagnostics.rounding = rounding(chain);
    diagnostics.seconds = clock.seconds();
    Ok(Answer::exact(value, diagnostics))
}

/// An error where no sequence has a weight.
pub(super) fn some_weight(log_partition: &[f64]) -> Result<()> {
    let none = log_partition.iter().all(|&log_z| log_z == f64::NEG_INFINITY);
    if none { Err(Error::ZeroPartition) } else { Ok(()) }
}

impl<F: Real> LogPartition<Chain<F>> for ForwardBackward {
    fn log_partition(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        answer(self, chain, Query::LogPartition, run, |lattice, clock| {
            let log_partition = lattice.log_partitions(clock)?;
            some_weight(&log_partition)?;
            Ok(log_partition)
        })
    }
}

impl<F: Real> Marginals<Chain<F>> for ForwardBackward {
    fn marginals(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<NodeMarginals<F>>> {
        answer(self, chain, Query::Marginals, run, |lattice, clock| {
            let mut values = vec![F::ZERO; chain.emissions().len()];
            let mut visit = |messages: &_| {
                each_node(lattice, messages, &mut values, |b, t, row| {
                    lattice.node_marginals(messages, b, t, row);
                });
                Ok(())
            };
            let log_partition = if self.checkpoint {
                lattice.sweep_windows(clock, visit)?
            } else {
                let messages = lattice.sweep(clock)?;
                visit(&messages)?;
                messages.log_partition
            };
            some_weight(&log_partition)?;
            Ok(NodeMarginals { shape: [chain.batch(), chain.steps(), chain.states()], values })
        })
    }
}

impl<F: Real> FactorMarginals<Chain<F>> for ForwardBackward {
    fn factor_marginals(&self, chain: &Chain<F>, run: &Run) -> Result<Answer<ChainGradient<F>>> {
        let clock = run.start(NAME);
        let forecast = self.forecast(chain, Query::FactorMarginals, run);
        run.require_memory(NAME, forecast.bytes)?;
        let (log_partition, gradient) =
            self.log_partition_and_gradient(chain, &vec![1.0; chain.batch()], run)?;
        some_weight(&log_partition)?;
        let mut diagnostics = Diagnostics::new(NAME).note("forecast_bytes", forecast.bytes);
        diagnostics.rounding = rounding(chain);
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(gradient, diagnostics))
    }
}
