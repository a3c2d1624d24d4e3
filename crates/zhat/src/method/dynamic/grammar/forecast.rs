//! Forecasts of memory and time.

use super::{InsideOutside, TreeChoice, free};
use crate::answer::Promise;
use crate::method::cost::inside_outside::{
    PER_CALL, PER_DUAL, PER_EXP, PER_LISTED, PER_MAXIMUM, PER_PRODUCT, PER_TERM,
};
use crate::model::{Hypertree, Rules, Symbols};
use crate::numeric::{Real, padded_row};
use crate::query::{Forecast, Forecasts, Query};
use crate::run::Run;

impl<F: Real> Forecasts<Hypertree<F>> for InsideOutside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        let Symbols { all, heads, tags } = model.symbols();
        let (s, n, p) = (all as f64, heads as f64, tags as f64);
        let power = |k: i32| model.lengths().iter().map(|&length| (length as f64).powi(k)).sum::<f64>();
        let (cubes, squares, words) = (power(3) / 6.0, power(2) / 2.0, power(1));
        let (threads, batch, size) = (run.threads() as f64, model.batch() as f64, size_of::<F>() as f64);
        let sets = if model.rules().per_sentence(model.symbols()) { batch } else { 1.0 };
        // Queries about paths of scores need rules that are sums of scores.
        let additive = matches!(query, Query::Entropy | Query::KBest(_));
        let rank = model.rules().rank().filter(|&rank| rank == 1 || !additive).map(|rank| rank as f64);
        let symbols = !matches!(query, Query::LogPartition | Query::FactorMarginals | Query::Entropy);
        let collapsed = rank.is_some() && !symbols && !model.spans().by_symbol() && model.unary().is_none();
        let row = if collapsed { rank.unwrap_or(1.0) } else { n };
        // Products, terms of other sums, weights and numbers in charts and tables of rules.
        let (products, terms, weights, table) = match (rank, model.rules()) {
            (Some(r), _) => {
                let sums = if collapsed {
                    2.0 * n * r * r * sets + 2.0 * squares * r * r
                } else {
                    3.0 * squares * n * r
                };
                (
                    sums + 2.0 * words * p * r,
                    cubes * r,
                    sets * (n + 2.0 * s) * r,
                    sets * (n + 2.0 * s) * r + 3.0 * squares * r,
                )
            }
            (None, Rules::Sparse { rules, .. }) => {
                let count = rules.len() as f64;
                (0.0, cubes * count + squares * count, count, 6.0 * count)
            }
            _ => {
                let products = cubes * n * n + squares * n * n * n + words * n * (2.0 * n * p + p * p);
                // Rows of pairs are padded; two tables per word, and the pairs of spans of one width.
                let width = padded_row::<F>(heads) as f64;
                (
                    products,
                    squares * n * n,
                    sets * n * s * s,
                    sets * (2.0 * n * s * s + n * (2.0 * n + width) * (width - n))
                        + words * n * (padded_row::<F>(all) as f64 + 3.0 * width),
                )
            }
        };
        let listed = matches!(model.rules(), Rules::Sparse { .. });
        let (passes, number) = match query {
            Query::LogPartition => (1.5, size),
            Query::Map | Query::KBest(_) => (1.0, 8.0),
            Query::Sample(_) => (1.0, size),
            Query::Entropy => (3.0, 16.0),
            _ => (3.5, size),
        };
        let (per_product, per_term) = match query {
            Query::Map | Query::KBest(_) => (PER_MAXIMUM, PER_LISTED),
            Query::Entropy => (PER_DUAL, PER_LISTED),
            _ => (PER_PRODUCT * size / 8.0, if listed { PER_LISTED } else { PER_TERM }),
        };
        let states = match query {
            Query::Sample(count) => {
                count as f64
                    * (squares * if rank.is_some() { rank.unwrap_or(1.0) } else { n * s } * 2e-9
                        + words * n * 4e-9)
            }
            Query::KBest(k) => squares * n.min(k as f64) * s * s * 4e-9 + k as f64 * words * 2e-7,
            _ => 0.0,
        };
        let chart = squares * row;
        let spans =
            if model.spans().by_symbol() { 3.0 * 8.0 * n * model.positions() as f64 * batch } else { 0.0 };
        let seconds = PER_CALL * batch
            + (passes * (per_product * products + per_term * terms) + states) / threads
            + PER_EXP * (weights + words * p + chart * 3.0);
        let charts = match query {
            Query::LogPartition | Query::Map | Query::KBest(_) | Query::Sample(_) => 1.0,
            _ => 2.0,
        };
        let marginals = batch * (model.positions() as f64).powi(2) * s * size;
        let results = match query {
            Query::Marginals => marginals,
            Query::FactorMarginals => 2.0 * model.values() as f64 * size + chart * size,
            Query::KBest(k) => k as f64 * words * 64.0,
            Query::Sample(count) => count as f64 * words * 64.0,
            _ => 0.0,
        };
        // Expanded rules, as scores and as weights.
        let expanded = if additive && model.rules().rank().is_some_and(|rank| rank > 1) {
            sets * n * s * s * size
        } else {
            0.0
        };
        let doubles = match model.rules() {
            Rules::Any => model.lengths().iter().map(|&length| free::bytes(length as f64)).sum(),
            _ if rank.is_none() => weights * 8.0,
            _ => 0.0,
        };
        let bytes = number * (table * charts + charts * chart + words * (p + s) + 4096.0)
            + spans
            + results
            + expanded
            + doubles
            + 65536.0;
        let hidden = model.rules().rank().is_some_and(|rank| rank > 1);
        let promise = match (query, self.tree) {
            (Query::Map, TreeChoice::Expected) => Promise::Heuristic,
            (Query::Map, TreeChoice::Derivation) if hidden => Promise::Heuristic,
            (Query::Map, TreeChoice::Best) if hidden => Promise::Bounds,
            _ => Promise::Exact,
        };
        Forecast { bytes, seconds, promise }
    }
}
