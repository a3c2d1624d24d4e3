//! Forecasts of memory and time.

use super::certain::CERTAIN;
use super::pass;
use crate::answer::Promise;
use crate::method::cost::spanning_trees::{PER_ARC, PER_CALL, PER_CHOICE, PER_KEPT, PER_STEP};
use crate::method::dynamic::{RandomizedInside, SpanProposal};
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::query::{Forecast, Forecasts, Query};
use crate::run::Run;

impl<F: Real> Forecasts<DependencyTree<F>> for RandomizedInside {
    fn forecast(&self, model: &DependencyTree<F>, query: Query, run: &Run) -> Forecast {
        let promise = match (self.selection.is_unbiased(), query) {
            (true, Query::LogPartition | Query::Sample(_)) => Promise::Unbiased,
            _ => Promise::Heuristic,
        };
        if !model.shape().projective {
            return Forecast { bytes: 65536.0, seconds: f64::INFINITY, promise };
        }
        let longest = model.lengths().iter().copied().max().unwrap_or(0) as f64;
        let (kept, batch, labels) =
            (self.heads_kept(model) as f64 + CERTAIN, model.batch() as f64, model.per_arc() as f64);
        let total: f64 = model.lengths().iter().map(|&length| length as f64).sum();
        let squares: f64 = model.lengths().iter().map(|&length| (length as f64).powi(2)).sum();
        let replicates = self.replicate_count() as f64;
        let marginals = !matches!(query, Query::LogPartition | Query::Sample(_));
        // Passes over kept arcs: inside, or with outside. Samples need the inside pass again.
        let inside = if matches!(query, Query::Sample(_)) { 4.0 } else { 1.0 };
        let (passes, first) = (
            if marginals { 4.0 } else { inside },
            if self.proposal == SpanProposal::TwoPass { 2.0 } else { 0.0 },
        );
        let drawn = if let Query::Sample(count) = query { count as f64 } else { 0.0 };
        let pass = squares * kept * PER_KEPT;
        let choice = squares * PER_CHOICE;
        let seconds = PER_CALL
            + PER_ARC * squares * labels
            + first * (3.0 * pass + 2.0 * choice)
            + replicates * (passes * pass + choice)
            + drawn * PER_STEP * squares;
        let threads = run.threads() as f64;
        // Scores and proposals of the sentences in work, the passes, the kept arcs, and the result.
        let work = 32.0 * longest * longest + pass::bytes(longest, longest * kept, marginals || first > 0.0);
        let arcs = replicates * total * (kept + 1.0) * 40.0;
        let results = match query {
            Query::LogPartition => 0.0,
            Query::Sample(count) => count as f64 * (total * 16.0 + batch * 1024.0),
            _ => 2.0 * model.bytes() as f64,
        };
        Forecast { bytes: threads * work + arcs + results + 65536.0, seconds, promise }
    }
}
