//! Text for the guarantee of an answer and for its diagnostics.

use serde_json::Value;

use crate::answer::{Diagnostics, Guarantee};
use crate::{decimal, units};

/// The guarantee of a value, with the rounding allowance of an exact answer. The ends of bounds are left out
/// if they are printed in place of the value.
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
            format!("exact (rounding at most {})", one_digit(diagnostics.rounding))
        }
        other => other.to_string(),
    }
}

/// The smallest number with one significant digit that is not below `x`, as `4e-13` or `0.02`.
fn one_digit(x: f64) -> String {
    let places = if (1e-4..1.0).contains(&x) { (-x.log10().floor()) as usize } else { 0 };
    decimal::above(x, places)
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
        Some(x) if x.abs() >= 1e15 || (x.fract() != 0.0 && x.abs() < 0.1) => format!("{x:.1e}"),
        Some(x) if x.fract() != 0.0 => format!("{x:.1}"),
        Some(x) => format!("{x:.0}"),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_has_one_digit_and_is_never_too_small() {
        for (rounding, printed) in
            [(3.2e-13, "4e-13"), (1.2e-3, "0.002"), (0.0124, "0.02"), (0.5, "0.5"), (1.5, "2")]
        {
            let mut diagnostics = Diagnostics::new("elimination");
            diagnostics.rounding = rounding;
            let words = guarantee(&Guarantee::Exact, None, &diagnostics);
            assert_eq!(words, format!("exact (rounding at most {printed})"));
        }
    }

    #[test]
    fn counts_are_whole_numbers() {
        let diagnostics = Diagnostics::new("bp")
            .count("iterations", 19.1)
            .count("cases", 8.0)
            .count("structures", 1e20)
            .note("draws", 12.0)
            .note("residual", 2.5e-7)
            .note("log2_table", 13.5);
        let words = provenance(&diagnostics);
        assert!(
            words.ends_with(
                "iterations 19, cases 8, structures 1.0e20, draws 12, residual 2.5e-7, log2 table 13.5"
            ),
            "{words}"
        );
        let json = diagnostics.to_json();
        assert!(json["iterations"].is_u64() && json["cases"].is_u64(), "{json}");
    }

    #[test]
    fn a_heuristic_is_called_one() {
        let heuristic = Guarantee::Heuristic { reason: "the graph has cycles".into() };
        assert_eq!(guarantee(&heuristic, None, &Diagnostics::new("bp")), "heuristic: the graph has cycles");
    }
}
