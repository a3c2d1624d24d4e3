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
//! be. Time per replicate T³·R + T²·K·R for rules of rank R, and T²·N for the proposal; *two-pass* adds one pass
//! over all symbols, shared by the replicates. Guarantee of log Z: unbiased with replicates and Markov's lower
//! bound; ratios (gradient, entropy) are right in the limit.
//!
//! Reference: Y. Fu, J. P. Cunningham, M. Lapata, *Scaling structured inference with randomization*, ICML 2022,
//! Algorithm 2.

use std::sync::Arc;

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::choices::Choices;
use super::counts::add_scaled;
use super::derive::AtRandom;
use super::divergence::additive;
use super::pass::Purpose;
use super::proposals::Local;
use super::solve::{Passes, Solutions, solve_chosen};
use crate::answer::{Answer, Diagnostics, Guarantee, Promise};
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::randomized::{Chosen, Selection, States, mixture};
use crate::method::sampling::unbiased;
use crate::model::Hypertree;
use crate::numeric::{self, Real};
use crate::options::{COUNT, INSIDE_UNIT, Options, Range, options};
use crate::query::sequence::PathSamples;
use crate::query::tree::{HypertreeGradient, ParseTree, SpanMarginals};
use crate::query::{
    Differentiable, Entropy, FactorMarginals, Forecast, Forecasts, LogPartition, Marginals, Operation, Query,
    Sample, Tape, not_differentiable,
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
}

impl RandomizedInside {
    /// The number of symbols that `draws` keeps with certainty.
    fn kept(&self, count: usize) -> usize {
        self.top.unwrap_or(count - 1).min(count - 1)
    }

    pub(super) fn choices(
        &self,
        proposals: &Local,
        count: usize,
        streams: &Streams,
        block: usize,
        clock: &Clock<'_>,
    ) -> Result<Arc<Choices>> {
        let cells = proposals.logs.len();
        let choose = |(at, logs): (usize, &Vec<f64>)| {
            if logs.is_empty() {
                return Ok(Chosen::default());
            }
            clock.check()?;
            let mut random = streams.block((block * cells + at) as u64);
            Ok(self.selection.choose(logs, count, self.kept(count), &mut random))
        };
        let chosen = proposals.logs.par_iter().enumerate().map(choose).collect::<Result<_>>()?;
        Ok(Arc::new(Choices { positions: proposals.positions, chosen }))
    }

    /// The proposals: local, or of a first pass with its own random numbers.
    pub(super) fn proposals<F: Passes>(
        &self,
        model: &Hypertree<F>,
        count: usize,
        run: &Run,
        clock: &Clock<'_>,
    ) -> Result<Local> {
        let local = Local::new(model, clock)?;
        match self.proposal {
            SpanProposal::Uniform => return local.uniform(clock),
            SpanProposal::UniformTail => return local.uniform_tail(self.kept(count), clock),
            SpanProposal::Local => return Ok(local),
            SpanProposal::TwoPass => {}
        }
        let streams = Streams::new(run.seed(), "randomized inside first pass");
        let first = RandomizedInside { selection: Selection::Threshold, ..*self };
        let choices = first.choices(&local, count, &streams, 0, clock)?;
        let solutions = solve_chosen(model, &[], Purpose::Symbols, None, Some((&choices, true)), clock)?;
        let mut guided = Local { positions: local.positions, logs: local.logs.clone() };
        let mut mix = |b: usize, i: usize, j: usize, logs: Vec<f64>| {
            let at = (b * local.positions + i) * local.positions + j;
            guided.logs[at] = mixture(logs, &local.logs[at], GUIDED);
        };
        solutions.importance(model, &mut mix, clock)?;
        Ok(guided)
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
        let proposals = self.proposals(model, count, run, clock)?;
        let streams = Streams::new(run.seed(), "randomized inside");
        let number = if self.selection == Selection::Top { 1 } else { self.replicates };
        let mut found = Replicates { choices: Vec::new(), solutions: Vec::new(), logs: Vec::new(), count };
        for r in 0..number {
            clock.step("replicates", r, number)?;
            let choices = self.choices(&proposals, count, &streams, r, clock)?;
            let along = [(1.0, model)];
            let direction = if direction { &along[..] } else { &[] };
            let goal = purpose.unwrap_or(Purpose::Sums);
            let own = solve_chosen(model, direction, goal, None, Some((&choices, false)), clock)?;
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
        let purpose = (query != Query::LogPartition).then_some(Purpose::Symbols);
        let (value, guarantees, count) = run.install(|| {
            let found = self.estimates(model, direction, purpose, run, &clock)?;
            let missed = (0..model.batch()).all(|b| found.log_partition(b) == f64::NEG_INFINITY);
            if missed && found.count >= model.symbols().heads.max(model.symbols().tags) {
                return Err(super::no_parse::error(model, run, &clock));
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
            Ok((finish(&found, &clock)?, guarantees, found.count))
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
            .note("replicates", if self.selection == Selection::Top { 1 } else { self.replicates })
            .note("precision", F::NAME);
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
    let mut total: Option<HypertreeGradient<F>> = None;
    for (r, own) in found.solutions.iter().enumerate() {
        let shares: Vec<f64> = found.shares(r).iter().zip(factors).map(|(x, y)| x * y).collect();
        let one = own.vjp(model, &[], &shares, clock)?;
        total = Some(match total {
            None => one,
            Some(mut sum) => {
                add_scaled(&mut sum, 1.0, &one);
                sum
            }
        });
    }
    total.ok_or_else(|| Error::NoAnswer("there are no replicates".into()))
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
        let own = additive(model);
        self.answer(&own, Query::Entropy, true, run, |found, _| {
            let means: Vec<Vec<f64>> = found.solutions.iter().map(|own| own.means(model.batch())).collect();
            let shares: Vec<Vec<f64>> = (0..means.len()).map(|r| found.shares(r)).collect();
            let of = |b: usize| match found.log_partition(b) {
                f64::NEG_INFINITY => f64::NEG_INFINITY,
                log_z => {
                    let parts = (0..means.len()).filter(|&r| shares[r][b] > 0.0);
                    log_z - parts.map(|r| shares[r][b] * means[r][b]).sum::<f64>()
                }
            };
            Ok((0..model.batch()).map(of).collect())
        })
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

impl<F: Passes> Differentiable<Hypertree<F>> for RandomizedInside {
    const OPERATIONS: &'static [Operation] = &[Operation::LogPartition];

    /// The gradient treats the choices as constants.
    fn differentiate(
        &self,
        operation: Operation,
        models: &[&Hypertree<F>],
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<HypertreeGradient<F>>)> {
        let (Operation::LogPartition, [model]) = (operation, models) else {
            return Err(not_differentiable(NAME, operation, models.len()));
        };
        self.check()?;
        run.require_memory(NAME, self.forecast(*model, Query::FactorMarginals, run).bytes)?;
        let clock = run.start(NAME);
        let found = run.install(|| self.estimates(model, false, Some(Purpose::Sums), run, &clock))?;
        let values: Vec<f64> = (0..model.batch()).map(|b| found.log_partition(b)).collect();
        let (model, run) = ((*model).clone(), run.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            let clock = run.start(NAME);
            Ok(vec![run.install(|| gradient(&model, &found, cotangent, &clock))?])
        };
        Ok((values, Tape::new(vjp)))
    }
}

impl<F: Real> Forecasts<Hypertree<F>> for RandomizedInside {
    fn forecast(&self, model: &Hypertree<F>, query: Query, run: &Run) -> Forecast {
        let exact = super::InsideOutside::default().forecast(model, query, run);
        let symbols = model.symbols();
        let most = symbols.heads.max(symbols.tags) as f64;
        let share = (self.states.of(symbols.heads.max(symbols.tags)) as f64 / most).min(1.0);
        let cells: f64 =
            model.lengths().iter().map(|&length| (length as f64).powi(2) / 2.0 + length as f64).sum();
        let kept = if query == Query::LogPartition { 1.0 } else { self.replicates as f64 };
        let rank = model.rules().rank().unwrap_or(1) as f64;
        let chart = cells * (most + 3.0 * rank) * 8.0;
        let proposals = cells * most * 16.0;
        let whole = if self.proposal == SpanProposal::TwoPass { 1.0 } else { 0.0 };
        let each = exact.seconds * share + cells * most * 2e-8;
        let promise = match (self.selection.is_unbiased(), query) {
            (true, Query::LogPartition | Query::Sample(_)) => Promise::Unbiased,
            _ => Promise::Heuristic,
        };
        Forecast {
            bytes: exact.bytes + kept * (chart + exact.bytes) + proposals,
            seconds: whole * 3.0 * exact.seconds + self.replicates as f64 * each + 1e-4,
            promise,
        }
    }
}
