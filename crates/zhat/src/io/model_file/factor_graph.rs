//! Factor graphs in `.zhat` files.

use std::collections::HashMap;

use serde_json::json;

use super::tensors::{Tensors, Writer};
use crate::error::{Error, Result};
use crate::model::{FactorGraph, Form, Kind, Names, table};

pub(super) fn read(tensors: &Tensors<'_>, metadata: &HashMap<String, String>) -> Result<FactorGraph> {
    let fail = |message: String| tensors.fail(message);
    let invalid = |error: Error| fail(error.to_string());
    let (scope_lengths, scopes) = (tensors.integers("scope_lengths")?, tensors.integers("scopes")?);
    let values: Vec<f64> = tensors.numbers("log_values")?;
    let mut graph = FactorGraph::new(tensors.integers("cardinalities")?).map_err(invalid)?;
    let (mut scope_at, mut value_at) = (0usize, 0usize);
    for (f, &length) in scope_lengths.iter().enumerate() {
        let scope = scopes
            .get(scope_at..scope_at.saturating_add(length))
            .ok_or_else(|| fail(format!("the scope of factor {f} is cut off")))?;
        let size = if scope.iter().all(|&v| v < graph.variable_count()) {
            table::size(graph.lengths(scope))
        } else {
            Some(0) // refused below, with the variable's number
        };
        let end = size.and_then(|size| value_at.checked_add(size)).unwrap_or(usize::MAX);
        let table =
            values.get(value_at..end).ok_or_else(|| fail(format!("the table of factor {f} is cut off")))?;
        graph.add_factor(scope, table).map_err(invalid)?;
        (scope_at, value_at) = (scope_at + length, end);
    }
    if scope_at != scopes.len() || value_at != values.len() {
        return Err(fail("there are more scopes or values than the factors need".into()));
    }
    graph = graph.with_form(match metadata.get("form").map(String::as_str) {
        None | Some("markov") => Form::Markov,
        Some("bayes") => Form::Bayes,
        Some(other) => return Err(fail(format!("unknown form `{other}`; known are markov and bayes"))),
    });
    if let Some(names) = metadata.get("names") {
        let names: Names = serde_json::from_str(names)
            .map_err(|error| fail(format!("the names cannot be read: {error}")))?;
        let (variables, states) = names.into_parts();
        graph = graph.with_names(variables, states).map_err(invalid)?;
    }
    if tensors.has("evidence") {
        let pairs: Vec<(usize, usize)> =
            tensors.integers("evidence")?.as_chunks::<2>().0.iter().map(|p| (p[0], p[1])).collect();
        if let Some((v, _)) = pairs.iter().find(|(v, s)| graph.cardinalities().get(*v).is_none_or(|d| s >= d))
        {
            return Err(fail(format!("the evidence about variable {v} is out of range")));
        }
        graph = graph.with_evidence_record(pairs);
    }
    Ok(graph)
}

pub(super) fn write(graph: &FactorGraph) -> Writer<'_> {
    let mut file = Writer::new(Kind::FactorGraph.name());
    file.metadata("form", if graph.form() == Form::Bayes { "bayes" } else { "markov" });
    if let Some(names) = graph.names() {
        file.metadata("names", json!(names).to_string());
    }
    let scope_lengths: Vec<usize> = graph.factors().map(|factor| factor.scope.len()).collect();
    let scopes: Vec<usize> = graph.factors().flat_map(|factor| factor.scope.iter().copied()).collect();
    let tables: Vec<&[f64]> = graph.factors().map(|factor| factor.log_values).collect();
    let value_count = tables.iter().map(|table| table.len()).sum();
    file.integers("cardinalities", &[graph.variable_count()], graph.cardinalities().to_vec());
    file.integers("scope_lengths", &[scope_lengths.len()], scope_lengths);
    file.integers("scopes", &[scopes.len()], scopes);
    file.numbers("log_values", &[value_count], tables);
    if !graph.evidence().is_empty() {
        let pairs: Vec<usize> = graph.evidence().iter().flat_map(|&(v, s)| [v, s]).collect();
        file.integers("evidence", &[pairs.len() / 2, 2], pairs);
    }
    file
}
