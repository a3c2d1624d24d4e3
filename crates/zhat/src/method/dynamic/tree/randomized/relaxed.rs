//! Relaxed samples over the kept arcs, and their gradient.
//!
//! Gumbel noise is added to the scores of kept arcs, with the logarithms of their weights. The best tree is the
//! random tree, and the probabilities of arcs at temperature τ are its relaxation, as in the exact method. Only
//! kept arcs have a value, so samples are sparse: T·K numbers. Sample s comes from replicate s mod R. Time
//! O(T²·K) per sample.

use crate::numeric::parallel::prelude::*;

use super::arcs::KeptArcs;
use super::certain::CERTAIN;
use super::pass::{Forest, Links, pick_best, sums};
use super::{Estimates, Wanted, check_projective};
use crate::error::{Error, Result};
use crate::method::dynamic::RandomizedInside;
use crate::method::dynamic::forward_backward::check_numbers;
use crate::method::dynamic::grammar::randomized::NAME;
use crate::method::dynamic::tree::number::Largest;
use crate::method::dynamic::tree::relaxed::check_temperature;
use crate::method::dynamic::tree::zero_gradient;
use crate::model::DependencyTree;
use crate::numeric::{self, Real};
use crate::options::Options;
use crate::query::tree::{DependencyGradient, SparseTree, SparseTrees, Tree};
use crate::query::{Forecasts, Query};
use crate::random::Streams;
use crate::run::{Clock, Run};

/// What the gradient of sparse relaxed trees needs: the kept arcs. The noise is regenerated.
pub struct SparseTreeTape<F: Real> {
    model: DependencyTree<F>,
    found: Estimates,
    count: usize,
    temperature: f64,
    run: Run,
}

/// The perturbed arcs of a sample.
struct Noisy {
    /// (score + log weight + noise)/τ, by arc and label.
    scores: Vec<f64>,
    /// The logarithm of the sum over labels, by arc.
    totals: Vec<f64>,
    labels: usize,
}

impl Noisy {
    fn new<F: Real>(
        model: &DependencyTree<F>,
        (b, s): (usize, usize),
        arcs: &KeptArcs,
        temperature: f64,
        run: &Run,
    ) -> Self {
        let mut random =
            Streams::new(run.seed(), "randomized inside heads relaxed").block(((b as u64) << 32) | s as u64);
        let labels = model.per_arc();
        let mut noisy = Noisy { scores: Vec::new(), totals: Vec::new(), labels };
        for (e, head, d) in arcs.list() {
            let first = noisy.scores.len();
            for score in model.arc_from(b, head, d) {
                let own = score.to_f64() + arcs.log_weights[e] + random.gumbel();
                noisy.scores.push(own / temperature);
            }
            noisy.totals.push(numeric::log_sum_exp(&noisy.scores[first..]));
        }
        noisy
    }

    /// The scores of the labels of an arc.
    fn of(&self, e: usize) -> &[f64] {
        &self.scores[e * self.labels..(e + 1) * self.labels]
    }

    /// The probability of a label of an arc.
    fn share(&self, e: usize, label: usize) -> f64 {
        let score = self.of(e)[label];
        if score > f64::NEG_INFINITY { (score - self.totals[e]).exp() } else { 0.0 }
    }

    /// The best label of an arc.
    fn best(&self, e: usize) -> usize {
        let own = self.of(e);
        (0..own.len()).fold(0, |best, label| if own[label] > own[best] { label } else { best })
    }
}

impl RandomizedInside {
    /// `count` random trees of each sentence, the best ones among kept arcs under Gumbel noise, with their
    /// relaxation at a positive temperature, and a tape for its gradient.
    ///
    /// # Errors
    /// If the temperature is not positive and finite, trees need not be projective, or the run is cancelled or
    /// over its memory or time budget; `Error::ZeroPartition` if no sentence has a tree.
    pub fn relaxed_trees_with_tape<F: Real>(
        &self,
        model: &DependencyTree<F>,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(SparseTrees<F>, SparseTreeTape<F>)> {
        check_temperature(temperature)?;
        self.check()?;
        check_projective(model)?;
        let total: f64 = model.lengths().iter().map(|&length| length as f64).sum();
        let each = total * (self.heads_kept(model) as f64 + CERTAIN) * model.per_arc() as f64;
        let work = self.forecast(model, Query::FactorMarginals, run).bytes;
        run.require_memory(NAME, work + count as f64 * each * (12.0 + size_of::<F>() as f64))?;
        let clock = run.start(NAME);
        let (found, drawn) = run.install(|| {
            let found = self.arc_estimates(model, Wanted::Arcs, run, &clock)?;
            if found.logs.all_missed() && found.count >= model.lengths().iter().copied().max().unwrap_or(0) {
                return Err(Error::ZeroPartition);
            }
            let wanted: Vec<(usize, usize)> =
                (0..model.batch()).flat_map(|b| (0..count).map(move |s| (b, s))).collect();
            let one = |&(b, s): &(usize, usize)| sample(model, &found, (b, s), temperature, run, &clock);
            let drawn: Vec<Option<SparseTree<F>>> = wanted.par_iter().map(one).collect::<Result<_>>()?;
            Ok((found, drawn))
        })?;
        let mut drawn = drawn.into_iter();
        let samples = (0..model.batch()).map(|_| drawn.by_ref().take(count).flatten().collect()).collect();
        let turns = |b: usize| found.logs.turns(b, count).into_iter().map(|(_, log)| log).collect();
        let log_weights = (0..model.batch()).map(turns).collect();
        let tape = SparseTreeTape { model: model.clone(), found, count, temperature, run: run.clone() };
        Ok((SparseTrees { samples, log_weights }, tape))
    }
}

/// The kept arcs that a sample is drawn from; `None` if its sentence has none.
fn source(found: &Estimates, b: usize, s: usize) -> Option<&KeptArcs> {
    let turn = found.logs.turns(b, s + 1).pop()?;
    Some(&found.replicates[b][turn.0].arcs)
}

fn sample<F: Real>(
    model: &DependencyTree<F>,
    found: &Estimates,
    (b, s): (usize, usize),
    temperature: f64,
    run: &Run,
    clock: &Clock<'_>,
) -> Result<Option<SparseTree<F>>> {
    let Some(arcs) = source(found, b, s) else { return Ok(None) };
    let noisy = Noisy::new(model, (b, s), arcs, temperature, run);
    let links = Links::new(arcs, model.shape().single_root);
    let probabilities = sums(&links, &arcs.normalised(|e, _, _| noisy.totals[e]), None, true, clock)?.arcs;
    let best: Vec<f64> = (0..noisy.totals.len()).map(|e| noisy.of(e)[noisy.best(e)]).collect();
    let Some(forest) = Forest::<Largest>::new(&links, &best, clock)? else { return Ok(None) };
    let heads = forest.tree(&mut pick_best);
    let arc = |(d, &head): (usize, &usize)| arcs.of_word(d).find(|&e| arcs.heads[e] as usize == head);
    let labels: Vec<usize> = match model.labels() {
        None => Vec::new(),
        Some(_) => heads.iter().enumerate().map(|own| arc(own).map_or(0, |e| noisy.best(e))).collect(),
    };
    let mut tree = SparseTree {
        hard: Tree { score: model.score(b, &heads, &labels), heads, labels },
        index: Vec::with_capacity(noisy.scores.len()),
        values: Vec::with_capacity(noisy.scores.len()),
    };
    for (e, head, d) in arcs.list() {
        for label in 0..noisy.labels {
            tree.index.push([d as u32, head as u32, label as u32]);
            tree.values.push(F::from_f64(probabilities[e] * noisy.share(e, label)));
        }
    }
    Ok(Some(tree))
}

impl<F: Real> SparseTreeTape<F> {
    /// The gradient of Σ cotangent·values, for one cotangent per sentence and sample, with the length of its
    /// `values`.
    ///
    /// # Errors
    /// If a cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, cotangent: &[Vec<Vec<F>>]) -> Result<DependencyGradient<F>> {
        let SparseTreeTape { model, found, count, temperature, run } = self;
        let counted = |(b, own): (usize, &Vec<Vec<F>>)| own.len() == found.logs.turns(b, *count).len();
        if cotangent.len() != model.batch() || !cotangent.iter().enumerate().all(counted) {
            return Err(Error::argument("cotangent", "expected one list of numbers per sentence and sample"));
        }
        let (clock, single_root) = (run.start(NAME), model.shape().single_root);
        let wanted: Vec<(usize, usize)> =
            cotangent.iter().enumerate().flat_map(|(b, own)| (0..own.len()).map(move |s| (b, s))).collect();
        let one = |&(b, s): &(usize, usize)| -> Result<Vec<f64>> {
            let Some(arcs) = source(found, b, s) else { return Ok(Vec::new()) };
            let noisy = Noisy::new(model, (b, s), arcs, *temperature, run);
            let (own, labels) = (&cotangent[b][s], noisy.labels);
            check_numbers(own, noisy.scores.len())?;
            let at = |e: usize, label: usize| own[e * labels + label].to_f64();
            let mean = |e: usize| (0..labels).map(|label| noisy.share(e, label) * at(e, label)).sum::<f64>();
            let means: Vec<f64> = (0..noisy.totals.len()).map(mean).collect();
            let logs = arcs.normalised(|e, _, _| noisy.totals[e]);
            let found = sums(&Links::new(arcs, single_root), &logs, Some(&means), true, &clock)?;
            let part = |e: usize, label: usize| {
                let own = found.slopes[e] + found.arcs[e] * (at(e, label) - means[e]);
                noisy.share(e, label) * own / temperature
            };
            let all = (0..noisy.totals.len()).flat_map(|e| (0..labels).map(move |label| (e, label)));
            Ok(all.map(|(e, label)| part(e, label)).collect())
        };
        let parts: Vec<Vec<f64>> = run.install(|| wanted.par_iter().map(one).collect::<Result<_>>())?;
        let (words, mut gradient) = (model.words(), zero_gradient(model));
        for (&(b, s), part) in wanted.iter().zip(parts) {
            let (Some(arcs), labels) = (source(found, b, s), model.per_arc()) else { continue };
            for ((_, head, d), part) in arcs.list().zip(part.chunks(labels)) {
                let to = match head {
                    0 => &mut gradient.roots[(b * words + d) * labels..],
                    head => &mut gradient.arcs[((b * words + head - 1) * words + d) * labels..],
                };
                to.iter_mut().zip(part).for_each(|(to, &x)| *to += F::from_f64(x));
            }
        }
        Ok(gradient)
    }
}
