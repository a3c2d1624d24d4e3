//! Forecasts of memory and time.

use super::{SpanningTrees, projective};
use crate::answer::Promise;
use crate::method::cost::spanning_trees::{
    PER_ARC, PER_CALL, PER_CONTRACTION, PER_ELIMINATION, PER_SPLIT, PER_STEP,
};
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::numeric::semiring::LANES;
use crate::query::{Forecast, Forecasts, Query};
use crate::run::Run;

impl<F: Real> Forecasts<DependencyTree<F>> for SpanningTrees {
    fn forecast(&self, model: &DependencyTree<F>, query: Query, run: &Run) -> Forecast {
        let longest = model.lengths().iter().copied().max().unwrap_or(0);
        let (n, batch, labels) = (longest as f64, model.batch() as f64, model.per_arc() as f64);
        let threads = run.threads() as f64;
        let cubes: f64 = model.lengths().iter().map(|&length| (length as f64).powi(3)).sum();
        let squares: f64 = model.lengths().iter().map(|&length| (length as f64).powi(2)).sum();
        let words: f64 = model.lengths().iter().map(|&length| length as f64).sum();
        let shape = model.shape();
        // Passes over all splits or eliminations: inside alone, or with outside or back substitution.
        let passes = match query {
            Query::LogPartition | Query::Map | Query::Sample(_) => 1.0,
            _ => 4.0,
        };
        let lanes = LANES as f64;
        let sums = match shape.projective {
            true => PER_SPLIT * passes * cubes * lanes / batch.min(lanes),
            false => PER_ELIMINATION * passes * cubes,
        };
        let states = match (query, shape.projective) {
            (Query::KBest(k), true) => k as f64 * n * PER_SPLIT * cubes,
            (Query::KBest(k), false) => k as f64 * n * PER_CONTRACTION * squares,
            (Query::Map, false) => PER_CONTRACTION * squares,
            (Query::Sample(count), _) => count as f64 * PER_STEP * squares,
            _ => 0.0,
        };
        let seconds = PER_CALL + (sums + states) / threads.min(batch.max(1.0)) + PER_ARC * squares * labels;
        // Arrays of results: of the size of the model, or of the probabilities of every sentence in double
        // precision.
        let results = match query {
            Query::LogPartition | Query::Map => 0.0,
            Query::KBest(k) => k as f64 * batch * (64.0 * n + 256.0),
            Query::Sample(count) => count as f64 * batch * (n * 16.0 + 96.0),
            // Of a divergence, the probabilities of two models and the derivatives of one are kept together.
            _ => 48.0 * (squares + words) + 512.0 * batch + 2.0 * model.bytes() as f64,
        };
        let marginals = passes > 1.0;
        let work = match shape.projective {
            true => {
                (projective::bytes(longest, marginals, marginals) + LANES * 32 * longest * (longest + 1))
                    as f64
            }
            false => 160.0 * n * (n + 1.0),
        };
        // Projective trees of groups of sentences are summed together.
        let group = match query {
            Query::Map | Query::KBest(_) | Query::Sample(_) => 1.0,
            _ if shape.projective => lanes,
            _ => 1.0,
        };
        let busy = threads.min((batch / group).ceil());
        Forecast { bytes: busy * work + results + 65536.0, seconds, promise: Promise::Exact }
    }
}
