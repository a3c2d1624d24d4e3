//! An unbiased estimate of Z of a cycle by annealed importance sampling: what the bounds leave open.
//!
//! From independent positions with a law p₀ to the model by the scores (1 − β)·Σᵢ log p₀(xᵢ) + β·score(x), β = 0, 1/L, …, 1: a state is drawn at β = 0, and at each further β the weight takes the
//! factor exp(Δβ·(score − log p₀)) before a sweep of Gibbs sampling. The mean of the weights is Z, whatever L is; a larger L makes it less scattered. Positions K + 1 apart do not
//! interact, so their scores are found together. Cost: L·N·C·D·(K+1) operations for each of the replicates. p₀ is the mean of the laws that belong to the spectral bound with equal shares, so it is 0 where the model is, and
//! nowhere else.
//!
//! Reference: R. M. Neal, *Annealed importance sampling*, Statistics and Computing 11 (2001).
//!
//! ```
//! use zhat::{LogPartition, Run, lifted::Annealed, model::{Interactions, SequenceMrf}};
//! let theta = Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0]]);
//! let model = SequenceMrf::new(10, vec![0.0, 0.1], theta)?;
//! println!("log Z = {}", Annealed::default().log_partition(&model, &Run::default())?);
//! # Ok::<(), zhat::Error>(())
//! ```

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::conditional::{BATCH, Conditional};
use super::passes::Passes;
use super::spectral::{Point, Spectral, Vectors, evaluate};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::forecast::{Forecast, Forecasts};
use crate::model::{Interactions, SequenceMrf};
use crate::montecarlo::unbiased;
use crate::numeric::{self, rounding_allowance};
use crate::options::{INSIDE_UNIT, Options, Range, options};
use crate::query::{LogPartition, Query};
use crate::random::{Stream, Streams};
use crate::run::{Clock, Run};

const NAME: &str = "annealed";
/// Power iterations for p₀, which need not be exact.
const PASSES: usize = 20;
/// What p₀ has of the uniform law.
const UNIFORM: f64 = 0.01;

/// How an estimate is made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Annealed {
    /// L.
    pub levels: usize,
    /// Independent estimates.
    pub replicates: usize,
    /// Of the lower bound by Markov's inequality.
    pub confidence: f64,
}

options!(Annealed {
    levels: Range::whole(1, 1_000_000_000),
    replicates: Range::whole(1, 1_000_000),
    confidence: INSIDE_UNIT
});

impl Default for Annealed {
    fn default() -> Self {
        Annealed { levels: 100, replicates: 8, confidence: 0.95 }
    }
}

/// A cycle with the last K positions before it and the first K behind it.
struct Cycle {
    padded: Vec<u32>,
    context: usize,
}

impl Cycle {
    fn len(&self) -> usize {
        self.padded.len() - 2 * self.context
    }

    fn states(&self) -> &[u32] {
        &self.padded[self.context..self.context + self.len()]
    }

    fn set(&mut self, place: usize, state: u32) {
        let (n, context) = (self.len(), self.context);
        self.padded[place + context] = state;
        if place < context {
            self.padded[place + context + n] = state;
        }
        if place >= n - context {
            self.padded[place + context - n] = state;
        }
    }
}

/// Positions that do not interact with each other: every (K + 1)-th, and what is left over one by one.
fn classes(length: usize, context: usize) -> Vec<Vec<usize>> {
    let whole = length - length % (context + 1);
    let classes = (0..=context).map(|class| (class..whole).step_by(context + 1).collect::<Vec<usize>>());
    classes.chain((whole..length).map(|place| vec![place])).collect()
}

/// One walk from p₀ to the model.
struct Walk<'a> {
    model: &'a SequenceMrf,
    conditional: Conditional<'a>,
    classes: Vec<Vec<usize>>,
    /// log p₀.
    first: Vec<f64>,
    levels: usize,
}

impl Walk<'_> {
    /// The logarithm of one weight.
    fn weight(&self, random: &mut Stream, clock: &Clock<'_>) -> Result<f64> {
        let (n, context) = (self.model.length(), self.model.context());
        let law: Vec<f64> = self.first.iter().map(|x| x.exp()).collect();
        let mut cycle = Cycle { padded: vec![0; n + 2 * context], context };
        (0..n).for_each(|place| cycle.set(place, random.categorical(&law) as u32));
        let mut weight = 0.0;
        for level in 1..=self.levels {
            clock.check()?;
            let states: Vec<usize> = cycle.states().iter().map(|&state| state as usize).collect();
            let drawn: f64 = states.iter().map(|&state| self.first[state]).sum();
            let difference = self.model.score(&states) - drawn;
            if difference == f64::NEG_INFINITY {
                return Ok(difference);
            }
            weight += difference / self.levels as f64;
            if level < self.levels {
                let share = level as f64 / self.levels as f64;
                self.classes.iter().for_each(|places| self.redraw(places, share, &mut cycle, random));
            }
        }
        Ok(weight)
    }

    /// Draws the positions of a class anew.
    fn redraw(&self, places: &[usize], share: f64, cycle: &mut Cycle, random: &mut Stream) {
        let (states, context) = (self.first.len(), cycle.context);
        let uniforms: Vec<f64> = places.iter().map(|_| random.uniform()).collect();
        let padded = &cycle.padded;
        let batches = places.par_chunks(BATCH).zip(uniforms.par_chunks(BATCH));
        let drawn: Vec<Vec<u32>> = batches
            .map(|(places, uniforms)| {
                let places: Vec<(&[u32], usize)> =
                    places.iter().map(|place| (padded.as_slice(), place + context)).collect();
                let mut scores = vec![0.0; places.len() * states];
                self.conditional.scores(&places, true, &mut scores);
                let rows = scores.chunks_exact_mut(states).zip(&places).zip(uniforms);
                rows.map(|((row, &(padded, place)), uniform)| {
                    row.iter_mut().zip(&self.first).for_each(|(s, g)| *s = share * *s + (1.0 - share) * g);
                    let top = numeric::max(row);
                    if top == f64::NEG_INFINITY {
                        return padded[place];
                    }
                    row.iter_mut().for_each(|s| *s -= top);
                    numeric::exp_in_place(row);
                    let mut left = uniform * numeric::sum(row);
                    let found = row.iter().position(|weight| {
                        left -= weight;
                        left < 0.0 && *weight > 0.0
                    });
                    // Rounding can leave a crumb after the last weight.
                    found.or_else(|| row.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0) as u32
                })
                .collect()
            })
            .collect();
        for (&place, state) in places.iter().zip(drawn.into_iter().flatten()) {
            cycle.set(place, state);
        }
    }
}

/// The mean of the spectral bound's laws, and a little of the uniform one.
fn start(model: &SequenceMrf, clock: &Clock<'_>) -> Vec<f64> {
    let (states, context) = (model.states(), model.context());
    let mut vectors = Vectors::new(context, states);
    let how = Spectral { passes: PASSES, tolerance: 1e-3, ..Spectral::default() };
    let shares = vec![1.0 / context as f64; context];
    let point = Point { shares: &shares, duals: &vec![0.0; (context - 1) * states] };
    evaluate(&Passes::new(model), model.length(), &point, &mut vectors, &how, &|| clock.is_out_of_time());
    let possible: Vec<bool> = model.unary().iter().map(|u| *u > f64::NEG_INFINITY).collect();
    let count = possible.iter().filter(|possible| **possible).count().max(1) as f64;
    let weight = |x: usize| {
        let mean: f64 = vectors.law.iter().map(|law| law[x]).sum::<f64>() / context as f64;
        let own = if mean.is_finite() { mean.max(0.0) } else { 0.0 };
        if possible[x] { own + UNIFORM / count } else { 0.0 }
    };
    (0..states).map(weight).collect()
}

impl Annealed {
    /// The estimate that begins with independent states of these weights, which must be positive where θ⁰ is finite.
    pub fn estimate(&self, model: &SequenceMrf, weights: &[f64], run: &Run) -> Result<Estimate> {
        self.check()?;
        let clock = run.start(NAME);
        let total: f64 = weights.iter().sum();
        let mut pairs = weights.iter().zip(model.unary());
        let fine = pairs.all(|(w, u)| *w > 0.0 || *u == f64::NEG_INFINITY && *w == 0.0);
        let fine = fine && weights.len() == model.states() && total > 0.0 && total.is_finite();
        if !fine {
            let message = "needs a positive weight for every possible state";
            return Err(Error::argument(NAME, message));
        }
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        let walk = Walk {
            model,
            conditional: Conditional::new(model),
            classes: classes(model.length(), model.context()),
            first: weights.iter().map(|w| (w / total).ln()).collect(),
            levels: self.levels,
        };
        let streams = Streams::new(run.seed(), NAME);
        let mut logarithms = Vec::with_capacity(self.replicates);
        for r in 0..self.replicates {
            clock.progress(NAME, r as u64, self.replicates as u64);
            let mut random = streams.block(r as u64);
            match run.install(|| walk.weight(&mut random, &clock)) {
                Ok(weight) => logarithms.push(weight),
                // The number of replicates that time allows does not depend on what they say.
                Err(Error::Interrupted) if !logarithms.is_empty() => break,
                Err(other) => return Err(other),
            }
        }
        let (unary, pairs) = model.magnitude();
        let least = walk.first.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(-x));
        let size = unary + model.context() as f64 * pairs + least;
        let rounding = model.length() as f64 * rounding_allowance(self.levels as f64 * 64.0, size);
        let (value, guarantee) = unbiased(&logarithms, self.confidence, rounding);
        if value == f64::NEG_INFINITY {
            return Err(Error::NoAnswer(
                "every replicate has met a state of weight 0; more levels would help".into(),
            ));
        }
        let mut diagnostics = Diagnostics::new(NAME)
            .note("levels", self.levels as u64)
            .note("replicates", logarithms.len() as u64);
        diagnostics.stopped_early = logarithms.len() < self.replicates;
        (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
        Ok(Answer { value, guarantee, diagnostics })
    }
}

impl Forecasts<SequenceMrf> for Annealed {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let sweeps = (self.levels * self.replicates) as f64 * model.length() as f64;
        let entry = match model.interactions() {
            Interactions::Full(_) => 2e-9 * context,
            Interactions::LowRank { rank, .. } => 2e-9 + 2e-10 * *rank as f64 * (1.0 + context),
        };
        Forecast {
            bytes: Conditional::bytes(model, run)
                + Passes::bytes(model, run.threads())
                + 64.0 * states * context,
            seconds: (sweeps * states * entry + 8e-9 * PASSES as f64 * states * states * context)
                / run.threads() as f64,
            promise: Promise::Unbiased,
        }
    }
}

impl LogPartition<SequenceMrf> for Annealed {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::LogPartition, run).bytes)?;
        if model.unary().iter().all(|u| *u == f64::NEG_INFINITY) {
            return Err(Error::ZeroPartition);
        }
        let weights = run.install(|| start(model, &clock));
        self.estimate(model, &weights, run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Guarantee;
    use crate::lifted::TransferMatrix;

    fn models() -> Vec<SequenceMrf> {
        let unary = vec![0.1, -0.4, 0.7];
        let left = vec![0.5, -0.2, 0.9, 0.3, -1.0, 0.8];
        let right = vec![vec![0.4, 1.0, -0.6, 0.2, 0.3, -0.9], vec![1.1, 0.1, -0.3, 0.7, 0.2, 0.5]];
        let low = Interactions::LowRank { rank: 2, left, right };
        let mut matrices = vec![vec![0.25f32, -0.5, 1.0, 0.0, 0.3, -0.2, 0.4, 0.1, -0.7]; 2];
        matrices[1][4] = f32::NEG_INFINITY;
        let zero = vec![0.0, f64::NEG_INFINITY, 0.5];
        vec![
            SequenceMrf::new(9, unary.clone(), low).unwrap(),
            SequenceMrf::new(8, unary, Interactions::Full(matrices.clone())).unwrap(),
            SequenceMrf::new(7, zero, Interactions::Full(matrices)).unwrap(),
        ]
    }

    #[test]
    fn positions_of_a_class_do_not_interact() {
        for context in 1..4 {
            for length in context + 1..14 {
                let classes = classes(length, context);
                let mut all: Vec<usize> = classes.concat();
                all.sort_unstable();
                assert_eq!(all, (0..length).collect::<Vec<_>>());
                for class in classes {
                    for (a, b) in class.iter().flat_map(|a| class.iter().map(move |b| (a, b))) {
                        let apart = a.abs_diff(*b);
                        assert!(a == b || apart.min(length - apart) > context);
                    }
                }
            }
        }
    }

    #[test]
    fn weights_are_unbiased_for_z_of_the_cycle() {
        for model in models() {
            let run = Run::default().with_seed(2);
            let how = Annealed { levels: 4, replicates: 3000, ..Annealed::default() };
            let exact = TransferMatrix::default().log_partition(&model, &run).unwrap().value;
            let answer = how.log_partition(&model, &run).unwrap();
            let Guarantee::Unbiased { relative_std_error, low, .. } = answer.guarantee else {
                panic!("{answer}")
            };
            // Five standard errors: a false alarm of 6·10⁻⁷.
            let apart = ((answer.value - exact).exp() - 1.0).abs();
            assert!(relative_std_error < 0.06 && apart < 5.0 * relative_std_error, "{answer} {exact}");
            assert!(low <= exact);
            let how = Annealed { replicates: 20, ..how };
            let again =
                |threads| how.log_partition(&model, &run.clone().with_threads(threads)).unwrap().value;
            assert_eq!(again(1).to_bits(), again(3).to_bits());
        }
        let model = &models()[0];
        for bad in [vec![1.0; 2], vec![1.0, 0.0, 1.0], vec![1.0, f64::NAN, 1.0]] {
            assert!(Annealed::default().estimate(model, &bad, &Run::default()).is_err());
        }
    }
}
