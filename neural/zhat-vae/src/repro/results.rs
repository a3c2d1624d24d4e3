//! Files of results: one line for every finished row, with the settings under which it was found.

use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use super::machine;
use crate::posterior::Engine;

/// Settings on which a result depends. A row is not run again if the file has it under the same settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Small models.
    pub quick: bool,
    /// Seconds of training.
    pub seconds: Option<f64>,
    /// Steps of training, instead of seconds.
    pub steps: Option<usize>,
    /// Sentences of the test file.
    pub test: usize,
    /// Samples per sentence.
    pub samples: usize,
    /// Base seed.
    pub seed: u64,
    /// `cpu` or `cuda`.
    pub device: String,
    /// A fingerprint of the training sentences.
    pub text: u64,
    /// The version of this program.
    pub version: String,
}

impl std::fmt::Display for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Settings { quick, seconds, steps, test, samples, seed, device, version, .. } = self;
        write!(f, "{}{device}, ", if *quick { "small models, " } else { "" })?;
        match (seconds, steps) {
            (Some(seconds), _) => write!(f, "{seconds} s of training, ")?,
            (None, Some(steps)) => write!(f, "{steps} steps of training, ")?,
            (None, None) => {}
        }
        write!(
            f,
            "{test} test sentences with {samples} samples each, base seed {seed}, version {version}, text {:016x}",
            self.text
        )
    }
}

/// A finished row, one line of the results file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// Name of the row.
    pub row: String,
    /// Seed.
    pub seed: u64,
    /// N of the run; smaller with `--quick`.
    pub states: usize,
    /// K₁ + K₂, or N.
    pub kept: usize,
    /// K₂.
    pub sampled: usize,
    /// −log p̂ per sentence of the test file.
    #[serde(deserialize_with = "or_nan")]
    pub nll: f64,
    /// Its standard error from samples.
    #[serde(deserialize_with = "or_nan")]
    pub sampling_error: f64,
    /// Its standard error from sentences.
    #[serde(deserialize_with = "or_nan")]
    pub text_error: f64,
    /// About how much it is too large.
    #[serde(deserialize_with = "or_nan")]
    pub bias: f64,
    /// Perplexity per word.
    #[serde(deserialize_with = "or_nan")]
    pub perplexity: f64,
    /// The best objective per validation sentence.
    #[serde(deserialize_with = "or_nan")]
    pub bound: f64,
    /// The step of the parameters that were evaluated.
    pub best_step: usize,
    /// Steps of training.
    pub steps: usize,
    /// Epochs of training.
    #[serde(deserialize_with = "or_nan")]
    pub epochs: f64,
    /// Seconds of training, without the time before the first step and for judging.
    #[serde(deserialize_with = "or_nan")]
    pub seconds: f64,
    /// Seconds before the first step, in which a GPU's kernels are compiled.
    #[serde(deserialize_with = "or_nan")]
    pub warm_up_seconds: f64,
    /// Words per second of training.
    #[serde(deserialize_with = "or_nan")]
    pub words_per_second: f64,
    /// Largest memory of this process during training in GiB, on the GPU or the CPU; NaN if it is not known.
    #[serde(deserialize_with = "or_nan")]
    pub gib: f64,
    /// Whether `gib` is the memory in use on the whole GPU, by all processes, because the driver does not list this one.
    #[serde(default)]
    pub whole_device: bool,
    /// States that never occur in samples of the posterior of the training text.
    pub inactive: usize,
    /// The same for samples from the states chosen as in training.
    #[serde(default)]
    pub inactive_trained: Option<usize>,
    /// Sums over states that were set to their smallest value in training.
    #[serde(default)]
    pub floored: Option<u64>,
    /// The processor or GPU.
    pub machine: String,
    /// The day, UTC.
    pub date: String,
    /// Settings.
    pub settings: Settings,
}

/// A row that failed, one line of the results file. It is run again next time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// Name of the row.
    pub row: String,
    /// Seed.
    pub seed: u64,
    /// The message of the error or panic.
    pub failed: String,
    /// The processor or GPU.
    pub machine: String,
    /// The day, UTC.
    pub date: String,
    /// Settings.
    pub settings: Settings,
}

impl Failed {
    /// A row that fails today on this machine.
    pub fn new(row: &str, seed: u64, failed: String, engine: Engine, settings: &Settings) -> Self {
        let (machine, date) = (machine::name(engine), today());
        Failed { row: row.to_owned(), seed, failed, machine, date, settings: settings.clone() }
    }
}

/// JSON has no NaN: it is written as null.
fn or_nan<'de, D: Deserializer<'de>>(from: D) -> std::result::Result<f64, D::Error> {
    Ok(Option::<f64>::deserialize(from)?.unwrap_or(f64::NAN))
}

/// The lines of a file; none if there is no file. Lines of other programs are left out.
///
/// # Errors
/// If the file is there and cannot be read.
pub fn read<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// Adds a line to a file. If the last line there is incomplete, it is ended first.
///
/// # Errors
/// If the file cannot be written.
pub fn append<T: Serialize>(path: &Path, found: &T) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    let mut file =
        std::fs::File::options().read(true).create(true).append(true).open(path).with_context(fail)?;
    let mut line = serde_json::to_string(found)? + "\n";
    if file.metadata().with_context(fail)?.len() > 0 {
        let mut last = [0];
        file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).with_context(fail)?;
        if last != *b"\n" {
            line.insert(0, '\n');
        }
    }
    file.write_all(line.as_bytes()).with_context(fail)?;
    file.sync_all().with_context(fail)
}

/// Today in UTC, as 2026-01-31.
pub fn today() -> String {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |past| past.as_secs());
    date(seconds / 86_400)
}

/// The date of a day since 1970-01-01, by years that begin in March.
fn date(days: u64) -> String {
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{of_month:02}")
}

/// A result with a number that is not known.
#[cfg(test)]
pub(super) fn example() -> Found {
    let settings = Settings {
        quick: true,
        seconds: None,
        steps: Some(3),
        test: 5,
        samples: 2,
        seed: 0,
        device: "cpu".into(),
        text: u64::MAX,
        version: "0".into(),
    };
    Found {
        row: "FULL-100".into(),
        seed: 1,
        states: 10,
        kept: 10,
        sampled: 0,
        nll: f64::NAN,
        sampling_error: f64::INFINITY,
        text_error: 1.0,
        bias: 0.1,
        perplexity: 2.0,
        bound: -3.0,
        best_step: 3,
        steps: 3,
        epochs: 0.5,
        seconds: 1.0,
        warm_up_seconds: 0.0,
        words_per_second: 10.0,
        gib: 0.1,
        whole_device: false,
        inactive: 0,
        inactive_trained: None,
        floored: None,
        machine: "a machine".into(),
        date: today(),
        settings,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn days_have_dates() {
        let wanted =
            [(0, "1970-01-01"), (11_016, "2000-02-29"), (11_017, "2000-03-01"), (20_818, "2026-12-31")];
        for (day, text) in wanted {
            assert_eq!(date(day), text);
        }
    }

    #[test]
    fn a_result_that_is_not_a_number_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        assert!(read::<Found>(&path).unwrap().is_empty());
        let found = example();
        append(&path, &found).unwrap();
        append(&path, &"another line").unwrap();
        let again = read::<Found>(&path).unwrap();
        assert_eq!(again.len(), 1);
        assert!(again[0].nll.is_nan() && again[0].settings == found.settings);
        // A line without the numbers that were added later.
        let old = serde_json::to_string(&found).unwrap();
        let old = old.replace("\"inactive_trained\":null,\"floored\":null,", "");
        assert!(!old.contains("floored"));
        std::fs::write(&path, old).unwrap();
        assert_eq!(read::<Found>(&path).unwrap()[0].inactive_trained, None);
    }

    #[test]
    fn a_result_after_an_incomplete_line_is_not_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        append(&path, &example()).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, format!("{whole}{}", &whole[..whole.len() / 2])).unwrap();
        append(&path, &example()).unwrap();
        append(&path, &example()).unwrap();
        assert_eq!(read::<Found>(&path).unwrap().len(), 3);
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 4);
    }
}
