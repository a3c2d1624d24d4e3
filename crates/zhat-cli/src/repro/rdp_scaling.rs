//! Cost of one randomized forward pass as a function of the number of states.

use std::time::Instant;

use serde_json::json;
use zhat::catalogue::Settings;
use zhat::model::{Chain, Transitions};
use zhat::random::Streams;
use zhat::{Model, Query, Result};

use super::{Setting, header, line, rdp};
use crate::chart::{self, Axes, Curve};
use crate::output;

const STEPS: usize = 5;
const RANK: usize = 16;
const CHOSEN: usize = 256;
/// The exact pass is omitted for more states than this.
const EXACT_LIMIT: usize = 40_000;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let sizes: &[usize] = if setting.quick {
        &[1000, 3000, 10_000, 30_000]
    } else {
        &[1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000]
    };
    output::print(&format!(
        "Seconds for log Z of one chain of {STEPS} positions with embeddings of dimension {RANK}; K = {CHOSEN} states are chosen at \
         each position.\nCost per step: local-global K² plus reading N emissions; forward and two-pass K·N; exact N².\n\n{}",
        header(&["N", "local-global", "forward", "two-pass", "exact"])
    ))?;
    let methods = ["local-global", "forward", "two-pass", "exact"];
    let mut curves: Vec<Curve> =
        methods.iter().map(|&name| Curve { name: name.into(), points: Vec::new() }).collect();
    for &states in sizes {
        let model = chain(states, setting.run.seed())?;
        let mut cells = vec![states.to_string()];
        for (m, method) in methods.iter().enumerate() {
            if *method == "exact" && states > EXACT_LIMIT {
                cells.push(String::new());
                continue;
            }
            let seconds = fastest(&model, method, setting)?;
            curves[m].points.push((states as f64, seconds));
            cells.push(super::short(seconds));
        }
        output::print(&line(&cells))?;
    }
    let title = format!("log Z of a chain: seconds by number of states, K = {CHOSEN}");
    let axes = Axes { title: &title, x: "states N", y: "seconds" };
    setting.picture("rdp-scaling.svg", &chart::log_log(&axes, &curves)?)
}

/// The fastest of three runs.
fn fastest(model: &Model, method: &str, setting: &Setting<'_>) -> Result<f64> {
    let settings: Settings = [
        ("proposal", json!(method)),
        ("selection", json!("threshold")),
        ("states", json!(CHOSEN)),
        ("replicates", json!(1)),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    let mut best = f64::INFINITY;
    for _ in 0..3 {
        let started = Instant::now();
        if method == "exact" {
            rdp::ask(model, Query::LogPartition, "forward-backward", &Settings::new(), &setting.run)?;
        } else {
            rdp::ask(model, Query::LogPartition, "randomized", &settings, &setting.run)?;
        }
        best = best.min(started.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// A chain with normal embeddings and emissions.
fn chain(states: usize, seed: u64) -> Result<Model> {
    let normals = |block: u64, count: usize, scale: f64| -> Vec<f32> {
        let mut random = Streams::new(seed, "scaling").block(block);
        (0..count).map(|_| (scale * random.normal()) as f32).collect()
    };
    let embeddings = normals(0, states * RANK, 1.0 / (RANK as f64).powf(0.25));
    let emissions = normals(1, states * STEPS, 2.0);
    let transitions = Transitions::Factored { left: embeddings.into(), right: None };
    Ok(Chain::crf(states, emissions.into(), vec![STEPS], transitions)?.into())
}
