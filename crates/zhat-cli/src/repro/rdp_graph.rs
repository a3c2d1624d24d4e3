//! Randomized messages on a graph with cycles: the error as a function of the number of states kept.

use std::time::Instant;

use serde_json::json;
use zhat::catalogue::{self, Choice, Settings};
use zhat::model::generate::{self, PairwiseShape, TransitionForm};
use zhat::{Model, PairwiseGraph, Query, Result, Run};

use super::{Setting, header, line};
use crate::chart::{self, Axes, Curve};
use crate::output;

const RANK: usize = 16;

pub fn run(setting: &Setting<'_>) -> Result<()> {
    let states = if setting.quick { 4000 } else { 100_000 };
    let shape = PairwiseShape {
        rows: 2,
        columns: 3,
        states,
        interactions: TransitionForm::Factored { rank: RANK, tied: false },
        strength: 2.0,
        coupling: 1.0,
        ..Default::default()
    };
    let graph: PairwiseGraph<f32> = generate::pairwise(&shape, setting.run.seed())?;
    let model = Model::from(graph);
    output::print(&format!(
        "Grid of 2 × 3 variables with {states} states, interactions by embeddings of dimension {RANK}: log Z of belief propagation with all \
         states, and with K states of each variable chosen at random.\n{} runs of one replicate each; root mean squared error in nats.\n",
        setting.runs
    ))?;
    let started = Instant::now();
    let truth = ask(&model, "bp", &Settings::new(), &setting.run)?;
    output::print(&format!("With all states: {truth:.6}, {:.1} s.\n\n", started.elapsed().as_secs_f64()))?;
    output::print(&header(&["K", "local-global", "s", "guided", "s", "guided, predicted by 1/√K"]))?;
    let proposals = ["local-global", "guided"];
    let mut curves: Vec<Curve> = ["local-global", "guided", "1/√K"]
        .iter()
        .map(|&name| Curve { name: name.into(), points: Vec::new() })
        .collect();
    for chosen in [64usize, 128, 256, 512, 1024] {
        let mut cells = vec![chosen.to_string()];
        for (p, proposal) in proposals.iter().enumerate() {
            let (error, seconds) = error(&model, proposal, chosen, truth, setting)?;
            curves[p].points.push((chosen as f64, error));
            cells.extend([super::short(error), super::short(seconds)]);
        }
        let (least, first) = curves[1].points[0];
        let predicted = first * (least / chosen as f64).sqrt();
        curves[2].points.push((chosen as f64, predicted));
        cells.push(super::short(predicted));
        output::print(&line(&cells))?;
    }
    let title = format!("log Z by randomized messages, {states} states: error by states kept");
    let axes = Axes { title: &title, x: "states kept K", y: "root mean squared error" };
    setting.picture("rdp-graph.svg", &chart::log_log(&axes, &curves)?)
}

/// Root mean squared error and seconds per run.
fn error(
    model: &Model,
    proposal: &str,
    chosen: usize,
    truth: f64,
    setting: &Setting<'_>,
) -> Result<(f64, f64)> {
    let settings: Settings =
        [("proposal", json!(proposal)), ("states", json!(chosen)), ("replicates", json!(1))]
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect();
    let started = Instant::now();
    let mut squares = 0.0;
    for i in 0..setting.runs {
        let seed = setting.run.seed().wrapping_mul(1_000_003).wrapping_add(1 + i as u64);
        let run = setting.run.clone().with_seed(seed);
        squares += (ask(model, "randomized-bp", &settings, &run)? - truth).powi(2);
    }
    let runs = setting.runs as f64;
    Ok(((squares / runs).sqrt(), started.elapsed().as_secs_f64() / runs))
}

fn ask(model: &Model, method: &str, settings: &Settings, run: &Run) -> Result<f64> {
    let answer = catalogue::answer(model, Query::LogPartition, &Choice::parse(method), settings, run)?;
    Ok(answer.into_estimate()?.value)
}
