//! Answers whose states are trees: best trees, ranked trees and samples.

use std::fmt::Write as _;

use super::Report;
use super::tree::{Drawing, TreeForm, show};
use super::words::{footer, guarantee};
use crate::decimal;
use crate::model::{Model, NamedTree, TreeKind};
use crate::query::{AnyValue, BestState};

/// The text in place of a tree, for a sentence that has none.
fn no_tree(model: &Model) -> &'static str {
    if model.tree_kind() == Some(TreeKind::Dependency) { "no tree" } else { "no parse" }
}

/// A tree of an answer.
struct Shown {
    /// The item of the batch.
    item: usize,
    /// `rank` or `sample`, and the number.
    index: Option<(&'static str, usize)>,
    score: Option<f64>,
    tree: Option<NamedTree>,
}

/// A tree on one line, for models whose states are trees with symbols.
pub(super) fn one_line(model: &Model, item: usize, state: &[usize]) -> Option<String> {
    if model.tree_kind() != Some(TreeKind::Constituency) {
        return None;
    }
    let tree = model.named_tree(item, state).and_then(|tree| show(&tree, TreeForm::Bracketed));
    Some(tree.unwrap_or_else(|| no_tree(model).into()))
}

/// The text of an answer as trees, if they were asked for or are the usual form.
pub(super) fn text(report: &Report<'_>) -> Option<String> {
    let samples = matches!(report.answer.value, AnyValue::Samples(_));
    let usual = report.model.tree_kind() == Some(TreeKind::Constituency) && !samples;
    let form = report.trees.or(usual.then_some(TreeForm::Indented))?;
    let trees = trees(report)?;
    Some(match form {
        TreeForm::Indented => for_people(report, &trees),
        TreeForm::Bracketed => {
            let line = |tree: &NamedTree| show(tree, TreeForm::Bracketed);
            let line = |shown: &Shown| {
                shown.tree.as_ref().and_then(line).unwrap_or_else(|| no_tree(report.model).into())
            };
            trees.iter().map(|shown| line(shown) + "\n").collect()
        }
        TreeForm::Conllu => trees.iter().map(|shown| annotated(report.model, shown)).collect(),
        TreeForm::Svg => {
            let drawn: Vec<Drawing> =
                trees.iter().filter_map(|shown| shown.tree.as_ref()).map(Drawing::of).collect();
            Drawing::stacked(&drawn).svg()
        }
    })
}

/// The trees of an answer; `None` if the answer has no states.
fn trees(report: &Report<'_>) -> Option<Vec<Shown>> {
    let model = report.model;
    let scored = |item: usize, rank: Option<usize>, best: &BestState| Shown {
        item,
        index: rank.map(|rank| ("rank", rank)),
        score: Some(best.score),
        tree: if best.score == f64::NEG_INFINITY { None } else { model.named_tree(item, &best.state) },
    };
    match &report.answer.value {
        AnyValue::States(found) => {
            Some(found.iter().enumerate().map(|(b, best)| scored(b, None, best)).collect())
        }
        AnyValue::Ranked(found) => {
            let mut all = Vec::new();
            for (item, list) in found.iter().enumerate() {
                if list.is_empty() {
                    all.push(Shown { item, index: None, score: None, tree: None });
                }
                all.extend(list.iter().enumerate().map(|(i, best)| scored(item, Some(i + 1), best)));
            }
            Some(all)
        }
        AnyValue::Samples(found) => {
            let mut all = Vec::new();
            for (item, draws) in found.iter().enumerate() {
                all.extend(draws.states.iter().enumerate().map(|(i, state)| Shown {
                    item,
                    index: Some(("sample", report.first_sample + i)),
                    score: None,
                    tree: model.named_tree(item, state),
                }));
            }
            Some(all)
        }
        _ => None,
    }
}

/// Each tree below a line with its score, and the guarantee and the method at the end.
fn for_people(report: &Report<'_>, trees: &[Shown]) -> String {
    let (answer, mut text) = (report.answer, String::new());
    let item = report.model.batch().map_or("item", |batch| batch.item);
    let indented = |shown: &Shown| shown.tree.as_ref().and_then(|tree| show(tree, TreeForm::Indented));
    let best = matches!(answer.value, AnyValue::States(_));
    if let ([only], true) = (trees, best) {
        text += &indented(only).unwrap_or_else(|| format!("{}\n", no_tree(report.model)));
        let score = only.score.map_or_else(String::new, decimal::number);
        let end = footer(Some((answer.guarantee.item(0), None)), &answer.diagnostics);
        return format!("{text}\nscore      {score}\n{end}");
    }
    for shown in trees {
        let _ = write!(text, "{item} {}", shown.item);
        if let Some((name, index)) = shown.index {
            let _ = write!(text, ", {name} {index}");
        }
        let mut facts = Vec::new();
        match &shown.tree {
            None => facts.push(no_tree(report.model).to_owned()),
            Some(_) => facts.extend(shown.score.map(|score| format!("score {}", decimal::number(score)))),
        }
        if best {
            facts.push(guarantee(answer.guarantee.item(shown.item), None, &answer.diagnostics));
        }
        let colon = if facts.is_empty() { "" } else { ": " };
        let _ = writeln!(text, "{colon}{}", facts.join(", "));
        text += &indented(shown).unwrap_or_default();
        text.push('\n');
    }
    match answer.value {
        AnyValue::Samples(_) => text,
        _ => text + &footer((!best).then_some((&answer.guarantee, None)), &answer.diagnostics),
    }
}

/// The lines of CoNLL-U, after comments with the item and the score. A sentence without a tree has words without heads.
fn annotated(model: &Model, shown: &Shown) -> String {
    let mut text = format!("# sent_id = {}\n", shown.item);
    if let Some((name, index)) = shown.index {
        let _ = writeln!(text, "# {name} = {index}");
    }
    if let Some(score) = shown.score {
        let _ = writeln!(text, "# score = {score}");
    }
    match shown.tree.as_ref().and_then(|tree| show(tree, TreeForm::Conllu)) {
        Some(tree) => text + &tree,
        None => {
            let words = model.batch().and_then(|batch| batch.lengths.get(shown.item).copied()).unwrap_or(0);
            let _ = writeln!(text, "# {}", no_tree(model));
            for i in 0..words {
                let _ = writeln!(text, "{}\t{}{}", i + 1, model.place_name(i), "\t_".repeat(8));
            }
            text + "\n"
        }
    }
}
