//! Shared code of the experiments of Fu, Cunningham & Lapata, "Scaling structured inference with
//! randomization" (ICML 2022).

use std::time::Instant;

use serde_json::json;
use zhat::catalogue::{self, Choice, Settings};
use zhat::model::generate::{self, Sharpness};
use zhat::{Chain, Model, Query, Result, Run};

use super::Setting;
use crate::output;

/// The paper's three kinds of distribution.
pub const SHARPENING: [Sharpness; 3] = [Sharpness::Dense, Sharpness::Intermediate, Sharpness::LongTailed];

/// The rank of the embeddings.
const RANK: usize = 50;

/// The number of positions of the chain with this number of states.
pub fn steps(states: usize) -> usize {
    if states == 2000 { 11 } else { 10 }
}

/// A chain from the paper's generator.
pub fn chain(states: usize, sharpness: Sharpness, setting: &Setting<'_>) -> Result<Model> {
    let chain: Chain = generate::rdp_chain(states, steps(states), RANK, sharpness, setting.run.seed())?;
    Ok(chain.into())
}

/// The result of a query for a single sequence.
pub fn ask(model: &Model, query: Query, method: &str, settings: &Settings, run: &Run) -> Result<f64> {
    let answer = catalogue::answer(model, query, &Choice::parse(method), settings, run)?;
    match answer.numbers() {
        Some(&[value]) => Ok(value),
        _ => Err(answer.unexpected_shape()),
    }
}

/// An estimator in the tables.
#[derive(Clone)]
pub struct Estimator {
    pub name: String,
    pub method: &'static str,
    pub settings: Settings,
}

impl Estimator {
    fn new(name: impl Into<String>, proposal: &str, selection: &str, states: usize) -> Self {
        let settings = [
            ("proposal", json!(proposal)),
            ("selection", json!(selection)),
            ("states", json!(states)),
            ("replicates", json!(1)),
        ];
        Estimator {
            name: name.into(),
            method: "randomized",
            settings: settings.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        }
    }

    /// Only the K states with the largest proposal probabilities; biased.
    pub fn top(states: usize, chosen: usize) -> Self {
        let percent = 100.0 * chosen as f64 / states as f64;
        Estimator::new(format!("top K = {chosen} ({percent}%)"), "local-global", "top", chosen)
    }

    /// The paper's estimator: the K − 1 states with the largest proposal probabilities and one draw.
    pub fn paper(proposal: &str, percent: usize, chosen: usize) -> Self {
        let name = format!("paper, {percent}%, {proposal}");
        let mut estimator = Estimator::new(name, proposal, "draws", chosen);
        estimator.settings.insert("top".into(), json!(chosen - 1));
        estimator
    }

    /// Our estimator: threshold selection.
    pub fn threshold(proposal: &str, percent: usize, chosen: usize) -> Self {
        Estimator::new(format!("threshold, {percent}%, {proposal}"), proposal, "threshold", chosen)
    }
}

/// Estimators on trees over words.
impl Estimator {
    fn on_trees(name: String, proposal: &str, selection: &str, states: usize) -> Self {
        Estimator { method: "randomized-inside", ..Estimator::new(name, proposal, selection, states) }
    }

    /// Only the K symbols of each span with the largest scores; biased.
    pub fn top_symbols(symbols: usize, chosen: usize) -> Self {
        let percent = 100.0 * chosen as f64 / symbols as f64;
        Estimator::on_trees(format!("top K = {chosen} ({percent}%)"), "local", "top", chosen)
    }

    /// The paper's sampler: the K₁ symbols with the largest scores and K₂ = K₁ uniform draws, by Eq. 18 as printed
    /// (biased), or with the products that it leaves out.
    pub fn paper_on_trees(half: usize, as_printed: bool) -> Self {
        let recursion = if as_printed { "Eq. 18" } else { "all products" };
        let name = format!("paper, K₁ = K₂ = {half}, {recursion}");
        let mut estimator = Estimator::on_trees(name, "uniform-tail", "draws", 2 * half);
        estimator.settings.insert("top".into(), json!(half));
        if as_printed {
            estimator.method = "randomized-inside-published";
            estimator.settings.remove("proposal");
            estimator.settings.remove("selection");
        }
        estimator
    }

    /// Our estimator: threshold selection.
    pub fn threshold_on_trees(proposal: &str, chosen: usize) -> Self {
        Estimator::on_trees(format!("threshold, K = {chosen}, {proposal}"), proposal, "threshold", chosen)
    }

    /// The mean of several replicates.
    pub fn replicates(mut self, count: usize) -> Self {
        self.settings.insert("replicates".into(), json!(count));
        self
    }
}

/// Statistics of many runs of an estimator.
pub struct Errors {
    pub bias: f64,
    pub variance: f64,
    pub seconds: f64,
}

impl Errors {
    /// Mean squared error.
    pub fn mean_squared(&self) -> f64 {
        self.bias * self.bias + self.variance
    }
}

/// Runs an estimator repeatedly, each time with a different seed.
pub fn errors(
    model: &Model,
    query: Query,
    estimator: &Estimator,
    truth: f64,
    setting: &Setting<'_>,
) -> Result<Errors> {
    let started = Instant::now();
    // A deterministic estimator is run only once.
    let random = estimator.settings.get("selection") != Some(&json!("top"));
    let runs = if random { setting.runs } else { 1 };
    let mut differences = Vec::with_capacity(runs);
    for i in 0..runs {
        let run = setting
            .run
            .clone()
            .with_seed(setting.run.seed().wrapping_mul(1_000_003).wrapping_add(1 + i as u64));
        differences.push(ask(model, query, estimator.method, &estimator.settings, &run)? - truth);
    }
    let count = runs as f64;
    let bias = differences.iter().sum::<f64>() / count;
    let variance = differences.iter().map(|x| (x - bias).powi(2)).sum::<f64>() / count;
    Ok(Errors { bias, variance, seconds: started.elapsed().as_secs_f64() / count })
}

/// `ours (paper's)`.
pub fn beside(ours: f64, paper: Option<f64>) -> String {
    match paper {
        Some(paper) => format!("{} ({paper})", super::short(ours)),
        None => super::short(ours),
    }
}

/// Prints a description of a table before it is computed.
pub fn introduce(text: &str, setting: &Setting<'_>) -> Result<()> {
    output::print(&format!(
        "{text}\n{} runs per estimator; the paper's values are in parentheses.\n\n",
        setting.runs
    ))
}
