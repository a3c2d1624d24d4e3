//! Forecasts of memory and time.

use super::divergence::same_form;
use super::memory::{self, Form, Need, Sizes};
use super::pass::Purpose;
use super::solve::GROUP;
use super::{InsideOutside, RandomizedInside, SpanProposal, TreeChoice, kept};
use crate::answer::Promise;
use crate::method::cost::inside_outside::{
    PER_CALL, PER_DUAL, PER_EXP, PER_FACTOR, PER_LISTED, PER_LISTED_MAXIMUM, PER_MAXIMUM, PER_PRODUCT,
    PER_PROPOSAL, PER_TERM,
};
use crate::model::{Hypertree, Symbols};
use crate::numeric::Real;
use crate::query::{Forecast, Forecasts, Operation, Query};
use crate::run::Run;

impl<F: Real> Forecasts<Hypertree<F>> for InsideOutside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        if (query, self.tree) == (Query::Map, TreeChoice::Expected) {
            let nodes = self.forecast(model, Query::Marginals, run);
            return Forecast { promise: Promise::Heuristic, ..nodes };
        }
        let Symbols { all, heads, tags } = model.symbols();
        let (s, n, p) = (all as f64, heads as f64, tags as f64);
        let power = |k: i32| model.lengths().iter().map(|&length| (length as f64).powi(k)).sum::<f64>();
        let (cubes, squares, words) = (power(3) / 6.0, power(2) / 2.0, power(1));
        let (threads, batch, size) = (run.threads() as f64, model.batch() as f64, size_of::<F>() as f64);
        let sets = if model.rules().per_sentence(model.symbols()) { batch } else { 1.0 };
        let hidden = model.rules().rank().is_some_and(|rank| rank > 1);
        // Queries about paths of scores need rules that are sums of scores, and so does the best tree with unary
        // rules.
        let searched = query == Query::Map && self.tree == TreeChoice::Best && hidden;
        let additive =
            matches!(query, Query::Entropy | Query::KBest(_)) || (searched && model.unary().is_some());
        let form = if additive { Form::additive(model.rules()) } else { Form::of(model.rules()) };
        let need = need(query);
        let own = memory::sizes(model, form, need, run.threads());
        let row = own.row;
        let collapsed = !need.symbols && !own.by_symbol && !own.unary;
        // Products, terms of other sums, and weights.
        let (products, terms, weights) = match form {
            Form::Rank(r) => {
                let sums = if collapsed {
                    2.0 * n * r * r * sets + 2.0 * squares * r * r
                } else {
                    3.0 * squares * n * r
                };
                (sums + 2.0 * words * p * r, cubes * r, sets * (n + 2.0 * s) * r)
            }
            Form::Listed(count) => (0.0, cubes * count + squares * count, count),
            Form::Dense => {
                let products = cubes * n * n + squares * n * n * n + words * n * (2.0 * n * p + p * p);
                (products, squares * n * n, sets * n * s * s)
            }
        };
        let listed = matches!(form, Form::Listed(_));
        let passes = match query {
            Query::LogPartition => 1.5,
            Query::Map | Query::KBest(_) | Query::Sample(_) => 1.0,
            Query::Entropy => 3.0,
            _ => 3.5,
        };
        let (per_product, per_term) = match query {
            Query::Map | Query::KBest(_) => {
                (PER_MAXIMUM, if listed { PER_LISTED_MAXIMUM } else { PER_LISTED })
            }
            Query::Entropy => (PER_DUAL, PER_LISTED),
            _ => (PER_PRODUCT * size / 8.0, if listed { PER_LISTED } else { PER_TERM }),
        };
        let states = match query {
            Query::Sample(count) => {
                count as f64
                    * (squares * if let Form::Rank(rank) = form { rank } else { n * s } * 2e-9
                        + words * n * 4e-9)
            }
            Query::KBest(k) => squares * n.min(k as f64) * s * s * 4e-9 + k as f64 * words * 2e-7,
            _ => 0.0,
        };
        // A search looks at every span and symbol for its bounds, and then at some candidates: at most `steps` times
        // the symbols, and not many more than may be open. It ends with the time budget.
        let search = match form {
            Form::Rank(r) if searched => {
                let bounds = PER_LISTED * r * (squares * (n + 2.0 * s) + cubes);
                let candidates = PER_EXP * r * batch * memory::candidates(model, self.steps);
                let most = run.time().map_or(f64::INFINITY, |time| SEARCH_SHARE * time.as_secs_f64());
                ((bounds + candidates) / threads.min(batch)).min(most)
            }
            _ => 0.0,
        };
        let chart = squares * row;
        let seconds = search
            + PER_CALL * batch
            + (passes * (per_product * products + per_term * terms) + states) / threads
            + PER_EXP * (weights + words * p + chart * 3.0);
        // The gradient as a result.
        let marginals = batch * (model.positions() as f64).powi(2) * s * size;
        let results = match query {
            Query::Marginals => marginals,
            Query::FactorMarginals => own.gradient(model),
            Query::KBest(k) => 2.0 * k as f64 * words * 64.0 + memory::ranked(model, k, run.threads()),
            Query::Sample(count) => 2.0 * count as f64 * words * 64.0,
            Query::Map if searched => 128.0 * words + memory::searched(model, self.steps, run.threads()),
            Query::Map => 128.0 * words,
            _ => 0.0,
        };
        let charts = memory::charts(model, form, need, run.threads());
        // The factors and bounds of a search. It ends before there are charts.
        let tables = match form {
            Form::Rank(r) if searched => {
                let parts = own.longest * (own.longest + 1.0) / 2.0;
                threads.min(batch) * (16.0 * r * (n + s) + parts * (8.0 * s + 16.0 * r + 256.0))
            }
            _ => 0.0,
        };
        let bytes = charts.max(tables) + results + memory::expanded(model, form) + SLACK;
        let promise = match (query, self.tree) {
            (Query::Map, TreeChoice::Derivation) if hidden => Promise::Heuristic,
            (Query::Map, TreeChoice::Best) if searched && !additive => Promise::Bounds,
            _ => Promise::Exact,
        };
        Forecast { bytes, seconds, promise }
    }
}

fn need(query: Query) -> Need {
    let symbols = !matches!(query, Query::LogPartition | Query::FactorMarginals | Query::Entropy);
    Need {
        best: matches!(query, Query::Map | Query::KBest(_)),
        symbols,
        slopes: query == Query::Entropy,
        counts: query == Query::FactorMarginals,
    }
}

/// Queries about one or two models that are no [`Query`].
impl InsideOutside {
    /// The bytes of a divergence of q from p, or of the expectation of the scores q. If `other` is set, log Z of q
    /// is needed.
    pub(super) fn bytes_of_two<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>, other: bool, run: &Run) -> f64 {
        let (of_p, of_q) = forms(p, q);
        let threads = run.threads();
        let sums = memory::charts(p, of_p, Need { slopes: true, ..Need::default() }, threads);
        let other = if other { memory::charts(q, of_q, Need::default(), threads) } else { 0.0 };
        let support = memory::support((p, of_p), (q, of_q), threads);
        // The tables of one model are held while those of the other are made.
        let tables = 1.5 * memory::table(p, of_p);
        memory::expanded(p, of_p) + memory::expanded(q, of_q) + tables + sums.max(other).max(support) + SLACK
    }

    /// The bytes of a value and its gradient; `second` is the second model, if there is one.
    pub(super) fn bytes_of_gradient<F: Real>(
        &self,
        operation: Operation,
        first: &Hypertree<F>,
        second: Option<&Hypertree<F>>,
        run: &Run,
    ) -> f64 {
        let of = |query| self.forecast(first, query, run).bytes;
        match (operation, second) {
            (Operation::LogPartition, _) => of(Query::FactorMarginals),
            (Operation::Entropy, _) | (_, None) => of(Query::Entropy).max(Self::bytes_of_slopes(first, run)),
            (_, Some(second)) => {
                let divergence = operation != Operation::Expectation;
                let value = Self::bytes_of_two(first, second, divergence, run);
                value.max(Self::bytes_of_two_slopes(first, second, divergence, run))
            }
        }
    }

    /// The bytes of the gradient of an entropy.
    fn bytes_of_slopes<F: Real>(model: &Hypertree<F>, run: &Run) -> f64 {
        let form = Form::additive(model.rules());
        let (charts, gradient) = slopes(model, form, run);
        memory::expanded(model, form) + charts.max(restored(model, form)) + gradient + SLACK
    }

    /// The bytes of the gradients of a divergence or of an expectation; those of a divergence have terms of both
    /// models in the gradient with respect to q.
    fn bytes_of_two_slopes<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>, divergence: bool, run: &Run) -> f64 {
        let (of_p, of_q) = forms(p, q);
        let need = Need { counts: true, ..Need::default() };
        let (charts, to_p) = slopes(p, of_p, run);
        let to_q = memory::sizes(q, of_q, need, run.threads()).gradient(q);
        let counts_of_p = memory::charts(p, of_p, need, run.threads());
        let second = match divergence {
            true => memory::charts(q, of_q, need, run.threads()).max(to_q + counts_of_p),
            false => counts_of_p,
        };
        let restored = restored(p, of_p) + restored(q, of_q);
        memory::expanded(p, of_p)
            + memory::expanded(q, of_q)
            + 3.0 * memory::table(p, of_p)
            + to_p
            + charts.max(to_q + second.max(restored))
            + SLACK
    }
}

/// The largest part of the time budget that is forecast for a search, which ends with it.
const SEARCH_SHARE: f64 = 0.5;

/// Bytes of small allocations.
const SLACK: f64 = 98304.0;

/// The forms of the rules of two models after [`of_one_form`](super::divergence::of_one_form).
fn forms<F: Real>(p: &Hypertree<F>, q: &Hypertree<F>) -> (Form, Form) {
    match same_form(p, q) {
        true => (Form::additive(p.rules()), Form::additive(q.rules())),
        false => (Form::Dense, Form::Dense),
    }
}

/// The bytes of the charts of the gradient of a derivative, and of this gradient.
fn slopes<F: Real>(model: &Hypertree<F>, form: Form, run: &Run) -> (f64, f64) {
    let need = Need { slopes: true, counts: true, ..Need::default() };
    let charts = memory::charts(model, form, need, run.threads());
    (charts, memory::sizes(model, form, need, run.threads()).gradient(model))
}

/// The bytes of the gradient of rules in the form of the model, if they were computed with in another one: in
/// double precision, then as results.
fn restored<F: Real>(model: &Hypertree<F>, form: Form) -> f64 {
    if form == Form::of(model.rules()) { 0.0 } else { model.rules().len() as f64 * 16.0 }
}

/// The number of bytes of a chosen symbol with its weight, and of the list of those of a word or span.
const PER_CHOICE: f64 = 24.0;
const PER_CELL: f64 = 160.0;

impl<F: Real> Forecasts<Hypertree<F>> for RandomizedInside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        self.forecast_of(model, query, query == Query::FactorMarginals, run)
    }
}

impl RandomizedInside {
    /// The bytes of the gradient of the entropy.
    pub(super) fn bytes_of_entropy_gradient<F: Real>(&self, model: &Hypertree<F>, run: &Run) -> f64 {
        let form = Form::additive(model.rules());
        self.forecast_of(model, Query::Entropy, true, run).bytes + restored(model, form)
    }

    /// The forecast of a query, or with `gradient` that of the gradient of what it finds.
    fn forecast_of<F: Real>(
        &self,
        model: &Hypertree<F>,
        query: Query,
        gradient: bool,
        run: &Run,
    ) -> Forecast {
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
        let form = if additive { Form::additive(model.rules()) } else { Form::of(model.rules()) };
        let rank = if let Form::Rank(rank) = form { Some(rank) } else { None };
        let purpose = match query {
            Query::LogPartition | Query::FactorMarginals | Query::Entropy => Purpose::Sums,
            _ => Purpose::Symbols,
        };
        let all_kept = rank.is_some() && self.keeps_all(model, purpose);
        let row = if all_kept { rank.unwrap_or(1.0) } else { heads as f64 };
        let own = Sizes::new(model, form, row, run.threads());
        let dense = form == Form::Dense;
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
            * (own.batch * (own.positions.powi(2) * 48.0 + 3.0 * memory::PER_SENTENCE)
                + parts * PER_CELL
                + (own.spans * chosen(heads) + own.words * chosen(tags)) * PER_CHOICE)
            + own.threads * most as f64 * 64.0;
        let charts = if query == Query::LogPartition && !compact { 1.0 } else { replicates };
        let (shared, products) = if compact { (0.0, 0.0) } else { few.products::<F>(number) };
        let outside = few.outside::<F>(number, compact, gradient);
        let results = match query {
            Query::Marginals => own.batch * own.positions.powi(2) * all as f64 * size,
            // The sum over replicates and the gradient of one; own rules of sentences are collected apart first.
            _ if gradient => own.gradient(model) * if own.sets > 1.0 { 6.5 } else { 2.0 },
            Query::Sample(count) => 2.0 * count as f64 * own.words * 64.0,
            _ => 0.0,
        };
        let expanded = memory::expanded(model, form);
        // Groups of sentences may make the table at once.
        let copies = match own.sets > 1.0 {
            true => 1.0,
            false => (at_once * own.batch / GROUP as f64).ceil().min(own.threads) / own.active,
        };
        let main = copies * few.table(number)
            + shared
            + charts * (few.chart(number) + products)
            + at_once * few.inside::<F>(number, compact).max(outside);
        let first = if self.proposal == SpanProposal::TwoPass {
            // Rows of all symbols are kept twice: with and without the weights of choices.
            let own = Sizes { row: heads as f64, ..own };
            let number = memory::number(model, false);
            let inside = own.inside::<F>(number, false);
            let (shared, products) = own.products::<F>(number);
            own.table(number)
                + shared
                + products
                + 2.0 * own.chart(number)
                + inside.max(own.outside::<F>(number, false, false))
        } else {
            0.0
        };
        let guided = match self.proposal {
            SpanProposal::TwoPass => {
                8.0 * (own.spans * heads as f64 + own.words * tags as f64) + 32.0 * parts
            }
            _ => 0.0,
        };
        let bytes = choices + guided + first.max(main) + results + expanded + SLACK;

        // Time.
        let exact = |query| InsideOutside::default().forecast(model, query, run).seconds;
        let passes = if backwards { 3.5 } else { 1.5 };
        let (k, words_kept) = (chosen(heads), chosen(tags));
        let cubes: f64 = model.lengths().iter().map(|&length| (length as f64).powi(3) / 6.0).sum();
        let share = (k.max(words_kept) / heads.min(tags).max(1) as f64).min(1.0);
        let sums = match form {
            _ if !compact => exact(query) * own.threads / passes,
            Form::Rank(r) => {
                PER_TERM * cubes * r + PER_FACTOR * r * (3.0 * own.spans * k + 2.0 * own.words * words_kept)
            }
            Form::Listed(count) => PER_LISTED * count * share * (cubes + own.spans),
            Form::Dense => kept::PER_WEIGHT * PER_PRODUCT * cubes * k * k.max(words_kept).powi(2),
        };
        let weights = own.rules();
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
