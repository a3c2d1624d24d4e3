//! Randomized inside as published (Fu, Cunningham & Lapata 2022, Algorithm 2 and Eq. 18): biased, for reference.
//!
//! For every word and span, the K₁ symbols with the largest scores are kept and K₂ are drawn uniformly, with
//! replacement, from the others; a drawn symbol has weight (number of others)/K₂. With T the sum over the kept
//! symbols and S the weighted sum over the drawn ones, the recursion is
//!
//!   inside(i, j, k) = exp(spanᵢⱼₖ) Σ_m [T(i, m)·T(m + 1, j) + S(i, m)·S(m + 1, j)].
//!
//! The products T·S and S·T of a kept and a drawn symbol are left out. All terms are positive, so E\[Ẑ\] ≤ Z. If kept
//! and other symbols have equal sums, every division of a tree loses half: E\[Ẑ\] = Z/2^(T−1). [`RandomizedInside`]
//! includes them and is unbiased.
//!
//! It is the exact algorithm on a model with two copies of each symbol, one for the kept and one for the drawn,
//! whose rules k → a b need copies of a and b of the same kind. Time and memory are up to eight times those of
//! [`RandomizedInside`].

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::choices::{Choices, Kept};
use super::no_parse;
use super::pass::Purpose;
use super::proposals::{self, Stored};
use super::randomized::{RandomizedInside, SpanProposal};
use super::shared::Shared;
use super::solve::{Passes, solve_chosen};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::Result;
use crate::method::dynamic::randomized::{Chosen, Selection, States};
use crate::model::{Hypertree, Rule, Rules, Spans, Symbols, UnaryRule, Values};
use crate::numeric::{self, Real};
use crate::options::{COUNT, Options, Range, options};
use crate::query::{Forecast, Forecasts, LogPartition, Query};
use crate::random::Streams;
use crate::run::Run;

pub(crate) const NAME: &str = "randomized-inside-published";

/// Why the estimate is no more than a heuristic.
const REASON: &str = "the published recursion (Eq. 18) leaves out the products of a kept and a drawn symbol, so E[Ẑ] is \
                      smaller than Z; `randomized-inside` includes them";

/// The published estimator of the partition function of trees over words; biased.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct PublishedInside {
    /// K₁ + K₂, the number of symbols of each word and span: a count, or a fraction of all (but at least 64).
    pub states: States,
    /// K₁, the number of symbols kept with certainty; by default all but one.
    pub top: Option<usize>,
    /// Number of independent replicates, whose mean is the estimate.
    pub replicates: usize,
}

impl Default for PublishedInside {
    fn default() -> Self {
        PublishedInside { states: States::Fraction(0.1), top: None, replicates: 8 }
    }
}

options!(PublishedInside {
    states: States => Range::CountOrFraction,
    top: Option<usize> => COUNT,
    replicates: usize => Range::whole(1, 1_000_000),
});

impl PublishedInside {
    /// The same choices of symbols, used by [`RandomizedInside`].
    fn unbiased(&self) -> RandomizedInside {
        RandomizedInside {
            states: self.states,
            proposal: SpanProposal::UniformTail,
            selection: Selection::Draws,
            top: self.top,
            replicates: self.replicates,
            ..Default::default()
        }
    }
}

/// Copy 0 of a symbol is the kept one, copy 1 the drawn one.
fn copy(symbol: usize, kind: usize) -> usize {
    2 * symbol + kind
}

/// Every row twice.
fn twice<F: Real>(values: &[F], row: usize) -> Values<F> {
    let mut all = Vec::with_capacity(2 * values.len());
    for row in values.chunks_exact(row.max(1)) {
        all.extend_from_slice(row);
        all.extend_from_slice(row);
    }
    all.into()
}

/// The factors of children, S×R: copy (a, kind) has its numbers in the columns (r, kind), and weight 0 in others.
fn children<F: Real>(values: &[F], rank: usize) -> Values<F> {
    let mut all = Vec::with_capacity(4 * values.len());
    for row in values.chunks_exact(rank) {
        for kind in 0..2 {
            for &x in row {
                let mut pair = [F::NEG_INFINITY; 2];
                pair[kind] = x;
                all.extend_from_slice(&pair);
            }
        }
    }
    all.into()
}

/// The rules of copies: those of their symbols, if both children are copies of the same kind.
fn rules_of_copies<F: Real>(model: &Hypertree<F>) -> Result<Rules<F>> {
    let Symbols { all, heads: count, .. } = model.symbols();
    let low_rank = |rank: usize, heads: &[F], left: &[F], right: &[F]| Rules::LowRank {
        rank: 2 * rank,
        heads: twice(&twice(heads, 1), 2 * rank),
        left: children(left, rank),
        right: children(right, rank),
    };
    Ok(match model.rules() {
        Rules::Any => low_rank(1, &vec![F::ZERO; count], &vec![F::ZERO; all], &vec![F::ZERO; all]),
        Rules::LowRank { rank, heads, left, right } => low_rank(*rank, heads, left, right),
        Rules::Dense(values) => {
            let copies = |table: &[F]| -> Vec<F> {
                let mut out = vec![F::NEG_INFINITY; 4 * all * all];
                for a in 0..all {
                    for b in 0..all {
                        for kind in 0..2 {
                            out[copy(a, kind) * 2 * all + copy(b, kind)] = table[a * all + b];
                        }
                    }
                }
                [&out[..], &out].concat()
            };
            Rules::Dense(values.chunks_exact(all * all).flat_map(copies).collect::<Vec<F>>().into())
        }
        Rules::Sparse { rules, scores } => {
            let copies = |(rule, &score): (&Rule, &F)| {
                let one = move |kinds: usize, rule: &Rule| Rule {
                    head: copy(rule.head, kinds / 2),
                    left: copy(rule.left, kinds % 2),
                    right: copy(rule.right, kinds % 2),
                };
                let rule = *rule;
                (0..4).map(move |kinds| (one(kinds, &rule), score))
            };
            let (rules, scores): (Vec<Rule>, Vec<F>) =
                rules.iter().zip(scores.iter()).flat_map(copies).unzip();
            Rules::sparse(rules, &scores)?
        }
    })
}

/// The model of copies.
fn of_copies<F: Real>(model: &Hypertree<F>) -> Result<Hypertree<F>> {
    let Symbols { all, heads, tags } = model.symbols();
    let symbols = Symbols { all: 2 * all, heads: 2 * heads, tags: 2 * tags };
    let spans = match model.spans() {
        Spans::PerSymbol(values) => Spans::PerSymbol(twice(values, 1)),
        Spans::Factored { spans, symbols } => {
            Spans::Factored { spans: spans.clone(), symbols: twice(symbols, symbols.len() / heads) }
        }
        other => other.clone(),
    };
    let rules = rules_of_copies(model)?;
    let found = Hypertree::new(symbols, twice(model.words(), 1), model.lengths().to_vec(), rules)?
        .with_roots(twice(model.roots(), 1))?
        .with_spans(spans)?;
    let Some(unary) = model.unary() else { return Ok(found) };
    let copies = |rule: &UnaryRule| {
        [0, 1].map(|kind| UnaryRule { head: copy(rule.head, kind), child: copy(rule.child, kind) })
    };
    found.with_unary(unary.rules().iter().flat_map(copies).collect(), twice(unary.scores(), 1))
}

/// The chosen symbols as copies: kept ones as copy 0, drawn ones as copy 1.
fn choices_of_copies(proposals: &Stored, choices: &Choices) -> Arc<Choices> {
    let of = |(cell, chosen): (usize, &Chosen)| {
        let possible = proposals.logs[cell].iter().filter(|&&log| log > f64::NEG_INFINITY).count();
        let all = chosen.states.len() == possible;
        let kind = |&k: &u32| usize::from(!all && !proposals.is_top(cell, k));
        let states = chosen.states.iter().map(|k| copy(*k as usize, kind(k)) as u32).collect();
        Chosen { states, log_weights: chosen.log_weights.clone() }
    };
    Arc::new(Choices {
        positions: choices.positions,
        chosen: choices.chosen.iter().enumerate().map(of).collect(),
    })
}

impl<F: Passes> LogPartition<Hypertree<F>> for PublishedInside {
    fn log_partition(&self, model: &Hypertree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.check()?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let most = model.symbols().heads.max(model.symbols().tags);
        let (count, selection) = (self.states.of(most), self.unbiased());
        let logs: Vec<Vec<f64>> = run.install(|| {
            let copies = of_copies(model)?;
            clock.check()?;
            let tail = |part: (usize, usize, usize)| {
                let mut logs = proposals::local(model, part);
                proposals::uniform_tail(&mut logs, selection.kept(count));
                logs
            };
            let proposals = Stored::new(model, tail, &clock)?;
            let streams = Streams::new(run.seed(), "published inside");
            let of = |part: (usize, usize, usize)| Cow::Borrowed(proposals.of(part));
            let all = selection.choices(model, of, (self.replicates, count), &streams, &clock)?;
            let shared = Shared::default();
            let one = |r: usize| {
                clock.step("replicates", r, self.replicates)?;
                let choices = choices_of_copies(&proposals, &all[r]);
                clock.check()?;
                let kept = Kept { choices: &choices, full: false };
                let own = solve_chosen(&copies, &[], Purpose::Sums, None, (Some(kept), &shared), &clock)?;
                Ok(own.log_partition(model.batch()))
            };
            (0..self.replicates).map(one).collect::<Result<_>>()
        })?;
        let mean = |b: usize| {
            let own: Vec<f64> = logs.iter().map(|logs| logs[b]).collect();
            numeric::log_sum_exp(&own) - (own.len() as f64).ln()
        };
        let value: Vec<f64> = (0..model.batch()).map(mean).collect();
        if count >= most && value.iter().all(|&log_z| log_z == f64::NEG_INFINITY) {
            return Err(no_parse::error(model, run, &clock));
        }
        let mut diagnostics = Diagnostics::new(NAME)
            .note("states", count)
            .note("replicates", self.replicates)
            .note("precision", F::NAME);
        if let Some(warning) = no_parse::warning_of_estimates(model, &value, count >= most, run, &clock) {
            diagnostics = diagnostics.note("warning", warning);
        }
        diagnostics.rounding = 2.0 * super::rounding(model);
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee: Guarantee::Heuristic { reason: REASON.into() }, diagnostics })
    }
}

impl<F: Real> Forecasts<Hypertree<F>> for PublishedInside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        let own = self.unbiased().forecast(model, query, run);
        // Copies of a dense table of rules have eight times its size, all others at most four times.
        let factor = if matches!(model.rules(), Rules::Dense(_)) { 8.0 } else { 4.0 };
        // The proposals are kept, to tell kept symbols from drawn ones.
        let most = model.symbols().heads.max(model.symbols().tags) as f64;
        let parts: f64 = model.lengths().iter().map(|&n| (n * (n + 1)) as f64 / 2.0).sum();
        Forecast {
            bytes: factor * (own.bytes + model.bytes() as f64) + parts * (most * 8.0 + 64.0),
            seconds: factor * own.seconds,
            promise: Promise::Heuristic,
        }
    }
}
