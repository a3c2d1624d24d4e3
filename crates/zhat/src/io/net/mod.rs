//! The NET language of Hugin: Bayesian networks of named discrete variables.
//!
//! ```text
//! net { node_size = (80 40); }                       % attributes of the net are not kept
//! node rain { states = ("yes" "no"); }
//! node mood { label = "Mood"; states = ("good" "fair" "very bad"); }
//! potential (rain) { data = (0.2 0.8); }
//! potential (mood | rain) {
//!   data = ((0.1 0.3 0.6)                            % P(mood | yes)
//!           (0.7 0.2 0.1));                          % P(mood | no)
//! }
//! ```
//!
//! The lists of a table follow the order of the parents; the child varies fastest. The name of a variable is the
//! word after `node`, not its label. Attributes other than `states` and `data`, such as `model_data` and
//! `experience_data`, are ignored. Continuous nodes, decisions, utilities and potentials of several variables
//! cannot be read. As in [`bif`](super::bif), probabilities are not renormalised, and the sum of a row may differ
//! from 1 by 0.01.

mod read;
#[cfg(test)]
mod tests;

use std::io::Write;

pub use self::read::parse_model;
use super::network;
use super::uai::format_exp;
use super::words::Style;
use crate::error::{Error, Result};
use crate::model::FactorGraph;

/// The tokens of the format.
const STYLE: Style = Style { marks: b"{}()|=;", comments: &[("%", "\n")], escapes: true };

/// True if a file that starts with these bytes is a NET file: its first word that is not in a comment is `net`.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    let mut rest = start.strip_prefix(b"\xef\xbb\xbf").unwrap_or(start).trim_ascii_start();
    let has_comment = rest.starts_with(b"%") && !rest.starts_with(b"%start");
    while rest.starts_with(b"%") && !rest.starts_with(b"%start") {
        let line = rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len());
        rest = rest[line..].trim_ascii_start();
    }
    match rest.strip_prefix(b"net") {
        Some(rest) => {
            rest.first().is_none_or(|byte| byte.is_ascii_whitespace() || matches!(byte, b'{' | b'%'))
        }
        // A comment longer than the bytes that are looked at; no other format has such comments.
        None => rest.is_empty() && has_comment,
    }
}

/// Checks that a model can be written in the format.
///
/// # Errors
/// If the model has evidence or is not a Bayesian network, as in [`bif::check`](super::bif::check), the name of a
/// variable is not a word, or the name of a state contains a quotation mark or a backslash.
pub fn check(graph: &FactorGraph) -> Result<()> {
    network::check(graph, ".net")?;
    let Some(names) = graph.names() else { return Ok(()) };
    if let Some(name) = names.variables().iter().find(|name| STYLE.needs_quotes(name)) {
        return Err(Error::model(format!(
            "the name `{name}` cannot be that of a variable in a .net file, which is one word without any of {{}}()|=;%\""
        )));
    }
    let states = (0..graph.variable_count()).flat_map(|v| names.states(v));
    match states.into_iter().find(|state| state.contains(['"', '\\'])) {
        Some(state) => Err(Error::model(format!(
            "the name `{state}` has a quote or a backslash in it, which a .net file cannot hold"
        ))),
        None => Ok(()),
    }
}

/// Writes a model that has passed [`check`]; values change only by the rounding of `exp` and `ln`.
///
/// # Errors
/// If `out` fails.
pub fn write_model(graph: &FactorGraph, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "net\n{{\n}}")?;
    for (v, &states) in graph.cardinalities().iter().enumerate() {
        let names: Vec<String> =
            (0..states).map(|s| format!("\"{}\"", network::state_name(graph, v, s))).collect();
        writeln!(out, "node {}\n{{\n  states = ({});\n}}", graph.variable_name(v), names.join(" "))?;
    }
    for factor in graph.factors() {
        let Some((&child, parents)) = factor.scope.split_last() else { continue };
        let names: Vec<String> = parents.iter().map(|&v| graph.variable_name(v)).collect();
        let bar = if parents.is_empty() { "" } else { " | " };
        writeln!(out, "potential ({}{bar}{})\n{{", graph.variable_name(child), names.join(" "))?;
        write!(out, "  data = ")?;
        let lengths = graph.lengths(parents);
        for (row, values) in factor.log_values.chunks(graph.cardinalities()[child]).enumerate() {
            if row > 0 {
                write!(out, "\n          ")?;
            }
            // The lists of the last parents that start, and after the row those that end, with this row.
            let (opened, closed) = (ends(row, &lengths), ends(row + 1, &lengths));
            let values: Vec<String> = values.iter().map(|&log| format_exp(log)).collect();
            write!(out, "{}({}){}", "(".repeat(opened), values.join(" "), ")".repeat(closed))?;
        }
        writeln!(out, ";\n}}")?;
    }
    Ok(())
}

/// The number of lists, one for each of these lengths, that begin at this row: those of which all faster indices
/// are 0.
fn ends(row: usize, lengths: &[usize]) -> usize {
    let mut rest = row;
    lengths
        .iter()
        .rev()
        .take_while(|length| {
            let begins = rest.is_multiple_of(**length);
            rest /= **length;
            begins
        })
        .count()
}
