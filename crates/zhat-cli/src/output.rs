//! Writing answers: plain tables, JSON objects.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;
use serde_json::{Value, json};
use zhat::catalogue::{AnyAnswer, Plan};
pub use zhat::decimal::number;
use zhat::{Diagnostics, Error, Forecast, Guarantee, Result, Run, decimal, units};

use crate::signals;

/// How a command ended that has printed its answer: a signal leaves its status even where the answer is whole.
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

/// A table with a header; columns from `right_from` on are aligned to the right.
pub fn table(header: &[&str], rows: Vec<Vec<String>>, right_from: usize) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i >= right_from {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Lines of `label  content` with the contents aligned.
pub fn facts(facts: &[(&str, String)]) -> String {
    let width = facts.iter().map(|(label, _)| label.chars().count()).max().unwrap_or(0);
    facts.iter().map(|(label, content)| format!("{label:<width$}  {content}\n")).collect()
}

/// A value, in units of `unit`, as the guarantee allows to state it: a bound as a bound.
pub fn stated(value: f64, guarantee: &Guarantee, diagnostics: &Diagnostics, unit: f64) -> String {
    guarantee.stated(value, diagnostics.rounding, unit)
}

/// The promise in words, with the rounding allowance of an exact answer.
pub fn promise(guarantee: &Guarantee, diagnostics: &Diagnostics) -> String {
    match guarantee {
        Guarantee::Exact if diagnostics.rounding > 0.0 => {
            format!("exact (rounding at most {})", decimal::above(diagnostics.rounding, 0))
        }
        other => other.to_string(),
    }
}

/// `elimination, 12 ms; width 13, …`.
pub fn provenance(diagnostics: &Diagnostics) -> String {
    let figures: Vec<String> = diagnostics
        .figures()
        .filter(|(name, _)| *name != "warning")
        .map(|(name, value)| format!("{} {}", name.replace('_', " "), figure(name, value)))
        .collect();
    let separator = if figures.is_empty() { "" } else { "; " };
    let time = units::seconds(diagnostics.seconds);
    format!("{}, {time}{separator}{}", diagnostics.method, figures.join(", "))
}

fn figure(name: &str, value: &Value) -> String {
    match value.as_f64() {
        Some(bytes) if name.ends_with("bytes") => units::bytes(bytes),
        Some(x) if x.fract() != 0.0 && x.abs() < 0.1 => format!("{x:.1e}"),
        Some(x) if x.fract() != 0.0 => format!("{x:.1}"),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    }
}

/// A line that says whether the run was stopped.
pub fn remark(diagnostics: &Diagnostics) -> Option<(&'static str, String)> {
    diagnostics.stopped_early.then(|| ("stopped", "before the end; this is the answer so far".into()))
}

/// Writes a warning to stderr, where it is seen whatever becomes of the output.
pub fn warn(diagnostics: &Diagnostics) {
    if let Some((_, text)) = diagnostics.figures().find(|(name, _)| *name == "warning") {
        eprintln!("zhat: warning: {}", text.as_str().unwrap_or_default());
    }
}

/// The object that every query prints with `--json`, the value's own members first; they are JSON texts already.
pub fn object(
    query: &str,
    value: &[(&str, String)],
    answer: &AnyAnswer,
    plan: Option<&Plan>,
    run: &Run,
) -> String {
    let version = env!("CARGO_PKG_VERSION");
    let mut text = format!("{{\"schema\":1,\"version\":{},\"query\":{}", json!(version), json!(query));
    for (name, json) in value {
        let _ = write!(text, ",{}:{json}", Value::from(*name));
    }
    let rest = [
        ("guarantee", answer.guarantee().to_json()),
        ("method", json!(answer.diagnostics().method)),
        ("seed", json!(run.seed())),
        ("plan", json!(plan.map(forecast))),
        ("diagnostics", answer.diagnostics().to_json()),
    ];
    for (name, json) in rest {
        let _ = write!(text, ",{}:{json}", Value::from(name));
    }
    text + "}\n"
}

fn forecast(plan: &Plan) -> Value {
    let Forecast { bytes, seconds, promise } = plan.forecast;
    json!({"bytes": bytes, "seconds": seconds, "promise": promise.name()})
}

/// A value as JSON: −∞, which JSON has no number for, is the text `"-inf"`.
pub fn json_value(x: f64) -> Value {
    match x {
        f64::NEG_INFINITY => "-inf".into(),
        f64::INFINITY => "inf".into(),
        x => json!(x),
    }
}

/// Numbers that are finite as JSON, straight from where they lie.
pub fn json_text<T: Serialize + ?Sized>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::argument("--json", error.to_string()))
}
