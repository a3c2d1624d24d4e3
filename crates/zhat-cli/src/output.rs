//! Writing answers: plain tables, JSON objects.

use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use zhat::catalogue::Plan;
pub use zhat::internal::report::{facts, guarantee, json_number, provenance, table};
pub use zhat::report::SCHEMA;
use zhat::{Diagnostics, Error, Forecast, Guarantee, Result};

use crate::signals;

/// The exit status of a command that has printed its result. After a signal it is that of the signal, even if
/// the result is complete.
pub fn ended() -> Exit {
    if signals::received() { Exit::Interrupted } else { Exit::Answered }
}

/// Prints the JSON object of a command: `schema`, `version`, `command`, and the members of an object.
pub fn print_object(command: &str, members: Value) -> Result<()> {
    let mut object = json!({"schema": SCHEMA, "version": env!("CARGO_PKG_VERSION"), "command": command});
    if let (Some(object), Value::Object(members)) = (object.as_object_mut(), members) {
        object.extend(members);
    }
    print(&format!("{object}\n"))
}

/// An error if the output file of a command that also prints a summary is `-`.
pub fn refuse_stdout(path: &Path, example: &str) -> Result<()> {
    if path == Path::new("-") {
        let message = format!("stdout has the summary; expected a file name, such as {example}");
        return Err(Error::argument("-o", message));
    }
    Ok(())
}

/// Outcome of a command that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// With a result.
    Answered,
    /// With the result so far, after an interrupt by the user.
    Interrupted,
}

static BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether output has started.
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

/// A value in units of `unit`, printed according to its guarantee: a bound is printed as a bound.
pub fn stated(value: f64, guarantee: &Guarantee, diagnostics: &Diagnostics, unit: f64) -> String {
    guarantee.stated(value, diagnostics.rounding, unit)
}

/// Writes a warning to stderr, so that it is visible even if stdout is redirected.
pub fn warn(diagnostics: &Diagnostics) {
    if let Some((_, text)) = diagnostics.figures().find(|(name, _)| *name == "warning") {
        eprintln!("zhat: warning: {}", text.as_str().unwrap_or_default());
    }
}

/// The forecast as JSON.
pub fn forecast(plan: &Plan) -> Value {
    let Forecast { bytes, seconds, promise } = plan.forecast;
    json!({"bytes": bytes, "seconds": seconds, "guarantee": promise.name()})
}
