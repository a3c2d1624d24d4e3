//! Means over exact samples: the gradient of log Z, and the marginals.

use super::{NAME, PerfectSampling, Source};
use crate::answer::{Answer, Diagnostics, Guarantee};
use crate::error::{Error, Result};
use crate::method::space::{Expectations, Scores, SpaceMarginals, SpaceModel, marginals};
use crate::options::Options;
use crate::query::{FactorMarginals, Marginals};
use crate::random::Streams;
use crate::run::share::Units;
use crate::run::{Clock, Run};

/// Samples that share a stream.
const BLOCK: u64 = 256;
/// Number of blocks whose sums are held at a time.
const GROUP: u64 = 8;
/// Number of vectors of sums held at a time.
pub(super) const COPIES: usize = GROUP as usize + 1;

/// The mean over `count` samples of the vector of this length to which `add` adds.
pub(super) fn mean(
    source: &Source<'_>,
    model: &SpaceModel,
    (count, length): (u64, usize),
    run: &Run,
    clock: &Clock<'_>,
    add: impl Fn(&[u32], &mut [f64]) -> Result<()> + Sync,
) -> Result<Vec<f64>> {
    let streams = Streams::new(run.seed(), "space gradient");
    let at = source.at(1.0);
    let work = |block: u64| {
        let mut part = vec![0.0; length];
        let mut random = streams.block(block);
        let mut structure = vec![0; model.width()];
        at.with(clock, |draw| {
            for _ in block * BLOCK..((block + 1) * BLOCK).min(count) {
                clock.check()?;
                draw(&mut random, &mut structure)?;
                add(&structure, &mut part)?;
            }
            Ok(part)
        })
    };
    // Blocks are added in order: the sum does not depend on the number of threads, and only a few vectors are
    // held.
    let mut sums = vec![0.0; length];
    let units = Units { held: GROUP, ..Units::new(NAME, count.div_ceil(BLOCK), &[count]) };
    run.units(&units, work, |block, part: Vec<f64>| {
        sums.iter_mut().zip(&part).for_each(|(sum, x)| *sum += x);
        clock.progress("draws", ((block + 1) * BLOCK).min(count), count);
    })?;
    clock.check()?;
    sums.iter_mut().for_each(|sum| *sum /= count as f64);
    Ok(sums)
}

impl FactorMarginals<SpaceModel> for PerfectSampling {
    /// The guarantee bounds the distance from the true gradient.
    fn factor_marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<Expectations>> {
        let clock = run.start(NAME);
        self.check()?;
        let source = Source::new(model, self.sampler)?;
        let draws = self.gradient_draws(model);
        let unknown = matches!(model.scores(), Scores::Custom(_)) && model.dimension() == 0;
        if unknown || !draws.is_finite() {
            return Err(Error::NoAnswer(
                "these scores have no features of bounded norm, so no gradient".into(),
            ));
        }
        let length = model.dimension();
        run.require_memory(NAME, 8.0 * COPIES as f64 * length as f64)?;
        let count = draws as u64;
        let values = mean(&source, model, (count, length), run, &clock, |structure, part| {
            model.add_features(structure, 1.0, part)
        })?;
        let mut diagnostics = Diagnostics::new(NAME).note("sampler", source.name()).note("samples", count);
        // Sums of counts are exact up to 2⁵³; with inputs they are rounded.
        diagnostics.rounding =
            f64::EPSILON * (count as f64).sqrt() * values.iter().map(|x| x * x).sum::<f64>().sqrt();
        diagnostics.seconds = clock.seconds();
        let radius = self.error + diagnostics.rounding;
        let guarantee = Guarantee::Bounds { low: 0.0, high: radius, confidence: self.confidence };
        Ok(Answer { value: Expectations { values, radius }, guarantee, diagnostics })
    }
}

impl Marginals<SpaceModel> for PerfectSampling {
    /// The guarantee bounds the largest difference between a frequency and its probability.
    fn marginals(&self, model: &SpaceModel, run: &Run) -> Result<Answer<SpaceMarginals>> {
        let clock = run.start(NAME);
        self.check()?;
        let source = Source::new(model, self.sampler)?;
        let table = marginals::table(model, NAME, COPIES, run)?;
        let (count, length) = (self.marginal_draws(model) as u64, table.values.len());
        let values = mean(&source, model, (count, length), run, &clock, |structure, part| {
            marginals::add(model, structure, 1.0, part);
            Ok(())
        })?;
        let mut diagnostics = Diagnostics::new(NAME).note("sampler", source.name()).note("samples", count);
        // Counts are exact; dividing rounds once.
        diagnostics.rounding = f64::EPSILON;
        diagnostics.seconds = clock.seconds();
        let radius = self.error + diagnostics.rounding;
        let guarantee = Guarantee::Bounds { low: 0.0, high: radius, confidence: self.confidence };
        Ok(Answer { value: SpaceMarginals { values, radius, ..table }, guarantee, diagnostics })
    }
}
