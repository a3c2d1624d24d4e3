//! log Z of a model on a space with a given relative error of Z and a given confidence.
//!
//! The input is (ε, δ), the output is an interval. Samples used by the methods:
//!
//! | method | exact samples | module |
//! |---|---|---|
//! | [`UniformImportance`] | none, only uniform ones: about (V/c²ε² + 1/cε)·ln 1/δ, c = Z/(\|Y\| exp s_max) | `importance` |
//! | [`Telescoped`] | one per level, ⌈Δ/ln(1 + ε²/4)⌉ levels, median of k runs | `telescoped` |
//! | [`TootsiePop`] | about ln(Z/\|Y\| exp s_min)²·ln(1/δ)/ε² | `tpa` |
//! | [`PublishedScheme`] | 65 l² exp(2/p)/ε², l = ⌈p·BR⌉ | `published` |
//! | [`AnnealedSampling`] | none: moves of a Markov chain; unbiased, no upper bound | `annealed` |
//!
//! If |Y| is not known, it is estimated first (`count`), with half of δ and about half of ε. Importance
//! sampling of a restricted space does not need |Y|, because it can sample from the enclosing space.
//!
//! Exact samples are drawn as in [`super::PerfectSampling`]. Plain importance sampling never needs more
//! uniform samples per unit of variance than one sample by rejection, so the annealed methods pay off only if
//! there is a better sampler than rejection.

mod annealed;
mod importance;
mod published;
pub(crate) mod schedule;
mod telescoped;
mod tpa;

pub use annealed::AnnealedSampling;
pub(super) use annealed::Particle;
pub use importance::UniformImportance;
pub use published::PublishedScheme;
pub use telescoped::Telescoped;
pub use tpa::TootsiePop;

use super::SpaceModel;
use super::count::Count;
use crate::answer::{Answer, Diagnostics, Estimate, Guarantee};
use crate::error::Result;
use crate::numeric;
use crate::run::Clock;

/// A result from |Y| and an interval for ln Z/|Y|, clipped to the certain bounds s_min ≤ ln Z/|Y| ≤ s_max.
fn answer(
    model: &SpaceModel,
    count: &Count,
    (value, low, high): (f64, f64, f64),
    confidence: f64,
    operations: f64,
    mut diagnostics: Diagnostics,
    clock: &Clock<'_>,
) -> Result<Estimate> {
    let (least, most) = (model.range().0 + count.part, model.range().1);
    diagnostics.rounding = model.slack() + numeric::rounding_allowance(operations, model.magnitude());
    diagnostics.seconds = clock.seconds();
    if count.draws > 0 {
        diagnostics = diagnostics.note("count_draws", count.draws);
    }
    let (low, high) = (count.low + low.clamp(least, most), count.high + high.clamp(least, most));
    let guarantee = Guarantee::bounds(low, high, confidence, diagnostics.rounding);
    Ok(Answer { value: (count.value + value).clamp(low, high), guarantee, diagnostics })
}
