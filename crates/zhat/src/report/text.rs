//! Text output of answers.

use super::Report;
use super::table::table;
use super::words::{footer, guarantee};
use crate::answer::Guarantee;
use crate::decimal;
use crate::model::{Model, TreeKind};
use crate::query::{AnyValue, BestState, Query, Tensors};
use crate::tensor::Tensor;

/// A row with more entries than this shows only its largest entries.
const MOST_ENTRIES: usize = 16;
/// Number of largest entries shown for such a row.
const LARGEST_ENTRIES: usize = 8;
/// Number of largest entries shown for a whole tensor.
const LARGEST_OF_TENSOR: usize = 3;

/// The text of an answer.
pub(super) fn text(report: &Report<'_>) -> String {
    match &report.answer.value {
        AnyValue::Number(value) => numbers(report, std::slice::from_ref(value)),
        AnyValue::Numbers(values) => numbers(report, values),
        AnyValue::Tensors(found) => tensors(report, found),
        AnyValue::States(found) => states(report, found),
        AnyValue::Ranked(found) => ranked(report, found),
        AnyValue::Samples(_) => String::new(),
    }
}

impl Report<'_> {
    /// Value `i`, divided by `unit`; a bound is printed as a bound.
    fn stated(&self, value: f64, i: usize, unit: f64) -> String {
        self.answer.guarantee.item(i).stated(value, self.answer.diagnostics.rounding, unit)
    }

    fn footer(&self) -> String {
        footer(Some((&self.answer.guarantee, None)), &self.answer.diagnostics)
    }

    /// The footer without the guarantee, for output in which every line has its own.
    fn origin(&self) -> String {
        footer(None, &self.answer.diagnostics)
    }

    /// One row per item of a batch: its number, its length, the cells and the guarantee.
    fn each_item(
        &self,
        lengths: &[usize],
        value: impl Fn(usize) -> Option<f64>,
        cells: impl Fn(usize) -> Vec<String>,
    ) -> Vec<Vec<String>> {
        let row = |(b, length): (usize, &usize)| {
            let mut row = vec![b.to_string(), length.to_string()];
            row.extend(cells(b));
            row.push(guarantee(self.answer.guarantee.item(b), value(b), &self.answer.diagnostics));
            row
        };
        lengths.iter().enumerate().map(row).collect()
    }
}

/// log Z, entropy, a divergence or an expectation: one line for a single model, a table for a batch.
fn numbers(report: &Report<'_>, values: &[f64]) -> String {
    let (label, heading) = match report.query {
        "entropy" => ("entropy", "entropy (nats)"),
        "cross_entropy" => ("cross-entropy", "cross-entropy (nats)"),
        "kl" => ("KL", "KL (nats)"),
        "expectation" => ("E[score]", "expected score"),
        _ => ("log Z", "log Z"),
    };
    if let (&[value], _) | (&[value, ..], None) = (values, report.model.batch()) {
        let log_partition = report.query == Query::LogPartition.name();
        let unit = if log_partition { std::f64::consts::LN_10 } else { std::f64::consts::LN_2 };
        let (stated, scaled) = (report.stated(value, 0, 1.0), report.stated(value, 0, unit));
        let line = match report.query {
            _ if log_partition => format!("{stated} (log10 Z {scaled})"),
            "expectation" => stated,
            _ => format!("{stated} nats ({scaled} bits)"),
        };
        let given = (report.answer.guarantee.item(0), Some(value));
        return format!("{label:<9}  {line}\n{}", footer(Some(given), &report.answer.diagnostics));
    }
    let Some(batch) = report.model.batch() else { return report.footer() };
    let rows =
        report.each_item(batch.lengths, |b| Some(values[b]), |b| vec![report.stated(values[b], b, 1.0)]);
    let header = [batch.item, "length", heading, "guarantee"];
    format!("{}\n{}", table(&header, &rows, usize::MAX), report.origin())
}

/// Marginals row by row; gradients one tensor per line, except probabilities of arcs.
fn tensors(report: &Report<'_>, found: &Tensors) -> String {
    let arcs = report.model.tree_kind() == Some(TreeKind::Dependency);
    let shown = match found.list.as_slice() {
        list if arcs => list.iter().map(|one| rows(report, one)).collect::<Vec<_>>().join("\n"),
        [one] if matches!(one.name(), "marginals" | "factors") || one.shape().len() == 1 => rows(report, one),
        list => overview(list),
    };
    let radius = match found.radius {
        Some(radius) if report.answer.guarantee != Guarantee::Exact => {
            let what = if report.query == Query::Marginals.name() { "for each" } else { "in Euclidean norm" };
            format!("radius     {} {what}\n", decimal::number(radius))
        }
        _ => String::new(),
    };
    format!("{shown}\n{radius}{}", report.footer())
}

/// The rows of a tensor, labelled with the model's names.
fn rows(report: &Report<'_>, tensor: &Tensor<'_>) -> String {
    let model = report.model;
    let (mut header, entries) = model.headings(tensor.name());
    let shape = tensor.shape();
    let number = |value: f64| match tensor.name() {
        "marginals" | "factors" | "arcs" | "roots" => decimal::probability(value),
        _ => decimal::number(value),
    };
    if shape.len() == 1 && tensor.ends().is_none() {
        let values = tensor.to_f64();
        let row = |(i, value): (usize, &f64)| {
            let mut row = model.row_label(tensor.name(), &[i]);
            row.push(number(*value));
            row
        };
        header.push(entries);
        return table(&header, &values.iter().enumerate().map(row).collect::<Vec<_>>(), header.len() - 1);
    }
    let (lengths, leading) = (model.batch().map(|batch| batch.lengths), shape.len().saturating_sub(1));
    let places: Vec<(usize, Vec<usize>)> = report
        .shown_rows(tensor.rows())
        .into_iter()
        .map(|row| (row, if tensor.ends().is_some() { vec![row] } else { index(&shape[..leading], row) }))
        // Skip the padding after the end of an item, and spans that no tree has.
        .filter(|(row, index)| match (lengths, index.as_slice()) {
            (Some(_), [_, _, _]) if model.tree_kind().is_some() => tensor.row(*row).iter().any(|x| *x > 0.0),
            (Some(lengths), [item, position, ..]) => *position < lengths[*item],
            _ => true,
        })
        .collect();
    if shape.len() == 2 && tensor.ends().is_none() && shape[1] <= MOST_ENTRIES {
        // The entries of all rows have the same names, so each name is a column.
        let names: Vec<String> = (0..shape[1]).map(|e| model.entry_label(tensor.name(), 0, e)).collect();
        let heading_count = header.len();
        header.extend(names.iter().map(String::as_str));
        let row = |(row, index): &(usize, Vec<usize>)| {
            let mut cells = model.row_label(tensor.name(), index);
            cells.extend(tensor.row(*row).into_iter().map(number));
            cells
        };
        let rows: Vec<Vec<String>> = places.iter().map(row).collect();
        return format!("{entries}\n{}", table(&header, &rows, heading_count));
    }
    let row = |(row, index): &(usize, Vec<usize>)| {
        let values = tensor.row(*row);
        // Of the symbols of a span most have probability 0.
        let tree = index.len() == 3 && model.tree_kind().is_some();
        let of_interest = if tree { values.iter().filter(|x| **x > 0.0).count() } else { values.len() };
        let shown: Vec<usize> = if tree && of_interest <= MOST_ENTRIES {
            (0..values.len()).filter(|&e| values[e] > 0.0).collect()
        } else if values.len() <= MOST_ENTRIES {
            (0..values.len()).collect()
        } else {
            largest(&values, LARGEST_ENTRIES)
        };
        let entry = |&e: &usize| {
            let label = model.entry_label(tensor.name(), *row, e);
            let colon = if label.is_empty() { "" } else { ": " };
            format!("{label}{colon}{}", number(values[e]))
        };
        let mut entries: Vec<String> = shown.iter().map(entry).collect();
        if shown.len() < of_interest {
            entries.push(format!("… and {} less likely", of_interest - shown.len()));
        }
        let mut cells = model.row_label(tensor.name(), index);
        cells.push(entries.join("  "));
        cells
    };
    header.push(entries);
    table(&header, &places.iter().map(row).collect::<Vec<_>>(), usize::MAX)
}

/// The shape, the sum and the largest entries of each tensor.
fn overview(list: &[Tensor<'_>]) -> String {
    let row = |tensor: &Tensor<'_>| {
        let values = tensor.to_f64();
        let shape: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
        let entry = |&i: &usize| {
            let place: Vec<String> = index(tensor.shape(), i).iter().map(usize::to_string).collect();
            format!("{}: {}", place.join(","), decimal::probability(values[i]))
        };
        let entries: Vec<String> = largest(&values, LARGEST_OF_TENSOR).iter().map(entry).collect();
        let sum: f64 = values.iter().sum();
        vec![tensor.name().into(), shape.join("×"), format!("{sum:.6}"), entries.join("  ")]
    };
    let header = ["gradient of log Z by", "shape", "sum", "largest entries"];
    table(&header, &list.iter().map(row).collect::<Vec<_>>(), usize::MAX)
}

/// The index of an entry along each axis.
fn index(shape: &[usize], entry: usize) -> Vec<usize> {
    let (mut rest, mut indices) = (entry, vec![0; shape.len()]);
    for (index, length) in indices.iter_mut().zip(shape).rev() {
        *index = rest % length.max(&1);
        rest /= length.max(&1);
    }
    indices
}

/// The indices of the `count` numbers of largest absolute value, largest first.
fn largest(values: &[f64], count: usize) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::with_capacity(count + 1);
    for i in 0..values.len() {
        let size = values[i].abs();
        if found.len() == count && found.last().is_some_and(|&last| size <= values[last].abs()) {
            continue;
        }
        let at = found.partition_point(|&other| values[other].abs() >= size);
        found.insert(at, i);
        found.truncate(count);
    }
    found
}

/// `0 3 1`, or `0:2 3:1` if a row has several columns.
pub(super) fn state_words(model: &Model, state: &[usize]) -> String {
    let columns = model.state_form().columns.len().max(1);
    let row = |row: &[usize]| row.iter().map(usize::to_string).collect::<Vec<_>>().join(":");
    state.chunks(columns).map(row).collect::<Vec<_>>().join(" ")
}

/// `segments (state:length)`, or `states`.
fn state_title(model: &Model) -> String {
    let form = model.state_form();
    match form.columns {
        [] | [_] => form.name.into(),
        columns => format!("{} ({})", form.name, columns.join(":")),
    }
}

fn states(report: &Report<'_>, found: &[BestState]) -> String {
    let model = report.model;
    if let Some(batch) = model.batch() {
        let cells = |b: usize| vec![decimal::number(found[b].score), state_words(model, &found[b].state)];
        let rows = report.each_item(batch.lengths, |_| None, cells);
        let header = [batch.item, "length", "score", &state_title(model), "guarantee"];
        return format!("{}\n{}", table(&header, &rows, usize::MAX), report.origin());
    }
    let Some(best) = found.first() else { return report.footer() };
    let score = decimal::number(best.score);
    if let Some(shown) = model.show_state(&best.state) {
        return format!("best       {shown}\nscore      {score}\n{}", report.footer());
    }
    let row = |(i, &s): (usize, &usize)| vec![model.place_name(i), model.state_name(i, s)];
    let rows: Vec<Vec<String>> = best.state.iter().enumerate().map(row).collect();
    format!("{}\nscore      {score}\n{}", table(&["variable", "state"], &rows, 2), report.footer())
}

fn ranked(report: &Report<'_>, found: &[Vec<BestState>]) -> String {
    let model = report.model;
    let shown = if let Some(batch) = model.batch() {
        let mut rows = Vec::new();
        for (b, list) in found.iter().enumerate() {
            for (rank, best) in list.iter().enumerate() {
                let (rank, score) = ((rank + 1).to_string(), decimal::number(best.score));
                rows.push(vec![b.to_string(), rank, score, state_words(model, &best.state)]);
            }
        }
        table(&[batch.item, "rank", "score", &state_title(model)], &rows, usize::MAX)
    } else {
        single_ranked(model, found.first().map_or(&[], Vec::as_slice))
    };
    format!("{shown}\n{}", report.footer())
}

/// One row per state, or one column per state if states are tables of variables.
fn single_ranked(model: &Model, list: &[BestState]) -> String {
    let lines: Option<Vec<Vec<String>>> = list
        .iter()
        .map(|best| Some(vec![decimal::number(best.score), model.show_state(&best.state)?]))
        .collect();
    if let Some(rows) = lines {
        return table(&["score", "state"], &rows, 2);
    }
    let ranks: Vec<String> = (1..=list.len()).map(|rank| rank.to_string()).collect();
    let header: Vec<&str> = std::iter::once("rank").chain(ranks.iter().map(String::as_str)).collect();
    let row = |i: usize| -> Vec<String> {
        let states = list.iter().map(|best| model.state_name(i, best.state[i]));
        std::iter::once(model.place_name(i)).chain(states).collect()
    };
    let places = list.first().map_or(0, |best| best.state.len());
    let scores =
        std::iter::once("score".to_owned()).chain(list.iter().map(|best| decimal::number(best.score)));
    let rows: Vec<Vec<String>> = std::iter::once(scores.collect()).chain((0..places).map(row)).collect();
    table(&header, &rows, usize::MAX)
}
