//! Enumeration of all structures of a small space, to check the other methods and for user-defined scores.
//!
//! Time O(|Y|) scores, memory O(1) structures; sampling needs a second pass. Exact.

use super::pilot::{Pilot, is_own};
use super::{Expectations, ROUND, SpaceMarginals, SpaceModel, count, marginals};
use crate::answer::{Answer, Diagnostics, Estimate, Promise};
use crate::error::{Error, Result};
use crate::method::cost::space_enumeration::SECONDS_PER_NUMBER;
use crate::method::exact::{Enumeration, Ranked};
use crate::numeric::{self, CompensatedSum};
use crate::query::{
    BestState, Entropy, FactorMarginals, KBest, Law, LogPartition, Map, Marginals, Query, Sample, Samples,
};
use crate::query::{Forecast, Forecasts};
use crate::random::Streams;
use crate::run::{Clock, Run};

const NAME: &str = "enumeration";

impl Forecasts<SpaceModel> for Enumeration {
    fn forecast(&self, model: &SpaceModel, query: Query, run: &Run) -> Forecast {
        let log_count = match count::around(model.space()) {
            Ok(log) => log,
            Err(Error::ZeroPartition) => f64::NEG_INFINITY,
            Err(_) => f64::INFINITY,
        };
        let (count, query) = (log_count.exp(), query.at_most(log_count));
        let (width, draws) =
            (model.width() as f64, if let Query::Sample(n) = query { n as f64 } else { 0.0 });
        let passes = if draws > 0.0 { 2.0 } else { 1.0 };
        let kept = if let Query::KBest(n) = query { n as f64 } else { draws };
        let features = match query {
            Query::FactorMarginals => model.dimension() as f64,
            Query::Marginals => marginals::entries(model),
            _ => 0.0,
        };
        let own = match is_own(model) && count < 1e15 {
            true => Pilot::new(model, run).map_or(0.0, |pilot| pilot.seconds_a_try()),
            false => 0.0,
        };
        Forecast {
            bytes: 8.0 * (kept * (width + 4.0) + features),
            seconds: passes * count * (own + 2e-8 + SECONDS_PER_NUMBER * (width + features)) + 1e-7 * draws,
            promise: Promise::Exact,
        }
    }
}

/// Calls `visit` with each structure and its score.
fn each(
    model: &SpaceModel,
    clock: &Clock<'_>,
    mut visit: impl FnMut(&[u32], f64) -> Result<()>,
) -> Result<()> {
    let mut failure = None;
    let mut seen = 0u64;
    model.space().enumerate(clock, &mut |structure| {
        let mut one = || {
            if seen.is_multiple_of(ROUND) {
                clock.check()?;
            }
            seen += 1;
            visit(structure, model.score(structure)?)
        };
        one().map_err(|error| failure = Some(error)).is_ok()
    })?;
    failure.map_or(Ok(()), Err)
}

/// Sums relative to the largest score so far.
#[derive(Default)]
struct Sums {
    shift: Option<f64>,
    weight: CompensatedSum,
    score: CompensatedSum,
    features: Vec<f64>,
    count: f64,
}

/// The sums of the vectors that `add` accumulates for each structure and weight, and the sum of the weights.
fn sums(
    model: &SpaceModel,
    length: usize,
    clock: &Clock<'_>,
    add: impl Fn(&[u32], f64, &mut [f64]) -> Result<()>,
) -> Result<(Sums, f64)> {
    let mut sums = Sums { features: vec![0.0; length], ..Sums::default() };
    each(model, clock, |structure, score| {
        if sums.shift.is_none_or(|shift| score > shift) {
            let factor = sums.shift.map_or(0.0, |shift| (shift - score).exp());
            sums.weight = [sums.weight.value() * factor].into_iter().collect();
            sums.score = [sums.score.value() * factor].into_iter().collect();
            sums.features.iter_mut().for_each(|x| *x *= factor);
            sums.shift = Some(score);
        }
        let weight = (score - sums.shift.unwrap_or(score)).exp();
        sums.weight.add(weight);
        sums.score.add(weight * score);
        sums.count += 1.0;
        add(structure, weight, &mut sums.features)
    })?;
    let shift = sums.shift.ok_or(Error::ZeroPartition)?;
    let log_partition = shift + sums.weight.value().ln();
    Ok((sums, log_partition))
}

/// The sum of the weights only.
fn weights(model: &SpaceModel, clock: &Clock<'_>) -> Result<(Sums, f64)> {
    sums(model, 0, clock, |_, _, _| Ok(()))
}

/// Scores have the error `slack`, and each rescaling adds one rounding.
fn diagnostics(model: &SpaceModel, sums: &Sums, clock: &Clock<'_>) -> Diagnostics {
    let mut diagnostics = Diagnostics::new(NAME).count("structures", sums.count);
    diagnostics.rounding = model.slack() + numeric::rounding_allowance(64.0, model.magnitude());
    diagnostics.seconds = clock.seconds();
    diagnostics
}

impl LogPartition<SpaceModel> for Enumeration {
    fn log_partition(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        let (sums, value) = weights(model, &clock)?;
        Ok(Answer::exact(value, diagnostics(model, &sums, &clock)))
    }
}

impl FactorMarginals<SpaceModel> for Enumeration {
    fn factor_marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
        let clock = run.start(NAME);
        let (sums, _) = sums(model, model.dimension(), &clock, |structure, weight, sums| {
            model.add_features(structure, weight, sums)
        })?;
        let total = sums.weight.value();
        let values: Vec<f64> = sums.features.iter().map(|x| x / total).collect();
        let mut diagnostics = diagnostics(model, &sums, &clock);
        // Plain sums of `count` terms.
        let size = values.iter().map(|x| x * x).sum::<f64>().sqrt();
        diagnostics.rounding = (2.0 * diagnostics.rounding + sums.count * f64::EPSILON) * (1.0 + size);
        Ok(Answer::exact(Expectations { values, radius: diagnostics.rounding }, diagnostics))
    }
}

impl Marginals<SpaceModel> for Enumeration {
    fn marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<SpaceMarginals>> {
        let clock = run.start(NAME);
        let table = marginals::table(model, NAME, 1, run)?;
        let (sums, _) = sums(model, table.values.len(), &clock, |structure, weight, sums| {
            marginals::add(model, structure, weight, sums);
            Ok(())
        })?;
        let total = sums.weight.value();
        let values = sums.features.iter().map(|x| (x / total).min(1.0)).collect();
        let mut diagnostics = diagnostics(model, &sums, &clock);
        diagnostics.rounding = 2.0 * diagnostics.rounding + sums.count * f64::EPSILON;
        let radius = diagnostics.rounding;
        Ok(Answer::exact(SpaceMarginals { values, radius, ..table }, diagnostics))
    }
}

impl Entropy<SpaceModel> for Enumeration {
    fn entropy(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        let (sums, log_partition) = weights(model, &clock)?;
        let mut diagnostics = diagnostics(model, &sums, &clock);
        diagnostics.rounding *= 4.0 * (1.0 + model.range().0.abs().max(model.range().1.abs()));
        let value = (log_partition - sums.score.value() / sums.weight.value()).max(0.0);
        Ok(Answer::exact(value, diagnostics))
    }
}

impl Map<SpaceModel> for Enumeration {
    fn map(&self, model: &SpaceModel, run: &Run) -> Result<Answer<BestState>> {
        let clock = run.start(NAME);
        let mut best: Option<(Vec<u32>, f64)> = None;
        each(model, &clock, |structure, score| {
            if best.as_ref().is_none_or(|best| score > best.1) {
                best = Some((structure.to_vec(), score));
            }
            Ok(())
        })?;
        let (structure, score) = best.ok_or(Error::ZeroPartition)?;
        let mut diagnostics = Diagnostics::new(NAME);
        diagnostics.rounding = model.slack();
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(BestState { state: SpaceModel::state(&structure), score }, diagnostics))
    }
}

impl KBest<SpaceModel> for Enumeration {
    fn k_best(&self, model: &SpaceModel, k: usize, run: &Run) -> Result<Answer<Vec<BestState>>> {
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::KBest(k), run).bytes)?;
        let mut ranked = Ranked::new(k);
        let mut any = false;
        each(model, &clock, |structure, score| {
            any = true;
            if ranked.takes(score) {
                ranked.insert(score, &SpaceModel::state(structure));
            }
            Ok(())
        })?;
        if !any {
            return Err(Error::ZeroPartition);
        }
        let mut diagnostics = Diagnostics::new(NAME);
        diagnostics.rounding = model.slack();
        diagnostics.seconds = clock.seconds();
        Ok(Answer::exact(ranked.into_states(), diagnostics))
    }
}

impl Sample<SpaceModel> for Enumeration {
    /// Draws points on the cumulative weights, finds their structures in a second pass and shuffles them.
    fn sample(&self, model: &SpaceModel, count: usize, run: &Run) -> Result<Answer<Samples>> {
        let clock = run.start(NAME);
        run.require_memory(NAME, self.forecast(model, Query::Sample(count), run).bytes)?;
        let (sums, log_partition) = weights(model, &clock)?;
        let mut random = Streams::new(run.seed(), "space enumeration").block(0);
        let mut points: Vec<f64> = (0..count).map(|_| random.uniform()).collect();
        points.sort_unstable_by(f64::total_cmp);
        let mut order: Vec<usize> = (0..count).collect();
        random.shuffle(&mut order);
        let width = model.width();
        let mut states = vec![0; count * width];
        let mut next = 0;
        let mut reached = CompensatedSum::default();
        let mut last = vec![0; width];
        each(model, &clock, |structure, score| {
            reached.add((score - log_partition).exp());
            last.copy_from_slice(structure);
            while next < count && points[next] < reached.value() {
                let at = order[next] * width;
                states[at..at + width].iter_mut().zip(structure).for_each(|(to, from)| *to = *from as usize);
                next += 1;
            }
            Ok(())
        })?;
        // Rounding can leave points beyond the last weight.
        for &at in &order[next..] {
            states[at * width..][..width].iter_mut().zip(&last).for_each(|(to, from)| *to = *from as usize);
        }
        let samples = Samples::new(count, width, states, Law::Exact);
        Ok(Answer::exact(samples, diagnostics(model, &sums, &clock)))
    }
}
