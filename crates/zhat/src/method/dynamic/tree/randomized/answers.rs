//! Queries.

use crate::numeric::parallel::prelude::*;

use super::arcs::HeadScores;
use super::pass::{self, Forest, Links, pick_random};
use super::{Estimates, Replicate, Wanted, check_projective, weighted};
use crate::answer::{Answer, Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::method::dynamic::RandomizedInside;
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::grammar::randomized::NAME;
use crate::method::dynamic::tree::number::Wide;
use crate::method::dynamic::tree::ranked::random_labels;
use crate::method::dynamic::tree::sentence::log_sum;
use crate::method::dynamic::tree::{no_tree, rounding, zero_gradient};
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::options::Options;
use crate::query::sequence::PathSamples;
use crate::query::tree::{DependencyGradient, HeadMarginals, Tree};
use crate::query::{
    Differentiable, Entropy, FactorMarginals, Forecasts, LogPartition, Marginals, Operation, Query, Sample,
    Tape, not_differentiable,
};
use crate::random::Streams;
use crate::run::{Clock, Run};

impl RandomizedInside {
    fn answer_trees<F: Real, T: Send>(
        &self,
        model: &DependencyTree<F>,
        query: Query,
        run: &Run,
        finish: impl FnOnce(&Estimates, &Clock<'_>) -> Result<T> + Send,
    ) -> Result<Answer<T>> {
        self.check()?;
        check_projective(model)?;
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, query, run).bytes)?;
        let wanted = match query {
            Query::LogPartition => Wanted::Partition,
            Query::Sample(_) => Wanted::Arcs,
            _ => Wanted::Marginals,
        };
        let (value, found) = run.install(|| {
            let found = self.arc_estimates(model, wanted, run, &clock)?;
            if found.logs.all_missed() {
                if found.count >= model.lengths().iter().copied().max().unwrap_or(0) {
                    return Err(no_tree::described(Error::ZeroPartition, model));
                }
                // An estimate of zero is a value: without it, the mean over seeds would be too large.
                if !matches!(query, Query::LogPartition | Query::Sample(_)) {
                    let message =
                        "every replicate missed all trees of positive weight; more heads per word may find some";
                    return Err(Error::NoAnswer(message.into()));
                }
            }
            Ok((finish(&found, &clock)?, found))
        })?;
        let words = model.lengths().iter().copied().max().unwrap_or(0) as f64;
        let rounding = rounding(model) + 4.0 * f64::EPSILON * words * found.largest_log_weight;
        let heuristic = |reason: &str| Guarantee::Heuristic { reason: reason.into() };
        let guarantee = match (self.selection.is_unbiased(), query) {
            (false, _) => {
                heuristic("all but the likeliest heads are left out, so the partition function is too small")
            }
            (true, Query::LogPartition | Query::Sample(_)) => {
                found.logs.guarantees(self.confidence, rounding)
            }
            (true, _) => {
                heuristic("a ratio of two estimates: right in the limit, biased for finitely many heads")
            }
        };
        let mut diagnostics = Diagnostics::new(NAME)
            .note("states", found.count)
            .note("replicates", self.replicate_count())
            .note("precision", F::NAME);
        let log_z = found.logs.log_partitions();
        if let Some(warning) = no_tree::warning_of_estimates(model, &log_z, found.count) {
            diagnostics = diagnostics.note("warning", warning);
        }
        diagnostics.rounding = rounding;
        diagnostics.seconds = clock.seconds();
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// Calls `add` with the head, the dependent and factor_b·P̂ of every kept arc of positive probability.
fn each_arc(
    found: &Estimates,
    factors: impl Fn(usize) -> f64,
    mut add: impl FnMut(usize, usize, usize, f64),
) {
    for (b, replicates) in found.replicates.iter().enumerate() {
        let factor = factors(b);
        for (Replicate { arcs, sums }, share) in replicates.iter().zip(found.logs.shares(b)) {
            if share * factor == 0.0 {
                continue;
            }
            for (e, head, d) in arcs.list().filter(|(e, ..)| sums.arcs[*e] > 0.0) {
                add(b, head, d, factor * share * sums.arcs[e]);
            }
        }
    }
}

/// The probability of each label of an arc.
pub(in crate::method::dynamic::tree) fn label_shares<F: Real>(scores: &[F]) -> Vec<f64> {
    if scores.len() == 1 {
        return vec![1.0];
    }
    let total = log_sum(scores.iter().map(|x| x.to_f64()));
    scores.iter().map(|x| (x.to_f64() - total).exp()).collect()
}

/// The gradient of Σ_b factor_b·log Ẑ_b.
fn gradient<F: Real>(model: &DependencyTree<F>, found: &Estimates, factors: &[f64]) -> DependencyGradient<F> {
    let (words, labels) = (model.words(), model.per_arc());
    let mut gradient = zero_gradient(model);
    each_arc(
        found,
        |b| factors[b],
        |b, head, d, probability| {
            let to = match head {
                0 => &mut gradient.roots[(b * words + d) * labels..],
                head => &mut gradient.arcs[((b * words + head - 1) * words + d) * labels..],
            };
            for (to, share) in to.iter_mut().zip(label_shares(model.arc_from(b, head, d))) {
                *to += F::from_f64(probability * share);
            }
        },
    );
    gradient
}

/// log Ẑ − Ê\[score\] of every sentence.
fn entropies<F: Real>(model: &DependencyTree<F>, found: &Estimates) -> Vec<f64> {
    let log_z = found.logs.log_partitions();
    let mut entropy = vec![0.0; model.batch()];
    each_arc(
        found,
        |_| 1.0,
        |b, head, d, probability| {
            // Relative to log Ẑ per word, because every word has one arc: less cancellation.
            let (scores, each) = (model.arc_from(b, head, d), log_z[b] / model.lengths()[b] as f64);
            let parts = scores.iter().zip(label_shares(scores)).filter(|(_, share)| *share > 0.0);
            entropy[b] += probability * parts.map(|(x, share)| share * (each - x.to_f64())).sum::<f64>();
        },
    );
    let missed = |(x, log): (f64, &f64)| if log.is_finite() { x } else { *log };
    entropy.into_iter().zip(&log_z).map(missed).collect()
}

/// The mean score of the labels of an arc; 0 if its weight is zero.
fn mean_label<F: Real>(scores: &[F]) -> f64 {
    let possible = |(x, share): &(&F, f64)| **x > F::NEG_INFINITY && *share > 0.0;
    let parts = scores.iter().zip(label_shares(scores)).filter(possible);
    parts.map(|(x, share)| share * x.to_f64()).sum()
}

/// The gradient of Σ_b factor_b·Ĥ_b. With mᵣ = Êᵣ\[score\], its mean m by the shares of the replicates, and the gradient
/// gᵣ of log Ẑᵣ, that of Ĥ is −Σᵣ shareᵣ·((mᵣ − m)·gᵣ + Covᵣ·score).
fn entropy_gradient<F: Real>(
    model: &DependencyTree<F>,
    found: &Estimates,
    factors: &[f64],
    clock: &Clock<'_>,
) -> Result<DependencyGradient<F>> {
    let (words, labels, single_root) = (model.words(), model.per_arc(), model.shape().single_root);
    let mut gradient = zero_gradient(model);
    for (b, replicates) in found.replicates.iter().enumerate().filter(|(b, _)| factors[*b] != 0.0) {
        let scores = HeadScores::new(model, b);
        // Relative to the mean score of an arc: less cancellation.
        let each = found.logs.log_partition(b) / model.lengths()[b] as f64;
        let mean_score = |Replicate { arcs, sums }: &Replicate| -> f64 {
            let used = arcs.list().filter(|(e, ..)| sums.arcs[*e] > 0.0);
            used.map(|(e, head, d)| sums.arcs[e] * (mean_label(model.arc_from(b, head, d)) - each)).sum()
        };
        let shares = found.logs.shares(b);
        let of = |(own, &share): (&Replicate, &f64)| if share > 0.0 { mean_score(own) } else { 0.0 };
        let means: Vec<f64> = replicates.iter().zip(&shares).map(of).collect();
        let mean: f64 = shares.iter().zip(&means).map(|(share, own)| share * own).sum();
        for (r, Replicate { arcs, .. }) in replicates.iter().enumerate().filter(|(r, _)| shares[*r] > 0.0) {
            let slopes: Vec<f64> =
                arcs.list().map(|(_, head, d)| mean_label(model.arc_from(b, head, d)) - each).collect();
            let links = Links::new(arcs, single_root);
            let sums = pass::sums(&links, &weighted(&scores, arcs), Some(&slopes), true, clock)?;
            let factor = -factors[b] * shares[r];
            for (e, head, d) in arcs.list().filter(|(e, ..)| sums.arcs[*e] > 0.0) {
                let to = match head {
                    0 => &mut gradient.roots[(b * words + d) * labels..],
                    head => &mut gradient.arcs[((b * words + head - 1) * words + d) * labels..],
                };
                let scores = model.arc_from(b, head, d);
                for (l, share) in
                    label_shares(scores).into_iter().enumerate().filter(|(_, share)| *share > 0.0)
                {
                    let along = sums.arcs[e] * (scores[l].to_f64() - each - slopes[e]) + sums.slopes[e];
                    let own = sums.arcs[e] * (means[r] - mean) + along;
                    to[l] += F::from_f64(factor * share * own);
                }
            }
        }
    }
    Ok(gradient)
}

impl<F: Real> LogPartition<DependencyTree<F>> for RandomizedInside {
    fn log_partition(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer_trees(model, Query::LogPartition, run, |found, _| Ok(found.logs.log_partitions()))
    }
}

impl<F: Real> Marginals<DependencyTree<F>> for RandomizedInside {
    fn marginals(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<HeadMarginals<F>>> {
        self.answer_trees(model, Query::Marginals, run, |found, _| {
            let shape = [model.batch(), model.words(), model.words() + 1];
            let mut values = vec![F::ZERO; shape.iter().product()];
            each_arc(
                found,
                |_| 1.0,
                |b, head, d, probability| {
                    values[(b * shape[1] + d) * shape[2] + head] += F::from_f64(probability);
                },
            );
            Ok(HeadMarginals { shape, values })
        })
    }
}

impl<F: Real> FactorMarginals<DependencyTree<F>> for RandomizedInside {
    fn factor_marginals(
        &self,
        model: &DependencyTree<F>,
        run: &Run,
    ) -> Result<Answer<DependencyGradient<F>>> {
        self.answer_trees(model, Query::FactorMarginals, run, |found, _| {
            Ok(gradient(model, found, &vec![1.0; model.batch()]))
        })
    }
}

impl<F: Real> Entropy<DependencyTree<F>> for RandomizedInside {
    /// log Ẑ − Ê\[score\].
    fn entropy(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        self.answer_trees(model, Query::Entropy, run, |found, _| Ok(entropies(model, found)))
    }
}

impl<F: Real> Sample<DependencyTree<F>> for RandomizedInside {
    /// Samples from the replicates in turn; the weight of each is Ẑ of its replicate. A sentence with Ẑ = 0 has
    /// no samples.
    fn sample(
        &self,
        model: &DependencyTree<F>,
        count: usize,
        run: &Run,
    ) -> Result<Answer<PathSamples<Tree>>> {
        self.answer_trees(model, Query::Sample(count), run, |found, clock| {
            let streams = Streams::new(run.seed(), "randomized inside heads sample");
            let single_root = model.shape().single_root;
            let (batch, number) = (model.batch(), self.replicate_count());
            // The samples of one sentence that come from one replicate, with their numbers.
            let of = |at: usize| -> Result<Vec<(usize, Tree)>> {
                let (b, r) = (at / number, at % number);
                let turns = found.logs.turns(b, count);
                let own: Vec<usize> = (0..turns.len()).filter(|&s| turns[s].0 == r).collect();
                let scores = if own.is_empty() { return Ok(Vec::new()) } else { HeadScores::new(model, b) };
                let arcs = &found.replicates[b][r].arcs;
                let links = Links::new(arcs, single_root);
                let Some(forest) = Forest::<Wide>::new(&links, &weighted(&scores, arcs).logs, clock)? else {
                    return Ok(Vec::new());
                };
                let draw = |s: usize| -> Result<(usize, Tree)> {
                    clock.check()?;
                    let mut random = streams.block(((b as u64) << 32) | s as u64);
                    let mut buffer = Vec::new();
                    let heads = forest.tree(&mut |terms| pick_random(&mut random, &mut buffer, terms));
                    let labels = random_labels(model, b, &heads, &mut random);
                    Ok((s, Tree { score: model.score(b, &heads, &labels), heads, labels }))
                };
                own.into_iter().map(draw).collect()
            };
            let drawn: Vec<_> = (0..batch * number).into_par_iter().map(of).collect::<Result<_>>()?;
            let mut samples: Vec<Vec<(usize, Tree)>> = vec![Vec::new(); batch];
            for (at, own) in drawn.into_iter().enumerate() {
                samples[at / number].extend(own);
            }
            samples.iter_mut().for_each(|own| own.sort_by_key(|(s, _)| *s));
            let log_weights =
                (0..batch).map(|b| found.logs.turns(b, count).iter().map(|turn| turn.1).collect()).collect();
            let trees = |own: Vec<(usize, Tree)>| own.into_iter().map(|(_, tree)| tree).collect();
            let samples = samples.into_iter().map(trees).collect();
            Ok(PathSamples { samples, log_weights: Some(log_weights) })
        })
    }
}

impl<F: Real> Differentiable<DependencyTree<F>> for RandomizedInside {
    const OPERATIONS: &'static [Operation] = &[Operation::LogPartition, Operation::Entropy];

    /// The gradient treats the choices as constants.
    fn differentiate(
        &self,
        operation: Operation,
        models: &[&DependencyTree<F>],
        run: &Run,
    ) -> Result<(Vec<f64>, Tape<DependencyGradient<F>>)> {
        let (Operation::LogPartition | Operation::Entropy, [model]) = (operation, models) else {
            return Err(not_differentiable(NAME, operation, models.len()));
        };
        self.check()?;
        check_projective(model)?;
        run.require_memory(NAME, self.forecast(*model, Query::FactorMarginals, run).bytes)?;
        let clock = run.start(NAME);
        let found = run.install(|| self.arc_estimates(model, Wanted::Marginals, run, &clock))?;
        let values = match operation {
            Operation::Entropy => entropies(model, &found),
            _ => found.logs.log_partitions(),
        };
        let (model, run) = ((*model).clone(), run.clone());
        let vjp = move |cotangent: &[f64]| {
            check_numbers(cotangent, model.batch())?;
            Ok(vec![match operation {
                Operation::Entropy => {
                    let clock = run.start(NAME);
                    run.install(|| entropy_gradient(&model, &found, cotangent, &clock))?
                }
                _ => gradient(&model, &found, cotangent),
            }])
        };
        Ok((values, Tape::new(vjp)))
    }
}
