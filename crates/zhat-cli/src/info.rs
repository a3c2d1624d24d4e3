//! `zhat info`: a description of a model and the forecast of each method.

use serde_json::{Value, json};
use zhat::catalogue::{self, Choice, DEFAULT_HORIZON, Row, Settings};
use zhat::internal::units;
use zhat::{Error, Forecast, Model, Query, Result, Run};

use crate::arguments::InfoArguments;
use crate::load;
use crate::output::{self, Exit};

pub fn run(arguments: &InfoArguments) -> Result<Exit> {
    let model = load::described(&arguments.model)?;
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
                    "method": row.method, "query": query.name(), "guarantee": forecast.promise.name(),
                    "bytes": forecast.bytes, "seconds": forecast.seconds, "fits": forecast.fits(&run, DEFAULT_HORIZON),
                })
            })
            .collect();
        let mut object = json!({"kind": model.kind().name()});
        if let Some(object) = object.as_object_mut() {
            object.extend(summary.figures);
            object.insert("methods".into(), methods.into());
        }
        output::print_object("info", object)?;
        return Ok(Exit::Answered);
    }
    let mut text = output::facts(&summary.lines);
    if let Some(data) = model.needs_input() {
        text.push_str(&format!("\nQueries need {data}; with --input, their methods are listed here\n"));
    } else if arguments.all {
        let row = |(row, query, forecast): &(&Row, Query, Forecast)| {
            let mut cells = vec![row.method.into(), query.name().into()];
            cells.extend(cost(forecast));
            cells.push(verdict(forecast, &run).into());
            cells
        };
        let header = ["method", "query", "guarantee", "memory", "time", "fits"];
        let rows: Vec<Vec<String>> = forecasts.iter().map(row).collect();
        text.push_str(&format!("\n{}", output::table(&header, &rows, usize::MAX)));
    } else {
        let header = ["query", "recommended", "guarantee", "memory", "time"];
        text.push_str(&format!("\n{}", output::table(&header, &recommended(&model, &run)?, usize::MAX)));
        text.push_str("\nAll methods: zhat info --all; options of a method: zhat methods NAME\n");
    }
    output::print(&text)?;
    Ok(Exit::Answered)
}

/// One row per query: the method that `auto` chooses.
fn recommended(model: &Model, run: &Run) -> Result<Vec<Vec<String>>> {
    let mut rows = Vec::new();
    for query in Query::ALL {
        if !catalogue::rows(model.kind()).any(|row| row.answers(query)) {
            continue;
        }
        let mut cells = vec![query.name().to_owned()];
        match catalogue::choose(model, query, &Choice::Auto, &Settings::new(), run) {
            Ok(plan) => {
                cells.push(plan.row.method.into());
                cells.extend(cost(&plan.forecast));
            }
            Err(Error::OverBudget { .. }) => {
                cells.extend(["none fits the budget", "-", "-", "-"].map(String::from));
            }
            Err(other) => return Err(other),
        }
        rows.push(cells);
    }
    Ok(rows)
}

/// Guarantee, memory and time.
fn cost(forecast: &Forecast) -> [String; 3] {
    let Forecast { bytes, seconds, promise } = *forecast;
    [promise.name().into(), units::bytes(bytes), units::seconds(seconds)]
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
    } else if !run.fits(forecast.bytes) {
        "no: over the memory budget"
    } else if forecast.seconds > DEFAULT_HORIZON {
        "no: too long"
    } else {
        "yes"
    }
}
