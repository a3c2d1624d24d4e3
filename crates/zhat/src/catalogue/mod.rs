//! The methods for each kind of model and query: one table, and the one chooser.
//!
//! `--method`, `zhat info`, completions, Python's `method=`, the table of methods in the documentation and
//! `auto` are all read from it. A row names a method's type, the types of the models that it takes and the
//! queries that it implements; the traits are the only implementation. Other crates add rows with
//! [`register`].

mod choose;
mod differentiate;
mod row;
mod table;

pub use crate::options::Settings;
pub use crate::query::DEFAULT_HORIZON;
pub use choose::{Choice, Plan, answer, choose, method_names};
pub use differentiate::{differentiate, value_and_gradients};
pub use row::{AnyTape, Differentiated, Gradients, Row};

use std::sync::{LazyLock, PoisonError, RwLock};

use serde_json::Value;

use crate::error::{Error, Result};
use crate::model::{Kind, Model, Summary};
use crate::query::Query;
use crate::run::Run;

static LIBRARY: LazyLock<Vec<Row>> = LazyLock::new(table::table);
static REGISTERED: RwLock<Vec<&'static Row>> = RwLock::new(Vec::new());

/// All rows: those of the library, then those that were registered.
pub fn all() -> Vec<&'static Row> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    LIBRARY.iter().chain(registered.iter().copied()).collect()
}

/// Adds a row for as long as the program runs: a method of another crate, for its own kind of model or for
/// one of the library. `examples/own_model.rs` shows it.
///
/// # Errors
/// If the kind has a method of that name already.
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

/// The kinds of model that there are rows for, in the order of the table.
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

/// What a model says about itself, and what the preparation of methods says about it.
pub fn describe(model: &Model, run: &Run) -> Summary {
    let mut summary = model.summary();
    rows(model.kind()).filter_map(|row| row.description(model, run)).for_each(|own| summary.extend(own));
    summary
}

fn unsupported(method: &str, query: Query, kind: Kind) -> Error {
    let available = rows(kind).filter(|row| row.answers(query)).map(|row| row.method).collect();
    Error::Unsupported { method: method.into(), query: query.name(), kind: kind.name(), available }
}

/// The catalogue as a Markdown table: the README's.
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
