//! Randomized inside on trees whose scores depend on the span: mean squared error of log Z and entropy by proposal, at
//! equal numbers of symbols and at equal time.

use std::time::Instant;

use zhat::catalogue::Settings;
use zhat::model::generate::{self, HypertreeShape, RuleForm, SpanForm};
use zhat::model::{Hypertree, Symbols};
use zhat::{Model, Query, Result};

use super::rdp::{self, Errors, Estimator};
use super::{Setting, header, line, short};
use crate::output;

/// The rank of the rules.
const RANK: usize = 16;

/// A sentence with random scores of words, spans and rules.
fn model(symbols: usize, words: usize, setting: &Setting<'_>) -> Result<Model> {
    let shape = HypertreeShape {
        words,
        symbols: Symbols::same(symbols),
        rules: RuleForm::LowRank(RANK),
        spans: SpanForm::PerSymbol,
        ..Default::default()
    };
    let model: Hypertree = generate::hypertree(&shape, setting.run.seed())?;
    Ok(model.into())
}

/// The paper's sampler, Eq. 18 as printed, and ours.
fn estimators(chosen: usize) -> Vec<Estimator> {
    let half = (chosen / 2).max(1);
    vec![
        Estimator::paper_on_trees(half, true),
        Estimator::paper_on_trees(half, false),
        Estimator::threshold_on_trees("local", 2 * half),
        Estimator::threshold_on_trees("two-pass", 2 * half),
    ]
}

/// The paper's sampler with as many replicates as take the given time, and their number.
fn in_time(
    model: &Model,
    query: Query,
    chosen: usize,
    truth: f64,
    seconds: f64,
    setting: &Setting<'_>,
) -> Result<(usize, Errors)> {
    let paper = Estimator::paper_on_trees((chosen / 2).max(1), false);
    let few = Setting { runs: 2, run: setting.run.clone(), ..*setting };
    let mut count = 1;
    while count < 4096 {
        let found = rdp::errors(model, query, &paper.clone().replicates(count), truth, &few)?;
        if found.seconds >= seconds {
            break;
        }
        count = ((count as f64 * (seconds / found.seconds).clamp(1.25, 8.0)).ceil()) as usize;
    }
    let found = rdp::errors(model, query, &paper.replicates(count), truth, setting)?;
    Ok((count, found))
}

pub fn run(setting: &Setting<'_>) -> Result<()> {
    output::print(&format!(
        "Mean squared error of log Z and of the entropy of trees with normal scores of words, spans (one per span and symbol) and rules of rank {RANK}.\n\
         The paper's sampler keeps K₁ = K/2 symbols and draws K₂ = K/2 uniformly; ratios are relative to it (all products). {} runs per estimator.\n\n",
        setting.runs
    ))?;
    let (symbols, words) = if setting.quick { (500, 10) } else { (2000, 12) };
    // The entropy needs the table of all rules, N³.
    let few = if setting.quick { 30 } else { 100 };
    let parts = [(Query::LogPartition, symbols, words, "log Z"), (Query::Entropy, few, 8, "entropy")];
    for (query, symbols, words, name) in parts {
        let model = model(symbols, words, setting)?;
        let started = Instant::now();
        let truth = rdp::ask(&model, query, "inside-outside", &Settings::new(), &setting.run)?;
        output::print(&format!(
            "N = {symbols}, T = {words}: {name} = {truth:.6}, exact in {} s\n\n{}",
            short(started.elapsed().as_secs_f64()),
            header(&["K", "estimator", name, "ratio", "seconds per run"])
        ))?;
        for percent in [1, 10, 20] {
            let chosen = (symbols * percent / 100).max(2);
            let mut rows: Vec<(String, Errors)> = Vec::new();
            for estimator in estimators(chosen) {
                if query == Query::Entropy && estimator.method == "randomized-inside-published" {
                    continue;
                }
                let found = rdp::errors(&model, query, &estimator, truth, setting)?;
                rows.push((estimator.name, found));
            }
            if let Some(seconds) = rows.last().map(|(_, found)| found.seconds) {
                let (count, found) = in_time(&model, query, chosen, truth, seconds, setting)?;
                let half = (chosen / 2).max(1);
                let name =
                    format!("paper, K₁ = K₂ = {half}, all products, mean of {count} (time of two-pass)");
                rows.push((name, found));
            }
            let base = rows.iter().find(|(name, _)| name.ends_with("all products"));
            let base = base.map_or(f64::NAN, |(_, found)| found.mean_squared());
            for (name, found) in rows {
                let error = found.mean_squared();
                let cells =
                    [format!("{percent}%"), name, short(error), short(error / base), short(found.seconds)];
                output::print(&line(&cells))?;
            }
        }
        output::print("\n")?;
    }
    Ok(())
}
