//! What a method would cost and promise, said before it is run.

use super::Query;
use crate::answer::Promise;
use crate::run::Run;

/// What a query would take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Forecast {
    /// Peak memory for tables, messages and samples, in bytes; the model itself is there already.
    pub bytes: f64,
    /// Rough wall-clock seconds on one thread.
    pub seconds: f64,
    /// The kind of promise that the answer will carry.
    pub promise: Promise,
}

impl Forecast {
    /// True if it keeps within the memory budget and the time horizon.
    pub fn fits(&self, run: &Run, horizon: f64) -> bool {
        self.bytes <= run.memory() as f64 && self.seconds <= horizon
    }
}

/// `auto` looks this many seconds ahead where there is no time budget.
pub const DEFAULT_HORIZON: f64 = 600.0;

/// A method that knows what it costs on models of type `M`. Every method in the catalogue does.
pub trait Forecasts<M: ?Sized> {
    /// What `query` would take; it must be cheap itself and never fail.
    fn forecast(&self, model: &M, query: Query, run: &Run) -> Forecast;
}
