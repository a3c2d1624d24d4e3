//! The `.zhat` model file: [safetensors](https://github.com/huggingface/safetensors) with metadata.
//!
//! Metadata: `zhat` (the version, `1`), `kind` (`factor-graph`), `form` (`markov` or `bayes`), and optionally `names`
//! (JSON: `{"variables": [...], "states": [[...], ...]}`). Tensors of a factor graph with n variables and m factors:
//!
//! | tensor | type | content |
//! |---|---|---|
//! | `cardinalities` | U64 \[n\] | states of each variable |
//! | `scope_lengths` | U64 \[m\] | variables of each factor |
//! | `scopes` | U64 | the scopes, one after the other |
//! | `log_values` | F64 | the tables, row-major, one after the other; −∞ allowed |
//! | `evidence` | U64 \[k, 2\] | optional: what was observed to make this model |

use safetensors::{Dtype, SafeTensors, tensor::Metadata};
use serde_json::{Map, Value, json};

use crate::error::{Error, Result};
use crate::model::{FactorGraph, Form, Kind, Model, Names, table};

/// The version written; older ones are read, newer ones refused.
const VERSION: u32 = 1;

/// True if a file that starts like this is meant to be one of these.
pub(crate) fn looks_like(start: &[u8]) -> bool {
    start.len() > 8 && start[8] == b'{' && start[4..8] == [0; 4]
}

/// Reads a model; `name` is the file's name for messages.
pub fn parse(bytes: &[u8], name: &str) -> Result<Model> {
    let fail = |message: String| Error::Parse { source_name: name.into(), line: 0, message };
    let broken = |error: safetensors::SafeTensorError| fail(format!("not a whole .zhat file: {error}"));
    let (_, header): (usize, Metadata) = SafeTensors::read_metadata(bytes).map_err(broken)?;
    let metadata = header.metadata().clone().unwrap_or_default();
    let version = metadata.get("zhat").and_then(|version| version.parse::<u32>().ok()).ok_or_else(|| {
        fail("a safetensors file, but not a zhat model: its metadata has no version `zhat`".into())
    })?;
    if version > VERSION {
        return Err(fail(format!(
            "the file has version {version}, this program reads up to {VERSION}; a newer zhat is needed"
        )));
    }
    let kind = metadata.get("kind").map_or("", String::as_str);
    if kind != Kind::FactorGraph.name() {
        return Err(fail(format!("unknown kind of model `{kind}`; known are: {}", Kind::FactorGraph.name())));
    }
    let tensors = SafeTensors::deserialize(bytes).map_err(broken)?;
    let words = |tensor: &str, dtype: Dtype| -> Result<Vec<[u8; 8]>> {
        let view = tensors.tensor(tensor).map_err(|_| fail(format!("the tensor `{tensor}` is missing")))?;
        if view.dtype() != dtype {
            return Err(fail(format!(
                "the tensor `{tensor}` has type {:?}, expected {dtype:?}",
                view.dtype()
            )));
        }
        Ok(view.data().as_chunks::<8>().0.to_vec())
    };
    let integers = |tensor: &str| -> Result<Vec<usize>> {
        words(tensor, Dtype::U64)?
            .into_iter()
            .map(|word| usize::try_from(u64::from_le_bytes(word)).ok())
            .collect::<Option<_>>()
            .ok_or_else(|| fail(format!("the tensor `{tensor}` has a number too large for this machine")))
    };
    let (scope_lengths, scopes) = (integers("scope_lengths")?, integers("scopes")?);
    let values: Vec<f64> = words("log_values", Dtype::F64)?.into_iter().map(f64::from_le_bytes).collect();
    let invalid = |error: Error| fail(error.to_string());
    let mut graph = FactorGraph::new(integers("cardinalities")?).map_err(invalid)?;
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
    if tensors.tensor("evidence").is_ok() {
        let pairs: Vec<(usize, usize)> =
            integers("evidence")?.as_chunks::<2>().0.iter().map(|p| (p[0], p[1])).collect();
        if let Some((v, _)) = pairs.iter().find(|(v, s)| graph.cardinalities().get(*v).is_none_or(|d| s >= d))
        {
            return Err(fail(format!("the evidence about variable {v} is out of range")));
        }
        graph = graph.with_evidence_record(pairs);
    }
    Ok(Model::FactorGraph(graph))
}

/// The bytes of a model's file: the same model gives the same bytes.
///
/// The header is written here because the crate's own writer puts metadata in random order.
pub fn to_bytes(graph: &FactorGraph) -> Vec<u8> {
    let mut metadata = Map::new();
    metadata.insert("zhat".into(), json!(VERSION.to_string()));
    metadata.insert("kind".into(), json!(Kind::FactorGraph.name()));
    let form = if graph.form() == Form::Bayes { "bayes" } else { "markov" };
    metadata.insert("form".into(), json!(form));
    if let Some(names) = graph.names() {
        metadata.insert("names".into(), json!(json!(names).to_string()));
    }
    let mut header = Map::new();
    header.insert("__metadata__".into(), Value::Object(metadata));
    let mut data = Vec::new();
    let mut tensor = |name: &str, dtype: &str, shape: &[usize], words: &mut dyn Iterator<Item = [u8; 8]>| {
        let start = data.len();
        words.for_each(|word| data.extend_from_slice(&word));
        header.insert(
            name.into(),
            json!({"dtype": dtype, "shape": shape, "data_offsets": [start, data.len()]}),
        );
    };
    let integer = |&x: &usize| (x as u64).to_le_bytes();
    let scope_lengths: Vec<usize> = graph.factors().map(|factor| factor.scope.len()).collect();
    let scopes: Vec<usize> = graph.factors().flat_map(|factor| factor.scope.iter().copied()).collect();
    let value_count: usize = graph.factors().map(|factor| factor.log_values.len()).sum();
    let mut values = graph.factors().flat_map(|factor| factor.log_values).map(|x| x.to_le_bytes());
    tensor("cardinalities", "U64", &[graph.variable_count()], &mut graph.cardinalities().iter().map(integer));
    tensor("scope_lengths", "U64", &[scope_lengths.len()], &mut scope_lengths.iter().map(integer));
    tensor("scopes", "U64", &[scopes.len()], &mut scopes.iter().map(integer));
    tensor("log_values", "F64", &[value_count], &mut values);
    if !graph.evidence().is_empty() {
        let pairs: Vec<usize> = graph.evidence().iter().flat_map(|&(v, s)| [v, s]).collect();
        tensor("evidence", "U64", &[pairs.len() / 2, 2], &mut pairs.iter().map(integer));
    }
    let mut text = Value::Object(header).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.extend(text);
    bytes.extend(data);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::generate;

    fn graphs() -> Vec<FactorGraph> {
        let plain = generate::random(6, 3, 8, 3, 2.0, 0.3, 5).unwrap();
        let names = |prefix: &str, n: usize| (0..n).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
        let named = generate::bayes(4, 2, 2, 0.0, 1).unwrap();
        let named =
            named.with_names(names("v", 4), vec![names("s", 2), vec![], vec![], names("t", 2)]).unwrap();
        let given = named.condition(&[(2, 1)]).unwrap();
        vec![plain, named, given, FactorGraph::new(vec![]).unwrap()]
    }

    #[test]
    fn what_is_written_is_read_back_to_the_bit() {
        for graph in graphs() {
            let bytes = to_bytes(&graph);
            assert!(looks_like(&bytes));
            assert_eq!(parse(&bytes, "").unwrap(), Model::FactorGraph(graph.clone()));
            assert_eq!(to_bytes(&graph), bytes);
        }
    }

    #[test]
    fn cut_or_altered_files_are_refused_or_read_but_never_panic() {
        for graph in graphs() {
            let bytes = to_bytes(&graph);
            for length in 0..bytes.len() {
                assert!(parse(&bytes[..length], "").is_err());
            }
            for at in 0..bytes.len() {
                for value in [0, 0xff, b'9', bytes[at] ^ 1] {
                    let mut altered = bytes.clone();
                    altered[at] = value;
                    let _ = parse(&altered, "");
                }
            }
        }
    }

    #[test]
    fn a_newer_version_and_a_strange_kind_are_named() {
        let replaced = |from: &str, to: &str| {
            let text = to_bytes(&graphs()[0]);
            let at = text.windows(from.len()).position(|w| w == from.as_bytes()).unwrap();
            let mut altered = text.clone();
            altered[at..at + from.len()].copy_from_slice(to.as_bytes());
            parse(&altered, "m.zhat").unwrap_err().to_string()
        };
        assert!(replaced("\"zhat\":\"1\"", "\"zhat\":\"9\"").contains("version 9"));
        assert!(replaced("factor-graph", "factor-grape").contains("`factor-grape`"));
        assert!(replaced("\"zhat\"", "\"that\"").contains("no version"));
        assert!(replaced("\"scopes\"", "\"scoops\"").contains("`scopes` is missing"));
    }
}
