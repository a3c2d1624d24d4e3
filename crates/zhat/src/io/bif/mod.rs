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
#[cfg(test)]
mod tests;
mod words;

use std::io::Write;

pub use self::read::parse_model;
use self::words::needs_quotes;
use super::uai::format_exp;
use crate::error::{Error, Result};
use crate::model::{FactorGraph, NetworkType, table};

/// Tolerance for the sum of a row: three states written as 0.33 must pass, whatever the rounding.
const SUM_TOLERANCE: f64 = 0.01 + 1e-9;

/// True if a file with this first word is a BIF file.
pub(crate) fn looks_like(first_word: &[u8]) -> bool {
    // No other format has comments.
    [b"network".as_slice(), b"//", b"/*"].iter().any(|start| first_word.starts_with(start))
}

/// Describes the error of a row whose sum is far from 1.
fn check_sum(row: &[f64]) -> std::result::Result<(), String> {
    let sum: f64 = row.iter().map(|log| log.exp()).sum();
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        return Ok(());
    }
    Err(format!("sums to {}; expected 1 up to 0.01", (sum * 1e6).round() / 1e6))
}

/// A variable on a directed cycle, if there is one; every variable is the last of exactly one scope.
fn on_a_cycle(graph: &FactorGraph) -> Option<usize> {
    let n = graph.variable_count();
    let (mut waiting, mut factor_of, mut children) = (vec![0; n], vec![0; n], vec![Vec::new(); n]);
    for (f, factor) in graph.factors().enumerate() {
        let (&child, parents) = factor.scope.split_last()?;
        factor_of[child] = f;
        waiting[child] = parents.len();
        parents.iter().for_each(|&parent| children[parent].push(child));
    }
    let mut ready: Vec<usize> = (0..n).filter(|&v| waiting[v] == 0).collect();
    while let Some(v) = ready.pop() {
        for &child in &children[v] {
            waiting[child] -= 1;
            if waiting[child] == 0 {
                ready.push(child);
            }
        }
    }
    let mut v = (0..n).find(|&v| waiting[v] > 0)?;
    for _ in 0..n {
        // Every waiting variable has a waiting parent, so after n steps to parents the walk is on a cycle.
        v = *graph.factor(factor_of[v]).scope.iter().find(|&&parent| parent != v && waiting[parent] > 0)?;
    }
    Some(v)
}

/// The reason why a model is not a Bayesian network, if it is none.
pub(crate) fn why_not_a_network(graph: &FactorGraph) -> Option<String> {
    if !graph.evidence().is_empty() {
        return Some("this model has been given evidence".into());
    }
    if graph.network_type() != NetworkType::Bayes {
        return Some("this model has the form MARKOV".into());
    }
    let mut has_table = vec![false; graph.variable_count()];
    for (f, factor) in graph.factors().enumerate() {
        let Some(&child) = factor.scope.last() else {
            return Some(format!("factor {f} is a constant"));
        };
        let name = graph.variable_name(child);
        if std::mem::replace(&mut has_table[child], true) {
            return Some(format!("variable `{name}` is last in the scopes of two factors"));
        }
        let rows = factor.log_values.chunks(graph.cardinalities()[child]);
        if let Some(message) = rows.into_iter().find_map(|row| check_sum(row).err()) {
            return Some(format!("a row of the table of `{name}` {message}"));
        }
    }
    if let Some(v) = has_table.iter().position(|has| !has) {
        return Some(format!("variable `{}` is last in no factor's scope", graph.variable_name(v)));
    }
    on_a_cycle(graph).map(|v| format!("variable `{}` is its own ancestor", graph.variable_name(v)))
}

/// Checks that a model can be written in the format.
///
/// # Errors
/// If the model has evidence or is not a Bayesian network (one table per variable, rows that sum to 1, no
/// directed cycle), or a name contains a quotation mark.
pub fn check(graph: &FactorGraph) -> Result<()> {
    if let Some(reason) = why_not_a_network(graph) {
        return Err(Error::model(format!("only a Bayesian network can be a .bif file, but {reason}")));
    }
    let variables = graph.names().into_iter().flat_map(|names| names.variables().iter());
    let states = |v| graph.names().into_iter().flat_map(move |names| names.states(v).iter());
    match variables.chain((0..graph.variable_count()).flat_map(states)).find(|name| name.contains('"')) {
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
    let quoted = |name: String| if needs_quotes(&name) { format!("\"{name}\"") } else { name };
    let variable = |v: usize| quoted(graph.variable_name(v));
    let state = |v: usize, s: usize| match graph.names() {
        Some(names) if !names.states(v).is_empty() => quoted(graph.state_name(v, s)),
        _ => format!("s{s}"),
    };
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
