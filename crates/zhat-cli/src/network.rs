//! `zhat fit` of a Bayesian network of given structure.

use std::path::Path;
use std::time::Instant;

use serde_json::json;
use zhat::internal::units;
use zhat::learn::{self, NetworkFit, NetworkFitted, Parents, Table, columns_of, read_table, read_table_for};
use zhat::model::NetworkType;
use zhat::{Error, FactorGraph, Result, Run, io};

use crate::arguments::{FitArguments, OptimizerArgument, StartArgument};
use crate::output::{self, Exit, json_number};
use crate::query::budgeted;
use crate::{progress, signals};

use super::learn::{graph_of, missing_json, options, per_row, rows};

/// The structure that `--structure` names if it is a random field's.
pub const DEFAULT_STRUCTURE: &str = "chow-liu";

/// Whether the arguments ask for a Bayesian network: they give parents, or a model file as the structure.
pub fn is_requested(arguments: &FitArguments) -> bool {
    !arguments.parents.is_empty() || is_model_file(&arguments.structure)
}

fn is_model_file(structure: &str) -> bool {
    let path = Path::new(structure);
    let known = matches!(io::Format::of(path), Ok(io::Format::Bif | io::Format::Uai | io::Format::Zhat));
    known || ["bif.gz", "uai.gz", "bif.zst", "uai.zst"].iter().any(|ending| structure.ends_with(ending))
}

/// Refuses options of random fields.
fn refuse_fields(arguments: &FitArguments) -> Result<()> {
    let used = [
        ("--l1", arguments.l1 != 0.0),
        ("--l2", arguments.l2.is_some()),
        ("--optimizer", !matches!(arguments.optimizer, OptimizerArgument::Auto | OptimizerArgument::Em)),
        ("--start", matches!(arguments.start, StartArgument::Zero)),
        ("--checkpoint", arguments.checkpoint.is_some()),
        ("--method", arguments.run.method != "auto" && arguments.run.method != "exact"),
        ("--set", !arguments.run.set.is_empty()),
    ];
    match used.iter().find(|(_, used)| *used) {
        Some((name, _)) => Err(Error::argument(
            *name,
            "is for random fields; a Bayesian network is fitted exactly, with --pseudo-count or --equivalent-sample-size as its prior",
        )),
        None => Ok(()),
    }
}

/// Refuses options of Bayesian networks.
pub fn refuse(arguments: &FitArguments) -> Result<()> {
    let used = [
        ("--parents", !arguments.parents.is_empty()),
        ("--pseudo-count", arguments.pseudo_count.is_some()),
        ("--equivalent-sample-size", arguments.equivalent_sample_size.is_some()),
    ];
    match used.iter().find(|(_, used)| *used) {
        Some((name, _)) => Err(Error::argument(
            *name,
            "is for Bayesian networks; give --parents, or a .bif file as --structure",
        )),
        None => Ok(()),
    }
}

/// The structure and the rows.
fn read(arguments: &FitArguments, run: &Run) -> Result<(FactorGraph, Table)> {
    let (data, options) = (&arguments.table.data, options(&arguments.table.format)?);
    if arguments.parents.is_empty() {
        let structure = graph_of(&io::read_model(Path::new(&arguments.structure))?)?;
        if structure.network_type() != NetworkType::Bayes {
            let message = "expected a Bayesian network, found a random field";
            return Err(Error::argument("--structure", message));
        }
        let table = read_table_for(&columns_of(&structure), data, &options, run)?;
        return Ok((structure, table));
    }
    if arguments.structure != DEFAULT_STRUCTURE {
        return Err(Error::argument("--parents", "is a structure itself; expected no --structure"));
    }
    let table = read_table(data, &options, run)?;
    let structure = Parents::parse(&arguments.parents, table.columns())?.network(table.columns())?;
    Ok((structure, table))
}

pub fn fit(arguments: &FitArguments) -> Result<Exit> {
    refuse_fields(arguments)?;
    let how = NetworkFit::default()
        .pseudo_count(arguments.pseudo_count)
        .equivalent_sample_size(arguments.equivalent_sample_size)
        .iterations(arguments.iterations)
        .tolerance(arguments.tolerance);
    let run = progress::attend(budgeted(&arguments.run.budget));
    let started = Instant::now();
    let (structure, table) = read(arguments, &run)?;
    let attention = signals::patient_attention();
    let fitted = learn::fit_network(&structure, &table, &how, &run, &mut |_| Ok(true))?;
    drop(attention);
    io::write_model(&fitted.graph.clone().into(), &arguments.output)?;
    let (graph, likelihood) = (&fitted.graph, &fitted.log_likelihood);
    let arcs: usize = graph.factors().map(|factor| factor.scope.len() - 1).sum();
    let entries: usize = graph.factors().map(|factor| factor.log_values.len()).sum();
    let seconds = started.elapsed().as_secs_f64();
    if arguments.run.budget.json {
        let members = json!({
            "rows": table.rows(), "dropped": table.dropped(), "incomplete": table.incomplete(),
            "missing": missing_json(&table.lacking()), "columns": table.columns().len(),
            "arcs": arcs, "parameters": entries,
            "pseudo_count": how.pseudo_count, "equivalent_sample_size": how.equivalent_sample_size,
            "iterations": fitted.progress.iteration, "converged": fitted.converged,
            "objective": json_number(fitted.progress.objective), "change": json_number(fitted.progress.change),
            "log_likelihood": json_number(likelihood.value), "guarantee": likelihood.guarantee.to_json(),
            "method": likelihood.diagnostics.method, "seed": run.seed(),
            "seconds": {"all": seconds},
        });
        output::print_object("fit", members)?;
        return Ok(output::ended());
    }
    output::print(&output::facts(&[
        ("rows", rows(table.rows(), table.incomplete(), table.dropped(), &table.lacking())),
        (
            "model",
            format!(
                "Bayesian network of {} variables, {arcs} arcs, {entries} parameters",
                graph.variable_count()
            ),
        ),
        ("log-likelihood", per_row(likelihood)),
        ("guarantee", output::guarantee(&likelihood.guarantee, None, &likelihood.diagnostics)),
        ("fit", work(&fitted, seconds)),
        ("written", arguments.output.display().to_string()),
    ]))?;
    Ok(output::ended())
}

fn work(fitted: &NetworkFitted, seconds: f64) -> String {
    let seconds = units::seconds(seconds);
    match fitted.progress.iteration {
        0 if fitted.converged => format!("in closed form, {seconds}"),
        steps => format!(
            "{steps} iterations of EM, {seconds}; largest change of a probability {:.1e}{}",
            fitted.progress.change,
            if fitted.converged { "" } else { " (not yet below the tolerance)" }
        ),
    }
}
