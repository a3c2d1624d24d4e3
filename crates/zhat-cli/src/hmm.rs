//! `zhat fit --kind hmm`, and `score` and `sample` of hidden Markov models. Queries about the states given
//! observations (`map`, `marginals`, …) are those of chains.

use std::path::Path;
use std::time::Instant;

use serde_json::{Value, json};
use zhat::internal::io::write_atomically;
use zhat::internal::units;
use zhat::io::table::cell;
use zhat::learn::hmm::file::{read_hmm, read_hmm_checkpoint, write_hmm, write_hmm_checkpoint};
use zhat::learn::hmm::{
    Candidate, Covariance, DurationForm, Emissions, Family, Hmm, Learning, Observations, Optimizer,
    ReadOptions, Topology, Trained, TrainingForecast, compare_states, forecast_training, read_sequences,
    train, train_supervised,
};
use zhat::{Error, Result, Run};

use crate::arguments::{FitArguments, MissingArgument, OptimizerArgument, SampleArguments, ScoreArguments};
use crate::hmm_arguments::{
    CovarianceArgument, DurationsArgument, EmissionsArgument, FixedArgument, HmmArguments, TopologyArgument,
};
use crate::output::{self, Exit, json_number};
use crate::query::{budgeted, settings};
use crate::{progress, signals};

/// Length of sequences drawn without `--length`.
const LENGTH: usize = 100;

fn family(arguments: &HmmArguments) -> Family {
    let covariance = match arguments.covariance {
        CovarianceArgument::Spherical => Covariance::Spherical,
        CovarianceArgument::Diagonal => Covariance::Diagonal,
        CovarianceArgument::Full => Covariance::Full,
        CovarianceArgument::Tied => Covariance::Tied,
    };
    match arguments.emissions {
        EmissionsArgument::Categorical => Family::Categorical { symbols: 0 },
        EmissionsArgument::Gaussian => Family::Gaussian { covariance },
        EmissionsArgument::Poisson => Family::Poisson,
        EmissionsArgument::Mixture => Family::Mixture { components: arguments.components, covariance },
    }
}

/// Training options: the flags, and those of `--set`.
fn learning(arguments: &FitArguments) -> Result<Learning> {
    let own = &arguments.hmm;
    let given = settings(&arguments.run.set)?;
    let flags = [
        "iterations",
        "tolerance",
        "starts",
        "topology",
        "optimizer",
        "ties",
        "durations",
        "max_duration",
        "fixed_durations",
        "fixed_start",
        "fixed_transitions",
        "fixed_emissions",
    ];
    if let Some(name) = flags.iter().find(|name| given.contains_key(**name)) {
        let flag = if name.starts_with("fixed") { "fixed".into() } else { name.replace('_', "-") };
        return Err(Error::argument("--set", format!("{name} has its own option --{flag}")));
    }
    let read: Learning = zhat::options::read("hmm", &given)?;
    let fixed = |part: FixedArgument| own.fixed.contains(&part);
    let optimizer = match arguments.optimizer {
        OptimizerArgument::Auto | OptimizerArgument::Em => Optimizer::Em,
        OptimizerArgument::Lbfgs => Optimizer::Lbfgs,
        OptimizerArgument::Fista => {
            return Err(Error::argument("--optimizer", "fista is for --kind mrf; expected em or lbfgs"));
        }
    };
    Ok(read
        .optimizer(optimizer)
        .ties(own.ties.clone())
        .durations(match own.durations {
            DurationsArgument::Geometric => DurationForm::Geometric,
            DurationsArgument::Free => DurationForm::Free,
            DurationsArgument::NegativeBinomial => DurationForm::NegativeBinomial,
        })
        .max_duration(own.max_duration)
        .fixed_durations(fixed(FixedArgument::Durations))
        .iterations(arguments.iterations)
        .tolerance(arguments.tolerance)
        .starts(own.starts)
        .topology(match own.topology {
            TopologyArgument::Full => Topology::Full,
            TopologyArgument::LeftToRight => Topology::LeftToRight,
        })
        .fixed_start(fixed(FixedArgument::Start))
        .fixed_transitions(fixed(FixedArgument::Transitions))
        .fixed_emissions(fixed(FixedArgument::Emissions)))
}

fn read(arguments: &FitArguments, given: Option<&Hmm>) -> Result<Observations> {
    let (own, table) = (&arguments.hmm, &arguments.table.format);
    let missing = match table.missing {
        MissingArgument::Marginal => true,
        MissingArgument::Drop | MissingArgument::Refuse => false,
        MissingArgument::State => {
            let message =
                "`state` is for --kind mrf; a hidden Markov model sums over missing values with marginal";
            return Err(Error::argument("--missing", message));
        }
    };
    let options = ReadOptions {
        sequence: own.sequence.clone(),
        labels: own.labels.clone(),
        ignore: table.ignore.clone(),
        missing,
        no_header: table.no_header,
        delimiter: crate::learn::delimiter(table)?,
        known: given.map(|model| model.layout().clone()),
    };
    read_sequences(&arguments.table.data, given.map_or_else(|| family(own), Hmm::family), &options)
}

fn refuse_others(arguments: &FitArguments) -> Result<()> {
    let others = [
        ("--structure", arguments.structure != crate::network::DEFAULT_STRUCTURE),
        ("--parents", !arguments.parents.is_empty()),
        ("--pseudo-count", arguments.pseudo_count.is_some()),
        ("--equivalent-sample-size", arguments.equivalent_sample_size.is_some()),
        ("--l1", arguments.l1 != 0.0),
        ("--l2", arguments.l2.is_some()),
        ("--method", arguments.run.method != "auto"),
    ];
    match others.iter().find(|(_, used)| *used) {
        Some((name, _)) => Err(Error::argument(*name, "is for --kind mrf")),
        None => Ok(()),
    }
}

pub fn fit(arguments: &FitArguments) -> Result<Exit> {
    output::refuse_stdout(&arguments.output, "model.zhat")?;
    refuse_others(arguments)?;
    if arguments.output.extension().is_none_or(|ending| ending != "zhat") {
        return Err(Error::argument("-o", "a hidden Markov model is written to a .zhat file"));
    }
    let own = &arguments.hmm;
    let run = progress::attend(budgeted(&arguments.run.budget));
    let started = Instant::now();
    let how = learning(arguments)?;
    let given = own.from.as_deref().map(read_hmm).transpose()?;
    let found = read(arguments, given.as_ref())?;
    let attention = signals::patient_attention();
    let Fitted { trained, table, forecast } = fitted(arguments, &found, &how, given.as_ref(), &run)?;
    drop(attention);
    let model = trained.model.clone().with_layout(found.layout.clone())?;
    write_atomically(&arguments.output, |out| write_hmm(&model, out))?;
    let unreachable = model.unreachable();
    if !unreachable.is_empty() {
        let names: Vec<String> = unreachable.iter().map(usize::to_string).collect();
        let count = names.len();
        eprintln!("zhat: warning: no sequence can reach {count} of the states: {}", names.join(", "));
    }
    let rows = found.data.rows();
    let parameters = model.parameters();
    let aic = 2.0 * parameters as f64 - 2.0 * trained.log_likelihood;
    let bic = parameters as f64 * (rows as f64).ln() - 2.0 * trained.log_likelihood;
    if arguments.run.budget.json {
        let candidates: Vec<Value> = table
            .iter()
            .map(|one| {
                json!({
                    "states": one.states, "parameters": one.parameters, "log_likelihood": json_number(one.log_likelihood),
                    "aic": json_number(one.aic), "bic": json_number(one.bic), "cross_validated": one.cross_validated.map(json_number),
                })
            })
            .collect();
        let members = json!({
            "kind": "hmm", "rows": rows, "sequences": found.data.count(), "columns": found.layout.columns,
            "states": model.states(), "emissions": model.emissions().name(), "parameters": parameters,
            "log_likelihood": json_number(trained.log_likelihood), "objective": json_number(trained.objective),
            "aic": json_number(aic), "bic": json_number(bic), "iterations": trained.steps,
            "converged": trained.converged, "candidates": candidates, "unreachable": unreachable,
            "forecast": forecast.map(|one| json!({"bytes": one.bytes, "seconds_per_step": one.step_seconds})),
            "seed": run.seed(), "seconds": started.elapsed().as_secs_f64(),
        });
        output::print_object("fit", members)?;
        return Ok(output::ended());
    }
    let mut text = String::new();
    if !table.is_empty() {
        text = comparison(&table, rows) + "\n";
    }
    let seconds = units::seconds(started.elapsed().as_secs_f64());
    let ending = if trained.converged { "converged" } else { "not converged" };
    let iterations = format!("{}, {ending}", units::count(trained.steps, "iteration"));
    let steps = match &own.labels {
        // Relative counts are one step.
        Some(column) if trained.steps == 1 && trained.converged => {
            format!("counted from the column {column}, {seconds}")
        }
        Some(column) => format!("counted from the column {column}, {iterations}, {seconds}"),
        None => format!("{iterations}, {seconds}"),
    };
    text += &output::facts(&[
        ("data", data_size(rows, found.data.count())),
        (
            "model",
            format!(
                "{}, {} emissions, {}",
                units::count(model.states(), "state"),
                model.emissions().name(),
                units::count(parameters, "parameter")
            ),
        ),
        (
            "log-likelihood",
            format!(
                "{:.6}; {:.6} nats per row",
                trained.log_likelihood,
                trained.log_likelihood / rows as f64
            ),
        ),
        ("criteria", format!("AIC {aic:.3}, BIC {bic:.3}")),
        ("fit", steps),
        ("written", arguments.output.display().to_string()),
    ]);
    output::print(&text)?;
    Ok(output::ended())
}

/// The numbers of rows and sequences.
fn data_size(rows: usize, sequences: usize) -> String {
    format!("{} in {}", units::count(rows, "row"), units::count(sequences, "sequence"))
}

/// A model, the table of the numbers of states that were compared, and the forecast of its training; there is none for
/// counts of known states.
struct Fitted {
    trained: Trained,
    table: Vec<Candidate>,
    forecast: Option<TrainingForecast>,
}

/// The forecast of training, which is printed to stderr.
fn forecast(
    found: &Observations,
    states: usize,
    how: &Learning,
    given: Option<&Hmm>,
    run: &Run,
) -> Result<Option<TrainingForecast>> {
    let forecast = forecast_training(&found.data, states, found.family, how, given, run)?;
    let (bytes, time) = (units::bytes(forecast.bytes), units::seconds(forecast.step_seconds));
    let about = if time.starts_with('<') { "" } else { "about " };
    eprintln!(
        "forecast for {}: up to {bytes} of memory, {about}{time} per step",
        units::count(states, "state")
    );
    Ok(Some(forecast))
}

/// Trains one model, or one for each number of states.
fn fitted(
    arguments: &FitArguments,
    found: &Observations,
    how: &Learning,
    given: Option<&Hmm>,
    run: &Run,
) -> Result<Fitted> {
    let own = &arguments.hmm;
    if let Some(labels) = &found.labels {
        let states = found.layout.states.len();
        if let Some(model) = given.filter(|model| model.states() != states) {
            let (named, wanted) = (own.labels.as_deref().unwrap_or_default(), model.states());
            let message = format!("the column {named} has {states} states, the model of --from {wanted}");
            return Err(Error::argument("--labels", message));
        }
        if own.states.iter().any(|&wanted| wanted != states) {
            let message = format!(
                "the column {} has {}",
                own.labels.as_deref().unwrap_or_default(),
                units::count(states, "state")
            );
            return Err(Error::argument("--states", message));
        }
        let trained = train_supervised(&found.data, labels, states, found.family, how, given, run)?;
        return Ok(Fitted { trained, table: Vec::new(), forecast: None });
    }
    let states = match (given, own.states.as_slice()) {
        (Some(model), []) => model.states(),
        (Some(model), &[wanted]) if wanted == model.states() => wanted,
        (Some(model), _) => {
            let message = format!("the model of --from has {}", units::count(model.states(), "state"));
            return Err(Error::argument("--states", message));
        }
        (None, []) => {
            return Err(Error::argument("--states", "expected the number of states, such as --states 3"));
        }
        (None, &[states]) => states,
        (None, several) => {
            if arguments.checkpoint.is_some() {
                return Err(Error::argument("--checkpoint", "is for one number of states"));
            }
            // Memory and time grow with the number of states.
            let most = several.iter().copied().max().unwrap_or(0);
            let forecast = forecast(found, most, how, None, run)?;
            let table =
                compare_states(&found.data, several, found.family, how, own.folds, run, &mut |_| Ok(true))?;
            let best = table.iter().min_by(|a, b| a.bic.total_cmp(&b.bic)).ok_or(Error::Interrupted)?;
            let trained = Trained {
                model: best.model.clone(),
                objective: best.objective,
                log_likelihood: best.log_likelihood,
                steps: best.steps,
                converged: best.converged,
            };
            return Ok(Fitted { trained, table, forecast });
        }
    };
    let path = arguments.checkpoint.as_deref();
    let from = path.filter(|path| path.exists()).map(read_hmm_checkpoint).transpose()?;
    let forecast = forecast(found, states, how, given, run)?;
    let (mut kept, mut newest) = (Instant::now(), None);
    let trained = train(&found.data, states, found.family, how, given, from, run, &mut |now| {
        if let Some(path) = path {
            if kept.elapsed().as_secs_f64() >= own.keep_every {
                write_hmm_checkpoint(now, path)?;
                kept = Instant::now();
            }
            newest = Some(now.clone());
        }
        Ok(true)
    })?;
    if let (Some(path), Some(now)) = (path, &newest) {
        write_hmm_checkpoint(now, path)?;
    }
    Ok(Fitted { trained, table: Vec::new(), forecast })
}

fn comparison(table: &[Candidate], rows: usize) -> String {
    let best = |value: fn(&Candidate) -> f64| {
        table.iter().min_by(|a, b| value(a).total_cmp(&value(b))).map(|one| one.states)
    };
    let (aic, bic) = (best(|one| one.aic), best(|one| one.bic));
    let crossed = best(|one| -one.cross_validated.unwrap_or(f64::NEG_INFINITY));
    let marked = |text: String, chosen: bool| if chosen { format!("{text} *") } else { text };
    let row = |one: &Candidate| {
        let own = Some(one.states);
        vec![
            one.states.to_string(),
            one.parameters.to_string(),
            format!("{:.6}", one.log_likelihood / rows as f64),
            marked(format!("{:.2}", one.aic), aic == own),
            marked(format!("{:.2}", one.bic), bic == own),
            one.cross_validated.map_or("-".into(), |value| marked(format!("{value:.6}"), crossed == own)),
        ]
    };
    let header = ["states", "parameters", "log-likelihood per row", "AIC", "BIC", "cross-validated"];
    output::table(&header, &table.iter().map(row).collect::<Vec<_>>(), usize::MAX)
}

/// The log-likelihood of sequences.
pub fn score(arguments: &ScoreArguments, data: &Path, model: &Hmm) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.run.budget));
    let options = ReadOptions {
        known: Some(model.layout().clone()),
        delimiter: crate::learn::delimiter(&arguments.format)?,
        ..ReadOptions::default()
    };
    let found = read_sequences(data, model.family(), &options)?;
    let _attention = signals::attention();
    let logs = model.log_likelihoods(&found.data, &run)?;
    let (total, rows) = (logs.iter().sum::<f64>(), found.data.rows());
    if arguments.run.budget.json {
        let mut members = json!({
            "kind": "hmm", "rows": rows, "sequences": logs.len(), "log_likelihood": json_number(total),
            "per_row": json_number(total / rows as f64), "guarantee": {"kind": "exact"}, "seed": run.seed(),
        });
        if arguments.rows {
            members["each"] = logs.iter().map(|&log| json_number(log)).collect();
        }
        output::print_object("score", members)?;
        return Ok(output::ended());
    }
    let text = output::facts(&[
        ("data", data_size(rows, logs.len())),
        ("log-likelihood", format!("{total:.6}; {:.6} nats per row", total / rows as f64)),
        ("guarantee", "exact".into()),
    ]);
    if arguments.rows {
        let lines: Vec<String> = logs.iter().enumerate().map(|(i, log)| format!("{i},{log}\n")).collect();
        output::print(&format!("sequence,log_likelihood\n{}", lines.concat()))?;
        eprint!("{text}");
    } else {
        output::print(&text)?;
    }
    Ok(output::ended())
}

/// Sequences drawn from the model.
pub fn sample(arguments: &SampleArguments, model: &Hmm) -> Result<Exit> {
    let run = progress::attend(budgeted(&arguments.plain.run.budget));
    let length = arguments.length.unwrap_or(LENGTH);
    let _attention = signals::attention();
    let (data, states) = model.sample(&vec![length; arguments.count], &run)?;
    let layout = model.layout();
    let shown = |value: f64| match model.emissions() {
        Emissions::Categorical(_) => {
            layout.symbols.get(value as usize).cloned().unwrap_or_else(|| value.to_string())
        }
        _ => value.to_string(),
    };
    let named = |state: usize| layout.states.get(state).cloned().unwrap_or_else(|| state.to_string());
    let columns = data.columns();
    let mut text = String::new();
    if !arguments.plain.run.budget.json {
        let names: Vec<_> = layout.columns.iter().map(|name| cell(name)).collect();
        text = format!("sequence,state,{}\n", names.join(","));
    }
    for i in 0..data.count() {
        let path = &states[data.range(i)];
        let rows = data.sequence(i).chunks_exact(columns);
        if arguments.plain.run.budget.json {
            let observations: Vec<Vec<Value>> = match model.emissions() {
                Emissions::Categorical(_) => rows.map(|row| vec![json!(shown(row[0]))]).collect(),
                _ => rows.map(|row| row.iter().map(|&x| json_number(x)).collect()).collect(),
            };
            text += &format!("{}\n", json!({"sequence": i, "states": path, "observations": observations}));
            continue;
        }
        for (row, &state) in rows.zip(path) {
            let values: Vec<String> = row.iter().map(|&value| cell(&shown(value)).into_owned()).collect();
            text += &format!("{i},{},{}\n", cell(&named(state)), values.join(","));
        }
    }
    output::print(&text)?;
    Ok(output::ended())
}
