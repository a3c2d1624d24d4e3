//! Estimated cost and guarantee of a query, before it is run.

use super::Query;
use crate::answer::Promise;
use crate::run::Run;

/// Estimated cost of a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Peak memory for tables, messages and samples, in bytes, without the model itself.
    pub bytes: f64,
    /// Approximate wall-clock seconds on one thread.
    pub seconds: f64,
    /// The kind of guarantee that the answer will have.
    pub promise: Promise,
}

impl Forecast {
    /// True if the query fits the memory budget and the time horizon.
    pub fn fits(&self, run: &Run, horizon: f64) -> bool {
        run.fits(self.bytes) && self.seconds <= horizon
    }
}

/// Time horizon of `auto` without a time budget, in seconds.
pub const DEFAULT_HORIZON: f64 = 600.0;

/// A method that estimates its cost on models of type `M`. Every method in the catalogue does.
pub trait Forecasts<M: ?Sized> {
    /// The estimated cost of `query`. The estimate itself must be cheap and must not fail.
    fn forecast(&self, model: &M, query: Query, run: &Run) -> Forecast;
}
