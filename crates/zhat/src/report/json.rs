//! JSON output of answers, streamed from the stored numbers without a copy.

use serde::ser::{Error as _, SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::tree::{TreeForm, show};
use super::{Report, SCHEMA};
use crate::model::{Model, TreeKind};
use crate::query::{AnyValue, BestState, Query, Tensors};
use crate::tensor::{Data, Tensor};

/// A number as JSON; infinities, which JSON numbers cannot express, become the texts `"-inf"` and `"inf"`.
pub fn number(x: f64) -> Value {
    match x {
        f64::NEG_INFINITY => "-inf".into(),
        f64::INFINITY => "inf".into(),
        x => json!(x),
    }
}

/// The JSON object of an answer.
pub(super) struct Object<'a>(pub &'a Report<'a>);

impl Serialize for Object<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (report, answer) = (self.0, self.0.answer);
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", &SCHEMA)?;
        map.serialize_entry("version", env!("CARGO_PKG_VERSION"))?;
        map.serialize_entry("query", report.query)?;
        value(report, &mut map)?;
        map.serialize_entry("guarantee", &answer.guarantee.to_json())?;
        map.serialize_entry("method", answer.diagnostics.method)?;
        for (name, value) in &report.members {
            map.serialize_entry(name, value)?;
        }
        map.serialize_entry("diagnostics", &answer.diagnostics.to_json())?;
        map.end()
    }
}

/// A number for one item, an array for several.
fn one_or_all(values: impl ExactSizeIterator<Item = f64>) -> Value {
    let mut values: Vec<Value> = values.map(number).collect();
    if values.len() == 1 { values.swap_remove(0) } else { Value::Array(values) }
}

fn value<M: SerializeMap>(report: &Report<'_>, map: &mut M) -> Result<(), M::Error> {
    let model = report.model;
    match &report.answer.value {
        AnyValue::Number(_) | AnyValue::Numbers(_) => {
            let values = report.answer.numbers().unwrap_or_default();
            map.serialize_entry("value", &one_or_all(values.iter().copied()))?;
            if report.query == Query::LogPartition.name() {
                let log10 = values.iter().map(|value| value / std::f64::consts::LN_10);
                map.serialize_entry("log10", &one_or_all(log10))?;
            }
            Ok(())
        }
        AnyValue::Tensors(found) => tensors(report, found, map),
        AnyValue::States(found) => {
            map.serialize_entry("value", &one_or_all(found.iter().map(|best| best.score)))?;
            match (model.batch(), found.as_slice()) {
                (None, [best]) => {
                    if has_names(model) {
                        map.serialize_entry("names", &names(model, &best.state))?;
                    }
                    map.serialize_entry(model.state_form().name, &state(model, &best.state))
                }
                (batch, found) => {
                    let item = batch.map_or("item", |batch| batch.item);
                    let items = found.iter().enumerate().map(|(b, best)| scored(model, b, best));
                    let items: Vec<Value> = items.collect();
                    map.serialize_entry(&format!("{item}s"), &items)
                }
            }
        }
        AnyValue::Ranked(found) => {
            let lists = found.iter().enumerate();
            let lists = lists.map(|(b, list)| list.iter().map(|best| scored(model, b, best)).collect());
            let mut lists: Vec<Vec<Value>> = lists.collect();
            match model.batch() {
                Some(batch) => map.serialize_entry(&format!("{}s", batch.item), &lists),
                None => map.serialize_entry("states", &lists.pop().unwrap_or_default()),
            }
        }
        // Samples have one object per line instead.
        AnyValue::Samples(_) => Err(M::Error::custom("samples are written line by line")),
    }
}

fn scored(model: &Model, item: usize, best: &BestState) -> Value {
    let mut object = json!({"value": number(best.score), model.state_form().name: state(model, &best.state)});
    if has_names(model) {
        object["names"] = names(model, &best.state);
    }
    let state = if best.score == f64::NEG_INFINITY { &[] } else { &best.state[..] };
    if let Some(tree) = tree(model, item, state) {
        object["tree"] = tree;
    }
    object
}

/// A tree with symbols in brackets; null for a sentence without a tree, `None` for other models.
pub(super) fn tree(model: &Model, item: usize, state: &[usize]) -> Option<Value> {
    if model.tree_kind() != Some(TreeKind::Constituency) {
        return None;
    }
    let tree = model.named_tree(item, state);
    Some(tree.and_then(|tree| show(&tree, TreeForm::Bracketed)).map_or(Value::Null, Value::from))
}

/// True if a single model's variables or states have names.
pub(super) fn has_names(model: &Model) -> bool {
    let named = |i: usize| model.place_name(i) != format!("x{i}") || model.state_name(i, 0) != "0";
    model.batch().is_none() && model.state_form().columns.len() <= 1 && (0..model.state_size()).any(named)
}

/// The names of the states by the names of the variables.
pub(super) fn names(model: &Model, state: &[usize]) -> Value {
    let pair = |(i, &s): (usize, &usize)| (model.place_name(i), Value::from(model.state_name(i, s)));
    Value::Object(state.iter().enumerate().map(pair).collect())
}

/// The numbers of a state; rows with several columns are nested arrays.
pub(super) fn state(model: &Model, state: &[usize]) -> Value {
    match model.state_form().columns.len() {
        0 | 1 => json!(state),
        columns => json!(state.chunks(columns).collect::<Vec<_>>()),
    }
}

fn tensors<M: SerializeMap>(report: &Report<'_>, found: &Tensors, map: &mut M) -> Result<(), M::Error> {
    let model = report.model;
    match (found.list.as_slice(), model.batch()) {
        ([one], _) if one.ends().is_some() => {
            let (headings, _) = model.headings(one.name());
            let plural = format!("{}s", headings.first().unwrap_or(&"row"));
            map.serialize_entry(&plural, &Ragged(model, one, report.shown_rows(one.rows())))?;
        }
        ([one], Some(batch)) if one.name() == "marginals" && one.shape().len() == 4 => {
            map.serialize_entry(&format!("{}s", batch.item), &SpanItems(batch.lengths, one))?;
        }
        ([one], Some(batch)) if one.name() == "marginals" => {
            map.serialize_entry(&format!("{}s", batch.item), &Items(batch.lengths, one))?;
        }
        ([one], None) if one.name() == "marginals" => {
            map.serialize_entry("shape", one.shape())?;
            map.serialize_entry("p", &Part(one, 0, one.data().len()))?;
        }
        (list, _) => map.serialize_entry("gradient", &Named(list))?,
    }
    if let Some(radius) = found.radius {
        map.serialize_entry("radius", &radius)?;
    }
    Ok(())
}

/// A range of the numbers of a tensor.
struct Part<'a>(&'a Tensor<'a>, usize, usize);

impl Serialize for Part<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Part(tensor, start, end) = *self;
        match (tensor.as_slice::<f32>(), tensor.as_slice::<f64>(), tensor.data()) {
            (Some(numbers), ..) => numbers[start..end].serialize(serializer),
            (_, Some(numbers), _) => numbers[start..end].serialize(serializer),
            (_, _, Data::U64(numbers)) => numbers[start..end].serialize(serializer),
            _ => tensor.to_f64()[start..end].serialize(serializer),
        }
    }
}

/// Tensors by name, with shape and values.
struct Named<'a>(&'a [Tensor<'static>]);

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct One<'a> {
            shape: &'a [usize],
            values: Part<'a>,
        }
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for tensor in self.0 {
            let values = Part(tensor, 0, tensor.data().len());
            map.serialize_entry(tensor.name(), &One { shape: tensor.shape(), values })?;
        }
        map.end()
    }
}

/// The rows of a ragged tensor: the model's description of each row, and its numbers.
struct Ragged<'a>(&'a Model, &'a Tensor<'static>, Vec<usize>);

impl Serialize for Ragged<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Ragged(model, tensor, shown) = self;
        let mut rows = serializer.serialize_seq(Some(shown.len()))?;
        for &row in shown {
            let mut object = model.row_figures(tensor.name(), row);
            object["p"] = json!(tensor.row(row));
            rows.serialize_element(&object)?;
        }
        rows.end()
    }
}

/// The items of a batch whose numbers belong to spans: B×T×T×S. Spans without a positive number are left out.
struct SpanItems<'a>(&'a [usize], &'a Tensor<'static>);

impl Serialize for SpanItems<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let SpanItems(lengths, tensor) = *self;
        let positions = tensor.shape()[1];
        let mut items = serializer.serialize_seq(Some(lengths.len()))?;
        for (b, &length) in lengths.iter().enumerate() {
            let places = (0..length).flat_map(|i| (i..length).map(move |j| (i, j)));
            let span = |(i, j): (usize, usize)| {
                let row = tensor.row((b * positions + i) * positions + j);
                row.iter().any(|x| *x > 0.0).then(|| json!({"first": i, "last": j, "p": row}))
            };
            let spans: Vec<Value> = places.filter_map(span).collect();
            items.serialize_element(&json!({"length": length, "spans": spans}))?;
        }
        items.end()
    }
}

/// The items of a batch, each without its padding.
struct Items<'a>(&'a [usize], &'a Tensor<'static>);

impl Serialize for Items<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Item<'a> {
            length: usize,
            p: Vec<Part<'a>>,
        }
        let Items(lengths, tensor) = *self;
        let (steps, states) = match tensor.shape() {
            [_, steps, states] => (*steps, *states),
            _ => (1, 0),
        };
        let mut items = serializer.serialize_seq(Some(lengths.len()))?;
        for (b, &length) in lengths.iter().enumerate() {
            let row = |t: usize| Part(tensor, (b * steps + t) * states, (b * steps + t + 1) * states);
            items.serialize_element(&Item { length, p: (0..length).map(row).collect() })?;
        }
        items.end()
    }
}
