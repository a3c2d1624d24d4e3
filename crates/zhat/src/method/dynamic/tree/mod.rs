//! Exact inference on dependency trees.
//!
//! Z = Σ_y exp score(y) over the trees y of a sentence. Projective trees are summed by Eisner's dynamic
//! program, all trees by the elimination of words. Both use only sums and products of positive numbers, in
//! the linear domain where that is safe and in the log domain otherwise, so scores of any size and zeros are
//! handled. The probabilities of arcs are the gradient of log Z; entropy, divergences and expectations of
//! additive scores follow from them, and the gradients of these from their derivatives in one direction. The
//! best tree is found by Eisner's program with maxima, or by contraction of cycles (Chu, Liu and Edmonds); the
//! k best by Lawler's partition: all trees but the best are divided by the first word whose arc differs.
//! Samples are exact.
//!
//! Time O(T³) per sentence, for every query but the k best and samples. The k best take O(k·T⁴) for projective
//! trees and in the worst case, and typically O(k·T³) for trees that need not be projective; samples of the latter
//! take O(T²) to O(T³) each, typically. Memory O(T²) per sentence in work. All arithmetic is in double
//! precision. If a sentence of a batch has no tree, its log Z and entropy are −∞ and its gradient is zero; if
//! none has a tree, the result is the error `zero-partition`.
//!
//! References: J. Eisner, *Three new probabilistic models for dependency parsing*, COLING 1996; T. Koo, A.
//! Globerson, X. Carreras, M. Collins, *Structured prediction models via the matrix-tree theorem*, EMNLP
//! 2007; E. Lawler, *A procedure for computing the K best solutions to discrete optimization problems*,
//! Management Science 18 (1972). See `elimination` for sums over all trees.
//!
//! ```
//! use zhat::dynamic::SpanningTrees;
//! use zhat::model::{DependencyTree, TreeShape};
//! use zhat::{LogPartition, Run};
//! let shape = TreeShape { projective: false, single_root: true };
//! let model = DependencyTree::new(vec![0.0; 16].into(), vec![0.0; 4].into(), vec![4], None, shape)?;
//! let log_z = SpanningTrees::default().log_partition(&model, &Run::default())?;
//! assert!((log_z.value[0] - 64f64.ln()).abs() < 1e-12);    // 4³ trees
//! # Ok::<(), zhat::Error>(())
//! ```

mod additive;
mod edmonds;
mod eisner;
mod elimination;
mod forecast;
mod no_tree;
mod number;
mod projective;
mod randomized;
mod ranked;
mod relaxed;
mod sentence;
mod spanning;
mod tape;

pub use randomized::SparseTreeTape;
pub use relaxed::RelaxedTreeTape;

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use self::sentence::{Sentence, Sums};
use crate::answer::{Answer, Diagnostics};
use crate::error::{Error, Result};
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::numeric::semiring::LANES;
use crate::options::options;
use crate::query::tree::{DependencyGradient, HeadMarginals};
use crate::query::{Divergence, Entropy, FactorMarginals, Forecasts, LogPartition, Marginals, Query};
use crate::run::{Clock, Run};

pub(crate) const NAME: &str = "spanning-trees";

/// Exact inference on dependency trees: Eisner's algorithm for projective trees, elimination of words for all
/// trees.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SpanningTrees {}

options!(SpanningTrees {});

/// The parts of an answer that a query needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// log Z.
    Partition,
    /// The probabilities of arcs.
    Marginals,
}

/// A direction in the space of scores: sentence, head, dependent and label to a number.
type Direction<'a> = dyn Fn(usize, usize, usize, usize) -> f64 + Sync + 'a;

/// The sums of every sentence, in the order of the batch. With a direction, the derivatives of the
/// probabilities.
fn all_sums<F: Real>(
    model: &DependencyTree<F>,
    depth: Depth,
    direction: Option<&Direction<'_>>,
    clock: &Clock<'_>,
) -> Result<Vec<Sums>> {
    let shape = model.shape();
    let prepared = |b: usize| match direction {
        None => Sentence::new(model, b, None),
        Some(direction) => {
            Sentence::new(model, b, Some(&|head, dependent, label| direction(b, head, dependent, label)))
        }
    };
    let (marginals, slopes) = (depth == Depth::Marginals, direction.is_some());
    // Sentences of similar length are worked on together.
    let mut order: Vec<usize> = (0..model.batch()).collect();
    order.sort_by_key(|&b| model.lengths()[b]);
    let size = if shape.projective { LANES } else { 1 };
    let groups: Vec<&[usize]> = order.chunks(size).collect();
    let done = AtomicUsize::new(0);
    let work = |group: &&[usize]| -> Result<Vec<Sums>> {
        clock.step("sentences", size * done.fetch_add(1, Ordering::Relaxed), model.batch())?;
        let sentences: Vec<Sentence> = group.iter().map(|&b| prepared(b)).collect();
        Ok(match shape.projective {
            true => projective::sums(&sentences, shape.single_root, marginals, slopes, clock)?,
            false => {
                let of = |own: &Sentence| spanning::sums(own, shape.single_root, marginals, slopes, clock);
                sentences.iter().map(of).collect::<Result<_>>()?
            }
        })
    };
    let found: Vec<Vec<Sums>> = match groups.len() {
        1 => groups.iter().map(work).collect::<Result<_>>()?,
        _ => groups.par_iter().map(work).collect::<Result<_>>()?,
    };
    let mut sums: Vec<(usize, Sums)> = order.iter().copied().zip(found.into_iter().flatten()).collect();
    sums.sort_by_key(|(b, _)| *b);
    Ok(sums.into_iter().map(|(_, own)| own).collect())
}

/// Adds factor·P(arc, label) to a gradient; with `slopes` the derivatives of these probabilities in the
/// direction instead.
fn add_arcs<F: Real>(
    model: &DependencyTree<F>,
    sums: &[Sums],
    factor: &[f64],
    direction: Option<&Direction<'_>>,
    gradient: &mut DependencyGradient<F>,
) {
    let (words, labels) = (model.words(), model.per_arc());
    for (b, own) in
        sums.iter().enumerate().filter(|(b, own)| factor[*b] != 0.0 && own.log_partition > f64::NEG_INFINITY)
    {
        let n = model.lengths()[b];
        if labels == 1 && direction.is_none() {
            // Rows without calls, for vector instructions. The diagonal has probability zero.
            let add = |to: &mut [F], from: &[f64]| {
                to.iter_mut().zip(from).for_each(|(to, p)| *to += F::from_f64(factor[b] * p));
            };
            add(&mut gradient.roots[b * words..b * words + n], &own.roots);
            for (h, row) in own.arcs.chunks(n).enumerate() {
                add(&mut gradient.arcs[(b * words + h) * words..][..n], row);
            }
            continue;
        }
        for d in 0..n {
            for head in (0..=n).filter(|&head| head != d + 1) {
                let (probability, slope, to) = match head {
                    0 => {
                        let to = (b * words + d) * labels;
                        (own.roots[d], own.root_slopes.get(d), &mut gradient.roots[to..to + labels])
                    }
                    head => {
                        let (at, to) = ((head - 1) * n + d, ((b * words + head - 1) * words + d) * labels);
                        (own.arcs[at], own.arc_slopes.get(at), &mut gradient.arcs[to..to + labels])
                    }
                };
                if probability == 0.0 {
                    continue;
                }
                let scores = model.arc_from(b, head, d);
                let total = sentence::log_sum(scores.iter().map(|x| x.to_f64()));
                let share = |l: usize| if labels == 1 { 1.0 } else { (scores[l].to_f64() - total).exp() };
                let along = |l: usize| direction.map_or(0.0, |direction| direction(b, head, d, l));
                let mean: f64 = if direction.is_none() {
                    0.0
                } else {
                    (0..labels).filter(|&l| share(l) > 0.0).map(|l| share(l) * along(l)).sum()
                };
                for (l, to) in to.iter_mut().enumerate().filter(|(l, _)| share(*l) > 0.0) {
                    let value = match direction {
                        None => probability * share(l),
                        Some(_) => {
                            share(l) * (slope.copied().unwrap_or(0.0) + probability * (along(l) - mean))
                        }
                    };
                    *to += F::from_f64(factor[b] * value);
                }
            }
        }
    }
}

/// Σ_arcs P(arc, label)·f(head, dependent, label) over the arcs of positive probability.
fn expectation<F: Real>(
    model: &DependencyTree<F>,
    b: usize,
    sums: &Sums,
    f: impl Fn(usize, usize, usize) -> f64,
) -> f64 {
    let n = model.lengths()[b];
    let mut total = 0.0;
    for d in 0..n {
        for head in (0..=n).filter(|&head| head != d + 1) {
            let probability = if head == 0 { sums.roots[d] } else { sums.arcs[(head - 1) * n + d] };
            if probability == 0.0 {
                continue;
            }
            let scores = model.arc_from(b, head, d);
            if scores.len() == 1 {
                total += probability * f(head, d, 0);
                continue;
            }
            let all = sentence::log_sum(scores.iter().map(|x| x.to_f64()));
            for (l, score) in scores.iter().enumerate() {
                let own = probability * (score.to_f64() - all).exp();
                if own > 0.0 {
                    total += own * f(head, d, l);
                }
            }
        }
    }
    total
}

/// log Z of every sentence; an error if all are −∞.
fn some_partition(sums: &[Sums]) -> Result<Vec<f64>> {
    some_tree(sums.iter().map(|own| own.log_partition).collect())
}

/// The same numbers, one per sentence; an error if all are −∞.
fn some_tree(log_partition: Vec<f64>) -> Result<Vec<f64>> {
    let any = log_partition.iter().any(|log_z| *log_z > f64::NEG_INFINITY);
    if any { Ok(log_partition) } else { Err(Error::ZeroPartition) }
}

/// A bound on the rounding error of log Z. Every item is a sum of up to T products of at most T factors, each
/// with a relative error of half an epsilon; weights have the error of `exp` and of the scores that they are
/// computed from.
fn rounding<F: Real>(model: &DependencyTree<F>) -> f64 {
    let words = model.lengths().iter().copied().max().unwrap_or(0) as f64;
    let labels = model.per_arc() as f64;
    f64::EPSILON * (words * (3.0 * words + labels + 24.0) + 4.0 * model.magnitude())
}

/// Requests memory, runs `work` in the threads of the run and wraps the result. `work` returns the value and one
/// number per sentence, which is −∞ if the sentence has no tree: the diagnostics then describe why.
fn answer<F: Real, T: Send>(
    method: &SpanningTrees,
    model: &DependencyTree<F>,
    query: Query,
    run: &Run,
    work: impl FnOnce(&Clock<'_>) -> Result<(T, Vec<f64>)> + Send,
) -> Result<Answer<T>> {
    let clock = run.start(NAME);
    let forecast = method.forecast(model, query, run);
    run.require_memory(NAME, forecast.bytes)?;
    let (value, log_partition) =
        run.install(|| work(&clock)).map_err(|error| no_tree::described(error, model))?;
    let mut diagnostics =
        Diagnostics::new(NAME).note("precision", F::NAME).note("forecast_bytes", forecast.bytes);
    if let Some(warning) = no_tree::warning(model, &log_partition) {
        diagnostics = diagnostics.note("warning", warning);
    }
    diagnostics.rounding = rounding(model);
    diagnostics.seconds = clock.seconds();
    Ok(Answer::exact(value, diagnostics))
}

impl<F: Real> LogPartition<DependencyTree<F>> for SpanningTrees {
    fn log_partition(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        answer(self, model, Query::LogPartition, run, |clock| {
            let values = some_partition(&all_sums(model, Depth::Partition, None, clock)?)?;
            Ok((values.clone(), values))
        })
    }
}

impl<F: Real> Marginals<DependencyTree<F>> for SpanningTrees {
    fn marginals(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<HeadMarginals<F>>> {
        answer(self, model, Query::Marginals, run, |clock| {
            let sums = all_sums(model, Depth::Marginals, None, clock)?;
            let log_z = some_partition(&sums)?;
            let shape = [model.batch(), model.words(), model.words() + 1];
            let mut values = vec![F::ZERO; shape.iter().product()];
            for (b, own) in sums.iter().enumerate() {
                let n = model.lengths()[b];
                for d in 0..n {
                    let row = &mut values[(b * shape[1] + d) * shape[2]..][..n + 1];
                    row[0] = F::from_f64(own.roots[d]);
                    row[1..]
                        .iter_mut()
                        .enumerate()
                        .for_each(|(h, to)| *to = F::from_f64(own.arcs[h * n + d]));
                }
            }
            Ok((HeadMarginals { shape, values }, log_z))
        })
    }
}

impl<F: Real> FactorMarginals<DependencyTree<F>> for SpanningTrees {
    fn factor_marginals(
        &self,
        model: &DependencyTree<F>,
        run: &Run,
    ) -> Result<Answer<DependencyGradient<F>>> {
        answer(self, model, Query::FactorMarginals, run, |clock| {
            let sums = all_sums(model, Depth::Marginals, None, clock)?;
            let log_z = some_partition(&sums)?;
            let mut gradient = zero_gradient(model);
            add_arcs(model, &sums, &vec![1.0; model.batch()], None, &mut gradient);
            Ok((gradient, log_z))
        })
    }
}

fn zero_gradient<F: Real>(model: &DependencyTree<F>) -> DependencyGradient<F> {
    DependencyGradient { arcs: vec![F::ZERO; model.arcs().len()], roots: vec![F::ZERO; model.roots().len()] }
}

impl<F: Real> Entropy<DependencyTree<F>> for SpanningTrees {
    fn entropy(&self, model: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        let mut found = answer(self, model, Query::Entropy, run, |clock| {
            let sums = all_sums(model, Depth::Marginals, None, clock)?;
            let log_z = some_partition(&sums)?;
            Ok((entropies(model, &sums), log_z))
        })?;
        found.diagnostics.rounding *= 4.0 * (1.0 + model.magnitude());
        Ok(found)
    }
}

/// H = log Z − E[score]; −∞ for sentences without a tree.
fn entropies<F: Real>(model: &DependencyTree<F>, sums: &[Sums]) -> Vec<f64> {
    let of = |(b, own): (usize, &Sums)| match own.log_partition {
        f64::NEG_INFINITY => f64::NEG_INFINITY,
        log_z => {
            // Relative to log Z per word, because every word has one arc: less cancellation.
            let share = log_z / model.lengths()[b] as f64;
            let score = |head, d, l: usize| share - model.arc_from(b, head, d)[l].to_f64();
            expectation(model, b, own, score).max(0.0)
        }
    };
    sums.iter().enumerate().map(of).collect()
}

impl<F: Real> Divergence<DependencyTree<F>> for SpanningTrees {
    fn cross_entropy(
        &self,
        p: &DependencyTree<F>,
        q: &DependencyTree<F>,
        run: &Run,
    ) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, false, run)
    }

    fn kl(&self, p: &DependencyTree<F>, q: &DependencyTree<F>, run: &Run) -> Result<Answer<Vec<f64>>> {
        divergence(self, p, q, true, run)
    }
}

/// An error if p and q cannot be compared.
fn check_shapes<F: Real>(p: &DependencyTree<F>, q: &DependencyTree<F>) -> Result<()> {
    if (p.lengths(), p.labels(), p.words(), p.shape()) == (q.lengths(), q.labels(), q.words(), q.shape()) {
        return Ok(());
    }
    Err(Error::model("the models differ in lengths, labels or the trees they admit, which must be the same"))
}

fn divergence<F: Real>(
    method: &SpanningTrees,
    p: &DependencyTree<F>,
    q: &DependencyTree<F>,
    kl: bool,
    run: &Run,
) -> Result<Answer<Vec<f64>>> {
    check_shapes(p, q)?;
    let mut found = answer(method, p, Query::Entropy, run, |clock| {
        let of_p = all_sums(p, Depth::Marginals, None, clock)?;
        let log_p = some_partition(&of_p)?;
        let of_q = all_sums(q, Depth::Partition, None, clock)?;
        Ok((divergences(p, q, &of_p, &of_q, kl, clock)?, log_p))
    })?;
    found.diagnostics.rounding =
        4.0 * (found.diagnostics.rounding + rounding(q)) * (1.0 + p.magnitude() + q.magnitude());
    Ok(found)
}

/// The cross-entropy −E_p[log q], or KL = E_p[log p − log q]; +∞ if q forbids a tree of p, −∞ if p has no
/// tree.
fn divergences<F: Real>(
    p: &DependencyTree<F>,
    q: &DependencyTree<F>,
    of_p: &[Sums],
    of_q: &[Sums],
    kl: bool,
    clock: &Clock<'_>,
) -> Result<Vec<f64>> {
    let of = |b: usize| {
        let (own, other) = (&of_p[b], &of_q[b]);
        if own.log_partition == f64::NEG_INFINITY {
            return Ok(f64::NEG_INFINITY);
        }
        if other.log_partition == f64::NEG_INFINITY || forbids(p, q, b, clock)? {
            return Ok(f64::INFINITY);
        }
        let n = p.lengths()[b] as f64;
        let (share_p, share_q) = (own.log_partition / n, other.log_partition / n);
        let score = |head: usize, d: usize, l: usize| {
            let of_q = q.arc_from(b, head, d)[l].to_f64() - share_q;
            if kl { p.arc_from(b, head, d)[l].to_f64() - share_p - of_q } else { -of_q }
        };
        let value = expectation(p, b, own, score);
        Ok(if kl { value.max(0.0) } else { value })
    };
    (0..p.batch()).map(of).collect()
}

/// Whether q has weight zero for an arc that some tree of p has. This is decided by weights that are
/// positive, in the log domain: a probability may underflow.
fn forbids<F: Real>(
    p: &DependencyTree<F>,
    q: &DependencyTree<F>,
    b: usize,
    clock: &Clock<'_>,
) -> Result<bool> {
    let n = p.lengths()[b];
    let zero = |x: &F| x.to_f64() == f64::NEG_INFINITY;
    let suspect = |head: usize, d: usize| {
        let pairs = p.arc_from(b, head, d).iter().zip(q.arc_from(b, head, d));
        pairs.into_iter().any(|(of_p, of_q)| !zero(of_p) && zero(of_q))
    };
    let mut suspects =
        (0..n).flat_map(|d| (0..=n).filter(move |&head| head != d + 1).map(move |head| (head, d)));
    if !suspects.clone().any(|(head, d)| suspect(head, d)) {
        return Ok(false);
    }
    // All positive weights equal: no probability is so small that it underflows.
    let mut support = Sentence::new(p, b, None);
    for x in support.arcs.iter_mut().chain(&mut support.roots) {
        *x = if *x > f64::NEG_INFINITY { -((n + 1) as f64).ln() } else { *x };
    }
    let shape = p.shape();
    let sums = match shape.projective {
        true => {
            projective::sums(std::slice::from_ref(&support), shape.single_root, true, false, clock)?.remove(0)
        }
        false => spanning::sums(&support, shape.single_root, true, false, clock)?,
    };
    Ok(suspects.any(|(head, d)| {
        let probability = if head == 0 { sums.roots[d] } else { sums.arcs[(head - 1) * n + d] };
        probability > 0.0 && suspect(head, d)
    }))
}
