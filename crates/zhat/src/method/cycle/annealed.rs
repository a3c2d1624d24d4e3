//! Annealed importance sampling for cycles: an unbiased estimate of Z.
//!
//! The scores (1 − β)·Σᵢ log p₀(xᵢ) + β·score(x), 0 = β₀ < β₁ < … < β_L = 1, interpolate between independent
//! positions with distribution p₀ and the model. A state is drawn at β = 0. At each further β the weight is
//! multiplied by exp(Δβ·(score − log p₀)), followed by a sweep of Gibbs sampling. The mean of the weights is
//! Z for any levels; more levels reduce its variance. Positions K + 1 apart do not interact, so their scores
//! are computed together. Cost: L·N·C·D·(K+1) operations per replicate.
//!
//! **Levels.** In equilibrium the log-weight has variance Σ_l (Δβ_l·σ_l)², where σ is the standard deviation
//! of score − log p₀ at β. A pilot of a few walks with separate random numbers measures σ on a coarse grid.
//! Then Δβ is chosen proportional to 1/σ, with as many levels as make the variance 1/2, up to a limit. The
//! estimate stays unbiased, because its own walks do not influence this choice. `levels` requests a number of
//! equal steps instead. **Warning.** The standard error is computed from the observed weights. If they vary
//! strongly it is meaningless, and Ẑ is nearly always too small. Therefore the effective sample size
//! (Σw)²/Σw² is reported, with a warning if it is less than half the number of replicates. The lower bound
//! from Markov's inequality holds in any case. p₀ is the mean of the stationary distributions of the spectral
//! bound with equal shares, plus a small uniform part; it is 0 exactly where θ⁰ is −∞.
//!
//! Reference: R. M. Neal, *Annealed importance sampling*, Statistics and Computing 11 (2001).
//!
//! ```
//! use zhat::{LogPartition, Run};
//! use zhat::cycle::Annealed;
//! use zhat::model::{Interactions, SequenceMrf};
//! let theta = Interactions::Full(vec![vec![0.5, -1.0, 0.0, 2.0]]);
//! let model = SequenceMrf::new(10, vec![0.0, 0.1], theta)?;
//! println!("log Z = {}", Annealed::default().log_partition(&model, &Run::default())?);
//! # Ok::<(), zhat::Error>(())
//! ```

use crate::numeric::parallel::prelude::*;
use serde::{Deserialize, Serialize};

use super::conditional::{BATCH, Conditional};
use super::passes::Passes;
use super::spectral::{Point, Spectral, Vectors, evaluate};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::sampling::unbiased;
use crate::model::{Interactions, SequenceMrf};
use crate::numeric::{self, rounding_allowance};
use crate::options::{INSIDE_UNIT, Options, Range, options};
use crate::query::{Forecast, Forecasts};
use crate::query::{LogPartition, Query};
use crate::random::{Stream, Streams};
use crate::run::share::Units;
use crate::run::{Clock, Run};

const NAME: &str = "annealed";
/// Number of power iterations for p₀, which need not be exact.
const PASSES: usize = 20;
/// Weight of the uniform distribution in p₀.
const UNIFORM: f64 = 0.01;

/// The largest and the smallest number of levels that a pilot may choose.
const MOST_LEVELS: usize = 4000;
const FEWEST_LEVELS: usize = 16;
/// The variance of the log-weight for which levels are chosen.
const VARIANCE: f64 = 0.5;
/// Number of grid points of a pilot, of its walks, and of sweeps at each point.
const GRID: usize = 16;
const WALKS: usize = 4;
const SWEEPS: usize = 4;
/// Number of draws between checks of the clock.
const DRAWS: usize = 4096;

/// Annealed importance sampling.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Annealed {
    /// Number of equal steps L; by default a pilot chooses the number and the position of the levels.
    pub levels: Option<usize>,
    /// Number of independent estimates.
    pub replicates: usize,
    /// Confidence of the lower bound from Markov's inequality.
    pub confidence: f64,
}

options!(Annealed {
    levels: Option<usize> => Range::whole(1, 1_000_000_000),
    replicates: usize => Range::whole(1, 1_000_000),
    confidence: f64 => INSIDE_UNIT
});

impl Default for Annealed {
    fn default() -> Self {
        Annealed { levels: None, replicates: 8, confidence: 0.95 }
    }
}

/// A cycle, padded with its last K positions in front and its first K positions at the end.
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

/// Sets of positions that do not interact with each other: every (K + 1)-th position, and the remaining
/// positions one by one.
fn classes(length: usize, context: usize) -> Vec<Vec<usize>> {
    let whole = length - length % (context + 1);
    let classes = (0..=context).map(|class| (class..whole).step_by(context + 1).collect::<Vec<usize>>());
    classes.chain((whole..length).map(|place| vec![place])).collect()
}

/// Walks from p₀ to the model.
struct Walk<'a> {
    model: &'a SequenceMrf,
    conditional: Conditional<'a>,
    classes: Vec<Vec<usize>>,
    /// log p₀.
    first: Vec<f64>,
    clock: &'a Clock<'a>,
}

impl Walk<'_> {
    /// Draws independent positions from p₀.
    fn start(&self, random: &mut Stream) -> Result<Cycle> {
        let (n, context) = (self.model.length(), self.model.context());
        let mut sum = 0.0;
        let sums: Vec<f64> = self
            .first
            .iter()
            .map(|x| {
                sum += x.exp();
                sum
            })
            .collect();
        // Because of rounding, the cumulative sum may end slightly below 1; use the last possible state.
        let last = self.first.iter().rposition(|x| *x > f64::NEG_INFINITY).unwrap_or(0);
        let mut cycle = Cycle { padded: vec![0; n + 2 * context], context };
        for place in 0..n {
            if place % DRAWS == 0 {
                self.clock.check()?;
            }
            let u = random.uniform() * sum;
            cycle.set(place, sums.partition_point(|sum| *sum <= u).min(last) as u32);
        }
        Ok(cycle)
    }

    /// score − log p₀, the rate at which the log-weight grows with β.
    fn difference(&self, cycle: &Cycle) -> f64 {
        let states: Vec<usize> = cycle.states().iter().map(|&state| state as usize).collect();
        let drawn: f64 = states.iter().map(|&state| self.first[state]).sum();
        self.model.score(&states) - drawn
    }

    /// One sweep of Gibbs sampling.
    fn sweep(&self, share: f64, cycle: &mut Cycle, random: &mut Stream) -> Result<()> {
        self.classes.iter().try_for_each(|places| self.redraw(places, share, cycle, random))
    }

    /// Computes one log-weight.
    fn weight(&self, levels: &Levels, random: &mut Stream) -> Result<f64> {
        let mut cycle = self.start(random)?;
        let (mut weight, mut before) = (0.0, 0.0);
        for l in 0..levels.len() {
            self.clock.check()?;
            let share = levels.at(l);
            let difference = self.difference(&cycle);
            if difference == f64::NEG_INFINITY {
                return Ok(difference);
            }
            weight += (share - before) * difference;
            before = share;
            if l + 1 < levels.len() {
                self.sweep(share, &mut cycle, random)?;
            }
        }
        Ok(weight)
    }

    /// σ on a grid of β, from separate walks that are discarded afterwards.
    fn pilot(&self, seed: u64) -> Result<Vec<f64>> {
        let streams = Streams::new(seed, "annealed pilot");
        let mut seen: Vec<Vec<f64>> = vec![Vec::new(); GRID + 1];
        for walk in 0..WALKS {
            let mut random = streams.block(walk as u64);
            let mut cycle = self.start(&mut random)?;
            for (i, seen) in seen.iter_mut().enumerate() {
                for _ in 0..SWEEPS {
                    self.sweep(i as f64 / GRID as f64, &mut cycle, &mut random)?;
                    seen.push(self.difference(&cycle));
                }
            }
        }
        let deviation = |seen: &Vec<f64>| {
            let finite: Vec<f64> = seen.iter().copied().filter(|x| x.is_finite()).collect();
            let mean = finite.iter().sum::<f64>() / finite.len().max(1) as f64;
            let squares: f64 = finite.iter().map(|x| (x - mean).powi(2)).sum();
            (squares / (finite.len().max(2) - 1) as f64).sqrt()
        };
        Ok(seen.iter().map(deviation).collect())
    }

    /// Resamples the positions of a class.
    fn redraw(&self, places: &[usize], share: f64, cycle: &mut Cycle, random: &mut Stream) -> Result<()> {
        let (states, context) = (self.first.len(), cycle.context);
        let uniforms: Vec<f64> = places.iter().map(|_| random.uniform()).collect();
        let padded = &cycle.padded;
        let batches = places.par_chunks(BATCH).zip(uniforms.par_chunks(BATCH));
        let drawn: Vec<Vec<u32>> = batches
            .map(|(places, uniforms)| {
                self.clock.check()?;
                let places: Vec<(&[u32], usize)> =
                    places.iter().map(|place| (padded.as_slice(), place + context)).collect();
                let mut scores = vec![0.0; places.len() * states];
                self.conditional.scores(&places, true, &mut scores);
                let rows = scores.chunks_exact_mut(states).zip(&places).zip(uniforms);
                let states = rows.map(|((row, &(padded, place)), uniform)| {
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
                    // Because of rounding, the cumulative sum may end slightly below the total; use the last
                    // state with positive weight.
                    found.or_else(|| row.iter().rposition(|weight| *weight > 0.0)).unwrap_or(0) as u32
                });
                Ok(states.collect())
            })
            .collect::<Result<_>>()?;
        for (&place, state) in places.iter().zip(drawn.into_iter().flatten()) {
            cycle.set(place, state);
        }
        Ok(())
    }
}

/// β₁ to β_L.
enum Levels {
    Equal(usize),
    Spaced(Vec<f64>),
}

impl Levels {
    fn len(&self) -> usize {
        match self {
            Levels::Equal(count) => *count,
            Levels::Spaced(levels) => levels.len(),
        }
    }

    fn at(&self, l: usize) -> f64 {
        match self {
            Levels::Equal(count) => (l + 1) as f64 / *count as f64,
            Levels::Spaced(levels) => levels[l],
        }
    }
}

/// Levels β with steps proportional to 1/σ, as many as the variance requires, at most `most`.
fn spaced(deviations: &[f64], most: usize) -> Vec<f64> {
    let mean = deviations.iter().sum::<f64>() / deviations.len() as f64;
    // A deviation of 0 means that the pilot has seen too little.
    let steady: Vec<f64> = deviations.iter().map(|s| s.max(0.05 * mean).max(1e-3)).collect();
    let width = 1.0 / (steady.len() - 1) as f64;
    let lengths: Vec<f64> = steady.windows(2).map(|pair| 0.5 * width * (pair[0] + pair[1])).collect();
    let length: f64 = lengths.iter().sum();
    let levels =
        (length * length / VARIANCE).ceil().clamp(FEWEST_LEVELS.min(most) as f64, most as f64) as usize;
    let (mut at, mut below) = (0, 0.0);
    (1..levels)
        .map(|l| {
            let target = length * l as f64 / levels as f64;
            while at + 1 < lengths.len() && below + lengths[at] < target {
                below += lengths[at];
                at += 1;
            }
            (width * (at as f64 + ((target - below) / lengths[at]).clamp(0.0, 1.0))).min(1.0)
        })
        .chain([1.0])
        .collect()
}

/// The mean of the stationary distributions of the spectral bound, plus a small uniform part.
fn start(model: &SequenceMrf, clock: &Clock<'_>) -> Vec<f64> {
    let (states, context) = (model.states(), model.context());
    let mut vectors = Vectors::new(context, states);
    let how = Spectral { passes: PASSES, tolerance: 1e-3, ..Spectral::default() };
    let shares = vec![1.0 / context as f64; context];
    let point = Point { shares: &shares, duals: &vec![0.0; (context - 1) * states] };
    let stop = || clock.must_stop();
    evaluate(&Passes::new(model).until(clock), model.length(), &point, &mut vectors, &how, &stop);
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
    /// The estimate for an initial distribution with independent positions and these weights, which must be
    /// positive where θ⁰ is finite.
    ///
    /// # Errors
    /// If an option is out of range, the weights are not as required, every replicate meets a state of weight
    /// 0, the memory budget is too small, or the run is cancelled or out of time before the first replicate
    /// is complete.
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
            clock: &clock,
        };
        let levels = match self.levels {
            Some(levels) => Levels::Equal(levels),
            None => {
                let deviations = run.install(|| walk.pilot(run.seed()))?;
                Levels::Spaced(spaced(&deviations, self.most_levels(model, run)))
            }
        };
        let streams = Streams::new(run.seed(), NAME);
        let (mut logarithms, count) = (Vec::new(), self.replicates as u64);
        let weight = |r: u64| {
            clock.progress(NAME, r, count);
            walk.weight(&levels, &mut streams.block(r))
        };
        let whole = match run.is_shared(NAME) {
            true => {
                let units = Units::new(NAME, count, &[levels.len() as u64]);
                run.first_units(&units, 0..count, weight, |_, weight| logarithms.push(weight))?;
                0
            }
            false => count,
        };
        for r in 0..whole {
            match run.install(|| weight(r)) {
                Ok(weight) => logarithms.push(weight),
                // The number of replicates completed in time does not depend on their values, so the estimate
                // stays unbiased.
                Err(Error::Interrupted | Error::OverBudget { .. }) if !logarithms.is_empty() => break,
                Err(other) => return Err(other),
            }
        }
        let (unary, pairs) = model.magnitude();
        let least = walk.first.iter().filter(|x| x.is_finite()).fold(0.0f64, |m, x| m.max(-x));
        let size = unary + model.context() as f64 * pairs + least;
        let rounding = model.length() as f64 * rounding_allowance(levels.len() as f64 * 64.0, size);
        let (value, guarantee) = unbiased(&logarithms, run.confidence(NAME, self.confidence), rounding);
        if value == f64::NEG_INFINITY {
            return Err(Error::NoAnswer(
                "every replicate has met a state of weight 0; more levels would help".into(),
            ));
        }
        let effective = effective_size(&logarithms);
        let mut diagnostics = Diagnostics::new(NAME)
            .note("levels", levels.len() as u64)
            .note("replicates", logarithms.len() as u64)
            .note("effective_sample_size", effective);
        if logarithms.len() == 1 || effective < 0.5 * logarithms.len() as f64 {
            let count = logarithms.len();
            diagnostics = diagnostics.note(
                "warning",
                format!(
                    "the effective sample size is {effective:.1} of {count}: log Z is probably larger than this estimate, by more than its standard error; more levels or replicates would help, and the lower bound holds"
                ),
            );
        }
        diagnostics.stopped_early = logarithms.len() < self.replicates;
        (diagnostics.rounding, diagnostics.seconds) = (rounding, clock.seconds());
        Ok(Answer { value, guarantee, diagnostics })
    }
}

/// (Σw)²/Σw².
fn effective_size(logarithms: &[f64]) -> f64 {
    let doubled: Vec<f64> = logarithms.iter().map(|x| 2.0 * x).collect();
    (2.0 * numeric::log_sum_exp(logarithms) - numeric::log_sum_exp(&doubled)).exp()
}

impl Annealed {
    /// Approximate time of a sweep in seconds.
    fn sweep_seconds(model: &SequenceMrf, run: &Run) -> f64 {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let entry = match model.interactions() {
            Interactions::Full(_) => 2e-9 * context,
            Interactions::LowRank { rank, .. } => 2e-9 + 2e-10 * *rank as f64 * (1.0 + context),
        };
        model.length() as f64 * states * entry / run.threads() as f64
    }

    /// The largest number of levels that a pilot may choose. With a time limit, all replicates together may
    /// take half of it.
    fn most_levels(&self, model: &SequenceMrf, run: &Run) -> usize {
        let sweep = Self::sweep_seconds(model, run).max(1e-9);
        let allowed = run
            .time()
            .map_or(f64::INFINITY, |time| 0.5 * time.as_secs_f64() / (sweep * self.replicates as f64));
        allowed.clamp(FEWEST_LEVELS as f64, MOST_LEVELS as f64) as usize
    }
}

impl Forecasts<SequenceMrf> for Annealed {
    fn forecast(&self, model: &SequenceMrf, _: Query, run: &Run) -> Forecast {
        let (states, context) = (model.states() as f64, model.context() as f64);
        let (n, replicates) = (model.length() as f64, self.replicates as f64);
        let levels = self.levels.map_or(MOST_LEVELS as f64 / 4.0, |levels| levels as f64);
        let pilot = if self.levels.is_none() { (WALKS * SWEEPS * (GRID + 1)) as f64 } else { 0.0 };
        let sweeps = levels * replicates + pilot;
        let cycle = 8.0 * 8.0 * (n + 2.0 * context);
        Forecast {
            bytes: Conditional::bytes(model, run)
                + Passes::bytes(model, run.threads())
                + 64.0 * states * context
                + cycle
                + 8.0 * MOST_LEVELS as f64
                + 32.0 * replicates,
            seconds: sweeps * Self::sweep_seconds(model, run)
                + 8e-9 * PASSES as f64 * states * states * context / run.threads() as f64,
            promise: Promise::Unbiased,
        }
    }
}

impl LogPartition<SequenceMrf> for Annealed {
    fn log_partition(&self, model: &SequenceMrf, run: &Run) -> Result<Estimate> {
        self.check()?;
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
    use crate::method::cycle::TransferMatrix;

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
            let how = Annealed { levels: Some(4), replicates: 3000, ..Annealed::default() };
            let exact = TransferMatrix::default().log_partition(&model, &run).unwrap().value;
            let answer = how.log_partition(&model, &run).unwrap();
            let Guarantee::Unbiased { relative_std_error, low, .. } = answer.guarantee else {
                panic!("{answer}")
            };
            // Five standard errors: a false alarm probability of 6·10⁻⁷.
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
