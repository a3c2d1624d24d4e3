//! The Bayesian Interchange Format (BIF): Bayesian networks of named discrete variables.
//!
//! ```text
//! network holidays { }                 // the name is not kept
//! variable rain { type discrete [ 2 ] { yes, no }; property whatever; }
//! variable mood { type discrete [ 3 ] { good, fair, "very bad" }; }
//! probability ( rain ) { table 0.2, 0.8; }
//! probability ( mood | rain ) {
//!   (yes) 0.1, 0.3, 0.6;               // a row: the parents' states, then the child's probabilities
//!   default 0.7, 0.2, 0.1;             // all rows that are not given
//! }
//! ```
//!
//! Blocks and rows may appear in any order. Commas are optional, properties are ignored, and a name with
//! spaces or punctuation is quoted. Every factor read is the table of one variable, with the parents in the
//! listed order and the child last.
//!
//! Probabilities are not renormalised. The sum of a row may differ from 1 by 0.01, as in files with few
//! digits; log Z then differs from 0 accordingly.

mod read;
mod skip;
#[cfg(test)]
mod tests;

use std::io::Write;

pub use self::read::parse_model;
use super::network;
use super::uai::format_exp;
use super::words::Style;
use crate::error::{Error, Result};
use crate::model::{FactorGraph, table};

/// The tokens of the format.
const STYLE: Style = Style { marks: b"{}()[],;|", comments: &[("//", "\n"), ("/*", "*/")], escapes: false };

/// True if a file with this first word is a BIF file.
pub(crate) fn looks_like(first_word: &[u8]) -> bool {
    // No other format has these comments.
    [b"network".as_slice(), b"//", b"/*"].iter().any(|start| first_word.starts_with(start))
}

/// Checks that a model can be written in the format.
///
/// # Errors
/// If the model has evidence or is not a Bayesian network (one table per variable, rows that sum to 1, no
/// directed cycle), or a name contains a quotation mark.
pub fn check(graph: &FactorGraph) -> Result<()> {
    network::check(graph, ".bif")?;
    match network::names(graph).find(|name| name.contains('"')) {
        Some(name) => {
            Err(Error::model(format!("the name `{name}` has a quote in it, which a .bif file cannot hold")))
        }
        None => Ok(()),
    }
}

/// Writes a model that has passed [`check`]; values change only by the rounding of `exp` and `ln`.
///
/// # Errors
/// If `out` fails.
pub fn write_model(graph: &FactorGraph, out: &mut dyn Write) -> std::io::Result<()> {
    let quoted = |name: String| if STYLE.needs_quotes(&name) { format!("\"{name}\"") } else { name };
    let variable = |v: usize| quoted(graph.variable_name(v));
    let state = |v: usize, s: usize| quoted(network::state_name(graph, v, s));
    writeln!(out, "network unknown {{\n}}")?;
    for (v, &states) in graph.cardinalities().iter().enumerate() {
        let names: Vec<String> = (0..states).map(|s| state(v, s)).collect();
        let names = names.join(", ");
        writeln!(out, "variable {} {{\n  type discrete [ {states} ] {{ {names} }};\n}}", variable(v))?;
    }
    for factor in graph.factors() {
        let Some((&child, parents)) = factor.scope.split_last() else { continue };
        let parent_names: Vec<String> = parents.iter().map(|&v| variable(v)).collect();
        let bar = if parents.is_empty() { "" } else { " | " };
        writeln!(out, "probability ( {}{bar}{} ) {{", variable(child), parent_names.join(", "))?;
        let lengths = graph.lengths(parents);
        let mut digits = vec![0; parents.len()];
        for row in factor.log_values.chunks(graph.cardinalities()[child]) {
            let values: Vec<String> = row.iter().map(|&log| format_exp(log)).collect();
            let states: Vec<String> = parents.iter().zip(&digits).map(|(&v, &s)| state(v, s)).collect();
            let start = if parents.is_empty() { "table".into() } else { format!("({})", states.join(", ")) };
            writeln!(out, "  {start} {};", values.join(", "))?;
            table::advance(&mut digits, &lengths);
        }
        writeln!(out, "}}")?;
    }
    Ok(())
}
