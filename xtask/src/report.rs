//! Report of a test run: which parts were run or skipped, and the time of each.

use std::fmt::Write;
use std::time::{Duration, Instant};

use crate::shell::Outcome;

/// Outcome of a part.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Passed,
    Failed(String),
    Skipped(String),
    /// Not run, because it needs data that is not part of the repository.
    Unavailable(String),
}

/// The parts of a run, in order.
#[derive(Debug, Default)]
pub struct Report {
    parts: Vec<(&'static str, State, Duration)>,
}

impl Report {
    /// Runs a part and records its time. Returns an error if the part failed, so that the caller can stop.
    pub fn run(&mut self, part: &'static str, work: impl FnOnce() -> Outcome) -> Outcome {
        let started = Instant::now();
        let outcome = work();
        let state = match &outcome {
            Ok(()) => State::Passed,
            Err(message) => State::Failed(message.clone()),
        };
        self.parts.push((part, state, started.elapsed()));
        outcome
    }

    /// Records that a part was not run, and the reason.
    pub fn skip(&mut self, part: &'static str, why: impl Into<String>) {
        self.parts.push((part, State::Skipped(why.into()), Duration::ZERO));
    }

    /// Records that a part could not be run because data is missing.
    pub fn unavailable(&mut self, part: &'static str, why: impl Into<String>) {
        self.parts.push((part, State::Unavailable(why.into()), Duration::ZERO));
    }

    /// One line per part.
    pub fn table(&self) -> String {
        let width = self.parts.iter().map(|(part, ..)| part.len()).max().unwrap_or(0);
        let mut text = String::new();
        for (part, state, time) in &self.parts {
            let (word, why) = match state {
                State::Passed => ("passed", ""),
                State::Failed(why) => ("FAILED", why.as_str()),
                State::Skipped(why) | State::Unavailable(why) => ("skipped", why.as_str()),
            };
            let time = match state {
                State::Skipped(_) | State::Unavailable(_) => "-".to_owned(),
                _ => format!("{:.0} s", time.as_secs_f64()),
            };
            let _ = writeln!(text, "{}", format!("{part:<width$}  {word:<7}  {time:>6}  {why}").trim_end());
        }
        text
    }

    /// An error if a part failed or, with `complete` (`CI=true`), if one was skipped.
    pub fn verdict(&self, complete: bool) -> Outcome {
        let named = |wanted: fn(&State) -> bool| -> Vec<&str> {
            self.parts.iter().filter(|(_, state, _)| wanted(state)).map(|(part, ..)| *part).collect()
        };
        let failed = named(|state| matches!(state, State::Failed(_)));
        if !failed.is_empty() {
            return Err(format!("failed: {}", failed.join(", ")));
        }
        let skipped = named(|state| matches!(state, State::Skipped(_)));
        if complete && !skipped.is_empty() {
            return Err(format!("CI=true allows no part to be skipped: {}", skipped.join(", ")));
        }
        Ok(())
    }
}

/// Tests that pytest skipped, from its output with `-rs`: the lines `SKIPPED [1] file.py:3: reason` whose
/// reason is not expected.
pub fn unexpected_skips(output: &str, expected: &[&str]) -> Vec<String> {
    let skipped = output.lines().filter(|line| line.starts_with("SKIPPED "));
    skipped
        .filter(|line| !expected.iter().any(|reason| line.contains(reason)))
        .map(|line| line.trim_start_matches("SKIPPED ").to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_skipped_fails_a_complete_run_only() {
        let mut report = Report::default();
        report.run("Rust", || Ok(())).unwrap();
        report.skip("PyTorch", "--torch or CI=true runs it");
        assert!(report.verdict(false).is_ok());
        assert!(report.verdict(true).unwrap_err().ends_with("PyTorch"));
        let table = report.table();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            ["Rust     passed      0 s", "PyTorch  skipped       -  --torch or CI=true runs it"]
        );
    }

    #[test]
    fn a_part_that_fails_fails_every_run_and_is_named() {
        let mut report = Report::default();
        assert!(report.run("Rust", || Err("failed (exit status: 101): cargo test".into())).is_err());
        report.skip("Python", "an earlier part failed");
        assert_eq!(report.verdict(false).unwrap_err(), "failed: Rust");
        assert!(report.table().contains("FAILED"));
        assert!(report.table().contains("cargo test"));
    }

    #[test]
    fn skipped_tests_are_found_in_the_output_of_pytest() {
        let output = "....s.\nSKIPPED [1] tests/test_torch.py:12: PyTorch is not installed\nSKIPPED [3] tests/test_reference_models.py:59: the reference models need ZHAT_DATA\n12 passed, 4 skipped in 1s\n";
        assert_eq!(unexpected_skips(output, &[]).len(), 2);
        let left = unexpected_skips(output, &["ZHAT_DATA"]);
        assert_eq!(left, ["[1] tests/test_torch.py:12: PyTorch is not installed"]);
        assert!(unexpected_skips("12 passed in 1s", &[]).is_empty());
    }
}
