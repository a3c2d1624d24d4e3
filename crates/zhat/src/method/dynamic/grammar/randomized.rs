//! Randomized inside: the exact algorithm on a few randomly chosen symbols of each word and span.
//!
//! For every word and span, a set of about K symbols is chosen with weights w that make sums over it unbiased
//! (`randomized::select`). Then
//!
//!   Ẑ = Σ_y exp score(y) · Π_nodes w(node),   E\[Ẑ\] = Z,
//!
//! because the nodes of a tree have different words, and their symbols are chosen independently. It is the
//! partition function of the same model with log w added to the scores of spans, so all products of likely and
//! of sampled symbols are in it (the published recursion, Eq. 18, leaves out those of a likely and a sampled
//! symbol, and its estimate is too small; see `published`). The exact passes on it give the gradient, the entropy log Ẑ −
//! Ê\[score\] and samples, for fixed choices.
//!
//! Proposals: *uniform*; *uniform-tail*, in which the symbols with the largest scores are kept and the others are
//! equal; *local*, the scores of words and spans; *two-pass*, inside times outside of a first
//! pass with its own random numbers, 0.95 of it and 0.05 of *local*, which keeps it positive wherever it must
//! be.
//!
//! Charts have rows of the chosen symbols only, and the weights of rules are computed once for all replicates. Time
//! per replicate T³·R + T²·K·R for rules of rank R, T³·K³ for dense rules (by matrix products over all symbols,
//! T³·N² + T²·N³, where these are faster; see `kept`), and T³ times the number of pairs with a kept left symbol for
//! listed rules; T²·N for the choice. Memory T²·K beside the rules. *two-pass* adds one pass over all symbols, shared
//! by the replicates, with the time and memory of an exact one. Unary rules give values to symbols that were not
//! chosen, so with them charts have all symbols. Guarantee of log Z: unbiased with replicates and Markov's lower bound;
//! ratios (gradient, entropy) are right in the limit.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML 2022,
//! Algorithm 2.

use std::borrow::Cow;
use std::sync::Arc;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::choices::{Choices, Kept};
use super::counts::add_scaled;
use super::derive::AtRandom;
use super::divergence::{additive, to_form};
use super::kept;
use super::no_parse;
use super::pass::Purpose;
use super::proposals::{self, Stored};
use super::shared::Shared;
use super::solve::{Passes, Solutions, solve_chosen};
use crate::answer::{Answer, Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::randomized::{Chosen, Selection, States, mixture};
use crate::method::sampling::unbiased;
use crate::model::{Hypertree, Rules};
use crate::numeric::{self, Real};
use crate::options::{COUNT, INSIDE_UNIT, Options, Range, options};
use crate::query::sequence::PathSamples;
use crate::query::tree::{HypertreeGradient, ParseTree, SpanMarginals};
use crate::query::{
    Differentiable, Entropy, FactorMarginals, Forecasts, LogPartition, Marginals, Operation, Query, Sample,
    Tape, not_differentiable,
};
use crate::random::Streams;
use crate::run::{Clock, Run};

pub(crate) const NAME: &str = "randomized-inside";

/// Weight of inside times outside in the two-pass proposal; the rest is local.
pub(crate) const GUIDED: f64 = 0.95;

/// The proposal distribution over the symbols of a word or span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum SpanProposal {
    /// All symbols with equal probability.
    Uniform,
    /// The scores of the word or span.
    #[default]
    Local,
    /// Inside times outside of a first pass.
    TwoPass,
    /// The symbols with the largest scores with certainty, all others with equal probability: the published
    /// choice. `top` is the number of the former.
    UniformTail,
}

/// Randomized inference on trees over words and on projective dependency trees.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct RandomizedInside {
    /// Number of symbols kept for each word and span, or of heads for each word of a dependency tree: a count, or
    /// a fraction of all (but at least 64).
    pub states: States,
    /// Proposal distribution for the choice of symbols.
    pub proposal: SpanProposal,
    /// Selection rule.
    pub selection: Selection,
    /// For `draws`: number of symbols kept with certainty; by default all but one.
    pub top: Option<usize>,
    /// Number of independent replicates. With a single replicate, the standard error is unknown.
    pub replicates: usize,
    /// Confidence of the lower bound, between 0 and 1.
    pub confidence: f64,
}

impl Default for RandomizedInside {
    fn default() -> Self {
        RandomizedInside {
            states: States::Fraction(0.1),
            proposal: SpanProposal::default(),
            selection: Selection::default(),
            top: None,
            replicates: 8,
            confidence: 0.95,
        }
    }
}

options!(RandomizedInside {
    states: States => Range::CountOrFraction,
    proposal: SpanProposal,
    selection: Selection,
    top: Option<usize> => COUNT,
    replicates: usize => Range::whole(1, 1_000_000),
    confidence: f64 => INSIDE_UNIT,
});

/// The choices of all replicates and their estimates.
pub(super) struct Replicates<F: Real> {
    pub choices: Vec<Arc<Choices>>,
    /// One per replicate, if they are needed.
    solutions: Vec<Solutions<F>>,
    /// log Ẑᵣ of every sentence, by replicate.
    pub logs: Vec<Vec<f64>>,
    count: usize,
}

impl<F: Real> Replicates<F> {
    pub fn of(&self, b: usize) -> Vec<f64> {
        self.logs.iter().map(|logs| logs[b]).collect()
    }

    /// log of the mean of the estimates of a sentence.
    pub fn log_partition(&self, b: usize) -> f64 {
        numeric::log_sum_exp(&self.of(b)) - (self.logs.len() as f64).ln()
    }

    /// Ẑᵣ/ΣẐ of every sentence.
    fn shares(&self, r: usize) -> Vec<f64> {
        let share = |b: usize| {
            let total = numeric::log_sum_exp(&self.of(b));
            if total == f64::NEG_INFINITY { 0.0 } else { (self.logs[r][b] - total).exp() }
        };
        (0..self.logs[r].len()).map(share).collect()
    }

    /// Êᵣ\[score\] of every sentence, by replicate, with solutions in the direction of the scores; and its mean by
    /// the shares of the replicates.
    fn mean_scores(&self, batch: usize) -> (Vec<Vec<f64>>, Vec<f64>) {
        let each: Vec<Vec<f64>> = self.solutions.iter().map(|own| own.means(batch)).collect();
        let shares: Vec<Vec<f64>> = (0..each.len()).map(|r| self.shares(r)).collect();
        let mean = |b: usize| {
            let parts = (0..each.len()).filter(|&r| shares[r][b] > 0.0);
            parts.map(|r| shares[r][b] * each[r][b]).sum::<f64>()
        };
        let means = (0..batch).map(mean).collect();
        (each, means)
    }

    /// log Ẑ − Ê\[score\] of every sentence.
    fn entropies(&self, batch: usize) -> Vec<f64> {
        let (_, means) = self.mean_scores(batch);
        let of = |b: usize| match self.log_partition(b) {
            f64::NEG_INFINITY => f64::NEG_INFINITY,
            log_z => log_z - means[b],
        };
        (0..batch).map(of).collect()
    }
}

/// Whether charts have chosen symbols only.
fn compact<F: Real>(model: &Hypertree<F>, choices: &[Arc<Choices>]) -> bool {
    let longest = model.lengths().iter().copied().max().unwrap_or(0);
    let most = choices.iter().map(|own| own.most()).max().unwrap_or(0);
    let dense = matches!(model.rules(), Rules::Dense(_));
    model.unary().is_none() && (!dense || kept::pays(longest, model.symbols().heads, most))
}

impl RandomizedInside {
    /// The number of replicates: one if nothing is chosen at random.
    pub(in crate::method::dynamic) fn replicate_count(&self) -> usize {
        if self.selection == Selection::Top { 1 } else { self.replicates }
    }

    /// Whether all symbols are kept, and the exact pass can sum the symbols out once: rules have a rank, scores of
    /// spans do not depend on the symbol, and the symbols are not asked for.
    pub(super) fn keeps_all<F: Real>(&self, model: &Hypertree<F>, purpose: Purpose) -> bool {
        let most = model.symbols().heads.max(model.symbols().tags);
        let apart = model.rules().rank().is_some() && !model.spans().by_symbol() && model.unary().is_none();
        apart && purpose == Purpose::Sums && self.states.of(most) >= most
    }

    /// The number of symbols that `draws` keeps with certainty.
    pub(super) fn kept(&self, count: usize) -> usize {
        self.top.unwrap_or(count - 1).min(count - 1)
    }

    /// The choices of `number` replicates, with proposals for the symbols of a part.
    pub(super) fn choices<'a, F: Real>(
        &self,
        model: &Hypertree<F>,
        proposals: impl Fn((usize, usize, usize)) -> Cow<'a, [f64]> + Sync,
        (number, count): (usize, usize),
        streams: &Streams,
        clock: &Clock<'_>,
    ) -> Result<Vec<Arc<Choices>>> {
        let (t, parts) = (model.positions(), proposals::parts(model));
        let cells = model.batch() * t * t;
        let choose = |&part: &(usize, usize, usize)| -> Result<(usize, Vec<Chosen>)> {
            clock.check()?;
            let ((b, i, j), logs) = (part, proposals(part));
            let at = (b * t + i) * t + j;
            let one = |r: usize| {
                let mut random = streams.block((r * cells + at) as u64);
                self.selection.choose(&logs, count, self.kept(count), &mut random)
            };
            Ok((at, (0..number).map(one).collect()))
        };
        let found: Vec<(usize, Vec<Chosen>)> = parts.par_iter().map(choose).collect::<Result<_>>()?;
        let mut all = vec![vec![Chosen::default(); cells]; number];
        for (at, own) in found {
            own.into_iter().zip(&mut all).for_each(|(chosen, all)| all[at] = chosen);
        }
        Ok(all.into_iter().map(|chosen| Arc::new(Choices { positions: t, chosen })).collect())
    }

    /// The choices of the proposal distribution. That of the two-pass proposal has a first pass with its own
    /// random numbers.
    fn chosen<F: Passes>(
        &self,
        model: &Hypertree<F>,
        (number, count): (usize, usize),
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Vec<Arc<Choices>>> {
        let streams = Streams::new(run.seed(), "randomized inside");
        let local =
            |part: (usize, usize, usize)| -> Cow<'_, [f64]> { Cow::Owned(proposals::local(model, part)) };
        let tail = |top: usize| {
            move |part: (usize, usize, usize)| -> Cow<'_, [f64]> {
                let mut logs = proposals::local(model, part);
                proposals::uniform_tail(&mut logs, top);
                Cow::Owned(logs)
            }
        };
        match self.proposal {
            SpanProposal::Local => return self.choices(model, local, (number, count), &streams, clock),
            SpanProposal::Uniform => return self.choices(model, tail(0), (number, count), &streams, clock),
            SpanProposal::UniformTail => {
                return self.choices(model, tail(self.kept(count)), (number, count), &streams, clock);
            }
            SpanProposal::TwoPass => {}
        }
        let first_streams = Streams::new(run.seed(), "randomized inside first pass");
        let first = RandomizedInside { selection: Selection::Threshold, ..*self };
        let choices = first.choices(model, local, (1, count), &first_streams, clock)?;
        let kept = choices.first().map(|choices| Kept { choices, full: true });
        let solutions = solve_chosen(model, &[], Purpose::Symbols, None, (kept, &Shared::default()), clock)?;
        let mut guided = Stored::new(model, |_| Vec::new(), clock)?;
        let mut mix = |b: usize, i: usize, j: usize, logs: Vec<f64>| {
            *guided.of_mut((b, i, j)) = mixture(logs, &proposals::local(model, (b, i, j)), GUIDED);
        };
        solutions.importance(model, &mut mix, clock)?;
        drop(solutions);
        // Sentences without a tree of chosen symbols have no first pass.
        let of = |part: (usize, usize, usize)| match guided.of(part) {
            [] => local(part),
            logs => Cow::Borrowed(logs),
        };
        self.choices(model, of, (number, count), &streams, clock)
    }

    /// The estimates of all replicates; `purpose` is that of their charts, which are dropped if it is `None`.
    pub(super) fn estimates<F: Passes>(
        &self,
        model: &Hypertree<F>,
        direction: bool,
        purpose: Option<Purpose>,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Replicates<F>> {
        let symbols = model.symbols();
        let count = self.states.of(symbols.heads.max(symbols.tags));
        let number = self.replicate_count();
        let (all, shared) = (self.chosen(model, (number, count), run, clock)?, Shared::default());
        let mut found = Replicates { choices: Vec::new(), solutions: Vec::new(), logs: Vec::new(), count };
        if purpose.is_none() && !direction && !self.keeps_all(model, Purpose::Sums) && compact(model, &all) {
            // Together, because they share the rules in the cache.
            let joined = Arc::new(Choices::joined(&all));
            let kept = Some(Kept { choices: &joined, full: false });
            let own = solve_chosen(model, &[], Purpose::Sums, None, (kept, &shared), clock)?;
            let logs = own.log_partition(joined.sentences());
            found.logs = logs.chunks(model.batch()).map(<[f64]>::to_vec).collect();
            found.choices = all;
            return Ok(found);
        }
        for (r, choices) in all.into_iter().enumerate() {
            clock.step("replicates", r, number)?;
            let along = [(1.0, model)];
            let direction = if direction { &along[..] } else { &[] };
            let goal = purpose.unwrap_or(Purpose::Sums);
            let kept = (!self.keeps_all(model, goal)).then_some(Kept { choices: &choices, full: false });
            let own = solve_chosen(model, direction, goal, None, (kept, &shared), clock)?;
            found.logs.push(own.log_partition(model.batch()));
            found.choices.push(choices);
            if purpose.is_some() {
                found.solutions.push(own);
            }
        }
        Ok(found)
    }

    fn answer<F: Passes, T: Send>(
        &self,
        model: &Hypertree<F>,
        query: Query,
        direction: bool,
        run: &Run,
        finish: impl FnOnce(&Replicates<F>, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, query, run).bytes)?;
        let most = model.symbols().heads.max(model.symbols().tags);
        let purpose = match query {
            Query::LogPartition => None,
            Query::FactorMarginals | Query::Entropy => Some(Purpose::Sums),
            _ => Some(Purpose::Symbols),
        };
        let (value, guarantees, (log_z, count)) = run.install(|| {
            let found = self.estimates(model, direction, purpose, run, &clock)?;
            let log_z: Vec<f64> = (0..model.batch()).map(|b| found.log_partition(b)).collect();
            let missed = log_z.iter().all(|log_z| *log_z == f64::NEG_INFINITY);
            if missed && found.count >= most {
                return Err(no_parse::error(model, run, &clock));
            }
            let zero_is_a_value = matches!(query, Query::LogPartition | Query::Sample(_));
            if missed && !zero_is_a_value {
                let message =
                    "every replicate missed all trees of positive weight; more symbols may find some";
                return Err(Error::NoAnswer(message.into()));
            }
            let rounding = super::rounding(model);
            let one = |b: usize| unbiased(&found.of(b), self.confidence, rounding).1;
            let guarantees: Vec<Guarantee> = (0..model.batch()).map(one).collect();
            Ok((finish(&found, &clock)?, guarantees, (log_z, found.count)))
        })?;
        let guarantee = match (self.selection.is_unbiased(), query) {
            (false, _) => Guarantee::Heuristic {
                reason: "all but the likeliest symbols are left out, so the partition function is too small"
                    .into(),
            },
            (true, Query::LogPartition | Query::Sample(_)) => Guarantee::each(guarantees),
            (true, _) => Guarantee::Heuristic {
                reason: "a ratio of two estimates: right in the limit, biased for finitely many symbols"
                    .into(),
            },
        };
        let mut diagnostics = Diagnostics::new(NAME)
            .note("states", count)
            .note("replicates", self.replicate_count())
            .note("precision", F::NAME);
        if let Some(warning) = no_parse::warning_of_estimates(model, &log_z, count >= most, run, &clock) {
            diagnostics = diagnostics.note("warning", warning);
        }
        diagnostics.rounding = super::rounding(model);
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }
}

impl<F: Passes> LogPartition<Hypertree<F>> for RandomizedInside {
    fn log_partition(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer(model, Query::LogPartition, false, run, |found, _| {
            Ok((0..model.batch()).map(|b| found.log_partition(b)).collect())
        })
    }
}

impl<F: Passes> Marginals<Hypertree<F>> for RandomizedInside {
    fn marginals(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<SpanMarginals<F>>> {
        self.answer(model, Query::Marginals, false, run, |found, clock| {
            let (t, all) = (model.positions(), model.symbols().all);
            let shape = [model.batch(), t, t, all];
            let mut values = vec![F::default(); shape.iter().product()];
            for (r, own) in found.solutions.iter().enumerate() {
                own.add_nodes(model, &found.shares(r), &mut values, clock)?;
            }
            Ok(SpanMarginals { shape, values })
        })
    }
}

/// The gradient of Σ_b factor_b·log Ẑ_b.
fn gradient<F: Passes>(
    model: &Hypertree<F>,
    found: &Replicates<F>,
    factors: &[f64],
    clock: &Clock<'_>,
) -> Result<HypertreeGradient<F>> {
    let mut total = None;
    add_replicates(model, found, &[], |_, b| factors[b], &mut total, clock)?;
    total.ok_or_else(|| Error::NoAnswer("there are no replicates".into()))
}

/// Adds Σ_r,b share_rb·factor_rb·(gradient of log Ẑ_rb, or of its derivative in the direction).
fn add_replicates<F: Passes>(
    model: &Hypertree<F>,
    found: &Replicates<F>,
    direction: &[(f64, &Hypertree<F>)],
    factor: impl Fn(usize, usize) -> f64,
    total: &mut Option<HypertreeGradient<F>>,
    clock: &Clock<'_>,
) -> Result<()> {
    for (r, own) in found.solutions.iter().enumerate() {
        let of = |(b, share): (usize, f64)| if share > 0.0 { share * factor(r, b) } else { 0.0 };
        let factors: Vec<f64> = found.shares(r).into_iter().enumerate().map(of).collect();
        let one = own.vjp(model, direction, &factors, clock)?;
        match total {
            None => *total = Some(one),
            Some(sum) => add_scaled(sum, 1.0, &one),
        }
    }
    Ok(())
}

impl<F: Passes> FactorMarginals<Hypertree<F>> for RandomizedInside {
    fn factor_marginals(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<HypertreeGradient<F>>> {
        self.answer(model, Query::FactorMarginals, false, run, |found, clock| {
            gradient(model, found, &vec![1.0; model.batch()], clock)
        })
    }
}

impl<F: Passes> Entropy<Hypertree<F>> for RandomizedInside {
    /// log Ẑ − Ê\[score\].
    fn entropy(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.check()?;
        // Rules of rank R become a table.
        run.require_memory(NAME, self.forecast(model, Query::Entropy, run).bytes)?;
        let clock = run.start(NAME);
        let own = run.install(|| additive(model, &clock))?;
        self.answer(&own, Query::Entropy, true, run, |found, _| Ok(found.entropies(model.batch())))
    }
}

impl<F: Passes> Sample<Hypertree<F>> for RandomizedInside {
    /// Samples from the replicates in turn; the weight of each is Ẑ of its replicate. A sentence with Ẑ = 0 has
    /// no samples.
    fn sample(
        &self,
        model: &Hypertree<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<ParseTree>>> {
        self.answer(model, Query::Sample(count), false, run, |found, clock| {
            let streams = Streams::new(run.seed(), "randomized inside sample");
            let of = |b: usize| -> Result<(Vec<ParseTree>, Vec<f64>)> {
                let logs = found.of(b);
                let Some(possible) = logs.iter().position(|&log| log > f64::NEG_INFINITY) else {
                    return Ok((Vec::new(), Vec::new()));
                };
                let mut random = streams.block(b as u64);
                let (mut trees, mut weights) = (Vec::with_capacity(count), Vec::with_capacity(count));
                for s in 0..count {
                    clock.check()?;
                    let r = s % logs.len();
                    // A replicate with Ẑᵣ = 0 has no trees. Its samples come from another one and get weight 0.
                    let from = if logs[r] > f64::NEG_INFINITY { r } else { possible };
                    if let Some(nodes) = found.solutions[from].tree(model, b, &mut AtRandom(&mut random)) {
                        trees.push(ParseTree { score: model.score(b, &nodes), nodes });
                        weights.push(logs[r]);
                    }
                }
                Ok((trees, weights))
            };
            let drawn: Vec<_> = (0..model.batch()).into_par_iter().map(of).collect::<Result<_>>()?;
            let (samples, log_weights) = drawn.into_iter().unzip();
            Ok(PathSamples { samples, log_weights: Some(log_weights) })
        })
    }
}

/// One value per sentence, and the tape of its gradient.
type Recording<F> = (Vec<f64>, Tape<HypertreeGradient<F>>);

impl RandomizedInside {
    fn record_log_partition<F: Passes>(&self, model: &Hypertree<F>, run: &Run) -> Result<Recording<F>> {
        run.require_memory(NAME, self.forecast(model, Query::FactorMarginals, run).bytes)?;
        let clock = run.start(NAME);
        let found = run.install(|| self.estimates(model, false, Some(Purpose::Sums), run, &clock))?;
        let values: Vec<f64> = (0..model.batch()).map(|b| found.log_partition(b)).collect();
        let (model, run) = (model.clone(), run.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            let clock = run.start(NAME);
            Ok(vec![run.install(|| gradient(&model, &found, cotangent, &clock))?])
        };
        Ok((values, Tape::new(vjp)))
    }

    /// Ĥ = log Ẑ − Σᵣ sharesᵣ·mᵣ with mᵣ = Êᵣ\[score\], whose gradient is gᵣ + Covᵣ·s for the gradient gᵣ of log Ẑᵣ. With
    /// m = Σᵣ shareᵣ·mᵣ the gradient of Ĥ is −Σᵣ shareᵣ·((mᵣ − m)·gᵣ + Covᵣ·s).
    fn record_entropy<F: Passes>(&self, model: &Hypertree<F>, run: &Run) -> Result<Recording<F>> {
        run.require_memory(NAME, self.bytes_of_entropy_gradient(model, run))?;
        let clock = run.start(NAME);
        let batch = model.batch();
        let values = run.install(|| {
            let own = additive(model, &clock)?;
            let found = self.estimates(&own, true, Some(Purpose::Sums), run, &clock)?;
            Ok::<_, Error>(found.entropies(batch))
        })?;
        let (method, model, run) = (*self, model.clone(), run.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, batch)?;
            let clock = run.start(NAME);
            run.install(|| {
                let own = additive(&model, &clock)?;
                let mut total = None;
                let found = method.estimates(&own, true, Some(Purpose::Sums), &run, &clock)?;
                let (each, means) = found.mean_scores(batch);
                let direction = [(1.0, &*own)];
                add_replicates(&own, &found, &direction, |_, b| -cotangent[b], &mut total, &clock)?;
                drop(found);
                // The same choices, with numbers that have no derivatives.
                let found = method.estimates(&own, false, Some(Purpose::Sums), &run, &clock)?;
                let factor = |r: usize, b: usize| (means[b] - each[r][b]) * cotangent[b];
                add_replicates(&own, &found, &[], factor, &mut total, &clock)?;
                let total = total.ok_or_else(|| Error::NoAnswer("there are no replicates".into()))?;
                Ok(vec![to_form(&model, total)])
            })
        };
        Ok((values, Tape::new(vjp)))
    }
}

impl<F: Passes> Differentiable<Hypertree<F>> for RandomizedInside {
    const OPERATIONS: &'static [Operation] = &[Operation::LogPartition, Operation::Entropy];

    /// The gradient treats the choices as constants.
    fn differentiate(
        &self,
        operation: Operation,
        models: &[&Hypertree<F>],
        run: &Run,
    ) -> Result<Recording<F>> {
        self.check()?;
        match (operation, models) {
            (Operation::LogPartition, [model]) => self.record_log_partition(model, run),
            (Operation::Entropy, [model]) => self.record_entropy(model, run),
            _ => Err(not_differentiable(NAME, operation, models.len())),
        }
    }
}
