//! What the text formats of Bayesian networks share: variables with named states, one conditional table per
//! variable, and the checks of both.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::tokens::shown;
use crate::error::{Error, Result};
use crate::model::{FactorGraph, NetworkType, table};

/// Tolerance for the sum of a row: three states written as 0.33 must pass, whatever the rounding.
const SUM_TOLERANCE: f64 = 0.01 + 1e-9;

/// A variable as declared in a file.
pub(super) struct Variable<'a> {
    pub name: Cow<'a, str>,
    pub states: Vec<Cow<'a, str>>,
    pub line: usize,
}

/// The conditional table of a variable as listed in a file.
pub(super) struct Table<'a> {
    pub child: Cow<'a, str>,
    pub parents: Vec<Cow<'a, str>>,
    /// Row-major, the child last.
    pub log_values: Vec<f64>,
    /// The lengths of the nested lists of the values, from the outermost one, if the format has lists.
    pub shape: Option<Vec<usize>>,
    /// The line of the variables' names.
    pub line: usize,
    /// The line in which the values start.
    pub values_line: usize,
}

/// The network of a file: its factors are the tables in the order of the file.
///
/// # Errors
/// If a name or table is missing or occurs twice, the size of a table is wrong, a row does not sum to 1 within
/// 0.01, or the variables form a directed cycle.
pub(super) fn build(variables: &[Variable<'_>], tables: &[Table<'_>], source: &str) -> Result<FactorGraph> {
    let fail = |line: usize, message: String| Error::Parse { source_name: source.into(), line, message };
    let by_name = numbered(variables).map_err(|(line, message)| fail(line, message))?;
    let sizes = variables.iter().map(|variable| variable.states.len()).collect();
    let last_line = variables.last().map_or(0, |variable| variable.line);
    let graph = FactorGraph::new(sizes).map_err(|error| fail(last_line, error.to_string()))?;
    let mut graph = graph.with_network_type(NetworkType::Bayes);
    let mut lines: Vec<Option<usize>> = vec![None; variables.len()];
    for table in tables {
        let scope = scope(table, &by_name, &mut lines).map_err(|message| fail(table.line, message))?;
        check_table(table, &scope, variables).map_err(|message| fail(table.values_line, message))?;
        graph.add_factor(&scope, &table.log_values).map_err(|error| fail(table.line, error.to_string()))?;
    }
    if let Some(v) = lines.iter().position(Option::is_none) {
        let Variable { name, line, .. } = &variables[v];
        return Err(fail(*line, format!("variable `{}` has no table", shown(name.as_bytes()))));
    }
    if let Some(v) = on_a_cycle(&graph) {
        let Variable { name, line, .. } = &variables[v];
        let message = format!(
            "variable `{}` is its own ancestor; a Bayesian network has no cycles",
            shown(name.as_bytes())
        );
        return Err(fail(lines[v].unwrap_or(*line), message));
    }
    let names = variables.iter().map(|variable| variable.name.to_string()).collect();
    let states = |variable: &Variable<'_>| variable.states.iter().map(ToString::to_string).collect();
    graph
        .with_names(names, variables.iter().map(states).collect())
        .map_err(|error| fail(last_line, error.to_string()))
}

/// The numbers of the variables by name, or an error with its line.
fn numbered<'a>(
    variables: &'a [Variable<'_>],
) -> std::result::Result<HashMap<&'a str, usize>, (usize, String)> {
    let mut by_name = HashMap::with_capacity(variables.len());
    for (v, Variable { name, states, line }) in variables.iter().enumerate() {
        let fail = |message: String| Err((*line, message));
        let shown_name = || shown(name.as_bytes());
        if let Some(first) = by_name.insert(name.as_ref(), v) {
            let first: usize = first;
            let line = variables[first].line;
            return fail(format!("variable `{}` is declared twice; first in line {line}", shown_name()));
        }
        if states.is_empty() {
            let message =
                format!("variable `{}` has no states; every variable needs at least one", shown_name());
            return fail(message);
        }
        let mut seen = HashSet::with_capacity(states.len());
        if let Some(state) = states.iter().map(Cow::as_ref).find(|&state| !seen.insert(state)) {
            let state = shown(state.as_bytes());
            return fail(format!("variable `{}` has two states named `{state}`", shown_name()));
        }
    }
    Ok(by_name)
}

/// The parents, then the child; `lines` are the lines of the tables read so far.
fn scope(
    table: &Table<'_>,
    by_name: &HashMap<&str, usize>,
    lines: &mut [Option<usize>],
) -> std::result::Result<Vec<usize>, String> {
    let find = |name: &Cow<'_, str>| {
        let found = by_name.get(name.as_ref()).copied();
        found.ok_or_else(|| format!("there is no variable `{}`", shown(name.as_bytes())))
    };
    let child = find(&table.child)?;
    let name = || shown(table.child.as_bytes());
    if let Some(line) = lines[child].replace(table.line) {
        return Err(format!("the table of `{}` is given twice; first in line {line}", name()));
    }
    let mut scope = table.parents.iter().map(find).collect::<std::result::Result<Vec<_>, _>>()?;
    scope.push(child);
    match table::first_repeated(&scope) {
        None => Ok(scope),
        Some(v) if v == child => Err(format!("variable `{}` is its own parent", name())),
        Some(v) => {
            let parent = table.parents.iter().zip(&scope).find(|(_, parent)| **parent == v);
            let parent = parent.map(|(parent, _)| shown(parent.as_bytes())).unwrap_or_default();
            Err(format!("the parent `{parent}` of `{}` is named twice", name()))
        }
    }
}

/// Checks the size, the nesting and the rows of a table.
fn check_table(
    table: &Table<'_>,
    scope: &[usize],
    variables: &[Variable<'_>],
) -> std::result::Result<(), String> {
    let lengths: Vec<usize> = scope.iter().map(|&v| variables[v].states.len()).collect();
    let (states, found) = (lengths[lengths.len() - 1], table.log_values.len());
    let name = || shown(table.child.as_bytes());
    let size = table::size(lengths.iter().copied());
    if size != Some(found) {
        let needed = size.map_or("more than fit in memory".into(), |size| size.to_string());
        return Err(format!("the table of `{}` lists {found} values, but needs {needed}", name()));
    }
    if let Some(shape) = &table.shape {
        // Some programs write one list per row, or a single list.
        let known = [&lengths[..], &[found / states, states], &[found]];
        if !known.contains(&&shape[..]) {
            let product =
                |shape: &[usize]| shape.iter().map(usize::to_string).collect::<Vec<_>>().join(" × ");
            let (found, needed) = (product(shape), product(&lengths));
            return Err(format!(
                "the lists of the table of `{}` are {found}, but should be {needed}",
                name()
            ));
        }
    }
    for (row, values) in table.log_values.chunks(states).enumerate() {
        check_sum(values).map_err(|message| {
            let mut digits = Vec::new();
            lengths[..lengths.len() - 1].iter().rev().fold(row, |rest, length| {
                digits.push(rest % length);
                rest / length
            });
            let state = |(&v, &s): (&usize, &usize)| shown(variables[v].states[s].as_bytes());
            let states: Vec<String> = scope.iter().zip(digits.iter().rev()).map(state).collect();
            let of = if states.is_empty() { String::new() } else { format!(" ({})", states.join(", ")) };
            format!("the row{of} of `{}` {message}", name())
        })?;
    }
    Ok(())
}

/// Describes the error of a row whose sum is far from 1.
pub(super) fn check_sum(row: &[f64]) -> std::result::Result<(), String> {
    let sum: f64 = row.iter().map(|log| log.exp()).sum();
    if (sum - 1.0).abs() <= SUM_TOLERANCE {
        return Ok(());
    }
    Err(format!("sums to {}; expected 1 up to 0.01", (sum * 1e6).round() / 1e6))
}

/// A variable on a directed cycle, if there is one; every variable is the last of exactly one scope.
pub(super) fn on_a_cycle(graph: &FactorGraph) -> Option<usize> {
    let n = graph.variable_count();
    let (mut waiting, mut factor_of, mut children) = (vec![0; n], vec![0; n], vec![Vec::new(); n]);
    for (f, factor) in graph.factors().enumerate() {
        let (&child, parents) = factor.scope.split_last()?;
        factor_of[child] = f;
        waiting[child] = parents.len();
        parents.iter().for_each(|&parent| children[parent].push(child));
    }
    let mut ready: Vec<usize> = (0..n).filter(|&v| waiting[v] == 0).collect();
    while let Some(v) = ready.pop() {
        for &child in &children[v] {
            waiting[child] -= 1;
            if waiting[child] == 0 {
                ready.push(child);
            }
        }
    }
    let mut v = (0..n).find(|&v| waiting[v] > 0)?;
    for _ in 0..n {
        // Every waiting variable has a waiting parent, so after n steps to parents the walk is on a cycle.
        v = *graph.factor(factor_of[v]).scope.iter().find(|&&parent| parent != v && waiting[parent] > 0)?;
    }
    Some(v)
}

/// The reason why a model is not a Bayesian network, if it is none: it has evidence, no one table per variable,
/// rows that do not sum to 1, or a directed cycle.
pub(crate) fn why_not_a_network(graph: &FactorGraph) -> Option<String> {
    if graph.has_evidence() {
        return Some("this model has been given evidence".into());
    }
    if graph.network_type() != NetworkType::Bayes {
        return Some("this model has the form MARKOV".into());
    }
    let mut has_table = vec![false; graph.variable_count()];
    for (f, factor) in graph.factors().enumerate() {
        let Some(&child) = factor.scope.last() else {
            return Some(format!("factor {f} is a constant"));
        };
        let name = graph.variable_name(child);
        if std::mem::replace(&mut has_table[child], true) {
            return Some(format!("variable `{name}` is last in the scopes of two factors"));
        }
        let rows = factor.log_values.chunks(graph.cardinalities()[child]);
        if let Some(message) = rows.into_iter().find_map(|row| check_sum(row).err()) {
            return Some(format!("a row of the table of `{name}` {message}"));
        }
    }
    if let Some(v) = has_table.iter().position(|has| !has) {
        return Some(format!("variable `{}` is last in no factor's scope", graph.variable_name(v)));
    }
    on_a_cycle(graph).map(|v| format!("variable `{}` is its own ancestor", graph.variable_name(v)))
}

/// Checks that a model can be written to a file with this extension, which holds Bayesian networks only.
///
/// # Errors
/// If the model has evidence or is not a Bayesian network: one table per variable, rows that sum to 1, no
/// directed cycle.
pub(super) fn check(graph: &FactorGraph, extension: &str) -> Result<()> {
    match why_not_a_network(graph) {
        Some(reason) => {
            Err(Error::model(format!("only a Bayesian network can be a {extension} file, but {reason}")))
        }
        None => Ok(()),
    }
}

/// The names of the variables and of their states, if the model has any.
pub(super) fn names(graph: &FactorGraph) -> impl Iterator<Item = &String> {
    let variables = graph.names().into_iter().flat_map(|names| names.variables().iter());
    let states = |v| graph.names().into_iter().flat_map(move |names| names.states(v).iter());
    variables.chain((0..graph.variable_count()).flat_map(states))
}

/// The name of a state in a file: `s2` if it is unnamed.
pub(super) fn state_name(graph: &FactorGraph, v: usize, s: usize) -> String {
    match graph.names() {
        Some(names) if !names.states(v).is_empty() => graph.state_name(v, s),
        _ => format!("s{s}"),
    }
}

/// Alters a valid file in many ways: reading it must give a model or an error with a line, and never panic.
#[cfg(test)]
pub(super) fn try_altered(text: &str, parse: impl Fn(&[u8]) -> Result<FactorGraph>) {
    use crate::random::Streams;
    let (mut read, mut refused) = (0, 0);
    let mut attempt = |bytes: &[u8]| match parse(bytes) {
        Ok(_) => read += 1,
        Err(Error::Parse { line, .. }) => {
            assert!(line > 0);
            refused += 1;
        }
        Err(error) => panic!("{error}"),
    };
    let bytes = text.as_bytes();
    (0..bytes.len()).for_each(|length| attempt(&bytes[..length]));
    let mut random = Streams::new(26, "altered files").block(0);
    let marks = b"<>&;/!-[]\"'=(){}|%\\ \n0.9e-+\xff\xc3";
    for _ in 0..4000 {
        let mut altered = bytes.to_vec();
        for _ in 0..1 + random.below(3) {
            let at = random.below(altered.len());
            match random.below(4) {
                0 => {
                    altered.remove(at);
                }
                1 => altered.insert(at, marks[random.below(marks.len())]),
                2 => altered[at] = marks[random.below(marks.len())],
                _ => {
                    let end = (at + random.below(40)).min(altered.len());
                    let part = altered[at..end].to_vec();
                    let to = random.below(altered.len());
                    altered.splice(to..to, part);
                }
            }
        }
        attempt(&altered);
    }
    assert!(read > 100 && refused > 1000, "{read} read, {refused} refused");
}
