//! The methods for each kind of model and query: one table, and the choice from it.
//!
//! `--method`, `zhat info`, completions, Python's `method=`, the table of methods in the documentation and
//! `auto` all use this table. A row names the type of a method, the types of the models that it accepts and
//! the queries that it implements; the query traits are the only implementation. Other crates add rows with
//! [`register`].

mod choose;
mod differentiate;
mod divide;
mod row;
mod table;

pub use crate::options::Settings;
pub use crate::query::DEFAULT_HORIZON;
pub use choose::{Choice, Plan, answer, choose, method_names};
pub use differentiate::{differentiate, value_and_gradients};
pub use divide::{Divisible, Division, Part, model_hash};
pub use row::{AnyTape, Differentiated, Gradients, Row};

use std::sync::{LazyLock, PoisonError, RwLock};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::{Kind, Model, Summary};
use crate::query::Query;
use crate::run::Run;

static LIBRARY: LazyLock<Vec<Row>> = LazyLock::new(table::table);
static REGISTERED: RwLock<Vec<&'static Row>> = RwLock::new(Vec::new());

/// All rows: those of the library, then the registered ones.
pub fn all() -> Vec<&'static Row> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    LIBRARY.iter().chain(registered.iter().copied()).collect()
}

/// Adds a row until the program ends: a method of another crate, for its own kind of model or for one of the
/// library. See `examples/own_model.rs`.
///
/// # Errors
/// If the kind already has a method of that name.
pub fn register(row: Row) -> Result<()> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let same = |known: &Row| known.method == row.method && known.kind == row.kind;
    if LIBRARY.iter().any(same) || registered.iter().any(|known| same(known)) {
        let message = format!("a {} has a method `{}` already", row.kind, row.method);
        return Err(Error::argument("method", message));
    }
    registered.push(Box::leak(Box::new(row)));
    Ok(())
}

/// The kinds of model that have rows, in the order of the table.
pub fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    all().iter().for_each(|row| {
        if !kinds.contains(&row.kind) {
            kinds.push(row.kind);
        }
    });
    kinds
}

/// The rows for a kind of model.
pub fn rows(kind: Kind) -> impl Iterator<Item = &'static Row> {
    all().into_iter().filter(move |row| row.kind == kind)
}

/// The summary of a model, extended by figures from the preparation of its methods.
pub fn describe(model: &Model, run: &Run) -> Summary {
    let mut summary = model.summary();
    rows(model.kind()).filter_map(|row| row.description(model, run)).for_each(|own| summary.extend(own));
    summary
}

fn unsupported(method: &str, query: Query, kind: Kind) -> Error {
    let available = rows(kind).filter(|row| row.answers(query)).map(|row| row.method).collect();
    Error::Unsupported { method: method.into(), query: query.name(), kind: kind.name(), available }
}

/// The catalogue as a Markdown table, for the README.
pub fn markdown_table() -> String {
    let mut text = String::from(
        "| method | model | answers | options (default) | what it does |\n|---|---|---|---|---|\n",
    );
    for row in all() {
        let queries: Vec<&str> = row.queries().map(Query::name).collect();
        let options: Vec<String> = (row.options)()
            .as_object()
            .map(|options| {
                options.iter().map(|(name, value)| format!("`{name}` ({})", plain(value))).collect()
            })
            .unwrap_or_default();
        text += &format!(
            "| `{}` | {} | {} | {} | {} |\n",
            row.method,
            row.kind.name(),
            queries.join(", "),
            if options.is_empty() { "none".into() } else { options.join(", ") },
            row.about
        );
    }
    text
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests;
