//! Forecasts of memory and time.

use super::memory::{self, Sizes};
use super::pass::Purpose;
use super::solve::GROUP;
use super::{InsideOutside, RandomizedInside, SpanProposal, TreeChoice, kept};
use crate::answer::Promise;
use crate::method::cost::inside_outside::{
    PER_CALL, PER_DUAL, PER_EXP, PER_FACTOR, PER_LISTED, PER_MAXIMUM, PER_PRODUCT, PER_PROPOSAL, PER_TERM,
};
use crate::model::{Hypertree, Rules, Symbols};
use crate::numeric::Real;
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
        // Products, terms of other sums, and weights.
        let (products, terms, weights) = match (rank, model.rules()) {
            (Some(r), _) => {
                let sums = if collapsed {
                    2.0 * n * r * r * sets + 2.0 * squares * r * r
                } else {
                    3.0 * squares * n * r
                };
                (sums + 2.0 * words * p * r, cubes * r, sets * (n + 2.0 * s) * r)
            }
            (None, Rules::Sparse { rules, .. }) => {
                let count = rules.len() as f64;
                (0.0, cubes * count + squares * count, count)
            }
            _ => {
                let products = cubes * n * n + squares * n * n * n + words * n * (2.0 * n * p + p * p);
                (products, squares * n * n, sets * n * s * s)
            }
        };
        let listed = matches!(model.rules(), Rules::Sparse { .. });
        let (passes, number) = match query {
            Query::LogPartition => (1.5, memory::number(model, false)),
            Query::Map | Query::KBest(_) => (1.0, 8.0),
            Query::Sample(_) => (1.0, memory::number(model, false)),
            Query::Entropy => (3.0, memory::number(model, true)),
            _ => (3.5, memory::number(model, false)),
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
        let seconds = PER_CALL * batch
            + (passes * (per_product * products + per_term * terms) + states) / threads
            + PER_EXP * (weights + words * p + chart * 3.0);
        let sizes = Sizes::new(model, rank, row, run.threads());
        // The gradient as a result.
        let gradient = sizes.gradient(model);
        let marginals = batch * (model.positions() as f64).powi(2) * s * size;
        let results = match query {
            Query::Marginals => marginals,
            Query::FactorMarginals => gradient,
            Query::KBest(k) => 2.0 * k as f64 * words * 64.0,
            Query::Sample(count) => 2.0 * count as f64 * words * 64.0,
            _ => 0.0,
        };
        // Sums whose parts may have underflowed are certified by an outside pass.
        let backwards = !matches!(query, Query::Map | Query::KBest(_));
        let charts = match model.rules() {
            Rules::Any if model.unary().is_none() && !matches!(query, Query::Map | Query::KBest(_)) => {
                let counts = if query == Query::FactorMarginals { gradient } else { 0.0 };
                memory::without_rules(model, &sizes) + counts
            }
            _ => {
                let (shared, own) = sizes.products(model, number);
                let outside = match backwards {
                    true => sizes.outside(model, number, false, query == Query::FactorMarginals),
                    false => 0.0,
                };
                sizes.table(model, number)
                    + shared
                    + own
                    + sizes.chart(number)
                    + sizes.inside(model, number, false).max(outside)
            }
        };
        // Expanded rules, as scores and as weights.
        let expanded = if additive && model.rules().rank().is_some_and(|rank| rank > 1) {
            sets * n * s * s * size
        } else {
            0.0
        };
        let bytes = charts + results + expanded + 65536.0;
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

/// The number of bytes of a chosen symbol with its weight, and of the list of those of a word or span.
const PER_CHOICE: f64 = 24.0;
const PER_CELL: f64 = 160.0;

impl<F: Real> Forecasts<Hypertree<F>> for RandomizedInside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        let promise = match (self.selection.is_unbiased(), query) {
            (true, Query::LogPartition | Query::Sample(_)) => Promise::Unbiased,
            _ => Promise::Heuristic,
        };
        let Symbols { all, heads, tags } = model.symbols();
        let most = heads.max(tags);
        let count = self.states.of(most);
        // Selections keep about `count`.
        let chosen = |of: usize| (count + 1).min(of) as f64;
        let (size, number) = (size_of::<F>() as f64, memory::number(model, query == Query::Entropy));
        let additive = query == Query::Entropy;
        let rank = model.rules().rank().filter(|&rank| rank == 1 || !additive).map(|rank| rank as f64);
        let purpose = match query {
            Query::LogPartition | Query::FactorMarginals | Query::Entropy => Purpose::Sums,
            _ => Purpose::Symbols,
        };
        let all_kept = rank.is_some() && self.keeps_all(model, purpose);
        let row = if all_kept { rank.unwrap_or(1.0) } else { heads as f64 };
        let own = Sizes::new(model, rank, row, run.threads());
        let dense = rank.is_none() && !matches!(model.rules(), Rules::Sparse { .. });
        let compact = !own.unary && !all_kept && (!dense || kept::pays(own.longest as usize, heads, count));
        let few = match compact {
            true => Sizes { row: chosen(heads), word_row: chosen(tags), ..own },
            false => own,
        };
        let replicates = self.replicate_count() as f64;
        let parts = own.words + own.spans;
        let backwards = matches!(query, Query::Marginals | Query::FactorMarginals | Query::Entropy);

        // The sets of choices of all replicates are solved together, or one after the other.
        let joined = query == Query::LogPartition && compact;
        let at_once = if joined { replicates } else { 1.0 };

        // Memory: choices of all replicates, charts of those that are needed later, and the work on some.
        let choices = if joined { 2.0 } else { 1.0 }
            * replicates
            * (own.batch * own.positions.powi(2) * 48.0
                + parts * PER_CELL
                + (own.spans * chosen(heads) + own.words * chosen(tags)) * PER_CHOICE)
            + own.threads * most as f64 * 64.0;
        let charts = if query == Query::LogPartition && !compact { 1.0 } else { replicates };
        let (shared, products) = if compact { (0.0, 0.0) } else { few.products(model, number) };
        let outside = few.outside(model, number, compact, query == Query::FactorMarginals);
        let results = match query {
            Query::Marginals => own.batch * own.positions.powi(2) * all as f64 * size,
            // The sum over replicates and the gradient of one.
            Query::FactorMarginals => 2.0 * own.gradient(model),
            Query::Sample(count) => 2.0 * count as f64 * own.words * 64.0,
            _ => 0.0,
        };
        let expanded = if additive && model.rules().rank().is_some_and(|rank| rank > 1) {
            own.sets * heads as f64 * (all as f64).powi(2) * size
        } else {
            0.0
        };
        // Groups of sentences may make the table at once.
        let copies = match own.sets > 1.0 {
            true => 1.0,
            false => (at_once * own.batch / GROUP as f64).ceil().min(own.threads) / own.active,
        };
        let main = copies * few.table(model, number)
            + shared
            + charts * (few.chart(number) + products)
            + at_once * few.inside(model, number, compact).max(outside);
        let first = if self.proposal == SpanProposal::TwoPass {
            // Rows of all symbols are kept twice: with and without the weights of choices.
            let own = Sizes { row: heads as f64, ..own };
            let number = memory::number(model, false);
            let inside = own.inside(model, number, false);
            let (shared, products) = own.products(model, number);
            own.table(model, number)
                + shared
                + products
                + 2.0 * own.chart(number)
                + inside.max(own.outside(model, number, false, false))
        } else {
            0.0
        };
        let guided = match self.proposal {
            SpanProposal::TwoPass => {
                8.0 * (own.spans * heads as f64 + own.words * tags as f64) + 32.0 * parts
            }
            _ => 0.0,
        };
        let bytes = choices + guided + first.max(main) + results + expanded + 65536.0;

        // Time.
        let exact = |query| InsideOutside::default().forecast(model, query, run).seconds;
        let passes = if backwards { 3.5 } else { 1.5 };
        let (k, words_kept) = (chosen(heads), chosen(tags));
        let cubes: f64 = model.lengths().iter().map(|&length| (length as f64).powi(3) / 6.0).sum();
        let share = (k.max(words_kept) / heads.min(tags).max(1) as f64).min(1.0);
        let sums = match (rank, model.rules()) {
            _ if !compact => exact(query) * own.threads / passes,
            (Some(r), _) => {
                PER_TERM * cubes * r + PER_FACTOR * r * (3.0 * own.spans * k + 2.0 * own.words * words_kept)
            }
            (None, Rules::Sparse { rules, .. }) => {
                PER_LISTED * rules.len() as f64 * share * (cubes + own.spans)
            }
            _ => kept::PER_WEIGHT * PER_PRODUCT * cubes * k * k.max(words_kept).powi(2),
        };
        let weights = own.rules(model);
        let first = if self.proposal == SpanProposal::TwoPass { exact(Query::Marginals) } else { 0.0 };
        let choice = (own.spans * heads as f64 + own.words * tags as f64) * PER_PROPOSAL;
        let seconds = first
            + PER_CALL * own.batch
            + PER_EXP * weights
            + replicates * (passes * sums + choice) / own.threads
            + 1e-4;
        Forecast { bytes, seconds, promise }
    }
}
