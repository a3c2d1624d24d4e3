//! `zhat logz`, `marginals`, `entropy`, `map` and `sample`.

use std::fmt::Write;

use serde_json::{Map, Value, json};
use zhat::catalogue::{self, AnyAnswer, Choice, Plan, Settings};
use zhat::io::{self, uai};
use zhat::{Error, FactorGraph, Law, Model, Query, Result, Run};

use crate::arguments::{ModelArguments, PlainQueryArguments, QueryArguments, RunArguments, SampleArguments};
use crate::output::{self, Exit};
use crate::progress;

/// Reads a model and conditions it on the evidence that was given.
pub fn load(arguments: &ModelArguments) -> Result<Model> {
    let Model::FactorGraph(graph) = io::read_model(&arguments.model)? else {
        return Err(Error::argument("MODEL", "this kind of model takes no evidence"));
    };
    let mut evidence = match &arguments.evidence {
        Some(path) => uai::read_evidence(path, &graph)?,
        None => Vec::new(),
    };
    for item in &arguments.given {
        evidence.push(parse_given(item, &graph)?);
    }
    Ok(graph.condition(&evidence)?.into())
}

fn parse_given(item: &str, graph: &FactorGraph) -> Result<(usize, usize)> {
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

/// Reads `name=value` options of a method; a value that is JSON is taken as that, any other as text.
fn settings(items: &[String]) -> Result<Settings> {
    let mut settings = Settings::new();
    for item in items {
        let (name, value) = item
            .split_once('=')
            .ok_or_else(|| Error::argument("--set", format!("expected OPTION=VALUE, found `{item}`")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
        if settings.insert(name.into(), value).is_some() {
            return Err(Error::argument("--set", format!("`{name}` is set twice")));
        }
    }
    Ok(settings)
}

fn budgeted(arguments: &RunArguments) -> Run {
    let mut run = Run::default().with_seed(arguments.seed);
    if let Some(threads) = arguments.threads {
        run = run.with_threads(threads.into());
    }
    if let Some(memory) = arguments.memory {
        run = run.with_memory(memory);
    }
    if let Some(time) = arguments.time {
        run = run.with_time(time);
    }
    run
}

/// A question put and answered.
struct Answered {
    graph: FactorGraph,
    plan: Plan,
    answer: AnyAnswer,
    run: Run,
}

fn ask(arguments: &PlainQueryArguments, query: Query) -> Result<Answered> {
    let settings = settings(&arguments.run.set)?;
    let run = budgeted(&arguments.run);
    let model = load(&arguments.model)?;
    let plan = catalogue::choose(&model, query, &Choice::parse(&arguments.run.method), &settings, &run)?;
    let answer = plan.answer(&model, query, &settings, &progress::attend(run.clone()))?;
    let Model::FactorGraph(graph) = model else {
        return Err(Error::argument("MODEL", "this kind of model is not known to the program"));
    };
    Ok(Answered { graph, plan, answer, run })
}

impl Answered {
    fn object(&self, query: Query, value: Vec<(&str, Value)>) -> String {
        let value: Map<String, Value> =
            value.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        output::object(query.name(), value, &self.answer, &self.plan, &self.run)
    }

    /// The lines below every plain answer.
    fn footer(&self) -> String {
        let diagnostics = self.answer.diagnostics();
        let mut facts = vec![
            ("promise", output::promise(self.answer.guarantee(), diagnostics)),
            ("method", output::provenance(diagnostics)),
        ];
        facts.extend(output::remarks(diagnostics));
        output::facts(&facts)
    }

    fn exit(&self) -> Exit {
        let interrupted = self.answer.diagnostics().stopped_early && progress::is_cancelled();
        if interrupted { Exit::Interrupted } else { Exit::Answered }
    }

    /// The error for an answer of another shape than the query's, which no catalogue row gives.
    fn mismatch(&self) -> Error {
        Error::argument(
            "method",
            format!("`{}` gave an answer to another query", self.answer.diagnostics().method),
        )
    }

    fn estimate(&self) -> Result<f64> {
        match &self.answer {
            AnyAnswer::Estimate(estimate) => Ok(estimate.value),
            _ => Err(self.mismatch()),
        }
    }
}

pub fn log_partition(arguments: &QueryArguments) -> Result<Exit> {
    let answered = ask(&arguments.plain, Query::LogPartition)?;
    let value = answered.estimate()?;
    let log10 = value / std::f64::consts::LN_10;
    output::print(&if arguments.format.is_some() {
        uai::format_partition(value)
    } else if arguments.plain.run.json {
        answered.object(Query::LogPartition, vec![("value", json!(value)), ("log10", json!(log10))])
    } else {
        format!(
            "log Z    {} (log10 Z {})\n{}",
            output::number(value),
            output::number(log10),
            answered.footer()
        )
    })?;
    Ok(answered.exit())
}

pub fn entropy(arguments: &PlainQueryArguments) -> Result<Exit> {
    let answered = ask(arguments, Query::Entropy)?;
    let value = answered.estimate()?;
    output::print(&if arguments.run.json {
        answered.object(Query::Entropy, vec![("value", json!(value))])
    } else {
        let bits = output::number(value / std::f64::consts::LN_2);
        format!("entropy  {} nats ({bits} bits)\n{}", output::number(value), answered.footer())
    })?;
    Ok(answered.exit())
}

pub fn marginals(arguments: &QueryArguments) -> Result<Exit> {
    let answered = ask(&arguments.plain, Query::Marginals)?;
    let AnyAnswer::Beliefs(beliefs) = &answered.answer else {
        return Err(answered.mismatch());
    };
    let graph = &answered.graph;
    let state_names =
        |v: usize| -> Vec<String> { (0..graph.cardinalities()[v]).map(|s| graph.state_name(v, s)).collect() };
    output::print(&if arguments.format.is_some() {
        uai::format_marginals(&beliefs.value)
    } else if arguments.plain.run.json {
        let variable = |(v, p): (usize, &[f64])| json!({"name": graph.variable_name(v), "states": state_names(v), "p": p});
        let variables: Vec<Value> = beliefs.value.iter().enumerate().map(variable).collect();
        answered.object(Query::Marginals, vec![("variables", json!(variables))])
    } else {
        let row = |(v, p): (usize, &[f64])| {
            let states = state_names(v);
            let cells = states.iter().zip(p).map(|(state, p)| format!("{state}: {p:.6}"));
            vec![graph.variable_name(v), cells.collect::<Vec<_>>().join("  ")]
        };
        let rows = beliefs.value.iter().enumerate().map(row).collect();
        format!(
            "{}\n{}",
            output::table(&["variable", "probability of each state"], rows, 2),
            answered.footer()
        )
    })?;
    Ok(answered.exit())
}

/// A line of the plain table has the probabilities of at most this many joint states.
const JOINT_STATES: usize = 16;

pub fn factor_marginals(arguments: &PlainQueryArguments) -> Result<Exit> {
    let answered = ask(arguments, Query::FactorMarginals)?;
    let AnyAnswer::FactorBeliefs(beliefs) = &answered.answer else {
        return Err(answered.mismatch());
    };
    let graph = &answered.graph;
    let names = |scope: &[usize]| scope.iter().map(|&v| graph.variable_name(v)).collect::<Vec<_>>();
    let tables = graph.factors().map(|factor| factor.scope).zip(beliefs.value.iter());
    output::print(&if arguments.run.json {
        let table = |(scope, p): (&[usize], &[f64])| {
            let shape: Vec<usize> = scope.iter().map(|&v| graph.cardinalities()[v]).collect();
            json!({"scope": names(scope), "shape": shape, "p": p})
        };
        let factors: Vec<Value> = tables.map(table).collect();
        answered.object(Query::FactorMarginals, vec![("factors", json!(factors))])
    } else {
        let row = |(f, (scope, p)): (usize, (&[usize], &[f64]))| {
            vec![f.to_string(), names(scope).join(","), joint_states(graph, scope, p)]
        };
        let rows = tables.enumerate().map(row).collect();
        let header = ["factor", "variables", "probability of each joint state"];
        format!("{}\n{}", output::table(&header, rows, 3), answered.footer())
    })?;
    Ok(answered.exit())
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
        format!("{}{colon}{:.6}", states.join(","), p[entry])
    };
    let mut cells: Vec<String> = shown.iter().map(cell).collect();
    if p.len() > shown.len() {
        cells.push(format!("… and {} less likely", p.len() - shown.len()));
    }
    cells.join("  ")
}

pub fn map(arguments: &QueryArguments) -> Result<Exit> {
    let answered = ask(&arguments.plain, Query::Map)?;
    let AnyAnswer::Best(best) = &answered.answer else {
        return Err(answered.mismatch());
    };
    let (state, score) = (&best.value.state, best.value.score);
    output::print(&if arguments.format.is_some() {
        uai::format_best_state(state)
    } else if arguments.plain.run.json {
        answered.object(Query::Map, vec![("value", json!(score)), ("state", json!(state))])
    } else {
        let name =
            |(v, &s): (usize, &usize)| vec![answered.graph.variable_name(v), answered.graph.state_name(v, s)];
        let rows = state.iter().enumerate().map(name).collect();
        let table = output::table(&["variable", "state"], rows, 2);
        format!("{table}\nscore    {}\n{}", output::number(score), answered.footer())
    })?;
    Ok(answered.exit())
}

pub fn k_best(arguments: &PlainQueryArguments, k: usize) -> Result<Exit> {
    let answered = ask(arguments, Query::KBest(k))?;
    let AnyAnswer::Ranked(ranked) = &answered.answer else {
        return Err(answered.mismatch());
    };
    let graph = &answered.graph;
    output::print(&if arguments.run.json {
        let states: Vec<Value> =
            ranked.value.iter().map(|best| json!({"value": best.score, "state": best.state})).collect();
        answered.object(Query::KBest(k), vec![("states", json!(states))])
    } else {
        let scores = ranked.value.iter().map(|best| output::number(best.score));
        let header: Vec<String> = std::iter::once("variable".to_owned()).chain(scores).collect();
        let row = |v: usize| {
            let states = ranked.value.iter().map(|best| graph.state_name(v, best.state[v]));
            std::iter::once(graph.variable_name(v)).chain(states).collect()
        };
        let rows = (0..graph.variable_count()).map(row).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        format!("{}\n{}", output::table(&header, rows, usize::MAX), answered.footer())
    })?;
    Ok(answered.exit())
}

pub fn sample(arguments: &SampleArguments) -> Result<Exit> {
    let answered = ask(&arguments.plain, Query::Sample(arguments.count))?;
    let AnyAnswer::Samples(samples) = &answered.answer else {
        return Err(answered.mismatch());
    };
    let weights = match &samples.value.law {
        Law::Weighted { log_weights } => Some(log_weights),
        _ => None,
    };
    let mut text = String::new();
    if !arguments.plain.run.json {
        let names = (0..answered.graph.variable_count()).map(|v| csv_cell(&answered.graph.variable_name(v)));
        let header: Vec<String> = weights.iter().map(|_| "log_weight".to_owned()).chain(names).collect();
        let _ = writeln!(text, "{}", header.join(","));
    }
    for (i, state) in samples.value.iter().enumerate() {
        let weight = weights.map(|weights| weights[i]);
        let _ = if arguments.plain.run.json {
            let mut object = json!({"state": state});
            if let Some(weight) = weight {
                object["log_weight"] = json!(weight);
            }
            writeln!(text, "{object}")
        } else {
            let names = state.iter().enumerate().map(|(v, &s)| csv_cell(&answered.graph.state_name(v, s)));
            let cells: Vec<String> =
                weight.map(|weight| weight.to_string()).into_iter().chain(names).collect();
            writeln!(text, "{}", cells.join(","))
        };
    }
    output::print(&text)?;
    if weights.is_some() {
        eprintln!("zhat: these are weighted draws from a proposal: use each with its weight exp(log_weight)");
    }
    Ok(answered.exit())
}

/// A cell of a CSV file, quoted where it must be.
fn csv_cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
