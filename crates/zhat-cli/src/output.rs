//! Writing answers: plain tables, JSON objects.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use zhat::catalogue::Plan;
pub use zhat::report::{facts, json_number, promise, provenance, table};
use zhat::{Diagnostics, Error, Forecast, Guarantee, Result};

use crate::signals;

/// How a command ended that has printed its answer: a signal leaves its status even where the answer is
/// whole.
pub fn ended() -> Exit {
    if signals::received() { Exit::Interrupted } else { Exit::Answered }
}

/// How a command ended when it did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With an answer.
    Answered,
    /// With the answer so far, on the user's wish.
    Interrupted,
}

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether something was printed, or is being printed.
pub fn has_begun() -> bool {
    BEGUN.load(Ordering::SeqCst)
}

/// Writes to stdout.
pub fn print(text: &str) -> Result<()> {
    BEGUN.store(true, Ordering::SeqCst);
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|source| Error::io(Path::new("standard output"), source))
}

/// A value, in units of `unit`, as the guarantee allows to state it: a bound as a bound.
pub fn stated(value: f64, guarantee: &Guarantee, diagnostics: &Diagnostics, unit: f64) -> String {
    guarantee.stated(value, diagnostics.rounding, unit)
}

/// Writes a warning to stderr, where it is seen whatever becomes of the output.
pub fn warn(diagnostics: &Diagnostics) {
    if let Some((_, text)) = diagnostics.figures().find(|(name, _)| *name == "warning") {
        eprintln!("zhat: warning: {}", text.as_str().unwrap_or_default());
    }
}

/// What was forecast, as JSON.
pub fn forecast(plan: &Plan) -> Value {
    let Forecast { bytes, seconds, promise } = plan.forecast;
    json!({"bytes": bytes, "seconds": seconds, "promise": promise.name()})
}
