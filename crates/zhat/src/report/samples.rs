//! Output of samples: CSV for people and spreadsheets, JSON lines for programs.

use std::fmt::Write;

use serde_json::json;

use super::Report;
use super::json::{has_names, names, number, state, tree};
use super::text::state_words;
use super::trees::one_line;
use crate::io::cell;
use crate::model::TreeKind;
use crate::query::{Draws, Law};

/// The log weights of samples, if they are weighted.
fn weights(draws: &Draws) -> Option<&[f64]> {
    if let Law::Weighted { log_weights } = &draws.law { Some(log_weights) } else { None }
}

/// One line per sample. A row with several columns is written in one cell; items of a batch are padded with
/// empty cells.
pub(super) fn csv(report: &Report<'_>, items: &[Draws]) -> String {
    let model = report.model;
    let (batch, form) = (model.batch(), model.state_form());
    let one_cell = form.columns.len() > 1;
    let longest = items.iter().flat_map(|draws| draws.states.iter().map(<[usize]>::len)).max().unwrap_or(0);
    let places = match batch {
        Some(batch) => batch.lengths.iter().copied().max().unwrap_or(0),
        None => longest.max(model.state_size()),
    };
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = String>| {
        let cells: Vec<String> = cells.map(|text| cell(&text).into_owned()).collect();
        text.push_str(&cells.join(","));
        text.push('\n');
    };
    if report.first_sample == 0 {
        let item = batch.iter().flat_map(|batch| [batch.item.to_owned(), "sample".into()]);
        let weighted = items.iter().any(|draws| weights(draws).is_some());
        let weight = weighted.then(|| "log_weight".to_owned());
        let names = if model.tree_kind() == Some(TreeKind::Constituency) {
            vec!["tree".to_owned()]
        } else if one_cell {
            vec![form.name.to_owned()]
        } else {
            (0..places).map(|i| model.place_name(i)).collect()
        };
        line(&mut item.chain(weight).chain(names));
    }
    for (b, draws) in items.iter().enumerate() {
        let weights = weights(draws);
        for (i, state) in draws.states.iter().enumerate() {
            let item = batch.iter().flat_map(|_| [b.to_string(), (report.first_sample + i).to_string()]);
            let weight = weights.map(|weights| weights[i].to_string());
            let cells: Vec<String> = if let Some(tree) = one_line(model, b, state) {
                vec![tree]
            } else if one_cell {
                vec![state_words(model, state)]
            } else {
                let name = |i: usize| state.get(i).map_or_else(String::new, |&s| model.state_name(i, s));
                (0..places).map(name).collect()
            };
            line(&mut item.chain(weight).chain(cells));
        }
    }
    text
}

/// One object per sample.
pub(super) fn json_lines(report: &Report<'_>, items: &[Draws]) -> serde_json::Result<String> {
    let (model, named) = (report.model, has_names(report.model));
    let mut text = String::new();
    for (b, draws) in items.iter().enumerate() {
        for (i, drawn) in draws.states.iter().enumerate() {
            let mut object = match model.batch() {
                Some(batch) => json!({batch.item: b, "sample": report.first_sample + i}),
                None => json!({}),
            };
            object[model.state_form().name] = state(model, drawn);
            if let Some(tree) = tree(model, b, drawn) {
                object["tree"] = tree;
            }
            if named {
                object["names"] = names(model, drawn);
            }
            if let Some(weights) = weights(draws) {
                object["log_weight"] = number(weights[i]);
            }
            let _ = writeln!(text, "{object}");
        }
    }
    Ok(text)
}
