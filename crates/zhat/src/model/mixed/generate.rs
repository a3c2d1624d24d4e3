//! Random mixed models.

use crate::error::{Error, Result};
use crate::model::MixedModel;
use crate::model::generate::affordable;
use crate::random::Streams;

/// A random mixture of normal distributions: means are uniform on the box, standard deviations between 1/20
/// and 1/5 of its width.
///
/// # Errors
/// If `classes` is 0, the box is not a bounded interval, or the model does not fit in memory.
pub fn gaussian_mixture(classes: usize, bounds: (f64, f64), seed: u64) -> Result<MixedModel> {
    if classes == 0 {
        return Err(Error::argument("classes", "at least one is needed"));
    }
    affordable(classes as f64 * 40.0)?;
    let mut random = Streams::new(seed, "gaussian mixture").block(0);
    let mut uniform = |low: f64, high: f64| low + (high - low) * random.uniform();
    let (a, b) = bounds;
    let weights: Vec<f64> = (0..classes).map(|_| uniform(0.5, 1.5) / classes as f64).collect();
    let means: Vec<f64> = (0..classes).map(|_| uniform(a, b)).collect();
    let deviations: Vec<f64> = (0..classes).map(|_| (b - a) * uniform(0.05, 0.2)).collect();
    MixedModel::gaussian_mixture(&weights, &means, &deviations, bounds)
}
