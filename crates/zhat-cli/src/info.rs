//! `zhat info`: a description of a model and the forecast of each method.

use serde_json::{Map, Value, json};
use zhat::catalogue::{self, DEFAULT_HORIZON, Row, Settings};
use zhat::internal::units;
use zhat::{Forecast, Model, Query, Result, Run};

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
    let summary = catalogue::describe(&model, &run);
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
        let head = json!({
            "schema": 1, "version": env!("CARGO_PKG_VERSION"), "query": "info", "kind": model.kind().name(),
        });
        let mut object = Map::new();
        object.extend(head.as_object().cloned().unwrap_or_default());
        object.extend(summary.figures);
        object.insert("methods".into(), methods.into());
        output::print(&format!("{}\n", Value::Object(object)))?;
        return Ok(Exit::Answered);
    }
    let rows: Vec<Vec<String>> = forecasts
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
    let table = output::table(&["method", "query", "promise", "memory", "time", "can it"], &rows, usize::MAX);
    output::print(&format!("{}\n{table}", output::facts(&summary.lines)))?;
    Ok(Exit::Answered)
}

fn forecasts(model: &Model, run: &Run) -> Result<Vec<(&'static Row, Query, Forecast)>> {
    let mut forecasts = Vec::new();
    for row in catalogue::rows(model.kind()) {
        for query in row.queries() {
            forecasts.push((row, query, row.forecast(model, query, &Settings::new(), run)?));
        }
    }
    Ok(forecasts)
}

fn verdict(forecast: &Forecast, run: &Run) -> &'static str {
    if forecast.bytes.is_infinite() {
        "no: out of reach"
    } else if forecast.bytes > run.memory() as f64 {
        "no: over the memory budget"
    } else if forecast.seconds > DEFAULT_HORIZON {
        "no: too long"
    } else {
        "yes"
    }
}
