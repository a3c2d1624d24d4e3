//! Answers about a model on a combinatorial space, in words and as JSON.

use std::fmt::Write;

use serde_json::json;
use zhat::catalogue::AnyAnswer;
use zhat::space::{Expectations, SpaceModel};
use zhat::{BestState, Law, Result, Samples};

use super::{Answered, Style, csv_line, sequences};
use crate::output;

/// Rows of the plain table of expectations.
const MOST_ROWS: usize = 1000;

/// The answer as it is printed.
pub(super) fn text(answered: &Answered, model: &SpaceModel, style: Style) -> Result<String> {
    let json = style == Style::Json;
    match &answered.answer {
        AnyAnswer::Estimate(answer) => sequences::numbers(answered, &[answer.value], json),
        AnyAnswer::Expectations(answer) => Ok(expectations(answered, &answer.value, json)),
        AnyAnswer::Best(answer) => Ok(best(answered, model, &answer.value, json)),
        AnyAnswer::Samples(answer) => Ok(sample(&answer.value, json)),
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
    let _ = writeln!(text, "radius   {} in Euclidean norm", output::number(found.radius));
    text + &answered.footer()
}

fn best(answered: &Answered, model: &SpaceModel, best: &BestState, json: bool) -> String {
    if json {
        return answered
            .object(&[("value", json!(best.score).to_string()), ("state", json!(best.state).to_string())]);
    }
    let structure: Vec<u32> = best.state.iter().map(|x| *x as u32).collect();
    let shown = model.space().show(&structure);
    format!("best     {shown}\nscore    {}\n{}", output::number(best.score), answered.footer())
}

/// CSV with a column a number of the structure, or JSON lines.
fn sample(samples: &Samples, json: bool) -> String {
    let mut text = String::new();
    if !json {
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
