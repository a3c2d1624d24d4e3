//! `zhat info`: what a model is, and which method would do what.

use serde_json::{Value, json};
use zhat::catalogue::{self, DEFAULT_HORIZON, Row, Settings};
use zhat::model::Form;
use zhat::{Error, Forecast, Model, Query, Result, Run, units};

use crate::arguments::InfoArguments;
use crate::output::{self, Exit};
use crate::query;

pub fn run(arguments: &InfoArguments) -> Result<Exit> {
    let model = query::load(&arguments.model)?;
    let run = match arguments.memory {
        Some(memory) => Run::default().with_memory(memory),
        None => Run::default(),
    };
    let forecasts = forecasts(&model, &run)?;
    let Model::FactorGraph(graph) = &model else {
        return Err(Error::argument("MODEL", "this kind of model is not known to the program"));
    };
    let values: usize = graph.factors().map(|factor| factor.log_values.len()).sum();
    let zeros =
        graph.factors().flat_map(|factor| factor.log_values).filter(|x| **x == f64::NEG_INFINITY).count();
    let largest = graph.cardinalities().iter().max().copied().unwrap_or(0);
    let arity = graph.factors().map(|factor| factor.scope.len()).max().unwrap_or(0);
    let log2_states = graph.log_state_count() / std::f64::consts::LN_2;
    let difficulty = graph.difficulty(&run);
    let barren = difficulty.map_or(0, |found| found.barren);
    let form = if graph.form() == Form::Bayes { "bayes" } else { "markov" };
    if arguments.json {
        let methods: Vec<Value> = forecasts
            .iter()
            .map(|(row, query, forecast)| {
                json!({
                    "method": row.method, "query": query.name(), "promise": forecast.promise.name(),
                    "bytes": forecast.bytes, "seconds": forecast.seconds, "fits": forecast.fits(&run, DEFAULT_HORIZON),
                })
            })
            .collect();
        let object = json!({
            "schema": 1, "version": env!("CARGO_PKG_VERSION"), "query": "info", "kind": model.kind().name(),
            "form": form, "variables": graph.variable_count(), "factors": graph.factor_count(),
            "largest_domain": largest, "largest_arity": arity, "values": values, "zeros": zeros,
            "evidence": graph.evidence().len(), "barren": barren, "log2_states": log2_states,
            "free": difficulty.map(|found| found.free), "width": difficulty.and_then(|found| found.width),
            "log2_table": difficulty.map(|found| found.log2_table), "methods": methods,
        });
        output::print(&format!("{object}\n"))?;
        return Ok(Exit::Answered);
    }
    let width = difficulty.map_or("unknown".into(), |found| {
        let width = found.width.map_or("large".into(), |width| width.to_string());
        let tables = format!("largest table 2^{:.1} entries", found.log2_table);
        format!("{width}, {tables}, {} variables after evidence and zeros", found.free)
    });
    let mut facts = vec![
        ("kind", format!("{} ({form})", model.kind().name())),
        (
            "variables",
            format!("{}, up to {largest} states, 2^{log2_states:.1} states in all", graph.variable_count()),
        ),
        (
            "factors",
            format!(
                "{} of up to {arity} variables, {values} values, {zeros} of them zero",
                graph.factor_count()
            ),
        ),
        ("width", width),
    ];
    if !graph.evidence().is_empty() {
        facts.push(("evidence", format!("{} variables observed", graph.evidence().len())));
    }
    if barren > 0 {
        facts.push(("barren", format!("{barren} variables, left out for log Z")));
    }
    let rows = forecasts
        .iter()
        .map(|(row, query, forecast)| {
            vec![
                row.method.into(),
                query.name().into(),
                forecast.promise.name().into(),
                units::bytes(forecast.bytes),
                units::seconds(forecast.seconds),
                verdict(forecast, &run).into(),
            ]
        })
        .collect();
    let table = output::table(&["method", "query", "promise", "memory", "time", "can it"], rows, usize::MAX);
    output::print(&format!("{}\n{table}", output::facts(&facts)))?;
    Ok(Exit::Answered)
}

fn forecasts(model: &Model, run: &Run) -> Result<Vec<(&'static Row, Query, Forecast)>> {
    let mut forecasts = Vec::new();
    for row in catalogue::rows(model.kind()) {
        for &query in row.queries {
            forecasts.push((row, query, row.forecast(model, query, &Settings::new(), run)?));
        }
    }
    Ok(forecasts)
}

fn verdict(forecast: &Forecast, run: &Run) -> &'static str {
    if forecast.bytes > run.memory() as f64 {
        "no: over the memory budget"
    } else if forecast.seconds > DEFAULT_HORIZON {
        "no: too long"
    } else {
        "yes"
    }
}
