//! Answers about a model on a combinatorial space, in words and as JSON.

use std::fmt::Write;

use serde_json::json;
use zhat::catalogue::AnyAnswer;
use zhat::space::{Condition, Expectations, SpaceMarginals, SpaceModel, Structures};
use zhat::{BestState, Error, Guarantee, Law, Result, Samples, decimal};

use super::{Answered, Style, csv_line, sequences};
use crate::output;

/// Rows of a plain table, and columns of a square one.
const MOST_ROWS: usize = 1000;
const MOST_COLUMNS: usize = 16;

/// The structures that meet the conditions of `--given`.
pub fn restrict(model: &SpaceModel, given: &[String]) -> Result<SpaceModel> {
    let parse = |text: &String| {
        text.parse::<Condition>().map_err(|error| match error {
            Error::Argument { message, .. } => Error::argument("--given", message),
            other => other,
        })
    };
    let conditions = given.iter().map(parse).collect::<Result<Vec<_>>>()?;
    if conditions.is_empty() { Ok(model.clone()) } else { model.restrict(conditions) }
}

/// The answer as it is printed.
pub(super) fn text(answered: &Answered, model: &SpaceModel, style: Style) -> Result<String> {
    let json = style == Style::Json;
    match &answered.answer {
        AnyAnswer::Estimate(answer) => sequences::numbers(answered, &[answer.value], json),
        AnyAnswer::Expectations(answer) => Ok(expectations(answered, &answer.value, json)),
        AnyAnswer::SpaceMarginals(answer) => Ok(marginals(answered, model, &answer.value, json)),
        AnyAnswer::Ranked(answer) => Ok(k_best(answered, model, &answer.value, json)),
        AnyAnswer::Best(answer) => Ok(best(answered, model, &answer.value, json)),
        AnyAnswer::Samples(answer) => Ok(sample(answered, &answer.value, json)),
        _ => Err(answered.mismatch()),
    }
}

fn expectations(answered: &Answered, found: &Expectations, json: bool) -> String {
    if json {
        let values = json!(found.values).to_string();
        return answered.object(&[("expectations", values), ("radius", json!(found.radius).to_string())]);
    }
    let row = |(i, value): (usize, &f64)| vec![i.to_string(), output::number(*value)];
    let rows = found.values.iter().enumerate().take(MOST_ROWS).map(row).collect();
    let mut text = format!("{}\n", output::table(&["feature", "expectation"], rows, 2));
    if found.values.len() > MOST_ROWS {
        let _ = writeln!(text, "… and {} more; --json has them all", found.values.len() - MOST_ROWS);
    }
    text + &radius(answered, found.radius, "in Euclidean norm")
}

/// How far estimates may be off, and the footer; exact ones have their rounding there.
fn radius(answered: &Answered, radius: f64, what: &str) -> String {
    if *answered.answer.guarantee() == Guarantee::Exact {
        return answered.footer();
    }
    format!("radius   {} {what}\n{}", output::number(radius), answered.footer())
}

/// What a row of the table of marginals is about, and a column.
fn headings(model: &SpaceModel) -> (&'static str, &'static str) {
    match model.structures().base() {
        Structures::Hypercube(_) => ("label", "P(chosen)"),
        Structures::Subtrees(_) => ("node", "P(chosen)"),
        Structures::Permutations(_) => ("item", "P(item at position)"),
        Structures::Cycles(_) => ("vertex", "P(neighbours on the cycle); on the diagonal P(on the cycle)"),
        _ => ("element", "P(in one block)"),
    }
}

/// A list, or a square table as far as it fits.
fn marginals(answered: &Answered, model: &SpaceModel, found: &SpaceMarginals, json: bool) -> String {
    if json {
        let members =
            [("shape", json!(found.shape)), ("p", json!(found.values)), ("radius", json!(found.radius))];
        return answered.object(&members.map(|(name, value)| (name, value.to_string())));
    }
    let (row, what) = headings(model);
    let n = found.shape.first().copied().unwrap_or(0);
    let mut text = String::new();
    if found.shape.len() == 1 {
        let line = |(i, p): (usize, &f64)| vec![i.to_string(), decimal::probability(*p)];
        let rows = found.values.iter().enumerate().take(MOST_ROWS).map(line).collect();
        text += &output::table(&[row, what], rows, 1);
    } else {
        let shown = n.min(MOST_COLUMNS);
        let header: Vec<String> = (0..shown).map(|i| i.to_string()).collect();
        let header: Vec<&str> = std::iter::once(row).chain(header.iter().map(String::as_str)).collect();
        let line = |i: usize| {
            let cells = found.values[i * n..i * n + shown].iter().map(|p| decimal::probability(*p));
            std::iter::once(i.to_string()).chain(cells).collect()
        };
        let _ = writeln!(text, "{what}");
        text += &output::table(&header, (0..shown).map(line).collect(), 1);
    }
    let shown = if found.shape.len() == 1 { n.min(MOST_ROWS) } else { n.min(MOST_COLUMNS) };
    if shown < n {
        let _ = writeln!(text, "… and {} more; --json has them all", n - shown);
    }
    text + "\n" + &radius(answered, found.radius, "for each")
}

fn k_best(answered: &Answered, model: &SpaceModel, ranked: &[BestState], json: bool) -> String {
    if json {
        let state = |best: &BestState| json!({"value": output::json_value(best.score), "state": best.state});
        let states: Vec<serde_json::Value> = ranked.iter().map(state).collect();
        return answered.object(&[("states", json!(states).to_string())]);
    }
    let row = |best: &BestState| vec![output::number(best.score), shown(model, best)];
    let rows = ranked.iter().map(row).collect();
    format!("{}\n{}", output::table(&["score", model.space().name()], rows, 2), answered.footer())
}

fn shown(model: &SpaceModel, best: &BestState) -> String {
    let structure: Vec<u32> = best.state.iter().map(|x| *x as u32).collect();
    model.space().show(&structure)
}

fn best(answered: &Answered, model: &SpaceModel, best: &BestState, json: bool) -> String {
    if json {
        return answered.object(&[
            ("value", output::json_value(best.score).to_string()),
            ("state", json!(best.state).to_string()),
        ]);
    }
    let shown = shown(model, best);
    format!("best     {shown}\nscore    {}\n{}", output::number(best.score), answered.footer())
}

/// CSV with a column a number of the structure, or JSON lines.
fn sample(answered: &Answered, samples: &Samples, json: bool) -> String {
    let mut text = String::new();
    if !json && answered.first == 0 {
        csv_line(&mut text, (0..samples.variables()).map(|i| format!("y{i}")));
    }
    for state in samples.iter() {
        if json {
            let _ = writeln!(text, "{}", json!({"state": state}));
        } else {
            csv_line(&mut text, state.iter().map(usize::to_string));
        }
    }
    if let Law::Approximate { distance } = samples.law {
        eprintln!("zhat: the law of these draws is within {distance} of the model's in total variation");
    }
    text
}
