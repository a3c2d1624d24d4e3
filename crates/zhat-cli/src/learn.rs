//! `zhat fit`, `score` and `impute`: fits models to tables and evaluates tables under models.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zhat::catalogue::{self, Choice};
use zhat::internal::units;
use zhat::io::table::{Encoding, Missing, TableOptions, cell};
use zhat::learn::hmm::Hmm;
use zhat::learn::{
    self, Column, Fit, FitCheckpoint, Fitted, Likelihood, Optimizer, Start, Statistics, Structure, Table,
    read_statistics, read_table,
};
use zhat::{Error, FactorGraph, Model, Query, Result, Run, io};

use crate::arguments::{
    EncodingArgument, FitArguments, FormatArguments, ImputeArguments, MissingArgument, OptimizerArgument,
    ScoreArguments, StartArgument,
};
use crate::hmm_arguments::{DurationsArgument, KindArgument};
use crate::output::{self, Exit, json_number};
use crate::query::{budgeted, settings};
use crate::{hmm, network, progress, signals};

/// The delimiter that was given.
pub fn delimiter(arguments: &FormatArguments) -> Result<Option<u8>> {
    let Some(delimiter) = arguments.delimiter else { return Ok(None) };
    let byte = u8::try_from(delimiter).ok().filter(u8::is_ascii);
    byte.map(Some).ok_or_else(|| Error::argument("--delimiter", "must be an ASCII character"))
}

pub fn options(arguments: &FormatArguments) -> Result<TableOptions> {
    let mut options = TableOptions {
        header: !arguments.no_header,
        missing: match arguments.missing {
            MissingArgument::Drop => Missing::Drop,
            MissingArgument::Refuse => Missing::Refuse,
            MissingArgument::State => Missing::State,
            MissingArgument::Marginal => Missing::Marginal,
        },
        encoding: match arguments.encoding {
            EncodingArgument::Utf8 => Encoding::Utf8,
            EncodingArgument::Latin1 => Encoding::Latin1,
        },
        ignore: arguments.ignore.clone(),
        most_states: arguments.most_states,
        ..Default::default()
    };
    options.delimiter = delimiter(arguments)?;
    if !arguments.marker.is_empty() {
        options.markers.clone_from(&arguments.marker);
    }
    Ok(options)
}

fn structure(text: &str, statistics: &Statistics) -> Result<Structure> {
    let more = |rest: &str| rest.strip_prefix('+').and_then(|count| count.parse().ok());
    match text {
        "independent" => Ok(Structure::Independent),
        "complete" => Ok(Structure::Complete),
        "chow-liu" => Ok(Structure::ChowLiu { more: 0 }),
        other => match other.strip_prefix("chow-liu").and_then(more) {
            Some(more) => Ok(Structure::ChowLiu { more }),
            None => {
                let path = Path::new(other);
                if !path.exists() {
                    let known = "independent, chow-liu, chow-liu+M, complete, or a file of pairs";
                    return Err(Error::argument("--structure", format!("expected {known}, found `{other}`")));
                }
                let text = std::fs::read_to_string(path).map_err(|source| Error::io(path, source))?;
                Structure::parse(&text, other, statistics)
            }
        },
    }
}

pub fn fit(arguments: &FitArguments) -> Result<Exit> {
    if arguments.kind == KindArgument::Hmm {
        return hmm::fit(arguments);
    }
    refuse_hidden(arguments)?;
    output::refuse_stdout(&arguments.output, "model.zhat")?;
    if network::is_requested(arguments) {
        return network::fit(arguments);
    }
    network::refuse(arguments)?;
    if io::Format::of(&arguments.output)? == io::Format::Bif {
        let message = "a fitted model is a Markov random field, not a Bayesian network; expected .zhat or .uai, or the structure of a network by --parents or --structure FILE.bif";
        return Err(Error::argument("-o", message));
    }
    let run = progress::attend(budgeted(&arguments.run.budget));
    let started = Instant::now();
    let options = options(&arguments.table.format)?;
    let (choice, settings) = (Choice::parse(&arguments.run.method), settings(&arguments.run.set)?);
    let sums = options.missing == Missing::Marginal;
    let table = sums.then(|| read_table(&arguments.table.data, &options, &run)).transpose()?;
    let statistics = match &table {
        Some(table) => Statistics::available(table, &run)?,
        None => read_statistics(&arguments.table.data, &options, &run)?,
    };
    let counting = started.elapsed().as_secs_f64();
    let edges = structure(&arguments.structure, &statistics)?.edges(&statistics)?;
    let likelihood = match &table {
        Some(table) => Likelihood::of_table(table, &edges, choice, settings, &run)?,
        None => Likelihood::new(&statistics, &edges, choice, settings)?,
    };
    let incomplete = table.as_ref().map_or(0, Table::incomplete);
    let l2 = arguments.l2.unwrap_or(if arguments.l1 > 0.0 { 0.0 } else { 1.0 / statistics.rows() as f64 });
    let how = Fit::default()
        .l1(arguments.l1)
        .l2(l2)
        .optimizer(match arguments.optimizer {
            OptimizerArgument::Auto => Optimizer::Auto,
            OptimizerArgument::Lbfgs => Optimizer::Lbfgs,
            OptimizerArgument::Fista => Optimizer::Fista,
            OptimizerArgument::Em => Optimizer::Em,
        })
        .start(match arguments.start {
            StartArgument::Forest => Start::Forest,
            StartArgument::Zero => Start::Zero,
        })
        .iterations(arguments.iterations)
        .tolerance(arguments.tolerance);
    let watch: &mut dyn FnMut(&FitCheckpoint) -> Result<bool> = &mut |_| Ok(true);
    let attention = signals::patient_attention();
    let fitted = match &arguments.checkpoint {
        Some(path) => learn::fit_kept(&likelihood, &how, path, &run, watch)?,
        None => learn::fit(&likelihood, &how, None, &run, watch)?,
    };
    drop(attention);
    io::write_model(&fitted.graph.clone().into(), &arguments.output)?;
    let (progress, likelihood_answer) = (fitted.progress, &fitted.log_likelihood);
    let kept_edges = used_edges(&fitted.graph);
    let warning = likelihood_answer.diagnostics.warning();
    if let Some(warning) = warning {
        eprintln!("zhat: warning: {warning}");
    }
    if arguments.run.budget.json {
        let members = json!({
            "rows": statistics.rows(), "dropped": statistics.dropped(),
            "incomplete": incomplete, "missing": missing_json(&statistics.lacking()), "columns": statistics.columns().len(),
            "edges": kept_edges, "parameters": likelihood.dimension(),
            "l1": how.l1, "l2": how.l2,
            "iterations": progress.iteration, "converged": fitted.converged,
            "objective": progress.objective, "stationarity": progress.stationarity,
            "log_likelihood": json_number(likelihood_answer.value), "guarantee": likelihood_answer.guarantee.to_json(),
            "method": likelihood_answer.diagnostics.method, "warning": warning, "seed": run.seed(),
            "seconds": {"counting": counting, "all": started.elapsed().as_secs_f64()},
        });
        output::print_object("fit", members)?;
    } else {
        let mut facts =
            vec![("rows", rows(statistics.rows(), incomplete, statistics.dropped(), &statistics.lacking()))];
        let constants: Vec<&str> = statistics.constants().map(|column| column.name.as_str()).collect();
        if !constants.is_empty() {
            facts.push(("constant", constants.join(", ")));
        }
        facts.extend([
            (
                "model",
                format!(
                    "{} variables, {kept_edges} interacting pairs, {} parameters",
                    statistics.columns().len(),
                    likelihood.dimension()
                ),
            ),
            ("log-likelihood", per_row(likelihood_answer)),
            (
                "guarantee",
                output::guarantee(&likelihood_answer.guarantee, None, &likelihood_answer.diagnostics),
            ),
            ("fit", work(&fitted, started.elapsed().as_secs_f64())),
            ("written", arguments.output.display().to_string()),
        ]);
        output::print(&output::facts(&facts))?;
    }
    Ok(output::ended())
}

/// Refuses options of hidden Markov models.
fn refuse_hidden(arguments: &FitArguments) -> Result<()> {
    let own = &arguments.hmm;
    let used = [
        ("--states", !own.states.is_empty()),
        ("--sequence", own.sequence.is_some()),
        ("--labels", own.labels.is_some()),
        ("--fixed", !own.fixed.is_empty()),
        ("--ties", !own.ties.is_empty()),
        ("--durations", own.durations != DurationsArgument::Geometric),
        ("--starts", own.starts != 1),
        ("--from", own.from.is_some()),
    ];
    match used.iter().find(|(_, used)| *used) {
        Some((name, _)) => Err(Error::argument(*name, "is for --kind hmm")),
        None => Ok(()),
    }
}

fn work(fitted: &Fitted, seconds: f64) -> String {
    let (progress, seconds) = (fitted.progress, units::seconds(seconds));
    let method = fitted.log_likelihood.diagnostics.method;
    match progress.iteration {
        0 if fitted.converged => format!("in closed form, {seconds}"),
        steps => format!(
            "{steps} iterations by {method}, {seconds}; gradient {:.1e}{}",
            progress.stationarity,
            if fitted.converged { "" } else { " (not yet below the tolerance)" }
        ),
    }
}

pub fn per_row(mean: &zhat::Estimate) -> String {
    format!("{} nats per row", output::stated(mean.value, &mean.guarantee, &mean.diagnostics, 1.0))
}

/// Maximum number of columns named in one line.
const NAMED: usize = 5;

/// The number of rows used, of incomplete ones among them, and of those dropped, with the columns with missing values.
pub fn rows(counted: u64, incomplete: u64, dropped: u64, lacking: &[(&str, u64)]) -> String {
    if incomplete == 0 && dropped == 0 {
        return counted.to_string();
    }
    let mut columns: Vec<String> =
        lacking.iter().take(NAMED).map(|(name, count)| format!("{name} in {count}")).collect();
    if lacking.len() > NAMED {
        columns.push(format!("and {} more columns", lacking.len() - NAMED));
    }
    let columns = columns.join(", ");
    match (incomplete, dropped) {
        (0, dropped) => format!(
            "{counted} ({dropped} left out for missing values: {columns}; to keep them, --missing em, --missing state or --ignore COLUMN)"
        ),
        (incomplete, 0) => format!("{counted} ({incomplete} of them with missing values: {columns})"),
        (incomplete, dropped) => format!(
            "{counted} ({incomplete} of them with missing values: {columns}; {dropped} without any value left out)"
        ),
    }
}

pub fn missing_json(lacking: &[(&str, u64)]) -> Value {
    Value::Object(lacking.iter().map(|(name, count)| ((*name).to_owned(), json!(count))).collect())
}

/// The number of pairs whose table is not all zero.
fn used_edges(graph: &FactorGraph) -> usize {
    let used = |factor: &zhat::model::Factor<'_>| {
        factor.scope.len() == 2 && factor.log_values.iter().any(|&x| x != 0.0)
    };
    graph.factors().filter(used).count()
}

fn read_graph(path: &Path) -> Result<FactorGraph> {
    graph_of(&io::read_model(path)?)
}

pub fn graph_of(model: &Model) -> Result<FactorGraph> {
    let graph = model.get::<FactorGraph>().cloned();
    graph.ok_or_else(|| Error::argument("MODEL", format!("is a {}, expected a factor graph", model.kind())))
}

fn log_partition(
    graph: &FactorGraph,
    arguments: &crate::arguments::RunArguments,
    run: &Run,
) -> Result<zhat::Estimate> {
    let (model, choice) = (graph.clone().into(), Choice::parse(&arguments.method));
    catalogue::answer(&model, Query::LogPartition, &choice, &settings(&arguments.set)?, run)?.into_estimate()
}

pub fn score(arguments: &ScoreArguments) -> Result<Exit> {
    let model = io::read_model(&arguments.model)?;
    // The command line requires one of them.
    let data = arguments.input.as_deref().or(arguments.data.as_deref()).unwrap_or(Path::new("-"));
    if let Some(model) = model.get::<Hmm>() {
        return hmm::score(arguments, data, model);
    }
    let run = progress::attend(budgeted(&arguments.run.budget));
    let graph = graph_of(&model)?;
    let options = options(&arguments.format)?;
    let mut rows_of_table = learn::open_rows(&graph, data, &options)?;
    let log_z = log_partition(&graph, &arguments.run, &run)?;
    let mut lines = String::new();
    let (json, mut each) = (arguments.run.budget.json, Vec::new());
    if arguments.rows && !json {
        output::print("line,log_likelihood\n")?;
    }
    let scores =
        learn::score(&graph, log_z, &mut rows_of_table, options.missing, &run, &mut |line, value| {
            if arguments.rows && json {
                each.push(json!({"line": line, "log_likelihood": json_number(value)}));
            } else if arguments.rows {
                lines += &format!("{line},{value}\n");
                if lines.len() > 1 << 16 {
                    output::print(&std::mem::take(&mut lines))?;
                }
            }
            Ok(())
        })?;
    output::print(&lines)?;
    let mean = &scores.mean;
    let lacking: Vec<(&str, u64)> =
        scores.lacking.iter().map(|(name, count)| (name.as_str(), *count)).collect();
    if json {
        let mut members = json!({
            "rows": scores.rows, "dropped": scores.dropped, "incomplete": scores.incomplete, "missing": missing_json(&lacking),
            "log_likelihood": json_number(mean.value),
            "guarantee": mean.guarantee.to_json(), "method": mean.diagnostics.method, "seed": run.seed(),
        });
        if arguments.rows {
            members["lines"] = each.into();
        }
        output::print_object("score", members)?;
        return Ok(Exit::Answered);
    }
    let text = output::facts(&[
        ("rows", rows(scores.rows, scores.incomplete, scores.dropped, &lacking)),
        ("log-likelihood", per_row(mean)),
        ("guarantee", output::guarantee(&mean.guarantee, None, &mean.diagnostics)),
        ("method", output::provenance(&mean.diagnostics)),
    ]);
    if arguments.rows {
        eprint!("{text}");
    } else {
        output::print(&text)?;
    }
    Ok(Exit::Answered)
}

pub fn impute(arguments: &ImputeArguments) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.run.budget));
    let graph = read_graph(&arguments.model)?;
    let options = options(&arguments.table.format)?;
    let mut rows_of_table = learn::open_rows(&graph, &arguments.table.data, &options)?;
    let columns = learn::columns_of(&graph);
    let (choice, settings) = (Choice::parse(&arguments.run.method), settings(&arguments.run.set)?);
    let how = (&choice, &settings);
    if arguments.run.budget.json {
        let mut table = Vec::new();
        let imputed = learn::impute(&graph, &mut rows_of_table, how, &run, &mut |states| {
            let value =
                |(&state, column): (&usize, &Column)| (column.name.clone(), json!(column.states[state]));
            table.push(Value::Object(states.iter().zip(&columns).map(value).collect()));
            Ok(())
        })?;
        let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
        let members = json!({
            "rows": imputed.rows, "filled": imputed.filled, "columns": names, "table": table,
            "guarantee": imputed.guarantee().to_json(), "methods": imputed.methods, "seed": run.seed(),
        });
        output::print_object("impute", members)?;
        return Ok(Exit::Answered);
    }
    let names: Vec<_> = columns.iter().map(|column| cell(&column.name)).collect();
    output::print(&(names.join(",") + "\n"))?;
    let mut lines = String::new();
    let imputed = learn::impute(&graph, &mut rows_of_table, how, &run, &mut |states| {
        let values: Vec<_> =
            states.iter().zip(&columns).map(|(&state, column)| cell(&column.states[state])).collect();
        lines += &values.join(",");
        lines.push('\n');
        if lines.len() > 1 << 16 {
            output::print(&std::mem::take(&mut lines))?;
        }
        Ok(())
    })?;
    output::print(&lines)?;
    let values = if imputed.filled == 1 { "value" } else { "values" };
    let caution = if imputed.inexact > 0 { format!("; {}", imputed.guarantee()) } else { String::new() };
    eprintln!("{} {values} filled in{caution}", imputed.filled);
    Ok(Exit::Answered)
}
