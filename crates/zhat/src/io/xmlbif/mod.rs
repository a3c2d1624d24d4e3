//! XMLBIF 0.3, the interchange format of Bayesian networks in XML.
//!
//! ```text
//! <?xml version="1.0"?>
//! <BIF VERSION="0.3">
//! <NETWORK>
//!   <NAME>holidays</NAME>                                          <!-- not kept -->
//!   <VARIABLE TYPE="nature">
//!     <NAME>rain</NAME> <OUTCOME>yes</OUTCOME> <OUTCOME>no</OUTCOME>
//!     <PROPERTY>position = (1, 2)</PROPERTY>                       <!-- not kept -->
//!   </VARIABLE>
//!   …
//!   <DEFINITION>
//!     <FOR>mood</FOR> <GIVEN>rain</GIVEN>
//!     <TABLE> 0.1 0.3 0.6    0.7 0.2 0.1 </TABLE>                  <!-- P(mood | yes), P(mood | no) -->
//!   </DEFINITION>
//! </NETWORK>
//! </BIF>
//! ```
//!
//! In a table the variable of `FOR` varies fastest, then the last one of `GIVEN`. Every factor read is the table
//! of one variable, with the parents in the listed order and the child last. Variables and definitions may appear
//! in any order. As in [`bif`](super::bif), probabilities are not renormalised, and the sum of a row may differ
//! from 1 by 0.01.

mod read;
#[cfg(test)]
mod tests;

use std::io::Write;

pub use self::read::parse_model;
use super::network;
use super::uai::format_exp;
use super::xml::escaped;
use crate::error::{Error, Result};
use crate::model::FactorGraph;

/// True if a file with this first word is an XMLBIF file. Symbols of a grammar may be written as `<S>`.
pub(crate) fn looks_like(first_word: &[u8]) -> bool {
    let word = first_word.strip_prefix(b"\xef\xbb\xbf").unwrap_or(first_word);
    [b"<?".as_slice(), b"<!", b"<BIF"].iter().any(|start| word.starts_with(start))
}

/// Checks that a model can be written in the format.
///
/// # Errors
/// If the model has evidence or is not a Bayesian network, as in [`bif::check`](super::bif::check), or a name
/// contains a character that XML cannot hold.
pub fn check(graph: &FactorGraph) -> Result<()> {
    network::check(graph, ".xmlbif")?;
    let forbidden = |c: char| {
        (c.is_control() && !matches!(c, '\t' | '\n' | '\r' | '\u{7f}'..='\u{9f}'))
            || matches!(c, '\u{fffe}' | '\u{ffff}')
    };
    match network::names(graph).find_map(|name| Some((name, name.chars().find(|&c| forbidden(c))?))) {
        Some((name, c)) => Err(Error::model(format!(
            "the name `{}` has the character U+{:04X}, which an .xmlbif file cannot hold",
            name.escape_debug(),
            u32::from(c)
        ))),
        None => Ok(()),
    }
}

/// Writes a model that has passed [`check`]; values change only by the rounding of `exp` and `ln`.
///
/// # Errors
/// If `out` fails.
pub fn write_model(graph: &FactorGraph, out: &mut dyn Write) -> std::io::Result<()> {
    let variable = |v: usize| escaped(&graph.variable_name(v));
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(out, "<BIF VERSION=\"0.3\">\n<NETWORK>\n<NAME>unknown</NAME>")?;
    for (v, &states) in graph.cardinalities().iter().enumerate() {
        writeln!(out, "<VARIABLE TYPE=\"nature\">\n  <NAME>{}</NAME>", variable(v))?;
        for s in 0..states {
            writeln!(out, "  <OUTCOME>{}</OUTCOME>", escaped(&network::state_name(graph, v, s)))?;
        }
        writeln!(out, "</VARIABLE>")?;
    }
    for factor in graph.factors() {
        let Some((&child, parents)) = factor.scope.split_last() else { continue };
        writeln!(out, "<DEFINITION>\n  <FOR>{}</FOR>", variable(child))?;
        for &parent in parents {
            writeln!(out, "  <GIVEN>{}</GIVEN>", variable(parent))?;
        }
        writeln!(out, "  <TABLE>")?;
        for row in factor.log_values.chunks(graph.cardinalities()[child]) {
            let values: Vec<String> = row.iter().map(|&log| format_exp(log)).collect();
            writeln!(out, "    {}", values.join(" "))?;
        }
        writeln!(out, "  </TABLE>\n</DEFINITION>")?;
    }
    writeln!(out, "</NETWORK>\n</BIF>")
}
