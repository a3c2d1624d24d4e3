//! `zhat methods`: the methods and their options.

use serde_json::{Value, json};
use zhat::catalogue::{self, Row};
use zhat::internal::suggest;
use zhat::{Error, Query, Result};

use crate::arguments::MethodsArguments;
use crate::output::{self, Exit};

pub fn run(arguments: &MethodsArguments) -> Result<Exit> {
    let wanted = |row: &&Row| arguments.name.as_ref().is_none_or(|name| row.method == name);
    let rows: Vec<&Row> = catalogue::all().into_iter().filter(wanted).collect();
    if let (true, Some(name)) = (rows.is_empty(), &arguments.name) {
        let names: Vec<&str> = catalogue::all().iter().map(|row| row.method).collect();
        let hint = suggest::hint(name, &names);
        return Err(Error::argument("NAME", format!("there is no method `{name}`{hint}")));
    }
    if arguments.json {
        let methods: Vec<Value> = rows.iter().map(|row| object(row)).collect();
        output::print_object("methods", json!({"methods": methods}))?;
        return Ok(Exit::Answered);
    }
    let text = match &arguments.name {
        None => overview(&rows),
        Some(_) => rows.iter().map(|row| page(row)).collect::<Vec<_>>().join("\n"),
    };
    output::print(&text)?;
    Ok(Exit::Answered)
}

fn queries(row: &Row) -> String {
    row.queries().map(Query::name).collect::<Vec<_>>().join(", ")
}

/// One line per method and kind of model.
fn overview(rows: &[&Row]) -> String {
    let line = |row: &&Row| vec![row.method.into(), row.kind.name().into(), row.about.into()];
    let lines: Vec<Vec<String>> = rows.iter().map(line).collect();
    format!(
        "{}\nOptions of a method: zhat methods NAME\n",
        output::table(&["method", "model", "description"], &lines, usize::MAX)
    )
}

/// A method for one kind of model: its description, queries and options.
fn page(row: &Row) -> String {
    let facts = [
        ("method", row.method.to_owned()),
        ("description", row.about.to_owned()),
        ("model", row.kind.name().to_owned()),
        ("queries", queries(row)),
    ];
    let options = (row.options)();
    let line = |(name, default): (&String, &Value)| {
        vec![
            name.clone(),
            default.as_str().map_or_else(|| shown(default), str::to_owned),
            values(row, name, default),
        ]
    };
    let lines: Vec<Vec<String>> = options.as_object().into_iter().flatten().map(line).collect();
    let table = match lines.is_empty() {
        true => "no options\n".into(),
        false => output::table(&["option", "default", "values"], &lines, usize::MAX),
    };
    format!("{}\n{table}", output::facts(&facts))
}

fn shown(default: &Value) -> String {
    if default.is_null() { "automatic".into() } else { default.to_string() }
}

/// The values that an option takes.
fn values(row: &Row, name: &str, default: &Value) -> String {
    let range = row.ranges.iter().find(|(own, _)| *own == name);
    match (range, default) {
        (Some((_, range)), _) => range.to_string(),
        (None, Value::Bool(_)) => "true or false".into(),
        _ => row.variants(name).join(", "),
    }
}

fn object(row: &Row) -> Value {
    let options = (row.options)();
    let option = |(name, default): (&String, &Value)| json!({"name": name, "default": default, "values": values(row, name, default)});
    json!({
        "method": row.method, "model": row.kind.name(), "description": row.about,
        "queries": row.queries().map(Query::name).collect::<Vec<_>>(),
        "options": options.as_object().into_iter().flatten().map(option).collect::<Vec<_>>(),
    })
}
