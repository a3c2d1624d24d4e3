//! Exact methods for the spaces and scores that have one.
//!
//! | space, scores | method | time | memory |
//! |---|---|---|---|
//! | hypercube, single | log Z = Σ ln(1 + e^θ), with signs Σ ln 2cosh θ | n | n |
//! | subtrees, single | F(v) = 1 + e^{s_v} Π F(c) from the leaves up | n | n |
//! | hypercube and subtrees, pairs | factor graph, elimination | as elimination | as elimination |
//! | permutations, positions or precedences | sums over sets (`orders`) | 2ⁿ n | C(n, n/2), or 2ⁿ |
//! | permutations, Kendall, Cayley, Hamming | closed forms (`mallows`) | n | n |
//! | permutations, footrule, Spearman | as positions | 2ⁿ n | 2ⁿ |
//! | hypercube and subtrees, single, with a size | counted one by one (`choices`) | n·size | n·size |
//! | cycles, links | Held–Karp (`tours`) | 2ⁿ n² | 2ⁿ n |
//! | partitions, links | sums over sets (`blocks`) | 3ⁿ | 2ⁿ |
//!
//! Each computes log Z, the marginals, the gradient, entropy, the best structures and samples, all from the
//! same sums. The results are exact up to rounding; all terms are positive. All conditions except user-defined
//! functions preserve exactness, but not conditions on orders with Cayley's distance.
//!
//! ```
//! use zhat::space::{Distance, Oracle, Permutations, Scores, SpaceModel};
//! use zhat::{LogPartition, Run};
//! let reference: Vec<usize> = (0..10).collect();
//! let mallows = SpaceModel::new(Permutations::new(10)?, Scores::distance(Distance::Kendall, &reference, 0.5)?)?;
//! let z = Oracle::default().log_partition(&mallows, &Run::default())?;
//! assert!((z.value - 7.334398364439).abs() < 1e-9);
//! # Ok::<(), zhat::Error>(())
//! ```

mod best;
mod blocks;
mod conditions;
mod cost;
mod graph;
mod layers;
mod mallows;
mod orders;
mod prepared;
mod ranked;
mod tours;

use serde::{Deserialize, Serialize};

use super::{Expectations, SpaceMarginals, SpaceModel, draws, marginals};
use crate::answer::{Answer, Diagnostics, Estimate};
use crate::error::{Error, Result};
use crate::numeric::CompensatedSum;
use crate::options::options;
use crate::query::Forecasts;
use crate::query::{
    BestState, Entropy, FactorMarginals, KBest, Law, LogPartition, Map, Marginals, Query, Sample, Samples,
};
use crate::random::Stream;
use crate::run::{Clock, Run};
pub(super) use prepared::Prepared;
use prepared::{Algorithm, algorithm};

pub(crate) const NAME: &str = "oracle";

/// The exact method for the space and its scores.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Oracle {}

options!(Oracle {});

fn no_algorithm(model: &SpaceModel) -> Error {
    Error::NoAnswer(format!(
        "{} with {} scores have no exact method other than enumeration; sampling methods apply",
        model.space().name(),
        model.scores().name()
    ))
}

impl Oracle {
    /// Checks the requirements before the computation.
    fn require(&self, model: &SpaceModel, query: Query, run: &Run) -> Result<()> {
        let forecast = self.forecast(model, query, run);
        match algorithm(model) {
            None => Err(no_algorithm(model)),
            Some(_) if forecast.seconds.is_infinite() => Err(Error::NoAnswer(format!(
                "{} of {} elements are too many for sums over all sets; at most {} are possible",
                model.space().name(),
                model.width(),
                layers::MOST
            ))),
            Some(_) => run.require_memory(NAME, forecast.bytes),
        }
    }

    fn prepared<'a>(
        &self,
        model: &'a SpaceModel,
        query: Query,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Prepared<'a>> {
        self.require(model, query, run)?;
        let gradient = matches!(query, Query::FactorMarginals | Query::Marginals | Query::Entropy);
        let keep = gradient || matches!(query, Query::Sample(_));
        run.install(|| Prepared::new(model, keep, gradient, clock))?.ok_or_else(|| no_algorithm(model))
    }
}

fn diagnostics(rounding: f64, clock: &Clock<'_>) -> Diagnostics {
    let mut diagnostics = Diagnostics::new(NAME);
    diagnostics.rounding = rounding;
    diagnostics.seconds = clock.seconds();
    diagnostics
}

impl LogPartition<SpaceModel> for Oracle {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::log_partition(model, run);
        }
        let prepared = self.prepared(model, Query::LogPartition, run, &clock)?;
        Ok(Answer::exact(prepared.log_partition, diagnostics(prepared.rounding, &clock)))
    }
}

impl FactorMarginals<SpaceModel> for Oracle {
    fn factor_marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::expectations(model, run);
        }
        let prepared = self.prepared(model, Query::FactorMarginals, run, &clock)?;
        let values = run.install(|| prepared.expectations(&clock))?;
        // A probability has the relative error of two sums.
        let size = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        let radius = 4.0 * prepared.rounding * (1.0 + size);
        Ok(Answer::exact(Expectations { values, radius }, diagnostics(radius, &clock)))
    }
}

impl Marginals<SpaceModel> for Oracle {
    fn marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<SpaceMarginals>> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::marginals(model, run);
        }
        let mut table = marginals::table(model, NAME, 1, run)?;
        let prepared = self.prepared(model, Query::Marginals, run, &clock)?;
        run.install(|| prepared.marginals(&mut table.values, &clock))?;
        table.radius = 8.0 * prepared.rounding;
        let diagnostics = diagnostics(table.radius, &clock);
        Ok(Answer::exact(table, diagnostics))
    }
}

impl Entropy<SpaceModel> for Oracle {
    /// H = log Z − ⟨θ, E\[φ\]⟩.
    fn entropy(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::entropy(model, run);
        }
        let prepared = self.prepared(model, Query::Entropy, run, &clock)?;
        let values = run.install(|| prepared.expectations(&clock))?;
        let parameters = model.parameters();
        let parts = parameters.iter().zip(&values).map(|(theta, mean)| theta * mean);
        let (sum, size) = (parts.clone().collect::<CompensatedSum>(), parts.map(f64::abs).sum::<f64>());
        let rounding = prepared.rounding * (1.0 + 4.0 * size);
        let value = (prepared.log_partition - sum.value()).max(0.0);
        Ok(Answer::exact(value, diagnostics(rounding, &clock)))
    }
}

impl Map<SpaceModel> for Oracle {
    fn map(&self, model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::best(model, run);
        }
        self.require(model, Query::Map, run)?;
        let structure = run.install(|| best::best(model, &clock))?;
        let score = model.score(&structure)?;
        let best = BestState { state: SpaceModel::state(&structure), score };
        Ok(Answer::exact(best, diagnostics(2.0 * model.slack(), &clock)))
    }
}

impl KBest<SpaceModel> for Oracle {
    fn k_best(&self, model: &SpaceModel, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::k_best(model, k, run);
        }
        self.require(model, Query::KBest(k), run)?;
        let mut structures = run.install(|| ranked::k_best(model, k, &clock))?;
        structures.iter_mut().for_each(|structure| model.space().canonical(structure));
        let mut ranked = Vec::with_capacity(structures.len());
        for structure in structures {
            let score = model.score(&structure)?;
            ranked.push(BestState { state: SpaceModel::state(&structure), score });
        }
        // Rounding can swap near ties.
        ranked.sort_by(|a, b| b.score.total_cmp(&a.score));
        Ok(Answer::exact(ranked, diagnostics(2.0 * model.slack(), &clock)))
    }
}

impl Sample<SpaceModel> for Oracle {
    fn sample(&self, model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        if algorithm(model) == Some(Algorithm::Graph) {
            return graph::sample(model, count, run);
        }
        let prepared = self.prepared(model, Query::Sample(count), run, &clock)?;
        let draw = |random: &mut Stream, structure: &mut [u32]| {
            prepared.draw(random, structure);
            Ok(())
        };
        let samples = draws::samples(model, count, Law::Exact, "space oracle", run, &clock, draw)?;
        Ok(Answer::exact(samples, diagnostics(prepared.rounding, &clock)))
    }
}
