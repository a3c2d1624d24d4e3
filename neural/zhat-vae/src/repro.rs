//! Table 5 and Figure 2 of Fu, Cunningham and Lapata (2022).

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use burn_tensor::backend::Backend;
use serde::{Deserialize, Serialize};
use zhat::Run;

use crate::config::{Inference, ModelConfig, TrainConfig};
use crate::evaluate::Model;
use crate::posterior::{Engine, Sums};
use crate::text::{Corpus, Lines, Vocabulary};
use crate::train::{Limits, Outputs, Trainer, beginning};
use crate::uses::frequencies;

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

/// A finished row, one line of the results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// Name of the row.
    pub row: String,
    /// Seed.
    pub seed: u64,
    /// N of the run; smaller with `--quick`.
    pub states: usize,
    /// K₁ + K₂, or N.
    pub kept: usize,
    /// −log p̂ per sentence of the test file.
    pub nll: f64,
    /// Its standard error from samples.
    pub sampling_error: f64,
    /// Its standard error from sentences.
    pub text_error: f64,
    /// About how much it is too large.
    pub bias: f64,
    /// Perplexity per word.
    pub perplexity: f64,
    /// Steps of training.
    pub steps: usize,
    /// Seconds of training.
    pub seconds: f64,
    /// Words per second of training.
    pub words_per_second: f64,
    /// Largest memory in GiB: of the GPU, or of the process.
    pub gib: f64,
    /// States that never occur in the posterior of the training text.
    pub inactive: usize,
}

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
    /// Only rows whose names contain this.
    pub only: Option<String>,
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
            let file = |part: &str| folder.join(format!("texygen_image_coco_{part}.txt"));
            (Lines::read(&file("train"), LIMIT, None)?, Lines::read(&file("test"), LIMIT, None)?)
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
    Lines { sentences: (0..count).map(sentence).collect(), pieces: Vec::new(), cut: 0 }
}

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
            warm_up: if setting.quick { 40 } else { 2000 },
            seed: setting.seed + seed,
            ..TrainConfig::default()
        };
        (model, train)
    }

    fn run<I: Backend>(
        &self,
        setting: &Setting<'_>,
        texts: &Texts,
        seed: u64,
        engine: Engine,
        device: &I::Device,
    ) -> Result<(Found, Vec<usize>)> {
        let (model, train) = self.configs(setting, seed);
        self.run_with::<I>(setting, texts, model, train, engine, device)
    }

    fn run_with<I: Backend>(
        &self,
        setting: &Setting<'_>,
        texts: &Texts,
        model: ModelConfig,
        train: TrainConfig,
        engine: Engine,
        device: &I::Device,
    ) -> Result<(Found, Vec<usize>)> {
        let run = Run::default().with_seed(train.seed);
        let states = model.states;
        let kept = if train.inference == Inference::Full { states } else { train.top + train.sampled };
        let seed = train.seed - setting.seed;
        let first = beginning(&model, &train, &texts.words, LIMIT, &texts.train, None);
        let mut trainer =
            Trainer::<I>::new(&texts.train, &texts.kept, first, None, engine, device.clone(), run.clone())?;
        let limits = match setting.steps.or(setting.quick.then_some(60)) {
            Some(steps) => Limits { steps: Some(steps), ..Limits::default() },
            None => Limits { seconds: Some(setting.seconds), ..Limits::default() },
        };
        let outputs = Outputs { quiet: true, keep_every: f64::INFINITY, ..Outputs::default() };
        trainer.train(&limits, &outputs)?;
        let progress = trainer.progress.clone();
        let used = Model {
            config: model,
            parameters: trainer.parameters(),
            gpt2: None,
            engine,
            device: device.clone(),
        };
        let found = used.likelihood(&texts.test, &Sums::FULL, setting.samples, &run)?;
        let counts = frequencies(&used, &texts.train, &run)?;
        let per_epoch = texts.train.batches(train.batch).len().max(1) as f64;
        let words = texts.train.tokens() as f64 * progress.step as f64 / per_epoch;
        let row = Found {
            row: self.name.to_owned(),
            seed,
            states,
            kept,
            nll: found.nll,
            sampling_error: found.sampling_error,
            text_error: found.text_error,
            bias: found.bias,
            perplexity: found.perplexity,
            steps: progress.step,
            seconds: progress.seconds,
            words_per_second: words / progress.seconds,
            gib: memory(engine),
            inactive: counts.iter().filter(|&&count| count == 0).count(),
        };
        Ok((row, counts))
    }
}

/// GiB in use: of the GPU as its driver says, or the largest of this process.
fn memory(engine: Engine) -> f64 {
    if engine == Engine::Device {
        let asked = std::process::Command::new("nvidia-smi")
            .args(["--query-gpu=memory.used", "--format=csv,noheader,nounits"])
            .output();
        let text = asked.map(|found| String::from_utf8_lossy(&found.stdout).into_owned()).unwrap_or_default();
        if let Some(used) = text.lines().next().and_then(|line| line.trim().parse::<f64>().ok()) {
            return used / 1024.0;
        }
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)).and_then(|x| x.parse::<f64>().ok());
    kib.map_or(f64::NAN, |kib| kib / 1024.0 / 1024.0)
}

fn read_results(path: &Path) -> Vec<Found> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Trains and evaluates the rows that are not in the results file yet, and prints the table.
///
/// # Errors
/// If a text cannot be read or the results cannot be written.
pub fn table5<I: Backend>(setting: &Setting<'_>, engine: Engine, device: &I::Device) -> Result<Vec<Found>> {
    let texts = texts(setting)?;
    let chosen = |row: &&Spec| setting.only.as_ref().is_none_or(|only| row.name.contains(only.as_str()));
    // The first seed of every row comes first.
    for seed in 0..3 {
        for row in ROWS.iter().filter(chosen) {
            let seeds = if setting.quick { 1 } else { row.seeds };
            let done = read_results(setting.results);
            if seed >= seeds || done.iter().any(|found| found.row == row.name && found.seed == seed) {
                continue;
            }
            eprintln!("{}, seed {seed} …", row.name);
            let (found, _) = row.run::<I>(setting, &texts, seed, engine, device)?;
            append(setting.results, &found)?;
            eprintln!("{}", serde_json::to_string(&found)?);
        }
    }
    let all = read_results(setting.results);
    println!("{}", table(&all));
    Ok(all)
}

fn append(path: &Path, found: &Found) -> Result<()> {
    let fail = || format!("cannot write {}", path.display());
    let mut file = std::fs::File::options().create(true).append(true).open(path).with_context(fail)?;
    writeln!(file, "{}", serde_json::to_string(found)?).with_context(fail)?;
    file.sync_all().with_context(fail)
}

/// The table as Markdown.
pub fn table(all: &[Found]) -> String {
    let mut text = String::from(
        "| row | NLL | seeds | paper | inactive states | words/s | GiB | steps |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in &ROWS {
        let own: Vec<&Found> = all.iter().filter(|found| found.row == row.name).collect();
        if own.is_empty() {
            continue;
        }
        let count = own.len() as f64;
        let mean = |of: fn(&Found) -> f64| own.iter().map(|found| of(found)).sum::<f64>() / count;
        let nll = mean(|found| found.nll);
        // Standard error: of the samples of one run, or the spread of several.
        let (error, sign) = if own.len() > 1 {
            let squares: f64 = own.iter().map(|found| (found.nll - nll).powi(2)).sum();
            ((squares / (count - 1.0)).sqrt(), "sd")
        } else {
            (own[0].sampling_error, "se")
        };
        let paper = row.paper.map_or_else(|| "–".to_owned(), |(mean, sd)| format!("{mean:.2} ± {sd:.2}"));
        text.push_str(&format!(
            "| {} | {nll:.2} ± {error:.2} ({sign}) | {} | {paper} | {:.0} of {} | {:.0} | {:.1} | {:.0} |\n",
            row.name,
            own.len(),
            mean(|found| found.inactive as f64),
            own[0].states,
            mean(|found| found.words_per_second),
            mean(|found| found.gib),
            mean(|found| found.steps as f64),
        ));
    }
    text
}

/// Frequencies of states of the aggregated posterior: the likeliest states only, and growing numbers of drawn ones.
///
/// # Errors
/// As [`table5`].
pub fn figure2<I: Backend>(setting: &Setting<'_>, engine: Engine, device: &I::Device) -> Result<()> {
    let texts = texts(setting)?;
    let mut curves: Vec<(String, Vec<usize>)> = Vec::new();
    println!("| K₁ | K₂ | inactive states | NLL |\n|---|---|---|---|");
    for share in [0_usize, 1, 5, 10] {
        let row = if share == 0 { ROWS[3] } else { ROWS[4] };
        let (model, mut train) = row.configs(setting, 0);
        // K₁ + K₂ is a fifth of the states in every run.
        let all = (model.states / 5).max(2);
        train.sampled = (all * share).div_ceil(20).min(all - 1);
        train.top = all - train.sampled;
        let (top, sampled) = (train.top, train.sampled);
        let (found, mut counts) = row.run_with::<I>(setting, &texts, model, train, engine, device)?;
        println!("| {top} | {sampled} | {} of {} | {:.2} |", found.inactive, found.states, found.nll);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        curves.push((format!("K1 = {top}, K2 = {sampled}"), counts));
    }
    let path = setting.folder.join("rdp-fig2.svg");
    std::fs::write(&path, picture(&curves)).with_context(|| format!("cannot write {}", path.display()))?;
    println!("\nThe picture is in {}.", path.display());
    Ok(())
}

/// Curves of frequencies by rank, with a logarithmic axis; 0 is below it.
fn picture(curves: &[(String, Vec<usize>)]) -> String {
    let (width, height, left, bottom) = (640.0, 400.0, 70.0, 50.0);
    let states = curves.iter().map(|curve| curve.1.len()).max().unwrap_or(1).max(2) as f64;
    let most = curves.iter().flat_map(|curve| curve.1.iter().copied()).max().unwrap_or(1).max(10) as f64;
    let x = |rank: usize| left + (width - left - 20.0) * rank as f64 / (states - 1.0);
    let y = |count: f64| {
        let part = if count < 1.0 { 0.0 } else { 0.08 + 0.92 * count.log10() / most.log10() };
        height - bottom - (height - bottom - 20.0) * part
    };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    let mut ticks: Vec<(f64, String)> = vec![(0.0, "0".into())];
    ticks.extend(
        (0..=most.log10() as i32).map(|power| (10_f64.powi(power), format!("{}", 10_u64.pow(power as u32)))),
    );
    for (count, label) in ticks {
        let at = y(count);
        svg.push_str(&format!(
            "<line x1=\"{left}\" x2=\"{}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\n",
            width - 20.0,
            left - 6.0,
            at + 4.0
        ));
    }
    for (k, (name, counts)) in curves.iter().enumerate() {
        let colour = ["#444444", "#1f77b4", "#ff7f0e", "#2ca02c"][k % 4];
        let points: Vec<String> = counts
            .iter()
            .enumerate()
            .map(|(rank, &count)| format!("{:.1},{:.1}", x(rank), y(count as f64)))
            .collect();
        svg.push_str(&format!(
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\" points=\"{}\"/>\n<text x=\"{}\" y=\"{}\" fill=\"{colour}\" text-anchor=\"end\">{name}</text>\n",
            points.join(" "),
            width - 30.0,
            36 + 18 * k
        ));
    }
    svg.push_str(&format!(
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">states, most frequent first</text>\n<text transform=\"translate(16 {}) rotate(-90)\" text-anchor=\"middle\">occurrences</text>\n</svg>\n",
        (left + width) / 2.0,
        height - 12.0,
        height / 2.0
    ));
    svg
}
