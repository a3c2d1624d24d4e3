//! Text for the guarantee of an answer and for its diagnostics.

use serde_json::Value;

use crate::answer::{Diagnostics, Guarantee};
use crate::{decimal, units};

/// The guarantee of a value, with the rounding allowance of an exact answer. The ends of bounds are left out if
/// they are printed in place of the value.
pub fn guarantee(guarantee: &Guarantee, value: Option<f64>, diagnostics: &Diagnostics) -> String {
    match guarantee {
        Guarantee::Bounds { low, high, .. }
            if value.is_some_and(|value| guarantee.is_stated(value, diagnostics.rounding)) =>
        {
            let which = match (low.is_finite(), high.is_finite()) {
                (true, false) => "lower bound",
                (false, true) => "upper bound",
                _ => "bounds",
            };
            format!("certified {which}")
        }
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

/// The lines below an answer: the guarantee, unless every line above has its own, and the method.
pub(super) fn footer(given: Option<(&Guarantee, Option<f64>)>, diagnostics: &Diagnostics) -> String {
    let mut facts: Vec<(&str, String)> = Vec::new();
    facts.extend(given.map(|(given, value)| ("guarantee", guarantee(given, value, diagnostics))));
    facts.push(("method", provenance(diagnostics)));
    if diagnostics.stopped_early {
        facts.push(("stopped", "early; this is the result so far".into()));
    }
    super::table::facts(&facts)
}
