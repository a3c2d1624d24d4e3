//! Relaxed samples and their gradient.
//!
//! With independent Gumbel noise g on the score of every arc, the best tree under score + g is a random tree,
//! and the probabilities of arcs in the model with scores (score + g)/τ are its relaxation: a stochastic softmax,
//! which approaches the best tree as τ → 0. Its gradient is the covariance of the arcs, so the product with a
//! cotangent is the derivative of the probabilities in the direction of the cotangent, divided by τ. The random
//! tree is not an exact sample of the model: noise per arc is less than noise per tree.
//!
//! Time O(T³) per sample. Reference: M. B. Paulus, D. Choi, D. Tarlow, A. Krause, C. J. Maddison, *Gradient
//! estimation with stochastic softmax tricks*, NeurIPS 2020.
//!
//! ```
//! use zhat::dynamic::SpanningTrees;
//! use zhat::model::generate::{dependency, SentenceShape};
//! use zhat::Run;
//! let model = dependency::<f64>(&SentenceShape { words: 5, ..Default::default() }, 1)?;
//! let (samples, tape) = SpanningTrees::default().relaxed_samples_with_tape(&model, 3, 0.5, &Run::default())?;
//! assert_eq!(samples.shape, [1, 3, 5, 6]);
//! let gradient = tape.vjp(&vec![1.0; samples.heads.len()])?;
//! assert!(gradient.arcs.iter().all(|x| x.abs() < 1e-12));    // every word always has one head
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::parallel::prelude::*;

use super::randomized::label_shares;
use super::ranked::best_trees;
use super::tape::add_slopes;
use super::{Depth, NAME, SpanningTrees, all_sums, some_partition, zero_gradient};
use crate::error::{Error, Result};
use crate::method::dynamic::forward_backward::check_numbers;
use crate::model::DependencyTree;
use crate::numeric::Real;
use crate::query::Forecasts;
use crate::query::Query;
use crate::query::tree::{DependencyGradient, RelaxedTrees, Tree};
use crate::random::Streams;
use crate::run::Run;

/// What the gradient of relaxed trees needs. The noise is regenerated.
pub struct RelaxedTreeTape<F: Real> {
    model: DependencyTree<F>,
    count: usize,
    temperature: f64,
    run: Run,
}

/// An error unless the temperature is positive and finite.
pub(super) fn check_temperature(temperature: f64) -> Result<()> {
    match temperature > 0.0 && temperature.is_finite() {
        true => Ok(()),
        false => Err(Error::argument("temperature", format!("{temperature} is not a positive number"))),
    }
}

/// The model with scores (score + noise)/τ: sentence b·count + s for sample s of sentence b.
fn perturbed<F: Real>(
    model: &DependencyTree<F>,
    count: usize,
    temperature: f64,
    run: &Run,
) -> Result<DependencyTree<f64>> {
    let streams = Streams::new(run.seed(), "spanning-trees relaxed");
    let (words, labels) = (model.words(), model.per_arc());
    let (row, square) = (words * labels, words * words * labels);
    let sentences = model.batch() * count;
    let (mut arcs, mut roots) =
        (vec![f64::NEG_INFINITY; sentences * square], vec![f64::NEG_INFINITY; sentences * row]);
    arcs.par_chunks_mut(square).zip(roots.par_chunks_mut(row)).enumerate().for_each(|(at, (arcs, roots))| {
        let (b, s) = (at / count, at % count);
        let mut random = streams.block(((b as u64) << 32) | s as u64);
        let n = model.lengths()[b];
        for head in 0..=n {
            for d in (0..n).filter(|&d| d + 1 != head) {
                let to = match head {
                    0 => &mut roots[d * labels..],
                    head => &mut arcs[((head - 1) * words + d) * labels..],
                };
                for (to, score) in to.iter_mut().zip(model.arc_from(b, head, d)) {
                    *to = (score.to_f64() + random.gumbel()) / temperature;
                }
            }
        }
    });
    let lengths = model.lengths().iter().flat_map(|&length| std::iter::repeat_n(length, count)).collect();
    DependencyTree::new(arcs.into(), roots.into(), lengths, model.labels(), model.shape())
        .map_err(|_| Error::argument("temperature", "scores divided by the temperature are too large"))
}

impl SpanningTrees {
    /// `count` random trees of each sentence, the best ones under Gumbel noise, with their relaxation at a
    /// positive temperature, and a tape for its gradient.
    ///
    /// # Errors
    /// If the temperature is not positive and finite, or the run is cancelled or over its memory or time budget;
    /// `Error::ZeroPartition` if no sentence has a tree.
    pub fn relaxed_samples_with_tape<F: Real>(
        &self,
        model: &DependencyTree<F>,
        count: usize,
        temperature: f64,
        run: &Run,
    ) -> Result<(RelaxedTrees<F>, RelaxedTreeTape<F>)> {
        check_temperature(temperature)?;
        let (words, labels) = (model.words(), model.per_arc());
        let shape = [model.batch(), count, words, words + 1];
        let numbers = shape.iter().map(|&x| x as f64).product::<f64>() * labels as f64;
        let work = self.forecast(model, Query::FactorMarginals, run).bytes;
        run.require_memory(NAME, work + numbers * (56.0 + size_of::<F>() as f64))?;
        let clock = run.start(NAME);
        let tape = RelaxedTreeTape { model: model.clone(), count, temperature, run: run.clone() };
        let mut samples = RelaxedTrees {
            shape,
            labels: model.labels(),
            hard: vec![Vec::new(); model.batch()],
            heads: vec![F::ZERO; numbers as usize],
        };
        if count == 0 {
            return Ok((samples, tape));
        }
        let (sums, best, noisy) = run.install(|| {
            let noisy = perturbed(model, count, temperature, run)?;
            let sums = all_sums(&noisy, Depth::Marginals, None, &clock)?;
            some_partition(&sums)?;
            let one = |at: usize| Ok(best_trees(&noisy, at, 1, &clock)?.pop());
            let best: Vec<Option<Tree>> =
                (0..noisy.batch()).into_par_iter().map(one).collect::<Result<_>>()?;
            Ok::<_, Error>((sums, best, noisy))
        })?;
        for (at, (own, best)) in sums.iter().zip(best).enumerate() {
            let (b, Some(tree)) = (at / count, best) else { continue };
            samples.hard[b].push(Tree { score: model.score(b, &tree.heads, &tree.labels), ..tree });
            let n = model.lengths()[b];
            for d in 0..n {
                for head in (0..=n).filter(|&head| head != d + 1) {
                    let probability = if head == 0 { own.roots[d] } else { own.arcs[(head - 1) * n + d] };
                    let to = ((at * words + d) * (words + 1) + head) * labels;
                    let shares = label_shares(noisy.arc_from(at, head, d));
                    for (to, share) in samples.heads[to..to + labels].iter_mut().zip(shares) {
                        *to = F::from_f64(if probability > 0.0 { probability * share } else { 0.0 });
                    }
                }
            }
        }
        Ok((samples, tape))
    }
}

impl<F: Real> RelaxedTreeTape<F> {
    /// The gradient of Σ cotangent·heads, for a cotangent of the shape of `heads`.
    ///
    /// # Errors
    /// If the cotangent has the wrong length or a number that is not finite, or the run is cancelled or out of
    /// time.
    pub fn vjp(&self, cotangent: &[F]) -> Result<DependencyGradient<F>> {
        let RelaxedTreeTape { model, count, temperature, run } = self;
        let (words, labels) = (model.words(), model.per_arc());
        check_numbers(cotangent, model.batch() * count * words * (words + 1) * labels)?;
        let mut gradient = zero_gradient(model);
        if *count == 0 {
            return Ok(gradient);
        }
        let noisy = run.install(|| perturbed(model, *count, *temperature, run))?;
        let direction = |at: usize, head: usize, d: usize, label: usize| {
            cotangent[((at * words + d) * (words + 1) + head) * labels + label].to_f64()
        };
        let mut each = zero_gradient(&noisy);
        add_slopes(&noisy, &direction, &vec![1.0 / temperature; noisy.batch()], run, &mut each)?;
        let fold = |to: &mut [F], from: &[f64]| {
            let size = to.len() / model.batch();
            for (b, to) in to.chunks_mut(size).enumerate() {
                for (i, to) in to.iter_mut().enumerate() {
                    let sum: f64 = (0..*count).map(|s| from[(b * count + s) * size + i]).sum();
                    *to = F::from_f64(sum);
                }
            }
        };
        fold(&mut gradient.arcs, &each.arcs);
        fold(&mut gradient.roots, &each.roots);
        Ok(gradient)
    }
}
