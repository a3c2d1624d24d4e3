//! Answers about a factor graph, in words and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};
use zhat::catalogue::AnyAnswer;
use zhat::io::uai;
use zhat::{Beliefs, BestState, Error, FactorBeliefs, FactorGraph, Law, Query, Result, Samples, decimal};

use super::{Answered, Style, csv_line, explain_weights};
use crate::output::{self, json_value};

/// A variable and its state, from `NAME=STATE`.
pub fn parse_given(item: &str, graph: &FactorGraph) -> Result<(usize, usize)> {
    let fail = |message: String| Error::argument("--given", message);
    let (name, state) =
        item.split_once('=').ok_or_else(|| fail(format!("expected NAME=STATE, found `{item}`")))?;
    let v = graph.find_variable(name).ok_or_else(|| fail(format!("there is no variable `{name}`")))?;
    let s = graph.find_state(v, state).ok_or_else(|| {
        let states: Vec<String> =
            (0..graph.cardinalities()[v].min(8)).map(|s| graph.state_name(v, s)).collect();
        let more = if graph.cardinalities()[v] > 8 { ", …" } else { "" };
        fail(format!("variable `{name}` has no state `{state}`; it has {}{more}", states.join(", ")))
    })?;
    Ok((v, s))
}

/// The answer as it is printed.
pub(super) fn text(answered: &Answered, graph: &FactorGraph, style: Style) -> Result<String> {
    match &answered.answer {
        AnyAnswer::Estimate(answer) if answered.name == Query::Entropy.name() => {
            Ok(entropy(answered, answer.value, style))
        }
        AnyAnswer::Estimate(answer) => Ok(log_partition(answered, answer.value, style)),
        AnyAnswer::Beliefs(answer) => Ok(marginals(answered, graph, &answer.value, style)),
        AnyAnswer::FactorBeliefs(answer) => Ok(factor_marginals(answered, graph, &answer.value, style)),
        AnyAnswer::Best(answer) => Ok(map(answered, graph, &answer.value, style)),
        AnyAnswer::Ranked(answer) => Ok(k_best(answered, graph, &answer.value, style)),
        AnyAnswer::Samples(answer) => Ok(sample(answered, graph, &answer.value, style)),
        _ => Err(answered.mismatch()),
    }
}

fn log_partition(answered: &Answered, value: f64, style: Style) -> String {
    let log10 = value / std::f64::consts::LN_10;
    match style {
        Style::Uai => uai::format_partition(value),
        Style::Json => answered
            .object(&[("value", json_value(value).to_string()), ("log10", json_value(log10).to_string())]),
        Style::Plain => {
            let numbers =
                (answered.stated(value, 0, 1.0), answered.stated(value, 0, std::f64::consts::LN_10));
            format!("log Z    {} (log10 Z {})\n{}", numbers.0, numbers.1, answered.footer())
        }
    }
}

fn entropy(answered: &Answered, value: f64, style: Style) -> String {
    if style == Style::Json {
        return answered.object(&[("value", json_value(value).to_string())]);
    }
    let bits = answered.stated(value, 0, std::f64::consts::LN_2);
    format!("entropy  {} nats ({bits} bits)\n{}", answered.stated(value, 0, 1.0), answered.footer())
}

fn marginals(answered: &Answered, graph: &FactorGraph, beliefs: &Beliefs, style: Style) -> String {
    let state_names =
        |v: usize| -> Vec<String> { (0..graph.cardinalities()[v]).map(|s| graph.state_name(v, s)).collect() };
    match style {
        Style::Uai => uai::format_marginals(beliefs),
        Style::Json => {
            let variable = |(v, p): (usize, &[f64])| json!({"name": graph.variable_name(v), "states": state_names(v), "p": p});
            let variables: Vec<Value> = beliefs.iter().enumerate().map(variable).collect();
            answered.object(&[("variables", json!(variables).to_string())])
        }
        Style::Plain => {
            let row = |(v, p): (usize, &[f64])| {
                let states = state_names(v);
                let cells =
                    states.iter().zip(p).map(|(state, p)| format!("{state}: {}", decimal::probability(*p)));
                vec![graph.variable_name(v), cells.collect::<Vec<_>>().join("  ")]
            };
            let rows = beliefs.iter().enumerate().map(row).collect();
            let table = output::table(&["variable", "probability of each state"], rows, 2);
            format!("{table}\n{}", answered.footer())
        }
    }
}

/// A line of the plain table has the probabilities of at most this many joint states.
const JOINT_STATES: usize = 16;

fn factor_marginals(
    answered: &Answered,
    graph: &FactorGraph,
    beliefs: &FactorBeliefs,
    style: Style,
) -> String {
    let names = |scope: &[usize]| scope.iter().map(|&v| graph.variable_name(v)).collect::<Vec<_>>();
    let tables = graph.factors().map(|factor| factor.scope).zip(beliefs.iter());
    if style == Style::Json {
        let table = |(scope, p): (&[usize], &[f64])| {
            let shape: Vec<usize> = scope.iter().map(|&v| graph.cardinalities()[v]).collect();
            json!({"scope": names(scope), "shape": shape, "p": p})
        };
        let factors: Vec<Value> = tables.map(table).collect();
        return answered.object(&[("factors", json!(factors).to_string())]);
    }
    let row = |(f, (scope, p)): (usize, (&[usize], &[f64]))| {
        vec![f.to_string(), names(scope).join(","), joint_states(graph, scope, p)]
    };
    let rows = tables.enumerate().map(row).collect();
    let header = ["factor", "variables", "probability of each joint state"];
    format!("{}\n{}", output::table(&header, rows, 3), answered.footer())
}

/// `0,1: 0.250000  1,1: 0.750000`; of a large table the likeliest, in its order.
fn joint_states(graph: &FactorGraph, scope: &[usize], p: &[f64]) -> String {
    let mut shown: Vec<usize> = (0..p.len()).collect();
    if p.len() > JOINT_STATES {
        shown.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
        shown.truncate(JOINT_STATES);
        shown.sort_unstable();
    }
    let cell = |&entry: &usize| {
        let (mut rest, mut states) = (entry, Vec::new());
        for &v in scope.iter().rev() {
            states.push(graph.state_name(v, rest % graph.cardinalities()[v]));
            rest /= graph.cardinalities()[v];
        }
        states.reverse();
        let colon = if scope.is_empty() { "" } else { ": " };
        format!("{}{colon}{}", states.join(","), decimal::probability(p[entry]))
    };
    let mut cells: Vec<String> = shown.iter().map(cell).collect();
    if p.len() > shown.len() {
        cells.push(format!("… and {} less likely", p.len() - shown.len()));
    }
    cells.join("  ")
}

fn map(answered: &Answered, graph: &FactorGraph, best: &BestState, style: Style) -> String {
    match style {
        Style::Uai => uai::format_best_state(&best.state),
        Style::Json => answered.object(&[
            ("value", json_value(best.score).to_string()),
            ("state", json!(best.state).to_string()),
        ]),
        Style::Plain => {
            let name = |(v, &s): (usize, &usize)| vec![graph.variable_name(v), graph.state_name(v, s)];
            let rows = best.state.iter().enumerate().map(name).collect();
            let table = output::table(&["variable", "state"], rows, 2);
            format!("{table}\nscore    {}\n{}", output::number(best.score), answered.footer())
        }
    }
}

fn k_best(answered: &Answered, graph: &FactorGraph, ranked: &[BestState], style: Style) -> String {
    if style == Style::Json {
        let state = |best: &BestState| json!({"value": json_value(best.score), "state": best.state});
        let states: Vec<Value> = ranked.iter().map(state).collect();
        return answered.object(&[("states", json!(states).to_string())]);
    }
    let scores = ranked.iter().map(|best| output::number(best.score));
    let header: Vec<String> = std::iter::once("variable".to_owned()).chain(scores).collect();
    let row = |v: usize| {
        let states = ranked.iter().map(|best| graph.state_name(v, best.state[v]));
        std::iter::once(graph.variable_name(v)).chain(states).collect()
    };
    let rows = (0..graph.variable_count()).map(row).collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.footer())
}

fn sample(answered: &Answered, graph: &FactorGraph, samples: &Samples, style: Style) -> String {
    let weights = match &samples.law {
        Law::Weighted { log_weights } => Some(log_weights),
        _ => None,
    };
    let mut text = String::new();
    if style == Style::Plain && answered.first == 0 {
        let names = (0..graph.variable_count()).map(|v| graph.variable_name(v));
        csv_line(&mut text, weights.iter().map(|_| "log_weight".to_owned()).chain(names));
    }
    for (i, state) in samples.iter().enumerate() {
        let weight = weights.map(|weights| weights[i]);
        if style == Style::Json {
            let mut object = json!({"state": state});
            if let Some(weight) = weight {
                object["log_weight"] = json_value(weight);
            }
            let _ = writeln!(text, "{object}");
        } else {
            let names = state.iter().enumerate().map(|(v, &s)| graph.state_name(v, s));
            csv_line(&mut text, weight.map(|weight| weight.to_string()).into_iter().chain(names));
        }
    }
    if weights.is_some() {
        explain_weights();
    }
    text
}
