//! Table 5 and Figure 2 of Fu, Cunningham and Lapata (2022).

mod machine;
mod picture;
pub mod results;
mod tables;

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Result, bail};
use burn_tensor::backend::Backend;
use serde::{Deserialize, Serialize};
use zhat::Run;

use crate::attempt::attempt;
use crate::config::{Inference, ModelConfig, TrainConfig};
use crate::evaluate::Model;
use crate::posterior::{Engine, Sums};
use crate::text::{Corpus, Lines, Vocabulary};
use crate::train::{Limits, Outputs, Trainer, beginning, fingerprint};
use crate::uses::frequencies;
pub use results::{Failed, Found, Settings};
pub use tables::{print, table5 as table};

/// A row of the table.
#[derive(Clone, Copy, Debug)]
struct Spec {
    name: &'static str,
    states: usize,
    inference: Inference,
    seeds: u64,
    /// Mean and standard deviation of the paper.
    paper: Option<(f64, f64)>,
}

const fn spec(
    name: &'static str,
    states: usize,
    inference: Inference,
    seeds: u64,
    paper: Option<(f64, f64)>,
) -> Spec {
    Spec { name, states, inference, seeds, paper }
}

const ROWS: [Spec; 9] = [
    spec("FULL-100", 100, Inference::Full, 3, Some((39.71, 0.07))),
    spec("TOPK-100", 100, Inference::Top, 1, Some((39.76, 0.11))),
    spec("RDP-100", 100, Inference::Rdp, 1, Some((39.59, 0.08))),
    spec("TOPK-2000", 2000, Inference::Top, 3, Some((39.84, 0.31))),
    spec("RDP-2000", 2000, Inference::Rdp, 3, Some((39.48, 0.14))),
    spec("two-pass RDP-2000", 2000, Inference::TwoPass, 1, None),
    spec("FULL-2000", 2000, Inference::Full, 1, None),
    spec("RDP-10000", 10000, Inference::Rdp, 1, None),
    spec("two-pass RDP-10000", 10000, Inference::TwoPass, 1, None),
];

/// Settings of the experiments.
pub struct Setting<'a> {
    /// The folder of texts, or `None` for a small text made by the program.
    pub data: Option<PathBuf>,
    /// Small models.
    pub quick: bool,
    /// Seconds of training per row and seed.
    pub seconds: f64,
    /// Steps of training per row and seed, instead of seconds.
    pub steps: Option<usize>,
    /// Only these rows; all if there are none.
    pub only: Vec<String>,
    /// Only this seed of each row, from 0.
    pub seed_index: Option<u64>,
    /// The file of results.
    pub results: &'a Path,
    /// The folder of pictures.
    pub folder: &'a Path,
    /// Sentences of the test file.
    pub test: usize,
    /// Samples per sentence.
    pub samples: usize,
    /// Base seed.
    pub seed: u64,
    /// Threads.
    pub run: Run,
}

impl Setting<'_> {
    /// Steps of training, if they are not limited by time.
    fn limit(&self) -> Option<usize> {
        self.steps.or(self.quick.then_some(60))
    }

    fn recorded(&self, texts: &Texts, engine: Engine) -> Settings {
        Settings {
            quick: self.quick,
            seconds: self.limit().is_none().then_some(self.seconds),
            steps: self.limit(),
            test: self.test,
            samples: self.samples,
            seed: self.seed,
            device: if engine == Engine::Library { "cpu" } else { "cuda" }.to_owned(),
            text: fingerprint(&texts.train),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

/// Training and test text.
struct Texts {
    train: Corpus,
    kept: Corpus,
    test: Corpus,
    words: Vec<String>,
}

const LIMIT: usize = 40;

fn texts(setting: &Setting<'_>) -> Result<Texts> {
    let (train, test) = match &setting.data {
        Some(folder) => {
            let read = |part: &str| {
                let path = folder.join(format!("texygen_image_coco_{part}.txt"));
                let lines = Lines::read(&path, LIMIT, None)?;
                lines.report(&path, LIMIT);
                anyhow::Ok(lines)
            };
            (read("train")?, read("test")?)
        }
        None => (made_up(1000, 1), made_up(200, 2)),
    };
    let vocabulary = Vocabulary::count(train.sentences.iter(), 2);
    let (train, test) = (train.corpus(&vocabulary), test.corpus(&vocabulary));
    let train = if setting.quick { train.first(400) } else { train };
    let (kept, train) = train.split(20);
    Ok(Texts { train, kept, test: test.first(setting.test), words: vocabulary.words().to_vec() })
}

/// Sentences of a small grammar.
pub fn made_up(count: usize, seed: u64) -> Lines {
    let mut random = zhat::random::Streams::new(seed, "made-up sentences").block(0);
    let nouns = ["cat", "dog", "man", "woman", "horse", "bird", "child", "train"];
    let verbs = ["sees", "likes", "follows", "paints", "carries"];
    let adjectives = ["small", "large", "red", "old", "quiet"];
    let sentence = |_| {
        let mut words: Vec<&str> = Vec::new();
        for part in 0..2 {
            words.push(["a", "the"][random.below(2)]);
            if random.uniform() < 0.4 {
                words.push(adjectives[random.below(adjectives.len())]);
            }
            words.push(nouns[random.below(nouns.len())]);
            if part == 0 {
                words.push(verbs[random.below(verbs.len())]);
            }
        }
        words.push(".");
        words.into_iter().map(str::to_owned).collect()
    };
    let sentences = (0..count).map(sentence).collect();
    Lines { sentences, places: (0..count).collect(), total: count, ..Lines::default() }
}

/// The share of training after which the temperature is the one for which models are judged.
const WARM_UP: f64 = 0.5;

impl Spec {
    fn configs(&self, setting: &Setting<'_>, seed: u64) -> (ModelConfig, TrainConfig) {
        // Small models have a twentieth of the states, from 10 to 100.
        let states = if setting.quick { (self.states / 20).clamp(10, 100) } else { self.states };
        let units = if setting.quick { 32 } else { 256 };
        let model = ModelConfig {
            states,
            units,
            state_size: if setting.quick { 16 } else { 64 },
            ..Default::default()
        };
        let each = (states / 10).max(1);
        let train = TrainConfig {
            inference: self.inference,
            top: each,
            sampled: each,
            batch: if setting.quick { 32 } else { 64 },
            rate: if setting.quick { 1e-2 } else { 1e-3 },
            seed: setting.seed + seed,
            ..TrainConfig::default()
        };
        (model, train)
    }

    fn run<I: Backend>(
        &self,
        setting: &Setting<'_>,
        texts: &Texts,
        (model, train): (ModelConfig, TrainConfig),
        engine: Engine,
        device: &I::Device,
    ) -> Result<(Found, Frequencies)> {
        let run = setting.run.clone().with_seed(train.seed);
        let states = model.states;
        let (kept, sampled) = match train.inference {
            Inference::Full => (states, 0),
            Inference::Top => (train.top + train.sampled, 0),
            Inference::Rdp => (train.top + train.sampled, train.sampled),
            Inference::TwoPass => (train.top + train.sampled, train.top + train.sampled),
        };
        let seed = train.seed - setting.seed;
        let first = beginning(&model, &train, &texts.words, LIMIT, &texts.train, None);
        let mut trainer =
            Trainer::<I>::new(&texts.train, &texts.kept, first, None, engine, device.clone(), run.clone())?;
        let begun = Instant::now();
        if engine == Engine::Device {
            trainer.warm_up()?;
        }
        let warm_up_seconds = begun.elapsed().as_secs_f64();
        let limits = match setting.limit() {
            Some(steps) => Limits { steps: Some(steps), warm_up: Some(WARM_UP), ..Limits::default() },
            None => Limits { seconds: Some(setting.seconds), warm_up: Some(WARM_UP), ..Limits::default() },
        };
        let outputs =
            Outputs { quiet: true, keep_every: f64::INFINITY, remember: true, ..Outputs::default() };
        let watch = machine::Watch::start(engine);
        let trained = trainer.train(&limits, &outputs);
        let memory = watch.stop();
        trained?;
        let (progress, floored) = (trainer.progress.clone(), trainer.floored);
        let used =
            Model { config: model, parameters: trainer.best(), gpt2: None, engine, device: device.clone() };
        drop(trainer);
        let found = used.likelihood(&texts.test, &Sums::FULL, setting.samples, &run)?;
        let all = frequencies(&used, &texts.train, &Sums::FULL, &run)?;
        let trained = match train.inference {
            Inference::Full => all.clone(),
            _ => frequencies(&used, &texts.train, &Sums::from(&train), &run)?,
        };
        let inactive = |counts: &[usize]| counts.iter().filter(|&&count| count == 0).count();
        let epochs = progress.step as f64 / texts.train.batches(train.batch).len().max(1) as f64;
        let (bound, best_step) = progress.best.unwrap_or((f64::NAN, progress.step));
        let row = Found {
            row: self.name.to_owned(),
            seed,
            states,
            kept,
            sampled,
            nll: found.nll,
            sampling_error: found.sampling_error,
            text_error: found.text_error,
            bias: found.bias,
            perplexity: found.perplexity,
            bound,
            best_step,
            steps: progress.step,
            epochs,
            seconds: progress.seconds,
            warm_up_seconds,
            words_per_second: texts.train.tokens() as f64 * epochs / progress.seconds,
            gib: memory.gib,
            whole_device: memory.whole_device,
            inactive: inactive(&all),
            inactive_trained: Some(inactive(&trained)),
            floored: Some(floored),
            machine: machine::name(engine),
            date: results::today(),
            settings: setting.recorded(texts, engine),
        };
        Ok((row, Frequencies { all, trained }))
    }
}

/// How often each state occurs in samples of the posterior of the training text.
struct Frequencies {
    /// Samples from all states.
    all: Vec<usize>,
    /// Samples from states chosen as in training.
    trained: Vec<usize>,
}

/// The rows with these names; all rows without names.
fn chosen(only: &[String]) -> Result<Vec<&'static Spec>> {
    for name in only {
        if ROWS.iter().all(|row| row.name != name) {
            let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
            bail!("--only `{name}`: expected {}", known.join(", "));
        }
    }
    let wanted = |row: &&Spec| only.is_empty() || only.iter().any(|name| name == row.name);
    Ok(ROWS.iter().filter(wanted).collect())
}

/// Does the work of a row. If it fails or panics, adds a line about it to the results file and returns the message.
///
/// # Errors
/// If the results cannot be written.
fn guarded<T>(
    results: &Path,
    failed: impl FnOnce(String) -> Failed,
    work: impl FnOnce() -> Result<T>,
) -> Result<Result<T, String>> {
    // Every row makes its own model and optimiser, so no state of a row that panicked is used again.
    let found = attempt(AssertUnwindSafe(work)).and_then(|found| found);
    let Err(error) = found else { return Ok(found.map_err(|error| error.to_string())) };
    let line = failed(format!("{error:#}"));
    results::append(results, &line)?;
    let message = format!("{}, seed {}: {}", line.row, line.seed, line.failed);
    eprintln!("failed: {message}");
    Ok(Err(message))
}

/// Trains and evaluates the rows that are not in the results file yet, and prints the table.
///
/// # Errors
/// If a text cannot be read, a row fails or the results cannot be written. Other rows are run even if one fails or
/// panics, and the results file gets a line with its message; it is run again next time.
pub fn table5<I: Backend>(setting: &Setting<'_>, engine: Engine, device: &I::Device) -> Result<Vec<Found>> {
    let rows = chosen(&setting.only)?;
    let seeds = |row: &Spec| if setting.quick { 1 } else { row.seeds };
    let most = rows.iter().map(|row| seeds(row)).max().unwrap_or(1);
    if let Some(index) = setting.seed_index.filter(|&index| index >= most) {
        let range = if most == 1 { "0".to_owned() } else { format!("0 to {}", most - 1) };
        bail!("--seed-index {index}: expected {range}; these rows have no other seeds");
    }
    let texts = texts(setting)?;
    let settings = setting.recorded(&texts, engine);
    // The first seed of every row comes first.
    let mut wanted: Vec<(&Spec, u64)> = Vec::new();
    for seed in 0..most {
        let left_out = setting.seed_index.is_some_and(|only| only != seed);
        wanted.extend(rows.iter().filter(|row| seed < seeds(row) && !left_out).map(|&row| (row, seed)));
    }
    let failures = missing_rows(setting.results, &settings, engine, &wanted, |row, seed| {
        Ok(row.run::<I>(setting, &texts, row.configs(setting, seed), engine, device)?.0)
    })?;
    let (all, others): (Vec<Found>, Vec<Found>) =
        results::read::<Found>(setting.results)?.into_iter().partition(|found| found.settings == settings);
    println!("{}", table(&all));
    if !others.is_empty() {
        eprintln!("{}: {} rows have other settings", setting.results.display(), others.len());
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(all)
}

/// Runs the rows that the results file does not have, and returns the messages of those that failed.
fn missing_rows(
    results: &Path,
    settings: &Settings,
    engine: Engine,
    rows: &[(&Spec, u64)],
    run: impl Fn(&Spec, u64) -> Result<Found>,
) -> Result<Vec<String>> {
    let mut failures = Vec::new();
    for &(row, seed) in rows {
        let mut done = results::read::<Found>(results)?.into_iter();
        if done.any(|found| found.row == row.name && found.seed == seed && found.settings == *settings) {
            continue;
        }
        eprintln!("{}, seed {seed} …", row.name);
        let failed = |message| Failed::new(row.name, seed, message, engine, settings);
        match guarded(results, failed, || run(row, seed))? {
            Ok(found) => {
                results::append(results, &found)?;
                eprintln!("{}", serde_json::to_string(&found)?);
            }
            Err(message) => failures.push(message),
        }
    }
    Ok(failures)
}

/// A finished line of Figure 2.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Curve {
    /// K₁.
    pub top: usize,
    /// The results of training and evaluation.
    pub found: Found,
    /// How often each state occurs in samples from all states, the most frequent first.
    pub counts: Vec<usize>,
    /// The same for samples from states chosen as in training.
    #[serde(default)]
    pub counts_trained: Vec<usize>,
}

/// Frequencies of states of the aggregated posterior: the likeliest states only, and growing numbers of drawn ones.
///
/// # Errors
/// As [`table5`]; if a run fails, the picture has the others.
pub fn figure2<I: Backend>(setting: &Setting<'_>, engine: Engine, device: &I::Device) -> Result<()> {
    let texts = texts(setting)?;
    let settings = setting.recorded(&texts, engine);
    let mut curves: Vec<Curve> = Vec::new();
    let mut failures = Vec::new();
    println!("{}", tables::FIGURE);
    for share in [0_usize, 1, 5, 10] {
        let row = if share == 0 { ROWS[3] } else { ROWS[4] };
        let (model, mut train) = row.configs(setting, 0);
        // K₁ + K₂ is a fifth of the states in every run.
        let all = (model.states / 5).max(2);
        train.sampled = (all * share).div_ceil(20).min(all - 1);
        train.top = all - train.sampled;
        let (top, sampled) = (train.top, train.sampled);
        let done = results::read::<Curve>(setting.results)?.into_iter().find(|curve| {
            curve.top == top && curve.found.sampled == sampled && curve.found.settings == settings
        });
        let curve = match done {
            Some(curve) => curve,
            None => {
                let name = format!("K1 = {top}, K2 = {sampled}");
                let failed = |message| Failed::new(&name, 0, message, engine, &settings);
                let work = || row.run::<I>(setting, &texts, (model, train), engine, device);
                let (found, counts) = match guarded(setting.results, failed, work)? {
                    Ok(found) => found,
                    Err(message) => {
                        failures.push(message);
                        continue;
                    }
                };
                let [counts, counts_trained] = [counts.all, counts.trained].map(|mut counts| {
                    counts.sort_unstable_by(|a, b| b.cmp(a));
                    counts
                });
                let curve = Curve { top, found, counts, counts_trained };
                results::append(setting.results, &curve)?;
                curve
            }
        };
        println!("{}", tables::line(&curve));
        curves.push(curve);
    }
    if !curves.is_empty() {
        tables::draw(&curves, setting.folder)?;
    }
    if !failures.is_empty() {
        bail!("{}", failures.join("; "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::*;

    #[test]
    fn other_rows_are_run_if_one_panics() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("results.jsonl");
        let example = results::example();
        let rows: Vec<(&Spec, u64)> = ROWS[..4].iter().map(|row| (row, 0)).collect();
        let run = |broken: bool| {
            let ran = std::cell::RefCell::new(Vec::new());
            let failures = missing_rows(&path, &example.settings, Engine::Library, &rows, |row, seed| {
                ran.borrow_mut().push(row.name);
                match row.name {
                    "FULL-100" if broken => panic!("out of memory"),
                    "RDP-100" if broken => bail!("no path"),
                    _ => Ok(Found { row: row.name.to_owned(), seed, ..example.clone() }),
                }
            });
            (failures.unwrap(), ran.into_inner())
        };
        let (failures, ran) = run(true);
        assert_eq!(failures, ["FULL-100, seed 0: out of memory", "RDP-100, seed 0: no path"]);
        assert_eq!(ran.len(), 4);
        let failed: Vec<String> =
            results::read::<Failed>(&path).unwrap().into_iter().map(|line| line.failed).collect();
        assert_eq!(failed, ["out of memory", "no path"]);
        // The failed ones are run again, the others not.
        let (failures, ran) = run(false);
        assert_eq!((failures.len(), ran), (0, vec!["FULL-100", "RDP-100"]));
        assert_eq!(results::read::<Found>(&path).unwrap().len(), 4);
    }
}
