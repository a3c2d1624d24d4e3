//! Time and memory forecasts of the exact methods.

use super::prepared::{Algorithm, algorithm, conditions, rules};
use super::{Oracle, blocks, graph, layers, tours};
use crate::answer::Promise;
use crate::method::cost::oracle::{SECONDS_PER_ELEMENT, SECONDS_PER_STEP, SECONDS_PER_TERM};
use crate::method::space::choices::Plan;
use crate::method::space::{Distance, Scores, SpaceModel, condition, log_count_bound, marginals};
use crate::query::Query;
use crate::query::{Forecast, Forecasts};
use crate::run::Run;

impl Forecasts<SpaceModel> for Oracle {
    fn forecast(&self, model: &SpaceModel, query: Query, run: &Run) -> Forecast {
        let n = model.width() as f64;
        let query = query.at_most(log_count_bound(model.space()).unwrap_or(f64::INFINITY));
        // No amount of memory helps; the run itself reports the reason.
        let never = Forecast { bytes: 0.0, seconds: f64::INFINITY, promise: Promise::Exact };
        let draws = if let Query::Sample(count) = query { count as f64 } else { 0.0 };
        let ranked = if let Query::KBest(count) = query { count as f64 } else { 0.0 };
        let table = if query == Query::Marginals { 8.0 * marginals::entries(model) } else { 0.0 };
        let kept = !matches!(query, Query::LogPartition);
        let gradient = matches!(query, Query::FactorMarginals | Query::Marginals | Query::Entropy);
        let position = !matches!(
            model.scores(),
            Scores::Precedence(_) | Scores::Distance { distance: Distance::Kendall, .. }
        ) && conditions(model).is_empty();
        let sets = n.exp2();
        let (bytes, seconds) = match algorithm(model) {
            None => return never,
            Some(Algorithm::Graph) => return graph::forecast(model, query, run),
            Some(Algorithm::Single | Algorithm::Tree | Algorithm::Mallows) => {
                let each =
                    if matches!(model.scores(), Scores::Distance { .. }) { n * n * 1e-10 } else { 0.0 };
                let kendall = matches!(model.scores(), Scores::Distance { distance: Distance::Kendall, .. });
                let walks = match query {
                    Query::Marginals if kendall => 0.5 * SECONDS_PER_STEP * n.powi(3),
                    Query::KBest(_) if position && matches!(model.scores(), Scores::Distance { .. }) => {
                        0.2 * SECONDS_PER_STEP * ranked * n.powi(4)
                    }
                    _ => 0.0,
                };
                let pairs = if kendall && query == Query::Marginals { 8.0 * n * n } else { 0.0 };
                let bytes = 24.0 * n * (1.0 + ranked) + pairs;
                (bytes, SECONDS_PER_ELEMENT * n * (draws + 3.0 * ranked + 1.0) + draws * each + walks)
            }
            Some(Algorithm::Counted) => {
                let (_, most) = condition::sizes(model.structures().base(), conditions(model));
                let entries = Plan::entries(model.width(), most);
                let tables = if gradient { 2.0 } else { 1.0 };
                let walks = SECONDS_PER_TERM * n * (draws + 8.0 * ranked);
                let bytes = 8.0 * entries * tables + 64.0 * n * (1.0 + ranked);
                (bytes, 3.0 * SECONDS_PER_TERM * entries * tables + walks)
            }
            // The best assignment needs no sums.
            Some(Algorithm::Orders) if query == Query::Map && position => {
                (8.0 * n * n, SECONDS_PER_STEP * n.powi(3))
            }
            Some(Algorithm::Orders) if ranked > 0.0 && position => {
                (8.0 * n * n + 16.0 * ranked * n * n, 0.2 * SECONDS_PER_STEP * ranked * n.powi(4))
            }
            Some(Algorithm::Orders | Algorithm::Tours | Algorithm::Blocks)
                if model.width() > layers::MOST =>
            {
                return never;
            }
            Some(Algorithm::Orders) => {
                let widest = sets / (0.5 * std::f64::consts::PI * n.max(1.0)).sqrt();
                let more = if gradient { 0.6 * n } else { 1.0 };
                let bytes = if kept { 8.0 * (sets + 2.0 * widest) } else { 16.0 * widest };
                (bytes, SECONDS_PER_TERM * 0.5 * n * sets * more + draws * 1e-7 * n * n)
            }
            Some(Algorithm::Tours) => (
                tours::bytes(model.width()) * if kept { 2.0 } else { 1.0 },
                SECONDS_PER_TERM * 0.25 * n * n * sets * if gradient { 3.0 } else { 1.0 },
            ),
            Some(Algorithm::Blocks) => {
                let levels = blocks::levels(&rules(model)) as f64;
                let sums = SECONDS_PER_TERM * 0.15 * 3f64.powf(n) * if gradient { 3.0 } else { 1.0 };
                (8.0 * (1.0 + 2.0 * levels) * sets, levels * sums + draws * 5e-9 * sets)
            }
        };
        // The search over sets, tours or blocks; the other methods list their candidates.
        let sets = matches!(algorithm(model), Some(Algorithm::Orders | Algorithm::Tours | Algorithm::Blocks))
            && !position;
        let listed = if sets { 1e-7 * ranked * n * n } else { 0.0 };
        // Successors of each state on the paths.
        let ways = if algorithm(model) == Some(Algorithm::Blocks) { n.exp2() } else { n };
        let open = if sets { 48.0 * ranked * n * ranked.min(ways) } else { 0.0 };
        Forecast {
            bytes: bytes + table + open + 8.0 * (draws + ranked) * n,
            seconds: seconds + listed,
            promise: Promise::Exact,
        }
    }
}
