//! H = ln Z − E\[s\]: an interval for ln Z and one for the mean score of exact samples, each with half of the
//! error and half of the risk.
//!
//! Scores lie within a range Δ, so 2(Δ/ε)² ln(4/δ) samples bring their mean within ε/2 (Hoeffding). ln Z is
//! computed by importance sampling or the Tootsie Pop algorithm, whichever is cheaper.

use super::means::mean;
use super::{NAME, PerfectSampling, Source};
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::error::Result;
use crate::method::space::{SpaceModel, TootsiePop, UniformImportance, log_count_bound};
use crate::options::Options;
use crate::query::Forecasts;
use crate::query::{Entropy, LogPartition, Query};
use crate::run::Run;

impl PerfectSampling {
    /// Number of samples for the mean score.
    pub(super) fn score_draws(&self, model: &SpaceModel) -> f64 {
        let ratio = model.spread() / self.error;
        (2.0 * ratio * ratio * (4.0 / (1.0 - self.confidence)).ln()).ceil().max(1.0)
    }

    /// The methods for ln Z.
    fn for_partition(&self) -> (UniformImportance, TootsiePop) {
        // Below 1, which rounding would reach for large errors.
        let error = (-(-0.5 * self.error).exp_m1()).min(0.99);
        let confidence = 1.0 - 0.5 * (1.0 - self.confidence);
        let importance = UniformImportance { error, confidence, ..Default::default() };
        (importance, TootsiePop { error, confidence, sampler: self.sampler })
    }

    /// The estimated seconds for ln Z, and whether importance sampling is used.
    pub(super) fn partition_seconds(&self, model: &SpaceModel, run: &Run) -> (f64, bool) {
        let (importance, tpa) = self.for_partition();
        let importance = importance.forecast(model, Query::LogPartition, run).seconds;
        let tpa = tpa.forecast(model, Query::LogPartition, run).seconds;
        (importance.min(tpa), importance <= tpa)
    }
}

impl Entropy<SpaceModel> for PerfectSampling {
    fn entropy(&self, model: &SpaceModel, run: &Run) -> Result<Estimate> {
        let clock = run.start(NAME);
        self.check()?;
        let source = Source::new(model, self.sampler)?;
        let (importance, tpa) = self.for_partition();
        let partition = match self.partition_seconds(model, run).1 {
            true => importance.log_partition(model, run),
            false => tpa.log_partition(model, run),
        }?;
        clock.check()?;
        let draws = self.score_draws(model) as u64;
        let scores = mean(&source, model, (draws, 1), run, &clock, |structure, part| {
            part[0] += model.score(structure)?;
            Ok(())
        })?;
        let radius = model.spread() * ((4.0 / (1.0 - self.confidence)).ln() / (2.0 * draws as f64)).sqrt();
        let mut diagnostics = Diagnostics::new(NAME)
            .note("sampler", source.name())
            .note("samples", draws)
            .note("partition", partition.diagnostics.method);
        let sums = f64::EPSILON * draws as f64 * model.magnitude();
        diagnostics.rounding = partition.diagnostics.rounding + model.slack() + sums;
        diagnostics.stopped_early = partition.diagnostics.stopped_early;
        diagnostics.seconds = clock.seconds();
        let (low, high, _) = partition
            .guarantee
            .interval(partition.value, partition.diagnostics.rounding)
            .unwrap_or((f64::NEG_INFINITY, f64::INFINITY, 0.0));
        // The entropy is between 0 and the entropy of the uniform distribution.
        let most = log_count_bound(model.space()).unwrap_or(f64::INFINITY);
        let inside = |x: f64| x.clamp(0.0, most.max(0.0));
        let (low, high) = (inside(low - scores[0] - radius), inside(high - scores[0] + radius));
        let value = (partition.value - scores[0]).clamp(low, high);
        let guarantee = Guarantee::bounds(low, high, self.confidence, diagnostics.rounding);
        Ok(Answer { value, guarantee, diagnostics })
    }
}
