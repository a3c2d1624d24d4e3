//! What the queries cost.

use super::method::RandomizedForward;
use super::proposal::Proposal;
use super::target::Target;
use crate::answer::Promise;
use crate::forecast::{Forecast, Forecasts};
use crate::model::Transitions;
use crate::query::Query;
use crate::run::Run;

/// Seconds for one multiplication and addition, single precision; double takes twice as long.
const PER_PRODUCT: f64 = 1.5e-11;
/// Seconds for an entry of a transition table read, exponentiated and added up, single precision.
const PER_ENTRY: f64 = 6e-10;
/// Seconds to weigh and choose, for every state there is.
const PER_STATE: f64 = 1e-7;

impl<M: Target> Forecasts<M> for RandomizedForward {
    fn forecast(&self, model: &M, query: Query, run: &Run) -> Forecast {
        let (chain, longest) = (model.chain(), model.longest() as f64);
        let (all, batch) = (chain.states() as f64, chain.batch() as f64);
        let positions: f64 = chain.lengths().iter().map(|&length| length as f64).sum();
        let steps = chain.steps() as f64;
        // How many states a wanted error takes is not known beforehand; the default is a guess.
        let kept = self.states.of(chain.states()) as f64;
        let replicates = self.replicates_for() as f64;
        let size = size_of::<M::Real>() as f64;
        let rank = match chain.transitions() {
            Transitions::Factored { left, .. } => left.len() as f64 / all,
            _ => 0.0,
        };
        let entry = (PER_ENTRY + rank * PER_PRODUCT) * size / 4.0;
        let passes = match self.proposal {
            Proposal::Forward => replicates,
            Proposal::TwoPass => replicates + 1.0,
            _ => 0.0,
        };
        let norms = match (self.proposal, chain.transitions()) {
            (Proposal::Global | Proposal::LocalGlobal, Transitions::Shared(_) | Transitions::PerStep(_)) => {
                2.0 * chain.transitions().len() as f64
            }
            _ => 0.0,
        };
        let (sweeps, outputs) = match query {
            Query::LogPartition => (2.0, 0.0),
            Query::Marginals => (5.0, batch * steps * all),
            Query::FactorMarginals => (6.0, batch * steps * all + chain.transitions().len() as f64),
            Query::Entropy => (6.0, 0.0),
            Query::Sample(count) => (4.0, 2.0 * count as f64 * positions * 8.0 / size),
            Query::Map | Query::KBest(_) => (0.0, 0.0),
        };
        let pilots = if self.error.is_some() { 3.0 } else { 1.0 };
        let at_work = (run.threads() as f64).min(batch) * replicates;
        let guides = if self.proposal == Proposal::TwoPass { (run.threads() as f64).min(batch) } else { 0.0 };
        let supports = if query == Query::LogPartition { at_work * steps } else { replicates * positions };
        Forecast {
            bytes: size
                * (guides * steps * all + outputs + at_work * (2.0 * all + 6.0 * steps * longest * kept))
                + 8.0 * at_work * 7.0 * all
                + 12.0 * supports * kept
                + run.threads() as f64 * 64.0 * 4096.0 * size,
            seconds: pilots
                * (positions * passes * longest * kept * all * entry
                    + positions * replicates * longest * all * PER_STATE
                    + norms * entry
                    + sweeps * positions * replicates * longest * kept * kept * entry),
            promise: match query {
                Query::LogPartition | Query::Sample(_) if self.is_unbiased() => Promise::Unbiased,
                _ => Promise::Heuristic,
            },
        }
    }
}
