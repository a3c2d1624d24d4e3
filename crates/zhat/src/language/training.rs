//! Learning a language model from counts: joint descent on the parameters and the dual variables of a certified bound (Algorithm 2).
//!
//! The objective is that of the module `chains`; L-BFGS makes it less, on parameters divided by (p̂(x)·C)^{−1/4}, which lets rare words move without letting them run away. After each
//! step the objective of the validation text is evaluated (a sum over its pairs), the best parameters are kept, and learning ends once they have not become better for some steps. At the end the
//! parameters are rounded to the model's precision and the certificate is made for those in double precision.
//!
//! Cost: one pass over tiles for each evaluation, about one evaluation a step; memory is that of L-BFGS, 2·m + 6 vectors of parameters.
//!
//! What goes on from step to step is data ([`Checkpoint`]): a run that is resumed ends with the same bits as one that never stopped.
//!
//! Reference: Y. Jernite, A. M. Rush, D. Sontag, *A fast variational approach for learning Markov random field language models*, ICML 2015.

use serde::{Deserialize, Serialize};

use super::chains::{Chains, Shape};
use super::{Certificate, LanguageModel, Moments, Vocabulary};
use crate::error::{Error, Result};
use crate::lifted::{Passes, checked_shares};
use crate::model::{Interactions, SequenceMrf};
use crate::optimize::Lbfgs;
use crate::random::Streams;
use crate::run::Run;
use crate::units;

const PHASE: &str = "learning";
/// Pairs that L-BFGS remembers, if there is memory.
const HISTORY: usize = 10;
/// Standard deviation of the first embeddings.
const SPREAD: f64 = 0.1;
/// Numbers of the first embeddings that share a random stream.
const BLOCK: usize = 1024;
/// Brings the first step of L-BFGS to a length that helps.
const STRETCH: f64 = 60.0;
/// Steps in a row without any gain end the work.
const IDLE: usize = 10;

/// The bound that is made less.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The spectral bound with shares ρ; without any the first distance has 0.95 and the others the rest.
    Spectral(Vec<f64>),
    /// The star bound.
    Star,
}

/// How a model is learned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Training {
    /// D; full matrices without.
    pub rank: Option<usize>,
    /// Which bound.
    pub objective: Objective,
    /// λ of λ/2·‖φ‖², in nats a position.
    pub l2: f64,
    /// Steps at most.
    pub iterations: usize,
    /// Ends after so many steps without a better validation text.
    pub patience: usize,
    /// Ends once the gradient has no component larger than this.
    pub tolerance: f64,
}

impl Default for Training {
    fn default() -> Self {
        Training {
            rank: Some(30),
            objective: Objective::Spectral(Vec::new()),
            l2: 4e-6,
            iterations: 1000,
            patience: 30,
            tolerance: 1e-9,
        }
    }
}

impl Training {
    /// w_l, and the weight of single words.
    fn weights(&self, context: usize) -> Result<(Vec<f64>, f64)> {
        match &self.objective {
            Objective::Star => {
                let weight = ((context + 1) as f64).recip();
                Ok((vec![weight; context], weight))
            }
            Objective::Spectral(shares) if shares.is_empty() => {
                let rest = if context > 1 { 0.05 / (context - 1) as f64 } else { 0.0 };
                let first = 1.0 - rest * (context - 1) as f64;
                let shares: Vec<f64> = (0..context).map(|l| if l == 0 { first } else { rest }).collect();
                Ok((checked_shares(&shares, context)?, 0.0))
            }
            Objective::Spectral(shares) => Ok((checked_shares(shares, context)?, 0.0)),
        }
    }
}

/// Where learning stands.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrainingProgress {
    /// Steps done.
    pub iteration: usize,
    /// Nats a word of the text, as far as single precision knows.
    pub train: f64,
    /// Nats a word of the validation text.
    pub valid: Option<f64>,
    /// The step with the best validation text.
    pub best: usize,
    /// The largest component of the gradient.
    pub stationarity: f64,
}

/// Everything that goes on from one step to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checkpoint {
    pub(crate) how: Training,
    /// Of the counts: positions, states, context, pairs.
    pub(crate) data: Vec<u64>,
    pub(crate) progress: TrainingProgress,
    pub(crate) lbfgs: Lbfgs,
    /// The least objective so far.
    pub(crate) least: f64,
    /// The objective of the validation text, or of the text without one, and the point it was found at.
    pub(crate) best_value: f64,
    pub(crate) best_point: Vec<f64>,
    pub(crate) idle: usize,
}

impl Checkpoint {
    /// Where it stands.
    pub fn progress(&self) -> TrainingProgress {
        self.progress
    }

    /// Whether it belongs to these counts and options; more steps and more patience are fine.
    fn fits(&self, how: &Training, moments: &Moments) -> bool {
        let same = Training {
            iterations: how.iterations,
            patience: how.patience,
            tolerance: how.tolerance,
            ..self.how.clone()
        };
        same == *how && self.data == fingerprint(moments)
    }
}

fn fingerprint(moments: &Moments) -> Vec<u64> {
    let pairs = moments.pairs().iter().map(|pairs| pairs.pairs() as u64);
    [moments.positions(), moments.states() as u64].into_iter().chain(pairs).collect()
}

/// How many pairs L-BFGS can remember within the memory budget.
fn history(moments: &Moments, how: &Training, shape: Shape, run: &Run) -> Result<usize> {
    let vector = 8.0 * shape.parameters() as f64;
    let fixed = Chains::bytes(moments, how.rank, run.threads()) + 12.0 * vector;
    let left = run.memory() as f64 - fixed;
    let pairs = (left / (2.0 * vector)).floor();
    if pairs < 1.0 {
        let least = fixed + 2.0 * vector;
        return Err(Error::OverBudget {
            needs: format!(
                "learning {} parameters needs {} of memory; a rank, or fewer words, needs less",
                shape.parameters(),
                units::bytes(least)
            ),
            budget: units::bytes(run.memory() as f64),
            fitting: Vec::new(),
        });
    }
    Ok((pairs as usize).min(HISTORY))
}

/// Learns a model. `watch` is told of every step and ends the work by returning false; with `from` it goes on where that was left.
pub fn train(
    moments: &Moments,
    vocabulary: &Vocabulary,
    valid: Option<&Moments>,
    how: &Training,
    from: Option<Checkpoint>,
    run: &Run,
    watch: &mut dyn FnMut(&Checkpoint) -> Result<bool>,
) -> Result<LanguageModel> {
    if !(how.l2 >= 0.0 && how.l2.is_finite()) {
        return Err(Error::argument("l2", format!("{} is not a number from 0 on", how.l2)));
    }
    if how.rank == Some(0) {
        return Err(Error::argument("rank", "must be 1 at least"));
    }
    let others =
        valid.iter().any(|valid| valid.states() != moments.states() || valid.context() != moments.context());
    if others || vocabulary.states() != moments.states() {
        return Err(Error::argument("valid", "was counted with another vocabulary or context"));
    }
    if moments.positions() <= moments.context() as u64 {
        return Err(Error::argument("context", "is as long as the whole text; expected less"));
    }
    let clock = run.start(PHASE);
    let (weights, alone) = how.weights(moments.context())?;
    let mut chains = Chains::new(moments, how.rank, weights.clone(), how.l2);
    let shape = chains.shape;
    let history = history(moments, how, shape, run)?;
    let scale = scales(moments, shape);
    let mut now = match from {
        Some(checkpoint) if checkpoint.fits(how, moments) => Checkpoint { how: how.clone(), ..checkpoint },
        Some(_) => return Err(Error::argument("checkpoint", "is of another text or of other options")),
        None => begun(moments, how, shape, &scale, history, run),
    };
    let n = moments.positions() as f64;
    // The star bound has the entropy of single words besides.
    let single = |of: &Moments| {
        let terms = of.unary().iter().zip(moments.unary()).filter(|(count, _)| **count > 0);
        let sum: f64 = terms.map(|(&count, &own)| -(count as f64) * (own as f64 / n).ln()).sum();
        if alone > 0.0 { alone * sum / of.positions() as f64 } else { 0.0 }
    };
    let per_word = |value: f64, of: &Moments| -value * of.positions() as f64 / of.tokens() as f64;
    let (single_train, single_valid) = (single(moments), valid.map(single));
    let done = |now: &Checkpoint| {
        let progress = now.progress;
        progress.iteration >= how.iterations
            || progress.stationarity <= how.tolerance
            || now.idle >= IDLE
            || valid.is_some() && progress.iteration >= progress.best + how.patience
    };
    while !done(&now) && !clock.is_cancelled() && !clock.is_out_of_time() {
        clock.progress(PHASE, now.progress.iteration as u64, how.iterations as u64);
        let mut last = Vec::new();
        let mut objective = |z: &[f64], gradient: &mut [f64]| -> Result<f64> {
            if clock.is_cancelled() || clock.is_out_of_time() {
                return Err(Error::Interrupted);
            }
            let value = chains.evaluate(&scaled(z, &scale), gradient);
            gradient.iter_mut().zip(&scale).for_each(|(g, s)| *g *= s);
            last = z.to_vec();
            Ok(value)
        };
        let before = now.lbfgs.clone();
        let step = match run.install(|| now.lbfgs.step(&mut objective)) {
            // Time was up within a step, which is then not taken.
            Err(Error::Interrupted) => {
                now.lbfgs = before;
                break;
            }
            step => step?,
        };
        let point = scaled(now.lbfgs.point(), &scale);
        if last != now.lbfgs.point() {
            // The line search has ended elsewhere than it looked last, or did not look at all.
            run.install(|| chains.evaluate(&point, &mut vec![0.0; point.len()]));
        }
        let iteration = now.progress.iteration + 1;
        let train = chains.cross_entropy(&point, moments) + single_train;
        let watched = match (valid, single_valid) {
            (Some(valid), Some(single)) => Some(chains.cross_entropy(&point, valid) + single),
            _ => None,
        };
        let gained = step.objective < now.least;
        now.least = now.least.min(step.objective);
        let value = watched.unwrap_or(step.objective);
        let mut best = now.progress.best;
        if value < now.best_value || now.best_point.is_empty() {
            (now.best_value, now.best_point, best) = (value, now.lbfgs.point().to_vec(), iteration);
        }
        now.idle = if gained { 0 } else { now.idle + 1 };
        now.progress = TrainingProgress {
            iteration,
            train: per_word(train, moments),
            valid: watched.zip(valid).map(|(value, valid)| per_word(value, valid)),
            best,
            stationarity: step.stationarity,
        };
        if !watch(&now)? {
            break;
        }
    }
    let point = if now.best_point.is_empty() { now.lbfgs.point() } else { &now.best_point };
    let point = scaled(point, &scale);
    run.install(|| finished(moments, vocabulary, how, shape, &weights, &point))
}

fn scaled(z: &[f64], scale: &[f64]) -> Vec<f64> {
    z.iter().zip(scale).map(|(z, s)| z * s).collect()
}

/// What parameters are divided by: (p̂·C)^{−1/4} for what belongs to one word, the product of two for a pair.
fn scales(moments: &Moments, shape: Shape) -> Vec<f64> {
    let (states, n) = (shape.states, moments.positions() as f64);
    let scale = |&count: &u64| (count.max(1) as f64 / n * states as f64).powf(-0.25);
    let words: Vec<f64> = moments.unary().iter().map(scale).collect();
    let mut scales = Vec::with_capacity(shape.parameters());
    (0..shape.context).for_each(|_| scales.extend(words.iter().map(|s| STRETCH * s)));
    match shape.rank {
        Some(rank) => {
            for _ in 0..=shape.context {
                words.iter().for_each(|s| scales.extend(std::iter::repeat_n(STRETCH * s, rank)));
            }
        }
        None => {
            for _ in 0..shape.context {
                words.iter().for_each(|x| scales.extend(words.iter().map(|y| STRETCH * x * y)));
            }
        }
    }
    scales
}

/// The start: b is that of independent words, the embeddings are small and random, full matrices 0.
fn begun(
    moments: &Moments,
    how: &Training,
    shape: Shape,
    scale: &[f64],
    history: usize,
    run: &Run,
) -> Checkpoint {
    let n = moments.positions() as f64;
    let words: Vec<f64> = moments.unary().iter().map(|&count| (count.max(1) as f64 / n).ln()).collect();
    let mut point = Vec::with_capacity(shape.parameters());
    (0..shape.context).for_each(|_| point.extend_from_slice(&words));
    match shape.rank {
        Some(_) => {
            let streams = Streams::new(run.seed(), "first embeddings");
            let numbers = shape.interactions();
            for (block, first) in (0..numbers).step_by(BLOCK).enumerate() {
                let mut stream = streams.block(block as u64);
                for i in first..(first + BLOCK).min(numbers) {
                    // Frequent words start smaller, as their parameters move less.
                    let small = (scale[shape.columns() + i] / STRETCH).min(1.0);
                    point.push(SPREAD * small * stream.normal());
                }
            }
        }
        None => point.resize(shape.parameters(), 0.0),
    }
    let z = point.iter().zip(scale).map(|(x, s)| x / s).collect();
    let progress = TrainingProgress {
        iteration: 0,
        train: f64::NEG_INFINITY,
        valid: None,
        best: 0,
        stationarity: f64::INFINITY,
    };
    Checkpoint {
        how: how.clone(),
        data: fingerprint(moments),
        progress,
        lbfgs: Lbfgs::new(z, history),
        least: f64::INFINITY,
        best_value: f64::INFINITY,
        best_point: Vec::new(),
        idle: 0,
    }
}

/// The model at a point, in its own precision, and its certificate.
fn finished(
    moments: &Moments,
    vocabulary: &Vocabulary,
    how: &Training,
    shape: Shape,
    weights: &[f64],
    point: &[f64],
) -> Result<LanguageModel> {
    let Shape { states, context, rank } = shape;
    let (columns, interactions) = point.split_at(shape.columns());
    let columns: Vec<Vec<f64>> = columns.chunks_exact(states).map(<[f64]>::to_vec).collect();
    // θˡ = w_l·φˡ: with embeddings the factor goes to the right one.
    let weighted = |values: &[f64], weight: f64| values.iter().map(|x| (weight * x) as f32).collect();
    let interactions = match rank {
        None => {
            let matrices = interactions.chunks_exact(states * states).zip(weights);
            Interactions::Full(matrices.map(|(matrix, &weight)| weighted(matrix, weight)).collect())
        }
        Some(rank) => {
            let (left, right) = interactions.split_at(states * rank);
            let right = right.chunks_exact(states * rank).zip(weights);
            Interactions::LowRank {
                rank,
                left: weighted(left, 1.0),
                right: right.map(|(matrix, &weight)| weighted(matrix, weight)).collect(),
            }
        }
    };
    let length = moments.positions() as usize;
    let bare = SequenceMrf::new(length, vec![0.0; states], interactions)?;
    let passes = Passes::new(&bare);
    let normalizers: Vec<Vec<f64>> =
        (0..context).map(|l| passes.pass(l + 1, weights[l].recip(), &columns[l], None, false).up).collect();
    let n = moments.positions() as f64;
    let (unary, certificate) = match how.objective {
        Objective::Spectral(_) => {
            // u_l = b_l − log Z_l, for which Z_l is an eigenvector.
            let own: Vec<Vec<f64>> =
                columns.iter().zip(&normalizers).map(|(b, z)| difference(b, z)).collect();
            let mut unary = vec![0.0; states];
            for (own, weight) in own.iter().zip(weights) {
                unary.iter_mut().zip(own).for_each(|(t, u)| *t += weight * u);
            }
            (unary, Certificate::Spectral { shares: weights.to_vec(), columns: own, right: normalizers })
        }
        Objective::Star => {
            // The root's score is the best one, log p̂ − Σ log Z_l, and a leaf's b_l: θ⁰ is their mean.
            let mut unary: Vec<f64> =
                moments.unary().iter().map(|&count| (count.max(1) as f64 / n).ln()).collect();
            for (b, z) in columns.iter().zip(&normalizers) {
                unary.iter_mut().zip(difference(b, z)).for_each(|(t, d)| *t += d);
            }
            unary.iter_mut().for_each(|t| *t /= (context + 1) as f64);
            let delta = columns.iter().map(|b| difference(b, &unary)).collect();
            (unary, Certificate::Star { delta })
        }
    };
    let mrf = SequenceMrf::new(length, unary, bare.interactions().clone())?;
    LanguageModel::new(vocabulary.clone(), moments.lengths(), mrf, certificate)
}

fn difference(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}
